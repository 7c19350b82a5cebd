//! Operators whose results are much larger than their inputs, or of which the recorded cases have no tensor to repeat.

use std::collections::BTreeMap;

use lodstone_engine::{Dense, Map, Mode, Strings, Threads, Value};
use lodstone_model::{Attribute, AttributeValue, DType, Dialect, Model, Op, Program, Topology};
use lodstone_schema::onnx::newest_opset;

use super::bombs::{attribute, block, longs, op, zeros};
use super::counting::alone;
use super::{CONSTANT, Taken, run};

/// An operator with its attributes and inputs.
type Case = (&'static str, Vec<Attribute>, Vec<Value>);

fn floats(count: usize, of: impl Fn(usize) -> f32) -> Value {
    let bytes: Vec<u8> = (0..count).flat_map(|at| of(at).to_le_bytes()).collect();
    Dense::new(DType::Float32, vec![count], bytes.into()).unwrap().into()
}

fn scalar(value: f32) -> Value {
    Dense::new(DType::Float32, Vec::new(), value.to_le_bytes().to_vec().into()).unwrap().into()
}

fn texts(count: usize, of: impl Fn(usize) -> String) -> Value {
    let all = (0..count).map(|at| of(at).into()).collect();
    Value::Strings(Strings::new(vec![count], all).unwrap())
}

fn long(name: &str, value: i64) -> Attribute {
    attribute(name, AttributeValue::Long(value))
}

pub(crate) fn text(name: &str, value: &str) -> Attribute {
    attribute(name, AttributeValue::String(value.into()))
}

fn strings(name: &str, values: &[&str]) -> Attribute {
    attribute(name, AttributeValue::Strings(values.iter().map(|value| (*value).into()).collect()))
}

/// Returns boxes that do not overlap: [1, count, 4].
fn boxes(count: usize) -> Value {
    let sides = (0..count).flat_map(|at| [at as f32, 0.0, at as f32 + 0.5, 1.0]);
    let bytes: Vec<u8> = sides.flat_map(f32::to_le_bytes).collect();
    Dense::new(DType::Float32, vec![1, count, 4], bytes.into()).unwrap().into()
}

/// Returns regions whose samples are many times their cells: [count, 4].
fn regions(count: usize) -> Value {
    let bytes: Vec<u8> =
        (0..count).flat_map(|_| [0.0_f32, 0.0, 60.0, 60.0]).flat_map(f32::to_le_bytes).collect();
    Dense::new(DType::Float32, vec![count, 4], bytes.into()).unwrap().into()
}

fn cases() -> Vec<Case> {
    const MANY: usize = 1 << 18;
    const SOME: usize = 1 << 16;
    let many = i64::try_from(MANY).unwrap();
    let word = |at: usize| format!("{at} words that are {at}");
    let bits = |count: usize| {
        let bytes: Vec<u8> = (0..count).map(|at| u8::from(at % 3 > 0)).collect();
        Value::from(Dense::new(DType::Bool, vec![count], bytes.into()).unwrap())
    };
    let map = |count: i64| {
        let keys: Vec<i64> = (0..count).collect();
        let values = (0..count).map(|_| scalar(1.0)).collect();
        Value::Map(Map::new(longs(&keys, &[keys.len()]), values))
    };
    let list = |count: usize| Value::Sequence((0..count).map(|_| scalar(1.0)).collect());
    let onehot = vec![longs(&[3; 512], &[512]), longs(&[512], &[]), floats(2, |at| at as f32)];
    let mel = vec![
        longs(&[512], &[]),
        longs(&[1024], &[]),
        longs(&[16_000], &[]),
        scalar(0.0),
        scalar(8000.0),
    ];
    vec![
        ("ConstantOfShape", vec![], vec![longs(&[many], &[1])]),
        ("Expand", vec![], vec![floats(512, |_| 1.0), longs(&[512, 512], &[2])]),
        ("Tile", vec![], vec![floats(512, |_| 1.0), longs(&[512], &[1])]),
        ("Tile", vec![], vec![texts(512, word), longs(&[512], &[1])]),
        ("Concat", vec![long("axis", 0)], vec![texts(SOME, word), texts(SOME, word)]),
        ("Gather", vec![], vec![texts(8, word), longs(&[1; SOME], &[SOME])]),
        ("HannWindow", vec![], vec![longs(&[many], &[])]),
        ("HammingWindow", vec![], vec![longs(&[many], &[])]),
        ("BlackmanWindow", vec![], vec![longs(&[many], &[])]),
        ("MelWeightMatrix", vec![], mel),
        ("OneHot", vec![], onehot),
        ("Range", vec![], vec![longs(&[0], &[]), longs(&[many], &[]), longs(&[1], &[])]),
        ("Range", vec![], vec![scalar(0.0), scalar(262_144.0), scalar(1.0)]),
        (
            "AffineGrid",
            vec![],
            vec![zeros(DType::Float32, &[1, 2, 3]), longs(&[1, 1, 512, 512], &[4])],
        ),
        ("RandomNormal", vec![attribute("shape", AttributeValue::Longs(vec![many]))], vec![]),
        ("RandomUniform", vec![attribute("shape", AttributeValue::Longs(vec![many]))], vec![]),
        ("RandomNormalLike", vec![], vec![floats(MANY, |_| 1.0)]),
        ("Multinomial", vec![long("sample_size", many)], vec![zeros(DType::Float32, &[1, 4])]),
        ("Pad", vec![], vec![floats(4, |_| 1.0), longs(&[0, many], &[2])]),
        (
            "Resize",
            vec![text("mode", "linear")],
            vec![
                zeros(DType::Float32, &[1, 1, 8, 8]),
                zeros(DType::Float32, &[0]),
                zeros(DType::Float32, &[0]),
                longs(&[1, 1, 512, 512], &[4]),
            ],
        ),
        ("NonZero", vec![], vec![bits(MANY)]),
        ("Compress", vec![], vec![floats(MANY, |at| at as f32), bits(MANY)]),
        ("Compress", vec![], vec![texts(SOME, word), bits(SOME)]),
        ("Unique", vec![], vec![floats(MANY, |at| (at % 50_000) as f32)]),
        ("Unique", vec![], vec![floats(MANY, |at| (at % 7) as f32)]),
        ("Cast", vec![long("to", 8)], vec![floats(SOME, |at| at as f32 / 3.0)]),
        ("Cast", vec![long("to", 1)], vec![texts(SOME, |at| at.to_string())]),
        ("StringConcat", vec![], vec![texts(SOME, word), texts(1, word)]),
        ("StringSplit", vec![], vec![texts(SOME / 4, word)]),
        (
            "StringSplit",
            vec![text("delimiter", "a"), long("maxsplit", 2)],
            vec![texts(SOME / 4, word)],
        ),
        ("StringNormalizer", vec![text("case_change_action", "UPPER")], vec![texts(SOME, word)]),
        ("Equal", vec![], vec![texts(SOME, word), texts(SOME, word)]),
        (
            "TfIdfVectorizer",
            vec![
                text("mode", "TF"),
                long("min_gram_length", 1),
                long("max_gram_length", 1),
                long("max_skip_count", 0),
                attribute("ngram_counts", AttributeValue::Longs(vec![0])),
                attribute("ngram_indexes", AttributeValue::Longs(vec![many])),
                attribute("pool_int64s", AttributeValue::Longs(vec![5])),
            ],
            vec![longs(&[5; 64], &[64])],
        ),
        (
            "LabelEncoder",
            vec![
                strings("keys_strings", &["0", "1"]),
                attribute("values_int64s", AttributeValue::Longs(vec![1, 2])),
            ],
            vec![texts(SOME, word)],
        ),
        (
            "LabelEncoder",
            vec![
                attribute("keys_int64s", AttributeValue::Longs(vec![1, 2])),
                strings("values_strings", &["zero", "one"]),
            ],
            vec![longs(&[1; SOME], &[SOME])],
        ),
        (
            "CategoryMapper",
            vec![
                strings("cats_strings", &["zero", "one"]),
                attribute("cats_int64s", AttributeValue::Longs(vec![1, 2])),
            ],
            vec![longs(&[1; SOME], &[SOME])],
        ),
        (
            "OneHotEncoder",
            vec![attribute("cats_int64s", AttributeValue::Longs((0..64).collect()))],
            vec![longs(&[1; 4096], &[4096])],
        ),
        (
            "ZipMap",
            vec![attribute("classlabels_int64s", AttributeValue::Longs(vec![1, 2]))],
            vec![zeros(DType::Float32, &[SOME / 4, 2])],
        ),
        ("CastMap", vec![text("map_form", "SPARSE"), long("max_map", many)], vec![map(4)]),
        ("CastMap", vec![], vec![map(8192)]),
        (
            "DictVectorizer",
            vec![attribute("int64_vocabulary", AttributeValue::Longs((0..16_384).collect()))],
            vec![map(8192)],
        ),
        ("SplitToSequence", vec![], vec![floats(SOME / 4, |_| 1.0)]),
        ("SequenceInsert", vec![], vec![list(SOME / 4), scalar(1.0)]),
        ("SequenceErase", vec![], vec![list(SOME / 4)]),
        ("ConcatFromSequence", vec![long("axis", 0), long("new_axis", 1)], vec![list(SOME / 4)]),
        ("Identity", vec![], vec![list(SOME / 4)]),
        ("Optional", vec![], vec![list(SOME / 4)]),
        (
            "NonMaxSuppression",
            vec![],
            vec![
                boxes(2000),
                zeros(DType::Float32, &[1, 4, 2000]),
                longs(&[2000], &[]),
                scalar(0.5),
            ],
        ),
        (
            "RoiAlign",
            vec![long("output_height", 16), long("output_width", 16)],
            vec![zeros(DType::Float32, &[1, 8, 64, 64]), regions(64), longs(&[0; 64], &[64])],
        ),
        (
            "GridSample",
            vec![text("mode", "cubic")],
            vec![zeros(DType::Float32, &[1, 4, 32, 32]), zeros(DType::Float32, &[1, 128, 128, 2])],
        ),
    ]
}

#[test]
fn operators_with_large_results_take_at_most_what_is_charged() {
    let _alone = alone();
    let threads = started(4);
    let mut wrong = Vec::new();
    for (kind, attributes, inputs) in cases() {
        let names: Vec<String> = (0..inputs.len()).map(|number| format!("x{number}")).collect();
        let outputs = match kind {
            "Unique" => "y a b c",
            "StringSplit" => "y n",
            _ => "y",
        };
        let op = op(kind, &names.join(" "), outputs, attributes);
        let model = model(op, &names.join(" "), outputs);
        let inputs: BTreeMap<String, Value> = names.into_iter().zip(inputs).collect();
        for mode in [Mode::Reference, Mode::Fast] {
            let Taken { peak, charged, .. } = run(&model, &inputs, mode, &threads)
                .unwrap_or_else(|| panic!("{kind} {inputs:?} fails"));
            let line = format!("{kind} {mode:?}: peak {peak}, charged {charged}");
            if std::env::var("LODSTONE_MEMORY_LIST").is_ok() {
                eprintln!("{line}");
            }
            if peak > charged + CONSTANT {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{} runs take more:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns threads that have started: what they take does not grow with the inputs.
pub(crate) fn started(count: usize) -> Threads {
    let threads = Threads::new(count);
    let model = model(op("Tile", "x0 x1", "y", Vec::new()), "x0 x1", "y");
    let inputs = [floats(512, |_| 1.0), longs(&[512], &[1])];
    let inputs = ["x0", "x1"].map(str::to_owned).into_iter().zip(inputs).collect();
    run(&model, &inputs, Mode::Fast, &threads).unwrap();
    threads
}

/// Returns a model of one operator.
pub(crate) fn model(op: Op, inputs: &str, outputs: &str) -> Model {
    let version = |domain: &str| (domain.to_owned(), newest_opset(domain).unwrap());
    let topology = Topology {
        operator_versions: vec![version(""), version("ai.onnx.ml")],
        blocks: vec![block(inputs, vec![op], outputs)],
        ..Topology::new(Dialect::Onnx)
    };
    let mut model = Model::default();
    model.set_main(Program::from(topology));
    model
}
