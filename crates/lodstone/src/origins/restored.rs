//! From parameters to constants, and back.

use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use lodstone_engine::{Folding, Threads};
use lodstone_model::{
    Attribute, AttributeValue, DType, Made, Model, Op, Parameter, Recipe, Tensor,
};
use lodstone_schema::onnx::dtype;
use lodstone_schema::onnx::simplify::Evaluator;
use lodstone_schema::weights;
use lodstone_store::Blob;

use super::Origins;
use crate::cast::Caster;
use crate::{Error, Result};

/// Operators whose results have elements of their operands, in other places.
const MOVES: &[&str] = &[
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Pad",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

impl Origins {
    /// Computes a constant from the parameters of a source: `source` is the model that was exported, or one whose parameters have
    /// other elements.
    ///
    /// # Errors
    /// If the export does not have the constant, the source lacks a parameter, or reading fails.
    pub fn rebuild(&self, constant: &str, source: &Model) -> Result<Tensor> {
        let Parameter { tensor, .. } = self.constant(constant)?;
        if tensor.recipe.is_empty() {
            return Ok(tensor.clone());
        }
        let rebuilt = Parameters::of(source).compute(&tensor.recipe);
        rebuilt.map_err(|why| refused(constant, "rebuilding", why))
    }

    /// Puts constants of the export, such as ones that training changed, back into the parameters of its source that they come
    /// from; returns the names of these parameters.
    ///
    /// Elements of parameters that the constants do not depend on stay.
    ///
    /// # Errors
    /// If the export does not have a constant, or the steps of its recipe have no inverse; then nothing is changed.
    pub fn restore(&self, changed: &[Parameter], source: &mut Model) -> Result<Vec<String>> {
        let mut parameters = Parameters::of(source);
        for Parameter { name, tensor } in changed {
            let recipe = self.recipe(name)?;
            let refused = |why: String| refused(name, "restoring", why);
            if recipe.is_empty() {
                return Err(refused("it depends on no parameter of the source".to_owned()));
            }
            parameters.put(recipe, tensor).map_err(refused)?;
            let again = parameters.compute(recipe).map_err(refused)?;
            let is_same = again.dtype == tensor.dtype
                && again.shape == tensor.shape
                && again.data.bytes()? == tensor.data.bytes()?;
            if !is_same {
                return Err(refused("its steps lose digits".to_owned()));
            }
        }
        let Parameters { mut tensors, changed, .. } = parameters;
        let own: HashSet<&str> = source.parameters.iter().map(|it| it.name.as_str()).collect();
        if let Some(name) = changed.iter().find(|name| !own.contains(name.as_str())) {
            let why = "an operator of the program holds it";
            return Err(refused(name, "restoring", why.to_owned()));
        }
        for parameter in source.parameters.iter_mut().filter(|it| changed.contains(&it.name)) {
            if let Some(tensor) = tensors.remove(&parameter.name) {
                parameter.tensor.data = tensor.data;
            }
        }
        Ok(changed.into_iter().collect())
    }
}

fn refused(name: &str, operation: &'static str, why: String) -> Error {
    Error::Recipe { operation, name: name.to_owned(), why }
}

/// The parameters of a source, and what was computed from them.
struct Parameters {
    tensors: HashMap<String, Tensor>,
    computed: HashMap<usize, Tensor>,
    /// The names of those that were changed.
    changed: BTreeSet<String>,
    threads: Threads,
}

impl Parameters {
    fn of(source: &Model) -> Self {
        let all = weights(source);
        let tensors = all.iter().map(|it| (it.name.clone(), it.tensor.clone())).collect();
        let (computed, changed) = (HashMap::new(), BTreeSet::new());
        Self { tensors, computed, changed, threads: Threads::default() }
    }

    fn evaluate(&self, op: &Op, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, String> {
        let made = Folding(&self.threads).evaluate(op, inputs);
        made.ok_or_else(|| format!("`{}` cannot be computed", op.kind))
    }

    /// Returns the tensor of a recipe.
    fn compute(&mut self, recipe: &Recipe) -> Result<Tensor, String> {
        if let Some(known) = self.computed.get(&recipe.id()) {
            return Ok(known.clone());
        }
        let tensor = match recipe.made() {
            Some(Made::Parameter(name)) => {
                let found = self.tensors.get(name).cloned();
                found.ok_or_else(|| format!("the source has no parameter `{name}`"))?
            }
            Some(Made::Literal(tensor)) => tensor.as_ref().clone(),
            Some(Made::Parts(of)) => {
                let tensor = self.compute(of)?;
                let dtype = part(tensor.dtype).ok_or("expected complex numbers")?;
                let shape = tensor.shape.iter().copied().chain([2]).collect();
                Tensor { dtype, shape, ..tensor }
            }
            Some(Made::Cast { of, to, within }) => {
                let mut tensor = self.compute(of)?;
                cast(&mut tensor, *to, *within)?;
                tensor
            }
            Some(Made::Computed { op, inputs, output, .. }) => {
                let inputs =
                    inputs.iter().map(|it| it.as_ref().map(|it| self.compute(it)).transpose());
                let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
                let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
                let mut made = self.evaluate(op, &inputs)?;
                if *output >= made.len() {
                    return Err(format!("`{}` has no result {output}", op.kind));
                }
                made.swap_remove(*output)
            }
            _ => return Err("the recipe has too many steps".to_owned()),
        };
        self.computed.insert(recipe.id(), tensor.clone());
        Ok(tensor)
    }

    /// Sets the parameters of a recipe so that it has this result.
    fn put(&mut self, recipe: &Recipe, value: &Tensor) -> Result<(), String> {
        match recipe.made() {
            Some(Made::Literal(_)) => Ok(()),
            Some(Made::Parameter(name)) => {
                let known = self.tensors.get_mut(name);
                let known = known.ok_or_else(|| format!("the source has no parameter `{name}`"))?;
                if (known.dtype, &known.shape) != (value.dtype, &value.shape) {
                    return Err(format!("expected {} {:?} for `{name}`", known.dtype, known.shape));
                }
                known.data = value.data.clone();
                self.computed.clear();
                self.changed.insert(name.clone());
                Ok(())
            }
            Some(Made::Parts(of)) => {
                let before = self.compute(of)?;
                self.put(of, &Tensor { data: value.data.clone(), ..before })
            }
            Some(Made::Cast { of, within, .. }) => {
                let before = self.compute(of)?;
                let mut back = value.clone();
                cast(&mut back, before.dtype, *within)?;
                self.put(of, &back)
            }
            Some(Made::Computed { op, inputs, output, .. }) => {
                if MOVES.contains(&op.kind.as_str()) {
                    return self.put_moved(op, inputs, *output, value);
                }
                let (at, back) = self.inverse(op, inputs, value)?;
                let input = inputs.get(at).and_then(Option::as_ref).ok_or("an operand is lost")?;
                self.put(input, &back)
            }
            _ => Err("the recipe has too many steps".to_owned()),
        }
    }

    /// Puts the elements of a result back to where an operator takes them from.
    fn put_moved(
        &mut self,
        op: &Op,
        inputs: &[Option<Recipe>],
        output: usize,
        value: &Tensor,
    ) -> Result<(), String> {
        let count = if op.kind == "Concat" { inputs.len() } else { 1 };
        let tensors = inputs.iter().map(|it| it.as_ref().map(|it| self.compute(it)).transpose());
        let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        // The operator moves the numbers of elements: what it puts where is seen from them. 0 is none of them.
        let mut places = Vec::new();
        let mut next = 1_i64;
        for (number, tensor) in tensors.iter().enumerate() {
            let Some(tensor) = tensor.as_ref().filter(|_| number < count) else {
                places.push(tensor.clone());
                continue;
            };
            let elements = tensor.shape.iter().product::<u64>();
            let end = i64::try_from(elements).ok().and_then(|elements| next.checked_add(elements));
            let end = end.ok_or("the tensors are too large")?;
            let bytes: Vec<u8> = (next..end).flat_map(i64::to_le_bytes).collect();
            next = end;
            let shape = tensor.shape.clone();
            places.push(Some(Tensor::dense(DType::Int64, shape, Blob::memory(bytes))));
        }
        let given: Vec<Option<&Tensor>> = places.iter().map(Option::as_ref).collect();
        let moved = self.evaluate(op, &given)?;
        let moved = moved.get(output).ok_or("a result is lost")?;
        if moved.shape != value.shape {
            return Err(format!("expected dims {:?}, found {:?}", moved.shape, value.shape));
        }
        let read = |tensor: &Tensor| tensor.data.bytes().map_err(|error| error.to_string());
        let (moved, bytes) = (read(moved)?, read(value)?);
        let mut first = 1_usize;
        for (input, tensor) in inputs.iter().zip(&tensors).take(count) {
            let (Some(input), Some(tensor)) = (input, tensor) else { continue };
            let width = width(value.dtype).filter(|_| tensor.dtype == value.dtype);
            let width = width.ok_or("expected elements of whole bytes, and of one type")?;
            let mut new = read(tensor)?.to_vec();
            let elements = new.len() / width;
            for (place, element) in moved.as_chunks().0.iter().zip(bytes.chunks_exact(width)) {
                let place = usize::try_from(i64::from_le_bytes(*place)).ok();
                let own = place.and_then(|place| place.checked_sub(first));
                let own = own.filter(|own| *own < elements).map(|own| own * width);
                if let Some(slot) = own.and_then(|own| new.get_mut(own..own + width)) {
                    slot.copy_from_slice(element);
                }
            }
            first += elements;
            let data = Blob::memory(Bytes::from(new));
            self.put(input, &Tensor { data, ..tensor.clone() })?;
        }
        Ok(())
    }

    /// Returns the operand of an operator that depends on parameters, and its value for a result.
    fn inverse(
        &mut self,
        op: &Op,
        inputs: &[Option<Recipe>],
        value: &Tensor,
    ) -> Result<(usize, Tensor), String> {
        let no_inverse = || format!("`{}` has no inverse", op.kind);
        let literal = |input: &Option<Recipe>| match input.as_ref()?.made()? {
            Made::Literal(tensor) => Some(tensor.as_ref().clone()),
            _ => None,
        };
        let call = |kind: &str, attributes| Op { kind: kind.to_owned(), attributes, ..op.clone() };
        let (at, op, given) = match (op.kind.as_str(), inputs) {
            ("Cast", [Some(input)]) => {
                let before = self.compute(input)?.dtype;
                let code = dtype::code(before).ok_or_else(no_inverse)?;
                let to = AttributeValue::Long(i64::from(code));
                let to = Attribute { name: "to".to_owned(), value: to };
                (0, call("Cast", vec![to]), vec![value.clone()])
            }
            ("Neg", _) => (0, call("Neg", Vec::new()), vec![value.clone()]),
            (kind @ ("Mul" | "Add" | "Div" | "Sub"), [a, b]) => {
                match (kind, literal(a), literal(b)) {
                    ("Mul", None, Some(by)) => {
                        (0, call("Div", Vec::new()), vec![value.clone(), by])
                    }
                    ("Mul", Some(by), None) => {
                        (1, call("Div", Vec::new()), vec![value.clone(), by])
                    }
                    ("Add", None, Some(by)) => {
                        (0, call("Sub", Vec::new()), vec![value.clone(), by])
                    }
                    ("Add", Some(by), None) => {
                        (1, call("Sub", Vec::new()), vec![value.clone(), by])
                    }
                    ("Div", None, Some(by)) => {
                        (0, call("Mul", Vec::new()), vec![value.clone(), by])
                    }
                    ("Sub", None, Some(by)) => {
                        (0, call("Add", Vec::new()), vec![value.clone(), by])
                    }
                    ("Sub", Some(from), None) => {
                        (1, call("Sub", Vec::new()), vec![from, value.clone()])
                    }
                    _ => return Err(no_inverse()),
                }
            }
            _ => return Err(no_inverse()),
        };
        let given: Vec<Option<&Tensor>> = given.iter().map(Some).collect();
        let back = self.evaluate(&op, &given)?.into_iter().next().ok_or_else(no_inverse)?;
        Ok((at, back))
    }
}

/// Casts elements as a conversion does.
fn cast(tensor: &mut Tensor, to: DType, within: bool) -> Result<(), String> {
    let caster = if within { Caster::within(to) } else { Caster::new(to) };
    let done = caster.and_then(|mut caster| caster.cast(tensor));
    done.map(drop).map_err(|error| error.to_string())
}

/// Returns the type of the parts of complex numbers.
fn part(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Complex64 => Some(DType::Float32),
        DType::Complex128 => Some(DType::Float64),
        _ => None,
    }
}

/// Returns the size of an element in bytes, if it is whole.
fn width(dtype: DType) -> Option<usize> {
    let bits = dtype.bits()?;
    usize::try_from(bits / 8).ok().filter(|width| *width > 0 && bits % 8 == 0)
}
