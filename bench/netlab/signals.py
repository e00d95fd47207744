"""Signals that end a program from outside."""

import contextlib
import signal
import sys


def unwind_at_signals():
    """SIGTERM and SIGHUP then unwind through every `with` and `finally`, so that nothing stays
    behind. One that is ignored stays so, as nohup has it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))


@contextlib.contextmanager
def held():
    """Those that would end this program, Ctrl-C too, do so after the block and not in it. Gives those
    that were held before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK,
                                    (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
