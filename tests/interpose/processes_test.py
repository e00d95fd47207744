"""Ranks as processes under the preload library:

    processes_test.py RANK_PROGRAM PRELOAD_LIBRARY [TERSE_NAME=VALUE ...]

The variables are set wherever the library is preloaded."""

import random
import signal
import socket
import time
import unittest

from job import ALWAYS, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, SUCCESS, SYSTEM_ERROR, Job, main


class Processes(unittest.TestCase):
    def sums(self, outputs):
        for lines in outputs:
            self.assertEqual(lines[0][:2], ["init", SUCCESS], lines)
            for line in lines[1:]:
                self.assertEqual(line[2].split()[0], SUCCESS, line)
        return [[line[2].split()[1] for line in lines[1:]] for lines in outputs]

    def test_all_ranks_hold_the_same_bytes(self):
        for scheme in ("int8", "int4:round=stochastic", "minmax8:block=1024,round=shift"):
            sums = self.sums(Job([{"TERSE_SCHEME": scheme}] * 3).outputs())
            self.assertEqual(len(sums[0]), 2)
            self.assertEqual(sums[0], sums[1], scheme)
            self.assertEqual(sums[0], sums[2], scheme)

    def test_off_and_unset_are_native(self):
        native = self.sums(Job([{}] * 3, preload=False).outputs())
        self.assertEqual(self.sums(Job([{}] * 3).outputs()), native)
        self.assertEqual(self.sums(Job([{"TERSE_SCHEME": "off"}] * 3).outputs()), native)
        self.assertNotEqual(self.sums(Job([{"TERSE_SCHEME": "int8"}] * 3).outputs()), native)

    def test_the_same_seed_gives_the_same_bytes_in_every_run(self):
        runs = [self.sums(Job([{"TERSE_SCHEME": "int4:round=stochastic", "TERSE_SEED": seed}] * 2)
                          .outputs()) for seed in ("1", "1", "2")]
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])

    # As those of data-parallel replicas, which must stay alike.
    def test_communicators_that_other_processes_of_a_job_lead_give_the_same_of_the_same(self):
        def pair(first):
            return self.sums(Job([{"TERSE_SCHEME": "int4:round=stochastic", "RANK": str(first + rank)}
                                  for rank in range(2)]).outputs())

        self.assertEqual(pair(2), pair(0))

    # Whatever the ranks agree on when it comes to be: grids, levels, a choice.
    def test_a_communicator_that_does_not_block_sums_as_others_do(self):
        for scheme, of_all in (("linear8", {}), ("exp8", {}), ("learned4", {}),
                               ("auto:bits=4,round=stochastic",
                                {"TERSE_PROFILE": "v100-8x-10gbit"})):
            settings = [{"TERSE_SCHEME": scheme, "NCCL_HOSTID": f"host{rank}", **of_all}
                        for rank in range(3)]
            blocking = self.sums(Job(settings).outputs())
            self.assertEqual(blocking, blocking[:1] * 3, scheme)
            for way in ("nonblocking", "grouped"):
                self.assertEqual(self.sums(Job(settings, way).outputs()), blocking, (scheme, way))
            native = self.sums(Job([{}] * 3, preload=False).outputs())
            self.assertNotEqual(blocking, native, scheme)

    def test_an_unreadable_setting_is_an_error_at_creation(self):
        for name, text in (("TERSE_SCHEME", "int44"), ("TERSE_MIN_BYTES", "many")):
            for lines in Job([{name: text}] * 2).outputs():
                self.assertEqual(len(lines), 1)
                self.assertIn(f'{name}="{text}"', lines[0][2])

    def test_an_unreadable_setting_is_told_to_all_before_the_first_call_where_nothing_blocks(self):
        good, bad = {"TERSE_SCHEME": "int8"}, {"TERSE_SCHEME": "int44"}
        unreadable = 'TERSE_SCHEME="int44": column 1: scheme "int44": 44 bits are not offered'
        for settings in [bad] * 2, [good, bad, good]:
            for own, (said,) in zip(settings, Job(settings, "nonblocking").outputs()):
                _, result, message = said
                if own is bad:
                    self.assertEqual(result, INVALID_ARGUMENT)
                    self.assertIn(f": {unreadable}", message)
                else:
                    self.assertEqual(result, INVALID_USAGE)
                    self.assertIn(f": rank 1 has a setting that it cannot read: {unreadable}", message)

    def test_an_unreadable_setting_is_an_error_also_where_others_compress_nothing(self):
        settings = [{}, {"TERSE_SCHEME": "int44", "TERSE_TIMEOUT": "20"}]
        (off,), (own,) = Job(settings, "nonblocking").outputs()
        self.assertEqual(own[1], INVALID_ARGUMENT)
        self.assertIn('TERSE_SCHEME="int44": column 1: ', own[2])
        self.assertEqual(off[1], INVALID_USAGE)
        self.assertIn("rank 1 has a setting that it cannot read", off[2])

    def test_settings_that_differ_are_an_error_on_every_rank(self):
        int8, int4 = (f"shard=64K.. -> {name}:block=128,round=nearest" for name in ("int8", "int4"))
        policy = 'the policy of TERSE_SCHEME or TERSE_POLICY is "{}" on rank {} but "{}" on this rank'
        profile = 'the profile of TERSE_PROFILE is "{}" on rank {} but "{}" on this rank'
        v100 = 'v100-8x-10gbit name = "v100-8x-10gbit" source = "8 V100 a node, 10 G...'
        a100 = 'a100-8x-nvlink name = "a100-8x-nvlink" source = "8 A100 on one node;...'
        for settings, differences in (
                ([{"TERSE_SCHEME": int8}, {"TERSE_SCHEME": int4}, {"TERSE_SCHEME": int8}],
                 [policy.format(int4, 1, int8), policy.format(int8, 0, int4),
                  policy.format(int4, 1, int8)]),
                ([{"TERSE_SCHEME": int8}, {}, {"TERSE_SCHEME": int8}],
                 [policy.format("off", 1, int8), policy.format(int8, 0, "off"),
                  policy.format("off", 1, int8)]),
                ([{"TERSE_SEED": "3"}, {"TERSE_SEED": "4"}],
                 ["TERSE_SEED is 4 on rank 1 but 3 on this rank",
                  "TERSE_SEED is 3 on rank 0 but 4 on this rank"]),
                ([{"TERSE_SCHEME": "bytes=1M.. -> off"}, {"TERSE_SCHEME": "bytes=1M.. -> off",
                                                          "TERSE_MIN_BYTES": "1"}],
                 ["TERSE_MIN_BYTES is 1 on rank 1 but 64K on this rank",
                  "TERSE_MIN_BYTES is 64K on rank 0 but 1 on this rank"]),
                ([{"TERSE_SCHEME": "int8"}, {"TERSE_SCHEME": "int8", "TERSE_CHUNK_BYTES": "1M"}],
                 ["TERSE_CHUNK_BYTES is 1M on rank 1 but not set on this rank",
                  "TERSE_CHUNK_BYTES is not set on rank 0 but 1M on this rank"]),
                ([{"TERSE_SCHEME": "auto:error=0.1", "TERSE_PROFILE": name}
                  for name in ("v100-8x-10gbit", "a100-8x-nvlink")],
                 [profile.format(a100, 1, v100), profile.format(v100, 0, a100)])):
            for rank, lines in enumerate(Job(settings).outputs()):
                self.assertEqual(lines, [["init", INVALID_USAGE,
                                          f"ncclCommInitRank: a new communicator, rank {rank} of "
                                          f"{len(settings)}: settings that must be alike on all ranks "
                                          f"differ: {differences[rank]}"]])

    def test_a_setting_that_one_rank_cannot_read_is_told_to_all(self):
        for name, text, wrong in (
                ("TERSE_SCHEME", "int99", 'column 1: scheme "int99": 99 bits are not offered, only 2 '
                                          "to 8"),
                ("TERSE_TIMEOUT", "x", "it must be a whole number"),
                ("TERSE_LOG", "loud", "it must be off, error, warn, info or trace"),
                ("TERSE_POLICY", "/nowhere", "/nowhere cannot be read: No such file or directory")):
            for words in ([], ["made_in_group"]):
                error = f'{name}="{text}": {wrong}'
                settings = [{"TERSE_SCHEME": "int8"}] * 3
                settings[1] = {**({} if name == "TERSE_POLICY" else settings[1]), name: text}
                for rank, lines in enumerate(Job(settings, *words).outputs()):
                    who = f"ncclCommInitRank: a new communicator, rank {rank} of 3: "
                    said = (["init", INVALID_ARGUMENT, who + error] if rank == 1 else
                            ["init", INVALID_USAGE,
                             f"{who}rank 1 has a setting that it cannot read: {error}"])
                    self.assertEqual(lines, [said])

    def test_an_error_is_logged_once_with_who_has_failed_and_where(self):
        settings = [{"TERSE_SCHEME": scheme, "TERSE_LOG": "error"} for scheme in ("int8", "int4")]
        for words in ([], ["made_in_group"]):
            job = Job(settings, *words)
            for rank, lines in enumerate(job.outputs()):
                said = lines[0][2]
                self.assertRegex(said, rf"^ncclCommInitRank: a new communicator, rank {rank} of 2: ")
                pid = job.processes[rank].pid
                host = socket.gethostname().split(".")[0]
                self.assertEqual(job.logs[rank], [f"{host}:{pid}:{pid} [{rank}] terse ERROR {said}"], words)

    def test_what_a_call_in_a_group_has_said_the_groups_end_does_not_repeat(self):
        job = Job([{"TERSE_SCHEME": "int8", "TERSE_LOG": "error"}] * 2, "nowhere")
        # Who is slower may not even see that all are there.
        ready = [(rank, lines) for rank, lines in enumerate(job.outputs())
                 if lines[0][:2] == ["init", SUCCESS]]
        self.assertTrue(ready)
        for rank, lines in ready:
            said = lines[1][2].split(maxsplit=2)[2]
            self.assertRegex(said, f"^ncclAllReduce: communicator #0, rank {rank} of 2: ")
            self.assertEqual([log.split(" terse ERROR ")[1] for log in job.logs[rank]], [said])

    def test_what_fails_in_the_background_says_so_once(self):
        settings = [{"TERSE_SCHEME": "int8"}, {"TERSE_SCHEME": "int44", "TERSE_LOG": "error"}]
        job = Job(settings, "nonblocking")
        said = job.outputs()[1][0][2]
        self.assertRegex(said, '^ncclCommInitRankConfig: a new communicator, rank 1 of 2: TERSE_SCHEME="int44": ')
        self.assertEqual([log.split(" terse ERROR ")[1] for log in job.logs[1]], [said])

    def test_a_trace_has_a_line_for_each_call_with_what_becomes_of_it(self):
        size = 4 * 100_000
        for scheme, outcome in (
                ("int8", "rule 1: int8:block=128,round=nearest, two-shot AllReduce"),
                ("allgather -> int4", "native, no rule asks for it, or it is off"),
                ("allreduce -> off; int8", "rule 1: native, no rule asks for it, or it is off"),
                ("bytes=1M.. -> int8", "native, the message is small"),
                ("", "native, no rule asks for it, or it is off")):
            for level, wanted in (("trace", 2), ("info", 0)):
                job = Job([{"TERSE_SCHEME": scheme, "TERSE_LOG": level}] * 3)
                self.sums(job.outputs())
                for rank, log in enumerate(job.logs):
                    calls = [line.split(" terse TRACE ")[1] for line in log if " TRACE " in line]
                    self.assertEqual(calls, [f"communicator #0, rank {rank} of 3: AllReduce, {size} B "
                                             f"of float32: {outcome}"] * wanted)

    def test_a_rank_without_the_library_is_what_the_other_is_told_of(self):
        for without in (0, 1):
            for words in ([], ["nonblocking"], ["grouped"]):
                settings = [{"TERSE_SCHEME": "int8", "TERSE_TIMEOUT": "20"}] * 2
                settings[without] = {"LD_PRELOAD": ""}
                rank = 1 - without
                lines = Job(settings, *words).outputs()[rank]
                said = " ".join(lines[-1])
                for part in ("a new communicator, ", f", rank {rank} of 2: ",
                             "is terse in use on all of them"):
                    self.assertEqual(said.count(part), 1, (words, said))

    @unittest.skipUnless("TERSE_CUDA_MODULE" in ALWAYS, "not on GPUs")
    def test_where_nothing_is_compressed_the_module_may_be_missing(self):
        native = self.sums(Job([{}] * 3, preload=False).outputs())
        for scheme in ("", "off"):
            own = {"TERSE_CUDA_MODULE": "/nonexistent", "TERSE_SCHEME": scheme}
            for words in ([], ["nonblocking"], ["grouped"]):
                self.assertEqual(self.sums(Job([own] * 3, *words).outputs()), native, words)

    @unittest.skipUnless("TERSE_CUDA_MODULE" in ALWAYS, "not on GPUs")
    def test_a_missing_module_is_an_error_at_creation_where_calls_are_compressed(self):
        own = {"TERSE_CUDA_MODULE": "/nonexistent", "TERSE_SCHEME": "int8"}
        said = 0
        for rank, lines in enumerate(Job([own] * 3).outputs()):
            self.assertEqual(len(lines), 1, lines)
            # Who is slower may see first that another rank has given up.
            self.assertIn(lines[0][:2], [["init", SYSTEM_ERROR], ["init", REMOTE_ERROR]])
            if lines[0][1] == SYSTEM_ERROR:
                said += 1
                for part in ("ncclCommInitRank", f"rank {rank} of 3", "CUDA module", "/nonexistent"):
                    self.assertIn(part, lines[0][2])
        self.assertGreater(said, 0)

    def test_a_killed_rank_ends_as_an_error_on_the_others(self):
        for attempt in range(3):
            job = Job([{"TERSE_SCHEME": "int8"}] * 3, count=2_000_000, rounds=1_000_000)
            victim = random.Random(attempt).randrange(3)
            with job:
                for process in job.processes:
                    self.assertEqual(process.stdout.readline().split(), ["init", SUCCESS])
                time.sleep(0.2 * attempt)
                job.processes[victim].send_signal(signal.SIGKILL)
                outputs = job.outputs()
            for rank, lines in enumerate(outputs):
                if rank == victim:
                    continue
                self.assertNotEqual(lines[-1][2].split()[0], SUCCESS, (attempt, rank, lines[-1]))


if __name__ == "__main__":
    main()
