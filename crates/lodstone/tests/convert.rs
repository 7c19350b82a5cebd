//! Conversions to every format and back.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::path::Path;

use crate::cases::{golden, models};
use lodstone::formats::FORMATS;
use lodstone::inspect::weights;
use lodstone::model::Kind;
use lodstone::{
    Blob, ConvertOptions, DType, Error, Loss, Model, Parameter, Target, Tensor, convert, open,
};

/// The properties of a tensor that a conversion must keep: name, type, shape of the values and bytes.
type Value = (String, DType, Vec<u64>, Vec<u8>);

fn values(model: &Model) -> Vec<Value> {
    let value = |(index, parameter): (usize, &Parameter)| {
        let Parameter { name, tensor } = parameter;
        let name = if name.is_empty() { index.to_string() } else { name.clone() };
        let bytes = tensor.data.bytes().expect("bytes").to_vec();
        (name, tensor.dtype, tensor.stored_shape(), bytes)
    };
    weights(model).iter().enumerate().map(value).collect()
}

#[test]
fn a_conversion_keeps_what_the_format_can_hold_and_names_other_losses() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (mut kept, mut refused) = (0, 0);
    for (number, (name, model)) in models().into_iter().enumerate() {
        // A file of eight zeros is not detected as an empty vocabulary.
        let is_empty = |parameter: &Parameter| matches!(&parameter.tensor.kind, Kind::Vocabulary { tokens } if tokens.is_empty());
        if model.parameters.iter().any(is_empty) {
            continue;
        }
        for format in FORMATS {
            let out = scratch.path().join(format!("{number}-{}", format.name));
            let out = out.with_extension(format.extension);
            // An empty archive, and nets that fill nothing, are detected by their names only.
            let is_by_name = format.name == "mxnet-npz" || format.name.starts_with("caffe2");
            if model.parameters.is_empty() && is_by_name {
                continue;
            }
            let options =
                ConvertOptions::default().with_to(Some(Target::Format(format.name.to_owned())));
            let mut done = convert(model.clone(), &out, &options);
            // Without a lowering between the two frameworks, only the tensors are kept.
            // Nor does ONNX have a program whose inputs have no shape.
            let is_open = |error: &Error| error.to_string().contains("must be known");
            if matches!(&done, Err(error) if matches!(error, Error::NoLowering { .. }) || is_open(error))
            {
                assert!(!out.exists(), "{name} to {}", format.name);
                let alone = options.clone().with_weights_only(true);
                done = convert(model.clone(), &out, &alone);
            }
            match done {
                Ok(conversion) => {
                    assert!(conversion.report.losses.is_empty(), "{name} to {}", format.name);
                    let back = open(&out).unwrap_or_else(|error| panic!("{name}: {error}"));
                    // A lowered program has other constants.
                    let dialects = [&model, &back].map(|m| m.main().map(|p| p.dialect));
                    let is_same = dialects.contains(&None) || dialects[0] == dialects[1];
                    if format.holds.tensors && is_same {
                        let (mut now, mut then) = (values(&back), values(&model));
                        if !format.holds.names {
                            // Without names, only the values are compared.
                            now.iter_mut().chain(&mut then).for_each(|value| value.0.clear());
                        }
                        now.sort();
                        then.sort();
                        assert!(now == then, "{name} to {}", format.name);
                    }
                    kept += 1;
                }
                Err(Error::Lossy(losses)) => {
                    assert!(!losses.is_empty());
                    assert!(!out.exists(), "{name} to {}", format.name);
                    refused += 1;
                }
                // Shards, one tensor too many, no program, no tensors, a name that is not a file name, operators that the
                // other framework lacks.
                Err(
                    Error::Format(
                        lodstone::formats::Error::Incompatible { .. }
                        | lodstone::formats::Error::NoProgram { .. },
                    )
                    | Error::InvalidOption { option: "to", .. }
                    | Error::Shards { .. }
                    | Error::Lower(_),
                ) => {
                    assert!(!out.exists(), "{name} to {}", format.name);
                }
                Err(error) => panic!("{name} to {}: {error}", format.name),
            }
        }
    }
    assert!(kept > 500 && refused > 50, "{kept} kept, {refused} refused");
}

fn tensor(values: &[f64]) -> Model {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let tensor = Tensor::dense(DType::Float64, vec![values.len() as u64], Blob::memory(bytes));
    let parameters = vec![Parameter { name: "x".to_owned(), tensor }];
    Model { parameters, ..Model::default() }
}

fn cast_to(model: Model, dtype: DType, allow: &[Loss]) -> Result<Tensor, Error> {
    let scratch = tempfile::tempdir().expect("a directory");
    let out = scratch.path().join("out.safetensors");
    let options = ConvertOptions::default().with_cast(Some(dtype)).with_allow(allow.to_vec());
    convert(model, &out, &options)?;
    let mut tensor = open(&out)?.parameters.remove(0).tensor;
    tensor.data = Blob::memory(tensor.data.bytes()?);
    Ok(tensor)
}

#[test]
fn a_cast_rounds_to_nearest_ties_to_even_and_reports_changed_values() {
    let exact = [0.0, -0.0, 1.0, 0.5, 65504.0, f64::INFINITY, f64::NAN, 2f64.powi(-24)];
    let half = cast_to(tensor(&exact), DType::Float16, &[]).expect("exact");
    let bits: Vec<u16> = half
        .data
        .bytes()
        .expect("bytes")
        .as_chunks()
        .0
        .iter()
        .map(|b| u16::from_le_bytes(*b))
        .collect();
    assert_eq!(bits[..6], [0, 0x8000, 0x3c00, 0x3800, 0x7bff, 0x7c00]);
    assert_eq!((bits[6] & 0x7e00, bits[7]), (0x7e00, 1));

    // Ties: 2049 lies between 2048 and 2050, 2051 between 2050 and 2052; 65520 becomes infinite.
    for (value, expected) in [(2049.0, 0x6800), (2051.0, 0x6802), (65520.0, 0x7c00)] {
        let refused = cast_to(tensor(&[1.0, value]), DType::Float16, &[]);
        assert!(
            matches!(refused, Err(Error::Lossy(losses)) if losses.contains_key(&Loss::Rounding))
        );
        let allowed =
            cast_to(tensor(&[value]), DType::Float16, &[Loss::Rounding]).expect("allowed");
        assert_eq!(allowed.data.bytes().expect("bytes")[..], u16::to_le_bytes(expected));
    }
    // 1 + 2^-8 is a tie of bfloat16, 1 + 3 * 2^-8 another.
    for (value, expected) in [(1.0 + 2f64.powi(-8), 0x3f80), (1.0 + 3.0 * 2f64.powi(-8), 0x3f82)] {
        let allowed =
            cast_to(tensor(&[value]), DType::BFloat16, &[Loss::Rounding]).expect("allowed");
        assert_eq!(allowed.data.bytes().expect("bytes")[..], u16::to_le_bytes(expected));
    }
}

#[test]
fn a_cast_returns_the_nearest_value() {
    // A single bit beyond a tie decides, at any position.
    let up = |one: f64, tie: i32, beyond: i32| one + 2f64.powi(tie) + 2f64.powi(beyond);
    let bits = |value: f64, dtype| {
        let cast = cast_to(tensor(&[value]), dtype, &[Loss::Rounding]).expect("allowed");
        u16::from_le_bytes(cast.data.bytes().expect("bytes")[..].try_into().expect("two bytes"))
    };
    assert_eq!(bits(up(1.0, -8, -23), DType::BFloat16), 0x3f81);
    assert_eq!(bits(up(1.0, -8, -50), DType::BFloat16), 0x3f81);
    assert_eq!(bits(up(1.0, -11, -40), DType::Float16), 0x3c01);
    assert_eq!(bits(up(0.0, -25, -60), DType::Float16), 1, "subnormal");
    assert_eq!(bits(2f64.powi(-25), DType::Float16), 0, "a tie with zero");
    assert_eq!(bits(65519.999, DType::Float16), 0x7bff);
    assert_eq!(bits(f64::from(f32::MAX), DType::BFloat16), 0x7f80);

    // No neighbour of the result is nearer to the number.
    let mut state = 1u64;
    let mut values = Vec::new();
    for _ in 0..20_000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let exponent = u32::try_from(state >> 33).expect("31 bits") % 40;
        let scale = 2f64.powi(i32::try_from(exponent).expect("small") - 25);
        values
            .push(f64::from(u32::try_from(state >> 32).expect("32 bits")) / 2f64.powi(31) * scale);
    }
    let cast = cast_to(tensor(&values), DType::Float16, &[Loss::Rounding]).expect("allowed");
    let bytes = cast.data.bytes().expect("bytes");
    let half = |bits: u16| {
        let (exponent, fraction) = (i32::from(bits >> 10), f64::from(bits & 0x3ff));
        if exponent == 0 {
            return fraction * 2f64.powi(-24);
        }
        (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15)
    };
    for (value, encoded) in values.iter().zip(bytes.as_chunks().0) {
        let bits = u16::from_le_bytes(*encoded);
        let distance = (half(bits) - value).abs();
        assert!(bits == 0 || distance <= (half(bits - 1) - value).abs(), "{value} as {bits:#x}");
        assert!(distance <= (half(bits + 1) - value).abs(), "{value} as {bits:#x}");
    }
}

#[test]
fn a_model_of_2017_becomes_a_current_one() {
    let scratch = tempfile::tempdir().expect("a directory");
    let old = scratch.path().join("old");
    std::fs::create_dir(&old).expect("a directory");
    for name in ["lod2.lodtensor", "float32.lodtensor"] {
        let early = golden().join("paddle/early/lod_last").join(name);
        std::fs::copy(early, old.join(name)).expect("a golden file");
    }
    let plain = std::fs::read(golden().join("paddle/2.6.2/float64.lodtensor")).expect("a file");
    std::fs::write(old.join("plain"), &plain).expect("written");
    let sized = [&(plain.len() as u64).to_le_bytes()[..], &plain].concat();
    std::fs::write(old.join("sized"), &sized).expect("written");

    // Each file keeps its layout if it is written back, and gets the current one if not.
    let write = |name: &str, to| {
        let out = scratch.path().join(name);
        let options = ConvertOptions::default().with_to(Some(to));
        convert(open(&old).expect("a model"), &out, &options).expect("converted");
        out
    };
    let same = write("same", Target::Same);
    let new = write("new", Target::Format("paddle-vars".to_owned()));
    for name in ["lod2.lodtensor", "float32.lodtensor", "plain", "sized"] {
        let read = |directory: &Path| std::fs::read(directory.join(name)).expect("a file");
        assert!(read(&same) == read(&old), "{name}");
        let today = golden().join("paddle/2.6.2").join(name);
        let today =
            if today.exists() { std::fs::read(today).expect("a file") } else { plain.clone() };
        assert!(read(&new) == today, "{name}");
    }
}

#[test]
fn metadata_of_a_file_is_lost_only_if_allowed() {
    let scratch = tempfile::tempdir().expect("a directory");
    let model = || open(golden().join("safetensors/metadata.safetensors")).expect("a model");
    assert!(!model().metadata.is_empty());
    let out = scratch.path().join("out.npz");
    let refused = convert(model(), &out, &ConvertOptions::default());
    assert!(matches!(refused, Err(Error::Lossy(losses)) if losses.contains_key(&Loss::Metadata)));
    let allow = vec![Loss::Metadata];
    convert(model(), &out, &ConvertOptions::default().with_allow(allow)).expect("allowed");
}

#[test]
fn a_pickle_keeps_its_objects_in_its_own_format_and_names_the_loss_elsewhere() {
    let scratch = tempfile::tempdir().expect("a directory");
    let model = || open(golden().join("paddle_pickle/2.6.2/adam.pdopt")).expect("a model");
    let out = scratch.path().join("out.npz");
    let refused = convert(model(), &out, &ConvertOptions::default());
    assert!(matches!(refused, Err(Error::Lossy(losses)) if losses.contains_key(&Loss::Metadata)));

    // The objects are the same after a cast and a selection.
    let out = scratch.path().join("out.pdopt");
    let options = ConvertOptions::default()
        .with_to(Some(Target::Same))
        .with_exclude(vec!["*beta*".to_owned()])
        .with_cast(Some(DType::Float64));
    convert(model(), &out, &options).expect("converted");
    let back = open(&out).expect("a model");
    assert_eq!(back.metadata["LR_Scheduler"], model().metadata["LR_Scheduler"]);
    assert!(back.parameters.iter().all(|p| p.tensor.dtype == DType::Float64));
    assert!(back.parameters.iter().all(|p| !p.name.contains("beta")));

    // safetensors keeps the metadata.
    let out = scratch.path().join("out.safetensors");
    convert(model(), &out, &ConvertOptions::default()).expect("converted");
    assert_eq!(open(&out).expect("a model").metadata, model().metadata);
}

#[test]
fn types_that_a_pickle_cannot_name_are_a_named_loss() {
    let scratch = tempfile::tempdir().expect("a directory");
    let out = scratch.path().join("out.pdparams");
    for (dtype, becomes) in [
        (DType::BFloat16, DType::Uint16),
        (DType::Float8E4M3Fn, DType::Int8),
        (DType::Float8E5M2, DType::Int8),
    ] {
        let size = dtype.size_of(&[3]).expect("a size");
        let bytes = vec![1; usize::try_from(size).expect("small")];
        let tensor = Tensor::dense(dtype, vec![3], Blob::memory(bytes));
        let parameters = vec![Parameter { name: "x".to_owned(), tensor }];
        let model = Model { parameters, ..Model::default() };
        let refused = convert(model.clone(), &out, &ConvertOptions::default());
        assert!(matches!(refused, Err(Error::Lossy(losses)) if losses.contains_key(&Loss::DType)));
        let allow = vec![Loss::DType];
        convert(model, &out, &ConvertOptions::default().with_allow(allow)).expect("allowed");
        let back = open(&out).expect("a model");
        assert_eq!(back.parameters[0].tensor.dtype, becomes);
        assert!(!back.report.warnings.is_empty(), "it says what they may be");
    }
}

#[test]
fn unsupported_write_options_are_errors() {
    let scratch = tempfile::tempdir().expect("a directory");
    let out = scratch.path().join("out.npz");
    let mut split = ConvertOptions::default();
    split.write.max_shard_size = Some(100);
    let mut aligned = ConvertOptions::default();
    aligned.write.align = 64;
    for (options, what) in
        [(split, "npz does not support shards"), (aligned, "npz does not support alignment")]
    {
        let error = convert(tensor(&[1.0]), &out, &options).expect_err("refused");
        assert!(error.to_string().contains(what), "{error}");
        assert!(!out.exists());
    }
}

#[test]
fn reading_any_part_of_a_cast_gives_the_same_bytes() {
    let values: Vec<f64> = (0..200_000).map(|i| f64::from(i) / 3.0).collect();
    let model = tensor(&values);
    let whole = cast_to(model, DType::Float32, &[Loss::Rounding]).expect("allowed");
    #[expect(clippy::cast_possible_truncation, reason = "what casting means")]
    let expected: Vec<u8> = values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
    assert!(whole.data.bytes().expect("bytes") == expected);
}

#[test]
fn a_source_that_changes_while_it_is_converted_is_not_published() {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("model.safetensors");
    let out = scratch.path().join("out.npz");
    std::fs::copy(golden().join("safetensors/shapes.safetensors"), &source).expect("copied");
    let model = open(&source).expect("a model");
    std::fs::write(&source, b"something else").expect("written");
    let error = convert(model, &out, &ConvertOptions::default()).expect_err("it changed");
    assert!(error.to_string().contains("changed while it was read"), "{error}");
    assert!(!out.exists());
}

#[test]
fn sparse_tensors_are_split_only_if_allowed() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = golden().join("paddle/1.8.5/repeated_rows.selectedrows");
    let model = open(&path).expect("a model");
    let Kind::SelectedRows { rows, height } = model.parameters[0].tensor.kind.clone() else {
        panic!("not sparse")
    };
    let out = scratch.path().join("out.safetensors");
    let refused = convert(model.clone(), &out, &ConvertOptions::default());
    assert!(matches!(refused, Err(Error::Lossy(_))));
    let allow = vec![Loss::SelectedRows];
    convert(model, &out, &ConvertOptions::default().with_allow(allow)).expect("allowed");
    let back = open(&out).expect("a model");
    let kept = back.parameter("0.rows").expect("rows");
    assert_eq!(kept.data.bytes().expect("bytes"), rows.bytes().expect("bytes"));
    assert_eq!(back.metadata["0.height"], height.to_string());
}

#[test]
fn row_sparse_tensors_and_selected_rows_are_equivalent_if_rows_ascend() {
    let scratch = tempfile::tempdir().expect("a directory");
    let out = |name: &str| scratch.path().join(name);
    let to = |format: &str| {
        ConvertOptions::default()
            .with_to(Some(Target::Format(format.to_owned())))
            .with_include(vec!["rows".to_owned(), "no rows".to_owned()])
    };
    let there = open(golden().join("mxnet/1.9.1/sparse.params")).expect("a model");
    convert(there.clone(), out("paddle"), &to("paddle-vars")).expect("lossless");
    let paddle = open(out("paddle")).expect("a model");
    let rows = paddle.parameter("rows").expect("rows");
    let Kind::SelectedRows { height, .. } = rows.kind else { panic!("{}", rows.kind.name()) };
    assert_eq!((height, &*rows.shape), (6, &[2, 3][..]));
    convert(paddle, out("back.params"), &to("mxnet-params")).expect("lossless");
    let back = open(out("back.params")).expect("a model");
    for name in ["rows", "no rows"] {
        let (now, then) =
            (back.parameter(name).expect("now"), there.parameter(name).expect("then"));
        let (Kind::RowSparse { indices: a }, Kind::RowSparse { indices: b }) =
            (&now.kind, &then.kind)
        else {
            panic!("{}", now.kind.name())
        };
        assert_eq!((now.dtype, &now.shape, a.dtype), (then.dtype, &then.shape, b.dtype));
        for (now, then) in [(&now.data, &then.data), (&a.data, &b.data)] {
            assert_eq!(now.bytes().expect("bytes"), then.bytes().expect("bytes"));
        }
    }
    // The values of repeated rows are summed, which MXNet does not support.
    let repeated = open(golden().join("paddle/1.8.5/repeated_rows.selectedrows")).expect("a model");
    let options = to("mxnet-params").with_include(Vec::new());
    let refused = convert(repeated, out("repeated.params"), &options);
    assert!(
        matches!(refused, Err(Error::Lossy(losses)) if losses.contains_key(&Loss::SelectedRows))
    );
}

#[test]
fn parts_of_sparse_tensors_have_their_own_names() {
    let scratch = tempfile::tempdir().expect("a directory");
    let model = open(golden().join("mxnet/1.9.1/sparse.params")).expect("a model");
    let out = scratch.path().join("out.safetensors");
    let refused = convert(model.clone(), &out, &ConvertOptions::default());
    assert!(matches!(refused, Err(Error::Lossy(losses)) if losses[&Loss::Sparse].len() == 5));
    let allow = vec![Loss::Sparse];
    convert(model, &out, &ConvertOptions::default().with_allow(allow)).expect("allowed");
    let back = open(&out).expect("a model");
    let shape = |name: &str| back.parameter(name).map(|tensor| tensor.shape.clone());
    assert_eq!(shape("csr"), Some(vec![5]));
    assert_eq!(shape("csr.indices"), Some(vec![5]));
    assert_eq!(shape("csr.indptr"), Some(vec![4]));
    assert_eq!(shape("rows.indices"), Some(vec![2]));
    assert_eq!((&*back.metadata["csr.shape"], &*back.metadata["rows.shape"]), ("[3, 4]", "[6, 3]"));
}

#[test]
fn a_program_of_another_framework_is_rejected_unless_only_weights_are_written() {
    let scratch = tempfile::tempdir().expect("a directory");
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits");
    let mxnet = golden().join("mxnet/1.9.1/module");
    for (source, format) in [
        (&digits.join("paddle"), "onnx-glow"),
        (&digits.join("paddle"), "mxnet"),
        (&mxnet, "paddle"),
        (&mxnet, "paddle-vars"),
        (&mxnet, "paddle-program"),
    ] {
        let model = open(source).expect("a model");
        let out = scratch.path().join(format);
        let options = ConvertOptions::default().with_to(Some(Target::Format(format.to_owned())));
        let error = convert(model.clone(), &out, &options).expect_err(format);
        assert!(matches!(error, Error::NoLowering { .. }), "{format}: {error}");
        assert!(!out.exists(), "{format}");
        // The other formats require a program.
        let has_place = format == "paddle-vars";
        let alone = options.with_weights_only(true);
        let done = convert(model.clone(), &out, &alone);
        assert_eq!(done.is_ok(), has_place, "{format}: {done:?}");
        if has_place {
            let (now, then) = (open(&out).expect("written"), model);
            assert_eq!(now.parameters.len(), then.parameters.len(), "{format}");
            assert_eq!(now.main().map_or(0, |program| program.ops().count()), 0, "{format}");
            std::fs::remove_file(&out).or_else(|_| std::fs::remove_dir_all(&out)).expect("removed");
        }
    }
}

#[test]
fn parameters_of_a_program_are_not_cast() {
    let scratch = tempfile::tempdir().expect("a directory");
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits");
    for (source, out) in [
        (golden().join("mxnet/2.0.0b1/gluon"), "half-symbol.json"),
        (digits.join("paddle"), "half.pdmodel"),
    ] {
        let out = scratch.path().join(out);
        let options = ConvertOptions::default()
            .with_cast(Some(DType::Float16))
            .with_allow(vec![Loss::Rounding]);
        let model = open(&source).expect("a model");
        assert!(model.main().is_some());
        let error = convert(model.clone(), &out, &options).expect_err("refused");
        assert!(matches!(error, Error::CastProgram), "{error}");
        assert_eq!(std::fs::read_dir(scratch.path()).expect("listed").count(), 0);
    }
    // Without the program, they can be cast.
    let out = scratch.path().join("half.safetensors");
    let options =
        ConvertOptions::default().with_cast(Some(DType::Float16)).with_allow(vec![Loss::Rounding]);
    let options = options.with_weights_only(true);
    convert(open(digits.join("paddle")).expect("a model"), &out, &options).expect("converted");
    let half = open(&out).expect("a model");
    assert_eq!(half.parameters[0].tensor.dtype, DType::Float16);
}

#[test]
fn a_loaded_model_is_equal_and_in_memory() {
    for (path, model) in models() {
        let mut loaded = model.clone();
        loaded.load().unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(values(&loaded), values(&model), "{path}");
        for (was, is) in model.parameters.iter().zip(&loaded.parameters) {
            for (was, is) in was.tensor.blobs().zip(is.tensor.blobs()) {
                assert!(is.in_memory().is_some(), "{path}");
                assert_eq!(is.read().expect("bytes"), was.read().expect("bytes"), "{path}");
            }
        }
    }
}

#[test]
fn tensors_that_share_bytes_share_them_in_memory() {
    let mut model = open(golden().join("paddle/2.6.2/many.combined")).expect("a model");
    let tied = model.parameters.first().expect("a tensor").clone();
    model.parameters.push(tied);
    model.load().expect("loaded");
    let bytes = |parameter: Option<&Parameter>| {
        let blob = &parameter.expect("a tensor").tensor.data;
        blob.in_memory().expect("in memory").as_ptr()
    };
    assert_eq!(bytes(model.parameters.first()), bytes(model.parameters.last()));
}

#[test]
fn a_file_that_changed_since_it_was_opened_is_not_loaded() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("x.npy");
    let content = std::fs::read(golden().join("numpy/dtype/float32.npy")).expect("a file");
    for len in [content.len() - 4, content.len() + 4] {
        std::fs::write(&path, &content).expect("written");
        let mut model = open(&path).expect("a model");
        let mut changed = content.clone();
        changed.resize(len, 0);
        std::fs::write(&path, changed).expect("written");
        let error = model.load().expect_err("changed");
        assert!(error.to_string().contains("changed while it was read"), "{error}");
    }
}
