//! Operators that run blocks.

use std::iter::repeat_n;

use lodstone_model::{DType, Dim, ValueType};

use super::Rule;
use super::dims::{axis_of, common_type, merged, merged_types, show, show_type};
use super::node::{Node, Outcome, in_optional, sequence_of};
use super::value::{UNDEFINED, ValueInfo};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] =
    &[("If", branch), ("Loop", repeat), ("Scan", scan), ("SequenceMap", map)];

/// Infers what both branches have in common, or what the branch that is always taken has.
fn branch(node: &mut Node<'_>) -> Outcome {
    let (first, second) = (node.block("then_branch")?, node.block("else_branch")?);
    let condition = node.int(0);
    if !matches!(node.dtype(0), DType::Bool | UNDEFINED) {
        return Err(format!("expected a condition of bool, found {}", node.dtype(0)).into());
    }
    let taken = match condition {
        Some(0) => Some((second, first)),
        Some(_) => Some((first, second)),
        None => None,
    };
    let count = node.outputs.len();
    let counted = |outputs: &[ValueInfo], what: &str| match outputs.len() == count {
        true => Ok(()),
        false => Err(format!("expected {count} values of {what}, found {}", outputs.len())),
    };
    if let Some((block, dead)) = taken {
        node.bodies.dead(dead)?;
        let outputs = node.bodies.body(block, Vec::new())?;
        counted(&outputs, "the branch")?;
        outputs.into_iter().enumerate().for_each(|(index, output)| node.set(index, output));
        return Ok(());
    }
    let outputs = node.bodies.body(first, Vec::new())?;
    counted(&outputs, "`then_branch`")?;
    let others = node.bodies.body(second, Vec::new())?;
    counted(&others, "`else_branch`")?;
    for (index, (a, b)) in outputs.into_iter().zip(others).enumerate() {
        let wrong = || {
            let (a, b) = (show_type(&a.value), show_type(&b.value));
            format!("expected one type of output {index} from both branches, found {a} and {b}")
        };
        if let Some(value) = either(&a, &b).map_err(|()| wrong())? {
            let contents = a.contents.clone().filter(|_| a.contents == b.contents);
            node.set(index, ValueInfo { value, contents });
        }
    }
    Ok(())
}

/// Returns what is known of a value that is either of two; fails if their types differ.
fn either(a: &ValueInfo, b: &ValueInfo) -> Result<Option<ValueType>, ()> {
    if a.is_unknown() || b.is_unknown() {
        return Ok(None);
    }
    let dtypes = |value: &ValueType| value.tensor_type().map_or(UNDEFINED, |tensor| tensor.dtype);
    let (first, second) = (dtypes(&a.value), dtypes(&b.value));
    if first != second && first != UNDEFINED && second != UNDEFINED {
        return Err(());
    }
    common_type(&a.value, &b.value).map(Some).ok_or(())
}

/// Runs a loop's block until its state no longer changes. Each round loses information about the state, and there is
/// little to lose.
fn settle(
    state: &[ValueInfo],
    what: &str,
    mut run: impl FnMut(Vec<ValueInfo>) -> Result<Vec<ValueInfo>, Finding>,
) -> Result<(Vec<ValueInfo>, Vec<ValueInfo>), Finding> {
    let mut state: Vec<ValueInfo> = state.iter().map(|info| info.value.clone().into()).collect();
    // Once with all that is known, once with what did not change, once without shapes.
    for time in 0..3 {
        let results = run(state.clone())?;
        if results.len() < state.len() {
            let (expected, found) = (state.len(), results.len());
            return Err(format!("expected {what} of {expected} values again, found {found}").into());
        }
        let mut stable = true;
        let mut next = Vec::with_capacity(state.len());
        for (index, (before, after)) in state.iter().zip(&results).enumerate() {
            let common = either(before, after).or_else(|()| {
                // A value that is optional at first may be certain later.
                if let Ok(Some(inner)) = in_optional(Some(before))
                    && merged_types(&inner, &after.value).is_some()
                {
                    return Ok(Some(before.value.clone()));
                }
                let (before, after) = (show_type(&before.value), show_type(&after.value));
                Err(format!("expected {what} {index} of {before} again, found {after}"))
            })?;
            // If nothing was known of a value, the block decides.
            let common = match common {
                Some(common) => common,
                None if before.is_unknown() && time == 0 => unshaped(&after.value),
                None => ValueType::default(),
            };
            stable = stable && common == before.value;
            next.push(ValueInfo::from(if time == 1 { unshaped(&common) } else { common }));
        }
        if stable {
            return Ok((state, results));
        }
        state = next;
    }
    let results = run(state.clone())?;
    Ok((state, results))
}

/// Returns a required input of the block.
fn required_input(node: &Node<'_>, index: usize) -> Result<ValueInfo, Finding> {
    let missing =
        || Finding::from(format!("expected an input {index}, found none")).about_input(index);
    node.input(index).cloned().ok_or_else(missing)
}

fn unshaped(value: &ValueType) -> ValueType {
    let mut value = value.clone();
    value.tensors_mut().into_iter().for_each(|tensor| tensor.shape = None);
    value
}

/// Inputs: trip count, condition, state. Outputs: the final state, then the stacked results of each iteration.
fn repeat(node: &mut Node<'_>) -> Outcome {
    let block = node.block("body")?;
    let initial = (2..node.inputs.len()).map(|index| required_input(node, index));
    let initial = initial.collect::<Result<Vec<_>, _>>()?;
    let count = initial.len();
    let bodies = &mut *node.bodies;
    let (state, results) = settle(&initial, "the state", |state| {
        let trip = ValueInfo::tensor(DType::Int64, Some(Vec::new()));
        let condition = ValueInfo::tensor(DType::Bool, Some(Vec::new()));
        let inputs = [trip, condition].into_iter().chain(state).collect();
        let mut results = bodies.body(block, inputs)?;
        if results.is_empty() {
            return Err("expected a condition from the graph, found none".into());
        }
        let condition = results.remove(0);
        if !matches!(condition.dtype(), DType::Bool | UNDEFINED) {
            return Err(format!("expected a condition of bool, found {}", condition.dtype()).into());
        }
        Ok(results)
    })?;
    if results.len() != node.outputs.len() {
        let (expected, found) = (node.outputs.len(), results.len());
        return Err(format!("expected {expected} values from the graph, found {found}").into());
    }
    // Without a condition, a known trip count is the number of iterations.
    let trips = match (node.contents(0), node.contents(1)) {
        (Some([trips]), None) if !node.has(1) => trips.dim().unwrap_or(Dim::Unknown),
        _ => Dim::Unknown,
    };
    for (index, result) in results.into_iter().enumerate() {
        if let Some(state) = state.get(index).filter(|_| index < count) {
            // Without an iteration, the value is the initial one.
            let is_optional = |info: &ValueInfo| matches!(info.value, ValueType::Optional(_));
            let certain = is_optional(state) && !is_optional(&result);
            node.set(index, if certain { result } else { state.clone() });
        } else {
            node.set(index, stacked(result, &trips, 0)?);
        }
    }
    Ok(())
}

/// Stacks the tensors of all iterations along a new dim.
fn stacked(result: ValueInfo, trips: &Dim, axis: i64) -> Result<ValueInfo, Finding> {
    if result.is_unknown() {
        return Ok(ValueInfo::default());
    }
    if !matches!(result.value, ValueType::Tensor(_)) {
        return Err(format!(
            "expected a tensor at each iteration, found {}",
            show_type(&result.value)
        )
        .into());
    }
    let shape = match result.shape() {
        Some(shape) => {
            let place = axis_of(axis, shape.len().saturating_add(1))?;
            let mut shape = shape.to_vec();
            shape.insert(place.min(shape.len()), trips.clone());
            Some(shape)
        }
        None => None,
    };
    Ok(ValueInfo::tensor(result.dtype(), shape))
}

/// Inputs: the state, then the tensors that are sliced along an axis. In version 8, everything has a batch dim in front,
/// and the first input is the lengths of the sequences.
fn scan(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let block = node.block("body")?;
    let batched = node.opset < 9;
    let taken = node.int_attribute("num_scan_inputs").and_then(|taken| usize::try_from(taken).ok());
    let first = usize::from(batched);
    let count = node.inputs.len().saturating_sub(first);
    let taken = taken.filter(|taken| (1..=count).contains(taken));
    let taken = taken.ok_or_else(|| format!("expected `num_scan_inputs` from 1 to {count}"))?;
    let states = count - taken;
    let input_axes = axes(node, "scan_input_axes", taken)?;
    let (mut trips, mut batch) = (Dim::Unknown, Dim::Unknown);
    let mut initial = Vec::new();
    let mut slices = Vec::new();
    let input_axes = repeat_n(None, states).chain(input_axes.into_iter().map(Some));
    for (index, axis) in input_axes.enumerate() {
        let input = required_input(node, index + first)?;
        let (dtype, shape) = (input.dtype(), input.shape().map(<[Dim]>::to_vec));
        let shape = match shape {
            Some(mut shape) => {
                if batched && !shape.is_empty() {
                    let found = shape.remove(0);
                    batch = merged(&batch, &found).ok_or_else(|| {
                        format!("expected a batch of {batch} in input {index}, found {found}")
                    })?;
                }
                if let Some(axis) = axis {
                    let place = axis_of(axis, shape.len())?;
                    let before = show(&shape);
                    let found = shape.remove(place);
                    trips = merged(&trips, &found).ok_or_else(|| {
                        format!("expected {trips} iterations over input {index}, found {before}")
                    })?;
                }
                Some(shape)
            }
            None => None,
        };
        let info = match input.is_unknown() {
            true => ValueInfo::default(),
            false => ValueInfo::tensor(dtype, shape),
        };
        if axis.is_some() { slices.push(info) } else { initial.push(info) }
    }
    let bodies = &mut *node.bodies;
    let (state, results) = settle(&initial, "the state", |state| {
        bodies.body(block, state.into_iter().chain(slices.iter().cloned()).collect())
    })?;
    if results.len() != node.outputs.len() || results.len() < states {
        let (expected, found) = (node.outputs.len(), results.len());
        return Err(format!("expected {expected} values from the graph, found {found}").into());
    }
    let output_axes = axes(node, "scan_output_axes", results.len() - states)?;
    let output_axes = repeat_n(None, states).chain(output_axes.into_iter().map(Some));
    for (index, (result, axis)) in results.into_iter().zip(output_axes).enumerate() {
        let info = match axis {
            None => state.get(index).cloned().unwrap_or_default(),
            Some(axis) => stacked(result, &trips, axis)?,
        };
        node.set(index, if batched { with_batch(info, &batch) } else { info });
    }
    Ok(())
}

/// Returns one axis for each of `count` values; the default is 0.
fn axes(node: &Node<'_>, name: &str, count: usize) -> Result<Vec<i64>, Finding> {
    match node.ints_attribute(name) {
        Some(axes) if axes.len() == count => Ok(axes.to_vec()),
        Some(axes) => Err(format!("expected {count} `{name}`, found {}", axes.len()).into()),
        None => Ok(vec![0; count]),
    }
}

fn with_batch(mut info: ValueInfo, batch: &Dim) -> ValueInfo {
    for tensor in info.value.tensors_mut() {
        if let Some(shape) = &mut tensor.shape {
            shape.insert(0, batch.clone());
        }
    }
    info
}

/// Runs the block on each element of a sequence; tensors are passed to each run as they are.
fn map(node: &mut Node<'_>) -> Outcome {
    let block = node.block("body")?;
    let Some(element) = node.sequence(0)? else {
        if node.has(0) {
            return Ok(());
        }
        return Err("expected a sequence, found none".into());
    };
    let mut inputs = vec![ValueInfo::from(element)];
    for index in 1..node.inputs.len() {
        let input = required_input(node, index)?;
        inputs.push(match node.sequence(index) {
            Ok(Some(element)) => element.into(),
            _ => input,
        });
    }
    let results = node.bodies.body(block, inputs)?;
    if results.len() != node.outputs.len() {
        let (expected, found) = (node.outputs.len(), results.len());
        return Err(format!("expected {expected} values from the graph, found {found}").into());
    }
    for (index, result) in results.into_iter().enumerate() {
        if !result.is_unknown() {
            node.set(index, sequence_of(result.value)?.into());
        }
    }
    Ok(())
}
