//! Building programs: a main and a startup program become a network, and are put back afterwards.

use std::sync::{Mutex, PoisonError};

use lodstone::DType;
use lodstone::paddle::program::layers::{self, Rate};
use lodstone::paddle::program::optimizer::Decay;
use lodstone::paddle::program::{
    self, Draft, Error, Initializer, Network, ParamAttr, Update, Variable,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::edit::Parts;
use super::{Program, State};
use crate::arguments::{Arguments, unknown};
use crate::errors::raise_program;
use crate::tensor::Tensor;

/// Generated names.
#[pyclass(frozen, module = "lodstone._lodstone")]
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<program::Names>);

impl Names {
    fn take(&self) -> program::Names {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, names: program::Names) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }
}

#[pymethods]
impl Names {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Generates a name: the base and a number.
    fn generate(&self, base: &str) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).generate(base)
    }

    /// Avoids the names of a program that was not built with generated names, such as one from a file.
    fn avoid(&self, program: &Bound<'_, Program>) -> PyResult<()> {
        program.get().with(|state| {
            if !state.is_drafted() {
                let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                names.avoid(&state.program);
            }
        })
    }
}

/// The programs of a network, and the generator of its names.
#[derive(FromPyObject)]
pub(crate) struct Parents<'py>(Bound<'py, Program>, Bound<'py, Program>, Bound<'py, Names>);

/// A network while it is built; its parts are put back when it is dropped.
pub(super) struct Building<'p> {
    main: &'p Program,
    startup: &'p Program,
    names: &'p Names,
    net: Network,
}

impl Parents<'_> {
    pub(super) fn building(&self) -> PyResult<Building<'_>> {
        let (main, startup, names) = (self.0.get(), self.1.get(), self.2.get());
        Ok(Building { main, startup, names, net: taken(main, startup, names)? })
    }

    /// Calls a function with the network.
    pub(super) fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Network) -> program::Result<T>,
    ) -> PyResult<T> {
        work(&mut self.building()?.net).map_err(|error| raise_program(py, error))
    }
}

/// Makes a network of two programs.
fn taken(main: &Program, startup: &Program, names: &Names) -> PyResult<Network> {
    let main_state = main.take()?;
    let startup_state = match startup.take() {
        Ok(state) => state,
        Err(error) => {
            main.put(main_state);
            return Err(error);
        }
    };
    let names = names.take();
    let is_drafted = main_state.is_drafted();
    let State { program, mut draft, .. } = main_state;
    if !is_drafted {
        draft = draft.renewed(&program);
    }
    Ok(Network::of(program, startup_state.program, names, draft))
}

/// Puts the parts of a network back.
fn returned(net: Network, main: &Program, startup: &Program, names: &Names) {
    let (program, begun, generated, draft) = net.into_parts();
    names.put(generated);
    let drafted = Some(program.revision());
    main.put(State { program, draft, drafted });
    startup.put(State { program: begun, draft: Draft::default(), drafted: None });
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        returned(std::mem::take(&mut self.net), self.main, self.startup, self.names);
    }
}

/// Calls a Python function of variables that builds a part of a network, which is put back meanwhile; returns the variables
/// that it makes. In Python, variables are names.
struct Callback<'c, 'p> {
    parents: (&'p Program, &'p Program, &'p Names),
    function: &'c Bound<'p, PyAny>,
    /// The exception of the function.
    raised: &'c Mutex<Option<PyErr>>,
}

impl Callback<'_, '_> {
    fn call(&self, net: &mut Network, given: &[Variable]) -> program::Result<Vec<Variable>> {
        let (main, startup, names) = self.parents;
        returned(std::mem::take(net), main, startup, names);
        let given: Vec<String> = given.iter().map(name).collect();
        let made = self.function.call1((given,)).and_then(|made| made.extract::<Vec<String>>());
        match taken(main, startup, names).and_then(|again| {
            *net = again;
            made
        }) {
            Ok(made) => Ok(made.iter().map(|name| Variable::named(name)).collect()),
            Err(error) => {
                *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(failed("it raised an exception"))
            }
        }
    }
}

/// The error of a function of Python that builds a part of a network.
fn failed(what: &str) -> Error {
    Error::Variable { name: "cond".to_owned(), finding: what.into() }
}

/// Runs work with callbacks, and returns the exception of the first that fails.
fn with_callbacks<'py, T>(
    py: Python<'py>,
    parents: &Parents<'py>,
    work: impl FnOnce(
        &mut Network,
        &dyn Fn(&mut Network, &Bound<'py, PyAny>, &[Variable]) -> program::Result<Vec<Variable>>,
    ) -> program::Result<T>,
) -> PyResult<T> {
    let raised = Mutex::new(None);
    let programs = (parents.0.get(), parents.1.get(), parents.2.get());
    let call = |net: &mut Network, function: &Bound<'py, PyAny>, given: &[Variable]| {
        Callback { parents: programs, function, raised: &raised }.call(net, given)
    };
    let result = work(&mut parents.building()?.net, &call);
    let raised = raised.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (result, raised) {
        (_, Some(error)) => Err(error),
        (result, None) => result.map_err(|error| raise_program(py, error)),
    }
}

fn name(variable: &Variable) -> String {
    variable.name().to_owned()
}

pub(super) fn variables(names: &[String]) -> Vec<Variable> {
    names.iter().map(|name| Variable::named(name)).collect()
}

/// The element type called `name`.
pub(super) fn dtype(name: &str) -> PyResult<DType> {
    DType::from_name(name).ok_or_else(|| unknown("dtype", name))
}

/// Appends an operator to a block; undeclared outputs are declared with the types that follow from the inputs.
#[pyfunction]
pub(crate) fn call_layer(
    py: Python<'_>,
    network: Parents<'_>,
    block: Option<usize>,
    operator: Parts<'_>,
) -> PyResult<()> {
    let operator = operator.builder()?;
    network.with(py, |net| match block {
        None => net.append(operator),
        Some(block) => net.append_to(block, operator),
    })
}

/// Declares an input of the program.
#[pyfunction]
pub(crate) fn declare_data(
    py: Python<'_>,
    network: Parents<'_>,
    name: &str,
    shape: Vec<i64>,
    dtype: &str,
    lod_level: u32,
) -> PyResult<()> {
    let dims = shape.into_iter().map(super::edit::dim).collect::<PyResult<Vec<_>>>()?;
    let sizes: Vec<Option<u64>> = dims
        .iter()
        .map(|dim| match dim {
            lodstone::Dim::Known(size) => Some(*size),
            _ => None,
        })
        .collect();
    let dtype = self::dtype(dtype)?;
    network.with(py, |net| {
        layers::sequence_data(net, name, &sizes, dtype, lod_level);
        Ok(())
    })
}

/// Adds a parameter, or a persistable variable that is not trained.
#[pyfunction]
pub(crate) fn declare_parameter(
    py: Python<'_>,
    network: Parents<'_>,
    base: &str,
    dtype: &str,
    shape: Vec<u64>,
    facts: Arguments<'_>,
) -> PyResult<String> {
    let attr = ParamAttr {
        name: facts.get("name")?,
        initializer: None,
        trainable: facts.get("trainable")?,
        update: Update {
            learning_rate: facts.get("learning_rate")?,
            decay: decay(facts.get("regularizer")?)?,
            clips: facts.get("need_clip")?,
        },
    };
    let initializer = initializer(&facts.get("initializer")?)?;
    let dtype = self::dtype(dtype)?;
    let is_state: bool = facts.get("is_state")?;
    let made = network.with(py, |net| match is_state {
        true => net.untrained(&attr, base, dtype, &shape, initializer),
        false => net.parameter(&attr, base, dtype, &shape, initializer),
    })?;
    Ok(name(&made))
}

/// A weight decay: its kind and its coefficient.
pub(super) fn decay(given: Option<(String, f32)>) -> PyResult<Option<Decay>> {
    Ok(match given.as_ref().map(|(kind, share)| (kind.as_str(), *share)) {
        None => None,
        Some(("l1", share)) => Some(Decay::L1(share)),
        Some(("l2", share)) => Some(Decay::L2(share)),
        Some((kind, _)) => return Err(unknown("regularizer", kind)),
    })
}

/// An initializer: its kind and its arguments.
fn initializer(facts: &Arguments<'_>) -> PyResult<Initializer> {
    let kind: String = facts.get("kind")?;
    let seed = || facts.get::<i32>("seed");
    Ok(match kind.as_str() {
        "constant" => Initializer::Constant(facts.get("value")?),
        "uniform" => {
            Initializer::Uniform { low: facts.get("low")?, high: facts.get("high")?, seed: seed()? }
        }
        "normal" => Initializer::Normal {
            mean: facts.get("loc")?,
            deviation: facts.get("scale")?,
            seed: seed()?,
        },
        "truncated_normal" => Initializer::TruncatedNormal {
            mean: facts.get("loc")?,
            deviation: facts.get("scale")?,
            seed: seed()?,
        },
        "xavier" => Initializer::Xavier { seed: seed()? },
        "xavier_normal" => Initializer::XavierNormal { seed: seed()? },
        "kaiming" => Initializer::Kaiming { seed: seed()? },
        "kaiming_uniform" => Initializer::KaimingUniform { seed: seed()? },
        "bilinear" => Initializer::Bilinear,
        "given" => {
            let tensor: Bound<'_, Tensor> = facts.get("value")?;
            Initializer::Given(tensor.get().tensor().clone())
        }
        other => return Err(unknown("initializer", other)),
    })
}

/// Opens a block inside the current one; returns its index.
#[pyfunction]
pub(crate) fn begin_block(py: Python<'_>, network: Parents<'_>) -> PyResult<usize> {
    network.with(py, Network::begin_block)
}

/// Removes an open block, and all blocks inside it.
#[pyfunction]
pub(crate) fn discard_block(py: Python<'_>, network: Parents<'_>, block: usize) -> PyResult<()> {
    network.with(py, |net| {
        net.discard_block(block);
        Ok(())
    })
}

/// Closes the current block, and appends the operator that runs it: a `while`, or a `conditional_block`, whose condition
/// may be a mask.
#[pyfunction]
pub(crate) fn append_block(
    py: Python<'_>,
    network: Parents<'_>,
    kind: &str,
    condition: &str,
    is_test: bool,
) -> PyResult<()> {
    let condition = Variable::named(condition);
    let append: fn(&mut Network, &Variable, usize, bool) -> program::Result<()> = match kind {
        "while" => Network::append_while,
        "conditional_block" => {
            |net, condition, block, _| net.append_conditional_block(condition, block)
        }
        "masked_block" => |net, mask, block, _| net.append_masked_block(mask, block),
        other => return Err(unknown("kind", other)),
    };
    network.with(py, |net| {
        let block = net.end_block();
        let appended = append(net, &condition, block, is_test);
        if appended.is_err() {
            net.discard_block(block);
        }
        appended
    })
}

/// Appends two branches, built by functions of no variables that return names; returns the names of the results.
#[pyfunction]
pub(crate) fn cond<'py>(
    py: Python<'py>,
    network: Parents<'py>,
    condition: &str,
    yes: Bound<'py, PyAny>,
    no: Bound<'py, PyAny>,
) -> PyResult<Vec<String>> {
    let condition = Variable::named(condition);
    let made = with_callbacks(py, &network, |net, call| {
        layers::cond(net, &condition, |net| call(net, &yes, &[]), |net| call(net, &no, &[]))
    })?;
    Ok(made.iter().map(name).collect())
}

/// Appends a loop over variables, whose test and body are functions of their names that return names.
#[pyfunction]
pub(crate) fn while_loop<'py>(
    py: Python<'py>,
    network: Parents<'py>,
    variables: Vec<String>,
    is_test: bool,
    test: Bound<'py, PyAny>,
    body: Bound<'py, PyAny>,
) -> PyResult<()> {
    let variables = self::variables(&variables);
    with_callbacks(py, &network, |net, call| {
        layers::while_loop(
            net,
            &variables,
            is_test,
            |net, given| {
                let made = call(net, &test, given)?;
                made.into_iter().next().ok_or_else(|| failed("the condition returned no variable"))
            },
            |net, given| call(net, &body, given),
        )
    })
}

/// Appends the gradients of a loss; returns each parameter with its gradient.
#[pyfunction]
pub(crate) fn append_backward(
    py: Python<'_>,
    network: Parents<'_>,
    loss: &str,
    no_grad: Vec<String>,
) -> PyResult<Vec<(String, String)>> {
    let (loss, no_grad) = (Variable::named(loss), variables(&no_grad));
    let pairs = network.with(py, |net| net.append_backward(&loss, &no_grad))?;
    Ok(pairs.iter().map(|(a, b)| (name(a), name(b))).collect())
}

/// Appends the gradients of a single number with respect to variables; returns them, `None` for those it does not depend on.
#[pyfunction]
pub(crate) fn gradients(
    py: Python<'_>,
    network: Parents<'_>,
    target: &str,
    inputs: Vec<String>,
    no_grad: Vec<String>,
) -> PyResult<Vec<Option<String>>> {
    let (target, inputs) = (Variable::named(target), variables(&inputs));
    let no_grad = variables(&no_grad);
    let made = network.with(py, |net| net.gradients(&target, &inputs, &no_grad))?;
    Ok(made.iter().map(|gradient| gradient.as_ref().map(name)).collect())
}

/// Appends a schedule of learning rates; returns the name of the rate.
#[pyfunction]
pub(crate) fn schedule(
    py: Python<'_>,
    network: Parents<'_>,
    kind: &str,
    facts: Arguments<'_>,
) -> PyResult<String> {
    let number = |name: &str| facts.get::<f64>(name);
    let count = |name: &str| facts.get::<u64>(name);
    let flag = |name: &str| facts.get::<bool>(name);
    let made = match kind {
        "noam" => {
            let (size, warmup, rate) =
                (count("d_model")?, count("warmup_steps")?, number("learning_rate")?);
            network.with(py, |net| layers::noam_decay(net, size, warmup, rate))
        }
        "exponential" | "natural_exp" | "inverse_time" => {
            let (rate, steps) = (number("learning_rate")?, count("decay_steps")?);
            let (decay, staircase) = (number("decay_rate")?, flag("staircase")?);
            let schedule = match kind {
                "exponential" => layers::exponential_decay,
                "natural_exp" => layers::natural_exp_decay,
                _ => layers::inverse_time_decay,
            };
            network.with(py, |net| schedule(net, rate, steps, decay, staircase))
        }
        "polynomial" => {
            let (rate, steps) = (number("learning_rate")?, count("decay_steps")?);
            let (end, power, cycle) =
                (number("end_learning_rate")?, number("power")?, flag("cycle")?);
            network.with(py, |net| layers::polynomial_decay(net, rate, steps, end, power, cycle))
        }
        "piecewise" => {
            let (bounds, rates): (Vec<u64>, Vec<f64>) =
                (facts.get("boundaries")?, facts.get("values")?);
            network.with(py, |net| layers::piecewise_decay(net, &bounds, &rates))
        }
        "cosine" => {
            let (rate, steps, epochs) =
                (number("learning_rate")?, count("step_each_epoch")?, count("epochs")?);
            network.with(py, |net| layers::cosine_decay(net, rate, steps, epochs))
        }
        "warmup" => {
            let rate = rate(&facts.get("learning_rate")?)?;
            let (steps, start, end) =
                (count("warmup_steps")?, number("start_lr")?, number("end_lr")?);
            network.with(py, |net| layers::linear_lr_warmup(net, rate, steps, start, end))
        }
        other => Err(unknown("kind", other)),
    }?;
    Ok(name(&made))
}

/// A learning rate: a number, or the name of a variable.
pub(super) fn rate(given: &Bound<'_, PyAny>) -> PyResult<Rate> {
    if let Ok(name) = given.extract::<String>() {
        return Ok(Rate::Variable(Variable::named(&name)));
    }
    let rate = given.extract::<f64>();
    let rate = rate.map_err(|_| {
        PyTypeError::new_err("argument 'learning_rate': expected a number or a variable")
    })?;
    match rate.is_finite() {
        true => Ok(Rate::Number(rate)),
        false => Err(PyValueError::new_err(format!(
            "argument 'learning_rate': expected a finite number, found {rate}"
        ))),
    }
}
