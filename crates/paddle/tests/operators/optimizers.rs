//! Optimizers compute the same ten steps as PaddlePaddle 2.6.2 and 1.8.5
//! (`golden/make_paddle_optimizers.py`).

use lodstone_model::{DType, Kind, Op, Operand, Program, Tensor};
use lodstone_paddle::executor::{Dirs, Error, Prepared, Scope, Value};
use lodstone_schema::paddle::updated_slot;
use lodstone_store::Blob;
use serde_json::Value as Json;

use super::difference;
use super::recorded::{attribute, double, program};
use crate::bits;

/// Releases, and their numbers of cases.
const RECORDED: &[(&str, i64, &str, usize)] = &[
    (
        "2.6.2-float32",
        2_006_002,
        include_str!("../golden/paddle_optimizers/2.6.2-float32.json"),
        55,
    ),
    (
        "2.6.2-float64",
        2_006_002,
        include_str!("../golden/paddle_optimizers/2.6.2-float64.json"),
        55,
    ),
    (
        "1.8.5-float32",
        1_008_005,
        include_str!("../golden/paddle_optimizers/1.8.5-float32.json"),
        44,
    ),
    (
        "1.8.5-float64",
        1_008_005,
        include_str!("../golden/paddle_optimizers/1.8.5-float64.json"),
        27,
    ),
];

fn cases(text: &str) -> Vec<Json> {
    let json: Json = serde_json::from_str(text).unwrap();
    json["cases"].as_array().unwrap().clone()
}

/// Returns a recorded tensor: selected rows, if it has indices.
fn tensor(json: &Json, height: i64) -> Tensor {
    let dtype = DType::from_name(json[0].as_str().unwrap()).unwrap();
    let shape = json[1].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
    let values = json[2].as_array().unwrap().iter();
    let bytes: Vec<u8> = match dtype {
        DType::Bool => values.map(|value| u8::from(value.as_bool().unwrap())).collect(),
        DType::Float32 => values.flat_map(|value| (double(value) as f32).to_le_bytes()).collect(),
        _ => values.flat_map(|value| double(value).to_le_bytes()).collect(),
    };
    let mut made = Tensor::dense(dtype, shape, Blob::memory(bytes));
    if let Some(rows) = json[3].as_array() {
        let rows = rows.iter().flat_map(|row| row.as_i64().unwrap().to_le_bytes());
        let rows = Blob::memory(rows.collect::<Vec<u8>>());
        made.kind = Kind::SelectedRows { rows, height };
    }
    made
}

/// Returns the program of a case: its variables have the names of their slots, and persist.
fn prepared(case: &Json, release: i64) -> Program {
    let operands = |names: &Json, slot: fn(&str) -> String| {
        let names = names.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
        let operand = |name| Operand { slot: slot(name), args: vec![String::from(name)] };
        names.map(operand).collect()
    };
    let attributes = case["attributes"].as_object().unwrap().iter();
    let op = Op {
        kind: case["kind"].as_str().unwrap().to_owned(),
        inputs: operands(&case["inputs"], str::to_owned),
        outputs: operands(&case["outputs"], updated_slot),
        attributes: attributes.map(|(key, value)| attribute(key, value)).collect(),
        ..Op::default()
    };
    let mut program = program(op, &[]);
    program.version = Some(release);
    program.blocks[0].vars.iter_mut().for_each(|var| var.persistable = true);
    program
}

fn begun(case: &Json) -> Scope {
    let mut scope = Scope::default();
    for (name, json) in case["begins"].as_object().unwrap() {
        scope.set(name, tensor(json, 0));
    }
    scope
}

/// Describes what is wrong after a step.
fn failure(case: &Json, release: i64) -> Option<String> {
    let program = prepared(case, release);
    let prepared = Prepared::new(&program, &["Param"]).unwrap();
    let mut scope = begun(case);
    let height = scope.tensor("Param").unwrap().shape[0].cast_signed();
    for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        for name in ["Grad", "SkipUpdate"].into_iter().filter(|name| step.get(name).is_some()) {
            scope.set(name, tensor(&step[name], height));
        }
        if let Err(error) = prepared.run(&mut scope, &[], &Dirs::default()) {
            return Some(error.to_string());
        }
        let after = step["after"].as_object().unwrap().keys();
        let what = format!("{release} {} {} {number}", case["kind"], case["attributes"]);
        bits::keep(&what, after.map(|name| scope.tensor(name).unwrap()));
        for (name, wanted) in step["after"].as_object().unwrap() {
            if let Some(what) = difference(&tensor(wanted, 0), scope.tensor(name).unwrap()) {
                return Some(format!("step {number}, `{name}`: {what}"));
            }
        }
    }
    None
}

#[test]
fn optimizers_step_as_paddlepaddle_did() {
    let mut wrong = Vec::new();
    for (name, release, text, count) in RECORDED {
        let cases = cases(text);
        assert_eq!(cases.len(), *count, "{name}");
        for case in &cases {
            let rows = case["steps"][0]["Grad"].get(3).map_or("", |_| " of rows");
            if let Some(what) = failure(case, *release) {
                let (kind, attributes) = (&case["kind"], &case["attributes"]);
                wrong.push(format!("{name} {kind}{rows} {attributes}: {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the error of a run of a case with another value of a variable.
fn refusal(case: &Json, name: &str, tensor: Tensor) -> (String, Scope) {
    let program = prepared(case, 2_006_002);
    let mut scope = begun(case);
    scope.set("Grad", self::tensor(&case["steps"][0]["Grad"], 3));
    scope.set(name, tensor);
    let before = scope.clone();
    let result =
        Prepared::new(&program, &["Param"]).unwrap().run(&mut scope, &[], &Dirs::default());
    let Err(Error::Operator { finding, .. }) = result else { panic!("{name}: {result:?}") };
    for name in before.names() {
        let [Some(Value::Tensor(old)), Some(Value::Tensor(new))] =
            [&before, &scope].map(|it| it.get(name))
        else {
            panic!("`{name}` is not a tensor any more")
        };
        assert!(old == new, "`{name}` has changed");
    }
    (finding.message, scope)
}

#[test]
fn what_does_not_fit_a_parameter_is_refused_before_anything_changes() {
    let zeros = |dtype: DType, shape: &[u64]| {
        let size = dtype.size_of(shape).unwrap() as usize;
        Tensor::dense(dtype, shape.to_vec(), Blob::memory(vec![0; size]))
    };
    let adam = cases(RECORDED[0].2).into_iter().find(|case| case["kind"] == "adam").unwrap();
    for slot in ["Grad", "Moment1", "Moment2"] {
        let (what, _) = refusal(&adam, slot, zeros(DType::Float32, &[2, 3]));
        let wanted =
            format!("expected float32[3, 2] as `{slot}`, like `Param`, found float32[2, 3]");
        assert_eq!(what, wanted);
        let (what, _) = refusal(&adam, slot, zeros(DType::Float64, &[3, 2]));
        assert!(what.ends_with("found float64[3, 2]"), "{what}");
    }
    for slot in ["LearningRate", "Beta1Pow", "Beta2Pow"] {
        let (what, _) = refusal(&adam, slot, zeros(DType::Float32, &[2]));
        assert_eq!(what, format!("expected a single number as `{slot}`, found float32[2]"));
    }
    let (what, _) = refusal(&adam, "Param", zeros(DType::Int32, &[3, 2]));
    assert_eq!(what, "expected float32 or float64 as `Param`, found int32");
}

#[test]
fn rows_that_a_parameter_has_not_are_refused() {
    let sgd = cases(RECORDED[0].2).into_iter().next().unwrap();
    let rows = |rows: &[i64], stored: u64, height| {
        let size = usize::try_from(stored).unwrap() * 8;
        let mut made = Tensor::dense(DType::Float32, vec![stored, 2], Blob::memory(vec![0; size]));
        let rows: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
        made.kind = Kind::SelectedRows { rows: Blob::memory(rows), height };
        made
    };
    for (grad, wanted) in [
        (rows(&[0, 3], 2, 3), "row 3 of `Grad` is out of range of `Param`, which has 3"),
        (rows(&[-1], 1, 3), "row -1 of `Grad` is out of range of `Param`, which has 3"),
        (rows(&[0], 1, 4), "expected `Grad` of height 3, as `Param`, found 4"),
        (rows(&[0], 2, 3), "`Grad` has 2 rows, but 1 indices"),
    ] {
        assert_eq!(refusal(&sgd, "Grad", grad).0, wanted);
    }
}

#[test]
fn hostile_attributes_and_gradients_of_new_rules_are_refused() {
    let all = cases(RECORDED[2].2);
    let find = |kind: &str| all.iter().find(|case| case["kind"] == kind).unwrap().clone();
    let rows = {
        let mut made = Tensor::dense(DType::Float32, vec![1, 2], Blob::memory(vec![0; 8]));
        made.kind = Kind::SelectedRows { rows: Blob::memory(vec![0; 8]), height: 3 };
        made
    };
    for kind in ["adadelta", "adamax", "decayed_adagrad", "dpsgd", "ftrl", "lars_momentum"] {
        let (what, _) = refusal(&find(kind), "Grad", rows.clone());
        assert_eq!(what, "expected a dense `Grad`, found selected rows", "{kind}");
    }
    let with = |kind: &str, key: &str, value: Json| {
        let mut case = find(kind);
        case["attributes"] = serde_json::json!({ key: value });
        let grad = tensor(&case["steps"][0]["Grad"], 3);
        refusal(&case, "Grad", grad).0
    };
    assert_eq!(with("ftrl", "l1:s", "x".into()), "expected a number as `l1`");
    assert_eq!(with("dpsgd", "seed:f", 0.5.into()), "expected an integer as `seed`");
    assert_eq!(
        with("lars_momentum", "lars_weight_decay:fs", serde_json::json!([0.5, 0.25])),
        "expected a number as `mu`"
    );
}

/// Without a seed, noise is drawn from the generator of the scope: each step has its own, and a run can be repeated.
#[test]
fn noise_without_a_seed_is_drawn_from_the_scope() {
    let all = cases(RECORDED[0].2);
    let mut case = all.iter().find(|case| case["kind"] == "dpsgd").unwrap().clone();
    case["attributes"].as_object_mut().unwrap().remove("seed:i");
    let program = prepared(&case, 2_006_002);
    let prepared = Prepared::new(&program, &["Param"]).unwrap();
    let run = || {
        let mut scope = begun(&case);
        let step = |scope: &mut Scope| {
            scope.set("Param", tensor(&case["begins"]["Param"], 3));
            scope.set("Grad", tensor(&case["steps"][0]["Grad"], 3));
            prepared.run(scope, &[], &Dirs::default()).unwrap();
            scope.tensor("Param").unwrap().data.bytes().unwrap()
        };
        [step(&mut scope), step(&mut scope)]
    };
    let ([first, second], again) = (run(), run());
    assert_ne!(first, second);
    assert_eq!([first, second], again);
}
