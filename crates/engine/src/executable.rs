//! Whole ONNX models: any operator version, functions, any input types.
//!
//! | step | when |
//! |---|---|
//! | operators are upgraded to the newest opset, functions are inlined | once |
//! | constants are folded, within limits | once |
//! | types are inferred, shapes folded, operators planned | for each set of input types |
//! | subgraphs are planned | for each set of their input types, when they run |

use std::collections::{HashMap, HashSet};
use std::fmt;

use lodstone_model::{Dialect, Model, Op, Topology, ValueType};
use lodstone_schema::onnx::infer::{self, Inference, infer, merged_types, show_type};
use lodstone_schema::onnx::simplify::{Bounds, simplify};
use lodstone_schema::onnx::{UpgradeError, inline, newest_opset, place_of, quoted, upgrade_with};
use lodstone_schema::{Finding, Findings};

use crate::budget::Charge;
use crate::context::Context;
use crate::control::{Control, Routine};
use crate::error::{Error, Result};
use crate::evaluate::Planning;
use crate::kernels::{operator, unsupported};
use crate::plan::Mode;
use crate::quantized;
use crate::value::Value;

/// The minimum limit on folded constants, in bytes. Constants that only depend on constants of the model are folded up to
/// this size, or up to the size of the model's own constants if that is larger.
const MIN_FOLDED: u64 = 64 << 20;

/// Options for an [`Executable`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExecutableOptions {
    /// The execution mode.
    pub mode: Mode,
    /// The values of the main graph that a run returns; if empty, the outputs of the graph.
    pub outputs: Vec<String>,
    /// Inputs that a [`Session`] keeps from run to run.
    pub states: Vec<State>,
}

lodstone_model::with_fields!(ExecutableOptions {
    with_mode(mode: Mode),
    with_outputs(outputs: Vec<String>),
    with_states(states: Vec<State>),
});

/// A state of a model: an input whose next value the program computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The name of the input. Its first value is the constant of the same name.
    pub input: String,
    /// The name of the value of the main graph that holds the next state.
    pub output: String,
}

/// A model that is ready to run any number of times, on several threads at once.
///
/// It keeps no state: a run starts with the first value of each [`State`]. A [`Session`] continues from its last run.
pub struct Executable {
    routine: Routine,
    inputs: Vec<Input>,
    outputs: Vec<String>,
    /// The indices of the inputs that are states; their outputs follow the others, in this order.
    states: Vec<usize>,
    /// The charge for folded constants.
    _folded: Charge,
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<&str> = self.inputs().collect();
        f.debug_struct("Executable")
            .field("inputs", &inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

/// An input of the main graph.
struct Input {
    name: String,
    declared: ValueType,
    /// The constant of the same name, if any.
    default: Option<Value>,
}

impl Executable {
    /// Prepares the main program of a model.
    ///
    /// # Errors
    /// If the program is not ONNX or is inconsistent, if operators are not supported (the error lists all of them), or if
    /// a value that the options name does not exist.
    pub fn new(model: &Model, options: &ExecutableOptions, context: Context<'_>) -> Result<Self> {
        let model = upgraded(model)?;
        let program = model.main().ok_or_else(|| Finding::from("the model has no program"))?;
        let mut program = inline(program)?.into_topology();
        let (inputs, outputs) = interface(&mut program, &model, options)?;
        let states = options.states.iter().map(|state| {
            let at = inputs.iter().position(|input| input.name == state.input);
            at.filter(|at| inputs.get(*at).is_some_and(|input| input.default.is_some()))
        });
        let states = states.collect::<Option<Vec<_>>>();
        let states =
            states.ok_or_else(|| Finding::from("a state is not an input with a first value"))?;
        let mut folded = 0;
        if options.mode == Mode::Fast {
            quantized::rewrite(&mut program)?;
            folded = fold(&mut program, context)?;
        }
        check_computed(&program)?;
        let routine = Routine::new(program.into(), options.mode);
        Ok(Self { routine, inputs, outputs, states, _folded: context.budget.charge(folded) })
    }

    /// Returns the names of the inputs, including those with defaults.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input.name.as_str())
    }

    /// Returns the names of the outputs.
    pub fn outputs(&self) -> &[String] {
        &self.outputs
    }

    /// Computes the outputs from inputs by name. Inputs that are also constants of the model are optional.
    ///
    /// # Errors
    /// If an input is missing, unknown, or of another type than the model declares; if an operator fails, the budget or
    /// the step limit is exceeded, or the run is cancelled.
    pub fn run(&self, inputs: Vec<(&str, Value)>, context: Context<'_>) -> Result<Vec<Value>> {
        let mut made = self.run_from(inputs, &[], context)?;
        made.truncate(self.outputs.len());
        Ok(made)
    }

    /// Runs from the given state values; returns the next ones after the outputs.
    fn run_from(
        &self,
        inputs: Vec<(&str, Value)>,
        states: &[Value],
        context: Context<'_>,
    ) -> Result<Vec<Value>> {
        let mut given: HashMap<&str, Value> = HashMap::new();
        for (name, value) in inputs {
            if !self.inputs().any(|known| known == name) {
                let known: Vec<String> = self.inputs().map(quoted).collect();
                let wrong = format!("there is no such input; there are {}", known.join(", "));
                return Err(Error::Input(name.to_owned(), wrong.into()));
            }
            if given.insert(name, value).is_some() {
                return Err(Error::Input(name.to_owned(), "it is given twice".into()));
            }
        }
        let mut values = Vec::with_capacity(self.inputs.len());
        for (at, input) in self.inputs.iter().enumerate() {
            let kept = self.states.iter().position(|state| *state == at);
            let kept = kept.and_then(|kept| states.get(kept)).cloned();
            let value = given.remove(input.name.as_str()).or(kept);
            let value = value.or_else(|| input.default.clone());
            let failed = |finding| Error::Input(input.name.clone(), finding);
            let value = value.ok_or_else(|| failed("it is missing".into()))?;
            let value = input.optional(value);
            input.check(&value).map_err(failed)?;
            values.push(value);
        }
        self.routine.run(values, context)
    }
}

/// A sequence of runs of a model that carries states from one run to the next.
#[derive(Debug)]
pub struct Session<'e> {
    executable: &'e Executable,
    states: Vec<Value>,
}

impl<'e> Session<'e> {
    /// Creates a session that starts with the first value of each state.
    pub fn new(executable: &'e Executable) -> Self {
        Self { executable, states: Vec::new() }
    }

    /// Computes the outputs of the executable, and updates the states.
    ///
    /// # Errors
    /// The errors of [`Executable::run`]. The states are then unchanged.
    pub fn run(&mut self, inputs: Vec<(&str, Value)>, context: Context<'_>) -> Result<Vec<Value>> {
        let mut made = self.executable.run_from(inputs, &self.states, context)?;
        self.states = made.split_off(self.executable.outputs.len().min(made.len()));
        Ok(made)
    }
}

impl Input {
    /// Wraps the value of an input that is declared as optional.
    fn optional(&self, value: Value) -> Value {
        match (&self.declared, value) {
            (ValueType::Optional(_), value @ Value::Optional(_)) => value,
            (ValueType::Optional(_), value) => Value::Optional(Some(Box::new(value))),
            (_, value) => value,
        }
    }

    /// Fails if a value does not have the type that the model declares.
    fn check(&self, value: &Value) -> std::result::Result<(), Finding> {
        let found = value.value_type()?;
        match merged_types(&self.declared, &found) {
            Some(_) => Ok(()),
            None => {
                let (expected, found) = (show_type(&self.declared), show_type(&found));
                Err(format!("expected {expected}, found {found}").into())
            }
        }
    }
}

/// Returns the model with the newest ONNX operators, which the kernels compute.
///
/// # Errors
/// If the program is not ONNX, or operators have no equivalent or unknown attributes: [`Error::Operators`] lists them.
pub fn upgraded(model: &Model) -> Result<Model> {
    let is_onnx = model.main().is_some_and(|program| program.dialect == Dialect::Onnx);
    if !is_onnx {
        return Err(Finding::from("expected an ONNX program").into());
    }
    let mut model = model.clone();
    // The upgrade must be valid for every value that a run may pass.
    let inference = infer(&model, &infer::Options::default().with_overridable(true));
    let types = |values: &HashMap<String, infer::ValueInfo>| {
        values.iter().map(|(name, info)| (name.clone(), info.value.clone())).collect()
    };
    let types: Vec<_> = inference.blocks.iter().map(types).collect();
    let target = newest_opset("").ok_or_else(|| Finding::internal("ONNX has no operators"))?;
    match upgrade_with(&mut model, target, &types) {
        // A program without operators of the default domain has nothing to upgrade.
        Ok(()) | Err(UpgradeError::NoOperators) => Ok(model),
        Err(UpgradeError::Operators(findings) | UpgradeError::Invalid(findings)) => {
            Err(Error::Operators(findings))
        }
        Err(other) => Err(Finding::from(other.to_string()).into()),
    }
}

/// Turns the constants of the model into initializers of the main graph, except for those that are inputs, and the values
/// that a run returns into its outputs. Returns the inputs and the output names.
fn interface(
    program: &mut Topology,
    model: &Model,
    options: &ExecutableOptions,
) -> Result<(Vec<Input>, Vec<String>)> {
    // Up to IR version 3, all constants are inputs.
    let is_old = program.version.is_some_and(|version| version < 4);
    let main = program.blocks.first_mut();
    let main = main.ok_or_else(|| Finding::from("the program has no graph"))?;
    main.initializers = model.parameters.clone();
    let is_state = |name: &String| options.states.iter().any(|state| state.input == *name);
    if is_old {
        let constants: HashSet<&str> =
            main.initializers.iter().map(|constant| constant.name.as_str()).collect();
        main.inputs.retain(|name| !constants.contains(name.as_str()) || is_state(name));
    }
    let mut inputs = Vec::new();
    for name in &main.inputs {
        let declared = main.vars.iter().find(|var| var.name == *name);
        let declared = declared.map(|var| var.value.clone()).unwrap_or_default();
        let constant = main.initializers.iter().find(|constant| constant.name == *name);
        let default = constant.map(|constant| Value::of(&constant.tensor)).transpose()?;
        inputs.push(Input { name: name.clone(), declared, default });
    }
    let names: HashSet<&String> = main.inputs.iter().collect();
    main.initializers.retain(|constant| !names.contains(&constant.name));
    if !options.outputs.is_empty() {
        main.outputs.clone_from(&options.outputs);
    }
    let outputs = main.outputs.clone();
    main.outputs.extend(options.states.iter().map(|state| state.output.clone()));
    let constants = main.initializers.iter().map(|constant| constant.name.as_str());
    let written = main.ops.iter().flat_map(Op::writes).chain(constants);
    let there: HashSet<&str> = written.chain(main.inputs.iter().map(String::as_str)).collect();
    match main.outputs.iter().find(|name| !there.contains(name.as_str())) {
        Some(name) => Err(Finding::from(format!("there is no value {}", quoted(name))).into()),
        None => Ok((inputs, outputs)),
    }
}

/// Folds values that depend on constants alone; returns their size in bytes.
fn fold(program: &mut Topology, context: Context<'_>) -> Result<u64> {
    let main = program.blocks.first();
    let constants = main.iter().flat_map(|main| &main.initializers);
    let own = constants.map(|constant| constant.tensor.data.len()).fold(0, u64::saturating_add);
    let most = own.max(MIN_FOLDED).min(context.budget.left());
    let mut model = Model::default();
    model.set_main(std::mem::replace(program, Topology::new(Dialect::Onnx)).into());
    let Inference { blocks, .. } = infer(&model, &infer::Options::default());
    let source = model.main().ok_or_else(|| Finding::internal("a model has no program"))?;
    let bounds = Bounds { each: most, all: most };
    let simple = simplify(source, &[], &blocks, &Planning(context), bounds)?;
    *program = simple.program.into_topology();
    if let Some(main) = program.blocks.first_mut() {
        main.initializers = simple.parameters;
    }
    Ok(simple.folded)
}

/// Returns whether the engine computes an ONNX operator.
pub fn is_computed(domain: &str, kind: &str) -> bool {
    operator(domain, kind).is_some() || Control::kind(domain, kind).is_some()
}

/// Fails with the list of all operators that have no kernel.
fn check_computed(program: &Topology) -> Result<()> {
    let mut findings = Findings::default();
    for (number, block) in program.blocks.iter().enumerate() {
        let place = match number {
            0 => "the graph".to_owned(),
            _ => format!("the subgraph {}", quoted(&block.name)),
        };
        for (at, op) in block.ops.iter().enumerate() {
            if !is_computed(&op.domain, &op.kind) {
                let domain = lodstone_schema::onnx::domain_name(&op.domain);
                let why = unsupported(&op.domain, &op.kind);
                let wrong = format!("operator {} of {domain} {why}", quoted(&op.kind));
                findings.add(place_of(&place, at, op), wrong);
            }
        }
    }
    match findings.is_empty() {
        true => Ok(()),
        false => Err(Error::Operators(findings)),
    }
}
