//! Between numbers and their quantized integers, and between types.

use lodstone_model::DType;

use super::node::{Node, Outcome, Rule, no_words};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ConvertTo", convert),
    ("Dequantize", same),
    ("IntLookupTable", looked_up),
    ("Quantize", same),
    ("RescaleQuantized", same),
];

/// The result stands for the same numbers.
fn same(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    n.put(0, &value)
}

/// Fractions are left out towards zero, as ONNX's `Cast` does, too.
fn convert(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    if result.kind.is_fused() || n.ty(0)?.kind.is_fused() {
        return no_words("its rows end with scales of their own");
    }
    let value = n.real(0)?;
    n.put(0, &value)
}

/// The element of a table that has the number of the input, counted from -128.
fn looked_up(n: &mut Node<'_>) -> Outcome {
    let (value, table) = (n.raw(0)?, n.raw(1)?);
    let (least, dims) = match value.dtype() {
        DType::Int8 => (i64::from(i8::MIN), value.dims()?),
        DType::Int16 => (i64::from(i16::MIN), value.dims()?),
        _ => return no_words("only integers of 8 and 16 bits are looked up"),
    };
    let number = n.cast(&value, DType::Int64)?;
    let least = n.long(-least);
    let number = n.add(&number, &least)?;
    let found = n.gather(&table, &number, 0)?;
    let found = n.reshape(&found, &dims)?;
    n.put_raw(0, &found)
}
