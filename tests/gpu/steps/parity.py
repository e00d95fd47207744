"""Kernels against the host codec."""

import json
import os

NAME = "parity"
TITLE = "kernels against the host codec, byte for byte"


def run(context):
    path = os.path.join(context.build, "parity.json")
    context.run(context.program("gpu_parity_test"), f"--gtest_output=json:{path}", seconds=150)
    with open(path, encoding="utf-8") as file:
        suites = json.load(file)["testsuites"]
    return {f"{suite['name']}.{test['name']}": {"result": test["result"], "time": test["time"]}
            for suite in suites for test in suite["testsuite"]}
