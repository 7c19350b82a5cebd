//! `lodstone run`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use lodstone::model::Kind;
use lodstone::program::Paths;
use lodstone::run::Dirs;
use lodstone::run::{Output as ModelOutput, Profile, Value};
use lodstone::{
    ConvertOptions, Inputs, Loss, Model, OpenOptions, Parameter, Session, Target, Tensor,
};

use crate::args::options::{Allow, Clobber, Directories, Interface, Open, Running};
use crate::args::values::formats;
use crate::console::{self, plain};
use crate::stores::{Output, STANDARD, at};
use crate::{Failure, table};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lodstone run lenet/ -i img=digit.npy                 print the outputs
  lodstone run lenet/ -i inputs.npz -o outputs.npz     inputs by their names in the archive
  lodstone run lenet/ -i img=digit.npy --fetch fc_0.tmp_1   an intermediate value
  lodstone run main/ --loader checkpoint/ -i img=digit.npy --fetch fc_0.tmp_1
  lodstone run tagger/ -i words=ids.npy --lod words=0,3,7")]
pub(crate) struct Run {
    /// A file, a directory, or the prefix that the files of a model share
    pub(crate) path: PathBuf,
    /// An input: NAME=FILE, or FILE for the next input without a value, or for all inputs named in
    /// it (npz); an existing file with `=` in its path is a FILE
    #[arg(short, long, value_name = "[NAME=]FILE")]
    pub(crate) input: Vec<String>,
    /// Offsets of one LoD level of an input, outermost level first; may be repeated
    #[arg(long, value_name = "NAME=0,3,7")]
    pub(crate) lod: Vec<String>,
    /// Fill inputs without a value with random elements from this seed: floats uniform in [0, 1),
    /// integers 0 or 1. Unknown dims are 1, unless --input-shape fixes them
    #[arg(long, value_name = "SEED")]
    pub(crate) random_inputs: Option<u64>,
    #[command(flatten)]
    pub(crate) interface: Interface,
    /// Return this value instead of the outputs of the program; a name or a pattern (`*`, `?`, `[..]`, `{a,b}`); may be
    /// repeated. Operators and inputs that it does not depend on are not needed
    #[arg(long, value_name = "NAME")]
    pub(crate) fetch: Vec<String>,
    /// Print all elements of the outputs instead of their statistics
    #[arg(long)]
    pub(crate) full: bool,
    /// Write the outputs to a file instead of printing them
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "full"])]
    pub(crate) output: Option<PathBuf>,
    /// Format to write [default: by the extension of the output]
    #[arg(long, value_name = "FORMAT", value_parser = formats(), requires = "output")]
    pub(crate) to: Option<String>,
    /// Print JSON (schema 1)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) allow: Allow,
    #[command(flatten)]
    pub(crate) clobber: Clobber,
    /// Run the loader of the checkpoint in this directory first, in the same scope
    #[arg(long, value_name = "DIR")]
    pub(crate) loader: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) directories: Directories,
    /// Let the program read and write files outside of these directories
    #[arg(long)]
    pub(crate) allow_outside_paths: bool,
    #[command(flatten)]
    pub(crate) running: Running,
    /// Fail after N operators, counting every iteration of a loop
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u64>,
    /// Run N times, and report the time of the first run and the median and spread of the others
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Report the time of each operator
    #[arg(long)]
    pub(crate) profile: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

/// Maximum number of elements of an output that is printed in full.
const MAX_PRINTED: u64 = 16;

/// Runs a model.
pub(crate) fn run(arguments: &Run) -> Result<(), Failure> {
    let mut inputs = inputs(&arguments.input, &arguments.lod)?;
    let profile = arguments.profile.then(Arc::<Profile>::default);
    let options = arguments
        .running
        .options()
        .with_dirs(dirs(arguments)?)
        .with_loader(arguments.loader.as_ref().map(at).transpose()?)
        .with_fetch(arguments.fetch.clone())
        .with_max_steps(arguments.max_steps)
        .with_profile(profile.clone());
    let mut model = lodstone::open_with(at(&arguments.path)?, &arguments.open.options()?)?;
    arguments.interface.fix(&mut model)?;
    console::opened(&arguments.path, &model);
    // A loader brings the parameters.
    if arguments.loader.is_none() {
        console::warnings(&model.report.warnings);
    }
    if let Some(seed) = arguments.random_inputs {
        // A value that only a translation adds needs all inputs; an unknown one is reported below.
        let mut part = model.clone();
        let selected = lodstone::convert::select_outputs(&mut part, &arguments.fetch);
        let part = if selected.is_ok() { &part } else { &model };
        for added in inputs.add_random(part, seed, &[])? {
            console::note(&format!("random input {added}"));
        }
    }
    let mut session = Session::new(&model, &options)?;
    let start = Instant::now();
    let outputs = session.run(inputs.clone())?;
    let first = start.elapsed();
    if outputs.is_empty() {
        console::note("the program has no outputs; pass --fetch NAME to return a variable");
    }
    let times = (1..arguments.repeat).map(|_| {
        let start = Instant::now();
        session.run(inputs.clone()).map(|_| start.elapsed())
    });
    let times = times.collect::<Result<Vec<_>, _>>()?;
    match &arguments.output {
        Some(path) => write(outputs, path, arguments)?,
        None if arguments.json => {
            let outputs = lodstone::run::tensors(outputs);
            console::to_stdout(|out| Ok(lodstone::inspect::write_json(&outputs, out)?))?;
        }
        None => console::to_stdout(|out| print(&outputs, arguments.full, out))?,
    }
    if arguments.repeat > 1 {
        console::note(&timing(first, times));
    }
    match profile {
        Some(profile) => report(&profile),
        None => Ok(()),
    }
}

/// Prints outputs: small ones (or all, if `full`) with their elements, the others as a table of statistics.
fn print(outputs: &[ModelOutput], full: bool, out: &mut impl Write) -> Result<(), Failure> {
    let tensors = lodstone::run::tensors(outputs.to_vec());
    for ModelOutput { name, value } in outputs {
        let what = match value {
            Value::Absent => "no value",
            Value::Sequence(values) if values.is_empty() => "an empty sequence",
            _ => continue,
        };
        writeln!(out, "{}: {what}", plain(name))?;
    }
    let is_small = |tensor: &Tensor| {
        let count = tensor.shape.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim));
        count.is_some_and(|count| count <= MAX_PRINTED)
    };
    let has_statistics = |tensor: &Tensor| lodstone::statistics(tensor).is_ok();
    let in_table = |tensor: &Tensor| !full && !is_small(tensor) && has_statistics(tensor);
    let (large, printed): (Vec<&Parameter>, Vec<&Parameter>) =
        tensors.iter().partition(|output| in_table(&output.tensor));
    for output in printed {
        let Tensor { dtype, shape, kind, .. } = &output.tensor;
        match (full, kind) {
            (true, _) => writeln!(out, "{}:", plain(&output.name))?,
            (false, Kind::Strings { elements }) if !is_small(&output.tensor) => {
                writeln!(
                    out,
                    "{} {dtype} {shape:?}: {} strings",
                    plain(&output.name),
                    elements.len()
                )?;
                continue;
            }
            (false, _) => writeln!(out, "{} {dtype} {shape:?}:", plain(&output.name))?,
        }
        lodstone::inspect::write_text(&output.tensor, out)?;
    }
    if large.is_empty() {
        return Ok(());
    }
    let mut rows = Vec::new();
    for Parameter { name, tensor } in large {
        let lodstone::Lod(levels) = &tensor.lod;
        for level in levels {
            writeln!(out, "{} lod: {level:?}", plain(name))?;
        }
        let found = lodstone::statistics(tensor)?;
        let number = |number: Option<f64>| match number {
            None => String::new(),
            Some(number) if number != 0.0 && !(1e-4..1e6).contains(&number.abs()) => {
                format!("{number:.3e}")
            }
            Some(number) => format!("{number:.6}"),
        };
        let mut row = vec![plain(name), tensor.dtype.to_string()];
        row.push(format!("{:?}", tensor.shape));
        row.extend([found.min, found.max, found.mean, found.std].map(number));
        row.extend([found.zeros, found.nan, found.infinite].map(|count| count.to_string()));
        rows.push(row);
    }
    let header = ["output", "dtype", "shape", "min", "max", "mean", "std", "zeros", "nan", "inf"];
    table::write(out, &header, &[3, 4, 5, 6, 7, 8, 9], || rows.iter().cloned())?;
    Ok(())
}

/// Formats the time of the first run and the distribution of the others.
fn timing(first: Duration, mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let quartile = |n: usize| times.get((times.len() - 1) * n / 4).copied().unwrap_or_default();
    let show = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    let [min, lower, median, upper, max] = [0, 1, 2, 3, 4].map(|n| show(quartile(n)));
    format!(
        "first run {}; then {} runs: median {median}, quartiles {lower} to {upper}, range {min} to {max}",
        show(first),
        times.len()
    )
}

/// Prints the time of each operator to stderr.
fn report(profile: &Profile) -> Result<(), Failure> {
    let operators = profile.operators();
    let total: Duration = operators.iter().map(|operator| operator.time).sum();
    let rows = || {
        operators.iter().map(|operator| {
            let share = operator.time.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
            vec![
                format!("{:.3}", operator.time.as_secs_f64() * 1e3),
                format!("{:.1}", share * 100.0),
                operator.calls.to_string(),
                plain(&operator.kind),
                plain(&operator.name),
            ]
        })
    };
    let mut text = Vec::new();
    table::write(&mut text, &["ms", "%", "calls", "operator", "name"], &[0, 1, 2], rows)?;
    console::details(&text);
    Ok(())
}

fn write(outputs: Vec<ModelOutput>, path: &Path, arguments: &Run) -> Result<(), Failure> {
    for ModelOutput { name, value } in &outputs {
        if matches!(value, Value::Absent)
            || matches!(value, Value::Sequence(values) if values.is_empty())
        {
            console::warning(&format!("the output `{name}` was not written: it has no tensors"));
        }
    }
    let model = Model { parameters: lodstone::run::tensors(outputs), ..Model::default() };
    let mut allow = arguments.allow.losses();
    // Names of outputs belong to the program, not to the values.
    allow.push(Loss::Names);
    let output = Output::at(path)?;
    let options = ConvertOptions::default()
        .with_to(arguments.to.clone().map(Target::Format))
        .with_allow(allow)
        .with_write(arguments.clobber.options());
    let done = lodstone::convert(model, output.location(), &options)?;
    console::report(&done.report);
    output.finish(&done.files, "")
}

/// Reads the inputs of a model: arguments `[NAME=]FILE`, and levels of LoD.
pub(crate) fn inputs(files: &[String], lod: &[String]) -> Result<Inputs, Failure> {
    let mut inputs = Inputs::default();
    for given in files {
        let (name, path) = match given.split_once('=') {
            Some((name, path)) if !is_file(given)? => (Some(name), path),
            _ => (None, given.as_str()),
        };
        inputs.read(name, at(path)?, &OpenOptions::default())?;
    }
    for given in lod {
        inputs.lod.push(level(given)?);
    }
    Ok(inputs)
}

/// Returns whether the whole argument is the path of an existing file.
fn is_file(path: &str) -> Result<bool, Failure> {
    match at(path) {
        Ok(location) if path != STANDARD => Ok(location.exists()?),
        // The name and the path look like an address.
        _ => Ok(false),
    }
}

/// Returns the directories that operators of the program may read and write.
fn dirs(arguments: &Run) -> Result<Dirs, Failure> {
    let beside = match arguments.path == Path::new(STANDARD) {
        true => Dirs::default(),
        false => lodstone::run::dirs_beside(at(&arguments.path)?)?,
    };
    let mut dirs = arguments.directories.options(beside)?;
    if arguments.allow_outside_paths {
        dirs.paths = Paths::Anywhere;
    }
    Ok(dirs)
}

/// Parses a LoD level: `name=0,3,7`.
pub(crate) fn level(given: &str) -> Result<(String, Vec<u64>), Failure> {
    let (name, offsets) = given
        .rsplit_once('=')
        .ok_or_else(|| format!("expected `--lod NAME=OFFSETS`, found `{given}`"))?;
    let offset = |text: &str| {
        text.trim().parse().map_err(|_| format!("`{text}` in `--lod {given}` is not an offset"))
    };
    let offsets = offsets.split(',').map(offset).collect::<Result<_, _>>()?;
    Ok((name.to_owned(), offsets))
}
