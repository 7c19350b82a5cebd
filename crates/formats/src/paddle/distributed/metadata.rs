//! The metadata of a distributed checkpoint.

use std::collections::{BTreeSet, HashMap};

use lodstone_model::{DType, Limits};
use lodstone_store::Blob;

use crate::encoding::array::MAX_RANK;
use crate::encoding::pickle::{self, Id, Shapes, Value};
use crate::error::{Error, Result};
use crate::paddle::pickle::builds;

/// The tensors of a checkpoint, in the order of the file.
pub(super) struct Metadata {
    pub(super) tensors: Vec<(String, Vec<Local>)>,
    /// The file of each part, by the name of the tensor.
    pub(super) files: HashMap<(String, Place), String>,
    /// The files of replicas, which are not read.
    pub(super) replicas: BTreeSet<String>,
}

/// The place of a part in its tensor: a box, or a range of the elements of a box.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) offsets: Vec<u64>,
    /// The first element and the end.
    pub(super) range: Option<(u64, u64)>,
    /// The dims of the box; `None` in files of releases that do not record them with the place.
    pub(super) sizes: Option<Vec<u64>>,
}

/// A part of a tensor.
pub(super) struct Local {
    pub(super) place: Place,
    pub(super) sizes: Vec<u64>,
    pub(super) dtype: DType,
    pub(super) whole: Option<Vec<u64>>,
}

impl Metadata {
    /// Reads the metadata.
    ///
    /// # Errors
    /// Fails if the pickle is not one of `Metadata`.
    pub(super) fn read(blob: &Blob, limits: &Limits) -> Result<Self> {
        let shapes = Shapes::check(pickle::read(blob, 0, limits)?, builds)?;
        let reader = Reader { shapes: &shapes };
        let root = reader.record(shapes.tree.root(), "Metadata")?;
        let (mut tensors, mut files) = (Vec::new(), HashMap::new());
        let mut replicas = BTreeSet::new();
        for (name, parts) in reader.dict(root.required("state_dict_metadata")?)? {
            let name = reader.word(*name)?;
            if tensors.len() >= limits.tensors {
                let limit = limits.at_most_tensors("tensors");
                return Err(shapes.tree.over_limit(*parts, limit));
            }
            let parts = reader.items(*parts)?.iter().map(|part| reader.local(*part));
            tensors.push((name, parts.collect::<Result<_>>()?));
        }
        for (index, file) in reader.dict(root.required("storage_metadata")?)? {
            let part = reader.record(*index, "LocalTensorIndex")?;
            let replica = part.given("replica_id").map(|id| reader.number(id)).transpose()?;
            if replica.is_some_and(|replica| replica > 0) {
                replicas.insert(reader.word(*file)?);
                continue;
            }
            let name = reader.word(part.required("tensor_key")?)?;
            let sizes = part.given("local_shape").map(|id| reader.numbers(id)).transpose()?;
            let key = (name, Place { sizes, ..reader.place(&part)? });
            if files.insert(key, reader.word(*file)?).is_some() {
                return Err(reader.odd(*index, "one file for each part"));
            }
        }
        Ok(Self { tensors, files, replicas })
    }
}

/// Reads values of a pickle.
struct Reader<'a> {
    shapes: &'a Shapes,
}

/// The attributes of an instance.
struct Record<'a> {
    reader: &'a Reader<'a>,
    id: Id,
    attributes: HashMap<String, Id>,
}

impl Record<'_> {
    /// Returns an attribute that is not `None`.
    fn given(&self, name: &str) -> Option<Id> {
        let id = self.attributes.get(name).copied()?;
        (!matches!(self.reader.shapes.value(id), Ok(Value::None))).then_some(id)
    }

    fn required(&self, name: &str) -> Result<Id> {
        let odd = || self.reader.odd(self.id, &format!("an attribute `{name}`"));
        self.given(name).ok_or_else(odd)
    }
}

impl<'a> Reader<'a> {
    fn odd(&self, id: Id, expected: &str) -> Error {
        let tree = &self.shapes.tree;
        tree.error(id, expected, format!("`{}`", tree.describe(id)))
    }

    fn record(&'a self, id: Id, class: &str) -> Result<Record<'a>> {
        let odd = || self.odd(id, &format!("an instance of {class}"));
        let Value::Record(name, pairs) = self.shapes.value(id)? else { return Err(odd()) };
        if name.rsplit('.').next() != Some(class) {
            return Err(odd());
        }
        let mut attributes = HashMap::with_capacity(pairs.len());
        for (key, value) in pairs {
            attributes.insert(self.word(*key)?, *value);
        }
        Ok(Record { reader: self, id, attributes })
    }

    fn local(&self, id: Id) -> Result<Local> {
        let part = self.record(id, "LocalTensorMetadata")?;
        let sizes = self.numbers(part.required("local_shape")?)?;
        let dtype = part.required("dtype")?;
        let named = self.word(dtype)?;
        // As `paddle.dtype` spells it.
        let known = DType::from_name(named.strip_prefix("paddle.").unwrap_or(&named));
        let dtype = known.ok_or_else(|| self.odd(dtype, "an element type"))?;
        let whole = part.given("global_shape").map(|id| self.numbers(id)).transpose()?;
        Ok(Local { place: self.place(&part)?, sizes, dtype, whole })
    }

    fn place(&self, part: &Record<'_>) -> Result<Place> {
        let offsets = self.numbers(part.required("global_offset")?)?;
        let Some(id) = part.given("flattened_range") else {
            return Ok(Place { offsets, range: None, sizes: None });
        };
        match self.numbers(id)?.as_slice() {
            [start, end] if start <= end => {
                Ok(Place { offsets, range: Some((*start, *end)), sizes: None })
            }
            _ => Err(self.odd(id, "the start and the end of a range")),
        }
    }

    fn dict(&self, id: Id) -> Result<&'a [(Id, Id)]> {
        match self.shapes.value(id)? {
            Value::Dict(pairs) => Ok(pairs),
            _ => Err(self.odd(id, "a dict")),
        }
    }

    fn items(&self, id: Id) -> Result<&'a [Id]> {
        match self.shapes.value(id)? {
            Value::List(items) | Value::Tuple(items) => Ok(items),
            _ => Err(self.odd(id, "a list")),
        }
    }

    fn word(&self, id: Id) -> Result<String> {
        self.shapes.tree.word(id)?.ok_or_else(|| self.odd(id, "a string"))
    }

    fn number(&self, id: Id) -> Result<u64> {
        let odd = || self.odd(id, "a nonnegative integer");
        match self.shapes.value(id)? {
            Value::Int(number) => u64::try_from(number).map_err(|_| odd()),
            _ => Err(odd()),
        }
    }

    /// Returns dims, offsets or a range.
    fn numbers(&self, id: Id) -> Result<Vec<u64>> {
        let items = self.items(id)?;
        // Before they are copied: many parts may refer to one long list.
        if items.len() > MAX_RANK {
            return Err(self.odd(id, &format!("at most {MAX_RANK} dims")));
        }
        items.iter().map(|id| self.number(*id)).collect()
    }
}
