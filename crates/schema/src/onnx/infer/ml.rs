//! `ai.onnx.ml`: classical models, and the preprocessing of features.

use lodstone_model::{AttributeValue, DType, Dim, ValueType};

use super::Rule;
use super::dims::product;
use super::node::{Node, Outcome, sequence_of};
use super::value::{UNDEFINED, ValueInfo};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ArrayFeatureExtractor", extract),
    ("Binarizer", same),
    ("CastMap", cast_map),
    ("CategoryMapper", categories),
    ("DictVectorizer", vectorize),
    ("FeatureVectorizer", features),
    ("Imputer", same),
    ("LabelEncoder", labels),
    ("LinearClassifier", classifier),
    ("LinearRegressor", linear),
    ("Normalizer", floats),
    ("OneHotEncoder", one_hot),
    ("SVMClassifier", classifier),
    ("SVMRegressor", regressor),
    ("Scaler", floats),
    ("TreeEnsemble", trees),
    ("TreeEnsembleClassifier", tree_classifier),
    ("TreeEnsembleRegressor", tree_regressor),
    ("ZipMap", zip),
];

fn same(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    node.like(0, 0);
    Ok(())
}

fn floats(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let shape = node.shape(0).map(<[Dim]>::to_vec);
    node.tensor(0, DType::Float32, shape);
    Ok(())
}

/// Returns the length of a list attribute, if it is present.
fn count(node: &Node<'_>, name: &str) -> Option<u64> {
    let count = match node.attribute(name)? {
        AttributeValue::Longs(numbers) => numbers.len(),
        AttributeValue::Strings(texts) => texts.len(),
        AttributeValue::Floats(numbers) => numbers.len(),
        _ => return None,
    };
    (count > 0).then_some(count as u64)
}

/// Returns the number of rows of [rows, features], or 1 for [features].
fn rows(node: &Node<'_>) -> Result<Dim, Finding> {
    match node.shape(0) {
        Some([rows, _]) => Ok(rows.clone()),
        Some([_]) => Ok(Dim::Known(1)),
        Some(shape) => Err(format!("expected 1 or 2 dims, found {}", shape.len()).into()),
        None => Ok(Dim::Unknown),
    }
}

/// The indices apply to the last dim.
fn extract(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let taken = node.shape(1).map_or(Dim::Unknown, product);
    let shape = match node.shape(0) {
        // A single row.
        Some([_]) => Some(vec![Dim::Known(1), taken]),
        Some([before @ .., _]) => Some(before.iter().cloned().chain([taken]).collect()),
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// Returns the type of the values of a map.
fn of_map(node: &Node<'_>) -> Result<DType, Finding> {
    let Some(input) = node.input(0).filter(|input| !input.is_unknown()) else {
        return Ok(UNDEFINED);
    };
    match &input.value {
        ValueType::Dict(_, value) => {
            Ok(value.tensor_type().map_or(UNDEFINED, |tensor| tensor.dtype))
        }
        _ => Err(format!("expected a map, found {}", super::dims::show_type(&input.value)).into()),
    }
}

fn cast_map(node: &mut Node<'_>) -> Outcome {
    of_map(node)?;
    let dtypes =
        [("TO_FLOAT", DType::Float32), ("TO_STRING", DType::String), ("TO_INT64", DType::Int64)];
    let dtype = node.choice("cast_to", &dtypes)?;
    node.tensor(0, dtype, None);
    Ok(())
}

/// Strings to integers, and integers to strings.
fn categories(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let (numbers, texts) = (required(node, "cats_int64s")?, required(node, "cats_strings")?);
    same_length(("cats_int64s", numbers.1), ("cats_strings", texts.1))?;
    let dtype = match node.dtype(0) {
        DType::String => DType::Int64,
        DType::Int64 => DType::String,
        UNDEFINED => UNDEFINED,
        other => return Err(format!("expected string or int64, found {other}").into()),
    };
    let shape = node.shape(0).map(<[Dim]>::to_vec);
    node.tensor(0, dtype, shape);
    Ok(())
}

fn vectorize(node: &mut Node<'_>) -> Outcome {
    let dtype = of_map(node)?;
    node.tensor(0, dtype, None);
    Ok(())
}

/// Concatenates all features of a row.
fn features(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let width = node.ints_attribute("inputdimensions").and_then(|sizes| {
        sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(u64::try_from(*size).ok()?))
    });
    let width = width.map_or(Dim::Unknown, Dim::Known);
    let rows = if node.has(0) { rows(node)? } else { Dim::Unknown };
    node.tensor(0, DType::Float32, Some(vec![rows, width]));
    Ok(())
}

/// Returns the element type and length of an attribute that is a list, or a tensor of rank 1.
fn list(node: &Node<'_>, name: &str) -> Result<Option<(DType, u64)>, Finding> {
    Ok(Some(match node.attribute(name) {
        Some(AttributeValue::Longs(numbers)) => (DType::Int64, numbers.len() as u64),
        Some(AttributeValue::Floats(numbers)) => (DType::Float32, numbers.len() as u64),
        Some(AttributeValue::Strings(texts)) => (DType::String, texts.len() as u64),
        Some(AttributeValue::Tensor(tensor)) => match tensor.shape.as_slice() {
            [length] => (tensor.dtype, *length),
            other => {
                let wrong = format!("expected `{name}` of one dim, found {other:?}");
                return Err(Finding::from(wrong).about_attribute(name));
            }
        },
        _ => return Ok(None),
    }))
}

/// Returns the element type and length of a required attribute.
fn required(node: &Node<'_>, name: &str) -> Result<(DType, u64), Finding> {
    let missing = || Finding::from(format!("expected `{name}`, found none")).about_attribute(name);
    list(node, name)?.ok_or_else(missing)
}

/// Returns the only one of several attributes that is present, with its element type and length.
fn only<'n>(node: &Node<'_>, names: &[&'n str]) -> Result<(&'n str, DType, u64), Finding> {
    let mut found = names.iter().filter(|name| node.has_attribute(name));
    match (found.next(), found.next()) {
        (Some(name), None) => required(node, name).map(|(dtype, length)| (*name, dtype, length)),
        (first, _) => {
            let found = if first.is_some() { "several" } else { "none" };
            Err(format!("expected one of {}, found {found}", names.join(", ")).into())
        }
    }
}

fn same_length((name, length): (&str, u64), (other, found): (&str, u64)) -> Outcome {
    match length == found {
        true => Ok(()),
        false => {
            let wrong =
                format!("expected {length} elements of `{other}` as of `{name}`, found {found}");
            Err(Finding::from(wrong).about_attribute(other))
        }
    }
}

/// Checks that an attribute has the element type of the input.
fn same_type(node: &Node<'_>, name: &str, dtype: DType) -> Outcome {
    match node.dtype(0) {
        UNDEFINED => Ok(()),
        input if input == dtype => Ok(()),
        input => {
            let wrong =
                format!("expected `{name}` of {input}, the type of the input, found {dtype}");
            Err(Finding::from(wrong).about_attribute(name))
        }
    }
}

/// Maps keys to values, two lists of the same length.
fn labels(node: &mut Node<'_>) -> Outcome {
    const KEYS: [&str; 4] = ["keys_tensor", "keys_strings", "keys_int64s", "keys_floats"];
    const VALUES: [&str; 4] = ["values_tensor", "values_strings", "values_int64s", "values_floats"];
    node.only_tensors()?;
    let dtype = match node.dtype(0) {
        // Version 1 has strings and their indices.
        DType::String if node.opset < 2 => DType::Int64,
        DType::Int64 if node.opset < 2 => DType::String,
        _ if node.opset < 2 => UNDEFINED,
        _ => {
            let (keys, of_keys, count) = only(node, &KEYS)?;
            same_type(node, keys, of_keys)?;
            let (values, of_values, found) = only(node, &VALUES)?;
            if node.opset >= 4 {
                same_length((keys, count), (values, found))?;
            }
            of_values
        }
    };
    if let Some((found, length)) = list(node, "default_tensor")?
        && (found != dtype || length != 1)
    {
        let wrong = format!("expected one {dtype} in `default_tensor`, found {length} of {found}");
        return Err(Finding::from(wrong).about_attribute("default_tensor"));
    }
    let shape = node.shape(0).map(<[Dim]>::to_vec);
    node.tensor(0, dtype, shape);
    Ok(())
}

/// Checks that no value is present both as a list and as a tensor.
fn not_both(node: &Node<'_>, names: &[&str]) -> Outcome {
    for name in names {
        let tensor = format!("{name}_as_tensor");
        if node.has_attribute(name) && node.has_attribute(&tensor) {
            let wrong = format!("expected `{name}` or `{tensor}`, found both");
            return Err(Finding::from(wrong).about_attribute(name));
        }
    }
    Ok(())
}

/// Input: [rows, features]. From version 3 to 4, the classes are required.
fn tree_classifier(node: &mut Node<'_>) -> Outcome {
    if (3..5).contains(&node.opset) {
        not_both(node, &["nodes_values", "nodes_hitrates", "class_weights", "base_values"])?;
        node.ranked(0, 2)?;
        let lists = ["classlabels_strings", "classlabels_int64s"];
        if lists.iter().all(|name| count(node, name).is_none()) {
            return Err(format!("expected one of {}, found none", lists.join(", ")).into());
        }
    }
    classifier(node)
}

/// Outputs: a label for each row, and the scores of each class.
fn classifier(node: &mut Node<'_>) -> Outcome {
    const LABELS: [(&str, DType); 3] = [
        ("classlabels_strings", DType::String),
        ("classlabels_ints", DType::Int64),
        ("classlabels_int64s", DType::Int64),
    ];
    node.only_tensors()?;
    let labels = LABELS.iter().find_map(|(name, dtype)| Some((count(node, name)?, *dtype)));
    let (classes, dtype) = match labels {
        Some((classes, dtype)) => (Dim::Known(classes), dtype),
        None => (Dim::Unknown, DType::Int64),
    };
    let rows = rows(node)?;
    node.tensor(0, dtype, Some(vec![rows.clone()]));
    // With two classes, there may be a single score.
    let scores = match (node.op.kind.as_str(), &classes) {
        ("SVMClassifier", _) => Dim::Unknown,
        _ => classes,
    };
    node.tensor(1, DType::Float32, Some(vec![rows, scores]));
    Ok(())
}

fn targets(node: &mut Node<'_>, dtype: DType, attribute: &str, default: u64) -> Outcome {
    node.only_tensors()?;
    let targets = match node.int_attribute(attribute) {
        Some(targets) => u64::try_from(targets)
            .map_err(|_| format!("expected `{attribute}` of at least 0, found {targets}"))?,
        None => default,
    };
    let rows = rows(node)?;
    node.tensor(0, dtype, Some(vec![rows, Dim::Known(targets)]));
    Ok(())
}

fn linear(node: &mut Node<'_>) -> Outcome {
    targets(node, DType::Float32, "targets", 1)
}

fn tree_regressor(node: &mut Node<'_>) -> Outcome {
    if (3..5).contains(&node.opset) {
        not_both(node, &["nodes_values", "nodes_hitrates", "target_weights", "base_values"])?;
        node.ranked(0, 2)?;
    }
    targets(node, DType::Float32, "n_targets", 1)
}

/// The attributes of nodes have equal lengths, and so do those of leaves.
fn trees(node: &mut Node<'_>) -> Outcome {
    const NODES: [(&str, DType, bool); 8] = [
        ("nodes_featureids", DType::Int64, true),
        ("nodes_hitrates", DType::Float32, false),
        ("nodes_modes", DType::Uint8, true),
        ("nodes_truenodeids", DType::Int64, true),
        ("nodes_falsenodeids", DType::Int64, true),
        ("nodes_trueleafs", DType::Int64, true),
        ("nodes_falseleafs", DType::Int64, true),
        ("nodes_missing_value_tracks_true", DType::Int64, false),
    ];
    node.only_tensors()?;
    node.ranked(0, 2)?;
    let (dtype, count) = required(node, "nodes_splits")?;
    same_type(node, "nodes_splits", dtype)?;
    for (name, expected, is_required) in NODES {
        let found = if is_required { Some(required(node, name)?) } else { list(node, name)? };
        let Some((found, length)) = found else { continue };
        if found != expected {
            let wrong = format!("expected `{name}` of {expected}, found {found}");
            return Err(Finding::from(wrong).about_attribute(name));
        }
        same_length(("nodes_splits", count), (name, length))?;
    }
    if let Some((found, _)) = list(node, "membership_values")? {
        same_type(node, "membership_values", found)?;
    }
    let (targets_of, weights) =
        (required(node, "leaf_targetids")?, required(node, "leaf_weights")?);
    same_length(("leaf_weights", weights.1), ("leaf_targetids", targets_of.1))?;
    same_type(node, "leaf_weights", weights.0)?;
    targets(node, node.dtype(0), "n_targets", 1)
}

fn regressor(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let rows = rows(node)?;
    node.tensor(0, DType::Float32, Some(vec![rows, Dim::Known(1)]));
    Ok(())
}

/// Adds a dim with one element for each category.
fn one_hot(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let known = match (count(node, "cats_int64s"), count(node, "cats_strings")) {
        (Some(known), None) | (None, Some(known)) => Dim::Known(known),
        _ => return Err("expected either `cats_int64s` or `cats_strings`".into()),
    };
    let shape = node.shape(0).map(|shape| shape.iter().cloned().chain([known]).collect());
    node.tensor(0, DType::Float32, shape);
    Ok(())
}

/// Output: a sequence of maps from labels to scores, one for each row.
fn zip(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    rows(node)?;
    let labels = (count(node, "classlabels_strings"), count(node, "classlabels_int64s"));
    let key = match labels {
        (Some(_), None) => DType::String,
        (None, Some(_)) => DType::Int64,
        _ => return Err("expected either `classlabels_strings` or `classlabels_int64s`".into()),
    };
    let scores = ValueInfo::tensor(DType::Float32, Some(Vec::new())).value;
    let map = ValueType::dict(key, scores).map_err(|error| error.to_string())?;
    node.set(0, sequence_of(map)?.into());
    Ok(())
}
