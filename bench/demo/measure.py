"""Runs one case: the perf program on every host, plain, under the preloaded library, or calling
libterse itself."""

import dataclasses
import json
import os
import sys
import tempfile

from plan import GRADIENT, NATIVE, TYPES, WARM_UP, iterations, patience, program_seconds
from tuning import choice, is_auto, tune

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "netlab"))
from surroundings import preload  # pylint: disable=wrong-import-position


@dataclasses.dataclass
class Result:
    seconds: float  # a call, the mean
    calls: int  # of which it is the mean
    interface_bytes: float  # a call and host, from its interface's counter
    interface_total: float  # a host, whole program, from outside
    error: float  # relative, L2
    chosen: str = None  # by auto
    predicted: float = None  # seconds, by auto
    library_bytes: float = None  # a call and host, to others, by libterse's own statistics
    checksums: tuple = ()


def median(results):
    """The result of the median time, of an odd number of them."""
    return sorted(results, key=lambda result: result.seconds)[len(results) // 2]


def _program(case, scheme, options, directory):
    command = [os.path.join(options.build_dir, "bin", f"{case.collective}_perf"),
               "-d", TYPES[case.dtype][0], "-c", "0", "-w", str(WARM_UP),
               "-n", str(iterations(case, scheme, options)), "--checksum", "--place", "out",
               "--netdev", "lo" if options.loopback else "eth0",
               "-J", os.path.join(directory, "perf.json")]
    if case.data == "gradient":
        return command + ["--input", GRADIENT]
    return command + ["--data", case.data, "-b", str(case.size), "-e", str(case.size)]


def _profile(case, options):
    """What auto goes by in the case's lab, which is tuned once."""
    path = os.path.join(options.profiles, f"{case.lab.hosts}x{case.lab.ranks_per_host}.toml")
    if not os.path.exists(path):
        tune(case.lab, options, path)
    return path


def _choosing(case, scheme, options, directory):
    """The environment of auto, and where its report goes."""
    if not is_auto(scheme):
        return []
    return [f"TERSE_PROFILE={_profile(case, options)}", f"TERSE_REPORT={directory}"]


def _preload(scheme, options):
    if scheme == NATIVE:
        return []
    return [f"LD_PRELOAD={preload(options.build_dir)}", f"TERSE_SCHEME={scheme}", *options.set]


def measure(case, scheme, options, direct=False):
    """direct: through terse.h instead of the preloaded library, which adds its statistics."""
    with tempfile.TemporaryDirectory(prefix="terse-bench-") as directory:
        settings = _choosing(case, scheme, options, directory)
        most = patience(program_seconds(case, scheme, options))
        program = [*_program(case, scheme, options, directory), "-T", str(most)]
        if direct:
            program += ["--scheme", scheme]
        else:
            settings += _preload(scheme, options)
        # netlab, which knows nothing of progress, only where the program cannot end itself.
        done = options.hosts.of(case.lab, options).run(
            f"{case.name} {scheme}", program, settings, 2 * most)
        with open(os.path.join(directory, "perf.json"), encoding="utf-8") as file:
            perf = json.load(file)
        chosen, predicted = choice(directory) if is_auto(scheme) else (None, None)
    place = perf["results"][0]["out_of_place"]
    return Result(seconds=place["time"] / 1e6, calls=iterations(case, scheme, options),
                  interface_bytes=place["netdev_bytes_per_call"],
                  interface_total=sum(c["tx_bytes"] for c in done["interfaces"]) / case.lab.hosts,
                  error=float(place["relative_l2_error"]),
                  chosen=chosen, predicted=predicted,
                  library_bytes=place["off_node_bytes_per_call"],
                  checksums=tuple(place["checksums"]))
