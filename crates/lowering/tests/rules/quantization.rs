//! Quantization with random attributes, compared with the formulas of the frameworks' kernels, in single precision.

use libtest_mimic::{Failed, Trial};
use lodstone_model::{AttributeValue, DType, Tensor, ValueType};
use lodstone_store::Blob;

use super::random::{Random, differences};
use super::recorded;
use super::single::{PADDLE, Single, floats, text, trials_of};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = trials_of("quantization");
    vec![
        trial("paddle", "abs_max", PADDLE, paddle_abs_max),
        trial("paddle", "given", PADDLE, paddle_given),
        trial("paddle", "moving", PADDLE, paddle_moving),
        trial("paddle", "dequantize", PADDLE, paddle_dequantize),
        trial("mxnet", "quantize", Single::mxnet, mxnet_quantize),
        trial("mxnet", "requantize", Single::mxnet, mxnet_requantize),
        trial("mxnet", "dequantize", Single::mxnet, mxnet_dequantize),
        trial("mxnet", "pairs", Single::mxnet, mxnet_pairs),
        trial("mxnet", "fully_connected", Single::mxnet, mxnet_dense),
        trial("torch", "quantize", Single::torch, torch_quantize),
        trial("torch", "fake_quantize", Single::torch, torch_fake),
        trial("torch", "choose_qparams", Single::torch, torch_choose),
        trial("caffe2", "Int8Quantize", Single::caffe2, caffe2_quantize),
        Trial::test("quantization::rejected", rejected),
        Trial::test("quantization::integers_pass", integers_pass),
    ]
}

/// What the frameworks reject, or have no defined result for.
fn rejected() -> Result<(), Failed> {
    let mxnet = |name: &str, types: &[DType]| {
        let ranges = types.iter().flat_map(|_| [one(-1.0), one(1.0)]);
        let data = types.iter().map(|dtype| integers(*dtype, &[1, 2], &[2]));
        let inputs = data.chain(ranges).map(|tensor| ("", tensor)).collect();
        let (kind, outputs) = (format!("_contrib_{name}"), vec!["0"]);
        Single::new(kind, inputs, Vec::new(), outputs).mxnet()
    };
    let torch = |least: i64, most: i64, dtype: DType| {
        let attributes = vec![
            ("scale", AttributeValue::Double(0.5)),
            ("zero_point", AttributeValue::Long(0)),
            ("quant_min", AttributeValue::Long(least)),
            ("quant_max", AttributeValue::Long(most)),
            dtype_attribute(dtype),
        ];
        let inputs = vec![("input", one(1.0))];
        let kind = "quantized_decomposed::quantize_per_tensor".to_owned();
        Single::new(kind, inputs, attributes, vec!["0"]).torch()
    };
    let all = [
        (mxnet("dequantize", &[DType::Int32]), "expected integers of 8 bits, found int32"),
        (mxnet("quantized_elemwise_mul", &[DType::Uint8; 2]), "expected int8, found uint8"),
        (
            mxnet("quantized_elemwise_add", &[DType::Int8, DType::Uint8]),
            "expected integers of one type",
        ),
        (torch(-128, 127, DType::Uint8), "expected integers of uint8, found -128 to 127"),
        (torch(0, 256, DType::Uint8), "expected integers of uint8, found 0 to 256"),
        (torch(1, 0, DType::Int8), "expected integers up to 0, found 1"),
    ];
    for (number, (result, expected)) in all.into_iter().enumerate() {
        match result {
            Err(error) if error.contains(expected) => {}
            other => return Err(format!("case {number}: {other:?}").into()),
        }
    }
    Ok(())
}

/// `_contrib_quantize_v2` of integers.
fn integers_pass() -> Result<(), Failed> {
    for (dtype, least, most) in [(DType::Int8, -127.5, 127.5), (DType::Uint8, 0.0, 255.5)] {
        let data = integers(dtype, &[1, 2, 100], &[3]);
        let attributes = vec![("out_type", text(dtype))];
        let (kind, inputs) = ("_contrib_quantize_v2".to_owned(), vec![("", data.clone())]);
        let outputs = vec!["0", "1", "2"];
        let found = Single::new(kind, inputs, attributes, outputs).mxnet()?;
        if let Some(what) = differences(&found, &[data, one(least), one(most)], 0.0) {
            return Err(what.into());
        }
    }
    Ok(())
}

/// Integers of a type with dims.
fn integers(dtype: DType, elements: &[i64], dims: &[usize]) -> Tensor {
    let wide = elements.iter();
    let bytes: Vec<u8> = match dtype {
        DType::Int8 | DType::Uint8 | DType::Bool => wide.map(|it| it.to_le_bytes()[0]).collect(),
        DType::Int32 => wide.flat_map(|it| (*it as i32).to_le_bytes()).collect(),
        _ => wide.flat_map(|it| it.to_le_bytes()).collect(),
    };
    Tensor::dense(dtype, dims.iter().map(|dim| *dim as u64).collect(), Blob::memory(bytes))
}

fn singles(tensor: &Tensor) -> Vec<f32> {
    recorded::elements(tensor).into_iter().map(|it| it as f32).collect()
}

fn longs(tensor: &Tensor) -> Vec<i64> {
    recorded::elements(tensor).into_iter().map(|it| it as i64).collect()
}

fn dims(random: &mut Random, least: usize) -> Vec<usize> {
    let rank = random.size(least, 4);
    (0..rank).map(|_| random.size(1, 4)).collect()
}

/// Returns the index along an axis of the element at a place.
fn index(dims: &[usize], place: usize, axis: usize) -> usize {
    place / dims[axis + 1..].iter().product::<usize>() % dims[axis]
}

/// Returns numbers from -2 to 2, of which many are halves of steps.
fn numbers(random: &mut Random, dims: &[usize]) -> Tensor {
    let count = dims.iter().product();
    let is_coarse = random.flag();
    let mut number = || match is_coarse {
        true => random.number(-16, 16) as f32 / 8.0,
        false => random.real(-2.0, 2.0) as f32,
    };
    floats(&(0..count).map(|_| number()).collect::<Vec<_>>(), dims)
}

/// Returns a scale, by which halves of steps occur if it is a power of 2.
fn scale(random: &mut Random) -> f32 {
    if random.flag() { random.pick(&[0.25, 0.5, 0.125]) } else { random.real(0.01, 0.3) as f32 }
}

fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |most, it| most.max(it.abs()))
}

/// `fake_quantize_op.h` of PaddlePaddle 2.6.2.
struct Paddle {
    greatest: f32,
    is_away: bool,
}

impl Paddle {
    fn of(random: &mut Random) -> (Self, Vec<(&'static str, AttributeValue)>) {
        let bits = random.pick(&[2, 4, 8, 8, 16]);
        let round_type = random.pick(&[0, 1]);
        let attributes = vec![
            ("bit_length", AttributeValue::Int(bits)),
            ("round_type", AttributeValue::Int(round_type)),
        ];
        let greatest = ((1 << (bits - 1)) - 1) as f32;
        (Self { greatest, is_away: round_type == 1 }, attributes)
    }

    fn quantized(&self, x: f32, scale: f32) -> f32 {
        let inverse = if scale <= 1e-30 { 1.0 / (scale + 1e-6) } else { 1.0 / scale };
        match self.is_away {
            true => (self.greatest * inverse * x.clamp(-scale, scale)).round(),
            false => {
                let steps = (self.greatest * inverse * x).round_ties_even();
                steps.clamp(-self.greatest - 1.0, self.greatest)
            }
        }
    }

    fn both(&self, x: f32, scale: f32) -> f32 {
        self.quantized(x, scale) * scale / self.greatest
    }
}

fn paddle_abs_max(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 2);
    let (by, mut attributes) = Paddle::of(random);
    let x = match random.size(0, 9) {
        0 => floats(&vec![0.0; dims.iter().product()], &dims),
        _ => numbers(random, &dims),
    };
    let (is_back, is_channels) = (random.flag(), random.flag());
    let axis = random.size(0, 1);
    let elements = singles(&x);
    let group = |place: usize| if is_channels { index(&dims, place, axis) } else { 0 };
    let mut scales = vec![0.0_f32; if is_channels { dims[axis] } else { 1 }];
    for (place, it) in elements.iter().enumerate() {
        scales[group(place)] = scales[group(place)].max(it.abs());
    }
    let each = elements.iter().enumerate().map(|(place, it)| {
        let scale = scales[group(place)];
        if is_back { by.both(*it, scale) } else { by.quantized(*it, scale) }
    });
    let expected = vec![floats(&each.collect::<Vec<_>>(), &dims), floats(&scales, &[scales.len()])];
    if is_channels {
        attributes.push(("quant_axis", AttributeValue::Int(axis as i32)));
    }
    let channels = if is_channels { "channel_wise_" } else { "" };
    let back = if is_back { "dequantize_" } else { "" };
    let kind = format!("fake_{channels}quantize_{back}abs_max");
    let outputs = vec!["Out", "OutScale"];
    let single = Single::new(kind, vec![("X", x)], attributes, outputs);
    Some((single, expected))
}

/// With given scales.
fn paddle_given(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 2);
    let (by, mut attributes) = Paddle::of(random);
    let x = numbers(random, &dims);
    let kind = random.pick(&[
        "quantize_linear",
        "fake_quantize_range_abs_max",
        "fake_quantize_moving_average_abs_max",
        "fake_quantize_dequantize_moving_average_abs_max",
    ]);
    let is_linear = kind == "quantize_linear";
    let axis = (is_linear && random.flag()).then(|| random.size(0, 1));
    let count = axis.map_or(1, |axis| dims[axis]);
    let mut scale = || match random.size(0, 5) {
        0 => random.pick(&[0.0, 1e-31]),
        1 | 2 => by.greatest * random.pick(&[0.125, 0.25]),
        _ => random.real(0.1, 2.0) as f32,
    };
    let scales: Vec<f32> = (0..count).map(|_| scale()).collect();
    let elements = singles(&x);
    let each = elements.iter().enumerate().map(|(place, it)| {
        let scale = scales[axis.map_or(0, |axis| index(&dims, place, axis))];
        if kind.contains("dequantize") { by.both(*it, scale) } else { by.quantized(*it, scale) }
    });
    let expected = vec![floats(&each.collect::<Vec<_>>(), &dims)];
    attributes.push(("is_test", AttributeValue::Bool(true)));
    let scales = floats(&scales, &[count]);
    let mut inputs = vec![("X", x)];
    match is_linear {
        true => {
            let axis = axis.map_or(-1, |axis| axis as i32);
            attributes.push(("quant_axis", AttributeValue::Int(axis)));
            inputs.extend([("Scale", scales), ("ZeroPoint", floats(&vec![0.0; count], &[count]))]);
        }
        false => inputs.push(("InScale", scales)),
    }
    let outputs = vec![if is_linear { "Y" } else { "Out" }];
    Some((Single::new(kind, inputs, attributes, outputs), expected))
}

/// `FindMovingAverageAbsMaxFunctor`.
fn paddle_moving(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 1);
    let (by, mut attributes) = Paddle::of(random);
    let x = numbers(random, &dims);
    let is_back = random.flag();
    let rate = random.real(0.1, 0.95) as f32;
    let (accumulated, state) = (random.real(0.5, 3.0) as f32, random.real(1.0, 3.0) as f32);
    let elements = singles(&x);
    let new_state = rate * state + 1.0;
    let new_accumulated = rate * accumulated + largest(&elements);
    let scale = new_accumulated / new_state;
    let each = elements.iter().map(|it| match is_back {
        true => by.both(*it, scale),
        false => by.quantized(*it, scale),
    });
    let one = |number: f32| floats(&[number], &[1]);
    let expected = vec![
        floats(&each.collect::<Vec<_>>(), &dims),
        one(scale),
        one(new_state),
        one(new_accumulated),
    ];
    attributes.extend([
        ("moving_rate", AttributeValue::Float(rate)),
        ("is_test", AttributeValue::Bool(false)),
    ]);
    let inputs = vec![
        ("X", x),
        ("InScale", one(1.0)),
        ("InAccum", one(accumulated)),
        ("InState", one(state)),
    ];
    let back = if is_back { "dequantize_" } else { "" };
    let kind = format!("fake_quantize_{back}moving_average_abs_max");
    let outputs = vec!["Out", "OutScale", "OutState", "OutAccum"];
    Some((Single::new(kind, inputs, attributes, outputs), expected))
}

fn paddle_dequantize(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 2);
    let count: usize = dims.iter().product();
    let steps: Vec<f32> = (0..count).map(|_| random.number(-128, 127) as f32).collect();
    let kind = random.pick(&[
        "dequantize_linear",
        "fake_dequantize_max_abs",
        "fake_channel_wise_dequantize_max_abs",
    ]);
    let is_linear = kind == "dequantize_linear";
    let axis = match kind {
        "fake_dequantize_max_abs" => None,
        "dequantize_linear" if random.flag() => None,
        _ => Some(random.size(0, 1)),
    };
    let number = axis.map_or(1, |axis| dims[axis]);
    let scales: Vec<f32> = (0..number).map(|_| random.real(0.1, 2.0) as f32).collect();
    let bits = random.pick(&[4, 8]);
    let greatest = ((1 << (bits - 1)) - 1) as f32;
    let each = steps.iter().enumerate().map(|(place, it)| {
        it * scales[axis.map_or(0, |axis| index(&dims, place, axis))] / greatest
    });
    let expected = vec![floats(&each.collect::<Vec<_>>(), &dims)];
    let axis = axis.map_or(-1, |axis| axis as i32);
    let attributes = match kind {
        "fake_dequantize_max_abs" => vec![("max_range", AttributeValue::Float(greatest))],
        "dequantize_linear" => vec![
            ("quant_axis", AttributeValue::Int(axis)),
            ("bit_length", AttributeValue::Int(bits)),
        ],
        _ => vec![
            ("quant_axis", AttributeValue::Int(axis)),
            ("quant_bits", AttributeValue::Ints(vec![bits])),
        ],
    };
    let slot = if axis >= 0 && !is_linear { "Scales" } else { "Scale" };
    let mut inputs = vec![("X", floats(&steps, &dims)), (slot, floats(&scales, &[number]))];
    if is_linear {
        inputs.push(("ZeroPoint", floats(&vec![0.0; number], &[number])));
    }
    let outputs = vec![if is_linear { "Y" } else { "Out" }];
    Some((Single::new(kind, inputs, attributes, outputs), expected))
}

/// The kernels of MXNet 1.9.1 by oneDNN, as they ran.
fn mxnet_integers(x: &[f32], largest: f32, dtype: DType, is_halved: bool) -> Vec<i64> {
    let (least, most) = if dtype == DType::Int8 { (-128.0, 127.0) } else { (0.0, 255.0) };
    let greatest = if is_halved { most + 0.5 } else { most };
    let scale = greatest / largest;
    x.iter().map(|it| (it * scale).round_ties_even().clamp(least, most) as i64).collect()
}

/// Returns the ends of a range, which may not include 0.
fn range(random: &mut Random) -> (f32, f32) {
    let a = random.real(-2.0, 2.0) as f32;
    let b = random.real(-2.0, 2.0) as f32;
    if a < b { (a, b) } else { (b, a + 0.1) }
}

fn one(number: f32) -> Tensor {
    floats(&[number], &[1])
}

fn largest_of((least, most): (f32, f32)) -> f32 {
    least.abs().max(most.abs())
}

fn calibrated((least, most): (f32, f32)) -> [(&'static str, AttributeValue); 2] {
    [("min_calib_range", text(least)), ("max_calib_range", text(most))]
}

fn mxnet_quantize(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 1);
    let x = numbers(random, &dims);
    let elements = singles(&x);
    let dtype = random.pick(&[DType::Int8, DType::Uint8]);
    let is_second = random.flag();
    let is_calibrated = is_second && random.flag();
    let own = elements.iter().fold((f32::MAX, f32::MIN), |(a, b), it| (a.min(*it), b.max(*it)));
    let given = range(random);
    let range = if is_second && !is_calibrated { own } else { given };
    let most = largest_of(range);
    if most == 0.0 {
        return None;
    }
    let data = integers(dtype, &mxnet_integers(&elements, most, dtype, is_second), &dims);
    let ends = if dtype == DType::Int8 { (-most, most) } else { range };
    let mut attributes = vec![("out_type", text(dtype))];
    let mut inputs = vec![("", x)];
    if is_calibrated {
        attributes.extend(calibrated(range));
    }
    if !is_second {
        inputs.extend([("", one(range.0)), ("", one(range.1))]);
    }
    let kind = if is_second { "_contrib_quantize_v2" } else { "_contrib_quantize" }.to_owned();
    let (outputs, is_dynamic) = (vec!["0", "1", "2"], random.size(0, 3) == 0);
    let expected = vec![data, one(ends.0), one(ends.1)];
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, expected))
}

fn mxnet_requantize(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 1);
    let count = dims.iter().product();
    let steps: Vec<i64> = (0..count).map(|_| random.number(-(1 << 30), 1 << 30)).collect();
    let of = range(random);
    let level = largest_of(of) * (1.0 / f64::from(i32::MAX)) as f32;
    let numbers: Vec<f32> = steps.iter().map(|it| *it as f32 * level).collect();
    let given = random.flag().then(|| range(random));
    let dtype = match given {
        Some(_) => random.pick(&[DType::Int8, DType::Uint8]),
        None => DType::Int8,
    };
    let most = given.map_or_else(|| largest(&numbers), largest_of);
    let data = integers(dtype, &mxnet_integers(&numbers, most, dtype, false), &dims);
    let least = if dtype == DType::Int8 { -most } else { 0.0 };
    let mut attributes = vec![("out_type", text(dtype))];
    attributes.extend(given.into_iter().flat_map(calibrated));
    let inputs =
        vec![("", integers(DType::Int32, &steps, &dims)), ("", one(of.0)), ("", one(of.1))];
    let (kind, outputs) = ("_contrib_requantize".to_owned(), vec!["0", "1", "2"]);
    let expected = vec![data, one(least), one(most)];
    Some((Single::new(kind, inputs, attributes, outputs), expected))
}

/// Returns integers of a type, and the dims.
fn steps(random: &mut Random, dtype: DType, dims: &[usize]) -> Tensor {
    let (least, most) = if dtype == DType::Int8 { (-128, 127) } else { (0, 255) };
    let count = dims.iter().product();
    let elements: Vec<i64> = (0..count).map(|_| random.number(least, most)).collect();
    integers(dtype, &elements, dims)
}

fn halved(dtype: DType) -> f32 {
    if dtype == DType::Int8 { 127.5 } else { 255.5 }
}

fn mxnet_dequantize(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 1);
    let dtype = random.pick(&[DType::Int8, DType::Uint8]);
    let (x, range) = (steps(random, dtype, &dims), range(random));
    let level = largest_of(range) / halved(dtype);
    let y: Vec<f32> = singles(&x).iter().map(|it| it * level).collect();
    let inputs = vec![("", x), ("", one(range.0)), ("", one(range.1))];
    let (kind, outputs) = ("_contrib_dequantize".to_owned(), vec!["0"]);
    let single = Single::new(kind, inputs, Vec::new(), outputs);
    Some((single, vec![floats(&y, &dims)]))
}

/// Sums without a calibrated range, and products.
fn mxnet_pairs(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let dims = dims(random, 1);
    let is_sum = random.flag();
    let dtype = if is_sum && random.flag() { DType::Uint8 } else { DType::Int8 };
    let (x, y) = (steps(random, dtype, &dims), steps(random, dtype, &dims));
    let (of_x, of_y) = (range(random), range(random));
    let (a, b) = (largest_of(of_x), largest_of(of_y));
    let pairs: Vec<(i64, i64)> = longs(&x).into_iter().zip(longs(&y)).collect();
    let (data, most) = match is_sum {
        true => {
            let share = (2_147_483_520.0 / f64::from(halved(dtype))) as f32;
            let ratio = |of: f32| of / (a + b) * share;
            let sum = |(x, y): &(i64, i64)| *x as f32 * ratio(a) + *y as f32 * ratio(b);
            let clipped = |it: f32| it.clamp(-2_147_483_520.0, 2_147_483_520.0) as i64;
            (pairs.iter().map(|pair| clipped(sum(pair))).collect::<Vec<_>>(), a + b)
        }
        false => {
            let most = f64::from(a) / 127.0 * f64::from(b) / 127.0 * f64::from(i32::MAX);
            (pairs.iter().map(|(x, y)| x * y).collect(), most as f32)
        }
    };
    let mut inputs = vec![("", x), ("", y)];
    inputs.extend([of_x.0, of_x.1, of_y.0, of_y.1].map(|end| ("", one(end))));
    let name = if is_sum { "add" } else { "mul" };
    let (kind, outputs) = (format!("_contrib_quantized_elemwise_{name}"), vec!["0", "1", "2"]);
    let single = Single::new(kind, inputs, Vec::new(), outputs);
    Some((single, vec![integers(DType::Int32, &data, &dims), one(-most), one(most)]))
}

fn mxnet_dense(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let [rows, depth, units] = [(); 3].map(|()| random.size(1, 4));
    let dtype = random.pick(&[DType::Int8, DType::Uint8]);
    let (x, weight) =
        (steps(random, dtype, &[rows, depth]), steps(random, DType::Int8, &[units, depth]));
    let bias = steps(random, DType::Int8, &[units]);
    let ranges = [range(random), range(random), range(random)];
    let [a, b, _] = ranges.map(|of| f64::from(largest_of(of)));
    let [of_a, of_b, of_c] = ranges.map(largest_of);
    let level = halved(dtype) / of_a * (127.5 / of_b) * of_c / 127.5;
    let (of_x, of_weight) = (longs(&x), longs(&weight));
    let mut data = Vec::new();
    for row in of_x.chunks(depth) {
        for (weights, bias) in of_weight.chunks(depth).zip(longs(&bias)) {
            let offset = bias as f32 * level;
            let sum: i64 = row.iter().zip(weights).map(|(x, weight)| x * weight).sum();
            data.push(sum + offset as i64);
        }
    }
    let whole = if dtype == DType::Int8 { 127.0 } else { 255.0 };
    let most = (a / whole * b / 127.0 * f64::from(i32::MAX)) as f32;
    let mut inputs = vec![("", x), ("", weight), ("", bias)];
    inputs.extend(ranges.iter().flat_map(|of| [("", one(of.0)), ("", one(of.1))]));
    let attributes = vec![("num_hidden", text(units))];
    let kind = "_contrib_quantized_fully_connected".to_owned();
    let (outputs, is_dynamic) = (vec!["0", "1", "2"], false);
    let expected = vec![integers(DType::Int32, &data, &[rows, units]), one(-most), one(most)];
    Some((Single { kind, inputs, attributes, outputs, is_dynamic }, expected))
}

fn dtype_attribute(dtype: DType) -> (&'static str, AttributeValue) {
    ("dtype", AttributeValue::Type(Box::new(ValueType::Scalar(dtype))))
}

/// Returns a type, the least and the greatest integer, and dims, of which one may be 0.
fn torch_types(random: &mut Random) -> (DType, [i64; 2], Vec<usize>) {
    let mut dims = dims(random, 1);
    if random.size(0, 9) == 0 {
        let axis = random.size(0, dims.len() - 1);
        dims[axis] = 0;
    }
    let ranges = [
        (DType::Int8, [-128, 127]),
        (DType::Int8, [-127, 127]),
        (DType::Int8, [-8, 7]),
        (DType::Uint8, [0, 255]),
        (DType::Uint8, [0, 127]),
    ];
    let (dtype, bounds) = random.pick(&ranges);
    (dtype, bounds, dims)
}

/// `fx/_decomposed.py` of PyTorch 2.15: both directions, with a scale and zero point for all, or along an axis.
fn torch_quantize(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (dtype, [least, most], dims) = torch_types(random);
    let axis = random.flag().then(|| random.size(0, dims.len() - 1));
    let count = axis.map_or(1, |axis| dims[axis]);
    let is_back = random.flag();
    let scales: Vec<f32> = (0..count)
        .map(|_| match least == -128 || most == 255 {
            // `QuantizeLinear` divides, where PyTorch multiplies by the inverse.
            true if !is_back => random.pick(&[0.25, 0.5, 0.125]),
            _ => scale(random),
        })
        .collect();
    let zeros: Vec<i64> = (0..count).map(|_| random.number(least, most)).collect();
    let x = match is_back {
        true => {
            let count = dims.iter().product();
            let elements: Vec<i64> = (0..count).map(|_| random.number(least, most)).collect();
            integers(dtype, &elements, &dims)
        }
        false => numbers(random, &dims),
    };
    let each: Vec<f32> = singles(&x)
        .into_iter()
        .enumerate()
        .map(|(place, it)| {
            let at = axis.map_or(0, |axis| index(&dims, place, axis));
            let (scale, zero) = (scales[at], zeros[at] as f32);
            let inverse = match axis {
                Some(_) => 1.0 / scale,
                None => (1.0 / f64::from(scale)) as f32,
            };
            match is_back {
                true => (it - zero) * scale,
                false => ((it * inverse).round_ties_even() + zero).clamp(least as f32, most as f32),
            }
        })
        .collect();
    let expected = match is_back {
        true => floats(&each, &dims),
        false => integers(dtype, &each.iter().map(|it| *it as i64).collect::<Vec<_>>(), &dims),
    };
    let mut attributes = vec![
        ("quant_min", AttributeValue::Long(least)),
        ("quant_max", AttributeValue::Long(most)),
        dtype_attribute(dtype),
    ];
    let mut inputs = vec![("input", x)];
    match axis {
        Some(axis) => {
            attributes.push(("axis", AttributeValue::Long(axis as i64)));
            let zeros = integers(DType::Int64, &zeros, &[count]);
            inputs.extend([("scales", floats(&scales, &[count])), ("zero_points", zeros)]);
        }
        None => attributes.extend([
            ("scale", AttributeValue::Double(scales[0].into())),
            ("zero_point", AttributeValue::Long(zeros[0])),
        ]),
    }
    let direction = if is_back { "dequantize" } else { "quantize" };
    let part = if axis.is_some() { "channel" } else { "tensor" };
    let kind = format!("quantized_decomposed::{direction}_per_{part}");
    Some((Single::new(kind, inputs, attributes, vec!["0"]), vec![expected]))
}

/// `_fake_quantize_tensor_helper` and `_fake_quant_per_channel_cachemask_cpu_helper` of PyTorch 2.15.
fn torch_fake(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (_, [least, most], dims) = torch_types(random);
    let axis = random.flag().then(|| random.size(0, dims.len() - 1));
    let count = axis.map_or(1, |axis| dims[axis]);
    if count == 0 {
        return None;
    }
    let scales: Vec<f32> = (0..count).map(|_| scale(random)).collect();
    let is_float = axis.is_some() && random.flag();
    let zeros: Vec<f32> = (0..count)
        .map(|_| random.number(least, most) as f32)
        .map(|zero| if is_float { zero + 0.5 } else { zero })
        .collect();
    let x = numbers(random, &dims);
    let steps = |place: usize, it: f32| {
        let at = axis.map_or(0, |axis| index(&dims, place, axis));
        let scaled = it * (1.0 / scales[at]);
        match is_float {
            true => (scaled + zeros[at]).round_ties_even(),
            false => scaled.round_ties_even() + zeros[at],
        }
    };
    let elements = singles(&x);
    let each = elements.iter().enumerate().map(|(place, it)| {
        let at = axis.map_or(0, |axis| index(&dims, place, axis));
        (steps(place, *it).clamp(least as f32, most as f32) - zeros[at]) * scales[at]
    });
    let inside = elements
        .iter()
        .enumerate()
        .map(|(place, it)| i64::from((least as f32..=most as f32).contains(&steps(place, *it))));
    let mut expected = vec![floats(&each.collect::<Vec<_>>(), &dims)];
    let has_mask = random.flag();
    if has_mask {
        expected.push(integers(DType::Bool, &inside.collect::<Vec<_>>(), &dims));
    }
    let mut attributes =
        vec![("quant_min", AttributeValue::Long(least)), ("quant_max", AttributeValue::Long(most))];
    let mut inputs = vec![("self", x)];
    match axis {
        Some(axis) => {
            attributes.push(("axis", AttributeValue::Long(axis as i64)));
            let whole: Vec<i64> = zeros.iter().map(|it| *it as i64).collect();
            let zeros = match is_float {
                true => floats(&zeros, &[count]),
                false => integers(DType::Int32, &whole, &[count]),
            };
            inputs.extend([("scale", floats(&scales, &[count])), ("zero_point", zeros)]);
        }
        None => attributes.extend([
            ("scale", AttributeValue::Double(scales[0].into())),
            ("zero_point", AttributeValue::Long(zeros[0] as i64)),
        ]),
    }
    let part = if axis.is_some() { "channel" } else { "tensor" };
    let mask = if has_mask { "_cachemask" } else { "" };
    let kind = format!("aten::fake_quantize_per_{part}_affine{mask}");
    let outputs = ["0", "1"][..expected.len()].to_vec();
    Some((Single::new(kind, inputs, attributes, outputs), expected))
}

/// `determine_qparams` of PyTorch 2.15.
fn torch_choose(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (dtype, [least, most], dims) = torch_types(random);
    if dims.contains(&0) {
        return None;
    }
    let moved = random.pick(&[0.0, 3.0, -3.0]);
    let elements: Vec<f32> = match random.size(0, 9) {
        0 => vec![0.0; dims.iter().product()],
        _ => singles(&numbers(random, &dims)).iter().map(|it| it + moved).collect(),
    };
    let low = elements.iter().fold(0.0_f32, |low, it| low.min(*it));
    let high = elements.iter().fold(0.0_f32, |high, it| high.max(*it));
    let eps = random.pick(&[1e-6, 0.125]);
    let scale = ((high - low) / (most - least) as f32).max(eps);
    let zero = least - (low / scale).round_ties_even() as i64;
    let attributes = vec![
        ("quant_min", AttributeValue::Long(least)),
        ("quant_max", AttributeValue::Long(most)),
        ("eps", AttributeValue::Double(eps.into())),
        dtype_attribute(dtype),
    ];
    let wide = Blob::memory(f64::from(scale).to_le_bytes().to_vec());
    let expected = vec![
        Tensor::dense(DType::Float64, vec![1], wide),
        integers(DType::Int64, &[zero.clamp(least, most)], &[1]),
    ];
    let kind = "quantized_decomposed::choose_qparams".to_owned();
    let (inputs, outputs) = (vec![("input", floats(&elements, &dims))], vec!["0", "1"]);
    Some((Single::new(kind, inputs, attributes, outputs), expected))
}

/// `QuantizeUint8` of `int8_utils.h`. Integers are signed here, less by 128.
fn caffe2_quantize(random: &mut Random) -> Option<(Single, Vec<Tensor>)> {
    let (_, _, dims) = torch_types(random);
    let (x, scale) = (numbers(random, &dims), scale(random));
    let zero = random.pick(&[0, 1, 7, 128, 255]);
    let each = singles(&x).into_iter().map(|it| {
        let steps = zero + (it / scale).round_ties_even() as i64;
        steps.clamp(0, 255) - 128
    });
    let expected = integers(DType::Int8, &each.collect::<Vec<_>>(), &dims);
    let attributes = vec![
        ("Y_scale", AttributeValue::Float(scale)),
        ("Y_zero_point", AttributeValue::Long(zero)),
    ];
    let (kind, inputs) = ("Int8Quantize".to_owned(), vec![("", x)]);
    Some((Single::new(kind, inputs, attributes, vec!["y"]), vec![expected]))
}
