//! MXNet: `operator/nn/pooling-inl.h` and `pool.h`, `convolution-inl.h`, `deconvolution-inl.h` (`InferPad`), `im2col.h`.

use libtest_mimic::Trial;
use lodstone_model::{Attribute, Dialect, Op, Operand};

use super::{
    Array, Case, Random, Span, Taps, attribute, columns, convolved, evaluated, image, pooled,
    transposed, trial,
};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("mxnet::Pooling", pooling),
        trial("mxnet::Pooling_v1", old_pooling),
        trial("mxnet::AdaptiveAvgPooling2D", adaptive),
        trial("mxnet::Convolution", convolution),
        trial("mxnet::Deconvolution", deconvolution),
        trial("mxnet::im2col", |random, open| patches(random, open, false)),
        trial("mxnet::col2im", |random, open| patches(random, open, true)),
    ]
}

fn tuple(name: &str, values: &[i64]) -> Attribute {
    let values: String = values.iter().map(|value| format!("{value}, ")).collect();
    attribute(name, format!("({})", values.trim_end()).as_str())
}

fn op(kind: &str, inputs: &[&str], attributes: Vec<Attribute>) -> Op {
    let args = inputs.iter().map(|name| (*name).to_owned()).collect();
    let inputs = vec![Operand { slot: String::new(), args }];
    Op { kind: kind.to_owned(), inputs, attributes, ..Op::default() }
}

/// The windows of a pool along each axis.
struct Pool {
    attributes: Vec<Attribute>,
    spans: Vec<Vec<Span>>,
    name: String,
}

impl Pool {
    fn drawn(random: &mut Random, dims: &[i64]) -> Option<Self> {
        let spatial = dims.len();
        let (kernel, stride) = (random.each(spatial, 1, 4), random.each(spatial, 1, 3));
        let pad = random.each(spatial, 0, 3);
        let conventions = if spatial == 1 { 2 } else { 1 };
        let convention = ["valid", "full", "same"][random.number(0, conventions) as usize];
        let counts_padding = random.flag();
        let count = |a: usize| {
            let room = dims[a] + 2 * pad[a] - kernel[a];
            match convention {
                _ if room < 0 && convention != "same" => 0,
                "valid" => 1 + room / stride[a],
                "full" => 1 + (room + stride[a] - 1) / stride[a],
                _ => (dims[a] + 2 * pad[a] + stride[a] - 1) / stride[a],
            }
        };
        let counts: Vec<i64> = (0..spatial).map(count).collect();
        if counts.iter().any(|count| *count < 1) {
            return None;
        }
        let spans = (0..spatial).map(|a| {
            let span = |number: i64| {
                let begin = number * stride[a] - pad[a];
                let end = (begin + kernel[a]).min(dims[a] + pad[a]);
                let whole = end - begin;
                let (begin, end) = (begin.max(0), end.min(dims[a]));
                let divisor = if counts_padding { whole } else { end - begin };
                Span { places: (begin..end).collect(), divisor }
            };
            (0..counts[a]).map(span).collect()
        });
        let attributes = vec![
            tuple("kernel", &kernel),
            tuple("stride", &stride),
            tuple("pad", &pad),
            attribute("pooling_convention", convention),
            attribute("count_include_pad", if counts_padding { "True" } else { "False" }),
        ];
        let name = format!(
            "kernel {kernel:?} stride {stride:?} pad {pad:?} {convention} counts_padding {counts_padding}"
        );
        Some(Self { attributes, spans: spans.collect(), name })
    }

    /// One window of all elements, whatever else the attributes are.
    fn global(mut self, dims: &[i64]) -> Self {
        let span = |dim: &i64| vec![Span { places: (0..*dim).collect(), divisor: *dim }];
        self.spans = dims.iter().map(span).collect();
        self.attributes.push(attribute("global_pool", "True"));
        self.name += " global";
        self
    }
}

/// Returns the norms of windows: powers by 1 and 3 keep their signs.
fn norms(x: &Array, spans: &[Vec<Span>], p: i32) -> Array {
    let mut powers = x.clone();
    powers.values.iter_mut().for_each(|value| *value = value.powi(p));
    let (mut y, _) = pooled(&powers, spans, "sum", 0.0);
    let root = |sum: f32| match p {
        1 => sum,
        2 => sum.sqrt(),
        _ => sum.cbrt(),
    };
    y.values.iter_mut().for_each(|value| *value = root(*value));
    y
}

fn pooling(random: &mut Random, is_open: bool) -> Option<Case> {
    let spatial = random.number(1, 3) as usize;
    let dims = random.each(spatial, 1, 6);
    let mut pool = Pool::drawn(random, &dims)?;
    if random.number(0, 5) == 0 {
        pool = pool.global(&dims);
    }
    let kind = ["max", "avg", "sum", "lp"][random.number(0, 3) as usize];
    let p = random.number(1, 3);
    let is_last = !is_open && random.number(0, 3) == 0;
    let x = random.images(2, &dims);
    let mut y = match kind {
        "lp" => norms(&x, &pool.spans, p as i32),
        _ => pooled(&x, &pool.spans, kind, f32::MIN).0,
    };
    // A mean over nothing is 0.
    y.values
        .iter_mut()
        .filter(|value| value.is_nan() || **value == 0.0)
        .for_each(|value| *value = 0.0);
    let mut attributes = pool.attributes;
    attributes.extend([attribute("pool_type", kind), layout(spatial, is_last)]);
    if kind == "lp" {
        attributes.push(attribute("p_value", p.to_string().as_str()));
    }
    let name = format!("{kind} {p} {:?} last {is_last} {}", x.dims, pool.name);
    let (x, y) = if is_last { (x.channels_last(), y.channels_last()) } else { (x, y) };
    let op = op("Pooling", &["x"], attributes);
    let found = Box::new(move || evaluated(Dialect::Mxnet, op, &[("x", &x)], is_open, 1));
    Some(Case { name, found, wanted: vec![y.tensor()], refused: &[] })
}

fn layout(spatial: usize, is_last: bool) -> Attribute {
    let layouts = if is_last { ["NWC", "NHWC", "NDHWC"] } else { ["NCW", "NCHW", "NCDHW"] };
    attribute("layout", layouts[spatial - 1])
}

/// `contrib/adaptive_avg_pooling.cc`.
fn adaptive(random: &mut Random, is_open: bool) -> Option<Case> {
    let (dims, counts) = (random.each(2, 1, 6), random.each(2, 1, 5));
    let x = random.images(2, &dims);
    let spans = (0..2).map(|a| {
        let span = |number: i64| {
            let begin = number * dims[a] / counts[a];
            let end = ((number + 1) * dims[a] + counts[a] - 1) / counts[a];
            Span { places: (begin..end).collect(), divisor: end - begin }
        };
        (0..counts[a]).map(span).collect()
    });
    let spans: Vec<Vec<Span>> = spans.collect();
    let (y, _) = pooled(&x, &spans, "avg", f32::MIN);
    let given = if counts[0] == counts[1] && random.flag() { &counts[..1] } else { &counts[..] };
    let op = op("_contrib_AdaptiveAvgPooling2D", &["x"], vec![tuple("output_size", given)]);
    let name = format!("{:?} to {given:?}", x.dims);
    let found = Box::new(move || evaluated(Dialect::Mxnet, op, &[("x", &x)], is_open, 1));
    Some(Case { name, found, wanted: vec![y.tensor()], refused: &[] })
}

/// The old operator pads with zeros, which count for all kinds.
fn old_pooling(random: &mut Random, is_open: bool) -> Option<Case> {
    let (dims, kernel) = (random.each(2, 1, 6), random.each(2, 1, 4));
    let stride = random.each(2, 1, 3);
    let pad: Vec<i64> = kernel.iter().map(|kernel| random.number(0, kernel - 1)).collect();
    let is_full = random.flag();
    let kind = ["max", "avg", "sum"][random.number(0, 2) as usize];
    let count = |a: usize| {
        let room = dims[a] + 2 * pad[a] - kernel[a];
        match is_full {
            _ if room < 0 => 0,
            false => 1 + room / stride[a],
            true => 1 + (room + stride[a] - 1) / stride[a],
        }
    };
    let counts: Vec<i64> = (0..2).map(count).collect();
    if counts.iter().any(|count| *count < 1) {
        return None;
    }
    let mut padded_dims = vec![1, 2];
    padded_dims.extend((0..2).map(|a| dims[a] + 2 * pad[a]));
    let x = random.array(&[&[1, 2], &dims[..]].concat());
    let mut padded = Array::zeros(&padded_dims);
    for index in super::indices(&x.dims) {
        padded.add(&[index[0], index[1], index[2] + pad[0], index[3] + pad[1]], x.get(&index));
    }
    let spans = (0..2).map(|a| {
        let span = |number: i64| {
            let begin = number * stride[a];
            let end = (begin + kernel[a]).min(padded.dims[a + 2]);
            Span { places: (begin..end).collect(), divisor: kernel[a] }
        };
        (0..counts[a]).map(span).collect()
    });
    let spans: Vec<Vec<Span>> = spans.collect();
    let (y, _) = pooled(&padded, &spans, kind, f32::NEG_INFINITY);
    let attributes = vec![
        tuple("kernel", &kernel),
        tuple("stride", &stride),
        tuple("pad", &pad),
        attribute("pool_type", kind),
        attribute("pooling_convention", if is_full { "full" } else { "valid" }),
    ];
    let name =
        format!("{kind} {dims:?} kernel {kernel:?} stride {stride:?} pad {pad:?} full {is_full}");
    let op = op("Pooling_v1", &["x"], attributes);
    let found = Box::new(move || evaluated(Dialect::Mxnet, op, &[("x", &x)], is_open, 1));
    Some(Case { name, found, wanted: vec![y.tensor()], refused: &[] })
}

fn convolution(random: &mut Random, is_open: bool) -> Option<Case> {
    let spatial = random.number(1, 3) as usize;
    let (dims, kernel) = (random.each(spatial, 1, 6), random.each(spatial, 1, 3));
    let (stride, dilate) = (random.each(spatial, 1, 3), random.each(spatial, 1, 2));
    let (pad, groups, is_last) = (random.each(spatial, 0, 3), random.number(1, 2), random.flag());
    let count = |a: usize| {
        (dims[a] + 2 * pad[a] - dilate[a] * (kernel[a] - 1) - 1).div_euclid(stride[a]) + 1
    };
    let counts: Vec<i64> = (0..spatial).map(count).collect();
    if counts.iter().any(|count| *count < 1) || (is_last && is_open) {
        return None;
    }
    let x = random.images(2 * groups, &dims);
    let w = random.array(&[&[2 * groups, 2], &kernel[..]].concat());
    let taps = Taps { kernel: &kernel, strides: &stride, dilations: &dilate, begins: &pad };
    let y = convolved(&x, &w, &taps, &counts, groups);
    let attributes = vec![
        tuple("kernel", &kernel),
        tuple("stride", &stride),
        tuple("dilate", &dilate),
        tuple("pad", &pad),
        attribute("num_filter", (2 * groups).to_string().as_str()),
        attribute("num_group", groups.to_string().as_str()),
        attribute("no_bias", "True"),
        layout(spatial, is_last),
    ];
    let name = format!(
        "{:?} by {:?} stride {stride:?} pad {pad:?} dilate {dilate:?} last {is_last}",
        x.dims, w.dims
    );
    let (x, w, y) = match is_last {
        true => (x.channels_last(), w.channels_last(), y.channels_last()),
        false => (x, w, y),
    };
    let op = op("Convolution", &["x", "w"], attributes);
    let found =
        Box::new(move || evaluated(Dialect::Mxnet, op, &[("x", &x), ("w", &w)], is_open, 1));
    Some(Case { name, found, wanted: vec![y.tensor()], refused: &[] })
}

fn deconvolution(random: &mut Random, is_open: bool) -> Option<Case> {
    let spatial = random.number(1, 3) as usize;
    let (dims, kernel) = (random.each(spatial, 1, 4), random.each(spatial, 1, 3));
    let (stride, dilate) = (random.each(spatial, 1, 3), random.each(spatial, 1, 2));
    let (mut pad, groups) = (random.each(spatial, 0, 2), random.number(1, 2));
    let mut adj: Vec<i64> = stride.iter().map(|stride| random.number(0, stride - 1)).collect();
    let whole = |a: usize| stride[a] * (dims[a] - 1) + dilate[a] * (kernel[a] - 1) + 1;
    let mut attributes = vec![tuple("pad", &pad), tuple("adj", &adj)];
    if random.number(0, 2) == 0 {
        let target: Vec<i64> = (0..spatial).map(|a| random.number(1, whole(a))).collect();
        // The padding and `adj` that are given do not matter then.
        (pad, adj) =
            (0..spatial).map(|a| whole(a) - target[a]).map(|all| ((all + 1) / 2, all % 2)).unzip();
        attributes.push(tuple("target_shape", &target));
    }
    let sizes: Vec<i64> = (0..spatial).map(|a| whole(a) - 2 * pad[a] + adj[a]).collect();
    if sizes.iter().any(|size| *size < 1) {
        return None;
    }
    let x = random.images(2 * groups, &dims);
    let w = random.array(&[&[2 * groups, 1], &kernel[..]].concat());
    let taps = Taps { kernel: &kernel, strides: &stride, dilations: &dilate, begins: &pad };
    let y = transposed(&x, &w, &taps, &sizes, groups);
    attributes.extend([
        tuple("kernel", &kernel),
        tuple("stride", &stride),
        tuple("dilate", &dilate),
        attribute("num_filter", groups.to_string().as_str()),
        attribute("num_group", groups.to_string().as_str()),
    ]);
    let name = format!(
        "{:?} by {:?} stride {stride:?} pad {pad:?} adj {adj:?} dilate {dilate:?} to {sizes:?}",
        x.dims, w.dims
    );
    let op = op("Deconvolution", &["x", "w"], attributes);
    let found =
        Box::new(move || evaluated(Dialect::Mxnet, op, &[("x", &x), ("w", &w)], is_open, 1));
    Some(Case { name, found, wanted: vec![y.tensor()], refused: &[] })
}

fn patches(random: &mut Random, is_open: bool, is_image: bool) -> Option<Case> {
    let (dims, kernel) = (random.each(2, 1, 6), random.each(2, 1, 3));
    let (stride, dilate) = (random.each(2, 1, 3), random.each(2, 1, 2));
    let pad = random.each(2, 0, 2);
    let count = |a: usize| {
        (dims[a] + 2 * pad[a] - dilate[a] * (kernel[a] - 1) - 1).div_euclid(stride[a]) + 1
    };
    let counts: Vec<i64> = (0..2).map(count).collect();
    if counts.iter().any(|count| *count < 1) {
        return None;
    }
    let taps = Taps { kernel: &kernel, strides: &stride, dilations: &dilate, begins: &pad };
    let mut attributes = vec![
        tuple("kernel", &kernel),
        tuple("stride", &stride),
        tuple("dilate", &dilate),
        tuple("pad", &pad),
    ];
    let (kind, x, y) = if is_image {
        let x = random.array(&[2, 2 * kernel.iter().product::<i64>(), counts.iter().product()]);
        attributes.push(tuple("output_size", &dims));
        let y = image(&x, &taps, &counts, &dims);
        ("col2im", x, y)
    } else {
        let x = random.array(&[2, 2, dims[0], dims[1]]);
        let y = columns(&x, &taps, &counts);
        ("im2col", x, y)
    };
    let name =
        format!("{dims:?} kernel {kernel:?} stride {stride:?} pad {pad:?} dilate {dilate:?}");
    let op = op(kind, &["x"], attributes);
    let found = Box::new(move || evaluated(Dialect::Mxnet, op, &[("x", &x)], is_open, 1));
    Some(Case { name, found, wanted: vec![y.tensor()], refused: &[] })
}
