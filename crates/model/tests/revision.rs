//! Revisions: programs of equal revisions are equal, regardless of the operations between.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ops::DerefMut;

use lodstone_model::{Block, Dialect, Program, Topology};

fn program() -> Program {
    Topology { blocks: vec![Block::default()], ..Topology::new(Dialect::Paddle) }.into()
}

#[test]
fn every_mutable_access_creates_a_new_revision() {
    let mut program = program();
    let edits: [fn(&mut Program); 7] = [
        |program| program.blocks[0].index = 1,
        |program| program.dialect = Dialect::Onnx,
        |program| drop(program.blocks.pop()),
        |program| program.residual.clear(),
        |program| drop(std::mem::replace(program.deref_mut(), Topology::new(Dialect::Glow))),
        |program| *program = Program::new(Dialect::Glow),
        |program| program.version.iter_mut().for_each(|version| *version += 1),
    ];
    let mut seen = vec![program.revision()];
    for edit in edits {
        edit(&mut program);
        assert!(!seen.contains(&program.revision()));
        seen.push(program.revision());
    }
}

#[test]
fn reads_keep_the_revision() {
    let program = program();
    let revision = program.revision();
    assert_eq!(program.blocks.len(), 1);
    assert_eq!(program.ops().count(), 0);
    assert_eq!(program.revision(), revision);
    let moved = Box::new(program);
    assert_eq!(moved.revision(), revision);
}

#[test]
fn a_clone_has_the_revision_until_one_of_the_two_is_changed() {
    let mut program = program();
    let revision = program.revision();
    let mut clone = program.clone();
    assert_eq!(clone.revision(), revision);
    clone.blocks.first_mut().unwrap().index = 2;
    assert_ne!(clone.revision(), revision);
    assert_eq!(program.revision(), revision);
    program.blocks.first_mut().unwrap().index = 2;
    assert_eq!(program, clone);
    assert_ne!(program.revision(), clone.revision());
    // Swapped programs keep their revisions.
    let [of_program, of_clone] = [program.revision(), clone.revision()];
    std::mem::swap(&mut program, &mut clone);
    assert_eq!([program.revision(), clone.revision()], [of_clone, of_program]);
}

#[test]
fn revisions_of_dropped_programs_are_not_reused() {
    let mut seen = Vec::new();
    for _ in 0..1000 {
        let revision = program().revision();
        assert!(!seen.contains(&revision));
        seen.push(revision);
    }
}
