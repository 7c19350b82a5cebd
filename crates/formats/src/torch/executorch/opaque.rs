//! The parts of a file that its tables do not describe, and byte maps.

use lodstone_model::{Limits, Parameter};
use lodstone_store::Blob;

use super::file::{PROGRAM, TENSORS};
use super::read::contents;
use crate::byte_map::Recorded;
use crate::encoding::flatbuffer::{self, Contents, Span};
use crate::scan::Opaque;

/// Returns the parts of a file that only a backend can interpret; `None` if it is no intact file of ExecuTorch.
pub(crate) fn opaque(blob: &Blob, limits: &Limits) -> Option<Opaque> {
    let head = blob.head(8).ok()?;
    if ![PROGRAM, TENSORS].iter().any(|identifier| head.ends_with(*identifier)) || head.len() < 8 {
        return None;
    }
    let mut spans = Vec::new();
    let mut found = contents(blob, limits, Some(&mut spans)).ok()?;
    found.opaque.sort_by_key(|(_, start, data)| (*start, data.len()));
    found.opaque.dedup_by_key(|(_, start, data)| (*start, data.len()));
    spans.extend(found.opaque.iter().map(|(_, start, data)| span(*start, data)));
    let unread = flatbuffer::unread(blob, &spans).ok()?;
    let parts = found.opaque.into_iter().map(|(name, _, data)| (name, data)).collect();
    Some(Opaque { parts, unread })
}

fn span(offset: u64, data: &Blob) -> Span {
    Span { offset, len: data.len(), what: "data of a backend", contents: Contents::Bytes }
}

/// Reads a file, and returns the ranges that were read.
pub(in crate::torch) fn map(blob: &Blob, limits: &Limits) -> Recorded {
    let mut spans = Vec::new();
    let read = contents(blob, limits, Some(&mut spans)).map(|found| {
        spans.extend(found.opaque.iter().map(|(_, start, data)| span(*start, data)));
        found.parameters
    });
    match flatbuffer::fields(blob, spans, read.is_ok()) {
        Ok(mut fields) => {
            for field in &mut fields {
                let parameter =
                    field.tensor.zip(read.as_ref().ok()).and_then(|(index, all)| all.get(index));
                if let Some(Parameter { name, tensor }) = parameter {
                    field.name =
                        format!("elements of `{name}`, {} {:?}", tensor.dtype, tensor.shape);
                }
            }
            (fields, read.map(drop))
        }
        Err(error) => (Vec::new(), read.and(Err(error))),
    }
}
