"""Arithmetic, reductions, products, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import Variable
from .._layer import Layer, several

__all__ = [
    "addcmul",
    "addmm",
    "allclose",
    "bmm",
    "clip",
    "clip_by_norm",
    "cos_sim",
    "cross",
    "cumsum",
    "dist",
    "dot",
    "elementwise_add",
    "elementwise_div",
    "elementwise_equal",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "equal",
    "greater_equal",
    "greater_than",
    "has_inf",
    "has_nan",
    "isfinite",
    "kron",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "matmul",
    "mean",
    "mul",
    "not_equal",
    "pow",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "scale",
    "sum",
    "sums",
]


def _elementwise(kind: str, x: Variable, y: Variable, axis: int, act: str | None, name: str | None) -> Variable:
    layer = Layer(kind, name)
    return layer.activated(layer.result(kind, {"X": x, "Y": y}, {"axis": axis}), act)


def elementwise_add(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """`x + y`. The dims of `y` are aligned with those of `x` from `axis`; -1 aligns them at the end."""
    return _elementwise("elementwise_add", x, y, axis, act, name)


def elementwise_sub(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """`x - y`, aligned as in `elementwise_add`."""
    return _elementwise("elementwise_sub", x, y, axis, act, name)


def elementwise_mul(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """`x * y`, aligned as in `elementwise_add`."""
    return _elementwise("elementwise_mul", x, y, axis, act, name)


def elementwise_div(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """`x / y`, aligned as in `elementwise_add`."""
    return _elementwise("elementwise_div", x, y, axis, act, name)


def elementwise_max(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """The larger of both, aligned as in `elementwise_add`."""
    return _elementwise("elementwise_max", x, y, axis, act, name)


def elementwise_min(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """The smaller of both, aligned as in `elementwise_add`."""
    return _elementwise("elementwise_min", x, y, axis, act, name)


def elementwise_pow(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """`x ** y`, aligned as in `elementwise_add`."""
    return _elementwise("elementwise_pow", x, y, axis, act, name)


def elementwise_mod(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
    """`x % y`, aligned as in `elementwise_add`."""
    return _elementwise("elementwise_mod", x, y, axis, act, name)


def elementwise_floordiv(
    x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
) -> Variable:
    """`x // y`, aligned as in `elementwise_add`."""
    return _elementwise("elementwise_floordiv", x, y, axis, act, name)


def _compare(kind: str, x: Variable, y: Variable, out: Variable | None) -> Variable:
    return Layer(kind).result(kind, {"X": x, "Y": y}, out=out)


def less_than(x: Variable, y: Variable, force_cpu: bool | None = None, cond: Variable | None = None) -> Variable:
    """Whether each element of `x` is less than that of `y`; the result is written to `cond`, if given."""
    return _compare("less_than", x, y, cond)


def less_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """Whether each element of `x` is at most that of `y`."""
    return _compare("less_equal", x, y, cond)


def greater_than(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """Whether each element of `x` is greater than that of `y`."""
    return _compare("greater_than", x, y, cond)


def greater_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """Whether each element of `x` is at least that of `y`."""
    return _compare("greater_equal", x, y, cond)


def equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """Whether elements are equal."""
    return _compare("equal", x, y, cond)


def not_equal(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
    """Whether elements differ."""
    return _compare("not_equal", x, y, cond)


def logical_and(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Whether both are true."""
    return Layer("logical_and", name).result("logical_and", {"X": x, "Y": y}, out=out)


def logical_or(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Whether at least one is true."""
    return Layer("logical_or", name).result("logical_or", {"X": x, "Y": y}, out=out)


def logical_xor(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Whether exactly one is true."""
    return Layer("logical_xor", name).result("logical_xor", {"X": x, "Y": y}, out=out)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """The negation of each Boolean."""
    return Layer("logical_not", name).result("logical_not", {"X": x}, out=out)


elementwise_equal = equal


def isfinite(x: Variable) -> Variable:
    """Whether all elements are finite, as one Boolean."""
    return reduce_all(Layer("isfinite_v2").result("isfinite_v2", {"X": x}))


def has_inf(x: Variable) -> Variable:
    """Whether any element is infinite, as one Boolean."""
    return reduce_any(Layer("isinf_v2").result("isinf_v2", {"X": x}))


def has_nan(x: Variable) -> Variable:
    """Whether any element is not a number, as one Boolean."""
    return reduce_any(Layer("isnan_v2").result("isnan_v2", {"X": x}))


Dims = int | Sequence[int] | None


def _reduce(kind: str, x: Variable, dim: Dims, keep_dim: bool, name: str | None) -> Variable:
    dims = [] if dim is None else several("dim", dim)
    # As PaddlePaddle writes it: empty dims mean all of them, without `reduce_all` for sums.
    attrs = {"dim": dims, "keep_dim": keep_dim, "reduce_all": not dims and kind != "reduce_sum"}
    return Layer(kind, name).result(kind, {"X": x}, attrs)


def reduce_sum(input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The sum over dims [default: all]."""
    return _reduce("reduce_sum", input, dim, keep_dim, name)


def reduce_mean(input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The mean over dims [default: all]."""
    return _reduce("reduce_mean", input, dim, keep_dim, name)


def reduce_max(input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The maximum over dims [default: all]."""
    return _reduce("reduce_max", input, dim, keep_dim, name)


def reduce_min(input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The minimum over dims [default: all]."""
    return _reduce("reduce_min", input, dim, keep_dim, name)


def reduce_prod(input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """The product over dims [default: all]."""
    return _reduce("reduce_prod", input, dim, keep_dim, name)


def reduce_all(input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """Whether all elements over dims are true [default: all dims]."""
    return _reduce("reduce_all", input, dim, keep_dim, name)


def reduce_any(input: Variable, dim: Dims = None, keep_dim: bool = False, name: str | None = None) -> Variable:
    """Whether any element over dims is true [default: all dims]."""
    return _reduce("reduce_any", input, dim, keep_dim, name)


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements."""
    return reduce_mean(x, name=name)


def scale(
    x: Variable,
    scale: float | Variable = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """`scale * x + bias`, or, without `bias_after_scale`, `scale * (x + bias)`."""
    layer = Layer("scale", name)
    inputs: dict[str, Any] = {"X": x}
    attrs: dict[str, Any] = {"bias": float(bias), "bias_after_scale": bias_after_scale}
    if isinstance(scale, Variable):
        inputs["ScaleTensor"] = scale
    else:
        attrs = {"scale": float(scale), **attrs}
    return layer.activated(layer.result("scale", inputs, attrs), act)


def pow(x: Variable, factor: float | Variable = 1.0, name: str | None = None) -> Variable:
    """`x ** factor`."""
    if isinstance(factor, Variable):
        return elementwise_pow(x, factor, name=name)
    return Layer("pow", name).result("pow", {"X": x}, {"factor": factor})


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """Each element, clipped to the range from `min` to `max`."""
    return Layer("clip", name).result("clip", {"X": x}, {"min": min, "max": max})


def clip_by_norm(x: Variable, max_norm: float, name: str | None = None) -> Variable:
    """The tensor, scaled if its norm exceeds `max_norm`."""
    return Layer("clip_by_norm", name).result("clip_by_norm", {"X": x}, {"max_norm": max_norm})


def cumsum(
    x: Variable, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None
) -> Variable:
    """The cumulative sums along an axis [default: the last]."""
    attrs = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return Layer("cumsum").result("cumsum", {"X": x}, attrs)


def sum(x: Variable | Sequence[Variable]) -> Variable:
    """The sum of tensors of the same shape."""
    return Layer("sum").result("sum", {"X": [x] if isinstance(x, Variable) else list(x)})


def sums(input: Sequence[Variable], out: Variable | None = None) -> Variable:
    """The sum of tensors of the same shape; written to `out`, if given."""
    return Layer("sum").result("sum", {"X": list(input)}, out=out)


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """The product of matrices, or of batches of them, multiplied by `alpha`."""
    layer = Layer("matmul_v2", name)
    made = layer.result("matmul_v2", {"X": x, "Y": y}, {"trans_x": transpose_x, "trans_y": transpose_y})
    return made if alpha == 1.0 else scale(made, alpha)


def mul(x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None) -> Variable:
    """The product of matrices: the first `*_num_col_dims` dims of an operand are its rows, the others its columns."""
    attrs = {"x_num_col_dims": x_num_col_dims, "y_num_col_dims": y_num_col_dims}
    return Layer("mul", name).result("mul", {"X": x, "Y": y}, attrs)


def bmm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The products of the matrices of two batches."""
    return Layer("bmm", name).result("bmm", {"X": x, "Y": y})


def addcmul(input: Variable, tensor1: Variable, tensor2: Variable, value: float = 1.0, name: str | None = None) -> Variable:
    """`input + value * tensor1 * tensor2`, element by element."""
    return elementwise_add(input, scale(elementwise_mul(tensor1, tensor2), value))


def addmm(
    input: Variable, x: Variable, y: Variable, alpha: float = 1.0, beta: float = 1.0, name: str | None = None
) -> Variable:
    """`beta * input + alpha * (x @ y)`."""
    inputs = {"Input": input, "X": x, "Y": y}
    return Layer("addmm", name).result("addmm", inputs, {"Alpha": alpha, "Beta": beta})


def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The inner products of the last axis, which is kept with size 1."""
    return reduce_sum(elementwise_mul(x, y), dim=-1, keep_dim=True, name=name)


def cross(input: Variable, other: Variable, dim: int | None = None) -> Variable:
    """The cross product of vectors along a dim of size 3 [default: the first]."""
    return Layer("cross").result("cross", {"X": input, "Y": other}, {"dim": dim})


def kron(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """The Kronecker product."""
    return Layer("kron", name).result("kron", {"X": x, "Y": y}, out=out)


def dist(x: Variable, y: Variable, p: float = 2.0) -> Variable:
    """The p-norm of the difference."""
    return Layer("dist").result("dist", {"X": x, "Y": y}, {"p": float(p)})


def cos_sim(X: Variable, Y: Variable) -> Variable:
    """The cosine of the angle between rows; `Y` may have a single row."""
    products = reduce_sum(elementwise_mul(X, Y), dim=-1, keep_dim=True)
    norms = [Layer("sqrt").result("sqrt", {"X": _squares(one)}) for one in (X, Y)]
    return elementwise_div(elementwise_div(products, norms[0]), norms[1])


def _squares(x: Variable) -> Variable:
    return reduce_sum(Layer("square").result("square", {"X": x}), dim=-1, keep_dim=True)


def logsumexp(
    x: Variable, dim: Dims = None, keepdim: bool = False, out: Variable | None = None, name: str | None = None
) -> Variable:
    """The logarithm of the sum of exponentials over dims [default: all]."""
    dims = [] if dim is None else several("dim", dim)
    attrs = {"axis": dims or [0], "keepdim": keepdim, "reduce_all": not dims}
    return Layer("logsumexp", name).result("logsumexp", {"X": x}, attrs, out=out)


def allclose(
    input: Variable, other: Variable, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False, name: str | None = None
) -> Variable:
    """Whether all elements are close, as one Boolean: `|a - b| <= atol + rtol * |b|`."""
    attrs = {"rtol": str(rtol), "atol": str(atol), "equal_nan": equal_nan}
    return Layer("allclose", name).result("allclose", {"Input": input, "Other": other}, attrs)
