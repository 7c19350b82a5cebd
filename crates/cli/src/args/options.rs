//! Options that several commands have.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::Args;
use lodstone::model::{AttributeValue, Limits};
use lodstone::run::Dirs;
use lodstone::run::{Engine, Threads};
use lodstone::store::{Error as StoreError, Links};
use lodstone::{
    ConvertOptions, DType, Dim, Error, Location, Loss, Model, OpenOptions, Renames, RunOptions,
    WriteOptions,
};

use crate::Failure;
use crate::args::values::{declared_shape, input_type, input_value, losses, size, threads};
use crate::stores::at;

/// How a model is opened.
#[derive(Args)]
pub(crate) struct Open {
    #[command(flatten)]
    whole: Whole,
    #[command(flatten)]
    trust: Trust,
    /// Open this program of a model with several, without the others [default: `main`]
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
}

impl Open {
    pub(crate) fn options(&self) -> Result<OpenOptions, Failure> {
        Ok(self.trust.options(self.whole.options()?).with_program(self.program.clone()))
    }
}

/// What is fixed about the inputs of a program before it is used.
#[derive(Args)]
pub(crate) struct Interface {
    /// Fix the shape of an input of a program where its dims are dynamic; may be repeated
    ///
    /// Where a program does not declare the shape of an input, `?` or `-1` is a dim that stays unknown, and a word one that has
    /// this symbol: `data:batch,3,?,?`. `x` separates dims, too: `data:1x3x224x224`.
    #[arg(long, value_name = "NAME:1,3,224,224", value_parser = declared_shape)]
    pub(crate) input_shape: Vec<(String, Vec<Dim>)>,
    /// Declare the element type of an input of a program that does not declare it; may be repeated
    #[arg(long, value_name = "NAME:DTYPE", value_parser = input_type)]
    pub(crate) input_type: Vec<(String, DType)>,
    /// Make an input that is declared as a number a constant, such as `rate: int`; may be repeated
    #[arg(long, value_name = "NAME=NUMBER", value_parser = input_value)]
    pub(crate) input_value: Vec<(String, AttributeValue)>,
}

impl Interface {
    /// Changes the program of a model.
    pub(crate) fn fix(&self, model: &mut Model) -> Result<(), Failure> {
        lodstone::convert::fix_types(model, &self.input_type)?;
        lodstone::convert::fix_shapes(model, &self.input_shape)?;
        Ok(lodstone::convert::fix_inputs(model, &self.input_value)?)
    }

    /// Adds the same to the options of a conversion.
    pub(crate) fn add_to(&self, options: ConvertOptions) -> ConvertOptions {
        options
            .with_input_shapes(self.input_shape.clone())
            .with_input_types(self.input_type.clone())
            .with_input_values(self.input_value.clone())
    }

    /// Changes the program of a model like [`fix`](Self::fix), as far as it has these inputs.
    pub(crate) fn fix_known(&self, model: &mut Model) -> Result<(), Failure> {
        let lenient = |fixed: Result<(), Error>| match fixed {
            Err(Error::NoSuchInput { .. }) => Ok(()),
            other => other,
        };
        for given in &self.input_type {
            lenient(lodstone::convert::fix_types(model, std::slice::from_ref(given)))?;
        }
        for given in &self.input_shape {
            lenient(lodstone::convert::fix_shapes(model, std::slice::from_ref(given)))?;
        }
        for given in &self.input_value {
            lenient(lodstone::convert::fix_inputs(model, std::slice::from_ref(given)))?;
        }
        Ok(())
    }
}

/// How a model is opened to be verified or sealed.
#[derive(Args)]
pub(crate) struct Whole {
    /// Read the parameters from this file or directory
    #[arg(long, value_name = "PATH")]
    params: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

impl Whole {
    pub(crate) fn options(&self) -> Result<OpenOptions, Failure> {
        self.files.options(self.params.as_deref())
    }
}

/// How files are found and read.
#[derive(Args)]
pub(crate) struct Files {
    /// Follow symbolic links that leave the directory of the model, as in download caches
    #[arg(long)]
    follow_links: bool,
    /// Read files instead of mapping them into memory; safe for files that others may truncate
    #[arg(long)]
    no_mmap: bool,
    /// Accept FACTOR times as many tensors and fields, and bytes of structure, as from files of strangers; takes more memory
    #[arg(long, value_name = "FACTOR", default_value_t = NonZeroU32::MIN, hide_default_value = true)]
    raise_limits: NonZeroU32,
}

impl Files {
    pub(crate) fn options(&self, params: Option<&Path>) -> Result<OpenOptions, Failure> {
        Ok(OpenOptions::default()
            .with_params(params.map(at).transpose()?)
            .with_mmap(!self.no_mmap)
            .with_limits(Limits::default().raised(self.raise_limits))
            .with_links(if self.follow_links { Links::Follow } else { Links::Confined }))
    }
}

/// Whether seals are checked.
#[derive(Args)]
pub(crate) struct Trust {
    /// Do not compare sealed models with their checksums
    #[arg(long)]
    no_verify: bool,
}

impl Trust {
    pub(crate) fn options(&self, options: OpenOptions) -> OpenOptions {
        options.with_verify(!self.no_verify)
    }
}

/// Accepted losses.
#[derive(Args)]
pub(crate) struct Allow {
    /// Accept a loss by its name; may be repeated
    #[arg(long, value_name = "LOSS", value_parser = losses())]
    allow: Vec<String>,
}

impl Allow {
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let is_allowed = |loss: &Loss| self.allow.iter().any(|name| name == loss.name());
        Loss::ALL.iter().copied().filter(is_allowed).collect()
    }
}

/// How files are written.
#[derive(Args)]
pub(crate) struct Clobber {
    /// Fail instead of replacing existing files
    #[arg(long)]
    no_clobber: bool,
}

impl Clobber {
    pub(crate) fn options(&self) -> WriteOptions {
        WriteOptions::default().with_no_clobber(self.no_clobber)
    }

    /// Fails if the output exists and must not be replaced: early, rather than after hours of work.
    pub(crate) fn check(&self, output: &Location) -> Result<(), Failure> {
        match self.no_clobber && output.exists()? {
            true => Err(StoreError::Exists { path: output.path().to_owned() }.into()),
            false => Ok(()),
        }
    }
}

/// The directories of operators that load and save.
#[derive(Args)]
pub(crate) struct Directories {
    /// Directory from which `load` operators read [default: the model's]
    #[arg(long, value_name = "DIR")]
    load_from: Option<PathBuf>,
    /// Directory to which `save` operators write [default: none, they fail]
    #[arg(long, value_name = "DIR")]
    save_to: Option<PathBuf>,
}

impl Directories {
    /// Returns the directories of a run; `beside` has the default ones.
    pub(crate) fn options(&self, beside: Dirs) -> Result<Dirs, Failure> {
        let read = self.load_from.as_ref().map(at).transpose()?.or(beside.read);
        let write = self.save_to.as_ref().map(at).transpose()?;
        Ok(Dirs { read, write, ..Dirs::default() })
    }
}

/// New names of tensors.
#[derive(Args)]
pub(crate) struct Renaming {
    /// Rename tensors, of the first model or of a checkpoint: `OLD=NEW`, or a file with an old and a new name per line, or JSON;
    /// may be repeated
    ///
    /// `*` in an old name matches anything, which the `*` in the new name stands for: `arg:*=*`.
    #[arg(long, value_name = "OLD=NEW|FILE")]
    rename: Vec<PathBuf>,
}

impl Renaming {
    pub(crate) fn is_empty(&self) -> bool {
        self.rename.is_empty()
    }

    pub(crate) fn renames(&self) -> Result<Renames, Failure> {
        let mut all = Renames::default();
        for value in &self.rename {
            let map = Location::from(value.as_path());
            let pair = value.to_str().and_then(|text| text.split_once('='));
            all = match pair {
                Some((old, new)) if !map.exists()? => all.with(old, new)?,
                _ => all.and(Renames::load(map)?)?,
            };
        }
        Ok(all)
    }
}

/// How programs run.
#[derive(Args)]
pub(crate) struct Running {
    /// Engine: `builtin`; for programs that are ONNX or lowered to it also `reference`, without
    /// fused operators, and `onnxruntime`
    #[arg(long, value_name = "ENGINE", default_value = "builtin")]
    engine: Engine,
    /// The library of ONNX Runtime, or its directory [default: `ORT_DYLIB_PATH`, or that of an
    /// installed Python package `onnxruntime`]
    #[arg(long, value_name = "PATH")]
    engine_path: Option<PathBuf>,
    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Memory limit for the tensors of a run (512MiB, 8GiB) [default: the available memory, within
    /// the limits of the process and its control group]
    #[arg(long, value_name = "SIZE", value_parser = size, alias = "max-memory")]
    memory_limit: Option<u64>,
}

impl Running {
    pub(crate) fn options(&self) -> RunOptions {
        RunOptions::default()
            .with_engine(self.engine)
            .with_engine_path(self.engine_path.clone())
            .with_threads(self.threads.map(Threads::new))
            .with_max_memory(self.memory_limit)
    }
}
