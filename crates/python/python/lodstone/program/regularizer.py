"""Weight decay, for optimizers and parameters."""

from __future__ import annotations

from .._checks import checked, number

__all__ = ["L1Decay", "L1DecayRegularizer", "L2Decay", "L2DecayRegularizer", "Regularizer"]


class Regularizer:
    """Weight decay with a coefficient."""

    _kind = ""

    @checked
    def __init__(self, regularization_coeff: float = 0.0) -> None:
        self._coefficient = number("regularization_coeff", regularization_coeff)

    def parts(self) -> tuple[str, float]:
        """Returns the form that the extension takes."""
        return self._kind, self._coefficient

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._coefficient})"


class L1Decay(Regularizer):
    """Adds `coeff * sign(parameter)` to gradients."""

    _kind = "l1"


class L2Decay(Regularizer):
    """Adds `coeff * parameter` to gradients."""

    _kind = "l2"


L1DecayRegularizer, L2DecayRegularizer = L1Decay, L2Decay
