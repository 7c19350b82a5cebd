//! The inputs of a run.

use lodstone_model::Lod;
use lodstone_store::Location;

use super::Value;
use crate::{Error, OpenOptions, Result, open_with};

/// The inputs of a run.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Values by name. Values without a name are the remaining inputs, in the order of the program.
    pub values: Vec<(Option<String>, Value)>,
    /// LoD levels, each with the name of its input; the levels of an input are in order, outermost first.
    pub lod: Vec<(String, Vec<u64>)>,
}

impl Inputs {
    /// Adds all tensors of a file. `name` is the input for a tensor without a name, and for the only tensor of a file;
    /// by default, a tensor without a name is the next input without a value.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
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
            // The caller's name takes precedence over that of an only tensor.
            let given = name.filter(|_| one).map(str::to_owned);
            let own = Some(parameter.name).filter(|own| !own.is_empty());
            let named = given.or(own).or_else(|| name.map(str::to_owned));
            self.values.push((named, parameter.tensor.into()));
        }
        Ok(())
    }

    /// Returns the values with the names of inputs: those without a name are for `inputs` in their order. Those that are
    /// `required` must have a value.
    pub(crate) fn named(
        mut self,
        inputs: &[String],
        required: &[String],
    ) -> Result<Vec<(String, Value)>> {
        let mut named: Vec<(String, Value)> = Vec::new();
        let (given, rest): (Vec<_>, Vec<_>) =
            self.values.drain(..).partition(|(name, _)| name.is_some());
        named.extend(given.into_iter().filter_map(|(name, value)| Some((name?, value))));
        for (_, value) in rest {
            let is_left = |name: &&String| !named.iter().any(|(known, _)| known == *name);
            let Some(name) = inputs.iter().find(is_left) else {
                return Err(Error::TooManyInputs { max: inputs.len() });
            };
            named.push((name.clone(), value));
        }
        for (name, level) in self.lod {
            let place = named.iter().position(|(known, _)| *known == name);
            let input = place.and_then(|place| named.get_mut(place));
            let Some((_, Value::Tensor(tensor))) = input else {
                let inputs = named.iter().map(|(known, _)| known.as_str());
                return Err(Error::no_input(&name, inputs));
            };
            let Lod(levels) = &mut tensor.lod;
            levels.push(level);
        }
        for name in required {
            if !named.iter().any(|(known, _)| known == name) {
                return Err(Error::MissingInput(name.clone()));
            }
        }
        Ok(named)
    }
}
