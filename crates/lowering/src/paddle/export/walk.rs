//! The walk over the operators of a program: each is lowered to ONNX's, for what is known about its variables.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{
    Attribute, AttributeValue, DType, Dim, Kind, Lod, Model, Op, Program, Tensor, TensorType,
    ValueType, Var,
};
use lodstone_schema::numbers::exact;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::quoted;
use lodstone_schema::paddle::{
    CONVENTIONS, EMPTY, LodRule, Release, Share, SharedLod, interface, operator,
};
use lodstone_schema::{Code, Finding, Findings, Origin};

use super::integers::{Product, products};
use super::{arrays, control, paths, ranks};
use crate::LowerOptions;
use crate::frame::{At, Dialect, Frame, Scope, Step, Variables};
use crate::onnx::{Graph, Value, int};
use crate::paddle::operator::{Operator, Outcome, Rule, level_of, valueless};
use crate::paddle::{LodLevel, Output, RULES, VariableFacts, check_size};

/// What a variable holds.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// A tensor, and the offsets of its LoD levels, outermost first.
    Tensor(Value, Vec<Value>),
    /// An array: a sequence of tensors, and the type of its members, if it has any.
    Array(Value, Option<TensorType>),
    /// A rank table: the indices of sequences, the longest first, and their lengths in this order.
    Ranks(Value, Value),
}

/// Translates an operator that acts on variables rather than on tensors.
pub(super) type Own = for<'s, 'p> fn(&mut Walk<'p>, &mut Site<'s, 'p>) -> Step;

const OWN: &[&[(&str, Own)]] =
    &[arrays::OPERATORS, control::OPERATORS, paths::OPERATORS, ranks::OPERATORS];

/// Returns the kinds of operators that act on variables.
pub(super) fn own_kinds() -> impl Iterator<Item = &'static str> {
    OWN.iter().copied().flatten().map(|(kind, _)| *kind)
}

/// Whether operators of a kind only connect a program with its caller.
pub(super) fn is_interface(kind: &str) -> bool {
    matches!(kind, "feed" | "fetch" | "fetch_v2")
}

/// An operator and its place, and the variables that it sees.
pub(super) struct Site<'s, 'p> {
    pub(super) at: At,
    pub(super) op: &'p Op,
    pub(super) scope: &'s mut Scope<Bound>,
}

/// The names that values have been given, in order.
#[derive(Debug, Default)]
pub(super) struct Given<'p> {
    order: Vec<&'p str>,
    all: HashSet<&'p str>,
}

impl<'p> Given<'p> {
    fn add(&mut self, name: &'p str) {
        if self.all.insert(name) {
            self.order.push(name);
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.all.contains(name)
    }

    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    /// Takes back all names but the first ones.
    pub(super) fn truncate(&mut self, count: usize) {
        for name in self.order.drain(count.min(self.order.len())..) {
            self.all.remove(name);
        }
    }
}

/// A program that is being translated.
pub(super) type Walk<'p> = Frame<'p, Paddle<'p>>;

/// What only these programs have.
pub(super) struct Paddle<'p> {
    /// The declarations of each block.
    vars: Vec<HashMap<&'p str, &'p Var>>,
    /// The variables of each block but the main one, which hold parameters when the block begins, or nothing.
    pub(super) variables: Vec<Variables<Bound>>,
    /// The names of variables that are names of values already.
    pub(super) given: Given<'p>,
    /// The names of all variables that are read.
    read: HashSet<&'p str>,
    /// The last operators of the main block that write the fetched variables.
    last: HashMap<&'p str, usize>,
    pub(super) options: &'p LowerOptions,
    /// The kinds of operators that were kept in a domain of their own.
    pub(super) keeps: Vec<String>,
    /// Products of quantized integers, by block and index.
    pub(super) products: HashMap<(usize, usize), Product<'p>>,
    /// Operators whose input is their result, by block and index.
    pub(super) left_out: HashSet<(usize, usize)>,
    release: Release,
}

/// How an operator is translated.
pub(super) enum Translation {
    /// Inputs and outputs are bound apart.
    Interface,
    Own(Own),
    Single(Rule),
    /// With permission, it is kept.
    Unsupported,
}

impl<'p> Dialect<'p> for Paddle<'p> {
    type Item = Bound;

    type Rule = Translation;

    const PROGRAM: &'static str = "the program";

    const MAIN: &'static str = "the program";

    const INNER: &'static str = "block";

    const IS_OPEN: bool = false;

    // Loops in loops are translated again and again.
    const MAX_WORK: u64 = 64;

    fn value(bound: &Bound) -> Option<&Value> {
        match bound {
            Bound::Tensor(value, _) => Some(value),
            Bound::Array(..) | Bound::Ranks(..) => None,
        }
    }

    fn rule(op: &Op) -> Outcome<Translation> {
        let kind = op.kind.as_str();
        if is_interface(kind) {
            return Ok(Translation::Interface);
        }
        let own = OWN.iter().copied().flatten().find(|(name, _)| *name == kind);
        let own = own.map(|(_, own)| Translation::Own(*own));
        let rule = own.or_else(|| RULES.get(kind).map(Translation::Single));
        Ok(rule.unwrap_or(Translation::Unsupported))
    }

    fn apply(
        walk: &mut Walk<'p>,
        rule: Translation,
        at: At,
        op: &'p Op,
        scope: &mut Scope<Bound>,
    ) -> Step {
        let site = &mut Site { at, op, scope };
        match rule {
            Translation::Interface => Ok(()),
            Translation::Own(own) => {
                walk.check_reads(site)?;
                own(walk, site)
            }
            Translation::Single(rule) => {
                walk.check_reads(site)?;
                walk.lower(site, rule)
            }
            Translation::Unsupported => walk.keep(site),
        }
    }

    /// An array that is read before it is written is created with the operator before.
    fn base(op: &Op) -> Option<&str> {
        let keeps = is_interface(&op.kind) || ["lod_array_length", "while"].contains(&&*op.kind);
        (!keeps).then_some(&op.kind)
    }

    /// The program was reduced to what its outputs depend on, by the versions of its variables.
    fn is_kept(_: &Program, _: &Op) -> bool {
        true
    }
}

impl<'p> Walk<'p> {
    /// Starts to translate a program of a model.
    ///
    /// # Errors
    /// If it has no blocks, or parameters are not supported.
    pub(super) fn of(
        model: &'p Model,
        program: &'p Program,
        options: &'p LowerOptions,
        covers: bool,
    ) -> Result<Self, Findings> {
        let main = program.blocks.first();
        let outputs = main.map_or(&[][..], |main| &main.outputs);
        let outputs: HashSet<&str> = outputs.iter().map(String::as_str).collect();
        let mut read: HashSet<&str> = program.ops().flat_map(Op::reads).collect();
        read.extend(&outputs);
        let ops = main.map_or(&[][..], |block| &block.ops);
        let writes = ops.iter().enumerate().flat_map(|(number, op)| {
            let inner = written(program, op);
            op.writes().chain(inner).map(move |name| (name, number))
        });
        let last = writes.filter(|(name, _)| outputs.contains(name)).collect();
        let vars = program.blocks.iter();
        let vars =
            vars.map(|block| block.vars.iter().map(|var| (var.name.as_str(), var)).collect());
        let dialect = Paddle {
            vars: vars.collect(),
            variables: Vec::new(),
            given: Given::default(),
            read,
            last,
            options,
            keeps: Vec::new(),
            products: products(program, &outputs),
            left_out: HashSet::new(),
            release: Release::of(program),
        };
        let mut walk = Self::of_program(model, Some(program), dialect, covers)?;
        program.blocks.iter().for_each(|block| walk.reserve(block));
        for parameter in &model.parameters {
            walk.graph.names.take(&parameter.name);
            // LoD enters the program as values of its own.
            let tensor = match parameter.tensor.lod.0.is_empty() {
                true => Cow::Borrowed(&parameter.tensor),
                false => Cow::Owned(Tensor { lod: Lod::default(), ..parameter.tensor.clone() }),
            };
            walk.parameters.insert(&parameter.name, tensor);
        }
        walk.states();
        if !walk.findings.is_empty() {
            return Err(walk.findings);
        }
        walk.inputs();
        Ok(walk)
    }

    /// Binds persistable variables to the parameters.
    fn states(&mut self) {
        let parameters = self.model.parameters.iter();
        let parameters: HashMap<&str, &Tensor> =
            parameters.map(|it| (it.name.as_str(), &it.tensor)).collect();
        for (index, block) in self.program.blocks.iter().enumerate() {
            let mut variables: HashMap<String, Option<Bound>> =
                block.vars.iter().map(|var| (var.name.clone(), None)).collect();
            for var in block.vars.iter().filter(|var| var.persistable) {
                let name = var.name.as_str();
                let Some(tensor) = parameters.get(name) else { continue };
                let place = || format!("the parameter {}", quoted(name));
                if !matches!(tensor.kind, Kind::Dense) && self.is_read(name) {
                    self.findings.add(place(), "only dense tensors are supported");
                    continue;
                }
                let lod = tensor.lod.0.iter().map(|level| offsets(&mut self.graph, level));
                let lod = match lod.collect() {
                    Ok(lod) => lod,
                    Err(finding) => {
                        self.findings.add(place(), finding);
                        continue;
                    }
                };
                self.dialect.given.add(name);
                let bound = Bound::Tensor(Value::new(name, ValueInfo::of(tensor)), lod);
                match index {
                    0 => self.scope.bind(name, bound),
                    _ => drop(variables.insert(name.to_owned(), Some(bound))),
                }
            }
            self.dialect.variables.push(Arc::new(variables));
        }
    }

    /// Declares the inputs, and those of their LoD levels.
    fn inputs(&mut self) {
        let inputs = interface(self.program).inputs;
        for (name, _) in &self.dialect.options.lod {
            if !inputs.contains(&name.as_str()) {
                let what = "the program has no such input, to set the LoD of";
                self.findings.add(format!("the input {}", quoted(name)), what);
            }
        }
        let mut seen = HashSet::new();
        for name in inputs.into_iter().filter(|name| seen.insert(*name)) {
            if let Err(finding) = self.fed(name) {
                self.findings.add(format!("the input {}", quoted(name)), finding);
            }
        }
    }

    fn fed(&mut self, name: &'p str) -> Outcome {
        let (_, var) = self.declaration(0, name)?;
        let ValueType::Tensor(tensor) = &var.value else {
            return Err("expected a tensor".into());
        };
        let symbol = |(axis, dim): (usize, &Dim)| match dim {
            // The rows of all sequences together are never fixed.
            _ if axis == 0 && tensor.lod_level > 0 => Dim::Symbol(Arc::from(format!("{name}.0"))),
            Dim::Unknown => Dim::Symbol(Arc::from(format!("{name}.{axis}"))),
            known => known.clone(),
        };
        let shape = tensor.shape.as_ref().map(|dims| dims.iter().enumerate().map(symbol));
        let value = self.input(name, TensorType::new(tensor.dtype, shape.map(Iterator::collect)));
        self.dialect.given.add(name);
        let given = self.dialect.options.lod.iter().filter(|(input, _)| input == name);
        let mut lod = Vec::new();
        for (_, offsets) in given {
            lod.push(self::offsets(&mut self.graph, offsets)?);
        }
        let open = if lod.is_empty() { 0..tensor.lod_level } else { 0..0 };
        for level in open {
            let level = self.graph.names.fresh(&format!("{name}.lod{level}"));
            let count = Dim::Symbol(Arc::from(format!("{level}.0")));
            lod.push(self.input(&level, TensorType::new(DType::Int64, Some(vec![count]))));
        }
        self.scope.bind(name, Bound::Tensor(value, lod));
        Ok(())
    }

    /// Returns the block that declares the variable which a name refers to in a block, and the declaration.
    ///
    /// # Errors
    /// If no block declares it.
    pub(super) fn declaration(&self, block: usize, name: &str) -> Outcome<(usize, &'p Var)> {
        let mut at = block;
        // The parents of blocks come before them: each step makes the index smaller.
        loop {
            if let Some(var) = self.dialect.vars.get(at).and_then(|vars| vars.get(name)) {
                return Ok((at, *var));
            }
            let parent = self.program.blocks.get(at).map(|block| block.parent);
            match parent.and_then(|parent| usize::try_from(parent).ok()) {
                Some(parent) if parent < at => at = parent,
                _ => return Err(format!("no block declares `{name}`").into()),
            }
        }
    }

    /// Fails if an operator reads what could not be translated, or no block declares.
    fn check_reads(&self, site: &Site<'_, 'p>) -> Step {
        for name in site.op.reads().filter(|name| *name != EMPTY) {
            self.declaration(site.at.block, name)?;
            site.scope.find(name)?;
        }
        Ok(())
    }

    /// Keeps an operator without an equivalent in a domain of its own, with permission. Its results have the types that the
    /// program declares.
    fn keep(&mut self, site: &mut Site<'_, 'p>) -> Step {
        let missing = || Finding::new(Code::NoEquivalent, "the operator is not supported");
        let domain = self.dialect.options.custom_domain.as_ref().ok_or_else(missing)?;
        if site.op.blocks().next().is_some() {
            return Err("operators that run blocks cannot be kept".into());
        }
        let mut args = Vec::new();
        for operand in &site.op.inputs {
            for name in &operand.args {
                args.push(match self.bound(site, name, &operand.slot)? {
                    Bound::Tensor(value, _) => value,
                    _ => return Err("only operators of tensors can be kept".into()),
                });
            }
        }
        let mut results = Vec::new();
        for name in site.op.outputs.iter().flat_map(|operand| &operand.args) {
            let (_, var) = self.declaration(site.at.block, name)?;
            let ValueType::Tensor(tensor) = &var.value else {
                return Err(format!("the type of `{name}` is not declared").into());
            };
            results.push((name, ValueInfo::tensor(tensor.dtype, tensor.shape.clone())));
        }
        let semantic = CONVENTIONS.is_semantic;
        let attributes = site.op.attributes.iter().filter(|it| semantic(&it.name));
        let attributes: Vec<Attribute> = attributes.cloned().filter_map(plain).collect();
        let args: Vec<Option<&Value>> = args.iter().map(Some).collect();
        let infos = results.iter().map(|(_, info)| info.clone()).collect();
        let made = self.graph.emit_typed(&site.op.kind, &args, attributes, infos);
        if let Some(op) = self.graph.ops.last_mut() {
            domain.clone_into(&mut op.domain);
        }
        if !self.dialect.keeps.contains(&site.op.kind) {
            self.dialect.keeps.push(site.op.kind.clone());
        }
        for ((name, _), value) in results.iter().zip(&made) {
            self.bind(site, name, value, Vec::new())?;
        }
        Ok(())
    }

    /// Lowers an operator by its rule.
    fn lower(&mut self, site: &mut Site<'_, 'p>, rule: Rule) -> Step {
        if self.dialect.left_out.contains(&(site.at.block, site.at.number)) {
            return self.pass(site);
        }
        let op = self.without_unread(site.op);
        let replaced = self.restored_factors(site)?;
        let replaced = replaced.as_ref().map_or(&[][..], |factors| factors);
        self.graph.begin(&site.op.kind);
        let facts = ScopeFacts { scope: site.scope, parameters: &self.parameters, replaced };
        let mut operator = Operator::new(&op, self.dialect.release, &mut self.graph, &facts);
        rule(&mut operator)?;
        let outputs = operator.outputs;
        let shared = match operator_lod(&site.op.kind) {
            Some(LodRule::Shared(shared)) => Some(shared),
            _ => None,
        };
        for output in outputs {
            check_size(&output)?;
            let level = |level: &LodLevel| {
                let info = ValueInfo::tensor(DType::Int64, Some(vec![level.count.clone()]));
                Some(Value::new(level.value.as_deref()?, info))
            };
            let lod = match (&output.lod, shared) {
                (Some(levels), _) => levels.iter().filter_map(level).collect(),
                (None, Some(shared)) => self.shared(site, shared, &output.slot, &output)?,
                (None, None) => Vec::new(),
            };
            let value = Value::new(&output.value, output.info);
            self.bind(site, &output.variable, &value, lod)?;
        }
        Ok(())
    }

    /// Returns the operator without the outputs that nothing reads.
    fn without_unread(&self, op: &Op) -> Op {
        let mut op = op.clone();
        for name in op.outputs.iter_mut().flat_map(|operand| &mut operand.args) {
            if !self.dialect.read.contains(name.as_str()) {
                EMPTY.clone_into(name);
            }
        }
        op
    }

    /// Binds a variable to a tensor that the current operator computed, which gets the variable's name where that is
    /// possible.
    pub(super) fn bind(
        &mut self,
        site: &mut Site<'_, 'p>,
        variable: &str,
        value: &Value,
        lod: Vec<Value>,
    ) -> Step {
        let (_, var) = self.declaration(site.at.block, variable)?;
        let value = self.variable(site.at, &var.name, &ranked(var, value))?;
        let lod: Vec<Value> = lod.iter().map(|level| self.graph.current(level)).collect();
        site.scope.bind(variable, Bound::Tensor(value, lod));
        Ok(())
    }

    /// Binds a variable to anything that the current operator computed.
    pub(super) fn set(&mut self, site: &mut Site<'_, 'p>, variable: &str, bound: Bound) -> Step {
        let (_, var) = self.declaration(site.at.block, variable)?;
        let bound = match bound {
            Bound::Tensor(value, lod) => {
                Bound::Tensor(self.variable(site.at, &var.name, &value)?, lod)
            }
            other => other,
        };
        site.scope.bind(variable, bound);
        Ok(())
    }

    /// Gives a value the name of a variable, if no value has it yet.
    fn variable(&mut self, at: At, name: &'p str, value: &Value) -> Outcome<Value> {
        let mut value = self.graph.current(value);
        let is_final = match self.dialect.last.get(name) {
            Some(last) => at.block == 0 && *last == at.number,
            None => true,
        };
        if is_final && self.graph.is_made(&value) && !self.dialect.given.has(name) {
            value = self.graph.name(&value, name, name)?;
            self.dialect.given.add(name);
        }
        self.origins.insert(at.block, name, Origin::Value(Arc::from(value.name())));
        Ok(value)
    }

    /// Returns what a variable holds.
    ///
    /// # Errors
    /// If it holds nothing.
    pub(super) fn bound(&self, site: &Site<'_, 'p>, name: &str, slot: &str) -> Step<Bound> {
        self.declaration(site.at.block, name)?;
        site.scope.find(name)?.cloned().ok_or_else(|| valueless(name, slot).into())
    }

    /// Returns what the variable of an input slot holds.
    ///
    /// # Errors
    /// If the slot is empty, or the variable holds nothing.
    pub(super) fn read(&self, site: &Site<'_, 'p>, slot: &str) -> Step<Bound> {
        let missing = || Finding::from(format!("input `{slot}` is missing")).about_slot(slot);
        let name = site.op.input(slot).first().ok_or_else(missing)?;
        self.bound(site, name, slot)
    }

    /// Returns the tensor in the variable of an input slot.
    ///
    /// # Errors
    /// If it holds none.
    pub(super) fn tensor(&self, site: &Site<'_, 'p>, slot: &str) -> Step<(Value, Vec<Value>)> {
        match self.read(site, slot)? {
            Bound::Tensor(value, lod) => Ok((value, lod)),
            _ => {
                let wrong = Finding::from(format!("expected a tensor as `{slot}`"));
                Err(wrong.about_slot(slot).into())
            }
        }
    }

    /// Returns the name of the variable of an output slot; `None` if nothing reads it.
    pub(super) fn result(&self, site: &Site<'_, 'p>, slot: &str) -> Option<&'p str> {
        let name = site.op.output(slot).first().map(String::as_str);
        name.filter(|name| self.is_read(name))
    }

    /// Whether an operator reads a variable of this name, or it is fetched.
    pub(super) fn is_read(&self, name: &str) -> bool {
        self.dialect.read.contains(name)
    }

    /// Returns the LoD of an output that shares that of an input.
    fn shared(
        &mut self,
        site: &Site<'_, 'p>,
        shared: &SharedLod,
        slot: &str,
        output: &Output,
    ) -> Step<Vec<Value>> {
        let Some(share) = shared.source(slot) else { return Ok(Vec::new()) };
        let sources = self.sources(site, share)?;
        let rows = output.info.shape().and_then(<[Dim]>::first).cloned();
        let Some(rows) = rows else { return Ok(Vec::new()) };
        let differs = |source: &Value| {
            let dims = source.info().shape().and_then(<[Dim]>::first);
            match (dims, &rows) {
                (Some(Dim::Known(a)), Dim::Known(b)) => a != b,
                (Some(a), b) if a == b => false,
                // A reshape may regroup the rows in any way.
                (Some(_), _) => site.op.kind.starts_with("reshape"),
                (None, _) => true,
            }
        };
        if share.joins {
            return Ok(self.joined(&sources, &rows)?);
        }
        let place = site.op.output(slot).iter().position(|name| *name == output.variable);
        let source = place.and_then(|place| sources.get(place)).or(sources.first());
        let source = source.filter(|(source, _)| !differs(source));
        Ok(source.map(|(_, lod)| lod.clone()).unwrap_or_default())
    }

    fn sources(&self, site: &Site<'_, 'p>, share: Share) -> Step<Vec<(Value, Vec<Value>)>> {
        let mut sources = Vec::new();
        for name in site.op.input(share.input).iter().filter(|name| *name != EMPTY) {
            if let Bound::Tensor(value, lod) = self.bound(site, name, share.input)? {
                sources.push((value, lod));
            }
        }
        Ok(sources)
    }

    /// Returns the LoD of tensors that are stacked side by side, or whose rows are concatenated.
    fn joined(&mut self, sources: &[(Value, Vec<Value>)], rows: &Dim) -> Outcome<Vec<Value>> {
        let Some(((first, lod), rest)) = sources.split_first() else { return Ok(Vec::new()) };
        let is_same = first.info().shape().and_then(<[Dim]>::first) == Some(rows);
        if rest.is_empty() || is_same || lod.is_empty() {
            return Ok(lod.clone());
        }
        let mut lod = lod.clone();
        for (_, more) in rest {
            if more.len() != lod.len() {
                return Ok(Vec::new());
            }
            for (level, more) in lod.iter_mut().zip(more) {
                let end = self.graph.slice(level, 0, -1, i64::MAX)?;
                let more = self.graph.slice(more, 0, 1, i64::MAX)?;
                let more = self.graph.add(&more, &end)?;
                *level = self.graph.call("Concat", &[&*level, &more], [int("axis", 0)])?;
            }
        }
        Ok(lod)
    }
}

/// Returns an attribute in a form that ONNX has; `None` if it has none.
fn plain(attribute: Attribute) -> Option<Attribute> {
    use AttributeValue as V;
    let value = match attribute.value {
        V::Bool(value) => V::Long(i64::from(value)),
        V::Int(value) => V::Long(i64::from(value)),
        #[expect(clippy::cast_possible_truncation, reason = "ONNX has no attributes of float64")]
        V::Double(value) => V::Float(value as f32),
        V::Bools(values) => V::Longs(values.into_iter().map(i64::from).collect()),
        V::Ints(values) => V::Longs(values.into_iter().map(i64::from).collect()),
        V::Long(_) | V::Float(_) | V::String(_) | V::Longs(_) | V::Floats(_) | V::Strings(_) => {
            attribute.value
        }
        _ => return None,
    };
    Some(Attribute { name: attribute.name, value })
}

fn operator_lod(kind: &str) -> Option<&'static LodRule> {
    operator(kind).map(|row| &row.lod)
}

/// Adds the offsets of a LoD level.
fn offsets(graph: &mut Graph, level: &[u64]) -> Outcome<Value> {
    let offsets = level.iter().map(|offset| exact(*offset)).collect::<Outcome<Vec<i64>>>()?;
    Ok(graph.longs(&offsets))
}

/// Returns a value with the rank that the program declares, if it is not inferred.
pub(super) fn ranked(var: &Var, value: &Value) -> Value {
    let rank = var.value.tensor_type().and_then(|declared| Some(declared.shape.as_ref()?.len()));
    match (value.value_type(), rank) {
        (ValueType::Tensor(tensor), Some(rank)) if tensor.shape.is_none() => {
            let shape = Some(vec![Dim::Unknown; rank]);
            Value::new(value.name(), ValueInfo::tensor(tensor.dtype, shape))
        }
        _ => value.clone(),
    }
}

/// Returns the names that the blocks of an operator write.
fn written<'p>(program: &'p Program, op: &'p Op) -> Vec<&'p str> {
    let (mut names, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![op]);
    while let Some(op) = open.pop() {
        for number in op.blocks().filter_map(|number| usize::try_from(number).ok()) {
            let block = program.blocks.get(number).filter(|_| seen.insert(number));
            for op in block.map_or(&[][..], |block| &block.ops) {
                names.extend(op.writes());
                open.push(op);
            }
        }
    }
    names
}

/// The variables of a block, as rules see them.
struct ScopeFacts<'a, 'p> {
    scope: &'a Scope<Bound>,
    parameters: &'a HashMap<&'p str, Cow<'p, Tensor>>,
    /// The values of variables that the operator reads instead.
    replaced: &'a [(&'p str, Value)],
}

impl ScopeFacts<'_, '_> {
    fn tensor(&self, variable: &str) -> Option<(&Value, &Vec<Value>)> {
        match self.scope.get(variable)? {
            Bound::Tensor(value, lod) => {
                let replaced = self.replaced.iter().find(|(name, _)| *name == variable);
                Some((replaced.map_or(value, |(_, value)| value), lod))
            }
            _ => None,
        }
    }
}

impl VariableFacts for ScopeFacts<'_, '_> {
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        self.tensor(variable).map(|(value, _)| value.info().clone())
    }

    fn contents(&self, variable: &str) -> Option<Vec<i64>> {
        self.tensor(variable)?.0.info().ints()
    }

    fn parameter(&self, variable: &str) -> Option<&Tensor> {
        let (value, _) = self.tensor(variable)?;
        self.parameters.get(value.name()).map(AsRef::as_ref)
    }

    fn lod(&self, variable: &str) -> Vec<LodLevel> {
        let levels = self.tensor(variable).map_or(&[][..], |(_, lod)| lod);
        levels.iter().map(level_of).collect()
    }

    fn value_of(&self, variable: &str) -> String {
        self.tensor(variable).map_or(variable, |(value, _)| value.name()).to_owned()
    }
}
