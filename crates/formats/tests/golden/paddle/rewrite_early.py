"""Rewrites streams of PaddlePaddle 2.6.2 into two layouts that no release writes any more.

    python rewrite_early.py OUT_DIR

Run it after `make_paddle_2_6_2.py`, with the same directory. No installable framework
writes these layouts, so they are created from their descriptions:

- LoD last, the first `save` operator of October 2017, with one version word:
  u32 version | u32 size of description | description | data | u64 levels | levels
- size-prefixed, the first draft of `save_combine` of January 2018: u64 size | record, repeated.

A level is u64 bytes | u64 offsets in both. The facts are those that were recorded when 2.6.2
saved the tensors.
"""

import json
import os
import struct
import sys

import check
import facts

SCRIPT = os.path.basename(__file__)

LOD_LAST = (
    "bool",
    "float32",
    "float64",
    "int64",
    "scalar",
    "empty_0x4",
    "rank6",
    "one_row",
    "lod1",
    "lod2",
    "lod3",
    "lod1_empty_sequences",
    "lod1_no_rows",
)

SIZED = ("many.combined", "mixed.combined", "float32.lodtensor", "lod3.lodtensor")


class Record:
    """Returns the parts of one tensor in the layout of 2.6.2, each as stored in the file."""

    def __init__(self, reader):
        start = reader.at
        check.expect_version(reader)
        self.levels = check.read_lod(reader)
        tensor = reader.at
        check.read_tensor(reader)
        self.whole = reader.data[start : reader.at]
        self.after_version = reader.data[tensor + 4 : reader.at]


def records_of(data):
    reader = check.Reader(data)
    while not reader.done():
        yield Record(reader)


def lod_last(record):
    """Returns the record with its LoD after the data and without the second version word."""
    levels = [struct.pack("<Q", len(record.levels))]
    for level in record.levels:
        levels.append(struct.pack("<Q%dQ" % len(level), 8 * len(level), *level))
    return struct.pack("<I", 0) + record.after_version + b"".join(levels)


def sized(record):
    return struct.pack("<Q", len(record.whole)) + record.whole


def rewrite(index, source, target, kind, convert, tensors):
    """Converts every record of a file; the facts do not change."""
    data = check.read_file(index.path(source))
    with open(index.path(target), "wb") as file:
        for record in records_of(data):
            file.write(convert(record))
    index.add(target, kind, tensors)


def main(out_dir):
    index = facts.Index(out_dir, SCRIPT, "paddlepaddle==2.6.2, then rewritten")
    with open(os.path.join(out_dir, "index.json"), encoding="utf-8") as file:
        known = {case["path"]: case["tensors"] for case in json.load(file)["cases"]}
    for name in LOD_LAST:
        source = "2.6.2/{}.lodtensor".format(name)
        target = "early/lod_last/{}.lodtensor".format(name)
        rewrite(index, source, target, "paddle-tensor-lod-last", lod_last, known[source])
    for name in SIZED:
        source, target = "2.6.2/" + name, "early/sized/" + name
        rewrite(index, source, target, "paddle-params-sized", sized, known[source])
    index.write()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
