//! The open blocks of an ONNX program, and what names stand for in them.
//!
//! [`Scopes`] is how everything goes through a program that has subgraphs and functions: the checker, inference, the
//! inliner, lowerings and the engine. It holds the rules of visibility; what a name stands for is up to the caller.
//!
//! | entered by | sees | attributes | operator sets |
//! |---|---|---|---|
//! | [`graph`](Scopes::graph) | its own names | none to refer to | the program's |
//! | [`body`](Scopes::body), of an operator | names of the blocks around it, too | those around it | those around it |
//! | [`call`](Scopes::call), [`function`](Scopes::function) | its own names | of the call, or defaults | the function's |
//!
//! Source of truth: ONNX's `docs/IR.md`, "Names Within a Graph" and "Model Local Functions".

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{Attribute, AttributeValue, Block, Function, Op, Topology};

use super::{domain_name, place_of, quoted};
use crate::Finding;

/// The deepest nesting of subgraphs and calls. A file cannot nest subgraphs deeper than about 30.
pub const MAX_DEPTH: usize = 64;

/// Attribute values that a function was called with, by name.
pub type Bindings<'p> = HashMap<&'p str, &'p AttributeValue>;

/// Open blocks, innermost last. `V` is what a name stands for.
#[derive(Debug)]
pub struct Scopes<'p, V> {
    program: &'p Topology,
    functions: HashMap<(&'p str, &'p str, &'p str), &'p Function>,
    open: Vec<Scope<'p, V>>,
}

/// An open block.
#[derive(Debug)]
pub struct Scope<'p, V> {
    /// The block's number in the program.
    pub number: usize,
    /// The block.
    pub block: &'p Block,
    /// Where it is: "the graph", "the graph, operator 3 (`If`), `then_branch`".
    pub place: Arc<str>,
    /// What names stand for that were kept here.
    pub names: HashMap<&'p str, V>,
    /// Versions of operator sets, by domain.
    pub versions: &'p [(String, i64)],
    /// The attributes of the call that it is in.
    pub bindings: Arc<Bindings<'p>>,
    /// The operator that the walk has reached, and its number in the block.
    pub at: Option<(usize, &'p Op)>,
    /// Whether names of the blocks around it are invisible.
    is_closed: bool,
}

impl<'p, V> Scopes<'p, V> {
    /// No open blocks of a program.
    pub fn new(program: &'p Topology) -> Self {
        let key = |function: &'p Function| {
            let domain = domain_name(&function.domain);
            ((domain, function.name.as_str(), function.overload.as_str()), function)
        };
        Self { program, functions: program.functions.iter().map(key).collect(), open: Vec::new() }
    }

    /// The program.
    pub fn program(&self) -> &'p Topology {
        self.program
    }

    /// The function that an operator calls.
    pub fn function_of(&self, op: &Op) -> Option<&'p Function> {
        let key = (domain_name(&op.domain), op.kind.as_str(), op.overload.as_str());
        self.functions.get(&key).copied()
    }

    /// Enters the main graph.
    ///
    /// # Errors
    /// If the program has none.
    pub fn graph(&mut self) -> Result<(), Finding> {
        let versions = &self.program.operator_versions;
        self.enter(0, Arc::from("the graph"), true, versions, Arc::default())
    }

    /// Enters a subgraph of the operator that the walk has reached.
    ///
    /// # Errors
    /// If the program has no such block, it is open already, or nesting is too deep.
    pub fn body(&mut self, block: i32) -> Result<(), Finding> {
        let around = self.innermost()?;
        let is = |attribute: &&Attribute| attribute.value.blocks().any(|number| number == block);
        let attributes = around.at.iter().flat_map(|(_, op)| &op.attributes);
        let name = attributes.into_iter().find(is).map_or("", |attribute| &attribute.name);
        let place = format!("{}, {}", around.op_place(), quoted(name));
        let (versions, bindings) = (around.versions, Arc::clone(&around.bindings));
        self.enter(block, Arc::from(place), false, versions, bindings)
    }

    /// Enters the function that an operator of the innermost block calls, with the attributes of the call.
    ///
    /// # Errors
    /// If the program has no block for it, it calls itself, or nesting is too deep.
    pub fn call(&mut self, op: &'p Op, function: &'p Function) -> Result<(), Finding> {
        let mut bindings = defaults(function);
        let outer = &self.innermost()?.bindings;
        for Attribute { name, value } in &op.attributes {
            let value = match value {
                AttributeValue::Reference { name, .. } => outer.get(name.as_str()).copied(),
                value => Some(value),
            };
            if let Some(value) = value {
                bindings.insert(name, value);
            }
        }
        self.enter_function(function, bindings)
    }

    /// Enters a function by itself, with the defaults of its attributes.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn function(&mut self, function: &'p Function) -> Result<(), Finding> {
        self.enter_function(function, defaults(function))
    }

    fn enter_function(
        &mut self,
        function: &'p Function,
        bindings: Bindings<'p>,
    ) -> Result<(), Finding> {
        let place = Arc::from(format!("the function {}", quoted(&function.name)));
        let versions = &function.operator_versions;
        self.enter(function.block, place, true, versions, Arc::new(bindings))
    }

    fn enter(
        &mut self,
        number: i32,
        place: Arc<str>,
        is_closed: bool,
        versions: &'p [(String, i64)],
        bindings: Arc<Bindings<'p>>,
    ) -> Result<(), Finding> {
        let found = usize::try_from(number).ok();
        let found = found.and_then(|index| Some((index, self.program.blocks.get(index)?)));
        let Some((number, block)) = found else {
            return Err(format!("expected a block {number}, found none").into());
        };
        if self.open.iter().any(|scope| scope.number == number) {
            return Err(format!("block {number} runs itself").into());
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(format!("blocks are nested more than {MAX_DEPTH} deep").into());
        }
        let (names, at) = (HashMap::new(), None);
        self.open.push(Scope { number, block, place, names, versions, bindings, at, is_closed });
        Ok(())
    }

    /// Leaves the innermost block.
    ///
    /// # Errors
    /// An internal one if none is open.
    pub fn leave(&mut self) -> Result<Scope<'p, V>, Finding> {
        self.open.pop().ok_or_else(none_open)
    }

    /// How many blocks are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// The innermost open block.
    ///
    /// # Errors
    /// An internal one if none is open.
    pub fn innermost(&self) -> Result<&Scope<'p, V>, Finding> {
        self.open.last().ok_or_else(none_open)
    }

    /// The innermost open block, to change what its names stand for.
    ///
    /// # Errors
    /// An internal one if none is open.
    pub fn innermost_mut(&mut self) -> Result<&mut Scope<'p, V>, Finding> {
        self.open.last_mut().ok_or_else(none_open)
    }

    /// Where the walk is: an operator, the block that was entered last, or the program if none is open.
    pub fn place(&self) -> String {
        self.open.last().map_or_else(|| "the program".to_owned(), Scope::op_place)
    }

    /// What a visible name stands for.
    pub fn see(&self, name: &str) -> Option<&V> {
        self.find(name).map(|(_, value)| value)
    }

    /// The number of the open block, outermost first, where a visible name was kept, and what it stands for.
    pub fn find(&self, name: &str) -> Option<(usize, &V)> {
        let closed = self.open.iter().rposition(|scope| scope.is_closed).unwrap_or(0);
        let visible = self.open.iter().enumerate().skip(closed).rev();
        visible.into_iter().find_map(|(at, scope)| Some((at, scope.names.get(name)?)))
    }

    /// Makes a name stand for a value in the innermost block, and returns what it stood for there.
    ///
    /// # Errors
    /// An internal one if no block is open.
    pub fn keep(&mut self, name: &'p str, value: V) -> Result<Option<V>, Finding> {
        Ok(self.innermost_mut()?.names.insert(name, value))
    }

    /// Notes that the walk has reached an operator of the innermost block.
    ///
    /// # Errors
    /// An internal one if no block is open.
    pub fn reach(&mut self, number: usize, op: &'p Op) -> Result<(), Finding> {
        self.innermost_mut()?.at = Some((number, op));
        Ok(())
    }
}

impl<'p, V> Scope<'p, V> {
    /// Whether names of the blocks around it are visible.
    pub fn sees_around(&self) -> bool {
        !self.is_closed
    }

    /// The location of the operator that the walk has reached.
    pub fn op_place(&self) -> String {
        match self.at {
            Some((number, op)) => place_of(&self.place, number, op),
            None => self.place.to_string(),
        }
    }

    /// The version of the operator set of a domain; 1 if none is declared, as in programs older than versions.
    pub fn version(&self, domain: &str) -> i64 {
        let domain = domain_name(domain);
        let version = self.versions.iter().find(|(known, _)| domain_name(known) == domain);
        version.map_or(1, |(_, version)| *version)
    }

    /// The attributes of an operator with those of the call in place of references to them. An attribute that refers to
    /// one that the call does not have is left out.
    pub fn resolved(&self, op: &Op) -> Vec<Attribute> {
        let resolve = |attribute: &Attribute| match &attribute.value {
            AttributeValue::Reference { name, .. } => {
                let value = (*self.bindings.get(name.as_str())?).clone();
                Some(Attribute { name: attribute.name.clone(), value })
            }
            _ => Some(attribute.clone()),
        };
        op.attributes.iter().filter_map(resolve).collect()
    }
}

/// The attributes of a function that have defaults.
fn defaults(function: &Function) -> Bindings<'_> {
    let defaults = function.defaults.iter();
    defaults.map(|attribute| (attribute.name.as_str(), &attribute.value)).collect()
}

fn none_open() -> Finding {
    Finding::internal("no block is open")
}
