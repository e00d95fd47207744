"""terse tune: the profile that it writes, and what it says of a job that is not whole."""

import os
import signal
import subprocess
import tempfile
import time
import tomllib
import unittest

from programs import BUILD, clean_environment, free_port, library, netlab

TERSE = os.path.join(BUILD, "bin", "terse")
TUNE = os.path.join(BUILD, "bin", "terse-tune")
SIZES = (65536, 262144, 1048576)
QUICK = ("-t", "2", "--seconds", "1", "-e", "64K", "--schemes", "int8", "--collectives", "allreduce",
         "--dtypes", "float32")


def terse(*arguments, environment=None, timeout=100):
    done = subprocess.run([TERSE, *arguments], capture_output=True, text=True, check=False,
                          timeout=timeout, env=clean_environment(environment))
    return done.returncode, done.stdout, done.stderr


def contents(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_old(path):
    with open(path, "w", encoding="ascii") as file:
        file.write("old")
    return path


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "profile.toml")

    def profile(self):
        with open(self.path, "rb") as file:
            return tomllib.load(file)

    def check(self, ranks, nodes, collectives, dtypes, schemes):
        profile = self.profile()
        kinds = {(c["collective"], c["dtype"], c["scheme"]) for c in profile["measured"]}
        self.assertEqual(kinds, {(c, d, s) for c in collectives for d in dtypes for s in schemes
                                 if (d, s) != ("bfloat16", "bf16")
                                 and (c, s) != ("allgather", "linear8:round=nearest")})
        for curve in profile["measured"]:
            self.assertEqual((curve["ranks"], curve["nodes"]), (ranks, nodes))
            sizes = SIZES[:len(curve["points"])]
            if curve["collective"] == "allgather":  # the shares of ranks, in 16 bytes
                sizes = tuple(size // (16 * ranks) * 16 * ranks for size in sizes)
            self.assertEqual(tuple(size for size, _ in curve["points"]), sizes)
            for _, seconds in curve["points"]:
                self.assertGreater(seconds, 1e-6)
        return profile

    def test_the_ranks_of_a_job(self):
        done = netlab("--hosts", "3", "--loopback", "--quiet", "--", TUNE, "-o", self.path,
                      "--seconds", "4", "-e", "1M", "--name", "a job", "--schemes",
                      "bf16,int8,linear8", "--collectives", "allreduce,allgather")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        profile = self.check(3, 3, ("allreduce", "allgather"), ("float32", "bfloat16"),
                             ("native", "bf16", "int8", "linear8:round=nearest"))
        self.assertEqual(profile["name"], "a job")
        self.assertGreater(profile["between"]["bandwidth"], 1e6)
        self.assertNotIn("within", profile)
        self.assertGreater(profile["codec"]["int8"]["encode"], 1e6)
        code, out, _ = terse("explain", "--scheme", "auto", "--profile", self.path, "--ranks", "3",
                             "--nodes", "3", "--bytes", "1M")
        self.assertEqual(code, 0)
        self.assertIn('by the profile "a job", which has measured such calls', out)
        code, out, _ = terse("explain", "--scheme", "auto", "--profile", self.path, "--ranks", "8",
                             "--nodes", "8", "--bytes", "64M")
        self.assertEqual(code, 0)
        self.assertIn("which models them", out)

    def of_two_hosts(self, *options):
        done = netlab("--hosts", "2", "--ranks-per-host", "2", "--loopback", "--quiet", *options, "--",
                      TUNE, "-o", self.path, "--seconds", "4", "-e", "1M", "--schemes", "int8",
                      "--collectives", "allreduce", "--dtypes", "float32")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        profile = self.profile()
        layouts = [(curve["ranks"], curve["nodes"], curve["scheme"]) for curve in profile["measured"]]
        return profile, layouts, done.stdout

    def test_the_ranks_of_each_node_too(self):
        profile, layouts, said = self.of_two_hosts()
        self.assertEqual(layouts, [(ranks, nodes, scheme) for ranks, nodes in ((4, 2), (2, 1))
                                   for scheme in ("native", "int8")])
        self.assertIn("# within each node, of 2 ranks:\n", said)
        self.assertNotEqual(profile["within"], profile["between"])
        self.assertEqual(profile["node_ranks"], 2)

    def test_nodes_as_terse_tells_them_apart(self):
        profile, layouts, _ = self.of_two_hosts("--env", "TERSE_NODE=rack")
        self.assertEqual(layouts, [(4, 1, "native"), (4, 1, "int8")])
        self.assertNotIn("between", profile)

    def test_threads_of_a_process(self):
        code, out, err = terse("tune", "-o", self.path, "-t", "2", "--seconds", "2", "-e", "1M",
                               "--schemes", "int4", "--round", "stochastic", "--collectives",
                               "reducescatter", "--dtypes", "float32")
        self.assertEqual(code, 0, out + err)
        self.check(2, 1, ("reducescatter",), ("float32",), ("native", "int4:round=stochastic"))
        self.assertIn("# reducescatter float32: ", out)
        self.assertIn("terse-tune: without two sizes of float32 allreduce no links and codecs could be "
                      "fitted; under auto, calls of other kinds, types or layouts than measured will be "
                      "errors\n", err)

    def test_what_is_named_twice_is_measured_once(self):
        code, out, err = terse("tune", "-o", self.path, "-t", "2", "--seconds", "1", "-e", "256K",
                               "--schemes", "int8,int8", "--collectives", "allreduce,allreduce",
                               "--dtypes", "float32,float32")
        self.assertEqual(code, 0, out + err)
        self.assertEqual([(curve["collective"], curve["dtype"], curve["scheme"])
                          for curve in self.profile()["measured"]],
                         [("allreduce", "float32", "native"), ("allreduce", "float32", "int8")])
        self.assertNotIn("could be fitted", err)

    def test_calls_that_ranks_of_one_node_fuse_are_named(self):
        for environment, fused in (({}, True), ({"TERSE_FUSE": "off"}, False)):
            code, out, err = terse("tune", "-o", self.path, "-t", "2", "--seconds", "1", "-e", "256K",
                                   "--schemes", "int8,linear8", "--collectives", "allreduce", "--dtypes",
                                   "float32", environment=environment)
            self.assertEqual(code, 0, out + err)
            profile = self.profile()
            self.assertEqual([(curve["scheme"], curve.get("fused", False)) for curve in profile["measured"]],
                             [("native", False), ("int8", fused), ("linear8:round=nearest", False)])
            self.assertEqual("fused" in profile, fused)
            self.assertGreater(profile["codec"]["int8"]["encode"], 1e6)

    # Of 64 bytes five ranks have no 16 each.
    def test_calls_without_elements_are_not_measured(self):
        words = ("tune", "-o", self.path, "-t", "5", "--seconds", "1", "-b", "64", "--schemes",
                 "int8", "--collectives", "allgather", "--dtypes", "float32")
        code, out, err = terse(*words, "-e", "1K")
        self.assertEqual(code, 0, out + err)
        curves = {curve["scheme"]: [size for size, _ in curve["points"]]
                  for curve in self.profile()["measured"]}
        self.assertEqual(curves["native"][:2], [240, 960])
        self.assertEqual(curves["int8"], [240, 960])
        code, _, err = terse(*words, "-e", "79")
        self.assertEqual(code, 1)
        self.assertIn("no message of 64 to 79 bytes has elements for each of 5 ranks", err)

    def test_one_rank_has_nothing_to_measure(self):
        code, _, err = terse("tune", "-o", self.path)
        self.assertEqual(code, 1)
        self.assertIn("there is one rank, and nothing to send: start a process for each GPU", err)
        self.assertFalse(os.path.exists(self.path))

    def test_under_the_preload_library_native_would_be_compressed(self):
        preload = {"LD_PRELOAD": library("libterse_nccl.so"), "TERSE_LOG": "error"}
        code, _, err = terse("tune", "-o", self.path, *QUICK,
                             environment={"TERSE_SCHEME": "int4", **preload})
        self.assertEqual(code, 1)
        self.assertIn("libterse_nccl.so is preloaded, and would compress what is to be", err)
        self.assertFalse(os.path.exists(self.path))
        code, _, err = terse("tune", "-o", self.path, *QUICK, environment=preload)
        self.assertEqual(code, 0, err)  # nothing is compressed

    def test_a_rank_that_is_missing_is_named(self):
        code, _, err = terse("tune", "-o", self.path, "-T", "3", environment={
            "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port())})
        self.assertEqual(code, 1)
        self.assertRegex(err, r"terse-tune: process 0 on .*missing.*1")
        self.assertFalse(os.path.exists(self.path))

    def test_bad_command_lines(self):
        for arguments, error in (
                (["--schemes", "itn8"], 'unknown codec "itn8"'),
                (["--schemes", "int8,auto"], "--schemes: auto names no format"),
                (["--collectives", "sendrecv"], "sendrecv not in"),
                (["-b", "2M", "-e", "1M"], "must be from 1 to --maxbytes"),
                (["--seconds", "0"], "--seconds")):
            with self.subTest(arguments=arguments):
                code, _, err = terse("tune", *arguments)
                self.assertEqual(code, 2)
                self.assertIn(error, err)

    def test_a_file_that_cannot_be_written_is_a_failure(self):
        code, _, err = terse("tune", "-o", "/nowhere/profile.toml", "-t", "2", "--seconds", "1",
                             "-e", "64K", "--schemes", "int8", "--collectives", "allreduce")
        self.assertEqual(code, 1)
        self.assertIn("cannot write /nowhere/profile.toml: No such file or directory", err)

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([TUNE, *QUICK], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False, timeout=100, env=clean_environment())
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("terse-tune: cannot write standard output: No space left on device\n",
                      done.stderr)

    def interrupt(self):
        # Whoever started the test may have the signal ignored.
        with subprocess.Popen([TUNE, "-o", self.path, "-t", "2", "--seconds", "60", "-e", "1M"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=clean_environment(), preexec_fn=lambda: signal.signal(
                                  signal.SIGINT, signal.SIG_DFL)) as process:
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), -signal.SIGINT)

    def test_an_interrupted_one_leaves_all_as_it_was(self):
        self.interrupt()
        self.assertEqual(os.listdir(os.path.dirname(self.path)), [])
        write_old(self.path)
        self.interrupt()
        self.assertEqual(contents(self.path), "old")

    def test_an_old_profile_is_replaced_in_one_step(self):
        os.link(write_old(self.path), self.path + ".old")
        code, out, err = terse("tune", "-o", self.path, *QUICK)
        self.assertEqual(code, 0, out + err)
        self.assertIn("[[measured]]", contents(self.path))
        self.assertEqual(contents(self.path + ".old"), "old")


if __name__ == "__main__":
    unittest.main()
