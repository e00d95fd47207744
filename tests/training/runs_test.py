"""bench/train's trainings with PyTorch: runs_test.py BUILD TORCH [unittest's arguments]"""

import glob
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TRAINING = os.path.join(ROOT, "bench", "training")
NETLAB = os.path.join(ROOT, "bench", "netlab", "netlab")
sys.path[:0] = [TRAINING, os.path.join(ROOT, "tests", "tools")]
import launch  # pylint: disable=wrong-import-position
import plan  # pylint: disable=wrong-import-position
import reports  # pylint: disable=wrong-import-position
import text  # pylint: disable=wrong-import-position
from asked import Asked  # pylint: disable=wrong-import-position
from ports import free_port  # pylint: disable=wrong-import-position

BUILD = os.path.abspath(sys.argv[1])
PYTHON = os.path.join(os.path.abspath(sys.argv[2]), "bin", "python")
LIBRARY = os.path.join(BUILD, "lib", "libterse_nccl.so")
RANKS, STEPS = 2, 6
MODEL = {"kind": "gpt", "layers": 1, "width": 48, "heads": 2, "context": 16}
RECIPE = {**plan.RECIPE, "steps": STEPS, "batch": 1, "apart": 2, "validate_every": 3, "windows": 2,
          "last_windows": 2}
# Where each preset has something to do: weights that are gathered, or gradients that are reduced.
WAYS = {"native": plan.WAYS, "safe": plan.WAYS, "fast": ("ddp",), "fast-fsdp32": ("fsdp2",),
        "qsdp-fsdp32": ("fsdp2",), "qsdp-w6g4-fsdp32": ("fsdp2",),
        "qsdp-w4g4-fsdp32": ("fsdp2", "zero1"), "sdp4bit": ("diloco",), "sdp4bit-zero32": ("zero1",),
        "sdp4bit-fsdp32": ("fsdp2",), "zeropp-fsdp32": ("zero1",), "global-qsgd": ("ddp",),
        "global-qsgd-exp": ("ddp", "diloco"), "cgx": ("ddp",), "ncclx": ("fsdp2",),
        "bf16": ("ddp",), "fp8e4m3": ("ddp",), "mxfp4": ("ddp",), "weights4-delta": ("zero1",),
        "gradients4-twolevel-hadamard": ("fsdp2",), "w4g4-uniform": ("fsdp2",),
        "w4g4-uniform+exact-norms": ("fsdp2",)}


RANKS_ASKED = Asked(RANKS, [
    NETLAB, "--hosts", str(RANKS), "--loopback", "--quiet", "--timeout", "900", "--env",
    "UCX_TLS=all", "--env", "OMP_NUM_THREADS=1", "--env", f"LD_PRELOAD={LIBRARY}", "--env",
    "TERSE_MIN_BYTES=16K", "--",  # the model is small
    PYTHON, os.path.join(HERE, "ranks.py"), TRAINING], launch.environment())


def write_library(folder, files=20, lines=100):
    """Writes what is learned: lines of words by a fixed seed, as no file that is edited would be."""
    draw = random.Random(5)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=length)) for length in range(2, 9)
             for _ in range(8)]
    for number in range(files):
        with open(os.path.join(folder, f"{number:02}.py"), "w", encoding="ascii") as file:
            file.writelines(" ".join(draw.choices(words, k=8)) + "\n" for _ in range(lines))


def tearDownModule():  # pylint: disable=invalid-name
    RANKS_ASKED.stop()


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="terse-training-test-")
        folder = cls.scratch.name
        write_library(folder)
        cls.text = {**text.prepare(folder, folder), "folder": folder}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def job(self, way, **more):
        return {"way": way, "seed": 5, "model": MODEL, "recipe": RECIPE, "text": self.text, **more}

    @staticmethod
    def run_ranks(program, folder, groups):
        """Of groups with a scheme, each of which has processes of its own, the folders."""
        return RANKS_ASKED.train(program, [{"rules": plan.rules(group["scheme"]), **group}
                                           for group in groups], folder)

    def train(self, *groups):
        """Of (scheme, jobs) the results; or of (scheme, jobs, environment)."""
        with tempfile.TemporaryDirectory(dir=self.scratch.name) as folder:
            folders = self.run_ranks("trainings", folder, [
                {"scheme": scheme, "jobs": jobs, "environment": dict(*environment)}
                for scheme, jobs, *environment in groups])
            return [self.results(place, *group[:2]) for place, group in zip(folders, groups)]

    def results(self, folder, scheme, jobs):
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            results = json.load(file)
        told = reports.read(glob.glob(os.path.join(folder, "rank*.json")))
        self.assertEqual(told["calls"] > 0, plan.rules(scheme) != "native", (scheme, told))
        self.assertEqual(told["ranks"], RANKS, os.listdir(folder))
        for job, result in zip(jobs, results):
            # DiLoCo's ranks are apart in the middle of a round.
            self.assertEqual(result["replicas"]["same_but_for_owners"],
                             (job["way"], job.get("until")) != ("diloco", 3), (scheme, job))
            self.assertTrue(all(map(math.isfinite, result["losses"])), (scheme, result["losses"]))
        return results


class Twice(Case):
    def test_the_same_seed_gives_the_same_losses(self):
        groups = [(scheme, [self.job(way, exact_norms=scheme.endswith(plan.EXACT_NORMS))
                            for way in ways]) for scheme, ways in WAYS.items() for _ in range(2)]
        done = self.train(*groups)
        natives = dict(zip(plan.WAYS, done[0]))
        for (scheme, ways), first, again in zip(WAYS.items(), done[::2], done[1::2]):
            for way, one, other in zip(ways, first, again):
                with self.subTest(scheme=scheme, way=way):
                    self.assertEqual(one, other)
                    self.assertEqual(len(one["losses"]), STEPS)
                    if scheme != "native":
                        self.assertNotEqual(one["losses"], natives[way]["losses"])
                        self.assertAlmostEqual(one["final_validation"],
                                               natives[way]["final_validation"], delta=0.2)
        with_norms, without = (done[2 * list(WAYS).index(scheme)][0]["losses"] for scheme in (
            "w4g4-uniform", "w4g4-uniform+exact-norms"))
        self.assertNotEqual(with_norms, without)
        # One and the same training, done in three ways.
        for way in ("fsdp2", "zero1"):
            for one, other in zip(natives[way]["losses"], natives["ddp"]["losses"]):
                self.assertAlmostEqual(one, other, delta=1e-4)

    def test_another_seed_gives_other_losses(self):
        [[one, other]] = self.train(("native", [self.job("ddp"), self.job("ddp", seed=6)]))
        self.assertNotEqual(one["losses"], other["losses"])


class OneScale(Case):
    def test_a_hook_averages_in_place_of_terse(self):
        job = [self.job("ddp")]
        natives, *others = self.train(("native", job), *(
            (scheme, [self.job("ddp", dithering=name)])
            for scheme, name in plan.ONE_SCALE.items() for _ in range(2)))
        for [one], [again] in zip(others[::2], others[1::2]):
            self.assertEqual(one, again)
            self.assertNotEqual(one["losses"], natives[0]["losses"])
            self.assertAlmostEqual(one["final_validation"], natives[0]["final_validation"],
                                   delta=0.3)


class Remainders(Case):
    def test_an_owner_goes_on_from_what_the_gather_leaves(self):
        """From the same as with weights in fp32 beside, unless that was rounded."""
        jobs = [self.job("zero1", recipe={**RECIPE, "weights": weights})
                for weights in ("bfloat16", "remainders")]
        native, exact, rounded = self.train(
            ("native", jobs), ("allgather -> minmax4:own=exact", jobs), ("allgather -> minmax4", jobs))
        for beside, alone in (native, exact):
            for one, other in zip(beside["losses"], alone["losses"]):
                self.assertAlmostEqual(one, other, delta=1e-3)
        self.assertGreater(max(abs(one - other) for one, other in zip(*(
            result["losses"] for result in rounded))), 1e-2)


class Models(Case):
    def test_a_convolutional_net_is_trained(self):
        sizes = {"kind": "conv", "layers": 2, "width": 64, "context": 16}
        ways = ("ddp", "fsdp2")
        native, fast = self.train(*((scheme, [self.job(way, model=sizes) for way in ways])
                                    for scheme in ("native", "fast")))
        for one, other in zip(native, fast):
            self.assertNotEqual(one["losses"], other["losses"])
            self.assertAlmostEqual(one["final_validation"], other["final_validation"], delta=0.2)


class Spikes(Case):
    """A gradient that is not finite is one on all ranks: PyTorch's gradient scaler skips the step."""
    SCHEMES = {"ddp": ("native", "safe", "fast", "qsdp-w4g4", "sdp4bit", "global-qsgd", "exp8",
                       "bf16", "fp8e4m3", "mxfp4", "nvfp4"),
               "fsdp2": ("native", "fast-fsdp32", "qsdp-w4g4-fsdp32", "sdp4bit-fsdp32",
                         "zeropp-fsdp32")}

    def test_the_step_is_skipped_on_all_ranks(self):
        groups = [{"way": way, "scheme": scheme, "model": MODEL}
                  for way, schemes in self.SCHEMES.items() for scheme in schemes]
        with tempfile.TemporaryDirectory(dir=self.scratch.name) as folder:
            for group, place in zip(groups, self.run_ranks("spikes", folder, groups)):
                with self.subTest(way=group["way"], scheme=group["scheme"]):
                    self.check(group["way"], place)
                    self.assertEqual(reports.read(glob.glob(f"{place}/rank*.json"))["calls"] > 0,
                                     group["scheme"] != "native")

    def check(self, way, folder):
        ranks = []
        for rank in range(RANKS):
            with open(os.path.join(folder, f"spikes{rank}.json"), encoding="utf-8") as file:
                ranks.append(json.load(file))
        for steps in ranks:
            self.assertEqual([step["skipped"] for step in steps],
                             [True, True, False, False, True, False, False, False])
            self.assertEqual([step["scale"] for step in steps], [512] + [256] * 3 + [128] * 4)
            self.assertTrue(all(math.isfinite(step["loss"]) for step in steps), steps)
            self.assertLess(steps[-1]["loss"], steps[0]["loss"])
        if way == "ddp":  # of FSDP2 each rank has its own shard
            self.assertEqual(*([step["weights"] for step in steps] for steps in ranks))


class Checkpoints(Case):
    UNTIL = 3  # of the steps, where a training is interrupted

    def interrupted(self, scheme, ways, **environment):
        """The uninterrupted trainings, and those that other processes went on with. The environment
        is of those that are interrupted."""
        with tempfile.TemporaryDirectory(dir=self.scratch.name) as saved:
            places = {way: os.path.join(saved, way) for way in ways}
            environment = {name: os.path.join(saved, value) for name, value in environment.items()}
            whole, part, resumed = self.train(
                (scheme, [self.job(way) for way in ways]),
                (scheme, [self.job(way, until=self.UNTIL, save=places[way]) for way in ways],
                 environment),
                (scheme, [self.job(way, resume=places[way]) for way in ways], environment))
        for one, first, other in zip(whole, part, resumed):
            self.assertEqual(other["losses"][:self.UNTIL], first["losses"])
            self.assertEqual(len(other["losses"]), STEPS)
            yield one, other

    def assert_same(self, whole, resumed):
        self.assertEqual(resumed["losses"], whole["losses"])
        self.assertEqual(resumed["replicas"], whole["replicas"])
        self.assertEqual(resumed["final_validation"], whole["final_validation"])

    def test_native_goes_on_as_if_nothing_had_been(self):
        ways = plan.WAYS
        for way, (whole, resumed) in zip(ways, self.interrupted("native", ways)):
            with self.subTest(way=way):
                self.assert_same(whole, resumed)

    def test_presets_of_differences_and_learned_levels_go_on(self):
        for scheme, way in (("sdp4bit-zero32", "zero1"), ("qsdp-w4g4-fsdp32", "fsdp2")):
            with self.subTest(scheme=scheme):
                [(whole, resumed)] = self.interrupted(scheme, [way])
                self.assertAlmostEqual(resumed["final_validation"], whole["final_validation"],
                                       delta=0.2)

    def test_differences_go_on_from_weights_in_full(self):
        """As if all had sent them in full just then, as `every` has it."""
        differences = "allgather -> int4:block=2048,delta=inplace"
        between = self.UNTIL - 1  # the first one goes in full
        [(whole, resumed)] = self.interrupted(f"{differences},every={between}", ["zero1"])
        self.assert_same(whole, resumed)
        [(whole, resumed)] = self.interrupted(differences, ["zero1"])
        self.assertNotEqual(resumed["losses"], whole["losses"])
        self.assertAlmostEqual(resumed["losses"][-1], whole["losses"][-1], delta=1e-3)

    def test_learned_levels_that_are_kept_go_on_as_if_nothing_had_been(self):
        levels = "allgather,reducescatter,allreduce -> learned4:block=1024,round=nearest"
        [(whole, resumed)] = self.interrupted(levels, ["fsdp2"], TERSE_LEVELS="levels.toml")
        self.assert_same(whole, resumed)
        [(whole, resumed)] = self.interrupted(levels, ["fsdp2"])
        self.assertNotEqual(resumed["losses"], whole["losses"])
        self.assertAlmostEqual(resumed["losses"][-1], whole["losses"][-1], delta=0.2)


class Deaths(Case):
    SECONDS = 240  # in which the ranks must have come to where they tell a step

    @staticmethod
    def start(rank, path, folder, port):
        return subprocess.Popen(
            [PYTHON, os.path.join(TRAINING, "rank.py"), path, folder],
            env={**launch.environment(), "RANK": str(rank), "WORLD_SIZE": str(RANKS),
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_RANK": "0",
                 "NCCL_HOSTID": f"host{rank}", "LD_PRELOAD": LIBRARY, "TERSE_SCHEME": "fast",
                 "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_a_rank_that_dies_ends_the_others(self):
        job = self.job("ddp", recipe={**RECIPE, "steps": 100000, "validate_every": 100000})
        with tempfile.TemporaryDirectory(dir=self.scratch.name) as folder:
            path, port = os.path.join(folder, "job"), free_port()
            with open(path, "w", encoding="utf-8") as file:
                json.dump(job, file)
            ranks = []

            def kill():
                for one in ranks:
                    one.kill()
            late = threading.Timer(self.SECONDS, kill)  # which ends the reading, too
            try:
                for rank in range(RANKS):
                    ranks.append(self.start(rank, path, folder, port))
                late.start()
                said = []
                for line in ranks[0].stdout:
                    said.append(line)
                    if line.startswith("step"):  # it trains
                        break
                late.cancel()
                self.assertTrue(said and said[-1].startswith("step"), "".join(said))
                ranks[1].send_signal(signal.SIGKILL)
                rest, _ = ranks[0].communicate(timeout=120)
            finally:
                late.cancel()
                kill()
                for one in ranks:
                    one.wait()
                    one.stdout.close()
        self.assertNotEqual(ranks[0].returncode, 0)
        self.assertIn("DistBackendError", "".join(said) + rest)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
