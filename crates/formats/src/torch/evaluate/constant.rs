//! Operators on constants, strings, lists and dictionaries.

use std::rc::Rc;

use lodstone_schema::numbers::{Axis, Rank, length};

use super::emit::Argument;
use super::evaluator::{Evaluator, Outcome};
use super::value::{Cell, Type, Value, is_same};
use crate::lengths::at_most;

impl Evaluator<'_> {
    /// Applies an operator to constants and structures; `None` if it is for the program to compute.
    pub(super) fn on_constants(
        &mut self,
        name: &str,
        values: &[Value],
        named: &[(String, Value)],
    ) -> Outcome<Option<Value>> {
        let Some(name) = name.strip_prefix("aten::").or_else(|| name.strip_prefix("prim::")) else {
            return Ok(None);
        };
        if let Some(value) = self.on_structures(name, values, named)? {
            return Ok(Some(value));
        }
        if let [Value::Text(text), rest @ ..] = values {
            let text = Rc::clone(text);
            return self.on_text(name, &text, rest);
        }
        if !named.is_empty() {
            return Ok(None);
        }
        Ok(match values {
            [left, right] => match (left, right) {
                (Value::Bool(a), Value::Bool(b)) => of_truths(name, *a, *b),
                _ => of_two(name, left, right),
            },
            [only] => of_one(name, only),
            _ => None,
        })
    }

    fn on_text(&mut self, name: &str, text: &str, rest: &[Value]) -> Outcome<Option<Value>> {
        Ok(Some(match (name, rest) {
            ("add", [Value::Text(more)]) => self.text(&[text, more])?,
            ("eq", [Value::Text(other)]) => Value::Bool(text == &**other),
            ("ne", [Value::Text(other)]) => Value::Bool(text != &**other),
            ("eq", [_]) => Value::Bool(false),
            ("ne", [_]) => Value::Bool(true),
            ("len", []) => Value::Int(length(text.chars().count())),
            ("str", []) => self.text(&[text])?,
            ("lower", []) => self.text(&[&text.to_lowercase()])?,
            ("upper", []) => self.text(&[&text.to_uppercase()])?,
            ("startswith", [Value::Text(part), ..]) => Value::Bool(text.starts_with(&**part)),
            ("endswith", [Value::Text(part), ..]) => Value::Bool(text.ends_with(&**part)),
            ("__contains__", [Value::Text(part)]) => Value::Bool(text.contains(&**part)),
            ("device", []) => Value::Device(Rc::from(text)),
            ("device", [Value::Int(index)]) => Value::Device(Rc::from(format!("{text}:{index}"))),
            ("device", [Value::None]) => Value::Device(Rc::from(text)),
            // Messages of exceptions, whose values may not be known.
            ("format" | "percentFormat" | "join", _) => self.text(&[text])?,
            _ => return Ok(None),
        }))
    }

    /// Applies an operator to a list, tuple, dictionary or object.
    fn on_structures(
        &mut self,
        name: &str,
        values: &[Value],
        named: &[(String, Value)],
    ) -> Outcome<Option<Value>> {
        match (name, values) {
            ("__is__", [left, right]) => return Ok(identity(left, right).map(Value::Bool)),
            ("__isnot__", [left, right]) => {
                return Ok(identity(left, right).map(|same| Value::Bool(!same)));
            }
            ("eq", [left @ Value::Member(..), right]) => {
                return Ok(Some(Value::Bool(is_same(left, right))));
            }
            ("ne", [left @ Value::Member(..), right]) => {
                return Ok(Some(Value::Bool(!is_same(left, right))));
            }
            ("eq", [Value::Device(left), Value::Device(right)]) => {
                return Ok(Some(Value::Bool(left == right)));
            }
            ("_unwrap_optional" | "unchecked_unwrap_optional", [value]) => {
                if matches!(value, Value::None) {
                    self.raised = Some("an optional value is None".to_owned());
                }
                return Ok(Some(value.clone()));
            }
            ("__range_length", [Value::Int(low), Value::Int(high), Value::Int(step)]) => {
                let (low, high, step) = (i128::from(*low), i128::from(*high), i128::from(*step));
                let count = match step {
                    0 => return Err(self.failure("a range with a step of 0")),
                    1.. => (high - low + step - 1).max(0) / step,
                    _ => (low - high - step - 1).max(0) / -step,
                };
                let count = i64::try_from(count);
                let count = count.map_err(|_| self.failure("a range is too long"))?;
                return Ok(Some(Value::Int(count)));
            }
            ("__derive_index", [Value::Int(index), Value::Int(start), Value::Int(step)]) => {
                let value = index.checked_mul(*step).and_then(|part| part.checked_add(*start));
                return Ok(value.map(Value::Int));
            }
            _ => {}
        }
        match values.first() {
            Some(Value::Dict(place)) => {
                self.on_dict(name, *place, values.get(1..).unwrap_or_default())
            }
            Some(Value::List(place)) => {
                self.on_list(name, *place, values.get(1..).unwrap_or_default(), named)
            }
            Some(Value::Tuple(items)) => Ok(match name {
                "len" => Some(Value::Int(length(items.len()))),
                "list" => Some(self.list(items.to_vec())?),
                _ => None,
            }),
            Some(Value::Sizes(tensor)) if name == "list" => {
                Ok(Some(Value::Sizes(Rc::clone(tensor))))
            }
            _ => Ok(None),
        }
    }

    fn on_dict(&mut self, name: &str, place: usize, rest: &[Value]) -> Outcome<Option<Value>> {
        let items = match self.heap.get(place) {
            Some(Cell::Dict(items)) => items.clone(),
            _ => return Err(self.failure("a dictionary was lost")),
        };
        let find = |key: &Value| items.iter().find(|(own, _)| is_same(own, key));
        let result = match (name, rest) {
            ("len", []) => Value::Int(length(items.len())),
            ("__contains__", [key]) => Value::Bool(find(key).is_some()),
            ("__getitem__", [key]) => self.item(&Value::Dict(place), key)?,
            ("get", [key]) => find(key).map_or(Value::None, |(_, value)| value.clone()),
            ("get", [key, default]) => {
                find(key).map_or(default.clone(), |(_, value)| value.clone())
            }
            ("keys", []) => self.list(items.into_iter().map(|(key, _)| key).collect())?,
            ("values", []) => self.list(items.into_iter().map(|(_, value)| value).collect())?,
            ("items", []) => {
                let pairs = items.into_iter().map(|(key, value)| Value::Tuple([key, value].into()));
                let pairs = pairs.collect();
                self.list(pairs)?
            }
            ("copy" | "dict", []) => self.allocate(Cell::Dict(items)).map(Value::Dict)?,
            ("_set_item", [key, value]) => {
                self.count(1)?;
                if let Some(Cell::Dict(items)) = self.heap.get_mut(place) {
                    match items.iter_mut().find(|(own, _)| is_same(own, key)) {
                        Some((_, old)) => *old = value.clone(),
                        None => items.push((key.clone(), value.clone())),
                    }
                }
                Value::None
            }
            ("pop" | "Delete", [key]) => {
                let Some((_, found)) = find(key).cloned() else {
                    self.raised = Some("a key is missing".to_owned());
                    return Ok(Some(Value::Unset));
                };
                if let Some(Cell::Dict(items)) = self.heap.get_mut(place) {
                    items.retain(|(own, _)| !is_same(own, key));
                }
                found
            }
            ("clear", []) => {
                if let Some(Cell::Dict(items)) = self.heap.get_mut(place) {
                    items.clear();
                }
                Value::None
            }
            _ => return Ok(None),
        };
        Ok(Some(result))
    }

    fn on_list(
        &mut self,
        name: &str,
        place: usize,
        rest: &[Value],
        named: &[(String, Value)],
    ) -> Outcome<Option<Value>> {
        let items = match self.heap.get(place) {
            Some(Cell::List(items)) => items.clone(),
            Some(Cell::Sequence(variable)) => {
                let variable = Rc::clone(variable);
                return self.on_sequence(name, place, &variable, rest);
            }
            _ => return Err(self.failure("a list was lost")),
        };
        let list = Value::List(place);
        let known = |items: &[Value]| !items.iter().any(Value::is_computed);
        let result = match (name, rest) {
            ("len", []) => Value::Int(length(items.len())),
            ("__getitem__", [index]) => self.item(&list, index)?,
            ("list" | "copy", []) => self.list(items)?,
            ("slice", bounds) if bounds.len() <= 3 => {
                let bound = |at: usize| bounds.get(at).cloned().unwrap_or(Value::None);
                self.sliced(&list, &bound(0), &bound(1), &bound(2))?
            }
            ("append", [value]) => {
                self.changed(place, |items| items.push(value.clone()))?;
                list
            }
            ("insert", [Value::Int(at), value]) => {
                let at = Rank::of(&items).place(*at);
                self.changed(place, |items| items.insert(at.min(items.len()), value.clone()))?;
                list
            }
            ("extend" | "add_", [other]) => {
                let more = self.items(other);
                let more =
                    more.ok_or_else(|| self.failure("a list is extended by another value"))?;
                self.count(more.len())?;
                self.changed(place, |items| items.extend(more))?;
                list
            }
            ("reverse", []) => {
                self.changed(place, |items| items.reverse())?;
                Value::None
            }
            ("clear", []) => {
                self.changed(place, Vec::clear)?;
                Value::None
            }
            ("pop", rest) => {
                let rank = Rank::of(&items);
                let at = match rest.first().map(Value::int) {
                    None => rank.last(),
                    Some(Some(at)) => rank.axis(at),
                    Some(None) => return Err(self.failure("the place of a pop must be known")),
                };
                let at = at.ok().map(Axis::index);
                let Some((at, value)) = at.and_then(|at| Some((at, items.get(at)?.clone()))) else {
                    self.raised = Some("pop from a list that is too short".to_owned());
                    return Ok(Some(Value::Unset));
                };
                self.changed(place, |items| _ = items.remove(at))?;
                value
            }
            ("_set_item", [Value::Int(at), value]) => {
                let Ok(axis) = Rank::of(&items).axis(*at) else {
                    self.raised = Some(format!("the index {at} is out of range"));
                    return Ok(Some(Value::Unset));
                };
                self.changed(place, |items| {
                    if let Some(item) = items.get_mut(axis.index()) {
                        *item = value.clone();
                    }
                })?;
                list
            }
            ("add", [other]) => {
                let Some(more) = self.items(other) else { return Ok(None) };
                self.list(items.into_iter().chain(more).collect())?
            }
            ("mul", [Value::Int(times)]) => {
                // A list that is repeated less than once is empty.
                let times = at_most((*times).max(0).cast_unsigned(), usize::MAX);
                self.count(items.len().saturating_mul(times))?;
                let count = items.len().saturating_mul(times);
                self.list(items.into_iter().cycle().take(count).collect())?
            }
            ("eq" | "ne", [other]) => {
                let Some(others) = self.items(other) else { return Ok(None) };
                if !known(&items) || !known(&others) {
                    return Ok(None);
                }
                let same = items.len() == others.len()
                    && items.iter().zip(&others).all(|(a, b)| is_same(a, b));
                Value::Bool(same == (name == "eq"))
            }
            ("__contains__", [value]) if known(&items) && !value.is_computed() => {
                Value::Bool(items.iter().any(|item| is_same(item, value)))
            }
            ("__contains__", [value @ Value::Number(..)]) => {
                let mut found = Value::Bool(false);
                for item in items {
                    let same = self.of_numbers("aten::eq", &[value.clone(), item])?;
                    let Some(same) = same else { return Ok(None) };
                    found = match found {
                        Value::Bool(_) => same,
                        found => match self.of_numbers("aten::__or__", &[found, same])? {
                            Some(found) => found,
                            None => return Ok(None),
                        },
                    };
                }
                found
            }
            ("index", [value]) if known(&items) => {
                let Some(found) = items.iter().position(|item| is_same(item, value)) else {
                    self.raised = Some("the value is not in the list".to_owned());
                    return Ok(Some(Value::Unset));
                };
                Value::Int(length(found))
            }
            ("max" | "min" | "sum" | "all" | "any", []) if known(&items) && named.is_empty() => {
                return Ok(folded(name, &items));
            }
            _ => return Ok(None),
        };
        Ok(Some(result))
    }

    /// Applies an operator to a list of tensors that the program computes.
    pub(super) fn on_sequence(
        &mut self,
        name: &str,
        place: usize,
        variable: &str,
        rest: &[Value],
    ) -> Outcome<Option<Value>> {
        let mut arguments = vec![("self".to_owned(), Argument::Values(vec![variable.to_owned()]))];
        let mut with = |slot: &str, name: Rc<str>| {
            arguments.push((slot.to_owned(), Argument::Values(vec![name.to_string()])));
        };
        match (name, rest) {
            ("append", [value @ Value::Tensor(_)]) => {
                with("el", self.variable(value)?);
                let grown = self.sequence("aten::append", arguments)?;
                if let Some(cell) = self.heap.get_mut(place) {
                    *cell = Cell::Sequence(grown);
                }
                Ok(Some(Value::List(place)))
            }
            ("len", []) => self.simple("aten::len", arguments, Some(Type::Int)).map(Some),
            ("__getitem__", [index]) => {
                with("idx", self.variable(index)?);
                self.simple("aten::__getitem__", arguments, None).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn changed(&mut self, place: usize, change: impl FnOnce(&mut Vec<Value>)) -> Outcome<()> {
        self.count(1)?;
        match self.heap.get_mut(place) {
            Some(Cell::List(items)) => {
                change(items);
                Ok(())
            }
            _ => Err(self.failure("a list was lost")),
        }
    }
}

/// Whether two values are one object, if that is known.
fn identity(left: &Value, right: &Value) -> Option<bool> {
    match (left, right) {
        (Value::Unset, _) | (_, Value::Unset) => None,
        (Value::None, Value::None) => Some(true),
        (Value::None, _) | (_, Value::None) => Some(false),
        _ => Some(is_same(left, right)),
    }
}

fn folded(name: &str, items: &[Value]) -> Option<Value> {
    let truths =
        || items.iter().map(|item| item.int().map(|it| it != 0)).collect::<Option<Vec<_>>>();
    match name {
        "all" => truths().map(|truths| Value::Bool(truths.iter().all(|it| *it))),
        "any" => truths().map(|truths| Value::Bool(truths.iter().any(|it| *it))),
        _ => {
            let numbers = items.iter().map(Value::int).collect::<Option<Vec<_>>>()?;
            match name {
                "max" => numbers.into_iter().max(),
                "min" => numbers.into_iter().min(),
                _ => numbers.into_iter().try_fold(0_i64, i64::checked_add),
            }
            .map(Value::Int)
        }
    }
}

fn of_truths(name: &str, left: bool, right: bool) -> Option<Value> {
    Some(Value::Bool(match name {
        "__and__" => left && right,
        "__or__" => left || right,
        "__xor__" | "ne" => left != right,
        "eq" => left == right,
        _ => return None,
    }))
}

/// Applies a function of two numbers; `None` if there is none, or integers overflow.
fn of_two(name: &str, left: &Value, right: &Value) -> Option<Value> {
    if matches!(left, Value::None) || matches!(right, Value::None) {
        return match name {
            "eq" => Some(Value::Bool(is_same(left, right))),
            "ne" => Some(Value::Bool(!is_same(left, right))),
            _ => None,
        };
    }
    if let (Value::Int(a), Value::Int(b)) = (left, right) {
        let (a, b) = (*a, *b);
        return Some(match name {
            "add" => Value::Int(a.checked_add(b)?),
            "sub" => Value::Int(a.checked_sub(b)?),
            "mul" => Value::Int(a.checked_mul(b)?),
            "floordiv" | "floor_divide" => {
                let whole = a.checked_div(b)?;
                let is_below = a.checked_rem(b)? != 0 && (a < 0) != (b < 0);
                Value::Int(if is_below { whole.checked_sub(1)? } else { whole })
            }
            "remainder" => {
                let rest = a.checked_rem(b)?;
                Value::Int(if rest != 0 && (rest < 0) != (b < 0) {
                    rest.checked_add(b)?
                } else {
                    rest
                })
            }
            #[expect(clippy::cast_precision_loss, reason = "as PyTorch divides integers")]
            "div" if b != 0 => Value::Float(a as f64 / b as f64),
            "pow" => Value::Int(a.checked_pow(u32::try_from(b).ok()?)?),
            "eq" => Value::Bool(a == b),
            "ne" => Value::Bool(a != b),
            "lt" => Value::Bool(a < b),
            "le" => Value::Bool(a <= b),
            "gt" => Value::Bool(a > b),
            "ge" => Value::Bool(a >= b),
            "min" => Value::Int(a.min(b)),
            "max" => Value::Int(a.max(b)),
            "__and__" => Value::Int(a & b),
            "__or__" => Value::Int(a | b),
            "__xor__" => Value::Int(a ^ b),
            "__lshift__" => Value::Int(a.checked_shl(u32::try_from(b).ok()?)?),
            "__rshift__" => Value::Int(a.checked_shr(u32::try_from(b).ok()?)?),
            _ => return None,
        });
    }
    let (a, b) = (left.float()?, right.float()?);
    Some(match name {
        "add" => Value::Float(a + b),
        "sub" => Value::Float(a - b),
        "mul" => Value::Float(a * b),
        "div" => Value::Float(a / b),
        "floordiv" => Value::Float((a / b).floor()),
        "remainder" => Value::Float(a - (a / b).floor() * b),
        "pow" => Value::Float(a.powf(b)),
        "eq" => Value::Bool(a == b),
        "ne" => Value::Bool(a != b),
        "lt" => Value::Bool(a < b),
        "le" => Value::Bool(a <= b),
        "gt" => Value::Bool(a > b),
        "ge" => Value::Bool(a >= b),
        "min" => Value::Float(a.min(b)),
        "max" => Value::Float(a.max(b)),
        _ => return None,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "floats are converted as PyTorch does")]
fn of_one(name: &str, value: &Value) -> Option<Value> {
    Some(match (name, value) {
        ("__not__", Value::Bool(value)) => Value::Bool(!value),
        ("Bool", value) => Value::Bool(value.float()? != 0.0),
        ("Int", Value::Int(value)) => Value::Int(*value),
        ("Int", Value::Bool(value)) => Value::Int(i64::from(*value)),
        ("Int", Value::Float(value)) => Value::Int(*value as i64),
        ("Float", value) => Value::Float(value.float()?),
        ("neg", Value::Int(value)) => Value::Int(value.checked_neg()?),
        ("neg", Value::Float(value)) => Value::Float(-value),
        ("abs", Value::Int(value)) => Value::Int(value.checked_abs()?),
        ("abs", Value::Float(value)) => Value::Float(value.abs()),
        ("ceil", Value::Float(value)) => Value::Int(value.ceil() as i64),
        ("floor", Value::Float(value)) => Value::Int(value.floor() as i64),
        ("ceil" | "floor", Value::Int(value)) => Value::Int(*value),
        ("round", Value::Float(value)) => Value::Float(value.round_ties_even()),
        ("sqrt", value) => Value::Float(value.float()?.sqrt()),
        ("exp", value) => Value::Float(value.float()?.exp()),
        ("log", value) => Value::Float(value.float()?.ln()),
        ("str", value) => Value::text(&match value {
            Value::Int(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            _ => return None,
        }),
        _ => return None,
    })
}
