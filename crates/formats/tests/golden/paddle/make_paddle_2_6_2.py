"""Writes the golden files of PaddlePaddle 2.6.2.

    python make_paddle_2_6_2.py OUT_DIR

Three limits of this release shape the script:

- The `save` operator has no kernel for bool, complex and vocabulary variables. Single tensors
  are therefore written by `core.save_lod_tensor`, which writes the same stream, and a single
  vocabulary by `save_combine` with one input.
- `save_combine` takes vocabularies or tensors, but not both: with a mixed list it treats the
  tensors as vocabularies and crashes (SIGSEGV). `load_combine` does read a file of both, so one is
  concatenated here from records that this release wrote. (Loading also decomposes the tokens to
  Unicode form NFD and drops the empty one; the facts describe the file.)
- `save_as_fp16` truncates float32 to float16 instead of rounding; `truncate_to_half` predicts it.
"""

import os
import sys

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ["FLAGS_cpu_deterministic"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle
from paddle.base import core

import facts

facts.fix_hash_seed()

FRAMEWORK = "paddlepaddle==2.6.2"
SCRIPT = os.path.basename(__file__)

static = paddle.static
functional = paddle.nn.functional
VarType = core.VarDesc.VarType

DTYPES = {
    "bool": VarType.BOOL,
    "int8": VarType.INT8,
    "int16": VarType.INT16,
    "int32": VarType.INT32,
    "int64": VarType.INT64,
    "uint8": VarType.UINT8,
    "float16": VarType.FP16,
    "bfloat16": VarType.BF16,
    "float32": VarType.FP32,
    "float64": VarType.FP64,
    "complex64": VarType.COMPLEX64,
    "complex128": VarType.COMPLEX128,
}

# Sequence lengths, top level first, for a tensor of six rows.
LOD_LENGTHS = {
    "lod1": [[2, 1, 3]],
    "lod2": [[2, 1], [2, 1, 3]],
    "lod3": [[1, 2], [1, 1, 1], [3, 1, 2]],
    "lod1_empty_sequences": [[0, 4, 0, 0, 2, 0]],
    "lod2_empty_sequences": [[0, 3, 0], [0, 6, 0]],
}

# The ids are not dense, one is negative, and the tokens need one to four bytes a character.
# The two spellings of "é", composed and decomposed, are different tokens.
TOKENS = {
    "[PAD]": 0,
    "hello": 1,
    "w\u00f6rld": 2,
    "\u732b": 3,
    "\U0001f600": 2147483647,
    "\u00e9": 7,
    "e\u0301": 8,
    "": 9,
    "##ing": -2147483648,
}


class Variable:
    """A value in the global scope, and the declaration that a `save` operator requires."""

    def __init__(self, name, array, dtype=None, lengths=None):
        self.name = name
        self.array = np.asarray(array)
        self.dtype = dtype or self.array.dtype.name
        self.lod = [facts.offsets_of(level) for level in lengths or []]
        self.kind = VarType.LOD_TENSOR
        tensor = static.global_scope().var(name).get_tensor()
        tensor.set(self.array, paddle.CPUPlace())
        tensor.set_lod(self.lod)

    def tensor(self):
        return static.global_scope().find_var(self.name).get_tensor()

    def facts(self):
        return facts.dense(self.name, self.array, self.dtype, self.lod)

    def declare(self, block):
        return block.create_var(
            name=self.name,
            shape=self.array.shape,
            dtype=DTYPES[self.dtype],
            type=self.kind,
            persistable=True,
        )


class Rows(Variable):
    """A SelectedRows value in the global scope."""

    def __init__(self, name, array, rows, height):
        self.name = name
        self.array = array
        self.dtype = array.dtype.name
        self.rows = rows
        self.height = height
        self.kind = VarType.SELECTED_ROWS
        value = static.global_scope().var(name).get_selected_rows()
        value.set_rows(rows)
        value.set_height(height)
        value.get_tensor().set(array, paddle.CPUPlace())

    def value(self):
        return static.global_scope().find_var(self.name).get_selected_rows()

    def facts(self):
        return facts.selected_rows(self.name, self.array, self.rows, self.height)


class Vocabulary(Variable):
    """A vocabulary in the global scope."""

    def __init__(self, name, tokens):
        self.name = name
        self.tokens = tokens
        static.global_scope().var(name).set_vocab(tokens)

    def facts(self):
        return facts.vocab(self.name, self.tokens)

    def declare(self, block):
        return block.create_var(name=self.name, type=VarType.VOCAB, persistable=True)


def run_save(executor, operator, variables, path, **attributes):
    """Runs a program of one `save` or `save_combine` operator over the variables."""
    program = static.Program()
    block = program.global_block()
    outputs = {}
    if operator == "save_combine":
        outputs = {"Y": block.create_var(name="saved", type=VarType.RAW)}
    block.append_op(
        type=operator,
        inputs={"X": [variable.declare(block) for variable in variables]},
        outputs=outputs,
        attrs=dict(attributes, file_path=path),
    )
    executor.run(program)


def truncate_to_half(array):
    """Converts float32 to float16 by dropping bits, as `save_as_fp16` does on a CPU."""
    half = array.astype("float16")
    too_far = np.abs(half.astype("float32")) > np.abs(array)
    return np.where(too_far, np.nextafter(half, np.float16(0)), half)


def make_dtype_streams(index):
    for dtype in DTYPES:
        variable = Variable("t_" + dtype, facts.array_of(dtype), dtype)
        path = "2.6.2/{}.lodtensor".format(dtype)
        core.save_lod_tensor(variable.tensor(), index.path(path))
        index.add(path, "paddle-tensor", facts.without_names([variable.facts()]))


def make_shape_and_lod_streams(index, executor):
    variables = [
        Variable("scalar", np.asarray(3.5, "float32")),
        Variable("empty_0x4", np.zeros((0, 4), "float32")),
        Variable("rank6", facts.random_floats((1, 2, 1, 3, 1, 2), 4)),
        Variable("one_row", facts.random_floats((1, 300), 5)),
    ]
    for name, lengths in LOD_LENGTHS.items():
        variables.append(Variable(name, facts.random_floats((6, 4), 11), lengths=lengths))
    variables.append(Variable("lod1_int64", facts.array_of("int64", (6, 2)), lengths=[[1, 5]]))
    variables.append(Variable("lod1_no_rows", np.zeros((0, 4), "float32"), lengths=[[0, 0]]))
    for variable in variables:
        path = "2.6.2/{}.lodtensor".format(variable.name)
        run_save(executor, "save", [variable], index.path(path))
        index.add(path, "paddle-tensor", facts.without_names([variable.facts()]))


def make_half_streams(index, executor):
    """`save_as_fp16`: the stream declares float16 although the variable is float32."""
    variables = [Variable("half_{}".format(i), facts.random_floats((4, 4), i)) for i in range(3)]
    tensors = [facts.dense("", truncate_to_half(variable.array)) for variable in variables]
    single, combined = "2.6.2/save_as_fp16.lodtensor", "2.6.2/save_as_fp16.combined"
    run_save(executor, "save", variables[:1], index.path(single), save_as_fp16=True)
    index.add(single, "paddle-tensor", tensors[:1])
    run_save(executor, "save_combine", variables, index.path(combined), save_as_fp16=True)
    index.add(combined, "paddle-params", tensors)


def make_selected_rows(index, executor):
    variables = [
        Rows("repeated_rows", facts.random_floats((4, 3), 3), [7, 0, 4, 7], 10),
        Rows("rows_float64", facts.array_of("float64", (2, 5)), [1, 0], 2),
        Rows("many_rows", facts.random_floats((40, 1), 6), list(range(39, -1, -1)), 2**40),
        Rows("no_rows", np.zeros((0, 3), "float32"), [], 10),
    ]
    for variable in variables:
        path = "2.6.2/{}.selectedrows".format(variable.name)
        if variable.rows:
            run_save(executor, "save", [variable], index.path(path))
        else:
            core.save_selected_rows(variable.value(), index.path(path))
        index.add(path, "paddle-tensor", facts.without_names([variable.facts()]))


def make_vocabularies(index, executor):
    tokens = Vocabulary("tokens", TOKENS)
    empty = Vocabulary("empty", {})
    single, several = "2.6.2/tokens.vocab", "2.6.2/vocabularies.combined"
    run_save(executor, "save_combine", [tokens], index.path(single))
    index.add(single, "paddle-tensor", facts.without_names([tokens.facts()]))
    run_save(executor, "save_combine", [empty, tokens], index.path(several))
    index.add(several, "paddle-params", facts.without_names([empty.facts(), tokens.facts()]))

    before = Variable("a", facts.array_of("float32", (2, 4)))
    after = Variable("z", facts.random_floats((6, 2), 8), lengths=[[4, 2]])
    parts = [index.path("2.6.2/" + name) for name in ("before.part", "after.part")]
    run_save(executor, "save", [before], parts[0])
    run_save(executor, "save", [after], parts[1])
    joined = "2.6.2/tensors_and_vocabulary.combined"
    join_files([parts[0], index.path(single), parts[1]], index.path(joined))
    for part in parts:
        os.remove(part)
    records = [before.facts(), tokens.facts(), after.facts()]
    index.add(joined, "paddle-params", facts.without_names(records))


def join_files(parts, path):
    """Concatenates files."""
    with open(path, "wb") as out:
        for part in parts:
            with open(part, "rb") as file:
                out.write(file.read())


def make_combined(index, executor):
    """One file with every element type, shape and LoD depth, and one with many small tensors."""
    mixed = [Variable("c_" + dtype, facts.array_of(dtype), dtype) for dtype in DTYPES]
    mixed.append(Variable("c_scalar", np.asarray(-2, "int64")))
    mixed.append(Variable("c_empty", np.zeros((3, 0, 2), "float64")))
    for name, lengths in LOD_LENGTHS.items():
        mixed.append(Variable("c_" + name, facts.random_floats((6, 2), 9), lengths=lengths))
    many = []
    for number in range(32):
        shape = (number % 5 + 1, number % 3 + 2)
        array = facts.random_floats(shape, number)
        if number % 4 == 3:
            array = facts.array_of("int32", (4, 3), number)
        many.append(Variable("many_{:02d}".format(number), array))
    for path, variables in (("2.6.2/mixed.combined", mixed), ("2.6.2/many.combined", many)):
        run_save(executor, "save_combine", variables, index.path(path))
        tensors = [variable.facts() for variable in variables]
        index.add(path, "paddle-params", facts.without_names(tensors))


def held_by(program):
    """Facts of every variable that `save_vars` writes, sorted by name as it sorts them."""
    tensors = []
    for variable in program.list_vars():
        if static.io.is_persistable(variable) and variable.type != VarType.RAW:
            tensor = static.global_scope().find_var(variable.name).get_tensor()
            tensors.append(facts.dense(variable.name, np.array(tensor), lod=tensor.lod()))
    return sorted(tensors, key=lambda entry: entry["name"])


def write_program(index, path, program):
    """Writes a program without cleaning it: op_callstack stays."""
    with open(index.path(path), "wb") as file:
        file.write(program.desc.serialize_to_string())
    operators = facts.operators_of(program)
    index.add(path, "paddle-program", [], operators=operators)
    return operators


def save_inference(index, executor, prefix, feeds, fetches, program, open_as=None):
    """Saves an inference model and records the variables that a load into an empty scope finds."""
    names = [variable.name for variable in feeds]
    static.save_inference_model(index.path(prefix), feeds, fetches, executor, program=program)
    with static.scope_guard(static.Scope()):
        loaded, _, targets = static.load_inference_model(index.path(prefix), executor)
        stored = [entry["name"] for entry in held_by(loaded)]
    tensors = [entry for entry in held_by(program) if entry["name"] in stored]
    index.add(
        open_as or prefix,
        "paddle",
        tensors,
        files=[prefix + ".pdmodel", prefix + ".pdiparams"],
        operators=facts.operators_of(loaded),
        inputs=names,
        outputs=[target.name for target in targets],
    )


def new_programs(seed):
    """A main and a startup program whose initial values depend on `seed` alone."""
    network, startup = static.Program(), static.Program()
    network.random_seed = startup.random_seed = seed
    return network, startup


def build_lenet():
    """A convolutional classifier; returns (image, probabilities, loss)."""
    image = static.data("image", [None, 1, 12, 12], "float32")
    label = static.data("label", [None, 1], "int64")
    hidden = static.nn.conv2d(image, 4, 3, padding=1, bias_attr=False)
    hidden = static.nn.batch_norm(hidden, act="relu")
    hidden = functional.max_pool2d(hidden, 2, 2)
    hidden = static.nn.conv2d(hidden, 6, 3, act="relu")
    hidden = functional.avg_pool2d(hidden, 2, 2)
    hidden = functional.dropout(hidden, 0.3)
    hidden = static.nn.fc(hidden, 12, activation="tanh")
    probabilities = static.nn.fc(hidden, 10, activation="softmax")
    loss = functional.cross_entropy(probabilities, label, use_softmax=False)
    return image, probabilities, paddle.mean(loss)


def make_lenet(index, executor):
    """A network after two steps of Adam: for inference, for training, and its variables."""
    network, startup = new_programs(1)
    with static.program_guard(network, startup), paddle.utils.unique_name.guard():
        image, probabilities, loss = build_lenet()
        paddle.optimizer.Adam(0.001).minimize(loss)
    executor.run(startup)
    for step in range(2):
        labels = np.random.RandomState(step).randint(0, 10, (8, 1)).astype("int64")
        feed = {"image": facts.random_floats((8, 1, 12, 12), step), "label": labels}
        executor.run(network, feed=feed, fetch_list=[loss])

    folder = "2.6.2/lenet/"
    save_inference(index, executor, folder + "inference/lenet", [image], [probabilities], network)
    operators = write_program(index, folder + "train.pb", network)
    write_program(index, folder + "startup.pb", startup)
    make_variables(index, executor, folder, network, operators)
    make_saved(index, folder + "saved/lenet", network, operators)


def make_saved(index, prefix, program, operators):
    """What `static.save` writes: a program that trains, and its variables in two pickles."""
    static.save(program, index.path(prefix))
    held = {entry["name"]: entry for entry in held_by(program)}
    variables = list(program.list_vars())
    kinds = (static.io.is_parameter, static.io.is_belong_to_optimizer)
    tensors = [held[v.name] for kind in kinds for v in variables if kind(v)]
    files = [prefix + ending for ending in (".pdmodel", ".pdparams", ".pdopt")]
    index.add(prefix, "paddle-save", tensors, files=files, operators=operators)


def make_variables(index, executor, folder, program, operators):
    """Writes a program's variables one file each, and all in one file beside `train.pb`."""
    tensors = held_by(program)
    keep = static.io.is_persistable
    variables, combined = folder + "persistables", folder + "persistables.combined"
    static.save_vars(executor, index.path(variables), program, predicate=keep)
    index.add(variables, "paddle-vars", tensors)
    directory, name = os.path.split(index.path(combined))
    static.save_vars(executor, directory, program, predicate=keep, filename=name)
    index.add(combined, "paddle-params", facts.without_names(tensors))
    index.add(
        folder + "train.pb",
        "paddle",
        tensors,
        files=[folder + "train.pb", combined],
        params=combined,
        operators=operators,
    )


def make_control_flow(index, executor):
    """A loop and a branch, both as sub-blocks, for inference and with their gradients."""
    network, startup = new_programs(2)
    with static.program_guard(network, startup), paddle.utils.unique_name.guard():
        start = static.data("start", [4], "float32")
        weight = static.create_parameter([4], "float32", name="weight")
        counter = paddle.full([1], 0, "int64")
        limit = paddle.full([1], 5, "int64")
        _, looped = static.nn.while_loop(
            lambda step, value: step < limit,
            lambda step, value: [step + 1, value * 0.5 + weight],
            [counter, start],
        )
        result = static.nn.cond(
            paddle.mean(looped) > 0, lambda: looped + weight, lambda: looped - 1
        )
        inference = network.clone(for_test=True)
        paddle.optimizer.SGD(0.1).minimize(paddle.mean(result))
    executor.run(startup)
    folder = "2.6.2/control_flow/"
    write_program(index, folder + "train.pb", network)
    result = inference.global_block().var(result.name)
    save_inference(
        index, executor, folder + "inference/inference", [start], [result], inference,
        open_as=folder + "inference",
    )


def make_text(index, executor):
    """A classifier of word sequences: a LoD input, an embedding and sequence poolings."""
    network, startup = new_programs(3)
    sequence = static.nn.sequence_lod
    with static.program_guard(network, startup), paddle.utils.unique_name.guard():
        words = static.data("words", [None, 1], "int64", lod_level=1)
        weights = static.data("weights", [None, 1], "float32", lod_level=1)
        embedded = static.nn.embedding(words, size=[50, 8], is_sparse=True)
        embedded = paddle.reshape(embedded, [-1, 8])
        pooled = [
            sequence.sequence_pool(embedded, "max"),
            sequence.sequence_pool(weights, "average"),
        ]
        scores = static.nn.fc(pooled, 3, activation="softmax")
        best = paddle.argmax(scores, axis=1)
    executor.run(startup)
    save_inference(
        index, executor, "2.6.2/text/text", [words, weights], [scores, best], network,
        open_as="2.6.2/text/text.pdmodel",
    )


# Values of every type of attribute, as (name, type in the file, setter, value). The setters are
# those of the C++ description of an operator: Python code of this release never writes some types.
ATTRIBUTES = (
    ("an_int", "INT", "_set_int32_attr", -(2**31)),
    ("a_long", "LONG", "_set_int64_attr", -(2**63)),
    ("a_float", "FLOAT", "_set_float32_attr", 0.25),
    ("a_float64", "FLOAT64", "_set_float64_attr", 0.1),
    ("a_boolean", "BOOLEAN", "_set_bool_attr", True),
    ("a_string", "STRING", "_set_str_attr", "\u732b \"quoted\"\n"),
    ("ints", "INTS", "_set_int32s_attr", [1, -1, 2**31 - 1]),
    ("longs", "LONGS", "_set_int64s_attr", [2**40, -1]),
    ("floats", "FLOATS", "_set_float32s_attr", [1.5, -0.125]),
    ("float64s", "FLOAT64S", "_set_float64s_attr", [0.1, -2.5e300]),
    ("booleans", "BOOLEANS", "_set_bools_attr", [True, False, True]),
    ("strings", "STRINGS", "_set_strs_attr", ["first", "", "third"]),
    ("no_longs", "LONGS", "_set_int64s_attr", []),
    ("scalar", "SCALAR", "_set_scalar_attr", 2.5),
    ("scalars", "SCALARS", "_set_scalars_attr", [7, True, -0.5, 1 - 2j]),
)


def make_attributes(index):
    """A program with every type of attribute, and the attributes of one of its operators.

    The operator cannot run; only its stored form matters here.
    """
    network, startup = new_programs(4)
    with static.program_guard(network, startup), paddle.utils.unique_name.guard():
        image = static.data("image", [2, 3, 8, 8], "float32")
        size = paddle.full([1], 4, "int32")
        rate = paddle.full([1], 0.5, "float32")
        pooled = functional.adaptive_avg_pool2d(image, [size, size])
        dropped = functional.dropout(pooled, p=rate)
        paddle.assign(np.array([2**40, -1], "int64"))
        operator = paddle.scale(dropped, 2.0).op
        blocks = [network._create_block(parent_idx=0).desc for _ in range(2)]
    values = set_attributes(operator, size, rate, blocks)
    place = [0, len(network.global_block().ops) - 1]
    with open(index.path("2.6.2/attributes.pb"), "wb") as file:
        file.write(network.desc.serialize_to_string())
    index.add(
        "2.6.2/attributes.pb",
        "paddle-program",
        [],
        operators=facts.operators_of(network),
        attributes={"operator": place, "values": values},
    )


def set_attributes(operator, first, second, blocks):
    """Sets an attribute of every type; returns their types and values by name."""
    description = operator.desc
    values = {}
    for name, kind, setter, value in ATTRIBUTES:
        getattr(description, setter)(name, value)
        values[name] = [kind, value]
    values["scalars"][1][-1] = {"real": 1.0, "imag": -2.0}
    description.set_serialized_attr("bytes", b"\xff\x00\xfe")
    values["bytes"] = ["STRING", {"hex": "ff00fe"}]
    description.set_block_attr("block", blocks[1])
    values["block"] = ["BLOCK", blocks[1].id]
    description.set_blocks_attr("blocks", blocks)
    values["blocks"] = ["BLOCKS", [block.id for block in blocks]]
    description.set_var_attr("variable", first.desc)
    values["variable"] = ["VAR", first.name]
    description.set_vars_attr("variables", [first.desc, second.desc])
    values["variables"] = ["VARS", [first.name, second.name]]
    return values


def main(out_dir):
    paddle.enable_static()
    index = facts.Index(out_dir, SCRIPT, FRAMEWORK)
    executor = static.Executor(paddle.CPUPlace())
    make_dtype_streams(index)
    make_shape_and_lod_streams(index, executor)
    make_half_streams(index, executor)
    make_selected_rows(index, executor)
    make_vocabularies(index, executor)
    make_combined(index, executor)
    make_lenet(index, executor)
    make_control_flow(index, executor)
    make_text(index, executor)
    make_attributes(index)
    index.write()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
