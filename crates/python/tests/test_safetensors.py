"""Compares the package with safetensors, whose names it has; `docs/safetensors.md` lists the differences."""

import inspect
import itertools
import pickle
import subprocess
import sys
import types

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from conftest import DIGITS, GOLDEN

import lodstone
import lodstone.numpy

ARRAYS = {
    "matrix": np.arange(50.0).reshape(10, 5),
    "bytes": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "none": np.zeros((0, 3), np.float32),
    "one": np.array(7, np.int64),
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "arrays.safetensors"
    safetensors.numpy.save_file(ARRAYS, path, {"by": "safetensors"})
    return path


def outcome(work):
    """Returns the result of work, or its error."""
    try:
        return work()
    except Exception as error:
        return error


def same_kind(ours, theirs):
    """Returns whether code that catches the error of safetensors catches ours."""
    kind = lodstone.SafetensorError if isinstance(theirs, safetensors.SafetensorError) else type(theirs)
    return isinstance(ours, kind)


def public(module):
    """Returns the public names of a module of safetensors, without those that it imports."""
    names = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    is_own = lambda value: module is safetensors or getattr(value, "__module__", None) == module.__name__  # noqa: E731
    return {name: it for name, it in names.items() if is_own(it) and not isinstance(it, types.ModuleType)}


@pytest.mark.parametrize("theirs, ours, count", [(safetensors, lodstone, 6), (safetensors.numpy, lodstone.numpy, 4)])
def test_every_name_and_keyword_is_here(theirs, ours, count):
    names = public(theirs)
    assert len(names) == count, names
    for name, value in names.items():
        found = getattr(ours, name)
        if not (isinstance(value, type) and issubclass(value, Exception)):
            expected, parameters = inspect.signature(value).parameters, inspect.signature(found).parameters
            assert list(expected) == list(parameters)[: len(expected)], name
    # Users also import it from these modules.
    assert theirs.safe_open and ours.safe_open is lodstone.safe_open
    for name in set(dir(safetensors.safe_open)) - set(dir(object)):
        assert hasattr(lodstone.safe_open, name), name


def test_slices_have_the_same_methods(path):
    with safetensors.safe_open(path, "np") as theirs, lodstone.safe_open(path, "np") as ours:
        theirs, ours = theirs.get_slice("matrix"), ours.get_slice("matrix")
        assert set(dir(theirs)) - set(dir(object)) <= set(dir(ours))
        assert (theirs.get_shape(), theirs.get_dtype()) == (ours.get_shape(), ours.get_dtype())


NUMBERS = [None, -11, -3, 0, 1, 4, 5, 9, 10, 11, 20]
SLICES = [slice(start, stop) for start, stop in itertools.product(NUMBERS, repeat=2)]
INDICES = [
    *NUMBERS,
    *SLICES,
    *(slice(0, 9, step) for step in (None, -1, 0, 1, 2, 20, 1.5)),
    ...,
    (),
    [],
    [0],
    [[]],
    "0",
    1.5,
    True,
    np.int64(2),
    np.array([1, 2]),
    (..., ...),
    (..., 0),
    (0, ...),
    (0, ..., 0),
    (0, 0, ...),
    (0, 0, 0),
    ([], 0),
    (slice(None), 2),
    (slice(2, 4), slice(None, None, 2)),
    (0, slice(1, 3)),
    (1, 1),
    (-1, -5),
    (-1, -6),
    (2**40, 0),
    None,
]


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("name", ARRAYS)
def test_slices_are_the_same(path, name, backend):
    compared = {"array": 0, "error": 0}
    opened = [library.safe_open(path, "np", backend=backend) for library in (safetensors, lodstone)]
    with opened[0] as theirs, opened[1] as ours:
        theirs, ours = theirs.get_slice(name), ours.get_slice(name)
        for index in INDICES:
            first, *_ = index if isinstance(index, tuple) and index else (index,)
            if isinstance(first, slice) and None not in (first.start, first.stop) and first.stop < first.start:
                # safetensors computes a negative dim.
                continue
            expected, found = outcome(lambda: theirs[index]), outcome(lambda: ours[index])
            if name == "none" and isinstance(expected, Exception) and isinstance(found, np.ndarray):
                # safetensors rejects every start in a dimension without elements.
                assert found.size == 0
            elif isinstance(expected, Exception):
                assert isinstance(found, lodstone.SliceError), (index, expected, found)
                compared["error"] += 1
            else:
                assert isinstance(found, np.ndarray) and found.dtype == expected.dtype, (index, found)
                assert found.shape == expected.shape and found.tobytes() == expected.tobytes(), index
                compared["array"] += 1
    assert compared["array"] > 0 and compared["error"] > 20


def test_types_of_ml_dtypes_need_it(tmp_path):
    path = tmp_path / "x.safetensors"
    lodstone.save_file({"x": lodstone.Tensor("x", "bfloat16", (2, 3), bytes(12))}, path)
    code = f"""
import sys; sys.modules["ml_dtypes"] = None
import lodstone
file = lodstone.safe_open({str(path)!r}, "np")
for read in (file.get_tensor, lambda name: file.get_slice(name)[:1]):
    try: read("x")
    except ModuleNotFoundError as error: print(error.name, "bfloat16" in str(error))
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout == "ml_dtypes True\n" * 2


def test_slices_of_empty_tensors_are_empty(path):
    with lodstone.safe_open(path, "np") as file:
        assert file.get_slice("none")[:].shape == file.get_slice("none")[:0].shape == (0, 3)
        assert file.get_slice("matrix")[5:3].shape == (0, 5)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_files_are_read_as_by_safetensors(path, backend):
    with safetensors.safe_open(path, "np", backend=backend) as theirs:
        with lodstone.safe_open(path, "np", device=None, backend=backend) as ours:
            assert ours.keys() == theirs.keys() and ours.offset_keys() == theirs.offset_keys()
            assert ours.metadata() == theirs.metadata() == {"by": "safetensors"}
            expected, found = theirs.get_tensors(), ours.get_tensors()
    assert list(found) == list(expected)
    loaded = lodstone.numpy.load_file(filename=path, backend=backend)
    for name, array in expected.items():
        for other in (found[name], loaded[name]):
            assert other.dtype == array.dtype and other.shape == array.shape and np.array_equal(other, array)
            # As in safetensors, arrays are writable, and the file does not change.
            other[...] = 0
    assert np.array_equal(lodstone.numpy.load_file(path)["matrix"], ARRAYS["matrix"])


def test_safe_open_reads_every_format():
    with lodstone.safe_open(DIGITS, "numpy", backend="pread") as file:
        tensors = file.get_tensors()
        assert list(tensors) == file.offset_keys() and sorted(tensors) == file.keys()
    with lodstone.safe_open(DIGITS) as file:
        assert all(isinstance(tensor, lodstone.Tensor) for tensor in file.get_tensors().values())
    with lodstone.safe_open(GOLDEN / "onnx_check/initializer_twice.onnx", "np") as file:
        with pytest.raises(lodstone.UnsupportedError, match="`w`"):
            file.get_tensors()


def test_a_closed_file_is_an_error(path):
    with safetensors.safe_open(path, "np") as theirs, lodstone.safe_open(path, "np") as ours:
        part, array = ours.get_slice("matrix"), ours.get_tensor("matrix")
    for method, arguments in (
        ("keys", ()),
        ("offset_keys", ()),
        ("metadata", ()),
        ("get_tensor", ("matrix",)),
        ("get_tensors", ()),
        ("get_slice", ("matrix",)),
    ):
        with pytest.raises(safetensors.SafetensorError):
            getattr(theirs, method)(*arguments)
        with pytest.raises(lodstone.SafetensorError, match="closed"):
            getattr(ours, method)(*arguments)
    with pytest.raises(lodstone.SafetensorError, match="closed"):
        len(ours)
    assert part[0].tolist() == [0, 1, 2, 3, 4] and array.shape == (10, 5)


def test_errors_are_caught_by_the_same_names(path, tmp_path):
    (tmp_path / "broken.safetensors").write_bytes(path.read_bytes()[:-1])
    (tmp_path / "text.safetensors").write_text("no model")
    address = ARRAYS["matrix"].ctypes.data
    spec = {"dtype": "float64", "shape": [10, 5], "data_ptr": address, "data_len": 400}
    works = [
        lambda it, np: it.safe_open(tmp_path / "none", "np"),
        lambda it, np: it.safe_open(tmp_path / "broken.safetensors", "np"),
        lambda it, np: it.safe_open(tmp_path / "text.safetensors", "np"),
        lambda it, np: it.safe_open(path, "caffe"),
        lambda it, np: it.safe_open(path, "np", "cuda"),
        lambda it, np: it.safe_open(path, "np", backend="read"),
        lambda it, np: it.safe_open(path, "np").get_tensor("matrices"),
        lambda it, np: it.safe_open(path, "np").get_slice("matrices"),
        lambda it, np: np.load(b"no model"),
        lambda it, np: np.load_file(tmp_path / "none"),
        lambda it, np: np.load_file(path, backend="read"),
        lambda it, np: np.save_file({"x": ARRAYS["one"]}, tmp_path / "x.safetensors", {"x": 1}),
        lambda it, np: np.save_file("no dictionary", tmp_path / "x.safetensors"),
        lambda it, np: np.save({"x": ARRAYS["one"].astype(complex)}),
        lambda it, np: it.deserialize(b"no model"),
        lambda it, np: it.deserialize("text"),
        lambda it, np: it.serialize({"x": spec}),
        lambda it, np: it.serialize({"x": it.TensorSpec(**{**spec, "data_len": 399})}),
        lambda it, np: it.serialize({"x": it.TensorSpec(**{**spec, "shape": [11, 5]})}),
        lambda it, np: it.TensorSpec(**{**spec, "dtype": "nonsense"}),
        lambda it, np: it.TensorSpec(**{**spec, "shape": 5}),
        lambda it, np: it.TensorSpec(**{**spec, "data_ptr": "0"}),
        lambda it, np: it.TensorSpec("float64", [10, 5], address, 400),
        lambda it, np: it.TensorSpec(dtype="float64"),
    ]
    for number, work in enumerate(works):
        theirs = outcome(lambda: work(safetensors, safetensors.numpy))
        ours = outcome(lambda: work(lodstone, lodstone.numpy))
        assert isinstance(theirs, Exception), number
        assert same_kind(ours, theirs), (number, theirs, ours)


def test_serialize_equals_safetensors(tmp_path):
    def specs(kind):
        return {
            name: kind(dtype=a.dtype.name, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
            for name, a in ARRAYS.items()
        }

    ours, theirs = specs(lodstone.TensorSpec), specs(safetensors.TensorSpec)
    for name, spec in theirs.items():
        assert repr(ours[name]) == repr(spec)
        for part in ("dtype", "shape", "data_ptr", "data_len"):
            assert getattr(ours[name], part) == getattr(spec, part)
            with pytest.raises(AttributeError):
                setattr(ours[name], part, 0)
    pair = {"dtype": "float4_e2m1fn_x2", "shape": [2, 3], "data_ptr": ARRAYS["bytes"].ctypes.data, "data_len": 6}
    assert repr(lodstone.TensorSpec(**pair)) == repr(safetensors.TensorSpec(**pair))
    ours["pair"], theirs["pair"] = lodstone.TensorSpec(**pair), safetensors.TensorSpec(**pair)
    metadata = {"k": "v"}
    expected = safetensors.serialize(theirs, metadata)
    assert lodstone.serialize(ours, metadata=metadata) == expected
    # The extension of the file is ignored here.
    lodstone.serialize_file(ours, tmp_path / "x.npz", metadata)
    assert (tmp_path / "x.npz").read_bytes() == expected
    found = lodstone.deserialize(expected)
    assert sorted(found, key=lambda it: it[0]) == sorted(safetensors.deserialize(expected), key=lambda it: it[0])
    assert all(isinstance(parts["data"], bytearray) for _, parts in found)
    with pytest.raises(lodstone.UnsupportedError, match="address 0"):
        lodstone.TensorSpec(dtype="uint8", shape=[1], data_ptr=0, data_len=1)


def test_errors_derive_from_the_package_and_from_python():
    for kind, base in (
        (lodstone.NoTensorError, KeyError),
        (lodstone.SharedTensorsError, RuntimeError),
        (lodstone.SliceError, IndexError),
        (lodstone.UnsupportedError, ValueError),
        (lodstone.NoModelError, FileNotFoundError),
    ):
        assert issubclass(kind, base) and issubclass(kind, lodstone.SafetensorError)
        error = pickle.loads(pickle.dumps(kind("what it is")))
        assert type(error) is kind and str(error) == "what it is"
