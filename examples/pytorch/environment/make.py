"""Makes a virtual environment with PyTorch for machines without CUDA, once, and in it the backend
"hostnccl": make.py FOLDER [--hostnccl FOLDER] [--torch VERSION] [--megatron] [--deepspeed]

From PyPI, 550 MB to load and 1.3 GB on the disk; without a network it fails. PyTorch comes without the
libraries of CUDA that it asks for, which would be several GB more (without_cuda.py). Its NCCL is
hostnccl, whose folder is given; without it there is no NCCL, and no backend. FOLDER is new or empty,
or what this has made before: where that was of other versions it is erased, and made anew."""

import argparse
import glob
import hashlib
import os
import re
import subprocess
import sys
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(os.path.dirname(HERE), "backend")
MORE = {"megatron": "Megatron Core", "deepspeed": "DeepSpeed"}  # whose packages are in NAME.txt


def read(*paths):
    texts = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


def made(stamp, wanted):
    """Whether what goes by `wanted` is there."""
    return os.path.exists(stamp) and read(stamp) == wanted


def note(stamp, wanted):
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted)


class Environment:
    def __init__(self, folder, requirements):
        self.folder, self.requirements = folder, requirements
        self.python = folder + "/bin/python"

    def run(self, *command, **keywords):
        subprocess.run([self.python, *command], check=True, **keywords)

    def install(self, listed):
        self.run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                 "--no-cache-dir", "-r", listed)

    def packages(self):
        where = "import sysconfig; print(sysconfig.get_path('platlib'))"
        return subprocess.run([self.python, "-c", where], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()

    def begin(self, stamp):
        """An environment without anything, and with an empty stamp, by which it is known as made
        here. What was in the folder is erased, unless it is somebody else's."""
        if os.path.isdir(self.folder) and os.listdir(self.folder) and not os.path.exists(stamp):
            sys.exit(f"{self.folder} is not empty, and not made by make.py: "
                     "name another folder, or remove what is in it")
        venv.create(self.folder, clear=True)
        note(stamp, "")
        venv.create(self.folder, with_pip=True)

    def make(self):
        stamp, wanted = self.folder + "/made", "\n".join([sys.version, self.requirements,
                                                          read(HERE + "/without_cuda.py")])
        if made(stamp, wanted):
            return
        self.begin(stamp)
        listed = self.folder + "/requirements.txt"
        note(listed, self.requirements)
        self.install(listed)
        subprocess.run([sys.executable, HERE + "/without_cuda.py", self.packages() + "/torch"],
                       check=True)
        self.run("-W", "ignore", "-c", "import torch")
        note(stamp, wanted)

    def link(self, hostnccl):
        """Has PyTorch use this NCCL, in place of one that says that there is no device."""
        link = self.packages() + "/torch/lib/libnccl.so.2"
        target = os.path.abspath(hostnccl) + "/libnccl.so.2"
        if os.path.realpath(link) != os.path.realpath(target):
            if os.path.lexists(link):
                os.remove(link)
            os.symlink(target, link)

    def add_packages(self, name):
        listed = f"{HERE}/{name}.txt"
        stamp, wanted = f"{self.folder}/{name}.made", read(listed)
        if not made(stamp, wanted):
            self.install(listed)
            note(stamp, wanted)

    def run_quietly(self, *command, **keywords):
        """Prints what it says only if it fails: compilers warn of PyTorch's headers."""
        done = subprocess.run([self.python, *command], check=False, text=True, **keywords,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}{' '.join(command)} has failed")

    def add_backend(self, hostnccl):
        sources = sorted(path for path in glob.glob(PACKAGE + "/**", recursive=True)
                         if re.search(r"setup\.py$|torch_hostnccl/.*\.(py|cc|h)$", path))
        digest = hashlib.sha256(read(*sources).encode()).hexdigest()
        stamp, wanted = self.folder + "/backend.made", "\n".join([digest, os.path.abspath(hostnccl)])
        if made(stamp, wanted):
            return
        # Debian's folder of compilers that remember what they compiled, where there is one.
        variables = {**os.environ, "TERSE_HOSTNCCL": os.path.abspath(hostnccl),
                     "PATH": "/usr/lib/ccache:" + os.environ["PATH"]}
        self.run_quietly(PACKAGE + "/setup.py", "--quiet", "build", "--force", "--build-base",
                         os.path.abspath(self.folder) + "/backend", "--build-lib", self.packages(),
                         env=variables)
        self.run("-W", "ignore", "-c", "import torch_hostnccl")
        note(stamp, wanted)


def requirements(torch):
    text = read(HERE + "/requirements.txt")
    return re.sub(r"^torch==.*$", f"torch=={torch}", text, flags=re.MULTILINE) if torch else text


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--hostnccl", help="the folder of hostnccl's libnccl.so.2")
    parser.add_argument("--torch", help="another version than that of requirements.txt")
    for name, meaning in MORE.items():
        parser.add_argument("--" + name, action="store_true", help=f"with {meaning}, too")
    options = parser.parse_args()
    environment = Environment(options.folder, requirements(options.torch))
    environment.make()
    if options.hostnccl:
        environment.link(options.hostnccl)
        environment.add_backend(options.hostnccl)
    for name in MORE:
        if getattr(options, name):
            environment.add_packages(name)
    print(f"ready: {environment.python} has PyTorch"
          f"{', and NCCL of ' + options.hostnccl if options.hostnccl else ''}")


main()
