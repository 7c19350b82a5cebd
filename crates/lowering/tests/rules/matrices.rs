//! Diagonals and triangles of matrices with random attributes, compared with MXNet 1.9.1: `la_op-inl.h` and
//! `matrix_op-inl.h` of `src/operator`.

use libtest_mimic::Trial;
use lodstone_model::Tensor;

use super::random::Random;
use super::recorded;
use super::single::{Draw, Single, list, text, trials_of};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name, draw: Draw| trials_of("matrices")("mxnet", name, Single::mxnet, draw);
    vec![
        trial("extractdiag", |random| diagonal(random, false)),
        trial("makediag", |random| diagonal(random, true)),
        trial("extracttrian", |random| triangle(random, false)),
        trial("maketrian", |random| triangle(random, true)),
        trial("sumlogdiag", sum_of_logs),
        trial("trsm", solution),
    ]
}

/// Returns one or two leading dims.
fn leading(random: &mut Random) -> Vec<usize> {
    (0..random.size(1, 2)).map(|_| random.size(1, 3)).collect()
}

/// Matrices, and the vectors of some of their elements: the operator reads them (`is_made` is false), or writes them over
/// zeros.
fn parts(
    random: &mut Random,
    (rows, places): (usize, &[usize]),
    is_made: bool,
    (kind, attributes): (&str, Vec<(&'static str, String)>),
) -> (Single, Vec<Tensor>) {
    let lead = leading(random);
    let count: usize = lead.iter().product();
    let dims = |inner: &[usize]| [&lead[..], inner].concat();
    let vectors = random.tensor(&dims(&[places.len()]));
    let known = recorded::elements(&vectors);
    let others = if is_made { None } else { Some(random.tensor(&dims(&[rows, rows]))) };
    let mut whole = match &others {
        Some(others) => recorded::elements(others),
        None => vec![0.0; count * rows * rows],
    };
    for (at, element) in known.iter().enumerate() {
        whole[at / places.len() * rows * rows + places[at % places.len()]] = *element;
    }
    let matrices = list(&whole, &dims(&[rows, rows]));
    let (x, y) = if is_made { (vectors, matrices) } else { (matrices, vectors) };
    let attributes = attributes.into_iter().map(|(name, value)| (name, text(value))).collect();
    let single = Single::new(kind, vec![("A", x)], attributes, vec![""]);
    (Single { is_dynamic: random.flag(), ..single }, vec![y])
}

fn diagonal(random: &mut Random, is_made: bool) -> Option<(Single, Vec<Tensor>)> {
    let (rows, offset) = (random.size(1, 5) as i64, random.number(-4, 4));
    let is_inside = |row: &i64| (0..rows).contains(&(row + offset));
    let places: Vec<usize> =
        (0..rows).filter(is_inside).map(|row| (row * rows + row + offset) as usize).collect();
    // MXNet has no tensors without elements.
    if places.is_empty() {
        return None;
    }
    let kind = if is_made { "_linalg_makediag" } else { "_linalg_extractdiag" };
    let attributes = vec![("offset", offset.to_string())];
    Some(parts(random, (rows as usize, &places), is_made, (kind, attributes)))
}

fn triangle(random: &mut Random, is_made: bool) -> Option<(Single, Vec<Tensor>)> {
    let (rows, offset, lower) = (random.size(1, 5) as i64, random.number(-4, 4), random.flag());
    let is_lower = offset < 0 || offset == 0 && lower;
    let mut places = Vec::new();
    for one in 0..rows {
        for other in 0..rows {
            // The elements of upper triangles are in the order of columns.
            let [row, column] = if is_lower { [one, other] } else { [other, one] };
            let distance = column - row;
            if if is_lower { distance <= offset } else { distance >= offset } {
                places.push((row * rows + column) as usize);
            }
        }
    }
    if places.is_empty() {
        return None;
    }
    let kind = if is_made { "_linalg_maketrian" } else { "_linalg_extracttrian" };
    let lower = if lower { "True" } else { "False" };
    let attributes = vec![("offset", offset.to_string()), ("lower", lower.to_owned())];
    Some(parts(random, (rows as usize, &places), is_made, (kind, attributes)))
}

fn sum_of_logs(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (lead, rows) = (leading(random), random.size(1, 5));
    let dims = [&lead[..], &[rows, rows]].concat();
    let count = dims.iter().product();
    let all: Vec<f64> = (0..count).map(|_| random.real(0.5, 3.0)).collect();
    let sum = |matrix: &[f64]| (0..rows).map(|row| matrix[row * (rows + 1)].ln()).sum();
    let sums: Vec<f64> = all.chunks(rows * rows).map(sum).collect();
    let inputs = vec![("A", list(&all, &dims))];
    let single = Single::new("_linalg_sumlogdiag", inputs, Vec::new(), vec![""]);
    Some((Single { is_dynamic: random.flag(), ..single }, vec![list(&sums, &lead)]))
}

/// Solves `a x = b`, where only the number of rows is known: `a` has two dims.
fn solution(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (rows, columns) = (random.size(1, 4), random.size(1, 4));
    let is_lower = random.flag();
    let mut a = vec![0.0; rows * rows];
    for row in 0..rows {
        for column in 0..rows {
            a[row * rows + column] = match row == column {
                true => random.real(1.0, 2.0),
                false if (column < row) == is_lower => random.real(-1.0, 1.0),
                false => 0.0,
            };
        }
    }
    let x = random.tensor(&[rows, columns]);
    let known = recorded::elements(&x);
    let product = |at: usize| -> f64 {
        let (row, column) = (at / columns, at % columns);
        (0..rows).map(|step| a[row * rows + step] * known[step * columns + column]).sum()
    };
    let b: Vec<f64> = (0..rows * columns).map(product).collect();
    let inputs = vec![("A", list(&a, &[rows, rows])), ("B", list(&b, &[rows, columns]))];
    let attributes = vec![("lower", text(if is_lower { "True" } else { "False" }))];
    Some((Single::new("_linalg_trsm", inputs, attributes, vec![""]), vec![x]))
}
