//! The IR and opset versions of each ONNX release.
//!
//! A model declares its IR version and the versions of its opsets. Readers reject unknown IR versions, and
//! opsets that are newer than theirs. Each new opset was released with an IR version that can express its operators.
//!
//! Source of truth: `helper.VERSION_TABLE` of onnx 1.23.2, by `data/make_onnx_operators.py`; the comments of
//! `onnx.proto`.

use std::sync::LazyLock;

/// A release of ONNX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version number of the release: `1.16.0`.
    pub name: &'static str,
    /// The IR version.
    pub ir_version: i64,
    /// The versions of the opsets, by domain.
    pub opsets: Vec<(&'static str, i64)>,
}

/// Domains in the order of the columns of the table.
const DOMAINS: [&str; 3] = ["ai.onnx", "ai.onnx.ml", PREVIEW_TRAINING];

const PREVIEW_TRAINING: &str = "ai.onnx.preview.training";

/// Domains whose only opset version is 1, and which the table of releases does not list.
const UNLISTED: [&str; 1] = ["ai.onnx.preview"];

/// Returns all releases, oldest first.
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

/// The newest version of the ONNX opset: that of the last release.
pub const NEWEST_OPSET: i64 = 28;

/// Returns the domains of ONNX's own opsets.
pub fn domains() -> impl Iterator<Item = &'static str> {
    DOMAINS.into_iter().chain(UNLISTED)
}

/// Returns the newest version of an opset; `None` if it is not one of ONNX's.
pub fn newest_opset(domain: &str) -> Option<i64> {
    let domain = super::domain_name(domain);
    let listed = releases().iter().flat_map(|release| &release.opsets);
    let newest = listed.filter(|(known, _)| *known == domain).map(|(_, version)| *version).max();
    newest.or_else(|| UNLISTED.contains(&domain).then_some(1))
}

/// Returns the newest IR version.
pub fn newest_ir_version() -> i64 {
    releases().iter().map(|release| release.ir_version).max().unwrap_or_default()
}

/// Returns the IR version with which an opset version was released.
pub fn ir_version_of_opset(domain: &str, opset: i64) -> Option<i64> {
    let domain = super::domain_name(domain);
    let has = |release: &&Release| {
        release.opsets.iter().any(|(known, version)| *known == domain && *version >= opset)
    };
    releases().iter().find(has).map(|release| release.ir_version)
}

/// The IR versions that introduced features of programs.
pub mod introduced {
    /// Attributes declare their types.
    pub const ATTRIBUTE_TYPES: i64 = 2;
    /// Programs declare their opsets.
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
