//! Operators that load and save.

use half::f16;
use lodstone_formats::paddle::stream::{self, Expect};
use lodstone_model::{AttributeValue, DType, Limits, Op, Tensor};
use lodstone_schema::paddle::{LOAD_MERGED, SAVE_MERGED, is_merged, record_position};
use lodstone_store::Blob;

use super::{Outcome, Run, flag, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("load", load),
    ("load_combine", load_combine),
    (LOAD_MERGED, load),
    (SAVE_MERGED, |frame, step, op| save(frame, step, op, &[Some(input(step, "X")?)])),
    ("save", |frame, step, op| save(frame, step, op, &[Some(input(step, "X")?)])),
    ("save_combine", |frame, step, op| save(frame, step, op, step.inputs("X"))),
];

fn path(op: &Op) -> Outcome<String> {
    match op.attribute("file_path") {
        Some(AttributeValue::String(path)) if !path.0.is_empty() => Ok(path.to_string()),
        _ => Err("the attribute `file_path` is missing".into()),
    }
}

fn name_of<'f>(frame: &'f Frame<'_>, slot: Slot) -> &'f str {
    frame.layout.vars.get(slot).map_or("", |var| &var.name)
}

/// Converts a tensor to half precision.
fn as_half(frame: &Frame<'_>, tensor: &Tensor) -> Outcome<Tensor> {
    if tensor.dtype != DType::Float32 {
        return Ok(tensor.clone());
    }
    frame.reserve(tensor.nbytes() / 2)?;
    let bytes = tensor.data.bytes()?;
    let (numbers, _) = bytes.as_chunks::<4>();
    let halves = numbers.iter().flat_map(|four| half_of(f32::from_le_bytes(*four)).to_le_bytes());
    let data = Blob::memory(halves.collect::<Vec<u8>>());
    Ok(Tensor { dtype: DType::Float16, data, ..tensor.clone() })
}

/// Rounds towards 0, as PaddlePaddle 2.6.2 does on CPUs; values beyond the maximum become infinite.
fn half_of(number: f32) -> f16 {
    let nearest = f16::from_f32(number);
    if number.abs() > f16::MAX.to_f32() {
        return f16::INFINITY.copysign(nearest);
    }
    match nearest.to_f32().abs() > number.abs() {
        true => f16::from_bits(nearest.to_bits() - 1),
        false => nearest,
    }
}

fn save(frame: &mut Frame<'_>, step: &Step, op: &Op, slots: &[Option<Slot>]) -> Outcome {
    if flag(op, "save_to_memory", false) {
        return Err("saving into memory is not supported".into());
    }
    let half = flag(op, "save_as_fp16", false);
    let mut records = Vec::new();
    for slot in slots.iter().flatten() {
        let tensor = frame.tensor(*slot)?;
        let tensor = if half { as_half(frame, tensor)? } else { tensor.clone() };
        records.push((name_of(frame, *slot).to_owned(), tensor));
    }
    let overwrite = flag(op, "overwrite", true);
    frame.files.save(&path(op)?, records, is_merged(op), overwrite)?;
    match &step.publishes {
        Some(prefix) => Ok(frame.files.publish(prefix)?),
        None => Ok(()),
    }
}

/// Fails if a tensor does not have the declared type of a variable.
fn check(frame: &Frame<'_>, slot: Slot, tensor: &Tensor, path: &str) -> Outcome {
    let name = name_of(frame, slot);
    let declared = frame.layout.program.vars().find(|var| var.name == name);
    let Some(wanted) = declared.and_then(|var| var.value.tensor_type()) else { return Ok(()) };
    if wanted.dtype == tensor.dtype && wanted.admits(&tensor.shape) {
        return Ok(());
    }
    let found = format!("{}{:?}", tensor.dtype, tensor.shape);
    Err(format!("expected {wanted} for `{name}` in `{path}`, found {found}").into())
}

fn expected(frame: &Frame<'_>, slot: Slot) -> Expect {
    frame.layout.vars.get(slot).map_or(Expect::Anything, |var| var.expect)
}

/// Returns the elements from position `seek`, with dims `shape`; all elements if there is no `seek`.
fn part(op: &Op, tensor: Tensor, path: &str) -> Outcome<Tensor> {
    let Some(AttributeValue::Long(seek @ 0..)) = op.attribute("seek") else { return Ok(tensor) };
    let shape: Option<Vec<u64>> = match op.attribute("shape") {
        Some(AttributeValue::Longs(shape)) => {
            shape.iter().map(|dim| u64::try_from(*dim).ok()).collect()
        }
        _ => None,
    };
    let shape = shape.ok_or("expected dims as `shape`, since `seek` is set")?;
    let (begin, len) =
        (tensor.dtype.size_of(&[seek.cast_unsigned()]), tensor.dtype.size_of(&shape));
    let data = begin.zip(len).and_then(|(begin, len)| tensor.data.slice(begin, len).ok());
    let data = data.ok_or_else(|| {
        let (dtype, all) = (tensor.dtype, &tensor.shape);
        format!("`{path}` has {dtype}{all:?}, which does not contain {shape:?} at element {seek}")
    })?;
    Ok(Tensor::dense(tensor.dtype, shape, data))
}

fn put(frame: &mut Frame<'_>, op: &Op, slot: Slot, tensor: Tensor, path: &str) -> Outcome {
    let mut tensor = if flag(op, "load_as_fp16", false) {
        as_half(frame, &tensor)?
    } else {
        check(frame, slot, &tensor, path)?;
        tensor
    };
    frame.reserve(tensor.nbytes())?;
    let bytes = tensor.data.read()?;
    tensor.data = Blob::memory(bytes);
    Ok(frame.make(slot, tensor)?)
}

fn load(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let (path, slot) = (path(op)?, output(step, "Out")?);
    let merged = is_merged(op);
    let position = record_position(op);
    let position = usize::try_from(position)
        .map_err(|_| format!("expected the index of a record, found {position}"))?;
    if let Some(held) = frame.files.held(&path) {
        if !merged && held.len() != 1 {
            return Err(format!("expected one tensor in `{path}`, found {}", held.len()).into());
        }
        let found = held.get(position).map(|(_, tensor)| tensor.clone());
        let tensor = found.ok_or_else(|| format!("`{path}` has no record {position}"))?;
        return put(frame, op, slot, part(op, tensor, &path)?, &path);
    }
    let blob = frame.files.open(&path)?;
    let limits = Limits::default();
    let tensor = if merged {
        stream::read_record(&blob, position, &limits)?
    } else {
        let (_, records) = stream::read(&blob, &[expected(frame, slot)], &limits)?;
        let count = records.len();
        let mut records = records.into_iter();
        match (records.next(), records.next()) {
            (Some(tensor), None) => tensor,
            _ => return Err(format!("expected one tensor in `{path}`, found {count}").into()),
        }
    };
    put(frame, op, slot, part(op, tensor, &path)?, &path)
}

fn load_combine(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    if flag(op, "model_from_memory", false) {
        return Err("loading from memory is not supported".into());
    }
    let path = path(op)?;
    let slots: Vec<Slot> = step.outputs("Out").iter().flatten().copied().collect();
    let tensors: Vec<Tensor> = match frame.files.held(&path) {
        Some(held) => held.iter().map(|(_, tensor)| tensor.clone()).collect(),
        None => {
            let expects: Vec<Expect> = slots.iter().map(|slot| expected(frame, *slot)).collect();
            let blob = frame.files.open(&path)?;
            stream::read(&blob, &expects, &Limits::default())?.1
        }
    };
    // All tensors are checked first: a file of another program changes nothing.
    for (slot, tensor) in slots.iter().zip(&tensors) {
        if !flag(op, "load_as_fp16", false) {
            check(frame, *slot, tensor, &path)?;
        }
    }
    if slots.len() != tensors.len() {
        let (wanted, found) = (slots.len(), tensors.len());
        return Err(format!("expected {wanted} tensors in `{path}`, found {found}").into());
    }
    for (slot, tensor) in slots.into_iter().zip(tensors) {
        put(frame, op, slot, tensor, &path)?;
    }
    Ok(())
}
