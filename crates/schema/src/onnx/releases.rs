//! Which versions of what ONNX's releases have.
//!
//! A model says which version of the representation (IR) it is in, and which versions of which sets of
//! operators it uses. Readers refuse a version of the representation that they do not know, and a set of
//! operators that is newer than theirs; each new set came with a representation that can say what it is
//! about.
//!
//! Source of truth: `helper.VERSION_TABLE` of onnx 1.23.2, by `data/make_onnx_operators.py`; the comments of
//! `onnx.proto`.

use std::sync::LazyLock;

/// A release of ONNX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its number: `1.16.0`.
    pub name: &'static str,
    /// The version of the representation.
    pub ir_version: i64,
    /// Versions of the sets of operators, by domain.
    pub opsets: Vec<(&'static str, i64)>,
}

/// Domains in the order of the columns of the table.
const DOMAINS: [&str; 3] = ["ai.onnx", "ai.onnx.ml", PREVIEW_TRAINING];

const PREVIEW_TRAINING: &str = "ai.onnx.preview.training";

/// Sets of operators whose only version is 1, that no release tells.
const UNTOLD: [&str; 1] = ["ai.onnx.preview"];

/// All releases, oldest first.
pub fn releases() -> &'static [Release] {
    static RELEASES: LazyLock<Vec<Release>> =
        LazyLock::new(|| include_str!("../../data/onnx_releases.tsv").lines().map(parse).collect());
    &RELEASES
}

fn parse(line: &'static str) -> Release {
    let mut columns = line.split('\t');
    let name = columns.next().unwrap_or_default();
    let mut numbers = columns.map(|column| column.parse().unwrap_or_default());
    let ir_version = numbers.next().unwrap_or_default();
    Release { name, ir_version, opsets: DOMAINS.into_iter().zip(numbers).collect() }
}

/// The newest version of ONNX's own operators: that of the last release.
pub const NEWEST_OPSET: i64 = 28;

/// The sets of operators that ONNX itself has.
pub fn domains() -> impl Iterator<Item = &'static str> {
    DOMAINS.into_iter().chain(UNTOLD)
}

/// The newest version of a set of operators; `None` if it is not one of ONNX's.
pub fn newest_opset(domain: &str) -> Option<i64> {
    let domain = super::domain_name(domain);
    let told = releases().iter().flat_map(|release| &release.opsets);
    let newest = told.filter(|(known, _)| *known == domain).map(|(_, version)| *version).max();
    newest.or_else(|| UNTOLD.contains(&domain).then_some(1))
}

/// The newest version of the representation.
pub fn newest_ir_version() -> i64 {
    releases().iter().map(|release| release.ir_version).max().unwrap_or_default()
}

/// The version of the representation with which a version of a set of operators was released.
pub fn ir_version_of_opset(domain: &str, opset: i64) -> Option<i64> {
    let domain = super::domain_name(domain);
    let has = |release: &&Release| {
        release.opsets.iter().any(|(known, version)| *known == domain && *version >= opset)
    };
    releases().iter().find(has).map(|release| release.ir_version)
}

/// The versions of the representation that brought what a program may be made of.
pub mod introduced {
    /// Attributes say of which type they are.
    pub const ATTRIBUTE_TYPES: i64 = 2;
    /// Programs say which sets of operators they use.
    pub const OPERATOR_SETS: i64 = 3;
    /// Initializers need not be inputs.
    pub const FREE_INITIALIZERS: i64 = 4;
    /// Sparse initializers.
    pub const SPARSE_INITIALIZERS: i64 = 6;
    /// Functions.
    pub const FUNCTIONS: i64 = 8;
    /// Optional values and sparse tensors as types of values.
    pub const OPTIONAL_VALUES: i64 = 8;
    /// Functions whose attributes have defaults.
    pub const FUNCTION_DEFAULTS: i64 = 9;
    /// Several functions of one name.
    pub const OVERLOADS: i64 = 10;
}
