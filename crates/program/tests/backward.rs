//! Gradients are appended as PaddlePaddle 2.6.2 appends them (`golden/make_paddle_backward.py`): the same operators,
//! slots, variables and attributes in the same order.

#![expect(clippy::disallowed_methods, reason = "reads its own files")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::path::Path;

use lodstone_formats::paddle_program;
use lodstone_model::{AttributeValue, DType, Limits, Op, Operand, Program, Var};
use lodstone_program::layers::{self, Fc};
use lodstone_program::{Network, Variable, append_backward};
use lodstone_schema::paddle::attribute;
use lodstone_store::Blob;

const BACKWARD: i32 = 1;
const LOSS: i32 = 256;

fn programs() -> Vec<(String, Program)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/paddle_backward");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let blob = Blob::open(&path, true).unwrap();
        (name.clone(), paddle_program::read(&blob, &name, &Limits::default()).unwrap())
    };
    files.into_iter().map(read).collect()
}

fn role(op: &Op) -> i32 {
    match attribute(op, "op_role") {
        Some(AttributeValue::Int(role)) => *role,
        _ => 0,
    }
}

/// The program before gradients were appended, and its loss.
fn forward(program: &Program) -> (Program, Variable) {
    let mut forward = program.clone();
    let block = &mut forward.blocks[0];
    block.ops.retain(|op| role(op) & BACKWARD == 0);
    block.vars.retain(|var| !var.name.contains("@GRAD"));
    let loss = block.ops.iter_mut().find(|op| role(op) == LOSS).unwrap();
    loss.attributes.iter_mut().filter(|attribute| attribute.name == "op_role").for_each(|it| {
        it.value = AttributeValue::Int(0);
    });
    let loss = Variable::named(loss.writes().next().unwrap());
    (forward, loss)
}

/// Slots that have variables.
fn slots(operands: &[Operand]) -> BTreeMap<&str, &[String]> {
    let filled = operands.iter().filter(|operand| !operand.args.is_empty());
    filled.map(|operand| (operand.slot.as_str(), operand.args.as_slice())).collect()
}

fn differences(ours: &Op, theirs: &Op) -> Vec<String> {
    let mut differences = Vec::new();
    for (ours, theirs) in [(&ours.inputs, &theirs.inputs), (&ours.outputs, &theirs.outputs)] {
        if slots(ours) != slots(theirs) {
            differences.push(format!("{:?}, expected {:?}", slots(ours), slots(theirs)));
        }
    }
    let names = ours.attributes.iter().chain(&theirs.attributes).map(|it| it.name.as_str());
    // How PaddlePaddle computes is told where its program was made.
    let names = names.filter(|name| !["use_mkldnn", "use_quantizer"].contains(name));
    for name in names {
        let (found, wanted) = (attribute(ours, name), attribute(theirs, name));
        if found != wanted {
            differences.push(format!("{name} is {found:?}, expected {wanted:?}"));
        }
    }
    differences
}

#[test]
fn operators_are_those_of_paddlepaddle() {
    let programs = programs();
    assert_eq!(programs.len(), 8);
    let mut wrong = Vec::new();
    for (name, theirs) in programs {
        let (mut ours, loss) = forward(&theirs);
        let pairs = append_backward(&mut ours, &loss, &[]).unwrap();
        assert!(!pairs.is_empty(), "{name}");
        let kinds = |program: &Program| -> Vec<String> {
            program.blocks[0].ops.iter().map(|op| op.kind.clone()).collect()
        };
        let (found, wanted) = (kinds(&ours), kinds(&theirs));
        if found != wanted {
            wrong.push(format!("{name}: {found:?}, expected {wanted:?}"));
        }
        for (number, (ours, theirs)) in
            ours.blocks[0].ops.iter().zip(&theirs.blocks[0].ops).enumerate()
        {
            let differences = differences(ours, theirs);
            let told =
                differences.iter().map(|what| format!("{name}, {number}, {}: {what}", ours.kind));
            wrong.extend(told);
        }
        let gradients = |program: &Program| -> BTreeMap<String, (String, bool)> {
            let vars = program.blocks[0].vars.iter();
            let gradients = vars.filter(|var| var.name.contains("@GRAD"));
            let told = |var: &Var| (format!("{:?}", var.value), var.persistable);
            gradients.map(|var| (var.name.clone(), told(var))).collect()
        };
        let (ours, theirs) = (gradients(&ours), gradients(&theirs));
        for (gradient, wanted) in &theirs {
            let found = ours.get(gradient);
            if found != Some(wanted) {
                wrong.push(format!("{name}, {gradient} is {found:?}, expected {wanted:?}"));
            }
        }
        assert_eq!(ours.len(), theirs.len(), "{name}");
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn gradients_end_where_that_is_said() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(3)], DType::Float32);
    let hidden = layers::fc(&mut net, &x, &Fc::new(4)).unwrap();
    let y = layers::fc(&mut net, &hidden, &Fc::new(2)).unwrap();
    let not_one = net.clone().append_backward(&y, &[]).unwrap_err();
    assert!(not_one.to_string().contains("one number"), "{not_one}");
    let loss = layers::mean(&mut net, &y).unwrap();
    let named = |net: &mut Network, no_grad: &[Variable]| -> Vec<String> {
        let pairs = net.append_backward(&loss, no_grad).unwrap();
        pairs.iter().map(|(parameter, _)| parameter.name().to_owned()).collect()
    };
    let all = named(&mut net.clone(), &[]);
    assert_eq!(all, ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]);
    let some = named(&mut net.clone(), std::slice::from_ref(&hidden));
    assert_eq!(some, ["fc_1.w_0", "fc_1.b_0"]);
    let none = net.append_backward(&Variable::named("nothing"), &[]).unwrap_err();
    assert!(none.to_string().contains("`nothing`"), "{none}");
    let pairs = net.append_backward(&loss, &[]).unwrap();
    let (parameter, gradient) = &pairs[0];
    assert_eq!(net.shape(parameter).unwrap(), net.shape(gradient).unwrap());
}
