//! Kernels with packed constants give what the reference kernels give, with odd sizes of every kind.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use lodstone_engine::{
    Budget, Context, Dense, Executable, ExecutableOptions, Mode, Steps, Threads, Value,
};
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Model, Op, Operand, Parameter, Program,
    Tensor, Topology,
};
use lodstone_store::Blob;

/// The largest difference from the reference for each square root of a summand, as a fraction of the largest result: sums
/// are in another order.
const NEAR: f64 = 1e-6;

/// Returns numbers of both signs.
fn numbers(count: u64, seed: u32) -> Vec<u8> {
    let mixed = |at: u32| (at ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(2_654_435_761) >> 8;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let number = |at: u32| (mixed(at) % 2001) as f32 / 1000.0 - 1.0;
    (0..u32::try_from(count).unwrap()).flat_map(|at| number(at).to_le_bytes()).collect()
}

fn tensor(dims: &[u64], seed: u32) -> Tensor {
    let bytes = numbers(dims.iter().product(), seed);
    Tensor::dense(DType::Float32, dims.to_vec(), Blob::memory(bytes))
}

fn op(kind: &str, inputs: &[&str], output: &str, attributes: &[(&str, AttributeValue)]) -> Op {
    let operand = |args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        vec![Operand { slot: String::new(), args }]
    };
    let attributes = attributes
        .iter()
        .map(|(name, value)| Attribute { name: (*name).to_owned(), value: value.clone() });
    Op {
        kind: kind.to_owned(),
        inputs: operand(inputs),
        outputs: operand(&[output]),
        attributes: attributes.collect(),
        ..Op::default()
    }
}

/// A program of `x` with its constants.
struct Case {
    name: String,
    x: Vec<u64>,
    ops: Vec<Op>,
    constants: Vec<(String, Tensor)>,
    outputs: Vec<String>,
    /// The number of summands of a result.
    terms: u64,
}

impl Case {
    fn run(&self, mode: Mode, threads: usize) -> Result<Vec<Value>, String> {
        self.measured(mode, threads).map(|(made, _)| made)
    }

    /// Runs the program; also returns the number of its operators that ran.
    fn measured(&self, mode: Mode, threads: usize) -> Result<(Vec<Value>, u64), String> {
        let block = Block {
            ops: self.ops.clone(),
            inputs: vec!["x".to_owned()],
            outputs: self.outputs.clone(),
            ..Block::default()
        };
        let program = Program::from(Topology {
            operator_versions: vec![(String::new(), 21), ("com.microsoft".to_owned(), 1)],
            blocks: vec![block],
            ..Topology::new(Dialect::Onnx)
        });
        let constants = self.constants.iter();
        let parameters = constants
            .map(|(name, tensor)| Parameter { name: name.clone(), tensor: tensor.clone() })
            .collect();
        let mut model = Model { parameters, ..Model::default() };
        model.set_main(program);
        let (budget, threads) = (Budget::new(1 << 30), Threads::new(threads));
        let steps = Steps::new(u64::MAX);
        let context = Context::new(&budget, &threads).with_steps(&steps);
        let options = ExecutableOptions::default().with_mode(mode);
        let executable = Executable::new(&model, &options, context).map_err(|it| it.to_string())?;
        let x = Value::of(&tensor(&self.x, 7)).unwrap();
        // The second run uses the memory of the first.
        executable.run(vec![("x", x.clone())], context).map_err(|it| it.to_string())?;
        let taken = steps.taken();
        assert!(taken <= self.ops.len() as u64, "{}", self.name);
        let made = executable.run(vec![("x", x)], context).map_err(|it| it.to_string())?;
        Ok((made, taken))
    }

    /// Compares all modes and numbers of threads; returns whether the program runs.
    fn check(&self) -> bool {
        let reference = self.run(Mode::Reference, 1);
        let fast = [1, 2, 3].map(|threads| self.run(Mode::Fast, threads));
        let name = &self.name;
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let tolerance = NEAR * (self.terms as f64).sqrt();
        let Ok(reference) = reference else {
            assert!(fast.iter().all(Result::is_err), "{name}: only the reference fails");
            return false;
        };
        let fast = fast.map(|it| it.unwrap_or_else(|error| panic!("{name}: {error}")));
        let dense = |value: &Value| -> Dense { value.dense().unwrap().clone() };
        for (at, reference) in reference.iter().enumerate() {
            let reference = dense(reference);
            let expected = reference.to_f64().unwrap();
            let most = expected.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            let found: Vec<Dense> = fast.iter().map(|fast| dense(fast.get(at).unwrap())).collect();
            for found in &found {
                assert_eq!(found.dims(), reference.dims(), "{name}");
                assert_eq!(
                    found.bytes().unwrap(),
                    dense(fast[0].get(at).unwrap()).bytes().unwrap(),
                    "{name}: threads change bits"
                );
            }
            for (found, expected) in found[0].to_f64().unwrap().iter().zip(&expected) {
                let near = found == expected
                    || (found - expected).abs() <= tolerance * most.max(1.0)
                    || found.is_nan() && expected.is_nan();
                assert!(near, "{name}: {found} is not {expected}, of at most {most}");
            }
        }
        true
    }
}

/// The dims of images, of a filter, and the groups and attributes of its convolution.
type Convolved = (&'static [u64], &'static [u64], i64, &'static [(&'static str, &'static [i64])]);

const CONVOLUTIONS: &[Convolved] = &[
    (&[1, 3, 17, 13], &[7, 3, 3, 3], 1, &[("pads", &[1, 1, 1, 1])]),
    (&[2, 3, 31, 33], &[64, 3, 7, 7], 1, &[("strides", &[2, 2]), ("pads", &[3, 3, 3, 3])]),
    (&[1, 17, 9, 11], &[97, 17, 1, 1], 1, &[]),
    (&[1, 97, 5, 5], &[17, 97, 3, 3], 1, &[("pads", &[1, 0, 2, 1])]),
    (&[1, 1000, 1, 1], &[1000, 1000, 1, 1], 1, &[]),
    (&[3, 1000, 2, 3], &[3, 1000, 1, 1], 1, &[]),
    (&[1, 300, 7, 7], &[40, 300, 3, 3], 1, &[("pads", &[1, 1, 1, 1])]),
    (&[1, 8, 12, 12], &[12, 4, 3, 3], 2, &[("pads", &[1, 1, 1, 1])]),
    (&[2, 6, 10, 9], &[12, 2, 3, 3], 3, &[("dilations", &[2, 3]), ("pads", &[2, 3, 2, 3])]),
    (&[1, 17, 14, 15], &[17, 1, 3, 3], 17, &[("pads", &[1, 1, 1, 1])]),
    (&[2, 97, 7, 9], &[97, 1, 5, 5], 97, &[("pads", &[2, 2, 2, 2]), ("strides", &[2, 1])]),
    (&[1, 40, 6, 6], &[40, 1, 3, 3], 40, &[("dilations", &[2, 2]), ("pads", &[2, 2, 2, 2])]),
    (&[1, 9, 8, 8], &[18, 1, 3, 3], 9, &[]),
    (&[1, 5, 1, 40], &[6, 5, 1, 7], 1, &[("pads", &[0, 3, 0, 3])]),
    (&[1, 5, 40, 1], &[6, 5, 7, 1], 1, &[("pads", &[3, 0, 3, 0])]),
    (&[1, 5, 9, 1], &[6, 5, 1, 1], 1, &[("strides", &[2, 2])]),
    (&[2, 5, 41], &[6, 5, 5], 1, &[("pads", &[4, 0]), ("dilations", &[2])]),
    (&[1, 12, 30], &[12, 1, 3], 12, &[("strides", &[3])]),
    (&[1, 1, 4, 4], &[1, 1, 4, 4], 1, &[]),
    (&[1, 2, 3, 3], &[2, 2, 3, 3], 1, &[("pads", &[9, 9, 9, 9])]),
    (&[1, 2, 4, 5, 6], &[3, 2, 2, 2, 2], 1, &[]),
    // Rows that are read in place: few results of many channels.
    (&[2, 67, 9, 7], &[24, 67, 3, 3], 1, &[("pads", &[1, 1, 1, 1])]),
    (&[1, 100, 11, 8], &[8, 100, 3, 3], 1, &[("pads", &[1, 1, 1, 1]), ("strides", &[2, 2])]),
    (&[1, 130, 6, 13], &[40, 65, 2, 3], 2, &[("pads", &[0, 1, 1, 2])]),
    (&[1, 300, 9, 9], &[65, 300, 3, 2], 1, &[("dilations", &[2, 3]), ("pads", &[2, 2, 2, 2])]),
    (&[1, 515, 5, 5], &[88, 515, 1, 1], 1, &[("strides", &[2, 1])]),
    // These do not fit.
    (&[0, 3, 5, 5], &[2, 3, 3, 3], 1, &[]),
    (&[1, 3, 0, 5], &[2, 3, 3, 3], 1, &[]),
    (&[1, 3, 2, 2], &[2, 3, 3, 3], 1, &[]),
    (&[1, 4, 5, 5], &[2, 3, 3, 3], 1, &[]),
];

const TRANSPOSED: &[Convolved] = &[
    (&[1, 24, 9, 7], &[24, 24, 2, 2], 1, &[("strides", &[2, 2])]),
    (&[2, 3, 5, 6], &[3, 7, 3, 3], 1, &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    (&[1, 97, 4, 4], &[97, 1, 4, 4], 1, &[("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])]),
    (&[1, 4, 5, 3], &[4, 3, 3, 2], 1, &[("strides", &[3, 2]), ("output_padding", &[2, 1])]),
    (&[1, 4, 5, 3], &[4, 3, 3, 3], 1, &[("strides", &[2, 2]), ("output_shape", &[10, 7])]),
    (&[1, 6, 5, 5], &[6, 2, 3, 3], 3, &[("dilations", &[2, 1]), ("pads", &[0, 1, 2, 0])]),
    (&[1, 17, 5, 5], &[17, 1, 3, 3], 17, &[("strides", &[1, 2])]),
    (&[2, 3, 9], &[3, 5, 4], 1, &[("strides", &[2]), ("pads", &[1, 2])]),
    (&[1, 3, 1, 5], &[3, 2, 1, 7], 1, &[("strides", &[5, 1])]),
    (&[1, 1, 1, 1], &[1, 1000, 1, 1], 1, &[]),
    (&[1, 2, 3, 3], &[2, 2, 2, 2], 1, &[("strides", &[4, 4])]),
    (&[1, 2, 2, 3, 3], &[2, 2, 2, 2, 2], 1, &[]),
    // These do not fit.
    (&[1, 3, 5, 5], &[2, 3, 3, 3], 1, &[]),
    (&[1, 3, 0, 5], &[3, 3, 3, 3], 1, &[]),
    (&[1, 3, 2, 2], &[3, 3, 1, 1], 1, &[("pads", &[2, 2, 2, 2])]),
];

/// The operators after a convolution that gives `y`, and their constants of each channel.
const AFTER: &[&[(&str, &[&str])]] = &[
    &[],
    &[("Relu", &["y"])],
    &[("BatchNormalization", &["y", "scale", "shift", "mean", "variance"])],
    &[("BatchNormalization", &["y", "scale", "shift", "mean", "variance"]), ("HardSwish", &["1"])],
    &[("Add", &["y", "y"]), ("Relu", &["1"])],
    &[("Mul", &["y", "each"]), ("Sigmoid", &["1"]), ("Mul", &["2", "y"])],
    &[("Clip", &["y", "low", "high"])],
];

fn convolutions(kind: &str, all: &[Convolved], with_bias: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, (x, filter, group, lists)) in all.iter().enumerate() {
        for after in AFTER {
            let results = match kind {
                "ConvTranspose" => filter[1] * group.cast_unsigned(),
                _ => filter[0],
            };
            let mut attributes = vec![("group", AttributeValue::Long(*group))];
            attributes.extend(
                lists.iter().map(|(name, list)| (*name, AttributeValue::Longs(list.to_vec()))),
            );
            let inputs = if with_bias { &["x", "filter", "bias"][..] } else { &["x", "filter"] };
            let mut ops = vec![op(kind, inputs, "y", &attributes)];
            let names = ["1", "2", "3"];
            for ((kind, inputs), output) in after.iter().zip(names) {
                ops.push(op(kind, inputs, output, &[]));
            }
            let outputs = vec![names[..after.len()].last().copied().unwrap_or("y").to_owned()];
            let mut each = vec![1; x.len()];
            each[1] = results;
            let positive = |seed| {
                let bytes = numbers(results, seed);
                let bytes = bytes.chunks_exact(4).flat_map(|four| {
                    let value = f32::from_le_bytes(four.try_into().unwrap());
                    (value.abs() + 0.5).to_le_bytes()
                });
                let bytes: Vec<u8> = bytes.collect();
                Tensor::dense(DType::Float32, vec![results], Blob::memory(bytes))
            };
            let limit = |value: f32| {
                Tensor::dense(DType::Float32, vec![], Blob::memory(value.to_le_bytes().to_vec()))
            };
            let constants = [
                ("filter", tensor(filter, 1)),
                ("bias", tensor(&[results], 2)),
                ("scale", tensor(&[results], 3)),
                ("shift", tensor(&[results], 4)),
                ("mean", tensor(&[results], 5)),
                ("variance", positive(6)),
                ("each", tensor(&each, 8)),
                ("low", limit(-0.5)),
                ("high", limit(0.75)),
            ];
            let constants = constants.map(|(name, tensor)| (name.to_owned(), tensor)).to_vec();
            let kinds: Vec<&str> = after.iter().map(|(kind, _)| *kind).collect();
            let name = format!("{kind} {number}, then {kinds:?}");
            let terms = filter.iter().product::<u64>() / results;
            cases.push(Case { name, x: x.to_vec(), ops, constants, outputs, terms });
        }
    }
    cases
}

#[test]
fn convolutions_of_all_sizes_are_near_the_reference() {
    for with_bias in [true, false] {
        for (kind, all, fit) in [("Conv", CONVOLUTIONS, 26), ("ConvTranspose", TRANSPOSED, 12)] {
            let cases = convolutions(kind, all, with_bias);
            let ran = cases.iter().filter(|case| case.check()).count();
            assert_eq!(ran, fit * AFTER.len(), "{kind}");
        }
    }
}

#[test]
fn a_result_that_is_read_elsewhere_is_also_computed_alone() {
    let transposed = convolutions("ConvTranspose", TRANSPOSED, true);
    for mut case in convolutions("Conv", CONVOLUTIONS, true).into_iter().chain(transposed) {
        let folded = case.run(Mode::Fast, 1);
        case.outputs.push("y".to_owned());
        if !case.check() {
            continue;
        }
        // The bits of an output do not depend on what else is an output.
        let both = case.run(Mode::Fast, 1).unwrap();
        let bytes = |values: &[Value]| values[0].dense().unwrap().bytes().unwrap();
        assert_eq!(bytes(&folded.unwrap()), bytes(&both), "{}", case.name);
    }
}

/// Images that are enlarged and joined are the same: nothing is computed.
#[test]
fn enlarged_and_joined_images_are_the_same() {
    let text = |value: &str| AttributeValue::String(value.into());
    let modes: &[(&str, &str)] = &[
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("align_corners", "round_prefer_floor"),
        ("tf_crop_and_resize", "floor"),
    ];
    for (coordinates, nearest) in modes {
        for scales in [[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 1.0, 3.0], [1.0, 1.0, 0.5, 1.7], [2.0; 4]] {
            let scales: Vec<u8> = scales.iter().flat_map(|one: &f32| one.to_le_bytes()).collect();
            let scales = Tensor::dense(DType::Float32, vec![4], Blob::memory(scales));
            let region: Vec<u8> = [0_f32, 0.0, 0.0, 0.2, 1.0, 1.0, 1.0, 0.9]
                .iter()
                .flat_map(|one| one.to_le_bytes())
                .collect();
            let region = Tensor::dense(DType::Float32, vec![8], Blob::memory(region));
            let attributes = [
                ("mode", text("nearest")),
                ("coordinate_transformation_mode", text(coordinates)),
                ("nearest_mode", text(nearest)),
            ];
            let case = Case {
                name: format!("{coordinates}, {nearest}"),
                x: vec![2, 3, 6, 7],
                ops: vec![
                    op("Conv", &["x", "filter"], "y", &[]),
                    op("Resize", &["y", "region", "scales"], "z", &attributes),
                    op("Conv", &["x", "other"], "w", &[]),
                    op("Resize", &["w", "region", "scales"], "v", &attributes),
                    op("Concat", &["z", "v", "z"], "all", &[("axis", AttributeValue::Long(-3))]),
                    op("Concat", &["z", "z"], "both", &[("axis", AttributeValue::Long(2))]),
                ],
                constants: vec![
                    ("filter".to_owned(), tensor(&[5, 3, 2, 2], 1)),
                    ("other".to_owned(), tensor(&[17, 3, 2, 2], 2)),
                    ("scales".to_owned(), scales),
                    ("region".to_owned(), region),
                ],
                outputs: ["all", "both"].map(str::to_owned).to_vec(),
                terms: 12,
            };
            assert!(case.check(), "{}", case.name);
        }
    }
}

#[test]
fn pooled_images_are_near_the_reference() {
    let ints = |list: &[i64]| AttributeValue::Longs(list.to_vec());
    let pools: Vec<(&str, Vec<(&str, AttributeValue)>)> = vec![
        ("MaxPool", vec![("kernel_shape", ints(&[3, 3])), ("strides", ints(&[2, 2]))]),
        ("MaxPool", vec![("kernel_shape", ints(&[2, 3])), ("pads", ints(&[1, 1, 0, 2]))]),
        ("MaxPool", vec![("kernel_shape", ints(&[2, 2])), ("dilations", ints(&[2, 3]))]),
        (
            "MaxPool",
            vec![
                ("kernel_shape", ints(&[3, 3])),
                ("strides", ints(&[2, 2])),
                ("ceil_mode", AttributeValue::Long(1)),
            ],
        ),
        ("AveragePool", vec![("kernel_shape", ints(&[3, 2])), ("pads", ints(&[1, 1, 1, 1]))]),
        (
            "AveragePool",
            vec![
                ("kernel_shape", ints(&[3, 3])),
                ("pads", ints(&[1, 1, 1, 1])),
                ("count_include_pad", AttributeValue::Long(1)),
            ],
        ),
        ("GlobalAveragePool", vec![]),
        ("GlobalMaxPool", vec![]),
    ];
    for (number, (kind, attributes)) in pools.iter().enumerate() {
        for channels in [1, 5, 16, 97] {
            let case = Case {
                name: format!("pool {number} of {channels} channels"),
                x: vec![2, 3, 12, 15],
                ops: vec![
                    op("Conv", &["x", "filter"], "y", &[]),
                    op(kind, &["y"], "z", attributes),
                ],
                constants: vec![("filter".to_owned(), tensor(&[channels, 3, 2, 2], 1))],
                outputs: vec!["z".to_owned()],
                terms: 12,
            };
            assert!(case.check(), "{}", case.name);
        }
    }
}

fn case(name: String, x: &[u64], ops: Vec<Op>, constants: &[(&str, Tensor)], terms: u64) -> Case {
    let constants = constants.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
    let outputs = vec!["out".to_owned()];
    Case { name, x: x.to_vec(), ops, constants, outputs, terms }
}

/// Runs all cases; returns how many run.
fn count(cases: &[Case]) -> usize {
    cases.iter().filter(|case| case.check()).count()
}

/// The operators after a product that gives `y`.
const AFTER_PRODUCT: &[&[(&str, &[&str])]] = &[
    &[("Identity", &["y"])],
    &[("Relu", &["y"])],
    &[("Add", &["y", "each"]), ("Gelu", &["1"])],
    &[("Add", &["y", "y"]), ("Tanh", &["1"])],
    &[("Softmax", &["y"])],
];

#[test]
fn products_of_all_sizes_are_near_the_reference() {
    let mut cases = Vec::new();
    let sizes: [(&[u64], u64, u64); 16] = [
        (&[1, 1], 1, 4),
        (&[1, 3], 3, 17),
        (&[1, 300], 300, 1000),
        (&[2, 97], 97, 97),
        (&[3, 17], 17, 3),
        (&[5, 1000], 1000, 5),
        (&[128, 257], 257, 130),
        (&[133, 64], 64, 96),
        (&[2, 3, 17], 17, 24),
        (&[2, 1, 5, 300], 300, 8),
        (&[40], 40, 9),
        (&[0, 5], 5, 6),
        (&[2, 0, 5], 5, 6),
        (&[4, 0], 0, 6),
        (&[4, 3], 3, 0),
        // The inner dims differ.
        (&[4, 3], 4, 6),
    ];
    for (x, inner, columns) in sizes {
        for after in AFTER_PRODUCT {
            let mut ops = vec![op("MatMul", &["x", "matrix"], "y", &[])];
            let names = ["1", "2"];
            for (at, (kind, inputs)) in after.iter().enumerate() {
                let output = if at + 1 == after.len() { "out" } else { names[at] };
                ops.push(op(kind, inputs, output, &[]));
            }
            let constants =
                [("matrix", tensor(&[inner, columns], 1)), ("each", tensor(&[columns], 2))];
            let kinds: Vec<&str> = after.iter().map(|(kind, _)| *kind).collect();
            let name = format!("{x:?} x [{inner}, {columns}], then {kinds:?}");
            cases.push(case(name, x, ops, &constants, inner.max(1)));
        }
    }
    assert_eq!(count(&cases), 15 * AFTER_PRODUCT.len());
}

#[test]
fn matrices_and_biases_of_all_forms_are_near_the_reference() {
    let mut cases = Vec::new();
    let biases: [Option<&[u64]>; 7] =
        [None, Some(&[]), Some(&[1]), Some(&[19]), Some(&[1, 19]), Some(&[7, 1]), Some(&[7, 19])];
    for (turned, alpha, beta) in
        [([0, 0], 1.0, 1.0), ([0, 1], 0.5, -2.0), ([1, 0], 2.0, 0.0), ([1, 1], 1.0, 1.0)]
    {
        for bias in biases {
            let sides =
                |is_turned: i64, a: u64, b: u64| if is_turned == 1 { [b, a] } else { [a, b] };
            let attributes = [
                ("transA", AttributeValue::Long(turned[0])),
                ("transB", AttributeValue::Long(turned[1])),
                ("alpha", AttributeValue::Float(alpha)),
                ("beta", AttributeValue::Float(beta)),
            ];
            let inputs: &[&str] =
                if bias.is_some() { &["x", "matrix", "bias"] } else { &["x", "matrix"] };
            let ops = vec![op("Gemm", inputs, "out", &attributes)];
            let constants = [
                ("matrix", tensor(&sides(turned[1], 23, 19), 1)),
                ("bias", tensor(bias.unwrap_or(&[]), 2)),
            ];
            let name = format!("Gemm {turned:?} {alpha} {beta} {bias:?}");
            cases.push(case(name, &sides(turned[0], 7, 23), ops, &constants, 23));
        }
    }
    assert_eq!(count(&cases), cases.len());
}

#[test]
fn operators_with_the_same_constants_do_not_share_what_differs() {
    let gemm = |turned: i64, output: &str| {
        op("Gemm", &["x", "matrix"], output, &[("transA", AttributeValue::Long(turned))])
    };
    let constants = [("matrix", tensor(&[6, 6], 1)), ("scale", tensor(&[3], 2))];
    let mut cases = Vec::new();
    for order in [[0, 1], [1, 0]] {
        let [first, second] = order;
        let ops = vec![gemm(first, "a"), gemm(second, "b"), op("Sub", &["a", "b"], "out", &[])];
        cases.push(case(format!("Gemm {order:?}"), &[6, 6], ops, &constants, 6));
    }
    for outputs in [&["out", "", ""][..], &["", "out"]] {
        let mut norm = op("LayerNormalization", &["x", "scale"], "out", &[]);
        norm.outputs[0].args = outputs.iter().map(|name| (*name).to_owned()).collect();
        cases.push(case(format!("{outputs:?}"), &[5, 3], vec![norm], &constants, 64));
    }
    assert_eq!(count(&cases), cases.len());
}

#[test]
fn products_of_stacks_are_near_the_reference() {
    let mut cases = Vec::new();
    let shapes: [(&[u64], &[i64]); 7] = [
        (&[40, 30], &[1, 0]),
        (&[3, 17, 20], &[0, 2, 1]),
        (&[2, 3, 33, 5], &[0, 1, 3, 2]),
        (&[2, 16, 3, 24], &[0, 2, 3, 1]),
        (&[1, 1, 2, 2], &[0, 1, 3, 2]),
        (&[5, 1, 16], &[0, 2, 1]),
        (&[2, 0, 16], &[0, 2, 1]),
    ];
    for (x, order) in shapes {
        // The left side may be transposed as well: heads of attention.
        let heads: Vec<i64> =
            if x == [2, 16, 3, 24] { vec![0, 2, 1, 3] } else { (0..).take(x.len()).collect() };
        let ops = vec![
            op("Transpose", &["x"], "left", &[("perm", AttributeValue::Longs(heads))]),
            op("Transpose", &["x"], "right", &[("perm", AttributeValue::Longs(order.to_vec()))]),
            op("MatMul", &["left", "right"], "out", &[]),
        ];
        cases.push(case(format!("{x:?} {order:?}"), x, ops, &[], 33));
    }
    assert_eq!(count(&cases), cases.len());
}

#[test]
fn rows_are_near_the_reference() {
    let mut cases = Vec::new();
    let shapes: [&[u64]; 9] = [
        &[1],
        &[17],
        &[3, 1],
        &[4, 97],
        &[2, 3, 16],
        &[2, 5, 7, 33],
        &[2, 1000],
        &[1, 5000],
        &[0, 4],
    ];
    for x in shapes {
        for axis in [-1, 0] {
            let attributes = [("axis", AttributeValue::Long(axis))];
            let ops = vec![op("Softmax", &["x"], "out", &attributes)];
            cases.push(case(format!("Softmax {x:?} {axis}"), x, ops, &[], 16));
            let dims = if axis == 0 { x } else { &x[x.len() - 1..] };
            for inputs in [&["x", "scale", "bias"][..], &["x", "scale"]] {
                let ops = vec![op("LayerNormalization", inputs, "out", &attributes)];
                let constants = [("scale", tensor(dims, 1)), ("bias", tensor(dims, 2))];
                // A single element has no deviation: what remains is the error of the mean.
                cases.push(case(format!("{inputs:?} {x:?} {axis}"), x, ops, &constants, 64));
            }
        }
    }
    assert_eq!(count(&cases), cases.len());
}

#[test]
fn recurrent_cells_are_near_the_reference() {
    let mut cases = Vec::new();
    let sizes: [[u64; 4]; 7] = [
        [1, 1, 1, 1],
        [5, 1, 3, 8],
        [7, 3, 17, 5],
        [4, 9, 10, 33],
        [3, 2, 97, 200],
        [0, 1, 3, 4],
        [2, 2, 3, 0],
    ];
    for [steps, batch, inputs, hidden] in sizes {
        for (kind, gates, reset) in [("LSTM", 4, 0), ("GRU", 3, 0), ("GRU", 3, 1)] {
            for (direction, count) in [("forward", 1), ("reverse", 1), ("bidirectional", 2)] {
                for given in [
                    &["x", "w", "r"][..],
                    &["x", "w", "r", "b"],
                    &["x", "w", "r", "b", "", "h", "c"],
                ] {
                    let given =
                        &given[..given.len() - usize::from(kind == "GRU" && given.len() == 7)];
                    let text = AttributeValue::String(direction.into());
                    let mut attributes = vec![("direction", text)];
                    if kind == "GRU" {
                        attributes.push(("linear_before_reset", AttributeValue::Long(reset)));
                    }
                    let mut cell = op(kind, given, "out", &attributes);
                    let names =
                        ["out", "last", "long"].iter().take(if kind == "LSTM" { 3 } else { 2 });
                    let args = names.map(|name| (*name).to_owned()).collect();
                    cell.outputs = vec![Operand { slot: String::new(), args }];
                    let outputs = cell.outputs[0].args.clone();
                    let constants = [
                        ("w", tensor(&[count, gates * hidden, inputs], 1)),
                        ("r", tensor(&[count, gates * hidden, hidden], 2)),
                        ("b", tensor(&[count, 2 * gates * hidden], 3)),
                        ("h", tensor(&[count, batch, hidden], 4)),
                        ("c", tensor(&[count, batch, hidden], 5)),
                    ];
                    let name = format!(
                        "{kind} {reset} {direction} {given:?} {steps} {batch} {inputs} {hidden}"
                    );
                    let x = [steps, batch, inputs];
                    let mut made = case(name, &x, vec![cell], &constants, 100);
                    made.outputs = outputs;
                    cases.push(made);
                }
            }
        }
    }
    // Empty sequences and states do not run.
    assert_eq!(count(&cases), 5 * 3 * 3 * 3);
}

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
    assert_eq!(ran, 5 * (2 * 26 + 2 * 7 + 4 * 5));
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
    for (x, pooled, fits) in [
        (&[2, 3, 40, 41][..], &[1, 1][..], true),
        (&[1, 2, 1, 1], &[1, 1], true),
        // Other dims, which the kernel broadcasts.
        (&[1, 2, 7, 5], &[7, 5], false),
    ] {
        for (dtype, kind) in [
            (DType::Uint8, "QLinearAdd"),
            (DType::Int8, "QLinearAdd"),
            (DType::Uint8, "QLinearMul"),
            (DType::Int8, "QLinearMul"),
        ] {
            let window = [("kernel_shape", AttributeValue::Longs(pooled.to_vec()))];
            let quantized = ["q", "size", "zero", "r", "other", "center", "own", "zero"];
            let case = Case {
                name: format!("{kind} {dtype} {x:?} {fits}"),
                x: x.to_vec(),
                ops: vec![
                    op("QuantizeLinear", &["x", "size", "zero"], "q", &[]),
                    op("AveragePool", &["x"], "pooled", &window),
                    op("QuantizeLinear", &["pooled", "other", "center"], "r", &[]),
                    Op { domain: "com.microsoft".to_owned(), ..op(kind, &quantized, "y", &[]) },
                ],
                constants: vec![
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

/// Plans for other dims use what was packed for the first: the budget has no room for another copy of each.
#[test]
fn constants_are_packed_once_for_all_dims() {
    let mut model = Model {
        parameters: vec![Parameter { name: "w".to_owned(), tensor: tensor(&[512, 512], 1) }],
        ..Model::default()
    };
    model.set_main(Program::from(Topology {
        operator_versions: vec![(String::new(), 21)],
        blocks: vec![Block {
            ops: vec![op("MatMul", &["x", "w"], "y", &[])],
            inputs: vec!["x".to_owned()],
            outputs: vec!["y".to_owned()],
            ..Block::default()
        }],
        ..Topology::new(Dialect::Onnx)
    }));
    let (budget, threads) = (Budget::new(3 << 20), Threads::new(1));
    let context = Context::new(&budget, &threads);
    let executable = Executable::new(&model, &ExecutableOptions::default(), context).unwrap();
    for rows in 1..8 {
        let x = Value::of(&tensor(&[rows, 512], 7)).unwrap();
        executable.run(vec![("x", x)], context).unwrap();
    }
}
