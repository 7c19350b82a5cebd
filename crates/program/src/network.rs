//! Two programs that belong together: one that computes, and one that its parameters begin with.

use std::collections::HashMap;

use lodstone_lowering::paddle::{Given, lod_source, lower_op, native_outputs};
use lodstone_model::{
    Block, DType, Dialect, Dim, Op, Program, TensorType, ValueType, Var, VarKind,
};
use lodstone_schema::onnx::infer::ValueInfo;

use crate::error::{Error, Result, variable};
use crate::initializers::Initializer;
use crate::operator::Operator;

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
    known: HashMap<String, ValueInfo>,
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

impl Network {
    /// Nothing yet.
    pub fn new() -> Self {
        let empty = || Program {
            dialect: Dialect::Paddle,
            version: Some(RELEASE),
            blocks: vec![Block { parent: -1, ..Block::default() }],
            ..Program::default()
        };
        Self { main: empty(), startup: empty(), names: HashMap::new(), known: HashMap::new() }
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
    /// If there is no such variable.
    pub fn info(&self, var: &Variable) -> Result<&ValueInfo> {
        match self.known.get(var.name()) {
            Some(info) => Ok(info),
            None => variable(var.name(), "the network has no such variable"),
        }
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

    /// Declares a variable of the main program.
    pub(crate) fn declare(&mut self, var: Var, info: ValueInfo) -> Variable {
        let name = var.name.clone();
        self.known.insert(name.clone(), info);
        if let Some(block) = self.main.blocks.first_mut() {
            match block.vars.iter_mut().find(|known| known.name == name) {
                Some(known) => *known = var,
                None => block.vars.push(var),
            }
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
            return match *known == info {
                true => Ok(Variable(name)),
                false => variable(&name, "it is there already, and another"),
            };
        }
        let var = Var {
            name,
            value: info.value.clone(),
            persistable: true,
            is_parameter: true,
            ..Var::default()
        };
        if let Some(block) = self.startup.blocks.first_mut() {
            block.vars.push(var.clone());
        }
        let made = self.declare(var, info);
        let initializer = parameter.initializer.unwrap_or(otherwise);
        let op = initializer.operator(dtype, shape).output("Out", [&made]).finish()?;
        push(&mut self.startup, op);
        Ok(made)
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
        let made = self.parameter(
            &Parameter::default(),
            base,
            dtype,
            shape,
            Initializer::Constant(value),
        )?;
        for program in [&mut self.main, &mut self.startup] {
            let vars = program.blocks.iter_mut().flat_map(|block| &mut block.vars);
            for var in vars.filter(|var| var.name == made.name()) {
                (var.is_parameter, var.stop_gradient) = (false, true);
            }
        }
        Ok(made)
    }

    /// Appends an operator to the main program, and declares what it writes: its outputs get the types that
    /// come of what it reads.
    ///
    /// # Errors
    /// If PaddlePaddle has no such operator, or it cannot take what it is given.
    pub fn append(&mut self, operator: Operator) -> Result<()> {
        let op = operator.finish()?;
        let told = self.outputs(&op)?;
        for name in op.writes() {
            let is_told = told.iter().any(|(known, _)| known == name);
            if !is_told && !self.known.contains_key(name) {
                let what = format!("nothing tells the type of `{name}`, which it writes");
                return Err(Error::Operator { kind: op.kind.clone(), what });
            }
        }
        let level = lod_source(&op).and_then(|slot| op.input(slot).first());
        let level = level.and_then(|name| self.level(name)).unwrap_or(0);
        for (name, mut info) in told {
            if self.known.contains_key(&name) {
                continue;
            }
            if let Some(tensor) = info.value.tensors.first_mut() {
                tensor.lod_level = level;
            }
            let var = Var { name, value: written(&info.value), ..Var::default() };
            self.declare(var, info);
        }
        push(&mut self.main, op);
        Ok(())
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

    fn level(&self, name: &str) -> Option<u32> {
        Some(self.known.get(name)?.value.tensors.first()?.lod_level)
    }

    fn outputs(&self, op: &Op) -> Result<Vec<(String, ValueInfo)>> {
        let wrong = |what: String| Error::Operator { kind: op.kind.clone(), what };
        if let Some(told) = native_outputs(op, self) {
            return told.map_err(wrong);
        }
        let lowered = lower_op(op, RELEASE, self).map_err(wrong)?;
        Ok(lowered.outputs.into_iter().map(|output| (output.variable, output.info)).collect())
    }
}

impl Given for Network {
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        self.known.get(variable).cloned()
    }

    fn contents(&self, variable: &str) -> Option<Vec<i64>> {
        self.known.get(variable)?.ints()
    }
}

/// A type as programs have it: symbols are extents that are not known.
fn written(value: &ValueType) -> ValueType {
    let plain = |tensor: &TensorType| TensorType {
        shape: tensor.shape.as_ref().map(|dims| {
            let dim = |dim: &Dim| match dim {
                Dim::Known(extent) => Dim::Known(*extent),
                _ => Dim::Unknown,
            };
            dims.iter().map(dim).collect()
        }),
        ..tensor.clone()
    };
    let kind = if value.kind == VarKind::Unspecified { VarKind::Tensor } else { value.kind };
    ValueType { kind, tensors: value.tensors.iter().map(plain).collect(), ..value.clone() }
}

pub(crate) fn push(program: &mut Program, op: Op) {
    if let Some(block) = program.blocks.first_mut() {
        block.ops.push(op);
    }
}
