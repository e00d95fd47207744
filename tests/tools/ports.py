"""Ports for tests: the lab's."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench/netlab"))
from free_port import free_port  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
