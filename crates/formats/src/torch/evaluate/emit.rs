//! Operators of the program.

use std::rc::Rc;

use lodstone_model::{
    Attribute, AttributeValue, DType, Nested, Op, Operand, TensorType, ValueType, Var,
};
use lodstone_schema::torch::{Operator, set_scope};

use super::evaluator::{Evaluator, Outcome};
use super::value::{Place, Type, Value};

/// An argument of an operator.
pub(super) enum Argument {
    Constant(AttributeValue),
    /// Variables of the program.
    Values(Vec<String>),
}

impl Type {
    pub(super) fn dtype(self) -> DType {
        match self {
            Self::Bool => DType::Bool,
            Self::Int => DType::Int64,
            Self::Float => DType::Float64,
        }
    }
}

impl Evaluator<'_> {
    /// Sets the base of the names of results; returns the one before.
    pub(super) fn base(&mut self, base: Option<&str>) -> Option<String> {
        std::mem::replace(&mut self.own_base, base.map(str::to_owned))
    }

    /// Returns a name that no variable has.
    pub(super) fn fresh(&mut self, base: &str) -> Rc<str> {
        let base = if base.is_empty() { "value" } else { base };
        loop {
            let uses = self.names.entry(base.to_owned()).or_default();
            let name = match *uses {
                0 => base.to_owned(),
                uses => format!("{base}.{uses}"),
            };
            *uses += 1;
            let is_new = name == base || !self.names.contains_key(&name);
            if is_new && !(self.code.has)(&name) {
                return Rc::from(name);
            }
        }
    }

    /// Declares a variable: a number of a type, or a tensor.
    pub(super) fn declare(&mut self, base: &str, scalar: Option<Type>) -> Rc<str> {
        let name = self.fresh(base);
        self.declare_as(&name, scalar);
        name
    }

    /// Declares a variable that has a name.
    pub(super) fn declare_as(&mut self, name: &str, scalar: Option<Type>) {
        let value = match scalar {
            Some(scalar) => ValueType::Scalar(scalar.dtype()),
            None => TensorType::new(DType::Unspecified, None).into(),
        };
        if let Some(block) = self.open.last_mut() {
            block.vars.push(Var { name: name.to_owned(), value, ..Var::default() });
        }
    }

    /// Adds an operator to the innermost block.
    pub(super) fn add(&mut self, mut op: Op) -> Outcome<Place> {
        set_scope(&mut op, &self.module);
        self.charge_op(&op)?;
        let Some(block) = self.open.last_mut() else {
            return Err(self.failure("no block is open"));
        };
        let place = Place { block: block.index, index: block.ops.len() };
        block.ops.push(op);
        Ok(place)
    }

    /// Adds an operator without a schema, with one result.
    pub(super) fn simple(
        &mut self,
        kind: &str,
        arguments: Vec<(String, Argument)>,
        scalar: Option<Type>,
    ) -> Outcome {
        let base = self.own_base.clone().unwrap_or_default();
        let name = self.declare(&base, scalar);
        let mut op = operator(kind, &name, arguments);
        op.outputs.push(Operand { slot: "0".to_owned(), args: vec![name.to_string()] });
        self.add(op)?;
        Ok(match scalar {
            Some(scalar) => Value::Number(name, scalar),
            None => Value::Tensor(name),
        })
    }

    /// Adds an operator of a schema; returns its results.
    pub(super) fn emit(
        &mut self,
        schema: &'static Operator,
        arguments: Vec<(String, Argument)>,
        known: Option<usize>,
    ) -> Outcome {
        let kind = match schema.overload {
            "" => schema.name.to_owned(),
            overload => format!("{}.{overload}", schema.name),
        };
        let base = self.own_base.clone().unwrap_or_default();
        let mut op = operator(&kind, &base, arguments);
        let mut results = Vec::new();
        let mut open = Vec::new();
        for (position, result) in schema.results.iter().enumerate() {
            let slot =
                if result.name.is_empty() { position.to_string() } else { result.name.to_owned() };
            let scalar = match result.kind.as_str() {
                "int" | "SymInt" => Some(Type::Int),
                "float" => Some(Type::Float),
                "bool" => Some(Type::Bool),
                "Tensor" | "Scalar" | "t(*)" => None,
                "Tensor[]" => {
                    // Results whose number is not known are declared when they are used.
                    let count = known.unwrap_or(0);
                    self.charge_results(count)?;
                    let names: Vec<Rc<str>> =
                        (0..count).map(|_| self.declare(&base, None)).collect();
                    let args = names.iter().map(ToString::to_string).collect();
                    op.outputs.push(Operand { slot, args });
                    if known.is_some() {
                        let items = names.into_iter().map(Value::Tensor).collect();
                        results.push(self.list(items)?);
                    } else {
                        open.push((results.len(), position));
                        results.push(Value::None);
                    }
                    continue;
                }
                other => {
                    return Err(
                        self.failure(format!("`{kind}` returns `{other}`, which is not supported"))
                    );
                }
            };
            let name = self.declare(&base, scalar);
            op.outputs.push(Operand { slot, args: vec![name.to_string()] });
            results.push(match scalar {
                Some(scalar) => Value::Number(name, scalar),
                None => Value::Tensor(name),
            });
        }
        if op.name.is_empty() {
            let first = op.writes().next().unwrap_or_default().to_owned();
            op.name = first;
        }
        let place = self.add(op)?;
        for (at, slot) in open {
            if let Some(result) = results.get_mut(at) {
                *result = Value::Results(place, slot);
            }
        }
        Ok(match results.len() {
            0 => Value::None,
            1 => results.pop().unwrap_or(Value::None),
            _ => Value::Tuple(results.into()),
        })
    }

    /// Returns the first results of an operator whose number of results is not known.
    pub(super) fn grow(&mut self, place: Place, slot: usize, count: usize) -> Outcome<Vec<Value>> {
        self.count(count)?;
        let at = self.open.iter().position(|block| block.index == place.block);
        let lost = "a list of an operator in a block that is complete";
        let at = at.ok_or_else(|| self.failure(lost))?;
        let names = |evaluator: &Self| {
            let op = evaluator.open.get(at)?.ops.get(place.index)?;
            Some(op.outputs.get(slot)?.args.clone())
        };
        let mut all = names(self).ok_or_else(|| self.failure(lost))?;
        let base =
            all.first().cloned().unwrap_or_else(|| self.own_base.clone().unwrap_or_default());
        while all.len() < count {
            let name = self.fresh(&base).to_string();
            let value = TensorType::new(DType::Unspecified, None).into();
            if let Some(block) = self.open.get_mut(at) {
                block.vars.push(Var { name: name.clone(), value, ..Var::default() });
            }
            all.push(name);
        }
        let op = self.open.get_mut(at).and_then(|block| block.ops.get_mut(place.index));
        if let Some(op) = op {
            if let Some(output) = op.outputs.get_mut(slot) {
                output.args.clone_from(&all);
            }
            if op.name.is_empty() {
                op.name = all.first().cloned().unwrap_or_default();
            }
        }
        Ok(all.into_iter().take(count).map(|name| Value::Tensor(Rc::from(name))).collect())
    }

    /// Returns a size of a tensor.
    pub(super) fn size(&mut self, tensor: &str, axis: i64) -> Outcome {
        let arguments = vec![
            ("self".to_owned(), Argument::Values(vec![tensor.to_owned()])),
            ("dim".to_owned(), Argument::Constant(AttributeValue::Long(axis))),
        ];
        self.simple("aten::sym_size.int", arguments, Some(Type::Int))
    }

    /// Returns a variable with a value: constants are made by an operator.
    pub(super) fn variable(&mut self, value: &Value) -> Outcome<Rc<str>> {
        let (constant, scalar) = match value {
            Value::Tensor(name) | Value::Number(name, _) | Value::Sequence(name) => {
                return Ok(Rc::clone(name));
            }
            Value::Bool(value) => (AttributeValue::Bool(*value), Type::Bool),
            Value::Int(value) => (AttributeValue::Long(*value), Type::Int),
            Value::Float(value) => (AttributeValue::Double(*value), Type::Float),
            other => return Err(self.failure(format!("a {} is no variable", other.kind()))),
        };
        let arguments = vec![("value".to_owned(), Argument::Constant(constant))];
        match self.simple("prim::Constant", arguments, Some(scalar))? {
            Value::Number(name, _) | Value::Tensor(name) => Ok(name),
            _ => Err(self.failure("a constant was lost")),
        }
    }

    /// Makes a list of tensors that the program computes.
    pub(super) fn sequence(
        &mut self,
        kind: &str,
        arguments: Vec<(String, Argument)>,
    ) -> Outcome<Rc<str>> {
        let name = self.fresh("list");
        self.declare_sequence(&name);
        let mut op = operator(kind, &name, arguments);
        op.outputs.push(Operand { slot: "0".to_owned(), args: vec![name.to_string()] });
        self.add(op)?;
        Ok(name)
    }

    /// Declares a list of tensors that has a name.
    pub(super) fn declare_sequence(&mut self, name: &str) {
        let tensor: ValueType = TensorType::new(DType::Unspecified, None).into();
        let value = Nested::new(tensor).map_or(ValueType::Unspecified, ValueType::List);
        if let Some(block) = self.open.last_mut() {
            block.vars.push(Var { name: name.to_owned(), value, ..Var::default() });
        }
    }

    /// Names a result of the program.
    pub(super) fn output(&mut self, value: &Value, name: &str) -> Outcome<String> {
        let variable = self.variable(value)?;
        let scalar = match value {
            Value::Number(_, scalar) => Some(*scalar),
            Value::Bool(_) => Some(Type::Bool),
            Value::Int(_) => Some(Type::Int),
            Value::Float(_) => Some(Type::Float),
            _ => None,
        };
        let own = self.base(Some(name));
        let arguments = vec![("self".to_owned(), Argument::Values(vec![variable.to_string()]))];
        let kind = if scalar.is_some() { "_operator::pos" } else { "aten::alias" };
        let made = self.simple(kind, arguments, scalar)?;
        self.base(own.as_deref());
        match made {
            Value::Tensor(name) | Value::Number(name, _) => Ok(name.to_string()),
            _ => Err(self.failure("an output was lost")),
        }
    }

    /// Assigns a tensor to an attribute, which gets its type and dims, too.
    pub(super) fn emit_assignment(&mut self, target: &str, source: &str) {
        let arguments = vec![
            ("self".to_owned(), Argument::Values(vec![target.to_owned()])),
            ("value".to_owned(), Argument::Values(vec![source.to_owned()])),
        ];
        let op = operator("prim::SetAttr", target, arguments);
        if let Some(block) = self.open.last_mut() {
            block.ops.push(op);
        }
    }
}

pub(super) fn operator(kind: &str, name: &str, arguments: Vec<(String, Argument)>) -> Op {
    let mut op = Op { kind: kind.to_owned(), name: name.to_owned(), ..Op::default() };
    for (slot, argument) in arguments {
        match argument {
            Argument::Constant(value) => op.attributes.push(Attribute { name: slot, value }),
            Argument::Values(args) => op.inputs.push(Operand { slot, args }),
        }
    }
    op
}
