"""Adds the attributes of the operators of the installed MXNet to `mxnet_values.tsv`, beside this script.

    python make_mxnet_values.py

Run once with each release (0.9.5.post2, 0.11.0, 1.5.1, 1.9.1, 2.0.0b1); the order does not matter.
A node with an attribute that its operator does not have is rejected with the list of those that it has, with their
types: this list is what the operator reads. Each word of a closed set is tried, and a bogus one.

One line for each attribute: the operator, the attribute, its values, and the releases that have it. The values are the
words of a closed set, of all releases, `boolean`, or `-` if the set is open. An operator whose newest
release reads attributes that it does not list has a line with the attribute `*`. Operators without lines read none.
"""
import ctypes
import os
import re

import mxnet
from mxnet.base import _LIB, check_call

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mxnet_values.tsv")
RELEASES = ["0.9.5", "0.11.0", "1.5.1", "1.9.1", "2.0.0b1"]
RELEASE = mxnet.__version__.replace("0.9.5-2", "0.9.5").replace("2.0.0beta1", "2.0.0b1")

BOGUS = "bogus"
_LIB.MXGetLastError.restype = ctypes.c_char_p

# Attributes without which an operator lists nothing.
REQUIRED = {
    "Custom": {"op_type": "none"},
    "_contrib_quantized_rnn": {"mode": "lstm", "state_size": "1", "num_layers": "1"},
}

# Attributes that an operator reads before it lists the others.
APART = {"_contrib_quantized_rnn": {"quantized": {"boolean"}}}


def c_string(text):
    return ctypes.c_char_p(text.encode())


def registered():
    size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return [names[index].decode() for index in range(size.value)]


def handle_of(name):
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(c_string(name), ctypes.byref(handle)))
    return handle


def info(handle):
    """The real name of an operator, and the attributes that its description lists, with their types."""
    real, text, key, result = (ctypes.c_char_p() for _ in range(4))
    count = ctypes.c_uint()
    lists = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
    arguments = [ctypes.byref(real), ctypes.byref(text), ctypes.byref(count)]
    arguments += [ctypes.byref(one) for one in lists] + [ctypes.byref(key), ctypes.byref(result)]
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, *arguments))
    pairs = [(lists[0][i].decode(), lists[1][i].decode()) for i in range(count.value)]
    return real.value.decode(), {name: kind for name, kind in pairs if "Symbol" not in kind.split(",")[0]}


def error(handle, attributes):
    """The error of a node with these attributes; empty if there is none."""
    keys = (ctypes.c_char_p * len(attributes))(*[key.encode() for key in attributes])
    values = (ctypes.c_char_p * len(attributes))(*[value.encode() for value in attributes.values()])
    symbol = ctypes.c_void_p()
    size = ctypes.c_uint(len(attributes))
    if _LIB.MXSymbolCreateAtomicSymbol(handle, size, keys, values, ctypes.byref(symbol)):
        return _LIB.MXGetLastError().decode(errors="replace")
    return ""


def values_of(kind):
    """The values of a type: the words of a set, `boolean`, or `-`."""
    words = re.match(r"\{(.*?)\}", kind)
    if words:
        return {word.strip().strip("'") for word in words.group(1).split(",")}
    if kind.startswith("boolean"):
        return {"boolean", "None"} if kind.startswith("boolean or None") else {"boolean"}
    return {"-"}


def apart(function):
    """Calls a function in a process of its own: some operators bring it down. Returns its text; None if it died."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        with os.fdopen(writer, "w") as pipe:
            pipe.write(function() + "\n")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text[:-1] if text else None


def attributes_of(name):
    """The real name of an operator, and its attributes with their values."""
    handle = handle_of(name)
    real, listed = info(handle)
    text = apart(lambda: error(handle, dict(REQUIRED.get(name, {}), **{BOGUS: "1"})))
    marker = "Possible Arguments:\n----------------\n"
    if text and marker in text:
        lines = text.split(marker, 1)[1].split("\n, in operator")[0].split("\n")
        # The first line of each attribute is not indented.
        pairs = [re.match(r"(\w+) : (.*)", line) for line in lines]
        found = {pair.group(1): values_of(pair.group(2)) for pair in pairs if pair}
        for attribute, values in found.items():
            tried = dict.fromkeys(values - {"-", "boolean", "None"})
            wrong = apart(lambda: error(handle, dict(REQUIRED.get(name, {}), **{attribute: BOGUS})))
            if tried and wrong == "":
                raise SystemExit("%s takes any %s" % (name, attribute))
            for value in tried:
                # Other attributes may be missing; the value itself must be no problem.
                problem = apart(lambda: error(handle, {attribute: value})) or ""
                if "Invalid" in problem and "'%s'" % value in problem.split("valid values")[0]:
                    raise SystemExit("%s does not take %s as %s: %s" % (name, value, attribute, problem))
        return real, dict(found, **APART.get(name, {}))
    found = {attribute: values_of(kind) for attribute, kind in listed.items()}
    if text != "":
        # It reads attributes in a way of its own.
        found["*"] = {"-"}
    return real, found


def main():
    table = {}
    if os.path.exists(TABLE):
        with open(TABLE) as file:
            for line in file.read().splitlines():
                name, attribute, values, releases = line.split("\t")
                table[name, attribute] = (set(values.split()), set(releases.split()))
    for name in registered():
        real, found = attributes_of(name)
        # Other names have the attributes of the operator that they stand for.
        if real != name and real in set(registered()):
            continue
        for attribute, values in found.items():
            known = table.setdefault((name, attribute), (set(), set()))
            known[0].update(values)
            known[1].add(RELEASE)
    # What a newer release lists is complete, even if an older one reads attributes in a way of its own.
    for (name, attribute), (_, releases) in list(table.items()):
        newest = max((release for known, rows in table.items() if known[0] == name for release in rows[1]), key=RELEASES.index)
        if attribute == "*" and newest not in releases:
            del table[name, attribute]
    with open(TABLE, "w") as file:
        for (name, attribute), (values, releases) in sorted(table.items()):
            # A set that was open in a release is open.
            ordered = "-" if "-" in values else " ".join(sorted(values))
            file.write("\t".join([name, attribute, ordered, " ".join(sorted(releases, key=RELEASES.index))]) + "\n")


main()
