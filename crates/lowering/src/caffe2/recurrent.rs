//! Recurrent networks: nets that run for each step, and the units in them.
//!
//! | argument of `RecurrentNetwork` | what it is |
//! |---|---|
//! | `step_net` | the net of a step, which reads blobs around it by their names |
//! | `recurrent_states`, `initial_recurrent_state_ids` | the states, and the inputs with their first values |
//! | `link_internal`, `link_external`, `link_offset` | blobs of a step: a slice of an input, a state (0), or the next one (1) |
//! | `alias_src`, `alias_dst`, `alias_offset` | outputs: all values of a state (0), those after a step (1), the last one (-1) |
//! | `timestep` | the blob with the number of the step |

use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;
use lodstone_schema::onnx::quoted;

use super::node::{Blob, Node, Outcome, Rule, expect_rank};
use super::walk::Walk;
use crate::frame::control::Slices;
use crate::frame::{Scope, Step};
use crate::onnx::Value;
use crate::onnx::indexing::Sections;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("GRUUnit", Rule::One(gru)),
    ("LSTMUnit", Rule::Many(lstm)),
    ("RecurrentNetwork", Rule::Control(network)),
];

/// Returns parts of gates `[1, batch, count * units]`.
fn gates<const N: usize>(node: &mut Node<'_>, gates: &Value) -> Outcome<[Value; N]> {
    expect_rank(gates, 3, "gates")?;
    let parts = node.graph.split(gates, 2, Sections::Equal(length(N)))?;
    parts.try_into().map_err(|_| Finding::internal("a gate was lost"))
}

/// Returns a state after a step: sequences that have ended keep theirs, or drop it.
fn kept(node: &mut Node<'_>, next: &Value, before: &Value, first: usize) -> Outcome {
    if !node.flag("sequence_lengths", true)? {
        return Ok(next.clone());
    }
    let (lengths, step) = (node.input(first)?, node.input(first + 1)?);
    let lengths = node.cast(&lengths, DType::Int32)?;
    let lengths = node.reshape(&lengths, &[1, -1, 1])?;
    let step = node.cast(&step, DType::Int32)?;
    let goes_on = node.call("Less", &[&step, &lengths], [])?;
    let ended = match node.flag("drop_states", false)? {
        true => node.number(next.dtype(), 0.0)?,
        false => before.clone(),
    };
    node.choose(&goes_on, next, &ended)
}

/// Gates: input, forget, output, cell.
fn lstm(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [hidden, cell, all] = node.first()?;
    let [input, forget, output, new] = gates(node, &all)?;
    let forget = match node.float("forget_bias", 0.0)? {
        0.0 => forget,
        bias => node.plus(&forget, bias.into())?,
    };
    let mut open = |gate: &Value| node.call("Sigmoid", &[gate], []);
    let (input, forget, output) = (open(&input)?, open(&forget)?, open(&output)?);
    let new = node.call("Tanh", &[&new], [])?;
    let (old, new) = (node.mul(&forget, &cell)?, node.mul(&input, &new)?);
    let next_cell = node.add(&old, &new)?;
    let shown = node.call("Tanh", &[&next_cell], [])?;
    let next_hidden = node.mul(&output, &shown)?;
    Ok(vec![kept(node, &next_hidden, &hidden, 3)?, kept(node, &next_cell, &cell, 3)?])
}

/// Gates: reset (which the step has applied), update, output.
fn gru(node: &mut Node<'_>) -> Outcome {
    let [hidden, all] = node.first()?;
    let [_, update, new] = gates(node, &all)?;
    let update = node.call("Sigmoid", &[&update], [])?;
    let new = node.call("Tanh", &[&new], [])?;
    let one = node.number(update.dtype(), 1.0)?;
    let rest = node.sub(&one, &update)?;
    let (old, new) = (node.mul(&hidden, &update)?, node.mul(&new, &rest)?);
    let next = node.add(&old, &new)?;
    kept(node, &next, &hidden, 2)
}

/// Returns an argument that is a list of names.
fn names(op: &Op, name: &str) -> Outcome<Vec<String>> {
    match op.attribute(name) {
        Some(AttributeValue::Strings(names)) => Ok(names.iter().map(ToString::to_string).collect()),
        None | Some(AttributeValue::None) => Ok(Vec::new()),
        Some(_) => Err(Finding::from(format!("expected names as `{name}`")).about_attribute(name)),
    }
}

/// Returns an argument that is a list of integers, one for each of some names.
fn numbers(op: &Op, name: &str, count: usize) -> Outcome<Vec<i64>> {
    match op.attribute(name) {
        Some(AttributeValue::Longs(numbers)) if numbers.len() == count => Ok(numbers.clone()),
        _ => {
            Err(Finding::from(format!("expected {count} integers as `{name}`"))
                .about_attribute(name))
        }
    }
}

/// Runs a net for each step.
fn network<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    inputs: &[Blob],
    scope: &Scope<Blob>,
) -> Step<Vec<Value>> {
    if let Some(AttributeValue::Longs(windows)) = op.attribute("link_window")
        && windows.iter().any(|window| *window != 1)
    {
        return Err("windows of several steps (`link_window`) are not supported".into());
    }
    let Some(AttributeValue::Block(block)) = op.attribute("step_net") else {
        return Err("expected a net as `step_net`".into());
    };
    let block = usize::try_from(*block).map_err(|_| "a net does not exist")?;
    let states = names(op, "recurrent_states")?;
    let mut first = Vec::new();
    for place in numbers(op, "initial_recurrent_state_ids", states.len())? {
        let blob = usize::try_from(place).ok().and_then(|place| inputs.get(place));
        let blob = blob.ok_or_else(|| format!("the input {place} does not exist"))?;
        if blob.value.size(0)? != Some(1) {
            return Err("expected one first value of a state".into());
        }
        first.push(blob.value.clone());
    }
    let (internal, external) = (names(op, "link_internal")?, names(op, "link_external")?);
    let offsets = numbers(op, "link_offset", internal.len())?;
    if external.len() != internal.len() {
        let (count, found) = (internal.len(), external.len());
        return Err(format!("expected {count} names as `link_external`, found {found}").into());
    }
    // What each blob of a step is: a slice of data, a state, or the next one.
    let (mut data, mut slices, mut before, mut after) =
        (vec![], vec![], vec![], vec![None; states.len()]);
    for ((own, outer), offset) in internal.into_iter().zip(external).zip(offsets) {
        match (states.iter().position(|state| *state == outer), offset) {
            (Some(state), 0) => before.push((own, state)),
            (Some(state), 1) => {
                *after.get_mut(state).ok_or("a state was lost")? = Some(own);
            }
            (None, 0) => {
                data.push(scope.item(&outer)?.value.clone());
                slices.push(own);
            }
            _ => {
                return Err(
                    format!("the offset {offset} of {} is not supported", quoted(&own)).into()
                );
            }
        }
    }
    let count = data.first().ok_or("expected an input with a slice for each step")?;
    let count = walk.graph.extent(count, 0)?;
    data.push(walk.graph.counting(&count, DType::Int32)?);
    let timestep = match op.attribute("timestep") {
        Some(AttributeValue::String(name)) => name.to_string(),
        _ => "timestep".to_owned(),
    };
    let body = |walk: &mut Walk<'m>, own: &[Value], parts: &[Value]| {
        let mut inner = scope.clone();
        let mut bind = |name: &str, value: Value| inner.bind(name, Blob::from(value));
        for (name, state) in &before {
            bind(name, own.get(*state).ok_or("a state was lost")?.clone());
        }
        for (name, part) in slices.iter().chain([&timestep]).zip(parts) {
            bind(name, walk.graph.unsqueeze(part, &[0])?);
        }
        walk.enter(block, &mut inner)?;
        let mut next = Vec::new();
        for name in &after {
            let name = name.as_ref().ok_or("a state has no next value")?;
            next.push(inner.item(name)?.value.clone());
        }
        let axes = walk.graph.longs(&[0]);
        let made = next.iter().map(|it| walk.graph.call("Squeeze", &[it, &axes], []));
        let made = made.collect::<Outcome<Vec<_>>>()?;
        Ok((next, made))
    };
    let slices = Slices { data: &data, is_reverse: false };
    let looped = walk.scan(&op.name, &first, slices, body)?;
    let (sources, targets) = (names(op, "alias_src")?, names(op, "alias_dst")?);
    let offsets = numbers(op, "alias_offset", sources.len())?;
    let mut results = Vec::new();
    // The last output holds the workspaces of the steps, which have no value.
    let outputs = op.output("").split_last().map_or(&[][..], |(_, outputs)| outputs);
    for output in outputs {
        let place = targets.iter().position(|it| it == output);
        let place = place.ok_or_else(|| format!("no state is {} (`alias_dst`)", quoted(output)))?;
        let source = sources.get(place).and_then(|it| states.iter().position(|state| state == it));
        let state = source.ok_or("an output is none of the states")?;
        let find = |values: &[Value]| values.get(state).cloned().ok_or("a state was lost");
        results.push(match offsets.get(place) {
            Some(1) => find(&looped.stacked)?,
            Some(-1) => find(&looped.states)?,
            Some(0) => walk.graph.concat(&[&find(&first)?, &find(&looped.stacked)?], 0)?,
            _ => return Err("an offset of an output is not supported".into()),
        });
    }
    Ok(results)
}
