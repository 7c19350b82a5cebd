"""Writes models that violate one rule each, and the messages of ONNX's checker.

    python make_onnx_check.py

Run with onnx 1.23.2. `index.json` holds for each model the message of `onnx.checker.check_model` (`null` if
there is none) without and with `full_check`, the finding that Lodstone must report, including type inference, and the
reason if the two differ.
"""

import json
import os
import re

import onnx
from onnx import AttributeProto, TensorProto, helper, parser

PINNED = "1.23.2"
HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
RELU = HEAD + "g (float[2] x) => (float[2] y) { y = Relu(x) }"
CASES = []


def case(name, model, words=None, why=None):
    """Adds a model for which Lodstone must report a finding that contains `words`, or nothing.

    `why` is the reason for a difference from the checker with `full_check`.
    """
    if isinstance(model, str):
        model = parser.parse_model(model)
    CASES.append((name, model, words, why))


def changed(text, change):
    model = parser.parse_model(text)
    change(model)
    return model


def relu(change):
    return changed(RELU, change)


def put(message, **fields):
    for name, value in fields.items():
        setattr(message, name, value)


def tensor(name="w", dims=(2,), kind=TensorProto.FLOAT, **fields):
    made = TensorProto(name=name, dims=dims, data_type=kind)
    for field, values in fields.items():
        if isinstance(values, list):
            getattr(made, field).extend(values)
        else:
            setattr(made, field, values)
    return made


def with_tensor(made, ir=10):
    def change(model):
        model.ir_version = ir
        model.graph.initializer.append(made)

    return relu(change)


def with_sparse(dims, values, indices, shape, kind=TensorProto.INT64):
    def change(model):
        sparse = model.graph.sparse_initializer.add()
        sparse.values.CopyFrom(tensor("s", [len(values)], float_data=values))
        field = {"int64_data" if kind == TensorProto.INT64 else "int32_data": indices}
        sparse.indices.CopyFrom(tensor("", shape, kind, **field))
        sparse.dims.extend(dims)

    return relu(change)


def with_attribute(attribute):
    return relu(lambda model: model.graph.node[0].attribute.append(attribute))


def versions():
    case("good", RELU)
    case("no_ir_version", relu(lambda m: m.ClearField("ir_version")), "has no IR version")
    case("ir_version_of_tomorrow", relu(lambda m: put(m, ir_version=99)), "has IR version 99")
    case(
        "no_operator_sets",
        relu(lambda m: m.ClearField("opset_import")),
        "declares no opsets",
    )
    case(
        "operator_sets_before_there_were",
        relu(lambda m: put(m, ir_version=2)),
        "declares opsets, which IR version 2 does not have",
    )
    case(
        "operator_sets_not_yet",
        changed(
            '<ir_version: 2, opset_import: ["" : 1]> '
            "g (float[2] x) => (float[2] y) { y = Softmax(x) }",
            lambda m: m.ClearField("opset_import"),
        ),
        None,
        "of a model without sets it is version 1, which inference of the checker does not know",
    )
    case(
        "two_versions_of_a_set",
        relu(lambda m: m.opset_import.append(helper.make_opsetid("", 13))),
        "uses versions 21 and 13 of `ai.onnx`",
        "the checker takes the last, and other readers the first",
    )
    case("same_version_twice", relu(lambda m: m.opset_import.append(helper.make_opsetid("", 21))))
    case("operator_set_of_ai_onnx", RELU.replace('"" : 21', '"ai.onnx" : 21'))
    case(
        "version_that_none_can_be",
        relu(lambda m: put(m.opset_import[0], version=1 << 40)),
        "which is out of range",
    )
    case("of_tomorrow", relu(lambda m: put(m.opset_import[0], version=99)))
    case("operator_set_of_others", RELU.replace('"" : 21', '"" : 21, "com.example" : 7'))
    case(
        "metadata_twice",
        relu(lambda m: [m.metadata_props.add(key="a", value=v) for v in "12"]),
        None,
        "the last counts, as in any map of protobuf; the file is written back as it is",
    )


def names():
    case("no_graph_name", relu(lambda m: m.graph.ClearField("name")), "the graph: has no name")
    case("input_without_name", relu(lambda m: m.graph.input.add()), "input 1: has no name")

    def twice(model):
        model.graph.input.append(model.graph.input[0])

    case("input_twice", relu(twice), "input 1 (`x`): has the name of another input")
    case(
        "input_without_type",
        relu(lambda m: m.graph.input[0].ClearField("type")),
        "input 0 (`x`): has no type",
    )
    case(
        "input_without_element_type",
        relu(lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type")),
        "has no element type",
    )
    case(
        "input_of_undefined_element_type",
        relu(lambda m: put(m.graph.input[0].type.tensor_type, elem_type=0)),
        "has no element type",
    )
    case(
        "output_without_shape",
        relu(lambda m: m.graph.output[0].type.tensor_type.ClearField("shape")),
        "output 0 (`y`): has no shape",
    )
    empty = lambda kind: lambda m: getattr(m.graph.input.add(name="e").type, kind).SetInParent()
    case("sequence_of_nothing", relu(empty("sequence_type")), "has no element type")
    case("optional_of_nothing", relu(empty("optional_type")), "has no element type")
    case("map_of_nothing", relu(empty("map_type")), "has no key type")
    case("sparse_of_nothing", relu(empty("sparse_tensor_type")), "has no element type")

    def valueless(model):
        model.graph.input.add(name="e").type.map_type.key_type = TensorProto.INT64

    case("map_of_no_values", relu(valueless), "has no element type")
    case("opaque_without_name", relu(empty("opaque_type")), "has an opaque type without a name")

    def opaque(model, op_type):
        named = model.graph.input.add(name="e").type.opaque_type
        named.domain, named.name = "my", "Kind"
        model.graph.node.add(op_type=op_type, input=["e"], output=["f"])

    case("opaque", relu(lambda m: opaque(m, "Identity")), "`input` is opaque(my,Kind), which V does not allow")


def order():
    text = HEAD + "g (float[2] x) => (float[2] y) { y = Relu(z) z = Relu(x) }"
    case("read_before_written", text, "operator 0 (`Relu`), input 0: reads `z`, which is not defined")
    text = HEAD + "g (float[2] x) => (float[2] y) { y = Relu(x) y = Abs(x) }"
    case("written_twice", text, "operator 1 (`Abs`), output 0: writes `y`, which is already defined")
    text = HEAD + "g (float[2] x) => (float[2] x) { x = Relu(x) }"
    case("input_is_written", text, "output 0: writes `x`")
    text = HEAD + "g (float[2] x) => (float[2] z) { y = Relu(x) }"
    case("output_of_nothing", text, "output 0 (`z`): is not defined by the block")
    case("input_is_output", HEAD + "g (float[2] x) => (float[2] x) { y = Relu(x) }")
    text = HEAD + "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { w = Relu(x) y = Abs(w) }"
    case("initializer_is_written", text, "output 0: writes `w`, which is already defined")
    body = HEAD + "g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = a () => "
    body += "(float[2] p) { %s }, else_branch = b () => (float[2] q) { q = Abs(x) }> %s }"
    case("outer_names_are_seen", body % ("p = Relu(x)", ""))
    case(
        "outer_name_is_written_inside",
        body % ("x = Relu(x) p = Abs(x)", ""),
        "operator 0 (`If`), `then_branch`, operator 0 (`Relu`), output 0: writes `x`",
    )
    case(
        "own_output_is_read_inside",
        body % ("p = Relu(y)", ""),
        "`then_branch`, operator 0 (`Relu`), input 0: reads `y`",
    )
    case(
        "inner_name_is_read_outside",
        body % ("p = Relu(x)", "z = Relu(p)"),
        "the graph, operator 1 (`Relu`), input 0: reads `p`",
    )
    case(
        "inner_name_is_written_outside_after",
        body % ("p = Relu(x)", "p = Relu(y)"),
    )
    case(
        "output_of_outer_name",
        body.replace("(float[2] p)", "(float[2] x)") % ("p = Relu(x)", ""),
        "`then_branch`, output 0 (`x`): is not defined by the block",
    )
    case(
        "subgraph_without_name",
        changed(
            body % ("p = Relu(x)", ""),
            lambda m: m.graph.node[0].attribute[0].g.ClearField("name"),
        ),
        "`then_branch`: has no name",
    )
    loop = HEAD + "g (int64 n, bool c, float[2] x) => (float[2] y) { y = Loop (n, c, x) "
    loop += "<body = b (int64 i, bool d, float[2] %s) => (bool e, float[2] r) "
    loop += "{ e = Identity(d) r = Relu(x) }> }"
    case("loop", loop % "v")
    case("inner_input_hides_outer_name", loop % "x")
    case("inner_input_twice", loop % "d", "`body`, input 2 (`d`): has the name of another input")


def operators():
    one = lambda op, sets='"" : 21': HEAD.replace('"" : 21', sets) + (
        "g (float[2] x) => (float[2] y) { %s }" % op
    )
    case("unknown_kind", one("y = NoSuch(x)"), "`ai.onnx` 21 has no such operator")
    case("kind_of_tomorrow", one("y = Gelu(x)", '"" : 19'), "`ai.onnx` 19 has no such operator")
    case("deprecated", one("y = Upsample(x, x)"), "`ai.onnx` does not have it since version 10")
    case("not_yet_deprecated", one('y = Upsample <mode = "nearest"> (x, x)', '"" : 9'))
    case("experimental", one("y = Affine(x)"))
    case(
        "unknown_kind_of_ml",
        one("y = ai.onnx.ml.NoSuch(x)", '"" : 21, "ai.onnx.ml" : 3'),
        "`ai.onnx.ml` 3 has no such operator",
    )
    case("custom", one("y = com.example.Mine(x)", '"" : 21, "com.example" : 1'))
    case(
        "custom_without_its_set",
        one("y = com.example.Mine(x)"),
        "is of `com.example`, whose version the model does not declare",
    )
    case("no_own_set", one("y = Relu(x)", '"com.example" : 1'), "is of `ai.onnx`, whose version")
    case(
        "domain_by_its_name",
        relu(lambda m: put(m.graph.node[0], domain="ai.onnx")),
        None,
        "the specification lets the empty name stand for `ai.onnx`; the checker compares letters",
    )
    case("no_kind", relu(lambda m: m.graph.node[0].ClearField("op_type")), "has no operator type")

    def nothing(model):
        del model.graph.node[0].input[:], model.graph.node[0].output[:]
        model.graph.node.add(op_type="Relu", input=["x"], output=["y"])

    case("nothing_in_nothing_out", relu(nothing), "has no inputs and no outputs")
    case("too_many_inputs", one("y = Relu(x, x)"), "has 2 inputs, expected 1")
    case("too_few_inputs", one("y = Add(x)"), "has 1 inputs, expected 2")
    case("too_many_outputs", one("y, z = Relu(x)"), "has 2 outputs, expected 1")
    case(
        "number_of_outputs_that_is_not_allowed",
        one("y, z = BatchNormalization(x, x, x, x, x)", '"" : 9'),
        "has 2 outputs, expected 1 or 5",
    )
    case("left_out", one('y = Add(x, "")'), "input 1: required `B` is missing")
    case("optional_left_out", one('y = Clip(x, "", "")'))
    case("variadic_left_out", one('y = Sum(x, "")'), None)
    case(
        "first_variadic_left_out",
        one('y = Sum("", x)'),
        "operator 0 (`Sum`), input 0: required `data_0` is missing",
    )
    blank = lambda m: m.graph.node.add(op_type="Abs", input=["x"], output=[""])
    case("output_left_out", relu(blank), "output 0: required `Y` is missing")


def attributes():
    made = helper.make_attribute
    case("unknown_attribute", with_attribute(made("beta", 1.0)), "has unknown attribute `beta`")
    case("private_attribute", with_attribute(made("__beta", 1.0)))
    leaky = lambda attribute: changed(
        RELU.replace("Relu", "LeakyRelu"), lambda m: m.graph.node[0].attribute.append(attribute)
    )
    case("attribute", leaky(made("alpha", 1.0)))
    case("attribute_of_other_type", leaky(made("alpha", 1)), "`alpha` is INT, expected FLOAT")
    case("attribute_without_name", leaky(made("", 1.0)), "has no name")

    def twice(model):
        model.graph.node[0].attribute.extend([made("alpha", 1.0)] * 2)

    case("attribute_twice", changed(RELU.replace("Relu", "LeakyRelu"), twice), "is a duplicate")
    case(
        "required", HEAD + "g (float[2] x) => (float[2] y) { y = Concat(x) }", "no attribute `axis`"
    )
    case(
        "attribute_without_type",
        leaky(AttributeProto(name="alpha", f=1.0)),
        None,
        "what it has says of which type it is, as in files of before IR version 3",
    )
    case("attribute_of_nothing", leaky(AttributeProto(name="alpha")), "has no type")
    case(
        "attribute_of_two_values",
        leaky(AttributeProto(name="alpha", f=1.0, i=3, type=AttributeProto.FLOAT)),
        "expected values of FLOAT alone, found FLOAT and INT",
    )
    case(
        "attribute_with_value_of_other_type",
        leaky(AttributeProto(name="alpha", i=3, type=AttributeProto.FLOAT)),
        "expected values of FLOAT alone, found INT",
    )
    case("attribute_of_default", leaky(AttributeProto(name="alpha", type=AttributeProto.FLOAT)))
    case(
        "tensor_attribute_without_tensor",
        changed(
            HEAD + "g () => (float[2] y) { y = Constant <value = float[2] {1, 2}> () }",
            lambda m: m.graph.node[0].attribute[0].ClearField("t"),
        ),
        "a tensor in an attribute",
    )
    case(
        "reference_outside_functions",
        leaky(AttributeProto(name="alpha", ref_attr_name="a", type=AttributeProto.FLOAT)),
        "refers to attribute `a` of a function, but is not in one",
        "there is nothing that it could stand for; the checker asks for nothing of it",
    )
    case(
        "tensor_attribute_is_broken",
        changed(
            HEAD + "g () => (float[2] y) { y = Constant <value = float[2] {1, 2}> () }",
            lambda m: m.graph.node[0].attribute[0].t.ClearField("float_data"),
        ),
        "attribute `value`: a tensor has no elements",
    )


def tensors():
    case("initializer", with_tensor(tensor(float_data=[1, 2])))
    case(
        "initializer_without_name",
        with_tensor(tensor("", float_data=[1, 2])),
        "initializer 0: has no name",
    )

    def twice(model):
        model.graph.initializer.extend([tensor(float_data=[1, 2])] * 2)

    case("initializer_twice", relu(twice), "has the name of another initializer")
    case(
        "initializer_that_is_no_input",
        with_tensor(tensor(float_data=[1, 2]), ir=3),
        "is not an input, which IR version 3 requires",
    )
    undefined = tensor(kind=0, float_data=[1, 2])
    case("tensor_of_undefined_type", with_tensor(undefined), "has no element type")
    without = tensor(raw_data=b"12345678")
    without.ClearField("data_type")
    case("tensor_without_type", with_tensor(without), "has no element type")
    case(
        "tensor_of_unknown_type",
        with_tensor(tensor(kind=99, raw_data=b"12345678")),
        "which ONNX does not have",
        "the checker asks the types of elements that are not raw alone",
    )
    case("tensor_without_elements", with_tensor(tensor()), "has no elements")
    case("empty_tensor", with_tensor(tensor(dims=[0])))
    case("empty_tensor_with_elements", with_tensor(tensor(dims=[0], float_data=[1])), "0 bytes")
    case(
        "elements_in_two_fields",
        with_tensor(tensor(float_data=[1, 2], int32_data=[1])),
        "expected elements in one field, found float_data and int32_data",
    )
    case(
        "elements_raw_and_typed",
        with_tensor(tensor(float_data=[1, 2], raw_data=bytes(8))),
        "expected elements in one field, found raw_data and float_data",
    )
    outside = tensor(float_data=[1, 2], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="outside")
    case(
        "elements_outside_and_inside",
        with_tensor(outside),
        "expected elements in one field, found float_data and external_data",
    )
    six = TensorProto.FLOAT6E2M3
    case("six_bits", with_tensor(tensor(dims=[1], kind=six, raw_data=b"\x3f"), ir=14))
    padding = "has padding bits after its last element that are not 0"
    case("six_bits_and_padding", with_tensor(tensor(dims=[1], kind=six, raw_data=b"\x40"), ir=14), padding)
    case("six_bits_typed", with_tensor(tensor(dims=[1], kind=six, int32_data=[63]), ir=14))
    case(
        "seven_bits",
        with_tensor(tensor(dims=[1], kind=six, int32_data=[64]), ir=14),
        "has elements that cannot be read",
    )
    case(
        "elements_in_field_of_other_type",
        with_tensor(tensor(int32_data=[1, 2])),
        "has no elements",
    )
    case("raw_texts", with_tensor(tensor(kind=TensorProto.STRING, raw_data=b"12")), "no elements")
    case("too_few_raw_elements", with_tensor(tensor(raw_data=b"1234")), "expected 8 bytes")
    case("too_few_elements", with_tensor(tensor(float_data=[1])), "expected 8 bytes")
    text = tensor(kind=TensorProto.STRING, string_data=[b"a"])
    case("too_few_texts", with_tensor(text), "expected as many strings")
    case(
        "too_many_raw_elements",
        with_tensor(tensor(raw_data=b"123456781234")),
        "expected 8 bytes",
        "what is left over belongs to nothing; some readers refuse it",
    )
    case("negative_extent", with_tensor(tensor(dims=[-2], float_data=[1, 2])), "0 or more")
    huge = tensor(dims=[1 << 40, 1 << 40], float_data=[1])
    case("extents_that_overflow", with_tensor(huge), "64 bits")
    outside = tensor(data_location=TensorProto.EXTERNAL)
    case("outside_nowhere", with_tensor(outside), "location")
    outside.external_data.add(key="location", value="/etc/passwd")
    case("outside_of_the_root", with_tensor(outside), "/etc/passwd")
    outside.external_data[0].value = "../w.bin"
    case("outside_above", with_tensor(outside), "../w.bin")
    outside.external_data[0].value = "absent.bin"
    case("outside_absent", with_tensor(outside), "has no elements")


def sparse():
    case("sparse", with_sparse([4], [1, 2], [0, 3], [2]))
    case("sparse_places", with_sparse([2, 2], [1, 2], [0, 1, 1, 0], [2, 2]))
    case(
        "sparse_descends",
        with_sparse([4], [1, 2], [3, 0], [2]),
        "sparse initializer 0 (`s`): index",
    )
    case("sparse_twice", with_sparse([4], [1, 2], [3, 3], [2]), "does not ascend")
    case("sparse_beyond", with_sparse([4], [1, 2], [0, 4], [2]), "is 4, expected 0 to 4 - 1")
    case("sparse_negative", with_sparse([4], [1, 2], [-1, 0], [2]), "is -1")
    case("sparse_places_descend", with_sparse([2, 2], [1, 2], [1, 0, 0, 1], [2, 2]), "not ascend")
    case("sparse_places_beyond", with_sparse([2, 2], [1, 2], [0, 1, 1, 2], [2, 2]), "is 2, not")
    case("sparse_scalar", with_sparse([], [1], [0], [1]), "sparse tensor of rank 0")
    case("sparse_of_nothing_at_all", with_sparse([0], [], [], [0]), "with a dim of 0")
    case("sparse_counts", with_sparse([4], [1, 2], [0, 1, 2], [3]), "expected 2 indices")
    case("sparse_rank", with_sparse([4], [1], [0], [1, 1, 1]), "expected 1 indices")
    indices = with_sparse([4], [1, 2], [0, 3], [2], TensorProto.INT32)
    case("sparse_of_int32", indices, "indices of int64")

    def rank(model):
        model.graph.sparse_initializer[0].values.dims[:] = [1, 2]

    made = with_sparse([4], [1, 2], [0, 3], [2])
    rank(made)
    case("sparse_values_of_rank_2", made, "one-dimensional values")
    made = with_sparse([4], [1, 2], [0, 3], [2])
    made.graph.sparse_initializer[0].ClearField("indices")
    case("sparse_without_indices", made, "the indices of a sparse tensor")
    made = with_sparse([4], [1, 2], [0, 3], [2])
    made.graph.sparse_initializer[0].ClearField("values")
    case("sparse_without_values", made, "the values of a sparse tensor")
    made = with_sparse([4], [1, 2], [0, 3], [2])
    made.graph.sparse_initializer[0].values.name = ""
    case("sparse_without_name", made, "has no name")
    made = with_sparse([4], [1, 2], [0, 3], [2])
    made.graph.initializer.append(tensor("s", float_data=[1, 2]))
    case("sparse_has_name_of_dense", made, "has the name of another initializer")


def functions():
    head = HEAD.replace('"" : 21', '"" : 21, "my" : 1')
    main = head + "g (float[2] x) => (float[2] y) { y = my.f(x) }\n"
    sets = '<domain: "my", opset_import: ["" : 21, "my" : 1]>\n'
    first = main + sets + "f (a) => (b) { b = Relu(a) }\n"
    edited = lambda change, text=first: changed(text, lambda m: change(m.functions[0]))
    case("function", first)
    case("function_twice", first + sets + "f (a) => (b) { b = Abs(a) }", "`f`: is a duplicate")
    overloads = changed(first + sets + "f (a) => (b) { b = Abs(a) }", lambda m: None)
    overloads.functions[1].overload = "other"
    case("function_overloaded", overloads)
    case("function_without_name", edited(lambda f: f.ClearField("name")), "has no name")
    case("function_without_set", edited(lambda f: f.ClearField("domain")), "has no domain")
    case("function_input_twice", edited(lambda f: f.input.append("a")), "input 1 (`a`)")
    case("function_output_twice", edited(lambda f: f.output.append("b")), "has duplicate output `b`")
    case(
        "function_attribute_twice",
        edited(lambda f: f.attribute.extend(["k", "k"])),
        "has duplicate attribute `k`",
    )
    case("function_reads_nothing", main + sets + "f (a) => (b) { b = Relu(z) }", "reads `z`")
    case(
        "function_reads_names_of_the_model",
        edited(lambda f: f.node[0].input.__setitem__(0, "x")),
        "the function `f`, operator 0 (`Relu`), input 0: reads `x`",
    )
    case(
        "function_writes_twice",
        main + sets + "f (a) => (b) { b = Relu(a) b = Abs(a) }",
        "writes `b`, which is already defined",
    )
    case(
        "function_output_of_nothing",
        edited(lambda f: f.output.__setitem__(0, "z")),
        "output 0 (`z`): is not defined by the block",
        "who puts the function in place of its call has nothing to put there",
    )
    case(
        "function_without_sets", edited(lambda f: f.ClearField("opset_import")), "the function does"
    )
    case("function_has_bad_operator", edited(lambda f: f.node[0].input.append("a")), "2 inputs")
    recursive = main + sets + "f (a) => (b) { b = my.f(a) }"
    case("function_calls_itself", recursive, "is recursive, or calls a recursive function")
    mutual = main + sets + "f (a) => (b) { b = my.h(a) }\n" + sets + "h (a) => (b) { b = my.f(a) }"
    case("functions_call_each_other", mutual, "`h`: is recursive, or calls a recursive function")
    hidden = main + sets + "f (a) => (b) { c = Constant <value = bool {1}> () b = If (c) <"
    hidden += (
        "then_branch = t () => (p) { p = my.f(a) }, else_branch = e () => (q) { q = Abs(a) }> }"
    )
    case("function_calls_itself_inside", hidden, "is recursive, or calls a recursive function")
    old = main + sets.replace("21", "13") + "f (a) => (b) { b = Relu(a) }\n"
    unlike = old.replace("Relu(a)", "Identity(a)")
    case("function_of_other_version", unlike, "differs between `ai.onnx` 13")
    case("function_of_like_version", old.replace("Relu(a)", "Neg(a)"))
    case(
        "function_before_there_were",
        changed(recursive, lambda m: put(m, ir_version=7)),
        "block 1 runs itself",
    )
    reference = main.replace("my.f(x)", "my.f <k = 2.0> (x)")
    reference += sets + "f <k> (a) => (b) { b = LeakyRelu <alpha: float = @k> (a) }"
    case("function_with_reference", reference)


def types():
    one = lambda text: HEAD + "g (float[2] x, int64[2] n) => (float[2] y) { %s }" % text
    case("types_agree", one("y = Add(x, x)"))
    case("types_differ", one("y = Add(x, n)"), "`B` is tensor(int64), where T is tensor(float)")
    case("type_is_not_allowed", one("z = Det(n) y = Relu(x)"), "which T does not allow")
    case("type_is_another", one("y = Reshape(x, x)"), "expected tensor(int64)")
    case("output_of_other_type", one("y = Abs(n)"), "output 0: `Y` is tensor(float), where T is")
    case("type_follows", one("z = Abs(n) y = Add(x, z)"), "operator 1 (`Add`), input 1: `B` is")
    text = HEAD + "g (float[2] x) => (float[2] y) <int64[2] w = {1, 2}> { y = Add(x, w) }"
    case("initializer_of_other_type", text, "`B` is tensor(int64), where T is tensor(float)")
    text = HEAD + "g (seq(float[2]) x) => (float[2] y) { y = Relu(x) }"
    case("sequence_for_a_tensor", text, "`X` is seq(tensor(float)), which T does not allow")
    text = HEAD + "g (seq(float[2]) x, int64 i) => (float[2] y) { y = SequenceAt(x, i) }"
    case("sequence", text)


def verdict(model, path, **options):
    # Some rules concern files beside the model.
    try:
        onnx.checker.check_model(path, **options)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        said = re.sub(re.escape(HERE) + "/?", "", str(error).strip())
        return said.splitlines()[0] if said else "refused"
    return None


def main():
    assert onnx.__version__ == PINNED, onnx.__version__
    for part in (versions, names, order, operators, attributes, tensors, sparse, functions, types):
        part()
    index = []
    for name, model, words, why in CASES:
        path = os.path.join(HERE, name + ".onnx")
        with open(path, "wb") as out:
            out.write(model.SerializeToString(deterministic=True))
        plain, full = verdict(model, path), verdict(model, path, full_check=True)
        differs = (words is None) != (full is None)
        assert differs == (why is not None), (name, plain, full)
        entry = {"name": name, "checker": plain, "full": full, "says": words}
        if why is not None:
            entry["why"] = why
        index.append(entry)
    with open(os.path.join(HERE, "index.json"), "w", encoding="utf-8") as out:
        json.dump({"framework": "onnx==" + PINNED, "cases": index}, out, indent=1)
        out.write("\n")


main()
