//! An operator of ONNX that becomes nodes of Glow, and what is known around it.

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_schema::onnx::infer::ValueInfo;

use super::graph::{Graph, Value, kind_of};
use super::known::{extents, value_of};
use crate::glow::elements::floats_of;

/// Why an operator cannot be said.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// What stands in the way.
    What(Finding),
    /// Something before it cannot be said, which is told there.
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

/// What an operator gives: its outputs by position; one that is not given is none.
pub(super) type Outcome = Result<Vec<Option<Value>>, Fault>;

/// How an operator is said.
pub(super) type Rule = fn(&mut Cx<'_>) -> Outcome;

/// Something that a name stands for.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) name: String,
    /// What is known of it by the rules of ONNX.
    pub(super) info: ValueInfo,
    /// A constant, which becomes one of Glow where it is asked for.
    pub(super) tensor: Option<Tensor>,
    /// What is known of its storage, if it is a constant.
    pub(super) storage: Storage,
    pub(super) value: Option<Value>,
    /// The operator because of which there is no value.
    pub(super) fault: Option<usize>,
}

/// An operator, and what is known around it.
pub(super) struct Cx<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) entries: &'a mut Vec<Entry>,
    pub(super) op: &'a Op,
    /// What its nodes are called after.
    pub(super) base: String,
    /// What goes in, by position: numbers of entries.
    pub(super) inputs: Vec<Option<usize>>,
    /// What comes out by the rules of ONNX.
    pub(super) outputs: Vec<ValueInfo>,
}

/// The one output of most operators.
pub(super) fn one(value: Value) -> Outcome {
    Ok(vec![Some(value)])
}

impl Cx<'_> {
    /// Whether the operator is told to have been a node of a kind.
    pub(super) fn was(&self, kind: &str) -> bool {
        self.graph.kinds.get(&self.op.name).is_some_and(|told| *told == kind)
    }

    /// How many inputs there are, with those that are left out.
    pub(super) fn count(&self) -> usize {
        self.inputs.len()
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// Whether an output is asked for.
    pub(super) fn wants(&self, index: usize) -> bool {
        self.op.output("").get(index).is_some_and(|name| !name.is_empty())
    }

    /// The name of an input; empty if it is left out.
    pub(super) fn input_name(&self, index: usize) -> String {
        self.op.input("").get(index).cloned().unwrap_or_default()
    }

    /// The name of an output; empty if it is left out.
    pub(super) fn output_name(&self, index: usize) -> String {
        self.op.output("").get(index).cloned().unwrap_or_default()
    }

    /// An input that has to be there.
    pub(super) fn input(&mut self, index: usize) -> Result<Value, Fault> {
        let found = self.optional(index)?;
        found.ok_or_else(|| absent(index))
    }

    /// An input that may be left out.
    pub(super) fn optional(&mut self, index: usize) -> Result<Option<Value>, Fault> {
        match self.inputs.get(index).copied().flatten() {
            Some(entry) => value_of(self.graph, self.entries, entry).map(Some),
            None => Ok(None),
        }
    }

    fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.get(self.inputs.get(index).copied().flatten()?)
    }

    /// What is known of an input.
    pub(super) fn info(&self, index: usize) -> Option<&ValueInfo> {
        self.entry(index).map(|entry| &entry.info)
    }

    /// The tensor that an input is, if it is a constant.
    pub(super) fn tensor(&self, index: usize) -> Option<&Tensor> {
        self.entry(index)?.tensor.as_ref()
    }

    /// What is said of the storage of an input, if it is a constant.
    pub(super) fn storage(&self, index: usize) -> Storage {
        self.entry(index).map(|entry| entry.storage.clone()).unwrap_or_default()
    }

    fn unknown(&self, index: usize) -> Fault {
        match self.entry(index) {
            Some(Entry { fault: Some(place), .. }) => Fault::Before(*place),
            Some(entry) => {
                let name = &entry.name;
                let wrong = format!(
                    "expected constants as input {index}, found `{name}`, which is computed"
                );
                Fault::What(Finding::from(wrong).about_input(index))
            }
            None => absent(index),
        }
    }

    /// The integers that an input is known to be.
    pub(super) fn ints(&self, index: usize) -> Result<Vec<i64>, Fault> {
        let known = self.info(index).and_then(ValueInfo::ints);
        known.ok_or_else(|| self.unknown(index))
    }

    /// The one integer that an input is known to be.
    pub(super) fn integer(&self, index: usize) -> Result<i64, Fault> {
        match self.ints(index)?.as_slice() {
            [number] => Ok(*number),
            other => {
                let wrong = format!("expected one number, found {}", other.len());
                Err(Finding::from(wrong).about_input(index).into())
            }
        }
    }

    /// The numbers that an input is known to be.
    pub(super) fn floats(&self, index: usize) -> Result<Vec<f32>, Fault> {
        let info = self.info(index).ok_or_else(|| self.unknown(index))?;
        if let Some(numbers) = info.floats() {
            return Ok(numbers.into_iter().map(narrow).collect());
        }
        let tensor = self.tensor(index).ok_or_else(|| self.unknown(index))?;
        floats_of(tensor).ok_or_else(|| self.unknown(index))
    }

    /// The one number that an input is known to be; what it is otherwise if it is left out.
    pub(super) fn number(&self, index: usize, otherwise: f32) -> Result<f32, Fault> {
        if !self.has(index) {
            return Ok(otherwise);
        }
        match self.floats(index)?.as_slice() {
            [number] => Ok(*number),
            other => Err(format!("expected one number, found {}", other.len()).into()),
        }
    }

    /// Integers by an attribute or, in newer sets, an input.
    pub(super) fn ints_by(&self, name: &str, index: usize) -> Result<Option<Vec<i64>>, Fault> {
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

    /// An integer that is an attribute.
    pub(super) fn int(&self, name: &str, otherwise: i64) -> Result<i64, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(number)) => Ok(*number),
            Some(_) => {
                Err(Finding::from(format!("expected an integer as `{name}`")).about_attribute(name))
            }
            None => Ok(otherwise),
        }
    }

    /// Whether an attribute is not zero.
    pub(super) fn flag(&self, name: &str, otherwise: bool) -> Result<bool, Finding> {
        Ok(self.int(name, otherwise.into())? != 0)
    }

    /// A number that is an attribute.
    pub(super) fn float(&self, name: &str, otherwise: f32) -> Result<f32, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::Float(number)) => Ok(*number),
            Some(_) => Err(Finding::from(format!("expected a number with a fraction as `{name}`"))
                .about_attribute(name)),
            None => Ok(otherwise),
        }
    }

    /// A text that is an attribute.
    pub(super) fn text(&self, name: &str, otherwise: &str) -> Result<String, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::String(text)) => Ok(text.to_string()),
            Some(_) => {
                Err(Finding::from(format!("expected a text as `{name}`")).about_attribute(name))
            }
            None => Ok(otherwise.to_owned()),
        }
    }

    /// Integers that are an attribute.
    pub(super) fn longs(&self, name: &str) -> Result<Option<Vec<i64>>, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(numbers)) => Ok(Some(numbers.clone())),
            Some(AttributeValue::Unknown(0)) => Ok(Some(Vec::new())),
            Some(_) => {
                Err(Finding::from(format!("expected integers as `{name}`")).about_attribute(name))
            }
            None => Ok(None),
        }
    }

    /// Texts that are an attribute.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Finding> {
        match self.op.attribute(name) {
            Some(AttributeValue::Strings(texts)) => {
                Ok(Some(texts.iter().map(ToString::to_string).collect()))
            }
            Some(_) => {
                Err(Finding::from(format!("expected texts as `{name}`")).about_attribute(name))
            }
            None => Ok(None),
        }
    }

    /// An axis that is an attribute, from the front.
    pub(super) fn axis(&self, name: &str, otherwise: i64, rank: usize) -> Result<usize, Finding> {
        from_front(self.int(name, otherwise)?, rank)
            .map_err(|finding| finding.about_attribute(name))
    }

    pub(super) fn shape(&self, value: Value) -> Vec<i64> {
        self.graph.shape(value).to_vec()
    }

    /// The extent of a value along an axis; negative ones count from the end.
    pub(super) fn extent(&self, value: Value, axis: i64) -> Result<i64, Finding> {
        extent_of(self.graph.shape(value), axis)
    }

    pub(super) fn rank(&self, value: Value) -> usize {
        self.graph.shape(value).len()
    }

    pub(super) fn type_of(&self, value: Value) -> Type {
        self.graph.type_of(value)
    }

    /// The type of a value with another shape.
    pub(super) fn shaped(&self, value: Value, shape: Vec<i64>) -> Type {
        Type { shape, strides: None, ..self.graph.type_of(value) }
    }

    /// The shape that an output has by the rules of ONNX.
    pub(super) fn shape_out(&self, index: usize) -> Result<Vec<i64>, Finding> {
        let info = self.outputs.get(index);
        info.and_then(extents).ok_or_else(|| {
            Finding::from("the shape of what it gives is not known").about_output(index)
        })
    }

    /// The kind of the elements that an output has by the rules of ONNX.
    pub(super) fn kind_out(&self, index: usize) -> Result<ElemKind, Finding> {
        let dtype = self.outputs.get(index).map_or(DType::Unknown(0), ValueInfo::dtype);
        kind_of(dtype).ok_or_else(|| format!("Glow has no elements of the type {dtype}").into())
    }
}

/// An input that has to be there, and is not.
fn absent(index: usize) -> Fault {
    let wrong = format!("expected an input {index}, found none");
    Fault::What(Finding::from(wrong).about_input(index))
}

/// The extent of a shape along an axis; negative ones count from the end.
pub(super) fn extent_of(shape: &[i64], axis: i64) -> Result<i64, Finding> {
    let axis = from_front(axis, shape.len())?;
    let extent = shape.get(axis).copied();
    extent.ok_or_else(|| Finding::internal(format!("there is no axis {axis} in {shape:?}")))
}

/// An axis counted from the front.
pub(super) fn from_front(axis: i64, rank: usize) -> Result<usize, Finding> {
    let from_front = if axis < 0 { axis.checked_add(long(rank)) } else { Some(axis) };
    let axis_found = from_front.and_then(|axis| usize::try_from(axis).ok());
    axis_found
        .filter(|axis| *axis < rank)
        .ok_or_else(|| format!("expected an axis of {rank}, found {axis}").into())
}

/// A number of extents, which are few.
pub(super) fn long(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The nearest number of single precision.
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub(super) fn narrow(number: f64) -> f32 {
    number as f32
}
