//! The operators of ONNX, every version of each, as a table.
//!
//! An operator of a program is the newest version that exists in the opset version that the program imports: opset 12
//! has `Clip` of 12, and `Add` of 7.
//!
//! | column | contents |
//! |---|---|
//! | domain, kind, since | the operator, and the first version of its opset that has it in this form |
//! | flags | `deprecated`, `experimental`, `function` |
//! | inputs, outputs | `name:type`; `?` optional, `*` any number, `~` of different types |
//! | their numbers | `least-most`, or those that are allowed |
//! | attributes | `name:TYPE`, `!` if it is required, `=default` |
//! | types | `T=n`: T is one of the types in line n of `onnx_types.tsv` |
//!
//! Source of truth: the registries of onnx 1.23.2 and, for `com.microsoft`, onnxruntime 1.31.1, by
//! `data/make_onnx_operators.py`.
//!
//! Neither registry has the values that an attribute may have. They are in `onnx_values.tsv`:
//!
//! | column | contents |
//! |---|---|
//! | domain, attribute | |
//! | operators | those whose attribute has these values; `Kind@N`: from version N on |
//! | values | all that are allowed, of a list for each element; `""` is the empty text |
//!
//! Source of truth: `docs/Operators.md` of onnx 1.23.2, and the kernels of onnxruntime 1.31.1, in which
//! `interop/onnx_values.py` tries each value and another one.

use std::collections::HashMap;
use std::sync::LazyLock;

use lodstone_model::AttributeValue;

use crate::closed;
use crate::rows::Rows;

/// A version of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The domain of its opset: `ai.onnx`.
    pub domain: &'static str,
    /// The name of the operator: `Conv`.
    pub kind: &'static str,
    /// The first version of the opset that has it in this form.
    pub since: i64,
    /// Whether this version removes the operator.
    pub deprecated: bool,
    /// Whether it may change without a new version.
    pub experimental: bool,
    /// Whether it is defined in terms of other operators.
    pub is_function: bool,
    /// The inputs, in order.
    pub inputs: Vec<Formal>,
    /// The allowed number of inputs.
    pub input_count: Count,
    /// The outputs, in order.
    pub outputs: Vec<Formal>,
    /// The allowed number of outputs.
    pub output_count: Count,
    /// Its attributes, sorted by name.
    pub attributes: Vec<AttributeSpec>,
    /// The type variables, and the types that each stands for.
    pub types: Vec<(&'static str, &'static [&'static str])>,
}

/// An input or output of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formal {
    /// The name: `scale`.
    pub name: &'static str,
    /// The type variable, or the type: `T`, `tensor(int64)`.
    pub types: &'static str,
    /// Whether it is required.
    pub presence: Presence,
    /// Whether all values that it stands for, and all others with the same type variable, have the same type.
    pub homogeneous: bool,
}

/// Whether an input or output is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is required.
    Single,
    /// It may be omitted.
    Optional,
    /// It stands for any number of values.
    Variadic,
}

/// The allowed numbers of inputs or outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// At least this number.
    From(usize),
    /// Between two numbers, inclusive.
    Between(usize, usize),
    /// Exactly these numbers.
    Of(Vec<usize>),
}

/// An attribute of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeSpec {
    /// The name: `axis`.
    pub name: &'static str,
    /// The name of the type: `INTS`.
    pub kind: &'static str,
    /// Whether it is required.
    pub required: bool,
    /// The default, if there is one.
    pub default: Option<AttributeValue>,
    /// The allowed values of the attribute or of its elements; `None` if they are not a closed set.
    pub values: Option<&'static [&'static str]>,
}

/// Every version of every operator, by kind, each in the order of the versions.
static OPERATORS: LazyLock<Rows<Vec<Operator>>> = LazyLock::new(|| {
    let table = include_str!("../../data/onnx_operators.tsv");
    Rows::new(table, 1, |lines| lines.filter_map(parse).collect())
});

/// The first version that has a set of values, and the set.
type Values = (i64, Vec<&'static str>);

/// The allowed values of attributes by domain, operator and attribute, the newest set first.
static VALUES: LazyLock<HashMap<[&str; 3], Vec<Values>>> = LazyLock::new(|| {
    let mut sets: HashMap<[&str; 3], Vec<Values>> = HashMap::new();
    for row in closed::rows(include_str!("../../data/onnx_values.tsv")) {
        for kind in row.operators {
            let (kind, since) = kind.split_once('@').unwrap_or((kind, "1"));
            let Ok(since) = since.parse() else { continue };
            let of_attribute = sets.entry([row.before, kind, row.attribute]).or_default();
            of_attribute.push((since, row.values.clone()));
            of_attribute.sort_by_key(|(since, _)| std::cmp::Reverse(*since));
        }
    }
    sets
});

/// Returns the canonical name of a domain; programs may also leave out the name of ONNX's own.
pub fn domain_name(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

/// Operators that ONNX Runtime also writes into opsets of ONNX that do not have them.
const OF_RUNTIME: [&str; 2] = ["LayerNormalization", "SimplifiedLayerNormalization"];

/// Returns whether ONNX Runtime writes this operator into any opset of ONNX.
pub(super) fn is_of_runtime(domain: &str, kind: &str) -> bool {
    domain_name(domain) == "ai.onnx" && OF_RUNTIME.contains(&kind)
}

/// Returns the operator `kind` of `domain` in version `opset` of the opset; `None` if it has none.
pub fn operator(domain: &str, kind: &str, opset: i64) -> Option<&'static Operator> {
    versions(domain, kind).take_while(|operator| operator.since <= opset).last()
}

/// Returns all versions of an operator, oldest first.
pub fn versions(domain: &str, kind: &str) -> impl Iterator<Item = &'static Operator> {
    let all: &[Operator] = OPERATORS.get(kind).map_or(&[], Vec::as_slice);
    let is_of = move |operator: &&Operator| operator.domain == domain_name(domain);
    // Resolved here, so that the returned iterator does not borrow the name.
    all.iter().filter(is_of).collect::<Vec<_>>().into_iter()
}

/// Returns all versions of all operators.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.all().flatten()
}

impl Operator {
    /// Returns the types that a type variable stands for.
    pub fn types_of(&self, name: &str) -> Option<&'static [&'static str]> {
        self.types.iter().find(|(known, _)| *known == name).map(|(_, types)| *types)
    }

    /// Returns the attribute `name`.
    pub fn attribute(&self, name: &str) -> Option<&AttributeSpec> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Returns the declaration of input `index`; the last one may stand for several inputs.
    pub fn input(&self, index: usize) -> Option<&Formal> {
        nth(&self.inputs, index)
    }

    /// Returns the declaration of output `index`; the last one may stand for several outputs.
    pub fn output(&self, index: usize) -> Option<&Formal> {
        nth(&self.outputs, index)
    }
}

fn nth(formals: &[Formal], index: usize) -> Option<&Formal> {
    let several = || formals.last().filter(|last| last.presence == Presence::Variadic);
    formals.get(index).or_else(several)
}

impl Count {
    /// Whether a number of inputs or outputs is allowed.
    pub fn admits(&self, number: usize) -> bool {
        match self {
            Self::From(least) => number >= *least,
            Self::Between(least, most) => (*least..=*most).contains(&number),
            Self::Of(allowed) => allowed.contains(&number),
        }
    }
}

/// Formats as `2`, `2 to 4`, `2 or more` or `1 or 5`.
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

/// Parses a row; `None` if a number is none, which a test excludes.
fn parse(line: &'static str) -> Option<Operator> {
    let mut columns = line.split('\t');
    let mut column = || columns.next().unwrap_or_default();
    let (domain, kind, since, flags) = (column(), column(), column(), column());
    let (inputs, input_count) = (formals(column()), count(column())?);
    let (outputs, output_count) = (formals(column()), count(column())?);
    let since = since.parse().ok()?;
    let of_operator = |word| parameter(word, domain, kind, since);
    let attributes = column().split_whitespace().map(of_operator).collect();
    let is = |flag| flags.split(' ').any(|known| known == flag);
    Some(Operator {
        domain,
        kind,
        since,
        deprecated: is("deprecated"),
        experimental: is("experimental"),
        is_function: is("function"),
        inputs,
        input_count,
        outputs,
        output_count,
        attributes,
        types: column().split_whitespace().map(type_set).collect(),
    })
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

fn count(word: &str) -> Option<Count> {
    let number = |text: &str| text.parse().ok();
    Some(match word.split_once('-') {
        Some((least, "*")) => Count::From(number(least)?),
        Some((least, most)) => Count::Between(number(least)?, number(most)?),
        None => Count::Of(word.split(',').map(number).collect::<Option<_>>()?),
    })
}

fn parameter(
    word: &'static str,
    domain: &'static str,
    operator: &'static str,
    since: i64,
) -> AttributeSpec {
    let (declaration, default) = match word.split_once('=') {
        Some((declaration, default)) => (declaration, Some(default)),
        None => (word, None),
    };
    let required = declaration.ends_with('!');
    let (name, kind) =
        declaration.trim_end_matches('!').split_once(':').unwrap_or((declaration, ""));
    let default = default.and_then(|default| value(kind, default));
    let values = VALUES.get(&[domain, operator, name]).and_then(|sets| {
        let (_, values) = sets.iter().find(|(first, _)| *first <= since)?;
        Some(values.as_slice())
    });
    AttributeSpec { name, kind, required, default, values }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that is none would leave out a row.
    #[test]
    fn every_row_is_read() {
        let table = include_str!("../../data/onnx_operators.tsv");
        assert_eq!(operators().count(), table.lines().count());
        for row in closed::rows(include_str!("../../data/onnx_values.tsv")) {
            for (kind, since) in row.operators.filter_map(|kind| kind.split_once('@')) {
                assert!(since.parse::<i64>().is_ok(), "{kind}@{since}");
            }
        }
    }
}
