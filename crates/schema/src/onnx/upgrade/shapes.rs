//! Operators whose handling of dims changed.

use lodstone_model::{AttributeValue, Block, Dim, Operand, ValueType, Var};

use super::change::{Change, attribute, op};
use crate::Finding;
use crate::numbers::length;

fn ints(name: &str, numbers: Vec<i64>) -> lodstone_model::Attribute {
    attribute(name, AttributeValue::Longs(numbers))
}

/// `broadcast` and `axis` of arithmetic and logic: the second input was aligned with the dims of the first from `axis`,
/// and is now aligned with the last ones.
pub(super) fn broadcast(change: &mut Change<'_>) -> Result<(), Finding> {
    change.take("consumed_inputs");
    let (broadcast, axis) = (change.int("broadcast")?, change.int("axis")?);
    change.take("broadcast");
    change.take("axis");
    let Some(axis) = axis.filter(|_| broadcast == Some(1)) else { return Ok(()) };
    let second = change.input(1).to_owned();
    let (first_rank, rank) = (change.rank(change.input(0))?, change.rank(&second)?);
    let axis = if axis < 0 { axis.saturating_add(length(first_rank)) } else { axis };
    let behind = length(first_rank).saturating_sub(axis).saturating_sub(length(rank));
    if axis < 0 || behind < 0 {
        return Err(format!("broadcasts {rank} dims from axis {axis} of {first_rank}").into());
    }
    if behind > 0 {
        let axes = (length(rank)..length(rank) + behind).collect();
        let wider = change.before("Unsqueeze", [&second], vec![ints("axes", axes)]);
        change.set_input(1, wider);
    }
    Ok(())
}

/// The slope of PRelu had one element for each channel; it is now broadcast to the last dims.
pub(super) fn slope(change: &mut Change<'_>) -> Result<(), Finding> {
    let slope = change.input(1).to_owned();
    let shape = change.shape(&slope).ok_or("has a slope of unknown shape")?;
    let (one, rank) = (shape.iter().all(|dim| *dim == Dim::Known(1)), shape.len());
    if one || rank != 1 {
        return Ok(());
    }
    // [channels] beside [batch, channels, ..].
    let behind = change.rank(change.input(0))?.saturating_sub(2);
    if behind > 0 {
        let axes = (1..=length(behind)).collect();
        let wider = change.before("Unsqueeze", [&slope], vec![ints("axes", axes)]);
        change.set_input(1, wider);
    }
    Ok(())
}

/// Softmax, LogSoftmax and Hardmax normalized over all dims from `axis`, as if they were one; they now normalize over
/// one dim.
pub(super) fn flatten(change: &mut Change<'_>) -> Result<(), Finding> {
    let axis = change.int_or("axis", 1)?;
    change.set("axis", AttributeValue::Long(-1));
    let input = change.input(0).to_owned();
    let last = change.rank(&input).ok().and_then(|rank| i64::try_from(rank).ok());
    if axis == -1 || last.is_some_and(|rank| axis == rank - 1) {
        return Ok(());
    }
    let output = change.output(0).to_owned();
    let shape = change.before("Shape", [&input], Vec::new());
    let axis = vec![attribute("axis", AttributeValue::Long(axis))];
    let flat = change.before("Flatten", [&input], axis);
    let name = change.fresh("flat");
    change.set_input(0, flat);
    change.set_output(0, name.clone());
    change.after("Reshape", [&name, &shape], &output, Vec::new());
    Ok(())
}

/// GroupNormalization had scales and biases for each group; it now has them for each channel.
pub(super) fn group_normalization(change: &mut Change<'_>) -> Result<(), Finding> {
    let groups = change.int("num_groups")?.ok_or("has no attribute `num_groups`")?;
    let input = change.input(0).to_owned();
    let long = |name, number| attribute(name, AttributeValue::Long(number));
    let channels = change.before("Shape", [&input], vec![long("start", 1), long("end", 2)]);
    let groups = change.integers(&[groups]);
    let each = change.before("Div", [&channels, &groups], Vec::new());
    let one = change.integers(&[1]);
    let shape = change.before("Concat", [&one, &each], vec![long("axis", 0)]);
    let column = change.integers(&[-1, 1]);
    let row = change.integers(&[-1]);
    for index in [1, 2] {
        let name = change.input(index).to_owned();
        // [groups] to [groups, 1], to [groups, channels per group], to [channels].
        let name = change.before("Reshape", [&name, &column], Vec::new());
        let name = change.before("Expand", [&name, &shape], Vec::new());
        let name = change.before("Reshape", [&name, &row], Vec::new());
        change.set_input(index, name);
    }
    Ok(())
}

/// Scan iterated over batches of sequences, and now iterates over one sequence: an outer Scan iterates over the batch,
/// and an inner one over each sequence.
pub(super) fn scan(change: &mut Change<'_>) -> Result<(), Finding> {
    if !change.input(0).is_empty() {
        return Err("has sequences of different lengths, which is no longer supported".into());
    }
    let Some(AttributeValue::Block(body)) = change.op.attribute("body").cloned() else {
        return Err("has no body".into());
    };
    let scanned = change.int("num_scan_inputs")?.ok_or("has no attribute `num_scan_inputs`")?;
    let directions = change.take("directions");
    let inputs: Vec<String> =
        change.op.inputs.iter().flat_map(|i| &i.args).skip(1).cloned().collect();
    let outputs = change.op.outputs.iter().map(|operand| operand.args.len()).sum::<usize>();
    let within: Vec<String> = inputs.iter().map(|_| change.named("scan_in")).collect();
    let without: Vec<String> = (0..outputs).map(|_| change.named("scan_out")).collect();
    let mut inner = op(
        "Scan",
        &[],
        "",
        vec![
            attribute("body", AttributeValue::Block(body)),
            attribute("num_scan_inputs", AttributeValue::Long(scanned)),
        ],
    );
    if let Some(directions) = directions {
        inner.attributes.push(attribute("scan_input_directions", directions));
    }
    let slot = |args: &[String]| vec![Operand { slot: String::new(), args: args.to_vec() }];
    (inner.inputs, inner.outputs) = (slot(&within), slot(&without));
    let untyped =
        |name: &String| Var { name: name.clone(), value: ValueType::Unspecified, ..Var::default() };
    change.wrap(Block {
        name: "batch".to_owned(),
        vars: within.iter().chain(&without).map(untyped).collect(),
        ops: vec![inner],
        inputs: within,
        outputs: without,
        ..Block::default()
    });
    change.op.inputs = slot(&inputs);
    change.set("num_scan_inputs", AttributeValue::Long(length(inputs.len())));
    Ok(())
}
