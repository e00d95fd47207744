"""A table of what kernels take, by architecture: resources.py LISTINGS COMPILER LIBRARY, with the
tools that disassemble.py has found or loaded for LISTINGS. Ends with 1 if a kernel spills registers, or keeps
anything in local memory."""

import collections
import re
import subprocess
import sys

import disassemble


def usage(tools, library):
    """By architecture, each kernel's registers and bytes of local memory."""
    text = subprocess.run([tools + "/cuobjdump", "-res-usage", library], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    kernels, architecture = collections.defaultdict(list), None
    for line in text.splitlines():
        found = re.match(r"arch = (sm_\d+)", line)
        if found:
            architecture = found.group(1)
        found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", line)
        if found:
            registers, stack, local = map(int, found.groups())
            kernels[architecture].append((registers, stack + local))
    return kernels


def main():
    listings, compiler, library = sys.argv[1:]
    tools = disassemble.find_tools(listings, compiler)
    if tools is None:
        sys.exit("there is no cuobjdump")
    kernels = usage(tools, library)
    if not kernels:
        sys.exit(f"{library} has no kernels")
    print("| architecture | kernels | registers: median | max | with local memory |\n"
          "|---|---|---|---|---|")
    spilling = 0
    for architecture in sorted(kernels, key=lambda name: int(name[3:])):
        registers = sorted(taken for taken, _ in kernels[architecture])
        local = sum(1 for _, memory in kernels[architecture] if memory > 0)
        spilling += local
        print(f"| {architecture} | {len(registers)} | {registers[len(registers) // 2]} "
              f"| {registers[-1]} | {local} |")
    sys.exit(1 if spilling else 0)


if __name__ == "__main__":
    main()
