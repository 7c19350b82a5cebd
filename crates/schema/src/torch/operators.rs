//! The schemas of operators: arguments with types and defaults, and results.

use std::collections::HashMap;
use std::sync::LazyLock;

/// An overload of an operator.
#[derive(Debug)]
pub struct Operator {
    /// The name with its namespace: `aten::add`.
    pub name: &'static str,
    /// The overload; empty for the default one.
    pub overload: &'static str,
    /// The arguments, in order.
    pub arguments: Vec<Argument>,
    /// The results, in order.
    pub results: Vec<Returned>,
}

/// An argument of an operator.
#[derive(Debug)]
pub struct Argument {
    /// The name.
    pub name: &'static str,
    /// The type, as PyTorch prints it without annotations of aliases: `Tensor?`, `SymInt[2]`.
    pub kind: String,
    /// The default, as PyTorch prints it.
    pub default: Option<&'static str>,
    /// Whether it is passed by name only.
    pub is_keyword_only: bool,
    /// Whether the operator writes to it.
    pub is_written: bool,
}

/// A result of an operator.
#[derive(Debug)]
pub struct Returned {
    /// The name; empty for most.
    pub name: &'static str,
    /// The type, without annotations of aliases.
    pub kind: String,
    /// Whether it is a view of an argument, or the argument itself.
    pub is_alias: bool,
}

/// All overloads by name, those of an operator together and in the order of their names.
static OPERATORS: LazyLock<HashMap<&str, Vec<Operator>>> = LazyLock::new(|| {
    let mut operators: HashMap<&str, Vec<Operator>> = HashMap::new();
    for operator in include_str!("../../data/torch_operators.tsv").lines().filter_map(parse) {
        operators.entry(operator.name).or_default().push(operator);
    }
    operators
});

/// Returns the schema of an overload: `aten::add.Tensor`, `aten::relu`.
pub fn operator(kind: &str) -> Option<&'static Operator> {
    let (name, overload) = kind.split_once('.').unwrap_or((kind, ""));
    overloads(name).iter().find(|operator| operator.overload == overload)
}

/// Returns all overloads of an operator; none if it does not exist.
pub fn overloads(name: &str) -> &'static [Operator] {
    OPERATORS.get(name).map_or(&[], Vec::as_slice)
}

fn parse(line: &'static str) -> Option<Operator> {
    let mut columns = line.split('\t');
    let (name, arguments, results) = (columns.next()?, columns.next()?, columns.next()?);
    let (name, overload) = name.split_once('.').unwrap_or((name, ""));
    let mut is_keyword_only = false;
    let mut all = Vec::new();
    for part in parts(arguments) {
        if part == "*" {
            is_keyword_only = true;
            continue;
        }
        let (kind, rest) = typed(part)?;
        let (name, default) =
            rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value)));
        let is_written = part.get(..part.len() - rest.len()).is_some_and(|kind| kind.contains('!'));
        all.push(Argument { name, kind, default, is_keyword_only, is_written });
    }
    let inner = results.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    let is_list = |inner: &&str| {
        // `(Tensor a, Tensor b)`, but not `Tensor(a)` or `Dict(str, t)`.
        results.starts_with('(') && !inner.starts_with(')')
    };
    let results = inner.filter(is_list).map_or_else(|| vec![results], parts);
    let results = results.into_iter().filter_map(|part| {
        let (kind, name) = typed(part)?;
        Some(Returned { name, kind, is_alias: part.contains("(a") || part.contains("(b") })
    });
    Some(Operator { name, overload, arguments: all, results: results.collect() })
}

/// Splits at commas outside brackets and quotes.
fn parts(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut quoted, mut start, mut all) = (0_i32, false, 0, Vec::new());
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'(' | b'[' if !quoted => depth += 1,
            b')' | b']' if !quoted => depth -= 1,
            b',' if depth == 0 && !quoted => {
                all.extend(text.get(start..place));
                start = place + 1;
            }
            _ => {}
        }
    }
    all.extend(text.get(start..));
    all.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Splits a declaration into its type, without annotations of aliases, and its name with what follows.
fn typed(part: &'static str) -> Option<(String, &'static str)> {
    let mut depth = 0_i32;
    let end = part.bytes().position(|byte| {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            _ => {}
        }
        byte == b' ' && depth == 0
    });
    let (kind, rest) = match end {
        Some(end) => (part.get(..end)?, part.get(end + 1..)?),
        None => (part, ""),
    };
    let mut plain = String::new();
    let mut rest_of = kind;
    while let Some(open) = rest_of.find('(') {
        let close = rest_of.get(open..)?.find(')')? + open;
        let inner = rest_of.get(open..=close)?;
        plain.push_str(rest_of.get(..open)?);
        // `(a!)`, `(a -> *)` and `(*)` are aliases; `Dict(str, int)` is a type.
        if inner.contains(',') {
            plain.push_str(inner);
        }
        rest_of = rest_of.get(close + 1..)?;
    }
    plain.push_str(rest_of);
    Some((plain, rest))
}

#[cfg(test)]
#[expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn schemas_have_types_defaults_and_aliases() {
        let add = operator("aten::add.Tensor").expect("a schema");
        let names: Vec<&str> = add.arguments.iter().map(|it| it.name).collect();
        assert_eq!(names, ["self", "other", "alpha"]);
        let alpha = &add.arguments[2];
        assert_eq!((alpha.kind.as_str(), alpha.default), ("Scalar", Some("1")));
        assert!(alpha.is_keyword_only && !add.arguments[1].is_keyword_only);
        let split = operator("aten::split.Tensor").expect("a schema");
        assert_eq!(split.arguments[0].kind, "Tensor");
        assert_eq!(split.results[0].kind, "Tensor[]");
        assert!(split.results[0].is_alias);
        let max = operator("aten::max.dim").expect("a schema");
        assert_eq!(max.results.iter().map(|it| it.name).collect::<Vec<_>>(), ["values", "indices"]);
        let fill = operator("aten::fill_.Scalar").expect("a schema");
        assert!(fill.arguments[0].is_written && !fill.arguments[1].is_written);
        assert_eq!(
            operator("aten::pad").expect("a schema").arguments[2].default,
            Some("\"constant\"")
        );
        assert!(operator("aten::add.Nothing").is_none());
        assert!(overloads("aten::add").len() > 2);
    }

    #[test]
    fn each_row_of_the_table_is_a_schema() {
        let rows = include_str!("../../data/torch_operators.tsv").lines().count();
        assert_eq!(OPERATORS.values().map(Vec::len).sum::<usize>(), rows);
        let wrong: Vec<_> = OPERATORS
            .values()
            .flatten()
            .filter(|it| it.arguments.iter().any(|it| it.name.is_empty() || it.kind.contains("(a")))
            .map(|it| (it.name, it.overload))
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
