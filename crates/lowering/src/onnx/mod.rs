//! Builds ONNX programs: emits operators and constants, names them, and infers the type of every value with the rules of
//! [`infer`](lodstone_schema::onnx::infer).
//!
//! A lowering that contradicts itself is therefore detected where it happens, and no lowering computes shapes itself.
//!
//! What several frameworks do in different ways is in one file for all of them, with a table of what each release means:
//!
//! | file | what |
//! |---|---|
//! | `windows`, `legacy_pads`, `crops`, `pools`, `adaptive`, `bins`, `patches` | windows, their padding and numbers; pools; patches |
//! | `layout` | the place of the channels |
//! | `resizing` | places and nearest elements of resized images |
//! | `normalization` | epsilons, means and axes |
//! | `boxes`, `suppression`, `regions`, `regression`, `rotated` | boxes, and regions of images |
//! | `proposals`, `pyramid`, `detections` | regions that a network proposes and distributes, and boxes that it finds |
//! | `recurrence` | gates, weights, layers and steps |
//! | `indexing` | slices, sections, gathers, writes, pads, diagonals |
//! | `quantization`, `packed_rows` | grids of integers, and tables of such rows |
//! | `segments` | groups of rows by lengths or offsets |

pub(crate) mod adaptive;
mod bins;
pub(crate) mod blocks;
pub(crate) mod boxes;
mod constants;
pub(crate) mod crops;
mod derived;
pub(crate) mod detections;
pub(crate) mod indexing;
pub(crate) mod layout;
pub(crate) mod legacy_pads;
pub(crate) mod normalization;
pub(crate) mod packed_rows;
mod patches;
pub(crate) mod pools;
pub(crate) mod proposals;
pub(crate) mod pyramid;
pub(crate) mod quantization;
pub(crate) mod recipes;
pub(crate) mod recurrence;
pub(crate) mod regions;
pub(crate) mod regression;
pub(crate) mod required;
pub(crate) mod resizing;
pub(crate) mod rotated;
pub(crate) mod segments;
mod shapes;
mod sizes;
pub(crate) mod suppression;
#[cfg(test)]
mod tests;
pub(crate) mod windows;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{
    Attribute, AttributeValue, ByteString, DType, Dim, Op, Operand, Parameter, Sources, Tensor,
    ValueType,
};
use lodstone_schema::numbers::{Rank, known, known_dims};
use lodstone_schema::onnx::downgrade::minimum_opset;
use lodstone_schema::onnx::infer::{NoBodies, ValueInfo, infer_op};
use lodstone_schema::onnx::{NEWEST_OPSET, admits, ir_version_of_opset, lowest_opset};
use lodstone_schema::{Code, Finding};

pub(crate) use sizes::{Precision, Size, known_sizes};

/// The opset version that lowerings emit: the newest, which the engine runs.
pub const OPSET: i64 = NEWEST_OPSET;

/// The opset version that is declared for other runtimes, unless the operators need a higher one.
const EXPORTED: i64 = 21;

/// The maximum number of characters of a name that derived names begin with. Names come from the file and may have any
/// length.
const LONGEST: usize = 200;

/// Operators that only adapt values: to another type, another order.
const FORMS: &[&str] =
    &["Cast", "DequantizeLinear", "Identity", "QuantizeLinear", "Reshape", "Transpose"];

/// Operators that dequantize by arithmetic, where `DequantizeLinear` cannot.
const SPELLING: &[&str] = &["Mul", "Sub"];

/// Operators whose results are not negative.
const POSITIVE: &[&str] = &["Relu", "Sigmoid", "Softmax"];

/// Operators whose results are not negative if their first input is not.
const PASSING: &[&str] = &["AveragePool", "GlobalAveragePool", "MaxPool", "Reshape", "Transpose"];

/// The number of operators among which the writer of a value is searched.
const NEAR: usize = 64;

/// A value of the program, and what is inferred about it.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    name: Arc<str>,
    info: Arc<ValueInfo>,
}

impl Value {
    /// Creates a value that no emitted operator writes.
    pub(crate) fn new(name: &str, info: ValueInfo) -> Self {
        Self { name: Arc::from(name), info: Arc::new(info) }
    }

    /// Returns the name of the value.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns what is inferred about the value.
    pub(crate) fn info(&self) -> &ValueInfo {
        &self.info
    }

    /// Returns the dims, as far as they are known.
    ///
    /// # Errors
    /// If the rank is unknown.
    pub(crate) fn shape(&self) -> Result<&[Dim], Finding> {
        let unknown = || format!("the rank of `{}` must be known", self.name);
        self.info.shape().ok_or_else(|| Finding::new(Code::UnknownDims, unknown()))
    }

    /// Returns the element type.
    pub(crate) fn dtype(&self) -> DType {
        self.info.dtype()
    }

    /// Returns the type.
    pub(crate) fn value_type(&self) -> &ValueType {
        &self.info.value
    }

    /// Returns the dims, if all of them are known.
    pub(crate) fn known_dims(&self) -> Option<Vec<i64>> {
        known_dims(self.info.shape()?)
    }

    /// Returns the dims, all of which must be known.
    pub(crate) fn dims(&self) -> Result<Vec<i64>, Finding> {
        self.known_dims().ok_or_else(|| "expected known dims".into())
    }

    /// Returns the dim of an axis, if it is known.
    ///
    /// # Errors
    /// If the value does not have the axis.
    pub(crate) fn size(&self, axis: i64) -> Result<Option<i64>, Finding> {
        let Some(shape) = self.info.shape() else { return Ok(None) };
        let axis = Rank::of(shape).axis(axis)?;
        shape.get(axis.index()).map_or(Ok(None), known)
    }

    /// Returns the rank.
    pub(crate) fn rank(&self) -> Result<Rank, Finding> {
        self.shape().map(Rank::of)
    }
}

/// The names in use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    next: HashMap<String, u64>,
}

impl Names {
    /// Reserves a name.
    pub(crate) fn take(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// Returns an unused name: `base`, or `base` with a number appended.
    pub(crate) fn fresh(&mut self, base: &str) -> String {
        let base: String = base.chars().take(LONGEST).collect();
        let next = self.next.entry(base.clone()).or_default();
        loop {
            let name = match *next {
                0 => base.clone(),
                number => format!("{base}_{number}"),
            };
            *next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// A program under construction.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// The operators, in execution order.
    pub(crate) ops: Vec<Op>,
    /// The constants.
    pub(crate) constants: Vec<Parameter>,
    /// Whether the program is for other runtimes, so that its minimum opset version is tracked.
    is_exported: bool,
    /// The indices of operators, and the lowest opset version in which each is valid; for exported programs.
    lowest: Vec<(usize, i64)>,
    /// The names of all values and operators.
    pub(crate) names: Names,
    /// Constants by key, so that equal ones are stored once.
    known: HashMap<constants::Key, Value>,
    /// The base of names of operators that are emitted now.
    base: String,
    /// The index of the first operator since [`begin`](Self::begin).
    first: usize,
    first_constant: usize,
    /// The keys of constants that were added since then.
    recent: Vec<constants::Key>,
    /// The values since then that have their final names.
    named: HashMap<Arc<str>, Arc<str>>,
    /// The values whose elements others hold in a wider type, by the names of those.
    narrow: HashMap<Arc<str>, Value>,
    /// The size of all results with known dims, in bytes.
    pub(crate) bytes: u64,
    /// The inferred types of the results, for programs that are not exported.
    pub(crate) infos: HashMap<String, ValueInfo>,
    /// The operators of the source that are translated now.
    pub(crate) sources: Sources,
    /// The number of symbols that were given to unknown dims, if they get any: equal dims can then be recognized.
    symbols: Option<u64>,
}

/// The first character of the symbols of unknown dims. Names of files do not begin with it.
const UNKNOWN: char = '\u{0}';

/// Whether a dim is the symbol of an unknown dim.
pub(crate) fn is_unknown(dim: &Dim) -> bool {
    matches!(dim, Dim::Symbol(name) if name.starts_with(UNKNOWN))
}

impl Graph {
    /// Creates a program for other runtimes.
    pub(crate) fn exported() -> Self {
        Self { is_exported: true, ..Self::default() }
    }

    /// Creates a program in which unknown dims of results get symbols of their own.
    pub(crate) fn symbolic() -> Self {
        Self { symbols: Some(0), ..Self::default() }
    }

    /// Whether unknown dims get symbols of their own.
    pub(crate) fn is_symbolic(&self) -> bool {
        self.symbols.is_some()
    }

    /// Gives symbols to unknown dims of a result.
    pub(crate) fn symbolize(&mut self, info: &mut ValueInfo) {
        let Some(count) = &mut self.symbols else { return };
        for tensor in info.value.tensors_mut() {
            let dims = tensor.shape.iter_mut().flatten();
            for dim in dims.filter(|dim| **dim == Dim::Unknown) {
                *dim = Dim::Symbol(Arc::from(format!("{UNKNOWN}{count}")));
                *count += 1;
            }
        }
    }

    /// Returns the opset version that the program declares, and the IR version that belongs to it.
    ///
    /// # Errors
    /// An internal error if no release has that opset version.
    pub(crate) fn versions(&self) -> Result<(i64, i64), Finding> {
        // A program without operators needs no higher version.
        let opset = self.lowest.iter().map(|(_, lowest)| *lowest).max().unwrap_or(EXPORTED);
        let ir_version = ir_version_of_opset("", opset);
        let absent = || Finding::internal(format!("no release of ONNX has opset {opset}"));
        Ok((opset, ir_version.ok_or_else(absent)?))
    }

    /// Starts a group of operators, whose names are derived from `base`.
    pub(crate) fn begin(&mut self, base: &str) {
        base.clone_into(&mut self.base);
        (self.first, self.first_constant) = (self.ops.len(), self.constants.len());
        self.named.clear();
        self.recent.clear();
    }

    /// Returns the name from which those of the operators of the group are derived.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Removes all operators of the group.
    pub(crate) fn take_back(&mut self) {
        self.ops.truncate(self.first);
        self.lowest.retain(|(number, _)| *number < self.first);
        self.constants.truncate(self.first_constant);
        for key in self.recent.drain(..) {
            self.known.remove(&key);
        }
        self.named.clear();
    }

    /// Emits an operator with `outputs` outputs; an input that is `None` is omitted.
    ///
    /// # Errors
    /// If the operator's rule rejects it.
    pub(crate) fn emit(
        &mut self,
        kind: &str,
        inputs: &[Option<&Value>],
        attributes: impl IntoIterator<Item = Attribute>,
        outputs: usize,
    ) -> Result<Vec<Value>, Finding> {
        let (op, results) = self.op(kind, inputs, attributes, outputs);
        let types: Vec<Option<&ValueType>> =
            inputs.iter().map(|input| input.map(Value::value_type)).collect();
        admits(&op, OPSET, &types).map_err(|finding| finding.within(format!("as `{kind}`")))?;
        let infos: Vec<Option<&ValueInfo>> =
            inputs.iter().map(|input| input.map(|value| &*value.info)).collect();
        let mut inferred = infer_op(&op, OPSET, &infos, &mut NoBodies)
            .map_err(|finding| finding.within(format!("as `{kind}`")))?;
        inferred.iter_mut().for_each(|info| self.symbolize(info));
        if self.is_exported {
            let lowest = lowest_opset(&op, &types, EXPORTED);
            self.lowest.push((self.ops.len(), lowest.unwrap_or(OPSET)));
        }
        self.ops.push(op);
        let sizes = inferred.iter().filter_map(ValueInfo::nbytes);
        self.bytes = sizes.fold(self.bytes, u64::saturating_add);
        if !self.is_exported {
            self.infos.extend(results.iter().cloned().zip(inferred.iter().cloned()));
        }
        if inferred.len() != outputs {
            return Err(Finding::internal(format!("`{kind}` has {} results", inferred.len())));
        }
        Ok(results.iter().zip(inferred).map(|(name, info)| Value::new(name, info)).collect())
    }

    /// Emits an operator with one output and no omitted inputs.
    ///
    /// # Errors
    /// If the operator's rule rejects it.
    pub(crate) fn call<const N: usize>(
        &mut self,
        kind: &str,
        inputs: &[&Value],
        attributes: [Attribute; N],
    ) -> Result<Value, Finding> {
        let inputs: Vec<Option<&Value>> = inputs.iter().copied().map(Some).collect();
        let [output] = self.emit_all(kind, &inputs, attributes)?;
        Ok(output)
    }

    /// Emits an operator with `N` outputs; an input that is `None` is omitted.
    ///
    /// # Errors
    /// If the operator's rule rejects it.
    pub(crate) fn emit_all<const N: usize>(
        &mut self,
        kind: &str,
        inputs: &[Option<&Value>],
        attributes: impl IntoIterator<Item = Attribute>,
    ) -> Result<[Value; N], Finding> {
        let outputs = self.emit(kind, inputs, attributes, N)?;
        let lost = |_| Finding::internal(format!("`{kind}` does not have {N} results"));
        outputs.try_into().map_err(lost)
    }

    /// Emits an operator whose results have known types, such as one that runs blocks.
    pub(crate) fn emit_typed(
        &mut self,
        kind: &str,
        inputs: &[Option<&Value>],
        attributes: impl IntoIterator<Item = Attribute>,
        infos: Vec<ValueInfo>,
    ) -> Vec<Value> {
        let (op, results) = self.op(kind, inputs, attributes, infos.len());
        self.ops.push(op);
        let named = results.iter().zip(infos);
        let value = |(name, mut info): (&String, ValueInfo)| {
            self.symbolize(&mut info);
            Value::new(name, info)
        };
        named.map(value).collect()
    }

    /// Emits an operator whose single result has a known type, such as one that takes or returns a sequence.
    ///
    /// # Errors
    /// Never, unless this program has a defect.
    pub(crate) fn emit_one(
        &mut self,
        kind: &str,
        inputs: &[Option<&Value>],
        attributes: impl IntoIterator<Item = Attribute>,
        info: impl Into<ValueInfo>,
    ) -> Result<Value, Finding> {
        let result = self.emit_typed(kind, inputs, attributes, vec![info.into()]).pop();
        result.ok_or_else(|| Finding::internal(format!("`{kind}` has no result")))
    }

    /// Returns an operator with fresh names for its results, and these names.
    fn op(
        &mut self,
        kind: &str,
        inputs: &[Option<&Value>],
        attributes: impl IntoIterator<Item = Attribute>,
        outputs: usize,
    ) -> (Op, Vec<String>) {
        let names = inputs.iter().map(|input| input.map_or("", |value| self.name_of(value)));
        let args = names.map(str::to_owned).collect();
        let base = format!("{}_{kind}", self.base);
        let results: Vec<String> = (0..outputs).map(|_| self.names.fresh(&base)).collect();
        let op = Op {
            name: results.first().cloned().unwrap_or_default(),
            kind: kind.to_owned(),
            inputs: vec![Operand { slot: String::new(), args }],
            outputs: vec![Operand { slot: String::new(), args: results.clone() }],
            attributes: attributes.into_iter().collect(),
            sources: self.sources.clone(),
            ..Op::default()
        };
        (op, results)
    }

    /// Returns what is known about a value: a result, or a constant.
    pub(crate) fn info(&self, name: &str) -> Option<ValueInfo> {
        if let Some(info) = self.infos.get(name) {
            return Some(info.clone());
        }
        let constant = self.constants.iter().find(|constant| constant.name == name);
        constant.map(|constant| ValueInfo::of(&constant.tensor))
    }

    /// Returns the lowest opset version that has the operators emitted after the first `before`; `None` if there are none.
    pub(crate) fn opset_since(&self, before: usize) -> Option<i64> {
        let made = self.ops.get(before..).unwrap_or_default();
        let opset = made.iter().map(|op| {
            let infos: Vec<Option<ValueInfo>> =
                op.input("").iter().map(|name| self.info(name)).collect();
            minimum_opset(op, &infos.iter().map(Option::as_ref).collect::<Vec<_>>())
        });
        opset.max()
    }

    /// Gives a value its final name, and the operator that writes it `op_name` if that is not empty. A value that was
    /// not computed since [`begin`](Self::begin), or has its final name already, is copied.
    pub(crate) fn name(
        &mut self,
        value: &Value,
        name: &str,
        op_name: &str,
    ) -> Result<Value, Finding> {
        if !self.is_made(value) {
            let copied = self.call("Identity", &[value], [])?;
            return self.name(&copied, name, op_name);
        }
        for op in self.ops.iter_mut().skip(self.first) {
            let writes = op.writes().any(|written| written == value.name());
            if writes && !op_name.is_empty() {
                op_name.clone_into(&mut op.name);
            }
            let operands = op.inputs.iter_mut().chain(&mut op.outputs);
            let args = operands.flat_map(|operand| &mut operand.args);
            args.filter(|arg| **arg == value.name()).for_each(|arg| name.clone_into(arg));
        }
        if let Some(info) = self.infos.get(value.name()).cloned() {
            self.infos.insert(name.to_owned(), info);
        }
        let name = Arc::<str>::from(name);
        if let Some(narrow) = self.narrow.get(&value.name).cloned() {
            self.narrow.insert(Arc::clone(&name), narrow);
        }
        self.named.insert(Arc::clone(&value.name), Arc::clone(&name));
        Ok(Value { name, info: Arc::clone(&value.info) })
    }

    /// Moves the name of the last operator to the one that does the actual computation, if the others only adapt its
    /// inputs and outputs.
    pub(crate) fn name_what_computes(&mut self, name: &str) {
        let ops = self.ops.get_mut(self.first..).unwrap_or_default();
        let brings = |op: &Op| FORMS.contains(&op.kind.as_str());
        let others = |op: &&Op| !brings(op) && !SPELLING.contains(&op.kind.as_str());
        let at = match (ops.iter().filter(others).count(), ops.iter().position(|op| others(&op))) {
            (1, Some(at)) => Some(at),
            (0, _) if ops.iter().filter(|op| !brings(op)).count() == 1 => {
                ops.iter().position(|op| !brings(op))
            }
            _ => None,
        };
        let Some(one) = at else { return };
        let Some(named) = ops.iter().position(|op| op.name == name) else { return };
        let other = ops.get_mut(one).map(|op| std::mem::replace(&mut op.name, name.to_owned()));
        if let Some((op, other)) = ops.get_mut(named).zip(other).filter(|_| named != one) {
            op.name = other;
        }
    }

    /// Casts a value to a type that holds all its elements, and remembers the value as that of the narrower type.
    pub(crate) fn widen(&mut self, value: &Value, to: DType) -> Result<Value, Finding> {
        let wide = self.cast(value, to)?;
        self.narrow.insert(Arc::clone(&wide.name), value.clone());
        Ok(wide)
    }

    /// Returns the value of a narrower type that a value was [widened](Self::widen) from.
    pub(crate) fn narrow(&self, value: &Value) -> Option<Value> {
        self.narrow.get(&value.name).cloned()
    }

    /// Whether the last operators are known to have computed a value without negative numbers.
    pub(crate) fn is_positive(&self, value: &Value) -> bool {
        let mut name = value.name();
        for op in self.ops.iter().rev().take(NEAR) {
            if !op.writes().any(|written| written == name) {
                continue;
            }
            match op.input("").first() {
                Some(first) if PASSING.contains(&op.kind.as_str()) => name = first,
                _ => return POSITIVE.contains(&op.kind.as_str()),
            }
        }
        false
    }

    /// Returns a value under the name that it has now.
    pub(crate) fn current(&self, value: &Value) -> Value {
        match self.named.get(&value.name) {
            Some(name) => Value { name: Arc::clone(name), info: Arc::clone(&value.info) },
            None => value.clone(),
        }
    }

    /// Whether a value was computed since [`begin`](Self::begin), and has no final name yet.
    pub(crate) fn is_made(&self, value: &Value) -> bool {
        let mut ops = self.ops.iter().skip(self.first);
        !self.named.contains_key(&value.name)
            && !self.named.values().any(|name| *name == value.name)
            && ops.any(|op| op.writes().any(|name| name == value.name()))
    }

    fn name_of<'v>(&'v self, value: &'v Value) -> &'v str {
        self.named.get(&value.name).unwrap_or(&value.name)
    }
}

/// Creates an integer attribute.
pub(crate) fn int(name: &str, value: i64) -> Attribute {
    attribute(name, AttributeValue::Long(value))
}

/// Creates an attribute that is a list of integers.
pub(crate) fn ints(name: &str, values: &[i64]) -> Attribute {
    attribute(name, AttributeValue::Longs(values.to_vec()))
}

/// Creates a float attribute.
pub(crate) fn float(name: &str, value: f32) -> Attribute {
    attribute(name, AttributeValue::Float(value))
}

/// Creates a string attribute.
pub(crate) fn text(name: &str, value: &str) -> Attribute {
    attribute(name, AttributeValue::String(ByteString::from(value)))
}

/// Creates a tensor attribute.
pub(crate) fn tensor(name: &str, value: Tensor) -> Attribute {
    attribute(name, AttributeValue::Tensor(Box::new(value)))
}

fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}
