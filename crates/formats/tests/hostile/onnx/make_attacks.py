"""Hostile ONNX models, named after the advisory or change that describes them.

    python make_attacks.py        # in this directory, with onnx 1.23.2

Writes them, and index.json with the expected result of each: for "refused", opening fails with an error that contains
all of the words; "broken" models open, but violate rules, with a finding that contains them; "harmless" ones are valid.

The test creates beside a model: a file `secret` above its directory, `link` and `hard`, which are
links to it, `linked`, a link to the directory above, a directory `junk`, and `weights`, 64 bytes of zeros.
"""

import json

import onnx
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT
INDEX = []


def write(name, model, outcome, *words):
    with open(name + ".onnx", "wb") as file:
        file.write(model if isinstance(model, bytes) else model.SerializeToString())
    INDEX.append({"file": name + ".onnx", "outcome": outcome, "words": list(words)})


def model_of(nodes, inputs=(), outputs=(), initializers=(), functions=(), opset=21):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    sets = [helper.make_opsetid("", opset)]
    sets += [helper.make_opsetid("own", 1)] if functions else []
    return helper.make_model(graph, opset_imports=sets, ir_version=10, functions=functions)


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def with_tensor(tensor):
    nodes = [helper.make_node("Identity", ["w"], ["y"])]
    return model_of(nodes, outputs=[value("y", list(tensor.dims))], initializers=[tensor])


def outside(entries, dims=(4,)):
    tensor = TensorProto(name="w", dims=dims, data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    for key, said in entries:
        tensor.external_data.add(key=key, value=said)
    return with_tensor(tensor)


def raw(dims, data):
    return with_tensor(TensorProto(name="w", dims=dims, data_type=FLOAT, raw_data=data))


def external():
    leads = ("leads out",)
    write("CVE-2022-25882-above", outside([("location", "../secret")]), "refused", *leads)
    write("CVE-2022-25882-absolute", outside([("location", "/etc/hostname")]), "refused", *leads)
    write("CVE-2022-25882-drive", outside([("location", "C:\\secret")]), "refused", *leads)
    write("CVE-2022-25882-share", outside([("location", "\\\\srv\\secret")]), "refused", *leads)
    write("CVE-2024-27318-through-a-directory", outside([("location", "junk/../../secret")]), "refused", *leads)
    write("CVE-2024-27318-prefix", outside([("location", "./junk/../../secret")]), "refused", *leads)
    write("CVE-2026-27489-link", outside([("location", "link")]), "refused", *leads)
    write("CVE-2026-27489-link-on-the-way", outside([("location", "linked/secret")]), "refused", *leads)
    write("CVE-2026-34446-hard-link", outside([("location", "hard")]), "refused", *leads)
    injected = [("location", "weights"), ("__class__", "x"), ("offset", "0"), ("length", "16")]
    write("GHSA-538c-55jv-c5g9-unknown-key", outside(injected), "harmless")
    lies = {
        "negative-offset": [("offset", "-1")],
        "huge-offset": [("offset", str(1 << 63))],
        "offset-at-the-end": [("offset", "49")],
        "negative-length": [("length", "-1")],
        "petabyte": [("length", str(1 << 50))],
        "beyond-64-bits": [("length", str(1 << 70))],
        "no-number": [("offset", "0x10")],
    }
    for name, entries in lies.items():
        model = outside([("location", "weights"), *entries])
        write("GHSA-538c-55jv-c5g9-" + name, model, "refused", "external data" if name == "no-number" else "`w`")
    many = outside([("location", "weights"), ("length", str(1 << 50))], dims=(1 << 48,))
    write("GHSA-538c-55jv-c5g9-petabyte-by-its-shape", many, "refused", "`w`")


def calls():
    own = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]

    def function(name, callee):
        nodes = [helper.make_node(callee, ["x"], ["y"], domain="own")]
        return helper.make_function("own", name, ["x"], ["y"], nodes, own)

    main = [helper.make_node("a", ["x"], ["y"], domain="own")]
    around = {"inputs": [value("x", [1])], "outputs": [value("y", [1])]}
    write("GHSA-7w46-vvrh-m8q5-itself", model_of(main, functions=[function("a", "a")], **around), "broken", "itself")
    two = [function("a", "b"), function("b", "a")]
    write("GHSA-7w46-vvrh-m8q5-each-other", model_of(main, functions=two, **around), "broken", "itself")
    # Each calls the next one twice: 2^30 operators after inlining.
    doubling = []
    for number in range(30):
        callee = f"f{number + 1}" if number < 29 else "Neg"
        domain = "own" if number < 29 else ""
        nodes = [
            helper.make_node(callee, ["x"], ["h"], domain=domain),
            helper.make_node(callee, ["h"], ["y"], domain=domain),
        ]
        doubling.append(helper.make_function("own", f"f{number}", ["x"], ["y"], nodes, own))
    first = [helper.make_node("f0", ["x"], ["y"], domain="own")]
    write("GHSA-7w46-vvrh-m8q5-doubling", model_of(first, functions=doubling, **around), "harmless")
    # Nested deeper than protobuf's own libraries support, so built by hand.
    def field(number, contents):
        size, length = len(contents), b""
        while size > 0x7F:
            length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + contents

    body = field(1, helper.make_node("Neg", ["x"], ["z"]).SerializeToString())
    rest = field(2, b"inner") + field(12, value("z", [1]).SerializeToString())
    for _ in range(200):
        branch = field(1, b"then_branch") + field(6, body + rest) + bytes([20 << 3 & 0x7F | 0x80, 1, 5])
        node = field(1, b"c") + field(2, b"z") + field(4, b"If") + field(5, branch)
        body = field(1, node)
    graph = field(7, body + rest + field(11, value("c", [], TensorProto.BOOL).SerializeToString()))
    write("GHSA-7w46-vvrh-m8q5-deep-blocks", b"\x08\x0a" + graph + b"\x42\x02\x10\x15", "refused", "levels")


def sizes():
    write("onnx-PR-8109-raw-data-too-short", raw([4], b"\0" * 12), "refused", "`w`")
    write("onnx-PR-8109-raw-data-too-long", raw([4], b"\0" * 20), "refused", "`w`")
    write("onnx-PR-8109-raw-data-odd", raw([4], b"\0" * 15), "refused", "`w`")
    write("onnx-PR-8109-no-raw-data", raw([4], b""), "broken", "has no elements")
    write("onnx-PR-8031-product-overflows", raw([1 << 31, 1 << 31, 4], b"\0" * 16), "refused", "`w`")
    write("onnx-PR-8031-product-wraps-to-nothing", raw([1 << 32, 1 << 32], b""), "refused", "`w`")
    write("onnx-PR-8277-negative-extent", raw([-4], b"\0" * 16), "refused", "`w`")
    write("onnx-PR-8277-nothing-times-much", raw([0, 1 << 40, 1 << 40], b""), "harmless")
    huge = (1 << 62) + 1
    shapes = [
        helper.make_node("Concat", ["x", "x", "x", "x"], ["sum"], axis=0),
        helper.make_node("Flatten", ["m"], ["flat"], axis=0),
    ]
    inputs = [value("x", [huge]), value("m", [1 << 40, 1 << 40])]
    wide = model_of(shapes, inputs, [value("sum", ["n"]), value("flat", ["a", "b"])])
    write("onnx-PR-8031-inference-adds-and-multiplies", wide, "broken", "below 2^63")


def malformed():
    """Every operator without inputs, with all inputs empty, and with too many."""
    newest = {}
    for schema in onnx.defs.get_all_schemas():
        if schema.domain == "" and not schema.deprecated:
            newest[schema.name] = schema
    schemas = sorted(newest.values(), key=lambda schema: schema.name)
    opset = onnx.defs.onnx_opset_version()
    ways = {
        "onnx-5990-without-inputs": lambda schema: [],
        "onnx-6195-inputs-left-out": lambda schema: [""] * max(1, len(schema.inputs)),
        "onnx-7055-too-many-inputs": lambda schema: ["x"] * (len(schema.inputs) + 3),
        "onnx-7302-one-input": lambda schema: ["x"],
        "onnx-7738-scalars": lambda schema: ["s"] * max(1, schema.min_input),
        "onnx-7879-nothing-known": lambda schema: ["u"] * max(1, schema.min_input),
    }
    inputs = [value("x", [2, 3]), value("s", []), value("u", None)]
    for name, given in ways.items():
        nodes = []
        for number, schema in enumerate(schemas):
            outputs = [f"y{number}_{index}" for index in range(max(1, schema.min_output))]
            nodes.append(helper.make_node(schema.name, given(schema), outputs))
        model = model_of(nodes, inputs, [value("y0_0", ["a"])], opset=opset)
        model.ir_version = onnx.IR_VERSION
        write(name, model, "broken", "operator ")


def main():
    external()
    calls()
    sizes()
    malformed()
    with open("index.json", "w", encoding="utf-8") as file:
        json.dump(INDEX, file, indent=1)
        file.write("\n")
    print(len(INDEX), "attacks")


if __name__ == "__main__":
    main()
