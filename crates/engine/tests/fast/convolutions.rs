//! Convolutions, pooling, and images that are enlarged or joined.

use std::collections::HashSet;

use lodstone_engine::{Mode, Value};
use lodstone_model::{AttributeValue, DType, Tensor};
use lodstone_store::Blob;

use super::case::{Case, case, numbers, op, tensor};

/// The dims of images, of a filter, and the groups and attributes of its convolution.
pub(super) type Convolved =
    (&'static [u64], &'static [u64], i64, &'static [(&'static str, &'static [i64])]);

pub(super) const CONVOLUTIONS: &[Convolved] = &[
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
    // Few channels, whose lines are copied.
    (&[1, 4, 9, 1100], &[19, 4, 3, 3], 1, &[("strides", &[1, 3]), ("pads", &[0, 1, 2, 3])]),
    (&[2, 1, 700], &[33, 1, 10], 1, &[("strides", &[5])]),
    (&[1, 2, 12, 21], &[5, 2, 2, 3], 1, &[("strides", &[3, 2]), ("dilations", &[3, 2])]),
    (&[1, 3, 2, 40], &[48, 3, 1, 4], 1, &[("strides", &[1, 4]), ("dilations", &[1, 3])]),
    (&[2, 4, 3, 2], &[3, 4, 3, 5], 1, &[("strides", &[2, 2]), ("pads", &[2, 6, 1, 3])]),
    (&[1, 2, 9, 8], &[6, 2, 3, 3], 1, &[("strides", &[1 << 20, 1 << 24]), ("pads", &[1, 1, 1, 1])]),
    (
        &[1, 2, 9, 8],
        &[6, 2, 1, 2],
        1,
        &[("dilations", &[1, 1 << 16]), ("pads", &[0, 1 << 16, 0, 0])],
    ),
    // Tiles of results, of Winograd's algorithm.
    (&[1, 24, 1, 1], &[24, 24, 3, 3], 1, &[("pads", &[1, 1, 1, 1])]),
    (&[3, 33, 2, 5], &[40, 33, 3, 3], 1, &[("pads", &[2, 0, 1, 3])]),
    (&[2, 64, 14, 15], &[65, 64, 3, 3], 1, &[]),
    (&[1, 25, 70, 9], &[1000, 25, 3, 3], 1, &[("pads", &[0, 1, 2, 1]), ("strides", &[1, 1])]),
    (&[1, 24, 3, 1100], &[27, 24, 3, 3], 1, &[("dilations", &[1, 1])]),
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
    // Windows that overlap everywhere, in several images.
    (&[4, 16, 10, 10], &[16, 6, 5, 5], 1, &[("pads", &[2, 2, 2, 2])]),
    (&[3, 5, 6, 7], &[5, 4, 3, 2], 1, &[]),
    (&[2, 6, 5, 6], &[6, 2, 3, 3], 3, &[("pads", &[0, 1, 2, 0])]),
    (&[5, 3, 2, 3], &[3, 1, 5, 4], 1, &[("pads", &[4, 2, 1, 3])]),
    // Windows next to each other.
    (&[2, 5, 3, 4], &[5, 7, 2, 3], 1, &[("strides", &[2, 3]), ("kernel_shape", &[2, 3])]),
    (&[1, 97, 2, 1], &[97, 20, 1, 1], 1, &[("strides", &[1, 1])]),
    (&[3, 2, 40], &[2, 9, 4], 1, &[("strides", &[4]), ("dilations", &[1]), ("pads", &[0, 0])]),
    (&[1, 6, 5, 5], &[6, 9, 2, 2], 2, &[("strides", &[2, 2])]),
    (&[1, 3, 4, 5], &[3, 17, 2, 2], 1, &[("strides", &[2, 2]), ("pads", &[1, 0, 0, 1])]),
    (&[1, 3, 4, 5], &[3, 17, 2, 2], 1, &[("strides", &[2, 2]), ("output_padding", &[1, 0])]),
    (&[1, 3, 4, 5], &[3, 17, 2, 2], 1, &[("strides", &[2, 2]), ("output_shape", &[7, 11])]),
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
    &[("Clip", &["y", "low"])],
    &[("Clip", &["y", "", "high"])],
    &[("Clip", &["y", "high", "low"])],
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
        for (kind, all, fit) in [("Conv", CONVOLUTIONS, 38), ("ConvTranspose", TRANSPOSED, 23)] {
            let cases = convolutions(kind, all, with_bias);
            let ran = cases.iter().filter(|case| case.check()).count();
            assert_eq!(ran, fit * AFTER.len(), "{kind}");
        }
    }
}

#[test]
fn convolutions_with_computed_filters_are_near_the_reference() {
    for (kind, all, fit) in [("Conv", CONVOLUTIONS, 38), ("ConvTranspose", TRANSPOSED, 23)] {
        let mut cases = convolutions(kind, all, true);
        for case in &mut cases {
            // The input changes nothing, but it could.
            let zero = Tensor::dense(DType::Float32, vec![], Blob::memory(vec![0; 4]));
            case.constants.push(("zero".to_owned(), zero));
            let whole = [("keepdims", AttributeValue::Long(0))];
            let computed = [
                op("ReduceSum", &["x"], "sum", &whole),
                op("Mul", &["sum", "zero"], "nothing", &[]),
                op("Add", &["filter", "nothing"], "computed", &[]),
            ];
            let filter = case.ops[0].inputs[0].args.iter_mut().find(|arg| *arg == "filter");
            "computed".clone_into(filter.unwrap());
            case.ops.splice(0..0, computed);
        }
        let ran = cases.iter().filter(|case| case.check()).count();
        assert_eq!(ran, fit * AFTER.len(), "{kind}");
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

/// Narrow and wide images, windows that leave the image, and lines of every length.
#[test]
fn convolutions_of_each_channel_are_near_the_reference() {
    let mut ran = 0;
    let shapes: [(i64, i64, i64); 7] =
        [(1, 1, 1), (3, 1, 1), (3, 2, 1), (5, 1, 2), (2, 3, 1), (5, 2, 3), (7, 1, 1)];
    for channels in [1, 2, 3, 4, 8, 16, 17, 24, 40, 72, 130] {
        for width in [1, 4, 7, 21, 50] {
            for (window, stride, dilation) in shapes {
                let side = u64::try_from(window).unwrap();
                let filter = [channels, 1, side, side];
                let pad = window / 2 * dilation;
                let attributes = [
                    ("group", AttributeValue::Long(channels.cast_signed())),
                    ("pads", AttributeValue::Longs(vec![pad; 4])),
                    ("strides", AttributeValue::Longs(vec![stride; 2])),
                    ("dilations", AttributeValue::Longs(vec![dilation; 2])),
                ];
                let ops = vec![
                    op("Conv", &["x", "filter", "bias"], "y", &attributes),
                    op("Relu", &["y"], "out", &[]),
                ];
                let constants = [("filter", tensor(&filter, 1)), ("bias", tensor(&[channels], 2))];
                let name =
                    format!("{channels} channels, width {width}, window {window}, stride {stride}");
                let case = case(name, &[2, channels, 5, width], ops, &constants, side * side);
                ran += u64::from(case.check());
            }
        }
    }
    assert_eq!(ran, 11 * 5 * 7);
}

/// What is added to a result may be computed after it: both are computed in one pass anyway.
#[test]
fn a_convolution_waits_for_what_is_added_to_it() {
    let ops = vec![
        op("Conv", &["x", "filter"], "y", &[]),
        op("Softmax", &["x"], "shares", &[]),
        op("Add", &["y", "shares"], "out", &[]),
    ];
    let constants = [("filter", tensor(&[8, 8, 1, 1], 1))];
    let case = case("waits".to_owned(), &[1, 8, 9, 9], ops, &constants, 8);
    assert!(case.check());
    let kinds = case.profile();
    assert!(kinds.contains(&"Conv+Add".to_owned()), "{kinds:?}");
}

/// The bits of a sum do not depend on whether it is computed in the same pass.
#[test]
fn results_of_branches_are_added_in_any_pass() {
    let limit = |value: f32| {
        Tensor::dense(DType::Float32, vec![], Blob::memory(value.to_le_bytes().to_vec()))
    };
    let ends: &[(&str, &[&str])] = &[("Relu", &["sum"]), ("Clip", &["sum", "low", "high"])];
    let mut passes = HashSet::new();
    for (number, (x, filter, group, lists)) in CONVOLUTIONS.iter().enumerate() {
        let mut attributes = vec![("group", AttributeValue::Long(*group))];
        let lists = lists.iter().map(|(name, it)| (*name, AttributeValue::Longs(it.to_vec())));
        attributes.extend(lists);
        for sides in [["y", "z"], ["z", "y"], ["y", "each"]] {
            for end in ends.iter().map(Some).chain([None]) {
                let mut ops = vec![
                    op("Conv", &["x", "other"], "z", &attributes),
                    op("Conv", &["x", "filter", "bias"], "y", &attributes),
                    op("Add", &sides, if end.is_some() { "sum" } else { "out" }, &[]),
                ];
                ops.extend(end.map(|(kind, inputs)| op(kind, inputs, "out", &[])));
                let mut each = vec![1; x.len()];
                each[1] = filter[0];
                let constants = [
                    ("filter", tensor(filter, 1)),
                    ("other", tensor(filter, 2)),
                    ("bias", tensor(&filter[..1], 3)),
                    ("each", tensor(&each, 4)),
                    ("low", limit(-0.5)),
                    ("high", limit(0.75)),
                ];
                // Two sums, the limits of which are smaller than they are.
                let terms = 8 * filter.iter().product::<u64>() / filter[0];
                let name = format!("{number}, {sides:?}, {end:?}");
                let mut case = case(name, x, ops, &constants, terms);
                if !case.check() {
                    continue;
                }
                passes.extend(case.profile());
                let joined = case.run(Mode::Fast, 1);
                case.outputs.push("y".to_owned());
                let apart = case.run(Mode::Fast, 1);
                let bytes = |it: Result<Vec<Value>, _>| it.unwrap()[0].dense().unwrap().bytes();
                assert_eq!(bytes(joined).unwrap(), bytes(apart).unwrap(), "{}", case.name);
            }
        }
    }
    let expected = ["Conv+Add", "Conv+Add+Relu", "Conv+Add+Clip"];
    assert!(expected.iter().all(|kinds| passes.contains(*kinds)), "{passes:?}");
}

/// A result is NaN only if its own window has one.
#[test]
fn other_elements_of_a_tile_do_not_matter() {
    for place in [0, 5 * 12 + 7, 9 * 12 + 11] {
        let mut spot = vec![0_f32; 24 * 120];
        spot[3 * 120 + place] = f32::NAN;
        let bytes: Vec<u8> = spot.iter().flat_map(|it| it.to_le_bytes()).collect();
        let spot = Tensor::dense(DType::Float32, vec![1, 24, 10, 12], Blob::memory(bytes));
        let ops = vec![
            op("Add", &["x", "spot"], "spotted", &[]),
            op("Conv", &["spotted", "filter"], "out", &[]),
        ];
        let constants = [("filter", tensor(&[24, 24, 3, 3], 1)), ("spot", spot)];
        let case = case(format!("at {place}"), &[1, 24, 10, 12], ops, &constants, 216);
        assert!(case.check());
    }
}
