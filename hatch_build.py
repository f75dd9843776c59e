"""Build hook: compile the kernels into the wheel, or build a pure Python wheel.

A failed compilation does not fail the installation: numpy or torch computes the same.
"""

import importlib.util
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILER = Path("src/sottovoce/kernels.py")


class KernelHook(BuildHookInterface):
    """Runs before a wheel or an editable install is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        compiler = _load(root / COMPILER)
        for source in compiler.KERNELS:
            try:
                built = compiler.build(source)
            except compiler.NotBuilt as reason:
                self.app.display_info(f"Skipped the compiled kernel {source.stem}: {reason}.")
                continue
            build_data["artifacts"].append(f"/{built.relative_to(root).as_posix()}")
            # The library depends on the platform, not on the Python version.
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"


def _load(path: Path) -> ModuleType:
    """Load a module by its path, because the package is not installed yet."""
    spec = importlib.util.spec_from_file_location("sottovoce_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
