//! Saving models.

use lodstone_formats::FORMATS;
use lodstone_model::Model;
use lodstone_store::Location;

use crate::convert::{Conversion, ConvertOptions, Target, convert};
use crate::{Error, Result};

/// Saving a [`Model`] that is open.
pub trait Save {
    /// Writes the model in the format of the extension of `path`. Without an extension, the model is
    /// written in its own format; an unedited model then keeps its bytes.
    ///
    /// ```
    /// use lodstone::{MemoryStore, Save};
    ///
    /// # let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/paddle");
    /// let model = lodstone::open(dir)?;
    /// let store = MemoryStore::default();
    /// model.save(store.location("digits.pdmodel"))?;
    /// let again = lodstone::open(store.location("digits"))?;
    /// assert_eq!(again.parameters.len(), model.parameters.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`convert`]; [`Error::Lossy`] if the format cannot represent something.
    fn save(&self, path: impl Into<Location>) -> Result<Conversion>;
}

impl Save for Model {
    fn save(&self, path: impl Into<Location>) -> Result<Conversion> {
        let path = path.into();
        let own = lodstone_formats::named(&self.format);
        let is_own = own.is_some_and(|own| own.is_selected_by(&path));
        let names_another = FORMATS.iter().any(|format| format.is_selected_by(&path)) && !is_own;
        if own.is_none() && !names_another {
            return Err(Error::UnclearTarget(path.to_string()));
        }
        let to = (!names_another).then_some(Target::Same);
        convert(self.clone(), path, &ConvertOptions { to, ..ConvertOptions::default() })
    }
}
