"""One rank of an NCCL program in Python, which opens NCCL as vLLM does; as rank.cc otherwise.

ctypes_client.py LIBRARY LOOK_UP RANK RANKS ID_FILE COUNT ROUNDS

LOOK_UP is `dlsym`, ctypes' own; or `libc`, past any dlsym that is not libc's, as a library does that
was opened with RTLD_DEEPBIND."""

import array
import ctypes
import os
import struct
import sys
import time

LIBRARY, LOOK_UP = sys.argv[1:3]
RANK, RANKS = int(sys.argv[3]), int(sys.argv[4])
ID_FILE = sys.argv[5]
COUNT, ROUNDS = int(sys.argv[6]), int(sys.argv[7])
FLOAT32, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


ARGUMENTS = {
    "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
    "ncclCommInitRank": [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int],
    "ncclAllReduce": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                      ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p],
    "ncclCommDestroy": [ctypes.c_void_p],
}


def functions():
    library = ctypes.CDLL(LIBRARY)
    libc = ctypes.CDLL(None)
    libc.dlvsym.restype = ctypes.c_void_p
    libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    for name, arguments in ARGUMENTS.items():
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)
        if LOOK_UP == "dlsym":
            yield name, prototype((name, library))
            continue
        address = (libc.dlvsym(None, b"dlsym", b"GLIBC_2.2.5") or
                   libc.dlvsym(None, b"dlsym", b"GLIBC_2.17"))
        dlsym = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(address)
        yield name, prototype(dlsym(library._handle, name.encode()))


def exchange_id(nccl):
    unique_id = UniqueId()
    if RANK == 0:
        nccl["ncclGetUniqueId"](ctypes.byref(unique_id))
        with open(ID_FILE + ".part", "wb") as f:
            f.write(bytes(unique_id))
        os.rename(ID_FILE + ".part", ID_FILE)
        return unique_id
    for _ in range(1000):
        if os.path.exists(ID_FILE):
            with open(ID_FILE, "rb") as f:
                return UniqueId.from_buffer_copy(f.read())
        time.sleep(0.01)
    sys.exit("no id")


def main():
    nccl = dict(functions())
    comm = ctypes.c_void_p()
    result = nccl["ncclCommInitRank"](ctypes.byref(comm), RANKS, exchange_id(nccl), RANK)
    print("init", result, flush=True)
    for k in range(ROUNDS):
        data = array.array("f", (((i * 2654435761 + RANK * 97 + k) % 2**64 % 1000) / 37
                                 for i in range(COUNT)))
        address = data.buffer_info()[0]
        result = nccl["ncclAllReduce"](address, address, COUNT, FLOAT32, SUM, comm, None)
        total = 0
        for bits in struct.unpack(f"{COUNT}I", data.tobytes()):
            total = (total * 31 + bits) % 2**64
        print("round", k, result, f"{total:x}", flush=True)
    nccl["ncclCommDestroy"](comm)


main()
