//! The walk over the operators of a program: each is lowered to ONNX's, for what is known about its variables.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dim, Kind, Model, Op, Program, Tensor, ValueType, Var,
};
use lodstone_schema::numbers::exact;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::quoted;
use lodstone_schema::paddle::{
    CONVENTIONS, EMPTY, LodRule, Release, Share, SharedLod, interface, operator,
};
use lodstone_schema::{Code, Finding, Findings, Origin, Origins};

use super::integers::{Product, products};
use super::scope::{Bound, Key, Scope};
use super::{arrays, control, paths, ranks};
use crate::onnx::{Graph, Value, int};
use crate::paddle::operator::{Operator, Outcome, level_of, valueless};
use crate::paddle::{LodLevel, Output, RULES, VariableFacts, check_size};
use crate::{LowerOptions, OperatorCoverage};

/// The maximum number of operators that are translated for each operator of the program: blocks of loops are
/// translated several times, until the types of their variables no longer change.
const MAX_WORK: u64 = 64;

/// Translates an operator that acts on variables rather than on tensors.
pub(super) type Own = for<'p> fn(&mut Walk<'p>, &Site<'p>) -> Outcome;

const OWN: &[&[(&str, Own)]] =
    &[arrays::OPERATORS, control::OPERATORS, paths::OPERATORS, ranks::OPERATORS];

/// Returns the function for an operator that acts on variables.
pub(super) fn own(kind: &str) -> Option<Own> {
    let mut all = OWN.iter().copied().flatten();
    all.find(|(name, _)| *name == kind).map(|(_, own)| *own)
}

/// Returns the kinds of operators that act on variables.
pub(super) fn own_kinds() -> impl Iterator<Item = &'static str> {
    OWN.iter().copied().flatten().map(|(kind, _)| *kind)
}

/// An operator and its place.
pub(super) struct Site<'p> {
    pub(super) block: usize,
    pub(super) number: usize,
    pub(super) op: &'p Op,
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

    /// Takes back all names but the first ones.
    fn truncate(&mut self, count: usize) {
        for name in self.order.drain(count.min(self.order.len())..) {
            self.all.remove(name);
        }
    }
}

/// A place in a walk.
pub(super) struct Mark {
    blocks: usize,
    given: usize,
    findings: usize,
}

/// A program that is being translated.
pub(super) struct Walk<'p> {
    pub(super) model: &'p Model,
    pub(super) program: &'p Program,
    pub(super) graph: Graph,
    pub(super) scope: Scope<'p>,
    pub(super) findings: Findings,
    /// The blocks of the result inside the first one.
    pub(super) blocks: Vec<Block>,
    /// The inputs of the result.
    pub(super) inputs: Vec<Var>,
    /// The names of fetched variables, in order.
    pub(super) outputs: Vec<&'p str>,
    /// The names of variables that are names of values already.
    pub(super) given: Given<'p>,
    /// The values of variables, by block and name, in the order in which they were written.
    values: Vec<(usize, &'p str, Arc<str>)>,
    /// The values that were renamed after the walk: outputs.
    pub(super) renamed: HashMap<String, String>,
    parameters: HashMap<&'p str, &'p Tensor>,
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
    /// What became of each operator, if that is requested.
    covered: Option<BTreeMap<(usize, usize), OperatorCoverage>>,
    release: Release,
    /// The number of operators that may still be translated.
    work: u64,
}

impl<'p> Walk<'p> {
    pub(super) fn new(
        model: &'p Model,
        program: &'p Program,
        outputs: &'p [String],
        options: &'p LowerOptions,
    ) -> Result<Self, Findings> {
        let mut graph = Graph::symbolic();
        program.vars().for_each(|var| graph.names.take(&var.name));
        model.parameters.iter().for_each(|parameter| graph.names.take(&parameter.name));
        graph.names.take("");
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let mut read: HashSet<&str> = program.ops().flat_map(Op::reads).collect();
        read.extend(&outputs);
        let main = program.blocks.first().map_or(&[][..], |block| &block.ops);
        let writes = main.iter().enumerate().flat_map(|(number, op)| {
            let inner = written(program, op);
            op.writes().chain(inner).map(move |name| (name, number))
        });
        let fetched: HashSet<&str> = outputs.iter().copied().collect();
        let last = writes.filter(|(name, _)| fetched.contains(name)).collect();
        let parameters = model.parameters.iter().map(|it| (it.name.as_str(), &it.tensor)).collect();
        let products = products(program, &outputs);
        let ops = program.ops().count() as u64;
        let mut walk = Self {
            model,
            program,
            graph,
            scope: Scope::new(program),
            findings: Findings::default(),
            blocks: Vec::new(),
            inputs: Vec::new(),
            outputs,
            given: Given::default(),
            values: Vec::new(),
            renamed: HashMap::new(),
            parameters,
            read,
            last,
            options,
            keeps: Vec::new(),
            products,
            left_out: HashSet::new(),
            covered: None,
            release: Release::of(program),
            work: ops.saturating_mul(MAX_WORK).max(1 << 12),
        };
        walk.parameters();
        match walk.findings.is_empty() {
            true => Ok(walk),
            false => Err(walk.findings),
        }
    }

    /// Binds persistable variables to the parameters.
    fn parameters(&mut self) {
        for (index, block) in self.program.blocks.iter().enumerate() {
            for var in block.vars.iter().filter(|var| var.persistable) {
                let Some(tensor) = self.parameters.get(var.name.as_str()) else { continue };
                if !matches!(tensor.kind, Kind::Dense) && self.read.contains(var.name.as_str()) {
                    let place = format!("the parameter {}", quoted(&var.name));
                    self.findings.add(place, "only dense tensors are supported");
                    continue;
                }
                let value = Value::new(&var.name, ValueInfo::of(tensor));
                let lod = tensor.lod.0.iter().map(|level| offsets(&mut self.graph, level));
                match lod.collect() {
                    Ok(lod) => {
                        self.scope.set((index, var.name.as_str()), Bound::Tensor(value, lod));
                        self.given.add(&var.name);
                    }
                    Err(finding) => {
                        self.findings.add(format!("the parameter {}", quoted(&var.name)), finding);
                    }
                }
            }
        }
    }

    /// Declares the inputs, and those of their LoD levels.
    pub(super) fn inputs(&mut self) {
        let inputs = interface(self.program).inputs;
        for (name, _) in &self.options.lod {
            if !inputs.contains(&name.as_str()) {
                let what = "the program has no such input, to set the LoD of";
                self.findings.add(format!("the input {}", quoted(name)), what);
            }
        }
        let mut seen = HashSet::new();
        for name in inputs.into_iter().filter(|name| seen.insert(*name)) {
            if let Err(finding) = self.input(name) {
                self.findings.add(format!("the input {}", quoted(name)), finding);
            }
        }
    }

    fn input(&mut self, name: &'p str) -> Outcome {
        let key = self.scope.key(0, name)?;
        let var = self.scope.declaration(key).ok_or("no block declares it")?;
        let ValueType::Tensor(tensor) = &var.value else {
            return Err("expected a tensor".into());
        };
        let symbol = |(axis, dim): (usize, &Dim)| match dim {
            Dim::Unknown => Dim::Symbol(Arc::from(format!("{name}.{axis}"))),
            known => known.clone(),
        };
        let shape = tensor.shape.as_ref().map(|dims| dims.iter().enumerate().map(symbol));
        let mut info = ValueInfo::tensor(tensor.dtype, shape.map(Iterator::collect));
        if tensor.lod_level > 0
            && let ValueType::Tensor(declared) = &mut info.value
        {
            // The rows of all sequences together are never fixed.
            if let Some(rows) = declared.shape.as_mut().and_then(|dims| dims.first_mut()) {
                *rows = Dim::Symbol(Arc::from(format!("{name}.0")));
            }
        }
        self.declare(name, &info);
        self.given.add(name);
        let given = self.options.lod.iter().filter(|(input, _)| input == name);
        let mut lod = Vec::new();
        for (_, offsets) in given {
            lod.push(self::offsets(&mut self.graph, offsets)?);
        }
        let open = if lod.is_empty() { 0..tensor.lod_level } else { 0..0 };
        for level in open {
            let level = self.graph.names.fresh(&format!("{name}.lod{level}"));
            let count = Dim::Symbol(Arc::from(format!("{level}.0")));
            let offsets = ValueInfo::tensor(DType::Int64, Some(vec![count]));
            self.declare(&level, &offsets);
            lod.push(Value::new(&level, offsets));
        }
        self.scope.set(key, Bound::Tensor(Value::new(name, info), lod));
        Ok(())
    }

    fn declare(&mut self, name: &str, info: &ValueInfo) {
        let value = info.value.clone();
        self.inputs.push(Var { name: name.to_owned(), value, ..Var::default() });
    }

    /// Returns a place that the walk can return to.
    pub(super) fn mark(&self) -> Mark {
        let count = self.findings.count();
        Mark { blocks: self.blocks.len(), given: self.given.order.len(), findings: count }
    }

    /// Whether operators could not be translated since a place.
    pub(super) fn has_failed(&self, mark: &Mark) -> bool {
        self.findings.count() > mark.findings
    }

    /// Forgets the blocks that were translated since a place.
    pub(super) fn back(&mut self, mark: &Mark) {
        self.blocks.truncate(mark.blocks);
        self.given.truncate(mark.given);
    }

    /// Translates the main block.
    pub(super) fn main(&mut self) {
        self.operators(0);
    }

    /// Translates the operators of a block.
    pub(super) fn operators(&mut self, block: usize) {
        let ops = self.program.blocks.get(block).map_or(&[][..], |block| &block.ops);
        for (number, op) in ops.iter().enumerate() {
            self.operator(&Site { block, number, op });
        }
    }

    fn operator(&mut self, site: &Site<'p>) {
        if matches!(site.op.kind.as_str(), "feed" | "fetch" | "fetch_v2") {
            return;
        }
        let before = self.graph.ops.len();
        let outcome = match self.work.checked_sub(1) {
            Some(left) => {
                self.work = left;
                self.translate(site)
            }
            None => Err(Finding::new(Code::Limit, "the loops of the program are nested too deep")),
        };
        self.cover(site, before, outcome.as_ref().err());
        if let Err(finding) = outcome {
            self.findings.add(place(site), finding);
            self.fail(site);
        }
    }

    /// Records what became of an operator; `before` is the number of operators that were emitted before.
    fn cover(&mut self, site: &Site<'p>, before: usize, finding: Option<&Finding>) {
        let Some(covered) = &mut self.covered else { return };
        let opset = self.graph.opset_since(before).filter(|_| finding.is_none());
        let (kind, place) = (site.op.kind.clone(), (site.block, site.number));
        let finding = finding.cloned();
        let domain = String::new();
        covered.insert(place, OperatorCoverage { domain, kind, place, opset, finding });
    }

    /// Translates the main block, and returns what became of each operator.
    pub(super) fn coverage(mut self) -> Vec<OperatorCoverage> {
        self.covered = Some(BTreeMap::new());
        self.main();
        self.covered.take().unwrap_or_default().into_values().collect()
    }

    fn translate(&mut self, site: &Site<'p>) -> Outcome {
        let own = own(&site.op.kind);
        if own.is_none() && RULES.name(&site.op.kind).is_none() {
            if let Some(domain) = &self.options.custom_domain {
                return self.keep(site, domain);
            }
            return Err(Finding::new(Code::NoEquivalent, "the operator is not supported"));
        }
        for name in site.op.reads().filter(|name| *name != EMPTY) {
            let key = self.scope.key(site.block, name)?;
            if matches!(self.scope.get(key), Some(Bound::Failed)) {
                self.fail(site);
                return Ok(());
            }
        }
        match own {
            Some(own) => own(self, site),
            None if self.left_out.contains(&(site.block, site.number)) => self.pass(site),
            None => self.lower(site),
        }
    }

    /// Keeps an operator without an equivalent in a domain of its own. Its results have the types that the program
    /// declares.
    fn keep(&mut self, site: &Site<'p>, domain: &str) -> Outcome {
        if site.op.blocks().next().is_some() {
            return Err("operators that run blocks cannot be kept".into());
        }
        let mut args = Vec::new();
        for operand in &site.op.inputs {
            for name in &operand.args {
                args.push(match self.bound(site, name, &operand.slot)? {
                    Bound::Tensor(value, _) => value,
                    Bound::Failed => return Ok(()),
                    _ => return Err("only operators of tensors can be kept".into()),
                });
            }
        }
        let mut results = Vec::new();
        for name in site.op.outputs.iter().flat_map(|operand| &operand.args) {
            let key = self.scope.key(site.block, name)?;
            let value = self.scope.declaration(key).map(|var| &var.value);
            let Some(ValueType::Tensor(tensor)) = value else {
                return Err(format!("the type of `{name}` is not declared").into());
            };
            results.push((name, ValueInfo::tensor(tensor.dtype, tensor.shape.clone())));
        }
        let semantic = CONVENTIONS.is_semantic;
        let attributes = site.op.attributes.iter().filter(|it| semantic(&it.name));
        let attributes: Vec<Attribute> = attributes.cloned().filter_map(plain).collect();
        self.graph.begin(&site.op.kind);
        let args: Vec<Option<&Value>> = args.iter().map(Some).collect();
        let infos = results.iter().map(|(_, info)| info.clone()).collect();
        let made = self.graph.emit_typed(&site.op.kind, &args, attributes, infos);
        if let Some(op) = self.graph.ops.last_mut() {
            domain.clone_into(&mut op.domain);
        }
        if !self.keeps.contains(&site.op.kind) {
            self.keeps.push(site.op.kind.clone());
        }
        for ((name, _), value) in results.iter().zip(&made) {
            self.bind(site, name, value, Vec::new())?;
        }
        Ok(())
    }

    /// Marks the results of an operator that cannot be translated, so that their readers are not reported.
    fn fail(&mut self, site: &Site<'p>) {
        for name in site.op.writes().filter(|name| *name != EMPTY) {
            if let Ok(key) = self.scope.key(site.block, name) {
                self.scope.set(key, Bound::Failed);
            }
        }
    }

    /// Lowers an operator by its rule.
    fn lower(&mut self, site: &Site<'p>) -> Outcome {
        let op = self.without_unread(site.op);
        let rule = RULES.get(&site.op.kind);
        let rule = rule.ok_or_else(|| Finding::internal("the operator has no rule"))?;
        let replaced = self.restored_factors(site)?;
        let replaced = replaced.as_ref().map_or(&[][..], |factors| factors);
        self.graph.begin(&site.op.kind);
        let parameters = &self.parameters;
        let facts = ScopeFacts { scope: &self.scope, block: site.block, parameters, replaced };
        let mut operator = Operator::new(&op, self.release, &mut self.graph, &facts);
        let outcome = rule(&mut operator);
        let outputs = operator.outputs;
        if let Err(finding) = outcome {
            self.graph.take_back();
            return Err(finding);
        }
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
            if !self.read.contains(name.as_str()) {
                EMPTY.clone_into(name);
            }
        }
        op
    }

    /// Binds a variable to a tensor that the current operator computed, which gets the variable's name where that is
    /// possible.
    pub(super) fn bind(
        &mut self,
        site: &Site<'p>,
        variable: &str,
        value: &Value,
        lod: Vec<Value>,
    ) -> Outcome {
        let key = self.scope.key(site.block, variable)?;
        let value = self.ranked(key, value);
        let value = self.named(site, key, &value)?;
        let lod: Vec<Value> = lod.iter().map(|level| self.graph.current(level)).collect();
        self.scope.set(key, Bound::Tensor(value, lod));
        Ok(())
    }

    /// Returns a value with the rank that the program declares, if it is not inferred.
    pub(super) fn ranked(&self, key: Key<'p>, value: &Value) -> Value {
        let declared = self.scope.declaration(key).and_then(|var| var.value.tensor_type());
        let rank = declared.and_then(|declared| Some(declared.shape.as_ref()?.len()));
        match (value.value_type(), rank) {
            (ValueType::Tensor(tensor), Some(rank)) if tensor.shape.is_none() => {
                let shape = Some(vec![Dim::Unknown; rank]);
                Value::new(value.name(), ValueInfo::tensor(tensor.dtype, shape))
            }
            _ => value.clone(),
        }
    }

    /// Gives a value the name of a variable, if no value has it yet.
    pub(super) fn named(&mut self, site: &Site<'p>, key: Key<'p>, value: &Value) -> Outcome<Value> {
        let current = self.graph.current(value);
        let is_final = match self.last.get(key.1) {
            Some(last) => site.block == 0 && *last == site.number,
            None => true,
        };
        if !is_final || !self.graph.is_made(value) || self.given.has(key.1) {
            self.origin(site.block, key.1, &current);
            return Ok(current);
        }
        let named = self.graph.name(value, key.1, key.1)?;
        self.given.add(key.1);
        self.origin(site.block, key.1, &named);
        Ok(named)
    }

    fn origin(&mut self, block: usize, name: &'p str, value: &Value) {
        self.values.push((block, name, Arc::from(value.name())));
    }

    /// Returns the origins of the values of variables: of several, the last.
    pub(super) fn origins(&self, renamed: &HashMap<String, String>) -> Origins {
        let mut origins = Origins::default();
        for (block, name, value) in &self.values {
            let value = match renamed.get(&**value) {
                Some(new) => Arc::from(new.as_str()),
                None => Arc::clone(value),
            };
            origins.insert(*block, name, Origin::Value(value));
        }
        origins
    }

    /// Returns a parameter of the model.
    pub(super) fn parameter(&self, name: &str) -> Option<&'p Tensor> {
        self.parameters.get(name).copied()
    }

    /// Returns what a variable holds.
    ///
    /// # Errors
    /// If it holds nothing.
    pub(super) fn bound(&self, site: &Site<'p>, name: &str, slot: &str) -> Outcome<Bound> {
        let key = self.scope.key(site.block, name)?;
        self.scope.get(key).cloned().ok_or_else(|| valueless(name, slot))
    }

    /// Returns what the variable of an input slot holds.
    ///
    /// # Errors
    /// If the slot is empty, or the variable holds nothing.
    pub(super) fn read(&self, site: &Site<'p>, slot: &str) -> Outcome<Bound> {
        let missing = || Finding::from(format!("input `{slot}` is missing")).about_slot(slot);
        let name = site.op.input(slot).first().ok_or_else(missing)?;
        self.bound(site, name, slot)
    }

    /// Returns the tensor in the variable of an input slot.
    ///
    /// # Errors
    /// If it holds none.
    pub(super) fn tensor(&self, site: &Site<'p>, slot: &str) -> Outcome<(Value, Vec<Value>)> {
        match self.read(site, slot)? {
            Bound::Tensor(value, lod) => Ok((value, lod)),
            _ => Err(Finding::from(format!("expected a tensor as `{slot}`")).about_slot(slot)),
        }
    }

    /// Returns the name of the variable of an output slot; `None` if nothing reads it.
    pub(super) fn output(&self, site: &Site<'p>, slot: &str) -> Option<&'p str> {
        let name = site.op.output(slot).first().map(String::as_str);
        name.filter(|name| self.read.contains(name))
    }

    /// Whether an operator reads a variable of this name, or it is fetched.
    pub(super) fn is_read(&self, name: &str) -> bool {
        self.read.contains(name)
    }

    /// Returns the LoD of an output that shares that of an input.
    fn shared(
        &mut self,
        site: &Site<'p>,
        shared: &SharedLod,
        slot: &str,
        output: &Output,
    ) -> Outcome<Vec<Value>> {
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
            return self.joined(&sources, &rows);
        }
        let place = site.op.output(slot).iter().position(|name| *name == output.variable);
        let source = place.and_then(|place| sources.get(place)).or(sources.first());
        let source = source.filter(|(source, _)| !differs(source));
        Ok(source.map(|(_, lod)| lod.clone()).unwrap_or_default())
    }

    fn sources(&self, site: &Site<'p>, share: Share) -> Outcome<Vec<(Value, Vec<Value>)>> {
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

/// Returns the place of an operator.
fn place(site: &Site<'_>) -> String {
    let block = match site.block {
        0 => "the program".to_owned(),
        block => format!("block {block}"),
    };
    format!("{block}, operator {} ({})", site.number, quoted(&site.op.kind))
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
    scope: &'a Scope<'p>,
    block: usize,
    parameters: &'a HashMap<&'p str, &'p Tensor>,
    /// The values of variables that the operator reads instead.
    replaced: &'a [(&'p str, Value)],
}

impl<'p> ScopeFacts<'_, 'p> {
    fn tensor(&self, variable: &str) -> Option<(&Value, &Vec<Value>)> {
        match self.scope.get(self.scope.key(self.block, variable).ok()?)? {
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
        self.parameters.get(value.name()).copied()
    }

    fn lod(&self, variable: &str) -> Vec<LodLevel> {
        let levels = self.tensor(variable).map_or(&[][..], |(_, lod)| lod);
        levels.iter().map(level_of).collect()
    }

    fn value_of(&self, variable: &str) -> String {
        self.tensor(variable).map_or(variable, |(value, _)| value.name()).to_owned()
    }
}
