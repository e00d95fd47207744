"""What all steps share: where to build, how to run programs, how much time is left."""

import json
import os
import subprocess
import time

import machine
import ranks


class NotRun(Exception):
    """The step cannot be done here."""


class Failed(Exception):
    def __init__(self, message, figures=None):
        super().__init__(message)
        self.figures = figures or {}


class Context:
    def __init__(self, build, seconds, nccl):
        self.build = os.path.abspath(build)
        self.deadline = time.monotonic() + seconds
        self.nccl = nccl  # path, or None: what the programs are linked with
        self.folder = os.environ.get("OUT") or self.build
        os.makedirs(self.folder, exist_ok=True)
        self._log = open(os.path.join(self.folder, "gpu.log"), "w", encoding="utf-8")

    def results_file(self):
        return os.path.join(self.folder, "gpu.json" if os.environ.get("OUT") else "results.json")

    def program(self, name):
        path = os.path.join(self.build, "bin", name)
        if not os.path.exists(path):
            raise NotRun(f"{name} is not built")
        return path

    def library(self, name):
        return os.path.join(self.build, "lib", name)

    def time_for(self, seconds):
        """At most `seconds`, and at most what is left."""
        left = self.deadline - time.monotonic() - 3
        if left < 5:
            raise NotRun("no time was left")
        return min(seconds, left)

    def _environment(self, extra=None):
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if self.nccl:
            old = environment.get("LD_LIBRARY_PATH")
            environment["LD_LIBRARY_PATH"] = os.path.dirname(self.nccl) + (f":{old}" if old else "")
        environment.update(extra or {})
        return environment

    def _keep(self, command, code, out, err):
        self._log.write(f"\n$ {' '.join(map(str, command))}\n{out}{err}\n[exit code {code}]\n")
        self._log.flush()

    def run(self, *command, seconds=120, env=None):
        """stdout; raises Failed with the end of what was printed."""
        try:
            done = subprocess.run(list(map(str, command)), text=True, capture_output=True,
                                  check=False, timeout=self.time_for(seconds),
                                  env=self._environment(env), cwd=machine.ROOT)
        except subprocess.TimeoutExpired as late:
            text = [t.decode(errors="replace") if isinstance(t, bytes) else t or ""
                    for t in (late.stdout, late.stderr)]
            self._keep(command, "timeout", *text)
            raise Failed(f"{os.path.basename(str(command[0]))} took more than {late.timeout:.0f} s")
        self._keep(command, done.returncode, done.stdout, done.stderr)
        if done.returncode == 77:
            raise NotRun(done.stdout.strip())
        if done.returncode != 0:
            raise Failed(self._message(command, done.returncode, done.stdout + done.stderr))
        return done.stdout

    def run_ranks(self, count, *command, seconds=120, env=None):
        """stdout of rank 0."""
        extra = {k: v for k, v in self._environment(env).items() if os.environ.get(k) != v}
        code, out, err = ranks.run(command, count, extra, self.time_for(seconds))
        self._keep([f"({count} ranks)", *command], code, out, err)
        if code == 77:
            raise NotRun(out.strip())
        if code != 0:
            raise Failed(self._message(command, code, err or out), self.last_json(out, {}))
        return out

    @staticmethod
    def _message(command, code, text):
        tail = " | ".join(line for line in text.strip().splitlines()[-4:])
        return f"{os.path.basename(str(command[0]))} ended with {code}: {tail[-600:]}"

    @staticmethod
    def last_json(text, otherwise=None):
        for line in reversed(text.splitlines()):
            if line.startswith("{"):
                try:
                    return json.loads(line)
                except ValueError:
                    break
        return otherwise
