"""Which terse, and which NCCL beneath it, was measured."""

import ctypes
import hashlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "netlab"))
from surroundings import LibraryError  # pylint: disable=wrong-import-position


def digest(paths):
    """Of files, and of what lies in folders: libraries and Python sources. 16 hexadecimal digits."""
    found = hashlib.sha256()
    for path in paths:
        names = [path]
        if os.path.isdir(path):
            names = sorted(os.path.join(where, name) for where, _, files in os.walk(path)
                           for name in files if name.endswith((".py", ".so")))
        for name in names:
            with open(name, "rb") as file:
                found.update(os.path.basename(name).encode() + b"\0" + file.read() + b"\0")
    return found.hexdigest()[:16]


def _terse(build_dir):
    """libterse. Raises LibraryError."""
    path = os.path.join(build_dir, "lib", "libterse.so")
    if not os.path.exists(path):
        raise LibraryError(f"{path} is not there: is the build complete?")
    return ctypes.CDLL(path)


def takes_by_name(build_dir, scheme):
    """Whether libterse's own calls take it: presets and rules are the preload library's."""
    os.environ["TERSE_LOG"] = "off"  # it would say why not
    terse, parsed = _terse(build_dir), ctypes.c_void_p()
    if terse.terseSchemeParse(scheme.encode(), ctypes.byref(parsed)) != 0:
        return False
    terse.terseSchemeDestroy(parsed)
    return True


def versions(build_dir):
    """terse's, and digests: what a preset is, and what codes mean, is in the library; how NCCL sums,
    and how long it takes, in the transport, hostnccl. None of what is not built. Raises
    LibraryError."""
    lib = os.path.join(build_dir, "lib")
    libraries = {"library": os.path.join(lib, "libterse_nccl.so"),
                 "transport": os.path.join(lib, "terse", "hostnccl", "libnccl.so.2")}
    code = ctypes.c_int()
    _terse(build_dir).terseGetVersion(ctypes.byref(code))
    return {"terse": f"terse {code.value // 10000}.{code.value // 100 % 100}.{code.value % 100}",
            **{name: digest([path]) if os.path.exists(path) else None
               for name, path in libraries.items()}}
