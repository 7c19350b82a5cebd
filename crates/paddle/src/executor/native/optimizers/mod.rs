//! Optimizers: operators that update parameters by their gradients.
//!
//! An operator reads a parameter, its gradient, a learning rate, and accumulators with statistics of previous gradients,
//! and writes the parameter and the accumulators, each in one pass. Nothing is written before everything has been
//! checked.
//!
//! | operator | accumulators |
//! | --- | --- |
//! | `sgd` | |
//! | `momentum` | `Velocity` |
//! | `adagrad`, `decayed_adagrad` | `Moment` |
//! | `adadelta` | `AvgSquaredGrad`, `AvgSquaredUpdate` |
//! | `adam`, `adamw`, `lamb` | `Moment1`, `Moment2`; `Beta1Pow`, `Beta2Pow` of one element each |
//! | `adamax` | `Moment`, `InfNorm`; `Beta1Pow` of one element, which another operator updates |
//! | `dpsgd` | |
//! | `ftrl` | `SquaredAccumulator`, `LinearAccumulator` |
//! | `lars_momentum` | `Velocity` |
//! | `rmsprop` | `MeanSquare`, `Moment`, and `MeanGrad` if it is centered |
//!
//! Elements are float32 or float64, and computed in their type. A gradient may be selected rows, such as that of an
//! embedding table: rows with equal indices are summed; missing rows are either not updated or zero.
//! (PaddlePaddle's `momentum` and `rmsprop` search rows as if they were sorted, and miss some that are not.)
//!
//! Source of truth: PaddlePaddle 2.6.2's CPU kernels, and their results; for `decayed_adagrad` and `ftrl`, which have no
//! kernel there, those of 1.8.5.

mod gradient;
mod noise;
mod number;
mod rules;

use gradient::Gradient;
use lodstone_model::{AttributeValue, DType, Kind, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::paddle::{attribute, updated_slot};
use lodstone_store::Blob;
use number::{Each, Number};

use super::{Outcome, Run, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;
use crate::executor::value::Value;

macro_rules! by_type {
    ($rule:path) => {
        |frame, step, op| {
            let mut call = Call { frame, step, op };
            match call.dtype()? {
                DType::Float32 => $rule(&mut call, 0_f32),
                DType::Float64 => $rule(&mut call, 0_f64),
                other => {
                    Err(format!("expected float32 or float64 as `Param`, found {other}").into())
                }
            }
        }
    };
}

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("adadelta", by_type!(rules::adadelta)),
    ("adagrad", by_type!(rules::adagrad)),
    ("adam", by_type!(rules::adam)),
    ("adamax", by_type!(rules::adamax)),
    ("adamw", by_type!(rules::adamw)),
    ("decayed_adagrad", by_type!(rules::decayed_adagrad)),
    ("dpsgd", by_type!(noise::dpsgd)),
    ("ftrl", by_type!(rules::ftrl)),
    ("lamb", by_type!(rules::lamb)),
    ("lars_momentum", by_type!(rules::lars_momentum)),
    ("momentum", by_type!(rules::momentum)),
    ("rmsprop", by_type!(rules::rmsprop)),
    ("sgd", by_type!(rules::sgd)),
];

/// A call of an optimizer's operator.
struct Call<'c, 'p> {
    frame: &'c mut Frame<'p>,
    step: &'c Step,
    op: &'c Op,
}

/// How an optimizer handles a gradient of selected rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// Other rows are not updated, or only by a separate rule.
    Alone,
    /// The gradient of the other rows is zero.
    Spread,
    /// PaddlePaddle has no kernel for it, so it is rejected.
    Rejected,
}

/// Tensors of the type and dims of a parameter, which is the first of them, by slot.
struct State<const N: usize> {
    slots: [&'static str; N],
    shape: Vec<u64>,
    old: [bytes::Bytes; N],
    new: [Vec<u8>; N],
}

impl Call<'_, '_> {
    fn dtype(&self) -> Outcome<DType> {
        // A fused optimizer merges the operators of several parameters.
        if self.step.inputs("Param").len() > 1 {
            return Err("several parameters in one operator are not supported".into());
        }
        if self.flag("multi_precision") || input(self.step, "MasterParam").is_ok() {
            return Err("master parameters of another precision are not supported".into());
        }
        Ok(self.frame.tensor(input(self.step, "Param")?)?.dtype)
    }

    /// Whether the gradient has selected rows.
    fn has_rows(&self) -> Outcome<bool> {
        let grad = self.frame.tensor(input(self.step, "Grad")?)?;
        Ok(matches!(grad.kind, Kind::SelectedRows { .. }))
    }

    /// Returns the number in a variable of one element.
    fn one<T: Number>(&self, slot: &str) -> Outcome<T> {
        let tensor = self.frame.tensor(input(self.step, slot)?)?;
        let bytes = tensor.data.bytes()?;
        let found = match (tensor.dtype, &tensor.kind) {
            (DType::Float32, Kind::Dense) => {
                f32::all(&bytes).map(|value| T::nearest(f64::from(value))).next()
            }
            (DType::Float64, Kind::Dense) => f64::all(&bytes).map(T::nearest).next(),
            _ => None,
        };
        let is_one = tensor.shape.iter().product::<u64>() == 1;
        found.filter(|_| is_one).ok_or_else(|| {
            let (dtype, shape) = (tensor.dtype, &tensor.shape);
            format!("expected a single number as `{slot}`, found {dtype}{shape:?}").into()
        })
    }

    /// Returns a number from a variable of one element, or else from an attribute.
    fn number<T: Number>(&self, slot: &str, name: &str) -> Outcome<T> {
        match input(self.step, slot) {
            Ok(_) => self.one(slot),
            Err(_) => self.float(name),
        }
    }

    fn float<T: Number>(&self, name: &str) -> Outcome<T> {
        let value = match attribute(self.op, name) {
            Some(AttributeValue::Float(value)) => Some(value),
            // For each parameter.
            Some(AttributeValue::Floats(values)) => match values.as_slice() {
                [value] => Some(value),
                _ => None,
            },
            _ => None,
        };
        let value = value.ok_or_else(|| format!("expected a number as `{name}`"))?;
        Ok(T::nearest(f64::from(*value)))
    }

    fn flag(&self, name: &str) -> bool {
        matches!(attribute(self.op, name), Some(AttributeValue::Bool(true)))
    }

    fn text(&self, name: &str) -> String {
        match attribute(self.op, name) {
            Some(AttributeValue::String(text)) => text.to_string(),
            _ => String::new(),
        }
    }

    /// Returns the tensors to update.
    fn state<T: Number, const N: usize>(&self, slots: [&'static str; N]) -> Outcome<State<N>> {
        let shape = self.frame.tensor(input(self.step, "Param")?)?.shape.clone();
        let mut old = slots.map(|_| bytes::Bytes::new());
        for (slot, old) in slots.iter().zip(&mut old) {
            let tensor = self.frame.tensor(input(self.step, slot)?)?;
            *old = elements::<T>(tensor, slot, &shape)?;
            output(self.step, &updated_slot(slot))?;
        }
        let size = old.iter().map(|bytes| bytes.len() as u64).fold(0, u64::saturating_add);
        self.frame.reserve(size)?;
        let new = slots.map(|_| Vec::new());
        Ok(State { slots, shape, old, new })
    }

    /// Updates the tensors in `slots` element by element: `rule` computes new values from the gradient and the old values.
    fn compute<T: Each<N>, const N: usize>(
        &self,
        slots: [&'static str; N],
        rows: Rows,
        rule: impl Fn(T, [T; N]) -> [T; N],
    ) -> Outcome<State<N>> {
        self.compute_or(slots, rows, rule, |_, old| old)
    }

    /// Updates the tensors in `slots`; if the gradient has selected rows and [`Rows::Alone`] applies, `rest` updates the
    /// other rows.
    fn compute_or<T: Each<N>, const N: usize>(
        &self,
        slots: [&'static str; N],
        rows: Rows,
        rule: impl Fn(T, [T; N]) -> [T; N],
        rest: impl Fn(T, [T; N]) -> [T; N],
    ) -> Outcome<State<N>> {
        let mut state = self.state::<T, N>(slots)?;
        let tensor = self.frame.tensor(input(self.step, "Grad")?)?;
        let gradient = Gradient::of::<T>(tensor, &state.shape, rows)?;
        state.new = state.old.each_ref().map(|old| vec![0; old.len()]);
        let old = state.old.each_ref().map(|old| T::chunks(old));
        let new = state.new.each_mut().map(|new| T::chunks_mut(new));
        match gradient {
            Gradient::Dense(grad) => T::each(T::chunks(&grad), old, new, rule),
            Gradient::Rows(grad) => {
                let first = old.first().ok_or_else(|| Finding::internal("there is no tensor"))?;
                let zeros = vec![T::ZERO.bytes(); first.len()];
                T::each(&zeros, old, new, rest);
                for row in grad.rows() {
                    let (place, row) = row?;
                    if old.iter().any(|old| old.len() < place.end) {
                        let wrong = format!("elements {place:?} do not exist");
                        return Err(Finding::internal(wrong).into());
                    }
                    let old = old.map(|old| old.split_at(place.end).0.split_at(place.start).1);
                    let new = state.new.each_mut().map(|new| T::chunks_mut(new));
                    let new =
                        new.map(|new| new.split_at_mut(place.end).0.split_at_mut(place.start).1);
                    T::each(T::chunks(row), old, new, &rule);
                }
            }
        }
        Ok(state)
    }

    /// Writes the updated tensors.
    fn write<T: Number, const N: usize>(&mut self, state: State<N>) -> Outcome {
        for (slot, new) in state.slots.iter().zip(state.new) {
            let made = Tensor::dense(T::DTYPE, state.shape.clone(), Blob::memory(new));
            self.frame.make(output(self.step, &updated_slot(slot))?, made)?;
        }
        Ok(())
    }

    /// Writes a number of an accumulator, if the slot has a variable.
    fn write_one<T: Number>(&mut self, slot: &str, value: T) -> Outcome {
        let Ok(out) = output(self.step, &format!("{slot}Out")) else { return Ok(()) };
        let shape = self.frame.tensor(input(self.step, slot)?)?.shape.clone();
        let mut bytes = vec![0; size_of::<T>()];
        T::chunks_mut(&mut bytes).iter_mut().for_each(|place| *place = value.bytes());
        Ok(self.frame.make(out, Tensor::dense(T::DTYPE, shape, Blob::memory(bytes)))?)
    }

    /// Whether the update is skipped; the inputs are then copied to the outputs.
    fn skips(&mut self, slots: &[&str]) -> Outcome<bool> {
        let Ok(skip) = input(self.step, "SkipUpdate") else { return Ok(false) };
        if !self.frame.is_true(skip)? {
            return Ok(false);
        }
        for slot in slots {
            if let Ok(out) = output(self.step, &format!("{slot}Out")) {
                let tensor = self.frame.tensor(input(self.step, slot)?)?.clone();
                self.frame.set(out, Value::Tensor(tensor))?;
            }
        }
        Ok(true)
    }
}

/// Returns the elements of a dense tensor, after checking its type and dims.
fn elements<T: Number>(tensor: &Tensor, slot: &str, shape: &[u64]) -> Outcome<bytes::Bytes> {
    let wrong = |found: String| {
        let wanted = T::DTYPE;
        format!("expected {wanted}{shape:?} as `{slot}`, like `Param`, found {found}")
    };
    if !matches!(tensor.kind, Kind::Dense) {
        return Err(wrong(tensor.kind.name().to_owned()).into());
    }
    if (tensor.dtype, tensor.shape.as_slice()) != (T::DTYPE, shape) {
        return Err(wrong(format!("{}{:?}", tensor.dtype, tensor.shape)).into());
    }
    let bytes = tensor.data.bytes()?;
    match T::DTYPE.size_of(shape) == Some(bytes.len() as u64) {
        true => Ok(bytes),
        false => Err(wrong(format!("{} bytes", bytes.len())).into()),
    }
}
