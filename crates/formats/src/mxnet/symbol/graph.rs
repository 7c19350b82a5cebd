//! The JSON types of a graph.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A graph: the whole program, or a subgraph of a node.
#[derive(Debug, Deserialize)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    #[serde(default)]
    pub(super) arg_nodes: Vec<usize>,
    pub(super) node_row_ptr: Option<Vec<usize>>,
    pub(super) heads: Vec<Entry>,
    /// Settings as `["int", 10901]`; those of another form are ignored.
    #[serde(default)]
    attrs: HashMap<String, Setting>,
}

/// A variable or an operator.
#[derive(Debug, Deserialize)]
pub(super) struct Node {
    pub(super) op: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) attrs: Texts,
    #[serde(default)]
    pub(super) attr: Texts,
    #[serde(default)]
    pub(super) param: Texts,
    #[serde(default)]
    pub(super) inputs: Vec<Entry>,
    #[serde(default)]
    pub(super) control_deps: Vec<usize>,
    pub(super) backward_source_id: Option<i64>,
    #[serde(default)]
    pub(super) subgraphs: Vec<Graph>,
}

/// An output of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    pub(super) node: usize,
    pub(super) output: usize,
    /// The number of previous modifications of the variable; 0 if the file does not record it.
    pub(super) version: u32,
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry `[node, output] or [node, output, version]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Entry, A::Error> {
        let node = numbers.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let output = numbers.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
        // An absent version is 0.
        let version = numbers.next_element()?.unwrap_or(0);
        if numbers.next_element::<IgnoredAny>()?.is_some() {
            return Err(A::Error::invalid_length(4, &self));
        }
        Ok(Entry { node, output, version })
    }
}

/// Attributes by name, each a string; `None` for other values. Of duplicates, the last
/// one is used, as in MXNet.
#[derive(Debug, Default)]
pub(super) struct Texts(pub(super) Vec<(String, Option<String>)>);

/// The integer in a setting.
#[derive(Debug)]
struct Setting(Option<i64>);

/// A value that is kept if it is a string or a number, and otherwise dropped without being built: a
/// value of two bytes could become a large structure.
struct Plain {
    text: Option<String>,
    number: Option<i64>,
    /// The second element of a list.
    second: Option<i64>,
}

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
        let (mut texts, mut places) = (Vec::new(), HashMap::new());
        while let Some((name, value)) = map.next_entry::<String, Plain>()? {
            let place = *places.entry(name.clone()).or_insert(texts.len());
            match texts.get_mut(place) {
                Some(known) => *known = (name, value.text),
                None => texts.push((name, value.text)),
            }
        }
        Ok(Texts(texts))
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Plain::deserialize(deserializer).map(|plain| Self(plain.second))
    }
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor)
    }
}

impl Plain {
    const OTHER: Self = Self { text: None, number: None, second: None };
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Plain;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Plain, E> {
        Ok(Plain { text: Some(text.to_owned()), ..Plain::OTHER })
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Plain, E> {
        Ok(Plain { text: Some(text), ..Plain::OTHER })
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Plain, E> {
        Ok(Plain { number: Some(number), ..Plain::OTHER })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Plain, E> {
        Ok(Plain { number: i64::try_from(number).ok(), ..Plain::OTHER })
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Plain, E> {
        Ok(Plain::OTHER)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Plain, E> {
        Ok(Plain::OTHER)
    }

    fn visit_unit<E: Error>(self) -> Result<Plain, E> {
        Ok(Plain::OTHER)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Plain, A::Error> {
        items.next_element::<IgnoredAny>()?;
        let second = items.next_element::<Self::Value>()?.and_then(|plain| plain.number);
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Plain { second, ..Plain::OTHER })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Plain, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Plain::OTHER)
    }
}

impl Graph {
    /// Returns MXNet's version in its own encoding.
    pub(super) fn version(&self) -> Option<i64> {
        self.attrs.get("mxnet_version")?.0
    }

    /// Returns whether a dim of 0 means 0, instead of unknown.
    pub(super) fn has_numpy_shapes(&self) -> bool {
        let flag = self.attrs.get("is_np_shape").and_then(|setting| setting.0);
        flag.is_some_and(|flag| flag != 0)
    }
}
