"""The labs in which the cases run, each made once: netlab, which runs one program after the other."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "netlab"))
from surroundings import NETLAB, environment  # pylint: disable=wrong-import-position


class HostsError(Exception):
    pass


class Hosts:
    """Of one placement."""

    def __init__(self, placement, rate, loopback):
        command = [NETLAB, "--hosts", str(placement.hosts), "--ranks-per-host",
                   str(placement.ranks_per_host), "--rate", str(rate), "--session"]
        self._netlab = subprocess.Popen(command + (["--loopback"] if loopback else []),
                                        env=environment(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self, what, program, settings=(), timeout=600):
        """netlab's report; it ends the program after `timeout` seconds. Raises HostsError, which says
        `what` has failed."""
        try:
            json.dump({"program": program, "env": list(settings), "timeout": timeout},
                      self._netlab.stdin)
            self._netlab.stdin.write("\n")
            self._netlab.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self._netlab.stdout.readline()
        if not answer:
            raise HostsError(f"{what}: netlab has ended with exit code {self._netlab.wait()}")
        report = json.loads(answer)
        if any(report["exit_codes"]):
            sys.stderr.write(report["output"])
            raise HostsError(f"{what} failed with exit codes {report['exit_codes']}")
        return report

    def close(self):
        """Also ends what still runs there, after an interruption."""
        self._netlab.terminate()
        try:
            self._netlab.stdin.close()
        except BrokenPipeError:
            pass
        self._netlab.wait()
        self._netlab.stdout.close()


class Labs:
    """Of all placements; a context manager, after which none is left."""

    def __init__(self):
        self._hosts = {}

    def of(self, placement, options):
        if placement not in self._hosts:
            self._hosts[placement] = Hosts(placement, options.rate, options.loopback)
        return self._hosts[placement]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for hosts in self._hosts.values():
            hosts.close()
