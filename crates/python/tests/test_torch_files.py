"""Files of PyTorch, loaded without it and as its tensors."""

import pathlib

import pytest

import lodstone

GOLDEN = pathlib.Path(__file__).parents[3] / "crates/formats/tests/golden/torch"


def test_files_of_torch_save_open_without_pytorch():
    model = lodstone.open(GOLDEN / "checkpoint.pt")
    assert model["model.weight"].shape == (2, 3)
    assert model.metadata["epoch"] == "3"


def test_the_state_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    from lodstone.torch import load

    for name in ["views.pt", "dtypes.pt", "state.pt"]:
        expected, found = torch.load(GOLDEN / name), load(GOLDEN / name)
        assert list(found) == list(expected)
        for key, value in expected.items():
            value = value.resolve_conj().resolve_neg().contiguous()
            assert found[key].dtype == value.dtype and found[key].shape == value.shape, key
            bits = [one.contiguous().reshape(-1).view(torch.uint8) for one in (found[key], value) if one.numel()]
            assert not bits or torch.equal(*bits), key


def test_tied_tensors_share_memory():
    pytest.importorskip("torch")
    from lodstone.torch import load

    state = load(GOLDEN / "state.pt")
    state["tied.weight"][0, 0] = 42
    assert state["head.weight"][0, 0] == 42
