"""Random NCCL programs, native and under the preload library:

    program_test.py PROGRAM PRELOAD [TERSE_NAME=VALUE ...]

The variables are set wherever the library is preloaded."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, PRELOAD = sys.argv[1:3]
ALWAYS = dict(setting.split("=", 1) for setting in sys.argv[3:])
PATIENCE = 120
FAILED = 42
SEEDS = range(int(os.environ.get("PROGRAM_SEEDS", "12")))
# One int8 quantization of numbers from 1 to 2 errs by at most 2/254 of each, two of them by twice
# that; 16-bit results are rounded besides.
ERROR = "0.02"
# By which the programs' configurations choose (program.h).
TAGS = "tag=77 -> off; tag=78 bytes=1.. -> int8"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

import local_ranks  # noqa: E402


def environment(settings, preload):
    """On the SIMT executor leaks are not looked for: the threads of a rank that failed may still be on
    its fibers at the end, and the search crashes on them."""
    if preload:
        settings = {**settings, **ALWAYS, "LD_PRELOAD": PRELOAD,
                    "ASAN_OPTIONS": f"detect_leaks={int(not ALWAYS)}"}
    # Launches of a communicator go one after another, as NCCL's.
    return local_ranks.environment(**settings, HOSTNCCL_TIMEOUT="10", HOSTNCCL_LAUNCHES="1")


def play(seed, ranks, prefix, settings=None):
    """All ranks as threads of one process."""
    done = subprocess.run([PROGRAM, "play", str(seed), str(ranks), prefix], text=True,
                          env=environment(settings or {}, settings is not None),
                          capture_output=True, timeout=PATIENCE)
    if done.returncode != 0:
        raise AssertionError(f"seed {seed}, {ranks} ranks, {settings}: {done.returncode} {done.stderr}")
    return done.stderr


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def compare(self, seed, ranks, native, found, collectives, min_bytes, error=ERROR):
        words = [PROGRAM, "compare", seed, ranks, native, found, collectives, min_bytes, error, "quantized"]
        done = subprocess.run([str(word) for word in words], text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, f"seed {seed}, {ranks} ranks: {done.stdout} {done.stderr}")
        return [int(word) for word in done.stdout.split() if word.isdigit()]

    def test_results_are_within_the_error_and_bypassed_calls_exact(self):
        compressed = exact = 0
        for seed in SEEDS:
            ranks = 1 + seed % 5
            native, found = self.folder.name + f"/n{seed}", self.folder.name + f"/f{seed}"
            play(seed, ranks, native)
            play(seed, ranks, found, {
                "TERSE_SCHEME": f"{TAGS}; allreduce,allgather,reducescatter -> int8",
                "TERSE_MIN_BYTES": "1000"})
            counts = self.compare(seed, ranks, native, found,
                                  "allreduce,allgather,reducescatter", 1000)
            compressed, exact = compressed + counts[0], exact + counts[1]
        self.assertGreater(compressed, 2 * len(SEEDS))
        self.assertGreater(exact, 10 * len(SEEDS))

    @unittest.skipUnless(ALWAYS, "no settings")
    def test_the_libraries_in_use_are_those_of_the_settings(self):
        said = play(1, 2, self.folder.name + "/s", {"TERSE_SCHEME": "int8", "TERSE_MIN_BYTES": "1000",
                                                    "TERSE_LOG": "info"})
        for name in ALWAYS.keys() & {"TERSE_NCCL", "TERSE_CUDA_MODULE"}:
            self.assertIn(f"using {ALWAYS[name]}", said)

    # Half of them with all calls in a trace, native ones, too.
    def test_every_collective_and_message_by_rule(self):
        names = ("allreduce,allgather,reducescatter,alltoall,broadcast,reduce,gather,scatter,"
                 "sendrecv")
        compressed = 0
        for seed in SEEDS:
            ranks = 1 + seed % 5
            native, found = self.folder.name + f"/n{seed}", self.folder.name + f"/f{seed}"
            play(seed, ranks, native)
            traced = {"TERSE_TRACE": "100", "TERSE_REPORT": found + "-report"} if seed % 2 else {}
            play(seed, ranks, found, {"TERSE_SCHEME": f"{TAGS}; {names} bytes=1000.. -> int8", **traced})
            compressed += self.compare(seed, ranks, native, found, names, 1000)[0]
        self.assertGreater(compressed, 4 * len(SEEDS))

    # Whatever comes first on them: a message of a group on one rank, and alone on the other.
    def test_communicators_that_do_not_block(self):
        names = "allreduce,allgather,reducescatter,sendrecv"
        compressed = 0
        for seed in SEEDS:
            ranks = 1 + seed % 5
            native, found = self.folder.name + f"/n{seed}", self.folder.name + f"/f{seed}"
            play(seed, ranks, native)
            play(seed, ranks, found, {"TERSE_SCHEME": f"{TAGS}; {names} bytes=1000.. -> int8",
                                      "NCCL_COMM_BLOCKING": "0", "TERSE_TIMEOUT": "20"})
            compressed += self.compare(seed, ranks, native, found, names, 1000)[0]
        self.assertGreater(compressed, 2 * len(SEEDS))

    def test_off_is_exact(self):
        for seed in list(SEEDS)[:4]:
            native, found = self.folder.name + f"/n{seed}", self.folder.name + f"/f{seed}"
            play(seed, 3, native)
            play(seed, 3, found, {"TERSE_SCHEME": "off"})
            self.assertEqual(self.compare(seed, 3, native, found, "none", 0)[0], 0)

    # In groups of several communicators and streams, and messages.
    def test_what_is_observed_is_exact(self):
        observed = 0
        for seed in SEEDS:
            ranks = 1 + seed % 5
            native, found = self.folder.name + f"/n{seed}", self.folder.name + f"/f{seed}"
            play(seed, ranks, native)
            said = play(seed, ranks, found, {"TERSE_SCHEME": f"{TAGS}; bytes=1000.. -> int8",
                                             "TERSE_OBSERVE": "1"})
            observed += " calls would be compressed: " in said
            self.assertEqual(self.compare(seed, ranks, native, found, "none", 0)[0], 0)
        self.assertGreater(observed, len(SEEDS) // 2)

    def kill_one(self, seed, ranks):
        """How many of the others have seen that."""
        chance = random.Random(seed)
        prefix = self.folder.name + f"/k{seed}"
        commands = [[PROGRAM, "rank", seed, ranks, prefix, rank] for rank in range(ranks)]
        own = environment({"TERSE_SCHEME": "int8", "TERSE_MIN_BYTES": "1000", "TERSE_TIMEOUT": "10"}, True)
        with local_ranks.running(commands, [own] * ranks) as processes:
            victim = chance.randrange(ranks)
            while not os.path.exists(prefix + ".id"):  # without it nobody has begun
                self.assertIsNone(processes[0].poll())
                time.sleep(0.002)
            time.sleep(chance.uniform(0.0, 0.4))
            processes[victim].send_signal(signal.SIGKILL)
            results = local_ranks.finish(processes, seconds=40, codes=None)
        del results[victim]
        for code, _, error in results:
            self.assertIn(code, (0, FAILED), f"rank {victim} was killed: {error}")
        return sum(code == FAILED for code, _, _ in results)

    def test_a_rank_killed_anywhere_ends_as_an_error_on_the_others(self):
        failed = 0
        for seed in list(SEEDS)[:6]:
            with self.subTest(seed=seed):
                failed += self.kill_one(seed, ranks=3)
        self.assertGreater(failed, 0, "all came after the programs' ends")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
