//! The measured operations, and their implementations.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lodstone::convert::ExternalData;
use lodstone::model::{Block, Dialect, Op, Operand, Program, TensorType, Topology, ValueType, Var};
use lodstone::{
    Blob, ConvertOptions, DType, DiffOptions, Dim, Loss, Model, OpenOptions, Parameter, Progress,
    Target, Tensor, WriteOptions,
};

use crate::peers::Peer;
use crate::{checkpoints, limits};

/// A model in all formats, in its own directory.
pub(crate) struct Files {
    directory: PathBuf,
    pub(crate) tensors: u64,
    pub(crate) shape: [u64; 2],
}

impl Files {
    /// Float32 tensors of one size, `bytes` in total, with different elements.
    pub(crate) fn make(bytes: u64, tensors: u64, peers: &mut [Peer]) -> Self {
        let at = std::env::var("LODSTONE_BENCH_AT");
        let at = at.unwrap_or_else(|_| env!("CARGO_TARGET_TMPDIR").to_owned());
        let directory = Path::new(&at).join("bench-io");
        std::fs::create_dir_all(directory.join("out")).expect("a directory");
        let shape = [bytes / tensors / 4 / 64, 64];
        let files = Self { directory, tensors, shape };
        let elements = shape.iter().product::<u64>();
        let mut state = 1_u32;
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1_u32 << 24) as f32
        });
        let count = usize::try_from(2 * elements).expect("addressable");
        let pool: Vec<u8> = random.take(count).flat_map(f32::to_le_bytes).collect();
        let pool = Blob::memory(pool);
        let parameter = |number: u64| {
            let data = pool.slice(number * 4 % (4 * elements), 4 * elements).expect("inside");
            let tensor = Tensor::dense(DType::Float32, shape.to_vec(), data);
            Parameter { name: format!("layer.{number:05}.weight"), tensor }
        };
        let parameters: Vec<_> = (0..tensors).map(parameter).collect();
        let programs = program(&parameters, shape).into();
        let model = Model { parameters, ..Model::default() };
        for name in [SAFETENSORS, PADDLE, MXNET] {
            convert(model.clone(), &files.at(name), &plain());
        }
        checkpoints::make(&files, &model);
        convert(Model { programs, ..model }, &files.at(ONNX), &plain());
        let kind = (tensors, shape);
        for torch in peers.iter_mut().filter(|peer| peer.name == "torch") {
            torch.time("save", &files.at("model.safetensors"), &files.at(torch.file()), kind);
        }
        files
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the path of a written file.
    fn out(&self, name: &str) -> PathBuf {
        self.at("out").join(name)
    }

    /// Returns the size of all tensors.
    fn nbytes(&self) -> usize {
        let nbytes = self.tensors * self.shape.iter().product::<u64>() * 4;
        usize::try_from(nbytes).expect("addressable")
    }
}

/// Returns an ONNX program that sums all parameters.
fn program(parameters: &[Parameter], shape: [u64; 2]) -> Program {
    let one = |name: &str| vec![Operand { slot: String::new(), args: vec![name.to_owned()] }];
    let mut value = "x".to_owned();
    let mut ops = Vec::new();
    for (number, parameter) in parameters.iter().enumerate() {
        let args = vec![value, parameter.name.clone()];
        value = format!("sum.{number}");
        ops.push(Op {
            kind: "Add".to_owned(),
            inputs: vec![Operand { slot: String::new(), args }],
            outputs: one(&value),
            ..Op::default()
        });
    }
    let dims = shape.map(Dim::Known).to_vec();
    let tensor = TensorType::new(DType::Float32, Some(dims));
    let var = |name: &str| Var {
        name: name.to_owned(),
        value: ValueType::tensor(tensor.clone()),
        ..Var::default()
    };
    let block = Block {
        parent: -1,
        name: "graph".to_owned(),
        vars: vec![var("x"), var(&value)],
        ops,
        inputs: vec!["x".to_owned()],
        outputs: vec![value.clone()],
        ..Block::default()
    };
    Program::from(Topology {
        version: Some(10),
        operator_versions: vec![(String::new(), 21)],
        blocks: vec![block],
        ..Topology::new(Dialect::Onnx)
    })
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// An operation on a model.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Whether files are read from the disk rather than from memory.
    pub(crate) cold: bool,
    /// The minimum of the time of the limit divided by ours.
    pub(crate) target: Option<f64>,
    /// The limit: its name, and the files that it reads.
    pub(crate) limits: &'static [Limit],
    pub(crate) ours: &'static [Limit],
    /// The request to other libraries.
    pub(crate) asked: Option<&'static str>,
}

/// Performs an operation, and returns its time.
type Doer = fn(&Files) -> Duration;

/// The name of an implementation, the files that it reads, and the function.
pub(crate) type Limit = (&'static str, &'static [&'static str], Doer);

/// An implementation of an operation.
pub(crate) struct System {
    pub(crate) role: Role,
    pub(crate) name: String,
    does: Does,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Limit,
    Ours,
    Peer,
}

enum Does {
    /// The function, and the files that it reads.
    Itself(Doer, &'static [&'static str]),
    /// The index of the peer, and the request.
    Asked(usize, &'static str),
}

impl Operation {
    /// An operation that only peers implement; the first of them is the limit.
    pub(crate) const fn asked(name: &'static str, asked: &'static str) -> Self {
        Self { name, cold: false, target: None, limits: &[], ours: &[], asked: Some(asked) }
    }

    /// Returns all implementations, the limit first.
    pub(crate) fn systems(&self, peers: &[Peer]) -> Vec<System> {
        let itself = |role| {
            move |(name, reads, does): &Limit| System {
                role,
                name: (*name).to_owned(),
                does: Does::Itself(*does, reads),
            }
        };
        let limits = self.limits.iter().map(itself(Role::Limit));
        let ours = self.ours.iter().map(itself(Role::Ours));
        let mut systems: Vec<System> = limits.chain(ours).collect();
        for (index, peer) in peers.iter().enumerate() {
            let Some(operation) = self.asked else { continue };
            if !peer.does(
                operation,
                self.name.contains("checkpoint") || self.name.contains("background"),
            ) {
                continue;
            }
            let name = format!("{} {}", peer.name, peer.version);
            systems.push(System { role: Role::Peer, name, does: Does::Asked(index, operation) });
        }
        systems
    }
}

impl System {
    pub(crate) fn time(
        &self,
        operation: &Operation,
        files: &Files,
        peers: &mut [Peer],
    ) -> Duration {
        if ["load", "restore", "background"].iter().any(|what| operation.name.starts_with(what)) {
            // Memory for loaded or computed data, and for the pages of files that are read from the disk or written.
            limits::warm_memory(3 * files.nbytes());
        }
        limits::settle(&files.at("out"));
        let prepare = |path: &Path| {
            for path in [path.to_owned(), external(path)].iter().filter(|path| path.exists()) {
                match operation.cold {
                    true => limits::make_cold(path),
                    false => limits::read_through(path),
                }
            }
        };
        match self.does {
            Does::Itself(does, reads) => {
                reads.iter().for_each(|name| prepare(&files.at(name)));
                does(files)
            }
            Does::Asked(index, asked) => {
                let peer = &mut peers[index];
                let path = files.at(peer.file());
                prepare(&path);
                peer.time(asked, &path, &files.out(peer.file()), (files.tensors, files.shape))
            }
        }
    }
}

/// Returns the file with the external tensors of an ONNX model, if they exceed 2 GiB.
fn external(path: &Path) -> PathBuf {
    path.with_added_extension("data")
}

/// Measures `work`; its result is dropped after the measurement.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = std::hint::black_box(work());
    let time = start.elapsed();
    drop(result);
    time
}

pub(crate) const SAFETENSORS: &str = "model.safetensors";
const PADDLE: &str = "model.pdiparams";
const MXNET: &str = "model.params";
const ONNX: &str = "model.onnx";

/// Returns all operations.
pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "open and list",
        cold: false,
        target: None,
        limits: &[("open the file", &[PADDLE], |files| timed(|| limits::open(&files.at(PADDLE))))],
        ours: &[
            ("safetensors", &[SAFETENSORS], |files| timed(|| list(&files.at(SAFETENSORS)))),
            ("paddle", &[PADDLE], |files| timed(|| list(&files.at(PADDLE)))),
            ("mxnet", &[MXNET], |files| timed(|| list(&files.at(MXNET)))),
            ("onnx", &[ONNX], |files| timed(|| list(&files.at(ONNX)))),
        ],
        asked: Some("open"),
    },
    Operation {
        name: "load into memory",
        cold: false,
        target: Some(0.9),
        limits: LOAD_LIMITS,
        ours: LOADS,
        asked: Some("load"),
    },
    Operation {
        name: "load into memory, cold",
        cold: true,
        target: Some(0.9),
        limits: LOAD_LIMITS,
        ours: LOADS,
        asked: Some("load"),
    },
    Operation {
        name: "save from memory, durable",
        cold: false,
        target: Some(0.95),
        limits: WRITE_LIMITS,
        ours: &[
            ("safetensors", &[SAFETENSORS], |files| {
                save(&files.at(SAFETENSORS), &files.out(SAFETENSORS))
            }),
            ("paddle", &[PADDLE], |files| save(&files.at(SAFETENSORS), &files.out(PADDLE))),
            ("mxnet", &[MXNET], |files| save(&files.at(SAFETENSORS), &files.out(MXNET))),
            ("onnx", &[ONNX], |files| save(&files.at(ONNX), &files.out(ONNX))),
        ],
        asked: Some("save"),
    },
    Operation {
        name: "convert, durable",
        cold: false,
        target: Some(0.9),
        limits: COPY,
        ours: &[
            ("paddle to safetensors", &[PADDLE], |files| {
                convert_to(files, PADDLE, SAFETENSORS, &plain())
            }),
            ("safetensors to paddle", &[SAFETENSORS], |files| {
                convert_to(files, SAFETENSORS, PADDLE, &plain())
            }),
            ("paddle as it is", &[PADDLE], |files| convert_to(files, PADDLE, PADDLE, &same())),
            ("onnx to external data", &[ONNX], |files| {
                let external_data = Some(ExternalData::One);
                let write = WriteOptions::default().with_external_data(external_data);
                convert_to(files, ONNX, ONNX, &plain().with_write(write))
            }),
        ],
        asked: None,
    },
    Operation {
        name: "convert and seal, durable",
        cold: false,
        target: Some(0.95),
        limits: &[("convert alone", &[PADDLE], |files| {
            convert_to(files, PADDLE, SAFETENSORS, &plain())
        })],
        ours: &[("paddle to safetensors", &[PADDLE], |files| {
            let write = WriteOptions::default().with_seal(true);
            convert_to(files, PADDLE, SAFETENSORS, &plain().with_write(write))
        })],
        asked: None,
    },
    Operation {
        name: "verify what is sealed",
        cold: false,
        target: Some(0.9),
        limits: READ_THROUGH,
        ours: VERIFY,
        asked: None,
    },
    Operation {
        name: "verify what is sealed, cold",
        cold: true,
        target: Some(0.9),
        limits: READ_THROUGH,
        ours: VERIFY,
        asked: None,
    },
    Operation {
        name: "check types and shapes",
        cold: false,
        target: None,
        limits: &[("open and list", &[ONNX], |files| timed(|| list(&files.at(ONNX))))],
        ours: &[("onnx", &[ONNX], |files| {
            let (options, progress) = (OpenOptions::default(), Progress::default());
            timed(|| {
                let found = lodstone::verify(files.at(ONNX), &options, &progress);
                assert!(found.expect("verified").whole);
            })
        })],
        asked: Some("check"),
    },
    Operation {
        name: "diff of equal models",
        cold: false,
        target: None,
        limits: &[("read both", &[SAFETENSORS, MXNET], |files| {
            timed(|| {
                limits::read_through(&files.at(SAFETENSORS));
                limits::read_through(&files.at(MXNET));
            })
        })],
        ours: &[("safetensors and mxnet", &[SAFETENSORS, MXNET], |files| {
            timed(|| {
                let [a, b] = [SAFETENSORS, MXNET].map(|name| model(&files.at(name)));
                assert!(lodstone::diff(a, &b, &DiffOptions::default()).expect("compared").same);
            })
        })],
        asked: None,
    },
];

pub(crate) const WRITE_LIMITS: &[Limit] = &[("write + fsync", &[SAFETENSORS], |files| {
    let bytes = limits::read(&files.at(SAFETENSORS));
    timed(|| limits::write(&files.at("out/raw"), &bytes))
})];

const LOAD_LIMITS: &[Limit] = &[
    ("read into memory", &[PADDLE], |files| timed(|| limits::read(&files.at(PADDLE)))),
    ("read into large pages", &[PADDLE], |files| timed(|| limits::read_large(&files.at(PADDLE)))),
    ("read through 1 MiB", &[PADDLE], |files| timed(|| limits::read_through(&files.at(PADDLE)))),
    ("memcpy", &[PADDLE], |files| {
        let bytes = limits::read(&files.at(PADDLE));
        timed(|| limits::copy_memory(&bytes))
    }),
];

const LOADS: &[Limit] = &[
    ("safetensors", &[SAFETENSORS], |files| load(&files.at(SAFETENSORS))),
    ("paddle", &[PADDLE], |files| load(&files.at(PADDLE))),
    ("mxnet", &[MXNET], |files| load(&files.at(MXNET))),
    ("onnx", &[ONNX], |files| load(&files.at(ONNX))),
];

const COPY: &[Limit] = &[("cp + fsync", &[PADDLE], |files| {
    timed(|| limits::copy(&files.at(PADDLE), &files.at("out/raw")))
})];

const READ_THROUGH: &[Limit] =
    &[("read through 1 MiB", &[PADDLE], |files| timed(|| limits::read_through(&files.at(PADDLE))))];

const VERIFY: &[Limit] = &[("paddle", &[PADDLE], |files| {
    let (options, progress) = (OpenOptions::default(), Progress::default());
    let seal = files.at("lodstone.seal");
    if !seal.exists() {
        lodstone::seal(files.at(PADDLE), &options, false, &progress).expect("sealed");
    }
    timed(|| {
        let found = lodstone::verify(files.at(PADDLE), &options, &progress).expect("verified");
        assert!(found.whole && found.sealed);
    })
})];

pub(crate) fn model(path: &Path) -> Model {
    lodstone::open(path).expect("a model")
}

/// Opens a model; returns everything that a listing shows.
pub(crate) fn list(path: &Path) -> Vec<(String, DType, Vec<u64>)> {
    let tensors = model(path).parameters.into_iter();
    tensors.map(|one| (one.name, one.tensor.dtype, one.tensor.shape)).collect()
}

pub(crate) fn load(path: &Path) -> Duration {
    timed(|| {
        let mut model = model(path);
        model.load().expect("loaded");
        model
    })
}

/// Writes the tensors loaded from `path` to `out`, durably.
pub(crate) fn save(path: &Path, out: &Path) -> Duration {
    let mut model = model(path);
    model.load().expect("loaded");
    let _kept = model.clone();
    timed(|| convert(model, out, &plain()))
}

fn plain() -> ConvertOptions {
    ConvertOptions::default().with_allow(Loss::ALL.to_vec())
}

fn same() -> ConvertOptions {
    plain().with_to(Some(Target::Same))
}

fn convert_to(files: &Files, from: &str, to: &str, options: &ConvertOptions) -> Duration {
    timed(|| convert(model(&files.at(from)), &files.out(to), options))
}

fn convert(model: Model, out: &Path, options: &ConvertOptions) {
    lodstone::convert(model, out, options).expect("converted");
}
