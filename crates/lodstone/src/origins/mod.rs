//! Where the operators and constants of an exported model come from.
//!
//! An export keeps it beside the program ([`Sources`](lodstone_model::Sources), [`Recipe`]); no file holds it. A recipe leads
//! from parameters of the source to a constant of the export, and, where its steps are invertible, back.

mod recipes;
#[cfg(feature = "runtime")]
mod restored;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{Model, Parameter, Programs, Recipe, Source, Var};
use lodstone_schema::{Conventions, conventions};
use serde::Serialize;

use crate::convert::{ConvertOptions, exported};
use crate::error::no_program;
use crate::names::similar;
use crate::{Error, Result};

pub use recipes::Step;

/// Where the operators and constants of a model, exported to ONNX, come from.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Origins {
    /// The version of this structure as JSON.
    pub schema: u32,
    /// The operators of the export, block by block, in their order.
    pub operators: Vec<OperatorOrigin>,
    /// The constants of the export, in its order.
    pub constants: Vec<ConstantOrigin>,
    /// The operators of the source that no operator of the export computes, with their places: they were folded into constants,
    /// return an operand unchanged, or compute what no output depends on.
    pub omitted: Vec<SourceOperator>,
    #[serde(skip)]
    model: Model,
}

/// An operator of an export.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OperatorOrigin {
    /// The index of its block.
    pub block: usize,
    /// Its index in the block.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The operators of the source that it computes; none for a copy that gives an output its name.
    pub sources: Vec<SourceOperator>,
}

/// An operator of the source.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SourceOperator {
    /// The program: `main` or `startup`.
    pub program: &'static str,
    /// The index of its block.
    pub block: usize,
    /// Its index in the block.
    pub number: usize,
    /// Its kind.
    pub kind: String,
    /// Its name, in frameworks that name operators; empty in others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The scope in which it was made, such as the path of its module; empty if the file does not record it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// The fraction of elements that a dropout drops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// How a dropout scales, or when it drops, by the framework's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The momentum of running statistics, in the framework's meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f64>,
    /// What a normalization adds to the variance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// Whether it behaves as in inference, if it records that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_test: Option<bool>,
}

/// A constant of an export.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ConstantOrigin {
    /// Its name.
    pub name: String,
    /// The parameters of the source that it depends on.
    pub parameters: Vec<String>,
    /// The steps from these parameters to the constant, the last one first; empty if the constant is a parameter, or depends on
    /// none.
    pub steps: Vec<Step>,
    /// The steps as an expression: `Transpose(fc_0.w_0, perm=[1, 0])`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub recipe: String,
    /// Whether the steps have an inverse.
    pub invertible: bool,
    /// Whether training changes one of the parameters, if the source records that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trainable: Option<bool>,
}

impl Origins {
    /// Exports a model to ONNX as [`convert`](crate::convert()) does with these options, without writing it, and returns
    /// where the operators and constants of the export come from.
    ///
    /// ```
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/golden/onnx_models/images.onnx");
    /// use lodstone::Origins;
    ///
    /// let model = lodstone::open(path)?;
    /// let origins = Origins::of(&model, &lodstone::ConvertOptions::default())?;
    /// let conv = &origins.operators[0];
    /// assert_eq!((&*conv.kind, &*conv.sources[0].kind), ("Conv", "Conv"));
    /// # Ok::<(), lodstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`convert`](crate::convert()).
    pub fn of(model: &Model, options: &ConvertOptions) -> Result<Self> {
        let source = model.main().ok_or_else(|| no_program(model))?;
        let known = conventions(source);
        let vars: HashMap<&str, &Var> = source.vars().map(|var| (var.name.as_str(), var)).collect();
        let trainable = |name: &str| {
            let var = vars.get(name).or_else(|| vars.get((known.variable_of)(name)))?;
            (known.var_properties)(var).trainable
        };
        let mut remembering = model.clone();
        remembering.remember();
        let all = [Programs::MAIN, Programs::STARTUP].map(|name| remembering.programs.get(name));
        let all = all.into_iter().flatten().flat_map(|program| program.ops());
        let all: Vec<Arc<Source>> = all.flat_map(|op| op.sources.iter().cloned()).collect();
        let model = exported(remembering, options)?;
        let program = model.main().ok_or_else(|| no_program(&model))?;
        let mut operators = Vec::new();
        for (block, it) in program.blocks.iter().enumerate() {
            for (number, op) in it.ops.iter().enumerate() {
                let (name, kind) = (op.name.clone(), op.kind.clone());
                let sources = op.sources.iter().map(|source| source_operator(source, known));
                let sources = sources.collect();
                operators.push(OperatorOrigin { block, number, name, kind, sources });
            }
        }
        let place = |source: &Source| (source.program, source.place);
        let computed = program.ops().flat_map(|op| op.sources.iter().map(|it| place(it)));
        let computed: HashSet<_> = computed.collect();
        let omitted = all.iter().filter(|source| !computed.contains(&place(source)));
        let omitted = omitted.map(|source| source_operator(source, known)).collect();
        let constant = |constant: &Parameter| constant_origin(constant, &trainable);
        let constants = constants(&model).into_iter().map(constant).collect();
        Ok(Self { schema: 1, operators, constants, omitted, model })
    }

    /// Returns the export.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the recipe of a constant; an empty one if the constant depends on no parameter of the source.
    ///
    /// # Errors
    /// If the export does not have the constant.
    pub fn recipe(&self, constant: &str) -> Result<&Recipe> {
        self.constant(constant).map(|found| &found.tensor.recipe)
    }

    fn constant(&self, name: &str) -> Result<&Parameter> {
        let all = || constants(&self.model).into_iter();
        let found = all().find(|constant| constant.name == name);
        found.ok_or_else(|| {
            let similar = similar(name, all().map(|constant| constant.name.as_str()));
            Error::NoSuchTensor { name: name.to_owned(), similar }
        })
    }
}

/// Returns the constants of a program: parameters, and initializers of subgraphs.
fn constants(model: &Model) -> Vec<&Parameter> {
    let blocks = model.main().into_iter().flat_map(|program| program.blocks.iter().skip(1));
    model.parameters.iter().chain(blocks.flat_map(|block| &block.initializers)).collect()
}

fn source_operator(source: &Source, known: &Conventions) -> SourceOperator {
    let training = (known.training)(&source.op);
    let (block, number) = source.place;
    SourceOperator {
        program: source.program,
        block,
        number,
        kind: source.op.kind.clone(),
        name: source.op.name.clone(),
        scope: (known.scope)(&source.op),
        dropout: training.dropout,
        mode: training.mode,
        momentum: training.momentum,
        epsilon: training.epsilon,
        is_test: training.is_test,
    }
}

fn constant_origin(
    constant: &Parameter,
    trainable: &dyn Fn(&str) -> Option<bool>,
) -> ConstantOrigin {
    let recipe = &constant.tensor.recipe;
    let found = recipes::summary(recipe);
    let mut seen = HashSet::new();
    let parameters = found.parameters.into_iter().filter(|name| seen.insert(name.clone()));
    let parameters: Vec<String> = parameters.collect();
    let flags: Vec<bool> = parameters.iter().filter_map(|name| trainable(name)).collect();
    ConstantOrigin {
        name: constant.name.clone(),
        steps: found.steps,
        recipe: found.text,
        invertible: found.invertible && !parameters.is_empty(),
        trainable: (!flags.is_empty()).then(|| flags.contains(&true)),
        parameters,
    }
}
