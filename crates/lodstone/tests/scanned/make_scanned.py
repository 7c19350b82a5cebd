"""Writes files that execute code when Python loads them, and benign files, for `lodstone scan`.

    python make_scanned.py

Writes `attacks/` and `honest/` beside this script, with the same bytes in each run. Attacks call `posix.mkdir`.
This script only loads pickles with unpicklers that import nothing, to check that each attack requests an import that no
benign pickle needs. Requires only Python 3.8 or later.
"""

import bz2
import datetime
import decimal
import collections
import gzip
import io
import json
import lzma
import os
import pathlib
import pickle
import shutil
import struct
import tarfile
import zipfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
WHEN = (1980, 1, 1, 0, 0, 0)
CALL = b"cposix\nmkdir\n(S'called'\ntR."
CALL4 = b"\x80\x04\x8c\x05posix\x8c\x05mkdir\x93\x8c\x06called\x85R."
EVAL = b"cbuiltins\neval\n(S'data'\n(S'data'\n%bdtR"
TORCH_MAGIC = b"L119547037146038801333356L\n.I1001\n.}."
DOWN = b"(S'called'\ntR."


def evaluated(value):
    return EVAL % value


# Pickles that import or call something that tensors do not need.
PICKLES = {
    "protocol-0": CALL,
    "protocol-4": CALL4,
    "obj": b"(cposix\nmkdir\nS'called'\no.",
    "inst": b"(S'called'\niposix\nmkdir\n.",
    "newobj": b"\x80\x02cposix\nmkdir\n(S'called'\nt\x81.",
    "no-stop": CALL[:-1],
    "damaged-behind": CALL[:-1] + b"0\xff\xff",
    "state-of-a-number": b"I1\n(N}tb0" + CALL,
    "state-that-is-empty": b"I1\n}b0" + CALL,
    "appended-nothing": b"I1\n(e0" + CALL,
    "added-nothing": b"\x80\x04K\x01(\x900" + CALL4[2:],
    "view-of-bytes": b"\x80\x05\x8c\x05posix\x8c\x05mkdir\x93\x8e" + bytes(8) + b"\x980\x8c\x06called\x85R.",
    "view-under-names": b"\x80\x05\x8e" + bytes(8) + b"\x98\x8c\x05posix\x8c\x05mkdir\x93\x8c\x06called\x85R.",
    "many-before": b"N." * 300 + CALL,
    "one-before": b"N." + CALL4,
    "protocols-before": b"\x80\x02N.\x80\x02N." + CALL,
    "torch-before": TORCH_MAGIC + CALL,
    "bytes-behind": CALL4 + b"\xff" * 60,
    "module-by-eval": evaluated(b"S'posix'\n") + b"S'mkdir'\n\x93" + DOWN,
    "name-by-eval": b"S'posix'\n" + evaluated(b"S'mkdir'\n") + b"\x93" + DOWN,
    "both-by-eval": evaluated(b"S'posix'\n") + evaluated(b"S'mkdir'\n") + b"\x93" + DOWN,
    "eval-of-code": b"cbuiltins\neval\n(S'__import__(\"os\")'\n(dtR.",
    "eval-of-more": b"cbuiltins\neval\n(S'data'\n(S'data'\nNS'x'\nNdtR.",
    "module-by-encode": b"c_codecs\nencode\n(S'cbfvk'\nS'rot13'\ntRS'mkdir'\n\x93" + DOWN,
    "module-by-str": b"cbuiltins\nstr\n(S'posix'\ntRS'mkdir'\n\x93" + DOWN,
    "module-by-memo": b"S'numpy'\np0\n0S'posix'\np0\n0g0\nS'mkdir'\n\x93" + DOWN,
    "memo-of-large-number": b"S'posix'\np99999999999999999999\n0S'mkdir'\n0"
    b"g99999999999999999999\nS'mkdir'\n\x93" + DOWN,
    "memo-with-a-zero": b"S'posix'\np1\x00 2\n0g1\nS'mkdir'\n\x93" + DOWN,
    "memo-with-underscores": b"S'posix'\np1_0\n0g10\nS'mkdir'\n\x93" + DOWN,
    "number-in-another-base": b"I0x1F\n0" + CALL,
    "number-with-a-zero": b"I1\x00x\n0" + CALL,
    "getattr": b"\x80\x04cbuiltins\ngetattr\n(cposix\nmkdir\nS'__call__'\ntRS'called'\n\x85R.",
    "state-that-calls": b"ccollections\nOrderedDict\n(tR(S'__setstate__'\ncbuiltins\neval\ndbS'1'\nb.",
    "class-that-is-changed": b"\x80\x02ctorch.storage\nTypedStorage\nN}U\x05_hashK\x01s\x86b.",
    "factory": b"ccollections\ndefaultdict\n(cbuiltins\neval\ntR.",
    "reconstructor": b"ccopyreg\n_reconstructor\n(cbuiltins\nint\ncposix\nmkdir\nS'called'\ntR.",
    "path-through-names": b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.__init__\x93.",
    "memory-map": b"cnumpy\nmemmap\n(S'called'\nS'uint8'\nS'w+'\nI0\nI1\ntR.",
    "pickle-in-a-pickle": b"\x80\x04cpickle\nloads\nC" + bytes([len(CALL)]) + CALL + b"\x85R.",
    "torch-script": b"\x80\x04c__torch__\nrun\n(tR.",
    "load-from-bytes": b"\x80\x04ctorch.storage\n_load_from_bytes\nC\x01.\x85R.",
    "joblib": b"\x80\x04cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81.",
    "python-2": b"c__builtin__\nexecfile\n(S'called'\ntR.",
    "extension": b"\x80\x02\x82\x01)R.",
}


def archive(members, method=zipfile.ZIP_STORED, comment=b""):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writer:
        writer.comment = comment
        for name, data in members:
            info = zipfile.ZipInfo(name, WHEN)
            info.compress_type = method
            writer.writestr(info, data)
    return out.getvalue()


def header(descr, shape, blanks=0):
    text = "{'descr': %s%s, 'fortran_order': False, 'shape': %s, }" % (" " * blanks, descr, shape)
    text = text.encode() + b" " * (-(len(text) + 11) % 64) + b"\n"
    if len(text) > 65535:
        return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def array(pickled, descr="'|O'", blanks=0):
    return header(descr, "(1,)", blanks) + pickled


def tape(members, change=None):
    """Returns a tape archive; `change` modifies a header, given the sum of its bytes."""
    out = b""
    for name, data in members:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        block = info.tobuf(tarfile.USTAR_FORMAT)
        out += (change(block) if change else block) + data + bytes(-len(data) % 512)
    return out + bytes(1024)


def summed(block, signed):
    """Returns a header with its checksum, which differs for signed and unsigned bytes if some are above 127."""
    parts = struct.unpack("148%s8x356%s" % (("b", "b") if signed else ("B", "B")), block)
    return block[:148] + b"%06o\0 " % (256 + sum(parts)) + block[156:]


def signed(block):
    return summed(b"pickle\0\xff\xfe\xfd" + block[10:], True)


def prefixed(block):
    size = int(block[124:135], 8)
    return summed(block[:124] + (b"0o%o" % size).ljust(12, b"\0") + block[136:], False)


def underscored(block):
    size = b"%011o" % int(block[124:135], 8)
    return summed(block[:124] + size[1:4] + b"_" + size[4:] + b"\0" + block[136:], False)


def torch(pickled, *others):
    return archive([("archive/data.pkl", pickled), ("archive/version", b"3\n"), *others])


def safetensors():
    text = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(8)


def flagged(data):
    at = data.index(b"PK\x03\x04") + 6
    return data[:at] + b"\x01" + data[at + 1:]


def alone(data):
    return lzma.compress(data, format=lzma.FORMAT_ALONE)


def zstd(data):
    """Returns a frame of Zstandard with one block that is not compressed."""
    sizes = struct.pack("<I", len(data)) + struct.pack("<I", len(data) << 3 | 1)[:3]
    return b"\x28\xb5\x2f\xfd\xa0" + sizes + data


def lz4(data):
    """Returns a frame of LZ4 with one block that is not compressed."""
    size = struct.pack("<I", len(data) | 1 << 31)
    return b"\x04\x22\x4d\x18\x60\x40\x82" + size + data + bytes(4)


def gap(data):
    """Returns an archive with a pickle between a member and the directory."""
    at = data.index(b"PK\x01\x02")
    end = data[:-6] + struct.pack("<I", at + len(CALL)) + data[-2:]
    return data[:at] + CALL + end[at:]


NUMBERS = header("'<f4'", "(2,)") + bytes(8)

# Containers of a pickle. CPython accepts some bytes before it as part of a pickle.
CONTAINERS = {
    "README.md": lambda p: p,
    "model.safetensors": lambda p: p,
    "picture.png": lambda p: b"\x89PNG\r\n" + p,
    "model.onnx": lambda p: p,
    "archive.pt": torch,
    "deflated.pt": lambda p: archive([("archive/data.pkl", p)], zipfile.ZIP_DEFLATED),
    "storage.pt": lambda p: torch(b"\x80\x02N.", ("archive/data/0", p)),
    "named-storage.pt": lambda p: torch(
        b"\x80\x02(U\x07storagectorch\nByteStorage\nU\x010U\x03cpuK%cNtQ." % len(p), ("archive/data/0", plausible(p))
    ),
    "named-otherwise.zip": lambda p: archive([("data.pkl2", p)]),
    "behind-bytes.pt": lambda p: b"#!x\n" + torch(p),
    "flag-of-encryption.pt": lambda p: flagged(torch(p)),
    "in-an-archive.zip": lambda p: archive([("inner.pt", torch(p))]),
    "deep-behind-bytes.zip": lambda p: archive(
        [("a.zip", archive([("b.zip", b"#!x\n" + archive([("c.pt", torch(p))]))]))]
    ),
    "in-the-comment.zip": lambda p: archive([("version", b"3\n")], comment=p + b"\x00"),
    "in-a-gap.zip": lambda p: gap(archive([("version", b"3\n")])),
    "objects.npy": array,
    "named-object.npy": lambda p: array(p, "'object'"),
    "long-header.npy": lambda p: array(p, "'object'", 600),
    "longest-header.npz": lambda p: archive([("a.npy", array(p, "'|O'", 2 << 20))], zipfile.ZIP_DEFLATED),
    "structure.npy": lambda p: array(p, "[('x', '<f4'), ('y', '|O')]"),
    "behind-an-array.npy": lambda p: NUMBERS + p,
    "objects.npz": lambda p: archive([("a.npy", array(p))]),
    "pickle.npz": lambda p: archive([("a.npy", p)]),
    "tape.tar": lambda p: tape([("pickle", p)]),
    "signed-sum.tar": lambda p: tape([("pickle", p)], signed),
    "prefixed-size.tar": lambda p: tape([("pickle", p)], prefixed),
    "underscored-size.tar": lambda p: tape([("pickle", p)], underscored),
    "second.tar": lambda p: tape([("version", b"3\n")])[:1024] + tape([("pickle", p)], signed),
    "behind-the-end.tar": lambda p: tape([("version", b"3\n")]) + tape([("pickle", p)]),
    "gzip.pkl.gz": lambda p: gzip.compress(p, mtime=0),
    "gzip-twice.gz": lambda p: gzip.compress(b"N.", mtime=0) + gzip.compress(p, mtime=0),
    "behind-gzip.gz": lambda p: gzip.compress(b"text", mtime=0) + p,
    "zlib.sav": zlib.compress,
    "bzip2.pkl.bz2": bz2.compress,
    "xz.pkl.xz": lzma.compress,
    "lzma": alone,
    "zstd.pkl.zst": zstd,
    "lz4.pkl.lz4": lz4,
    "bzip2-twice.bz2": lambda p: bz2.compress(b"N.") + bz2.compress(p),
    "zstd-twice.zst": lambda p: zstd(b"N.") + zstd(p),
    "xz-in-an-archive.zip": lambda p: archive([("readme", lzma.compress(p))]),
    "lz4-in-zstd.bin": lambda p: zstd(lz4(p)),
    "behind-zstd.zst": lambda p: zstd(b"text") + p,
    "behind-lzma": lambda p: alone(b"text") + p,
    "damaged-lzma-storage.pt": lambda p: stored("0", alone(p)[:-3]),
    "value-in-old-torch.pth": lambda p: old_torch(bytes(8), p),
    "views-in-old-torch.pth": lambda p: old_torch(bytes(8), views=p),
    "behind-old-torch.pth": lambda p: old_torch(bytes(8), behind=p),
    "storage-in-old-torch.pth": lambda p: old_torch(aligned(plausible(p))),
    "compressed-in-old-torch.pth": lambda p: old_torch(aligned(zlib.compress(p))),
    "storage-in-a-package.pt": lambda p: package(p),
    "value-in-a-package.pt": lambda p: package(b"1234", p),
    "compressed-in-a-package.pt": lambda p: package(lzma.compress(p)),
    "behind.safetensors": lambda p: safetensors() + p,
    "image.h5": lambda p: b"\x89HDF\r\n\x1a\n" + p,
}
HELD = {"p0": CALL, "p4": CALL4, "unsound": b"I1\n(N}tb0" + CALL}


def frame(size):
    return b"\x95" + struct.pack("<Q", size)


def opcodes(count):
    return b"N0" * (count // 2)


# Pickles that readers of CPython read differently: some of them take the call for the contents of a string.
TEXT = b"B" + struct.pack("<I", 32) + CALL4[2:].ljust(32, b"N")
FRAMES = {
    "crossed": b"\x80\x05" + frame(2) + TEXT + b".",
    "crossed-by-a-line": b"\x80\x05" + frame(3) + b"Vtext\n.",
    "crossed-by-its-size": b"\x80\x05" + frame(len(opcodes(8)) + 4) + opcodes(8) + frame(1) + b"N.",
    "nested": b"\x80\x05" + frame(40) + opcodes(8) + frame(4) + b"N0N0" + opcodes(18) + b"N.",
    "between": b"\x80\x05" + frame(8) + opcodes(8) + opcodes(8) + frame(8) + opcodes(6) + b"N.",
    "before": b"\x80\x05" + opcodes(8) + frame(8) + opcodes(6) + b"N.",
    "behind": b"\x80\x05" + frame(8) + opcodes(8) + opcodes(8) + b"N.",
    "ended-early": b"\x80\x05" + frame(40) + b"N." + CALL4[:38].ljust(38, b"N"),
    "far-behind": b"\x80\x05NV" + b"a" * (8192 * 16 - 17) + b"\n0(" + frame(2) + b"B\x07\x01\0\0\0\0"
    + CALL[:-1].ljust(261, b"N") + b"1.",
}

ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
OBJECTS = b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI63\ntb"
BYTES = b"cnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"
# A structure whose flags deny that it has objects.
HIDDEN = (
    b"cnumpy\ndtype\n(S'V8'\nI0\nI1\ntR(I3\nS'|'\nN(S'x'\nt(S'x'\n(" + OBJECTS + b"I0\ntdI8\nI1\nI0\ntb"
)
INTERFACE = b"(S'__array_interface__'\n(S'data'\n(I4096\nI00\ntS'shape'\n(I8\ntS'typestr'\nS'|u1'\ndd"

# Pickles that import only names of honest pickles, and use them for something else: to read or write memory, or to call what they
# were given.
FORMS = {
    "called-array": b"cnumpy\nndarray\n((I1\ntS'O'\ntR.",
    "array-over-a-buffer": b"cnumpy\nndarray\n((I1\ntS'u8'\ncnumpy\nndarray\n((I1\ntS'O'\ntRtR.",
    "bytes-as-objects": ARRAY + b"(I1\n(I1\nt" + OBJECTS + b"I00\nS'12345678'\ntb.",
    "bytes-as-hidden-objects": ARRAY + b"(I1\n(I1\nt" + HIDDEN + b"I00\nS'12345678'\ntb.",
    "bytes-as-instances": ARRAY + b"(I1\n(I1\ntcnumpy\ndtype\n(c__builtin__\ndict\ntRI00\nS'12345678'\ntb.",
    "scalar-of-objects": b"cnumpy.core.multiarray\nscalar\n(" + OBJECTS + b"S'12345678'\ntR.",
    "buffer-of-objects": b"cnumpy.core.numeric\n_frombuffer\n(S'12345678'\n" + OBJECTS + b"(I1\ntS'C'\ntR.",
    "called-masked-array": b"cnumpy.ma.core\nMaskedArray\n(" + ARRAY + b"tR.",
    "masked-objects": b"cnumpy.ma.core\n_mareconstruct\n(cnumpy.ma.core\nMaskedArray\ncnumpy\nndarray\n(I0\nt"
    b"S'b'\ntR(I1\n(I1\nt" + OBJECTS + b"I00\nS'12345678'\nS'0'\nNtb.",
    "place-in-memory": b"ccopyreg\n_reconstructor\n(ctorch.nn.modules.module\nModule\nc__builtin__\nobject\nNtR"
    + INTERFACE + b"b.",
    "place-in-slots": b"ccopyreg\n_reconstructor\n(ctorch.nn.modules.module\nModule\nc__builtin__\nobject\nNtR(N"
    + INTERFACE + b"tb.",
    "item-of-an-array": ARRAY + b"(I1\n(I8\nt" + BYTES + b"I00\nS'12345678'\ntbI0\nI1\ns.",
    "items-of-a-path": b"cpathlib\nPurePath\n(S'a'\ntR(I1\ne.",
    "module-as-a-value": b"ctorch.nn.modules.activation\nF\n.",
    "function-as-a-value": b"(lctorch._utils\n_rebuild_tensor_v2\na.",
    "function-that-is-dropped": b"ctorch.jit._pickle\nrestore_type_tag\n0N.",
    "function-as-a-factory": b"ccollections\ndefaultdict\n(ctorch._utils\n_rebuild_tensor\ntR.",
    "function-among-arguments": b"((ctorch._utils\n_rebuild_tensor\ntp0\ncpathlib\nPurePath\ng0\nRt.",
    "tensor-of-texts": b"ctorch._utils\n_rebuild_tensor_v2\n(S'a'\nI0\n(I1\nt(I1\ntI00\nNtR.",
    "tensor-that-calls-itself": b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._tensor\n_rebuild_from_type_v2\n"
    b"ctorch\nTensor\n(ctorch._utils\n_rebuild_tensor\nctorch\nTensor\n(tNtNtR.",
    "tensor-of-a-class": b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch.nn.modules.linear\nLinear\nctorch\nTensor\n(tNtR.",
    "attribute-of-functions": b"c__builtin__\ngetattr\n(ctorch._C\n_VariableFunctionsClass\nS'__subclasses__'\ntR.",
    "attribute-of-a-value": b"c__builtin__\ngetattr\n(S'a'\nS'join'\ntR.",
    "layer-with-arguments": b"ctorch.nn.modules.linear\nLinear\n(I1\nI1\ntR.",
    "generator-of-a-function": b"cnumpy.random._pickle\n__bit_generator_ctor\n(ctorch.nn.functional\nrelu\ntR.",
    "many-zeros": b"c__builtin__\nbytearray\n(I1000000000\ntR.",
}


def special(name, data, mode=0, extra=b""):
    """Returns an archive with a member of another mode, or with more fields."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writer:
        info = zipfile.ZipInfo(name, WHEN)
        info.create_system, info.external_attr, info.extra = 3, mode << 16, extra
        writer.writestr(info, data)
    return out.getvalue()


def persistent(value, storage=b"FloatStorage"):
    """Returns a PyTorch pickle of one storage, whose class is replaced by another."""
    out = io.BytesIO()

    class Pickler(pickle._Pickler):
        def persistent_id(self, obj):
            return obj if isinstance(obj, tuple) and obj[:1] == ("storage",) else None

        def save_global(self, obj, name=None):
            self.write(b"ctorch\n" + storage + b"\n")

        dispatch = dict(pickle._Pickler.dispatch)
        dispatch[type] = save_global

    Pickler(out, 2).dump(value)
    return out.getvalue()


def stored(key, data):
    """Returns an archive of PyTorch whose only storage is other data."""
    pickled = persistent([("storage", float, key, "cpu", len(data))], b"ByteStorage")
    return torch(pickled, ("archive/data/" + key, data))


def old_torch(elements, value=None, views=b"\x80\x02].", behind=b""):
    """Returns a tape archive of PyTorch 0.1.9 with one tensor, whose storage has these elements."""
    if value is None:
        value = b"\x80\x02ccollections\nOrderedDict\n)R(X\x01\0\0\0wX\x01\0\0\x002Qu."
    count = len(elements) // 4
    storage = b"\x80\x02(K\x01X\x03\0\0\0cpuctorch\nFloatStorage\nt."
    tensor = b"\x80\x02(K\x02K\x01ctorch\nFloatTensor\nt." + struct.pack("<iiqqq", 1, 0, count, 1, 0)
    one = pickle.dumps(1, 2)
    members = [
        ("sys_info", pickle.dumps({"protocol_version": 1000, "little_endian": True}, 2)),
        ("pickle", value),
        ("tensors", one + tensor),
        ("storages", one + storage + struct.pack("<q", count) + elements + views + behind),
    ]
    return tape(members)


def plausible(data):
    """Returns a pickle whose imports have plausible names; in the storages of a model, others are taken for chance."""
    for name in asked(data):
        if not "".join(map(str, name)).replace(".", "").replace("_", "").isalnum():
            raise ValueError("the imports have names that no module has")
    return data


def aligned(data):
    return data + bytes(-len(data) % 4)


def package(storage, value=None):
    """Returns an archive of `torch.package` with one storage."""
    if value is None:
        value = b"\x80\x03(X\x07\0\0\0storagectorch\nByteStorage\nK\0X\x03\0\0\0cpuJ%stQ." % struct.pack("<i", len(storage))
    members = [
        ("p/.data/0.storage", storage),
        ("p/model/model.pkl", value),
        ("p/.data/extern_modules", b"torch\n"),
        ("p/.data/version", b"6\n"),
        ("p/byteorder", b"little"),
    ]
    return archive(members)


def device(block):
    return summed(block[:156] + b"3" + block[157:], False)


def padded(text):
    """Returns safetensors in front of the signature of another format, where readers of that one look for it."""
    text += b" " * (496 - 8 - len(text))
    return struct.pack("<Q", len(text)) + text + bytes(16) + b"\x89HDF\r\n\x1a\n" + bytes(8)


CODE = b"""class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    %s
    return x
"""


def script(line):
    """Returns an archive of TorchScript whose `forward` has this line."""
    return archive([
        ("m/data.pkl", b"\x80\x02c__torch__\nM\nq\x00)\x81}(X\x08\0\0\0trainingq\x01\x89ub."),
        ("m/code/__torch__.py", CODE % line.encode()), ("m/constants.pkl", b"\x80\x02)."), ("m/version", b"3\n"),
    ])


SYMBOL = json.dumps({
    "nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "Custom", "name": "c", "inputs": [[0, 0, 0]]}],
    "arg_nodes": [0], "heads": [[1, 0, 0]],
}).encode()
KERAS = json.dumps({
    "module": "keras", "class_name": "Sequential",
    "config": {"layers": [{"class_name": "Lambda", "config": {"function": "called"}}]},
}).encode()

# Files that other programs than an unpickler act on.
OTHERS = {
    "link.zip": special("weights", b"../../called", 0o120777),
    "device.zip": special("weights", b"", 0o020666),
    "second-name.zip": special("weights", CALL, extra=struct.pack("<HHBL", 0x7075, 12, 1, 0) + b"data.pk"),
    "device.tar": tape([("weights", b"")], device),
    "array-as-a-storage.pt": stored("0", array(CALL)),
    "tape-as-a-storage.pt": stored("0", tape([("pickle", CALL)])),
    "storage-with-a-name.pt": stored("a.pkl", CALL),
    "compressed-storage.pt": stored("0", gzip.compress(CALL, mtime=0)),
    "module-of-a-program.pt": torch(b"c__torch__\nf\n)R.", ("archive/code/x.py", b"")),
    "dotted-name.pt": torch(
        b"\x80\x04\x8c\x11torch.jit._pickle\x8c\x19build_intlist.__globals__\x93.", ("archive/code/x.py", b"")
    ),
    "package.zip": archive([
        ("p/model.pkl", b"ccollections\nOrderedDict\n)R."), ("p/collections.py", b"called = 1\n"),
        ("p/.data/extern_modules", b"\n"), ("p/.data/version", b"6\n"),
    ]),
    "hdf5-inside.safetensors": padded(json.dumps({"w": {"dtype": "U8", "shape": [32], "data_offsets": [0, 32]}}).encode()),
    "behind-a-symbol.json": SYMBOL + b"\n{}",
    "keras.json": KERAS,
    "alias.pt": script("f = torch.save"),
    "passed-on.pt": script("f = torch"),
    "method-as-a-value.pt": script("f = x.save"),
    "method-in-a-list.pt": script("f = [x.save][0]"),
    "getattr-by-another-name.pt": script("f = getattr"),
    "computed-name.pt": script('f = getattr(x, "sa" + "ve")'),
    "result-that-is-called.pt": script('getattr(getattr(x, "T"), "save")("called")'),
    "context.pt": script("with torch.save(x):\n      y = x"),
    "operator-of-a-namespace.pt": script("torch.ops.namespace.run(x)"),
    "by-name.pt": script('getattr(x, "save")("called")'),
}


class Recorder(pickle._Unpickler):
    """An unpickler that imports nothing."""

    asked = None

    def find_class(self, module, name):
        self.asked.append((module, name))
        return Nothing

    def get_extension(self, code):
        self.asked.append(("extension", code))
        self.append(Nothing)

    def persistent_load(self, _):
        return Nothing()


class CRecorder(pickle.Unpickler):
    """CPython's unpickler in C, which also imports nothing."""

    asked = None

    def find_class(self, module, name):
        self.asked.append((module, name))
        return Nothing

    def persistent_load(self, _):
        return Nothing()


class Nothing:
    """Accepts every call, and does nothing."""

    def __new__(cls, *_, **__):
        return object.__new__(cls)

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return "posix"

    def __setstate__(self, _):
        pass

    append = extend = add = __setstate__

    def __setitem__(self, *_):
        pass


def asked(data):
    """Returns the imports that both unpicklers of CPython request."""
    names = []
    for recorder in (Recorder, CRecorder):
        file = io.BytesIO(data)
        while True:
            unpickler = recorder(file)
            unpickler.asked = names
            try:
                unpickler.load()
            except Exception:
                break
    return names


def values():
    """Returns harmless values that users pickle beside tensors."""
    return {
        "dates": [datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc), datetime.timedelta(3)],
        "paths": [pathlib.PurePosixPath("a/b"), pathlib.PurePosixPath("/etc/x")],
        "slices": [slice(1, 2), range(10), complex(1, 2), frozenset([1])],
        "collections": [
            collections.defaultdict(list, {"a": [1]}),
            collections.deque([1, 2], 3),
            collections.Counter("abca"),
            collections.OrderedDict(a=1),
        ],
        "numbers": [decimal.Decimal("1.5"), 10**30, 1.5, True, None, b"bytes", bytearray(b"x")],
        "texts": {"a": "b", "\u00e9": ["x"] * 3},
    }


MASKED = (
    b"\x80\x02cnumpy.ma.core\n_mareconstruct\n(cnumpy.ma.core\nMaskedArray\ncnumpy\nndarray\nK\x00\x85"
    b"U\x01btR(K\x01K\x02\x85cnumpy\ndtype\nU\x02i8K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xff"
    b"J\xff\xff\xff\xffK\x00tb\x89U\x10" + bytes(16) + b"U\x02\x00\x01Ntb."
)

# A generator of random numbers, an activation, and a layer.
RANDOM = (
    b"cnumpy.random._pickle\n__randomstate_ctor\n(cnumpy.random._pickle\n__bit_generator_ctor\n(S'MT19937'\ntR"
    b"cnumpy.random._pickle\n__bit_generator_ctor\ntR(S'bit_generator'\nS'MT19937'\nS'gauss'\nF0.0\n"
    b"S'has_gauss'\nI0\ndb."
)
VALUES = b"(ctorch.nn.functional\nrelu\nc__builtin__\ngetattr\n(ctorch._C\n_VariableFunctionsClass\nS'tanh'\ntRl."
LAYER = (
    b"\x80\x02ctorch.nn.modules.activation\nReLU\n)\x81}(X\x08\0\0\0training\x89X\x08\0\0\0_buffers"
    b"ccollections\nOrderedDict\n)Rub."
)
SCALAR_ARRAY = ARRAY + b"(I1\n(I1\ntcnumpy\ndtype\n(cnumpy\nfloat64\ntRI00\nS'12345678'\ntb."
OBJECT_ARRAY = ARRAY + b"(I1\n(I2\nt" + OBJECTS + b"I00\n(lI1\naS'a'\natb."

MIT = """Copyright (c) 2024 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy
"""


def honest():
    files = {
        "README.md": b"# A model\n\nIt does *this*.\n",
        "LICENSE": ("MIT License\n\n" + MIT).encode(),
        "NOTICE.txt": b"Apache License 2.0\n",
        ".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n",
        "config.json": json.dumps({"hidden_size": 12, "architectures": ["Model"]}).encode(),
        "labels.txt": b"cat\ndog\n",
        "table.csv": b"id\nname\n1\n",
        "vocab.txt": b"[PAD]\n[UNK]\nthe\n##ing\n",
        "merges.txt": b"#version: 0.2\nh e\nl l\n",
        "utf-8.txt": "\u00dcber \u4f60\u597d\n".encode(),
        "settings.yaml": b"model:\n  layers: 12\n",
        "empty": b"",
        "model.safetensors": safetensors(),
        "numbers.npy": NUMBERS,
        "two-arrays.npy": NUMBERS + NUMBERS,
        "texts.npy": header("'<U3'", "(2,)") + bytes(24),
        "dates.npy": header("'<M8[ns]'", "(2,)") + bytes(16),
        "structure.npy": header("[('x', '<f4'), ('y', '<i8', (2,))]", "(2,)") + bytes(40),
        "objects.npy": array(pickle.dumps([1, "a"], 2)),
        "long-header.npy": header("'<f4'", "(2,)", 600) + bytes(8),
        "numbers.npz": archive([("a.npy", NUMBERS), ("b.npy", NUMBERS)], zipfile.ZIP_DEFLATED),
        "texts.zip": archive([("README.md", b"# x\n"), ("config.json", b"{}")], comment=b"for you"),
        "texts.tar": tape([("README.md", b"# x\n"), ("config.json", b"{}")]),
        "README.md.gz": gzip.compress(b"# text\n", mtime=0),
        "value.pkl.gz": gzip.compress(pickle.dumps({"a": 1}, 2), mtime=0),
        "value.z": zlib.compress(pickle.dumps({"a": 1}, 2)),
        "value.pkl.bz2": bz2.compress(pickle.dumps({"a": 1}, 2)),
        "value.pkl.xz": lzma.compress(pickle.dumps({"a": 1}, 2)),
        "value.pkl.lzma": alone(pickle.dumps({"a": 1}, 2)),
        "value.pkl.zst": zstd(pickle.dumps({"a": 1}, 2)),
        "value.pkl.lz4": lz4(pickle.dumps({"a": 1}, 2)),
        "texts.tar.xz": lzma.compress(tape([("README.md", b"# x\n"), ("config.json", b"{}")])),
        "torch.pt.bz2": bz2.compress(stored("0", bytes(range(64)))),
        "BZh9.txt": b"BZh9 is the signature of bzip2\n",
        "two-pickles.pkl": pickle.dumps(1, 2) + pickle.dumps([2], 0),
        "masked.pkl": MASKED,
        "script.pt": script("y = torch.add(x, x)"),
        "numbered.pt": stored("0", bytes(range(64))),
        "random.pkl": RANDOM,
        "values.pkl": VALUES,
        "layer.pkl": LAYER,
        "object-array.pkl": OBJECT_ARRAY,
        "scalar-array.pkl": SCALAR_ARRAY,
    }
    for name, value in values().items():
        for protocol in (0, 1, 2, 3, 4, 5):
            files["%s-%d.pkl" % (name, protocol)] = pickle.dumps(value, protocol)
    large = [b"bytes" * 13200, "text" * 17000, list(range(9000)), bytearray(70000), None]
    files["large.pkl"] = pickle.dumps(large, 5)
    storage = ("storage", float, "0", "cpu", 2)
    files["torch-0.1.9.pth"] = old_torch(struct.pack("<4f", 1, 2, 3, 4))
    files["parameter-0.1.9.pth"] = old_torch(
        struct.pack("<4f", 1, 2, 3, 4),
        b"\x80\x02ctorch.nn.parameter\nParameter\nX\x01\0\0\x002Q\x85R\x88\x89}\x87b.",
    )
    files["package.pt"] = package(bytes(range(128, 192)))
    files["torch.pt"] = torch(persistent([storage]), ("archive/data/0", struct.pack("<2f", 1, 2)))
    files["torch-old.pt"] = b"".join(
        [
            pickle.dumps(0x1950A86A20F9469CFC6C, 2),
            pickle.dumps(1001, 2),
            pickle.dumps({"little_endian": True}, 2),
            persistent([storage + (None,)]),
            pickle.dumps(["0"], 2),
            struct.pack("<q2f", 2, 1, 2),
        ]
    )
    return files


def main():
    attacks = {name + ".pkl": data for name, data in PICKLES.items()}
    attacks.update((name, data) for name, data in PICKLES.items())
    attacks.update(("other-" + name, data) for name, data in OTHERS.items())
    attacks.update(("frame-" + name + ".pkl", data) for name, data in FRAMES.items())
    attacks.update(("form-" + name + ".pkl", data) for name, data in FORMS.items())
    for name, data in [*PICKLES.items(), *FORMS.items()]:
        assert asked(data), name
    for kind, data in HELD.items():
        attacks.update((kind + "-" + name, hold(data)) for name, hold in CONTAINERS.items())
    for directory, files in (("attacks", attacks), ("honest", honest())):
        directory = os.path.join(HERE, directory)
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
        for name, data in files.items():
            with open(os.path.join(directory, name), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main()
