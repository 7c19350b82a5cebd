//! Dims that stay unknown.
//!
//! The shapes of Glow's nodes are fixed, so a net is translated at several sizes of each unknown dim. The results are
//! one graph if they differ only in what follows from the sizes (which are larger than 1, so that a dim does not look as
//! if it were repeated):
//!
//! | what differs | becomes |
//! |---|---|
//! | a dim of an input or output | the symbol of the dim that it equals, or unknown |
//! | one number of the shape of a `Reshape` | -1 |
//! | integers that are linear in one unknown dim | their computation from the shape of the input |
//! | anything else | an error |

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dim, Model, Op, Operand, Parameter, Tensor, Var,
};
use lodstone_schema::numbers::length;
use lodstone_schema::{Code, Finding, Findings};
use lodstone_store::Blob;

/// The number of sizes of each dim. They are consecutive, so that each remainder of a division by a stride occurs, but in
/// another order for each dim, so that nothing is linear in two dims.
const SIZES: usize = 12;

/// The smallest size: deep networks reduce images 32 times.
const SMALLEST: u64 = 224;

/// The maximum number of unknown dims.
const MAX_DIMS: usize = 64;

/// An unknown dim of a net.
pub(super) struct Unknown {
    dim: Dim,
    /// The first input that has it, and its axis there.
    input: String,
    axis: usize,
    /// The sizes at which the net is translated.
    sizes: [u64; SIZES],
}

/// Returns the unknown dims of the inputs of a net, if the rank of each input is known. Dims of the same symbol are one.
///
/// # Errors
/// If there are too many.
pub(super) fn unknowns(model: &Model) -> Result<Vec<Unknown>, Finding> {
    let mut found: Vec<Unknown> = Vec::new();
    for var in inputs(model) {
        let shape = var.value.tensor_type().and_then(|declared| declared.shape.as_ref());
        for (axis, dim) in shape.into_iter().flatten().enumerate() {
            let is_other = match dim {
                Dim::Known(_) => false,
                Dim::Symbol(_) => found.iter().all(|it| it.dim != *dim),
                Dim::Unknown => true,
            };
            if is_other {
                let (dim, input) = (dim.clone(), var.name.clone());
                found.push(Unknown { dim, input, axis, sizes: [0; SIZES] });
            }
        }
    }
    if found.len() > MAX_DIMS {
        return Err(
            format!("expected at most {MAX_DIMS} unknown dims, found {}", found.len()).into()
        );
    }
    for (number, unknown) in found.iter_mut().enumerate() {
        unknown.sizes = sizes(number as u64);
    }
    Ok(found)
}

/// Returns the sizes of the unknown dim of index `number`.
fn sizes(number: u64) -> [u64; SIZES] {
    let mut sizes = std::array::from_fn(|index| SMALLEST + index as u64);
    // A linear congruential generator, of Knuth.
    let mut state = number;
    for last in (1..SIZES).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sizes.swap(last, ((state >> 33) % (last as u64 + 1)) as usize);
    }
    sizes
}

/// Returns the variables of the main net that are fed.
fn inputs(model: &Model) -> impl Iterator<Item = &Var> {
    let main = model.main().and_then(|program| program.blocks.first());
    main.into_iter().flat_map(|main| &main.vars).filter(|var| !var.persistable)
}

/// Translates a net at every size of its unknown dims, and generalizes the results.
///
/// # Errors
/// Those of the translation, and everything that depends on the sizes in other ways.
pub(super) fn translate<T>(
    model: &Model,
    unknowns: &[Unknown],
    translate: impl Fn(&Model) -> Result<(Model, T), Findings>,
) -> Result<(Model, T), Findings> {
    let mut results = Vec::new();
    let mut first = None;
    for number in 0..SIZES {
        let (result, rest) = translate(&at(model, unknowns, number))?;
        first.get_or_insert(rest);
        results.push(result);
    }
    let general = general(&results, unknowns)?;
    let rest = first.ok_or_else(|| {
        let mut findings = Findings::default();
        findings.add("the graph", Finding::internal("no translation"));
        findings
    })?;
    Ok((general, rest))
}

/// Returns a model whose unknown dims have their sizes of index `number`.
fn at(model: &Model, unknowns: &[Unknown], number: usize) -> Model {
    let mut model = model.clone();
    let Some(main) = model.main_mut().and_then(|main| main.blocks.first_mut()) else {
        return model;
    };
    for var in main.vars.iter_mut().filter(|var| !var.persistable) {
        let name = var.name.clone();
        let shape = var.value.tensor_type_mut().and_then(|declared| declared.shape.as_mut());
        for (axis, dim) in shape.into_iter().flatten().enumerate() {
            let found = unknowns.iter().find(|it| match dim {
                Dim::Known(_) => false,
                Dim::Symbol(_) => it.dim == *dim,
                Dim::Unknown => it.input == name && it.axis == axis,
            });
            if let Some(size) = found.and_then(|it| it.sizes.get(number)) {
                *dim = Dim::Known(*size);
            }
        }
    }
    model
}

/// Returns the graph that all results are instances of.
fn general(results: &[Model], unknowns: &[Unknown]) -> Result<Model, Findings> {
    let mut findings = Findings::default();
    let Some((first, others)) = results.split_first() else { return Ok(Model::default()) };
    let mut general = first.clone();
    let Some(main) = general.main_mut().and_then(|main| main.blocks.first_mut()) else {
        return Ok(general);
    };
    let first_block = |model| Model::main(model).and_then(|main| main.blocks.first());
    let others_blocks: Vec<&Block> = others.iter().filter_map(first_block).collect();
    let is_like = others_blocks.iter().all(|it| {
        it.ops.len() == main.ops.len()
            && it.vars.iter().map(|var| &var.name).eq(main.vars.iter().map(|var| &var.name))
    });
    if !is_like || others_blocks.len() != others.len() {
        findings.add("the graph", dependent("its operators depend on the unknown dims".to_owned()));
        return Err(findings);
    }
    for (number, op) in main.ops.iter().enumerate() {
        if others_blocks.iter().any(|it| it.ops.get(number) != Some(op)) {
            let what = "its attributes depend on the unknown dims";
            findings.add(place(op), dependent(what.to_owned()));
        }
    }
    for (number, var) in main.vars.iter_mut().enumerate() {
        let others = others_blocks.iter().filter_map(|it| it.vars.get(number));
        let shapes: Vec<Option<Vec<Dim>>> = others.map(|it| dims(it).cloned()).collect();
        let shape = var.value.tensor_type_mut().and_then(|declared| declared.shape.as_mut());
        for (axis, dim) in shape.into_iter().flatten().enumerate() {
            let mut sizes = vec![dim.clone()];
            sizes.extend(shapes.iter().filter_map(|it| it.as_ref()?.get(axis).cloned()));
            *dim = merged(&sizes, unknowns);
        }
    }
    let mut names: HashSet<String> =
        main.ops.iter().flat_map(Op::writes).map(str::to_owned).collect();
    names.extend(main.inputs.iter().cloned());
    names.extend(first.parameters.iter().map(|parameter| parameter.name.clone()));
    let mut made =
        Made { unknowns, ops: Vec::new(), constants: Vec::new(), dims: BTreeMap::new(), names };
    let mut kept = Vec::new();
    for (number, parameter) in first.parameters.iter().enumerate() {
        let others: Vec<_> = others.iter().filter_map(|it| it.parameters.get(number)).collect();
        let readers = || main.ops.iter().filter(|op| op.reads().any(|name| name == parameter.name));
        match made.parameter(parameter, &others, || readers().all(|op| op.kind == "Reshape")) {
            Ok(parameter) => kept.extend(parameter),
            Err(what) => {
                let place = readers().next().map_or_else(|| "the graph".to_owned(), place);
                findings.add(place, what);
            }
        }
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    kept.append(&mut made.constants);
    main.ops.splice(0..0, made.ops);
    general.parameters = kept;
    Ok(general)
}

fn place(op: &Op) -> String {
    format!("the graph, `{}`", op.name)
}

fn dependent(what: String) -> Finding {
    Finding::new(Code::UnknownDims, what)
}

fn dims(var: &Var) -> Option<&Vec<Dim>> {
    var.value.tensor_type()?.shape.as_ref()
}

/// Returns the dim that has these sizes.
fn merged(sizes: &[Dim], unknowns: &[Unknown]) -> Dim {
    if let [first, rest @ ..] = sizes
        && sizes.len() == SIZES
        && rest.iter().all(|dim| dim == first)
    {
        return first.clone();
    }
    let is_it = |unknown: &&Unknown| {
        let expected = unknown.sizes.iter().map(|size| Dim::Known(*size));
        expected.eq(sizes.iter().cloned())
    };
    unknowns.iter().find(is_it).map_or(Dim::Unknown, |unknown| unknown.dim.clone())
}

/// What computes constants from shapes.
struct Made<'a> {
    unknowns: &'a [Unknown],
    ops: Vec<Op>,
    constants: Vec<Parameter>,
    /// The values of unknown dims, by index.
    dims: BTreeMap<usize, String>,
    names: HashSet<String>,
}

impl Made<'_> {
    /// Returns the general form of a constant; `None` if it is computed now.
    fn parameter(
        &mut self,
        first: &Parameter,
        others: &[&Parameter],
        only_reshapes: impl Fn() -> bool,
    ) -> Result<Option<Parameter>, Finding> {
        let is_same = |other: &&Parameter| {
            let (one, two) = (&first.tensor, &other.tensor);
            first.name == other.name && one.dtype == two.dtype && one.shape == two.shape
        };
        if others.len() + 1 != SIZES || !others.iter().all(is_same) {
            return Err(dependent(format!(
                "the shape of `{}` depends on unknown dims",
                first.name
            )));
        }
        // Weights come from the model; what the translation computes is small.
        let mut is_equal = true;
        if first.tensor.data.file_ranges().next().is_none() {
            let bytes = read(&first.tensor)?;
            for other in others {
                is_equal = is_equal && read(&other.tensor)? == bytes;
            }
        }
        if is_equal {
            return Ok(Some(first.clone()));
        }
        if first.tensor.dtype != DType::Int64 || first.tensor.shape.len() > 1 {
            return Err(dependent(format!("`{}` depends on unknown dims", first.name)));
        }
        // All lists have one length.
        let mut columns: Vec<Vec<i64>> =
            longs(&first.tensor)?.into_iter().map(|number| vec![number]).collect();
        for other in others {
            let numbers = longs(&other.tensor)?;
            columns.iter_mut().zip(numbers).for_each(|(column, number)| column.push(number));
        }
        let is_fixed = |column: &[i64]| column.iter().all(|it| column.first() == Some(it));
        let is_positive = columns.iter().flatten().all(|it| *it > 0);
        let changing = columns.iter().filter(|column| !is_fixed(column)).count();
        if changing == 1 && is_positive && only_reshapes() {
            let entry = |column: &Vec<i64>| match column.as_slice() {
                [first, ..] if is_fixed(column) => *first,
                _ => -1,
            };
            let numbers: Vec<i64> = columns.iter().map(entry).collect();
            let tensor = Tensor { data: data(&numbers), ..first.tensor.clone() };
            return Ok(Some(Parameter { name: first.name.clone(), tensor }));
        }
        let mut parts = Vec::new();
        for column in &columns {
            parts.push(match column.as_slice() {
                [number, ..] if is_fixed(column) => self.constant(&[*number]),
                _ => self.linear(&first.name, column)?,
            });
        }
        let axis = Attribute { name: "axis".to_owned(), value: AttributeValue::Long(0) };
        match first.tensor.shape.is_empty() {
            false => self.op("Concat", parts, vec![axis], first.name.clone()),
            true => {
                let shape = self.constant(&[]);
                self.op(
                    "Reshape",
                    parts.into_iter().chain([shape]).collect(),
                    vec![],
                    first.name.clone(),
                );
            }
        }
        Ok(None)
    }

    /// Computes a number that is linear in an unknown dim.
    fn linear(&mut self, name: &str, numbers: &[i64]) -> Result<String, Finding> {
        let line = |unknown: &Unknown| {
            let size = |index: usize| i64::try_from(*unknown.sizes.get(index)?).ok();
            let (run, rise) =
                (size(1)? - size(0)?, numbers.get(1)?.checked_sub(*numbers.first()?)?);
            let factor = (run != 0 && rise % run == 0).then(|| rise / run)?;
            let offset = numbers.first()?.checked_sub(factor.checked_mul(size(0)?)?)?;
            let is_on = |(index, number): (usize, &i64)| {
                let expected = factor.checked_mul(size(index)?)?.checked_add(offset)?;
                Some(expected == *number)
            };
            let mut all = numbers.iter().enumerate().map(|it| is_on(it).unwrap_or(false));
            all.all(|is_on| is_on).then_some((factor, offset))
        };
        let mut found = self.unknowns.iter().enumerate();
        let Some((index, (factor, offset))) = found.find_map(|(at, it)| Some((at, line(it)?)))
        else {
            return Err(dependent(format!("`{name}` is not linear in one unknown dim")));
        };
        let mut value = self.dim(index)?;
        for (kind, number, neutral) in [("Mul", factor, 1), ("Add", offset, 0)] {
            if number != neutral {
                let inputs = vec![value, self.constant(&[number])];
                value = self.fresh(name);
                self.op(kind, inputs, Vec::new(), value.clone());
            }
        }
        Ok(value)
    }

    /// Returns the size of an unknown dim, in a list.
    fn dim(&mut self, index: usize) -> Result<String, Finding> {
        if let Some(name) = self.dims.get(&index) {
            return Ok(name.clone());
        }
        let lost = || Finding::internal(format!("there is no unknown dim {index}"));
        let unknown = self.unknowns.get(index).ok_or_else(lost)?;
        let axis = length(unknown.axis);
        let shape = self.fresh(&format!("{}_shape", unknown.input));
        self.op("Shape", vec![unknown.input.clone()], Vec::new(), shape.clone());
        let axis = self.constant(&[axis]);
        let name = self.fresh(&format!("{}_dim", unknown.input));
        self.op("Gather", vec![shape, axis], Vec::new(), name.clone());
        self.dims.insert(index, name.clone());
        Ok(name)
    }

    /// Adds a list of numbers.
    fn constant(&mut self, numbers: &[i64]) -> String {
        let name = self.fresh("number");
        let tensor = Tensor::dense(DType::Int64, vec![numbers.len() as u64], data(numbers));
        self.constants.push(Parameter { name: name.clone(), tensor });
        name
    }

    fn op(&mut self, kind: &str, inputs: Vec<String>, attributes: Vec<Attribute>, output: String) {
        let slot = |args| vec![Operand { slot: String::new(), args }];
        self.ops.push(Op {
            kind: kind.to_owned(),
            name: output.clone(),
            inputs: slot(inputs),
            outputs: slot(vec![output]),
            attributes,
            ..Op::default()
        });
    }

    fn fresh(&mut self, base: &str) -> String {
        let mut number = 0_usize;
        loop {
            let name = format!("{base}__{number}");
            if self.names.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }
}

fn longs(tensor: &Tensor) -> Result<Vec<i64>, Finding> {
    let bytes = read(tensor)?;
    Ok(bytes.as_chunks().0.iter().map(|it| i64::from_le_bytes(*it)).collect())
}

fn read(tensor: &Tensor) -> Result<Bytes, Finding> {
    tensor.data.bytes().map_err(|error| error.to_string().into())
}

fn data(numbers: &[i64]) -> Blob {
    Blob::memory(numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
}
