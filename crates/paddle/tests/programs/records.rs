//! Files of several records without names: every selection of variables gets its own values.

use lodstone_model::{DType, Dim, Program, TensorType, Var};
use lodstone_paddle::executor::{Dirs, Executor, Scope};
use lodstone_paddle::program::{
    LoadOptions, Network, Placement, SaveOptions, Variable, load, save,
};

use super::{singles, values};

/// Variables of one shape, so that only their order distinguishes them.
fn alike() -> (Program, Scope, Vec<Variable>) {
    let mut program = Network::new().main;
    let (mut scope, mut vars) = (Scope::default(), Vec::new());
    for (number, name) in (1u8..).zip(["a", "b", "c"]) {
        let value = TensorType::new(DType::Float32, Some(vec![Dim::Known(1)])).into();
        let var = Var { name: name.to_owned(), value, persistable: true, ..Var::default() };
        program.blocks[0].vars.push(var);
        scope.set(name, singles(&[1], |_| f32::from(number)));
        vars.push(Variable::named(name));
    }
    (program, scope, vars)
}

/// Returns every selection of some of three variables, in every order.
fn choices(vars: &[Variable]) -> Vec<Vec<Variable>> {
    let mut choices = vec![Vec::new()];
    for _ in vars {
        let longer = |chosen: &Vec<Variable>| {
            let rest = vars.iter().filter(|var| !chosen.contains(var));
            rest.map(|var| [chosen.as_slice(), std::slice::from_ref(var)].concat())
                .collect::<Vec<_>>()
        };
        let more: Vec<_> = choices.iter().flat_map(longer).collect();
        choices.extend(more);
        choices
            .sort_by_key(|names| names.iter().map(|var| var.name().to_owned()).collect::<Vec<_>>());
        choices.dedup();
    }
    choices.retain(|chosen| !chosen.is_empty());
    choices
}

#[test]
fn every_choice_of_variables_is_loaded_with_its_own_values() {
    let placements = [
        Placement::Each,
        Placement::Combined("all".to_owned()),
        Placement::Merged("all".to_owned()),
    ];
    let (program, scope, vars) = alike();
    assert_eq!(choices(&vars).len(), 15);
    for (placement, saved) in
        placements.iter().flat_map(|it| choices(&vars).into_iter().map(move |c| (it, c)))
    {
        let dir = tempfile::tempdir().unwrap();
        let dirs = Dirs::one(dir.path());
        let mut saver = program.clone();
        let options = SaveOptions::default().with_placement(placement.clone());
        // Two groups in one file, so that its records need not be sorted.
        let (first, rest) =
            saved.split_at(if matches!(placement, Placement::Merged(_)) { 1 } else { 0 });
        for group in [first, rest].iter().filter(|group| !group.is_empty()) {
            save(&mut saver, group, "p", &options).unwrap();
        }
        Executor::default().run(&saver, &mut scope.clone(), &[], &[], &dirs).unwrap();

        for chosen in choices(&vars) {
            let loads = LoadOptions::default().with_placement(placement.clone());
            let what = format!("{chosen:?} of {saved:?}, {placement:?}");
            let mut loader = Network::new().main;
            let is_there = chosen.iter().all(|var| saved.contains(var));
            let is_all = is_there && chosen.len() == saved.len();
            let appended = load(&mut loader, &chosen, &saver, "p", &loads);
            match placement {
                Placement::Each => {}
                Placement::Combined(_) => {
                    assert_eq!(appended.is_ok(), is_all, "{what}: {appended:?}")
                }
                Placement::Merged(_) => {
                    assert_eq!(appended.is_ok(), is_there, "{what}: {appended:?}")
                }
            }
            if appended.is_err() {
                assert_eq!(loader, Network::new().main, "{what}");
                continue;
            }
            let mut fresh = Scope::default();
            let ran = Executor::default().run(&loader, &mut fresh, &[], &[], &dirs);
            assert_eq!(ran.is_ok(), is_there, "{what}: {ran:?}");
            for var in chosen.iter().filter(|_| is_there) {
                let value = |scope: &Scope| values(scope.tensor(var.name()).unwrap());
                assert_eq!(value(&fresh), value(&scope), "{what}");
            }
            // Without the program that saved it, the caller must pass the order of a merged file.
            let unknown = load(&mut Network::new().main, &chosen, &program, "p", &loads);
            assert_eq!(unknown.is_err(), matches!(placement, Placement::Merged(_)), "{what}");
        }
    }
}

#[test]
fn an_ambiguous_order_of_records_is_refused() {
    let (program, _, vars) = alike();
    let options = SaveOptions::default().with_placement(Placement::Merged("m".into()));
    let loads = LoadOptions::default().with_placement(Placement::Merged("m".into()));
    let refused = |saver: &Program, loads: &LoadOptions, what: &str| {
        let error = load(&mut Network::new().main, &vars[..1], saver, "", loads).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    };
    let mut twice = program.clone();
    save(&mut twice, &vars, "", &options).unwrap();
    save(&mut twice, &vars[..1], "", &options).unwrap();
    refused(&twice, &loads, "`a` to it twice");

    let mut over = program.clone();
    save(&mut over, &vars, "", &options).unwrap();
    let combined = options.with_placement(Placement::Combined("m".into()));
    save(&mut over, &vars, ".", &combined).unwrap();
    refused(&over, &loads, "overwrite");

    let records = Some(vec!["a".to_owned(), "b".to_owned(), "a".to_owned()]);
    refused(&program, &loads.with_records(records), "several records of variable `a`");
}

#[test]
fn merged_files_have_operators_that_paddlepaddle_rejects() {
    let (mut program, _, vars) = alike();
    let merged = Placement::Merged("all".to_owned());
    let options = SaveOptions::default().with_placement(merged.clone());
    save(&mut program, &vars, "", &options).unwrap();
    let mut loader = Network::new().main;
    let options = LoadOptions::default().with_placement(merged);
    load(&mut loader, &vars, &program, "", &options).unwrap();
    let ops = program.ops().chain(loader.ops());
    for op in ops {
        let kind = op.kind.as_str();
        assert!(matches!(kind, "lodstone.save_merged" | "lodstone.load_merged"), "{kind}");
        assert_eq!(lodstone_schema::paddle::operator(kind).unwrap().releases.len(), 0);
    }
}

#[test]
fn files_of_earlier_versions_are_saved_and_loaded() {
    // They had PaddlePaddle's operators with an attribute that PaddlePaddle ignores.
    let (mut program, mut scope, vars) = alike();
    let merged = Placement::Merged("all".to_owned());
    save(&mut program, &vars, "", &SaveOptions::default().with_placement(merged.clone())).unwrap();
    let mut loader = Network::new().main;
    load(&mut loader, &vars, &program, "", &LoadOptions::default().with_placement(merged)).unwrap();
    for program in [&mut program, &mut loader] {
        for op in program.blocks.iter_mut().flat_map(|block| &mut block.ops) {
            op.kind = op.kind.replace("lodstone.", "").replace("_merged", "");
            let value = lodstone_model::AttributeValue::Bool(true);
            op.attributes.push(lodstone_model::Attribute { name: "merged".to_owned(), value });
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let dirs = Dirs::one(dir.path());
    Executor::default().run(&program, &mut scope, &[], &[], &dirs).unwrap();
    let mut other = Scope::default();
    Executor::default().run(&loader, &mut other, &[], &[], &dirs).unwrap();
    for var in &vars {
        let [saved, loaded] = [&scope, &other].map(|it| values(it.tensor(var.name()).unwrap()));
        assert_eq!(saved, loaded);
    }
}

#[test]
fn any_tensor_is_saved() {
    let mut net = Network::new();
    let x = lodstone_paddle::program::layers::data(&mut net, "x", &[Some(1)], DType::Float32);
    let y = lodstone_paddle::program::layers::scale(&mut net, &x, 2.0, 0.0).unwrap();
    save(&mut net.main, std::slice::from_ref(&y), "", &SaveOptions::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let feed = [("x", singles(&[1], |_| 3.0))];
    let dirs = Dirs::one(dir.path());
    Executor::default().run(&net.main, &mut Scope::default(), &feed, &[], &dirs).unwrap();
    let mut loader = Network::new().main;
    load(&mut loader, std::slice::from_ref(&y), &net.main, "", &LoadOptions::default()).unwrap();
    let mut scope = Scope::default();
    Executor::default().run(&loader, &mut scope, &[], &[], &dirs).unwrap();
    assert_eq!(values(scope.tensor(y.name()).unwrap()), [6.0]);
}

#[test]
fn programs_are_saved_in_new_directories_and_missing_ones_are_named() {
    use lodstone_paddle::program::{Form, load_program, save_program};
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("a/b/c");
    save_program(&Network::new().main, below.as_path(), Form::Text).unwrap();
    assert!(load_program(below.as_path()).is_ok());
    let error = load_program(dir.path()).unwrap_err().to_string();
    assert!(error.contains("`__model__` or `__model__.txt`"), "{error}");
}
