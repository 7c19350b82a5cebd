//! An operator and its inputs: what kernels on dense tensors read.

use lodstone_model::{Attribute, AttributeValue, Op};
use lodstone_schema::Finding;
use lodstone_schema::onnx::meaning;

use crate::budget::{Charge, Memory};
use crate::dims::bounded;
use crate::error::Outcome;
use crate::narrow::{supported, widened};
use crate::tensor::Dense;
use crate::value::Value;

/// An operator and its inputs.
pub(crate) struct Call<'a> {
    pub(crate) op: &'a Op,
    inputs: Inputs<'a>,
    pub(crate) memory: Memory<'a>,
}

/// The inputs of a call by position; `None` for one that is omitted.
enum Inputs<'a> {
    /// Inputs without a list of their own.
    Few([Option<&'a Dense>; MAX_FEW]),
    Borrowed(Vec<Option<&'a Dense>>),
    Owned(Vec<Option<Dense>>),
}

/// The number of inputs that need no list of their own.
const MAX_FEW: usize = 4;

/// The result of a kernel: a value for each output.
pub(crate) type Outputs = Outcome<Vec<Value>>;

/// Returns one output.
pub(crate) fn one(tensor: Dense) -> Outputs {
    Ok(vec![tensor.into()])
}

/// Returns several outputs.
pub(crate) fn all(tensors: impl IntoIterator<Item = Dense>) -> Outputs {
    Ok(tensors.into_iter().map(Value::from).collect())
}

impl<'a> Call<'a> {
    /// Creates a call of inputs.
    ///
    /// # Errors
    /// If an input is not a dense tensor, or kernels do not support its element type.
    pub(crate) fn new(op: &'a Op, inputs: &[Option<&'a Value>]) -> Outcome<Self> {
        let item = |(number, value): (usize, &Option<&'a Value>)| {
            let view = value.map(|value| value.dense().and_then(supported)).transpose();
            view.map_err(|finding| finding.about_input(number))
        };
        let views = inputs.iter().enumerate().map(item);
        let inputs = match inputs.len() {
            0..=MAX_FEW => {
                let mut few = [None; MAX_FEW];
                few.iter_mut().zip(views).try_for_each(|(into, view)| {
                    *into = view?;
                    Outcome::Ok(())
                })?;
                Inputs::Few(few)
            }
            _ => Inputs::Borrowed(views.collect::<Outcome<_>>()?),
        };
        Ok(Self { op, inputs, memory: Memory::default() })
    }

    /// Creates a call of inputs; elements of narrow types are widened.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn widened(op: &'a Op, inputs: &[Option<Value>]) -> Outcome<Self> {
        let item = |(number, value): (usize, &Option<Value>)| {
            let view = value.as_ref().map(|value| value.dense().and_then(widened)).transpose();
            view.map_err(|finding| finding.about_input(number))
        };
        let inputs = inputs.iter().enumerate().map(item).collect::<Outcome<_>>()?;
        Ok(Self::of(op, inputs, Memory::default()))
    }

    /// Creates a call of tensors.
    pub(crate) fn of(op: &'a Op, inputs: Vec<Option<Dense>>, memory: Memory<'a>) -> Self {
        Self { op, inputs: Inputs::Owned(inputs), memory }
    }

    /// Returns a call of another kernel, with its own operator and inputs.
    pub(crate) fn with(&self, op: &'a Op, inputs: Vec<Option<Dense>>) -> Self {
        Self::of(op, inputs, self.memory)
    }

    /// Returns the call with the memory of a run.
    pub(crate) fn within(self, memory: Memory<'a>) -> Self {
        Self { memory, ..self }
    }

    /// Charges the memory in which a kernel computes, beside its inputs and results, or results whose dims depend on
    /// elements, until the returned charge is dropped: tensors of the given dims, whose elements together take `width`
    /// bytes.
    ///
    /// # Errors
    /// If they are too large, exceed the budget of the run, or the system cannot provide them.
    pub(crate) fn workspace(&self, dims: &[usize], width: u64) -> Outcome<Option<Charge>> {
        self.memory.reserve((bounded(dims)? as u64).saturating_mul(width))
    }

    /// Returns an optional input.
    pub(crate) fn optional(&self, number: usize) -> Option<&Dense> {
        match &self.inputs {
            Inputs::Few(inputs) => inputs.get(number).copied().flatten(),
            Inputs::Borrowed(inputs) => inputs.get(number).copied().flatten(),
            Inputs::Owned(inputs) => inputs.get(number)?.as_ref(),
        }
    }

    /// Returns a required input.
    pub(crate) fn input(&self, number: usize) -> Outcome<&Dense> {
        let found = self.optional(number);
        let wrong = || Finding::from(format!("expected an input {number}, found none"));
        found.ok_or_else(|| wrong().about_input(number))
    }

    /// Returns all inputs by position; some at the end may be omitted.
    pub(crate) fn inputs(&self) -> Vec<Option<Dense>> {
        match &self.inputs {
            Inputs::Few(inputs) => inputs.iter().map(|input| input.cloned()).collect(),
            Inputs::Borrowed(inputs) => inputs.iter().map(|input| input.cloned()).collect(),
            Inputs::Owned(inputs) => inputs.clone(),
        }
    }

    /// Returns all inputs that are present.
    pub(crate) fn all(&self) -> Vec<Dense> {
        self.inputs().into_iter().flatten().collect()
    }

    /// Returns an optional input with a list of integers.
    pub(crate) fn longs(&self, number: usize) -> Outcome<Option<Vec<i64>>> {
        self.optional(number).map(Dense::to_longs).transpose()
    }

    /// Returns an input with a single integer, or `default` if it is omitted.
    pub(crate) fn long(&self, number: usize, default: i64) -> Outcome<i64> {
        match self.longs(number)?.as_deref() {
            None => Ok(default),
            Some([one]) => Ok(*one),
            Some(other) => {
                let wrong = format!("expected one integer, found {} values", other.len());
                Err(Finding::from(wrong).about_input(number))
            }
        }
    }

    /// Returns the first number of an input, unless that is omitted.
    pub(crate) fn maybe_double(&self, number: usize) -> Outcome<Option<f64>> {
        let Some(list) = self.optional(number).map(Dense::to_doubles).transpose()? else {
            return Ok(None);
        };
        let missing = || Finding::from("expected a number, found none").about_input(number);
        list.first().copied().map(Some).ok_or_else(missing)
    }

    /// Returns the first number of an input, or `default` if it is omitted.
    pub(crate) fn double(&self, number: usize, default: f64) -> Outcome<f64> {
        Ok(self.maybe_double(number)?.unwrap_or(default))
    }

    /// Returns a required input with a list of integers.
    pub(crate) fn list(&self, number: usize) -> Outcome<Vec<i64>> {
        self.input(number)?.to_longs()
    }

    /// Returns the number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.op.output("").len()
    }

    /// Returns an integer attribute, or its default.
    pub(crate) fn int(&self, name: &str, default: i64) -> i64 {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(value)) => *value,
            _ => default,
        }
    }

    /// Returns an integer attribute, if present.
    pub(crate) fn maybe_int(&self, name: &str) -> Option<i64> {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(value)) => Some(*value),
            _ => None,
        }
    }

    /// Returns a float attribute, or its default.
    pub(crate) fn float(&self, name: &str, default: f32) -> f32 {
        match self.op.attribute(name) {
            Some(AttributeValue::Float(value)) => *value,
            _ => default,
        }
    }

    /// Returns an attribute with a list of integers.
    pub(crate) fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(values)) => Some(values),
            _ => None,
        }
    }

    /// Returns an attribute with a list of floats.
    pub(crate) fn floats(&self, name: &str) -> &[f32] {
        match self.op.attribute(name) {
            Some(AttributeValue::Floats(values)) => values,
            _ => &[],
        }
    }

    /// Returns an attribute with a list of strings.
    pub(crate) fn texts(&self, name: &str) -> Option<Vec<String>> {
        match self.op.attribute(name) {
            Some(AttributeValue::Strings(values)) => {
                Some(values.iter().map(ToString::to_string).collect())
            }
            _ => None,
        }
    }

    /// Returns what the value of a string attribute stands for: the first if it is absent. Inference rejects values that the
    /// operator does not define.
    ///
    /// # Errors
    /// An internal error if the value is not listed.
    pub(crate) fn choice<T: Copy>(&self, name: &str, meanings: &[(&str, T)]) -> Outcome<T> {
        meaning(self.text(name).as_deref().map(str::as_bytes), name, meanings)
    }

    /// Returns a string attribute.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.op.attribute(name) {
            Some(AttributeValue::String(value)) => Some(value.to_string()),
            _ => None,
        }
    }
}

/// Returns an operator with another integer attribute.
pub(crate) fn with_int(op: &Op, name: &str, value: i64) -> Op {
    let mut op = op.clone();
    op.attributes.retain(|attribute| attribute.name != name);
    op.attributes.push(Attribute { name: name.to_owned(), value: AttributeValue::Long(value) });
    op
}
