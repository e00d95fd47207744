"""Measures native against compressed collectives on hosts made of network namespaces: on four with a
rank each, and on two with four each, as the GPUs of a node share its network.

An unmodified NCCL program runs on each host, plain and with libterse_nccl.so preloaded; the network
interfaces count the bytes. Without root the hosts are processes on the loopback interface.
"""

import argparse
import os
import sys
import tempfile
import time

import libraries
import machine
import plan
import table
from hosts import HostsError, Labs
from measure import measure
from outcome import Check, Outcome
from plan import NATIVE, TYPES
from tuning import MeasureError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "netlab"))
from arguments import (list_of, parse_seconds,  # pylint: disable=wrong-import-position
                       split_schemes, writable)
from signals import unwind_at_signals  # pylint: disable=wrong-import-position
from surroundings import LibraryError, shapes_links  # pylint: disable=wrong-import-position
from units import format_rate, parse_rate  # pylint: disable=wrong-import-position

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="bench/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(extent=plan.USUAL)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", dest="extent", action="store_const", const=plan.QUICK,
                        help="only AllReduce in fp32, of the gradient and 1M and 16M; 16M alone "
                             "where hosts have several ranks")
    extent.add_argument("--all", dest="extent", action="store_const", const=plan.ALL,
                        help="also AllGather and ReduceScatter, and bf16 where hosts have several "
                             "ranks")
    parser.add_argument("--labs", type=list_of(plan.parse_lab), default=plan.LABS,
                        metavar="LIST", help="hosts and the ranks on each (4x1,2x4); 1x4 is one host")
    parser.add_argument("--rate", type=parse_rate, default=parse_rate("1gbit"), metavar="RATE",
                        help="of each link (1gbit)")
    parser.add_argument("--sizes", type=list_of(plan.parse_size), metavar="LIST",
                        help="of the synthetic buffers (1M,64M; 64M where hosts have several "
                             "ranks)")
    parser.add_argument("--schemes", type=split_schemes, metavar="LIST",
                        help="to compare with native (int8,int4, where hosts have several ranks "
                             "int4:intra=int8,hadamard=32, and auto:error=0.12)")
    parser.add_argument("--dtypes", type=list_of(str, list(TYPES)), metavar="LIST",
                        help=f"of {', '.join(TYPES)} (fp32,bf16; fp32 where hosts have several "
                             "ranks)")
    parser.add_argument("--collectives", type=list_of(str, plan.COLLECTIVES), metavar="LIST",
                        help=f"of {', '.join(plan.COLLECTIVES)} (all_reduce)")
    parser.add_argument("--seconds", type=parse_seconds, default=1, metavar="S",
                        help="roughly, for one measurement (1), but at least "
                             f"{plan.FEWEST_NATIVE} native calls, and {plan.FEWEST} of a scheme's")
    parser.add_argument("--rounds", type=int, choices=range(1, 100, 2), default=1, metavar="N",
                        help="measurements of each call and scheme, in turns; an odd number, of "
                             "which the median counts (1)")
    parser.add_argument("--tune-seconds", type=parse_seconds, default=20, metavar="S",
                        help="roughly, to measure a lab for auto (20)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="one more of terse's settings for all schemes, such as TERSE_FUSE=off")
    parser.add_argument("--loopback", action="store_true", help="do not use namespaces")
    parser.add_argument("--json", type=writable, metavar="FILE",
                        help="write the results here, also where it ends early")
    parser.add_argument("--plot", type=writable, metavar="FILE", help="draw them here, as SVG")
    parser.add_argument("--build-dir", default=os.path.join(_ROOT, "build", "host"), metavar="DIR",
                        help="use this finished build instead of building")
    options = parser.parse_args(arguments)
    if NATIVE in (options.schemes or ()):
        parser.error(f"--schemes: all others are compared with {NATIVE}, which need not be named")
    options.build_dir = os.path.abspath(options.build_dir)
    return options


def measure_all(options, measured):
    """Adds {case: {scheme: [result]}}, with a line of progress for each measurement. Where there are
    several rounds the schemes of a case take turns."""
    todo = [(case, scheme) for lab in options.labs for case in plan.cases(lab, options)
            for _ in range(options.rounds) for scheme in (NATIVE, *plan.schemes(lab, options))]
    digits, width = len(str(len(todo))), max(len(scheme) for _, scheme in todo)
    for step, (case, scheme) in enumerate(todo, 1):
        if case not in measured:
            print(f"{case.lab}, {case.name}:")
        print(f"[{step:{digits}}/{len(todo)}] {scheme:{width}}", end=" ", flush=True)
        result = measure(case, scheme, options)
        of_case = measured.setdefault(case, {})
        of_case.setdefault(scheme, []).append(result)
        native = of_case[NATIVE][-1]
        print(f"{table.format_time(result.seconds):>8} a call, "
              f"{native.seconds / result.seconds:5.2f}x, "
              f"{result.interface_bytes / 1e6:8.3f} MB out of a host", flush=True)


def _check(results, options):
    """Of a lab: direct calls of the largest AllReduce, or what comes nearest, under the last scheme
    that they take; None: there is none."""
    case = max(results, key=lambda c: (c.collective == "all_reduce", c.dtype == "fp32", c.size))
    scheme = next((name for name in reversed(results[case]) if name != NATIVE
                   and libraries.takes_by_name(options.build_dir, name)), None)
    if scheme is None:
        return None
    return Check(case, scheme, measure(case, scheme, options, direct=True), results[case][scheme])


def run(options):
    start = time.monotonic()
    options.loopback = options.loopback or not shapes_links()
    if options.loopback:
        options.rate = 0
    place = "the loopback interface (not shaped)" if options.loopback else (
        f"{format_rate(options.rate)} links")
    outcome = Outcome(f"{' and '.join(map(str, options.labs))} over {place}",
                      libraries.versions(options.build_dir), machine.describe())
    print(f"== {outcome.heading}, native and with the library preloaded into an unmodified program",
          flush=True)
    try:
        measure_all(options, outcome.measured)
        for of_lab in table.by_lab(outcome.results()).values():
            if check := _check(of_lab, options):
                outcome.checks.append(check)
        outcome.whole = True
    finally:
        if outcome.measured:
            outcome.tell(options, time.monotonic() - start)
    print(f"done in {time.monotonic() - start:.0f} s")
    return 0 if all(check.same_bytes() for check in outcome.checks) else 1


def main():
    options = parse_arguments(sys.argv[1:])
    unwind_at_signals()
    try:
        with (tempfile.TemporaryDirectory(prefix="terse-profiles-") as options.profiles,
              Labs() as options.hosts):
            return run(options)
    except (HostsError, LibraryError, MeasureError) as error:
        print(f"bench/run: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
