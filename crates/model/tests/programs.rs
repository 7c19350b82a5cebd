//! The programs of a model.

use lodstone_model::{Dialect, Model, Program, Programs};

#[test]
fn names_are_unique_and_keep_their_order() {
    let [paddle, onnx, glow] = [Dialect::Paddle, Dialect::Onnx, Dialect::Glow].map(Program::new);
    let mut programs = Programs::from(paddle.clone());
    assert_eq!(programs.insert(Programs::STARTUP, onnx.clone()), None);
    assert_eq!(programs.insert(Programs::MAIN, glow.clone()), Some(paddle.clone()));
    let names: Vec<&str> = programs.iter().map(|(name, _)| name).collect();
    assert_eq!(names, [Programs::MAIN, Programs::STARTUP]);
    assert_eq!(programs.main(), Some(&glow));
    assert_eq!(programs.remove(Programs::MAIN), Some(glow));
    assert_eq!(programs.remove(Programs::MAIN), None);
    assert_eq!(programs.get(Programs::STARTUP), Some(&onnx));

    let mut model = Model { programs, ..Model::default() };
    assert_eq!(model.main(), None);
    model.set_main(paddle.clone());
    assert_eq!(model.main(), Some(&paddle));
    assert_eq!(model.programs.iter().count(), 2);
    assert_eq!(model.programs.into_main(), Some(paddle));
}
