//! `ai.onnx.ml`: classical models, and what is done to features before them.

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
    ("TreeEnsembleClassifier", classifier),
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

/// How many elements a list has that is an attribute, if it is there.
fn count(node: &Node<'_>, name: &str) -> Option<u64> {
    let count = match node.attribute(name)? {
        AttributeValue::Longs(numbers) => numbers.len(),
        AttributeValue::Strings(texts) => texts.len(),
        AttributeValue::Floats(numbers) => numbers.len(),
        _ => return None,
    };
    (count > 0).then_some(count as u64)
}

/// The rows of [rows, features], or 1 of [features].
fn rows(node: &Node<'_>) -> Result<Dim, Finding> {
    match node.shape(0) {
        Some([rows, _]) => Ok(rows.clone()),
        Some([_]) => Ok(Dim::Known(1)),
        Some(shape) => Err(format!("expected 1 or 2 extents, found {}", shape.len()).into()),
        None => Ok(Dim::Unknown),
    }
}

/// Indices apply to the last extent.
fn extract(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let taken = node.shape(1).map_or(Dim::Unknown, product);
    let shape = match node.shape(0) {
        // One row.
        Some([_]) => Some(vec![Dim::Known(1), taken]),
        Some([before @ .., _]) => Some(before.iter().cloned().chain([taken]).collect()),
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// The type that the values of a map are of.
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
    let dtype = match node.text("cast_to") {
        None | Some(b"TO_FLOAT") => DType::Float32,
        Some(b"TO_STRING") => DType::String,
        Some(b"TO_INT64") => DType::Int64,
        Some(other) => {
            let found = String::from_utf8_lossy(other);
            return Err(Finding::from(format!("expected a known `cast_to`, found `{found}`"))
                .about_attribute("cast_to"));
        }
    };
    node.tensor(0, dtype, None);
    Ok(())
}

/// Texts to integers, and integers to texts.
fn categories(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
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

/// All features of a row, one behind the other.
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

/// The type of whichever values are given.
fn labels(node: &mut Node<'_>) -> Outcome {
    const VALUES: [(&str, DType); 3] = [
        ("values_strings", DType::String),
        ("values_int64s", DType::Int64),
        ("values_floats", DType::Float32),
    ];
    node.only_tensors()?;
    let named = VALUES.iter().find(|(name, _)| count(node, name).is_some());
    let dtype = match (named, node.attribute("values_tensor"), node.dtype(0)) {
        // Version 1 knew texts and their numbers.
        (.., DType::String) if node.opset < 2 => DType::Int64,
        (.., DType::Int64) if node.opset < 2 => DType::String,
        (Some((_, dtype)), ..) => *dtype,
        (None, Some(AttributeValue::Tensor(values)), _) => values.dtype,
        _ => UNDEFINED,
    };
    let shape = node.shape(0).map(<[Dim]>::to_vec);
    node.tensor(0, dtype, shape);
    Ok(())
}

/// A label for each row, and scores of each class.
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
    // Of two classes, one score may be all there is.
    let scores = match (node.op.kind.as_str(), &classes) {
        ("SVMClassifier", _) => Dim::Unknown,
        _ => classes,
    };
    node.tensor(1, DType::Float32, Some(vec![rows, scores]));
    Ok(())
}

fn targets(node: &mut Node<'_>, dtype: DType, attribute: &str, otherwise: u64) -> Outcome {
    node.only_tensors()?;
    let targets = match node.int_attribute(attribute) {
        Some(targets) => u64::try_from(targets)
            .map_err(|_| format!("expected `{attribute}` from 0 on, found {targets}"))?,
        None => otherwise,
    };
    let rows = rows(node)?;
    node.tensor(0, dtype, Some(vec![rows, Dim::Known(targets)]));
    Ok(())
}

fn linear(node: &mut Node<'_>) -> Outcome {
    targets(node, DType::Float32, "targets", 1)
}

fn tree_regressor(node: &mut Node<'_>) -> Outcome {
    targets(node, DType::Float32, "n_targets", 1)
}

fn trees(node: &mut Node<'_>) -> Outcome {
    targets(node, node.dtype(0), "n_targets", 1)
}

fn regressor(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let rows = rows(node)?;
    node.tensor(0, DType::Float32, Some(vec![rows, Dim::Known(1)]));
    Ok(())
}

/// A new extent: one for each category.
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

/// A sequence of maps from labels to scores, one for each row.
fn zip(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
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
