//! A program of Glow while it is made: nodes that know the types of their results.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use lodstone_model::{DType, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Member, Node as Kind, Storage, Type, node};
use lodstone_store::Blob;

use super::names::Names;
use super::quantize::Channels;

/// A value: what a node gives, or storage. Only its graph makes one, so that the graph has every value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Value(usize);

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An input of the program, by number.
    Placeholder(usize),
    /// A constant, by number.
    Constant(usize),
    /// A result of a node: the numbers of both.
    Result(usize, usize),
    /// An operator that could not be said: the place where that is told. What comes after it goes on
    /// with its type, so that all such operators are told.
    Unsaid(usize),
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: &'static Kind,
    pub(super) name: String,
    pub(super) inputs: Vec<Value>,
    pub(super) members: Vec<(&'static str, Said)>,
    pub(super) results: Vec<Value>,
    /// The value that tells which elements count.
    pub(super) predicate: Option<Value>,
    /// Options of backends, which stay with the node: `NodeOpt_...`.
    pub(super) options: Vec<lodstone_model::Attribute>,
    /// Whether it was a node of Glow in the program that is read, and stays for what it does.
    pub(super) is_own: bool,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    Float(f32),
    Floats(Vec<f32>),
    Int(i64),
    Ints(Vec<i64>),
    Text(String),
    Values(Vec<Value>),
}

/// Storage that is given a name and is an input, or is a constant.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) storage: Storage,
}

/// A constant.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    pub(super) stored: Stored,
    pub(super) tensor: Tensor,
}

/// A program while it is made.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) names: Names,
    pub(super) nodes: Vec<Node>,
    pub(super) placeholders: Vec<Stored>,
    pub(super) constants: Vec<Constant>,
    values: Vec<(Source, Type)>,
    /// Whether a value was looked for that is not of this graph.
    is_broken: Cell<bool>,
    /// Constants with a scale for each channel, by the numbers that they stand for.
    pub(super) channels: HashMap<Value, Channels>,
    /// Kinds that nodes are told to have been, by name.
    pub(super) kinds: HashMap<String, &'static str>,
    /// Values that are computed by nodes even if they are known, as they were in Glow.
    pub(super) told: HashSet<Value>,
    /// What a user should know of what it means.
    pub(super) notes: Vec<String>,
    /// Nodes that may still be added.
    left: usize,
    /// Bytes of constants that may still be made; none once more were asked for.
    pub(super) room: Option<usize>,
}

/// Most extents of a tensor of Glow.
pub(super) const MOST_EXTENTS: usize = 6;

/// Most nodes that a program becomes beyond those that follow from its size: recurrent operators and loops
/// are unrolled, and how often is only a number in the file. A hundred thousand are some 100 MB.
const MOST_NODES: usize = 100_000;

/// Bytes of constants that a program may ask for by numbers: ranges, windows, triangles.
const MOST_BYTES: usize = 256 << 20;

impl Graph {
    /// Nothing yet, of a program of so many operators.
    pub(super) fn new(names: Names, operators: usize) -> Self {
        let left = operators.saturating_mul(16).saturating_add(MOST_NODES);
        let (nodes, placeholders, constants) = (Vec::new(), Vec::new(), Vec::new());
        let (values, notes, channels) = (Vec::new(), Vec::new(), HashMap::new());
        let (kinds, told) = (HashMap::new(), HashSet::new());
        let (room, is_broken) = (Some(MOST_BYTES), Cell::new(false));
        Self {
            names,
            nodes,
            placeholders,
            constants,
            values,
            is_broken,
            channels,
            kinds,
            told,
            notes,
            left,
            room,
        }
    }

    /// Fails if a value was ever looked for that is not of this graph. That is a defect, and what was made after it
    /// is worth nothing; that it is remembered spares a hundred callers to hand the error on.
    pub(super) fn check(&self) -> Result<(), Finding> {
        match self.is_broken.get() {
            false => Ok(()),
            true => Err(Finding::internal("a value of another graph was looked for")),
        }
    }

    fn known(&self, value: Value) -> Option<&(Source, Type)> {
        let known = self.values.get(value.0);
        self.is_broken.set(self.is_broken.get() || known.is_none());
        known
    }

    pub(super) fn source(&self, value: Value) -> Source {
        self.known(value).map_or(Source::Unsaid(0), |(source, _)| *source)
    }

    pub(super) fn type_of(&self, value: Value) -> Type {
        let nothing = || plain(ElemKind::Float, Vec::new());
        self.known(value).map_or_else(nothing, |(_, known)| known.clone())
    }

    pub(super) fn shape(&self, value: Value) -> &[i64] {
        self.known(value).map_or(&[], |(_, known)| &known.shape)
    }

    fn add(&mut self, source: Source, of: Type) -> Value {
        self.values.push((source, of));
        Value(self.values.len() - 1)
    }

    /// A value that could not be made.
    pub(super) fn unsaid(&mut self, place: usize, of: Type) -> Value {
        self.add(Source::Unsaid(place), of)
    }

    /// Changes what a result is said to be, where its node is made another one.
    pub(super) fn retype(&mut self, value: Value, of: Type) {
        match self.values.get_mut(value.0) {
            Some((_, known)) => *known = of,
            None => self.is_broken.set(true),
        }
    }

    /// An input of the program.
    pub(super) fn placeholder(&mut self, name: &str, of: Type, storage: Storage) -> Value {
        let value = self.add(Source::Placeholder(self.placeholders.len()), of);
        let name = self.names.give(name);
        self.placeholders.push(Stored { name, value, storage });
        value
    }

    /// A constant.
    pub(super) fn constant(
        &mut self,
        name: &str,
        of: Type,
        storage: Storage,
        tensor: Tensor,
    ) -> Value {
        let value = self.add(Source::Constant(self.constants.len()), of);
        let name = self.names.give(name);
        self.constants.push(Constant { stored: Stored { name, value, storage }, tensor });
        value
    }

    /// Takes the room of bytes that are made; `None` if there is not so much left.
    pub(super) fn afford(&mut self, bytes: usize) -> Option<()> {
        self.room = self.room?.checked_sub(bytes);
        self.room.map(drop)
    }

    /// A constant of these elements.
    ///
    /// # Errors
    /// If it is of no type of Glow, or the program has asked for too many bytes of constants.
    pub(super) fn constant_of(
        &mut self,
        name: &str,
        kind: ElemKind,
        shape: Vec<i64>,
        bytes: Vec<u8>,
    ) -> Result<Value, Finding> {
        self.afford(bytes.len()).ok_or("its constants would become too large")?;
        let of = checked(plain(kind, shape))?;
        let extents: Result<_, _> = of.shape.iter().map(|extent| u64::try_from(*extent)).collect();
        let extents = extents.map_err(|_| Finding::internal("a checked extent is below 0"))?;
        let tensor = Tensor::dense(kind.dtype(), extents, Blob::memory(bytes));
        Ok(self.constant(name, of, Storage::default(), tensor))
    }

    /// A node; gives its results.
    ///
    /// # Errors
    /// If there are too many, or a result is of no type of Glow.
    pub(super) fn node(
        &mut self,
        kind: &'static str,
        name: &str,
        inputs: Vec<Value>,
        members: Vec<(&'static str, Said)>,
        results: Vec<Type>,
    ) -> Result<Vec<Value>, Finding> {
        let kind = node(kind).ok_or_else(|| format!("Glow has no node `{kind}`"))?;
        members.iter().try_for_each(|(name, said)| fits(kind, name, said))?;
        let results: Result<Vec<_>, _> = results.into_iter().map(checked).collect();
        let results = results?;
        self.left = self.left.checked_sub(1).ok_or("it would become too many nodes")?;
        let number = self.nodes.len();
        let name = self.names.give(name);
        let results = results.into_iter().enumerate();
        let results: Vec<_> =
            results.map(|(index, of)| self.add(Source::Result(number, index), of)).collect();
        let (predicate, options) = (None, Vec::new());
        let results_of = results.clone();
        let is_own = false;
        self.nodes.push(Node { kind, name, inputs, members, results, predicate, options, is_own });
        Ok(results_of)
    }

    /// The node that gives a value, if one does.
    pub(super) fn maker(&self, value: Value) -> Option<(&Node, usize)> {
        match self.source(value) {
            Source::Result(number, result) => {
                let node = self.nodes.get(number);
                self.is_broken.set(self.is_broken.get() || node.is_none());
                node.map(|node| (node, result))
            }
            _ => None,
        }
    }

    /// What a transposed value was before, if this order brings it back.
    pub(super) fn turned_back(&self, value: Value, order: &[i64]) -> Option<Value> {
        let (node, _) = self.maker(value).filter(|(node, _)| node.kind.kind == "Transpose")?;
        let (_, Said::Ints(before)) = node.members.first()? else { return None };
        let from = |axis: &i64| usize::try_from(*axis).ok().and_then(|axis| before.get(axis));
        let place = |(to, axis): (i64, &i64)| from(axis) == Some(&to);
        let value = *node.inputs.first()?;
        (0..).zip(order).all(place).then_some(value)
    }
}

impl Node {
    /// Everything it reads: inputs, then values of members, then its predicate.
    pub(super) fn reads(&self) -> impl Iterator<Item = Value> + '_ {
        let members = self.members.iter().flat_map(|(_, said)| match said {
            Said::Values(values) => values.as_slice(),
            _ => &[],
        });
        self.inputs.iter().chain(members).copied().chain(self.predicate)
    }

    pub(super) fn reads_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        let members = self.members.iter_mut().flat_map(|(_, said)| match said {
            Said::Values(values) => values.as_mut_slice(),
            _ => &mut [],
        });
        self.inputs.iter_mut().chain(members).chain(&mut self.predicate)
    }
}

/// Whether a member may be what is said of it.
fn fits(kind: &Kind, name: &str, said: &Said) -> Result<(), Finding> {
    let member = kind.members.iter().find(|(known, _)| *known == name).map(|(_, member)| *member);
    let (least, numbers) = match (member, said) {
        (Some(Member::Int(least)), Said::Int(number)) => (least, std::slice::from_ref(number)),
        (Some(Member::Ints(least)), Said::Ints(numbers)) => (least, numbers.as_slice()),
        _ => return Ok(()),
    };
    match numbers.iter().find(|number| **number < least) {
        Some(number) => {
            Err(format!("expected numbers from {least} on as `{name}`, found {number}").into())
        }
        None => Ok(()),
    }
}

/// A type without scale and offset; one of a quantized kind stands for its integers.
pub(super) fn plain(kind: ElemKind, shape: Vec<i64>) -> Type {
    let quantization = kind.is_quantized().then_some((1.0, 0));
    Type { kind, shape, strides: None, quantization }
}

/// A type that Glow has.
pub(super) fn checked(of: Type) -> Result<Type, Finding> {
    if of.shape.len() > MOST_EXTENTS {
        let found = of.shape.len();
        return Err(format!("expected at most {MOST_EXTENTS} extents, found {found}").into());
    }
    if of.shape.iter().any(|extent| *extent < 0) {
        return Err(format!("expected extents from 0 on, found {:?}", of.shape).into());
    }
    count(&of.shape)?;
    Ok(of)
}

/// How many elements a shape has.
pub(super) fn count(shape: &[i64]) -> Result<i64, Finding> {
    // The bytes of it have to be a number, too.
    let fits = |count: &i64| *count <= i64::MAX / 8;
    if shape.contains(&0) {
        return Ok(0);
    }
    let count = shape.iter().try_fold(1_i64, |count, extent| count.checked_mul(*extent));
    count.filter(fits).ok_or_else(|| format!("a tensor of the shape {shape:?} is too large").into())
}

/// What elements of a type are in Glow, without quantization.
pub(super) fn kind_of(dtype: DType) -> Option<ElemKind> {
    Some(match dtype {
        DType::Float32 => ElemKind::Float,
        DType::Float16 => ElemKind::Float16,
        DType::BFloat16 => ElemKind::BFloat16,
        DType::Float64 => ElemKind::Float64,
        DType::Bool => ElemKind::Bool,
        DType::Uint8 => ElemKind::UInt8I,
        DType::Int32 => ElemKind::Int32I,
        DType::Int64 => ElemKind::Int64I,
        // These have no plain kind: their integers are of scale 1.
        DType::Int8 => ElemKind::Int8Q,
        DType::Int16 => ElemKind::Int16Q,
        _ => return None,
    })
}
