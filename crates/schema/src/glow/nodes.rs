//! The kinds of nodes that are written.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A kind of node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name: `Convolution`.
    pub kind: &'static str,
    /// Inputs, by position; values of members follow them.
    pub inputs: Vec<&'static str>,
    /// Members, which are attributes, in the order in which they are written.
    pub members: Vec<(&'static str, Member)>,
    /// Results, by position.
    pub results: Vec<NodeResult>,
    /// Whether it may be told by another value which elements count.
    pub has_predicate: bool,
}

/// The type of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// A number with a fraction.
    Float,
    /// Such numbers.
    Floats,
    /// An integer from this on.
    Int(i64),
    /// Such integers.
    Ints(i64),
    /// 0 or 1.
    Bool,
    /// Text.
    String,
    /// One of these names.
    Name(&'static [&'static str]),
    /// Values, by name.
    Values,
}

/// A result of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeResult {
    /// Its name.
    pub name: &'static str,
    /// The input whose type it has; otherwise its type has to be said.
    pub like: Option<&'static str>,
    /// Whether there may be any number of it.
    pub several: bool,
}

const LAYOUTS: &[&str] = &["NHWC", "NCHW", "NTHWC", "NCTHW"];
const ACTIVATIONS: &[&str] = &["NONE", "RELU", "CLIP", "TANH", "SIGMOID", "LEAKY_RELU"];
const LENGTHS: &[&str] = &["Variable", "AllOne"];
/// `EXP` is written, too, and refused by Glow's own reader.
const TABLES: &[&str] = &["NONE", "RELU", "CLIP", "TANH", "SIGMOID", "LEAKY_RELU"];
const POOLING: &[&str] = &["0", "1", "2"];
const SPARSE: &[&str] = &["0", "1", "2", "3", "4"];

static NODES: LazyLock<Vec<Node>> =
    LazyLock::new(|| include_str!("../../data/glow_nodes.tsv").lines().map(parse).collect());

/// All kinds.
pub fn nodes() -> &'static [Node] {
    &NODES
}

/// The kind of this name; `None` if Glow has none.
pub fn node(kind: &str) -> Option<&'static Node> {
    static BY_KIND: LazyLock<HashMap<&str, &Node>> =
        LazyLock::new(|| NODES.iter().map(|node| (node.kind, node)).collect());
    BY_KIND.get(kind).copied()
}

fn parse(line: &'static str) -> Node {
    let mut columns = line.split('\t').chain(std::iter::repeat(""));
    let mut words = || columns.next().unwrap_or_default().split_whitespace();
    let kind = words().next().unwrap_or_default();
    let inputs = words().collect();
    let members = words().filter_map(|word| word.split_once(':'));
    let members = members.map(|(name, class)| (name, member(class))).collect();
    let results = words().map(result).collect();
    let has_predicate = words().next().is_some();
    Node { kind, inputs, members, results, has_predicate }
}

/// The type of a member by its type in C++.
fn member(class: &str) -> Member {
    match class {
        "float" => Member::Float,
        "float[]" => Member::Floats,
        "bool" => Member::Bool,
        "string" => Member::String,
        "uint32" | "enum-as-uint32" => Member::Int(0),
        "uint32[]" | "dim_t[]" => Member::Ints(0),
        "int32[]" => Member::Ints(i32::MIN.into()),
        "NodeValue[]" => Member::Values,
        "ConvolutionLayout" => Member::Name(LAYOUTS),
        "FusedActivation" => Member::Name(ACTIVATIONS),
        "LengthsMode" => Member::Name(LENGTHS),
        "LUTOperator" => Member::Name(TABLES),
        "SplitEmbeddingPoolingMode" => Member::Name(POOLING),
        "SplitEmbeddingSparseType" => Member::Name(SPARSE),
        // `int64`, and nothing else is in the table.
        _ => Member::Int(i64::MIN),
    }
}

fn result(word: &'static str) -> NodeResult {
    let (name, like) = match word.split_once('=') {
        Some((name, like)) => (name, Some(like)),
        None => (word, None),
    };
    NodeResult { name: name.trim_end_matches('*'), like, several: name.ends_with('*') }
}
