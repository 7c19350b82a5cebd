//! Operators that older opsets do not have, written with others.

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_store::Blob;

use super::Adapter;
use super::rewrite::{Rewrite, float, float_of, input, int, int_of, output, outputs, text_of};
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
        let factor = rewrite.number(dtype, 0.797_884_6)?;
        let inner = rewrite.emit("Mul", &[&sum, &factor], Vec::new())?;
        rewrite.emit("Tanh", &[&inner], Vec::new())?
    } else {
        let root = rewrite.number(dtype, std::f32::consts::SQRT_2)?;
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
    let scaled = if (alpha - 1.0).abs() > 0.0 {
        let alpha = rewrite.number(rewrite.dtype(x), alpha)?;
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
    let factor = rewrite.number(rewrite.dtype(x), alpha)?;
    let inner = rewrite.emit("Div", &[x, &factor], Vec::new())?;
    let inner = rewrite.emit("Elu", &[&inner], vec![float("alpha", 1.0)])?;
    rewrite.emit_as("Mul", &[&inner, &factor], Vec::new(), &outputs(op))
}

/// Up to opset 11, only floats are clipped, and up to 11 only they have a minimum and a maximum: integers pass through
/// a comparison.
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

/// Returns the axes from `axis` to the last one.
fn normalized_axes(rewrite: &Rewrite<'_>, x: &str, axis: i64) -> Result<Vec<i64>, Finding> {
    let rank = i64::try_from(rewrite.rank(x)?).unwrap_or(i64::MAX);
    let first = if axis < 0 { axis + rank } else { axis };
    Ok((first..rank).collect())
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias`.
fn layer_normalization(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    if op.output("").iter().skip(1).any(|name| !name.is_empty()) {
        return Err("returns the mean or the deviation".into());
    }
    let (x, scale, bias) = (input(op, 0), input(op, 1), input(op, 2));
    let axes = normalized_axes(rewrite, x, int_of(op, "axis", -1))?;
    let axes = rewrite.longs(&axes);
    let dtype = rewrite.dtype(x);
    let mean = rewrite.emit("ReduceMean", &[x, &axes], vec![int("keepdims", 1)])?;
    let centered = rewrite.emit("Sub", &[x, &mean], Vec::new())?;
    let square = rewrite.emit("Mul", &[&centered, &centered], Vec::new())?;
    let variance = rewrite.emit("ReduceMean", &[&square, &axes], vec![int("keepdims", 1)])?;
    let epsilon = rewrite.number(dtype, float_of(op, "epsilon", 1e-5))?;
    let sum = rewrite.emit("Add", &[&variance, &epsilon], Vec::new())?;
    let deviation = rewrite.emit("Sqrt", &[&sum], Vec::new())?;
    let normal = rewrite.emit("Div", &[&centered, &deviation], Vec::new())?;
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
    let (x, scale) = (input(op, 0), input(op, 1));
    let axes = normalized_axes(rewrite, x, int_of(op, "axis", -1))?;
    let axes = rewrite.longs(&axes);
    let square = rewrite.emit("Mul", &[x, x], Vec::new())?;
    let mean = rewrite.emit("ReduceMean", &[&square, &axes], vec![int("keepdims", 1)])?;
    let epsilon = rewrite.number(rewrite.dtype(x), float_of(op, "epsilon", 1e-5))?;
    let sum = rewrite.emit("Add", &[&mean, &epsilon], Vec::new())?;
    let root = rewrite.emit("Sqrt", &[&sum], Vec::new())?;
    let normal = rewrite.emit("Div", &[x, &root], Vec::new())?;
    rewrite.emit_as("Mul", &[&normal, scale], Vec::new(), &outputs(op))
}

/// Each group is an instance: `[batch, groups, elements]`.
fn group_normalization(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    let (x, scale, bias) = (input(op, 0), input(op, 1), input(op, 2));
    let groups = int_of(op, "num_groups", 1);
    let count = usize::try_from(groups).ok().filter(|count| (1..=1 << 20).contains(count));
    let count = count.ok_or("has no groups")?;
    let rank = i64::try_from(rewrite.rank(x)?).unwrap_or(i64::MAX);
    let all = |value: f32| {
        let bytes: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), count).flatten().collect();
        Tensor::dense(DType::Float32, vec![count as u64], Blob::memory(bytes))
    };
    if rewrite.dtype(x) != DType::Float32 {
        return Err("normalizes groups of other than float32".into());
    }
    let (ones, zeros) = (rewrite.constant(all(1.0)), rewrite.constant(all(0.0)));
    let dims = rewrite.longs(&[0, groups, -1]);
    let apart = rewrite.emit("Reshape", &[x, &dims], Vec::new())?;
    let epsilon = float("epsilon", float_of(op, "epsilon", 1e-5));
    let normal = rewrite.emit("InstanceNormalization", &[&apart, &ones, &zeros], vec![epsilon])?;
    let dims = rewrite.emit("Shape", &[x], Vec::new())?;
    let whole = rewrite.emit("Reshape", &[&normal, &dims], Vec::new())?;
    let behind: Vec<i64> = (1..rank - 1).collect();
    let behind = rewrite.longs(&behind);
    let scale = rewrite.emit("Unsqueeze", &[scale, &behind], Vec::new())?;
    let bias = rewrite.emit("Unsqueeze", &[bias, &behind], Vec::new())?;
    let scaled = rewrite.emit("Mul", &[&whole, &scale], Vec::new())?;
    rewrite.emit_as("Add", &[&scaled, &bias], Vec::new(), &outputs(op))
}

/// Up to opset 13, a constant mask selects the triangle, so its dims must be known.
fn trilu(rewrite: &mut Rewrite<'_>, op: &Op) -> Done {
    /// The maximum number of elements of the mask.
    const LARGEST: usize = 1 << 24;
    let x = input(op, 0);
    let dims = rewrite.dims(x)?;
    let [.., rows, columns] = dims.as_slice() else { return Err("has no matrix".into()) };
    let diagonal = match input(op, 1) {
        "" => 0,
        name => rewrite.ints(name)?.first().copied().unwrap_or(0),
    };
    let is_upper = !matches!(op.attribute("upper"), Some(AttributeValue::Long(0)));
    let size = usize::try_from(rows.saturating_mul(*columns)).unwrap_or(usize::MAX);
    if size > LARGEST {
        return Err("has a large matrix".into());
    }
    let keeps = |row: i64, column: i64| {
        let distance = column.saturating_sub(row);
        if is_upper { distance >= diagonal } else { distance <= diagonal }
    };
    let mut bytes = Vec::with_capacity(size);
    for row in 0..*rows {
        bytes.extend((0..*columns).map(|column| u8::from(keeps(row, column))));
    }
    let shape = [*rows, *columns].map(|dim| u64::try_from(dim).unwrap_or(0)).to_vec();
    let mask = rewrite.constant(Tensor::dense(DType::Bool, shape, Blob::memory(bytes)));
    let zero = rewrite.number(rewrite.dtype(x), 0.0)?;
    rewrite.emit_as("Where", &[&mask, x, &zero], Vec::new(), &outputs(op))
}
