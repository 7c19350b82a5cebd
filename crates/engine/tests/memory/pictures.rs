//! Image files of each format.

use std::collections::BTreeMap;
use std::io::Cursor;

use lodstone_engine::{Dense, Mode};
use lodstone_model::DType;
use tiff::encoder::{TiffEncoder, colortype};

use super::bombs::op;
use super::counting::alone;
use super::generated::{model, started, text};
use super::{CONSTANT, Taken, run};

const WIDTH: u16 = 700;
const HEIGHT: u16 = 500;

/// Returns samples without structure.
fn samples(channels: usize) -> Vec<u8> {
    let count = usize::from(WIDTH) * usize::from(HEIGHT) * channels;
    (0..count).map(|at| u8::try_from((at * at + at / 7) % 251).unwrap()).collect()
}

fn pnm(magic: &str, channels: usize) -> Vec<u8> {
    [format!("{magic} {WIDTH} {HEIGHT} 255\n").into_bytes(), samples(channels)].concat()
}

fn pam() -> Vec<u8> {
    let header = format!("P7\nWIDTH {WIDTH}\nHEIGHT {HEIGHT}\nDEPTH 4\nMAXVAL 65535\nENDHDR\n");
    [header.into_bytes(), samples(8)].concat()
}

/// Returns a bitmap of 24 bits.
fn bmp() -> Vec<u8> {
    let mut file = b"BM\0\0\0\0\0\0\0\0\x1a\0\0\0\x0c\0\0\0".to_vec();
    [WIDTH, HEIGHT, 1, 24].iter().for_each(|field| file.extend(field.to_le_bytes()));
    [file, samples(3)].concat()
}

fn png(colour: png::ColorType, is_wide: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, WIDTH.into(), HEIGHT.into());
    encoder.set_color(colour);
    encoder.set_depth(if is_wide { png::BitDepth::Sixteen } else { png::BitDepth::Eight });
    let samples = samples(colour.samples() * if is_wide { 2 } else { 1 });
    encoder.write_header().unwrap().write_image_data(&samples).unwrap();
    file
}

fn tiff<C: colortype::ColorType<Inner = u8>>(channels: usize) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    encoder.write_image::<C>(WIDTH.into(), HEIGHT.into(), &samples(channels)).unwrap();
    file.into_inner()
}

fn tiff_wide() -> Vec<u8> {
    let wide: Vec<u16> = samples(3).into_iter().map(|byte| u16::from(byte) * 257).collect();
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    encoder.write_image::<colortype::RGB16>(WIDTH.into(), HEIGHT.into(), &wide).unwrap();
    file.into_inner()
}

fn webp(channels: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let colour =
        if channels == 3 { image_webp::ColorType::Rgb8 } else { image_webp::ColorType::Rgba8 };
    let encoder = image_webp::WebPEncoder::new(&mut file);
    encoder.encode(&samples(channels), WIDTH.into(), HEIGHT.into(), colour).unwrap();
    file
}

/// Returns an image of one colour: the codes of all coefficients are single zero bits.
fn jpeg(components: u8, is_progressive: bool) -> Vec<u8> {
    let mut file = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    file.extend([1; 64]);
    // The frame; the first component has four blocks where the others have one.
    file.extend([0xff, if is_progressive { 0xc2 } else { 0xc0 }, 0, 8 + 3 * components, 8]);
    [HEIGHT, WIDTH].iter().for_each(|side| file.extend(side.to_be_bytes()));
    file.push(components);
    let many = components > 1;
    for number in 1..=components {
        file.extend([number, if many && number == 1 { 0x22 } else { 0x11 }, 0]);
    }
    // Tables of one code: a difference of 0, and the end of a block.
    for table in [0, 0x10] {
        file.extend([0xff, 0xc4, 0, 20, table, 1]);
        file.extend([0; 16]);
    }
    file.extend([0xff, 0xda, 0, 6 + 2 * components, components]);
    (1..=components).for_each(|number| file.extend([number, 0]));
    file.extend([0, if is_progressive { 0 } else { 63 }, 0]);
    let side = if many { 16 } else { 8 };
    let units = usize::from(WIDTH.div_ceil(side)) * usize::from(HEIGHT.div_ceil(side));
    let blocks = units * if many { 3 + usize::from(components) } else { 1 };
    let bits = if is_progressive { blocks } else { 2 * blocks };
    file.extend(vec![0; bits.div_ceil(8)]);
    file.extend([0xff, 0xd9]);
    file
}

#[test]
fn images_take_at_most_what_is_charged() {
    let _alone = alone();
    let threads = started(1);
    let files = [
        ("BMP", bmp()),
        ("JPEG", jpeg(3, false)),
        ("JPEG, grey", jpeg(1, false)),
        ("JPEG, progressive", jpeg(3, true)),
        ("JPEG, progressive, grey", jpeg(1, true)),
        ("JPEG, progressive, CMYK", jpeg(4, true)),
        ("PNG", png(png::ColorType::Rgb, false)),
        ("PNG, grey", png(png::ColorType::Grayscale, false)),
        ("PNG, wide", png(png::ColorType::Rgba, true)),
        ("PGM", pnm("P5", 1)),
        ("PPM", pnm("P6", 3)),
        ("PAM, wide", pam()),
        ("TIFF", tiff::<colortype::RGB8>(3)),
        ("TIFF, grey", tiff::<colortype::Gray8>(1)),
        ("TIFF, CMYK", tiff::<colortype::CMYK8>(4)),
        ("TIFF, wide", tiff_wide()),
        ("WebP", webp(3)),
        ("WebP, alpha", webp(4)),
    ];
    for (name, file) in files {
        let file = Dense::new(DType::Uint8, vec![file.len()], file.into()).unwrap();
        for pixels in ["RGB", "BGR", "Grayscale"] {
            let op = op("ImageDecoder", "x0", "y", vec![text("pixel_format", pixels)]);
            let inputs = BTreeMap::from([("x0".to_owned(), file.clone().into())]);
            let model = model(op, "x0", "y");
            let Taken { peak, charged, .. } =
                run(&model, &inputs, Mode::Fast, &threads).unwrap_or_else(|| panic!("{name}"));
            let line = format!("{name}, {pixels}: peak {peak}, charged {charged}");
            if std::env::var("LODSTONE_MEMORY_LIST").is_ok() {
                eprintln!("{line}");
            }
            assert!(peak <= charged + CONSTANT, "{line}");
        }
    }
}
