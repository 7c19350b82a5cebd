//! Other libraries, each in a separate process that answers requests.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::pairs::SERVE;

/// A peer that keeps more than this number of bytes of previously loaded models is restarted.
const MAX_RESIDENT: u64 = 2 << 30;

/// A process of `benchmarks/peer.py`.
pub(crate) struct Peer {
    /// `safetensors`, `torch`, `torch.dcp`, `orbax`, `paddle`, `mxnet`, `onnx`; our Python package, by the framework of
    /// its arrays; or `lodstone`, which is this program.
    pub(crate) name: String,
    pub(crate) version: String,
    /// The executable: a Python, or this program.
    program: String,
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Returns the peers in `LODSTONE_BENCH_PEERS`, as `NAME=PYTHON` separated by semicolons.
    pub(crate) fn all() -> Vec<Self> {
        let peers = std::env::var("LODSTONE_BENCH_PEERS").unwrap_or_default();
        let peers = peers.split(';').filter_map(|peer| peer.split_once('='));
        peers.map(|(name, python)| Self::start(name, python)).collect()
    }

    /// Returns this program as a separate process.
    pub(crate) fn itself() -> Self {
        let program = std::env::current_exe().expect("a program");
        Self::start("lodstone", &program.to_string_lossy())
    }

    fn start(name: &str, program: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/peer.py");
        let mut command = Command::new(program);
        match name {
            "lodstone" => command.arg(SERVE),
            _ => command.arg(script).arg(name),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a process");
        let requests = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        let (name, version, program) = (name.to_owned(), String::new(), program.to_owned());
        let mut peer = Self { name, version, program, process, requests, answers };
        peer.version = peer.answer()["version"].as_str().expect("a version").to_owned();
        peer
    }

    /// Returns the name of the model file that this library reads.
    pub(crate) fn file(&self) -> &'static str {
        match self.name.as_str() {
            "safetensors" | "lodstone" | "lodstone.numpy" | "lodstone.torch" | "torch.dcp"
            | "orbax" => "model.safetensors",
            "torch" => "model.pt",
            "paddle" => "model.pdiparams",
            "mxnet" => "model.params",
            "onnx" => "model.onnx",
            other => panic!("no peer is called {other}"),
        }
    }

    /// Returns whether the library supports the operation on a checkpoint of tensors in memory, or on a file.
    pub(crate) fn does(&self, operation: &str, is_checkpoint: bool) -> bool {
        match self.name.as_str() {
            "torch.dcp" | "orbax" => is_checkpoint,
            "torch" | "paddle" if is_checkpoint => matches!(operation, "save" | "restore"),
            "onnx" => !is_checkpoint,
            _ => !is_checkpoint && operation != "check",
        }
    }

    /// Measures opening, loading, checking or saving the model at `path`.
    pub(crate) fn time(
        &mut self,
        operation: &str,
        path: &Path,
        out: &Path,
        (tensors, shape): (u64, [u64; 2]),
    ) -> Duration {
        let request = json!({
            "operation": operation, "path": path, "out": out, "tensors": tensors, "shape": shape,
        });
        writeln!(self.requests, "{request}").expect("asked");
        let answer = self.answer();
        if answer["resident"].as_u64().is_none_or(|resident| resident > MAX_RESIDENT) {
            *self = Self::start(&self.name, &self.program);
        }
        Duration::from_secs_f64(answer["seconds"].as_f64().expect("a time"))
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{} does not answer", self.name))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
