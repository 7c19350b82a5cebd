//! The data-flow graph of a program, and hashes of its operators that are independent of names.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use lodstone_model::{Attribute, AttributeValue, Op, Program, Tensor};
use lodstone_schema::{Conventions, Finding, conventions, places};

/// The operators of a program, and the data flow between them.
pub(crate) struct Wiring<'a> {
    pub(crate) nodes: Vec<Node<'a>>,
    /// The indices of the nodes, in topological order.
    order: Vec<usize>,
    program: &'a Program,
    conventions: &'static Conventions,
}

/// An operator.
pub(crate) struct Node<'a> {
    pub(crate) op: &'a Op,
    pub(crate) block: usize,
    pub(crate) number: usize,
    /// The operands, slot by slot.
    pub(crate) reads: Vec<(&'a str, Vec<Use<'a>>)>,
    /// The readers of the outputs: the reading node, and the operand that is read.
    pub(crate) readers: Vec<(usize, OutputRef)>,
    /// A hash of the operator and everything that it depends on, without names.
    pub(crate) forward: u64,
    /// A hash of the operator and everything that depends on it, without names.
    pub(crate) backward: u64,
}

/// The position of an operand: its slot, and its index in the slot.
pub(crate) type OutputRef = (usize, usize);

/// An operand of an operator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use<'a> {
    /// An output of a node, by position.
    Value(usize, OutputRef),
    /// A value from outside: an input, a parameter.
    Outer(&'a str),
    /// An omitted operand.
    Nothing,
}

impl<'a> Wiring<'a> {
    /// Builds the graph of a program.
    ///
    /// # Errors
    /// An internal error if a numbered operator is missing.
    pub(crate) fn new(program: &'a Program) -> Result<Self, Finding> {
        let conventions = conventions(program);
        let mut side = Self { nodes: Vec::new(), order: Vec::new(), program, conventions };
        side.walk()?;
        side.hash()?;
        Ok(side)
    }

    /// Returns an operator by index.
    ///
    /// # Errors
    /// An internal error if the index is out of range.
    pub(crate) fn node(&self, id: usize) -> Result<&Node<'a>, Finding> {
        let node = self.nodes.get(id);
        node.ok_or_else(|| Finding::internal(format!("a graph has no operator {id}")))
    }

    /// Returns the attributes that determine the computation.
    pub(crate) fn attributes(&self, op: &'a Op) -> impl Iterator<Item = &'a Attribute> {
        let counts =
            |attribute: &&Attribute| self.conventions.is_significant(self.program, op, attribute);
        op.attributes.iter().filter(counts)
    }

    /// Visits all blocks in execution order: a block may read outputs of its enclosing blocks.
    fn walk(&mut self) -> Result<(), Finding> {
        let program = self.program;
        let mut starts = Vec::new();
        for (block, contents) in program.blocks.iter().enumerate() {
            starts.push(self.nodes.len());
            self.nodes.extend(contents.ops.iter().enumerate().map(|(number, op)| Node {
                op,
                block,
                number,
                reads: Vec::new(),
                readers: Vec::new(),
                forward: 0,
                backward: 0,
            }));
        }
        let mut seen = HashSet::new();
        for root in 0..program.blocks.len() {
            if !seen.insert(root) {
                continue;
            }
            let mut open: Vec<(usize, usize, Written<'a>)> = vec![(root, 0, HashMap::new())];
            while let Some((block, number, _)) = open.last_mut() {
                let (block, at) = (*block, *number);
                let Some(op) = program.blocks.get(block).and_then(|block| block.ops.get(at)) else {
                    let _ = open.pop();
                    continue;
                };
                *number += 1;
                let id = places::at(&starts, block)? + at;
                self.read(id, op, &open)?;
                self.order.push(id);
                if let Some((_, _, written)) = open.last_mut() {
                    write(id, op, written);
                }
                for inner in op.blocks().filter_map(|inner| usize::try_from(inner).ok()) {
                    if inner < program.blocks.len() && seen.insert(inner) {
                        open.push((inner, 0, HashMap::new()));
                    }
                }
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        id: usize,
        op: &'a Op,
        open: &[(usize, usize, Written<'a>)],
    ) -> Result<(), Finding> {
        /// The maximum number of enclosing blocks that are searched for a value.
        const MAX_ENCLOSING: usize = 64;
        let of = |name: &'a str| {
            if name.is_empty() {
                return Use::Nothing;
            }
            let found =
                open.iter().rev().take(MAX_ENCLOSING).find_map(|(.., known)| known.get(name));
            found.map_or(Use::Outer(name), |(node, place)| Use::Value(*node, *place))
        };
        let operands = op.inputs.iter().map(|operand| {
            (operand.slot.as_str(), operand.args.iter().map(|arg| of(arg)).collect())
        });
        // Operators also read the variables that their attributes refer to.
        let named = op.attributes.iter().filter_map(|attribute| {
            let uses: Vec<Use<'a>> = attribute.value.names().map(|name| of(name)).collect();
            let is_named = matches!(attribute.value, AttributeValue::Vars(_)) || !uses.is_empty();
            is_named.then_some((attribute.name.as_str(), uses))
        });
        let reads: Vec<(&str, Vec<Use<'a>>)> = operands.chain(named).collect();
        for (slot, (_, uses)) in reads.iter().enumerate() {
            for (index, read) in uses.iter().enumerate() {
                if let Use::Value(node, _) = read {
                    places::at_mut(&mut self.nodes, *node)?.readers.push((id, (slot, index)));
                }
            }
        }
        places::at_mut(&mut self.nodes, id)?.reads = reads;
        Ok(())
    }

    /// Computes hashes that are independent of names: renaming everything in a program does not change them.
    fn hash(&mut self) -> Result<(), Finding> {
        let main = self.program.blocks.first();
        let position = |names: Option<&Vec<String>>| -> HashMap<String, usize> {
            names.into_iter().flatten().cloned().zip(0..).collect()
        };
        let inputs = position(main.map(|block| &block.inputs));
        let outputs = position(main.map(|block| &block.outputs));
        let local: Vec<u64> = self.nodes.iter().map(|node| self.local(node.op)).collect();
        let mut forward = vec![0; self.nodes.len()];
        for id in &self.order {
            let node = self.node(*id)?;
            let mut hasher = DefaultHasher::new();
            places::at(&local, *id)?.hash(&mut hasher);
            for (slot, uses) in &node.reads {
                slot.hash(&mut hasher);
                for read in uses {
                    match read {
                        Use::Value(node, place) => {
                            (1, places::at(&forward, *node)?, place).hash(&mut hasher)
                        }
                        Use::Outer(name) => (2, inputs.get(*name)).hash(&mut hasher),
                        Use::Nothing => 3.hash(&mut hasher),
                    }
                }
            }
            *places::at_mut(&mut forward, *id)? = hasher.finish();
        }
        let mut backward = vec![0; self.nodes.len()];
        for id in self.order.iter().rev() {
            let node = self.node(*id)?;
            let mut hasher = DefaultHasher::new();
            places::at(&local, *id)?.hash(&mut hasher);
            let mut readers: Vec<_> = node
                .readers
                .iter()
                .map(|(reader, place)| Ok((places::at(&backward, *reader)?, *place)))
                .collect::<Result<_, Finding>>()?;
            readers.sort_unstable();
            readers.hash(&mut hasher);
            let leaves = node.op.writes().map(|name| outputs.get(name));
            leaves.collect::<Vec<_>>().hash(&mut hasher);
            *places::at_mut(&mut backward, *id)? = hasher.finish();
        }
        for ((node, forward), backward) in self.nodes.iter_mut().zip(forward).zip(backward) {
            (node.forward, node.backward) = (forward, backward);
        }
        Ok(())
    }

    /// Returns the hash of an operator alone.
    fn local(&self, op: &'a Op) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&op.kind, &op.domain, &op.overload).hash(&mut hasher);
        let mut attributes: Vec<u64> =
            self.attributes(op).map(|it| attribute_hash(&it.name, &it.value)).collect();
        // The order of attributes has no meaning.
        attributes.sort_unstable();
        attributes.hash(&mut hasher);
        op.outputs.iter().map(|operand| operand.args.len()).collect::<Vec<_>>().hash(&mut hasher);
        hasher.finish()
    }
}

/// The values written so far in a block, by name, and their writers.
type Written<'a> = HashMap<&'a str, (usize, OutputRef)>;

fn write<'a>(id: usize, op: &'a Op, written: &mut Written<'a>) {
    for (slot, operand) in op.outputs.iter().enumerate() {
        for (index, name) in operand.args.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            written.insert(name, (id, (slot, index)));
        }
    }
}

fn attribute_hash(name: &str, value: &AttributeValue) -> u64 {
    use AttributeValue as A;
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    match value {
        // The operators of a block have their own hashes; its index and names have no meaning.
        A::Block(_) | A::Blocks(_) | A::Var(_) | A::Vars(_) => {}
        A::List(values) => {
            let hash = |value: &A| attribute_hash("", value);
            values.iter().map(hash).collect::<Vec<_>>().hash(&mut hasher);
        }
        A::Dict(entries) => {
            let hash = |entry: &Attribute| attribute_hash(&entry.name, &entry.value);
            entries.iter().map(hash).collect::<Vec<_>>().hash(&mut hasher);
        }
        A::Tensor(_) | A::Tensors(_) | A::SparseTensor(_) | A::SparseTensors(_)
            if value.tensors().next().is_some() =>
        {
            let what = |tensor: &Tensor| (tensor.dtype, tensor.shape.clone(), tensor.nbytes());
            value.tensors().map(what).collect::<Vec<_>>().hash(&mut hasher);
        }
        value => format!("{value:?}").hash(&mut hasher),
    }
    hasher.finish()
}
