"""Inputs, and layers with parameters: products, normalization, tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ... import _lodstone
from ..._checks import integers
from .._core import Variable, default_main_program, dtype_name, network
from .._layer import Attr, Layer, ParamAttr, choice, required, sizes
from .._layer import param_attr as param_attr_of
from ..initializer import Constant, Xavier
from ._tensor import cast

__all__ = [
    "batch_norm",
    "bilinear_tensor_product",
    "data",
    "dropout",
    "embedding",
    "fc",
    "group_norm",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "log_softmax",
    "maxout",
    "prelu",
    "softmax",
]


def data(
    name: str,
    shape: Sequence[int],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: str = "tensor",
    stop_gradient: bool = True,
) -> Variable:
    """An input of the program: -1 is an unknown dim.

    `append_batch_size` puts an unknown dim in front, unless the shape has an unknown dim already.
    """
    choice("type", type, ("tensor",))
    dims = integers("shape", [-1 if size is None else size for size in shape])
    if append_batch_size and not any(size < 0 for size in dims):
        dims = [-1, *dims]
    return declared_input(name, dims, dtype_name(dtype), lod_level, stop_gradient)


def declared_input(name: str, dims: list[int], dtype: str, lod_level: int, stop_gradient: bool = True) -> Variable:
    """Declares an input; a variable of the same name must be equal."""
    if not name:
        raise ValueError("argument 'name': expected a name, found an empty text")
    if lod_level < 0:
        raise ValueError(f"argument 'lod_level': expected at least 0, found {lod_level}")
    block = default_main_program().global_block()
    if block.has_var(name):
        found = block.var(name)
        facts = found._facts
        if (facts["shape"], facts["dtype"], facts["lod_level"]) != (dims, dtype, lod_level):
            raise ValueError(f"argument 'name': the program already has another variable {name!r}: {found!r}")
        return found
    _lodstone.declare_data(network(), name, dims, dtype, lod_level)
    found = block.var(name)
    if not stop_gradient:
        found.stop_gradient = False
    return found


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Attr | Sequence[Attr] = None,
    bias_attr: Attr = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A fully connected layer: rows multiplied by a matrix, and a bias.

    The first `num_flatten_dims` dims are the rows. Several inputs have a matrix each, with a configuration each if
    `param_attr` is a sequence, and their products are added up.
    """
    inputs = [input] if isinstance(input, Variable) else list(input)
    if not inputs:
        raise ValueError("argument 'input': expected at least one variable")
    attrs: list[Any] = list(param_attr) if isinstance(param_attr, (list, tuple)) else [param_attr] * len(inputs)
    if len(attrs) != len(inputs):
        raise ValueError(f"argument 'param_attr': expected one for each of {len(inputs)} inputs, found {len(attrs)}")
    layer = Layer("fc", name)
    products = []
    for one, given in zip(inputs, attrs, strict=True):
        flat = num_flatten_dims + len(one.shape) if num_flatten_dims < 0 else num_flatten_dims
        inner = known("input", one, one.shape[flat:])
        attr = required("param_attr", given)
        weight = layer.parameter(attr, [prod(inner), size], one.dtype, Xavier())
        products.append(layer.result("mul", {"X": one, "Y": weight}, {"x_num_col_dims": flat}))
    made = products[0] if len(products) == 1 else layer.result("sum", {"X": products})
    return layer.activated(layer.biased(made, bias_attr, size, len(made.shape) - 1), act)


def known(argument: str, x: Variable, dims: Sequence[int]) -> list[int]:
    """Returns dims, which must be known."""
    if any(size < 0 for size in dims):
        raise ValueError(f"argument '{argument}': the dims {list(dims)} of {x.name!r} must be known")
    return list(dims)


def channels(x: Variable, is_last: bool = False) -> int:
    """Returns the number of channels of images, which is their second dim, or their last."""
    if len(x.shape) < 2:
        raise ValueError(f"argument 'input': {x.name!r} has no channels, which are the {'last' if is_last else 'second'} dim")
    return known("input", x, x.shape[-1:] if is_last else x.shape[1:2])[0]


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Attr = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a table, by index. A last dim of size 1 of the indices is replaced; others get another dim.

    With `is_sparse`, the gradient of the table has only the rows that were looked up. The row `padding_idx` is zero.
    `is_distributed` has no effect.
    """
    kind = "lookup_table" if input.shape and input.shape[-1] == 1 else "lookup_table_v2"
    return looked_up(kind, input, size, is_sparse, padding_idx, param_attr, dtype)


def looked_up(
    kind: str,
    input: Variable,
    size: Sequence[int],
    is_sparse: bool,
    padding_idx: int | None,
    param_attr: Attr,
    dtype: Any,
) -> Variable:
    """Appends a lookup in a new table."""
    rows, width = sizes("size", size, 2)
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else padding_idx + rows
    if padding_idx is not None and not 0 <= padding < rows:
        raise ValueError(f"argument 'padding_idx': the table has {rows} rows, found {padding_idx}")
    layer = Layer("embedding")
    table = layer.parameter(required("param_attr", param_attr), [rows, width], dtype_name(dtype), Xavier())
    return layer.result(kind, {"Ids": input, "W": table}, {"padding_idx": padding, "is_sparse": is_sparse or None})


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Normalizes each channel: by the statistics of the batch in training, by running statistics if `is_test`."""
    layer = Layer("batch_norm", name)
    count = channels(input, choice("data_layout", data_layout, ("NCHW", "NHWC")) == "NHWC")
    kind = input.dtype
    scale = layer.parameter(required("param_attr", param_attr), [count], kind, Constant(1.0))
    offset = layer.parameter(required("bias_attr", bias_attr), [count], kind, Constant(0.0), "b")
    mean = layer.state(ParamAttr(moving_mean_name), [count], kind, Constant(0.0))
    variance = layer.state(ParamAttr(moving_variance_name), [count], kind, Constant(1.0))
    saved_mean, saved_variance = layer.temporary(), layer.temporary()
    # Memory that a GPU reserves for the gradient.
    reserve = {} if is_test else {"ReserveSpace": layer.temporary()}
    out = layer.temporary()
    layer.append(
        "batch_norm",
        {"X": input, "Scale": scale, "Bias": offset, "Mean": mean, "Variance": variance},
        {
            "MeanOut": mean,
            "VarianceOut": variance,
            "SavedMean": saved_mean,
            "SavedVariance": saved_variance,
            **reserve,
            "Y": out,
        },
        {
            "is_test": is_test,
            "momentum": None if momentum == 0.9 else momentum,
            "epsilon": None if epsilon == 1e-5 else epsilon,
            "data_layout": None if data_layout == "NCHW" else data_layout,
            "use_global_stats": use_global_stats or None,
        },
    )
    block = default_main_program().current_block()
    for name_ in (saved_mean, saved_variance, *reserve.values()):
        block.var(name_).stop_gradient = True
    return layer.activated(block.var(out), act)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-5,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Normalizes each example over its dims from `begin_norm_axis`."""
    layer = Layer("layer_norm", name)
    size = prod(known("input", input, input.shape[begin_norm_axis:]))
    inputs = {"X": input}
    if scale:
        inputs["Scale"] = layer.parameter(required("param_attr", param_attr), [size], input.dtype, Constant(1.0))
    if shift:
        inputs["Bias"] = layer.parameter(required("bias_attr", bias_attr), [size], input.dtype, Constant(0.0), "b")
    attrs = {"begin_norm_axis": begin_norm_axis, "epsilon": None if epsilon == 1e-5 else epsilon}
    mean, variance, out = layer.results("layer_norm", inputs, attrs, ["Mean", "Variance", "Y"])
    mean.stop_gradient = variance.stop_gradient = True
    return layer.activated(out, act)


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-5,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalizes groups of channels of each example."""
    layer = Layer("group_norm", name)
    inputs = {"X": input}
    for slot, argument, given, default, suffix in (
        ("Scale", "param_attr", param_attr, 1.0, "w"),
        ("Bias", "bias_attr", bias_attr, 0.0, "b"),
    ):
        attr = param_attr_of(argument, given)
        if attr is not None:
            inputs[slot] = layer.parameter(attr, [channels(input)], input.dtype, Constant(default), suffix)
    attrs = {"groups": groups, "epsilon": epsilon, "data_layout": data_layout}
    made = layer.results("group_norm", inputs, attrs, ["Mean", "Variance", "Y"])[-1]
    return layer.activated(made, act)


def instance_norm(
    input: Variable, epsilon: float = 1e-5, param_attr: Attr = None, bias_attr: Attr = None, name: str | None = None
) -> Variable:
    """Normalizes each channel of each example."""
    layer = Layer("instance_norm", name)
    count = channels(input)
    inputs = {
        "X": input,
        "Scale": layer.parameter(required("param_attr", param_attr), [count], input.dtype, Constant(1.0)),
        "Bias": layer.parameter(required("bias_attr", bias_attr), [count], input.dtype, Constant(0.0), "b"),
    }
    slots = ["SavedMean", "SavedVariance", "Y"]
    return layer.results("instance_norm", inputs, {"epsilon": epsilon}, slots)[-1]


def l2_normalize(x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """Vectors along an axis, divided by their norms."""
    attrs = {"axis": axis if len(x.shape) > 1 else 0, "epsilon": epsilon}
    return Layer("l2_normalize", name).result("norm", {"X": x}, attrs, extra=["Norm"])


IMPLEMENTATIONS = ("downgrade_in_infer", "upscale_in_train")


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """Drops elements with a probability in training.

    With `"downgrade_in_infer"`, all elements are multiplied by the probability of staying in inference;
    `"upscale_in_train"`, the default of PaddlePaddle 2, divides those that stay by it in training instead.
    """
    if not 0.0 <= dropout_prob <= 1.0:
        raise ValueError(f"argument 'dropout_prob': expected a number from 0 to 1, found {dropout_prob}")
    seed = seed or default_main_program().random_seed or seed
    attrs = {
        "dropout_prob": float(dropout_prob),
        "is_test": is_test,
        "fix_seed": True if seed is not None else None,
        "seed": seed,
        "dropout_implementation": choice("dropout_implementation", dropout_implementation, IMPLEMENTATIONS),
    }
    return Layer("dropout", name).result("dropout", {"X": x}, attrs, extra=["Mask"])


def softmax(input: Variable, use_cudnn: bool = True, name: str | None = None, axis: int = -1) -> Variable:
    """Softmax along an axis."""
    attrs = {"axis": None if axis == -1 else axis}
    return Layer("softmax", name).result("softmax", {"X": input}, attrs)


def log_softmax(input: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Variable:
    """The logarithm of softmax along an axis [default: the last], of elements converted to `dtype`, if given."""
    x = input if dtype is None else cast(input, dtype)
    return Layer("log_softmax", name).result("log_softmax", {"X": x}, {"axis": -1 if axis is None else axis})


def prelu(x: Variable, mode: str, param_attr: Attr = None, name: str | None = None) -> Variable:
    """`x` if positive, else multiplied by a trained factor: one (`"all"`), or one for each `"channel"` or `"element"`."""
    shapes = {"all": lambda: [1], "channel": lambda: [1, channels(x), 1, 1], "element": lambda: [1, *known("x", x, x.shape[1:])]}
    shape = shapes[choice("mode", mode, shapes)]()
    layer = Layer("prelu", name)
    alpha = layer.parameter(required("param_attr", param_attr), shape, x.dtype, Constant(0.25))
    return layer.result("prelu", {"X": x, "Alpha": alpha}, {"mode": mode})


def maxout(x: Variable, groups: int, name: str | None = None, axis: int = 1) -> Variable:
    """Maxima over groups of channels."""
    return Layer("maxout", name).result("maxout", {"X": x}, {"groups": groups, "axis": axis})


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
) -> Variable:
    """`size` bilinear forms of the rows of two matrices."""
    layer = Layer("bilinear_tensor_product", name)
    shape = [size, known("x", x, x.shape[1:2])[0], known("y", y, y.shape[1:2])[0]]
    inputs = {"X": x, "Y": y, "Weight": layer.parameter(required("param_attr", param_attr), shape, x.dtype, Xavier())}
    attr = param_attr_of("bias_attr", bias_attr)
    if attr is not None:
        inputs["Bias"] = layer.parameter(attr, [1, size], x.dtype, Constant(0.0), "b")
    return layer.activated(layer.result("bilinear_tensor_product", inputs), act)
