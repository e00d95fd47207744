"""Programs under the preload library."""

import contextlib
import tempfile

import terse_reports
from context import Failed


@contextlib.contextmanager
def preloaded(context, scheme, ranks):
    """Gives the variables. In the end so many processes must have compressed something: a library
    that is not there, or does not see the calls, would pass as a native run."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"LD_PRELOAD": context.library("libterse_nccl.so"), "TERSE_SCHEME": scheme,
               "TERSE_MIN_BYTES": "64K", "TERSE_REPORT": folder}
        counts = terse_reports.compressed_calls(folder)
        if sum(count > 0 for count in counts) != ranks:
            raise Failed(f"of {ranks} ranks under the preload library, compressed calls: {counts}")
