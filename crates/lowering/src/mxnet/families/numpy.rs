//! Operators of `mx.np`. Unlike the others they have scalars, Booleans, and floats as the results of functions of
//! integers.

use lodstone_schema::Finding;
use std::f64::consts::{LN_2, LN_10, PI};

use lodstone_model::DType;
use lodstone_schema::numbers::Axis;

use super::elementwise::{Binary, hypot, modulo};
use super::functions::{cbrt, expm1, log1p, logarithm, truncated};
use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, axis_of, place_in, product, rank};
use crate::onnx::{Size, Value, int, text};

/// A function of one value.
type Unary = fn(&mut Node<'_>, &Value) -> Outcome;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_np_all", Rule::One(|node| marks(node, "ReduceMin"))),
    ("_np_any", Rule::One(|node| marks(node, "ReduceMax"))),
    ("_np_cumsum", Rule::One(cumulative_sum)),
    ("_np_dot", Rule::One(dot)),
    ("_np_max", Rule::One(|node| reduction(node, "ReduceMax"))),
    ("_np_min", Rule::One(|node| reduction(node, "ReduceMin"))),
    ("_np_moveaxis", Rule::One(move_axes)),
    ("_np_prod", Rule::One(|node| reduction(node, "ReduceProd"))),
    ("_np_roll", Rule::One(roll)),
    ("_np_sum", Rule::One(|node| reduction(node, "ReduceSum"))),
    ("_npi_absolute", Rule::One(|node| node.unary("Abs"))),
    ("_npi_add", Rule::One(|node| binary(node, |node, x, y| node.add(x, y)))),
    ("_npi_add_scalar", Rule::One(|node| scalar(node, |node, x, y| node.add(x, y)))),
    ("_npi_arange", Rule::One(super::make::arange)),
    ("_npi_arccos", Rule::One(|node| float(node, |node, x| node.call("Acos", &[x], [])))),
    ("_npi_arccosh", Rule::One(|node| float(node, |node, x| node.call("Acosh", &[x], [])))),
    ("_npi_arcsin", Rule::One(|node| float(node, |node, x| node.call("Asin", &[x], [])))),
    ("_npi_arcsinh", Rule::One(|node| float(node, |node, x| node.call("Asinh", &[x], [])))),
    ("_npi_arctan", Rule::One(|node| float(node, |node, x| node.call("Atan", &[x], [])))),
    ("_npi_arctanh", Rule::One(|node| float(node, |node, x| node.call("Atanh", &[x], [])))),
    ("_npi_argmax", Rule::One(|node| place(node, "ArgMax"))),
    ("_npi_argmin", Rule::One(|node| place(node, "ArgMin"))),
    ("_npi_broadcast_to", Rule::One(broadcast_to)),
    ("_npi_cbrt", Rule::One(|node| float(node, cbrt))),
    ("_npi_ceil", Rule::One(|node| float(node, |node, x| node.call("Ceil", &[x], [])))),
    ("_npi_column_stack", Rule::One(column_stack)),
    ("_npi_cos", Rule::One(|node| float(node, |node, x| node.call("Cos", &[x], [])))),
    ("_npi_cosh", Rule::One(|node| float(node, |node, x| node.call("Cosh", &[x], [])))),
    ("_npi_degrees", Rule::One(|node| float(node, |node, x| node.times(x, 180.0 / PI)))),
    ("_npi_dstack", Rule::One(|node| stacked(node, 2))),
    ("_npi_einsum", Rule::One(einsum)),
    ("_npi_equal", Rule::One(|node| binary(node, equal))),
    ("_npi_equal_scalar", Rule::One(|node| scalar(node, equal))),
    ("_npi_expm1", Rule::One(|node| float(node, expm1))),
    ("_npi_eye", Rule::One(super::make::eye)),
    ("_npi_fix", Rule::One(|node| float(node, truncated))),
    ("_npi_floor", Rule::One(|node| float(node, |node, x| node.call("Floor", &[x], [])))),
    ("_npi_full_like", Rule::One(full_like)),
    ("_npi_greater", Rule::One(|node| binary(node, greater))),
    ("_npi_greater_equal", Rule::One(|node| binary(node, greater_equal))),
    ("_npi_greater_equal_scalar", Rule::One(|node| scalar(node, greater_equal))),
    ("_npi_greater_scalar", Rule::One(|node| scalar(node, greater))),
    ("_npi_hsplit", Rule::Many(super::parts::split)),
    ("_npi_hstack", Rule::One(|node| stacked(node, 1))),
    ("_npi_hypot", Rule::One(|node| binary(node, hypot))),
    ("_npi_identity", Rule::One(identity)),
    ("_npi_isfinite", Rule::One(|node| kind(node, is_finite))),
    ("_npi_isinf", Rule::One(|node| kind(node, |node, x| node.call("IsInf", &[x], [])))),
    ("_npi_isnan", Rule::One(|node| kind(node, |node, x| node.call("IsNaN", &[x], [])))),
    ("_npi_isneginf", Rule::One(|node| kind(node, |node, x| infinite(node, x, (1, 0))))),
    ("_npi_isposinf", Rule::One(|node| kind(node, |node, x| infinite(node, x, (0, 1))))),
    ("_npi_less", Rule::One(|node| binary(node, less))),
    ("_npi_less_equal", Rule::One(|node| binary(node, less_equal))),
    ("_npi_less_equal_scalar", Rule::One(|node| scalar(node, less_equal))),
    ("_npi_less_scalar", Rule::One(|node| scalar(node, less))),
    ("_npi_log10", Rule::One(|node| float(node, |node, x| logarithm(node, x, LN_10)))),
    ("_npi_log1p", Rule::One(|node| float(node, log1p))),
    ("_npi_log2", Rule::One(|node| float(node, |node, x| logarithm(node, x, LN_2)))),
    ("_npi_logical_not", Rule::One(|node| kind(node, is_zero))),
    ("_npi_matmul", Rule::One(|node| binary(node, |node, x, y| node.call("MatMul", &[x, y], [])))),
    ("_npi_mod", Rule::One(|node| binary(node, modulo))),
    ("_npi_mod_scalar", Rule::One(|node| scalar(node, modulo))),
    ("_npi_multiply", Rule::One(|node| binary(node, |node, x, y| node.mul(x, y)))),
    ("_npi_multiply_scalar", Rule::One(|node| scalar(node, |node, x, y| node.mul(x, y)))),
    ("_npi_negative", Rule::One(|node| node.unary("Neg"))),
    ("_npi_not_equal", Rule::One(|node| binary(node, not_equal))),
    ("_npi_not_equal_scalar", Rule::One(|node| scalar(node, not_equal))),
    ("_npi_ones", Rule::One(|node| super::make::filled(node, Some(1.0)))),
    ("_npi_power", Rule::One(|node| binary(node, power))),
    ("_npi_power_scalar", Rule::One(|node| scalar(node, power))),
    ("_npi_radians", Rule::One(|node| float(node, |node, x| node.times(x, PI / 180.0)))),
    ("_npi_reciprocal", Rule::One(|node| float(node, |node, x| node.call("Reciprocal", &[x], [])))),
    ("_npi_rint", Rule::One(|node| float(node, |node, x| node.call("Round", &[x], [])))),
    ("_npi_rmod_scalar", Rule::One(|node| scalar(node, |node, x, y| modulo(node, y, x)))),
    ("_npi_rpower_scalar", Rule::One(|node| scalar(node, |node, x, y| power(node, y, x)))),
    ("_npi_rsubtract_scalar", Rule::One(|node| scalar(node, |node, x, y| node.sub(y, x)))),
    ("_npi_rtrue_divide_scalar", Rule::One(|node| quotient_scalar(node, true))),
    ("_npi_sign", Rule::One(|node| node.unary("Sign"))),
    ("_npi_sin", Rule::One(|node| float(node, |node, x| node.call("Sin", &[x], [])))),
    ("_npi_sinh", Rule::One(|node| float(node, |node, x| node.call("Sinh", &[x], [])))),
    ("_npi_square", Rule::One(|node| float(node, |node, x| node.mul(x, x)))),
    ("_npi_std", Rule::One(|node| variance(node, true))),
    ("_npi_subtract", Rule::One(|node| binary(node, |node, x, y| node.sub(x, y)))),
    ("_npi_subtract_scalar", Rule::One(|node| scalar(node, |node, x, y| node.sub(x, y)))),
    ("_npi_tan", Rule::One(|node| float(node, |node, x| node.call("Tan", &[x], [])))),
    ("_npi_tensordot", Rule::One(tensor_product)),
    ("_npi_tensordot_int_axes", Rule::One(tensor_product_of_last)),
    ("_npi_tril", Rule::One(lower_triangle)),
    ("_npi_true_divide", Rule::One(|node| binary(node, quotient))),
    ("_npi_true_divide_scalar", Rule::One(|node| quotient_scalar(node, false))),
    ("_npi_trunc", Rule::One(|node| float(node, truncated))),
    ("_npi_var", Rule::One(|node| variance(node, false))),
    ("_npi_vstack", Rule::One(|node| stacked(node, 0))),
    ("_npi_where", Rule::One(select)),
    ("_npi_where_lscalar", Rule::One(|node| select_scalar(node, true))),
    ("_npi_where_rscalar", Rule::One(|node| select_scalar(node, false))),
    ("_npi_zeros", Rule::One(|node| super::make::filled(node, Some(0.0)))),
    ("_npx_nonzero", Rule::One(nonzero)),
];

/// Returns a value as floats: integers and Booleans have single precision.
fn floats(node: &mut Node<'_>, x: &Value) -> Outcome {
    if x.dtype().is_float() { Ok(x.clone()) } else { node.cast(x, DType::Float32) }
}

/// Applies a function of floats. Integers are converted, and so is their result.
fn float(node: &mut Node<'_>, function: Unary) -> Outcome {
    let [x] = node.exactly()?;
    node.as_floats(&x, function)
}

/// Applies a function that returns Booleans.
fn kind(node: &mut Node<'_>, function: Unary) -> Outcome {
    let [x] = node.exactly()?;
    let x = if x.dtype() == DType::Bool { node.cast(&x, DType::Int32)? } else { x };
    let x = floats(node, &x)?;
    function(node, &x)
}

fn is_zero(node: &mut Node<'_>, x: &Value) -> Outcome {
    let zero = node.number(x.dtype(), 0.0)?;
    node.call("Equal", &[x, &zero], [])
}

fn is_finite(node: &mut Node<'_>, x: &Value) -> Outcome {
    let rest = node.sub(x, x)?;
    is_zero(node, &rest)
}

fn infinite(node: &mut Node<'_>, x: &Value, (negative, positive): (i64, i64)) -> Outcome {
    let attributes = [int("detect_negative", negative), int("detect_positive", positive)];
    node.call("IsInf", &[x], attributes)
}

/// Returns two values in one type: floats if one of them has floats, and the wider one.
fn promoted(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome<(Value, Value)> {
    let weight = |value: &Value| (value.dtype().is_float(), value.dtype().bits());
    let is_bool = x.dtype() == DType::Bool && y.dtype() == DType::Bool;
    let to = if weight(x) >= weight(y) { x.dtype() } else { y.dtype() };
    let to = if is_bool { DType::Int64 } else { to };
    Ok((node.cast(x, to)?, node.cast(y, to)?))
}

fn binary(node: &mut Node<'_>, function: Binary) -> Outcome {
    let [x, y] = node.exactly()?;
    let (x, y) = promoted(node, &x, &y)?;
    function(node, &x, &y)
}

/// Applies a function to the input and a number, which makes floats of integers unless it is an integer.
fn scalar(node: &mut Node<'_>, function: Binary) -> Outcome {
    let [x] = node.exactly()?;
    let number = node.attributes.float("scalar", 1.0)?;
    let is_int = node.attributes.flag("is_int", true)?;
    let x = match x.dtype() {
        DType::Bool if is_int => node.cast(&x, DType::Int64)?,
        _ => x,
    };
    let x = node.promoted_by(&x, is_int)?;
    let number = node.number(x.dtype(), number)?;
    function(node, &x, &number)
}

fn equal(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.call("Equal", &[x, y], [])
}

fn not_equal(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    let marks = equal(node, x, y)?;
    node.call("Not", &[&marks], [])
}

fn greater(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.call("Greater", &[x, y], [])
}

fn greater_equal(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.call("GreaterOrEqual", &[x, y], [])
}

fn less(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.call("Less", &[x, y], [])
}

fn less_equal(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.call("LessOrEqual", &[x, y], [])
}

fn power(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    node.call("Pow", &[x, y], [])
}

/// The quotient of integers is a float.
fn quotient(node: &mut Node<'_>, x: &Value, y: &Value) -> Outcome {
    let (x, y) = (floats(node, x)?, floats(node, y)?);
    node.div(&x, &y)
}

/// Divides by a number, or a number by the input; the quotient has single precision unless the input has another.
fn quotient_scalar(node: &mut Node<'_>, is_reversed: bool) -> Outcome {
    let [x] = node.exactly()?;
    let number = node.attributes.float("scalar", 1.0)?;
    node.attributes.flag("is_int", true)?;
    let x = floats(node, &x)?;
    let number = node.number(x.dtype(), number)?;
    if is_reversed { node.div(&number, &x) } else { node.div(&x, &number) }
}

/// Which axes are reduced; none are named where all are.
fn axes(node: &Node<'_>, x: &Value) -> Outcome<(Vec<i64>, bool)> {
    let rank = rank(x)?;
    let axes = match node.attributes.ints_or_none("axis")? {
        None => (0..rank).collect(),
        Some(axes) => axes.iter().map(|axis| place_in(rank, *axis)).collect::<Outcome<_>>()?,
    };
    Ok((axes, node.attributes.flag("keepdims", false)?))
}

fn reduced(node: &mut Node<'_>, kind: &str, x: &Value, axes: &[i64], keeps: bool) -> Outcome {
    if axes.is_empty() { Ok(x.clone()) } else { node.reduce(kind, x, axes, keeps) }
}

fn reduction(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [x] = node.exactly()?;
    let dtype = node.attributes.dtype("dtype")?;
    if let Some(initial) = node.attributes.float_or_none("initial")? {
        return Err(wrong("initial", "`None`", &initial.to_string()));
    }
    let (axes, keeps) = axes(node, &x)?;
    let to = match dtype {
        Some(dtype) => dtype,
        None if x.dtype() == DType::Bool => DType::Int64,
        None => x.dtype(),
    };
    let x = node.cast(&x, to)?;
    reduced(node, kind, &x, &axes, keeps)
}

/// Whether any or all elements are other than zero.
fn marks(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [x] = node.exactly()?;
    let (axes, keeps) = axes(node, &x)?;
    let marks = node.cast(&x, DType::Bool)?;
    let marks = node.cast(&marks, DType::Int32)?;
    let found = reduced(node, kind, &marks, &axes, keeps)?;
    node.cast(&found, DType::Bool)
}

fn variance(node: &mut Node<'_>, takes_root: bool) -> Outcome {
    let [x] = node.exactly()?;
    let dtype = node.attributes.dtype("dtype")?;
    let correction = node.attributes.int("ddof", 0)?;
    let (axes, keeps) = axes(node, &x)?;
    let x = dtype.map_or(Ok(x.clone()), |dtype| node.cast(&x, dtype))?;
    let x = floats(node, &x)?;
    let mean = reduced(node, "ReduceMean", &x, &axes, true)?;
    let distance = node.sub(&x, &mean)?;
    let square = node.mul(&distance, &distance)?;
    let mut y = reduced(node, "ReduceMean", &square, &axes, keeps)?;
    if correction != 0 {
        let dims = axes.iter().map(|axis| node.size_of(&x, *axis)).collect::<Outcome<Vec<_>>>()?;
        let count = node.product_of_all(&dims)?;
        let rest = node.difference_of(&count, &Size::Known(correction))?;
        let (count, rest) = (node.scalar_of(&count)?, node.scalar_of(&rest)?);
        let (count, rest) = (node.cast(&count, y.dtype())?, node.cast(&rest, y.dtype())?);
        let factor = node.div(&count, &rest)?;
        y = node.mul(&y, &factor)?;
    }
    if takes_root { node.call("Sqrt", &[&y], []) } else { Ok(y) }
}

/// The index of the largest or smallest element.
fn place(node: &mut Node<'_>, kind: &str) -> Outcome {
    let [x] = node.exactly()?;
    let axis = node.attributes.int_or_none("axis")?;
    let keeps = node.attributes.flag("keepdims", false)?;
    let attributes = |axis| [int("axis", axis), int("keepdims", i64::from(keeps && axis >= 0))];
    match axis {
        Some(axis) => {
            let axis = axis_of(&x, axis)?;
            node.call(kind, &[&x], attributes(axis))
        }
        None => {
            let flat = node.reshape_to(&x, &[-1])?;
            let y = node.call(kind, &[&flat], [int("axis", 0), int("keepdims", 0)])?;
            let dims = if keeps { vec![1; x.rank()?.count()] } else { Vec::new() };
            node.reshape(&y, &dims)
        }
    }
}

fn cumulative_sum(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let axis = node.attributes.int_or_none("axis")?;
    let dtype = node.attributes.dtype("dtype")?.unwrap_or(x.dtype());
    let x = node.cast(&x, dtype)?;
    let (x, axis) = match axis {
        Some(axis) => (x.clone(), axis_of(&x, axis)?),
        None => (node.reshape_to(&x, &[-1])?, 0),
    };
    let axis = node.long(axis);
    node.call("CumSum", &[&x, &axis], [])
}

/// Joins tensors along an axis, which vectors and scalars get before or behind their own.
fn stacked(node: &mut Node<'_>, axis: i64) -> Outcome {
    let mut all = Vec::new();
    let first = rank(&node.input(0)?)?;
    for x in node.all()? {
        let missing = match (axis, rank(&x)?) {
            (0, 0) => vec![0, 1],
            (1, 0) => vec![0],
            (_, 0) => vec![0, 1, 2],
            (0, 1) => vec![0],
            (2, 1) => vec![0, 2],
            (2, 2) => vec![2],
            _ => Vec::new(),
        };
        all.push(if missing.is_empty() { x } else { node.unsqueeze(&x, &missing)? });
    }
    // Vectors are joined along their own axis.
    let axis = if axis == 1 && first < 2 { 0 } else { axis };
    node.concat(&all.iter().collect::<Vec<_>>(), axis)
}

/// Joins columns; vectors are columns.
fn column_stack(node: &mut Node<'_>) -> Outcome {
    let mut all = Vec::new();
    for x in node.all()? {
        all.push(match rank(&x)? {
            0 => node.reshape(&x, &[1, 1])?,
            1 => node.unsqueeze(&x, &[1])?,
            _ => x,
        });
    }
    node.concat(&all.iter().collect::<Vec<_>>(), 1)
}

fn broadcast_to(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let shape = node.attributes.required_ints("shape")?;
    // A negative dim, like 1, keeps that of the input.
    let shape: Vec<i64> = shape.iter().map(|dim| if *dim < 0 { 1 } else { *dim }).collect();
    product(&shape)?;
    node.expand(&x, &shape)
}

fn full_like(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let number = node.attributes.float("fill_value", None)?;
    let dtype = node.attributes.dtype("dtype")?.unwrap_or(x.dtype());
    node.constant_like(&x, dtype, number)
}

fn identity(node: &mut Node<'_>) -> Outcome {
    node.at_most(0)?;
    let shape = node.attributes.required_ints("shape")?;
    let dtype = node.attributes.dtype("dtype")?.unwrap_or(DType::Float32);
    match shape.as_slice() {
        [rows, columns] if rows == columns && *rows >= 0 => {
            product(&shape)?;
            let like = node.filled(dtype, 0.0, &shape)?;
            node.call("EyeLike", &[&like], [])
        }
        _ => Err(wrong("shape", "two equal dims", &format!("{shape:?}"))),
    }
}

/// Selects by a condition that broadcasts.
fn select(node: &mut Node<'_>) -> Outcome {
    let [condition, x, y] = node.exactly()?;
    let condition = node.cast(&condition, DType::Bool)?;
    let (x, y) = promoted(node, &x, &y)?;
    node.choose(&condition, &x, &y)
}

/// Selects between a tensor and a number, which is on the left or on the right.
fn select_scalar(node: &mut Node<'_>, is_left: bool) -> Outcome {
    let [condition, x] = node.exactly()?;
    let number = node.attributes.float("scalar", 0.0)?;
    let condition = node.cast(&condition, DType::Bool)?;
    let number = node.number(x.dtype(), number)?;
    let (left, right) = if is_left { (&number, &x) } else { (&x, &number) };
    node.choose(&condition, left, right)
}

fn lower_triangle(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let diagonal = node.attributes.int("k", 0)?;
    let diagonal = node.long(diagonal);
    node.call("Trilu", &[&x, &diagonal], [int("upper", 0)])
}

fn nonzero(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let places = node.call("NonZero", &[&x], [])?;
    node.transpose(&places, &[1, 0])
}

fn move_axes(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let rank = x.rank()?;
    let places = |name: &str| {
        let axes = node.attributes.required_ints(name)?;
        axes.iter().map(|axis| rank.axis(*axis)).collect::<Outcome<Vec<_>>>()
    };
    let (from, to) = (places("source")?, places("destination")?);
    let is_repeated = |axes: &[Axis]| {
        (1..axes.len()).any(|at| {
            axes.get(..at)
                .is_some_and(|before| axes.get(at).is_some_and(|axis| before.contains(axis)))
        })
    };
    if from.len() != to.len() || is_repeated(&from) || is_repeated(&to) {
        return Err("expected as many destinations as sources, each once".into());
    }
    let mut others = rank.axes().filter(|axis| !from.contains(axis));
    let source = |place: Axis| match from.iter().zip(&to).find(|(_, to)| **to == place) {
        Some((from, _)) => Some(from.number()),
        None => others.next().map(Axis::number),
    };
    let order: Option<Vec<i64>> = rank.axes().map(source).collect();
    node.transpose(&x, &order.ok_or_else(|| Finding::internal("an axis was lost"))?)
}

/// Moves elements along axes; those that leave at one end enter at the other.
fn roll(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let shifts = node.attributes.required_ints("shift")?;
    let axes = node.attributes.ints_or_none("axis")?;
    let (flat, axes) = match axes {
        Some(axes) => (x.clone(), axes),
        None => (node.reshape_to(&x, &[-1])?, vec![0]),
    };
    if shifts.len() != 1 && shifts.len() != axes.len() {
        return Err(wrong("shift", "a number for each axis", &format!("{shifts:?}")));
    }
    let mut y = flat;
    for (axis, shift) in axes.iter().zip(shifts.iter().cycle()) {
        let axis = axis_of(&y, *axis)?;
        y = node.rolled(&y, axis, &Size::Known(*shift))?;
    }
    node.reshape_as(&y, &x)
}

fn einsum(node: &mut Node<'_>) -> Outcome {
    let all = node.all()?;
    let subscripts = node.attributes.find("subscripts")?;
    let subscripts = subscripts.ok_or("the attribute `subscripts` is missing")?.replace(' ', "");
    node.attributes.int("optimize", 0)?;
    let inputs: Vec<Option<&Value>> = all.iter().map(Some).collect();
    let [y] = node.emit_all("Einsum", &inputs, [text("equation", &subscripts)])?;
    Ok(y)
}

/// Contracts the last dim of the left operand with the one before the last of the right operand.
fn dot(node: &mut Node<'_>) -> Outcome {
    let [a, b] = node.exactly()?;
    let (left, right) = (rank(&a)?, rank(&b)?);
    if left == 0 || right == 0 {
        return node.mul(&a, &b);
    }
    contracted(node, &a, &b, &[left - 1], &[(right - 2).max(0)])
}

fn tensor_product(node: &mut Node<'_>) -> Outcome {
    let [a, b] = node.exactly()?;
    let axes = |node: &Node<'_>, name: &str, of: &Value| {
        let axes = node.attributes.required_ints(name)?;
        let rank = rank(of)?;
        axes.iter().map(|axis| place_in(rank, *axis)).collect::<Outcome<Vec<_>>>()
    };
    let (left, right) = (axes(node, "a_axes_summed", &a)?, axes(node, "b_axes_summed", &b)?);
    contracted(node, &a, &b, &left, &right)
}

fn tensor_product_of_last(node: &mut Node<'_>) -> Outcome {
    let [a, b] = node.exactly()?;
    let count = node.attributes.int("axes", None)?;
    let (left, right) = (rank(&a)?, rank(&b)?);
    if !(0..=left.min(right)).contains(&count) {
        return Err(wrong("axes", &format!("0 to {}", left.min(right)), &count.to_string()));
    }
    let left: Vec<i64> = (left - count..left).collect();
    contracted(node, &a, &b, &left, &(0..count).collect::<Vec<_>>())
}

/// Sums over pairs of axes; the result has the other axes of the left operand, then those of the right one.
fn contracted(node: &mut Node<'_>, a: &Value, b: &Value, left: &[i64], right: &[i64]) -> Outcome {
    let (a_rank, b_rank) = (a.rank()?.count(), b.rank()?.count());
    if left.len() != right.len() || a_rank + b_rank > 26 {
        return Err("expected as many axes on the left as on the right".into());
    }
    let own: Vec<(i64, char)> = (0..).zip('a'..='z').take(a_rank).collect();
    let other: Vec<(i64, char)> = (0..).zip(('a'..='z').skip(a_rank)).take(b_rank).collect();
    let letter = |(axis, letter): &(i64, char)| {
        let pair = left.iter().zip(right).find(|(_, right)| *right == axis);
        let same = pair.and_then(|(left, _)| own.iter().find(|(axis, _)| axis == left));
        same.map_or(*letter, |(_, same)| *same)
    };
    let first: String = own.iter().map(|(_, letter)| *letter).collect();
    let second: String = other.iter().map(letter).collect();
    let rest = own.iter().filter(|(axis, _)| !left.contains(axis));
    let rest = rest.chain(other.iter().filter(|(axis, _)| !right.contains(axis)));
    let rest: String = rest.map(|(_, letter)| *letter).collect();
    let equation = format!("{first},{second}->{rest}");
    let [y] = node.emit_all("Einsum", &[Some(a), Some(b)], [text("equation", &equation)])?;
    Ok(y)
}
