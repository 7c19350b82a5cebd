//! Two programs that belong together: one that computes, and one that its parameters begin with.

use std::collections::HashMap;

use lodstone_lowering::paddle::{Given, lower_op, native_outputs};
use lodstone_model::{
    AttributeValue, Block, DType, Dialect, Dim, Holder, Op, Program, Topology, Var,
};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{
    LodRule, operator, set_stop_gradient, stop_gradient, with_stop_gradient,
};

use crate::program::error::{self, Error, Result, variable};
use crate::program::initializers::Initializer;
use crate::program::known::{Known, forget, merge, written};
use crate::program::operator::Operator;

/// The release of PaddlePaddle whose conventions are followed: 2.6.2.
pub(crate) const RELEASE: i64 = 2_006_002;

/// A variable of a program, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variable(String);

impl Variable {
    /// The variable of a name.
    pub fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// A parameter that a layer is to have.
#[derive(Clone, Debug, Default)]
pub struct Parameter {
    /// Its name; one is made if there is none. A name that the network has already is that parameter again.
    pub name: Option<String>,
    /// How it begins; as is usual for the layer if nothing is said.
    pub initializer: Option<Initializer>,
}

/// A network under construction: the main program and the startup program.
#[derive(Clone, Debug)]
pub struct Network {
    /// What computes.
    pub main: Program,
    /// What fills the parameters of the main program: it is run once.
    pub startup: Program,
    /// Numbers of the names that were made, by what they begin with.
    names: HashMap<String, u64>,
    /// What is known of the variables of the main program.
    pub(crate) known: HashMap<String, Known>,
    /// The block that operators are appended to.
    pub(crate) current: usize,
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

impl Network {
    /// Nothing yet.
    pub fn new() -> Self {
        let empty = || {
            Program::from(Topology {
                version: Some(RELEASE),
                blocks: vec![Block { parent: -1, ..Block::default() }],
                ..Topology::new(Dialect::Paddle)
            })
        };
        let (names, known) = (HashMap::new(), HashMap::new());
        Self { main: empty(), startup: empty(), names, known, current: 0 }
    }

    /// A name that begins so, with the next number behind it: `fc_0`.
    pub fn name(&mut self, base: &str) -> String {
        let next = self.names.entry(base.to_owned()).or_default();
        let name = format!("{base}_{next}");
        *next += 1;
        name
    }

    /// What is known of a variable of the main program.
    ///
    /// # Errors
    /// If there is no such variable, or it belongs to a block that the current one does not lie in.
    pub fn info(&self, var: &Variable) -> Result<&ValueInfo> {
        match self.known.get(var.name()) {
            Some(known) if self.sees(self.current, known.block) => Ok(&known.info),
            Some(_) => variable(
                var.name(),
                "it is gone when its block has run; assign it to a variable from outside",
            ),
            None => variable(var.name(), "the network has no such variable"),
        }
    }

    /// Whether a block is another, or lies in it.
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

    /// Forgets extents of a variable: it may be written with others later, as what a loop makes longer is.
    ///
    /// # Errors
    /// If there is no such variable, or no such extent.
    pub fn vary(&mut self, var: &Variable, axes: &[usize]) -> Result<()> {
        let rank = self.shape(var)?.len();
        if let Some(axis) = axes.iter().find(|axis| **axis >= rank) {
            return variable(var.name(), format!("it has {rank} extents, and no {axis}"));
        }
        self.known.entry(var.name().to_owned()).and_modify(|known| forget(&mut known.info, axes));
        self.redeclare(var.name())
    }

    /// Declares a variable again as what is known of it now.
    fn redeclare(&mut self, name: &str) -> Result<()> {
        let known = self.known.get(name);
        let known = known.ok_or_else(|| error::internal("what is declared again is not known"))?;
        let block = error::block_mut(&mut self.main, known.block)?;
        let var = block.vars.iter_mut().find(|var| var.name == name);
        let var = var.ok_or_else(|| error::internal("what is declared again was not declared"))?;
        var.value = written(&known.info.value);
        Ok(())
    }

    /// The element type of a variable.
    ///
    /// # Errors
    /// If there is no such variable.
    pub fn dtype(&self, var: &Variable) -> Result<DType> {
        Ok(self.info(var)?.dtype())
    }

    /// The extents of a variable; `None` for those that are not known.
    ///
    /// # Errors
    /// If there is no such variable, or not even the number of its extents is known.
    pub fn shape(&self, var: &Variable) -> Result<Vec<Option<u64>>> {
        let known = |dim: &Dim| match dim {
            Dim::Known(extent) => Some(*extent),
            _ => None,
        };
        match self.info(var)?.shape() {
            Some(dims) => Ok(dims.iter().map(known).collect()),
            None => variable(var.name(), "the number of its extents is not known"),
        }
    }

    /// Declares a variable in a block of the main program.
    pub(crate) fn declare(&mut self, block: usize, var: Var, info: ValueInfo) -> Variable {
        let name = var.name.clone();
        self.known.insert(name.clone(), Known { info, block });
        match self.main.blocks.get_mut(block) {
            Some(block) => match block.vars.iter_mut().find(|known| known.name == name) {
                Some(known) => *known = var,
                None => block.vars.push(var),
            },
            // No program runs with a variable that no block declares.
            None => drop(lodstone_schema::Finding::internal(format!(
                "the network has no block {block}"
            ))),
        }
        Variable(name)
    }

    /// A parameter of the main program, which the startup program fills.
    ///
    /// # Errors
    /// If the network has another of its name.
    pub fn parameter(
        &mut self,
        parameter: &Parameter,
        base: &str,
        dtype: DType,
        shape: &[u64],
        otherwise: Initializer,
    ) -> Result<Variable> {
        let name = parameter.name.clone().unwrap_or_else(|| self.name(base));
        let dims: Vec<Dim> = shape.iter().map(|extent| Dim::Known(*extent)).collect();
        let info = ValueInfo::tensor(dtype, Some(dims));
        if let Some(known) = self.known.get(&name) {
            return match known.info == info {
                true => Ok(Variable(name)),
                false => variable(&name, "it is there already, and another"),
            };
        }
        let made = Variable(name.clone());
        let initializer = parameter.initializer.clone().unwrap_or(otherwise);
        let op = initializer.operator(&made, dtype, shape)?.output("Out", [&made]).finish()?;
        let var = Var {
            name,
            value: info.value.clone(),
            persistable: true,
            is_parameter: true,
            ..Var::default()
        };
        error::block_mut(&mut self.startup, 0)?.vars.push(var.clone());
        push(&mut self.startup, op)?;
        Ok(self.declare(0, var, info))
    }

    /// A variable that outlives runs and is not trained, filled with a number by the startup program: a statistic, a
    /// counter.
    ///
    /// # Errors
    /// As [`parameter`](Self::parameter).
    pub fn state(
        &mut self,
        base: &str,
        dtype: DType,
        shape: &[u64],
        value: f32,
    ) -> Result<Variable> {
        let begin = Initializer::Constant(value);
        self.kept(&Parameter::default(), base, dtype, shape, begin)
    }

    /// A parameter that is not trained.
    pub(crate) fn kept(
        &mut self,
        parameter: &Parameter,
        base: &str,
        dtype: DType,
        shape: &[u64],
        begin: Initializer,
    ) -> Result<Variable> {
        let made = self.parameter(parameter, base, dtype, shape, begin)?;
        for program in [&mut self.main, &mut self.startup] {
            let vars = program.blocks.iter_mut().flat_map(|block| &mut block.vars);
            for var in vars.filter(|var| var.name == made.name()) {
                var.is_parameter = false;
                set_stop_gradient(var, true);
            }
        }
        Ok(made)
    }

    /// Whether there is a variable of a name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Says that a variable begins in the memory of the processor, whatever computes: it is a counter.
    pub(crate) fn begin_on_processor(&mut self, var: &Variable) {
        let ops = self.startup.blocks.iter_mut().flat_map(|block| &mut block.ops);
        for op in ops.filter(|op| op.output("Out").iter().any(|name| name == var.name())) {
            let forced = op.attributes.iter_mut().filter(|it| it.name == "force_cpu");
            forced.for_each(|it| it.value = AttributeValue::Bool(true));
        }
    }

    /// Puts an operator before all others of the main program. It may read and write what persists alone.
    pub(crate) fn prepend(&mut self, operator: Operator) -> Result<()> {
        self.append(operator)?;
        let op = error::block_mut(&mut self.main, self.current)?.ops.pop();
        let op = op.ok_or_else(|| error::internal("an operator that was appended is not there"))?;
        error::block_mut(&mut self.main, 0)?.ops.insert(0, op);
        Ok(())
    }

    /// Appends an operator to the current block of the main program, and declares what it writes: its outputs
    /// get the types that come of what it reads.
    ///
    /// # Errors
    /// If PaddlePaddle has no such operator, it cannot take what it is given, or it writes a variable that is of
    /// another type.
    pub fn append(&mut self, operator: Operator) -> Result<()> {
        let op = operator.finish()?;
        for name in op.reads() {
            self.info(&Variable::named(name))?;
        }
        let told = self.outputs(&op)?;
        for name in op.writes() {
            let is_told = told.iter().any(|(known, _)| known == name);
            if self.known.contains_key(name) {
                self.info(&Variable::named(name))?;
            } else if !is_told {
                let what = format!("nothing tells the type of `{name}`, which it writes");
                return error::operator(&op.kind, what);
            }
        }
        let stops = op.reads().all(|name| self.stops(name));
        for (name, mut info) in told {
            if self.known.contains_key(&name) {
                self.rewrite(&name, &info, stops)?;
                continue;
            }
            if let Some(tensor) = info.value.tensor_type_mut() {
                tensor.lod_level = tensor.lod_level.max(self.shared_level(&op, &name));
            }
            let stop_gradient = stops && info.value != Holder::StepScopes.into();
            let value = written(&info.value);
            let var = with_stop_gradient(Var { name, value, ..Var::default() }, stop_gradient);
            self.declare(self.current, var, info);
        }
        error::block_mut(&mut self.main, self.current)?.ops.push(op);
        Ok(())
    }

    /// A variable is written again: nothing is known of its elements any more, and its type stays.
    fn rewrite(&mut self, name: &str, told: &ValueInfo, stops: bool) -> Result<()> {
        let Some(known) = self.known.get_mut(name) else {
            return Err(error::internal("what is written again is not known"));
        };
        known.info.contents = None;
        match merge(&mut known.info, told) {
            Ok(is_new) if is_new => self.redeclare(name)?,
            Ok(_) => {}
            Err(finding) => return variable(name, finding),
        }
        // One member with a gradient is enough for an array.
        if told.value.is_array() && !stops {
            self.stop(name, false);
        }
        Ok(())
    }

    /// Says whether gradients end at a variable.
    pub(crate) fn stop(&mut self, name: &str, stops: bool) {
        let block = self.known.get(name).and_then(|known| self.main.blocks.get_mut(known.block));
        let vars = block.into_iter().flat_map(|block| &mut block.vars);
        vars.filter(|var| var.name == name).for_each(|var| set_stop_gradient(var, stops));
    }

    /// Whether gradients end at a variable.
    pub(crate) fn stops(&self, name: &str) -> bool {
        let block = self.known.get(name).and_then(|known| self.main.blocks.get(known.block));
        let var = block.and_then(|block| block.vars.iter().find(|var| var.name == name));
        var.is_some_and(stop_gradient)
    }

    /// Appends an operator with one output that matters; gives that.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn call(&mut self, base: &str, slot: &str, operator: Operator) -> Result<Variable> {
        let out = Variable(self.name(&format!("{base}.tmp")));
        self.append(operator.output(slot, [&out]))?;
        Ok(out)
    }

    /// The number of LoD levels that a variable shares with one that its operator reads; 0 if it shares none.
    fn shared_level(&self, op: &Op, name: &str) -> u32 {
        let level = || {
            let LodRule::Shared(shared) = &operator(&op.kind)?.lod else { return None };
            let written =
                op.outputs.iter().find(|operand| operand.args.iter().any(|it| it == name))?;
            let source = op.input(shared.source(&written.slot)?.input).first()?;
            Some(self.known.get(source)?.info.value.tensor_type()?.lod_level)
        };
        level().unwrap_or(0)
    }

    fn outputs(&self, op: &Op) -> Result<Vec<(String, ValueInfo)>> {
        let wrong = |finding| Error::Operator { kind: op.kind.clone(), finding };
        if let Some(told) = native_outputs(op, self) {
            return told.map_err(wrong);
        }
        let lowered = lower_op(op, RELEASE, self).map_err(wrong)?;
        Ok(lowered.outputs.into_iter().map(|output| (output.variable, output.info)).collect())
    }
}

impl Given for Network {
    /// What it contains is told in its own block alone: a loop around others may change it.
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        let known = self.known.get(variable)?;
        let contents = known.info.contents.clone().filter(|_| known.block == self.current);
        Some(ValueInfo { value: known.info.value.clone(), contents })
    }

    fn contents(&self, variable: &str) -> Option<Vec<i64>> {
        Given::info(self, variable)?.ints()
    }
}

/// Appends an operator to the first block.
///
/// # Errors
/// If there is none.
pub(crate) fn push(program: &mut Program, op: Op) -> Result<()> {
    match program.blocks.first_mut() {
        Some(block) => block.ops.push(op),
        None => return error::operator(&op.kind, "the program has no block to append it to"),
    }
    Ok(())
}
