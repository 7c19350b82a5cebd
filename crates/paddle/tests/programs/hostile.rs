//! Hostile programs: each is rejected with an error that names the operator or the variable, before anything is
//! changed.

use std::fs;
use std::path::Path;

use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Dialect, Dim, Op, Operand, Program,
    TensorType, Topology, ValueType, Var,
};
use lodstone_paddle::executor::{Dirs, Executor, Prepared, Scope};
use lodstone_paddle::program::{
    LoadOptions, Network, Placement, SaveOptions, Variable, load, persistables, save,
};
use lodstone_schema::finding::Code;

use super::{digits, longs, singles, started};

fn int(name: &str, value: i32) -> Attribute {
    Attribute { name: name.to_owned(), value: AttributeValue::Int(value) }
}

fn block_of(block: i32) -> Attribute {
    Attribute { name: "sub_block".to_owned(), value: AttributeValue::Block(block) }
}

fn text(name: &str, value: &str) -> Attribute {
    let value = AttributeValue::String(ByteString::from(value));
    Attribute { name: name.to_owned(), value }
}

fn operand(slot: &str, names: &[&str]) -> Operand {
    Operand { slot: slot.to_owned(), args: names.iter().map(|name| (*name).to_owned()).collect() }
}

/// `kind(slot: a b) -> slot: c`
fn op(
    kind: &str,
    inputs: &[(&str, &[&str])],
    outputs: &[(&str, &[&str])],
    more: &[Attribute],
) -> Op {
    let operands = |slots: &[(&str, &[&str])]| {
        slots.iter().map(|(slot, names)| operand(slot, names)).collect()
    };
    let (inputs, outputs) = (operands(inputs), operands(outputs));
    Op { kind: kind.to_owned(), inputs, outputs, attributes: more.to_vec(), ..Op::default() }
}

fn var(name: &str, dtype: DType, shape: &[u64]) -> Var {
    let shape = shape.iter().map(|dim| Dim::Known(*dim)).collect();
    let value = ValueType::tensor(TensorType::new(dtype, Some(shape)));
    Var { name: name.to_owned(), value, persistable: name == "kept", ..Var::default() }
}

/// A block inside of another, with variables that all programs may use.
fn block(parent: i32, ops: Vec<Op>) -> Block {
    let vars = [
        var("x", DType::Float32, &[2, 3]),
        var("y", DType::Float32, &[2, 3]),
        var("kept", DType::Float32, &[2, 3]),
        var("flag", DType::Bool, &[1]),
        var("index", DType::Int64, &[1]),
        var("array", DType::Float32, &[]),
    ];
    let vars = if parent < 0 { vars.to_vec() } else { Vec::new() };
    Block { parent, vars, ops, ..Block::default() }
}

fn program(blocks: Vec<Block>) -> Program {
    Program::from(Topology { version: Some(2_006_002), blocks, ..Topology::new(Dialect::Paddle) })
}

/// Runs `x` and `index` through a program; returns the error. The scope and the directory must be unchanged.
fn refused(program: &Program, dir: &Path) -> String {
    let files = || fs::read_dir(dir).unwrap().count();
    let (mut scope, before) = (Scope::default().with_memory(64 << 20), files());
    scope.set("kept", singles(&[2, 3], |_| 7.0));
    let feed = [
        ("x", singles(&[2, 3], |_| 1.0)),
        (
            "flag",
            lodstone_model::Tensor::dense(
                DType::Bool,
                vec![1],
                lodstone_store::Blob::memory(vec![1]),
            ),
        ),
        ("index", longs(&[1], &[-1])),
    ];
    let result = Executor::default().run(program, &mut scope, &feed, &[], &Dirs::one(dir));
    let error = result.expect_err("the program is hostile");
    assert!(error.finding().is_none_or(|finding| finding.code != Code::Internal), "{error}");
    assert_eq!(scope.names().collect::<Vec<_>>(), ["kept"], "{error}");
    assert!(super::values(scope.tensor("kept").unwrap()).iter().all(|value| *value == 7.0));
    assert_eq!(files(), before, "{error}");
    error.to_string()
}

#[test]
fn hostile_programs_are_rejected_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let spoil = || op("relu", &[("X", &["x"])], &[("Out", &["kept"])], &[]);
    let relu = |x: &str, y: &str| op("relu", &[("X", &[x])], &[("Out", &[y])], &[]);
    let runs = |number: i32| op("while", &[("Condition", &["flag"])], &[], &[block_of(number)]);
    let one = |op: Op| program(vec![block(-1, vec![spoil(), op])]);
    let saving = |path: &str| op("save", &[("X", &["x"])], &[], &[text("file_path", path)]);
    let loading = |path: &str| op("load", &[], &[("Out", &["kept"])], &[text("file_path", path)]);
    let array =
        |kind: &str| op(kind, &[("X", &["x"]), ("I", &["index"])], &[("Out", &["array"])], &[]);
    let table: Vec<(&str, Program, &str)> = vec![
        ("no blocks", program(Vec::new()), "no blocks"),
        ("runs itself", program(vec![block(-1, vec![spoil(), runs(0)])]), "block 0"),
        (
            "two run each other",
            program(vec![block(-1, vec![runs(1)]), block(0, vec![runs(0)])]),
            "operator 0 (`while`)",
        ),
        (
            "two operators run one block",
            program(vec![block(-1, vec![runs(1), runs(1)]), block(0, vec![])]),
            "operator 1 (`while`)",
        ),
        ("no such block", one(runs(9)), "does not exist"),
        ("a block before the first", one(runs(-3)), "does not exist"),
        (
            "a loop without a block",
            one(op("while", &[("Condition", &["flag"])], &[], &[])),
            "block",
        ),
        (
            "a loop without an end",
            program(vec![block(-1, vec![spoil(), runs(1)]), block(0, vec![relu("x", "y")])]),
            "`flag`",
        ),
        (
            "a loop of many truths",
            program(vec![
                block(
                    -1,
                    vec![spoil(), op("while", &[("Condition", &["x"])], &[], &[block_of(1)])],
                ),
                block(0, vec![relu("y", "x")]),
            ]),
            "6 elements",
        ),
        ("a parent behind it", program(vec![block(-1, vec![]), block(5, vec![])]), "parent 5"),
        ("a variable that no block declares", one(relu("x", "nobody")), "`nobody`"),
        ("a variable that nothing writes", one(relu("y", "kept")), "`y` in `X` has no value"),
        ("an unknown operator", one(op("conjure", &[], &[], &[])), "conjure"),
        (
            "several unknown operators",
            program(vec![block(-1, vec![op("b", &[], &[], &[]), op("a", &[], &[], &[])])]),
            "a, b",
        ),
        ("an operator without inputs", one(op("relu", &[], &[("Out", &["y"])], &[])), "`X`"),
        (
            "dims that do not fit",
            one(op("mul", &[("X", &["x"]), ("Y", &["x"])], &[("Out", &["y"])], &[])),
            "operator 1 (`mul`)",
        ),
        ("a member before the first", one(array("write_to_array")), "found -1"),
        ("a member of what is no array", one(array("read_from_array")), "`read_from_array`"),
        (
            "a choice that is not there",
            one(op(
                "select_input",
                &[("X", &["x"]), ("Mask", &["index"])],
                &[("Out", &["y"])],
                &[],
            )),
            "`select_input`",
        ),
        (
            "more than there is memory",
            one(op(
                "fill_constant",
                &[],
                &[("Out", &["y"])],
                &[
                    int("dtype", 5),
                    Attribute {
                        name: "shape".to_owned(),
                        value: AttributeValue::Longs(vec![1 << 15, 1 << 15]),
                    },
                ],
            )),
            "4294967296 bytes",
        ),
        ("a path out", one(saving("../x")), "`save`"),
        ("a path from the root", one(saving("/lodstone-x")), "`save`"),
        ("a path with a way back", one(saving("a/../../x")), "`save`"),
        ("no path", one(saving("")), "`file_path`"),
        ("a path with a zero", one(saving("a\0b")), "`save`"),
        ("a file outside", one(loading("../../etc/passwd")), "`load`"),
        ("a file that is not there", one(loading("nothing")), "does not exist"),
        ("a directory", one(loading(".")), "`load`"),
    ];
    for (what, program, said) in table {
        let error = refused(&program, dir.path());
        assert!(error.contains(said), "{what}: {error}");
    }
}

#[test]
fn endless_growth_ends() {
    // i += 1; array[i] = x
    let ops = vec![
        op("increment", &[("X", &["index"])], &[("Out", &["index"])], &[]),
        op("write_to_array", &[("X", &["x"]), ("I", &["index"])], &[("Out", &["array"])], &[]),
        op("assign", &[("X", &["flag"])], &[("Out", &["flag"])], &[]),
    ];
    let run = op("while", &[("Condition", &["flag"])], &[], &[block_of(1)]);
    let error = refused(
        &program(vec![block(-1, vec![run]), block(0, ops)]),
        tempfile::tempdir().unwrap().path(),
    );
    assert!(error.contains("block 1, operator 1 (`write_to_array`)"), "{error}");
}

#[test]
fn damaged_parameter_files_change_nothing() {
    let (net, ..) = digits();
    let vars = persistables(&net.main, |_| true);
    let placements =
        [Placement::Each, Placement::Combined("all".to_owned()), Placement::Merged("m".to_owned())];
    for placement in placements {
        let dir = tempfile::tempdir().unwrap();
        let dirs = Dirs::one(dir.path());
        let options = SaveOptions::default().with_placement(placement);
        let mut saver = Program::from(Topology {
            blocks: vec![Block { ops: Vec::new(), ..net.main.blocks[0].clone() }],
            ..net.main.clone().into_topology()
        });
        save(&mut saver, &vars, "p", &options).unwrap();
        Executor::default().run(&saver, &mut started(&net), &[], &[], &dirs).unwrap();
        let mut loader = Network::new().main;
        let placement = options.placement.clone();
        let loads = LoadOptions::default().with_placement(placement);
        load(&mut loader, &vars, &saver, "p", &loads).unwrap();
        let check = |what: &str| {
            let mut scope = Scope::default();
            let error = Executor::default().run(&loader, &mut scope, &[], &[], &dirs).unwrap_err();
            assert!(error.to_string().contains("operator"), "{what}: {error}");
            assert_eq!(scope.names().count(), 0, "{what}: {error}");
        };
        let mut files: Vec<_> =
            fs::read_dir(dir.path().join("p")).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let last = files.last().unwrap();
        let whole = fs::read(last).unwrap();
        for len in [0, 1, 7, whole.len() / 2, whole.len() - 1] {
            fs::write(last, &whole[..len]).unwrap();
            check(&format!("{} cut at {len}", last.display()));
        }
        fs::write(last, [whole.as_slice(), b"more"].concat()).unwrap();
        if options.placement != Placement::Merged("m".to_owned()) {
            check("more than was asked for");
        }
        fs::write(last, &whole).unwrap();
        if let [first, .., last] = files.as_slice() {
            let (a, b) = (fs::read(first).unwrap(), fs::read(last).unwrap());
            fs::write(first, b).unwrap();
            fs::write(last, a).unwrap();
            check("swapped");
        }
    }
    assert_eq!(vars.first().map(Variable::name), Some("batch_norm_0.b_0"));
}

#[test]
fn names_of_variables_cannot_leave_the_directory() {
    let (dir, (mut net, ..)) = (tempfile::tempdir().unwrap(), digits());
    for block in &mut net.main.blocks {
        block.vars.iter_mut().filter(|var| var.name == "fc_0.b_0").for_each(|var| {
            "../../escaped".clone_into(&mut var.name);
        });
    }
    let vars = [Variable::named("../../escaped")];
    let error = save(&mut net.main.clone(), &vars, "p", &SaveOptions::default()).unwrap_err();
    assert!(error.to_string().contains("escaped"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Values that are dropped at the end must not be nested as deep as the number of iterations.
#[test]
fn a_variable_may_be_reshaped_any_number_of_times() {
    let shape = Attribute { name: "shape".to_owned(), value: AttributeValue::Ints(vec![2, 3]) };
    let reshape = op("reshape2", &[("X", &["kept"])], &[("Out", &["kept"])], &[shape]);
    let prepared = Prepared::new(&program(vec![block(-1, vec![reshape])]), &[]).unwrap();
    let mut scope = Scope::default();
    scope.set("kept", singles(&[2, 3], |_| 7.0));
    for _ in 0..50_000 {
        prepared.run(&mut scope, &[], &Dirs::default()).unwrap();
    }
    assert_eq!(super::values(scope.tensor("kept").unwrap()), [7.0; 6]);
}
