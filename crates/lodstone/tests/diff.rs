//! The differences between two models.
#![expect(clippy::disallowed_methods, reason = "tests make directories")]

use std::path::{Path, PathBuf};

use lodstone::diff::{Change, Diff, ValueDifference};
use lodstone::formats::{FORMATS, Format};
use lodstone::model::{Attribute, AttributeValue, Dialect, Indices, Kind};
use lodstone::{
    Blob, ConvertOptions, DType, DiffOptions, Lod, Loss, Model, Parameter, Renames, Target, Tensor,
    convert, diff, open,
};

/// Returns whether the digits model can be written in a format: its program must not be of another framework, and the
/// format must neither be a pickle that is only written back nor hold a single tensor.
fn takes_digits(format: &Format) -> bool {
    format.holds.program.is_none_or(|dialect| dialect == Dialect::Paddle)
        && !["paddle-save", "paddle-distributed", "mxnet-states"].contains(&format.name)
        && !["onnx-tensor", "torch-distributed", "executorch"].contains(&format.name)
}

fn digits() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/paddle");
    open(path).expect("a model")
}

fn floats(name: &str, shape: &[u64], values: &[f32]) -> Parameter {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let tensor = Tensor::dense(DType::Float32, shape.to_vec(), Blob::memory(bytes));
    Parameter { name: name.to_owned(), tensor }
}

/// Returns a tensor of distinct numbers that begin with `first`.
fn counted(name: &str, shape: &[u64], first: f32) -> Parameter {
    let count = u16::try_from(shape.iter().product::<u64>()).expect("small");
    floats(name, shape, &(0..count).map(|n| first + f32::from(n)).collect::<Vec<_>>())
}

fn model(parameters: Vec<Parameter>) -> Model {
    Model { parameters, ..Model::default() }
}

fn compared(a: Model, b: &Model) -> Diff {
    diff(a, b, &DiffOptions::default()).expect("compared")
}

/// Returns the only difference: its changes, and the differences of the values.
fn only(diff: &Diff) -> (&[Change], Option<&ValueDifference>) {
    let [difference] = diff.tensors.as_slice() else { panic!("{diff:?}") };
    (&difference.changes, difference.values.as_ref())
}

fn converted(model: Model, dir: &Path, name: &str, options: ConvertOptions) -> Model {
    let out = dir.join(name);
    convert(model, &out, &options.with_allow(Loss::ALL.to_vec())).expect("written");
    open(out).expect("a model")
}

#[test]
fn a_model_is_the_same_in_every_format_that_keeps_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut count = 0;
    let is_named = |format: &&&Format| {
        format.holds.tensors && format.holds.names && format.name != "caffe2-blob"
    };
    for format in FORMATS.iter().filter(is_named).filter(|format| takes_digits(format)) {
        let name = PathBuf::from(format.name).join("m").with_extension(format.extension);
        std::fs::create_dir(dir.path().join(format.name)).expect("a directory");
        let to = Some(Target::Format(format.name.to_owned()));
        let options = ConvertOptions::default().with_to(to);
        let other = converted(digits(), dir.path(), name.to_str().expect("UTF-8"), options);
        for (a, b) in [(digits(), other.clone()), (other, digits())] {
            let found = compared(a, &b);
            assert!(found.same && found.equal == 12, "{}: {found:?}", format.name);
        }
        count += 1;
    }
    assert!(count >= 4, "{count} formats");
}

#[test]
fn added_and_removed_tensors_are_found() {
    let a = model(vec![counted("a", &[2], 0.0), counted("b", &[3], 0.0)]);
    let b = model(vec![counted("b", &[3], 0.0), counted("c", &[4], 0.0)]);
    let found = compared(a, &b);
    assert!(!found.same);
    assert_eq!(found.equal, 1);
    let changes: Vec<_> = found.tensors.iter().map(|change| &change.changes[..]).collect();
    assert_eq!(changes, [[Change::Removed], [Change::Added]]);
}

#[test]
fn a_renamed_tensor_is_found_by_its_content() {
    let a = model(vec![counted("x", &[2, 3], 0.0), counted("y", &[2, 3], 9.0)]);
    let b = model(vec![counted("x", &[2, 3], 0.0), counted("z", &[2, 3], 9.0)]);
    assert_eq!(only(&compared(a, &b)), (&[Change::Renamed][..], None));
    // Also in the layout of another framework.
    let a = model(vec![counted("conv.weight", &[2, 3, 1, 5], 0.0)]);
    let dir = tempfile::tempdir().expect("a directory");
    let options = ConvertOptions::default();
    let b = model(vec![counted("linear.w", &[2, 3], 0.0)]);
    let transposed = options.with_transpose(vec!["*".to_owned()]);
    let t = converted(b.clone(), dir.path(), "t.npz", transposed);
    assert_eq!(only(&compared(b, &t)), (&[Change::Transposed][..], None));
    let mut t = t;
    t.parameters[0].name = "dense.weight".to_owned();
    let b = model(vec![counted("linear.w", &[2, 3], 0.0)]);
    assert_eq!(only(&compared(b, &t)), (&[Change::Renamed, Change::Transposed][..], None));
    let reshaped = model(vec![counted("kernel", &[6, 5], 0.0)]);
    assert_eq!(only(&compared(a, &reshaped)), (&[Change::Renamed, Change::Reshaped][..], None));
}

#[test]
fn every_permutation_of_four_dims_is_found() {
    // OIHW as HWIO: the element [o, i, h, w] is at [h, w, i, o].
    let (o, i, h, w) = (4_u16, 3, 2, 5);
    let a = counted("w", &[4, 3, 2, 5], 0.0);
    let mut values = Vec::new();
    for y in 0..h {
        for x in 0..w {
            for channel in 0..i {
                for filter in 0..o {
                    let number = ((filter * i + channel) * h + y) * w + x;
                    values.push(f32::from(number));
                }
            }
        }
    }
    let b = floats("w", &[2, 5, 3, 4], &values);
    assert_eq!(only(&compared(model(vec![a]), &model(vec![b]))), (&[Change::Transposed][..], None));
}

#[test]
fn a_cast_is_distinguished_from_a_change() {
    let dir = tempfile::tempdir().expect("a directory");
    for dtype in [DType::Float16, DType::BFloat16, DType::Float64] {
        let options = ConvertOptions::default().with_cast(Some(dtype));
        let name = format!("{dtype}.safetensors");
        let cast = converted(digits(), dir.path(), &name, options);
        for (a, b) in [(digits(), cast.clone()), (cast, digits())] {
            let found = compared(a, &b);
            let all_cast = found.tensors.iter().all(|change| change.changes == [Change::Cast]);
            assert!(all_cast && !found.same, "{dtype}: {found:?}");
            assert!(found.tensors.len() + found.equal == 12, "{found:?}");
        }
    }
    let long: Vec<u8> = [1_i64, -2].iter().flat_map(|n| n.to_le_bytes()).collect();
    let long = Tensor::dense(DType::Int64, vec![2], Blob::memory(long));
    let long = || Parameter { name: "n".to_owned(), tensor: long.clone() };
    let short = floats("n", &[2], &[1.0, -2.0]);
    let found = compared(model(vec![long()]), &model(vec![short]));
    assert_eq!(only(&found), (&[Change::Cast][..], None));
    let other = floats("n", &[2], &[1.0, -2.5]);
    let found = compared(model(vec![long()]), &model(vec![other]));
    assert_eq!(only(&found).0, [Change::Cast, Change::Changed]);
}

#[test]
fn changed_values_are_measured() {
    let a = [1.0, 2.0, -4.0, f32::NAN, 0.0, f32::INFINITY];
    let b = [1.0, 2.5, -4.0, f32::NAN, -0.0, f32::NAN];
    let (a, b) = (model(vec![floats("w", &[6], &a)]), model(vec![floats("w", &[6], &b)]));
    let found = compared(a, &b);
    let (changes, values) = only(&found);
    assert_eq!(changes, [Change::Changed]);
    let values = values.expect("numbers");
    assert_eq!((values.count, values.elements, values.not_a_number), (3, 6, 1));
    assert_eq!((values.max_abs, values.max_rel), (Some(0.5), Some(0.2)));
    // (1 + 5 + 16) / (sqrt(1 + 4 + 16) * sqrt(1 + 6.25 + 16))
    let cosine = values.cosine.expect("not zero");
    assert!((cosine - 22.0 / (21.0_f64.sqrt() * 23.25_f64.sqrt())).abs() < 1e-12, "{cosine}");
    let zero = compared(
        model(vec![floats("w", &[2], &[0.0, 0.0])]),
        &model(vec![floats("w", &[2], &[0.0, 1.0])]),
    );
    assert_eq!(only(&zero).1.expect("numbers").cosine, None);
}

#[test]
fn differences_within_the_tolerance_are_ignored() {
    let a = || model(vec![floats("w", &[3], &[1.0, 100.0, 0.0])]);
    let b = model(vec![floats("w", &[3], &[1.0, 100.5, 0.001])]);
    let with = |rtol, atol| {
        let options = DiffOptions::default().with_rtol(rtol).with_atol(atol);
        diff(a(), &b, &options).expect("compared")
    };
    assert!(!with(0.0, 0.0).same && !with(0.01, 0.0).same && !with(0.0, 0.1).same);
    assert_eq!(only(&with(0.01, 0.0)).1.expect("numbers").count, 1);
    assert!(with(0.01, 0.001).same && with(0.0, 0.5).same);
}

fn numbers<const N: usize>(dtype: DType, bytes: &[[u8; N]]) -> Model {
    let shape = vec![bytes.len() as u64];
    let tensor = Tensor::dense(dtype, shape, Blob::memory(bytes.concat()));
    model(vec![Parameter { name: "w".to_owned(), tensor }])
}

#[test]
fn infinity_is_not_within_any_tolerance() {
    let options = DiffOptions::default().with_rtol(0.1).with_atol(0.1);
    let with = |values: &[f32]| model(vec![floats("w", &[1], values)]);
    let same = |a, b| diff(with(&[a]), &with(&[b]), &options).expect("compared").same;
    assert!(!same(1.0, f32::INFINITY) && !same(f32::INFINITY, 1.0));
    assert!(!same(f32::NEG_INFINITY, f32::INFINITY) && same(f32::INFINITY, f32::INFINITY));
}

#[test]
fn integers_are_compared_exactly_and_floats_by_their_values() {
    let (odd, even) = ((1_u64 << 53) + 1, 1_u64 << 53);
    let of = |dtype, number: u64| numbers(dtype, &[number.to_le_bytes()]);
    for dtype in [DType::Int64, DType::Uint64] {
        let found = compared(of(DType::Int64, odd), &of(dtype, even));
        assert!(only(&found).0.contains(&Change::Changed), "{found:?}");
        assert_eq!(only(&found).1.expect("numbers").max_abs, Some(1.0));
    }
    let found = compared(of(DType::Int64, odd), &of(DType::Uint64, odd));
    assert_eq!(only(&found).0, [Change::Cast]);
    let of = |number: f64| numbers(DType::Float64, &[number.to_le_bytes()]);
    let found = compared(of(f64::MAX), &of(f64::MIN));
    let values = only(&found).1.expect("numbers");
    assert_eq!((values.max_rel, values.cosine), (Some(2.0), None));
}

#[test]
fn eight_bit_types_are_compared_as_numbers() {
    let eight = |dtype, bytes: [u8; 3]| numbers(dtype, &bytes.map(|byte| [byte]));
    let floats = |values: &[f32]| model(vec![floats("w", &[3], values)]);
    for (dtype, bytes, values) in [
        (DType::Float8E4M3Fn, [0x38, 0x01, 0xfe], [1.0, 0.001_953_125, -448.0]),
        (DType::Float8E5M2, [0x3c, 0x01, 0xfb], [1.0, 0.000_015_258_789, -57344.0]),
    ] {
        let found = compared(eight(dtype, bytes), &floats(&values));
        assert_eq!(only(&found).0, [Change::Cast], "{found:?}");
        let [first, ..] = bytes;
        let found = compared(eight(dtype, bytes), &eight(dtype, [first; 3]));
        assert_eq!(only(&found).1.expect("numbers").count, 2);
    }
}

#[test]
fn the_order_of_named_tensors_is_not_a_difference() {
    let named = |order: [&str; 4]| {
        model(order.iter().map(|name| counted(name, &[3], f32::from(name.as_bytes()[0]))).collect())
    };
    let found = compared(named(["a", "b", "c", "d"]), &named(["b", "c", "d", "a"]));
    assert!(found.same && found.equal == 4, "{found:?}");
    assert_eq!(only(&found).0, [Change::Moved]);
    assert_eq!(found.tensors[0].a.as_ref().expect("a tensor").name, "a");
    // Without names, tensors are identified by their order only.
    let nameless = |order| {
        let mut model = named(order);
        model.parameters.iter_mut().for_each(|parameter| parameter.name.clear());
        model
    };
    let found = compared(nameless(["a", "b", "c", "d"]), &nameless(["a", "c", "b", "d"]));
    assert!(!found.same && found.equal == 2, "{found:?}");
    assert!(found.tensors.iter().all(|change| change.changes == [Change::Moved]), "{found:?}");
    let found = compared(nameless(["a", "b", "c", "d"]), &nameless(["a", "x", "c", "d"]));
    assert_eq!(only(&found).0, [Change::Changed]);
}

#[test]
fn names_and_layouts_of_the_other_model_can_be_mapped() {
    let a = || {
        model(vec![
            counted("encoder.layers.0.linear.weight", &[2, 3], 0.0),
            counted("encoder.layers.1.linear.weight", &[2, 3], 50.0),
            counted("norm", &[3], 7.0),
        ])
    };
    let dir = tempfile::tempdir().expect("a directory");
    let map =
        "# names of the other framework\nencoder.layers.*.linear.* bert.*.dense.*\nnorm\tln\n";
    let options = ConvertOptions::default()
        .with_renames(Renames::parse(map).expect("a map"))
        .with_transpose(vec!["*.linear.weight".to_owned()]);
    let b = converted(a(), dir.path(), "b.safetensors", options);
    let mut names: Vec<_> = b.parameters.iter().map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["bert.0.dense.weight", "bert.1.dense.weight", "ln"]);
    assert_eq!(b.parameter("bert.0.dense.weight").expect("renamed").shape, [3, 2]);
    let options = DiffOptions::default()
        .with_renames(Renames::parse(map).expect("a map"))
        .with_transpose(vec!["*.linear.weight".to_owned()]);
    let found = diff(a(), &b, &options).expect("compared");
    assert!(found.same && found.equal == 3, "{found:?}");
    // Values that still differ are measured after that.
    let mut c = b;
    let bytes = c.parameters[0].tensor.data.bytes().expect("bytes");
    let mut bytes = bytes.to_vec();
    bytes[3] ^= 0x80;
    c.parameters[0].tensor.data = Blob::memory(bytes);
    let found = diff(a(), &c, &options).expect("compared");
    assert_eq!(only(&found).1.expect("numbers").count, 1);
}

#[test]
fn invalid_name_maps_are_errors_with_a_location() {
    for (map, expected) in [
        ("a", "line 1: expected an old name and a new one"),
        ("a b\n* c*d*", "line 2: the new name has more `*` than the old one"),
        ("a b\na c", "line 2: the old name has two new names"),
        ("{\"a\": 3}", "JSON: invalid type: integer `3`, expected a string at line 1 column 7"),
        ("{\"a\": \"b\", \"a\": \"c\"}", "`a`: the old name has two new names"),
        ("{\"a\": \"\"}", "`a`: the new name is empty"),
    ] {
        let error = Renames::parse(map).expect_err(map).to_string();
        assert_eq!(error, format!("invalid name map, {expected}"));
    }
    let renames = Renames::parse("{\"a b\": \"c\", \"x.*\": \"*\"}").expect("a map");
    assert_eq!(renames.of("a b").as_deref(), Some("c"));
    assert_eq!(renames.of("x.y.z").as_deref(), Some("y.z"));
    assert_eq!(renames.of("y"), None);
    let two = || model(vec![counted("a", &[1], 0.0), counted("b", &[1], 0.0)]);
    let error = Renames::parse("a b").expect("a map").apply(&mut two()).expect_err("two");
    assert_eq!(error.to_string(), "two tensors would have the name `b`");
    let mut swapped = two();
    assert_eq!(Renames::parse("a b\nb a").expect("a map").apply(&mut swapped).expect("a swap"), 2);
}

#[test]
fn a_renamed_parameter_is_also_renamed_in_the_program() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = ConvertOptions::default()
        .with_to(Some(Target::Same))
        .with_renames(Renames::parse("conv2d_0.* first.*").expect("a map"));
    let renamed = converted(digits(), dir.path(), "m.pdmodel", options);
    assert!(renamed.parameter("first.w_0").is_some());
    let program = renamed.main().expect("a program");
    assert!(program.ops().any(|op| op.input("Filter") == ["first.w_0"]));
    assert!(program.vars().all(|var| var.name != "conv2d_0.w_0"));
    let found = compared(digits(), &renamed);
    assert!(found.tensors.iter().all(|change| change.changes.contains(&Change::Renamed)));
    assert_eq!(found.program.map(|program| program.same), Some(false));
    // Renaming to an existing variable is an error.
    let options = ConvertOptions::default()
        .with_renames(Renames::parse("conv2d_0.w_0 image").expect("a map"));
    let refused = convert(digits(), dir.path().join("n.pdmodel"), &options);
    assert!(refused.is_err(), "{refused:?}");
    let transposed = ConvertOptions::default().with_transpose(vec!["*".to_owned()]);
    let refused = convert(digits(), dir.path().join("n.pdmodel"), &transposed);
    assert!(refused.expect_err("no").to_string().contains("its operators would not accept them"));
}

#[test]
fn a_program_with_a_nan_constant_equals_itself() {
    let mut model = digits();
    let program = model.main_mut().expect("a program");
    let op = program.blocks[0].ops.last_mut().expect("an operator");
    let value = AttributeValue::Float(f32::NAN);
    op.attributes.push(Attribute { name: "threshold".to_owned(), value });
    assert!(compared(model.clone(), &model).same);
}

#[test]
fn sparse_tensors_are_equal_only_with_the_same_indices() {
    let rows = |rows: &[i64], height, first: f32| {
        let mut parameter = counted("r", &[2, 3], first);
        let rows: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
        parameter.tensor.kind = Kind::SelectedRows { rows: Blob::memory(rows), height };
        model(vec![parameter])
    };
    assert!(compared(rows(&[1, 4], 9, 0.0), &rows(&[1, 4], 9, 0.0)).same);
    for (other, why) in [
        (rows(&[1, 5], 9, 0.0), "rows"),
        (rows(&[1, 4], 8, 0.0), "height"),
        (rows(&[1, 4], 9, 1.0), "values"),
    ] {
        let found = compared(rows(&[1, 4], 9, 0.0), &other);
        assert!(!found.same && only(&found).0.contains(&Change::Changed), "{why}: {found:?}");
    }
    let csr = |columns: &[i64]| {
        let numbers = |numbers: &[i64]| Indices {
            dtype: DType::Int64,
            data: Blob::memory(numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>()),
        };
        let mut parameter = counted("c", &[2], 5.0);
        parameter.tensor.shape = vec![2, 4];
        parameter.tensor.kind =
            Kind::Csr { indptr: Box::new(numbers(&[0, 1, 2])), indices: numbers(columns) };
        model(vec![parameter])
    };
    assert!(compared(csr(&[1, 2]), &csr(&[1, 2])).same);
    assert_eq!(only(&compared(csr(&[1, 2]), &csr(&[1, 3]))).0, [Change::Changed]);
    let mut lod = model(vec![counted("s", &[3], 0.0)]);
    let plain = lod.clone();
    lod.parameters[0].tensor.lod = Lod(vec![vec![0, 1, 3]]);
    assert_eq!(only(&compared(lod, &plain)).0, [Change::Stored]);
}
