//! Windows bitmaps: BMP.
//!
//! | part | content |
//! |---|---|
//! | file header, 14 bytes | `BM`, the size, and the offset of the pixels |
//! | header, 12 to 124 bytes | the dims, the bits of a pixel, the compression; masks of the samples |
//! | palette | blue, green, red, and a byte of padding except in OS/2 files |
//! | pixels | rows of a multiple of 4 bytes, from the bottom up if the height is positive; or runs |
//!
//! Embedded JPEG and PNG files and CMYK are not supported. The source of truth is Microsoft's documentation of bitmap storage;
//! pixels that runs skip are black, as in web browsers.

use super::picture::{Failure, Picture, count, rgb_len};

/// The bytes of the file header.
const FILE_HEADER: usize = 14;

/// The maximum width and height that other readers accept, except for the height of files that begin at the top.
const MAX_SIDE: i32 = 0xffff;

/// The representation of pixels.
enum Pixels {
    Palette(Palette),
    Runs(Palette),
    Masks([Mask; 3]),
    Bytes,
}

/// Colours by number. Colours that the file does not have are black.
type Palette = Box<[[u8; 3]; 256]>;

struct Header {
    width: u32,
    height: u32,
    is_top_down: bool,
    /// The bits of a pixel.
    bits: usize,
    pixels: Pixels,
    /// The offset of the pixels.
    offset: usize,
}

pub(super) fn open(bytes: &[u8]) -> Result<Picture<'_>, Failure> {
    let header = read_header(bytes)?;
    let (width, height) = (header.width, header.height);
    let size = count(width, height).saturating_mul(3);
    let pixels = Box::new(move || decode(bytes, &header));
    Ok(Picture { width, height, size, memory: size, pixels })
}

fn read_header(bytes: &[u8]) -> Result<Header, Failure> {
    let mut reader = Reader { bytes: bytes.get(10..).ok_or_else(Failure::end)? };
    let offset = reader.long()?;
    let header_size = reader.long()?;
    let is_core = header_size == 12;
    if !is_core && ![40, 52, 56, 108, 124].contains(&header_size) {
        let wrong = "expected a header of 12, 40, 52, 56, 108 or 124 bytes";
        return Err(Failure::wrong(format!("{wrong}, found `{header_size}`")));
    }
    let (width, height) = if is_core {
        (i32::from(reader.short()?), i32::from(reader.short()?))
    } else {
        (reader.long()?.cast_signed(), reader.long()?.cast_signed())
    };
    if width <= 0 || height == 0 || height == i32::MIN || width > MAX_SIDE || height > MAX_SIDE {
        let wrong = format!("expected sides of 1 to {MAX_SIDE}, found {width} x {height}");
        return Err(Failure::wrong(wrong));
    }
    let is_top_down = height < 0;
    let planes = reader.short()?;
    if planes != 1 {
        return Err(Failure::wrong(format!("expected 1 plane, found `{planes}`")));
    }
    let bits = reader.short()?;
    let compression = if is_core { 0 } else { reader.long()? };
    if is_top_down && compression != 0 && compression != 3 {
        return Err(Failure::wrong("compressed pixels cannot begin at the top"));
    }
    let colours = if is_core {
        0
    } else {
        // The size of the pixels and the resolution, before; the number of important colours, after.
        reader.take(12)?;
        let colours = reader.long()?;
        reader.take(4)?;
        colours
    };
    let palette = || {
        let header_size = usize::try_from(header_size).map_err(Failure::wrong)?;
        let after = bytes.get(FILE_HEADER + header_size..).ok_or_else(Failure::end)?;
        read_palette(after, if is_core { 3 } else { 4 }, bits, colours)
    };
    let pixels = match (compression, bits) {
        (0, 2) if is_core => return Err(unsupported(compression, bits)),
        (0, 1 | 2 | 4 | 8) => Pixels::Palette(palette()?),
        (0, 16) if !is_core => Pixels::Masks([10, 5, 0].map(|shift| Mask { shift, len: 5 })),
        (0, 24) => Pixels::Bytes,
        (0, 32) if !is_core => Pixels::Masks([16, 8, 0].map(|shift| Mask { shift, len: 8 })),
        (1, 8) | (2, 4) => Pixels::Runs(palette()?),
        (3, 16 | 32) => Pixels::Masks(read_masks(&mut reader, header_size >= 56, bits)?),
        _ => return Err(unsupported(compression, bits)),
    };
    Ok(Header {
        width: width.unsigned_abs(),
        height: height.unsigned_abs(),
        is_top_down,
        bits: usize::from(bits),
        pixels,
        offset: usize::try_from(offset).map_err(Failure::wrong)?,
    })
}

fn unsupported(compression: u32, bits: u16) -> Failure {
    Failure::wrong(format!("compression `{compression}` of {bits} bits is not supported"))
}

fn read_palette(bytes: &[u8], width: usize, bits: u16, colours: u32) -> Result<Palette, Failure> {
    let most = 1_u32 << bits.min(8);
    if colours > most {
        let wrong = format!("expected at most {most} colours for {bits} bits, found {colours}");
        return Err(Failure::wrong(wrong));
    }
    let colours = if colours == 0 { most } else { colours };
    let colours = usize::try_from(colours).map_err(Failure::wrong)?;
    let bytes = bytes.get(..colours * width).ok_or_else(Failure::end)?;
    let mut palette = Box::new([[0; 3]; 256]);
    for (colour, bytes) in palette.iter_mut().zip(bytes.chunks_exact(width)) {
        if let [blue, green, red, ..] = bytes {
            *colour = [*red, *green, *blue];
        }
    }
    Ok(palette)
}

/// The bits of a sample.
#[derive(Clone, Copy)]
struct Mask {
    shift: u32,
    /// At most 8: further bits are cut off.
    len: u32,
}

impl Mask {
    fn new(mask: u32, bits: u16) -> Result<Self, Failure> {
        let len = mask.count_ones();
        let shift = mask.trailing_zeros();
        let end = shift + len;
        if len > 0 && (end != u32::BITS - mask.leading_zeros() || end > u32::from(bits)) {
            let wrong = format!("expected a mask of adjacent bits of {bits}, found `{mask:#x}`");
            return Err(Failure::wrong(wrong));
        }
        Ok(Self { shift: if len > 8 { end - 8 } else { shift }, len: len.min(8) })
    }

    /// Returns the sample of a pixel, scaled to 8 bits.
    fn sample(self, pixel: u32) -> u8 {
        let most = (1_u32 << self.len) - 1;
        let sample = (pixel >> self.shift) & most;
        let [byte, ..] = ((sample * 255 + most / 2) / most.max(1)).to_le_bytes();
        byte
    }
}

fn read_masks(reader: &mut Reader<'_>, has_alpha: bool, bits: u16) -> Result<[Mask; 3], Failure> {
    let mut mask = || Mask::new(reader.long()?, bits);
    let masks = [mask()?, mask()?, mask()?];
    if has_alpha {
        mask()?;
    }
    if masks.iter().any(|mask| mask.len == 0) {
        return Err(Failure::wrong("expected masks of red, green and blue, found an empty one"));
    }
    Ok(masks)
}

fn decode(bytes: &[u8], header: &Header) -> Result<Vec<u8>, Failure> {
    let bytes = bytes.get(header.offset..).ok_or_else(Failure::end)?;
    let mut rgb = vec![0; rgb_len(header.width, header.height)?];
    let width = usize::try_from(header.width).map_err(Failure::wrong)?;
    let row_bytes = (width * header.bits).div_ceil(32) * 4;
    let rows = rgb.chunks_exact_mut(3 * width);
    let mut rows: Box<dyn ExactSizeIterator<Item = &mut [u8]>> =
        if header.is_top_down { Box::new(rows) } else { Box::new(rows.rev()) };
    let mut reader = Reader { bytes };
    if let Pixels::Runs(palette) = &header.pixels {
        expand_runs(&mut reader, header.bits == 4, palette, &mut rows)?;
        drop(rows);
        return Ok(rgb);
    }
    for row in &mut rows {
        let stored = reader.take(row_bytes)?;
        let row = row.as_chunks_mut::<3>().0;
        match &header.pixels {
            Pixels::Palette(palette) => expand_indices(stored, header.bits, palette, row),
            Pixels::Masks(masks) if header.bits == 16 => {
                for (rgb, pixel) in row.iter_mut().zip(stored.as_chunks::<2>().0) {
                    let pixel = u32::from(u16::from_le_bytes(*pixel));
                    *rgb = masks.map(|mask| mask.sample(pixel));
                }
            }
            Pixels::Masks(masks) => {
                for (rgb, pixel) in row.iter_mut().zip(stored.as_chunks::<4>().0) {
                    *rgb = masks.map(|mask| mask.sample(u32::from_le_bytes(*pixel)));
                }
            }
            Pixels::Bytes | Pixels::Runs(_) => {
                for (rgb, [blue, green, red]) in row.iter_mut().zip(stored.as_chunks::<3>().0) {
                    *rgb = [*red, *green, *blue];
                }
            }
        }
    }
    drop(rows);
    Ok(rgb)
}

/// Replaces numbers of 1, 2, 4 or 8 bits by their colours.
fn expand_indices(stored: &[u8], bits: usize, palette: &Palette, row: &mut [[u8; 3]]) {
    let of_byte = 8 / bits.max(1);
    for (pixels, byte) in row.chunks_mut(of_byte).zip(stored) {
        for (place, rgb) in pixels.iter_mut().enumerate() {
            let index = byte >> (8 - bits * (place + 1)) & (0xff >> (8 - bits));
            *rgb = colour(palette, index);
        }
    }
}

fn colour(palette: &Palette, index: u8) -> [u8; 3] {
    // Every byte is the index of one of the 256.
    palette.get(usize::from(index)).copied().unwrap_or_default()
}

/// Expands runs of numbers of 4 or 8 bits. A run does not cross the end of a row.
fn expand_runs(
    reader: &mut Reader<'_>,
    is_nibbles: bool,
    palette: &Palette,
    rows: &mut dyn ExactSizeIterator<Item = &mut [u8]>,
) -> Result<(), Failure> {
    let corrupt = || Failure::wrong("a run exceeds its row, or the rows");
    while let Some(row) = rows.next() {
        let mut row = row.as_chunks_mut::<3>().0.iter_mut();
        // The column by the lengths of the runs: a run that is too long counts as a whole.
        let mut column = 0;
        loop {
            let [length, argument] = reader.array()?;
            // The indices of pixels, and their number.
            let (indices, count): (&[u8], usize) = match (length, argument) {
                (0, 0) => break,
                (0, 1) => return Ok(()),
                (0, 2) => {
                    let [right, down] = reader.array()?.map(usize::from);
                    if let Some(skipped) = down.checked_sub(1) {
                        let next = rows.nth(skipped).ok_or_else(corrupt)?;
                        row = next.as_chunks_mut::<3>().0.iter_mut();
                        skip(&mut row, column).ok_or_else(corrupt)?;
                    }
                    skip(&mut row, right).ok_or_else(corrupt)?;
                    column += right;
                    continue;
                }
                (0, count) => {
                    let count = usize::from(count);
                    let stored = if is_nibbles { count.div_ceil(2) } else { count };
                    (reader.take(stored.next_multiple_of(2))?, count)
                }
                // Some writers pad the last run of a row: of 8 bits, it is cut off.
                (count, _) if is_nibbles => (&[argument; 128], usize::from(count)),
                (count, _) => (&[argument; 255], usize::from(count).min(row.len())),
            };
            column += if length == 0 { count } else { usize::from(length) };
            if count > row.len() {
                return Err(corrupt());
            }
            let pixels = row.by_ref().take(count);
            if is_nibbles {
                let indices = indices.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
                pixels.zip(indices).for_each(|(rgb, index)| *rgb = colour(palette, index));
            } else {
                pixels.zip(indices).for_each(|(rgb, index)| *rgb = colour(palette, *index));
            }
        }
    }
    Ok(())
}

/// Skips pixels of a row; `None` if it has fewer.
fn skip(row: &mut std::slice::IterMut<'_, [u8; 3]>, count: usize) -> Option<()> {
    let is_within = count <= row.len();
    row.by_ref().take(count).for_each(drop);
    is_within.then_some(())
}

/// Little-endian numbers from the front of a list.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(Failure::end)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or_else(Failure::end)?;
        self.bytes = rest;
        Ok(*taken)
    }

    fn short(&mut self) -> Result<u16, Failure> {
        self.array().map(u16::from_le_bytes)
    }

    fn long(&mut self) -> Result<u32, Failure> {
        self.array().map(u32::from_le_bytes)
    }
}
