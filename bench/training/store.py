"""Finished runs, each in a file. A run is known by all that its result depends on; what is finished
is not run again."""

import hashlib
import json
import os


def identity(job, versions, hardware):
    """16 hexadecimal digits. Where the text lies does not count, what it says does; nor does the
    machine, but for times."""
    text = {key: value for key, value in job["text"].items() if key != "folder"}
    parts = [{**job, "text": text}, versions]
    if job.get("measure"):
        parts.append({key: hardware[key] for key in ("cpu", "cores")})
    whole = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def sources_digest(folder):
    """Of the programs that the ranks run."""
    found = hashlib.sha256()
    for where in ("", "models", "ways"):
        for name in sorted(os.listdir(os.path.join(folder, where))):
            if (where or name in _OF_RANKS) and name.endswith(".py"):
                with open(os.path.join(folder, where, name), "rb") as file:
                    found.update(name.encode() + b"\0" + file.read() + b"\0")
    return found.hexdigest()[:16]


def digest(paths):
    """Of files, and of what lies in folders: libraries and Python sources."""
    found = hashlib.sha256()
    for path in paths:
        names = [path]
        if os.path.isdir(path):
            names = sorted(os.path.join(where, name) for where, _, files in os.walk(path)
                           for name in files if name.endswith((".py", ".so")))
        for name in names:
            with open(name, "rb") as file:
                found.update(os.path.basename(name).encode() + b"\0" + file.read() + b"\0")
    return found.hexdigest()[:16]


_OF_RANKS = ("batches.py", "checkpoint.py", "launch.py", "rank.py", "replicas.py", "schedule.py")


class Store:
    def __init__(self, folder, versions, hardware):
        self.folder, self.versions, self.hardware = folder, versions, hardware
        os.makedirs(folder, exist_ok=True)

    def path(self, job):
        kind = "steps" if job.get("measure") else "run"
        name = "".join(c if c.isalnum() else "-" for c in f"{job['way']}-{job['scheme']}")
        known = identity(job, self.versions, self.hardware)
        return os.path.join(self.folder, f"{kind}-{name}-{job['seed']}-{known}.json")

    def find(self, job):
        """Its result; None: it is not finished."""
        try:
            with open(self.path(job), encoding="utf-8") as file:
                return json.load(file)["result"]
        except FileNotFoundError:
            return None

    def keep(self, job, result):
        path = self.path(job)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump({"job": job, "versions": self.versions, "hardware": self.hardware,
                       "result": result}, file)
            file.write("\n")
        os.replace(path + ".part", path)
