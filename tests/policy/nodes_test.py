"""Ranks as processes that say that they are on different hosts (NCCL_HOSTID), under a policy that
goes by the number of nodes: nodes_test.py RANK_PROGRAM PRELOAD_LIBRARY"""

import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM, PRELOAD = sys.argv[1:3]
PATIENCE = 60  # seconds after which a rank counts as hung


def lines_of(hosts, *options, **settings):
    """What each rank prints, for ranks on these hosts. A list of a setting is by rank."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank, host in enumerate(hosts):
            environment = {k: v for k, v in os.environ.items() if not k.startswith("TERSE_")}
            own = {k: v[rank] if isinstance(v, list) else v for k, v in settings.items()}
            environment.update(own, LD_PRELOAD=PRELOAD, NCCL_SOCKET_IFNAME="lo",
                               HOSTNCCL_TIMEOUT="20", TERSE_TIMEOUT="20",
                               ASAN_OPTIONS="verify_asan_link_order=0")
            environment.pop("NCCL_HOSTID", None)
            if host is not None:
                environment["NCCL_HOSTID"] = host
            words = [PROGRAM, str(rank), str(len(hosts)), folder + "/id", "100000", "2",
                     *options]
            processes.append(subprocess.Popen(words, env=environment, text=True,
                                              stdout=subprocess.PIPE))
        return [p.communicate(timeout=PATIENCE)[0].splitlines() for p in processes]


def run(hosts, *options, **settings):
    """Each rank's sums."""
    lines = lines_of(hosts, *options, **settings)
    assert all(line.split()[:2] == ["init", "0"] for line, *_ in lines), lines
    assert all(line.split()[2] == "0" for _, *rounds in lines for line in rounds), lines
    return [[line.split()[3] for line in rounds] for _, *rounds in lines]


class Nodes(unittest.TestCase):
    def setUp(self):
        self.native = run([None] * 3)[0]
        self.int8 = run([None] * 3, TERSE_SCHEME="int8")[0]
        self.assertNotEqual(self.native, self.int8)

    def check(self, hosts, scheme, wanted, *options):
        for sums in run(hosts, *options, TERSE_SCHEME=scheme):
            self.assertEqual(sums, wanted, (hosts, scheme, options))

    def test_hosts_are_counted(self):
        self.check(["a", "b", "a"], "nodes=2 -> int8", self.int8)
        self.check(["a", "b", "a"], "nodes=3.. -> int8", self.native)
        self.check(["a", "b", "c"], "nodes=3.. -> int8", self.int8)
        self.check(["a", "a", "a"], "nodes=2.. -> int8", self.native)

    def test_communicators_that_do_not_block_count_them_too(self):
        self.check(["a", "b", "a"], "nodes=2 -> int8", self.int8, "grouped")
        self.check(["a", "b", "a"], "nodes=3.. -> int8", self.native, "grouped")
        self.check(["a", "b", "c"], "nodes=3.. -> int8", self.int8, "grouped")

    def test_settings_that_differ_are_an_error_on_every_rank_also_where_nothing_blocks(self):
        for lines in lines_of(["a", "b"], "grouped", TERSE_SCHEME="nodes=2 -> int8",
                              TERSE_MIN_BYTES=["1K", "1M"]):
            self.assertEqual([line.split()[:2] for line in lines], [["init", "5"]], lines)

    def test_without_a_given_name_all_are_on_this_host(self):
        self.check([None] * 3, "nodes=1 -> int8", self.int8)
        self.check([None, "a", None], "nodes=2 -> int8", self.int8)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
