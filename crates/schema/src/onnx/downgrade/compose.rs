//! Operators that older opsets do not have, written with others.

use lodstone_model::{DType, Op, Tensor};
use lodstone_store::Blob;

use super::Adapter;
use super::rewrite::{
    Rewrite, axis_of, float, float_of, input, int, int_of, output, outputs, text_of,
};
use crate::Finding;

type Done = Result<(), Finding>;

pub(super) const ADAPTERS: &[(&str, Adapter)] = &[
    ("Celu", celu),
    ("Clip", clip),
    ("Gelu", gelu),
    ("GreaterOrEqual", |rewrite, op| or_equal(rewrite, op, "Greater")),
    ("GroupNormalization", group_normalization),
    ("HardSwish", hard_swish),
    ("LayerNormalization", layer_normalization),
    ("LessOrEqual", |rewrite, op| or_equal(rewrite, op, "Less")),
    ("Mish", mish),
    ("RMSNormalization", rms_normalization),
    ("Swish", swish),
    ("Trilu", trilu),
];

/// `x / 2 * (1 + erf(x / sqrt 2))`, or its approximation by `tanh`.
fn gelu(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    let dtype = rewrite.dtype(x);
    let (one, half) = (rewrite.number(dtype, 1.0)?, rewrite.number(dtype, 0.5)?);
    let inner = if text_of(op, "approximate", "none") == "tanh" {
        let three = rewrite.number(dtype, 3.0)?;
        let cube = rewrite.emit("Pow", &[x, &three], Vec::new())?;
        let small = rewrite.number(dtype, 0.044_715)?;
        let cube = rewrite.emit("Mul", &[&cube, &small], Vec::new())?;
        let sum = rewrite.emit("Add", &[x, &cube], Vec::new())?;
        let factor = rewrite.number(dtype, (2.0 / std::f64::consts::PI).sqrt())?;
        let inner = rewrite.emit("Mul", &[&sum, &factor], Vec::new())?;
        rewrite.emit("Tanh", &[&inner], Vec::new())?
    } else {
        let root = rewrite.number(dtype, std::f64::consts::SQRT_2)?;
        let inner = rewrite.emit("Div", &[x, &root], Vec::new())?;
        rewrite.emit("Erf", &[&inner], Vec::new())?
    };
    let sum = rewrite.emit("Add", &[&inner, &one], Vec::new())?;
    let product = rewrite.emit("Mul", &[x, &sum], Vec::new())?;
    rewrite.emit_as("Mul", &[&product, &half], Vec::new(), &outputs(op))
}

/// `x * clip(x / 6 + 1 / 2, 0, 1)`.
fn hard_swish(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    let attributes = vec![float("alpha", 1.0 / 6.0), float("beta", 0.5)];
    let gate = rewrite.emit("HardSigmoid", &[x], attributes)?;
    rewrite.emit_as("Mul", &[x, &gate], Vec::new(), &outputs(op))
}

/// `x * sigmoid(alpha * x)`.
fn swish(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    let alpha = float_of(op, "alpha", 1.0);
    let scaled = if alpha.to_bits() != 1.0_f32.to_bits() {
        let alpha = rewrite.number(rewrite.dtype(x), alpha.into())?;
        rewrite.emit("Mul", &[x, &alpha], Vec::new())?
    } else {
        x.to_owned()
    };
    let gate = rewrite.emit("Sigmoid", &[&scaled], Vec::new())?;
    rewrite.emit_as("Mul", &[x, &gate], Vec::new(), &outputs(op))
}

/// `x * tanh(softplus(x))`.
fn mish(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    let soft = rewrite.emit("Softplus", &[x], Vec::new())?;
    let gate = rewrite.emit("Tanh", &[&soft], Vec::new())?;
    rewrite.emit_as("Mul", &[x, &gate], Vec::new(), &outputs(op))
}

/// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`, by `Elu`, which has no inner factor.
fn celu(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    let alpha = float_of(op, "alpha", 1.0);
    let factor = rewrite.number(rewrite.dtype(x), alpha.into())?;
    let inner = rewrite.emit("Div", &[x, &factor], Vec::new())?;
    let inner = rewrite.emit("Elu", &[&inner], vec![float("alpha", 1.0)])?;
    rewrite.emit_as("Mul", &[&inner, &factor], Vec::new(), &outputs(op))
}

/// Up to opset 11, only floats are clipped: integers are compared with the limits.
fn clip(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let mut value = input(op, 0).to_owned();
    let limits = [(1, "Less"), (2, "Greater")];
    for (index, kind) in limits {
        let limit = input(op, index);
        if limit.is_empty() {
            continue;
        }
        let is_beyond = rewrite.emit(kind, &[&value, limit], Vec::new())?;
        value = rewrite.emit("Where", &[&is_beyond, limit, &value], Vec::new())?;
    }
    rewrite.emit_as("Identity", &[&value], Vec::new(), &outputs(op))
}

fn or_equal(rewrite: &mut Rewrite<'_>, op: &Op, kind: &str) -> Done {
    let (a, b) = (input(op, 0), input(op, 1));
    let strictly = rewrite.emit(kind, &[a, b], Vec::new())?;
    let equal = rewrite.emit("Equal", &[a, b], Vec::new())?;
    rewrite.emit_as("Or", &[&strictly, &equal], Vec::new(), &outputs(op))
}

/// A value that is being normalized over its last axes, in the type of computation.
struct Normalized {
    /// The value, cast.
    value: String,
    /// The axes, a constant.
    axes: String,
    /// The type of computation.
    dtype: DType,
    /// The type of the value, if it is another one.
    narrow: Option<DType>,
}

impl Normalized {
    /// Narrow types are computed in the type that `stash_type` names, float32 by default.
    fn new(rewrite: &mut Rewrite<'_>, op: &Op) -> Result<Self, Finding> {
        let x = input(op, 0);
        let rank = rewrite.rank(x)?;
        let first = axis_of(int_of(op, "axis", -1), rank)?.index();
        let axes: Vec<i64> = (0..).take(rank).skip(first).collect();
        let axes = rewrite.longs(&axes);
        let (value, dtype, narrow) = widened(rewrite, op)?;
        Ok(Self { value, axes, dtype, narrow })
    }

    fn mean(&self, rewrite: &mut Rewrite<'_>, of: &str) -> Result<String, Finding> {
        rewrite.emit("ReduceMean", &[of, &self.axes], vec![int("keepdims", 1)])
    }

    /// Returns the root of a mean of squares.
    fn root(&self, rewrite: &mut Rewrite<'_>, op: &Op, mean: &str) -> Result<String, Finding> {
        let epsilon = rewrite.number(self.dtype, float_of(op, "epsilon", 1e-5).into())?;
        let sum = rewrite.emit("Add", &[mean, &epsilon], Vec::new())?;
        rewrite.emit("Sqrt", &[&sum], Vec::new())
    }
}

/// Returns the first input in the type of computation, that type, and the type of the input if it is another one.
fn widened(rewrite: &mut Rewrite<'_>, op: &Op) -> Result<(String, DType, Option<DType>), Finding> {
    let x = input(op, 0);
    let dtype = rewrite.dtype(x);
    let stash = int_of(op, "stash_type", 1);
    match dtype {
        DType::Float16 | DType::BFloat16 if stash == 1 => {
            Ok((rewrite.cast(x, DType::Float32)?, DType::Float32, Some(dtype)))
        }
        _ if stash == 1 => Ok((x.to_owned(), dtype, None)),
        _ => Err(format!("computes in type {stash}").into()),
    }
}

fn narrowed(
    rewrite: &mut Rewrite<'_>,
    value: String,
    to: Option<DType>,
) -> Result<String, Finding> {
    match to {
        Some(to) => rewrite.cast(&value, to),
        None => Ok(value),
    }
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias`.
fn layer_normalization(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let (scale, bias) = (input(op, 1), input(op, 2));
    let x = Normalized::new(rewrite, op)?;
    let mean = x.mean(rewrite, &x.value)?;
    let centered = rewrite.emit("Sub", &[&x.value, &mean], Vec::new())?;
    let square = rewrite.emit("Mul", &[&centered, &centered], Vec::new())?;
    let variance = x.mean(rewrite, &square)?;
    let deviation = x.root(rewrite, op, &variance)?;
    let normal = rewrite.emit("Div", &[&centered, &deviation], Vec::new())?;
    let normal = narrowed(rewrite, normal, x.narrow)?;
    let outputs = outputs(op);
    for (place, kind, from) in [(1, "Identity", &mean), (2, "Reciprocal", &deviation)] {
        match outputs.get(place) {
            Some(name) if !name.is_empty() => {
                rewrite.emit_as(kind, &[from], Vec::new(), &[*name])?;
            }
            _ => {}
        }
    }
    match bias {
        "" => rewrite.emit_as("Mul", &[&normal, scale], Vec::new(), &[output(op)]),
        bias => {
            let scaled = rewrite.emit("Mul", &[&normal, scale], Vec::new())?;
            rewrite.emit_as("Add", &[&scaled, bias], Vec::new(), &[output(op)])
        }
    }
}

/// `x / sqrt(mean of squares + epsilon) * scale`.
fn rms_normalization(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = Normalized::new(rewrite, op)?;
    let square = rewrite.emit("Mul", &[&x.value, &x.value], Vec::new())?;
    let mean = x.mean(rewrite, &square)?;
    let root = x.root(rewrite, op, &mean)?;
    let normal = rewrite.emit("Div", &[&x.value, &root], Vec::new())?;
    let normal = narrowed(rewrite, normal, x.narrow)?;
    rewrite.emit_as("Mul", &[&normal, input(op, 1)], Vec::new(), &outputs(op))
}

/// Each group is an instance: `[batch, groups, elements]`.
fn group_normalization(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    /// The maximum number of groups: each has a scale and a bias.
    const MAX_GROUPS: usize = 1 << 16;
    let (x, scale, bias) = (input(op, 0), input(op, 1), input(op, 2));
    let groups = int_of(op, "num_groups", 0);
    let count = usize::try_from(groups).ok().filter(|count| (1..=MAX_GROUPS).contains(count));
    let count = count.ok_or("has no groups, or too many")?;
    let (value, dtype, narrow) = widened(rewrite, op)?;
    let all = |value: f32| {
        let bytes: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), count).flatten().collect();
        Tensor::dense(DType::Float32, vec![count as u64], Blob::memory(bytes))
    };
    let (mut ones, mut zeros) = (rewrite.constant(all(1.0)), rewrite.constant(all(0.0)));
    if dtype != DType::Float32 {
        (ones, zeros) = (rewrite.cast(&ones, dtype)?, rewrite.cast(&zeros, dtype)?);
    }
    let dims = rewrite.longs(&[0, groups, -1]);
    let apart = rewrite.emit("Reshape", &[&value, &dims], Vec::new())?;
    let epsilon = float("epsilon", float_of(op, "epsilon", 1e-5));
    let normal = rewrite.emit("InstanceNormalization", &[&apart, &ones, &zeros], vec![epsilon])?;
    let dims = rewrite.emit("Shape", &[x], Vec::new())?;
    let whole = rewrite.emit("Reshape", &[&normal, &dims], Vec::new())?;
    let whole = narrowed(rewrite, whole, narrow)?;
    // [channels, 1, ..]
    let spatial: Vec<i64> = (0..).take(rewrite.rank(x)?.saturating_sub(1)).skip(1).collect();
    let (mut scale, mut bias) = (scale.to_owned(), bias.to_owned());
    if !spatial.is_empty() {
        let spatial = rewrite.longs(&spatial);
        scale = rewrite.emit("Unsqueeze", &[&scale, &spatial], Vec::new())?;
        bias = rewrite.emit("Unsqueeze", &[&bias, &spatial], Vec::new())?;
    }
    let scaled = rewrite.emit("Mul", &[&whole, &scale], Vec::new())?;
    rewrite.emit_as("Add", &[&scaled, &bias], Vec::new(), &outputs(op))
}

/// The distance of each element of a matrix from its diagonal selects the triangle.
fn trilu(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let x = input(op, 0);
    let dims = rewrite.emit("Shape", &[x], Vec::new())?;
    let scalar = |rewrite: &mut Rewrite<'_>, value: i64| {
        let bytes = value.to_le_bytes().to_vec();
        rewrite.constant(Tensor::dense(DType::Int64, Vec::new(), Blob::memory(bytes)))
    };
    let (zero, one) = (scalar(rewrite, 0), scalar(rewrite, 1));
    let places = |rewrite: &mut Rewrite<'_>, axis: i64| {
        let axis = scalar(rewrite, axis);
        let size = rewrite.emit("Gather", &[&dims, &axis], Vec::new())?;
        rewrite.emit("Range", &[&zero, &size, &one], Vec::new())
    };
    let (rows, columns) = (places(rewrite, -2)?, places(rewrite, -1)?);
    let last = rewrite.longs(&[1]);
    let rows = rewrite.emit("Unsqueeze", &[&rows, &last], Vec::new())?;
    let distance = rewrite.emit("Sub", &[&columns, &rows], Vec::new())?;
    let diagonal = match input(op, 1) {
        "" => &zero,
        name => name,
    };
    let is_upper = int_of(op, "upper", 1) != 0;
    let beyond = if is_upper { "Less" } else { "Greater" };
    let beyond = rewrite.emit(beyond, &[&distance, diagonal], Vec::new())?;
    let blank = rewrite.number(rewrite.dtype(x), 0.0)?;
    rewrite.emit_as("Where", &[&beyond, &blank, x], Vec::new(), &outputs(op))
}
