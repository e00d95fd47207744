"""Processes that a test has started, wherever they are by now: found by a mark in their environment."""

import os
import subprocess
import time
import uuid


def new_mark():
    """NAME=VALUE, as nobody else has it."""
    return f"TEST_MARK={uuid.uuid4().hex}"


def marked(mark):
    """The command lines of those that have it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment:
                if mark.encode() not in environment.read().split(b"\0"):
                    continue
            with open(f"/proc/{pid}/cmdline", "rb") as command:
                found.append(command.read().decode(errors="replace"))
        except OSError:  # it has ended, or is another user's
            pass
    return found


def comes_true(holds, seconds=30):
    """Whether it does in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def end(process):
    """Whatever it does: first so that it can clean up."""
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
