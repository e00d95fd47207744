"""What processes said of themselves in TERSE_REPORT (src/report/FORMAT.md)."""

import glob
import json
import os


def _rows(folder):
    """What was compressed, by process that left a report there."""
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path, encoding="utf-8") as file:
            communicators = json.load(file)["communicators"]
        yield [row for each in communicators for row in each["rows"]]


def compressed_calls(folder):
    """Of each process."""
    return [sum(row["calls"] for row in rows) for rows in _rows(folder)]


def relative_errors(folder):
    """The worst of each kind of call that was verified."""
    return [row["error"]["worst_relative"] for rows in _rows(folder) for row in rows
            if row["error"]["calls"]]


def seconds_a_call(folder):
    """Of each process, by phase; over the calls of which times are known."""
    for rows in _rows(folder):
        calls = sum(row["seconds"]["calls"] for row in rows)
        if calls:
            yield {phase: sum(row["seconds"][phase] for row in rows) / calls
                   for phase in ("encode", "communicate", "decode", "total")}
