//! Values of programs that become outputs: what they do not depend on is neither translated, nor run, nor needed.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, HashSet};

use lodstone::convert::{fix_shapes, fix_types, select_outputs};
use lodstone::model::{Dialect, Op, Operand, ValueType, Var};
use lodstone::ops::OperatorTarget;
use lodstone::run::tensors;
use lodstone::{
    ConvertOptions, DType, Dim, Error, Inputs, MemoryStore, Model, Parameter, RunOptions, Session,
    Target, convert, operators, run,
};

use crate::golden_models::{self, Golden, golden};
use crate::recorded::numbers;

fn fetched(model: &Model, inputs: &Inputs, names: &[String]) -> Result<Vec<Parameter>, Error> {
    run(model, inputs.clone(), &RunOptions::default().with_fetch(names.to_vec())).map(tensors)
}

fn outputs(model: &Model) -> Vec<String> {
    Session::new(model, &RunOptions::default()).unwrap().outputs()
}

/// Returns values that operators of the main graph compute: one early, one late.
fn values(model: &Model) -> Vec<String> {
    let main = &model.main().unwrap().blocks[0];
    let names = main.ops.iter().flat_map(|op| op.writes()).filter(|name| *name != "fetch");
    let names: Vec<String> = names.map(str::to_owned).collect();
    let places = BTreeMap::from([names.len() / 3, names.len() * 2 / 3].map(|at| (at, ())));
    places.into_keys().filter_map(|at| names.get(at).cloned()).collect()
}

fn same_bits(what: &str, found: &[Parameter], expected: &[Parameter]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.name, expected.name, "{what}");
        assert_eq!(found.tensor.shape, expected.tensor.shape, "{what}");
        assert!(
            found.tensor.data.bytes().unwrap() == expected.tensor.data.bytes().unwrap(),
            "{what}: {}",
            found.name
        );
    }
}

/// The inputs among these that a model has.
fn own(model: &Model, inputs: &Inputs) -> Inputs {
    let session = Session::new(model, &RunOptions::default()).unwrap();
    let known: HashSet<String> = session.inputs().iter().cloned().collect();
    let mut own = inputs.clone();
    own.values.retain(|(name, _)| name.as_ref().is_none_or(|name| known.contains(name)));
    own
}

#[test]
fn values_are_the_same_whatever_else_is_fetched_exported_or_written() {
    let (mut run_alone, mut exported, mut written) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut refused = Vec::new();
    for golden in golden_models::sample() {
        let Golden { path, model, inputs } = &golden;
        let is_small = model.main().unwrap().blocks[0].ops.len() < 2;
        if is_small || run(model, inputs.clone(), &RunOptions::default()).is_err() {
            continue;
        }
        let dialect = model.main().unwrap().dialect.framework();
        for value in values(model) {
            let what = format!("{path}: {value}");
            let with_outputs: Vec<String> =
                [value.clone()].into_iter().chain(outputs(model)).collect();
            // Values that are no tensors, or of which the model has an output already, cannot be compared.
            let Ok(all) = fetched(model, inputs, &with_outputs) else { continue };
            let expected: Vec<Parameter> =
                all.into_iter().filter(|it| it.name == value).take(1).collect();
            if expected.is_empty() {
                continue;
            }
            let one = [value.clone()];
            same_bits(&what, &fetched(model, inputs, &one).unwrap(), &expected);
            *run_alone.entry(dialect).or_insert(0) += 1;

            let store = MemoryStore::default();
            let options = ConvertOptions::default().with_outputs(one.to_vec());
            let onnx = options.clone().with_to(Some(Target::Format("onnx".to_owned())));
            match convert(golden.typed(), store.location("one.onnx"), &onnx) {
                Ok(_) => {
                    let part = lodstone::open(store.location("one.onnx")).unwrap();
                    let found =
                        tensors(run(&part, own(&part, inputs), &RunOptions::default()).unwrap());
                    let (found, expected) =
                        (numbers(&found[0].tensor), numbers(&expected[0].tensor));
                    assert_eq!(found.len(), expected.len(), "{what}");
                    for (found, expected) in found.iter().zip(&expected) {
                        let near = (found - expected).abs() <= 1e-5 + 1e-5 * expected.abs();
                        assert!(
                            near || found.is_nan() && expected.is_nan(),
                            "{what}: {found}, {expected}"
                        );
                    }
                    *exported.entry(dialect).or_insert(0) += 1;
                }
                Err(error) => refused.push(format!("{what}: {error}")),
            }
            let mut part = model.clone();
            select_outputs(&mut part, &one).unwrap();
            let same = ConvertOptions::default().with_to(Some(Target::Same));
            let Ok(done) = convert(part, store.location("same"), &same) else { continue };
            let files = done.files.iter().map(|file| file.to_str().unwrap().to_owned());
            let mut written_at = ["same".to_owned()].into_iter().chain(files);
            let again = written_at.find_map(|at| {
                lodstone::open(store.location(&at)).ok().filter(|it| it.main().is_some())
            });
            let again = again.unwrap();
            same_bits(
                &what,
                &tensors(run(&again, own(&again, inputs), &RunOptions::default()).unwrap()),
                &expected,
            );
            *written.entry(dialect).or_insert(0) += 1;
        }
    }
    assert!(run_alone.len() >= 6 && run_alone.values().sum::<usize>() >= 100, "{run_alone:?}");
    assert!(exported.len() >= 6, "{exported:?}");
    assert!(written.len() >= 5, "{written:?}");
    assert!(refused.len() * 20 < run_alone.values().sum::<usize>(), "{refused:#?}");
}

/// Appends an operator that nothing supports, which reads a value and another input.
fn with_unknown(model: &mut Model, value: &str) {
    // Where all declared variables are inputs, results have no declared type.
    let declares = !matches!(model.main().unwrap().dialect, Dialect::Mxnet | Dialect::Caffe2);
    let main = &mut model.main_mut().unwrap().blocks[0];
    let operand = |args: &[&str]| {
        vec![Operand {
            slot: String::new(),
            args: args.iter().map(|it| (*it).to_owned()).collect(),
        }]
    };
    let tensor = main.vars.iter().find_map(|var| var.value.tensor_type().cloned()).unwrap();
    let declared: &[&str] = if declares { &["further", "unknown"] } else { &["further"] };
    for name in declared {
        let value = ValueType::Tensor(tensor.clone());
        main.vars.push(Var { name: (*name).to_owned(), value, ..Var::default() });
    }
    main.inputs.push("further".to_owned());
    main.ops.push(Op {
        kind: "no::such_operator".to_owned(),
        inputs: operand(&[value, "further"]),
        outputs: operand(&["unknown"]),
        ..Op::default()
    });
    main.outputs.push("unknown".to_owned());
}

#[test]
fn an_unsupported_operator_and_its_inputs_do_not_matter_to_values_before_it() {
    let mut is_kept = false;
    for path in [
        "../examples/digits/mxnet/digits-symbol.json",
        "engine/tests/golden/onnx_models/images.onnx",
        "lowering/tests/golden/caffe2/conv_relu",
        "lowering/tests/golden/torch/conv1d.pt2",
    ] {
        let mut model = lodstone::open(golden(path)).unwrap();
        // MXNet and Caffe2 declare no inputs.
        let dims: &[u64] = if path.contains("digits") { &[1, 1, 8, 8] } else { &[1, 2, 5, 4] };
        if path.contains("digits") || path.contains("caffe2") {
            let name = if path.contains("digits") { "data" } else { "x" }.to_owned();
            fix_types(&mut model, &[(name.clone(), DType::Float32)]).unwrap();
            let dims = dims.iter().copied().map(Dim::Known).collect();
            fix_shapes(&mut model, &[(name, dims)]).unwrap();
        }
        let mut inputs = Inputs::default();
        inputs.add_random(&model, 1, &[]).unwrap();
        let value = outputs(&model).remove(0);
        let expected = fetched(&model, &inputs, std::slice::from_ref(&value)).unwrap();
        with_unknown(&mut model, &value);
        for target in [OperatorTarget::Run, OperatorTarget::Onnx] {
            assert!(!operators(&model, target).unwrap().supported, "{path}");
        }
        let session = Session::new(&model, &RunOptions::default());
        let refused = session.and_then(|mut session| session.run(inputs.clone()));
        assert!(refused.is_err(), "{path}");
        same_bits(
            path,
            &fetched(&model, &inputs, std::slice::from_ref(&value)).unwrap(),
            &expected,
        );
        let options = ConvertOptions::default();
        let location = || MemoryStore::default().location("part.onnx");
        let path = path.to_owned();
        let model = Golden { path: path.clone(), model, inputs: inputs.clone() }.typed();
        let copies = model.main().unwrap().dialect == Dialect::Onnx;
        assert_eq!(convert(model.clone(), location(), &options).is_ok(), copies, "{path}");
        convert(model.clone(), location(), &options.with_outputs(vec![value.clone()])).unwrap();
        if !copies {
            // With permission, it is kept; an output needs a type.
            let store = MemoryStore::default();
            let options = ConvertOptions::default().with_custom_domain(Some("own".to_owned()));
            match convert(model.clone(), store.location("kept.onnx"), &options) {
                Ok(done) => {
                    assert!(done.report.warnings.iter().any(|it| it.contains("no runtime has")));
                    let kept = lodstone::open(store.location("kept.onnx")).unwrap();
                    let kept = kept.main().unwrap().ops().find(|op| op.domain == "own");
                    let kept = kept.unwrap();
                    assert_eq!((&*kept.kind, kept.input("").len()), ("no__such_operator", 2));
                    is_kept = true;
                }
                Err(error) => {
                    assert!(error.to_string().contains("its rank must be known"), "{error}")
                }
            }
        }
        let mut part = model;
        select_outputs(&mut part, &[value]).unwrap();
        for target in [OperatorTarget::Run, OperatorTarget::Onnx] {
            assert!(operators(&part, target).unwrap().supported, "{path}");
        }
    }
    assert!(is_kept);
}

#[test]
fn patterns_select_values_in_the_order_of_the_program() {
    let model = lodstone::open(golden("../examples/digits/paddle")).unwrap();
    let options = |names: &[&str]| {
        RunOptions::default().with_fetch(names.iter().map(|name| (*name).to_owned()).collect())
    };
    let session = Session::new(&model, &options(&["fc_*", "conv2d_*.tmp_0"])).unwrap();
    assert_eq!(
        session.outputs(),
        ["fc_0.tmp_0", "fc_0.tmp_1", "fc_0.tmp_2", "conv2d_0.tmp_0", "conv2d_1.tmp_0"]
    );
    let unknown = Session::new(&model, &options(&["conv2d_*", "nothing*"])).map(drop);
    assert!(matches!(unknown, Err(Error::NoSuchOutput { name, .. }) if name == "nothing*"));
    let mut part = model.clone();
    let nothing = select_outputs(&mut part, &["nothing".to_owned()]);
    assert!(matches!(nothing, Err(Error::NoSuchOutput { .. })));
    assert_eq!(part.main().unwrap().ops().count(), model.main().unwrap().ops().count());
}
