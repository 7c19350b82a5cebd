"""Layers over sequences: tensors with a LoD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import Variable, dtype_name
from .._layer import Attr, Layer, required, sizes
from .._layer import param_attr as param_attr_of
from ..initializer import Constant, Xavier
from ._activations import sigmoid, tanh
from ._math import elementwise_add, elementwise_mul, scale
from ._nn import fc, known
from ._tensor import concat, split, squeeze, topk

__all__ = [
    "crf_decoding",
    "ctc_greedy_decoder",
    "dynamic_gru",
    "dynamic_lstm",
    "edit_distance",
    "gru_unit",
    "im2sequence",
    "linear_chain_crf",
    "lod_append",
    "lod_reset",
    "lstm_unit",
    "row_conv",
    "sequence_concat",
    "sequence_conv",
    "sequence_enumerate",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_mask",
    "sequence_pad",
    "sequence_pool",
    "sequence_reshape",
    "sequence_reverse",
    "sequence_scatter",
    "sequence_slice",
    "sequence_softmax",
    "sequence_unpad",
    "warpctc",
]


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
    filter = layer.parameter(required("param_attr", param_attr), shape, input.dtype, Xavier())
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


def sequence_mask(x: Variable, maxlen: int | None = None, dtype: Any = "int64", name: str | None = None) -> Variable:
    """Rows of `maxlen` with as many leading ones as each length in `x` [default: the largest length]."""
    attrs = {"maxlen": -1 if maxlen is None else maxlen, "out_dtype": dtype_name(dtype)}
    return Layer("sequence_mask", name).result("sequence_mask", {"X": x}, attrs, "Y")


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """The first sequences of all variables, one after the other, then the second ones, and so on."""
    return Layer("sequence_concat", name).result("sequence_concat", {"X": list(input)})


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Rows of `x`, each repeated as often as the sequence of `y` has rows."""
    return Layer("sequence_expand_as", name).result("sequence_expand_as", {"X": x, "Y": y})


def sequence_pad(
    x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None
) -> tuple[Variable, Variable]:
    """Sequences, filled up to `maxlen` rows with `pad_value` [default: the longest], and their lengths."""
    pad_value.stop_gradient = True
    attrs = {"padded_length": -1 if maxlen is None else maxlen}
    inputs = {"X": x, "PadValue": pad_value}
    padded, length = Layer("sequence_pad", name).results("sequence_pad", inputs, attrs, ["Out", "Length"])
    length.stop_gradient = True
    return padded, length


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """The first `length` rows of each padded sequence."""
    length.stop_gradient = True
    return Layer("sequence_unpad", name).result("sequence_unpad", {"X": x, "Length": length})


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """Rows of `new_dim` elements, with as many elements in each sequence as before."""
    return Layer("sequence_reshape").result("sequence_reshape", {"X": input}, {"new_dim": new_dim})


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """The rows of each sequence in reverse order."""
    return Layer("sequence_reverse", name).result("sequence_reverse", {"X": x}, slot="Y")


def sequence_scatter(input: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """Adds each sequence of `updates` to a row of `input`, at the columns in the sequence of `index`."""
    inputs = {"X": input, "Ids": index, "Updates": updates}
    return Layer("sequence_scatter", name).result("sequence_scatter", inputs)


def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """`length` rows of each sequence, from `offset` on."""
    offset.stop_gradient = True
    length.stop_gradient = True
    inputs = {"X": input, "Offset": offset, "Length": length}
    return Layer("sequence_slice", name).result("sequence_slice", inputs)


def sequence_enumerate(input: Variable, win_size: int, pad_value: int = 0, name: str | None = None) -> Variable:
    """Each token with those after it, `win_size` in all, and `pad_value` beyond the end of the sequence."""
    attrs = {"win_size": win_size, "pad_value": pad_value}
    made = Layer("sequence_enumerate", name).result("sequence_enumerate", {"X": input}, attrs)
    made.stop_gradient = True
    return made


def lod_append(x: Variable, level: Variable | Sequence[int]) -> Variable:
    """A tensor with one more level of LoD, below its own: the LoD of a variable, or these offsets."""
    y = level if isinstance(level, Variable) else None
    attrs = {"append": True, "target_lod": None if y is not None else list(level)}
    return Layer("lod_append").result("lod_reset", {"X": x, "Y": y}, attrs)


def lod_reset(x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None) -> Variable:
    """A tensor with the LoD of `y`, or these offsets."""
    attrs = {"target_lod": None if target_lod is None else list(target_lod)}
    return Layer("lod_reset").result("lod_reset", {"X": x, "Y": y}, attrs)


def im2sequence(
    input: Variable,
    filter_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    input_image_size: None = None,
    out_stride: int | Sequence[int] = 1,
    name: str | None = None,
) -> Variable:
    """The windows of images, as sequences of rows. Images have one size: `input_image_size` is not supported."""
    if input_image_size is not None:
        raise ValueError("argument 'input_image_size': images of different sizes are not supported")
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
    weight = layer.parameter(required("param_attr", param_attr), [width, 4 * width], kind, Xavier())
    bias_size = [1, (7 if use_peepholes else 4) * width]
    bias = layer.parameter(required("bias_attr", bias_attr), bias_size, kind, Constant(0.0), "b")
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
    weight = layer.parameter(required("param_attr", param_attr), [size, 3 * size], input.dtype, Xavier())
    bias = layer.parameter(required("bias_attr", bias_attr), [1, 3 * size], input.dtype, Constant(0.0), "b")
    inputs = {"Input": input, "Weight": weight, "Bias": bias, "H0": h_0}
    attrs = {
        "is_reverse": is_reverse,
        "gate_activation": gate_activation,
        "activation": candidate_activation,
        "origin_mode": origin_mode,
    }
    slots = ["Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"]
    return layer.results("gru", inputs, attrs, slots)[0]


def _transitions(layer: Layer, input: Variable, attr: Attr) -> Variable:
    """Adds the weights of a conditional random field: of the first labels, of the last ones, and of transitions."""
    size = known("input", input, input.shape[-1:])[0]
    return layer.parameter(required("param_attr", attr), [size + 2, size], input.dtype, Xavier())


def crf_decoding(
    input: Variable, param_attr: Attr, label: Variable | None = None, length: Variable | None = None
) -> Variable:
    """The most likely sequence of labels; with `label`, whether each is right. `param_attr` names the transitions."""
    layer = Layer("crf_decoding")
    transition = _transitions(layer, input, param_attr)
    inputs = {"Emission": input, "Transition": transition, "Label": label, "Length": length}
    return layer.result("crf_decoding", inputs, None, "ViterbiPath")


def linear_chain_crf(
    input: Variable, label: Variable, param_attr: Attr = None, length: Variable | None = None
) -> Variable:
    """The negative log-likelihood of each sequence of labels in a conditional random field (Lafferty et al., 2001).

    Its parameter has the weights of the first labels, those of the last ones, and those of transitions.
    """
    layer = Layer("linear_chain_crf")
    transition = _transitions(layer, input, param_attr)
    inputs = {"Emission": input, "Transition": transition, "Label": label, "Length": length}
    slots = ["Alpha", "EmissionExps", "TransitionExps", "LogLikelihood"]
    return layer.results("linear_chain_crf", inputs, None, slots)[-1]


def row_conv(input: Variable, future_context_size: int, param_attr: Attr = None, act: str | None = None) -> Variable:
    """Adds to each row as many rows ahead of it in the sequence, weighted element by element."""
    layer = Layer("row_conv")
    width = known("input", input, input.shape[-1:])[0]
    attr = required("param_attr", param_attr)
    filter = layer.parameter(attr, [future_context_size + 1, width], input.dtype, Xavier())
    return layer.activated(layer.result("row_conv", {"X": input, "Filter": filter}), act)


def _check_lengths(input_length: Variable | None, label_length: Variable | None) -> None:
    """Raises a `ValueError` unless both lengths are given, or none."""
    if (input_length is None) != (label_length is None):
        raise ValueError("arguments 'input_length' and 'label_length': expected both, or none")


def warpctc(
    input: Variable,
    label: Variable,
    blank: int = 0,
    norm_by_times: bool = False,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> Variable:
    """The cost of each sequence of labels, whatever its alignment to the scores of each step (Graves et al., 2006)."""
    inputs = {"Logits": input, "Label": label, "LogitsLength": input_length, "LabelLength": label_length}
    _check_lengths(input_length, label_length)
    attrs = {"blank": blank, "norm_by_times": norm_by_times}
    return Layer("warpctc").results("warpctc", inputs, attrs, ["Loss", "WarpCTCGrad"])[0]


def ctc_greedy_decoder(
    input: Variable,
    blank: int,
    input_length: Variable | None = None,
    padding_value: int = 0,
    name: str | None = None,
) -> Any:
    """The best label of each step, without blanks and repeated labels; with `input_length`, their lengths too."""
    layer = Layer("ctc_greedy_decoder", name)
    _, best = topk(input, k=1)
    attrs: dict[str, Any] = {"merge_repeated": True, "blank": blank}
    if input_length is None:
        decoded = layer.result("ctc_align", {"Input": best}, attrs, "Output")
        decoded.stop_gradient = True
        return decoded
    inputs = {"Input": squeeze(best, [2]), "InputLength": input_length}
    attrs["padding_value"] = padding_value
    decoded, length = layer.results("ctc_align", inputs, attrs, ["Output", "OutputLength"])
    decoded.stop_gradient = length.stop_gradient = True
    return decoded, length


def edit_distance(
    input: Variable,
    label: Variable,
    normalized: bool = True,
    ignored_tokens: Sequence[int] | None = None,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """The number of edits that turn each sequence into the other, over the length of `label` if `normalized`; their number."""
    layer = Layer("edit_distance")
    if ignored_tokens:
        if input_length is not None:
            raise ValueError("argument 'ignored_tokens': sequences with lengths keep all tokens")
        erased = {"tokens": list(ignored_tokens)}
        input = layer.result("sequence_erase", {"X": input}, erased)
        label = layer.result("sequence_erase", {"X": label}, erased)
    _check_lengths(input_length, label_length)
    inputs = {"Hyps": input, "Refs": label, "HypsLength": input_length, "RefsLength": label_length}
    distance, count = layer.results("edit_distance", inputs, {"normalized": normalized}, ["Out", "SequenceNum"])
    return distance, count


def gru_unit(
    input: Variable,
    hidden: Variable,
    size: int,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Variable, Variable, Variable]:
    """A step of a GRU over projected inputs, three times its width: the state, the reset state, the gates."""
    layer = Layer("gru_unit")
    width = size // 3
    inputs = {
        "Input": input,
        "HiddenPrev": hidden,
        "Weight": layer.parameter(required("param_attr", param_attr), [width, 3 * width], input.dtype, Xavier()),
    }
    attr = param_attr_of("bias_attr", bias_attr)
    if attr is not None:
        inputs["Bias"] = layer.parameter(attr, [1, 3 * width], input.dtype, Constant(0.0), "b")
    codes = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}
    for argument, kind in (("activation", activation), ("gate_activation", gate_activation)):
        if kind not in codes:
            raise ValueError(f"argument '{argument}': {kind!r} is none of {', '.join(codes)}")
    attrs = {
        "activation": codes[activation],
        "gate_activation": codes[gate_activation],
        "origin_mode": origin_mode,
    }
    gate, reset, state = layer.results("gru_unit", inputs, attrs, ["Gate", "ResetHiddenPrev", "Hidden"])
    return state, reset, gate


def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable,
    forget_bias: float = 0.0,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """A step of an LSTM: the state and the cell."""
    size = known("cell_t_prev", cell_t_prev, cell_t_prev.shape[1:2])[0]
    both = concat([x_t, hidden_t_prev], axis=1)
    gates = fc(both, 4 * size, param_attr=param_attr, bias_attr=bias_attr)
    enters, forgets, leaves, candidate = split(gates, 4, dim=1)
    kept = elementwise_mul(sigmoid(scale(forgets, 1.0, forget_bias)), cell_t_prev)
    cell = elementwise_add(kept, elementwise_mul(sigmoid(enters), tanh(candidate)))
    return elementwise_mul(sigmoid(leaves), tanh(cell)), cell
