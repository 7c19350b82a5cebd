//! Checks of the types of an operator's inputs and outputs, where they are known.
//!
//! A type variable (`T`) stands for one type wherever it appears in an operator, except for variadic inputs and outputs
//! that may have different types. Usually the inputs bind it, which determines the types of outputs that declare none.

use std::collections::HashMap;

use lodstone_model::{Op, Tensor, ValueType};

use super::node::{arguments, is_experimental};
use super::walk::{TypeName, Walk};
use crate::Findings;
use crate::onnx::bound::Bound;
use crate::onnx::{Operator, domain_name, operator, tensor_name, type_name};

/// Returns the declared type of a value, if it is complete.
pub(super) fn of_value<'m>(value: &ValueType) -> Option<TypeName<'m>> {
    type_name(value).map(TypeName::Owned)
}

/// Returns the type of a tensor.
pub(super) fn of_tensor<'m>(tensor: &Tensor) -> Option<TypeName<'m>> {
    if super::values::is_sparse(tensor) {
        return super::super::dtype::element_name(tensor.dtype)
            .map(|name| TypeName::Owned(format!("sparse_tensor({name})")));
    }
    tensor_name(tensor.dtype).map(TypeName::Owned)
}

/// Checks the types of the inputs of an operator, and the declared types of its outputs.
pub(super) fn check(
    walk: &Walk<'_>,
    known: &Operator,
    (inputs, outputs): (&[&str], &[&str]),
    findings: &mut Findings,
) {
    let mut bound = Bound::default();
    for (number, name) in inputs.iter().enumerate() {
        let (Some(formal), Some(found)) = (known.input(number), walk.type_of(name)) else {
            continue;
        };
        if let Some(wrong) = bound.take(known, formal, found) {
            let place = format!("{}, input {number}", walk.place());
            findings.add(place, wrong.about_input(number));
        }
    }
    for (number, name) in outputs.iter().enumerate() {
        let (Some(formal), Some(found)) = (known.output(number), walk.declared(name)) else {
            continue;
        };
        if let Some(wrong) = bound.take(known, formal, &found) {
            let place = format!("{}, output {number}", walk.place());
            findings.add(place, wrong.about_output(number));
        }
    }
}

/// Returns the types of an operator's outputs, by index, as far as they follow from its inputs.
pub(super) fn written<'m>(walk: &Walk<'m>, op: &'m Op) -> HashMap<usize, TypeName<'m>> {
    let domain = domain_name(&op.domain);
    let version = walk.imports.get(domain).filter(|_| !is_experimental(op));
    let known = version.and_then(|version| operator(domain, &op.kind, *version));
    let Some(known) = known else { return HashMap::new() };
    let mut bound = Bound::default();
    for (number, name) in arguments(&op.inputs).into_iter().enumerate() {
        if let (Some(formal), Some(found)) = (known.input(number), walk.type_of(name)) {
            bound.take(known, formal, found);
        }
    }
    let outputs = 0..arguments(&op.outputs).len();
    outputs.filter_map(|number| Some((number, bound.of(known, known.output(number)?)?))).collect()
}
