"""Functions of each element: activations and mathematics."""

from __future__ import annotations

from .._core import Variable
from .._layer import Layer

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan",
    "brelu",
    "ceil",
    "cos",
    "cosh",
    "elu",
    "erf",
    "exp",
    "floor",
    "gelu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "log",
    "log1p",
    "logsigmoid",
    "mish",
    "reciprocal",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "selu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "softshrink",
    "softsign",
    "sqrt",
    "square",
    "stanh",
    "swish",
    "tanh",
    "tanh_shrink",
    "thresholded_relu",
]


def abs(x: Variable, name: str | None = None) -> Variable:
    """The absolute value of each element."""
    return Layer("abs", name).result("abs", {"X": x})


def acos(x: Variable, name: str | None = None) -> Variable:
    """The inverse cosine of each element."""
    return Layer("acos", name).result("acos", {"X": x})


def asin(x: Variable, name: str | None = None) -> Variable:
    """The inverse sine of each element."""
    return Layer("asin", name).result("asin", {"X": x})


def atan(x: Variable, name: str | None = None) -> Variable:
    """The inverse tangent of each element."""
    return Layer("atan", name).result("atan", {"X": x})


def ceil(x: Variable, name: str | None = None) -> Variable:
    """Each element, rounded up."""
    return Layer("ceil", name).result("ceil", {"X": x})


def cos(x: Variable, name: str | None = None) -> Variable:
    """The cosine of each element."""
    return Layer("cos", name).result("cos", {"X": x})


def cosh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic cosine of each element."""
    return Layer("cosh", name).result("cosh", {"X": x})


def erf(x: Variable, name: str | None = None) -> Variable:
    """The error function of each element."""
    return Layer("erf", name).result("erf", {"X": x})


def exp(x: Variable, name: str | None = None) -> Variable:
    """The exponential of each element."""
    return Layer("exp", name).result("exp", {"X": x})


def floor(x: Variable, name: str | None = None) -> Variable:
    """Each element, rounded down."""
    return Layer("floor", name).result("floor", {"X": x})


def log(x: Variable, name: str | None = None) -> Variable:
    """The natural logarithm of each element."""
    return Layer("log", name).result("log", {"X": x})


def logsigmoid(x: Variable, name: str | None = None) -> Variable:
    """The logarithm of the logistic function of each element."""
    return Layer("logsigmoid", name).result("logsigmoid", {"X": x})


def reciprocal(x: Variable, name: str | None = None) -> Variable:
    """The reciprocal of each element."""
    return Layer("reciprocal", name).result("reciprocal", {"X": x})


def relu(x: Variable, name: str | None = None) -> Variable:
    """The rectifier: `max(x, 0)`."""
    return Layer("relu", name).result("relu", {"X": x})


def round(x: Variable, name: str | None = None) -> Variable:
    """Each element, rounded to the nearest integer, away from zero in the middle."""
    return Layer("round", name).result("round", {"X": x})


def rsqrt(x: Variable, name: str | None = None) -> Variable:
    """The reciprocal of the square root of each element."""
    return Layer("rsqrt", name).result("rsqrt", {"X": x})


def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """The logistic function of each element."""
    return Layer("sigmoid", name).result("sigmoid", {"X": x})


def sign(x: Variable, name: str | None = None) -> Variable:
    """The sign of each element: -1, 0 or 1."""
    return Layer("sign", name).result("sign", {"X": x})


def sin(x: Variable, name: str | None = None) -> Variable:
    """The sine of each element."""
    return Layer("sin", name).result("sin", {"X": x})


def sinh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic sine of each element."""
    return Layer("sinh", name).result("sinh", {"X": x})


def softsign(x: Variable, name: str | None = None) -> Variable:
    """`x / (1 + |x|)`."""
    return Layer("softsign", name).result("softsign", {"X": x})


def sqrt(x: Variable, name: str | None = None) -> Variable:
    """The square root of each element."""
    return Layer("sqrt", name).result("sqrt", {"X": x})


def square(x: Variable, name: str | None = None) -> Variable:
    """The square of each element."""
    return Layer("square", name).result("square", {"X": x})


def tanh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic tangent of each element."""
    return Layer("tanh", name).result("tanh", {"X": x})


def tanh_shrink(x: Variable, name: str | None = None) -> Variable:
    """`x - tanh(x)`."""
    return Layer("tanh_shrink", name).result("tanh_shrink", {"X": x})


def log1p(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """`log(1 + x)`."""
    return Layer("log1p", name).result("log1p", {"X": x}, out=out)


def silu(x: Variable, name: str | None = None) -> Variable:
    """`x * sigmoid(x)`."""
    return Layer("silu", name).result("silu", {"X": x})


def brelu(x: Variable, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Variable:
    """Clips each element to the range from `t_min` to `t_max`."""
    return Layer("brelu", name).result("brelu", {"X": x}, {"t_min": t_min, "t_max": t_max})


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """`x` if positive, else `alpha * (exp(x) - 1)`."""
    return Layer("elu", name).result("elu", {"X": x}, {"alpha": alpha})


def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:
    """The Gaussian error linear unit; with `approximate`, by a hyperbolic tangent."""
    return Layer("gelu", name).result("gelu", {"X": x}, {"approximate": approximate})


def hard_shrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """`x` if its absolute value exceeds `threshold`, else 0."""
    return Layer("hard_shrink", name).result("hard_shrink", {"X": x}, {"threshold": threshold})


def hard_sigmoid(x: Variable, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Variable:
    """`slope * x + offset`, clipped to the range from 0 to 1."""
    return Layer("hard_sigmoid", name).result("hard_sigmoid", {"X": x}, {"slope": slope, "offset": offset})


def hard_swish(x: Variable, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0, name: str | None = None) -> Variable:
    """`x * min(max(x + offset, 0), threshold) / scale`."""
    return Layer("hard_swish", name).result("hard_swish", {"X": x}, {"threshold": threshold, "scale": scale, "offset": offset})


def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """`x` if positive, else `alpha * x`."""
    return Layer("leaky_relu", name).result("leaky_relu", {"X": x}, {"alpha": alpha})


def mish(x: Variable, threshold: float = 20.0, name: str | None = None) -> Variable:
    """`x * tanh(softplus(x))`."""
    return Layer("mish", name).result("mish", {"X": x}, {"threshold": threshold})


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """Clips each element to the range from 0 to `threshold`."""
    if threshold != 6.0:
        # PaddlePaddle 2.6 ignores the threshold of `relu6`.
        return Layer("relu6", name).result("clip", {"X": x}, {"min": 0.0, "max": threshold})
    return Layer("relu6", name).result("relu6", {"X": x}, {"threshold": threshold})


def selu(x: Variable, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772, name: str | None = None) -> Variable:
    """The scaled exponential linear unit (Klambauer et al., 2017)."""
    return Layer("selu", name).result("selu", {"X": x}, {"scale": scale, "alpha": alpha})


def softplus(x: Variable, beta: float = 1.0, threshold: float = 20.0, name: str | None = None) -> Variable:
    """`log(1 + exp(beta * x)) / beta`; `x` where `beta * x` exceeds `threshold`."""
    return Layer("softplus", name).result("softplus", {"X": x}, {"beta": beta, "threshold": threshold})


def stanh(x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Variable:
    """`scale_b * tanh(scale_a * x)`."""
    return Layer("stanh", name).result("stanh", {"X": x}, {"scale_a": scale_a, "scale_b": scale_b})


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """`x * sigmoid(beta * x)`."""
    return Layer("swish", name).result("swish", {"X": x}, {"beta": beta})


def thresholded_relu(x: Variable, threshold: float = 1.0, name: str | None = None) -> Variable:
    """`x` if it exceeds `threshold`, else 0."""
    return Layer("thresholded_relu", name).result("thresholded_relu", {"X": x}, {"threshold": threshold})


def softshrink(x: Variable, alpha: float = 0.5, name: str | None = None) -> Variable:
    """`x` moved towards 0 by `alpha`, or 0."""
    return Layer("softshrink", name).result("softshrink", {"X": x}, {"lambda": alpha})
