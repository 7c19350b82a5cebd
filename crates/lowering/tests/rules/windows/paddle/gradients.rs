//! Gradients of pools and convolutions: an element gets those of the windows that it is in.

use libtest_mimic::Trial;
use lodstone_model::DType;
use lodstone_schema::numbers::length;

use super::super::{Array, Case, Random, Span, indices, is_inside, pooled, trial};
use super::{Conv, Indexed, Pool, Transposed, case, convolved};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("paddle::pool2d_grad", |random, _| pool(random, 2)),
        trial("paddle::pool3d_grad", |random, _| pool(random, 3)),
        trial("paddle::max_pool2d_with_index_grad", |random, _| with_index(random, 2)),
        trial("paddle::max_pool3d_with_index_grad", |random, _| with_index(random, 3)),
        trial("paddle::conv2d_grad", |random, _| conv(random, "conv2d")),
        trial("paddle::conv3d_grad", |random, _| conv(random, "conv3d")),
        trial("paddle::depthwise_conv2d_grad", |random, _| conv(random, "depthwise_conv2d")),
        trial("paddle::conv2d_transpose_grad", |random, _| transpose(random, false)),
        trial("paddle::depthwise_conv2d_transpose_grad", |random, _| transpose(random, true)),
    ]
}

/// An element of a mean gets its share of the gradient, the first maximum all of it.
fn pool(random: &mut Random, spatial: usize) -> Option<Case> {
    let pool = Pool::random(random, spatial)?;
    let (y, places) = pooled(&pool.x, &pool.spans, pool.kind(), f32::MIN);
    let given = random.array(&y.dims);
    let mut wanted = Array::zeros(&pool.x.dims);
    for index in indices(&y.dims) {
        if pool.is_max {
            scatter(&mut wanted, &places, &index, given.get(&index));
            continue;
        }
        let own: Vec<&Span> =
            index[2..].iter().zip(&pool.spans).map(|(at, all)| &all[*at as usize]).collect();
        let divisor = own.iter().map(|span| span.divisor).product::<i64>();
        let sizes: Vec<i64> = own.iter().map(|span| length(span.places.len())).collect();
        for inner in indices(&sizes) {
            let at = inner.iter().zip(&own).map(|(at, span)| span.places[*at as usize]);
            let at: Vec<i64> = index[..2].iter().copied().chain(at).collect();
            wanted.add(&at, given.get(&index) / divisor as f32);
        }
    }
    let given =
        vec![("X", pool.laid(&pool.x)), ("Out", pool.laid(&y)), ("Out@GRAD", pool.laid(&given))];
    let wanted = vec![("X@GRAD", pool.laid(&wanted))];
    Some(case(&format!("pool{spatial}d_grad"), given, pool.attributes, wanted, false))
}

/// Adds a gradient to the element at the place of a window, if it has one.
fn scatter(wanted: &mut Array, places: &Array, index: &[i64], given: f32) {
    let place = places.get(index) as i64;
    let image = index[0] * wanted.dims[1] + index[1];
    if place >= 0 {
        let inner = wanted.dims[2..].iter().product::<i64>();
        wanted.values[(image * inner + place) as usize] += given;
    }
}

fn with_index(random: &mut Random, spatial: usize) -> Option<Case> {
    let Indexed { x, spans, attributes } = Indexed::random(random, spatial)?;
    let (y, places) = pooled(&x, &spans, "max", f32::MIN);
    let given = random.array(&y.dims);
    let mut wanted = Array::zeros(&x.dims);
    for index in indices(&y.dims) {
        scatter(&mut wanted, &places, &index, given.get(&index));
    }
    let given = vec![
        ("X", x.tensor()),
        ("Mask", places.integers(DType::Int32)),
        ("Out@GRAD", given.tensor()),
    ];
    let kind = format!("max_pool{spatial}d_with_index_grad");
    Some(case(&kind, given, attributes, vec![("X@GRAD", wanted.tensor())], false))
}

fn conv(random: &mut Random, kind: &str) -> Option<Case> {
    let conv = Conv::random(random, kind)?;
    let y = convolved(&conv.x, &conv.w, &conv.taps(), &conv.counts, conv.groups);
    let given = random.array(&y.dims);
    let (mut by_input, mut by_filter) = (Array::zeros(&conv.x.dims), Array::zeros(&conv.w.dims));
    let (own, filters) = (conv.w.dims[1], conv.w.dims[0] / conv.groups);
    for index in indices(&y.dims) {
        for tap in indices(&conv.kernel) {
            let place = conv.taps().place(&index[2..], &tap);
            if !is_inside(&place, &conv.x.dims[2..]) {
                continue;
            }
            for channel in 0..own {
                let at = [&[index[0], index[1] / filters * own + channel], &place[..]].concat();
                let weight = [&[index[1], channel], &tap[..]].concat();
                by_input.add(&at, given.get(&index) * conv.w.get(&weight));
                by_filter.add(&weight, given.get(&index) * conv.x.get(&at));
            }
        }
    }
    let wanted = vec![("Input@GRAD", conv.laid(&by_input)), ("Filter@GRAD", by_filter.tensor())];
    let (x, given) = (conv.laid(&conv.x), conv.laid(&given));
    let given = vec![("Input", x), ("Filter", conv.w.tensor()), ("Output@GRAD", given)];
    Some(case(&format!("{kind}_grad"), given, conv.attributes, wanted, false))
}

fn transpose(random: &mut Random, is_depthwise: bool) -> Option<Case> {
    let conv = Transposed::random(random, is_depthwise)?;
    let dims = [&[conv.x.dims[0], conv.w.dims[1] * conv.groups], &conv.sizes[..]].concat();
    let given = random.array(&dims);
    let (mut by_input, mut by_filter) = (Array::zeros(&conv.x.dims), Array::zeros(&conv.w.dims));
    let (own, channels) = (conv.w.dims[1], conv.x.dims[1] / conv.groups);
    for index in indices(&conv.x.dims) {
        for tap in indices(&conv.w.dims[2..]) {
            let place = conv.taps().place(&index[2..], &tap);
            if !is_inside(&place, &conv.sizes) {
                continue;
            }
            for filter in 0..own {
                let at = [&[index[0], index[1] / channels * own + filter], &place[..]].concat();
                let weight = [&[index[1], filter], &tap[..]].concat();
                by_input.add(&index, given.get(&at) * conv.w.get(&weight));
                by_filter.add(&weight, given.get(&at) * conv.x.get(&index));
            }
        }
    }
    let wanted = vec![("Input@GRAD", conv.laid(&by_input)), ("Filter@GRAD", by_filter.tensor())];
    let (x, given) = (conv.laid(&conv.x), conv.laid(&given));
    let given = vec![("Input", x), ("Filter", conv.w.tensor()), ("Output@GRAD", given)];
    let kind = if is_depthwise { "depthwise_conv2d_transpose" } else { "conv2d_transpose" };
    Some(case(&format!("{kind}_grad"), given, conv.attributes, wanted, false))
}
