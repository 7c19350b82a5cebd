//! The frame of translations to ONNX: what the programs of all dialects have in common.
//!
//! A program is walked once, operator by operator. Names stand for what the dialect says ([`Dialect::Item`]): values, lists
//! of them, integers on a grid. The frame binds names, finds the operators that outputs depend on, enters blocks, collects
//! everything that cannot be translated with its place, and writes the result.
//!
//! | of a dialect | what it says |
//! |---|---|
//! | [`Item`](Dialect::Item), [`value`](Dialect::value) | what a name stands for |
//! | [`rule`](Dialect::rule) | the rule of an operator, or why there is none |
//! | [`apply`](Dialect::apply) | applies it, and binds the results |
//! | [`base`](Dialect::base) | what the ONNX operators of an operator are named after |
//! | [`operand`](Dialect::operand), [`bind_results`](Dialect::bind_results) | operands and results of an operator without a rule |
//! | [`changed`](Dialect::changed) | the names to which an operator assigns |
//! | [`states`](Dialect::states) | the names whose last value is a result, too |
//!
//! | of the frame | what it does |
//! |---|---|
//! | [`Frame::begin`] | starts a walk: reserves the names of the program |
//! | [`Frame::input`] | declares an input |
//! | [`Frame::operators`], [`Frame::main`] | translates operators, and notes which failed |
//! | [`Frame::enter`] | translates a block that an operator runs |
//! | [`Scope`] | what the names of a block stand for, and of blocks around it |
//! | [`Frame::named`] | gives a result the name that the program has for it |
//! | [`control`] | choices and loops, whose bodies are blocks of the program or made by a rule |
//! | [`views`] | tensors that operators write to, and views of them |
//! | [`Frame::finish`] | names outputs, and assembles the model and the origins of its values |
//!
//! A step that fails has a finding, or fails because what it reads has failed, which is reported there ([`Halt`]). With
//! [`Frame::coverage`], all operators are tried, and what fails for unknown dims counts as supported.
//!
//! A translation to operators that are not ONNX's has a loop of its own, with the same parts: [`Scope`], [`Halt`], [`At`] and
//! [`guarded`].

pub(crate) mod control;
mod kept;
mod scope;
#[cfg(test)]
#[path = "../../tests/frame/mod.rs"]
mod tests;
pub(crate) mod views;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lodstone_model::{Block, Model, Op, Program, Report, Tensor, TensorType, Var};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::{place_of, quoted};
use lodstone_schema::{Code, Finding, Findings, Origin, Origins, conventions, needed};

use crate::OperatorCoverage;
use crate::onnx::required::check_size;
use crate::onnx::{Graph, Value, blocks};
pub(crate) use scope::{Scope, Variables};

/// The maximum depth of subgraphs, the main graph included, as in ONNX's checker.
const MAX_DEPTH: usize = 64;

/// The number of operators that may always be translated, however small the program is.
const MIN_WORK: u64 = 1 << 12;

/// The problem of a program whose loops in loops are translated again and again.
const TOO_MUCH: &str = "the loops of the program are nested too deep";

/// What a dialect says about its programs.
pub(crate) trait Dialect<'m>: Sized {
    /// What a name stands for.
    type Item: Clone;

    /// How an operator is translated.
    type Rule;

    /// What its programs are called in messages.
    const PROGRAM: &'static str;

    /// What the main block is called in messages, and what the others are called before their numbers.
    const MAIN: &'static str = "the graph";
    const INNER: &'static str = "subgraph";

    /// How many operators may be translated for each operator of the program, in dialects that translate a block several
    /// times.
    const MAX_WORK: u64 = u64::MAX;

    /// Whether programs may leave dims open that are given when they run: a rule that fails for operands with such dims
    /// says nothing about coverage.
    const IS_OPEN: bool;

    /// Whether programs have been reduced to what their outputs depend on.
    const IS_REDUCED: bool = false;

    /// Returns the value that an item is, if it is a single one.
    fn value(item: &Self::Item) -> Option<&Value>;

    /// Returns the rule of an operator.
    ///
    /// # Errors
    /// Why it has none.
    fn rule(op: &Op) -> Result<Self::Rule, Finding>;

    /// Applies the rule of an operator, and binds its results.
    fn apply(
        frame: &mut Frame<'m, Self>,
        rule: Self::Rule,
        at: At,
        op: &'m Op,
        scope: &mut Scope<Self::Item>,
    ) -> Step;

    /// Returns the name from which those of the ONNX operators of an operator are derived; `None` to keep that of the
    /// operator before it.
    fn base(op: &Op) -> Option<&str> {
        let base = if op.name.is_empty() { op.writes().next() } else { Some(&*op.name) };
        base.or(Some(&op.kind)) // An operator without a name or results.
    }

    /// Returns an operand of an operator that is kept as it is.
    fn operand(_: &mut Frame<'m, Self>, name: &str, scope: &mut Scope<Self::Item>) -> Step<Value> {
        let value = Self::value(scope.item(name)?).cloned();
        value.ok_or_else(|| "only operators of tensors can be kept".into())
    }

    /// Binds the results of an operator, one for each output.
    fn bind_results(
        frame: &mut Frame<'m, Self>,
        at: At,
        op: &'m Op,
        results: Vec<Value>,
        scope: &mut Scope<Self::Item>,
    ) -> Step;

    /// Returns the names to which an operator assigns.
    fn changed(op: &Op) -> impl Iterator<Item = &str> {
        op.writes()
    }

    /// Returns the names of the main block whose last value is a result of the program beside its outputs.
    fn states(_: &Block) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }
}

/// Why a step ends.
#[derive(Clone, Debug)]
pub(crate) enum Halt {
    /// Something cannot be translated.
    Finding(Finding),
    /// What it reads could not be translated, which has been reported.
    Failed,
}

/// The outcome of a step of a walk.
pub(crate) type Step<T = ()> = Result<T, Halt>;

impl From<Finding> for Halt {
    fn from(finding: Finding) -> Self {
        Self::Finding(finding)
    }
}

impl From<String> for Halt {
    fn from(message: String) -> Self {
        Self::Finding(message.into())
    }
}

impl From<&str> for Halt {
    fn from(message: &str) -> Self {
        Self::Finding(message.into())
    }
}

impl Halt {
    /// Returns the halt with a context before its message.
    pub(crate) fn within(self, context: impl fmt::Display) -> Self {
        match self {
            Self::Finding(finding) => Self::Finding(finding.within(context)),
            Self::Failed => Self::Failed,
        }
    }

    /// Returns the halt with an operand that it concerns.
    pub(crate) fn about_input(self, index: usize) -> Self {
        match self {
            Self::Finding(finding) => Self::Finding(finding.about_input(index)),
            Self::Failed => Self::Failed,
        }
    }
}

/// The place of an operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// The part of the model: [`Dialect::MAIN`], or a program that runs before.
    pub(crate) part: &'static str,
    /// The index of the block, and the index of the operator in it.
    pub(crate) block: usize,
    pub(crate) number: usize,
}

impl At {
    /// Returns the place for messages, in which other blocks than the first have the name `inner` and a number.
    pub(crate) fn place(self, inner: &str, op: &Op) -> String {
        match self.block {
            0 => place_of(self.part, self.number, op),
            block => place_of(&format!("{inner} {block}"), self.number, op),
        }
    }

    /// Returns what became of an operator.
    pub(crate) fn coverage(
        self,
        op: &Op,
        opset: Option<i64>,
        finding: Option<Finding>,
    ) -> OperatorCoverage {
        let (kind, domain) = (op.kind.clone(), op.domain.clone());
        OperatorCoverage { domain, kind, place: (self.block, self.number), opset, finding }
    }
}

/// A program that is being translated.
pub(crate) struct Frame<'m, D: Dialect<'m>> {
    pub(crate) model: &'m Model,
    pub(crate) program: &'m Program,
    main: &'m Block,
    pub(crate) graph: Graph,
    /// What the names of the main block stand for.
    pub(crate) scope: Scope<D::Item>,
    /// The declarations of the inputs.
    pub(crate) inputs: Vec<Var>,
    /// The parameters, by the names of their variables.
    pub(crate) parameters: HashMap<&'m str, Cow<'m, Tensor>>,
    /// The blocks of the result, but the main one.
    pub(crate) blocks: Vec<Block>,
    pub(crate) findings: Findings,
    /// Names of the result that are exchanged at the end.
    pub(crate) swapped: HashMap<String, String>,
    /// The domain in which operators without a rule are kept.
    pub(crate) custom_domain: Option<String>,
    /// The kinds of operators that were kept.
    kept: Vec<String>,
    /// What only this dialect needs.
    pub(crate) dialect: D,
    /// The origins of values of other blocks than the main one, in dialects whose variables have such.
    pub(crate) origins: Origins,
    /// The depth of the block that is translated, the main one included.
    depth: usize,
    /// The number of operators that may still be translated.
    work: u64,
    covered: Option<BTreeMap<(usize, usize), OperatorCoverage>>,
}

impl<'m, D: Dialect<'m>> Frame<'m, D> {
    /// Starts to translate the main program of a model; `covers` to find out which operators have a translation.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn begin(model: &'m Model, dialect: D, covers: bool) -> Result<Self, Findings> {
        Self::of_program(model, model.main(), dialect, covers)
    }

    /// Starts to translate a program in place of the main one of a model.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn of_program(
        model: &'m Model,
        program: Option<&'m Program>,
        dialect: D,
        covers: bool,
    ) -> Result<Self, Findings> {
        let found = program.and_then(|program| Some((program, program.blocks.first()?)));
        let Some((program, main)) = found else {
            let mut findings = Findings::default();
            findings.add("the model", "expected a program, found none");
            return Err(findings);
        };
        let ops = program.ops().count() as u64;
        let mut frame = Self {
            model,
            program,
            main,
            graph: Graph::symbolic(),
            scope: Scope::default(),
            inputs: Vec::new(),
            parameters: HashMap::new(),
            blocks: Vec::new(),
            findings: Findings::default(),
            swapped: HashMap::new(),
            custom_domain: None,
            kept: Vec::new(),
            dialect,
            origins: Origins::default(),
            depth: 1,
            work: ops.saturating_mul(D::MAX_WORK).max(MIN_WORK),
            covered: covers.then(BTreeMap::new),
        };
        frame.graph.names.take("");
        frame.reserve(main);
        Ok(frame)
    }

    /// Reserves the names of a block.
    pub(crate) fn reserve(&mut self, block: &Block) {
        let ops = block.ops.iter().flat_map(|op| op.writes().chain([op.name.as_str()]));
        let vars = block.vars.iter().map(|var| var.name.as_str());
        ops.chain(vars).for_each(|name| self.graph.names.take(name));
    }

    /// Returns the main block of the program.
    pub(crate) fn main_block(&self) -> &'m Block {
        self.main
    }

    /// Whether the walk finds out which operators have a translation.
    pub(crate) fn is_covering(&self) -> bool {
        self.covered.is_some()
    }

    /// Declares an input; returns its value.
    pub(crate) fn input(&mut self, name: &str, tensor: TensorType) -> Value {
        let mut info = ValueInfo::tensor(tensor.dtype, tensor.shape);
        let value = info.value.clone();
        self.inputs.push(Var { name: name.to_owned(), value, ..Var::default() });
        self.graph.symbolize(&mut info);
        Value::new(name, info)
    }

    /// Marks a parameter whose file does not have it. Whether operators are supported does not depend on it.
    pub(crate) fn absent_parameter(&mut self, name: &str) {
        match self.is_covering() {
            true => self.scope.fail(name),
            false => {
                let what = format!("the parameter {} has no value", quoted(name));
                self.scope.refuse(name, Finding::new(Code::NoParameter, what));
            }
        }
    }

    /// Translates the operators of the main block that outputs depend on; for coverage, all of them.
    pub(crate) fn main(&mut self) {
        let steps = self.steps(0);
        self.steps_in_main(steps);
    }

    /// Translates operators before and of the main block.
    pub(crate) fn steps_in_main(&mut self, steps: Vec<(At, &'m Op)>) {
        let needed = self.needed(&steps);
        let mut scope = std::mem::take(&mut self.scope);
        let needed = steps.into_iter().zip(needed).filter_map(|(step, is)| is.then_some(step));
        self.operators(needed.collect(), &mut scope);
        self.scope = scope;
    }

    /// Returns the operators of a block.
    pub(crate) fn steps(&self, block: usize) -> Vec<(At, &'m Op)> {
        let ops = self.program.blocks.get(block).map_or(&[][..], |block| &block.ops);
        ops.iter()
            .enumerate()
            .map(|(number, op)| (At { part: D::MAIN, block, number }, op))
            .collect()
    }

    /// Returns which operators outputs depend on; for coverage, all.
    fn needed(&self, steps: &[(At, &'m Op)]) -> Vec<bool> {
        if self.is_covering() || D::IS_REDUCED {
            return vec![true; steps.len()];
        }
        let main = self.main_block();
        let outputs = main.outputs.iter().map(String::as_str).chain(D::states(main));
        let ops: Vec<&Op> = steps.iter().map(|(_, op)| *op).collect();
        needed(self.program, &ops, outputs)
    }

    /// Translates operators, and notes what becomes of each.
    pub(crate) fn operators(&mut self, steps: Vec<(At, &'m Op)>, scope: &mut Scope<D::Item>) {
        for (at, op) in steps {
            let before = self.graph.ops.len();
            let base = D::base(op).unwrap_or(self.graph.base()).to_owned();
            self.graph.begin(&base);
            let outer = std::mem::replace(&mut self.graph.sources, op.sources.clone());
            let outcome = match (self.work.checked_sub(1), D::rule(op)) {
                (Some(left), Ok(rule)) => {
                    self.work = left;
                    guarded(|| D::apply(self, rule, at, op, scope))
                }
                (None, _) => Err(Finding::new(Code::Limit, TOO_MUCH).into()),
                (_, Err(_)) if let Some(domain) = self.custom_domain.clone() => {
                    self.keep(at, op, &domain, scope)
                }
                (_, Err(finding)) => Err(Finding { code: Code::NoEquivalent, ..finding }.into()),
            };
            self.graph.sources = outer;
            if outcome.is_ok() && self.graph.ops.len() == before {
                self.passed(op, scope);
            }
            let finding = outcome.err().and_then(|halt| {
                self.graph.take_back();
                scope.fail_all(D::changed(op), halt)
            });
            self.cover((at, op), before, finding.as_ref(), scope);
            if let Some(finding) = finding {
                self.findings.add(at.place(D::INNER, op), finding);
            }
        }
    }

    /// Adds an operator that returns its operand, such as a dropout in inference, to the sources of what computes that.
    fn passed(&mut self, op: &Op, scope: &Scope<D::Item>) {
        if op.sources.is_empty() || (conventions(self.program).training)(op).is_empty() {
            return;
        }
        let values = op.writes().filter_map(|name| scope.get(name).and_then(D::value));
        let names: Vec<String> = values.map(|value| value.name().to_owned()).collect();
        let writes = |it: &&mut Op| it.writes().any(|name| names.iter().any(|it| it == name));
        if let Some(writer) = self.graph.ops.iter_mut().rev().find(writes) {
            writer.sources = writer.sources.and(&op.sources);
        }
    }

    /// Records what became of an operator; `before` is the number of operators that were emitted before.
    fn cover(
        &mut self,
        (at, op): (At, &Op),
        before: usize,
        finding: Option<&Finding>,
        scope: &Scope<D::Item>,
    ) {
        let Some(covered) = self.covered.as_mut().filter(|_| at.part == D::MAIN) else { return };
        let has_dims = |name: &str| {
            let value = scope.get(name).and_then(D::value);
            value.is_none_or(|value| value.known_dims().is_some())
        };
        let is_open = D::IS_OPEN && !op.reads().all(has_dims);
        let counts = |it: &&Finding| {
            it.code == Code::NoEquivalent || !is_open && it.code != Code::UnknownDims
        };
        let finding = finding.filter(counts).cloned();
        let opset = self.graph.opset_since(before).filter(|_| finding.is_none());
        covered.insert((at.block, at.number), at.coverage(op, opset, finding));
    }

    /// Translates the operators of a block that an operator runs.
    pub(crate) fn enter(&mut self, block: usize, scope: &mut Scope<D::Item>) -> Step {
        if self.depth >= MAX_DEPTH {
            let deep = format!("{}s are nested deeper than {MAX_DEPTH}", D::INNER);
            return Err(Finding::new(Code::Limit, deep).into());
        }
        if block == 0 || block >= self.program.blocks.len() {
            return Err(format!("a {} does not exist", D::INNER).into());
        }
        self.depth += 1;
        self.operators(self.steps(block), scope);
        self.depth -= 1;
        Ok(())
    }

    /// Gives a result the name that the program has for it, and the operator that writes it a name, unless that is empty.
    /// Results of other blocks than the main one get names of their own, since those may be translated several times.
    pub(crate) fn named(
        &mut self,
        at: At,
        name: &str,
        op_name: &str,
        value: &Value,
    ) -> Step<Value> {
        check_size(value)?;
        match at.block == 0 {
            true => Ok(self.graph.name(value, name, op_name)?),
            false => {
                let name = self.graph.names.fresh(name);
                Ok(self.graph.name(value, &name, "")?)
            }
        }
    }

    /// Returns what became of all operators of the main program.
    pub(crate) fn coverage(self) -> Vec<OperatorCoverage> {
        self.covered.into_iter().flat_map(BTreeMap::into_values).collect()
    }

    /// Returns the model, and the origins of its values. `output` returns the value of an output, and those of
    /// outputs that belong to it.
    ///
    /// # Errors
    /// All findings of the walk, and outputs that nothing computes.
    pub(crate) fn finish(
        mut self,
        report: &mut Report,
        mut output: impl FnMut(&mut Self, &str, &[Value]) -> Step<(Value, Vec<Value>)>,
        complete: impl FnOnce(&mut Self, &mut Vec<Value>, &mut Report),
    ) -> Result<(Model, Origins), Findings> {
        let mut outputs: Vec<Value> = Vec::new();
        let names = if self.findings.is_empty() { &*self.main_block().outputs } else { &[] };
        let main = self.main.ops.iter();
        let writers: HashMap<&str, &Op> =
            main.flat_map(|op| op.writes().map(move |name| (name, op))).collect();
        for name in names {
            // A view is computed again after its base has changed. No operator writes an output that is an input.
            let writer = writers.get(name.as_str());
            self.graph.sources = writer.map(|op| op.sources.clone()).unwrap_or_default();
            match output(&mut self, name, &outputs) {
                Ok((value, others)) => {
                    let final_name = self.swapped.get(value.name());
                    let final_name = final_name.map_or(value.name(), String::as_str);
                    if final_name != name {
                        report.warn(format!(
                            "the output {} is named {}: another value has its name",
                            quoted(name),
                            quoted(final_name)
                        ));
                    }
                    outputs.extend(std::iter::once(value).chain(others));
                }
                Err(halt) => {
                    let finding = match halt {
                        Halt::Finding(finding) => finding,
                        Halt::Failed => Finding::internal("its failure was not reported"),
                    };
                    self.findings.add(format!("the output {}", quoted(name)), finding);
                }
            }
        }
        if self.findings.is_empty() {
            complete(&mut self, &mut outputs, report);
        }
        if !self.kept.is_empty() {
            let kinds: Vec<String> = self.kept.iter().map(|kind| quoted(kind)).collect();
            report.warn(format!("operators were kept that no runtime has: {}", kinds.join(", ")));
        }
        if self.findings.is_empty() {
            self.check_inputs();
        }
        if !self.findings.is_empty() {
            return Err(self.findings);
        }
        self.assembled(&outputs).map_err(|finding| {
            let mut findings = Findings::default();
            findings.add(D::PROGRAM, finding);
            findings
        })
    }

    /// Returns the value of an output, under a name that no other output has.
    pub(crate) fn output(&mut self, name: &str, others: &[Value]) -> Step<(Value, Vec<Value>)> {
        let item = self.scope.find(name)?.ok_or("nothing computes it")?;
        let value = D::value(item).ok_or("it is not a single tensor")?.clone();
        Ok((self.graph.output(&value, name, others)?, Vec::new()))
    }

    /// Reports inputs of unknown rank, which ONNX does not have.
    fn check_inputs(&mut self) {
        let is_open = |var: &&Var| var.value.tensor_type().is_none_or(|it| it.shape.is_none());
        for var in self.inputs.iter().filter(is_open) {
            let what = format!("the rank of `{}` must be known", var.name);
            let place = format!("the input {}", quoted(&var.name));
            self.findings.push(Finding::new(Code::UnknownDims, what).at(place));
        }
    }

    fn assembled(self, outputs: &[Value]) -> Result<(Model, Origins), Finding> {
        let mut origins = self.origins;
        for (name, item) in self.scope.items() {
            if let Some(value) = D::value(item) {
                origins.insert(0, name, Origin::Value(Arc::from(value.name())));
            }
        }
        origins.rename(&self.swapped);
        let parameters = self.parameters.iter().map(|(name, it)| (*name, it.as_ref())).collect();
        let (ends, swapped) = ((self.inputs, outputs), &self.swapped);
        let mut model =
            blocks::assembled(self.model, self.graph, ends, self.blocks, &parameters, swapped)?;
        let domain = self.custom_domain.filter(|_| !self.kept.is_empty());
        if let Some((program, domain)) = model.main_mut().zip(domain) {
            program.operator_versions.push((domain, 1));
        }
        Ok((model, origins))
    }
}

/// Takes a step; a panic, such as that of arithmetic that overflows, becomes an internal finding. With debug assertions it
/// remains one, as that of [`Finding::internal`], so that tests with hostile input fail.
pub(crate) fn guarded<T, E: From<Finding>>(step: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    if cfg!(debug_assertions) {
        return step();
    }
    catch_unwind(AssertUnwindSafe(step))
        .unwrap_or_else(|panic| Err(Finding::of_panic(&*panic).into()))
}

/// Returns the first finding, as the reason why a program has no coverage.
pub(crate) fn first(findings: Findings) -> Finding {
    match findings.located.into_iter().next() {
        Some(located) => located.finding.within(located.place),
        None => Finding::internal("a program is rejected without a reason"),
    }
}
