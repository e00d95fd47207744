"""Runs a job: its ranks, native or under the preload library, each on a host of its own."""

import glob
import json
import os
import subprocess
import sys
import tempfile
import time

import reports
from plan import NATIVE, PROFILE

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(_HERE), "netlab"))
from surroundings import (NETLAB, environment, finish,  # pylint: disable=wrong-import-position
                          preload)


class RunError(Exception):
    pass


def lab(job):
    """For the time of a step, shaped links; where only losses count, this machine's memory. What
    terse and NCCL do is the same."""
    command = [NETLAB, "--hosts", str(job["nodes"]), "--ranks-per-host",
               str(job["ranks"] // job["nodes"]), "--quiet", "--timeout", "86400"]
    if "rate" in job:  # 0: hosts whose links are not shaped
        return command + ["--rate", str(job["rate"])]
    return command + ["--loopback", "--env", "UCX_TLS=all"]


def _variables(job, options, folder):
    found = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if job["rules"] != NATIVE:
        found.update(LD_PRELOAD=preload(options.build_dir), TERSE_SCHEME=job["rules"],
                     TERSE_SEED=str(job["seed"]), TERSE_REPORT=folder)
        if job["rules"].startswith("auto"):
            found["TERSE_PROFILE"] = PROFILE
        found.update(job.get("variables", {}))
    return [part for name, value in found.items() for part in ("--env", f"{name}={value}")]


def verdict(folder, options):
    """The sums of an observed run, of all ranks, as `terse report` has them."""
    path = os.path.join(folder, "merged.json")
    subprocess.run([os.path.join(options.build_dir, "bin", "terse"), "report", folder, "--json",
                    path], check=True, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as file:
        return json.load(file)["observed"]


def run(job, options):
    """The result, after it was checked. Raises RunError and LibraryError."""
    with tempfile.TemporaryDirectory(prefix="terse-train-") as folder:
        path = os.path.join(folder, "job")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        command = [*lab(job), *_variables(job, options, folder), "--", options.python,
                   os.path.join(_HERE, "rank.py"), path, folder]
        start = time.monotonic()
        code, said = finish(command, env=environment(), stderr=subprocess.STDOUT)
        if code != 0:
            sys.stderr.write(said[-6000:])
            raise RunError(f"{job['way']} {job['scheme']} failed with exit code {code}")
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
        if job["rules"] != NATIVE:
            result["terse"] = reports.read(glob.glob(os.path.join(folder, "rank*.json")))
            if "TERSE_OBSERVE" in job.get("variables", {}):
                result["verdict"] = verdict(folder, options)
    result["wall_seconds"] = round(time.monotonic() - start, 1)
    result["load"] = os.getloadavg()[0]
    check(job, result)
    return result


def check(job, result):
    """What must be so, whatever the loss."""
    name = f"{job['way']} {job['scheme']} seed {job['seed']}"
    if job["rules"] != NATIVE and not result["terse"]["calls"]:
        raise RunError(f"{name}: nothing was compressed; native because of "
                       f"{result['terse']['bypasses']}")
    if not job.get("measure") and not result["replicas"]["same_but_for_owners"]:
        raise RunError(f"{name}: the ranks' weights differ")
