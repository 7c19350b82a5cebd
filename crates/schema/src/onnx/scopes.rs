//! The open blocks of an ONNX program, and the values that names are bound to in them.
//!
//! [`Scopes`] is how everything walks a program with subgraphs and functions: the checker, inference, the inliner,
//! lowerings and the engine. It implements the rules of visibility; the caller chooses what a name is bound to.
//!
//! | entered by | sees | attributes | opsets |
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

/// The maximum nesting of subgraphs and calls. A file cannot nest subgraphs deeper than about 30.
pub const MAX_DEPTH: usize = 64;

/// The attribute values of a function call, by name.
pub type Bindings<'p> = HashMap<&'p str, &'p AttributeValue>;

/// The open blocks, innermost last. `V` is what a name is bound to.
#[derive(Debug)]
pub struct Scopes<'p, V> {
    program: &'p Topology,
    functions: HashMap<(&'p str, &'p str, &'p str), &'p Function>,
    open: Vec<Scope<'p, V>>,
}

/// An open block.
#[derive(Debug)]
pub struct Scope<'p, V> {
    /// The index of the block in the program.
    pub number: usize,
    /// The block.
    pub block: &'p Block,
    /// The place of the block: "the graph", "the graph, operator 3 (`If`), `then_branch`".
    pub place: Arc<str>,
    /// The values of the names that are defined in this block.
    pub names: HashMap<&'p str, V>,
    /// The versions of opsets, by domain.
    pub versions: &'p [(String, i64)],
    /// The attributes of the innermost call around the block.
    pub bindings: Arc<Bindings<'p>>,
    /// The current operator, and its index in the block.
    pub at: Option<(usize, &'p Op)>,
    /// Whether names of the blocks around it are invisible.
    is_closed: bool,
}

impl<'p, V> Scopes<'p, V> {
    /// Creates the scopes of a program, with no block open.
    pub fn new(program: &'p Topology) -> Self {
        let key = |function: &'p Function| {
            let domain = domain_name(&function.domain);
            ((domain, function.name.as_str(), function.overload.as_str()), function)
        };
        Self { program, functions: program.functions.iter().map(key).collect(), open: Vec::new() }
    }

    /// Returns the program.
    pub fn program(&self) -> &'p Topology {
        self.program
    }

    /// Returns the function that an operator calls.
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

    /// Enters a subgraph of the current operator.
    ///
    /// # Errors
    /// If the program has no such block, the block is already open, or nesting is too deep.
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
    /// If the program has no block for the function, the function calls itself, or nesting is too deep.
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

    /// Enters a function outside of a call, with the defaults of its attributes.
    ///
    /// # Errors
    /// Like [`call`](Self::call).
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
            return Err(format!("expected block {number}, found none").into());
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
    /// An internal error if no block is open.
    pub fn leave(&mut self) -> Result<Scope<'p, V>, Finding> {
        self.open.pop().ok_or_else(none_open)
    }

    /// Returns the number of open blocks.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Returns the innermost open block.
    ///
    /// # Errors
    /// An internal error if no block is open.
    pub fn innermost(&self) -> Result<&Scope<'p, V>, Finding> {
        self.open.last().ok_or_else(none_open)
    }

    /// Returns the innermost open block, mutably.
    ///
    /// # Errors
    /// An internal error if no block is open.
    pub fn innermost_mut(&mut self) -> Result<&mut Scope<'p, V>, Finding> {
        self.open.last_mut().ok_or_else(none_open)
    }

    /// Returns the place of the current operator, of the last entered block, or of the program if no block is open.
    pub fn place(&self) -> String {
        self.open.last().map_or_else(|| "the program".to_owned(), Scope::op_place)
    }

    /// Returns the value of a visible name.
    pub fn see(&self, name: &str) -> Option<&V> {
        self.find(name).map(|(_, value)| value)
    }

    /// Returns the value of a visible name, and the depth of the open block that defines it (0 is the outermost).
    pub fn find(&self, name: &str) -> Option<(usize, &V)> {
        // Without a closed block, all are visible.
        let closed = self.open.iter().rposition(|scope| scope.is_closed).unwrap_or(0);
        let visible = self.open.iter().enumerate().skip(closed).rev();
        visible.into_iter().find_map(|(at, scope)| Some((at, scope.names.get(name)?)))
    }

    /// Binds a name in the innermost block; returns its previous value there.
    ///
    /// # Errors
    /// An internal error if no block is open.
    pub fn keep(&mut self, name: &'p str, value: V) -> Result<Option<V>, Finding> {
        Ok(self.innermost_mut()?.names.insert(name, value))
    }

    /// Sets the current operator of the innermost block.
    ///
    /// # Errors
    /// An internal error if no block is open.
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

    /// Returns the place of the current operator.
    pub fn op_place(&self) -> String {
        match self.at {
            Some((number, op)) => place_of(&self.place, number, op),
            None => self.place.to_string(),
        }
    }

    /// Returns the opset version of a domain; 1 if none is declared, as in programs that predate versions.
    pub fn version(&self, domain: &str) -> i64 {
        let domain = domain_name(domain);
        let version = self.versions.iter().find(|(known, _)| domain_name(known) == domain);
        // See above.
        version.map_or(1, |(_, version)| *version)
    }

    /// Returns the attributes of an operator, with references replaced by the attributes of the call. A reference to
    /// an attribute that the call does not have is omitted.
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

/// Returns the attributes of a function that have defaults.
fn defaults(function: &Function) -> Bindings<'_> {
    let defaults = function.defaults.iter();
    defaults.map(|attribute| (attribute.name.as_str(), &attribute.value)).collect()
}

fn none_open() -> Finding {
    Finding::internal("no block is open")
}
