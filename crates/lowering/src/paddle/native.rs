//! What operators write that the runtime has itself: those that ONNX has no words for.

use lodstone_model::{AttributeValue, DType, Dim, Op};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{attribute, codes};

use super::Given;

/// The variables that an operator writes, with their types, if the runtime computes it without ONNX's operators.
pub fn native_outputs(
    op: &Op,
    given: &dyn Given,
) -> Option<Result<Vec<(String, ValueInfo)>, String>> {
    let one = |slot: &str, info: Result<ValueInfo, String>| {
        let names = op.output(slot).first().cloned();
        info.map(|info| names.into_iter().map(|name| (name, info.clone())).collect())
    };
    let input = |slot: &str| {
        let name = op.input(slot).first().ok_or_else(|| format!("it has no `{slot}`"))?;
        given.info(name).ok_or_else(|| format!("`{name}`, its `{slot}`, has no value"))
    };
    Some(match op.kind.as_str() {
        "dropout" => input("X").map(|info| {
            let mask = ValueInfo::tensor(DType::Uint8, info.shape().map(<[Dim]>::to_vec));
            let slots = [("Out", &info), ("Mask", &mask)];
            let told = slots.into_iter().flat_map(|(slot, info)| {
                op.output(slot).iter().map(move |name| (name.clone(), info.clone()))
            });
            told.collect()
        }),
        "gaussian_random" | "randint" | "truncated_gaussian_random" | "uniform_random" => {
            one("Out", filled(op))
        }
        "increment" => one("Out", input("X")),
        "load" | "load_combine" | "save" | "save_combine" => Ok(Vec::new()),
        _ => return None,
    })
}

/// A tensor of the extents and the type that attributes say.
fn filled(op: &Op) -> Result<ValueInfo, String> {
    let dims: Vec<i64> = match attribute(op, "shape") {
        Some(AttributeValue::Longs(dims)) => dims.clone(),
        Some(AttributeValue::Ints(dims)) => dims.iter().copied().map(i64::from).collect(),
        _ => return Err("expected extents as `shape`".to_owned()),
    };
    let dtype = match attribute(op, "dtype") {
        Some(AttributeValue::Int(code)) => codes::dtype(*code),
        _ => return Err("expected an element type as `dtype`".to_owned()),
    };
    let dim = |dim: i64| u64::try_from(dim).map_or(Dim::Unknown, Dim::Known);
    Ok(ValueInfo::tensor(dtype, Some(dims.into_iter().map(dim).collect())))
}
