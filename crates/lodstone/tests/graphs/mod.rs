//! Comparison of Glow programs up to the names of nodes: saved values, by their computation.

use std::collections::{BTreeMap, HashMap};

use lodstone::Model;
use lodstone_model::Op;
use lodstone_schema::glow;

/// Returns a name without the number that makes it unique.
fn stem(name: &str) -> &str {
    match name.rsplit_once("__") {
        Some((stem, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}

pub(crate) fn of_type(op: &Op, value: &str) -> String {
    let known = glow::Type::of(op, value).unwrap();
    format!("{}{:?}{:?}", known.kind.name(), known.shape, known.quantization)
}

/// Returns the computation of each saved value, by the name of its placeholder: equal computations have equal numbers.
pub(crate) fn ways(
    model: &Model,
    known: &mut HashMap<String, usize>,
) -> BTreeMap<String, (String, usize)> {
    let program = model.main().unwrap();
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
        let doc = match &tensor.doc_string {
            Some(text) => glow::Storage::parse(&text.to_string()).unwrap(),
            None => glow::Storage::default(),
        };
        // The labels of a softmax, which it ignores: Glow never sets them.
        let is_set = !parameter.name.starts_with("selected");
        let bytes = is_set.then(|| tensor.data.bytes().unwrap());
        values.insert(
            parameter.name.clone(),
            number(format!("constant {doc:?} {:?} {bytes:?}", tensor.shape)),
        );
    }
    let mut saved = BTreeMap::new();
    for op in &main.ops {
        let inputs = op.input("").iter().filter(|name| !name.is_empty());
        // Constants that a file omits are identified by name.
        let inputs: Vec<usize> = inputs
            .map(|name| match values.get(name) {
                Some(value) => *value,
                None => number(format!("absent {name}")),
            })
            .collect();
        if op.kind == glow::SAVE {
            let name = op.output("")[0].clone();
            saved.insert(stem(&name).to_owned(), (of_type(op, "o1"), inputs[0]));
            continue;
        }
        let kind = op.kind.strip_prefix("Glow_").and_then(glow::node);
        // Other attributes only describe the origin of the program.
        let Some(kind) = kind else { continue };
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
