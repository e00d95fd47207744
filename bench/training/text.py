"""What is learned: the source of Python's standard library, byte by byte (PSF licence), which is on
every machine that can start this. Every tenth file is kept for validation."""

import glob
import hashlib
import os
import platform
import sysconfig

_NOT_ITS_OWN = ("test", "tests", "site-packages", "dist-packages", "idlelib", "__pycache__")


def sources(folder):
    """The files of the library, by name."""
    found = []
    for path in glob.glob(os.path.join(folder, "**", "*.py"), recursive=True):
        name = os.path.relpath(path, folder)
        if not set(name.split(os.sep)[:-1]) & set(_NOT_ITS_OWN):
            found.append(name)
    return sorted(found)


def split(folder):
    """(train, validation), as bytes."""
    parts = {False: [], True: []}
    for index, name in enumerate(sources(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            parts[index % 10 == 9].append(file.read())
    return b"".join(parts[False]), b"".join(parts[True])


def prepare(folder, source=None):
    """Leaves both parts in `folder`, and says what they are."""
    train, validation = split(source or sysconfig.get_path("stdlib"))
    for name, data in (("train", train), ("validation", validation)):
        path = os.path.join(folder, f"{name}.bytes")
        with open(path + ".part", "wb") as file:
            file.write(data)
        os.replace(path + ".part", path)
    return {"source": f"standard library of Python {platform.python_version()}",
            "train_bytes": len(train), "validation_bytes": len(validation),
            "sha256": hashlib.sha256(train + b"\0" + validation).hexdigest()}
