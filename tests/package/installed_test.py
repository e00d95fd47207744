"""The target `installed`, all that packaging/build builds, makes every file that is installed:
installed_test.py BUILD_DIR"""

import glob
import os
import re
import subprocess
import sys
import unittest

BUILD = os.path.realpath(sys.argv[1])
# What an installation leaves out unless it is asked for, and what only tests install.
PACKAGED = {"terse", "programs", "tune", "python", "dev", "hostnccl", "dist_packages"}
COMPONENT = re.compile(r'CMAKE_INSTALL_COMPONENT STREQUAL "(\w+)"')


def installed_files():
    """In the build, and installed with a package."""
    found = set()
    for script in glob.glob(BUILD + "/**/cmake_install.cmake", recursive=True):
        component = None
        with open(script, encoding="utf-8") as lines:
            for line in lines:
                component = (COMPONENT.search(line) or [None, component])[1]
                if component in PACKAGED and "file(INSTALL" in line:
                    found.update(re.findall(r'"(' + re.escape(BUILD) + r'/[^"]+)"', line))
    return found


def made_together():
    """What each statement of the build makes."""
    with open(BUILD + "/build.ninja", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("build "):
                yield set(line[len("build "):].partition(": ")[0].replace(" | ", " ").split())


def needed_for(target):
    said = subprocess.run(["ninja", "-C", BUILD, "-t", "graph", target], check=True, text=True,
                          stdout=subprocess.PIPE)
    return set(re.findall(r'label="([^"]*)"', said.stdout))


class Target(unittest.TestCase):
    def test_it_makes_all_that_is_installed(self):
        names, needed = {os.path.relpath(file, BUILD) for file in installed_files()}, needed_for("installed")
        wanted = {name: made for made in made_together() for name in made & names}
        self.assertGreaterEqual({os.path.basename(name) for name in wanted},
                                {"terse.1", "libterse_nccl.so", "libnccl.so.2"})
        self.assertEqual([name for name, made in wanted.items() if not made & needed], [])


unittest.main(argv=sys.argv[:1])
