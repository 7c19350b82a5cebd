"""Runs ONNX's tests of its checker and its inference, and compares Lodstone's findings on their models.

    python onnx_suite.py TESTS JUDGE DIR

`TESTS` is `tests/python` of the source distribution of onnx, `JUDGE` the example `judge_onnx`, `DIR` an empty
directory. While the tests run, every model passed to the checker or inference is written to `DIR`, with the result. A
test passes if, for each of its models,

- Lodstone rejects it if and only if ONNX does;
- Lodstone infers everything that ONNX infers.

`onnx_differences.py` lists findings that ONNX lacks, and tests that are expected to fail, with reasons. A listed
finding that does not occur, or a listed test that passes, is an error.
"""

import os
import re
import shutil
import sys
import warnings

import onnx
import pytest
from onnx import TensorProto, helper

from onnx_differences import DIFFERENCES, STRICTER
from onnx_judge import findings, full_check, is_less, judged, type_of, types_of

# The tests that check models or infer types.
SUITES = [
    "checker_test.py", "compose_test.py", "data_propagation_test.py", "external_data_test.py", "fp6_test.py",
    "function_inference_test.py", "function_test.py", "helper_test.py", "inference_function_test.py",
    "inliner_test.py", "model_inference_test.py", "node_shape_inference_test.py", "opaque_type_test.py",
    "parser_test.py", "schema_test.py", "shape_inference_test.py", "split_shape_inference_test.py",
    "symbolic_shape_test.py", "tools_test.py", "version_converter_test.py",
]


class Call:
    """A call of the checker or of inference by a test, and its result."""

    def __init__(self, test, path, infers, refused, types):
        self.test, self.path, self.infers = test, path, infers
        self.refused, self.types = refused, types


class Recorder:
    """A pytest plugin that writes the models of the tests."""

    def __init__(self, directory):
        self.directory, self.test, self.calls, self.broken = directory, None, [], []

    def pytest_runtest_setup(self, item):
        self.test = item.nodeid.split("/")[-1]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.broken.append("{}: {}".format(report.nodeid, report.longreprtext.splitlines()[-1]))

    def write(self, model):
        path = os.path.join(self.directory, "{}.onnx".format(len(self.calls)))
        with open(path, "wb") as file:
            file.write(model if isinstance(model, bytes) else model.SerializeToString())
        return path

    def checked(self, model):
        """Records a checked model, with the result of `full_check`."""
        if isinstance(model, (str, os.PathLike)):
            # Paths of external data are relative to the file.
            directory = os.path.join(self.directory, str(len(self.calls)))
            source = os.fspath(model)
            shutil.copytree(os.path.dirname(source) or ".", directory, symlinks=True)
            path = os.path.join(directory, os.path.basename(source))
            self.calls.append(Call(self.test, path, False, full_check(path), {}))
        else:
            path = self.write(model)
            model = model if isinstance(model, bytes) else model.SerializeToString()
            self.calls.append(Call(self.test, path, False, full_check(model), {}))

    def inferred(self, model, run, types):
        """Records a model whose types are inferred by `run`; `types` extracts them from the result."""
        path = self.write(model)
        call = Call(self.test, path, True, None, {})
        self.calls.append(call)
        try:
            result = run()
        except Exception as error:
            call.refused = "{}: {}".format(type(error).__name__, error)
            raise
        call.types = types(result)
        return result


def imports_of(context):
    return [helper.make_opsetid(domain, version) for domain, version in context.opset_imports.items()]


def around(node_or_function, context=None, function=None):
    """Returns a model whose only function has a node, or that function."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    if function is None:
        node = node_or_function
        inputs = list(dict.fromkeys(name for name in node.input if name))
        outputs = list(dict.fromkeys(name for name in node.output if name))
        function = helper.make_function("test", "f", inputs, outputs, [node], imports_of(context))
    version = onnx.defs.onnx_opset_version()
    imports = {"": version, "test": 1}
    imports.update({set.domain: set.version for set in function.opset_import})
    imports = [helper.make_opsetid(domain, version) for domain, version in imports.items()]
    return helper.make_model(graph, functions=[function], opset_imports=imports)


def graph_around(**fields):
    """Returns a model that copies its input, with additional nodes in its graph."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    model = helper.make_model(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y]))
    for name, values in fields.items():
        getattr(model.graph, name).extend(values)
    return model


def watch_checker(recorder):
    checker, default = onnx.checker, onnx.checker.DEFAULT_CONTEXT

    def watched(name, model_of):
        original = getattr(checker, name)

        def check(proto, *arguments, **named):
            model = model_of(proto, *arguments, **named) if recorder.test else None
            if model is not None:
                recorder.checked(model)
            return original(proto, *arguments, **named)

        setattr(checker, name, check)

    def named(tensor):
        copy = type(tensor)()
        copy.CopyFrom(tensor)
        (copy.values if isinstance(tensor, onnx.SparseTensorProto) else copy).name = "tensor"
        return copy

    def of_graph(graph, ctx=default, *_):
        return helper.make_model(graph, opset_imports=imports_of(ctx), ir_version=ctx.ir_version)

    def of_attribute(attribute, ctx=default, *_):
        node = onnx.NodeProto(op_type="Op", domain="test", output=["y"], attribute=[attribute])
        return around(node, ctx_with_test(ctx))

    def ctx_with_test(_):
        context = checker.C.CheckerContext()
        context.opset_imports = {"": onnx.defs.onnx_opset_version(), "test": 1}
        return context

    protos = (onnx.TensorProto, onnx.SparseTensorProto)
    watched("check_model", lambda model, *_, **__: model)
    watched("check_graph", of_graph)
    watched("check_node", lambda node, ctx=default, *_: around(node, ctx))
    watched("check_attribute", of_attribute)
    watched("check_function", lambda function, *_: around(None, function=function))
    watched("check_tensor", lambda t, *_: graph_around(initializer=[named(t)]) if isinstance(t, protos) else None)
    watched("check_sparse_tensor", lambda t, *_: (
        graph_around(sparse_initializer=[named(t)]) if isinstance(t, protos) else None))
    watched("check_value_info", lambda info, *_: graph_around(input=[info]))


def watch_inference(recorder):
    module = onnx.shape_inference
    infer_shapes, infer_node, infer_function = (
        module.infer_shapes, module.infer_node_outputs, module.infer_function_output_types)

    def of_model(model, check_type=False, strict_mode=False, data_prop=False):
        def run():
            return infer_shapes(model, check_type, strict_mode, data_prop)

        if not isinstance(model, (onnx.ModelProto, bytes)) or not recorder.test:
            return run()
        result = recorder.inferred(model, run, types_of)
        # Without `strict_mode`, inference continues after errors.
        if not strict_mode:
            try:
                infer_shapes(model, True, True, data_prop)
            except Exception as error:  # noqa: BLE001
                recorder.calls[-1].refused = str(error)
        return result

    def of_node(schema, node, input_types, input_data=None, input_sparse_data=None, opset_imports=None, **more):
        def run():
            return infer_node(schema, node, input_types, input_data, input_sparse_data, opset_imports, **more)

        imports = opset_imports or [helper.make_opsetid(schema.domain, schema.since_version)]
        inputs = [helper.make_value_info(name, type) for name, type in input_types.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "g", inputs, outputs)
        for name, tensor in (input_data or {}).items():
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = name
        model = helper.make_model(graph, opset_imports=imports)
        return recorder.inferred(model, run, lambda found: {name: type_of(t) for name, t in found.items()})

    def of_function(function, input_types, attributes):
        def run():
            return infer_function(function, input_types, attributes)

        # An empty type stands for an omitted input.
        given = [name if type.WhichOneof("value") else ""
                 for name, type in zip(function.input, input_types)]
        inputs = [helper.make_value_info(name, type) for name, type in zip(given, input_types) if name]
        node = helper.make_node(function.name, given, list(function.output), domain=function.domain)
        node.attribute.extend(attributes)
        outputs = [onnx.ValueInfoProto(name=name) for name in function.output]
        graph = helper.make_graph([node], "g", inputs, outputs)
        imports = [*function.opset_import, helper.make_opsetid(function.domain, 1)]
        model = helper.make_model(graph, functions=[function], opset_imports=imports)

        def types(found):
            return {name: type_of(type) for name, type in zip(function.output, found)}

        return recorder.inferred(model, run, types)

    module.infer_shapes, module.infer_node_outputs, module.infer_function_output_types = (
        of_model, of_node, of_function)


def disagreement(call, found, stricter):
    """Describes a disagreement on a model, or returns None; adds patterns of `STRICTER` that occur to `stricter`."""
    if call.refused is not None:
        return None if findings(found) else "accepted, but ONNX reports: " + first_line(call.refused)
    wrong = []
    for finding in found["infer"] if call.infers and found["unreadable"] is None else findings(found):
        known = [pattern for pattern, _ in STRICTER if re.search(pattern, finding)]
        stricter.update(known)
        wrong += [] if known else [finding]
    if wrong:
        return "accepted by ONNX, but Lodstone reports: " + "; ".join(wrong)
    for name, theirs in call.types.items():
        less = is_less(theirs, found["types"].get(name))
        if less:
            return "{} of `{}`: {}, but ONNX infers {}".format(less, name, found["types"].get(name), theirs)
    return None


def first_line(message):
    return next((line for line in message.splitlines() if line.strip()), "")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    tests, judge, directory = (os.path.abspath(argument) for argument in sys.argv[1:])
    warnings.simplefilter("ignore")
    recorder = Recorder(directory)
    watch_checker(recorder)
    watch_inference(recorder)
    os.chdir(tests)
    status = pytest.main(
        ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "--rootdir", tests, *SUITES], [recorder])
    if status != 0:
        sys.exit("{} tests of ONNX fail with ONNX itself:\n{}".format(len(recorder.broken), "\n".join(recorder.broken)))
    found = judged(judge, [call.path for call in recorder.calls])
    problems, stricter = {}, set()
    for call, judgement in zip(recorder.calls, found):
        problem = disagreement(call, judgement, stricter)
        problems.setdefault(call.test, [])
        if problem:
            problems[call.test].append("{}: {}".format(os.path.basename(call.path), problem))
    report(problems, stricter, len(recorder.calls))


def report(problems, stricter, count):
    failed = 0
    for pattern, _ in STRICTER:
        if pattern not in stricter:
            failed += 1
            print("FAILED {}: listed as a finding that ONNX lacks, but never found".format(pattern))
    for test, wrong in sorted(problems.items()):
        known = [pattern for pattern, _ in DIFFERENCES if re.fullmatch(pattern, test)]
        if wrong and not known:
            failed += 1
            print("FAILED {}".format(test))
            for problem in wrong:
                print("    " + problem)
        elif known and not wrong:
            failed += 1
            print("FAILED {}: listed as a difference, but passes".format(test))
    for pattern, _ in DIFFERENCES:
        if not any(re.fullmatch(pattern, test) for test in problems):
            failed += 1
            print("FAILED {}: listed as a difference, but matches no test".format(pattern))
    agreeing = sum(not wrong for wrong in problems.values())
    print("{} models of {} tests, {} of which agree".format(count, len(problems), agreeing))
    print("{} passed, {} failed".format(len(problems) - failed, failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
