"""Loading and saving NumPy arrays."""

import array
import copy
import json
import pickle

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from conftest import DIGITS, GOLDEN

import lodstone
import lodstone.numpy


def test_arrays_of_an_open_model_are_not_copied():
    model = lodstone.open(DIGITS)
    weight = lodstone.numpy.array(model["conv2d_1.w_0"])
    assert weight.shape == (32, 16, 3, 3) and weight.dtype == np.float32
    assert not weight.flags.writeable and weight.flags.aligned
    del model
    assert np.isfinite(weight).all()


def test_loaded_arrays_are_writable():
    weights = lodstone.numpy.load_file(DIGITS)
    for name, tensor in lodstone.open(DIGITS).items():
        assert np.array_equal(weights[name], lodstone.numpy.array(tensor))
        weights[name][...] = 0


def test_safetensors_agrees(tmp_path):
    path = GOLDEN / "safetensors/dtypes.safetensors"
    ours = lodstone.numpy.load_file(path)
    theirs = {}
    with safetensors.safe_open(path, "np") as file:
        for name in file.keys():
            try:
                theirs[name] = file.get_tensor(name)
            except (TypeError, KeyError, AttributeError):
                # Types that safetensors does not convert to NumPy.
                pass
    assert len(theirs) > 8
    for name, expected in theirs.items():
        assert ours[name].dtype == expected.dtype and ours[name].tobytes() == expected.tobytes()
    out = tmp_path / "out.safetensors"
    lodstone.numpy.save_file(theirs, out, {"by": "lodstone"})
    for name, found in safetensors.numpy.load_file(out).items():
        assert found.dtype == theirs[name].dtype and found.tobytes() == theirs[name].tobytes()


@pytest.mark.parametrize("format", ["safetensors", "npz", "mxnet-params", "paddle-params"])
def test_saved_arrays_are_loaded_unchanged(tmp_path, format):
    arrays = {
        "a": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "b": np.array([1, 2, 3], np.int64),
        "c": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "d": np.arange(10, dtype=">i4")[::2],
    }
    path = tmp_path / "out"
    lodstone.numpy.save_file(arrays, path, to=format, allow=["names"])
    found = lodstone.numpy.load_file(path)
    # Some formats have no names.
    found = found if set(found) == set(arrays) else dict(zip(arrays, found.values(), strict=True))
    for name, expected in arrays.items():
        assert np.array_equal(expected, found[name])
        assert found[name].dtype == expected.dtype.newbyteorder("=")


@pytest.mark.parametrize(
    "dtype",
    ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint4", "float8_e8m0fnu"],
)
def test_types_of_ml_dtypes(dtype):
    values = np.array([0, 1, 2, 1, 0.5, 4, 2], np.float32).astype(getattr(ml_dtypes, dtype))
    tensor = lodstone.numpy.tensor("x", values)
    assert tensor.dtype == dtype and tensor.shape == (7,)
    found = lodstone.numpy.array(tensor)
    assert found.dtype == values.dtype and found.tobytes() == values.tobytes()


def test_packed_elements_begin_with_the_low_bits():
    tensor = lodstone.Tensor("x", "uint4", (3,), bytes([0x21, 0x03]))
    assert lodstone.numpy.array(tensor).astype(int).tolist() == [1, 2, 3]


def test_arrays_match_what_the_frameworks_wrote():
    """The bytes of arrays are those recorded with the frameworks."""
    import hashlib

    seen = 0
    for family in ("paddle", "mxnet", "numpy", "onnx"):
        index = json.loads((GOLDEN / family / "index.json").read_text())
        for case in index["cases"]:
            if case.get("params"):
                continue
            try:
                model = lodstone.open(GOLDEN / family / case["path"])
            except lodstone.LodstoneError:
                assert case["format"].endswith("refused"), case["path"]
                continue
            for recorded, tensor in zip(case.get("tensors", []), model.tensors):
                if recorded.get("sha256") and tensor.kind == "dense":
                    digest = hashlib.sha256(tensor.data()).hexdigest()
                    assert digest == recorded["sha256"], (case["path"], tensor)
                    seen += 1
    assert seen > 200


def test_objects_with_a_buffer_are_saved(tmp_path):
    path = tmp_path / "x.npz"
    values = {
        "bytes": b"abc",
        "floats": array.array("d", [1.5]),
        "longs": array.array("q", [-1, 2]),
        "view": memoryview(bytes(6)).cast("B", (2, 3)),
        "tensor": lodstone.open(DIGITS)["fc_0.b_0"],
    }
    lodstone.save_file(values, path)
    found = np.load(path)
    assert found["bytes"].tolist() == [97, 98, 99] and found["floats"].tolist() == [1.5]
    assert found["longs"].tolist() == [-1, 2] and found["view"].shape == (2, 3)
    assert found["tensor"].shape == (10,)
    with pytest.raises(TypeError, match="unknown element type"):
        lodstone.save_file({"x": memoryview(b"abc").cast("c")}, path)


def test_a_single_file_is_saved_to_bytes():
    arrays = {"a": np.arange(3, dtype=np.int32), "none": np.zeros((0, 2), np.float32), "one": np.array(7.5)}
    data = lodstone.numpy.save(arrays, {"k": "v"})
    assert safetensors.numpy.load(data)["a"].tolist() == [0, 1, 2]
    assert lodstone.open(data).metadata == {"k": "v"}
    assert lodstone.numpy.load(data)["none"].shape == (0, 2)
    assert lodstone.load_bytes(data)["a"].dtype == "int32"
    scalar = lodstone.numpy.load(data)["one"]
    assert scalar.shape == () and scalar == 7.5


def test_dlpack_exports_private_memory():
    tensor = lodstone.open(DIGITS)["conv2d_1.w_0"]
    taken = np.from_dlpack(tensor)
    assert np.array_equal(taken, lodstone.numpy.array(tensor))
    assert tensor.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="float4"):
        np.from_dlpack(lodstone.Tensor("x", "float4_e2m1fn", (2,), b"\0"))


def test_numpy_accepts_a_tensor_as_an_array():
    tensor = lodstone.open(DIGITS)["fc_0.b_0"]
    expected = lodstone.numpy.array(tensor)
    plain = np.asarray(tensor)
    assert plain.dtype == np.float32 and np.array_equal(plain, expected) and not plain.flags.writeable
    assert np.array(tensor).flags.writeable and np.array_equal(np.array(tensor), expected)
    assert np.array_equal(np.asarray(tensor, "float64"), expected.astype("float64"))


def test_two_tensors_with_one_name_are_an_error():
    path = GOLDEN / "onnx_check/initializer_twice.onnx"
    assert len(lodstone.open(path).tensors) == 2
    for files in (lodstone, lodstone.numpy):
        with pytest.raises(lodstone.UnsupportedError, match="`w`"):
            files.load_file(path)


def test_bytes_cannot_be_sealed():
    with pytest.raises(ValueError, match="seal"):
        lodstone.numpy.save({"x": np.zeros(1)}, seal=True)


def test_frameworks_are_imported_on_request_only():
    import subprocess
    import sys

    code = "import sys, lodstone; lodstone.open('examples/digits/paddle'); print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout == "False\n"


SUBCLASSES = GOLDEN.parents[2] / "cli/tests/golden/reported/torch/subclasses"


def test_tensors_that_consist_of_others_do_not_block_a_file():
    path = SUBCLASSES / "fsdp1_sharded_tensor.pt"
    with pytest.warns(UserWarning, match="`module.w` only consists of other tensors: `module.w._local_shards.0.tensor`"):
        arrays = lodstone.numpy.load_file(path)
    assert list(arrays) == ["module.w._local_shards.0.tensor", "b"]
    assert arrays["module.w._local_shards.0.tensor"].tolist() == np.arange(12).reshape(4, 3).tolist()
    with pytest.raises(lodstone.NoTensorError, match="`module.w` only consists of other tensors"):
        arrays["module.w"]
    with pytest.raises(KeyError, match="^'nothing'$"):
        arrays["nothing"]

    # A model contains the tensor, with its shape, but not its elements.
    whole = lodstone.open(path)["module.w"]
    assert (whole.kind, whole.shape) == ("absent", (4, 3))
    with pytest.raises(lodstone.UnsupportedError, match="only consists of other tensors"):
        whole.numpy()


SPARSE = GOLDEN / "mxnet/1.9.1/sparse.params"


def test_sparse_tensors_are_not_loaded_silently_as_arrays():
    with pytest.raises(lodstone.LossyError) as refused:
        lodstone.numpy.load_file(SPARSE)
    assert set(refused.value.losses) == {"sparse"}
    assert "`csr`" in str(refused.value)

    # If the loss is allowed, the parts of a sparse tensor are separate arrays.
    parts = lodstone.numpy.load_file(SPARSE, allow="sparse")
    whole = lodstone.open(SPARSE)["csr"]
    dense = np.zeros(whole.shape, parts["csr"].dtype)
    for row, (begin, end) in enumerate(zip(parts["csr.indptr"], parts["csr.indptr"][1:])):
        dense[row, parts["csr.indices"][begin:end]] = parts["csr"][begin:end]
    assert np.count_nonzero(dense) == np.count_nonzero(parts["csr"]) > 0

    # `lodstone.load_file` returns complete tensors, without a loss.
    assert lodstone.load_file(SPARSE)["csr"].kind == "csr"
    with lodstone.safe_open(SPARSE, "numpy") as file:
        with pytest.raises(lodstone.LossyError, match="csr"):
            file.get_tensor("csr")
        with pytest.raises(lodstone.LossyError, match="csr"):
            file.get_slice("csr")
    with pytest.raises(ValueError, match="sparse"):
        np.asarray(whole)
    with pytest.raises(BufferError, match="sparse"):
        np.from_dlpack(whole)


def test_a_lod_is_not_lost_silently():
    lods = [case for case in json.loads((GOLDEN / "paddle/index.json").read_text())["cases"] if "lod" in case["path"]]
    seen = 0
    for case in lods:
        path = GOLDEN / "paddle" / case["path"]
        try:
            tensors = lodstone.open(path, params=case.get("params") and GOLDEN / "paddle" / case["params"])
        except lodstone.LodstoneError:
            continue
        if not any(tensor.lod for tensor in tensors.values()) or any(t.kind != "dense" for t in tensors.values()):
            continue
        with pytest.raises(lodstone.LossyError) as refused:
            lodstone.numpy.load_file(path)
        assert set(refused.value.losses) == {"lod"}
        loaded = lodstone.numpy.load_file(path, allow=["lod"])
        assert [array.shape for array in loaded.values()] == [tensor.shape for tensor in tensors.values()]
        seen += 1
    assert seen > 0


def test_tensors_have_the_usual_properties():
    model = lodstone.open(DIGITS)
    weight = model["conv2d_1.w_0"]
    assert (weight.ndim, weight.size, len(weight)) == (4, 32 * 16 * 3 * 3, 32)
    assert weight.tolist() == weight.numpy().tolist()
    one = lodstone.Tensor("one", "float32", [], bytes(4))
    assert (one.ndim, one.size, one.tolist()) == (0, 1, 0.0)
    with pytest.raises(TypeError, match="no len"):
        len(one)
    nothing = lodstone.Tensor("nothing", "int8", [0, 2], b"")
    assert (nothing.size, len(nothing)) == (0, 0)
    assert one and nothing


def test_tensors_are_equal_if_their_bits_are():
    model, again = lodstone.open(DIGITS), lodstone.open(DIGITS)
    for name, tensor in model.items():
        assert tensor == tensor and tensor == model[name] == again[name] == tensor.renamed("x")
        assert hash(tensor) == hash(again[name]) == hash(tensor.renamed("x"))
    assert model["conv2d_0.w_0"] != model["conv2d_1.w_0"]
    nan = lodstone.Tensor("a", "float32", [1], np.array([np.nan], "f4"))
    zero = lodstone.Tensor("a", "float32", [1], np.array([0.0], "f4"))
    assert nan == lodstone.Tensor("b", "float32", [1], np.array([np.nan], "f4"))
    assert zero != lodstone.Tensor("a", "float32", [1], np.array([-0.0], "f4"))
    assert zero != lodstone.Tensor("a", "int32", [1], np.array([0], "i4"))
    assert zero != lodstone.Tensor("a", "float32", [1, 1], np.array([0.0], "f4"))
    assert zero != zero.with_lod([[0, 1]])
    assert zero != np.zeros(1, "f4").tolist() and zero is not None


def test_tensors_are_pickled_and_copied():
    model = lodstone.open(DIGITS)
    for tensor in model.values():
        for other in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor), copy.copy(tensor)):
            assert (other, other.name) == (tensor, tensor.name)
    words = lodstone.Tensor("words", "float32", [3], np.arange(3, dtype="f4")).with_lod([[0, 1, 3]])
    assert pickle.loads(pickle.dumps(words)).lod == [[0, 1, 3]]
    # What is copied deeply does not change with the array that the tensor was made of.
    values = np.zeros(2, "f4")
    tensor = lodstone.Tensor("x", "float32", [2], values)
    copied = copy.deepcopy(tensor)
    values[0] = 1
    assert copied.tolist() == [0, 0] and tensor.tolist() == [1, 0]
