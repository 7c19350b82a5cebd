//! The gradient operators of PaddlePaddle's operators: their inputs, outputs and attributes.

use lodstone_model::{Attribute, AttributeValue, Op, Operand};

use super::{attribute, operator};

/// The suffix of the name of a variable's gradient.
pub const GRAD: &str = "@GRAD";

/// PaddlePaddle's name for a gradient that is not needed.
pub const EMPTY: &str = "@EMPTY@";

/// The prefix of a slot whose variables have a gradient operator each.
const EACH: &str = "each:";

/// Returns the name of the gradient of a variable.
pub fn gradient_of(variable: &str) -> String {
    format!("{variable}{GRAD}")
}

/// How the gradient of an operator is computed.
#[derive(Debug)]
pub(super) enum Gradient {
    /// It has no gradient.
    None,
    /// By the gradient block of the block that it runs.
    Block,
    /// By a gradient operator.
    Operator(Maker),
}

/// How a gradient operator is built.
#[derive(Debug)]
pub(super) struct Maker {
    pub(super) kind: &'static str,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    /// The slot of the operator whose variables have a gradient operator each.
    each: Option<&'static str>,
    /// Its attributes and their sources; if `None`, those of the forward operator.
    attributes: Option<Vec<(&'static str, From)>>,
}

/// A slot of a gradient operator, and the slot of the forward operator that fills it.
#[derive(Debug)]
struct Slot {
    name: &'static str,
    source: &'static str,
    /// Whether it holds the gradients of those variables.
    is_gradient: bool,
    /// An attribute of the forward operator, and the text that it must have for the slot to be present.
    only: Option<(&'static str, &'static str)>,
}

#[derive(Debug)]
enum From {
    /// An attribute of the forward operator.
    Attribute(&'static str),
    /// An attribute with the sign flipped.
    Negative(&'static str),
    /// A constant float.
    Number(f32),
    /// A constant Boolean.
    Flag(bool),
    /// A constant string.
    Text(&'static str),
}

impl Gradient {
    /// Parses the last columns of a row: the kind, the input slots and their sources (`X=X`, `Out@GRAD=Out@GRAD`, with
    /// `?name=text` if it depends on an attribute), the output slots (after `each:X` if each variable of `X` has its own
    /// operator), and the attributes (`*` for those of the forward operator, else `name=1.0`,
    /// `name=true`, `name="text"`, `name=$other`, `name=-$other`).
    pub(super) fn parse(mut columns: impl Iterator<Item = &'static str>) -> Option<Self> {
        Some(match columns.next()? {
            "-" => Self::None,
            "block" => Self::Block,
            kind => Self::Operator(Maker::parse(kind, columns)?),
        })
    }
}

impl Slot {
    fn parse(text: &'static str) -> Option<Self> {
        let (pair, only) = match text.split_once('?') {
            Some((pair, only)) => (pair, Some(only.split_once('=')?)),
            None => (text, None),
        };
        let (name, source) = pair.split_once('=')?;
        let is_gradient = source.ends_with(GRAD);
        let source = source.strip_suffix(GRAD).unwrap_or(source);
        Some(Self { name, source, is_gradient, only })
    }
}

impl From {
    fn parse(text: &'static str) -> Option<Self> {
        if let Some(other) = text.strip_prefix('$') {
            return Some(Self::Attribute(other));
        }
        if let Some(other) = text.strip_prefix("-$") {
            return Some(Self::Negative(other));
        }
        if let Some(text) = text.strip_prefix('"') {
            return Some(Self::Text(text.strip_suffix('"')?));
        }
        Some(match text {
            "true" => Self::Flag(true),
            "false" => Self::Flag(false),
            number => Self::Number(number.parse().ok()?),
        })
    }
}

/// Whether an operator has gradients.
pub fn has_gradient(kind: &str) -> bool {
    operator(kind).is_some_and(|row| !matches!(row.gradient, Gradient::None))
}

/// Returns the operators that compute the gradients of an operator; empty if it has none. `is_wanted` decides for which
/// of its input variables gradients are computed.
///
/// Source of truth: the makers of gradients of PaddlePaddle 2.6.2.
pub fn gradient_ops(op: &Op, is_wanted: impl Fn(&str) -> bool) -> Vec<Op> {
    let Some(Gradient::Operator(maker)) = operator(&op.kind).map(|row| &row.gradient) else {
        return Vec::new();
    };
    let Some(each) = maker.each else { return vec![maker.op(op, &is_wanted)] };
    let one = |name: &String| {
        let only = |operand: &Operand| match operand.slot == each {
            true => Operand { args: vec![name.clone()], ..operand.clone() },
            false => operand.clone(),
        };
        let op = Op { inputs: op.inputs.iter().map(only).collect(), ..op.clone() };
        maker.op(&op, &is_wanted)
    };
    op.input(each).iter().map(one).collect()
}

impl Maker {
    fn parse(kind: &'static str, mut columns: impl Iterator<Item = &'static str>) -> Option<Self> {
        let (inputs, outputs, attributes) = (columns.next()?, columns.next()?, columns.next()?);
        let slots = |text: &'static str| -> Option<Vec<Slot>> {
            text.split(' ').filter(|word| !word.starts_with(EACH)).map(Slot::parse).collect()
        };
        let each = outputs.split(' ').find_map(|word| word.strip_prefix(EACH));
        let from = |pair: &'static str| {
            let (name, value) = pair.split_once('=')?;
            Some((name, From::parse(value)?))
        };
        let attributes = match attributes {
            "*" => None,
            "-" => Some(Vec::new()),
            pairs => Some(pairs.split(' ').map(from).collect::<Option<_>>()?),
        };
        Some(Self { kind, inputs: slots(inputs)?, outputs: slots(outputs)?, each, attributes })
    }

    /// Returns the input slots of the gradient operator, and the slots of the forward operator that fill them.
    #[cfg(test)]
    pub(super) fn reads(&self) -> impl Iterator<Item = (&str, &str)> {
        self.inputs.iter().map(|slot| (slot.name, slot.source))
    }

    /// Returns the output slots, and the slots of the forward operator that name their variables.
    #[cfg(test)]
    pub(super) fn writes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outputs.iter().map(|slot| (slot.name, slot.source))
    }

    fn op(&self, op: &Op, is_wanted: &impl Fn(&str) -> bool) -> Op {
        let of = |slot: &Slot| match op.input(slot.source) {
            [] => op.output(slot.source),
            args => args,
        };
        let is_there = |slot: &&Slot| match slot.only {
            Some((name, text)) => match attribute(op, name) {
                Some(AttributeValue::String(found)) => found.to_string() == text,
                _ => false,
            },
            None => true,
        };
        let read = |slot: &Slot| {
            let name =
                |name: &String| if slot.is_gradient { gradient_of(name) } else { name.clone() };
            Operand { slot: slot.name.to_owned(), args: of(slot).iter().map(name).collect() }
        };
        let written = |slot: &Slot| {
            let args = of(slot);
            if !slot.is_gradient {
                return Operand { slot: slot.name.to_owned(), args: args.to_vec() };
            }
            let name = |name: &String| match is_wanted(name) {
                true => gradient_of(name),
                false => EMPTY.to_owned(),
            };
            let mut args: Vec<String> = args.iter().map(name).collect();
            // A slot of one variable is omitted; in a slot of several, each variable keeps its position.
            if args.len() == 1 {
                args.retain(|name| name != EMPTY);
            }
            Operand { slot: slot.name.to_owned(), args }
        };
        Op {
            kind: self.kind.to_owned(),
            inputs: self.inputs.iter().filter(|slot| is_there(slot)).map(read).collect(),
            outputs: self.outputs.iter().map(written).collect(),
            attributes: self.attributes(op),
            ..Op::default()
        }
    }

    fn attributes(&self, op: &Op) -> Vec<Attribute> {
        let Some(attributes) = &self.attributes else { return op.attributes.clone() };
        let value = |(name, from): &(&str, From)| {
            let value = match from {
                From::Attribute(other) => op.attribute(other)?.clone(),
                From::Negative(other) => match attribute(op, other)? {
                    AttributeValue::Float(number) => AttributeValue::Float(-number),
                    _ => return None,
                },
                From::Number(number) => AttributeValue::Float(*number),
                From::Flag(flag) => AttributeValue::Bool(*flag),
                From::Text(text) => AttributeValue::String((*text).into()),
            };
            Some(Attribute { name: (*name).to_owned(), value })
        };
        attributes.iter().filter_map(value).collect()
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a panic fails the test")]
mod tests {
    use super::*;

    fn op(kind: &str, inputs: &[(&str, &[&str])], outputs: &[(&str, &[&str])]) -> Op {
        let operands = |slots: &[(&str, &[&str])]| {
            let operand = |(slot, args): &(&str, &[&str])| Operand {
                slot: (*slot).to_owned(),
                args: args.iter().map(|name| (*name).to_owned()).collect(),
            };
            slots.iter().map(operand).collect()
        };
        let (inputs, outputs) = (operands(inputs), operands(outputs));
        Op { kind: kind.to_owned(), inputs, outputs, ..Op::default() }
    }

    #[test]
    fn gradients_are_those_of_the_table() {
        let mul = op("mul", &[("X", &["x"]), ("Y", &["w"])], &[("Out", &["y"])]);
        let made = gradient_ops(&mul, |name| name == "w");
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].kind, "mul_grad");
        assert_eq!(made[0].input("Out@GRAD"), ["y@GRAD"]);
        assert!(made[0].output("X@GRAD").is_empty());
        assert_eq!(made[0].output("Y@GRAD"), ["w@GRAD"]);
        assert!(gradient_ops(&op("fill_constant", &[], &[("Out", &["y"])]), |_| true).is_empty());
    }

    #[test]
    fn a_sum_has_a_gradient_for_each() {
        let sum = op("sum", &[("X", &["a", "b"])], &[("Out", &["y"])]);
        let made = gradient_ops(&sum, |_| true);
        let writes: Vec<&str> = made.iter().flat_map(Op::writes).collect();
        assert_eq!(writes, ["a@GRAD", "b@GRAD"]);
        assert!(made.iter().all(|op| op.kind == "scale" && op.input("X") == ["y@GRAD"]));
        assert_eq!(made[0].attribute("scale"), Some(&AttributeValue::Float(1.0)));
        let concat = op("concat", &[("X", &["a", "b"])], &[("Out", &["y"])]);
        let made = gradient_ops(&concat, |name| name == "b");
        assert_eq!(made[0].output("X@GRAD"), [EMPTY, "b@GRAD"]);
    }
}
