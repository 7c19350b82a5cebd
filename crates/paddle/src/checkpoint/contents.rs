//! The contents of checkpoints of a program.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use lodstone_checkpoint::{BoxError, Container, Loader, Origin, Programs, Snapshot};
use lodstone_formats::paddle::program;
use lodstone_model::{DType, Dim, Op, Parameter, Program, TensorType, Var};
use lodstone_schema::paddle::with_stop_gradient;
use lodstone_store::Blob;
use sha2::{Digest, Sha256};

use crate::checkpoint::error::{Error, Result};
use crate::checkpoint::loader::{
    self, FILE, build_checkpoint_loader, check_ends, check_loader, is_checkpointed, placement,
};
use crate::checkpoint::restore::numerics;
use crate::executor::{RANDOM_STATE, Scope};
use crate::program::{LoadOptions, SCHEDULES, role};

/// The contents of checkpoints of a program: computed once, for any number of snapshots.
#[derive(Clone, Debug)]
pub struct Contents(Arc<Saved>);

#[derive(Debug)]
struct Saved {
    /// The saved variables, sorted by name.
    vars: Vec<Var>,
    startup: Program,
    programs: Programs,
    schedule: Vec<String>,
}

/// The loader of a snapshot, which is built once the container is known.
#[derive(Debug)]
struct SnapshotLoader {
    contents: Contents,
    /// The variables of the snapshot, in the order of their records.
    records: Vec<String>,
}

impl Contents {
    /// Selects the variables of `main` that [persist](is_checkpointed) and match the predicate [default: all], and the
    /// state of random numbers.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if a variable is neither saved nor initialised by the startup program; [`Error::Loop`] if
    /// the initializers of the other variables have a loop.
    pub fn of(
        main: &Program,
        startup: &Program,
        predicate: Option<&dyn Fn(&Var) -> bool>,
    ) -> Result<Self> {
        // The state of random numbers is saved whether or not the program declares it.
        let takes = |var: &&Var| {
            is_checkpointed(var)
                && var.name != RANDOM_STATE
                && predicate.is_none_or(|predicate| predicate(var))
        };
        let vars: BTreeMap<&str, &Var> =
            main.vars().filter(takes).map(|var| (var.name.as_str(), var)).collect();
        let saved = Saved {
            vars: vars.into_values().cloned().collect(),
            startup: startup.clone(),
            programs: Programs { main: Some(hash(main)?), startup: Some(hash(startup)?) },
            schedule: schedule(main),
        };
        let loader = build_checkpoint_loader(&saved.vars, Some(startup), &LoadOptions::default())?;
        check_ends(&loader)?;
        check_loader(&loader, main)?;
        Ok(Self(Arc::new(saved)))
    }

    /// Returns a snapshot with the current values of the variables in a scope.
    ///
    /// # Errors
    /// If a variable has no value, or it is not a tensor.
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
        let tensors = names.into_iter().map(value).collect::<Result<Vec<_>>>()?;
        let records: Vec<String> = tensors.iter().map(|tensor| tensor.name.clone()).collect();
        // The variables are sorted.
        let is_saved = |name: &&String| records.binary_search(name).is_ok();
        let origin = Origin {
            programs: self.0.programs.clone(),
            random: records.iter().filter(|name| *name == RANDOM_STATE).cloned().collect(),
            schedule: self.0.schedule.iter().filter(is_saved).cloned().collect(),
            loader: Arc::new(SnapshotLoader { contents: self.clone(), records }),
        };
        Ok(Snapshot::of_tensors(tensors)?.with_numerics(numerics()).with_origin(origin))
    }
}

impl Loader for SnapshotLoader {
    fn files(&self, container: Container) -> Result<Vec<(String, Blob)>, BoxError> {
        let bytes = program::write(&self.program(container)?)?;
        Ok(vec![(FILE.to_owned(), Blob::memory(bytes))])
    }
}

impl SnapshotLoader {
    fn program(&self, container: Container) -> Result<Program> {
        let Saved { vars, startup, .. } = &*self.contents.0;
        let mut vars = vars.clone();
        if self.records.iter().any(|record| record == RANDOM_STATE) {
            vars.push(random_state());
        }
        let mut options = LoadOptions::default();
        let placement = placement(container);
        let is_loaded = placement.is_some();
        if let Some(placement) = placement {
            options = options.with_placement(placement).with_records(Some(self.records.clone()));
        }
        let mut program = build_checkpoint_loader(&vars, Some(startup), &options)?;
        if !is_loaded {
            loader::remove_loads(&mut program);
        }
        Ok(program)
    }
}

/// Returns the variable for the state of random numbers, seed and counter, as a program declares it.
pub(super) fn random_state() -> Var {
    let shape = Some(vec![Dim::Known(2)]);
    let value = TensorType::new(DType::Int64, shape).into();
    let (name, persistable) = (RANDOM_STATE.to_owned(), true);
    with_stop_gradient(Var { name, value, persistable, ..Var::default() }, true)
}

/// Returns the SHA-256 of a program's encoding.
pub(super) fn hash(program: &Program) -> Result<String> {
    let bytes = program::write(program)?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the variables that learning rates are computed from: persistable outputs of schedule operators, and
/// persistable learning rates.
fn schedule(main: &Program) -> Vec<String> {
    let lasting: HashSet<&str> =
        main.vars().filter(|var| is_checkpointed(var)).map(|var| var.name.as_str()).collect();
    let kept = main.ops().filter(|op| role(op) & SCHEDULES != 0).flat_map(Op::writes);
    let rates = main.ops().flat_map(|op| op.input("LearningRate")).map(String::as_str);
    let names: BTreeSet<&str> = kept.chain(rates).filter(|name| lasting.contains(name)).collect();
    names.into_iter().map(str::to_owned).collect()
}
