"""De-identify a CSV file, and print its privacy statement.

    python examples/deidentify_csv.py

The script creates the file. For large files, use the command line, which streams:

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

# Names and places are replaced by others, with epsilon 3 each. Types without a public list of
# values, such as telephone numbers, become placeholders at no cost.
deid = Deidentifier(
    detector="fast",
    setting=Setting(strategy="entity", epsilon=3.0),
    per_type=dict.fromkeys(("DATE", "EMAIL", "PHONE", "TIME"), Setting(strategy="typed")),
)

with tempfile.TemporaryDirectory() as folder:
    source, target = Path(folder, "calls.csv"), Path(folder, "released.csv")
    source.write_text(CALLS)
    table = csv.read_csv(source)
    # Only the named columns are released: the ticket is dropped, the caller gets a pseudonym.
    released = release_arrow(deid, table, TextColumns(text="said", user="caller"))
    csv.write_csv(released, target)
    for before, after in zip(table["said"].to_pylist(), released["said"].to_pylist(), strict=True):
        print(f"- {before}\n+ {after}")
    print(f"\n{target.name}: {target.read_text().splitlines()[0]}, {released.num_rows} rows\n")

print("\n".join(deid.statement().lines()))
