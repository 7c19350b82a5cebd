//! Linear algebra of the matrices in the last two dims.
//!
//! ONNX has neither factorizations nor solvers: they are unrolled, a column or a row at a time.

use lodstone_model::DType;
use lodstone_schema::numbers::exact;
use lodstone_schema::places::at_mut;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, place_in, product, rank, required_dim};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_linalg_det", Rule::One(determinant)),
    ("_linalg_extractdiag", Rule::One(extract_diagonal)),
    ("_linalg_extracttrian", Rule::One(extract_triangle)),
    ("_linalg_gemm", Rule::One(gemm)),
    ("_linalg_gemm2", Rule::One(gemm2)),
    ("_linalg_inverse", Rule::One(inverse)),
    ("_linalg_makediag", Rule::One(make_diagonal)),
    ("_linalg_maketrian", Rule::One(make_triangle)),
    ("_linalg_potrf", Rule::One(cholesky)),
    ("_linalg_potri", Rule::One(cholesky_inverse)),
    ("_linalg_slogdet", Rule::Many(sign_and_log_det)),
    ("_linalg_sumlogdiag", Rule::One(sum_log_diagonal)),
    ("_linalg_syrk", Rule::One(syrk)),
    ("_linalg_trmm", Rule::One(triangular_product)),
    ("_linalg_trsm", Rule::One(triangular_solution)),
    ("_np_diag", Rule::One(|node| diagonal(node, ("k", -2, -1)))),
    ("_np_diagonal", Rule::One(|node| diagonal(node, ("offset", 0, 1)))),
    ("_np_trace", Rule::One(trace)),
    ("diag", Rule::One(|node| diagonal(node, ("k", 0, 1)))),
];

/// The maximum number of rows of a matrix that is factorized or solved: each becomes operators.
const MAX_ROWS: i64 = 1 << 10;

/// Fails if the matrices are not in the last two dims.
fn check_axis(node: &Node<'_>) -> Outcome<()> {
    match node.attributes.int("axis", -2)? {
        -2 => Ok(()),
        axis => Err(wrong("axis", "-2", &axis.to_string())),
    }
}

fn gemm2(node: &mut Node<'_>) -> Outcome {
    let [a, b] = node.exactly()?;
    check_axis(node)?;
    let alpha = node.attributes.float("alpha", 1.0)?;
    let (a, b) = (node.turned_if(a, "transpose_a")?, node.turned_if(b, "transpose_b")?);
    let y = node.call("MatMul", &[&a, &b], [])?;
    if alpha == 1.0 { Ok(y) } else { node.times(&y, alpha) }
}

fn gemm(node: &mut Node<'_>) -> Outcome {
    let [a, b, c] = node.exactly()?;
    check_axis(node)?;
    let (alpha, beta) = (node.attributes.float("alpha", 1.0)?, node.attributes.float("beta", 1.0)?);
    let (a, b) = (node.turned_if(a, "transpose_a")?, node.turned_if(b, "transpose_b")?);
    let y = node.call("MatMul", &[&a, &b], [])?;
    let (y, c) = (node.times(&y, alpha)?, node.times(&c, beta)?);
    node.add(&y, &c)
}

/// The product of a matrix with its transpose.
fn syrk(node: &mut Node<'_>) -> Outcome {
    let [a] = node.exactly()?;
    let alpha = node.attributes.float("alpha", 1.0)?;
    let turned = node.turned(&a)?;
    let y = match node.attributes.flag("transpose", false)? {
        true => node.call("MatMul", &[&turned, &a], [])?,
        false => node.call("MatMul", &[&a, &turned], [])?,
    };
    node.times(&y, alpha)
}

/// Returns the number of rows of square matrices that are treated row by row.
fn side(x: &Value) -> Outcome<i64> {
    let last = rank(x)? - 1;
    if last < 1 {
        return Err(format!("expected matrices, found rank {}", last + 1).into());
    }
    let (rows, columns) = (required_dim(x, last - 1)?, required_dim(x, last)?);
    match rows == columns && (1..=MAX_ROWS).contains(&rows) {
        true => Ok(rows),
        false => Err(format!(
            "expected square matrices of 1 to {MAX_ROWS} rows, found {rows} times {columns}"
        )
        .into()),
    }
}

/// Returns rows and columns of matrices.
fn part(
    node: &mut Node<'_>,
    x: &Value,
    rows: std::ops::Range<i64>,
    columns: std::ops::Range<i64>,
) -> Outcome {
    node.slices(x, &[-2, -1], &[rows.start, columns.start], &[rows.end, columns.end])
}

/// Returns the lower factors of positive definite matrices, column by column.
fn cholesky(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rows = side(&x)?;
    let mut factor: Option<Value> = None;
    for at in 0..rows {
        let mut column = part(node, &x, at..rows, at..at + 1)?;
        if let Some(left) = &factor {
            let below = part(node, left, at..rows, 0..at)?;
            let row = part(node, left, at..at + 1, 0..at)?;
            let row = node.turned(&row)?;
            let known = node.call("MatMul", &[&below, &row], [])?;
            column = node.sub(&column, &known)?;
        }
        let pivot = part(node, &column, 0..1, 0..1)?;
        let pivot = node.call("Sqrt", &[&pivot], [])?;
        column = node.div(&column, &pivot)?;
        if at > 0 {
            let above = part(node, &x, 0..at, at..at + 1)?;
            let zeros = node.constant_like(&above, x.dtype(), 0.0)?;
            column = node.concat(&[&zeros, &column], -2)?;
        }
        factor = Some(match factor {
            Some(left) => node.concat(&[&left, &column], -1)?,
            None => column,
        });
    }
    factor.ok_or_else(|| "expected matrices with rows".into())
}

/// Solves `matrix x = known` for triangular matrices, row by row; the other triangle is not read.
fn solved(node: &mut Node<'_>, matrix: &Value, known: &Value, is_lower: bool) -> Outcome {
    let rows = side(matrix)?;
    let columns = required_dim(known, rank(known)? - 1)?;
    let mut all: Option<Value> = None;
    for step in 0..rows {
        let at = if is_lower { step } else { rows - 1 - step };
        let mut row = part(node, known, at..at + 1, 0..columns)?;
        if let Some(all) = &all {
            let done = if is_lower { 0..at } else { at + 1..rows };
            let factors = part(node, matrix, at..at + 1, done)?;
            let sum = node.call("MatMul", &[&factors, all], [])?;
            row = node.sub(&row, &sum)?;
        }
        let pivot = part(node, matrix, at..at + 1, at..at + 1)?;
        row = node.div(&row, &pivot)?;
        all = Some(match all {
            Some(all) if is_lower => node.concat(&[&all, &row], -2)?,
            Some(all) => node.concat(&[&row, &all], -2)?,
            None => row,
        });
    }
    all.ok_or_else(|| "expected matrices with rows".into())
}

fn triangular_solution(node: &mut Node<'_>) -> Outcome {
    let [a, b] = node.exactly()?;
    let is_turned = node.attributes.flag("transpose", false)?;
    let is_right = node.attributes.flag("rightside", false)?;
    let is_lower = node.attributes.flag("lower", true)?;
    let alpha = node.attributes.float("alpha", 1.0)?;
    let b = node.times(&b, alpha)?;
    // `x a = b` is `transpose(a) transpose(x) = transpose(b)`.
    let turns = is_turned != is_right;
    let a = if turns { node.turned(&a)? } else { a };
    let b = if is_right { node.turned(&b)? } else { b };
    let x = solved(node, &a, &b, is_lower != turns)?;
    if is_right { node.turned(&x) } else { Ok(x) }
}

fn triangular_product(node: &mut Node<'_>) -> Outcome {
    let [a, b] = node.exactly()?;
    let is_turned = node.attributes.flag("transpose", false)?;
    let is_right = node.attributes.flag("rightside", false)?;
    let is_lower = node.attributes.flag("lower", true)?;
    let alpha = node.attributes.float("alpha", 1.0)?;
    let a = node.call("Trilu", &[&a], [int("upper", i64::from(!is_lower))])?;
    let a = if is_turned { node.turned(&a)? } else { a };
    let (left, right) = if is_right { (&b, &a) } else { (&a, &b) };
    let y = node.call("MatMul", &[left, right], [])?;
    node.times(&y, alpha)
}

/// Returns a matrix with ones on the diagonal, and zeros.
fn identity(node: &mut Node<'_>, dtype: DType, rows: i64) -> Outcome {
    let like = node.filled(dtype, 0.0, &[rows, rows])?;
    node.call("EyeLike", &[&like], [])
}

/// Returns the inverse of the product of a lower factor with its transpose.
fn cholesky_inverse(node: &mut Node<'_>) -> Outcome {
    let [factor] = node.exactly()?;
    let rows = side(&factor)?;
    let identity = identity(node, factor.dtype(), rows)?;
    let inverse = solved(node, &factor, &identity, true)?;
    let turned = node.turned(&inverse)?;
    node.call("MatMul", &[&turned, &inverse], [])
}

/// Eliminates column by column, with the largest element of each column as its pivot.
fn inverse(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rows = side(&x)?;
    let one = identity(node, x.dtype(), rows)?;
    let zeros = node.constant_like(&x, x.dtype(), 0.0)?;
    let ones = node.add(&zeros, &one)?;
    let mut both = node.concat(&[&x, &ones], -1)?;
    let numbers = node.range(rows)?;
    for at in 0..rows {
        let column = part(node, &both, at..rows, at..at + 1)?;
        let sizes = node.call("Abs", &[&column], [])?;
        // [..., 1, 1]
        let pivot = node.call("ArgMax", &[&sizes], [int("axis", -2)])?;
        let (from, place) = (node.long(at), node.longs(&[at]));
        let pivot = node.add(&pivot, &from)?;
        // Exchanges two rows: row `at` comes from the pivot, and the pivot from `at`.
        let column = node.unsqueeze(&numbers, &[1])?;
        let is_own = node.call("Equal", &[&column, &place], [])?;
        let is_pivot = node.call("Equal", &[&column, &pivot], [])?;
        let source = node.choose(&is_pivot, &place, &column)?;
        let source = node.choose(&is_own, &pivot, &source)?;
        let marks = node.call("Equal", &[&source, &numbers], [])?;
        let order = node.cast(&marks, x.dtype())?;
        let ordered = node.call("MatMul", &[&order, &both], [])?;
        let row = part(node, &ordered, at..at + 1, 0..2 * rows)?;
        let pivot = part(node, &row, 0..1, at..at + 1)?;
        let row = node.div(&row, &pivot)?;
        let factors = part(node, &ordered, 0..rows, at..at + 1)?;
        let known = node.mul(&factors, &row)?;
        let rest = node.sub(&ordered, &known)?;
        both = node.choose(&is_own, &row, &rest)?;
    }
    part(node, &both, 0..rows, rows..2 * rows)
}

/// Returns the determinants; without NumPy shapes, that of a single matrix is no scalar.
fn determinant(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let det = node.call("Det", &[&x], [])?;
    if rank(&x)? == 2 { node.reshape(&det, &[1]) } else { Ok(det) }
}

fn sign_and_log_det(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let det = determinant(node)?;
    let (sign, size) = (node.call("Sign", &[&det], [])?, node.call("Abs", &[&det], [])?);
    Ok(vec![sign, node.call("Log", &[&size], [])?])
}

/// Takes elements of the matrices by their places in rows, one after the other, as a vector.
fn elements(node: &mut Node<'_>, x: &Value, places: &[i64]) -> Outcome {
    let mut codes = vec![0; x.rank()?.count().saturating_sub(2)];
    codes.push(-3);
    let flat = node.recoded(x, &codes)?;
    let places = node.longs(places);
    node.gather(&flat, &places, -1)
}

/// Puts the elements of vectors at places of matrices, row after row; `None` is 0.
fn matrices(node: &mut Node<'_>, x: &Value, rows: i64, places: &[Option<i64>]) -> Outcome {
    let count = required_dim(x, rank(x)? - 1)?;
    let like = node.slice(x, -1, 0, 1)?;
    let zero = node.constant_like(&like, x.dtype(), 0.0)?;
    let all = node.concat(&[x, &zero], -1)?;
    let places: Vec<i64> = places.iter().map(|place| place.unwrap_or(count)).collect();
    let places = node.longs(&places);
    let flat = node.gather(&all, &places, -1)?;
    let mut codes = vec![0; x.rank()?.count().saturating_sub(1)];
    codes.extend([-4, rows, rows]);
    node.recoded(&flat, &codes)
}

fn offset(node: &Node<'_>, rows: i64) -> Outcome<i64> {
    let offset = node.attributes.int("offset", 0)?;
    match offset.unsigned_abs() <= rows.unsigned_abs() {
        true => Ok(offset),
        false => Err(wrong("offset", &format!("-{rows} to {rows}"), &offset.to_string())),
    }
}

/// Returns the places of a triangle: above the diagonal at a positive offset, below it at a negative one. The elements
/// of lower triangles are in the order of rows, and those of upper ones in the order of columns.
fn triangle(node: &Node<'_>, rows: i64) -> Outcome<Vec<(i64, i64)>> {
    let offset = offset(node, rows)?;
    let is_lower = node.attributes.flag("lower", true)?;
    let is_lower = offset < 0 || offset == 0 && is_lower;
    let all = (0..rows).flat_map(|one| (0..rows).map(move |other| (one, other)));
    let all = all.map(|(one, other)| if is_lower { (one, other) } else { (other, one) });
    let is_inside = |(row, column): &(i64, i64)| match is_lower {
        true => column - row <= offset,
        false => column - row >= offset,
    };
    Ok(all.filter(is_inside).collect())
}

fn extract_diagonal(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rows = side(&x)?;
    let offset = offset(node, rows)?;
    let places: Vec<i64> = (0..rows)
        .filter(|row| (0..rows).contains(&(row + offset)))
        .map(|row| row * rows + row + offset)
        .collect();
    elements(node, &x, &places)
}

fn extract_triangle(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rows = side(&x)?;
    let places: Vec<i64> =
        triangle(node, rows)?.into_iter().map(|(row, column)| row * rows + column).collect();
    elements(node, &x, &places)
}

fn make_diagonal(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let offset = offset(node, MAX_ROWS)?;
    from_diagonal(node, &x, offset)
}

fn from_diagonal(node: &mut Node<'_>, x: &Value, offset: i64) -> Outcome {
    let count = required_dim(x, rank(x)? - 1)?;
    let rows = count.saturating_add(offset.saturating_abs());
    if !(1..=MAX_ROWS).contains(&rows) {
        return Err(format!("expected 1 to {MAX_ROWS} rows, found {rows}").into());
    }
    let mut places = vec![None; exact(rows * rows)?];
    for at in 0..count {
        let (row, column) = (at + (-offset).max(0), at + offset.max(0));
        *at_mut(&mut places, exact(row * rows + column)?)? = Some(at);
    }
    matrices(node, x, rows, &places)
}

fn make_triangle(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let count = required_dim(&x, rank(&x)? - 1)?;
    let offset = offset(node, MAX_ROWS)?.abs();
    // A triangle of `side` rows beside the diagonals that are left out.
    let side = (0..=MAX_ROWS).find(|side| side * (side + 1) / 2 == count);
    let side = side.ok_or_else(|| format!("{count} elements are no triangle"))?;
    let rows = side + offset;
    if !(1..=MAX_ROWS).contains(&rows) {
        return Err(format!("expected 1 to {MAX_ROWS} rows, found {rows}").into());
    }
    let mut places = vec![None; exact(rows * rows)?];
    for (at, (row, column)) in (0..).zip(triangle(node, rows)?) {
        *at_mut(&mut places, exact(row * rows + column)?)? = Some(at);
    }
    matrices(node, &x, rows, &places)
}

fn sum_log_diagonal(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rows = side(&x)?;
    let places: Vec<i64> = (0..rows).map(|row| row * (rows + 1)).collect();
    let diagonal = elements(node, &x, &places)?;
    let logs = node.call("Log", &[&diagonal], [])?;
    let last = rank(&logs)? - 1;
    let sum = node.reduce("ReduceSum", &logs, &[last], false)?;
    // Without NumPy shapes there are no scalars.
    if last == 0 { node.reshape(&sum, &[1]) } else { Ok(sum) }
}

/// Returns the diagonal between two axes, as the last axis of the result, or matrices with vectors as their diagonals.
fn diagonal(node: &mut Node<'_>, (name, first, second): (&str, i64, i64)) -> Outcome {
    let [x] = node.exactly()?;
    let offset = node.attributes.int(name, 0)?;
    let (first, second) =
        (node.attributes.int("axis1", first)?, node.attributes.int("axis2", second)?);
    let rank = rank(&x)?;
    if rank == 1 {
        return from_diagonal(node, &x, offset);
    }
    let (first, second) = (place_in(rank, first)?, place_in(rank, second)?);
    if first == second {
        return Err(format!("expected two axes, found {first} twice").into());
    }
    let rest = (0..rank).filter(|axis| ![first, second].contains(axis));
    let order: Vec<i64> = rest.chain([first, second]).collect();
    let x = node.transpose(&x, &order)?;
    let (rows, columns) = (required_dim(&x, rank - 2)?, required_dim(&x, rank - 1)?);
    product(&[rows, columns])?;
    let column = |row: i64| row.checked_add(offset).filter(|at| (0..columns).contains(at));
    let places: Vec<i64> = (0..rows).filter_map(|row| Some(row * columns + column(row)?)).collect();
    elements(node, &x, &places)
}

fn trace(node: &mut Node<'_>) -> Outcome {
    let elements = diagonal(node, ("offset", 0, 1))?;
    let last = rank(&elements)? - 1;
    node.reduce("ReduceSum", &elements, &[last], false)
}
