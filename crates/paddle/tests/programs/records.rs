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
