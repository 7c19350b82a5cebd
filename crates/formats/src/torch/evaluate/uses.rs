//! The element types of inputs, which the code does not declare, from what operators require of them.

use std::collections::HashMap;

use lodstone_model::{Block, DType, Op, TensorType, ValueType};

/// Operators and their arguments that are integers: ids, indices, offsets.
const INTEGERS: &[(&str, &str)] = &[
    ("aten::bincount", "self"),
    ("aten::embedding", "indices"),
    ("aten::embedding_bag", "indices"),
    ("aten::embedding_bag", "offsets"),
    ("aten::gather", "index"),
    ("aten::index_add", "index"),
    ("aten::index_select", "index"),
    ("aten::nll_loss", "target"),
    ("aten::one_hot", "self"),
    ("aten::scatter", "index"),
    ("aten::scatter_add", "index"),
    ("aten::take", "index"),
    ("aten::take_along_dim", "indices"),
];

/// Operators and their arguments that are truth values.
const TRUTHS: &[(&str, &str)] = &[
    ("aten::masked_fill", "mask"),
    ("aten::masked_fill_", "mask"),
    ("aten::masked_select", "mask"),
    ("aten::where", "condition"),
];

/// Operators whose result has the elements of their first argument, and its type.
const SAME: &[&str] = &[
    "aten::clone",
    "aten::contiguous",
    "aten::detach",
    "aten::expand",
    "aten::flatten",
    "aten::permute",
    "aten::reshape",
    "aten::select",
    "aten::slice",
    "aten::squeeze",
    "aten::t",
    "aten::transpose",
    "aten::unsqueeze",
    "aten::view",
];

/// The type that an operator requires of a variable.
fn required(op: &Op, name: &str) -> Option<DType> {
    let kind = op.kind.split('.').next().unwrap_or(&op.kind);
    let reads = |(known, slot): &(&str, &str)| {
        *known == kind && op.input(slot).iter().any(|argument| argument == name)
    };
    match () {
        () if INTEGERS.iter().any(reads) => Some(DType::Int64),
        () if TRUTHS.iter().any(reads) => Some(DType::Bool),
        () => None,
    }
}

/// Declares the element types of inputs that operators require.
pub(super) fn declare(blocks: &mut [Block]) {
    // What each variable is a view or copy of.
    let mut sources: HashMap<&str, &str> = HashMap::new();
    let mut found: HashMap<String, DType> = HashMap::new();
    for op in blocks.iter().flat_map(|block| &block.ops) {
        for name in op.reads() {
            if let Some(dtype) = required(op, name) {
                let source = sources.get(name).copied().unwrap_or(name);
                found.entry(source.to_owned()).or_insert(dtype);
            }
        }
        let kind = op.kind.split('.').next().unwrap_or(&op.kind);
        if let (true, [from], Some(to)) =
            (SAME.contains(&kind), op.input("self"), op.writes().next())
        {
            let source = sources.get(from.as_str()).copied().unwrap_or(from);
            sources.insert(to, source);
        }
    }
    let Some(main) = blocks.first_mut() else { return };
    for var in main.vars.iter_mut().filter(|var| main.inputs.contains(&var.name)) {
        let is_open = matches!(&var.value, ValueType::Tensor(known) if known.is_unspecified());
        if let Some(dtype) = found.get(&var.name).filter(|_| is_open) {
            var.value = ValueType::from(TensorType::new(*dtype, None));
        }
    }
}
