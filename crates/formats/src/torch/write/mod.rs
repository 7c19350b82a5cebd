//! Writes files of `torch.save`, and unedited files of the other layouts.
//!
//! | module | contents |
//! |---|---|
//! | `back` | files as they were, if the model is unedited |
//! | `saved` | the archive of a dict of tensors |
//! | `pickled` | its pickle |
//! | `storages` | the storages of tensors, of which those that share one keep it |

mod back;
mod pickled;
mod saved;
mod storages;

pub(super) use back::write as write_back;
pub(super) use saved::{check as check_tensor, put_item, write as write_saved};
