"""What an ELF file wants of others."""

import re
import subprocess


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(path):
    """The libraries that it is linked to, by name."""
    return set(re.findall(r"NEEDED.*\[(.*)\]", _output("readelf", "-d", path)))


def versions(path, of):
    """{"2.14", ...}: the versions of `of` (GLIBC, GLIBCXX, ...) that it cannot do without."""
    return set(re.findall(rf"\b{of}_([0-9.]+)\b", _output("objdump", "-T", path)))


def named(path):
    """The libraries that it wants versions of: an older loader looks for a function where it was when
    this was linked, and nowhere else."""
    return set(re.findall(r"File: (\S+)", _output("readelf", "-V", "-W", path)))


def newest(found):
    return max((tuple(int(part) for part in version.split(".")) for version in found), default=())


def _output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
