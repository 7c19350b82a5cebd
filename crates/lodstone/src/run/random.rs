//! Random inputs, to measure a model or compare two models.

use lodstone_model::{DType, Dim, Lod, Model, Tensor, TensorType, ValueType, Var};
use lodstone_store::Blob;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Inputs, required_inputs};
use crate::{Error, Result};

/// Maximum number of elements of a random input.
const MAX_ELEMENTS: u64 = 1 << 28;

impl Inputs {
    /// Adds a random tensor for each input of a model without a value and a default value. Equal seeds give equal
    /// tensors.
    ///
    /// Floating-point elements are uniform in [0, 1); integers and booleans are 0 or 1. Inputs with LoD have two sequences. `shapes` sets the shapes of
    /// inputs; other undeclared dims are 1. Returns descriptions of the added inputs.
    ///
    /// # Errors
    /// Fails if an input is not a tensor of numbers, its rank is unknown, or its shape contradicts the declaration.
    pub fn add_random(
        &mut self,
        model: &Model,
        seed: u64,
        shapes: &[(String, Vec<u64>)],
    ) -> Result<Vec<String>> {
        let (required, _) = required_inputs(model)?;
        let unnamed = self.values.iter().filter(|(name, _)| name.is_none()).count();
        let has_value =
            |name: &&String| self.values.iter().any(|(known, _)| known.as_ref() == Some(*name));
        let open = required.iter().enumerate().filter(|(_, name)| !has_value(name));
        let open: Vec<(usize, String)> =
            open.skip(unnamed).map(|(number, name)| (number, name.clone())).collect();
        if let Some((name, _)) = shapes.iter().find(|(name, _)| !required.contains(name)) {
            return Err(Error::Absent(format!("there is no input `{name}` to set the shape of")));
        }
        let blocks = model.main().map(|program| &program.blocks);
        let vars: &[Var] = blocks.and_then(|blocks| blocks.first()).map_or(&[], |main| &main.vars);
        let mut added = Vec::new();
        for (number, name) in open {
            let declared = vars.iter().find(|var| var.name == name);
            let declared = declared.and_then(|var| match &var.value {
                // Frameworks without declared types mostly compute with floats.
                ValueType::Tensor(tensor) if tensor.dtype == DType::Unspecified => {
                    Some(TensorType::new(DType::Float32, tensor.shape.clone()))
                }
                value => value.tensor_type().cloned(),
            });
            let shape = shapes.iter().find(|(known, _)| *known == name).map(|(_, shape)| shape);
            let failed = |why: String| Error::Absent(format!("random input `{name}`: {why}"));
            let tensor = random(declared, shape.map(Vec::as_slice), seed, number as u64);
            let tensor = tensor.map_err(failed)?;
            added.push(format!("{name} {} {:?}", tensor.dtype, tensor.shape));
            self.values.push((Some(name), tensor.into()));
        }
        Ok(added)
    }
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

fn random(
    declared: Option<TensorType>,
    shape: Option<&[u64]>,
    seed: u64,
    stream: u64,
) -> Result<Tensor, String> {
    let declared = declared.ok_or("the program does not declare a tensor type")?;
    let dims = match (&declared.shape, shape) {
        (None, None) => return Err("its rank is not declared: pass a shape".to_owned()),
        (Some(dims), Some(shape)) if dims.len() != shape.len() => {
            return Err(format!(
                "the program declares rank {}, not the shape {shape:?}",
                dims.len()
            ));
        }
        (_, Some(shape)) => shape.to_vec(),
        (Some(dims), None) => dims
            .iter()
            .map(|dim| match dim {
                Dim::Known(dim) => *dim,
                _ => 1,
            })
            .collect(),
    };
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
        match declared.dtype {
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
    let rows = dims.first().copied().unwrap_or(0);
    let mut tensor = Tensor::dense(declared.dtype, dims, Blob::memory(bytes));
    tensor.lod = two_sequences(rows, declared.lod_level);
    Ok(tensor)
}
