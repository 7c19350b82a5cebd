//! A graph as its JSON has it.

use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A graph: the whole program, or one that a node runs.
#[derive(Debug, Deserialize)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    #[serde(default)]
    pub(super) arg_nodes: Vec<usize>,
    pub(super) node_row_ptr: Option<Vec<usize>>,
    pub(super) heads: Vec<Entry>,
    #[serde(default)]
    pub(super) attrs: Map<String, Value>,
}

/// A variable or an operator.
#[derive(Debug, Deserialize)]
pub(super) struct Node {
    pub(super) op: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) attrs: Map<String, Value>,
    #[serde(default)]
    pub(super) attr: Map<String, Value>,
    #[serde(default)]
    pub(super) param: Map<String, Value>,
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
    /// How often the variable was changed before; 0 where the file does not say.
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
        f.write_str("an entry: [node, output] or [node, output, version]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Entry, A::Error> {
        let node = numbers.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let output = numbers.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
        let version = numbers.next_element()?.unwrap_or(0);
        if numbers.next_element::<Value>()?.is_some() {
            return Err(A::Error::invalid_length(4, &self));
        }
        Ok(Entry { node, output, version })
    }
}

impl Graph {
    /// MXNet's version, as it encodes it.
    pub(super) fn version(&self) -> Option<i64> {
        self.attrs.get("mxnet_version")?.as_array()?.get(1)?.as_i64()
    }

    /// Whether extents of 0 mean 0, and not that they are unknown.
    pub(super) fn has_numpy_shapes(&self) -> bool {
        let flag =
            self.attrs.get("is_np_shape").and_then(|value| value.as_array()?.get(1)?.as_i64());
        flag.is_some_and(|flag| flag != 0)
    }
}
