"""The results, in a file that is whole after each step."""

import json
import os

NOT_RUN = 77


class Report:
    def __init__(self, path):
        self.path = path
        self.content = {"steps": {}}

    def set(self, key, value):
        self.content[key] = value
        self._write()

    def add_step(self, name, result, seconds, figures, message):
        step = {"result": result, "seconds": round(seconds, 1)}
        if message:
            step["message"] = message[:4000]
        if figures:
            step["figures"] = figures
        self.content["steps"][name] = step
        self._write()

    def exit_code(self):
        results = [step["result"] for step in self.content["steps"].values()]
        if "failed" in results:
            return 1
        return 0 if "passed" in results else NOT_RUN

    def print_summary(self):
        print(f"\n{'step':12} {'result':8} {'s':>6}")
        for name, step in self.content["steps"].items():
            print(f"{name:12} {step['result']:8} {step['seconds']:6.1f}  "
                  f"{step.get('message', '')[:160]}")
        print(f"all of it: {self.path}")

    def _write(self):
        temporary = self.path + ".new"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(self.content, file, indent=1)
            file.write("\n")
        os.replace(temporary, self.path)
