"""How a training fares as a program, ten times on its way: memory and pace."""

import time


def resident_bytes():
    """Of this process: what it has in memory now."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return 1024 * int(line.split()[1])
    return 0


class Health:
    def __init__(self, steps):
        self.every = max(1, steps // 10)
        self.points = []  # [step, resident bytes, seconds a step since the last point]
        self._since, self._begin = 0, time.perf_counter()

    def look(self, step):
        """After each step; validation counts as the steps' time."""
        if step % self.every:
            return
        now = time.perf_counter()
        self.points.append([step, resident_bytes(), (now - self._begin) / (step - self._since)])
        self._since, self._begin = step, now
