"""The GPUs of this machine, as nvidia-smi tells them."""

import os
import subprocess


def describe():
    """[(name, driver's version)], empty where there is no GPU or no nvidia-smi."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version",
                               "--format=csv,noheader"], capture_output=True, text=True,
                              timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode != 0:
        return []
    return [tuple(line.rsplit(", ", 1)) for line in done.stdout.splitlines() if ", " in line]


def visible():
    """What CUDA_VISIBLE_DEVICES would call those that a program started here may use."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return [str(index) for index in range(len(describe()))]
    names = [name.strip() for name in chosen.split(",")]
    # What follows an index that is none does not count, CUDA says.
    end = next((i for i, name in enumerate(names) if name in ("", "-1")), len(names))
    return names[:end]


def of_host(host, hosts):
    """Those of visible() that are one host's: the hosts take them in turn, and one that others have,
    too, where they are too few."""
    devices = visible()
    return devices[host % len(devices)::hosts] if devices else []
