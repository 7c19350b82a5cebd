//! Types, sizes and LoD.

use lodstone_model::{DType, Lod, Residual};

#[test]
fn names_of_types_read_back() {
    for name in ["bool", "int8", "uint64", "float16", "bfloat16", "float8_e4m3fn", "complex128"] {
        let dtype = DType::from_name(name).expect("a type");
        assert_eq!(dtype.to_string(), name);
        assert!(dtype.bits().is_some());
    }
    assert_eq!(DType::from_name("float17"), None);
    assert_eq!(DType::Unknown(77).to_string(), "unknown(77)");
    assert_eq!(format!("[{:>8}]", DType::Bool), "[    bool]");
}

#[test]
fn sizes_are_in_whole_bytes_and_checked() {
    assert_eq!(DType::Float32.size_of(&[]), Some(4));
    assert_eq!(DType::Float32.size_of(&[2, 3]), Some(24));
    assert_eq!(DType::Int4.size_of(&[3]), Some(2), "packed");
    assert_eq!(DType::Float64.size_of(&[u64::MAX, 0, u64::MAX]), Some(0));
    assert_eq!(DType::Float64.size_of(&[1 << 60, 2]), None);
    assert_eq!(DType::Int8.size_of(&[1 << 32, 1 << 32]), None);
    assert_eq!(DType::String.size_of(&[1]), None);
}

#[test]
fn a_lod_is_checked_against_its_levels_and_the_rows() {
    let check = |levels: &[&[u64]], rows| {
        let lod = Lod(levels.iter().map(|level| level.to_vec()).collect());
        lod.check(rows).map_err(|error| error.to_string())
    };
    assert_eq!(check(&[], 5), Ok(()));
    assert_eq!(check(&[&[0, 2, 5]], 5), Ok(()));
    assert_eq!(check(&[&[0, 0, 5, 5]], 5), Ok(()), "empty sequences");
    assert_eq!(check(&[&[0, 1, 2], &[0, 1, 3]], 3), Ok(()));
    for (levels, rows, level, rule) in [
        (&[&[1u64, 5][..]][..], 5, 0, "does not begin with 0"),
        (&[&[][..]], 0, 0, "does not begin with 0"),
        (&[&[0, 3, 2, 5][..]], 5, 0, "is not ascending"),
        (&[&[0, 4][..]], 5, 0, "does not end at"),
        (&[&[0, 2][..], &[0, 1, 2, 5][..]], 5, 0, "does not end at"),
        (&[&[0, 3][..], &[0, 1, 2, 6][..]], 5, 1, "does not end at"),
    ] {
        let error = check(levels, rows).expect_err("broken");
        assert!(error.starts_with(&format!("LoD level {level} {rule}")), "{error}");
    }
}

#[test]
fn residuals_belong_to_one_format_and_do_not_make_nodes_differ() {
    let residual = Residual::new("one", vec![1, 2].into());
    assert_eq!(residual.of("one").map(|bytes| bytes.to_vec()), Some(vec![1, 2]));
    assert_eq!(residual.of("other"), None);
    assert_eq!(residual, Residual::default());
}
