//! PyTorch: `native/Pool.h`, `native/cpu/AvgPoolKernel.cpp`, `native/AdaptiveAveragePooling.cpp`, `native/im2col.h`.

use libtest_mimic::Trial;
use lodstone_model::{AttributeValue, DType, Dialect, Op};

use super::{
    Array, Case, Random, Span, Taps, attribute, columns, convolved, evaluated, image, operand,
    pooled, transposed, trial,
};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("torch::avg_pool", average),
        trial("torch::max_pool", maximum),
        trial("torch::adaptive_avg_pool", |random, open| adaptive(random, open, false)),
        trial("torch::adaptive_max_pool", |random, open| adaptive(random, open, true)),
        trial("torch::conv", conv),
        trial("torch::conv_transpose", conv_transpose),
        trial("torch::im2col", |random, open| patches(random, open, false)),
        trial("torch::col2im", |random, open| patches(random, open, true)),
    ]
}

/// `pooling_output_shape`: the last window begins inside the image or its padding at the begin.
fn pool_count(dim: i64, kernel: i64, stride: i64, pad: i64, dilation: i64, is_ceil: bool) -> i64 {
    let more = if is_ceil { stride - 1 } else { 0 };
    let count = (dim + 2 * pad - dilation * (kernel - 1) - 1 + more).div_euclid(stride) + 1;
    if is_ceil && (count - 1) * stride >= dim + pad { count - 1 } else { count }
}

struct Pool {
    x: Array,
    is_single: bool,
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    is_ceil: bool,
    counts: Vec<i64>,
}

impl Pool {
    fn random(random: &mut Random, is_dilated: bool) -> Option<Self> {
        let spatial = random.number(1, 3) as usize;
        let (dims, kernel) = (random.each(spatial, 1, 7), random.each(spatial, 1, 4));
        let (stride, dilation) =
            (random.each(spatial, 1, 3), random.each(spatial, 1, if is_dilated { 2 } else { 1 }));
        let padding: Vec<i64> = kernel.iter().map(|kernel| random.number(0, kernel / 2)).collect();
        let is_ceil = random.flag();
        let count =
            |a: usize| pool_count(dims[a], kernel[a], stride[a], padding[a], dilation[a], is_ceil);
        let counts: Vec<i64> = (0..spatial).map(count).collect();
        if counts.iter().any(|count| *count < 1) {
            return None;
        }
        let is_single = random.number(0, 3) == 0;
        let batch = if is_single { 1 } else { random.number(0, 2) };
        let x = random.array(&[&[batch, 2], &dims[..]].concat());
        Some(Self { x, is_single, kernel, stride, padding, dilation, is_ceil, counts })
    }

    fn op(&self, kind: &str) -> Op {
        let mut attributes = vec![
            attribute("kernel_size", self.kernel.clone()),
            attribute("stride", self.stride.clone()),
            attribute("padding", self.padding.clone()),
            attribute("ceil_mode", self.is_ceil),
        ];
        if kind.contains("max") {
            attributes.push(attribute("dilation", self.dilation.clone()));
        }
        let kind = kind.replace("#", &self.kernel.len().to_string());
        Op { kind, inputs: vec![operand("self", "x")], attributes, ..Op::default() }
    }

    /// Returns an array without its batch, if the image has none.
    fn bare(&self, array: &Array) -> Array {
        if self.is_single { unbatched(array) } else { array.clone() }
    }

    fn name(&self) -> String {
        format!(
            "{:?} kernel {:?} stride {:?} padding {:?} dilation {:?} ceil {}",
            self.x.dims, self.kernel, self.stride, self.padding, self.dilation, self.is_ceil
        )
    }
}

/// Returns the only image.
fn unbatched(array: &Array) -> Array {
    array.reshaped(&array.dims[1..])
}

fn average(random: &mut Random, is_open: bool) -> Option<Case> {
    let pool = Pool::random(random, false)?;
    let counts_padding = random.flag();
    let divisor = (pool.kernel.len() > 1 && random.number(0, 3) == 0).then(|| random.number(1, 5));
    let spans = (0..pool.kernel.len()).map(|a| {
        let span = |number: i64| {
            let begin = number * pool.stride[a] - pool.padding[a];
            let dim = pool.x.dims[a + 2];
            let end = (begin + pool.kernel[a]).min(dim + pool.padding[a]);
            let whole = end - begin;
            let (begin, end) = (begin.max(0), end.min(dim));
            let divisor = if counts_padding { whole } else { end - begin };
            Span { places: (begin..end).collect(), divisor }
        };
        (0..pool.counts[a]).map(span).collect()
    });
    let spans: Vec<Vec<Span>> = spans.collect();
    let wanted = match divisor {
        None => pooled(&pool.x, &spans, "avg", 0.0).0,
        Some(divisor) => {
            let mut sums = pooled(&pool.x, &spans, "sum", 0.0).0;
            sums.values.iter_mut().for_each(|sum| *sum /= divisor as f32);
            sums
        }
    };
    let mut op = pool.op("aten::avg_pool#d");
    op.attributes.push(attribute("count_include_pad", counts_padding));
    op.attributes.extend(divisor.map(|divisor| attribute("divisor_override", divisor)));
    let name = format!("{} counts_padding {counts_padding} divisor {divisor:?}", pool.name());
    let (x, wanted) = (pool.bare(&pool.x), vec![pool.bare(&wanted).tensor()]);
    let found = Box::new(move || evaluated(Dialect::Torch, op, &[("x", &x)], is_open, 1));
    Some(Case { name, found, wanted, refused: &[] })
}

fn maximum(random: &mut Random, is_open: bool) -> Option<Case> {
    let pool = Pool::random(random, true)?;
    let spans = (0..pool.kernel.len()).map(|a| {
        let span = |number: i64| {
            let begin = number * pool.stride[a] - pool.padding[a];
            let taps = (0..pool.kernel[a]).map(|tap| begin + tap * pool.dilation[a]);
            let places = taps.filter(|place| (0..pool.x.dims[a + 2]).contains(place)).collect();
            Span { places, divisor: 1 }
        };
        (0..pool.counts[a]).map(span).collect()
    });
    let spans: Vec<Vec<Span>> = spans.collect();
    // A window without an element is refused or -infinity, depending on the release; here it is no case.
    if spans.iter().flatten().any(|span| span.places.is_empty()) {
        return None;
    }
    let (y, places) = pooled(&pool.x, &spans, "max", f32::NEG_INFINITY);
    let op = pool.op("aten::max_pool#d_with_indices");
    let wanted = vec![pool.bare(&y).tensor(), pool.bare(&places).integers(DType::Int64)];
    let (name, x) = (pool.name(), pool.bare(&pool.x));
    let found = Box::new(move || evaluated(Dialect::Torch, op, &[("x", &x)], is_open, 2));
    Some(Case { name, found, wanted, refused: &[] })
}

/// `start_index` and `end_index`.
fn adaptive(random: &mut Random, is_open: bool, is_max: bool) -> Option<Case> {
    let spatial = random.number(1, 3) as usize;
    let (dims, counts) = (random.each(spatial, 1, 6), random.each(spatial, 1, 5));
    let is_single = random.number(0, 3) == 0;
    let least = if is_max { 1 } else { 0 };
    let batch = if is_single { 1 } else { random.number(least, 2) };
    let x = random.array(&[&[batch, 2], &dims[..]].concat());
    let spans = (0..spatial).map(|a| {
        let span = |number: i64| {
            let (dim, count) = (dims[a], counts[a]);
            let begin = number * dim / count;
            let end = ((number + 1) * dim + count - 1) / count;
            Span { places: (begin..end).collect(), divisor: end - begin }
        };
        (0..counts[a]).map(span).collect()
    });
    let spans: Vec<Vec<Span>> = spans.collect();
    let kind = if is_max { "max" } else { "avg" };
    let (y, places) = pooled(&x, &spans, kind, f32::NEG_INFINITY);
    let op = Op {
        kind: format!("aten::adaptive_{kind}_pool{spatial}d"),
        inputs: vec![operand("self", "x")],
        attributes: vec![attribute("output_size", counts.clone())],
        ..Op::default()
    };
    let name = format!("{:?} to {counts:?} single {is_single}", x.dims);
    let bare = |array: &Array| if is_single { unbatched(array) } else { array.clone() };
    let mut wanted = vec![bare(&y).tensor()];
    wanted.extend(is_max.then(|| bare(&places).integers(DType::Int64)));
    let (outputs, x) = (wanted.len(), bare(&x));
    let found = Box::new(move || evaluated(Dialect::Torch, op, &[("x", &x)], is_open, outputs));
    Some(Case { name, found, wanted, refused: &[] })
}

fn conv(random: &mut Random, is_open: bool) -> Option<Case> {
    let spatial = random.number(1, 3) as usize;
    let (dims, kernel) = (random.each(spatial, 1, 6), random.each(spatial, 1, 3));
    let (mut stride, dilation) = (random.each(spatial, 1, 3), random.each(spatial, 1, 2));
    let groups = random.number(1, 2);
    let how = ["", "", "same", "valid"][random.number(0, 3) as usize];
    let padding = random.each(spatial, 0, 3);
    let total = |a: usize| dilation[a] * (kernel[a] - 1);
    let all = 0..spatial;
    let (begins, ends): (Vec<i64>, Vec<i64>) = match how {
        "same" => all.map(|a| (total(a) / 2, total(a) - total(a) / 2)).unzip(),
        "valid" => all.map(|_| (0, 0)).unzip(),
        _ => all.map(|a| (padding[a], padding[a])).unzip(),
    };
    if how == "same" {
        stride = vec![1; spatial];
    }
    let count = |a: usize| (dims[a] + begins[a] + ends[a] - total(a) - 1).div_euclid(stride[a]) + 1;
    let counts: Vec<i64> = (0..spatial).map(count).collect();
    if counts.iter().any(|count| *count < 1) {
        return None;
    }
    let is_single = random.number(0, 3) == 0;
    let batch = if is_single { 1 } else { random.number(1, 2) };
    let x = random.array(&[&[batch, 2 * groups], &dims[..]].concat());
    let w = random.array(&[&[groups, 2], &kernel[..]].concat());
    let taps = Taps { kernel: &kernel, strides: &stride, dilations: &dilation, begins: &begins };
    let y = convolved(&x, &w, &taps, &counts, groups);
    let (x, y) = if is_single { (unbatched(&x), unbatched(&y)) } else { (x, y) };
    let wanted = vec![y.tensor()];
    let padding: AttributeValue = if how.is_empty() { padding.into() } else { how.into() };
    let name = format!(
        "{:?} by {:?} stride {stride:?} padding {padding:?} dilation {dilation:?}",
        x.dims, w.dims
    );
    let overload = if how.is_empty() { "" } else { ".padding" };
    let op = Op {
        kind: format!("aten::conv{spatial}d{overload}"),
        inputs: vec![operand("input", "x"), operand("weight", "w")],
        attributes: vec![
            attribute("stride", stride.clone()),
            attribute("padding", padding),
            attribute("dilation", dilation.clone()),
            attribute("groups", groups),
        ],
        ..Op::default()
    };
    let found =
        Box::new(move || evaluated(Dialect::Torch, op, &[("x", &x), ("w", &w)], is_open, 1));
    Some(Case { name, found, wanted, refused: &[] })
}

fn conv_transpose(random: &mut Random, is_open: bool) -> Option<Case> {
    let spatial = random.number(1, 3) as usize;
    let (dims, kernel) = (random.each(spatial, 1, 4), random.each(spatial, 1, 3));
    let (stride, dilation) = (random.each(spatial, 1, 3), random.each(spatial, 1, 2));
    let (padding, groups) = (random.each(spatial, 0, 2), random.number(1, 2));
    let more = |a: usize| random.number(0, stride[a].max(dilation[a]) - 1);
    let more: Vec<i64> = (0..spatial).map(more).collect();
    let size = |a: usize| {
        (dims[a] - 1) * stride[a] - 2 * padding[a] + dilation[a] * (kernel[a] - 1) + more[a] + 1
    };
    let sizes: Vec<i64> = (0..spatial).map(size).collect();
    if sizes.iter().any(|size| *size < 1) {
        return None;
    }
    let x = random.images(2 * groups, &dims);
    let w = random.array(&[&[2 * groups, 1], &kernel[..]].concat());
    let taps = Taps { kernel: &kernel, strides: &stride, dilations: &dilation, begins: &padding };
    let wanted = vec![transposed(&x, &w, &taps, &sizes, groups).tensor()];
    let name = format!(
        "{:?} by {:?} stride {stride:?} padding {padding:?} dilation {dilation:?} output padding {more:?}",
        x.dims, w.dims
    );
    let mut attributes = vec![
        attribute("stride", stride.clone()),
        attribute("padding", padding.clone()),
        attribute("output_padding", more.clone()),
        attribute("dilation", dilation.clone()),
        attribute("groups", groups),
    ];
    let is_general = random.flag();
    let kind = match (is_general, spatial) {
        (true, _) => {
            attributes.push(attribute("transposed", true));
            "aten::convolution".to_owned()
        }
        (false, 1) => "aten::conv_transpose1d".to_owned(),
        (false, _) => format!("aten::conv_transpose{spatial}d.input"),
    };
    let inputs = vec![operand("input", "x"), operand("weight", "w")];
    let op = Op { kind, inputs, attributes, ..Op::default() };
    let found =
        Box::new(move || evaluated(Dialect::Torch, op, &[("x", &x), ("w", &w)], is_open, 1));
    Some(Case { name, found, wanted, refused: &[] })
}

fn patches(random: &mut Random, is_open: bool, is_image: bool) -> Option<Case> {
    let (dims, kernel) = (random.each(2, 1, 6), random.each(2, 1, 3));
    let (stride, dilation) = (random.each(2, 1, 3), random.each(2, 1, 2));
    let padding = random.each(2, 0, 2);
    let count = |a: usize| {
        (dims[a] + 2 * padding[a] - dilation[a] * (kernel[a] - 1) - 1).div_euclid(stride[a]) + 1
    };
    let counts: Vec<i64> = (0..2).map(count).collect();
    if counts.iter().any(|count| *count < 1) {
        return None;
    }
    let taps = Taps { kernel: &kernel, strides: &stride, dilations: &dilation, begins: &padding };
    let mut attributes = vec![
        attribute("kernel_size", kernel.clone()),
        attribute("dilation", dilation.clone()),
        attribute("padding", padding.clone()),
        attribute("stride", stride.clone()),
    ];
    let (kind, x, wanted) = if is_image {
        let x = random.array(&[2, 2 * kernel.iter().product::<i64>(), counts.iter().product()]);
        attributes.push(attribute("output_size", dims.clone()));
        let wanted = image(&x, &taps, &counts, &dims);
        ("aten::col2im", x, wanted)
    } else {
        let x = random.array(&[2, 2, dims[0], dims[1]]);
        let wanted = columns(&x, &taps, &counts);
        ("aten::im2col", x, wanted)
    };
    let op =
        Op { kind: kind.into(), inputs: vec![operand("self", "x")], attributes, ..Op::default() };
    let name = format!(
        "{dims:?} kernel {kernel:?} stride {stride:?} padding {padding:?} dilation {dilation:?}"
    );
    let found = Box::new(move || evaluated(Dialect::Torch, op, &[("x", &x)], is_open, 1));
    Some(Case { name, found, wanted: vec![wanted.tensor()], refused: &[] })
}
