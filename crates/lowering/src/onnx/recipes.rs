//! Recipes of tensors that rules compute themselves.

use lodstone_model::{Attribute, DType, Op, Recipe, Tensor};
use lodstone_schema::onnx::dtype;
use lodstone_store::Blob;

use super::int;

/// Returns a tensor without elements that has the recipe of an operator of ONNX on tensors.
pub(crate) fn step(kind: &str, inputs: &[&Tensor], attributes: Vec<Attribute>) -> Tensor {
    let inputs: Vec<Option<&Tensor>> = inputs.iter().copied().map(Some).collect();
    let op = Op { kind: kind.to_owned(), attributes, ..Op::default() };
    let recipe = Recipe::computed(&op, &inputs, 0);
    Tensor { recipe, ..Tensor::dense(DType::Unspecified, Vec::new(), Blob::default()) }
}

/// Returns a tensor without elements that has the recipe of a cast; without one if ONNX does not have the type.
pub(crate) fn cast(tensor: &Tensor, to: DType) -> Tensor {
    let code = dtype::code(to);
    let made = code.map(|code| step("Cast", &[tensor], vec![int("to", i64::from(code))]));
    made.unwrap_or_else(|| Tensor::dense(to, Vec::new(), Blob::default()))
}
