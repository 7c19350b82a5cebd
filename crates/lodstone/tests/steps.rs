//! The amount of work for a file, and for an export: twice as many elements of every repeated field of every format, and
//! twice as many operators, take about twice as many steps.
//!
//! A step is a region of code that the compiler counts for coverage; `cargo xtask steps` builds this
//! test with counters.

#![cfg(steps)]
#![expect(clippy::disallowed_methods, reason = "tests write files directly")]
#![expect(unsafe_code, reason = "the counters are the compiler's")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use lodstone::model::{
    Attribute, AttributeValue, Block, Dialect, Holder, Op, Operand, Program, Report, TensorType,
    Topology, ValueType, Var,
};
use lodstone::{
    DType, Dim, InspectOptions, Model, OpenOptions, Progress, ScanOptions, inspect, open, scan,
    verify,
};
use lodstone_formats::repeated;
use lodstone_lowering::lower;

unsafe extern "C" {
    fn __llvm_profile_begin_counters() -> *const u64;
    fn __llvm_profile_end_counters() -> *const u64;
    fn __llvm_profile_reset_counters();
}

/// Returns the number of steps of `work`.
fn steps(work: impl FnOnce()) -> u64 {
    // SAFETY: the counters are an array between these addresses.
    unsafe {
        __llvm_profile_reset_counters();
        work();
        let (begin, end) = (__llvm_profile_begin_counters(), __llvm_profile_end_counters());
        let count = usize::try_from(end.offset_from(begin)).expect("a list");
        std::slice::from_raw_parts(begin, count).iter().sum()
    }
}

/// A kind of file, and a function that makes it with a given number of elements.
struct Growing {
    what: String,
    file: &'static str,
    make: Box<dyn Fn(usize) -> Vec<u8>>,
}

fn growing(
    what: impl Into<String>,
    file: &'static str,
    make: impl Fn(usize) -> Vec<u8> + 'static,
) -> Growing {
    Growing { what: what.into(), file, make: Box::new(make) }
}

fn list(count: usize, separator: &str, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(separator)
}

/// Messages of ONNX and of PaddlePaddle: each repeated field, filled and empty.
fn messages() -> Vec<Growing> {
    let mut all = Vec::new();
    for (fields, file) in repeated().into_iter().zip(["m.onnx", "m.pdmodel"]) {
        for field in fields {
            let field = std::rc::Rc::new(field);
            for filled in [true, false] {
                let how = if filled { "filled" } else { "empty" };
                let what = format!("{file}: {} ({how})", field.name());
                let field = std::rc::Rc::clone(&field);
                all.push(growing(what, file, move |count| field.grown(count, filled)));
            }
        }
    }
    all
}

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}

fn symbol(nodes: &str, arguments: &str, heads: &str, attributes: &str) -> Vec<u8> {
    format!(
        "{{\"nodes\":[{nodes}],\"arg_nodes\":[{arguments}],\"node_row_ptr\":[],\"heads\":[{heads}],\
         \"attrs\":{{\"mxnet_version\":[\"int\",10901]{attributes}}}}}"
    )
    .into_bytes()
}

const VARIABLE: &str = "{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}";

/// JSON formats.
fn texts() -> Vec<Growing> {
    let node = |number: usize| {
        format!("{{\"op\":\"relu\",\"name\":\"n{number}\",\"inputs\":[[{number},0,0]]}}")
    };
    vec![
        growing("safetensors: tensors", "m.safetensors", |count| {
            let tensor = |n: usize| {
                format!(
                    "\"t{n}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{n},{}]}}",
                    n + 1
                )
            };
            safetensors(&format!("{{{}}}", list(count, ",", tensor)), count)
        }),
        growing("safetensors: metadata", "m.safetensors", |count| {
            let entry = |n: usize| format!("\"k{n}\":\"v\"");
            safetensors(&format!("{{\"__metadata__\":{{{}}}}}", list(count, ",", entry)), 0)
        }),
        growing("safetensors: an index", "m.safetensors.index.json", |count| {
            let entry = |n: usize| format!("\"t{n}\":\"m-{n}.safetensors\"");
            format!("{{\"metadata\":{{}},\"weight_map\":{{{}}}}}", list(count, ",", entry))
                .into_bytes()
        }),
        growing("MXNet: nodes", "m-symbol.json", move |count| {
            let nodes = format!("{VARIABLE},{}", list(count, ",", node));
            symbol(&nodes, "0", &format!("[{count},0,0]"), "")
        }),
        growing("MXNet: variables", "m-symbol.json", |count| {
            let variable =
                |n: usize| format!("{{\"op\":\"null\",\"name\":\"v{n}\",\"inputs\":[]}}");
            symbol(&list(count, ",", variable), &list(count, ",", |n| n.to_string()), "[0,0,0]", "")
        }),
        growing("MXNet: inputs of a node", "m-symbol.json", |count| {
            let inputs = list(count, ",", |_| "[0,0,0]".to_owned());
            let nodes = format!(
                "{VARIABLE},{{\"op\":\"add_n\",\"name\":\"n\",\"attrs\":{{\"num_args\":\"{count}\"}},\
                 \"inputs\":[{inputs}]}}"
            );
            symbol(&nodes, "0", "[1,0,0]", "")
        }),
        growing("MXNet: attributes of a node", "m-symbol.json", |count| {
            let attributes = list(count, ",", |n| format!("\"a{n}\":\"v\""));
            let node = format!(
                "{{\"op\":\"relu\",\"name\":\"n\",\"attrs\":{{{attributes}}},\"inputs\":[[0,0,0]]}}"
            );
            symbol(&format!("{VARIABLE},{node}"), "0", "[1,0,0]", "")
        }),
        growing("MXNet: outputs", "m-symbol.json", |count| {
            symbol(VARIABLE, "0", &list(count, ",", |_| "[0,0,0]".to_owned()), "")
        }),
        growing("MXNet: attributes", "m-symbol.json", |count| {
            symbol(VARIABLE, "0", "[0,0,0]", &list(count, "", |n| format!(",\"a{n}\":[\"int\",1]")))
        }),
        growing("PIR: parameters", "m.json", |count| {
            let op = |n: usize| {
                format!(
                    "{{\"#\":\"p\",\"A\":[0,0,0,\"w{n}\"],\"O\":{{\"%\":{n}1,{TYPE}}},\"OA\":[0]}}"
                )
            };
            pir(&list(count, ",", op))
        }),
        growing("PIR: operators", "m.json", |count| {
            let op = |n: usize| {
                let (x, y) = (n + 1, n + 2);
                format!(
                    "{{\"#\":\"1.relu\",\"I\":[{{\"%\":{x}}}],\"O\":[{{\"%\":{y},{TYPE}}}],\"A\":[]}}"
                )
            };
            pir(&format!("{DATA},{}", list(count, ",", op)))
        }),
        growing("PIR: operands", "m.json", |count| {
            let operands = list(count, ",", |_| "{\"%\":1}".to_owned());
            pir(&format!("{DATA},{{\"#\":\"0.combine\",\"I\":[{operands}],\"O\":[],\"A\":[]}}"))
        }),
        growing("PIR: results", "m.json", |count| {
            let results = list(count, ",", |n| format!("{{\"%\":{n}1,{TYPE}}}"));
            pir(&format!("{{\"#\":\"0.split\",\"I\":[],\"O\":[{results}],\"A\":[]}}"))
        }),
        growing("PIR: attributes", "m.json", |count| {
            let attributes = list(count, ",", |n| {
                format!("{{\"N\":\"a{n}\",\"AT\":{{\"#\":\"0.a_i32\",\"D\":1}}}}")
            });
            pir(&format!("{{\"#\":\"1.relu\",\"I\":[],\"O\":[],\"A\":[{attributes}]}}"))
        }),
        growing("PIR: elements of an attribute", "m.json", |count| {
            let elements = list(count, ",", |_| "{\"#\":\"0.a_i64\",\"D\":1}".to_owned());
            let value = format!("{{\"#\":\"0.a_array\",\"D\":[{elements}]}}");
            pir(&format!(
                "{{\"#\":\"1.relu\",\"I\":[],\"O\":[],\"A\":[{{\"N\":\"a\",\"AT\":{value}}}]}}"
            ))
        }),
        growing("PIR: blocks", "m.json", |count| {
            let op = |_| {
                "{\"#\":\"1.if\",\"I\":[],\"O\":[],\"A\":[],\"regions\":[{\"blocks\":[{\"ops\":[]}]}]}".to_owned()
            };
            pir(&list(count, ",", op))
        }),
    ]
}

/// The type of a value in PIR, and an input.
const TYPE: &str = "\"TT\":{\"#\":\"0.t_dtensor\",\"D\":[{\"#\":\"0.t_f32\"},[2,3],\"NCHW\",[],0]}";
const DATA: &str = "{\"#\":\"1.data\",\"I\":[],\"A\":[],\"O\":[{\"%\":1,\"TT\":{\"#\":\"0.t_dtensor\",\"D\":[{\"#\":\"0.t_f32\"},[2,3],\"NCHW\",[],0]}}]}";

/// A PIR program of one block.
fn pir(ops: &str) -> Vec<u8> {
    let program = format!("{{\"regions\":[{{\"blocks\":[{{\"ops\":[{ops}]}}]}}]}}");
    format!("{{\"base_code\":{{\"magic\":\"pir\"}},\"program\":{program}}}").into_bytes()
}

/// An MXNet array: V2, dense, of one number.
fn array() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xf993_fac9u32, 0, 1, 1, 0, 1, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

/// A PaddlePaddle tensor stream with this number of LoD offsets.
fn stream(offsets: usize) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(u64::from(offsets > 0).to_le_bytes());
    if offsets > 0 {
        bytes.extend((offsets as u64 * 8).to_le_bytes());
        (0..offsets as u64).for_each(|offset| bytes.extend(offset.to_le_bytes()));
    }
    bytes.extend([0; 4]);
    bytes.extend(4u32.to_le_bytes());
    bytes.extend([0x08, 5, 0x10, 1]);
    bytes.extend(1f32.to_le_bytes());
    bytes
}

/// Records, members, and values of pickles.
fn records() -> Vec<Growing> {
    let pickle = |body: Vec<u8>| [&b"\x80\x02"[..], &body, b"."].concat();
    let text = |n: usize| {
        let key = format!("k{n}");
        [b"X".to_vec(), (key.len() as u32).to_le_bytes().to_vec(), key.into_bytes()].concat()
    };
    vec![
        growing("MXNet: arrays", "m.params", |count| {
            let mut bytes = [0x112u64, 0, count as u64].map(u64::to_le_bytes).concat();
            (0..count).for_each(|_| bytes.extend(array()));
            bytes.extend((count as u64).to_le_bytes());
            for number in 0..count {
                let name = format!("arg:n{number}");
                bytes.extend((name.len() as u64).to_le_bytes());
                bytes.extend(name.into_bytes());
            }
            bytes
        }),
        growing("PaddlePaddle: records", "m.pdiparams", |count| stream(0).repeat(count)),
        growing("PaddlePaddle: offsets of a level", "m.pdiparams", stream),
        growing("pickle: items of a list", "m.pdparams", move |count| {
            pickle([b"](".to_vec(), b"K\x01".repeat(count), b"e".to_vec()].concat())
        }),
        growing("pickle: pairs of a dict", "m.pdparams", move |count| {
            let pairs = (0..count).flat_map(|n| [text(n), b"K\x01".to_vec()].concat()).collect();
            pickle([b"}(".to_vec(), pairs, b"u".to_vec()].concat())
        }),
        growing("pickle: the memo", "m.pdparams", move |count| {
            let puts = (0..count as u32)
                .flat_map(|n| [&b"K\x01r"[..], &n.to_le_bytes(), b"0j", &n.to_le_bytes()].concat());
            pickle([b"](".to_vec(), puts.collect(), b"e".to_vec()].concat())
        }),
        growing("pickle: imports that nobody allows", "m.pdparams", move |count| {
            let imports = (0..count).flat_map(|n| format!("cevil{n}\ncall\n0").into_bytes());
            pickle([imports.collect::<Vec<u8>>(), b"N".to_vec()].concat())
        }),
        growing("pickles, one after the other", "m.pt", |count| b"\x80\x02N.".repeat(count)),
        growing("ONNX: operators of other sets", "m.onnx", |count| {
            let mut graph = Vec::new();
            for number in 0..count {
                let domain = format!("d{number:06}");
                let node = [&[0x22, 1, b'A', 0x3a, 7][..], domain.as_bytes()].concat();
                graph.extend([0x0a, node.len() as u8]);
                graph.extend(node);
            }
            let mut bytes = vec![8, 8, 0x42, 2, 0x10, 18, 0x3a];
            let mut len = graph.len();
            while len >= 0x80 {
                bytes.push(len as u8 | 0x80);
                len >>= 7;
            }
            bytes.push(len as u8);
            bytes.extend(graph);
            bytes
        }),
        growing("a text program: operators", "m.pbtxt", |count| {
            let op = |n: usize| {
                format!(
                    "ops {{ type: \"relu\" outputs {{ parameter: \"Out\" arguments: \"v{n}\" }} }}"
                )
            };
            format!("blocks {{ idx: 0 parent_idx: -1 {} }}", list(count, "\n", op)).into_bytes()
        }),
    ]
}

/// Does with a file what all commands do.
fn everything(path: &Path) {
    let options = OpenOptions::default();
    if let Ok(model) = open(path) {
        let _ = inspect(&model, &InspectOptions::default());
    }
    let _ = verify(path, &options, &Progress::default());
    let _ = scan(path, &ScanOptions::default());
}

/// Adds a line to `wrong` if twice as many elements take more than about twice the steps.
fn compare(what: &str, taken: &mut dyn FnMut(usize) -> u64, wrong: &mut String) {
    const COUNT: usize = 1 << 10;
    // Lazily initialized values are created before counting.
    taken(1);
    let (base, once, twice) = (taken(1), taken(COUNT), taken(2 * COUNT));
    let (once, twice) = (once.saturating_sub(base), twice.saturating_sub(base));
    assert!(once >= COUNT as u64, "{what}: {once} steps for {COUNT}: it is not read");
    // n log n, and an allowance for costs that do not grow evenly.
    if twice > once * 5 / 2 + 20_000 {
        let _ = writeln!(wrong, "{what}: {once} steps for {COUNT}, {twice} for twice as many");
    }
}

/// A PaddlePaddle program of operators, each of which reads the result of the one before.
fn chain(count: usize, fetches: bool) -> Model {
    let operand = |slot: &str, name: &str| {
        vec![Operand { slot: slot.to_owned(), args: vec![name.to_owned()] }]
    };
    let op = |kind: &str, from: (&str, &str), to: (&str, &str), column: usize| Op {
        kind: kind.to_owned(),
        inputs: operand(from.0, from.1),
        outputs: operand(to.0, to.1),
        attributes: vec![Attribute {
            name: "col".to_owned(),
            value: AttributeValue::Int(i32::try_from(column).expect("few columns")),
        }],
        ..Op::default()
    };
    let name = |number: usize| format!("v{number}");
    let dims = Some(vec![Dim::Known(2), Dim::Known(3)]);
    let value = ValueType::from(TensorType::new(DType::Float32, dims));
    let var = |number| Var { name: name(number), value: value.clone(), ..Var::default() };
    let mut ops = vec![op("feed", ("X", "feed"), ("Out", "v0"), 0)];
    ops.extend((0..count).map(|at| op("relu", ("X", &name(at)), ("Out", &name(at + 1)), 0)));
    let fetched = (1..=count).filter(|at| fetches || *at == count).enumerate();
    ops.extend(fetched.map(|(column, at)| op("fetch", ("X", &name(at)), ("Out", "fetch"), column)));
    let mut vars: Vec<Var> = (0..=count).map(var).collect();
    for (name, holder) in [("feed", Holder::FeedMinibatch), ("fetch", Holder::FetchList)] {
        let value = holder.into();
        vars.push(Var { name: name.to_owned(), value, persistable: true, ..Var::default() });
    }
    let main = Block { parent: -1, vars, ops, ..Block::default() };
    let mut model = Model::default();
    model
        .set_main(Program::from(Topology { blocks: vec![main], ..Topology::new(Dialect::Paddle) }));
    model
}

#[test]
fn twice_as_many_elements_take_twice_the_steps() {
    let mut wrong = String::new();
    for Growing { what, file, make } in messages().into_iter().chain(texts()).chain(records()) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(file);
        let mut taken = |count: usize| {
            fs::write(&path, make(count)).expect("written");
            steps(|| everything(&path))
        };
        compare(&what, &mut taken, &mut wrong);
    }
    for fetches in [false, true] {
        let what = format!("an export: operators, all fetched: {fetches}");
        let mut taken = |count: usize| {
            let mut model = chain(count, fetches);
            steps(|| {
                let lowered = lower(&mut model, Dialect::Onnx, &mut Report::default());
                lowered.expect("a lowering").expect("operators with an equivalent");
            })
        };
        compare(&what, &mut taken, &mut wrong);
    }
    for (what, op) in PIR_OPERATORS {
        let mut taken = |count: usize| {
            let program = pir(&format!("{DATA},{}", list(count, ",", op)));
            let mut model = lodstone::open_bytes(program).expect("a program");
            steps(|| {
                let lowered = lower(&mut model, Dialect::Paddle, &mut Report::default());
                lowered.expect("a lowering").expect("operators with a counterpart");
            })
        };
        compare(&format!("a PIR program: {what}"), &mut taken, &mut wrong);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Repeated operators of PIR programs whose lowering is counted.
const PIR_OPERATORS: [(&str, fn(usize) -> String); 4] = [
    ("operators", |n| pir_op("1.relu", &[1], n, "")),
    ("inputs", |n| {
        let name = format!("{{\"N\":\"name\",\"AT\":{{\"#\":\"0.a_str\",\"D\":\"x{n}\"}}}}");
        pir_op("1.data", &[], n, &name)
    }),
    ("outputs", |n| {
        let name = format!("{{\"N\":\"name\",\"AT\":{{\"#\":\"0.a_str\",\"D\":\"y{n}\"}}}}");
        pir_op("1.fetch", &[1], n, &name)
    }),
    ("constants", |n| {
        let value = "{\"N\":\"value\",\"AT\":{\"#\":\"0.a_f64\",\"D\":1.0}},\
                     {\"N\":\"shape\",\"AT\":{\"#\":\"1.a_intarray\",\"D\":[1]}}";
        pir_op("1.full", &[], n, value)
    }),
];

/// Operator number `n` of a PIR program.
fn pir_op(kind: &str, operands: &[usize], n: usize, attributes: &str) -> String {
    let operands: Vec<String> = operands.iter().map(|id| format!("{{\"%\":{id}}}")).collect();
    format!(
        "{{\"#\":\"{kind}\",\"I\":[{}],\"O\":[{{\"%\":{},{TYPE}}}],\"A\":[{attributes}]}}",
        operands.join(","),
        n + 2
    )
}
