//! Strings and features of strings.

use lodstone_model::{AttributeValue, DType, Dim};

use super::Rule;
use super::dims::broadcast;
use super::node::{Node, Outcome};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("RegexFullMatch", matches),
    ("StringConcat", concat),
    ("StringNormalizer", normalize),
    ("StringSplit", split),
    ("TfIdfVectorizer", frequencies),
];

fn matches(node: &mut Node<'_>) -> Outcome {
    let shape = node.shape(0).map(<[Dim]>::to_vec);
    node.tensor(0, DType::Bool, shape);
    Ok(())
}

fn concat(node: &mut Node<'_>) -> Outcome {
    let shape = broadcast(&[node.shape(0), node.shape(1)])?;
    node.tensor(0, DType::String, shape);
    Ok(())
}

/// Input: [strings] or [1, strings]; stop words are removed.
fn normalize(node: &mut Node<'_>) -> Outcome {
    let shape = match node.shape(0) {
        Some([_]) => Some(vec![Dim::Unknown]),
        Some([Dim::Known(1) | Dim::Symbol(_) | Dim::Unknown, _]) => {
            Some(vec![Dim::Known(1), Dim::Unknown])
        }
        Some([first, _]) => return Err(format!("expected 1 row of strings, found {first}").into()),
        Some(shape) => return Err(format!("expected 1 or 2 dims, found {}", shape.len()).into()),
        None => None,
    };
    let stays = match node.attribute("stopwords") {
        Some(AttributeValue::Strings(words)) => words.is_empty(),
        stops => stops.is_none(),
    };
    let shape = if stays { node.shape(0).map(<[Dim]>::to_vec) } else { shape };
    node.tensor(0, DType::String, shape);
    Ok(())
}

/// Outputs: the parts, padded to the largest number of parts, and the number of parts of each string.
fn split(node: &mut Node<'_>) -> Outcome {
    let shape = node.shape(0).map(<[Dim]>::to_vec);
    let parts = shape.clone().map(|mut shape| {
        shape.push(Dim::Unknown);
        shape
    });
    node.tensor(0, DType::String, parts);
    node.tensor(1, DType::Int64, shape);
    Ok(())
}

/// One value for each n-gram of the pool: the size is one more than the largest index.
fn frequencies(node: &mut Node<'_>) -> Outcome {
    let places = node.ints_attribute("ngram_indexes").unwrap_or_default();
    let counts = places.iter().map(|place| u64::try_from(*place).ok()?.checked_add(1));
    let counts = counts.collect::<Option<Vec<_>>>();
    let count = counts.and_then(|counts| counts.into_iter().max()).map(Dim::Known);
    let count = count.ok_or_else(|| {
        let wrong =
            "expected indices of at least 0 in `ngram_indexes`, found a negative one or none";
        Finding::from(wrong).about_attribute("ngram_indexes")
    })?;
    let shape = match node.shape(0) {
        Some([_]) => Some(vec![count]),
        Some([rows, _]) => Some(vec![rows.clone(), count]),
        Some(shape) => return Err(format!("expected 1 or 2 dims, found {}", shape.len()).into()),
        None => None,
    };
    node.tensor(0, DType::Float32, shape);
    Ok(())
}
