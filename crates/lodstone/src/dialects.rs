//! What this build does with the programs of each dialect.

use lodstone_model::Dialect;
#[cfg(feature = "runtime")]
use {
    crate::{paddle, run},
    lodstone_lowering::OperatorCoverage,
    lodstone_model::{ByDialect, Model, Op, Program},
    lodstone_schema::Finding,
};

/// The programs that this build derives, and those that it trains.
#[cfg(feature = "runtime")]
pub(crate) use crate::paddle as programs;
/// The checkpoints that programs save.
pub(crate) use lodstone_formats::paddle::saved as saved_checkpoints;
/// The crate that runs programs in this build.
#[cfg(feature = "runtime")]
pub(crate) use lodstone_paddle as runtime;

/// How the programs of each dialect run.
#[cfg(feature = "runtime")]
pub(crate) static RUNS: ByDialect<Runs> = ByDialect {
    paddle: Runs {
        prepare: paddle::run::prepare,
        support: Support::Operators(paddle::run::unsupported),
        train: true,
    },
    pir: Runs {
        prepare: paddle::run::prepare_translated,
        support: Support::Program(paddle::run::translated_coverage),
        train: true,
    },
    onnx: Runs { prepare: run::engine::prepare, ..TYPED },
    glow: Runs { prepare: run::engine::prepare, ..TYPED },
    mxnet: TYPED,
    caffe2: TYPED,
    torch: TYPED,
};

/// A dialect whose programs are lowered when the types of the inputs are known.
#[cfg(feature = "runtime")]
const TYPED: Runs = Runs { prepare: run::typed::prepare, support: Support::Engine, train: false };

/// How programs of a dialect run.
#[cfg(feature = "runtime")]
pub(crate) struct Runs {
    pub(crate) prepare: run::Prepare,
    pub(crate) support: Support,
    /// Whether programs train.
    train: bool,
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

/// Returns whether programs of a dialect train in this build.
pub(crate) fn trains(dialect: Dialect) -> bool {
    #[cfg(feature = "runtime")]
    let trains = RUNS.of(dialect).train;
    #[cfg(not(feature = "runtime"))]
    let trains = {
        let _ = dialect;
        false
    };
    trains
}
