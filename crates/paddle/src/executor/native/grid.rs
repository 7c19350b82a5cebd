//! The gradient of `grid_sampler`, with respect to the pixels and the sampled coordinates.
//!
//! Source of truth: PaddlePaddle 2.6.2's CPU kernels, and their results.

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::paddle::attribute;
use lodstone_schema::places::{at, at_mut};

use super::sequences::{made, numbers, part, part_mut, singles, zeros};
use super::{Outcome, Run, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

pub(super) const OPERATORS: &[(&str, Run)] = &[("grid_sampler_grad", gradient)];

/// The padding around an image.
#[derive(Clone, Copy)]
enum Around {
    Zeros,
    Border,
    Reflection,
}

/// The sampling mode.
struct Sampling {
    around: Around,
    /// Whether -1 and 1 are the centers of the outermost pixels, rather than their edges.
    corners: bool,
    /// Whether the nearest pixel is taken, rather than a bilinear interpolation.
    nearest: bool,
}

impl Sampling {
    fn of(op: &Op) -> Outcome<Self> {
        let text = |name: &str| match attribute(op, name) {
            Some(AttributeValue::String(text)) => text.to_string(),
            _ => String::new(),
        };
        let around = match text("padding_mode").as_str() {
            "zeros" => Around::Zeros,
            "border" => Around::Border,
            "reflection" => Around::Reflection,
            other => return Err(format!("unknown `padding_mode` `{other}`").into()),
        };
        let nearest = match text("mode").as_str() {
            "bilinear" => false,
            "nearest" => true,
            other => return Err(format!("unknown `mode` `{other}`").into()),
        };
        let corners =
            matches!(attribute(op, "align_corners"), Some(AttributeValue::Bool(true)) | None);
        Ok(Self { around, corners, nearest })
    }

    /// Converts a coordinate from -1 to 1 to a pixel position; returns it with its derivative.
    #[expect(clippy::cast_precision_loss, reason = "as the kernel computes")]
    fn place(&self, coordinate: f32, pixels: usize) -> (f32, f32) {
        let (size, last) = (pixels as f32, pixels.saturating_sub(1) as f32);
        let (place, slope) = match self.corners {
            true => ((coordinate + 1.0) * last / 2.0, last / 2.0),
            false => (((coordinate + 1.0) * size - 1.0) / 2.0, size / 2.0),
        };
        let inside = |place: f32, slope: f32| {
            (place.clamp(0.0, last), if (0.0..=last).contains(&place) { slope } else { 0.0 })
        };
        match self.around {
            Around::Zeros => (place, slope),
            Around::Border => inside(place, slope),
            Around::Reflection => {
                let (first, twice) =
                    if self.corners { (0.0, 2.0 * last) } else { (-0.5, 2.0 * size) };
                let away = (place - first).abs();
                let rest = if twice > 0.0 { away - (away / twice).floor() * twice } else { 0.0 };
                let turns = (rest > twice - rest) != (place < first);
                inside(rest.min(twice - rest) + first, if turns { -slope } else { slope })
            }
        }
    }
}

/// The index of a pixel, its weight, and the derivative of the weight; the index is `None` outside of the image.
type Tap = (Option<usize>, f32, f32);

fn pixel(place: f32, pixels: usize) -> Option<usize> {
    #[expect(clippy::cast_possible_truncation, reason = "the value has no fraction")]
    let number = place as i64;
    usize::try_from(number).ok().filter(|number| *number < pixels && place.is_finite())
}

fn taps(place: f32, pixels: usize) -> [Tap; 2] {
    let before = place.floor();
    let share = place - before;
    [(pixel(before, pixels), 1.0 - share, -1.0), (pixel(before + 1.0, pixels), share, 1.0)]
}

fn gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let sampling = Sampling::of(op)?;
    let (x, grid) = (frame.tensor(input(step, "X")?)?, frame.tensor(input(step, "Grid")?)?);
    let sizes = |shape: &[u64]| -> Option<[usize; 4]> {
        let dims: Option<Vec<usize>> = shape.iter().map(|dim| usize::try_from(*dim).ok()).collect();
        dims?.try_into().ok()
    };
    let (Some([examples, channels, rows, columns]), Some([batch, high, wide, 2])) =
        (sizes(&x.shape), sizes(&grid.shape))
    else {
        let (x, grid) = (&x.shape, &grid.shape);
        return Err(format!("expected images and a grid, found {x:?} and {grid:?}").into());
    };
    if examples != batch {
        return Err(format!("expected a grid for {examples} images, found {batch}").into());
    }
    let of_x_like = (x.shape.clone(), x.lod.clone());
    let of_grid_like = (grid.shape.clone(), grid.lod.clone());
    let (x, grid) = (singles(x)?, singles(grid)?);
    let (picture, points) = (rows.saturating_mul(columns), high.saturating_mul(wide));
    let planes = examples.saturating_mul(channels);
    let given = numbers(frame, step, "Output@GRAD", planes.saturating_mul(points))?;
    let (mut of_x, mut of_grid) = (zeros(frame, x.len())?, zeros(frame, grid.len())?);
    for (number, coordinate) in grid.as_chunks::<2>().0.iter().enumerate() {
        let (example, point) = (number / points.max(1), number % points.max(1));
        let [across, down] = *coordinate;
        let (across, across_slope) = sampling.place(across, columns);
        let (down, down_slope) = sampling.place(down, rows);
        let nearest = |place: f32, pixels| [(pixel(place.round(), pixels), 1.0, 0.0); 1];
        let (lines, places): (Vec<Tap>, Vec<Tap>) = match sampling.nearest {
            true => (nearest(down, rows).to_vec(), nearest(across, columns).to_vec()),
            false => (taps(down, rows).to_vec(), taps(across, columns).to_vec()),
        };
        let mut moved = [0.0_f32; 2];
        for channel in example * channels..(example + 1) * channels {
            let counts = at(part(&given, channel, points)?, point)?;
            let (seen, sums) =
                (part(&x, channel, picture)?, part_mut(&mut of_x, channel, picture)?);
            for (line, line_share, line_slope) in &lines {
                for (place, share, slope) in &places {
                    let Some((line, place)) = line.zip(*place) else { continue };
                    let place = line * columns + place;
                    let value = at(seen, place)?;
                    moved[0] += counts * value * slope * line_share;
                    moved[1] += counts * value * share * line_slope;
                    *at_mut(sums, place)? += counts * share * line_share;
                }
            }
        }
        let [across, down] = moved;
        let made = [across * across_slope, down * down_slope];
        part_mut(&mut of_grid, number, 2)?.iter_mut().zip(made).for_each(|(to, made)| *to = made);
    }
    for (slot, values, (shape, lod)) in
        [("X@GRAD", of_x, of_x_like), ("Grid@GRAD", of_grid, of_grid_like)]
    {
        if let Ok(slot) = output(step, slot) {
            frame.make(slot, made(values, shape, lod))?;
        }
    }
    Ok(())
}
