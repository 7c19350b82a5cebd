"""Writes the golden files of PaddlePaddle 1.8.5, the last release of the `fluid` interface.

    python make_paddle_1_8_5.py OUT_DIR

Its `save` operator has no kernel for bool, float16 and uint8, and the release has no other way
to write a single tensor, so these types are missing here.
"""

import os
import sys

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ["FLAGS_cpu_deterministic"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle.fluid as fluid
from paddle.fluid import core

import facts

facts.fix_hash_seed()

FRAMEWORK = "paddlepaddle==1.8.5"
SCRIPT = os.path.basename(__file__)

layers = fluid.layers
VarType = core.VarDesc.VarType

DTYPES = ("int8", "int16", "int32", "int64", "float32", "float64")

# Sequence lengths, top level first, for a tensor of six rows.
LOD_LENGTHS = {
    "lod1": [[2, 1, 3]],
    "lod2": [[2, 1], [2, 1, 3]],
    "lod3": [[1, 2], [1, 1, 1], [3, 1, 2]],
    "lod1_empty_sequences": [[0, 4, 0, 0, 2, 0]],
}


def run_save(executor, variable, path):
    """Runs a program of one `save` operator; `variable` is what `create_var` takes."""
    program = fluid.Program()
    block = program.global_block()
    saved = block.create_var(persistable=True, **variable)
    block.append_op(type="save", inputs={"X": [saved]}, outputs={}, attrs={"file_path": path})
    executor.run(program)


def save_tensor(index, executor, name, array, lengths=None):
    """Saves one tensor by the operator and records its facts."""
    lod = [facts.offsets_of(level) for level in lengths or []]
    tensor = fluid.global_scope().var(name).get_tensor()
    tensor.set(array, fluid.CPUPlace())
    tensor.set_lod(lod)
    path = "1.8.5/{}.lodtensor".format(name)
    variable = {"name": name, "shape": array.shape, "dtype": array.dtype.name}
    run_save(executor, variable, index.path(path))
    index.add(path, "paddle-tensor", [facts.dense("", array, lod=lod)])


def make_tensor_streams(index, executor):
    for dtype in DTYPES:
        save_tensor(index, executor, dtype, facts.array_of(dtype))
    for name, lengths in LOD_LENGTHS.items():
        save_tensor(index, executor, name, facts.random_floats((6, 4), 11), lengths)
    save_tensor(index, executor, "lod1_int64", facts.array_of("int64", (6, 2)), [[1, 5]])


def make_selected_rows(index, executor):
    for name, rows, height in (("repeated_rows", [7, 0, 4, 7], 10), ("sorted_rows", [1, 2], 3)):
        array = facts.random_floats((len(rows), 3), height)
        value = fluid.global_scope().var(name).get_selected_rows()
        value.set_rows(rows)
        value.set_height(height)
        value.get_tensor().set(array, fluid.CPUPlace())
        path = "1.8.5/{}.selectedrows".format(name)
        variable = {"name": name, "shape": [height, 3], "dtype": "float32"}
        run_save(executor, dict(variable, type=VarType.SELECTED_ROWS), index.path(path))
        index.add(path, "paddle-tensor", [facts.selected_rows("", array, rows, height)])


def held_by(program):
    """Facts of every variable that the save functions write, sorted by name as they sort them."""
    tensors = []
    for variable in program.list_vars():
        if fluid.io.is_persistable(variable) and variable.type != VarType.RAW:
            tensor = fluid.global_scope().find_var(variable.name).get_tensor()
            tensors.append(facts.dense(variable.name, np.array(tensor), lod=tensor.lod()))
    return sorted(tensors, key=lambda entry: entry["name"])


def write_program(index, folder, program):
    """Writes a program with its op_callstack, in binary and in protobuf's text form."""
    operators = facts.operators_of(program)
    binary, text = folder + "program.pb", folder + "program.pbtxt"
    with open(index.path(binary), "wb") as file:
        file.write(program.desc.serialize_to_string())
    with open(index.path(text), "w", encoding="utf-8") as file:
        file.write(program.to_string(throw_on_error=False))
    index.add(binary, "paddle-program", [], operators=operators)
    index.add(text, "paddle-program-text", [], operators=operators)
    return operators


def save_inference(index, executor, folder, feeds, targets, program):
    """Saves an inference model in both of the release's forms.

    `save_inference_model` appends operators to the program that it is given, so each call gets a
    copy, and begins again with numbering, so that both name the output alike.
    """
    separate, combined = folder + "inference", folder + "combined"
    for path, model, params in ((separate, None, None), (combined, "model", "params")):
        copy = program.clone(for_test=True)
        variables = [copy.global_block().var(target.name) for target in targets]
        with fluid.unique_name.guard():
            fluid.io.save_inference_model(
                index.path(path),
                feeds,
                variables,
                executor,
                main_program=copy,
                model_filename=model,
                params_filename=params,
            )
    values = {entry["name"]: entry for entry in held_by(program)}
    with fluid.scope_guard(fluid.Scope()):
        loaded, names, fetched = fluid.io.load_inference_model(index.path(separate), executor)
        stored = [entry["name"] for entry in held_by(loaded)]
    more = {
        "operators": facts.operators_of(loaded),
        "inputs": names,
        "outputs": [variable.name for variable in fetched],
    }
    tensors = [values[name] for name in stored]
    index.add(separate, "paddle-vars", tensors, **more)
    files = [combined + "/model", combined + "/params"]
    index.add(combined, "paddle", tensors, files=files, **more)


def new_programs(seed):
    """A main and a startup program whose initial values depend on `seed` alone."""
    network, startup = fluid.Program(), fluid.Program()
    network.random_seed = startup.random_seed = seed
    return network, startup


def build_lenet():
    """A convolutional classifier; returns (probabilities, loss)."""
    image = fluid.data("image", [None, 1, 12, 12], "float32")
    label = fluid.data("label", [None, 1], "int64")
    hidden = layers.conv2d(image, 4, 3, padding=1)
    hidden = layers.batch_norm(hidden, act="relu")
    hidden = layers.pool2d(hidden, 2, "max", 2)
    hidden = fluid.nets.simple_img_conv_pool(hidden, 6, 3, 2, 2, act="relu")
    hidden = layers.dropout(hidden, 0.3)
    hidden = layers.fc(hidden, 12, act="tanh")
    probabilities = layers.fc(hidden, 10, act="softmax")
    return probabilities, layers.mean(layers.cross_entropy(probabilities, label))


def make_lenet(index, executor):
    """A network after two steps of Momentum: for inference, for training, and its variables."""
    network, startup = new_programs(1)
    with fluid.program_guard(network, startup), fluid.unique_name.guard():
        probabilities, loss = build_lenet()
        inference = network.clone(for_test=True)
        fluid.optimizer.Momentum(0.01, 0.9).minimize(loss)
    executor.run(startup)
    for step in range(2):
        labels = np.random.RandomState(step).randint(0, 10, (8, 1)).astype("int64")
        feed = {"image": facts.random_floats((8, 1, 12, 12), step), "label": labels}
        executor.run(network, feed=feed, fetch_list=[loss])

    folder = "1.8.5/lenet/"
    save_inference(index, executor, folder, ["image"], [probabilities], inference)
    operators = write_program(index, folder, network)
    make_variables(index, executor, folder, network, operators)


def make_variables(index, executor, folder, program, operators):
    """Writes a program's variables one file each, and all in one file beside `program.pb`."""
    tensors = held_by(program)
    variables, combined = folder + "persistables", folder + "persistables.combined"
    fluid.io.save_persistables(executor, index.path(variables), program)
    index.add(variables, "paddle-vars", tensors)
    directory, name = os.path.split(index.path(combined))
    fluid.io.save_persistables(executor, directory, program, filename=name)
    index.add(
        folder + "program.pb",
        "paddle",
        tensors,
        files=[folder + "program.pb", combined],
        params=combined,
        operators=operators,
    )


def make_recurrent(index, executor):
    """A recurrent network over sequences: a loop as a sub-block, and a LoD input."""
    network, startup = new_programs(2)
    with fluid.program_guard(network, startup), fluid.unique_name.guard():
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        embedded = layers.embedding(words, size=[40, 6])
        recurrent = layers.DynamicRNN()
        with recurrent.block():
            word = recurrent.step_input(embedded)
            before = recurrent.memory(shape=[5], value=0.0)
            state = layers.fc([word, before], 5, act="tanh")
            recurrent.update_memory(before, state)
            recurrent.output(state)
        last = layers.sequence_last_step(recurrent())
        pooled = layers.sequence_pool(embedded, "sqrt")
        scores = layers.fc([last, pooled], 2, act="softmax")
    executor.run(startup)
    folder = "1.8.5/recurrent/"
    write_program(index, folder, network)
    save_inference(index, executor, folder, ["words"], [scores], network)


def main(out_dir):
    index = facts.Index(out_dir, SCRIPT, FRAMEWORK)
    executor = fluid.Executor(fluid.CPUPlace())
    make_tensor_streams(index, executor)
    make_selected_rows(index, executor)
    make_lenet(index, executor)
    make_recurrent(index, executor)
    index.write()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
