"""`terse run --check`, which stays beside the program: check_test.py TERSE RANK_PROGRAM"""

import os
import pty
import signal
import subprocess
import sys
import tempfile
import unittest

TERSE, RANK = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

from local_ranks import environment  # noqa: E402

PATIENCE = 60
WARNING = "has made no NCCL communicator that terse saw"
FORWARDED = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH")

# Says its process's number and then each signal that comes, until the first SIGTERM, or for ever.
LISTENER = """
import os, signal, sys
names = sys.argv[1].split(",")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.Signals[n] for n in names])
print("pid", os.getpid(), flush=True)
while True:
    name = signal.Signals(signal.sigwait([signal.Signals[n] for n in names])).name
    print(name, flush=True)
    if name == "SIGTERM":
        sys.exit(7)
"""


class Checked(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.marks = self.scratch.name + "/marks"
        os.mkdir(self.marks)

    def environment(self):
        return environment(TMPDIR=self.marks, TERSE_LOG="warn", XDG_CACHE_HOME=self.scratch.name,
                           ASAN_OPTIONS="detect_leaks=0:handle_abort=0:handle_segv=0")

    def start(self, *command, check=("--check",), **options):
        process = subprocess.Popen([TERSE, "run", *check, *command], text=True,
                                   env=self.environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, *command, **options):
        """The status and what was said."""
        process = self.start(*command, **options)
        _, said = process.communicate(timeout=PATIENCE)
        self.assertEqual(os.listdir(self.marks), [])
        return process.returncode, said

    def test_it_ends_as_the_program_does(self):
        for status in 0, 1, 3, 42, 255:
            self.assertEqual(self.end("sh", "-c", f"exit {status}")[0], status)
        for name in "SIGTERM", "SIGKILL", "SIGSEGV", "SIGPIPE", "SIGUSR1":
            number = signal.Signals[name]
            self.assertEqual(self.end("sh", "-c", f"kill -{number:d} $$")[0], -number, name)
        status, said = self.end("/no/such/program")
        self.assertEqual(status, 127)
        self.assertIn("No such file", said)
        self.assertEqual(self.end("/dev/zero")[0], 126)

    def test_what_it_has_inherited_is_the_programs(self):
        """Signals blocked and ignored; and SIGCHLD, which must not be ignored for it to see an end."""
        def blocked():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGUSR1])
        process = self.start("grep", "-hs", "SigBlk", "/proc/self/status", "/no/such/file",
                             preexec_fn=blocked)
        said, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, int(said.split()[1], 16)),
                         (2, 1 << signal.SIGUSR1 - 1))

    def test_a_program_that_has_not_used_nccl(self):
        for command in (["true"], ["sh", "-c", "true; env true"]):
            status, said = self.end(*command)
            self.assertEqual(status, 0)
            self.assertIn(f"terse: {command[0]} {WARNING}", said)
            self.assertEqual(said.count(WARNING), 1)
        self.assertNotIn(WARNING, self.end("true", check=())[1], "unasked")
        report = ("--report", self.scratch.name + "/report")
        for asked in (report, ("--log", "info"), ("--log", "trace")):
            self.assertIn(WARNING, self.end("true", check=asked)[1])
            self.assertNotIn(WARNING, self.end("true", check=("--no-check", *asked))[1])
        self.assertNotIn(WARNING, self.end("false")[1], "what fails says why itself")

    def test_a_process_that_has_used_it_speaks_for_all(self):
        rank = [RANK, "0", "1", self.scratch.name + "/id", "100", "1"]
        for command in (rank, ["sh", "-c", '"$@"; true', "sh", *rank],
                        ["env", "sh", "-c", '"$@" & wait', "sh", *rank]):
            status, said = self.end(*command)
            self.assertEqual(status, 0, said)
            self.assertNotIn(WARNING, said)
        # Also where the rules leave all of it native.
        self.assertNotIn(WARNING, self.end(*rank, check=("--check", "--scheme", "off"))[1])

    def test_a_run_that_must_compress_ends_with_an_error_if_it_does_not(self):
        def ranks(number):
            each = [f"{RANK} {rank} {number} {self.scratch.name}/id{number} 100000 1 >&2"
                    for rank in range(number)]
            return ["sh", "-c", " & ".join(each) + "; status=$?; wait; exit $status"]

        def required(command, scheme):
            return self.end(*command, check=("--require", "--scheme", scheme))

        failure = "terse: --require: {} has compressed nothing on this machine"
        self.assertEqual(required(ranks(2), "int8")[0], 0)
        for command, scheme in ((ranks(1), "int8"), (ranks(2), "off"), (["true"], "int8")):
            status, said = required(command, scheme)
            self.assertEqual(status, 1, said)
            self.assertIn(failure.format(command[0]), said)
        self.assertEqual(required(["sh", "-c", "exit 3"], "int8")[0], 3)

    def listener(self, **options):
        """Once it listens; and its process's number."""
        process = self.start(sys.executable, "-c", LISTENER, ",".join(FORWARDED), **options)
        word, pid = process.stdout.readline().split()
        self.assertEqual(word, "pid")
        self.assertNotEqual(int(pid), process.pid)
        return process, int(pid)

    def test_signals_go_on_to_the_program_once(self):
        process, _ = self.listener()
        for name in [n for n in FORWARDED if n != "SIGTERM"] + ["SIGTERM"]:
            process.send_signal(signal.Signals[name])
            self.assertEqual(process.stdout.readline(), name + "\n")
        rest, said = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, rest), (7, ""))
        self.assertNotIn(WARNING, said)

    def test_killed_it_takes_the_program_along(self):
        process, pid = self.listener()
        process.kill()
        self.assertEqual(process.wait(PATIENCE), -signal.SIGKILL)
        self.assertEqual(process.stdout.read(), "")  # whose end the program held, too
        with self.assertRaises(ProcessLookupError):
            while True:  # until its new parent has seen it
                os.kill(pid, 0)

    def test_a_terminals_end_is_the_programs(self):
        """The kernel tells the leader of the session alone, which here is terse."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(TERSE, [TERSE, "run", "--check", "sleep", "600"], self.environment())
        children = f"/proc/{pid}/task/{pid}/children"
        while True:
            with open(children, encoding="ascii") as f:
                own = f.read().split()
            if own:
                with open(f"/proc/{own[0]}/comm", encoding="ascii") as f:
                    if f.read() == "sleep\n":
                        break
        os.close(terminal)
        _, waited = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(waited), -signal.SIGHUP)

    def test_a_run_within_a_run(self):
        rank = [RANK, "0", "1", self.scratch.name + "/id", "100", "1"]
        status, said = self.end(TERSE, "run", "--check", *rank)
        self.assertEqual(status, 0, said)
        self.assertNotIn(WARNING, said)
        self.assertEqual(self.end(TERSE, "run", "--check", "true")[1].count(WARNING), 2)

    def test_a_terminals_interrupt_comes_once(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(TERSE, [TERSE, "run", "--check", sys.executable, "-c", LISTENER,
                               ",".join(FORWARDED)], self.environment())
        with os.fdopen(terminal, "r+b", buffering=0) as both:
            said = b""
            while b"\n" not in said:
                said += both.read(100)
            own = int(said.split()[1])
            both.write(b"\x03")
            while b"SIGINT" not in said:
                said += both.read(100)
            os.kill(own, signal.SIGTERM)
            try:
                while more := both.read(100):
                    said += more
            except OSError:
                pass  # the terminal has no other end any more
        _, waited = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(waited), 7)
        self.assertEqual(said.count(b"SIGINT"), 1, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
