"""What terse's reports say of a run."""

import json


def read(paths):
    """Sums over the ranks' reports: compressed calls and their bytes; why others stayed native."""
    found = {"ranks": len(paths), "calls": 0, "raw_bytes": 0, "wire_bytes": 0, "native_bytes": 0,
             "bypasses": {}, "schemes": {}}
    for path in sorted(paths):
        with open(path, encoding="utf-8") as file:
            add(found, json.load(file))
    return found


def add(found, report):
    for communicator in report["communicators"]:
        found["native_bytes"] += communicator["native_bytes"]
        for reason, calls in communicator["bypasses"].items():
            found["bypasses"][reason] = found["bypasses"].get(reason, 0) + calls
        for row in communicator["rows"]:
            for key in ("calls", "raw_bytes", "wire_bytes"):
                found[key] += row[key]
            kind = f"{row['collective']} {row['scheme']}"
            found["schemes"][kind] = found["schemes"].get(kind, 0) + row["calls"]
