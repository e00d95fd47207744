"""The machine, and where on it things lie."""

import ctypes
import functools
import glob
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))


def _output(*command):
    try:
        done = subprocess.run(command, text=True, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


class DriverFails(Exception):
    """There is a GPU, and its driver does not give it."""


NO_DEVICE = 100  # of CUDA's error codes


def _visible():
    """Whether a GPU is to be seen without CUDA."""
    return bool(_output("nvidia-smi", "-L") or glob.glob("/dev/nvidia[0-9]*"))


@functools.cache
def gpus():
    """Names of the GPUs that the driver has."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    code = driver.cuInit(0)
    if code not in (0, NO_DEVICE) and _visible():
        raise DriverFails(f"cuInit says {code}, and there is a GPU")
    count = ctypes.c_int()
    if code != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    names = []
    for index in range(count.value):
        name = ctypes.create_string_buffer(256)
        driver.cuDeviceGetName(name, 256, index)
        names.append(name.value.decode())
    return names


def architectures():
    """Of the GPUs, as nvcc numbers them; none where nvidia-smi does not tell."""
    capabilities = _output("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").split()
    if not all(re.fullmatch(r"\d+\.\d+", capability) for capability in capabilities):
        return []
    return sorted({capability.replace(".", "") for capability in capabilities}, key=int)


def tool(name):
    """Path of a tool of CUDA's, or None."""
    folders = ["/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer",
               *glob.glob("/usr/local/cuda-*/bin"), *glob.glob("/opt/nvidia/*/bin"),
               *glob.glob("/opt/nvidia/*"), *glob.glob("/opt/nvidia/*/*")]
    return shutil.which(name) or next(
        (path for path in (os.path.join(f, name) for f in folders) if os.access(path, os.X_OK)),
        None)


def cuda():
    """The folder of the CUDA toolkit."""
    compiler = tool("nvcc") or "/usr/local/cuda/bin/nvcc"
    return os.path.dirname(os.path.dirname(os.path.realpath(compiler)))


def nccl():
    """Path of a real libnccl.so.2, or None."""
    paths = [os.path.join(folder, "libnccl.so.2")
             for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    # Debian has no sbin in the PATH of users.
    for line in (_output("ldconfig", "-p") or _output("/sbin/ldconfig", "-p")).splitlines():
        if line.strip().startswith("libnccl.so.2 "):
            paths.append(line.split("=>")[1].strip())
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except ImportError:
        spec = None
    for folder in (spec.submodule_search_locations if spec else []):
        paths.append(os.path.join(folder, "lib", "libnccl.so.2"))
    return next((path for path in paths if os.path.exists(path)), None)


def nccl_version(path):
    """As NCCL numbers it: 23003 is 2.30.3. None, or what is wrong with it."""
    if path is None:
        return None
    version = ctypes.c_int()
    try:
        ctypes.CDLL(path).ncclGetVersion(ctypes.byref(version))
    except OSError as error:
        return str(error)
    return version.value


def _version_of_torch():
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def clocks():
    """Of the GPUs just now, and what they draw."""
    query = "clocks.sm,clocks.mem,power.draw,temperature.gpu"
    return _output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")


def _host():
    """As the benchmarks describe it; their module has the name of this one."""
    path = os.path.join(ROOT, "bench", "demo", "machine.py")
    spec = importlib.util.spec_from_file_location("host", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.describe()


def version(root):
    """What is there: of git or, where that is no checkout, of the one that it was carried from."""
    if os.path.exists(os.path.join(root, ".git")):
        commit = _output("git", "-C", root, "rev-parse", "HEAD")
        if commit:
            changed = _output("git", "-C", root, "status", "--short").splitlines()
            return {"commit": commit, "changed_files": len(changed)}
    try:
        with open(os.path.join(root, "build", "carried", "commit"), encoding="utf-8") as file:
            commit, changed = file.read().split()
    except (OSError, ValueError):
        return {"commit": None, "changed_files": None}
    return {"commit": commit, "changed_files": int(changed), "as_of": "tests/gpu/carry"}


def describe(gpu_names):
    query = "name,driver_version,memory.total"
    compiler = tool("nvcc")
    return {
        "gpus": gpu_names,
        "nvidia_smi": _output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"),
        "clocks": clocks(),
        "architectures": architectures(),
        **_host(),
        "nvcc": (_output(compiler, "--version").splitlines() or [""])[-1] if compiler else None,
        "nccl": nccl(),
        "nccl_version": nccl_version(nccl()),
        "torch": _version_of_torch(),
        **version(ROOT),
    }
