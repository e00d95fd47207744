"""The labs in which the cases run, each made once: netlab, which runs one program after the other."""

import json
import os
import subprocess
import sys

_NETLAB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "netlab",
                       "netlab")


class HostsError(Exception):
    pass


def probe():
    """'namespaces' or 'loopback': which of them netlab can make here."""
    return subprocess.run([_NETLAB, "--probe"], check=True, capture_output=True,
                          text=True).stdout.strip()


class Hosts:
    """Of one placement."""

    def __init__(self, placement, rate, loopback):
        command = [_NETLAB, "--hosts", str(placement.hosts), "--ranks-per-host",
                   str(placement.ranks_per_host), "--rate", str(rate), "--session"]
        self._netlab = subprocess.Popen(command + (["--loopback"] if loopback else []),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, what, program, settings=()):
        """netlab's report. Raises HostsError, which says `what` has failed."""
        try:
            json.dump({"program": program, "env": list(settings)}, self._netlab.stdin)
            self._netlab.stdin.write("\n")
            self._netlab.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self._netlab.stdout.readline()
        if not answer:
            raise HostsError(f"netlab has ended with exit code {self._netlab.wait()}")
        report = json.loads(answer)
        if any(report["exit_codes"]):
            sys.stderr.write(report["output"])
            raise HostsError(f"{what} failed with exit codes {report['exit_codes']}")
        return report

    def close(self):
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
