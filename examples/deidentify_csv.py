"""De-identify a CSV file, and hand over the statement with it.

    python examples/deidentify_csv.py

The file is made on the spot. For files of any size the command line does the same, streaming:

    sottovoce deid run calls.csv -o released.csv --text-column said --user-column caller \\
        --drop-rest --epsilon 3
"""

import tempfile
from pathlib import Path

from pyarrow import csv

from sottovoce.deid import Deidentifier, Setting
from sottovoce.deid.files.tables import TextColumns, release_arrow

CALLS = """\
ticket,caller,said
1,ann,my name is Maria Lopez and my number is 555-0123
2,ann,please tell Maria to send the refill to ann@mail.example before half past three
3,bob,I am calling from Chicago about the visit on March 3rd
4,cleo,can Dr. Brown call me back at 555-0188
"""

# A name or a place becomes another one, and each may cost an epsilon of 3; what has no list of
# public values, such as a telephone number, becomes a placeholder and costs nothing.
deid = Deidentifier(
    detector="fast",
    setting=Setting(strategy="entity", epsilon=3.0),
    per_type=dict.fromkeys(("DATE", "EMAIL", "PHONE", "TIME"), Setting(strategy="typed")),
)

with tempfile.TemporaryDirectory() as folder:
    source, target = Path(folder, "calls.csv"), Path(folder, "released.csv")
    source.write_text(CALLS)
    table = csv.read_csv(source)
    # Only named columns come out: the ticket stays here, the caller gets a pseudonym.
    released = release_arrow(deid, table, TextColumns(text="said", user="caller"))
    csv.write_csv(released, target)
    for before, after in zip(table["said"].to_pylist(), released["said"].to_pylist(), strict=True):
        print(f"- {before}\n+ {after}")
    print(f"\n{target.name}: {target.read_text().splitlines()[0]}, {released.num_rows} rows\n")

print("\n".join(deid.statement().lines()))
