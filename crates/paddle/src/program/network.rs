//! Networks: a main program, and a startup program that initializes its parameters.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_lowering::paddle::{LodLevel, VariableFacts, output_types};
use lodstone_model::{
    AttributeValue, Block, DType, Dialect, Dim, Holder, Op, Operand, Program, Topology, Var,
};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{
    LodRule, Release, need_check_feed, operator, set_stop_gradient, stop_gradient,
    with_stop_gradient,
};

use crate::program::error::{self, Error, Result, variable};
use crate::program::initializers::Initializer;
use crate::program::known::{Known, forget, merge, written};
use crate::program::names::Names;
use crate::program::operator::Operator;
use crate::program::optimizer::Decay;

/// A variable of a program, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variable(String);

impl Variable {
    /// Returns the variable of a name.
    pub fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the name of the variable.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// The configuration of a parameter of a layer.
#[derive(Clone, Debug)]
pub struct ParamAttr {
    /// The name; if `None`, a name is generated. An existing name refers to the existing parameter.
    pub name: Option<String>,
    /// The initializer; if `None`, the default of the layer.
    pub initializer: Option<Initializer>,
    /// Whether optimizers update the parameter.
    pub trainable: bool,
    /// How optimizers treat the parameter.
    pub update: Update,
}

impl Default for ParamAttr {
    fn default() -> Self {
        Self { name: None, initializer: None, trainable: true, update: Update::default() }
    }
}

impl ParamAttr {
    /// Returns the configuration of a parameter with this name.
    pub fn named(name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::default() }
    }
}

/// How optimizers treat a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// The factor of the learning rate.
    pub learning_rate: f32,
    /// The weight decay; if `None`, that of the optimizer.
    pub decay: Option<Decay>,
    /// Whether its gradient is clipped, if the optimizer clips gradients.
    pub clips: bool,
}

impl Default for Update {
    fn default() -> Self {
        Self { learning_rate: 1.0, decay: None, clips: true }
    }
}

/// A network under construction: the main program and the startup program.
#[derive(Clone, Debug)]
pub struct Network {
    /// The main program, which computes.
    pub main: Program,
    /// The startup program, which initializes the parameters of the main program. It is run once.
    pub startup: Program,
    /// The generated names.
    pub names: Names,
    /// Known facts about the variables of the main program.
    pub(crate) known: HashMap<String, Known>,
    /// How optimizers treat parameters, other than by default.
    updates: HashMap<String, Update>,
    /// The block that operators are appended to.
    pub(crate) current: usize,
}

/// What a network knows beside its programs: the types of variables, how parameters are updated, and the block that
/// operators are appended to.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub(crate) known: HashMap<String, Known>,
    updates: HashMap<String, Update>,
    current: usize,
}

impl Draft {
    /// Returns what the declarations of a program state.
    pub fn of(main: &Program) -> Self {
        let mut draft = Self::default();
        for (block, declared) in main.blocks.iter().enumerate() {
            for var in &declared.vars {
                draft.known.entry(var.name.clone()).or_insert_with(|| stated(var, block));
            }
        }
        draft
    }

    /// Adds a variable that a block of the program declares now, or declares in another way.
    pub fn declare(&mut self, block: usize, var: &Var) {
        let is_outer = |known: &Known| known.block < block;
        if !self.known.get(&var.name).is_some_and(is_outer) {
            self.known.insert(var.name.clone(), stated(var, block));
        }
    }

    /// Returns what the declarations of a program state, after it was edited: the current block and the updates of
    /// parameters stay.
    #[must_use]
    pub fn renewed(self, main: &Program) -> Self {
        let current = if self.current < main.blocks.len() { self.current } else { 0 };
        Self { current, updates: self.updates, ..Self::of(main) }
    }

    /// Returns the index of the block that operators are appended to.
    pub fn current_block(&self) -> usize {
        self.current
    }
}

/// Returns what the declaration of a variable states.
fn stated(var: &Var, block: usize) -> Known {
    let mut info = ValueInfo::from(var.value.clone());
    if need_check_feed(var) {
        name_dims(&var.name, &mut info);
    }
    Known { info, block }
}

/// Makes the unknown dims of an input symbols, which stay the same wherever they go.
pub(crate) fn name_dims(name: &str, info: &mut ValueInfo) {
    let dims = info.value.tensor_type_mut().and_then(|tensor| tensor.shape.as_mut());
    for (place, dim) in dims.into_iter().flatten().enumerate() {
        if matches!(dim, Dim::Unknown) {
            *dim = Dim::Symbol(Arc::from(format!("{name}.{place}")));
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

impl Network {
    /// Creates an empty network.
    pub fn new() -> Self {
        let empty = || {
            Program::from(Topology {
                version: Some(Release::WRITTEN.number()),
                blocks: vec![Block { parent: -1, ..Block::default() }],
                ..Topology::new(Dialect::Paddle)
            })
        };
        Self::of(empty(), empty(), Names::default(), Draft::default())
    }

    /// Continues the construction of two programs.
    pub fn of(main: Program, startup: Program, names: Names, draft: Draft) -> Self {
        let Draft { known, updates, current } = draft;
        Self { main, startup, names, known, updates, current }
    }

    /// Returns the programs, and what [`of`](Self::of) continues from.
    pub fn into_parts(self) -> (Program, Program, Names, Draft) {
        let Self { main, startup, names, known, updates, current } = self;
        (main, startup, names, Draft { known, updates, current })
    }

    /// Generates a name: the base and the next number, such as `fc_0`.
    pub fn name(&mut self, base: &str) -> String {
        self.names.generate(base)
    }

    /// Returns how optimizers treat a parameter.
    pub(crate) fn update(&self, parameter: &Variable) -> Update {
        self.updates.get(parameter.name()).copied().unwrap_or_default()
    }

    /// Returns what is known about a variable of the main program.
    ///
    /// # Errors
    /// If the variable does not exist, or belongs to a block that the current one is not inside of.
    pub fn info(&self, var: &Variable) -> Result<&ValueInfo> {
        match self.known.get(var.name()) {
            Some(known) if self.sees(self.current, known.block) => Ok(&known.info),
            Some(_) => variable(
                var.name(),
                "the variable is removed when its block has run; assign it to an outer variable",
            ),
            None => variable(var.name(), "the network does not have this variable"),
        }
    }

    /// Whether a block is another one, or inside it.
    pub(crate) fn sees(&self, mut block: usize, other: usize) -> bool {
        while block != other {
            let parent = self.main.blocks.get(block).map(|block| block.parent);
            match parent.and_then(|parent| usize::try_from(parent).ok()) {
                Some(parent) => block = parent,
                None => return false,
            }
        }
        true
    }

    /// Makes dims of a variable unknown: later writes may change them, such as those of a loop that extends it.
    ///
    /// # Errors
    /// If the variable or a dim does not exist.
    pub fn vary(&mut self, var: &Variable, axes: &[usize]) -> Result<()> {
        let rank = self.shape(var)?.len();
        if let Some(axis) = axes.iter().find(|axis| **axis >= rank) {
            return variable(var.name(), format!("axis {axis} is out of range of rank {rank}"));
        }
        self.known.entry(var.name().to_owned()).and_modify(|known| forget(&mut known.info, axes));
        self.redeclare(var.name())
    }

    /// Updates the declaration of a variable with its known type.
    fn redeclare(&mut self, name: &str) -> Result<()> {
        let known = self.known.get(name);
        let known =
            known.ok_or_else(|| error::internal("the type of a redeclared variable is unknown"))?;
        let block = error::block_mut(&mut self.main, known.block)?;
        let var = block.vars.iter_mut().rev().find(|var| var.name == name);
        let var = var.ok_or_else(|| error::internal("a redeclared variable was not declared"))?;
        var.value = written(&known.info.value);
        Ok(())
    }

    /// Returns the element type of a variable.
    ///
    /// # Errors
    /// If the variable does not exist.
    pub fn dtype(&self, var: &Variable) -> Result<DType> {
        Ok(self.info(var)?.dtype())
    }

    /// Returns the dims of a variable; `None` for unknown ones.
    ///
    /// # Errors
    /// If the variable does not exist, or its rank is unknown.
    pub fn shape(&self, var: &Variable) -> Result<Vec<Option<u64>>> {
        let known = |dim: &Dim| match dim {
            Dim::Known(size) => Some(*size),
            _ => None,
        };
        match self.info(var)?.shape() {
            Some(dims) => Ok(dims.iter().map(known).collect()),
            None => variable(var.name(), "the rank is unknown"),
        }
    }

    /// Declares a variable in a block of the main program.
    pub(crate) fn declare(&mut self, block: usize, var: Var, info: ValueInfo) -> Variable {
        let name = var.name.clone();
        let is_known = self.known.insert(name.clone(), Known { info, block }).is_some();
        match self.main.blocks.get_mut(block) {
            Some(block) => {
                let same = |known: &&mut Var| known.name == name;
                match is_known.then(|| block.vars.iter_mut().rev().find(same)).flatten() {
                    Some(known) => *known = var,
                    None => block.vars.push(var),
                }
            }
            // A program with a variable that no block declares cannot run.
            None => drop(lodstone_schema::Finding::internal(format!(
                "the network has no block {block}"
            ))),
        }
        Variable(name)
    }

    /// Adds a parameter to the main program, which the startup program initializes.
    ///
    /// # Errors
    /// If the network has a different parameter of this name.
    pub fn parameter(
        &mut self,
        parameter: &ParamAttr,
        base: &str,
        dtype: DType,
        shape: &[u64],
        default: Initializer,
    ) -> Result<Variable> {
        let name = parameter.name.clone().unwrap_or_else(|| self.name(base));
        let dims: Vec<Dim> = shape.iter().map(|dim| Dim::Known(*dim)).collect();
        let info = ValueInfo::tensor(dtype, Some(dims));
        let differs = "a different parameter of this name exists";
        if let Some(known) = self.known.get(&name) {
            return match known.info.value == info.value {
                true => Ok(Variable(name)),
                false => variable(&name, differs),
            };
        }
        let made = Variable(name.clone());
        let var = Var {
            name,
            value: info.value.clone(),
            persistable: true,
            is_parameter: true,
            ..Var::default()
        };
        let var = with_stop_gradient(var, !parameter.trainable);
        // Several main programs may share parameters, and a startup program that initializes them once.
        let known = self.startup.vars().find(|known| known.name == var.name);
        match known.map(|known| known.value == var.value) {
            Some(true) => {}
            Some(false) => return variable(made.name(), differs),
            None => {
                let initializer = parameter.initializer.clone().unwrap_or(default);
                let op = initializer.operator(&made, dtype, shape)?.output("Out", [&made]);
                let op = op.finish()?;
                error::block_mut(&mut self.startup, 0)?.vars.push(var.clone());
                push(&mut self.startup, op)?;
            }
        }
        if parameter.update != Update::default() {
            self.updates.insert(made.0, parameter.update);
        }
        Ok(self.declare(0, var, info))
    }

    /// Adds a persistable variable that is not trained, and that the startup program fills with a number: a statistic, a
    /// counter.
    ///
    /// # Errors
    /// Like [`parameter`](Self::parameter).
    pub fn state(
        &mut self,
        base: &str,
        dtype: DType,
        shape: &[u64],
        value: f32,
    ) -> Result<Variable> {
        let begin = Initializer::Constant(value);
        self.untrained(&ParamAttr::default(), base, dtype, shape, begin)
    }

    /// Adds a persistable variable that is not trained, like [`state`](Self::state), with a name and an initializer.
    ///
    /// # Errors
    /// Like [`parameter`](Self::parameter).
    pub fn untrained(
        &mut self,
        parameter: &ParamAttr,
        base: &str,
        dtype: DType,
        shape: &[u64],
        default: Initializer,
    ) -> Result<Variable> {
        let made = self.parameter(parameter, base, dtype, shape, default)?;
        for program in [&mut self.main, &mut self.startup] {
            let vars = program.blocks.iter_mut().flat_map(|block| &mut block.vars);
            for var in vars.filter(|var| var.name == made.name()) {
                var.is_parameter = false;
                set_stop_gradient(var, true);
            }
        }
        Ok(made)
    }

    /// Whether there is a variable of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Marks a variable as initialized in CPU memory, on any device: it is a counter.
    pub(crate) fn begin_on_processor(&mut self, var: &Variable) {
        let ops = self.startup.blocks.iter_mut().flat_map(|block| &mut block.ops);
        for op in ops.filter(|op| op.output("Out").iter().any(|name| name == var.name())) {
            let forced = op.attributes.iter_mut().filter(|it| it.name == "force_cpu");
            forced.for_each(|it| it.value = AttributeValue::Bool(true));
        }
    }

    /// Inserts an operator before all others of the main program. It may only use persistable variables.
    pub(crate) fn prepend(&mut self, operator: Operator) -> Result<()> {
        self.append(operator)?;
        let op = error::block_mut(&mut self.main, self.current)?.ops.pop();
        let op = op.ok_or_else(|| error::internal("an appended operator is missing"))?;
        error::block_mut(&mut self.main, 0)?.ops.insert(0, op);
        Ok(())
    }

    /// Appends an operator to the current block of the main program, and declares its outputs with the types that follow
    /// from its inputs.
    ///
    /// # Errors
    /// If PaddlePaddle does not have the operator, it rejects its inputs, or it writes a variable of another type.
    pub fn append(&mut self, operator: Operator) -> Result<()> {
        let op = operator.finish()?;
        for name in op.reads() {
            self.info(&Variable::named(name))?;
        }
        let wrong = |finding| Error::Operator { kind: op.kind.clone(), finding };
        let outputs = output_types(&op, self).map_err(wrong)?;
        for name in op.writes() {
            let has_type = outputs.iter().any(|(known, _)| known == name);
            if self.known.contains_key(name) {
                self.info(&Variable::named(name))?;
            } else if !has_type {
                let what = format!("the type of output `{name}` is unknown");
                return error::operator(&op.kind, what);
            }
        }
        let stops = op.reads().all(|name| self.stops(name));
        for (name, mut info) in outputs {
            if self.known.contains_key(&name) {
                self.rewrite(&name, &info, stops)?;
                continue;
            }
            if let Some(tensor) = info.value.tensor_type_mut() {
                tensor.lod_level = tensor.lod_level.max(self.level(&op, &name));
            }
            let stop_gradient = stops && info.value != Holder::StepScopes.into();
            let value = written(&info.value);
            let var = with_stop_gradient(Var { name, value, ..Var::default() }, stop_gradient);
            self.declare(self.current, var, info);
        }
        error::block_mut(&mut self.main, self.current)?.ops.push(op);
        Ok(())
    }

    /// Appends an operator to any block, like [`append`](Self::append).
    ///
    /// # Errors
    /// Like [`append`](Self::append); also if the block does not exist.
    pub fn append_to(&mut self, block: usize, operator: Operator) -> Result<()> {
        if block >= self.main.blocks.len() {
            return error::operator(operator.kind(), format!("the program has no block {block}"));
        }
        let current = std::mem::replace(&mut self.current, block);
        let appended = self.append(operator);
        self.current = current;
        appended
    }

    /// Handles a variable that is written again: its contents become unknown, and its type must stay.
    fn rewrite(&mut self, name: &str, found: &ValueInfo, stops: bool) -> Result<()> {
        let Some(known) = self.known.get_mut(name) else {
            return Err(error::internal("the type of an overwritten variable is unknown"));
        };
        known.info.contents = None;
        match merge(&mut known.info, found) {
            Ok(is_new) if is_new => self.redeclare(name)?,
            Ok(_) => {}
            Err(finding) => return variable(name, finding),
        }
        // A single member with a gradient is enough for an array.
        if found.value.is_array() && !stops {
            self.stop(name, false);
        }
        Ok(())
    }

    /// Sets whether gradients stop at a variable.
    pub(crate) fn stop(&mut self, name: &str, stops: bool) {
        let block = self.known.get(name).and_then(|known| self.main.blocks.get_mut(known.block));
        let mut vars = block.into_iter().flat_map(|block| block.vars.iter_mut().rev());
        if let Some(var) = vars.find(|var| var.name == name) {
            set_stop_gradient(var, stops);
        }
    }

    /// Whether gradients stop at a variable.
    pub(crate) fn stops(&self, name: &str) -> bool {
        let block = self.known.get(name).and_then(|known| self.main.blocks.get(known.block));
        let var = block.and_then(|block| block.vars.iter().rev().find(|var| var.name == name));
        var.is_some_and(stop_gradient)
    }

    /// Appends an operator with one relevant output; returns its variable.
    ///
    /// # Errors
    /// Like [`append`](Self::append).
    pub fn call(&mut self, base: &str, slot: &str, operator: Operator) -> Result<Variable> {
        let out = Variable(self.name(&format!("{base}.tmp")));
        self.append(operator.output(slot, [&out]))?;
        Ok(out)
    }

    /// Returns the number of LoD levels of an output: that of the input that it shares the LoD with, or what the operator
    /// computes; 0 if it has none.
    fn level(&self, op: &Op, name: &str) -> u32 {
        let of = |slot: &str| self.levels(op.input(slot).first()?);
        match operator(&op.kind).map(|row| &row.lod) {
            Some(LodRule::Shared(shared)) => {
                let writes = |operand: &&Operand| operand.args.iter().any(|it| it == name);
                let written = op.outputs.iter().find(writes);
                let source = written.and_then(|operand| shared.source(&operand.slot));
                // What shares with an absent input has none.
                source.and_then(|share| of(share.input)).unwrap_or(0)
            }
            Some(LodRule::Computed(levels)) => levels.count(of),
            Some(LodRule::Unknown) | None => 0,
        }
    }

    /// Returns the number of LoD levels of a variable.
    fn levels(&self, variable: &str) -> Option<u32> {
        let info = &self.known.get(variable)?.info;
        // What is no tensor has none.
        Some(info.value.tensor_type().map_or(0, |tensor| tensor.lod_level))
    }
}

impl VariableFacts for Network {
    /// Contents are only known in the variable's own block: a loop around other blocks may change them.
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        let known = self.known.get(variable)?;
        let contents = known.info.contents.clone().filter(|_| known.block == self.current);
        Some(ValueInfo { value: known.info.value.clone(), contents })
    }

    fn contents(&self, variable: &str) -> Option<Vec<i64>> {
        VariableFacts::info(self, variable)?.ints()
    }

    /// The number of levels is known while a program is built, their offsets are not.
    fn lod(&self, variable: &str) -> Vec<LodLevel> {
        let levels = self.levels(variable).into_iter().flat_map(|levels| 0..levels);
        levels.map(|_| LodLevel { value: None, count: Dim::Unknown }).collect()
    }
}

/// Appends an operator to the first block.
///
/// # Errors
/// If the program has no blocks.
pub(crate) fn push(program: &mut Program, op: Op) -> Result<()> {
    match program.blocks.first_mut() {
        Some(block) => block.ops.push(op),
        None => return error::operator(&op.kind, "the program has no blocks"),
    }
    Ok(())
}
