//! Operators of two or more operands, element by element.

use lodstone_schema::numbers::length;
use lodstone_schema::onnx::quoted;

use super::node::{Node, Outcome, Rule, rank};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Add", Rule::One(|node| binary(node, "Add"))),
    ("And", Rule::One(|node| binary(node, "And"))),
    ("Div", Rule::One(|node| binary(node, "Div"))),
    ("DotProduct", Rule::One(dot)),
    ("EQ", Rule::One(|node| binary(node, "Equal"))),
    ("ElementwiseLinear", Rule::One(linear)),
    ("GE", Rule::One(|node| binary(node, "GreaterOrEqual"))),
    ("GT", Rule::One(|node| binary(node, "Greater"))),
    ("LE", Rule::One(|node| binary(node, "LessOrEqual"))),
    ("LT", Rule::One(|node| binary(node, "Less"))),
    ("Less", Rule::One(|node| binary(node, "Less"))),
    ("Max", Rule::One(|node| among(node, "Max"))),
    ("Mean", Rule::One(|node| among(node, "Mean"))),
    ("Min", Rule::One(|node| among(node, "Min"))),
    ("Mul", Rule::One(|node| binary(node, "Mul"))),
    ("NE", Rule::One(unequal)),
    ("Or", Rule::One(|node| binary(node, "Or"))),
    ("PRelu", Rule::One(prelu)),
    ("Pow", Rule::One(power)),
    ("SigmoidCrossEntropyWithLogits", Rule::One(cross_entropy)),
    ("Sub", Rule::One(|node| binary(node, "Sub"))),
    ("Sum", Rule::One(|node| among(node, "Sum"))),
    ("Where", Rule::One(choose)),
    ("Xor", Rule::One(|node| binary(node, "Xor"))),
];

/// Reads two operands. With `broadcast`, the dims of the right one are those of the left one from `axis` on, by default its
/// last ones; otherwise, they broadcast to each other.
fn operands(node: &mut Node<'_>) -> Outcome<[Value; 2]> {
    let [left, right] = node.exactly()?;
    if !node.flag("broadcast", false)? {
        return Ok([left, right]);
    }
    let axis = match (node.text("axis_str", "")?.as_str(), node.int("axis", -1)?) {
        ("", -1) => return Ok([left, right]),
        ("", axis) => axis,
        (letter, _) => {
            let order = node.text("order", "NCHW")?;
            let found = order.find(letter).filter(|_| letter.len() == 1);
            length(found.ok_or_else(|| format!("{} has no axis `{letter}`", quoted(&order)))?)
        }
    };
    let right = along(node, &right, &left, axis)?;
    Ok([left, right])
}

/// Reshapes a value so that its dims are those of another value from an axis on, or 1.
fn along(node: &mut Node<'_>, small: &Value, large: &Value, axis: i64) -> Outcome {
    let (rank, count) = (rank(large)?, rank(small)?);
    let behind = rank.checked_sub(axis).and_then(|behind| behind.checked_sub(count));
    let behind = behind.filter(|behind| *behind >= 0 && axis >= 0).ok_or_else(|| {
        format!("{count} dims do not broadcast to a value of {rank} dims from axis {axis}")
    })?;
    for place in 0..count {
        let dims = (small.size(place)?, large.size(axis + place)?);
        if let (Some(dim), Some(wide)) = dims
            && dim != wide
            && dim != 1
        {
            return Err(format!(
                "a dim of {dim} does not broadcast to {wide} at axis {}",
                axis + place
            )
            .into());
        }
    }
    match behind {
        0 => Ok(small.clone()),
        _ => node.unsqueeze(small, &(count..count + behind).collect::<Vec<_>>()),
    }
}

fn binary(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [left, right] = operands(node)?;
    node.call(kind, &[&left, &right], [])
}

fn unequal(node: &mut Node<'_>) -> Outcome {
    let is_equal = binary(node, "Equal")?;
    node.call("Not", &[&is_equal], [])
}

/// Raises to a power: the argument `exponent`, or the elements of a second operand.
fn power(node: &mut Node<'_>) -> Outcome {
    match (node.has("exponent"), node.count()) {
        (true, 1) => {
            let (x, exponent) = (node.input(0)?, node.float("exponent", 0.0)?);
            let exponent = node.number(x.dtype(), exponent.into())?;
            node.call("Pow", &[&x, &exponent], [])
        }
        (false, 2) => binary(node, "Pow"),
        (has_exponent, count) => {
            let exponent = if has_exponent { "and" } else { "without" };
            Err(format!("expected `exponent` or a second operand, found {count} operands {exponent} `exponent`").into())
        }
    }
}

/// Computes with any number of operands of one shape.
fn among(node: &mut Node<'_>, kind: &str) -> Outcome {
    let all = node.all()?;
    match all.as_slice() {
        [only] => Ok(only.clone()),
        all => node.call(kind, &all.iter().collect::<Vec<_>>(), []),
    }
}

/// Chooses elements, or with `broadcast_on_rows` rows.
fn choose(node: &mut Node<'_>) -> Outcome {
    let [choice, left, right] = node.exactly()?;
    let choice = match node.flag("broadcast_on_rows", false)? {
        true => node.along_rows(&choice, &left)?,
        false => choice,
    };
    node.graph.choose(&choice, &left, &right)
}

fn prelu(node: &mut Node<'_>) -> Outcome {
    let [x, slope] = node.exactly()?;
    let slope = match slope.size(0)? {
        Some(1) => slope,
        _ => {
            let axis = node.layout()?.channels(&x)?;
            along(node, &slope, &x, axis)?
        }
    };
    node.call("PRelu", &[&x, &slope], [])
}

fn linear(node: &mut Node<'_>) -> Outcome {
    let [x, weight, bias] = node.exactly()?;
    let axis = node.axis("axis", 1, x.rank()?)?;
    let (weight, bias) = (along(node, &weight, &x, axis)?, along(node, &bias, &x, axis)?);
    let scaled = node.mul(&x, &weight)?;
    node.add(&scaled, &bias)
}

/// The product of each row with that of the other operand.
fn dot(node: &mut Node<'_>) -> Outcome {
    let [left, right] = node.exactly()?;
    let products = node.mul(&left, &right)?;
    match rank(&left)? {
        1 => Ok(products),
        rank => node.reduce("ReduceSum", &products, &(1..rank).collect::<Vec<_>>(), false),
    }
}

/// The mean over the last dim of `max(x, 0) - x * target + log(1 + exp(-|x|))`.
fn cross_entropy(node: &mut Node<'_>) -> Outcome {
    let [logits, targets] = node.exactly()?;
    for name in ["log_D_trick", "unjoined_lr_loss"] {
        if node.flag(name, false)? {
            return Err(format!("`{name}` is not supported").into());
        }
    }
    let last = logits.rank()?.last()?.number();
    let above = node.call("Relu", &[&logits], [])?;
    let product = node.mul(&logits, &targets)?;
    let size = node.call("Abs", &[&logits], [])?;
    let negative = node.call("Neg", &[&size], [])?;
    let rest = node.call("Exp", &[&negative], [])?;
    let rest = node.plus(&rest, 1.0)?;
    let rest = node.call("Log", &[&rest], [])?;
    let loss = node.sub(&above, &product)?;
    let loss = node.add(&loss, &rest)?;
    node.reduce("ReduceMean", &loss, &[last], false)
}
