//! Plans: programs with the implementation of each operator.

use std::collections::BTreeSet;
use std::fmt;

use lodstone_model::{Op, Program};
use lodstone_schema::Finding;
use lodstone_schema::paddle::{Choice, Operator, Release, check_attributes, operator};

use crate::executor::error::{Error, Failure, OpPosition, Result};
use crate::executor::frame::{Blocks, Frame};
use crate::executor::layout::{Layout, Step, op_of};
use crate::executor::lowered::Lowered;
use crate::executor::native::{self, Run};

/// A program that can be run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) layout: Layout,
    /// The implementations of all operators, by block.
    implementation: Vec<Vec<Implementation>>,
}

/// The implementation of an operator.
pub(crate) enum Implementation {
    /// A native function.
    Native(Run),
    /// A native function if it reads anything but dense tensors, else ONNX's operators.
    NativeIfSparse(Run, Lowered),
    /// A native function if it reads NaN, else ONNX's operators.
    NativeIfNan(Run, Lowered),
    /// ONNX's operators.
    Lowered(Lowered),
}

impl Implementation {
    /// Returns the implementation that the row of an operator declares.
    fn of(op: &Op, release: Release) -> std::result::Result<Self, Finding> {
        let (row, choice) = choice(op, release)
            .ok_or_else(|| Finding::internal("the operator has no implementation"))?;
        check_attributes(op)?;
        let native = || native::function(row.kind);
        Ok(match choice {
            Choice::Native => Self::Native(native()?),
            Choice::NativeIfSparse => Self::NativeIfSparse(native()?, Lowered::new(row)?),
            Choice::NativeIfNan => Self::NativeIfNan(native()?, Lowered::new(row)?),
            Choice::Lowered => Self::Lowered(Lowered::new(row)?),
        })
    }
}

/// Returns the row of an operator and its computation, if it is supported.
fn choice(op: &Op, release: Release) -> Option<(&'static Operator, Choice)> {
    let row = operator(&op.kind)?;
    Some((row, row.choose(op, release)?))
}

impl fmt::Debug for Implementation {
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
    /// Plans a program; `fetch` is read after it.
    ///
    /// # Errors
    /// If the program contradicts itself, or operators are not supported: all of those are reported.
    pub(crate) fn new(program: &Program, fetch: &[String]) -> Result<Self> {
        let (layout, release) = (Layout::new(program, fetch)?, Release::of(program));
        check_known(program)?;
        let mut implementation = Vec::with_capacity(program.blocks.len());
        for (number, block) in program.blocks.iter().enumerate() {
            let of = |(at, op): (usize, &Op)| {
                Implementation::of(op, release).map_err(|finding| Error::Operator {
                    place: OpPosition::of(number, at, op),
                    finding,
                })
            };
            implementation.push(block.ops.iter().enumerate().map(of).collect::<Result<Vec<_>>>()?);
        }
        Ok(Self { layout, implementation })
    }

    fn step(
        &self,
        frame: &mut Frame<'_>,
        step: &Step,
        implementation: &Implementation,
    ) -> Result<()> {
        let failed = |finding| Error::Operator { place: step.place.clone(), finding };
        let op = op_of(&self.layout.program, &step.place);
        let op = op.ok_or_else(|| failed(Finding::internal("the program has no such operator")))?;
        frame.count_step().map_err(failed)?;
        let random = frame.random;
        let outcome = match implementation {
            Implementation::Native(run) => run(frame, step, op),
            Implementation::NativeIfSparse(run, _) if !frame.reads_dense(step) => {
                run(frame, step, op)
            }
            Implementation::NativeIfNan(run, _) if frame.reads_nan(step).map_err(failed)? => {
                run(frame, step, op)
            }
            Implementation::NativeIfSparse(_, lowered)
            | Implementation::NativeIfNan(_, lowered)
            | Implementation::Lowered(lowered) => {
                lowered.run(frame, step, op).map_err(Failure::Here)
            }
        };
        match outcome {
            Ok(()) => {}
            Err(Failure::Here(finding)) => return Err(failed(finding)),
            Err(Failure::File(error)) => {
                return Err(Error::File { place: step.place.clone(), error: Box::new(error) });
            }
            Err(Failure::Inside(error)) => return Err(error),
        }
        frame.sync_random(random).map_err(failed)?;
        frame.check_finite(op, step).map_err(failed)
    }
}

impl Blocks for Plan {
    fn run(&self, frame: &mut Frame<'_>, number: usize) -> Result<()> {
        let block = self.layout.block_of(number).map_err(Error::Program)?;
        let implementation = self.implementation.get(number);
        let implementation = implementation
            .ok_or_else(|| Error::Program(Finding::internal("a block is not planned")))?;
        for (step, implementation) in block.steps.iter().zip(implementation) {
            match frame.profile() {
                Some(profile) => {
                    let first = step.writes().next().and_then(|slot| self.layout.vars.get(slot));
                    let name = first.map_or("", |var| var.name.as_str());
                    let kind = &step.place.kind;
                    profile.measure(kind, name, || self.step(frame, step, implementation))?;
                }
                None => self.step(frame, step, implementation)?,
            }
            step.last.iter().try_for_each(|slot| frame.clear(*slot)).map_err(Error::Program)?;
        }
        Ok(())
    }
}

/// Fails if operators are not supported, with all of them.
fn check_known(program: &Program) -> Result<()> {
    let release = Release::of(program);
    let unknown: BTreeSet<String> = program
        .ops()
        .filter(|op| choice(op, release).is_none())
        .map(|op| op.kind.clone())
        .collect();
    if unknown.is_empty() { Ok(()) } else { Err(Error::Unknown(unknown.into_iter().collect())) }
}
