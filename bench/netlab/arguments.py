"""What options are made of, as argparse takes it."""

import argparse
import os
import re


def list_of(parse, names=None):
    """Reads what stands between commas, one or more, each once; only these names, where there are
    any."""
    def read(text):
        try:
            values = tuple(parse(item) for item in text.split(",") if item)
        except ValueError as error:
            raise argparse.ArgumentTypeError(error) from error
        if names and not set(values) <= set(names):
            raise argparse.ArgumentTypeError(f"'{text}': choose from {', '.join(names)}")
        if not values:
            raise argparse.ArgumentTypeError(f"'{text}' names nothing")
        return tuple(dict.fromkeys(values))
    return read


def split_schemes(text):
    """At the commas between schemes, not at those before a scheme's next key, or number; each
    once."""
    schemes = re.split(r",(?![a-z-]+=|[0-9])", text)
    return tuple(dict.fromkeys(scheme for scheme in schemes if scheme))


def parse_seconds(text):
    """A time that comes to an end, which nan and inf do not."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not from 0 to 1e9 seconds")
    return seconds


def writable(path):
    """The path, where a file can be written there: known before what is to be in it."""
    new = not os.path.lexists(path)  # a link stays, also one to what is not there yet
    try:
        with open(path, "ab"):
            pass
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write {path}: {error.strerror}") from error
    if new:
        os.remove(path)
    return path
