//! `lodstone train`.

pub(crate) mod args;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use lodstone::checkpoint::{Manager, ManagerOptions, Saved, Serial};
use lodstone::run::Dirs;
use lodstone::train::{SampleOptions, TrainOptions, Training};
use lodstone::{Blob, Location, Progress};
use serde::Serialize;
use serde_json::{Map, Value};

use self::args::Train;
use crate::console::{self, plain};
#[cfg(feature = "plots")]
use crate::plot::plot;
use crate::run::inputs;
use crate::stores::{at, shown};
use crate::{Failure, progress};

/// The losses beside the trained model, as a table.
const TABLE: &str = "losses.csv";

/// The losses beside the trained model, as a plot.
#[cfg(feature = "plots")]
const PLOT: &str = "losses.svg";

/// Trains a model.
pub(crate) fn run(arguments: &Train) -> Result<(), Failure> {
    if !arguments.renaming.is_empty() && !arguments.resume {
        return Err("--rename names the variables of a checkpoint: pass --resume, too".into());
    }
    let out = arguments.output.clone().unwrap_or_else(|| default_output(&arguments.path));
    arguments.clobber.check(&at(&out)?)?;
    let (path, open) = (at(&arguments.path)?, arguments.open.options()?);
    let startup = arguments.startup.as_ref().map(at).transpose()?;
    let model = lodstone::train::open_training(&path, startup.as_ref(), &open)?;
    console::opened(&arguments.path, &model);
    console::warnings(&model.report.warnings);
    let progress = Progress::default();
    let beside = lodstone::run::dirs_beside(&path)?;
    // Several programs with other names may share a directory, and so a `startup_program`.
    let is_alone = beside.read.as_ref().is_some_and(|dir| dir.path() == arguments.path)
        || ["main_program", "__model__"].iter().any(|name| arguments.path.ends_with(name));
    let dirs = arguments.directories.options(beside)?;
    let dirs = Dirs { progress: progress.clone(), ..dirs };
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
        .with_renames(arguments.renaming.renames()?);
    let mut training = Training::new(&model, inputs(&arguments.data, &arguments.lod)?, options)?;
    console::warnings(&training.warnings());
    let is_resumed = training.restored().is_some();
    if let Some(restored) = training.restored() {
        console::note(&format!("resumed after step {}", restored.step));
        console::warnings(&restored.warnings);
        if !restored.mismatch.is_empty() {
            console::warning(&plain(&restored.mismatch.to_string()));
        }
    }
    if training.has_run_startup() && arguments.startup.is_none() && !is_alone {
        console::warning(
            "variables were initialized by the `startup_program` in the same directory, which may \
             belong to another model: pass it with --startup if it is the right one",
        );
    }
    progress::cancel_on_interrupt(&progress)?;
    let mut losses = Losses::new(training.done(), &arguments.watch);
    if is_resumed {
        losses.read_earlier(&at(&out)?.join(TABLE))?;
    }
    let mut steps = Steps { json: arguments.json, is_open: true };
    let result =
        losses.follow(&mut training, arguments.steps, &progress, checkpoints.as_mut(), &mut steps);
    let is_new = !losses.rows.is_empty();
    if !is_new && (result.is_err() || training.done() == 0) {
        return result;
    }
    let saved = match checkpoints.filter(|_| is_new) {
        Some(checkpoints) => checkpoints.end(&mut training),
        None => Ok(()),
    };
    let table = losses.table()?;
    #[cfg(feature = "plots")]
    let plot = losses.plot()?;
    let files: &[(&str, &[u8])] = &[
        (TABLE, &table),
        #[cfg(feature = "plots")]
        (PLOT, plot.as_bytes()),
    ];
    let options = arguments.clobber.options();
    training.save(at(&out)?, files, &options)?;
    let (out, done) = (plain(&shown(&out)), training.done());
    steps.end(done, &out)?;
    let names = files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    console::note(&format!("wrote {out}: the model after step {done}, {names}"));
    result.and(saved)
}

/// Reports steps on stdout, until its reader closes it.
struct Steps {
    json: bool,
    is_open: bool,
}

/// The last line of JSON.
#[derive(Serialize)]
struct End<'a> {
    /// Version of these lines.
    schema: u32,
    /// The step after which the model was written.
    done: u64,
    /// The directory that was written.
    output: &'a str,
}

impl Steps {
    fn step(&mut self, step: u64, names: &[String], row: &[f64]) -> Result<(), Failure> {
        let values = names.iter().zip(row);
        let line = if self.json {
            // JSON has no infinities and no NaN: they become strings.
            let number = |value: f64| match serde_json::Number::from_f64(value) {
                Some(_) => serde_json::from_str(&number(value)).unwrap_or_else(|_| value.into()),
                None => Value::from(value.to_string()),
            };
            let values: Map<String, Value> =
                values.map(|(name, value)| (name.clone(), number(*value))).collect();
            serde_json::json!({ "schema": 1, "step": step, "values": values }).to_string()
        } else {
            let values = values.map(|(name, value)| format!("{} {}", plain(name), number(*value)));
            format!("step {step}  {}", values.collect::<Vec<_>>().join("  "))
        };
        self.print(&line)
    }

    fn end(&mut self, done: u64, output: &str) -> Result<(), Failure> {
        match self.json {
            true => self.print(&serde_json::to_string(&End { schema: 1, done, output })?),
            false => Ok(()),
        }
    }

    /// Prints a line. If the reader has closed stdout (`| head`), training continues without one.
    fn print(&mut self, line: &str) -> Result<(), Failure> {
        if !self.is_open {
            return Ok(());
        }
        match console::to_stdout(|out| Ok(writeln!(out, "{line}")?)) {
            Err(failure) if console::is_broken_pipe(failure.as_ref()) => {
                self.is_open = false;
                Ok(())
            }
            printed => printed,
        }
    }
}

/// The checkpoints of a training.
struct Checkpoints {
    manager: Manager,
    every: u64,
    /// The checkpoint to resume from.
    newest: Option<Serial>,
    /// The step of the last checkpoint that was started.
    last: Option<u64>,
}

impl Checkpoints {
    fn open(dir: &Path, arguments: &Train) -> Result<Self, Failure> {
        let options = ManagerOptions::default().with_keep(arguments.keep);
        let manager = Manager::open(dir, options)?;
        let newest = lodstone::checkpoint::latest(dir)?;
        if let Some(serial) = newest.as_ref().filter(|_| !arguments.resume) {
            let (dir, step) = (plain(&shown(dir)), serial.step);
            let what = format!(
                "`{dir}` has checkpoints up to step {step}: pass --resume to continue from there"
            );
            return Err(what.into());
        }
        Ok(Self { manager, every: arguments.every, newest, last: None })
    }

    /// Starts saving a checkpoint, if it is due. A failure of the previous one is reported, and training continues.
    fn after_step(&mut self, training: &mut Training) -> Result<(), Failure> {
        if !training.done().is_multiple_of(self.every) {
            return Ok(());
        }
        self.last = Some(training.done());
        if let Some(before) = self.manager.save_in_background(training.done(), training.snapshot()?)
        {
            report(before);
        }
        Ok(())
    }

    /// Saves the final checkpoint, unless it has been saved.
    fn end(mut self, training: &mut Training) -> Result<(), Failure> {
        let previous = self.manager.wait();
        if previous.is_ok() && self.last == Some(training.done()) {
            return Ok(());
        }
        if let Some(saved) = previous.transpose() {
            report(saved);
        }
        let saved = self.manager.save(training.done(), &training.snapshot()?)?;
        saved.warnings.iter().for_each(|warning| console::warning(warning));
        Ok(())
    }
}

/// Reports the warnings or the error of a checkpoint.
fn report(saved: lodstone::checkpoint::Result<Saved>) {
    match saved {
        Ok(saved) => saved.warnings.iter().for_each(|warning| console::warning(warning)),
        Err(error) => console::warning(&format!("a checkpoint was not saved: {error}")),
    }
}

/// The losses of the steps.
struct Losses {
    /// The columns: `loss` and the watched variables.
    names: Vec<String>,
    /// The step before the first row.
    before: u64,
    /// The table of the resumed run, up to the step `before`.
    earlier: Earlier,
    /// The values of each step, by column.
    rows: Vec<Vec<f64>>,
}

/// The table of an earlier run.
#[derive(Default)]
struct Earlier {
    names: Vec<String>,
    rows: Vec<(u64, Vec<String>)>,
}

/// Maximum size in bytes of the table of an earlier run.
const MAX_TABLE: u64 = 1 << 30;

impl Losses {
    fn new(before: u64, watched: &[String]) -> Self {
        let names = std::iter::once("loss".to_owned()).chain(watched.iter().cloned());
        Self { names: names.collect(), before, earlier: Earlier::default(), rows: Vec::new() }
    }

    /// Reads the table of an earlier run, if there is one, up to the step `before`.
    ///
    /// # Errors
    /// Fails if the file is not a table of losses.
    fn read_earlier(&mut self, path: &Location) -> Result<(), Failure> {
        if !path.exists()? {
            return Ok(());
        }
        let blob = Blob::open(path, false)?;
        let invalid = |what: &str| format!("cannot append losses to `{}`: {what}", path.display());
        if blob.len() > MAX_TABLE {
            return Err(invalid("it is larger than 1 GiB").into());
        }
        let bytes = blob.read()?;
        let mut table = csv::Reader::from_reader(&bytes[..]);
        let mut names = table.headers()?.iter().map(str::to_owned);
        if names.next().as_deref() != Some("step") {
            return Err(invalid("its first column is not `step`").into());
        }
        self.earlier.names = names.collect();
        for row in table.records() {
            let row = row?;
            let mut cells = row.iter();
            let step = cells.next().and_then(|step| step.parse::<u64>().ok());
            let step = step.ok_or_else(|| invalid("a step is not a number"))?;
            if step <= self.before {
                self.earlier.rows.push((step, cells.map(str::to_owned).collect()));
            }
        }
        Ok(())
    }

    /// Trains and reports each step, until all steps are done, one fails, or the user interrupts.
    fn follow(
        &mut self,
        training: &mut Training,
        count: u64,
        progress: &Progress,
        mut checkpoints: Option<&mut Checkpoints>,
        steps: &mut Steps,
    ) -> Result<(), Failure> {
        let is_cancelled = || progress.advance(0).is_err();
        while training.done() < count && !is_cancelled() {
            let row = match training.step() {
                Ok(row) => row,
                Err(_) if is_cancelled() => break,
                Err(error) => return Err(error.into()),
            };
            steps.step(training.done(), &self.names, &row)?;
            self.rows.push(row);
            if let Some(checkpoints) = &mut checkpoints {
                checkpoints.after_step(training)?;
            }
        }
        match training.done() < count {
            true => Err(format!("interrupted after step {} of {count}", training.done()).into()),
            false => Ok(()),
        }
    }

    /// Returns all columns, those of the earlier run first.
    fn columns(&self) -> Vec<String> {
        let mut columns = self.earlier.names.clone();
        for name in self.names.iter().map(|name| cell(name)) {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        columns
    }

    /// Returns all rows, as text by column; a cell is empty if its run did not watch the column.
    fn cells(&self, columns: &[String]) -> Vec<(u64, Vec<String>)> {
        let indices: HashMap<&str, usize> =
            columns.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
        let own: Vec<String> = self.names.iter().map(|name| cell(name)).collect();
        let row = |names: &[String], cells: &[String]| {
            let mut row = vec![String::new(); columns.len()];
            for (name, cell) in names.iter().zip(cells) {
                let index = indices.get(name.as_str());
                if let Some(target) = index.and_then(|index| row.get_mut(*index)) {
                    target.clone_from(cell);
                }
            }
            row
        };
        let earlier = self.earlier.rows.iter();
        let earlier = earlier.map(|(step, cells)| (*step, row(&self.earlier.names, cells)));
        let new = (self.before + 1..).zip(&self.rows).map(|(step, values)| {
            let cells: Vec<String> = values.iter().map(|value| number(*value)).collect();
            (step, row(&own, &cells))
        });
        earlier.chain(new).collect()
    }

    #[cfg(feature = "plots")]
    fn plot(&self) -> Result<String, Failure> {
        let columns = self.columns();
        let value = |cell: &String| cell.parse().unwrap_or(f64::NAN);
        let cells = self.cells(&columns);
        let rows: Vec<(u64, Vec<f64>)> =
            cells.iter().map(|(step, cells)| (*step, cells.iter().map(value).collect())).collect();
        plot(&columns, &rows)
    }

    /// Returns the losses as CSV, with a header and a row per step.
    fn table(&self) -> Result<Vec<u8>, Failure> {
        let columns = self.columns();
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(std::iter::once("step").chain(columns.iter().map(String::as_str)))?;
        for (step, cells) in self.cells(&columns) {
            table.write_record(std::iter::once(step.to_string()).chain(cells))?;
        }
        Ok(table.into_inner().map_err(|error| error.into_error())?)
    }
}

/// Escapes a name for a table: control characters, and a first character that spreadsheets read as a formula.
fn cell(name: &str) -> String {
    let name = plain(name);
    match name.starts_with(['=', '+', '-', '@']) {
        true => format!("'{name}"),
        false => name,
    }
}

/// Formats a number with the fewest digits that identify it among those of its type, `f32` if it fits.
fn number(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "compared with the original")]
    let single = value as f32;
    if f64::from(single) == value { single.to_string() } else { value.to_string() }
}

/// Returns `NAME-trained` in the working directory, the default output.
fn default_output(path: &Path) -> PathBuf {
    let is_file = path
        .extension()
        .is_some_and(|found| ["pb", "pdmodel", "pbtxt", "txt"].iter().any(|known| found == *known));
    let name = if is_file { path.file_stem() } else { path.file_name() };
    let mut name: OsString = name.unwrap_or("model".as_ref()).to_owned();
    name.push("-trained");
    name.into()
}
