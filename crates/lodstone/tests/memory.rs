//! The memory use of operations: constant, whatever the size of the model.

#![expect(unsafe_code, reason = "an allocator is unsafe by nature")]
#![expect(clippy::disallowed_methods, reason = "reads what the system says of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lodstone::convert::ExternalData;
use lodstone::model::{
    Attribute, AttributeValue, Block, Dialect, Op, Operand, Program, TensorType, Topology,
    ValueType, Var,
};
use lodstone::reshard::ReshardOptions;
use lodstone::run::tensors;
use lodstone::{
    Blob, ConvertOptions, DType, DiffOptions, Dim, Inputs, Loss, Model, OpenOptions, Parameter,
    Progress, RunOptions, Session, Target, Tensor, WriteOptions, convert, diff, open, reshard, run,
    seal, verify,
};

/// Counts the allocated bytes of the process, on all threads.
struct Counting;

static HELD: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is forwarded to `System` unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size() as u64, Relaxed) + layout.size() as u64;
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns the resident anonymous memory of the process in bytes: mappings that the process makes itself are not from
/// the allocator.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}

/// Reports the end of work, also after a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Held by the measured test: one test at a time.
static MEASURED: Mutex<()> = Mutex::new(());

/// Returns the peak memory of `work` in bytes beyond the memory before, of the allocator and in
/// anonymous pages.
fn peak_of(work: impl FnOnce()) -> u64 {
    let (held, pages) = (HELD.load(Relaxed), anonymous());
    PEAK.store(held, Relaxed);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Relaxed) {
                most = most.max(anonymous());
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        });
        let ended = Ended(&done);
        work();
        drop(ended);
        let most = watcher.join().expect("watched");
        (PEAK.load(Relaxed) - held).max(most.saturating_sub(pages))
    })
}

const MIB: u64 = 1 << 20;

/// The number of elements of the largest tensor: 96 MiB of float32.
const LARGEST: [u64; 2] = [3072, 8192];

/// Writes Paddle parameters: a large tensor and many small ones, which share their bytes in memory.
fn write_model(path: &Path) {
    let row: Vec<u8> = (0..LARGEST[1]).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let row = Blob::memory(row);
    let tensor = |(number, shape): (usize, [u64; 2])| {
        let rows = shape[0] * shape[1] / LARGEST[1];
        let data = Blob::concat((0..rows).map(|_| row.clone()).collect());
        let tensor = Tensor::dense(DType::Float32, shape.to_vec(), data);
        Parameter { name: number.to_string(), tensor }
    };
    let shapes = std::iter::once(LARGEST).chain((0..120).map(|_| [96, 1024]));
    let parameters = shapes.enumerate().map(tensor).collect();
    let options = ConvertOptions::default().with_allow(Loss::ALL.to_vec());
    convert(Model { parameters, ..Model::default() }, path, &options).expect("written");
}

/// Returns an ONNX program that outputs its parameters.
fn giving(parameters: Vec<Parameter>) -> Model {
    let one = |name: &str| vec![Operand { slot: String::new(), args: vec![name.to_owned()] }];
    let out = |name: &str| format!("{name}.out");
    let var = |Parameter { name, tensor }: &Parameter| {
        let shape = tensor.shape.iter().copied().map(Dim::Known).collect();
        let of = TensorType::new(tensor.dtype, Some(shape));
        Var { name: out(name), value: ValueType::tensor(of), ..Var::default() }
    };
    let op = |Parameter { name, .. }: &Parameter| Op {
        kind: "Identity".to_owned(),
        inputs: one(name),
        outputs: one(&out(name)),
        ..Op::default()
    };
    let block = Block {
        parent: -1,
        name: "graph".to_owned(),
        vars: parameters.iter().map(var).collect(),
        ops: parameters.iter().map(op).collect(),
        outputs: parameters.iter().map(|parameter| out(&parameter.name)).collect(),
        ..Block::default()
    };
    let program = Program::from(Topology {
        version: Some(10),
        operator_versions: vec![(String::new(), 21)],
        blocks: vec![block],
        ..Topology::new(Dialect::Onnx)
    });
    Model { programs: program.into(), parameters, ..Model::default() }
}

/// Returns an MXNet program with a layer for each matrix.
fn layers(parameters: Vec<Parameter>) -> Model {
    let one = |name: String| vec![Operand { slot: String::new(), args: vec![name] }];
    let op = |Parameter { name, tensor }: &Parameter| {
        let number = |name: &str, value: String| Attribute {
            name: name.to_owned(),
            value: AttributeValue::String(value.as_str().into()),
        };
        let args = vec![format!("{name}.in"), name.clone()];
        Op {
            kind: "FullyConnected".to_owned(),
            name: format!("{name}.layer"),
            inputs: vec![Operand { slot: String::new(), args }],
            outputs: one(format!("{name}.out")),
            attributes: vec![
                number("num_hidden", tensor.shape[0].to_string()),
                number("no_bias", "True".to_owned()),
            ],
            ..Op::default()
        }
    };
    let input = |Parameter { name, tensor }: &Parameter| {
        let shape = vec![Dim::Unknown, Dim::Known(tensor.shape[1])];
        let of = TensorType::new(tensor.dtype, Some(shape));
        Var { name: format!("{name}.in"), value: ValueType::tensor(of), ..Var::default() }
    };
    let weight = |Parameter { name, .. }: &Parameter| Var {
        name: name.clone(),
        persistable: true,
        ..Var::default()
    };
    let block = Block {
        parent: -1,
        vars: parameters.iter().flat_map(|it| [input(it), weight(it)]).collect(),
        inputs: parameters.iter().map(|it| format!("{}.in", it.name)).collect(),
        outputs: parameters.iter().map(|it| format!("{}.out", it.name)).collect(),
        ops: parameters.iter().map(op).collect(),
        ..Block::default()
    };
    let topology = Topology { blocks: vec![block], ..Topology::new(Dialect::Mxnet) };
    Model { programs: Program::from(topology).into(), parameters, ..Model::default() }
}

#[test]
fn operations_on_models_use_constant_memory() {
    let _alone = MEASURED.lock();
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    write_model(&at("model.pdiparams"));
    let to = |input: &str, out: &str, options: &ConvertOptions| {
        let allow = Loss::ALL.to_vec();
        let options = options.clone().with_allow(allow);
        convert(open(at(input)).expect("a model"), at(out), &options).expect("converted");
    };
    let usual = ConvertOptions::default();
    let same = usual.clone().with_to(Some(Target::Same));
    let shards = WriteOptions::default().with_max_shard_size(Some(100 * MIB));
    let (options, progress) = (OpenOptions::default(), Progress::default());
    let works: [(&str, &dyn Fn()); 19] = [
        ("to safetensors", &|| to("model.pdiparams", "a.safetensors", &usual)),
        ("to shards", &|| {
            let shards = usual.clone().with_write(shards.clone());
            to("model.pdiparams", "shards.safetensors", &shards);
        }),
        ("as it is", &|| to("model.pdiparams", "b.pdiparams", &same)),
        ("from safetensors, as it is", &|| to("a.safetensors", "c.safetensors", &same)),
        ("to npz", &|| to("a.safetensors", "d.npz", &usual)),
        ("to MXNet", &|| to("a.safetensors", "e.params", &usual)),
        ("to a pickle", &|| to("a.safetensors", "f.pdparams", &usual)),
        ("from a pickle", &|| to("f.pdparams", "c.safetensors", &usual)),
        ("cast", &|| {
            to("a.safetensors", "c.safetensors", &usual.clone().with_cast(Some(DType::Float16)));
        }),
        ("sealed", &|| {
            let write = WriteOptions::default().with_seal(true);
            let sealed = usual.clone().with_write(write);
            to("model.pdiparams", "g.safetensors", &sealed);
        }),
        ("from what is sealed", &|| to("g.safetensors", "c.safetensors", &usual)),
        ("seal", &|| drop(seal(at("b.pdiparams"), &options, false, &progress).expect("sealed"))),
        ("verify", &|| {
            for name in ["b.pdiparams", "a.safetensors"] {
                let found = verify(at(name), &options, &progress).expect("verified");
                assert!(found.whole && found.sealed == (name == "b.pdiparams"));
            }
        }),
        ("to ONNX", &|| {
            let parameters = open(at("a.safetensors")).expect("a model").parameters;
            convert(giving(parameters), at("h.onnx"), &usual).expect("converted");
        }),
        ("an MXNet program to ONNX", &|| {
            let parameters = open(at("a.safetensors")).expect("a model").parameters;
            convert(layers(parameters), at("l.onnx"), &usual).expect("converted");
        }),
        ("ONNX as it is", &|| to("h.onnx", "i.onnx", &same)),
        ("ONNX with external data", &|| {
            let external_data = Some(ExternalData::One);
            let write = WriteOptions::default().with_external_data(external_data);
            to("h.onnx", "j.onnx", &usual.clone().with_write(write));
        }),
        ("ONNX as it is, with external data", &|| to("j.onnx", "k.onnx", &same)),
        ("diff", &|| {
            let open = |name| open(at(name)).expect("a model");
            let found = diff(open("a.safetensors"), &open("d.npz"), &DiffOptions::default());
            assert!(found.expect("compared").same);
        }),
    ];
    for (name, work) in works {
        let peak = peak_of(work);
        assert!(peak <= 64 * MIB, "{name}: {peak}");
        // No later conversion reads these; the disk may be small.
        for read in ["e.params", "i.onnx", "k.onnx", "k.onnx.data", "l.onnx"] {
            drop(std::fs::remove_file(at(read)));
        }
    }
    // The structure of an ONNX file is read, but not its elements.
    let peak = peak_of(|| {
        let model = open(at("h.onnx")).expect("a model");
        assert_eq!(model.parameters.len(), 121);
        let found = verify(at("h.onnx"), &options, &progress).expect("verified");
        assert!(found.whole);
    });
    assert!(peak <= 4 * LARGEST[0] * LARGEST[1] / 20, "opened and checked: {peak}");
    // A tensor whose elements are reordered may be in memory.
    let transpose = usual.with_transpose(vec!["*".to_owned()]);
    let peak = peak_of(|| to("a.safetensors", "c.safetensors", &transpose));
    assert!(peak <= 64 * MIB + 4 * LARGEST[0] * LARGEST[1], "transposed: {peak}");
}

#[test]
fn a_model_beyond_2_gib_has_external_data() {
    let _alone = MEASURED.lock();
    let directory = tempfile::tempdir().expect("a directory");
    let row: Vec<u8> = (0..1 << 18).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let data = Blob::concat(vec![Blob::memory(row); 700]);
    let shape = vec![700, 1 << 18];
    let parameters = ["a", "b", "c"].map(|name| Parameter {
        name: name.to_owned(),
        tensor: Tensor::dense(DType::Float32, shape.clone(), data.clone()),
    });
    let path = directory.path().join("large.onnx");
    let peak = peak_of(|| {
        let model = giving(parameters.to_vec());
        let written = convert(model, &path, &ConvertOptions::default()).expect("written");
        assert_eq!(written.files, [directory.path().join("large.onnx.data"), path.clone()]);
        assert!(verify(&path, &OpenOptions::default(), &Progress::default()).expect("read").whole);
    });
    assert!(peak <= 64 * MIB, "{peak}");
    let read = open(&path).expect("a model");
    assert_eq!(read.nbytes(), 3 * 700 * MIB);
    for parameter in &read.parameters {
        let mut last = [0; 4];
        parameter.tensor.data.read_at(700 * MIB - 4, &mut last).expect("elements");
        assert_eq!(f32::from_le_bytes(last), 262_143.0, "{}", parameter.name);
    }
}

#[test]
fn a_session_takes_two_hundred_shapes_in_the_memory_of_a_few() {
    let _alone = MEASURED.lock();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/onnx_models");
    let model = open(models.join("images.onnx")).expect("a model");
    let mut session = Session::new(&model, &RunOptions::default()).expect("a session");
    let inputs = |size: u64| {
        let mut inputs = Inputs::default();
        let shape = ("x".to_owned(), vec![2, 3, size, size]);
        inputs.add_random(&model, size, &[shape]).expect("inputs");
        inputs
    };
    // The largest first: buffers may be kept, but not one set of them for each shape.
    let sizes: Vec<u64> = (0..200).map(|number| 260 - number).collect();
    let (mut early, mut last) = (0, Vec::new());
    for (number, size) in sizes.iter().enumerate() {
        last = tensors(session.run(inputs(*size)).expect("outputs"));
        if number == 10 {
            early = HELD.load(Relaxed);
        }
    }
    let late = HELD.load(Relaxed);
    assert!(late < early + 8 * MIB, "{early} bytes after 10 shapes, {late} after 200");
    let fresh = run(&model, inputs(sizes[199]), &RunOptions::default()).expect("outputs");
    for (one, other) in last.iter().zip(&tensors(fresh)) {
        let bytes = |tensor: &Tensor| tensor.data.bytes().expect("elements");
        assert!(bytes(&one.tensor) == bytes(&other.tensor));
    }
}

#[test]
fn a_checkpoint_of_several_processes_is_converted_and_divided_in_constant_memory() {
    let _alone = MEASURED.lock();
    let directory = tempfile::tempdir().expect("a directory");
    // Each process has a quarter of a matrix; an element is the number of its row in the whole.
    let (rows, columns) = (4096_u16, 4096_usize);
    for process in 0..4 {
        let (first, column) = (process / 2 * rows, usize::from(process % 2) * columns);
        let row = |row: u16| Blob::memory(f32::from(first + row).to_le_bytes().repeat(columns));
        let tile: Vec<Blob> = (0..64).map(row).collect();
        // Rows repeat, so that the model to be written is small.
        let data = Blob::concat((0..rows).map(|at| tile[usize::from(at % 64)].clone()).collect());
        let tensor = Tensor::dense(DType::Float32, vec![u64::from(rows), columns as u64], data);
        let info = format!(r#"{{"w": {{"saved_offsets": [{first}, {column}]}}}}"#);
        let model = Model {
            parameters: vec![Parameter { name: "w".to_owned(), tensor }],
            metadata: [("DCP_SHARDING_INFO".to_owned(), info)].into(),
            ..Model::default()
        };
        let name = format!("shard-{:05}-model-00001-of-00001.safetensors", process + 1);
        convert(model, directory.path().join(name), &ConvertOptions::default()).expect("written");
    }
    let out = tempfile::tempdir().expect("a directory");
    let whole = out.path().join("whole.safetensors");
    let peak = peak_of(|| {
        let model = open(directory.path()).expect("a model");
        assert_eq!(model.nbytes(), 256 * MIB);
        convert(model, &whole, &ConvertOptions::default()).expect("converted");
    });
    assert!(peak <= 64 * MIB, "{peak}");
    // Divided along its columns, a row is in all of the files.
    let divided = out.path().join("divided");
    let peak = peak_of(|| {
        let model = open(directory.path()).expect("a model");
        let options = ReshardOptions::default()
            .with_to(Some("torch-distributed".to_owned()))
            .with_shards(Some(3))
            .with_axes(vec![("*".to_owned(), 1)]);
        assert_eq!(reshard(model, &divided, &options).expect("divided").shards, 3);
    });
    assert!(peak <= 64 * MIB, "{peak}");
    for path in [whole, divided] {
        let model = open(&path).expect("a model");
        let tensor = &model.parameters[0].tensor;
        assert_eq!(tensor.shape, [2 * u64::from(rows), 2 * columns as u64]);
        check(&tensor.data, rows, columns);
    }
}

/// Compares rows of the matrix.
fn check(data: &Blob, rows: u16, columns: usize) {
    for row in [0, 1, 63, 64, 4095, 4096, 4097, 8191_u16] {
        let mut bytes = vec![0; 8 * columns];
        data.read_at(u64::from(row) * bytes.len() as u64, &mut bytes).expect("a row");
        let expected = f32::from(row / rows * rows + row % rows % 64);
        assert!(bytes.chunks(4).all(|it| it == expected.to_le_bytes()), "row {row}");
    }
}
