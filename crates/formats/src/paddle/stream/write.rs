//! Writes tensors as PaddlePaddle does.

use bytes::Bytes;
use lodstone_model::{Kind, Limits, Lod, Tensor};
use lodstone_store::Output;

use super::{DESC, DESCRIPTION, Layout};
use crate::encoding::protobuf::patch::patch;
use crate::encoding::protobuf::wire::{Encoder, Message, Source};
use crate::error::{Error, Result};
use crate::lengths::length;
use crate::paddle::program::schema::TENSOR_DESC;
use crate::paddle::program::types::TensorDesc;

const FORMAT: &str = "a Paddle tensor stream";

/// Writes concatenated records; `tensors` yields each with its name for messages.
///
/// # Errors
/// The errors of [`write_record`].
pub fn write<'a>(
    out: &mut Output,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    layout: Layout,
) -> Result<()> {
    tensors.into_iter().try_for_each(|(name, tensor)| write_record(out, name, tensor, layout))
}

/// Writes a record.
///
/// # Errors
/// Fails if PaddlePaddle has no code for the element type, the data does not match the shape, the
/// layout has no such record, or if reading or writing fails.
pub fn write_record(out: &mut Output, name: &str, tensor: &Tensor, layout: Layout) -> Result<()> {
    let start = out.position() + if layout.sized { 8 } else { 0 };
    let head = head(name, tensor, layout, start)?;
    let lod_last = layout.lod_last && matches!(tensor.kind, Kind::Dense);
    let tail = if lod_last { lod_part(&tensor.lod) } else { Vec::new() };
    if layout.sized {
        let size = head.len() as u64 + tensor.data.len() + tail.len() as u64;
        out.put(&size.to_le_bytes())?;
    }
    out.put(&head)?;
    out.copy(&tensor.data)?;
    out.put(&tail)?;
    Ok(())
}

/// Encodes the part before the elements of a record at offset `start` of the file.
fn head(name: &str, tensor: &Tensor, layout: Layout, start: u64) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    match &tensor.kind {
        Kind::Vocabulary { tokens } => {
            head.extend((tokens.len() as u64).to_le_bytes());
            for (token, id) in tokens {
                head.extend((token.len() as u64).to_le_bytes());
                head.extend(token.as_bytes());
                head.extend(id.to_le_bytes());
            }
            return Ok(head);
        }
        Kind::SelectedRows { rows, height } => {
            if layout.lod_last {
                let what = format!("the SelectedRows `{name}`");
                return Err(Error::Incompatible { format: "the LoD-last layout", what });
            }
            head.extend(0u32.to_le_bytes());
            head.extend((rows.len() / 8).to_le_bytes());
            head.extend_from_slice(&rows.bytes()?);
            head.extend(height.to_le_bytes());
        }
        Kind::Dense if layout.lod_last => {}
        Kind::Dense => {
            head.extend(0u32.to_le_bytes());
            head.extend(lod_part(&tensor.lod));
        }
        kind => {
            let what = format!("the {} tensor `{name}`", kind.name());
            return Err(Error::Incompatible { format: FORMAT, what });
        }
    }
    if tensor.dtype.size_of(&tensor.shape) != Some(tensor.data.len()) {
        let what = format!(
            "the tensor `{name}`: {} of shape {:?} with {} bytes",
            tensor.dtype,
            tensor.shape,
            tensor.data.len()
        );
        return Err(Error::Incompatible { format: FORMAT, what });
    }
    head.extend(0u32.to_le_bytes());
    let desc = description(name, tensor, layout, start + head.len() as u64 + 4)?;
    let size = i32::try_from(desc.len());
    let size = size.map_err(|_| Error::internal("a description is longer than was checked"))?;
    head.extend(size.to_le_bytes());
    head.extend_from_slice(&desc);
    Ok(head)
}

/// Encodes the description of a tensor at offset `start` of the file.
fn description(name: &str, tensor: &Tensor, layout: Layout, start: u64) -> Result<Bytes> {
    let unsupported = || Error::dtype(FORMAT, name, tensor.dtype);
    let dims: Result<_, _> = tensor.shape.iter().map(|dim| i64::try_from(*dim)).collect();
    let desc = dims.ok().and_then(|dims| TensorDesc { dtype: tensor.dtype, dims }.write());
    let canonical = desc.ok_or_else(unsupported)?;
    if canonical.len() as u64 > *DESCRIPTION.end() {
        let what = format!("the tensor `{name}` of {} dims", tensor.shape.len());
        return Err(Error::Incompatible { format: FORMAT, what });
    }
    if layout.align > 1 {
        return pad(&canonical, layout.align, start);
    }
    let Some(raw) = tensor.residual.of(DESC) else { return Ok(canonical) };
    let limits = Limits::none();
    let source = Source::new("a description", &limits);
    let then = TensorDesc::read(&Message::new(&source, raw.clone()))?.write();
    patch(&TENSOR_DESC, raw, &then.ok_or_else(unsupported)?, &canonical)
}

/// Adds an unknown field of zeros, so that the next bytes are aligned to `align`.
fn pad(canonical: &Bytes, align: u64, start: u64) -> Result<Bytes> {
    /// A field number that no release uses; its tag is one byte.
    const FIELD: u32 = 15;
    let end = start + canonical.len() as u64;
    let short = end.next_multiple_of(align) - end;
    if short == 0 {
        return Ok(canonical.clone());
    }
    // Tag and length take two bytes, or three from 128 bytes of zeros on.
    let mut field = short;
    while field < 2 || field == 130 {
        field += align;
    }
    let zeros = length(if field < 130 { field - 2 } else { field - 3 })?;
    let mut encoder = Encoder::default();
    encoder.raw(canonical);
    encoder.bytes(FIELD, &vec![0; zeros]);
    Ok(encoder.finish().into())
}

fn lod_part(lod: &Lod) -> Vec<u8> {
    let mut part = (lod.0.len() as u64).to_le_bytes().to_vec();
    for level in &lod.0 {
        part.extend((level.len() as u64 * 8).to_le_bytes());
        part.extend(level.iter().flat_map(|offset| offset.to_le_bytes()));
    }
    part
}
