"""Lets a PyTorch that is built for CUDA be imported where there is no CUDA: without_cuda.py TORCH_FOLDER

PyPI's PyTorch for Linux needs a dozen libraries of CUDA, of several GB, though it runs on the CPU alone.
In their place come libraries of the same names, in PyTorch's own folder, whose functions all say that
there is no device."""

import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

NO_DEVICE = 100  # cudaErrorNoDevice


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def symbols(library, which):
    """name -> its version; "": it has none."""
    for line in output("nm", "-D", which, library).splitlines():
        name, _, version = line.split()[-1].partition("@")
        yield name, version.strip("@")


def needed(library):
    """The libraries that it is linked to, by name, each with the versions that it wants of it."""
    wanted = {name: set() for name in re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", library))}
    file = None
    for line in output("readelf", "-V", "-W", library).splitlines():
        found = re.search(r"File: (\S+)", line)
        file = found.group(1) if found else file
        version = re.search(r"  Name: (\S+)", line)
        if version and file in wanted:
            wanted[file].add(version.group(1))
    return wanted


def source(functions):
    """Some give a text, which may be printed."""
    for name in sorted(functions):
        if re.search("String$|Name$", name):
            yield f'const char* {name}(void) {{ return "there is no CUDA"; }}'
        else:
            yield f"long {name}(void) {{ return {NO_DEVICE}; }}"


def script(versions):
    """A linker's version script: version -> functions."""
    for version, functions in sorted(versions.items()):
        yield f"{version} {{ global: {' '.join(name + ';' for name in sorted(functions))} }};"


def build(path, versions, plain):
    with tempfile.TemporaryDirectory() as scratch:
        with open(scratch + "/functions.c", "w", encoding="utf-8") as file:
            file.write("\n".join(source(plain.union(*versions.values()))) + "\n")
        with open(scratch + "/versions", "w", encoding="utf-8") as file:
            file.write("\n".join(script(versions)) + "\n")
        with_versions = [f"-Wl,--version-script={scratch}/versions"] if versions else []
        subprocess.run(["cc", "-w", "-fno-builtin", "-nostdlib", "-shared", "-fPIC",
                        scratch + "/functions.c", f"-Wl,-soname,{os.path.basename(path)}",
                        *with_versions, "-o", path], check=True)


def main():
    folder = os.path.join(sys.argv[1], "lib")
    libraries = [path for path in glob.glob(folder + "/*.so*") if os.path.isfile(path)]
    present = {os.path.basename(path) for path in libraries}
    absent = collections.defaultdict(set)
    for library in libraries:
        for name, versions in needed(library).items():
            if name not in present and re.match("lib(cu|nv|nccl)", name):
                absent[name] |= versions
    defined = {name for library in libraries for name, _ in symbols(library, "--defined-only")}
    of_version = collections.defaultdict(set)
    for library in libraries:
        for name, version in symbols(library, "--undefined-only"):
            # What a library of CUDA's has; PyTorch's own and the system's have other names.
            if name not in defined and re.match(r"_*(cu|nv|nccl|Nv)", name):
                of_version[version].add(name)
    # Without a version nothing but its name tells whose function it is.
    of_nccl = {function for function in of_version[""] if re.match("p?nccl", function)}
    plain_of = {"libnccl": of_nccl, "libcudart": of_version[""] - of_nccl}
    for name, versions in absent.items():
        plain = plain_of.get(name.partition(".")[0], set())
        build(f"{folder}/{name}", {version: of_version[version] for version in versions}, plain)
    print(f"{len(absent)} libraries of CUDA stood in for")


main()
