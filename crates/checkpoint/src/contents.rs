//! What is saved: tensors by name, and the programs that they belong to.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use lodstone_formats::paddle::program;
use lodstone_model::{DType, Dim, Op, Parameter, Program, TensorType, Var};
use lodstone_paddle::executor::{RANDOM_STATE, Scope};
use lodstone_paddle::program::{LoadOptions, Placement, SCHEDULES, role};
use lodstone_schema::paddle::with_stop_gradient;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::loader::{build_checkpoint_loader, check_ends, check_loader, is_checkpointed};
use crate::manifest::Programs;

/// What checkpoints of a program contain: found out once, and then saved again and again.
#[derive(Clone, Debug)]
pub struct Contents(Arc<Found>);

#[derive(Debug)]
pub(crate) struct Found {
    /// Sorted by name.
    vars: Vec<Var>,
    startup: Program,
    pub(crate) programs: Programs,
    pub(crate) schedule: Vec<String>,
}

/// The values of variables at one moment. Their bytes are shared with the scope that they come from, which gets
/// others when it changes: so taking one copies nothing.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Sorted by name.
    pub(crate) tensors: Vec<Parameter>,
    pub(crate) contents: Option<Contents>,
    pub(crate) metadata: BTreeMap<String, Value>,
}

impl Contents {
    /// What of a main program and its startup program is saved: the variables that
    /// [outlive runs](is_checkpointed) and that the predicate says yes to, and the state of the random numbers.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if there is a variable that is neither saved nor begins with the startup program;
    /// [`Error::Loop`] if what is left of that has a loop.
    pub fn of(
        main: &Program,
        startup: &Program,
        predicate: Option<&dyn Fn(&Var) -> bool>,
    ) -> Result<Self> {
        // The state of random numbers is in it whether or not the program has a variable for it.
        let takes = |var: &&Var| {
            is_checkpointed(var)
                && var.name != RANDOM_STATE
                && predicate.is_none_or(|predicate| predicate(var))
        };
        let vars: BTreeMap<&str, &Var> =
            main.vars().filter(takes).map(|var| (var.name.as_str(), var)).collect();
        let found = Found {
            vars: vars.into_values().cloned().collect(),
            startup: startup.clone(),
            programs: Programs { main: Some(hash(main)?), startup: Some(hash(startup)?) },
            schedule: schedule(main),
        };
        let loader = build_checkpoint_loader(&found.vars, Some(startup), &LoadOptions::default())?;
        check_ends(&loader)?;
        check_loader(&loader, main)?;
        Ok(Self(Arc::new(found)))
    }

    /// The values of the variables as a scope has them now.
    ///
    /// # Errors
    /// If one has none, or is no tensor.
    pub fn snapshot(&self, scope: &Scope) -> Result<Snapshot> {
        let value = |name: &str| {
            let tensor = scope.tensor(name).ok_or_else(|| Error::Variable {
                name: name.to_owned(),
                what: "the scope has no tensor of this name",
            })?;
            Ok(Parameter { name: name.to_owned(), tensor: tensor.clone() })
        };
        let mut names: Vec<&str> = self.0.vars.iter().map(|var| var.name.as_str()).collect();
        if scope.tensor(RANDOM_STATE).is_some() {
            names.push(RANDOM_STATE);
            names.sort_unstable();
        }
        let tensors = names.into_iter().map(value).collect::<Result<_>>()?;
        Ok(Snapshot { tensors, contents: Some(self.clone()), metadata: BTreeMap::new() })
    }

    pub(crate) fn found(&self) -> &Found {
        &self.0
    }

    /// The loader of these variables, and of the random state if the records of the file include it.
    pub(crate) fn loader(
        &self,
        records: Vec<String>,
        placement: Option<Placement>,
    ) -> Result<Program> {
        let mut vars = self.0.vars.clone();
        if records.iter().any(|record| record == RANDOM_STATE) {
            vars.push(random_state());
        }
        let Some(placement) = placement else {
            return initialisers(&vars, &self.0.startup);
        };
        let options = LoadOptions::default().with_placement(placement).with_records(Some(records));
        build_checkpoint_loader(&vars, Some(&self.0.startup), &options)
    }
}

/// What a loader does before it loads.
fn initialisers(vars: &[Var], startup: &Program) -> Result<Program> {
    let mut loader = build_checkpoint_loader(vars, Some(startup), &LoadOptions::default())?;
    crate::loader::without_loads(&mut loader);
    Ok(loader)
}

/// The state of random numbers, as a program declares it: seed and counter.
pub(crate) fn random_state() -> Var {
    let shape = Some(vec![Dim::Known(2)]);
    let value = TensorType::new(DType::Int64, shape).into();
    let (name, persistable) = (RANDOM_STATE.to_owned(), true);
    with_stop_gradient(Var { name, value, persistable, ..Var::default() }, true)
}

impl Snapshot {
    /// Tensors by name, of no program.
    ///
    /// # Errors
    /// If one has no name, or two have the same.
    pub fn of_tensors(tensors: impl IntoIterator<Item = Parameter>) -> Result<Self> {
        let mut tensors: Vec<Parameter> = tensors.into_iter().collect();
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        let mut names = HashSet::new();
        for Parameter { name, .. } in &tensors {
            let what = match (name.is_empty(), names.insert(name)) {
                (true, _) => "it has no name",
                (false, false) => "two tensors have this name",
                (false, true) => continue,
            };
            return Err(Error::Variable { name: name.clone(), what });
        }
        Ok(Self { tensors, contents: None, metadata: BTreeMap::new() })
    }

    /// The tensors, sorted by name.
    pub fn tensors(&self) -> &[Parameter] {
        &self.tensors
    }

    /// With a fact that the manifest is to have: the epoch, the place in the data, a score.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }
}

/// The SHA-256 of a program as it is written.
pub(crate) fn hash(program: &Program) -> Result<String> {
    let bytes = program::write(program)?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The variables that learning rates come from: what operators that schedule keep, and rates that are kept
/// themselves.
fn schedule(main: &Program) -> Vec<String> {
    let lasting: HashSet<&str> =
        main.vars().filter(|var| is_checkpointed(var)).map(|var| var.name.as_str()).collect();
    let kept = main.ops().filter(|op| role(op) & SCHEDULES != 0).flat_map(Op::writes);
    let rates = main.ops().flat_map(|op| op.input("LearningRate")).map(String::as_str);
    let names: BTreeSet<&str> = kept.chain(rates).filter(|name| lasting.contains(name)).collect();
    names.into_iter().map(str::to_owned).collect()
}
