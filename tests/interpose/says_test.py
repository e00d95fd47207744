"""What a run says of itself under the preload library, without being asked and at its end:

    says_test.py RANK_PROGRAM PRELOAD_LIBRARY THREADS=PROGRAM"""

import os
import re
import subprocess
import tempfile
import unittest

from job import ALWAYS, PRELOAD, SUCCESS, Job, environment, main

INT8 = re.escape("int8:block=128,round=nearest")


def said(settings, *words, **options):
    """The lines of each rank, but for those of TERSE_LOG=info and trace."""
    job = Job(settings, *words, **options)
    for lines in job.outputs():
        assert all(line[1] == SUCCESS or line[2].split()[0] == SUCCESS for line in lines), lines
    return [[line for line in log if " terse NOTE " in line or " terse WARN " in line]
            for log in job.logs]


class Says(unittest.TestCase):
    def test_that_it_is_at_work(self):
        for way in ((), ("nonblocking",)):
            first, *others = said([{"TERSE_SCHEME": "int8", "TERSE_LOG": "warn"}] * 3, *way)
            self.assertEqual(others, [[], []])
            self.assertEqual(len(first), 1, first)
            self.assertRegex(first[0], r"\[0\] terse NOTE terse \d+\.\d+\.\d+ compresses NCCL "
                                       r"\d+\.\d+\.\d+ \(/.*libnccl\.so\.2\S*\) on 3 ranks, 1 node\. "
                                       rf"Of 64 MiB in fp32: fused two-shot AllReduce {INT8}, "
                                       rf"fused AllGather {INT8}, fused ReduceScatter {INT8}$")

    def test_that_calls_are_not_fused(self):
        first, *_ = said([{"TERSE_SCHEME": "int8", "TERSE_LOG": "warn", "TERSE_FUSE": "off"}] * 3)
        self.assertRegex(first[0], rf": two-shot AllReduce {INT8}, AllGather {INT8}, ReduceScatter {INT8}$")

    def test_what_stays_native(self):
        first, _ = said([{"TERSE_SCHEME": "allreduce nodes=2.. -> int4; allgather -> int8",
                          "TERSE_LOG": "warn", "NCCL_HOSTID": f"host{rank}"} for rank in range(2)])
        self.assertRegex(first[0], r"on 2 ranks, 2 nodes\. .*: one-shot AllReduce int4:\S+, "
                                   r"AllGather int8:\S+, ReduceScatter native$")

    def test_what_stays_native_by_terse_runs_own_rules(self):
        for hosts, wanted in ((["a", "a"], "1 node. Of 64 MiB in fp32: AllReduce native, AllGather "
                                           "native, ReduceScatter native; the rules are for 2 nodes "
                                           "or more, --scheme safe is for one, too"),
                              (["a", "b"], "2 nodes. Of 64 MiB in fp32: one-shot AllReduce int8:")):
            first, _ = said([{"TERSE_SCHEME": "nodes=2.. -> safe", "TERSE_LOG": "warn",
                              "NCCL_HOSTID": host} for host in hosts])
            self.assertIn(wanted, first[0])

    def test_again_of_the_first_communicator_that_compresses(self):
        """All pairs have a rank 0; that of the whole job speaks."""
        whole, pair = r"on 4 ranks, 1 node\. .*: AllReduce native,", r"on 2 ranks, 1 node\. .*: fused one-shot AllReduce int8:"
        for scheme, wanted in (("ranks=2 -> int8", [whole, pair]),
                               ("ranks=3 -> int8", [whole + ".*native; the rules are for other values of ranks$"]),
                               ("int8", [r"on 4 ranks, 1 node\. .*: fused two-shot AllReduce int8:"])):
            first, *others = said([{"TERSE_SCHEME": scheme, "TERSE_LOG": "warn"}] * 4, "in_pairs", rounds=3)
            self.assertEqual(others, [[], [], []], scheme)
            self.assertEqual(len(first), len(wanted), first)
            for line, part in zip(first, wanted):
                self.assertRegex(line, part)

    # Four of the eight ranks share a node, which would send 2 times the message in bf16, where NCCL
    # sends it 1.75 times.
    def test_what_stays_native_for_nccl_sends_less_between_nodes(self):
        first, *_ = said([{"TERSE_SCHEME": "allreduce -> bf16; allgather -> bf16:algo=direct; "
                                           "reducescatter -> int8",
                           "TERSE_LOG": "warn", "HOSTNCCL_TIMEOUT": "60", "NCCL_HOSTID": f"host{node}"}
                          for node in (0, 0, 0, 0, 1, 1, 1, 2)], count=1000)
        self.assertRegex(first[0], r"on 8 ranks, 3 nodes\. .*: AllReduce native, "
                                   r"AllGather bf16:\S+, ReduceScatter int8:\S+$")

    # A codec of some 1,000 elements a second, by the profile, on two nodes.
    def test_what_stays_native_for_it_is_predicted_to_be_slower(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "slow.toml")
            with open(path, "w", encoding="ascii") as file:
                file.write("[between]\nlatency = 1e-5\nbandwidth = 1e9\n[coding]\nencode = 1e3\ndecode = 1e3\n")
            natively = "0 calls compressed, 2 native"
            for scheme, profile, begin, end in (
                    ("int8", path, ": AllReduce native, AllGather native, ReduceScatter native; native is "
                                   "predicted to be faster", natively),
                    ("int8:algo=oneshot", path, ": one-shot AllReduce int8:", "2 calls compressed, 0 native"),
                    ("int8", "none", ": one-shot AllReduce int8:", "2 calls compressed, 0 native")):
                first, other = said([{"TERSE_SCHEME": scheme, "TERSE_PROFILE": profile, "TERSE_LOG": "info",
                                      "NCCL_HOSTID": f"host{rank}"} for rank in range(2)])
                self.assertEqual(other, [])
                self.assertIn(begin, first[0], scheme)
                self.assertIn(end, first[-1], scheme)

    def test_nothing_where_nothing_is_compressed_or_nothing_is_to_be_said(self):
        for settings in ({"TERSE_SCHEME": "off", "TERSE_LOG": "warn"}, {"TERSE_LOG": "warn"},
                         {"TERSE_SCHEME": "int8", "TERSE_LOG": "error"},
                         {"TERSE_SCHEME": "int8", "TERSE_LOG": "off"}):
            self.assertEqual(said([settings] * 2), [[], []], settings)

    def test_that_a_profile_lacks_the_links_before_a_call_fails(self):
        first, other = said([{"TERSE_SCHEME": "allgather -> auto", "TERSE_LOG": "warn",
                              "TERSE_PROFILE": "a100-8x-nvlink", "NCCL_HOSTID": f"host{rank}"}
                             for rank in range(2)])
        self.assertEqual(other, [])
        self.assertRegex(first[0], r" terse WARN calls of 64 MiB in fp32 would fail: communicator #0, rank 0 of 2: "
                                   r"the profile \"a100-8x-nvlink\" says nothing of links between nodes, and "
                                   r"2 ranks are on 2 nodes$")

    def test_once_that_results_differ_between_ranks(self):
        own = "results differ between ranks: by own=exact each rank of an AllGather keeps its own shard exact"
        for scheme, words, wanted in (("int8:own=exact", ["gathers"], 1), ("safe-fsdp32", ["gathers"], 1),
                                      ("int8", ["gathers"], 0), ("safe", ["gathers"], 0),
                                      ("int8:own=exact", [], 0)):
            first, other = said([{"TERSE_SCHEME": scheme, "TERSE_LOG": "warn"}] * 2, *words)
            self.assertEqual([own in line for line in first].count(True), wanted, (scheme, first))
            self.assertEqual(other, [], scheme)

    def test_how_a_preset_gathers_16_bits(self):
        first, _ = said([{"TERSE_SCHEME": "safe", "TERSE_LOG": "warn"}] * 2)
        self.assertIn("AllGather native (in bf16 fused AllGather minmax8:block=128,round=shift), "
                      "fused ReduceScatter int8:", first[0])

    def test_what_it_did_where_that_is_asked_for(self):
        # 2 (n-1)/n S of two calls of 100,000 elements, in 8.25 bits each.
        end = r"\[0\] terse NOTE 2 calls compressed \(2 fused\), 0 native; sent 206 KB in place of 800 KB, 3.8\d times less$"
        with tempfile.TemporaryDirectory() as folder:
            for settings in {"TERSE_LOG": "info"}, {"TERSE_REPORT": folder, "TERSE_LOG": "warn"}:
                first, second = said([{"TERSE_SCHEME": "int8", **settings}] * 2)
                self.assertEqual(second, [])
                self.assertEqual(len(first), 2)
                self.assertRegex(first[1], end)

    def test_it_of_ranks_that_are_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [ALWAYS["THREADS"], "3", "100000", "2"], check=True, text=True, stderr=subprocess.PIPE,
                env=environment(LD_PRELOAD=PRELOAD, TERSE_SCHEME="int8", TERSE_LOG="warn",
                                TERSE_REPORT=folder))
            begin, end = [line for line in run.stderr.splitlines() if " terse " in line]
            self.assertIn("[0] terse NOTE terse ", begin)
            # Of all three: each sends 4/3 of 400,000 B twice.
            self.assertRegex(end, r"\[0\] terse NOTE 6 calls compressed \(6 fused\), 0 native; sent \d+ KB in place of 3.2 MB")
            self.assertEqual({name.partition("-")[0] for name in os.listdir(folder)}, {"rank0"})


if __name__ == "__main__":
    main()
