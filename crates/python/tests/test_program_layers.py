"""Compares the layers with those of PaddlePaddle 1.8.5, by the same calls."""

import re
import sys

import numpy as np
import pytest
from conftest import ROOT

import lodstone.program as fluid
from lodstone.program import layers

GOLDEN = ROOT / "crates/python/tests/golden"
sys.path.insert(0, str(GOLDEN))

from layer_cases import CASES  # noqa: E402

RECORDED = np.load(GOLDEN / "layers.npz")

TOLERANCES = {"float32": (2e-5, 2e-6), "float64": (1e-6, 1e-7)}


def computed(case, dynamic=False):
    """Returns the results of a case; with `dynamic`, the first dim of each input is unknown while it is built."""
    with fluid.Network() as net:
        variables, feed = {}, {}
        for name, value in case.inputs.items():
            array, lod = value if isinstance(value, tuple) else (value, None)
            shape = [-1, *array.shape[1:]] if dynamic else list(array.shape)
            variables[name] = layers.data(name, shape, False, array.dtype, len(lod or []))
            lengths = [[b - a for a, b in zip(level, level[1:], strict=False)] for level in lod or []]
            feed[name] = fluid.create_lod_tensor(array, lengths) if lod else array
        results = case.build(layers, fluid, **variables)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(net.startup, scope=scope)
    return executor.run(net.main, feed, results, scope=scope)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_layers_compute_what_paddlepaddle_computes(case):
    found = computed(case)
    wanted = [RECORDED[f"{case.name}.{number}"] for number in range(len(found))]
    assert f"{case.name}.{len(found)}" not in RECORDED
    for one, other in zip(found, wanted, strict=True):
        # PaddlePaddle 1.8 has few tensors without dims: single numbers have one of size 1.
        assert one.shape == other.shape or {one.shape, other.shape} == {(), (1,)}
        rtol, atol = TOLERANCES.get(str(one.dtype), (0, 0))
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=rtol, atol=atol)


UNKNOWN = "the size of the first dim must be known"
CONDITION = "a condition must be a single Boolean, of known dims"

NOT_DYNAMIC = {
    "case": CONDITION,
    "cond_-1.0": CONDITION,
    "cond_1.0": CONDITION,
    "squeeze": UNKNOWN,
    "switch_-1.0": CONDITION,
    "switch_1.0": CONDITION,
    "switch_case_0": CONDITION,
    "switch_case_2": CONDITION,
    "switch_case_5": CONDITION,
    "unstack": UNKNOWN,
}
"""Cases that cannot be built while the first dim of their inputs is unknown, with the reason."""


@pytest.mark.parametrize("case", [case for case in CASES if case.inputs], ids=lambda case: case.name)
def test_the_first_dim_may_be_unknown(case):
    if case.name in NOT_DYNAMIC:
        with pytest.raises(ValueError):
            computed(case, dynamic=True)
        return
    for number, one in enumerate(computed(case, dynamic=True)):
        other = RECORDED[f"{case.name}.{number}"]
        rtol, atol = TOLERANCES.get(str(one.dtype), (0, 0))
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=rtol, atol=atol)


WITHOUT_CASE = {
    **dict.fromkeys(["gaussian_random", "randn", "uniform_random"], "random"),
    **dict.fromkeys(["cosh", "silu", "sinh"], "PaddlePaddle 1.8.5 does not have it"),
    "elementwise_equal": "another name of a layer with a case",
    **dict.fromkeys(["create_array", "data", "tensor_array_to_tensor"], "tested in test_program.py"),
}
"""Layers without a case, with the reason."""


def test_every_layer_has_a_case():
    words = set(re.findall(r"\w+", (GOLDEN / "layer_cases.py").read_text()))
    words |= {f"elementwise_{kind}" for kind in ("add", "sub", "mul", "max", "min")}
    words |= {f"reduce_{kind}" for kind in ("sum", "mean", "max", "min", "prod", "all", "any")}
    missing = set(layers.__all__) - words - set(WITHOUT_CASE)
    # Schedules are compared with recorded ones in the tests of the program crate.
    assert {name for name in missing if not name.endswith(("_decay", "_warmup"))} == set()
    assert set(WITHOUT_CASE) <= set(layers.__all__) - words


def test_a_layer_that_does_not_exist_is_named():
    with pytest.raises(AttributeError, match="there is no layer 'nce'"):
        layers.nce  # noqa: B018


def test_layers_that_the_documents_call_missing_are_missing():
    text = (ROOT / "docs/programs.md").read_text()
    rows = [line for line in text.partition("## Not supported")[2].splitlines() if line.startswith("| ")]
    # The first names of a row; those in brackets are what there is instead.
    missing = [name for row in rows for name in re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", row))]
    assert len(missing) > 60
    assert [name for name in missing if name in layers.__all__] == []
