//! Operators between dequantization and quantization, which become operators on 8-bit integers.
//!
//! | from, after `DequantizeLinear` and before `QuantizeLinear` | to |
//! |---|---|
//! | `Conv` | `QLinearConv` |
//! | `MatMul` | `QLinearMatMul` |
//! | `Gemm` | `QGemm` |
//! | `Add`, `Mul` | `QLinearAdd`, `QLinearMul` |
//!
//! `Relu` before the quantization is left out if the least code stands for 0. The sums are exact then, instead of sums of
//! rounded products: given the same codes, a code may differ by one where the result is near the middle between two.

use std::collections::HashMap;

use lodstone_model::{AttributeValue, DType, Op, Operand, Parameter, Tensor, Topology};
use lodstone_schema::numbers::{Axis, Rank};
use lodstone_schema::onnx::simplify::remove_unread;
use lodstone_schema::places::at_mut;

use crate::call::Call;
use crate::error::Outcome;
use crate::fast::{MAX_INNER, needs_general_kernel};
use crate::tensor::Dense;

/// The domain of operators that ONNX lacks.
const OTHER: &str = "com.microsoft";

/// The greatest relative difference of the scale of a bias from the product of the other two scales, which is rounded once.
const NEAR: f64 = 1.0 / (1 << 22) as f64;

/// Replaces the operators of a program without subgraphs.
pub(crate) fn rewrite(program: &mut Topology) -> Outcome<()> {
    let [block] = program.blocks.as_slice() else { return Ok(()) };
    if !block.ops.iter().any(|op| is(op, "QuantizeLinear")) {
        return Ok(());
    }
    let mut made = HashMap::new();
    let graph = Graph::of(&block.ops, &block.initializers);
    for (number, op) in block.ops.iter().enumerate().filter(|(_, op)| is(op, "QuantizeLinear")) {
        if let Some(new) = graph.quantized(op)? {
            made.insert(number, new);
        }
    }
    if made.is_empty() {
        return Ok(());
    }
    let Some(block) = program.blocks.first_mut() else { return Ok(()) };
    for (number, op) in made {
        *at_mut(&mut block.ops, number)? = op;
    }
    // Nothing reads the dequantized weights any more, which would be folded.
    remove_unread(program);
    if !program.operator_versions.iter().any(|(domain, _)| domain == OTHER) {
        program.operator_versions.push((OTHER.to_owned(), 1));
    }
    Ok(())
}

fn is(op: &Op, kind: &str) -> bool {
    matches!(op.domain.as_str(), "" | "ai.onnx") && op.kind == kind
}

/// Returns the positional inputs of an operator, less omitted ones at the end.
fn inputs(op: &Op) -> &[String] {
    let mut args = op.input("");
    while let [front @ .., last] = args
        && last.is_empty()
    {
        args = front;
    }
    args
}

/// The values of a graph.
struct Graph<'a> {
    ops: &'a [Op],
    /// The operator that computes each value.
    owners: HashMap<&'a str, usize>,
    /// How often each value is read. That it is an output, too, changes nothing: bits do not depend on that.
    reads: HashMap<&'a str, usize>,
    constants: HashMap<&'a str, &'a Tensor>,
}

/// Quantized constants with one scale, or with one for each column of a product.
struct Weights<'a> {
    of: Quantized<'a>,
    columns: u64,
}

/// A quantized value: its codes, their scale and their zero point.
struct Quantized<'a> {
    names: [&'a str; 3],
    scales: Vec<f64>,
    zeros: Vec<f64>,
    dtype: DType,
    axis: i64,
}

impl Quantized<'_> {
    fn is_plain(&self) -> bool {
        self.scales.len() == 1 && self.zeros.len() == 1
    }
}

impl<'a> Graph<'a> {
    fn of(ops: &'a [Op], constants: &'a [Parameter]) -> Self {
        let mut owners = HashMap::new();
        let mut reads: HashMap<&str, usize> = HashMap::new();
        for (number, op) in ops.iter().enumerate() {
            owners.extend(op.writes().map(|name| (name, number)));
            op.reads().for_each(|name| *reads.entry(name).or_default() += 1);
        }
        let constants = constants.iter().map(|it| (it.name.as_str(), &it.tensor));
        let mut constants: HashMap<&str, &Tensor> = constants.collect();
        for op in ops.iter().filter(|op| is(op, "Constant")) {
            if let (Some(AttributeValue::Tensor(tensor)), [name]) =
                (op.attribute("value"), op.output(""))
            {
                constants.insert(name, tensor);
            }
        }
        Self { ops, owners, reads, constants }
    }

    /// Returns the elements of a constant scalar or list, or `None` if it is none.
    fn numbers(&self, name: &str, dtypes: &[DType]) -> Outcome<Option<(Vec<f64>, DType)>> {
        let fits = |tensor: &&&Tensor| {
            tensor.shape.len() < 2 && tensor.shape != [0] && dtypes.contains(&tensor.dtype)
        };
        let Some(tensor) = self.constants.get(name).filter(fits) else { return Ok(None) };
        let Ok(dense) = Dense::of(tensor) else { return Ok(None) };
        Ok(Some((dense.to_f64()?, tensor.dtype)))
    }

    /// Returns the codes that an operator reads or writes, with the given name, by its other two inputs.
    fn codes(&self, op: &'a Op, codes: &'a str) -> Outcome<Option<Quantized<'a>>> {
        let [_, scale, zero] = inputs(op) else { return Ok(None) };
        if needs_general_kernel(op)? {
            return Ok(None);
        }
        let axis = Call::new(op, &[])?.int("axis", 1);
        let scales = self.numbers(scale, &[DType::Float32])?;
        let zeros = self.numbers(zero, &[DType::Int8, DType::Uint8])?;
        Ok(scales.zip(zeros).map(|((scales, _), (zeros, dtype))| Quantized {
            names: [codes, scale, zero],
            scales,
            zeros,
            dtype,
            axis,
        }))
    }

    /// Returns the codes that a value stands for, or `None` if it is not dequantized.
    fn dequantized(&self, name: &str) -> Outcome<Option<Quantized<'a>>> {
        let owner = self.owners.get(name).and_then(|number| self.ops.get(*number));
        match owner.map(|op| (op, inputs(op))) {
            Some((op, [codes, ..])) if is(op, "DequantizeLinear") => self.codes(op, codes),
            _ => Ok(None),
        }
    }

    /// Returns the weights that a value stands for: constants with one scale, or with one for each index of an axis.
    fn weights(&self, name: &str, axis: i64, rank: usize) -> Outcome<Option<Weights<'a>>> {
        let Some(weights) = self.dequantized(name)? else { return Ok(None) };
        let [codes, ..] = weights.names;
        let tensor = self.constants.get(codes).filter(|it| it.dtype == weights.dtype);
        let Some(shape) = tensor.map(|tensor| &tensor.shape).filter(|it| it.len() == rank) else {
            return Ok(None);
        };
        let found = Rank::new(rank).axis(weights.axis).ok().map(Axis::number);
        let dim = usize::try_from(axis).ok().and_then(|axis| shape.get(axis)).copied();
        let Some(columns) = dim else { return Ok(None) };
        let fits =
            |list: &[f64]| list.len() == 1 || found == Some(axis) && list.len() as u64 == columns;
        // Others have no fast kernel.
        let inner = shape.iter().product::<u64>().checked_div(columns);
        let is_fast = inner.is_some_and(|inner| inner <= MAX_INNER as u64);
        let fits = is_fast && fits(&weights.scales) && fits(&weights.zeros);
        Ok(fits.then_some(Weights { of: weights, columns }))
    }

    /// Returns the name of the codes of a bias of weights, `None` if a value is something else: one code of 32 bits for each
    /// column, whose scale is the product of that of the other operand, `left`, and that of the weights.
    fn bias(&self, name: &str, left: f64, weights: &Weights<'_>) -> Outcome<Option<&'a str>> {
        let owner = self.owners.get(name).and_then(|number| self.ops.get(*number));
        let owner = owner.filter(|op| is(op, "DequantizeLinear"));
        let Some([codes, scale, zero @ ..]) = owner.map(inputs) else { return Ok(None) };
        let right = &weights.of.scales;
        let (numbers, scales) =
            (self.numbers(codes, &[DType::Int32])?, self.numbers(scale, &[DType::Float32])?);
        let zeros = match zero {
            [] => Some((vec![0.0], DType::Int32)),
            [zero] => self.numbers(zero, &[DType::Int32])?,
            _ => None,
        };
        let (Some((numbers, _)), Some((scales, _)), Some((zeros, _))) = (numbers, scales, zeros)
        else {
            return Ok(None);
        };
        let count = numbers.len();
        let mut pairs = scales.iter().cycle().take(count).zip(right.iter().cycle());
        let fits = count as u64 == weights.columns
            && zeros.iter().all(|zero| *zero == 0.0)
            && [1, count].contains(&scales.len())
            && pairs.all(|(scale, right)| {
                let expected = left * right;
                (scale - expected).abs() <= NEAR * expected.abs()
            });
        Ok(fits.then_some(codes))
    }

    /// Returns the number of the operator that computes a value that nothing else reads.
    fn alone(&self, name: &str) -> Option<usize> {
        self.owners.get(name).copied().filter(|_| self.reads.get(name) == Some(&1))
    }

    /// Returns an operator on 8-bit integers in place of a quantization and what it quantizes.
    fn quantized(&self, quantize: &'a Op) -> Outcome<Option<Op>> {
        let [x, ..] = inputs(quantize) else { return Ok(None) };
        let Some(own) = self.codes(quantize, "")?.filter(Quantized::is_plain) else {
            return Ok(None);
        };
        let Some(mut number) = self.alone(x) else { return Ok(None) };
        if let Some(relu) = self.ops.get(number).filter(|op| is(op, "Relu")) {
            let least = if own.dtype == DType::Int8 { -128.0 } else { 0.0 };
            let [x] = inputs(relu) else { return Ok(None) };
            let is_least = own.zeros == [least] && own.scales.iter().all(|scale| *scale > 0.0);
            let Some(before) = self.alone(x).filter(|_| is_least) else { return Ok(None) };
            number = before;
        }
        let Some(op) = self.ops.get(number) else { return Ok(None) };
        let Some((domain, kind, args)) = self.arguments(op, &own)? else { return Ok(None) };
        let (slot, args) = (String::new(), args.into_iter().map(str::to_owned).collect());
        Ok(Some(Op {
            domain: domain.to_owned(),
            name: quantize.name.clone(),
            kind: kind.to_owned(),
            inputs: vec![Operand { slot, args }],
            outputs: quantize.outputs.clone(),
            attributes: op.attributes.clone(),
            ..Op::default()
        }))
    }

    /// Returns the domain, the kind and the inputs of the operator on 8-bit integers that does what another does.
    fn arguments(
        &self,
        op: &'a Op,
        own: &Quantized<'a>,
    ) -> Outcome<Option<(&'static str, &'static str, Vec<&'a str>)>> {
        let [first, second, bias @ ..] = inputs(op) else { return Ok(None) };
        let call = Call::new(op, &[])?;
        let Some(left) = self.dequantized(first)?.filter(Quantized::is_plain) else {
            return Ok(None);
        };
        let [_, scale, zero] = own.names;
        if is(op, "Add") || is(op, "Mul") {
            let Some(right) = self.dequantized(second)?.filter(Quantized::is_plain) else {
                return Ok(None);
            };
            let kind = if op.kind == "Add" { "QLinearAdd" } else { "QLinearMul" };
            let has_one_type = left.dtype == right.dtype && left.dtype == own.dtype;
            let args = [&left.names[..], &right.names, &[scale, zero]].concat();
            return Ok(has_one_type.then_some((OTHER, kind, args)));
        }
        let is_turned = call.int("transB", 0) != 0;
        let right = if is(op, "Conv") {
            // Of images and lines: others have no kernel for 8 bits.
            match self.weights(second, 0, 4)? {
                Some(right) => Some(right),
                None => self.weights(second, 0, 3)?,
            }
        } else if is(op, "Gemm") {
            let is_usual = call.int("transA", 0) == 0
                && call.float("alpha", 1.0) == 1.0
                && call.float("beta", 1.0) == 1.0
                && left.dtype == own.dtype;
            let axis = if is_turned { 0 } else { 1 };
            if is_usual { self.weights(second, axis, 2)? } else { None }
        } else if is(op, "MatMul") {
            self.weights(second, 1, 2)?
        } else {
            None
        };
        let (Some(right), [left_scale]) = (right, left.scales.as_slice()) else { return Ok(None) };
        let bias = match bias {
            [] => None,
            [bias] => match self.bias(bias, *left_scale, &right)? {
                Some(bias) => Some(bias),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let mut args = [&left.names[..], &right.of.names].concat();
        Ok(Some(match op.kind.as_str() {
            "Gemm" => {
                args.extend([bias.unwrap_or_default(), scale, zero]);
                (OTHER, "QGemm", args)
            }
            "Conv" => {
                args.extend([scale, zero].into_iter().chain(bias));
                ("", "QLinearConv", args)
            }
            _ => {
                args.extend([scale, zero]);
                ("", "QLinearMatMul", args)
            }
        }))
    }
}
