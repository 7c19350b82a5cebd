"""Scans random files that Python, NumPy, joblib and PyTorch write: `lodstone scan` must call each of them clean.

    python scan_honest.py LODSTONE DIRECTORY [--seed SEED] [--count COUNT] [--readers NAME,...]

The values are nested containers of numbers, text, bytes, arrays of all element types and orders, scalars of NumPy, and states
of random generators; for the reader `torch` tensors, states of modules and optimizers, and checkpoints. Needs Python 3.11, NumPy and
joblib, or PyTorch in its place.
"""

import argparse
import bz2
import collections
import gzip
import io
import lzma
import os
import pickle
import random
import string
import sys
import tarfile
import zipfile
import zlib

import numpy

from scan_readers import verdicts

TYPES = "? b B h H i I l L q Q e f d F D S5 U3 M8[ms] m8[s] >i4 >f8 >U2".split()


def text(chance):
    kinds = [
        string.ascii_lowercase + "._/-",
        string.printable,
        "cos\nsystemR.(tib" + string.digits,
        "äßéЖ中文🙂 \u2028",
    ]
    letters = chance.choice(kinds)
    return "".join(chance.choice(letters) for _ in range(chance.choice((0, 1, 3, 8, 40))))


def array(chance):
    shape = tuple(chance.randrange(5) for _ in range(chance.randrange(4)))
    size = int(numpy.prod(shape, dtype=int))
    if chance.random() < 0.1:
        values = numpy.zeros(shape, [("a", "<i4"), ("b", "<f8", (2,)), ("c", "S3")])
    else:
        kind = numpy.dtype(chance.choice(TYPES))
        data = bytes(chance.randrange(256) for _ in range(size * kind.itemsize))
        if kind.kind in "?U":
            values = numpy.zeros(shape, kind)
        else:
            values = numpy.frombuffer(data, kind).reshape(shape)
    if chance.random() < 0.3:
        values = numpy.asfortranarray(values)
    return values


def number(chance):
    return chance.choice(
        [0, 1, -1, 255, 65536, 1 << 40, -(1 << 70), 0.5, float("nan"), float("inf"), True, False, None, 1 + 2j]
    )


def generator(chance):
    if chance.random() < 0.5:
        return numpy.random.RandomState(chance.randrange(100))
    kinds = [numpy.random.PCG64, numpy.random.MT19937, numpy.random.Philox, numpy.random.SFC64]
    return numpy.random.Generator(chance.choice(kinds)(chance.randrange(100)))


def leaf(chance):
    return chance.choice(
        [
            number,
            number,
            text,
            text,
            lambda chance: text(chance).encode(),
            lambda chance: bytearray(text(chance).encode()),
            array,
            array,
            lambda chance: numpy.dtype(chance.choice(TYPES)).type(),
            lambda chance: numpy.dtype(chance.choice(TYPES)),
            generator,
            lambda chance: random.Random(chance.randrange(9)).getstate(),
        ]
    )(chance)


def value(chance, depth=0, leaf=leaf):
    kind = chance.randrange(9)
    if depth > 3 or kind < 4:
        return leaf(chance)
    items = [value(chance, depth + 1, leaf) for _ in range(chance.choice((0, 1, 2, 5)))]
    keys = [chance.choice([text(chance), chance.randrange(99)]) for _ in items]
    if kind == 4:
        return items
    if kind == 5:
        return tuple(items)
    if kind == 6:
        return collections.OrderedDict(zip(keys, items))
    if kind == 7:
        # The same object twice.
        return items + items
    return dict(zip(keys, items))


def plain(chance, base):
    """Writes a file without PyTorch; returns its path."""
    import joblib

    kind = chance.randrange(9)
    if kind <= 2:
        data, extension = pickle.dumps(value(chance), chance.randrange(6)), ".pkl"
        pack, extra = chance.choice(
            [(bytes, ""), (bytes, ""), (gzip.compress, ".gz"), (bz2.compress, ".bz2"), (lzma.compress, ".xz"), (zlib.compress, ".z")]
        )
        return write(base + extension + extra, pack(data))
    if kind <= 4:
        path = base + ".joblib"
        compress = chance.choice([0, 0, 3, ("gzip", 1), ("bz2", 2), ("xz", 1), ("lzma", 1)])
        joblib.dump(value(chance), path, compress=compress, protocol=chance.choice((2, 3, 4, 5)))
        return path
    if kind == 5:
        numpy.save(base + ".npy", array(chance))
        return base + ".npy"
    if kind == 6:
        save = chance.choice([numpy.savez, numpy.savez_compressed])
        save(base + ".npz", **{"a{}".format(n): array(chance) for n in range(chance.randrange(4))})
        return base + ".npz"
    if kind == 7:
        return write(base + chance.choice((".txt", ".json", ".md", ".yaml")), text(chance).encode())
    out, members = io.BytesIO(), {"m{}.pkl".format(n): pickle.dumps(value(chance)) for n in range(3)}
    if chance.random() < 0.5:
        with tarfile.open(fileobj=out, mode=chance.choice(("w", "w:gz"))) as archive:
            for name, content in members.items():
                information = tarfile.TarInfo(name)
                information.size = len(content)
                archive.addfile(information, io.BytesIO(content))
        return write(base + ".tar", out.getvalue())
    with zipfile.ZipFile(out, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return write(base + ".zip", out.getvalue())


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)
    return path


def tensor(chance):
    import torch

    kinds = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64]
    made = torch.zeros([chance.randrange(4) for _ in range(chance.randrange(4))], dtype=chance.choice(kinds))
    made = made.random_(0, 2) if not made.is_complex() else made
    way = chance.randrange(8)
    if way == 0 and made.dim():
        return made.transpose(0, -1)
    if way == 1 and made.is_floating_point():
        return torch.nn.Parameter(made)
    if way == 2:
        return torch.eye(3).to_sparse()
    if way == 3:
        return torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.qint8)
    if way == 4:
        return made.to("meta")
    return made


def of_torch(chance):
    import torch

    def more(chance):
        return chance.choice(
            [tensor, tensor, tensor, number, text, lambda _: torch.Size([1, 2]), lambda _: torch.float32, lambda _: torch.device("cpu"), lambda _: torch.get_rng_state()]
        )(chance)

    if chance.random() < 0.6:
        return value(chance, 0, more)
    width = chance.randrange(1, 5)
    net = torch.nn.Sequential(
        torch.nn.Linear(width, 3),
        chance.choice([torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.GELU(), torch.nn.Dropout()]),
        torch.nn.BatchNorm1d(3),
        torch.nn.Linear(3, 2),
    )
    kind = chance.choice([torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad])
    optimizer = kind(net.parameters(), lr=0.1)
    net(torch.rand(4, width)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    whole = {
        "state_dict": net.state_dict(),
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [schedule.state_dict()],
        "epoch": 3,
        "rng": random.getstate(),
    }
    return chance.choice([net, net.state_dict(), optimizer.state_dict(), whole])


def saved(chance, base):
    """Writes a file with PyTorch; returns its path."""
    import torch

    path = base + chance.choice((".pt", ".pth", ".bin", ".ckpt"))
    torch.save(of_torch(chance), path, pickle_protocol=chance.choice((2, 3, 4, 5)), _use_new_zipfile_serialization=chance.random() < 0.7)
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lodstone")
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--readers", default="joblib")
    options = parser.parse_args()
    chance, make = random.Random(options.seed), saved if options.readers == "torch" else plain
    paths = [make(chance, os.path.join(options.directory, "{:05}".format(number))) for number in range(options.count)]
    failed = 0
    for path, verdict in verdicts(options.lodstone, paths).items():
        if verdict == "clean":
            os.remove(path)
        else:
            failed += 1
            print("FAILED", path, "is", verdict)
    print("{} honest files, {} not clean".format(len(paths), failed))
    sys.exit(1 if failed or not paths else 0)


if __name__ == "__main__":
    main()
