//! What this build does with the programs of each dialect.

use lodstone_model::Dialect;
#[cfg(feature = "runtime")]
use {
    crate::{paddle, run},
    lodstone_lowering::OperatorCoverage,
    lodstone_model::{Model, Op, Program},
    lodstone_schema::Finding,
};

/// The checkpoints that programs save.
pub(crate) use lodstone_formats::paddle::saved as saved_checkpoints;
/// The crate that runs programs in this build.
#[cfg(feature = "runtime")]
pub(crate) use lodstone_paddle as runtime;

/// The function that prepares programs of each dialect, for the dialects that run in this build.
#[cfg(feature = "runtime")]
pub(crate) const RUNS: &[Runs] = &[
    Runs {
        dialect: Dialect::Paddle,
        prepare: paddle::run::prepare,
        support: Support::Operators(paddle::run::unsupported),
    },
    Runs { dialect: Dialect::Onnx, prepare: run::engine::prepare, support: Support::Engine },
    Runs { dialect: Dialect::Glow, prepare: run::engine::prepare, support: Support::Engine },
    Runs { dialect: Dialect::Caffe2, prepare: run::typed::prepare, support: Support::Engine },
    Runs {
        dialect: Dialect::Pir,
        prepare: paddle::run::prepare_translated,
        support: Support::Program(paddle::run::translated_coverage),
    },
    Runs { dialect: Dialect::Mxnet, prepare: run::typed::prepare, support: Support::Engine },
    Runs { dialect: Dialect::Torch, prepare: run::typed::prepare, support: Support::Engine },
];

/// How programs of a dialect run.
#[cfg(feature = "runtime")]
pub(crate) struct Runs {
    pub(crate) dialect: Dialect,
    pub(crate) prepare: run::Prepare,
    pub(crate) support: Support,
}

/// Returns which operators of a program run, if there is one.
#[cfg(feature = "runtime")]
pub(crate) type Covered = fn(&Model) -> Option<Result<Vec<OperatorCoverage>, Finding>>;

/// Which operators of programs of a dialect run.
#[cfg(feature = "runtime")]
pub(crate) enum Support {
    /// The function returns the reason why an operator does not run.
    Operators(fn(&Program, &Op) -> Option<String>),
    /// Programs run translated to another dialect, whose operators all run.
    Program(Covered),
    /// The engine runs programs of ONNX, and those that are lowered to it.
    Engine,
}

/// The dialects whose programs train in this build.
pub(crate) const TRAINS: &[Dialect] =
    if cfg!(feature = "runtime") { &[Dialect::Paddle, Dialect::Pir] } else { &[] };

/// Returns whether programs of a dialect run in this build.
#[cfg(feature = "runtime")]
pub(crate) fn runs(dialect: Dialect) -> bool {
    RUNS.iter().any(|row| row.dialect == dialect)
}

/// Returns false: programs do not run in this build.
#[cfg(not(feature = "runtime"))]
pub(crate) fn runs(_: Dialect) -> bool {
    false
}
