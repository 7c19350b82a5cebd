"""Writes the golden files of ONNX.

    python make_onnx.py OUT_DIR

They cover every field of the specification, every element type in each of its encodings,
and every IR version. Files that ONNX's own functions
cannot write (types before there was a field for them, unknown fields) are built from its
messages.
"""

import os
import sys

import ml_dtypes
import numpy as np
import onnx
from google.protobuf import text_format
from onnx import TensorProto, TypeProto, helper, numpy_helper
from onnx.external_data_helper import convert_model_to_external_data

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "paddle"))
import facts

FRAMEWORK = "onnx=={}".format(onnx.__version__)
SCRIPT = os.path.basename(__file__)

# Each element type, and the field other than raw_data that its elements may be in.
TYPES = {
    "float32": (TensorProto.FLOAT, "float_data"),
    "uint8": (TensorProto.UINT8, "int32_data"),
    "int8": (TensorProto.INT8, "int32_data"),
    "uint16": (TensorProto.UINT16, "int32_data"),
    "int16": (TensorProto.INT16, "int32_data"),
    "int32": (TensorProto.INT32, "int32_data"),
    "int64": (TensorProto.INT64, "int64_data"),
    "bool": (TensorProto.BOOL, "int32_data"),
    "float16": (TensorProto.FLOAT16, "int32_data"),
    "float64": (TensorProto.DOUBLE, "double_data"),
    "uint32": (TensorProto.UINT32, "uint64_data"),
    "uint64": (TensorProto.UINT64, "uint64_data"),
    "complex64": (TensorProto.COMPLEX64, "float_data"),
    "complex128": (TensorProto.COMPLEX128, "double_data"),
    "bfloat16": (TensorProto.BFLOAT16, "int32_data"),
    "float8_e4m3fn": (TensorProto.FLOAT8E4M3FN, "int32_data"),
    "float8_e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, "int32_data"),
    "float8_e5m2": (TensorProto.FLOAT8E5M2, "int32_data"),
    "float8_e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, "int32_data"),
    "uint4": (TensorProto.UINT4, "int32_data"),
    "int4": (TensorProto.INT4, "int32_data"),
    "float4_e2m1fn": (TensorProto.FLOAT4E2M1, "int32_data"),
    "float8_e8m0fnu": (TensorProto.FLOAT8E8M0, "int32_data"),
    "uint2": (TensorProto.UINT2, "int32_data"),
    "int2": (TensorProto.INT2, "int32_data"),
    "float6_e2m3fn": (TensorProto.FLOAT6E2M3, "int32_data"),
    "float6_e3m2fn": (TensorProto.FLOAT6E3M2, "int32_data"),
}


def array_of(name, shape=(3, 5), seed=7):
    """Returns an array of a type, with values that careless readers misread."""
    random = np.random.RandomState(seed)
    if name in ("uint2", "int2", "uint4", "int4", "float4_e2m1fn"):
        bits = 2 if name.endswith("2") else 4
        codes = random.randint(0, 1 << bits, shape).astype("uint8")
        dtype = np.dtype(getattr(ml_dtypes, name))
        if name.startswith("int"):
            codes = (codes.astype("int8") - (1 << (bits - 1))).astype("int8")
            return codes.astype(dtype)
        return codes.view(dtype) if bits == 4 and "float" in name else codes.astype(dtype)
    if name.startswith("float6_"):
        return random.randint(0, 64, shape).astype("uint8").view(getattr(ml_dtypes, name))
    if name.startswith("float8"):
        return random.randint(0, 256, shape).astype("uint8").view(getattr(ml_dtypes, name))
    if name == "bfloat16":
        edges = np.array(facts.BFLOAT16_EDGES, "uint16")
        bits = random.randint(0, 1 << 16, shape).astype("uint16")
        bits.reshape(-1)[: len(edges)] = edges
        return bits.view(ml_dtypes.bfloat16)
    if name.startswith("uint"):
        return facts.integer_array(name.replace("uint", "int"), shape, seed).view(name)
    return facts.array_of(name, shape)


def packed_bytes(name, array):
    """Returns the bytes of `raw_data`: two or four small numbers per byte, the first in the lowest bits."""
    if name.startswith("float6_"):
        bits = sum(int(code) << (6 * i) for i, code in enumerate(array.reshape(-1).view("uint8")))
        return bits.to_bytes((6 * array.size + 7) // 8, "little")
    bits = 2 if name.endswith("int2") else 4 if name in ("uint4", "int4", "float4_e2m1fn") else 8
    if bits == 8:
        return facts.little_endian_bytes(array.view("uint8") if name.startswith("float8") else
                                         array.view("uint16") if name == "bfloat16" else array)
    flat = array.reshape(-1)
    codes = flat.view("uint8") if "float" in name else flat.astype("int8").view("uint8")
    codes = codes & ((1 << bits) - 1)
    each = 8 // bits
    codes = np.concatenate([codes, np.zeros(-len(codes) % each, "uint8")]).reshape(-1, each)
    return bytes(sum(int(code) << (bits * i) for i, code in enumerate(row)) for row in codes)


def fact(name, type_name, shape, data):
    import hashlib

    return {
        "name": name,
        "kind": "dense",
        "dtype": type_name,
        "shape": list(shape),
        "nbytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def raw_tensor(name, type_name, array):
    tensor = TensorProto(name=name, data_type=TYPES[type_name][0], dims=array.shape)
    tensor.raw_data = packed_bytes(type_name, array)
    return tensor


def typed_tensor(name, type_name, array):
    code, field = TYPES[type_name]
    tensor = TensorProto(name=name, data_type=code, dims=array.shape)
    data = packed_bytes(type_name, array)
    if type_name.startswith("float6_"):
        # One number per byte, of which six bits are used.
        tensor.int32_data.extend(array.reshape(-1).view("uint8").tolist())
        return tensor
    width = {"float_data": "<f4", "double_data": "<f8"}.get(field)
    if width is None:
        bits = array.dtype.itemsize * 8
        signed = type_name in ("int8", "int16", "int32", "int64")
        width = "{}{}".format("<i" if signed else "<u", max(bits // 8, 1))
    numbers = np.frombuffer(data, width)
    getattr(tensor, field).extend(numbers.tolist())
    return tensor


def value(name, type_code=TensorProto.FLOAT, shape=(3, 5)):
    return helper.make_tensor_value_info(name, type_code, shape)


def model_of(graph, opset=21, ir_version=10, **more):
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version, **more
    )
    return model


def identity_graph(name="g", initializers=(), nodes=None):
    nodes = nodes or [helper.make_node("Identity", ["x"], ["y"], name="copy")]
    return helper.make_graph(nodes, name, [value("x")], [value("y")], list(initializers))


class Golden:
    def __init__(self, out, index):
        self.out, self.index = out, index

    def path(self, name):
        path = os.path.join(self.out, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def add(self, name, tensors, others=(), **more):
        kind = "onnx-text" if name.endswith(".onnxtxt") else "onnx"
        self.index.add(name, kind, tensors, [name] + list(others), **more)

    def model(self, name, model, tensors=(), text=False, **more):
        data = model.SerializeToString(deterministic=True)
        self.bytes(name + ".onnx", data, tensors, **more)
        if text:
            with open(self.path(name + ".onnxtxt"), "w") as file:
                file.write(text_format.MessageToString(model))
            self.add(name + ".onnxtxt", list(tensors), **more)

    def bytes(self, name, data, tensors=(), **more):
        with open(self.path(name), "wb") as file:
            file.write(data)
        self.add(name, list(tensors), **more)


def make_types(golden):
    arrays = {name: array_of(name) for name in TYPES}
    described = [fact("w_" + n, n, a.shape, packed_bytes(n, a)) for n, a in arrays.items()]
    raw = [raw_tensor("w_" + n, n, a) for n, a in arrays.items()]
    typed = [typed_tensor("w_" + n, n, a) for n, a in arrays.items()]
    for name, tensors in (("types/raw", raw), ("types/typed", typed)):
        graph = identity_graph(initializers=tensors)
        golden.model(name, model_of(graph, 28, 14), described, text=True)
    large = array_of("int64", (300, 70))
    graph = identity_graph(initializers=[typed_tensor("w", "int64", large)])
    golden.model("types/large-varints", model_of(graph),
                 [fact("w", "int64", large.shape, packed_bytes("int64", large))])
    texts = ["", "plain", "größe\n", b"\xff\xfe\x00"]
    strings = TensorProto(name="words", data_type=TensorProto.STRING, dims=[2, 2])
    strings.string_data.extend([t if isinstance(t, bytes) else t.encode() for t in texts])
    empty = numpy_helper.from_array(np.zeros((0, 3), "float32"), "empty")
    scalar = numpy_helper.from_array(np.array(2.5, "float32"), "scalar")
    described = [
        {"name": "words", "kind": "strings", "dtype": "string", "shape": [2, 2],
         "texts": ["", "plain", "größe\n", "\ufffd\ufffd\0"]},
        fact("empty", "float32", (0, 3), b""),
        fact("scalar", "float32", (), np.array(2.5, "<f4").tobytes()),
    ]
    golden.model("types/others", model_of(identity_graph(initializers=[strings, empty, scalar])),
                 described, text=True)


def make_sparse(golden):
    values = numpy_helper.from_array(np.array([1.5, -2.0, 3.0], "float32"), "linear")
    indices = numpy_helper.from_array(np.array([1, 4, 11], "int64"), "linear_indices")
    values.doc_string, indices.doc_string = "some values", "and where they are"
    linear = helper.make_sparse_tensor(values, indices, [3, 5])
    values = numpy_helper.from_array(np.array([7, 8], "int64"), "places")
    indices = numpy_helper.from_array(np.array([[0, 3], [2, 1]], "int64"), "")
    places = helper.make_sparse_tensor(values, indices, [3, 5])
    graph = identity_graph()
    graph.sparse_initializer.extend([linear, places])
    dense = np.arange(6, dtype="float32").reshape(2, 3)
    graph.initializer.append(numpy_helper.from_array(dense, "dense"))
    described = [
        facts.dense("dense", dense),
        dict(facts.dense("linear", np.array([1.5, -2.0, 3.0], "float32")), kind="coo", shape=[3, 5],
             parts={"indices": ["int64", [1, 4, 11]]}),
        dict(facts.dense("places", np.array([7, 8], "int64")), kind="coo", shape=[3, 5],
             parts={"indices": ["int64", [0, 3, 2, 1]]}),
    ]
    constant = helper.make_node("Constant", [], ["c"], sparse_value=linear)
    graph.node.insert(0, constant)
    golden.model("sparse", model_of(graph), described, text=True)


def branch(name, scale):
    weight = numpy_helper.from_array(np.full((3, 5), scale, "float32"), "weight")
    node = helper.make_node("Mul", ["x", "weight"], [name + "_out"], name=name)
    return helper.make_graph([node], name, [], [value(name + "_out")], [weight])


def make_blocks(golden):
    inner = helper.make_node("If", ["flag"], ["y"], name="choose",
                             then_branch=branch("then", 2.0), else_branch=branch("else", 3.0))
    graph = helper.make_graph([inner], "choice", [value("x"), value("flag", TensorProto.BOOL, [])],
                              [value("y")])
    golden.model("blocks/if", model_of(graph), text=True, operators=[["If"], ["Mul"], ["Mul"]])

    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("If", ["go"], ["next"], then_branch=branch("then", 2.0),
                             else_branch=branch("else", 3.0)),
        ],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("before")],
        [value("go_on", TensorProto.BOOL, []), value("next")],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    graph = helper.make_graph([loop], "loop", [value("x"), value("count", TensorProto.INT64, [])],
                              [value("y")])
    golden.model("blocks/loop", model_of(graph), text=True,
                 operators=[["Loop"], ["Identity", "If"], ["Mul"], ["Mul"]])


def make_functions(golden):
    reference = helper.make_node("LeakyRelu", ["t"], ["r"])
    slope = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    reference.attribute.append(slope)
    nodes = [helper.make_node("Add", ["a", "b"], ["t"]), reference]
    function = helper.make_function(
        "local", "AddLeaky", ["a", "b"], ["r"], nodes, [helper.make_opsetid("", 21)], ["slope"],
        [helper.make_attribute("beta", 0.25)], overload="first",
        value_info=[value("t")],
    )
    call = helper.make_node("AddLeaky", ["x", "x"], ["y"], domain="local", overload="first", slope=0.1)
    graph = identity_graph(nodes=[call])
    model = model_of(graph, functions=[function])
    model.opset_import.append(helper.make_opsetid("local", 1))
    golden.model("functions", model, text=True, operators=[["AddLeaky"], ["Add", "LeakyRelu"]])


def make_attributes(golden):
    tensor = numpy_helper.from_array(np.arange(4, dtype="float32"), "t")
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([5.0], "float32"), "s"),
        numpy_helper.from_array(np.array([2], "int64"), "i"), [4])
    node = helper.make_node("Everything", ["x", "", "x"], ["y", ""], name="all", domain="custom",
                            f=1.5, i=-3, s="text", t=tensor, g=branch("graph", 1.0),
                            floats=[0.1, float("inf")], ints=[1, -1, 1 << 40], strings=["a", "ü"],
                            tensors=[tensor, tensor], graphs=[branch("first", 2.0)])
    node.attribute.append(helper.make_attribute("sparse", sparse))
    node.attribute.append(helper.make_attribute("sparses", [sparse, sparse]))
    tensor_type = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", None, 3])
    node.attribute.append(helper.make_attribute("tp", tensor_type))
    sequence = helper.make_sequence_type_proto(tensor_type)
    node.attribute.append(helper.make_attribute("types", [tensor_type, sequence]))
    for name, kind in (("none", onnx.AttributeProto.INTS), ("no_texts", onnx.AttributeProto.STRINGS)):
        node.attribute.add(name=name, type=kind)
    node.doc_string = "says\nmuch"
    node.attribute[0].doc_string = "a number"
    entry = node.metadata_props.add()
    entry.key, entry.value = "namespace", "layer/1"
    configuration = node.device_configurations.add(configuration_id="two", pipeline_stage=1)
    spec = configuration.sharding_spec.add(tensor_name="x", device=[0, 1])
    group = spec.index_to_device_group_map.add(key=-1)
    group.value.extend([0, 1])
    spec.sharded_dim.add(axis=0).simple_sharding.add(dim_param="batch", num_shards=2)
    graph = identity_graph(nodes=[node])
    model = model_of(graph, 21, 11)
    model.opset_import.append(helper.make_opsetid("custom", 3))
    model.configuration.add(name="two", num_devices=2, device=["a", "b"])
    golden.model("attributes", model, text=True)


def make_values(golden):
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", None, 3])
    unranked = TypeProto()
    unranked.tensor_type.elem_type = TensorProto.INT64
    sequence = helper.make_sequence_type_proto(helper.make_optional_type_proto(tensor))
    mapping = TypeProto()
    mapping.map_type.key_type = TensorProto.STRING
    mapping.map_type.value_type.CopyFrom(helper.make_sequence_type_proto(unranked))
    opaque = TypeProto()
    opaque.opaque_type.domain, opaque.opaque_type.name = "custom", "thing"
    sparse = helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [4, 4])
    denoted = helper.make_tensor_type_proto(TensorProto.FLOAT, [1, 3, 8, 8])
    denoted.denotation = "IMAGE"
    denoted.tensor_type.shape.dim[1].denotation = "DATA_CHANNEL"
    types = dict(t=tensor, unranked=unranked, seq=sequence, map=mapping, opaque=opaque,
                 sparse=sparse, image=denoted, untyped=TypeProto())
    values = [helper.make_value_info(name, kind) for name, kind in types.items()]
    values[0].doc_string = "the batch"
    node = helper.make_node("Mix", list(types), ["y"], domain="custom")
    graph = helper.make_graph([node], "values", values, [helper.make_value_info("y", sequence)])
    graph.value_info.add(name="between")
    # A value that is both an input and an output, with different declarations.
    graph.output.add(name="t").doc_string = "as it came"
    annotation = graph.quantization_annotation.add(tensor_name="t")
    scale = annotation.quant_parameter_tensor_names.add()
    scale.key, scale.value = "SCALE_TENSOR", "scale"
    graph.doc_string = "graph"
    model = model_of(graph)
    model.opset_import.append(helper.make_opsetid("custom", 1))
    model.producer_name, model.producer_version = "make_onnx", "1.0"
    model.domain, model.model_version, model.doc_string = "org.example", -5, "a model"
    for key, text in (("zebra", "1"), ("apple", "2"), ("zebra", "3"), ("", "empty")):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, text
    golden.model("values", model, text=True)


def make_training(golden):
    graph = identity_graph(initializers=[numpy_helper.from_array(np.ones(3, "float32"), "w")])
    model = model_of(graph)
    info = model.training_info.add()
    step = helper.make_node("Sub", ["w", "g"], ["w_new"])
    info.algorithm.CopyFrom(helper.make_graph([step], "step", [value("g", shape=[3])],
                                              [value("w_new", shape=[3])]))
    zero = numpy_helper.from_array(np.zeros(3, "float32"), "zero")
    info.initialization.CopyFrom(helper.make_graph([], "init", [], [value("zero", shape=[3])], [zero]))
    for bindings, key, text in ((info.update_binding, "w", "w_new"),
                                (info.initialization_binding, "w", "zero")):
        entry = bindings.add()
        entry.key, entry.value = key, text
    golden.model("training", model, [facts.dense("w", np.ones(3, "float32"))], text=True)


def make_versions(golden):
    weight = facts.array_of("float32", (3, 5))
    for version in range(1, 15):
        tensor = numpy_helper.from_array(weight, "w")
        node = helper.make_node("Add", ["x", "w"], ["y"])
        if version < 4:
            node.attribute.append(helper.make_attribute("broadcast", 1))
        inputs = [value("x")] + ([value("w")] if version < 4 else [])
        graph = helper.make_graph([node], "g", inputs, [value("y")], [tensor])
        model = helper.make_model(graph, ir_version=version)
        del model.opset_import[:]
        if version >= 3:
            model.opset_import.add().version = 6 if version == 3 else 7 + version
        else:
            # Before version 3 there were no opsets, and before 2 no attribute types.
            for attribute in model.graph.node[0].attribute:
                attribute.ClearField("type")
        golden.model("versions/ir{}".format(version), model, [facts.dense("w", weight)],
                     inputs=["x"], outputs=["y"])


def unpacked(tensor, field, numbers, fmt):
    """Returns a TensorProto whose elements are in typed fields, as no current writer stores them."""
    import struct

    out = tensor.SerializeToString(deterministic=True)
    for number in numbers:
        out += bytes([field << 3 | (5 if fmt == "<f" else 0)])
        out += struct.pack(fmt, number) if fmt == "<f" else varint(number)
    return out


def varint(number):
    out = b""
    number &= (1 << 64) - 1
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def delimited(field, data, pad=0):
    """Returns a field of bytes; `pad` makes its length longer than necessary."""
    length = varint(len(data))
    if pad:
        length = length[:-1] + bytes([length[-1] | 0x80]) + b"\x80" * (pad - 1) + b"\x00"
    return varint(field << 3 | 2) + length + data


def make_encodings(golden):
    floats = np.array([0.5, -1.5, 2.0], "float32")
    longs = np.array([1, -1, 300], "int64")
    graph = identity_graph().SerializeToString(deterministic=True)
    f = TensorProto(name="floats", data_type=TensorProto.FLOAT, dims=[3])
    l = TensorProto(name="longs", data_type=TensorProto.INT64, dims=[3])
    described = [facts.dense("floats", floats), facts.dense("longs", longs)]
    opset = delimited(8, varint(2 << 3) + varint(21))
    inside = graph + delimited(5, unpacked(f, 4, floats.tolist(), "<f"))
    inside += delimited(5, unpacked(l, 7, longs.tolist(), "v"))
    golden.bytes("encodings/unpacked.onnx", opset + delimited(7, inside) + b"\x08\x0a", described)

    split = f.SerializeToString() + delimited(4, floats[:1].tobytes()) + delimited(4, floats[1:].tobytes())
    also = l.SerializeToString() + delimited(7, b"".join(varint(int(n)) for n in longs[:2]))
    also += delimited(7, varint(300))
    inside = graph + delimited(5, split) + delimited(5, also)
    golden.bytes("encodings/split.onnx", b"\x08\x0a" + opset + delimited(7, inside), described)

    raw = f.SerializeToString() + delimited(9, floats.tobytes(), pad=3)
    inside = graph + delimited(5, raw, pad=2) + delimited(5, also, pad=1)
    golden.bytes("encodings/long-lengths.onnx", b"\x08\x8a\x80\x00" + opset + delimited(7, inside, pad=4),
                 described)

    unknown = delimited(2000, b"kept") + varint(2001 << 3) + varint(5) + varint(2002 << 3 | 5) + b"abcd"
    unknown += varint(2003 << 3 | 1) + b"abcdefgh"
    unknown += varint(2004 << 3 | 3) + varint(1 << 3) + varint(7) + varint(2004 << 3 | 4)
    node = helper.make_node("Identity", ["x"], ["y"]).SerializeToString() + unknown
    tensor = f.SerializeToString() + unknown + delimited(9, floats.tobytes())
    inside = delimited(1, node) + unknown + delimited(5, tensor)
    inside += delimited(11, value("x").SerializeToString() + unknown)
    inside += delimited(12, value("y").SerializeToString())
    golden.bytes("encodings/unknown-fields.onnx",
                 b"\x08\x0a" + unknown + delimited(7, inside) + opset, described[:1])


def make_external(golden):
    arrays = {
        "layer/weight": facts.array_of("float32", (40, 30)),
        "layer/bias": facts.array_of("float32", (30,)),
        "half": facts.array_of("float16", (64, 64)),
    }
    for name, one in (("external/one", True), ("external/each", False)):
        tensors = [numpy_helper.from_array(array, key.replace("/", "_") if not one else key)
                   for key, array in arrays.items()]
        described = [facts.dense(t.name, a) for t, a in zip(tensors, arrays.values())]
        model = model_of(identity_graph(initializers=tensors))
        convert_model_to_external_data(model, all_tensors_to_one_file=one,
                                       location="one.data" if one else None, size_threshold=256)
        folder = name if not one else "external"
        path = golden.path(name + ("/model.onnx" if not one else ".onnx"))
        onnx.save_model(model, path)
        relative = os.path.relpath(path, golden.out)
        others = sorted(os.path.join(folder, location) for location in {
            entry.value for tensor in onnx.load(path, load_external_data=False).graph.initializer
            for entry in tensor.external_data if entry.key == "location"})
        golden.add(relative, described, others)


def main(out):
    os.makedirs(out, exist_ok=True)
    index = facts.Index(out, SCRIPT, FRAMEWORK)
    golden = Golden(out, index)
    for make in (make_types, make_sparse, make_blocks, make_functions, make_attributes, make_values,
                 make_training, make_versions, make_encodings, make_external):
        make(golden)
    index.write()


if __name__ == "__main__":
    main(sys.argv[1])
