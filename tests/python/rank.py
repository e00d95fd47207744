"""One rank of an NCCL program in Python: rank.py WAY LIBRARY FOLDER RANK RANKS

It sums random numbers by an AllReduce, of which it has excluded two ranges, and asks for the statistics.
WAY is `nccl`: it calls NCCL's own function, which the preload library may catch; `model`: so, and the
message is a bucket of Megatron-LM's, whose norms are excluded; or `name`: it calls libterse.so's function.
FOLDER takes the result, sum-RANK, and is where the ranks find each other."""

import array
import contextlib
import ctypes
import hashlib
import json
import os
import random
import sys
import time

import terse
import terse._library
import terse._pause
import terse.models
import terse.torch
from megatron_buffers import Buffer, DistributedDataParallel, Group, Parameter

WAY, LIBRARY, FOLDER = sys.argv[1:4]
RANK, RANKS = int(sys.argv[4]), int(sys.argv[5])
COUNT = 50_048
RANGES = [(128, 50), (19_968, 3_000)]
UINT8, FLOAT32, SUM = 1, 7, 0
AT = "at = [0, 0.25, 0.5, 1]\n"
FOR_GOOD = contextlib.ExitStack()  # until the program ends


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def unique_id(nccl):
    made, path = UniqueId(), FOLDER + "/id"
    if RANK == 0:
        nccl.ncclGetUniqueId(ctypes.byref(made))
        with open(path + ".part", "wb") as file:
            file.write(bytes(made))
        os.rename(path + ".part", path)
        return made
    for _ in range(1000):
        if os.path.exists(path):
            with open(path, "rb") as file:
                return UniqueId.from_buffer_copy(file.read())
        time.sleep(0.01)
    sys.exit("no id")


def join(nccl):
    comm = ctypes.c_void_p()
    assert nccl.ncclCommInitRank(ctypes.byref(comm), RANKS, unique_id(nccl), RANK) == 0
    return comm


def exclude_by_model(comm):
    """The same ranges."""
    params = {"c.weight": Parameter(188, 144), "b.norm.weight": Parameter(3_000),
              "b.weight": Parameter(206, 96), "a.norm.weight": Parameter(50),
              "a.weight": Parameter(128)}
    buffer = Buffer(list(params.values()), Group(RANKS, RANK, comm.value))
    model = DistributedDataParallel(params, [buffer])
    done = terse.models.exclude_norms(model, lambda name, shape: "norm" in name)
    assert [tuple(message[:2]) for message in done] == [(COUNT, RANGES)]


def all_reduce(nccl, address, comm):
    arguments = [ctypes.c_void_p(address), ctypes.c_void_p(address), ctypes.c_size_t(COUNT),
                 FLOAT32, SUM]
    if WAY != "name":
        return nccl.ncclAllReduce(*arguments, comm, None)
    library, scheme = terse._library.by_name(), ctypes.c_void_p()
    assert library.terseSchemeParse(b"int4", ctypes.byref(scheme)) == 0
    return library.terseAllReduce(*arguments, scheme, comm, None)


@contextlib.contextmanager
def paused_though_another_is_over(comm):
    with terse.paused(comm):
        with terse.paused(comm, comm):
            pass
        yield


def sums_while_paused(nccl, comm):
    """The same sum while it is paused, and after: digests, and the calls that were off by then."""
    found = []
    for way in (paused_though_another_is_over(comm.value), contextlib.nullcontext()):
        numbers = random.Random(RANK)
        data = array.array("f", (numbers.gauss(0, 1) for _ in range(COUNT)))
        with way:
            assert all_reduce(nccl, data.buffer_info()[0], comm) == 0
        found.append([hashlib.sha256(data.tobytes()).hexdigest(),
                      terse.stats(comm.value).bypasses["off"]])
    return found


def sums_by_schemes(nccl, comm):
    """The same sum within schemes, one in the other, and after: digests, and the bytes sent by then."""
    found = []

    def add():
        numbers = random.Random(RANK)
        data = array.array("f", (numbers.gauss(0, 1) for _ in range(COUNT)))
        before = terse.stats(comm.value).wire_bytes
        assert all_reduce(nccl, data.buffer_info()[0], comm) == 0
        found.append(terse.stats(comm.value).wire_bytes - before)

    with terse.torch.scheme(comm.value, "int8"):
        add()
        with terse.torch.scheme(comm.value, "int2"):
            add()
            with terse.torch.exact(comm.value):
                add()
        add()
    add()
    return found


def enter(comm, text):
    with terse.torch.scheme(comm, text):
        pass


def paused_for_good(nccl, comm):
    """Communicators, each destroyed within its pauses before there is the next, mostly at its address: the
    calls of each that were off, of one."""
    found, data = [], array.array("f", bytes(4 * COUNT))
    for _ in range(20):
        part = ctypes.c_void_p()
        assert nccl.ncclCommSplit(comm, 0, RANK, ctypes.byref(part), None) == 0
        FOR_GOOD.enter_context(terse.paused(part.value))
        with terse.paused(part.value):
            assert all_reduce(nccl, data.buffer_info()[0], part) == 0
            found.append(terse.stats(part.value).bypasses["off"])
            assert nccl.ncclCommDestroy(part) == 0
    return found


def fail_while_others_gather(nccl, comm):
    """Rank 0 comes later to the gather of nine bytes, for it has failed within the pause: what both have
    gathered, and the error."""
    mine, error = array.array("B", [7 + RANK] * 9), None
    gathered = array.array("B", bytes(18))
    gather = lambda: nccl.ncclAllGather(
        ctypes.c_void_p(mine.buffer_info()[0]), ctypes.c_void_p(gathered.buffer_info()[0]),
        ctypes.c_size_t(9), UINT8, comm, None)
    try:
        with terse.paused(comm.value):
            if RANK == 0:
                raise OSError("disk full")
            assert gather() == 0
    except OSError as caught:
        error = str(caught)
        assert gather() == 0
    return [gathered.tolist(), error]


def refusal(function, comm, *arguments):
    """[the result code, the message] of what cannot be."""
    try:
        function(comm.value, *arguments)
    except terse.Error as error:
        return [error.code, str(error)]
    return None


def main():
    nccl = ctypes.CDLL(LIBRARY)
    comm = join(nccl)
    told = {"active": terse.active(), "policy": terse.policy()}
    if terse.active() or WAY == "name":
        if WAY == "model":
            exclude_by_model(comm)
        else:
            terse.exclude(comm.value, COUNT, RANGES)
        told["version"] = terse.version()
        told["beyond"] = refusal(terse.exclude, comm, COUNT, [(COUNT, 1)])
        told["differs"] = refusal(terse.exclude, comm, COUNT, [(RANK, 1)])
    numbers = random.Random(RANK)
    data = array.array("f", (numbers.gauss(0, 1) for _ in range(COUNT)))
    assert all_reduce(nccl, data.buffer_info()[0], comm) == 0
    with open(f"{FOLDER}/sum-{RANK}", "wb") as file:
        data.tofile(file)
    if "version" in told:
        stats = terse.stats(comm.value)
        told.update(calls=stats.calls, raw=stats.raw_bytes, wire=stats.wire_bytes,
                    bypasses=stats.bypasses, levels=terse.levels(comm.value),
                    other_levels=refusal(terse.set_levels, comm, f"[[levels]]\nfits = {RANK}\n{AT}"))
        if terse.active():
            told["paused"] = sums_while_paused(nccl, comm)
            told["schemes"] = sums_by_schemes(nccl, comm)
            told["no_scheme"] = refusal(enter, comm, "safe")
            told["no_profile"] = refusal(enter, comm, "auto")
            told["other_scheme"] = refusal(enter, comm, f"int{4 + RANK}")
            told["summary"] = terse.torch.summary(comm.value)
            told["paused_for_good"] = paused_for_good(nccl, comm)
            told["failed_apart"] = fail_while_others_gather(nccl, comm)
        if "TERSE_LEVELS" not in os.environ:
            terse.set_levels(comm.value, "[[levels]]\n" + AT)
            told["given"] = terse.levels(comm.value)
    nccl.ncclCommDestroy(comm)
    print(json.dumps(told))


main()
