"""netlab: hosts out of namespaces, or processes on the loopback interface."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from programs import NETLAB, fake_gpus, has_namespaces, left_over, netlab, no_gpus, program, rows
from marks import comes_true, end, marked, new_mark  # pylint: disable=wrong-import-order

sys.path.insert(0, os.path.dirname(NETLAB))
from arguments import list_of, split_schemes, writable  # pylint: disable=wrong-import-position
from units import format_rate, parse_rate  # pylint: disable=wrong-import-position


class Units(unittest.TestCase):
    def test_rates(self):
        self.assertEqual(parse_rate("1gbit"), 10**9)
        self.assertEqual(parse_rate("2.5Gbit"), 25 * 10**8)
        self.assertEqual(parse_rate("100mbit"), 10**8)
        self.assertEqual(parse_rate("0"), 0)
        self.assertEqual(format_rate(25 * 10**8), "2.5 Gbit/s")
        for bad in ("fast", "1gbps", "-1", ""):
            with self.assertRaises(Exception):
                parse_rate(bad)

    def test_a_rate_that_cannot_be_shaped_is_refused(self):
        self.assertEqual([parse_rate(text) for text in ("0.0", "none", "0gbit")], [0, 0, 0])
        self.assertEqual([parse_rate(text) for text in ("1kbit", "10000gbit")], [10**3, 10**13])
        for bad in ("0.5", "1", "999", "0.5kbit", "10001gbit", "9" * 400):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, "cannot be shaped"):
                parse_rate(bad)


class Arguments(unittest.TestCase):
    def test_keys_and_numbers_are_their_schemes(self):
        self.assertEqual(split_schemes("int8,int4:block=64,fit=mse,learned4:learn=1,50,block=64,exp8"),
                         ("int8", "int4:block=64,fit=mse", "learned4:learn=1,50,block=64", "exp8"))
        self.assertEqual(split_schemes("int4:second=int5,second-round=nearest,int8"),
                         ("int4:second=int5,second-round=nearest", "int8"))

    def test_what_is_named_twice_counts_once(self):
        self.assertEqual(split_schemes("int8,native,int8,int4:block=64,int4,int4:block=64"),
                         ("int8", "native", "int4:block=64", "int4"))
        self.assertEqual(list_of(int)("2,1,02"), (2, 1))

    def test_what_is_no_time_or_cannot_be_written_is_refused_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            for arguments in (["--timeout", "nan"], ["--timeout", "inf"], ["--timeout", "-1"],
                              ["--timeout", "long"], ["--json", f"{folder}/no/x"]):
                done = netlab("--loopback", "--hosts", "1", *arguments, "--", "touch",
                              f"{folder}/ran")
                self.assertEqual(done.returncode, 2, arguments)
                self.assertIn(f"argument {arguments[0]}: ", done.stderr)
                self.assertNotIn("Traceback", done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_files_are_as_they_were(self):
        with tempfile.TemporaryDirectory() as folder:
            new, old, link = (os.path.join(folder, name) for name in ("new", "old", "link"))
            with open(old, "w", encoding="ascii") as file:
                file.write("results")
            os.symlink("later", link)
            for path in new, old, link:
                self.assertEqual(writable(path), path)
            self.assertFalse(os.path.exists(new))
            with open(old, encoding="ascii") as file:
                self.assertEqual(file.read(), "results")
            self.assertEqual(os.readlink(link), "later")


class Both:
    """What must hold in either mode."""

    def run_lab(self, *arguments, **how):
        return netlab(*self.MODE, *arguments, **how)

    def test_ranks_know_who_they_are(self):
        with tempfile.TemporaryDirectory() as directory:
            done = self.run_lab("--hosts", "3", "--env", f"PLACE={directory}", "--", "sh", "-c",
                                "echo $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT > $PLACE/$RANK; "
                                "echo rank $RANK")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(os.listdir(directory)), ["0", "1", "2"])
            said = set()
            for rank in "012":
                with open(os.path.join(directory, rank), encoding="utf-8") as file:
                    said.add(file.read())
            self.assertEqual(len(said), 1)
            self.assertTrue(said.pop().startswith("3 "))
        self.assertIn("rank 0\n", done.stdout)
        self.assertNotIn("rank 1", done.stdout)

    def test_a_session_runs_one_program_after_the_other(self):
        asked = [{"program": ["sh", "-c", "echo $RANK of $WORLD_SIZE says $WORD"],
                  "env": ["WORD=yes"]},
                 {"program": ["sh", "-c", "echo no; exit $((3 * RANK))"]},
                 {"program": ["sh", "-c", "echo $WORD"], "env": ["WORD=again"]}]
        done = self.run_lab("--hosts", "2", "--session",
                            input="".join(json.dumps(one) + "\n" for one in asked))
        self.assertEqual(done.returncode, 0, done.stderr)
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([one["output"] for one in reports],
                         ["0 of 2 says yes\n", "no\n", "again\n"])
        self.assertEqual([one["exit_codes"] for one in reports], [[0, 0], [0, 3], [0, 0]])
        self.assertEqual([one["program"] for one in reports], [one["program"] for one in asked])

    def test_a_program_of_a_session_may_have_a_timeout_of_its_own(self):
        asked = [{"program": ["sleep", "0.5"], "timeout": 60},
                 {"program": ["sleep", "60"], "timeout": 0.2}]
        done = self.run_lab("--hosts", "1", "--timeout", "0.1", "--session",
                            input="".join(json.dumps(one) + "\n" for one in asked))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertIn("did not end within 0.2 s", done.stderr)

    def test_what_a_session_does_not_understand_is_an_error(self):
        true = '{"program": ["true"], '
        for line in ("{}", "[]", "true", "no", "", '{"program": []}', '{"program": "true"}',
                     '{"program": [1]}', true + '"env": "A=1"}', true + '"env": ["A"]}',
                     true + '"timeout": NaN}', true + '"timeout": null}'):
            done = self.run_lab("--hosts", "1", "--session", input=line + "\n")
            self.assertEqual(done.returncode, 1, line)
            self.assertIn("netlab: a line of a session is JSON with", done.stderr)
            self.assertNotIn("Traceback", done.stderr)
            self.assertEqual(done.stdout, "")

    def devices(self, hosts, **settings):
        """By rank: its host's id for NCCL, its GPUs, and its number on its host."""
        with tempfile.TemporaryDirectory() as directory, mock.patch.dict(os.environ, settings):
            done = self.run_lab("--hosts", str(hosts), "--env", f"PLACE={directory}", "--", "sh",
                                "-c", "echo $NCCL_HOSTID ${CUDA_VISIBLE_DEVICES-unset} $LOCAL_RANK "
                                "> $PLACE/$RANK")
            self.assertEqual(done.returncode, 0, done.stderr)
            found = []
            for rank in range(hosts):
                with open(os.path.join(directory, str(rank)), encoding="utf-8") as file:
                    found.append(file.read().strip())
        return found

    def test_hosts_share_the_gpus(self):
        with fake_gpus("NVIDIA H100", "NVIDIA H100", "NVIDIA H100"):
            self.assertEqual(self.devices(2), ["host0 0,2 0", "host1 1 0"])
        with fake_gpus("NVIDIA H100", "NVIDIA H100"):
            self.assertEqual(self.devices(2), ["host0 0 0", "host1 1 0"])
            self.assertEqual(self.devices(3), ["host0 0 0", "host1 1 0", "host2 0 0"])
            self.assertEqual(self.devices(3, CUDA_VISIBLE_DEVICES="5, GPU-1a"),
                             ["host0 5 0", "host1 GPU-1a 0", "host2 5 0"])
            self.assertEqual(self.devices(2, CUDA_VISIBLE_DEVICES="1,-1,0"),
                             ["host0 1 0", "host1 1 0"])

    def test_hosts_without_gpus(self):
        with no_gpus():
            self.assertEqual(self.devices(2), ["host0 unset 0", "host1 unset 0"])

    def test_what_the_user_sets_stays(self):
        with fake_gpus("NVIDIA H100", "NVIDIA H100"):
            self.assertEqual(self.devices(2, NCCL_HOSTID="mine", CUDA_VISIBLE_DEVICES=""),
                             ["mine 0", "mine 0"])

    def test_a_failing_rank_is_named_and_ends_the_run(self):
        done = self.run_lab("--hosts", "2", "--", "sh", "-c",
                            "if [ $RANK = 1 ]; then echo oh dear >&2; exit 3; fi; sleep 600")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 ended with 3", done.stderr)
        self.assertIn("rank 1: oh dear", done.stderr)

    def test_a_rank_that_a_signal_ends_is_named(self):
        real_time = signal.SIGRTMIN + 1
        for number, name in ((signal.SIGKILL, "SIGKILL"), (real_time, f"signal {real_time}")):
            done = self.run_lab("--hosts", "1", "--", "sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(done.returncode, 128 + number, done.stderr)
            self.assertIn(f"rank 0 was ended by {name}\n", done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_nobody_needs_to_see_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", NETLAB, *self.MODE, "--hosts",
                                   "2", "--json", f"{folder}/x", "--", "sh", "-c", "echo up"],
                                  stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(f"{folder}/x", encoding="utf-8") as file:
                self.assertEqual(json.load(file)["exit_codes"], [0, 0])

    def test_timeout(self):
        done = self.run_lab("--hosts", "2", "--timeout", "0.5", "--", "sleep", "60")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did not end within 0.5 s", done.stderr)

    def test_a_missing_program_is_an_error(self):
        done = self.run_lab("--hosts", "2", "--", "/no/such/program")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/no/such/program", done.stderr)

    def test_bytes_of_an_all_reduce(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "lab.json")
            done = self.run_lab("--hosts", "2", "--json", path, "--", program("all_reduce"),
                                "-b", "1M", "-e", "1M", "-n", "8", "-w", "1")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual([row[8] for row in rows(done.stdout)], ["0"], done.stdout)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        calls = 1 + 2 * (1 + 8 + 1)  # warm-up; in and out of place: first, timed, checked
        sent = sum(one["tx_bytes"] for one in report["interfaces"]) / 2
        self.assertGreater(sent, calls * 2**20)
        if self.MODE == ():  # others use the loopback interface, too
            self.assertLess(sent, calls * 2**20 * 1.1)
        self.assertEqual(report["exit_codes"], [0, 0])

    def test_interrupted_it_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            mark = new_mark()
            process = subprocess.Popen([NETLAB, *self.MODE, "--hosts", "2", "--env", mark, "--",
                                        "sh", "-c", "echo up; exec sleep 61"], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.addCleanup(end, process)
            self.assertIn("up\n", iter(process.stdout.readline, ""))
            self.assertTrue(comes_true(lambda: marked(mark) == ["sleep\x0061\0"] * 2), marked(mark))
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertNotEqual(process.returncode, 0)
            self.assertEqual(left_over(process.pid), [])
            self.assertEqual(marked(mark), [])


class LoopbackTest(Both, unittest.TestCase):
    MODE = ("--loopback",)

    def test_the_result_says_so(self):
        done = self.run_lab("--hosts", "2", "--", "true")
        self.assertIn("LOOPBACK, not shaped", done.stdout)

    def test_each_program_has_a_port_that_the_kernel_gives_to_nobody(self):
        asked = json.dumps({"program": ["sh", "-c", "echo $MASTER_PORT"]}) + "\n"
        done = self.run_lab("--hosts", "1", "--session", input=4 * asked)
        ports = [int(json.loads(line)["output"]) for line in done.stdout.splitlines()]
        self.assertEqual(len(ports), 4, done.stderr)
        self.assertGreater(len(set(ports)), 1)
        self.assertTrue(set(ports) <= set(range(10000, 30000)), ports)


class Probe(unittest.TestCase):
    """With an `ip` and a `tc` that only write down what they are to do."""

    def probe(self, *, tc, delete):
        """The exit code, and what ip was to do; tc and a deletion do this."""
        with tempfile.TemporaryDirectory() as folder:
            for name, script in (("ip", f'[ "$2" = del ] && {{ {delete}; }}\n'
                                        f'printf "%s\\n" "$*" >> {folder}/done'), ("tc", tc)):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{script}\n")
                os.chmod(path, 0o755)
            with mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                code = netlab("--probe").returncode
            with open(os.path.join(folder, "done"), encoding="utf-8") as file:
                return code, file.read().splitlines()

    @unittest.skipUnless(os.geteuid() == 0, "netlab does not even try without root")
    def test_interrupted_it_leaves_nothing(self):
        interrupt = "kill -TERM $PPID; sleep 0.5"
        for how in ({"tc": interrupt, "delete": "true"}, {"tc": "exit 1", "delete": interrupt},
                    {"tc": interrupt, "delete": interrupt}):
            code, [added, *_, deleted] = self.probe(**how)
            self.assertEqual(code, 128 + signal.SIGTERM)
            self.assertRegex(added, r"^netns add terse-netlab-\d+-probe$")
            self.assertEqual(deleted, added.replace("add", "del"))


class Required(unittest.TestCase):
    def test_tests_that_are_skipped_can_be_an_error(self):
        with mock.patch("programs.netlab", return_value=mock.Mock(stdout="loopback\n")):
            with mock.patch.dict(os.environ):
                os.environ.pop("TERSE_REQUIRE_NAMESPACES", None)
                self.assertFalse(has_namespaces())
            with (mock.patch.dict(os.environ, TERSE_REQUIRE_NAMESPACES="1"),
                  self.assertRaisesRegex(AssertionError, "cannot make namespaces")):
                has_namespaces()


@unittest.skipUnless(has_namespaces(), "no right to make network namespaces here")
class NamespacesTest(Both, unittest.TestCase):
    MODE = ()

    def test_each_host_has_its_interface(self):
        done = self.run_lab("--hosts", "2", "--", "sh", "-c", "hostname; cat /proc/net/dev")
        self.assertIn("host0\n", done.stdout)
        self.assertIn("eth0:", done.stdout)
        self.assertRegex(done.stdout, r"# netlab: host 1 eth0 10\.79\.0\.2 sent \d+ B")

    def test_the_rate_holds(self):
        # 32 all-reduces of 1 MiB at 200 Mbit/s: at least 42 ms each.
        done = self.run_lab("--hosts", "2", "--rate", "200mbit", "--", program("all_reduce"),
                            "-b", "1M", "-e", "1M", "-n", "16", "-c", "0")
        [row] = rows(done.stdout)
        self.assertGreater(float(row[5]), 0.8 * 8 * 2**20 / 200)

    def test_what_a_killed_one_left_is_removed_by_the_next(self):
        process = subprocess.Popen([NETLAB, "--hosts", "2", "--", "sh", "-c", "echo up; exec sleep 62"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(end, process)
        with process:
            self.assertEqual(process.stdout.readline(), "up\n")  # the lab stands
            self.assertNotEqual(left_over(process.pid), [])
            process.kill()
        self.assertEqual(netlab("--hosts", "1", "--", "true").returncode, 0)
        self.assertEqual(left_over(process.pid), [])


if __name__ == "__main__":
    unittest.main()
