"""Writes assembly and version scripts of libraries that stand for an older glibc at link time:
stubs.py VERSION FOLDER LIBRARY...

A library of glibc has a function in every version that it ever had. The stub of LIBRARY has each in
the newest version that VERSION knows, and nothing that is newer: what is linked with it runs on
VERSION, or is not linked."""

import collections
import os
import re
import subprocess
import sys

# ` 12: 0000000000087310    31 FUNC    GLOBAL DEFAULT   16 name@@GLIBC_2.2.5`
SYMBOL = re.compile(r"\s*\d+: (?P<at>[0-9a-f]+)\s+(?P<size>\S+) (?P<kind>FUNC|IFUNC|OBJECT) +(?P<binding>\S+) +"
                    r"DEFAULT +(?P<section>\d+) (?P<name>[^@]+)@@?GLIBC_(?P<version>[0-9.]+)$")

# What is in libc now and had a library of its own before; it has a newer version since it moved. The
# older loader looks where the linker has found it, and nowhere else.
MOVED = (("libdl.so.2", re.compile(r"dl\w+$")),
         ("libpthread.so.0", re.compile(r"(_*pthread|sem|thrd|mtx|cnd|tss)_|call_once$")),
         ("librt.so.1", re.compile(r"(shm|mq|aio|lio|timer)_")))

# Of the stub's own archive (nonshared.c), which calls the version by name.
OURS = {"__libc_start_main"}

Symbol = collections.namedtuple("Symbol", "name version at size data weak")

LIBC = "libc.so.6"


def number(version):
    return tuple(int(part) for part in version.split("."))


def symbols(library, limit):
    """Each name once, in the newest version that is not above `limit`; and the names that have a newer."""
    found, newer = {}, set()
    table = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    for match in filter(None, map(SYMBOL.match, table.splitlines())):
        symbol = Symbol(match["name"], match["version"], match["at"], int(match["size"], 0),
                        match["kind"] == "OBJECT", match["binding"] == "WEAK")
        known = found.get(symbol.name)
        if number(symbol.version) > number(limit):
            newer.add(symbol.name)
        elif known is None or number(known.version) < number(symbol.version):
            found[symbol.name] = symbol
    return sorted(found.values()), newer


def home(name):
    """Which library had what has moved to libc; None: one that has no stub."""
    return next((library for library, names in MOVED if names.match(name)),
                LIBC if name in OURS else None)


def assembly(entries):
    """Functions at one place, for nobody runs them. Data of their size, where they have it: a
    program gets copies, and names of one thing stay names of one, for which the linker takes them
    only where all but one are weak: environ, _environ and __environ."""
    lines = [".text"]
    for symbol in entries:
        if not symbol.data:
            lines += [f".globl {label(symbol)}", f".type {label(symbol)}, %function",
                      f"{label(symbol)}:", *alias(symbol)]
    lines += ["nop", ".bss"]
    places = collections.defaultdict(list)
    for symbol in entries:
        if symbol.data:
            places[symbol.at].append(symbol)
    for names in places.values():
        lines.append(".balign 32")
        for symbol in names:
            lines += [f".{'weak' if symbol.weak else 'globl'} {label(symbol)}",
                      f".type {label(symbol)}, %object",
                      f".size {label(symbol)}, {symbol.size}", f"{label(symbol)}:", *alias(symbol)]
        lines.append(f".skip {max([1] + [symbol.size for symbol in names])}")
    return "\n".join(lines + ['.section .note.GNU-stack,"",%progbits', ""])


def label(symbol):
    return "stub_" + symbol.name if symbol.name in OURS else symbol.name


def alias(symbol):
    return ([f".symver {label(symbol)}, {symbol.name}@GLIBC_{symbol.version}"]
            if symbol.name in OURS else [])


def version_script(entries):
    versions = collections.defaultdict(str)
    for symbol in entries:
        versions[symbol.version] += "" if symbol.name in OURS else symbol.name + "; "
    return "".join(f"GLIBC_{version} {{ {names}}};\n" for version, names in sorted(versions.items()))


def main():
    limit, folder, *libraries = sys.argv[1:]
    stubs = collections.defaultdict(list)
    for library in libraries:
        name = os.path.basename(library)
        entries, newer = symbols(library, limit)
        for symbol in entries:
            moved = name == LIBC and symbol.name in newer
            stubs[home(symbol.name) if moved else name].append(symbol)
    for name in map(os.path.basename, libraries):
        entries = stubs[name]
        for suffix, text in (".s", assembly(entries)), (".map", version_script(entries)):
            with open(f"{folder}/{name}{suffix}", "w", encoding="ascii") as file:
                file.write(text)


main()
