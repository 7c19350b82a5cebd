"""`scan` against CPython: what its unpicklers ask for is never in a file that is called clean."""

import importlib.util
import os
import pathlib
import pickle
import random
import signal
import threading

import lodstone
import pytest

ROOT = pathlib.Path(__file__).parents[3]
SEED = int(os.environ.get("SEED", "1"))
MUTANTS = int(os.environ.get("MUTANTS", "300"))
OPCODES = b"(.012FIJKLMNPQRSTUVXabcdeghijlopqrstu]})G" + bytes(range(0x80, 0x99))


def made():
    """The script that makes attacks."""
    path = ROOT / "crates/lodstone/tests/scanned/make_scanned.py"
    spec = importlib.util.spec_from_file_location("make_scanned", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = made()
HONEST = [MADE.MASKED] + [
    pickle.dumps(value, protocol) for value in MADE.values().values() for protocol in range(6)
]
# What honest pickles ask for, and what attacks ask for beside.
KNOWN = {name for data in HONEST for name in MADE.asked(data)} | {
    ("builtins", "eval"),
    ("builtins", "int"),
    ("builtins", "str"),
    ("collections", "OrderedDict"),
    ("copyreg", "_reconstructor"),
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
    # What is not listed could not be told from what is clean.
    assert found["finding_count"] == len(found["findings"])
    assert found["unknown_count"] == len(found["unknown"])
    files = found["findings"] + found["unknown"]
    return {os.path.basename(entry["file"]) for entry in files}


def test_what_cpython_asks_for_is_in_no_clean_file(tmp_path):
    rng = random.Random(SEED)
    sources = HONEST + list(MADE.PICKLES.values())
    compared = 0
    for number in range(MUTANTS):
        data = mutate(rng.choice(sources), rng)
        # Numbers of extensions name nothing where none is registered, and many tensors begin like one.
        if not {name for name in MADE.asked(data) if name[0] != "extension"} - KNOWN:
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
    assert compared > MUTANTS // 4


def test_honest_files_are_clean_and_attacks_are_not():
    made = ROOT / "crates/lodstone/tests/scanned"
    assert lodstone.scan(made / "honest")["verdict"] == "clean"
    assert flagged(made / "attacks") == set(os.listdir(made / "attacks"))


def test_what_is_ignored_is_listed(tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    assert lodstone.scan(tmp_path)["verdict"] == "unknown"
    found = lodstone.scan(tmp_path, ignore=["*.png"])
    assert (found["verdict"], found["unknown"]) == ("clean", [])
    assert [entry["file"] for entry in found["ignored"]] == [str(tmp_path / "picture.png")]
    # What is found counts all the same.
    (tmp_path / "picture.png").write_bytes(MADE.CALL)
    assert lodstone.scan(tmp_path, ignore="*.png")["verdict"] == "findings"


def test_an_interrupt_ends_a_scan(tmp_path):
    # Opcodes that are looked at one by one.
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
