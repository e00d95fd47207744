"""Writes the seeds of the fuzz targets, a file each:

    corpus.py GOLDENS OUTPUT

OUTPUT/decode has the packed buffers of the golden cases (tests/golden/codec), each after a byte that chooses element
type and so on. The others' are texts in corpus/TARGET.txt, each below a line "=== NAME"."""

import sys
from pathlib import Path

goldens, output = map(Path, sys.argv[1:])


def write(target, name, content):
    (output / target).mkdir(parents=True, exist_ok=True)
    (output / target / name).write_bytes(content)


number = 0
for file in sorted(goldens.glob("*/*.txt")):
    for case in file.read_text().split("\n\n"):
        name = case[1:case.index("]")]
        packed = bytes.fromhex(case.partition("\npacked\n")[2])
        write("decode", f"{file.parent.name}-{name}", bytes([number % 256]) + packed)
        number += 1

for file in sorted((Path(__file__).parent / "corpus").glob("*.txt")):
    for text in file.read_bytes().split(b"=== ")[1:]:
        name, _, content = text.partition(b"\n")
        write(file.stem, name.decode(), content.removesuffix(b"\n"))
