//! The configuration of weights: views of storages by name.

use std::fmt;

use lodstone_store::Blob;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::encoding::json::malformed;
use crate::error::Result;
use crate::torch::element::Element;
use crate::torch::view::View;

/// The layout of strided tensors.
const STRIDED: u64 = 7;

/// A configuration, in the order of the file.
#[derive(Deserialize)]
pub(super) struct Config {
    pub(super) config: Entries,
}

/// The entries by name.
pub(super) struct Entries(pub(super) Vec<(String, Entry)>);

/// A tensor or another object.
#[derive(Deserialize)]
pub(super) struct Entry {
    pub(super) path_name: String,
    #[serde(default)]
    pub(super) use_pickle: bool,
    pub(super) tensor_meta: Option<Meta>,
}

/// The description of a tensor.
#[derive(Deserialize)]
pub(super) struct Meta {
    dtype: u64,
    sizes: Vec<Size>,
    strides: Vec<Size>,
    #[serde(default)]
    storage_offset: Size,
    #[serde(default = "strided")]
    layout: u64,
}

/// An integer, which is known for weights.
#[derive(Default, Deserialize)]
struct Size {
    #[serde(default)]
    as_int: u64,
}

fn strided() -> u64 {
    STRIDED
}

impl Config {
    /// Parses a configuration.
    ///
    /// # Errors
    /// Fails if it is not one, with the place.
    pub(super) fn parse(blob: &Blob) -> Result<Self> {
        let bytes = blob.bytes()?;
        let parsed = serde_json::from_slice(&bytes);
        parsed.map_err(|error| malformed(blob, (0, &bytes), "a configuration of weights", &error))
    }
}

impl Meta {
    /// Returns the view of a storage.
    ///
    /// # Errors
    /// Fails with what was expected if the element type or the layout is another one.
    pub(super) fn view(self, storage: Blob, is_big: bool) -> Result<View, String> {
        let Self { dtype, sizes, strides, storage_offset, layout } = self;
        let element = Element::exported(dtype);
        let element = element.ok_or_else(|| format!("a known element type, not {dtype}"))?;
        if layout != STRIDED {
            return Err(format!("a strided tensor (layout {STRIDED}), not layout {layout}"));
        }
        let numbers = |sizes: Vec<Size>| sizes.into_iter().map(|size| size.as_int).collect();
        let (shape, strides) = (numbers(sizes), numbers(strides));
        let sign = Default::default();
        Ok(View { element, shape, strides, offset: storage_offset.as_int, storage, is_big, sign })
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some((name, entry)) = map.next_entry::<String, Entry>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("the key `{name}` twice")));
            }
            entries.push((name, entry));
        }
        Ok(Entries(entries))
    }
}
