//! Constants, and tensors made of the shape of another one.

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{MAX_ELEMENTS, Node, Outcome, Rule, axis_of, product, rank};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_arange", Rule::One(arange)),
    ("_contrib_arange_like", Rule::One(arange_like)),
    ("_eye", Rule::One(eye)),
    ("_full", Rule::One(|node| filled_by(node, None))),
    ("_linspace", Rule::One(linspace)),
    ("_ones", Rule::One(|node| filled_by(node, Some(1.0)))),
    ("_zeros", Rule::One(|node| filled_by(node, Some(0.0)))),
    ("_zeros_without_dtype", Rule::One(|node| filled_by(node, Some(0.0)))),
    ("ones_like", Rule::One(|node| filled_like(node, 1.0))),
    ("shape_array", Rule::One(shape_array)),
    ("size_array", Rule::One(size_array)),
    ("zeros_like", Rule::One(|node| filled_like(node, 0.0))),
];

/// Fills whose dims of 0 are unknown: MXNet infers them.
pub(super) const FILLS: &[&str] = &["_full", "_ones", "_zeros", "_zeros_without_dtype"];

/// The most values of a range that are computed one by one.
const MAX_RANGE: f64 = (1 << 24) as f64;

fn dtype(node: &Node<'_>) -> Outcome<DType> {
    match node.attributes.find("dtype")? {
        // No type of `_zeros_without_dtype`.
        Some("-1") => Ok(DType::Float32),
        _ => Ok(node.attributes.dtype("dtype")?.unwrap_or(DType::Float32)),
    }
}

/// Returns a constant of some dims. Dims that the program leaves open are inputs.
fn filled_by(node: &mut Node<'_>, number: Option<f64>) -> Outcome {
    if node.count() == 0 {
        return filled(node, number);
    }
    let (shape, mut open) = (node.attributes.required_ints("shape")?, node.all()?.into_iter());
    let dtype = dtype(node)?;
    let number = match number {
        Some(number) => number,
        None => node.attributes.float("value", None)?,
    };
    let mut dims = Vec::new();
    for dim in shape {
        dims.push(match dim {
            0 => open.next().ok_or_else(|| Finding::internal("a dim is missing"))?,
            1.. => node.longs(&[dim]),
            _ => return Err(wrong("shape", "known dims", &dim.to_string())),
        });
    }
    let dims = node.concat(&dims.iter().collect::<Vec<_>>(), 0)?;
    node.filled_as(dtype, number, &dims)
}

pub(super) fn filled(node: &mut Node<'_>, number: Option<f64>) -> Outcome {
    node.at_most(0)?;
    let shape = node.attributes.required_ints("shape")?;
    let dtype = dtype(node)?;
    let number = match number {
        Some(number) => number,
        None => node.attributes.float("value", None)?,
    };
    if shape.iter().any(|dim| *dim < 0) {
        return Err(wrong("shape", "known dims", &format!("{shape:?}")));
    }
    product(&shape)?;
    node.filled(dtype, number, &shape)
}

fn filled_like(node: &mut Node<'_>, number: f64) -> Outcome {
    let [x] = node.exactly()?;
    let dtype = node.attributes.dtype("dtype")?.unwrap_or(x.dtype());
    node.constant_like(&x, dtype, number)
}

fn shape_array(node: &mut Node<'_>) -> Outcome {
    node.unary("Shape")
}

fn size_array(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let size = node.call("Size", &[&x], [])?;
    node.reshape(&size, &[1])
}

/// Returns numbers as a constant of a type.
fn numbers(node: &mut Node<'_>, dtype: DType, numbers: &[f64]) -> Outcome {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let shape = vec![numbers.len() as u64];
    let blob = lodstone_store::Blob::memory(bytes);
    let tensor = lodstone_model::Tensor::dense(DType::Float64, shape, blob);
    let value = node.tensor(tensor, "numbers");
    node.cast(&value, dtype)
}

pub(super) fn arange(node: &mut Node<'_>) -> Outcome {
    node.at_most(0)?;
    let start = node.attributes.float("start", None)?;
    let stop = node.attributes.float_or_none("stop")?;
    let step = node.attributes.float("step", 1.0)?;
    let repeat = node.attributes.int("repeat", 1)?;
    let dtype = dtype(node)?;
    if node.attributes.flag("infer_range", false)? && stop.is_none() {
        return Err("a range whose end follows from its reader is not supported".into());
    }
    let (start, stop) = stop.map_or((0.0, start), |stop| (start, stop));
    let count = ((stop - start) / step).ceil();
    if !(0.0..=MAX_RANGE).contains(&count) || step == 0.0 {
        return Err(format!("expected a range, found {start} to {stop} by {step}").into());
    }
    let one = |place: f64| start + step * place;
    let count = (0..).map(f64::from).take_while(|place: &f64| *place < count);
    let all: Vec<f64> = count.map(one).collect();
    if repeat < 1 || (all.len() as u64).saturating_mul(repeat.unsigned_abs()) > MAX_ELEMENTS {
        return Err(wrong("repeat", "a small positive number", &repeat.to_string()));
    }
    let values = numbers(node, dtype, &all)?;
    repeated(node, &values, repeat)
}

/// Repeats each element of a vector.
fn repeated(node: &mut Node<'_>, values: &Value, count: i64) -> Outcome {
    if count == 1 {
        return Ok(values.clone());
    }
    let column = node.unsqueeze(values, &[1])?;
    let reps = node.longs(&[1, count]);
    let tiled = node.call("Tile", &[&column, &reps], [])?;
    node.recoded(&tiled, &[-3])
}

/// Numbers the elements of a tensor, or the places along an axis.
fn arange_like(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let start = node.attributes.float("start", 0.0)?;
    let step = node.attributes.float("step", 1.0)?;
    let repeat = node.attributes.int("repeat", 1)?;
    node.attributes.find("ctx")?;
    let axis = node.attributes.int_or_none("axis")?;
    if repeat < 1 {
        return Err(wrong("repeat", "a positive number", &repeat.to_string()));
    }
    let dtype = x.dtype();
    let count = match axis {
        Some(axis) => {
            let axis = axis_of(&x, axis)?;
            node.extent(&x, axis)?
        }
        None => node.call("Size", &[&x], [])?,
    };
    let mut places = node.counting(&count, dtype)?;
    if repeat > 1 {
        let repeat = node.number(dtype, repeat as f64)?;
        let groups = node.div(&places, &repeat)?;
        places = node.call("Floor", &[&groups], [])?;
    }
    let scaled = node.times(&places, step)?;
    let values = node.plus(&scaled, start)?;
    if axis.is_some() { Ok(values) } else { node.reshape_as(&values, &x) }
}

fn linspace(node: &mut Node<'_>) -> Outcome {
    node.at_most(0)?;
    let start = node.attributes.float("start", None)?;
    let stop = node.attributes.float("stop", None)?;
    let count = node.attributes.int("num", None)?;
    let has_end = node.attributes.flag("endpoint", true)?;
    node.attributes.ignore(&["step", "repeat", "infer_range"]);
    let dtype = dtype(node)?;
    let all = u32::try_from(count).ok().map(f64::from).filter(|all| *all <= MAX_RANGE);
    let all = all.ok_or_else(|| wrong("num", "a number of values", &count.to_string()))?;
    let steps = if has_end { all - 1.0 } else { all };
    let step = if steps > 0.0 { (stop - start) / steps } else { 0.0 };
    let places = (0..).map(f64::from).take_while(|place: &f64| *place < all);
    let all: Vec<f64> = places.map(|place| start + step * place).collect();
    numbers(node, dtype, &all)
}

pub(super) fn eye(node: &mut Node<'_>) -> Outcome {
    node.at_most(0)?;
    let rows = node.attributes.int("N", None)?;
    let columns = match node.attributes.int_or_none("M")? {
        None | Some(0) => rows,
        Some(columns) => columns,
    };
    let diagonal = node.attributes.int("k", 0)?;
    let dtype = dtype(node)?;
    product(&[rows, columns])?;
    if rows < 0 || columns < 0 {
        return Err("expected dims that are not negative".into());
    }
    let like = node.filled(dtype, 0.0, &[rows, columns])?;
    if rank(&like)? != 2 {
        return Err("expected a matrix".into());
    }
    node.call("EyeLike", &[&like], [int("k", diagonal)])
}
