"""bench/train: the plan, the statistics, the curves, the table, the picture and the page."""

import argparse
import contextlib
import io
import math
import os
import signal
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "training"))
import curves  # pylint: disable=wrong-import-position
import launch  # pylint: disable=wrong-import-position
import main  # pylint: disable=wrong-import-position
import libraries  # pylint: disable=wrong-import-position
import page  # pylint: disable=wrong-import-position
import picture  # pylint: disable=wrong-import-position
import plan  # pylint: disable=wrong-import-position
import reports  # pylint: disable=wrong-import-position
import schedule  # pylint: disable=wrong-import-position
import spread  # pylint: disable=wrong-import-position
import store  # pylint: disable=wrong-import-position
import summary  # pylint: disable=wrong-import-position
import surroundings  # pylint: disable=wrong-import-position
import table  # pylint: disable=wrong-import-position
import text  # pylint: disable=wrong-import-position
from main import parse_arguments  # pylint: disable=wrong-import-position

DATA = {"folder": "/somewhere", "sha256": "0"}
HARDWARE = {"cpu": "A CPU", "cpu_family": "25", "cpu_model": "1", "cpu_stepping": "1", "isa": "avx2",
            "cores": 2, "kernel": "6"}


class Plan(unittest.TestCase):
    def test_all_ways_all_seeds_beside_native(self):
        options = parse_arguments([])
        jobs = plan.trainings(options, DATA)
        self.assertEqual({job["way"] for job in jobs}, set(plan.WAYS))
        for way in plan.WAYS:
            mine = [job for job in jobs if job["way"] == way]
            self.assertEqual({job["seed"] for job in mine}, {1, 2, 3})
            # Seed by seed, native first.
            per_seed = len(mine) // 3
            self.assertEqual([job["scheme"] for job in mine[::per_seed]], ["native"] * 3)
            self.assertEqual(len({(job["scheme"], job["seed"]) for job in mine}), len(mine))

    def test_schemes_go_with_ways(self):
        options = parse_arguments([])
        self.assertIn("sdp4bit-zero32", plan.schemes("zero1", options))
        self.assertIn("sdp4bit-fsdp32", plan.schemes("fsdp2", options))
        self.assertNotIn("cgx", plan.schemes("fsdp2", options))  # it compresses AllReduce alone
        self.assertIn("cgx", plan.schemes("ddp", options))

    def test_options(self):
        options = parse_arguments(["--ways", "zero1", "--seeds", "7", "--steps", "20", "--rates",
                                   "10mbit", "--schemes", "int4:block=64,round=stochastic,native"])
        jobs = plan.trainings(options, DATA)
        self.assertEqual([(job["scheme"], job["seed"], job["recipe"]["steps"]) for job in jobs],
                         [("native", 7, 20), ("int4:block=64,round=stochastic", 7, 20)])
        timed = plan.timings(options, DATA)
        self.assertEqual({(job["rate"], tuple(job["measure"])) for job in timed},
                         {(10**7, (2, 10))})
        self.assertEqual(plan.timings(parse_arguments(["--no-times"]), DATA), [])
        for bad in ("--ways=ddp,tp", "--seeds=one", "--rates=,", "--rates=fast"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                parse_arguments([bad])

    def test_variants_of_the_papers_have_names(self):
        options = parse_arguments(["--ways", "zero1", "--seeds", "1", "--nodes", "2",
                                   "--schemes", "weights4-delta,int8"])
        self.assertEqual([(job["scheme"], job["rules"], job["nodes"]) for job in
                          plan.trainings(options, DATA)],
                         [("native", "native", 2),
                          ("weights4-delta", "allgather -> int4:block=2048,delta=inplace", 2),
                          ("int8", "int8", 2)])

    def test_one_scale_for_a_call_is_a_hook_of_ddp_without_terse(self):
        options = parse_arguments(["--ways", "ddp", "--seeds", "1", "--schemes",
                                   "linear8-one-scale,exp8-one-scale,linear8"])
        self.assertEqual([(job["scheme"], job["rules"], job["dithering"]) for job in
                          plan.trainings(options, DATA)],
                         [("native", "native", None), ("linear8-one-scale", "native", "linear8"),
                          ("exp8-one-scale", "native", "exp8"), ("linear8", "linear8", None)])
        said = io.StringIO()
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(said):
            parse_arguments(["--ways", "ddp,zero1", "--schemes", "exp8-one-scale"])
        self.assertIn("is a hook of DDP", said.getvalue())

    def test_models(self):
        [gpt, conv] = [parse_arguments(["--model", kind, "--layers", "3"]).model
                       for kind in plan.MODELS]
        self.assertEqual((gpt["kind"], gpt["layers"], gpt["heads"]), ("gpt", 3, 4))
        self.assertEqual((conv["kind"], conv["layers"]), ("conv", 3))
        self.assertNotIn("heads", conv)

    def test_a_quick_run_is_small(self):
        jobs = plan.trainings(parse_arguments(["--quick"]), DATA)
        self.assertLess(len(jobs), 15)
        self.assertEqual({job["way"] for job in jobs}, set(plan.WAYS))

    def test_the_second_round_of_diloco_is_timed_whole(self):
        timed = plan.timings(parse_arguments(["--ways", "diloco"]), DATA)
        apart = plan.RECIPE["apart"]
        self.assertEqual({tuple(job["measure"]) for job in timed}, {(apart, apart)})


class Schedule(unittest.TestCase):
    def test_up_and_down(self):
        rates = [schedule.rate(step, 100, 1.0) for step in range(100)]
        self.assertAlmostEqual(rates[0], 0.1)
        self.assertEqual(max(rates), 1.0)
        self.assertEqual(rates.index(1.0), 9)
        self.assertTrue(all(a >= b for a, b in zip(rates[10:], rates[11:])))
        self.assertAlmostEqual(rates[-1], 0.01)
        self.assertGreater(schedule.rate(0, 1, 1.0), 0)


class Text(unittest.TestCase):
    def test_every_tenth_file_is_for_validation(self):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(20):
                with open(os.path.join(folder, f"m{number:02}.py"), "w", encoding="utf-8") as file:
                    file.write(f"<{number}>")
            os.makedirs(os.path.join(folder, "test"))
            with open(os.path.join(folder, "test", "a.py"), "w", encoding="utf-8") as file:
                file.write("no")
            train, validation = text.split(folder)
            self.assertEqual(validation, b"<9><19>")
            self.assertEqual(train.count(b"<"), 18)
            with tempfile.TemporaryDirectory() as out:
                first, again = text.prepare(out, folder), text.prepare(out, folder)
                self.assertEqual(first, again)
                with open(os.path.join(out, "validation.bytes"), "rb") as file:
                    self.assertEqual(file.read(), validation)


class Spread(unittest.TestCase):
    def test_mean_and_interval(self):
        self.assertEqual(spread.mean([1, 2, 6]), 3)
        self.assertAlmostEqual(spread.deviation([1, 2, 3]), 1)
        self.assertAlmostEqual(spread.interval([1, 2, 3]), 4.303 / math.sqrt(3))
        self.assertIsNone(spread.interval([1]))
        for degrees, exact in {30: 2.0423, 31: 2.0395, 60: 2.0003, 61: 1.9996, 100: 1.9840}.items():
            self.assertGreaterEqual(spread.student(degrees), exact - 5e-4)
            self.assertLess(spread.student(degrees), exact + 0.045)

    def test_pairs(self):
        self.assertEqual(spread.paired({1: 2.2, 2: 3.3}, {2: 3.0, 3: 1.0}), [3.3 / 3.0 - 1])


class Curves(unittest.TestCase):
    def test_thin(self):
        self.assertEqual(curves.thin([1, 3, 5, 7, 9], 3), [(2, 2), (4, 6), (5, 9)])
        self.assertEqual(curves.thin([1, 2], 10), [(1, 1), (2, 2)])

    def test_against_time(self):
        self.assertEqual(curves.against_time([(10, 3.0)], 0.5), [(5.0, 3.0)])

    def test_at_a_loss_and_at_a_step(self):
        curve = [(10, 4.0), (20, 2.0), (30, 2.5), (40, 1.0)]
        self.assertEqual(curves.step_of(curve, 3.0), 15)
        self.assertEqual(curves.step_of(curve, 5.0), 10)
        self.assertAlmostEqual(curves.step_of(curve, 1.75), 35)
        self.assertIsNone(curves.step_of(curve, 0.5))
        self.assertEqual(curves.at(curve, 15), 3.0)
        self.assertEqual(curves.at(curve, 40), 1.0)
        self.assertEqual(curves.at(curve, 1), 4.0)

    def test_average_and_median(self):
        self.assertEqual(curves.average([[1, 2, 3], [3, 4]]), [2, 3])
        self.assertEqual(curves.median([5, 1, 3]), 3)
        self.assertEqual(curves.median([4, 1, 2, 3]), 2.5)


class Identity(unittest.TestCase):
    def test_what_a_result_depends_on_is_told_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "module"))
            names = [os.path.join(folder, name) for name in ("library.so", "module/one.py",
                                                             "module/two.so")]
            seen = set()
            for change in (None, *names):
                for name in names:
                    with open(name, "w", encoding="ascii") as file:
                        file.write("changed" if name == change else "text")
                seen.add(libraries.digest([names[0], os.path.join(folder, "module")]))
            self.assertEqual(len(seen), 4)

    def test_all_settings_count_and_the_folder_does_not(self):
        options = parse_arguments(["--ways", "ddp"])
        jobs = plan.trainings(options, DATA) + plan.timings(options, DATA)
        ids = {store.identity(job, {"torch": "1"}, HARDWARE) for job in jobs}
        self.assertEqual(len(ids), len(jobs))
        [one] = [job for job in jobs[:1]]
        self.assertNotEqual(store.identity(one, {"torch": "1"}, HARDWARE),
                            store.identity(one, {"torch": "2"}, HARDWARE))
        moved = {**one, "text": {**DATA, "folder": "/elsewhere"}}
        self.assertEqual(store.identity(one, {}, HARDWARE), store.identity(moved, {}, HARDWARE))
        other = {**one, "text": {**DATA, "sha256": "1"}}
        self.assertNotEqual(store.identity(one, {}, HARDWARE), store.identity(other, {}, HARDWARE))

    def test_times_are_of_a_machine_and_losses_of_any(self):
        options = parse_arguments(["--ways", "ddp", "--seeds", "1"])
        [trained, timed] = [jobs(options, DATA)[0] for jobs in (plan.trainings, plan.timings)]
        # In a virtual machine processors of several generations have one name.
        for change in ({"cpu": "Another"}, {"cores": 4}, {"cpu_family": "26"}, {"cpu_model": "2"},
                       {"cpu_stepping": "2"}, {"isa": "avx512"}):
            other = {**HARDWARE, **change}
            self.assertEqual(store.identity(trained, {}, HARDWARE),
                             store.identity(trained, {}, other))
            self.assertNotEqual(store.identity(timed, {}, HARDWARE),
                                store.identity(timed, {}, other))
        self.assertEqual(store.identity(timed, {}, HARDWARE),
                         store.identity(timed, {}, {**HARDWARE, "kernel": "7"}))

    def test_times_are_of_the_hosts_too(self):
        options = parse_arguments(["--ways", "ddp", "--seeds", "1"])
        [trained, timed] = [jobs(options, DATA)[0] for jobs in (plan.trainings, plan.timings)]
        for job, same in (trained, True), (timed, False):
            ids = {store.identity(job, {"netlab": digest}, HARDWARE) for digest in ("1", "2")}
            self.assertEqual(len(ids) == 1, same)
            ids = {store.identity(job, {"surroundings": digest}, HARDWARE) for digest in ("1", "2")}
            self.assertEqual(len(ids), 2)

    def test_what_nccl_is_told_counts(self):
        told = {"UCX_TLS": "tcp", "NCCL_HOSTID": "a", "TERSE_SCHEME": "int8", "PATH": "/bin"}
        with unittest.mock.patch.dict(os.environ, told, clear=True):
            self.assertEqual(main.surroundings.settings(), {"UCX_TLS": "tcp"})

    def test_all_of_netlab_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            names = ("netlab", "lab.py", "ranks.py", "placement.py", "backend")
            asked = unittest.mock.Mock(stdout=f"3.11 2.0 {folder}/backend")
            options = parse_arguments(["--build-dir", folder])
            seen = []
            for change in (None, *names):
                for name in names:
                    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                        file.write("changed" if name == change else "text")
                with (unittest.mock.patch("subprocess.run", return_value=asked),
                      unittest.mock.patch("libraries.versions", return_value={}),
                      unittest.mock.patch("surroundings.NETLAB", os.path.join(folder, "netlab"))):
                    seen.append(main.versions(options))
        first, *hosts, backend = seen
        self.assertEqual(len({one["netlab"] for one in (first, *hosts)}), 5)
        self.assertEqual({one["backend"] for one in hosts}, {first["backend"]})
        self.assertEqual(backend["netlab"], first["netlab"])
        self.assertNotEqual(backend["backend"], first["backend"])

    def test_kept_and_found(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = store.Store(folder, {}, HARDWARE)
            jobs = plan.trainings(parse_arguments([]), DATA)[:2]
            self.assertEqual(kept.find(jobs), [None, None])
            kept.keep(jobs[0], {"losses": [1.5, math.nan]})
            [found, other] = kept.find(jobs)
            self.assertEqual(found["losses"][0], 1.5)
            self.assertTrue(math.isnan(found["losses"][1]))
            self.assertIsNone(other)


def result(losses, final, terse=False):
    found = {"losses": losses, "validation": [[1, 4.0], [2, final]], "final_validation": final,
             "replicas": {"same": True, "same_but_for_owners": True}}
    if terse:
        found["terse"] = {"calls": 8, "schemes": {"AllReduce int4": 8}, "bypasses": {}}
    return found


def sample():
    runs, timings = [], []
    for scheme, more, seconds, sent in (("native", 0.0, 0.4, 8e6), ("int4", 0.02, 0.1, 1e6)):
        for seed in (1, 2, 3):
            final = 2.0 * (1 + more) + 0.1 * seed
            runs.append(({"way": "ddp", "scheme": scheme, "seed": seed},
                         result([4.0, 3.0, final], final, scheme != "native")))
        timings.append(({"way": "ddp", "scheme": scheme, "seed": 1, "rate": 10**9},
                        {"step_seconds": [seconds, 9.0, seconds], "sent_bytes": sent, "load": 0.1}))
    return summary.summarize(runs, timings)


class Summary(unittest.TestCase):
    def test_beside_native(self):
        row = sample()["ddp"]["int4"]
        expected = spread.mean([0.04 / (2 + 0.1 * seed) for seed in (1, 2, 3)])
        self.assertAlmostEqual(row["over_native"], expected)
        self.assertGreater(row["over_native_interval"], 0)
        self.assertAlmostEqual(row["validation"], 2.24)
        self.assertEqual(row["compressed_calls"], 24)
        link = row["links"]["1000000000"]
        self.assertEqual(link["step_seconds"], 0.1)
        self.assertAlmostEqual(link["faster"], 4.0)
        self.assertAlmostEqual(link["bytes_factor"], 8.0)
        self.assertGreater(link["faster_to_target"], 3.5)

    def incomplete(self, natives, others):
        """Where only these seeds have been run; each is otherwise hard, and int4 takes twice the steps."""
        runs = []
        for scheme, seeds, slower in (("native", natives, 1), ("int4", others, 2)):
            for seed in seeds:
                one = result([4.0, 2.0], 10.0 ** seed - (scheme == "native"))
                one["validation"] = [[10 * k, 10.0 ** seed * (1 - k / slower / 10)] for k in range(11)]
                runs.append(({"way": "ddp", "scheme": scheme, "seed": seed}, one))
        timings = [({"way": "ddp", "scheme": scheme, "seed": 1, "rate": 10**9},
                    {"step_seconds": [0.1], "sent_bytes": 1e6, "load": 0.1})
                   for scheme in ("native", "int4")]
        found = summary.summarize(runs, timings)
        return found["ddp"]["int4"], table.text(found)

    def test_seeds_that_only_one_has_run(self):
        for natives, others, shared in (([1, 2, 3], [1], [1]), ([1, 2], [1, 3], [1]),
                                        ([1, 2], [2, 1], [1, 2])):
            row, _ = self.incomplete(natives, others)
            self.assertAlmostEqual(row["validation"], spread.mean([10.0 ** seed for seed in shared]))
            self.assertEqual(set(row["final_validation"]), set(shared))
            # Native's loss after 80 of 100 steps is one that int4 does not come to.
            self.assertAlmostEqual(row["target"], spread.mean([0.2 * 10 ** seed for seed in shared]))
            self.assertIsNone(row["steps_to_target"])
            self.assertNotIn("faster_to_target", row["links"]["1000000000"])

    def test_steps_to_a_loss_are_of_the_seeds_that_both_have(self):
        with unittest.mock.patch.object(summary, "_TARGET", 0.4):
            for natives, others in (([1, 2, 3], [2]), ([1, 2, 3], [1, 3]), ([2], [1, 2])):
                row, _ = self.incomplete(natives, others)
                self.assertAlmostEqual(row["native_steps_to_target"], 40)
                self.assertAlmostEqual(row["steps_to_target"], 80)
                self.assertAlmostEqual(row["links"]["1000000000"]["faster_to_target"], 0.5)

    def test_no_seed_that_both_have_run(self):
        row, shown = self.incomplete([1], [2])
        self.assertNotIn("validation", row)
        self.assertNotIn("faster_to_target", row["links"]["1000000000"])
        self.assertRegex(shown, r"int4 +0 +- +- +- +100 ms +1.00x +- ")

    def test_what_is_not_finite_is_shown(self):
        for loss in (math.nan, math.inf):
            runs = [({"way": "ddp", "scheme": "native", "seed": 1}, result([4.0, 2.0], 2.0)),
                    ({"way": "ddp", "scheme": "int2", "seed": 1}, result([4.0, loss], loss, True))]
            found = summary.summarize(runs, [])
            self.assertIn(str(loss), table.text(found))
            drawing = picture.picture("ddp", found["ddp"], "x", "y")
            xml.etree.ElementTree.fromstring(drawing)
            self.assertNotIn(str(loss), drawing)

    def test_shown(self):
        found = sample()
        shown = table.text(found)
        self.assertIn("4.00x", shown)
        self.assertIn("8.00x", shown)
        self.assertIn("+1.82 %", shown)
        self.assertRegex(shown, r"int4 +3  2\.2400  2\.2400 ±0\.2484  \+1\.82 % ±0\.21")
        drawing = picture.picture("ddp", found["ddp"], "heading", "footing <&>")
        tree = xml.etree.ElementTree.fromstring(drawing)
        lines = [one for one in tree.iter() if one.tag.endswith("polyline")]
        self.assertEqual(len(lines), 2 * 3)  # two by step, one by time
        whole = page.page("title", found, {"ddp": drawing}, "footing")
        self.assertIn("<td>int4</td>", whole)
        self.assertIn("<polyline", whole)

    def test_without_times_and_without_losses(self):
        runs = [({"way": "ddp", "scheme": "native", "seed": 1}, result([4.0, 2.0], 2.0))]
        self.assertIn("2.0000", table.text(summary.summarize(runs, [])))
        timings = [({"way": "zero1", "scheme": "native", "seed": 1, "rate": 10**8},
                    {"step_seconds": [0.5], "sent_bytes": 1e6, "load": 0.1})]
        self.assertIn("500 ms", table.text(summary.summarize([], timings)))

    def test_hosts_whose_links_are_not_shaped(self):
        timings = [({"way": "ddp", "scheme": scheme, "seed": 1, "rate": 0},
                    {"step_seconds": [seconds], "sent_bytes": 0, "load": 0.1})
                   for scheme, seconds in (("native", 0.4), ("int4", 0.1))]
        found = summary.summarize([], timings)
        self.assertEqual(found["ddp"]["int4"]["links"]["0"]["faster"], 4)
        self.assertIn("step at unlimited", table.text(found))

    def test_grid(self):
        for span in (0.001, 0.7, 3, 88, 4096):
            self.assertLessEqual(span / picture.nice_step(span), 6)
            self.assertGreater(span / picture.nice_step(span), 1.9)


class Timed(unittest.TestCase):
    """The losses of timed steps beside those of the training."""
    TRAINED = [4.0, math.nan, 3.0, 2.0, 1.0]

    def check(self, way, trained, timed):
        job = {"way": way, "scheme": "int4", "seed": 1, "recipe": {"validate_every": 3}}
        return main.check_steps([(job, {"losses": trained})],
                                [({**job, "rate": 10**9}, {"losses": timed})])

    def test_those_of_other_steps_are_told(self):
        for way in plan.WAYS:
            self.assertEqual(self.check(way, self.TRAINED, self.TRAINED[:4]), [])
            [line] = self.check(way, self.TRAINED, [4.0, math.nan, 3.5])
            self.assertRegex(line, f"{way} int4, 1 Gbit/s: .* other losses")

    def test_validation_that_communicates_moves_what_follows(self):
        timed = [*self.TRAINED[:3], 2.5, 1.5]
        self.assertEqual(self.check("fsdp2", self.TRAINED, timed), [])
        for way in ("ddp", "zero1", "diloco"):
            self.assertEqual(len(self.check(way, self.TRAINED, timed)), 1)

    def test_a_training_may_be_the_shorter_one(self):
        for way in plan.WAYS:
            self.assertEqual(self.check(way, self.TRAINED[:2], self.TRAINED), [])
            self.assertEqual(len(self.check(way, [4.0, 2.0], self.TRAINED)), 1)

    def test_one_without_a_training_is_not_wrong(self):
        job = {"way": "ddp", "scheme": "int4", "seed": 1, "rate": 10**9}
        self.assertEqual(main.check_steps([], [(job, {"losses": [1.0]})]), [])

    def test_the_report_comes_before_the_failure(self):
        timed = {"losses": [5.0], "step_seconds": [0.1], "sent_bytes": 1, "load": 0.1,
                 "wall_seconds": 1}

        def play(jobs, *_):
            return [(job, timed if job.get("measure") else {**result([4.0], 2.0), "wall_seconds": 1})
                    for job in jobs]
        with (tempfile.TemporaryDirectory() as folder,
              unittest.mock.patch.multiple(
                  main, run_all=play, report=unittest.mock.DEFAULT, text=unittest.mock.DEFAULT,
                  versions=unittest.mock.DEFAULT, surroundings=unittest.mock.DEFAULT) as played,
              contextlib.redirect_stdout(io.StringIO()),
              contextlib.redirect_stderr(io.StringIO()) as said):
            played["text"].prepare.return_value = DATA
            options = parse_arguments(["--ways", "ddp", "--seeds", "1", "--schemes", "native",
                                       "--rates", "1gbit", "--out", folder])
            self.assertEqual(main.train(options), 1)
        played["report"].assert_called_once()
        self.assertIn("ddp native, 1 Gbit/s: the timed steps have other losses", said.getvalue())


class Sessions(unittest.TestCase):
    """Times that are compared are of one session of bench/train."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.count = 0

    def play(self, job, _options):
        self.count += 1
        return {"step_seconds": [self.count], "sent_bytes": 1, "losses": [1.0], "load": 0.1,
                "final_validation": 1.0, "wall_seconds": 1}

    def times(self, *arguments, jobs=plan.timings):
        """By way, rate and scheme, which of all runs a session of its own has its result from."""
        options = parse_arguments(["--ways", "ddp,zero1", "--seeds", "1", *arguments])
        kept = store.Store(self.folder.name, {}, HARDWARE)
        with (unittest.mock.patch("main.run", self.play), contextlib.redirect_stdout(io.StringIO())):
            found = main.run_all(jobs(options, DATA), kept, options)
        return {(job["way"], job.get("rate"), job["scheme"]): result["step_seconds"][0]
                for job, result in found}

    def test_a_scheme_that_is_new_is_timed_with_all_that_it_is_compared_with(self):
        first = self.times("--schemes", "int4", "--rates", "1gbit,100mbit")
        self.assertEqual(sorted(first.values()), list(range(1, 9)))
        self.assertEqual(self.times("--schemes", "int4", "--rates", "1gbit,100mbit"), first)
        second = self.times("--schemes", "int8,int4", "--rates", "1gbit")
        self.assertEqual(sorted(second.values()), list(range(9, 15)))
        # What of it is asked for again is of one session; so are other rates.
        again = self.times("--schemes", "int4", "--rates", "1gbit,100mbit")
        self.assertEqual(self.count, 14)
        for what, number in again.items():
            self.assertEqual(number, second.get(what, first[what]))

    def test_of_two_sessions_one_counts(self):
        self.times("--schemes", "int4,int8", "--rates", "1gbit")
        self.times("--schemes", "int4,int2", "--rates", "1gbit", "--ways", "ddp")
        known = self.times("--schemes", "int8,int4", "--rates", "1gbit", "--finished")
        self.assertEqual({(way, scheme) for way, _, scheme in known},
                         {("ddp", "native"), ("ddp", "int4"), ("zero1", "native"),
                          ("zero1", "int8"), ("zero1", "int4")})
        self.assertEqual(self.count, 9)
        both = self.times("--schemes", "int8,int4", "--rates", "1gbit", "--ways", "ddp")
        self.assertEqual(sorted(both.values()), [10, 11, 12])

    def test_losses_are_of_any_session(self):
        first = self.times("--schemes", "int4", jobs=plan.trainings)
        second = self.times("--schemes", "int4,int8", jobs=plan.trainings)
        self.assertEqual(self.count, 6)
        self.assertEqual({what: second[what] for what in first}, first)


class Launch(unittest.TestCase):
    JOB = {"way": "ddp", "scheme": "native", "seed": 1, "nodes": 2, "ranks": 4}

    def test_a_rate_makes_hosts_even_where_it_is_none(self):
        for rate in 10**9, 0:
            command = launch.lab({**self.JOB, "rate": rate})
            self.assertEqual(command[-2:], ["--rate", str(rate)])
            self.assertNotIn("--loopback", command)
        self.assertIn("--loopback", launch.lab(self.JOB))

    def test_what_is_exported_does_not_reach_the_ranks(self):
        exported = {"TERSE_SCHEME": "int4", "TERSE_MIN_BYTES": "1", "NCCL_HOSTID": "mine",
                    "LD_PRELOAD": "libterse_nccl.so", "NCCL_ALGO": "Ring"}
        with unittest.mock.patch.dict(os.environ, exported, clear=True):
            self.assertEqual(launch.environment(), {"NCCL_ALGO": "Ring"})

    def test_a_path_that_cannot_be_preloaded_is_refused(self):
        options = argparse.Namespace(build_dir="/a blank", python="python3")
        with self.assertRaisesRegex(surroundings.LibraryError, "a blank or a colon is in it"):
            launch.run({**self.JOB, "scheme": "int4", "rules": "int4"}, options)

    def code_after(self, number):
        """bench/train's exit code where this signal comes while it trains."""
        with (unittest.mock.patch("main.train", lambda _: signal.raise_signal(number)),
              unittest.mock.patch("sys.argv", ["bench/train"]),
              self.assertRaises(SystemExit) as ended):
            main.main()
        return ended.exception.code

    def test_signals_unwind(self):
        for number in signal.SIGTERM, signal.SIGHUP:
            self.addCleanup(signal.signal, number, signal.signal(number, lambda *_: None))
        for number in signal.SIGTERM, signal.SIGHUP:
            self.assertEqual(self.code_after(number), 128 + number)

    def test_a_signal_that_is_ignored_stays_so(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        with (unittest.mock.patch("main.train", lambda _: signal.raise_signal(signal.SIGHUP) or 7),
              unittest.mock.patch("sys.argv", ["bench/train"])):
            self.assertEqual(main.main(), 7)


class Checks(unittest.TestCase):
    JOB = {"way": "ddp", "scheme": "int4", "rules": "int4", "seed": 1}

    def test_something_must_have_been_compressed(self):
        launch.check(self.JOB, result([1.0], 1.0, True))
        idle = result([1.0], 1.0, True)
        idle["terse"]["calls"] = 0
        with self.assertRaisesRegex(launch.RunError, "nothing was compressed"):
            launch.check(self.JOB, idle)

    def test_replicas_must_be_alike(self):
        apart = result([1.0], 1.0, True)
        apart["replicas"] = {"same": False, "same_but_for_owners": False}
        with self.assertRaisesRegex(launch.RunError, "weights differ"):
            launch.check(self.JOB, apart)

    def test_reports_are_added_up(self):
        found = reports.read([])
        row = {"collective": "AllReduce", "scheme": "int4", "calls": 2, "raw_bytes": 80,
               "wire_bytes": 10}
        for _ in range(2):
            reports.add(found, {"communicators": [
                {"native_bytes": 5, "bypasses": {"small": 3}, "rows": [row, row]}]})
        self.assertEqual((found["calls"], found["wire_bytes"], found["native_bytes"]), (8, 40, 10))
        self.assertEqual(found["bypasses"], {"small": 6})
        self.assertEqual(found["schemes"], {"AllReduce int4": 8})


if __name__ == "__main__":
    unittest.main()
