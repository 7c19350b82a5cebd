//! Plans: programs for inputs of given types, as kernels over registers.

mod fusion;
mod packing;
mod single;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use lodstone_model::{DType, Dialect, Dim, Op, Parameter, Program};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{NoBodies, ValueInfo, infer_op};
use lodstone_schema::onnx::scopes::Scopes;
use lodstone_schema::onnx::simplify::{Bounds, simplify};
use lodstone_schema::places::at_mut;

use self::fusion::{Group, grouped};
use self::packing::Constants;
use self::single::Single;
use crate::budget::{Charge, Memory, probe};
use crate::context::Context;
use crate::control::Control;
use crate::error::{Error, OpError, Outcome, Result};
use crate::evaluate::{Planning, compute, guarded};
use crate::fast::{
    EpilogueArguments, FastCall, FastKernel, PackCache, PackedConstants, ShapedOperator,
};
use crate::fused::Rule;
use crate::gemm::{Buffers, Spare};
use crate::kernels::{operator, operators};
use crate::operator::{Operator, Working};
use crate::tensor::{Dense, Order};
use crate::threads::SMALL;
use crate::value::{Charging, STRING, Value};

/// The limits on constants that planning folds: shapes, and values computed from them. Constants that only depend on
/// constants of the model are folded earlier.
const FOLDED: Bounds = Bounds { each: 1 << 16, all: 1 << 24 };

/// The execution mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each operator runs in its own kernel. Results of other modes are compared with those of this one.
    Reference,
    /// The program is simplified. Filters of convolutions are packed, constant ones once and together with the normalization
    /// of their results; images between them have their channels innermost in memory. Element-wise operators run in one
    /// pass, where possible as soon as a convolution has computed a part of its result. Operators between
    /// dequantization and quantization compute on codes: given the same ones, a few results differ by one. Other results
    /// are within [`Mode::error`] of the reference, but a convolution of infinite elements may return NaN where the
    /// reference returns an infinity.
    #[default]
    Fast,
}

impl Mode {
    /// Returns the maximum difference of a result of an operator from that of [`Mode::Reference`], as a fraction of the
    /// maximum of the result and the operator's inputs. Most operators return the same bits in all modes.
    pub fn error(self, kind: &str) -> f64 {
        match self {
            Self::Reference => 0.0,
            Self::Fast => {
                let rows = operators().filter(|operator| operator.kind == kind);
                rows.map(|operator| operator.error).fold(0.0, f64::max)
            }
        }
    }
}

/// The main graph of a program as kernels over registers. It is a function of the program, the inferred types of its
/// values, and the mode alone.
pub struct Plan {
    groups: Vec<Group>,
    /// The initial values of registers: constants.
    constants: Registers,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    peak: u64,
    /// The operator, if it is the only one and needs no registers.
    single: Option<Single>,
    /// A charge of nothing, for constants and inputs: the plan and the caller count them.
    uncounted: Arc<Charge>,
    /// The memory of results of the last run.
    spare: Spare,
    /// The charge for constants that planning created.
    _folded: Charge,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.groups.iter().flat_map(|group| &group.nodes).map(|node| &node.op.kind);
        f.debug_list().entries(kinds).finish()
    }
}

pub(crate) type Registers = Vec<Option<Value>>;

/// The registers of a run.
struct Frame {
    registers: Registers,
    /// The memory of released values.
    buffers: Buffers,
    /// The charges for handles of values in sequences and maps.
    charges: HashMap<usize, Charge>,
}

struct Node {
    number: usize,
    op: Op,
    implementation: Implementation,
    opset: i64,
    inputs: Vec<Option<usize>>,
    /// The registers that its subgraphs read, in the order of their captures.
    captured: Vec<usize>,
    /// The registers of the outputs; `None` for an output that is omitted.
    outputs: Vec<Option<usize>>,
    /// The registers that nothing reads afterwards.
    last: Vec<usize>,
    /// The size of the results in bytes; `None` if some dims are only known at run time.
    bytes: Option<u64>,
    /// The dims of the first result, if they are known.
    dims: Option<Vec<u64>>,
    /// The number of elements of the results, if the dims are known.
    count: u64,
}

/// The implementation of an operator.
enum Implementation {
    Control(Control),
    Kernel(&'static Operator, Path),
}

/// The kernel that computes an operator.
enum Path {
    Reference,
    /// The fast kernel, and the reference kernel for inputs that it does not take.
    Fast(FastKernel),
    /// A kernel of one input, whose constants are packed.
    Packed(Arc<PackedConstants>),
    /// A kernel with several inputs, of which constants are packed, and the reference kernel for those that it does not take.
    PackedOrReference(Arc<PackedConstants>),
}

impl Plan {
    /// Plans the main graph of a program without functions, whose operators are of the newest opset. Constants are the
    /// initializers of the graph; `infos` holds the inferred types of values, by block.
    ///
    /// # Errors
    /// If the program is not ONNX, reads an undefined value, or has an operator without a kernel.
    pub fn new(
        program: &Program,
        infos: &[HashMap<String, ValueInfo>],
        mode: Mode,
        context: Context<'_>,
    ) -> Result<Self> {
        Self::with_packed(program, infos, mode, &PackCache::default(), context)
    }

    /// Plans a program as [`new`](Self::new) does, with the packed constants of other plans of the same program.
    pub(crate) fn with_packed(
        program: &Program,
        infos: &[HashMap<String, ValueInfo>],
        mode: Mode,
        packed: &PackCache,
        context: Context<'_>,
    ) -> Result<Self> {
        if program.dialect != Dialect::Onnx {
            return Err(Finding::from("expected an ONNX program").into());
        }
        match mode {
            Mode::Reference => {
                let folded = context.budget.charge(0);
                Self::of(program, &[], infos, None, folded, context)
            }
            Mode::Fast => {
                let simple = simplify(program, &[], infos, &Planning(context), FOLDED)?;
                let folded = context.budget.charge(simple.folded);
                // A folded constant has a name of its own.
                let constants = program.blocks.first().map(|block| &block.initializers);
                let own = constants.into_iter().flatten().map(|it| it.name.as_str()).collect();
                let (program, parameters) = (&simple.program, &simple.parameters);
                let packed = Some((packed, &own));
                Self::of(program, parameters, &simple.infos, packed, folded, context)
            }
        }
    }

    fn of(
        program: &Program,
        parameters: &[Parameter],
        infos: &[HashMap<String, ValueInfo>],
        packed: Option<(&PackCache, &HashSet<&str>)>,
        folded: Charge,
        context: Context<'_>,
    ) -> Result<Self> {
        let mode = if packed.is_some() { Mode::Fast } else { Mode::Reference };
        let mut scopes: Scopes<'_, usize> = Scopes::new(program);
        scopes.graph()?;
        let block = scopes.innermost()?.block;
        let nothing = HashMap::new();
        let infos = infos.first().unwrap_or(&nothing);
        let mut constants = Registers::new();
        for constant in parameters.iter().chain(&block.initializers) {
            define(&mut scopes, &constant.name)?;
            constants.push(Some(Value::of(&constant.tensor)?));
        }
        let inputs = block.inputs.iter().map(|name| define(&mut scopes, name));
        let inputs = inputs.collect::<Outcome<Vec<_>>>()?;
        let mut nodes: Vec<Node> = Vec::new();
        for (number, op) in block.ops.iter().enumerate() {
            let failed = |finding| Error::Op(Box::new(OpError::new(number, op, finding)));
            scopes.reach(number, op)?;
            let node = Node::new(number, op, infos, &mut scopes, &constants, mode);
            nodes.push(node.map_err(failed)?);
        }
        let outputs = block.outputs.iter().map(|name| match scopes.see(name) {
            Some(register) => Ok(*register),
            None => Err(Finding::from(format!("output `{name}` is not defined"))),
        });
        let outputs = outputs.collect::<Outcome<Vec<_>>>()?;
        if let Some((packed, own)) = packed {
            let name = |it: &Parameter| own.contains(it.name.as_str()).then(|| it.name.clone());
            let names: Vec<Option<String>> = parameters.iter().map(name).collect();
            let known = Constants { registers: &constants, names: &names, packed };
            nodes = known.pack(nodes, &outputs, context)?;
        }
        let mut groups = grouped(nodes, mode);
        let mut used: HashSet<usize> = outputs.iter().copied().collect();
        for node in groups.iter_mut().rev().flat_map(|group| group.nodes.iter_mut().rev()) {
            let read = node.inputs.iter().chain(&node.outputs).flatten().chain(&node.captured);
            let last = read.filter(|register| used.insert(**register)).copied();
            node.last = last.collect();
        }
        if mode == Mode::Fast {
            groups.iter_mut().for_each(|group| group.fuse(&constants));
        }
        constants.resize(scopes.innermost()?.names.len(), None);
        let peak = peak(groups.iter().flat_map(|group| &group.nodes))?;
        let single = Single::of(&groups, &constants, &inputs, &outputs);
        let (spare, uncounted) = (Spare::default(), Arc::new(context.budget.charge(0)));
        for constant in constants.iter_mut().flatten() {
            constant.uncounted(&uncounted);
        }
        Ok(Self {
            groups,
            constants,
            inputs,
            outputs,
            peak,
            single,
            uncounted,
            spare,
            _folded: folded,
        })
    }

    /// Returns the peak size of the results of operators in bytes, among those with known dims.
    pub fn nbytes(&self) -> u64 {
        self.peak
    }

    /// Computes the outputs from the inputs, both in the order of the graph. They are charged to the budget.
    ///
    /// # Errors
    /// If the number of inputs does not match, an operator fails, the budget or the step limit is exceeded, or the run is
    /// cancelled.
    pub fn run(&self, inputs: Vec<Value>, context: Context<'_>) -> Result<Vec<Value>> {
        let inputs: Vec<&Value> = inputs.iter().collect();
        let mut results = self.run_uncharged(&inputs, context)?;
        let mut charging = Charging::new(context.budget, std::iter::empty());
        results.iter_mut().for_each(|value| charging.charge(value));
        Ok(results)
    }

    /// Computes the outputs as [`run`](Self::run) does; the caller charges them.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_uncharged(&self, inputs: &[&Value], context: Context<'_>) -> Result<Vec<Value>> {
        if inputs.len() != self.inputs.len() {
            let (expected, found) = (self.inputs.len(), inputs.len());
            return Err(Finding::from(format!("expected {expected} inputs, found {found}")).into());
        }
        if let (Some(single), None) = (&self.single, context.profile)
            && let Some(results) = single.run(self, inputs, context)?
        {
            return Ok(results);
        }
        let memory = self.spare.take(self.peak, context.budget)?;
        // Small operators run on the caller's thread; handing over each of the others would take longer.
        match self.peak > SMALL {
            true => context.threads.run(|| self.compute(inputs, memory, context))?,
            false => self.compute(inputs, memory, context),
        }
    }

    fn compute(
        &self,
        inputs: &[&Value],
        (buffers, reserved): (Buffers, Charge),
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        let registers = self.constants.clone();
        let mut frame = Frame { registers, buffers, charges: HashMap::new() };
        for (register, value) in self.inputs.iter().zip(inputs) {
            let mut value = (*value).clone();
            value.uncounted(&self.uncounted);
            frame.put(*register, value)?;
        }
        for group in &self.groups {
            match context.profile {
                Some(profile) => {
                    let (kind, name) = group.label();
                    profile.measure(&kind, &name, || group.run(&mut frame, context))?;
                }
                None => group.run(&mut frame, context)?,
            }
        }
        let take = |register: &usize| {
            let found = frame.registers.get(*register).and_then(Option::as_ref).cloned();
            found.ok_or_else(|| Finding::internal("a result has not been computed").into())
        };
        let results = self.outputs.iter().map(take).collect::<Result<Vec<_>>>()?;
        self.spare.put(&frame.buffers, context.budget);
        // What this run reserved for its results ends with it.
        drop(reserved);
        Ok(results)
    }

    /// Frees the memory that is kept from run to run.
    pub(crate) fn release(&self) {
        self.spare.clear();
    }
}

/// Allocates the register of a new value.
fn define<'p>(scopes: &mut Scopes<'p, usize>, name: &'p str) -> Outcome<usize> {
    let register = scopes.innermost()?.names.len();
    match scopes.keep(name, register)? {
        None => Ok(register),
        Some(_) => Err(format!("`{name}` is defined twice").into()),
    }
}

/// Returns the peak size of results in bytes, among those with a known size. All results of an operator count until the
/// last of them is released.
fn peak<'n>(nodes: impl Iterator<Item = &'n Node>) -> Outcome<u64> {
    // The operator of each register; for each operator, the number of unreleased registers and the bytes.
    let mut owners: HashMap<usize, usize> = HashMap::new();
    let mut held: Vec<(usize, u64)> = Vec::new();
    let (mut taken, mut peak) = (0_u64, 0_u64);
    for node in nodes {
        // Unknown sizes are not part of the peak.
        let bytes = node.bytes.unwrap_or(0);
        owners.extend(node.outputs.iter().flatten().map(|register| (*register, held.len())));
        held.push((node.outputs.iter().flatten().count(), bytes));
        taken = taken.saturating_add(bytes);
        peak = peak.max(taken);
        for owner in node.last.iter().filter_map(|register| owners.get(register)) {
            let (left, bytes) = at_mut(&mut held, *owner)?;
            *left -= 1;
            if *left == 0 {
                taken = taken.saturating_sub(*bytes);
            }
        }
    }
    Ok(peak)
}

impl Frame {
    fn value(&self, register: usize) -> Outcome<&Value> {
        let value = self.registers.get(register).and_then(Option::as_ref);
        value.ok_or_else(|| Finding::internal(format!("register {register} is empty")))
    }

    fn put(&mut self, register: usize, value: Value) -> Outcome<()> {
        *at_mut(&mut self.registers, register)? = Some(value);
        Ok(())
    }

    fn release(&mut self, registers: &[usize]) -> Outcome<()> {
        for register in registers {
            *at_mut(&mut self.registers, *register)? = None;
            if !self.charges.is_empty() {
                self.charges.remove(register);
            }
        }
        Ok(())
    }
}

impl Node {
    fn new<'p>(
        number: usize,
        op: &'p Op,
        infos: &HashMap<String, ValueInfo>,
        scopes: &mut Scopes<'p, usize>,
        constants: &Registers,
        mode: Mode,
    ) -> Outcome<Self> {
        let mut captured = Vec::new();
        let implementation = match Control::kind(&op.domain, &op.kind) {
            Some(kind) => {
                let (control, registers) = Control::new(kind, op, scopes, constants, mode)?;
                captured = registers;
                Implementation::Control(control)
            }
            None => {
                let operator = operator(&op.domain, &op.kind);
                let operator =
                    operator.ok_or_else(|| format!("operator `{}` is not supported", op.kind))?;
                Implementation::Kernel(operator, Path::Reference)
            }
        };
        let read = op.input("").iter().map(|name| match (name.as_str(), scopes.see(name)) {
            ("", _) => Ok(None),
            (_, Some(register)) => Ok(Some(*register)),
            (name, None) => Err(Finding::from(format!("there is no value `{name}`"))),
        });
        let inputs = read.collect::<Outcome<_>>()?;
        let mut outputs = Vec::new();
        for name in op.output("") {
            outputs.push(match name.as_str() {
                "" => None,
                name => Some(define(scopes, name)?),
            });
        }
        let size = |name: &str| infos.get(name).and_then(ValueInfo::nbytes);
        let sizes = op.writes().map(size).collect::<Option<Vec<u64>>>();
        let bytes = sizes.map(|sizes| sizes.into_iter().fold(0, u64::saturating_add));
        let shape = op.writes().next().and_then(|name| infos.get(name)?.shape());
        let known = |dim: &Dim| match dim {
            Dim::Known(dim) => Some(*dim),
            _ => None,
        };
        let dims = shape.and_then(|shape| shape.iter().map(known).collect());
        let opset = scopes.innermost()?.version(&op.domain);
        let counts = op.writes().filter_map(|name| infos.get(name).and_then(size_of_result));
        let count = counts.fold(0, |all, (count, _)| count.saturating_add(all));
        let (op, last) = (op.clone(), Vec::new());
        Ok(Self {
            number,
            op,
            implementation,
            opset,
            inputs,
            captured,
            outputs,
            last,
            bytes,
            dims,
            count,
        })
    }

    /// Returns the error of this operator.
    fn failed(&self, finding: Finding) -> Error {
        Error::Op(Box::new(OpError::new(self.number, &self.op, finding)))
    }

    /// Returns the row of the operator, unless it runs subgraphs.
    fn operator(&self) -> Option<&'static Operator> {
        match self.implementation {
            Implementation::Kernel(operator, _) => Some(operator),
            Implementation::Control(_) => None,
        }
    }

    /// Returns whether the constants of the operator are packed, and it always runs with them.
    fn is_packed(&self) -> bool {
        matches!(self.implementation, Implementation::Kernel(_, Path::Packed(_)))
    }

    /// Returns the rule of the operator in a chain, if it can be part of one.
    fn rule(&self) -> Option<Rule> {
        self.bytes.and(self.operator())?.rule(&self.op)
    }

    /// Returns whether the operator can be part of a chain.
    fn is_link(&self) -> bool {
        self.rule().is_some()
    }

    fn run(&self, frame: &mut Frame, context: Context<'_>) -> Result<()> {
        context.step()?;
        let failed = |finding| self.failed(finding);
        // Results may share the bytes of inputs, which are released before they are computed.
        let shares = self.operator().is_some_and(|operator| operator.shares);
        let charging = match self.bytes.is_none() || shares {
            true => {
                let inputs = self.input_values(frame).map_err(failed)?;
                Some(Charging::new(context.budget, inputs.into_iter().flatten()))
            }
            false => None,
        };
        let results = match &self.implementation {
            Implementation::Kernel(operator, Path::Reference) => {
                self.run_reference(operator, frame, context).map_err(failed)?
            }
            Implementation::Kernel(operator, Path::Fast(_) | Path::PackedOrReference(_)) => {
                match self.run_fast(operator, frame, context).map_err(failed)? {
                    Some(results) => {
                        frame.release(&self.last)?;
                        results
                    }
                    None => self.run_reference(operator, frame, context).map_err(failed)?,
                }
            }
            Implementation::Kernel(operator, Path::Packed(packed)) => {
                let epilogue = EpilogueArguments::default();
                let nothing = |_: usize, _: &mut [f32]| Ok(());
                let shaped = self.shaped(packed, frame, context).map_err(failed)?;
                let result = self.run_packed(operator, shaped, epilogue, nothing, frame, context);
                let result = result.map_err(failed)?;
                frame.release(&self.last)?;
                vec![result]
            }
            Implementation::Control(control) => {
                let values = self.values(frame).map_err(failed)?;
                let results = control.run(&self.op, values.0, &values.1, context);
                results.map_err(|error| match error {
                    Error::Program(finding) => failed(finding),
                    Error::Op(inner) => failed(inner.finding.clone().within(format!(
                        "in its subgraph, operator {} (`{}`)",
                        inner.number, inner.kind
                    ))),
                    other => other,
                })?
            }
        };
        self.store(results, charging, frame, context).map_err(failed)
    }

    /// Returns the inputs of a control operator, and the outer values that its subgraphs read. Registers with no later
    /// reader are released.
    fn values(&self, frame: &mut Frame) -> Outcome<(Vec<Option<Value>>, Vec<Value>)> {
        let input = |register: &Option<usize>| {
            register.map(|register| frame.value(register).cloned()).transpose()
        };
        let inputs = self.inputs.iter().map(input).collect::<Outcome<_>>()?;
        let captured = self.captured.iter().map(|register| frame.value(*register).cloned());
        let captured = captured.collect::<Outcome<_>>()?;
        frame.release(&self.last)?;
        Ok((inputs, captured))
    }

    /// Returns the first input.
    fn first<'f>(&self, frame: &'f Frame) -> Outcome<&'f Value> {
        let register = self.inputs.first().copied().flatten();
        frame.value(register.ok_or_else(|| Finding::from("input 0 is missing"))?)
    }

    /// Returns the size of the inputs and of the results in bytes. Results whose size is only known now, and the memory
    /// that a kernel works in, are charged until the returned charge is dropped.
    ///
    /// # Errors
    /// If they do not fit into the budget.
    fn touched(
        &self,
        inputs: &[Option<&Value>],
        working: Working,
        frame: &Frame,
        context: Context<'_>,
    ) -> Outcome<(u64, Option<Charge>)> {
        let (known, bytes) = match self.bytes {
            Some(bytes) => (Some(self.count), bytes),
            None => self.size(inputs)?,
        };
        let (mut elements, mut touched) = (0_u64, bytes);
        for value in inputs.iter().flatten() {
            elements = elements.saturating_add(value.count());
            touched = touched.saturating_add(value.nbytes());
        }
        let results = if self.bytes.is_some() { 0 } else { bytes };
        // Results whose dims depend on elements mostly have no more elements than the inputs.
        let more = working.bytes(elements, known.unwrap_or(elements)).saturating_add(results);
        if more <= SMALL {
            return Ok((touched, None));
        }
        let reserved = context.budget.reserve(more).or_else(|_| {
            frame.buffers.clear();
            context.budget.reserve(more)
        });
        Ok((touched, Some(reserved?)))
    }

    /// Runs the fast kernel; `None` if the reference kernel must run instead.
    fn run_fast(
        &self,
        operator: &Operator,
        frame: &Frame,
        context: Context<'_>,
    ) -> Outcome<Option<Vec<Value>>> {
        let inputs = self.input_values(frame)?;
        if let Implementation::Kernel(_, Path::Fast(fast)) = &self.implementation
            && !(fast.accepts)(&inputs)
        {
            return Ok(None);
        }
        let (touched, _results) = self.touched(&inputs, Working::NONE, frame, context)?;
        let _copies = reserve_copies(operator, inputs.iter().flatten().copied(), context)?;
        probe(touched)?;
        let (buffers, budget) = (&frame.buffers, context.budget);
        let call = FastCall { op: &self.op, inputs: &inputs, buffers, budget };
        let run = || {
            guarded(|| match &self.implementation {
                Implementation::Kernel(_, Path::PackedOrReference(it)) => it.operator.run(&call),
                Implementation::Kernel(_, Path::Fast(fast)) => (fast.run)(&call),
                _ => Ok(None),
            })
        };
        let results = context.threads.run_if(touched, run)??;
        Ok(results.map(|results| results.into_iter().map(Value::from).collect()))
    }

    /// Returns the first input of an operator with packed constants, and the operator for its dims.
    fn shaped<'a>(
        &self,
        packed: &'a PackedConstants,
        frame: &'a Frame,
        context: Context<'_>,
    ) -> Outcome<(&'a Dense, ShapedOperator<'a>)> {
        let x = self.first(frame)?.dense()?;
        let resources = (context.budget, context.threads);
        Ok((x, packed.operator.with_dims(&self.op, x.dims(), resources)?))
    }

    /// Runs an operator with packed constants. `finish_block` is called with the offset of each finished part of the result.
    fn run_packed(
        &self,
        operator: &Operator,
        (x, shaped): (&Dense, ShapedOperator<'_>),
        epilogue: EpilogueArguments<'_>,
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Send + Sync,
        frame: &Frame,
        context: Context<'_>,
    ) -> Outcome<Value> {
        let inputs = self.input_values(frame)?;
        let (touched, _results) = self.touched(&inputs, Working::NONE, frame, context)?;
        let first = inputs.first().copied().flatten();
        let _copy = reserve_copies(operator, first.into_iter(), context)?;
        let run = || guarded(|| shaped.run(x, epilogue, &frame.buffers, finish_block));
        Ok(context.threads.run_if(touched, run)??.into())
    }

    /// Returns the inputs.
    fn input_values<'f>(&self, frame: &'f Frame) -> Outcome<Vec<Option<&'f Value>>> {
        let input =
            |register: &Option<usize>| register.map(|register| frame.value(register)).transpose();
        self.inputs.iter().map(input).collect()
    }

    /// Runs a kernel.
    fn run_reference(
        &self,
        operator: &Operator,
        frame: &mut Frame,
        context: Context<'_>,
    ) -> Outcome<Vec<Value>> {
        let inputs = self.input_values(frame)?;
        let (touched, _results) = self.touched(&inputs, operator.working, frame, context)?;
        if let Some(bytes) = self.bytes.filter(|bytes| *bytes > SMALL) {
            frame.buffers.trim(bytes);
        }
        if operator.copies {
            probe(touched)?;
        }
        let kernel = operator.bind(&self.op, &inputs, Memory(Some(context.budget)))?;
        let results = compute(kernel, touched, context.threads)?;
        frame.release(&self.last)?;
        Ok(results)
    }

    /// Fails if the operator has more outputs than its kernel.
    fn check_count(&self, results: &[Value]) -> Outcome<()> {
        if results.len() < self.outputs.len() {
            let (wanted, found) = (self.outputs.len(), results.len());
            return Err(format!("expected at most {found} outputs, found {wanted}").into());
        }
        Ok(())
    }

    /// Stores results in their registers.
    fn store<'c>(
        &self,
        results: Vec<Value>,
        mut charging: Option<Charging<'c>>,
        frame: &mut Frame,
        context: Context<'c>,
    ) -> Outcome<()> {
        self.check_count(&results)?;
        for (register, mut value) in self.outputs.iter().zip(results) {
            let Some(register) = register.filter(|register| !self.last.contains(register)) else {
                continue;
            };
            // A part keeps all bytes of its input, which are not those that the plan counts.
            let is_counted = self.bytes.is_some()
                && matches!(&value, Value::Dense(it) if it.stored_nbytes() <= it.nbytes().saturating_mul(2));
            if !is_counted {
                let charging = charging.get_or_insert_with(|| {
                    let registers = self.inputs.iter().flatten();
                    let inputs = registers.filter_map(|it| frame.registers.get(*it)?.as_ref());
                    Charging::new(context.budget, inputs)
                });
                charging.charge(&mut value);
            }
            match value.handles() {
                0 => {}
                bytes => {
                    frame.charges.insert(register, context.budget.charge(bytes));
                }
            }
            frame.put(register, value)?;
        }
        Ok(())
    }

    /// Returns the number of elements of the results, unless some dims depend on elements, and the size in bytes of those
    /// whose dims shape inference finds for these inputs.
    fn size(&self, inputs: &[Option<&Value>]) -> Outcome<(Option<u64>, u64)> {
        let info = |value: &Option<&Value>| value.map(Value::info).transpose();
        let infos = inputs.iter().map(info).collect::<Outcome<Vec<_>>>()?;
        let infos: Vec<Option<&ValueInfo>> = infos.iter().map(Option::as_ref).collect();
        let inferred = infer_op(&self.op, self.opset, &infos, &mut NoBodies)?;
        let (mut count, mut bytes) = (Some(0_u64), 0_u64);
        for sizes in inferred.iter().map(size_of_result) {
            let Some((more, size)) = sizes else {
                count = None;
                continue;
            };
            count = count.map(|count: u64| count.saturating_add(more));
            bytes = bytes.saturating_add(size);
        }
        Ok((count, bytes))
    }
}

/// Charges copies of tensors that are not in the order in which a fast kernel reads them.
fn reserve_copies<'v>(
    operator: &Operator,
    inputs: impl Iterator<Item = &'v Value>,
    context: Context<'_>,
) -> Outcome<Option<Charge>> {
    let order = match operator.channels_last {
        true => Order::ChannelsLast,
        false => Order::RowMajor,
    };
    let copied = inputs.filter_map(|value| value.dense().ok());
    let copied = copied.filter(|it| !order.is_of(it)).map(Dense::nbytes);
    let bytes = copied.fold(0, u64::saturating_add);
    (bytes > SMALL).then(|| context.budget.reserve(bytes)).transpose()
}

/// Returns the number of elements of a result and their size in bytes, if its dims are known. The characters of strings
/// are not.
fn size_of_result(info: &ValueInfo) -> Option<(u64, u64)> {
    let known = |count: u64, dim: &Dim| match dim {
        Dim::Known(size) => Some(count.saturating_mul(*size)),
        _ => None,
    };
    let count = info.shape()?.iter().try_fold(1, known)?;
    match info.dtype() {
        DType::String => Some((count, count.saturating_mul(STRING))),
        _ => Some((count, info.nbytes()?)),
    }
}
