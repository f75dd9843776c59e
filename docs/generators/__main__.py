"""`python -m docs.generators` writes the pages that come from code, results and contracts."""

from docs.generators.pages import write

for name in write():
    print(f"wrote {name}")
