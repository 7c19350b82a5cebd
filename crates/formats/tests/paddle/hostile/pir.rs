//! Hostile programs of PaddlePaddle 3.

use crate::generate::Kind::{Length, Nesting, Path, Shape, Twice};
use crate::generate::fields::{self, as_it_is, lies};
use crate::generate::{DEEP, Hostile, MALFORMED, PATHS, alone, file, nested};

const FILE: &str = "model.json";

pub(crate) fn paddle_pir() -> Vec<Hostile> {
    let honest = file("paddle/3.3.1/pir/net.json");
    let fields = fields::json(&honest, 0);
    let made = lies(&honest, &fields, as_it_is);
    let mut all: Vec<Hostile> = alone(FILE, made, |_| None)
        .map(|it| {
            it.perhaps("numbers of attributes, versions, and ids of results that nothing reads")
        })
        .collect();
    let op = |kind, what: &str, op: &str| Hostile::new(kind, what, FILE, program(op).into_bytes());
    for (what, operands) in [
        ("a later value", "[{\"%\":2}]"),
        ("no value", "[{\"%\":99}]"),
        ("an argument", "[{\"%\":-1}]"),
    ] {
        let text = relu(operands, "");
        all.push(op(Length, what, &text).refused(MALFORMED, &["produced before it is read"]));
    }
    all.push(op(Length, "an operand that is no number", &relu("[{\"%\":\"x\"}]", "")));
    all.push(op(Length, "no regions", "@").refused(MALFORMED, &["a PIR program"]));
    for dim in ["1e9", "99999999999999999999", "[1]", "null"] {
        let text = relu("[{\"%\":1}]", "").replace("[2,3]", &format!("[{dim}]"));
        all.push(op(Shape, dim, &text).refused(MALFORMED, &["a type"]));
    }
    all.push(
        op(Shape, "-9", &relu("[{\"%\":1}]", "").replace("[2,3]", "[-9]"))
            .readable("a negative dim is unknown"),
    );
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = nested(open, DEEP, close);
        for key in ["A", "OA", "regions", "kwargs"] {
            let rest = format!(",\"{key}\":{deep}");
            let hostile = op(Nesting, &format!("{open} in {key}"), &relu("[{\"%\":1}]", &rest));
            all.push(match key {
                "kwargs" if open == "[" => {
                    hostile.readable("an unknown key of an operator is ignored")
                }
                _ => hostile,
            });
        }
        let attribute = format!(",\"A\":[{{\"N\":\"a\",\"AT\":{{\"#\":\"other\",\"D\":{deep}}}}}]");
        all.push(op(Nesting, &format!("{open} in a value"), &relu("[{\"%\":1}]", &attribute)));
    }
    let array = nested("{\"#\":\"0.a_array\",\"D\":[", DEEP, "]}");
    let attribute = format!(",\"A\":[{{\"N\":\"a\",\"AT\":{array}}}]");
    all.push(op(Nesting, "arrays", &relu("[{\"%\":1}]", &attribute)));
    let region = relu("[]", ",\"regions\":[{\"blocks\":[{\"ops\":[@]}]}]");
    let mut regions = "".to_owned();
    for _ in 0..200 {
        regions = region.replace('@', &regions);
    }
    all.push(op(Nesting, "regions", &regions));
    let twice = relu("[{\"%\":1}]", "");
    all.push(
        op(Twice, "an id", &format!("{twice},{twice}")).refused(MALFORMED, &["ids of their own"]),
    );
    for (key, value) in [("I", "[]"), ("#", "\"1.tanh\""), ("O", "[]")] {
        let text = relu("[{\"%\":1}]", &format!(",\"{key}\":{value}"));
        all.push(op(Twice, key, &text).refused(MALFORMED, &["duplicate field"]));
    }
    for (path, _) in PATHS {
        let name = serde_json::to_string(path).expect("JSON");
        let reason = "names of values are not files; where they become files, they are rejected";
        let data = format!(
            r##"{{"#":"1.data","I":[],"A":[{{"N":"name","AT":{{"#":"0.a_str","D":{name}}}}}],"O":[{{"%":5,{TYPE}}}]}}"##
        );
        all.push(op(Path, path, &data).readable(reason));
    }
    all
}

const TYPE: &str = r##""TT":{"#":"0.t_dtensor","D":[{"#":"0.t_f32"},[2,3],"NCHW",[],0]}"##;

fn relu(operands: &str, rest: &str) -> String {
    format!(r##"{{"#":"1.relu","I":{operands},"O":[{{"%":2,{TYPE}}}]{rest}}}"##)
}

/// Returns a program with an input of id 1 and other operators.
fn program(ops: &str) -> String {
    if ops == "@" {
        return r#"{"base_code":{"magic":"pir","version":4},"program":{}}"#.to_owned();
    }
    let data = format!(r##"{{"#":"1.data","A":[],"I":[],"O":[{{"%":1,{TYPE}}}]}}"##);
    format!(
        r#"{{"base_code":{{"magic":"pir","version":4}},"program":{{"regions":[{{"blocks":[{{"args":[],"ops":[{data},{ops}]}}]}}]}}}}"#
    )
}
