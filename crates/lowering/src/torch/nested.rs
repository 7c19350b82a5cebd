//! Blocks that an operator runs: as subgraphs, or as operators around it.

use lodstone_schema::Findings;

use super::arguments::{Arguments, Item};
use super::node::Node;
use super::walk::{Bound, EMPTY, Scope, Walk};
use crate::frame::Step;
use crate::frame::views::Base;
use crate::onnx::Value;

/// A state of a translation.
pub(super) struct Mark {
    ops: usize,
    blocks: usize,
    bases: Vec<Base>,
    findings: Findings,
}

impl<'m> Walk<'m> {
    /// Translates the block that an operator runs, with its inputs bound; returns its outputs.
    pub(super) fn subgraph(&mut self, block: usize, inputs: Vec<Bound<'m>>) -> Step<Vec<Value>> {
        let own = self.program.blocks.get(block).ok_or("a subgraph does not exist")?;
        if own.inputs.len() != inputs.len() {
            let (expected, found) = (own.inputs.len(), inputs.len());
            return Err(format!("a subgraph has {expected} inputs, but gets {found}").into());
        }
        let mut scope: Scope<'m> = own.inputs.iter().cloned().zip(inputs).collect();
        self.inner(block, &mut scope)
    }

    /// Translates the block that an operator runs, in the scope of the block around it; returns its outputs.
    pub(super) fn inner(&mut self, block: usize, scope: &mut Scope<'m>) -> Step<Vec<Value>> {
        let around = self.dialect.tensors.bases.len();
        let versions: Vec<u64> =
            self.dialect.tensors.bases.iter().map(|base| base.version).collect();
        self.enter(block, scope)?;
        let now = self.dialect.tensors.bases.iter().take(around).map(|base| base.version);
        if !now.eq(versions) {
            return Err(
                "a subgraph writes to a tensor outside of it, which is not supported".into()
            );
        }
        let names = self.program.blocks.get(block).map_or(&[][..], |own| &own.outputs);
        let mut results = Vec::new();
        for name in names {
            results.push(match self.item(name, scope)? {
                Item::Tensor(value) | Item::Number(value) => value,
                item @ Item::Constant(_) => {
                    let number =
                        item.number().ok_or("a subgraph returns a constant that is no number")?;
                    let mut node =
                        Node::new(&mut self.graph, &EMPTY, Arguments::new(&EMPTY, Vec::new()));
                    node.number_of(number.dtype(), number)?
                }
                Item::Absent => return Err("a subgraph returns `None`".into()),
                Item::Complex(_) => return Err("a subgraph returns a complex tensor".into()),
            });
        }
        Ok(results)
    }

    /// Translates the block that an operator runs into the operators around it; returns what its outputs stand for.
    pub(super) fn inlined(&mut self, block: usize, scope: &mut Scope<'m>) -> Step<Vec<Bound<'m>>> {
        self.enter(block, scope)?;
        let names = self.program.blocks.get(block).map_or(&[][..], |own| &own.outputs);
        names.iter().map(|name| scope.item(name).cloned()).collect()
    }

    /// Returns the state of the translation, to return to it.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            ops: self.graph.ops.len(),
            blocks: self.blocks.len(),
            bases: self.dialect.tensors.bases.clone(),
            findings: self.findings.clone(),
        }
    }

    /// Whether something was found since.
    pub(super) fn has_findings_since(&self, mark: &Mark) -> bool {
        self.findings.count() != mark.findings.count()
    }

    /// Drops what was translated since, and what it wrote to tensors; returns the findings that there were.
    pub(super) fn back_to(&mut self, mark: &Mark) -> Findings {
        self.graph.ops.truncate(mark.ops);
        self.blocks.truncate(mark.blocks);
        self.dialect.tensors.bases.clone_from(&mark.bases);
        std::mem::replace(&mut self.findings, mark.findings.clone())
    }
}
