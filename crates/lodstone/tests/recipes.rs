//! Exports remember where their operators and constants come from, and constants lead back to parameters.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lodstone::convert::{fix_shapes, fix_types};
use lodstone::model::Kind;
use lodstone::origins::Step;
use lodstone::{Blob, ConvertOptions, DType, Dim, Model, Origins, Parameter, Tensor};

use crate::golden_models::{self, golden};

fn same(a: &Tensor, b: &Tensor) -> bool {
    (a.dtype, &a.shape) == (b.dtype, &b.shape) && a.data.bytes().unwrap() == b.data.bytes().unwrap()
}

/// Returns a model with zeros in place of the elements of its parameters.
fn emptied(model: &Model) -> Model {
    let mut model = model.clone();
    for parameter in &mut model.parameters {
        let len = usize::try_from(parameter.tensor.data.len()).unwrap();
        parameter.tensor.data = Blob::memory(vec![0; len]);
    }
    model
}

/// What was counted for a framework.
#[derive(Debug, Default)]
struct Counts {
    models: usize,
    constants: usize,
    made: usize,
    restored: usize,
}

#[test]
fn every_constant_is_rebuilt_from_its_recipe_and_leads_back() {
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut steps = BTreeSet::new();
    for given in golden_models::all() {
        let (path, model) = (&given.path, given.typed());
        for options in [
            ConvertOptions::default(),
            ConvertOptions::default().with_opset(Some(14)),
            ConvertOptions::default()
                .with_cast(Some(DType::Float16))
                .with_allow(vec![lodstone::Loss::Rounding]),
        ] {
            // What cannot be exported is tried by other tests.
            let Ok(origins) = Origins::of(&model, &options) else { continue };
            let counts = counts.entry(model.main().unwrap().dialect.framework()).or_default();
            counts.models += 1;
            let export = origins.model().clone();
            let initializers =
                export.main().unwrap().blocks.iter().skip(1).flat_map(|it| &it.initializers);
            let all: Vec<&Parameter> = export.parameters.iter().chain(initializers).collect();
            assert_eq!(all.len(), origins.constants.len(), "{path}");
            let mut source = emptied(&model);
            let mut whole: HashMap<&str, (bool, bool)> = HashMap::new();
            for (constant, origin) in all.iter().zip(&origins.constants) {
                let what = format!("{path}: {} = {}", constant.name, origin.recipe);
                let rebuilt = origins
                    .rebuild(&constant.name, &model)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(same(&rebuilt, &constant.tensor), "{what}");
                counts.constants += 1;
                counts.made += usize::from(!origin.steps.is_empty());
                steps.extend(origin.steps.iter().map(|step| format!("{step:?}")));
                if !origin.invertible {
                    continue;
                }
                let (changed, before) = ([(*constant).clone()], source.clone());
                match origins.restore(&changed, &mut source) {
                    Ok(names) => {
                        counts.restored += 1;
                        for name in names {
                            let parameter =
                                model.parameters.iter().find(|it| it.name == name).unwrap();
                            let (is_whole, is_cast) = whole.entry(&parameter.name).or_default();
                            *is_whole |= origin.steps.is_empty();
                            *is_cast |= origin.steps.contains(&Step::Cast);
                        }
                    }
                    // A factor or a narrower type that loses digits, or a parameter that an operator holds.
                    Err(error) => {
                        let pairs = source.parameters.iter().zip(&before.parameters);
                        let is_kept = pairs.map(|(now, then)| same(&now.tensor, &then.tensor));
                        assert!(is_kept.into_iter().all(|it| it), "{what}");
                        let text = error.to_string();
                        let is_known = [
                            "lose digits",
                            "an operator of the program holds it",
                            "whole bytes",
                            "cannot be computed",
                        ];
                        assert!(
                            is_known.iter().any(|known| text.contains(known)),
                            "{what}: {text}"
                        );
                    }
                }
            }
            // A cast may lose digits.
            for (name, (is_whole, _)) in whole.into_iter().filter(|(_, (_, is_cast))| !is_cast) {
                let of = |model: &Model| {
                    model.parameters.iter().find(|it| it.name == name).unwrap().tensor.clone()
                };
                let (found, expected) = (of(&source), of(&model));
                if is_whole {
                    assert!(same(&found, &expected), "{path}: {name}");
                }
                if matches!(expected.kind, Kind::Dense) {
                    let pairs = found.data.bytes().unwrap();
                    let expected = expected.data.bytes().unwrap();
                    let is_own = |(found, expected): (&u8, &u8)| *found == 0 || found == expected;
                    assert!(pairs.iter().zip(expected.iter()).all(is_own), "{path}: {name}");
                }
            }
        }
    }
    assert!(counts.len() >= 6, "{counts:?}");
    assert!(counts.values().all(|it| it.constants > 0 && it.restored > 0), "{counts:?}");
    for step in ["Permute", "Reshape", "Slice", "Concat", "Cast"] {
        assert!(steps.contains(step), "{steps:?}");
    }
}

/// Changes the elements of all parameters of numbers that are not integers.
fn perturbed(model: &Model) -> Model {
    let mut model = model.clone();
    for parameter in &mut model.parameters {
        let tensor = &mut parameter.tensor;
        if tensor.dtype == DType::Float32 {
            let bytes = tensor.data.bytes().unwrap();
            let changed =
                bytes.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it) * 0.5 + 0.125);
            tensor.data = Blob::memory(changed.flat_map(f32::to_le_bytes).collect::<Vec<u8>>());
        }
    }
    model
}

#[test]
fn constants_without_a_recipe_do_not_depend_on_parameters() {
    let (mut literals, mut wrong) = (0, Vec::new());
    for given in golden_models::all() {
        let (path, model) = (&given.path, given.typed());
        let options = ConvertOptions::default();
        let Ok(origins) = Origins::of(&model, &options) else { continue };
        let Ok(other) = Origins::of(&perturbed(&model), &options) else { continue };
        let others: HashMap<&str, &Tensor> =
            other.model().parameters.iter().map(|it| (it.name.as_str(), &it.tensor)).collect();
        for (constant, origin) in origins.model().parameters.iter().zip(&origins.constants) {
            if !origin.parameters.is_empty() {
                continue;
            }
            literals += 1;
            let other = others.get(constant.name.as_str());
            // The rule reads the scales, and decides the dims by them.
            let is_decided = path.ends_with("caffe2/resize_by_operand");
            if other.is_some_and(|other| !same(&constant.tensor, other)) && !is_decided {
                wrong.push(format!("{path}: {}", constant.name));
            }
        }
    }
    assert!(literals > 500, "{literals}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_operator_of_an_export_names_operators_of_its_source() {
    let (mut all, mut without) = (0, Vec::new());
    for given in golden_models::all() {
        let (path, model) = (&given.path, given.typed());
        let Ok(origins) = Origins::of(&model, &ConvertOptions::default()) else { continue };
        for operator in &origins.operators {
            all += 1;
            for source in &operator.sources {
                let program = model.programs.get(source.program).unwrap();
                let op = &program.blocks[source.block].ops[source.number];
                assert_eq!(op.kind, source.kind, "{path}: {}", operator.name);
            }
            // A copy that gives an output its name computes nothing.
            if operator.sources.is_empty() && operator.kind != "Identity" {
                without.push(format!("{path}: {} {}", operator.kind, operator.name));
            }
        }
    }
    assert!(all > 1000, "{all}");
    assert!(without.is_empty(), "{} of {all}: {without:#?}", without.len());
}

#[test]
fn dropouts_and_normalizations_keep_what_training_needs() {
    let opened = |path: &str| lodstone::open(golden(path)).unwrap();
    let of = |model: &Model, kind: &str| {
        let origins = Origins::of(model, &ConvertOptions::default()).unwrap();
        let sources = origins.operators.into_iter().flat_map(|it| it.sources);
        sources.chain(origins.omitted).find(|source| source.kind.contains(kind)).unwrap()
    };
    let dropout = of(&opened("lowering/tests/golden/torch/act_dropout.pt2"), "dropout");
    assert!(dropout.dropout.is_some() && !dropout.scope.is_empty(), "{dropout:?}");
    let mut digits = opened("../examples/digits/mxnet");
    fix_types(&mut digits, &[("data".to_owned(), DType::Float32)]).unwrap();
    fix_shapes(&mut digits, &[("data".to_owned(), [1, 1, 8, 8].map(Dim::Known).to_vec())]).unwrap();
    let norm = of(&digits, "BatchNorm");
    assert_eq!((norm.momentum, norm.epsilon), (Some(0.9), Some(1e-5)), "{norm:?}");
}
