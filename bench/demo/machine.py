"""What a measurement was taken on."""

import os
import platform
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "netlab"))
import gpus  # pylint: disable=wrong-import-position


def _first(path, key):
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                name, _, value = line.partition("=" if "=" in line else ":")
                if name.strip() == key:
                    return value.strip().strip('"')
    except OSError:
        pass
    return "unknown"


# What the codec chooses between, the best first (src/codec/x86_level.h).
_AVX2 = {"pni", "ssse3", "sse4_1", "sse4_2", "cx16", "popcnt", "lahf_lm",
         "avx", "avx2", "fma", "f16c", "movbe", "abm", "bmi1", "bmi2"}
_ISAS = {"avx512": {*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
         "avx2": _AVX2, "sse2": {"sse2"}}


def isa(flags):
    """The instructions that the codec takes on a processor with these, as /proc/cpuinfo names them."""
    return next((name for name, needed in _ISAS.items() if needed <= set(flags)), "unknown")


def processor():
    """In a virtual machine the name may say little: "AMD EPYC" is a Zen 3 here, a Zen 5 there."""
    found = {"cpu": "model name", "cpu_family": "cpu family", "cpu_model": "model",
             "cpu_stepping": "stepping"}
    return {**{key: _first("/proc/cpuinfo", name) for key, name in found.items()},
            "isa": isa(_first("/proc/cpuinfo", "flags").split())}


def describe():
    memory = _first("/proc/meminfo", "MemTotal").split()
    hardware = {**processor(), "cores": len(os.sched_getaffinity(0)),
                "memory_gib": round(int(memory[0]) / 2**20, 1) if memory[0].isdigit() else None,
                "system": _first("/etc/os-release", "PRETTY_NAME"),
                "kernel": platform.release()}
    found = gpus.describe()
    if found:
        hardware["gpus"] = [name for name, _ in found]
        hardware["gpu_driver"] = found[0][1]
    return hardware


def caption(hardware):
    """What describe() found, in a line."""
    parts = [f"{hardware['cpu']}, {hardware['cores']} cores"]
    names = hardware.get("gpus", [])
    for name in dict.fromkeys(names):
        parts.append(f"{names.count(name)} x {name}")
    if names:
        parts.append(f"driver {hardware['gpu_driver']}")
    return ", ".join([*parts, hardware["system"]])
