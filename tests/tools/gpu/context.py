"""What all steps share: where to build, how to run programs, how much time is left."""

import json
import os
import time

import machine
import ranks
from ranks import processes


class NotRun(Exception):
    """The step cannot be done here, and need not be."""


class Failed(Exception):
    def __init__(self, message, figures=None, output="", late=False):
        super().__init__(message)
        self.figures = figures or {}
        self.output = output  # of the program that failed
        self.late = late  # for lack of time


def _end_of(text):
    return " | ".join(text.strip().splitlines()[-5:])[-600:]


class Context:
    def __init__(self, build, seconds, nccl, gpu):
        self.build = os.path.abspath(build)
        self.deadline = time.monotonic() + seconds
        self.nccl = nccl  # path, or None: what the programs are linked with
        self.gpu = gpu  # whether there is one
        self.folder = os.path.abspath(os.environ.get("OUT") or self.build)
        os.makedirs(self.folder, exist_ok=True)
        self._log = os.path.join(self.folder, "gpu.log")
        open(self._log, "w", encoding="utf-8").close()

    def results_file(self):
        return os.path.join(self.folder, "gpu.json" if os.environ.get("OUT") else "results.json")

    def built(self):
        """Whether there are any programs."""
        folder = os.path.join(self.build, "bin")
        return os.path.isdir(folder) and bool(os.listdir(folder))

    def _built(self, folder, name):
        path = os.path.join(self.build, folder, name)
        if not os.path.exists(path):
            raise Failed(f"{name} is not built")
        return path

    def program(self, name):
        return self._built("bin", name)

    def library(self, name):
        return self._built("lib", name)

    def time_for(self, seconds):
        """At most `seconds`, and at most what is left."""
        left = self.deadline - time.monotonic() - 3
        if left < 5:
            raise Failed("no time was left", late=True)
        return min(seconds, left)

    def _additions(self, env):
        """To the environment."""
        additions = {"PYTHONUNBUFFERED": "1"}
        if self.nccl:
            old = os.environ.get("LD_LIBRARY_PATH")
            additions["LD_LIBRARY_PATH"] = os.path.dirname(self.nccl) + (f":{old}" if old else "")
        return {**additions, **(env or {})}

    def _finish(self, command, env, code, late, text, why):
        """Keeps what was printed; raises what the exit code means. `late`: ended after so long."""
        settings = "".join(f"{name}={value} " for name, value in (env or {}).items())
        end = f"ended after {late:.0f} s" if late else f"ended with {code}"
        with open(self._log, "a", encoding="utf-8") as log:
            log.write(f"\n$ {settings}{' '.join(map(str, command))}\n{text}\n[{end}]\n")
        if code == 77 and not self.gpu:
            raise NotRun(why)
        if code != 0:
            raise Failed(f"{os.path.basename(str(command[0]))} {end}: {why}", output=text,
                         late=bool(late))

    def run(self, *command, seconds=120, env=None):
        """stdout; raises Failed with the end of what was printed."""
        limit = self.time_for(seconds)
        [done], late = processes.run([(command, {**os.environ, **self._additions(env)})], limit,
                                     machine.ROOT)
        text = done.out + done.err
        self._finish(command, env, done.code, late and limit, text, _end_of(text))
        return done.out

    def run_ranks(self, count, *command, seconds=120, env=None):
        """stdout of rank 0; what it printed last as JSON are the figures of Failed."""
        limit = self.time_for(seconds)
        code, results, late = ranks.run(command, count, self._additions(env), limit, machine.ROOT)
        # Of those that failed by themselves, if any did.
        ends = {rank: _end_of(result.out + result.err) for rank, result in enumerate(results)
                if result.code == code}
        try:
            self._finish(command, env, code, late and limit, ranks.transcript(results),
                         "; ".join(f"rank {rank}: {end}" for rank, end in ends.items()))
        except Failed as failure:
            failure.figures = self.last_json(results[0].out, {})
            raise
        return results[0].out

    @staticmethod
    def last_json(text, otherwise=None):
        for line in reversed(text.splitlines()):
            if line.startswith("{"):
                try:
                    return json.loads(line)
                except ValueError:
                    continue  # cut short
        return otherwise
