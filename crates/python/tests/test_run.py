"""Runs of models, and their comparison."""

import numpy as np
import pytest
from conftest import DIGITS, ROOT

import lodstone
import lodstone.numpy

MODELS = ROOT / "crates/engine/tests/golden/onnx_models"


def recorded(name):
    """Returns the recorded inputs of an ONNX model, and what ONNX Runtime returned."""
    arrays = lodstone.numpy.load_file(MODELS / f"{name}.0.npz")
    inputs = {key.removeprefix("in."): value for key, value in arrays.items() if key.startswith("in.")}
    return inputs, [value for key, value in arrays.items() if not key.startswith("in.")]


@pytest.mark.parametrize("engine", ["builtin", "reference"])
@pytest.mark.parametrize("name", ["images", "series", "rounds", "calls", "whole"])
def test_onnx_models_return_what_onnx_runtime_returned(name, engine):
    inputs, expected = recorded(name)
    outputs = lodstone.open(MODELS / f"{name}.onnx").run(inputs, engine=engine)
    assert len(outputs) == len(expected)
    for found, wanted in zip(outputs.values(), expected):
        np.testing.assert_allclose(np.asarray(found), wanted, 1e-5, 1e-5)


def test_a_session_runs_again():
    inputs, expected = recorded("images")
    model = lodstone.open(MODELS / "images.onnx")
    session = model.session(threads=2, profile=True)
    assert set(session.inputs) == set(inputs)
    first = session.run(inputs)
    second = session.run([inputs[name] for name in session.inputs])
    for name in first:
        assert np.array_equal(first[name], second[name])
    rows = session.profile()
    assert rows and all(row["calls"] % 2 == 0 for row in rows)
    with pytest.raises(ValueError, match="profile=True"):
        model.session().profile()


def test_any_value_can_be_fetched():
    inputs, _ = recorded("images")
    model = lodstone.open(MODELS / "images.onnx")
    inner = model.program["operators"][0]["outputs"][""][0]
    output = next(iter(model.run(inputs)))
    found = model.run(inputs, fetch=[inner, output])
    assert list(found) == [inner, output]
    assert np.array_equal(found[output], model.run(inputs)[output])
    assert list(model.run(inputs, fetch=inner)) == [inner]


def test_inputs_are_arrays_of_any_kind():
    import array

    model = lodstone.open(DIGITS)
    [(name, given)] = model.random_inputs(7).items()
    expected = np.asarray(model.run({name: given})["save_infer_model/scale_0.tmp_0"])
    plain = np.asarray(given)
    cast = memoryview(array.array("f", plain.reshape(-1).tolist())).cast("B").cast("f", plain.shape)
    for same in (plain, plain[:], cast, lodstone.Tensor("x", "float32", plain.shape, plain)):
        assert np.array_equal(np.asarray(model.run([same])["save_infer_model/scale_0.tmp_0"]), expected)
    with pytest.raises(TypeError, match="expected an array or a tensor, found float"):
        model.run({name: [1.0]})
    with pytest.raises(TypeError, match="expected a mapping"):
        model.run("x")


def test_errors_name_what_is_wrong():
    model = lodstone.open(DIGITS)
    with pytest.raises(lodstone.UnsupportedError, match="`image` is missing"):
        model.run()
    with pytest.raises(lodstone.UnsupportedError, match="`other`"):
        model.run({"image": np.zeros((1, 1, 8, 8), np.float32), "other": np.zeros(1)})
    with pytest.raises(ValueError, match="unknown engine `fast`"):
        model.session(engine="fast")
    with pytest.raises(lodstone.UnsupportedError, match="no program"):
        lodstone.open(ROOT / "examples/digits/test.npz").run()
    with pytest.raises(lodstone.UnsupportedError, match="3 steps"):
        model.run(model.random_inputs(), max_steps=3)


STRINGS = """
ir_version: 8
opset_import { version: 20 }
graph {
  name: "strings"
  node { op_type: "StringConcat" input: "a" input: "a" output: "b" }
  input { name: "a" type { tensor_type { elem_type: 8 shape { dim { dim_param: "n" } } } } }
  output { name: "b" type { tensor_type { elem_type: 8 shape { dim { dim_param: "n" } } } } }
}
"""


def test_strings_go_in_and_out(tmp_path):
    file = tmp_path / "strings.textproto"
    file.write_text(STRINGS)
    model = lodstone.open(file)
    [found] = model.run({"a": np.array(["abc", "é"])}).values()
    assert found.values == [b"abcabc", "éé".encode()]
    assert np.asarray(found).tolist() == found.values
    assert model.run([np.array([b"x", "y"], object)])["b"].values == [b"xx", b"yy"]
    with pytest.raises(TypeError, match="expected numbers or strings, found NoneType"):
        model.run([np.array([None])])


SEQUENCE = """
ir_version: 8
opset_import { version: 18 }
graph {
  name: "sequence"
  node { op_type: "SequenceInsert" input: "s" input: "x" output: "longer" }
  node { op_type: "OptionalHasElement" input: "o" output: "has" }
  input { name: "s" type { sequence_type { elem_type { tensor_type { elem_type: 1 } } } } }
  input { name: "x" type { tensor_type { elem_type: 1 } } }
  input { name: "o" type { optional_type { elem_type { tensor_type { elem_type: 1 } } } } }
  output { name: "longer" type { sequence_type { elem_type { tensor_type { elem_type: 1 } } } } }
  output { name: "has" type { tensor_type { elem_type: 9 shape {} } } }
}
"""


def test_sequences_and_optional_values_go_in_and_out(tmp_path):
    file = tmp_path / "sequence.textproto"
    file.write_text(SEQUENCE)
    session = lodstone.open(file).session()
    x = np.arange(3, dtype=np.float32)
    for optional in (None, x):
        found = session.run({"s": [x, x[:1]], "x": x[:2], "o": optional})
        assert [len(np.asarray(one)) for one in found["longer"]] == [3, 1, 2]
        assert np.asarray(found["has"]).item() is (optional is not None)


def test_models_are_compared():
    found = lodstone.compare(DIGITS, lodstone.open(DIGITS), seed=3, shapes={"image": (2, 1, 8, 8)})
    assert found["same"] and found["values"][-1]["errors"]["elements"] == 20
    model = lodstone.open(MODELS / "images.onnx")
    inputs, _ = recorded("images")
    found = lodstone.compare(model, model, inputs, outputs_only=True)
    assert found["same"] and all(value["is_output"] for value in found["values"])


def test_a_session_has_inputs_and_outputs():
    session = lodstone.open(DIGITS).session()
    image = np.zeros([2, 1, 8, 8], "float32")
    outputs = session({"image": image})
    assert list(outputs) == session.outputs
    fetched = lodstone.open(DIGITS).session(fetch=["batch_norm_0.tmp_4", "batch_norm_1.tmp_4"])
    assert fetched.outputs == ["batch_norm_0.tmp_4", "batch_norm_1.tmp_4"] == list(fetched.run([image]))


def test_a_misspelled_input_is_named_with_its_nearest_names():
    with pytest.raises(lodstone.UnsupportedError, match="no input `imge`.*`image`"):
        lodstone.open(DIGITS).run({"imge": np.zeros([1, 1, 8, 8], "float32")})
