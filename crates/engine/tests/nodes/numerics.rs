//! Results have the recorded bits for the vector level of this processor, as long as `NUMERICS` does not change.
//!
//! `golden/numerics/ARCH-LEVEL.txt` has the version and a checksum for each case. After a deliberate change of bits,
//! raise `NUMERICS` and rewrite all of them with `LODSTONE_REWRITE_EXPECTED=1`: here, and for lower levels on such a
//! processor or under `qemu-x86_64 -cpu Haswell` and `-cpu Nehalem`. Levels that are not recorded are only computed
//! twice.

#![expect(clippy::disallowed_methods, reason = "reads and rewrites what is expected")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use lodstone_engine::{NUMERICS, Value, cpu_level};
use lodstone_model::{
    AttributeValue, Block, DType, Dialect, Op, Operand, Parameter, Program, Tensor, Topology,
};
use lodstone_schema::onnx::{newest_opset, operators};
use lodstone_store::{Blob, checksum};

use super::{Mode, Way, cases, compute, golden, is_computed, open, run_op, run_with};

fn path() -> PathBuf {
    let name = format!("tests/golden/numerics/{}-{}.txt", std::env::consts::ARCH, cpu_level());
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns a tensor with numbers of both signs.
fn singles(shape: &[u64], seed: u64) -> Tensor {
    let count = shape.iter().product::<u64>();
    let number = |place: u64| (place + seed).wrapping_mul(6_364_136_223_846_793_005) >> 40;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let bytes: Vec<u8> = (0..count)
        .flat_map(|place| ((number(place) % 2001) as f32 / 500.0 - 2.0).to_le_bytes())
        .collect();
    Tensor::dense(DType::Float32, shape.to_vec(), Blob::memory(bytes))
}

fn digest(made: &[Tensor]) -> String {
    let mut bytes = Vec::new();
    for tensor in made {
        bytes.extend_from_slice(format!("{}{:?}", tensor.dtype, tensor.shape).as_bytes());
        // All NaNs are equal: their bits depend on the processor.
        let data = tensor.data.bytes().expect("read");
        match tensor.dtype {
            DType::Float32 => bytes.extend(data.chunks_exact(4).flat_map(|it| {
                let value = f32::from_le_bytes(it.try_into().expect("four bytes"));
                if value.is_nan() { f32::NAN.to_le_bytes() } else { value.to_le_bytes() }
            })),
            _ => bytes.extend_from_slice(&data),
        }
    }
    format!("{:016x}", checksum(&bytes))
}

/// Returns the digest of each case: the node tests, and kernels with long sums.
fn computed() -> BTreeMap<String, String> {
    let newest = newest_opset("").expect("known");
    let mut digests = BTreeMap::new();
    for name in cases(&golden()) {
        let model = open(&golden().join(format!("{name}.onnx")));
        let made = compute(model, Way { mode: Mode::Fast, constants: false });
        let tensors =
            |made: Vec<Value>| made.iter().map(Value::tensor).collect::<Result<Vec<_>, _>>();
        if let Ok(made) = made.and_then(|(_, made)| tensors(made)) {
            digests.insert(name, digest(&made));
        }
    }
    let mut add = |name: &str, op: &Op, inputs: &[Tensor]| {
        let inputs: Vec<Option<Tensor>> = inputs.iter().cloned().map(Some).collect();
        if let Ok(made) = run_op(op, newest, &inputs, Mode::Fast) {
            digests.insert(name.to_owned(), digest(&made));
        }
    };
    // It has to be given.
    let size =
        lodstone_model::Attribute { name: "size".to_owned(), value: AttributeValue::Long(1) };
    let op = |kind: &str| {
        let attributes = if kind == "LRN" { vec![size.clone()] } else { Vec::new() };
        Op { kind: kind.to_owned(), attributes, ..Op::default() }
    };
    for kind in operators().filter(|it| it.domain == "ai.onnx").map(|it| it.kind) {
        // The caller provides random numbers.
        if is_computed("", kind) {
            add(&format!("{kind} of 1000"), &op(kind), &[singles(&[1000], 1)]);
            add(&format!("{kind} of 40 x 50"), &op(kind), &[singles(&[40, 50], 2)]);
            let pair = [singles(&[40, 50], 3), singles(&[40, 50], 4)];
            add(&format!("{kind} of two"), &op(kind), &pair);
        }
    }
    let matrices = [singles(&[96, 80], 5), singles(&[80, 64], 6)];
    add("MatMul of 96 x 80 x 64", &op("MatMul"), &matrices);
    let image = [singles(&[1, 8, 20, 20], 7), singles(&[16, 8, 3, 3], 8)];
    add("Conv of 8 x 20 x 20", &op("Conv"), &image);
    let mut pool = op("AveragePool");
    let attribute = |name: &str, values: &[i64]| lodstone_model::Attribute {
        name: name.to_owned(),
        value: AttributeValue::Longs(values.to_vec()),
    };
    pool.attributes = vec![attribute("kernel_shape", &[3, 3])];
    add("AveragePool of 8 x 20 x 20", &pool, &image[..1]);
    // With filters that are inputs of a program, as in training.
    for (kind, x, filter) in [
        ("Conv", [2, 8, 20, 20], [16, 8, 3, 3]),
        ("Conv", [6, 4, 14, 14], [5, 4, 10, 10]),
        ("ConvTranspose", [4, 16, 10, 10], [16, 6, 5, 5]),
    ] {
        let name = format!("{kind} of {x:?} with a computed filter");
        let made = convolved(kind, singles(&x, 9), singles(&filter, 10), false);
        digests.insert(name, digest(&[made.tensor().expect("a tensor")]));
    }
    // With filters that are packed once.
    for (x, filter) in [
        ([2, 32, 14, 15], [40, 32, 3, 3]),
        ([1, 300, 5, 7], [97, 300, 3, 3]),
        ([1, 40, 9, 9], [33, 40, 2, 3]),
    ] {
        let made = convolved("Conv", singles(&x, 11), singles(&filter, 12), true);
        let name = format!("Conv of {x:?} with {filter:?}");
        digests.insert(name, digest(&[made.tensor().expect("a tensor")]));
    }
    digests
}

/// Returns the result of a convolution of an input with another one, or with a constant.
fn convolved(kind: &str, x: Tensor, filter: Tensor, is_constant: bool) -> Value {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let operand = |args: &[&str]| vec![Operand { slot: String::new(), args: names(args) }];
    let (inputs, outputs) = (operand(&["x", "filter"]), operand(&["y"]));
    let op = Op { kind: kind.to_owned(), inputs, outputs, ..Op::default() };
    let (inputs, outputs) = (names(&["x", "filter"]), names(&["y"]));
    let block = Block { ops: vec![op], inputs, outputs, ..Block::default() };
    let program = Program::from(Topology {
        operator_versions: vec![(String::new(), newest_opset("").expect("known"))],
        blocks: vec![block],
        ..Topology::new(Dialect::Onnx)
    });
    let value = |tensor: &Tensor| Value::of(tensor).expect("a value");
    let mut given = vec![("x".to_owned(), value(&x))];
    let mut parameters = Vec::new();
    match is_constant {
        true => parameters.push(Parameter { name: "filter".to_owned(), tensor: filter }),
        false => given.push(("filter".to_owned(), value(&filter))),
    }
    run_with(parameters, program, given, Mode::Fast).expect("computed").remove(0)
}

#[test]
fn results_have_the_bits_of_this_version_of_the_numerics() {
    let found = computed();
    assert!(found.len() > 500, "{}", found.len());
    let file = path();
    let rewrites = std::env::var_os("LODSTONE_REWRITE_EXPECTED").is_some();
    let Ok(text) = std::fs::read_to_string(&file) else {
        if rewrites {
            return write(&file, &found);
        }
        return assert!(computed() == found, "two runs have other bits");
    };
    let (version, lines) = text.split_once('\n').expect("a version");
    let version: u32 = version.strip_prefix("numerics ").expect("a version").parse().expect("one");
    let recorded: BTreeMap<&str, &str> =
        lines.lines().map(|line| line.rsplit_once(' ').expect("a digest")).collect();
    let others: Vec<&str> = recorded
        .iter()
        .filter(|(name, digest)| found.get(**name).is_none_or(|found| found != *digest))
        .map(|(name, _)| *name)
        .collect();
    if version == NUMERICS {
        assert!(
            others.is_empty(),
            "{} results have other bits, and NUMERICS is still {NUMERICS}: {others:?}",
            others.len()
        );
    }
    if rewrites {
        return write(&file, &found);
    }
    assert_eq!(version, NUMERICS, "{} is of another version", file.display());
    assert_eq!(recorded.len(), found.len(), "there are other cases than in {}", file.display());
}

fn write(file: &std::path::Path, found: &BTreeMap<String, String>) {
    let mut text = format!("numerics {NUMERICS}\n");
    for (name, digest) in found {
        writeln!(text, "{name} {digest}").expect("a string");
    }
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    std::fs::write(file, text).expect("written");
}
