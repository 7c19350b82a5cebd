//! Matrix products and Einstein sums.

use std::collections::HashMap;

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{Checked, broadcast, merged, show};
use super::node::{Node, Outcome};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Det", determinant),
    ("Einsum", einsum),
    ("Gemm", gemm),
    ("MatMul", matmul),
    ("MatMulInteger", matmul_integer),
    ("QLinearMatMul", matmul_quantized),
];

fn matmul(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..2)?;
    let shape = product(node, 0, 1)?;
    node.tensor(0, dtype, shape);
    Ok(())
}

fn matmul_integer(node: &mut Node<'_>) -> Outcome {
    let shape = product(node, 0, 1)?;
    node.tensor(0, DType::Int32, shape);
    Ok(())
}

/// The element type is that of the output's zero point.
fn matmul_quantized(node: &mut Node<'_>) -> Outcome {
    let shape = product(node, 0, 3)?;
    node.tensor(0, node.dtype(7), shape);
    Ok(())
}

/// Returns the shape of a batched matrix product; a vector is a row on the left and a column on the right.
pub(super) fn product(node: &Node<'_>, left: usize, right: usize) -> Checked<Option<Vec<Dim>>> {
    match (node.at_least(left, 1)?, node.at_least(right, 1)?) {
        (Some(a), Some(b)) => product_of(a, b),
        _ => Ok(None),
    }
}

/// Returns the shape of a product of known shapes.
pub(super) fn product_of(a: &[Dim], b: &[Dim]) -> Checked<Option<Vec<Dim>>> {
    let wrong = || {
        let (a, b) = (show(a), show(b));
        format!(
            "expected equal inner dims (columns of the first, rows of the second), found {a} and {b}"
        )
    };
    // [.., rows, inner] times [.., inner, columns]
    let (stack_a, rows, inner_a) = match a {
        [inner] => (&[][..], None, inner),
        [stack @ .., rows, inner] => (stack, Some(rows), inner),
        [] => return Ok(None),
    };
    let (stack_b, inner_b, columns) = match b {
        [inner] => (&[][..], inner, None),
        [stack @ .., inner, columns] => (stack, inner, Some(columns)),
        [] => return Ok(None),
    };
    merged(inner_a, inner_b).ok_or_else(wrong)?;
    let stack = broadcast(&[Some(stack_a), Some(stack_b)])?;
    Ok(stack.map(|mut shape| {
        shape.extend(rows.into_iter().chain(columns).cloned());
        shape
    }))
}

fn gemm(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..3)?;
    let shape = matrix(node, 0, 1)?;
    node.tensor(0, dtype, shape);
    Ok(())
}

/// Returns the shape of a product of matrices, which `transA` and `transB` turn.
pub(super) fn matrix(node: &Node<'_>, left: usize, right: usize) -> Checked<Option<Vec<Dim>>> {
    let (a, b) = (node.ranked(left, 2)?, node.ranked(right, 2)?);
    let sides = |shape: Option<&[Dim]>, transposed: bool| match (shape, transposed) {
        (Some([rows, columns]), false) | (Some([columns, rows]), true) => {
            (rows.clone(), columns.clone())
        }
        _ => (Dim::Unknown, Dim::Unknown),
    };
    let (rows, inner_a) = sides(a, node.flag("transA"));
    let (inner_b, columns) = sides(b, node.flag("transB"));
    if merged(&inner_a, &inner_b).is_none() {
        return Err(format!(
            "expected equal inner dims (columns of the first, rows of the second), found {inner_a} and \
             {inner_b}"
        )
        .into());
    }
    Ok((a.is_some() && b.is_some()).then(|| vec![rows, columns]))
}

fn determinant(node: &mut Node<'_>) -> Outcome {
    let shape = match node.at_least(0, 2)? {
        Some([stack @ .., rows, columns]) => {
            if merged(rows, columns).is_none() {
                return Err(format!("expected square matrices, found {rows} by {columns}").into());
            }
            Some(stack.to_vec())
        }
        _ => None,
    };
    node.tensor(0, node.dtype(0), shape);
    Ok(())
}

/// The equation has a letter for each dim of each input; the letters after the arrow are the output's.
fn einsum(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype(0..node.inputs.len())?;
    let equation = node.text("equation").ok_or("expected an `equation`, found none")?;
    let shape = einsum_shape(node, equation)?;
    node.tensor(0, dtype, shape);
    Ok(())
}

fn einsum_shape(node: &Node<'_>, equation: &[u8]) -> Checked<Option<Vec<Dim>>> {
    let equation = String::from_utf8_lossy(equation);
    let letters: String = equation.chars().filter(|letter| *letter != ' ').collect();
    let (left, right) = match letters.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (letters.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != node.inputs.len() {
        let found = node.inputs.len();
        return Err(
            format!("expected {} inputs for `{equation}`, found {found}", terms.len()).into()
        );
    }
    let (mut dims, mut counts) = (HashMap::new(), HashMap::new());
    let (mut ellipses, mut known) = (Vec::new(), true);
    for (index, term) in terms.iter().enumerate() {
        let parts: Vec<&str> = term.split("...").collect();
        let letters = parts.iter().map(|part| part.chars().count()).sum::<usize>();
        parts.iter().flat_map(|part| part.chars()).for_each(|l| *counts.entry(l).or_insert(0) += 1);
        let Some(shape) = node.shape(index) else {
            known = known && parts.len() == 1;
            continue;
        };
        let (first, hidden) = match (parts.as_slice(), shape.len().checked_sub(letters)) {
            ([first], Some(0)) => (first, 0),
            ([first, _], Some(hidden)) => (first, hidden),
            _ => {
                let found = show(shape);
                return Err(Finding::from(format!(
                    "expected `{term}` of input {index}, found {found}"
                ))
                .about_input(index));
            }
        };
        let (before, rest) = shape.split_at(first.chars().count().min(shape.len()));
        let (middle, after) = rest.split_at(hidden.min(rest.len()));
        if parts.len() == 2 {
            ellipses.push(middle);
        }
        let named = parts.iter().flat_map(|part| part.chars()).zip(before.iter().chain(after));
        for (letter, dim) in named {
            let other = dims.entry(letter).or_insert(Dim::Known(1));
            let both =
                broadcast(&[Some(std::slice::from_ref(other)), Some(std::slice::from_ref(dim))]);
            let one = both.ok().flatten().and_then(|shape| shape.first().cloned());
            *other = one.ok_or_else(|| {
                format!("expected one dim for `{letter}`, found {other} and {dim}")
            })?;
        }
    }
    if !known {
        return Ok(None);
    }
    let shapes: Vec<_> = ellipses.iter().map(|shape| Some(*shape)).collect();
    let hidden = broadcast(&shapes)?.unwrap_or_default();
    let size = |letter: char| dims.get(&letter).cloned().unwrap_or(Dim::Unknown);
    let Some(right) = right else {
        // Without an arrow: the letters that appear once, sorted.
        let mut once: Vec<char> =
            counts.iter().filter(|(_, count)| **count == 1).map(|(letter, _)| *letter).collect();
        once.sort_unstable();
        return Ok(Some(hidden.into_iter().chain(once.into_iter().map(size)).collect()));
    };
    let (before, after) = right.split_once("...").unwrap_or((right, ""));
    if let Some(letter) = before.chars().chain(after.chars()).find(|l| !counts.contains_key(l)) {
        return Err(format!(
            "expected letters of the inputs after the arrow of `{equation}`, found `{letter}`"
        )
        .into());
    }
    let mut shape: Vec<Dim> = before.chars().map(size).collect();
    if right.contains("...") {
        shape.extend(hidden);
    }
    shape.extend(after.chars().map(size));
    Ok(Some(shape))
}
