//! Writes states back.

use std::collections::HashMap;

use lodstone_model::{Limits, Model};
use lodstone_store::{Blob, Location};

use super::NAME;
use super::contents::{Array, Contents, Elements};
use super::read::look;
use crate::encoding::pickle::{Kept, Latin1, Piece, Spelling, is_one};
use crate::error::{Error, Result};
use crate::mxnet::params::{same_head, stored_blobs};
use crate::options::WriteOptions;
use crate::staged::Staged;

/// Writes the original states with the current elements.
///
/// # Errors
/// Fails if the model was not read from such a file, or has other edits, or if reading or writing fails.
pub(super) fn write(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let refuse = |what: &str| Error::Incompatible { format: NAME, what: what.to_owned() };
    let kept = model.residual.of(NAME).and_then(Kept::decode);
    let kept = kept.ok_or_else(|| refuse("a model that was not read from optimizer states"))?;
    // The file was within the limits when it was read.
    let (_, contents) = look(&kept.blob(), &Limits::none(), Elements::Cut)?;
    let holes = holes(model, &contents);
    let edited = "edited states: only elements may change";
    let holes = holes.ok_or_else(|| refuse(edited))?;
    Staged::file(path, options, |out| {
        kept.pieces().try_for_each(|piece| match piece {
            Piece::Bytes(bytes) => Ok::<_, Error>(out.put(&bytes)?),
            Piece::Hole(start) => {
                let mut blobs = holes.get(&start).into_iter().flatten();
                Ok(blobs.try_for_each(|blob| out.copy(blob))?)
            }
        })
    })
}

/// Returns the new contents of each hole, by offset, if nothing else was edited.
fn holes(model: &Model, contents: &Contents) -> Option<HashMap<u64, Vec<Blob>>> {
    if model.metadata != contents.metadata || model.parameters.len() != contents.tensors.len() {
        return None;
    }
    let mut holes: HashMap<u64, Vec<Blob>> = HashMap::new();
    for (parameter, (path, id)) in model.parameters.iter().zip(&contents.tensors) {
        let array = contents.arrays.get(id)?.as_ref()?;
        if parameter.name != *path || !same_head(&parameter.tensor, &array.tensor) {
            return None;
        }
        let blobs = written(array, stored_blobs(&parameter.tensor))?;
        if let Some(others) = holes.get(&array.hole.start) {
            // An array is shared, and another copy was edited.
            let same = others.iter().zip(&blobs).all(|(a, b)| is_one(a, b));
            if !same {
                return None;
            }
        }
        holes.insert(array.hole.start, blobs);
    }
    Some(holes)
}

/// Returns the encoded bytes of an array, if they fit its hole.
fn written(array: &Array, blobs: Vec<Blob>) -> Option<Vec<Blob>> {
    let spelled = |blob: &Blob| match array.spelling {
        Spelling::Plain => Some(blob.clone()),
        _ => Some(blob.derivation::<Latin1>()?.source().clone()),
    };
    let blobs = blobs.iter().map(spelled).collect::<Option<Vec<Blob>>>()?;
    (blobs.iter().map(Blob::len).sum::<u64>() == array.hole.len).then_some(blobs)
}
