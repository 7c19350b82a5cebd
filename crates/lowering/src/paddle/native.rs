//! The outputs of operators that the runtime computes by native functions, without an ONNX equivalent.
//!
//! This is the only table of shapes beside ONNX's inference rules, which infer the outputs of all lowered operators.

use lodstone_model::{AttributeValue, DType, Dim, Holder, Op, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{attribute, codes, is_load, is_save, updated_slot};

use super::VariableFacts;
use super::operator::{absent, valueless};

/// Returns the variables that an operator writes, with their types, if a native function computes it.
pub fn native_outputs(
    op: &Op,
    given: &dyn VariableFacts,
) -> Option<Result<Vec<(String, ValueInfo)>, Finding>> {
    let one = |slot: &str, info: Result<ValueInfo, Finding>| {
        let names = op.output(slot).first().cloned();
        info.map(|info| names.into_iter().map(|name| (name, info.clone())).collect())
    };
    let input = |slot: &str| {
        let name = op.input(slot).first().ok_or_else(|| absent(slot))?;
        given.info(name).ok_or_else(|| valueless(name, slot))
    };
    let array = |slot: &str| match input(slot) {
        Ok(info) if info.value.is_array() => Ok(info),
        Ok(_) => {
            let wrong = format!("expected an array as `{slot}`");
            Err(Finding::from(wrong).about_slot(slot))
        }
        Err(what) => Err(what),
    };
    let rows = |slot: &str| input(slot).ok().filter(is_rows);
    Some(match op.kind.as_str() {
        "adadelta" | "adagrad" | "adam" | "adamax" | "adamw" | "decayed_adagrad" | "dpsgd"
        | "ftrl" | "lamb" | "lars_momentum" | "momentum" | "rmsprop" | "sgd" => in_place(op, given),
        "assign" => one("Out", input("X")),
        "bipartite_match" => input("DistMat").map(|info| {
            let columns = info.shape().and_then(|dims| dims.get(1)).cloned();
            let shape = vec![Dim::Unknown, columns.unwrap_or(Dim::Unknown)];
            let slots =
                [("ColToRowMatchIndices", DType::Int32), ("ColToRowMatchDist", info.dtype())];
            let outputs = slots.into_iter().flat_map(|(slot, dtype)| {
                let info = ValueInfo::tensor(dtype, Some(shape.clone()));
                op.output(slot).iter().map(move |name| (name.clone(), info.clone()))
            });
            outputs.collect()
        }),
        "conditional_block" => one("Scope", Ok(holder(Holder::StepScopes))),
        "crf_decoding" => one(
            "ViterbiPath",
            input("Emission").map(|info| {
                let shape = info.shape().map(|dims| match dims {
                    [batch, steps, _] => vec![batch.clone(), steps.clone()],
                    [steps, ..] => vec![steps.clone(), Dim::Known(1)],
                    [] => Vec::new(),
                });
                ValueInfo::tensor(DType::Int64, shape)
            }),
        ),
        "array_to_lod_tensor" => one(
            "Out",
            array("X").map(|array| ValueType::Tensor(unsized_rows(described(&array), 1)).into()),
        ),
        // By lengths, the lowering applies.
        "ctc_align" if op.input("InputLength").is_empty() => one(
            "Output",
            input("Input").map(|info| {
                let rows = vec![Dim::Unknown, Dim::Known(1)];
                ValueInfo::tensor(info.dtype(), Some(rows))
            }),
        ),
        "edit_distance" => {
            let count = input("Hyps").map(|info| match info.value.tensor_type() {
                // By lengths, there is a row for each sequence.
                Some(hyps) if !op.input("HypsLength").is_empty() => {
                    hyps.shape.as_ref().and_then(|dims| dims.first().cloned())
                }
                _ => None,
            });
            count.map(|count| {
                let rows = vec![count.unwrap_or(Dim::Unknown), Dim::Known(1)];
                named(
                    op,
                    [
                        ("Out", ValueInfo::tensor(DType::Float32, Some(rows))),
                        ("SequenceNum", ValueInfo::tensor(DType::Int64, Some(vec![Dim::Known(1)]))),
                    ],
                )
            })
        }
        "linear_chain_crf" => {
            let pair = || Ok((input("Emission")?, input("Transition")?));
            pair().map(|(emission, transition)| {
                let (dtype, of_weights) = (emission.dtype(), transition.value);
                let rows = match emission.shape() {
                    Some([batch, _, _]) => batch.clone(),
                    _ => Dim::Unknown,
                };
                let costs = ValueInfo::tensor(dtype, Some(vec![rows, Dim::Known(1)]));
                let alike = || ValueInfo::from(emission.value.clone());
                named(
                    op,
                    [
                        ("Alpha", alike()),
                        ("EmissionExps", alike()),
                        ("TransitionExps", of_weights.into()),
                        ("LogLikelihood", costs),
                    ],
                )
            })
        }
        "lod_rank_table" => one("Out", input("X").map(|_| holder(Holder::LodRankTable))),
        "lod_tensor_to_array" => one(
            "Out",
            input("X").map(|info| holder(Holder::TensorArray(unsized_rows(described(&info), 0)))),
        ),
        "max_sequence_len" => {
            one("Out", Ok(ValueInfo::tensor(DType::Int64, Some(vec![Dim::Known(1)]))))
        }
        "merge_lod_tensor" => one("Out", input("InTrue").map(|info| other_rows(&info))),
        "reorder_lod_tensor_by_rank" => one("Out", input("X").map(|info| info.value.into())),
        "shrink_rnn_memory" => one("Out", input("X").map(|info| other_rows(&info))),
        "split_lod_tensor" => input("X").map(|info| {
            named(op, [("OutTrue", other_rows(&info)), ("OutFalse", other_rows(&info))])
        }),
        "warpctc" => input("Logits").map(|info| {
            let (dtype, dims) = (info.dtype(), info.shape().map(<[Dim]>::to_vec));
            let (steps, rows) = match dims.as_deref() {
                Some([steps, rows, _]) => (steps.clone(), rows.clone()),
                _ => (Dim::Unknown, Dim::Unknown),
            };
            let classes = dims.as_ref().and_then(|dims| dims.last().cloned());
            let kept = vec![steps, rows.clone(), classes.unwrap_or(Dim::Unknown)];
            named(
                op,
                [
                    ("WarpCTCGrad", ValueInfo::tensor(dtype, Some(kept))),
                    ("Loss", ValueInfo::tensor(dtype, Some(vec![rows, Dim::Known(1)]))),
                ],
            )
        }),
        "gru" => recurrent(
            op,
            given,
            &[("Hidden", 1), ("BatchGate", 3), ("BatchResetHiddenPrev", 1), ("BatchHidden", 1)],
        ),
        "lstm" => recurrent(
            op,
            given,
            &[("Hidden", 1), ("Cell", 1), ("BatchGate", 4), ("BatchCellPreAct", 1)],
        ),
        "dropout" => input("X").map(|info| {
            let mask = ValueInfo::tensor(DType::Uint8, info.shape().map(<[Dim]>::to_vec));
            let slots = [("Out", &info), ("Mask", &mask)];
            let outputs = slots.into_iter().flat_map(|(slot, info)| {
                op.output(slot).iter().map(move |name| (name.clone(), info.clone()))
            });
            outputs.collect()
        }),
        "clip" | "clip_by_norm" | "elementwise_mul" | "scale" => match rows("X") {
            Some(info) => one("Out", Ok(info)),
            None => return None,
        },
        "gaussian_random" | "randint" | "truncated_gaussian_random" | "uniform_random" => {
            one("Out", filled(op))
        }
        "increment" => one("Out", input("X").map(|info| info.value.into())),
        "get_tensor_from_selected_rows" => one("Out", input("X").map(stored)),
        _ if is_load(op) || is_save(op) => Ok(Vec::new()),
        "lod_array_length" => {
            let length = || ValueInfo::tensor(DType::Int64, Some(vec![Dim::Known(1)]));
            one("Out", array("X").map(|_| length()))
        }
        "merge_selected_rows" => one("Out", input("X").map(|info| info.value.into())),
        "read_from_array" => {
            one("Out", array("X").map(|array| ValueType::Tensor(described(&array)).into()))
        }
        "select_input" => one("Out", selected(op, given)),
        "sum" => {
            let all = op.input("X").iter().map(|name| given.info(name));
            match all.collect::<Option<Vec<_>>>() {
                Some(all) if all.iter().any(is_rows) => one("Out", Ok(total(all))),
                _ => return None,
            }
        }
        "tensor_array_to_tensor" => array("X").map(|array| {
            let all = ValueInfo::tensor(described(&array).dtype, None);
            let sizes = ValueInfo::tensor(DType::Int32, Some(vec![Dim::Unknown]));
            let slots = [("Out", all), ("OutIndex", sizes)];
            let outputs = slots.into_iter().flat_map(|(slot, info)| {
                op.output(slot).iter().map(move |name| (name.clone(), info.clone()))
            });
            outputs.collect()
        }),
        "while" => one("StepScopes", Ok(holder(Holder::StepScopes))),
        "write_to_array" => {
            one("Out", input("X").map(|info| holder(Holder::TensorArray(described(&info)))))
        }
        _ => return None,
    })
}

/// Returns the variables of output slots, with their types.
fn named<const N: usize>(op: &Op, slots: [(&str, ValueInfo); N]) -> Vec<(String, ValueInfo)> {
    let variables = |(slot, info): (&str, ValueInfo)| {
        let names = op.output(slot).iter().cloned();
        names.map(move |name| (name, info.clone())).collect::<Vec<_>>()
    };
    slots.into_iter().flat_map(variables).collect()
}

/// Returns a type of tensors of any number of rows, with a number of LoD levels.
fn unsized_rows(mut tensor: TensorType, lod_level: u32) -> TensorType {
    if let Some(rows) = tensor.shape.as_mut().and_then(|dims| dims.first_mut()) {
        *rows = Dim::Unknown;
    }
    tensor.lod_level = lod_level;
    tensor
}

/// Returns the type of a tensor with other rows, of as many LoD levels.
fn other_rows(info: &ValueInfo) -> ValueInfo {
    let tensor = described(info);
    let levels = tensor.lod_level;
    ValueType::Tensor(unsized_rows(tensor, levels)).into()
}

/// Returns the outputs of a recurrent operator over the rows of `Input`: slots, and their widths in multiples of the width
/// of the state, which `Weight` determines.
fn recurrent(
    op: &Op,
    given: &dyn VariableFacts,
    slots: &[(&str, u64)],
) -> Result<Vec<(String, ValueInfo)>, Finding> {
    let dims = |slot: &str| {
        let name = op.input(slot).first().ok_or_else(|| absent(slot))?;
        given.info(name).ok_or_else(|| valueless(name, slot))
    };
    let (input, weight) = (dims("Input")?, dims("Weight")?);
    let rows = input.shape().and_then(|dims| dims.first()).cloned().unwrap_or(Dim::Unknown);
    let width = match weight.shape() {
        Some([Dim::Known(width), _]) => *width,
        _ => {
            return Err(
                Finding::from("expected a matrix of known dims as `Weight`").about_slot("Weight")
            );
        }
    };
    let typed = |(slot, times): &(&str, u64)| {
        let width = width.checked_mul(*times).map_or(Dim::Unknown, Dim::Known);
        let info = ValueInfo::tensor(input.dtype(), Some(vec![rows.clone(), width]));
        op.output(slot).iter().map(move |name| (name.clone(), info.clone())).collect::<Vec<_>>()
    };
    Ok(slots.iter().flat_map(typed).collect())
}

/// Outputs that only PaddlePaddle's gradients read, and that lowerings do not compute: each is like another output, of
/// an element type.
const UNLOWERED: [(&str, &str, &str, Option<DType>); 3] = [
    ("lrn", "MidOut", "Out", None),
    ("roi_pool", "Argmax", "Out", Some(DType::Int64)),
    ("sequence_pool", "MaxIndex", "Out", Some(DType::Int32)),
];

/// Returns an operator without the outputs that its lowering does not compute.
pub fn lowered_part(op: &Op) -> Op {
    let mut op = op.clone();
    let is_lowered = |slot: &str| {
        UNLOWERED.iter().all(|(kind, unlowered, ..)| *kind != op.kind || *unlowered != slot)
    };
    op.outputs.retain(|operand| is_lowered(&operand.slot));
    op
}

/// Returns the outputs of an operator that its lowering does not compute, with their types; `lowered` has the others.
pub fn unlowered_outputs(op: &Op, lowered: &[(String, ValueInfo)]) -> Vec<(String, ValueInfo)> {
    let mut found = Vec::new();
    for (kind, slot, like, dtype) in UNLOWERED {
        let alike = |(name, _): &&(String, ValueInfo)| op.output(like).contains(name);
        let Some((_, info)) = lowered.iter().find(alike).filter(|_| op.kind == kind) else {
            continue;
        };
        let missing = |name: &&String| lowered.iter().all(|(known, _)| known != *name);
        for name in op.output(slot).iter().filter(missing) {
            let mut value = info.value.clone();
            if let (Some(tensor), Some(dtype)) = (value.tensor_type_mut(), dtype) {
                tensor.dtype = dtype;
            }
            found.push((name.clone(), value.into()));
        }
    }
    found
}

/// Outputs have the types of the inputs that they update: `ParamOut` that of `Param`.
fn in_place(op: &Op, given: &dyn VariableFacts) -> Result<Vec<(String, ValueInfo)>, Finding> {
    let mut outputs = Vec::new();
    for operand in &op.inputs {
        for (name, input) in op.output(&updated_slot(&operand.slot)).iter().zip(&operand.args) {
            let info = given.info(input);
            let info = info.ok_or_else(|| valueless(input, &operand.slot))?;
            outputs.push((name.clone(), info.value.into()));
        }
    }
    Ok(outputs)
}

/// Whether a value is selected rows.
fn is_rows(info: &ValueInfo) -> bool {
    info.value.is_selected_rows()
}

/// Returns the type of the stored rows; PaddlePaddle declares the dims of the whole tensor.
fn stored(info: ValueInfo) -> ValueInfo {
    ValueType::Tensor(described(&info)).into()
}

/// Returns selected rows, or a dense tensor if any of the summands is dense.
fn total(all: Vec<ValueInfo>) -> ValueInfo {
    let whole = all.iter().find(|info| !is_rows(info)).or(all.first()).cloned();
    whole.map_or_else(ValueInfo::default, |info| info.value.into())
}

fn holder(holder: Holder) -> ValueInfo {
    ValueType::Holder(holder).into()
}

/// Returns the tensor type of a value.
fn described(info: &ValueInfo) -> TensorType {
    info.value.tensor_type().cloned().unwrap_or_default()
}

/// Returns the common type of several values: dims in which they differ are unknown.
fn selected(op: &Op, given: &dyn VariableFacts) -> Result<ValueInfo, Finding> {
    let info = |name: &String| given.info(name).ok_or_else(|| valueless(name, "X"));
    let mut all = op.input("X").iter().map(info);
    let mut first = all.next().ok_or_else(|| absent("X"))??;
    first.contents = None;
    for other in all {
        let other = other?;
        if (other.value.kind(), other.dtype()) != (first.value.kind(), first.dtype()) {
            return Err(format!(
                "expected one element type, found {} and {}",
                first.dtype(),
                other.dtype()
            )
            .into());
        }
        let shapes = first.value.tensors_mut().into_iter().zip(other.value.tensors());
        for (known, other) in shapes.map(|(a, b)| (&mut a.shape, &b.shape)) {
            *known = match (known.take(), other) {
                (Some(dims), Some(more)) if dims.len() == more.len() => {
                    let either = |(a, b): (Dim, &Dim)| if a == *b { a } else { Dim::Unknown };
                    Some(dims.into_iter().zip(more).map(either).collect())
                }
                _ => None,
            };
        }
    }
    Ok(first)
}

/// Returns a tensor with the shape and element type of attributes.
fn filled(op: &Op) -> Result<ValueInfo, Finding> {
    let dims: Vec<i64> = match attribute(op, "shape") {
        Some(AttributeValue::Longs(dims)) => dims.clone(),
        Some(AttributeValue::Ints(dims)) => dims.iter().copied().map(i64::from).collect(),
        _ => return Err("expected dims as `shape`".into()),
    };
    let dtype = match attribute(op, "dtype") {
        Some(AttributeValue::Int(code)) => codes::dtype(*code),
        _ => return Err("expected an element type as `dtype`".into()),
    };
    let dim = |dim: i64| u64::try_from(dim).map_or(Dim::Unknown, Dim::Known);
    Ok(ValueInfo::tensor(dtype, Some(dims.into_iter().map(dim).collect())))
}
