"""How near is what `terse run --observe` predicts to a run with the scheme?

For each network of the lab: measures a profile of it (terse tune), trains a few steps natively,
observed by that profile, and compressed, in turns, and compares the steps' times. Takes a finished
build, and an environment with PyTorch, as bench/train makes both."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import launch
import plan
import text

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_HERE))
sys.path += [os.path.join(_ROOT, "bench", "demo"), os.path.join(_ROOT, "bench", "netlab")]
import machine  # pylint: disable=wrong-import-position
from arguments import list_of  # pylint: disable=wrong-import-position
from units import format_rate, parse_rate  # pylint: disable=wrong-import-position

FIRST, STEPS, ROUNDS = 5, 20, 2  # steps before the timed ones, timed ones, and runs of each kind


def parse_arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", type=list_of(str, plan.WAYS), default=("ddp", "fsdp2"),
                        metavar="LIST", help=f"of {', '.join(plan.WAYS)} (ddp,fsdp2)")
    parser.add_argument("--scheme", default="safe")
    parser.add_argument("--rates", type=list_of(parse_rate), default=(10**9, 3 * 10**8, 10**8),
                        metavar="LIST", help="of the links (1gbit,300mbit,100mbit)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers here, too")
    parser.add_argument("--build-dir", default=os.path.join(_ROOT, "build", "host"), metavar="DIR")
    parser.add_argument("--torch", default=os.path.join(_ROOT, "build", "torch"), metavar="DIR")
    options = parser.parse_args()
    options.build_dir = os.path.abspath(options.build_dir)
    options.python = os.path.join(os.path.abspath(options.torch), "bin", "python")
    options.nodes, options.model, options.recipe = plan.RANKS, plan.MODELS["gpt"], plan.RECIPE
    return options


def tune(rate, folder, options):
    """The path of a profile of this network."""
    profile = os.path.join(folder, f"{rate}.toml")
    command = [*launch.lab({"nodes": plan.RANKS, "ranks": plan.RANKS, "rate": rate}), "--",
               os.path.join(options.build_dir, "bin", "terse"), "tune", "-o", profile, "--round",
               "stochastic", "--schemes", "int8,int4", "--dtypes", "float32", "-e", "8M", "--nccl",
               os.path.join(options.build_dir, "lib", "terse", "hostnccl", "libnccl.so.2")]
    subprocess.run(command, check=True, env=launch.environment(), stdout=subprocess.DEVNULL)
    return profile


def step_ms(results):
    """The median step, of the fastest run: other work only adds to a run's time."""
    return 1e3 * min(statistics.median(result["step_seconds"]) for result in results)


def compare(way, rate, profile, data, options):
    observing = {"TERSE_OBSERVE": "1", "TERSE_PROFILE": profile}
    kinds = {"native": {"rules": plan.NATIVE}, "observed": {"variables": observing}, "scheme": {}}
    results = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, more in kinds.items():
            job = {**plan.job(way, options.scheme, 1, options, data), "measure": [FIRST, STEPS],
                   "rate": rate, **more}
            results[kind].append(launch.run(job, options))
    saved = statistics.median(result["verdict"]["predicted_saved_seconds"]
                              for result in results["observed"])
    native, observed, scheme = (step_ms(results[kind]) for kind in kinds)
    predicted = native - 1e3 * saved / (plan.RANKS * (FIRST + STEPS))
    numbers = {"native_ms": native, "observed_ms": observed, "predicted_ms": predicted,
               "scheme_ms": scheme, "observed_over_native": observed / native,
               "predicted_over_scheme": predicted / scheme}
    return {"way": way, "rate": rate, **{key: float(f"{x:.4g}") for key, x in numbers.items()}}


def main():
    options = parse_arguments()
    rows = []
    with tempfile.TemporaryDirectory(prefix="terse-observe-") as folder:
        data = {**text.prepare(folder), "folder": folder}
        print(f"{'':8}{'links':>12}{'native':>10}{'observed':>10}{'predicted':>11}"
              f"{options.scheme:>10}{'predicted / run':>17}")
        for rate in options.rates:
            profile = tune(rate, folder, options)
            for way in options.ways:
                row = compare(way, rate, profile, data, options)
                rows.append(row)
                print(f"{way:8}{format_rate(rate):>12}{row['native_ms']:7.1f} ms"
                      f"{row['observed_ms']:7.1f} ms{row['predicted_ms']:8.1f} ms"
                      f"{row['scheme_ms']:7.1f} ms{row['predicted_over_scheme']:17.2f}", flush=True)
    if options.json:
        whole = {"hardware": machine.describe(), "scheme": options.scheme, "steps": rows}
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(whole).replace("{\"way\"", "\n{\"way\"") + "\n")


main()
