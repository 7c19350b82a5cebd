//! Models that are run.

use lodstone_model::{Lod, Model, Parameter, Tensor};
use lodstone_paddle::executor::{Dirs, Prepared, Scope};
use lodstone_schema::conventions;
use lodstone_store::Location;

use crate::{Error, OpenOptions, Result, open_with};

/// What a model is given.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Tensors by name; those without one are the inputs that are left, in their order.
    pub tensors: Vec<(Option<String>, Tensor)>,
    /// Levels of LoD, outermost first, by the names of inputs; several of one name are several levels.
    pub lod: Vec<(String, Vec<u64>)>,
}

impl Inputs {
    /// Takes all tensors of a file: one without a name of its own is `name`, or the next that is left.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn read(
        &mut self,
        name: Option<&str>,
        path: impl Into<Location>,
        options: &OpenOptions,
    ) -> Result<()> {
        let mut model = open_with(path, options)?;
        model.load()?;
        let one = model.parameters.len() == 1;
        for parameter in model.parameters {
            // The name that the caller says goes before that of an only tensor.
            let said = name.filter(|_| one).map(str::to_owned);
            let own = Some(parameter.name).filter(|own| !own.is_empty());
            let named = said.or(own).or_else(|| name.map(str::to_owned));
            self.tensors.push((named, parameter.tensor));
        }
        Ok(())
    }

    /// The tensors with the names of a model's inputs.
    pub(crate) fn named(mut self, wanted: &[&str]) -> Result<Vec<(String, Tensor)>> {
        let mut named: Vec<(String, Tensor)> = Vec::new();
        let (given, rest): (Vec<_>, Vec<_>) =
            self.tensors.drain(..).partition(|(name, _)| name.is_some());
        named.extend(given.into_iter().filter_map(|(name, tensor)| Some((name?, tensor))));
        for (_, tensor) in rest {
            let is_left = |name: &&&str| !named.iter().any(|(known, _)| known == **name);
            let Some(name) = wanted.iter().find(is_left) else {
                let count = wanted.len();
                let what = format!("more inputs are given than the {count} that the model has");
                return Err(Error::Absent(what));
            };
            named.push(((*name).to_owned(), tensor));
        }
        for (name, level) in self.lod {
            let tensor = named.iter_mut().find(|(known, _)| *known == name);
            let Some((_, tensor)) = tensor else {
                return Err(Error::Absent(format!("there is no input `{name}` to have a LoD")));
            };
            let Lod(levels) = &mut tensor.lod;
            levels.push(level);
        }
        for name in wanted {
            if !named.iter().any(|(known, _)| known == name) {
                return Err(Error::Absent(format!("the input `{name}` is not given")));
            }
        }
        Ok(named)
    }
}

/// Where operators of the model at a path may load from, unless somebody says more: its directory. They may save nowhere.
pub fn dirs_beside(path: impl Into<Location>) -> Dirs {
    let path = path.into();
    let dir = if path.is_dir() { Some(path) } else { path.parent() };
    Dirs { read: dir.map(Location::or_here), ..Dirs::default() }
}

/// What a run may do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunOptions {
    /// Where operators of the program may load and save.
    pub dirs: Dirs,
    /// Names of the values to return instead of the outputs of the program, if there are any.
    pub fetch: Vec<String>,
    /// Bytes that the tensors of the run may take, if the system gives that many; all that it gives by default.
    pub max_memory: Option<u64>,
    /// Operators that the run may take, those in loops each time; any number by default.
    pub max_steps: Option<u64>,
}

lodstone_model::with_fields!(RunOptions {
    with_dirs(dirs: Dirs),
    with_fetch(fetch: Vec<String>),
    with_max_memory(max_memory: Option<u64>),
    with_max_steps(max_steps: Option<u64>),
});

/// Runs the program of a model once; returns its outputs, or the values to fetch, by name, in their order.
///
/// # Errors
/// If the model has no program, an input is missing or not what the program takes, the run would take more than it
/// may, or the program cannot be run: one error lists all operators that are not supported.
pub fn run(model: &Model, inputs: Inputs, options: &RunOptions) -> Result<Vec<Parameter>> {
    let program = model.main();
    let program = program.ok_or_else(|| Error::Absent("the model has no program".to_owned()))?;
    let interface = (conventions(program).interface)(program);
    let inputs = inputs.named(&interface.inputs)?;
    let fetch: Vec<&str> = options.fetch.iter().map(String::as_str).collect();
    let mut prepared = Prepared::new(program, &fetch)?;
    if let Some(steps) = options.max_steps {
        prepared = prepared.with_max_steps(steps);
    }
    let mut scope = Scope::of(model)?;
    if let Some(bytes) = options.max_memory {
        scope = scope.with_memory(bytes);
    }
    let feed: Vec<(&str, Tensor)> =
        inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let outputs = prepared.run(&mut scope, &feed, &options.dirs)?;
    let named = prepared.fetched().iter().cloned().zip(outputs);
    Ok(named.map(|(name, tensor)| Parameter { name, tensor }).collect())
}
