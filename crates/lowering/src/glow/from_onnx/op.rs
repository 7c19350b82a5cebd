//! An operator of ONNX that becomes nodes of Glow, and what is known around it.

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_schema::onnx::infer::{Element, ValueInfo};

use super::graph::{Graph, Said, Value, checked, kind_of, plain};

/// Why an operator cannot be said.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// What stands in the way.
    What(String),
    /// Something before it cannot be said, which is told there.
    Before(usize),
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self::What(what)
    }
}

impl From<&str> for Fault {
    fn from(what: &str) -> Self {
        Self::What(what.to_owned())
    }
}

/// What an operator gives: its outputs by position; one that is not given is none.
pub(super) type Outcome = Result<Vec<Option<Value>>, Fault>;

/// How an operator is said.
pub(super) type Rule = fn(&mut Cx<'_>) -> Outcome;

/// Something that a name stands for.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) name: String,
    /// What is known of it by the rules of ONNX.
    pub(super) info: ValueInfo,
    /// A constant, which becomes one of Glow where it is asked for.
    pub(super) tensor: Option<Tensor>,
    /// What is known of its storage, if it is a constant.
    pub(super) storage: Storage,
    pub(super) value: Option<Value>,
    /// The operator because of which there is no value.
    pub(super) fault: Option<usize>,
}

/// An operator, and what is known around it.
pub(super) struct Cx<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) entries: &'a mut Vec<Entry>,
    pub(super) op: &'a Op,
    /// What its nodes are called after.
    pub(super) base: String,
    /// What goes in, by position: numbers of entries.
    pub(super) inputs: Vec<Option<usize>>,
    /// What comes out by the rules of ONNX.
    pub(super) outputs: Vec<ValueInfo>,
}

/// The one output of most operators.
pub(super) fn one(value: Value) -> Outcome {
    Ok(vec![Some(value)])
}

impl Cx<'_> {
    /// How many inputs there are, with those that are left out.
    pub(super) fn count(&self) -> usize {
        self.inputs.len()
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// Whether an output is asked for.
    pub(super) fn wants(&self, index: usize) -> bool {
        self.op.output("").get(index).is_some_and(|name| !name.is_empty())
    }

    /// An input that has to be there.
    pub(super) fn input(&mut self, index: usize) -> Result<Value, Fault> {
        let found = self.optional(index)?;
        found.ok_or_else(|| format!("expected an input {index}, found none").into())
    }

    /// An input that may be left out.
    pub(super) fn optional(&mut self, index: usize) -> Result<Option<Value>, Fault> {
        match self.inputs.get(index).copied().flatten() {
            Some(entry) => value_of(self.graph, self.entries, entry).map(Some),
            None => Ok(None),
        }
    }

    fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.get(self.inputs.get(index).copied().flatten()?)
    }

    /// What is known of an input.
    pub(super) fn info(&self, index: usize) -> Option<&ValueInfo> {
        self.entry(index).map(|entry| &entry.info)
    }

    /// The tensor that an input is, if it is a constant.
    pub(super) fn tensor(&self, index: usize) -> Option<&Tensor> {
        self.entry(index)?.tensor.as_ref()
    }

    fn unknown(&self, index: usize) -> Fault {
        match self.entry(index) {
            Some(Entry { fault: Some(place), .. }) => Fault::Before(*place),
            Some(entry) => {
                let name = &entry.name;
                format!("expected constants as input {index}, found `{name}`, which is computed")
                    .into()
            }
            None => format!("expected an input {index}, found none").into(),
        }
    }

    /// The integers that an input is known to be.
    pub(super) fn ints(&self, index: usize) -> Result<Vec<i64>, Fault> {
        let known = self.info(index).and_then(ValueInfo::ints);
        known.ok_or_else(|| self.unknown(index))
    }

    /// The numbers that an input is known to be.
    pub(super) fn floats(&self, index: usize) -> Result<Vec<f32>, Fault> {
        let info = self.info(index).ok_or_else(|| self.unknown(index))?;
        if let Some(numbers) = info.floats() {
            return Ok(numbers.into_iter().map(narrow).collect());
        }
        let tensor = self.tensor(index).ok_or_else(|| self.unknown(index))?;
        floats_of(tensor).ok_or_else(|| self.unknown(index))
    }

    /// The one number that an input is known to be; what it is otherwise if it is left out.
    pub(super) fn number(&self, index: usize, otherwise: f32) -> Result<f32, Fault> {
        if !self.has(index) {
            return Ok(otherwise);
        }
        match self.floats(index)?.as_slice() {
            [number] => Ok(*number),
            other => Err(format!("expected one number, found {}", other.len()).into()),
        }
    }

    /// Integers by an attribute or, in newer sets, an input.
    pub(super) fn ints_by(&self, name: &str, index: usize) -> Result<Option<Vec<i64>>, Fault> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(numbers)) => Ok(Some(numbers.clone())),
            Some(AttributeValue::Long(number)) => Ok(Some(vec![*number])),
            Some(_) => Err(format!("expected integers as `{name}`").into()),
            None if self.has(index) => self.ints(index).map(Some),
            None => Ok(None),
        }
    }

    /// An integer that is an attribute.
    pub(super) fn int(&self, name: &str, otherwise: i64) -> Result<i64, String> {
        match self.op.attribute(name) {
            Some(AttributeValue::Long(number)) => Ok(*number),
            Some(_) => Err(format!("expected an integer as `{name}`")),
            None => Ok(otherwise),
        }
    }

    /// Whether an attribute is not zero.
    pub(super) fn flag(&self, name: &str, otherwise: bool) -> Result<bool, String> {
        Ok(self.int(name, otherwise.into())? != 0)
    }

    /// A number that is an attribute.
    pub(super) fn float(&self, name: &str, otherwise: f32) -> Result<f32, String> {
        match self.op.attribute(name) {
            Some(AttributeValue::Float(number)) => Ok(*number),
            Some(_) => Err(format!("expected a number with a fraction as `{name}`")),
            None => Ok(otherwise),
        }
    }

    /// A text that is an attribute.
    pub(super) fn text(&self, name: &str, otherwise: &str) -> Result<String, String> {
        match self.op.attribute(name) {
            Some(AttributeValue::String(text)) => Ok(text.to_string()),
            Some(_) => Err(format!("expected a text as `{name}`")),
            None => Ok(otherwise.to_owned()),
        }
    }

    /// Integers that are an attribute.
    pub(super) fn longs(&self, name: &str) -> Result<Option<Vec<i64>>, String> {
        match self.op.attribute(name) {
            Some(AttributeValue::Longs(numbers)) => Ok(Some(numbers.clone())),
            Some(AttributeValue::Unknown(0)) => Ok(Some(Vec::new())),
            Some(_) => Err(format!("expected integers as `{name}`")),
            None => Ok(None),
        }
    }

    /// Texts that are an attribute.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        match self.op.attribute(name) {
            Some(AttributeValue::Strings(texts)) => {
                Ok(Some(texts.iter().map(ToString::to_string).collect()))
            }
            Some(_) => Err(format!("expected texts as `{name}`")),
            None => Ok(None),
        }
    }

    /// An axis that is an attribute, from the front.
    pub(super) fn axis(&self, name: &str, otherwise: i64, rank: usize) -> Result<usize, String> {
        from_front(self.int(name, otherwise)?, rank)
    }

    pub(super) fn shape(&self, value: Value) -> Vec<i64> {
        self.graph.shape(value).to_vec()
    }

    pub(super) fn rank(&self, value: Value) -> usize {
        self.graph.shape(value).len()
    }

    pub(super) fn type_of(&self, value: Value) -> Type {
        self.graph.type_of(value)
    }

    /// The type of a value with another shape.
    pub(super) fn shaped(&self, value: Value, shape: Vec<i64>) -> Type {
        Type { shape, strides: None, ..self.graph.type_of(value) }
    }

    /// The shape that an output has by the rules of ONNX.
    pub(super) fn shape_out(&self, index: usize) -> Result<Vec<i64>, String> {
        let info = self.outputs.get(index);
        info.and_then(extents).ok_or_else(|| "the shape of what it gives is not known".to_owned())
    }

    /// The kind of the elements that an output has by the rules of ONNX.
    pub(super) fn kind_out(&self, index: usize) -> Result<ElemKind, String> {
        let dtype = self.outputs.get(index).map_or(DType::Unknown(0), ValueInfo::dtype);
        kind_of(dtype).ok_or_else(|| format!("Glow has no elements of the type {dtype}"))
    }

    /// A node; gives its first result. `suffix` is what is after the name of the operator.
    pub(super) fn node(
        &mut self,
        kind: &'static str,
        suffix: &str,
        inputs: &[Value],
        members: Vec<(&'static str, Said)>,
        result: Type,
    ) -> Result<Value, Fault> {
        let results = self.nodes(kind, suffix, inputs, members, vec![result])?;
        results.first().copied().ok_or_else(|| "it gives nothing".into())
    }

    /// A node of several results.
    pub(super) fn nodes(
        &mut self,
        kind: &'static str,
        suffix: &str,
        inputs: &[Value],
        members: Vec<(&'static str, Said)>,
        results: Vec<Type>,
    ) -> Result<Vec<Value>, Fault> {
        let name = match suffix {
            "" => self.base.clone(),
            suffix => format!("{}_{suffix}", self.base),
        };
        Ok(self.graph.node(kind, &name, inputs.to_vec(), members, results)?)
    }

    /// The same elements in another shape; the value itself if it has the shape.
    pub(super) fn reshape(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        if self.graph.shape(value) == shape {
            return Ok(value);
        }
        self.reshape_always(value, shape, suffix)
    }

    /// The same elements in another shape, by a node in any case.
    pub(super) fn reshape_always(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        let (old, new) = (super::graph::count(self.graph.shape(value))?, checked_count(shape)?);
        if old != new {
            return Err(format!("{old} elements have no shape {shape:?}").into());
        }
        let of = self.shaped(value, shape.to_vec());
        let members =
            vec![("Dims", Said::Ints(shape.to_vec())), ("Layout", Said::Text("*".to_owned()))];
        self.node("Reshape", suffix, &[value], members, of)
    }

    /// The extents in another order: result extent i is extent `order[i]`. `layout` is what the result
    /// is then.
    pub(super) fn transpose(
        &mut self,
        value: Value,
        order: &[usize],
        layout: &str,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let shape = self.graph.shape(value);
        let pick = |axis: &usize| shape.get(*axis).copied();
        let picked: Option<Vec<_>> = order.iter().map(pick).collect();
        let fits = order.len() == shape.len();
        let Some(picked) = picked.filter(|_| fits) else {
            return Err(format!("expected {} extents, found {}", order.len(), shape.len()).into());
        };
        let of = self.shaped(value, picked);
        let order = order.iter().map(|axis| long(*axis)).collect();
        let members =
            vec![("Shuffle", Said::Ints(order)), ("Layout", Said::Text(layout.to_owned()))];
        self.node("Transpose", suffix, &[value], members, of)
    }

    /// The value repeated to a shape by the rule of NumPy; the value itself if it has the shape.
    pub(super) fn broadcast(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        if self.graph.shape(value) == shape {
            return Ok(value);
        }
        self.broadcast_always(value, shape, suffix)
    }

    /// The same, by a node in any case.
    pub(super) fn broadcast_always(
        &mut self,
        value: Value,
        shape: &[i64],
        suffix: &str,
    ) -> Result<Value, Fault> {
        let rank = self.rank(value);
        let axis = shape.len().checked_sub(rank);
        let axis = axis.ok_or_else(|| format!("{rank} extents cannot become {shape:?}"))?;
        self.broadcast_at(value, shape, axis, suffix)
    }

    /// The same where extents begin at an axis of the shape.
    pub(super) fn broadcast_at(
        &mut self,
        value: Value,
        shape: &[i64],
        axis: usize,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let of = self.shaped(value, shape.to_vec());
        let members =
            vec![("Axis", Said::Int(long(axis))), ("TargetDim", Said::Ints(shape.to_vec()))];
        self.node("Broadcast", suffix, &[value], members, of)
    }

    /// A tensor of one number.
    pub(super) fn splat(&mut self, number: f32, of: Type, suffix: &str) -> Result<Value, Fault> {
        self.node("Splat", suffix, &[], vec![("Value", Said::Float(number))], of)
    }

    /// A part of a tensor.
    pub(super) fn slice(
        &mut self,
        value: Value,
        start: Vec<i64>,
        shape: Vec<i64>,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let whole = self.graph.shape(value);
        let fits = whole.iter().zip(start.iter().zip(&shape)).all(|(whole, (start, extent))| {
            *start >= 0
                && *extent >= 0
                && start.checked_add(*extent).is_some_and(|end| end <= *whole)
        });
        if !fits || start.len() != whole.len() || shape.len() != whole.len() {
            return Err(format!("{shape:?} from {start:?} on is not in {whole:?}").into());
        }
        let of = self.shaped(value, shape);
        self.node("Slice", suffix, &[value], vec![("Start", Said::Ints(start))], of)
    }

    /// Tensors end to end along an axis.
    pub(super) fn concat(
        &mut self,
        values: Vec<Value>,
        axis: usize,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let first = *values.first().ok_or("expected tensors, found none")?;
        let mut shape = self.shape(first);
        let mut total = 0_i64;
        for value in &values {
            let other = self.graph.shape(*value);
            let fits = other.len() == shape.len()
                && other.iter().zip(&shape).enumerate().all(|(i, (a, b))| i == axis || a == b);
            let extent = other.get(axis).filter(|_| fits);
            let extent = extent.ok_or_else(|| format!("{other:?} does not fit {shape:?}"))?;
            total = total.checked_add(*extent).ok_or("the shape is too large")?;
        }
        if let Some(extent) = shape.get_mut(axis) {
            *extent = total;
        }
        let of = self.shaped(first, shape);
        let members = vec![("Inputs", Said::Values(values)), ("Dim", Said::Int(long(axis)))];
        self.node("Concat", suffix, &[], members, of)
    }

    /// The numbers as those of another type.
    pub(super) fn convert(
        &mut self,
        value: Value,
        kind: ElemKind,
        suffix: &str,
    ) -> Result<Value, Fault> {
        let of = Type { quantization: None, kind, ..self.shaped(value, self.shape(value)) };
        self.node("ConvertTo", suffix, &[value], Vec::new(), of)
    }

    /// An operation on each element of two tensors.
    pub(super) fn pair(
        &mut self,
        kind: &'static str,
        left: Value,
        right: Value,
        suffix: &str,
    ) -> Result<Value, Fault> {
        self.has_arithmetic(kind, left)?;
        let of = self.shaped(left, self.shape(left));
        self.node(kind, suffix, &[left, right], Vec::new(), of)
    }

    /// Integers of 8 or 16 bits are quantized numbers in Glow, which are rounded and do not wrap.
    fn has_arithmetic(&self, kind: &str, value: Value) -> Result<(), String> {
        let kept = ["Max", "Min"].contains(&kind);
        match self.type_of(value).kind.is_quantized() && !kept {
            true => Err("Glow does not compute with integers of 8 or 16 bits".to_owned()),
            false => Ok(()),
        }
    }

    /// An operation on each element.
    pub(super) fn each(
        &mut self,
        kind: &'static str,
        value: Value,
        suffix: &str,
    ) -> Result<Value, Fault> {
        self.has_arithmetic(kind, value)?;
        let of = self.shaped(value, self.shape(value));
        self.node(kind, suffix, &[value], Vec::new(), of)
    }
}

/// The value of an entry: what it has, or a constant that is made of what is known of it.
pub(super) fn value_of(
    graph: &mut Graph,
    entries: &mut [Entry],
    entry: usize,
) -> Result<Value, Fault> {
    let Some(entry) = entries.get_mut(entry) else { return Err("there is no such value".into()) };
    if let Some(value) = entry.value {
        return Ok(value);
    }
    if let Some(place) = entry.fault {
        return Err(Fault::Before(place));
    }
    let value = match &entry.tensor {
        Some(tensor) => constant(graph, entry, tensor)?,
        None => folded(graph, entry)?,
    };
    entry.value = Some(value);
    Ok(value)
}

fn constant(graph: &mut Graph, entry: &Entry, tensor: &Tensor) -> Result<Value, Fault> {
    let kind = match entry.storage.kind {
        Some(kind) => kind,
        None => kind_of(tensor.dtype)
            .ok_or_else(|| format!("Glow has no elements of the type {}", tensor.dtype))?,
    };
    if !matches!(tensor.kind, lodstone_model::Kind::Dense) {
        return Err(
            format!("`{}` is {}, and Glow's are dense", entry.name, tensor.kind.name()).into()
        );
    }
    let shape: Result<Vec<_>, _> = tensor.shape.iter().map(|n| i64::try_from(*n)).collect();
    let shape = shape.map_err(|_| format!("`{}` is too large", entry.name))?;
    let quantization =
        kind.is_quantized().then_some(entry.storage.quantization.unwrap_or((1.0, 0)));
    let strides = entry.storage.strides.clone();
    let of = checked(Type { kind, shape, strides, quantization })?;
    if tensor.dtype.size_of(&tensor.shape) != Some(tensor.data.len()) && of.strides.is_none() {
        return Err(format!("`{}` has fewer or more elements than its shape", entry.name).into());
    }
    Ok(graph.constant(&entry.name, of, entry.storage.clone(), tensor.clone()))
}

/// A constant of elements that follow from the program.
fn folded(graph: &mut Graph, entry: &Entry) -> Result<Value, Fault> {
    let unknown = || format!("what `{}` is is not known", entry.name);
    let kind = kind_of(entry.info.dtype()).ok_or_else(unknown)?;
    let (Some(shape), Some(contents)) = (extents(&entry.info), &entry.info.contents) else {
        return Err(unknown().into());
    };
    let mut bytes = Vec::new();
    for element in contents.iter() {
        push(&mut bytes, kind, element).ok_or_else(unknown)?;
    }
    Ok(graph.constant_of(&entry.name, kind, shape, bytes)?)
}

fn push(bytes: &mut Vec<u8>, kind: ElemKind, element: &Element) -> Option<()> {
    match (kind, element) {
        (ElemKind::Int64I, Element::Int(number)) => bytes.extend(number.to_le_bytes()),
        (ElemKind::Int32I, Element::Int(number)) => {
            bytes.extend(i32::try_from(*number).ok()?.to_le_bytes());
        }
        (ElemKind::Int16Q, Element::Int(number)) => {
            bytes.extend(i16::try_from(*number).ok()?.to_le_bytes());
        }
        (ElemKind::Int8Q, Element::Int(number)) => {
            bytes.extend(i8::try_from(*number).ok()?.to_le_bytes());
        }
        (ElemKind::UInt8I | ElemKind::Bool, Element::Int(number)) => {
            bytes.push(u8::try_from(*number).ok()?);
        }
        (ElemKind::Float, element) => bytes.extend(narrow(element.number()?).to_le_bytes()),
        (ElemKind::Float64, element) => bytes.extend(element.number()?.to_le_bytes()),
        _ => return None,
    }
    Some(())
}

/// Whether all elements of a value are known.
pub(super) fn is_known(info: &ValueInfo) -> bool {
    let known = |element: &Element| matches!(element, Element::Int(_) | Element::Float(_));
    info.contents.as_ref().is_some_and(|contents| contents.iter().all(known))
        && extents(info).is_some()
}

/// The extents of a value, if all of them are known.
pub(super) fn extents(info: &ValueInfo) -> Option<Vec<i64>> {
    let known = |dim: &lodstone_model::Dim| match dim {
        lodstone_model::Dim::Known(extent) => i64::try_from(*extent).ok(),
        _ => None,
    };
    info.shape()?.iter().map(known).collect()
}

/// The type that a value has by the rules of ONNX, if it is known.
pub(super) fn known_type(info: &ValueInfo) -> Option<Type> {
    checked(plain(kind_of(info.dtype())?, extents(info)?)).ok()
}

/// Most numbers of a constant that are read to make others of them.
const MOST_READ: u64 = 1 << 20;

/// The numbers of a constant of single precision.
pub(super) fn floats_of(tensor: &Tensor) -> Option<Vec<f32>> {
    let is_dense = matches!(tensor.kind, lodstone_model::Kind::Dense);
    let fits = tensor.dtype.size_of(&tensor.shape) == Some(tensor.data.len());
    if tensor.dtype != DType::Float32 || !is_dense || !fits || tensor.data.len() > MOST_READ {
        return None;
    }
    let bytes = tensor.data.bytes().ok()?;
    let number = |chunk: &[u8]| chunk.try_into().map(f32::from_le_bytes).ok();
    bytes.chunks_exact(4).map(number).collect()
}

fn checked_count(shape: &[i64]) -> Result<i64, String> {
    checked(plain(ElemKind::Float, shape.to_vec()))?;
    super::graph::count(shape)
}

/// An axis counted from the front.
pub(super) fn from_front(axis: i64, rank: usize) -> Result<usize, String> {
    let from_front = if axis < 0 { axis.checked_add(long(rank)) } else { Some(axis) };
    let axis_found = from_front.and_then(|axis| usize::try_from(axis).ok());
    axis_found
        .filter(|axis| *axis < rank)
        .ok_or_else(|| format!("expected an axis of {rank}, found {axis}"))
}

/// A number of extents, which are few.
pub(super) fn long(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The nearest number of single precision.
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub(super) fn narrow(number: f64) -> f32 {
    number as f32
}
