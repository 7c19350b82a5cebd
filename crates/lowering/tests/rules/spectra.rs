//! Fourier transforms of PyTorch with random lengths, compared with their sums: `torch.fft` of PyTorch 2.15.

use std::f64::consts::TAU;

use libtest_mimic::Trial;
use lodstone_model::{AttributeValue, Dialect, Op, Operand, Tensor};

use super::random::Random;
use super::recorded;
use super::single::{Draw, Run, Single, list, text, trials_of};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name, draw: Draw| trials_of("spectra")("torch", name, RUN, draw);
    vec![
        trial("fft", |random| drawn(random, "fft")),
        trial("ifft", |random| drawn(random, "ifft")),
        trial("rfft", |random| drawn(random, "rfft")),
        trial("irfft", |random| drawn(random, "irfft")),
    ]
}

/// Two inputs are the parts of a complex one; the parts of complex results are their last dim.
const RUN: Run = |single| {
    single.among(Dialect::Torch, |op| {
        let operand =
            |slot: &str, name: &str| Operand { slot: slot.to_owned(), args: vec![name.to_owned()] };
        let other = |kind: &str, inputs, output| Op {
            name: kind.to_owned(),
            kind: kind.to_owned(),
            inputs,
            outputs: vec![operand("", output)],
            ..Op::default()
        };
        let (mut ops, mut op) = (Vec::new(), op);
        if op.inputs.len() == 2 {
            let parts = vec![operand("real", "x0"), operand("imag", "x1")];
            ops.push(other("aten::complex", parts, "whole"));
            op.inputs = vec![operand("self", "whole")];
        }
        let is_real = op.kind == "aten::fft_irfft";
        ops.push(op);
        if !is_real {
            ops.push(other("aten::view_as_real", vec![operand("self", "y0")], "parts"));
        }
        ops
    })
};

/// Returns the sums of a row of complex numbers, of which there are as many as the row has.
fn sums(row: &[[f64; 2]], sign: f64) -> Vec<[f64; 2]> {
    let sum = |at: usize| {
        let mut sum = [0.0; 2];
        for (place, [real, imaginary]) in row.iter().enumerate() {
            let (sin, cos) = (sign * TAU * (at * place) as f64 / row.len() as f64).sin_cos();
            sum[0] += real * cos - imaginary * sin;
            sum[1] += real * sin + imaginary * cos;
        }
        sum
    };
    (0..row.len()).map(sum).collect()
}

fn drawn(random: &mut Random, kind: &'static str) -> Option<(Single, Vec<Tensor>)> {
    let dims = [random.size(1, 3), random.size(1, 3), random.size(1, 9)];
    let axis = if random.size(0, 3) == 0 { random.size(0, 1) } else { 2 };
    let given = dims[axis];
    let has_parts = kind != "rfft" && random.flag();
    let n = random.flag().then(|| random.size(1, 12));
    let length = match kind {
        "irfft" => n.unwrap_or(2 * (given - 1)),
        _ => n.unwrap_or(given),
    };
    if length == 0 {
        return None;
    }
    let norm = random.pick(&["backward", "ortho", "forward"]);
    let real = random.tensor(&dims);
    let imaginary = has_parts.then(|| random.tensor(&dims));
    let is_inverse = kind.contains("ifft") || kind == "irfft";
    let size = length as f64;
    let factor = match (norm, is_inverse) {
        ("ortho", _) => 1.0 / size.sqrt(),
        ("backward", false) | ("forward", true) => 1.0,
        _ => 1.0 / size,
    };
    let after: usize = dims[axis + 1..].iter().product();
    let place = |row: usize, at: usize| (row / after * given + at) * after + row % after;
    let (reals, imaginaries) =
        (recorded::elements(&real), imaginary.as_ref().map(recorded::elements));
    let rows = dims.iter().product::<usize>() / given;
    let mut counts = dims;
    counts[axis] = if kind == "rfft" { length / 2 + 1 } else { length };
    let count = counts[axis];
    let mut results = vec![[0.0; 2]; rows * count];
    for row in 0..rows {
        // Rows are cut, or zeros follow.
        let element = |at: usize| match at < given {
            true => {
                let place = place(row, at);
                [reals[place], imaginaries.as_ref().map_or(0.0, |all| all[place])]
            }
            false => [0.0; 2],
        };
        let mirrored = |at: usize| match at <= length / 2 {
            // The imaginary parts of numbers that mirror themselves are not read.
            true if at == 0 || 2 * at == length => [element(at)[0], 0.0],
            true => element(at),
            false => [element(length - at)[0], -element(length - at)[1]],
        };
        let all: Vec<[f64; 2]> = match kind {
            "irfft" => (0..length).map(mirrored).collect(),
            _ => (0..length).map(element).collect(),
        };
        let sums = sums(&all, if is_inverse { 1.0 } else { -1.0 });
        for (at, sum) in sums.iter().take(count).enumerate() {
            let to = (row / after * count + at) * after + row % after;
            results[to] = sum.map(|part| part * factor);
        }
    }
    let expected = match kind {
        "irfft" => list(&results.iter().map(|it| it[0]).collect::<Vec<_>>(), &counts),
        _ => list(results.as_flattened(), &[counts[0], counts[1], counts[2], 2]),
    };
    let mut attributes = vec![
        ("dim", AttributeValue::Long(random.pick(&[axis as i64, axis as i64 - 3]))),
        ("norm", text(norm)),
    ];
    attributes.extend(n.map(|n| ("n", AttributeValue::Long(n as i64))));
    let parts = [Some(real), imaginary].into_iter().flatten();
    let inputs = ["self", "imag"].into_iter().zip(parts).collect();
    let single = Single::new(format!("aten::fft_{kind}"), inputs, attributes, vec![""]);
    Some((Single { is_dynamic: random.flag(), ..single }, vec![expected]))
}
