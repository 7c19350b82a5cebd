//! A Caffe2 operator as its rule sees it: inputs by position, arguments, and the graph that is emitted.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use lodstone_model::{AttributeValue, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::Rank;
use lodstone_schema::onnx::quoted;

use super::walk::Walk;
use crate::frame::{Scope, Step};
use crate::onnx::layout::{CAFFE2, Layout};
use crate::onnx::quantization::Grid;
pub(super) use crate::onnx::required::{rank, required_dim};
use crate::onnx::{Graph, Value};

/// The message of operators of boxes that are rotated.
pub(super) const ROTATED: &str = "rotated boxes are not supported: ONNX has only upright ones";

/// The result of a rule.
pub(super) type Outcome<T = Value> = Result<T, Finding>;

/// The rule of a kind of operator.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Returns the only output, or the first one.
    One(fn(&mut Node<'_>) -> Outcome),
    /// Returns the outputs; the last ones may be missing.
    Many(fn(&mut Node<'_>) -> Outcome<Vec<Value>>),
    /// Returns a quantized output.
    Quantized(fn(&mut Node<'_>) -> Outcome<Blob>),
    /// Runs nets inside; gets the inputs, and what the names around it stand for.
    Control(Control),
}

/// The rule of an operator with nets inside.
pub(super) type Control =
    for<'m> fn(&mut Walk<'m>, &'m Op, &[Blob], &Scope<Blob>) -> Step<Vec<Value>>;

/// A blob with a value: numbers, or integers on a grid.
#[derive(Clone, Debug)]
pub(super) struct Blob {
    pub(super) value: Value,
    pub(super) grid: Option<Grid>,
}

impl From<Value> for Blob {
    fn from(value: Value) -> Self {
        Self { value, grid: None }
    }
}

/// An operator, and what is emitted for it.
pub(super) struct Node<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) op: &'a Op,
    pub(super) inputs: Vec<Blob>,
    /// The parameters, by name.
    pub(super) parameters: &'a HashMap<&'a str, Cow<'a, Tensor>>,
}

impl Deref for Node<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        self.graph
    }
}

impl DerefMut for Node<'_> {
    fn deref_mut(&mut self) -> &mut Graph {
        self.graph
    }
}

fn wrong(name: &str, expected: &str) -> Finding {
    Finding::from(format!("expected {expected} as `{name}`")).about_attribute(name)
}

impl<'a> Node<'a> {
    /// Returns the number of inputs.
    pub(super) fn count(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the number of outputs.
    pub(super) fn outputs(&self) -> usize {
        self.op.output("").len()
    }

    /// Returns an input as it is: integers, if it is quantized.
    pub(super) fn raw(&self, index: usize) -> Outcome<Blob> {
        let absent = || {
            let what = format!("expected input {index}, found {} inputs", self.inputs.len());
            Finding::from(what).about_input(index)
        };
        self.inputs.get(index).cloned().ok_or_else(absent)
    }

    /// Returns an input, which may not be quantized.
    pub(super) fn input(&self, index: usize) -> Outcome {
        match self.raw(index)? {
            Blob { value, grid: None } => Ok(value),
            _ => {
                Err(Finding::from("expected numbers, found quantized integers").about_input(index))
            }
        }
    }

    /// Returns an input that must be quantized.
    pub(super) fn grid_of(&self, index: usize) -> Outcome<Grid> {
        let found = || Finding::from("expected quantized integers, found numbers");
        self.raw(index)?.grid.ok_or_else(|| found().about_input(index))
    }

    /// Returns the numbers of an input, quantized or not.
    pub(super) fn real(&mut self, index: usize) -> Outcome {
        match self.raw(index)? {
            Blob { value, grid: None } => Ok(value),
            Blob { value, grid: Some(grid) } => self.dequantized(&value, grid),
        }
    }

    /// Returns an input by position, if it is present.
    pub(super) fn optional(&self, index: usize) -> Outcome<Option<Value>> {
        (index < self.inputs.len()).then(|| self.input(index)).transpose()
    }

    /// Returns exactly `N` inputs.
    pub(super) fn exactly<const N: usize>(&self) -> Outcome<[Value; N]> {
        match self.inputs.len() == N {
            true => self.first(),
            false => Err(format!("expected {N} inputs, found {}", self.inputs.len()).into()),
        }
    }

    /// Returns the first `N` inputs.
    pub(super) fn first<const N: usize>(&self) -> Outcome<[Value; N]> {
        let all: Vec<Value> = (0..N).map(|index| self.input(index)).collect::<Outcome<_>>()?;
        all.try_into().map_err(|_| Finding::internal("inputs were lost"))
    }

    /// Returns all inputs, at least one.
    pub(super) fn all(&self) -> Outcome<Vec<Value>> {
        self.input(0)?;
        (0..self.inputs.len()).map(|index| self.input(index)).collect()
    }

    /// Whether an argument is present.
    pub(super) fn has(&self, name: &str) -> bool {
        self.op.attribute(name).is_some()
    }

    /// Returns an integer argument; `None` if it is absent.
    pub(super) fn int_or_none(&self, name: &str) -> Outcome<Option<i64>> {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(number)) => Ok(Some(*number)),
            Some(_) => Err(wrong(name, "an integer")),
            None => Ok(None),
        }
    }

    /// Returns an integer argument, or the operator's default.
    pub(super) fn int(&self, name: &str, default: i64) -> Outcome<i64> {
        Ok(self.int_or_none(name)?.unwrap_or(default))
    }

    /// Returns an integer argument of a range, or the operator's default.
    pub(super) fn int_in(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
        default: i64,
    ) -> Outcome<i64> {
        let number = self.int(name, default)?;
        match range.contains(&number) {
            true => Ok(number),
            false => {
                let (least, most) = (range.start(), range.end());
                Err(Finding::from(format!(
                    "expected a `{name}` from {least} to {most}, found {number}"
                ))
                .about_attribute(name))
            }
        }
    }

    /// Whether an integer argument is not 0.
    pub(super) fn flag(&self, name: &str, default: bool) -> Outcome<bool> {
        Ok(self.int(name, default.into())? != 0)
    }

    /// Returns a float argument, or the operator's default.
    pub(super) fn float(&self, name: &str, default: f32) -> Outcome<f32> {
        match self.op.attribute(name) {
            Some(AttributeValue::Float(number)) => Ok(*number),
            Some(_) => Err(wrong(name, "a float")),
            None => Ok(default),
        }
    }

    /// Returns a text argument, or the operator's default.
    pub(super) fn text(&self, name: &str, default: &str) -> Outcome<String> {
        match self.op.attribute(name) {
            Some(AttributeValue::String(text)) => Ok(text.to_string()),
            Some(_) => Err(wrong(name, "a text")),
            None => Ok(default.to_owned()),
        }
    }

    /// Returns a list of integers; a list without elements has no type in a net.
    pub(super) fn ints(&self, name: &str) -> Outcome<Option<Vec<i64>>> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(numbers)) => Ok(Some(numbers.clone())),
            Some(AttributeValue::None | AttributeValue::Unknown(0)) => Ok(Some(Vec::new())),
            Some(_) => Err(wrong(name, "integers")),
            None => Ok(None),
        }
    }

    /// Returns a list of integers that must be present.
    pub(super) fn required_ints(&self, name: &str) -> Outcome<Vec<i64>> {
        self.ints(name)?.ok_or_else(|| format!("expected `{name}`, found none").into())
    }

    /// Returns an axis argument; negative ones count from the end.
    pub(super) fn axis(&self, name: &str, default: i64, rank: Rank) -> Outcome<i64> {
        let axis = rank.axis(self.int(name, default)?);
        axis.map(lodstone_schema::numbers::Axis::number).map_err(|it| it.about_attribute(name))
    }

    /// Returns an axis argument that may also be the rank, behind the last axis.
    pub(super) fn axis_or_end(&self, name: &str, default: i64, rank: Rank) -> Outcome<i64> {
        match self.int(name, default)? == rank.number() {
            true => Ok(rank.number()),
            false => self.axis(name, default, rank),
        }
    }

    /// Returns the layout of images.
    pub(super) fn layout(&self) -> Outcome<Layout> {
        let order = self.text("order", "NCHW")?;
        Layout::named(&order, CAFFE2).ok_or_else(|| {
            format!("expected `NCHW` or `NHWC` as `order`, found {}", quoted(&order)).into()
        })
    }

    /// Applies a computation to images with the channels after the batch, whatever their order.
    pub(super) fn on_images(
        &mut self,
        x: &Value,
        compute: impl FnOnce(&mut Self, &Value) -> Outcome,
    ) -> Outcome {
        let layout = self.layout()?;
        let x = self.channels_first(x, layout)?;
        let y = compute(self, &x)?;
        self.in_layout(&y, layout)
    }

    /// Returns the known integers of an input.
    pub(super) fn known_ints(&self, index: usize) -> Outcome<Option<Vec<i64>>> {
        Ok(self.input(index)?.info().ints())
    }
}

/// Returns the indices of axes of a rank; negative ones count from the end.
pub(super) fn places_in(rank: Rank, axes: &[i64]) -> Outcome<Vec<i64>> {
    axes.iter().map(|axis| Ok(rank.axis(*axis)?.number())).collect()
}

/// Fails unless a value has a rank.
pub(super) fn expect_rank(value: &Value, expected: usize, what: &str) -> Outcome<()> {
    match value.rank()?.count() {
        found if found == expected => Ok(()),
        found => Err(format!("expected {what} of rank {expected}, found rank {found}").into()),
    }
}

/// Fails unless a dim, if it is known, is expected.
pub(super) fn expect_dim(value: &Value, axis: i64, expected: i64, what: &str) -> Outcome<()> {
    match value.size(axis)? {
        Some(found) if found != expected => {
            Err(format!("expected {what} of {expected} elements, found {found}").into())
        }
        _ => Ok(()),
    }
}
