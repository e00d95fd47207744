"""NVIDIA's nccl-tests, built unmodified: native, with the preload library switched off, and
compressed."""

import contextlib
import glob
import os
import shlex
import stat
import zipfile

import machine
import preload
import ranks
import terse_reports
from context import Failed, NotRun

NAME = "nccl-tests"
TITLE = "NVIDIA's nccl-tests, unmodified, native and under the preload library"

RANKS = 2
PROGRAMS = ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf")
SWEEP = ("-b", "1M", "-e", "64M", "-f", "8", "-n", "3", "-w", "1", "-d", "float")
LARGEST_ERROR = 0.1  # relative: int8 errs by a hundredth or so, what is wrong by one or so


def carried():
    return os.path.join(machine.ROOT, "build", "carried")


def unpack_mpi(to):
    """The MPICH that is carried as a Python wheel: it has all that its programs need."""
    wheels = glob.glob(os.path.join(carried(), "mpich-*.whl"))
    if not wheels:
        raise Failed(f"there is no MPICH in {carried()}; tests/gpu/carry puts it there")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(to)
    [home] = glob.glob(os.path.join(to, "*.data", "data"))
    for program in glob.glob(os.path.join(home, "bin", "*")):
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
    return home


def lay_out_nccl(library, to):
    """A folder as an installation of NCCL has it: of this library, and of the headers beside it, or
    those that were carried, or CUDA's, or the distribution's."""
    beside = os.path.join(os.path.dirname(os.path.dirname(library)), "include")
    folders = (beside, os.path.join(carried(), "nccl", "include"),
               os.path.join(machine.cuda(), "include"), "/usr/include")
    headers = next((each for each in folders if os.path.exists(os.path.join(each, "nccl.h"))), None)
    if headers is None:
        raise Failed(f"there is no nccl.h in {', '.join(folders)}")
    os.makedirs(os.path.join(to, "lib"), exist_ok=True)
    for name, target in (("include", headers), ("lib/libnccl.so", library),
                         ("lib/libnccl.so.2", library)):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(to, name))
        os.symlink(target, os.path.join(to, name))
    return to


def build(context, source, codes, programs, *options):
    """The folder of the programs. `codes`: what nvcc is to compile for."""
    folder = os.path.join(context.build, "nccl-tests")
    nccl = lay_out_nccl(context.nccl, os.path.join(context.build, "nccl"))
    context.run("make", "-C", os.path.join(source, "src"), "-j", len(os.sched_getaffinity(0)),
                f"BUILDDIR={folder}", f"NCCL_HOME={nccl}", f"CUDA_HOME={machine.cuda()}",
                f"NVCC_GENCODE={codes}", *options, "os.build",
                *(os.path.join(folder, program) for program in programs), seconds=240)
    return folder


def codes():
    """Of the GPUs that there are."""
    return " ".join(f"-gencode=arch=compute_{each},code=sm_{each}"
                    for each in machine.architectures()) or "-arch=native"


def launch(mpi, program, env):
    """Under `env`, which the launcher itself does not see."""
    own = "NCCL_HOSTID=rank$PMI_RANK NCCL_TESTS_DEVICE=0" if ranks.share_gpus(RANKS) else ""
    common = {name: value for name, value in ranks.settings(RANKS).items()
              if name not in os.environ}
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in {**common, **env}.items())
    libraries = shlex.quote(os.path.join(mpi, "lib")) + ":$LD_LIBRARY_PATH"
    return (os.path.join(mpi, "bin", "mpiexec"), "-n", str(RANKS), "sh", "-c",
            f'exec env LD_LIBRARY_PATH={libraries} {own} {given} "$@"', "sh", program)


def rows(text):
    """[(bytes, microseconds out of place, wrong values or None where none were looked for), ...]"""
    found = []
    for line in text.splitlines():
        words = line.split()
        # size count type redop (which may be empty) root, then time algbw busbw #wrong, twice
        if len(words) < 12 or not words[0].isdigit():
            continue
        wrong = None if words[-5] == "N/A" else int(float(words[-5])) + int(float(words[-1]))
        found.append((int(words[0]), float(words[-8]), wrong))
    return found


def play(context, mpi, program, env, *arguments):
    out = context.run(*launch(mpi, program, env), *SWEEP, *arguments, seconds=90)
    found = rows(out)
    if not found:
        raise Failed("it printed no results")
    if any(wrong for _, _, wrong in found):
        raise Failed(f"wrong values: {found}")
    return [{"bytes": size, "us": time} for size, time, _ in found]


def exactly(context, mpi, program, env):
    """With nccl-tests' own check of every value."""
    return play(context, mpi, program, env, "-c", "1")


def compressed(context, mpi, program, scheme):
    with preload.preloaded(context, scheme, RANKS) as env:
        return play(context, mpi, program, env, "-c", "0")


def error(context, mpi, program, scheme):
    """The true ones: nccl-tests' own check asks for more than a quantized result can give. Native
    calls beside the compressed ones find them, which take time: in a run of its own."""
    with preload.preloaded(context, scheme, RANKS) as env:
        play(context, mpi, program, {**env, "TERSE_VERIFY": "2"}, "-c", "0")
        errors = terse_reports.relative_errors(env["TERSE_REPORT"])
    if not errors or not all(0 < each < LARGEST_ERROR for each in errors):
        raise Failed(f"{scheme} errs by {errors or 'what nobody saw'}")
    return max(errors)


def measure(context, mpi, program, figures):
    """Into the figures, which keep what was measured before a failure."""
    off = {"LD_PRELOAD": context.library("libterse_nccl.so"), "TERSE_SCHEME": "off"}
    figures["native"] = exactly(context, mpi, program, {})
    figures["off"] = exactly(context, mpi, program, off)
    figures["int8"] = compressed(context, mpi, program, "int8")
    figures["int8 error"] = error(context, mpi, program, "int8")


def run(context):
    source = os.path.join(carried(), "nccl-tests")
    if not os.path.exists(os.path.join(source, "Makefile")):
        raise NotRun("nccl-tests was not carried along (tests/gpu/carry --nccl-tests CHECKOUT)")
    if context.nccl is None:
        raise NotRun("there is no NCCL")
    mpi = unpack_mpi(os.path.join(context.build, "mpi"))
    folder = build(context, source, codes(), PROGRAMS, "MPI=1", f"MPI_HOME={mpi}")
    figures, problems = {}, []
    for name in PROGRAMS:
        figures[name] = {}
        try:
            measure(context, mpi, os.path.join(folder, name), figures[name])
        except Failed as failure:
            problems.append(f"{name}: {failure}")
    if problems:
        raise Failed("; ".join(problems), figures)
    return figures
