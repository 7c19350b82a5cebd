//! Operators that run together: chains of element-wise operators, and the epilogue of a product.

use std::collections::{HashMap, HashSet};

use super::{Frame, Implementation, Mode, Node, Path, Registers};
use crate::context::Context;
use crate::error::Result;
use crate::fast::{EpilogueArguments, PackedConstants};
use crate::fused::{Chain, EpilogueStep, Producer};
use crate::layout::ordered;
use crate::operator::Operator;
use crate::tensor::Order;
use crate::value::Value;

/// The maximum number of operators in one pass.
const MAX_CHAIN: usize = 64;

/// Operators that run together: one, or several in one pass where possible.
pub(super) struct Group {
    pub(super) nodes: Vec<Node>,
    /// The operators after one with packed constants that the group begins with, or all operators, unless they are always
    /// its epilogue.
    chain: Option<Chain>,
    epilogue: Option<FusedEpilogue>,
}

/// The operators after one with packed constants, if they are only `Add`, and `Relu` or `Clip` with constant limits.
struct FusedEpilogue {
    /// The register of the result.
    result: usize,
    /// The register of what is added.
    added: Option<usize>,
    limits: Option<[f32; 2]>,
}

/// The operator with packed constants that a group begins with.
struct Head<'p> {
    node: &'p Node,
    operator: &'p Operator,
    packed: &'p PackedConstants,
}

/// Groups operators that can run in the same pass: an operator that works on each element joins the last one that it reads,
/// if their results have the same dims.
pub(super) fn grouped(nodes: Vec<Node>, mode: Mode) -> Vec<Group> {
    let nodes = if mode == Mode::Fast { postponed(nodes) } else { nodes };
    let mut groups: Vec<Group> = Vec::new();
    // The group that computes each register.
    let mut owners: HashMap<usize, usize> = HashMap::new();
    for node in nodes {
        let last = node.inputs.iter().flatten().filter_map(|input| owners.get(input)).max();
        let joined = last.copied().filter(|at| {
            let group = groups.get(*at);
            mode == Mode::Fast && group.is_some_and(|group| group.accepts(&node))
        });
        let at = joined.unwrap_or(groups.len());
        owners.extend(node.outputs.iter().flatten().map(|register| (*register, at)));
        match groups.get_mut(at) {
            Some(group) => group.nodes.push(node),
            None => groups.push(Group { nodes: vec![node], chain: None, epilogue: None }),
        }
    }
    groups
}

/// Moves operators with packed constants to the operator that reads them, if only that reads them, and it also reads what is
/// computed later: then both run in one pass.
fn postponed(nodes: Vec<Node>) -> Vec<Node> {
    let mut readers: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut owners: HashMap<usize, usize> = HashMap::new();
    for (number, node) in nodes.iter().enumerate() {
        for register in node.inputs.iter().flatten().chain(&node.captured) {
            readers.entry(*register).or_default().push(number);
        }
        owners.extend(node.outputs.iter().flatten().map(|register| (*register, number)));
    }
    let reader = |number: usize, node: &Node| {
        let [Some(results)] = node.outputs[..] else { return None };
        if !node.is_packed() {
            return None;
        }
        let [reader] = readers.get(&results)?.as_slice() else { return None };
        let fits = |link: &&Node| link.is_link() && link.dims.is_some() && link.dims == node.dims;
        let link = nodes.get(*reader).filter(fits)?;
        let last = link.inputs.iter().flatten().filter_map(|input| owners.get(input)).max()?;
        let is_later = *last > number && nodes.get(*last).is_some_and(|it| !it.is_packed());
        is_later.then_some(*reader)
    };
    // An operator comes before its reader, and after all others that do.
    let place = |(number, node): (usize, &Node)| match reader(number, node) {
        Some(reader) => (reader, 0),
        None => (number, 1),
    };
    let places: Vec<(usize, usize)> = nodes.iter().enumerate().map(place).collect();
    let mut nodes: Vec<_> = places.into_iter().zip(nodes).collect();
    nodes.sort_by_key(|(place, _)| *place);
    nodes.into_iter().map(|(_, node)| node).collect()
}

/// Returns the limits of the results of `Relu`, or of `Clip` if they are constant.
fn limits(node: &Node, constants: &Registers) -> Option<[f32; 2]> {
    let constant = |at: usize, unlimited: f32| {
        let Some(register) = node.inputs.get(at).copied().flatten() else { return Some(unlimited) };
        let limit = constants.get(register)?.as_ref()?.dense().ok()?;
        match ordered(limit, Order::RowMajor).ok()?[..] {
            [limit] if !limit.is_nan() => Some(limit),
            _ => None,
        }
    };
    match node.operator()?.epilogue? {
        EpilogueStep::Relu => Some([0.0, f32::INFINITY]),
        EpilogueStep::Clip => Some([constant(1, f32::NEG_INFINITY)?, constant(2, f32::INFINITY)?]),
        EpilogueStep::Sum => None,
    }
}

/// Returns the operators after `head` as its epilogue, if they can be one.
fn fused_epilogue(
    head: &Node,
    links: &[Node],
    released: &HashSet<usize>,
    constants: &Registers,
) -> Option<FusedEpilogue> {
    let single = |node: &Node| match node.outputs[..] {
        [Some(results)] => Some(results),
        _ => None,
    };
    let (mut result, mut added, mut rest) = (single(head)?, None, links);
    if let [add, others @ ..] = links
        && add.operator().and_then(|it| it.epilogue) == Some(EpilogueStep::Sum)
        && let [Some(left), Some(right)] = add.inputs[..]
        && released.contains(&result)
    {
        added = match (left == result, right == result) {
            (true, false) => Some(right),
            (false, true) => Some(left),
            _ => return None,
        };
        (result, rest) = (single(add)?, others);
    }
    let limits = match rest {
        [] => None,
        [link] if link.inputs.first() == Some(&Some(result)) && released.contains(&result) => {
            let limits = limits(link, constants)?;
            result = single(link)?;
            Some(limits)
        }
        _ => return None,
    };
    Some(FusedEpilogue { result, added, limits })
}

impl Group {
    /// Returns whether an operator can run in the same pass.
    fn accepts(&self, node: &Node) -> bool {
        let Some(first) = self.nodes.first() else { return false };
        self.nodes.len() < MAX_CHAIN
            && node.is_link()
            && (self.head().is_some() || first.is_link())
            && node.dims.is_some()
            && node.dims == first.dims
    }

    /// Returns whether the operators run in one pass.
    pub(super) fn is_chain(&self) -> bool {
        self.chain.is_some()
    }

    /// Returns the operator with packed constants that the group begins with.
    fn head(&self) -> Option<Head<'_>> {
        let node = self.nodes.first()?;
        match &node.implementation {
            Implementation::Kernel(operator, Path::Packed(packed)) => {
                Some(Head { node, operator, packed })
            }
            _ => None,
        }
    }

    /// Joins the operators after the first, if its constants are packed, or all operators, in a chain.
    pub(super) fn fuse(&mut self, constants: &Registers) {
        let links = self.nodes.get(usize::from(self.head().is_some())..).unwrap_or_default();
        if links.is_empty() || !links.iter().all(Node::is_link) {
            return;
        }
        let released: HashSet<usize> =
            self.nodes.iter().flat_map(|node| node.last.iter().copied()).collect();
        self.epilogue =
            self.head().and_then(|head| fused_epilogue(head.node, links, &released, constants));
        if self.epilogue.as_ref().is_some_and(|it| it.added.is_none()) {
            return;
        }
        let links = links.iter().map(|node| {
            let outputs: Option<Vec<usize>> = node.outputs.iter().copied().collect();
            Some((node.rule()?, &node.inputs[..], outputs?))
        });
        self.chain = links
            .collect::<Option<Vec<_>>>()
            .and_then(|links| Chain::of(links, |register| !released.contains(&register)));
    }

    /// Runs an operator with packed constants and the chain after it, each part of the result as soon as it is computed.
    /// Returns `None` if they must run one after the other.
    fn run_fused(&self, frame: &Frame, context: Context<'_>) -> Result<Option<(usize, Value)>> {
        let Some(Head { node: first, operator, packed }) = self.head() else { return Ok(None) };
        let run = || {
            let (x, shaped) = first.shaped(packed, frame, context)?;
            if let Some(FusedEpilogue { result, added, limits }) = self.epilogue {
                let dense = |register| frame.value(register)?.dense();
                let tensor = added.and_then(|register| dense(register).ok());
                let arguments = EpilogueArguments { added: tensor, limits };
                if tensor.is_some() == added.is_some() && shaped.supports(arguments) {
                    let nothing = |_: usize, _: &mut [f32]| Ok(());
                    let results = first.run_packed(
                        operator,
                        (x, shaped),
                        arguments,
                        nothing,
                        frame,
                        context,
                    )?;
                    return Ok(Some((result, results)));
                }
            }
            let Some(chain) = &self.chain else { return Ok(None) };
            let (Some(register), [Some(result)]) = (chain.single_result(), &first.outputs[..])
            else {
                return Ok(None);
            };
            if !self.nodes.iter().any(|node| node.last.contains(result)) {
                return Ok(None);
            }
            let (dims, order) = shaped.result();
            let producer = Producer { register: *result, dims, order };
            let Some(bound) = chain.bind(&frame.registers, Some(producer))? else {
                return Ok(None);
            };
            let finish_block =
                |begin: usize, results: &mut [f32]| bound.apply_in_place(begin, results);
            let epilogue = EpilogueArguments::default();
            let results =
                first.run_packed(operator, (x, shaped), epilogue, finish_block, frame, context)?;
            Ok(Some((register, results)))
        };
        run().map_err(|finding| first.failed(finding))
    }

    /// Returns the kinds of the operators, and the name of the first one.
    pub(super) fn label(&self) -> (String, String) {
        let kinds: Vec<&str> = self.nodes.iter().map(|node| node.op.kind.as_str()).collect();
        let name = self.nodes.first().map(|node| match node.op.name.as_str() {
            "" => node.op.writes().next().unwrap_or_default(),
            name => name,
        });
        (kinds.join("+"), name.unwrap_or_default().to_owned())
    }

    pub(super) fn run(&self, frame: &mut Frame, context: Context<'_>) -> Result<()> {
        let mut rest = &self.nodes[..];
        let mut results = self.run_fused(frame, context)?.map(|results| vec![results]);
        if let (None, Some(chain)) = (&results, &self.chain) {
            if let (Some(_), Some((first, links))) = (self.head(), rest.split_first()) {
                first.run(frame, context)?;
                rest = links;
            }
            results = chain.run(&frame.registers, &frame.buffers, context.threads)?;
        }
        let Some(results) = results else {
            return rest.iter().try_for_each(|node| node.run(frame, context));
        };
        for node in rest {
            context.step()?;
            frame.release(&node.last)?;
        }
        for (register, value) in results {
            frame.put(register, value)?;
        }
        Ok(())
    }
}
