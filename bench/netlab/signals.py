"""Signals that end a program from outside."""

import signal
import sys


def unwind_at_signals():
    """SIGTERM and SIGHUP then unwind through every `with` and `finally`, so that nothing stays
    behind. One that is ignored stays so, as nohup has it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
