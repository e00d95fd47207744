"""A lab's profile, by which the scheme `auto` chooses, and what it chose."""

import glob
import json
import os

import plan

AUTO = "auto"
# What a lab is tuned for, to leave time for large messages.
SCHEMES = "int8,int4"


class MeasureError(Exception):
    pass


def is_auto(scheme):
    return scheme.partition(":")[0] == AUTO


def tune(lab, options, path):
    """Runs terse-tune on the lab's hosts; the profile goes to `path`."""
    program = os.path.join(options.build_dir, "bin", "terse-tune")
    most = plan.patience(options.tune_seconds)
    dtypes, collectives = plan.dtypes(lab, options), plan.collectives(lab, options)
    options.hosts.of(lab, options).run(
        "terse-tune",
        [program, "-o", path, "--seconds", str(options.tune_seconds), "-T", str(most), "--dtypes",
         ",".join({"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[dtype]
                  for dtype in dtypes), "--collectives",
         ",".join(name.replace("_", "") for name in collectives),
         "--schemes", SCHEMES],
        # As in measure(): netlab, which knows nothing of progress, ends what cannot end itself.
        timeout=2 * most * len(dtypes) * len(collectives))


def choice(folder):
    """The scheme that rank 0's report in `folder` says was chosen, and the predicted seconds of a
    call; ("native", None) where nothing was compressed. Raises MeasureError."""
    paths = glob.glob(os.path.join(folder, "rank0-*.json"))
    if len(paths) != 1:
        raise MeasureError(f"{len(paths)} reports of rank 0, where there should be one: "
                           "was the program run with terse?")
    with open(paths[0], encoding="utf-8") as file:
        report = json.load(file)
    for communicator in report["communicators"]:
        for row in communicator["rows"]:
            seconds = row["seconds"]
            if seconds.get("predicted") and seconds["calls"]:
                return row["scheme"].partition(":")[0], seconds["predicted"] / seconds["calls"]
    return "native", None
