"""Wrong arguments of programs: each is an error that names it, and nothing is computed silently."""

import os

import numpy as np
import pytest

import lodstone
from lodstone import checkpoint
from lodstone import program as fluid
from lodstone.program import (
    DataFeeder,
    Executor,
    Network,
    Program,
    Scope,
    append_backward,
    clip,
    create_lod_tensor,
    data,
    gradients,
    initializer,
    layers,
    optimizer,
)

ERRORS = (ValueError, TypeError, IndexError, LookupError, OSError, AttributeError, lodstone.LodstoneError)


def x(dtype="float32", name="x"):
    return layers.data(name, [4], dtype=dtype)


def trained():
    return layers.mean(layers.fc(x(), 3, name="f"))


def nested(depth):
    inner = [1]
    for _ in range(depth):
        inner = [inner]
    return inner


def itself():
    own = []
    own.append(own)
    return own


def attribute(value):
    return Program().global_block().append_op("relu", attrs={"unknown": value})


def second_order():
    given = layers.data("x", [4], stop_gradient=False)
    first = gradients(layers.mean(layers.square(given)), given)[0]
    return gradients(layers.mean(first), given)


def in_rnn(method, *arguments):
    rnn = layers.DynamicRNN()
    with rnn.block():
        getattr(rnn, method)(*arguments)


WRONG = [
    ("a list of numbers or strings", lambda: attribute(itself())),
    ("a list of numbers or strings", lambda: attribute(nested(100_000))),
    ("gradients of gradients", second_order),
    ("argument 'no_grad_set': .*'nothing'", lambda: append_backward(trained(), no_grad_set=["nothing"])),
    ("argument 'parameter_list': .*'nothing'", lambda: append_backward(trained(), ["nothing"])),
    ("argument 'parameter_list': .*'x'", lambda: append_backward(trained(), ["x"])),
    ("argument 'inputs'", lambda: gradients(trained(), [None])),
    ("argument 'loss'", lambda: optimizer.SGD(0.1).minimize(3)),
    ("argument 'startup_program'", lambda: optimizer.SGD(0.1).minimize(trained(), startup_program=3)),
    ("argument 'value'", lambda: layers.fill_constant([1], "int32", 2**40)),
    ("argument 'value'", lambda: layers.fill_constant([1], "uint8", -1)),
    ("argument 'value'", lambda: layers.fill_constant([1], "int64", float("nan"))),
    ("argument 'shape'", lambda: layers.fill_constant([1.5], "int64", 1)),
    ("1.5 cannot be an int64", lambda: x("int64") * 1.5),
    ("0.5 cannot be an int64", lambda: x("int64") + 0.5),
    ("argument 'depth'", lambda: layers.one_hot(layers.data("i", [1], dtype="int64"), -1)),
    ("already has another variable 'x'", lambda: (x(), layers.data("x", [5]))),
    ("argument 'name'", lambda: layers.data("", [4])),
    ("argument 'shape'", lambda: layers.data("x", "34")),
    ("argument 'shape'", lambda: layers.data("x", 3)),
    ("argument 'shape'", lambda: layers.data("x", [2.5])),
    ("argument 'shape'", lambda: data("x", [2.5])),
    ("argument 'lod_level'", lambda: layers.data("x", [4], lod_level=-1)),
    ("argument 'targets'", lambda: default().inference(["x"], [])),
    ("argument 'targets'", lambda: default().prune([])),
    ("`nothing`", lambda: default().inference(["nothing"], [layers.relu(x())])),
    ("argument 'branch_fns'", lambda: layers.switch_case(index(), {})),
    ("argument 'branch_fns'", lambda: layers.switch_case(index(), [(1, index), (1, index)])),
    ("argument 'branch_fns'", lambda: layers.switch_case(index(), [(1.5, index)])),
    ("argument 'branch_index'", lambda: layers.switch_case(layers.ones([1]), {1: index})),
    ("argument 'true_fn'", lambda: layers.cond(layers.ones([1], "bool"), lambda: 5, lambda: None)),
    ("argument 'body'", lambda: layers.while_loop(lambda i: i, lambda i: 5, [layers.ones([1], "bool")])),
    ("argument 'max'", lambda: clip.GradientClipByValue(float("nan"))),
    ("argument 'max'", lambda: clip.GradientClipByValue(1.0, 2.0)),
    ("argument 'clip_norm'", lambda: clip.GradientClipByNorm(-1.0)),
    ("argument 'clip_norm'", lambda: clip.GradientClipByGlobalNorm(float("inf"))),
    ("argument 'learning_rate'", lambda: optimizer.SGD(1e300)),
    ("argument 'beta1'", lambda: optimizer.Adam(beta1=5.0)),
    ("argument 'epsilon'", lambda: optimizer.Adam(epsilon="1")),
    ("argument 'boundaries'", lambda: layers.piecewise_decay([5, 2], [0.1, 0.2, 0.3])),
    ("argument 'values'", lambda: layers.piecewise_decay([2, 5], [0.1, 0.2])),
    ("argument 'high'", lambda: initializer.Uniform(5, 1)),
    ("argument 'scale'", lambda: initializer.Normal(0, -1)),
    ("argument 'fan_in'", lambda: initializer.MSRA(fan_in=0)),
    ("argument 'fan_in'", lambda: initializer.Xavier(fan_in=-5)),
    ("argument 'num'", lambda: layers.linspace(0, 1, -5)),
    ("argument 'end'", lambda: layers.range(0, float("nan"), 1)),
    ("argument 'step'", lambda: layers.range(0, 3, 0)),
    ("argument 'starts'", lambda: layers.slice(x(), [0], [0.5], [1])),
    ("argument 'shape'", lambda: layers.reshape(x(), [2.5, -1])),
    ("argument 'num_or_sections'", lambda: layers.split(x(), 2.0)),
    ("argument 'recursive_seq_lens'", lambda: create_lod_tensor(np.zeros((3, 1)), [[1.5, 1.5]])),
    ("argument 'recursive_seq_lens'", lambda: create_lod_tensor([[1, 2], [3]], [[2, 2]])),
    ("argument 'dirname'", lambda: fluid.load_persistables(Executor(), "nowhere", net_main())),
    ("argument 'main_program'", lambda: fluid.save_vars(Executor(), "d", main_program=3)),
    ("argument 'main_program'", lambda: fluid.save_inference_model("d", ["x"], [layers.relu(x())], main_program=3)),
    ("argument 'executor'", lambda: fluid.save_vars(3, "d")),
    ("argument 'scope'", lambda: fluid.load_inference_model("d", scope=3)),
    ("argument 'program'", lambda: DataFeeder([x()], program=3)),
    ("argument 'feed_list'", lambda: DataFeeder(None)),
    ("example 0", lambda: DataFeeder([x()]).feed([1, 2])),
    ("'x'", lambda: DataFeeder([x()]).feed([([1, 2, 3, 4],), ([1],)])),
    ("argument 'scope'", lambda: default().model(scope=3)),
    ("argument 'scope'", lambda: checkpoint.restore("d", scope=3)),
    ("argument 'program'", lambda: checkpoint.restore("d", program=3)),
    ("argument 'load_var_list'", lambda: checkpoint.build_checkpoint_loader([3])),
    ("argument 'startup_program'", lambda: checkpoint.make_checkpoint("d", None, default(), default())),
    ("argument 'predicate'", lambda: (trained(), checkpoint.make_checkpoint("d", lambda var: False))),
    ("argument 'input'", lambda: layers.fc([None], 3)),
    ("argument 'input'", lambda: layers.fc(None, 3)),
    ("argument 'regularizer'", lambda: fluid.ParamAttr(regularizer="a")),
    ("argument 'act'", lambda: layers.fc(x(), 3, act=5)),
    ("argument 'inputs'", lambda: default().global_block().append_op("relu", [x()])),
    ("argument 'index'", lambda: default().global_block().remove_op(-1)),
    ("argument 'max_steps'", lambda: Executor(max_steps=-1)),
    ("argument 'memory_limit'", lambda: Scope(-1)),
    ("argument 'fetch_list'", lambda: Executor().run(Program(), fetch_list=5)),
    ("argument 'feed'", lambda: Executor().run(Program(), {5: np.ones(1)})),
    ("argument 'x'", lambda: in_rnn("step_input", 3)),
    ("argument 'ex_mem'", lambda: in_rnn("update_memory", 3, 4)),
    ("argument 'outputs'", lambda: in_rnn("output", 3)),
    ("argument 'cond'", lambda: layers.IfElse(3)),
    ("out of range for axis 1", lambda: x()[:, 99]),
    ("found float", lambda: x()[:, 0.5]),
    ("run the program itself", lambda: fluid.CompiledProgram),
    ("there is no 'nothing'", lambda: fluid.nothing),
    ("argument 'directory'", lambda: checkpoint.Manager(5)),
    ("argument 'directory'", lambda: checkpoint.load(5)),
    ("argument 'step'", lambda: checkpoint.restore("d", step=-1)),
    ("argument 'step'", lambda: checkpoint.restore("d", step="x")),
    ("argument 'rename'", lambda: checkpoint.restore("d", rename={"w": 5})),
    ("argument 'every'", lambda: checkpoint.make_checkpoint("d", every=1.5)),
    ("argument 'filename'", lambda: checkpoint.make_checkpoint("d", filename=5)),
    ("argument 'load_var_list'", lambda: checkpoint.build_checkpoint_loader(5)),
    ("argument 'model'", lambda: lodstone.train(5, {})),
    ("argument 'data'", lambda: lodstone.train("m", 5)),
    ("argument 'steps'", lambda: lodstone.train("m", {}, steps="x")),
    ("argument 'inputs'", lambda: default().model().run(5)),
    ("argument 'inputs'", lambda: default().model().run({5: np.ones(1)})),
    ("w@GRAD", lambda: append_backward(layers.mean(layers.fc(x(), 1, param_attr="w@GRAD")))),
    ("argument 'beta1'", lambda: optimizer.Adam(beta1=np.float32(2))),
    ("argument 'beta1'", lambda: optimizer.Adam(beta1=1)),
    ("argument 'epsilon'", lambda: optimizer.Adam(epsilon=np.float32("nan"))),
    ("argument 'learning_rate'", lambda: optimizer.SGD(10**400)),
    ("argument 'groups'", lambda: layers.conv2d(layers.data("im", [3, 8, 8]), 4, 3, groups=0)),
    ("argument 'padding'", lambda: layers.conv2d(layers.data("im", [3, 8, 8]), 4, 3, padding=1.0)),
    ("argument 'decay_steps'", lambda: layers.exponential_decay(0.1, 2.5, 0.9)),
    ("argument 'feeded_var_names'", lambda: fluid.save_inference_model("d", [5], [layers.relu(x())])),
    ("`nope`", lambda: default().prune([layers.relu(x())], feeds=["nope"])),
    (r"relu\(\) got an unexpected keyword argument 'nme'", lambda: layers.relu(x(), nme="a")),
]


def default():
    return fluid.default_main_program()


def net_main():
    trained()
    return default()


def index():
    return layers.fill_constant([1], "int64", 1)


@pytest.mark.parametrize("number", range(len(WRONG)), ids=lambda number: f"{number}: {WRONG[number][0]}")
def test_wrong_arguments_are_named(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message, wrong = WRONG[number]
    with Network() as net:
        with pytest.raises(ERRORS, match=message):
            wrong()
        assert net.main.current_block().idx == 0
        layers.ones([1])
    assert os.listdir(tmp_path) == []


def run(build, **feed):
    with Network() as net:
        made = build()
    scope = Scope()
    Executor().run(net.startup, scope=scope)
    return Executor().run(net.main, feed, [made], scope=scope)[0]


def classes(dtype="int64", width=1):
    return layers.data("i", [width], dtype=dtype)


INDEXED = {
    "embedding": lambda: layers.embedding(classes(), [4, 2]),
    "embedding_v2": lambda: fluid.embedding(classes(), [4, 2]),
    "gather": lambda: layers.gather(layers.ones([4, 2]), layers.reshape(classes(), [-1])),
    "scatter": lambda: layers.scatter(layers.ones([4, 2]), layers.reshape(classes(), [-1]), layers.ones([2, 2])),
    "cross_entropy": lambda: layers.cross_entropy(layers.fill_constant([2, 4], "float32", 0.25), classes()),
    "softmax_with_cross_entropy": lambda: layers.softmax_with_cross_entropy(layers.ones([2, 4]), classes()),
    "bpr_loss": lambda: layers.bpr_loss(layers.ones([2, 4]), classes()),
    "one_hot": lambda: layers.one_hot(classes(), 4),
    "one_hot_v2": lambda: fluid.one_hot(classes(), 4),
    "index_sample": lambda: layers.index_sample(layers.ones([2, 4]), classes()),
    "gather_nd": lambda: layers.gather_nd(layers.ones([4, 2]), classes()),
    "index_select": lambda: layers.index_select(layers.ones([4, 2]), layers.reshape(classes(), [-1])),
}


@pytest.mark.parametrize("kind", INDEXED)
def test_indices_do_not_count_from_the_end(kind):
    run(INDEXED[kind], i=np.array([[0], [3]], np.int64))
    for wrong in (-1, -4, 4):
        with pytest.raises(lodstone.RunError, match=f"{wrong}"):
            run(INDEXED[kind], i=np.array([[0], [wrong]], np.int64))


def test_indices_that_stand_for_none_are_no_errors():
    ignored = run(
        lambda: layers.softmax_with_cross_entropy(layers.ones([2, 4]), classes(), ignore_index=-1),
        i=np.array([[0], [-1]], np.int64),
    )
    np.testing.assert_allclose(ignored.ravel(), [np.log(4), 0], rtol=1e-6)
    outside = run(lambda: layers.one_hot(classes(), 4, True), i=np.array([[3], [9]], np.int64))
    assert outside.tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]


def test_integers_are_exact():
    whole = 2**53 + 1
    assert run(lambda: layers.fill_constant([1], "int64", whole)).tolist() == [whole]
    assert run(lambda: layers.range(whole, whole + 2, 1)).tolist() == [whole, whole + 1]
    # Initializers have the single precision that PaddlePaddle gives them.
    for given, found in ((10**16, 10000000272564224), (123456789, 123456792), (-(10**17), -99999998430674944)):
        assert run(lambda given=given: layers.create_global_var([1], given, "int64", True)).tolist() == [found]
    like = run(lambda: layers.fill_constant_batch_size_like(classes(), [1, 1], "int64", -whole), i=np.zeros((1, 1), np.int64))
    assert like.tolist() == [[-whole]]


def test_an_rnn_that_fails_leaves_nothing():
    with Network() as net:
        rows = layers.data("rows", [1], lod_level=1)
        rnn = layers.DynamicRNN()
        with pytest.raises(ZeroDivisionError), rnn.block():
            rnn.step_input(rows)
            raise ZeroDivisionError
    assert net.main.num_blocks == 1 and net.main.global_block().ops == []


def test_removed_variables_have_a_repr():
    with Network() as net:
        given = x()
    net.main.global_block().remove_var("x")
    assert "removed" in repr(given)


def test_inputs_of_the_same_name_are_one():
    with Network() as net:
        assert x() == x()
    assert len(net.main.global_block().vars) == 1


def test_names_of_paddlepaddle_are_there():
    assert fluid.io.save_vars is fluid.save_vars
    assert fluid.backward.gradients is gradients
    assert fluid.core.Scope is Scope
    rows = create_lod_tensor([[1, 2], [3]], [[2, 1]])
    assert (rows.shape, rows.recursive_sequence_lengths()) == ((3, 1), [[2, 1]])


def test_one_name_selects_one_variable(tmp_path):
    with Network() as net:
        trained()
    scope = Scope()
    Executor().run(net.startup, scope=scope)
    with fluid.scope_guard(scope):
        fluid.save_vars(Executor(), tmp_path, net.main, vars="f.w_0")
    assert os.listdir(tmp_path) == ["f.w_0"]


def looped(given):
    """The mean of the square of an input after three steps of a loop."""
    i, n = index(), layers.fill_constant([1], "int64", 4)
    array = layers.array_write(given, i)
    goes_on = layers.less_than(i, n)
    with layers.While(goes_on).block():
        before = layers.array_read(array, i)
        layers.increment(i, 1)
        layers.array_write(layers.tanh(before), i, array)
        layers.less_than(i, n, cond=goes_on)
    return layers.array_read(array, n)


def branched(given):
    condition = layers.less_than(layers.reduce_sum(given), layers.fill_constant([], "float32", 0.0))
    return layers.cond(condition, lambda: given * given, lambda: given * 2.0)


@pytest.mark.parametrize("build", [looped, branched])
def test_a_block_has_the_gradients_of_one_pass(build):
    with Network() as net:
        given = layers.data("x", [4], stop_gradient=False)
        last = build(given)
        gradients(layers.mean(layers.square(last)), given)
        before = net.main.to_string()
        mean = layers.mean(last)
        with pytest.raises(lodstone.ProgramError, match="add up the losses"):
            gradients(mean, given)
        net.main.global_block().remove_op(len(net.main.global_block().ops) - 1)
        net.main.global_block().remove_var(mean.name)
    assert net.main.to_string() == before


def test_a_gradient_is_a_constant_if_gradients_stop_there():
    with Network() as net:
        given = layers.data("x", [4], stop_gradient=False)
        (first,) = gradients(layers.mean(layers.square(given)), given)
        first.stop_gradient = True
        (second,) = gradients(layers.mean(first * given), given)
    assert (first.name, second.name) == ("x@GRAD", "grad/grad/x@GRAD")
    feed = {"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)}
    one, two = Executor().run(net.main, feed, [first, second])
    np.testing.assert_allclose(one, feed["x"] * 2 / 8, rtol=1e-6)
    np.testing.assert_allclose(two, one / 8, rtol=1e-6)


def test_two_optimizers_update_their_own_parameters():
    with Network() as net:
        given = x()
        hidden = layers.fc(given, 3, name="g")
        a, b = layers.mean(layers.square(hidden)), layers.mean(layers.fc(hidden, 1, name="d"))
        _, first = optimizer.SGD(0.5).minimize(a, parameter_list=["g.w_0", "g.b_0"])
        _, second = optimizer.SGD(0.5).minimize(b, parameter_list=["d.w_0", "d.b_0"])
    assert [gradient.name for _, gradient in first] == ["g.w_0@GRAD", "g.b_0@GRAD"]
    assert [gradient.name for _, gradient in second] == ["d.w_0@GRAD", "d.b_0@GRAD"]
    updates = [op for op in net.main.global_block().ops if op.type == "sgd"]
    assert [op.input("Param") for op in updates] == [["g.b_0"], ["g.w_0"], ["d.b_0"], ["d.w_0"]]


def test_models_of_paddlepaddle_keep_the_order_of_their_inputs(tmp_path):
    with Network() as net:
        inputs = [layers.data(name, [1], append_batch_size=False) for name in "bac"]
        total = inputs[0] + inputs[1] * 10.0 + inputs[2] * 100.0
        inference = net.main.inference(inputs, [total])
    # PaddlePaddle inserts each `feed` before those that it has inserted.
    block = inference.global_block()
    for index, op in enumerate([block.ops[2], block.ops[1], block.ops[0]]):
        slots = {"type": "feed", "inputs": op.inputs, "outputs": op.outputs, "attrs": {"col": op.attr("col")}}
        block.insert_op(3 + index, **slots)
    block.remove_op(0, 3)
    fluid.save_program(inference, tmp_path)
    _, names, _ = fluid.load_inference_model(tmp_path)
    assert names == ["b", "a", "c"]


def test_numbers_of_numpy_are_operands():
    value = np.array([[1, 2, 3, 4]], np.float32)

    def build():
        given = data("x", [1, 4])
        return np.float32(2) * given + np.float64(1) - np.sqrt(4.0)

    assert run(build, x=value).tolist() == [[1, 3, 5, 7]]


def test_given_elements_become_the_type_of_the_parameter():
    attr = fluid.ParamAttr(initializer=initializer.NumpyArrayInitializer(np.arange(8.0).reshape(4, 2)))
    found = run(lambda: layers.fc(x(), 2, param_attr=attr, bias_attr=False), x=np.ones((1, 4), np.float32))
    assert found.tolist() == [[12, 16]]


def test_transposed_convolutions_have_an_output_size_for_any_batch():
    def build():
        return layers.conv2d_transpose(layers.data("x", [2, 6, 6]), 3, output_size=[12, 12], filter_size=4, stride=2, padding=1)

    assert run(build, x=np.ones((5, 2, 6, 6), np.float32)).shape == (5, 3, 12, 12)


def test_pairs_are_in_the_order_of_the_list():
    with Network():
        loss = trained()
        pairs = append_backward(loss, ["f.b_0", "f.w_0"])
    assert [parameter.name for parameter, _ in pairs] == ["f.b_0", "f.w_0"]
