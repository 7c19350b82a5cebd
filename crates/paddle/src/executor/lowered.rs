//! Operators that the engine computes.
//!
//! An operator is lowered to a program of ONNX's operators for the types of its inputs; the plan of that program is kept,
//! and reused as long as the types stay the same.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use lodstone_engine::{Mode, Plan, Value};
use lodstone_lowering::paddle::{self, LodLevel, VariableFacts};
use lodstone_model::{DType, Dim, Lod, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{Indices, LodRule, Operator, SharedLod};
use lodstone_store::Blob;
use smallvec::SmallVec;

use crate::executor::frame::Frame;
use crate::executor::indices;
use crate::executor::layout::{Slot, Step};
use crate::executor::value::rows;

/// The maximum number of plans that are kept for an operator.
const MAX_KEPT: usize = 64;

/// The LoD of outputs whose rule computes it.
static NONE: SharedLod = SharedLod::none();

/// An operator that the engine computes.
#[derive(Debug)]
pub(crate) struct Lowered {
    /// The LoD of its outputs, unless the rule computes it.
    lod: &'static SharedLod,
    /// The input that holds indices.
    indices: Option<&'static Indices>,
    /// Plans for types of its inputs.
    kept: Mutex<Vec<Kept>>,
}

/// A plan, and the types of the variables that the operator reads, in order; `None` for one that is not a tensor.
#[derive(Debug)]
struct Kept {
    types: Vec<Option<InputType>>,
    compiled: Arc<Compiled>,
}

/// The type of a tensor that a plan depends on.
#[derive(Debug)]
struct InputType {
    dtype: DType,
    shape: Vec<u64>,
    /// The sizes of its LoD levels.
    levels: Vec<usize>,
}

impl InputType {
    fn of(tensor: &Tensor) -> Self {
        let levels = tensor.lod.0.iter().map(Vec::len).collect();
        Self { dtype: tensor.dtype, shape: tensor.shape.clone(), levels }
    }

    /// Returns whether it is the type of a tensor.
    fn is_of(&self, tensor: &Tensor) -> bool {
        let levels = tensor.lod.0.iter().map(Vec::len);
        self.dtype == tensor.dtype
            && self.shape == tensor.shape
            && self.levels.iter().copied().eq(levels)
    }
}

/// A plan, and the variables that it reads and writes.
#[derive(Debug)]
struct Compiled {
    plan: Plan,
    inputs: Vec<Input>,
    outputs: Vec<Written>,
}

/// An input of a plan.
#[derive(Debug)]
enum Input {
    Variable(Slot),
    /// The offsets of a LoD level of a variable.
    Lod(Slot, usize),
}

/// An output of a plan that is written to a variable.
#[derive(Debug)]
struct Written {
    /// Its index among the outputs of the plan.
    number: usize,
    slot: Slot,
    lod: Source,
}

/// The source of the LoD of an output.
#[derive(Debug)]
enum Source {
    Nothing,
    /// A variable, if it has as many rows as the output.
    Shared(Slot),
    /// Variables whose rows are concatenated in the output.
    Joined(Vec<Slot>),
    /// Outputs of the plan, by their indices: the offsets of each level.
    Made(Vec<usize>),
}

impl Source {
    /// Returns the source for the variable at an index of an output slot.
    fn of(lod: &SharedLod, step: &Step, output: &str, place: usize) -> Self {
        let Some(share) = lod.source(output) else { return Self::Nothing };
        let sources = step.inputs(share.input);
        if share.joins {
            return Self::Joined(sources.iter().copied().flatten().collect());
        }
        let source = sources.get(place).or(sources.first()).copied().flatten();
        source.map_or(Self::Nothing, Self::Shared)
    }

    /// Returns the LoD of an output of `rows` rows.
    fn lod(&self, frame: &Frame<'_>, rows: Option<u64>) -> Lod {
        match self {
            Self::Nothing | Self::Made(_) => Lod::default(),
            Self::Shared(slot) => {
                let like = frame.known_tensor(*slot);
                let like = like.filter(|like| like.shape.first().copied() == rows);
                like.map_or_else(Lod::default, |like| like.lod.clone())
            }
            Self::Joined(slots) => {
                let tensors: Vec<&Tensor> =
                    slots.iter().filter_map(|slot| frame.known_tensor(*slot)).collect();
                joined(&tensors, rows).unwrap_or_default()
            }
        }
    }
}

/// Returns the LoD of tensors that are stacked side by side, or concatenated; `None` if they have none.
fn joined(tensors: &[&Tensor], rows: Option<u64>) -> Option<Lod> {
    let (first, rest) = tensors.split_first()?;
    if first.shape.first().copied() == rows {
        return Some(first.lod.clone());
    }
    let mut lod = first.lod.clone();
    for tensor in rest {
        if tensor.lod.0.len() != lod.0.len() {
            return None;
        }
        for (level, more) in lod.0.iter_mut().zip(&tensor.lod.0) {
            let end = *level.last()?;
            level.extend(more.iter().skip(1).map(|offset| end + offset));
        }
    }
    Some(lod).filter(|lod| rows.is_some_and(|rows| lod.check(rows).is_ok()))
}

/// The variables of a frame, as a lowering sees them.
struct FrameFacts<'a> {
    frame: &'a Frame<'a>,
    step: &'a Step,
    /// Whether the lowering read contents, not only types and the sizes of LoD levels.
    read_contents: Cell<bool>,
}

impl FrameFacts<'_> {
    fn tensor(&self, variable: &str) -> Option<&Tensor> {
        self.frame.known_tensor(self.step.slot(variable)?)
    }
}

impl VariableFacts for FrameFacts<'_> {
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        let tensor = self.tensor(variable)?;
        let dims = tensor.shape.iter().map(|dim| Dim::Known(*dim));
        Some(ValueInfo::tensor(tensor.dtype, Some(dims.collect())))
    }

    fn contents(&self, variable: &str) -> Option<Vec<i64>> {
        self.read_contents.set(true);
        ValueInfo::of(self.tensor(variable)?).ints()
    }

    fn lod(&self, variable: &str) -> Vec<LodLevel> {
        let levels = self.tensor(variable).map_or(&[][..], |tensor| &tensor.lod.0);
        let level =
            |level: &Vec<u64>| LodLevel { value: None, count: Dim::Known(level.len() as u64) };
        levels.iter().map(level).collect()
    }
}

impl Lowered {
    /// Creates the implementation for an operator of a row.
    ///
    /// # Errors
    /// An internal error if the row does not declare which LoD its outputs share.
    pub(crate) fn new(row: &'static Operator) -> Result<Self, Finding> {
        let lod = match &row.lod {
            LodRule::Shared(lod) => lod,
            LodRule::Computed(_) => &NONE,
            LodRule::Unknown => {
                let what = format!("`{}` is lowered and has no LoD rule", row.kind);
                return Err(Finding::internal(what));
            }
        };
        Ok(Self { lod, indices: row.indices.as_ref(), kept: Mutex::default() })
    }

    /// Computes an operator.
    pub(crate) fn run(&self, frame: &mut Frame<'_>, step: &Step, op: &Op) -> Result<(), Finding> {
        if let Some(indices) = self.indices {
            indices::check(indices, frame, step, op)?;
        }
        let compiled = self.compiled(frame, step, op)?;
        let values = compiled.compute(frame)?;
        let mut made: SmallVec<[(Slot, Tensor); 1]> = SmallVec::new();
        for output in &compiled.outputs {
            made.push((output.slot, output.tensor(&values, frame)?));
        }
        drop(values);
        made.into_iter().try_for_each(|(slot, tensor)| frame.make(slot, tensor))
    }

    fn compiled(&self, frame: &Frame<'_>, step: &Step, op: &Op) -> Result<Arc<Compiled>, Finding> {
        let tensors = || step.read.iter().map(|slot| frame.known_tensor(*slot));
        let is_same = |(kept, found): (&Option<InputType>, Option<&Tensor>)| match (kept, found) {
            (Some(kept), Some(found)) => kept.is_of(found),
            (kept, found) => kept.is_none() && found.is_none(),
        };
        let is_for_these = |kept: &&Kept| kept.types.iter().zip(tensors()).all(is_same);
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = lock().iter().find(is_for_these) {
            return Ok(Arc::clone(&kept.compiled));
        }
        let seen = FrameFacts { frame, step, read_contents: Cell::new(false) };
        let lowered = paddle::lower_op(op, frame.release(), &seen)?;
        frame.reserve(lowered.bytes)?;
        let compiled = Arc::new(Compiled::new(lowered, self.lod, step, frame)?);
        if !seen.read_contents.get() {
            let types = tensors().map(|tensor| tensor.map(InputType::of)).collect();
            let mut kept = lock();
            if kept.len() >= MAX_KEPT {
                kept.clear();
            }
            kept.push(Kept { types, compiled: Arc::clone(&compiled) });
        }
        Ok(compiled)
    }
}

/// Converts an error of the engine to a finding about the operator.
fn within(error: lodstone_engine::Error) -> Finding {
    match error {
        lodstone_engine::Error::Op(error) => error.finding.within(format!("as `{}`", error.kind)),
        lodstone_engine::Error::Program(finding) => finding,
        other => Finding::internal(other),
    }
}

impl Compiled {
    fn new(
        lowered: paddle::Lowered,
        lod: &SharedLod,
        step: &Step,
        frame: &Frame<'_>,
    ) -> Result<Self, Finding> {
        let infos = std::slice::from_ref(&lowered.infos);
        let plan = Plan::new(&lowered.program, infos, Mode::Fast, frame.context());
        let block = lowered.program.blocks.first();
        let block = block.ok_or_else(|| Finding::internal("a lowered operator has no block"))?;
        let input = |name: &String| {
            let slot = |name: &str| {
                let slot = step.slot(name);
                slot.ok_or_else(|| Finding::from(format!("`{name}` is not a variable")))
            };
            match lowered.lods.iter().find(|lod| lod.name == *name) {
                Some(lod) => Ok(Input::Lod(slot(&lod.variable)?, lod.level)),
                None => Ok::<Input, Finding>(Input::Variable(slot(name)?)),
            }
        };
        let mut outputs = Vec::new();
        for output in &lowered.outputs {
            let number = |value: &str| {
                let number = block.outputs.iter().position(|name| name == value);
                number.ok_or_else(|| Finding::internal("an output is not computed"))
            };
            let slot = step.slot(&output.variable).ok_or("an output is not a variable")?;
            let place = step.outputs(&output.slot).iter().position(|other| *other == Some(slot));
            let place = place.ok_or_else(|| Finding::internal("an output has no index"))?;
            let lod = match output.offsets() {
                Some(offsets) => {
                    Source::Made(offsets.into_iter().map(number).collect::<Result<_, _>>()?)
                }
                None => Source::of(lod, step, &output.slot, place),
            };
            outputs.push(Written { number: number(&output.value)?, slot, lod });
        }
        let inputs = block.inputs.iter().map(input).collect::<Result<_, _>>()?;
        Ok(Self { plan: plan.map_err(within)?, inputs, outputs })
    }

    /// Computes the outputs of the plan.
    fn compute(&self, frame: &Frame<'_>) -> Result<Vec<Value>, Finding> {
        let levels = self.inputs.iter().filter_map(|input| match input {
            Input::Variable(_) => None,
            Input::Lod(slot, level) => Some(offsets_in(frame, *slot, *level)),
        });
        let levels = levels.collect::<Result<Vec<_>, _>>()?;
        let mut levels = levels.iter();
        let mut inputs: SmallVec<[&Value; 4]> = SmallVec::new();
        for input in &self.inputs {
            inputs.push(match input {
                Input::Variable(slot) => frame.engine_value(*slot)?,
                Input::Lod(..) => {
                    levels.next().ok_or_else(|| Finding::internal("offsets have no value"))?
                }
            });
        }
        self.plan.run_uncharged(&inputs, frame.context()).map_err(within)
    }
}

impl Written {
    /// Returns the tensor among the outputs of the plan, with its LoD.
    fn tensor(&self, made: &[Value], frame: &Frame<'_>) -> Result<Tensor, Finding> {
        let value = made.get(self.number);
        let value = value.ok_or_else(|| Finding::internal("an output has no value"))?;
        let mut tensor = value.tensor()?;
        tensor.lod = match &self.lod {
            Source::Made(numbers) => {
                let levels = numbers.iter().map(|number| offsets(made.get(*number)));
                let lod = Lod(levels.collect::<Result<_, _>>()?);
                let rows = rows(&tensor);
                let wrong = |error| format!("the sequences do not match {rows} rows: {error}");
                lod.check(rows).map_err(wrong)?;
                lod
            }
            shared => shared.lod(frame, tensor.shape.first().copied()),
        };
        Ok(tensor)
    }
}

/// Returns the offsets of a LoD level that a plan computed.
fn offsets(value: Option<&Value>) -> Result<Vec<u64>, Finding> {
    let value = value.ok_or_else(|| Finding::internal("offsets have no value"))?;
    let tensor = value.tensor()?;
    if tensor.dtype != DType::Int64 {
        return Err(Finding::internal(format!("expected int64 offsets, found {}", tensor.dtype)));
    }
    let bytes = tensor.data.bytes().map_err(Finding::internal)?;
    let offset = |bytes: &[u8; 8]| u64::try_from(i64::from_le_bytes(*bytes));
    let offsets = bytes.as_chunks().0.iter().map(offset).collect::<Result<_, _>>();
    Ok(offsets.map_err(|_| "an offset is negative")?)
}

/// Returns the offsets of a LoD level of a variable.
fn offsets_in(frame: &Frame<'_>, slot: Slot, level: usize) -> Result<Value, Finding> {
    let level = frame.tensor(slot)?.lod.0.get(level);
    let level = level.ok_or("the LoD has fewer levels than before")?;
    let bytes: Vec<u8> = level.iter().flat_map(|offset| offset.to_le_bytes()).collect();
    let shape = vec![level.len() as u64];
    Value::of(&Tensor::dense(DType::Int64, shape, Blob::memory(bytes)))
}
