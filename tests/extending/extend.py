"""A copy of the tree to which the blocks of a document have been applied. A block names its file: a new
one, or a diff of one that is there, in which hunks are parted by lines "@@"."""

import os
import re

BLOCK = re.compile(r"^```(cpp|diff) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = {".git", "build", "__pycache__"}


def patched(text, diff):
    """The text after the diff; throws ValueError unless each hunk fits in one place."""
    for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = [line or " " for line in hunk.splitlines()]
        if any(line[0] not in " +-" for line in lines):
            raise ValueError(f"no hunk of a diff:\n{hunk}")
        old = "".join(line[1:] + "\n" for line in lines if line[0] != "+")
        new = "".join(line[1:] + "\n" for line in lines if line[0] != "-")
        places = list(re.finditer("^" + re.escape(old), text, re.MULTILINE))
        if len(places) != 1:
            raise ValueError(f"fits in {len(places)} places:\n{hunk}")
        text = text[:places[0].start()] + new + text[places[0].end():]
    return text


def extended(tree, document):
    """The tree, file -> bytes, after the document's blocks."""
    tree = dict(tree)
    for kind, name, body in BLOCK.findall(document):
        if (kind == "diff") != (name in tree):
            raise ValueError(f"{name}: is {'no' if kind == 'diff' else 'a'} file of the tree")
        try:
            text = patched(tree[name].decode(), body) if kind == "diff" else body
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        tree[name] = text.encode()
    return tree


def read(root):
    tree = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                tree[os.path.relpath(path, root)] = file.read()
    return tree


def write(tree, root):
    """Makes root hold the tree and nothing else. Files that are right already are left as they are."""
    there = read(root)
    for name in there.keys() - tree.keys():
        os.remove(os.path.join(root, name))
    for name, content in tree.items():
        if there.get(name) == content:
            continue
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
