//! `lodstone train`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use lodstone::checkpoint::{Manager, ManagerOptions, Saved, Serial};
use lodstone::{Dirs, Progress, Renames, SampleOptions, TrainOptions, Training};

use crate::args::Train;
use crate::plot::plot;
use crate::run::inputs;
use crate::say::{self, plain};
use crate::stores::at;
use crate::{Failure, progress};

/// The files beside the model that has been trained.
const TABLE: &str = "losses.csv";
const PICTURE: &str = "losses.svg";

/// Trains a model.
pub(crate) fn run(arguments: &Train) -> Result<(), Failure> {
    let (path, open) = (at(&arguments.path)?, arguments.open.options()?);
    let startup = arguments.startup.as_ref().map(at).transpose()?;
    let model = lodstone::open_training(&path, startup.as_ref(), &open)?;
    model.report.warnings.iter().for_each(|warning| say::warning(warning));
    let progress = Progress::default();
    let dirs = Dirs { progress: progress.clone(), ..lodstone::dirs_beside(&path) };
    // Other programs have names of their own, and may lie in one directory.
    let is_alone = dirs.read.as_ref().is_some_and(|dir| dir.path() == arguments.path)
        || ["main_program", "__model__"].iter().any(|name| arguments.path.ends_with(name));
    let open = |dir: &Path| Checkpoints::open(dir, arguments);
    let mut checkpoints = arguments.checkpoint.as_deref().map(open).transpose()?;
    let options = TrainOptions::default()
        .with_loss(arguments.loss.clone())
        .with_watch(arguments.watch.clone())
        .with_samples(
            SampleOptions::default()
                .with_batch(arguments.batch_size)
                .with_shuffle(arguments.shuffle),
        )
        .with_check_finite(arguments.check_finite)
        .with_dirs(dirs)
        .with_resume(checkpoints.as_mut().and_then(|checkpoints| checkpoints.newest.take()))
        .with_partial(arguments.partial)
        .with_renames(
            arguments.rename.as_deref().map(Renames::load).transpose()?.unwrap_or_default(),
        );
    let mut training = Training::new(&model, inputs(&arguments.data, &arguments.lod)?, options)?;
    if let Some(restored) = training.restored() {
        say::note(&format!("goes on after step {}", restored.step));
        restored.warnings.iter().for_each(|warning| say::warning(warning));
        if !restored.mismatch.is_empty() {
            say::warning(&plain(&restored.mismatch.to_string()));
        }
    }
    if training.has_run_startup() && arguments.startup.is_none() && !is_alone {
        say::warning(
            "variables begin as `startup_program` in the same directory says, which may be of another \
             model: name it with --startup if it is the right one",
        );
    }
    progress::cancel_when_asked(&progress)?;
    let mut losses = Losses::new(training.done(), &arguments.watch);
    let result = losses.follow(&mut training, arguments.steps, &progress, checkpoints.as_mut());
    let is_new = !losses.rows.is_empty();
    if !is_new && (result.is_err() || training.done() == 0) {
        return result;
    }
    let saved = match checkpoints.filter(|_| is_new) {
        Some(checkpoints) => checkpoints.end(&mut training),
        None => Ok(()),
    };
    let out = arguments.output.clone().unwrap_or_else(|| beside(&arguments.path));
    let (table, picture) = (losses.table()?, losses.picture()?);
    training.save(&out, &[(TABLE, &table), (PICTURE, picture.as_bytes())])?;
    let (out, done) = (plain(&out.display().to_string()), training.done());
    say::note(&format!("wrote {out}: the model after step {done}, {TABLE}, {PICTURE}"));
    result.and(saved)
}

/// Checkpoints that are made on the way.
struct Checkpoints {
    manager: Manager,
    every: u64,
    /// The one to go on from.
    newest: Option<Serial>,
    /// The step of the last that was begun.
    last: Option<u64>,
}

impl Checkpoints {
    fn open(dir: &Path, arguments: &Train) -> Result<Self, Failure> {
        let options = ManagerOptions::default().with_keep(arguments.keep);
        let manager = Manager::open(dir, options)?;
        let newest = lodstone::checkpoint::latest(dir)?;
        if let Some(serial) = newest.as_ref().filter(|_| !arguments.resume) {
            let (dir, step) = (plain(&dir.display().to_string()), serial.step);
            let what =
                format!("`{dir}` has checkpoints up to step {step}; `--resume` goes on from there");
            return Err(what.into());
        }
        Ok(Self { manager, every: arguments.every, newest, last: None })
    }

    /// Saves one, if it is time for it. One that fails is told, and training goes on.
    fn after_step(&mut self, training: &mut Training) -> Result<(), Failure> {
        if !training.done().is_multiple_of(self.every) {
            return Ok(());
        }
        self.last = Some(training.done());
        if let Some(before) = self.manager.save_in_background(training.done(), training.snapshot()?)
        {
            tell(before);
        }
        Ok(())
    }

    /// Saves the last one.
    fn end(mut self, training: &mut Training) -> Result<(), Failure> {
        let begun = self.manager.wait();
        if begun.is_ok() && self.last == Some(training.done()) {
            return Ok(());
        }
        if let Some(saved) = begun.transpose() {
            tell(saved);
        }
        let saved = self.manager.save(training.done(), &training.snapshot()?)?;
        saved.warnings.iter().for_each(|warning| say::warning(warning));
        Ok(())
    }
}

/// Tells what went wrong with a checkpoint.
fn tell(saved: lodstone::checkpoint::Result<Saved>) {
    match saved {
        Ok(saved) => saved.warnings.iter().for_each(|warning| say::warning(warning)),
        Err(error) => say::warning(&format!("a checkpoint was not saved: {error}")),
    }
}

/// What the losses were.
struct Losses {
    /// `loss`, and what else is watched.
    names: Vec<String>,
    /// How many steps came before the first of them.
    before: u64,
    /// The numbers of each step.
    rows: Vec<Vec<f64>>,
}

impl Losses {
    fn new(before: u64, watched: &[String]) -> Self {
        let names = std::iter::once("loss".to_owned()).chain(watched.iter().cloned());
        Self { names: names.collect(), before, rows: Vec::new() }
    }

    /// Does steps, and tells what came of each; until they are done, one fails, or somebody does not want more.
    fn follow(
        &mut self,
        training: &mut Training,
        steps: u64,
        progress: &Progress,
        mut checkpoints: Option<&mut Checkpoints>,
    ) -> Result<(), Failure> {
        let is_cancelled = || progress.advance(0).is_err();
        while training.done() < steps && !is_cancelled() {
            let row = match training.step() {
                Ok(row) => row,
                Err(_) if is_cancelled() => break,
                Err(error) => return Err(error.into()),
            };
            let told = self.names.iter().zip(&row);
            let told: Vec<String> =
                told.map(|(name, value)| format!("{} {}", plain(name), number(*value))).collect();
            say::to_stdout(|out| {
                Ok(writeln!(out, "step {}  {}", training.done(), told.join("  "))?)
            })?;
            self.rows.push(row);
            if let Some(checkpoints) = &mut checkpoints {
                checkpoints.after_step(training)?;
            }
        }
        match training.done() < steps {
            true => Err(format!("interrupted after step {} of {steps}", training.done()).into()),
            false => Ok(()),
        }
    }

    fn picture(&self) -> Result<String, Failure> {
        plot(&self.names, self.before, &self.rows)
    }

    /// A line of names, and one for each step.
    fn table(&self) -> Result<Vec<u8>, Failure> {
        let mut table = csv::Writer::from_writer(Vec::new());
        let names = self.names.iter().map(|name| cell(name));
        table.write_record(std::iter::once("step".to_owned()).chain(names))?;
        for (step, row) in (self.before + 1..).zip(&self.rows) {
            let values = row.iter().map(|value| number(*value));
            table.write_record(std::iter::once(step.to_string()).chain(values))?;
        }
        Ok(table.into_inner().map_err(|error| error.into_error())?)
    }
}

/// A name in a table: it does nothing to a terminal, and no spreadsheet takes it for a formula.
fn cell(name: &str) -> String {
    let name = plain(name);
    match name.starts_with(['=', '+', '-', '@']) {
        true => format!("'{name}"),
        false => name,
    }
}

/// A number in as few digits as tell it from others of its type.
fn number(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
    let single = value as f32;
    if f64::from(single) == value { single.to_string() } else { value.to_string() }
}

/// `NAME-trained` in the current directory.
fn beside(path: &Path) -> PathBuf {
    let is_file = path
        .extension()
        .is_some_and(|end| ["pb", "pdmodel", "pbtxt", "txt"].iter().any(|known| end == *known));
    let name = if is_file { path.file_stem() } else { path.file_name() };
    let mut name: OsString = name.unwrap_or("model".as_ref()).to_owned();
    name.push("-trained");
    name.into()
}
