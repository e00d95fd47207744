"""`terse` as people type it: completions, the manual, help, colors: shell_test.py TERSE"""

import os
import pty
import re
import shutil
import subprocess
import sys
import unittest

TERSE = sys.argv[1]
os.environ.pop("COLUMNS", None)
COMMANDS = {"run", "report", "explain", "scheme", "schemes", "presets", "plan", "settings",
            "forecast", "tune", "compare", "completion"}
ESCAPE = "\033["


def terse(*words):
    done = subprocess.run([TERSE, *words], text=True, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def on_terminal(*words, **settings):
    """(exit status, what it prints to a terminal)"""
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment.update({"TERM": "xterm", **settings})
    master, slave = pty.openpty()
    with subprocess.Popen([TERSE, *words], stdout=slave, stderr=slave, stdin=subprocess.DEVNULL,
                          env=environment) as process:
        os.close(slave)
        text = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
    os.close(master)
    return process.returncode, text.decode().replace("\r\n", "\n")


def completed(*words):
    """What bash offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in ("terse", *words))
    script = (f'eval "$("{TERSE}" completion bash)"; COMP_WORDS=({quoted}); '
              f'COMP_CWORD={len(words)}; _terse; printf "%s\\n" "${{COMPREPLY[@]}}"')
    done = subprocess.run(["bash", "--norc", "-uc", script], text=True, capture_output=True,
                          timeout=60, check=True)
    assert not done.stderr, done.stderr
    return set(done.stdout.split())


class Completion(unittest.TestCase):
    def test_bash_offers_commands(self):
        offered = completed("")
        self.assertLessEqual(COMMANDS, offered)
        self.assertLessEqual({"--help", "--version", "--man"}, offered)
        self.assertEqual(completed("sch"), {"scheme", "schemes"})

    def test_bash_offers_options_of_the_command(self):
        self.assertEqual(completed("run", "--no"), {"--no-facade", "--no-check"})
        self.assertEqual(completed("report", "--"), {"--help", "--json", "--html", "--trace"})
        self.assertEqual(completed("explain", "--dry"), set())

    def test_bash_offers_values(self):
        self.assertEqual(completed("run", "--log", ""), {"off", "error", "warn", "info", "trace"})
        self.assertLessEqual({"int4", "int8", "bf16", "sdp4bit", "off"},
                             completed("run", "--scheme", ""))
        self.assertEqual(completed("explain", "--scheme", "int"),
                         {f"int{bits}" for bits in range(2, 9)})
        self.assertIn("allreduce", completed("explain", "--collective", "all"))
        self.assertEqual(completed("completion", "z"), {"zsh"})

    def test_bash_leaves_files_to_bash(self):
        self.assertEqual(completed("run", "--policy", ""), set())
        self.assertEqual(completed("report", "ou"), set())

    def test_every_command_and_option_is_in_every_shell(self):
        for shell in "bash", "zsh", "fish":
            code, script, err = terse("completion", shell)
            self.assertEqual((code, err), (0, ""))
            for word in COMMANDS | {"facade", "scheme", "collective", "html"}:
                self.assertRegex(script, rf"\b{word}\b", shell)
            self.assertNotIn(ESCAPE, script)

    def test_shells_can_read_theirs(self):
        for shell in "bash", "zsh", "fish":
            if shutil.which(shell) is None:
                continue
            script = terse("completion", shell)[1]
            done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True,
                                  timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_fish_offers_what_bash_does(self):
        def offered(line):
            done = subprocess.run(
                ["fish", "--no-config", "-c",
                 f'"{TERSE}" completion fish | source; complete -C "{line}"'],
                text=True, capture_output=True, timeout=60, check=True)
            return {each.split("\t")[0] for each in done.stdout.splitlines()}

        self.assertEqual(offered("terse sch"), {"scheme", "schemes"})
        self.assertEqual(offered("terse run --no"), {"--no-facade", "--no-check"})
        self.assertEqual(offered("terse run --log "), {"off", "error", "warn", "info", "trace"})
        self.assertEqual(offered("terse completion "), {"bash", "zsh", "fish"})

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_zsh_takes_the_function(self):
        script = ("autoload -Uz compinit; compinit -u -D; "
                  f"""eval "$('{TERSE}' completion zsh)"; print $_comps[terse]""")
        done = subprocess.run(["zsh", "-f", "-c", script], text=True, capture_output=True,
                              timeout=60, check=True)
        self.assertEqual((done.stdout, done.stderr), ("_terse\n", ""))

    def test_another_shell_is_refused(self):
        code, out, err = terse("completion", "tcsh")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("tcsh", err)


class Manual(unittest.TestCase):
    def test_has_all_commands_and_options(self):
        code, page, err = terse("--man")
        self.assertEqual((code, err), (0, ""))
        for name in COMMANDS:
            self.assertRegex(page, rf"(?m)^\.SS \\fBterse {name}\\fR")
            for option in re.findall(r"(?m)^  (?:-\w, ?)?(--[\w-]+)", terse(name, "--help")[1]):
                if name != "tune" and option != "--help":
                    self.assertIn(option.replace("-", "\\-"), page)

    @unittest.skipUnless(shutil.which("groff"), "no groff here")
    def test_groff_has_nothing_against_it(self):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=terse("--man")[1],
                              text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_names_choices(self):
        self.assertIn("What is said meanwhile, as TERSE_LOG: off, error, warn, info, trace\n",
                      terse("--man")[1])

    @unittest.skipUnless(shutil.which("groff"), "no groff here")
    def test_reads_as_it_is_meant(self):
        text = subprocess.run(["groff", "-man", "-Tascii", "-P-c"], input=terse("--man")[1],
                              text=True, capture_output=True, timeout=60, check=True).stdout
        text = re.sub(".\b", "", text)  # bold by overstriking
        self.assertIn("terse - NCCL's collectives in fewer bits", text)
        self.assertIn("terse run -- torchrun --nnodes 2 --nproc-per-node 8 train.py", text)
        self.assertRegex(text, r"terse completion (\[OPTIONS\] )?shell")


class Help(unittest.TestCase):
    def test_has_examples(self):
        self.assertIn("terse run --scheme fast --report out -- ./program", terse("--help")[1])
        self.assertIn("Examples:", terse("run", "--help")[1])
        self.assertNotIn("completion bash", terse("run", "--help")[1])

    def test_examples_are_right(self):
        lines = re.findall(r"(?m)^  (terse (?:explain|scheme|forecast) .*)$", terse("--help")[1])
        self.assertGreaterEqual(len(lines), 3)
        for line in lines:
            code, _, err = terse(*line.split()[1:])
            self.assertEqual((code, err), (0, ""), line)


class Colors(unittest.TestCase):
    def test_are_on_a_terminal(self):
        code, text = on_terminal("--help")
        self.assertEqual(code, 0)
        self.assertIn(f"{ESCAPE}32mrun{ESCAPE}0m", text)
        self.assertIn(f"{ESCAPE}1mExamples:{ESCAPE}0m", text)
        # Beside them it is the same text.
        self.assertEqual(re.sub(r"\033\[[\d;]*m", "", text), terse("--help")[1])
        self.assertIn(f"{ESCAPE}1;31mterse:{ESCAPE}0m", on_terminal("--no-such")[1])

    def test_are_never_in_a_pipe(self):
        for words in (["--help"], ["run", "--help"], ["--no-such"], ["schemes"], ["--man"]):
            for text in terse(*words)[1:]:
                self.assertNotIn(ESCAPE, text)

    def test_go_by_no_color_and_the_terminal(self):
        for settings in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            for word in "--help", "--no-such":
                self.assertNotIn(ESCAPE, on_terminal(word, **settings)[1])
        self.assertIn(ESCAPE, on_terminal("--help", NO_COLOR="")[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
