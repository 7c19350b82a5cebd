//! PIR's operators: a row for each of `pd_op`, with the operator of a `ProgramDesc` that it corresponds to.
//!
//! | column | contents |
//! |---|---|
//! | name | `conv2d`, without `pd_op.`; `relu_`, which works in place, has the row of `relu` |
//! | kind | the operator of a `ProgramDesc`, `-` for none |
//! | operands | in order: `x=X` is the slot `X`; `shape@shape,Shape,ShapeTensor*` the attribute `shape`, or, if it is computed, the slot `Shape`, or `ShapeTensor` for a list of numbers |
//! | results | in order: `out=Out`; `out=Out&x` overwrites the operand `x` if the operator works in place |
//! | attributes | `axis`; `keepdim=keep_dim` has another name in a `ProgramDesc` |
//!
//! Names are followed by `?` if the value may be absent, and by `*` if it is a list of values. A slot without a name
//! has no counterpart.
//!
//! Source of truth: the registry of 3.3.1, by `data/make_pir_operators.py`.

use std::sync::LazyLock;

use super::OWN;
use crate::rows::Rows;

static OPERATORS: LazyLock<Rows<Option<Operator>>> = LazyLock::new(|| {
    let table = include_str!("../../data/pir_operators.tsv");
    Rows::new(table, 0, |lines| Operator::parse(lines.next()?))
});

/// An operator of PIR.
#[derive(Debug)]
pub struct Operator {
    /// The name, without the underscore of operators that work in place.
    pub name: &'static str,
    /// The operator of a `ProgramDesc` that it corresponds to.
    pub kind: Option<&'static str>,
    /// The operands, in order.
    pub operands: Vec<Operand>,
    /// The results, in order.
    pub results: Vec<Result>,
    /// The attributes, in order.
    pub attributes: Vec<Attribute>,
}

/// An operand.
#[derive(Debug)]
pub struct Operand {
    /// The name: `x`.
    pub name: &'static str,
    /// Whether it may be absent.
    pub optional: bool,
    /// Whether it is a list of values.
    pub several: bool,
    /// What it corresponds to.
    pub kind: OperandKind,
}

/// What an operand corresponds to.
#[derive(Debug)]
pub enum OperandKind {
    /// An input slot; `None` if there is no counterpart.
    Slot(Option<&'static str>),
    /// An attribute that may be computed.
    Attribute {
        /// The name of the attribute.
        name: &'static str,
        /// The slot of a computed tensor.
        tensor: Option<&'static str>,
        /// The slot of a computed list of numbers.
        list: Option<&'static str>,
    },
}

/// A result.
#[derive(Debug)]
pub struct Result {
    /// The name: `out`.
    pub name: &'static str,
    /// Whether it is a list of values.
    pub several: bool,
    /// The output slot; `None` if there is no counterpart.
    pub slot: Option<&'static str>,
    /// The index of the operand that it overwrites if the operator works in place.
    pub overwrites: Option<usize>,
}

/// An attribute.
#[derive(Debug)]
pub struct Attribute {
    /// The name in PIR.
    pub name: &'static str,
    /// The name in a `ProgramDesc`.
    pub paddle: &'static str,
}

/// Returns the row of an operator: `pd_op.relu`, `pd_op.relu_`.
pub fn operator(name: &str) -> Option<&'static Operator> {
    let name = name.strip_prefix(OWN)?;
    OPERATORS.get(name.strip_suffix('_').unwrap_or(name))?.as_ref()
}

/// Returns all rows, in no particular order.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.all().flatten()
}

impl Operator {
    fn parse(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let name = columns.next()?;
        let kind = columns.next().filter(|kind| *kind != "-");
        let mut words = || columns.next().unwrap_or_default().split_whitespace();
        let operands: Vec<Operand> = words().filter_map(Operand::parse).collect();
        let results = words().filter_map(|word| Result::parse(word, &operands)).collect();
        let attributes = words().map(Attribute::parse).collect();
        Some(Self { name, kind, operands, results, attributes })
    }
}

fn some(name: &'static str) -> Option<&'static str> {
    Some(name).filter(|name| !name.is_empty())
}

impl Operand {
    fn parse(word: &'static str) -> Option<Self> {
        let at = word.find(['=', '@'])?;
        let (marked, rest) = word.split_at(at);
        let kind = match rest.strip_prefix('@') {
            None => OperandKind::Slot(some(rest.strip_prefix('=')?)),
            Some(rest) => {
                let mut parts = rest.split(',');
                let name = parts.next()?;
                let slots: Vec<&str> = parts.collect();
                let tensor = slots.iter().find(|slot| !slot.ends_with('*')).copied();
                let list = slots.iter().find_map(|slot| slot.strip_suffix('*'));
                OperandKind::Attribute { name, tensor, list }
            }
        };
        let (optional, several) = (marked.contains('?'), marked.contains('*'));
        Some(Self { name: marked.trim_end_matches(['?', '*']), optional, several, kind })
    }
}

impl Result {
    fn parse(word: &'static str, operands: &[Operand]) -> Option<Self> {
        let (marked, rest) = word.split_once('=')?;
        let (slot, overwritten) = rest.split_once('&').unwrap_or((rest, ""));
        let overwrites = operands.iter().position(|operand| operand.name == overwritten);
        let name = marked.trim_end_matches(['?', '*']);
        Some(Self { name, several: marked.contains('*'), slot: some(slot), overwrites })
    }
}

impl Attribute {
    fn parse(word: &'static str) -> Self {
        let (name, paddle) = word.split_once('=').unwrap_or((word, word));
        Self { name, paddle }
    }
}

#[cfg(test)]
#[expect(clippy::panic, clippy::expect_used, reason = "a panic fails the test")]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_completely() {
        let table = include_str!("../../data/pir_operators.tsv");
        for line in table.lines() {
            let name = line.split('\t').next().unwrap_or_default();
            let row = OPERATORS.get(name).and_then(Option::as_ref);
            let row = row.unwrap_or_else(|| panic!("no row of `{name}`"));
            let columns: Vec<&str> = line.split('\t').collect();
            let words = |column: usize| {
                columns.iter().skip(column).take(1).flat_map(|it| it.split_whitespace()).count()
            };
            assert_eq!(columns.len(), 5, "{line}");
            assert_eq!(row.operands.len(), words(2), "{line}");
            assert_eq!(row.results.len(), words(3), "{line}");
            assert_eq!(row.attributes.len(), words(4), "{line}");
        }
    }

    #[test]
    fn slots_are_those_of_the_operators_of_a_program_desc() {
        for row in operators() {
            let Some(paddle) = row.kind.and_then(crate::paddle::operator) else { continue };
            for operand in &row.operands {
                let slots = match operand.kind {
                    OperandKind::Slot(slot) => [slot, None],
                    OperandKind::Attribute { tensor, list, .. } => [tensor, list],
                };
                for slot in slots.into_iter().flatten() {
                    let known = paddle.inputs.iter().any(|known| known.name == slot);
                    assert!(known, "`{}` has no input `{slot}`", paddle.kind);
                }
            }
            for slot in row.results.iter().filter_map(|result| result.slot) {
                let known = paddle.outputs.iter().any(|known| known.name == slot);
                assert!(known, "`{}` has no output `{slot}`", paddle.kind);
            }
        }
    }

    #[test]
    fn an_operator_in_place_overwrites_its_operand() {
        let relu = operator("pd_op.relu_").expect("an operator");
        assert_eq!(relu.kind, Some("relu"));
        assert_eq!(relu.results.first().and_then(|result| result.overwrites), Some(0));
        let adam = operator("pd_op.adam_").expect("an operator");
        assert_eq!(adam.results.first().and_then(|result| result.slot), Some("ParamOut"));
    }
}
