//! Casts of programs: all floating-point values get another type.
//!
//! Operators that do not take the type keep theirs, with `Cast` operators around them. Constants that only such operators
//! read are unchanged; of those that others read too, there are two.

use std::collections::{BTreeMap, HashMap};

use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Model, Op, Operand, Parameter, Program,
    Residual, Tensor, ValueType,
};
use lodstone_store::Blob;

use super::infer::{Inference, NoBodies, ValueInfo, infer_op};
use super::names::Names;
use super::types::{tensor_name, type_name};
use super::{domain_name, dtype, operator};
use crate::Finding;
use crate::places::at_mut;

/// How a program is cast.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CastOptions {
    /// The element type of floating-point values.
    pub to: DType,
    /// Whether inputs and outputs of the program keep their types.
    pub keep_io: bool,
}

impl CastOptions {
    /// Casts to an element type; inputs and outputs too.
    pub fn new(to: DType) -> Self {
        Self { to, keep_io: false }
    }

    /// Sets [`keep_io`](Self::keep_io).
    #[must_use]
    pub fn with_keep_io(mut self, keep_io: bool) -> Self {
        self.keep_io = keep_io;
        self
    }
}

/// The number of operators of each kind that keep their types.
pub type Kept = BTreeMap<String, usize>;

/// Changes the elements of a constant to another type.
pub type Change<'c> = dyn FnMut(&str, &mut Tensor) -> Result<(), Finding> + 'c;

/// Attributes with the element type of an output.
const TYPE_ATTRIBUTES: [&str; 4] = ["to", "dtype", "output_dtype", "output_datatype"];

/// Operators whose results depend on the bits of their type.
const BITS: [&str; 1] = ["BitCast"];

/// Returns whether values of a type are cast.
fn is_cast(dtype: DType, to: DType) -> bool {
    use DType as D;
    dtype != to && matches!(dtype, D::Float16 | D::BFloat16 | D::Float32 | D::Float64)
}

/// Casts the main program of a model, which has no functions, and its parameters. `inference` has the values of the program.
/// `change` casts a constant, whose name it gets.
///
/// # Errors
/// If the program is not ONNX, or has functions, or `change` fails. The model is then partly changed.
pub fn cast(
    model: &mut Model,
    inference: &Inference,
    options: CastOptions,
    change: &mut Change<'_>,
) -> Result<Kept, Finding> {
    let program = model.main().filter(|program| program.dialect == Dialect::Onnx);
    let program = program.ok_or_else(|| Finding::from("expected an ONNX program"))?;
    if !program.functions.is_empty() {
        return Err("expected a program whose functions are inlined".into());
    }
    let mut program = program.clone();
    let parameters = std::mem::take(&mut model.parameters);
    if let Some(main) = program.blocks.first_mut() {
        main.initializers = parameters;
    }
    let mut caster = Caster::new(&program, inference, options.to);
    let count = program.blocks.len();
    for number in 0..count {
        let block = at_mut(&mut program.blocks, number)?;
        caster.block(number, block, change)?;
    }
    let Caster { copies, kept, mut names, .. } = caster;
    if let Some(main) = program.blocks.first_mut() {
        main.initializers.extend(copies);
    }
    if options.keep_io {
        keep_io(&mut program, inference, options.to, &mut names)?;
    }
    program.version = program.version.map(|version| version.max(dtype::ir_version(options.to)));
    if let Some(main) = program.blocks.first_mut() {
        model.parameters = std::mem::take(&mut main.initializers);
    }
    model.set_main(program);
    Ok(kept)
}

/// What defines a value.
#[derive(Clone, Debug)]
enum Definition {
    /// A constant, and who reads it: operators that take the new type, and operators that do not.
    Constant {
        tensor: Box<Tensor>,
        is_cast: bool,
        is_kept: bool,
    },
    Other,
}

struct Caster<'i> {
    to: DType,
    inference: &'i Inference,
    versions: HashMap<String, i64>,
    /// Whether sequences may have elements of the new type; if not, they keep theirs.
    has_sequences: bool,
    parents: Vec<i32>,
    definitions: HashMap<(usize, String), Definition>,
    names: Names,
    /// Constants that keep their types beside the cast ones.
    copies: Vec<Parameter>,
    /// The names of values with their old types, by the block that reads them.
    old: HashMap<(usize, String), String>,
    kept: Kept,
}

impl<'i> Caster<'i> {
    fn new(program: &Program, inference: &'i Inference, to: DType) -> Self {
        let versions = program.operator_versions.iter();
        let mut caster = Self {
            to,
            inference,
            versions: versions
                .map(|(domain, version)| (domain_name(domain).to_owned(), *version))
                .collect(),
            has_sequences: true,
            parents: program.blocks.iter().map(|block| block.parent).collect(),
            definitions: HashMap::new(),
            names: Names::of(program, &[]),
            copies: Vec::new(),
            old: HashMap::new(),
            kept: Kept::new(),
        };
        let version = caster.version("");
        let sequences = operator("", "SequenceAt", version).and_then(|it| it.types_of("S"));
        let name = tensor_name(to).map(|name| format!("seq({name})")).unwrap_or_default();
        caster.has_sequences = sequences.is_none_or(|types| types.contains(&name.as_str()));
        for (number, block) in program.blocks.iter().enumerate() {
            caster.define(number, block);
        }
        for (number, block) in program.blocks.iter().enumerate() {
            caster.read(number, block);
        }
        caster
    }

    /// Records the values that a block defines.
    fn define(&mut self, number: usize, block: &Block) {
        let others = block.inputs.iter().map(String::as_str);
        let others = others.chain(block.ops.iter().flat_map(Op::writes));
        for name in others {
            self.definitions.insert((number, name.to_owned()), Definition::Other);
        }
        let constants = block.ops.iter().filter_map(constant);
        let initializers = block.initializers.iter();
        let initializers = initializers.map(|it| (it.name.clone(), it.tensor.clone()));
        for (name, tensor) in initializers.chain(constants) {
            let tensor = Box::new(tensor);
            let constant = Definition::Constant { tensor, is_cast: false, is_kept: false };
            self.definitions.insert((number, name), constant);
        }
    }

    /// Records who reads constants.
    fn read(&mut self, number: usize, block: &Block) {
        for op in &block.ops {
            for (place, name) in op.input("").iter().enumerate() {
                let Some(value) = self.type_of(number, name) else { continue };
                let keeps = self.keeps(op, place, value);
                self.mark(number, name, keeps);
            }
        }
        block.outputs.iter().for_each(|name| self.mark(number, name, false));
    }

    fn mark(&mut self, number: usize, name: &str, keeps: bool) {
        let Some(key) = self.defined(number, name) else { return };
        if let Some(Definition::Constant { is_cast, is_kept, .. }) = self.definitions.get_mut(&key)
        {
            *is_kept |= keeps;
            *is_cast |= !keeps;
        }
    }

    /// Returns the blocks from one to the outermost.
    fn outwards(&self, number: usize) -> impl Iterator<Item = usize> + '_ {
        let parent = |number: &usize| {
            let parent = self.parents.get(*number).and_then(|it| usize::try_from(*it).ok());
            parent.filter(|parent| parent < number)
        };
        std::iter::successors(Some(number), parent)
    }

    /// Returns the key of the definition of a name that a block reads.
    fn defined(&self, number: usize, name: &str) -> Option<(usize, String)> {
        let mut keys = self.outwards(number).map(|block| (block, name.to_owned()));
        keys.find(|key| self.definitions.contains_key(key))
    }

    /// Returns the original type of a name that a block reads, if a tensor in it is cast.
    fn type_of(&self, number: usize, name: &str) -> Option<&'i ValueType> {
        let inference = self.inference;
        let mut found =
            self.outwards(number).filter_map(|block| inference.blocks.get(block)?.get(name));
        let value = &found.next()?.value;
        if !self.is_in_reach(value) {
            return None;
        }
        value.tensor_type().is_some_and(|it| is_cast(it.dtype, self.to)).then_some(value)
    }

    /// Returns whether values of this kind are cast.
    fn is_in_reach(&self, value: &ValueType) -> bool {
        self.has_sequences || matches!(value, ValueType::Tensor(_) | ValueType::Sparse(_))
    }

    fn version(&self, domain: &str) -> i64 {
        // The version of a domain that is not declared is 1.
        self.versions.get(domain_name(domain)).copied().unwrap_or(1)
    }

    /// Returns the type of a value after it is cast.
    fn cast_type(&self, value: &ValueType) -> ValueType {
        let mut value = value.clone();
        if !self.is_in_reach(&value) {
            return value;
        }
        for tensor in value.tensors_mut() {
            if is_cast(tensor.dtype, self.to) {
                tensor.dtype = self.to;
            }
        }
        value
    }

    /// Returns whether an operator cannot take the cast value as an input.
    fn keeps(&self, op: &Op, place: usize, value: &ValueType) -> bool {
        let known = operator(&op.domain, &op.kind, self.version(&op.domain));
        let Some(known) = known.filter(|_| !BITS.contains(&op.kind.as_str())) else { return true };
        let name = type_name(&self.cast_type(value));
        let formal = known.input(place).map(|formal| formal.types);
        let allowed = formal.map(|types| known.types_of(types).map_or(vec![types], <[_]>::to_vec));
        !allowed.is_some_and(|allowed| name.is_some_and(|name| allowed.contains(&name.as_str())))
    }

    /// Returns whether an operator may have an output of the new type.
    fn makes(&self, op: &Op, place: usize, value: &ValueType) -> bool {
        let known = operator(&op.domain, &op.kind, self.version(&op.domain));
        let Some(known) = known.filter(|_| !BITS.contains(&op.kind.as_str())) else { return false };
        let name = type_name(&self.cast_type(value));
        let Some(types) = known.output(place).map(|formal| formal.types) else { return false };
        let allowed = known.types_of(types).map_or(vec![types], <[_]>::to_vec);
        name.is_some_and(|name| allowed.contains(&name.as_str()))
    }

    fn block(
        &mut self,
        number: usize,
        block: &mut Block,
        change: &mut Change<'_>,
    ) -> Result<(), Finding> {
        for Parameter { name, tensor } in &mut block.initializers {
            if self.is_cast_constant(number, name) && is_cast(tensor.dtype, self.to) {
                change(name, tensor)?;
            }
        }
        for var in &mut block.vars {
            let is_kept = matches!(
                self.definitions.get(&(number, var.name.clone())),
                Some(Definition::Constant { is_cast: false, is_kept: true, .. })
            );
            if !is_kept {
                var.value = self.cast_type(&var.value);
            }
        }
        for op in std::mem::take(&mut block.ops) {
            self.op(number, op, &mut block.ops, change)?;
        }
        Ok(())
    }

    fn is_cast_constant(&self, number: usize, name: &str) -> bool {
        let found = self.definitions.get(&(number, name.to_owned()));
        !matches!(found, Some(Definition::Constant { is_cast: false, is_kept: true, .. }))
    }

    /// Adds an operator to the operators of its block, with the casts that it needs.
    fn op(
        &mut self,
        number: usize,
        mut op: Op,
        ops: &mut Vec<Op>,
        change: &mut Change<'_>,
    ) -> Result<(), Finding> {
        let mut is_kept = false;
        let mut types = Vec::new();
        let mut inputs = op.input("").to_vec();
        for (place, name) in inputs.iter_mut().enumerate() {
            let Some(value) = self.type_of(number, name) else {
                types.push(self.unchanged(number, name));
                continue;
            };
            if self.keeps(&op, place, value) {
                types.push(Some(ValueInfo::from(value.clone())));
                *name = self.old_value(number, name, value, ops)?;
                is_kept = true;
            } else {
                types.push(Some(ValueInfo::from(self.cast_type(value))));
            }
        }
        if let Some(operand) = op.inputs.first_mut() {
            operand.args = inputs;
        }
        self.attributes(number, &mut op, change)?;
        let made = self.made(&op, &types);
        let mut casts = Vec::new();
        let outputs = op.outputs.first_mut().map(|operand| &mut operand.args);
        for (place, name) in outputs.into_iter().flatten().enumerate() {
            // A constant that only operators with the old type read keeps it.
            if self.type_of(number, name).is_none() || !self.is_cast_constant(number, name) {
                continue;
            }
            let found = made.get(place).copied().flatten();
            if found.is_some_and(|found| is_cast(found, self.to)) {
                let old = self.names.fresh(name);
                casts.push(cast_op(&old, name, self.to)?);
                *name = old;
                is_kept = true;
            }
        }
        if is_kept {
            *self.kept.entry(op.kind.clone()).or_default() += 1;
        }
        ops.push(op);
        ops.extend(casts);
        Ok(())
    }

    fn unchanged(&self, number: usize, name: &str) -> Option<ValueInfo> {
        let mut blocks = self.outwards(number);
        blocks.find_map(|block| self.inference.blocks.get(block)?.get(name).cloned())
    }

    /// Returns the element types of the outputs that an operator has now, as far as they are known.
    fn made(&self, op: &Op, types: &[Option<ValueInfo>]) -> Vec<Option<DType>> {
        let of = |info: &ValueInfo| info.value.tensor_type().map(|tensor| tensor.dtype);
        if op.blocks().next().is_some() {
            return Vec::new();
        }
        let types: Vec<_> = types.iter().map(Option::as_ref).collect();
        let made = infer_op(op, self.version(&op.domain), &types, &mut NoBodies);
        let made = made.unwrap_or_default();
        let kept = types.iter().flatten().find_map(|info| of(info));
        let known = operator(&op.domain, &op.kind, self.version(&op.domain)).is_some();
        let guess = |place: usize| match made.get(place).and_then(of) {
            Some(found) => Some(found),
            // An operator without rules returns what it takes.
            None if !known => kept,
            None => None,
        };
        (0..op.output("").len()).map(guess).collect()
    }

    /// Changes the attributes that determine the types of outputs.
    fn attributes(
        &mut self,
        number: usize,
        op: &mut Op,
        change: &mut Change<'_>,
    ) -> Result<(), Finding> {
        let Some(name) = op.writes().next().map(str::to_owned) else { return Ok(()) };
        let Some(value) = self.type_of(number, &name) else { return Ok(()) };
        if !self.makes(op, 0, value) || !self.is_cast_constant(number, &name) {
            return Ok(());
        }
        let code = |dtype| dtype::code(dtype).map(i64::from);
        let is_constant = matches!(op.kind.as_str(), "Constant" | "ConstantOfShape");
        for attribute in &mut op.attributes {
            let is_type = TYPE_ATTRIBUTES.contains(&attribute.name.as_str());
            match &mut attribute.value {
                AttributeValue::Long(of) if is_type => {
                    let from = i32::try_from(*of).ok().and_then(dtype::from_code);
                    if let (Some(true), Some(to)) =
                        (from.map(|it| is_cast(it, self.to)), code(self.to))
                    {
                        *of = to;
                    }
                }
                AttributeValue::Tensor(tensor) | AttributeValue::SparseTensor(tensor)
                    if is_constant && is_cast(tensor.dtype, self.to) =>
                {
                    change(&name, tensor)?;
                }
                AttributeValue::Float(_) | AttributeValue::Floats(_) if op.kind == "Constant" => {
                    if let Some((_, mut tensor)) = constant_value(&name, attribute) {
                        change(&name, &mut tensor)?;
                        "value".clone_into(&mut attribute.name);
                        attribute.value = AttributeValue::Tensor(Box::new(tensor));
                    }
                }
                _ => {}
            }
        }
        // The default value is a float.
        if op.kind == "ConstantOfShape" && op.attributes.is_empty() {
            let mut tensor =
                Tensor::dense(DType::Float32, vec![1], Blob::memory(0_f32.to_le_bytes().to_vec()));
            change(&name, &mut tensor)?;
            let value = AttributeValue::Tensor(Box::new(tensor));
            op.attributes.push(Attribute { name: "value".to_owned(), value });
        }
        Ok(())
    }

    /// Returns the name of a value with its old type, which a cast computes if no constant has it.
    fn old_value(
        &mut self,
        number: usize,
        name: &str,
        value: &ValueType,
        ops: &mut Vec<Op>,
    ) -> Result<String, Finding> {
        let Some(from) = value.tensor_type().map(|tensor| tensor.dtype) else {
            return Ok(name.to_owned());
        };
        let key = self.defined(number, name);
        let definition = key.as_ref().and_then(|key| self.definitions.get(key)).cloned();
        match (definition, key) {
            (Some(Definition::Constant { is_cast: false, .. }), _) => Ok(name.to_owned()),
            (Some(Definition::Constant { tensor, .. }), Some((block, _))) => {
                // A copy in the main graph is visible everywhere.
                let key = (block, format!("{name}\0"));
                if let Some(known) = self.old.get(&key) {
                    return Ok(known.clone());
                }
                let old = self.names.fresh(name);
                self.copies.push(Parameter { name: old.clone(), tensor: *tensor });
                self.old.insert(key, old.clone());
                Ok(old)
            }
            _ => {
                let key = (number, name.to_owned());
                if let Some(known) = self.old.get(&key) {
                    return Ok(known.clone());
                }
                let old = self.names.fresh(name);
                ops.push(cast_op(name, &old, from)?);
                self.old.insert(key, old.clone());
                Ok(old)
            }
        }
    }
}

/// Returns the name and value of a `Constant` operator with a tensor of floats.
fn constant(op: &Op) -> Option<(String, Tensor)> {
    if op.kind != "Constant" || domain_name(&op.domain) != "ai.onnx" {
        return None;
    }
    let name = op.writes().next()?;
    op.attributes.iter().find_map(|attribute| constant_value(name, attribute))
}

fn constant_value(name: &str, attribute: &Attribute) -> Option<(String, Tensor)> {
    let floats = |shape: Vec<u64>, values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::dense(DType::Float32, shape, Blob::memory(bytes))
    };
    let tensor = match &attribute.value {
        AttributeValue::Tensor(tensor) => tensor.as_ref().clone(),
        AttributeValue::Float(value) => floats(Vec::new(), &[*value]),
        AttributeValue::Floats(values) => floats(vec![values.len() as u64], values),
        _ => return None,
    };
    Some((name.to_owned(), tensor))
}

/// Returns an operator that casts a value.
fn cast_op(from: &str, to: &str, dtype: DType) -> Result<Op, Finding> {
    let operand = |name: &str| vec![Operand { slot: String::new(), args: vec![name.to_owned()] }];
    let code = dtype::code(dtype);
    let code = code.ok_or_else(|| Finding::internal(format!("{dtype} has no code in ONNX")))?;
    let code = AttributeValue::Long(code.into());
    Ok(Op {
        kind: "Cast".to_owned(),
        inputs: operand(from),
        outputs: operand(to),
        attributes: vec![Attribute { name: "to".to_owned(), value: code }],
        residual: Residual::default(),
        ..Op::default()
    })
}

/// Gives the inputs and outputs of a program their old types, with casts behind and before them.
fn keep_io(
    program: &mut Program,
    inference: &Inference,
    to: DType,
    names: &mut Names,
) -> Result<(), Finding> {
    let Some(main) = program.blocks.first() else { return Ok(()) };
    let old = |name: &String| {
        let value = &inference.blocks.first()?.get(name)?.value;
        let ValueType::Tensor(tensor) = value else { return None };
        is_cast(tensor.dtype, to).then_some(tensor.dtype)
    };
    let constants: Vec<&String> = main.initializers.iter().map(|it| &it.name).collect();
    let inputs = main.inputs.iter().filter(|name| !constants.contains(name));
    let inputs: Vec<(String, DType)> =
        inputs.filter_map(|name| Some((name.clone(), old(name)?))).collect();
    // An input that is an output as well is what it was.
    let outputs = main.outputs.iter().filter(|name| !inputs.iter().any(|(it, _)| it == *name));
    let outputs: Vec<(String, DType)> =
        outputs.filter_map(|name| Some((name.clone(), old(name)?))).collect();
    for (at, (name, dtype)) in inputs.into_iter().enumerate() {
        let inner = rename(program, &name, dtype, names);
        if let Some(main) = program.blocks.first_mut() {
            main.ops.insert(at, cast_op(&name, &inner, to)?);
        }
        skip_casts_back(program, &name, &inner, dtype);
    }
    for (name, dtype) in outputs {
        let inner = rename(program, &name, dtype, names);
        if let Some(main) = program.blocks.first_mut() {
            main.ops.push(cast_op(&inner, &name, dtype)?);
        }
    }
    Ok(())
}

/// Renames a value inside the program, whose inputs, outputs and declarations keep the name and the old type.
fn rename(program: &mut Program, name: &str, dtype: DType, names: &mut Names) -> String {
    let inner = names.fresh(name);
    program.rename(&HashMap::from([(name.to_owned(), inner.clone())]));
    if let Some(main) = program.blocks.first_mut() {
        for constant in main.initializers.iter_mut().filter(|constant| constant.name == name) {
            constant.name.clone_from(&inner);
        }
        for end in main.inputs.iter_mut().chain(&mut main.outputs).filter(|end| **end == inner) {
            name.clone_into(end);
        }
        for var in main.vars.iter_mut().filter(|var| var.name == inner) {
            name.clone_into(&mut var.name);
            if let Some(tensor) = var.value.tensor_type_mut() {
                tensor.dtype = dtype;
            }
        }
    }
    inner
}

/// Replaces casts of a cast input to its old type by the input.
fn skip_casts_back(program: &mut Program, input: &str, inner: &str, dtype: DType) {
    let code = dtype::code(dtype).map(i64::from);
    let is_back = |op: &Op| {
        let to = match op.attribute("to") {
            Some(AttributeValue::Long(to)) => Some(*to),
            _ => None,
        };
        op.kind == "Cast" && to == code && op.input("").first().is_some_and(|it| it == inner)
    };
    let casts = program.blocks.iter().flat_map(|block| &block.ops).filter(|op| is_back(op));
    let replaced: Vec<String> = casts.flat_map(Op::writes).map(str::to_owned).collect();
    for block in &mut program.blocks {
        block.ops.retain(|op| !is_back(op));
    }
    program.rename(&replaced.into_iter().map(|name| (name, input.to_owned())).collect());
}
