//! PaddlePaddle 2.6.2: boxes around the cells of a feature map.

use lodstone_model::{AttributeValue, Tensor};

use super::{Random, Rect, Single, flat, int32, list, recorded};

/// Returns a few numbers.
fn few(random: &mut Random, least: usize, of: &[f64]) -> Vec<f64> {
    let count = random.size(least, 3);
    (0..count).map(|_| random.pick(of)).collect()
}

fn numbers(list: &[f64]) -> AttributeValue {
    AttributeValue::Floats(list.iter().map(|it| *it as f32).collect())
}

fn flag(value: bool) -> AttributeValue {
    AttributeValue::Bool(value)
}

/// A feature map over an image, with a grid of cells.
struct Cells {
    inputs: Vec<(&'static str, Tensor)>,
    /// The rows and columns of the map, and the height and width of the image.
    map: [usize; 2],
    image: [f64; 2],
    /// The height and width of a cell.
    steps: [f64; 2],
    offset: f64,
    attributes: Vec<(&'static str, AttributeValue)>,
}

const VARIANCES: [f64; 4] = [0.1, 0.1, 0.2, 0.25];

impl Cells {
    fn drawn(random: &mut Random) -> Self {
        let map = [random.size(1, 4), random.size(1, 4)];
        let image = [random.size(5, 20), random.size(5, 20)];
        let given = [random.pick(&[0.0, 2.5, 4.0]), random.pick(&[0.0, 2.0, 3.0])];
        let offset = random.pick(&[0.5, 0.0, 0.3]);
        let is_given = given[0] != 0.0 && given[1] != 0.0;
        let step = |axis: usize| match is_given {
            true => given[axis],
            false => image[axis] as f64 / map[axis] as f64,
        };
        let attributes = vec![
            ("step_h", AttributeValue::Float(given[0] as f32)),
            ("step_w", AttributeValue::Float(given[1] as f32)),
            ("offset", AttributeValue::Float(offset as f32)),
            ("variances", numbers(&VARIANCES)),
        ];
        let inputs = vec![
            ("Input", random.tensor(&[1, 1, map[0], map[1]])),
            ("Image", random.tensor(&[1, 1, image[0], image[1]])),
        ];
        let (image, steps) = (image.map(|it| it as f64), [step(0), step(1)]);
        Self { inputs, map, image, steps, offset, attributes }
    }

    /// Returns the boxes of all cells, given by their middle relative to that of the cell, and their size.
    fn boxes(&self, of: &[([f64; 2], [f64; 2])]) -> Vec<Rect> {
        let mut all = Vec::new();
        for (row, column) in grid(self.map) {
            let y = (row as f64 + self.offset) * self.steps[0];
            let x = (column as f64 + self.offset) * self.steps[1];
            for ([down, across], [height, width]) in of {
                let (y, x) = (y + down, x + across);
                let [high, wide] = self.image;
                all.push([
                    (x - width / 2.0) / wide,
                    (y - height / 2.0) / high,
                    (x + width / 2.0) / wide,
                    (y + height / 2.0) / high,
                ]);
            }
        }
        all
    }
}

fn grid([rows, columns]: [usize; 2]) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}

/// Returns boxes and their variances, with the dims of the grid.
fn results(boxes: &[Rect], dims: &[usize], variances: [f64; 4]) -> Vec<Tensor> {
    let dims = [dims, &[4]].concat();
    vec![flat(boxes, &dims), flat(&vec![variances; boxes.len()], &dims)]
}

/// `prior_box_kernel.cc`, `ExpandAspectRatios`.
pub(super) fn prior(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let mut cells = Cells::drawn(random);
    let least = few(random, 1, &[1.0, 4.0, 9.0]);
    let most = if random.flag() { Vec::new() } else { least.iter().map(|it| it + 3.0).collect() };
    let ratios = few(random, 0, &[1.0, 2.0, 0.5, 3.0]);
    let (flips, clips, is_square_first) = (random.flag(), random.flag(), random.flag());
    let mut all = vec![1.0];
    for ratio in &ratios {
        if !all.contains(ratio) {
            all.push(*ratio);
            all.extend(flips.then_some(1.0 / ratio));
        }
    }
    let mut sizes = Vec::new();
    for (at, size) in least.iter().enumerate() {
        let by_ratio = |ratio: &f64| [size / ratio.sqrt(), size * ratio.sqrt()];
        let larger = most.get(at).map(|most| [(size * most).sqrt(); 2]);
        match is_square_first {
            true => {
                sizes.extend([Some([*size, *size]), larger].into_iter().flatten());
                sizes.extend(all.iter().filter(|ratio| **ratio != 1.0).map(by_ratio));
            }
            false => sizes.extend(all.iter().map(by_ratio).chain(larger)),
        }
    }
    let count = sizes.len();
    let of: Vec<_> = sizes.into_iter().map(|size| ([0.0; 2], size)).collect();
    let clip = |end: f64| if clips { end.clamp(0.0, 1.0) } else { end };
    let boxes: Vec<Rect> = cells.boxes(&of).iter().map(|it| it.map(clip)).collect();
    cells.attributes.extend([
        ("min_sizes", numbers(&least)),
        ("max_sizes", numbers(&most)),
        ("aspect_ratios", numbers(&ratios)),
        ("flip", flag(flips)),
        ("clip", flag(clips)),
        ("min_max_aspect_ratios_order", flag(is_square_first)),
    ]);
    let expected = results(&boxes, &[cells.map[0], cells.map[1], count], VARIANCES);
    let outputs = vec!["Boxes", "Variances"];
    let single = Single::new("prior_box", cells.inputs, cells.attributes, outputs);
    Some((Single { is_dynamic: random.flag(), ..single }, expected))
}

/// `density_prior_box_op.h`: the distance of dense boxes is a whole number.
pub(super) fn density(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let mut cells = Cells::drawn(random);
    let sizes = few(random, 1, &[1.0, 4.0, 9.0]);
    let ratios = few(random, 1, &[1.0, 2.0, 0.5]);
    let densities: Vec<i32> = sizes.iter().map(|_| random.number(1, 3) as i32).collect();
    let (clips, is_flat) = (random.flag(), random.flag());
    let step = ((cells.steps[0] as f32 + cells.steps[1] as f32) * 0.5) as i32;
    let mut of = Vec::new();
    for (size, density) in sizes.iter().zip(&densities) {
        let shift = f64::from(step / density);
        let first = -f64::from(step) / 2.0 + shift / 2.0;
        for ratio in &ratios {
            of.extend(grid([*density as usize; 2]).map(|(row, column)| {
                let place = |at: usize| first + at as f64 * shift;
                ([place(row), place(column)], [size / ratio.sqrt(), size * ratio.sqrt()])
            }));
        }
    }
    let clip = |it: &Rect| match clips {
        true => it.map(|end| end.clamp(0.0, 1.0)),
        false => [it[0].max(0.0), it[1].max(0.0), it[2].min(1.0), it[3].min(1.0)],
    };
    let boxes: Vec<Rect> = cells.boxes(&of).iter().map(clip).collect();
    cells.attributes.extend([
        ("fixed_sizes", numbers(&sizes)),
        ("fixed_ratios", numbers(&ratios)),
        ("densities", AttributeValue::Ints(densities)),
        ("clip", flag(clips)),
        ("flatten_to_2d", flag(is_flat)),
    ]);
    let dims = match is_flat {
        true => vec![boxes.len()],
        false => vec![cells.map[0], cells.map[1], of.len()],
    };
    let expected = results(&boxes, &dims, VARIANCES);
    let outputs = vec!["Boxes", "Variances"];
    let single = Single::new("density_prior_box", cells.inputs, cells.attributes, outputs);
    Some((Single { is_dynamic: random.flag(), ..single }, expected))
}

/// `anchor_generator_op.h`: areas are those of the strides, with whole sides.
pub(super) fn anchors(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let map = [random.size(1, 4), random.size(1, 4)];
    let sizes = few(random, 1, &[8.0, 32.0, 100.0]);
    let ratios = few(random, 1, &[1.0, 2.0, 0.5, 0.3]);
    let strides = [random.pick(&[16.0, 8.0, 5.0]), random.pick(&[16.0, 7.0])];
    let offset = random.pick(&[0.5, 0.0, 0.3]);
    let mut boxes = Vec::new();
    for (row, column) in grid(map) {
        let place = |at: usize, stride: f64| at as f64 * stride + offset * (stride - 1.0);
        let (x, y) = (place(column, strides[0]), place(row, strides[1]));
        for ratio in &ratios {
            let wide = f64::from((strides[0] * strides[1] / ratio) as f32).sqrt().round();
            let high = f64::from((wide * ratio) as f32).round();
            for size in &sizes {
                let half = [size / strides[0] * wide, size / strides[1] * high];
                let [w, h] = half.map(|size| (size - 1.0) / 2.0);
                boxes.push([x - w, y - h, x + w, y + h]);
            }
        }
    }
    let attributes = vec![
        ("anchor_sizes", numbers(&sizes)),
        ("aspect_ratios", numbers(&ratios)),
        ("stride", numbers(&strides)),
        ("offset", AttributeValue::Float(offset as f32)),
        ("variances", numbers(&VARIANCES)),
    ];
    let dims = [map[0], map[1], ratios.len() * sizes.len()];
    let expected = results(&boxes, &dims, VARIANCES);
    let inputs = vec![("Input", random.tensor(&[1, 2, map[0], map[1]]))];
    let outputs = vec!["Anchors", "Variances"];
    let single = Single::new("anchor_generator", inputs, attributes, outputs);
    Some((Single { is_dynamic: random.flag(), ..single }, expected))
}

/// The parameters of `yolo_box`.
struct Yolo {
    anchors: Vec<[i32; 2]>,
    classes: usize,
    threshold: f64,
    ratio: usize,
    scale: f64,
    clips: bool,
    /// The share of the overlaps in the confidence, if there is one.
    aware: Option<f64>,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl Yolo {
    fn drawn(random: &mut Random) -> Self {
        let count = random.size(1, 3);
        Self {
            anchors: (0..count)
                .map(|_| [random.number(1, 20) as i32, random.number(1, 20) as i32])
                .collect(),
            classes: random.size(1, 3),
            threshold: random.pick(&[0.01, 0.4, 0.5]),
            ratio: random.pick(&[8, 32]),
            scale: random.pick(&[1.0, 1.05, 2.0]),
            clips: random.flag(),
            aware: random.flag().then(|| random.pick(&[0.4, 0.0, 1.0])),
        }
    }

    fn attributes(&self) -> Vec<(&'static str, AttributeValue)> {
        let mut attributes = vec![
            ("anchors", AttributeValue::Ints(self.anchors.as_flattened().to_vec())),
            ("class_num", AttributeValue::Int(self.classes as i32)),
            ("conf_thresh", AttributeValue::Float(self.threshold as f32)),
            ("downsample_ratio", AttributeValue::Int(self.ratio as i32)),
            ("scale_x_y", AttributeValue::Float(self.scale as f32)),
            ("clip_bbox", flag(self.clips)),
            ("iou_aware", flag(self.aware.is_some())),
        ];
        let share = self.aware.map(|share| AttributeValue::Float(share as f32));
        attributes.extend(share.map(|share| ("iou_aware_factor", share)));
        attributes
    }

    /// Returns the box that a cell `[row, column]` of a map predicts for an anchor, in an image `[height, width]`.
    fn rect(
        &self,
        anchor: usize,
        cell: [usize; 2],
        map: [usize; 2],
        image: [f64; 2],
        at: impl Fn(usize) -> f64,
    ) -> Rect {
        // The horizontal axis is the first one of the channels.
        let side = |channel: usize| {
            let axis = 1 - channel;
            let inside = sigmoid(at(channel)) * self.scale - 0.5 * (self.scale - 1.0);
            let middle = (cell[axis] as f64 + inside) * image[axis] / map[axis] as f64;
            let own = f64::from(self.anchors[anchor][channel]);
            let size = at(channel + 2).exp() * own * image[axis] / (self.ratio * map[axis]) as f64;
            let ends = [middle - size / 2.0, middle + size / 2.0];
            if self.clips { [ends[0].max(0.0), ends[1].min(image[axis] - 1.0)] } else { ends }
        };
        let [[left, right], [top, bottom]] = [side(0), side(1)];
        [left, top, right, bottom]
    }
}

/// `yolo_box_kernel.cc`: boxes below the threshold are 0. The overlaps are the first channels.
pub(super) fn yolo(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let yolo = Yolo::drawn(random);
    let (images, map) = (random.size(1, 2), [random.size(1, 3), random.size(1, 3)]);
    let (count, cells) = (yolo.anchors.len(), map[0] * map[1]);
    let (each, first) = (5 + yolo.classes, if yolo.aware.is_some() { count } else { 0 });
    let channels = first + count * each;
    let x = random.tensor(&[images, channels, map[0], map[1]]);
    let values = recorded::elements(&x);
    let sizes: Vec<usize> = (0..2 * images).map(|_| random.size(1, 90)).collect();
    let (mut boxes, mut scores) = (Vec::new(), Vec::new());
    for image in 0..images {
        let size = [sizes[2 * image] as f64, sizes[2 * image + 1] as f64];
        for (anchor, (row, column)) in
            (0..count).flat_map(|anchor| grid(map).map(move |cell| (anchor, cell)))
        {
            let channel =
                |at: usize| values[(image * channels + at) * cells + row * map[1] + column];
            let at = |place: usize| channel(first + anchor * each + place);
            let own = sigmoid(at(4));
            let sure = yolo
                .aware
                .map_or(own, |share| own.powf(1.0 - share) * sigmoid(channel(anchor)).powf(share));
            if (sure - yolo.threshold).abs() < 1e-6 {
                return None;
            }
            let is_below = sure < yolo.threshold;
            let rect = yolo.rect(anchor, [row, column], map, size, at);
            boxes.push(if is_below { [0.0; 4] } else { rect });
            let score = |class: usize| if is_below { 0.0 } else { sigmoid(at(5 + class)) * sure };
            scores.extend((0..yolo.classes).map(score));
        }
    }
    let expected = vec![
        flat(&boxes, &[images, count * cells, 4]),
        list(&scores, &[images, count * cells, yolo.classes]),
    ];
    let inputs = vec![("X", x), ("ImgSize", int32(&sizes, &[images, 2]))];
    let single = Single::new("yolo_box", inputs, yolo.attributes(), vec!["Boxes", "Scores"]);
    Some((Single { is_dynamic: random.flag(), ..single }, expected))
}
