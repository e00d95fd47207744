"""What `terse` says of policies: cli_test.py TERSE EXAMPLES

The texts are pinned: after a deliberate change review the difference and put the new text here."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

TERSE, EXAMPLES = sys.argv[1:3]
DEFAULT_RULES = "TERSE_SCHEME='nodes=2.. -> safe'"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

from local_ranks import environment  # noqa: E402


def terse(*words, **settings):
    """Exit status, standard output and standard error. What is explained is for CPUs unless the words
    say otherwise, whatever the build is for."""
    if words[:1] == ("explain",) and not {"--gpu", "--device", "--profile"} & set(words):
        words = ("explain", "--cpu", *words[1:])
    done = subprocess.run([TERSE, *words], env=environment(**settings), text=True, capture_output=True,
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


def wrong_usage(test, error, *words):
    """Whatever is wrong with a command line ends in the same way."""
    code, out, err = terse(*words)
    test.assertEqual((code, out, err), (2, "", f"terse: {error}\nTry terse --help, or --help after "
                                               "its commands.\n"), words)


class SettingsTable(unittest.TestCase):
    """docs/SETTINGS.md has the table that `terse settings` prints; TERSE_BLESS=1 writes it anew."""

    ALIKE = "; alike on all ranks"
    PATH = os.path.join(EXAMPLES, os.pardir, "docs", "SETTINGS.md")

    def test_it_is_that_of_the_program(self):
        _, out, _ = terse("settings", COLUMNS="10000")
        rows = ["| setting | meaning | same on all ranks |", "|---|---|---|"]
        for name, meaning in (line.split(None, 1) for line in out.splitlines()):
            alike = " yes" if meaning.endswith(self.ALIKE) else ""
            rows.append(f"| `{name}` | {meaning.removesuffix(self.ALIKE)} |{alike} |")
        with open(self.PATH, encoding="utf-8") as file:
            document = file.read()
        table = re.search(r"^\| setting .*?\n\n", document, re.MULTILINE | re.DOTALL).group()
        if "TERSE_BLESS" in os.environ:
            with open(self.PATH, "w", encoding="utf-8") as file:
                file.write(document.replace(table, "\n".join(rows) + "\n\n"))
        else:
            self.assertEqual(table.rstrip().splitlines(), rows)


class Usage(unittest.TestCase):
    def test_what_cannot_be_right(self):
        many = str(2**64 - 1)
        ranks = "--ranks: Value {} not in range {} to 65536"
        for error, *words in (
                ("a command is missing",),
                ("The following argument was not expected: explan; did you mean explain?", "explan"),
                ("The following arguments were not expected: rnu -- python train.py; did you mean run?",
                 "rnu", "--", "python", "train.py"),
                ("--policy excludes --scheme", "explain", "--scheme", "int8", "--policy", "p"),
                (ranks.format("x", 1), "explain", "--ranks", "x"),
                (ranks.format(2**31 - 1, 1), "explain", "--ranks", str(2**31 - 1)),
                (ranks.format(0, 1), "explain", "--ranks", "0"),
                (ranks.format(2000000000, 2), "plan", "allreduce", "--ranks", "2000000000"),
                (ranks.format(1, 2), "plan", "--ranks", "1"),
                ("8 ranks cannot be on 9 nodes", "explain", "--nodes", "9"),
                ("1 rank cannot be on 2 nodes", "explain", "--ranks", "1", "--nodes", "2"),
                ("--bytes: many: not a number of bytes such as 64M", "explain", "--bytes", "many"),
                ("--rank: Value -1 not in range 0 to 65535", "plan", "--rank", "-1"),
                ("4 is not one of 4 ranks", "plan", "--rank", "4"),
                ("9 is not one of 4 ranks", "plan", "gather", "--root", "9"),
                ("4 ranks cannot be on 5 nodes", "plan", "--nodes", "5"),
                ("a message from rank 0 to itself goes to NCCL as it is", "plan", "send"),
                ("all ranks hold the levels of learned4: a message of two of them goes to NCCL as it is",
                 "plan", "send", "--scheme", "learned4", "--root", "1"),
                ("the scheme is off: the call goes to NCCL as it is", "plan", "--scheme", "off"),
                ("the codes of bf16 are as wide as the elements: allreduce goes to NCCL as it is",
                 "plan", "allreduce", "--scheme", "bf16", "--element-bytes", "2"),
                ("--scheme: it is empty", "run", "--scheme", "", "true"),
                ("--policy: it is empty", "run", "--policy", "", "true"),
                ("--profile: it is empty", "run", "--profile", "", "true"),
                ("--report: it is empty", "run", "--report", "", "true"),
                ("--nccl: it is empty", "run", "--nccl", "", "true"),
                ("--report: its value is missing before --", "run", "--report", "--", "true"),
                ("--scheme: its value is missing before --", "run", "--scheme", "--", "true"),
                ("--scheme: it is empty", "explain", "--scheme", ""),
                ("--policy: it is empty", "explain", "--policy", ""),
                ("--profile: it is empty", "explain", "--profile", ""),
                ("--count: Value 0 not in range 1 to " + many, "plan", "--count", "0"),
                ("a message of 7.379e+19 bytes cannot be right", "plan", "--count", many),
                ("--bytes: 17179869183G: no message has so many bytes", "explain", "--scheme", "int8",
                 "--bytes", "17179869183G"),
                ("1.1e+12 bytes on 64 ranks are too much to plan here: ask for less of either",
                 "explain", "--scheme", "int8", "--bytes", "1024G", "--ranks", "64"),
                ("16384 ranks on 2 nodes are too many to plan here: ask for fewer ranks a node",
                 "explain", "--scheme", "int8", "--bytes", "64M", "--ranks", "16384", "--nodes", "2"),
                ("The following argument was not expected: \\x1b[31m\\n", "\x1b[31m\n"),
                ("command is required", "run"),
                ("The following argument was not expected: --shceme; did you mean --scheme?",
                 "run", "--shceme", "int8", "true"),
                ("The following argument was not expected: exlpain; did you mean explain?", "exlpain"),
                ("--log: loud not in {off,error,warn,info,trace}", "run", "--log", "loud", "true"),
                ("--verify: Value -1 not in range 0 to 2147483647", "run", "--verify", "-1",
                 "true")):
            with self.subTest(words):
                wrong_usage(self, error, *words)

    def test_a_number_of_nodes_is_that_one_alone(self):
        hint = "hint: rule 1 is for exactly 2 nodes; from 2 nodes on is nodes=2..\n"
        self.assertEqual(terse("scheme", "nodes=2 -> safe")[1].count(hint), 1)
        self.assertNotIn("hint", terse("scheme", "nodes=2.. -> safe")[1])

    def test_settings_that_cannot_be_are_said_at_once(self):
        for words in (["run", "--scheme", "int8", "true"], ["scheme", "int8"],
                      ["explain", "--scheme", "int8"]):
            with self.subTest(words):
                code, _, err = terse(*words, TERSE_MIN_BYTES="64KG")
                self.assertNotEqual(code, 0)
                self.assertIn('TERSE_MIN_BYTES="64KG": it must be a number of bytes', err)
        self.assertEqual(terse("run", "--trace", "200000", "true"),
                         (1, "", 'terse: TERSE_TRACE="200000": it must be 0 to 100000 calls\n'))
        self.assertEqual(terse("run", "true", TERSE_LOG="loud"),
                         (1, "", 'terse: TERSE_LOG="loud": it must be off, error, warn, info or '
                                 "trace\n"))
        code, _, err = terse("run", "--report", "of-%j", "true")
        self.assertEqual(code, 1)
        self.assertIn('of-%j": %j is none of %r rank, %p pid, %h host and %% a percent sign', err)

    def test_the_largest_plans_take_no_time_worth_mentioning(self):
        for words in (["plan", "allreduce", "--ranks", "65536"],
                      ["explain", "--scheme", "int8", "--bytes", "64G", "--ranks", "4096", "--nodes",
                       "512", "--bandwidth", "400gbit"]):
            self.assertEqual(terse(*words)[0], 0, words)

    def test_a_plan_may_be_fused(self):
        _, out, _ = terse("plan", "reducescatter", "--count", "1000", "--ranks", "2", "--fused")
        self.assertIn("fused ReduceScatter: 1 kernel, 1 flag to each peer, areas of 2176 B pushed", out)
        _, out, _ = terse("plan", "--ranks", "4", "--nodes", "2", "--fused")
        self.assertTrue(out.endswith("\nnot fused, for its ranks are on 2 nodes\n"), out)

    def test_a_plan_is_that_of_the_nodes(self):
        for nodes, first in ((1, "two-shot AllReduce (a large message: bytes count)"),
                             (2, "hierarchical AllReduce (2 nodes of 4 ranks: the fewest bytes between "
                                 "them)")):
            code, out, _ = terse("plan", "--ranks", "8", "--nodes", str(nodes))
            self.assertEqual((code, out.splitlines()[0]), (0, first))

    def test_help_is_no_error_and_lists_the_exit_statuses(self):
        for words in (["--help"], ["run", "--help"], ["--version"]):
            code, out, err = terse(*words)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("terse", out.lower() + " terse" if "run" in words else out)
        self.assertIn("127", terse("--help")[1])

    # Also what only fails when it ends.
    def test_output_that_cannot_be_written_is_a_failure(self):
        for words in (["schemes"], ["presets"], ["completion", "bash"], ["scheme", "int8"], ["--help"],
                      ["--version"], ["--man"]):
            with self.subTest(words), open("/dev/full", "wb") as full:
                done = subprocess.run([TERSE, *words], env=environment(), text=True, stdout=full,
                                      stderr=subprocess.PIPE, check=False, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (
                    1, "terse: cannot write standard output: No space left on device\n"))


class Run(unittest.TestCase):
    UNSEEN = "has made no NCCL communicator that terse saw, in any process on this machine, the only one"

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = os.path.realpath(scratch.name)
        self.nccl = self.folder + "/libnccl.so.2"
        with open(self.nccl, "wb"):
            pass

    def run_dry(self, *words, **settings):
        """What is preloaded behind terse's own library, what else is set, and what is said."""
        code, out, err = terse("run", *words, "--dry-run", "true", **settings)
        self.assertEqual(code, 0, err)
        preloaded, *others = [line.removeprefix("export ") for line in out.splitlines()[:-1]
                              if not line.startswith("export PYTHONPATH=")]
        return preloaded.split(":")[1:], others, err

    def test_rules_that_cannot_be_meant(self):
        warning = "warning: rule 2 leaves no call native that rule 1 compresses"
        self.assertIn(warning, self.run_dry("--scheme", "int8; allgather -> off")[2])
        self.assertNotIn("warning", self.run_dry("--scheme", "int8; bytes=..4K -> off")[2])
        code, _, err = terse("explain", "--scheme", "int8; allgather -> off")
        self.assertEqual(code, 0)
        self.assertIn(warning, err)

    def test_the_first_folder_that_takes_it_has_what_is_put_in_front(self):
        home, temporary = self.folder + "/home", self.folder + "/temporary"
        own = f"terse-{os.getuid()}"
        os.makedirs(self.folder + "/foreign/.cache/terse")
        os.chmod(self.folder + "/foreign/.cache/terse", 0o777)  # also where this is not root
        if os.geteuid() == 0:
            os.chown(self.folder + "/foreign/.cache/terse", 1, 1)
        for cache, whose, place in (
                (self.folder + "/cache", home, self.folder + "/cache/terse"),
                ("", home, home + "/.cache/terse"),
                ("cache", home, home + "/.cache/terse"),
                ("/dev/null", home, home + "/.cache/terse"),
                (self.folder + "/a b", home, home + "/.cache/terse"),
                (self.folder + "/a:b", home, home + "/.cache/terse"),
                ("", "/dev/null", f"{temporary}/{own}"),
                ("", self.folder + "/a b", f"{temporary}/{own}"),
                ("", self.folder + "/foreign", f"{temporary}/{own}")):
            with self.subTest(cache=cache, home=whose):
                front, _, err = self.run_dry("--nccl", self.nccl, XDG_CACHE_HOME=cache, HOME=whose,
                                             TMPDIR=temporary)
                self.assertEqual(err, "")
                self.assertRegex(front[0], rf"^{re.escape(place)}/facade-[0-9a-f]{{16}}/libnccl.so.2$")
                self.assertTrue(os.path.exists(front[0]))
                self.assertEqual(os.stat(place).st_mode & 0o777, 0o700)

    def test_where_none_takes_it_terse_does_without_and_says_so(self):
        nowhere = {"XDG_CACHE_HOME": "/dev/null", "HOME": "/dev/null"}
        own = f"terse-{os.getuid()}"
        os.mkdir(f"{self.folder}/{own}")
        os.chmod(f"{self.folder}/{own}", 0o777)
        for temporary, why in (("/dev/null", f"/dev/null/{own}: Not a directory"),
                               (self.folder, f"{self.folder}/{own} is not a folder of this user's "
                                             "alone")):
            front, others, err = self.run_dry("--nccl", self.nccl, TMPDIR=temporary, **nowhere)
            self.assertEqual((front, others), ([], [DEFAULT_RULES, f"TERSE_NCCL={self.nccl}"]))
            self.assertRegex(err, "^terse: no libnccl.so.2 can be put in front .*stay native.* "
                                  "XDG_CACHE_HOME names a folder for it\n$")
            self.assertIn("/dev/null/terse: Not a directory; /dev/null/.cache/terse: Not a directory; "
                          + why, err)
            self.assertEqual(self.run_dry("--nccl", self.nccl, "--no-facade", TMPDIR=temporary,
                                          **nowhere)[2], "")

    def test_a_name_that_the_linker_looks_for_stays_one(self):
        self.assertEqual(self.run_dry(TERSE_NCCL="libnccl.so.2"), ([], [DEFAULT_RULES], ""))

    def test_the_option_is_a_path_also_without_a_slash(self):
        for own in {}, {"TERSE_NCCL": "libnccl.so.2"}:
            self.assertEqual(terse("run", "--nccl", "libncl.so.2", "true", **own),
                             (1, "", "terse: there is no libncl.so.2\n"))
        done = subprocess.run([TERSE, "run", "--nccl", "libnccl.so.2", "--no-facade", "--dry-run",
                               "true"], cwd=self.folder, env=environment(), text=True,
                              capture_output=True, check=True, timeout=60)
        self.assertIn(f"\nexport TERSE_NCCL={self.nccl}\n", done.stdout)

    def test_what_every_rank_reads_is_no_pipe(self):
        pipe = self.folder + "/pipe"
        os.mkfifo(pipe)
        error = (f"terse: {{}}: {pipe} is a pipe, which can be read once, not by each of the program's "
                 "ranks: write it to a file\n")
        for name in "--policy", "--profile":
            self.assertEqual(terse("run", name, pipe, "true"), (1, "", error.format(name)))
        # Also of a variable whose place an option takes.
        for name, words in (("TERSE_POLICY", []), ("TERSE_PROFILE", []),
                            ("TERSE_POLICY", ["--scheme", "int8"]),
                            ("TERSE_PROFILE", ["--profile", "a100-8x-100gbit"])):
            with self.subTest(name=name, words=words):
                self.assertEqual(terse("run", *words, "true", **{name: pipe}),
                                 (1, "", error.format(name)))

    def test_a_percent_sign_of_the_working_directory_is_one(self):
        place = self.folder + "/50%r"
        os.mkdir(place)
        for report, set_to in (("out", "50%%r/out"), ("out/%h", "50%%r/out/%h"), ("a%%b", "50%%r/a%%b")):
            done = subprocess.run([TERSE, "run", "--report", report, "--dry-run", "true"], cwd=place,
                                  env=environment(), text=True, capture_output=True, check=True,
                                  timeout=60)
            self.assertIn(f"\nexport TERSE_REPORT={self.folder}/{set_to}\n", done.stdout)

    def test_reports_need_a_folder(self):
        file = self.nccl
        for report in file, file + "/below", file + "/%h/below":
            for dry in [], ["--dry-run"]:
                self.assertEqual(terse("run", "--report", report, *dry, "--", "true"),
                                 (1, "", f"terse: --report: {file} is no folder\n"))
        self.assertEqual(terse("run", "--report", self.folder + "/not/yet", "--dry-run", "--", "true")[0],
                         0)
        self.assertFalse(os.path.exists(self.folder + "/not"))

    def test_words_may_be_long(self):
        for word in "a" * 100_000, "it's " * 20_000:
            code, out, err = terse("run", "--dry-run", "--", "true", word)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(shlex.split(out.splitlines()[-1]), ["true", word])

    def checked(self, *words, **settings):
        code, _, err = terse("run", *words, ASAN_OPTIONS="detect_leaks=0", **settings)
        self.assertEqual(code, 0, err)
        return err

    def test_a_log_asks_for_the_check_whatever_else_is_said(self):
        for words in ([], ["--nccl", self.nccl, "--no-facade"]):
            self.assertIn(self.UNSEEN, self.checked(*words, "true", TERSE_LOG="info"))
            self.assertNotIn(self.UNSEEN, self.checked(*words, "true", TERSE_LOG="warn"))

    def test_the_check_takes_another_folder_where_tmpdir_names_none(self):
        code, out, err = terse("run", "--log", "info", "--", "echo", "hi", TMPDIR="/nosuch",
                               ASAN_OPTIONS="detect_leaks=0")
        self.assertEqual((code, out), (0, "hi\n"), err)
        self.assertIn(self.UNSEEN, err)

    def test_ranks_elsewhere_are_known_by_their_reports(self):
        reports = self.folder + "/reports"
        for words, settings in ((["--report", reports], {}), (["--check"], {"TERSE_REPORT": reports})):
            for name, unseen in (("rank0.json", False), ("rank0.txt", True)):
                write = f"mkdir -p {reports} && echo $$ > {reports}/{name}"
                said = self.checked(*words, "sh", "-c", write, **settings)
                self.assertEqual(self.UNSEEN in said, unseen, (words, name))


class Explain(unittest.TestCase):
    maxDiff = None

    def says(self, text, *words, **settings):
        self.assertEqual(terse("explain", *words, **settings), (0, text, ""))

    def test_a_call_between_nodes(self):
        self.says("""\
call       reducescatter, 64 MiB (67108864 B), float32, sum, 8 ranks on 2 nodes, communicator "dp", on CPUs (--gpu: on GPUs)
no match   rule 1 (line 22), by its name: name=mesh_tp* -> off
no match   rule 2 (line 27), by its name: name=*TENSOR* -> off
no match   rule 3 (line 33), by its collective: allgather dtype=float16,bfloat16 bytes=1M.. \
nodes=2.. -> minmax8:block=1024,round=shift
rule       rule 4 (line 41): allreduce,reducescatter dtype=float32 bytes=1M.. nodes=2.. -> \
int4:block=128,round=stochastic
scheme     int4:block=128,round=stochastic, 4.25 bits an element: 1/7.529 of fp32, 1/3.765 of fp16 \
and bf16
algorithm  hierarchical ReduceScatter: 2 nodes of 4 ranks: the fewest bytes between them
plan       66 steps, 18 of them exchanges, scratch 2.924 MiB (3065856 B)
a rank     sends 7.438 MiB (7798784 B) in place of 56 MiB (58720256 B): 1/7.529
a node     sends 4.25 MiB (4456448 B) to others in place of 56 MiB (58720256 B): 1/13.18
each node's link, shared by 4 ranks at 10gbit: 4.25 MiB (4456448 B) in 3.57 ms, native 56 MiB \
(58720256 B) in 47 ms: 13.2x
These times are bounds: bytes over bandwidth, without the codec's time and without latency.

algorithm      rounds  peers     within the busiest node                   out of it
hierarchical        2      4       25.5 MiB (26738688 B)        4.25 MiB (4456448 B)  3.57 ms  taken
direct              1      7      12.75 MiB (13369344 B)         17 MiB (17825792 B)  14.3 ms
native                             168 MiB (176160768 B)         56 MiB (58720256 B)  47 ms
""", "--collective", "reducescatter", "--dtype", "fp32", "--ranks", "8", "--nodes", "2", "--name",
                  "dp", "--policy", EXAMPLES + "/policy.toml", "--bandwidth", "10gbit")

    def test_a_call_with_a_tag(self):
        for tag, said in (("16", ", tag 16"), ("0x10", ", tag 16"), ("0", "")):
            code, out, err = terse("explain", "--scheme", "tag=0x10..0x1f -> off", "--tag", tag)
            first, *others = out.splitlines()
            self.assertEqual((code, err, first), (
                0, "", "call       allreduce, 64 MiB (67108864 B), float32, sum, 8 ranks on 1 node" + said +
                ", on CPUs (--gpu: on GPUs)"))
            self.assertEqual(others, [
                "rule       rule 1: tag=16..31 -> off", "native     the rule says off"] if said else [
                "no match   rule 1, by its tag: tag=16..31 -> off",
                "rule       none matches", "native     no rule asks for compression"])
        wrong_usage(self, "--tag: x: not a tag such as 7 or 0x100", "explain", "--tag", "x")

    def test_each_rank_has_a_link_on_one_node(self):
        self.says("""\
call       allreduce, 1 MiB (1048576 B), bfloat16, avg, 4 ranks on 1 node, on CPUs (--gpu: on GPUs)
no match   rule 1, by its collective: allgather dtype=float32 -> off
no match   rule 1, by its collective: allgather bytes=usual.. -> minmax8:block=1024,round=shift
rule       rule 1: allreduce,reducescatter bytes=usual.. -> minmax8:block=1024,round=stochastic \
(preset qsdp)
scheme     minmax8:block=1024,round=stochastic, 8.062 bits an element: 1/3.969 of fp32, 1/1.984 of \
fp16 and bf16
algorithm  two-shot AllReduce: a large message: bytes count
plan       6 steps, 2 of them exchanges, scratch 1.01 MiB (1058816 B)
fused      in place of these, where a rank can share 1.25 MiB (1310720 B)
a rank     sends 774 KiB (792576 B) in place of 1.5 MiB (1572864 B): 1/1.984
each rank's link at 400mbit: 774 KiB (792576 B) in 15.9 ms, native 1.5 MiB (1572864 B) in 31.5 ms: \
1.98x
These times are bounds: bytes over bandwidth, without the codec's time and without latency.
""", "--dtype", "bf16", "--op", "avg", "--ranks", "4", "--bytes", "1M", "--bandwidth", "400mbit",
                  TERSE_SCHEME="qsdp")

    def test_what_a_preset_leaves_native_and_which_variant_does_not(self):
        words = ("--collective", "allgather", "--dtype", "fp32", "--ranks", "4")
        _, out, _ = terse("explain", *words, TERSE_SCHEME="safe")
        self.assertIn("rule       rule 1: allgather dtype=float32 -> off (the preset safe leaves "
                      "AllGather in fp32 native, and safe-fsdp32 compresses it)\n", out)
        _, out, _ = terse("explain", *words, TERSE_SCHEME="safe-fsdp32")
        self.assertIn("minmax8:block=128,round=shift,own=exact (preset safe-fsdp32)\n", out)

    # Whatever the type and the scheme: two levels, or NCCL itself.
    def test_ranks_that_share_a_link_never_send_more_than_native(self):
        for ranks, nodes in (("16", "2"), ("64", "8"), ("9", "2")):
            for dtype, schemes in (("fp32", ("int8", "int4", "bf16")), ("bf16", ("int8", "int4"))):
                for scheme in schemes:
                    _, out, _ = terse("explain", "--ranks", ranks, "--nodes", nodes, "--dtype",
                                      dtype, "--scheme", scheme)
                    rows = [line for line in out.splitlines() if line.endswith("taken")]
                    sent, native = (int(re.search(r"\((\d+) B\)", row)[1])
                                    for row in (rows[0], out.splitlines()[-1]))
                    self.assertLessEqual(sent, native, out)

    def test_more_between_nodes_than_native_is_only_for_who_asks(self):
        words = ["--ranks", "16", "--nodes", "2", "--dtype", "bf16"]
        _, out, _ = terse("explain", *words, "--scheme", "int8:algo=twoshot")
        self.assertIn("a node     sends 264 MiB (276824064 B) to others in place of 120 MiB "
                      "(125829120 B): 2.2 times as much as native\n", out)
        self.assertRegex(out, r"\ntwoshot .*  taken\n")
        # Nor for who asks for an algorithm that cannot be taken: these nodes are not alike.
        _, out, _ = terse("explain", "--ranks", "63", "--nodes", "8", "--scheme",
                          "int8:algo=hierarchical")
        self.assertRegex(out, r"\nnative .*  taken\n?$")
        _, out, _ = terse("explain", "--ranks", "9", "--nodes", "2", "--scheme", "int8", "--bytes",
                          "64K", "--dtype", "bf16")
        self.assertIn("native     NCCL sends less between nodes: only a scheme that names its "
                      "algorithm (algo=) has it compressed\n", out)
        self.assertRegex(out, r"\nnative .*  taken\n$")

    def test_the_first_node_sends_whatever_the_call(self):
        for name, native in (("allgather", "57.6"), ("alltoall", "153.6"), ("broadcast", "64"),
                             ("reduce", "64"), ("gather", "25.6"), ("scatter", "38.4")):
            _, out, _ = terse("explain", "--scheme", f"{name} -> int8", "--collective", name,
                              "--ranks", "10", "--nodes", "3")  # 4, 3 and 3
            self.assertRegex(out, rf"\na node .* in place of {native} MiB .*: 1/[13]\.\d+\n", name)

    def test_messages_and_rooted_calls_are_seen_from_a_rank_that_sends(self):
        for name in ("sendrecv", "gather", "reduce", "scatter", "broadcast", "alltoall"):
            code, out, err = terse("explain", "--scheme", f"{name} -> int8", "--collective", name)
            self.assertEqual((code, err), (0, ""))
            self.assertIn(" in place of ", out, name)
            self.assertIn(": 1/3.879\n", out, name)

    def test_calls_that_stay_native_say_why(self):
        rule = "rule       rule 1: bytes=usual.. -> int8:block=128,round=nearest\n"
        call = "call       allreduce, 64 MiB (67108864 B), {}, 8 ranks on 1 node, on CPUs (--gpu: on GPUs)\n"
        for words, text in (
                ("--dtype int32", call.format("int32, sum") + rule +
                 "native     only float32, float16 and bfloat16 are compressed\n"),
                ("--op max", call.format("float32, max") + rule +
                 "native     only sum, avg and PreMulSum are compressed\n"),
                ("--ranks 1", call.format("float32, sum").replace("8 ranks", "1 rank") + rule +
                 "native     there is one rank, and nothing to send\n"),
                ("--bytes 65532", """\
call       allreduce, 65532 B, float32, sum, 8 ranks on 1 node, on CPUs (--gpu: on GPUs)
no match   rule 1, by its bytes: bytes=usual.. -> int8:block=128,round=nearest (usual: 64K or more)
rule       none matches
native     the message is smaller than the rules ask for
"""),
                ("--bytes 4M --gpu", """call       allreduce, 4 MiB (4194304 B), float32, sum, 8 ranks on 1 node, on GPUs (--cpu: on CPUs)
no match   rule 1, by its bytes: bytes=usual.. -> int8:block=128,round=nearest (usual: 8M or more)
rule       none matches
native     the message is smaller than the rules ask for
""")):
            self.says(text, "--scheme", "int8", *words.split())
        code, out, err = terse("explain", "--scheme", "int4:intra=off", "--op", "premulsum",
                               "--nodes", "2")
        self.assertEqual((code, out.splitlines()[2:], err), (0, [
            "native     with intra=off PreMulSum is NCCL's: a neighbour would multiply by its own "
            "number"], ""))
        rules = "rules      those of terse run: nodes=2.. -> safe\n"
        passed = "".join(f"no match   rule 1, by its {key}: {rule}\n" for key, rule in (
            ("collective", "allgather dtype=float32 nodes=2.. -> off"),
            ("collective", "allgather bytes=usual.. nodes=2.. -> minmax8:block=128,round=shift"),
            ("nodes", "allreduce,reducescatter bytes=usual.. nodes=2.. -> "
                      "int8:block=64,round=stochastic,scale=bf16")))
        self.says(rules + call.format("float32, sum") + passed + "rule       none matches\n"
                  "native     no rule asks for compression\n")
        self.says(call.format("float32, sum") + "rule       rule 1: allreduce -> off\n"
                  "native     the rule says off\n", "--scheme", "allreduce -> off; int8")

    def test_bytes_are_whole_elements_on_each_rank(self):
        _, out, _ = terse("explain", "--collective", "allgather", "--ranks", "3", "--bytes", "1M",
                          "--scheme", "int8")
        self.assertIn(" 1048572 B, ", out.splitlines()[0])

    def test_a_size_is_rounded_nowhere(self):
        for given, text in (("1536M", "1.5 GiB (1610612736 B)"), ("1028", "1028 B"),
                            ("10G", "10 GiB (10737418240 B)"), ("65537K", "67109888 B"),
                            ("1000", "1000 B"), ("129K", "129 KiB (132096 B)")):
            _, out, _ = terse("explain", "--bytes", given)
            self.assertIn(f"allreduce, {text}, float32", out)

    def test_errors(self):
        for words, status, error in (
                (["--scheme", "int8; allreduce btyes=1M.. -> int4"], 1,
                 'terse: --scheme: column 17: unknown key "btyes"; did you mean "bytes"?\n'),
                (["--policy", "/nowhere/p.toml"], 1,
                 "terse: /nowhere/p.toml cannot be read: No such file or directory\n"),
                (["--policy", "/dev/zero"], 1,
                 "terse: /dev/zero is neither a file nor a pipe\n")):
            with self.subTest(words):
                code, _, err = terse("explain", *words)
                self.assertEqual((code, err), (status, error))

    def test_a_message_takes_its_time_on_the_link(self):
        code, out, err = terse("explain", "--scheme", "sendrecv -> int4", "--collective", "sendrecv",
                               "--nodes", "2", "--bandwidth", "10gbit")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("each rank's link at 10gbit: 8.5 MiB (8912896 B) in 7.13 ms, native 64 MiB "
                      "(67108864 B) in 53.7 ms: 7.53x\n", out)
        self.assertEqual(terse("explain", "--bandwidth", "1e-320kbit")[0], 2)

    def test_a_rate_is_read_also_where_nothing_is_compressed(self):
        rate = "not a rate such as 1gbit, 2.5gbit or 400mbit"
        for more in (["--scheme", "int8"], ["--scheme", "off"], []):
            for text in ("10GB", "10gb", "10", "gbit", "-1gbit", "0gbit", "inf", "1e308gbit",
                         "1e999gbit"):
                wrong_usage(self, f"--bandwidth: {text}: {rate}", "explain", "--bandwidth=" + text,
                            *more)

    def test_settings_that_cannot_be_read_are_an_error(self):
        code, _, err = terse("explain", TERSE_SCHEME="int99")
        self.assertEqual(code, 1)
        self.assertIn('TERSE_SCHEME="int99": column 1: ', err)
        code, _, err = terse("explain", TERSE_SCHEME="int8", TERSE_POLICY="x")
        self.assertEqual((code, err), (
            1, "terse: TERSE_POLICY and TERSE_SCHEME are both set; rules come from one\n"))


class Others(unittest.TestCase):
    def test_scheme_of_a_bare_scheme(self):
        self.assertEqual(terse("scheme", "int8"), (0, """\
int8:block=128,round=nearest
8.25 bits an element: 1/3.879 of fp32, 1/1.939 of fp16 and bf16
""", ""))
        self.assertEqual(terse("scheme", "off"), (0, "off\n", ""))

    def test_scheme_of_rules(self):
        self.assertEqual(terse("scheme", "allgather -> off; int8; allreduce -> cgx"), (0, """\
rule 1: allgather -> off
rule 2: bytes=usual.. -> int8:block=128,round=nearest
rule 3: allreduce bytes=usual.. -> minmax4:block=1024,round=stochastic   (preset cgx)
warning: rule 3 is never reached: rule 2 takes all of its calls
""", ""))

    def test_output_is_as_wide_as_the_terminal(self):
        for words in (["presets"], ["settings"], ["schemes"], ["--help"], ["explain", "--help"]):
            for columns, widest in (("60", 60), ("nonsense", 100), (None, 100)):
                _, out, _ = terse(*words, COLUMNS=columns)
                wide = [line for line in out.splitlines() if len(line) > widest]
                # Words that are as wide are not broken.
                self.assertEqual([line for line in wide if " " in line.strip()], [], words)
        self.assertEqual(terse("presets", COLUMNS="60")[1].splitlines()[:4], """\
safe  8 bits, unbiased everywhere, small blocks: an outlier
      spoils no more than 63 gradients
  off  native
    allgather dtype=float32""".splitlines())

    def test_presets_are_usable(self):
        code, out, _ = terse("presets")
        self.assertEqual(code, 0)
        table, note = out.split("\n\n")
        names = [line.split()[0] for line in table.splitlines() if not line.startswith(" ")]
        self.assertEqual(names, [
            "safe", "safe-fsdp32", "fast", "fast-fsdp32", "qsdp", "qsdp-fsdp32", "qsdp-w6g4",
            "qsdp-w6g4-fsdp32", "qsdp-w4g4", "qsdp-w4g4-fsdp32", "cgx", "ncclx", "fp32-sums", "sdp4bit",
            "sdp4bit-zero32", "sdp4bit-fsdp", "sdp4bit-fsdp32", "sdp4bit-flat4",
            "sdp4bit-flat4-fsdp32", "sdp4bit-flat8", "sdp4bit-flat8-fsdp32", "zeropp",
            "zeropp-fsdp32", "global-qsgd", "global-qsgd-exp"])
        for name in names:
            self.assertEqual(terse("scheme", name)[0], 0)
        self.assertIn("Leave Broadcast native where it hands out weights", note)

    def test_explains_by_the_profile_nearest_to_a_device(self):
        call = ("explain", "--dtype", "bf16", "--ranks", "64", "--nodes", "8", "--bytes", "256M")
        code, out, err = terse(*call, "int4", "--device", "h100", "--network", "400gbit")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("64 ranks on 8 nodes, on GPUs", out)
        self.assertRegex(out, r'predicted  \S+ ms in place of \S+ ms, [2-9]\.\d\d times as fast as native, '
                              r'by the profile "h100-8x-3200gbit at 400 Gbit/s", the nearest to H100\n')
        # By its own network a preset leaves native what gains little.
        _, out, _ = terse(*call[:-1], "8M", "safe", "--device", "H100")
        self.assertIn("native     nothing is predicted to be 10 % faster", out)
        _, out, _ = terse(*call, "auto", "--device", "B200")
        self.assertIn('by the profile "b200-8x-6400gbit", which models them', out)
        wrong_usage(self, "--device GTX 1080: no built-in profile is of such GPUs on 8 nodes (terse forecast "
                          "--list)", *call, "int8", "--device", "GTX 1080")
        wrong_usage(self, "--network requires --device", *call, "--network", "400gbit", "--gpu")
        wrong_usage(self, "--gpu excludes --cpu", *call, "--cpu", "--gpu")
        wrong_usage(self, "--device excludes --profile", *call, "--device", "H100", "--profile", "h100-8x-3200gbit")

    def test_explains_for_what_the_build_is_for(self):
        module = os.path.join(os.path.dirname(os.path.dirname(TERSE)), "lib", "libterse_cuda.so")
        out = subprocess.run([TERSE, "explain", "int8"], env=environment(), text=True, capture_output=True,
                             timeout=60, check=True).stdout
        self.assertIn("on GPUs (--cpu" if os.path.exists(module) else "on CPUs (--gpu", out)

    def test_options_precede_the_profile_of_the_environment(self):
        call = ("explain", "int4", "--dtype", "bf16", "--ranks", "64", "--nodes", "8", "--bytes", "256M")
        profile = {"TERSE_PROFILE": "h100-8x-3200gbit"}
        self.assertIn('by the profile "h100-8x-3200gbit"\n', terse(*call, "--gpu", **profile)[1])
        self.assertIn("the nearest to B200", terse(*call, "--device", "B200", **profile)[1])
        on_cpus = terse(*call, "--cpu", **profile)[1]
        self.assertIn("on CPUs", on_cpus)
        self.assertNotIn("predicted", on_cpus)

    def test_a_policy_without_rules_is_worth_a_word(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/policy.toml"
            for text in ("", "# later\n"):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                code, _, err = terse("settings", TERSE_POLICY=path)
                self.assertEqual(code, 0)
                self.assertRegex(err, rf"^[^:]+:\d+:\d+ terse WARN {path} has no rules: nothing "
                                      r"is compressed\n$")
            with open(path, "w", encoding="utf-8") as f:
                f.write('[[rule]]\nscheme = "off"\n')
            self.assertEqual(terse("settings", TERSE_POLICY=path)[::2], (0, ""))

    def test_settings_lists_the_rules_and_warns_of_strangers(self):
        code, out, err = terse("settings", TERSE_SCHEME="int8; int4", TERSE_SCHEMES="x")
        self.assertEqual(code, 0)
        self.assertIn("rule 1: bytes=usual.. -> int8:block=128,round=nearest\n", out)
        self.assertIn("warning: rule 2 is never reached", out)
        self.assertIn("unknown variable TERSE_SCHEMES; did you mean TERSE_SCHEME?\n", err)
        for level in ("off", "error", "warn", "info"):
            err = terse("settings", TERSE_SCHEMES="x", TERSE_LOG=level)[2]
            self.assertEqual(err.count("unknown variable TERSE_SCHEMES; did you mean"), 1, level)
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = terse("settings", TERSE_POLICY=folder)
            self.assertEqual((code, err), (1, f'terse: TERSE_POLICY="{folder}": {folder} cannot be '
                                              "read: Is a directory\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
