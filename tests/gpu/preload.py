"""Programs under the preload library."""

import contextlib
import glob
import json
import os
import tempfile

from context import Failed


def _rows(folder):
    """What was compressed, by process that left a report there."""
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path, encoding="utf-8") as file:
            communicators = json.load(file)["communicators"]
        yield [row for each in communicators for row in each["rows"]]


def compressed_calls(folder):
    """Of each process that left a report there."""
    return [sum(row["calls"] for row in rows) for rows in _rows(folder)]


def relative_errors(folder):
    """The worst of each kind of call that was verified."""
    return [row["error"]["worst_relative"] for rows in _rows(folder) for row in rows
            if row["error"]["calls"]]


@contextlib.contextmanager
def preloaded(context, scheme, ranks):
    """Gives the variables. In the end so many processes must have compressed something: a library
    that is not there, or does not see the calls, would pass as a native run."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"LD_PRELOAD": context.library("libterse_nccl.so"), "TERSE_SCHEME": scheme,
               "TERSE_REPORT": folder}
        counts = compressed_calls(folder)
        if sum(count > 0 for count in counts) != ranks:
            raise Failed(f"of {ranks} ranks under the preload library, compressed calls: {counts}")
