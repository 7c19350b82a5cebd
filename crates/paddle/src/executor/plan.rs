//! Plans: a program whose operators know what computes them.

use std::collections::BTreeSet;
use std::fmt;

use lodstone_model::{Op, Program};
use lodstone_schema::Finding;
use lodstone_schema::paddle::{Choice, Operator, operator};

use crate::executor::error::{Error, Failure, Place, Result};
use crate::executor::frame::{Blocks, Frame};
use crate::executor::layout::{Layout, Step, op_of};
use crate::executor::lowered::Lowered;
use crate::executor::native::{self, Run};

/// A program that can be run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) layout: Layout,
    /// What computes each operator, by block.
    does: Vec<Vec<Does>>,
}

/// How an operator is computed.
pub(crate) enum Does {
    /// Natively.
    Native(Run),
    /// Natively if it reads anything else than tensors with all their elements; by operators of ONNX otherwise.
    NativeIfSparse(Run, Lowered),
    /// Natively if it reads NaN; by operators of ONNX otherwise.
    NativeIfNan(Run, Lowered),
    /// By operators of ONNX.
    Lowered(Lowered),
}

impl Does {
    /// How the row of an operator declares it.
    fn of(op: &Op) -> std::result::Result<Self, Finding> {
        let (row, choice) = choice(op).ok_or_else(|| Finding::internal("nothing computes it"))?;
        let native = || native::function(row.kind);
        Ok(match choice {
            Choice::Native => Self::Native(native()?),
            Choice::NativeIfSparse => Self::NativeIfSparse(native()?, Lowered::new(row)?),
            Choice::NativeIfNan => Self::NativeIfNan(native()?, Lowered::new(row)?),
            Choice::Lowered => Self::Lowered(Lowered::new(row)?),
        })
    }
}

/// The row of an operator, and what computes it, if anything does.
fn choice(op: &Op) -> Option<(&'static Operator, Choice)> {
    let row = operator(&op.kind)?;
    Some((row, row.computation.choose(op)?))
}

impl fmt::Debug for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native(_) => "native",
            Self::NativeIfSparse(..) => "native if sparse",
            Self::NativeIfNan(..) => "native if NaN",
            Self::Lowered(_) => "lowered",
        })
    }
}

impl Plan {
    /// Plans a program of which `fetch` is read afterwards.
    ///
    /// # Errors
    /// If it contradicts itself, or nothing computes an operator: all of those are named.
    pub(crate) fn new(program: &Program, fetch: &[String]) -> Result<Self> {
        let layout = Layout::new(program, fetch)?;
        check_known(program)?;
        let mut does = Vec::with_capacity(program.blocks.len());
        for (number, block) in program.blocks.iter().enumerate() {
            let of = |(at, op): (usize, &Op)| {
                Does::of(op).map_err(|finding| Error::Operator {
                    place: Place::of(number, at, op),
                    finding,
                })
            };
            does.push(block.ops.iter().enumerate().map(of).collect::<Result<Vec<_>>>()?);
        }
        Ok(Self { layout, does })
    }

    fn step(&self, frame: &mut Frame<'_>, step: &Step, does: &Does) -> Result<()> {
        let failed = |finding| Error::Operator { place: step.place.clone(), finding };
        let op = op_of(&self.layout.program, &step.place);
        let op = op.ok_or_else(|| failed(Finding::internal("the program has no such operator")))?;
        frame.count_step().map_err(failed)?;
        let random = frame.random;
        let outcome = match does {
            Does::Native(run) => run(frame, step, op),
            Does::NativeIfSparse(run, _) if !frame.reads_dense(step) => run(frame, step, op),
            Does::NativeIfNan(run, _) if frame.reads_nan(step).map_err(failed)? => {
                run(frame, step, op)
            }
            Does::NativeIfSparse(_, lowered)
            | Does::NativeIfNan(_, lowered)
            | Does::Lowered(lowered) => lowered.run(frame, step, op).map_err(Failure::Here),
        };
        match outcome {
            Ok(()) => {}
            Err(Failure::Here(finding)) => return Err(failed(finding)),
            Err(Failure::File(error)) => {
                return Err(Error::File { place: step.place.clone(), error: Box::new(error) });
            }
            Err(Failure::Inside(error)) => return Err(error),
        }
        frame.follow_random(random).map_err(failed)?;
        frame.check_finite(op, step).map_err(failed)
    }
}

impl Blocks for Plan {
    fn run(&self, frame: &mut Frame<'_>, number: usize) -> Result<()> {
        let block = self.layout.block_of(number).map_err(Error::Program)?;
        let does = self.does.get(number);
        let does =
            does.ok_or_else(|| Error::Program(Finding::internal("a block is not planned")))?;
        for (step, does) in block.steps.iter().zip(does) {
            self.step(frame, step, does)?;
            step.last.iter().try_for_each(|slot| frame.clear(*slot)).map_err(Error::Program)?;
        }
        Ok(())
    }
}

/// Fails with all operators that nothing computes.
fn check_known(program: &Program) -> Result<()> {
    let unknown: BTreeSet<String> =
        program.ops().filter(|op| choice(op).is_none()).map(|op| op.kind.clone()).collect();
    if unknown.is_empty() { Ok(()) } else { Err(Error::Unknown(unknown.into_iter().collect())) }
}
