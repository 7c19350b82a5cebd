"""Converts a PaddlePaddle program to JSON: blocks of variables and operators with slots and attributes."""
import paddle

KINDS = getattr(paddle, "base", getattr(paddle, "fluid", None)).core.VarDesc.VarType
HAVE_TENSORS = (KINDS.LOD_TENSOR, KINDS.LOD_TENSOR_ARRAY)
# Attributes that record the origin and the device of an operator, not its computation.
LEFT_OUT = ("op_callstack", "op_device", "op_namescope", "op_role_var", "with_quant_attr")
# Slots that PaddlePaddle fills from sets, in arbitrary order.
SETS = {"while": ("X", "Out"), "conditional_block": ("Input", "Out")}


def is_parameter(var):
    """Whether a variable is a parameter, which descriptions of 1.8.5 do not hold."""
    desc = var.desc
    return desc.is_parameter() if hasattr(desc, "is_parameter") else type(var).__name__ == "Parameter"


def stops_gradient(var):
    """Whether a variable has no gradient, which descriptions of 1.8.5 do not hold."""
    desc = var.desc
    return desc.stop_gradient() if hasattr(desc, "stop_gradient") else var.stop_gradient


def of_var(var):
    """Returns name, kind, element type (codes of VarType), dims, LoD levels, and flags."""
    desc = var.desc
    facts = {"name": var.name, "kind": int(desc.type())}
    if desc.type() in HAVE_TENSORS:
        facts.update(dtype=int(desc.dtype()), shape=list(desc.shape()), lod_level=desc.lod_level())
    flags = {
        "persistable": desc.persistable(),
        "parameter": is_parameter(var),
        "stop_gradient": stops_gradient(var),
        "checked": desc.need_check_feed(),
    }
    facts["flags"] = [name for name, value in flags.items() if value]
    return facts


def of_attribute(op, name):
    kind = str(op.desc.attr_type(name)).rpartition(".")[2]
    if kind == "BLOCK":
        return [kind, op._block_attr_id(name)]
    value = op.attr(name)
    return [kind, list(value) if kind.endswith("S") else value]


def of_op(op):
    """Returns kind, slots that are not empty, and attributes with their types."""
    args = lambda slot, names: sorted(names) if slot in SETS.get(op.type, ()) else names
    slots = lambda names, of: {name: args(name, of(name)) for name in sorted(names) if of(name)}
    names = sorted(name for name in op.attr_names if name not in LEFT_OUT)
    return {
        "kind": op.type,
        "inputs": slots(op.input_names, op.input),
        "outputs": slots(op.output_names, op.output),
        "attributes": {name: of_attribute(op, name) for name in names},
    }


def of_program(program):
    return [
        {
            "parent": block.parent_idx,
            "vars": [of_var(var) for var in block.vars.values()],
            "ops": [of_op(op) for op in block.ops],
        }
        for block in program.blocks
    ]
