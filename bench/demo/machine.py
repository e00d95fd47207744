"""What a measurement was taken on."""

import os
import platform


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
    return {"cpu": _first("/proc/cpuinfo", "model name"),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(int(memory[0]) / 2**20, 1) if memory[0].isdigit() else None,
            "system": _first("/etc/os-release", "PRETTY_NAME"),
            "kernel": platform.release()}
