//! Recognizes integers that are dequantized by arithmetic, because no zero point can hold their offset or because
//! runtimes would interpret `DequantizeLinear` differently: the inverse of what [`to_onnx`](super::super::to_onnx)
//! writes.
//!
//! Only integers whose storage properties have the same scale and offset are recognized, so nothing is guessed.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Attribute, AttributeValue, Block, Op, Parameter, Tensor, Var};
use lodstone_schema::glow::ElemKind;
use lodstone_schema::onnx::domain_name;
use lodstone_schema::onnx::infer::ValueInfo;

use super::prepare::LOADER;
use super::storage;
use crate::glow::elements::floats_of;

/// The operators and values of the graph, by name.
struct Known<'m> {
    writers: HashMap<&'m str, &'m Op>,
    constants: HashMap<&'m str, &'m Tensor>,
    vars: HashMap<&'m str, &'m Var>,
}

/// A recognized dequantization.
struct Spelled {
    /// The integers; also their scales and offsets, if there is one for each element.
    inputs: Vec<String>,
    /// Intermediate values that nothing else may read.
    between: Vec<String>,
}

/// Replaces each recognized arithmetic by one operator.
pub(super) fn gather(main: &mut Block, parameters: &[Parameter]) {
    let known = Known {
        writers: main.ops.iter().flat_map(|op| op.writes().map(move |name| (name, op))).collect(),
        constants: parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect(),
        vars: main.vars.iter().map(|var| (var.name.as_str(), var)).collect(),
    };
    let found = main.ops.iter().map(|op| known.spelled(op)).collect::<Vec<_>>();
    let mut unread: HashSet<String> = HashSet::new();
    for (op, found) in main.ops.iter_mut().zip(found) {
        let Some(Spelled { inputs, between }) = found else { continue };
        unread.extend(between);
        if let [_] = *inputs {
            LOADER.clone_into(&mut op.domain);
            "Dequantize".clone_into(&mut op.kind);
        } else {
            "DequantizeLinear".clone_into(&mut op.kind);
            let axis = Attribute { name: "axis".to_owned(), value: AttributeValue::Long(0) };
            op.attributes.push(axis);
        }
        if let Some(operand) = op.inputs.first_mut() {
            operand.args = inputs;
        }
    }
    // Backwards, so that operators whose only readers are removed are removed too.
    let mut read: HashMap<String, usize> = HashMap::new();
    for name in main.ops.iter().flat_map(Op::reads).chain(main.outputs.iter().map(String::as_str)) {
        *read.entry(name.to_owned()).or_default() += 1;
    }
    let mut kept = Vec::with_capacity(main.ops.len());
    for op in main.ops.drain(..).rev() {
        let is_read = |name: &str| read.get(name).is_some_and(|count| *count > 0);
        let is_gone = op.writes().all(|name| unread.contains(name) && !is_read(name));
        if !is_gone || op.writes().next().is_none() {
            kept.push(op);
            continue;
        }
        for name in op.reads() {
            if let Some(count) = read.get_mut(name) {
                *count = count.saturating_sub(1);
            }
        }
    }
    kept.reverse();
    main.ops = kept;
}

impl<'m> Known<'m> {
    /// Returns the operator of a kind that writes a value.
    fn made(&self, name: &str, kind: &str) -> Option<&'m Op> {
        self.writers.get(name).copied().filter(|op| is(op, kind))
    }

    /// Recognizes `(integers - offset) * scale`, computed in floats.
    fn spelled(&self, op: &Op) -> Option<Spelled> {
        let [steps, scale] = operands(op).filter(|_| is(op, "Mul"))?;
        let [wide_steps] = self.made(steps, "Cast").and_then(operands)?;
        let [wide, offset] = self.made(wide_steps, "Sub").and_then(operands)?;
        let mut between = vec![steps.to_owned(), wide_steps.to_owned()];
        let integers = match self.made(wide, "Cast").and_then(operands) {
            Some([integers]) => {
                between.push(wide.to_owned());
                integers
            }
            None => wide,
        };
        let (scales, offsets) = (self.constants.get(scale)?, self.constants.get(offset)?);
        let text = match self.constants.get(integers) {
            Some(tensor) => tensor.doc_string.as_deref(),
            None => self.vars.get(integers)?.doc_string(),
        };
        let dtype = match self.constants.get(integers) {
            Some(tensor) => tensor.dtype,
            None => self.vars.get(integers)?.value.tensor_type()?.dtype,
        };
        let storage = storage::parse_storage(text, dtype)?;
        let declared = storage.quantization?;
        if scales.shape.is_empty() && offsets.shape.is_empty() {
            let [offset] = *ValueInfo::of(offsets).ints()? else { return None };
            let [scale] = *floats_of(scales)? else { return None };
            let is_declared =
                declared.0.to_bits() == scale.to_bits() && i64::from(declared.1) == offset;
            return is_declared.then(|| Spelled { inputs: vec![integers.to_owned()], between });
        }
        // A bias has a scale for each element.
        let shape = &self.constants.get(integers)?.shape;
        let fits = shape.len() == 1 && [&scales.shape, &offsets.shape] == [shape, shape];
        let fits = fits && storage.kind == Some(ElemKind::Int32Q) && offsets.dtype == dtype;
        let inputs = [integers, scale, offset].map(str::to_owned).to_vec();
        fits.then_some(Spelled { inputs, between })
    }
}

fn is(op: &Op, kind: &str) -> bool {
    op.kind == kind && domain_name(&op.domain) == "ai.onnx"
}

/// Returns the names of an operator's inputs, if there are exactly `N`.
fn operands<const N: usize>(op: &Op) -> Option<[&str; N]> {
    let names: Vec<&str> = op.input("").iter().map(String::as_str).collect();
    names.try_into().ok()
}
