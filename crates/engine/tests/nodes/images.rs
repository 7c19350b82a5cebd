//! `ImageDecoder`: files of each format and kind of pixels, which `golden/images/make_images.py` wrote, and damaged ones.

use std::path::Path;

use lodstone_engine::Mode;
use lodstone_model::{Attribute, AttributeValue, DType, Op, Tensor};
use lodstone_schema::onnx::newest_opset;
use lodstone_schema::{Code, Finding};
use lodstone_store::Blob;

use super::{bytes, run_op};

/// Returns the dims and the elements of the result.
fn decode(file: Vec<u8>, pixel_format: &str) -> Result<(Vec<u64>, Vec<u8>), Finding> {
    let value = AttributeValue::String(pixel_format.into());
    let attributes = vec![Attribute { name: "pixel_format".to_owned(), value }];
    let op = Op { kind: "ImageDecoder".to_owned(), attributes, ..Op::default() };
    let file = Tensor::dense(DType::Uint8, vec![file.len() as u64], Blob::memory(file));
    let made = run_op(&op, newest_opset("").expect("known"), &[Some(file)], Mode::Fast)?;
    let pixels = made[0].data.bytes().expect("in memory").to_vec();
    Ok((made[0].shape.clone(), pixels))
}

fn rgb(file: Vec<u8>) -> Result<Vec<u8>, Finding> {
    decode(file, "RGB").map(|(_, pixels)| pixels)
}

/// A recorded file: its name, bytes, dims and pixels.
type Recorded = (String, Vec<u8>, Vec<u64>, Vec<u8>);

fn recorded() -> Vec<Recorded> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/images");
    let index: serde_json::Value =
        serde_json::from_slice(&bytes(&directory.join("index.json"))).expect("JSON");
    let each = index.as_object().expect("an object").iter().map(|(name, case)| {
        let side = |name: &str| case[name].as_u64().expect("a side");
        let text = case["rgb"].as_str().expect("text").as_bytes();
        let digit = |digit: u8| char::from(digit).to_digit(16).expect("a digit");
        let pixels = text.as_chunks::<2>().0.iter();
        let pixels = pixels.map(|[high, low]| u8::try_from(16 * digit(*high) + digit(*low)));
        let pixels = pixels.collect::<Result<_, _>>().expect("bytes");
        let dims = vec![side("height"), side("width"), 3];
        (name.clone(), bytes(&directory.join(name)), dims, pixels)
    });
    each.collect()
}

#[test]
fn recorded_files_have_the_recorded_pixels() {
    for (name, file, dims, expected) in recorded() {
        let (shape, pixels) = decode(file, "RGB").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shape, dims, "{name}");
        // JPEG does not define pixels to the last bit.
        let tolerance = if name.ends_with(".jpg") { 3 } else { 0 };
        let is_near = |(one, other): (&u8, &u8)| one.abs_diff(*other) <= tolerance;
        assert!(pixels.iter().zip(&expected).all(is_near), "{name}: {pixels:?}, not {expected:?}");
    }
}

#[test]
fn pixel_formats_reorder_the_same_pixels() {
    for (name, file, dims, _) in recorded() {
        let pixels = rgb(file.clone()).expect("decodable");
        let (_, reversed) = decode(file.clone(), "BGR").expect("decodable");
        let pairs = pixels.as_chunks::<3>().0.iter().zip(reversed.as_chunks::<3>().0);
        assert!(pairs.into_iter().all(|([r, g, b], other)| [*b, *g, *r] == *other), "{name}");
        let (shape, grey) = decode(file, "Grayscale").expect("decodable");
        assert_eq!((shape[2], grey.len() as u64), (1, dims[0] * dims[1]), "{name}");
    }
}

/// A file that ends early is an error, or decoded up to there, by the format; nothing panics.
#[test]
fn files_that_end_early_are_errors() {
    for (name, file, _, expected) in recorded() {
        for end in 0..file.len() {
            match rgb(file[..end].to_vec()) {
                Ok(pixels) => assert_eq!(pixels.len(), expected.len(), "{name} {end}"),
                Err(error) => {
                    let message = error.to_string();
                    let is_clear = message.contains("cannot decode the image: ");
                    assert!(is_clear && !message.contains("panic"), "{name} {end}: {message}");
                }
            }
        }
    }
}

/// Every byte is replaced by values that make lengths, dims and counts small, large or negative.
#[test]
fn damaged_files_are_errors_or_images() {
    for (name, file, ..) in recorded() {
        for at in 0..file.len() {
            for value in [0, 0xff] {
                let mut damaged = file.clone();
                damaged[at] = value;
                if let Err(error) = rgb(damaged) {
                    let message = error.to_string();
                    let is_own = ["cannot decode the image: ", "exceed", "it would take"];
                    let is_clear = is_own.iter().any(|part| message.contains(part));
                    assert!(is_clear, "{name} {at} {value}: {message}");
                }
            }
        }
    }
}

fn fails(file: &[u8]) -> Finding {
    rgb(file.to_vec()).expect_err("the file is wrong")
}

#[test]
fn unknown_formats_are_errors() {
    for file in [&b"GIF89a\0\0\0\0\0\0\0\0"[..], b"", b"P", b"P8 1 1 255\n\0", b"BA\0\0"] {
        let message = fails(file).to_string();
        assert!(message.contains("cannot decode the image: "), "{message}");
    }
}

#[test]
fn numbers_of_pnm_files_are_limited_by_their_maximum() {
    let good = [
        (&b"P2 2 1 10\n5 20"[..], [128, 255]),
        (b"P2 2 1 1000\n500 65535", [128, 255]),
        (b"P5 2 1 10\n\x05\xff", [128, 255]),
        // A comment inside of a number.
        (b"P5 2 1#c\n#\n 25#c\n5\n\x05\xff", [5, 255]),
        (b"P1 2 1 01", [255, 0]),
        (
            b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 1\nMAXVAL 1\nTUPLTYPE BLACKANDWHITE\nENDHDR\n\0\x01",
            [0, 255],
        ),
    ];
    for (file, expected) in good {
        let pixels = rgb(file.to_vec()).expect("decodable");
        assert_eq!(pixels, expected.map(|grey| [grey; 3]).concat(), "{}", file.escape_ascii());
    }
    let wrong: [&[u8]; 9] = [
        b"P2 2 1 10\n5 256",
        b"P2 2 1 0\n0 0",
        b"P2 2 1 65536\n0 0",
        b"P2 2 1 99999999999\n0 0",
        b"P2 2 1 10\n5 #c\n6",
        b"P1 2 1 02",
        b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 0\nMAXVAL 1\nENDHDR\n\0\0",
        b"P7\nWIDTH 2\nWIDTH 2\nHEIGHT 1\nDEPTH 1\nMAXVAL 1\nENDHDR\n\0\0",
        b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 1\nMAXVAL 1\nTUPLTYPE BLACKANDWHITE\nENDHDR\n\0\x02",
    ];
    for file in wrong {
        fails(file);
    }
}

/// Returns a bitmap with a palette of black, red and green, and runs of 8 bits.
fn runs(width: i32, height: i32, runs: &[u8]) -> Vec<u8> {
    let mut file = b"BM\0\0\0\0\0\0\0\0\x42\0\0\0".to_vec();
    file.extend(40_u32.to_le_bytes());
    file.extend(width.to_le_bytes());
    file.extend(height.to_le_bytes());
    file.extend([1, 0, 8, 0, 1, 0, 0, 0]);
    file.extend([0; 12]);
    file.extend(3_u32.to_le_bytes());
    file.extend([0; 4]);
    file.extend([0, 0, 0, 0, 0, 0, 255, 0, 0, 255, 0, 0]);
    file.extend(runs);
    file
}

#[test]
fn runs_stay_in_their_rows() {
    let (black, red, green) = ([0, 0, 0], [255, 0, 0], [0, 255, 0]);
    // From the bottom up: a run that is too long is cut off; pixels that are skipped are black.
    let pixels = rgb(runs(2, 2, &[9, 1, 0, 0, 1, 2, 0, 1])).expect("decodable");
    assert_eq!(pixels, [green, black, red, red].concat());
    let pixels = rgb(runs(2, 2, &[0, 2, 1, 1, 1, 2, 0, 1])).expect("decodable");
    assert_eq!(pixels, [black, green, black, black].concat());
    let wrong: [&[u8]; 5] = [
        // Single pixels beyond the row, a jump beyond the row, one beyond the rows, no end, and a cut off run.
        &[0, 3, 1, 1, 1, 0, 0, 1],
        &[0, 2, 3, 0, 0, 1],
        &[0, 2, 0, 2, 0, 1],
        &[2, 1],
        &[0, 4, 1],
    ];
    for each in wrong {
        fails(&runs(2, 2, each));
    }
    fails(&runs(2, -2, &[0, 1]));
}

#[test]
fn dims_are_limited_before_pixels_are_allocated() {
    let limited = fails(b"P6 20000 20000 255\n");
    assert_eq!(limited.code, Code::Limit, "{limited}");
    for (name, file, ..) in recorded().into_iter().filter(|(name, ..)| name == "core.bmp") {
        let mut file = file;
        file[18..22].fill(0xff);
        fails(&file);
        file[18..20].fill(0);
        let message = fails(&file).to_string();
        assert!(message.contains("expected sides"), "{name}: {message}");
    }
}

/// A value of a tag with 2^23 numbers, in a file of 100 bytes.
#[test]
fn tags_of_tiff_files_are_limited_by_the_file() {
    let mut file = b"II*\0\x08\0\0\0\x01\0\0\x01\x04\0".to_vec();
    file.extend((1_u32 << 23).to_le_bytes());
    file.extend([0; 80]);
    let message = fails(&file).to_string();
    assert!(message.contains("unexpected end of file"), "{message}");
}
