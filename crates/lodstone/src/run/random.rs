//! Random inputs, to measure a model or compare two models.

use lodstone_model::{DType, Dim, Lod, Model, Tensor, TensorType, Var};
use lodstone_store::Blob;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::sizes::{Open, chosen};
use super::typed::Types;
use super::{Inputs, Value, inputs_of};
use crate::{Error, Result};

/// Maximum number of elements of a random input.
const MAX_ELEMENTS: u64 = 1 << 28;

impl Inputs {
    /// Adds a random tensor for each input of a model without a value and a default value. Equal seeds give equal
    /// tensors.
    ///
    /// Floating-point elements are uniform in [0, 1); integers and booleans are 0 or 1. `shapes` sets the shapes of inputs;
    /// other dims that are not declared get the smallest of a few plausible sizes that the program accepts. The LoD of
    /// [`lod`](Self::lod) determines the number of rows; other inputs with LoD have two sequences. Returns descriptions of the
    /// added inputs.
    ///
    /// # Errors
    /// Fails if an input is not a tensor of numbers, its rank is unknown, or its shape contradicts the declaration.
    pub fn add_random(
        &mut self,
        model: &Model,
        seed: u64,
        shapes: &[(String, Vec<u64>)],
    ) -> Result<Vec<String>> {
        let Some((inputs, added)) = self.variants(model, seed, shapes, 1)?.pop() else {
            return Ok(Vec::new());
        };
        *self = inputs;
        Ok(added)
    }

    /// Returns the inputs with random tensors as [`add_random`](Self::add_random) adds them, and a second time with other sizes of
    /// the dynamic dims, if the program accepts others; each with descriptions of the added inputs.
    ///
    /// # Errors
    /// The errors of [`add_random`](Self::add_random).
    pub fn with_random(
        &self,
        model: &Model,
        seed: u64,
        shapes: &[(String, Vec<u64>)],
    ) -> Result<Vec<(Self, Vec<String>)>> {
        self.variants(model, seed, shapes, 2)
    }

    /// Returns at most `most` variants of the inputs.
    fn variants(
        &self,
        model: &Model,
        seed: u64,
        shapes: &[(String, Vec<u64>)],
        most: usize,
    ) -> Result<Vec<(Self, Vec<String>)>> {
        let (_, required) = inputs_of(model)?;
        if let Some((name, _)) = shapes.iter().find(|(name, _)| !required.contains(name)) {
            return Err(Error::no_input(name, required.iter().map(String::as_str)));
        }
        let unnamed = self.values.iter().filter(|(name, _)| name.is_none()).count();
        let has_value =
            |name: &&String| self.values.iter().any(|(known, _)| known.as_ref() == Some(*name));
        let without = required.iter().enumerate().filter(|(_, name)| !has_value(name));
        let without: Vec<(usize, &String)> = without.collect();
        let blocks = model.main().map(|program| &program.blocks);
        let vars: &[Var] = blocks.and_then(|blocks| blocks.first()).map_or(&[], |main| &main.vars);
        let mut open = Vec::new();
        for (number, name) in without.iter().skip(unnamed) {
            let declared = vars.iter().find(|var| var.name == **name);
            let declared = declared.and_then(|var| var.value.tensor_type()).cloned();
            let shape = shapes.iter().find(|(known, _)| known == *name).map(|(_, shape)| shape);
            let rows = self.rows(name);
            let input = input(name, declared, shape.map(Vec::as_slice), rows);
            open.push((*number, input?));
        }
        let (numbers, open): (Vec<usize>, Vec<Open>) = open.into_iter().unzip();
        let of_values = without.iter().take(unnamed).map(|(_, name)| Some((*name).clone()));
        let mut of_values = of_values.collect::<Vec<_>>().into_iter();
        let given = self.values.iter().filter_map(|(name, value)| {
            let name = name.clone().or_else(|| of_values.next().flatten())?;
            let Value::Tensor(tensor) = value else { return None };
            Some((name, tensor.dtype, tensor.shape.clone()))
        });
        let given: Types = given.collect();
        let mut variants = Vec::new();
        let own = self.lod.first().map(|(_, level)| level.len().saturating_sub(1) as u64);
        let values = self.values.iter().filter_map(|(_, value)| match value {
            Value::Tensor(tensor) => tensor.lod.0.first(),
            _ => None,
        });
        let of_values = values.map(|level| level.len().saturating_sub(1) as u64).next();
        let invented = open.iter().any(|input| input.lod_level > 0).then_some(2);
        let sequences = own.or(of_values).or(invented);
        for shapes in chosen(model, &open, &given, sequences, most) {
            let (mut inputs, mut added) = (self.clone(), Vec::new());
            for ((input, number), shape) in open.iter().zip(&numbers).zip(shapes) {
                let tensor = random(input.dtype, shape, seed, *number as u64);
                let mut tensor = tensor.map_err(|why| wrong(&input.name, why))?;
                let mut text = format!("{} {} {:?}", input.name, tensor.dtype, tensor.shape);
                if self.rows(&input.name).is_none() {
                    let rows = tensor.shape.first().copied().unwrap_or(0);
                    tensor.lod = two_sequences(rows, input.lod_level);
                }
                if !tensor.lod.is_empty() {
                    text += &format!(", LoD {:?}", tensor.lod.0);
                }
                added.push(text);
                inputs.values.push((Some(input.name.clone()), tensor.into()));
            }
            variants.push((inputs, added));
        }
        Ok(variants)
    }

    /// Returns the number of rows of an input by its LoD: the last offset of its innermost level.
    fn rows(&self, name: &str) -> Option<u64> {
        let (_, innermost) = self.lod.iter().rfind(|(known, _)| known == name)?;
        innermost.last().copied()
    }
}

fn wrong(name: &str, why: impl Into<String>) -> Error {
    Error::InvalidInput { name: name.to_owned(), why: why.into() }
}

/// Returns an input with the dims that are declared or given.
fn input(
    name: &str,
    declared: Option<TensorType>,
    shape: Option<&[u64]>,
    rows: Option<u64>,
) -> Result<Open> {
    let undeclared = || wrong(name, "the program does not declare a tensor type");
    let declared = declared.ok_or_else(undeclared)?;
    let dtype = match declared.dtype {
        // Frameworks without declared types mostly compute with floats.
        DType::Unspecified => DType::Float32,
        dtype => dtype,
    };
    let dims = match (declared.shape, shape) {
        (None, None) => return Err(Error::UnknownShape(name.to_owned())),
        (Some(dims), Some(shape)) if dims.len() != shape.len() => {
            let rank = dims.len();
            let why = format!("the program declares rank {rank}, not the shape {shape:?}");
            return Err(wrong(name, why));
        }
        (_, Some(shape)) => shape.iter().map(|dim| Dim::Known(*dim)).collect(),
        (Some(mut dims), None) => {
            if let (Some(rows), Some(first)) = (rows, dims.first_mut()) {
                *first = Dim::Known(rows);
            }
            dims
        }
    };
    Ok(Open { name: name.to_owned(), dtype, dims, lod_level: declared.lod_level })
}

/// Returns LoD of some levels: two sequences of rows, or one of a single row, in one sequence of each outer level.
fn two_sequences(rows: u64, levels: u32) -> Lod {
    let Some(outer) = levels.checked_sub(1) else { return Lod::default() };
    let inner = if rows < 2 { vec![0, rows] } else { vec![0, rows / 2, rows] };
    let mut lod = Lod::default();
    for level in 0..outer {
        let entries = if level + 1 == outer { inner.len() as u64 - 1 } else { 1 };
        lod.0.push(vec![0, entries]);
    }
    lod.0.push(inner);
    lod
}

fn random(dtype: DType, dims: Vec<u64>, seed: u64, stream: u64) -> Result<Tensor, String> {
    let count = dims.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim));
    let count = count.filter(|count| *count <= MAX_ELEMENTS).ok_or("it has too many elements")?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    // The upper bits as a fraction, exact in single precision.
    #[expect(clippy::cast_precision_loss, reason = "24 bits")]
    let fraction = |bits: u32| (bits >> 8) as f32 / 16_777_216.0;
    let mut bytes = Vec::new();
    for _ in 0..count {
        let bits = rng.next_u32();
        let bit = (bits >> 31) as u8;
        match dtype {
            DType::Float32 => bytes.extend(fraction(bits).to_le_bytes()),
            DType::Float64 => bytes.extend(f64::from(fraction(bits)).to_le_bytes()),
            DType::Float16 => bytes.extend(half::f16::from_f32(fraction(bits)).to_le_bytes()),
            DType::BFloat16 => bytes.extend(half::bf16::from_f32(fraction(bits)).to_le_bytes()),
            DType::Bool | DType::Int8 | DType::Uint8 => bytes.push(bit),
            DType::Int16 | DType::Uint16 => bytes.extend([bit, 0]),
            DType::Int32 | DType::Uint32 => bytes.extend(u32::from(bit).to_le_bytes()),
            DType::Int64 | DType::Uint64 => bytes.extend(u64::from(bit).to_le_bytes()),
            other => return Err(format!("random elements of {other} are not supported")),
        }
    }
    Ok(Tensor::dense(dtype, dims, Blob::memory(bytes)))
}
