"""Trains a small GPT with unmodified PyTorch, native and compressed, and compares the losses: by
step, and by time on shaped links.

Four ranks, each a node of its own, on the CPU. A run that is finished is not run again; stop it
when you like, the same command goes on.
"""

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
import time

import page
import picture
import plan
import table
import text
from launch import RunError, run
from store import Store, sources_digest
from summary import summarize

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_HERE))
sys.path += [os.path.join(_ROOT, "bench", "demo"), os.path.join(_ROOT, "bench", "netlab")]
import libraries  # pylint: disable=wrong-import-position
import machine  # pylint: disable=wrong-import-position
import surroundings  # pylint: disable=wrong-import-position
from arguments import list_of, split_schemes  # pylint: disable=wrong-import-position
from signals import unwind_at_signals  # pylint: disable=wrong-import-position
from units import format_rate, parse_rate  # pylint: disable=wrong-import-position


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="bench/train", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help=f"a few schemes, one seed, {plan.QUICK_STEPS} steps, links of "
                             "1 Gbit/s")
    parser.add_argument("--ways", type=list_of(str, plan.WAYS), default=plan.WAYS, metavar="LIST",
                        help=f"of {', '.join(plan.WAYS)} (all)")
    parser.add_argument("--schemes", type=split_schemes, metavar="LIST",
                        help="to compare with native (all presets that fit the way, and plain "
                             f"ones); or variants of the papers: {', '.join(plan.PAPERS)}; with "
                             f"DDP also {', '.join(plan.ONE_SCALE)}, without terse; with FSDP2 "
                             f"also followed by {plan.EXACT_NORMS}")
    parser.add_argument("--seeds", type=list_of(int), metavar="LIST", help="(1,2,3)")
    parser.add_argument("--steps", type=int, metavar="N", help=f"({plan.RECIPE['steps']})")
    parser.add_argument("--rates", type=list_of(parse_rate), metavar="LIST",
                        help="of the links on which steps are timed (1gbit,100mbit); 0: not "
                             "shaped")
    parser.add_argument("--no-times", action="store_true", help="do not time steps")
    parser.add_argument("--finished", action="store_true",
                        help="run nothing; show the runs of these options that are finished")
    parser.add_argument("--model", choices=plan.MODELS, default="gpt",
                        help="what is trained (%(default)s; conv: causal convolutions)")
    parser.add_argument("--layers", type=int, metavar="N")
    parser.add_argument("--width", type=int, metavar="N")
    parser.add_argument("--context", type=int, metavar="N", help="bytes of a window (128)")
    parser.add_argument("--nodes", type=int, choices=(1, 2, 4), default=plan.RANKS, metavar="N",
                        help="on which the four ranks are: 1, 2 or 4 (%(default)s)")
    parser.add_argument("--batch", type=int, default=plan.RECIPE["batch"], metavar="N",
                        help="windows a rank and step (%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=plan.RECIPE["rate"], metavar="R",
                        help="the highest (%(default)g)")
    parser.add_argument("--weights", default="float32",
                        choices=("float32", "bfloat16", "remainders"),
                        help="what FSDP2 and ZeRO-1 gather (float32); remainders: with ZeRO-1 bfloat16, "
                             "beside which an owner keeps the other bits of its fp32 weights alone")
    parser.add_argument("--out", default=os.path.join(_ROOT, "build", "train"), metavar="DIR",
                        help="where runs and results are kept (build/train)")
    parser.add_argument("--json", metavar="FILE", help="write the summary here, too")
    parser.add_argument("--plot", metavar="NAME",
                        help="write the pictures to NAME-WAY.svg, too")
    parser.add_argument("--build-dir", default=os.path.join(_ROOT, "build", "host"), metavar="DIR",
                        help="use this finished build instead of building")
    parser.add_argument("--torch", default=os.path.join(_ROOT, "build", "torch"), metavar="DIR",
                        help="the environment with PyTorch (build/torch, which is made)")
    options = parser.parse_args(arguments)
    if options.weights == "remainders" and tuple(options.ways) != ("zero1",):
        parser.error("remainders are kept by ZeRO-1 alone: --ways zero1")
    alone = [scheme for scheme in options.schemes or () if scheme in plan.ONE_SCALE]
    if alone and tuple(options.ways) != ("ddp",):
        parser.error(f"{alone[0]} is a hook of DDP: --ways ddp")
    return complete(options)


def complete(options):
    options.build_dir = os.path.abspath(options.build_dir)
    options.python = os.path.join(os.path.abspath(options.torch), "bin", "python")
    options.seeds = options.seeds or (plan.QUICK_SEEDS if options.quick else plan.SEEDS)
    options.rates = options.rates or (plan.QUICK_RATES if options.quick else plan.RATES)
    if options.no_times:
        options.rates = ()
    steps = options.steps or (plan.QUICK_STEPS if options.quick else plan.RECIPE["steps"])
    sizes = {"layers": options.layers, "width": options.width, "context": options.context}
    options.model = {**plan.MODELS[options.model],
                     **{key: value for key, value in sizes.items() if value}}
    options.recipe = {**plan.RECIPE, "steps": steps, "batch": options.batch,
                      "rate": options.learning_rate,
                      "weights": options.weights,
                      "validate_every": max(1, min(plan.RECIPE["validate_every"], steps // 10))}
    return options


def versions(options):
    """Of what the losses depend on, and the times."""
    ask = ("import platform, torch, torch_hostnccl as t; "
           "print(platform.python_version(), torch.__version__, t.__path__[0])")
    python, torch, backend = subprocess.run([options.python, "-W", "ignore", "-c", ask], check=True,
                                   capture_output=True, text=True).stdout.split()
    digest = libraries.digest
    # What is exact with +exact-norms is in the module that rank.py imports; and how long a step takes
    # lies with all of netlab, too.
    netlab = [os.path.dirname(surroundings.NETLAB), surroundings.NETLAB]
    return {"python": python, "torch": torch, **libraries.versions(options.build_dir),
            "backend": digest([backend]), "module": digest([os.path.join(_ROOT, "python", "terse")]),
            "programs": sources_digest(_HERE), "surroundings": digest([surroundings.__file__]),
            "netlab": digest(netlab), "profile": plan.PROFILE, "settings": surroundings.settings()}


def _line(job, result):
    if job.get("measure"):
        seconds = sorted(result["step_seconds"])
        return (f"{1e3 * seconds[len(seconds) // 2]:7.1f} ms a step, "
                f"{result['sent_bytes'] / 1e6:.3f} MB out of a host")
    return (f"validation loss {result['final_validation']:.4f}, {result['wall_seconds']:.0f} s")


def run_all(jobs, store, options):
    """[(job, result)]"""
    found = []
    kept = store.find(jobs, some=options.finished)
    for number, (job, result) in enumerate(zip(jobs, kept), 1):
        known = result is not None
        if not known and options.finished:
            continue
        link = f", {format_rate(job['rate'])}" if "rate" in job else ""
        print(f"[{number}/{len(jobs)}] {job['way']} {job['scheme']}, seed {job['seed']}{link}: ",
              end="", flush=True)
        if not known:
            result = run(job, options)
            store.keep(job, result)
        found.append((job, result))
        print(_line(job, result) + (" (kept)" if known else ""), flush=True)
    return found


def _comparable(job, losses, timed):
    """How many of the first losses must be the same: where validation communicates, those before
    the first one."""
    count = min(len(losses), len(timed))
    if job["way"] in plan.GATHER_TO_VALIDATE:
        return min(count, job["recipe"]["validate_every"])
    return count


def check_steps(runs, timings):
    """The steps that were timed are those of the training: their losses are the same bits. A line
    for each timing where they are not."""
    trained = {(job["way"], job["scheme"], job["seed"]): result["losses"] for job, result in runs}
    wrong = []
    for job, result in timings:
        losses = trained.get((job["way"], job["scheme"], job["seed"]), [])
        count = _comparable(job, losses, result["losses"])
        # As text, for a NaN is not itself.
        if repr(losses[:count]) != repr(result["losses"][:count]):
            wrong.append(f"{job['way']} {job['scheme']}, {format_rate(job['rate'])}: the timed "
                         "steps have other losses than those of the training")
    return wrong


def write(path, content):
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


def report(options, found, data, kept, seconds):
    """seconds: that all runs together took."""
    hardware = machine.describe()
    whole = {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
             "command": shlex.join(["bench/train", *(argument for argument in sys.argv[1:]
                                                     if argument != "--finished")]),
             "hardware": hardware,
             "versions": kept, "wall_seconds": round(seconds, 1), "ranks": plan.RANKS,
             "seeds": options.seeds, "model": options.model, "recipe": options.recipe,
             "text": {key: value for key, value in data.items() if key != "folder"},
             "notes": table.NOTES, "ways": found}
    seeds = f"{len(options.seeds)} seed{'s' * (len(options.seeds) > 1)}"
    heading = f"{plan.RANKS} ranks, {options.recipe['steps']} steps, {seeds}"
    footing = (f"{machine.caption(hardware)}; torch {kept['torch']}; {data['source']}; "
               f"{whole['date'][:10]}; {whole['command']}")
    pictures = {way: picture.picture(way, rows, heading, footing) for way, rows in found.items()}
    write(os.path.join(options.out, "summary.json"), _compact(whole))
    if options.json:
        write(options.json, _compact(whole))
    for way, drawing in pictures.items():
        write(os.path.join(options.out, f"{way}.svg"), drawing)
        if options.plot:
            write(f"{options.plot}-{way}.svg", drawing)
    title = f"Training, native and compressed: {heading}"
    write(os.path.join(options.out, "page.html"), page.page(title, found, pictures, footing))
    print("\n" + table.text(found))
    print(f"on: {machine.caption(hardware)}, load {os.getloadavg()[0]:.1f}.")
    print(f"results: {options.out}/page.html, summary.json, {', '.join(pictures)} .svg")


def _compact(whole):
    """Five digits of what was measured; a curve's points in a line."""
    return json.dumps(_rounded(whole), indent=None, separators=(",", ":")).replace(
        '},"', '},\n"') + "\n"


def _rounded(value):
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return value


def train(options):
    start = time.monotonic()
    os.makedirs(options.out, exist_ok=True)
    if options.rates and not surroundings.shapes_links():
        print("bench/train: no shaped links here (root?): steps are not timed", file=sys.stderr)
        options.rates = ()
    data = {**text.prepare(options.out), "folder": os.path.abspath(options.out)}
    kept = versions(options)
    store = Store(os.path.join(options.out, "runs"), kept, machine.describe())
    jobs, timed = plan.trainings(options, data), plan.timings(options, data)
    print(f"== {len(jobs)} trainings of {options.recipe['steps']} steps, {len(timed)} timings",
          flush=True)
    timings = run_all(timed, store, options)
    runs = run_all(jobs, store, options)
    if not runs and not timings:
        raise RunError("nothing of it is finished")
    report(options, summarize(runs, timings), data, kept,
           sum(result["wall_seconds"] for _, result in runs + timings))
    print(f"done in {time.monotonic() - start:.0f} s")
    wrong = check_steps(runs, timings)
    for line in wrong:
        print(f"bench/train: {line}", file=sys.stderr)
    return 1 if wrong else 0


def main():
    options = parse_arguments(sys.argv[1:])
    unwind_at_signals()
    try:
        return train(options)
    except (RunError, surroundings.LibraryError) as error:
        print(f"bench/train: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
