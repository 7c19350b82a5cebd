"""Initializers of parameters: operators of the startup program.

Random ones have a seed; 0 draws from the generator of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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

    def parts(self, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
        """Returns the form that the extension takes, for a parameter of this type and shape."""
        raise NotImplementedError


class Constant(Initializer):
    """Fills with a number."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        self._value = float(value)

    def parts(self, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
        return {"kind": "constant", "value": self._value}


class Uniform(Initializer):
    """Draws from a uniform distribution."""

    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int = 0) -> None:
        self._parts = {"kind": "uniform", "low": float(low), "high": float(high), "seed": seed}

    def parts(self, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
        return self._parts


class Normal(Initializer):
    """Draws from a normal distribution with mean `loc` and standard deviation `scale`."""

    _kind = "normal"

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        self._parts = {"kind": self._kind, "loc": float(loc), "scale": float(scale), "seed": seed}

    def parts(self, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
        return self._parts


class TruncatedNormal(Normal):
    """Draws from a normal distribution, within two standard deviations of the mean."""

    _kind = "truncated_normal"


class Xavier(Initializer):
    """Draws from a distribution that preserves the variance from layer to layer (Glorot and Bengio, 2010)."""

    def __init__(self, uniform: bool = True, seed: int = 0) -> None:
        self._parts = {"kind": "xavier" if uniform else "xavier_normal", "seed": seed}

    def parts(self, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
        return self._parts


class MSRA(Initializer):
    """Draws from a distribution for layers with rectifiers (He et al., 2015)."""

    def __init__(self, uniform: bool = True, seed: int = 0) -> None:
        self._parts = {"kind": "kaiming_uniform" if uniform else "kaiming", "seed": seed}

    def parts(self, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
        return self._parts


class Bilinear(Initializer):
    """Fills the filter of a transposed convolution that upsamples images by interpolation."""

    def parts(self, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
        return {"kind": "bilinear"}


class NumpyArrayInitializer(Initializer):
    """Fills with the elements of an array or tensor of any framework."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def parts(self, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
        from .._run import tensor

        return {"kind": "given", "value": tensor("value", self._value)}


BilinearInitializer, ConstantInitializer, MSRAInitializer, NormalInitializer = Bilinear, Constant, MSRA, Normal
TruncatedNormalInitializer, UniformInitializer, XavierInitializer = TruncatedNormal, Uniform, Xavier

