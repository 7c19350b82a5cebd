//! Removes results of `prim::If` that nothing reads: variables of branches that only they use.

use std::collections::HashSet;

use lodstone_model::{AttributeValue, Block};

/// Removes results that nothing reads, and what only they need, from the last operator to the first.
pub(super) fn prune(blocks: &mut [Block]) {
    loop {
        let read: HashSet<String> = blocks
            .iter()
            .flat_map(|block| {
                let read = block.ops.iter().flat_map(|op| op.reads());
                read.chain(block.outputs.iter().map(String::as_str)).map(str::to_owned)
            })
            .collect();
        let mut removed = Vec::new();
        for op in blocks.iter_mut().flat_map(|block| &mut block.ops) {
            let inner = match op.attribute("blocks") {
                Some(AttributeValue::Blocks(inner)) if op.kind == "prim::If" => inner.clone(),
                _ => continue,
            };
            let Some(output) = op.outputs.first_mut() else { continue };
            let kept: Vec<bool> = output.args.iter().map(|name| read.contains(name)).collect();
            if kept.contains(&false) {
                keep(&mut output.args, &kept);
                removed.push((inner, kept));
            }
        }
        if removed.is_empty() {
            return;
        }
        for (inner, kept) in removed {
            for index in inner {
                let block = usize::try_from(index).ok().and_then(|index| blocks.get_mut(index));
                if let Some(block) = block {
                    keep(&mut block.outputs, &kept);
                }
            }
        }
    }
}

fn keep(names: &mut Vec<String>, kept: &[bool]) {
    let mut kept = kept.iter();
    names.retain(|_| kept.next().copied().unwrap_or(true));
}
