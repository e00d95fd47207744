"""The command `terse` of the Python package: the program that is in it, under its own name."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "terse")
    os.execv(program, [sys.argv[0], *sys.argv[1:]])
