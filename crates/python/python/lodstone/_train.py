"""Training of models."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import _lodstone, checkpoint as checkpoints
from ._checks import checked, wrong
from ._model import Model, Path
from ._run import values as named_values


@dataclass(frozen=True)
class Step:
    """A completed step of training."""

    number: int
    """The number of the step, from 1, including those before a resumed checkpoint."""
    loss: float
    """The loss."""
    values: dict[str, float]
    """The reported variables by name, the loss first."""


Callback = Callable[[Step], object]


class Training:
    """A model in training; `train` makes it."""

    def __init__(self, training: _lodstone.Training) -> None:
        self._training = training
        self.history: list[Step] = []
        """The steps of this run."""

    @property
    def losses(self) -> list[float]:
        """The losses of the steps of this run."""
        return [step.loss for step in self.history]

    @property
    def done(self) -> int:
        """The number of completed steps, including those before a resumed checkpoint."""
        return self._training.done

    @property
    def restored(self) -> dict[str, Any] | None:
        """What was restored from a checkpoint: `step`, `loaded`, `initialized`, `warnings` and `metadata`."""
        return self._training.restored()

    def step(self, batch: Mapping[str, Any] | None = None) -> Step:
        """Runs a step on the data of the training, or on a batch."""
        found = self._training.step(None if batch is None else named_values(batch))
        reported = dict(zip(self._training.watched, found, strict=True))
        step = Step(self.done, found[0], reported)
        self.history.append(step)
        return step

    def model(self) -> Model:
        """Returns the program with its current variables."""
        return Model(self._training.model())

    def save(self, directory: Path, *, no_clobber: bool = False) -> None:
        """Writes the program with its current variables, which can be opened and trained further."""
        self._training.save(directory, no_clobber)

    def __repr__(self) -> str:
        last = f", loss {self.history[-1].loss:.6g}" if self.history else ""
        return f"<lodstone.Training {self.done} steps{last}>"


@checked
def train(
    model: Model | Path,
    data: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    steps: int | None = None,
    batch_size: int | None = None,
    shuffle: int | None = None,
    startup: Path | None = None,
    params: Path | None = None,
    loss: str | None = None,
    watch: str | Iterable[str] = (),
    check_finite: bool = False,
    callbacks: Callback | Iterable[Callback] = (),
    checkpoint: Path | None = None,
    every: int = 100,
    keep: int | None = None,
    resume: bool = False,
    partial: bool = False,
    rename: Mapping[str, str] | None = None,
    load_from: Path | None = None,
    save_to: Path | None = None,
) -> Training:
    """Trains a PaddlePaddle model whose program computes gradients and updates parameters.

    `data` maps inputs to arrays, of which each step takes `batch_size` samples [default: the declared batch size, or
    all], in the order of the arrays or shuffled in each epoch with the seed `shuffle`. Or it is an iterable of batches,
    mappings of inputs to arrays, of which each step takes one; training ends with it, or after `steps`.

    `callbacks` are called with each `Step`; training ends if one returns False. `loss` is the loss variable [default:
    the root of the backward pass], `watch` are other scalars to report. Variables without a value are initialized by
    the program in the file `startup` [default: `startup_program` beside the model].

    Every `every` steps, and at the end, a checkpoint is saved to the directory `checkpoint`, of which the `keep` newest
    are kept [default: all]; with `resume`, training continues from the newest. Data in an iterable must then be those
    that follow. Operators of the program itself load from `load_from` [default: the directory of the model], and save
    to `save_to` [default: nowhere, they fail].

    >>> training = lodstone.train(
    ...     "examples/digits/training", lodstone.open("examples/digits/train.npz"), steps=3, batch_size=32
    ... )
    >>> training
    <lodstone.Training 3 steps, loss 2.51093>
    """
    if steps is not None and steps < 0:
        raise ValueError(f"argument 'steps': expected a number of steps, found {steps}")
    if every < 1:
        raise ValueError(f"argument 'every': expected at least 1, found {every}")
    if resume and checkpoint is None:
        raise ValueError("argument 'resume': give the directory as `checkpoint`")
    given: list[tuple[str, Any]] | None = None
    batches: Iterator[Mapping[str, Any] | None]
    if isinstance(data, Mapping):
        if steps is None:
            raise ValueError("argument 'steps': required, since `data` does not end")
        given, batches = named_values(dict(data)), itertools.repeat(None)
    elif isinstance(data, Iterable):
        batches = iter(data)
    else:
        raise TypeError(wrong("data", "a mapping of names to arrays, or an iterable of them", data))
    source, path = _opened(model, startup, params)
    manager = None if checkpoint is None else checkpoints.Manager(checkpoint, keep=keep)
    try:
        newest = _newest(checkpoint, resume)
        facts = {
            "path": path,
            "load_from": load_from,
            "save_to": save_to,
            "resume": None if newest is None else (checkpoint, newest),
            "rename": dict(rename or {}),
            "loss": loss,
            "watch": [watch] if isinstance(watch, str) else list(watch),
            "batch_size": batch_size,
            "shuffle": shuffle,
            "check_finite": check_finite,
            "partial": partial,
        }
        training = Training(_lodstone.Training(source._model, given, facts))
        for warning in training._training.warnings():
            warnings.warn(warning, stacklevel=2)
        _run(training, batches, steps, [callbacks] if callable(callbacks) else list(callbacks), manager, every)
    finally:
        if manager is not None:
            manager.close()
    return training


def _opened(model: Model | Path, startup: Path | None, params: Path | None) -> tuple[Model, Path | None]:
    """Opens a model with its startup program."""
    if isinstance(model, Model):
        if params is not None:
            raise ValueError("argument 'params': the model is open already")
        return Model(_lodstone.open_training(model._model, startup, None), model._path), model._path
    return Model(_lodstone.open_training(model, startup, params), model), model


def _newest(checkpoint: Path | None, resume: bool) -> int | None:
    """Returns the step to resume from."""
    steps = [] if checkpoint is None else checkpoints.steps(checkpoint)
    if steps and not resume:
        raise ValueError(
            f"argument 'checkpoint': {os.fspath(checkpoint or '')!r} has checkpoints up to step {steps[-1]}: "
            "pass `resume=True` to continue from there"
        )
    return steps[-1] if steps else None


def _run(
    training: Training,
    batches: Iterator[Mapping[str, Any] | None],
    steps: int | None,
    callbacks: list[Callback],
    manager: checkpoints.Manager | None,
    every: int,
) -> None:
    """Runs steps until all are done, the data end, or a callback returns False; saves checkpoints."""
    last = training.done
    try:
        while steps is None or training.done < steps:
            batch = next(batches, _END)
            if batch is _END:
                break
            step = training.step(batch)
            if manager is not None and step.number % every == 0:
                manager._save_training(training._training, background=True)
                last = step.number
            if any([callback(step) is False for callback in callbacks]):
                break
    finally:
        # What was trained before an error or an interrupt is saved, too.
        if manager is not None and training.done > last:
            manager._save_training(training._training, background=False)


_END: Any = object()

__all__ = ["Step", "Training", "train"]
