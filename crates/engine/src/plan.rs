//! Plans: a program for inputs of given types, as kernels over registers.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lodstone_model::{Dialect, Op, Program};
use lodstone_schema::onnx::infer::{NoBodies, ValueInfo, infer_op};
use lodstone_schema::{Code, Finding};

use crate::budget::{Budget, probe};
use crate::fused::{self, Chain};
use crate::item::Outcome;
use crate::kernels::{Call, Run, kernel};
use crate::threads::Threads;
use crate::value::Value;

/// The largest number of elements of a constant that is kept where it is computed of others. What is larger is
/// computed at each run, so that it takes memory only then.
const MAX_FOLDED: usize = 1 << 14;

/// Kinds of operators whose kernels copy what they read into another order.
const COPYING: [&str; 4] = ["Conv", "ConvTranspose", "Gemm", "MatMul"];

/// Kinds of operators whose kernels use several threads at any size.
const THREADED: [&str; 8] = [
    "AveragePool",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "LpPool",
    "MaxPool",
];

/// How operators are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each operator by its own kernel. What other modes compute is compared with this one.
    Reference,
    /// Neighbouring element-wise operators in one pass. Results are within [`Mode::error`] of the reference.
    #[default]
    Fast,
}

impl Mode {
    /// How far a result of an operator may be from that of [`Mode::Reference`], as a fraction of the larger of the
    /// result and the operator's inputs. Most operators have the same bits in all modes.
    pub fn error(self, kind: &str) -> f64 {
        match (self, kind) {
            // Another approximation of the error function, several elements at once.
            (Self::Fast, "Erf" | "Gelu") => 5e-7,
            _ => 0.0,
        }
    }
}

/// What is known of the sizes of a program's values before it runs.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// Bytes that the results of all operators take, of those whose dims are known.
    pub bytes: u64,
    /// Numbers of the operators whose results have dims that are only known when they run. Their inputs are checked
    /// then.
    pub unsized_ops: Vec<usize>,
}

impl Sizes {
    /// The sizes of the first block of a program, by what inference says of its values.
    pub fn of(program: &Program, infos: &HashMap<String, ValueInfo>) -> Self {
        let mut sizes = Self::default();
        let ops = program.blocks.first().map_or(&[][..], |block| &block.ops);
        for (number, op) in ops.iter().enumerate() {
            let known = |name: &str| infos.get(name).and_then(ValueInfo::nbytes);
            match op.writes().map(known).collect::<Option<Vec<u64>>>() {
                Some(all) => sizes.bytes = all.into_iter().fold(sizes.bytes, u64::saturating_add),
                None => sizes.unsized_ops.push(number),
            }
        }
        sizes
    }
}

/// What a run may use.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    budget: &'a Budget,
    threads: &'a Threads,
}

impl<'a> Context<'a> {
    /// A run within a budget, on threads.
    pub fn new(budget: &'a Budget, threads: &'a Threads) -> Self {
        Self { budget, threads }
    }
}

/// An operator that cannot be planned or has failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpError {
    /// The operator's number in its block.
    pub number: usize,
    /// Its kind.
    pub kind: String,
    /// Its name, which may be empty.
    pub name: String,
    /// What is wrong.
    pub finding: Finding,
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator {} (`{}`): {}", self.number, self.kind, self.finding)
    }
}

impl std::error::Error for OpError {}

/// Why a program is not planned or run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// The program contradicts itself, or an input is wrong.
    Program(Finding),
    /// An operator cannot be computed.
    Op(Box<OpError>),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(finding) => finding.fmt(f),
            Self::Op(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PlanError {}

impl From<Finding> for PlanError {
    fn from(finding: Finding) -> Self {
        Self::Program(finding)
    }
}

/// The operators of a program's first block as kernels over registers. It is a function of the program, what is known
/// of its values, and the mode alone.
pub struct Plan {
    parts: Vec<Part>,
    /// What registers begin with: initializers, and what is computed of them alone.
    constants: Registers,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    bytes: u64,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.parts.iter().flat_map(|part| &part.nodes).map(|node| &node.op.kind);
        f.debug_list().entries(kinds).finish()
    }
}

pub(crate) type Registers = Vec<Option<Value>>;

/// Operators that are computed together: one, or several in one pass where that can be.
struct Part {
    nodes: Vec<Node>,
    chain: Option<Chain>,
}

struct Node {
    number: usize,
    op: Op,
    run: Run,
    opset: i64,
    inputs: Vec<Option<usize>>,
    /// Registers of the outputs; `None` for one that is left out.
    outputs: Vec<Option<usize>>,
    /// Registers that nothing reads after it.
    last: Vec<usize>,
    /// Whether the dims of a result are only known when it runs.
    is_unsized: bool,
    /// What the results of all nodes take, of those whose dims are known.
    bytes: u64,
}

/// Numbers of registers by the names of values.
#[derive(Default)]
struct Names<'p>(HashMap<&'p str, usize>);

impl<'p> Names<'p> {
    /// The register of a new value.
    fn define(&mut self, name: &'p str) -> Result<usize, Finding> {
        let number = self.0.len();
        match self.0.insert(name, number) {
            None => Ok(number),
            Some(_) => Err(format!("`{name}` is defined twice").into()),
        }
    }

    /// The register of a value that is read; `None` if it is left out.
    fn read(&self, name: &str) -> Result<Option<usize>, Finding> {
        match name {
            "" => Ok(None),
            name => match self.0.get(name) {
                Some(number) => Ok(Some(*number)),
                None => Err(format!("there is no value `{name}`").into()),
            },
        }
    }
}

impl Plan {
    /// Plans the first block of a program, whose operators are ONNX's newest. Inputs and outputs are those that the
    /// block names.
    ///
    /// # Errors
    /// If it is not a program of ONNX, reads what nothing defines, or has an operator without a kernel; if an operator
    /// whose inputs are constants fails.
    pub fn new(
        program: &Program,
        sizes: &Sizes,
        mode: Mode,
        context: Context<'_>,
    ) -> Result<Self, PlanError> {
        let block = program.blocks.first().filter(|_| program.dialect == Dialect::Onnx);
        let block = block.ok_or_else(|| Finding::from("expected a program of ONNX"))?;
        let mut names = Names::default();
        let mut constants = Registers::new();
        for constant in &block.initializers {
            let number = names.define(&constant.name)?;
            put(&mut constants, number, Value::of(&constant.tensor)?);
        }
        let inputs = block.inputs.iter().map(|name| names.define(name));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let opset = opset(program);
        let unsized_ops: HashSet<usize> = sizes.unsized_ops.iter().copied().collect();
        let mut nodes: Vec<Node> = Vec::new();
        for (number, op) in block.ops.iter().enumerate() {
            let failed = |finding| PlanError::of(number, op, finding);
            let run = kernel(&op.domain, &op.kind)
                .ok_or_else(|| failed(format!("`{}` is not computed yet", op.kind).into()))?;
            let read = op.input("").iter().map(|name| names.read(name));
            let read = read.collect::<Result<_, _>>().map_err(failed)?;
            let mut written = Vec::new();
            for name in op.output("") {
                written.push(match name.as_str() {
                    "" => None,
                    name => Some(names.define(name).map_err(failed)?),
                });
            }
            let node = Node {
                number,
                op: op.clone(),
                run,
                opset,
                inputs: read,
                outputs: written,
                last: Vec::new(),
                is_unsized: unsized_ops.contains(&number),
                bytes: sizes.bytes,
            };
            if !node.fold(&mut constants, context)? {
                nodes.push(node);
            }
        }
        let mut outputs = Vec::new();
        for name in &block.outputs {
            let found = names.read(name)?;
            outputs.push(found.ok_or_else(|| Finding::from("an output has no name"))?);
        }
        let mut used: HashSet<usize> = outputs.iter().copied().collect();
        for node in nodes.iter_mut().rev() {
            for number in node.inputs.iter().chain(&node.outputs).flatten() {
                if used.insert(*number) {
                    node.last.push(*number);
                }
            }
        }
        constants.resize(names.0.len(), None);
        Ok(Self { parts: parts(nodes, mode), constants, inputs, outputs, bytes: sizes.bytes })
    }

    /// How many bytes the results of all operators take, of those whose dims are known.
    pub fn nbytes(&self) -> u64 {
        self.bytes
    }

    /// Computes the outputs, in the order of the block, from the inputs in theirs.
    ///
    /// # Errors
    /// If there are not as many inputs, an operator fails, or the budget does not last.
    pub fn run(&self, inputs: Vec<Value>, context: Context<'_>) -> Result<Vec<Value>, PlanError> {
        if inputs.len() != self.inputs.len() {
            let (expected, found) = (self.inputs.len(), inputs.len());
            return Err(Finding::from(format!("expected {expected} inputs, found {found}")).into());
        }
        context.budget.check(self.bytes)?;
        let mut registers = self.constants.clone();
        for (number, value) in self.inputs.iter().zip(inputs) {
            put(&mut registers, *number, value);
        }
        for part in &self.parts {
            part.run(&mut registers, context)?;
        }
        let take = |number: &usize| {
            let found = registers.get(*number).and_then(Option::as_ref).cloned();
            found.ok_or_else(|| Finding::internal("a result has not been computed").into())
        };
        self.outputs.iter().map(take).collect()
    }
}

/// The version of ONNX's operators that a program is of.
fn opset(program: &Program) -> i64 {
    let is_own = |(domain, _): &&(String, i64)| domain.is_empty() || domain == "ai.onnx";
    program.operator_versions.iter().find(is_own).map_or(0, |(_, opset)| *opset)
}

impl PlanError {
    fn of(number: usize, op: &Op, finding: Finding) -> Self {
        let (kind, name) = (op.kind.clone(), op.name.clone());
        Self::Op(Box::new(OpError { number, kind, name, finding }))
    }
}

/// Operators with those that can be computed in the same pass.
fn parts(nodes: Vec<Node>, mode: Mode) -> Vec<Part> {
    let is_link = |node: &Node| !node.is_unsized && fused::is_link(&node.op);
    let mut parts: Vec<Part> = Vec::new();
    for node in nodes {
        let is_next = mode == Mode::Fast && is_link(&node);
        // Links are with links alone.
        let is_of_links = |part: &&mut Part| part.nodes.last().is_some_and(is_link);
        match parts.last_mut().filter(|part| is_next && is_of_links(part)) {
            Some(part) => part.nodes.push(node),
            None => parts.push(Part { nodes: vec![node], chain: None }),
        }
    }
    if mode == Mode::Reference {
        return parts;
    }
    for part in &mut parts {
        let is_alone = part.nodes.len() == 1;
        if is_alone && !part.nodes.iter().any(|node| fused::is_slow(&node.op)) {
            continue;
        }
        let is_read_later =
            |register: usize| !part.nodes.iter().any(|node| node.last.contains(&register));
        let links = part.nodes.iter().map(|node| {
            let outputs: Option<Vec<usize>> = node.outputs.iter().copied().collect();
            Some((&node.op, &node.inputs[..], outputs?))
        });
        part.chain =
            links.collect::<Option<Vec<_>>>().and_then(|links| Chain::of(&links, is_read_later));
    }
    parts
}

impl Part {
    fn run(&self, registers: &mut Registers, context: Context<'_>) -> Result<(), PlanError> {
        let made = match &self.chain {
            Some(chain) => chain.run(registers, context.threads)?,
            None => None,
        };
        let Some(made) = made else {
            return self.nodes.iter().try_for_each(|node| node.run(registers, context));
        };
        for number in self.nodes.iter().flat_map(|node| &node.last) {
            *register(registers, *number)? = None;
        }
        made.into_iter().for_each(|(number, value)| put(registers, number, value));
        Ok(())
    }
}

/// Puts a value into a register, which is made if it is not there yet.
fn put(registers: &mut Registers, number: usize, value: Value) {
    match registers.get_mut(number) {
        Some(register) => *register = Some(value),
        None => {
            registers.resize(number, None);
            registers.push(Some(value));
        }
    }
}

/// A register of operators that are being run.
fn register(registers: &mut Registers, number: usize) -> Outcome<&mut Option<Value>> {
    let register = registers.get_mut(number);
    register.ok_or_else(|| Finding::internal(format!("there is no register {number}")))
}

impl Node {
    fn run(&self, registers: &mut Registers, context: Context<'_>) -> Result<(), PlanError> {
        self.apply(registers, context)
            .map_err(|finding| PlanError::of(self.number, &self.op, finding))
    }

    fn apply(&self, registers: &mut Registers, context: Context<'_>) -> Outcome<()> {
        let input = |number: &Option<usize>| match *number {
            None => Ok(None),
            Some(number) => match registers.get(number).and_then(Option::as_ref) {
                Some(value) => Ok(Some(value)),
                None => Err(Finding::internal(format!("register {number} is empty"))),
            },
        };
        let inputs: Vec<Option<&Value>> = self.inputs.iter().map(input).collect::<Outcome<_>>()?;
        let mut read = nbytes(&inputs);
        if self.is_unsized {
            let made = self.size(&inputs)?;
            context.budget.check(made)?;
            read = read.saturating_add(made);
        }
        if COPYING.contains(&self.op.kind.as_str()) {
            probe(read.saturating_add(self.bytes))?;
        }
        let call = Call::new(&self.op, &inputs)?;
        for number in &self.last {
            *register(registers, *number)? = None;
        }
        let made = applied(self.run, &call, read.saturating_add(self.bytes), context.threads)?;
        if made.len() < self.outputs.len() {
            let (wanted, found) = (self.outputs.len(), made.len());
            return Err(format!("expected at most {found} outputs, found {wanted}").into());
        }
        for (number, value) in self.outputs.iter().zip(made) {
            if let Some(number) = number.filter(|number| !self.last.contains(number)) {
                put(registers, number, value);
            }
        }
        Ok(())
    }

    /// How many bytes the results take, by the rule of the operator for these inputs.
    fn size(&self, inputs: &[Option<&Value>]) -> Outcome<u64> {
        let info = |value: &Option<&Value>| value.map(Value::info).transpose();
        let infos = inputs.iter().map(info).collect::<Outcome<Vec<_>>>()?;
        let infos: Vec<Option<&ValueInfo>> = infos.iter().map(Option::as_ref).collect();
        let told = infer_op(&self.op, self.opset, &infos, &mut NoBodies)?;
        Ok(told.iter().filter_map(ValueInfo::nbytes).fold(0, u64::saturating_add))
    }

    /// Computes it now if its inputs are constants and its results small.
    fn fold(&self, constants: &mut Registers, context: Context<'_>) -> Result<bool, PlanError> {
        let is_there = |number: &usize| constants.get(*number).is_some_and(Option::is_some);
        if !self.inputs.iter().flatten().all(is_there) {
            return Ok(false);
        }
        self.run(constants, context)?;
        let made = |number: &usize| constants.get(*number)?.as_ref();
        let is_small = |value: &Value| match value {
            Value::Dense(dense) => dense.count() <= MAX_FOLDED,
            _ => false,
        };
        let outputs = || self.outputs.iter().flatten();
        let folds = outputs().filter_map(made).all(is_small);
        for number in outputs().filter(|_| !folds) {
            if let Some(register) = constants.get_mut(*number) {
                *register = None;
            }
        }
        Ok(folds)
    }
}

/// The results of one operator of ONNX's newest versions. Its inputs are not checked by the rule of the operator.
///
/// # Errors
/// If it has no kernel, or the kernel fails.
pub fn evaluate(op: &Op, inputs: &[Option<Value>], threads: &Threads) -> Outcome<Vec<Value>> {
    let run = kernel(&op.domain, &op.kind);
    let run = run.ok_or_else(|| format!("`{}` is not computed yet", op.kind))?;
    let inputs: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
    applied(run, &Call::new(op, &inputs)?, nbytes(&inputs), threads)
}

/// How many bytes the inputs of an operator take.
fn nbytes(inputs: &[Option<&Value>]) -> u64 {
    inputs.iter().flatten().map(|value| value.nbytes()).fold(0, u64::saturating_add)
}

/// What a kernel that touches so many bytes returns.
fn applied(run: Run, call: &Call<'_>, bytes: u64, threads: &Threads) -> Outcome<Vec<Value>> {
    let is_threaded = THREADED.contains(&call.op.kind.as_str());
    threads.run_if(if is_threaded { u64::MAX } else { bytes }, || guarded(|| run(call)))?
}

/// What a kernel returns; a panic is an error of the engine, not of the program.
fn guarded<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let message = format!("internal error: {}", text.unwrap_or("a panic"));
        Err(Finding::new(Code::Internal, message))
    })
}
