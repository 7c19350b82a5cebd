"""Writes small image files of each format and kind of pixels, with the pixels that a decoder has to return.

    python make_images.py

Run with Pillow 13.0.0 and NumPy 2.4.6. `index.json` has, for each file, its height, its width and its pixels as RGB in
hexadecimal. Pillow writes what it can; the others are written here. The pixels are those that Pillow reads, except for
samples of 16 bits, which Pillow cuts off: they are rounded to the nearest of 8 bits.
"""

import io
import json
import os
import struct
import zlib

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
HEIGHT, WIDTH = 5, 7
ROWS, COLUMNS = np.mgrid[0:HEIGHT, 0:WIDTH]
GREY = (ROWS * 41 + COLUMNS * 23) % 256
RGB = np.stack([GREY, (ROWS * COLUMNS * 9) % 256, 255 - GREY], 2)
ALPHA = (ROWS * 60 + COLUMNS * 5) % 256
WIDE = (RGB * 257 + ROWS[:, :, None] * 37) % 65536
INDEX = {}


def keep(name, data, pixels=None):
    """Writes a file, with the pixels that Pillow reads."""
    if pixels is None:
        pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert pixels.shape == (HEIGHT, WIDTH, 3), name
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(data)
    INDEX[name] = {"height": HEIGHT, "width": WIDTH, "rgb": pixels.astype(np.uint8).tobytes().hex()}


def saved(array, kind, **options):
    file = io.BytesIO()
    image = array if isinstance(array, Image.Image) else Image.fromarray(array.astype(np.uint8))
    image.save(file, kind, **options)
    return file.getvalue()


def narrow(samples):
    return (samples + 128) // 257


def png(colour, depth, samples, interlaced=False, palette=b"", transparent=b""):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def rows(samples):
        out = b""
        for row in samples.reshape(len(samples), -1):
            bits = "".join(format(int(sample), f"0{depth}b") for sample in row)
            bits += "0" * (-len(bits) % 8)
            out += b"\0" + bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
        return out

    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    parts = [samples[y::down, x::right] for y, x, down, right in passes] if interlaced else [samples]
    data = zlib.compress(b"".join(rows(part) for part in parts if part.size), 9)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, interlaced)
    chunks = chunk(b"IHDR", header)
    if palette:
        chunks += chunk(b"PLTE", palette)
    if transparent:
        chunks += chunk(b"tRNS", transparent)
    return b"\x89PNG\r\n\x1a\n" + chunks + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def bmp(bits, compression, data, palette=b"", masks=b"", top_down=False, core=False):
    if core:
        header = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, bits)
    else:
        height = -HEIGHT if top_down else HEIGHT
        header = struct.pack("<IiiHHIIiiII", 40, WIDTH, height, 1, bits, compression, len(data), 0, 0, len(palette) // 4, 0)
    begin = 14 + len(header) + len(masks) + len(palette)
    return struct.pack("<2sIHHI", b"BM", begin + len(data), 0, 0, begin) + header + masks + palette + data


def padded(rows):
    return b"".join(row + bytes(-len(row) % 4) for row in rows)


def nibbles(row):
    row = list(row) + [0] * (len(row) % 2)
    return bytes(high << 4 | low for high, low in zip(row[::2], row[1::2]))


# PNM.
keep("bits.pbm", saved(Image.fromarray(GREY.astype(np.uint8)).convert("1"), "PPM"))
digits = " ".join(str(int(grey > 99)) for grey in GREY.flat)
keep("digits.pbm", f"P1\n# 1 is black\n{WIDTH} {HEIGHT}\n{digits}\n".encode())
keep("grey.pgm", saved(GREY, "PPM"))
keep("text.ppm", f"P3 {WIDTH} {HEIGHT} 255\n{' '.join(map(str, RGB.flat))}\n".encode())
keep("maximum.pgm", f"P5 {WIDTH} {HEIGHT} 15\n".encode() + (GREY // 16).astype(np.uint8).tobytes())
keep("wide.ppm", f"P6 {WIDTH} {HEIGHT} 65535\n".encode() + WIDE.astype(">u2").tobytes(), narrow(WIDE))
lines = f"P7\nWIDTH {WIDTH}\nHEIGHT {HEIGHT}\nDEPTH %d\nMAXVAL %d\n%sENDHDR\n"
with_alpha = np.dstack([RGB, ALPHA]).astype(np.uint8)
keep("alpha.pam", (lines % (4, 255, "TUPLTYPE RGB_ALPHA\n")).encode() + with_alpha.tobytes(), RGB)
# Without a tuple type, too, samples with a maximum of more than 255 have two bytes.
keep("untyped.pam", (lines % (3, 65535, "")).encode() + WIDE.astype(">u2").tobytes(), narrow(WIDE))

# PNG.
keep("bits.png", png(0, 1, GREY // 128))
keep("grey16.png", png(0, 16, WIDE[:, :, 0]), np.repeat(narrow(WIDE[:, :, :1]), 3, 2))
palette = RGB.reshape(-1, 3)[:16].astype(np.uint8).tobytes()
keep("palette.png", png(3, 4, GREY // 16, palette=palette, transparent=b"\0\x80"))
keep("interlaced.png", png(2, 8, RGB, interlaced=True))
keep("interlaced-alpha16.png", png(6, 16, np.dstack([WIDE, ALPHA * 257]), interlaced=True), narrow(WIDE))

# BMP.
rows = GREY[::-1]
colours = b"".join(bytes(colour[::-1]) + b"\0" for colour in RGB.reshape(-1, 3)[:16].astype(np.uint8).tolist())
keep("palette.bmp", bmp(4, 0, padded(nibbles(row // 16) for row in rows), palette=colours))
keep("core.bmp", bmp(24, 0, padded(row[:, ::-1].astype(np.uint8).tobytes() for row in RGB[::-1]), core=True))
short = (RGB >> np.array([3, 2, 3])).astype(np.uint16)
short = short[:, :, 0] << 11 | short[:, :, 1] << 5 | short[:, :, 2]
masks = struct.pack("<III", 0xF800, 0x7E0, 0x1F)
# Samples of 5 and 6 bits are scaled to the nearest of 8 bits.
parts = np.stack([short >> 11, short >> 5 & 63, short & 31], 2)
scaled = np.round(parts * 255 / np.array([31, 63, 31]))
keep("masks.bmp", bmp(16, 3, padded(row.astype("<u2").tobytes() for row in short), masks=masks, top_down=True), scaled)
runs = b"".join(bytes([4, row[0] // 16, 0, 3]) + bytes(row[4:] // 16) + b"\0\0\0" for row in rows.astype(np.uint8))
keep("runs.bmp", bmp(8, 1, runs + b"\0\1", palette=colours))
halves = b"".join(bytes([4, row[0] // 16 * 17, 0, 3]) + nibbles(row[4:] // 16) + b"\0\0" for row in rows.astype(np.uint8))
keep("halves.bmp", bmp(4, 2, halves + b"\0\1", palette=colours))

# TIFF.
keep("bits.tif", saved(Image.fromarray(GREY.astype(np.uint8)).convert("1"), "TIFF", compression="group4"))
keep("lzw.tif", saved(RGB, "TIFF", compression="tiff_lzw"))
keep("deflate.tif", saved(with_alpha, "TIFF", compression="tiff_adobe_deflate"))

# WebP and JPEG.
keep("lossless.webp", saved(with_alpha, "WEBP", lossless=True, exact=True))
smooth = np.stack([100 + ROWS * 8, 100 + COLUMNS * 8, 120 + ROWS * 4], 2)
keep("progressive.jpg", saved(smooth, "JPEG", quality=100, subsampling=0, progressive=True))
keep("ink.jpg", saved(Image.fromarray(smooth.astype(np.uint8)).convert("CMYK"), "JPEG", quality=100))

with open(os.path.join(HERE, "index.json"), "w", encoding="utf-8") as file:
    json.dump(INDEX, file, indent=1)
    file.write("\n")
