//! A suite of `cargo xtask interop`: its budgets, its parts, and its directory.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Extent;
use super::results::Results;
use crate::disk::{free_mib, size_mib};
use crate::limit;
use crate::python;
use crate::run::{Outcome, cannot, target};

/// A row of the table of suites.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) check: fn(&Suite<'_>) -> Result<(), Outcome>,
    /// The time that a sample of it may take, in minutes; none if only a complete run has it, as it needs PyTorch.
    pub(super) sample: Option<u64>,
    /// The time that a complete run of it may take, in minutes.
    pub(super) complete: u64,
    /// The disk that its directory may take, in MiB. Environments are not included.
    pub(super) mib: u64,
}

/// What the suites of a run share.
pub(super) struct Shared {
    pub(super) python: PathBuf,
    pub(super) extent: Extent,
    pub(super) results: Results,
    /// The directory of the Python package, once it was built.
    pub(super) package: Mutex<Option<PathBuf>>,
}

/// A running suite.
pub(super) struct Suite<'run> {
    name: &'static str,
    /// A Python with which environments are created.
    pub(super) python: &'run Path,
    pub(super) extent: Extent,
    /// The files that it writes; deleted once it has passed.
    pub(super) directory: PathBuf,
    shared: &'run Shared,
}

/// The outcome of a suite, for the table at the end.
pub(super) enum Ran {
    /// It has run.
    Now(Result<(), Outcome>, Duration),
    /// It had passed before.
    Before,
    /// It is part of complete runs only.
    LeftOut,
}

impl Entry {
    /// Runs the suite within its budgets.
    pub(super) fn run(&self, shared: &Shared) -> Ran {
        let minutes = if shared.extent.all { Some(self.complete) } else { self.sample };
        let Some(minutes) = minutes else { return Ran::LeftOut };
        match shared.results.has_passed(self.name) {
            Ok(true) => return Ran::Before,
            Ok(false) => {}
            Err(outcome) => return Ran::Now(Err(outcome), Duration::ZERO),
        }
        let time = Duration::from_secs(60 * minutes);
        let begun = Instant::now();
        let checked = || limit::within(self.name, time, || self.checked(shared));
        let panicked = |_| Err(Outcome::Failed("the suite panicked".to_owned()));
        let outcome = catch_unwind(AssertUnwindSafe(checked)).unwrap_or_else(panicked);
        let time = begun.elapsed();
        let recorded = shared.results.record(self.name, &outcome, time);
        Ran::Now(outcome.and(recorded), time)
    }

    fn checked(&self, shared: &Shared) -> Result<(), Outcome> {
        let directory = target().join("interop/work").join(self.name);
        // Parts that have passed may have written files that other parts read.
        if !shared.results.resumes() || !directory.is_dir() {
            shared.results.forget(self.name)?;
            if directory.exists() {
                fs::remove_dir_all(&directory).map_err(cannot("delete the directory"))?;
            }
        }
        fs::create_dir_all(&directory).map_err(cannot("create the directory"))?;
        let free = free_mib(&directory)?;
        if free < self.mib {
            let what = format!("needs {} MiB of disk, and {free} MiB are free", self.mib);
            return Err(Outcome::CouldNotRun(what));
        }
        let suite = Suite {
            name: self.name,
            python: &shared.python,
            extent: shared.extent,
            directory,
            shared,
        };
        (self.check)(&suite)?;
        let written = size_mib(&suite.directory)?;
        eprintln!("{}: wrote {written} MiB", self.name);
        if written > self.mib {
            let what = format!("wrote {written} MiB, more than its budget of {} MiB", self.mib);
            return Err(Outcome::Failed(what));
        }
        fs::remove_dir_all(&suite.directory).map_err(cannot("delete the directory"))
    }
}

impl Suite<'_> {
    /// Runs a part, unless it had passed before.
    pub(super) fn part(
        &self,
        name: &str,
        check: impl FnOnce() -> Result<(), Outcome>,
    ) -> Result<(), Outcome> {
        let name = format!("{}/{name}", self.name);
        if self.shared.results.has_passed(&name)? {
            eprintln!("{name}: passed before");
            return Ok(());
        }
        let begun = Instant::now();
        let outcome = check();
        let time = begun.elapsed();
        eprintln!("{name}: {}, {} s", Outcome::of(&outcome), time.as_secs());
        self.shared.results.record(&name, &outcome, time)?;
        outcome
    }

    /// Returns a command that runs Python with the Python package, which is built once in a run. It is not installed, so
    /// that environments can be shared.
    pub(super) fn with_package(&self, python: &Path) -> Result<Command, Outcome> {
        let mut built = self.shared.package.lock().unwrap_or_else(PoisonError::into_inner);
        let package = match &*built {
            Some(package) => package,
            None => built.insert(python::package(self.python)?),
        };
        let mut command = Command::new(python);
        command.arg("-B").env("PYTHONPATH", package);
        Ok(command)
    }
}

impl Ran {
    /// Describes the outcome in the table.
    pub(super) fn describe(&self) -> String {
        let minutes = |time: &Duration| time.as_secs_f64() / 60.0;
        match self {
            Self::Now(Ok(()), time) => format!("{:6.1} min  passed", minutes(time)),
            Self::Now(Err(outcome), time) => {
                format!("{:6.1} min  {outcome}", minutes(time))
            }
            Self::Before => "            passed before".to_owned(),
            Self::LeftOut => "            left out, as it needs PyTorch: pass `--all`".to_owned(),
        }
    }

    pub(super) fn outcome(self) -> Result<(), Outcome> {
        match self {
            Self::Now(outcome, _) => outcome,
            Self::Before | Self::LeftOut => Ok(()),
        }
    }
}
