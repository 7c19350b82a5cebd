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
mod working;

pub(crate) use working::Working;

use lodstone_model::Op;

use crate::budget::{Charge, Memory};
use crate::call::{Call, Outputs};
use crate::control::Control;
use crate::error::Outcome;
use crate::value::Value;

/// A kernel on dense tensors.
pub(crate) type Run = fn(&Call<'_>) -> Outputs;

/// A kernel on values of any kind, by position; `None` for an input that is omitted.
pub(crate) type RunValues = fn(&Op, &[Option<Value>], Memory<'_>) -> Outputs;

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
            Self::Dense(run) => Called::Dense(run, Call::new(op, inputs)?.within(memory)),
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

    pub(crate) fn run(&self) -> Outputs {
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
