//! `index.json`: the contents of each golden file, as recorded by the framework that wrote it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct Index {
    pub cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
pub struct Case {
    /// The path that a user would open.
    pub path: String,
    /// The location of the parameters, if they are elsewhere.
    pub params: Option<String>,
    pub format: String,
    /// All files of the case, with their SHA-256.
    pub files: BTreeMap<String, String>,
    #[serde(default)]
    pub tensors: Vec<Tensor>,
    pub operators: Option<Vec<Vec<String>>>,
    pub inputs: Option<Vec<String>>,
    pub outputs: Option<Vec<String>>,
    /// All variables of an MXNet program, sorted.
    pub variables: Option<Vec<String>>,
    /// Attributes of some nodes of an old MXNet program after upgrades.
    pub upgraded: Option<BTreeMap<String, BTreeMap<String, String>>>,
    /// Attributes of one operator, each with its type and value.
    pub attributes: Option<Attributes>,
}

#[derive(Debug, Deserialize)]
pub struct Attributes {
    /// The indices of the block and of the operator.
    pub operator: (usize, usize),
    pub values: BTreeMap<String, (String, serde_json::Value)>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Tensor {
    pub name: String,
    pub kind: String,
    #[serde(default)]
    pub dtype: String,
    #[serde(default)]
    pub shape: Vec<u64>,
    #[serde(default)]
    pub sha256: Option<String>,
    #[serde(default)]
    pub lod: Vec<Vec<u64>>,
    #[serde(default)]
    pub rows: Vec<i64>,
    #[serde(default)]
    pub height: Option<i64>,
    /// Indices of sparse tensors: their type and values.
    #[serde(default)]
    pub parts: BTreeMap<String, (String, Vec<i64>)>,
    /// The elements of a string tensor.
    #[serde(default)]
    pub texts: Vec<String>,
    #[serde(default)]
    pub tokens: BTreeMap<String, i32>,
}

/// Returns the folder with most golden files of a format.
pub fn folder_of(format: &str) -> PathBuf {
    let golden = super::golden();
    let folders = std::fs::read_dir(golden.parent().expect("a parent")).expect("folders");
    let count = |folder: &PathBuf| {
        let Ok(index) = std::fs::read(folder.join("index.json")) else { return 0 };
        let index: serde_json::Value = serde_json::from_slice(&index).expect("an index");
        let cases = index["cases"].as_array().expect("cases").iter();
        cases.filter(|case| case["format"] == format).count()
    };
    folders.map(|folder| folder.expect("a folder").path()).max_by_key(count).expect("a folder")
}

pub fn cases(directory: &Path) -> Vec<Case> {
    let index = super::bytes(&directory.join("index.json"));
    let mut cases = serde_json::from_slice::<Index>(&index).expect("an index").cases;
    assert!(!cases.is_empty());
    for case in &mut cases {
        for (file, sha256) in &case.files {
            assert_eq!(&super::sha256(&super::bytes(&directory.join(file))), sha256, "{file}");
        }
    }
    cases
}
