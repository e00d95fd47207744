#!/usr/bin/env python3
"""Documents: lines of prose have at most 120 characters, and every relative link, and every name of a
source, leads somewhere.

    documents_test.py ROOT
"""

import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.abspath(sys.argv.pop())
WIDTH = 120
LINK = re.compile(r"\]\(([^)\s]+)\)")
# A path of the tree, or from src or plugin, with or without what it ends in.
SOURCE = re.compile(r"`([a-z_]+(?:/[A-Za-z0-9_.]+)+)`")


def prose(text):
    """Numbered lines outside of tables and of blocks of code."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*```", line):
            code = not code
        elif not code and not line.startswith(("|", "    ")):
            yield number, line


def anchors(text):
    """As GitHub makes them of headings."""
    found = set()
    for _, line in prose(text):
        if heading := re.match(r"#+ (.*)", line):
            words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            anchor = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
            found.add(anchor if anchor not in found else f"{anchor}-1")
    return found


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, text=True,
                               stdout=subprocess.PIPE).stdout.split()
        cls.texts = {}
        for name in names:
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                cls.texts[name] = file.read()

    def test_prose_is_narrow(self):
        for name, text in self.texts.items():
            for number, line in prose(text):
                self.assertLessEqual(len(line), WIDTH, f"{name}:{number}: {line}")

    def test_links_lead_somewhere(self):
        for name, text in self.texts.items():
            for target in LINK.findall(text):
                if re.match(r"\w+:", target):
                    continue
                path, _, anchor = target.partition("#")
                other = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
                with self.subTest(document=name, link=target):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, other)))
                    if anchor and other in self.texts:
                        self.assertIn(anchor, anchors(self.texts[other]))

    def test_sources_are_there(self):
        files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                               check=True, text=True, stdout=subprocess.PIPE).stdout.split()
        known = set()
        for name in files:
            folders = name.split("/")
            known.update("/".join(folders[:i]) for i in range(1, len(folders) + 1))
            known.add(re.sub(r"(\.\w+)+$", "", name))
        tops = {name.split("/")[base.count("/")] for base in ("", "src/", "plugin/") for name in files
                if name.startswith(base) and "/" in name[len(base):]}
        for name, text in self.texts.items():
            for source in SOURCE.findall(text):
                if source.split("/")[0] in tops:
                    with self.subTest(document=name, source=source):
                        self.assertTrue(any(base + source in known for base in ("", "src/", "plugin/")))


if __name__ == "__main__":
    unittest.main()
