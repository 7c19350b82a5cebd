"""Making, moving and selecting elements."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import copysign, inf, isfinite
from numbers import Integral
from typing import Any

from .. import unique_name
from ..._checks import LARGEST, integers, number, positive
from .._core import Variable, default_main_program, dtype_name
from .._layer import Attr, Layer, ParamAttr, choice, declared, param_attr, several, sizes
from ..initializer import Constant, Initializer, Xavier

__all__ = [
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "assign",
    "cast",
    "concat",
    "crop",
    "crop_tensor",
    "create_global_var",
    "create_parameter",
    "create_tensor",
    "diag",
    "diag_embed",
    "expand",
    "expand_as",
    "eye",
    "fill_constant",
    "fill_constant_batch_size_like",
    "flatten",
    "flip",
    "full",
    "full_like",
    "gather",
    "gather_nd",
    "gaussian_random",
    "increment",
    "index_sample",
    "index_select",
    "is_empty",
    "linspace",
    "meshgrid",
    "multiplex",
    "nonzero",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "pad2d",
    "randint",
    "randn",
    "range",
    "rank",
    "reshape",
    "reverse",
    "roll",
    "scatter",
    "scatter_nd",
    "scatter_nd_add",
    "shape",
    "size",
    "slice",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "tensor_array_to_tensor",
    "topk",
    "trace",
    "transpose",
    "tril",
    "triu",
    "uniform_random",
    "unique",
    "unique_with_counts",
    "unsqueeze",
    "unstack",
    "where",
    "zeros",
    "zeros_like",
]


def fill_constant(
    shape: Sequence[int],
    dtype: Any,
    value: float,
    force_cpu: bool = False,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """A tensor whose elements are all `value`; written to `out`, if given."""
    attrs = {"shape": integers("shape", shape), **constant(dtype, value), "force_cpu": force_cpu or None}
    return Layer("fill_constant", name).result("fill_constant", {}, attrs, out=out)


def constant(dtype: Any, value: float) -> dict[str, Any]:
    """Returns the attributes of a constant: its type, and its value as a number and as text, which is exact."""
    element = dtype_name(dtype)
    single = float(value) if abs(value) <= LARGEST or value != value else copysign(inf, value)
    if not element.startswith(("int", "uint", "bool")):
        return {"dtype": element, "value": single, "str_value": repr(float(value))}
    if not isfinite(value):
        raise ValueError(f"argument 'value': {value} is no {element}")
    whole = int(value)
    if element != "bool":
        bits = int(element.removeprefix("u").removeprefix("int"))
        end = 2 ** (bits if element.startswith("u") else bits - 1)
        first = 0 if element.startswith("u") else -end
        if not first <= whole < end:
            raise ValueError(f"argument 'value': {element} has the numbers from {first} to {end - 1}, found {value}")
    return {"dtype": element, "value": single, "str_value": str(whole)}


def fill_constant_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    dtype: Any,
    value: float,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    force_cpu: bool = False,
) -> Variable:
    """A constant tensor, whose dim `output_dim_idx` is that of `input` at `input_dim_idx`."""
    attrs = {
        "shape": integers("shape", shape),
        **constant(dtype, value),
        "input_dim_idx": input_dim_idx,
        "output_dim_idx": output_dim_idx,
        "force_cpu": force_cpu or None,
    }
    kind = "fill_constant_batch_size_like"
    return Layer(kind).result(kind, {"Input": input}, attrs)


def zeros(shape: Sequence[int], dtype: Any = "float32", force_cpu: bool = False) -> Variable:
    """A tensor of zeros."""
    return fill_constant(shape, dtype, 0.0, force_cpu)


def ones(shape: Sequence[int], dtype: Any = "float32", force_cpu: bool = False) -> Variable:
    """A tensor of ones."""
    return fill_constant(shape, dtype, 1.0, force_cpu)


def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Zeros with the shape and type of a tensor."""
    return full_like(x, 0.0, out)


def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Ones with the shape and type of a tensor."""
    return full_like(x, 1.0, out)


def eye(
    num_rows: int, num_columns: int | None = None, batch_shape: Sequence[int] | None = None, dtype: Any = "float32"
) -> Variable:
    """A matrix with ones on its diagonal, repeated for each element of a batch of `batch_shape`."""
    attrs = {"num_rows": num_rows, "num_columns": num_columns or num_rows, "dtype": dtype_name(dtype)}
    made = Layer("eye").result("eye", {}, attrs)
    if not batch_shape:
        return made
    return expand(unsqueeze(made, list(builtins.range(len(batch_shape)))), [*batch_shape, 1, 1])


def linspace(start: float, stop: float, num: int, dtype: Any = "float32") -> Variable:
    """`num` numbers from `start` to `stop`, both included, at equal distances."""
    kind = dtype_name(dtype)
    positive("num", num)
    inputs = {
        "Start": fill_constant([1], kind, start),
        "Stop": fill_constant([1], kind, stop),
        "Num": fill_constant([1], "int32", num),
    }
    return Layer("linspace").result("linspace", inputs, {"dtype": kind})


def range(start: float, end: float, step: float, dtype: Any = "int64") -> Variable:
    """The numbers from `start` up to, excluding, `end`."""
    kind = dtype_name(dtype)
    given = {"Start": start, "End": end, "Step": step}
    for argument, value in (("start", start), ("end", end), ("step", step)):
        number(argument, value)
    if step == 0:
        raise ValueError("argument 'step': expected a number other than 0")
    return Layer("range").result("range", {slot: fill_constant([1], kind, value) for slot, value in given.items()})


def uniform_random(
    shape: Sequence[int], dtype: Any = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0
) -> Variable:
    """Numbers drawn from a uniform distribution. Seed 0 draws from the generator of the run."""
    if not number("min", min) <= number("max", max):
        raise ValueError(f"argument 'max': expected at least 'min', {min}, found {max}")
    attrs = {"shape": list(shape), "dtype": dtype_name(dtype), "min": min, "max": max, "seed": seed}
    return Layer("uniform_random").result("uniform_random", {}, attrs)


def gaussian_random(
    shape: Sequence[int], mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = "float32"
) -> Variable:
    """Numbers drawn from a normal distribution. Seed 0 draws from the generator of the run."""
    number("mean", mean)
    number("std", std, 0.0)
    attrs = {"shape": list(shape), "dtype": dtype_name(dtype), "mean": mean, "std": std, "seed": seed}
    return Layer("gaussian_random").result("gaussian_random", {}, attrs)


def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Variable:
    """A variable without a shape, which operators write."""
    block = default_main_program().current_block()
    return block.create_var(name or unique_name.generate("create_tensor"), dtype=dtype, persistable=persistable)


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: Attr = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Variable:
    """A parameter, which the startup program initializes."""
    found = param_attr("attr", attr) or ParamAttr()
    found = ParamAttr(**{**vars(found), "name": found.name or name})
    initializer = found.initializer or default_initializer or (Constant(0.0) if is_bias else Xavier())
    base = unique_name.generate("create_parameter") + (".b" if is_bias else ".w")
    return declared(found, base, shape, dtype_name(dtype), initializer, False)


def create_global_var(
    shape: Sequence[int], value: float, dtype: Any, persistable: bool = False, force_cpu: bool = False, name: str | None = None
) -> Variable:
    """A variable that the startup program fills with a number, and that is not trained."""
    attr = ParamAttr(name or unique_name.generate("global_var"))
    made = declared(attr, "", shape, dtype_name(dtype), Constant(value), True)
    made.persistable = persistable
    return made


def assign(input: Variable | Any, output: Variable | None = None) -> Variable:
    """A copy of a variable, or a constant with the elements of an array; written to `output`, if given."""
    if isinstance(input, Variable):
        return Layer("assign").result("assign", {"X": input}, out=output)
    layer = Layer("assign_value")
    return layer.result("assign_value", {}, _elements(input), out=output)


def _elements(array: Any) -> dict[str, Any]:
    """Returns the attributes of a constant with the elements of an array."""
    from ..._run import tensor
    from ...numpy import array as elements

    given = tensor("input", array)
    slots = {
        "bool": "bool_values",
        "int32": "int32_values",
        "int64": "int64_values",
        "float32": "fp32_values",
        "float64": "fp64_values",
    }
    if given.dtype not in slots:
        raise TypeError(f"argument 'input': attributes cannot hold elements of {given.dtype}")
    return {
        "shape": list(given.shape),
        "dtype": given.dtype,
        slots[given.dtype]: elements(given).ravel().tolist(),
    }


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """`x + value`, for a tensor of one element; in place by default."""
    return Layer("increment").result("increment", {"X": x}, {"step": float(value)}, out=x if in_place else None)


def cast(x: Variable, dtype: Any) -> Variable:
    """The elements, converted to another type."""
    return Layer("cast").result("cast", {"X": x}, {"in_dtype": x.dtype, "out_dtype": dtype_name(dtype)})


def concat(input: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Tensors, concatenated along an axis."""
    return Layer("concat", name).result("concat", {"X": list(input)}, {"axis": axis})


def split(
    input: Variable, num_or_sections: int | Sequence[int], dim: int = -1, name: str | None = None
) -> list[Variable]:
    """A tensor, split into a number of equal parts, or parts of given sizes, along a dim."""
    axis = dim + len(input.shape) if dim < 0 else dim
    if isinstance(num_or_sections, Integral):
        count = int(num_or_sections)
        attrs: dict[str, Any] = {"axis": axis, "num": count}
        return Layer("split", name).several("split", {"X": input}, attrs, count)
    sections = integers("num_or_sections", num_or_sections)
    attrs = {"axis": axis, "sections": sections, "num": 0}
    return Layer("split", name).several("split", {"X": input}, attrs, len(sections))


def stack(x: Variable | Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Tensors of one shape, along a new axis."""
    return Layer("stack", name).result("stack", {"X": [x] if isinstance(x, Variable) else list(x)}, {"axis": axis}, "Y")


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The parts of a tensor along an axis, without this axis."""
    if not -len(x.shape) <= axis < len(x.shape):
        raise ValueError(f"argument 'axis': {axis}, but {x.name!r} has {len(x.shape)} dims")
    count = x.shape[axis] if num is None else num
    if count < 0:
        raise ValueError(f"argument 'num': the size of axis {axis} of {x.name!r} is unknown")
    return Layer("unstack").several("unstack", {"X": x}, {"axis": axis, "num": count}, count, "Y")


def reshape(
    x: Variable,
    shape: Sequence[int] | Variable,
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Variable:
    """The elements with other dims: 0 keeps a dim, -1 is inferred."""
    layer = Layer("reshape2", name)
    dims: Variable | None = shape if isinstance(shape, Variable) else actual_shape
    attrs = {} if isinstance(shape, Variable) else {"shape": integers("shape", shape)}
    made = layer.result("reshape2", {"X": x, "Shape": dims}, attrs, extra=["XShape"])
    return layer.activated(made, act)


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """A tensor with its axes in another order."""
    return Layer("transpose2", name).result("transpose2", {"X": x}, {"axis": list(perm)}, extra=["XShape"])


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """A tensor without these axes, whose size is 1; without any axes of size 1, if `axes` is empty."""
    return Layer("squeeze2", name).result("squeeze2", {"X": input}, {"axes": list(axes)}, extra=["XShape"])


def unsqueeze(input: Variable, axes: int | Sequence[int], name: str | None = None) -> Variable:
    """A tensor with additional axes of size 1."""
    return Layer("unsqueeze2", name).result("unsqueeze2", {"X": input}, {"axes": several("axes", axes)}, extra=["XShape"])


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: the dims before `axis` are its rows, the others its columns."""
    return Layer("flatten2", name).result("flatten2", {"X": x}, {"axis": axis}, extra=["XShape"])


def slice(input: Variable, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> Variable:
    """The elements from `starts` up to, excluding, `ends` along axes; negative ones count from the end."""
    known = [1] * len(axes)
    attrs = {"axes": list(axes), "starts": list(starts), "ends": list(ends), "infer_flags": known}
    return Layer("slice").result("slice", {"Input": input}, attrs)


def strided_slice(
    input: Variable, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int], strides: Sequence[int]
) -> Variable:
    """A slice with strides along axes, which may be negative."""
    known = [1] * len(axes)
    attrs = {
        "axes": list(axes),
        "starts": list(starts),
        "ends": list(ends),
        "strides": list(strides),
        "infer_flags": known,
    }
    return Layer("strided_slice").result("strided_slice", {"Input": input}, attrs)


def expand(x: Variable, expand_times: Sequence[int], name: str | None = None) -> Variable:
    """A tensor, repeated a number of times along each axis."""
    return Layer("tile", name).result("tile", {"X": x}, {"repeat_times": list(expand_times)})


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """A tensor, repeated to the shape of another."""
    attrs = {"target_shape": list(target_tensor.shape)}
    return Layer("expand_as_v2", name).result("expand_as_v2", {"X": x, "Y": target_tensor}, attrs)


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """Rows of a tensor, by index."""
    return Layer("gather").result("gather", {"X": input, "Index": index}, {"overwrite": overwrite})


def gather_nd(input: Variable, index: Variable, name: str | None = None) -> Variable:
    """Elements or parts of a tensor, by tuples of indices in the last dim of `index`."""
    return Layer("gather_nd", name).result("gather_nd", {"X": input, "Index": index})


def index_sample(x: Variable, index: Variable) -> Variable:
    """Elements of each row of a matrix, by the indices in the same row."""
    return Layer("index_sample").result("index_sample", {"X": x, "Index": index})


def scatter(input: Variable, index: Variable, updates: Variable, name: str | None = None, overwrite: bool = True) -> Variable:
    """A tensor with some rows replaced, or, without `overwrite`, by the sums of all updates of a row."""
    inputs = {"X": input, "Ids": index, "Updates": updates}
    return Layer("scatter", name).result("scatter", inputs, {"overwrite": overwrite})


def scatter_nd_add(ref: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """A tensor with updates added at tuples of indices."""
    inputs = {"X": ref, "Index": index, "Updates": updates}
    return Layer("scatter_nd_add", name).result("scatter_nd_add", inputs)


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """Rows of `depth` zeros with a one at each index; the last dim of `input` has size 1."""
    positive("depth", depth)
    layer = Layer("one_hot")
    ids = layer.result("squeeze2", {"X": input}, {"axes": [len(input.shape) - 1]}, extra=["XShape"])
    attrs = {"depth": depth, "allow_out_of_range": allow_out_of_range, "dtype": "float32"}
    return layer.result("one_hot_v2", {"X": ids}, attrs)


def shape(input: Variable) -> Variable:
    """The dims of a tensor, as a tensor of int32."""
    return Layer("shape").result("shape", {"Input": input})


def argmax(x: Variable, axis: int = 0) -> Variable:
    """The index of the maximum along an axis."""
    return Layer("arg_max").result("arg_max", {"X": x}, {"axis": axis})


def argmin(x: Variable, axis: int = 0) -> Variable:
    """The index of the minimum along an axis."""
    return Layer("arg_min").result("arg_min", {"X": x}, {"axis": axis})


def argsort(
    input: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The sorted elements along an axis, and their indices."""
    attrs = {"axis": axis, "descending": descending}
    out, indices = Layer("argsort", name).results("argsort", {"X": input}, attrs, ["Out", "Indices"])
    return out, indices


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """The `k` largest elements along the last axis, largest first, and their indices."""
    values, indices = Layer("top_k_v2", name).results("top_k_v2", {"X": input}, {"k": k}, ["Out", "Indices"])
    return values, indices


def where(condition: Variable) -> Variable:
    """The indices of the true elements, one row for each."""
    return Layer("where_index").result("where_index", {"Condition": condition})


def reverse(x: Variable, axis: int | Sequence[int]) -> Variable:
    """A tensor, reversed along axes."""
    return Layer("flip").result("flip", {"X": x}, {"axis": several("axis", axis)})


def diag(diagonal: Variable) -> Variable:
    """A matrix with these elements on its diagonal."""
    return Layer("diag_v2").result("diag_v2", {"X": diagonal})


def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """A tensor, padded with a number: `paddings` has the sizes before and after each axis."""
    return Layer("pad", name).result("pad", {"X": x}, {"paddings": list(paddings), "pad_value": pad_value})


def pad2d(
    input: Variable,
    paddings: Sequence[int] = (0, 0, 0, 0),
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Images, padded above, below, left and right: `mode` is `"constant"`, `"reflect"` or `"edge"`."""
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}
    above, below, left, right = sizes("paddings", paddings, 4)
    axis = 2 if choice("data_format", data_format, ("NCHW", "NHWC")) == "NCHW" else 1
    layer = Layer("pad2d", name)
    # As volumes of depth 1: PaddlePaddle 2.6 has no kernel of `pad2d`.
    volumes = layer.result("unsqueeze2", {"X": input}, {"axes": [axis]}, extra=["XShape"])
    attrs = {
        "paddings": [left, right, above, below, 0, 0],
        "mode": modes[choice("mode", mode, modes)],
        "value": float(pad_value),
        "data_format": data_format.replace("HW", "DHW"),
    }
    padded = layer.result("pad3d", {"X": volumes}, attrs)
    return layer.result("squeeze2", {"X": padded}, {"axes": [axis]}, extra=["XShape"])


def full(
    shape: Sequence[int],
    fill_value: float,
    out: Variable | None = None,
    dtype: Any = "float32",
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """A tensor whose elements are all `fill_value`; written to `out`, if given. `device` has no effect."""
    made = fill_constant(shape, "float32" if dtype is None else dtype, fill_value, out=out, name=name)
    made.stop_gradient = stop_gradient
    return made


def full_like(
    input: Variable,
    fill_value: float,
    out: Variable | None = None,
    dtype: Any = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """A tensor with the shape of another, whose elements are all `fill_value`; written to `out`, if given.

    `device` has no effect.
    """
    attrs = {"value": float(fill_value), "dtype": input.dtype if dtype is None else dtype_name(dtype)}
    made = Layer("fill_any_like", name).result("fill_any_like", {"X": input}, attrs, out=out)
    made.stop_gradient = stop_gradient
    return made


def arange(start: float, end: float | None = None, step: float = 1, dtype: Any = "int64", name: str | None = None) -> Variable:
    """The numbers from `start` up to, excluding, `end`; from 0, with one argument."""
    return range(0, start, step, dtype) if end is None else range(start, end, step, dtype)


def randint(
    low: int,
    high: int | None = None,
    shape: Sequence[int] | None = None,
    out: Variable | None = None,
    dtype: Any = "int64",
    device: str | None = None,
    stop_gradient: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Integers drawn from `low` up to, excluding, `high`; from 0, with one argument. `device` has no effect."""
    begin, end = (0, low) if high is None else (low, high)
    attrs = {
        "shape": [1] if shape is None else list(shape),
        "low": begin,
        "high": end,
        "seed": seed,
        "dtype": dtype_name("int64" if dtype is None else dtype),
    }
    made = Layer("randint", name).result("randint", {}, attrs, out=out)
    made.stop_gradient = stop_gradient
    return made


def randn(
    shape: Sequence[int],
    out: Variable | None = None,
    dtype: Any = "float32",
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """Numbers drawn from the standard normal distribution. `device` has no effect."""
    attrs = {"shape": list(shape), "dtype": dtype_name("float32" if dtype is None else dtype), "mean": 0.0, "std": 1.0}
    made = Layer("randn", name).result("gaussian_random", {}, attrs, out=out)
    made.stop_gradient = stop_gradient
    return made


def diag_embed(input: Variable, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Variable:
    """Matrices with the vectors of the last axis on their diagonals."""
    attrs = {"offset": offset, "dim1": dim1, "dim2": dim2}
    return Layer("diag_embed").result("diag_embed", {"Input": input}, attrs)


def trace(
    input: Variable, offset: int = 0, dim1: int = 0, dim2: int = 1, out: Variable | None = None, name: str | None = None
) -> Variable:
    """The sums of diagonals."""
    attrs = {"offset": offset, "axis1": dim1, "axis2": dim2}
    return Layer("trace", name).result("trace", {"Input": input}, attrs, out=out)


def tril(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The lower triangles of matrices; zeros above a diagonal."""
    return Layer("tril", name).result("tril_triu", {"X": input}, {"diagonal": diagonal, "lower": True})


def triu(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The upper triangles of matrices; zeros below a diagonal."""
    return Layer("triu", name).result("tril_triu", {"X": input}, {"diagonal": diagonal, "lower": False})


def flip(input: Variable, dims: Sequence[int], name: str | None = None) -> Variable:
    """A tensor, reversed along axes."""
    return Layer("flip", name).result("flip", {"X": input}, {"axis": list(dims)})


def roll(input: Variable, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Variable:
    """A tensor, shifted cyclically along axes; the flat tensor, without axes."""
    attrs = {"shifts": several("shifts", shifts), "axis": [] if dims is None else several("dims", dims)}
    return Layer("roll").result("roll", {"X": input}, attrs)


def index_select(input: Variable, index: Variable, dim: int = 0) -> Variable:
    """Parts of a tensor along an axis, by index."""
    return Layer("index_select").result("index_select", {"X": input, "Index": index}, {"dim": dim})


def scatter_nd(index: Variable, updates: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """Zeros with updates added at tuples of indices."""
    return scatter_nd_add(zeros(shape, updates.dtype), index, updates, name)


def multiplex(inputs: Sequence[Variable], index: Variable) -> Variable:
    """Rows, each from the input with the index in the same row."""
    return Layer("multiplex").result("multiplex", {"X": list(inputs), "Ids": index})


def meshgrid(input: Sequence[Variable], name: str | None = None) -> list[Variable]:
    """Vectors, each expanded to the grid of all of them."""
    return Layer("meshgrid", name).several("meshgrid", {"X": list(input)}, None, len(input))


def crop_tensor(
    x: Variable, shape: Sequence[int] | None = None, offsets: Sequence[int] | None = None, name: str | None = None
) -> Variable:
    """A part of a tensor, of a shape [default: its own] and at offsets [default: 0]."""
    dims = list(x.shape if shape is None else shape)
    attrs = {"shape": dims, "offsets": [0] * len(dims) if offsets is None else list(offsets)}
    return Layer("crop_tensor", name).result("crop_tensor", {"X": x}, attrs)


def nonzero(input: Variable, as_tuple: bool = False) -> Variable | list[Variable]:
    """The indices of elements that are not zero, a row for each; with `as_tuple`, a column for each dim."""
    found = where(input if input.dtype == "bool" else cast(input, "bool"))
    if not as_tuple:
        return found
    columns = len(input.shape)
    return [found] if columns == 1 else split(found, columns, dim=1)


def crop(
    x: Variable,
    shape: Variable | Sequence[int] | None = None,
    offsets: Variable | Sequence[int] | None = None,
    name: str | None = None,
) -> Variable:
    """A part of a tensor, of a shape, or that of a variable, and at offsets [default: 0]."""
    if shape is None:
        raise ValueError("argument 'shape': expected a shape, or a variable of it")
    inputs: dict[str, Any] = {"X": x}
    attrs: dict[str, Any] = {}
    if isinstance(shape, Variable):
        inputs["Y"] = shape
    else:
        attrs["shape"] = list(shape)
    if isinstance(offsets, Variable):
        inputs["Offsets"] = offsets
    else:
        attrs["offsets"] = [0] * len(x.shape) if offsets is None else list(offsets)
    return Layer("crop", name).result("crop", inputs, attrs)


def unique_with_counts(x: Variable, dtype: Any = "int32") -> tuple[Variable, Variable, Variable]:
    """The different elements, the index of each element among them, and how often each occurs."""
    slots = ["Out", "Index", "Count"]
    layer = Layer("unique_with_counts")
    out, index, count = layer.results("unique_with_counts", {"X": x}, {"dtype": dtype_name(dtype)}, slots)
    return out, index, count


def size(input: Variable) -> Variable:
    """The number of elements."""
    return Layer("size").result("size", {"Input": input})


def rank(input: Variable) -> Variable:
    """The number of dims, as a tensor without dims."""
    return fill_constant([], "int32", len(input.shape))


def is_empty(x: Variable, cond: Variable | None = None) -> Variable:
    """Whether a tensor has no elements."""
    layer = Layer("is_empty")
    none = layer.result("fill_constant", {}, {"shape": [], "dtype": "int64", "value": 0.0, "str_value": "0"})
    return layer.result("equal", {"X": size(x), "Y": none}, out=cond)


def unique(x: Variable, dtype: Any = "int32") -> tuple[Variable, Variable]:
    """The different elements in the order of their first occurrence, and the index of each element among them."""
    out, index = Layer("unique").results("unique", {"X": x}, {"dtype": dtype_name(dtype)}, ["Out", "Index"])
    return out, index


def tensor_array_to_tensor(
    input: Variable, axis: int = 1, name: str | None = None, use_stack: bool = False
) -> tuple[Variable, Variable]:
    """The tensors of an array, concatenated along an axis, or stacked; and their sizes along it."""
    kind = "tensor_array_to_tensor"
    attrs = {"axis": axis, "use_stack": use_stack}
    out, index = Layer(kind, name).results(kind, {"X": input}, attrs, ["Out", "OutIndex"])
    return out, index
