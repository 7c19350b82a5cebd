//! Recurrent networks: nets that run for each step, and the units in them.
//!
//! | argument of `RecurrentNetwork` | what it is |
//! |---|---|
//! | `step_net` | the net of a step, which reads blobs around it by their names |
//! | `recurrent_states`, `initial_recurrent_state_ids` | the states, and the inputs with their first values |
//! | `link_internal`, `link_external`, `link_offset`, `link_window` | blobs of a step: slices of an input, values of a state, or the next one, which is behind the first values |
//! | `alias_src`, `alias_dst`, `alias_offset` | outputs: all values of a state (0), those behind the first ones, the last one (-1) |
//! | `timestep` | the blob with the number of the step |

use std::ops::Range;

use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;
use lodstone_schema::onnx::quoted;
use lodstone_schema::places::at;

use super::node::{Blob, Node, Outcome, Rule, expect_rank, required_dim};
use super::walk::Walk;
use crate::frame::control::Slices;
use crate::frame::{Scope, Step};
use crate::onnx::indexing::Sections;
use crate::onnx::{Graph, Size, Value};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("GRUUnit", Rule::One(gru)),
    ("LSTMUnit", Rule::Many(lstm)),
    ("RecurrentNetwork", Rule::Control(network)),
];

/// The maximum offset and length of a window of steps, each of which is a slice.
const MAX_WINDOW: i64 = 1 << 10;

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

fn value_at(values: &[Value], place: usize) -> Outcome {
    values.get(place).cloned().ok_or_else(|| Finding::internal("a state was lost"))
}

impl Graph {
    /// Returns, for each step, the slices from `window.start` to `window.end` behind its number: `[steps, window, ..]`.
    fn windows_of_steps(&mut self, x: &Value, steps: &Size, window: Range<i64>) -> Outcome {
        let mut parts = Vec::new();
        for offset in window {
            let part = match (offset, steps.known() == x.size(0)?) {
                (0, true) => x.clone(),
                _ => self.cut(x, 0, &Size::Known(offset), steps)?,
            };
            parts.push(self.unsqueeze(&part, &[1])?);
        }
        match parts.as_slice() {
            [part] => Ok(part.clone()),
            parts => self.concat(&parts.iter().collect::<Vec<_>>(), 1),
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
    let Some(AttributeValue::Block(block)) = op.attribute("step_net") else {
        return Err("expected a net as `step_net`".into());
    };
    let block = usize::try_from(*block).map_err(|_| "a net does not exist")?;
    let states = names(op, "recurrent_states")?;
    let mut first = Vec::new();
    for place in numbers(op, "initial_recurrent_state_ids", states.len())? {
        let blob = usize::try_from(place).ok().and_then(|place| inputs.get(place));
        let blob = blob.ok_or_else(|| format!("the input {place} does not exist"))?;
        first.push(blob.value.clone());
    }
    // The numbers of first values.
    let depths: Vec<i64> =
        first.iter().map(|first| required_dim(first, 0)).collect::<Outcome<_>>()?;
    let (internal, external) = (names(op, "link_internal")?, names(op, "link_external")?);
    let offsets = numbers(op, "link_offset", internal.len())?;
    let windows = match op.attribute("link_window") {
        None | Some(AttributeValue::None | AttributeValue::Unknown(0)) => vec![1; internal.len()],
        Some(_) => numbers(op, "link_window", internal.len())?,
    };
    if external.len() != internal.len() {
        let (count, found) = (internal.len(), external.len());
        return Err(format!("expected {count} names as `link_external`, found {found}").into());
    }
    let sequence = inputs.first().ok_or("expected an input with a slice for each step")?;
    let count = walk.graph.size_of(&sequence.value, 0)?;
    // What each blob of a step is: slices of data, values of a state, or the next one.
    let (mut data, mut slices, mut before, mut after) =
        (vec![], vec![], vec![], vec![None; states.len()]);
    let links = internal.into_iter().zip(external).zip(offsets.into_iter().zip(windows));
    for ((own, outer), (offset, window)) in links {
        let state = states.iter().position(|state| *state == outer);
        let depth = state.map(|state| at(&depths, state)).transpose()?;
        match (state, depth) {
            (Some(state), Some(depth)) if offset == depth && window == 1 => {
                *after.get_mut(state).ok_or("a state was lost")? = Some(own);
            }
            (Some(state), Some(depth))
                if offset >= 0
                    && window > 0
                    && offset.checked_add(window).is_some_and(|end| end <= depth) =>
            {
                before.push((own, state, offset..offset + window));
            }
            (None, _)
                if (0..=MAX_WINDOW).contains(&offset) && (1..=MAX_WINDOW).contains(&window) =>
            {
                let outer = scope.item(&outer)?.value.clone();
                data.push(walk.graph.windows_of_steps(&outer, &count, offset..offset + window)?);
                slices.push(own);
            }
            _ => {
                return Err(format!(
                    "the offset {offset} of {}, with a window of {window}, is not supported",
                    quoted(&own)
                )
                .into());
            }
        }
    }
    let count = walk.graph.scalar_of(&count)?;
    data.push(walk.graph.counting(&count, DType::Int32)?);
    let timestep = match op.attribute("timestep") {
        Some(AttributeValue::String(name)) => name.to_string(),
        _ => "timestep".to_owned(),
    };
    let body = |walk: &mut Walk<'m>, own: &[Value], parts: &[Value]| {
        let mut inner = scope.clone();
        let mut bind = |name: &str, value: Value| inner.bind(name, Blob::from(value));
        for (name, state, window) in &before {
            let (state, depth) = (value_at(own, *state)?, at(&depths, *state)?);
            let is_whole = *window == (0..depth);
            let value = match is_whole {
                true => state,
                false => walk.graph.slice(&state, 0, window.start, window.end)?,
            };
            bind(name, value);
        }
        for (name, part) in slices.iter().zip(parts) {
            bind(name, part.clone());
        }
        if let Some(number) = parts.get(slices.len()) {
            bind(&timestep, walk.graph.unsqueeze(number, &[0])?);
        }
        walk.enter(block, &mut inner)?;
        let (mut next, mut made) = (Vec::new(), Vec::new());
        let axes = walk.graph.longs(&[0]);
        for ((name, depth), own) in after.iter().zip(&depths).zip(own) {
            let name = name.as_ref().ok_or("a state has no next value")?;
            let value = inner.item(name)?.value.clone();
            made.push(walk.graph.call("Squeeze", &[&value, &axes], [])?);
            next.push(match depth {
                1 => value,
                _ => {
                    let rest = walk.graph.slice(own, 0, 1, *depth)?;
                    walk.graph.concat(&[&rest, &value], 0)?
                }
            });
        }
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
        let (first, depth) = (value_at(&first, state)?, at(&depths, state)?);
        let offset = at(&offsets, place)?;
        results.push(match offset {
            -1 => {
                let last = value_at(&looped.states, state)?;
                if depth == 1 { last } else { walk.graph.slice(&last, 0, depth - 1, depth)? }
            }
            0 => walk.graph.concat(&[&first, &value_at(&looped.stacked, state)?], 0)?,
            offset if offset == depth => value_at(&looped.stacked, state)?,
            _ => return Err(format!("the offset {offset} of an output is not supported").into()),
        });
    }
    Ok(results)
}
