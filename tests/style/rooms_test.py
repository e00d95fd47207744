#!/usr/bin/env python3
""".ci/rooms: what is there is right, and each kind of wrong is said.

    rooms_test.py ROOT
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(sys.argv.pop())

# File, what is put before its text, and what must be said of it.
PLANTED = [
    ("src/engine/observe/meter.cc", '#include "engine/comm/communicator.h"',
     "src/engine/observe/meter.cc:1: engine/comm/communicator.h: "
     "`engine/observe` may not include `engine/comm`"),
    ("src/engine/comm/communicator.h", '#include "engine/peers/host_all_gather.h"',
     "`engine/comm` may not include `engine/peers`"),
    ("src/engine/run/run.cc", '#include "engine/call/route.h"',
     "`engine/run` may not include `engine/call`"),
    ("src/engine/run/bind.cc", '#include "codec/codecs.h"',
     "`engine/run` may not include `codec/codecs`"),
    ("src/engine/run/bind.cc", '  #  include "codec/codecs/symmetric.h"',
     "`engine/run` may not include `codec/codecs`"),
    ("src/plan/plan.h", '#include "engine/comm/request.h"', "`plan` may not include `engine/comm`"),
    ("src/api/terse_scheme.cc", '#include "interpose/intercepted_group.h"', "interpose/intercepted_group.h: is no file of src or kernels"),
    ("kernels/backend.cc", '#include "../tests/tools/fakecuda/state.h"',
     "is no file of src or kernels"),
    ("kernels/device/tile.h", '#include "vec8.h"', "kernels/device/tile.h:1: vec8.h: is no file of"),
    ("kernels/launch.cc", '#include "engine/run/run.h"', "`kernels` may not include `engine/run`"),
    ("src/backend/select.cc", '#include "kernels/launch.h"', "`backend` may not include `kernels`"),
    ("src/base/log.h", "#include <plan/plan.h>", "must be in quotes"),
    ("src/policy/match.cc", '#include "request.h"', "is no file of src or kernels"),
    ("src/engine/run/bind.cc", "int x = terse::settings().seed;",
     "src/engine/run/bind.cc:1: settings(): the engine is handed its settings"),
    ("src/engine/lost.cc", "", "src/engine/lost.cc: is in no room"),
]
# In the table of docs/ARCHITECTURE.md.
CIRCLES = [
    ("| `engine/observe` | `backend`", "| `engine/observe` | `engine/call`, `backend`",
     "engine/observe -> engine/call"),
    ("| `plan` | |", "| `plan` | `plans` |", "`plan` may include `plans`, which is no room"),
]


def rooms(root):
    done = subprocess.run([os.path.join(ROOT, ".ci/rooms"), root], text=True,
                          stdout=subprocess.PIPE, check=False)
    return done.returncode, done.stdout


class Rooms(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ("src", "kernels", "docs"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(self.root, folder))

    def test_those_that_are_there_are_right(self):
        self.assertEqual(rooms(ROOT), (0, "rooms: 0 found wrong\n"))

    def test_a_wrong_include_is_said(self):
        for name, line, said in PLANTED:
            with self.subTest(name=name, line=line):
                path = os.path.join(self.root, name)
                before = None
                if os.path.exists(path):
                    with open(path, encoding="utf-8") as file:
                        before = file.read()
                with open(path, "w", encoding="utf-8") as file:
                    file.write(line + "\n" + (before or ""))
                code, text = rooms(self.root)
                self.assertEqual(code, 1)
                self.assertIn(said, text)
                self.assertIn("rooms: 1 found wrong", text)
                if before is None:
                    os.remove(path)
                else:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(before)

    def test_a_circle_in_the_table_is_said(self):
        path = os.path.join(self.root, "docs/ARCHITECTURE.md")
        with open(path, encoding="utf-8") as file:
            before = file.read()
        for row, changed, said in CIRCLES:
            with self.subTest(row=row):
                self.assertIn(row, before)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(before.replace(row, changed))
                code, text = rooms(self.root)
                self.assertEqual(code, 1)
                self.assertIn(said, text)


if __name__ == "__main__":
    unittest.main()
