"""Layers over sequences: tensors with a LoD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import Variable, dtype_name
from .._layer import Attr, Layer, ParamAttr, param_attr, sizes
from ..initializer import Constant, Xavier
from ._nn import known

__all__ = [
    "crf_decoding",
    "dynamic_gru",
    "dynamic_lstm",
    "im2sequence",
    "linear_chain_crf",
    "lod_reset",
    "sequence_concat",
    "sequence_conv",
    "sequence_enumerate",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_mask",
    "sequence_pool",
    "sequence_reshape",
    "sequence_reverse",
    "sequence_slice",
    "sequence_softmax",
]


def _required(argument: str, given: Attr) -> ParamAttr:
    found = param_attr(argument, given)
    if found is None:
        raise ValueError(f"argument '{argument}': the layer has this parameter, so it cannot be False")
    return found


def sequence_pool(input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Variable:
    """Reduces each sequence: `"sum"`, `"average"`, `"sqrt"`, `"max"`, `"last"` or `"first"`; empty ones are `pad_value`."""
    attrs = {"pooltype": pool_type.upper(), "is_test": is_test, "pad_value": pad_value}
    return Layer("sequence_pool").result("sequence_pool", {"X": input}, attrs, extra=["MaxIndex"])


def sequence_first_step(input: Variable) -> Variable:
    """The first row of each sequence."""
    return sequence_pool(input, "first")


def sequence_last_step(input: Variable) -> Variable:
    """The last row of each sequence."""
    return sequence_pool(input, "last")


def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Softmax over each sequence."""
    return Layer("sequence_softmax", name).result("sequence_softmax", {"X": input})


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: Attr = None,
    param_attr: Attr = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A convolution over the rows of each sequence; rows beyond its ends are zero."""
    layer = Layer("sequence_conv", name)
    shape = [filter_size * known("input", input, input.shape[1:2])[0], num_filters]
    filter = layer.parameter(_required("param_attr", param_attr), shape, input.dtype, Xavier())
    attrs = {
        "contextStride": filter_stride,
        "contextStart": -(filter_size // 2) if padding_start is None else padding_start,
        "contextLength": filter_size,
    }
    made = layer.result("sequence_conv", {"X": input, "Filter": filter}, attrs)
    return layer.activated(layer.biased(made, bias_attr, num_filters, 1), act)


def sequence_expand(x: Variable, y: Variable, ref_level: int = -1, name: str | None = None) -> Variable:
    """Sequences of `x`, repeated as often as the LoD of `y` at a level has rows."""
    return Layer("sequence_expand", name).result("sequence_expand", {"X": x, "Y": y}, {"ref_level": ref_level})


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Rows of `x`, each repeated to the length of a sequence of `y`."""
    return Layer("sequence_expand_as", name).result("sequence_expand_as", {"X": x, "Y": y})


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """Sequences at the same positions, concatenated."""
    return Layer("sequence_concat", name).result("sequence_concat", {"X": list(input)})


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """The elements of each sequence, in rows of another width."""
    return Layer("sequence_reshape").result("sequence_reshape", {"X": input}, {"new_dim": new_dim})


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """The rows of each sequence, in reverse order."""
    return Layer("sequence_reverse", name).result("sequence_reverse", {"X": x}, None, "Y")


def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """A part of each sequence, from an offset and of a length."""
    inputs = {"X": input, "Offset": offset, "Length": length}
    return Layer("sequence_slice", name).result("sequence_slice", inputs)


def sequence_enumerate(input: Variable, win_size: int, pad_value: int = 0, name: str | None = None) -> Variable:
    """The window of rows that begins at each row of a sequence of indices."""
    attrs = {"win_size": win_size, "pad_value": pad_value}
    return Layer("sequence_enumerate", name).result("sequence_enumerate", {"X": input}, attrs)


def sequence_mask(x: Variable, maxlen: int | None = None, dtype: Any = "int64", name: str | None = None) -> Variable:
    """Rows of `maxlen` with as many leading ones as each length in `x` [default: the largest length]."""
    attrs = {"maxlen": -1 if maxlen is None else maxlen, "out_dtype": dtype_name(dtype)}
    return Layer("sequence_mask", name).result("sequence_mask", {"X": x}, attrs, "Y")


def lod_reset(x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None) -> Variable:
    """A tensor with the LoD of `y`, or these offsets."""
    attrs = {"target_lod": None if target_lod is None else list(target_lod)}
    return Layer("lod_reset").result("lod_reset", {"X": x, "Y": y}, attrs)


def im2sequence(
    input: Variable,
    filter_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    name: str | None = None,
) -> Variable:
    """The windows of images, as sequences of rows."""
    four = [padding] * 4 if isinstance(padding, int) else list(padding)
    attrs = {
        "kernels": sizes("filter_size", filter_size, 2),
        "strides": sizes("stride", stride, 2),
        "paddings": four * 2 if len(four) == 2 else four,
    }
    return Layer("im2sequence", name).result("im2sequence", {"X": input}, attrs)


def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: Any = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """An LSTM over sequences of `size` projected inputs, four times its width; returns its states and cells."""
    layer = Layer("lstm", name)
    width = size // 4
    kind = dtype_name(dtype)
    weight = layer.parameter(_required("param_attr", param_attr), [width, 4 * width], kind, Xavier())
    bias_size = [1, (7 if use_peepholes else 4) * width]
    bias = layer.parameter(_required("bias_attr", bias_attr), bias_size, kind, Constant(0.0), "b")
    inputs = {"Input": input, "Weight": weight, "Bias": bias, "H0": h_0, "C0": c_0}
    attrs = {
        "use_peepholes": use_peepholes,
        "is_reverse": is_reverse,
        "gate_activation": gate_activation,
        "cell_activation": cell_activation,
        "candidate_activation": candidate_activation,
    }
    slots = ["Hidden", "Cell", "BatchGate", "BatchCellPreAct"]
    hidden, cell = layer.results("lstm", inputs, attrs, slots)[:2]
    return hidden, cell


def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Variable | None = None,
    origin_mode: bool = False,
) -> Variable:
    """A GRU of width `size` over sequences of projected inputs, three times its width; returns its states."""
    layer = Layer("gru")
    weight = layer.parameter(_required("param_attr", param_attr), [size, 3 * size], input.dtype, Xavier())
    bias = layer.parameter(_required("bias_attr", bias_attr), [1, 3 * size], input.dtype, Constant(0.0), "b")
    inputs = {"Input": input, "Weight": weight, "Bias": bias, "H0": h_0}
    attrs = {
        "is_reverse": is_reverse,
        "gate_activation": gate_activation,
        "activation": candidate_activation,
        "origin_mode": origin_mode,
    }
    slots = ["Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"]
    return layer.results("gru", inputs, attrs, slots)[0]


def linear_chain_crf(input: Variable, label: Variable, param_attr: Attr = None, length: Variable | None = None) -> Variable:
    """The negative log-likelihood of each sequence of labels in a linear-chain conditional random field."""
    layer = Layer("linear_chain_crf")
    size = known("input", input, input.shape[-1:])[0]
    transition = layer.parameter(_required("param_attr", param_attr), [size + 2, size], input.dtype, Xavier())
    inputs = {"Emission": input, "Transition": transition, "Label": label, "Length": length}
    slots = ["Alpha", "EmissionExps", "TransitionExps", "LogLikelihood"]
    return layer.results("linear_chain_crf", inputs, None, slots)[-1]


def crf_decoding(
    input: Variable, param_attr: Attr, label: Variable | None = None, length: Variable | None = None
) -> Variable:
    """The most likely sequence of labels; with `label`, whether each is right. `param_attr` names the transitions."""
    layer = Layer("crf_decoding")
    size = known("input", input, input.shape[-1:])[0]
    transition = layer.parameter(_required("param_attr", param_attr), [size + 2, size], input.dtype, Xavier())
    inputs = {"Emission": input, "Transition": transition, "Label": label, "Length": length}
    return layer.result("crf_decoding", inputs, None, "ViterbiPath")
