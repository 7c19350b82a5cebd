//! Objects of the archive, and the parts of structures.

use std::rc::Rc;

use lodstone_schema::numbers::{Rank, length};

use super::evaluator::{Evaluator, Outcome};
use super::value::{Callable, Cell, Place, Scope, Stored, Type, Value, is_same};
use crate::encoding::pickle::{self, Id};
use crate::lengths::at_most;
use crate::torch::code::{Expression, FormalParameter};
use crate::torch::object::{Kind, Objects, Value as Object};

/// The maximum number of nested structures among inputs, outputs and attributes.
const MAX_NESTING: usize = 64;

impl Evaluator<'_> {
    /// Returns the module.
    pub(super) fn root(&mut self) -> Outcome<Rc<Stored>> {
        let id = self.code.data.tree().root();
        match self.read(id, "", false, 0)? {
            Value::Object(stored) => Ok(stored),
            other => Err(self.failure(format!("expected a module, found a {}", other.kind()))),
        }
    }

    fn objects(&self, is_constant: bool) -> Outcome<&Objects> {
        match (is_constant, self.code.constants) {
            (false, _) => Ok(self.code.data),
            (true, Some(constants)) => Ok(constants),
            (true, None) => Err(self.failure("the archive has no constants")),
        }
    }

    /// Reads an object of the archive, one level deep.
    fn read(&mut self, id: Id, path: &str, is_constant: bool, depth: usize) -> Outcome {
        if depth > MAX_NESTING {
            return Err(self.failure(format!("more than {MAX_NESTING} nested attributes")));
        }
        let code = self.code;
        let objects = match (is_constant, code.constants) {
            (false, _) => code.data,
            (true, Some(constants)) => constants,
            (true, None) => return Err(self.failure("the archive has no constants")),
        };
        let wrong = |evaluator: &Self, error: crate::error::Error| {
            evaluator.failure(format!("the attribute `{path}`: {error}"))
        };
        let inner =
            |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let is_tuple = objects.is_tuple(id);
        match objects.value(id).map_err(|error| wrong(self, error))? {
            Object::Plain(plain) => self.plain(objects, id, &plain, path),
            Object::Word(word) => match word.strip_prefix("torch.") {
                Some(_) => Err(self.failure(format!("the attribute `{path}` is `{word}`"))),
                None => Ok(Value::Device(Rc::from(word))),
            },
            Object::Tensor(form) => {
                let name = if is_constant { format!("CONSTANTS.c{path}") } else { path.to_owned() };
                let class = match &form.kind {
                    Kind::Quantized(view, _) => objects.storage_class(view.storage),
                    _ => None,
                };
                self.quantized_parameter(&name, &form.kind, class.as_deref())
            }
            Object::List(items) => {
                let mut values = Vec::new();
                for (number, item) in items.iter().enumerate() {
                    values.push(self.read(
                        *item,
                        &inner(&number.to_string()),
                        is_constant,
                        depth + 1,
                    )?);
                }
                self.count(values.len())?;
                if is_tuple { Ok(Value::Tuple(values.into())) } else { self.list(values) }
            }
            Object::Dict(items) => {
                let mut pairs = Vec::new();
                for (key, value) in items.iter() {
                    let key = self.read(*key, path, is_constant, depth + 1)?;
                    let name = match &key {
                        Value::Text(text) => text.to_string(),
                        Value::Int(number) => number.to_string(),
                        _ => String::new(),
                    };
                    pairs.push((key, self.read(*value, &inner(&name), is_constant, depth + 1)?));
                }
                self.allocate(Cell::Dict(pairs)).map(Value::Dict)
            }
            Object::Instance(instance) => {
                let class: Rc<str> = Rc::from(instance.class.as_str());
                let is_enum = self.class(&class).is_some_and(|class| class.base == "Enum");
                match (is_enum, instance.arguments.first()) {
                    (true, Some(value)) => {
                        let value = self.read(*value, path, is_constant, depth + 1)?;
                        self.member(&class, &value)
                    }
                    _ if !instance.state.is_empty() && instance.attributes.is_empty() => {
                        let mut parts = Vec::new();
                        for (number, part) in instance.state.iter().enumerate() {
                            let path = inner(&number.to_string());
                            parts.push(self.read(*part, &path, is_constant, depth + 1)?);
                        }
                        self.restored(&class, parts)
                    }
                    _ => Ok(Value::Object(Rc::new(Stored {
                        id,
                        path: path.to_owned(),
                        class,
                        is_constant,
                    }))),
                }
            }
            Object::Module(_) | Object::Array(_) | Object::Import(_) => {
                Err(self.failure(format!("the attribute `{path}` is no value of TorchScript")))
            }
        }
    }

    fn plain(&self, objects: &Objects, id: Id, plain: &pickle::Value<'_>, path: &str) -> Outcome {
        Ok(match plain {
            pickle::Value::None => Value::None,
            pickle::Value::Bool(value) => Value::Bool(*value),
            pickle::Value::Int(value) => Value::Int(*value),
            pickle::Value::Float(value) => Value::Float(*value),
            pickle::Value::Complex(real, imaginary) => Value::Complex(*real, *imaginary),
            pickle::Value::Text(span, encoding) => {
                let text = objects.tree().text(id, *span, *encoding);
                Value::text(&text.map_err(|error| self.failure(error.to_string()))?)
            }
            _ => return Err(self.failure(format!("the attribute `{path}` is of an unknown type"))),
        })
    }

    /// Creates an instance by the state that its class saved.
    fn restored(&mut self, class: &Rc<str>, parts: Vec<Value>) -> Outcome {
        if class.starts_with("__torch__.torch.classes.quantized.Linear") {
            return self.packed(&parts);
        }
        let Some((name, function)) = self.method(class, "__setstate__") else {
            return Err(self.failure(format!("the class `{class}` has no method `__setstate__`")));
        };
        let cell = Cell::Instance(Rc::clone(class), std::collections::BTreeMap::new());
        let object = Value::Instance(self.allocate(cell)?);
        let callable = Callable { name, function, scope: Scope::new() };
        self.enter(&callable, vec![object.clone(), Value::Tuple(parts.into())], Vec::new())?;
        Ok(object)
    }

    /// Returns the member of an enum with a value.
    fn member(&mut self, class: &Rc<str>, value: &Value) -> Outcome {
        let code = self.code;
        let found = class.rsplit_once('.').and_then(|(module, own)| {
            let classes = &code.sources.get(module)?.classes;
            classes.iter().find(|class| class.name == own)
        });
        let members = found.map_or(&[][..], |class| class.constants.as_slice());
        for (name, expression) in members {
            let own = self.expression(expression, &mut Scope::new())?;
            if is_same(&own, value) {
                let name = Rc::from(name.as_str());
                return Ok(Value::Member(Rc::clone(class), name, Rc::new(own)));
            }
        }
        Err(self.failure(format!("the enum `{class}` has no member of this value")))
    }

    /// Returns the value of a constant of the code: `CONSTANTS.c3`.
    pub(super) fn constant(&mut self, name: &str) -> Outcome {
        let wrong = || format!("the constant `{name}` does not exist");
        let number: usize = match name.strip_prefix('c').and_then(|number| number.parse().ok()) {
            Some(number) => number,
            None => return Err(self.failure(wrong())),
        };
        let objects = self.objects(true)?;
        let root = objects.tree().root();
        match objects.items(root).and_then(|items| items.get(number)) {
            Some(id) => {
                let id = *id;
                self.read(id, &number.to_string(), true, 0)
            }
            None => Err(self.failure(wrong())),
        }
    }

    /// Returns the value of a member of an enum, a class or a function, if an expression is its full name.
    pub(super) fn named(&mut self, path: &str) -> Outcome<Option<Value>> {
        if let Some(name) = path.strip_prefix("CONSTANTS.") {
            return self.constant(name).map(Some);
        }
        if !path.starts_with("__torch__") {
            return Ok(None);
        }
        if let Some(function) = self.function(path) {
            let callable = Callable { name: Rc::from(path), function, scope: Scope::new() };
            return Ok(Some(Value::Function(Rc::new(callable))));
        }
        if self.class(path).is_some() {
            return Ok(Some(Value::Class(Rc::from(path))));
        }
        let Some((class, name)) = path.rsplit_once('.') else { return Ok(None) };
        let Some(found) = self.class(class) else { return Ok(None) };
        let value = found.constants.iter().find(|(own, _)| own == name);
        let Some((_, expression)) = value else { return Ok(None) };
        let expression = expression.clone();
        let is_enum = found.base == "Enum";
        let value = self.expression(&expression, &mut Scope::new())?;
        Ok(Some(match is_enum {
            true => Value::Member(Rc::from(class), Rc::from(name), Rc::new(value)),
            false => value,
        }))
    }

    /// Returns the value that an expression names without variables: an enum's member, a class, a constant.
    pub(super) fn global(
        &mut self,
        expression: &Expression,
        scope: &Scope,
    ) -> Outcome<Option<Value>> {
        let Some(path) = expression.path() else { return Ok(None) };
        let first = path.split('.').next().unwrap_or_default();
        if scope.contains_key(first) { Ok(None) } else { self.named(&path) }
    }

    /// Returns an attribute of a value.
    pub(super) fn attribute(&mut self, object: &Value, name: &str) -> Outcome {
        if self.raised.is_some() {
            return Ok(Value::Unset);
        }
        let missing = format!("a {} has no attribute `{name}`", object.kind());
        match object {
            Value::Object(stored) => {
                let path = joined(&stored.path, name);
                if let Some(value) = self.set.get(&path) {
                    return Ok(value.clone());
                }
                match self.stored_attribute(stored, name)? {
                    Some(id) => self.read(id, &path, stored.is_constant, 0),
                    None => self.class_constant(&stored.class, name, &missing),
                }
            }
            Value::Instance(place) => match self.heap.get(*place) {
                Some(Cell::Instance(class, fields)) => match fields.get(name) {
                    Some(value) => Ok(value.clone()),
                    None => {
                        let class = Rc::clone(class);
                        self.class_constant(&class, name, &missing)
                    }
                },
                _ => Err(self.failure(missing)),
            },
            Value::Member(_, own, value) => match name {
                "name" => Ok(Value::Text(Rc::clone(own))),
                "value" => Ok((**value).clone()),
                _ => Err(self.failure(missing)),
            },
            _ => Err(self.failure(missing)),
        }
    }

    /// Returns the place of an attribute of an object of the archive.
    fn stored_attribute(&self, stored: &Stored, name: &str) -> Outcome<Option<Id>> {
        let objects = self.objects(stored.is_constant)?;
        let value = objects.value(stored.id).map_err(|error| self.failure(error.to_string()))?;
        let Object::Instance(instance) = value else { return Ok(None) };
        let tree = objects.tree();
        for (key, value) in &instance.attributes {
            let text = tree.word(*key).map_err(|error| self.failure(error.to_string()))?;
            if text.is_some_and(|text| text == name) {
                return Ok(Some(*value));
            }
        }
        Ok(None)
    }

    fn class_constant(&mut self, class: &str, name: &str, missing: &str) -> Outcome {
        let found = self.class(class);
        let found = found.and_then(|class| class.constants.iter().find(|(own, _)| own == name));
        let Some((_, expression)) = found else { return Err(self.failure(missing)) };
        let expression = expression.clone();
        self.expression(&expression, &mut Scope::new())
    }

    /// Sets an attribute.
    pub(super) fn set_attribute(
        &mut self,
        object: &Value,
        name: &str,
        value: Value,
    ) -> Outcome<()> {
        if self.raised.is_some() {
            return Ok(());
        }
        match object {
            Value::Object(stored) => {
                let path = joined(&stored.path, name);
                if !self.set.contains_key(&path) {
                    let stored = self.attribute(object, name)?;
                    self.stored.insert(path.clone(), stored);
                }
                self.set.insert(path, value);
                Ok(())
            }
            Value::Instance(place) => match self.heap.get_mut(*place) {
                Some(Cell::Instance(_, fields)) => {
                    fields.insert(name.to_owned(), value);
                    Ok(())
                }
                _ => Err(self.failure("an object was lost")),
            },
            other => Err(self.failure(format!("a {} has no attributes", other.kind()))),
        }
    }

    /// Returns the variable of a list that the program computes.
    pub(super) fn sequence_of(&self, value: &Value) -> Option<Rc<str>> {
        match value {
            Value::List(place) => match self.heap.get(*place) {
                Some(Cell::Sequence(name)) => Some(Rc::clone(name)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the items of a list or tuple.
    pub(super) fn items(&self, value: &Value) -> Option<Vec<Value>> {
        match value {
            Value::Tuple(items) => Some(items.to_vec()),
            Value::List(place) => match self.heap.get(*place) {
                Some(Cell::List(items)) => Some(items.clone()),
                _ => None,
            },
            // A named tuple.
            Value::Instance(place) => match self.heap.get(*place) {
                Some(Cell::Instance(class, fields)) => {
                    let class = self.class(class).filter(|class| class.base == "NamedTuple")?;
                    let names = class.attributes.iter().map(|(name, _)| name);
                    names.map(|name| fields.get(name).cloned()).collect()
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns an element of a structure.
    pub(super) fn item(&mut self, object: &Value, index: &Value) -> Outcome {
        if self.raised.is_some() {
            return Ok(Value::Unset);
        }
        if let Value::Dict(place) = object {
            let found = match self.heap.get(*place) {
                Some(Cell::Dict(items)) => items.iter().find(|(key, _)| is_same(key, index)),
                _ => None,
            };
            return match found {
                Some((_, value)) => Ok(value.clone()),
                None => {
                    self.raised = Some("a key is missing".to_owned());
                    Ok(Value::Unset)
                }
            };
        }
        if let (Value::List(place), Some(list)) = (object, self.sequence_of(object)) {
            let found = self.on_sequence("__getitem__", *place, &list, std::slice::from_ref(index));
            return found?.ok_or_else(|| self.failure("a list of tensors has no elements"));
        }
        let Value::Int(number) = index else {
            return Err(self.failure(format!("an index must be known, found a {}", index.kind())));
        };
        match object {
            Value::Sizes(tensor) => self.size(tensor, *number),
            Value::Results(place, slot) => match usize::try_from(*number) {
                Ok(number) => {
                    let all = self.results(*place, *slot, number + 1)?;
                    all.into_iter().nth(number).ok_or_else(|| self.failure("a result was lost"))
                }
                Err(_) => Err(self.failure("an index from the end of a list of unknown length")),
            },
            _ => {
                let items = self.items(object);
                let items = items
                    .ok_or_else(|| self.failure(format!("a {} has no elements", object.kind())))?;
                let place = Rank::of(&items).axis(*number).ok();
                match place.and_then(|place| items.get(place.index())) {
                    Some(item) => Ok(item.clone()),
                    None => {
                        self.raised = Some(format!("the index {number} is out of range"));
                        Ok(Value::Unset)
                    }
                }
            }
        }
    }

    /// Returns a part of a list or tuple.
    pub(super) fn sliced(
        &mut self,
        object: &Value,
        start: &Value,
        end: &Value,
        step: &Value,
    ) -> Outcome {
        if self.raised.is_some() {
            return Ok(Value::Unset);
        }
        let bound = |value: &Value, default: i64| match value {
            Value::None => Some(default),
            Value::Int(value) => Some(*value),
            _ => None,
        };
        let Some(step) = bound(step, 1) else {
            return Err(self.failure("the step of a part of a list must be known"));
        };
        if let (Value::Sizes(tensor), Some(start), Some(end)) =
            (object, bound(start, 0), bound(end, i64::MAX))
            && step == 1
            && start < 0
            && end == i64::MAX
        {
            let sizes =
                (start..0).map(|axis| self.size(tensor, axis)).collect::<Outcome<Vec<_>>>()?;
            return self.list(sizes);
        }
        if let (Value::Sizes(tensor), Some(start), Some(end)) =
            (object, bound(start, 0), bound(end, i64::MAX))
            && step == 1
            && (0..=64).contains(&start)
            && (0..=64).contains(&end)
        {
            let sizes =
                (start..end).map(|axis| self.size(tensor, axis)).collect::<Outcome<Vec<_>>>()?;
            return self.list(sizes);
        }
        let items = self.items(object);
        let items =
            items.ok_or_else(|| self.failure(format!("a {} has no parts here", object.kind())))?;
        let (Some(start), Some(end)) = (bound(start, 0), bound(end, i64::MAX)) else {
            return Err(self.failure("the bounds of a part of a list must be known"));
        };
        if step < 1 {
            return Err(self.failure(format!("a list is taken in steps of {step}")));
        }
        let places = Rank::of(&items);
        let (start, end) = (places.place(start), places.place(end));
        let step = at_most(step.cast_unsigned(), usize::MAX);
        let part = items.into_iter().take(end).skip(start).step_by(step);
        let part: Vec<Value> = part.collect();
        self.count(part.len())?;
        match object {
            Value::List(_) => self.list(part),
            _ => Ok(Value::Tuple(part.into())),
        }
    }

    /// Takes a value apart into as many parts as there are targets.
    pub(super) fn unpacked(&mut self, value: &Value, count: usize) -> Outcome<Vec<Value>> {
        match value {
            Value::Sizes(tensor) => {
                let axes = 0..length(count);
                axes.map(|axis| self.size(tensor, axis)).collect()
            }
            Value::Results(place, slot) => self.results(*place, *slot, count),
            _ => {
                let items = self.items(value);
                let items = items.ok_or_else(|| {
                    self.failure(format!("a {} cannot be unpacked", value.kind()))
                })?;
                match items.len() == count {
                    true => Ok(items),
                    false => Err(self
                        .failure(format!("{count} targets are assigned {} values", items.len()))),
                }
            }
        }
    }

    /// Declares an input of the program.
    pub(super) fn input(&mut self, parameter: &FormalParameter) -> Outcome {
        if let Some(default) = &parameter.default {
            return self.expression(default, &mut Scope::new());
        }
        let kind = parameter.kind.as_ref().and_then(|kind| kind.path()).unwrap_or_default();
        let scalar = match kind.as_str() {
            "Tensor" => None,
            "int" => Some(Type::Int),
            "float" | "number" | "Scalar" => Some(Type::Float),
            "bool" => Some(Type::Bool),
            _ => {
                let what =
                    format!("the input `{}` is neither a tensor nor a number", parameter.name);
                return Err(self.failure(what));
            }
        };
        let name = self.declare(&parameter.name, scalar);
        if let Some(block) = self.open.last_mut() {
            block.inputs.push(name.to_string());
        }
        Ok(scalar.map_or(Value::Tensor(Rc::clone(&name)), |scalar| Value::Number(name, scalar)))
    }

    /// Makes outputs of a result: each tensor in it is one.
    pub(super) fn outputs(&mut self, result: &Value, name: &str, depth: usize) -> Outcome<()> {
        if depth > MAX_NESTING {
            return Err(self.failure(format!("more than {MAX_NESTING} nested outputs")));
        }
        match result {
            Value::None => Ok(()),
            Value::Text(_) | Value::Device(_) | Value::Complex(..) | Value::Member(..) => {
                self.notes
                    .push(format!("the output `{name}` is a {}, and left out", result.kind()));
                Ok(())
            }
            Value::Tensor(_)
            | Value::Number(..)
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_) => {
                let variable = self.output(result, name)?;
                if let Some(block) = self.open.last_mut() {
                    block.outputs.push(variable);
                }
                Ok(())
            }
            Value::Dict(place) => {
                let items = match self.heap.get(*place) {
                    Some(Cell::Dict(items)) => items.clone(),
                    _ => Vec::new(),
                };
                for (key, value) in items {
                    let key = match &key {
                        Value::Text(text) => text.to_string(),
                        Value::Int(number) => format!("{name}_{number}"),
                        _ => name.to_owned(),
                    };
                    self.outputs(&value, &key, depth + 1)?;
                }
                Ok(())
            }
            _ => {
                let items = self.items(result);
                let items = items.ok_or_else(|| {
                    self.failure(format!("an output is a {}, not a tensor", result.kind()))
                })?;
                for (number, item) in items.iter().enumerate() {
                    self.outputs(item, &format!("{name}_{number}"), depth + 1)?;
                }
                Ok(())
            }
        }
    }

    /// Writes what the code assigned to attributes to the parameters. Other attributes keep the values of the file.
    pub(super) fn store(&mut self) -> Outcome<()> {
        for (path, value) in std::mem::take(&mut self.set) {
            let (Value::Tensor(source), true) = (&value, (self.code.has)(&path)) else {
                let kind = value.kind();
                self.notes.push(format!(
                    "the attribute `{path}` is no tensor of the file: the {kind} assigned to it is lost after a run"
                ));
                continue;
            };
            let target = self.parameter(&path)?;
            if let Value::Tensor(target) = &target
                && target != source
            {
                self.emit_assignment(target, source);
            }
        }
        Ok(())
    }

    /// Returns a parameter.
    pub(super) fn parameter(&mut self, name: &str) -> Outcome {
        if !(self.code.has)(name) {
            return Err(self.failure(format!("the parameter `{name}` is missing")));
        }
        if self.parameters.insert(name.to_owned()) {
            self.names.entry(name.to_owned()).or_default();
        }
        Ok(Value::Tensor(Rc::from(name)))
    }

    /// Returns the variable of a result of an operator whose number of results is not known; its slot grows.
    fn results(&mut self, place: Place, slot: usize, count: usize) -> Outcome<Vec<Value>> {
        self.grow(place, slot, count)
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
