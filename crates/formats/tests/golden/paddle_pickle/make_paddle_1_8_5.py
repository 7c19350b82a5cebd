"""Writes the pickles of PaddlePaddle 1.8.5: `fluid.save`, `save_dygraph`.

    python make_paddle_1_8_5.py OUT_DIR
"""

import os
import sys

os.environ.setdefault("GLOG_minloglevel", "2")

import numpy as np
import paddle.fluid as fluid

import objects
from objects import facts

facts.fix_hash_seed()

FRAMEWORK = "paddlepaddle==1.8.5"
SCRIPT = os.path.basename(__file__)


def make_static(index):
    """A program with its parameters and the state of its optimizer, each in a pickle."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 4])
        loss = fluid.layers.mean(fluid.layers.fc(x, 3))
        fluid.optimizer.Adam(0.01).minimize(loss)
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(startup)
    scope = fluid.global_scope()
    persistable = [v for v in main.list_vars() if v.persistable and v.type == v.type.LOD_TENSOR]
    arrays = {}
    for number, variable in enumerate(sorted(persistable, key=lambda v: v.name)):
        tensor = scope.find_var(variable.name).get_tensor()
        array = facts.random_floats(tuple(tensor.shape()), number).astype(np.array(tensor).dtype)
        tensor.set(array, fluid.CPUPlace())
        arrays[variable.name] = array
    fluid.save(main, index.path("1.8.5/static/m"))
    # The program holds the path of this script; only the pickles are kept.
    os.remove(index.path("1.8.5/static/m.pdmodel"))
    is_parameter = {v.name: isinstance(v, fluid.framework.Parameter) for v in persistable}
    order = [v.name for v in main.list_vars() if v.name in arrays]
    for extension, wanted in [("pdparams", True), ("pdopt", False)]:
        path = "1.8.5/static/m." + extension
        chosen = {name: arrays[name] for name in order if is_parameter[name] == wanted}
        index.add(path, objects.FORMAT, objects.tensors_of(chosen), any_order=True)


def make_dygraph(index):
    with fluid.dygraph.guard():
        layer = fluid.dygraph.Linear(4, 3)
        arrays = {"weight": facts.random_floats((4, 3), 1), "bias": facts.random_floats((3,), 2)}
        table = {}
        for name, parameter in layer.named_parameters():
            parameter.set_value(arrays[name])
            table[name] = parameter.name
        fluid.save_dygraph(layer.state_dict(), index.path("1.8.5/dygraph"))
        metadata = {"StructuredToParameterName@@": table}
        path = "1.8.5/dygraph.pdparams"
        index.add(path, objects.FORMAT, objects.tensors_of(arrays), metadata=metadata)


def main(out_dir):
    index = facts.Index(out_dir, SCRIPT, FRAMEWORK)
    make_static(index)
    make_dygraph(index)
    index.write()


if __name__ == "__main__":
    main(sys.argv[1])
