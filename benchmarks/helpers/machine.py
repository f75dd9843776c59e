"""What a result was measured on."""

import platform
from importlib.metadata import version
from pathlib import Path


def cpu_name() -> str:
    """The processor as Linux names it, or the architecture."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions(*packages: str) -> dict[str, str]:
    """Of Python and of these packages."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
