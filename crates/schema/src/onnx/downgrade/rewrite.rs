//! The tools of adapters: what is known about values, and the operators that replace one.

use std::collections::HashMap;

use lodstone_model::{
    Attribute, AttributeValue, ByteString, DType, Dim, Op, Operand, Parameter, Sources, Tensor,
};
use lodstone_store::Blob;

use super::super::NEWEST_OPSET;
use super::super::dtype;
use super::super::infer::{NoBodies, ValueInfo, infer_op};
use super::super::names::Names;
use crate::Finding;
use crate::numbers::{Axis, Rank};

/// An operator that replaces another one.
#[derive(Debug)]
pub(super) enum Step {
    /// In the form of the newest opset: it is written with the target's operators next.
    Newest(Op),
    /// In the form of the target opset.
    Final(Op),
}

/// An operator that is being replaced.
pub(super) struct Rewrite<'a> {
    /// The target opset.
    pub(super) opset: i64,
    block: usize,
    parents: &'a [i32],
    blocks: &'a [HashMap<String, ValueInfo>],
    /// The values of operators that were added.
    own: HashMap<String, ValueInfo>,
    names: &'a mut Names,
    parameters: &'a mut Vec<Parameter>,
    steps: Vec<Step>,
    /// The sources of the operator that is rewritten.
    sources: Sources,
}

impl<'a> Rewrite<'a> {
    pub(super) fn new(
        opset: i64,
        block: usize,
        parents: &'a [i32],
        blocks: &'a [HashMap<String, ValueInfo>],
        names: &'a mut Names,
        parameters: &'a mut Vec<Parameter>,
    ) -> Self {
        let (own, steps, sources) = Default::default();
        Self { opset, block, parents, blocks, own, names, parameters, steps, sources }
    }

    /// Begins to rewrite an operator.
    pub(super) fn begin(&mut self, op: &Op) {
        self.sources = op.sources.clone();
    }

    /// Returns the operators that were added since the last call.
    pub(super) fn take(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// Returns what is inferred about a value.
    pub(super) fn info(&self, name: &str) -> Option<&ValueInfo> {
        if name.is_empty() {
            return None;
        }
        if let Some(own) = self.own.get(name) {
            return Some(own);
        }
        let mut at = self.block;
        loop {
            if let Some(info) = self.blocks.get(at).and_then(|block| block.get(name)) {
                return Some(info);
            }
            let parent = self.parents.get(at).and_then(|parent| usize::try_from(*parent).ok());
            at = parent.filter(|parent| *parent < at)?;
        }
    }

    /// Returns the elements of an integer constant.
    ///
    /// # Errors
    /// If they are not known.
    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>, Finding> {
        let known = self.info(name).and_then(ValueInfo::ints);
        known.ok_or_else(|| format!("`{name}` is not a constant").into())
    }

    /// Returns the rank of a value.
    ///
    /// # Errors
    /// If it is unknown.
    pub(super) fn rank(&self, name: &str) -> Result<usize, Finding> {
        let dims = self.info(name).and_then(ValueInfo::shape);
        dims.map(<[Dim]>::len).ok_or_else(|| format!("the rank of `{name}` is unknown").into())
    }

    /// Returns a dim of a value.
    ///
    /// # Errors
    /// If it is not a fixed number.
    pub(super) fn dim(&self, name: &str, axis: usize) -> Result<i64, Finding> {
        let dims = self.info(name).and_then(ValueInfo::shape).unwrap_or_default();
        let known = match dims.get(axis) {
            Some(Dim::Known(size)) => i64::try_from(*size).ok(),
            _ => None,
        };
        known.ok_or_else(|| format!("dim {axis} of `{name}` is unknown").into())
    }

    /// Returns the element type of a value.
    pub(super) fn dtype(&self, name: &str) -> DType {
        self.info(name).map_or(DType::Float32, ValueInfo::dtype)
    }

    /// Returns a constant list of integers.
    pub(super) fn longs(&mut self, values: &[i64]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(Tensor::dense(DType::Int64, vec![values.len() as u64], Blob::memory(bytes)))
    }

    /// Returns a scalar of a type.
    ///
    /// # Errors
    /// If the type is unknown.
    pub(super) fn number(&mut self, dtype: DType, value: f64) -> Result<String, Finding> {
        let scalar = |dtype, bytes| Tensor::dense(dtype, Vec::new(), Blob::memory(bytes));
        if dtype == DType::Float64 {
            return Ok(self.constant(scalar(dtype, value.to_le_bytes().to_vec())));
        }
        #[expect(clippy::cast_possible_truncation, reason = "rounded to a single")]
        let single = value as f32;
        let name = self.constant(scalar(DType::Float32, single.to_le_bytes().to_vec()));
        match dtype {
            DType::Float32 => Ok(name),
            other => self.cast(&name, other),
        }
    }

    /// Casts a value.
    ///
    /// # Errors
    /// If ONNX does not have the type.
    pub(super) fn cast(&mut self, name: &str, to: DType) -> Result<String, Finding> {
        let code = dtype::code(to).ok_or_else(|| format!("ONNX does not have type {to}"))?;
        self.emit("Cast", &[name], vec![int("to", i64::from(code))])
    }

    /// Adds a constant.
    pub(super) fn constant(&mut self, tensor: Tensor) -> String {
        let name = self.names.fresh("constant");
        self.own.insert(name.clone(), ValueInfo::of(&tensor));
        self.parameters.push(Parameter { name: name.clone(), tensor });
        name
    }

    /// Adds an operator of the newest opset with one result; returns the name of the result.
    ///
    /// # Errors
    /// If the operator's rule rejects it.
    pub(super) fn emit(
        &mut self,
        kind: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
    ) -> Result<String, Finding> {
        let name = self.names.fresh(kind);
        self.emit_as(kind, inputs, attributes, &[&name])?;
        Ok(name)
    }

    /// Adds an operator of the newest opset with results of given names.
    ///
    /// # Errors
    /// If the operator's rule rejects it.
    pub(super) fn emit_as(
        &mut self,
        kind: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
        outputs: &[&str],
    ) -> Result<(), Finding> {
        let op = self.op(kind, inputs, attributes, outputs);
        let infos: Vec<Option<&ValueInfo>> = inputs.iter().map(|name| self.info(name)).collect();
        let inferred = infer_op(&op, NEWEST_OPSET, &infos, &mut NoBodies)?;
        for (name, info) in outputs.iter().zip(inferred) {
            self.own.insert((*name).to_owned(), info);
        }
        self.steps.push(Step::Newest(op));
        Ok(())
    }

    /// Adds an operator of the target opset.
    pub(super) fn put(
        &mut self,
        kind: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
        outputs: &[&str],
    ) {
        let op = self.op(kind, inputs, attributes, outputs);
        self.steps.push(Step::Final(op));
    }

    /// Returns a fresh name.
    pub(super) fn fresh(&mut self, what: &str) -> String {
        self.names.fresh(what)
    }

    fn op(
        &mut self,
        kind: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
        outputs: &[&str],
    ) -> Op {
        let args = |names: &[&str]| {
            let args = names.iter().map(|name| (*name).to_owned()).collect();
            vec![Operand { slot: String::new(), args }]
        };
        Op {
            name: outputs.first().map(|name| (*name).to_owned()).unwrap_or_default(),
            kind: kind.to_owned(),
            inputs: args(inputs),
            outputs: args(outputs),
            attributes,
            sources: self.sources.clone(),
            ..Op::default()
        }
    }
}

/// Returns an axis of a tensor of this rank; negative ones count from the last.
///
/// # Errors
/// If the tensor does not have it.
pub(super) fn axis_of(axis: i64, rank: usize) -> Result<Axis, Finding> {
    Rank::new(rank).axis(axis)
}

/// Returns the name of an input; empty if it is omitted.
pub(super) fn input(op: &Op, index: usize) -> &str {
    op.input("").get(index).map_or("", String::as_str)
}

/// Returns the names of all inputs.
pub(super) fn inputs(op: &Op) -> Vec<&str> {
    op.input("").iter().map(String::as_str).collect()
}

/// Returns the names of all outputs.
pub(super) fn outputs(op: &Op) -> Vec<&str> {
    op.output("").iter().map(String::as_str).collect()
}

/// Returns the name of the first output.
pub(super) fn output(op: &Op) -> &str {
    op.output("").first().map_or("", String::as_str)
}

/// Returns an integer attribute, or a default.
pub(super) fn int_of(op: &Op, name: &str, default: i64) -> i64 {
    match op.attribute(name) {
        Some(AttributeValue::Long(value)) => *value,
        Some(AttributeValue::Int(value)) => i64::from(*value),
        _ => default,
    }
}

/// Returns a float attribute, or a default.
pub(super) fn float_of(op: &Op, name: &str, default: f32) -> f32 {
    match op.attribute(name) {
        Some(AttributeValue::Float(value)) => *value,
        _ => default,
    }
}

/// Returns a string attribute, or a default.
pub(super) fn text_of(op: &Op, name: &str, default: &str) -> String {
    match op.attribute(name) {
        Some(AttributeValue::String(value)) => value.to_string(),
        _ => default.to_owned(),
    }
}

/// Returns the attributes without those of some names.
pub(super) fn without(op: &Op, names: &[&str]) -> Vec<Attribute> {
    let kept = op.attributes.iter().filter(|attribute| !names.contains(&attribute.name.as_str()));
    kept.cloned().collect()
}

/// Creates an integer attribute.
pub(super) fn int(name: &str, value: i64) -> Attribute {
    Attribute { name: name.to_owned(), value: AttributeValue::Long(value) }
}

/// Creates an attribute that is a list of integers.
pub(super) fn ints(name: &str, values: &[i64]) -> Attribute {
    Attribute { name: name.to_owned(), value: AttributeValue::Longs(values.to_vec()) }
}

/// Creates a float attribute.
pub(super) fn float(name: &str, value: f32) -> Attribute {
    Attribute { name: name.to_owned(), value: AttributeValue::Float(value) }
}

/// Creates a string attribute.
pub(super) fn text(name: &str, value: &str) -> Attribute {
    let value = AttributeValue::String(ByteString::from(value));
    Attribute { name: name.to_owned(), value }
}
