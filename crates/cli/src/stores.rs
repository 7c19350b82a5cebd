//! Where paths of the command line lead: the stores that a scheme names.

use std::path::Path;

use lodstone::Location;

use crate::Failure;

/// A store by the part of an address behind `SCHEME://`.
type Store = fn(&str) -> Location;

/// The stores, by scheme. A path without one is local.
const SCHEMES: &[(&str, Store)] = &[("file", |path| Location::from(path))];

/// Where a path or an address leads.
///
/// # Errors
/// If there is no store for its scheme.
pub(crate) fn at(path: impl AsRef<Path>) -> Result<Location, Failure> {
    let path = path.as_ref();
    let Some((scheme, rest)) = path.to_str().and_then(|path| path.split_once("://")) else {
        return Ok(Location::from(path));
    };
    // A local path with a colon in front of two slashes has a slash before it.
    if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(Location::from(path));
    }
    match SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme)) {
        Some((_, store)) => Ok(store(rest)),
        None => {
            let known: Vec<_> =
                SCHEMES.iter().map(|(scheme, _)| format!("`{scheme}://`")).collect();
            Err(format!("no store for `{scheme}://`; there are: {}", known.join(", ")).into())
        }
    }
}
