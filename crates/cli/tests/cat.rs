//! `lodstone cat`.

#![expect(clippy::disallowed_methods, reason = "makes damaged files")]

use crate::common::{DIGITS, bad, cases, dir, expect, golden, good, read, root, text};

#[test]
fn a_tensor_is_found_by_name_and_by_index() {
    let named = good(["cat", DIGITS, "fc_0.b_0"]);
    let numbered = good(["cat", DIGITS, "--index", "10"]);
    let alone = good(["cat", &format!("{DIGITS}/inference.pdiparams"), "--index", "10"]);
    assert_eq!(named.out, numbered.out);
    assert_eq!(named.out, alone.out);
    assert_eq!(named.out.split(", ").count(), 10, "{}", named.out);
    assert_eq!(named.err, "");
}

#[test]
fn text_is_nested_like_the_shape() {
    let mut all = String::new();
    for path in [
        "2.6.2/int32.lodtensor",
        "2.6.2/bool.lodtensor",
        "2.6.2/scalar.lodtensor",
        "2.6.2/rank6.lodtensor",
        "2.6.2/empty_0x4.lodtensor",
        "2.6.2/lod2.lodtensor",
        "2.6.2/repeated_rows.selectedrows",
        "2.6.2/no_rows.selectedrows",
        "2.6.2/tokens.vocab",
        "3.3.1/float8_e4m3fn.lodtensor",
    ] {
        all += &format!("--- {path}\n{}", good(["cat", &golden(path), "--index", "0"]).out);
    }
    expect("cat.txt", &all);
}

/// Returns the value of a float16, by its definition.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        0 => fraction * 2f64.powi(-24),
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

/// Returns the bits of printed elements; all NaNs have the same bits.
fn bits(dtype: &str, text: &str) -> Vec<u8> {
    let float32 = |text| {
        let value = number::<f32>(text);
        if value.is_nan() { f32::NAN } else { value }.to_le_bytes().to_vec()
    };
    let float64 = |text| {
        let value = number::<f64>(text);
        if value.is_nan() { f64::NAN } else { value }.to_le_bytes().to_vec()
    };
    match dtype {
        "bool" => vec![number::<bool>(text).into()],
        "int8" => number::<i8>(text).to_le_bytes().to_vec(),
        "uint8" => vec![number(text)],
        "int16" => number::<i16>(text).to_le_bytes().to_vec(),
        "int32" => number::<i32>(text).to_le_bytes().to_vec(),
        "int64" => number::<i64>(text).to_le_bytes().to_vec(),
        "float32" | "complex64" | "bfloat16" | "float16" => float32(text),
        "float64" | "complex128" => float64(text),
        "float8_e4m3fn" | "float8_e5m2" => float32(text),
        other => panic!("{other} is new: say how it is printed"),
    }
}

/// Returns the bits of elements in a file; all NaNs have the same bits.
fn bits_of_element(dtype: &str, element: &[u8]) -> Vec<u8> {
    let float32 = |value: f32| if value.is_nan() { f32::NAN } else { value }.to_le_bytes().to_vec();
    match dtype {
        "float32" => float32(f32::from_le_bytes(element.try_into().expect("4 bytes"))),
        "bfloat16" => float32(f32::from_le_bytes([0, 0, element[0], element[1]])),
        #[expect(clippy::cast_possible_truncation, reason = "every float16 is a float32")]
        "float16" => float32(half(u16::from_le_bytes([element[0], element[1]])) as f32),
        // The upper half of a float16.
        #[expect(clippy::cast_possible_truncation, reason = "every float16 is a float32")]
        "float8_e5m2" => float32(half(u16::from_le_bytes([0, element[0]])) as f32),
        "float8_e4m3fn" => {
            let (exponent, fraction) = (i32::from(element[0] >> 3 & 15), f32::from(element[0] & 7));
            let size = match element[0] & 0x7f {
                0x7f => f32::NAN,
                0..8 => fraction * 2f32.powi(-9),
                _ => (8.0 + fraction) * 2f32.powi(exponent - 10),
            };
            float32(if element[0] < 0x80 { size } else { -size })
        }
        "float64" => {
            let value = f64::from_le_bytes(element.try_into().expect("8 bytes"));
            if value.is_nan() { f64::NAN } else { value }.to_le_bytes().to_vec()
        }
        "complex64" => {
            element.chunks(4).flat_map(|part| bits_of_element("float32", part)).collect()
        }
        "complex128" => {
            element.chunks(8).flat_map(|part| bits_of_element("float64", part)).collect()
        }
        _ => element.to_vec(),
    }
}

#[test]
fn text_of_every_element_type_reads_back_as_the_same_value() {
    let mut seen = std::collections::BTreeSet::new();
    for case in cases() {
        let (path, tensor) = (text(&case, "path"), &case["tensors"][0]);
        let plain = tensor["kind"] == "dense" && tensor.get("lod").is_none();
        if text(&case, "format") != "paddle-tensor" || !plain {
            continue;
        }
        let dtype = text(tensor, "dtype");
        let printed = good(["cat", &golden(path), "--index", "0"]).out;
        let found: Vec<u8> = printed
            .split(|letter: char| "[](), \n".contains(letter))
            .filter(|word| !word.is_empty())
            .flat_map(|word| bits(dtype, word))
            .collect();
        // The elements are at the end of the file.
        let file = read(&root().join(golden(path)));
        let size = usize::try_from(tensor["nbytes"].as_u64().expect("a size")).expect("small");
        let count = tensor["shape"].as_array().into_iter().flatten().filter_map(|n| n.as_u64());
        let count = usize::try_from(count.product::<u64>()).expect("small");
        let elements = file[file.len() - size..].chunks(size.checked_div(count).unwrap_or(1));
        let expected: Vec<u8> =
            elements.flat_map(|element| bits_of_element(dtype, element)).collect();
        assert!(found == expected, "{path}: {printed}");
        seen.insert(dtype.to_owned());
    }
    let all = [
        "bfloat16",
        "bool",
        "complex128",
        "complex64",
        "float16",
        "float32",
        "float64",
        "float8_e4m3fn",
        "float8_e5m2",
        "int16",
        "int32",
        "int64",
        "int8",
        "uint8",
    ];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), all);
}

#[test]
fn an_unknown_name_lists_similar_ones() {
    let error = bad(["cat", DIGITS, "fc_0.w"]);
    let similar = "the most similar names are `fc_0.w_0`, `fc_0.b_0`";
    assert!(
        error.starts_with(&format!("error: there is no tensor `fc_0.w`; {similar}\n")),
        "{error}"
    );
    let error = bad(["cat", DIGITS, "zzz"]);
    assert!(error.starts_with("error: there is no tensor `zzz`\n"), "{error}");
}

#[test]
fn a_parameter_is_found_without_the_kind_prefix_of_its_name() {
    let module = "crates/formats/tests/golden/mxnet/1.9.1/module";
    let whole = good(["cat", module, "arg:bn1_gamma"]);
    assert_eq!(good(["cat", module, "bn1_gamma"]).out, whole.out);
    let error = bad(["cat", module, "bn1_gama"]);
    assert!(
        error.starts_with("error: there is no tensor `bn1_gama`; the most similar name"),
        "{error}"
    );
    assert!(error.contains("`arg:bn1_gamma`"), "{error}");
}

#[test]
fn an_index_out_of_range_reports_the_number_of_tensors() {
    for index in ["12", "18446744073709551615"] {
        let error = bad(["cat", DIGITS, "--index", index]);
        let expected = format!(
            "error: there is no tensor with index {index}: indices begin at 0, and there are 12 tensors\n"
        );
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_name_or_an_index_is_required_but_not_both() {
    let error = bad(["cat", DIGITS]);
    assert!(
        error.starts_with("error: the model has 12 tensors, expected a single one\n"),
        "{error}"
    );
    assert!(error.contains("hint: pass a name, or --index N"), "{error}");
    assert!(bad(["cat", DIGITS, "3"]).contains("hint: pass --index 3 to select a tensor by index"));
    assert!(bad(["cat", DIGITS, "fc_0.b_0", "--index", "1"]).contains("cannot be used with"));
    assert!(bad(["cat", DIGITS, "--index", "-1"]).contains("error: "));
}

#[test]
fn the_only_tensor_needs_no_name() {
    let path = golden("2.6.2/float32.lodtensor");
    assert_eq!(good(["cat", &path]).out, good(["cat", &path, "--index", "0"]).out);
}

/// Returns the offsets of the size-prefixed records of a file, and the end of the last one.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    while let Some(size) = bytes[starts[starts.len() - 1]..].first_chunk() {
        let size = usize::try_from(u64::from_le_bytes(*size)).expect("small");
        starts.push(starts[starts.len() - 1] + 8 + size);
    }
    starts
}

#[test]
fn damaged_size_prefixed_records_are_skipped() {
    let dir = dir();
    let good_path = golden("early/sized/many.combined");
    let path = dir.path().join("damaged");
    let path_text = path.to_str().expect("UTF-8");
    let mut damaged = read(&root().join(&good_path));
    let starts = starts(&damaged);
    assert_eq!(starts.len(), 33, "32 records");
    // Everything in records 3 and 4 except their sizes, and the end of the file within record 20.
    for record in [3, 4] {
        damaged[starts[record] + 8..starts[record + 1]].fill(0xff);
    }
    damaged.truncate(starts[20] + 20);
    std::fs::write(&path, &damaged).expect("a file");
    bad(["inspect", path_text]);
    for index in 0..32 {
        let index_text = index.to_string();
        let arguments = |path| ["cat", path, "--index", &index_text].map(str::to_owned);
        if matches!(index, 3 | 4) || index >= 20 {
            let error = bad(arguments(path_text));
            assert!(error.contains("damaged` at offset "), "{index}: {error}");
        } else {
            let expected = good(arguments(&good_path)).out;
            assert_eq!(good(arguments(path_text)).out, expected, "record {index}");
        }
    }
}

#[test]
fn without_sizes_the_records_before_the_damage_are_read() {
    let dir = dir();
    let path = dir.path().join("damaged");
    let mut bytes = read(&root().join(golden("2.6.2/many.combined")));
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&path, &bytes).expect("a file");
    let path = path.to_str().expect("UTF-8");
    let expected = good(["cat", &golden("2.6.2/many.combined"), "--index", "30"]);
    assert_eq!(good(["cat", path, "--index", "30"]).out, expected.out);
}

/// A regression: eight zeros in the truncated record were read as an empty vocabulary.
#[test]
fn a_truncated_record_is_an_error() {
    let dir = dir();
    let path = dir.path().join("damaged");
    let mut bytes = read(&root().join(golden("2.6.2/many.combined")));
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&path, &bytes).expect("a file");
    let error = bad(["cat", path.to_str().expect("UTF-8"), "--index", "31"]);
    assert!(error.contains("record 31"), "{error}");
}

#[test]
fn a_variable_of_a_directory_is_printed() {
    let directory = golden("1.8.5/lenet/inference");
    let combined = good(["cat", &golden("1.8.5/lenet/combined"), "fc_1.b_0"]);
    assert_eq!(good(["cat", &directory, "fc_1.b_0"]).out, combined.out);
    let file = format!("{directory}/fc_1.b_0");
    assert_eq!(good(["cat", &file, "--index", "0"]).out, combined.out);
}
