"""Builds, edits, runs and saves PaddlePaddle programs, without PaddlePaddle.

The interface is that of `paddle.fluid`: programs are built by layers, run by an executor in a scope, and saved by
operators that they contain. What is built here runs in PaddlePaddle 2.6, and what PaddlePaddle saved is loaded, edited
and run here.

    >>> from lodstone.program import Executor, Network, layers, optimizer
    >>> with Network() as net:
    ...     x = layers.data("x", [4])
    ...     y = layers.data("y", [1])
    ...     loss = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
    ...     pairs = optimizer.SGD(0.1).minimize(loss)
    >>> executor = Executor()
    >>> executor.run(net.startup)
    []
    >>> import numpy as np
    >>> feed = {"x": np.ones((2, 4), np.float32), "y": np.zeros((2, 1), np.float32)}
    >>> losses = [executor.run(net.main, feed, [loss])[0] for step in range(3)]
    >>> bool(losses[2] < losses[0])
    True

| | |
|---|---|
| `Network`, or `Program` and `program_guard` | what layers are appended to |
| `layers`, `nets`, `initializer`, `optimizer`, `regularizer`, `clip` | what programs are built of |
| `append_backward`, `gradients` | gradients |
| `Executor`, `Scope`, `DataFeeder` | what runs them, their variables, and examples as inputs |
| `save_program`, `load_program`, `save`, `load`, `save_inference_model`, `load_inference_model` | files |

`lodstone.checkpoint` makes and restores checkpoints of programs.
"""

from typing import NoReturn

from ..checkpoint import is_parameter, is_persistable
from . import backward, clip, core, initializer, io, layers, nets, optimizer, regularizer, unique_name
from ._backward import append_backward, gradients
from ._core import (
    Block,
    Network,
    Operator,
    Parameter,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    program_guard,
)
from ._feeder import DataFeeder
from ._files import (
    load,
    load_inference_model,
    load_params,
    load_persistables,
    load_program,
    load_vars,
    save,
    save_inference_model,
    save_params,
    save_persistables,
    save_program,
    save_vars,
)
from ._inputs import data, embedding, one_hot
from ._layer import ParamAttr
from ._run import (
    CPUPlace,
    Executor,
    LoDTensor,
    Scope,
    create_lod_tensor,
    global_scope,
    is_compiled_with_cuda,
    scope_guard,
)

__all__ = [
    "Block",
    "CPUPlace",
    "DataFeeder",
    "Executor",
    "LoDTensor",
    "Network",
    "Operator",
    "ParamAttr",
    "Parameter",
    "Program",
    "Scope",
    "Variable",
    "append_backward",
    "backward",
    "clip",
    "core",
    "create_lod_tensor",
    "data",
    "default_main_program",
    "default_startup_program",
    "embedding",
    "global_scope",
    "gradients",
    "initializer",
    "io",
    "is_compiled_with_cuda",
    "is_parameter",
    "is_persistable",
    "layers",
    "load",
    "load_inference_model",
    "load_params",
    "load_persistables",
    "load_program",
    "load_vars",
    "nets",
    "one_hot",
    "optimizer",
    "program_guard",
    "regularizer",
    "save",
    "save_inference_model",
    "save_params",
    "save_persistables",
    "save_program",
    "save_vars",
    "scope_guard",
    "unique_name",
]

# What scripts of PaddlePaddle use, and what to use here.
_INSTEAD = {
    "BuildStrategy": "programs are prepared when they run",
    "CUDAPlace": "programs run on the processor: use `CPUPlace`",
    "CompiledProgram": "programs are prepared when they run: run the program itself",
    "DataFeedDesc": "feed arrays to `Executor.run`",
    "ExecutionStrategy": "give the number of threads to `Executor`",
    "ParallelExecutor": "give the number of threads to `Executor`",
    "dygraph": "there are no eager tensors: build a program",
    "metrics": "fetch `layers.accuracy`, or compute metrics with NumPy",
    "name_scope": "names of operators have no scope: give layers a `name`",
    "profiler": "use `Model.session(profile=True)`",
}


def __getattr__(name: str) -> NoReturn:
    what = _INSTEAD.get(name, "`dir(lodstone.program)` lists what there is")
    raise AttributeError(f"there is no {name!r} in lodstone.program; {what}", name=name)
