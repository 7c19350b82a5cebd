"""Writes `pir_operators.tsv`, beside this script: the operators of the installed PaddlePaddle's PIR.

    python make_pir_operators.py

Run with 3.3.1, which needs a C++ compiler: the facts are in the C++ registry (`OpYamlInfoInterface`) and in the table by
which PaddlePaddle itself translates older programs (`OpNameNormalizer`), and Python cannot read either.
`crates/schema/src/pir/operators.rs` describes the columns.

An operator of PIR may stand for several operators of a `ProgramDesc` (`reshape` and `reshape2`). The one is chosen that
`paddle_operators.tsv` has all slots of, that something computes, and that the newest release has. `OTHERS` has the
operators that PaddlePaddle does not translate by a table.
"""
import collections
import ctypes
import os
import subprocess
import sysconfig
import tempfile

import paddle

import paddle_table

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pir_operators.tsv")

# Operators whose counterpart is not among the candidates, with the slots of their operands and results. An attribute
# whose name is empty says nothing that the counterpart does not know.
RESHAPE_GRAD = {"x": "X", "out_grad": "Out@GRAD", "x_grad": "X@GRAD", "axis": ""}
OTHERS = {
    "affine_channel_grad": (
        "affine_channel_grad",
        {
            "x": "X", "scale": "Scale", "out_grad": "Out@GRAD",
            "x_grad": "X@GRAD", "scale_grad": "Scale@GRAD", "bias_grad": "Bias@GRAD",
        },
    ),
    "array_length": ("lod_array_length", {"x": "X", "out": "Out"}),
    "array_to_tensor": ("tensor_array_to_tensor", {"x": "X", "out": "Out", "out_index": "OutIndex"}),
    "deformable_conv": (
        "deformable_conv",
        {"x": "Input", "offset": "Offset", "filter": "Filter", "mask": "Mask", "out": "Output"},
    ),
    # The operators of these names read the shape that the forward operator kept; that of `reshape` reads its input.
    "flatten_grad": ("reshape_grad", RESHAPE_GRAD),
    "reshape_grad": ("reshape_grad", RESHAPE_GRAD),
    "squeeze_grad": ("reshape_grad", RESHAPE_GRAD),
    "unsqueeze_grad": ("reshape_grad", RESHAPE_GRAD),
    "meshgrid_grad": (
        "meshgrid_grad", {"inputs": "X", "out_grad": "outputs@GRAD", "inputs_grad": "X@GRAD"}
    ),
    "pad_grad": ("pad_grad", {"out_grad": "Out@GRAD", "x_grad": "X@GRAD"}),
    "repeat_interleave_with_tensor_index": (
        "repeat_interleave", {"x": "X", "repeats": "RepeatsTensor", "axis": "dim", "out": "Out"}
    ),
    "rnn": (
        "rnn",
        {
            "x": "Input", "pre_state": "PreState", "weight_list": "WeightList",
            "sequence_length": "SequenceLength",
            "out": "Out", "dropout_state_out": "DropoutState", "state": "State", "reserve": "Reserve",
        },
    ),
    "set_value_with_tensor": ("set_value", {"x": "Input", "values": "ValueTensor", "out": "Out"}),
    "sync_batch_norm": (
        "batch_norm",
        {
            "x": "X", "mean": "Mean", "variance": "Variance", "scale": "Scale", "bias": "Bias",
            "out": "Y", "mean_out": "MeanOut", "variance_out": "VarianceOut", "saved_mean": "SavedMean",
            "saved_variance": "SavedVariance", "reserve_space": "ReserveSpace",
            "data_format": "data_layout",
        },
    ),
    "transpose_grad": ("transpose_grad", {"out_grad": "Out@GRAD", "x_grad": "X@GRAD", "perm": "axis"}),
}

# Names of attributes that PaddlePaddle's table does not have, with the slots in which they may be computed.
NAMES = {
    ("increment", "value"): ("step",),
    ("repeat_interleave", "axis"): ("dim",),
    ("repeat_interleave", "repeats"): ("Repeats",),
    ("one_hot", "num_classes"): ("depth", "depth_tensor"),
    ("set_value_with_tensor", "starts"): ("starts", "StartsTensorList"),
    ("set_value_with_tensor", "ends"): ("ends", "EndsTensorList"),
    ("set_value_with_tensor", "steps"): ("steps", "StepsTensorList"),
    ("split", "axis"): ("axis", "AxisTensor"),
    ("split", "sections"): ("sections", "SectionsTensorList"),
}

# The header of the table of names includes a logging library that the package does not ship.
LOGGING = """#pragma once
#include <iostream>
#define VLOG(level) while (false) std::cerr
#define LOG(level) while (false) std::cerr
"""

SOURCE = r"""
#include <fstream>
#include <map>
#include "paddle/fluid/ir_adaptor/translator/op_compat_info.h"
#include "paddle/fluid/pir/dialect/operator/interface/op_yaml_info.h"
#include "paddle/fluid/pir/dialect/operator/ir/op_dialect.h"
#include "paddle/pir/include/core/ir_context.h"
#include "paddle/pir/include/core/op_info.h"

extern "C" void dump(const char* path) {
  std::ofstream out(path);
  auto* context = pir::IrContext::Instance();
  context->GetOrRegisterDialect<paddle::dialect::OperatorDialect>();
  auto& names = paddle::translator::OpNameNormalizer::instance();
  std::multimap<std::string, std::string> older;
  for (auto& [kind, name] : names.GetOpNameMappings()) older.emplace(name, kind);
  for (auto& [full, info] : context->registered_op_info_map()) {
    auto* interface = info.GetInterfaceImpl<paddle::dialect::OpYamlInfoInterface>();
    if (!interface || full.rfind("pd_op.", 0) != 0) continue;
    auto [inputs, attributes, outputs, runtime, phi] = interface->get_op_info_(full);
    std::string name = full.substr(6), bare = name;
    if (bare.back() == '_') bare.pop_back();
    out << "op\t" << name << "\n";
    for (auto& it : inputs)
      out << "in\t" << it.name << "\t" << it.type_name << "\t" << it.optional << it.is_mutable_attribute << "\n";
    for (auto& it : attributes) out << "attribute\t" << it.name << "\t" << it.type_name << "\n";
    for (auto& it : outputs) out << "out\t" << it.name << "\t" << it.type_name << "\t" << it.optional << "\n";
    for (auto& [result, operand] : runtime.inplace) out << "inplace\t" << result << "\t" << operand << "\n";
    std::vector<std::string> kinds{bare};
    for (auto& key : {name, bare, phi}) {
      auto [from, to] = older.equal_range(key);
      for (auto it = from; it != to; ++it) kinds.push_back(it->second);
    }
    for (auto& kind : kinds) {
      out << "kind\t" << kind << "\n";
      for (auto& it : inputs) {
        out << "slot\t" << it.name << "\t" << names.GetLegacyArgName(kind, it.name) << "\n";
        out << "name\t" << it.name << "\t" << names.GetLegacyAttrName(kind, it.name) << "\n";
        if (names.HasMutableAttribute(kind) && names.GetMutableAttributes(kind)->count(it.name))
          for (auto& slot : names.GetMutableAttributeInfos(kind, it.name))
            out << "tensor\t" << it.name << "\t" << slot << "\n";
      }
      for (auto& it : attributes) out << "name\t" << it.name << "\t" << names.GetLegacyAttrName(kind, it.name) << "\n";
      for (auto& it : outputs) out << "slot\t" << it.name << "\t" << names.GetLegacyArgName(kind, it.name) << "\n";
    }
  }
}
"""


class Operator:
    """An operator of PIR: operands, results and attributes as (name, type, ...), and its candidates by kind."""

    def __init__(self):
        self.inputs, self.outputs, self.attributes = [], [], []
        self.inplace, self.kinds = {}, {}


class Candidate:
    """The names of an operator of a `ProgramDesc`, by the names in PIR."""

    def __init__(self):
        self.slots, self.names = {}, {}
        self.tensors = collections.defaultdict(list)


def facts():
    """The operators of the installed release."""
    root = os.path.dirname(paddle.__file__)
    with tempfile.TemporaryDirectory() as scratch:
        os.mkdir(os.path.join(scratch, "glog"))
        with open(os.path.join(scratch, "glog", "logging.h"), "w") as header:
            header.write(LOGGING)
        source, library, told = (os.path.join(scratch, name) for name in ("dump.cc", "dump.so", "facts"))
        with open(source, "w") as file:
            file.write(SOURCE)
        includes = [scratch, f"{root}/include", f"{root}/include/third_party", sysconfig.get_paths()["include"]]
        libraries = [f"-L{root}/base", "-l:libpaddle.so", f"-L{root}/libs", "-l:libphi_core.so", "-l:libcommon.so"]
        flags = ["-std=c++17", "-O0", "-shared", "-fPIC", *(f"-I{path}" for path in includes)]
        subprocess.run(["g++", *flags, source, "-o", library, *libraries], check=True)
        ctypes.CDLL(library).dump(told.encode())
        with open(told) as file:
            return parse(file)


def parse(lines):
    operators = {}
    operator = candidate = None
    for line in lines:
        what, *rest = line.rstrip("\n").split("\t")
        if what == "op":
            operator = operators.setdefault(rest[0], Operator())
        elif what == "kind":
            candidate = operator.kinds.setdefault(rest[0], Candidate())
        elif what == "in":
            operator.inputs.append((rest[0], rest[1], rest[2][0] == "1", rest[2][1] == "1"))
        elif what == "attribute":
            operator.attributes.append((rest[0], rest[1]))
        elif what == "out":
            operator.outputs.append((rest[0], rest[1], rest[2] == "1"))
        elif what == "inplace":
            operator.inplace[rest[0]] = rest[1]
        elif what == "slot":
            candidate.slots[rest[0]] = rest[1]
        elif what == "name":
            candidate.names[rest[0]] = rest[1]
        elif what == "tensor" and rest[1] not in candidate.tensors[rest[0]]:
            candidate.tensors[rest[0]].append(rest[1])
    return operators


def fit(operator, kind, candidate, rows):
    """How well an operator of a `ProgramDesc` suits: larger is better."""
    row = rows.get(kind)
    if row is None:
        return (False,)
    slots = [candidate.slots[name] for name, _, optional, mutable in operator.inputs if not (optional or mutable)]
    results = [candidate.slots[name] for name, _, optional in operator.outputs[:1]]
    has_slots = all(slot in row.inputs for slot in slots) and all(slot in row.outputs for slot in results)
    releases = sorted(row.releases)
    return (has_slots, row.decisions[0] != "-", releases[-1:], releases[:1], len(kind))


def is_several(type_name):
    return "VectorType" in type_name


def columns(name, operator, rows):
    """The columns of an operator after its name."""
    bare = name.rstrip("_")
    kind, others = OTHERS.get(bare, (None, {}))
    if kind is None:
        suitable = [kind for kind, candidate in operator.kinds.items() if fit(operator, kind, candidate, rows)[0]]
        kind = max(suitable, key=lambda kind: fit(operator, kind, operator.kinds[kind], rows), default=None)
    candidate = operator.kinds.get(kind, Candidate())
    candidate.slots.update(others)
    candidate.names.update(others)
    for (operator_name, attribute), (new, *slots) in NAMES.items():
        if operator_name == bare:
            candidate.names[attribute] = new
            candidate.tensors[attribute] = slots
    row = rows.get(kind, paddle_table.Row())
    inputs = []
    for operand, type_name, optional, mutable in operator.inputs:
        marks = ("?" if optional else "") + ("*" if is_several(type_name) else "")
        if mutable and candidate.names.get(operand) in row.inputs:
            inputs.append(f"{operand}{marks}={candidate.names[operand]}")
        elif mutable:
            slots = [slot for slot in candidate.tensors[operand] if slot in row.inputs]
            slots.sort(key=lambda slot: "*" in row.inputs[slot])
            marked = [slot + ("*" if "*" in row.inputs[slot] else "") for slot in slots]
            inputs.append(f"{operand}{marks}@" + ",".join([candidate.names.get(operand, operand), *marked]))
        else:
            slot = candidate.slots.get(operand, "")
            inputs.append(f"{operand}{marks}=" + (slot if slot in row.inputs else ""))
    outputs = []
    for result, type_name, optional in operator.outputs:
        marks = ("?" if optional else "") + ("*" if is_several(type_name) else "")
        slot = candidate.slots.get(result, "")
        written = [operand for operand, *_ in operator.inputs if slot and slot == candidate.slots.get(operand, "") + "Out"]
        shared = operator.inplace.get(result, next(iter(written), None))
        outputs.append(f"{result}{marks}=" + (slot if slot in row.outputs else "") + (f"&{shared}" if shared else ""))
    attributes = [
        attribute if candidate.names.get(attribute, attribute) == attribute else f"{attribute}={candidate.names[attribute]}"
        for attribute, _ in operator.attributes
    ]
    return [kind or "-", " ".join(inputs), " ".join(outputs), " ".join(attributes)]


def main():
    rows = paddle_table.read()
    operators = facts()
    lines = {}
    for name, operator in operators.items():
        bare = name.rstrip("_")
        # An operator that works in place has the row of the one that does not, with what it overwrites.
        if name == bare and f"{bare}_" in operators:
            continue
        lines[bare] = columns(name, operator, rows)
    with open(TABLE, "w") as table:
        table.writelines("\t".join([name, *line]) + "\n" for name, line in sorted(lines.items()))
    print(len(lines), "operators")


if __name__ == "__main__":
    main()
