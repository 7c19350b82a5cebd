"""Checks `index.json` against the golden files with an independent reader.

    python check.py [DIR]

Needs only Python. It implements the formats from their documented layouts, so that it can
find a mistake in the facts as well as in a reader that is tested with them.
"""

import hashlib
import json
import os
import pickletools
import re
import struct
import sys

# Number in the files, name, and bytes of every element type.
ELEMENTS = {
    0: ("bool", 1),
    1: ("int16", 2),
    2: ("int32", 4),
    3: ("int64", 8),
    4: ("float16", 2),
    5: ("float32", 4),
    6: ("float64", 8),
    20: ("uint8", 1),
    21: ("int8", 1),
    22: ("bfloat16", 2),
    23: ("complex64", 8),
    24: ("complex128", 16),
    32: ("float8_e4m3fn", 1),
    33: ("float8_e5m2", 1),
}

# Kinds of variables that are persistable and yet never saved.
NOT_SAVED = (9, 10, 15, 17)

ATTRIBUTE_TYPES = (
    "INT FLOAT STRING INTS FLOATS STRINGS BOOLEAN BOOLEANS BLOCK LONG BLOCKS LONGS FLOAT64S VAR "
    "VARS FLOAT64 SCALAR SCALARS"
).split()

PIR_DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf"}

# Files that belong to no case.
HELPERS = (".py", ".pyc", ".md", "index.json", ".gitattributes")

FILE_LIMIT = 256 * 1024
TOTAL_LIMIT = 3 * 1024 * 1024


class Reader:
    """A position in some bytes; reads beyond their end fail."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        if count < 0 or self.at + count > len(self.data):
            raise ValueError("{} bytes wanted at {}".format(count, self.at))
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def numbers(self, form, count):
        return list(struct.unpack("<%d%s" % (count, form), self.take(8 * count)))

    def varint(self):
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def done(self):
        return self.at == len(self.data)


def signed(value):
    """Converts a varint of an int32 or int64 field of protobuf to a signed number."""
    return value - (1 << 64) if value >> 63 else value


def fields(data):
    """Yields (number, value) of a protobuf message; values are integers or bytes."""
    reader = Reader(data)
    while not reader.done():
        key = reader.varint()
        wire = key & 7
        if wire == 0:
            yield key >> 3, reader.varint()
        elif wire == 1:
            yield key >> 3, reader.take(8)
        elif wire == 2:
            yield key >> 3, reader.take(reader.varint())
        elif wire == 5:
            yield key >> 3, reader.take(4)
        else:
            raise ValueError("wire type {}".format(wire))


def all_of(data, number):
    return [value for field, value in fields(data) if field == number]


def first_of(data, number, default=None):
    values = all_of(data, number)
    return values[0] if values else default


def read_description_and_data(reader, size):
    """Reads a tensor's protobuf description, `size` bytes long, and the elements after it."""
    description = reader.take(size)
    dtype, width = ELEMENTS[first_of(description, 1)]
    shape = [signed(value) for value in all_of(description, 2)]
    count = width
    for dim in shape:
        count *= dim
    data = reader.take(count)
    digest = hashlib.sha256(data).hexdigest()
    facts = {"name": "", "kind": "dense", "dtype": dtype, "shape": shape}
    facts.update(nbytes=len(data), sha256=digest)
    return facts


def expect_version(reader):
    version = reader.number("I")
    if version != 0:
        raise ValueError("version {}".format(version))


def read_tensor(reader):
    expect_version(reader)
    return read_description_and_data(reader, reader.number("i"))


def read_lod(reader):
    levels = []
    for _ in range(reader.number("Q")):
        size = reader.number("Q")
        if size % 8 != 0:
            raise ValueError("a LoD level of {} bytes".format(size))
        levels.append(reader.numbers("Q", size // 8))
    return levels


def with_lod(facts, lod):
    if lod:
        facts["lod"] = lod
    return facts


def read_lod_first(reader):
    expect_version(reader)
    lod = read_lod(reader)
    return with_lod(read_tensor(reader), lod)


def read_lod_last(reader):
    expect_version(reader)
    facts = read_description_and_data(reader, reader.number("I"))
    return with_lod(facts, read_lod(reader))


def read_selected_rows(reader):
    expect_version(reader)
    rows = reader.numbers("q", reader.number("Q"))
    height = reader.number("q")
    facts = read_tensor(reader)
    facts.update(kind="selected_rows", rows=rows, height=height)
    return facts


def read_vocab(reader):
    tokens = {}
    for _ in range(reader.number("Q")):
        token = reader.take(reader.number("Q")).decode("utf-8")
        tokens[token] = reader.number("i")
    return {"name": "", "kind": "vocab", "tokens": tokens}


READERS = {"dense": read_lod_first, "selected_rows": read_selected_rows, "vocab": read_vocab}


def read_records(data, kinds, sized=False):
    """Reads consecutive records of known kinds, up to the last byte."""
    reader = Reader(data)
    records = []
    for kind in kinds:
        if sized:
            inner = Reader(reader.take(reader.number("Q")))
            records.append(READERS[kind](inner))
            if not inner.done():
                raise ValueError("a record is shorter than its size")
        else:
            records.append(READERS[kind](reader))
    if not reader.done():
        raise ValueError("{} bytes after the last record".format(len(data) - reader.at))
    return records


class Program:
    """Returns the recorded facts of a program: operators, saved variables, inputs and outputs."""

    def __init__(self, data):
        self.blocks = [Block(block) for block in all_of(data, 1)]
        self.operators = [[first_of(op, 3).decode() for op in block.ops] for block in self.blocks]
        main = self.blocks[0].ops
        self.inputs = bound_names(main, b"feed", 2)
        self.outputs = bound_names(main, b"fetch", 1)
        self.saved = sorted({name for block in self.blocks for name in block.saved})


class Block:
    """The operators of a block, as bytes, and the names of the variables that are saved."""

    def __init__(self, data):
        self.ops = all_of(data, 4)
        self.saved = []
        for variable in all_of(data, 3):
            kind = first_of(first_of(variable, 2), 1)
            if first_of(variable, 3) and kind not in NOT_SAVED:
                self.saved.append(first_of(variable, 1).decode())


def bound_names(ops, kind, field):
    """Names that feed operators write (field 2) or fetch operators read (field 1), by column."""
    found = []
    for op in ops:
        if first_of(op, 3) == kind:
            name = first_of(first_of(op, field), 2).decode()
            columns = [first_of(attr, 3) for attr in all_of(op, 4) if first_of(attr, 1) == b"col"]
            found.append((columns[0], name))
    return [name for _, name in sorted(found)]


def read_attributes(op):
    """Types and values of an operator's attributes, spelled as in the facts."""
    return {
        first_of(attr, 1).decode(): [
            ATTRIBUTE_TYPES[first_of(attr, 2)],
            attribute_value(ATTRIBUTE_TYPES[first_of(attr, 2)], attr),
        ]
        for attr in all_of(op, 4)
    }


def int32(value):
    """An int32 field, which protobuf stores as a sign-extended varint of 64 bits."""
    return signed(value)


def float32(value):
    return struct.unpack("<f", value)[0]


def float64(value):
    return struct.unpack("<d", value)[0]


def text(value):
    """A string, or its hexadecimal digits where it is not UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def scalar(value):
    kind = first_of(value, 1)
    if kind == 1:
        return bool(first_of(value, 2))
    if kind == 2:
        return signed(first_of(value, 3))
    if kind == 3:
        return float64(first_of(value, 4))
    parts = first_of(value, 5)
    return {"real": float64(first_of(parts, 1)), "imag": float64(first_of(parts, 2))}


# Field number, conversion of one value, and whether the attribute is a list.
ATTRIBUTE_FIELDS = {
    "INT": (3, int32, False),
    "FLOAT": (4, float32, False),
    "STRING": (5, text, False),
    "INTS": (6, int32, True),
    "FLOATS": (7, float32, True),
    "STRINGS": (8, text, True),
    "BOOLEAN": (10, bool, False),
    "BOOLEANS": (11, bool, True),
    "BLOCK": (12, int32, False),
    "LONG": (13, signed, False),
    "BLOCKS": (14, int32, True),
    "LONGS": (15, signed, True),
    "FLOAT64S": (16, float64, True),
    "VAR": (17, text, False),
    "VARS": (18, text, True),
    "FLOAT64": (19, float64, False),
    "SCALAR": (20, scalar, False),
    "SCALARS": (21, scalar, True),
}


def attribute_value(kind, attr):
    number, convert, is_list = ATTRIBUTE_FIELDS[kind]
    values = [convert(value) for value in all_of(attr, number)]
    return values if is_list else values[0]


def text_operators(source):
    """Operator types of a program in protobuf's text form, block by block."""
    blocks = []
    path = []
    for line in source.splitlines():
        line = line.strip()
        if line.endswith("{"):
            path.append(line[:-1].strip())
            if path == ["blocks"]:
                blocks.append([])
        elif line == "}":
            path.pop()
        elif path == ["blocks", "ops"]:
            found = re.match(r'type: "(.*)"$', line)
            if found:
                blocks[-1].append(found.group(1))
    return blocks


def pir_operators(source):
    """Operator names of a PIR program, block by block, in the order of the block numbers."""
    blocks = {}
    for region in json.loads(source)["program"]["regions"]:
        collect_pir_blocks(region, blocks)
    return [blocks[number] for number in sorted(blocks)]


def collect_pir_blocks(region, blocks):
    """Adds the operators of a region's blocks to `blocks`, and those of the regions inside."""
    for block in region["blocks"]:
        names = blocks.setdefault(int(block["#"].split("_")[1]), [])
        for op in block["ops"]:
            names.append(pir_name(op["#"]))
            for inner in op.get("regions", []):
                collect_pir_blocks(inner, blocks)


def pir_name(short):
    """The full name of an operator; files shorten dialects to a number, parameters to "p"."""
    if short == "p":
        return "builtin.parameter"
    dialect, _, name = short.partition(".")
    return PIR_DIALECTS.get(dialect, dialect) + "." + name


def require(what, found, told):
    if found != told:
        raise ValueError("{}: the files say {}, the index {}".format(what, found, told))


def check_program(case, data):
    """Compares all recorded facts of a binary program; returns the program."""
    program = Program(data)
    require("operators", program.operators, case["operators"])
    if "inputs" in case:
        require("inputs", program.inputs, case["inputs"])
        require("outputs", program.outputs, case["outputs"])
    if "attributes" in case:
        block, index = case["attributes"]["operator"]
        found = read_attributes(program.blocks[block].ops[index])
        told = case["attributes"]["values"]
        require("attributes", {name: found[name] for name in told}, told)
    return program


def read_many(case, directory):
    """Reads the case's files by its format; returns the tensors found, with their names."""
    kind = case["format"]
    names = list(case["files"])
    contents = [read_file(os.path.join(directory, name)) for name in names]
    kinds = [tensor["kind"] for tensor in case["tensors"]]
    if kind in ("paddle-tensor", "paddle-params"):
        # Names, if there are any, are those of the program beside the file.
        return name_tensors(read_records(contents[0], kinds), case["tensors"])
    if kind == "paddle-params-sized":
        return read_records(contents[0], kinds, sized=True)
    if kind == "paddle-tensor-lod-last":
        reader = Reader(contents[0])
        tensors = [read_lod_last(reader)]
        require("bytes read", reader.at, len(contents[0]))
        return tensors
    if kind == "paddle-program":
        check_program(case, contents[0])
        return []
    if kind == "paddle-program-text":
        require("operators", text_operators(contents[0].decode()), case["operators"])
        return []
    if kind == "paddle-pir":
        require("operators", pir_operators(contents[0].decode()), case["operators"])
        return name_tensors(read_records(contents[1], kinds), case["tensors"])
    if kind == "paddle":
        saved = check_program(case, contents[0]).saved
        require("names", [tensor["name"] for tensor in case["tensors"]], saved)
        return name_tensors(read_records(contents[1], kinds), case["tensors"])
    if kind == "paddle-save":
        by_ending = {os.path.splitext(name)[1]: content for name, content in zip(names, contents)}
        check_program(case, by_ending[".pdmodel"])
        return read_pickled([by_ending[".pdparams"], by_ending[".pdopt"]], case["tensors"])
    if kind == "paddle-vars":
        return read_variables(case, names, contents)
    raise ValueError("unknown format " + kind)


def read_pickled(contents, tensors):
    """The bytes in pickles, which are not loaded: those of the tensors, in order."""
    found = [
        argument
        for content in contents
        for _, argument, _ in pickletools.genops(content)
        # NumPy pickles every array through an empty array of the type b"b".
        if isinstance(argument, bytes) and argument != b"b"
    ]
    require("arrays", len(found), len(tensors))
    return [
        dict(tensor, nbytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        for tensor, data in zip(tensors, found)
    ]


def name_tensors(records, tensors):
    return [dict(record, name=tensor["name"]) for record, tensor in zip(records, tensors)]


def read_variables(case, names, contents):
    """Reads one file per variable; with a program, exactly its variables must exist."""
    tensors = []
    saved = None
    for name, content in zip(names, contents):
        variable = os.path.basename(name)
        if variable == "__model__":
            saved = check_program(case, content).saved
        else:
            kinds = {tensor["name"]: tensor["kind"] for tensor in case["tensors"]}
            tensors.append(dict(read_records(content, [kinds[variable]])[0], name=variable))
    if saved is not None:
        require("names", [tensor["name"] for tensor in tensors], saved)
    return sorted(tensors, key=lambda tensor: tensor["name"])


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def check_case(case, directory):
    for name, digest in case["files"].items():
        data = read_file(os.path.join(directory, name))
        require("sha256 of " + name, hashlib.sha256(data).hexdigest(), digest)
        if len(data) > FILE_LIMIT:
            raise ValueError("{} holds {} bytes".format(name, len(data)))
    require("tensors", read_many(case, directory), case["tensors"])


def check_no_strangers(cases, directory):
    """Checks that every file in the directory belongs to a case or is a helper; returns their bytes."""
    known = {name for case in cases for name in case["files"]}
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, directory).replace(os.sep, "/")
            total += os.path.getsize(path)
            if relative not in known and not name.endswith(HELPERS):
                raise ValueError("{} belongs to no case".format(relative))
    if total > TOTAL_LIMIT:
        raise ValueError("the golden files hold {} bytes".format(total))
    return total


def main(directory):
    with open(os.path.join(directory, "index.json"), encoding="utf-8") as file:
        index = json.load(file)
    require("schema", index["schema"], 1)
    failed = 0
    for case in index["cases"]:
        try:
            check_case(case, directory)
        except Exception as error:
            failed += 1
            print("{} ({}): {!r}".format(case["path"], case["format"], error))
    total = check_no_strangers(index["cases"], directory)
    tensors = sum(len(case["tensors"]) for case in index["cases"])
    print("{} cases, {} tensors, {} bytes, {} wrong".format(
        len(index["cases"]), tensors, total, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else here))
