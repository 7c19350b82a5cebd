"""Compares Lodstone's findings in pickles with the imports of CPython, on mutated files.

    python pickle_compare.py [SEED]

Changes a few bytes of golden files and attacks, and runs each in CPython's unpickler (`pickle._Unpickler`) with classes
that do nothing: it imports and calls nothing, but records the requested names. Then the test `say_what_is_found` prints
Lodstone's findings. Two things must hold: the scan lists everything that CPython would import, and the reader rejects
what CPython rejects. Needs Python 3.8 or later, and cargo.
"""

import glob
import io
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TESTS = os.path.join(ROOT, "crates/formats/tests")
COUNT = 3000
OPCODES = b"(.012RbceiohjqrstuXNKM]})alP" + bytes(range(0x80, 0x99))


class Nothing:
    """A stand-in for imported objects: accepts every call, and does nothing."""

    def __init__(self, *_arguments, **_named):
        pass

    def __call__(self, *_arguments, **_named):
        return Nothing()

    def __hash__(self):
        return id(self)

    def __setstate__(self, _state):
        pass

    append = extend = add = __setstate__

    def __setitem__(self, _key, _value):
        pass


class Recorder(pickle._Unpickler):
    """CPython's unpickler, with imports redirected to this class."""

    def __init__(self, file):
        super().__init__(file)
        self.imports = []

    def find_class(self, module, name):
        self.imports.append("{}.{}".format(module, name))
        return type("Class", (Nothing,), {})

    def persistent_load(self, _identifier):
        return Nothing()

    def get_extension(self, _code):
        self.append(Nothing())


def sources():
    """Returns small files, so that a mutation changes their structure."""
    found = glob.glob(TESTS + "/golden/paddle_pickle/*/*") + glob.glob(TESTS + "/hostile/pickle/*")
    for path in sorted(found):
        if os.path.isfile(path) and not path.endswith((".py", ".json")):
            with open(path, "rb") as file:
                data = file.read()
            if len(data) < 4000:
                yield data


def mutate(data):
    data = bytearray(data)
    for _ in range(random.randint(0, 3)):
        if not data:
            break
        place = random.randrange(len(data))
        kind = random.randrange(5)
        if kind == 0:
            data[place] = random.randrange(256)
        elif kind == 1:
            data[place] = random.choice(OPCODES)
        elif kind == 2:
            data.insert(place, random.choice(OPCODES))
        elif kind == 3:
            del data[place : place + random.randint(1, 8)]
        else:
            data[place:place] = data[place : place + random.randint(1, 24)]
    return bytes(data)


def run_python(data):
    """Returns whether CPython loads a pickle, and what it imports."""
    recorder = Recorder(io.BytesIO(data))
    try:
        recorder.load()
        return True, recorder.imports
    except UnicodeDecodeError:
        # CPython decodes all strings, Lodstone only those that are used.
        return None, recorder.imports
    except Exception:
        return False, recorder.imports


def run_lodstone(directory):
    command = "cargo test --locked -q -p lodstone-formats --test all -- --ignored --nocapture say_what"
    environment = dict(os.environ, PICKLES=directory)
    output = subprocess.run(command.split(), cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    lines = output.stdout.decode().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def main():
    random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    known = list(sources())
    loaded = {}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(COUNT):
            name, data = "{:05}".format(number), mutate(random.choice(known))
            with open(os.path.join(directory, name), "wb") as file:
                file.write(data)
            loaded[name] = run_python(data)
        said = run_lodstone(directory)
    failed, both = 0, 0
    for line in said:
        good, imports = loaded[line["file"]]
        taken = line["read"].startswith("ok")
        both += taken and good is True
        # An import with an empty or unprintable name fails without effect.
        missed = {i for i in imports if i.isprintable() and not i.startswith(".")} - set(line["imports"])
        if missed or (taken and good is False):
            failed += 1
            print("FAILED", line["file"], sorted(missed), line["read"])
    print("{} files, {} loaded by both, {} failed".format(len(said), both, failed))
    sys.exit(1 if failed or len(said) != COUNT else 0)


if __name__ == "__main__":
    main()
