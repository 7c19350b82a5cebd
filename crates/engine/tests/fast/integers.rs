//! 8-bit integers.

use lodstone_engine::{Mode, Value};
use lodstone_model::{AttributeValue, DType, Op, Operand, Tensor};
use lodstone_store::Blob;

use super::case::{Case, op};
use super::convolutions::CONVOLUTIONS;

/// Returns a list of single-precision numbers.
fn list(values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::dense(DType::Float32, vec![values.len() as u64], Blob::memory(bytes))
}

/// Returns a number without dims: a zero point.
fn zero_point(dtype: DType, value: u8) -> Tensor {
    Tensor::dense(dtype, vec![], Blob::memory(vec![value]))
}

/// The types and zero points of the rows and of the weights. More zero points than one are those of columns.
const INTEGERS: &[(DType, u8, DType, &[u8])] = &[
    (DType::Uint8, 117, DType::Int8, &[0]),
    (DType::Uint8, 0, DType::Uint8, &[128]),
    (DType::Int8, 0xf3, DType::Int8, &[5]),
    (DType::Int8, 0x80, DType::Uint8, &[3, 200]),
    (DType::Uint8, 255, DType::Int8, &[0x80, 0, 7]),
];

#[test]
fn products_of_8_bit_integers_are_exact() {
    let mut ran = 0;
    for (kind, all) in [("ConvInteger", CONVOLUTIONS), ("QLinearConv", CONVOLUTIONS)] {
        for (x, filter, group, lists) in all {
            let mut attributes = vec![("group", AttributeValue::Long(*group))];
            attributes.extend(
                lists.iter().map(|(name, list)| (*name, AttributeValue::Longs(list.to_vec()))),
            );
            ran += integers(kind, x, filter, filter[0], &attributes);
        }
    }
    for (x, weights) in [
        (&[5, 7][..], &[7, 3][..]),
        (&[1, 1000], &[1000, 97]),
        (&[2, 3, 257], &[257, 33]),
        (&[700, 64], &[64, 64]),
        (&[17], &[17, 5]),
        (&[4, 1], &[1, 1]),
        (&[3, 5], &[6, 5]),
        (&[0, 5], &[5, 5]),
    ] {
        for kind in ["MatMulInteger", "QLinearMatMul"] {
            ran += integers(kind, x, weights, weights[1], &[]);
        }
        let turned = [weights[1], weights[0]];
        for (weights, is_turned) in [(weights, 0), (&turned, 1)] {
            let attributes = [
                ("transB", AttributeValue::Long(is_turned)),
                ("alpha", AttributeValue::Float(0.5)),
            ];
            for kind in ["QGemm", "QGemm in single precision"] {
                let columns = weights[usize::from(is_turned == 0)];
                ran += integers(kind, x, weights, columns, &attributes);
            }
        }
    }
    // Five pairs of types each; one product does not fit, and neither do four convolutions. QGemm multiplies matrices.
    assert_eq!(ran, 5 * (2 * 38 + 2 * 7 + 4 * 5));
}

/// Compares an operator on 8-bit integers with the reference; returns the number of pairs of types for which it runs.
fn integers(
    kind: &str,
    x: &[u64],
    weights: &[u64],
    columns: u64,
    attributes: &[(&str, AttributeValue)],
) -> usize {
    let count = weights.iter().product::<u64>();
    let byte = |at: u64| (at.wrapping_mul(2_654_435_761) >> 9).to_le_bytes()[0];
    let run = |(rows, zero, dtype, zeros): &(DType, u8, DType, &[u8])| {
        let names: &[&str] = match kind {
            "QLinearConv" => &["q", "size", "zero", "w", "sizes", "zeros", "own", "center", "bias"],
            "QLinearMatMul" => &["q", "size", "zero", "w", "sizes", "zeros", "own", "center"],
            "QGemm" => &["q", "size", "zero", "w", "sizes", "zeros", "bias", "own", "center"],
            "QGemm in single precision" => &["q", "size", "zero", "w", "sizes", "zeros"],
            _ => &["q", "w", "zero", "zeros"],
        };
        let name = kind.split(' ').next().unwrap_or_default();
        let domain = if name == "QGemm" { "com.microsoft" } else { "" };
        let cycled = |list: &[u8]| -> Vec<u8> {
            list.iter().copied().cycle().take(columns.try_into().unwrap()).collect()
        };
        let zeros = match zeros {
            [one] => zero_point(*dtype, *one),
            all => Tensor::dense(*dtype, vec![columns], Blob::memory(cycled(all))),
        };
        let sizes = cycled(&[3, 5, 1]).into_iter().map(|one| f32::from(one) / 700.0);
        let sizes: Vec<f32> = sizes.collect();
        let bias: Vec<u8> = (0..columns).flat_map(|at| i32::from(byte(at)).to_le_bytes()).collect();
        let bytes: Vec<u8> = (0..count).map(byte).collect();
        let constants = vec![
            ("size".to_owned(), list(&[0.008])),
            ("zero".to_owned(), zero_point(*rows, *zero)),
            ("w".to_owned(), Tensor::dense(*dtype, weights.to_vec(), Blob::memory(bytes))),
            ("zeros".to_owned(), zeros),
            ("sizes".to_owned(), list(&sizes)),
            ("own".to_owned(), list(&[0.03])),
            ("center".to_owned(), zero_point(*rows, 60)),
            ("bias".to_owned(), Tensor::dense(DType::Int32, vec![columns], Blob::memory(bias))),
        ];
        let case = Case {
            name: format!("{kind} {x:?} {weights:?} {rows} {dtype}"),
            x: x.to_vec(),
            ops: vec![
                op("QuantizeLinear", &["x", "size", "zero"], "q", &[]),
                Op { domain: domain.to_owned(), ..op(name, names, "y", attributes) },
            ],
            constants,
            outputs: vec!["y".to_owned()],
            // Sums are exact.
            terms: 0,
        };
        case.check()
    };
    INTEGERS.iter().filter(|of| run(of)).count()
}

#[test]
fn sums_and_products_of_codes_are_the_same() {
    // A convolution before leaves channels innermost in memory.
    for (x, pooled, is_convolved) in [
        (&[2, 3, 40, 41][..], &[1, 1][..], false),
        (&[1, 2, 1, 1], &[1, 1], false),
        (&[2, 3, 40, 41], &[1, 1], true),
        // Other dims, which the kernel broadcasts.
        (&[1, 2, 7, 5], &[7, 5], false),
        (&[1, 5, 7, 5], &[7, 5], true),
        (&[3, 2, 7, 5], &[7, 5], true),
        (&[3, 2, 7, 5], &[7, 1], true),
    ] {
        for (dtype, kind) in [
            (DType::Uint8, "QLinearAdd"),
            (DType::Int8, "QLinearAdd"),
            (DType::Uint8, "QLinearMul"),
            (DType::Int8, "QLinearMul"),
        ] {
            let window = [("kernel_shape", AttributeValue::Longs(pooled.to_vec()))];
            let quantized = ["q", "size", "zero", "r", "other", "center", "own", "zero"];
            let channels = x[1];
            let same: Vec<f32> = (0..channels * channels)
                .map(|at| if at % (channels + 1) == 0 { 1.0 } else { 0.0 })
                .collect();
            let filter = Tensor { shape: vec![channels, channels, 1, 1], ..list(&same) };
            let from = if is_convolved { "convolved" } else { "x" };
            let case = Case {
                name: format!("{kind} {dtype} {x:?} {pooled:?} {is_convolved}"),
                x: x.to_vec(),
                ops: vec![
                    op("Conv", &["x", "filter"], "convolved", &[]),
                    op("QuantizeLinear", &[from, "size", "zero"], "q", &[]),
                    op("AveragePool", &[from], "pooled", &window),
                    op("QuantizeLinear", &["pooled", "other", "center"], "r", &[]),
                    Op { domain: "com.microsoft".to_owned(), ..op(kind, &quantized, "y", &[]) },
                ],
                constants: vec![
                    ("filter".to_owned(), filter),
                    ("size".to_owned(), list(&[0.008])),
                    ("other".to_owned(), list(&[0.011])),
                    ("own".to_owned(), list(&[0.0123])),
                    ("zero".to_owned(), zero_point(dtype, 100)),
                    ("center".to_owned(), zero_point(dtype, 0xf7)),
                ],
                outputs: vec!["y".to_owned()],
                terms: 0,
            };
            assert!(case.check(), "{}", case.name);
        }
    }
}

/// Codes, and what they stand for, are the same bits; NaN and infinities, too.
#[test]
fn quantized_tensors_are_the_same() {
    for dims in [&[3, 5][..], &[1], &[2, 3, 40, 41], &[0, 4]] {
        for (dtype, zero, scale) in [
            (DType::Uint8, 117, 0.013),
            (DType::Int8, 0xf0, 0.5),
            (DType::Uint8, 0, 1e-30),
            (DType::Int8, 0x80, f32::INFINITY),
        ] {
            let names = ["q", "real", "code", "scale", "zero", "back"];
            let case = Case {
                name: format!("{dims:?} {dtype} {zero} {scale}"),
                x: dims.to_vec(),
                ops: vec![
                    op("Log", &["x"], "log", &[]),
                    op("QuantizeLinear", &["log", "size", "center"], "q", &[]),
                    op("DequantizeLinear", &["q", "size", "center"], "real", &[]),
                    Op {
                        outputs: vec![Operand {
                            slot: String::new(),
                            args: ["code", "scale", "zero"].map(str::to_owned).to_vec(),
                        }],
                        ..op("DynamicQuantizeLinear", &["x"], "", &[])
                    },
                    op("DequantizeLinear", &["code", "scale", "zero"], "back", &[]),
                ],
                constants: vec![
                    ("size".to_owned(), list(&[scale])),
                    ("center".to_owned(), zero_point(dtype, zero)),
                ],
                outputs: names.map(str::to_owned).to_vec(),
                terms: 0,
            };
            assert!(case.check(), "{}", case.name);
        }
    }
}

/// An operator between dequantization and quantization.
fn between(kind: &str, weights: &[u64], zero: u8, dtype: DType, with_bias: bool) -> Case {
    let columns = if kind == "Conv" { weights[0] } else { weights[1] };
    let byte = |at: u64| (at.wrapping_mul(2_654_435_761) >> 9).to_le_bytes()[0];
    let bytes: Vec<u8> = (0..weights.iter().product()).map(byte).collect();
    let sizes: Vec<f32> = (0..columns).map(|at| f32::from(byte(at)) / 9000.0 + 0.001).collect();
    let bias: Vec<u8> =
        (0..columns).flat_map(|at| (i32::from(byte(at)) * 90).to_le_bytes()).collect();
    let of_bias: Vec<f32> = sizes.iter().map(|size| size * 0.008).collect();
    let zeros = Tensor::dense(DType::Int8, vec![columns], Blob::memory(vec![0; sizes.len()]));
    let none = vec![0; 4 * sizes.len()];
    let axis = |axis: i64| [("axis", AttributeValue::Long(axis))];
    let mut names = vec!["real", "weights"];
    names.extend(with_bias.then_some("bias"));
    Case {
        name: format!("{kind} {weights:?} {zero} {dtype} {with_bias}"),
        x: if kind == "Conv" { vec![2, weights[1], 9, 8] } else { vec![5, weights[0]] },
        ops: vec![
            op("QuantizeLinear", &["x", "size", "middle"], "codes", &[]),
            op("DequantizeLinear", &["codes", "size", "middle"], "real", &[]),
            op(
                "DequantizeLinear",
                &["w", "sizes", "zeros"],
                "weights",
                &axis(if kind == "Conv" { 0 } else { 1 }),
            ),
            op("DequantizeLinear", &["b", "of bias", "none"], "bias", &axis(0)),
            op(kind, &names, "y", &[]),
            op("Relu", &["y"], "positive", &[]),
            op("QuantizeLinear", &["positive", "own", "least"], "out", &[]),
            op("DequantizeLinear", &["out", "own", "least"], "result", &[]),
        ],
        constants: vec![
            ("size".to_owned(), list(&[0.008])),
            ("middle".to_owned(), zero_point(dtype, 120)),
            ("w".to_owned(), Tensor::dense(DType::Int8, weights.to_vec(), Blob::memory(bytes))),
            ("sizes".to_owned(), list(&sizes)),
            ("zeros".to_owned(), zeros),
            ("b".to_owned(), Tensor::dense(DType::Int32, vec![columns], Blob::memory(bias))),
            ("of bias".to_owned(), list(&of_bias)),
            ("none".to_owned(), Tensor::dense(DType::Int32, vec![columns], Blob::memory(none))),
            ("own".to_owned(), list(&[0.05])),
            ("least".to_owned(), zero_point(dtype, zero)),
        ],
        outputs: vec!["result".to_owned()],
        terms: 0,
    }
}

/// Codes differ by at most one, and only where a result is near the middle between two.
#[test]
fn operators_between_quantizations_compute_on_codes() {
    for (kind, weights) in [
        ("Conv", &[17, 3, 3, 3][..]),
        ("Conv", &[8, 20, 1, 1]),
        ("MatMul", &[97, 33]),
        ("Gemm", &[64, 40]),
        ("Conv", &[4, 2, 3]),
    ] {
        for (dtype, zero, has_least) in [
            (DType::Uint8, 0, true),
            (DType::Int8, 0x80, true),
            // `Relu` does more than the quantization.
            (DType::Uint8, 20, false),
        ] {
            for with_bias in [true, false] {
                let mut case = between(kind, weights, zero, dtype, with_bias && kind != "MatMul");
                if weights.len() == 3 {
                    case.x = vec![2, 2, 30];
                }
                let name = &case.name;
                let [(reference, _), (fast, steps)] = [Mode::Reference, Mode::Fast].map(|mode| {
                    let made = case.measured(mode, 2);
                    let (made, steps) = made.unwrap_or_else(|error| panic!("{name}: {error}"));
                    (made[0].dense().unwrap().to_f64().unwrap(), steps)
                });
                let mut differ = 0;
                for (found, expected) in fast.iter().zip(&reference) {
                    assert!((found - expected).abs() < 0.051, "{name}: {found} is not {expected}");
                    differ += usize::from(found != expected);
                }
                assert!(differ * 200 <= fast.len(), "{name}: {differ} of {}", fast.len());
                assert!(
                    reference.iter().filter(|it| **it > 0.0).count() * 5 > fast.len(),
                    "{name}"
                );
                // A quantization, the operator, and a dequantization.
                assert_eq!(steps == 3, has_least, "{name}: {steps} operators");
            }
        }
    }
}

/// Zero points, scales and biases of unusual types and dims are left to the reference, its errors too.
#[test]
fn unusual_scales_and_zero_points_are_left_to_the_reference() {
    let bytes = |dtype: DType, shape: &[u64]| {
        let count = shape.iter().product::<u64>();
        let bytes: Vec<u8> = (0..count).map(|at| 100 + at.to_le_bytes()[0]).collect();
        Tensor::dense(dtype, shape.to_vec(), Blob::memory(bytes))
    };
    let floats = |shape: &[u64]| {
        let count = usize::try_from(shape.iter().product::<u64>()).unwrap();
        let tensor = list(&vec![0.01; count]);
        Tensor { shape: shape.to_vec(), ..tensor }
    };
    let longs = |shape: &[u64]| {
        let count = shape.iter().product::<u64>();
        let bytes: Vec<u8> =
            (0..count).flat_map(|at| (i32::try_from(at).unwrap() * 7).to_le_bytes()).collect();
        Tensor::dense(DType::Int32, shape.to_vec(), Blob::memory(bytes))
    };
    let mut others = vec![bytes(DType::Int8, &[1]), bytes(DType::Int8, &[4])];
    for shape in [&[][..], &[1], &[4], &[4, 1], &[1, 4], &[1, 1, 1], &[0], &[3]] {
        others.extend([bytes(DType::Uint8, shape), floats(shape), longs(shape)]);
    }
    let (quantized, mut ran) = (["q", "size", "zero", "w", "sizes", "zeros"], 0);
    let kinds: [(&str, &[&str]); 5] = [
        ("MatMulInteger", &["q", "w", "zero", "zeros"]),
        ("QLinearMatMul", &["own", "center"]),
        ("QGemm", &["bias", "own", "center"]),
        ("QLinearAdd", &["own", "center"]),
        ("QuantizeLinear", &["x", "size", "zero"]),
    ];
    for (kind, more) in kinds {
        let names: Vec<&str> = match kind.starts_with("QL") || kind == "QGemm" {
            true => quantized.iter().chain(more).copied().collect(),
            false => more.to_vec(),
        };
        for unusual in names.iter().filter(|name| !["q", "w", "x"].contains(name)) {
            for other in &others {
                let mut constants = vec![
                    ("size".to_owned(), list(&[0.008])),
                    ("zero".to_owned(), zero_point(DType::Uint8, 117)),
                    ("w".to_owned(), bytes(DType::Uint8, &[4, 4])),
                    ("sizes".to_owned(), list(&[0.02])),
                    ("zeros".to_owned(), zero_point(DType::Uint8, 99)),
                    ("own".to_owned(), list(&[0.7])),
                    ("center".to_owned(), zero_point(DType::Uint8, 60)),
                    ("bias".to_owned(), longs(&[4])),
                ];
                let first = constants.iter_mut().find(|(name, _)| name == unusual).unwrap();
                first.1 = other.clone();
                let domain =
                    if ["QGemm", "QLinearAdd"].contains(&kind) { "com.microsoft" } else { "" };
                let case = Case {
                    name: format!("{kind}, `{unusual}` is {} {:?}", other.dtype, other.shape),
                    x: vec![4, 4],
                    ops: vec![
                        op("QuantizeLinear", &["x", "scale", "first"], "q", &[]),
                        Op { domain: domain.to_owned(), ..op(kind, &names, "y", &[]) },
                    ],
                    constants: constants
                        .into_iter()
                        .chain([
                            ("scale".to_owned(), list(&[0.008])),
                            ("first".to_owned(), zero_point(DType::Uint8, 117)),
                        ])
                        .collect(),
                    outputs: vec!["y".to_owned()],
                    terms: 0,
                };
                ran += usize::from(case.check());
            }
        }
    }
    assert!(ran > 100, "{ran}");
}

/// The bits of an output of a quantized network do not depend on what else is an output.
#[test]
fn further_outputs_do_not_change_codes() {
    for kind in ["Conv", "Gemm"] {
        let weights: &[u64] = if kind == "Conv" { &[17, 3, 3, 3] } else { &[64, 40] };
        let mut case = between(kind, weights, 0, DType::Uint8, true);
        let alone = case.run(Mode::Fast, 1).unwrap();
        case.outputs.extend(["y", "positive"].map(str::to_owned));
        let all = case.run(Mode::Fast, 1).unwrap();
        let bytes = |values: &[Value]| values[0].dense().unwrap().bytes().unwrap();
        assert_eq!(bytes(&alone), bytes(&all), "{kind}");
        assert_eq!(all.len(), 3);
    }
}

/// `Add` and `Mul` between quantizations, with dims that differ, too.
#[test]
fn sums_and_products_between_quantizations_compute_on_codes() {
    for kind in ["Add", "Mul"] {
        for window in [[1, 1], [9, 7]] {
            let window = [("kernel_shape", AttributeValue::Longs(window.to_vec()))];
            let case = Case {
                name: format!("{kind} {window:?}"),
                x: vec![2, 5, 9, 7],
                ops: vec![
                    op("AveragePool", &["x"], "pooled", &window),
                    op("QuantizeLinear", &["x", "size", "zero"], "q", &[]),
                    op("QuantizeLinear", &["pooled", "other", "center"], "r", &[]),
                    op("DequantizeLinear", &["q", "size", "zero"], "left", &[]),
                    op("DequantizeLinear", &["r", "other", "center"], "right", &[]),
                    op(kind, &["left", "right"], "y", &[]),
                    op("QuantizeLinear", &["y", "own", "zero"], "out", &[]),
                ],
                constants: vec![
                    ("size".to_owned(), list(&[0.008])),
                    ("other".to_owned(), list(&[0.011])),
                    ("own".to_owned(), list(&[0.0123])),
                    ("zero".to_owned(), zero_point(DType::Uint8, 100)),
                    ("center".to_owned(), zero_point(DType::Uint8, 117)),
                ],
                outputs: vec!["out".to_owned()],
                terms: 0,
            };
            let [(reference, _), (fast, steps)] = [Mode::Reference, Mode::Fast].map(|mode| {
                let (made, steps) = case.measured(mode, 2).unwrap();
                (made[0].dense().unwrap().to_f64().unwrap(), steps)
            });
            assert_eq!(steps, 4, "{}", case.name);
            let differ = reference.iter().zip(&fast).filter(|(a, b)| a != b).count();
            assert!(differ * 100 <= fast.len(), "{}: {differ} of {}", case.name, fast.len());
            assert!(reference.iter().zip(&fast).all(|(a, b)| (a - b).abs() <= 1.0));
        }
    }
}
