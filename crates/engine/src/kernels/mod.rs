//! Kernels of ONNX operators, one family per file.
//!
//! A kernel may rely on the checks of its operator's shape inference (`lodstone_schema::onnx::infer`, with the actual
//! dims): value kinds, element types, ranks and matching dims. It checks itself what depends on elements, such as the
//! range of indices.

mod activation;
mod arrange;
mod attention;
mod cache;
mod casts;
mod convolution;
mod determinant;
mod dims;
mod einsum;
mod elementwise;
mod encoders;
mod features;
mod filters;
pub(crate) mod flexible;
mod forests;
mod generate;
mod grids;
#[cfg(feature = "images")]
mod images;
mod indexing;
mod integer_products;
mod linear;
mod linear_models;
mod loss;
mod machines;
mod maps;
mod moves;
mod ngrams;
mod normalize;
mod onnx_runtime;
mod pad;
mod pieces;
mod planes;
mod pool;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod regions;
mod resize;
mod rotary;
mod scatter;
mod scores;
mod select;
mod sequence;
#[cfg(feature = "fourier")]
mod signal;
mod state;
mod text;
mod text_casts;
mod training;
mod trees;
mod unfold;
mod vision;
mod windows;
mod working;

pub(crate) use pool::pooled_windows;
pub(crate) use resize::nearest;
pub(crate) use windows::Windows;
pub(crate) use working::Working;

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::Finding;
use lodstone_schema::onnx::meaning;

use crate::budget::{Charge, Memory};
use crate::control::Control;
use crate::error::Outcome;
use crate::narrow::{supported, widened};
use crate::tensor::Dense;
use crate::value::Value;

pub(crate) use lodstone_schema::places::at_mut;

/// A kernel on dense tensors.
pub(crate) type Run = fn(&Call<'_>) -> Made;

/// A kernel on values of any kind, by position; `None` for an input that is omitted.
pub(crate) type RunValues = fn(&Op, &[Option<Value>], Memory<'_>) -> Made;

/// The result of a kernel: a value for each output.
pub(crate) type Made = Outcome<Vec<Value>>;

/// The kernel of an operator.
#[derive(Clone, Copy)]
pub(crate) enum Kernel {
    Dense(Run),
    Values(RunValues),
}

/// A kernel and its inputs.
pub(crate) enum Called<'a> {
    Dense(Run, Call<'a>),
    /// A kernel that moves elements, on tensors of strings.
    Moving(Run, &'a Op, Inputs<'a>),
    Values(RunValues, &'a Op, Inputs<'a>),
}

/// Inputs of any kind, by position.
pub(crate) struct Inputs<'a> {
    values: Vec<Option<Value>>,
    memory: Memory<'a>,
    /// The charge for copies of the handles of values in sequences and maps.
    _handles: Option<Charge>,
}

impl<'a> Inputs<'a> {
    fn new(inputs: &[Option<&Value>], memory: Memory<'a>) -> Outcome<Self> {
        let handles = inputs.iter().flatten().map(|value| value.handles());
        let handles = match handles.fold(0, u64::saturating_add) {
            0 => None,
            bytes => memory.reserve(bytes)?,
        };
        let values = inputs.iter().map(|value| value.cloned()).collect();
        Ok(Self { values, memory, _handles: handles })
    }
}

impl Kernel {
    /// Binds the kernel to the inputs of an operator.
    ///
    /// # Errors
    /// If the kernel does not support the kind or element type of an input.
    pub(crate) fn call<'a>(
        self,
        op: &'a Op,
        inputs: &[Option<&Value>],
        memory: Memory<'a>,
    ) -> Outcome<Called<'a>> {
        for value in inputs.iter().flatten() {
            if let Value::Dense(dense) = value {
                dense.charge_copy(memory)?;
            }
        }
        let values = || Inputs::new(inputs, memory);
        Ok(match self {
            Self::Dense(run) if moves::are_texts(op, inputs) => Called::Moving(run, op, values()?),
            Self::Dense(run) => Called::Dense(run, Call { memory, ..Call::new(op, inputs)? }),
            Self::Values(run) => Called::Values(run, op, values()?),
        })
    }
}

impl Called<'_> {
    pub(crate) fn op(&self) -> &Op {
        match self {
            Self::Dense(_, call) => call.op,
            Self::Moving(_, op, _) | Self::Values(_, op, _) => op,
        }
    }

    pub(crate) fn run(&self) -> Made {
        match self {
            Self::Dense(run, call) => run(call),
            Self::Moving(run, op, inputs) => moves::run(*run, op, &inputs.values, inputs.memory),
            Self::Values(run, op, inputs) => run(op, &inputs.values, inputs.memory),
        }
    }
}

/// Returns the kernel of an operator, by domain and kind.
pub(crate) fn kernel(domain: &str, kind: &str) -> Option<Kernel> {
    match domain {
        "" | "ai.onnx" => {
            values(kind).map(Kernel::Values).or_else(|| dense(kind).map(Kernel::Dense))
        }
        "com.microsoft" => {
            let dense = onnx_runtime::kernel(kind).map(Kernel::Dense);
            onnx_runtime::values(kind).map(Kernel::Values).or(dense)
        }
        "ai.onnx.ml" => {
            ml_values(kind).map(Kernel::Values).or_else(|| ml_dense(kind).map(Kernel::Dense))
        }
        "ai.onnx.preview.training" => training::kernel(kind).map(Kernel::Dense),
        _ => None,
    }
}

/// Returns the kernel of an operator of `ai.onnx.ml` on values of any kind.
fn ml_values(kind: &str) -> Option<RunValues> {
    encoders::values(kind).or_else(|| features::values(kind)).or_else(|| maps::values(kind))
}

/// Returns the kernel of an operator of `ai.onnx.ml` on dense tensors.
fn ml_dense(kind: &str) -> Option<Run> {
    encoders::kernel(kind)
        .or_else(|| features::kernel(kind))
        .or_else(|| forests::kernel(kind))
        .or_else(|| linear_models::kernel(kind))
        .or_else(|| machines::kernel(kind))
        .or_else(|| trees::kernel(kind))
}

/// Returns the kernel of an operator on values of any kind.
fn values(kind: &str) -> Option<RunValues> {
    cache::kernel(kind)
        .or_else(|| casts::kernel(kind))
        .or_else(|| ngrams::kernel(kind))
        .or_else(|| quantize::values(kind))
        .or_else(|| sequence::kernel(kind))
        .or_else(|| text::kernel(kind))
}

/// Returns the kernel of an operator on dense tensors.
fn dense(kind: &str) -> Option<Run> {
    activation::kernel(kind)
        .or_else(|| arrange::kernel(kind))
        .or_else(|| attention::kernel(kind))
        .or_else(|| determinant::kernel(kind))
        .or_else(|| einsum::kernel(kind))
        .or_else(|| elementwise::kernel(kind))
        .or_else(|| filters::kernel(kind))
        .or_else(|| generate::kernel(kind))
        .or_else(|| grids::kernel(kind))
        .or_else(|| indexing::kernel(kind))
        .or_else(|| integer_products::kernel(kind))
        .or_else(|| linear::kernel(kind))
        .or_else(|| loss::kernel(kind))
        .or_else(|| normalize::kernel(kind))
        .or_else(|| onnx_runtime::own(kind))
        .or_else(|| pad::kernel(kind))
        .or_else(|| pieces::kernel(kind))
        .or_else(|| pool::kernel(kind))
        .or_else(|| quantize::kernel(kind))
        .or_else(|| random::kernel(kind))
        .or_else(|| recurrent::kernel(kind))
        .or_else(|| reduce::kernel(kind))
        .or_else(|| regions::kernel(kind))
        .or_else(|| resize::kernel(kind))
        .or_else(|| rotary::kernel(kind))
        .or_else(|| scatter::kernel(kind))
        .or_else(|| select::kernel(kind))
        .or_else(|| optional(kind))
        .or_else(|| state::kernel(kind))
        .or_else(|| unfold::kernel(kind))
        .or_else(|| vision::kernel(kind))
        .or_else(|| convolution::kernel(kind))
}

/// Returns the kernel of an operator on dense tensors that a feature has.
fn optional(kind: &str) -> Option<Run> {
    let kernels: &[fn(&str) -> Option<Run>] = &[
        #[cfg(feature = "fourier")]
        signal::kernel,
        #[cfg(feature = "images")]
        images::kernel,
    ];
    kernels.iter().find_map(|kernel| kernel(kind))
}

/// Returns what to say of an ONNX operator without a kernel.
pub fn unsupported(domain: &str, kind: &str) -> String {
    let feature = match (domain, kind) {
        ("", "DFT" | "STFT") => Some("fourier"),
        ("", "ImageDecoder") => Some("images"),
        _ => None,
    };
    match feature {
        Some(feature) => {
            format!("is not supported: this build is without the feature `{feature}`")
        }
        None => "is not supported".to_owned(),
    }
}

/// Returns whether an ONNX operator has a kernel.
pub fn is_computed(domain: &str, kind: &str) -> bool {
    kernel(domain, kind).is_some() || Control::kind(domain, kind).is_some()
}

/// An operator and its inputs.
pub(crate) struct Call<'a> {
    pub(crate) op: &'a Op,
    inputs: Vec<Option<Dense>>,
    memory: Memory<'a>,
}

/// Returns one output.
fn one(tensor: Dense) -> Made {
    Ok(vec![tensor.into()])
}

/// Returns several outputs.
fn all(tensors: impl IntoIterator<Item = Dense>) -> Made {
    Ok(tensors.into_iter().map(Value::from).collect())
}

impl<'a> Call<'a> {
    /// Creates views of the inputs.
    ///
    /// # Errors
    /// If an input is not a dense tensor, or kernels do not support its element type.
    pub(crate) fn new(op: &'a Op, inputs: &[Option<&Value>]) -> Outcome<Self> {
        let item = |(number, value): (usize, &Option<&Value>)| {
            let view = value.map(|value| value.dense().and_then(supported)).transpose();
            view.map_err(|finding| finding.about_input(number))
        };
        let inputs = inputs.iter().enumerate().map(item).collect::<Outcome<_>>()?;
        Ok(Self { op, inputs, memory: Memory::default() })
    }

    /// Creates views of the inputs; elements of narrow types are widened.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn widened(op: &'a Op, inputs: &[Option<Value>]) -> Outcome<Self> {
        let item = |(number, value): (usize, &Option<Value>)| {
            let view = value.as_ref().map(|value| value.dense().and_then(widened)).transpose();
            view.map_err(|finding| finding.about_input(number))
        };
        let inputs = inputs.iter().enumerate().map(item).collect::<Outcome<_>>()?;
        Ok(Self { op, inputs, memory: Memory::default() })
    }

    /// Charges the memory in which a kernel computes, beside its inputs and results, or results whose dims depend on
    /// elements, until the returned charge is dropped: tensors of the given dims, whose elements together take `width`
    /// bytes.
    ///
    /// # Errors
    /// If they are too large, exceed the budget of the run, or the system cannot provide them.
    pub(crate) fn workspace(&self, dims: &[usize], width: u64) -> Outcome<Option<Charge>> {
        self.memory.reserve((dims::bounded(dims)? as u64).saturating_mul(width))
    }

    /// Returns an optional input.
    pub(crate) fn optional(&self, number: usize) -> Option<&Dense> {
        self.inputs.get(number)?.as_ref()
    }

    /// Returns a required input.
    pub(crate) fn input(&self, number: usize) -> Outcome<&Dense> {
        let found = self.optional(number);
        let wrong = || Finding::from(format!("expected an input {number}, found none"));
        found.ok_or_else(|| wrong().about_input(number))
    }

    /// Returns all inputs that are present.
    pub(crate) fn all(&self) -> Vec<Dense> {
        self.inputs.iter().flatten().cloned().collect()
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

    /// Returns a required input with a list of integers.
    pub(crate) fn list(&self, number: usize) -> Outcome<Vec<i64>> {
        self.input(number)?.to_longs()
    }

    /// Returns the number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.op.outputs.first().map_or(1, |operand| operand.args.len())
    }

    /// Returns an integer attribute, or its default.
    pub(crate) fn int(&self, name: &str, otherwise: i64) -> i64 {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(value)) => *value,
            _ => otherwise,
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
    pub(crate) fn float(&self, name: &str, otherwise: f32) -> f32 {
        match self.op.attribute(name) {
            Some(AttributeValue::Float(value)) => *value,
            _ => otherwise,
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

/// Resolves an axis; negative ones count from the end.
pub(crate) fn axis(axis: i64, rank: usize) -> Outcome<usize> {
    let whole = dims::long(rank);
    let place = if axis < 0 { axis.saturating_add(whole) } else { axis };
    usize::try_from(place).ok().filter(|place| *place < rank).ok_or_else(|| match rank {
        0 => format!("expected no axis of a scalar, found {axis}").into(),
        _ => format!("expected an axis from -{rank} to {}, found {axis}", rank - 1).into(),
    })
}

/// Returns the dim of a valid axis.
pub(crate) fn dim_at(shape: &[usize], at: usize) -> Outcome<usize> {
    lodstone_schema::places::at(shape, at)
}

/// Returns the product of the dims before a valid axis, its own dim, and the product of those after it.
pub(crate) fn around(shape: &[usize], axis: usize) -> Outcome<(&[usize], usize, &[usize])> {
    match shape.split_at_checked(axis) {
        Some((before, [dim, behind @ ..])) => Ok((before, *dim, behind)),
        _ => Err(Finding::internal(format!("axis {axis} is out of range for {shape:?}"))),
    }
}

/// Converts an integer to a number of elements.
pub(crate) fn count(number: i64) -> Outcome<usize> {
    usize::try_from(number)
        .map_err(|_| format!("expected a number of elements, found {number}").into())
}
