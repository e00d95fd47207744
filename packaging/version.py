"""Version of the wheel: the project's, and "+cpu" if it is built without CUDA.

TERSE_WHEEL_CUDA says which (ON, OFF); without it there is CUDA if there is an nvcc, as CMake looks for it."""

import os
import re
import shutil

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def has_cuda(environment=os.environ):
    known = environment.get("TERSE_WHEEL_CUDA")
    if known is not None:
        return known == "ON"
    path = os.pathsep.join([environment.get("PATH", ""), os.path.join(environment.get("CUDA_PATH", "/"), "bin")])
    return bool(environment.get("CUDACXX")) or shutil.which("nvcc", path=path) is not None


def version(environment=os.environ):
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        number = re.search(r"project\(terse VERSION ([0-9.]+)", file.read()).group(1)
    return number if has_cuda(environment) else number + "+cpu"


def dynamic_metadata(field, settings=None):
    """Called by scikit-build-core."""
    if field != "version" or settings:
        raise ValueError("only the version, without settings")
    return version()
