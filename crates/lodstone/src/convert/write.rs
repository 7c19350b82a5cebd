//! The end of a conversion: the files, and the seals that they had.

use std::path::PathBuf;

use lodstone_formats::{SealEntry, seal_entries};
use lodstone_store::Location;

use super::draft::Draft;
use super::{Conversion, Request};
use crate::Result;
use crate::fit::check_allowed;
use crate::seal::{Broken, break_seals, follow_link};

/// Writes the model, if nothing is lost that is not allowed.
pub(super) fn write(draft: Draft, request: &Request<'_>) -> Result<Conversion> {
    let Request { out, format, options } = request;
    let (model, mut report, opset) = draft.finish();
    check_allowed(&report, &options.allow)?;
    if request.is_same() && !model.are_structured_names_current() {
        report.warn("structured names were not written: parameters were renamed or removed");
    }
    let mut broken = match options.write.seal {
        true => follow_link(out, &options.write.progress)?,
        false => Vec::new(),
    };
    let written = format.write(&model, out, &options.write.clone().with_same(request.is_same()))?;
    let mut unsealed: Vec<PathBuf> = written.unsealed.iter().map(Location::to_path_buf).collect();
    // The seal in the output directory was written with the files; one beside the target of a link is separate.
    let is_new = |place: &SealEntry| !written.through_link && place.is_in(&written.root);
    let places = written.files.iter().flat_map(seal_entries);
    let real = written.files.first().and_then(Location::link_target);
    let real = real.filter(|_| written.through_link && options.write.seal);
    let is_beside = |place: &SealEntry| {
        real.as_ref().and_then(Location::parent).is_some_and(|parent| place.is_in(&parent))
    };
    broken.extend(break_seals(places.filter(|place| !is_new(place) && !is_beside(place)))?);
    let missed = broken.into_iter().filter(Broken::is_missed);
    unsealed.extend(missed.map(|broken| broken.seal));
    for seal in unsealed {
        let what = "no longer holds checksums of the overwritten files";
        report.warn(format!("`{}` {what}", seal.display()));
    }
    let files = written.files.iter().map(Location::to_path_buf).collect();
    let (tensors, nbytes) = (model.parameters.len(), model.nbytes());
    Ok(Conversion { format: format.name, files, tensors, nbytes, opset, report })
}
