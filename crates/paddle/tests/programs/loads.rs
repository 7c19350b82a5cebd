//! Files of PaddlePaddle that are loaded in part, or as half precision, give the same results as in PaddlePaddle
//! (`golden/make_paddle_loads.py`).

use std::path::Path;

use lodstone_formats::{OpenOptions, numpy};
use lodstone_model::{DType, Program};
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_paddle::program::{Network, Operator, Variable};
use lodstone_store::Location;

fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/paddle_loads")
}

/// A program of one operator over a variable of any type.
fn program(operator: Operator) -> Program {
    let mut program = Network::new().main;
    let block = &mut program.blocks[0];
    block.vars.push(lodstone_model::Var {
        name: "x".to_owned(),
        persistable: true,
        ..lodstone_model::Var::default()
    });
    block.ops.push(operator.finish().unwrap());
    program
}

fn load(path: &str) -> Operator {
    Operator::new("load").output("Out", [&Variable::named("x")]).attribute("file_path", path)
}

#[test]
fn parts_and_halves_are_those_of_paddlepaddle() {
    let dirs = Dirs::one(golden());
    let results =
        (numpy::NPZ.read)(&Location::from(&golden().join("loads.npz")), &OpenOptions::default())
            .unwrap();
    let part = |seek: i64, shape: Vec<i64>| {
        load("whole").attribute("seek", seek).attribute("shape", shape)
    };
    let loads = [
        ("whole", load("whole")),
        ("of_half", load("half")),
        ("as_half", load("whole").attribute("load_as_fp16", true)),
        ("part", part(5, vec![2, 3])),
        ("none", part(16, vec![0])),
    ];
    for (name, operator) in loads {
        let (wanted, mut scope) = (results.parameter(name).unwrap(), Scope::default());
        Executor::default().run(&program(operator), &mut scope, &[], &[], &dirs).unwrap();
        let found = scope.tensor("x").unwrap();
        assert_eq!((found.dtype, &found.shape), (wanted.dtype, &wanted.shape), "{name}");
        assert_eq!(found.data.bytes().unwrap(), wanted.data.bytes().unwrap(), "{name}");
    }
    for beyond in [part(11, vec![2, 3]), part(i64::MAX, vec![1]), part(0, vec![-1])] {
        let mut scope = Scope::default();
        let error = Executor::default().run(&program(beyond), &mut scope, &[], &[], &dirs);
        assert!(error.unwrap_err().to_string().contains("`load`"));
    }
}

#[test]
fn halves_are_saved_as_paddlepaddle_saves_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut scope = Scope::default();
    Executor::default()
        .run(&program(load("whole")), &mut scope, &[], &[], &Dirs::one(golden()))
        .unwrap();
    assert_eq!(scope.tensor("x").unwrap().dtype, DType::Float32);
    let save = Operator::new("save").input("X", [&Variable::named("x")]);
    for (name, half) in [("whole", false), ("half", true)] {
        let save = save.clone().attribute("file_path", name).attribute("save_as_fp16", half);
        let dirs = Dirs::one(dir.path());
        Executor::default().run(&program(save), &mut scope, &[], &[], &dirs).unwrap();
        let [found, wanted] =
            [dir.path(), &golden()].map(|dir| std::fs::read(dir.join(name)).unwrap());
        assert_eq!(found, wanted, "{name}");
    }
}
