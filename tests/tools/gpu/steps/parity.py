"""Kernels against the host codec."""

import json
import os
import re

from context import Failed

NAME = "parity"
TITLE = "kernels against the host codec, byte for byte"


def figures(path):
    """By test; nothing where it did not come to that."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        suites = json.load(file)["testsuites"]
    tests = {}
    for suite in suites:
        for test in suite["testsuite"]:
            kept = tests[f"{suite['name']}.{test['name']}"] = {"result": test["result"],
                                                              "time": test["time"]}
            if "failures" in test:
                kept["failures"] = [each["failure"][:500] for each in test["failures"][:3]]
    return tests


def printed(text):
    """By test, as far as it came: a program that is ended writes no file."""
    tests, now, lines = {}, None, []
    for line in text.splitlines():
        mark = re.match(r"\[ *(RUN|OK|FAILED) *\] (\w+\.\w+)(?: \((\d+) ms\))?$", line)
        if mark and mark[1] == "RUN":
            now, lines = mark[2], []
            tests[now] = {"result": "DID NOT END"}
        elif mark and mark[2] == now:
            tests[now] = {"result": "COMPLETED", "time": f"{int(mark[3] or 0) / 1e3:g}s"}
            if mark[1] == "FAILED":
                tests[now]["failures"] = ["\n".join(lines)[:500]]
            now = None
        else:
            lines.append(line)
    return tests


def run(context):
    return run_tests(context, "gpu_parity_test", 180)


def run_tests(context, program, seconds):
    """The figures of a program of GoogleTest's."""
    path = os.path.join(context.build, program + ".json")
    if os.path.exists(path):
        os.remove(path)
    try:
        context.run(context.program(program), f"--gtest_output=json:{path}", seconds=seconds)
    except Failed as failure:
        whole = figures(path)
        tests = whole or printed(failure.output)
        texts = [f"{name}: {test['failures'][0]}" for name, test in tests.items()
                 if "failures" in test]
        if not whole:
            texts.append(str(failure))
        raise Failed("; ".join(texts) or str(failure), tests) from failure
    return figures(path)
