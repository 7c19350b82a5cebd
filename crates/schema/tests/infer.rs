//! Inferred types of values in ONNX programs, compared with those that ONNX infers, declares and computes.
#![expect(clippy::disallowed_methods, reason = "tests read and write files directly")]
#![expect(clippy::print_stdout, reason = "reports what was compared")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{
    Attribute, AttributeValue, DType, Dialect, Dim, Model, Op, Operand, ValueType,
};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{
    Bodies, Contents, Element, Inference, MAX_ELEMENTS, Options, UNDEFINED, ValueInfo, infer,
    infer_op, is_known, show_type,
};
use lodstone_schema::onnx::{AttributeSpec, operator};
use lodstone_store::Location;
use serde::Deserialize;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden/onnx_infer").join(name)
}

/// Kinds from the outside in, the element type, the dims.
type Recorded = (Vec<String>, Option<String>, Option<Vec<serde_json::Value>>);

/// The recorded results of a node test.
#[derive(Deserialize)]
struct Case {
    name: String,
    inferred: Vec<Option<Recorded>>,
    #[serde(default)]
    folded: Vec<Option<Recorded>>,
    declared: Vec<Recorded>,
    recorded: Vec<Option<Vec<u64>>>,
    values: HashMap<String, (Vec<u64>, Vec<serde_json::Number>)>,
}

/// Returns pairs of JSON and a model.
fn pairs(name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let file = std::fs::read(golden(name)).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(file.as_slice()).read_to_end(&mut bytes).unwrap();
    let mut rest = bytes.as_slice();
    let mut take = || {
        let (length, after) = rest.split_first_chunk().expect("a length");
        let (part, after) = after.split_at(usize::try_from(u32::from_le_bytes(*length)).unwrap());
        rest = after;
        (part.to_vec(), rest.is_empty())
    };
    let mut pairs = Vec::new();
    loop {
        let (facts, _) = take();
        let (model, last) = take();
        pairs.push((facts, model));
        if last {
            return pairs;
        }
    }
}

fn open(dir: &Path, bytes: &[u8]) -> Model {
    let path = dir.join("model.onnx");
    std::fs::write(&path, bytes).unwrap();
    (onnx::BINARY.read)(&Location::from(&path), &OpenOptions::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the inferred types of the outputs of the graph.
fn outputs(model: &Model, inference: &Inference) -> Vec<ValueType> {
    let main = &model.main().unwrap().blocks[0];
    let known = |name: &String| inference.blocks[0].get(name).map(|info| info.value.clone());
    main.outputs.iter().map(|name| known(name).unwrap_or_default()).collect()
}

fn kinds(value: &ValueType) -> Vec<String> {
    let inner = |word: &[&str], inner: &ValueType| {
        word.iter().map(|word| (*word).to_owned()).chain(kinds(inner)).collect()
    };
    match value {
        ValueType::Tensor(_) => vec!["tensor".to_owned()],
        ValueType::Sparse(_) => vec!["sparse".to_owned()],
        ValueType::List(element) => inner(&["sequence"], element),
        ValueType::Optional(element) => inner(&["optional"], element),
        ValueType::Dict(key, value) => inner(&["map", &key.to_string()], value),
        _ => vec!["unspecified".to_owned()],
    }
}

/// Describes what an inferred type lacks compared with a recorded type, or where it differs.
fn less_than(recorded: &Recorded, found: &ValueType) -> Option<String> {
    let (kinds_recorded, dtype, shape) = recorded;
    let tensor = found.tensor_type();
    if *kinds_recorded != kinds(found) {
        return Some(format!("kinds {kinds_recorded:?}"));
    }
    let dtype_found = tensor.map_or(UNDEFINED, |tensor| tensor.dtype);
    if dtype.as_ref().is_some_and(|dtype| *dtype != dtype_found.to_string()) {
        return Some(format!("dtype {dtype:?}"));
    }
    let Some(shape) = shape else { return None };
    let Some(dims) = tensor.and_then(|tensor| tensor.shape.as_ref()) else {
        return Some(format!("shape {shape:?}"));
    };
    let fits = |(recorded, dim): (&serde_json::Value, &Dim)| match (recorded, dim) {
        (serde_json::Value::Null, _) => true,
        (serde_json::Value::String(_), Dim::Symbol(_) | Dim::Known(_)) => true,
        (recorded, Dim::Known(size)) => recorded.as_u64() == Some(*size),
        _ => false,
    };
    let same = dims.len() == shape.len() && shape.iter().zip(dims).all(fits);
    (!same).then(|| format!("shape {shape:?}"))
}

/// Returns whether an inferred type contradicts a recorded one.
fn contradicts(recorded: &Recorded, found: &ValueType) -> bool {
    let (kinds_recorded, dtype, shape) = recorded;
    if *found == ValueType::Unspecified {
        return false;
    }
    let Some(tensor) = found.tensor_type() else { return *kinds_recorded != kinds(found) };
    let other = dtype.as_ref().is_some_and(|dtype| *dtype != tensor.dtype.to_string());
    if *kinds_recorded != kinds(found) || (other && tensor.dtype != UNDEFINED) {
        return true;
    }
    let (Some(shape), Some(dims)) = (shape, &tensor.shape) else { return false };
    let differs = |(recorded, dim): (&serde_json::Value, &Dim)| match (recorded.as_u64(), dim) {
        (Some(recorded), Dim::Known(size)) => recorded != *size,
        _ => false,
    };
    shape.len() != dims.len() || shape.iter().zip(dims).any(differs)
}

/// Returns recorded inputs as constants.
fn given(model: &Model, case: &Case) -> HashMap<String, ValueInfo> {
    let vars = &model.main().unwrap().blocks[0].vars;
    let info = |(name, (shape, numbers)): (&String, &(Vec<u64>, Vec<serde_json::Number>))| {
        let dtype =
            vars.iter().find(|var| var.name == *name).unwrap().value.tensor_type().unwrap().dtype;
        let shape = shape.iter().map(|dim| Dim::Known(*dim)).collect();
        let mut info = ValueInfo::tensor(dtype, Some(shape));
        let element = |number: &serde_json::Number| match number.as_i64() {
            Some(number) if !dtype.is_float() => Element::Int(number),
            _ => Element::Float(number.as_f64().unwrap()),
        };
        info.contents = Some(numbers.iter().map(element).collect::<Contents>());
        (name.clone(), info)
    };
    case.values.iter().map(info).collect()
}

/// Returns the kind of the first operator of a model.
fn operator_of(model: &Model) -> String {
    let ops = &model.main().unwrap().blocks[0].ops;
    ops.first().map(|op| op.kind.clone()).unwrap_or_default()
}

/// Cases for which ONNX's inference is wrong, with the reason.
const NOT_SO: [(&str, &str); 4] = [
    ("LinearClassifier", "no classes, where there are labels of three"),
    ("test_loop13_seq", "a sequence of scalars, into which the loop puts vectors"),
    ("test_stft", "all frequencies, where `onesided` is 1 if it is left out"),
    ("test_stft_with_window", "the same"),
];

#[test]
fn every_operator_has_a_rule() {
    let operators: Vec<(String, String, i64)> =
        serde_json::from_slice(&std::fs::read(golden("operators.json")).unwrap()).unwrap();
    let missing: Vec<_> =
        operators.iter().filter(|(domain, kind, _)| !is_known(domain, kind)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(operators.len(), 659);
}

/// The result of a comparison with recorded types.
#[derive(Default)]
struct Compared {
    count: usize,
    wrong: Vec<String>,
    /// Cases for which ONNX's inference is wrong.
    refuted: BTreeSet<String>,
    /// The number of outputs with more inferred information than by ONNX, by operator.
    more: BTreeMap<String, usize>,
}

impl Compared {
    fn compare(&mut self, case: &Case, model: &Model) {
        self.count += 1;
        let folded = Options::default().with_inputs(given(model, case));
        let ways =
            [("plain", &case.inferred, Options::default()), ("folded", &case.folded, folded)];
        for (what, theirs, options) in ways.into_iter().filter(|(_, theirs, _)| !theirs.is_empty())
        {
            let (name, inference) = (format!("{} ({what})", case.name), infer(model, &options));
            let findings = inference.findings.located.iter();
            self.wrong.extend(findings.map(|finding| format!("{name}: {finding}")));
            assert!(inference.complete, "{name}");
            for (index, found) in outputs(model, &inference).iter().enumerate() {
                let their = theirs.get(index).and_then(Option::as_ref);
                self.output(case, index, found, their);
                if is_more(found, their) {
                    *self.more.entry(operator_of(model)).or_default() += 1;
                }
            }
        }
    }

    fn output(&mut self, case: &Case, index: usize, found: &ValueType, their: Option<&Recorded>) {
        let place = format!("{}: output {index}: {}", case.name, show_type(found));
        if let Some(less) = their.and_then(|their| less_than(their, found)) {
            if NOT_SO.iter().any(|(known, _)| *known == case.name) {
                self.refuted.insert(case.name.clone());
            } else {
                self.wrong.push(format!("{place} where ONNX infers {less}"));
            }
        }
        let declared = &case.declared[index];
        if declared.0 != ["unspecified"] && contradicts(declared, found) {
            self.wrong.push(format!("{place} is declared {declared:?}"));
        }
        let tensor = found.tensor_type().filter(|_| matches!(found, ValueType::Tensor(_)));
        if let Some(recorded) = case.recorded.get(index).and_then(Option::as_ref)
            && tensor.is_some_and(|tensor| !tensor.admits(recorded))
        {
            self.wrong.push(format!("{place} was {recorded:?}"));
        }
    }

    fn check(&self) {
        let wrong = self.wrong.join("\n");
        assert!(self.wrong.is_empty(), "{} wrong:\n{wrong}", self.wrong.len());
    }
}

/// Returns whether more is inferred than by ONNX.
fn is_more(found: &ValueType, their: Option<&Recorded>) -> bool {
    let dims = found.tensor_type().and_then(|tensor| tensor.shape.as_ref());
    match (their, dims) {
        (None, _) => *found != ValueType::Unspecified,
        (Some((_, _, None)), dims) => dims.is_some(),
        (Some((_, _, Some(shape))), Some(dims)) => {
            shape.iter().zip(dims).any(|(their, dim)| their.is_null() && *dim != Dim::Unknown)
        }
        _ => false,
    }
}

#[test]
fn node_tests_have_the_types_that_onnx_infers_declares_and_computed() {
    let (dir, mut compared) = (tempfile::tempdir().unwrap(), Compared::default());
    for (facts, bytes) in pairs("node_tests.gz") {
        compared.compare(&serde_json::from_slice(&facts).unwrap(), &open(dir.path(), &bytes));
    }
    let Compared { count, more, refuted, .. } = &compared;
    println!("{count} node tests; more is known than to ONNX of outputs of {more:?}");
    compared.check();
    assert_eq!(refuted.len(), NOT_SO.len() - 1, "{refuted:?}");
    assert!(*count == 1884 && more.values().sum::<usize>() > 500, "{count}: {more:?}");
}

#[test]
fn operators_of_old_versions_have_the_types_that_onnx_infers() {
    let (dir, mut compared) = (tempfile::tempdir().unwrap(), Compared::default());
    for (facts, bytes) in pairs("old_versions.gz") {
        compared.compare(&serde_json::from_slice(&facts).unwrap(), &open(dir.path(), &bytes));
    }
    println!("{} operators of old versions; more is known of {:?}", compared.count, compared.more);
    compared.check();
    assert_eq!(compared.refuted.iter().collect::<Vec<_>>(), ["LinearClassifier"]);
    assert_eq!(compared.count, 468);
}

/// An invalid model, and ONNX's message for it.
#[derive(Deserialize)]
struct Bad {
    name: String,
    error: Option<String>,
}

#[test]
fn models_that_strict_inference_rejects_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (mut missed, mut refused, mut more) = (Vec::new(), 0, 0);
    for (facts, bytes) in pairs("bad_models.gz") {
        let bad: Bad = serde_json::from_slice(&facts).unwrap();
        let model = open(dir.path(), &bytes);
        let inference = infer(&model, &Options::default());
        let found = !inference.findings.is_empty();
        match (&bad.error, found) {
            (Some(_), true) => refused += 1,
            (None, true) => more += 1,
            _ => missed.push(format!("{}: {}", bad.name, bad.error.unwrap_or_default())),
        }
    }
    println!("{refused} that ONNX refuses are found, and {more} that it does not");
    assert!(refused > 100 && more > 10, "{refused} and {more}");
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

/// Tests models of other programs, if there is a collection (see `cases.rs`).
fn collected() -> Vec<PathBuf> {
    let Some(cases) = std::env::var_os("LODSTONE_CASES").map(PathBuf::from) else {
        println!("LODSTONE_CASES is not set: only the golden files were tried");
        return Vec::new();
    };
    let mut open = vec![cases.join("peers"), cases.join("glow/models/onnxModels")];
    let mut files = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in Location::from(&directory).list().unwrap() {
            let path = directory.join(entry.name);
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if entry.is_dir => open.push(path),
                Some("onnx" | "onnxtxt") => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Models that contradict themselves, with the reason.
const WRONG: [(&str, &str); 27] = [
    ("ArgMaxKeepDim.onnxtxt", "an output has the name of an input"),
    ("ArgMaxNoKeepDim.onnxtxt", "the same"),
    ("ArgMinDefault.onnxtxt", "the same"),
    ("ArgMinKeepDim.onnxtxt", "the same"),
    ("ArgMinNoKeepDim.onnxtxt", "the same"),
    ("loop_emptycond.onnxtxt", "declares 10 trips, and says 7"),
    ("Equal.onnxtxt", "strict inference of ONNX refuses it"),
    ("IntermediateOutput.onnxtxt", "the same"),
    ("Mean_broadcast.onnxtxt", "the same"),
    ("NonMaxSuppressionSSD_ONNX.onnxtxt", "the same"),
    ("NonZero.onnxtxt", "the same"),
    ("if_false.onnxtxt", "the same"),
    ("if_true.onnxtxt", "the same"),
    ("matmul.onnxtxt", "the same"),
    ("maxPoolWithArgmax.onnxtxt", "the same"),
    ("preluInvalidBroadcastSlope.onnxtxt", "the same"),
    ("reduceMaxNoKeep.onnxtxt", "the same"),
    ("reduceMean2AvgPoolNoKeep.onnxtxt", "the same"),
    ("reduceMean4Dto4D.onnxtxt", "the same"),
    ("reduceMinNoKeep.onnxtxt", "the same"),
    ("simpleConv3DAutoPadValid.onnxtxt", "the same"),
    ("simpleConvAutoPadSameLower.onnxtxt", "the same"),
    ("simpleConvNonSquareDilation.onnxtxt", "the same"),
    ("simpleConvTransposeAutoPadSameUpper.onnxtxt", "the same"),
    ("simpleConvTransposeOutShape.onnxtxt", "the same"),
    ("simpleConvTransposeOutShapeSameLower.onnxtxt", "the same"),
    ("simpleConvTransposeOutShapeSameUpper.onnxtxt", "the same"),
];

#[test]
fn models_of_other_programs_do_not_contradict_themselves() {
    let (mut wrong, mut count, mut known, mut all) = (Vec::new(), 0, 0, 0);
    for path in collected() {
        let format = [&onnx::BINARY, &onnx::AS_TEXT]
            .into_iter()
            .find_map(|format| (format.read)(&Location::from(&path), &OpenOptions::default()).ok());
        let Some(model) = format else {
            println!("{} cannot be opened", path.display());
            continue;
        };
        if model.main().is_some_and(|program| program.dialect != Dialect::Onnx) {
            continue;
        }
        count += 1;
        let inference = infer(&model, &Options::default());
        let is_wrong = WRONG.iter().any(|(name, _)| path.ends_with(name));
        assert!(inference.complete, "{}", path.display());
        if is_wrong == inference.findings.is_empty() {
            wrong.push(format!("{}: {:?}", path.display(), inference.findings.located));
        }
        for info in inference.blocks.iter().flat_map(HashMap::values) {
            all += 1;
            known += usize::from(!info.is_unknown());
        }
    }
    println!("{count} models; {known} of {all} values are known");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A pseudorandom number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    fn number(&mut self) -> i64 {
        let wild = [i64::MIN, i64::MAX, -1, 0, 1, 2, 3, 4, 8, 1 << 31, 1 << 62, -(1 << 62), -2, -3];
        self.of(&wild)
    }

    fn numbers(&mut self) -> Vec<i64> {
        (0..self.below(6)).map(|_| self.number()).collect()
    }

    fn dim(&mut self) -> Dim {
        let symbol = Dim::Symbol("n".into());
        let known = [0, 1, 2, 3, 4, 5, 8, u64::MAX, 1 << 62].map(Dim::Known);
        match self.below(4) {
            0 => self.of(&[symbol, Dim::Unknown]),
            _ => self.of(&known),
        }
    }

    fn info(&mut self) -> ValueInfo {
        use DType as D;
        let dtypes =
            [D::Float32, D::Int64, D::Bool, D::Int32, D::String, D::Uint8, D::Float64, UNDEFINED];
        let dtype = self.of(&dtypes);
        let shape: Vec<Dim> = (0..self.below(6)).map(|_| self.dim()).collect();
        let shape = if self.below(6) == 0 { None } else { Some(shape) };
        let mut info = ValueInfo::tensor(dtype, shape);
        match self.below(12) {
            0 => return ValueInfo::default(),
            1..=4 => {
                let float = !matches!(self.below(3), 0);
                let numbers = self.numbers();
                let count = numbers.len() as u64;
                let element = |number: i64| match (float, number) {
                    (_, 3) => Element::Symbol("n".into()),
                    (_, 8) => Element::Unknown,
                    (true, number) => Element::Int(number),
                    (false, 4) => Element::Float(f64::NAN),
                    (false, number) => {
                        Element::Float(f64::from(i32::try_from(number).unwrap_or(7)) / 3.0)
                    }
                };
                info = ValueInfo::tensor(dtype, Some(vec![Dim::Known(count)]));
                if count == 1 && self.below(2) == 0 {
                    info = ValueInfo::tensor(dtype, Some(Vec::new()));
                }
                info.contents = Some(numbers.into_iter().map(element).collect());
            }
            5 => {
                let element =
                    ValueType::from(info.value.tensor_type().cloned().unwrap_or_default());
                let around = self.of::<fn(ValueType) -> _>(&[
                    ValueType::list,
                    ValueType::optional,
                    |value| ValueType::dict(DType::Int64, value),
                ]);
                info.value = around(element).unwrap();
            }
            _ => {}
        }
        info
    }

    /// Returns an attribute that an operator has, mostly of its type and with one of its values.
    fn attribute(&mut self, spec: &AttributeSpec) -> Attribute {
        use AttributeValue as A;
        let texts =
            ["ij,jk->ik", "...i->i...", "->", ",,,", "SAME_UPPER", "\u{1f600}->\u{1f600}", "..."];
        let allowed = spec.values.filter(|_| self.below(8) > 0);
        let number = |random: &mut Self| match allowed {
            Some(values) => random.of(values).parse().unwrap_or(0),
            None => random.number(),
        };
        let float = |number: &i64| f32::from(i8::try_from(*number).unwrap_or(9));
        let value = match (self.below(16), spec.kind) {
            (0, _) | (_, "INT") => A::Long(number(self)),
            (1, _) | (_, "INTS") => match allowed {
                Some(_) => A::Longs((0..self.below(4)).map(|_| number(self)).collect()),
                None => A::Longs(self.numbers()),
            },
            (_, "STRING") => A::String(match allowed {
                Some(values) => self.of(values).into(),
                None => self.of(&texts).into(),
            }),
            (_, "FLOAT") => A::Float(float(&self.number())),
            (_, "FLOATS") => A::Floats(self.numbers().iter().map(float).collect()),
            (_, "GRAPH") => A::Block(i32::try_from(self.below(3)).unwrap()),
            _ => A::Longs(self.numbers()),
        };
        Attribute { name: spec.name.to_owned(), value }
    }
}

/// Returns blocks with arbitrary outputs.
struct Anything(Random);

impl Bodies for Anything {
    fn body(&mut self, _: i32, _: Vec<ValueInfo>) -> Result<Vec<ValueInfo>, Finding> {
        Ok((0..self.0.below(4)).map(|_| self.0.info()).collect())
    }
}

#[test]
fn rules_do_not_panic_on_invalid_operators() {
    let operators: Vec<(String, String, i64)> =
        serde_json::from_slice(&std::fs::read(golden("operators.json")).unwrap()).unwrap();
    let (mut random, mut fine, mut refused) = (Random(7), 0, 0);
    for (domain, kind, version) in &operators {
        let specs = operator(domain, kind, *version).map_or(&[][..], |it| it.attributes.as_slice());
        for _ in 0..600 {
            let inputs: Vec<_> = (0..random.below(6)).map(|_| random.info()).collect();
            let inputs: Vec<_> =
                inputs.iter().map(|i| (random.below(8) > 0).then_some(i)).collect();
            let args = vec!["y".to_owned(); 1 + random.below(4)];
            let mut attributes = Vec::new();
            for spec in specs {
                if spec.required || random.below(2) == 0 {
                    attributes.push(random.attribute(spec));
                }
            }
            let op = Op {
                domain: domain.clone(),
                kind: kind.clone(),
                outputs: vec![Operand { slot: String::new(), args }],
                attributes,
                ..Op::default()
            };
            let seed = random.below(1 << 30) as u64;
            match infer_op(&op, *version, &inputs, &mut Anything(Random(seed))) {
                Ok(outputs) => {
                    assert_eq!(outputs.len(), op.output("").len());
                    fine += 1;
                    for output in &outputs {
                        let count = output.contents.as_ref().map_or(0, |contents| contents.len());
                        assert!(count <= MAX_ELEMENTS, "{kind}: {count}");
                    }
                }
                Err(_) => refused += 1,
            }
        }
    }
    println!("{fine} operators are fine, {refused} are not");
    assert!(fine > 50_000 && refused > 50_000);
}
