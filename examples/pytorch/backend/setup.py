"""Builds the backend for the torch of the Python that runs it, and against hostnccl's libnccl.so.2:
its folder is in TERSE_HOSTNCCL, or else where the preset `host` builds it."""

import os

import setuptools
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
LIBRARY = os.path.abspath(os.environ.get("TERSE_HOSTNCCL",
                                         ROOT + "/build/host/lib/terse/hostnccl"))
# As it is installed, with its headers beside it; or in this repository.
HEADERS = [path for path in (LIBRARY + "/include", ROOT + "/include/nccl") if os.path.isdir(path)]

# All that is there already: the source that is named includes the others, whose age nobody looks at.
REBUILD = {"build": {"force": True}}

os.chdir(HERE)
setuptools.setup(
    name="torch_hostnccl",
    version="0.1",
    description="torch.distributed on NCCL's interface over host memory",
    packages=["torch_hostnccl"],
    options=REBUILD,
    ext_modules=[CppExtension(
        "torch_hostnccl._C",
        ["torch_hostnccl/csrc/all.cc"],
        include_dirs=HEADERS[:1],
        # Under its soname: the library that a program has of that name is the one that is called.
        extra_link_args=[LIBRARY + "/libnccl.so.2", f"-Wl,-rpath,{LIBRARY}"],
        extra_compile_args=["-O1", "-g0", "-Wall"])],
    cmdclass={"build_ext": BuildExtension})
