//! What a call refers to: an operator, a function, a method, a class, or a part of the language.

use std::collections::BTreeMap;
use std::rc::Rc;

use lodstone_model::AttributeValue;
use lodstone_schema::numbers::length;
use lodstone_schema::torch::Operator;

use super::control::type_name;
use super::emit::Argument;
use super::evaluator::{Evaluator, Outcome};
use super::value::{Callable, Cell, Scope, Type, Value};
use crate::torch::code::{Expression, Kind};

/// Operators without an effect on values: checks, warnings and queries of the state of PyTorch.
const WITHOUT_EFFECT: &[&str] = &[
    "aten::_assert_async",
    "aten::_assert_scalar",
    "aten::_assert_tensor_metadata",
    "aten::set_grad_enabled",
    "aten::warn",
    "aten::warnings",
    "prim::Print",
    "prim::PythonOp",
    "profiler::_record_function_enter",
    "profiler::_record_function_exit",
];

/// Operators that return constants when a program runs by itself.
const FIXED: &[(&str, Value)] = &[
    ("aten::is_autocast_cpu_enabled", Value::Bool(false)),
    ("aten::is_autocast_enabled", Value::Bool(false)),
    ("aten::is_grad_enabled", Value::Bool(false)),
    ("aten::is_scripting", Value::Bool(true)),
    ("aten::requires_grad", Value::Bool(false)),
    ("prim::is_cpu", Value::Bool(true)),
    ("prim::is_cuda", Value::Bool(false)),
    ("prim::is_meta", Value::Bool(false)),
    ("prim::is_mkldnn", Value::Bool(false)),
    ("prim::is_mps", Value::Bool(false)),
    ("prim::is_nested", Value::Bool(false)),
    ("prim::is_quantized", Value::Bool(false)),
    ("prim::is_sparse", Value::Bool(false)),
    ("prim::layout", Value::Int(0)),
    ("prim::requires_grad", Value::Bool(false)),
];

/// Functions of numbers that the program computes, and the operator of each.
const OF_NUMBERS: &[(&str, &str, Option<Type>)] = &[
    ("aten::Float", "torch::sym_float", Some(Type::Float)),
    ("aten::Int", "torch::sym_int", Some(Type::Int)),
    ("aten::__and__", "_operator::and_", Some(Type::Bool)),
    ("aten::__not__", "torch::sym_not", Some(Type::Bool)),
    ("aten::__or__", "_operator::or_", Some(Type::Bool)),
    ("aten::add", "_operator::add", None),
    ("aten::ceil", "math::ceil", Some(Type::Int)),
    ("aten::div", "_operator::truediv", Some(Type::Float)),
    ("aten::eq", "_operator::eq", Some(Type::Bool)),
    ("aten::floor", "math::floor", Some(Type::Int)),
    ("aten::floordiv", "_operator::floordiv", None),
    ("aten::ge", "_operator::ge", Some(Type::Bool)),
    ("aten::gt", "_operator::gt", Some(Type::Bool)),
    ("aten::le", "_operator::le", Some(Type::Bool)),
    ("aten::lt", "_operator::lt", Some(Type::Bool)),
    ("aten::mul", "_operator::mul", None),
    ("aten::ne", "_operator::ne", Some(Type::Bool)),
    ("aten::neg", "_operator::neg", None),
    ("aten::pow", "_operator::pow", None),
    ("aten::remainder", "_operator::mod", None),
    ("aten::sqrt", "torch::_sym_sqrt", Some(Type::Float)),
    ("aten::sub", "_operator::sub", None),
    ("prim::max", "torch::sym_max", None),
    ("prim::min", "torch::sym_min", None),
];

impl Evaluator<'_> {
    pub(super) fn call(
        &mut self,
        callee: &Expression,
        arguments: &[Expression],
        named: &[(String, Expression)],
        scope: &mut Scope,
    ) -> Outcome {
        if self.raised.is_some() {
            return Ok(Value::Unset);
        }
        let path = callee.path().filter(|path| {
            let first = path.split('.').next().unwrap_or_default();
            !scope.contains_key(first)
        });
        if let Some(name) = &path
            && let Some(value) = self.form(name, arguments, scope)?
        {
            return Ok(value);
        }
        let own = self.base(None);
        let values = self.expressions(arguments, scope)?;
        let mut by_name = Vec::new();
        for (name, value) in named {
            by_name.push((name.clone(), self.expression(value, scope)?));
        }
        if self.raised.is_some() {
            return Ok(Value::Unset);
        }
        if let Some(path) = &path {
            if let Some(name) = path.strip_prefix("torch.") {
                self.base(own.as_deref());
                return self.operator(&format!("aten::{name}"), values, by_name);
            }
            if let Some((namespace, name)) =
                path.strip_prefix("ops.").and_then(|rest| rest.split_once('.'))
            {
                self.base(own.as_deref());
                return self.operator(&format!("{namespace}::{name}"), values, by_name);
            }
            if let Some(value) = self.named(path)? {
                return self.called(&value, values, by_name);
            }
            if let Some(class) = path.strip_suffix(".__new__") {
                let class = Rc::from(class);
                return self.allocate(Cell::Instance(class, BTreeMap::new())).map(Value::Instance);
            }
            return Err(self.failure(format!("`{path}` is unknown")));
        }
        match &callee.kind {
            Kind::Attribute(object, method) => {
                let object = self.expression(object, scope)?;
                self.method_call(&object, method, values, by_name)
            }
            _ => {
                let value = self.expression(callee, scope)?;
                self.called(&value, values, by_name)
            }
        }
    }

    /// Calls a value.
    fn called(
        &mut self,
        callee: &Value,
        arguments: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Outcome {
        match callee {
            Value::Function(callable) => {
                let callable = Rc::clone(callable);
                self.enter(&callable, arguments, named)
            }
            Value::Class(name) => self.created(name, arguments, named),
            Value::Object(_) | Value::Instance(_) => {
                self.method_call(callee, "forward", arguments, named)
            }
            other => Err(self.failure(format!("a {} is called", other.kind()))),
        }
    }

    /// Creates an instance of a class: of a named tuple by its fields.
    fn created(
        &mut self,
        name: &Rc<str>,
        arguments: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Outcome {
        let fields: Vec<String> = match self.class(name) {
            Some(class) if class.base == "NamedTuple" => {
                class.attributes.iter().map(|(name, _)| name.clone()).collect()
            }
            _ => return Err(self.failure(format!("instances of `{name}` are created by a call"))),
        };
        let mut values = BTreeMap::new();
        let mut arguments = arguments.into_iter();
        for field in fields {
            let given = named.iter().find(|(name, _)| *name == field);
            let value = given.map(|(_, value)| value.clone()).or_else(|| arguments.next());
            let Some(value) = value else {
                return Err(self.failure(format!("`{name}` is created without `{field}`")));
            };
            values.insert(field, value);
        }
        self.allocate(Cell::Instance(Rc::clone(name), values)).map(Value::Instance)
    }

    fn method_call(
        &mut self,
        object: &Value,
        method: &str,
        arguments: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Outcome {
        let class = match object {
            Value::Object(stored) => Rc::clone(&stored.class),
            Value::Instance(place) => match self.heap.get(*place) {
                Some(Cell::Instance(class, _)) => Rc::clone(class),
                _ => return Err(self.failure("an object was lost")),
            },
            Value::Unset => return Ok(Value::Unset),
            Value::Class(class) if method == "__new__" => {
                let class = Rc::clone(class);
                return self.allocate(Cell::Instance(class, BTreeMap::new())).map(Value::Instance);
            }
            // Methods of tensors and strings are operators.
            _ => {
                let mut all = vec![object.clone()];
                all.extend(arguments);
                return self.operator(&format!("aten::{method}"), all, named);
            }
        };
        let Some((name, function)) = self.method(&class, method) else {
            return Err(self.failure(format!("the class `{class}` has no method `{method}`")));
        };
        let callable = Callable { name, function, scope: Scope::new() };
        let mut all = vec![object.clone()];
        all.extend(arguments);
        let Value::Object(stored) = object else { return self.enter(&callable, all, named) };
        let outer = std::mem::replace(&mut self.module, stored.path.clone());
        let entered = self.enter(&callable, all, named);
        self.module = outer;
        entered
    }

    /// Evaluates forms of the language that look like calls.
    fn form(
        &mut self,
        name: &str,
        arguments: &[Expression],
        scope: &mut Scope,
    ) -> Outcome<Option<Value>> {
        let value = match (name, arguments) {
            ("annotate" | "unchecked_cast", [_, value]) => self.expression(value, scope)?,
            ("uninitialized", _) => Value::Unset,
            ("isinstance", [value, kinds]) => {
                let value = self.expression(value, scope)?;
                return self.is_instance(&value, kinds).map(Some);
            }
            ("getattr", [object, name]) => {
                let object = self.expression(object, scope)?;
                match &name.kind {
                    Kind::String(name) => self.attribute(&object, name)?,
                    _ => return Err(self.failure("the name of an attribute must be a string")),
                }
            }
            ("hasattr", [object, name]) => {
                let object = self.expression(object, scope)?;
                let Kind::String(name) = &name.kind else { return Ok(None) };
                Value::Bool(self.attribute(&object, name).is_ok())
            }
            ("fork" | "awaitable", [function, rest @ ..]) => {
                let function = self.expression(function, scope)?;
                let rest = self.expressions(rest, scope)?;
                self.called(&function, rest, Vec::new())?
            }
            ("torch.wait" | "ops.prim.awaitable_wait", [value]) => self.expression(value, scope)?,
            ("print", _) => Value::None,
            ("int" | "float" | "bool" | "str", [value]) => {
                let value = self.expression(value, scope)?;
                let name = match name {
                    "int" => "aten::Int",
                    "float" => "aten::Float",
                    "bool" => "aten::Bool",
                    _ => "aten::str",
                };
                self.operator(name, vec![value], Vec::new())?
            }
            ("ops.prim.RaiseException", [message, ..]) => {
                let message = self.expression(message, scope)?;
                let text = match message {
                    Value::Text(text) => text.to_string(),
                    _ => "an exception".to_owned(),
                };
                self.raised = Some(text);
                Value::None
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    fn is_instance(&mut self, value: &Value, kinds: &Expression) -> Outcome {
        let all = match &kinds.kind {
            Kind::Tuple(all) => all.as_slice(),
            _ => std::slice::from_ref(kinds),
        };
        let own = match value {
            Value::Object(stored) => stored.class.to_string(),
            Value::Instance(place) => match self.heap.get(*place) {
                Some(Cell::Instance(class, _)) => class.to_string(),
                _ => String::new(),
            },
            Value::None => "NoneType".to_owned(),
            Value::Sizes(_) | Value::Results(..) => "List".to_owned(),
            Value::Member(class, ..) => class.to_string(),
            other => other.kind().to_owned(),
        };
        let is_own = all.iter().filter_map(type_name).any(|name| name == own || name == "Any");
        Ok(Value::Bool(is_own))
    }

    /// Applies an operator.
    pub(super) fn operator(
        &mut self,
        name: &str,
        values: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Outcome {
        if values.iter().any(|value| matches!(value, Value::Unset)) && self.raised.is_some() {
            return Ok(Value::Unset);
        }
        if WITHOUT_EFFECT.contains(&name) {
            return Ok(Value::None);
        }
        if let Some((_, value)) = FIXED.iter().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        if let Some(value) = self.on_constants(name, &values, &named)? {
            return Ok(value);
        }
        if self.raised.is_some() {
            return Ok(Value::Unset);
        }
        if let Some(value) = self.of_numbers(name, &values)? {
            return Ok(value);
        }
        if let Some(value) = self.on_quantized(name, &values, &named)? {
            return Ok(value);
        }
        if let Some(value) = self.query(name, &values)? {
            return Ok(value);
        }
        self.on_floats(name, values, named)
    }

    /// Applies an operator to tensors that are not quantized.
    pub(super) fn on_floats(
        &mut self,
        name: &str,
        values: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Outcome {
        let name = match name {
            "aten::item" | "prim::ImplicitTensorToNum" => {
                let first = values.first().cloned().unwrap_or(Value::None);
                return self.number_of(&first, Type::Float);
            }
            name => name,
        };
        if let ("aten::tensor" | "aten::as_tensor", [data]) = (name, values.as_slice())
            && !matches!(data, Value::Tensor(_))
        {
            return self.tensor_of(&data.clone(), &named);
        }
        let (schema, matched) = self.resolve(name, &values, &named)?;
        let known = self.result_count(schema, &values, &named);
        let mut bound = self.bound(schema, matched)?;
        if let Some(upgraded) = self.upgraded(schema, &mut bound)? {
            return match values.first() {
                Some(target) if schema.name.ends_with('_') => {
                    self.operator("aten::copy_", vec![target.clone(), upgraded], Vec::new())
                }
                _ => Ok(upgraded),
            };
        }
        self.emit(schema, bound, known)
    }

    /// Applies a function of numbers, some of which the program computes.
    pub(super) fn of_numbers(&mut self, name: &str, values: &[Value]) -> Outcome<Option<Value>> {
        match (name, values) {
            // The number of repetitions, rounded up: -((low - high) // step).
            ("aten::__range_length", [low, high, step]) if step.int() != Some(0) => {
                let span = self.arithmetic("aten::sub", &[low.clone(), high.clone()])?;
                let count = self.arithmetic("aten::floordiv", &[span, step.clone()])?;
                let count = self.arithmetic("aten::neg", &[count])?;
                return self.arithmetic("prim::max", &[count, Value::Int(0)]).map(Some);
            }
            ("aten::__derive_index", [index, start, step]) => {
                let distance = self.arithmetic("aten::mul", &[index.clone(), step.clone()])?;
                return self.arithmetic("aten::add", &[distance, start.clone()]).map(Some);
            }
            _ => {}
        }
        let Some((_, kind, scalar)) = OF_NUMBERS.iter().find(|(known, ..)| *known == name) else {
            return Ok(None);
        };
        let is_number = |value: &Value| {
            matches!(value, Value::Number(..) | Value::Int(_) | Value::Float(_) | Value::Bool(_))
        };
        if values.is_empty() || values.len() > 2 || !values.iter().all(is_number) {
            return Ok(None);
        }
        let is_float = values
            .iter()
            .any(|value| matches!(value, Value::Float(_) | Value::Number(_, Type::Float)));
        let scalar = scalar.unwrap_or(if is_float { Type::Float } else { Type::Int });
        let mut arguments = Vec::new();
        for (slot, value) in ["a", "b"].into_iter().zip(values) {
            let argument = match value {
                Value::Number(name, _) => Argument::Values(vec![name.to_string()]),
                Value::Bool(value) => Argument::Constant(AttributeValue::Bool(*value)),
                Value::Int(value) => Argument::Constant(AttributeValue::Long(*value)),
                Value::Float(value) => Argument::Constant(AttributeValue::Double(*value)),
                _ => return Ok(None),
            };
            arguments.push((slot.to_owned(), argument));
        }
        self.simple(kind, arguments, Some(scalar)).map(Some)
    }

    /// Applies an operator to numbers.
    fn arithmetic(&mut self, name: &str, values: &[Value]) -> Outcome {
        let result = self.of_numbers(name, values)?;
        result.ok_or_else(|| self.failure(format!("`{name}` gets no numbers")))
    }

    /// Answers queries of tensors.
    pub(super) fn query(&mut self, name: &str, values: &[Value]) -> Outcome<Option<Value>> {
        let operand =
            |name: &str| vec![("self".to_owned(), Argument::Values(vec![name.to_owned()]))];
        Ok(Some(match (name, values) {
            ("aten::size" | "prim::shape", [Value::Tensor(tensor)]) => {
                Value::Sizes(Rc::clone(tensor))
            }
            ("aten::size", [Value::Tensor(tensor), Value::Int(axis)]) => {
                self.size(tensor, *axis)?
            }
            ("aten::len", [Value::Tensor(tensor)]) => self.size(tensor, 0)?,
            ("aten::len", [Value::Sizes(tensor)]) | ("aten::dim", [Value::Tensor(tensor)]) => {
                self.simple("aten::dim", operand(tensor), Some(Type::Int))?
            }
            ("aten::numel", [Value::Tensor(tensor)]) => {
                self.simple("aten::sym_numel", operand(tensor), Some(Type::Int))?
            }
            ("aten::__getitem__", [list @ (Value::Sizes(_) | Value::Results(..)), index]) => {
                self.item(list, index)?
            }
            ("aten::slice", [list @ Value::Sizes(_), bounds @ ..]) if bounds.len() <= 3 => {
                let bound = |at: usize| bounds.get(at).cloned().unwrap_or(Value::None);
                self.sliced(list, &bound(0), &bound(1), &bound(2))?
            }
            ("prim::dtype", [Value::Tensor(tensor)]) => {
                self.simple("prim::dtype", operand(tensor), Some(Type::Int))?
            }
            ("prim::device", [Value::Tensor(_)]) => Value::Device(Rc::from("cpu")),
            ("prim::data", [tensor @ Value::Tensor(_)]) => tensor.clone(),
            ("prim::NumToTensor", [value]) if !matches!(value, Value::Tensor(_)) => {
                let number = self.variable(value)?;
                let arguments = vec![("a".to_owned(), Argument::Values(vec![number.to_string()]))];
                self.simple("prim::NumToTensor", arguments, None)?
            }
            ("aten::Int" | "aten::IntImplicit", [value @ Value::Tensor(_)]) => {
                self.number_of(value, Type::Int)?
            }
            (
                "aten::Float" | "aten::FloatImplicit" | "aten::ScalarImplicit",
                [value @ Value::Tensor(_)],
            ) => self.number_of(value, Type::Float)?,
            ("aten::Bool", [value @ Value::Tensor(_)]) => self.number_of(value, Type::Bool)?,
            ("aten::Bool", [value @ Value::Number(_, Type::Bool)]) => value.clone(),
            ("aten::Bool", [value @ Value::Number(..)]) => {
                let values = vec![value.clone(), Value::Int(0)];
                return self.of_numbers("aten::ne", &values);
            }
            ("aten::is_floating_point", [Value::Tensor(tensor)]) => {
                self.simple("aten::is_floating_point", operand(tensor), Some(Type::Bool))?
            }
            _ => return Ok(None),
        }))
    }

    /// Makes a tensor of numbers in nested lists.
    fn tensor_of(&mut self, data: &Value, named: &[(String, Value)]) -> Outcome {
        let mut numbers = Vec::new();
        let mut shape: Vec<i64> = Vec::new();
        self.flattened(data, 0, &mut shape, &mut numbers)?;
        let mut names = Vec::new();
        let is_known = !numbers.iter().any(Value::is_computed);
        let constant = |kind: &str| match kind {
            "bool" => {
                let truths = numbers.iter().map(|it| it.int().is_some_and(|it| it != 0)).collect();
                AttributeValue::Bools(truths)
            }
            "int" => AttributeValue::Longs(numbers.iter().filter_map(Value::int).collect()),
            _ => AttributeValue::Doubles(numbers.iter().filter_map(Value::float).collect()),
        };
        let kinds: Vec<&str> = numbers.iter().map(Value::kind).collect();
        let kind = ["float", "int", "bool"].into_iter().find(|kind| kinds.contains(kind));
        let data = if is_known {
            Argument::Constant(constant(kind.unwrap_or("float")))
        } else {
            for number in &numbers {
                names.push(self.variable(number)?.to_string());
            }
            Argument::Values(names)
        };
        let mut arguments = vec![
            ("data".to_owned(), data),
            ("shape".to_owned(), Argument::Constant(AttributeValue::Longs(shape))),
        ];
        let dtype = named.iter().find(|(name, _)| name == "dtype").map(|(_, value)| value);
        match dtype {
            None | Some(Value::None) => {}
            Some(Value::Int(code)) => {
                let dtype = lodstone_schema::torch::script_type(*code);
                let dtype = dtype
                    .ok_or_else(|| self.failure(format!("the element type {code} is unknown")))?;
                let dtype = lodstone_model::ValueType::Scalar(dtype);
                let dtype = AttributeValue::Type(Box::new(dtype));
                arguments.push(("dtype".to_owned(), Argument::Constant(dtype)));
            }
            Some(other) => {
                let name = self.variable(other)?;
                arguments.push(("dtype".to_owned(), Argument::Values(vec![name.to_string()])));
            }
        }
        self.simple("aten::tensor", arguments, None)
    }

    fn flattened(
        &mut self,
        data: &Value,
        depth: usize,
        shape: &mut Vec<i64>,
        numbers: &mut Vec<Value>,
    ) -> Outcome<()> {
        let Some(items) = self.items(data) else {
            numbers.push(data.clone());
            return Ok(());
        };
        let count = length(items.len());
        match shape.get(depth) {
            None if depth < 16 => shape.push(count),
            Some(known) if *known == count => {}
            _ => return Err(self.failure("the lists of a tensor have different lengths")),
        }
        items.iter().try_for_each(|item| self.flattened(item, depth + 1, shape, numbers))
    }

    /// Returns the number of tensors in the list that an operator returns, if the arguments determine it.
    fn result_count(
        &self,
        schema: &Operator,
        values: &[Value],
        named: &[(String, Value)],
    ) -> Option<usize> {
        let argument = |name: &str| {
            let by_name = named.iter().find(|(own, _)| own == name).map(|(_, value)| value);
            let position = schema.arguments.iter().position(|argument| argument.name == name)?;
            by_name.or_else(|| values.get(position))
        };
        match (schema.name, schema.overload) {
            ("aten::chunk", _) => usize::try_from(argument("chunks")?.int()?).ok(),
            ("aten::split_with_sizes" | "aten::split_with_sizes_copy", _) => {
                self.items(argument("split_sizes")?).map(|items| items.len())
            }
            ("aten::split", "sizes") => {
                self.items(argument("split_size")?).map(|items| items.len())
            }
            ("aten::meshgrid" | "aten::broadcast_tensors" | "aten::atleast_1d", _) => {
                self.items(values.first()?).map(|items| items.len())
            }
            ("aten::tensor_split", "sections") => {
                usize::try_from(argument("sections")?.int()?).ok()
            }
            ("aten::tensor_split", "indices") => {
                self.items(argument("indices")?).map(|items| items.len() + 1)
            }
            _ => None,
        }
    }

    /// Applies operators of old archives, which had another meaning.
    fn upgraded(
        &mut self,
        schema: &Operator,
        bound: &mut Vec<(String, Argument)>,
    ) -> Outcome<Option<Value>> {
        let version = self.code.version;
        let kind = match (schema.name, schema.overload) {
            ("aten::div" | "aten::div_", "Tensor" | "Scalar") if version <= 3 => {
                format!(
                    "upgrader::{}_{}_0_3",
                    schema.name.trim_start_matches("aten::").trim_end_matches('_'),
                    schema.overload
                )
            }
            ("aten::full", "") if version <= 4 => "upgrader::full_0_4".to_owned(),
            ("aten::linspace" | "aten::logspace", "") => {
                let steps = bound.iter_mut().find(|(name, _)| name == "steps");
                if let Some((_, argument @ Argument::Constant(AttributeValue::None))) = steps {
                    *argument = Argument::Constant(AttributeValue::Long(100));
                }
                return Ok(None);
            }
            _ => return Ok(None),
        };
        self.simple(&kind, std::mem::take(bound), None).map(Some)
    }
}
