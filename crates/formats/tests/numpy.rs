//! NumPy files: their contents, byte-for-byte write-back, and rejected files.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]
#![expect(clippy::cast_possible_truncation, reason = "truncation is intended")]

pub(crate) mod hostile;

use crate::support;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::counting::peak_of;
use crate::support::facts::{self, Case};
use crate::support::{Random, blob, bytes, facts_of_all};
use lodstone_formats::{Error, Format, OpenOptions, Probe, WriteOptions, numpy, safetensors};
use lodstone_model::{DType, Kind, Limits, Lod, Model, Parameter, Tensor};
use lodstone_store::{Blob, Derive, Error as StoreError, Location};

/// The memory that a reader may hold beyond the size of a file: buffers for entries of an archive.
const CONSTANT: usize = 768 << 10;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/numpy")
}

/// Returns the cases of one format.
fn cases(format: &str) -> Vec<Case> {
    let mut cases = facts::cases(&golden());
    cases.retain(|case| case.format == format);
    assert!(!cases.is_empty());
    cases
}

fn format_of(name: &str) -> &'static Format {
    if name == "npz" { &numpy::NPZ } else { &numpy::NPY }
}

fn opened(case: &Case) -> Model {
    let read = format_of(&case.format).read;
    read(&Location::from(&golden().join(&case.path)), &OpenOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", case.path))
}

fn npy(file: &[u8]) -> Result<Model, Error> {
    numpy::read_npy_blob(&blob(file), &Limits::default())
}

fn npz(file: &[u8]) -> Result<Model, Error> {
    numpy::read_npz_blob(&blob(file), &Limits::default())
}

/// Returns the bytes that `model` is written to.
fn written(model: &Model, format: &Format) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x").with_extension(format.extension);
    let files = format.write(model, &path, &WriteOptions::default()).unwrap().files;
    assert_eq!(files, [Location::from(&path)]);
    bytes(&path)
}

fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Parameter {
    let size = dtype.size_of(shape).unwrap() as usize;
    let data = blob(&(0..size).map(|n| n as u8).collect::<Vec<_>>());
    Parameter { name: name.to_owned(), tensor: Tensor::dense(dtype, shape.to_vec(), data) }
}

fn model_of(parameters: Vec<Parameter>) -> Model {
    Model { parameters, ..Model::default() }
}

/// Returns an array with this header and this many bytes of elements.
fn array(dict: &str, elements: usize) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((dict.len() as u16).to_le_bytes());
    file.extend(dict.as_bytes());
    file.extend((0..elements).map(|n| n as u8));
    file
}

fn header(descr: &str, fortran: bool, shape: &str) -> String {
    let fortran = if fortran { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

/// A member of an archive, possibly with inconsistent headers.
struct Entry {
    name: &'static [u8],
    local_name: &'static [u8],
    method: u16,
    local_method: u16,
    flags: u16,
    data: Vec<u8>,
    size: u32,
    crc: u32,
    /// The offset in the directory, if not the actual one.
    offset: Option<u32>,
}

impl Entry {
    fn stored(name: &'static str, data: &[u8]) -> Self {
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let (name, data, size) = (name.as_bytes(), data.to_vec(), data.len() as u32);
        let (method, local_method, flags, offset) = (0, 0, 0, None);
        let crc = crc.sum();
        Self { name, local_name: name, method, local_method, flags, data, size, crc, offset }
    }

    fn deflated(name: &'static str, data: &[u8]) -> Self {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
        encoder.write_all(data).unwrap();
        let data_of = encoder.finish().unwrap();
        Self { data: data_of, method: 8, local_method: 8, ..Self::stored(name, data) }
    }

    /// Returns the part that both headers share, from the flags on.
    fn common(&self, method: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend([self.flags, method, 0, 33].map(u16::to_le_bytes).as_flattened());
        let sizes = [self.crc, self.data.len() as u32, self.size];
        bytes.extend(sizes.map(u32::to_le_bytes).as_flattened());
        bytes.extend([name.len() as u16, 0].map(u16::to_le_bytes).as_flattened());
        bytes
    }
}

fn archive(entries: &[Entry]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = entry.offset.unwrap_or(file.len() as u32);
        file.extend(b"PK\x03\x04\x14\x00");
        file.extend(entry.common(entry.local_method, entry.local_name));
        file.extend(entry.local_name);
        file.extend(&entry.data);
        directory.extend(b"PK\x01\x02\x14\x00\x14\x00");
        directory.extend(entry.common(entry.method, entry.name));
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(entry.name);
    }
    let (start, count) = (file.len() as u32, entries.len() as u16);
    file.extend(&directory);
    file.extend(b"PK\x05\x06\x00\x00\x00\x00");
    file.extend([count, count].map(u16::to_le_bytes).as_flattened());
    file.extend([directory.len() as u32, start].map(u32::to_le_bytes).as_flattened());
    file.extend([0; 2]);
    file
}

fn malformed(result: Result<Model, Error>) -> String {
    let error = result.expect_err("a refusal");
    let inner = match &error {
        Error::Inside { source, .. } => source,
        error => error,
    };
    assert!(
        matches!(inner, Error::Store(StoreError::Malformed { .. } | StoreError::Limit { .. })),
        "{error:?}"
    );
    error.to_string()
}

#[test]
fn every_file_holds_what_numpy_put_into_it() {
    for case in cases("npy").into_iter().chain(cases("npz")) {
        let model = opened(&case);
        assert_eq!(model.format, case.format);
        assert_eq!(facts_of_all(&model), case.tensors, "{}", case.path);
        assert!(model.report.warnings.is_empty(), "{:?}", model.report);
    }
}

#[test]
fn arrays_of_other_than_numeric_types_are_rejected_by_name() {
    let words = [
        ("object", "pickle"),
        ("structure", "structures"),
        ("unicode", "text"),
        ("bytes", "text"),
        ("datetime", "dates"),
        ("longdouble", "extended precision"),
        ("raw", "raw bytes"),
        ("bfloat16", "saves bfloat16"),
        ("float8_e4m3fn", "raw bytes"),
        ("float8_e5m2", "float8_e5m2"),
    ];
    assert_eq!(cases("npy-refused").len(), words.len());
    for (name, word) in words {
        let path = golden().join(format!("refused/{name}.npy"));
        let error = numpy::read_npy(&Location::from(&path), &OpenOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains(word) && message.contains(path.to_str().unwrap()), "{message}");
    }
}

#[test]
fn an_array_that_was_not_edited_is_written_back_to_the_same_bytes() {
    for case in cases("npy") {
        let original = bytes(&golden().join(&case.path));
        assert_eq!(written(&opened(&case), &numpy::NPY), original, "{}", case.path);
    }
}

#[test]
fn an_array_from_elsewhere_is_written_as_numpy_writes_it() {
    for case in cases("npy") {
        let mut model = opened(&case);
        let original = bytes(&golden().join(&case.path));
        let tensor = &mut model.parameters[0].tensor;
        tensor.data = Blob::memory(tensor.data.bytes().unwrap());
        let file = written(&model, &numpy::NPY);
        assert_eq!(facts_of_all(&npy(&file).unwrap()), case.tensors, "{}", case.path);
        let plain = ["dtype/", "shape/"].iter().any(|folder| case.path.starts_with(folder));
        if plain && !case.path.contains("big-endian") {
            assert_eq!(file, original, "{}", case.path);
        } else if !case.path.starts_with("version/") {
            assert!(file.windows(22).any(|part| part == b"'fortran_order': False"));
            assert_eq!(file.len() % 64, original.len() % 64);
        }
    }
}

#[test]
fn an_archive_is_written_and_read_again() {
    for case in cases("npz") {
        let file = written(&opened(&case), &numpy::NPZ);
        assert_eq!(facts_of_all(&npz(&file).unwrap()), case.tensors, "{}", case.path);
        // The same model results in the same bytes.
        assert_eq!(written(&npz(&file).unwrap(), &numpy::NPZ), file);
    }
}

#[test]
fn names_that_a_path_would_change_are_kept() {
    let names = ["", ".", "a/../b", "/a//b/", "a\\b", " ", "c:x", "größe", "層/重み.npy", "x\n"];
    let parameters = names.iter().map(|name| tensor(name, DType::Int16, &[3])).collect();
    let model = model_of(parameters);
    let again = npz(&written(&model, &numpy::NPZ)).unwrap();
    assert_eq!(facts_of_all(&again), facts_of_all(&model));
    assert!(again.report.warnings.is_empty(), "{:?}", again.report);
}

#[test]
fn values_survive_a_round_trip_through_safetensors() {
    for case in cases("npz") {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.safetensors");
        safetensors::FORMAT.write(&opened(&case), &path, &WriteOptions::default()).unwrap();
        let between = safetensors::read(&Location::from(&path), &OpenOptions::default()).unwrap();
        let mut facts = facts_of_all(&npz(&written(&between, &numpy::NPZ)).unwrap());
        facts.sort_by_key(|fact| case.tensors.iter().position(|known| known.name == fact.name));
        assert_eq!(facts, case.tensors, "{}", case.path);
    }
}

/// Returns the row-major elements of an array of these dims that is stored column-major.
fn transposed(stored: &[u8], shape: &[usize], item: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for number in 0..shape.iter().product::<usize>() {
        let (mut rest, mut place, mut stride) = (number, 0, shape.iter().product::<usize>());
        for dim in shape.iter().rev() {
            stride /= dim;
            place += rest % dim * stride;
            rest /= dim;
        }
        out.extend(&stored[place * item..][..item]);
    }
    out
}

#[test]
fn any_range_of_reordered_elements_is_correct() {
    let mut random = Random::new(5);
    let shapes: [(&str, usize, &[usize]); 8] = [
        ("<f4", 4, &[50, 70]),
        ("<f8", 8, &[3, 1, 200, 7]),
        ("|u1", 1, &[130, 90]),
        ("<i2", 2, &[2, 3000]),
        ("<i2", 2, &[3000, 2]),
        ("<c16", 16, &[11, 3, 5, 7]),
        ("<f4", 4, &[300, 7, 500]),
        ("<u8", 8, &[1, 1, 40]),
    ];
    for (descr, item, shape) in shapes {
        let size = shape.iter().product::<usize>() * item;
        let stored: Vec<_> = (0..size).map(|_| random.next() as u8).collect();
        let mut file = array(
            &header(descr, true, &format!("{shape:?}").replace('[', "(").replace(']', ")")),
            0,
        );
        file.extend(&stored);
        let expected = transposed(&stored, shape, item);
        for wrapped in [false, true] {
            let model = match wrapped {
                false => npy(&file).unwrap(),
                true => npz(&archive(&[Entry::deflated("x.npy", &file)])).unwrap(),
            };
            let data = &model.parameters[0].tensor.data;
            assert_eq!(data.bytes().unwrap(), expected, "{descr} {shape:?}");
            for _ in 0..40 {
                let start = random.below(size);
                let len = random.below((size - start).min(20_000) + 1);
                let mut buffer = vec![0; len];
                data.read_at(start as u64, &mut buffer).unwrap();
                assert_eq!(buffer, expected[start..start + len], "{descr} {shape:?} {start} {len}");
            }
            for chunk in [7, 4096, 65_536] {
                let mut whole = Vec::new();
                while whole.len() < size.min(chunk * 8000) {
                    let mut piece = vec![0; chunk.min(size - whole.len())];
                    data.read_at(whole.len() as u64, &mut piece).unwrap();
                    whole.extend(piece);
                }
                assert_eq!(whole, expected[..whole.len()], "{descr} {shape:?} by {chunk}");
            }
        }
    }
}

#[test]
fn big_endian_values_are_swapped_in_any_range() {
    let file = array(&header(">c8", false, "(40,)"), 320);
    let stored = &file[file.len() - 320..];
    let expected: Vec<_> = stored.chunks(4).flat_map(|part| part.iter().rev().copied()).collect();
    let model = npy(&file).unwrap();
    for start in 0..64 {
        for end in start..64 {
            let mut buffer = vec![0; end - start];
            model.parameters[0].tensor.data.read_at(start as u64, &mut buffer).unwrap();
            assert_eq!(buffer, expected[start..end]);
        }
    }
}

#[test]
fn replaced_elements_are_written_and_not_the_old_ones() {
    let case = cases("npy").into_iter().find(|case| case.path == "fortran/float32.npy").unwrap();
    let mut model = opened(&case);
    let tensor = &mut model.parameters[0].tensor;
    tensor.data = Blob::memory(vec![1; tensor.data.len() as usize]);
    let facts = facts_of_all(&model);
    assert_eq!(facts_of_all(&npy(&written(&model, &numpy::NPY)).unwrap()), facts);
    let mut reshaped = opened(&case);
    reshaped.parameters[0].tensor.shape.reverse();
    let facts = facts_of_all(&reshaped);
    assert_eq!(facts_of_all(&npy(&written(&reshaped, &numpy::NPY)).unwrap()), facts);
}

#[test]
fn a_header_of_any_form_that_python_reads_is_read() {
    let forms = [
        "{'shape':(3,),'fortran_order':False,'descr':'<i2'}",
        "{\"descr\": \"<i2\", \"fortran_order\": False, \"shape\": (3,)}   \n",
        "\n{ 'descr' : '=i2' , 'fortran_order' : True , 'shape' : ( 3 , ) , }\t",
        "{'descr': 'i2', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (3L, 1L), }",
    ];
    for form in forms {
        let file = array(form, 6);
        let model = npy(&file).unwrap_or_else(|error| panic!("{form}: {error}"));
        let tensor = &model.parameters[0].tensor;
        assert_eq!((tensor.dtype, tensor.data.len()), (DType::Int16, 6));
        assert_eq!(written(&model, &numpy::NPY), file);
    }
}

#[test]
fn an_invalid_array_is_rejected() {
    let dict = |descr: &str, shape: &str| header(descr, false, shape);
    let good = dict("<i2", "(3,)");
    let cases = [
        (good.replace("'shape': (3,)", "'descr': '<i2'"), "unique keys"),
        (good.replace("'shape': (3,), ", ""), "the key `shape`"),
        (good.replace("'fortran_order': False, ", ""), "the key `fortran_order`"),
        (good.replace("}", "'x': 1}"), "the key `descr`, `fortran_order` or `shape`"),
        (good.replace("False", "0"), "`True` or `False`"),
        (good.replace("False", "Falsehood"), "expected `}`"),
        (good.replace("}", "} x"), "blanks after the dict"),
        (good.replace(", }", ""), "expected `}`"),
        (good.replace("'descr'", "descr"), "a string in quotes"),
        (good.replace("'descr'", "'des\\x63r'"), "a string in quotes"),
        ("[]".to_owned(), "expected `{`"),
        (String::new(), "expected `{`"),
        (dict("<i2", "(3)"), "a tuple"),
        (dict("<i2", "3"), "expected `(`"),
        (dict("<i2", "(,)"), "a dim"),
        (dict("<i2", "(3 3)"), "`,` or `)`"),
        (dict("<i2", "(-3,)"), "a dim"),
        (dict("<i2", "(03,)"), "a dim"),
        (dict("<i2", "(0x3,)"), "`,` or `)`"),
        (dict("<i2", "(3.0,)"), "`,` or `)`"),
        (dict("<i2", "(True,)"), "a dim"),
        (dict("<i2", "(18446744073709551616,)"), "a dim"),
        (dict("<i2", "(9223372036854775808, 9223372036854775808)"), "fits 64 bits"),
        (dict("<i2", "(9223372036854775808,)"), "fits 64 bits"),
        (dict("<i2", "(4,)"), "8 bytes, int16"),
        (dict("<i2", "(2,)"), "found 6 bytes left"),
        (dict("<i2", "()"), "found 6 bytes left"),
        (dict("|i2", "(3,)"), "a byte order"),
        (dict("<i3", "(2,)"), "a NumPy element type"),
        (dict("<x2", "(3,)"), "a NumPy element type"),
        (dict("", "(3,)"), "a NumPy element type"),
        (dict("<i2", &format!("({})", "(".repeat(10_000))), "a dim"),
    ];
    for (dict, expected) in cases {
        let message = malformed(npy(&array(&dict, 6)));
        assert!(message.contains(expected), "{dict}: {expected}: {message}");
    }
    let long = array(&good, 6);
    let version = |major: u8, minor: u8, rest: &[u8]| {
        let mut file = b"\x93NUMPY".to_vec();
        file.extend([major, minor]);
        file.extend(rest);
        malformed(npy(&file))
    };
    assert!(version(4, 0, &long[8..]).contains("version 1.0, 2.0 or 3.0"));
    assert!(version(1, 1, &long[8..]).contains("version 1.0, 2.0 or 3.0"));
    assert!(version(2, 0, &u32::MAX.to_le_bytes()).contains("the header (4294967295 bytes)"));
    let large = [&100_000u32.to_le_bytes()[..], &[b' '; 100_000]].concat();
    assert!(version(3, 0, &large).contains("at most 65535 bytes"));
    assert!(version(2, 0, &60_000u32.to_le_bytes()).contains("the header (60000 bytes)"));
    // Python 3 wrote the later version, so `3L` is invalid in it.
    let mut python2 = 100u32.to_le_bytes().to_vec();
    python2.extend(format!("{:100}", dict("<i2", "(3L,)")).bytes());
    assert!(version(3, 0, &python2).contains("`,` or `)`"));
    malformed(npy(b"\x93NUMPX\x01\x00"));
    malformed(npy(b""));
}

/// Returns a minimal array.
fn small() -> Vec<u8> {
    array(&header("<i2", false, "(3,)"), 6)
}

#[test]
fn an_invalid_archive_is_rejected() {
    let x = || Entry::stored("x.npy", &small());
    let y = || Entry::stored("y.npy", &small());
    let deflated = || Entry::deflated("x.npy", &small());
    let size = (30 + 5 + small().len()) as u32;
    let cases = [
        (archive(&[x(), x()]), "unique names"),
        (archive(&[Entry { local_name: b"y.npy", ..x() }]), "the name in the directory"),
        (archive(&[Entry { local_method: 8, ..x() }]), "the method in the directory"),
        (archive(&[Entry { flags: 1, ..x() }]), "an unencrypted member"),
        (archive(&[Entry { method: 12, local_method: 12, ..x() }]), "stored or deflated"),
        (archive(&[Entry { size: 5, ..x() }]), "5 bytes, stored"),
        (archive(&[Entry { offset: Some(0), name: b"y.npy", ..x() }, x()]), "in the directory"),
        (archive(&[x(), Entry { offset: Some(1 << 30), ..y() }]), "a member"),
        (archive(&[Entry { name: b"\xff.npy", local_name: b"\xff.npy", ..x() }]), "UTF-8"),
        (archive(&[Entry { size: size - 35 + 1, ..deflated() }]), "a deflate stream"),
        (archive(&[Entry { size: u32::MAX - 1, ..deflated() }]), "deflated bytes can have"),
        (archive(&[Entry { size: 4, ..deflated() }]), "found 4 bytes left"),
        (
            archive(&[Entry { data: b"no deflate stream".to_vec(), ..deflated() }]),
            "a deflate stream",
        ),
        (archive(&[Entry { data: Vec::new(), ..deflated() }]), "deflated bytes can have"),
        ([b"junk".to_vec(), archive(&[x()])].concat(), "start of the file"),
        ([archive(&[x()]), b"junk".to_vec()].concat(), "the end of the file"),
        (archive(&[Entry::stored("x.npy", b"")]), "the magic of an array"),
        (b"PK\x03\x04".to_vec(), "the directory of the archive"),
        (Vec::new(), "the directory of the archive"),
    ];
    for (file, expected) in cases {
        let message = malformed(npz(&file));
        assert!(message.contains(expected), "{expected}: {message}");
    }
    // A count that is one too high.
    let mut count = archive(&[x()]);
    let end = count.len();
    count[end - 14] = 2;
    count[end - 12] = 2;
    assert!(malformed(npz(&count)).contains("2 members"));
}

#[test]
fn members_that_share_bytes_are_refused() {
    // The second member lies inside the first one.
    let inner = archive(&[Entry::stored("y.npy", &small())]);
    let mut outer = small();
    outer.extend(&inner[..30 + 5 + small().len()]);
    let mut first = Entry::stored("x.npy", &outer);
    first.offset = Some(0);
    let second =
        Entry { offset: Some((30 + 5 + small().len()) as u32), ..Entry::stored("y.npy", &small()) };
    assert!(malformed(npz(&archive(&[first, second]))).contains("do not overlap"));
}

#[test]
fn a_member_without_the_name_of_an_array_is_skipped_with_a_warning() {
    let entries = [
        Entry::stored("notes.txt", b"hello"),
        Entry::stored("x.npy", &small()),
        Entry::stored("d/", b""),
    ];
    let model = npz(&archive(&entries)).unwrap();
    assert_eq!(model.parameters.len(), 1);
    assert_eq!(model.report.warnings.len(), 2);
    assert!(model.report.warnings[0].contains("notes.txt"));
    let unmarked = Entry {
        name: "ö.npy".as_bytes(),
        local_name: "ö.npy".as_bytes(),
        ..Entry::stored("", &small())
    };
    let model = npz(&archive(&[unmarked])).unwrap();
    assert_eq!(model.parameters[0].name, "ö");
    assert!(model.report.warnings[0].contains("cp437"));
}

#[test]
fn deflated_bytes_that_contradict_the_archive_fail_on_read() {
    let whole = Entry::deflated("x.npy", &array(&header("<i2", false, "(3000,)"), 6000));
    let size = whole.data.len();
    let cut = |data: &[u8]| Entry {
        data: data.to_vec(),
        ..Entry::deflated("x.npy", &array(&header("<i2", false, "(3000,)"), 6000))
    };
    let cases = [
        (Entry { crc: 1, ..cut(&whole.data) }, "CRC-32"),
        (cut(&whole.data[..size - 10]), "a deflate stream"),
        (cut(&[&whole.data[..], b"more"].concat()), "the end of the member"),
    ];
    for (entry, expected) in cases {
        let model = npz(&archive(&[entry])).unwrap();
        let data = &model.parameters[0].tensor.data;
        let mut start = [0; 16];
        data.read_at(0, &mut start).unwrap();
        let error = data.bytes().unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        // A second read fails too.
        assert!(data.bytes().is_err());
        data.read_at(0, &mut start).unwrap();
    }
}

#[test]
fn a_small_archive_of_large_arrays_is_opened_and_read_in_little_memory() {
    let large = 64 << 20;
    let mut zeros = array(&header("|u1", false, &format!("({large},)")), 0);
    zeros.resize(zeros.len() + large, 0);
    let file = archive(&[Entry::deflated("x.npy", &zeros), Entry::deflated("y.npy", &zeros)]);
    drop(zeros);
    assert!(file.len() < 1 << 20);
    let (model, peak) = peak_of(|| npz(&file).unwrap());
    assert!(peak <= 2 * file.len() + CONSTANT, "{peak}");
    assert_eq!(model.nbytes(), 2 * large as u64);
    let (read, peak) = peak_of(|| {
        let mut read = 0;
        let each = |piece: &[u8]| -> Result<(), StoreError> {
            read += piece.len();
            Ok(())
        };
        model.parameters[0].tensor.data.for_each_chunk(each).unwrap();
        read
    });
    assert_eq!(read, large);
    assert!(peak < 2 << 20, "{peak}");
}

#[test]
fn unsupported_tensors_are_rejected_and_nothing_is_written() {
    let f32 = |name: &str| tensor(name, DType::Float32, &[2]);
    let edited = |edit: fn(&mut Tensor)| {
        let mut parameter = f32("x");
        edit(&mut parameter.tensor);
        vec![parameter]
    };
    let both = [
        vec![tensor("a", DType::BFloat16, &[1])],
        vec![tensor("a", DType::Float8E5M2, &[2])],
        vec![tensor("a", DType::Int4, &[2])],
        vec![tensor("a", DType::Float32, &[1; 65])],
        edited(|tensor| tensor.shape = vec![3]),
        edited(|tensor| tensor.lod = Lod(vec![vec![0, 2]])),
        edited(|tensor| tensor.kind = Kind::SelectedRows { rows: blob(&[0; 16]), height: 9 }),
        edited(|tensor| tensor.kind = Kind::Vocabulary { tokens: Vec::new() }),
    ];
    let one = [vec![], vec![f32("a"), f32("b")]];
    let many = [vec![f32("a"), f32("a")], vec![f32("a\0b")]];
    let npy = both.iter().chain(&one).map(|parameters| (&numpy::NPY, parameters));
    let npz = both.iter().chain(&many).map(|parameters| (&numpy::NPZ, parameters));
    for (format, parameters) in npy.chain(npz) {
        let dir = tempfile::tempdir().unwrap();
        let model = model_of(parameters.clone());
        let result =
            format.write(&model, Location::from(&dir.path().join("x")), &WriteOptions::default());
        assert!(matches!(result, Err(Error::Incompatible { .. })), "{result:?}");
        assert_eq!(Location::from(dir.path()).list().unwrap(), []);
    }
}

#[test]
fn a_changed_source_of_computed_elements_publishes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["archive/deflated.npz", "archive/stored.npz"] {
        let source = dir.path().join("source.npz");
        std::fs::copy(golden().join(name), &source).unwrap();
        let model = numpy::read_npz(&Location::from(&source), &OpenOptions::default()).unwrap();
        let mut changed = bytes(&source);
        changed.push(0);
        std::fs::write(&source, changed).unwrap();
        for keep in ["fortran", "big", "weight"] {
            let mut model = model.clone();
            model.parameters.retain(|parameter| parameter.name == keep);
            for format in [&numpy::NPY, &numpy::NPZ, &safetensors::FORMAT] {
                let target = dir.path().join("target");
                let result = format.write(&model, &target, &WriteOptions::default());
                let changed = matches!(result, Err(Error::Store(StoreError::Changed { .. })));
                assert!(changed, "{keep}: {result:?}");
            }
        }
        assert_eq!(Location::from(dir.path()).list().unwrap().len(), 1);
    }
}

#[test]
fn files_are_detected_by_their_content() {
    let claims = |path: &Path, head: &[u8]| {
        let probe =
            Probe { path: &Location::from(path), head, len: head.len() as u64, entries: None };
        ((numpy::NPY.detect)(&probe), (numpy::NPZ.detect)(&probe))
    };
    for case in cases("npy").iter().chain(&cases("npz")) {
        let path = golden().join(&case.path);
        let expected = (case.format == "npy", case.format == "npz");
        assert_eq!(claims(&path, &bytes(&path)), expected, "{}", case.path);
    }
    let nothing = (false, false);
    assert_eq!(claims(Path::new("x.npy"), b"\x93NUMP"), nothing);
    assert_eq!(claims(Path::new("x.pt"), &archive(&[Entry::stored("x/data.pkl", b"")])), nothing);
    for case in facts::cases(&support::golden()) {
        for file in case.files.keys() {
            let path = support::golden().join(file);
            assert_eq!(claims(&path, &bytes(&path)), nothing, "{file}");
        }
    }
}

/// A blob of zeros.
struct Zeros(u64);

impl Derive for Zeros {
    fn len(&self) -> u64 {
        self.0
    }

    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        buffer.fill(0);
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        None
    }
}

#[test]
#[ignore = "writes 9 GiB"]
fn members_and_archives_beyond_4_gib_are_written_and_read() {
    let long = |name: &str, len: u64| Parameter {
        name: name.to_owned(),
        tensor: Tensor::dense(DType::Uint8, vec![len], Blob::derived(Arc::new(Zeros(len)))),
    };
    let model = model_of(vec![
        long("large", (4 << 30) + 5),
        tensor("behind", DType::Int16, &[3]),
        long("just", u64::from(u32::MAX) - 128),
        tensor("last", DType::Int16, &[4]),
    ]);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("x.npz");
    numpy::NPZ.write(&model, &path, &WriteOptions::default()).unwrap();
    let again = numpy::read_npz(&Location::from(&path), &OpenOptions::default()).unwrap();
    let facts = |model: &Model| -> Vec<_> {
        model.parameters.iter().map(|p| (p.name.clone(), p.tensor.shape.clone())).collect()
    };
    assert_eq!(facts(&again), facts(&model));
    for name in ["behind", "last"] {
        let data = |model: &Model| model.parameter(name).unwrap().data.bytes().unwrap();
        assert_eq!(data(&again), data(&model));
    }
}

#[test]
fn an_archive_of_more_members_than_16_bits_count_is_written_and_read() {
    let parameters = (0..70_000).map(|n| tensor(&n.to_string(), DType::Uint8, &[1])).collect();
    let again = npz(&written(&model_of(parameters), &numpy::NPZ)).unwrap();
    assert_eq!(again.parameters.len(), 70_000);
    assert_eq!(again.parameters[69_999].name, "69999");
}
