"""What packaging/build has made: the tarball, the wheel and the Debian packages, each installed, used and
taken away again: packages_test.py SOURCE_FOLDER [ROOT]

ROOT is a folder with a bare Debian that has libucx0 and a C compiler, as debootstrap makes it; without
one, or when not run by root, the Debian packages are only looked at. TERSE_TEST_LOADER may name the
loader of an old glibc, with its arguments."""

import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

import elf

SOURCE = os.path.abspath(sys.argv[1])
ROOT = sys.argv[2] if len(sys.argv) > 2 else None
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = SOURCE + "/build/packages"
TOOLS = SOURCE + "/build/packaging/bin"
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

from local_ranks import environment  # noqa: E402

# All that is linked to: glibc, the compiler's library, and what hostnccl and the programs are about.
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
         "ld-linux-x86-64.so.2", "libgcc_s.so.1"}
MORE = {"libnccl.so.2": {"libucp.so.0", "libucs.so.0", "libucm.so.0"}}
PROGRAMS = re.compile(r".*_perf|terse-tune")
NOT_OF_PYTHON = re.compile(r".*_perf|libnccl\.so.*|terse\.h|libterse\.so")
MOST_BYTES = 150 * 10**6


def only(pattern):
    found = glob.glob(f"{PACKAGES}/{pattern}")
    if len(found) != 1:
        raise AssertionError(f"{len(found)} files are {PACKAGES}/{pattern}; packaging/build makes one")
    return found[0]


def output(*command, **keywords):
    """Of a command that succeeds; all that it says where it does not."""
    run = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env=plain(), **keywords)
    if run.returncode != 0:
        raise AssertionError(f"{shlex.join(command)}: {run.returncode}\n{run.stdout}")
    return run.stdout


def plain():
    return environment(**{name: None for name in os.environ if name.startswith(("LD_", "PYTHON"))})


def files(folder):
    """All that is in it but folders, by relative names."""
    return {os.path.relpath(os.path.join(place, name), folder)
            for place, _, names in os.walk(folder) for name in names}


def size(folder):
    return sum(os.lstat(os.path.join(folder, name)).st_size for name in files(folder))


class Installed(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name

    def check_files(self, folder):
        self.assertLess(size(folder), MOST_BYTES)
        for name in sorted(files(folder)):
            path, base = os.path.join(folder, name), os.path.basename(name)
            if os.path.islink(path) or not elf.is_elf(path):
                continue
            with self.subTest(name):
                self.assertLessEqual(elf.newest(elf.versions(path, "GLIBC")), (2, 28))
                if base.startswith("libterse"):
                    self.assertLessEqual({"libpthread.so.0", "libdl.so.2"}, elf.named(path))
                self.assertEqual(elf.versions(path, "GLIBCXX") | elf.versions(path, "CXXABI"), set())
                more = {"libnccl.so.2"} if PROGRAMS.fullmatch(base) else MORE.get(base, set())
                self.assertLessEqual(elf.needed(path), GLIBC | more)

    def check_versions(self, said):
        self.assertRegex(said, r"\Aterse [0-9.]+\ncommit       .*\ncompiler     .*, glibc 2.28 or newer\n")
        self.assertIn("CUDA module  ", said)
        self.assertNotIn("not installed", said)


class Tarball(Installed):
    def setUp(self):
        super().setUp()
        output("tar", "xzf", only("terse-*-linux-x86_64.tar.gz"), "-C", self.scratch)
        self.prefix, = glob.glob(self.scratch + "/terse-*")

    def test_it_runs_where_it_is_unpacked(self):
        self.check_files(self.prefix)
        output(HERE + "/libraries_test.sh", self.prefix)
        said = output(self.prefix + "/bin/terse", "--version")
        self.check_versions(said)
        self.assertIn(f"hostnccl     {self.prefix}/lib/terse/hostnccl/libnccl.so.2\n", said)
        said = output(self.prefix + "/bin/terse", "run", "--scheme", "int8", "--log", "info", "--",
                      self.prefix + "/bin/all_reduce_perf", "-b", "1M", "-e", "1M", "-t", "2", "-n", "2",
                      "-w", "0", "-c", "0")
        self.assertRegex(said, r"terse NOTE \d+ calls compressed.*, 0 native; .* 3\.88 times less")

    def test_it_runs_on_an_old_glibc(self):
        loader = os.environ.get("TERSE_TEST_LOADER")
        if not loader:
            raise unittest.SkipTest("TERSE_TEST_LOADER names no loader")
        said = output("env", f"LD_PRELOAD={self.prefix}/lib/libterse_nccl.so", "LD_BIND_NOW=1",
                      *shlex.split(loader), self.prefix + "/bin/terse", "scheme", "int4")
        self.assertIn("int4", said)


class Wheel(Installed):
    def setUp(self):
        super().setUp()
        self.wheel = only("terse-*-py3-none-manylinux_2_28_x86_64.whl")
        self.environment = self.scratch + "/environment"
        output(sys.executable, "-m", "venv", self.environment)
        self.pip("--version")  # compiles what it is made of

    def pip(self, *words):
        return output(self.environment + "/bin/python", "-m", "pip", "--disable-pip-version-check", *words)

    def test_install_use_and_uninstall(self):
        before = files(self.environment)
        self.pip("install", "--no-index", self.wheel)
        folder, = glob.glob(self.environment + "/lib/python*/site-packages/terse")
        self.assertEqual([name for name in files(folder)
                          if NOT_OF_PYTHON.fullmatch(os.path.basename(name))], [])
        self.check_files(folder)
        output(HERE + "/libraries_test.sh", folder)
        version = re.match(r"terse-([0-9.]+)(\+cpu)?-", os.path.basename(self.wheel)).group(1)
        self.assertIn("usage: terse tune", output(self.environment + "/bin/terse", "tune", "--help").lower())
        ask = ("import time; begin = time.perf_counter(); import terse; took = time.perf_counter() - begin;"
               "print(terse.version(), 1e3 * took)")
        said, took = output(self.environment + "/bin/python", "-c", ask, cwd=self.scratch).split()
        self.assertEqual(said, version)
        print(f"import terse: {float(took):.1f} ms, installed size {size(folder) / 1e6:.1f} MB",
              file=sys.stderr)

        terse = self.environment + "/bin/terse"
        self.check_versions(output(terse, "--version"))
        said = output(terse, "run", "--dry-run", "--", "true")
        self.assertIn(f"export LD_PRELOAD={folder}/lib/libterse_nccl.so\n", said)
        ask = "import terse; print(terse.active(), terse.policy())"
        said = output(terse, "run", "--scheme", "int4", "--", self.environment + "/bin/python", "-c", ask)
        self.assertEqual(said.splitlines()[-1], "True bytes=usual.. -> int4:block=128,round=nearest")

        self.pip("uninstall", "--yes", "terse")
        self.assertEqual(files(self.environment) - before, set())

    def test_its_name_is_true(self):
        if not os.path.exists(TOOLS + "/auditwheel"):
            raise unittest.SkipTest("there is no auditwheel")
        said = output(TOOLS + "/auditwheel", "show", self.wheel)
        runs_on = re.search(r'platform tag:\s+"manylinux_2_(\d+)_x86_64"', said)
        self.assertTrue(runs_on and int(runs_on.group(1)) <= 28, said)
        with zipfile.ZipFile(self.wheel) as wheel:
            self.assertTrue([name for name in wheel.namelist() if "licenses/LICENSE" in name])


class Debian(Installed):
    def setUp(self):
        super().setUp()
        self.packages = [only(f"{name}_*_amd64.deb") for name in ("terse", "terse-hostnccl", "terse-dev")]

    def test_what_they_have(self):
        for package in self.packages:
            output("dpkg-deb", "-x", package, self.scratch + "/all")
        self.check_files(self.scratch + "/all")
        output(HERE + "/libraries_test.sh", self.scratch + "/all/usr")

    def test_install_use_and_purge(self):
        if ROOT is None or not os.path.exists(ROOT + "/made") or os.geteuid() != 0:
            raise unittest.SkipTest("there is no bare Debian, or this is not root")
        root = self.scratch + "/root"
        output("cp", "-a", ROOT, root)
        for package in self.packages:
            output("cp", package, root + "/root")
        output("cp", "-r", HERE + "/consumer", root + "/root/consumer")
        before = self.state(root)
        begin = time.monotonic()
        self.inside(root, "dpkg -i /root/*.deb")
        print(f"dpkg -i: {time.monotonic() - begin:.1f} s", file=sys.stderr)
        said = self.inside(root, "terse --version")
        self.check_versions(said)
        self.assertIn("hostnccl     /usr/lib/terse/hostnccl/libnccl.so.2\n", said)
        self.inside(root, "cc -o /root/consumer/c $(pkg-config --cflags --libs terse) "
                          "/root/consumer/consumer.c -lterse && /root/consumer/c")
        self.inside(root, "cc -o /root/consumer/two_ranks -I/usr/lib/terse/hostnccl/include "
                          "/root/consumer/two_ranks.c /usr/lib/terse/hostnccl/libnccl.so.2 -lm "
                          "-Wl,-rpath,/usr/lib/terse/hostnccl")
        exact = self.inside(root, "/root/consumer/two_ranks")
        self.assertIn("error 0\n", exact)
        said = self.inside(root, "terse run --scheme int8 --log info -- /root/consumer/two_ranks")
        self.assertRegex(said, r"terse NOTE 1 calls? compressed, 0 native; .* 3\.88 times less")
        error = float(re.search(r"^error (.*)$", said, re.MULTILINE).group(1))
        self.assertTrue(0 < error < 0.02, error)
        said = self.inside(root, "python3 -c 'import terse; print(terse.version())'")
        self.assertRegex(said, r"\A[0-9.]+\n\Z")
        self.inside(root, "python3 -m compileall -q /usr/share/terse/examples/pytorch")
        self.assertNotEqual(self.inside(root, "find /usr/share/terse/examples -name '*.pyc'"), "")
        self.inside(root, "dpkg --purge terse-dev terse-hostnccl terse")
        self.assertEqual(self.state(root) - before, set())
        # Also where somebody has removed the folders.
        self.inside(root, "dpkg -i /root/*.deb && rm -r /usr/lib/terse/python /usr/share/terse/examples && "
                          "dpkg --purge terse-dev terse-hostnccl terse")
        self.assertEqual(self.state(root) - before, set())

    def inside(self, root, command):
        """In the root, with what a program expects of a machine; all of that goes with the command."""
        enter = ('mount -t proc proc "$0/proc" && mount -t sysfs sysfs "$0/sys" && '
                 'mount -t tmpfs tmpfs "$0/dev/shm" && '
                 'exec chroot "$0" /bin/sh -ec "$1"')
        return output("unshare", "--mount", "--pid", "--fork", "bash", "-c", enter, root, command)

    def state(self, root):
        """Its files, but for those of the test and dpkg's own."""
        return {name for name in files(root)
                if not name.startswith(("root/", "var/lib/dpkg/", "var/log/", "var/cache/ldconfig/"))}


unittest.main(argv=sys.argv[:1])
