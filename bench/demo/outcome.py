"""What a run has found, as far as it came: on the screen, in a file, and as a picture."""

import dataclasses
import datetime
import json
import shlex
import sys

import machine
import plan
import table
from measure import Result, median
from plan import NATIVE
from plot import plot

_UNFINISHED = "NOT WHOLE: it ended before all was measured"


@dataclasses.dataclass
class Check:
    case: plan.Case
    scheme: str
    direct: Result
    preloaded: Result

    def same_bytes(self):
        return self.direct.checksums == self.preloaded.checksums


@dataclasses.dataclass
class Outcome:
    heading: str
    versions: dict
    hardware: dict
    measured: dict = dataclasses.field(default_factory=dict)  # {case: {scheme: [result]}}
    checks: list = dataclasses.field(default_factory=list)
    whole: bool = False

    def results(self):
        """{case: {scheme: result}}"""
        return {case: {scheme: median(results) for scheme, results in of_case.items()}
                for case, of_case in self.measured.items()}

    def report(self, options, seconds):
        return {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
                "command": shlex.join(["bench/run", *sys.argv[1:]]), "whole": self.whole,
                "versions": self.versions, "hardware": self.hardware,
                "mode": "loopback" if options.loopback else "namespaces",
                "rate_bits_per_second": options.rate, "wall_seconds": round(seconds, 1),
                "rows": _rows(self.results(), options),
                "statistics_checks": [{
                    "hosts": c.case.lab.hosts, "ranks_per_host": c.case.lab.ranks_per_host,
                    "case": c.case.name, "scheme": c.scheme,
                    "library_bytes_per_call": c.direct.library_bytes,
                    "interface_bytes_per_call": c.direct.interface_bytes,
                    "same_bytes_as_preloaded": c.same_bytes()} for c in self.checks]}

    def tell(self, options, seconds):
        """The files come first: what has ended this may have taken the terminal away, too."""
        results, report = self.results(), self.report(options, seconds)
        hardware = machine.caption(self.hardware)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(text(report))
        if options.plot:
            footing = f"{hardware}; {report['date'][:10]}; {report['command']}"
            with open(options.plot, "w", encoding="utf-8") as file:
                file.write(plot(results, self.heading, footing if self.whole
                                else f"{_UNFINISHED}; {footing}"))
        print("\n" + table.summary(results, options, hardware))
        for check in self.checks:
            print("\n" + table.statistics_check(check.case, check.scheme, check.direct,
                                                check.preloaded, options))
        for what, path in (("results", options.json), ("picture", options.plot)):
            if path:
                print(f"{what}: {path}")
        if not self.whole:
            print(f"{_UNFINISHED}.", flush=True)


def text(report):
    """JSON with a line for each key, and for each row of a list of rows."""
    lines = []
    for key, value in report.items():
        if isinstance(value, list) and value:
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            lines.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(results, options):
    return [{"hosts": c.lab.hosts, "ranks_per_host": c.lab.ranks_per_host,
             "collective": c.collective, "data": c.data, "type": c.dtype, "bytes": c.size,
             "scheme": s, "calls": r.calls, "seconds": r.seconds,
             "speed_up": by[NATIVE].seconds / r.seconds,
             "interface_bytes_per_call": r.interface_bytes,
             "interface_bytes_factor": table.bytes_factor(by[NATIVE], r),
             "interface_bytes_total": r.interface_total,
             "chosen": r.chosen, "predicted_seconds": r.predicted,
             "link_share": table.link_share(r, options), "relative_l2_error": r.error}
            for c, by in results.items() for s, r in by.items()]
