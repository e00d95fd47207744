"""A setting that one rank of a program of libterse's cannot read: settings_test.py LIBTERSE LIBNCCL"""

import os
import sys
import unittest

TERSE, NCCL = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

from local_ranks import environment, finish, running  # noqa: E402

# Says what its first two calls gave, and stays until all ranks have.
RANK = r"""
import ctypes, sys
nccl, terse = (ctypes.CDLL(path) for path in sys.argv[1:3])
terse.terseGetLastError.restype = ctypes.c_char_p
rank, ranks = int(sys.argv[3]), int(sys.argv[4])
class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]
unique_id = Id()
if rank == 0:
    nccl.ncclGetUniqueId(ctypes.byref(unique_id))
    print(bytes(unique_id).hex(), flush=True)
else:
    unique_id = Id.from_buffer_copy(bytes.fromhex(sys.stdin.readline()))
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
terse.terseAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                 ctypes.c_int] + 3 * [ctypes.c_void_p]
comm, scheme = ctypes.c_void_p(), ctypes.c_void_p()
nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique_id, rank)
assert terse.terseSchemeParse(b"int8", ctypes.byref(scheme)) == 0
data = (ctypes.c_float * 100000)()
for k in range(2):
    result = terse.terseAllReduce(data, data, len(data), 7, 0, scheme, comm, None)
    print(result, terse.terseGetLastError().decode(), flush=True)
sys.stdin.read()
"""


def run(settings):
    """What each rank says, by the settings of each."""
    commands = [[sys.executable, "-c", RANK, NCCL, TERSE, rank, len(settings)]
                for rank in range(len(settings))]
    usual = {"TERSE_LOG": "off", "TERSE_TIMEOUT": "20", "ASAN_OPTIONS": "detect_leaks=0"}
    with running(commands, [environment(**{**usual, **own}) for own in settings]) as ranks:
        unique_id = ranks[0].stdout.readline()
        for rank in ranks[1:]:
            rank.stdin.write(unique_id)
            rank.stdin.flush()
        said = [[rank.stdout.readline().rstrip("\n") for _ in range(2)] for rank in ranks]
        finish(ranks)
    return said


class Settings(unittest.TestCase):
    def test_all_ranks_are_told_which_rank_and_what(self):
        error = 'TERSE_SEED="many": it must be a whole number'
        for rank, said in enumerate(run([{}, {"TERSE_SEED": "many"}, {}])):
            who = f"terseAllReduce: a new communicator, rank {rank} of 3: "
            told = f"4 {who}{error}" if rank == 1 else (
                f"5 {who}rank 1 has a setting that it cannot read: {error}")
            self.assertEqual(said, [told, told])

    def test_ranks_that_can_read_theirs_go_on(self):
        self.assertEqual(run([{"TERSE_SEED": "5"}] * 2), [["0 ", "0 "]] * 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
