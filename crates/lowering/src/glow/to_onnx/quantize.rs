//! Quantization, dequantization and conversion.

use lodstone_model::DType;

use super::node::{Node, Outcome, Rule, no_equivalent};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ConvertTo", convert),
    ("Dequantize", same),
    ("IntLookupTable", looked_up),
    ("Quantize", same),
    ("RescaleQuantized", same),
];

/// The result has the same values.
fn same(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    n.put(0, &value)
}

/// Fractions are truncated towards zero, as ONNX's `Cast` does, too.
fn convert(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    if result.kind.is_fused() || n.ty(0)?.kind.is_fused() {
        return no_equivalent("its rows end with their own scales");
    }
    let value = n.real(0)?;
    n.put(0, &value)
}

/// Looks up each input in a table, with indices from -128.
fn looked_up(n: &mut Node<'_>) -> Outcome {
    let (value, table) = (n.raw(0)?, n.raw(1)?);
    let (least, dims) = match value.dtype() {
        DType::Int8 => (i64::from(i8::MIN), value.dims()?),
        DType::Int16 => (i64::from(i16::MIN), value.dims()?),
        _ => return no_equivalent("lookup is only supported for 8-bit and 16-bit integers"),
    };
    let number = n.cast(&value, DType::Int64)?;
    let least = n.long(-least);
    let number = n.add(&number, &least)?;
    let found = n.gather(&table, &number, 0)?;
    let found = n.reshape(&found, &dims)?;
    n.put_raw(0, &found)
}
