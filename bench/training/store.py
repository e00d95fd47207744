"""Finished runs, each in a file. A run is known by all that its result depends on; what is finished
is not run again."""

import hashlib
import json
import os
import uuid

_OF_TIMES = ("netlab",)  # versions that losses do not depend on
_MACHINE = ("cpu", "cpu_family", "cpu_model", "cpu_stepping", "isa", "cores")


def identity(job, versions, hardware):
    """16 hexadecimal digits. Where the text lies does not count, what it says does; nor do the
    machine and its hosts, but for times."""
    text = {key: value for key, value in job["text"].items() if key != "folder"}
    timed = bool(job.get("measure"))
    parts = [{**job, "text": text},
             {key: value for key, value in versions.items() if timed or key not in _OF_TIMES}]
    if timed:
        parts.append({key: hardware[key] for key in _MACHINE})
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


_OF_RANKS = ("batches.py", "checkpoint.py", "dithering.py", "launch.py", "rank.py", "replicas.py",
             "schedule.py")


class Store:
    def __init__(self, folder, versions, hardware):
        self.folder, self.versions, self.hardware = folder, versions, hardware
        self.session = uuid.uuid4().hex  # what is kept by this object is of one
        os.makedirs(folder, exist_ok=True)

    def path(self, job):
        kind = "steps" if job.get("measure") else "run"
        name = "".join(c if c.isalnum() else "-" for c in f"{job['way']}-{job['scheme']}")
        known = identity(job, self.versions, self.hardware)
        return os.path.join(self.folder, f"{kind}-{name}-{job['seed']}-{known}.json")

    def _read(self, job):
        try:
            with open(self.path(job), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def find(self, jobs, some=False):
        """Of each its result, or None. Times of a way and a rate are compared, and a machine has more
        to do on one day than on another: they count where all of them are of one session, or, with
        `some`, those that are of the session of the first that is kept."""
        kept = [self._read(job) for job in jobs]
        sessions = {}
        for job, one in zip(jobs, kept):
            if job.get("measure"):
                sessions.setdefault((job["way"], job["rate"]), []).append(one and one["session"])

        def counts(job, one):
            if not job.get("measure"):
                return True
            beside = sessions[job["way"], job["rate"]]
            if some:
                return one["session"] == next(filter(None, beside))
            return len(set(beside)) == 1
        return [one["result"] if one and counts(job, one) else None
                for job, one in zip(jobs, kept)]

    def keep(self, job, result):
        path = self.path(job)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump({"job": job, "versions": self.versions, "hardware": self.hardware,
                       "session": self.session, "result": result}, file)
            file.write("\n")
        os.replace(path + ".part", path)
