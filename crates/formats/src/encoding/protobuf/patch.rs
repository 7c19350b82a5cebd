//! Applies the difference between two encodings to a third.
//!
//! A model is read from some encoding, `raw`. The canonical encoding of that model is `old`, and
//! that of the edited model is `new`. [`patch`] returns `raw` with only that difference: fields that
//! did not change keep their bytes and their position, unknown fields and explicit defaults are kept, and
//! the same rule applies inside a changed field. For the unedited model,
//! `patch(raw, old, old)` is `raw`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use bytes::Bytes;
use lodstone_model::Limits;

use super::schema;
use super::wire::{Encoder, Field, Message, Source, Value};
use crate::error::Result;

pub(crate) fn patch(
    schema: &'static schema::Message,
    raw: &Bytes,
    old: &Bytes,
    new: &Bytes,
) -> Result<Bytes> {
    if old == new {
        return Ok(raw.clone());
    }
    if raw == old {
        return Ok(new.clone());
    }
    let source = Source::new("the encoding of a node", &Limits::none());
    let split = |bytes: &Bytes| -> Result<Vec<Field<'_>>> {
        Message::new(&source, bytes.clone()).fields().collect()
    };
    let (raw, old, new) = (split(raw)?, split(old)?, split(new)?);
    let (raw_by, old_by, new_by) = (by_number(&raw), by_number(&old), by_number(&new));

    // The field numbers whose fields changed, with the new fields.
    let mut changed = BTreeMap::new();
    for number in old_by.keys().chain(new_by.keys()) {
        let [raw, old, new] = [&raw_by, &old_by, &new_by]
            .map(|groups| groups.get(number).map_or(&[][..], Vec::as_slice));
        if !changed.contains_key(number) && !same(old, new) {
            let fields = replace(schema.submessage(*number), raw, old, new)?;
            changed.insert(*number, (fields.into_iter(), raw.len()));
        }
    }

    let mut out = Vec::with_capacity(raw_by.len());
    for field in &raw {
        match changed.get_mut(&field.number) {
            None => out.push((field.number, field.raw.clone())),
            // Each new field replaces an old one, and the rest follow the last one.
            Some((fields, left)) => {
                *left -= 1;
                let take = if *left == 0 { usize::MAX } else { 1 };
                out.extend(fields.by_ref().take(take).map(|bytes| (field.number, bytes)));
            }
        }
    }
    // New fields, where protobuf's own writers would put them.
    for (number, (fields, _)) in changed {
        let position = out.iter().position(|(known, _)| *known > number).unwrap_or(out.len());
        out.splice(position..position, fields.map(|bytes| (number, bytes)));
    }
    Ok(out.into_iter().flat_map(|(_, bytes)| bytes).collect())
}

/// Returns the new elements of a field, each with the bytes of the old element that it came from.
fn replace(
    submessage: Option<&'static schema::Message>,
    raw: &[&Field<'_>],
    old: &[&Field<'_>],
    new: &[&Field<'_>],
) -> Result<Vec<Bytes>> {
    // If the raw field has another number of pieces (packed, split), no element can be matched.
    let pairs = if raw.len() == old.len() { align(old, new) } else { vec![None; new.len()] };
    let element = |(field, pair): (&&Field<'_>, Option<usize>)| {
        let origin = pair.and_then(|index| raw.get(index).zip(old.get(index)));
        match (origin, submessage) {
            (Some((raw, old)), _) if old.raw == field.raw => Ok(raw.raw.clone()),
            (Some((raw, old)), Some(schema)) => match (&raw.value, &old.value, &field.value) {
                (Value::Bytes(raw), Value::Bytes(old), Value::Bytes(new)) => {
                    let mut encoder = Encoder::default();
                    encoder.bytes(field.number, &patch(schema, raw, old, new)?);
                    Ok(encoder.finish().into())
                }
                _ => Ok(field.raw.clone()),
            },
            _ => Ok(field.raw.clone()),
        }
    };
    new.iter().zip(pairs).map(element).collect()
}

/// Matches each new element to an old one: those before and after the edited range by
/// equality, those inside it by position if none was added or removed.
fn align(old: &[&Field<'_>], new: &[&Field<'_>]) -> Vec<Option<usize>> {
    let equal = |(a, b): &(&&Field<'_>, &&Field<'_>)| a.raw == b.raw;
    let head = old.iter().zip(new).take_while(equal).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(equal).count();
    let edited: Range<usize> = head..new.len() - tail;
    let known: HashMap<_, _> = old.iter().zip(0..).map(|(field, i)| (&field.raw, i)).collect();
    (0..new.len())
        .map(|index| match index {
            _ if index < head => Some(index),
            _ if index >= edited.end => Some(old.len() + index - new.len()),
            _ if old.len() == new.len() => Some(index),
            _ => new.get(index).and_then(|field| known.get(&field.raw)).copied(),
        })
        .collect()
}

fn by_number<'f, 'a>(fields: &'f [Field<'a>]) -> BTreeMap<u32, Vec<&'f Field<'a>>> {
    let mut groups = BTreeMap::<u32, Vec<_>>::new();
    for field in fields {
        groups.entry(field.number).or_default().push(field);
    }
    groups
}

fn same(left: &[&Field<'_>], right: &[&Field<'_>]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| a.raw == b.raw)
}
