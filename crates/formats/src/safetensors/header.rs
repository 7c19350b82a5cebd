//! JSON texts: the header of a file, and the index of several files.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use lodstone_model::{DType, Limits, Parameter};
use lodstone_store::Blob;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{CODES, MAX_RANK, METADATA, size_of};
use crate::error::Result;

/// The contents of a header.
#[derive(Default)]
pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, String>,
    /// By offset, and in the order of the header if offsets are equal.
    pub(super) tensors: Vec<(String, Entry)>,
}

/// The entry of a tensor in a header.
pub(super) struct Entry {
    pub(super) dtype: DType,
    pub(super) shape: Vec<u64>,
    /// The start and end of the elements, from the end of the header.
    pub(super) offsets: (u64, u64),
}

impl Header {
    /// Parses the header `json` of the file `blob`, and checks it against the file's size.
    ///
    /// # Errors
    /// Fails if the header is invalid, or its tensors do not cover the rest of the file.
    pub(super) fn parse(json: &[u8], blob: &Blob, limits: &Limits) -> Result<Self> {
        if json.first() != Some(&b'{') {
            let found = json.first().map_or("none".to_owned(), |byte| format!("{byte:#04x}"));
            return Err(blob.malformed(8, "a header that begins with `{`", found).into());
        }
        let header = Self::decode(json).map_err(|error| {
            let offset = 8 + offset_in(json, &error);
            blob.malformed(offset, "a safetensors header", bare(&error))
        })?;
        if header.tensors.len() > limits.tensors {
            return Err(blob.over_limit(8, limits.at_most_tensors("tensors")).into());
        }
        header.check(blob, 8 + json.len() as u64)?;
        Ok(header)
    }

    /// Parses a header without a file.
    ///
    /// # Errors
    /// The errors of the JSON parser.
    pub(super) fn decode(json: &[u8]) -> serde_json::Result<Self> {
        let mut header: Self = serde_json::from_slice(json)?;
        header.tensors.sort_by_key(|(_, entry)| entry.offsets);
        Ok(header)
    }

    /// Returns whether these are the tensors of the header, in its order.
    pub(super) fn describes(&self, parameters: &[Parameter]) -> bool {
        let same = |((name, entry), parameter): (&(String, Entry), &Parameter)| {
            let tensor = &parameter.tensor;
            *name == parameter.name && entry.dtype == tensor.dtype && entry.shape == tensor.shape
        };
        self.tensors.len() == parameters.len() && self.tensors.iter().zip(parameters).all(same)
    }

    /// Checks that the concatenated tensors are the bytes of `blob` from `start`.
    fn check(&self, blob: &Blob, start: u64) -> Result<()> {
        let mut end = 0;
        for (name, Entry { dtype, shape, offsets }) in &self.tensors {
            let wrong = |expected: String, found: String| {
                let error = crate::error::Error::from(blob.malformed(8, expected, found));
                Err(error.inside(format!("tensor `{name}`")))
            };
            if offsets.0 != end || offsets.1 < end {
                let expected = format!("elements from offset {end}, where the previous ones end");
                return wrong(expected, format!("`data_offsets` {offsets:?}"));
            }
            let Some(size) = size_of(*dtype, shape) else {
                let expected = "a size in whole bytes that fits 64 bits".to_owned();
                return wrong(expected, format!("{dtype} of shape {shape:?}"));
            };
            if offsets.1 - offsets.0 != size {
                let expected = format!("the {size} bytes of {dtype} of shape {shape:?}");
                return wrong(expected, format!("`data_offsets` {offsets:?}"));
            }
            end = offsets.1;
        }
        let there = blob.len().saturating_sub(start);
        if end != there {
            let expected = format!("{end} bytes of elements, according to the header");
            return Err(blob.malformed(start, expected, format!("{there} bytes left")).into());
        }
        Ok(())
    }
}

/// Returns the offset of the byte of an error; the parser counts lines and columns from 1.
fn offset_in(json: &[u8], error: &serde_json::Error) -> u64 {
    let lines = json.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(<[u8]>::len).sum();
    (before + error.column().saturating_sub(1)) as u64
}

/// Returns the message of an error without its location.
fn bare(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        let mut seen = HashSet::new();
        while let Some(Text(name)) = map.next_key()? {
            if !seen.insert(name.clone()) {
                return Err(duplicate(&name));
            }
            if name == METADATA {
                header.metadata = map.next_value::<Texts>()?.0;
            } else {
                header.tensors.push((name.into_owned(), map.next_value()?));
            }
        }
        Ok(header)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not derived: serde's own code would also accept a JSON array for a struct.
        deserializer.deserialize_map(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `dtype`, `shape` and `data_offsets`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        while let Some(Text(key)) = map.next_key()? {
            let again = match &*key {
                "dtype" => dtype.replace(map.next_value::<Code>()?.0).is_some(),
                "shape" => shape.replace(map.next_value::<Dims>()?.0).is_some(),
                "data_offsets" => offsets.replace(map.next_value()?).is_some(),
                _ => {
                    let known = &["dtype", "shape", "data_offsets"];
                    return Err(A::Error::unknown_field(&key, known));
                }
            };
            if again {
                return Err(duplicate(&key));
            }
        }
        Ok(Entry {
            dtype: dtype.ok_or_else(|| A::Error::missing_field("dtype"))?,
            shape: shape.ok_or_else(|| A::Error::missing_field("shape"))?,
            offsets: offsets.ok_or_else(|| A::Error::missing_field("data_offsets"))?,
        })
    }
}

/// The dims of a tensor.
struct Dims(Vec<u64>);

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(DimsVisitor)
    }
}

struct DimsVisitor;

impl<'de> Visitor<'de> for DimsVisitor {
    type Value = Dims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_RANK} dims")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Dims, A::Error> {
        let mut dims = Vec::new();
        while let Some(dim) = items.next_element()? {
            if dims.len() == MAX_RANK {
                return Err(A::Error::invalid_length(MAX_RANK + 1, &self));
            }
            dims.push(dim);
        }
        Ok(Dims(dims))
    }
}

/// A string, borrowed from the JSON text unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// An element type, by its code.
struct Code(DType);

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(code) = Text::deserialize(deserializer)?;
        let known = CODES.iter().find(|(_, known)| *known == code);
        known
            .map(|(dtype, _)| Self(*dtype))
            .ok_or_else(|| D::Error::custom(format_args!("unknown dtype `{code}`")))
    }
}

/// An object of strings.
struct Texts(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if texts.contains_key(&key) {
                return Err(duplicate(&key));
            }
            texts.insert(key, map.next_value()?);
        }
        Ok(Texts(texts))
    }
}

/// The contents of an index.
pub(crate) struct Index {
    /// The file of each tensor.
    pub(crate) weight_map: BTreeMap<String, String>,
    /// Unknown keys.
    pub(crate) unknown: Vec<String>,
}

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(IndexVisitor)
    }
}

struct IndexVisitor;

impl<'de> Visitor<'de> for IndexVisitor {
    type Value = Index;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `weight_map`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Index, A::Error> {
        let mut weight_map = None;
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == "weight_map" && weight_map.is_none() {
                weight_map = Some(map.next_value::<Texts>()?.0);
            } else if key == "weight_map" || !seen.insert(key.clone()) {
                return Err(duplicate(&key));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        seen.remove("metadata");
        let mut unknown: Vec<_> = seen.into_iter().collect();
        unknown.sort();
        let weight_map = weight_map.ok_or_else(|| A::Error::missing_field("weight_map"))?;
        Ok(Index { weight_map, unknown })
    }
}

fn duplicate<E: serde::de::Error>(key: &str) -> E {
    E::custom(format_args!("the key `{key}` twice"))
}
