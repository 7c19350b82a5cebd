//! Through a program, block by block.
//!
//! Blocks of operators are gone through when the operator is, with what goes into them; functions at each
//! call. What is found of a block at several calls is what they have in common. How often that is is
//! bounded: [`Work`] is what a program may ask for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{
    Attribute, AttributeValue, Block, Dim, Function, Model, Op, Program, Tensor, TensorType,
    ValueType,
};

use super::super::{formal_inputs, place_of, quoted};
use super::dims::{MOST_EXTENTS, common_type, merged_types, show_type};
use super::node::{Bindings, Bodies};
use super::value::ValueInfo;
use super::work::{DEEPEST, Fresh, Work};
use super::{apply, domain_of};
use crate::{Code, Finding, Findings, Located};

/// What inference is told beside the model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// What is known of inputs of the graph, instead of what it declares.
    pub inputs: HashMap<String, ValueInfo>,
    /// Whether extents that are unknown get symbols of their own, so that it is seen where they go.
    pub fresh_symbols: bool,
}

lodstone_model::with_fields!(Options {
    with_inputs(inputs: HashMap<String, ValueInfo>),
    with_fresh_symbols(fresh_symbols: bool),
});

/// What was found of a program.
#[derive(Clone, Debug, Default)]
pub struct Inference {
    /// What is known of the values of each block, by the number of the block. Those of blocks that are
    /// never run are not there.
    pub blocks: Vec<HashMap<String, ValueInfo>>,
    /// Contradictions.
    pub findings: Findings,
    /// Whether all of the program was gone through: one that asks for more work than its size warrants
    /// is left unfinished, and what was not reached is not known.
    pub complete: bool,
}

/// Values that are seen from a place; none where an input is left out.
struct Scope<'p> {
    values: HashMap<&'p str, Option<Arc<ValueInfo>>>,
    /// The number of the block.
    block: usize,
    /// Where it is.
    place: Arc<str>,
    /// The operator that is gone through, and its number.
    at: Option<(usize, &'p Op)>,
    /// Whether what is around it is not seen: the graph, a function.
    is_closed: bool,
    /// Room for extents and elements that its values take.
    cells: usize,
    /// Versions of sets of operators.
    versions: &'p [(String, i64)],
    bindings: Arc<Bindings<'p>>,
}

struct Walk<'p> {
    model: &'p Model,
    program: &'p Program,
    parameters: HashMap<&'p str, &'p Tensor>,
    functions: HashMap<(&'p str, &'p str, &'p str), &'p Function>,
    scopes: Vec<Scope<'p>>,
    work: Work,
    fresh: Option<Fresh>,
    found: Inference,
    told: HashSet<(String, String)>,
}

/// What is known of the values of a program, and where it contradicts itself.
///
/// Integer constants are read where they are small. A model without a program has no values.
pub fn infer(model: &Model, options: &Options) -> Inference {
    let Some(program) = model.main() else {
        return Inference { complete: true, ..Inference::default() };
    };
    let mut walk = Walk::of(model, program, options);
    if let Some(main) = program.blocks.first() {
        let versions = &program.operator_versions;
        let scope = walk.scope(0, "the graph", true, versions, Arc::default());
        let inputs = walk.graph_inputs(main, &options.inputs);
        if let Err(finding) = walk.block(main, scope, inputs) {
            walk.tell(finding.at("the graph"));
        }
    }
    walk.found
}

impl<'p> Walk<'p> {
    fn of(model: &'p Model, program: &'p Program, options: &Options) -> Self {
        let key = |function: &'p Function| {
            let domain = domain_of(&function.domain);
            ((domain, function.name.as_str(), function.overload.as_str()), function)
        };
        let found = Inference {
            blocks: vec![HashMap::new(); program.blocks.len()],
            complete: true,
            ..Inference::default()
        };
        Self {
            model,
            program,
            parameters: model.parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect(),
            functions: program.functions.iter().map(key).collect(),
            scopes: Vec::new(),
            work: Work::of(program),
            fresh: options.fresh_symbols.then(|| Fresh::of(program)),
            found,
            told: HashSet::new(),
        }
    }

    fn scope(
        &self,
        block: usize,
        place: &str,
        is_closed: bool,
        versions: &'p [(String, i64)],
        bindings: Arc<Bindings<'p>>,
    ) -> Scope<'p> {
        let values = HashMap::new();
        let place = Arc::from(place);
        Scope { values, block, place, at: None, is_closed, cells: 0, versions, bindings }
    }

    /// What goes into the graph: what was given, or is declared. A constant that is an input, too, may be
    /// another one at a run; up to IR version 3, where all of them are inputs, none is.
    fn graph_inputs(
        &mut self,
        main: &'p Block,
        given: &HashMap<String, ValueInfo>,
    ) -> Vec<Option<ValueInfo>> {
        let declared = declared(main);
        let all_constant = self.program.version.is_none_or(|version| version < 4);
        let mut inputs = Vec::new();
        for name in &main.inputs {
            let mut input = match (given.get(name), declared.get(name.as_str())) {
                (Some(given), _) => given.clone(),
                (None, Some(declared)) => (*declared).clone().into(),
                (None, None) => ValueInfo::default(),
            };
            let constant = self.parameters.get(name.as_str()).filter(|_| !given.contains_key(name));
            if let Some(constant) = constant.map(|tensor| ValueInfo::of(tensor)) {
                let what = || format!("the graph, input {}", quoted(name));
                let agreed = self.agreed(constant, Some(&input.value), How::Constant, what);
                if all_constant {
                    input = agreed;
                }
            }
            inputs.push(Some(input));
        }
        inputs
    }

    /// Goes through a block; gives what comes out.
    fn block(
        &mut self,
        block: &'p Block,
        scope: Scope<'p>,
        inputs: Vec<Option<ValueInfo>>,
    ) -> Result<Vec<ValueInfo>, Finding> {
        if self.scopes.iter().any(|open| open.block == scope.block) {
            return Err("expected a block that does not run itself".into());
        }
        let names = match scope.block {
            0 => block.inputs.iter().collect(),
            _ => formal_inputs(block, inputs.len()),
        };
        if inputs.len() > names.len() {
            let (expected, found) = (names.len(), inputs.len());
            return Err(format!("expected {expected} inputs, found {found}").into());
        }
        if self.scopes.len() >= DEEPEST || self.work.enter(block).is_none() {
            self.found.complete = false;
            return Ok(vec![ValueInfo::default(); block.outputs.len()]);
        }
        let (number, declared) = (scope.block, declared(block));
        self.scopes.push(scope);
        if number == 0 {
            self.model.parameters.iter().for_each(|p| self.constant(&p.name, &p.tensor));
        }
        block.initializers.iter().for_each(|p| self.constant(&p.name, &p.tensor));
        let left_out = std::iter::repeat_with(|| None);
        for (name, input) in names.into_iter().zip(inputs.into_iter().chain(left_out)) {
            let known = declared.get(name.as_str()).copied().filter(|_| number != 0);
            let place =
                self.scopes.last().map(|scope| Arc::clone(&scope.place)).unwrap_or_default();
            let what = || format!("{place}, input {}", quoted(name));
            let input = input.map(|input| {
                let input = as_declared(input, known);
                self.agreed(input, known, How::Given, what)
            });
            self.keep(name, input);
        }
        for (place, op) in block.ops.iter().enumerate() {
            if self.work.apply(op).is_none() {
                self.found.complete = false;
                break;
            }
            self.operator(place, op, &declared);
        }
        let outputs = block.outputs.iter().map(|name| {
            self.see(name).flatten().map_or_else(ValueInfo::default, |info| (*info).clone())
        });
        let outputs = outputs.collect();
        let scope = self.scopes.pop().ok_or_else(lost)?;
        self.record(scope);
        Ok(outputs)
    }

    fn operator(&mut self, number: usize, op: &'p Op, declared: &HashMap<&'p str, &'p ValueType>) {
        let Some(scope) = self.scopes.last_mut() else {
            return self.tell(lost().at(format!("operator {number}")));
        };
        scope.at = Some((number, op));
        let block = Arc::clone(&scope.place);
        let what = || place_of(&block, number, op);
        let outputs = match self.outputs(op) {
            Ok(outputs) => outputs,
            Err(wrong) => {
                let place = what();
                self.tell(wrong.at(place));
                Vec::new()
            }
        };
        let mut outputs = outputs.into_iter();
        for name in op.output("") {
            let mut info = outputs.next().unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            let known = declared.get(name.as_str()).copied();
            let place = || format!("{}, output {}", what(), quoted(name));
            info = self.agreed(info, known, How::Inferred, place);
            self.name_unknown(&mut info);
            self.keep(name, Some(info));
        }
    }

    /// What comes out of an operator.
    fn outputs(&mut self, op: &'p Op) -> Result<Vec<ValueInfo>, Finding> {
        // An input is unknown if it is not there, or not yet.
        let inputs: Vec<Option<Arc<ValueInfo>>> = op
            .input("")
            .iter()
            .map(|name| match name.as_str() {
                "" => None,
                name => self.see(name).unwrap_or_else(|| Some(Arc::default())),
            })
            .collect();
        let key = (domain_of(&op.domain), op.kind.as_str(), op.overload.as_str());
        if let Some(function) = self.functions.get(&key).copied() {
            return self.call(op, function, &inputs);
        }
        let scope = self.scopes.last().ok_or_else(lost)?;
        let opset = version_of(scope.versions, &op.domain);
        let bindings = Arc::clone(&scope.bindings);
        let inputs: Vec<_> = inputs.iter().map(Option::as_deref).collect();
        apply(op, opset, &inputs, &bindings, self)
    }

    /// What comes out of a function.
    fn call(
        &mut self,
        op: &'p Op,
        function: &'p Function,
        inputs: &[Option<Arc<ValueInfo>>],
    ) -> Result<Vec<ValueInfo>, Finding> {
        let number = usize::try_from(function.block).unwrap_or(usize::MAX);
        let Some(block) = self.program.blocks.get(number) else {
            return Err(
                format!("expected a block {} that defines it, found none", function.block).into()
            );
        };
        let mut bindings = Bindings::new();
        for default in &function.defaults {
            bindings.insert(&default.name, &default.value);
        }
        let outer = self.scopes.last().map(|scope| &scope.bindings);
        for given in &op.attributes {
            let value = match &given.value {
                AttributeValue::Reference { name, .. } => {
                    outer.and_then(|outer| outer.get(name.as_str()).copied())
                }
                value => Some(value),
            };
            if let Some(value) = value {
                bindings.insert(&given.name, value);
            }
        }
        let place = format!("the function {}", quoted(&function.name));
        let scope =
            self.scope(number, &place, true, &function.operator_versions, Arc::new(bindings));
        let inputs = inputs.iter().map(|input| input.as_deref().cloned()).collect();
        self.block(block, scope, inputs)
    }

    fn constant(&mut self, name: &'p str, tensor: &'p Tensor) {
        self.keep(name, Some(ValueInfo::of(tensor)));
    }

    /// The value that a name stands for: nothing if there is none, none if it is left out.
    fn see(&self, name: &str) -> Option<Option<Arc<ValueInfo>>> {
        for scope in self.scopes.iter().rev() {
            if let Some(info) = scope.values.get(name) {
                return Some(info.clone());
            }
            if scope.is_closed {
                break;
            }
        }
        None
    }

    /// Lets a name stand for a value in the block that is gone through.
    fn keep(&mut self, name: &'p str, mut info: Option<ValueInfo>) {
        let mut kept = 0;
        if let Some(info) = &mut info {
            let tensors = info.value.tensors();
            let extents = tensors.into_iter().filter_map(|tensor| tensor.shape.as_ref());
            let rank: usize = extents.map(Vec::len).sum();
            let cells = rank.saturating_add(info.contents.as_ref().map_or(0, |c| c.len()));
            if rank > MOST_EXTENTS || self.work.keep(cells).is_none() {
                self.found.complete = false;
                info.contents = None;
                info.value.tensors_mut().into_iter().for_each(|tensor| tensor.shape = None);
            } else {
                kept = cells;
            }
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.cells = scope.cells.saturating_add(kept);
            scope.values.insert(name, info.map(Arc::new));
        }
    }

    /// What two places say of a value together; tells if they contradict each other.
    fn agreed(
        &mut self,
        info: ValueInfo,
        declared: Option<&ValueType>,
        how: How,
        place: impl Fn() -> String,
    ) -> ValueInfo {
        let Some(declared) = declared else { return info };
        match merged_types(declared, &info.value) {
            Some(value) => ValueInfo { value, contents: info.contents },
            None => {
                let (expected, found) = (show_type(declared), show_type(&info.value));
                let code =
                    match merged_types(&without_shapes(declared), &without_shapes(&info.value)) {
                        Some(_) if how != How::Constant => Code::Inconsistent,
                        _ => Code::Rule,
                    };
                let what = format!("declared as {expected}, {} as {found}", how.word());
                self.tell(Finding::new(code, what).at(place()));
                info
            }
        }
    }

    fn tell(&mut self, located: Located) {
        // A block that is walked through twice repeats its findings.
        let said = (located.place.clone(), located.finding.message.clone());
        if self.told.contains(&said) {
            return;
        }
        if self.found.findings.more + self.found.findings.more_inconsistent == 0 {
            self.told.insert(said);
        }
        self.found.findings.push(located);
    }

    fn name_unknown(&mut self, info: &mut ValueInfo) {
        let Some(fresh) = &mut self.fresh else { return };
        let tensors = info.value.tensors_mut().into_iter();
        let shapes = tensors.filter_map(|tensor| tensor.shape.as_mut());
        for dim in shapes.flatten().filter(|dim| **dim == Dim::Unknown) {
            *dim = Dim::Symbol(fresh.symbol());
        }
    }

    /// Notes what was found of a block.
    fn record(&mut self, scope: Scope<'p>) {
        debug_assert!(scope.block < self.found.blocks.len(), "blocks are those of the program");
        let Some(known) = self.found.blocks.get_mut(scope.block) else { return };
        // Of another time, only what both have in common is kept.
        if !known.is_empty() {
            self.work.release(scope.cells);
        }
        for (name, info) in scope.values {
            let Some(info) = info else { continue };
            match known.get_mut(name) {
                None => {
                    known.insert(name.to_owned(), Arc::unwrap_or_clone(info));
                }
                Some(before) => {
                    let same = before.contents == info.contents;
                    before.value = common_type(&before.value, &info.value).unwrap_or_default();
                    before.contents = before.contents.take().filter(|_| same);
                }
            }
        }
    }
}

impl Bodies for Walk<'_> {
    fn body(&mut self, block: i32, inputs: Vec<ValueInfo>) -> Result<Vec<ValueInfo>, Finding> {
        let number = usize::try_from(block).unwrap_or(usize::MAX);
        let Some(contents) = self.program.blocks.get(number) else {
            return Err(format!("expected a block {block}, found none").into());
        };
        let formal = formal_inputs(contents, inputs.len());
        if formal.len() != inputs.len() {
            let (expected, found) = (formal.len(), inputs.len());
            return Err(format!("expected {expected} values for its graph, found {found}").into());
        }
        let around = self.scopes.last().ok_or_else(lost)?;
        let (versions, bindings) = (around.versions, Arc::clone(&around.bindings));
        let place = match around.at {
            None => around.place.to_string(),
            Some((at, op)) => {
                let is = |a: &&Attribute| a.value.blocks().any(|number| number == block);
                let name = op.attributes.iter().find(is).map_or("", |attribute| &attribute.name);
                format!("{}, {}", place_of(&around.place, at, op), quoted(name))
            }
        };
        let scope = self.scope(number, &place, false, versions, bindings);
        self.block(contents, scope, inputs.into_iter().map(Some).collect())
    }
}

/// An operator outside of all blocks.
fn lost() -> Finding {
    Finding::internal("an operator is in no block")
}

/// A scalar as the vector of one element that many exporters declare trips and conditions of loops as.
fn as_declared(mut input: ValueInfo, declared: Option<&ValueType>) -> ValueInfo {
    let declared = declared.and_then(|value| value.tensor_type()?.shape.as_deref());
    if declared == Some(&[Dim::Known(1)])
        && let Some(TensorType { shape: Some(shape), .. }) = input.value.tensor_type_mut()
        && shape.is_empty()
    {
        shape.push(Dim::Known(1));
    }
    input
}

/// The types that a block declares, by name.
fn declared(block: &Block) -> HashMap<&str, &ValueType> {
    block.vars.iter().map(|var| (var.name.as_str(), &var.value)).collect()
}

/// The version of a set of operators; that of programs of old, which did not say one, is 1.
fn version_of(versions: &[(String, i64)], domain: &str) -> i64 {
    let domain = domain_of(domain);
    let version = versions.iter().find(|(known, _)| domain_of(known) == domain);
    version.map_or(1, |(_, version)| *version)
}

/// How a type is known that is compared with the declared one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Constant,
    Given,
    Inferred,
}

impl How {
    fn word(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Given => "given",
            Self::Inferred => "inferred",
        }
    }
}

/// A type without the shapes of its tensors.
fn without_shapes(value: &ValueType) -> ValueType {
    let mut value = value.clone();
    value.tensors_mut().into_iter().for_each(|tensor| tensor.shape = None);
    value
}
