"""What the tests share that start ranks."""

import os
import re
import tempfile
import unittest
from unittest import mock

import local_ranks
import processes
from marks import comes_true, marked, new_mark


def shell(*scripts, mark=""):
    """Commands and environments of ranks that are shells."""
    environment = local_ranks.environment(**dict([mark.split("=")] if mark else []))
    return [["sh", "-c", script] for script in scripts], [environment] * len(scripts)


def is_left(mark):
    """Whether a process has it, when it has had time to die."""
    return not comes_true(lambda: not marked(mark), seconds=5)


class Environment(unittest.TestCase):
    def environment(self, own, **settings):
        with mock.patch.dict(os.environ, own, clear=True):
            return local_ranks.environment(**settings)

    def test_what_changes_programs_is_not_taken_over(self):
        usual = self.environment({})
        own = dict.fromkeys(["TERSE_SCHEME", "LD_PRELOAD", "NCCL_HOSTID", "NCCL_TESTS_SPLIT", "PMI_RANK",
                             "PMIX_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                             "TORCHELASTIC_USE_AGENT_STORE", *local_ranks.torchrun(0, 1, 1)], "1")
        self.assertEqual(self.environment(own), usual)
        others = {"PATH": "p", "OMPI_MCA_btl": "tcp", "NCCL_DEBUG": "WARN", "NOT_LD_PRELOAD": "1"}
        self.assertEqual(self.environment({**own, **others}), {**usual, **others})

    def test_settings(self):
        usual = self.environment({"HOME": "h"})
        self.assertEqual(usual["HOSTNCCL_TIMEOUT"], "20")
        self.assertEqual(self.environment({"HOME": "h"}, HOSTNCCL_TIMEOUT=5, HOME=None, TERSE_SCHEME=""),
                         {**{name: usual[name] for name in ("NCCL_SOCKET_IFNAME", "ASAN_OPTIONS")},
                          "HOSTNCCL_TIMEOUT": "5", "TERSE_SCHEME": ""})

    def test_a_sanitizers_options_are_added(self):
        self.assertEqual(self.environment({"ASAN_OPTIONS": "a=1:b=2"}, ASAN_OPTIONS="b=3")["ASAN_OPTIONS"],
                         "verify_asan_link_order=0:a=1:b=2:b=3")


class Run(unittest.TestCase):
    def test_what_ranks_print(self):
        self.assertEqual(local_ranks.run(*shell("echo a", "sleep 0.1; echo b >&2")),
                         [(0, "a\n", ""), (0, "", "b\n")])

    def test_one_that_fails_ends_the_others_and_all_is_told(self):
        mark = new_mark()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(processes, "GRACE", 0):
            ranks = shell(f"echo a; touch {folder}/said; sleep 32; true",
                          f"until [ -e {folder}/said ]; do sleep 0.01; done; echo b >&2; exit 3",
                          mark=mark)
            with self.assertRaisesRegex(AssertionError, r"^sh -c .* failed:\n\[rank 0 ended with -9\]\na\n\n"
                                                        r"\[rank 1 ended with 3\]\nb\n$"):
                local_ranks.run(*ranks)
        self.assertFalse(is_left(mark))

    def test_failures_that_are_expected(self):
        late = "sleep 0.2; exit 4"
        with mock.patch.object(processes, "GRACE", 0):
            for codes in (3, 4), None:
                ranks = local_ranks.run(*shell("exit 3", late), codes=codes)
                self.assertEqual([code for code, _, _ in ranks], [3, 4])

    def test_one_that_takes_too_long(self):
        mark = new_mark()
        with self.assertRaisesRegex(AssertionError, r" was ended after 0\.2 s:\n\[rank 0 ended with -9\]\n"):
            local_ranks.run(*shell("sleep 33; true", mark=mark), seconds=0.2, codes=None)
        self.assertFalse(is_left(mark))

    def test_nor_is_what_one_that_has_ended_leaves_behind(self):
        mark = new_mark()
        self.assertEqual(local_ranks.run(*shell("sleep 36 & echo a", mark=mark)), [(0, "a\n", "")])
        self.assertFalse(is_left(mark))


class Running(unittest.TestCase):
    def test_they_are_talked_with_and_finish(self):
        with local_ranks.running(*shell("read a; echo $a; read b; echo $b", "exit 3")) as ranks:
            ranks[0].stdin.write("one\n")
            ranks[0].stdin.flush()
            self.assertEqual(ranks[0].stdout.readline(), "one\n")
            ranks[0].stdin.write("two\n")
            self.assertEqual(local_ranks.finish(ranks, codes=(0, 3)), [(0, "two\n", ""), (3, "", "")])

    def test_none_is_left(self):
        mark = new_mark()
        with self.assertRaisesRegex(AssertionError, "^of the test$"):
            with local_ranks.running(*shell("echo a; sleep 34; true", mark=mark)) as [rank]:
                rank.stdout.readline()
                raise AssertionError("of the test")
        self.assertFalse(is_left(mark))

    def test_whoever_waits_goes_on(self):
        sleep = "sleep 35; true"
        with self.assertRaisesRegex(AssertionError, r"^ranks were ended after 0\.2 s$"):
            with local_ranks.running(*shell(sleep), seconds=0.2) as [rank]:
                self.assertEqual(rank.stdout.readline(), "")
        with local_ranks.running(*shell("echo a", sleep)) as ranks:
            ranks[0].wait()
            with self.assertRaisesRegex(AssertionError, re.escape("[rank 0 ended with 0]\na\n\n[rank 1")):
                local_ranks.finish(ranks, seconds=0.2)

    def test_nobody_waits_for_what_a_rank_leaves_behind(self):
        mark = new_mark()
        with local_ranks.running(*shell("sleep 36 & echo a", mark=mark)) as ranks:
            ranks[0].wait()
            with self.assertRaisesRegex(AssertionError, r" was ended after 0\.2 s:\n\[rank 0 ended with 0\]\n"
                                                        r"a\n$"):
                local_ranks.finish(ranks, seconds=0.2)
        self.assertFalse(is_left(mark))


if __name__ == "__main__":
    unittest.main()
