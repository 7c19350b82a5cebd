//! Operators that are computed by operators of ONNX.
//!
//! An operator is said in ONNX's for the types that it is given, once for each: what comes of that is kept, and
//! run again as long as types stay the same.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use burn_flex::Flex;
use lodstone_lowering::paddle::{self, Given, lod_source};
use lodstone_model::{DType, Op, Tensor};
use lodstone_schema::onnx::infer::{NoBodies, ValueInfo, infer_op};
use lodstone_schema::{Code, Finding};

use crate::budget;
use crate::fused::{self, Chain};
use crate::item::Item;
use crate::kernels::{Call, Run, kernel};
use crate::plan::{Slot, Step};
use crate::run::Frame;

/// Most elements of a constant that is kept, where it is computed of others.
const MOST_FOLDED: usize = 1 << 14;

/// Most types that an operator is kept for.
const MOST_KEPT: usize = 64;

/// What an operator is in ONNX's, by the types that it was given.
#[derive(Debug, Default)]
pub(crate) struct Lowered(Mutex<HashMap<Key, Arc<Compiled>>>);

/// The types of the variables that an operator reads, in their order; nothing for one without a tensor.
type Key = Vec<Option<(DType, Vec<u64>)>>;

/// Operators of ONNX over registers.
struct Compiled {
    parts: Vec<Part>,
    /// What registers begin with: constants, and what is computed of constants alone.
    constants: Registers,
    /// Variables, and the registers that they are read into.
    inputs: Vec<(Slot, usize)>,
    /// Registers, and the variables that they become.
    outputs: Vec<Written>,
    /// How many bytes its results take, and what it needs on the way.
    bytes: u64,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds = self.parts.iter().flat_map(|part| &part.nodes).map(|node| &node.op.kind);
        f.debug_list().entries(kinds).finish()
    }
}

/// A register that becomes a variable.
struct Written {
    register: usize,
    slot: Slot,
    /// The variable whose LoD it has, if it has as many rows.
    sequences: Option<Slot>,
}

/// Kinds of operators whose kernels copy what they read into another order.
const COPYING: [&str; 4] = ["Conv", "ConvTranspose", "Gemm", "MatMul"];

type Registers = Vec<Option<Item<Flex>>>;

/// Operators that are computed together: one, or several in one pass where that can be.
struct Part {
    nodes: Vec<Node>,
    chain: Option<Chain>,
}

struct Node {
    op: Op,
    run: Run<Flex>,
    inputs: Vec<Option<usize>>,
    outputs: Vec<usize>,
    /// Registers that nobody reads after it.
    last: Vec<usize>,
    /// Whether a result has extents that come of what it reads.
    is_unsized: bool,
    /// What the results of all nodes take, of those whose extents are known.
    bytes: u64,
}

/// The variables of a frame, as a lowering sees them.
struct Seen<'a> {
    frame: &'a Frame<'a>,
    step: &'a Step,
    /// Whether it was asked for what is in one.
    looked: Cell<bool>,
}

impl Seen<'_> {
    fn tensor(&self, variable: &str) -> Option<&Tensor> {
        self.frame.tensor(self.step.slot(variable)?).ok()
    }
}

impl Given for Seen<'_> {
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        let tensor = self.tensor(variable)?;
        let dims = tensor.shape.iter().map(|extent| lodstone_model::Dim::Known(*extent));
        Some(ValueInfo::tensor(tensor.dtype, Some(dims.collect())))
    }

    fn contents(&self, variable: &str) -> Option<Vec<i64>> {
        self.looked.set(true);
        ValueInfo::of(self.tensor(variable)?).ints()
    }

    fn sequences(&self, variable: &str) -> Option<u64> {
        let level = self.tensor(variable)?.lod.0.last()?;
        self.looked.set(true);
        Some(level.len().saturating_sub(1) as u64)
    }
}

impl Lowered {
    /// Computes an operator.
    pub(crate) fn run(&self, frame: &mut Frame<'_>, step: &Step, op: &Op) -> Result<(), Finding> {
        let compiled = self.compiled(frame, step, op)?;
        frame.reserve(compiled.bytes)?;
        for (slot, tensor) in compiled.run(frame)? {
            frame.make(slot, tensor)?;
        }
        Ok(())
    }

    fn compiled(&self, frame: &Frame<'_>, step: &Step, op: &Op) -> Result<Arc<Compiled>, Finding> {
        let mut key = Key::new();
        for name in op.reads() {
            let tensor = step.slot(name).and_then(|slot| frame.tensor(slot).ok());
            key.push(tensor.map(|tensor| (tensor.dtype, tensor.shape.clone())));
        }
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let seen = Seen { frame, step, looked: Cell::new(false) };
        let lowered = paddle::lower_op(op, frame.release(), &seen)?;
        frame.reserve(lowered.bytes)?;
        let compiled = Arc::new(Compiled::new(lowered, op, step, frame)?);
        if !seen.looked.get() {
            let mut kept = lock();
            if kept.len() >= MOST_KEPT {
                kept.clear();
            }
            kept.insert(key, Arc::clone(&compiled));
        }
        Ok(compiled)
    }
}

impl Compiled {
    fn new(
        lowered: paddle::Lowered,
        op: &Op,
        step: &Step,
        frame: &Frame<'_>,
    ) -> Result<Self, Finding> {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut register = |name: &str| match numbers.get(name) {
            Some(number) => (*number, false),
            None => {
                numbers.insert(name.to_owned(), numbers.len());
                (numbers.len() - 1, true)
            }
        };
        let mut constants = Registers::new();
        for constant in &lowered.constants {
            let number = register(&constant.name).0;
            put(&mut constants, number, Item::enter(&constant.tensor)?);
        }
        let mut inputs = Vec::new();
        let mut read = |name: &str, register: &mut dyn FnMut(&str) -> (usize, bool)| {
            let (number, new) = register(name);
            if new {
                let slot = step.slot(name).ok_or_else(|| format!("`{name}` is no variable"))?;
                inputs.push((slot, number));
            }
            Ok::<usize, Finding>(number)
        };
        let mut nodes = Vec::new();
        for (number, op) in lowered.ops.into_iter().enumerate() {
            let is_unsized = lowered.unsized_ops.contains(&number);
            let run = kernel::<Flex>(&op.domain, &op.kind)
                .ok_or_else(|| format!("`{}` is not computed yet", op.kind))?;
            let args = |operands: &[lodstone_model::Operand]| {
                operands.first().map_or(Vec::new(), |operand| operand.args.clone())
            };
            let mut numbers = Vec::new();
            for name in args(&op.inputs) {
                numbers.push(match name.as_str() {
                    "" => None,
                    name => Some(read(name, &mut register)?),
                });
            }
            let outputs = args(&op.outputs).iter().map(|name| register(name).0).collect();
            let (last, bytes) = (Vec::new(), lowered.bytes);
            let node = Node { op, run, inputs: numbers, outputs, last, is_unsized, bytes };
            if !node.fold(&mut constants, frame)? {
                nodes.push(node);
            }
        }
        let mut outputs = Vec::new();
        for output in &lowered.outputs {
            let register = read(&output.value, &mut register)?;
            let slot = step.slot(&output.variable).ok_or("it writes no variable")?;
            let sequences = lod_source(op, &output.slot);
            let sequences = sequences.and_then(|slot| step.inputs(slot).first().copied().flatten());
            outputs.push(Written { register, slot, sequences });
        }
        let mut used: Vec<usize> = outputs.iter().map(|output| output.register).collect();
        for node in nodes.iter_mut().rev() {
            for number in node.inputs.iter().flatten().chain(&node.outputs) {
                if !used.contains(number) {
                    used.push(*number);
                    node.last.push(*number);
                }
            }
        }
        constants.resize(numbers.len(), None);
        Ok(Self { parts: parts(nodes), constants, inputs, outputs, bytes: lowered.bytes })
    }

    fn run(&self, frame: &Frame<'_>) -> Result<Vec<(Slot, Tensor)>, Finding> {
        let mut registers = self.constants.clone();
        for (slot, number) in &self.inputs {
            put(&mut registers, *number, Item::enter(frame.tensor(*slot)?)?);
        }
        for part in &self.parts {
            part.run(&mut registers, frame)?;
        }
        // What is nowhere else leaves without a copy.
        let take = |(at, output): (usize, &Written)| {
            let mut later = self.outputs.iter().skip(at + 1);
            let is_asked_again = later.any(|other| other.register == output.register);
            let register = register(&mut registers, output.register)?;
            let item = if is_asked_again { register.clone() } else { register.take() };
            let item = item.ok_or_else(|| Finding::internal("a result has not been computed"))?;
            let mut tensor = item.leave()?;
            let sequences = output.sequences.and_then(|slot| frame.tensor(slot).ok());
            if let Some(like) = sequences.filter(|like| like.shape.first() == tensor.shape.first())
            {
                tensor.lod = like.lod.clone();
            }
            Ok((output.slot, tensor))
        };
        self.outputs.iter().enumerate().map(take).collect()
    }
}

/// Operators with those that can be computed in the same pass.
fn parts(nodes: Vec<Node>) -> Vec<Part> {
    let is_link = |node: &Node| !node.is_unsized && fused::is_link(&node.op);
    let mut parts: Vec<Part> = Vec::new();
    for node in nodes {
        let is_next = is_link(&node);
        match parts.last_mut().filter(|part| is_next && part.nodes.iter().all(is_link)) {
            Some(part) => part.nodes.push(node),
            None => parts.push(Part { nodes: vec![node], chain: None }),
        }
    }
    for part in &mut parts {
        let is_alone = part.nodes.len() == 1;
        if is_alone && !part.nodes.iter().any(|node| fused::is_slow(&node.op)) {
            continue;
        }
        let is_read_later =
            |register: usize| !part.nodes.iter().any(|node| node.last.contains(&register));
        let ops = part.nodes.iter().map(|node| (&node.op, &node.inputs[..], &node.outputs[..]));
        part.chain = Chain::of(ops, is_read_later);
    }
    parts
}

impl Part {
    fn run(&self, registers: &mut Registers, frame: &Frame<'_>) -> Result<(), Finding> {
        let Some(made) = self.chain.as_ref().and_then(|chain| chain.run(registers)) else {
            return self.nodes.iter().try_for_each(|node| node.run(registers, frame));
        };
        for number in self.nodes.iter().flat_map(|node| &node.last) {
            *register(registers, *number)? = None;
        }
        made.into_iter().for_each(|(number, item)| put(registers, number, item));
        Ok(())
    }
}

/// Puts an item into a register, which is made if it is not there yet.
fn put(registers: &mut Registers, number: usize, item: Item<Flex>) {
    match registers.get_mut(number) {
        Some(register) => *register = Some(item),
        None => {
            registers.resize(number, None);
            registers.push(Some(item));
        }
    }
}

/// A register of operators that are being run.
fn register(registers: &mut Registers, number: usize) -> Result<&mut Option<Item<Flex>>, Finding> {
    let register = registers.get_mut(number);
    register.ok_or_else(|| Finding::internal(format!("there is no register {number}")))
}

impl Node {
    fn run(&self, registers: &mut Registers, frame: &Frame<'_>) -> Result<(), Finding> {
        let lost = |number| self.within(Finding::internal(format!("register {number} is empty")));
        let input = |number: &Option<usize>| match *number {
            None => Ok(None),
            Some(number) => match registers.get(number).and_then(Option::as_ref) {
                Some(item) => Ok(Some(item.clone())),
                None => Err(lost(number)),
            },
        };
        let inputs = self.inputs.iter().map(input).collect::<Result<_, _>>()?;
        let call = Call { op: &self.op, inputs };
        if self.is_unsized {
            frame.reserve(size(&call).map_err(|finding| self.within(finding))?)?;
        }
        if COPYING.contains(&self.op.kind.as_str()) {
            let read = call.inputs.iter().flatten().map(Item::nbytes);
            budget::probe(read.fold(self.bytes, u64::saturating_add))?;
        }
        for number in &self.last {
            *register(registers, *number)? = None;
        }
        let made = guarded(|| (self.run)(&call)).map_err(|finding| self.within(finding))?;
        if made.len() < self.outputs.len() {
            let (wanted, found) = (self.outputs.len(), made.len());
            let wrong = Finding::internal(format!("expected {wanted} results, found {found}"));
            return Err(self.within(wrong));
        }
        for (number, item) in self.outputs.iter().zip(made) {
            if !self.last.contains(number) {
                put(registers, *number, item);
            }
        }
        Ok(())
    }

    /// A finding of the operator of ONNX as one of the operator that it computes.
    fn within(&self, finding: Finding) -> Finding {
        finding.within(format!("as `{}`", self.op.kind))
    }

    /// Computes it now if it reads constants alone and gives little: what is large is made anew at each run, so
    /// that it takes memory only then.
    fn fold(&self, constants: &mut Registers, frame: &Frame<'_>) -> Result<bool, Finding> {
        let is_there = |number: &usize| constants.get(*number).is_some_and(Option::is_some);
        if !self.inputs.iter().flatten().all(is_there) {
            return Ok(false);
        }
        self.run(constants, frame)?;
        let made = |number: &usize| constants.get(*number)?.as_ref();
        let is_small = |item: &Item<Flex>| item.shape().iter().product::<usize>() <= MOST_FOLDED;
        let folds = self.outputs.iter().filter_map(made).all(is_small);
        for number in self.outputs.iter().filter(|_| !folds) {
            *register(constants, *number)? = None;
        }
        Ok(folds)
    }
}

/// How many bytes an operator's results will take, as its rule tells for what it is given.
fn size(call: &Call<'_, Flex>) -> Result<u64, Finding> {
    let info = |item: &Option<Item<Flex>>| item.as_ref().map(Item::info).transpose();
    let infos = call.inputs.iter().map(info).collect::<Result<Vec<_>, _>>()?;
    let infos: Vec<Option<&ValueInfo>> = infos.iter().map(Option::as_ref).collect();
    let told = infer_op(call.op, paddle::OPSET, &infos, &mut NoBodies)?;
    Ok(told.iter().filter_map(ValueInfo::nbytes).fold(0, u64::saturating_add))
}

/// What a kernel gives; one that panics has an error of this program, not of the user's.
fn guarded<T>(work: impl FnOnce() -> Result<T, Finding>) -> Result<T, Finding> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let message = format!("internal error: {}", text.unwrap_or("a panic"));
        Err(Finding::new(Code::Internal, message))
    })
}
