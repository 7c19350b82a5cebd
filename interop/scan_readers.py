"""Compares the verdicts of `lodstone scan` with what readers of pickles import, on mutated files.

    python scan_readers.py LODSTONE DIRECTORY [--seed SEED] [--count COUNT] [--readers NAME,...]

Takes pickles that the scan calls clean (golden files, and what NumPy and joblib write here), changes opcodes or bytes, inserts
calls between opcodes, and puts the result into every container that its readers open. Each reader loads the file with classes
that do nothing: it imports and calls nothing, but the requested names are recorded. The scan must not call a file clean if a
reader calls a name, or requests it from a module that exists, unless the unchanged files need it. It must call clean what is
unchanged, and nothing that names what executes code, in whatever way.

    c        CPython's C unpickler, on bytes in memory
    python   CPython's unpickler in Python
    pieces   the C unpickler, on a buffered file that returns a few bytes at a time
    file     the C unpickler, on a file without a buffer
    numpy    `numpy.load`
    joblib   `joblib.load`
    torch    `torch.load`, with `weights_only=False`

Needs Python 3.11 on Linux, NumPy, and what the readers need.
"""

import argparse
import bz2
import collections
import functools
import glob
import gzip
import importlib.util
import io
import json
import lzma
import os
import pickle
import pickletools
import random
import resource
import struct
import subprocess
import sys
import types
import warnings
import zipfile
import zlib

import numpy

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
GOLDEN = os.path.join(ROOT, "crates/formats/tests/golden")

# What a reader imports without harm, beside what the unchanged files need: names that the scan permits.
PERMITTED = {
    "_codecs.encode",
    "builtins.complex",
    "builtins.set",
    "builtins.frozenset",
    "builtins.bytearray",
    "builtins.slice",
    "builtins.range",
    "collections.OrderedDict",
}

# What is inserted between two opcodes: each requests a name that runs code, in all ways in which a pickle can.
CALLS = [
    b"cos\nsystem\n(S'true'\ntR",
    b"\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R",
    b"(ios\nsystem\n",
    b"(cos\nsystem\nS'true'\no",
    b"(cos\nsystem\nS'true'\no0",
    b"cos\nsystem\n)\x81",
    b"cos\nsystem\n)}\x92",
    b"cos\nsystem\n",
    b"cos\nsystem\n0",
    b"ctorch.hub\nload\n)R",
    b"cnumpy\nload\nS'x'\n\x85R0",
    b"cbuiltins\neval\nS'1'\n\x85R",
    b"c__builtin__\neval\nS'1'\n\x85R0",
    b"cjoblib.numpy_pickle\nload\nS'x'\n\x85R0",
    b"\x95\x0b\0\0\0\0\0\0\0cos\nsystem\n0",
    b"\x95\x05\0\0\0\0\0\0\0cos\nsystem\n0",
    b"\x82\x01",
    b"\x8c\x02os\x94\x8c\x06system\x94\x93\x940",
    b"\x80\x00cos\nsystem\n0",
]


# Names that run code, read or write files, or open connections, in the standard library and in common packages.
EXECUTES = """
    os system; posix popen; nt startfile; pty spawn; subprocess Popen; commands getoutput; _posixsubprocess fork_exec
    builtins eval; builtins exec; builtins compile; builtins open; builtins getattr; builtins __import__; builtins apply
    importlib import_module; imp load_source; runpy run_path; zipimport zipimporter; site addsitedir; sys modules
    marshal loads; types FunctionType; types CodeType; code InteractiveInterpreter.runcode; codeop compile_command
    pickle loads; pickle Unpickler; _pickle loads; shelve open; copyreg _reconstructor; copyreg __newobj__
    operator attrgetter; operator methodcaller; operator itemgetter; functools partial; functools reduce; itertools starmap
    bdb Bdb.run; pdb run; trace Trace.run; timeit timeit; cProfile run; profile run; doctest debug_script; pdb Pdb.do_p
    ctypes CDLL; ctypes.util _findLib_gcc; _ctypes dlopen; cffi FFI; mmap mmap; signal signal; gc get_objects; atexit register
    socket create_connection; ssl get_server_certificate; urllib.request urlopen; http.client HTTPConnection; ftplib FTP
    smtplib SMTP; imaplib IMAP4_stream; xmlrpc.client ServerProxy; webbrowser open; asyncio run; requests get; aiohttp request
    shutil rmtree; tempfile NamedTemporaryFile; pathlib Path.write_text; io open; io FileIO; fileinput input; linecache getlines
    tarfile open; zipfile ZipFile; sqlite3 connect; dbm open; logging FileHandler; logging.config fileConfig; bz2 BZ2File
    pip main; pip._internal main; ensurepip bootstrap; venv create; distutils.file_util write_file; setuptools setup
    pydoc pipepager; pydoc locate; pkgutil resolve_name; uuid _get_command_stdout; _osx_support _read_output
    _aix_support _read_cmd_output; lib2to3.pgen2.pgen ParserGenerator.make_label; idlelib.run Executive.runcode
    idlelib.pyshell ModifiedInterpreter.runcode; idlelib.autocomplete AutoComplete.get_entity; _pyrepl.pager pipe_pager
    test.support.script_helper assert_python_ok; unittest.loader TestLoader.loadTestsFromName; multiprocessing.util spawnv_passfds
    threading Thread; concurrent.futures ThreadPoolExecutor.submit; _thread start_new_thread; antigravity geohash; this s
    numpy load; numpy save; numpy fromfile; numpy DataSource; numpy memmap; numpy.f2py main; numpy.f2py.crackfortran getlincoef
    numpy.testing._private.utils runstring; numpy.ctypeslib load_library; numpy.distutils.exec_command exec_command
    numpy.core._multiarray_umath add_docstring; numpy.lib.npyio load; numpy.ma.core _mareconstruct_
    torch load; torch.hub load; torch.serialization load; torch.jit load; torch.storage _load_from_bytes; torch.classes load_library
    torch.ops load_library; torch.utils.cpp_extension load; torch.utils.collect_env run; torch.utils.bottleneck.__main__ run_cprofile
    torch._dynamo.guards GuardBuilder.get; torch.fx.experimental.symbolic_shapes ShapeEnv.evaluate_guards_expression
    torch.utils._config_module ConfigModule.load_config; torch.utils.data.datapipes.utils.decoder basichandlers
    torch.nn.modules.container Sequential.load; torch.distributed.rpc rpc_sync; torch.multiprocessing spawn
    paddle load; paddle.hub load; paddle.utils.cpp_extension load; mxnet.nd load; joblib load; joblib.numpy_pickle load
    dill._dill _create_code; dill loads; cloudpickle loads; cloudpickle.cloudpickle _make_function; jsonpickle decode
    pandas eval; pandas read_pickle; scipy.io loadmat; sympy sympify; yaml load; ruamel.yaml load; jinja2 Template
    sklearn.externals joblib; keras.models load_model; tensorflow load_op_library; transformers pipeline; nltk download
    webdataset WebDataset; huggingface_hub hf_hub_download; evil run; __main__ run; site main; a.b.c d
"""

# The ways in which a pickle calls, instantiates, or only names something. `%s` is the module, then the name.
WAYS = {
    "reduce": "c%s\n%s\n(S'x'\ntR",
    "stack-global": "V%s\nV%s\n\x93(S'x'\ntR",
    "stack-global-memo": "V%s\np90\n0V%s\np91\n0g90\ng91\n\x93)R",
    "inst": "(S'x'\ni%s\n%s\n",
    "obj": "(c%s\n%s\nS'x'\no",
    "newobj": "c%s\n%s\n(S'x'\nt\x81",
    "newobj-ex": "c%s\n%s\n)}\x92",
    "build": "c%s\n%s\n)\x81}S'x'\nI1\nsb",
    "value": "c%s\n%s\n",
    "key": "}c%s\n%s\nI1\ns",
    "dropped": "c%s\n%s\n)R0N",
    "popped": "(c%s\n%s\n)R1N",
    "identifier": "c%s\n%s\n)RQ",
}


class Nothing:
    """A stand-in for imported objects: accepts every call, records it, and does nothing."""

    requested = None

    def __new__(cls, *_arguments, **_named):
        CALLED.append(cls.requested)
        return super().__new__(cls)

    def __init__(self, *_arguments, **_named):
        pass

    def __call__(self, *_arguments, **_named):
        return Nothing()

    def __hash__(self):
        return id(self)

    def __setstate__(self, _state):
        pass

    append = extend = add = update = __setstate__

    def __setitem__(self, _key, _value):
        pass


# The module and the name of what was requested, and of what was called.
REQUESTED = []
CALLED = []


def requested(module, name):
    REQUESTED.append((module, name))
    return type("Class", (Nothing,), {"requested": (module, name)})


class Recorder(pickle.Unpickler):
    """The C unpickler, with imports redirected to classes that do nothing."""

    def find_class(self, module, name):
        return requested(module, name)

    def persistent_load(self, _identifier):
        return Nothing()


class PythonRecorder(pickle._Unpickler):
    """The same in Python."""

    find_class = Recorder.find_class
    persistent_load = Recorder.persistent_load


def recorded_load(file, **named):
    return Recorder(file, **named).load()


# A module `pickle` for readers that take one.
MODULE = types.ModuleType("pickle")
MODULE.__dict__.update(pickle.__dict__)
MODULE.Unpickler = Recorder
MODULE.load = recorded_load
MODULE.loads = lambda data, **named: recorded_load(io.BytesIO(data), **named)


def read_c(path):
    with open(path, "rb") as file:
        Recorder(io.BytesIO(file.read())).load()


def read_python(path):
    with open(path, "rb") as file:
        PythonRecorder(file).load()


def read_pieces(path):
    with open(path, "rb", buffering=16) as file:
        Recorder(file).load()


def read_file(path):
    with open(path, "rb", buffering=0) as file:
        Recorder(file).load()


def read_numpy(path):
    numpy.lib._format_impl.pickle = MODULE
    numpy.lib._npyio_impl.pickle = MODULE
    found = numpy.load(path, allow_pickle=True)
    if isinstance(found, numpy.lib.npyio.NpzFile):
        for name in found.files:
            try:
                found[name]
            except Exception:
                pass


def read_joblib(path):
    import joblib

    # Its own wrapper, and the types of arrays, which it needs to find the arrays behind it.
    real = {"joblib.numpy_pickle.NumpyArrayWrapper", "numpy.ndarray", "numpy.dtype"}

    def find_class(self, module, name):
        found = requested(module, name)
        if "{}.{}".format(module, name) in real:
            return pickle._Unpickler.find_class(self, module, name)
        return found

    joblib.numpy_pickle.NumpyUnpickler.find_class = find_class
    joblib.load(path)


def read_torch(path):
    import torch

    torch.load(path, map_location="cpu", weights_only=False, pickle_module=MODULE)


READERS = {
    "c": read_c,
    "python": read_python,
    "pieces": read_pieces,
    "file": read_file,
    "numpy": read_numpy,
    "joblib": read_joblib,
    "torch": read_torch,
}


def zipped(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def raw(data, _seed):
    return data, ".pkl"


def array(data, _seed):
    header = io.BytesIO()
    description = {"descr": "|O", "fortran_order": False, "shape": (1,)}
    numpy.lib.format.write_array_header_1_0(header, description)
    return header.getvalue() + data, ".npy"


def arrays(data, _seed):
    return zipped([("a.npy", array(data, None)[0])]), ".npz"


def stored_arrays(data, _seed):
    return zipped([("a.npy", array(data, None)[0])], zipfile.ZIP_DEFLATED), ".npz"


def torch_archive(data, seed):
    members = [("m/data.pkl", data), ("m/byteorder", b"little")]
    members += [("m/" + name, content) for name, content in seed.storages]
    return zipped(members + [("m/version", b"3\n")]), ".pt"


def torch_stream(data, _seed):
    head = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}]
    return b"".join(pickle.dumps(one, 2) for one in head) + data + pickle.dumps([], 2), ".pt"


def behind(data, _seed):
    return pickle.dumps([1, 2], 2) + data, ".pkl"


def compressed(with_):
    return lambda data, _seed: (with_(data), ".pkl")


# Containers by the readers that open them.
CONTAINERS = {
    "raw": (raw, ["c", "python", "pieces", "file", "numpy", "joblib", "torch"]),
    "array": (array, ["numpy"]),
    "npz": (arrays, ["numpy"]),
    "npz-deflated": (stored_arrays, ["numpy"]),
    "torch": (torch_archive, ["torch"]),
    "torch-stream": (torch_stream, ["torch"]),
    "gzip": (compressed(gzip.compress), ["joblib"]),
    "zlib": (compressed(zlib.compress), ["joblib"]),
    "bz2": (compressed(bz2.compress), ["joblib"]),
    "xz": (compressed(lzma.compress), ["joblib"]),
    "lzma": (compressed(lambda data: lzma.compress(data, lzma.FORMAT_ALONE)), ["joblib"]),
}

Seed = collections.namedtuple("Seed", "data storages containers")


def seeds(readers):
    """Returns pickles that are clean, with the containers in which they are found."""
    found = []

    def add(data, containers, storages=()):
        if len(data) < 20000:
            found.append(Seed(data, list(storages), containers))

    plain = ["raw", "gzip", "zlib", "bz2", "xz", "lzma"]
    values = [
        [1, "two", 3.0, None, True, (4, 5), {"six": 7}, b"8"],
        {"lr": 0.1, "betas": (0.9, 0.999), "names": ["a", "b"] * 5, "deep": [[[[{}]]]]},
        collections.OrderedDict(a=1, b={2: 3}),
        {"a": numpy.arange(6.0).reshape(2, 3), "b": numpy.float32(1.5), "t": numpy.dtype("<i4")},
        numpy.array(["a", "bc"]),
        "x" * 300,
    ]
    for value in values:
        for protocol in range(6):
            data = pickle.dumps(value, protocol)
            add(data, plain + ["array", "npz", "npz-deflated"])
    for path in sorted(glob.glob(GOLDEN + "/paddle_pickle/*/*.pd*")):
        with open(path, "rb") as file:
            add(file.read(), ["raw"])
    for path in sorted(glob.glob(GOLDEN + "/torch/*.pt")):
        # One has objects of its own.
        if not zipfile.is_zipfile(path) or path.endswith("cycle.pt"):
            continue
        with zipfile.ZipFile(path) as archive:
            members = {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist() if "/" in name}
        if "constants.pkl" not in members and "data.pkl" in members:
            storages = [(name, content) for name, content in members.items() if name.startswith("data/")]
            add(members["data.pkl"], ["torch"], storages)
    if "joblib" in readers:
        import joblib

        for value in values:
            out = io.BytesIO()
            joblib.dump(value, out)
            add(out.getvalue(), plain)
    if "torch" in readers:
        add(pickle.dumps({"epoch": 3, "names": ["a"]}, 2), ["torch-stream"])
    return found


def executing():
    """Returns pickles that name or call something that executes, in every way."""
    for pair in EXECUTES.replace("\n", ";").split(";"):
        if pair.strip():
            for way, text in WAYS.items():
                # joblib names the class of an array, and calls it only with a file of its own.
                if pair.split() == ["numpy", "memmap"] and way in ("value", "key"):
                    continue
                call = (text % tuple(pair.split())).encode()
                yield "{}-{}".format(pair.strip().replace(" ", "."), way), b"\x80\x04]" + call + b"a."


def opcodes(data):
    """Returns the places of the opcodes, as far as they can be read."""
    places = []
    try:
        for _, _, place in pickletools.genops(data):
            places.append(place)
    except Exception:
        pass
    return places or [0]


def mutate(data, chance):
    """Changes bytes or opcodes, or inserts a call."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = opcodes(bytes(data))
        number = chance.randrange(len(places))
        begin = places[number]
        end = places[number + 1] if number + 1 < len(places) else len(data)
        kind = chance.randrange(10)
        if kind <= 2:
            data[begin:begin] = chance.choice(CALLS)
        elif kind == 3:
            del data[begin:end]
        elif kind == 4:
            other = chance.choice(places)
            data[other:other] = data[begin:end]
        elif kind == 5 and data:
            data[begin] = chance.choice(pickletools.opcodes).code.encode("latin-1")[0]
        elif kind == 6 and data:
            data[chance.randrange(len(data))] = chance.randrange(256)
        elif kind == 7:
            # A frame of some length, wherever it ends.
            data[begin:begin] = b"\x95" + struct.pack("<Q", chance.randrange(len(data) + 20))
        elif kind == 8:
            text = chance.choice((b"os", b"numpy", b"builtins", b"system", b"eval", b"torch"))
            names = [word for word in (b"numpy", b"torch", b"collections", b"OrderedDict", b"dtype") if word in data]
            if names:
                word = chance.choice(names)
                place = data.find(word)
                data[place : place + len(word)] = text.ljust(len(word), b"x")[: len(word)] if chance.random() < 0.5 else text
        else:
            del data[chance.randrange(len(data) + 1) :]
            data += chance.choice(CALLS) + b"."
    return bytes(data)


def request(reader, path):
    """Returns the names that a reader calls, or requests from modules that exist: text of any kind requests others."""
    del REQUESTED[:], CALLED[:]
    try:
        READERS[reader](path)
    except (Exception, SystemExit):
        pass
    found = {one for one in CALLED if one} | {one for one in REQUESTED if exists(one[0])}
    return {".".join(one) for one in found}


@functools.cache
def exists(module):
    """Returns whether there may be a module of this name: its package exists, and all parts are identifiers."""
    package = module.split(".")[0]
    is_name = all(part.isidentifier() for part in module.split("."))
    known = package in sys.builtin_module_names or package == "__builtin__"
    return is_name and (known or importlib.util.find_spec(package) is not None)


def request_all(files):
    """Returns the names that readers request, by path and reader. A file that crashes its reader has none.

    Readers run in other processes: a changed pickle can crash CPython, NumPy and PyTorch.
    """
    found, crashed = {}, 0
    files = list(files)
    while len(found) < len(files):
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(out)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(into, "w") as pipe:
                for path, readers in files[len(found) :]:
                    names = {reader: sorted(request(reader, path)) for reader in readers}
                    print(json.dumps(names), file=pipe, flush=True)
            os._exit(0)
        os.close(into)
        with os.fdopen(out) as pipe:
            for line in pipe:
                if line.endswith("\n"):
                    found[files[len(found)][0]] = {k: set(v) for k, v in json.loads(line).items()}
        os.waitpid(child, 0)
        if len(found) < len(files):
            found[files[len(found)][0]] = {}
            crashed += 1
    return found, crashed


def verdicts(lodstone, paths):
    """Returns the verdict of the scan of each file."""
    found = {}
    for begin in range(0, len(paths), 500):
        part = paths[begin : begin + 500]
        command = [lodstone, "scan", "--json", "--ignore", "source"] + part
        output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if output.returncode not in (0, 1, 2):
            sys.exit("the scan ends with {}: {}".format(output.returncode, output.stderr.decode()))
        text, decoder, place = output.stdout.decode(), json.JSONDecoder(), 0
        while text[place:].strip():
            place += len(text[place:]) - len(text[place:].lstrip())
            document, place = decoder.raw_decode(text, place)
            found[document["path"]] = document["verdict"]
    if set(found) != set(paths):
        sys.exit("the scan reports {} of {} files".format(len(found), len(paths)))
    return found


def write(directory, name, container, data, seed):
    content, extension = CONTAINERS[container][0](data, seed)
    path = os.path.join(directory, name + extension)
    with open(path, "wb") as file:
        file.write(content)
    return path


def limit(readers):
    """Lets this process take 2 GiB more than now: pickles request any amount."""
    for reader in set(readers) & {"joblib", "torch"}:
        __import__(reader)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (2 << 30),) * 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lodstone")
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--readers", default="c,python,pieces,file,numpy,joblib")
    options = parser.parse_args()
    readers, chance = options.readers.split(","), random.Random(options.seed)
    warnings.simplefilter("ignore")
    limit(readers)
    known = seeds(readers)

    def readers_of(container):
        return [reader for reader in CONTAINERS[container][1] if reader in readers]

    # What is unchanged is clean, and what it requests is permitted.
    whole = []
    for number, seed in enumerate(known):
        for container in filter(readers_of, seed.containers):
            name = "whole-{:04}-{}".format(number, container)
            path = write(options.directory, name, container, seed.data, seed)
            whole.append((path, readers_of(container)))
    requests, _ = request_all(whole)
    permitted = PERMITTED.union(*(names for file in requests.values() for names in file.values()))
    found = verdicts(options.lodstone, [path for path, _ in whole])
    failed = [path for path, verdict in found.items() if verdict != "clean"]
    for path in failed:
        print("FAILED", path, "is unchanged, and", found[path])

    # What executes is never clean, in any container.
    files = []
    for number, (name, data) in enumerate(executing()):
        container = list(CONTAINERS)[number % len(CONTAINERS)]
        files.append(write(options.directory, "{}-{}".format(name, container), container, data, Seed(data, [], [])))
    for path, verdict in verdicts(options.lodstone, files).items():
        if verdict == "clean":
            failed.append(path)
            print("FAILED", path, "executes, and is clean")

    changed = []
    for number in range(options.count):
        seed = chance.choice([seed for seed in known if any(map(readers_of, seed.containers))])
        container = chance.choice([container for container in seed.containers if readers_of(container)])
        name = "{:06}-{}".format(number, container)
        path = write(options.directory, name, container, mutate(seed.data, chance), seed)
        changed.append((path, readers_of(container)))
    requests, crashed = request_all(changed)
    dangerous = clean = 0
    for path, verdict in verdicts(options.lodstone, [path for path, _ in changed]).items():
        bad = {reader: names - permitted for reader, names in requests[path].items() if names - permitted}
        clean += verdict == "clean"
        dangerous += bool(bad)
        if verdict == "clean" and bad:
            failed.append(path)
            print("FAILED", path, "is clean, and requests", bad)
        else:
            os.remove(path)
    print(
        "{} unchanged files; {} that execute; {} changed: {} import something, {} crash a reader, {} are clean; {} failed".format(
            len(whole), len(files), len(changed), dangerous, crashed, clean, len(failed)
        )
    )
    if not dangerous or not clean:
        sys.exit("nothing was compared")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
