//! The overload of an operator: the first whose arguments have the types of the values, without conversions if possible.

use lodstone_model::{AttributeValue, ValueType};
use lodstone_schema::torch::{Argument as Formal, Operator, overloads, script_type};

use super::emit::Argument;
use super::evaluator::{Evaluator, Outcome};
use super::value::{Type, Value};

/// The names of layouts, by their number in code.
const LAYOUTS: &[&str] = &[
    "strided",
    "sparse_coo",
    "sparse_csr",
    "mkldnn",
    "sparse_csc",
    "sparse_bsr",
    "sparse_bsc",
    "jagged",
];

/// The names of memory formats, by their number in code.
const MEMORY_FORMATS: &[&str] =
    &["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"];

/// The values of a call, by the arguments of an overload; `None` is left to its default.
type Matched = Vec<Option<Value>>;

impl Evaluator<'_> {
    /// Returns the overload of an operator for the arguments of a call.
    pub(super) fn resolve(
        &self,
        name: &str,
        given: &[Value],
        named: &[(String, Value)],
    ) -> Outcome<(&'static Operator, Matched)> {
        let all = overloads(name);
        if all.is_empty() {
            return Err(self.failure(format!("the operator `{name}` is unknown")));
        }
        for converts in [false, true] {
            for schema in all {
                if let Some(matched) = self.matched(schema, given, named, converts) {
                    return Ok((schema, matched));
                }
            }
        }
        let mut kinds: Vec<String> = given.iter().map(|value| self.described(value)).collect();
        kinds
            .extend(named.iter().map(|(name, value)| format!("{name}: {}", self.described(value))));
        Err(self.failure(format!("no overload of `{name}` takes ({})", kinds.join(", "))))
    }

    fn described(&self, value: &Value) -> String {
        match self.items(value) {
            Some(items) => {
                let kinds = items.iter().take(4).map(Value::kind).collect::<Vec<_>>();
                format!("{}[{}]", value.kind(), kinds.join(", "))
            }
            None => value.kind().to_owned(),
        }
    }

    fn matched(
        &self,
        schema: &'static Operator,
        given: &[Value],
        named: &[(String, Value)],
        converts: bool,
    ) -> Option<Matched> {
        let mut matched = Vec::new();
        let mut positional = given.iter();
        let mut used = 0;
        for formal in &schema.arguments {
            let by_name = named.iter().find(|(name, _)| *name == formal.name);
            let value = match by_name {
                Some((_, value)) => {
                    used += 1;
                    Some(value)
                }
                None if formal.is_keyword_only => None,
                None => positional.next(),
            };
            match value {
                Some(value) => {
                    if !self.fits(&formal.kind, value, converts) {
                        return None;
                    }
                    matched.push(Some(value.clone()));
                }
                None if formal.default.is_some()
                    || formal.kind.ends_with('?') && formal.default.is_some() =>
                {
                    matched.push(None);
                }
                None => return None,
            }
        }
        (positional.next().is_none() && used == named.len()).then_some(matched)
    }

    /// Whether a value has a type of the schema.
    fn fits(&self, kind: &str, value: &Value, converts: bool) -> bool {
        if let Some(inner) = kind.strip_suffix('?') {
            return matches!(value, Value::None) || self.fits(inner, value, converts);
        }
        if let Some((element, count)) = list_of(kind) {
            return self.fits_list(element, count, value, converts);
        }
        match kind {
            "Tensor" => matches!(value, Value::Tensor(_)),
            "int" | "SymInt" | "ScalarType" | "Layout" | "MemoryFormat" => {
                matches!(value, Value::Int(_) | Value::Number(_, Type::Int))
                    || converts && matches!(value, Value::Tensor(_) | Value::Bool(_))
            }
            "float" | "SymFloat" => {
                matches!(value, Value::Float(_) | Value::Number(_, Type::Float))
                    || converts
                        && matches!(
                            value,
                            Value::Int(_) | Value::Number(_, Type::Int) | Value::Tensor(_)
                        )
            }
            "bool" | "SymBool" => {
                matches!(value, Value::Bool(_) | Value::Number(_, Type::Bool))
                    || converts && matches!(value, Value::Tensor(_))
            }
            "Scalar" => {
                matches!(
                    value,
                    Value::Int(_)
                        | Value::Float(_)
                        | Value::Complex(..)
                        | Value::Number(..)
                        | Value::Bool(_)
                ) || converts && matches!(value, Value::Tensor(_))
            }
            "complex" => matches!(value, Value::Complex(..)),
            "str" => matches!(value, Value::Text(_)),
            "Device" => {
                matches!(value, Value::Device(_)) || converts && matches!(value, Value::Text(_))
            }
            "Generator" | "Dimname" | "Storage" | "Stream" => false,
            "t" | "Any" => true,
            "AnyEnumType" => matches!(value, Value::Member(..)),
            _ if kind.starts_with("Dict(") => matches!(value, Value::Dict(_)),
            _ => matches!(value, Value::Object(_) | Value::Instance(_)),
        }
    }

    fn fits_list(&self, element: &str, count: Option<&str>, value: &Value, converts: bool) -> bool {
        match value {
            Value::List(_) if self.sequence_of(value).is_some() => element == "Tensor",
            Value::Sizes(_) => matches!(element, "int" | "SymInt"),
            Value::Results(..) => element == "Tensor",
            _ => match self.items(value) {
                Some(items) => items.iter().all(|item| self.fits(element, item, converts)),
                // A number stands for a list with a number for each dim.
                None => {
                    count.is_some_and(|count| !count.is_empty())
                        && self.fits(element, value, converts)
                }
            },
        }
    }

    /// Returns the arguments of an operator as it holds them.
    pub(super) fn bound(
        &mut self,
        schema: &'static Operator,
        matched: Matched,
    ) -> Outcome<Vec<(String, Argument)>> {
        let mut arguments = Vec::new();
        for (formal, value) in schema.arguments.iter().zip(matched) {
            let Some(value) = value else { continue };
            if let Some(argument) = self.argument(formal, &value)? {
                arguments.push((formal.name.to_owned(), argument));
            }
        }
        Ok(arguments)
    }

    fn argument(&mut self, formal: &Formal, value: &Value) -> Outcome<Option<Argument>> {
        let kind = formal.kind.trim_end_matches('?');
        let constant = |value| Ok(Some(Argument::Constant(value)));
        if matches!(value, Value::None) {
            return constant(AttributeValue::None);
        }
        if let Some((element, count)) = list_of(kind) {
            return self.list_argument(element.trim_end_matches('?'), count, value).map(Some);
        }
        let is_type = kind == "ScalarType" || formal.name == "dtype" && kind == "int";
        match (kind, value) {
            (_, Value::Int(code)) if is_type => {
                let dtype = script_type(*code);
                let dtype = dtype
                    .ok_or_else(|| self.failure(format!("the element type {code} is unknown")))?;
                constant(AttributeValue::Type(Box::new(ValueType::Scalar(dtype))))
            }
            ("Layout", Value::Int(code)) => self.word(LAYOUTS, *code).map(Some),
            ("MemoryFormat", Value::Int(code)) => self.word(MEMORY_FORMATS, *code).map(Some),
            (_, Value::Device(text) | Value::Text(text)) => {
                constant(AttributeValue::String((&**text).into()))
            }
            ("float", value) if value.float().is_some() => {
                constant(AttributeValue::Double(value.float().unwrap_or_default()))
            }
            (_, Value::Bool(value)) => constant(AttributeValue::Bool(*value)),
            (_, Value::Int(value)) => constant(AttributeValue::Long(*value)),
            (_, Value::Float(value)) => constant(AttributeValue::Double(*value)),
            (_, Value::Tensor(name)) if kind == "Tensor" => {
                Ok(Some(Argument::Values(vec![name.to_string()])))
            }
            // A tensor of one element where a number is expected.
            (_, Value::Tensor(_)) => {
                let scalar = match kind {
                    "int" | "SymInt" => Type::Int,
                    "bool" | "SymBool" => Type::Bool,
                    _ => Type::Float,
                };
                let number = self.number_of(value, scalar)?;
                let name = self.variable(&number)?;
                Ok(Some(Argument::Values(vec![name.to_string()])))
            }
            (_, Value::Number(name, _)) => Ok(Some(Argument::Values(vec![name.to_string()]))),
            _ => Err(self.failure(format!("the argument `{}` is a {}", formal.name, value.kind()))),
        }
    }

    fn word(&self, words: &[&str], code: i64) -> Outcome<Argument> {
        let word = usize::try_from(code).ok().and_then(|code| words.get(code));
        let word = word.ok_or_else(|| self.failure(format!("the code {code} is unknown")))?;
        Ok(Argument::Constant(AttributeValue::String((*word).into())))
    }

    fn list_argument(
        &mut self,
        element: &str,
        count: Option<&str>,
        value: &Value,
    ) -> Outcome<Argument> {
        if let Value::Sizes(tensor) = value {
            let arguments = vec![("self".to_owned(), Argument::Values(vec![tensor.to_string()]))];
            let made = self.simple("aten::size", arguments, None)?;
            let name = self.variable(&made)?;
            return Ok(Argument::Values(vec![name.to_string()]));
        }
        if let Some(name) = self.sequence_of(value) {
            return Ok(Argument::Values(vec![name.to_string()]));
        }
        if matches!(value, Value::Results(..)) {
            return Err(self.failure("a list of unknown length is an argument"));
        }
        let items = match self.items(value) {
            Some(items) => items,
            None => {
                // A list of any length has the value once.
                let times = count.and_then(|count| count.parse().ok()).unwrap_or(1);
                vec![value.clone(); usize::min(times, 8)]
            }
        };
        if element == "Tensor" || items.iter().any(Value::is_computed) {
            let mut names = Vec::new();
            for item in &items {
                names.push(match item {
                    Value::None => String::new(),
                    Value::Tensor(_) if element != "Tensor" => {
                        let scalar = if element == "float" { Type::Float } else { Type::Int };
                        let number = self.number_of(item, scalar)?;
                        self.variable(&number)?.to_string()
                    }
                    item => self.variable(item)?.to_string(),
                });
            }
            return Ok(Argument::Values(names));
        }
        let wrong = || self.failure(format!("a list of `{element}` has other elements"));
        let all = |value: Option<AttributeValue>| value.map(Argument::Constant).ok_or_else(wrong);
        match element {
            "int" | "SymInt" | "t" | "Any" => {
                let items = items.iter().map(Value::int).collect::<Option<Vec<_>>>();
                all(items.map(AttributeValue::Longs))
            }
            "float" | "Scalar" => {
                let items = items.iter().map(Value::float).collect::<Option<Vec<_>>>();
                all(items.map(AttributeValue::Doubles))
            }
            "bool" => {
                let truth = |item: &Value| match item {
                    Value::Bool(value) => Some(*value),
                    _ => None,
                };
                all(items.iter().map(truth).collect::<Option<Vec<_>>>().map(AttributeValue::Bools))
            }
            _ => Err(wrong()),
        }
    }

    /// Returns the number in a tensor of one element.
    pub(super) fn number_of(&mut self, value: &Value, scalar: Type) -> Outcome {
        let name = self.variable(value)?;
        let kind = match scalar {
            Type::Bool => "aten::Bool.Tensor",
            Type::Int => "aten::Int.Tensor",
            Type::Float => "aten::Float.Tensor",
        };
        let arguments = vec![("a".to_owned(), Argument::Values(vec![name.to_string()]))];
        self.simple(kind, arguments, Some(scalar))
    }
}

/// Returns the element type of a list type, and its number of elements if the type has one: `int[2]`.
fn list_of(kind: &str) -> Option<(&str, Option<&str>)> {
    let (element, count) = kind.strip_suffix(']')?.rsplit_once('[')?;
    Some((element, Some(count).filter(|count| !count.is_empty())))
}
