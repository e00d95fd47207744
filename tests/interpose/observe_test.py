"""Observed programs (TERSE_OBSERVE): native results, and reports of what would be compressed:

    observe_test.py RANK_PROGRAM PRELOAD_LIBRARY [TERSE_NAME=VALUE ...]

The variables are set wherever the library is preloaded."""

import json
import pathlib
import tempfile
import unittest

from job import INVALID_USAGE, SUCCESS, Job, main

RANKS, COUNT = 3, 100_000


def settings(folder=None, **own):
    report = {"TERSE_REPORT": str(folder)} if folder else {}
    return [{"TERSE_SCHEME": "int8", "NCCL_HOSTID": f"host{rank}", **report, **own}
            for rank in range(RANKS)]


class Observe(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def sums(self, job):
        lines = job.outputs()
        for rank in lines:
            for line in rank:
                self.assertEqual((line[2] if line[0] == "round" else line[1]).split()[0], SUCCESS, line)
        return [[line[2] for line in rank if line[0] == "round"] for rank in lines]

    def reports(self, name):
        return [json.loads(path.read_text()) for path in sorted((self.folder / name).glob("*.json"))]

    def test_results_are_native(self):
        native = self.sums(Job([{}] * RANKS, preload=False))
        self.assertEqual(self.sums(Job(settings(TERSE_OBSERVE="1"))), native)
        self.assertNotEqual(self.sums(Job(settings(TERSE_OBSERVE="0"))), native)

    def test_results_are_native_whatever_the_calls(self):
        for way in ("nonblocking", "grouped", "gathers", "in_pairs"):
            native = self.sums(Job([{}] * RANKS, way, preload=False, count=99_999))
            for scheme in ("int4:round=stochastic", "linear8", "learned4"):
                observed = settings(TERSE_OBSERVE="1", TERSE_SCHEME=scheme)
                self.assertEqual(self.sums(Job(observed, way, count=99_999)), native, (way, scheme))

    # Calls, bytes and what of them leaves a node, to the byte.
    def test_the_report_foretells_the_bytes(self):
        for scheme in ("int8", "int4:round=stochastic,second=int8", "linear8"):
            for name, value in (("observed", "1"), ("compressed", "0")):
                self.sums(Job(settings(self.folder / scheme / name, TERSE_OBSERVE=value,
                                       TERSE_SCHEME=scheme), count=COUNT))
            kinds = ("rule", "collective", "scheme", "calls", "raw_bytes", "wire_bytes",
                     "raw_off_node_bytes", "wire_off_node_bytes")
            found = [[[[row[kind] for kind in kinds] for row in c["rows"]] for c in report["communicators"]]
                     for name in ("observed", "compressed") for report in self.reports(f"{scheme}/{name}")]
            self.assertEqual(found[:RANKS], found[RANKS:], scheme)
            self.assertNotEqual(found[0], [[]])

    def test_the_report_has_errors_of_one_encoding_and_native_times(self):
        self.sums(Job(settings(self.folder / "r", TERSE_OBSERVE="1"), rounds=40))
        for report in self.reports("r"):
            self.assertGreater(report["observed"]["seconds"], 0)
            (communicator,) = report["communicators"]
            (row,) = communicator["rows"]
            self.assertEqual(communicator["bypasses"], {"it is only observed": row["calls"]})
            self.assertRegex(row["message"], r"^float32, sum, [0-9.]+ [KM]B(, in place)?$")
            self.assertEqual(row["seconds"]["calls"], row["calls"])
            self.assertGreater(row["seconds"]["total"], 0)
            self.assertGreaterEqual(row["error"]["calls"], 2)
            self.assertGreater(row["error"]["median_relative"], 0.001)
            self.assertLess(row["error"]["worst_relative"], 0.01)

    def test_a_rank_says_in_the_end_what_would_be(self):
        job = Job(settings(TERSE_OBSERVE="1", TERSE_LOG="warn"))
        self.sums(job)
        said = [line for line in job.logs[0] if "observed" in line]
        self.assertEqual(len(said), 1, job.logs[0])
        self.assertRegex(said[0], r'observed "int8" in this process: 2 of 2 calls would be compressed: '
                                  r"\S+ KB in place of \S+ MB, 3.88 times less, and between nodes")
        self.assertFalse([line for line in job.logs[1] if "observed" in line])

    def test_times_are_predicted_by_the_profile(self):
        self.sums(Job(settings(self.folder / "p", TERSE_OBSERVE="1", TERSE_PROFILE="v100-8x-10gbit"),
                      count=10_000_000))
        for report in self.reports("p"):
            (row,) = report["communicators"][0]["rows"]
            gain = row["seconds"]["predicted_native"] / row["seconds"]["predicted"]
            self.assertTrue(2 < gain < 4, gain)

    def test_native_calls_are_traced_with_their_reason(self):
        for way in ("", "in_pairs"):
            for observe in "01":
                folder = self.folder / f"{way}{observe}"
                own = settings(folder, TERSE_OBSERVE=observe, TERSE_TRACE="10",
                               TERSE_SCHEME="allgather -> int8")
                native = self.sums(Job([{}] * RANKS, way, preload=False, count=COUNT))
                self.assertEqual(self.sums(Job(own, way, count=COUNT)), native)
                for report in self.reports(folder):
                    calls = [call for c in report["communicators"] for call in c.get("trace", [])]
                    self.assertTrue(calls, way)
                    for call in calls:
                        self.assertEqual(call["scheme"], "native, no rule asks for it, or it is off")
                        self.assertEqual(call["count"], COUNT)
                        self.assertEqual(call["steps"], [])
                        self.assertLessEqual(call["begin"], call["end"])

    # Also where there is no report.
    def test_metrics_are_written_for_prometheus(self):
        self.sums(Job(settings(TERSE_METRICS=str(self.folder / "m"))))
        texts = [path.read_text() for path in sorted((self.folder / "m").glob("*.prom"))]
        self.assertEqual(len(texts), RANKS)
        for rank, text in enumerate(texts):
            self.assertRegex(text, f'terse_compressed_calls_total{{rank="{rank}",.*}} 2\n')

    def test_nothing_is_compressed_where_no_rule_says_so(self):
        job = Job(settings(TERSE_OBSERVE="1", TERSE_LOG="warn", TERSE_SCHEME="allgather -> int8"))
        self.sums(job)
        self.assertRegex("\n".join(job.logs[0]), "none of 2 calls would be compressed")

    # Some would wait for codes and others for elements.
    def test_ranks_that_differ_are_refused(self):
        own = settings(TERSE_LOG="warn")
        own[1]["TERSE_OBSERVE"] = "1"
        job = Job(own)
        for (made,) in job.outputs():
            self.assertEqual(made[1], INVALID_USAGE, made)
            self.assertRegex(made[2], "TERSE_OBSERVE is [01] on rank . but [01] on this rank")


if __name__ == "__main__":
    main()
