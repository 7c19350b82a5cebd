//! The kinds of nodes that Glow writes.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A kind of node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name of the kind: `Convolution`.
    pub kind: &'static str,
    /// The inputs, by position; the values of members follow them.
    pub inputs: Vec<&'static str>,
    /// The members, which are attributes, in the order in which Glow writes them.
    pub members: Vec<(&'static str, Member)>,
    /// The results, by position.
    pub results: Vec<NodeResult>,
    /// Whether it may have a predicate: another value that selects the elements that matter.
    pub has_predicate: bool,
}

/// The type of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// A float.
    Float,
    /// A list of floats.
    Floats,
    /// An integer of at least this value.
    Int(i64),
    /// A value of an enumeration, as an integer below the number of its values.
    Code(i64),
    /// A list of integers of at least this value.
    Ints(i64),
    /// 0 or 1.
    Bool,
    /// A string.
    String,
    /// A name from this list.
    Name(&'static [&'static str]),
    /// A list of values, by name.
    Values,
}

/// A result of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeResult {
    /// The name of the result.
    pub name: &'static str,
    /// The input whose type the result has; if `None`, the file declares the type.
    pub like: Option<&'static str>,
    /// Whether there may be any number of such results.
    pub several: bool,
}

const LAYOUTS: &[&str] = &["NHWC", "NCHW", "NTHWC", "NCTHW"];
const ACTIVATIONS: &[&str] = &["NONE", "RELU", "CLIP", "TANH", "SIGMOID", "LEAKY_RELU"];
const LENGTHS: &[&str] = &["Variable", "AllOne"];
/// Glow also writes `EXP`, which its own reader rejects.
const TABLES: &[&str] = &["NONE", "RELU", "CLIP", "TANH", "SIGMOID", "LEAKY_RELU"];
const POOLING: &[&str] = &["0", "1", "2"];
const SPARSE: &[&str] = &["0", "1", "2", "3", "4"];

static NODES: LazyLock<Vec<Node>> =
    LazyLock::new(|| include_str!("../../data/glow_nodes.tsv").lines().map(parse).collect());

/// Returns all kinds.
pub fn nodes() -> &'static [Node] {
    &NODES
}

/// Returns the kind of this name; `None` if Glow has none.
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

/// Returns the type of a member from its C++ type.
fn member(class: &str) -> Member {
    match class {
        "float" => Member::Float,
        "float[]" => Member::Floats,
        "bool" => Member::Bool,
        "string" => Member::String,
        "uint32" => Member::Int(0),
        "enum2" => Member::Code(2),
        "enum3" => Member::Code(3),
        "enum4" => Member::Code(4),
        "uint32[]" | "dim_t[]" => Member::Ints(0),
        "int32[]" => Member::Ints(i32::MIN.into()),
        "NodeValue[]" => Member::Values,
        "ConvolutionLayout" => Member::Name(LAYOUTS),
        "FusedActivation" => Member::Name(ACTIVATIONS),
        "LengthsMode" => Member::Name(LENGTHS),
        "LUTOperator" => Member::Name(TABLES),
        "SplitEmbeddingPoolingMode" => Member::Name(POOLING),
        "SplitEmbeddingSparseType" => Member::Name(SPARSE),
        // The only remaining type in the table is `int64`.
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
