//! PaddlePaddle's operators: a row for each, with all facts that the crates above rely on.
//!
//! | column | contents |
//! |---|---|
//! | kind | `relu`, `relu_grad` |
//! | releases | the releases whose registries have it, `-` if none has: gradient operators, and operators older than 1.8.5 |
//! | inputs, outputs | slots in the order of the registry; `?` may be absent, `*` may hold several variables |
//! | computation | a [`Computation`]: `native`, `native_exported`, `lowered`, `native_if_...`; `-` for none |
//! | LoD | a [`LodRule`] |
//! | risk | a [`Risk`]: `reads`, `writes`, `runs`, `connects`; `-` for none |
//! | changes | the releases since which it computes something else, in programs that follow them: `2.5 3.1`; `-` for none |
//! | plan | a [`Plan`]: `whole`, `interface`, or the name of one of the [reasons](super::REASONS); `-` for no computation |
//! | types | [`Types`]: the types of outputs that no lowering infers; `-` for none ([`types`](super::types)) |
//! | indices | [`Indices`]: the input that holds indices; `-` for none |
//! | gradient | the kind of its gradient operator, `block` if it is a gradient block, `-` for none |
//! | gradient inputs, outputs, attributes | how the gradient operator is built (`gradients.rs`); only where there is one |
//!
//! The functions that compute operators are in the crates above. A test in each of them checks that it has exactly one
//! function for each row that declares one there, and no others.
//!
//! There are no defaults: an operator that is implemented but has no LoD rule fails the tests. With `native_exported`,
//! the rule serves exported programs only.
//!
//! Source of truth: the registries of 1.8.5, 2.6.2 and 3.3.1 and the makers of gradients of 2.6.2, by the scripts in
//! `data/`; for LoD, what the operators of 2.6.2 (`flatten`, `squeeze`, `unsqueeze`, `reshape`, `one_hot` and `pad2d`:
//! 1.8.5) give for inputs of different LoD; for risks, the operators of 0.10 to 3.3.1; for changes, the results of 1.8.5,
//! 2.6.2, 3.0.0, 3.1.1, 3.2.2 and 3.3.1, and the sources of the releases between.

use std::sync::LazyLock;

use lodstone_model::{AttributeValue, DType, Op};

use super::gradients::Gradient;
use super::indices::Indices;
use super::lod::LodRule;
use super::plan::Plan;
use super::types::Types;
use super::{Release, attribute, codes};
use crate::Risk;
use crate::rows::Rows;

const TABLE: &str = include_str!("../../data/paddle_operators.tsv");

static OPERATORS: LazyLock<Rows<Option<Operator>>> =
    LazyLock::new(|| Rows::new(TABLE, 0, |lines| Operator::parse(lines.next()?)));

/// An operator of PaddlePaddle.
#[derive(Debug)]
pub struct Operator {
    /// The name of the operator: `conv2d`.
    pub kind: &'static str,
    /// The releases whose registries have it. Empty for gradient operators, which no registry has, and for operators
    /// older than 1.8.5, whose slots are unknown.
    pub releases: Vec<&'static str>,
    /// Input slots in the order of the registry.
    pub inputs: Vec<Slot>,
    /// Output slots in the order of the registry.
    pub outputs: Vec<Slot>,
    /// What computes it.
    pub computation: Computation,
    /// The LoD of its outputs.
    pub lod: LodRule,
    /// Its side effect, if any.
    pub risk: Option<Risk>,
    /// The releases since which it computes something else.
    pub changes: Vec<Release>,
    /// How a network with it runs; `None` if nothing computes it.
    pub plan: Option<Plan>,
    /// The types of its outputs that no lowering infers.
    pub types: Types,
    /// The input that holds indices.
    pub indices: Option<Indices>,
    /// How its gradient is computed.
    pub(super) gradient: Gradient,
}

/// A slot of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The name of the slot: `Filter`.
    pub name: &'static str,
    /// Whether it may be absent.
    pub optional: bool,
    /// Whether it may hold several variables.
    pub several: bool,
}

/// What computes the operators of a kind: a native function of the executor, or the ONNX operators to which a rule
/// lowers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// Nothing.
    None,
    /// The native function.
    Native,
    /// The native function; an export writes ONNX's operators.
    NativeExported,
    /// ONNX's operators.
    Lowered,
    /// The native function if it reads anything but dense tensors, ONNX's operators otherwise.
    NativeIfSparse,
    /// The native function if `is_sparse` requests selected rows as a gradient, ONNX's operators otherwise.
    NativeIfSparseGradient,
    /// The native function unless `is_test`, ONNX's operators otherwise.
    NativeIfTraining,
    /// The native function if `out_dtype` is float16 or bfloat16 and the release truncates to it, ONNX's operators
    /// otherwise.
    NativeIfTruncated,
    /// The native function if it reads NaN and computes what it does in 2.6.2, ONNX's operators otherwise.
    NativeIfNan,
    /// The native function if `porder` is infinite and it reads NaN, ONNX's operators otherwise.
    NativeIfInfiniteNormOfNan,
}

/// What computes one operator, given its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The native function.
    Native,
    /// ONNX's operators.
    Lowered,
    /// The native function whenever it reads anything but dense tensors, ONNX's operators otherwise.
    NativeIfSparse,
    /// The native function whenever it reads NaN, ONNX's operators otherwise.
    NativeIfNan,
}

/// Returns the row of an operator: `relu`, `relu_grad`.
pub fn operator(kind: &str) -> Option<&'static Operator> {
    OPERATORS.get(kind)?.as_ref()
}

/// Returns all rows, in no particular order.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.all().flatten()
}

impl Operator {
    fn parse(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let mut column = || columns.next();
        let kind = column()?;
        let releases = column()?.split(' ').filter(|release| *release != "-").collect();
        let mut slots = || Some(column()?.split_whitespace().map(Slot::parse).collect());
        let (inputs, outputs) = (slots()?, slots()?);
        let computation = Computation::parse(column()?)?;
        let (lod, risk) = (LodRule::parse(column()?)?, column()?);
        let risk = if risk == "-" { None } else { Some(Risk::parse(risk)?) };
        let changes = column()?.split(' ').filter(|change| *change != "-");
        let changes = changes.map(Release::parse).collect::<Option<_>>()?;
        let (plan, types) = (Plan::parse(column()?)?, Types::parse(column()?)?);
        let indices = Indices::parse(column()?)?;
        let gradient = Gradient::parse(columns)?;
        Some(Self {
            kind,
            releases,
            inputs,
            outputs,
            computation,
            lod,
            risk,
            changes,
            plan,
            types,
            indices,
            gradient,
        })
    }

    /// Whether it computes something else in a release than in 2.6.2.
    pub fn has_changed_by(&self, release: Release) -> bool {
        self.changes.iter().any(|change| Release::WRITTEN < *change && *change <= release)
    }

    /// Returns what computes an operator of this kind in a program that follows a release; `None` if nothing does.
    pub fn choose(&self, op: &Op, release: Release) -> Option<Choice> {
        let native_if = |holds: bool| if holds { Choice::Native } else { Choice::Lowered };
        Some(match self.computation {
            Computation::None => return None,
            Computation::Native | Computation::NativeExported => Choice::Native,
            Computation::Lowered => Choice::Lowered,
            Computation::NativeIfSparse => Choice::NativeIfSparse,
            Computation::NativeIfSparseGradient => native_if(is_true(op, "is_sparse")),
            Computation::NativeIfTraining => native_if(!is_true(op, "is_test")),
            Computation::NativeIfTruncated => native_if(is_truncated(op, release)),
            Computation::NativeIfNan if self.has_changed_by(release) => Choice::Lowered,
            Computation::NativeIfNan => Choice::NativeIfNan,
            Computation::NativeIfInfiniteNormOfNan => match attribute(op, "porder") {
                Some(AttributeValue::Float(order)) if order.is_infinite() => Choice::NativeIfNan,
                _ => Choice::Lowered,
            },
        })
    }
}

impl Slot {
    fn parse(word: &'static str) -> Self {
        let name = word.trim_end_matches(['?', '*']);
        Self { name, optional: word.contains('?'), several: word.contains('*') }
    }
}

impl Computation {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "-" => Self::None,
            "native" => Self::Native,
            "native_exported" => Self::NativeExported,
            "lowered" => Self::Lowered,
            "native_if_sparse" => Self::NativeIfSparse,
            "native_if_sparse_gradient" => Self::NativeIfSparseGradient,
            "native_if_training" => Self::NativeIfTraining,
            "native_if_truncated" => Self::NativeIfTruncated,
            "native_if_nan" => Self::NativeIfNan,
            "native_if_infinite_norm_of_nan" => Self::NativeIfInfiniteNormOfNan,
            _ => return None,
        })
    }

    /// Whether there is a native function.
    pub fn is_native(self) -> bool {
        !matches!(self, Self::None | Self::Lowered)
    }

    /// Whether there is a rule that lowers it to ONNX's operators.
    pub fn is_lowered(self) -> bool {
        !matches!(self, Self::None | Self::Native)
    }
}

fn is_true(op: &Op, name: &str) -> bool {
    matches!(op.attribute(name), Some(AttributeValue::Bool(true)))
}

/// Whether a `cast` truncates: to bfloat16 up to 2.6, to float16 up to 3.1. Later releases round to the nearest value.
fn is_truncated(op: &Op, release: Release) -> bool {
    let Some(AttributeValue::Int(code)) = op.attribute("out_dtype") else { return false };
    truncates(codes::dtype(*code), release)
}

/// Whether numbers become halves by truncation in a release.
pub fn truncates(dtype: DType, release: Release) -> bool {
    match dtype {
        DType::BFloat16 => release < Release::new(3, 0),
        DType::Float16 => release < Release::new(3, 2),
        _ => false,
    }
}

#[cfg(test)]
#[expect(clippy::panic, clippy::indexing_slicing, reason = "a panic fails the test")]
mod tests {
    use super::super::attributes as attributes_of;
    use super::*;

    #[test]
    fn every_row_is_read_and_each_operator_has_one() {
        let unread: Vec<&str> =
            TABLE.lines().filter(|line| Operator::parse(line).is_none()).collect();
        assert!(unread.is_empty(), "unclassified or malformed: {unread:?}");
        assert_eq!(operators().count(), TABLE.lines().count(), "an operator has two rows");
    }

    #[test]
    fn an_operator_that_is_computed_has_a_plan_a_lod_rule_and_types() {
        for operator in operators() {
            let (is_computed, kind) = (operator.computation != Computation::None, operator.kind);
            assert_eq!(operator.plan.is_some(), is_computed, "`{kind}`: {:?}", operator.plan);
            assert!(!is_computed || operator.lod != LodRule::Unknown, "`{kind}` has no LoD rule");
            let reason = match operator.plan {
                Some(Plan::Apart(reason)) => reason.name,
                _ => "",
            };
            let is_typed = match (operator.computation, &operator.types) {
                (Computation::None, types) => *types == Types::Inferred,
                (Computation::Lowered, Types::Native { .. }) => false,
                (Computation::Native, types) => {
                    reason == "gradient" || matches!(types, Types::Native { .. })
                }
                _ => true,
            };
            assert!(is_typed, "`{kind}`: {:?}", operator.types);
            let (is_lowered, has_indices) =
                (operator.computation.is_lowered(), operator.indices.is_some());
            let is_whole = operator.plan == Some(Plan::Whole);
            assert!(!has_indices || is_lowered && (is_whole || reason == "indices"), "`{kind}`");
            assert!(has_indices || reason != "indices", "`{kind}` has no indices");
        }
    }

    #[test]
    fn the_columns_name_slots_and_attributes_of_their_operator() {
        for line in TABLE.lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let operator = operator(columns[0]).unwrap_or_else(|| panic!("no row in {line}"));
            let slots = || operator.inputs.iter().chain(&operator.outputs).map(|slot| slot.name);
            // Slots begin with a capital, and no other word of these columns does.
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_@".contains(letter);
            for column in [5, 9, 10] {
                let mut words = columns[column].split(|letter| !is_name(letter));
                let unknown = words.find(|word| {
                    word.starts_with(|first: char| first.is_ascii_uppercase())
                        && !slots().any(|slot| slot == *word)
                });
                assert_eq!(unknown, None, "{line}");
            }
            // The table of attributes has those of 2.6.2.
            if let Some(indices) = &operator.indices
                && operator.releases.contains(&"2.6.2")
            {
                let below = indices.below.map(|(attribute, _)| attribute);
                let mut names = [indices.except, indices.unless, below].into_iter().flatten();
                let has = |name| attributes_of(operator.kind).any(|it| it.name == name);
                assert!(names.all(has), "{line}");
            }
        }
    }

    #[test]
    fn a_gradient_has_the_slots_that_its_operator_fills() {
        for operator in operators() {
            let Gradient::Operator(maker) = &operator.gradient else { continue };
            let gradient = super::operator(maker.kind);
            let gradient = gradient.unwrap_or_else(|| panic!("no row of `{}`", maker.kind));
            let has = |slots: &[Slot], name: &str| slots.iter().any(|slot| slot.name == name);
            for (slot, source) in maker.reads() {
                assert!(has(&gradient.inputs, slot), "`{}`: `{slot}`", gradient.kind);
                assert!(
                    has(&operator.inputs, source) || has(&operator.outputs, source),
                    "{source}"
                );
            }
            for (slot, source) in maker.writes() {
                assert!(has(&gradient.outputs, slot), "`{}`: `{slot}`", gradient.kind);
                assert!(
                    has(&operator.inputs, source) || has(&operator.outputs, source),
                    "{source}"
                );
            }
        }
    }
}
