//! An operator that becomes Glow nodes, as its rule sees it.

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_schema::numbers::{Axis, Rank};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::places;

use super::graph::{Graph, Value, kind_of};
use super::known::{dims_from, value_of};
use crate::glow::elements::floats_of;

/// Why an operator has no equivalent.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The reason.
    What(Finding),
    /// One of its inputs has no equivalent, by the index of the failure that is reported for it.
    Before(usize),
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::What(message.into())
    }
}

impl From<Finding> for Fault {
    fn from(finding: Finding) -> Self {
        Self::What(finding)
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        Self::What(message.into())
    }
}

/// The outputs of an operator by position, `None` for those that are not computed.
pub(crate) type Outcome = Result<Vec<Option<Value>>, Fault>;

/// The rule that translates an operator.
pub(crate) type Rule = fn(&mut Cx<'_>) -> Outcome;

/// What a name is bound to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Its type and contents, as far as they are inferred.
    pub(crate) info: ValueInfo,
    /// The tensor of a constant, which is added to the graph when it is used.
    pub(crate) tensor: Option<Tensor>,
    /// The storage properties of a constant.
    pub(crate) storage: Storage,
    pub(crate) value: Option<Value>,
    /// The failure due to which there is no value.
    pub(crate) fault: Option<usize>,
}

/// An operator and its context.
pub(crate) struct Cx<'a> {
    pub(crate) graph: &'a mut Graph,
    pub(crate) entries: &'a mut Vec<Entry>,
    pub(crate) op: &'a Op,
    /// The base name of its nodes.
    pub(crate) base: String,
    /// The inputs, by position, as indices of entries.
    pub(crate) inputs: Vec<Option<usize>>,
    /// The inferred types of the outputs.
    pub(crate) outputs: Vec<ValueInfo>,
}

/// Returns the single output of an operator.
pub(crate) fn one(value: Value) -> Outcome {
    Ok(vec![Some(value)])
}

impl Cx<'_> {
    /// Whether the operator is recorded to have been a node of a kind.
    pub(crate) fn was(&self, kind: &str) -> bool {
        self.graph.kinds.get(&self.op.name).is_some_and(|recorded| *recorded == kind)
    }

    /// Returns the number of inputs, including omitted ones.
    pub(crate) fn count(&self) -> usize {
        self.inputs.len()
    }

    pub(crate) fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// Whether an output is used.
    pub(crate) fn wants(&self, index: usize) -> bool {
        self.op.output("").get(index).is_some_and(|name| !name.is_empty())
    }

    /// Returns the name of an input; empty if it is omitted.
    pub(crate) fn input_name(&self, index: usize) -> String {
        self.op.input("").get(index).cloned().unwrap_or_default()
    }

    /// Returns the name of an output; empty if it is omitted.
    pub(crate) fn output_name(&self, index: usize) -> String {
        self.op.output("").get(index).cloned().unwrap_or_default()
    }

    /// Returns a required input.
    pub(crate) fn input(&mut self, index: usize) -> Result<Value, Fault> {
        let found = self.optional(index)?;
        found.ok_or_else(|| absent(index))
    }

    /// Returns an optional input.
    pub(crate) fn optional(&mut self, index: usize) -> Result<Option<Value>, Fault> {
        match self.inputs.get(index).copied().flatten() {
            Some(entry) => value_of(self.graph, self.entries, entry).map(Some),
            None => Ok(None),
        }
    }

    fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.get(self.inputs.get(index).copied().flatten()?)
    }

    /// Returns what is inferred about an input.
    pub(crate) fn info(&self, index: usize) -> Option<&ValueInfo> {
        self.entry(index).map(|entry| &entry.info)
    }

    /// Returns the tensor of a constant input.
    pub(crate) fn tensor(&self, index: usize) -> Option<&Tensor> {
        self.entry(index)?.tensor.as_ref()
    }

    /// Returns the storage properties of a constant input.
    pub(crate) fn storage(&self, index: usize) -> Storage {
        self.entry(index).map(|entry| entry.storage.clone()).unwrap_or_default()
    }

    fn unknown(&self, index: usize) -> Fault {
        match self.entry(index) {
            Some(Entry { fault: Some(place), .. }) => Fault::Before(*place),
            Some(entry) => {
                let name = &entry.name;
                let wrong = format!(
                    "expected a constant as input {index}, found `{name}`, which is computed"
                );
                Fault::What(Finding::from(wrong).about_input(index))
            }
            None => absent(index),
        }
    }

    /// Returns the elements of an integer input, which must be known.
    pub(crate) fn ints(&self, index: usize) -> Result<Vec<i64>, Fault> {
        let known = self.info(index).and_then(ValueInfo::ints);
        known.ok_or_else(|| self.unknown(index))
    }

    /// Returns the value of an input that must be a known, single integer.
    pub(crate) fn integer(&self, index: usize) -> Result<i64, Fault> {
        match self.ints(index)?.as_slice() {
            [number] => Ok(*number),
            other => {
                let wrong = format!("expected one value, found {}", other.len());
                Err(Finding::from(wrong).about_input(index).into())
            }
        }
    }

    /// Returns the elements of a float input, which must be known.
    pub(crate) fn floats(&self, index: usize) -> Result<Vec<f32>, Fault> {
        let info = self.info(index).ok_or_else(|| self.unknown(index))?;
        if let Some(numbers) = info.floats() {
            return Ok(numbers.into_iter().map(narrow).collect());
        }
        let tensor = self.tensor(index).ok_or_else(|| self.unknown(index))?;
        floats_of(tensor).ok_or_else(|| self.unknown(index))
    }

    /// Returns the value of an input that must be a known, single float; the default if it is omitted.
    pub(crate) fn number(&self, index: usize, default: f32) -> Result<f32, Fault> {
        if !self.has(index) {
            return Ok(default);
        }
        match self.floats(index)?.as_slice() {
            [number] => Ok(*number),
            other => Err(format!("expected one value, found {}", other.len()).into()),
        }
    }

    /// Returns integers from an attribute or, in newer opsets, an input.
    pub(crate) fn ints_by(&self, name: &str, index: usize) -> Result<Option<Vec<i64>>, Fault> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(numbers)) => Ok(Some(numbers.clone())),
            Some(AttributeValue::Long(number)) => Ok(Some(vec![*number])),
            Some(_) => Err(Finding::from(format!("expected integers as `{name}`"))
                .about_attribute(name)
                .into()),
            None if self.has(index) => self.ints(index).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the integer attribute `name`, or the default.
    pub(crate) fn int(&self, name: &str, default: i64) -> Result<i64, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(number)) => Ok(*number),
            Some(_) => {
                Err(Finding::from(format!("expected an integer as `{name}`")).about_attribute(name))
            }
            None => Ok(default),
        }
    }

    /// Whether the integer attribute `name` is not 0.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Finding> {
        Ok(self.int(name, default.into())? != 0)
    }

    /// Returns the float attribute `name`, or the default.
    pub(crate) fn float(&self, name: &str, default: f32) -> Result<f32, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::Float(number)) => Ok(*number),
            Some(_) => {
                Err(Finding::from(format!("expected a float as `{name}`")).about_attribute(name))
            }
            None => Ok(default),
        }
    }

    /// Returns the string attribute `name`, or the default.
    pub(crate) fn text(&self, name: &str, default: &str) -> Result<String, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::String(text)) => Ok(text.to_string()),
            Some(_) => {
                Err(Finding::from(format!("expected a string as `{name}`")).about_attribute(name))
            }
            None => Ok(default.to_owned()),
        }
    }

    /// Returns the attribute `name`, a list of integers.
    pub(crate) fn longs(&self, name: &str) -> Result<Option<Vec<i64>>, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(numbers)) => Ok(Some(numbers.clone())),
            Some(AttributeValue::Unknown(0)) => Ok(Some(Vec::new())),
            Some(_) => {
                Err(Finding::from(format!("expected integers as `{name}`")).about_attribute(name))
            }
            None => Ok(None),
        }
    }

    /// Returns the attribute `name`, a list of strings.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::Strings(texts)) => {
                Ok(Some(texts.iter().map(ToString::to_string).collect()))
            }
            Some(_) => {
                Err(Finding::from(format!("expected strings as `{name}`")).about_attribute(name))
            }
            None => Ok(None),
        }
    }

    /// Returns the axis attribute `name` as a non-negative index.
    pub(crate) fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize, Finding> {
        from_front(self.int(name, default)?, rank).map_err(|finding| finding.about_attribute(name))
    }

    pub(crate) fn shape(&self, value: Value) -> Vec<i64> {
        self.graph.shape(value).to_vec()
    }

    /// Returns the dim of a value along an axis; negative axes count from the end.
    pub(crate) fn dim(&self, value: Value, axis: i64) -> Result<i64, Finding> {
        dim_of(self.graph.shape(value), axis)
    }

    pub(crate) fn rank(&self, value: Value) -> usize {
        self.graph.shape(value).len()
    }

    pub(crate) fn type_of(&self, value: Value) -> Type {
        self.graph.type_of(value)
    }

    /// Returns the type of a value with another shape.
    pub(crate) fn shaped(&self, value: Value, shape: Vec<i64>) -> Type {
        Type { shape, strides: None, ..self.graph.type_of(value) }
    }

    /// Returns the inferred shape of an output.
    pub(crate) fn shape_out(&self, index: usize) -> Result<Vec<i64>, Finding> {
        let info = self.outputs.get(index);
        info.and_then(dims_from)
            .ok_or_else(|| Finding::from("the shape of the output is unknown").about_output(index))
    }

    /// Returns the element kind of an output, from its inferred type.
    pub(crate) fn kind_out(&self, index: usize) -> Result<ElemKind, Finding> {
        let dtype = self.outputs.get(index).map_or(DType::Unknown(0), ValueInfo::dtype);
        kind_of(dtype).ok_or_else(|| format!("Glow has no element type {dtype}").into())
    }
}

/// Reports a required input that is missing.
fn absent(index: usize) -> Fault {
    let wrong = format!("expected input {index}, found none");
    Fault::What(Finding::from(wrong).about_input(index))
}

/// Returns the dim of a shape along an axis; negative axes count from the end.
pub(crate) fn dim_of(shape: &[i64], axis: i64) -> Result<i64, Finding> {
    places::at(shape, Rank::of(shape).axis(axis)?.index())
}

/// Converts an axis to a non-negative index.
pub(crate) fn from_front(axis: i64, rank: usize) -> Result<usize, Finding> {
    Rank::new(rank).axis(axis).map(Axis::index)
}

/// Returns the nearest `f32`.
#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
pub(crate) fn narrow(number: f64) -> f32 {
    number as f32
}
