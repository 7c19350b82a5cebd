//! Glow's operators: every container holds every kind of node, and nodes that Glow would reject are found.
#![expect(clippy::disallowed_methods, reason = "tests write files directly")]

use std::path::{Path, PathBuf};

use lodstone::model::{Dialect, Topology};
use lodstone::verify::{DefectKind, Verification};
use lodstone::{ConvertOptions, Model, OpenOptions, Progress, Target, convert, open, verify};
use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Op, Operand, Program, TensorType, Var,
};
use lodstone_schema::glow::{ElemKind, Member, Node, Storage, node, nodes};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden/glow")
}

fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::String(text.into())
}

/// Adds the type of a value of a node, as its attributes encode it.
fn typed(attributes: &mut Vec<Attribute>, value: &str, kind: ElemKind) {
    attributes.push(attribute(&format!("{value}_elemKind"), text(kind.name())));
    attributes.push(attribute(&format!("{value}_shape"), AttributeValue::Longs(vec![2, 3])));
    if kind.is_quantized() {
        attributes.push(attribute(&format!("{value}_qScale"), AttributeValue::Float(0.1)));
        attributes.push(attribute(&format!("{value}_qOffset"), AttributeValue::Long(-3)));
    }
}

/// Returns a value for a member.
fn value(member: Member) -> AttributeValue {
    match member {
        Member::Float => AttributeValue::Float(f32::NAN),
        Member::Floats => AttributeValue::Floats(vec![0.1, f32::INFINITY]),
        Member::Int(least) => AttributeValue::Long(least.max(-7)),
        Member::Ints(least) => AttributeValue::Longs(vec![least.max(-7), 1 << 20]),
        Member::Code(count) => AttributeValue::Long(count - 1),
        Member::Bool => AttributeValue::Long(1),
        Member::String => text("NCHW"),
        Member::Name(names) => text(names.last().expect("a name")),
        Member::Values => AttributeValue::Strings(vec!["in0".into(), "in1".into()]),
    }
}

/// Returns a model with a single node.
fn model_of(node: &Node, kind: ElemKind) -> Model {
    let mut attributes = Vec::new();
    let mut args: Vec<String> = (0..node.inputs.len()).map(|i| format!("in{i}")).collect();
    for number in 0..args.len() {
        typed(&mut attributes, &format!("i{number}"), kind);
    }
    for number in 0..node.results.len() {
        typed(&mut attributes, &format!("o{number}"), kind);
    }
    for (name, member) in &node.members {
        attributes.push(attribute(name, value(*member)));
        if *member == Member::Values {
            args.extend(["in0".to_owned(), "in1".to_owned()]);
        }
    }
    let result = |number| if number == 0 { "node".to_owned() } else { format!("node:{number}") };
    let results: Vec<String> = (0..node.results.len()).map(result).collect();
    let operand = |args| vec![Operand { slot: String::new(), args }];
    let op = |kind: String, name: &str, inputs, outputs, attributes| Op {
        kind,
        name: name.to_owned(),
        inputs: operand(inputs),
        outputs: operand(outputs),
        attributes,
        ..Op::default()
    };
    // Some nodes have effects, but no results.
    let last = results.first().cloned().unwrap_or_else(|| "in0".to_owned());
    let saved = vec!["out".to_owned()];
    let mut ops = vec![op(format!("Glow_{}", node.kind), "node", args, results, attributes)];
    ops.push(op("Identity".to_owned(), "save", vec![last], saved, Vec::new()));
    let storage = |saves: bool| Storage {
        offline: Some(false),
        trainable: Some(true),
        layout: Some("*".to_owned()),
        kind: Some(kind),
        quantization: kind.is_quantized().then_some((0.1, -3)),
        save_name: saves.then(|| "save".to_owned()),
        ..Storage::default()
    };
    let var = |name: &str, saves| Var {
        name: name.to_owned(),
        value: TensorType::new(kind.dtype(), Some(Vec::new())).into(),
        attributes: vec![attribute("doc_string", text(&storage(saves).to_text(false)))],
        ..Var::default()
    };
    let inputs: Vec<String> = (0..node.inputs.len().max(2)).map(|i| format!("in{i}")).collect();
    let mut vars: Vec<Var> = inputs.iter().map(|name| var(name, false)).collect();
    vars.push(var("out", true));
    let block = Block {
        name: "glow".to_owned(),
        parent: -1,
        vars,
        ops,
        inputs,
        outputs: vec!["out".to_owned()],
        ..Block::default()
    };
    let program = Program::from(Topology {
        version: Some(7),
        operator_versions: vec![(String::new(), 9)],
        attributes: vec![attribute("producer_name", text("GlowONNXModelWriter"))],
        blocks: vec![block],
        ..Topology::new(Dialect::Glow)
    });
    Model { format: "onnx-glow".to_owned(), programs: program.into(), ..Model::default() }
}

fn checked(path: &Path) -> Verification {
    verify(path, &OpenOptions::default(), &Progress::default()).expect("verified")
}

/// Returns the findings for a model after it was written.
fn found(model: &Model) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.onnx");
    let to = Some(Target::Format("onnx-glow".to_owned()));
    convert(model.clone(), &path, &ConvertOptions::default().with_to(to)).expect("written");
    let found = checked(&path);
    assert!(found.findings.iter().all(|defect| defect.kind == DefectKind::Rule));
    found.findings.into_iter().map(|defect| defect.message).collect()
}

#[test]
fn every_container_holds_every_kind_of_node() {
    assert_eq!(nodes().len(), 184);
    let kinds = [ElemKind::Float, ElemKind::Int8Q, ElemKind::Int64I, ElemKind::UInt4FusedQ];
    let dir = tempfile::tempdir().expect("a directory");
    for (node, kind) in nodes().iter().zip(kinds.into_iter().cycle()) {
        let model = model_of(node, kind);
        let said = format!("{:?}", model.main());
        for format in ["onnx-glow", "onnx-glow-text", "onnx-glow-zip"] {
            let path = dir.path().join("m");
            let to = Some(Target::Format(format.to_owned()));
            let options = ConvertOptions::default().with_to(to);
            convert(model.clone(), &path, &options).expect("written");
            let mut again = open(&path).expect("a model");
            assert_eq!(again.format, format);
            // The residual of the original file is not compared.
            again.main_mut().expect("a program").residual.clear();
            for op in
                again.main_mut().into_iter().flat_map(|p| &mut p.blocks).flat_map(|b| &mut b.ops)
            {
                op.residual.clear();
            }
            let again = without_residuals(format!("{:?}", again.main()));
            assert_eq!(again, without_residuals(said.clone()), "{} in {format}", node.kind);
            let verified = checked(&path);
            assert!(verified.whole, "{}: {:?}", node.kind, verified.findings);
        }
    }
}

fn without_residuals(said: String) -> String {
    said.replace("Residual(Some(\"onnx\"))", "Residual(None)")
}

#[test]
fn a_missing_attribute_of_a_node_is_found() {
    for node in nodes() {
        let model = model_of(node, ElemKind::Int8Q);
        for (number, (name, _)) in node.members.iter().enumerate() {
            let mut lacking = model.clone();
            let op = &mut lacking.main_mut().expect("a program").blocks[0].ops[0];
            op.attributes.retain(|attribute| attribute.name != *name);
            let found = found(&lacking);
            let said = format!("expected the attribute `{name}`, found none");
            assert!(found.iter().any(|what| what.contains(&said)), "{}: {found:?}", node.kind);
            // One node of each kind is enough for attributes that all have.
            if number == 0 {
                break;
            }
        }
    }
}

/// A value outside of an enumeration is a finding, and is not lowered as another one.
#[test]
fn values_outside_of_their_sets_are_found() {
    let mut count = 0;
    for node in nodes() {
        for (name, member) in &node.members {
            let bogus = match member {
                Member::Name(_) => text("BOGUS"),
                Member::Code(count) => AttributeValue::Long(*count),
                _ => continue,
            };
            let mut model = model_of(node, ElemKind::Float);
            let op = &mut model.main_mut().expect("a program").blocks[0].ops[0];
            let given = op.attributes.iter_mut().find(|given| given.name == *name);
            given.expect("a member").value = bogus;
            let found = found(&model);
            let names = |finding: &String| finding.contains(&format!("as `{name}`, found"));
            assert!(found.iter().any(names), "{} {name}: {found:?}", node.kind);
            count += 1;
        }
    }
    assert!(count > 20, "{count} members");
}

#[test]
fn nodes_that_glow_would_reject_are_found() {
    let broken = |edit: &dyn Fn(&mut Program)| {
        let mut model = model_of(node("TopK").expect("a kind"), ElemKind::Int8Q);
        edit(model.main_mut().expect("a program"));
        found(&model)
    };
    assert_eq!(broken(&|_| {}), Vec::<String>::new());
    let op = |program: &mut Program, edit: &dyn Fn(&mut Op)| edit(&mut program.blocks[0].ops[0]);
    let without = |name: &'static str| {
        broken(&|program| op(program, &|op| op.attributes.retain(|a| a.name != name)))
    };
    let with = |name: &'static str, value: AttributeValue| {
        broken(&|program| {
            op(program, &|op| {
                op.attributes.retain(|a| a.name != name);
                op.attributes.push(attribute(name, value.clone()));
            })
        })
    };
    // The types of inputs, and of results that follow from them, are optional.
    assert_eq!(without("i0_elemKind"), Vec::<String>::new());
    let cases: Vec<(Vec<String>, &str)> = vec![
        (without("o1_elemKind"), "expected the attribute `o1_elemKind`, found none"),
        (without("o0_shape"), "expected the attribute `o0_shape`, found none"),
        (without("o0_qScale"), "expected the attribute `o0_qScale`, found none"),
        (without("o0_qOffset"), "expected the attribute `o0_qOffset`, found none"),
        (with("o0_elemKind", text("int8")), "expected a type in `o0_elemKind`, found `int8`"),
        (with("o0_shape", AttributeValue::Longs(vec![-1])), "expected dims of at least 0"),
        (with("K", AttributeValue::Long(-1)), "expected at least 0 as `K`, found -1"),
        (with("K", AttributeValue::Float(1.0)), "expected an integer as `K`"),
        (with("Predicate", text("nobody")), "the predicate `nobody` does not exist"),
        (
            broken(&|program| op(program, &|op| op.kind = "Glow_TopL".to_owned())),
            "Glow has no such operator",
        ),
        (
            broken(&|program| op(program, &|op| op.kind = "TopK".to_owned())),
            "Glow has no such operator",
        ),
        (
            broken(&|program| op(program, &|op| op.inputs[0].args[0] = "nobody".to_owned())),
            "value `nobody` does not exist",
        ),
        (
            broken(&|program| op(program, &|op| op.inputs[0].args.clear())),
            "expected 1 inputs, found 0",
        ),
        (
            broken(&|program| op(program, &|op| drop(op.outputs[0].args.pop()))),
            "expected 2 outputs, found 1",
        ),
        (
            broken(&|program| program.version = Some(2)),
            "expected an IR version of at least 3, found 2",
        ),
        (
            broken(&|program| program.operator_versions.clear()),
            "expected a version of the ONNX opset, found none",
        ),
    ];
    for (number, (found, expected)) in cases.iter().enumerate() {
        assert!(found.iter().any(|what| what.contains(expected)), "{number}: {found:?}");
    }
    let doc = |program: &mut Program, var: usize, doc: &str| {
        let value = AttributeValue::String(ByteString::from(doc));
        program.blocks[0].vars[var].attributes = vec![attribute("doc_string", value)];
    };
    let whole = "$offline:0$trainable:0$layout:*$elemKind:float";
    // The order is arbitrary, and the spelling is that of Glow's documentation.
    for said in [
        whole,
        "$ElemKind:float$layout:*$trainable:0$offline:1",
        "$x:y$offline:0$trainable:0$layout:NHWC$elemKind:bool",
    ] {
        assert_eq!(broken(&|program| doc(program, 0, said)), Vec::<String>::new(), "{said}");
    }
    for key in ["offline", "trainable", "layout", "elemKind"] {
        let lacking: String = whole
            .split('$')
            .skip(1)
            .filter(|pair| !pair.starts_with(key))
            .map(|pair| format!("${pair}"))
            .collect();
        let found = broken(&|program| doc(program, 0, &lacking));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(&format!("expected `${key}`")), "{found:?}");
    }
    let found = broken(&|program| doc(program, 0, "$offline:0$trainable:0$layout:*$elemKind:i8"));
    assert!(found[0].contains("expected `$qScale`"), "{found:?}");
}

#[test]
fn partitions_are_read() {
    let path = golden().join("dag.onnx");
    assert!(checked(&path).whole);
    let model = open(&path).expect("a model");
    for key in model.metadata.keys().filter(|key| key.starts_with("partition_")) {
        let mut lacking = model.clone();
        lacking.metadata.remove(key);
        // Glow's reader ignores the sizes.
        assert_eq!(found(&lacking).is_empty(), key.ends_with("_size"), "{key}");
    }
    let mut lacking = model;
    lacking.metadata.insert("numPartitions".to_owned(), "3".to_owned());
    assert!(found(&lacking)[0].contains("partition_2_name"));
}

#[test]
fn programs_of_glow_have_no_findings() {
    for entry in std::fs::read_dir(golden()).expect("golden files") {
        let path = entry.expect("an entry").path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending.is_some_and(|ending| ["onnx", "onnxtxt", "zip"].contains(&ending))
            && open(&path).expect("a model").format.starts_with("onnx-glow")
        {
            let verified = checked(&path);
            assert!(verified.whole, "{}: {:?}", path.display(), verified.findings);
        }
    }
    assert_eq!(ElemKind::from_name("i32").map(ElemKind::dtype), Some(DType::Int32));
}

/// The members and dims of these nodes are meaningless.
#[test]
fn every_kind_is_lowered_to_onnx_or_rejected_with_its_location() {
    let scratch = tempfile::tempdir().expect("a directory");
    let out = scratch.path().join("model.onnx");
    let options = ConvertOptions::default()
        .with_to(Some(Target::Format("onnx".to_owned())))
        .with_allow(lodstone::Loss::ALL.to_vec());
    let (mut said, mut refused) = (0, 0);
    for node in nodes() {
        for kind in [ElemKind::Float, ElemKind::Int8Q, ElemKind::Int64I, ElemKind::UInt8FusedQ] {
            match convert(model_of(node, kind), &out, &options) {
                Ok(_) => said += 1,
                Err(lodstone::Error::Lower(error)) => {
                    let told = error.to_string();
                    let place = format!("operator 0 (`Glow_{}` `node`)", node.kind);
                    assert!(told.contains(&place) || told.contains("the graph: "), "{told}");
                    refused += 1;
                }
                Err(error) => panic!("{}: {error}", node.kind),
            }
        }
    }
    assert!(said > 40 && refused > 400, "{said} said, {refused} refused");
}
