//! The walk over the operators of a program.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Holder, Model, Op, Operand, Program, Sources,
    TensorType, Topology, ValueType, Var,
};
use lodstone_schema::onnx::quoted;
use lodstone_schema::paddle::{
    Release, codes, set_need_check_feed, set_stop_gradient, stop_gradient,
};
use lodstone_schema::pir::{FETCH, OWN};
use lodstone_schema::{Code, Finding, Findings, Origin, Origins};

use super::constants::Constant;
use super::{roles, special, table};
use crate::OperatorCoverage;
use crate::frame::{At, Scope, Step, guarded};
use crate::onnx::Names;

/// The main block, and the others before their numbers, as messages name them.
pub(super) const MAIN: &str = "the main block";
pub(super) const INNER: &str = "block";

/// The releases that write a version of the format, in order from 1; 0 is that of development builds.
const RELEASES: [Release; 4] =
    [Release::new(3, 0), Release::new(3, 1), Release::new(3, 2), Release::new(3, 3)];

/// Returns the release that a program follows.
fn release(program: &Program) -> Release {
    let version = program.version.and_then(|version| usize::try_from(version).ok());
    let index = version.and_then(|version| version.checked_sub(1));
    let [.., newest] = RELEASES;
    index.and_then(|index| RELEASES.get(index).copied()).unwrap_or(newest)
}

/// What holds a value of the source.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// A variable.
    Variable(String),
    /// The variables of a list, which may be absent.
    List(Vec<Option<String>>),
}

/// A translated program, as far as it could be translated.
#[derive(Debug)]
pub(super) struct Translated {
    /// The model with the translated program.
    pub(super) model: Model,
    /// The variables of the values of the source.
    pub(super) origins: Origins,
    /// The operators that could not be translated, with their places.
    pub(super) findings: Findings,
    /// What became of each operator, by block and index.
    pub(super) covered: BTreeMap<(usize, usize), OperatorCoverage>,
    /// The operators of the source that write each variable first.
    pub(super) sources: HashMap<String, (usize, usize)>,
}

impl Translated {
    /// Returns the model and the origins of its values.
    ///
    /// # Errors
    /// The operators that could not be translated.
    pub(super) fn complete(self) -> Result<(Model, Origins), Findings> {
        match self.findings.is_empty() {
            true => Ok((self.model, self.origins)),
            false => Err(self.findings),
        }
    }

    /// Adds the operators that 2.6.2 does not have.
    pub(super) fn add_unreleased(&mut self) {
        let Some(program) = self.model.main() else { return };
        let mut missing = Findings::default();
        let blocks = program.blocks.iter().enumerate();
        let ops =
            blocks.flat_map(|(block, it)| it.ops.iter().enumerate().zip(std::iter::repeat(block)));
        for ((number, op), block) in ops {
            let is_gradient = op.kind.ends_with("_grad");
            let row = lodstone_schema::paddle::operator(&op.kind);
            let is_released = row.is_some_and(|row| row.releases.contains(&"2.6.2"));
            if !is_gradient && !is_released {
                let message = "PaddlePaddle 2.6.2 does not have the operator";
                let place = At { part: MAIN, block, number }.place(INNER, op);
                missing.add(place, Finding::new(Code::NoEquivalent, message));
            }
        }
        self.findings.extend(missing);
    }
}

/// A program that is being translated.
pub(super) struct Walk<'p> {
    pub(super) program: &'p Program,
    /// The blocks of the result.
    pub(super) blocks: Vec<Block>,
    /// The index of the current block of the result.
    pub(super) current: usize,
    /// The current operator of the source.
    at: At,
    /// What the operators of the result come from.
    from: Sources,
    /// What holds the values of the source.
    pub(super) values: Scope<Bound>,
    /// The types of the values of the source, and whether gradients stop at them.
    pub(super) vars: HashMap<&'p str, &'p Var>,
    /// The values of variables that are constants.
    pub(super) constants: HashMap<String, Constant>,
    /// The number of elements of arrays, by variable of the result; `None` if it depends on values.
    pub(super) array_lengths: HashMap<String, Option<i64>>,
    /// The declarations of the variables of the result.
    declared: HashMap<String, ValueType>,
    pub(super) names: Names,
    /// The names that fetched values get.
    fetched: HashMap<&'p str, &'p str>,
    covered: BTreeMap<(usize, usize), OperatorCoverage>,
    findings: Findings,
    sources: HashMap<String, (usize, usize)>,
    origins: Origins,
    /// The domain in which operators without a counterpart are kept.
    pub(super) keeps: bool,
    /// The number of inputs, and of outputs.
    pub(super) columns: (i32, i32),
}

impl<'p> Walk<'p> {
    pub(super) fn new(program: &'p Program, keeps: bool) -> Self {
        let mut names = Names::default();
        program.vars().for_each(|var| names.take(&var.name));
        let vars = program.vars().map(|var| (var.name.as_str(), var)).collect();
        let mut fetched = HashMap::new();
        for op in program.blocks.first().into_iter().flat_map(|main| &main.ops) {
            if op.kind == FETCH
                && let ([value], [output]) = (op.input(""), op.output(""))
            {
                fetched.entry(value.as_str()).or_insert(output.as_str());
            }
        }
        Self {
            program,
            blocks: Vec::new(),
            current: 0,
            from: Sources::default(),
            at: At { part: MAIN, block: 0, number: 0 },
            values: Scope::default(),
            vars,
            constants: HashMap::new(),
            array_lengths: HashMap::new(),
            declared: HashMap::new(),
            names,
            fetched,
            covered: BTreeMap::new(),
            findings: Findings::default(),
            sources: HashMap::new(),
            origins: Origins::default(),
            keeps,
            columns: (0, 0),
        }
    }

    /// Translates the main block and those in it.
    pub(super) fn main(&mut self) {
        self.blocks.push(Block { parent: -1, ..Block::default() });
        if let Some(block) = self.program.blocks.first() {
            self.ops(0, block);
        }
        roles::assign(self);
        self.remove_unread();
    }

    /// Translates the operators of a block of the source into the current block.
    pub(super) fn ops(&mut self, index: usize, block: &'p Block) {
        let (outer, current) = (self.at, self.current);
        for (number, op) in block.ops.iter().enumerate() {
            self.at = At { part: MAIN, block: index, number };
            let from = std::mem::replace(&mut self.from, op.sources.clone());
            let outcome = guarded(|| self.op(op));
            self.from = from;
            // An operator that fails may have begun a block.
            self.current = current;
            let finding = outcome.err().and_then(|halt| self.values.fail_all(op.writes(), halt));
            if let Some(finding) = &finding {
                self.findings.add(self.at.place(INNER, op), finding.clone());
            }
            self.covered.insert((index, number), self.at.coverage(op, None, finding));
        }
        self.at = outer;
    }

    fn op(&mut self, op: &'p Op) -> Step {
        if let Some(rule) = special::rule(op) {
            return rule(self, op);
        }
        table::translate(self, op)
    }

    /// Returns the type of a value of the source.
    pub(super) fn type_of(&self, value: &str) -> ValueType {
        self.vars.get(value).map_or(ValueType::Unspecified, |var| var.value.clone())
    }

    /// Returns what holds a value.
    pub(super) fn bound(&self, value: &str) -> Step<Bound> {
        let missing = || format!("expected a value, found {}, which has none", quoted(value));
        Ok(self.values.find(value)?.cloned().ok_or_else(missing)?)
    }

    /// Returns the variable that holds a value.
    pub(super) fn variable(&self, value: &str) -> Step<String> {
        match self.bound(value)? {
            Bound::Variable(name) => Ok(name),
            _ => Err(format!("expected a tensor, found the list {}", quoted(value)).into()),
        }
    }

    /// Returns the variables of a list; a single value is a list of one.
    pub(super) fn list(&self, value: &str) -> Step<Vec<String>> {
        match self.bound(value)? {
            Bound::Variable(name) => Ok(vec![name]),
            Bound::List(names) => Ok(names.into_iter().flatten().collect()),
        }
    }

    /// Binds a value of the source.
    pub(super) fn bind(&mut self, value: &'p str, bound: Bound) {
        if let Bound::Variable(name) = &bound {
            self.origins.insert(self.at.block, value, Origin::Value(Arc::from(name.as_str())));
            self.sources.entry(name.clone()).or_insert((self.at.block, self.at.number));
        }
        self.values.bind(value, bound);
    }

    /// Declares a variable in the current block.
    pub(super) fn declare(&mut self, var: Var) {
        self.declare_in(self.current, var);
    }

    pub(super) fn declare_in(&mut self, block: usize, var: Var) {
        self.declared.insert(var.name.clone(), var.value.clone());
        self.sources.entry(var.name.clone()).or_insert((self.at.block, self.at.number));
        if let Some(block) = self.blocks.get_mut(block) {
            block.vars.push(var);
        }
    }

    /// Returns the declared type of a variable of the result.
    pub(super) fn declared(&self, variable: &str) -> ValueType {
        self.declared.get(variable).cloned().unwrap_or_default()
    }

    /// Declares a new variable of the result.
    pub(super) fn fresh(&mut self, base: &str, value: ValueType) -> String {
        let name = self.names.fresh(base);
        self.declare(Var { name: name.clone(), value, ..Var::default() });
        name
    }

    /// Declares the variable of a result of the source, and binds it. Values that the source only numbers are named
    /// after their operator; fetched ones have the name of the output.
    pub(super) fn result(&mut self, op: &Op, value: &'p str) -> String {
        let name = match (self.fetched.get(value), value.strip_prefix('%')) {
            (Some(output), Some(_)) => (*output).to_owned(),
            (_, Some(id)) => self.names.fresh(&format!("{}_{id}", base_name(op))),
            (_, None) => value.to_owned(),
        };
        let source = self.vars.get(value);
        let mut var = Var { name: name.clone(), value: self.type_of(value), ..Var::default() };
        if let Some(source) = source {
            set_stop_gradient(&mut var, stop_gradient(source));
            var.persistable = source.persistable;
            var.is_parameter = source.is_parameter && source.persistable;
        }
        self.declare(var);
        self.bind(value, Bound::Variable(name.clone()));
        name
    }

    /// Declares the variables of a result that is a list, and binds it.
    pub(super) fn results(&mut self, op: &Op, value: &'p str) -> Vec<String> {
        let members = match self.type_of(value) {
            ValueType::Tuple(members) => members.into_inner(),
            other => vec![other],
        };
        let base = base_name(op);
        let names: Vec<String> =
            members.into_iter().map(|member| self.fresh(base, member)).collect();
        self.bind(value, Bound::List(names.iter().cloned().map(Some).collect()));
        names
    }

    /// Appends an operator to the current block.
    pub(super) fn emit(&mut self, mut op: Op) {
        op.sources = self.from.clone();
        if let Some(block) = self.blocks.get_mut(self.current) {
            block.ops.push(op);
        }
    }

    /// Appends an operator with tensors as inputs, and one new variable as its output.
    pub(super) fn call(
        &mut self,
        kind: &str,
        inputs: &[(&str, &str)],
        attributes: Vec<Attribute>,
        value: ValueType,
    ) -> String {
        let output = self.fresh(kind, value);
        self.emit(new_op(kind, inputs, &[("Out", &output)], attributes));
        output
    }

    /// Returns a variable with the values of another one in an element type.
    pub(super) fn cast(&mut self, variable: &str, dtype: DType) -> Step<String> {
        let declared = self.declared(variable);
        let tensor = declared.tensor_type().cloned().unwrap_or_default();
        if tensor.dtype == dtype {
            return Ok(variable.to_owned());
        }
        let code =
            |dtype| codes::dtype_code(dtype).ok_or("expected an element type that tensors have");
        let attributes =
            vec![attribute("in_dtype", code(tensor.dtype)?), attribute("out_dtype", code(dtype)?)];
        let value = ValueType::Tensor(TensorType { dtype, ..tensor });
        Ok(self.call("cast", &[("X", variable)], attributes, value))
    }

    /// Appends an operator that declares the shape of its input beside its output, as PaddlePaddle 2 expects it of
    /// operators that only change the shape.
    pub(super) fn add_shape_output(&mut self, op: &mut Op, of: &str) {
        let mut tensor = TensorType::default();
        if let Some(known) = self.declared(of).tensor_type() {
            let zero = std::iter::once(lodstone_model::Dim::Known(0));
            let shape = known.shape.clone().map(|dims| zero.chain(dims).collect());
            tensor = TensorType { dtype: known.dtype, shape, ..tensor };
        }
        let name = self.fresh("xshape", ValueType::Tensor(tensor));
        op.outputs.push(Operand { slot: "XShape".to_owned(), args: vec![name] });
    }

    /// Begins a block inside the current one; returns its index.
    pub(super) fn begin_block(&mut self) -> Step<usize> {
        let index = self.blocks.len();
        // Each block of the source is translated once.
        if index >= self.program.blocks.len() {
            return Err("blocks run each other in a cycle".into());
        }
        let number = |index| i32::try_from(index).map_err(|_| Finding::internal("too many blocks"));
        self.blocks.push(Block {
            index: number(index)?,
            parent: number(self.current)?,
            ..Block::default()
        });
        self.current = index;
        Ok(index)
    }

    /// Removes constants that became attributes, and the variables that no operator needs.
    fn remove_unread(&mut self) {
        let read: HashSet<String> = self
            .blocks
            .iter()
            .flat_map(|block| block.ops.iter().flat_map(Op::reads).map(str::to_owned))
            .collect();
        for block in &mut self.blocks {
            let is_unread = |name: &str| self.constants.contains_key(name) && !read.contains(name);
            block.ops.retain(|op| !special::makes_constant(op) || !op.writes().all(is_unread));
        }
        let ops = self.blocks.iter().flat_map(|block| &block.ops);
        let used: HashSet<String> =
            ops.flat_map(|op| op.reads().chain(op.writes())).map(str::to_owned).collect();
        for block in &mut self.blocks {
            block.vars.retain(|var| var.persistable || used.contains(&var.name));
        }
    }

    pub(super) fn finish(mut self, model: &Model) -> Translated {
        for (name, kind) in [("feed", Holder::FeedMinibatch), ("fetch", Holder::FetchList)] {
            if let Some(main) = self.blocks.first_mut()
                && main.ops.iter().any(|op| op.kind == name)
            {
                let value = ValueType::Holder(kind);
                let var = Var { name: name.to_owned(), value, persistable: true, ..Var::default() };
                main.vars.push(var);
            }
        }
        let has: HashSet<&str> =
            self.blocks.iter().flat_map(|block| &block.vars).map(|var| var.name.as_str()).collect();
        self.origins.retain(|name| has.contains(name));
        let program = Topology {
            version: Some(release(self.program).number()),
            blocks: self.blocks,
            ..Topology::new(Dialect::Paddle)
        };
        let mut model = model.clone();
        // The layout of the files is that of another format.
        model.residual.clear();
        model.files.clear();
        model.set_main(program.into());
        Translated {
            model,
            origins: self.origins,
            findings: self.findings,
            covered: self.covered,
            sources: self.sources,
        }
    }

    /// Renames a variable of the result.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let rename = |name: &mut String| {
            if name == from {
                to.clone_into(name);
            }
        };
        for block in &mut self.blocks {
            block.vars.iter_mut().for_each(|var| rename(&mut var.name));
            for op in &mut block.ops {
                let operands = op.inputs.iter_mut().chain(&mut op.outputs);
                operands.flat_map(|operand| &mut operand.args).for_each(rename);
            }
        }
        if let Some(source) = self.sources.remove(from) {
            self.sources.insert(to.to_owned(), source);
        }
    }

    /// Marks the variable that was declared last as an input of the program.
    pub(super) fn mark_fed(&mut self) {
        let block = self.blocks.get_mut(self.current);
        if let Some(var) = block.and_then(|block| block.vars.last_mut()) {
            set_need_check_feed(var, true);
        }
    }
}

/// Returns the name of an operator without its dialect.
fn base_name(op: &Op) -> &str {
    op.kind.strip_prefix(OWN).unwrap_or(&op.kind).trim_end_matches('_')
}

pub(super) fn attribute(name: &str, value: impl Into<AttributeValue>) -> Attribute {
    Attribute { name: name.to_owned(), value: value.into() }
}

/// Returns an operator with one variable in each slot.
pub(super) fn new_op(
    kind: &str,
    inputs: &[(&str, &str)],
    outputs: &[(&str, &str)],
    attributes: Vec<Attribute>,
) -> Op {
    let slots = |slots: &[(&str, &str)]| {
        slots.iter().map(|(slot, name)| operand(slot, vec![(*name).to_owned()])).collect()
    };
    Op {
        kind: kind.to_owned(),
        inputs: slots(inputs),
        outputs: slots(outputs),
        attributes,
        ..Op::default()
    }
}

pub(super) fn operand(slot: &str, args: Vec<String>) -> Operand {
    Operand { slot: slot.to_owned(), args }
}
