//! What operators do beyond computing: who runs a model that has them should know.
//!
//! Source of truth: the operators of PaddlePaddle 0.10 to 3.3.1 and MXNet 0.9 to 1.9.1.

/// What an operator does beyond computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Risk {
    /// It reads files.
    Reads,
    /// It writes files.
    Writes,
    /// It runs code that is not the framework's.
    Runs,
    /// It talks to other machines.
    Connects,
}

impl Risk {
    /// What it does, for a message.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Reads => "reads files",
            Self::Writes => "writes files",
            Self::Runs => "runs code that is not the framework's",
            Self::Connects => "talks to other machines",
        }
    }
}

const PADDLE: &[(Risk, &[&str])] = &[
    (
        Risk::Reads,
        &["load", "load_combine", "read_file", "open_files", "create_recordio_file_reader"],
    ),
    (Risk::Writes, &["save", "save_combine", "recv_save", "checkpoint_notify"]),
    (
        Risk::Runs,
        &[
            "py_func",
            "py_layer",
            "tensorrt_engine",
            "lite_engine",
            "openvino_engine",
            "dlnne_engine",
            "ipu_runtime",
            "go",
        ],
    ),
    (
        Risk::Connects,
        &[
            "listen_and_serv",
            "fl_listen_and_serv",
            "heter_listen_and_serv",
            "send",
            "recv",
            "send_and_recv",
            "send_barrier",
            "fetch_barrier",
            "send_vars",
            "prefetch",
            "distributed_lookup_table",
            "distributed_push_sparse",
            "distributed_notify",
            "gen_nccl_id",
            "gen_bkcl_id",
            "gen_hccl_id",
            "c_gen_nccl_id",
            "c_gen_bkcl_id",
            "c_gen_hccl_id",
            "c_gen_xccl_id",
            "pull_sparse",
            "pull_sparse_v2",
            "push_sparse",
            "push_sparse_v2",
            "push_dense",
            "pull_box_sparse",
            "pull_box_extended_sparse",
            "push_box_sparse",
            "push_box_extended_sparse",
            "pull_gpups_sparse",
            "push_gpups_sparse",
        ],
    ),
];

const MXNET: &[(Risk, &[&str])] = &[
    (
        Risk::Runs,
        &[
            "Custom",
            "_npi_Custom",
            "_Native",
            "_NDArray",
            "TorchModule",
            "TorchCriterion",
            "CaffeOp",
            "CaffeLoss",
            "_TensorRT",
        ],
    ),
    (Risk::Reads, &["_cvimread", "_npi_cvimread", "CaffeData"]),
];

/// What the operator `name` of PaddlePaddle does beyond computing.
pub(crate) fn of_paddle(name: &str) -> Option<Risk> {
    find(PADDLE, name)
}

/// What the operator `name` of MXNet does beyond computing.
pub(crate) fn of_mxnet(name: &str) -> Option<Risk> {
    find(MXNET, name)
}

fn find(table: &[(Risk, &[&str])], name: &str) -> Option<Risk> {
    table.iter().find(|(_, names)| names.contains(&name)).map(|(risk, _)| *risk)
}
