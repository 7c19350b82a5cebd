//! Rows that are distributed to parts by the remainder of a key.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::numbers::{exact, length};

use super::node::{Node, Outcome, Rule, expect_rank, rank};
use super::sparse::expect_integers;
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("LengthsPartition", Rule::Many(|node| partitioned(node, true))),
    ("Partition", Rule::Many(|node| partitioned(node, false))),
];

/// Returns the number of parts: each has an output for each input.
fn part_count(node: &Node<'_>) -> Outcome<i64> {
    let (inputs, outputs) = (node.count(), node.outputs());
    match (outputs.checked_div(inputs), outputs.checked_rem(inputs)) {
        (Some(parts @ 1..), Some(0)) => Ok(length(parts)),
        _ => {
            let what = format!("expected a multiple of {inputs} outputs, found {outputs}");
            Err(Finding::from(what))
        }
    }
}

/// Returns the rows of a value over the first dims, of which there are `count`.
fn rows(node: &mut Node<'_>, x: &Value, count: usize) -> Outcome {
    if count == 1 {
        return Ok(x.clone());
    }
    let mut sizes = node.sizes_of(x)?;
    if sizes.len() < count {
        return Err(format!("expected at least {count} dims, found {}", sizes.len()).into());
    }
    sizes.splice(..count, [Size::Known(-1)]);
    node.reshape_to(x, &sizes)
}

/// Distributes keys and rows. With lengths of groups before them, each part has its own lengths. With `pack_first_input`, keys
/// are divided by the number of parts.
fn partitioned(node: &mut Node<'_>, has_lengths: bool) -> Outcome<Vec<Value>> {
    let parts = part_count(node)?;
    let mut inputs = node.all()?.into_iter();
    let lengths = if has_lengths { inputs.next() } else { None };
    let keys = inputs.next().ok_or("expected keys")?;
    if has_lengths {
        expect_rank(&keys, 1, "keys")?;
    }
    let prefix: usize = exact(rank(&keys)?)?;
    let keys = rows(node, &keys, prefix)?;
    expect_integers(&keys, "keys")?;
    let others: Vec<Value> =
        inputs.map(|other| rows(node, &other, prefix)).collect::<Outcome<_>>()?;
    let groups = match &lengths {
        Some(lengths) => {
            expect_integers(lengths, "lengths")?;
            let count = node.size_of(&keys, 0)?;
            Some((node.segments_of(lengths, &count)?, lengths.dtype()))
        }
        None => None,
    };
    #[expect(clippy::cast_precision_loss, reason = "it is a number of outputs")]
    let by = node.number(keys.dtype(), parts as f64)?;
    // Of negative keys, too, the remainder is not negative.
    let part = node.call("Mod", &[&keys, &by], [int("fmod", 0)])?;
    let packed = match node.flag("pack_first_input", false)? {
        true => {
            let whole = node.sub(&keys, &part)?;
            node.div(&whole, &by)?
        }
        false => keys,
    };
    let mut results = Vec::new();
    for number in 0..parts {
        #[expect(clippy::cast_precision_loss, reason = "it is a number of outputs")]
        let own = node.number(part.dtype(), number as f64)?;
        let is_own = node.call("Equal", &[&part, &own], [])?;
        if let Some((groups, dtype)) = &groups {
            let ones = node.cast(&is_own, DType::Int64)?;
            let counts = groups.sum(node, &ones)?;
            results.push(node.cast(&counts, *dtype)?);
        }
        let places = node.places(&is_own)?;
        results.push(node.gather(&packed, &places, 0)?);
        for other in &others {
            results.push(node.gather(other, &places, 0)?);
        }
    }
    Ok(results)
}
