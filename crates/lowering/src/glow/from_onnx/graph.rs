//! A Glow program under construction: nodes with the types of their results.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use lodstone_model::{DType, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Member, Node as Kind, Storage, Type, node};
use lodstone_store::Blob;

use super::names::Names;
use super::quantize::Channels;

/// A value: a result of a node, or storage. Only the graph creates values, so that it has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value(usize);

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// An input of the program, by index.
    Placeholder(usize),
    /// A constant, by index.
    Constant(usize),
    /// A result of a node, by the indices of both.
    Result(usize, usize),
    /// An operator without an equivalent, by the index of its failure. Its outputs keep their types, so that operators
    /// after it are checked too.
    Untranslated(usize),
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: &'static Kind,
    pub(crate) name: String,
    pub(crate) inputs: Vec<Value>,
    pub(crate) members: Vec<(&'static str, MemberValue)>,
    pub(crate) results: Vec<Value>,
    /// The value that selects the elements that matter.
    pub(crate) predicate: Option<Value>,
    /// Options of backends, which stay with the node: `NodeOpt_...`.
    pub(crate) options: Vec<lodstone_model::Attribute>,
    /// Whether it was a Glow node in the source program, and is kept for its side effects.
    pub(crate) is_own: bool,
}

/// The value of a member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MemberValue {
    Float(f32),
    Floats(Vec<f32>),
    Int(i64),
    Ints(Vec<i64>),
    Text(String),
    Values(Vec<Value>),
}

/// Named storage: an input or a constant.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) storage: Storage,
}

/// A constant.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) stored: Stored,
    pub(crate) tensor: Tensor,
}

/// A program under construction.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) names: Names,
    pub(crate) nodes: Vec<Node>,
    pub(crate) placeholders: Vec<Stored>,
    pub(crate) constants: Vec<Constant>,
    values: Vec<(Source, Type)>,
    /// Whether a value of another graph was looked up.
    is_broken: Cell<bool>,
    /// Constants with a scale for each channel, by the values that they dequantize to.
    pub(crate) channels: HashMap<Value, Channels>,
    /// Recorded kinds of nodes, by name.
    pub(crate) kinds: HashMap<String, &'static str>,
    /// Values that nodes compute even if they are known, as they did in Glow.
    pub(crate) computed: HashSet<Value>,
    /// Notes for users.
    pub(crate) notes: Vec<String>,
    /// The number of nodes that may still be added.
    left: usize,
    /// The number of bytes of constants that may still be created; `None` once the limit was exceeded.
    pub(crate) room: Option<usize>,
}

/// The maximum rank of a Glow tensor.
pub(crate) const MAX_RANK: usize = 6;

/// The maximum number of nodes beyond those that follow from the size of the program: recurrent operators and loops are
/// unrolled, and the number of iterations is only a value in the file. A hundred thousand nodes take about 100 MB.
const MAX_NODES: usize = 100_000;

/// The maximum size in bytes of generated constants: ranges, windows, triangles.
const MAX_BYTES: usize = 256 << 20;

impl Graph {
    /// Creates an empty graph for a program of this number of operators.
    pub(crate) fn new(names: Names, operators: usize) -> Self {
        let left = operators.saturating_mul(16).saturating_add(MAX_NODES);
        let (nodes, placeholders, constants) = (Vec::new(), Vec::new(), Vec::new());
        let (values, notes, channels) = (Vec::new(), Vec::new(), HashMap::new());
        let (kinds, computed) = (HashMap::new(), HashSet::new());
        let (room, is_broken) = (Some(MAX_BYTES), Cell::new(false));
        Self {
            names,
            nodes,
            placeholders,
            constants,
            values,
            is_broken,
            channels,
            kinds,
            computed,
            notes,
            left,
            room,
        }
    }

    /// Fails if a value of another graph was ever looked up. That is a defect that invalidates the result; recording it
    /// spares a hundred callers the error handling.
    pub(crate) fn check(&self) -> Result<(), Finding> {
        match self.is_broken.get() {
            false => Ok(()),
            true => Err(Finding::internal("a value of another graph was looked up")),
        }
    }

    fn known(&self, value: Value) -> Option<&(Source, Type)> {
        let known = self.values.get(value.0);
        self.is_broken.set(self.is_broken.get() || known.is_none());
        known
    }

    pub(crate) fn source(&self, value: Value) -> Source {
        self.known(value).map_or(Source::Untranslated(0), |(source, _)| *source)
    }

    pub(crate) fn type_of(&self, value: Value) -> Type {
        let nothing = || plain(ElemKind::Float, Vec::new());
        self.known(value).map_or_else(nothing, |(_, known)| known.clone())
    }

    pub(crate) fn shape(&self, value: Value) -> &[i64] {
        self.known(value).map_or(&[], |(_, known)| &known.shape)
    }

    fn add(&mut self, source: Source, of: Type) -> Value {
        self.values.push((source, of));
        Value(self.values.len() - 1)
    }

    /// Creates a value for an operator without an equivalent.
    pub(crate) fn untranslated(&mut self, place: usize, of: Type) -> Value {
        self.add(Source::Untranslated(place), of)
    }

    /// Changes the type of a result whose node is replaced.
    pub(crate) fn retype(&mut self, value: Value, of: Type) {
        match self.values.get_mut(value.0) {
            Some((_, known)) => *known = of,
            None => self.is_broken.set(true),
        }
    }

    /// Adds an input of the program.
    pub(crate) fn placeholder(&mut self, name: &str, of: Type, storage: Storage) -> Value {
        let value = self.add(Source::Placeholder(self.placeholders.len()), of);
        let name = self.names.give(name);
        self.placeholders.push(Stored { name, value, storage });
        value
    }

    /// Adds a constant.
    pub(crate) fn constant(
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

    /// Charges the bytes of constants; `None` if the limit is exceeded.
    pub(crate) fn afford(&mut self, bytes: usize) -> Option<()> {
        self.room = self.room?.checked_sub(bytes);
        self.room.map(drop)
    }

    /// Adds a constant of these elements.
    ///
    /// # Errors
    /// If Glow does not have its type, or the constants of the program become too large.
    pub(crate) fn constant_of(
        &mut self,
        name: &str,
        kind: ElemKind,
        shape: Vec<i64>,
        bytes: Vec<u8>,
    ) -> Result<Value, Finding> {
        self.afford(bytes.len()).ok_or("the constants become too large")?;
        let of = checked(plain(kind, shape))?;
        let dims: Result<_, _> = of.shape.iter().map(|dim| u64::try_from(*dim)).collect();
        let dims = dims.map_err(|_| Finding::internal("a checked dim is below 0"))?;
        let tensor = Tensor::dense(kind.dtype(), dims, Blob::memory(bytes));
        Ok(self.constant(name, of, Storage::default(), tensor))
    }

    /// Adds a node; returns its results.
    ///
    /// # Errors
    /// If there are too many nodes, or Glow does not have the type of a result.
    pub(crate) fn node(
        &mut self,
        kind: &'static str,
        name: &str,
        inputs: Vec<Value>,
        members: Vec<(&'static str, MemberValue)>,
        results: Vec<Type>,
    ) -> Result<Vec<Value>, Finding> {
        let kind = node(kind).ok_or_else(|| format!("Glow has no node `{kind}`"))?;
        members.iter().try_for_each(|(name, value)| fits(kind, name, value))?;
        let results: Result<Vec<_>, _> = results.into_iter().map(checked).collect();
        let results = results?;
        self.left = self.left.checked_sub(1).ok_or("the program becomes too many nodes")?;
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

    /// Returns the node that computes a value, if any.
    pub(crate) fn maker(&self, value: Value) -> Option<(&Node, usize)> {
        match self.source(value) {
            Source::Result(number, result) => {
                let node = self.nodes.get(number);
                self.is_broken.set(self.is_broken.get() || node.is_none());
                node.map(|node| (node, result))
            }
            _ => None,
        }
    }

    /// Returns the operand of a transposition that this permutation reverses, if any.
    pub(crate) fn turned_back(&self, value: Value, order: &[i64]) -> Option<Value> {
        let (node, _) = self.maker(value).filter(|(node, _)| node.kind.kind == "Transpose")?;
        let (_, MemberValue::Ints(before)) = node.members.first()? else { return None };
        let from = |axis: &i64| usize::try_from(*axis).ok().and_then(|axis| before.get(axis));
        let place = |(to, axis): (i64, &i64)| from(axis) == Some(&to);
        let value = *node.inputs.first()?;
        (0..).zip(order).all(place).then_some(value)
    }
}

impl Node {
    /// Returns all operands: inputs, then values of members, then the predicate.
    pub(crate) fn reads(&self) -> impl Iterator<Item = Value> + '_ {
        let members = self.members.iter().flat_map(|(_, value)| match value {
            MemberValue::Values(values) => values.as_slice(),
            _ => &[],
        });
        self.inputs.iter().chain(members).copied().chain(self.predicate)
    }

    pub(crate) fn reads_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        let members = self.members.iter_mut().flat_map(|(_, value)| match value {
            MemberValue::Values(values) => values.as_mut_slice(),
            _ => &mut [],
        });
        self.inputs.iter_mut().chain(members).chain(&mut self.predicate)
    }
}

/// Checks that a value is allowed for a member.
fn fits(kind: &Kind, name: &str, value: &MemberValue) -> Result<(), Finding> {
    let member = kind.members.iter().find(|(known, _)| *known == name).map(|(_, member)| *member);
    let (least, numbers) = match (member, value) {
        (Some(Member::Int(least)), MemberValue::Int(number)) => {
            (least, std::slice::from_ref(number))
        }
        (Some(Member::Ints(least)), MemberValue::Ints(numbers)) => (least, numbers.as_slice()),
        (Some(Member::Code(count)), MemberValue::Int(number)) if !(0..count).contains(number) => {
            let last = count - 1;
            return Err(format!("expected 0 to {last} as `{name}`, found {number}").into());
        }
        _ => return Ok(()),
    };
    match numbers.iter().find(|number| **number < least) {
        Some(number) => {
            Err(format!("expected values of at least {least} as `{name}`, found {number}").into())
        }
        None => Ok(()),
    }
}

/// Returns a type without scale and offset; one of a quantized kind stands for its integers.
pub(crate) fn plain(kind: ElemKind, shape: Vec<i64>) -> Type {
    let quantization = kind.is_quantized().then_some((1.0, 0));
    Type { kind, shape, strides: None, quantization }
}

/// Checks that Glow has a type.
pub(crate) fn checked(of: Type) -> Result<Type, Finding> {
    if of.shape.len() > MAX_RANK {
        let found = of.shape.len();
        return Err(format!("expected at most {MAX_RANK} dims, found {found}").into());
    }
    if of.shape.iter().any(|dim| *dim < 0) {
        return Err(format!("expected dims of at least 0, found {:?}", of.shape).into());
    }
    count(&of.shape)?;
    Ok(of)
}

/// Returns the number of elements of a shape.
pub(crate) fn count(shape: &[i64]) -> Result<i64, Finding> {
    // The size in bytes must not overflow either.
    let fits = |count: &i64| *count <= i64::MAX / 8;
    if shape.contains(&0) {
        return Ok(0);
    }
    let count = shape.iter().try_fold(1_i64, |count, dim| count.checked_mul(*dim));
    count.filter(fits).ok_or_else(|| format!("a tensor of the shape {shape:?} is too large").into())
}

/// Returns Glow's kind of an element type, without quantization.
pub(crate) fn kind_of(dtype: DType) -> Option<ElemKind> {
    Some(match dtype {
        DType::Float32 => ElemKind::Float,
        DType::Float16 => ElemKind::Float16,
        DType::BFloat16 => ElemKind::BFloat16,
        DType::Float64 => ElemKind::Float64,
        DType::Bool => ElemKind::Bool,
        DType::Uint8 => ElemKind::UInt8I,
        DType::Int32 => ElemKind::Int32I,
        DType::Int64 => ElemKind::Int64I,
        // These have no plain kind: their integers have scale 1.
        DType::Int8 => ElemKind::Int8Q,
        DType::Int16 => ElemKind::Int16Q,
        _ => return None,
    })
}
