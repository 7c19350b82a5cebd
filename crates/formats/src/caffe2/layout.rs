//! The names of the two nets of a model, stored so that the model can be written back under the same names.

use lodstone_model::Model;
use lodstone_store::Location;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::format;

/// The owner of the residual of a model.
const MODEL: &str = "caffe2 pair";

/// The files of a model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Pair {
    /// Whether a directory was opened, instead of a file.
    pub(super) directory: bool,
    pub(super) init: Option<String>,
    pub(super) predict: Option<String>,
}

impl Pair {
    pub(super) fn of(model: &Model) -> Result<Option<Self>> {
        format::recall(model, MODEL)
    }

    pub(super) fn remember(&self, model: &mut Model) -> Result<()> {
        format::remember(model, MODEL, self)
    }
}

/// The ends of the names of both nets, without the extension: predict, init. The usual ones come first.
const ENDS: [(&str, &str); 8] = [
    ("predict_net", "init_net"),
    ("pred_net", "init_net"),
    ("predict", "init"),
    ("pred", "init"),
    ("_predict_net", "_init"),
    ("_predict", "_init_net"),
    ("_net", "_init_net"),
    ("", "_init"),
];

const EXTENSIONS: [&str; 2] = [".pbtxt", ".pb"];

/// Splits a file name into its stem and its extension, which may be empty.
fn split(name: &str) -> (&str, &str) {
    let end = EXTENSIONS.into_iter().find(|end| name.ends_with(end));
    end.and_then(|end| Some((name.strip_suffix(end)?, end))).unwrap_or((name, ""))
}

/// Returns whether a file name is that of an `init_net`; `None` if it is neither that nor the name of a `predict_net`.
pub(super) fn is_init(name: &str) -> Option<bool> {
    let (stem, _) = split(name);
    let ends = |ends: &[&str]| ends.iter().any(|end| stem.ends_with(end));
    if ends(&["init_net", "_init"]) || stem == "init" {
        return Some(true);
    }
    (ends(&["predict_net", "pred_net", "_predict", "_pred"]) || stem == "predict").then_some(false)
}

/// Returns the names that the other net of a file may have, the usual one first.
pub(super) fn others(name: &str, is_init: bool) -> Vec<String> {
    let (stem, extension) = split(name);
    let mut extensions = vec![extension];
    extensions.extend(EXTENSIONS.into_iter().filter(|other| *other != extension));
    let pairs = ENDS.iter().filter_map(|(predict, init)| {
        let (own, other) = if is_init { (init, predict) } else { (predict, init) };
        stem.strip_suffix(own).map(|prefix| format!("{prefix}{other}"))
    });
    let stems: Vec<String> = pairs.filter(|other| !other.is_empty() && other != stem).collect();
    let named = |extension: &&str| {
        let extension = *extension;
        stems.iter().map(move |stem| format!("{stem}{extension}")).collect::<Vec<_>>()
    };
    extensions.iter().flat_map(named).collect()
}

/// Returns the conventional `predict_net` among the files of a directory, or otherwise an `init_net`; `None` if there is
/// neither, or several.
pub(super) fn in_directory<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    for kind in ["predict_net", "init_net"] {
        for extension in [".pb", ".pbtxt"] {
            let end = format!("{kind}{extension}");
            let is_it = |name: &&str| {
                name.strip_suffix(&end).is_some_and(|stem| stem.is_empty() || stem.ends_with('_'))
            };
            let found: Vec<&str> = names.clone().filter(is_it).collect();
            match found.as_slice() {
                [] => {}
                [only] => return Some(only),
                // The one without a prefix.
                several => return several.iter().find(|name| **name == end).copied(),
            }
        }
    }
    None
}

/// Returns the names of both nets for an output name: predict and init.
pub(super) fn outputs(name: &str, extension: &str) -> (String, String) {
    let (stem, own) = split(name);
    let own = if own.is_empty() { extension } else { own };
    if let Some(prefix) = stem.strip_suffix("predict_net") {
        return (name.to_owned(), format!("{prefix}init_net{own}"));
    }
    if let Some(prefix) = stem.strip_suffix("init_net") {
        return (format!("{prefix}predict_net{own}"), name.to_owned());
    }
    (format!("{stem}_predict_net{own}"), format!("{stem}_init_net{own}"))
}

/// Returns the main net of a pair with a prefix, or with the name that both were written under: `X` or `X.pbtxt` for
/// `X_predict_net.pbtxt`.
pub(super) fn by_prefix(prefix: &Location) -> Result<Option<Location>> {
    let Some(name) = prefix.name() else { return Ok(None) };
    let stem = name.strip_suffix(".pbtxt").or(name.strip_suffix(".pb")).unwrap_or(name);
    let named = |extension| prefix.with_file_name(format!("{stem}_predict_net.{extension}"));
    Ok(Location::existing(["pb", "pbtxt"].map(named)).next().transpose()?)
}
