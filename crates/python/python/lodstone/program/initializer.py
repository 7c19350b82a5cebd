"""Initializers of parameters: operators of the startup program.

Random ones have a seed; 0 draws from the generator of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from .._checks import checked, number

__all__ = [
    "Bilinear",
    "BilinearInitializer",
    "Constant",
    "ConstantInitializer",
    "Initializer",
    "MSRA",
    "MSRAInitializer",
    "Normal",
    "NormalInitializer",
    "NumpyArrayInitializer",
    "TruncatedNormal",
    "TruncatedNormalInitializer",
    "Uniform",
    "UniformInitializer",
    "Xavier",
    "XavierInitializer",
]


class Initializer:
    """How the startup program fills a parameter."""

    def parts(self, shape: Sequence[int]) -> dict[str, Any]:
        """Returns the form that the extension takes, for a parameter of this shape."""
        raise NotImplementedError


class Constant(Initializer):
    """Fills with a number."""

    @checked
    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        self._value = float(value)

    def parts(self, shape: Sequence[int]) -> dict[str, Any]:
        return {"kind": "constant", "value": self._value}


class Uniform(Initializer):
    """Draws from a uniform distribution."""

    @checked
    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int = 0) -> None:
        if not number("low", low) <= number("high", high):
            raise ValueError(f"argument 'high': expected at least 'low', {low}, found {high}")
        self._parts = {"kind": "uniform", "low": float(low), "high": float(high), "seed": seed}

    def parts(self, shape: Sequence[int]) -> dict[str, Any]:
        return self._parts


class Normal(Initializer):
    """Draws from a normal distribution with mean `loc` and standard deviation `scale`."""

    _kind = "normal"

    @checked
    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        self._parts = {"kind": self._kind, "loc": number("loc", loc), "scale": number("scale", scale, 0.0), "seed": seed}

    def parts(self, shape: Sequence[int]) -> dict[str, Any]:
        return self._parts


class TruncatedNormal(Normal):
    """Draws from a normal distribution, within two standard deviations of the mean."""

    _kind = "truncated_normal"


class Xavier(Initializer):
    """Draws from a distribution that preserves the variance from layer to layer (Glorot and Bengio, 2010).

    The numbers of inputs and outputs of the layer, `fan_in` and `fan_out`, are by default those of the shape.
    """

    @checked
    def __init__(
        self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
    ) -> None:
        for argument, fan in (("fan_in", fan_in), ("fan_out", fan_out)):
            _check_fan(argument, fan)
        self._uniform, self._in, self._out, self._seed = uniform, fan_in, fan_out, seed

    def parts(self, shape: Sequence[int]) -> dict[str, Any]:
        if self._in is None and self._out is None:
            return {"kind": "xavier" if self._uniform else "xavier_normal", "seed": self._seed}
        fan_in, fan_out = _fans(shape)
        total = (fan_in if self._in is None else self._in) + (fan_out if self._out is None else self._out)
        return _with_variance(2.0 / total, self._uniform, self._seed)


class MSRA(Initializer):
    """Draws from a distribution for layers with rectifiers (He et al., 2015).

    The number of inputs of the layer, `fan_in`, is by default that of the shape.
    """

    @checked
    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        _check_fan("fan_in", fan_in)
        self._uniform, self._in, self._seed = uniform, fan_in, seed

    def parts(self, shape: Sequence[int]) -> dict[str, Any]:
        if self._in is None:
            return {"kind": "kaiming_uniform" if self._uniform else "kaiming", "seed": self._seed}
        return _with_variance(2.0 / self._in, self._uniform, self._seed)


def _check_fan(argument: str, fan: float | None) -> None:
    if fan is not None and number(argument, fan, 0.0) == 0.0:
        raise ValueError(f"argument '{argument}': expected a number above 0, found {fan}")


def _fans(shape: Sequence[int]) -> tuple[int, int]:
    """Returns the numbers of inputs and outputs of a layer with a weight of this shape."""
    if len(shape) < 2:
        return (shape[0], shape[0]) if shape else (1, 1)
    if len(shape) == 2:
        return shape[0], shape[1]
    window = prod(shape[2:])
    return shape[1] * window, shape[0] * window


def _with_variance(variance: float, is_uniform: bool, seed: int) -> dict[str, Any]:
    """Returns the parts of a distribution around 0."""
    if is_uniform:
        limit = sqrt(3.0 * variance)
        return Uniform(-limit, limit, seed).parts(())
    return Normal(0.0, sqrt(variance), seed).parts(())


class Bilinear(Initializer):
    """Fills the filter of a transposed convolution that upsamples images by interpolation."""

    def parts(self, shape: Sequence[int]) -> dict[str, Any]:
        return {"kind": "bilinear"}


class NumpyArrayInitializer(Initializer):
    """Fills with the elements of an array or tensor of any framework."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def parts(self, shape: Sequence[int]) -> dict[str, Any]:
        from .._run import tensor

        return {"kind": "given", "value": tensor("value", self._value)}


BilinearInitializer, ConstantInitializer, MSRAInitializer, NormalInitializer = Bilinear, Constant, MSRA, Normal
TruncatedNormalInitializer, UniformInitializer, XavierInitializer = TruncatedNormal, Uniform, Xavier

