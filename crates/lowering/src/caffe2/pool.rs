//! Pools, and other operators that change the size of images.

use super::conv::{Geometry, check_fit, pads, placed};
use super::node::{Blob, Node, Outcome, Rule, expect_rank};
use crate::onnx::legacy_pads::LegacyPad;
use crate::onnx::pools::Pool;
use crate::onnx::windows::{Divisor, Rounding, spatial_axes, spatial_dims};
use crate::onnx::{Value, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    (
        "AveragePool",
        Rule::One(|node| {
            let x = node.input(0)?;
            let counts = node.flag("count_include_pad", false)?;
            pooled(node, &x, &Kind::Mean { counts })
        }),
    ),
    (
        "Int8AveragePool",
        Rule::Quantized(|node| {
            let x = node.real(0)?;
            // Pools of 8-bit integers always count pads.
            let y = pooled(node, &x, &Kind::Mean { counts: true })?;
            node.on_grid(&y)
        }),
    ),
    ("Int8MaxPool", Rule::Quantized(largest_integers)),
    (
        "MaxPool",
        Rule::One(|node| {
            let x = node.input(0)?;
            pooled(node, &x, &Kind::Max)
        }),
    ),
    ("PadImage", Rule::One(pad)),
];

/// What is made of each window.
enum Kind {
    Max,
    /// A mean, which also counts padding or not.
    Mean {
        counts: bool,
    },
}

/// The grid of the result is that of the operand.
fn largest_integers(node: &mut Node<'_>) -> Outcome<Blob> {
    let grid = node.grid_of(0)?;
    let x = node.real(0)?;
    let y = pooled(node, &x, &Kind::Max)?;
    let value = node.quantized(&y, grid)?;
    Ok(Blob { value, grid: Some(grid) })
}

fn pooled(node: &mut Node<'_>, x: &Value, kind: &Kind) -> Outcome {
    node.on_images(x, |node, x| {
        if node.flag("global_pooling", false)? {
            let kind =
                if matches!(kind, Kind::Max) { "GlobalMaxPool" } else { "GlobalAveragePool" };
            return node.call(kind, &[x], []);
        }
        let of = Geometry::of(node, spatial_axes(x)?)?;
        let kernel = of.kernel.as_ref().ok_or("expected a `kernel` of at least 1")?;
        let windows = of.windows(kernel)?;
        if windows.dilations().iter().any(|dilation| *dilation != 1) {
            return Err("Caffe2 has no dilations for pools".into());
        }
        let pads = windows.pads().list();
        if let Some((pad, kernel)) =
            pads.iter().zip(kernel.iter().cycle()).find(|(pad, kernel)| pad >= kernel)
        {
            return Err(format!("expected pads below the kernel, found {pad} for {kernel}").into());
        }
        let pool = match (of.legacy, spatial_dims(x)) {
            // How many windows there are, and what means divide by, follows from the dims.
            (Some(legacy @ LegacyPad::Caffe), None) => {
                let is_whole = matches!(kind, Kind::Mean { counts: true });
                let rounding = legacy.rounding(&windows, is_whole)?;
                Pool::new(x, windows, rounding)?
            }
            _ => {
                let (windows, padding) = placed(windows, of.legacy, x)?;
                check_fit(&windows, x)?;
                Pool::padded(x, [kernel, &windows.strides()], &padding, Rounding::Down)?
            }
        };
        match kind {
            Kind::Max => node.max_pool(x, &pool),
            Kind::Mean { counts: true } => node.mean_pool(x, &pool, Divisor::Whole),
            Kind::Mean { counts: false } => node.mean_pool(x, &pool, Divisor::Inside),
        }
    })
}

/// Pads images; `reflect` leaves out the outermost pixels.
fn pad(node: &mut Node<'_>) -> Outcome {
    const MODES: [&str; 3] = ["constant", "reflect", "edge"];
    let x = node.input(0)?;
    expect_rank(&x, 4, "images")?;
    let mode = node.text("mode", "constant")?;
    let Some(mode) = MODES.into_iter().find(|known| *known == mode) else {
        return Err(format!("expected one of {MODES:?} as `mode`, found `{mode}`").into());
    };
    let value = node.float("value", 0.0)?;
    node.on_images(&x, |node, x| {
        let pads = pads(node, 2)?;
        for axis in 0..2 {
            let sides = [&pads.begins, &pads.ends].map(|pads| pads.get(axis).copied());
            let largest = match (mode, x.size(2 + i64::from(axis == 1))?) {
                ("reflect", Some(dim)) => dim - 1,
                _ => i64::from(i32::MAX),
            };
            if let Some(pad) = sides.into_iter().flatten().find(|it| !(0..=largest).contains(it)) {
                return Err(format!("pads of {pad} do not fit: at most {largest} do").into());
            }
        }
        let pads = node.longs(&pads.of_images());
        let value = node.number(x.dtype(), value.into())?;
        node.call("Pad", &[x, &pads, &value], [text("mode", mode)])
    })
}
