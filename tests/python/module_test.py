"""The Python module without PyTorch: module_test.py BUILD_FOLDER SOURCE_FOLDER"""

import array
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

BUILD, SOURCE = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = BUILD + "/lib/terse/python"
HOSTNCCL = BUILD + "/lib/terse/hostnccl/libnccl.so.2"
PRELOAD = BUILD + "/lib/libterse_nccl.so"
RANKS = 2
COUNT, RANGES = 50_048, [(128, 50), (19_968, 3_000)]  # rank.py's
EXCLUDED = {i for first, count in RANGES for i in range(first, first + count)}

sys.path[:0] = [MODULE, os.path.join(os.path.dirname(HERE), "tools")]
import local_ranks  # noqa: E402
import terse  # noqa: E402
import terse._communicator  # noqa: E402
import terse._pause  # noqa: E402
import terse._stats  # noqa: E402


def environment(**more):
    return local_ranks.environment(**{"PYTHONPATH": MODULE, "ASAN_OPTIONS": "detect_leaks=0", **more})


def run(way, **variables):
    """What the ranks tell, and the sums of rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        commands = [[sys.executable, HERE + "/rank.py", way, HOSTNCCL, folder, rank, RANKS]
                    for rank in range(RANKS)]
        told = [json.loads(out) for _, out, _ in
                local_ranks.run(commands, [environment(**variables)] * RANKS)]
        sums = []
        for rank in range(RANKS):
            with open(f"{folder}/sum-{rank}", "rb") as file:
                sums.append(array.array("f", file.read()))
    if sums[0] != sums[1]:
        raise AssertionError("the ranks have other sums")
    return told, sums[0]


class OnRanks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.native_told, cls.native = run("nccl")

    def check_sums(self, sums):
        """Native where it is excluded, and quantized elsewhere: int4 leaves few sums as they were."""
        changed = {i for i in range(COUNT) if sums[i] != self.native[i]}
        self.assertEqual(changed & EXCLUDED, set())
        self.assertGreater(len(changed), 0.9 * (COUNT - len(EXCLUDED)))
        error = math.dist(sums, self.native) / math.hypot(*self.native)
        self.assertLess(error, 0.25)

    def check_told(self, told):
        for rank, one in enumerate(told):
            self.assertEqual(one["version"], "0.1.0")
            self.assertEqual(one["calls"], 1)
            self.assertEqual(one["raw"], 4 * COUNT)  # 2 (n-1)/n S
            # 4.25 bits an element, and the excluded ones once more
            bytes_of_codes = one["raw"] * 4.25 / 32
            bytes_of_exact = 4 * len(EXCLUDED)
            self.assertAlmostEqual(one["wire"], bytes_of_codes + bytes_of_exact, delta=0.03 * one["wire"])
            self.assertEqual(set(one["bypasses"]), set(terse.BYPASSES))
            self.assertEqual(set(one["bypasses"].values()), {0})
            code, message = one["beyond"]
            self.assertEqual(code, 4)
            self.assertRegex(message, r"Exclude.*beyond the message's 50048 elements.*"
                                      r"\(ncclInvalidArgument, 4\)")
            code, message = one["differs"]
            self.assertEqual(code, 5)
            self.assertRegex(message, f"Exclude.*rank {1 - rank} excludes other ranges")

    def test_under_the_preload_library(self):
        told, sums = run("nccl", LD_PRELOAD=PRELOAD, TERSE_SCHEME="int4")
        self.check_sums(sums)
        self.check_told(told)
        for one in told:
            self.assertTrue(one["active"])
            self.assertIn("int4", one["policy"])

    def test_what_is_paused_is_exact(self):
        told, sums = run("nccl", LD_PRELOAD=PRELOAD, TERSE_SCHEME="int4")
        digest = lambda data: hashlib.sha256(data.tobytes()).hexdigest()
        for one in told:
            self.assertEqual(one["paused"], [[digest(self.native), 1], [digest(sums), 1]])

    def test_a_scheme_of_a_groups_own(self):
        for rank, one in enumerate(run("nccl", LD_PRELOAD=PRELOAD, TERSE_SCHEME="int4")[0]):
            int8, int2, exact, again, rules = one["schemes"]
            self.assertEqual((exact, again), (0, int8))
            self.assertTrue(0 < int2 < rules < int8, one["schemes"])
            code, message = one["no_scheme"]
            self.assertEqual(code, 4)
            self.assertIn('tersePreloadScheme: a new communicator', message.replace("communicator #0", "a new communicator"))
            self.assertIn('scheme "safe": a preset has a scheme for each collective', message)
            code, message = one["no_profile"]
            self.assertEqual(code, 4)
            self.assertIn("auto needs a profile", message)
            code, message = one["other_scheme"]
            self.assertEqual(code, 5)
            self.assertIn(f"rank {1 - rank} has another scheme than this rank", message)
            self.assertRegex(one["summary"], r"^\d+ calls compressed: .* times less; \d+ native \(off 2\)$")

    def test_a_pause_goes_with_its_communicator(self):
        for one in run("nccl", LD_PRELOAD=PRELOAD, TERSE_SCHEME="int4")[0]:
            self.assertEqual(one["paused_for_good"], [1] * 20)

    def test_a_rank_that_fails_while_paused_sends_the_others_nothing(self):
        for rank, one in enumerate(run("nccl", LD_PRELOAD=PRELOAD, TERSE_SCHEME="int4")[0]):
            self.assertEqual(one["failed_apart"], [[7] * 9 + [8] * 9, "disk full" if rank == 0 else None])

    def test_levels_are_given(self):
        for one in run("nccl", LD_PRELOAD=PRELOAD, TERSE_SCHEME="learned2")[0]:
            self.assertRegex(one["levels"], r"fits = 1\nat = \[0\.")
            self.assertRegex(one["given"], r"fits = 0\nat = \[0, 0\.25, 0\.5, 1\]\n$")

    def test_levels_are_told_and_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/levels.toml"
            learned = [run("nccl", LD_PRELOAD=PRELOAD, TERSE_SCHEME="learned2", TERSE_LEVELS=path)[0]
                       for _ in range(2)]
            with open(path, encoding="utf-8") as file:
                saved = file.read()
        for told in learned:
            for rank, one in enumerate(told):
                self.assertEqual(one["levels"], told[0]["levels"])
                code, message = one["other_levels"]
                self.assertEqual(code, 5)
                self.assertRegex(message, f"SetLevels.*rank {1 - rank} gives other levels")
        first, second = (told[0]["levels"] for told in learned)
        self.assertRegex(first, r'collective = "allreduce"\ncount = 50048\ndtype = "float32"\n'
                                r'scheme = "learned2.*"\ncalls = 1\nfits = 1\nat = \[0\.')
        # The second run goes on with what the first one has learned, of the first call's elements.
        self.assertEqual(second, first.replace("calls = 1", "calls = 4"))
        self.assertEqual(saved, second.replace("calls = 4", "calls = 6"))

    def test_the_norms_of_a_model(self):
        told, sums = run("model", LD_PRELOAD=PRELOAD, TERSE_SCHEME="int4")
        self.check_sums(sums)
        self.check_told(told)

    def test_by_name(self):
        libraries = subprocess.run(["readelf", "-d", PRELOAD], check=True, text=True,
                                   capture_output=True).stdout
        if "asan" in libraries:
            self.skipTest("a sanitizer cannot be opened later than the program")
        told, sums = run("name", TERSE_NCCL=HOSTNCCL)
        self.check_sums(sums)
        self.check_told(told)
        for one in told:
            self.assertFalse(one["active"])
            self.assertEqual(one["policy"], "off")

    def test_under_the_preload_library_with_the_scheme_off(self):
        told, sums = run("nccl", LD_PRELOAD=PRELOAD)
        self.assertEqual(sums, self.native)
        for one in told:
            self.assertTrue(one["active"])
            self.assertEqual(one["policy"], "off")
            self.assertEqual(one["calls"], 0)
            self.assertIsNone(one["beyond"])  # where nothing is compressed all is exact

    def test_levels_that_cannot_be(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("[[levels]]\nat = [0, 1, 0.5, 1]\n")
            file.flush()
            with self.assertRaisesRegex(AssertionError, "TERSE_LEVELS=.*:2:13: a level is 0.5, less"):
                run("nccl", LD_PRELOAD=PRELOAD, TERSE_SCHEME="learned2", TERSE_LEVELS=file.name)

    def test_without_terse(self):
        for one in self.native_told:
            self.assertEqual(one, {"active": False, "policy": "off"})


class Alone(unittest.TestCase):
    def python(self, text, **variables):
        return subprocess.run([sys.executable, "-c", text], env=environment(**variables), text=True,
                              check=True, capture_output=True).stdout

    def test_importing_needs_nothing(self):
        out = self.python("import sys, terse, terse.models\n"
                          "print({'torch', 'numpy'} & set(sys.modules))")
        self.assertEqual(out, "set()\n")

    def test_settings_that_cannot_be_read(self):
        out = self.python("import terse\n"
                          "try: terse.policy()\n"
                          "except terse.Error as error: print(error.code, error)",
                          LD_PRELOAD=PRELOAD, TERSE_SCHEME="int9", TERSE_LOG="off")
        self.assertIn("None terse's settings cannot be read", out)

    def test_a_python_without_any_library(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(SOURCE + "/python/terse", folder + "/terse")
            out = self.python("import terse\n"
                              "try: terse.version()\n"
                              "except terse.Error as error: print(error.code, error)",
                              PYTHONPATH=folder)
        self.assertRegex(out, "None neither is terse's preload library .* nor is there a libterse.so")

    def test_the_header_has_the_same_statistics(self):
        with open(SOURCE + "/include/terse/terse.h", encoding="utf-8") as file:
            header = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
        struct = re.search(r"typedef struct terseStats \{(.*?)\}", header, re.DOTALL).group(1)
        fields = [(kind, name) for kind, names in re.findall(r"(size_t|double) ([^;]+);", struct)
                  for name in names.replace("\n", " ").split(",")]
        types = {terse._stats.SIZE: "size_t", terse._stats.REAL: "double"}
        ours = [("size_t", "size")] + [
            (types.get(kind, "size_t"), name + {"bypasses": "[16]", "delta_full": "[8]"}.get(name, ""))
            for name, kind in terse._stats.FIELDS]
        self.assertEqual([(kind, name.strip()) for kind, name in fields], ours)
        reasons = re.findall(r"TERSE_BYPASS_(\w+) = (\d+)", header)
        self.assertEqual([(name.upper(), str(k)) for k, name in enumerate(terse.BYPASSES)] +
                         [("REASONS", str(len(terse.BYPASSES)))], reasons)
        reasons = re.findall(r"TERSE_FULL_(\w+) = (\d+)", header)
        self.assertEqual([(name.upper(), str(k)) for k, name in enumerate(terse._stats.IN_FULL)] +
                         [("REASONS", str(len(terse._stats.IN_FULL)))], reasons)


class Pauses(unittest.TestCase):
    """What is paused, without a library."""

    def test_no_communicator(self):
        with self.assertRaisesRegex(terse.Error, r"terse.paused\(\) pauses nothing: name the comm"):
            with terse.paused():
                self.fail("all would be compressed")

    def test_one_that_cannot_be_resumed(self):
        native = set()

        def pause(comm, on):
            if comm.value == 2 and not on:
                raise terse.Error("2 is no more")
            (native.add if on else native.remove)(comm.value)

        with unittest.mock.patch.multiple(terse._pause, active=lambda: True, _pause=pause):
            with self.assertRaisesRegex(terse.Error, "2 is no more") as caught:
                with terse.paused(1, 2, 3):
                    self.assertEqual(native, {1, 2, 3})
                    raise OSError("no space")
        self.assertIsInstance(caught.exception.__context__, OSError)
        self.assertEqual(native, {2})


class Groups(unittest.TestCase):
    """What is like a ProcessGroup of PyTorch's."""

    class Backend:
        def __init__(self, pointer):
            self.pointer = pointer

        def _comm_ptr(self):
            return self.pointer

    def test_a_backend_tells_its_communicator(self):
        self.assertEqual(terse._communicator.communicator(self.Backend(4096)).value, 4096)
        self.assertEqual(terse._communicator.communicator(4096).value, 4096)

    def test_a_backend_within_others(self):
        """As torch has it with TORCH_DISTRIBUTED_DEBUG=DETAIL."""
        wrapped = types.SimpleNamespace(wrapped_pg=types.SimpleNamespace(wrapped_pg=self.Backend(4096)))
        group = types.SimpleNamespace(_get_backend=lambda device: wrapped)
        torch = types.SimpleNamespace(device=str)
        with unittest.mock.patch.dict(sys.modules, torch=torch):
            for one in (wrapped, group):
                self.assertEqual(terse._communicator.communicator(one).value, 4096)
                self.assertEqual(terse._communicator.pointer_of(one), 4096)

    def test_a_group_without_this_rank(self):
        for function in (terse.stats, terse.levels, terse._communicator.pointer_of):
            for group in (-100, 0):  # GroupMember.NON_GROUP_MEMBER is -100
                with self.assertRaisesRegex(terse.Error, f"{group} .*this rank is not in the group"):
                    function(group)

    def test_a_communicator_that_is_not_made_yet(self):
        with self.assertRaisesRegex(terse.Error, "no NCCL communicator on this device yet.*device_id"):
            terse.stats(self.Backend(0))

    def test_a_backend_that_does_not_tell(self):
        with self.assertRaisesRegex(terse.Error, "object does not tell its ncclComm_t: .*PyTorch 2.8"):
            terse.exclude(object(), 10, [])

    def test_what_is_no_communicator(self):
        with self.assertRaisesRegex(terse.Error, "None is no communicator: .*group.WORLD"):
            terse.stats(None)
        with self.assertRaisesRegex(terse.Error, "True is no communicator"):
            terse.stats(True)

    def test_numbers_that_do_not_fit(self):
        for elements, ranges in (-1, []), (2**64 + 5, []), (10, [(2**64 + 3, 5)]), (10, [(-1, 5)]):
            with self.assertRaisesRegex(terse.Error, "cannot be a number of elements"):
                terse.exclude(1, elements, ranges)
        with self.assertRaisesRegex(terse.Error, "a NUL is in the levels"):
            terse.set_levels(1, "\0bad")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
