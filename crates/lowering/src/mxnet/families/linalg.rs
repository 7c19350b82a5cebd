//! Linear algebra of the matrices in the last two dims.
//!
//! ONNX has neither factorizations nor solvers: they are unrolled, a column or a row at a time.

use lodstone_model::DType;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, rank, required_dim};
use crate::onnx::{Size, Value, int};

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
    let mut all: Option<Value> = None;
    for step in 0..rows {
        let at = if is_lower { step } else { rows - 1 - step };
        let mut row = node.slice(known, -2, at, at + 1)?;
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
fn elements(node: &mut Node<'_>, x: &Value, places: &Value) -> Outcome {
    let mut codes = vec![0; x.rank()?.count().saturating_sub(2)];
    codes.push(-3);
    let flat = node.recoded(x, &codes)?;
    node.gather(&flat, places, -1)
}

/// Fails if an offset leaves out all rows of matrices, as far as they are known.
fn offset(node: &Node<'_>, rows: Option<i64>) -> Outcome<i64> {
    let (offset, most) = (node.attributes.int("offset", 0)?, rows.unwrap_or(MAX_ROWS));
    match offset.unsigned_abs() <= most.unsigned_abs() {
        true => Ok(offset),
        false => Err(wrong("offset", &format!("-{most} to {most}"), &offset.to_string())),
    }
}

/// The rows of square matrices.
fn square(node: &mut Node<'_>, x: &Value) -> Outcome<Size> {
    let last = rank(x)? - 1;
    if last < 1 {
        return Err(format!("expected matrices, found rank {}", last + 1).into());
    }
    match (x.size(last - 1)?, x.size(last)?) {
        (Some(rows), Some(columns)) if rows != columns => {
            Err(format!("expected square matrices, found {rows} times {columns}").into())
        }
        (Some(rows), _) | (_, Some(rows)) => Ok(Size::Known(rows)),
        (None, None) => node.size_of(x, last),
    }
}

/// A triangle of matrices: above the diagonal at a positive offset, below it at a negative one. The elements of lower
/// triangles are in the order of rows, and those of upper ones in the order of columns.
struct Triangle {
    offset: i64,
    is_lower: bool,
}

impl Triangle {
    fn of(node: &Node<'_>, rows: Option<i64>) -> Outcome<Self> {
        let offset = offset(node, rows)?;
        let is_lower = node.attributes.flag("lower", true)?;
        Ok(Self { offset, is_lower: offset < 0 || offset == 0 && is_lower })
    }

    /// Returns whether each element of a matrix is in the triangle. An upper triangle is the lower one of the transposed
    /// matrix.
    fn marks(&self, node: &mut Node<'_>, rows: &Size) -> Outcome {
        let rows = node.scalar_of(rows)?;
        let along = node.counting(&rows, DType::Int64)?;
        let down = node.unsqueeze(&along, &[1])?;
        let distance = node.sub(&along, &down)?;
        let most = node.long(if self.is_lower { self.offset } else { -self.offset });
        node.call("LessOrEqual", &[&distance, &most], [])
    }
}

fn extract_diagonal(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rows = square(node, &x)?;
    let offset = offset(node, rows.known())?;
    node.diagonal(&x, [-2, -1], offset)
}

fn extract_triangle(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rows = square(node, &x)?;
    let triangle = Triangle::of(node, rows.known())?;
    let x = if triangle.is_lower { x } else { node.turned(&x)? };
    let marks = triangle.marks(node, &rows)?;
    let marks = node.reshape(&marks, &[-1])?;
    let places = node.places(&marks)?;
    elements(node, &x, &places)
}

fn make_diagonal(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let offset = offset(node, None)?;
    node.on_diagonal(&x, [-2, -1], offset, 0.0)
}

/// Puts vectors into triangles of matrices; other elements are 0.
fn make_triangle(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let triangle = Triangle::of(node, None)?;
    // A triangle of `side` rows beside the diagonals that are left out.
    let side = match node.size_of(&x, -1)? {
        Size::Known(count) => {
            let side = (0..=MAX_ROWS).find(|side| side * (side + 1) / 2 == count);
            Size::Known(side.ok_or_else(|| format!("{count} elements are no triangle"))?)
        }
        Size::Value(count) => {
            // `side * (side + 1) / 2 = count`; roots of squares are exact.
            let count = node.cast(&count, DType::Float64)?;
            let square = node.times(&count, 8.0)?;
            let square = node.plus(&square, 1.0)?;
            let root = node.call("Sqrt", &[&square], [])?;
            let side = node.cast(&root, DType::Int64)?;
            let side = node.difference_of(&Size::Value(side), &Size::Known(1))?;
            node.quotient_of(&side, 2)?
        }
    };
    let rows = node.sum_of(&side, &Size::Known(triangle.offset.abs()))?;
    if let Size::Known(rows) = rows
        && !(1..=MAX_ROWS).contains(&rows)
    {
        return Err(format!("expected 1 to {MAX_ROWS} rows, found {rows}").into());
    }
    let marks = triangle.marks(node, &rows)?;
    // The place of each element in the vector, and behind it that of 0.
    let like = node.slice(&x, -1, 0, 1)?;
    let zero = node.constant_like(&like, x.dtype(), 0.0)?;
    let all = node.concat(&[&x, &zero], -1)?;
    let (first, one) = (node.long(0), node.long(1));
    let numbers = node.cast(&marks, DType::Int64)?;
    let flat = node.reshape(&numbers, &[-1])?;
    let flat = node.call("CumSum", &[&flat, &first], [])?;
    let numbers = node.reshape_as(&flat, &numbers)?;
    let numbers = node.sub(&numbers, &one)?;
    let count = node.extent(&x, -1)?;
    let places = node.choose(&marks, &numbers, &count)?;
    let y = node.gather(&all, &places, -1)?;
    if triangle.is_lower { Ok(y) } else { node.turned(&y) }
}

fn sum_log_diagonal(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    square(node, &x)?;
    let diagonal = node.diagonal(&x, [-2, -1], 0)?;
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
    let axes = [node.attributes.int("axis1", first)?, node.attributes.int("axis2", second)?];
    match rank(&x)? {
        1 => node.on_diagonal(&x, [0, 1], offset, 0.0),
        _ => node.diagonal(&x, axes, offset),
    }
}

fn trace(node: &mut Node<'_>) -> Outcome {
    let elements = diagonal(node, ("offset", 0, 1))?;
    let last = rank(&elements)? - 1;
    node.reduce("ReduceSum", &elements, &[last], false)
}
