"""Lookup of tensors by name."""

import json

import pytest
from conftest import DIGITS, GOLDEN

import lodstone

MODULE = GOLDEN / "mxnet/1.9.1/module"


def byte(number):
    return lodstone.Tensor("", "uint8", (1,), bytes([number]))


@pytest.fixture
def ambiguous(tmp_path):
    path = tmp_path / "both.params"
    lodstone.save_file({"arg:x": byte(1), "aux:x": byte(2), "aux:y": byte(3), "z": byte(4)}, path)
    return path


@pytest.mark.parametrize("path", [MODULE, MODULE / "net-0012.params", GOLDEN / "mxnet/2.0.0b1/gluon"])
def test_kind_prefixes_may_be_omitted(path):
    model = lodstone.open(path)
    assert any(name.startswith("arg:") for name in model) and any(name.startswith("aux:") for name in model)
    with lodstone.safe_open(path) as file:
        for name in model:
            _, _, plain = name.partition(":")
            for wanted in (name, plain):
                assert wanted in model
                assert model[wanted].name == model.get(wanted).name == file.get_tensor(wanted).name == name
    # Iteration returns the names in the file.
    index = json.loads((GOLDEN / "mxnet/index.json").read_text())
    recorded = next(case for case in index["cases"] if GOLDEN / "mxnet" / case["path"] == path)
    assert list(model) == [tensor["name"] for tensor in recorded["tensors"]]


def test_kind_prefixes_may_be_added(ambiguous):
    model = lodstone.open(ambiguous)
    assert bytes(model["arg:z"].data()) == bytes(model["aux:z"].data()) == bytes(model["z"].data()) == b"\4"
    assert "arg:y" not in model and bytes(model["y"].data()) == b"\3"


def test_ambiguous_names_are_an_error(ambiguous):
    model = lodstone.open(ambiguous)
    assert "x" not in model and model.get("x") is None and model.get("x", 7) == 7
    assert [bytes(model[name].data()) for name in ("arg:x", "aux:x")] == [b"\1", b"\2"]
    with lodstone.safe_open(ambiguous) as file:
        for look in (model.__getitem__, file.get_tensor):
            with pytest.raises(KeyError) as caught:
                look("x")
            assert str(caught.value) == "`x` is ambiguous: it matches `arg:x`, `aux:x`"


def test_other_formats_have_no_kind_prefixes(tmp_path):
    path = tmp_path / "x.safetensors"
    lodstone.save_file({"arg:x": byte(1)}, path)
    assert "arg:x" in lodstone.open(path) and "x" not in lodstone.open(path)


def test_a_missing_name_suggests_similar_names():
    model = lodstone.open(DIGITS)
    with lodstone.safe_open(DIGITS, "np") as file:
        for look in (model.__getitem__, file.get_tensor, file.get_slice):
            with pytest.raises(KeyError) as caught:
                look("fc_0.w")
            assert isinstance(caught.value, lodstone.NoTensorError)
            similar = "the most similar names are `fc_0.w_0`, `fc_0.b_0`"
            assert str(caught.value) == f"there is no tensor `fc_0.w`; {similar}"
            with pytest.raises(lodstone.NoTensorError) as caught:
                look("conv2d_0.w0")
            assert "`conv2d_0.w_0`" in str(caught.value) and str(caught.value).count("`") <= 8
            with pytest.raises(lodstone.NoTensorError) as caught:
                look("nothing like it")
            assert str(caught.value) == "there is no tensor `nothing like it`"
    with pytest.raises(KeyError, match="`arg:c1_weight`"):
        lodstone.open(MODULE)["c1_wieght"]


def test_many_and_long_names_are_fast():
    many = {f"layer.{number}.weight": byte(0) for number in range(50_000)}
    many["x" * 1_000_000] = byte(1)
    model = lodstone.open(lodstone.save_bytes(many, to="safetensors"))
    for name in ("layer.1.wieght", "y" * 1_000_000):
        with pytest.raises(lodstone.NoTensorError):
            model[name]
