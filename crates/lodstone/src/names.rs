//! Tensors of a model by their names.

use std::borrow::Cow;
use std::collections::HashMap;

use lodstone_formats::named;
use strsim::normalized_levenshtein;

use crate::{Error, Result};

/// The maximum number of similar names that an error lists.
pub(crate) const MAX_SUGGESTIONS: usize = 3;

/// The maximum number of names that are compared with an unknown one.
const MAX_COMPARED: usize = 100_000;

/// The maximum length in bytes of names that are compared: comparing takes the product of the lengths.
const MAX_COMPARED_LEN: usize = 200;

/// The minimum similarity of a listed name, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;

/// The tensors of a model by their names.
///
/// Some formats prefix names with the kind of variable (`arg:weight`). There, a tensor is found with and without the
/// prefix, unless that is ambiguous.
#[derive(Debug)]
pub struct Names {
    /// Tensors by their names.
    numbers: HashMap<String, usize>,
    /// Names with a kind prefix, by the name without it.
    names: HashMap<String, Vec<String>>,
    variable_of: fn(&str) -> &str,
}

impl Names {
    /// Indexes the tensors of a model in `format`, in file order. Of several tensors with the same name, the first is
    /// found.
    pub fn new<'a>(format: &str, names: impl Iterator<Item = Cow<'a, str>>) -> Self {
        // Formats without an entry are read-only and have plain names.
        let variable_of =
            named(format).map_or((|name| name) as fn(&str) -> &str, |it| it.variable_of);
        let mut found = Self { numbers: HashMap::new(), names: HashMap::new(), variable_of };
        for (number, name) in names.enumerate() {
            if found.numbers.contains_key(&*name) {
                continue;
            }
            let variable = variable_of(&name);
            if variable != name {
                found.names.entry(variable.to_owned()).or_default().push(name.to_string());
            }
            found.numbers.insert(name.into_owned(), number);
        }
        found
    }

    /// Returns whether [`find`](Self::find) finds a tensor.
    pub fn contains(&self, name: &str) -> bool {
        self.candidates(name).len() == 1
    }

    /// Returns the index of the tensor called `name`, counted from 0 in file order.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`] if there is none, and [`Error::AmbiguousTensor`] if there are several.
    pub fn find(&self, name: &str) -> Result<usize> {
        match *self.candidates(name) {
            [number] => Ok(number),
            [] => {
                let (name, similar) = (name.to_owned(), self.similar(name));
                Err(Error::NoSuchTensor { name, similar })
            }
            _ => {
                let names = self.names.get(name).into_iter().flatten().cloned().collect();
                Err(Error::AmbiguousTensor { name: name.to_owned(), names })
            }
        }
    }

    /// Returns the tensors that `name` matches.
    fn candidates(&self, name: &str) -> Vec<usize> {
        let number = |name: &str| self.numbers.get(name).copied();
        if let Some(number) = number(name) {
            return vec![number];
        }
        let variable = (self.variable_of)(name);
        if variable != name {
            return number(variable).into_iter().collect();
        }
        let names = self.names.get(name).into_iter().flatten();
        names.filter_map(|name| number(name)).collect()
    }

    fn similar(&self, name: &str) -> Vec<String> {
        let known = self.numbers.iter().map(|(known, number)| (known.as_str(), *number));
        similar_of(name, known, self.variable_of)
    }
}

/// Returns the names most similar to an unknown one, the best one first.
pub(crate) fn similar<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let known = known.into_iter().enumerate().map(|(number, known)| (known, number));
    similar_of(name, known, |name| name)
}

/// Does the same for names that are compared without the prefix for the kind of their variable; of equally similar ones, those with
/// lower numbers come first.
fn similar_of<'n>(
    name: &str,
    known: impl Iterator<Item = (&'n str, usize)>,
    variable_of: fn(&str) -> &str,
) -> Vec<String> {
    let wanted = variable_of(name);
    let is_short = |name: &str| name.len() <= MAX_COMPARED_LEN;
    if !is_short(wanted) {
        return Vec::new();
    }
    let known = known.filter(|(known, number)| *number < MAX_COMPARED && is_short(known));
    let compared = known
        .map(|(known, number)| (normalized_levenshtein(wanted, variable_of(known)), number, known));
    let mut found: Vec<_> = compared.filter(|(score, ..)| *score >= MIN_SIMILARITY).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    found.truncate(MAX_SUGGESTIONS);
    found.into_iter().map(|(.., known)| known.to_owned()).collect()
}
