//! The rows of the table of operators: what the engine knows of each operator that it computes.
//!
//! A row stands beside its kernel, in the file of its family (`kernels/`), with what differs from a plain kernel:
//!
//! | column | meaning |
//! |---|---|
//! | `domain`, `kind` | the operator |
//! | `kernel` | computes it for all inputs; its results are the reference |
//! | `fast` | a kernel for some inputs |
//! | `packing` | how its constant inputs are packed when it is planned |
//! | `fusion`, `epilogue` | how it runs together with the operator before it |
//! | `error` | how much results differ in the fast mode |
//! | `working` | the memory that the kernel works in, beside inputs and results |
//! | `copies`, `channels_last` | which inputs are copied into another order |
//! | `shares` | whether results may share the bytes of inputs |
//! | `threaded` | whether the kernel uses several threads at any size |
//! | `moves` | whether results consist of elements of inputs, so that the kernel takes strings, too |
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | rows, and kernels that are bound to inputs |
//! | `moved.rs` | kernels that move the elements of tensors of strings |
//! | `working.rs` | the memory that kernels work in |

mod moved;
mod working;

pub(crate) use working::Working;

use lodstone_model::Op;

use crate::budget::{Charge, Memory};
use crate::call::{Call, Outputs};
use crate::error::Outcome;
use crate::fast::{FastKernel, Packing};
use crate::fused::{EpilogueStep, Rule};
use crate::value::Value;

/// The domain of ONNX Runtime's operators.
pub(crate) const RUNTIME: &str = "com.microsoft";

/// The domain of ONNX's operators of traditional machine learning.
pub(crate) const ML: &str = "ai.onnx.ml";

/// The domain of ONNX's optimizers.
pub(crate) const TRAINING: &str = "ai.onnx.preview.training";

/// A kernel on dense tensors.
pub(crate) type DenseKernel = fn(&Call<'_>) -> Outputs;

/// A kernel on values of any kind, by position; `None` for an input that is omitted.
pub(crate) type ValueKernel = fn(&Op, &[Option<Value>], Memory<'_>) -> Outputs;

/// The kernel of an operator.
#[derive(Clone, Copy)]
pub(crate) enum Kernel {
    Dense(DenseKernel),
    Values(ValueKernel),
}

/// How an operator is fused with the operator before it.
#[derive(Clone, Copy)]
pub(crate) enum Fusion {
    /// It is part of a chain of element-wise operators, if its attributes have a rule.
    Elementwise(fn(&Call<'_>) -> Option<Rule>),
    /// Its constant statistics are folded into the filter of a convolution.
    Normalization,
}

/// An operator that the engine computes.
#[derive(Clone, Copy)]
pub(crate) struct Operator {
    /// The domain; that of ONNX is empty.
    pub(crate) domain: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) kernel: Kernel,
    pub(crate) fast: Option<FastKernel>,
    pub(crate) packing: Option<Packing>,
    pub(crate) fusion: Option<Fusion>,
    pub(crate) epilogue: Option<EpilogueStep>,
    /// As [`Mode::error`](crate::Mode::error) returns it.
    pub(crate) error: f64,
    pub(crate) working: Working,
    /// Whether the reference kernel copies its inputs into another order.
    pub(crate) copies: bool,
    /// Whether the fast kernel reads the channels of images from next to each other.
    pub(crate) channels_last: bool,
    pub(crate) shares: bool,
    pub(crate) threaded: bool,
    pub(crate) moves: bool,
}

impl Operator {
    const fn new(kind: &'static str, kernel: Kernel) -> Self {
        Self {
            domain: "",
            kind,
            kernel,
            fast: None,
            packing: None,
            fusion: None,
            epilogue: None,
            error: 0.0,
            working: Working::NONE,
            copies: false,
            channels_last: false,
            shares: false,
            threaded: false,
            moves: false,
        }
    }

    /// Creates the row of an operator of ONNX with a kernel on dense tensors.
    pub(crate) const fn dense(kind: &'static str, kernel: DenseKernel) -> Self {
        Self::new(kind, Kernel::Dense(kernel))
    }

    /// Creates the row of an operator of ONNX with a kernel on values of any kind.
    pub(crate) const fn values(kind: &'static str, kernel: ValueKernel) -> Self {
        Self::new(kind, Kernel::Values(kernel))
    }

    /// Sets the domain.
    pub(crate) const fn domain(self, domain: &'static str) -> Self {
        Self { domain, ..self }
    }

    /// Adds a kernel for some inputs.
    pub(crate) const fn fast(self, kernel: FastKernel) -> Self {
        Self { fast: Some(kernel), ..self }
    }

    /// Packs constant inputs.
    pub(crate) const fn packed(self, packing: Packing) -> Self {
        Self { packing: Some(packing), ..self }
    }

    /// Fuses the operator in chains of element-wise operators, by the rule for its attributes.
    pub(crate) const fn fused(self, rule: fn(&Call<'_>) -> Option<Rule>) -> Self {
        Self { fusion: Some(Fusion::Elementwise(rule)), ..self }
    }

    /// Folds the operator into the convolution that it reads.
    pub(crate) const fn folded(self) -> Self {
        Self { fusion: Some(Fusion::Normalization), ..self }
    }

    /// Makes the operator a step of the epilogue of a product.
    pub(crate) const fn epilogue(self, step: EpilogueStep) -> Self {
        Self { epilogue: Some(step), ..self }
    }

    /// Sets the maximum difference of results in the fast mode.
    pub(crate) const fn error(self, error: f64) -> Self {
        Self { error, ..self }
    }

    /// Sets the memory that the kernel works in, in bytes for each element of the inputs and of the results.
    pub(crate) const fn working(self, inputs: u64, results: u64) -> Self {
        Self { working: Working::new(inputs, results), ..self }
    }

    /// Marks an operator whose reference kernel copies its inputs into another order.
    pub(crate) const fn copies(self) -> Self {
        Self { copies: true, ..self }
    }

    /// Marks an operator whose fast kernel reads the channels of images from next to each other.
    pub(crate) const fn channels_last(self) -> Self {
        Self { channels_last: true, ..self }
    }

    /// Marks an operator whose results may be parts of its inputs, whose bytes they share.
    pub(crate) const fn shares(self) -> Self {
        Self { shares: true, ..self }
    }

    /// Marks an operator whose kernel uses several threads at any size.
    pub(crate) const fn threaded(self) -> Self {
        Self { threaded: true, ..self }
    }

    /// Marks an operator whose results consist of elements of its inputs.
    pub(crate) const fn moves(self) -> Self {
        Self { moves: true, ..self }
    }

    /// Returns the rule of an element-wise operator with the attributes of `op`, if it has one.
    pub(crate) fn rule(&self, op: &Op) -> Option<Rule> {
        match self.fusion {
            Some(Fusion::Elementwise(rule)) => rule(&Call::new(op, &[]).ok()?),
            _ => None,
        }
    }

    /// Binds the kernel to inputs.
    ///
    /// # Errors
    /// If the kernel does not support the kind or element type of an input.
    pub(crate) fn bind<'a>(
        &self,
        op: &'a Op,
        inputs: &[Option<&'a Value>],
        memory: Memory<'a>,
    ) -> Outcome<BoundKernel<'a>> {
        for value in inputs.iter().flatten() {
            if let Value::Dense(dense) = value {
                dense.charge_copy(memory)?;
            }
        }
        let values = || Inputs::new(inputs, memory);
        let arguments = match self.kernel {
            Kernel::Dense(run) if self.moves && moved::has_strings(inputs) => {
                Arguments::Moved(run, op, values()?)
            }
            Kernel::Dense(run) => Arguments::Dense(run, Call::new(op, inputs)?.within(memory)),
            Kernel::Values(run) => Arguments::Values(run, op, values()?),
        };
        Ok(BoundKernel { is_threaded: self.threaded, arguments })
    }
}

/// A kernel and its inputs.
pub(crate) struct BoundKernel<'a> {
    /// Whether the kernel uses several threads at any size.
    pub(crate) is_threaded: bool,
    arguments: Arguments<'a>,
}

enum Arguments<'a> {
    Dense(DenseKernel, Call<'a>),
    /// A kernel that moves elements, on tensors of strings.
    Moved(DenseKernel, &'a Op, Inputs<'a>),
    Values(ValueKernel, &'a Op, Inputs<'a>),
}

/// Inputs of any kind, by position.
struct Inputs<'a> {
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

impl BoundKernel<'_> {
    pub(crate) fn run(&self) -> Outputs {
        match &self.arguments {
            Arguments::Dense(run, call) => run(call),
            Arguments::Moved(run, op, inputs) => {
                moved::run(*run, op, &inputs.values, inputs.memory)
            }
            Arguments::Values(run, op, inputs) => run(op, &inputs.values, inputs.memory),
        }
    }
}
