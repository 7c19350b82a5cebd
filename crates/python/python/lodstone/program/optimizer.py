"""Optimizers: operators that update parameters by their gradients.

    >>> from lodstone.program import Network, clip, layers, optimizer, regularizer
    >>> with Network() as net:
    ...     loss = layers.mean(layers.fc(layers.data("x", [4]), 1))
    ...     adam = optimizer.Adam(
    ...         learning_rate=layers.exponential_decay(0.01, decay_steps=100, decay_rate=0.9),
    ...         regularization=regularizer.L2Decay(1e-4),
    ...         grad_clip=clip.GradientClipByGlobalNorm(1.0),
    ...     )
    ...     operators, pairs = adam.minimize(loss)
    >>> [(parameter.name, gradient.name) for parameter, gradient in pairs]
    [('fc_0.w_0', 'fc_0.w_0@GRAD'), ('fc_0.b_0', 'fc_0.b_0@GRAD')]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from .. import _lodstone
from . import unique_name
from ._backward import Pairs, append_backward
from .._checks import check_fields, checked, number
from ._core import Operator, Program, Variable, check_program, default_startup_program, name_of, names_of
from .clip import GradientClip
from .regularizer import Regularizer

__all__ = [
    "SGD",
    "Adadelta",
    "AdadeltaOptimizer",
    "Adagrad",
    "AdagradOptimizer",
    "Adam",
    "AdamOptimizer",
    "AdamW",
    "Adamax",
    "AdamaxOptimizer",
    "DecayedAdagrad",
    "DecayedAdagradOptimizer",
    "Dpsgd",
    "DpsgdOptimizer",
    "Ftrl",
    "FtrlOptimizer",
    "Lamb",
    "LambOptimizer",
    "LarsMomentum",
    "LarsMomentumOptimizer",
    "Momentum",
    "MomentumOptimizer",
    "Optimizer",
    "RMSProp",
    "RMSPropOptimizer",
    "SGDOptimizer",
]


# Shares of moving averages.
FRACTIONS = 0.0, 1.0, True


class Optimizer:
    """An optimizer. `learning_rate` is a number, or the variable of a schedule.

    A number becomes a persistable variable, `learning_rate_0`, which a scope can change before a step.
    `parameter_list` has the parameters that are updated [default: all that can be trained]. `name` has no effect.
    """

    _kind: ClassVar[str] = ""

    learning_rate: float | Variable
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name, value in vars(self).items():
            if isinstance(value, Real) and not isinstance(value, bool):
                number(name, value, *(FRACTIONS if name in ("beta1", "beta2", "rho", "decay") else ()))
        if self.parameter_list is not None:
            self.parameter_list = names_of("parameter_list", self.parameter_list)

    @checked
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Variable | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[list[Operator], Pairs]:
        """Appends gradients and updates; returns the operators of the updates, and each parameter with its gradient."""
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        updates = self.apply_gradients(sorted(pairs, key=lambda pair: pair[0].name), startup_program)
        places = {name: place for place, name in enumerate(loss.program.global_block().vars)}
        return updates, sorted(pairs, key=lambda pair: places[pair[0].name])

    @checked
    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Variable | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> Pairs:
        """Appends gradients; returns each parameter with its gradient."""
        return append_backward(loss, self.parameter_list if parameter_list is None else parameter_list, no_grad_set)

    def apply_gradients(self, params_grads: Pairs, startup_program: Program | None = None) -> list[Operator]:
        """Appends the updates of parameters by their gradients; returns the operators."""
        if startup_program is not None:
            check_program("startup_program", startup_program)
        if not params_grads:
            raise ValueError("argument 'params_grads': there are no parameters to update")
        main = params_grads[0][0].program
        before = len(main.global_block().ops)
        clip = self.grad_clip or main._grad_clip
        rate = self.learning_rate
        options = {name: value for name, value in vars(self).items() if name not in Optimizer.__annotations__}
        startup = startup_program or default_startup_program()
        _lodstone.apply_optimizer(
            (main._program, startup._program, unique_name.current()),
            self._kind,
            options,
            rate.name if isinstance(rate, Variable) else float(rate),
            None if clip is None else clip.parts(),
            None if self.regularization is None else self.regularization.parts(),
            [(name_of("params_grads", a), name_of("params_grads", b)) for a, b in params_grads],
        )
        return main.global_block().ops[before:]


@dataclass(eq=False, repr=False)
class SGD(Optimizer):
    """Gradient descent: `parameter -= learning_rate * gradient`."""

    _kind = "sgd"
    learning_rate: float | Variable
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None


@dataclass(eq=False, repr=False)
class Momentum(Optimizer):
    """Gradient descent with momentum."""

    _kind = "momentum"
    learning_rate: float | Variable
    momentum: float = 0.9
    parameter_list: Iterable[Variable | str] | None = None
    use_nesterov: bool = False
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None


@dataclass(eq=False, repr=False)
class Adagrad(Optimizer):
    """Steps that decrease with the sum of squared gradients (Duchi et al., 2011)."""

    _kind = "adagrad"
    learning_rate: float | Variable
    epsilon: float = 1e-6
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None
    initial_accumulator_value: float = 0.0


@dataclass(eq=False, repr=False)
class Adam(Optimizer):
    """Steps by moving averages of gradients and their squares (Kingma and Ba, 2015)."""

    _kind = "adam"
    learning_rate: float | Variable = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None
    lazy_mode: bool = False


@dataclass(eq=False, repr=False)
class AdamW(Optimizer):
    """`Adam` with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    _kind = "adamw"
    learning_rate: float | Variable = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    parameter_list: Iterable[Variable | str] | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None
    lazy_mode: bool = False


@dataclass(eq=False, repr=False)
class RMSProp(Optimizer):
    """Steps that are normalized by a moving average of squared gradients (Hinton, 2012)."""

    _kind = "rmsprop"
    learning_rate: float | Variable
    rho: float = 0.95
    epsilon: float = 1e-6
    momentum: float = 0.0
    centered: bool = False
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None


@dataclass(eq=False, repr=False)
class Lamb(Optimizer):
    """`Adam` with steps proportional to the norm of the parameter (You et al., 2020)."""

    _kind = "lamb"
    learning_rate: float | Variable = 0.001
    lamb_weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None
    always_adapt: bool = False


@dataclass(eq=False, repr=False)
class Adamax(Optimizer):
    """`Adam` with the largest recent gradient in place of the second moment (Kingma and Ba, 2015)."""

    _kind = "adamax"
    learning_rate: float | Variable = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None


@dataclass(eq=False, repr=False)
class Adadelta(Optimizer):
    """Steps by moving averages of squared gradients and squared steps (Zeiler, 2012).

    As in PaddlePaddle 2.x, `learning_rate` is a factor of each step, usually 1; 1.x ignores it.
    """

    _kind = "adadelta"
    learning_rate: float | Variable
    epsilon: float = 1e-6
    rho: float = 0.95
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None


@dataclass(eq=False, repr=False)
class DecayedAdagrad(Optimizer):
    """`Adagrad` with a moving average of squared gradients instead of their sum."""

    _kind = "decayed_adagrad"
    learning_rate: float | Variable
    decay: float = 0.95
    epsilon: float = 1e-6
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None


@dataclass(eq=False, repr=False)
class Ftrl(Optimizer):
    """Gradient descent that keeps many parameters at zero (McMahan et al., 2013).

    `l2` has its documented meaning; PaddlePaddle 1.8.5 writes `l1` in its place.
    """

    _kind = "ftrl"
    learning_rate: float | Variable
    l1: float = 0.0
    l2: float = 0.0
    lr_power: float = -0.5
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None


@dataclass(eq=False, repr=False)
class LarsMomentum(Optimizer):
    """`Momentum` with a learning rate for each parameter, proportional to its norm (You et al., 2017)."""

    _kind = "lars_momentum"
    learning_rate: float | Variable
    momentum: float
    lars_coeff: float = 0.001
    lars_weight_decay: float = 0.0005
    parameter_list: Iterable[Variable | str] | None = None
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None
    epsilon: float = 0.0
    rescale_grad: float = 1.0


@dataclass(eq=False, repr=False)
class Dpsgd(Optimizer):
    """Gradient descent with differential privacy (Abadi et al., 2016): clips gradients, and adds normal noise.

    With a `seed`, the noise is the same in each step, as in PaddlePaddle. With 0, it is drawn from the generator of the
    scope, where PaddlePaddle uses the time as the seed.
    """

    _kind = "dpsgd"
    learning_rate: float | Variable = 0.001
    clip: float = 0.9
    batch_size: float = 0.999
    sigma: float = 1e-8
    parameter_list: Iterable[Variable | str] | None = None
    seed: int = 0
    regularization: Regularizer | None = None
    grad_clip: GradientClip | None = None
    name: str | None = None


AdadeltaOptimizer, AdamaxOptimizer, DecayedAdagradOptimizer = Adadelta, Adamax, DecayedAdagrad
DpsgdOptimizer, FtrlOptimizer, LarsMomentumOptimizer = Dpsgd, Ftrl, LarsMomentum
AdagradOptimizer, AdamOptimizer, LambOptimizer, MomentumOptimizer = Adagrad, Adam, Lamb, Momentum
RMSPropOptimizer, SGDOptimizer = RMSProp, SGD
