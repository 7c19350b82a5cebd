//! Through every format and back.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]

use std::path::{Path, PathBuf};

use lodstone::{
    Blob, ConvertOptions, DType, Error, FORMATS, Kind, Loss, Model, OpenOptions, Parameter, Target,
    Tensor, convert, open, open_with,
};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden")
}

/// Every golden model with what belongs to it.
fn models() -> Vec<(String, Model)> {
    let mut models = Vec::new();
    for format in ["paddle", "safetensors", "numpy"] {
        let index = std::fs::read(golden().join(format).join("index.json")).expect("an index");
        let index: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
        for case in index["cases"].as_array().expect("cases") {
            let path = golden().join(format).join(case["path"].as_str().expect("a path"));
            let params = case["params"].as_str().map(|params| golden().join(format).join(params));
            let options = OpenOptions { params, ..OpenOptions::default() };
            // Some golden arrays are there to be refused; the suite of their format says which.
            if let Ok(model) = open_with(&path, &options) {
                models.push((path.display().to_string(), model));
            }
        }
    }
    assert!(models.len() > 120, "{}", models.len());
    models
}

/// What a conversion has to keep of a tensor: name, type, shape and bytes.
type Value = (String, DType, Vec<u64>, Vec<u8>);

fn values(model: &Model) -> Vec<Value> {
    let value = |(index, parameter): (usize, &Parameter)| {
        let Parameter { name, tensor } = parameter;
        let name = if name.is_empty() { index.to_string() } else { name.clone() };
        let bytes = tensor.data.bytes().expect("bytes").to_vec();
        (name, tensor.dtype, tensor.shape.clone(), bytes)
    };
    model.parameters.iter().enumerate().map(value).collect()
}

#[test]
fn what_a_format_can_hold_comes_back_from_it_and_the_rest_is_a_named_loss() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (mut kept, mut refused) = (0, 0);
    for (number, (name, model)) in models().into_iter().enumerate() {
        // Eight zeros alone are not believed to be an empty vocabulary.
        let is_empty = |parameter: &Parameter| matches!(&parameter.tensor.kind, Kind::Vocabulary { tokens } if tokens.is_empty());
        if model.parameters.iter().any(is_empty) {
            continue;
        }
        for format in FORMATS {
            let out = scratch.path().join(format!("{number}-{}", format.name));
            let out = out.with_extension(format.extension);
            let options = ConvertOptions {
                to: Some(Target::Format(format.name.to_owned())),
                ..ConvertOptions::default()
            };
            match convert(model.clone(), &out, &options) {
                Ok(conversion) => {
                    assert!(conversion.report.losses.is_empty(), "{name} to {}", format.name);
                    let back = open(&out).unwrap_or_else(|error| panic!("{name}: {error}"));
                    if format.holds.tensors {
                        let (mut now, mut then) = (values(&back), values(&model));
                        if !format.holds.names {
                            // Without names, what counts is that every value is there.
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
                // One tensor too many, no program, no tensors, a name that is no file.
                Err(
                    Error::Format(lodstone::FormatError::Incompatible { .. }) | Error::Absent(_),
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
    let options =
        ConvertOptions { cast: Some(dtype), allow: allow.to_vec(), ..ConvertOptions::default() };
    convert(model, &out, &options)?;
    let mut tensor = open(&out)?.parameters.remove(0).tensor;
    tensor.data = Blob::memory(tensor.data.bytes()?);
    Ok(tensor)
}

#[test]
fn a_cast_rounds_to_nearest_ties_to_even_and_says_so_if_it_changes_a_value() {
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
fn a_cast_gives_the_same_bytes_whatever_piece_of_it_is_read() {
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
fn sparse_tensors_are_taken_apart_only_with_leave() {
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
    convert(model, &out, &ConvertOptions { allow, ..ConvertOptions::default() }).expect("allowed");
    let back = open(&out).expect("a model");
    let kept = back.parameter("0.rows").expect("rows");
    assert_eq!(kept.data.bytes().expect("bytes"), rows.bytes().expect("bytes"));
    assert_eq!(back.metadata["0.height"], height.to_string());
}
