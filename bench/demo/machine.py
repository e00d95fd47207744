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


def describe():
    memory = _first("/proc/meminfo", "MemTotal").split()
    hardware = {"cpu": _first("/proc/cpuinfo", "model name"),
                "cores": len(os.sched_getaffinity(0)),
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
