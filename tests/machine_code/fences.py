"""Whether flags order what lies before and behind them in the machine code of fused kernels. Of the PTX
memory model, on the machine:

- A flag is raised by a strong store that goes to all of the system, behind a fence of the same kind with no
  access to global memory in between.
- A flag is looked at by a strong load, and what peers have written is read only after the first-level cache
  is cleared of what was there.
- No load takes the path of constant memory, which such fences leave alone."""

import re

OPERATION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")
# Ways to global memory: of any address, or of one that is known to be of it.
STORES, LOADS = ("ST", "STG"), ("LD", "LDG")


def operations(lines):
    return [match.group(1).rstrip(".") for match in map(OPERATION.search, lines) if match]


def parts(operation):
    return operation.split(".")


def is_access(operation):
    return parts(operation)[0] in STORES + LOADS + ("ATOM", "ATOMG", "RED", "REDG")


def is_strong(operation):
    return "STRONG" in parts(operation)


def wrong(code):
    """What is wrong with a kernel's operations, one after another."""
    found = []
    releases = acquires = 0
    for at, operation in enumerate(code):
        name = parts(operation)[0]
        if "CONSTANT" in parts(operation):
            found.append(f"{operation} reads behind the fences' back")
        if not is_access(operation) or not is_strong(operation):
            continue
        if "SYS" not in parts(operation):
            found.append(f"{operation} is not for all of the system")
        elif name in STORES:
            releases += 1
            before = next((o for o in reversed(code[:at]) if is_access(o) or o.startswith("MEMBAR")), "")
            if not re.fullmatch(r"MEMBAR\.(ALL|SC)\.SYS", before):
                found.append(f"{operation} comes behind {before or 'nothing'}, not behind a fence")
        elif name in LOADS:
            behind = next((o for o in code[at + 1:] if is_access(o) or o.startswith("CCTL")), "")
            acquires += behind == "CCTL.IVALL"
        else:
            found.append(f"{operation} is an atomic operation on a peer's memory")
    if releases == 0:
        found.append("no flag is raised")
    if acquires == 0:
        found.append("no flag is looked at, or what is behind it is not read anew")
    return found
