"""Whether flags order what lies before and behind them in the machine code of fused kernels. Of the PTX
memory model, on the machine:

- A flag is raised by a strong store that goes to all of the system, behind a fence of the same kind with no
  access to global memory in between.
- A flag is looked at by a strong load, and what peers have written is read only after the first-level cache
  is cleared of what was there.
- No load takes the path of constant memory, which such fences leave alone."""

import re

OPERATION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*)|^(\.L_\w+):")
# Looks that say nothing of what peers have written: whether to give up, at the beginning (4) and while waiting
# (3); whether a flag has come meanwhile; and whether there is a report.
LOOKS = 9
# Ways to global memory: of any address, or of one that is known to be of it.
STORES, LOADS = ("ST", "STG"), ("LD", "LDG")


def operations(lines):
    """Names of operations; "?NAME" where a predicate decides on a fence, and what is behind it does not go by the
    same one; "LABEL" where others may jump to."""
    found, decides = [], {}  # predicates of fences
    for predicate, name, operands, label in (match.groups() for match in map(OPERATION.search, lines) if match):
        if label:
            found.append("LABEL")
            continue
        name = name.rstrip(".")
        fence = name.startswith(("MEMBAR", "CCTL"))
        # What names a predicate may give it another value.
        decides = {at: by for at, by in decides.items() if by.strip("@! ") not in re.findall(r"\w+", operands)}
        if is_access(name):
            for at, by in decides.items():
                if by == predicate:
                    found[at] = found[at].removeprefix("?")
            decides = {}
        elif fence and predicate:
            decides[len(found)] = predicate
        found.append(("?" if fence and predicate else "") + name)
    return found


def parts(operation):
    return operation.split(".")


def is_access(operation):
    return parts(operation)[0] in STORES + LOADS + ("ATOM", "ATOMG", "RED", "REDG")


def matters(operation):
    """True for what may not stand between a flag and its fence."""
    return is_access(operation) or re.match(r"\??(MEMBAR|CCTL)|LABEL", operation) is not None


def is_strong(operation):
    return "STRONG" in parts(operation)


def wrong(code):
    """What is wrong with a kernel's operations, one after another."""
    found = []
    releases = acquires = looks = 0
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
            before = next(filter(matters, reversed(code[:at])), "nothing")
            if not re.fullmatch(r"MEMBAR\.(ALL|SC)\.SYS", before):
                found.append(f"{operation} comes behind {before}, not behind a fence")
        elif name in LOADS:
            behind = next(filter(matters, code[at + 1:]), "nothing")
            acquires += behind == "CCTL.IVALL"
            looks += behind != "CCTL.IVALL"
        else:
            found.append(f"{operation} is an atomic operation on a peer's memory")
    if releases == 0:
        found.append("no flag is raised")
    if acquires == 0 or looks > LOOKS:
        found.append("what is behind a flag is not read anew")
    return found
