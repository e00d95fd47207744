"""Measures native against compressed collectives on several hosts made of network namespaces.

An unmodified NCCL program runs on each host, plain and with libterse_nccl.so preloaded; the network
interfaces count the bytes. Without root the hosts are processes on the loopback interface.
"""

import argparse
import datetime
import json
import os
import shlex
import sys
import time

import machine
import plan
import table
from measure import MeasureError, measure, probe
from plan import NATIVE, TYPES
from plot import plot

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "netlab"))
from units import format_rate, parse_rate  # pylint: disable=wrong-import-position

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _list_of(parse, names=None):
    def read(text):
        values = [parse(item) for item in text.split(",") if item]
        unknown = [value for value in values if names and value not in names]
        if unknown or not values:
            raise argparse.ArgumentTypeError(f"'{text}': choose from {', '.join(names or ['?'])}")
        return values
    return read


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="only AllReduce in fp32, of the gradient and 1M and 16M")
    parser.add_argument("--hosts", type=int, default=4, metavar="N", help="how many (4)")
    parser.add_argument("--rate", type=parse_rate, default=parse_rate("1gbit"), metavar="RATE",
                        help="of each link (1gbit)")
    parser.add_argument("--sizes", type=_list_of(plan.parse_size), metavar="LIST",
                        help="of the synthetic buffers (1M,16M,64M)")
    parser.add_argument("--schemes", type=_list_of(str), default=["int8", "int4"], metavar="LIST",
                        help="to compare with native (int8,int4)")
    parser.add_argument("--dtypes", type=_list_of(str, list(TYPES)), metavar="LIST",
                        help=f"of {', '.join(TYPES)} (fp32,bf16)")
    parser.add_argument("--collectives", type=_list_of(str, plan.COLLECTIVES), metavar="LIST",
                        help=f"of {', '.join(plan.COLLECTIVES)} (all)")
    parser.add_argument("--seconds", type=float, default=1.5, metavar="S",
                        help="roughly, for one measurement (1.5)")
    parser.add_argument("--loopback", action="store_true", help="do not use namespaces")
    parser.add_argument("--json", metavar="FILE", help="write the results here")
    parser.add_argument("--plot", metavar="FILE", help="draw them here, as SVG")
    parser.add_argument("--build-dir", default=os.path.join(_ROOT, "build", "host"), metavar="DIR",
                        help="use this finished build instead of building")
    options = parser.parse_args(arguments)
    if options.hosts < 2:
        parser.error("--hosts must be at least 2")
    options.sizes = options.sizes or [n * plan.MIB for n in ((1, 16) if options.quick
                                                             else (1, 16, 64))]
    options.dtypes = options.dtypes or (["fp32"] if options.quick else ["fp32", "bf16"])
    options.collectives = options.collectives or (
        ["all_reduce"] if options.quick else list(plan.COLLECTIVES))
    options.build_dir = os.path.abspath(options.build_dir)
    return options


def measure_all(options):
    """{case: {scheme: result}}, with a line of progress for each measurement."""
    schemes = [NATIVE, *options.schemes]
    results = {}
    cases = plan.cases(options)
    step, steps = 0, len(cases) * len(schemes)
    for case in cases:
        results[case] = {}
        for scheme in schemes:
            step += 1
            print(f"[{step:{len(str(steps))}}/{steps}] {case.name:36} {scheme:8}", end=" ",
                  flush=True)
            result = results[case][scheme] = measure(case, scheme, options)
            native = results[case][NATIVE]
            print(f"{table.format_time(result.seconds):>8} a call, "
                  f"{native.seconds / result.seconds:5.2f}x, "
                  f"{result.interface_bytes / 1e6:8.3f} MB sent", flush=True)
    return results


def _check(results, options):
    """Direct calls of the largest AllReduce, or what comes nearest, under the last scheme."""
    case = max(results, key=lambda c: (c.collective == "all_reduce", c.dtype == "fp32", c.size))
    scheme = options.schemes[-1]
    direct = measure(case, scheme, options, direct=True)
    return case, scheme, direct, table.statistics_check(case, scheme, direct,
                                                        results[case][scheme], options)


def _report(results, check, options, seconds):
    case, scheme, direct, _ = check
    rows = [{"collective": c.collective, "data": c.data, "type": c.dtype, "bytes": c.size,
             "scheme": s, "seconds": r.seconds, "speed_up": by[NATIVE].seconds / r.seconds,
             "interface_bytes_per_call": r.interface_bytes,
             "interface_bytes_factor": table.bytes_factor(by[NATIVE], r),
             "interface_bytes_total": r.interface_total,
             "link_share": table.link_share(c, r, options), "relative_l2_error": r.error}
            for c, by in results.items() for s, r in by.items()]
    return {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "command": shlex.join(["bench/run", *sys.argv[1:]]), "hardware": machine.describe(),
            "hosts": options.hosts, "mode": "loopback" if options.loopback else "namespaces",
            "rate_bits_per_second": options.rate, "wall_seconds": round(seconds, 1), "rows": rows,
            "statistics_check": {
                "case": case.name, "scheme": scheme,
                "library_bytes_per_call": direct.library_bytes,
                "interface_bytes_per_call": direct.interface_bytes,
                "same_bytes_as_preloaded":
                    direct.checksums == results[case][scheme].checksums}}


def run(options):
    start = time.monotonic()
    options.loopback = options.loopback or probe() == "loopback"
    if options.loopback:
        options.rate = 0
    place = "the loopback interface (not shaped)" if options.loopback else (
        f"{format_rate(options.rate)} links")
    heading = f"{options.hosts} hosts over {place}"
    print(f"== {heading}, {', '.join(options.schemes)} preloaded into an unmodified program",
          flush=True)
    results = measure_all(options)
    check = _check(results, options)
    report = _report(results, check, options, time.monotonic() - start)
    hardware = machine.caption(report["hardware"])
    print("\n" + table.summary(results, options.schemes, options, hardware))
    print("\n" + check[3])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
        print(f"results: {options.json}")
    if options.plot:
        footing = f"{hardware}; {report['date'][:10]}; {report['command']}"
        with open(options.plot, "w", encoding="utf-8") as file:
            file.write(plot(results, options.schemes, heading, footing))
        print(f"picture: {options.plot}")
    print(f"done in {time.monotonic() - start:.0f} s")
    return 0 if report["statistics_check"]["same_bytes_as_preloaded"] else 1


def main():
    options = parse_arguments(sys.argv[1:])
    try:
        return run(options)
    except MeasureError as error:
        print(f"bench/run: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
