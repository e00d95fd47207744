"""ncclShift, the collective of docs/EXTENDING.md, between three ranks of this process:

    shift.py NCCL TAG

TAG: of the calls' configuration; 0: they have none. Prints whether the results are exact, or rounded."""

import array
import ctypes
import sys

RANKS, COUNT, FLOAT32 = 3, 1000, 7
NCCL, TAG = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL), int(sys.argv[2])
PROGRAM = ctypes.CDLL(None)  # finds what is preloaded first


class Config(ctypes.Structure):
    """ncclCollConfig_t of NCCL 2.32."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("ext", ctypes.c_void_p), ("counts", ctypes.c_int * 4), ("algorithm", ctypes.c_char_p),
                ("forced", ctypes.c_int), ("policy", ctypes.c_int), ("tag", ctypes.c_uint64),
                ("event", ctypes.c_void_p)]


def check(result, what):
    if result != 0:
        PROGRAM.ncclGetLastError.restype = ctypes.c_char_p
        sys.exit(f"{what}: {result}: {PROGRAM.ncclGetLastError(None)}")


def shift(comm, send, recv):
    arguments = [ctypes.c_void_p(send.buffer_info()[0]), ctypes.c_void_p(recv.buffer_info()[0]),
                 ctypes.c_size_t(COUNT), FLOAT32, ctypes.c_void_p(comm), None]
    if TAG == 0:
        return PROGRAM.ncclShift(*arguments)
    undefined = -2**31
    config = Config(ctypes.sizeof(Config), 0xcafebeef, 23200, None, (undefined,) * 4, None, 1, undefined, TAG, None)
    return PROGRAM.ncclShiftConfig(*arguments, ctypes.byref(config))


comms = (ctypes.c_void_p * RANKS)()
check(PROGRAM.ncclCommInitAll(comms, RANKS, None), "ncclCommInitAll")
sent = [array.array("f", [rank + i / COUNT for i in range(COUNT)]) for rank in range(RANKS)]
received = [array.array("f", [-1] * COUNT) for _ in range(RANKS)]
check(PROGRAM.ncclGroupStart(), "ncclGroupStart")
for comm, send, recv in zip(comms, sent, received):
    check(shift(comm, send, recv), "shift")
check(PROGRAM.ncclGroupEnd(), "ncclGroupEnd")

errors = [abs(a - b) for rank in range(RANKS) for a, b in zip(received[rank], sent[rank - 1])]
if max(errors) > 3 / 127:
    sys.exit(f"an error of {max(errors)}")
print("exact" if max(errors) == 0 else "rounded")
