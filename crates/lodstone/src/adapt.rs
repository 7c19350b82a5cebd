//! Renaming and transposing tensors, for frameworks that use other names and layouts.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use lodstone_model::{Kind, Model, Tensor, Var};
use lodstone_schema::conventions;
use lodstone_store::{Blob, Location, Permuted};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::{Error, Result};

/// A map from tensor names to new names.
#[derive(Clone, Debug, Default)]
pub struct Renames {
    exact: HashMap<String, String>,
    patterns: Vec<(String, String)>,
}

/// The maximum size of a map file in bytes: a hundred bytes for each of the maximum number of tensors in a model.
const MAX_MAP_LEN: u64 = 1 << 30;

impl Renames {
    /// Reads a map from a file.
    ///
    /// # Errors
    /// The errors of [`parse`](Self::parse), or if the file cannot be read.
    pub fn load(path: impl Into<Location>) -> Result<Self> {
        let path = path.into();
        let fail = |why: String| Error::Renames { place: path.display().to_string(), why };
        let blob = Blob::open(&path, false)?;
        if blob.len() > MAX_MAP_LEN {
            return Err(fail("it is larger than 1 GiB".to_owned()));
        }
        let text = String::from_utf8(blob.read()?.to_vec());
        let text = text.map_err(|_| fail("it is not UTF-8".to_owned()))?;
        Self::parse(&text).map_err(|error| match error {
            Error::Renames { place, why } => fail(format!("{place}: {why}")),
            error => error,
        })
    }

    /// Parses a map: a JSON object from old to new names, or
    /// one line per name with the old name, blanks or a tab, and the new name. `#` starts a comment. A
    /// `*` in an old name matches any text, and the n-th `*` of the new name is replaced by the match of the n-th
    /// `*` of the old one.
    ///
    /// # Errors
    /// [`Error::Renames`] with the line.
    pub fn parse(text: &str) -> Result<Self> {
        let fail = |place: String, why: &str| Error::Renames { place, why: why.to_owned() };
        let mut renames = Self::default();
        if text.trim_start().starts_with('{') {
            let pairs: Pairs = serde_json::from_str(text)
                .map_err(|error| fail("JSON".to_owned(), &error.to_string()))?;
            for (old, new) in pairs.0 {
                renames.add(&old, &new).map_err(|why| fail(format!("`{old}`"), why))?;
            }
            return Ok(renames);
        }
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pair = line.split_once('\t').or_else(|| line.split_once(char::is_whitespace));
            let Some((old, new)) = pair else {
                return Err(fail(format!("line {number}"), "expected an old name and a new one"));
            };
            let added = renames.add(old.trim(), new.trim());
            added.map_err(|why| fail(format!("line {number}"), why))?;
        }
        Ok(renames)
    }

    /// Adds an old name and a new one, as a line of a [map](Self::parse) has them.
    ///
    /// # Errors
    /// [`Error::Renames`] with the old name.
    pub fn with(mut self, old: &str, new: &str) -> Result<Self> {
        let added = self.add(old, new);
        added.map_err(|why| Error::Renames { place: format!("`{old}`"), why: why.to_owned() })?;
        Ok(self)
    }

    /// Adds the names of another map. Patterns of this one take precedence.
    ///
    /// # Errors
    /// [`Error::Renames`] if they give an old name different new names.
    pub fn and(mut self, other: Self) -> Result<Self> {
        for (old, new) in other.exact.into_iter().chain(other.patterns) {
            self = self.with(&old, &new)?;
        }
        Ok(self)
    }

    /// Creates a map from names of tensors to new ones.
    pub(crate) fn exact(names: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { exact: names.into_iter().collect(), patterns: Vec::new() }
    }

    fn add(&mut self, old: &str, new: &str) -> Result<(), &'static str> {
        let stars = |name: &str| name.matches('*').count();
        if new.is_empty() {
            return Err("the new name is empty");
        }
        if stars(new) > stars(old) {
            return Err("the new name has more `*` than the old one");
        }
        if stars(old) > 0 {
            self.patterns.push((old.to_owned(), new.to_owned()));
            return Ok(());
        }
        match self.exact.insert(old.to_owned(), new.to_owned()) {
            Some(before) if before != new => Err("the old name has two new names"),
            _ => Ok(()),
        }
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.patterns.is_empty()
    }

    /// Returns the new name of a tensor, if the map has one: that of the whole name, or of the first matching
    /// pattern.
    pub fn of(&self, name: &str) -> Option<String> {
        let by_pattern = || {
            self.patterns.iter().find_map(|(old, new)| {
                let found = captures(old, name)?;
                let mut found = found.into_iter();
                let mut parts = new.split('*');
                let mut renamed = parts.next().unwrap_or_default().to_owned();
                for part in parts {
                    renamed += found.next().unwrap_or_default();
                    renamed += part;
                }
                Some(renamed)
            })
        };
        self.exact.get(name).cloned().or_else(by_pattern)
    }

    /// Renames the tensors of a model, and everything in its program that refers to them; returns the number of
    /// renamed tensors.
    ///
    /// # Errors
    /// If two tensors would get the same name, or one that another variable of the program has.
    pub fn apply(&self, model: &mut Model) -> Result<usize> {
        let mut renamed = HashMap::new();
        for parameter in &mut model.parameters {
            if let Some(new) = self.of(&parameter.name).filter(|new| *new != parameter.name) {
                renamed.insert(std::mem::replace(&mut parameter.name, new.clone()), new);
            }
        }
        let mut taken = HashSet::new();
        let new: HashSet<&String> = renamed.values().collect();
        let mut named = model.parameters.iter().map(|parameter| &parameter.name);
        if let Some(name) = named.find(|name| !taken.insert(*name) && new.contains(name)) {
            return Err(Error::DuplicateName { what: "tensors", name: name.clone() });
        }
        for program in model.programs.iter_mut() {
            let variable = |name: &String| (conventions(program).variable_of)(name).to_owned();
            let variables: HashMap<String, String> =
                renamed.iter().map(|(old, new)| (variable(old), variable(new))).collect();
            let new: HashSet<&String> = variables.values().collect();
            let other = |var: &&Var| new.contains(&var.name) && !variables.contains_key(&var.name);
            if let Some(var) = program.vars().find(other) {
                return Err(Error::DuplicateName { what: "variables", name: var.name.clone() });
            }
            program.rename(&variables);
        }
        Ok(renamed.len())
    }
}

/// The members of a JSON object of strings. (In a map, the last of two equal keys would silently win.)
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from old names to new names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = members.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Returns the text that each `*` of a pattern matches in `name`: the shortest possible match, and the rest for the
/// last `*`.
fn captures<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
    let (first, rest) = pattern.split_once('*')?;
    let mut name = name.strip_prefix(first)?;
    let mut found = Vec::new();
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let (before, after) = name.split_once(part)?;
        found.push(before);
        name = after;
    }
    found.push(name.strip_suffix(last)?);
    Some(found)
}

/// The result of a transposition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transposed {
    /// The number of tensors that were transposed.
    pub(crate) tensors: usize,
    /// The number of matching tensors that are not matrices.
    pub(crate) others: usize,
}

/// Transposes the matrices whose names match the patterns.
pub(crate) fn transpose(model: &mut Model, patterns: &[String]) -> Result<Transposed> {
    let (set, mut done) = (globs(patterns)?, Transposed::default());
    for parameter in &mut model.parameters {
        if !set.is_match(&parameter.name) {
            continue;
        }
        match transposed(&parameter.tensor) {
            Some(tensor) => {
                parameter.tensor = tensor;
                done.tensors += 1;
            }
            None => done.others += 1,
        }
    }
    if !patterns.is_empty() && done.tensors == 0 {
        return Err(Error::NoMatch { what: "matrix", patterns: patterns.to_vec() });
    }
    Ok(done)
}

fn transposed(tensor: &Tensor) -> Option<Tensor> {
    let [rows, columns] = *tensor.shape.as_slice() else { return None };
    permuted(tensor, &[1, 0], vec![columns, rows])
}

/// Permutes the dims of a dense tensor: dim `order[n]` becomes dim `n`, and `shape` is the new shape.
pub(crate) fn permuted(tensor: &Tensor, order: &[usize], shape: Vec<u64>) -> Option<Tensor> {
    let bits = tensor.dtype.bits().filter(|bits| bits % 8 == 0)?;
    let item = usize::try_from(bits / 8).ok()?;
    if !matches!(tensor.kind, Kind::Dense) || !tensor.lod.is_empty() {
        return None;
    }
    let permuted = Permuted::new(tensor.data.clone(), item, &tensor.shape, order)?;
    Some(Tensor::dense(tensor.dtype, shape, Blob::derived(Arc::new(permuted))))
}

/// Returns the names that match one of the patterns.
pub(crate) fn globs(patterns: &[String]) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    let fail = |pattern: &str, error: &globset::Error| Error::Pattern {
        pattern: pattern.to_owned(),
        why: error.kind().to_string(),
    };
    for pattern in patterns {
        // Names of tensors are not paths: `*` matches slashes.
        let glob = GlobBuilder::new(pattern).literal_separator(false).build();
        set.add(glob.map_err(|error| fail(pattern, &error))?);
    }
    set.build().map_err(|error| fail(&patterns.join(" "), &error))
}
