//! Gradients are appended as PaddlePaddle 2.6.2 appends them (`golden/make_paddle_backward.py`): the same operators,
//! slots, variables and attributes in the same order.

#![expect(clippy::disallowed_methods, reason = "reads golden files directly")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::path::Path;

use lodstone_formats::paddle::program;
use lodstone_model::{AttributeValue, Block, DType, Limits, Op, Operand, Program, Var};
use lodstone_paddle::program::layers::{self, Fc};
use lodstone_paddle::program::{Network, Variable, append_backward};
use lodstone_schema::paddle::{attribute, forward_block};
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
        (name.clone(), program::read(&blob, &name, &Limits::default()).unwrap())
    };
    files.into_iter().map(read).collect()
}

fn role(op: &Op) -> i32 {
    match attribute(op, "op_role") {
        Some(AttributeValue::Int(role)) => *role,
        _ => 0,
    }
}

/// Returns the program before gradients were appended, and its loss.
fn forward(program: &Program) -> (Program, Variable) {
    let mut forward = program.clone();
    forward.blocks.retain(|block| forward_block(block).is_none_or(|forward| forward < 0));
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

/// Returns the slots that have variables.
fn slots(op: &Op, operands: &[Operand]) -> BTreeMap<String, Vec<String>> {
    let filled = operands.iter().filter(|operand| !operand.args.is_empty());
    let slot = |operand: &Operand| {
        let mut args = operand.args.clone();
        if op.kind == "while_grad" && operand.slot == "Out@GRAD" {
            // PaddlePaddle has them in arbitrary order.
            args.sort();
        }
        (operand.slot.clone(), args)
    };
    filled.map(slot).collect()
}

/// Returns an attribute, normalized for comparison.
fn value(op: &Op, name: &str) -> Option<AttributeValue> {
    let mut value = attribute(op, name).cloned();
    if let Some(AttributeValue::Strings(names)) = &mut value {
        match name {
            "original_output_grad" => names.sort_by_key(ToString::to_string),
            // A parameter and its gradient; the file does not have the order in which parameters were created.
            "op_role_var" => names.as_chunks_mut::<2>().0.sort_by_key(|pair| pair[0].to_string()),
            _ => {}
        }
    }
    value
}

fn differences(ours: &Op, theirs: &Op) -> Vec<String> {
    let (mut differences, op) = (Vec::new(), ours);
    for (ours, theirs) in [(&ours.inputs, &theirs.inputs), (&ours.outputs, &theirs.outputs)] {
        let (found, wanted) = (slots(op, ours), slots(op, theirs));
        if found != wanted {
            differences.push(format!("{found:?}, expected {wanted:?}"));
        }
    }
    let names = ours.attributes.iter().chain(&theirs.attributes).map(|it| it.name.as_str());
    // These attributes depend on how PaddlePaddle was configured when it built the program.
    let names = names.filter(|name| !["use_mkldnn", "use_quantizer"].contains(name));
    for name in names {
        let (found, wanted) = (value(ours, name), value(theirs, name));
        if found != wanted {
            differences.push(format!("{name} is {found:?}, expected {wanted:?}"));
        }
    }
    differences
}

/// Whether a branch has its own variable of this name: PaddlePaddle uses that of the outer loop, and loses its gradient.
fn is_of_branch(name: &str) -> bool {
    name == "fc_0.tmp_1@GRAD"
}

fn block_differences(ours: &Block, theirs: &Block) -> Vec<String> {
    let mut wrong = Vec::new();
    let place =
        |block: &Block| (block.parent, forward_block(block).filter(|forward| *forward >= 0));
    if place(ours) != place(theirs) {
        wrong.push(format!("is in {:?}, expected {:?}", place(ours), place(theirs)));
    }
    let kinds =
        |block: &Block| -> Vec<String> { block.ops.iter().map(|op| op.kind.clone()).collect() };
    if kinds(ours) != kinds(theirs) {
        wrong.push(format!("{:?}, expected {:?}", kinds(ours), kinds(theirs)));
    }
    for (number, (ours, theirs)) in ours.ops.iter().zip(&theirs.ops).enumerate() {
        let differences = differences(ours, theirs);
        wrong.extend(differences.iter().map(|what| format!("{number}, {}: {what}", ours.kind)));
    }
    let gradients = |block: &Block| -> BTreeMap<String, (String, bool)> {
        let gradients = block.vars.iter().filter(|var| var.name.contains("@GRAD"));
        let told = |var: &Var| (format!("{:?}", var.value), var.persistable);
        gradients.map(|var| (var.name.clone(), told(var))).collect()
    };
    let (mut ours, theirs) = (gradients(ours), gradients(theirs));
    ours.retain(|name, _| theirs.contains_key(name) || !is_of_branch(name));
    for gradient in ours.keys().chain(theirs.keys()) {
        let (found, wanted) = (ours.get(gradient), theirs.get(gradient));
        if found != wanted {
            wrong.push(format!("{gradient} is {found:?}, expected {wanted:?}"));
        }
    }
    wrong
}

#[test]
fn operators_are_those_of_paddlepaddle() {
    let programs = programs();
    assert_eq!(programs.len(), 15);
    let mut wrong = Vec::new();
    for (name, theirs) in programs {
        let (mut ours, loss) = forward(&theirs);
        let pairs = append_backward(&mut ours, &loss, &[]).unwrap();
        assert!(!pairs.is_empty(), "{name}");
        assert_eq!(ours.blocks.len(), theirs.blocks.len(), "{name}");
        for (number, (ours, theirs)) in ours.blocks.iter().zip(&theirs.blocks).enumerate() {
            wrong.extend(
                block_differences(ours, theirs).iter().map(|it| format!("{name}, {number}: {it}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn gradients_stop_where_declared() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(3)], DType::Float32);
    let hidden = layers::fc(&mut net, &x, &Fc::new(4)).unwrap();
    let y = layers::fc(&mut net, &hidden, &Fc::new(2)).unwrap();
    let not_one = net.clone().append_backward(&y, &[]).unwrap_err();
    assert!(not_one.to_string().contains("a single number"), "{not_one}");
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

#[test]
fn a_second_pass_names_its_gradients_as_paddlepaddle_does() {
    let mut net = Network::new();
    let x = layers::data(&mut net, "x", &[None, Some(3)], DType::Float32);
    let y = layers::fc(&mut net, &x, &Fc::new(2)).unwrap();
    let (first, second) = (layers::square(&mut net, &y).unwrap(), y.clone());
    let losses = [first, second].map(|value| layers::mean(&mut net, &value).unwrap());
    let [one, two] = losses.map(|loss| {
        let pairs = net.append_backward(&loss, &[]).unwrap();
        pairs.iter().map(|(_, gradient)| gradient.name().to_owned()).collect::<Vec<_>>()
    });
    assert_eq!(one, ["fc_0.w_0@GRAD", "fc_0.b_0@GRAD"]);
    assert_eq!(two, ["grad/grad/fc_0.w_0@GRAD", "grad/grad/fc_0.b_0@GRAD"]);
    let writes = |kind: &str| -> Vec<String> {
        let ops = net.main.blocks[0].ops.iter().filter(|op| op.kind == kind);
        ops.flat_map(|op| op.writes().map(str::to_owned)).collect()
    };
    assert_eq!(writes("mul_grad"), ["fc_0.w_0@GRAD", "grad/grad/fc_0.w_0@GRAD"]);
    // The second loss is new, so that its own gradient needs no other name.
    assert_eq!(writes("reduce_mean_grad"), ["square_0.tmp_0@GRAD", "grad/grad/fc_0.tmp_1@GRAD"]);
    assert!(net.main.vars().all(|var| !var.name.contains('\u{0}')));
}
