"""Opening, inspecting and reading models."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import DIGITS, GOLDEN

import lodstone


def test_a_model_is_a_mapping():
    model = lodstone.open(DIGITS)
    assert len(model) == 12 and list(model)[0] == "batch_norm_0.b_0"
    assert "fc_0.w_0" in model and "fc_9.w_0" not in model and 3 not in model
    assert model.get("fc_9.w_0") is None
    assert [name for name, _ in model.items()] == list(model) == [t.name for t in model.tensors]
    for absent in ("fc_9.w_0", 3, None, "\udc80"):
        assert absent not in model and model.get(absent) is None
        with pytest.raises(KeyError, match="there is no tensor"):
            model[absent]


def test_attributes_of_a_tensor():
    weight = lodstone.open(DIGITS)["conv2d_0.w_0"]
    assert (weight.name, weight.dtype, weight.shape) == ("conv2d_0.w_0", "float32", (16, 1, 3, 3))
    assert (weight.nbytes, weight.kind, weight.lod, weight.parts) == (576, "dense", [], [])
    data = memoryview(weight.data())
    assert data.readonly and data.nbytes == 576
    private = memoryview(weight.data(private=True))
    assert not private.readonly and private == data
    private[0] ^= 1
    assert private != data and memoryview(weight.data()) == data


def test_a_tensor_outlives_its_model():
    model = lodstone.open(DIGITS)
    weight, again = model["conv2d_0.w_0"], model.tensors[0].renamed("again")
    first = model.tensors[0]
    del model
    assert (weight.name, weight.shape, len(weight.data())) == ("conv2d_0.w_0", (16, 1, 3, 3), 576)
    assert again.name == "again" and memoryview(again.data()) == memoryview(first.data())


def test_tensors_without_names_are_named_by_their_index(tmp_path):
    path = tmp_path / "nameless"
    named = [lodstone.Tensor(name, "uint8", (1,), bytes([number])) for number, name in enumerate(("", "a", "b"))]
    assert [tensor.name for tensor in named] == ["", "a", "b"]
    lodstone.save_file({tensor.name: tensor for tensor in named}, path, to="paddle-params", allow=["names"])
    model = lodstone.open(path)
    assert list(model) == [tensor.name for tensor in model.tensors] == ["0", "1", "2"]
    assert [(model[name].name, bytes(model[name].data())) for name in "21"] == [("2", b"\2"), ("1", b"\1")]
    assert "" not in model and "3" not in model


def test_inspect_equals_the_output_of_the_command():
    command = [sys.executable, "-m", "lodstone", "inspect", "--json", "--hash", DIGITS]
    printed = subprocess.run(command, check=True, capture_output=True).stdout
    printed = json.loads(printed)
    assert printed.pop("path") == str(DIGITS)
    assert lodstone.open(DIGITS).inspect(hash=True, operators=True) == printed


def test_program():
    program = lodstone.open(DIGITS).program
    assert [value["name"] for value in program["inputs"]] == ["image"]
    assert len(program["operators"]) == 14
    assert lodstone.open(GOLDEN / "safetensors/dtypes.safetensors").program is None


@pytest.mark.parametrize("make", [bytes, io.BytesIO, bytearray])
def test_bytes_and_files_are_opened(make):
    path = GOLDEN / "safetensors/metadata.safetensors"
    model, same = lodstone.open(make(path.read_bytes())), lodstone.open(path)
    assert dict(model.metadata) == dict(same.metadata) != {}
    for name in same:
        assert memoryview(model[name].data()) == memoryview(same[name].data())


def test_an_open_file_is_read():
    with open(GOLDEN / "safetensors/metadata.safetensors", "rb") as file:
        assert len(lodstone.open(file)) > 0


def test_sparse_tensors_have_parts():
    index = json.loads((GOLDEN / "mxnet/index.json").read_text())
    seen = set()
    for case in index["cases"]:
        for recorded in case.get("tensors", []):
            if recorded.get("kind") in ("csr", "row_sparse"):
                tensor = lodstone.open(GOLDEN / "mxnet" / case["path"])[recorded["name"] or "0"]
                assert tensor.kind == recorded["kind"] and list(tensor.shape) == recorded["shape"]
                found = {part.name: part.dtype for part in tensor.parts}
                assert found == {name: dtype for name, (dtype, _) in recorded["parts"].items()}
                for part in tensor.parts:
                    values = memoryview(part.data()).cast("q" if part.dtype == "int64" else "i")
                    assert values.tolist() == recorded["parts"][part.name][1]
                seen.add(tensor.kind)
    assert seen == {"csr", "row_sparse"}


def test_string_tensors_have_values():
    tensors = lodstone.open(GOLDEN / "onnx/types/others.onnx").tensors
    assert any(tensor.kind == "strings" and tensor.values for tensor in tensors)


def test_safe_open_is_as_in_safetensors():
    with lodstone.safe_open(DIGITS, framework="np") as file:
        assert len(file.keys()) == 12 and file.metadata() is None
        part = file.get_slice("fc_0.w_0")
        assert part.get_shape() == [128, 10] and part[:, :3].shape == (128, 3)
        assert file.get_tensor("fc_0.b_0").shape == (10,)
        assert part.get_dtype() == "F32"
    with lodstone.safe_open(DIGITS) as file, pytest.raises(ValueError, match="framework='numpy'"):
        file.get_slice("fc_0.w_0")
    with pytest.raises(ValueError, match="cuda"):
        lodstone.safe_open(DIGITS, device="cuda")
    with pytest.raises(ValueError, match="frameworks"):
        lodstone.safe_open(DIGITS, framework="caffe")


def test_old_names_of_functions_of_bytes_warn():
    with pytest.deprecated_call(match="save_bytes"):
        data = lodstone.save({"x": np.arange(3)})
    with pytest.deprecated_call(match="load_bytes"):
        assert lodstone.load(data)["x"].shape == (3,)
    assert lodstone.load_bytes(lodstone.save_bytes({"x": np.arange(3)}))["x"].numpy().tolist() == [0, 1, 2]


def test_parts_of_tensors_are_selected():
    weight = lodstone.open(DIGITS)["conv2d_0.w_0"]
    whole = weight.numpy()
    np.testing.assert_array_equal(weight[2:5, ..., 0], whole[2:5, ..., 0])
    np.testing.assert_array_equal(weight[-1], whole[-1])
    with pytest.raises(lodstone.SliceError, match="out of bounds"):
        weight[99]


def test_models_are_closed():
    with lodstone.open(DIGITS) as model:
        weight = model["fc_0.b_0"]
    assert weight.numpy().shape == (10,) and repr(model) == "<lodstone.Model, closed>"
    for use in (lambda: model["fc_0.b_0"], lambda: len(model), lambda: "x" in model, lambda: model.format):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_notebooks_show_models():
    model = lodstone.open(lodstone.save_bytes({"<b>": np.zeros(3)}))
    shown = model._repr_html_()
    assert "&lt;b&gt;" in shown and "<b>" not in shown and "[3]" in shown
    assert model._ipython_key_completions_() == ["<b>"]


def test_properties_beside_the_type():
    tensors = lodstone.open(GOLDEN / "mxnet/1.9.1/sparse.params").tensors
    assert {tensor.context for tensor in tensors} == {"cpu(0)"}
    weight = lodstone.open(GOLDEN / "paddle/3.3.1/pir")["conv2d_0.w_0"]
    assert (weight.trainable, weight.context, weight.layout, weight.quantization) == (True, None, None, None)
    constants = lodstone.open(GOLDEN / "glow/all_elemkinds_constants.onnx").tensors
    quantized = [tensor.quantization for tensor in constants if tensor.quantization]
    assert any(len(found.get("scales", ())) == 1 for found in quantized)
    assert any("rowwise" in found.get("packing", "") for found in quantized)
    shown = lodstone.open(GOLDEN / "glow/storage_properties.onnx").program["inputs"]
    assert [value["name"] for value in shown if value.get("static")] == ["static_nhwc"]
