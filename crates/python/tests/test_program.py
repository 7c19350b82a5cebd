"""Building, editing and running programs."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import GOLDEN, ROOT

import lodstone
from lodstone.program import (
    DataFeeder,
    Executor,
    Network,
    ParamAttr,
    Program,
    Scope,
    append_backward,
    clip,
    create_lod_tensor,
    default_main_program,
    embedding,
    gradients,
    initializer,
    layers,
    load_inference_model,
    load_params,
    load_persistables,
    load_program,
    nets,
    optimizer,
    program_guard,
    regularizer,
    save_inference_model,
    save_params,
    save_persistables,
    save_program,
    scope_guard,
    unique_name,
)
from lodstone.program import data as fluid_data

ONES = np.ones((2, 4), np.float32)


def appended(attrs):
    """Appends a softmax with attributes."""
    x = layers.data("x", [4])
    return x.block.append_op("softmax", {"X": x}, {"Out": "y"}, attrs)


def regression():
    """A network of one layer and its loss."""
    with Network() as net:
        loss = layers.mean(layers.fc(layers.data("x", [4]), 3))
    return net, loss


def test_programs_are_built_with_guards():
    main, startup = Program(), Program()
    with program_guard(main, startup), unique_name.guard():
        assert default_main_program() is main
        y = layers.fc(layers.data("x", [4]), 2, act="relu", name="hidden")
    assert default_main_program() is not main
    assert (y.shape, y.dtype, y.lod_level, y.persistable, y.stop_gradient) == ((-1, 2), "float32", 0, False, False)
    assert [parameter.name for parameter in main.all_parameters()] == ["hidden.w_0", "hidden.b_0"]
    assert {op.type for op in startup.global_block().ops} == {"uniform_random", "fill_constant"}
    assert y.op.type == "relu" and y.block == main.global_block()


def test_a_test_program_shares_parameters_in_unique_names():
    startup, programs = Program(), [Program(), Program()]
    for program in programs:
        with program_guard(program, startup), unique_name.guard():
            out = layers.fc(layers.data("x", [4]), 2)
    assert len(startup.global_block().ops) == 2
    executor, scope = Executor(), Scope()
    executor.run(startup, scope=scope)
    first, second = (executor.run(program, {"x": ONES}, [out.name], scope=scope)[0] for program in programs)
    np.testing.assert_array_equal(first, second)
    # With other dims, it would be another parameter of the same name.
    with program_guard(Program(), startup), unique_name.guard(), pytest.raises(lodstone.ProgramError, match="fc_0.w_0"):
        layers.fc(layers.data("x", [5]), 2)


def test_networks_continue_programs_from_files():
    model = lodstone.open(ROOT / "examples/digits/paddle")
    program, feeds, fetches = load_inference_model(ROOT / "examples/digits/paddle", scope=Scope())
    assert feeds == ["image"] and len(fetches) == 1
    before = {var.name for var in program.list_vars()}
    with Network(program) as net:
        more = layers.fc(fetches[0], 3)
    assert more.name not in before and not {var.name for var in net.main.all_parameters()} - before - {"fc_1.w_0", "fc_1.b_0"}
    scope = Scope()
    for name, value in model.items():
        scope[name] = value
    executor = Executor()
    executor.run(net.startup, scope=scope)
    images = np.asarray(lodstone.open(ROOT / "examples/digits/test.npz")["images"])[:4]
    assert executor.run(net.main, {"image": images}, [more], scope=scope)[0].shape == (4, 3)


def test_blocks_variables_and_operators_are_edited():
    program = Program()
    block = program.global_block()
    x = block.create_var("x", shape=[-1, 4], need_check_feed=True, stop_gradient=True)
    block.append_op("scale", {"X": x}, {"Out": "y"}, {"scale": 2.0})
    block.append_op("relu", {"X": "y"}, {"Out": "z"})
    scale, relu = block.ops
    assert (scale.type, scale.inputs, scale.outputs) == ("scale", {"X": ["x"]}, {"Out": ["y"]})
    assert (scale.attr("scale"), scale.has_attr("bias"), scale.attr("bias")) == (2.0, True, 0.0)
    block.create_var("w", shape=[-1, 4])
    inserted = block.insert_op(1, "square", {"X": "y"}, {"Out": "w"})
    # `relu` has moved, and is still the same operator.
    relu.set_input("X", "w")
    assert (inserted.idx, relu.idx) == (1, 2)
    scale.set_attr("scale", 3)
    values = np.array([[1, -2, 3, 0]], np.float32)
    assert Executor().run(program, {"x": values}, ["z"])[0].tolist() == [[9.0, 36.0, 81.0, 0.0]]
    block.remove_op(1)
    with pytest.raises(LookupError, match="removed"):
        inserted.set_attr("op_device", "cpu")
    relu.set_input("X", ["y"])
    block.remove_var("w")
    assert relu.idx == 1 and block.rename_var("z", "out").name == "out"
    assert block.ops[1].output("Out") == ["out"]
    x.persistable = True
    assert block.var("x").persistable and "persistable: true" in program.to_string()
    assert repr(program) == "<lodstone.Program 1 block, 2 operators, 3 variables>"


def test_programs_are_read_and_written(tmp_path):
    net, loss = regression()
    optimizer.Adam().minimize(loss, net.startup)
    again = Program.parse_from_string(net.main.to_bytes())
    assert again.to_bytes() == net.main.to_bytes() and str(again) == str(net.main)
    assert Program.parse_from_string(str(net.main)).to_bytes() == net.main.to_bytes()
    for text in (False, True):
        save_program(net.main, tmp_path / f"{text}", text=text)
        assert load_program(tmp_path / f"{text}").to_bytes() == net.main.to_bytes()
    test = net.main.clone(for_test=True)
    assert {"adam", "mul_grad"} & {op.type for op in test.global_block().ops} == set()
    pruned = net.main.prune([loss.name])
    assert [op.type for op in pruned.global_block().ops] == ["mul", "elementwise_add", "reduce_mean"]


def test_programs_of_every_release_are_read_unchanged():
    for path in sorted((GOLDEN / "paddle").rglob("__model__")):
        program = Program.parse_from_string(path.read_bytes())
        assert program.to_bytes() == path.read_bytes()
        for block in program.blocks:
            for op in block.ops:
                assert set(op.attrs) == set(op.attr_names)
            assert {repr(var) for var in block.vars.values()} is not None


def test_gradients_are_appended():
    with Network() as net:
        x = layers.data("x", [2], append_batch_size=False, stop_gradient=False)
        y = layers.reduce_sum(x * x)
        (dx,) = gradients(y, x)
    values = np.array([3, -4], np.float32)
    assert Executor().run(net.main, {"x": values}, [dx])[0].tolist() == [6.0, -8.0]
    net, loss = regression()
    pairs = append_backward(loss, parameter_list=["fc_0.w_0"])
    assert [(a.name, b.name) for a, b in pairs] == [("fc_0.w_0", "fc_0.w_0@GRAD")]


@pytest.mark.parametrize(
    "rule",
    [
        optimizer.SGD(0.1),
        optimizer.Momentum(0.1, use_nesterov=True),
        optimizer.Adagrad(0.1),
        optimizer.Adam(0.1, lazy_mode=True),
        optimizer.AdamW(0.1),
        optimizer.RMSProp(0.1, centered=True),
        optimizer.Lamb(0.1),
        optimizer.Adamax(0.1),
        optimizer.Adadelta(0.05, 0.1),
        optimizer.DecayedAdagrad(0.1),
        optimizer.Ftrl(0.5, l1=0.01, l2=0.01),
        optimizer.LarsMomentum(0.5, 0.5, lars_coeff=0.1),
        optimizer.Dpsgd(0.1, clip=10.0, batch_size=16.0, sigma=0.01),
        optimizer.SGD(0.1, None, regularizer.L2Decay(0.1), clip.GradientClipByGlobalNorm(0.5)),
        optimizer.SGD(0.1, None, regularizer.L1Decay(0.1), clip.GradientClipByNorm(0.5)),
        optimizer.SGD(0.1, grad_clip=clip.GradientClipByValue(0.1)),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_optimizers_decrease_the_loss(rule):
    with Network() as net:
        x, y = layers.data("x", [4]), layers.data("y", [1])
        loss = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
        operators, pairs = rule.minimize(loss)
    assert operators and [parameter.name for parameter, _ in pairs] == ["fc_0.w_0", "fc_0.b_0"]
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    feed = {"x": ONES, "y": np.zeros((2, 1), np.float32)}
    losses = [float(executor.run(net.main, feed, loss, scope=scope)[0]) for _ in range(5)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "rule",
    [
        optimizer.Adamax(0.1),
        optimizer.Adadelta(0.05, 0.1),
        optimizer.DecayedAdagrad(0.1),
        optimizer.Ftrl(0.5, l1=0.01, l2=0.01),
        optimizer.LarsMomentum(0.5, 0.5, lars_coeff=0.1),
        optimizer.Dpsgd(0.1, clip=10.0, batch_size=16.0, sigma=0.01, seed=7),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_optimizers_resume_where_their_variables_were_saved(rule, tmp_path):
    with Network() as net:
        x, y = layers.data("x", [4]), layers.data("y", [1])
        loss = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
        rule.minimize(loss)
    executor, scope, other = Executor(), Scope(), Scope()
    executor.run(net.startup, scope=scope)

    def steps(scope):
        return [executor.run(net.main, {"x": ONES, "y": ONES[:, :1]}, loss, scope=scope)[0].tobytes() for _ in range(3)]

    steps(scope)
    with scope_guard(scope):
        save_persistables(executor, tmp_path, net.main)
    with scope_guard(other):
        load_persistables(executor, tmp_path, net.main)
    assert steps(scope) == steps(other)


SENTENCES = create_lod_tensor(np.linspace(-1, 1, 28, dtype=np.float32).reshape(7, 4), [[3, 1, 3]])
TAGS = create_lod_tensor(np.array([[1], [0], [2], [2], [1], [1], [0]], np.int64), [[3, 1, 3]])


def tagged(x, tags):
    return layers.linear_chain_crf(layers.fc(x, 3), tags)


def transcribed(x, tags):
    labels = layers.cast(layers.sequence_slice(tags, *(layers.fill_constant([3, 1], "int64", at) for at in (0, 1))), "int32")
    return layers.warpctc(layers.fc(x, 4), labels, blank=3)


def stepped(x, tags):
    rnn = layers.DynamicRNN()
    with rnn.block():
        step, state = rnn.step_input(x), rnn.memory(shape=[5], value=0.5)
        new = layers.fc([step, state], 5, act="tanh")
        rnn.update_memory(state, new)
        rnn.output(new)
    return layers.softmax_with_cross_entropy(layers.fc(rnn(), 3), tags)


def branched(x, tags):
    y = layers.fc(layers.sequence_pool(x, "sum"), 1)
    first = layers.sequence_first_step(layers.cast(tags, "float32"))
    branches = layers.IfElse(layers.less_than(first, layers.fill_constant([3, 1], "float32", 1.5)))
    with branches.true_block():
        branches.output(layers.square(branches.input(y)))
    with branches.false_block():
        branches.output(layers.square(layers.scale(branches.input(y), 1.0, 1.0)))
    return branches()[0]


def rearranged(x, tags):
    one, other = layers.fc(x, 2), layers.row_conv(x, 2)
    both = layers.sequence_reverse(layers.sequence_concat([one, layers.sequence_reshape(other, 2)]))
    padded, length = layers.sequence_pad(both, layers.fill_constant([1], "float32", 0.0))
    rows = layers.sequence_unpad(layers.scale(padded, 2.0), length)
    means = layers.sequence_expand_as(layers.sequence_pool(rows, "average"), x)
    return layers.square(layers.lod_reset(means, x))


@pytest.mark.parametrize("loss_of", [tagged, transcribed, stepped, branched, rearranged], ids=lambda one: one.__name__)
def test_models_of_sequences_are_trained(loss_of):
    with Network() as net:
        x = layers.data("x", [-1, 4], append_batch_size=False, lod_level=1)
        tags = layers.data("tags", [-1, 1], append_batch_size=False, dtype="int64", lod_level=1)
        loss = layers.mean(loss_of(x, tags))
        optimizer.Adamax(0.05).minimize(loss)
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    losses = [float(executor.run(net.main, {"x": SENTENCES, "tags": TAGS}, loss, scope=scope)[0]) for _ in range(8)]
    assert all(later < earlier for earlier, later in zip(losses, losses[1:], strict=False))


def test_misused_loops_and_branches_are_named():
    with Network():
        x = layers.data("x", [4], lod_level=1)
        rnn = layers.DynamicRNN()
        with pytest.raises(ValueError, match="step_input can only be called in the block"):
            rnn.step_input(x)
        with pytest.raises(ValueError, match="results of an RNN exist after its block"):
            rnn()
        with pytest.raises(ValueError, match="needs a step_input"), rnn.block():
            pass
        rnn = layers.DynamicRNN()
        with pytest.raises(ValueError, match="is no memory of this RNN"), rnn.block():
            rnn.update_memory(rnn.step_input(x), x)
        branches = layers.IfElse(layers.less_than(x, x))
        with pytest.raises(ValueError, match="input can only be called in a block"):
            branches.input(x)
        with pytest.raises(ValueError, match="a branch needs an output"), branches.true_block():
            pass
        with pytest.raises(ValueError, match="need a true_block or a false_block"):
            branches()


def test_parameters_are_configured():
    with Network() as net:
        x = layers.data("x", [2])
        fixed = ParamAttr("fixed", initializer.Constant(2.0), trainable=False)
        slow = ParamAttr("slow", initializer.Constant(1.0), learning_rate=0.5, regularizer=regularizer.L2Decay(1.0))
        hidden = layers.fc(x, 2, param_attr=fixed, bias_attr=False)
        loss = layers.mean(layers.fc(hidden, 1, param_attr=slow, bias_attr=ParamAttr("bias")))
        optimizer.SGD(0.1).minimize(loss)
    assert not net.main.global_block().var("fixed").trainable
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    executor.run(net.main, {"x": np.ones((1, 2), np.float32)}, scope=scope)
    assert np.asarray(scope["fixed"]).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    # The gradient is 4, the weight decay 1, the learning rate a half of 0.1.
    np.testing.assert_allclose(np.asarray(scope["slow"]), [[0.75], [0.75]], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(scope["bias"]), [-0.1], rtol=1e-6)


def test_initializers_fill_parameters():
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    kinds = [
        initializer.Constant(1.5),
        initializer.Uniform(-2, 2, seed=3),
        initializer.Normal(1, 0.1, seed=3),
        initializer.TruncatedNormal(0, 1, seed=3),
        initializer.Xavier(),
        initializer.Xavier(uniform=False),
        initializer.MSRA(),
        initializer.MSRA(uniform=False),
        initializer.NumpyArrayInitializer(given),
    ]
    with Network() as net:
        for number, kind in enumerate(kinds):
            layers.create_parameter([2, 3], "float32", f"w{number}", default_initializer=kind)
        layers.create_parameter([1, 1, 4, 4], "float32", "up", attr=initializer.Bilinear())
        layers.create_global_var([1], 7, "int64", persistable=True, name="counter")
    scope = Scope()
    Executor().run(net.startup, scope=scope)
    assert np.asarray(scope["w0"]).tolist() == [[1.5] * 3] * 2 and np.asarray(scope["counter"]).tolist() == [7]
    np.testing.assert_array_equal(np.asarray(scope["w8"]), given)
    assert all(np.asarray(scope[f"w{number}"]).std() > 0 for number in range(1, 8))


def test_sequences_are_fed_with_their_lod():
    with Network() as net:
        words = layers.data("words", [1], dtype="int64", lod_level=1)
        table = layers.embedding(words, [10, 3], param_attr=ParamAttr("table"))
        pooled = layers.sequence_pool(table, "sum")
        other = embedding(fluid_data("ids", [None, 5], "int64"), [10, 3], param_attr=ParamAttr("table"))
    assert (table.lod_level, pooled.lod_level) == (1, 0) and other.shape == (-1, 5, 3)
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    ids = np.array([[1], [2], [3]], np.int64)
    feed = {"words": create_lod_tensor(ids, [[1, 2]]), "ids": np.zeros((1, 5), np.int64)}
    rows, sums = executor.run(net.main, feed, [table, pooled], scope=scope, return_numpy=False)
    assert rows.lod == [[0, 1, 3]] and sums.shape == (2, 3)
    weights = np.asarray(scope["table"])
    np.testing.assert_allclose(np.asarray(sums), [weights[1], weights[2] + weights[3]], rtol=1e-6)


def test_arrays_become_tensors():
    with Network() as net:
        zero, one = (layers.fill_constant([1], "int64", value) for value in (0, 1))
        array = layers.create_array("float32")
        layers.array_write(layers.ones([2, 3]), zero, array)
        layers.array_write(layers.zeros([2, 3]), one, array)
        joined, _ = layers.tensor_array_to_tensor(array, axis=0)
        out = layers.create_tensor("float32")
        layers.assign(joined, out)
    assert Executor().run(net.main, fetch_list=[out])[0].shape == (4, 3)


def test_scopes_are_mappings():
    scope = Scope()
    scope["x"] = ONES
    scope["y"] = lodstone.open(ROOT / "examples/digits/paddle")["fc_0.b_0"]
    assert list(scope) == ["x", "y"] and len(scope) == 2 and "x" in scope and 3 not in scope
    scope.find_var("x").get_tensor().set(np.zeros(3, np.int64))
    assert np.asarray(scope.find_var("x").get_tensor()).tolist() == [0, 0, 0] and scope.find_var("z") is None
    del scope["x"]
    with pytest.raises(KeyError, match="'x'"):
        scope["x"]
    with pytest.raises(KeyError):
        del scope["x"]


def test_values_in_a_scope_do_not_share_memory_with_arrays():
    values, scope = ONES.copy(), Scope()
    scope["x"] = values
    values[:] = 7
    assert np.asarray(scope["x"]).tolist() == ONES.tolist()
    with Network() as net:
        x = layers.data("x", [4])
        kept = layers.create_global_var([2, 4], 0.0, "float32", persistable=True, name="kept")
        layers.assign(x, kept)
    values = ONES.copy()
    Executor().run(net.main, {"x": values}, scope=scope)
    values[:] = 7
    assert np.asarray(scope["kept"]).tolist() == ONES.tolist()


def test_variables_are_saved_and_loaded_now(tmp_path):
    net, _ = regression()
    executor, scope, other = Executor(), Scope(), Scope()
    executor.run(net.startup, scope=scope)
    for save, load, file in (
        (save_params, load_params, None),
        (save_persistables, load_persistables, "all"),
    ):
        directory = tmp_path / f"{file}"
        with scope_guard(scope):
            save(executor, directory, net.main, file)
        with scope_guard(other):
            load(executor, directory, net.main, file)
        assert sorted(os.listdir(directory)) == ([file] if file else ["fc_0.b_0", "fc_0.w_0"])
        for name in ("fc_0.b_0", "fc_0.w_0"):
            np.testing.assert_array_equal(np.asarray(scope[name]), np.asarray(other[name]))


@pytest.mark.parametrize("files", [(None, None), ("net", "weights")])
def test_inference_models_are_saved_and_loaded(tmp_path, files):
    net, loss = regression()
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    wanted = executor.run(net.main, {"x": ONES}, loss, scope=scope)[0]
    with scope_guard(scope):
        save_inference_model(tmp_path / "model", ["x"], [loss], executor, net.main, *files)
    with scope_guard(Scope()):
        program, feeds, fetches = load_inference_model(tmp_path / "model", executor, *files)
        assert feeds == ["x"] and executor.run(program, {"x": ONES}, fetches)[0] == wanted
        # The program has fetch operators of its own.
        assert executor.run(program, {"x": ONES})[0] == wanted
    model = lodstone.open(tmp_path / "model" / (files[0] or ""), params=files[1] and tmp_path / "model" / files[1])
    assert float(np.asarray(model.run({"x": ONES})[loss.name])) == wanted
    with pytest.raises(ValueError, match="'scope'.*fc_0.b_0"):
        save_inference_model(tmp_path / "none", ["x"], [loss], executor, net.main, scope=Scope())


def test_programs_become_models(tmp_path):
    net, loss = regression()
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    model = net.main.inference(["x"], [loss]).model(scope)
    lodstone.convert(model, tmp_path / "net.onnx")
    wanted = executor.run(net.main, {"x": ONES}, loss, scope=scope)[0]
    found = lodstone.open(tmp_path / "net.onnx").run({"x": ONES})
    np.testing.assert_allclose(np.asarray(found[loss.name]), wanted, rtol=1e-6)


def test_one_executor_and_scope_serve_two_threads():
    net, loss = regression()
    optimizer.SGD(0.01).minimize(loss, net.startup)
    executor, scope, errors = Executor(), Scope(), []
    executor.run(net.startup, scope=scope)
    model = net.main.clone(for_test=True).inference(["x"], [loss]).model(scope)
    session, wanted = model.session(), np.asarray(model.run({"x": ONES})[loss.name])

    def train():
        try:
            for _ in range(50):
                executor.run(net.main, {"x": ONES}, [loss], scope=scope)
        except Exception as error:
            errors.append(error)

    def infer():
        try:
            for _ in range(50):
                np.testing.assert_array_equal(np.asarray(session.run({"x": ONES})[loss.name]), wanted)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for work in (train, infer, train, infer)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_two_threads_build_networks():
    made = []

    def build():
        net, loss = regression()
        with net:
            optimizer.Adam().minimize(loss)
        made.append(net.main.to_bytes())

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4 and len(set(made)) == 1


def test_a_forked_process_runs_and_trains():
    code = """
import os, sys, numpy as np
from lodstone.program import Executor, Network, Scope, layers, optimizer
with Network() as net:
    loss = layers.mean(layers.conv2d(layers.data("x", [3, 8, 8]), 4, 3))
    optimizer.SGD(0.1).minimize(loss)
executor, scope, x = Executor(), Scope(), np.ones((2, 3, 8, 8), np.float32)
executor.run(net.startup, scope=scope)
first = executor.run(net.main, {"x": x}, loss, scope=scope)[0]
child = os.fork()
if child == 0:
    second = executor.run(net.main, {"x": x}, loss, scope=scope)[0]
    os._exit(0 if second < first else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("what", ["run", "train"])
def test_interrupts_stop_runs(what, tmp_path):
    code = """
import signal, sys, numpy as np, lodstone
from lodstone.program import Executor, Network, layers, optimizer
# A shell ignores interrupts in background jobs.
signal.signal(signal.SIGINT, signal.default_int_handler)
with Network() as net:
    count, one = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 1)
    goes_on = layers.less_than(count, one)
    loop = layers.While(goes_on)
    with loop.block():
        layers.assign(layers.less_than(count, one), goes_on)
    loss = layers.mean(layers.fc(layers.data("x", [4]), 3))
    optimizer.SGD(0.1).minimize(loss)
print("ready", flush=True)
try:
    if sys.argv[1] == "run":
        Executor().run(net.main, {"x": np.ones((2, 4), np.float32)}, loss)
    else:
        model = net.main.model(startup_program=net.startup)
        lodstone.train(model, {"x": np.ones((2, 4), np.float32)}, steps=3)
except KeyboardInterrupt:
    print("interrupted")
"""
    process = subprocess.Popen([sys.executable, "-c", code, what], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "interrupted\n"


WRONG = {
    "argument 'name'": lambda: layers.data(3, [4]),
    "argument 'shape'": lambda: layers.data("x", [-3, 4]),
    "unknown element type `float31`|unknown value `float31`": lambda: layers.data("x", [4], dtype="float31"),
    "argument 'x': expected a Variable, found int": lambda: layers.relu(3),
    "argument 'label': expected a Variable, found \\[1\\]": lambda: layers.dice_loss(layers.data("x", [4]), [1]),
    "argument 'input': expected a sequence of Variables": lambda: layers.concat([layers.data("x", [4]), 3]),
    "a parameter cannot have the shape \\[4, -3\\]": lambda: layers.fc(layers.data("x", [4]), -3),
    "argument 'filter_size'": lambda: layers.conv2d(layers.data("x", [3, 8, 8]), 4, 0),
    "expected 1 to 65536": lambda: layers.split(layers.data("x", [4]), 1 << 40),
    "argument 'axis': 3": lambda: layers.unstack(layers.ones([2, 3], "float32"), axis=3),
    "belongs to another program": lambda: layers.relu(regression()[1]),
    "argument 'pool_type'": lambda: layers.pool2d(layers.data("x", [3, 8, 8]), 2, "sum"),
    "argument 'pool_size'": lambda: layers.pool2d(layers.data("x", [3, 8, 8])),
    "argument 'stride'": lambda: layers.conv2d(layers.data("x", [3, 8, 8]), 4, 3, stride=[1, 2, 3]),
    "argument 'groups'": lambda: layers.conv2d(layers.data("x", [3, 8, 8]), 4, 3, groups=2),
    "argument 'param_attr'": lambda: layers.fc(layers.data("x", [4]), 3, param_attr=7),
    "it has this parameter|has this parameter": lambda: layers.fc(layers.data("x", [4]), 3, param_attr=False),
    "argument 'dropout_prob'": lambda: layers.dropout(layers.data("x", [4]), 1.5),
    "`elementwise_add`": lambda: layers.elementwise_add(layers.data("x", [4]), layers.data("y", [3])),
    "attribute `axis`": lambda: appended({"axis": "last"}),
    "argument 'axis': expected an int": lambda: layers.softmax(layers.data("x", [4]), axis="last"),
    "has no value while the program is built": lambda: bool(layers.data("x", [4])),
    "cannot be iterated": lambda: list(layers.data("x", [4])),
    "argument 'loss'": lambda: optimizer.SGD(0.1).minimize("loss"),
    "expected a single|single number|scalar": lambda: optimizer.SGD(0.1).minimize(layers.fc(layers.data("x", [4]), 3)),
    "argument 'learning_rate': expected a number": lambda: optimizer.SGD("0.1"),
    "argument 'parameter_list'": lambda: optimizer.SGD(0.1, regularizer.L2Decay(0.1)),
    "argument 'grad_clip'": lambda: optimizer.SGD(0.1, grad_clip=1.0),
    "argument 'regularization'": lambda: optimizer.SGD(0.1, regularization=0.1),
    "argument 'learning_rate'": lambda: optimizer.SGD(float("nan")).minimize(regression()[1]),
    "argument 'loop_vars'": lambda: layers.while_loop(lambda: None, lambda: None, []),
    "does not write its condition": lambda: loop_without_condition(),
    "ZeroDivisionError": lambda: layers.cond(layers.ones([1], "bool"), lambda: 1 / 0, lambda: None),
    "PaddlePaddle does not have this operator": lambda: Program().global_block().append_op("conv7d"),
    "slot `Y` does not exist": lambda: Program().global_block().append_op("relu", {"Y": []}, {"Out": "y"}),
    "attribute `strides`": lambda: Program().global_block().append_op("conv2d", attrs={"strides": "one"}),
    "argument 'program'": lambda: Executor().run("program"),
    "argument 'feed'": lambda: Executor().run(Program(), [1]),
    "argument 'scope'": lambda: Executor().run(Program(), scope={}),
    "argument 'threads'": lambda: Executor(threads=0),
    "argument 'fetch_list'": lambda: Executor().run(Program(), fetch_list=[3]),
    "expected an array or a tensor": lambda: Executor().run(Program(), {"x": object()}),
    "argument 'main_program'": lambda: program_guard("main").__enter__(),
    "argument 'recursive_seq_lens'": lambda: create_lod_tensor(ONES, [[-1, 3]]),
    "argument 'lod'": lambda: create_lod_tensor(ONES, [[1, 3]]),
    "argument 'index'": lambda: Program().block(3),
    "block 0 has no variable": lambda: Program().global_block().var("x"),
    "has no operators": lambda: Program().global_block().remove_op(0),
}


def loop_without_condition():
    goes_on = layers.ones([1], "bool")
    with layers.While(goes_on).block():
        pass


@pytest.mark.parametrize("message", WRONG)
def test_errors_name_the_argument(message):
    wrong = WRONG[message]
    with Network() as net:
        if message == "ZeroDivisionError":
            with pytest.raises(ZeroDivisionError):
                wrong()
        else:
            with pytest.raises((ValueError, TypeError, IndexError, KeyError, lodstone.LodstoneError), match=message):
                wrong()
        # The network can be built further, in its first block.
        assert net.main.current_block().idx == 0
        layers.ones([1])


def test_runs_fail_with_their_operator():
    net, loss = regression()
    executor, scope = Executor(), Scope()
    with pytest.raises(lodstone.RunError, match="fc_0.w_0"):
        executor.run(net.main, {"x": ONES}, loss, scope=scope)
    executor.run(net.startup, scope=scope)
    for feed, message in (
        ({"x": ONES[:, :3]}, "`x`: expected float32"),
        ({"x": ONES.astype(np.int64)}, "`x`: expected float32"),
        ({"x": ONES, "z": ONES}, "`z`"),
        ({}, "`x`|x"),
    ):
        with pytest.raises(lodstone.RunError, match=message):
            executor.run(net.main, feed, loss, scope=scope)
    with pytest.raises(lodstone.RunError, match="nothing"):
        executor.run(net.main, {"x": ONES}, ["nothing"], scope=scope)
    with pytest.raises(lodstone.RunError, match="`mul`.*NaN"):
        Executor(check_finite=True).run(net.main, {"x": ONES * np.inf}, loss, scope=scope)


def test_damaged_programs_are_rejected():
    data = regression()[0].main.to_bytes()
    for size in range(0, len(data) - 1, 97):
        with pytest.raises(lodstone.LodstoneError):
            Program.parse_from_string(data[:size] if size else b"\xff\xff")


def test_a_program_from_a_file_accesses_no_files_unless_it_is_given_a_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net, _ = regression()
    lodstone.program.save(net.main.all_parameters(), "vars", net.main)
    save_program(net.main, tmp_path / "main")
    executor, scope = Executor(), Scope()
    executor.run(net.startup, scope=scope)
    executor.run(net.main, {"x": ONES}, scope=scope)
    assert sorted(os.listdir("vars")) == ["fc_0.b_0", "fc_0.w_0"]
    loaded = load_program(tmp_path / "main")
    with pytest.raises(lodstone.RunError, match="no directory to save to"):
        executor.run(loaded, {"x": ONES}, scope=scope)
    executor.run(loaded, {"x": ONES}, scope=scope, directory=tmp_path / "other")
    assert pathlib.Path("other/vars/fc_0.w_0").is_file()
    again, other = Program(), Scope()
    lodstone.program.load(["fc_0.w_0"], "vars", again, source=net.main)
    executor.run(again, scope=other)
    np.testing.assert_array_equal(np.asarray(other["fc_0.w_0"]), np.asarray(scope["fc_0.w_0"]))
    with pytest.raises(ValueError, match="cannot use"):
        lodstone.program.save(net.main.all_parameters(), tmp_path / "elsewhere", net.main)


def test_programs_have_the_bytes_of_those_that_rust_builds(tmp_path):
    sys.path.insert(0, str(pathlib.Path(__file__).with_name("golden")))
    from built import built

    net = built(tmp_path)
    for name, program in (("built_main", net.main), ("built_startup", net.startup)):
        recorded = (pathlib.Path(__file__).with_name("golden") / f"{name}.pb").read_bytes()
        assert program.to_string() == Program.parse_from_string(recorded).to_string()
        assert program.to_bytes() == recorded


@pytest.mark.parametrize(
    ("given", "kind", "attrs"),
    # As PaddlePaddle 1.8.5 appends them.
    [
        (initializer.Xavier(fan_in=10), "uniform_random", {"min": -0.3061862, "max": 0.3061862}),
        (initializer.Xavier(uniform=False, fan_out=7), "gaussian_random", {"mean": 0.0, "std": 0.2156655}),
        (initializer.MSRA(fan_in=12), "uniform_random", {"min": -0.7071068, "max": 0.7071068}),
        (initializer.MSRA(uniform=False, fan_in=12), "gaussian_random", {"mean": 0.0, "std": 0.4082483}),
    ],
)
def test_initializers_take_the_fans_of_a_layer(given, kind, attrs):
    with Network() as net:
        layers.conv2d(layers.data("x", [4, 8, 8]), 6, 3, param_attr=ParamAttr(initializer=given))
    op = next(op for op in net.startup.global_block().ops if op.type == kind)
    assert {name: op.attr(name) for name in attrs} == pytest.approx(attrs)


def test_the_seed_of_a_program_is_that_of_what_draws():
    main, startup = Program(), Program()
    main.random_seed, startup.random_seed = 3, 5
    with program_guard(main, startup), unique_name.guard():
        hidden = layers.fc(layers.data("x", [4]), 2)
        layers.dropout(hidden, 0.5)
        layers.dropout(hidden, 0.5, seed=9)
    assert startup.global_block().ops[0].attr("seed") == 5
    drops = [op for op in main.global_block().ops if op.type == "dropout"]
    assert [(op.attr("seed"), op.attr("fix_seed")) for op in drops] == [(3, True), (9, True)]
    assert main.clone().random_seed == 3


def test_gradients_are_clipped_as_the_program_says():
    def built(clips_itself):
        with Network() as net:
            loss = layers.mean(layers.fc(layers.data("x", [4]), 1))
            limit = clip.GradientClipByGlobalNorm(1.0)
            if not clips_itself:
                clip.set_gradient_clip(limit)
            optimizer.SGD(0.1, grad_clip=limit if clips_itself else None).minimize(loss)
        return net.main.to_bytes()

    assert built(True) == built(False)
    with pytest.raises(ValueError, match="argument 'param_list'"):
        clip.set_gradient_clip(clip.GradientClipByNorm(1.0), param_list=["w"])


def test_examples_become_inputs():
    with Network() as net:
        x, words = layers.data("x", [2, 2]), layers.data("words", [1], dtype="int64", lod_level=1)
        total = [layers.reduce_sum(x, dim=[1, 2]), layers.sequence_pool(layers.cast(words, "float32"), "sum")]
    feeder = DataFeeder([x, "words"], program=net.main)
    feed = feeder.feed([([1, 2, 3, 4], [1, 2, 3]), ([5, 6, 7, 8], [4])])
    assert (feed["x"].shape, feed["words"].shape, feed["words"].lod) == ((2, 2, 2), (4, 1), [[0, 3, 4]])
    found = Executor().run(net.main, feed, total)
    assert [one.ravel().tolist() for one in found] == [[10.0, 26.0], [6.0, 4.0]]
    with pytest.raises(ValueError, match="example 1 has 1 values, expected 2"):
        feeder.feed([(1, 2), (3,)])
    with pytest.raises(ValueError, match=r"variable 'x': values of dims \[1, 3\] do not fit"):
        feeder.feed([([1, 2, 3], [1])])


def test_attention_has_several_heads():
    with Network() as net:
        x, y = layers.data("x", [3, 4]), layers.data("y", [5, 4])
        made = nets.scaled_dot_product_attention(x, y, y, num_heads=2)
    scope = Scope()
    Executor().run(net.startup, scope=scope)
    feed = {"x": np.ones((2, 3, 4), np.float32), "y": np.ones((2, 5, 4), np.float32)}
    found = Executor().run(net.main, feed, [made], scope=scope)[0]
    # Equal values are their own mean.
    wanted = feed["y"][:, :3] @ np.asarray(scope["fc_2.w_0"])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_optimizers_update_the_parameters_they_are_given():
    with Network() as net:
        loss = layers.mean(layers.fc(layers.fc(layers.data("x", [4]), 3), 1))
        _, pairs = optimizer.Momentum(0.1, 0.9, ["fc_0.w_0", "fc_1.b_0"]).minimize(loss)
    assert [parameter.name for parameter, _ in pairs] == ["fc_0.w_0", "fc_1.b_0"]
    updated = [op.input("Param")[0] for op in net.main.global_block().ops if op.type == "momentum"]
    assert sorted(updated) == ["fc_0.w_0", "fc_1.b_0"]


def test_names_are_loaded_into_an_empty_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net, _ = regression()
    lodstone.program.io.save(var_list=net.main.all_parameters(), dir="vars", program=net.main)
    executor, scope, other = Executor(), Scope(), Scope()
    executor.run(net.startup, scope=scope)
    executor.run(net.main, {"x": ONES}, scope=scope)
    loader = Program()
    with program_guard(net.main, net.startup):
        lodstone.program.io.load(var_name_list=["fc_0.w_0"], dir="vars", program=loader)
    executor.run(loader, scope=other)
    np.testing.assert_array_equal(np.asarray(other["fc_0.w_0"]), np.asarray(scope["fc_0.w_0"]))
    assert lodstone.program.io.make_checkpoint is lodstone.checkpoint.make_checkpoint
    assert lodstone.program.io.save_program is save_program
