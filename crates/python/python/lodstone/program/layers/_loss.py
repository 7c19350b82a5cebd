"""Losses and metrics."""

from __future__ import annotations

import builtins

from .._core import Variable
from .._layer import Layer
from ._activations import abs, exp, log1p, relu, square
from ._math import clip, elementwise_add, elementwise_div, elementwise_mul, elementwise_sub, mean, reduce_sum, scale
from ._tensor import one_hot

__all__ = [
    "accuracy",
    "bpr_loss",
    "cross_entropy",
    "dice_loss",
    "hinge_loss",
    "huber_loss",
    "kldiv_loss",
    "label_smooth",
    "log_loss",
    "margin_rank_loss",
    "mse_loss",
    "rank_loss",
    "sigmoid_cross_entropy_with_logits",
    "smooth_l1",
    "softmax_with_cross_entropy",
    "square_error_cost",
]


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100) -> Variable:
    """The negative logarithm of the label's probability; with `soft_label`, labels are probabilities."""
    layer = Layer("cross_entropy")
    inputs = {"X": input, "Label": label}
    if soft_label:
        return layer.result("cross_entropy", inputs, {"soft_label": True}, "Y")
    attrs = {"ignore_index": None if ignore_index == -100 else ignore_index}
    return layer.result("cross_entropy2", inputs, attrs, "Y", extra=["MatchX", "XShape"])


def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """How much the scores of the other classes exceed that of the label (Rendle et al., 2009)."""
    return Layer("bpr_loss", name).result("bpr_loss", {"X": input, "Label": label}, slot="Y")


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Variable | tuple[Variable, Variable]:
    """The cross entropy of logits, for each row; with `return_softmax`, also the probabilities."""
    attrs = {
        "soft_label": soft_label or None,
        "ignore_index": None if ignore_index == -100 else ignore_index,
        "axis": None if axis == -1 else axis,
    }
    kind = "softmax_with_cross_entropy"
    inputs = {"Logits": logits, "Label": label}
    softmax, loss = Layer(kind).results(kind, inputs, attrs, ["Softmax", "Loss"])
    return (loss, softmax) if return_softmax else loss


def sigmoid_cross_entropy_with_logits(
    x: Variable, label: Variable, ignore_index: int = -100, name: str | None = None, normalize: bool = False
) -> Variable:
    """The cross entropy of independent classes, for each element."""
    kind = "sigmoid_cross_entropy_with_logits"
    attrs = {"ignore_index": ignore_index, "normalize": normalize}
    return Layer(kind, name).result(kind, {"X": x, "Label": label}, attrs)


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """The square of the difference, for each element."""
    return square(elementwise_sub(input, label))


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """The smooth L1 loss, for each row."""
    squared = (1.0 if sigma is None else sigma) ** 2
    difference = elementwise_sub(x, y)
    if inside_weight is not None:
        difference = elementwise_mul(difference, inside_weight)
    size = abs(difference)
    # min(|d|, 1 / s) * (|d| - min(|d|, 1 / s) / 2) * s is both branches in one.
    near = clip(size, 0.0, 1.0 / squared)
    losses = scale(elementwise_mul(near, elementwise_sub(size, scale(near, 0.5))), squared)
    if outside_weight is not None:
        losses = elementwise_mul(losses, outside_weight)
    return reduce_sum(losses, dim=list(builtins.range(1, len(x.shape))), keep_dim=True)


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """The Huber loss, for each element."""
    inputs = {"X": input, "Y": label}
    return Layer("huber_loss").result("huber_loss", inputs, {"delta": delta}, extra=["Residual"])


def hinge_loss(input: Variable, label: Variable) -> Variable:
    """The hinge loss of labels 0 and 1, for each element."""
    sides = scale(label, 2.0, -1.0)
    return relu(scale(elementwise_mul(sides, input), -1.0, 1.0))


def log_loss(input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None) -> Variable:
    """The cross entropy of probabilities of two classes, for each element."""
    return Layer("log_loss", name).result("log_loss", {"Predicted": input, "Labels": label}, {"epsilon": epsilon}, "Loss")


def kldiv_loss(x: Variable, target: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """The Kullback-Leibler divergence of log-probabilities `x` from `target`."""
    return Layer("kldiv_loss", name).result("kldiv_loss", {"X": x, "Target": target}, {"reduction": reduction}, "Loss")


def rank_loss(label: Variable, left: Variable, right: Variable, name: str | None = None) -> Variable:
    """The pairwise ranking loss of RankNet."""
    difference = elementwise_sub(left, right)
    return elementwise_sub(log1p(exp(difference)), elementwise_mul(label, difference), name=name)


def margin_rank_loss(
    label: Variable, left: Variable, right: Variable, margin: float = 0.1, name: str | None = None
) -> Variable:
    """The margin ranking loss, for each pair."""
    ordered = elementwise_mul(label, elementwise_sub(left, right))
    return relu(scale(ordered, -1.0, margin), name=name)


def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of the squared differences."""
    return mean(square_error_cost(input, label))


def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5, name: str | None = None) -> Variable:
    """The dice loss of probabilities and labels, the mean of all examples."""
    hot = one_hot(label, input.shape[-1])
    axes = list(builtins.range(1, len(input.shape)))
    inside = reduce_sum(elementwise_mul(input, hot), dim=axes)
    total = elementwise_add(reduce_sum(input, dim=axes), reduce_sum(hot, dim=axes))
    share = elementwise_div(scale(inside, 2.0), scale(total, 1.0, epsilon))
    return mean(scale(share, -1.0, 1.0))


def label_smooth(
    label: Variable, prior_dist: Variable | None = None, epsilon: float = 0.1, dtype: str = "float32", name: str | None = None
) -> Variable:
    """Labels as probabilities, mixed with a prior distribution [default: uniform]."""
    inputs = {"X": label, "PriorDist": prior_dist}
    return Layer("label_smooth", name).result("label_smooth", inputs, {"epsilon": epsilon})


def accuracy(
    input: Variable, label: Variable, k: int = 1, correct: Variable | None = None, total: Variable | None = None
) -> Variable:
    """The fraction of rows whose label is among the `k` largest."""
    layer = Layer("accuracy")
    temporary = [layer.temporary() for _ in range(4)]
    values, indices = temporary[:2]
    layer.append("top_k_v2", {"X": input}, {"Out": values, "Indices": indices}, {"k": k, "sorted": False})
    given = {
        "Correct": temporary[2] if correct is None else correct,
        "Total": temporary[3] if total is None else total,
    }
    out = layer.temporary()
    layer.append("accuracy", {"Out": values, "Indices": indices, "Label": label}, {**given, "Accuracy": out})
    return input.program.current_block().var(out)
