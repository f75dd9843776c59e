"""The page of architectures, from benchmarks/results/architectures.json."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from docs.generators.tables import Rows, table

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "architectures.json"
PAGE = """\
# Architectures

<!-- Made by `make docs` from benchmarks/results/architectures.json; do not edit. -->

Your model trains as it is: no layer is replaced or wrapped. The usual layers have fast rules, and
parameters used anywhere else are followed through the operations that use them. These tables list
what is tested, with small configurations and random weights. Other models of the same building
blocks work too; one that does not is refused with an error, never trained inexactly.

**exact**: the gradient of every example, from one backward pass over all, equals that of a loop
over the examples within {tolerance:g} of the largest number. Each model here also took steps of
private training with the neighbour check on. The last column is Opacus {opacus}, measured in the
same way, as its documentation says: `GradSampleModule(model)`, after `ModuleValidator.fix(model)`
where its validator asks for it.

```
python benchmarks/architectures.py
```

{tables}
## If your model is refused

The error names the parameter and the operation. Then:

- put the examples in the first dimension of that operation (not time), or
- let the module run on one example at a time, exactly but more slowly:
  `sottovoce.training.layers.one_by_one(YourModule)`, before `PrivateTraining`, or
- [write a rule](train.md#methods), or
- use `Plan(method="textbook")`, one backward pass per example, which needs no rules.

BatchNorm mixes the examples of a batch, so no method can train it: use GroupNorm or LayerNorm.
Mixture-of-experts models are exact, but an auxiliary loss that balances the experts compares
examples, so leave it out.
"""


def page() -> str:
    data = json.loads(RESULTS.read_text())
    parts = []
    for family in dict.fromkeys(row["family"] for row in data["architectures"]):
        rows: Rows = [
            {
                "architecture": row["name"],
                "sottovoce": row["sottovoce"],
                "Opacus": _short(row["opacus"]),
            }
            for row in data["architectures"]
            if row["family"] == family
        ]
        parts.append(f"## {family}\n\n{table(rows)}\n")
    return PAGE.format(
        tolerance=data["tolerance"],
        opacus=data["versions"]["opacus"],
        tables="\n".join(parts),
    )


def _short(outcome: str) -> str:
    """`code` of error messages as code; they are long."""
    kind, found, message = outcome.partition(": ")
    return f"{kind}: `{message.replace('`', '')[:100]}`" if found else outcome


def summary(data: dict[str, Any]) -> Rows:
    """How many of each family are exact, by system."""
    rows: Rows = []
    for family in dict.fromkeys(row["family"] for row in data["architectures"]):
        members = [row for row in data["architectures"] if row["family"] == family]
        row: dict[str, Any] = {"family": family, "architectures": len(members)}
        for system, title in (("sottovoce", "sottovoce"), ("opacus", "Opacus")):
            kinds = Counter(each[system].split(":")[0].split()[0] for each in members)
            row[title] = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        rows.append(row)
    return rows
