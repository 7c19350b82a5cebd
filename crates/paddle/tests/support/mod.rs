//! Compares our programs with recordings of PaddlePaddle's.

use std::collections::HashMap;

use lodstone_model::{
    AttributeValue, Block, DType, Dim, Op, Operand, Program, Tensor, ValueType, Var,
};
use lodstone_paddle::program::{Network, Variable};
use lodstone_schema::paddle::{attributes, codes, need_check_feed, stop_gradient};
use lodstone_store::Blob;
use serde_json::{Value, json};

/// Slots whose variables PaddlePaddle writes in the order of a set.
const UNORDERED: &[(&str, &[&str])] =
    &[("while", &["X", "Out"]), ("conditional_block", &["Input", "Out"])];

/// A `float32` tensor.
pub(crate) fn singles(shape: &[u64], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::dense(DType::Float32, shape.to_vec(), Blob::memory(bytes))
}

/// Reads the recordings of a script, by case.
#[expect(clippy::disallowed_methods, reason = "reads golden files directly")]
pub(crate) fn recorded(file: &str) -> serde_json::Map<String, Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    serde_json::from_slice(&std::fs::read(format!("{path}/{file}")).unwrap()).unwrap()
}

/// Returns the differences between our programs and those of a case.
pub(crate) fn compare(net: &Network, made: &[Variable], recorded: &Value) -> Vec<String> {
    let mut comparison = Comparison::default();
    let gives = recorded["gives"].as_array().unwrap();
    assert_eq!(made.len(), gives.len());
    for (ours, theirs) in made.iter().zip(gives) {
        comparison.pair("gives", ours.name(), theirs.as_str().unwrap());
    }
    comparison.programs(&net.main, &recorded["main"]);
    comparison.programs(&net.startup, &recorded["startup"]);
    comparison.differences
}

/// The mapping from our names to PaddlePaddle's, and all differences.
#[derive(Debug, Default)]
struct Comparison {
    names: HashMap<String, String>,
    taken: HashMap<String, String>,
    differences: Vec<String>,
}

impl Comparison {
    fn differs(&mut self, what: String) {
        self.differences.push(what);
    }

    /// Records that two names stand for the same variable.
    fn pair(&mut self, at: &str, ours: &str, theirs: &str) {
        let known = self.names.entry(ours.to_owned()).or_insert_with(|| theirs.to_owned()).clone();
        let taken = self.taken.entry(theirs.to_owned()).or_insert_with(|| ours.to_owned()).clone();
        if known != theirs || taken != ours {
            self.differs(format!("{at}: `{ours}` is `{known}`, and `{theirs}` is `{taken}`"));
        }
    }

    /// Compares blocks, operators and variables.
    fn programs(&mut self, ours: &Program, theirs: &Value) {
        let blocks = theirs.as_array().unwrap();
        if ours.blocks.len() != blocks.len() {
            self.differs(format!("{} blocks, expected {}", ours.blocks.len(), blocks.len()));
            return;
        }
        for (ours, theirs) in ours.blocks.iter().zip(blocks) {
            if i64::from(ours.parent) != theirs["parent"].as_i64().unwrap() {
                self.differs(format!("block {} lies in {}", ours.index, ours.parent));
            }
        }
        self.block(ours, blocks, 0);
        for (ours, theirs) in ours.blocks.iter().zip(blocks) {
            self.vars(ours, theirs);
        }
    }

    fn block(&mut self, ours: &Program, blocks: &[Value], number: usize) {
        let (block, theirs) = (&ours.blocks[number], blocks[number]["ops"].as_array().unwrap());
        let kinds: Vec<&str> = block.ops.iter().map(|op| op.kind.as_str()).collect();
        let expected: Vec<&str> = theirs.iter().map(|op| op["kind"].as_str().unwrap()).collect();
        if kinds != expected {
            self.differs(format!("block {number} has {kinds:?}, expected {expected:?}"));
            return;
        }
        for (at, (op, theirs)) in block.ops.iter().zip(theirs).enumerate() {
            let at = format!("{} ({number}.{at})", op.kind);
            // Names in the block are paired first, since the slots of its operator are sets.
            for inner in op.blocks() {
                self.block(ours, blocks, usize::try_from(inner).unwrap());
            }
            self.slots(&at, op, &op.inputs, &theirs["inputs"]);
            self.slots(&at, op, &op.outputs, &theirs["outputs"]);
            self.attributes(&at, op, &theirs["attributes"]);
        }
    }

    fn slots(&mut self, at: &str, op: &Op, ours: &[Operand], theirs: &Value) {
        let mut slots: Vec<&str> = Vec::new();
        slots.extend(ours.iter().filter(|slot| !slot.args.is_empty()).map(|s| s.slot.as_str()));
        slots.sort_unstable();
        let expected: Vec<&str> = theirs.as_object().unwrap().keys().map(String::as_str).collect();
        if slots != expected {
            self.differs(format!("{at} has the slots {slots:?}, expected {expected:?}"));
            return;
        }
        for slot in ours.iter().filter(|slot| !slot.args.is_empty()) {
            let theirs = theirs[&slot.slot].as_array().unwrap();
            let theirs: Vec<&str> = theirs.iter().map(|name| name.as_str().unwrap()).collect();
            let unordered = UNORDERED
                .iter()
                .any(|(kind, slots)| *kind == op.kind && slots.contains(&slot.slot.as_str()));
            if slot.args.len() != theirs.len() {
                self.differs(format!("{at}.{}: {:?}, expected {theirs:?}", slot.slot, slot.args));
            } else if unordered {
                let known = slot.args.iter().map(|name| self.names.get(name).cloned());
                let mut known: Vec<String> = known.map(Option::unwrap_or_default).collect();
                let mut theirs: Vec<&str> = theirs;
                known.sort_unstable();
                theirs.sort_unstable();
                if known != theirs {
                    self.differs(format!("{at}.{}: {known:?}, expected {theirs:?}", slot.slot));
                }
            } else {
                for (ours, theirs) in slot.args.iter().zip(theirs) {
                    self.pair(at, ours, theirs);
                }
            }
        }
    }

    /// PaddlePaddle omits attributes that only some devices need; ours then have the default.
    fn attributes(&mut self, at: &str, op: &Op, theirs: &Value) {
        let theirs = theirs.as_object().unwrap();
        for (name, expected) in theirs {
            match op.attribute(name).map(told) {
                Some(found) if is_same(&found, expected) => {}
                found => {
                    self.differs(format!("{at}.{name} is {found:?}, expected {expected}"));
                }
            }
        }
        for attribute in &op.attributes {
            let default = attributes(&op.kind).find(|known| known.name == attribute.name);
            let is_default = default.and_then(|d| d.default.as_ref()) == Some(&attribute.value);
            if !theirs.contains_key(&attribute.name) && !is_default {
                self.differs(format!("{at}.{} is {:?}", attribute.name, attribute.value));
            }
        }
    }

    fn vars(&mut self, ours: &Block, theirs: &Value) {
        let theirs = theirs["vars"].as_array().unwrap();
        for expected in theirs {
            let name = expected["name"].as_str().unwrap();
            let known = self.taken.get(name).cloned().unwrap_or_else(|| name.to_owned());
            match ours.vars.iter().find(|var| var.name == known) {
                Some(var) => self.var(var, expected),
                None => self.differs(format!("block {} does not declare `{name}`", ours.index)),
            }
        }
        if ours.vars.len() != theirs.len() {
            let (found, expected) = (ours.vars.len(), theirs.len());
            self.differs(format!("block {} has {found} variables, not {expected}", ours.index));
        }
    }

    fn var(&mut self, ours: &Var, theirs: &Value) {
        let mut facts = json!({
            "name": theirs["name"],
            "kind": codes::kind_code(&ours.value),
        });
        if matches!(ours.value, ValueType::Tensor(_)) || ours.value.is_array() {
            let tensor = ours.value.tensor_type().unwrap();
            let dim = |dim: &Dim| match dim {
                Dim::Known(size) => i64::try_from(*size).unwrap(),
                _ => -1,
            };
            let shape: Option<Vec<i64>> =
                tensor.shape.as_ref().map(|dims| dims.iter().map(dim).collect());
            facts["dtype"] = json!(codes::dtype_code(tensor.dtype));
            facts["shape"] = json!(shape);
            facts["lod_level"] = json!(tensor.lod_level);
        }
        let flags = [
            ("persistable", ours.persistable),
            ("parameter", ours.is_parameter),
            ("stop_gradient", stop_gradient(ours)),
            ("checked", need_check_feed(ours)),
        ];
        let flags = flags.iter().filter(|(_, is)| *is).map(|(name, _)| *name);
        facts["flags"] = json!(flags.collect::<Vec<_>>());
        if facts != *theirs {
            self.differs(format!("`{}` is {facts}, expected {theirs}", ours.name));
        }
    }
}

/// Whether two values are equal; `float32` values may be written with different digits.
#[expect(clippy::cast_possible_truncation, reason = "the values are float32")]
fn is_same(found: &Value, expected: &Value) -> bool {
    let single = |value: &Value| value[1].as_f64().map(|value| value as f32);
    let floats = found[0] == "FLOAT" && expected[0] == "FLOAT";
    found == expected || (floats && single(found) == single(expected))
}

/// Returns a value in the format of the script: its type, and its contents.
fn told(value: &AttributeValue) -> Value {
    use AttributeValue as A;
    match value {
        A::Bool(value) => json!(["BOOL", value]),
        A::Int(value) => json!(["INT", value]),
        A::Long(value) => json!(["LONG", value]),
        A::Float(value) => json!(["FLOAT", f64::from(*value)]),
        A::Double(value) => json!(["FLOAT64", value]),
        A::String(value) => json!(["STRING", value.to_string()]),
        A::Strings(values) => {
            json!(["STRINGS", values.iter().map(ToString::to_string).collect::<Vec<_>>()])
        }
        A::Ints(values) => json!(["INTS", values]),
        A::Longs(values) => json!(["LONGS", values]),
        A::Floats(values) => {
            json!(["FLOATS", values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>()])
        }
        A::Doubles(values) => json!(["FLOAT64S", values]),
        A::Block(number) => json!(["BLOCK", number]),
        other => json!(["?", format!("{other:?}")]),
    }
}
