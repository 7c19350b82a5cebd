//! Damaged PaddlePaddle programs: each becomes a valid ONNX program, or an error with a place, in time that is linear in
//! the number of operators.

#![expect(clippy::unwrap_used, reason = "tests fail so")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use lodstone_lowering::lower;
use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Dialect, Dim, Holder, Model, Op, Operand,
    Parameter, Program, Report, Tensor, TensorType, Topology, ValueType, Var,
};
use lodstone_schema::finding::Code;
use lodstone_schema::onnx::check;
use lodstone_store::Blob;

type Slots<'a> = &'a [(&'a str, &'a [&'a str])];

fn operands(slots: Slots<'_>) -> Vec<Operand> {
    let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect();
    slots
        .iter()
        .map(|(slot, names)| Operand { slot: (*slot).to_owned(), args: args(names) })
        .collect()
}

fn op(
    kind: &str,
    inputs: Slots<'_>,
    outputs: Slots<'_>,
    attributes: &[(&str, AttributeValue)],
) -> Op {
    let attribute = |(name, value): &(&str, AttributeValue)| Attribute {
        name: (*name).to_owned(),
        value: value.clone(),
    };
    Op {
        kind: kind.to_owned(),
        inputs: operands(inputs),
        outputs: operands(outputs),
        attributes: attributes.iter().map(attribute).collect(),
        ..Op::default()
    }
}

fn unary(kind: &str, x: &str, out: &str) -> Op {
    op(kind, &[("X", &[x])], &[("Out", &[out])], &[])
}

fn feed(name: &str, column: i32) -> Op {
    let column = ("col", AttributeValue::Int(column));
    op("feed", &[("X", &["feed"])], &[("Out", &[name])], &[column])
}

fn fetch(name: &str, column: i32) -> Op {
    let column = ("col", AttributeValue::Int(column));
    op("fetch", &[("X", &[name])], &[("Out", &["fetch"])], &[column])
}

/// Declares a tensor; a dim of -1 is unknown.
fn var(name: &str, dtype: DType, dims: &[i64]) -> Var {
    let dim = |dim: &i64| u64::try_from(*dim).map_or(Dim::Unknown, Dim::Known);
    let value = TensorType::new(dtype, Some(dims.iter().map(dim).collect())).into();
    Var { name: name.to_owned(), value, ..Var::default() }
}

fn floats(name: &str, dims: &[i64]) -> Var {
    var(name, DType::Float32, dims)
}

fn holder(name: &str, holder: Holder) -> Var {
    Var { name: name.to_owned(), value: holder.into(), persistable: true, ..Var::default() }
}

fn array(name: &str) -> Var {
    let of = TensorType::new(DType::Float32, None);
    let value = ValueType::Holder(Holder::TensorArray(of));
    Var { name: name.to_owned(), value, ..Var::default() }
}

/// Creates a program of blocks; those after the first have the given parents.
fn model(blocks: Vec<(i32, Vec<Var>, Vec<Op>)>) -> Model {
    let blocks = blocks.into_iter().zip(0..).map(|((parent, mut vars, ops), index)| {
        if index == 0 {
            vars.push(holder("feed", Holder::FeedList));
            vars.push(holder("fetch", Holder::FetchList));
        }
        Block { index, parent, vars, ops, ..Block::default() }
    });
    let program = Program::from(Topology {
        version: Some(2_006_002),
        blocks: blocks.collect(),
        ..Topology::new(Dialect::Paddle)
    });
    let mut model = Model::default();
    model.set_main(program);
    model
}

/// A program of one block with the input `x` and the output `y`.
fn straight(mut vars: Vec<Var>, ops: Vec<Op>) -> Model {
    vars.extend([floats("x", &[2, 3]), floats("y", &[2, 3])]);
    let ops = [vec![feed("x", 0)], ops, vec![fetch("y", 0)]].concat();
    model(vec![(-1, vars, ops)])
}

fn with_parameter(mut model: Model, name: &str, tensor: Tensor) -> Model {
    let mut program = model.main().unwrap().clone();
    for var in program.blocks.iter_mut().flat_map(|block| &mut block.vars) {
        var.persistable |= var.name == name;
    }
    model.set_main(program);
    model.parameters.push(Parameter { name: name.to_owned(), tensor });
    model
}

fn zeros(dtype: DType, shape: &[u64]) -> Tensor {
    let size = usize::try_from(dtype.size_of(shape).unwrap()).unwrap();
    Tensor::dense(dtype, shape.to_vec(), Blob::memory(vec![0; size]))
}

/// Exports a program.
fn export(model: &Model) -> Result<Model, String> {
    let mut made = model.clone();
    match lower(&mut made, Dialect::Onnx, &mut Report::default()).unwrap() {
        Ok(_) => Ok(made),
        Err(error) => {
            let located = &error.findings.located;
            assert!(located.iter().all(|it| it.finding.code != Code::Internal), "{error}");
            Err(error.to_string())
        }
    }
}

/// Describes what is wrong with the answer to a program. `wanted` is a part of the error, or empty if the result must be
/// valid.
fn wrong(model: &Model, wanted: Option<&str>) -> Option<String> {
    let answer = match catch_unwind(AssertUnwindSafe(|| export(model))) {
        Ok(answer) => answer,
        Err(_) => return Some("panics".to_owned()),
    };
    match (answer, wanted) {
        (Ok(made), None | Some("")) => {
            let findings = check(&made);
            (!findings.is_empty()).then(|| format!("is invalid: {:?}", findings.located))
        }
        (Ok(_), Some(wanted)) => Some(format!("expected an error with `{wanted}`")),
        (Err(error), Some("")) => Some(error),
        (Err(error), Some(wanted)) if !error.contains(wanted) => Some(error),
        (Err(error), _) if !error.contains("the ") && !error.contains("operator ") => {
            Some(format!("no place: {error}"))
        }
        (Err(_), _) => None,
    }
}

/// Fails if the answer to a program is not the expected one.
fn check_all(cases: Vec<(&str, Model, Option<&str>)>) {
    let wrong = |(name, model, wanted): &(&str, Model, Option<&str>)| {
        Some(format!("{name}: {}", wrong(model, *wanted)?))
    };
    let all: Vec<String> = cases.iter().filter_map(wrong).collect();
    assert!(all.is_empty(), "{} of {} fail:\n{}", all.len(), cases.len(), all.join("\n"));
}

fn block(number: i32) -> (&'static str, AttributeValue) {
    ("sub_block", AttributeValue::Block(number))
}

fn repeat(condition: &str, number: i32) -> Op {
    let outputs: Slots<'_> = &[("Out", &["y"]), ("StepScopes", &["scopes"])];
    op("while", &[("X", &["x"]), ("Condition", &[condition])], outputs, &[block(number)])
}

fn branch(number: i32) -> Op {
    let scalar = ("is_scalar_condition", AttributeValue::Bool(true));
    let inputs: Slots<'_> = &[("Cond", &["c"]), ("Input", &["x"])];
    op("conditional_block", inputs, &[("Out", &["y"])], &[block(number), scalar])
}

fn fill(out: &str, dims: &[i64], dtype: i32) -> Op {
    let shape = ("shape", AttributeValue::Longs(dims.to_vec()));
    let attributes =
        [shape, ("dtype", AttributeValue::Int(dtype)), ("value", AttributeValue::Float(1.0))];
    op("fill_constant", &[], &[("Out", &[out])], &attributes)
}

/// The code of Boolean elements.
const BOOL: i32 = 0;
const INT64: i32 = 3;
const FLOAT32: i32 = 5;

/// A program whose main block makes a condition and runs an operator; the other blocks have these parents and operators.
fn running(op: Op, inner: Vec<(i32, Vec<Op>)>) -> Model {
    let vars = vec![floats("x", &[2, 3]), floats("y", &[2, 3]), var("c", DType::Bool, &[1])];
    let ops = vec![feed("x", 0), unary("relu", "x", "y"), fill("c", &[1], BOOL), op, fetch("y", 0)];
    let inner = inner.into_iter().map(|(parent, ops)| (parent, Vec::new(), ops));
    model(std::iter::once((-1, vars, ops)).chain(inner).collect())
}

#[test]
fn broken_blocks_are_answered() {
    let relu = || vec![unary("relu", "x", "y")];
    let ends = || vec![unary("relu", "y", "y"), fill("c", &[1], BOOL)];
    check_all(vec![
        ("a branch", running(branch(1), vec![(0, relu())]), Some("")),
        ("a loop", running(repeat("c", 1), vec![(0, ends())]), Some("")),
        (
            "a block that contains itself",
            running(branch(1), vec![(0, vec![branch(1)])]),
            Some("operator 0 (`conditional_block`)"),
        ),
        ("a loop in itself", running(repeat("c", 1), vec![(0, vec![repeat("c", 1)])]), None),
        ("the main block in itself", running(branch(0), vec![]), Some("(`conditional_block`)")),
        (
            "a parent after the block",
            running(branch(1), vec![(2, relu()), (0, relu())]),
            Some("another parent"),
        ),
        (
            "a parent that does not exist",
            running(branch(1), vec![(77, relu())]),
            Some("another parent"),
        ),
        ("a negative parent", running(branch(1), vec![(-7, relu())]), Some("another parent")),
        (
            "a block that is its own parent",
            running(branch(1), vec![(1, relu())]),
            Some("another parent"),
        ),
        (
            "blocks that contain each other",
            running(branch(1), vec![(0, vec![branch(2)]), (1, vec![branch(1)])]),
            Some("another parent"),
        ),
        ("a block that does not exist", running(branch(9), vec![]), Some("does not exist")),
        ("a negative block", running(repeat("c", -1), vec![]), Some("(`while`)")),
        ("no block", running(op("while", &[("Condition", &["c"])], &[], &[]), vec![]), None),
        (
            "one block twice",
            {
                let mut twice = running(branch(1), vec![(0, relu())]);
                let mut program = twice.main().unwrap().clone();
                let main = program.blocks.first_mut().unwrap();
                let again = main.ops.get(3).unwrap().clone();
                main.ops.insert(4, again);
                twice.set_main(program);
                twice
            },
            Some(""),
        ),
        (
            "a loop without a condition",
            running(
                op("while", &[("X", &["x"])], &[("Out", &["y"])], &[block(1)]),
                vec![(0, ends())],
            ),
            Some("`while`"),
        ),
        ("a condition that no operator writes", running(repeat("d", 1), vec![(0, ends())]), None),
        (
            "a condition that never changes",
            running(repeat("c", 1), vec![(0, relu())]),
            Some("would not end"),
        ),
        (
            "a condition of many elements",
            running(
                repeat("x", 1),
                vec![(0, vec![unary("relu", "x", "x"), unary("relu", "x", "y")])],
            ),
            None,
        ),
        ("a block that is empty", running(branch(1), vec![(0, vec![])]), Some("")),
        ("a loop that is empty", running(repeat("c", 1), vec![(0, vec![])]), Some("would not end")),
        (
            "a loop whose variable changes its type",
            running(
                repeat("c", 1),
                vec![(0, vec![fill("y", &[2, 3], INT64), fill("c", &[1], BOOL)])],
            ),
            Some("`while`"),
        ),
        (
            "a loop whose variable changes its rank",
            running(
                repeat("c", 1),
                vec![(0, vec![fill("y", &[2, 3, 1], FLOAT32), fill("c", &[1], BOOL)])],
            ),
            None,
        ),
        (
            "an unknown operator in a loop",
            running(
                repeat("c", 1),
                vec![(0, vec![unary("no_such", "x", "y"), fill("c", &[1], BOOL)])],
            ),
            Some("block 1, operator 0 (`no_such`)"),
        ),
        (
            "an undeclared name in a loop",
            running(
                repeat("c", 1),
                vec![(0, vec![unary("relu", "nothing", "y"), fill("c", &[1], BOOL)])],
            ),
            None,
        ),
    ]);
}

#[test]
fn broken_variables_are_answered() {
    let relu = || unary("relu", "x", "y");
    let index = || fill("i", &[1], INT64);
    let long = || var("i", DType::Int64, &[1]);
    let select =
        |x: &[&str]| op("select_input", &[("X", x), ("Mask", &["i"])], &[("Out", &["y"])], &[]);
    let read = || op("read_from_array", &[("X", &["a"]), ("I", &["i"])], &[("Out", &["y"])], &[]);
    let write = || op("write_to_array", &[("X", &["x"]), ("I", &["i"])], &[("Out", &["a"])], &[]);
    let join = |axis: i32| {
        op(
            "tensor_array_to_tensor",
            &[("X", &["a"])],
            &[("Out", &["y"]), ("OutIndex", &["s"])],
            &[("axis", AttributeValue::Int(axis))],
        )
    };
    let sizes = || var("s", DType::Int32, &[-1]);
    let linear = |dims: &[u64], dtype: DType, declared: &[i64]| {
        let matmul = op("mul", &[("X", &["x"]), ("Y", &["w"])], &[("Out", &["y"])], &[]);
        with_parameter(straight(vec![floats("w", declared)], vec![matmul]), "w", zeros(dtype, dims))
    };
    let named = |name: &str| {
        straight(
            vec![floats(name, &[2, 3])],
            vec![unary("relu", "x", name), unary("exp", name, "y")],
        )
    };
    let mut cases = vec![
        (
            "nothing to choose",
            straight(vec![long()], vec![index(), select(&[])]),
            Some("`select_input`"),
        ),
        ("one choice", straight(vec![long()], vec![index(), select(&["x"])]), Some("")),
        (
            "choices that hold nothing",
            straight(vec![long(), floats("z", &[2])], vec![index(), select(&["x", "z"])]),
            None,
        ),
        (
            "an array that is read before it is written",
            straight(vec![long(), array("a")], vec![index(), read()]),
            None,
        ),
        (
            "an array that is read",
            straight(vec![long(), array("a")], vec![index(), write(), read()]),
            Some(""),
        ),
        (
            "an array that is a tensor",
            straight(
                vec![long(), floats("a", &[2])],
                vec![index(), unary("relu", "x", "a"), write(), read()],
            ),
            None,
        ),
        (
            "a tensor that is an array",
            straight(vec![long(), array("a")], vec![index(), write(), unary("relu", "a", "y")]),
            None,
        ),
        (
            "an array that is joined",
            straight(vec![long(), array("a"), sizes()], vec![index(), write(), join(1)]),
            Some(""),
        ),
        (
            "an array that is joined along a large axis",
            straight(vec![long(), array("a"), sizes()], vec![index(), write(), join(i32::MAX)]),
            None,
        ),
        (
            "an array that is joined along a negative axis",
            straight(vec![long(), array("a"), sizes()], vec![index(), write(), join(i32::MIN)]),
            None,
        ),
        (
            "an index of floats",
            straight(vec![long(), array("a")], vec![fill("i", &[2, 3], FLOAT32), write(), read()]),
            None,
        ),
        ("an undeclared input", straight(vec![], vec![unary("relu", "nothing", "y")]), None),
        (
            "an undeclared output",
            straight(vec![], vec![unary("relu", "x", "nothing"), relu()]),
            None,
        ),
        (
            "a variable that is read before it is written",
            straight(
                vec![floats("z", &[2, 3])],
                vec![unary("relu", "z", "y"), unary("exp", "x", "z")],
            ),
            None,
        ),
        (
            "a variable that is declared twice",
            straight(vec![floats("y", &[5]), var("x", DType::Int64, &[7])], vec![relu()]),
            None,
        ),
        (
            "operators in a cycle",
            straight(
                vec![floats("z", &[2, 3])],
                vec![unary("relu", "z", "y"), unary("exp", "y", "z")],
            ),
            None,
        ),
        (
            "an operator that reads itself",
            straight(
                vec![floats("z", &[2, 3])],
                vec![unary("relu", "z", "z"), unary("exp", "z", "y")],
            ),
            None,
        ),
        ("a parameter", linear(&[3, 3], DType::Float32, &[3, 3]), Some("")),
        (
            "a parameter of other dims",
            linear(&[5, 3], DType::Float32, &[3, 3]),
            Some("operator 1 (`mul`)"),
        ),
        (
            "a parameter of another rank",
            linear(&[3], DType::Float32, &[3, 3]),
            Some("operator 1 (`mul`)"),
        ),
        (
            "a parameter of another type",
            linear(&[3, 3], DType::Int8, &[3, 3]),
            Some("operator 1 (`mul`)"),
        ),
        ("a parameter without elements", linear(&[3, 0], DType::Float32, &[3, 3]), None),
        (
            "an input of another kind",
            {
                let mut broken = straight(vec![], vec![relu()]);
                let mut program = broken.main().unwrap().clone();
                program.blocks[0]
                    .vars
                    .iter_mut()
                    .filter(|var| var.name == "x")
                    .for_each(|var| var.value = array("x").value);
                broken.set_main(program);
                broken
            },
            None,
        ),
        (
            "a parameter that does not exist",
            straight(
                vec![Var { persistable: true, ..floats("w", &[2, 3]) }],
                vec![unary("relu", "w", "y")],
            ),
            Some("`w`"),
        ),
        (
            "a slot without variables",
            straight(vec![], vec![op("relu", &[("X", &[])], &[("Out", &["y"])], &[])]),
            Some("operator 0 (`relu`)"),
        ),
        (
            "a slot of another name",
            straight(vec![], vec![op("relu", &[("Z", &["x"])], &[("Out", &["y"])], &[])]),
            Some("operator 1 (`relu`)"),
        ),
        (
            "an output slot of another name",
            straight(vec![], vec![op("relu", &[("X", &["x"])], &[("Z", &["y"])], &[])]),
            None,
        ),
        (
            "a variable in two outputs",
            straight(
                vec![],
                vec![op(
                    "split",
                    &[("X", &["x"])],
                    &[("Out", &["y", "y"])],
                    &[("num", AttributeValue::Int(2)), ("axis", AttributeValue::Int(0))],
                )],
            ),
            None,
        ),
        (
            "an output that is fetched twice",
            model(vec![(
                -1,
                vec![floats("x", &[2]), floats("y", &[2])],
                vec![feed("x", 0), relu(), fetch("y", 0), fetch("y", 1)],
            )]),
            Some(""),
        ),
        (
            "an input that is an output",
            model(vec![(-1, vec![floats("x", &[2])], vec![feed("x", 0), fetch("x", 0)])]),
            Some(""),
        ),
        (
            "an input that is two outputs",
            model(vec![(
                -1,
                vec![floats("x", &[2])],
                vec![feed("x", 0), fetch("x", 0), fetch("x", 1)],
            )]),
            Some(""),
        ),
        (
            "an input that is fed twice",
            model(vec![(
                -1,
                vec![floats("x", &[2]), floats("y", &[2])],
                vec![feed("x", 0), feed("x", 1), relu(), fetch("y", 0)],
            )]),
            None,
        ),
        (
            "a parameter that is an output",
            with_parameter(
                model(vec![(-1, vec![floats("w", &[2])], vec![fetch("w", 0)])]),
                "w",
                zeros(DType::Float32, &[2]),
            ),
            Some(""),
        ),
        (
            "a parameter that is two outputs",
            with_parameter(
                model(vec![(-1, vec![floats("w", &[2])], vec![fetch("w", 0), fetch("w", 1)])]),
                "w",
                zeros(DType::Float32, &[2]),
            ),
            Some(""),
        ),
        (
            "no operator",
            model(vec![(-1, vec![floats("x", &[2])], vec![])]),
            Some("computes nothing"),
        ),
        ("no block", model(vec![]), Some("the program")),
        ("only an input", model(vec![(-1, vec![floats("x", &[2])], vec![feed("x", 0)])]), Some("")),
        (
            "an output that no operator writes",
            model(vec![(
                -1,
                vec![floats("x", &[2]), floats("y", &[2])],
                vec![feed("x", 0), fetch("y", 0)],
            )]),
            None,
        ),
    ];
    for name in [
        "",
        "a/b",
        "größe 中文 🚀",
        "relu_Relu",
        "constant",
        "block",
        "x.lod0",
        "main",
        "\u{0}0",
        "relu_Relu_1",
        "@EMPTY@",
        "feed",
    ] {
        cases.push((name, named(name), None));
    }
    check_all(cases);
}

#[test]
fn names_of_generated_values_do_not_clash() {
    for name in ["relu_Relu", "constant", "block", "x.lod0", "relu_Relu_1", "a/b", "größe 中文"]
    {
        let vars = vec![floats(name, &[2, 3]), floats("z", &[2, 3])];
        let ops =
            vec![unary("relu", "x", name), unary("relu", name, "z"), unary("hard_swish", "z", "y")];
        let mut made = straight(vars, ops);
        let mut program = made.main().unwrap().clone();
        program.blocks[0].ops.push(fetch(name, 1));
        made.set_main(program);
        assert_eq!(wrong(&made, Some("")), None, "{name}");
        let outputs = export(&made).unwrap().main().unwrap().blocks[0].outputs.clone();
        assert_eq!(outputs, ["y", name]);
    }
}

/// Extreme values of an attribute.
fn extremes() -> Vec<AttributeValue> {
    let mut all = Vec::new();
    for value in [i32::MIN, i32::MAX, -1, 0, 1, 1 << 30] {
        all.extend([AttributeValue::Int(value), AttributeValue::Ints(vec![value; 2])]);
        all.push(AttributeValue::Ints(vec![value; 4]));
    }
    for value in [i64::MIN, i64::MAX, -(1 << 62), 1 << 32, -1, 0] {
        all.extend([AttributeValue::Long(value), AttributeValue::Longs(vec![value; 2])]);
    }
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 0.0, -1.0] {
        all.extend([AttributeValue::Float(value), AttributeValue::Floats(vec![value; 2])]);
    }
    all.extend([AttributeValue::Bool(true), AttributeValue::Bool(false)]);
    all.extend([AttributeValue::Ints(Vec::new()), AttributeValue::Doubles(vec![f64::NAN])]);
    all.extend(
        ["", "nonsense", "SAME", "NHWC"].map(|text| AttributeValue::String(ByteString::from(text))),
    );
    all
}

#[test]
fn extreme_attributes_dims_and_types_are_answered() {
    let rules = lodstone_lowering::rules(Dialect::Paddle);
    let mut kinds: Vec<&str> = rules.iter().map(|rule| rule.kind).collect();
    kinds.sort_unstable();
    let shapes: [&[i64]; 6] =
        [&[], &[0], &[-1], &[2, 3], &[-1, -1, -1, -1], &[i64::MAX, 1 << 62, 2, 1 << 40]];
    let mut wrongs = Vec::new();
    let mut count = 0;
    for kind in kinds.iter().filter(|kind| !kind.ends_with("_grad")) {
        let Some(row) = lodstone_schema::paddle::operator(kind) else { continue };
        let slots =
            |slots: &[lodstone_schema::paddle::Slot], prefix: &str| -> Vec<(String, String)> {
                slots
                    .iter()
                    .map(|slot| (slot.name.to_owned(), format!("{prefix}{}", slot.name)))
                    .collect()
            };
        let (inputs, outputs) = (slots(&row.inputs, "in_"), slots(&row.outputs, "out_"));
        let Some((_, out)) = outputs.first() else { continue };
        let operand = |(slot, name): &(String, String)| Operand {
            slot: slot.clone(),
            args: vec![name.clone()],
        };
        let mut base = op(kind, &[], &[], &[]);
        base.inputs = inputs.iter().map(operand).collect();
        base.outputs = outputs.iter().map(operand).collect();
        let mut tries: Vec<(String, Op)> = vec![("plain".to_owned(), base.clone())];
        for parameter in lodstone_schema::paddle::attributes(kind) {
            for value in extremes() {
                let mut op = base.clone();
                let what = format!("{} is {value:?}", parameter.name);
                op.attributes = vec![Attribute { name: parameter.name.to_owned(), value }];
                tries.push((what, op));
            }
        }
        for (number, (what, op)) in tries.into_iter().enumerate() {
            // Each attribute is tried with some of the shapes.
            for (place, shape) in shapes.iter().enumerate() {
                if number > 0 && (number + place) % 3 != 0 {
                    continue;
                }
                let dtype = if number % 5 == 4 { DType::Int64 } else { DType::Float32 };
                let mut vars: Vec<Var> =
                    inputs.iter().map(|(_, name)| var(name, dtype, shape)).collect();
                vars.extend(outputs.iter().map(|(_, name)| floats(name, &[-1])));
                let mut ops: Vec<Op> =
                    inputs.iter().zip(0..).map(|((_, name), at)| feed(name, at)).collect();
                ops.push(op.clone());
                ops.push(fetch(out, 0));
                count += 1;
                if let Some(wrong) = wrong(&model(vec![(-1, vars, ops)]), None) {
                    wrongs.push(format!("{kind} of {shape:?}, {what}: {wrong}"));
                }
            }
        }
    }
    assert!(
        wrongs.is_empty(),
        "{} of {count} fail:\n{}",
        wrongs.len(),
        wrongs[..wrongs.len().min(60)].join("\n")
    );
    assert!(count > 50_000, "{count}");
}

/// Nested loops, each in the block of the one around it.
fn nested(depth: usize) -> Model {
    let vars = vec![floats("x", &[2, 3]), floats("y", &[2, 3]), var("c", DType::Bool, &[1])];
    let depth = i32::try_from(depth).unwrap();
    let begin = vec![feed("x", 0), unary("relu", "x", "y"), fill("c", &[1], BOOL)];
    let mut blocks = vec![(-1, vars, [begin, vec![repeat("c", 1), fetch("y", 0)]].concat())];
    for number in 1..=depth {
        let mut ops = vec![unary("relu", "y", "y"), fill("c", &[1], BOOL)];
        if number < depth {
            ops.push(repeat("c", number + 1));
        }
        blocks.push((number - 1, Vec::new(), ops));
    }
    model(blocks)
}

#[test]
fn deeply_nested_loops_are_answered() {
    assert_eq!(wrong(&nested(8), Some("")), None);
    assert_eq!(wrong(&nested(60), None), None);
    assert_eq!(wrong(&nested(64), None), None);
    assert_eq!(wrong(&nested(200), Some("nested deeper")), None);
    // Loops whose variables change their dims are translated several times.
    let mut growing = nested(40);
    let mut program = growing.main().unwrap().clone();
    for block in program.blocks.iter_mut().skip(1) {
        let axis = ("axis", AttributeValue::Int(0));
        block.ops[0] = op("concat", &[("X", &["y", "y"])], &[("Out", &["y"])], &[axis]);
    }
    growing.set_main(program);
    assert_eq!(wrong(&growing, None), None);
}

/// Many operators, each of which reads the result of the one before.
fn chain(count: usize, fetches: bool) -> Model {
    let name = |number: usize| format!("v{number}");
    let (mut vars, mut ops) =
        (vec![floats("x", &[2, 3])], vec![feed("x", 0), unary("relu", "x", "v0")]);
    for number in 0..count {
        vars.push(floats(&name(number), &[2, 3]));
        if number > 0 {
            let kind = ["relu", "sigmoid", "hard_swish", "softmax"][number % 4];
            ops.push(unary(kind, &name(number - 1), &name(number)));
        }
    }
    for number in (0..count).filter(|number| fetches || number + 1 == count) {
        ops.push(fetch(&name(number), i32::try_from(number).unwrap()));
    }
    model(vec![(-1, vars, ops)])
}

/// That the work is linear is tested by counting steps (`cargo xtask steps`).
#[test]
fn many_operators_are_exported() {
    for fetches in [false, true] {
        assert_eq!(wrong(&chain(10_000, fetches), None), None, "{fetches}");
    }
}
