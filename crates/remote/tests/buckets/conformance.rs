//! Object stores pass the conformance tests.

#![expect(clippy::print_stdout, reason = "names the case that fails")]

use lodstone_conformance::CASES;

use super::each;

#[test]
fn object_stores_conform() {
    for directory in ["", "some/where"] {
        for (number, case) in CASES.iter().enumerate() {
            println!("{}", case.name);
            each(&format!("conformance/{number}/{directory}"), |open| {
                open().create_dir().unwrap();
                (case.check)(&open());
                open().remove_dir(&Default::default()).unwrap();
            });
        }
    }
}

#[test]
fn the_root_of_an_object_store_conforms() {
    for case in CASES {
        println!("{}", case.name);
        (case.check)(&super::in_memory(&Default::default()));
    }
}
