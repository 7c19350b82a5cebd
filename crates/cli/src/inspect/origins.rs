//! `lodstone inspect --origins`.

use std::io::Write;
use std::path::Path;

use lodstone::origins::{ConstantOrigin, OperatorOrigin, SourceOperator};
use lodstone::{ConvertOptions, Model, Origins};

use super::args::Inspect;
use super::tables;
use crate::Failure;
use crate::console::{self, plain};
use crate::paths::About;

/// Prints where the operators and constants of a model come from when it is exported to ONNX.
pub(super) fn run(model: &Model, path: &Path, arguments: &Inspect) -> Result<(), Failure> {
    let options = arguments.interface.add_to(ConvertOptions::default());
    let origins = Origins::of(model, &options)?;
    if arguments.json {
        return console::json(&About::new(path, &origins));
    }
    console::to_stdout(|out| {
        let header = ["operator", "kind", "source", "scope", "training"];
        let size = (origins.operators.len(), arguments.limit);
        tables::write(out, &header, &[], size, || origins.operators.iter().map(operator))?;
        writeln!(out)?;
        // Constants that depend on no parameter, such as shapes, have no origin.
        let constants = || origins.constants.iter().filter(|it| !it.parameters.is_empty());
        let header = ["constant", "made of", "invertible", "trainable"];
        let size = (constants().count(), arguments.limit);
        Ok(tables::write(out, &header, &[], size, || constants().map(constant))?)
    })
}

fn operator(operator: &OperatorOrigin) -> Vec<String> {
    let place = |source: &SourceOperator| {
        let program = if source.program == "main" { "" } else { "startup " };
        let block = if source.block == 0 { String::new() } else { format!("{}.", source.block) };
        let name = if source.name.is_empty() { "" } else { " " };
        format!("{program}#{block}{} {}{name}{}", source.number, source.kind, source.name)
    };
    let all = |of: &dyn Fn(&SourceOperator) -> String| {
        let texts = operator.sources.iter().map(of).filter(|text| !text.is_empty());
        let mut texts: Vec<String> = texts.collect();
        texts.dedup();
        plain(&texts.join("; "))
    };
    vec![
        plain(&operator.name),
        plain(&operator.kind),
        all(&place),
        all(&|source| source.scope.clone()),
        all(&training),
    ]
}

fn training(source: &SourceOperator) -> String {
    let number = |name: &str, value: Option<f64>| value.map(|value| format!("{name} {value}"));
    let facts = [
        number("dropout", source.dropout),
        source.mode.clone(),
        number("momentum", source.momentum),
        number("epsilon", source.epsilon),
        source.is_test.map(|is_test| if is_test { "test" } else { "train" }.to_owned()),
    ];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn constant(constant: &ConstantOrigin) -> Vec<String> {
    let recipe = match constant.recipe.as_str() {
        "" => constant.parameters.join(", "),
        recipe => recipe.to_owned(),
    };
    let word = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let trainable = constant.trainable.map_or_else(|| "-".to_owned(), word);
    vec![plain(&constant.name), plain(&recipe), word(constant.invertible), trainable]
}
