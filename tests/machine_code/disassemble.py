"""Lists the machine code in object files, a file for each kernel: disassemble.py OUT COMPILER OBJECT...

OUT gets a folder for each architecture, sm_90, with KERNEL.sass by number and an index of them:
"NUMBER NAME" a line; and OUT/made, when all is there. cuobjdump and nvdisasm are those beside COMPILER,
of PATH, or PyPI's, which are loaded into a folder beside OUT. Where there are none OUT/missing says why, and
nothing else is there."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv

# They read what older versions of nvcc have made, too.
PACKAGES = ("nvidia-cuda-cuobjdump==13.5.37", "nvidia-cuda-nvdisasm==13.5.37")


def find_tools(out, compiler):
    """The folder with both tools, or None."""
    folders = [os.path.dirname(os.path.realpath(compiler)), *os.environ["PATH"].split(":")]
    loaded = os.path.join(os.path.dirname(os.path.abspath(out)), "tools", PACKAGES[0].split("=")[-1])
    packages = loaded + "/lib/python*/site-packages/nvidia/*/bin"
    found = with_both(folders + glob.glob(packages))
    if found is None:
        load(loaded)
        found = with_both(glob.glob(packages))
    return found


def with_both(folders):
    for folder in folders:
        if all(os.access(os.path.join(folder, tool), os.X_OK) for tool in ("cuobjdump", "nvdisasm")):
            return folder
    return None


def load(folder):
    try:
        venv.create(folder, with_pip=True)
    except subprocess.CalledProcessError as error:  # without ensurepip
        print(error, file=sys.stderr)
        return
    done = subprocess.run([folder + "/bin/python", "-m", "pip", "install", "--quiet", "--no-deps",
                           "--disable-pip-version-check", *PACKAGES], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)


def kernel_of(section):
    """The kernel that a section belongs to, or None."""
    match = re.match(r"\.(?:text|nv\.info|nv\.shared|nv\.constant\d+)\.(_Z\w+)$", section)
    return match and match.group(1)


def split(listing):
    """By kernel, the target's line and its sections."""
    target, kernels, current = "", {}, None
    for line in listing:
        if line.startswith("\t.target"):
            target = line
        elif line.startswith("\t.section\t"):
            name = kernel_of(line.split()[1].split(",")[0])
            current = kernels.setdefault(name, [target]) if name else None
        if current is not None:
            current.append(line)
    return {name: lines for name, lines in kernels.items()
            if any(line.startswith(".text.") for line in lines)}


def list_cubin(tools, cubin, out):
    with subprocess.Popen([tools + "/nvdisasm", cubin], text=True,
                          stdout=subprocess.PIPE) as process:
        kernels = split(process.stdout)
    if process.returncode != 0 or not kernels:
        sys.exit(f"nvdisasm has failed: {process.returncode}, {len(kernels)} kernels")
    folder = os.path.join(out, re.search(r"\.(sm_\d+\w?)\.cubin$", cubin).group(1))
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/index", "a+", encoding="utf-8") as index:
        index.seek(0)
        number = len(index.readlines())
        for name, lines in kernels.items():
            with open(f"{folder}/{number}.sass", "w", encoding="utf-8") as file:
                file.writelines(lines)
            index.write(f"{number} {name}\n")
            number += 1


def main():
    out, compiler, objects = sys.argv[1], sys.argv[2], sys.argv[3:]
    os.makedirs(out, exist_ok=True)
    made, missing = out + "/made", out + "/missing"
    for path in (made, missing):
        if os.path.exists(path):
            os.remove(path)
    for folder in glob.glob(out + "/sm_*"):
        shutil.rmtree(folder)
    tools = find_tools(out, compiler)
    if tools is None:
        with open(missing, "w", encoding="utf-8") as file:
            file.write("there is no cuobjdump and no nvdisasm, and PyPI's could not be loaded\n")
        return
    for path in objects:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([tools + "/cuobjdump", "-xelf", "all", os.path.abspath(path)],
                           check=True, cwd=folder, stdout=subprocess.DEVNULL)
            cubins = sorted(glob.glob(folder + "/*.cubin"))
            if not cubins:
                sys.exit(f"{path} has no machine code")
            for cubin in cubins:
                list_cubin(tools, cubin, out)
    with open(made, "w", encoding="utf-8"):
        pass


if __name__ == "__main__":
    main()
