//! Runs of unpacked values: a tag and a value, again and again.
//!
//! Elements of a tensor that a schema does not pack take a tag each. They are found without being decoded, so that a
//! file of any size is opened without a structure for each element.

use lodstone_model::Limits;
use lodstone_store::Blob;

use super::varint::{Varint, min_len};
use crate::error::Result;
use crate::lengths::at_most;

/// The minimum number of values of a run that is left out of a structure. Lists of arguments are shorter.
pub(super) const MIN_VALUES: u64 = 64;

/// The minimum length of a single value that is left out of a structure.
pub(super) const MIN_VALUE: u64 = 256;

/// The chunk size for reading a file.
const PIECE: usize = 64 << 10;

/// Returns the length in bytes of the run of fields that begins at `start`, in a message that ends at `end`: all have
/// the tag `tag`. Returns `None` if it is short, or a tag is not encoded minimally.
///
/// # Errors
/// Fails if reading fails.
pub(super) fn length(
    blob: &Blob,
    (start, end): (u64, u64),
    tag: u64,
    limits: &Limits,
) -> Result<Option<u64>> {
    let Some(first) = u8::try_from(tag).ok().filter(|_| min_len(tag) == 1) else { return Ok(None) };
    let is_fixed = tag & 7 == 5;
    let mut buffer = vec![0; PIECE];
    let (mut at, mut whole, mut count) = (start, start, 0_u64);
    let mut state = State::Tag;
    'pieces: while at < end {
        limits.check_cancelled()?;
        let size = at_most(end - at, PIECE);
        let (piece, _) = buffer.split_at_mut(size);
        blob.read_at(at, piece)?;
        for byte in piece {
            at += 1;
            state = match state {
                State::Tag if *byte != first => break 'pieces,
                State::Tag if is_fixed => State::Fixed(4),
                State::Tag => State::Varint(Varint::default()),
                State::Fixed(left) if left > 1 => State::Fixed(left - 1),
                State::Fixed(_) => State::Tag,
                State::Varint(mut varint) => match varint.take(*byte) {
                    Ok(None) => State::Varint(varint),
                    Ok(Some(_)) => State::Tag,
                    // Reported where the value is read.
                    Err(_) => break 'pieces,
                },
            };
            if matches!(state, State::Tag) {
                (whole, count) = (at, count + 1);
            }
        }
    }
    Ok((count >= MIN_VALUES).then_some(whole - start))
}

/// The next byte of a run.
enum State {
    Tag,
    /// One of this many bytes of a value of fixed size.
    Fixed(u32),
    Varint(Varint),
}
