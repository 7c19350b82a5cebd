"""Writes caffe2_values.tsv: the arguments of Caffe2's operators, and the values of those with a closed set.

Run with Python 3.8, torch==1.9.1, numpy<1.24, protobuf<3.21, future and six.

One line for each argument: the operator, the argument, and its values. Caffe2 ignores arguments that an operator does not
read, and has no list of those that it reads: lines of the operator `*` are the names that any operator reads, according to
the headers and the schemas of Caffe2, and those that its Python layers and exporters write. The values are `-`, or the words
of a closed set: each of them was tried with the operator, and a bogus one, which Caffe2 rejects.
"""

import ast
import os
import re
from pathlib import Path

import caffe2
import numpy as np
import torch
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

HERE = Path(__file__).parent

# Arguments that only source files read, which the package does not have (the archived repository at f056e7e2), and those
# of Glow's loader.
OTHERS = """
adam algo alias_dst alias_offset alias_src average average_lookup_length axes backward_link_external
backward_link_internal backward_link_offset backward_link_window backward_step_net bias_cuda_exhaustive
consumed_inputs convolution_transform_strategy correct_transform_coords crop_height crop_width
cudnn_exhaustive_search cudnn_state debug_info dense_gradient dense_last_dim dequantize_output deterministic
device_id dilationh dilationw dim_in divisor dropout enable_rnn_executor enable_tensor_core enforce_batch_size
exhaustive_search fast_gelu float16_compute force_algo force_algo_dgrad force_algo_fwd force_algo_wgrad
forced_cpu_outputs from_type gpu_direct grad_input_indices grad_output_indices group_size growthPct height_min
hidden_size init_params initial_recurrent_state_ids input_batch_size input_mode input_name input_type interface
is_last is_test k K keep_gradient_offset_map kernelh kernelw kts layer length1 link_external link_internal
link_offset link_window M mask maxOutputSize mean_of mean_of_per_channel mean_rgb mean_rgb_per_channel model_buffer
mpi_rendezvous multi_crop multiple_of N net_name new_shape no_bias no_gradient_to_input noise_size noise_std
normalize num_inputs num_outputs num_params numCropped old_shape operator output output_batch_size output_dim
output_scale output_zero_point outputs_with_grads p padIdx param param_grads param_type partial_net_name
pass_workspace per_op pickled_builder pickled_grad_builder quantize_groupwise recompute_blobs_on_backward
recurrent_states rnn_executor_debug rnn_mode rtc_src seed shared_buffer shuffle_size sign_follow_divisor
sort_by_field_idx stats_name status_blob std_of std_of_per_channel std_rgb std_rgb_per_channel step_net sync tile_x
tile_y tiling timeout_ms timestep transport use_scratch weight_scale weight_zero_point width_min window
ws_nbytes_limit zero_point
""".split()

READS = [
    r'(?:GetSingleArgument|GetRepeatedArguments?|HasArgument|HasSingleArgumentOfType|GetArgument)'
    r'\s*(?:<[^;()]*?>)?\s*\(\s*(?:\w+\s*,\s*)?"([A-Za-z_0-9]+)"',
    r'OP_SINGLE_ARG\([^,]*(?:<[^>]*>)?,\s*"([A-Za-z_0-9]+)"',
]

TYPES = [value for value in caffe2_pb2.TensorProto.DataType.values() if value]

# The values that are tried.
CLOSED = {
    "order": (["NCHW", "NHWC"], "BOGUS"),
    "mode": (["constant", "edge", "reflect"], "BOGUS"),
    "to": (TYPES, 99),
    "dtype": (TYPES, 99),
    "legacy_pad": ([0, 1, 2, 3], 4),
}

# Types that only GPUs compute with.
ON_GPU = {"to": [12], "dtype": [12]}

# Arguments without which some operators cannot be created.
REQUIRED = [{}, {"kernel": 1}, {"is_test": 1}, {"size": 1, "alpha": 1.0, "beta": 1.0}]

# Numbers that operators only check when they run: an operator that runs with them.
RUNS = {
    "legacy_pad": {
        "AveragePool": ["x"],
        "Conv": ["x", "w"],
        "MaxPool": ["x"],
    },
}


# Modules of Python that make operators.
LAYERS = ["helpers/*.py", "cnn.py", "onnx/*.py", "predictor/*.py"]


def written(module):
    """The names of arguments in a module of Python: keywords of calls, and keys of dicts of arguments."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and "arg" in node.value.id:
            if isinstance(node.slice, ast.Index) and isinstance(node.slice.value, ast.Constant):
                if isinstance(node.slice.value.value, str):
                    yield node.slice.value.value


def apart(function):
    """Whether a function returns in a process of its own: some errors end it."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            function()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def create(kind, count, outputs, arguments):
    """Creates an operator, which reads most of its arguments, and does not run it."""
    inputs = ["i%d" % number for number in range(count)]
    for name in inputs:
        workspace.FeedBlob(name, np.zeros((1,), np.float32))
    net = caffe2_pb2.NetDef(name="n")
    outputs = ["o%d" % number for number in range(outputs)]
    net.op.extend([core.CreateOperator(kind, inputs, outputs, **arguments)])
    net.external_input.extend(inputs)
    if not workspace.C.create_net(net.SerializeToString(), True):
        raise RuntimeError


def shapes_of(kind):
    """Inputs, outputs and arguments with which an operator can be created; None if it cannot be created without more."""
    for arguments in REQUIRED:
        for outputs in (1, 2, 3):
            for count in range(6):
                if apart(lambda: create(kind, count, outputs, arguments)):
                    return count, outputs, arguments
    return None


def runs(kind, inputs, name, value):
    workspace.FeedBlob("x", np.ones((1, 1, 8, 8), np.float32))
    workspace.FeedBlob("w", np.ones((1, 1, 3, 3), np.float32))
    workspace.RunOperatorOnce(core.CreateOperator(kind, inputs, ["y"], kernel=3, stride=2, **{name: value}))


def closed(kind):
    """The arguments of an operator with closed sets, and those of the tried values that it takes."""
    found = {}
    for name, operators in RUNS.items():
        if kind in operators:
            values, bogus = CLOSED[name]
            if not apart(lambda: runs(kind, operators[kind], name, bogus)):
                found[name] = [value for value in values if apart(lambda: runs(kind, operators[kind], name, value))]
    sizes = shapes_of(kind)
    if sizes is None:
        return found
    inputs, outputs, arguments = sizes
    takes = lambda name, value: apart(lambda: create(kind, inputs, outputs, dict(arguments, **{name: value})))
    for name, (values, bogus) in CLOSED.items():
        if name in found or takes(name, bogus):
            continue
        taken = [value for value in values if value in ON_GPU.get(name, []) or takes(name, value)]
        # An operator that rejects everything was rejected for another reason.
        if set(taken) - set(ON_GPU.get(name, [])):
            found[name] = taken
    return found


def main():
    names = set(OTHERS)
    for header in (Path(torch.__file__).parent / "include" / "caffe2").rglob("*.h"):
        for pattern in READS:
            names.update(re.findall(pattern, header.read_text(errors="replace")))
    python = Path(caffe2.__file__).parent / "python"
    for module in (module for pattern in LAYERS for module in python.glob(pattern)):
        names.update(written(module))
    rows = set()
    kinds = sorted(name for name in workspace.RegisteredOperators() if "_ENGINE_" not in name)
    for kind in kinds:
        schema = workspace.C.OpSchema.get(kind)
        if schema:
            names.update(argument.name for argument in schema.args)
        if kind.endswith("Gradient"):
            continue
        for name, values in closed(kind).items():
            rows.add((kind, name, " ".join(str(value) for value in values)))
    words = [name for name in names if re.fullmatch(r"\w+", name)]
    rows.update(("*", name, "-") for name in words)
    lines = ["\t".join(row) + "\n" for row in sorted(rows)]
    (HERE / "caffe2_values.tsv").write_text("".join(lines))


if __name__ == "__main__":
    main()
