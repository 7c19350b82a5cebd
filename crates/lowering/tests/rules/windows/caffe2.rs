//! Caffe2: `conv_pool_op_base.h` (`ComputeSizeAndPad`), `pool_op.cc`, `conv_op_impl.h`, `conv_transpose_unpool_op_base.h`.

use libtest_mimic::Trial;
use lodstone_model::{Attribute, Dialect, Op, Operand};

use super::{
    Array, Case, Random, Span, Taps, attribute, convolved, evaluated, pooled, transposed, trial,
};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("caffe2::Conv", convolution),
        trial("caffe2::ConvTranspose", deconvolution),
        trial("caffe2::pools", pooling),
        trial("caffe2::global_pooling", global),
    ]
}

fn op(kind: &str, inputs: &[&str], attributes: Vec<Attribute>) -> Op {
    let args = inputs.iter().map(|name| (*name).to_owned()).collect();
    let inputs = vec![Operand { slot: String::new(), args }];
    Op { kind: kind.to_owned(), inputs, attributes, ..Op::default() }
}

/// The windows along an axis: how many there are, and the padding.
struct Line {
    count: i64,
    begin: i64,
    end: i64,
}

/// Returns the windows along an axis; `None` for what Caffe2 rejects, or what it computes from elements beyond the image.
fn line(
    dim: i64,
    [kernel, stride, dilation]: [i64; 3],
    (begin, end): (i64, i64),
    legacy: i64,
) -> Option<Line> {
    let reach = dilation * (kernel - 1) + 1;
    let count = |begin: i64, end: i64| {
        let room = dim + begin + end - reach;
        (room >= 0).then(|| room / stride + 1)
    };
    let (begin, end) = match legacy {
        0 => (begin, end),
        1 => (0, 0),
        2 => {
            let target = (dim + stride - 1) / stride;
            let needed = (target - 1) * stride + kernel - dim;
            (needed >= 0).then_some((needed / 2, needed - needed / 2))?
        }
        _ => {
            count(begin, begin)?;
            let room = (dim + 2 * begin - kernel) as f32;
            let mut steps = (room / stride as f32 + 1.0).ceil() as i64;
            if begin > 0 && (steps - 1) * stride >= dim + begin {
                steps -= 1;
            }
            // One that begins behind the image has no elements.
            ((steps - 1) * stride - begin < dim).then_some(())?;
            let standard = count(begin, begin)?;
            (begin, begin + stride * (steps - standard).max(0))
        }
    };
    Some(Line { count: count(begin, end)?, begin, end })
}

/// Spells a number for each axis as a list; those of images also as one, or by axis.
fn spelled(random: &mut Random, name: &str, values: &[i64]) -> Vec<Attribute> {
    match random.number(0, 2) {
        0 if values.len() == 2 && values[0] == values[1] => vec![attribute(name, values[0])],
        1 if values.len() == 2 => {
            let ends = ["h", "w"].into_iter().zip(values);
            ends.map(|(end, value)| attribute(&format!("{name}_{end}"), *value)).collect()
        }
        _ => vec![attribute(&format!("{name}s"), values.to_vec())],
    }
}

/// Spells pads: those at the begins of all axes, and those at the ends.
fn spelled_pads(random: &mut Random, pads: &[i64]) -> Vec<Attribute> {
    match random.number(0, 2) {
        0 if pads.len() == 4 && pads.iter().all(|pad| *pad == pads[0]) => {
            vec![attribute("pad", pads[0])]
        }
        1 if pads.len() == 4 => {
            let sides = ["pad_t", "pad_l", "pad_b", "pad_r"].into_iter().zip(pads);
            sides.map(|(side, pad)| attribute(side, *pad)).collect()
        }
        _ => vec![attribute("pads", pads.to_vec())],
    }
}

/// Random arguments of windows, and the windows that follow.
struct Drawn {
    attributes: Vec<Attribute>,
    lines: Vec<Line>,
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    is_last: bool,
    legacy: i64,
}

impl Drawn {
    fn of(random: &mut Random, dims: &[i64], is_pool: bool, is_open: bool) -> Option<Self> {
        let spatial = dims.len();
        let (kernel, strides) = (random.each(spatial, 1, 4), random.each(spatial, 1, 3));
        let dilations = if is_pool { vec![1; spatial] } else { random.each(spatial, 1, 2) };
        let legacy = if spatial == 2 { random.number(0, 3) } else { 0 };
        let most = |kernel: &i64| if is_pool { kernel - 1 } else { 3 };
        let pads = |random: &mut Random| -> Vec<i64> {
            kernel.iter().map(|kernel| random.number(0, most(kernel))).collect()
        };
        let begins = if legacy == 1 || legacy == 2 { vec![0; spatial] } else { pads(random) };
        let ends = if legacy == 0 { pads(random) } else { begins.clone() };
        if legacy > 1 && dilations.iter().any(|dilation| *dilation != 1) {
            return None;
        }
        let lines = (0..spatial).map(|a| {
            let window = [kernel[a], strides[a], dilations[a]];
            line(dims[a], window, (begins[a], ends[a]), legacy)
        });
        let lines: Vec<Line> = lines.collect::<Option<_>>()?;
        let is_last = !is_open && spatial == 2 && random.flag();
        let mut attributes = spelled(random, "kernel", &kernel);
        attributes.extend(spelled(random, "stride", &strides));
        attributes.push(attribute("order", if is_last { "NHWC" } else { "NCHW" }));
        match legacy {
            1 | 2 => {}
            _ => attributes.extend(spelled_pads(random, &[begins, ends].concat())),
        }
        if legacy > 0 {
            attributes.push(attribute("legacy_pad", legacy));
        }
        if !is_pool {
            attributes.extend(spelled(random, "dilation", &dilations));
        }
        Some(Self { attributes, lines, kernel, strides, dilations, is_last, legacy })
    }

    fn counts(&self) -> Vec<i64> {
        self.lines.iter().map(|line| line.count).collect()
    }

    /// Returns arrays with the channels where the arguments have them.
    fn placed<const N: usize>(&self, arrays: [Array; N]) -> [Array; N] {
        if self.is_last { arrays.map(|array| array.channels_last()) } else { arrays }
    }
}

fn convolution(random: &mut Random, is_open: bool) -> Option<Case> {
    let spatial = random.number(1, 3) as usize;
    let dims = random.each(spatial, 1, 6);
    let mut drawn = Drawn::of(random, &dims, false, is_open)?;
    let groups = random.number(1, 2);
    let x = random.images(2 * groups, &dims);
    let w = random.array(&[&[2 * groups, 2], &drawn.kernel[..]].concat());
    let begins: Vec<i64> = drawn.lines.iter().map(|line| line.begin).collect();
    let taps = Taps {
        kernel: &drawn.kernel,
        strides: &drawn.strides,
        dilations: &drawn.dilations,
        begins: &begins,
    };
    let y = convolved(&x, &w, &taps, &drawn.counts(), groups);
    drawn.attributes.push(attribute("group", groups));
    let name = format!("Conv {:?} by {:?} {:?}", x.dims, w.dims, drawn.attributes);
    let [x, w, y] = drawn.placed([x, w, y]);
    let op = op("Conv", &["x", "w"], drawn.attributes);
    let found =
        Box::new(move || evaluated(Dialect::Caffe2, op, &[("x", &x), ("w", &w)], is_open, 1));
    Some(Case { name, found, wanted: vec![y.tensor()], refused: &[] })
}

fn deconvolution(random: &mut Random, is_open: bool) -> Option<Case> {
    let (dims, kernel) = (random.each(2, 1, 4), random.each(2, 1, 3));
    let (stride, pads) = (random.each(2, 1, 3), random.each(4, 0, 2));
    let adj: Vec<i64> = stride.iter().map(|stride| random.number(0, stride - 1)).collect();
    let size = |a: usize| stride[a] * (dims[a] - 1) + kernel[a] + adj[a] - pads[a] - pads[a + 2];
    let sizes = [size(0), size(1)];
    let is_last = !is_open && random.flag();
    let groups = if is_last { 1 } else { random.number(1, 2) };
    if sizes.iter().any(|size| *size < 1) {
        return None;
    }
    let x = random.images(2 * groups, &dims);
    let w = random.array(&[&[2 * groups, 3], &kernel[..]].concat());
    let taps = Taps { kernel: &kernel, strides: &stride, dilations: &[1, 1], begins: &pads[..2] };
    let y = transposed(&x, &w, &taps, &sizes, groups);
    let mut attributes = spelled(random, "kernel", &kernel);
    attributes.extend(spelled(random, "stride", &stride));
    attributes.extend(spelled(random, "adj", &adj));
    attributes.extend(spelled_pads(random, &pads));
    attributes.push(attribute("group", groups));
    attributes.push(attribute("order", if is_last { "NHWC" } else { "NCHW" }));
    let name = format!("ConvTranspose {:?} by {:?} {attributes:?}", x.dims, w.dims);
    let (x, w, y) = match is_last {
        true => (x.channels_last(), w.channels_last(), y.channels_last()),
        false => (x, w, y),
    };
    let op = op("ConvTranspose", &["x", "w"], attributes);
    let found =
        Box::new(move || evaluated(Dialect::Caffe2, op, &[("x", &x), ("w", &w)], is_open, 1));
    Some(Case { name, found, wanted: vec![y.tensor()], refused: &["crops more than"] })
}

fn pooling(random: &mut Random, is_open: bool) -> Option<Case> {
    let spatial = random.number(1, 3) as usize;
    let dims = random.each(spatial, 1, 6);
    let mut drawn = Drawn::of(random, &dims, true, is_open)?;
    let (is_max, counts_padding) = (random.flag(), random.flag());
    let spans = (0..spatial).map(|a| {
        let Line { count, begin, end } = &drawn.lines[a];
        let span = |number: i64| {
            let first = number * drawn.strides[a] - begin;
            let behind = (first + drawn.kernel[a]).min(dims[a] + end);
            let whole = behind - first;
            let (first, behind) = (first.max(0), behind.min(dims[a]));
            let divisor = if counts_padding { whole } else { behind - first };
            Span { places: (first..behind).collect(), divisor }
        };
        (0..*count).map(span).collect()
    });
    let spans: Vec<Vec<Span>> = spans.collect();
    let x = random.images(2, &dims);
    let (y, _) = pooled(&x, &spans, if is_max { "max" } else { "avg" }, f32::MIN);
    let kind = if is_max { "MaxPool" } else { "AveragePool" };
    if !is_max {
        drawn.attributes.push(attribute("count_include_pad", i64::from(counts_padding)));
    }
    let name = format!("{kind} {:?} {:?}", x.dims, drawn.attributes);
    let [x, y] = drawn.placed([x, y]);
    let op = op(kind, &["x"], drawn.attributes);
    let found = Box::new(move || evaluated(Dialect::Caffe2, op, &[("x", &x)], is_open, 1));
    let refused: &[&str] = if drawn.legacy == 3 { &["behind the"] } else { &[] };
    Some(Case { name, found, wanted: vec![y.tensor()], refused })
}

fn global(random: &mut Random, is_open: bool) -> Option<Case> {
    let spatial = random.number(1, 3) as usize;
    let dims = random.each(spatial, 1, 6);
    let span = |dim: &i64| vec![Span { places: (0..*dim).collect(), divisor: *dim }];
    let spans: Vec<Vec<Span>> = dims.iter().map(span).collect();
    let (is_max, is_last) = (random.flag(), !is_open && spatial == 2 && random.flag());
    let x = random.images(2, &dims);
    let (y, _) = pooled(&x, &spans, if is_max { "max" } else { "avg" }, f32::MIN);
    let kind = if is_max { "MaxPool" } else { "AveragePool" };
    let attributes = vec![
        attribute("global_pooling", 1_i64),
        attribute("order", if is_last { "NHWC" } else { "NCHW" }),
    ];
    let name = format!("{kind} {:?} {attributes:?}", x.dims);
    let (x, y) = if is_last { (x.channels_last(), y.channels_last()) } else { (x, y) };
    let op = op(kind, &["x"], attributes);
    let found = Box::new(move || evaluated(Dialect::Caffe2, op, &[("x", &x)], is_open, 1));
    Some(Case { name, found, wanted: vec![y.tensor()], refused: &[] })
}
