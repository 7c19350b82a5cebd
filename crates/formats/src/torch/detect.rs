//! Detection of PyTorch files, which are scanned but not read.
//!
//! | file | first bytes |
//! |---|---|
//! | `torch.save` since 1.6, TorchScript | a zip archive whose first member is `P/data.pkl`, `P/version` or `P/data/0` |
//! | exported program (`.pt2`) | a zip archive whose first member is `P/archive_format` or `P/data/weights/weight_0` |
//! | `torch.save` before 1.6 | a pickle of the integer `0x1950a86a20f9469cfc6c` |
//!
//! Source of truth: files that PyTorch 1.0 to 2.15 wrote.

use super::outside::is_numbered;
use crate::Probe;
use crate::encoding::zip::first_name;

/// Extensions of PyTorch archives.
const EXTENSIONS: [&str; 7] = ["pt", "pth", "ptl", "pt2", "ckpt", "bin", "distcp"];

/// Returns the description of a file, if it is one of PyTorch.
pub(crate) fn identify(probe: &Probe<'_>) -> Option<&'static str> {
    if probe.entries.is_some() {
        return None;
    }
    if is_numbered(probe.head, probe.len) {
        return Some("a PyTorch file (`torch.save`, before 1.6)");
    }
    let first = String::from_utf8_lossy(first_name(probe.head)?);
    let (_, member) = first.split_once('/')?;
    let extension = probe.path.extension().and_then(|extension| extension.to_str());
    let is_named = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
    match member {
        "archive_format" => Some("a PyTorch exported program"),
        _ if is_named && member.starts_with("data/weights/") => Some("a PyTorch exported program"),
        "data.pkl" => Some("a PyTorch archive (`torch.save` or TorchScript)"),
        "version" | "byteorder" | ".format_version" | "constants.pkl" if is_named => {
            Some("a PyTorch archive (`torch.save` or TorchScript)")
        }
        _ if is_named && member.starts_with("data/") => {
            Some("a PyTorch archive (`torch.save` or TorchScript)")
        }
        _ => None,
    }
}
