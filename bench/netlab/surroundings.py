"""What bench/run and bench/train give to netlab, and to the ranks in it."""

import os
import subprocess

NETLAB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "netlab")


class LibraryError(Exception):
    pass


def finish(command, **how):
    """Its exit code and output. When this process is interrupted, so is the command, not killed:
    netlab takes its hosts down."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **how) as process:
        try:
            said, _ = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return process.returncode, said


def shapes_links():
    """Whether netlab can make hosts with links of their own here, which takes root."""
    code, said = finish([NETLAB, "--probe"], stderr=subprocess.DEVNULL)
    if code != 0:
        raise subprocess.CalledProcessError(code, [NETLAB, "--probe"])
    return said.strip() == "namespaces"


def environment():
    """Without what would change what is compared, native too: settings of terse's, and libraries
    that are preloaded. And each host is to have the NCCL_HOSTID that netlab gives it."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("TERSE_") and name not in ("LD_PRELOAD", "NCCL_HOSTID")}


def settings():
    """What NCCL and its transport are told, which the ranks get too."""
    return {name: value for name, value in sorted(environment().items())
            if name.startswith(("NCCL_", "UCX_", "HOSTNCCL_"))}


def preload(build_dir):
    """The value of LD_PRELOAD that has a program's NCCL calls compressed. Raises LibraryError."""
    library = os.path.join(build_dir, "lib", "libterse_nccl.so")
    # Its separators cannot be quoted, and a program starts without what is not found.
    if set(library) & set(" :"):
        raise LibraryError(f"LD_PRELOAD cannot name {library}: a blank or a colon is in it")
    if not os.path.exists(library):
        raise LibraryError(f"{library} is not there: is the build complete?")
    return library
