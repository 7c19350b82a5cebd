//! Properties of tensors and variables beside their types.

use std::collections::HashMap;

use lodstone_formats::context;
use lodstone_model::{Block, Model, Parameter, Program, Quantization, Tensor, Var};
use lodstone_schema::{Conventions, Properties, conventions};
use serde::{Serialize, Serializer};

/// Returns what the files record about a tensor of a model beside its type: layout, quantization, whether it is
/// trainable, its device.
pub fn properties(model: &Model, parameter: &Parameter) -> Properties {
    let program = model.main();
    let var = program.and_then(|program| {
        let name = (conventions(program).variable_of)(&parameter.name);
        variables(program).find(|var| var.name == name)
    });
    of_tensor(program.map(conventions), &parameter.tensor, var)
}

/// The variables of a block by name, for the properties of many tensors and values.
#[derive(Default)]
pub(super) struct Variables<'a> {
    conventions: Option<&'static Conventions>,
    by_name: HashMap<&'a str, &'a Var>,
}

impl<'a> Variables<'a> {
    /// Indexes the variables that parameters, inputs and outputs of a program belong to.
    pub(super) fn of(program: &'a Program) -> Self {
        Self::new(program, variables(program))
    }

    pub(super) fn of_block(program: &'a Program, block: &'a Block) -> Self {
        Self::new(program, block.vars.iter())
    }

    fn new(program: &'a Program, vars: impl Iterator<Item = &'a Var>) -> Self {
        let by_name = vars.map(|var| (var.name.as_str(), var)).collect();
        Self { conventions: Some(conventions(program)), by_name }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Var> {
        self.by_name.get(name).copied()
    }

    /// Returns the properties of a variable, by its declaration.
    pub(super) fn properties(&self, name: &str) -> Properties {
        of_var(self.conventions, self.get(name))
    }

    /// Returns the properties of a tensor, and of the variable that it belongs to.
    pub(super) fn tensor_properties(&self, Parameter { name, tensor }: &Parameter) -> Properties {
        let name = self.conventions.map_or(name.as_str(), |it| (it.variable_of)(name));
        of_tensor(self.conventions, tensor, self.get(name))
    }
}

/// Returns the variables that parameters belong to, and that are inputs and outputs: those of the first block.
fn variables(program: &Program) -> impl Iterator<Item = &Var> {
    program.blocks.iter().take(1).flat_map(|block| &block.vars)
}

fn of_tensor(conventions: Option<&Conventions>, tensor: &Tensor, var: Option<&Var>) -> Properties {
    let own = conventions.map_or_else(Properties::default, |it| (it.tensor_properties)(tensor));
    Properties { context: context(tensor), ..own.or(of_var(conventions, var)) }
}

fn of_var(conventions: Option<&Conventions>, var: Option<&Var>) -> Properties {
    let Some((conventions, var)) = conventions.zip(var) else { return Properties::default() };
    let typed = var.value.tensor_type().map_or_else(Properties::default, Properties::from);
    (conventions.var_properties)(var).or(typed)
}

/// Properties as JSON: those without a value are left out.
#[derive(Debug)]
pub struct PropertyKeys<'a>(pub &'a Properties);

impl Serialize for PropertyKeys<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}

pub(super) fn serialize<S: Serializer>(
    properties: &Properties,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Keys<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        layout: &'a Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        strides: &'a Option<Vec<i64>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        quantization: Option<QuantizationKeys<'a>>,
        #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
        is_static: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        trainable: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        context: &'a Option<String>,
    }
    let Properties { layout, strides, is_static, trainable, context, .. } = properties;
    let quantization = properties.quantization.as_ref().map(QuantizationKeys::from);
    let (is_static, trainable) = (*is_static, *trainable);
    Keys { layout, strides, quantization, is_static, trainable, context }.serialize(serializer)
}

#[derive(Serialize)]
struct QuantizationKeys<'a> {
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    scales: &'a [f64],
    #[serde(skip_serializing_if = "<[i64]>::is_empty")]
    zero_points: &'a [i64],
    #[serde(skip_serializing_if = "Option::is_none")]
    axis: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packing: Option<String>,
}

impl<'a> From<&'a Quantization> for QuantizationKeys<'a> {
    fn from(quantization: &'a Quantization) -> Self {
        let Quantization { scales, zero_points, axis, packing } = quantization;
        Self { scales, zero_points, axis: *axis, packing: packing.map(|it| it.to_string()) }
    }
}
