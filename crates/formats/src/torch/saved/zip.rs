//! Archives of `torch.save`.

use lodstone_model::Limits;
use lodstone_store::Blob;

use crate::encoding::pickle;
use crate::error::{Error, Result};
use crate::torch::archive::Archive;
use crate::torch::element::Element;
use crate::torch::object::{Contents, Objects, Storages, contents};

/// The storages of an archive, in one of its folders.
pub(crate) struct Members<'a> {
    pub(crate) archive: &'a Archive,
    /// The folder, with a slash.
    pub(crate) folder: &'static str,
}

impl Storages for Members<'_> {
    fn storage(&self, key: &str, element: &'static Element, count: u64) -> Result<Blob, String> {
        let size = count.checked_mul(element.size);
        let size = size.ok_or_else(|| format!("a number of elements that fits, not {count}"))?;
        // The sizes of packed types count elements in some releases.
        let size = Some(size).filter(|_| element.is_exact);
        self.archive.storage(&format!("{}{key}", self.folder), size)
    }

    fn is_big(&self) -> bool {
        self.archive.is_big
    }
}

/// Reads a pickle of an archive, whose storages are in a folder.
///
/// # Errors
/// Fails if there is no such member, or it is damaged.
pub(crate) fn member(
    archive: &Archive,
    name: &str,
    folder: &'static str,
    limits: &Limits,
) -> Result<Contents> {
    let pickle = archive.file(name)?;
    let inside = |error: Error| error.inside(format!("member `{}{name}`", archive.root));
    let tree = pickle::read_bare(&pickle, 0, limits).map_err(inside)?;
    if tree.end() != pickle.len() {
        let found = format!("{} bytes more", pickle.len() - tree.end());
        let expected = "the end of the member after the pickle";
        return Err(inside(pickle.malformed(tree.end(), expected, found).into()));
    }
    contents(&Objects::new(tree), &Members { archive, folder }, limits).map_err(inside)
}
