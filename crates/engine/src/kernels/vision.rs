//! Image operators: sampling on grids, pooling of regions, and selection of boxes.

use lodstone_schema::Finding;

use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count, dim_at, elements, long, rows_of, whole};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::{Dense, Extreme};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("GridSample", grid_sample),
    Operator::dense("NonMaxSuppression", choose_boxes).working(16, 0),
    Operator::dense("RoiAlign", roi_align),
];

/// The maximum number of samples of all regions: each has four row indices and four weights.
const MAX_SAMPLES: usize = 1 << 24;

/// Rows of a table and their weights: one list per tap, with an entry for each result.
type Taps = Vec<(Vec<i64>, Vec<f64>)>;

/// Converts an image to a table with a row of all channels for each pixel of each example.
fn table(x: &Dense) -> Outcome<Dense> {
    let shape = x.shape();
    let mut order: Vec<usize> = (0..shape.len()).filter(|at| *at != 1).collect();
    order.push(1);
    let channels = dim_at(&shape, 1)?;
    let rows = rows_of(channels, bounded(&shape)?);
    x.permuted(&order)?.reshaped(vec![rows, channels])
}

/// Returns the weighted sum of the rows of each tap.
fn steps<'a>(table: &'a Dense, taps: &'a Taps) -> impl Iterator<Item = Outcome<Dense>> + 'a {
    taps.iter().map(|(rows, shares)| {
        let shares = Dense::numbers(shares.clone(), table.dtype(), &[shares.len(), 1])?;
        table.selected(0, rows)?.times(&shares)
    })
}

fn total(mut parts: impl Iterator<Item = Outcome<Dense>>) -> Outcome<Dense> {
    let first = parts.next().ok_or("no samples to add")??;
    parts.try_fold(first, |sum, part| sum.plus(&part?))
}

/// Converts a table of results back to an image.
fn image(rows: Dense, examples: usize, dims: &[usize]) -> Outcome<Dense> {
    let channels = dim_at(&rows.shape(), 1)?;
    let apart = [&[examples], dims, &[channels]].concat();
    let mut order: Vec<usize> = (0..apart.len()).collect();
    order.pop();
    order.insert(1, apart.len() - 1);
    rows.reshaped(apart)?.permuted(&order)
}

/// The options of grid sampling.
struct Grid {
    mode: Sampling,
    padding: Padding,
    corners: bool,
}

/// The interpolation between pixels.
#[derive(Clone, Copy)]
enum Sampling {
    Linear,
    Nearest,
    Cubic,
}

/// What is outside of the image.
#[derive(Clone, Copy)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

impl Grid {
    /// Maps the range from -1 to 1 to pixel coordinates.
    fn place(&self, x: f64, dim: usize) -> f64 {
        let dim = dim as f64;
        if self.corners { (x + 1.0) / 2.0 * (dim - 1.0) } else { ((x + 1.0) * dim - 1.0) / 2.0 }
    }

    /// Maps a coordinate in the padding to one in the image, unless the padding is zeros.
    fn inside(&self, place: f64, dim: usize) -> Option<i64> {
        let last = dim as f64 - 1.0;
        let place = match self.padding {
            Padding::Border => place.clamp(0.0, last),
            Padding::Reflection => self.reflected(place, dim).clamp(0.0, last),
            Padding::Zeros => place,
        };
        (0.0..=last).contains(&place).then_some(whole(place))
    }

    fn reflected(&self, place: f64, dim: usize) -> f64 {
        let (low, high) = match self.corners {
            true => (0.0, dim as f64 - 1.0),
            false => (-0.5, dim as f64 - 0.5),
        };
        let span = high - low;
        if span <= 0.0 {
            return low;
        }
        let rest = (place - low).rem_euclid(2.0 * span);
        low + if rest > span { 2.0 * span - rest } else { rest }
    }

    /// Returns the elements around a coordinate along one dim, and their weights.
    fn around(&self, x: f64, dim: usize) -> Vec<(Option<i64>, f64)> {
        let place = self.place(x, dim);
        let at = |place: f64| self.inside(place, dim);
        match self.mode {
            // As ONNX: the nearest pixel is found first, and then mapped into the image.
            Sampling::Nearest => vec![(at(place.round_ties_even()), 1.0)],
            Sampling::Linear => {
                let place = match self.padding {
                    Padding::Zeros => place,
                    Padding::Border => place.clamp(0.0, dim as f64 - 1.0),
                    Padding::Reflection => self.reflected(place, dim),
                };
                let ratio = place - place.floor();
                vec![(at(place.floor()), 1.0 - ratio), (at(place.floor() + 1.0), ratio)]
            }
            Sampling::Cubic => {
                let (base, ratio) = (place.floor(), place - place.floor());
                let a = -0.75;
                let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
                let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
                let shares = [far(1.0 + ratio), near(ratio), near(1.0 - ratio), far(2.0 - ratio)];
                let steps = [-1.0, 0.0, 1.0, 2.0];
                steps.iter().zip(shares).map(|(step, it)| (at(base + step), it)).collect()
            }
        }
    }
}

fn grid_sample(call: &Call<'_>) -> Outputs {
    let (x, places) = (call.input(0)?, call.input(1)?);
    let (shape, grid_dims) = (x.shape(), places.shape());
    let ([examples, channels, dims @ ..], [_, steps_to @ .., _]) =
        (shape.as_slice(), grid_dims.as_slice())
    else {
        return Err("expected batch and channel dims".into());
    };
    let over = [&[*examples, *channels], steps_to].concat();
    if bounded(&over)? == 0 {
        return one(Dense::filled(0.0, x.dtype(), &over)?);
    }
    if shape.contains(&0) {
        return Err(format!("{shape:?} has no elements to sample").into());
    }
    let modes =
        [("linear", Sampling::Linear), ("nearest", Sampling::Nearest), ("cubic", Sampling::Cubic)];
    let paddings = [
        ("zeros", Padding::Zeros),
        ("border", Padding::Border),
        ("reflection", Padding::Reflection),
    ];
    let grid = Grid {
        mode: call.choice("mode", &modes)?,
        padding: call.choice("padding_mode", &paddings)?,
        corners: call.int("align_corners", 0) != 0,
    };
    let (rank, inner) = (dims.len(), bounded(dims)?);
    let each = bounded(steps_to)?;
    let corners = match grid.mode {
        Sampling::Linear => 2_usize,
        Sampling::Nearest => 1,
        Sampling::Cubic => 4,
    };
    let corners = u32::try_from(rank).ok().and_then(|rank| corners.checked_pow(rank));
    let corners = corners.ok_or("there are too many dims")?;
    // Rows and weights, in lists that grow; copies of the grid and of the images; sums of parts of the results.
    let _taps = call.workspace(&[*examples, each, corners], 2 * 16 + 8)?;
    let _copies =
        (call.workspace(&grid_dims, 16)?, call.workspace(&shape, 8)?, call.workspace(&over, 16)?);
    let mut taps: Taps = Vec::new();
    for (point, numbers) in places.to_doubles()?.chunks_exact(rank.max(1)).enumerate() {
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err("a grid coordinate is NaN".into());
        }
        // Grid coordinates list the last dim first.
        let mut corners = vec![(Some(0), 1.0)];
        for (number, dim) in numbers.iter().rev().zip(dims) {
            let around = grid.around(*number, *dim);
            let dim = long(*dim);
            let one = |(row, share): &(Option<i64>, f64)| {
                let next = |(at, part): &(Option<i64>, f64)| {
                    (row.zip(*at).map(|(row, at)| row * dim + at), share * part)
                };
                around.iter().map(next).collect::<Vec<_>>()
            };
            corners = corners.iter().flat_map(one).collect();
        }
        taps.resize_with(corners.len(), Default::default);
        let begin = long(point / each * inner);
        for ((rows, shares), (row, share)) in taps.iter_mut().zip(corners) {
            // A sample outside of the image has no weight.
            let (row, share) = row.map_or((0, 0.0), |row| (row, share));
            rows.push(begin + row);
            shares.push(share);
        }
    }
    let wide = x.widened()?;
    let made = total(steps(&table(&wide)?, &taps))?;
    one(image(made, *examples, steps_to)?.cast_to(x.dtype())?)
}

/// Rows and weights of the four pixels around a coordinate.
type Corners = [(usize, f64); 4];

/// Returns the rows and weights of the four pixels around a coordinate; all weights are 0 if it is too far outside.
fn corners(y: f64, x: f64, rows: usize, columns: usize) -> [(usize, f64); 4] {
    let (high, wide) = (rows as f64, columns as f64);
    if !(-1.0..=high).contains(&y) || !(-1.0..=wide).contains(&x) {
        return [(0, 0.0); 4];
    }
    let side = |place: f64, dim: usize| {
        let place = place.max(0.0);
        let low = elements(place.floor());
        match low + 1 >= dim {
            true => (dim - 1, dim - 1, 0.0),
            false => (low, low + 1, place - low as f64),
        }
    };
    let ((top, bottom, down), (left, right, aside)) = (side(y, rows), side(x, columns));
    [
        (top * columns + left, (1.0 - down) * (1.0 - aside)),
        (top * columns + right, (1.0 - down) * aside),
        (bottom * columns + left, down * (1.0 - aside)),
        (bottom * columns + right, down * aside),
    ]
}

/// Samples each cell of a region, and returns the mean or the maximum of the samples.
fn roi_align(call: &Call<'_>) -> Outputs {
    let (x, regions) = (call.input(0)?, call.input(1)?);
    let shape = x.shape();
    let [examples, channels, rows, columns] = *shape.as_slice() else {
        return Err(format!("expected images, found {shape:?}").into());
    };
    let number = |name: &str| count(call.int(name, 1));
    let (high, wide) = (number("output_height")?, number("output_width")?);
    let ratio = count(call.int("sampling_ratio", 0))?;
    let scale = f64::from(call.float("spatial_scale", 1.0));
    let is_max = call.choice("mode", &[("avg", false), ("max", true)])?;
    let offsets = [("half_pixel", 0.5), ("output_half_pixel", 0.0)];
    let moved = call.choice("coordinate_transformation_mode", &offsets)?;
    let images = call.list(2)?;
    let boxes = regions.to_doubles()?;
    let cells = bounded(&[images.len(), high, wide])?;
    bounded(&[cells, channels])?;
    if shape.contains(&0) || boxes.len() != 4 * images.len() {
        return Err("expected images and a box for each region".into());
    }
    if cells == 0 {
        return one(Dense::filled(0.0, x.dtype(), &[images.len(), channels, high, wide])?);
    }
    // A list of samples for each cell; rows and weights of one sample, in lists that grow; sums of parts of the results.
    let _cells = call.workspace(&[cells], size_of::<Vec<Corners>>() as u64 + 4 * 2 * 16)?;
    let _parts = call.workspace(&[cells, channels], 20)?;
    let _copy = call.workspace(&shape, 8)?;
    let mut room = call.memory.growing();
    let mut grouped: Vec<Vec<Corners>> = Vec::with_capacity(cells);
    for (region, number) in boxes.as_chunks::<4>().0.iter().zip(&images) {
        let image = count(*number)?;
        let [left, top, right, bottom] = *region;
        if image >= examples || region.iter().any(|side| !side.is_finite()) {
            return Err(format!("region {region:?} of image {image} is invalid").into());
        }
        let [left, top, right, bottom] = [left, top, right, bottom].map(|at| at * scale - moved);
        let least = if moved > 0.0 { f64::NEG_INFINITY } else { 1.0 };
        let cell_high = (bottom - top).max(least) / high as f64;
        let cell_wide = (right - left).max(least) / wide as f64;
        let samples = |size: f64| match ratio {
            0 => elements(size.ceil().max(0.0)),
            ratio => ratio,
        };
        let (down, aside) = (samples(cell_high), samples(cell_wide));
        if bounded(&[down, aside, cells])? > MAX_SAMPLES {
            return Err(format!("region {region:?} has too many samples").into());
        }
        let samples = bounded(&[down, aside, high, wide])? as u64;
        room.add(samples.saturating_mul(size_of::<Corners>() as u64))?;
        for cell in 0..high * wide {
            let (row, column) = ((cell / wide) as f64, (cell % wide) as f64);
            let sample = |number: usize| {
                let (step, side) = ((number / aside) as f64 + 0.5, (number % aside) as f64 + 0.5);
                let y = top + row * cell_high + step * cell_high / down as f64;
                let x = left + column * cell_wide + side * cell_wide / aside as f64;
                corners(y, x, rows, columns)
                    .map(|(place, share)| (image * rows * columns + place, share))
            };
            grouped.push((0..down * aside).map(sample).collect());
        }
    }
    let wide_x = x.widened()?;
    let table = table(&wide_x)?;
    let most = grouped.iter().map(Vec::len).fold(1, usize::max);
    let sample = |number: usize| {
        // Cells of smaller regions have fewer samples. They are padded: with samples of weight 0 for a mean, with the
        // first sample for a maximum.
        let mut taps: Taps = vec![Default::default(); 4];
        for cell in &grouped {
            let found = cell.get(number).or(cell.first().filter(|_| is_max));
            let weight = if is_max { 1.0 } else { 1.0 / cell.len().max(1) as f64 };
            let corners = found.copied().unwrap_or([(0, 0.0); 4]);
            for ((rows, shares), (row, share)) in taps.iter_mut().zip(corners) {
                rows.push(long(row));
                shares.push(share * weight);
            }
        }
        if !is_max {
            return total(steps(&table, &taps));
        }
        // The maximum of the weighted pixels of a sample, as ONNX specifies.
        let mut parts = steps(&table, &taps);
        let first = parts.next().ok_or("no samples to select from")??;
        parts.try_fold(first, |best, part| best.extreme(&part?, Extreme::Greatest))
    };
    let first = sample(0)?;
    let made = (1..most).try_fold(first, |so_far, number| match is_max {
        true => so_far.extreme(&sample(number)?, Extreme::Greatest),
        false => so_far.plus(&sample(number)?),
    })?;
    one(image(made, images.len(), &[high, wide])?.cast_to(x.dtype())?)
}

/// Selects the best boxes for each class of each example that do not overlap better ones (non-maximum suppression).
fn choose_boxes(call: &Call<'_>) -> Outputs {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let [examples, classes, many] = *scores.shape().as_slice() else {
        return Err(format!("expected scores of rank 3, found {:?}", scores.shape()).into());
    };
    if boxes.shape() != [examples, many, 4] {
        let (boxes, scores) = (boxes.shape(), scores.shape());
        return Err(format!("boxes {boxes:?} do not match scores {scores:?}").into());
    }
    let most = call.long(2, 0)?;
    let most = count(most.max(0))?.min(many);
    let (overlap, least) = (call.double(3, 0.0)?, call.maybe_double(4)?);
    let centred = call.int("center_point_box", 0) != 0;
    let sides = |corner: &[f64; 4]| match *corner {
        [x, y, wide, high] if centred => {
            [y - high / 2.0, x - wide / 2.0, y + high / 2.0, x + wide / 2.0]
        }
        [top, left, bottom, right] => {
            [top.min(bottom), left.min(right), top.max(bottom), left.max(right)]
        }
    };
    let boxes: Vec<[f64; 4]> = boxes.to_doubles()?.as_chunks().0.iter().map(sides).collect();
    let scores = scores.to_doubles()?;
    let mut chosen: Vec<i64> = Vec::new();
    // Scores in order, with the memory of sorting, and the boxes of one class.
    let _order = call.workspace(&[many], 2 * 16 + 16 + 2 * 32)?;
    let mut room = call.memory.growing();
    for (line, scores) in scores.chunks_exact(many.max(1)).enumerate() {
        let (example, class) = (line / classes.max(1), line % classes.max(1));
        let boxes = boxes.get(example * many..(example + 1) * many);
        let boxes = boxes.ok_or_else(|| Finding::internal("scores without boxes"))?;
        let mut order: Vec<(f64, usize)> = scores
            .iter()
            .copied()
            .zip(0..)
            .filter(|(score, _)| least.is_none_or(|least| *score > least))
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut kept: Vec<[f64; 4]> = Vec::new();
        for (_, number) in order {
            let Some(this) = boxes.get(number).filter(|_| kept.len() < most) else { break };
            if kept.iter().all(|other| shared(this, other) <= overlap) {
                // A row in a list that grows, and in the result.
                room.add(3 * 3 * size_of::<i64>() as u64)?;
                kept.push(*this);
                chosen.extend([example, class, number].map(long));
            }
        }
    }
    let rows = chosen.len() / 3;
    one(Dense::longs(&chosen).reshaped(vec![rows, 3])?)
}

/// Returns the intersection over union of two boxes.
fn shared(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let area = |[top, left, bottom, right]: &[f64; 4]| (bottom - top) * (right - left);
    let ([top, left, bottom, right], [above, before, below, behind]) = (a, b);
    let high = (bottom.min(*below) - top.max(*above)).max(0.0);
    let wide = (right.min(*behind) - left.max(*before)).max(0.0);
    let both = high * wide;
    if both <= 0.0 { 0.0 } else { both / (area(a) + area(b) - both) }
}
