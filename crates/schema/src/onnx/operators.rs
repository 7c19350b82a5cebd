//! The operators of ONNX, every version of each, as a table.
//!
//! An operator of a program is the newest version that its set of operators, by the version that the
//! program imports, has: a set of version 12 has `Clip` of 12, and `Add` of 7.
//!
//! | column | what is in it |
//! |---|---|
//! | domain, kind, since | which operator it is, and the first version of its set that has it so |
//! | flags | `deprecated`, `experimental`, `function` |
//! | inputs, outputs | `name:type`; `?` may be left out, `*` any number, `~` of different types |
//! | their numbers | `least-most`, or those that are allowed |
//! | attributes | `name:TYPE`, `!` if there has to be one, `=default` |
//! | types | `T=n`: T is one of the types in line n of `onnx_types.tsv` |
//!
//! Source of truth: the registry of onnx 1.23.2, by `data/make_onnx_operators.py`.

use std::collections::HashMap;
use std::sync::LazyLock;

use lodstone_model::AttributeValue;

/// A version of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The set that it belongs to: `ai.onnx`.
    pub domain: &'static str,
    /// What it is called: `Conv`.
    pub kind: &'static str,
    /// The first version of the set that has it like this.
    pub since: i64,
    /// Whether that version says that there is no such operator any more.
    pub deprecated: bool,
    /// Whether it may be changed without a new version.
    pub experimental: bool,
    /// Whether it is defined by other operators.
    pub is_function: bool,
    /// What it reads, in order.
    pub inputs: Vec<Formal>,
    /// How many it may be given.
    pub input_count: Count,
    /// What it writes, in order.
    pub outputs: Vec<Formal>,
    /// How many it may be given.
    pub output_count: Count,
    /// Its attributes, sorted by name.
    pub attributes: Vec<Parameter>,
    /// What names of types stand for.
    pub types: Vec<(&'static str, &'static [&'static str])>,
}

/// An input or output of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formal {
    /// What it is called: `scale`.
    pub name: &'static str,
    /// The name of its types, or a type: `T`, `tensor(int64)`.
    pub types: &'static str,
    /// Whether it has to be there.
    pub presence: Presence,
    /// Whether several of it, and all others of that name of types, have to be of the same type.
    pub homogeneous: bool,
}

/// Whether an input or output has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has to.
    Single,
    /// It may be left out.
    Optional,
    /// It stands for any number of them.
    Variadic,
}

/// Numbers of inputs or outputs that are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// At least so many.
    From(usize),
    /// Between two numbers, both allowed.
    Between(usize, usize),
    /// These.
    Of(Vec<usize>),
}

/// An attribute of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// What it is called: `axis`.
    pub name: &'static str,
    /// The name of its type: `INTS`.
    pub kind: &'static str,
    /// Whether it has to be there.
    pub required: bool,
    /// What it is if it is not there, if that is said.
    pub default: Option<AttributeValue>,
}

/// Every version of every operator, by kind, each in the order of the versions.
static OPERATORS: LazyLock<HashMap<&str, Vec<Operator>>> = LazyLock::new(|| {
    let mut operators: HashMap<_, Vec<Operator>> = HashMap::new();
    for operator in include_str!("../../data/onnx_operators.tsv").lines().map(parse) {
        operators.entry(operator.kind).or_default().push(operator);
    }
    operators
});

/// The name of a set of operators, by which programs may also leave it out.
pub fn domain_name(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

/// The operator `kind` of `domain` as version `opset` of that set has it; `None` if it has none.
pub fn operator(domain: &str, kind: &str, opset: i64) -> Option<&'static Operator> {
    versions(domain, kind).take_while(|operator| operator.since <= opset).last()
}

/// All versions of an operator, oldest first.
pub fn versions(domain: &str, kind: &str) -> impl Iterator<Item = &'static Operator> {
    let all: &[Operator] = OPERATORS.get(kind).map_or(&[], Vec::as_slice);
    let is_of = move |operator: &&Operator| operator.domain == domain_name(domain);
    // Chosen here, so that what is given does not keep the name.
    all.iter().filter(is_of).collect::<Vec<_>>().into_iter()
}

/// All versions of all operators.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.values().flatten()
}

impl Operator {
    /// The types that a name stands for; a type stands for itself.
    pub fn types_of(&self, name: &str) -> Option<&'static [&'static str]> {
        self.types.iter().find(|(known, _)| *known == name).map(|(_, types)| *types)
    }

    /// The attribute called `name`.
    pub fn attribute(&self, name: &str) -> Option<&Parameter> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// What input number `index` is; the last may stand for several.
    pub fn input(&self, index: usize) -> Option<&Formal> {
        nth(&self.inputs, index)
    }

    /// What output number `index` is; the last may stand for several.
    pub fn output(&self, index: usize) -> Option<&Formal> {
        nth(&self.outputs, index)
    }
}

fn nth(formals: &[Formal], index: usize) -> Option<&Formal> {
    let several = || formals.last().filter(|last| last.presence == Presence::Variadic);
    formals.get(index).or_else(several)
}

impl Count {
    /// Whether `number` is allowed.
    pub fn admits(&self, number: usize) -> bool {
        match self {
            Self::From(least) => number >= *least,
            Self::Between(least, most) => (*least..=*most).contains(&number),
            Self::Of(allowed) => allowed.contains(&number),
        }
    }
}

/// `2`, `2 to 4`, `2 or more`, `1 or 5`.
impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::From(least) => write!(f, "{least} or more"),
            Self::Between(least, most) if least == most => write!(f, "{least}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::Of(allowed) => {
                let allowed: Vec<_> = allowed.iter().map(usize::to_string).collect();
                f.write_str(&allowed.join(" or "))
            }
        }
    }
}

fn parse(line: &'static str) -> Operator {
    let mut columns = line.split('\t');
    let mut column = || columns.next().unwrap_or_default();
    let (domain, kind, since, flags) = (column(), column(), column(), column());
    let (inputs, input_count) = (formals(column()), count(column()));
    let (outputs, output_count) = (formals(column()), count(column()));
    let attributes = column().split_whitespace().map(parameter).collect();
    let is = |flag| flags.split(' ').any(|known| known == flag);
    Operator {
        domain,
        kind,
        since: since.parse().unwrap_or(i64::MAX),
        deprecated: is("deprecated"),
        experimental: is("experimental"),
        is_function: is("function"),
        inputs,
        input_count,
        outputs,
        output_count,
        attributes,
        types: column().split_whitespace().map(type_set).collect(),
    }
}

fn formals(words: &'static str) -> Vec<Formal> {
    let formal = |word: &'static str| {
        let (name, types) = word.split_once(':').unwrap_or((word, ""));
        let presence = match (name.contains('?'), name.contains('*')) {
            (true, _) => Presence::Optional,
            (_, true) => Presence::Variadic,
            _ => Presence::Single,
        };
        let homogeneous = !name.ends_with('~');
        Formal { name: name.trim_end_matches(['?', '*', '~']), types, presence, homogeneous }
    };
    words.split_whitespace().map(formal).collect()
}

fn count(word: &str) -> Count {
    let number = |text: &str| text.parse().unwrap_or(usize::MAX);
    match word.split_once('-') {
        Some((least, "*")) => Count::From(number(least)),
        Some((least, most)) => Count::Between(number(least), number(most)),
        None => Count::Of(word.split(',').map(number).collect()),
    }
}

fn parameter(word: &'static str) -> Parameter {
    let (said, default) = match word.split_once('=') {
        Some((said, default)) => (said, Some(default)),
        None => (word, None),
    };
    let required = said.ends_with('!');
    let (name, kind) = said.trim_end_matches('!').split_once(':').unwrap_or((said, ""));
    let default = default.and_then(|default| value(kind, default));
    Parameter { name, kind, required, default }
}

fn value(kind: &str, text: &str) -> Option<AttributeValue> {
    fn all<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
        text.split(',').map(|word| word.parse().ok()).collect()
    }
    Some(match kind {
        "INT" => AttributeValue::Long(text.parse().ok()?),
        "FLOAT" => AttributeValue::Float(text.parse().ok()?),
        "STRING" => AttributeValue::String(text.into()),
        "INTS" => AttributeValue::Longs(all(text)?),
        "FLOATS" => AttributeValue::Floats(all(text)?),
        "STRINGS" => AttributeValue::Strings(text.split(',').map(Into::into).collect()),
        _ => return None,
    })
}

fn type_set(word: &'static str) -> (&'static str, &'static [&'static str]) {
    static SETS: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| {
        let lines = include_str!("../../data/onnx_types.tsv").lines();
        lines.map(|line| line.split(' ').collect()).collect()
    });
    let (name, number) = word.split_once('=').unwrap_or((word, ""));
    let set = number.parse().ok().and_then(|number: usize| SETS.get(number));
    (name, set.map_or(&[], Vec::as_slice))
}
