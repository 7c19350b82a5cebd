//! Operators as the registry of PaddlePaddle 2.6.2 requires them: all attributes without a default, all inputs that may not
//! be absent, and integers of the types that its kernels read.

use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::paddle::{AttributeSpec, attributes, input_type, operator};
use lodstone_schema::{Code, Finding};

use super::attributes::longs;
use super::older::Outcome;
use super::older::{Writer, set};

/// Appends an operator in the form that 2.6.2 takes.
pub(super) fn fit(writer: &mut Writer<'_>, mut op: Op) -> Outcome {
    add_implied(&mut op)?;
    let Some(row) = operator(&op.kind).filter(|row| !row.releases.is_empty()) else {
        // Gradients are in no registry.
        writer.emit(op);
        return Ok(());
    };
    let missing = |what: &str, name: &str| {
        let message = format!("PaddlePaddle 2.6.2 requires the {what} `{name}`");
        Err(Finding::new(Code::NoEquivalent, message))
    };
    let is_absent = |spec: &&AttributeSpec| spec.is_required() && op.attribute(spec.name).is_none();
    if let Some(spec) = attributes(&op.kind).find(is_absent) {
        return missing("attribute", spec.name).map_err(|it| it.about_attribute(spec.name));
    }
    if let Some(slot) =
        row.inputs.iter().find(|slot| !slot.optional && op.input(slot.name).is_empty())
    {
        return missing("input", slot.name).map_err(|it| it.about_slot(slot.name));
    }
    for operand in &mut op.inputs {
        let Some(dtype) = input_type(row.kind, &operand.slot) else { continue };
        for name in &mut operand.args {
            *name = integers(writer, name, dtype)?;
        }
    }
    writer.emit(op);
    Ok(())
}

/// Returns integers in an element type.
fn integers(writer: &mut Writer<'_>, name: &str, dtype: DType) -> Outcome<String> {
    let declared = writer.declared(name);
    let Some(tensor) = declared.filter(|it| it.dtype != dtype) else { return Ok(name.to_owned()) };
    if !matches!(tensor.dtype, DType::Int32 | DType::Int64) {
        return Ok(name.to_owned());
    }
    writer.cast(name, &tensor, dtype)
}

/// Adds attributes that PaddlePaddle 3 does not have, or that follow from the inputs.
fn add_implied(op: &mut Op) -> Outcome {
    let has = |op: &Op, slots: &[&str]| slots.iter().any(|slot| !op.input(slot).is_empty());
    match op.kind.as_str() {
        // The largest range, which the computed bounds replace.
        "clip" | "clip_grad" => {
            for (slot, name, bound) in [("Min", "min", f32::MIN), ("Max", "max", f32::MAX)] {
                if has(op, &[slot]) && op.attribute(name).is_none() {
                    set(op, name, bound);
                }
            }
        }
        "deformable_conv" if !has(op, &["Mask"]) => "deformable_conv_v1".clone_into(&mut op.kind),
        "pad3d" | "pad3d_grad" if has(op, &["Paddings"]) => set(op, "paddings", Vec::<i32>::new()),
        // 2.6.2 reads a flag for each axis, also where there is none. -1 is a bound that is not known beforehand.
        "slice" | "slice_grad" | "strided_slice" | "strided_slice_grad" => {
            const BOUNDS: [&str; 6] = [
                "StartsTensor",
                "EndsTensor",
                "StridesTensor",
                "StartsTensorList",
                "EndsTensorList",
                "StridesTensorList",
            ];
            let axes = op.attribute("axes").and_then(longs).ok_or("expected integers as `axes`")?;
            let flag = if has(op, &BOUNDS) { -1 } else { 1 };
            set(op, "infer_flags", vec![flag; axes.len()]);
        }
        "unpool" | "unpool_grad" | "unpool3d" | "unpool3d_grad" => {
            set(op, "unpooling_type", AttributeValue::from("max"));
        }
        _ => {}
    }
    Ok(())
}
