"""Compares `scan` with CPython: no file whose unpickling imports something dangerous is clean."""

import contextlib
import importlib.util
import os
import pathlib
import pickle
import random
import signal
import sys
import threading

import lodstone
import pytest

ROOT = pathlib.Path(__file__).parents[3]
SEED = int(os.environ.get("SEED", "1"))
MUTANTS = int(os.environ.get("MUTANTS", "400"))
OPCODES = b"(.012FIJKLMNPQRSTUVXabcdeghijlopqrstu]})G" + bytes(range(0x80, 0x99))


def made():
    """Returns the script that makes attacks, as a module."""
    path = ROOT / "crates/lodstone/tests/scanned/make_scanned.py"
    spec = importlib.util.spec_from_file_location("make_scanned", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def little_memory():
    """Lets this process take 1 GiB more: CPython makes room for any number of an object that a changed pickle has."""
    if sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


MADE = made()
HONEST = [MADE.MASKED, MADE.RANDOM, MADE.VALUES, MADE.LAYER, MADE.OBJECT_ARRAY] + [
    pickle.dumps(value, protocol) for value in MADE.values().values() for protocol in range(6)
]
# The imports of benign pickles, and additional ones of attacks. Calls of these, such as of `memmap`, are in `interop`.
KNOWN = {name for data in HONEST for name in MADE.asked(data)} | {
    ("builtins", "eval"),
    ("builtins", "int"),
    ("builtins", "str"),
    ("collections", "OrderedDict"),
    ("copyreg", "_reconstructor"),
    ("numpy", "memmap"),
    ("torch.storage", "TypedStorage"),
    ("_codecs", "encode"),
}


def mutate(data, rng):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(6)
        if kind == 0:
            data[place : place + 1] = bytes([rng.randrange(256)])
        elif kind in (1, 2):
            data[place : place + kind - 1] = bytes([rng.choice(OPCODES)])
        elif kind == 3:
            del data[place : place + rng.randint(1, 6)]
        elif kind == 4:
            data[place:place] = data[place : place + rng.randint(1, 24)]
        else:
            other = rng.choice(HONEST)
            start = rng.randrange(len(other))
            data[place:place] = other[start : start + rng.randint(1, 24)]
    return bytes(data)


def flagged(directory):
    found = lodstone.scan(directory)
    # Truncated lists would hide files that are not clean.
    assert found["finding_count"] == len(found["findings"])
    assert found["unknown_count"] == len(found["unknown"])
    files = found["findings"] + found["unknown"]
    return {os.path.basename(entry["file"]) for entry in files}


def test_no_clean_file_makes_cpython_import_something(tmp_path):
    rng = random.Random(SEED)
    sources = HONEST + list(MADE.PICKLES.values())
    compared = 0
    for number in range(MUTANTS):
        data = mutate(rng.choice(sources), rng)
        # Extension codes import nothing unless registered, and many tensors begin like one.
        with little_memory():
            asked = {name for name in MADE.asked(data) if name[0] != "extension"} - KNOWN
        # There are no other modules.
        asked = {name for name in asked if all(part.isidentifier() for part in name[0].split("."))}
        # Words of a text are taken for modules only if Python may have these.
        installed = {*sys.stdlib_module_names, "numpy", "torch"}
        may_exist = any(module.split(".")[0] in installed for module, _ in asked)
        if not asked or (data.isascii() and not may_exist):
            continue
        compared += 1
        directory = tmp_path / str(number)
        directory.mkdir()
        names = rng.sample(sorted(MADE.CONTAINERS), 6) + ["README.md", "archive.pt", "objects.npy"]
        for name in names:
            try:
                held = MADE.CONTAINERS[name](data)
            except (OverflowError, ValueError):
                continue
            (directory / name).write_bytes(held)
        missed = {path.name for path in directory.iterdir()} - flagged(directory)
        assert not missed, (SEED, number, data, missed)
    assert compared > MUTANTS // 5


def test_benign_files_are_clean_and_attacks_are_not():
    made = ROOT / "crates/lodstone/tests/scanned"
    assert lodstone.scan(made / "honest")["verdict"] == "clean"
    assert flagged(made / "attacks") == set(os.listdir(made / "attacks"))


def test_ignored_files_are_listed(tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    assert lodstone.scan(tmp_path)["verdict"] == "unknown"
    found = lodstone.scan(tmp_path, ignore=["*.png"])
    assert (found["verdict"], found["unknown"]) == ("clean", [])
    assert [entry["file"] for entry in found["ignored"]] == [str(tmp_path / "picture.png")]
    # Findings in ignored files still count.
    (tmp_path / "picture.png").write_bytes(MADE.CALL)
    assert lodstone.scan(tmp_path, ignore="*.png")["verdict"] == "findings"


def test_an_interrupt_stops_a_scan(tmp_path):
    # A pickle with many opcodes, which takes long to scan.
    (tmp_path / "large.pkl").write_bytes(b"\x80\x02" * (48 << 20))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lodstone.scan(tmp_path)
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
