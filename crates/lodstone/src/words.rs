//! Short text forms of parts of programs.

use lodstone_model::{Attribute, AttributeValue, Tensor};

/// Returns text, truncated to 60 characters.
pub(crate) fn cut(text: &str) -> String {
    const MAX_LEN: usize = 60;
    match text.char_indices().nth(MAX_LEN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Returns the text form of an attribute value.
pub(crate) fn constant(value: &AttributeValue) -> String {
    use AttributeValue as A;
    match value {
        A::Bool(value) => value.to_string(),
        A::Int(value) => value.to_string(),
        A::Long(value) => value.to_string(),
        A::Float(value) => value.to_string(),
        A::Double(value) => value.to_string(),
        A::String(text) => format!("{:?}", text.to_string()),
        A::Bools(values) => format!("{values:?}"),
        A::Ints(values) => format!("{values:?}"),
        A::Longs(values) => format!("{values:?}"),
        A::Floats(values) => format!("{values:?}"),
        A::Doubles(values) => format!("{values:?}"),
        A::Strings(values) => format!("{values:?}"),
        A::Var(name) => name.clone(),
        A::Vars(names) => names.join(", "),
        A::Block(block) => format!("block {block}"),
        A::Blocks(blocks) => format!("blocks {blocks:?}"),
        A::Reference { name, .. } => format!("@{name}"),
        A::None => "none".to_owned(),
        A::List(values) => {
            format!("[{}]", values.iter().map(constant).collect::<Vec<_>>().join(", "))
        }
        A::Dict(entries) => {
            let one = |entry: &Attribute| format!("{:?}: {}", entry.name, constant(&entry.value));
            format!("{{{}}}", entries.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        A::Tensor(_) | A::Tensors(_) | A::SparseTensor(_) | A::SparseTensors(_)
            if value.tensors().next().is_some() =>
        {
            let what = |tensor: &Tensor| format!("{} {:?}", tensor.dtype, tensor.shape);
            value.tensors().map(what).collect::<Vec<_>>().join(", ")
        }
        value => format!("{value:?}"),
    }
}
