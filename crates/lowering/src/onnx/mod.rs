//! Makes programs of ONNX's operators: emits operators and constants, names them, and knows the type of
//! every value, because the rules of [`infer`](lodstone_schema::onnx::infer) are asked at each.
//!
//! What comes out of a lowering that contradicts itself is therefore found where it is made, and no
//! lowering computes shapes of its own.

mod constants;
mod shapes;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{
    Attribute, AttributeValue, ByteString, DType, Dim, Op, Operand, Parameter, Tensor, ValueType,
};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{NoBodies, ValueInfo, infer_op};
use lodstone_schema::onnx::{NEWEST_OPSET, admits, ir_version_of_opset, lowest_opset};

/// The version of ONNX's operators that lowerings emit: the newest, which is what the engine runs.
pub const OPSET: i64 = NEWEST_OPSET;

/// The version that is declared for other runtimes, or the lowest above it that the operators need.
const EXPORTED: i64 = 21;

/// Most characters of a name that names made from it begin with. Names come out of the file and may
/// be of any length.
const LONGEST: usize = 200;

/// Operators that only bring values into form: another type, another order.
const FORMS: &[&str] =
    &["Cast", "DequantizeLinear", "Identity", "QuantizeLinear", "Reshape", "Transpose"];

/// Operators that integers are dequantized by, where `DequantizeLinear` cannot.
const SPELLING: &[&str] = &["Mul", "Sub"];

/// A value of the program that is made, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    name: Arc<str>,
    info: Arc<ValueInfo>,
}

impl Value {
    /// A value that something else than an operator gives.
    pub(crate) fn new(name: &str, info: ValueInfo) -> Self {
        Self { name: Arc::from(name), info: Arc::new(info) }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What is known of it.
    pub(crate) fn info(&self) -> &ValueInfo {
        &self.info
    }

    /// Its extents, as far as they are known.
    ///
    /// # Errors
    /// If not even their number is.
    pub(crate) fn shape(&self) -> Result<&[Dim], Finding> {
        self.info.shape().ok_or_else(|| "rank must be known".into())
    }

    /// The type of its elements.
    pub(crate) fn dtype(&self) -> DType {
        self.info.dtype()
    }

    /// Its type.
    pub(crate) fn value_type(&self) -> &ValueType {
        &self.info.value
    }

    /// Its extents, if all of them are known.
    pub(crate) fn known_dims(&self) -> Option<Vec<i64>> {
        let known = |dim: &Dim| match dim {
            Dim::Known(extent) => i64::try_from(*extent).ok(),
            _ => None,
        };
        self.info.shape()?.iter().map(known).collect()
    }

    /// Its extents.
    pub(crate) fn dims(&self) -> Result<Vec<i64>, Finding> {
        self.known_dims().ok_or_else(|| "expected extents that are known".into())
    }

    /// How many extents it has.
    pub(crate) fn rank(&self) -> Result<usize, Finding> {
        self.shape().map(<[Dim]>::len)
    }
}

/// Names that are taken, and such that are not.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    next: HashMap<String, u64>,
}

impl Names {
    /// No new name will be this one.
    pub(crate) fn take(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// A name that nothing has: `base`, or with a number behind it.
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

/// What a program is made of so far.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Operators, in the order in which they run.
    pub(crate) ops: Vec<Op>,
    /// Constants that were made.
    pub(crate) constants: Vec<Parameter>,
    /// Whether the program is for other runtimes, so that the version that it needs has to be known.
    is_exported: bool,
    /// Numbers of operators, and the lowest version that each is valid in; of a program that is exported.
    lowest: Vec<(usize, i64)>,
    /// Names of all values and operators.
    pub(crate) names: Names,
    /// Constants by what they are, so that each is there once.
    known: HashMap<constants::Key, Value>,
    /// What is emitted now belongs to this.
    base: String,
    /// Where that begins.
    first: usize,
    first_constant: usize,
    /// Constants that were first needed there.
    recent: Vec<constants::Key>,
    /// Values of it that have got their final names.
    named: HashMap<Arc<str>, Arc<str>>,
    /// How many bytes the results take, of those whose dims are known.
    pub(crate) bytes: u64,
    /// What is known of the results, of a program that is not exported.
    pub(crate) infos: HashMap<String, ValueInfo>,
}

impl Graph {
    /// A program for other runtimes.
    pub(crate) fn exported() -> Self {
        Self { is_exported: true, ..Self::default() }
    }

    /// The version of ONNX's operators that the program declares, and that of the representation that belongs to it.
    ///
    /// # Errors
    /// If no release has that version of the operators, which is a defect.
    pub(crate) fn versions(&self) -> Result<(i64, i64), Finding> {
        // A program without operators needs none.
        let opset = self.lowest.iter().map(|(_, lowest)| *lowest).max().unwrap_or(EXPORTED);
        let ir_version = ir_version_of_opset("", opset);
        let absent = || Finding::internal(format!("no release of ONNX has operators {opset}"));
        Ok((opset, ir_version.ok_or_else(absent)?))
    }

    /// What is emitted from now on belongs to what is called `base`.
    pub(crate) fn begin(&mut self, base: &str) {
        base.clone_into(&mut self.base);
        (self.first, self.first_constant) = (self.ops.len(), self.constants.len());
        self.named.clear();
        self.recent.clear();
    }

    /// Takes back what was emitted since then.
    pub(crate) fn take_back(&mut self) {
        self.ops.truncate(self.first);
        self.lowest.retain(|(number, _)| *number < self.first);
        self.constants.truncate(self.first_constant);
        for key in self.recent.drain(..) {
            self.known.remove(&key);
        }
        self.named.clear();
    }

    /// Emits an operator with so many outputs; an input that is `None` is left out.
    ///
    /// # Errors
    /// What the rule of the operator says is wrong with it.
    pub(crate) fn emit(
        &mut self,
        kind: &str,
        inputs: &[Option<&Value>],
        attributes: impl IntoIterator<Item = Attribute>,
        outputs: usize,
    ) -> Result<Vec<Value>, Finding> {
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
            ..Op::default()
        };
        let types: Vec<Option<&ValueType>> =
            inputs.iter().map(|input| input.map(Value::value_type)).collect();
        admits(&op, OPSET, &types).map_err(|finding| finding.within(format!("as `{kind}`")))?;
        let infos: Vec<Option<&ValueInfo>> =
            inputs.iter().map(|input| input.map(|value| &*value.info)).collect();
        let told = infer_op(&op, OPSET, &infos, &mut NoBodies)
            .map_err(|finding| finding.within(format!("as `{kind}`")))?;
        if self.is_exported {
            let lowest = lowest_opset(&op, &types, EXPORTED);
            self.lowest.push((self.ops.len(), lowest.unwrap_or(OPSET)));
        }
        self.ops.push(op);
        let sizes = told.iter().filter_map(ValueInfo::nbytes);
        self.bytes = sizes.fold(self.bytes, u64::saturating_add);
        if !self.is_exported {
            self.infos.extend(results.iter().cloned().zip(told.iter().cloned()));
        }
        if told.len() != outputs {
            return Err(Finding::internal(format!("`{kind}` gives {} results", told.len())));
        }
        Ok(results.iter().zip(told).map(|(name, info)| Value::new(name, info)).collect())
    }

    /// Emits an operator with one output and no input that is left out.
    ///
    /// # Errors
    /// What the rule of the operator says is wrong with it.
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

    /// Emits an operator with `N` outputs; an input that is `None` is left out.
    ///
    /// # Errors
    /// What the rule of the operator says is wrong with it.
    pub(crate) fn emit_all<const N: usize>(
        &mut self,
        kind: &str,
        inputs: &[Option<&Value>],
        attributes: impl IntoIterator<Item = Attribute>,
    ) -> Result<[Value; N], Finding> {
        let outputs = self.emit(kind, inputs, attributes, N)?;
        let lost = |_| Finding::internal(format!("`{kind}` does not give {N} results"));
        outputs.try_into().map_err(lost)
    }

    /// Gives a value its final name, and the operator that writes it `op_name` if that is not empty; one
    /// that was not made since [`begin`](Self::begin), or has another name already, is copied.
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
        let name = Arc::<str>::from(name);
        self.named.insert(Arc::clone(&value.name), Arc::clone(&name));
        Ok(Value { name, info: Arc::clone(&value.info) })
    }

    /// Gives the name of what is written last to the one operator that computes it, where the others only
    /// bring what it reads and gives into form.
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

    /// Whether a value was made since [`begin`](Self::begin), and has no final name yet.
    fn is_made(&self, value: &Value) -> bool {
        let mut ops = self.ops.iter().skip(self.first);
        !self.named.contains_key(&value.name)
            && !self.named.values().any(|name| *name == value.name)
            && ops.any(|op| op.writes().any(|name| name == value.name()))
    }

    fn name_of<'v>(&'v self, value: &'v Value) -> &'v str {
        self.named.get(&value.name).unwrap_or(&value.name)
    }
}

/// An attribute that is an integer.
pub(crate) fn int(name: &str, value: i64) -> Attribute {
    attribute(name, AttributeValue::Long(value))
}

/// An attribute that is a list of integers.
pub(crate) fn ints(name: &str, values: &[i64]) -> Attribute {
    attribute(name, AttributeValue::Longs(values.to_vec()))
}

/// An attribute that is a number with a fraction.
pub(crate) fn float(name: &str, value: f32) -> Attribute {
    attribute(name, AttributeValue::Float(value))
}

/// An attribute that is a text.
pub(crate) fn text(name: &str, value: &str) -> Attribute {
    attribute(name, AttributeValue::String(ByteString::from(value)))
}

/// An attribute that is a tensor.
pub(crate) fn tensor(name: &str, value: Tensor) -> Attribute {
    attribute(name, AttributeValue::Tensor(Box::new(value)))
}

fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}
