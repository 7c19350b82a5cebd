//! Regions of images, which the frameworks pool alike.

use lodstone_model::{AttributeValue, Tensor};

use super::{Random, Rect, Single, channels_last, flat, int32, int64, list, recorded, text};

/// Returns a pixel of a plane, interpolated between those around a place.
fn pixel(plane: &[f64], [rows, columns]: [usize; 2], y: f64, x: f64) -> f64 {
    if y < -1.0 || y > rows as f64 || x < -1.0 || x > columns as f64 {
        return 0.0;
    }
    let along = |at: f64, dim: usize| {
        let at = at.max(0.0).min(dim as f64 - 1.0);
        let low = at.floor() as usize;
        (low, (low + 1).min(dim - 1), at - low as f64)
    };
    let ((top, bottom, down), (left, right, aside)) = (along(y, rows), along(x, columns));
    let row = |row: usize| {
        plane[row * columns + left] * (1.0 - aside) + plane[row * columns + right] * aside
    };
    row(top) * (1.0 - down) + row(bottom) * down
}

/// `roi_align_kernel.cc`, `roi_pool_kernel.cc` and the same of the other frameworks.
pub(super) fn drawn(random: &mut Random, dialect: &str) -> Option<(Single, Vec<Tensor>)> {
    let dims = [random.size(1, 2), random.size(1, 2), random.size(1, 5), random.size(1, 5)];
    let takes_none = dialect == "torch" || dialect == "caffe2";
    let count = random.size(if takes_none { 0 } else { 1 }, 3);
    // The maxima of Glow are those of samples.
    let averages = dialect == "glow" || random.flag();
    let (cells, scale) = ([random.size(1, 3), random.size(1, 3)], random.pick(&[0.5, 1.0, 0.25]));
    let (samples, is_aligned) = (random.number(-1, 3), random.flag());
    let x = random.tensor(&dims);
    let values = recorded::elements(&x);
    let has_none = dialect == "mxnet" && random.flag();
    let mut own: Vec<(i64, Rect)> = Vec::new();
    for _ in 0..count {
        let image = random.number(if has_none { -1 } else { 0 }, dims[0] as i64 - 1);
        let ends = [0, 1].map(|_| {
            let begin = random.number(-4, 20);
            [begin, begin + random.number(if averages { 0 } else { -3 }, 16)]
        });
        let [[left, right], [top, bottom]] = ends;
        own.push((image, [left, top, right, bottom].map(|it| it as f64 / 2.0)));
    }
    own.sort_by_key(|it| it.0);
    // PaddlePaddle returns NaN for empty regions without samples, MXNet rejects empty regions, and PyTorch returns 0.
    let is_empty = |it: &(i64, Rect)| it.1[0] == it.1[2] || it.1[1] == it.1[3];
    let accepts = dialect == "torch" || dialect == "paddle" && samples > 0;
    if !accepts && averages && is_aligned && own.iter().any(is_empty) {
        return None;
    }
    let mut results = Vec::new();
    for (image, region) in &own {
        for channel in 0..dims[1] {
            let place = (*image).max(0) as usize * dims[1] + channel;
            let plane = &values[place * dims[2] * dims[3]..][..dims[2] * dims[3]];
            for cell in 0..cells[0] * cells[1] {
                let (row, column) = (cell / cells[1], cell % cells[1]);
                let cell = [row, column];
                results.push(match averages {
                    _ if *image < 0 => 0.0,
                    true => {
                        let shift = if is_aligned { 0.5 } else { 0.0 };
                        let steps = |axis: usize| {
                            let begin = region[1 - axis] * scale - shift;
                            let size = region[3 - axis] * scale - shift - begin;
                            let size = if is_aligned { size } else { size.max(1.0) };
                            let size = size / cells[axis] as f64;
                            let many = if samples > 0 { samples as f64 } else { size.ceil() };
                            let first = begin + cell[axis] as f64 * size;
                            (0..many as usize)
                                .map(move |at| first + (at as f64 + 0.5) * size / many)
                                .collect::<Vec<f64>>()
                        };
                        let (ys, xs) = (steps(0), steps(1));
                        let all = ys.iter().flat_map(|y| xs.iter().map(move |x| (*y, *x)));
                        let sum: f64 =
                            all.map(|(y, x)| pixel(plane, [dims[2], dims[3]], y, x)).sum();
                        sum / (ys.len() * xs.len()).max(1) as f64
                    }
                    false => {
                        let range = |axis: usize| {
                            let begin = (region[1 - axis] * scale).round();
                            let end = (region[3 - axis] * scale).round();
                            let size = (end - begin + 1.0).max(1.0) / cells[axis] as f64;
                            let clip = |at: f64| (at + begin).clamp(0.0, dims[axis + 2] as f64);
                            let at = cell[axis] as f64;
                            clip((at * size).floor()) as usize
                                ..clip(((at + 1.0) * size).ceil()) as usize
                        };
                        let columns = range(1);
                        let all = range(0).flat_map(|row| {
                            columns.clone().map(move |column| row * dims[3] + column)
                        });
                        let best = all.map(|at| plane[at]).fold(f64::NEG_INFINITY, f64::max);
                        if best.is_finite() { best } else { 0.0 }
                    }
                });
            }
        }
    }
    let rows: Vec<f64> =
        own.iter().flat_map(|(image, it)| std::iter::once(*image as f64).chain(*it)).collect();
    let boxes: Vec<Rect> = own.iter().map(|it| it.1).collect();
    let rows = ("rois", list(&rows, &[count, 5]));
    let [high, wide] = cells.map(|it| it as i32);
    let mut expected = list(&results, &[count, dims[1], cells[0], cells[1]]);
    let single = match dialect {
        "paddle" => {
            let number = |image: usize| own.iter().filter(|it| it.0 == image as i64).count();
            let counts: Vec<usize> = (0..dims[0]).map(number).collect();
            let mut attributes = vec![
                ("pooled_height", AttributeValue::Int(high)),
                ("pooled_width", AttributeValue::Int(wide)),
                ("spatial_scale", AttributeValue::Float(scale as f32)),
            ];
            if averages {
                attributes.push(("sampling_ratio", AttributeValue::Int(samples as i32)));
                attributes.push(("aligned", AttributeValue::Bool(is_aligned)));
            }
            let inputs = vec![
                ("X", x),
                ("ROIs", flat(&boxes, &[count, 4])),
                ("RoisNum", int32(&counts, &[dims[0]])),
            ];
            Single::new(
                if averages { "roi_align" } else { "roi_pool" },
                inputs,
                attributes,
                vec!["Out"],
            )
        }
        "mxnet" => {
            let mut attributes = vec![
                ("pooled_size", text(format!("({high}, {wide})"))),
                ("spatial_scale", text(scale)),
            ];
            if averages {
                attributes.push(("sample_ratio", text(samples)));
                attributes.push(("aligned", text(if is_aligned { "True" } else { "False" })));
            }
            let kind = if averages { "_contrib_ROIAlign" } else { "ROIPooling" };
            Single::new(kind, vec![("data", x), rows], attributes, vec!["output"])
        }
        "caffe2" => {
            let mut attributes = vec![
                ("pooled_h", AttributeValue::Long(high.into())),
                ("pooled_w", AttributeValue::Long(wide.into())),
                ("spatial_scale", AttributeValue::Float(scale as f32)),
            ];
            if !averages {
                attributes.push(("is_test", AttributeValue::Long(1)));
                let single = Single::new("RoIPool", vec![("", x), rows], attributes, vec![""]);
                return Some((Single { is_dynamic: random.flag(), ..single }, vec![expected]));
            }
            attributes.push(("sampling_ratio", AttributeValue::Long(samples)));
            attributes.push(("aligned", AttributeValue::Long(is_aligned.into())));
            let mut x = x;
            if random.flag() {
                attributes.push(("order", text("NHWC")));
                (x, expected) = (channels_last(&x), channels_last(&expected));
            }
            // Without images, all regions are of the first one.
            let own = own.iter().all(|(image, _)| *image == 0) && random.flag();
            let rows = if own { ("", flat(&boxes, &[count, 4])) } else { rows };
            Single::new("RoIAlign", vec![("", x), rows], attributes, vec![""])
        }
        "glow" => {
            let attributes = vec![
                ("Mode", AttributeValue::Long(0)),
                ("OutputHeight", AttributeValue::Long(high.into())),
                ("OutputWidth", AttributeValue::Long(wide.into())),
                ("SamplingRatio", AttributeValue::Long(samples.max(0))),
                ("SpatialScale", AttributeValue::Float(scale as f32)),
                ("Aligned", AttributeValue::Long(is_aligned.into())),
                ("Rotated", AttributeValue::Long(0)),
            ];
            let images: Vec<usize> = own.iter().map(|(image, _)| *image as usize).collect();
            // The images of regions with their own image are not read.
            let (rows, images) = match random.flag() {
                true => (rows.1, int64(&vec![7; count])),
                false if random.flag() => (flat(&boxes, &[count, 4]), int32(&images, &[count])),
                false => (flat(&boxes, &[count, 4]), int64(&images)),
            };
            let inputs = vec![("", channels_last(&x)), ("", rows), ("", images)];
            expected = channels_last(&expected);
            return Some((Single::new("ROIAlign", inputs, attributes, vec![""]), vec![expected]));
        }
        _ => {
            let mut attributes = vec![
                ("pooled_height", AttributeValue::Long(high.into())),
                ("pooled_width", AttributeValue::Long(wide.into())),
                ("spatial_scale", AttributeValue::Double(scale)),
            ];
            if averages {
                attributes.push(("sampling_ratio", AttributeValue::Long(samples)));
                attributes.push(("aligned", AttributeValue::Bool(is_aligned)));
            }
            let kind = if averages { "torchvision::roi_align" } else { "torchvision::roi_pool" };
            Single::new(kind, vec![("input", x), rows], attributes, vec!["output"])
        }
    };
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, vec![expected]))
}

/// `roi_align_rotated_op.cc` of Caffe2: the samples of an upright region are rotated around its center.
pub(super) fn rotated(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = [random.size(1, 2), random.size(1, 2), random.size(1, 5), random.size(1, 5)];
    let (count, has_image) = (random.size(0, 3), random.flag());
    let (cells, scale) = ([random.size(1, 3), random.size(1, 3)], random.pick(&[0.5, 1.0, 0.25]));
    let (samples, is_aligned, is_last) = (random.number(-1, 3), random.flag(), random.flag());
    let x = random.tensor(&dims);
    let values = recorded::elements(&x);
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let image = if has_image { random.size(0, dims[0] - 1) } else { 0 };
        let center = [random.number(0, 10), random.number(0, 10)].map(|it| it as f64 / 2.0);
        // The size of a region is 0 in no direction: a mean of nothing is NaN.
        let size = [random.number(1, 16), random.number(1, 16)].map(|it| it as f64 / 2.0);
        let angle = f64::from(random.real(-200.0, 200.0) as f32);
        if has_image {
            rows.push(image as f64);
        }
        rows.extend([center[0], center[1], size[0], size[1], angle]);
        let shift = if is_aligned { 0.5 } else { 0.0 };
        let [center_x, center_y] = center.map(|it| it * scale - shift);
        let size = size.map(|it| if is_aligned { it * scale } else { (it * scale).max(1.0) });
        let (sine, cosine) = angle.to_radians().sin_cos();
        let steps = |axis: usize, cell: usize| {
            let side = size[1 - axis] / cells[axis] as f64;
            let many = if samples > 0 { samples as f64 } else { side.ceil() };
            let first = cell as f64 * side - size[1 - axis] / 2.0;
            (0..many as usize)
                .map(|at| first + (at as f64 + 0.5) * side / many)
                .collect::<Vec<f64>>()
        };
        for channel in 0..dims[1] {
            let plane = (image * dims[1] + channel) * dims[2] * dims[3];
            let plane = &values[plane..][..dims[2] * dims[3]];
            for cell in 0..cells[0] * cells[1] {
                let (ys, xs) = (steps(0, cell / cells[1]), steps(1, cell % cells[1]));
                let all = ys.iter().flat_map(|y| xs.iter().map(move |x| (*y, *x)));
                let sample = |(y, x): (f64, f64)| {
                    let (right, lower) =
                        (x * cosine + y * sine + center_x, y * cosine - x * sine + center_y);
                    pixel(plane, [dims[2], dims[3]], lower, right)
                };
                results.push(all.map(sample).sum::<f64>() / (ys.len() * xs.len()) as f64);
            }
        }
    }
    let columns = if has_image { 6 } else { 5 };
    let mut expected = list(&results, &[count, dims[1], cells[0], cells[1]]);
    let mut x = x;
    if is_last {
        (x, expected) = (channels_last(&x), channels_last(&expected));
    }
    let attributes = vec![
        ("pooled_h", AttributeValue::Long(cells[0] as i64)),
        ("pooled_w", AttributeValue::Long(cells[1] as i64)),
        ("spatial_scale", AttributeValue::Float(scale as f32)),
        ("sampling_ratio", AttributeValue::Long(samples)),
        ("aligned", AttributeValue::Long(is_aligned.into())),
        ("order", text(if is_last { "NHWC" } else { "NCHW" })),
    ];
    let inputs = vec![("", x), ("", list(&rows, &[count, columns]))];
    let single = Single::new("RoIAlignRotated", inputs, attributes, vec![""]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, vec![expected]))
}
