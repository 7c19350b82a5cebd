//! Pooling operators of which the onnx package has no models.

use lodstone_engine::{Dense, Mode};
use lodstone_model::{Attribute, AttributeValue, DType, Op, Operand, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::newest_opset;
use lodstone_store::Blob;

use super::run_op;

fn singles(values: &[f32], shape: Vec<u64>) -> Option<Tensor> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Some(Tensor::dense(DType::Float32, shape, Blob::memory(bytes)))
}

/// The elements of the result.
fn pool(
    kind: &str,
    value: (&str, AttributeValue),
    inputs: &[Option<Tensor>],
) -> Result<Vec<f64>, Finding> {
    let attributes = vec![Attribute { name: value.0.to_owned(), value: value.1 }];
    let op = Op { kind: kind.to_owned(), attributes, ..Op::default() };
    let made = run_op(&op, newest_opset("").expect("known"), inputs, Mode::Fast)?;
    Dense::of(&made[0])?.to_f64()
}

#[test]
fn a_global_norm_is_that_of_all_elements_of_a_channel() {
    let image = singles(&[3.0, -4.0, 0.0, 0.0, 1.0, 1.0, 1.0, -1.0], vec![1, 2, 2, 2]);
    let norm =
        |p| pool("GlobalLpPool", ("p", AttributeValue::Long(p)), std::slice::from_ref(&image));
    assert_eq!(norm(1).expect("computed"), [7.0, 4.0]);
    assert_eq!(norm(2).expect("computed"), [5.0, 2.0]);
    assert!(norm(0).is_err());
}

/// Regions are the image, left, top, right and bottom; the pixels are numbered.
#[test]
fn regions_are_pooled_by_their_maximum() {
    let pixels: Vec<f32> = (0..16_u8).map(f32::from).collect();
    let image = singles(&pixels, vec![1, 1, 4, 4]);
    let pool = |region: [f32; 5], dims: [i64; 2]| {
        let shape = ("pooled_shape", AttributeValue::Longs(dims.to_vec()));
        pool("MaxRoiPool", shape, &[image.clone(), singles(&region, vec![1, 5])])
    };
    assert_eq!(pool([0.0, 0.0, 0.0, 3.0, 3.0], [2, 2]).expect("pooled"), [5.0, 7.0, 13.0, 15.0]);
    assert_eq!(pool([0.0, 1.0, 0.0, 2.0, 2.0], [1, 1]).expect("pooled"), [10.0]);
    // Outside of the image there are no pixels.
    assert_eq!(pool([0.0, 8.0, 8.0, 9.0, 9.0], [1, 1]).expect("pooled"), [0.0]);
    for hostile in [f32::NAN, f32::INFINITY, -1.0, 1.0, 1e30] {
        assert!(pool([hostile, 0.0, 0.0, 3.0, 3.0], [2, 2]).is_err(), "image {hostile}");
    }
    assert!(pool([0.0, f32::NAN, 0.0, 3.0, 3.0], [2, 2]).is_err());
    assert!(pool([0.0; 5], [1 << 40, 1]).is_err());
}

/// Two-dimensional windows over an image.
struct Windows {
    dims: [usize; 2],
    size: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    before: [usize; 2],
    after: [usize; 2],
    columns: bool,
}

impl Windows {
    /// Returns the windows of a number.
    fn of(mut number: usize) -> Self {
        let mut next = |count: usize| {
            let value = number % count;
            number = (number / count).wrapping_mul(31) ^ (number % 97);
            value
        };
        let size = [1 + next(3), 1 + next(4)];
        let mut upto = |most: [usize; 2]| most.map(|most| next(most + 1));
        let (strides, dilations) = (upto([2, 2]).map(|it| it + 1), upto([1, 2]).map(|it| it + 1));
        // Padding as wide as a window gives empty windows.
        let (before, after) = (upto(size), upto(size));
        let dims = upto([5, 8]).map(|it| it + 10);
        // Some have several thousand windows.
        let dims = dims.map(|it| if next(20) == 0 { it * 9 } else { it });
        Self { dims, size, strides, dilations, before, after, columns: next(2) == 1 }
    }

    /// Returns the maximum of each window of the image at `base`, and its index, in floats: comparisons as the program
    /// of the kernel describes them, one element at a time.
    fn greatest(&self, image: &[f64], base: usize) -> (Vec<f64>, Vec<f64>) {
        let [height, width] = self.dims;
        let steps = [0, 1].map(|at| {
            let reach = (self.size[at] - 1) * self.dilations[at] + 1;
            (self.dims[at] + self.before[at] + self.after[at] - reach) / self.strides[at] + 1
        });
        let (mut values, mut places) = (Vec::new(), Vec::new());
        let windows =
            (0..steps[0]).flat_map(|down| (0..steps[1]).map(move |across| [down, across]));
        for window in windows {
            let mut best: Option<(f64, usize)> = None;
            for number in 0..self.size[0] * self.size[1] {
                let inner = [number / self.size[1], number % self.size[1]];
                let [row, column] = [0, 1].map(|at| {
                    (window[at] * self.strides[at] + inner[at] * self.dilations[at])
                        .checked_sub(self.before[at])
                        .filter(|place| *place < self.dims[at])
                });
                let (Some(row), Some(column)) = (row, column) else { continue };
                let value = image[row * width + column];
                let place = if self.columns { column * height + row } else { row * width + column };
                if best.is_none_or(|(best, _)| best.is_nan() || value.is_nan() || value > best) {
                    best = Some((value, base + place));
                }
            }
            values.push(best.map_or(f64::NEG_INFINITY, |(value, _)| value));
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            places.push(best.map_or(-1.0, |(_, place)| place as f64));
        }
        (values, places)
    }
}

#[test]
fn maxima_and_their_indices_are_those_of_each_window() {
    let names = |names: &[&str]| {
        let args = names.iter().map(|name| (*name).to_owned()).collect();
        vec![Operand { slot: String::new(), args }]
    };
    for number in 0..400 {
        let windows = Windows::of(number * 7919);
        let [height, width] = windows.dims;
        let (each, images) = (height * width, 3);
        // Equal elements, NaN and infinities, too.
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let element = |at: usize| match (at * 2_654_435_761 + number) >> 7 & 31 {
            0 if number % 2 == 0 => f64::NAN,
            1 => f64::NEG_INFINITY,
            small => (small / 2) as f64 - 8.0,
        };
        let values: Vec<f64> = (0..images * each).map(element).collect();
        let shape = vec![1, 3, height as u64, width as u64];
        let doubles = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        #[expect(clippy::cast_possible_truncation, reason = "small numbers")]
        let halves: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let inputs = [
            singles(&halves, shape.clone()),
            Some(Tensor::dense(DType::Float64, shape, Blob::memory(doubles))),
        ];
        let longs = |name: &str, values: &[usize]| Attribute {
            name: name.to_owned(),
            value: AttributeValue::Longs(
                values.iter().map(|value| value.cast_signed() as i64).collect(),
            ),
        };
        let order = AttributeValue::Long(windows.columns.into());
        let attributes = vec![
            longs("kernel_shape", &windows.size),
            longs("strides", &windows.strides),
            longs("dilations", &windows.dilations),
            longs("pads", &[windows.before, windows.after].concat()),
            Attribute { name: "storage_order".to_owned(), value: order },
        ];
        let (mut expected, mut places) = (Vec::new(), Vec::new());
        for (image, values) in values.chunks(each).enumerate() {
            let (maxima, indices) = windows.greatest(values, image * each);
            expected.extend(maxima);
            places.extend(indices);
        }
        for input in &inputs {
            for outputs in [&["y"][..], &["y", "indices"]] {
                let (kind, outputs) = ("MaxPool".to_owned(), names(outputs));
                let op = Op { kind, outputs, attributes: attributes.clone(), ..Op::default() };
                let opset = newest_opset("").expect("known");
                let input = std::slice::from_ref(input);
                let made = run_op(&op, opset, input, Mode::Fast).expect("computed");
                let numbers = |at: usize| Dense::of(&made[at]).and_then(|it| it.to_f64());
                let found = numbers(0).expect("numbers");
                let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
                assert_eq!(found.len(), expected.len(), "{number}");
                assert!(found.iter().zip(&expected).all(same), "{number}: {found:?} {expected:?}");
                if made.len() > 1 {
                    assert_eq!(numbers(1).expect("numbers"), places, "{number}");
                }
            }
        }
    }
}
