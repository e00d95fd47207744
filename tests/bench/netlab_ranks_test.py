"""netlab with several ranks on a host: who is where, and what crosses between hosts."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from programs import (NETLAB, fake_gpus, has_namespaces, left_over, library, netlab, planned,
                      program)
from marks import comes_true, end  # pylint: disable=wrong-import-order

sys.path.insert(0, os.path.dirname(NETLAB))
from placement import Placement  # pylint: disable=wrong-import-position

MIB = 1 << 20
HEADERS = 0.04  # of a host's bytes: packets' headers, acknowledgements, and how ranks meet


def sent_by(table, interface):
    """Of the text of /proc/net/dev."""
    return int(re.search(rf"^\s*{interface}:((?:\s+\d+)+)", table, re.MULTILINE)[1].split()[8])


class Run:
    """A command on each rank of a lab, which leaves what it prints in a file of its own."""

    def __init__(self, *lab, command):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "lab.json")
            self.done = netlab(*lab, "--json", path, "--", "sh", "-c",
                               f"( {command} ) > {directory}/$RANK")
            assert self.done.returncode == 0, self.done.stderr
            with open(path, encoding="utf-8") as file:
                self.report = json.load(file)
            self.said = []  # by rank
            for rank in range(len(self.report["exit_codes"])):
                with open(os.path.join(directory, str(rank)), encoding="utf-8") as file:
                    self.said.append(file.read().strip())

    def sent(self):
        return [one["tx_bytes"] for one in self.report["interfaces"]]


class PlacementTest(unittest.TestCase):
    def test_hosts_are_filled_one_by_one_or_in_turn(self):
        for map_by, hosts, local in (("slot", [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]),
                                     ("node", [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2])):
            placement = Placement(2, 3, map_by)
            self.assertEqual([placement.host(rank) for rank in range(placement.ranks)], hosts)
            self.assertEqual([placement.local(rank) for rank in range(placement.ranks)], local)

    def test_in_words(self):
        self.assertEqual([str(Placement(*of)) for of in ((4, 1), (2, 4), (1, 2))],
                         ["4 hosts", "2 hosts of 4 ranks", "1 host of 2 ranks"])


class Both:
    """What must hold in either mode."""

    def run_lab(self, *arguments, command):
        return Run(*self.MODE, "--hosts", "2", "--ranks-per-host", "2", *arguments, command=command)

    def who(self):
        return self.run_lab(command="echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                            "$NCCL_HOSTID $CUDA_VISIBLE_DEVICES")

    def test_ranks_know_who_they_are_and_share_the_gpus_of_their_host(self):
        with fake_gpus(*["NVIDIA H100"] * 4):
            run = self.who()
        self.assertEqual(run.said, ["0/4 0/2 host0 0,2", "1/4 1/2 host0 0,2",
                                    "2/4 0/2 host1 1,3", "3/4 1/2 host1 1,3"])
        self.assertEqual((run.report["hosts"], run.report["ranks_per_host"]), (2, 2))
        self.assertEqual(run.report["exit_codes"], [0, 0, 0, 0])
        self.assertEqual(run.done.stderr, "")
        self.assertIn("# netlab: 2 hosts of 2 ranks, ", run.done.stdout)


class LoopbackTest(Both, unittest.TestCase):
    MODE = ("--loopback",)

    def test_too_few_gpus(self):
        with fake_gpus(*["NVIDIA H100"] * 3):
            run = self.who()
        self.assertEqual([said.split()[3] for said in run.said], ["0,2", "0,2", "1", "1"])
        self.assertIn("NCCL refuses two ranks of a host on one GPU", run.done.stderr)

    def test_terse_sees_the_hosts_and_one_interface_the_bytes_of_all(self):
        with tempfile.TemporaryDirectory() as reports:
            run = self.run_lab("--env", f"TERSE_REPORT={reports}", "--env", "TERSE_SCHEME=int8",
                               "--env", f"LD_PRELOAD={library('libterse_nccl.so')}",
                               command=f"{program('all_reduce')} -b 1M -e 1M -n 1 -w 0 -c 0")
            found = [one["nodes"] for path in pathlib.Path(reports).glob("*.json")
                     for one in json.loads(path.read_text())["communicators"]]
        self.assertEqual(found, [2, 2, 2, 2])
        [one] = run.report["interfaces"]
        self.assertEqual((one["host"], one["name"]), (None, "lo"))


@unittest.skipUnless(has_namespaces(), "no right to make network namespaces here")
class NamespacesTest(Both, unittest.TestCase):
    MODE = ()
    CALLS = 1 + 2 * (1 + 4)  # warm-up; in and out of place: first, timed

    def test_the_ranks_of_a_host_share_what_hosts_do_not(self):
        said = self.run_lab(command="hostname; for kind in uts ipc net; do "
                            "readlink /proc/self/ns/$kind; done").said
        first, other = said[0].splitlines(), said[2].splitlines()
        self.assertEqual(said[:2], said[:1] * 2)
        self.assertEqual(said[2:], said[2:3] * 2)
        self.assertEqual((first[0], other[0]), ("host0", "host1"))
        own = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("uts", "ipc", "net")]
        for places in zip(first[1:], other[1:], own):
            self.assertEqual(len(set(places)), 3, places)

    def all_reduce(self, *arguments, size=4 * MIB):
        """Of `size` bytes of fp32; then each rank shows the bytes at its host's interfaces."""
        return self.run_lab(*arguments, command=f"{program('all_reduce')} -b {size} -e {size} "
                            "-n 4 -w 1 -c 0 >&2 && env -u LD_PRELOAD cat /proc/net/dev")

    def test_neighbours_talk_by_shared_memory_and_hosts_by_the_link(self):
        run = self.all_reduce()
        whole = self.CALLS * 4 * MIB
        for sent in run.sent():  # a ring leaves each host once: 2 (n-1)/n
            self.assertAlmostEqual(sent / (1.5 * whole), 1, delta=HEADERS)
        for table in run.said:  # by TCP, it would be as much again
            self.assertLess(sent_by(table, "lo"), 0.05 * whole)

    def test_what_stays_on_a_host_does_not_reach_its_interface(self):
        run = self.all_reduce("--hosts", "1")
        self.assertLess(run.sent()[0], 4096)
        self.assertLess(sent_by(run.said[0], "lo"), 0.05 * self.CALLS * 4 * MIB)

    def test_a_ring_leaves_hosts_with_every_step_that_take_ranks_in_turn(self):
        for sent in self.all_reduce("--map-by", "node").sent():
            self.assertAlmostEqual(sent / (2 * 1.5 * self.CALLS * 4 * MIB), 1, delta=HEADERS)

    def test_two_levels_send_what_the_plan_says(self):
        out, native = planned("allreduce", 4 * MIB, 4, 2, "int4")
        self.assertGreater(native / out, 11)
        preload = ("--env", f"LD_PRELOAD={library('libterse_nccl.so')}", "--env",
                   "TERSE_SCHEME=int4")
        for sent in self.all_reduce(*preload).sent():
            # Beside the calls the ranks agree on their settings, 30 KiB or so.
            self.assertAlmostEqual(sent / (self.CALLS * out), 1, delta=2 * HEADERS)

    def test_interrupted_it_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            process = subprocess.Popen(
                [NETLAB, "--hosts", "2", "--ranks-per-host", "2", "--", "sh", "-c",
                 f"readlink /proc/self/ns/ipc > {directory}/$RANK; sleep 63"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(end, process)

            def files():
                return [name for name in os.listdir(directory)
                        if os.path.getsize(os.path.join(directory, name))]
            comes_true(lambda: len(files()) == 4)
            places = set()
            for name in files():
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    places.add(file.read().strip())
        self.assertEqual(len(places), 2)
        self.assertTrue(places <= inhabited())
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(timeout=20), 0)
        self.assertEqual(left_over(process.pid), [])
        self.assertFalse(places & inhabited())


def inhabited():
    """The IPC namespaces that processes are in."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/ipc"))
        except OSError:
            pass
    return found


if __name__ == "__main__":
    unittest.main()
