//! The numbers of PyTorch's models.

use std::collections::BTreeMap;

use lodstone_store::{Blob, Cursor};

use crate::encoding::pickle::torch::{Storage, keys, storages};
use crate::encoding::pickle::{Loads, Tree};

/// The members of an archive that are numbers, by name, with their sizes: those that `P/data.pkl` names are
/// `P/data/KEY`.
pub(super) fn members(name: &str, pickle: &Tree) -> Option<BTreeMap<String, u64>> {
    let prefix = name.strip_suffix("data.pkl")?;
    let sized =
        |(key, storage): (String, Storage)| Some((format!("{prefix}data/{key}"), storage.size()?));
    storages(pickle)?.into_iter().map(sized).collect()
}

/// Whether a file is five pickles and the numbers that the fourth names, in the order of the fifth, to the
/// last byte.
pub(super) fn is_old(blob: &Blob, loads: &Loads) -> bool {
    let [_, _, _, value, order] = loads.kept.as_slice() else { return false };
    let (Some(known), Some(order)) = (storages(value), keys(order)) else { return false };
    let mut cursor = Cursor::at(blob, order_end(loads));
    let mut left = known.len();
    for key in order {
        let Some(storage) = known.get(&key) else { return false };
        let Ok(count) = cursor.u64("a number of elements") else { return false };
        let Some(size) = storage.size().filter(|_| count == storage.count) else { return false };
        let end = cursor.position().saturating_add(size);
        if end > blob.len() || left == 0 {
            return false;
        }
        cursor.seek(end);
        left -= 1;
    }
    left == 0 && cursor.position() == blob.len()
}

/// Where the fifth pickle ends.
fn order_end(loads: &Loads) -> u64 {
    loads.kept.last().map_or(0, Tree::end)
}
