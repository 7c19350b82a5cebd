"""Writes files of joblib that hold only arrays, and ones that execute code, for `lodstone scan`.

    pip install joblib==1.6.0 numpy==2.4.6 lz4==4.4.5
    python make_joblib.py

Writes `joblib-honest/` and `joblib-attacks/` beside this script. Attacks call `posix.mkdir`.
"""

import io
import os
import pickle
import shutil
import zipfile

import joblib
import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBERS = numpy.arange(12.0).reshape(3, 4)


class Attack:
    def __reduce__(self):
        return os.mkdir, ("called",)


CALL = b"cposix\nmkdir\n(S'called'\ntR."


def dumped(value, **options):
    out = io.BytesIO()
    joblib.dump(value, out, **options)
    return out.getvalue()


def wrapper(size, flags=0):
    """Returns a wrapper of an array of bytes, as joblib 1.1 wrote them: without an alignment, and open to any size."""
    return (
        b"\x80\x02cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}(X\x08\0\0\0subclasscnumpy\nndarray\n"
        b"X\x05\0\0\0shapeK%c\x85X\x05\0\0\0orderX\x01\0\0\0CX\x05\0\0\0dtypecnumpy\ndtype\nX\x02\0\0\0u1\x89\x88\x87R"
        b"(K\x03X\x01\0\0\0|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK%ctbX\x0a\0\0\0allow_mmap\x89ub"
    ) % (size, flags)


def archive(name, data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writer:
        writer.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


def honest():
    objects = numpy.array([1, "a", None, {"b": (2, 3)}], dtype=object)
    values = {
        "several": [
            numpy.array(["a", "bb"]),
            numpy.array([b"x"]),
            numpy.zeros((0, 3)),
            numpy.array(3.5),
            numpy.array(["2020-01-01"], "M8[ns]"),
            numpy.zeros(3, [("a", "f4"), ("b", "i8")]),
            numpy.zeros(3, numpy.dtype([("a", "f4"), ("b", "i8")], align=True)),
            numpy.array([True, False]),
            objects,
            numpy.ones(4, ">i4"),
            numpy.ones(3, "c16"),
        ],
        "fortran": numpy.asfortranarray(NUMBERS),
        "objects": objects,
        "names": {"w": NUMBERS, "b": numpy.arange(5), "s": "x", "l": [NUMBERS.T, NUMBERS[:2]]},
    }
    files = {name + ".joblib": dumped(value) for name, value in values.items()}
    for protocol in (2, 3, 4, 5):
        files["protocol-%d.joblib" % protocol] = dumped(values["names"], protocol=protocol)
    for method in ("zlib", "gzip", "bz2", "xz", "lzma", "lz4"):
        files["names.joblib." + method] = dumped(values["names"], compress=(method, 3))
    files["joblib-1.1.joblib"] = wrapper(3) + b"\xff\xff\xff."
    return files


def attacks():
    objects = numpy.empty(2, object)
    objects[0] = Attack()
    call = numpy.frombuffer(CALL, "u1")
    archived = numpy.frombuffer(archive("a.pkl", CALL), "u1")
    files = {
        "in-objects.joblib": dumped(objects),
        "behind-an-array.joblib": dumped([NUMBERS, Attack()]),
        "before-an-array.joblib": dumped([Attack(), NUMBERS]),
        "behind-an-array.joblib.xz": dumped([NUMBERS, Attack()], compress=("xz", 3)),
        "behind-an-array.joblib.lz4": dumped([NUMBERS, Attack()], compress=("lz4", 3)),
        "behind-the-end.joblib": dumped(NUMBERS) + CALL,
        "elements.joblib": dumped(call),
        "archive-as-elements.joblib": dumped(archived),
        "in-an-archive.zip": archive("data.pkl", dumped([NUMBERS, Attack()])),
        # Opcodes for other readers, and elements for joblib.
        "elements-as-opcodes.joblib": wrapper(len(CALL)) + CALL + b".",
        # A text for other readers, of which joblib takes the beginning for elements.
        "opcodes-as-a-text.joblib": wrapper(5) + b"B\x1e\0\0\0" + CALL.ljust(30, b".") + b".",
        # Flags that make NumPy take bytes for objects.
        "flags.joblib": wrapper(1, 63) + CALL,
        "state-twice.joblib": wrapper(1) + b"N}b" + CALL,
        "wrong-size.joblib": wrapper(5) + b"N.",
        "as-an-argument.joblib": b"ccopy_reg\n_reconstructor\n(cjoblib.numpy_pickle\nNumpyArrayWrapper\n"
        b"c__builtin__\nobject\nNtR.",
        "storage.npy": dumped([NUMBERS, Attack()]),
    }
    return files


def main():
    for name, files in (("joblib-honest", honest()), ("joblib-attacks", attacks())):
        directory = os.path.join(HERE, name)
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
        for name, data in files.items():
            with open(os.path.join(directory, name), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main()
