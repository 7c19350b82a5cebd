//! The rules of operators that a native function computes at run time give the recorded results, too, with a known
//! and with an unknown batch.

use std::collections::BTreeMap;

use lodstone_engine::{Budget, Context, Mode, Plan, Threads, Value};
use lodstone_lowering::paddle::{LodLevel, Lowered, VariableFacts, lower_op};
use lodstone_model::{Dim, Lod, Tensor};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::{Computation, operator};

use crate::difference;
use crate::recorded::{OPERATORS, RELEASE, Tensors, elements, recorded};

/// What exported programs cannot express, by a part of the message.
const REFUSED: &[&str] = &[
    "ONNX has no suppression with an adaptive threshold",
    "boxes of several images with boxes for each class are not supported",
    "sequences by LoD are only supported at run time",
];

/// Variables as a lowering for other runtimes sees them.
struct Facts<'a> {
    feed: &'a Tensors<'a>,
    knows_dims: bool,
}

impl VariableFacts for Facts<'_> {
    fn info(&self, variable: &str) -> Option<ValueInfo> {
        let (_, tensor) = self.feed.iter().find(|(name, _)| *name == variable)?;
        let dims = tensor.shape.iter().enumerate();
        // Rules may require the last dims, those of boxes and classes.
        let dims = dims.map(|(axis, dim)| match self.knows_dims || axis > 0 {
            true => Dim::Known(*dim),
            false => Dim::Unknown,
        });
        Some(ValueInfo::tensor(tensor.dtype, Some(dims.collect())))
    }

    fn contents(&self, _: &str) -> Option<Vec<i64>> {
        None
    }

    fn lod(&self, variable: &str) -> Vec<LodLevel> {
        let found = self.feed.iter().find(|(name, _)| *name == variable);
        let levels = found.map(|(_, tensor)| &tensor.lod.0);
        let count = |level: &Vec<u64>| Dim::Known(level.len() as u64);
        let level = |level| LodLevel { value: None, count: count(level) };
        levels.into_iter().flatten().map(level).collect()
    }
}

/// Runs a lowered operator.
fn results(lowered: &Lowered, feed: &Tensors<'_>) -> BTreeMap<String, Tensor> {
    let (budget, threads) = (Budget::new(1 << 30), Threads::new(1));
    let context = Context::new(&budget, &threads);
    let infos = std::slice::from_ref(&lowered.infos);
    let plan = Plan::new(&lowered.program, infos, Mode::Fast, context).unwrap();
    let block = &lowered.program.blocks[0];
    let input = |name: &String| {
        let (_, tensor) = feed.iter().find(|(fed, _)| fed == name).unwrap();
        Value::of(tensor).unwrap()
    };
    let made = plan.run(block.inputs.iter().map(input).collect(), context).unwrap();
    let value = |name: &str| {
        let place = block.outputs.iter().position(|output| output == name).unwrap();
        made[place].tensor().unwrap()
    };
    let outputs = lowered.outputs.iter().map(|output| {
        let mut tensor = value(&output.value);
        if let Some(levels) = output.offsets() {
            let offsets = |level: &str| -> Vec<u64> {
                elements(&value(level)).iter().map(|offset| *offset as u64).collect()
            };
            tensor.lod = Lod(levels.into_iter().map(offsets).collect());
        }
        (output.variable.clone(), tensor)
    });
    outputs.collect()
}

/// Whether the result stands for an image without boxes.
fn is_without_boxes(kind: &str, wanted: &Tensor) -> bool {
    match kind {
        "multiclass_nms" => wanted.shape == [1, 1],
        _ => kind.starts_with("generate") && elements(wanted).iter().all(|value| *value == 0.0),
    }
}

#[test]
fn exported_rules_give_the_recorded_results() {
    let recorded = recorded(OPERATORS);
    let (mut compared, mut refused, mut wrong) = (0, 0, Vec::new());
    for case in &recorded.cases {
        let (op, feed, wanted) = recorded.case(case);
        let computation = operator(&op.kind).unwrap().computation;
        if computation != Computation::NativeExported || is_without_boxes(&op.kind, &wanted[0].1) {
            continue;
        }
        for knows_dims in [true, false] {
            let facts = Facts { feed: &feed, knows_dims };
            let lowered = match lower_op(&op, RELEASE, &facts) {
                Ok(lowered) => lowered,
                Err(finding) => {
                    let message = finding.to_string();
                    assert!(REFUSED.iter().any(|part| message.contains(part)), "{message}");
                    refused += 1;
                    continue;
                }
            };
            let found = results(&lowered, &feed);
            for (name, wanted) in &wanted {
                let Some(found) = found.get(*name) else { continue };
                let mut wanted = wanted.clone();
                if found.lod.0.is_empty() {
                    wanted.lod = Lod::default();
                }
                if let Some(what) = difference(&wanted, found) {
                    wrong
                        .push(format!("{} {}: `{name}`: {what}", case["name"], case["attributes"]));
                }
                compared += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 150 && refused > 10, "compared {compared}, refused {refused}");
}
