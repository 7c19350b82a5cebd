//! Data that no manifest refers to, in stores that publish single files: of writers that were killed before they published
//! the manifest, or that lost a race for a step.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lodstone_store::{Dir, Links, Location, Progress};

use crate::error::Result;
use crate::manifest::{MANIFEST, Manifest};
use crate::serial::step_of;

/// The beginning of the names of directories of data.
pub(crate) const DATA: &str = "data-";

/// The age at which data without a manifest is nobody's. No save takes as long.
const EXPIRY: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of files in a directory of data.
const MAX_FILES: usize = 1_000_000;

/// Removes the leftovers in a directory of serials.
///
/// # Errors
/// If a directory cannot be listed, or a leftover cannot be removed.
pub(crate) fn remove(dir: &Location) -> Result<()> {
    let entries = dir.list()?;
    let is_serial = |name: &str| step_of(name).is_some();
    for entry in entries.iter().filter(|entry| entry.is_dir && is_serial(&entry.name)) {
        let serial = dir.join(&entry.name);
        let entries = serial.list()?;
        let is_data = |name: &str| name.starts_with(DATA);
        let data: Vec<&str> = entries
            .iter()
            .filter(|entry| entry.is_dir && is_data(&entry.name))
            .map(|entry| entry.name.as_str())
            .collect();
        let has_manifest = entries.iter().any(|entry| entry.name == MANIFEST.name);
        // Most serials have one directory of data, which needs no look at the manifest.
        if data.is_empty() || (data.len() == 1 && has_manifest) {
            continue;
        }
        let used = match has_manifest {
            true => match Manifest::load(&serial) {
                Ok(manifest) => manifest.data,
                // What a damaged manifest refers to is unknown.
                Err(_) => continue,
            },
            false => None,
        };
        for name in data.into_iter().filter(|name| Some(*name) != used.as_deref()) {
            let data = serial.join(name);
            if is_expired(&data)? {
                data.remove_dir(&Progress::default())?;
            }
        }
    }
    Ok(())
}

/// Returns whether all files of a directory are old. Files of unknown age are not.
fn is_expired(data: &Location) -> Result<bool> {
    let files = Dir::open(data, Links::Confined, false)?.files(MAX_FILES)?;
    for name in files {
        let (seconds, _) = data.join(name).stamp()?.modified;
        let then = UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        if then == UNIX_EPOCH || SystemTime::now().duration_since(then).unwrap_or_default() < EXPIRY
        {
            return Ok(false);
        }
    }
    Ok(true)
}
