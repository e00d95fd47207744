"""Reports of processes, however they end, and `terse report` on them:
processes_test.py LEAVER RANK_PROGRAM PRELOAD_LIBRARY TERSE"""

import html.parser
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

LEAVER, RANK, PRELOAD, TERSE = sys.argv[1:5]
PATIENCE = 60  # seconds
VOID = {"meta", "br", "hr", "img", "link", "input"}
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

import local_ranks  # noqa: E402


class Page(html.parser.HTMLParser):
    """Checks that elements close as they open; collects the text of cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.wrong = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")
        for name, value in attributes:
            if name in ("src", "href"):
                self.wrong.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if "td" in self.open:
            self.cells[-1] += data


def environment(leaks=True, **settings):
    settings.setdefault("TERSE_SCHEME", "int8")
    # A fork's child has the memory, but not the threads that know of it.
    return local_ranks.environment(LD_PRELOAD=PRELOAD, **settings,
                                   ASAN_OPTIONS=f"handle_abort=0:detect_leaks={int(leaks)}")


class Folder(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name) / "reports"

    def files(self):
        if not self.folder.exists():
            return []
        return sorted(path.name for path in self.folder.iterdir())

    def report(self, *arguments):
        return subprocess.run([TERSE, "report", str(self.folder), *map(str, arguments)], text=True,
                              capture_output=True, timeout=PATIENCE)


class Endings(Folder):
    def leave(self, way, status=0, calls=4, place=None, **settings):
        """The pid of the process and its output."""
        settings.setdefault("TERSE_REPORT", str(self.folder))
        own = environment(leaks=way != "fork", **settings)
        there = ["env", "-C", place] if place else []
        with local_ranks.running([[*there, LEAVER, way, calls]], [own]) as [process]:
            [(_, out, err)] = local_ranks.finish([process], codes=(status,))
        return process.pid, out, err

    def only_report(self, pid=None):
        names = [name for name in self.files() if name.endswith(".json")]
        self.assertEqual(len(names), 1, self.files())
        self.assertEqual(self.files(), [names[0], names[0][:-4] + "txt"])
        report = json.loads((self.folder / names[0]).read_text())
        if pid is not None:
            self.assertEqual(report["pid"], pid)
            self.assertEqual(names[0], f"rank0-{socket.gethostname()}-{pid}-libterse_nccl.json")
        return report

    def check_numbers(self, report, released, calls=4):
        self.assertEqual((report["format"], report["version"]), ("terse-report", 2))
        ranks = report["communicators"]
        self.assertEqual(sorted((c["rank"], c["ranks"]) for c in ranks), [(0, 2), (1, 2)])
        self.assertEqual(len({c["id"] for c in ranks}), 1)
        for c in ranks:
            self.assertEqual(c["released"], released)
            self.assertEqual(c["bypasses"], {"the message is small": 1})
            self.assertEqual(c["native_bytes"], 40)
            row, = c["rows"]
            self.assertEqual((row["rule"], row["collective"], row["calls"]),
                             (1, "AllReduce", calls))
            self.assertEqual(row["raw_bytes"], calls * 400_000)
            self.assertAlmostEqual(row["ratio"], 32 / 8.25, delta=0.02)
            if released:
                self.assertEqual(row["seconds"]["calls"], calls)
            self.assertLessEqual(row["seconds"]["encode"], row["seconds"]["total"])

    def test_destroyed(self):
        pid, _, _ = self.leave("destroy", TERSE_VERIFY="2")
        report = self.only_report(pid)
        self.check_numbers(report, released=True)
        for c in report["communicators"]:
            # One of every two, and the first.
            self.assertIn(c["rows"][0]["error"]["calls"], (2, 3))
            self.assertEqual(c["verify_bytes"], 400_000)

    def test_destroyed_while_globals_go(self):
        pid, _, err = self.leave("global")
        self.check_numbers(self.only_report(pid), released=True)
        self.assertNotIn("rror", err)

    def test_left_without_destroying(self):
        for way in "leave", "exit":
            with self.subTest(way):
                self.setUp()
                pid, _, _ = self.leave(way)
                self.check_numbers(self.only_report(pid), released=False)

    def test_aborted_communicators_are_reported(self):
        pid, _, _ = self.leave("finish")
        self.check_numbers(self.only_report(pid), released=False)

    def test_a_process_that_dies_leaves_nothing_half_written(self):
        self.leave("abort", -signal.SIGABRT)
        self.assertEqual(self.files(), [])

    def test_a_process_that_dies_after_its_last_communicator_has_reported(self):
        pid, _, _ = self.leave("release", -signal.SIGABRT)
        self.check_numbers(self.only_report(pid), released=True)

    def test_a_child_does_not_report_for_its_parent(self):
        pid, _, _ = self.leave("fork")
        self.check_numbers(self.only_report(pid), released=False)

    def test_a_child_reports_its_own_work(self):
        pid, _, _ = self.leave("exec")
        report = self.only_report()
        self.assertNotEqual(report["pid"], pid)
        self.check_numbers(report, released=False)

    def test_names(self):
        where = self.folder / "run-%h" / "rank%r.json"
        self.leave("destroy", TERSE_REPORT=str(where))
        folder = self.folder / f"run-{socket.gethostname()}"
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["rank0.json", "rank0.txt"])
        self.leave("destroy", TERSE_REPORT=str(where))  # in place of the old ones
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["rank0.json", "rank0.txt"])
        pid, _, _ = self.leave("destroy", TERSE_REPORT=str(self.folder / "%p%%"))
        self.assertTrue((self.folder / f"{pid}%.json").exists())

    def test_a_percent_sign_of_the_working_directory_is_one(self):
        place = pathlib.Path(self.scratch.name) / "50%r"
        place.mkdir()
        pid, _, _ = self.leave("destroy", place=place, TERSE_REPORT="reports")
        self.assertTrue((place / f"reports/rank0-{socket.gethostname()}-{pid}-libterse_nccl.json")
                        .exists())
        self.leave("destroy", place=place, TERSE_REPORT="of-%r")
        self.assertTrue((place / "of-0.json").exists())

    def test_a_report_that_cannot_be_written_is_a_warning(self):
        _, _, err = self.leave("destroy", TERSE_REPORT="/proc/nowhere")
        self.assertIn("no report for TERSE_REPORT=/proc/nowhere", err)
        self.leave("leave", TERSE_REPORT="/proc/nowhere")

    def test_native_times_where_calls_ran_both_ways(self):
        # All but the first of a kind; on standard error those of both ranks.
        for verify, raced in ("1", 3), ("0", 0):
            with self.subTest(verify=verify):
                self.setUp()
                _, _, err = self.leave("destroy", TERSE_VERIFY=verify)
                report = self.only_report()
                for c in report["communicators"]:
                    row, = c["rows"]
                    self.assertEqual(row.get("native", {"calls": 0})["calls"], raced)
                    self.assertEqual(len(row["error"].get("course", {"points": []})["points"]),
                                     4 if raced else 0)
                    if raced:
                        native = row["native"]
                        self.assertGreater(native["seconds"], 0)
                        self.assertLessEqual(native["compressed_seconds"], row["seconds"]["total"])
                        self.assertAlmostEqual(native["speedup"], native["seconds"] /
                                               native["compressed_seconds"])
                line = err.splitlines()[-1]
                self.assertRegex(line, r"8 calls compressed( \(8 fused\))?, 2 native; sent ")
                if raced:
                    self.assertRegex(line, r"; 6 of the calls ran both ways, in \S+ \S+ in place of "
                                           r"\S+ \S+, \S+ times as fast$")
                else:
                    self.assertTrue(line.endswith(" times less"), line)
                text, = self.folder.glob("*.txt")
                self.assertEqual("a call, compressed" in text.read_text(), raced != 0)
        self.setUp()
        self.leave("destroy", TERSE_VERIFY="1", TERSE_METER="0")
        for c in self.only_report()["communicators"]:
            self.assertNotIn("native", c["rows"][0])

    def test_sizes_of_messages(self):
        self.leave("destroy")
        for c in self.only_report()["communicators"]:
            self.assertEqual(c["sizes"], {"compressed": [[18, 4, 1_600_000]],
                                          "skipped": [[5, 1, 40]], "native": []})
            self.assertEqual((c["made_from"], c["number"]), ("", 0))
        self.setUp()
        self.leave("destroy", TERSE_SCHEME="allgather -> int8")
        for c in self.only_report()["communicators"]:
            self.assertEqual(c["sizes"], {"compressed": [], "skipped": [],
                                          "native": [[5, 1, 40], [18, 4, 1_600_000]]})

    def test_parts_without_a_name_are_called_by_their_wholes(self):
        self.leave("split")
        names = sorted((c["rank"], c["number"], c["name"], c["made_from"])
                       for c in self.only_report()["communicators"])
        self.assertEqual(names, [(r, *each) for r in (0, 1) for each in
                                 ((0, "world", ""), (1, "", "world"), (2, "", "world"))])
        done = self.report()
        for label in '"world"', '#1 from "world"', '#2 from "world"':
            self.assertIn(f" {label}, 2 of 2 ranks, ", done.stdout)

    def test_the_last_calls_with_their_steps(self):
        before = time.time_ns()
        self.leave("destroy", calls=6, TERSE_TRACE="5", TERSE_METER="0", TERSE_VERIFY="1")
        after = time.time_ns()
        ranks = self.only_report()["communicators"]
        for c in ranks:
            self.assertEqual(c["rows"][0]["seconds"]["calls"], 0)  # of TERSE_METER
            *compressed, small = c["trace"]
            self.assertEqual(len(compressed), 4)
            self.assertEqual((small["scheme"], small["count"], small["steps"]),
                             ("native, the message is small", 10, []))
            last = before
            for call in compressed:
                self.assertEqual((call["collective"], call["count"], call["dtype"]),
                                 ("AllReduce", 100_000, "float32"))
                self.assertEqual((call["raw_bytes"], call["left_out"]), (400_000, 0))
                names = [step[0] for step in call["steps"]]
                self.assertEqual(names[0], "verify")
                self.assertIn("encode", names)
                verify = call["steps"][0]
                self.assertLessEqual(last, verify[2])
                self.assertLessEqual(verify[3], call["begin"])
                for _, lane, begin, end in call["steps"][1:]:
                    self.assertIn(lane, ("encode", "decode", "communicate 0", "communicate 1"))
                    self.assertTrue(call["begin"] <= begin <= end <= call["end"], call)
                last = call["end"]
            self.assertLessEqual(last, after + 100_000_000)  # the clocks are compared, not one
        trace = pathlib.Path(self.scratch.name) / "trace.json"
        done = self.report("--trace", trace)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual(len([e for e in events if e["ph"] == "b"]), 10)
        self.assertEqual({e["pid"] for e in events}, {0, 1})

    def test_a_trace_of_nothing_is_an_error_and_writes_nothing(self):
        self.leave("destroy")
        trace = pathlib.Path(self.scratch.name) / "trace.json"
        page = pathlib.Path(self.scratch.name) / "page.html"
        done = self.report("--trace", trace, "--html", page)
        self.assertEqual(done.returncode, 1)
        self.assertIn("TERSE_TRACE=N", done.stderr)
        self.assertFalse(trace.exists() or page.exists())

    def test_a_table_that_cannot_be_written_is_a_failure(self):
        self.leave("destroy")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([TERSE, "report", str(self.folder)], text=True, stdout=full,
                                  stderr=subprocess.PIPE, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (
            1, "terse: cannot write standard output: No space left on device\n"))

    def test_nothing_is_measured_unless_wanted(self):
        self.leave("destroy", TERSE_METER="0")
        for c in self.only_report()["communicators"]:
            row, = c["rows"]
            self.assertEqual(row["calls"], 4)
            self.assertEqual(row["seconds"]["calls"], 0)
            self.assertEqual(row["error"]["calls"], 0)
        self.setUp()
        self.leave("destroy", TERSE_METER="3")
        for c in self.only_report()["communicators"]:
            self.assertIn(c["rows"][0]["seconds"]["calls"], (1, 2, 3))


class Merging(Folder):
    RANKS, ROUNDS = 4, 3

    def run_ranks(self, *words, verify=("2",) * 4, hosts=("a",) * 4, **settings):
        identity = os.path.join(self.scratch.name, "id")
        commands = [[RANK, rank, self.RANKS, identity, 200_000, self.ROUNDS, *words]
                    for rank in range(self.RANKS)]
        environments = [environment(TERSE_REPORT=str(self.folder), TERSE_VERIFY=each, TERSE_LOG="off",
                                    NCCL_HOSTID=host, **settings) for each, host in zip(verify, hosts)]
        return [out for _, out, _ in local_ranks.run(commands, environments)]

    def test_all_ranks(self):
        self.run_ranks()
        page, numbers = self.folder / "page.html", pathlib.Path(self.scratch.name) / "all.json"
        done = self.report("--html", page, "--json", numbers)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("4 of 4 ranks", done.stdout)
        merged = json.loads(numbers.read_text())
        communicator, = merged["communicators"]
        row, = communicator["rows"]
        self.assertEqual([m["rank"] for m in communicator["members"]], [0, 1, 2, 3])
        self.assertEqual(len({m["pid"] for m in communicator["members"]}), 4)
        by_rank = row["by_rank"]
        self.assertEqual([r["rank"] for r in by_rank], [0, 1, 2, 3])
        for r in by_rank:
            self.assertEqual(r["calls"], self.ROUNDS)
            for which in "median", "p99", "worst", "pooled":
                error = which + "_relative_error"
                self.assertEqual(r[error], by_rank[0][error])
                self.assertGreater(r[error], 1e-4)
        times = [r["seconds_per_call"] for r in by_rank]
        spread = row["over_ranks"]["seconds_per_call"]
        self.assertEqual((spread["min"], spread["max"]), (min(times), max(times)))
        self.assertEqual(row["slowest_rank"], times.index(max(times)))
        waits = [r["communicate_seconds_per_call"] for r in by_rank]
        self.assertEqual(row["late_rank"], waits.index(min(waits)))
        self.check_page(page.read_text(), by_rank)

    def check_page(self, text, by_rank):
        page = Page(text)
        self.assertEqual((page.wrong, page.open), ([], []))
        for rank in by_rank:
            at = page.cells.index(f"rank {rank['rank']}")
            self.assertEqual(page.cells[at + 1], str(rank["calls"]))
            shown = page.cells[at + 8]  # a call
            value, unit = shown.split()
            seconds = float(value) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]
            self.assertAlmostEqual(seconds / rank["seconds_per_call"], 1, delta=0.006)

    def merged(self):
        numbers = pathlib.Path(self.scratch.name) / "all.json"
        done = self.report("--json", numbers)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        communicator, = json.loads(numbers.read_text())["communicators"]
        return done.stdout, communicator

    def test_communicators_have_their_names(self):
        self.run_ranks("nonblocking", COMM_NAME="gradients")
        text, communicator = self.merged()
        self.assertEqual(communicator["name"], "gradients")
        self.assertIn(f'communicator {communicator["id"]} "gradients", 4 of 4 ranks\n', text)
        for path in self.folder.glob("*.json"):
            own, = json.loads(path.read_text())["communicators"]
            self.assertEqual(own["name"], "gradients")

    def test_what_leaves_a_node(self):
        # Two ranks a node: of a ring's bytes half of the node's; in two levels, of six shards two.
        raw = 4 * 200_000
        self.run_ranks(hosts=("a", "b", "b", "a"))
        text, communicator = self.merged()
        self.assertIn("4 of 4 ranks, 2 nodes\n", text)
        self.assertEqual(communicator["nodes"], 2)
        self.assertEqual([m["node"] for m in communicator["members"]], [0, 1, 1, 0])
        row, = communicator["rows"]
        for rank in row["by_rank"]:
            self.assertEqual(rank["raw_bytes"], self.ROUNDS * raw * 3 // 2)
            self.assertEqual(rank["raw_off_node_bytes"], self.ROUNDS * raw * 3 // 4)
            # The last shard is a little smaller than the others.
            self.assertAlmostEqual(rank["wire_off_node_bytes"] / rank["wire_bytes"], 1 / 3,
                                   delta=0.001)
            self.assertAlmostEqual(rank["off_node_ratio"], 3.879 * 3 / 2, delta=0.02)

    def test_what_leaves_a_node_natively(self):
        self.run_ranks(hosts=("a", "b", "b", "b"), TERSE_SCHEME="off")
        _, communicator = self.merged()
        self.assertEqual(communicator["native_bytes"], self.ROUNDS * 4 * 1_200_000)
        self.assertEqual(communicator["native_off_node_bytes"], self.ROUNDS * 2 * 1_200_000)

    def test_nothing_leaves_one_node(self):
        self.run_ranks()
        text, communicator = self.merged()
        self.assertIn("4 of 4 ranks\n", text)
        self.assertEqual(communicator["nodes"], 1)
        self.assertEqual(communicator["native_off_node_bytes"], 0)
        for rank in communicator["rows"][0]["by_rank"]:
            self.assertIsNone(rank["wire_off_node_bytes"])
            self.assertIsNone(rank["off_node_ratio"])

    def test_complains_of_what_is_missing(self):
        self.run_ranks()
        next(self.folder.glob("rank2-*.json")).unlink()
        broken = next(self.folder.glob("rank1-*.json"))
        broken.write_text(broken.read_text()[:100])
        done = self.report()
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no report of 1, 2", done.stderr)
        self.assertIn(broken.name, done.stderr)
        self.assertIn("2 of 4 ranks", done.stdout)
        for path in self.folder.glob("*.json"):
            path.unlink()
        done = self.report()
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no report of terse", done.stderr)

    def test_ranks_must_verify_alike(self):
        for out in self.run_ranks(verify=("2", "2", "3", "2")):
            self.assertIn("TERSE_VERIFY", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
