"""Files of PyTorch, loaded without it. `interop/package_load.py` loads them as its tensors."""

import json
import pathlib

import pytest

import lodstone

GOLDEN = pathlib.Path(__file__).parents[3] / "crates/formats/tests/golden/torch"


def test_files_of_torch_save_open_without_pytorch():
    model = lodstone.open(GOLDEN / "checkpoint.pt")
    assert model["model.weight"].shape == (2, 3)
    assert model.metadata["epoch"] == "3"


def test_tensors_that_share_bytes_are_reported():
    shares = {it["name"]: it.get("shares") for it in lodstone.open(GOLDEN / "state.pt").inspect()["tensors"]}
    assert shares["tied.weight"] == "head.weight" or shares["head.weight"] == "tied.weight"


@pytest.mark.parametrize("name", ["state.pt", "distributed", "script.pt", "export.pt2", "tape.pth.tar", "shards"])
def test_models_are_converted_and_written_back(name, tmp_path):
    tensors = lodstone.load_file(GOLDEN / name)
    written = tmp_path / "tensors.pt"
    lodstone.save_file(tensors, written, to="torch")
    found = lodstone.load_file(written)
    assert {name: bytes(it.data()) for name, it in found.items()} == {
        name: bytes(it.data()) for name, it in tensors.items()
    }


def test_imports_are_named_and_not_executed(tmp_path):
    path = tmp_path / "evil.pt"
    path.write_bytes((GOLDEN / "views-stream.pt").read_bytes().replace(b"collections\nOrderedDict", b"os\nsystem", 1))
    before = sorted(tmp_path.iterdir())
    lodstone.open(path).inspect()
    assert sorted(tmp_path.iterdir()) == before
    findings = lodstone.scan(path)["findings"]
    assert [it["kind"] for it in findings] == ["callable"] and "os.system" in findings[0]["message"]


def test_ties_are_stored_once_and_shown_under_both_names(tmp_path):
    written = tmp_path / "model.safetensors"
    lodstone.convert(GOLDEN / "state.pt", written)
    found = {it["name"]: it.get("shares") for it in lodstone.open(written).inspect()["tensors"]}
    assert {"tied.weight", "head.weight"} <= set(found) and (found["tied.weight"] or found["head.weight"])
    stored = lodstone.load_file(written)
    assert len({"tied.weight", "head.weight"} & set(stored)) == 1


def test_contents_are_no_paths():
    with pytest.raises(TypeError):
        lodstone.load_bytes("text")


def test_programs_are_opened_by_name_and_numbers_become_constants(tmp_path):
    numpy = pytest.importorskip("numpy")
    golden = pathlib.Path(__file__).parents[2] / "lodstone/tests/golden/torch_states"
    for case in json.loads((golden / "cases.json").read_text()):
        name = "main" if case["method"] == "forward" else case["method"]
        model = lodstone.open(golden / "detector.pt", program=name)
        x, y = (numpy.array(case[it]["data"], "float32").reshape(case[it]["shape"]) for it in "xy")
        numbers = case["numbers"]
        (found,) = model.run({"x": x} | {key: numpy.array(value) for key, value in numbers.items()}).values()
        assert numpy.allclose(found, y, atol=1e-5)
        out = tmp_path / "out.onnx"
        fixed = {"input_values": numbers, "input_shapes": {"x": x.shape}}
        lodstone.convert(golden / "detector.pt", out, program=name, **fixed)
        found = lodstone.open(out).run({"x": x})
        assert numpy.allclose(found["output"], y, atol=1e-5)
    with pytest.raises(lodstone.LodstoneError, match="no program `other`"):
        lodstone.open(golden / "detector.pt", program="other")
    with pytest.raises(TypeError, match="input_values"):
        lodstone.convert(golden / "detector.pt", tmp_path / "o.onnx", input_values={"rate": "16"})
