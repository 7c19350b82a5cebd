//! Programs of ONNX in Glow's operators, beside what Glow itself made of the same models.
//!
//! Graphs are compared up to the names of nodes: what is saved is compared by how it is computed. The
//! models and what Glow wrote of them are in `golden/glow_loaded`; with `LODSTONE_CASES` all of those in
//! `DIR/glow` are tried, too.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]
#![expect(clippy::print_stdout, reason = "says what was tried")]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use lodstone::{ConvertOptions, Loss, Model, Target, convert, open};
use lodstone_model::{Dialect, Op};
use lodstone_schema::glow;

/// Models that are refused, with words of the reason.
const REFUSED: &[(&str, &str)] = &[
    // They read what they do not declare; Glow's tests gave the type to its loader.
    ("ArgMaxKeepDim", "there is no value `input`"),
    ("ArgMaxNoKeepDim", "there is no value `input`"),
    ("ArgMinDefault", "there is no value `input`"),
    ("ArgMinKeepDim", "there is no value `input`"),
    ("ArgMinNoKeepDim", "there is no value `input`"),
    ("sparseLengthsSum", "there is no value `data`"),
    // Glow collects a row of zeros that ONNX does not have.
    ("loop_no_iteration", "a loop without a turn collects nothing"),
    // What that means ONNX leaves open; in Glow the last one counts.
    ("sliceAxesOverwrite", "expected each axis once"),
];

/// Models that become another graph than Glow's, and how it differs.
const OTHERS: &[(&str, &str)] = &[
    ("MatMul4D", "Glow computed the product of constants"),
    ("castToFloat", "Glow's test gave its loader another type of the input"),
    ("constRelu", "Glow computed what constants become"),
    ("cumsum", "Glow's test gave its loader another type of the input"),
    ("upsampleOpset7", "Glow brings channels to the end, which the node does not ask for"),
    ("upsampleOpset9", "Glow brings channels to the end, which the node does not ask for"),
];

/// Converts a file and opens what was written.
fn converted(source: &Path, dir: &Path, format: &str) -> Result<Model, String> {
    let model = open(source).map_err(|error| error.to_string())?;
    let out = dir.join("out.onnx");
    let options = ConvertOptions {
        to: Some(Target::Format(format.to_owned())),
        allow: vec![Loss::Metadata],
        ..ConvertOptions::default()
    };
    convert(model, &out, &options).map_err(|error| error.to_string())?;
    open(&out).map_err(|error| error.to_string())
}

/// A name without the number that makes it unique.
fn stem(name: &str) -> &str {
    match name.rsplit_once("__") {
        Some((stem, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}

fn of_type(op: &Op, value: &str) -> String {
    let known = glow::Type::of(op, value).unwrap();
    format!("{}{:?}{:?}", known.kind.name(), known.shape, known.quantization)
}

/// What each saved value is computed by, by the name of its placeholder: a number for each way.
fn ways(model: &Model, known: &mut HashMap<String, usize>) -> BTreeMap<String, (String, usize)> {
    let program = model.program.as_ref().unwrap();
    let main = &program.blocks[0];
    let mut number = |way: String| {
        let next = known.len();
        *known.entry(way).or_insert(next)
    };
    let mut values: HashMap<String, usize> = HashMap::new();
    for name in &main.inputs {
        let var = main.vars.iter().find(|var| var.name == *name).unwrap();
        values.insert(name.clone(), number(format!("placeholder {name} {:?}", var.value)));
    }
    for parameter in &model.parameters {
        let tensor = &parameter.tensor;
        let doc = tensor.attributes.iter().find(|a| a.name == "doc_string").unwrap();
        // Classes of a softmax, which it does not look at: Glow never sets them.
        let is_set = !parameter.name.starts_with("selected");
        let bytes = is_set.then(|| tensor.data.bytes().unwrap());
        values.insert(
            parameter.name.clone(),
            number(format!("constant {doc:?} {:?} {bytes:?}", tensor.shape)),
        );
    }
    let mut saved = BTreeMap::new();
    for op in &main.ops {
        let inputs: Vec<usize> = op.input("").iter().map(|name| values[name]).collect();
        if op.kind == glow::SAVE {
            let name = op.output("")[0].clone();
            saved.insert(stem(&name).to_owned(), (of_type(op, "o1"), inputs[0]));
            continue;
        }
        let kind = glow::node(op.kind.strip_prefix("Glow_").unwrap()).unwrap();
        let mut way = format!("{} {inputs:?}", op.kind);
        for (member, class) in &kind.members {
            if *class != glow::Member::Values {
                way += &format!(" {member}={:?}", op.attribute(member));
            }
        }
        for index in 0..op.output("").len() {
            way += &format!(" {}", of_type(op, &format!("o{index}")));
        }
        for (index, name) in op.output("").iter().enumerate() {
            values.insert(name.clone(), number(format!("{way} result {index}")));
        }
    }
    saved
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden/glow_loaded")
}

/// Models with what Glow wrote of them, by name.
fn cases() -> Vec<(String, PathBuf, PathBuf)> {
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(name) = file.strip_suffix(".glow.onnxtxt") {
            cases.push((name.to_owned(), golden().join(format!("{name}.onnxtxt")), path));
        }
    }
    match std::env::var_os("LODSTONE_CASES").map(PathBuf::from) {
        None => println!("LODSTONE_CASES is not set: only the golden files were tried"),
        Some(all) => {
            let glow = all.join("glow");
            for entry in std::fs::read_dir(glow.join("models/onnxModels")).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                let theirs = glow.join(format!("golden/onnx__{name}.glowcustom.onnxtxt"));
                let is_onnx = |model: Model| model.program.unwrap().dialect == Dialect::Onnx;
                if theirs.is_file()
                    && is_onnx(open(&path).unwrap())
                    && !cases.iter().any(|(known, ..)| *known == name)
                {
                    cases.push((name, path, theirs));
                }
            }
        }
    }
    cases.sort();
    cases
}

#[test]
fn a_program_of_onnx_becomes_the_graph_that_glow_makes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut equal, mut wrong) = (0, Vec::new());
    let mut others = Vec::new();
    let mut refused = Vec::new();
    for (name, source, theirs) in cases() {
        let expected_refusal = REFUSED.iter().find(|(known, _)| *known == name);
        let ours = match (converted(&source, dir.path(), "onnx-glow"), expected_refusal) {
            (Ok(ours), None) => ours,
            (Ok(_), Some(_)) => {
                wrong.push(format!("{name}: is no longer refused"));
                continue;
            }
            (Err(error), Some((_, words))) if error.contains(words) => {
                refused.push(name);
                continue;
            }
            (Err(error), _) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let findings = glow::check(&ours);
        if !findings.is_empty() {
            wrong.push(format!("{name}: {findings:?}"));
        }
        let mut known = HashMap::new();
        let (ours, theirs) = (ways(&ours, &mut known), ways(&open(theirs).unwrap(), &mut known));
        let is_other = OTHERS.iter().any(|(known, _)| *known == name);
        match (ours == theirs, is_other) {
            (true, false) => equal += 1,
            (false, true) => others.push(name),
            (true, true) => wrong.push(format!("{name}: is Glow's graph now")),
            (false, false) => wrong.push(format!("{name}: is another graph than Glow's")),
        }
    }
    println!("{equal} equal, {} other graphs, {} refused", others.len(), refused.len());
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}
