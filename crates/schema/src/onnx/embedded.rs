//! Tensors in the graphs of a program: in `Constant` operators and subgraphs.

use lodstone_model::{AttributeValue, Block, DType, Kind, Op, Parameter, Program, Tensor};
use lodstone_store::Blob;

/// Integers and strings of up to this many elements are arguments, such as axes, shapes and pads, rather than weights.
const MAX_ARGUMENT: u64 = 8;

/// Returns the weights that are no initializers of the main graph: values of `Constant` operators in all blocks, and
/// initializers of subgraphs.
pub(crate) fn embedded(program: &Program) -> Vec<Parameter> {
    let constants = |block: &Block| block.ops.iter().filter_map(constant).collect::<Vec<_>>();
    let initializers = |block: &Block| match block.parent {
        -1 => Vec::new(),
        _ => block.initializers.clone(),
    };
    let all = program.blocks.iter().flat_map(|block| [initializers(block), constants(block)]);
    all.flatten().filter(|parameter| is_weight(&parameter.tensor)).collect()
}

fn is_weight(tensor: &Tensor) -> bool {
    let count = tensor.shape.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim));
    let max = match tensor.dtype {
        DType::Int32 | DType::Int64 | DType::Bool | DType::String => MAX_ARGUMENT,
        _ => 1,
    };
    count.is_none_or(|count| count > max)
}

/// Returns the value of a `Constant` operator, under the name of its output.
fn constant(op: &Op) -> Option<Parameter> {
    if op.kind != "Constant" || !matches!(op.domain.as_str(), "" | "ai.onnx") {
        return None;
    }
    let name = op.writes().next().filter(|name| !name.is_empty())?;
    let tensor = op.attributes.iter().find_map(|attribute| value(&attribute.value))?;
    Some(Parameter { name: name.to_owned(), tensor })
}

fn value(value: &AttributeValue) -> Option<Tensor> {
    let list = |dtype: DType, count: usize, bytes: Vec<u8>| {
        Tensor::dense(dtype, vec![count as u64], Blob::memory(bytes))
    };
    Some(match value {
        AttributeValue::Tensor(tensor) | AttributeValue::SparseTensor(tensor) => {
            tensor.as_ref().clone()
        }
        AttributeValue::Floats(values) => {
            let bytes = values.iter().flat_map(|it| it.to_le_bytes()).collect();
            list(DType::Float32, values.len(), bytes)
        }
        AttributeValue::Longs(values) => {
            let bytes = values.iter().flat_map(|it| it.to_le_bytes()).collect();
            list(DType::Int64, values.len(), bytes)
        }
        AttributeValue::Strings(values) => {
            let elements: Vec<_> = values.iter().map(|text| text.0.clone()).collect();
            let shape = vec![elements.len() as u64];
            let mut tensor = Tensor::dense(DType::String, shape, Blob::default());
            tensor.kind = Kind::Strings { elements };
            tensor
        }
        _ => return None,
    })
}
