"""Makes a virtual environment with the PyTorch that the tests are for, once: torch_venv.py FOLDER

From PyPI, 550 MB to load and 1.3 GB on the disk; without a network it fails. PyTorch comes without the
libraries of CUDA that it asks for, which would be several GB more (without_cuda.py)."""

import os
import subprocess
import sys
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = ("requirements.txt", "without_cuda.py", "torch_venv.py")


def wanted():
    """What the environment goes by."""
    texts = [sys.version]
    for part in PARTS:
        with open(os.path.join(HERE, part), encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


def made(stamp):
    try:
        with open(stamp, encoding="utf-8") as file:
            return file.read() == wanted()
    except OSError:
        return False


def main():
    folder = sys.argv[1]
    stamp, python = folder + "/made", folder + "/bin/python"
    if made(stamp):
        return
    venv.create(folder, clear=True, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    "--no-deps", "--no-cache-dir", "-r", HERE + "/requirements.txt"], check=True)
    where = "import sysconfig; print(sysconfig.get_path('platlib'))"
    packages = subprocess.run([python, "-c", where], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()
    subprocess.run([sys.executable, HERE + "/without_cuda.py", packages + "/torch"], check=True)
    subprocess.run([python, "-W", "ignore", "-c", "import torch"], check=True)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted())


main()
