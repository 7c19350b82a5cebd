//! A lowering reports the origin of every value of the main graph, there and back.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests fail so")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use lodstone::model::Dialect;
use lodstone::{Model, open};
use lodstone_lowering::lower;
use lodstone_model::{Op, Report};
use lodstone_schema::Origin;

fn files() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden");
    let folders = ["glow", "glow_run"].map(|name| golden.join(name));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    files.map(|file| file.unwrap().path()).filter(|path| path.is_file()).collect()
}

/// Returns the names of all values of the main graph.
fn values(model: &Model) -> HashSet<String> {
    let main = &model.main().unwrap().blocks[0];
    let parameters = model.parameters.iter().map(|parameter| &parameter.name);
    let given = main.inputs.iter().chain(parameters).map(String::as_str);
    main.ops.iter().flat_map(Op::writes).chain(given).map(str::to_owned).collect()
}

/// Returns the number of values that remained values, and of those that became constants; each must exist.
fn lowered(model: &mut Model, to: Dialect) -> Option<(usize, usize)> {
    let source = model.clone();
    let origins = lower(model, to, &mut Report::default())?.ok()?;
    let there = values(model);
    let (mut kept, mut folded) = (0, 0);
    for name in values(&source) {
        match origins.of(0, &name) {
            Origin::Value(value) => {
                assert!(there.contains(&*value), "`{name}` became `{value}`, which is not there");
                kept += 1;
            }
            Origin::Folded(_) => folded += 1,
            Origin::Removed => {}
        }
    }
    for name in &source.main().unwrap().blocks[0].outputs {
        let origin = origins.of(0, name);
        assert!(matches!(origin, Origin::Value(_)), "the output `{name}` became {origin:?}");
    }
    Some((kept, folded))
}

#[test]
fn every_value_of_a_lowered_program_has_an_origin() {
    let (mut there, mut back, mut constants) = (0, 0, 0);
    for path in files() {
        let Ok(mut model) = open(&path) else { continue };
        if model.main().is_none_or(|program| program.dialect != Dialect::Glow) {
            continue;
        }
        let Some((kept, _)) = lowered(&mut model, Dialect::Onnx) else { continue };
        assert!(kept > 0, "{}", path.display());
        there += 1;
        let Some((kept, folded)) = lowered(&mut model, Dialect::Glow) else { continue };
        assert!(kept > 0, "{}", path.display());
        constants += folded;
        back += 1;
    }
    assert!(there > 50 && back > 50 && constants > 0, "{there} {back} {constants}");
}
