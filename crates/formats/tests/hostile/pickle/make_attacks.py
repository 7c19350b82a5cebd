"""Writes hostile pickles byte by byte; none is ever loaded here.

    python make_attacks.py OUT_DIR

Each file is named after the advisory that describes it, or after its effect. `index.json` records for
each what a reader that executes nothing must report: `error`, parts of its message (null for a
harmless file), and `calls`, which a scan must list. Needs only Python.
"""

import json
import os
import struct
import sys

CASES = []
OUT = None


def case(name, data, error, calls=(), harmless=False):
    with open(os.path.join(OUT, name), "wb") as file:
        file.write(data)
    entry = {"file": name, "calls": list(calls)}
    entry["error"] = None if harmless else (error if isinstance(error, list) else [error])
    CASES.append(entry)


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def short(value):
    data = value.encode()
    return b"\x8c" + bytes([len(data)]) + data


def glob(module, name):
    return "c{}\n{}\n".format(module, name).encode()


def stack_global(module, name):
    return short(module) + short(name) + b"\x93"


def call(module, name, *arguments):
    """Returns a REDUCE of a global with strings."""
    return glob(module, name) + b"(" + b"".join(text(a) for a in arguments) + b"tR"


def frame(data):
    return b"\x95" + struct.pack("<Q", len(data)) + data


HONEST = b"}" + text("epoch") + b"K\x03s"
P2, P4, P5 = b"\x80\x02", b"\x80\x04", b"\x80\x05"
ARRAY = (
    glob("numpy.core.multiarray", "_reconstruct") + glob("numpy", "ndarray") + b"K\x00\x85C\x01b\x87R(K\x01K\x02\x85"
    + glob("numpy", "dtype") + text("u1") + b"\x89\x88\x87R(K\x03" + text("|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89C\x02abtb"
)


def make_calls():
    """Calls described in advisories; an allow-list rejects all of them alike."""
    refused = "neither imported nor called"
    case("CVE-2025-32434-reduce.pdparams", P2 + call("os", "system", "id") + b".", [refused, "os.system"], ["os.system"])
    case("CVE-2024-0917-paddle-load.pdparams", P4 + stack_global("posix", "system") + short("id") + b"\x85R.", [refused, "posix.system"], ["posix.system"])
    case("CVE-2025-1716-pip-main.pdparams", P4 + stack_global("pip", "main") + b"]" + short("install") + b"a\x85R.", [refused, "pip.main"], ["pip.main"])
    case("CVE-2026-56315-uuid-popen.pdparams", P4 + stack_global("uuid", "_get_command_stdout") + short("id") + b"\x85R.", refused, ["uuid._get_command_stdout"])
    case("imaplib-stream.pdparams", P4 + stack_global("imaplib", "IMAP4_stream") + short("id") + b"\x85R.", refused, ["imaplib.IMAP4_stream"])
    case("CVE-2025-10157-submodule.pdparams", P4 + stack_global("asyncio.unix_events", "_UnixSubprocessTransport._start") + b")R.", refused, ["asyncio.unix_events._UnixSubprocessTransport._start"])
    case("CVE-2025-1889-wrong-extension.txt", P2 + call("os", "system", "id") + b".", [refused, "os.system"], ["os.system"])
    poc = P4 + frame(b"\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x13echo it is executed\x94\x85\x94R\x94.")
    case("paddle-rce-poc.pdparams", poc, [refused, "posix.system"], ["posix.system"])
    dotted = P4 + stack_global("builtins", "eval.__call__") + short("1") + b"\x85R."
    case("dotted-name.pdparams", dotted, refused, ["builtins.eval.__call__"])
    chain = call("builtins", "getattr", "os") + b"0" + glob("builtins", "getattr") + glob("os", "path") + text("join") + b"\x86R" + text("x") + b"\x85R."
    case("getattr-chain.pdparams", P2 + chain, refused, ["builtins.getattr", "os.path"])
    case("nested-in-state-dict.pdparams", P2 + b"}" + text("w") + ARRAY + b"s" + text("lr") + call("os", "system", "id") + b"s.", [refused, "os.system"], ["os.system", "numpy.ndarray"])
    case("import-alone.pdparams", P2 + b"}" + text("w") + glob("antigravity", "fly") + b"s.", [refused, "antigravity.fly"], ["antigravity.fly"])
    case("numpy-load.pdparams", P2 + call("numpy", "load", "x.npy") + b".", refused, ["numpy.load"])
    case("numpy-memmap-as-class.pdparams", P2 + ARRAY.replace(b"cnumpy\nndarray", b"cnumpy\nmemmap ") + b".", refused, ["numpy.memmap "])
    case("newobj.pdparams", P2 + glob("subprocess", "Popen") + text("id") + b"\x85\x81.", refused, ["subprocess.Popen"])
    case("newobj-ex.pdparams", P4 + glob("subprocess", "Popen") + b")}" + text("args") + text("id") + b"s\x92.", refused, ["subprocess.Popen"])
    case("inst.pdparams", P2 + b"(" + text("id") + b"ios\nsystem\n.", [refused, "os.system"], ["os.system"])
    case("extension-1.pdparams", P2 + b"\x82\x01)R.", [refused, "extension 1"], [".1"])
    case("extension-4.pdparams", P2 + b"\x84\xff\xff\xff\x7f)R.", [refused, "extension 2147483647"], [".2147483647"])
    case("persistent-id.pdparams", P2 + text("storage") + b"Q.", [refused, "persistent id"], ["."])
    case("build-on-a-class.pdparams", P2 + glob("collections", "OrderedDict") + b"}" + text("x") + b"K\x01sb.", "an object to give a state")
    case("build-setstate.pdparams", P2 + glob("collections", "OrderedDict") + b")R}" + text("x") + b"K\x01sb.", "OrderedDict", ["collections.OrderedDict"])
    case("build-calls-setstate.pdparams", P2 + glob("os", "x") + b")\x81" + text("id") + b"b.", refused, ["os.x"])


def make_hidden():
    """Calls whose results are discarded, so that the value of the pickle is harmless."""
    refused = "neither imported nor called"
    case("GHSA-mxhj-88fx-4pcv-obj-pop.pdparams", P2 + b"(" + glob("os", "system") + text("id") + b"o0" + HONEST + b".", [refused, "os.system"], ["os.system"])
    case("pop-hides-reduce.pdparams", P2 + call("os", "system", "id") + b"0" + HONEST + b".", refused, ["os.system"])
    case("pop-mark-hides-reduce.pdparams", P2 + b"(" + call("os", "system", "id") + b"1" + HONEST + b".", refused, ["os.system"])
    case("memo-hides-reduce.pdparams", P2 + call("os", "system", "id") + b"q\x000" + HONEST + b".", refused, ["os.system"])
    case("below-the-top-at-stop.pdparams", P2 + call("os", "system", "id") + HONEST + b".", refused, ["os.system"])
    memo = P4 + short("os") + b"\x940" + short("system") + b"\x940h\x00h\x01\x93" + short("id") + b"\x85R."
    case("stack-global-by-memo.pdparams", memo, [refused, "os.system"], ["os.system"])
    swap = P4 + short("collections") + b"q\x05" + short("OrderedDict") + b"q\x0600" + short("os") + b"q\x05" + b"0h\x05" + short("system") + b"\x93" + short("id") + b"\x85R."
    case("stack-global-by-memo-overwritten.pdparams", swap, refused, ["os.system"])
    dup = P4 + short("os") + b"2\x93."
    case("stack-global-by-dup.pdparams", dup, refused, ["os.os"])
    case("stack-global-of-no-texts.pdparams", P4 + b"K\x01K\x02\x93.", "a module and a name as strings")
    case("damaged-after-the-call.pdparams", P2 + call("os", "system", "id") + b"\xff\xff\xff", "an opcode of pickle protocols", ["os.system"])
    case("cut-after-the-call.pdparams", P2 + call("os", "system", "id"), "up to STOP", ["os.system"])
    case("import-by-a-line-that-is-torn.pdparams", P2 + b"cos\nsystem2", "a line feed", ["os.system"])
    case("stack-underflow-after-the-call.pdparams", P2 + call("os", "system", "id") + b"00000s.", "a value on the stack", ["os.system"])
    case("second-pickle.pdparams", P2 + HONEST + b"." + P2 + call("os", "system", "id") + b".", "the end of the file after the pickle", ["os.system"])
    case("second-pickle-of-protocol-0.pdparams", P2 + HONEST + b".cos\nsystem\n(S'id'\ntR.", "the end of the file after the pickle", ["os.system"])
    case("behind-junk.bin", b"\x00junk\xff" * 3 + P2 + call("os", "system", "id") + b".", "", ["os.system"])
    case("protocol-0.pdparams", b"cos\nsystem\n(S'id'\ntR.", "", ["os.system"])
    inner = P2 + call("os", "system", "id") + b"."
    case("pickle-in-bytes.pdparams", P4 + b"}" + text("x") + b"C" + bytes([len(inner)]) + inner + b"s.", None, [], harmless=True)
    case("pickle-loads-of-bytes.pdparams", P4 + stack_global("pickle", "loads") + b"C" + bytes([len(inner)]) + inner + b"\x85R.", refused, ["pickle.loads"])


def make_frames():
    """Frames that one reader honours and another does not."""
    body = short("os") + short("system") + b"\x93" + short("id") + b"\x85R."
    case("frame-ends-inside-an-opcode.pdparams", P4 + b"\x95" + struct.pack("<Q", 3) + body, "inside its frame", ["os.system"])
    case("frame-in-frame.pdparams", P4 + frame(frame(body)), "no frame inside", ["os.system"])
    case("frame-of-nothing.pdparams", P4 + frame(b"") + body, "neither imported", ["os.system"])
    case("frame-longer-than-the-file.pdparams", P4 + b"\x95" + struct.pack("<Q", 1 << 40) + body, "a frame (1099511627776 bytes)", ["os.system"])
    case("frame-of-all-bits.pdparams", P4 + b"\x95" + b"\xff" * 8 + body, "a frame", ["os.system"])
    case("frame-behind-a-frame.pdparams", P4 + frame(HONEST) + frame(b"."), None, harmless=True)
    case("argument-behind-its-frame.pdparams", P4 + frame(b"}\x8c") + b"\x01xK\x01s.", "inside its frame")


def make_eval():
    """`eval`, which PaddlePaddle itself writes in one form."""
    data = short("data")
    scope = b"}" + short("data") + ARRAY + b"s"
    e = stack_global("builtins", "eval")
    case("eval-as-paddle-writes-it.pdtensor", P4 + e + data + scope + b"\x86R.", None, ["builtins.eval"], harmless=True)
    evil = "eval('data', {'data': array})"
    calls = ["builtins.eval"]
    case("eval-another-text.pdtensor", P4 + e + short("__import__('os').system('id')") + scope + b"\x86R.", [evil, "__import__"], calls)
    case("eval-data-plus.pdtensor", P4 + e + short("data ") + scope + b"\x86R.", evil, calls)
    case("eval-without-scope.pdtensor", P4 + e + data + b"\x85R.", evil, calls)
    case("eval-another-value.pdtensor", P4 + e + data + b"}" + data + b"K\x01s\x86R.", evil, calls)
    case("eval-larger-scope.pdtensor", P4 + e + data + b"}(" + data + ARRAY + short("__builtins__") + b"}u\x86R.", evil, calls)
    case("eval-in-eval.pdtensor", P4 + e + data + b"}" + data + e + data + scope + b"\x86Rs\x86R.", evil, calls)
    case("eval-three-arguments.pdtensor", P4 + e + data + scope + b"}\x87R.", evil, calls)
    case("eval-by-obj.pdtensor", P4 + b"(" + e + data + scope + b"o.", evil, calls)
    case("eval-by-newobj.pdtensor", P4 + e + data + scope + b"\x86\x81.", evil, calls)
    case("eval-as-a-value.pdparams", P4 + b"}" + short("w") + e + b"s.", "by itself", calls)
    case("exec.pdtensor", P4 + stack_global("builtins", "exec") + data + scope + b"\x86R.", "neither imported", ["builtins.exec"])
    case("encode-another-codec.pdparams", P2 + call("_codecs", "encode", "x", "zlib") + b".", "encode(text, 'latin1')", ["_codecs.encode"])
    case("tuple-of-a-text.pdparams", P2 + call("builtins", "tuple", "abc") + b".", "tuple((name, array))", ["builtins.tuple"])


def make_sizes():
    """False sizes, counts and numbers."""
    u32, u64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
    case("text-longer-than-the-file.pdparams", P2 + b"X" + struct.pack("<I", u32) + b"abc.", "BINUNICODE (4294967295 bytes)")
    case("text-of-2-64-bytes.pdparams", P4 + b"\x8d" + struct.pack("<Q", u64) + b"abc.", "BINUNICODE8")
    case("bytes-longer-than-the-file.pdparams", P4 + b"\x8e" + struct.pack("<Q", 1 << 50) + b"abc.", "BINBYTES8")
    case("bytearray-longer-than-the-file.pdparams", P5 + b"\x96" + struct.pack("<Q", 1 << 62) + b"abc.", "BYTEARRAY8")
    case("string-of-negative-size.pdparams", P2 + b"T\xff\xff\xff\xffabc.", "a nonnegative size")
    case("integer-of-negative-size.pdparams", P2 + b"\x8b\xff\xff\xff\xffabc.", "a nonnegative size")
    case("integer-of-2-gib.pdparams", P2 + b"\x8b\xff\xff\xff\x7fabc.", "LONG4")
    case("integer-of-64-kib.pdparams", P2 + b"\x8b" + struct.pack("<i", 65536) + b"\x01" * 65536 + b".", "an integer of at most 1024 bytes")
    case("digits-without-end.pdparams", P2 + b"L" + b"9" * 100000 + b"L\n.", "a number of at most 1024 digits")
    case("memo-number-of-32-bits.pdparams", P2 + HONEST + b"r\xff\xff\xff\xff0j\xff\xff\xff\xff.", None, harmless=True)
    case("memo-number-of-64-bits.pdparams", P2 + HONEST + b"p9223372036854775807\n.", None, harmless=True)
    case("memo-number-beyond.pdparams", P2 + HONEST + b"p99999999999999999999\n.", "a nonnegative integer")
    case("memo-number-negative.pdparams", P2 + HONEST + b"p-1\n.", "a nonnegative integer")
    case("memo-of-nothing.pdparams", P2 + b"h\x07.", "memo entry 7")
    case("protocol-255.pdparams", P2 + b"\x80\xff" + HONEST + b".", "a pickle protocol from 0 to 5")
    case("buffer-out-of-band.pdparams", P5 + b"\x97.", "out-of-band")
    case("nothing-before-stop.pdparams", P2 + b".", "a value on the stack for STOP")
    case("mark-before-stop.pdparams", P2 + b"}(.", "a value on the stack for STOP")
    case("below-the-mark.pdparams", P2 + b"}(K\x01s.", "a value on the stack for SETITEM")
    case("mark-missing.pdparams", P2 + b"}u.", "a mark on the stack for SETITEMS")
    case("odd-number-of-items.pdparams", P2 + b"}(K\x01u.", "keys and values in pairs")
    case("key-that-is-a-list.pdparams", P2 + b"}]K\x01s.", "a hashable key")
    case("key-that-is-a-dict.pdparams", P2 + b"}(}K\x01u.", "a hashable key")
    case("key-twice.pdparams", P2 + b"}(" + text("a") + b"K\x01" + text("a") + b"K\x02u.", ["unique keys", "`a` twice"])
    case("append-to-a-tuple.pdparams", P2 + b")K\x01a.", "a list to append to")
    case("build-on-a-tuple.pdparams", P2 + b")}b.", "an object to give a state")
    case("reduce-without-a-tuple.pdparams", P2 + glob("collections", "OrderedDict") + b"]R.", "arguments in a tuple", ["collections.OrderedDict"])
    case("text-that-is-no-utf-8.pdparams", P2 + b"}X\x02\x00\x00\x00\xc3\x28K\x01s.", "valid text in its encoding")
    case("no-line-feed.pdparams", P2 + b"I12345", "a line feed")
    case("number-in-words.pdparams", P2 + b"Itwelve\n.", "decimal digits")


def make_arrays():
    """Arrays with false descriptions."""
    replaced = lambda old, new: P2 + b"}" + text("w") + ARRAY.replace(old, new) + b"s."
    calls = ["numpy.core.multiarray._reconstruct"]
    case("array-too-large.pdparams", replaced(b"K\x02\x85", b"J\xff\xff\xff\x7f\x85"), "2147483647 bytes, uint8", calls)
    case("array-too-small.pdparams", replaced(b"K\x02\x85", b"K\x01\x85"), "1 bytes, uint8", calls)
    case("array-negative.pdparams", replaced(b"K\x02\x85", b"J\xff\xff\xff\xff\x85"), "nonnegative dims", calls)
    huge = b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
    case("array-product-of-2-126.pdparams", replaced(b"K\x02\x85", huge + huge + b"\x86"), "a size that fits 64 bits", calls)
    case("array-empty-and-huge.pdparams", replaced(b"K\x02\x85", b"K\x00" + huge + b"\x86").replace(b"C\x02ab", b"C\x00"), None, calls, harmless=True)
    case("array-of-objects.pdparams", replaced(text("u1"), text("O8")), "a numeric element type", calls)
    case("array-of-text.pdparams", replaced(text("u1"), text("U2")), "a numeric element type", calls)
    case("array-of-65-dimensions.pdparams", replaced(b"K\x02\x85", b"(" + b"K\x01" * 65 + b"t"), "at most 64 nonnegative dims", calls)
    case("array-without-state.pdparams", P2 + b"}" + text("w") + ARRAY[: ARRAY.index(b"R(") + 1] + b"s.", "without one state", calls)
    two = ARRAY + ARRAY[ARRAY.index(b"R(") + 1 :]
    case("array-of-two-states.pdparams", P2 + b"}" + text("w") + two + b"s.", "without one state", calls)
    case("array-version-9.pdparams", replaced(b"(K\x01K\x02", b"(K\x09K\x02"), "version 1", calls)


def make_bombs():
    """Small files that expand to large values."""
    laughs = P2 + b"]q\x00" + text("ha") + b"a0" + b"".join(
        b"]" + bytes([ord("q"), n + 1]) + b"(" + b"h" + bytes([n]) + b"h" + bytes([n]) + b"e0" for n in range(60)
    ) + b"h\x3c."
    case("billion-laughs-memo.pdparams", laughs, "shared excessively")
    doubled = P2 + b"]" + b"2\x86" * 64 + b"."
    case("billion-laughs-dup.pdparams", doubled, "shared excessively")
    keys = P2 + b"}" + text("k" * 1000) + b"q\x00" + b"K\x01s0" + b"](" + b"".join(b"}h\x00K\x01s" for _ in range(100000)) + b"e."
    case("long-key-again-and-again.pdparams", keys, "shared excessively")
    many = P2 + b"}(" + text("a") + b"C\xff" + b"x" * 255 + b"q\x00" + b"".join(
        text(str(n)) + b"h\x00" for n in range(40000)) + b"u."
    case("bytes-again-and-again.pdparams", many, "shared excessively")
    array = P4 + b"}(" + text("a") + ARRAY.replace(b"K\x02\x85", b"J" + struct.pack("<i", 60000) + b"\x85").replace(
        b"C\x02ab", b"B" + struct.pack("<I", 60000) + b"\x00" * 60000) + b"q\x00" + b"".join(
        text(str(n)) + b"h\x00" for n in range(5000)) + b"u."
    case("tensor-again-and-again.pdparams", array, "shared excessively", ["numpy.dtype"])
    case("deep-lists.pdparams", P2 + b"]" * 100000 + b"a" * 99999 + b".", "values at most")
    case("deep-tuples.pdparams", P2 + b")" + b"\x85" * 100000 + b".", "values at most")
    case("deep-dicts.pdparams", P2 + (b"}" + text("a")) * 30000 + b"N" + b"s" * 30000 + b".", "values at most")
    case("marks-without-end.pdparams", P2 + b"(" * 100000, "up to STOP")
    case("list-in-itself.pdparams", P2 + b"]q\x00h\x00a.", "acyclic values")
    case("dict-in-itself.pdparams", P2 + b"}q\x00" + text("a") + b"h\x00s.", "acyclic values")
    case("tuple-in-its-list.pdparams", P2 + b"]q\x00h\x00\x85a.", "acyclic values")
    case("object-in-itself.pdparams", P2 + glob("collections", "OrderedDict") + b")Rq\x00" + text("a") + b"h\x00s.", "acyclic values", ["collections.OrderedDict"])


def main(out_dir):
    global OUT
    OUT = out_dir
    for make in (make_calls, make_hidden, make_frames, make_eval, make_sizes, make_arrays, make_bombs):
        make()
    with open(os.path.join(out_dir, "index.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry) for entry in CASES) + "\n]\n")
    print("{} files".format(len(CASES)))


if __name__ == "__main__":
    main(sys.argv[1])
