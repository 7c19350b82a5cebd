//! Known facts about the values of a program: element types, ranks, small constants.
//!
//! Types are declared, or follow from the inputs of operators; ranks and dims are declared.

use std::collections::{HashMap, HashSet};

use lodstone_model::{AttributeValue, DType, Dim, Kind, Op, Parameter, Program, Tensor, ValueType};

use super::super::bound::Bound;
use super::super::dtype::element_name;
use super::super::{operator, tensor_name, type_name};
use crate::Finding;
use crate::places::at_mut;

/// Known facts about values, by block.
#[derive(Debug)]
pub(super) struct Known {
    blocks: Vec<HashMap<String, Fact>>,
    parents: Vec<i32>,
    /// The names that an operator reads or a graph returns.
    read: HashSet<String>,
}

#[derive(Clone, Debug, Default)]
struct Fact {
    /// The ONNX name of the type.
    kind: Option<String>,
    shape: Option<Vec<Dim>>,
    constant: Option<Tensor>,
}

impl Known {
    pub(super) fn new(
        program: &Program,
        parameters: &[Parameter],
        inferred: &[HashMap<String, ValueType>],
    ) -> Self {
        let reads = program.ops().flat_map(Op::reads).map(str::to_owned);
        let outputs = program.blocks.iter().flat_map(|block| &block.outputs).cloned();
        let read = reads.chain(outputs).collect();
        let mut blocks = Vec::new();
        for (number, block) in program.blocks.iter().enumerate() {
            let mut facts = HashMap::new();
            for var in &block.vars {
                facts.insert(var.name.clone(), declared(&var.value));
            }
            for (name, value) in inferred.get(number).into_iter().flatten() {
                merge(facts.entry(name.clone()).or_default(), declared(value));
            }
            let initializers = if number == 0 { parameters } else { &block.initializers };
            for Parameter { name, tensor } in initializers {
                facts.insert(name.clone(), constant(tensor));
            }
            blocks.push(facts);
        }
        let parents = program.blocks.iter().map(|block| block.parent).collect();
        Self { blocks, parents, read }
    }

    /// Returns whether an operator reads the value, or a graph returns it.
    pub(super) fn is_read(&self, name: &str) -> bool {
        self.read.contains(name)
    }

    /// Records the outputs of an operator of a block.
    ///
    /// # Errors
    /// An internal error if the program has no such block.
    pub(super) fn follow(&mut self, block: usize, op: &Op, version: i64) -> Result<(), Finding> {
        let outputs: Vec<String> = op.writes().map(str::to_owned).collect();
        if let (Some(AttributeValue::Tensor(value)), [name]) =
            (op.attribute("value").filter(|_| op.kind == "Constant"), outputs.as_slice())
        {
            return self.learn(block, name, constant(value));
        }
        let Some(known) = operator(&op.domain, &op.kind, version) else { return Ok(()) };
        let mut bound = Bound::default();
        let inputs = op.inputs.iter().flat_map(|operand| &operand.args);
        for (number, name) in inputs.enumerate() {
            let kind = self.fact(block, name).and_then(|fact| fact.kind.clone());
            if let (Some(formal), Some(kind)) = (known.input(number), kind) {
                bound.take(known, formal, &kind);
            }
        }
        let outputs = op.outputs.iter().flat_map(|operand| &operand.args);
        let kind = |number| bound.of(known, known.output(number)?);
        let outputs: Vec<_> =
            outputs.enumerate().filter_map(|(number, name)| Some((name, kind(number)?))).collect();
        for (name, kind) in outputs {
            let kind = Some(kind.into_owned());
            self.learn(block, name, Fact { kind, ..Fact::default() })?;
        }
        Ok(())
    }

    fn learn(&mut self, block: usize, name: &str, fact: Fact) -> Result<(), Finding> {
        let facts = at_mut(&mut self.blocks, block)?;
        merge(facts.entry(name.to_owned()).or_default(), fact);
        Ok(())
    }

    /// Returns the facts about a name that a block sees.
    fn fact(&self, block: usize, name: &str) -> Option<&Fact> {
        let mut block = block;
        // The depth of a block is at most the number of blocks.
        for _ in 0..=self.blocks.len() {
            if let Some(fact) = self.blocks.get(block)?.get(name) {
                return Some(fact);
            }
            block = usize::try_from(*self.parents.get(block)?).ok()?;
        }
        None
    }

    /// Returns the element type of a tensor.
    pub(super) fn dtype(&self, block: usize, name: &str) -> Option<DType> {
        let kind = self.fact(block, name)?.kind.as_ref()?;
        ELEMENTS.into_iter().find(|dtype| tensor_name(*dtype).as_ref() == Some(kind))
    }

    /// Returns the dims of a tensor.
    pub(super) fn shape(&self, block: usize, name: &str) -> Option<&[Dim]> {
        self.fact(block, name)?.shape.as_deref()
    }

    /// Returns the elements of a small constant.
    pub(super) fn numbers(&self, block: usize, name: &str) -> Option<Vec<f64>> {
        /// More than any tensor has dims.
        const MAX: u64 = 1024;
        let tensor = self.fact(block, name)?.constant.as_ref()?;
        let is_plain = matches!(tensor.kind, Kind::Dense) && tensor.data.len() <= MAX;
        let bytes = tensor.data.read().ok().filter(|_| is_plain)?;
        match tensor.dtype {
            DType::Float32 => {
                Some(bytes.as_chunks().0.iter().map(|n| f32::from_le_bytes(*n).into()).collect())
            }
            DType::Int64 => {
                let numbers = bytes.as_chunks().0.iter().map(|n| i64::from_le_bytes(*n));
                numbers.map(|number| i32::try_from(number).ok().map(f64::from)).collect()
            }
            _ => None,
        }
    }
}

/// The element types that matter to adapters.
const ELEMENTS: [DType; 16] = [
    DType::Float32,
    DType::Float64,
    DType::Float16,
    DType::BFloat16,
    DType::Int8,
    DType::Int16,
    DType::Int32,
    DType::Int64,
    DType::Uint8,
    DType::Uint16,
    DType::Uint32,
    DType::Uint64,
    DType::Bool,
    DType::String,
    DType::Complex64,
    DType::Complex128,
];

fn declared(value: &ValueType) -> Fact {
    let shape = match value {
        ValueType::Tensor(tensor) => tensor.shape.clone(),
        _ => None,
    };
    Fact { kind: type_name(value), shape, constant: None }
}

/// Adds facts that are not known yet.
fn merge(known: &mut Fact, fact: Fact) {
    known.kind = known.kind.take().or(fact.kind);
    known.shape = known.shape.take().or(fact.shape);
    known.constant = known.constant.take().or(fact.constant);
}

fn constant(tensor: &Tensor) -> Fact {
    let kind = element_name(tensor.dtype).and_then(|_| tensor_name(tensor.dtype));
    let shape = tensor.shape.iter().map(|dim| Dim::Known(*dim)).collect();
    Fact { kind, shape: Some(shape), constant: Some(tensor.clone()) }
}
