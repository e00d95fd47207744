"""Ranks as processes that say that they are on different hosts (NCCL_HOSTID), under a policy that
goes by the number of nodes: nodes_test.py RANK_PROGRAM PRELOAD_LIBRARY"""

import os
import sys
import tempfile
import unittest

PROGRAM, PRELOAD = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

import local_ranks  # noqa: E402


def lines_of(hosts, *options, **settings):
    """What each rank prints, for ranks on these hosts. A list of a setting is by rank."""
    with tempfile.TemporaryDirectory() as folder:
        commands, environments = [], []
        for rank, host in enumerate(hosts):
            own = {k: v[rank] if isinstance(v, list) else v for k, v in settings.items()}
            environments.append(local_ranks.environment(LD_PRELOAD=PRELOAD, NCCL_HOSTID=host,
                                                        TERSE_TIMEOUT="20", **own))
            commands.append([PROGRAM, rank, len(hosts), folder + "/id", 100_000, 2, *options])
        return [out.splitlines() for _, out, _ in local_ranks.run(commands, environments)]


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

    def test_several_machines_may_be_one_node(self):
        def of(nodes, scheme):
            return run(["a", "b", "c"], TERSE_NODE=nodes, TERSE_SCHEME=scheme)
        self.assertEqual(of(["x", "x", "x"], "nodes=1 -> int8"), [self.int8] * 3)
        self.assertEqual(of(["x", "x", "x"], "nodes=2.. -> int8"), [self.native] * 3)
        self.assertEqual(of(["x", "x", "y"], "nodes=2 -> int8"), [self.int8] * 3)
        self.assertEqual(of(["", "", ""], "nodes=3 -> int8"), [self.int8] * 3)

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
