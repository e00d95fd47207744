#!/usr/bin/env python3
"""Data-parallel training in Python without a framework: NCCL by ctypes, as vLLM and SGLang call it.

    pynccl.py LIBNCCL                                     NCCL alone
    terse run --scheme int8 --nccl LIBNCCL -- pynccl.py   the same program, compressed

Four processes fit one linear model, each to samples of its own, and average their gradients. The
memory is the host's, as for hostnccl. Without LIBNCCL the system's libnccl.so.2 is opened."""

import array
import ctypes
import multiprocessing
import random
import sys

RANKS, PARAMETERS, STEPS = 4, 60_000, 10
FLOAT32, AVERAGE = 7, 4  # ncclDataType_t, ncclRedOp_t


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Nccl:
    """The functions that are needed, looked up on the library's handle."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.ncclGetLastError.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise RuntimeError(f"{name}: {self.library.ncclGetLastError(None).decode()}")

    def communicator(self, unique_id, rank):
        comm = ctypes.c_void_p()
        self.call("ncclCommInitRank", ctypes.byref(comm), RANKS, unique_id, rank)
        return comm

    def average(self, numbers, comm):
        """In place; done on return, for the stream is null."""
        address = ctypes.c_void_p(numbers.buffer_info()[0])
        self.call("ncclAllReduce", address, address, ctypes.c_size_t(len(numbers)), FLOAT32,
                  AVERAGE, comm, None)


def train(path, rank, id_bytes, results):
    nccl = Nccl(path)
    comm = nccl.communicator(UniqueId.from_buffer_copy(id_bytes), rank)
    draw = random.Random(rank)
    truth = [(i % 7 - 3) / 3 for i in range(PARAMETERS)]
    weights = [0.0] * PARAMETERS
    for _ in range(STEPS):
        # The gradient of (w - truth)^2 / 2, with the noise of this rank's samples.
        gradient = array.array("f", (w - t + draw.gauss(0, 0.1) for w, t in zip(weights, truth)))
        nccl.average(gradient, comm)
        weights = [w - 0.5 * g for w, g in zip(weights, gradient)]
    nccl.call("ncclCommDestroy", comm)
    loss = sum((w - t) ** 2 for w, t in zip(weights, truth)) / PARAMETERS
    results.put((rank, loss, hash(tuple(weights))))


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "libnccl.so.2"
    context = multiprocessing.get_context("spawn")
    unique_id = UniqueId()
    # Whoever makes the id serves as the meeting point, and so must live as long as the ranks.
    Nccl(path).call("ncclGetUniqueId", ctypes.byref(unique_id))
    results = context.Queue()
    ranks = [context.Process(target=train, args=(path, rank, bytes(unique_id), results))
             for rank in range(RANKS)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    if any(process.exitcode != 0 for process in ranks):
        sys.exit("a rank has failed")
    got = sorted(results.get() for _ in ranks)
    for rank, loss, _ in got:
        print(f"rank {rank}: loss {loss:.6f}")
    if len({weights for _, _, weights in got}) != 1:
        sys.exit("the replicas have drifted apart")
    print("replicas are identical")


if __name__ == "__main__":
    main()
