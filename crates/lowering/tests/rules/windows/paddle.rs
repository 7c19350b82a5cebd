//! PaddlePaddle: `phi/infermeta` (`PoolOutputSize`, `ConvOutputSize`), `phi/kernels/funcs/pooling.cc` and `im2col.cc`, and
//! `UpdatePadding` of `cpu/conv_util.h`.
//!
//! Numbers of windows are rounded towards 0, since C++ divides so: a kernel that exceeds the padded image by less than a
//! stride has one window.

mod gradients;

use std::collections::BTreeMap;

use libtest_mimic::Trial;
use lodstone_lowering::paddle::lower_op;
use lodstone_model::{Attribute, DType, Op, Tensor};
use lodstone_schema::paddle::Release;

use super::{
    Array, Case, Random, Span, Taps, attribute, columns, convolved, image, indices, operand,
    pooled, transposed, trial,
};
use crate::paddle::{Fed, Open, results};

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = gradients::trials();
    trials.extend([
        trial("paddle::pool2d", |random, open| pool(random, open, 2)),
        trial("paddle::pool3d", |random, open| pool(random, open, 3)),
        trial("paddle::adaptive_maxima", adaptive_maxima),
        trial("paddle::max_pool2d_with_index", |random, open| with_index(random, open, 2)),
        trial("paddle::max_pool3d_with_index", |random, open| with_index(random, open, 3)),
        trial("paddle::conv2d", |random, open| conv(random, open, "conv2d")),
        trial("paddle::conv3d", |random, open| conv(random, open, "conv3d")),
        trial("paddle::depthwise_conv2d", |random, open| conv(random, open, "depthwise_conv2d")),
        trial("paddle::conv2d_transpose", |random, open| transpose(random, open, false)),
        trial("paddle::depthwise_conv2d_transpose", |random, open| transpose(random, open, true)),
        trial("paddle::unfold", |random, open| patches(random, open, false)),
        trial("paddle::fold", |random, open| patches(random, open, true)),
        trial("paddle::im2sequence", sequences),
    ]);
    trials
}

/// Returns a case of an operator, whose slots are named like its variables.
fn case(
    kind: &str,
    given: Vec<(&'static str, Tensor)>,
    attributes: Vec<Attribute>,
    wanted: Vec<(&'static str, Tensor)>,
    is_open: bool,
) -> Case {
    let dims: Vec<&Vec<u64>> = given.iter().map(|(_, tensor)| &tensor.shape).collect();
    let shown: BTreeMap<&str, String> =
        attributes.iter().map(|it| (it.name.as_str(), format!("{:?}", it.value))).collect();
    let name = format!("{dims:?} {shown:?}");
    let op = Op {
        kind: kind.to_owned(),
        inputs: given.iter().map(|(name, _)| operand(name, name)).collect(),
        outputs: wanted.iter().map(|(name, _)| operand(name, name)).collect(),
        attributes,
        ..Op::default()
    };
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let found = Box::new(move || {
        let facts = Fed { feed: &given, open: if is_open { Open::First } else { Open::None } };
        let lowered = lower_op(&op, Release::WRITTEN, &facts).map_err(|error| error.to_string())?;
        let mut found = results(&lowered, &given)?;
        found.sort_by_key(|(name, _)| names.iter().position(|wanted| wanted == name));
        Ok(found.into_iter().map(|(_, tensor)| tensor).collect())
    });
    let wanted = wanted.into_iter().map(|(_, tensor)| tensor).collect();
    Case { name, found, wanted, refused: &[] }
}

fn ints(name: &str, values: &[i64]) -> Attribute {
    attribute(name, values.iter().map(|value| *value as i32).collect::<Vec<i32>>())
}

/// Padding as `paddings` and `padding_algorithm` give it.
struct Padding {
    begins: Vec<i64>,
    ends: Vec<i64>,
    is_same: bool,
    attributes: Vec<Attribute>,
}

impl Padding {
    fn random(random: &mut Random, dims: &[i64], kernel: &[i64], strides: &[i64]) -> Self {
        let spatial = dims.len();
        let algorithm =
            ["EXPLICIT", "EXPLICIT", "EXPLICIT", "SAME", "VALID"][random.number(0, 4) as usize];
        let (mut begins, mut ends) = (random.each(spatial, 0, 3), random.each(spatial, 0, 3));
        let is_paired = random.flag();
        if !is_paired {
            ends.clone_from(&begins);
        }
        let pairs: Vec<i64> =
            begins.iter().zip(&ends).flat_map(|(begin, end)| [*begin, *end]).collect();
        let attributes = vec![
            ints("paddings", if is_paired { &pairs } else { &begins }),
            attribute("padding_algorithm", algorithm),
        ];
        for a in 0..spatial {
            let count = (dims[a] + strides[a] - 1) / strides[a];
            let total = ((count - 1) * strides[a] + kernel[a] - dims[a]).max(0);
            match algorithm {
                "SAME" => (begins[a], ends[a]) = (total / 2, total - total / 2),
                "VALID" => (begins[a], ends[a]) = (0, 0),
                _ => {}
            }
        }
        Self { begins, ends, is_same: algorithm == "SAME", attributes }
    }
}

struct Pool {
    x: Array,
    is_max: bool,
    is_last: bool,
    spans: Vec<Vec<Span>>,
    attributes: Vec<Attribute>,
}

impl Pool {
    fn random(random: &mut Random, spatial: usize) -> Option<Self> {
        let (dims, size) = (random.each(spatial, 1, 6), random.each(spatial, 1, 4));
        let (strides, is_max) = (random.each(spatial, 1, 3), random.flag());
        let (is_ceil, exclusive, is_last) = (random.flag(), random.flag(), random.flag());
        let padding = Padding::random(random, &dims, &size, &strides);
        let (is_adaptive, is_global) = (random.number(0, 4) == 0, random.number(0, 7) == 0);
        // Both are refused: the kernel returns an image of the same dims.
        if is_adaptive && is_global {
            return None;
        }
        let (mut kernel, mut begins, mut ends) = (size.clone(), padding.begins, padding.ends);
        if is_adaptive || is_global {
            (begins, ends) = (vec![0; spatial], vec![0; spatial]);
        }
        if is_global {
            kernel.clone_from(&dims);
        }
        let count = |a: usize| {
            let more = if is_ceil { strides[a] - 1 } else { 0 };
            match is_adaptive {
                true => size[a],
                false => (dims[a] - kernel[a] + begins[a] + ends[a] + more) / strides[a] + 1,
            }
        };
        let counts: Vec<i64> = (0..spatial).map(|a| if is_global { 1 } else { count(a) }).collect();
        if counts.iter().any(|count| *count < 1) {
            return None;
        }
        let spans = (0..spatial).map(|a| {
            let span = |number: i64| {
                // The maximum has no adaptive windows.
                if is_adaptive && !is_max {
                    let begin = number * dims[a] / counts[a];
                    let end = ((number + 1) * dims[a] + counts[a] - 1) / counts[a];
                    return Span { places: (begin..end).collect(), divisor: end - begin };
                }
                let begin = number * strides[a] - begins[a];
                let end = (begin + kernel[a]).min(dims[a] + begins[a]);
                let whole = end - begin;
                let (begin, end) = (begin.max(0), end.min(dims[a]));
                let divisor = if exclusive { end - begin } else { whole };
                Span { places: (begin..end).collect(), divisor }
            };
            (0..counts[a]).map(span).collect()
        });
        let spans = spans.collect();
        let x = random.images(2, &dims);
        let attributes = [
            padding.attributes,
            vec![
                attribute("pooling_type", if is_max { "max" } else { "avg" }),
                ints("ksize", &size),
                ints("strides", &strides),
                attribute("ceil_mode", is_ceil),
                attribute("exclusive", exclusive),
                attribute("adaptive", is_adaptive),
                attribute("global_pooling", is_global),
                attribute("data_format", layout(is_last, spatial)),
            ],
        ];
        Some(Self { x, is_max, is_last, spans, attributes: attributes.concat() })
    }

    fn kind(&self) -> &'static str {
        if self.is_max { "max" } else { "avg" }
    }

    /// Returns an array in the layout of the operator.
    fn laid(&self, array: &Array) -> Tensor {
        if self.is_last { array.channels_last().tensor() } else { array.tensor() }
    }
}

fn layout(is_last: bool, spatial: usize) -> &'static str {
    match (is_last, spatial) {
        (false, 2) => "NCHW",
        (false, _) => "NCDHW",
        (true, 2) => "NHWC",
        (true, _) => "NDHWC",
    }
}

fn pool(random: &mut Random, is_open: bool, spatial: usize) -> Option<Case> {
    let pool = Pool::random(random, spatial)?;
    if is_open && pool.is_last {
        return None;
    }
    let (y, _) = pooled(&pool.x, &pool.spans, pool.kind(), f32::MIN);
    let (x, y) = (pool.laid(&pool.x), pool.laid(&y));
    Some(case(
        &format!("pool{spatial}d"),
        vec![("X", x)],
        pool.attributes,
        vec![("Out", y)],
        is_open,
    ))
}

/// Only the number of windows is that of an adaptive pool.
fn adaptive_maxima(random: &mut Random, is_open: bool) -> Option<Case> {
    let spatial = random.number(2, 3) as usize;
    let adaptive = attribute("adaptive", true);
    // One of five pools is adaptive, and every other one has maxima.
    let mut pools = (0..100).filter_map(|_| Pool::random(random, spatial));
    let pool = pools.find(|pool| pool.is_max && pool.attributes.contains(&adaptive))?;
    if pool.is_last {
        return None;
    }
    let (y, _) = pooled(&pool.x, &pool.spans, "max", f32::MIN);
    let (given, wanted) = (vec![("X", pool.x.tensor())], vec![("Out", y.tensor())]);
    Some(case(&format!("pool{spatial}d"), given, pool.attributes, wanted, is_open))
}

/// The windows of a pool of maxima, whose places are the other result.
struct Indexed {
    x: Array,
    spans: Vec<Vec<Span>>,
    attributes: Vec<Attribute>,
}

impl Indexed {
    fn random(random: &mut Random, spatial: usize) -> Option<Self> {
        let (dims, mut kernel) = (random.each(spatial, 1, 6), random.each(spatial, 1, 4));
        let strides = random.each(spatial, 1, 3);
        let mut pads: Vec<i64> = kernel.iter().map(|kernel| random.number(0, kernel - 1)).collect();
        let is_global = random.number(0, 7) == 0;
        let attributes = vec![
            ints("ksize", &kernel),
            ints("strides", &strides),
            ints("paddings", &pads),
            attribute("global_pooling", is_global),
        ];
        if is_global {
            (kernel, pads) = (dims.clone(), vec![0; spatial]);
        }
        if (0..spatial).any(|a| dims[a] + 2 * pads[a] < kernel[a]) {
            return None;
        }
        let spans = (0..spatial).map(|a| {
            let span = |number: i64| {
                let begin = number * strides[a] - pads[a];
                let (begin, end) = (begin.max(0), (begin + kernel[a]).min(dims[a]));
                Span { places: (begin..end).collect(), divisor: 1 }
            };
            (0..(dims[a] - kernel[a] + 2 * pads[a]) / strides[a] + 1).map(span).collect()
        });
        Some(Self { x: random.images(2, &dims), spans: spans.collect(), attributes })
    }
}

fn with_index(random: &mut Random, is_open: bool, spatial: usize) -> Option<Case> {
    let Indexed { x, spans, attributes } = Indexed::random(random, spatial)?;
    if is_open {
        return None;
    }
    let (y, places) = pooled(&x, &spans, "max", f32::MIN);
    let wanted = vec![("Out", y.tensor()), ("Mask", places.integers(DType::Int32))];
    let kind = format!("max_pool{spatial}d_with_index");
    Some(case(&kind, vec![("X", x.tensor())], attributes, wanted, false))
}

struct Conv {
    x: Array,
    w: Array,
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    begins: Vec<i64>,
    counts: Vec<i64>,
    groups: i64,
    is_last: bool,
    attributes: Vec<Attribute>,
}

impl Conv {
    fn random(random: &mut Random, kind: &str) -> Option<Self> {
        let spatial = if kind.contains("3d") { 3 } else { 2 };
        let (dims, kernel) = (random.each(spatial, 1, 6), random.each(spatial, 1, 3));
        let (strides, mut dilations) = (random.each(spatial, 1, 3), random.each(spatial, 1, 2));
        let padding = Padding::random(random, &dims, &kernel, &strides);
        let (groups, is_last) = (random.number(1, 2), random.flag());
        // The channels of a group.
        let each = if kind.starts_with("depthwise") { 1 } else { 2 };
        let attributes = [
            padding.attributes,
            vec![
                ints("strides", &strides),
                ints("dilations", &dilations),
                attribute("groups", groups as i32),
                attribute("data_format", layout(is_last, spatial)),
            ],
        ];
        if padding.is_same {
            dilations = vec![1; spatial];
        }
        let count = |a: usize| {
            let reach = dilations[a] * (kernel[a] - 1) + 1;
            (dims[a] + padding.begins[a] + padding.ends[a] - reach) / strides[a] + 1
        };
        let counts: Vec<i64> = (0..spatial).map(count).collect();
        if counts.iter().any(|count| *count < 1) {
            return None;
        }
        Some(Self {
            x: random.images(each * groups, &dims),
            w: random.array(&[&[2 * groups, each], &kernel[..]].concat()),
            kernel,
            strides,
            dilations,
            begins: padding.begins,
            counts,
            groups,
            is_last,
            attributes: attributes.concat(),
        })
    }

    fn taps(&self) -> Taps<'_> {
        let (kernel, strides) = (&self.kernel, &self.strides);
        Taps { kernel, strides, dilations: &self.dilations, begins: &self.begins }
    }

    fn laid(&self, array: &Array) -> Tensor {
        if self.is_last { array.channels_last().tensor() } else { array.tensor() }
    }
}

fn conv(random: &mut Random, is_open: bool, kind: &str) -> Option<Case> {
    let conv = Conv::random(random, kind)?;
    // Of unknown dims, none is known to be too small.
    let fits = |a: usize| {
        let reach = conv.dilations[a] * (conv.kernel[a] - 1) + 1;
        conv.counts[a] > 1 || conv.x.dims[a + 2] + conv.begins[a] >= reach
    };
    if is_open && (conv.is_last || !(0..conv.kernel.len()).all(fits)) {
        return None;
    }
    let y = convolved(&conv.x, &conv.w, &conv.taps(), &conv.counts, conv.groups);
    let (x, y) = (conv.laid(&conv.x), conv.laid(&y));
    let given = vec![("Input", x), ("Filter", conv.w.tensor())];
    Some(case(kind, given, conv.attributes, vec![("Output", y)], is_open))
}

/// A transposed convolution of images of two spatial dims.
struct Transposed {
    x: Array,
    w: Array,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    begins: Vec<i64>,
    sizes: Vec<i64>,
    groups: i64,
    is_last: bool,
    attributes: Vec<Attribute>,
}

impl Transposed {
    fn random(random: &mut Random, is_depthwise: bool) -> Option<Self> {
        let (dims, kernel) = (random.each(2, 1, 4), random.each(2, 1, 3));
        let (strides, mut dilations) = (random.each(2, 1, 3), random.each(2, 1, 2));
        let padding = Padding::random(random, &dims, &kernel, &strides);
        let (groups, is_last) = (random.number(1, 2), random.flag());
        let mut attributes = [
            padding.attributes,
            vec![
                ints("strides", &strides),
                ints("dilations", &dilations),
                attribute("groups", groups as i32),
                attribute("data_format", layout(is_last, 2)),
            ],
        ]
        .concat();
        if padding.is_same {
            dilations = vec![1; 2];
        }
        let least = |a: usize| {
            let reach = dilations[a] * (kernel[a] - 1) + 1;
            (dims[a] - 1) * strides[a] - padding.begins[a] - padding.ends[a] + reach
        };
        let more: Vec<i64> = (0..2).map(|a| random.number(0, strides[a] - 1)).collect();
        let how = random.number(0, 2);
        let size = |a: usize| least(a) + if how == 0 { 0 } else { more[a] };
        let sizes: Vec<i64> = (0..2).map(size).collect();
        match how {
            1 => attributes.push(ints("output_padding", &more)),
            2 => attributes.push(ints("output_size", &sizes)),
            _ => {}
        }
        if (0..2).any(|a| least(a) < 1) {
            return None;
        }
        let each = if is_depthwise { 1 } else { 2 };
        let x = random.images(each * groups, &dims);
        let w = random.array(&[&[each * groups, 1], &kernel[..]].concat());
        let begins = padding.begins;
        Some(Self { x, w, strides, dilations, begins, sizes, groups, is_last, attributes })
    }

    fn taps(&self) -> Taps<'_> {
        let (kernel, strides) = (&self.w.dims[2..], &self.strides[..]);
        Taps { kernel, strides, dilations: &self.dilations, begins: &self.begins }
    }

    fn laid(&self, array: &Array) -> Tensor {
        if self.is_last { array.channels_last().tensor() } else { array.tensor() }
    }
}

fn transpose(random: &mut Random, is_open: bool, is_depthwise: bool) -> Option<Case> {
    let conv = Transposed::random(random, is_depthwise)?;
    if is_open && conv.is_last {
        return None;
    }
    let y = transposed(&conv.x, &conv.w, &conv.taps(), &conv.sizes, conv.groups);
    let (x, y) = (conv.laid(&conv.x), conv.laid(&y));
    let given = vec![("Input", x), ("Filter", conv.w.tensor())];
    let kind = if is_depthwise { "depthwise_conv2d_transpose" } else { "conv2d_transpose" };
    Some(case(kind, given, conv.attributes, vec![("Output", y)], is_open))
}

fn patches(random: &mut Random, is_open: bool, is_image: bool) -> Option<Case> {
    let (dims, kernel) = (random.each(2, 1, 6), random.each(2, 1, 3));
    let (strides, dilations) = (random.each(2, 1, 3), random.each(2, 1, 2));
    let pads = random.each(4, 0, 2);
    let count = |a: usize| {
        let room = dims[a] + pads[a] + pads[a + 2] - dilations[a] * (kernel[a] - 1) - 1;
        // `fold` checks that the columns fit.
        if is_image && room < 0 { 0 } else { room / strides[a] + 1 }
    };
    let counts: Vec<i64> = (0..2).map(count).collect();
    if counts.iter().any(|count| *count < 1) {
        return None;
    }
    let taps =
        Taps { kernel: &kernel, strides: &strides, dilations: &dilations, begins: &pads[..2] };
    let mut attributes = vec![
        ints("kernel_sizes", &kernel),
        ints("strides", &strides),
        ints("dilations", &dilations),
        ints("paddings", &pads),
    ];
    if is_image {
        let x = random.array(&[2, 2 * kernel.iter().product::<i64>(), counts.iter().product()]);
        attributes.push(ints("output_sizes", &dims));
        let y = image(&x, &taps, &counts, &dims);
        return Some(case(
            "fold",
            vec![("X", x.tensor())],
            attributes,
            vec![("Y", y.tensor())],
            false,
        ));
    }
    let x = random.array(&[2, 2, dims[0], dims[1]]);
    let y = columns(&x, &taps, &counts);
    Some(case("unfold", vec![("X", x.tensor())], attributes, vec![("Y", y.tensor())], is_open))
}

/// Patches of an image as rows: `[windows, channels * taps]`.
fn sequences(random: &mut Random, is_open: bool) -> Option<Case> {
    let (dims, kernel, strides) =
        (random.each(2, 1, 6), random.each(2, 1, 3), random.each(2, 1, 3));
    let pads = random.each(4, 0, 2);
    let count = |a: usize| {
        let room = dims[a] + pads[a] + pads[a + 2] - kernel[a];
        room / strides[a] + 1
    };
    let counts: Vec<i64> = (0..2).map(count).collect();
    if is_open || (0..2).any(|a| dims[a] + pads[a] + pads[a + 2] < kernel[a]) {
        return None;
    }
    let dilations = [1, 1];
    let taps =
        Taps { kernel: &kernel, strides: &strides, dilations: &dilations, begins: &pads[..2] };
    let x = random.array(&[2, 2, dims[0], dims[1]]);
    let y = columns(&x, &taps, &counts);
    let mut rows = Array::zeros(&[2 * y.dims[2], y.dims[1]]);
    for index in indices(&y.dims) {
        rows.add(&[index[0] * y.dims[2] + index[2], index[1]], y.get(&index));
    }
    let attributes =
        vec![ints("kernels", &kernel), ints("strides", &strides), ints("paddings", &pads)];
    Some(case(
        "im2sequence",
        vec![("X", x.tensor())],
        attributes,
        vec![("Out", rows.tensor())],
        false,
    ))
}
