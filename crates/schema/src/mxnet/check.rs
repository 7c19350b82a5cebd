//! The rules of a program and its parameters: attributes, types of variables, and the shapes of parameters that attributes
//! determine.
//!
//! Source of truth: the shape inference of the operators of MXNet 1.9.1.

use std::collections::HashMap;

use lodstone_model::{AttributeValue, DType, Kind, Model, Op, Tensor, Var, some};

use super::{check_attributes, dtype_of, operator, real_name, variable_of};
use crate::onnx::{place_of, quoted};
use crate::{Finding, Findings};

/// Checks a model.
pub(super) fn check(model: &Model) -> Findings {
    let mut findings = Findings::default();
    let Some(program) = model.main() else { return findings };
    let parameters: HashMap<&str, &Tensor> =
        model.parameters.iter().map(|it| (variable_of(&it.name), &it.tensor)).collect();
    for (number, block) in program.blocks.iter().enumerate() {
        let graph = match number {
            0 => "the graph".to_owned(),
            _ => format!("subgraph {number}"),
        };
        for var in &block.vars {
            if let Err(finding) = check_variable(var) {
                findings.add(format!("{graph}, variable {}", quoted(&var.name)), finding);
            }
        }
        for (index, op) in block.ops.iter().enumerate() {
            let mut add = |finding| findings.add(place_of(&graph, index, op), finding);
            check_attributes(op).unwrap_or_else(&mut add);
            // Parameters are variables of the main graph.
            if number == 0 {
                check_parameters(op, &parameters).unwrap_or_else(&mut add);
            }
        }
    }
    findings
}

/// Checks the declared element type of a variable.
///
/// # Errors
/// If no release has a type of this number.
pub fn check_variable(var: &Var) -> Result<(), Finding> {
    let flag = var.attributes.iter().find(|attribute| attribute.name == "__dtype__");
    let Some(AttributeValue::String(text)) = flag.map(|flag| &flag.value) else { return Ok(()) };
    let text = text.to_string();
    let flag = text.trim().parse().ok();
    match flag == Some(-1) || flag.and_then(dtype_of).is_some() {
        true => Ok(()),
        false => {
            let what = format!(
                "expected a type from 0 to 12, or -1, as `__dtype__`, found {}",
                quoted(&text)
            );
            Err(Finding::from(what).about_attribute("__dtype__"))
        }
    }
}

/// A dim that attributes determine, or that is free.
type Expected = Option<u64>;

/// Checks the shapes of the parameters of an operator.
fn check_parameters(op: &Op, parameters: &HashMap<&str, &Tensor>) -> Result<(), Finding> {
    let Some(known) = operator(&op.kind) else { return Ok(()) };
    let shape = |slot: &str| {
        let index = known.inputs.iter().position(|known| *known == slot)?;
        let tensor = parameters.get(op.input("").get(index)?.as_str())?;
        // The elements of sparse tensors have shapes of their own.
        matches!(tensor.kind, Kind::Dense).then_some(tensor.shape.as_slice())
    };
    let expect = |slot: &str, expected: &[Expected]| match shape(slot) {
        Some(found) if !fits(found, expected) => {
            let expected =
                expected.iter().map(|dim| dim.map_or("?".to_owned(), |dim| dim.to_string()));
            let expected = expected.collect::<Vec<_>>().join(", ");
            Err(format!("expected the shape [{expected}] of `{slot}`, found {found:?}").into())
        }
        _ => Ok(()),
    };
    let number = |name: &str| -> Expected { text(op, name)?.trim().parse().ok() };
    let kernel = || text(op, "kernel").and_then(tuple);
    let groups = text(op, "num_group").map_or(Some(1), |text| text.trim().parse().ok());
    match real_name(&op.kind) {
        "FullyConnected" => {
            expect("weight", &[number("num_hidden"), None])?;
            expect("bias", &[number("num_hidden")])
        }
        kind @ ("Convolution" | "Convolution_v1" | "Deconvolution") => {
            let (Some(filters), Some(kernel)) = (number("num_filter"), kernel()) else {
                return Ok(());
            };
            let is_last = text(op, "layout").is_some_and(|layout| layout.trim().ends_with('C'));
            let filters_of = match (kind, groups) {
                ("Deconvolution", Some(groups)) if groups > 0 => Some(filters / groups),
                ("Deconvolution", _) => None,
                _ => Some(filters),
            };
            let kernel = kernel.into_iter().map(Some);
            let weight: Vec<Expected> = match (kind, is_last) {
                ("Deconvolution", true) => {
                    [None].into_iter().chain(kernel).chain([filters_of]).collect()
                }
                ("Deconvolution", false) => [None, filters_of].into_iter().chain(kernel).collect(),
                (_, true) => [filters_of].into_iter().chain(kernel).chain([None]).collect(),
                (_, false) => [filters_of, None].into_iter().chain(kernel).collect(),
            };
            expect("weight", &weight)?;
            expect("bias", &[Some(filters)])
        }
        "Embedding" => expect("weight", &[number("input_dim"), number("output_dim")]),
        "BatchNorm"
        | "BatchNorm_v1"
        | "CuDNNBatchNorm"
        | "InstanceNorm"
        | "LayerNorm"
        | "_contrib_BatchNormWithReLU"
        | "_contrib_SyncBatchNorm" => {
            let slots = ["gamma", "beta", "moving_mean", "moving_var"];
            let channels = slots.iter().find_map(|slot| shape(slot)?.first().copied());
            slots.iter().try_for_each(|slot| expect(slot, &[channels]))
        }
        _ => Ok(()),
    }
}

fn fits(found: &[u64], expected: &[Expected]) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(dim, expected)| expected.is_none_or(|it| it == *dim))
}

fn text<'a>(op: &'a Op, name: &str) -> Option<&'a str> {
    match op.attribute(name)? {
        AttributeValue::String(text) => std::str::from_utf8(&text.0).ok(),
        _ => None,
    }
}

/// Returns the numbers of a tuple.
fn tuple(text: &str) -> Option<Vec<u64>> {
    let inner = text.trim().trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
    let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.trim_end_matches('L').parse().ok()).collect()
}

/// Returns notes on parameters that the program does not use as they are stored, so that a file without the program is
/// another model.
pub(super) fn unused_values(model: &Model) -> Vec<String> {
    let main = model.main().and_then(|program| program.blocks.first());
    let mut names = Vec::new();
    for op in main.into_iter().flat_map(|main| &main.ops) {
        let is_fixed = super::attributes(&op.kind)
            .is_some_and(|it| it.values("fix_gamma").is_some())
            && !matches!(text(op, "fix_gamma").map(str::trim), Some("False" | "false" | "0"));
        let slots = operator(&op.kind).map_or(&[][..], |known| known.inputs.as_slice());
        let index = slots.iter().position(|slot| *slot == "gamma").filter(|_| is_fixed);
        let Some(name) = index.and_then(|index| op.input("").get(index)) else { continue };
        let gamma = model.parameters.iter().find(|it| variable_of(&it.name) == name);
        if gamma.is_some_and(|gamma| !is_one(&gamma.tensor)) {
            names.push(format!("`{name}`"));
        }
    }
    if names.is_empty() {
        return Vec::new();
    }
    let names = some(&names);
    vec![format!(
        "the program computes with 1 in place of these parameters (`fix_gamma`), which are written as stored: {names}"
    )]
}

/// Whether all elements of a tensor are 1.
fn is_one(tensor: &Tensor) -> bool {
    let one = match tensor.dtype {
        DType::Float64 => 1.0_f64.to_le_bytes().to_vec(),
        DType::Float32 => 1.0_f32.to_le_bytes().to_vec(),
        DType::Float16 => 0x3c00_u16.to_le_bytes().to_vec(),
        _ => return false,
    };
    let is_dense = matches!(tensor.kind, Kind::Dense);
    is_dense && tensor.data.bytes().is_ok_and(|bytes| bytes.chunks(one.len()).all(|it| it == one))
}
