"""Writes `onnx_operators.tsv`, `onnx_types.tsv` and `onnx_releases.tsv`, beside this script.

    python make_onnx_operators.py

Run with onnx 1.23.2, whose registry has every version of every operator of its domains, and onnxruntime 1.31.1, which
has the operators of `com.microsoft`.

`onnx_operators.tsv` has a line for each version of an operator, its columns:

    domain   kind   first version   what else it is   inputs   their number   outputs   their number
    attributes   types

What else it is: `deprecated`, `experimental`, `function`. An input is `name:type`, its name followed by
`?` if it may be left out and `*` if there may be any number of it, `*~` if these may be of different
types. A number is `least-most`, or those that are allowed. An attribute is `name:type`, then `!` if
there has to be one and `=default` if it has one. A type is `T=n`: T stands for one of those in line n
of `onnx_types.tsv`, counted from 0.

`onnx_releases.tsv`: release, IR version, newest version of ai.onnx, ai.onnx.ml, ai.onnx.preview.training.
"""

import os
import re

import numpy as np
import onnx
import onnxruntime
from onnx import checker, defs, helper
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

PINNED = ("1.23.2", "1.31.1")
RUNTIME = "com.microsoft"
HERE = os.path.dirname(os.path.abspath(__file__))
ENDLESS = 2**31 - 1
NAMES = {"": "ai.onnx"}


def formal(parameter):
    mark = {"Single": "", "Optional": "?", "Variadic": "*"}[parameter.option.name]
    homogeneous = getattr(parameter, "is_homogeneous", None)
    if not (parameter.isHomogeneous if homogeneous is None else homogeneous):
        mark += "~"
    types = getattr(parameter, "type_str", None) or parameter.typeStr
    return "{}{}:{}".format(parameter.name, mark, types)


def number(schema, least, most, build):
    """Some operators allow not every number between the least and the most: the checker tells."""
    if most != ENDLESS and schema.domain != RUNTIME:
        allowed = []
        for count in range(least, most + 1):
            try:
                checker.check_node(build(count), context(schema))
                allowed.append(count)
            except checker.ValidationError as error:
                if "not in allowed" not in str(error):
                    allowed.append(count)
        if len(allowed) != most + 1 - least:
            return ",".join(map(str, allowed))
    return "{}-{}".format(least, "*" if most == ENDLESS else most)


def context(schema):
    told = checker.C.CheckerContext()
    told.ir_version = onnx.IR_VERSION
    told.opset_imports = {schema.domain: schema.since_version}
    return told


def with_inputs(schema):
    outputs = ["o"] * schema.min_output
    return lambda count: helper.make_node(schema.name, ["i"] * count, outputs, domain=schema.domain)


def with_outputs(schema):
    inputs = ["i"] * schema.min_input
    return lambda count: helper.make_node(schema.name, inputs, ["o"] * count, domain=schema.domain)


def default(proto):
    """The default of an attribute, or None. None of them has a comma or a space in it."""
    kind = proto.type
    if kind == onnx.AttributeProto.INT:
        return str(proto.i)
    if kind == onnx.AttributeProto.FLOAT:
        return str(np.float32(proto.f))
    if kind == onnx.AttributeProto.STRING:
        return proto.s.decode()
    if kind == onnx.AttributeProto.INTS:
        return ",".join(map(str, proto.ints))
    if kind == onnx.AttributeProto.FLOATS:
        return ",".join(str(np.float32(value)) for value in proto.floats)
    if kind == onnx.AttributeProto.STRINGS:
        return ",".join(value.decode() for value in proto.strings)
    assert kind == onnx.AttributeProto.UNDEFINED, proto
    return None


def default_of(schema):
    if hasattr(schema, "default_value"):
        return schema.default_value
    return onnx.AttributeProto.FromString(schema._default_value)


def attribute(schema):
    text = "{}:{}".format(schema.name, schema.type.name)
    if schema.required:
        text += "!"
    value = default(default_of(schema))
    if value is not None:
        assert " " not in value, schema.name
        text += "=" + value
    return text


def main():
    assert (onnx.__version__, onnxruntime.__version__) == PINNED
    sets, lines = {}, []

    def numbered(types):
        # The registry leaves out that what is in a map is a tensor.
        types = [re.sub(r"map\((\w+), (\w+)\)", r"map(\1,tensor(\2))", name) for name in types]
        return sets.setdefault(" ".join(sorted(types)), len(sets))

    order = lambda schema: (schema.domain, schema.name, schema.since_version)
    schemas = defs.get_all_schemas_with_history()
    schemas += [each for each in runtime.get_all_operator_schema() if each.domain == RUNTIME]
    for schema in sorted(schemas, key=order):
        experimental = schema.support_level.name == "EXPERIMENTAL"
        # The runtime does not say which of its operators are functions.
        is_own = schema.domain != RUNTIME
        function = is_own and (schema.has_function or schema.has_context_dependent_function)
        facts = [("deprecated", schema.deprecated), ("experimental", experimental)]
        facts.append(("function", function))
        columns = [NAMES.get(schema.domain, schema.domain), schema.name, str(schema.since_version)]
        columns.append(" ".join(name for name, there in facts if there))
        columns.append(" ".join(map(formal, schema.inputs)))
        columns.append(number(schema, schema.min_input, schema.max_input, with_inputs(schema)))
        columns.append(" ".join(map(formal, schema.outputs)))
        columns.append(number(schema, schema.min_output, schema.max_output, with_outputs(schema)))
        by_name = sorted(schema.attributes.values(), key=lambda each: each.name)
        columns.append(" ".join(map(attribute, by_name)))
        types = sorted(schema.type_constraints, key=lambda each: each.type_param_str)
        named = ["{}={}".format(t.type_param_str, numbered(t.allowed_type_strs)) for t in types]
        columns.append(" ".join(named))
        lines.append("\t".join(columns))
    write("onnx_operators.tsv", lines)
    write("onnx_types.tsv", sets)
    releases = [[str(part) for part in row] for row in helper.VERSION_TABLE]
    write("onnx_releases.tsv", ["\t".join(row) for row in releases])


def write(name, lines):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in lines)


main()
