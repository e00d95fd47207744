"""Ranks that train what they are asked for (ranks.py)."""

import json
import os
import subprocess
import tempfile
import time


class Asked:
    """They are started with the first request, and end with stop(). start: the command that starts
    them all, but for ranks.py's folder."""

    def __init__(self, ranks, start, environment):
        self._ranks, self._start, self._environment = range(ranks), start, environment
        self._folder = self._process = self._output = self._requests = None

    def train(self, program, groups, folder):
        """Of the groups the folders. Where a rank fails, AssertionError with all that was printed."""
        if self._process is None:
            self._begin()
        path = os.path.join(self._folder.name, str(self._requests))
        self._requests += 1
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"program": program, "groups": groups, "folder": folder}, file)
        os.rename(path + ".new", path)
        while not all(os.path.exists(f"{path}.done{rank}") for rank in self._ranks):
            if self._process.poll() is not None:
                raise AssertionError(f"exit status {self._process.returncode}\n{self.stop()}")
            time.sleep(0.01)
        return [os.path.join(folder, str(number)) for number in range(len(groups))]

    def _begin(self):
        self._folder = tempfile.TemporaryDirectory(prefix="terse-training-ranks-")
        self._output = tempfile.TemporaryFile("w+", encoding="utf-8")
        self._process = subprocess.Popen([*self._start, self._folder.name], env=self._environment,
                                         stdout=self._output, stderr=subprocess.STDOUT)
        self._requests = 0

    def stop(self):
        """What they printed."""
        if self._process is None:
            return ""
        with open(os.path.join(self._folder.name, "end"), "w", encoding="utf-8"):
            pass
        self._process.wait()
        self._process = None
        self._output.seek(0)
        with self._folder, self._output:
            return self._output.read()
