"""Tries each value that `onnx_values.tsv` allows for an attribute, and another one, in ONNX Runtime and Lodstone.

    python onnx_values.py SCHEMA GOLDEN LODSTONE DIR

`SCHEMA` is `crates/schema/data`, `GOLDEN` is `crates/engine/tests/golden/onnx_runtime`, `LODSTONE` the command, `DIR` an empty
directory. The models are the node tests of onnx and those of `GOLDEN`, with one attribute changed. A row passes if

- ONNX Runtime accepts each allowed value in some model, or `ABSENT` has the reason;
- it rejects other values of a text in all models, or `LENIENT` lists what it computes instead; it reads integers that are
  neither 0 nor 1 in different ways, which are not tried;
- Lodstone computes what ONNX Runtime computes, and `run` and `verify` reject other values with a message that lists the
  allowed ones.

An entry of the lists that does not occur is an error.
"""

import os
import shutil
import subprocess
import sys
from collections import defaultdict

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

onnxruntime.set_default_logger_severity(4)

NAMES = {"": "ai.onnx"}
BOGUS = {"STRING": "no_such_value", "INT": 77}

# The newest versions that ONNX Runtime 1.31.1 reads, and older ones, for attributes and values that were removed.
OPSETS = [26, 21, 19, 16, 13, 9, 8, 6, 1]
IR_VERSION = 10

# The models in which a value is tried, at most.
MODELS = 4

# Values that ONNX Runtime accepts in no model: operator, attribute and, unless it is all, value: the reason.
ABSENT = {
    **{(kind, "layout", "1"): "batches come first in no kernel" for kind in ("GRU", "LSTM", "RNN")},
    **{(kind, "output_sequence"): "of version 1, whose models it does not read" for kind in ("GRU", "LSTM", "RNN")},
    **{(kind, "broadcast"): "of versions before 7, whose models it does not read" for kind in (
        "Add", "And", "Div", "Equal", "Gemm", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")},
    ("BatchNormalization", "is_test"): "of versions before 7",
    ("Dropout", "is_test"): "of versions before 7",
    ("BatchNormalization", "spatial", "0"): "not supported",
    ("Cast", "round_mode", "down"): "it has no float8_e8m0fnu",
    ("Cast", "round_mode", "nearest"): "it has no float8_e8m0fnu",
    ("Cast", "saturate", "0"): "of casts to 8-bit floats, which are not tried here",
    ("CastLike", "round_mode"): "it has no CastLike of the newest version",
    ("CastLike", "saturate"): "it has no CastLike of the newest version",
    ("CastMap", "cast_to"): "its inputs are maps, which are not tried here",
    ("CastMap", "map_form"): "its inputs are maps, which are not tried here",
    ("CausalConvWithState", "activation"): "of version 27",
    ("LinearAttention", "update_rule"): "of version 27",
    ("ConcatFromSequence", "new_axis"): "its inputs are sequences, which are not tried here",
    ("ImageDecoder", "pixel_format"): "it has no such kernel",
    ("Resize", "mode", "bilinear"): "only Glow writes it",
    ("Momentum", "mode"): "it has no such kernel",
    ("SpaceToDepth", "mode"): "of version 27",
    ("StringNormalizer", "case_change_action", "LOWER"): "needs a locale that is not installed everywhere",
    ("StringNormalizer", "case_change_action", "UPPER"): "needs a locale that is not installed everywhere",
    ("TreeEnsemble", "nodes_missing_value_tracks_true"): "no model has a number for each node",
    ("Upsample", "mode", "bilinear"): "of version 1, whose models it does not read",
    ("Attention", "do_rotary", "1"): "needs heads of other sizes",
    ("FusedGemm", "activation", "Clip"): "only FusedConv has it",
    ("FusedGemm", "activation", "HardSigmoid"): "only FusedConv has it",
    ("GroupNorm", "activation"): "it has no kernel for this processor",
    ("GroupNorm", "channels_last"): "it has no kernel for this processor",
}

# Attributes of which ONNX Runtime accepts any text: what it computes then.
LENIENT = {
    ("RoiAlign", "coordinate_transformation_mode"): "output_half_pixel",
    ("NegativeLogLikelihoodLoss", "reduction"): "mean",
    ("SoftmaxCrossEntropyLoss", "reduction"): "mean",
    ("ScatterElements", "reduction"): "none",
    ("ScatterND", "reduction"): "none",
}

# What Lodstone computes differently, with the reason.
DIFFERENT = {
    **{(kind, "activations", value): "has no default for a parameter: ONNX Runtime takes 0"
       for kind in ("GRU", "LSTM", "RNN") for value in ("Affine", "ScaledTanh", "ThresholdedRelu")},
    ("GRU", "activations", "Softplus"): "the state grows without limit",
    ("LSTM", "activations", "Softplus"): "the state grows without limit",
    ("DynamicQuantizeLSTM", "activations"): "the state grows without limit, and with it the rounding to 8 bits",
    ("Resize", "keep_aspect_ratio_policy", "not_smaller"): "it copies an input of the same size, whatever the region is",
    ("TopK", "sorted", "0"): "any order is allowed",
    ("TreeEnsemble", "post_transform", "1"): "it has other numbers than the specification: 1 is LOGISTIC",
    ("TreeEnsemble", "post_transform", "2"): "it has other numbers than the specification: 2 is SOFTMAX",
    ("LinearClassifier", "post_transform", "PROBIT"): "of a single score it writes one number a row, and leaves the rest",
    ("SVMClassifier", "post_transform", "PROBIT"): "of a single score it writes one number a row, and leaves the rest",
    ("MultiHeadAttention", "unidirectional", "1"): "with fewer queries than keys, its last query attends to all keys",
    ("QLinearAveragePool", "auto_pad"): "with ceil_mode, its windows are not those of ONNX",
}

# The tolerance of operators that round to 8 bits in between, relative to the largest number.
TOLERANCE = {"DynamicQuantizeLSTM": 1e-2, "QLinearAveragePool": 1e-2}


def main():
    schema, golden, lodstone, directory = sys.argv[1:]
    table = Table(schema)
    templates = collected(golden)
    judge = Judge(lodstone, directory)
    listed = {"absent": set(), "lenient": set(), "different": set()}
    failures = []
    for row in table.rows:
        models = templates.get(row.operator, [])
        for value in row.values:
            tried = (trial for model, inputs in models for trial in row.trials(model, inputs, value))
            runs = [(model, inputs, found) for model, inputs, found in tried if found is not None][:MODELS]
            if not runs:
                note(listed["absent"], ABSENT, row.keys(value), f"{row}: ONNX Runtime accepts {value!r} in no model", failures)
            for model, inputs, expected in runs:
                wrong = judge.differs(model, inputs, expected)
                if wrong:
                    what = f"{row}: {value!r}: {wrong}"
                    if note(listed["different"], DIFFERENT, row.keys(value), what, failures):
                        failures[-1] += f" ({judge.keep()})"
        bogus = BOGUS[row.kind.rstrip("S")]
        seen = False
        for model, inputs in models[:MODELS]:
            for model, inputs, found in row.trials(model, inputs, bogus, row.until):
                if found is not None and row.kind.startswith("STRING"):
                    note(listed["lenient"], LENIENT, row.keys(None), f"{row}: ONNX Runtime accepts {bogus!r}", failures)
                is_run = not any(key in ABSENT for key in row.keys(None))
                wrong = None if seen else judge.accepts(model, inputs if is_run else {}, row)
                seen = True
                if wrong:
                    failures.append(f"{row}: {bogus!r}: {wrong}")
    for name, entries in [("absent", ABSENT), ("lenient", LENIENT), ("different", DIFFERENT)]:
        failures += [f"{name}: {entry} did not occur" for entry in entries if entry not in listed[name]]
    for failure in failures:
        print(failure)
    print(f"{len(table.rows)} attributes of operators, {judge.runs} runs, {len(failures)} failures")
    sys.exit(bool(failures))


def note(seen, listed, keys, what, failures):
    """Records a listed difference, or a failure; returns whether it is one."""
    found = [key for key in keys if key in listed]
    seen.update(found)
    if not found:
        failures.append(what)
    return not found


class Row:
    """An attribute of an operator and its values."""

    def __init__(self, operator, since, attribute, kind, values):
        self.operator, self.since, self.attribute, self.kind, self.values = operator, since, attribute, kind, values
        # The version with other values.
        self.until = None

    def __str__(self):
        return f"{self.operator[1]} {self.attribute}"

    def keys(self, value):
        _, kind = self.operator
        return [(kind, self.attribute), (kind, self.attribute, value)]

    def trials(self, model, inputs, value, until=None):
        """The model with a value, in the newest opset before `until` that has the row's values, and what ONNX Runtime computes."""
        first = None
        for opset in [None, *OPSETS]:
            changed = with_opset(model, opset)
            schema = self.schema(changed)
            if schema is None or schema.since_version < self.since:
                continue
            if until is not None and schema.since_version >= until or self.attribute not in schema.attributes:
                continue
            node = changed.graph.node[0]
            for attribute in [each for each in node.attribute if each.name not in schema.attributes]:
                node.attribute.remove(attribute)
            self.set(node, value)
            found = computed(changed, inputs)
            if found is not None:
                yield changed, inputs, found
                return
            first = first or changed
        if first is not None:
            yield first, inputs, None

    def schema(self, model):
        node = model.graph.node[0]
        version = next(each.version for each in model.opset_import if each.domain in (node.domain, "ai.onnx" if not node.domain else ""))
        if node.domain == "com.microsoft":
            return Anything()
        try:
            return onnx.defs.get_schema(node.op_type, version, node.domain)
        except onnx.defs.SchemaError:
            return None

    def set(self, node, value):
        old = [each for each in node.attribute if each.name == self.attribute]
        if self.kind.startswith("INT"):
            value = int(value)
        if self.kind.endswith("S"):
            count = max([len(each.ints) + len(each.strings) for each in old], default=0) or self.count(node)
            texts = [text.decode() for each in old for text in each.strings]
            # The leaves of a tree stay, and its other nodes do not become leaves.
            value = [text if "LEAF" in (text, value) else value for text in texts] if "LEAF" in texts else [value] * count
        for each in old:
            node.attribute.remove(each)
        node.attribute.append(helper.make_attribute(self.attribute, value))

    def count(self, node):
        """The number of values that the operator needs."""
        if self.attribute == "activations":
            return {"RNN": 1, "GRU": 2}.get(node.op_type, 3) * (2 if b"bidirectional" in [each.s for each in node.attribute] else 1)
        return 1


class Anything:
    """The schema of an operator of ONNX Runtime."""

    since_version = 1

    @property
    def attributes(self):
        return self

    def __contains__(self, _):
        return True


class Table:
    """The rows of `onnx_values.tsv`."""

    def __init__(self, schema):
        kinds = {}
        for line in open(os.path.join(schema, "onnx_operators.tsv"), encoding="utf-8"):
            columns = line.rstrip("\n").split("\t")
            for word in columns[8].split():
                name, kind = word.split("=")[0].rstrip("!").split(":")
                kinds[columns[0], columns[1], name] = kind
        self.rows = []
        for line in open(os.path.join(schema, "onnx_values.tsv"), encoding="utf-8"):
            domain, attribute, operators, values = line.rstrip("\n").split("\t")
            values = ["" if value == '""' else value for value in values.split(" ")]
            for operator in operators.split(" "):
                kind, _, since = operator.partition("@")
                self.rows.append(Row((domain, kind), int(since or 1), attribute, kinds[domain, kind, attribute], values))
        for row in self.rows:
            others = [other for other in self.rows if (other.operator, other.attribute) == (row.operator, row.attribute)]
            row.until = min((other.since for other in others if other.since > row.since), default=None)


def collected(golden):
    """The models of one operator and their inputs, by domain and operator."""
    found = defaultdict(list)

    def add(model, inputs):
        nodes = model.graph.node
        if len(nodes) == 1 and all(isinstance(value, np.ndarray) for value in inputs.values()):
            model = onnx.ModelProto.FromString(model.SerializeToString())
            model.ir_version = min(model.ir_version, IR_VERSION)
            found[NAMES.get(nodes[0].domain, nodes[0].domain), nodes[0].op_type].append((model, inputs))

    for case in load_model_tests(kind="node"):
        values, _ = case.data_sets[0]
        values = [np.asarray(value) if np.isscalar(value) else value for value in values]
        add(case.model, dict(zip([value.name for value in case.model.graph.input], values)))
    for name in sorted(os.listdir(golden)):
        if name.endswith(".onnx"):
            model = onnx.load(os.path.join(golden, name))
            tensors = list(model.graph.initializer)
            inputs = {each.name[6:]: numpy_helper.to_array(each) for each in tensors if each.name.startswith("input.")}
            del model.graph.initializer[:]
            model.graph.initializer.extend(each for each in tensors if not each.name.startswith(("input.", "expected.")))
            add(model, inputs)
    return found


def with_opset(model, opset):
    """A copy of a model, with a version of ONNX's opset."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for each in model.opset_import:
        if opset and each.domain in NAMES:
            each.version = opset
    return model


def computed(model, inputs):
    """What ONNX Runtime computes; `None` if it rejects the model."""
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, inputs)
    except Exception:
        return None


class Judge:
    """Lodstone's command."""

    def __init__(self, lodstone, directory):
        self.lodstone, self.directory, self.runs, self.failed = lodstone, directory, 0, 0

    def run(self, *arguments):
        self.runs += 1
        return subprocess.run([self.lodstone, *arguments], capture_output=True, text=True)

    def prepared(self, model, inputs):
        path = os.path.join(self.directory, "model.onnx")
        onnx.save(model, path)
        given = []
        for number, (name, value) in enumerate(inputs.items()):
            of_input = os.path.join(self.directory, f"input_{number}.pb")
            with open(of_input, "wb") as out:
                out.write(numpy_helper.from_array(value, name).SerializeToString())
            given += ["-i", f"{name}={of_input}"]
        return path, given

    def keep(self):
        """Keeps the files of a failure; returns their directory."""
        self.failed += 1
        kept = os.path.join(self.directory, f"failed-{self.failed}")
        os.mkdir(kept)
        for name in os.listdir(self.directory):
            if not name.startswith("failed-"):
                shutil.copy(os.path.join(self.directory, name), kept)
        return kept

    def differs(self, model, inputs, expected):
        """Why the results differ from the expected ones, if they do."""
        path, given = self.prepared(model, inputs)
        out = os.path.join(self.directory, "out.npz")
        if os.path.exists(out):
            os.remove(out)
        done = self.run("run", path, *given, "-o", out, "-q", "--allow", "strings")
        if done.returncode:
            return done.stderr.strip()
        with np.load(out, allow_pickle=True) as found:
            for value, output in zip(expected, model.graph.output):
                if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                    same = found[output.name]
                    if same.shape != value.shape:
                        return f"{output.name} has shape {same.shape}, expected {value.shape}"
                    same, value = same.astype(float), value.astype(float)
                    finite = np.abs(value[np.isfinite(value)])
                    least = TOLERANCE.get(model.graph.node[0].op_type, 1e-4) * max(1.0, finite.max(initial=0.0))
                    if not np.allclose(same, value, 1e-3, least, equal_nan=True):
                        return f"{output.name} differs by up to {np.nanmax(np.abs(same - value))}"
        return None

    def accepts(self, model, inputs, row):
        """Why a model with another value passes, or the message lacks a part."""
        path, given = self.prepared(model, inputs)
        run = ["run", path, *given, "-o", os.path.join(self.directory, "other.npz"), "-q"]
        for arguments in ([run] if inputs else []) + [["verify", path]]:
            done = self.run(*arguments)
            said = done.stdout + done.stderr
            if done.returncode == 0:
                return f"{arguments[0]} accepts it"
            absent = [word for word in (row.attribute, *row.values) if f"`{word}`" not in said]
            if absent:
                return f"{arguments[0]} does not name {absent}: {said.strip()}"
        return None


if __name__ == "__main__":
    main()
