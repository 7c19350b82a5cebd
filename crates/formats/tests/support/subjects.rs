//! All formats that read bytes, with their readers and memory limits, as subjects of damage.

use lodstone_formats::{
    Result, mxnet::params, mxnet::states, mxnet::symbol, numpy, onnx, paddle::pickle, paddle::pir,
    paddle::program, paddle::stream, safetensors, torch,
};
use lodstone_model::{Limits, Model};

use super::blob;
use super::damage::Subject;

/// Bytes that change the meaning of a binary file: ends of ranges, tags.
const BINARY: &[u8] = &[0, 1, 8, 0x7f, 0x80, 0xfe, 0xff, 0x0a];

/// Opcodes of pickles.
const PICKLE: &[u8] = b"(.012RbceiohjqrstuX\x80\x81\x85\x86\x87\x8c\x93\x94\x95";

/// Characters of protobuf text format.
const TEXT: &[u8] = b"0123456789{}[]<>:\"\\#,;-.ef";

/// ONNX models. As in Paddle programs, nodes are larger than their bytes.
const fn onnx(format: &'static str) -> Subject {
    let read =
        |bytes: &[u8]| onnx::read_blob(&blob(bytes), "m", &Limits::default()).and_then(touch);
    Subject { format, read, factor: 90, ..stream("") }
}

/// Records of tensors. A tensor is a struct of some hundred bytes, and the smallest record, an empty
/// vocabulary, has 8.
const fn stream(format: &'static str) -> Subject {
    let read = |bytes: &[u8]| stream::read(&blob(bytes), &[], &Limits::default()).map(|_| ());
    let (constant, telling, rules) = (64 << 10, BINARY, (128, 0));
    Subject { format, read, factor: 40, constant, telling, rules }
}

/// All formats that read bytes, with their memory limits. Add new formats here.
pub const SUBJECTS: &[Subject] = &[
    stream("paddle-tensor"),
    stream("paddle-tensor-lod-last"),
    stream("paddle-params"),
    stream("paddle-params-sized"),
    // The nodes of a program are larger than their bytes: an operator of five bytes is a struct.
    Subject {
        format: "paddle-program",
        read: |bytes| program::read(&blob(bytes), "p", &Limits::default()).map(|_| ()),
        factor: 72,
        ..stream("")
    },
    Subject {
        format: "paddle-program-text",
        read: |bytes| program::read_text(&blob(bytes), "p", &Limits::default()).map(|_| ()),
        factor: 72,
        telling: TEXT,
        ..stream("")
    },
    // A name of a value is repeated wherever it is used.
    Subject {
        format: "paddle-pir",
        read: |bytes| {
            let program = pir::read(&blob(bytes), &Limits::default())?;
            let _ = pir::write(&program);
            Ok(())
        },
        factor: 64,
        constant: 3 << 20,
        telling: b"0123456789[]{},:\"-\\pIOA#%",
        rules: (4000, 600),
    },
    // The bytes themselves are copied for the test.
    Subject {
        format: "safetensors",
        read: |bytes| safetensors::read_blob(&blob(bytes), &Limits::default()).map(|_| ()),
        factor: 2,
        constant: 256 << 10,
        telling: b"0123456789[]{},:\"-",
        rules: (600, 0),
    },
    Subject {
        format: "npy",
        read: |bytes| numpy::read_npy_blob(&blob(bytes), &Limits::default()).and_then(touch),
        factor: 2,
        constant: 768 << 10,
        telling: b"0123456789(){},:'<>\xff",
        rules: (600, 0),
    },
    Subject {
        format: "npz",
        read: |bytes| numpy::read_npz_blob(&blob(bytes), &Limits::default()).and_then(touch),
        factor: 2,
        constant: 768 << 10,
        telling: b"0123456789(){},:'<>\xff",
        rules: (600, 600),
    },
    onnx("onnx"),
    onnx("onnx-glow"),
    Subject { telling: TEXT, ..onnx("onnx-text") },
    Subject { telling: TEXT, ..onnx("onnx-glow-text") },
    Subject { rules: (900, 600), constant: 768 << 10, ..onnx("onnx-zip") },
    Subject { rules: (900, 600), constant: 768 << 10, ..onnx("onnx-glow-zip") },
    Subject {
        format: "onnx-tensor",
        read: |bytes| onnx::read_tensor(&blob(bytes), "x", &Limits::default()).and_then(touch),
        factor: 90,
        ..stream("")
    },
    // A tensor is a struct of some hundred bytes, and the smallest record that holds one has 20.
    Subject {
        format: "mxnet-params",
        read: |bytes| params::read_blob(&blob(bytes), &Limits::default()).and_then(touch),
        factor: 64,
        constant: 256 << 10,
        telling: &[0, 1, 2, 3, 6, 7, 0x12, 0xc8, 0xc9, 0xca, 0xf9, 0xff],
        rules: (300, 200),
    },
    Subject {
        format: "mxnet-npz",
        read: |bytes| params::read_npz_blob(&blob(bytes), &Limits::default()).and_then(touch),
        factor: 2,
        constant: 768 << 10,
        telling: b"0123456789(){},:'<>\xff",
        rules: (600, 600),
    },
    // Names are repeated wherever a value is used, up to 16 times the bytes and a mebibyte.
    Subject {
        format: "mxnet-symbol",
        read: |bytes| {
            let program = symbol::read(&blob(bytes), &Limits::default())?;
            // A program that was read can be written, or is rejected.
            let _ = symbol::write(&program, false);
            Ok(())
        },
        factor: 64,
        constant: 3 << 20,
        telling: b"0123456789[]{},:\"-\\ntf",
        rules: (4000, 600),
    },
    // A value of one byte is a struct, and an object a larger one; descriptions of values are text.
    Subject {
        format: "paddle-pickle",
        read: |bytes| pickle::read_blob(&blob(bytes), &Limits::default()).and_then(touch),
        factor: 200,
        constant: 1 << 20,
        telling: PICKLE,
        rules: (600, 64),
    },
    Subject {
        format: "mxnet-states",
        read: |bytes| states::read_blob(&blob(bytes), &Limits::default()).and_then(touch),
        factor: 200,
        constant: 1 << 20,
        telling: PICKLE,
        rules: (900, 600),
    },
    Subject { format: "torch", ..torch(read_saved) },
    Subject { format: "torchscript", ..torch(read_script) },
    Subject { format: "torch-exported", ..torch(read_exported) },
    // References of four bytes lead to tables that are structs.
    Subject {
        format: "executorch",
        read: |bytes| torch::read_executorch_blob(&blob(bytes), &Limits::default()).and_then(touch),
        factor: 160,
        constant: 256 << 10,
        telling: BINARY,
        rules: (300, 200),
    },
];

/// Archives of pickles: a value of one byte is a struct, and the directory is read through a buffer.
const fn torch(read: fn(&[u8]) -> Result<()>) -> Subject {
    let (factor, constant) = (200, 2 << 20);
    Subject { format: "", read, factor, constant, telling: PICKLE, rules: (900, 1200) }
}

fn read_saved(bytes: &[u8]) -> Result<()> {
    torch::read_blob(&blob(bytes), &Limits::default()).and_then(touch)
}

fn read_script(bytes: &[u8]) -> Result<()> {
    torch::read_script_blob(&blob(bytes), &Limits::default()).and_then(touch)
}

fn read_exported(bytes: &[u8]) -> Result<()> {
    torch::read_exported_blob(&blob(bytes), &Limits::default()).and_then(touch)
}

/// Reads the first elements, which may be computed; errors are ignored.
fn touch(model: Model) -> Result<()> {
    for parameter in &model.parameters {
        let data = &parameter.tensor.data;
        let _ = data.read_at(0, &mut vec![0; data.len().min(64 << 10) as usize]);
    }
    Ok(())
}

/// Returns the subject of a format.
pub fn subject(format: &str) -> &'static Subject {
    SUBJECTS.iter().find(|subject| subject.format == format).expect("a format")
}
