//! Comparison of the values that two models compute from the same inputs.
//!
//! Both run once, and return all values that have a counterpart. Outputs are paired with outputs: those of the same name, or those
//! that they become where one program is lowered, and the others by position and type. Other values are paired by what they
//! become, or by name. A value without a counterpart is counted, and never equal.
//!
//! A program that has no LoD returns the offsets of an output `X` as outputs `X.lod0`, `X.lod1`, ...: they are compared with the
//! LoD of the other `X`. If only one of the two programs returns LoD at all, only elements are compared.

use std::collections::{HashMap, HashSet};

use lodstone_lowering::is_rewritten;
use lodstone_model::{DType, Kind, Lod, Model, Parameter, Tensor, TensorType, ValueType};
use lodstone_schema::{Finding, Origin, conventions};
use lodstone_store::{Blob, Progress};
use serde::Serialize;

use super::engine::{added_outputs, lowered};
use super::{Engine, Inputs, RunOptions, Session, Value, no_program, tensors};
use crate::numbers::{element_count, numbers};
use crate::{Error, Result};

/// The options of a comparison.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompareOptions {
    /// The options of both runs. Values to fetch are ignored.
    pub run: RunOptions,
    /// What computes the operators of the second model, if not the engine of both.
    pub engine_b: Option<Engine>,
    /// Relative tolerance: elements agree if |a - b| <= atol + rtol * |b|.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Whether only outputs are compared.
    pub outputs_only: bool,
    /// Stops the runs when it is cancelled.
    pub progress: Progress,
}

impl Default for CompareOptions {
    /// The tolerances of ONNX's backend tests, all values.
    fn default() -> Self {
        Self {
            run: RunOptions::default(),
            engine_b: None,
            rtol: 1e-3,
            atol: 1e-5,
            outputs_only: false,
            progress: Progress::default(),
        }
    }
}

lodstone_model::with_fields!(CompareOptions {
    with_run(run: RunOptions),
    with_engine_b(engine_b: Option<Engine>),
    with_rtol(rtol: f64),
    with_atol(atol: f64),
    with_outputs_only(outputs_only: bool),
    with_progress(progress: Progress),
});

/// The result of a comparison.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The version of this structure as JSON.
    pub schema: u32,
    /// Whether every output of both models has a counterpart and agrees with it.
    pub same: bool,
    /// The values that have a counterpart, in the order in which the first model computes them.
    pub values: Vec<ComparedValue>,
    /// The values of the first model without a counterpart.
    pub unpaired_a: Vec<String>,
    /// The values of the second model without a counterpart.
    pub unpaired_b: Vec<String>,
    /// The outputs among the values without a counterpart.
    pub unpaired_outputs: Vec<String>,
}

/// A pair of values.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ComparedValue {
    /// The name in the first model.
    pub a: String,
    /// The name in the second model.
    pub b: String,
    /// The criterion by which the values were paired.
    pub paired_by: PairedBy,
    /// Whether the value is an output of both models.
    pub is_output: bool,
    /// Whether all elements agree.
    pub agrees: bool,
    /// The reason if elements could not be compared: different shapes or kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<String>,
    /// The differences of the elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<ErrorDistribution>,
}

/// The criterion by which two values were paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PairedBy {
    /// They have different names, but are the same value after the programs are lowered.
    Origin,
    /// They have the same name.
    Name,
    /// The values are the next outputs of the same type.
    Position,
}

/// The differences between the elements of two tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ErrorDistribution {
    /// The number of elements.
    pub elements: u64,
    /// The number of elements outside the tolerance.
    pub outside: u64,
    /// The largest absolute difference; infinite if one of two elements is not finite.
    pub max_abs: f64,
    /// The largest difference relative to the element of the second model, where that is not zero.
    pub max_rel: f64,
    /// The mean absolute difference.
    pub mean_abs: f64,
    /// The 50 %, 90 % and 99 % quantiles of the absolute differences.
    pub quantiles: [f64; 3],
    /// The element with the largest absolute difference: its position in row-major order, and both values.
    pub worst: Option<(u64, f64, f64)>,
}

/// Runs two models once on the same inputs, which have the names of the first model, and compares their values.
///
/// If the second model lacks some of these names, its inputs are paired by position.
///
/// # Errors
/// The errors of [`run`](super::run) for either model; fails if inputs cannot be paired.
pub fn compare(
    a: &Model,
    b: &Model,
    inputs: Inputs,
    options: &CompareOptions,
) -> Result<Comparison> {
    let (mut values_a, mut values_b) = (Values::of(a)?, Values::of(b)?);
    let names = |values: &Values| values.outputs.iter().cloned().collect::<HashSet<String>>();
    let (names_a, names_b) = (names(&values_a), names(&values_b));
    values_a.separate_levels(&names_b);
    values_b.separate_levels(&names_a);
    let pairs = pair(&values_a, &values_b, options.outputs_only);
    let (inputs_a, inputs_b) = inputs_of(a, b, inputs)?;
    let fetch = |model: &Model, engine: Engine, inputs: Inputs, names: Vec<String>| {
        if names.is_empty() {
            return Ok(HashMap::new());
        }
        let progress = &options.progress;
        let options = options.run.clone().with_engine(engine).with_fetch(names);
        let outputs = Session::new(model, &options)?.run_with(inputs, progress)?;
        let each = outputs.into_iter().map(|output| (output.name.clone(), tensors(vec![output])));
        Ok::<HashMap<String, Vec<Parameter>>, Error>(each.collect())
    };
    let (engine_a, engine_b) = (options.run.engine, options.engine_b.unwrap_or(options.run.engine));
    let levels = |values: &Values, name: &str| values.levels.get(name).cloned().unwrap_or_default();
    let fetched = |values: &Values, paired: Vec<&str>| {
        let levels: Vec<String> = paired.iter().flat_map(|name| levels(values, name)).collect();
        paired.into_iter().map(str::to_owned).chain(levels).collect::<Vec<String>>()
    };
    let paired_a = fetched(&values_a, pairs.iter().map(|pair| pair.a).collect());
    let paired_b = fetched(&values_b, pairs.iter().map(|pair| pair.b).collect());
    let found_a = fetch(a, engine_a, inputs_a, paired_a)?;
    let found_b = fetch(b, engine_b, inputs_b, paired_b)?;
    let mut compared = Vec::with_capacity(pairs.len());
    for pair in &pairs {
        let (a, b) = (returned(&found_a, pair.a)?, returned(&found_b, pair.b)?);
        let mut value = compared_value(pair, a, b, options)?;
        let lod_a = lod_of(a, &levels(&values_a, pair.a), &found_a)?;
        let lod_b = lod_of(b, &levels(&values_b, pair.b), &found_b)?;
        compare_lod(&mut value, lod_a, lod_b, values_a.has_lod && values_b.has_lod);
        compared.push(value);
    }
    let paired_a: HashSet<&str> = pairs.iter().map(|pair| pair.a).collect();
    let paired_b: HashSet<&str> = pairs.iter().map(|pair| pair.b).collect();
    let unpaired = |values: &Values, paired: &HashSet<&str>, outputs_only: bool| {
        let all = if outputs_only { &values.outputs } else { &values.computed };
        let left = all.iter().filter(|name| !paired.contains(name.as_str()));
        left.cloned().collect::<Vec<_>>()
    };
    let unpaired_a = unpaired(&values_a, &paired_a, options.outputs_only);
    let unpaired_b = unpaired(&values_b, &paired_b, options.outputs_only);
    let mut unpaired_outputs = unpaired(&values_a, &paired_a, true);
    unpaired_outputs.extend(unpaired(&values_b, &paired_b, true));
    let outputs = compared.iter().filter(|value| value.is_output);
    let agree = outputs.clone().count() > 0 && outputs.clone().all(|value| value.agrees);
    let same = agree && unpaired_outputs.is_empty();
    Ok(Comparison { schema: 1, same, values: compared, unpaired_a, unpaired_b, unpaired_outputs })
}

/// Returns the tensors of a value that was fetched.
fn returned<'f>(
    found: &'f HashMap<String, Vec<Parameter>>,
    name: &str,
) -> Result<&'f Vec<Parameter>> {
    let lost = || Finding::internal(format!("the value `{name}` was not returned"));
    found.get(name).ok_or_else(lost).map_err(Error::Internal)
}

/// The values of the main graph of a model, each once, in the order in which they are computed.
struct Values {
    computed: Vec<String>,
    outputs: Vec<String>,
    /// The names of the computed values in the lowered program, for those that it has.
    lowered: HashMap<String, String>,
    /// The declared types of outputs that are tensors.
    types: HashMap<String, TensorType>,
    /// The outputs that hold the LoD of another output, outermost level first, by its name.
    levels: HashMap<String, Vec<String>>,
    /// Whether the program declares values with LoD.
    has_lod: bool,
}

impl Values {
    fn of(model: &Model) -> Result<Self> {
        let program = model.main();
        let program = program.ok_or_else(|| no_program(model))?;
        let interface = (conventions(program).interface)(program);
        let inputs: HashSet<&str> = interface.inputs.iter().copied().collect();
        let parameters: HashSet<&str> =
            model.parameters.iter().map(|it| it.name.as_str()).collect();
        let vars = program.blocks.iter().take(1).flat_map(|main| &main.vars);
        // Not values: lists of inputs and outputs, readers, scopes.
        let holders: HashSet<&str> = vars
            .filter(|var| matches!(var.value, ValueType::Holder(_)))
            .map(|var| var.name.as_str())
            .collect();
        let mut seen = HashSet::new();
        let written = program.blocks.iter().take(1).flat_map(|main| &main.ops);
        let written = written.flat_map(|op| op.writes());
        let mut computed: Vec<&str> = written
            .filter(|name| !name.is_empty() && !inputs.contains(name) && !parameters.contains(name))
            .filter(|name| !holders.contains(name) && seen.insert(*name))
            .collect();
        computed.extend(interface.outputs.iter().copied().filter(|name| seen.insert(*name)));
        // A program that cannot be lowered is paired by name; whether it runs shows when it is run.
        let (lowered, origins) = match lowered(model) {
            Ok((lowered, origins)) => (Some(lowered), origins),
            Err(_) => (None, None),
        };
        let added = lowered.iter().flat_map(|lowered| added_outputs(model, lowered));
        // A program with LoD returns it with its outputs.
        let is_level = |name: &String| interface.outputs.iter().any(|it| level(name, it).is_some());
        let added = added.filter(|name| !seen.contains(name.as_str()) && !is_level(name));
        let added: Vec<String> = added.collect();
        // A program that is rewritten for an export runs as it is, and computes all of its values.
        let runs_as_it_is = is_rewritten(program.dialect);
        let in_lowered = |name: &&str| match origins.as_ref().map(|it| it.of(0, name)) {
            None => Some(((*name).to_owned(), (*name).to_owned())),
            Some(Origin::Value(lowered)) => Some(((*name).to_owned(), lowered.to_string())),
            Some(_) if runs_as_it_is => Some(((*name).to_owned(), (*name).to_owned())),
            Some(_) => None,
        };
        let mut lowered: HashMap<String, String> = computed.iter().filter_map(in_lowered).collect();
        lowered.extend(added.iter().map(|name| (name.clone(), name.clone())));
        let owned = |names: Vec<&str>| {
            let names = names.into_iter().map(str::to_owned);
            names.chain(added.iter().cloned()).collect()
        };
        let vars = program.blocks.iter().take(1).flat_map(|main| &main.vars);
        let types =
            vars.filter_map(|var| Some((var.name.clone(), var.value.tensor_type()?.clone())));
        let types: HashMap<String, TensorType> = types.collect();
        let has_lod = types.values().any(|tensor| tensor.lod_level > 0);
        let (computed, outputs) = (owned(computed), owned(interface.outputs));
        Ok(Self { computed, outputs, lowered, types, levels: HashMap::new(), has_lod })
    }

    /// Separates the outputs with LoD from the others, unless the other model has outputs of their names.
    fn separate_levels(&mut self, others: &HashSet<String>) {
        for base in self.outputs.clone() {
            let names = self.outputs.iter().filter(|name| !others.contains(*name));
            let mut levels: Vec<(usize, String)> =
                names.filter_map(|name| Some((level(name, &base)?, name.clone()))).collect();
            levels.sort_unstable();
            let levels: Vec<String> = levels.into_iter().map(|(_, name)| name).collect();
            self.outputs.retain(|name| !levels.contains(name));
            self.computed.retain(|name| !levels.contains(name));
            if !levels.is_empty() {
                self.levels.insert(base, levels);
            }
        }
    }

    /// Whether two outputs may be the same value, by their declared types.
    fn fits(&self, name: &str, others: &Self, other: &str) -> bool {
        let (Some(a), Some(b)) = (self.types.get(name), others.types.get(other)) else {
            return true;
        };
        let is_known = |dtype| dtype != DType::Unspecified;
        let ranks = a.shape.as_ref().zip(b.shape.as_ref()).map(|(a, b)| a.len() == b.len());
        (a.dtype == b.dtype || !is_known(a.dtype) || !is_known(b.dtype)) && ranks.unwrap_or(true)
    }
}

/// Returns the number of the LoD level of the output `base` that a name stands for.
fn level(name: &str, base: &str) -> Option<usize> {
    name.strip_prefix(base)?.strip_prefix(".lod")?.parse().ok()
}

/// Returns the LoD of an output: its own, or that of the outputs that hold its levels.
fn lod_of(
    output: &[Parameter],
    levels: &[String],
    found: &HashMap<String, Vec<Parameter>>,
) -> Result<Lod> {
    let own = output.iter().map(|it| &it.tensor.lod).find(|lod| !lod.is_empty());
    if let Some(own) = own {
        return Ok(own.clone());
    }
    let offsets = |name: &String| {
        let why = || "expected the offsets of a LoD level".to_owned();
        let wrong = || Error::InvalidOutput { name: name.clone(), why: why() };
        let [Parameter { tensor, .. }] = found.get(name).map_or(&[][..], Vec::as_slice) else {
            return Err(wrong());
        };
        let offsets = tensor.to_vec::<i64>().map_err(|_| wrong())?;
        offsets.into_iter().map(|offset| u64::try_from(offset).map_err(|_| wrong())).collect()
    };
    levels.iter().map(offsets).collect::<Result<_>>().map(Lod)
}

/// Compares the LoD of two outputs, if both programs return it.
fn compare_lod(value: &mut ComparedValue, a: Lod, b: Lod, both_have: bool) {
    if value.mismatch.is_some() || (!both_have && (a.is_empty() || b.is_empty())) {
        return;
    }
    if a != b {
        value.agrees = false;
        value.mismatch = Some(format!("LoD {:?} and {:?}", a.0, b.0));
    }
}

struct Pair<'v> {
    a: &'v str,
    b: &'v str,
    paired_by: PairedBy,
    is_output: bool,
}

/// Pairs the values of two models, in the order of the first.
fn pair<'v>(a: &'v Values, b: &'v Values, outputs_only: bool) -> Vec<Pair<'v>> {
    let [outputs_a, outputs_b] =
        [a, b].map(|it| it.outputs.iter().map(String::as_str).collect::<HashSet<&'v str>>());
    let is_output = |name: &&String| outputs_a.contains(name.as_str());
    // Several values of a program may become one.
    let mut sources_b: HashMap<&str, Vec<&'v str>> = HashMap::new();
    for name in &b.computed {
        if let Some(lowered) = b.lowered.get(name) {
            sources_b.entry(lowered).or_default().push(name);
        }
    }
    let mut pairs: HashMap<&'v str, (&'v str, PairedBy)> = HashMap::new();
    let mut taken: HashSet<&str> = HashSet::new();
    // Outputs of one name belong together, also if one of them is a copy of another value.
    for name in &a.outputs {
        if let Some(other) = outputs_b.get(name.as_str()) {
            pairs.insert(name, (*other, PairedBy::Name));
            taken.insert(*other);
        }
    }
    for name in &a.outputs {
        let lowered = a.lowered.get(name).filter(|_| !pairs.contains_key(name.as_str()));
        let sources = lowered.and_then(|it| sources_b.get(it.as_str()));
        let mut sources = sources.into_iter().flatten().copied();
        if let Some(other) = sources.find(|it| outputs_b.contains(it) && !taken.contains(it)) {
            pairs.insert(name, (other, PairedBy::Origin));
            taken.insert(other);
        }
    }
    for name in &a.outputs {
        let mut left = b.outputs.iter().filter(|other| !taken.contains(other.as_str()));
        if !pairs.contains_key(name.as_str())
            && let Some(other) = left.find(|other| a.fits(name, b, other))
        {
            pairs.insert(name, (other, PairedBy::Position));
            taken.insert(other);
        }
    }
    let named = |name: &'v str| {
        let lowered = a.lowered.get(name)?;
        let sources = sources_b.get(lowered.as_str()).map_or(&[][..], Vec::as_slice);
        let same_name = b.lowered.get_key_value(name).map(|(name, _)| name.as_str());
        let by_origin = sources.iter().find(|other| **other == name).or(sources.first()).copied();
        let other = by_origin.or(same_name)?;
        Some((other, if other == name { PairedBy::Name } else { PairedBy::Origin }))
    };
    for name in a.computed.iter().filter(|name| !is_output(name)) {
        if let Some(other) = named(name) {
            pairs.insert(name, other);
        }
    }
    let pair = |name: &'v String| {
        let (other, paired_by) = *pairs.get(name.as_str())?;
        let is_output = outputs_a.contains(name.as_str()) && outputs_b.contains(other);
        (is_output || !outputs_only).then_some(Pair { a: name, b: other, paired_by, is_output })
    };
    a.computed.iter().filter_map(pair).collect()
}

/// Returns the inputs of both models, by the names in each.
fn inputs_of(a: &Model, b: &Model, inputs: Inputs) -> Result<(Inputs, Inputs)> {
    let ((all, required), (_, required_b)) = (super::inputs_of(a)?, super::inputs_of(b)?);
    let named = inputs.named(&all, &required)?;
    let mut names: HashMap<&str, &str> = HashMap::new();
    let has_all = required.iter().all(|name| required_b.contains(name));
    if !has_all {
        if required.len() != required_b.len() {
            let (a, b) = (required.len(), required_b.len());
            return Err(Error::UnpairedInputs { a, b });
        }
        names = required
            .iter()
            .map(String::as_str)
            .zip(required_b.iter().map(String::as_str))
            .collect();
    }
    let renamed = named.iter().map(|(name, value)| {
        let name = names.get(name.as_str()).copied().unwrap_or(name);
        (Some(name.to_owned()), value.clone())
    });
    let levels = named.iter().flat_map(|(name, value)| lod_inputs(name, value));
    let levels = levels.filter(|(name, _)| required_b.contains(name));
    let levels = levels.map(|(name, value)| (Some(name), value));
    let b = Inputs { values: renamed.chain(levels).collect(), lod: Vec::new() };
    let a = named.into_iter().map(|(name, value)| (Some(name), value)).collect();
    Ok((Inputs { values: a, lod: Vec::new() }, b))
}

/// Returns the offsets of the LoD levels of an input, under the names of the inputs that an exported program has for them.
fn lod_inputs(name: &str, value: &Value) -> Vec<(String, Value)> {
    let Value::Tensor(tensor) = value else { return Vec::new() };
    let level = |(level, offsets): (usize, &Vec<u64>)| {
        let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        let shape = vec![offsets.len() as u64];
        let offsets = Tensor::dense(DType::Int64, shape, Blob::memory(bytes));
        (format!("{name}.lod{level}"), Value::from(offsets))
    };
    tensor.lod.0.iter().enumerate().map(level).collect()
}

fn compared_value(
    pair: &Pair<'_>,
    a: &[Parameter],
    b: &[Parameter],
    options: &CompareOptions,
) -> Result<ComparedValue> {
    let mut value = ComparedValue {
        a: pair.a.to_owned(),
        b: pair.b.to_owned(),
        paired_by: pair.paired_by,
        is_output: pair.is_output,
        agrees: true,
        mismatch: None,
        errors: None,
    };
    if a.len() != b.len() {
        value.agrees = false;
        value.mismatch = Some(format!("{} and {} tensors", a.len(), b.len()));
    }
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (&a.tensor, &b.tensor);
        if value.mismatch.is_some() {
            break;
        }
        match differences(a, b, options)? {
            Ok(found) => {
                value.agrees &= found.outside == 0;
                let is_worse = value
                    .errors
                    .as_ref()
                    .is_none_or(|old| (found.outside, found.max_abs) > (old.outside, old.max_abs));
                if is_worse {
                    value.errors = Some(found);
                }
            }
            Err(mismatch) => (value.agrees, value.mismatch) = (false, Some(mismatch)),
        }
    }
    Ok(value)
}

/// Returns the differences between the elements of two tensors, or the reason why they cannot be compared.
fn differences(
    a: &Tensor,
    b: &Tensor,
    options: &CompareOptions,
) -> Result<Result<ErrorDistribution, String>> {
    if a.shape != b.shape {
        return Ok(Err(format!("shapes {:?} and {:?}", a.shape, b.shape)));
    }
    if let (Kind::Strings { elements: a }, Kind::Strings { elements: b }) = (&a.kind, &b.kind) {
        let elements = a.len() as u64;
        let outside = a.iter().zip(b).filter(|(a, b)| a != b).count() as u64;
        return Ok(Ok(ErrorDistribution { elements, outside, ..ErrorDistribution::default() }));
    }
    if !matches!((&a.kind, &b.kind), (Kind::Dense, Kind::Dense)) {
        return Ok(Err(format!("kinds {} and {}", a.kind.name(), b.kind.name())));
    }
    let (Some((data_a, of_a)), Some((data_b, of_b))) = (numbers(a), numbers(b)) else {
        let same = a.dtype == b.dtype && a.data.bytes()? == b.data.bytes()?;
        let (elements, outside) = (element_count(&a.shape), u64::from(!same));
        return Ok(Ok(ErrorDistribution { elements, outside, ..ErrorDistribution::default() }));
    };
    let (bytes_a, bytes_b) = (data_a.bytes()?, data_b.bytes()?);
    let (each_a, each_b) = (bytes_a.chunks_exact(of_a.size), bytes_b.chunks_exact(of_b.size));
    let mut found = ErrorDistribution::default();
    let mut errors = Vec::with_capacity(each_a.len());
    for (position, (a, b)) in each_a.zip(each_b).enumerate() {
        let (a, b) = ((of_a.number)(a), (of_b.number)(b));
        let error = match a == b || (a.is_nan() && b.is_nan()) {
            true => 0.0,
            false if a.is_finite() && b.is_finite() => (a - b).abs(),
            false => f64::INFINITY,
        };
        found.outside +=
            u64::from(error > options.atol + options.rtol * b.abs() || error.is_infinite());
        if error > found.max_abs || (found.worst.is_none() && error > 0.0) {
            (found.max_abs, found.worst) = (error, Some((position as u64, a, b)));
        }
        if b != 0.0 && error > 0.0 {
            found.max_rel = found.max_rel.max(error / b.abs());
        }
        errors.push(error);
    }
    found.elements = errors.len() as u64;
    errors.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "a mean rounds")]
    let count = errors.len().max(1) as f64;
    found.mean_abs = errors.iter().sum::<f64>() / count;
    let quantile = |percent: usize| {
        let position = (errors.len().saturating_sub(1) * percent).div_ceil(100);
        errors.get(position).copied().unwrap_or(0.0)
    };
    found.quantiles = [50, 90, 99].map(quantile);
    Ok(Ok(found))
}
