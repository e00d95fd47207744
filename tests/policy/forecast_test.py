"""What is predicted by profiles: forecast_test.py TERSE EXAMPLES

The machine is one whose times can be added up by hand. Of 1 MiB of float32, 262144 elements, in one
chunk:

    natively on two ranks             2 x 1 ms, and 1 MiB at 10 MiB/s: 102 ms
    natively on two nodes of two      2 x (1 + 10 ms), and 1.5 MiB at 1 MiB/s: 1.522 s
    int8 on two ranks, one-shot       1 ms; 264 KiB at 10 MiB/s: 25.78 ms; 1 ms to encode, 1 ms to
                                      decode those of both: 28.78 ms
    linear8 on two ranks, summed      2 x 2 ms; 260 KiB at 10 MiB/s: 25.39 ms; 1 ms and 0.5 ms: 30.89 ms
    int8 on two nodes, hierarchical   2 x (1 + 10 ms); four shards of 66 KiB out of a node: 257.8 ms;
                                      four of a rank within it, before and after: 25.8 ms; 5/4 ms to
                                      encode, 1 ms to decode: 307.9 ms"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

from cli_test import TERSE, environment, terse, wrong_usage

PROFILE = """\
name = "tiny"
source = "by hand"
node_ranks = 2

[within]
latency = 0.001
bandwidth = 10485760

[between]
latency = 0.01
bandwidth = 1048576

[coding]
encode = 262144000
decode = 524288000
"""

HINT = ("set TERSE_PROFILE to a file that `terse tune` has written, or to one of those that `terse "
        "forecast --list` names")


class InAFolder(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.profile = self.write("tiny.toml", PROFILE)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def output(self, *words, **settings):
        code, out, err = terse(*words, **settings)
        self.assertEqual((code, err), (0, ""), words)
        return out

    def fails(self, error, *words, **settings):
        code, out, err = terse(*words, **settings)
        self.assertEqual((code, out, err), (1, "", f"terse: {error}\n"), words)


class Calls(InAFolder):
    def forecast(self, *words):
        return self.output("forecast", "--profile", self.profile, *words)

    def test_profiles_are_listed_and_can_be_used(self):
        lines = self.output("forecast", "--list").splitlines()
        names = [line.split()[0] for line in lines]
        self.assertIn("a100-8x-100gbit", names)
        for name, line in zip(names, lines):
            self.assertRegex(line, r"^\S+ +\S+ \S+.*")
            out = self.output("forecast", "--profile", name, "--ranks", "8", "--bytes", "1M")
            self.assertIn(f"profile    {name}: ", out)

    def test_by_sizes(self):
        self.assertEqual(
            self.forecast("--ranks", "2,4", "--bytes", "1M,4M", "--schemes", "int8,linear8"), """\
profile    tiny: by hand

allreduce, float32, 2 ranks on 1 node, by tiny

     bytes              native                int8             linear8
        1M              102 ms     28.8 ms   3.54x     30.9 ms   3.30x
        4M              402 ms      106 ms   3.79x      107 ms   3.75x

allreduce, float32, 4 ranks on 2 nodes, by tiny

     bytes              native                int8             linear8
        1M              1.52 s      308 ms   4.94x      426 ms   3.57x
        4M              6.02 s      1.08 s   5.57x      1.57 s   3.84x
""")

    # Encoding takes longer than all that NCCL does.
    def test_what_a_named_scheme_loses_too_much_with_stays_native(self):
        slow = PROFILE.replace("262144000", "1310720").replace("524288000", "2621440")
        self.profile = self.write("slow.toml", slow)
        words = ("--ranks", "2", "--bytes", "1M", "--node-ranks", "1")
        # 2 x 10 ms, and 1 MiB at 1 MiB/s; 10 ms, a quarter of that, 200 ms to encode and to decode.
        out = self.forecast(*words, "--schemes", "int8,int8:algo=oneshot")
        self.assertIn("        1M              1.02 s      668 ms   1.53x      668 ms   1.53x\n", out)
        self.profile = self.write("slower.toml", slow.replace("1310720", "131072"))
        out = self.forecast(*words, "--schemes", "int8,int8:algo=oneshot")
        self.assertRegex(out, r"\n        1M +1\.02 s +native \(0\.\d\dx\) +2\.\d\d s +0\.\d\dx\n")
        call = ("explain", "--profile", self.profile, "--ranks", "2", "--nodes", "2", "--bytes", "1M")
        _, out, _ = terse(*call, "--scheme", "int8")
        self.assertIn("native     native is predicted to be faster: only a scheme that names its "
                      "algorithm (algo=) has it compressed\n", out)
        self.assertRegex(out, r"\nnative .* taken\n")
        _, out, _ = terse(*call, "--scheme", "int8:algo=oneshot")
        self.assertNotIn("predicted to be faster", out)

    # 12 ms to start and to signal, in place of the steps' 1 ms.
    def test_calls_of_one_node_are_fused(self):
        self.profile = self.write("fused.toml", PROFILE + """
[fused]
launch = 0.01
flag = 0.002
bandwidth = 10485760
overlap = 0
""")
        words = ("--ranks", "2", "--bytes", "1M", "--schemes", "int8")
        fused = self.forecast(*words)
        self.assertIn("\nfused      calls of up to 16 ranks on one node (TERSE_FUSE=off: in steps)\n", fused)
        self.assertIn("        1M              102 ms     39.8 ms   2.56x\n", fused)
        _, steps, _ = terse("forecast", "--profile", self.profile, *words, TERSE_FUSE="off")
        self.assertIn("        1M              102 ms     28.8 ms   3.54x\n", steps)
        simulated = self.forecast("--simulate", *words)
        self.assertNotIn("\nfused ", simulated)
        self.assertIn("        1M              102 ms     28.8 ms   3.54x\n", simulated)
        call = ("explain", "--profile", self.profile, "--ranks", "2", "--bytes", "1M")
        _, out, _ = terse(*call, "--scheme", "int8")
        self.assertIn("predicted  39.8 ms in place of 102 ms, 2.56 times as fast as native, fused, by", out)
        _, out, _ = terse(*call, "--scheme", "auto:bits=8")
        self.assertRegex(out, r"\n +39\.8 ms +2\.56x  int8:\S+  fused  taken\n")

    def test_fused_calls_of_gpus_gain_from_a_smaller_size_on(self):
        call = ("explain", "--profile", "l40s-8x-pcie", "--ranks", "8", "--bytes", "32K", "--scheme", "int8")
        for fuse, usual in (("auto", "8M or more"), ("on", "64K or more where fused, by an estimate")):
            _, out, _ = terse(*call, TERSE_FUSE=fuse)
            self.assertIn(f"bytes=usual.. -> int8:block=128,round=nearest (usual: {usual})\n", out)

    def test_by_ranks(self):
        self.assertEqual(
            self.forecast("--ranks", "2,4", "--bytes", "1M", "--schemes", "int8"), """\
profile    tiny: by hand

allreduce of 1M, float32, by tiny

     ranks              native                int8
         2              102 ms     28.8 ms   3.54x
         4              1.52 s      308 ms   4.94x
""")

    # By trees a node of two sends but what a rank has, 1 MiB: in 16 chunks, the first and the last of
    # which wait for others. The shards of int8 go in two chunks, one beside the codes of the other.
    def test_simulated(self):
        words = ("--ranks", "2,4", "--bytes", "1M", "--schemes", "int8")
        self.assertEqual(self.forecast("--simulate", *words), """\
profile    tiny: by hand
simulated  all ranks and their links, in steps, beside what the model predicts

allreduce of 1M, float32, by tiny

     ranks              native                int8
         2              102 ms     28.8 ms   3.54x
         4              1.52 s      308 ms   4.94x

allreduce of 1M, float32, by tiny, simulated

     ranks              native                int8
         2              102 ms     27.9 ms   3.66x
         4              1.03 s      306 ms   3.37x
""")
        self.assertIn("\nalltoall of 1M, float32, by tiny, simulated but for native\n",
                      self.forecast("--simulate", "--collective", "alltoall", *words))
        self.profile = self.write("slow.toml", PROFILE.replace("262144000", "1310720"))
        self.assertRegex(self.forecast("--simulate", "--ranks", "2", "--bytes", "1M", "--schemes", "int8"),
                         r", simulated\n\n.*\n +1M +102 ms +native \(0\.\d+x\)\n$")

    def test_too_many_messages_are_not_simulated(self):
        self.fails("16384 ranks have too many messages to be simulated", "forecast", "--profile",
                   self.profile, "--simulate", "--ranks", "16384", "--bytes", "1G", "--collective",
                   "alltoall", "--schemes", "int8")

    # 2 x (1 + 13 x 10 ms), and almost 2 MiB at 1 MiB/s; shards are whole blocks, of which 1 MiB has
    # but 2,048.
    def test_of_many_ranks(self):
        out = self.forecast("--ranks", "16384", "--bytes", "1M,1G", "--schemes", "int8")
        self.assertIn("16384 ranks on 8192 nodes", out)
        self.assertRegex(out, r"\n +1M +2\.26 s +1\.\d+ s +1\.\d+x\n")
        # A quarter of the bytes, and the latencies of 8192 nodes.
        gain = float(re.search(r"\n +1G +[\d.e+]+ s +[\d.]+ s +([\d.]+)x\n", out)[1])
        self.assertTrue(2 < gain < 4, out)

    # Where a root receives, a plan is made for each rank of a node.
    def test_of_many_ranks_on_a_node(self):
        many = ("--ranks", "16384", "--node-ranks", "2048", "--bytes", "1G", "--schemes", "int8")
        self.assertRegex(self.forecast(*many), r"\n +1G +[\d.e+]+ s +[\d.e+]+ s +[\d.]+x\n")
        wrong_usage(self, "1.074e+09 bytes on 16384 ranks are too much to plan here: ask for less of "
                          "either", "forecast", "--profile", self.profile, "--collective", "reduce", *many)

    def test_nodes_are_full_but_for_the_last_one(self):
        """Of nodes of four and one the fuller one sends 8 shards, 12 of three and two."""
        def seconds(node_ranks):
            out = self.forecast("--ranks", "5", "--node-ranks", node_ranks, "--bytes", "1G",
                                "--schemes", "int8")
            self.assertIn("5 ranks on 2 nodes", out)
            return float(re.search(r"\n +1G +\S+ s +(\S+) s ", out)[1])
        self.assertAlmostEqual(seconds("4") / seconds("3"), 8 / 12, delta=0.03)

    # On sixteen ranks it has codes of 16 bits.
    def test_a_scheme_whose_codes_are_as_wide_as_the_elements_stays_native(self):
        out = self.forecast("--ranks", "16", "--node-ranks", "16", "--bytes", "64M", "--dtype",
                            "float16", "--schemes", "linear8,linear16")
        self.assertRegex(out, r"\n +64M +[\d.]+ s +native +native\n$")

    def test_what_was_measured_is_not_what_is_told(self):
        curve = ('[[measured]]\ncollective = "allreduce"\ndtype = "float32"\nranks = 2\nnodes = 1\n'
                 'scheme = "{}"\npoints = [[1048576, {}]]\n')
        measured = self.write("measured.toml", PROFILE + curve.format("native", 2) +
                              curve.format("int8", 1))
        words = ("--ranks", "2", "--bytes", "1M", "--schemes", "int8")
        said = "measured   is what auto goes by; these times are the model's\n"
        out = self.output("forecast", "--profile", measured, *words)
        self.assertIn(said, out)
        self.assertEqual(out.replace(said, ""), self.forecast(*words))

    def test_chunks_are_of_the_size_that_is_set(self):
        words = ("--profile", self.profile, "--ranks", "2", "--bytes", "64M", "--schemes", "int8")
        self.assertNotEqual(self.output("forecast", *words),
                            self.output("forecast", *words, TERSE_CHUNK_BYTES="64K"))

    # As the call itself is.
    def test_a_scheme_that_is_not_for_so_many_ranks_is_an_error(self):
        error = ('scheme "linear8:block=256,round=stochastic": the sum of 4096 ranks leaves fewer than '
                 "15 levels on a side of zero; no more than 2184 ranks may share a grid")
        many = ("--profile", self.profile, "--ranks", "4096", "--bytes", "64M")
        self.fails(error, "forecast", *many, "--schemes", "linear8")
        self.fails(error, "explain", "--scheme", "linear8", "--ranks", "4096", "--bytes", "64M")
        step = self.write("step.toml", f'profile = "{self.profile}"\nranks = 4096\n' +
                          CALL.replace("int8", "linear8"))
        self.fails(error, "forecast", "--step", step)
        # Which it is not where the collective has no such sums, or where no scheme is named.
        out = self.forecast(*many[2:], "--schemes", "linear8", "--collective", "allgather")
        self.assertRegex(out, r"\n +64M +[\d.]+ s +native\n$")
        self.assertRegex(self.forecast(*many[2:]), r"\n +bytes +native +bf16 +int8 +int4\n")
        self.assertRegex(self.forecast("--ranks", "2184", "--bytes", "64M"), " int4 +linear8\n")

    # Each shard goes from all ranks to all: 1.78 times NCCL's bytes between nodes of eight.
    def test_what_sends_more_between_nodes_than_nccl_stays_native(self):
        words = ("--profile", "a100-8x-100gbit", "--ranks", "64", "--bytes", "64M", "--schemes")
        self.assertRegex(self.output("forecast", *words, "exp8"), r"\n +64M +11\.1 ms +native\n$")
        self.assertRegex(self.output("forecast", *words, "exp8:algo=merged"),
                         r"\n +64M +11\.1 ms +20\.4 ms +0\.55x\n$")

    def test_nodes_have_as_many_ranks_as_is_said(self):
        out = self.forecast("--ranks", "2", "--node-ranks", "1", "--bytes", "1M", "--schemes", "int8")
        self.assertIn("2 ranks on 2 nodes", out)
        self.assertIn("        1M              1.02 s ", out)  # 2 x 10 ms, and 1 MiB at 1 MiB/s

    # A scheme's codes may not do a call, or not for so many ranks.
    def test_what_stays_native_says_so(self):
        words = ["--ranks", "16", "--bytes", "1M", "--dtype", "bf16", "--schemes", "bf16,linear8,int8"]
        self.assertRegex(self.forecast(*words), r"\n +1M +[\d.]+ s +native +native +[\d.]+ ms ")
        words[-1] = "linear8"
        self.assertRegex(self.forecast(*words, "--collective", "allgather"),
                         r"\n +1M +[\d.]+ m?s +native\n$")
        words[-1] = "int4:delta=inplace"
        self.assertRegex(self.forecast(*words), r"\n +1M +[\d.]+ m?s +native\n$")
        self.assertNotIn("native\n", self.forecast(*words, "--collective", "allgather")
                         .splitlines(keepends=True)[-1])

    def test_numbers_behind_a_comma_are_the_schemes_own(self):
        self.assertRegex(
            self.forecast("--ranks", "2", "--bytes", "1M", "--schemes",
                          "learned4:learn=1,100,seed=3,int8,learned2:learn=5,7"),
            r"\n +bytes +native +learned4:learn=1,100,seed=3 +int8 +learned2:learn=5,7\n")
        code, _, err = terse("forecast", "--schemes", "int8," + 50_000 * "a")
        self.assertEqual(code, 1)
        self.assertIn("unknown codec", err)

    def test_a_chart(self):
        path = os.path.join(self.folder, "chart.svg")
        out = self.forecast("--ranks", "4", "--bytes", "1M,4M,16M", "--schemes", "int8,int4,linear8",
                            "--plot", path)
        self.assertTrue(out.endswith(f"\nplot: {path}\n"))
        svg = xml.dom.minidom.parseString(self.read("chart.svg")).documentElement
        self.assertEqual(svg.tagName, "svg")
        lines = [e.getAttribute("points") for e in svg.getElementsByTagName("polyline")]
        self.assertEqual([len(points.split()) for points in lines], [3, 3, 3, 3])
        texts = [e.firstChild.data for e in svg.getElementsByTagName("text")]
        self.assertEqual([t for t in texts if t in ("native", "int8", "int4", "linear8", "bytes")],
                         ["bytes", "native", "int8", "int4", "linear8"])
        self.assertEqual(texts[0], "allreduce, float32, 4 ranks on 2 nodes, by tiny")

    def test_a_chart_takes_the_place_of_an_old_one_in_one_step(self):
        old, path = self.write("old.svg", "old"), os.path.join(self.folder, "chart.svg")
        os.link(old, path)
        self.forecast("--ranks", "4", "--bytes", "1M,4M", "--schemes", "int8", "--plot", path)
        self.assertTrue(self.read("chart.svg").startswith("<svg "))
        self.assertEqual(self.read("old.svg"), "old")

    def test_a_page_of_charts(self):
        path = os.path.join(self.folder, "page.html")
        self.forecast("--ranks", "2,4", "--bytes", "1M,4M", "--schemes", "int8", "--plot", path)
        page = self.read("page.html")
        self.assertTrue(page.startswith("<!DOCTYPE html>\n") and page.endswith("</html>\n"))
        self.assertIn("Predicted by a model of the machine, not measured.", page)
        rows = re.findall(r"<tr>(.*)</tr>", page)
        self.assertEqual(rows[0], "<th>bytes</th><th>native</th><th>int8</th>")
        # 102 ms and 28.78 ms, as above.
        self.assertEqual(rows[1], "<td>1M</td><td>102 ms</td><td>28.8 ms, 3.54x</td>")
        charts = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
        self.assertEqual(len(charts), 2)
        for chart in charts:
            svg = xml.dom.minidom.parseString(chart).documentElement
            self.assertEqual(len(svg.getElementsByTagName("polyline")), 2)

    def test_what_cannot_be_right(self):
        one_node = self.write("one.toml", PROFILE.replace("between", "codec.int2")
                              .replace("latency = 0.01\nbandwidth", "encode = 1\ndecode"))
        profile = ["--profile", self.profile]
        for error, *words in (
                ("--ranks 1: must be from 2 to 65536", "--ranks", "1"),
                ("--ranks x: must be from 2 to 65536", "--ranks", "2,x"),
                ("--ranks 65537: must be from 2 to 65536", "--ranks", "65537"),
                ("--node-ranks: Value 0 not in range 1 to 65536", "--node-ranks", "0"),
                ("--bytes x: not a number of bytes such as 64M", "--bytes", "1M,x"),
                ("--bytes 17179869183G: not a number of bytes such as 64M", "--bytes",
                 "17179869183G"),
                ("--bytes 0: AllReduce of 0 bytes on 4 ranks has no elements", "--ranks", "4",
                 "--bytes", "0"),
                ("--bytes 15: AllGather of 15 bytes on 4 ranks has no elements", "--ranks", "4",
                 "--bytes", "1M,15", "--collective", "allgather"),
                ("--collective sendrecv: is between two ranks", "--collective", "sendrecv"),
                ("allreduc is not known", "--collective", "allreduc"),
                ("fp23 is not known", "--dtype", "fp23"),
                ("int32 is never compressed", "--dtype", "int32"),
                ("--schemes off: names no format", "--schemes", "int8,off"),
                ("--schemes auto:bits=4: names no format", "--schemes", "auto:bits=4"),
                (f"--plot {self.folder}/a.svg: several charts go into a page, .html", "--ranks",
                 "2,4", "--plot", self.folder + "/a.svg")):
            with self.subTest(words):
                code, _, err = terse("forecast", *profile, *words)
                self.assertEqual((code, err), (2, f"terse: {error}\nTry terse --help, or --help "
                                                  "after its commands.\n"))
        wrong_usage(self, '--ranks 4: the profile "tiny" says nothing of links between nodes',
                    "forecast", "--profile", one_node, "--ranks", "4")

    def test_what_fails(self):
        self.fails('--profile: there is no profile "a100-8x-100gbi": neither a file, nor one of those '
                   'that `terse forecast --list` names; did you mean "a100-8x-100gbit"?',
                   "forecast", "--profile", "a100-8x-100gbi")
        wrong = self.write("wrong.toml", PROFILE.replace("latency = 0.01", "latency = -1"))
        self.fails(f"--profile: {wrong}:10:11: latency is -1, but must be from 0 to 10 seconds",
                   "forecast", "--profile", wrong)
        code, _, err = terse("forecast", "--schemes", "int9")
        self.assertEqual((code, err), (1, 'terse: scheme "int9": 9 bits are not offered, only 2 to '
                                          "8\n"))
        code, _, err = terse("forecast", "--ranks", "2", "--plot", "/nowhere/a.svg")
        self.assertEqual((code, err), (1, "terse: cannot write /nowhere/a.svg: No such file or "
                                          "directory\n"))


CALL = """
[[call]]
collective = "allreduce"
bytes = 1048576
dtype = "float32"
scheme = "int8"
"""


class Steps(InAFolder):
    def lines(self, text, *words):
        """What is said below the head."""
        step = self.write("step.toml", text)
        return self.output("forecast", "--step", step, *words).splitlines()[4:]

    def step(self, head, calls):
        return f'name = "a step"\nprofile = "{self.profile}"\nranks = 4\n{head}\n{calls}'

    def test_a_step_is_its_computing_and_what_calls_take_beside_it(self):
        step = self.write("step.toml", self.step("compute = 1", CALL + "times = 2\nbeside = 0.1\n"))
        self.assertEqual(self.output("forecast", "--step", step), """\
step       a step
profile    tiny: by hand

collective          bytes  scheme                                 native compressed        \n\
AllReduce       1.049e+06  int8:block=128,round=nearest           1.52 s     308 ms   4.94x

compute    1 s
step       3.84 s native, 1.42 s compressed: 2.72x
""")

    def test_a_step_has_its_own_calls(self):
        for words in (["--ranks", "8"], ["--bytes", "1M"], ["--collective", "reduce"],
                      ["--dtype", "float16"], ["--schemes", "int8"], ["--node-ranks", "2"],
                      ["--plot", "a.svg"]):
            for instead in ["--step", "step.toml"], ["--list"]:
                code, out, err = terse("forecast", *instead, *words)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(f"terse: {instead[0]} excludes {words[0]}", err)
        code, _, err = terse("forecast", "--step", "")
        self.assertEqual((code, err.splitlines()[0]), (2, "terse: --step: it is empty"))

    def test_what_was_measured_is_not_what_a_step_takes(self):
        curve = ('[[measured]]\ncollective = "allreduce"\ndtype = "float32"\nranks = 2\nnodes = 1\n'
                 'scheme = "native"\npoints = [[1048576, 2]]\n')
        self.assertIn("\nmeasured   is what auto goes by; these times are the model's\n",
                      self.output("forecast", "--profile",
                                  self.write("measured.toml", PROFILE + curve), "--step",
                                  self.write("step.toml", self.step("", CALL))))

    def test_communicators_share_the_links_between_nodes(self):
        self.assertEqual(self.lines(self.step("sharing = 2", CALL)), [
            # 22 ms and twice 1.5 s; 42.25 ms and twice 257.8 ms
            "AllReduce       1.049e+06  int8:block=128,round=nearest           3.02 s     566 ms   "
            "5.34x", "", "compute    0", "step       3.02 s native, 566 ms compressed: 5.34x"])
        # Within a node they do not.
        self.assertEqual(self.lines(self.step("sharing = 2\nnode_ranks = 4", CALL))[-1],
                         self.lines(self.step("node_ranks = 4", CALL))[-1])

    def test_times_are_shown_without_exponents(self):
        for compute, shown in (("0.0009996", "1 ms"), ("0.9996", "1 s"), ("4310", "4310 s"),
                               ("999999", "999999 s")):
            lines = self.lines(self.step(f"compute = {compute}", CALL))
            self.assertEqual(lines[-2], f"compute    {shown}")

    def test_all_calls_are_added_up_and_off_is_native(self):
        lines = self.lines(self.step("compute = 0.5", CALL + CALL.replace("int8", "off")))
        self.assertEqual(lines[1], "AllReduce       1.049e+06  off                                 "
                                   "   1.52 s     1.52 s   1.00x")
        self.assertEqual(lines[-1], "step       3.54 s native, 2.33 s compressed: 1.52x")

    def test_what_sends_more_between_nodes_than_nccl_is_native(self):
        call = CALL.replace("int8", "exp8").replace("1048576", "67108864")
        step = self.write("step.toml", 'profile = "a100-8x-100gbit"\nranks = 64\n' + call)
        lines = self.output("forecast", "--step", step).splitlines()
        self.assertRegex(lines[4], r" 11\.1 ms +11\.1 ms +1\.00x$")
        self.assertEqual(lines[-1], "step       11.1 ms native, 11.1 ms compressed: 1.00x")

    def test_what_goes_along_with_computing_takes_no_time(self):
        self.assertEqual(self.lines(self.step("compute = 2", CALL + "beside = 1\n"))[-1],
                         "step       2.52 s native, 2 s compressed: 1.26x")
        self.assertEqual(self.lines(self.step("", CALL + "beside = 10\n"))[-1],
                         "step       0 native, 0 compressed")
        self.assertEqual(self.lines(self.step("", CALL + "times = 0\n"))[-1],
                         "step       0 native, 0 compressed")

    def test_the_command_line_names_another_machine(self):
        step = self.write("step.toml", self.step("", CALL))
        for words, name in (([], "tiny"), (["--profile", "a100-8x-nvlink"], "a100-8x-nvlink")):
            self.assertIn(f"profile    {name}: ", self.output("forecast", "--step", step, *words))
        bare = self.write("bare.toml", "ranks = 4\n" + CALL)
        self.assertIn("profile    a100-8x-100gbit: ", self.output("forecast", "--step", bare))

    def test_what_cannot_be_right(self):
        step = self.write("step.toml", self.step("", CALL.replace("1048576", "3")))
        wrong_usage(self, f"--step {step}: AllReduce of 3 bytes on 4 ranks has no elements",
                    "forecast", "--step", step)
        code, _, err = terse("forecast", "--step", self.write("s.toml", "ranks = 16\n" + CALL),
                             "--profile", "a100-8x-nvlink")
        self.assertEqual((code, err.splitlines()[0]), (
            2, f'terse: --step {self.folder}/s.toml: the profile "a100-8x-nvlink" says nothing of '
               "links between nodes"))

    def test_errors_say_where(self):
        for text, error in (
                ("", "1:1: the step has no ranks, of which there are 2 or more"),
                ("ranks = 1\n" + CALL, "1:1: the step has no ranks, of which there are 2 or more"),
                ("ranks = 4\n", "1:1: the step has no [[call]]"),
                ("ranks = 0\n", "1:9: ranks is 0, but must be a whole number from 1 to 65536"),
                ("ranks = 2.5\n", "1:9: ranks is 2.5, but must be a whole number from 1 to 65536"),
                ('ranks = "4"\n', "1:9: ranks is a number"),
                ("ranks = true\n", "1:9: ranks is a number"),
                ("ranks = nan\n", "1:9: ranks is nan, but must be a whole number from 1 to 65536"),
                ("compute = -1\n", "1:11: compute is -1, but must be from 0 to 1e+06"),
                ("compute = inf\n", "1:11: compute is inf, but must be from 0 to 1e+06"),
                ("sharing = 0\n", "1:11: sharing is 0, but must be a whole number from 1 to 65536"),
                ("node_rank = 4\n", '1:1: unknown key "node_rank"; did you mean "node_ranks"?'),
                ("name = 4\n", "1:8: name is a text in quotes"),
                ("[call]\n", "1:2: call is a list of tables, [[call]]"),
                ("call = [1]\n", "1:9: call is a table, [[call]]"),
                ("[[call]]\nbytes = 1\n", "1:1: the call has no collective"),
                (CALL.replace('scheme = "int8"\n', ""), "2:1: the call has no scheme"),
                ("[[call]]\nbyte = 1\n", '2:1: unknown key "byte"; did you mean "bytes"?'),
                ("[[call]]\nbytes = 0\n", "2:9: bytes is 0, but must be from 1 to 1.40737e+14"),
                ("[[call]]\ntimes = -1\n", "2:9: times is -1, but must be from 0 to 1e+06"),
                ("[[call]]\ncollective = 1\n", "2:14: collective is a text in quotes"),
                ('[[call]]\nscheme = "int9"\n',
                 '2:10: scheme "int9": 9 bits are not offered, only 2 to 8'),
                ('[[call]]\nscheme = "auto"\n', "2:10: the scheme names no format, nor off"),
                ('[[call]]\ndtype = "int8"\n',
                 '2:9: dtype "int8": integers are never compressed lossily'),
                ('[[call]]\ncollective = "sendrecv"\n',
                 "2:14: the collective is between two ranks"),
                ('name = "a\n', "1:10: the text in quotes is not closed")):
            with self.subTest(text):
                path = self.write("wrong.toml", text)
                self.fails(f"--step: {path}:{error}", "forecast", "--step", path)
        self.fails("--step: /nowhere.toml cannot be read: No such file or directory", "forecast",
                   "--step", "/nowhere.toml")
        self.fails(f"--step: {self.folder} cannot be read: Is a directory", "forecast", "--step",
                   self.folder)


class Auto(InAFolder):
    def explain(self, *words, **settings):
        return self.output("explain", "--ranks", "4", "--nodes", "2", *words, **settings)

    def test_what_is_taken_is_explained(self):
        lines = self.explain("--scheme", "auto", "--profile", self.profile, "--bytes",
                             "1M").splitlines()
        self.assertEqual(lines[:8], """\
call       allreduce, 1 MiB (1048576 B), float32, sum, 4 ranks on 2 nodes, on CPUs (--gpu: on GPUs)
rule       rule 1: shard=64K.. -> auto:bits=8,round=nearest
auto       auto:bits=8,round=nearest, by the profile "tiny", which models them
              1.52 s   1.00x  native
              574 ms   2.65x  bf16:round=nearest
              801 ms   1.90x  linear16:block=256,round=nearest
              308 ms   4.94x  int8:block=128,round=nearest  taken
              316 ms   4.81x  minmax8:block=128,round=nearest""".splitlines())
        self.assertTrue(lines[8].startswith("scheme     int8:block=128,round=nearest, 8.25 bits"))
        self.assertTrue(lines[9].startswith("algorithm  hierarchical AllReduce: "))

    def test_chunks_are_those_of_the_profiles_machine(self):
        gpu = self.write("gpu.toml", "gpu = true\n" + PROFILE)
        words = ["--scheme", "auto", "--bytes", "64M", "--profile"]
        self.assertEqual(self.explain(*words, gpu), self.explain(*words, gpu, "--gpu"))
        self.assertNotEqual(self.explain(*words, gpu), self.explain(*words, self.profile))

    def test_a_setting_names_the_profile_too(self):
        words = ["--scheme", "auto", "--bytes", "1M"]
        self.assertEqual(self.explain(*words, TERSE_PROFILE=self.profile),
                         self.explain(*words, "--profile", self.profile))

    def test_where_nothing_gains_the_call_stays_native(self):
        slow = self.write("slow.toml", PROFILE.replace("262144000", "262144"))
        lines = self.explain("--scheme", "auto", "--profile", slow, "--bytes", "1M").splitlines()
        self.assertEqual(lines[3], "              1.52 s   1.00x  native  taken")
        self.assertEqual(lines[-1], "native     nothing is predicted to be 10 % faster")

    # On nodes of 4, 3 and 3 ranks bf16 would be the fastest, with more bytes between them.
    def test_what_sends_more_between_nodes_than_nccl_is_not_taken(self):
        quick = self.write("quick.toml", PROFILE.replace("0.001", "1e-6").replace("0.01", "1e-6")
                           .replace("bandwidth = 10485760", "bandwidth = 1e9")
                           .replace("bandwidth = 1048576", "bandwidth = 1e10")
                           .replace("262144000", "1e12").replace("524288000", "1e12"))
        out = self.output("explain", "--scheme", "auto:bits=16", "--profile", quick, "--ranks", "10",
                          "--nodes", "3", "--bytes", "64M")
        self.assertEqual(re.findall(r"\n +[\d.]+ ms +([\d.]+x)  (.*)", out),
                         [("1.00x", "native"), ("1.98x", "linear16:block=256,round=nearest  taken")])
        self.assertIn("\nscheme     linear16:", out)
        self.assertNotIn("NCCL sends less between nodes", out)

    def test_what_was_measured_goes_before_what_is_modelled(self):
        curve = """
[[measured]]
collective = "allreduce"
dtype = "float32"
ranks = 4
nodes = 2
scheme = "{}"
points = [[65536, {}], [1048576, {}]]
"""
        measured = self.write("measured.toml", PROFILE + curve.format("native", 0.1, 1.6) +
                              curve.format("int8", 0.3, 1))
        for size, rows in (("1M", ["1.6 s   1.00x  native",
                                   "1 s   1.60x  int8:block=128,round=nearest  taken"]),
                           ("64K", ["100 ms   1.00x  native  taken",
                                    "300 ms   0.33x  int8:block=128,round=nearest"])):
            lines = self.explain("--scheme", "auto", "--profile", measured, "--bytes",
                                 size).splitlines()
            self.assertEqual(lines[2], 'auto       auto:bits=8,round=nearest, by the profile "tiny", '
                                       "which has measured such calls")
            self.assertEqual([line.strip() for line in lines[3:5]], rows)

    def test_without_a_profile_there_is_nothing_to_go_by(self):
        said = f"auto needs a profile: --device (as H100), --profile, or {HINT}"
        self.fails(said, "explain", "--scheme", "auto")
        self.fails(said, "explain", TERSE_SCHEME="auto")

    def test_a_presets_call_that_gains_too_little_stays_native(self):
        words = ("explain", "--dtype", "bf16", "--ranks", "16", "--nodes", "2", "--bytes", "64M", "--profile")
        fast, slow = (self.output(*words, name, "--scheme", "safe").splitlines()
                      for name in ("h100-8x-3200gbit", "a100-8x-100gbit"))
        self.assertEqual(fast[-1].split(None, 1), ["native", "nothing is predicted to be 10 % faster"])
        self.assertTrue(any("int8:block=64" in line for line in slow), slow)
        # What the user names is done.
        named = self.output(*words, "h100-8x-3200gbit", "--scheme", "int8").splitlines()
        self.assertTrue(any("int8:block=128" in line for line in named), named)

    def test_times_of_a_scheme_are_predicted_by_a_profile(self):
        words = ("explain", "--dtype", "bf16", "--ranks", "64", "--nodes", "8", "--bytes", "256M", "--scheme")
        line = self.output(*words, "int8:block=64", "--profile", "h800-8x-3200gbit").splitlines()[-1]
        self.assertRegex(line, r"predicted  \S+ ms in place of \S+ ms, 1\.\d\d times as fast as native, by "
                               r'the profile "h800-8x-3200gbit"$')
        self.assertIn('predicted  nothing: the profile "a100-8x-nvlink" says nothing of links between nodes',
                      self.output(*words, "safe", "--profile", "a100-8x-nvlink"))
        self.assertNotIn("predicted", self.output(*words, "safe"))

    def test_a_profile_that_is_named_is_read_whatever_asks_for_it(self):
        out = self.output("explain", "--profile", "a100-8x-100gbit", "--nodes", "2",
                          TERSE_SCHEME="auto:error=0.2")
        self.assertIn('by the profile "a100-8x-100gbit"', out)
        self.fails("--profile: nowhere.toml cannot be read: No such file or directory", "explain",
                   "--scheme", "int8", "--profile", "nowhere.toml")

    def test_links_that_the_profile_lacks(self):
        code, _, err = terse("explain", "--scheme", "auto", "--profile", "a100-8x-nvlink", "--nodes",
                             "2")
        self.assertEqual((code, err), (
            1, 'terse: the profile "a100-8x-nvlink" says nothing of links between nodes, and 8 ranks '
               "are on 2 nodes\n"))

    def test_programs_are_run_with_a_profile(self):
        def dry(profile, folder=None):
            words = [TERSE, "run", "--dry-run", "--scheme", "auto", "--profile", profile, "--", "true"]
            done = subprocess.run(words, cwd=folder, text=True, capture_output=True, check=False,
                                  env=environment(), timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return [line for line in done.stdout.splitlines()[1:]
                    if not line.startswith("export PYTHONPATH=")]
        self.assertEqual(dry("a100-8x-nvlink"),
                         ["export TERSE_SCHEME=auto", "export TERSE_PROFILE=a100-8x-nvlink", "true"])
        # From elsewhere, too.
        self.assertEqual(dry("tiny.toml", self.folder),
                         ["export TERSE_SCHEME=auto",
                          f"export TERSE_PROFILE={os.path.realpath(self.profile)}", "true"])
        self.fails("nowhere.toml cannot be read: No such file or directory", "run", "--dry-run",
                   "--profile", "nowhere.toml", "--", "true")


@unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(TERSE), "terse-tune")),
                     "the benchmarks are not built")
class Tune(unittest.TestCase):
    def test_one_rank_has_nothing_to_measure(self):
        code, out, err = terse("tune")
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, r"(?m)^terse-tune: process 0 on .*: there is one rank, and nothing to "
                              r"send: start a process for each GPU, by torchrun, mpirun or srun, or "
                              r"ask for several ranks with -t$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
