"""The library that is asked, and its errors."""

import ctypes
import os

# NCCL's result codes.
RESULTS = ("ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
           "ncclInvalidArgument", "ncclInvalidUsage", "ncclRemoteError", "ncclInProgress")

# What libterse.so is called where its interface is this one.
NAME = "libterse.so.0.1"

# In this package, as a wheel has it; or beside the folder that it is installed to, lib/terse/python.
PLACES = [os.path.normpath(os.path.join(os.path.abspath(__file__), place, NAME))
          for place in ("../lib", "../../../..")]


class Error(RuntimeError):
    """terse, or NCCL under it, has refused. `code` is the ncclResult_t, None where no library was
    asked; the message names the function, the communicator, the rank and the cause."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


def process():
    """What is in the process for all to find; a preloaded library is."""
    return ctypes.CDLL(None)


def active():
    """Whether the preload library is in this process, so that NCCL's calls go through terse. Whether
    it then compresses any is what policy() says."""
    return hasattr(process(), "tersePreloadStats")


def already_open():
    """libterse.so as the program itself has opened or linked it. None: it has not."""
    if hasattr(process(), "terseCommExclude"):
        return process()
    try:
        return ctypes.CDLL(NAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def by_name():
    """libterse.so: the program's own, for another copy would know nothing of its communicators; the
    one that was installed with this package; or the loader's."""
    library = already_open()
    for path in (*PLACES, NAME):
        if library is None:
            try:
                library = ctypes.CDLL(path)
            except OSError:
                pass
    if library is None:
        raise Error("neither is terse's preload library in this process (`terse run`, or LD_PRELOAD), "
                    f"nor is there a libterse.so, as {' or '.join(PLACES)} or by the loader")
    return library


def call(preloads, by_names, *arguments):
    """Calls the one of two functions that the process has. Raises Error for what it returns."""
    if active():
        function, explain = getattr(process(), preloads), process().ncclGetLastError
        about = (None,)
    else:
        library = by_name()
        function, explain = getattr(library, by_names), library.terseGetLastError
        about = ()
    function.restype, explain.restype = ctypes.c_int, ctypes.c_char_p
    code = function(*arguments)
    if code != 0:
        name = RESULTS[code] if 0 <= code < len(RESULTS) else "an unknown result"
        message = explain(*about).decode(errors="replace")
        raise Error(f"{message} ({name}, {code})", code)


def version():
    """Version of the library in use, as "0.1.0". Raises Error where there is none."""
    code = ctypes.c_int()
    if active():
        code.value = process().tersePreloadVersion()
    else:
        call("", "terseGetVersion", ctypes.byref(code))
    return f"{code.value // 10000}.{code.value // 100 % 100}.{code.value % 100}"


def policy():
    """The rules by which NCCL's calls are compressed, on a line, as TERSE_SCHEME takes them. "off":
    none are, as where the preload library is not there. Raises Error where the settings that the
    process was started with cannot be read."""
    if not active():
        return "off"
    text = process().tersePreloadPolicy
    text.restype = ctypes.c_char_p
    rules = text().decode()
    if not rules:
        raise Error("terse's settings cannot be read; `terse settings` says why")
    return rules
