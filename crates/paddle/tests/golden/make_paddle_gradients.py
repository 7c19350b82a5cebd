"""Records PaddlePaddle 2.6.2's gradients of single operators.

    python make_paddle_gradients.py OUT_DIR

Writes the same files as `make_paddle_operators.py`. Each case is one gradient operator, as PaddlePaddle appends it for
an operator: its inputs are the inputs and outputs of that operator, and a random gradient of each output. The operators
are those of the cases of `make_paddle_operators.py`, and others with inputs at which a function is not differentiable
or several elements are the maximum.
"""

import sys

import make_paddle_operators as operators
from make_paddle_operators import F32, F64, Lod, Recorder, core, integers, normal, np, paddle, positive

GRADIENT, NONE = "@GRAD", "@EMPTY@"

# The attributes that the executor adds to every operator.
EVERY = ["op_role", "op_role_var", "op_namescope", "op_callstack", "op_device", "with_quant_attr"]


class Gradients(Recorder):
    """Records the gradients of operators instead of the operators."""

    def run(self, name, kind, inputs, attributes, outputs, silent):
        if name in WRONG:
            return
        program, op, feed = self.build(kind, inputs, attributes, outputs)
        without = {
            variable + GRADIENT for variable, tensor in feed.items() if tensor._dtype().name not in ["FP32", "FP64"]
        }
        try:
            descs, _ = core.get_grad_op_desc(op.desc, without, [])
        except Exception:
            return
        for desc in descs:
            # Some gradients are forward operators, which are recorded as such.
            if "_grad" in desc.type():
                self.gradient(name, program, op, desc, feed, attributes, silent)

    def gradient(self, name, program, op, desc, feed, attributes, silent):
        hidden = {variable for slot in silent for variable in op.output(slot)}
        block = program.global_block()
        feed, facts = dict(feed), {}
        forward = [variable for variable in op.output_arg_names if variable not in hidden]
        results = self.executor.run(program, feed=feed, fetch_list=forward, return_numpy=False)
        results = dict(zip(forward, results))
        whole = program.clone()
        target = whole.global_block()
        for variable in desc.input_arg_names():
            of = results.get(variable.removesuffix(GRADIENT))
            if variable.endswith(GRADIENT):
                feed[variable] = self.counts_for(target, variable, of)
        outputs = {slot: desc.output(slot) for slot in desc.output_names() if desc.output(slot)}
        wanted = [variable for names in outputs.values() for variable in names if variable != NONE]
        if not wanted:
            return
        for variable in wanted:
            target.create_var(name=variable)
        added = target.desc.append_op()
        added.copy_from(desc)
        whole._sync_with_cpp()
        added.infer_var_type(target.desc)
        added.infer_shape(target.desc)
        found = self.executor.run(whole, feed=feed, fetch_list=forward + wanted, return_numpy=False)
        # Variables that are written in place are read before.
        tensors = {**feed, **dict(zip(forward + wanted, found))}
        inputs = {
            slot: [name for name in desc.input(slot) if name in tensors or slot == "XShape"]
            for slot in desc.input_names()
        }
        inputs = {slot: names for slot, names in inputs.items() if names}
        for variable in (variable for names in inputs.values() for variable in names):
            if variable in tensors:
                facts[variable] = self.facts(tensors[variable])
            else:
                shape, dtype = block.var(variable).shape, np.asarray(feed["X"]).dtype
                facts[variable] = list(self.store(np.zeros(shape, dtype)))
        fetch = {variable: self.facts(tensors[variable]) for variable in wanted}
        forward = set(op.desc.attr_names())
        attributes = [
            name for name in desc.attr_names() if name in attributes or name not in forward and name not in EVERY
        ]
        case = {"name": name, "kind": desc.type(), "inputs": inputs, "outputs": outputs}
        self.cases.append({**case, "attributes": self.told(desc, attributes), "feed": facts, "fetch": fetch})

    def counts_for(self, block, variable, of):
        """Returns random weights for the elements of a result."""
        like, lengths = np.asarray(of), of.recursive_sequence_lengths()
        tensor = core.LoDTensor()
        tensor.set(normal(*like.shape, dtype=like.dtype, key="counts"), operators.PLACE)
        if lengths:
            tensor.set_recursive_sequence_lengths(lengths)
        block.create_var(
            name=variable, shape=like.shape, dtype=like.dtype.name, lod_level=len(lengths), is_data=True,
        )
        return tensor


# Cases that are not recorded.
WRONG = [
    # Along an axis other than the first, every row gets the gradient of the first one.
    "gather-2", "gather-5",
]

# Operators for which PaddlePaddle has a gradient that fails.
FAILS = [
    # The lengths are missing unless it is trained.
    "norm-7",
    # With `axis`.
    "elementwise_max-3", "elementwise_max-4", "elementwise_min-3", "elementwise_min-4", "elementwise_pow-3",
    "elementwise_pow-4",
    # With a removed dim.
    "strided_slice-6",
    # With a reversed list.
    "matmul_v2-9", "matmul_v2-19",
]

record = operators.record = Gradients()
case = operators.case = record.case


def corners():
    """Points at which functions are not differentiable, and several equal maxima."""
    ends = [-6.0, -3.0, -1.0, -0.75, -0.5, 0.0, 0.5, 0.75, 1.0, 1.5, 3.0, 6.0]
    for dtype in [F32, F64]:
        x = np.array(ends, dtype)
        for kind in ["relu", "relu6", "leaky_relu", "elu", "abs", "hard_swish", "selu", "sign", "square"]:
            case(kind, {"X": x})
        case("hard_sigmoid", {"X": x}, {"slope": 0.5, "offset": 0.5})
        case("brelu", {"X": x}, {"t_min": -1.0, "t_max": 1.5})
        case("thresholded_relu", {"X": x}, {"threshold": 0.5})
        case("hard_shrink", {"X": x}, {"threshold": 0.75})
        case("softshrink", {"X": x}, {"lambda": 0.75})
        case("softplus", {"X": x}, {"beta": 2.0, "threshold": 3.0})
        case("clip", {"X": x}, {"min": -0.5, "max": 0.75})
        case("pow", {"X": x}, {"factor": 2.0})
        case("pow", {"X": x}, {"factor": 1.0})
        case("pow", {"X": x}, {"factor": 0.0})
        case("prelu", {"X": x, "Alpha": np.array([0.25], dtype)}, {"mode": "all"})
        case("sqrt", {"X": np.array([0.0, 1.0, 4.0], dtype)})
        x, y = integers(3, 4, low=-1, high=2, dtype=dtype), integers(4, low=-1, high=2, dtype=dtype, key="y")
        for kind in ["max", "min"]:
            case(f"elementwise_{kind}", {"X": x, "Y": y})
            case(f"reduce_{kind}", {"X": x}, {"dim": [1]})
            case(f"reduce_{kind}", {"X": x}, {"dim": [0], "keep_dim": True})
            case(f"reduce_{kind}", {"X": x}, {"dim": [0], "reduce_all": True})
        case("reduce_prod", {"X": positive(3, 4, dtype=dtype)}, {"dim": [1]})
        for attributes in [{"strides": [2, 2]}, {"strides": [1, 1], "paddings": [1, 1]}, {"global_pooling": True}]:
            x = integers(2, 2, 5, 4, low=0, high=2, dtype=dtype)
            case("pool2d", {"X": x}, {"pooling_type": "max", "ksize": [3, 2], **attributes})
        for axis in [0, -1]:
            for order in [1.0, 2.0, 3.0, float("inf"), float("-inf")]:
                x = integers(3, 4, low=-1, high=2, dtype=dtype)
                case("p_norm", {"X": x}, {"porder": order, "axis": axis})
    for delta in [0.5, 1.0]:
        pair = {"X": np.array([[0.0], [1.0], [2.0], [3.0]], F32), "Y": np.array([[0.5], [2.0], [2.0], [1.0]], F32)}
        case("huber_loss", pair, {"delta": delta}, ["Out", "Residual"])


def chance():
    """Elements that are dropped."""
    for way in ["upscale_in_train", "downgrade_in_infer"]:
        for share in [0.0, 0.25, 1.0]:
            attributes = {"dropout_implementation": way, "dropout_prob": share, "fix_seed": True, "seed": 7}
            for dtype in [F32, F64]:
                case("dropout", {"X": normal(3, 4, dtype=dtype)}, attributes, ["Out", "Mask"])
        case("dropout", {"X": Lod(normal(3, 4), [[1, 2]])}, attributes, ["Out", "Mask"])


def main(directory):
    paddle.enable_static()
    families = [
        operators.convolutions, operators.pooling, operators.normalization, operators.tables, operators.activations,
        operators.pairs, operators.reductions, operators.moving, operators.products, operators.losses,
        operators.images, corners, chance, operators.pictures, operators.odd,
    ]
    for family in families:
        record.family(family.__name__)
        family()
    failed = [line for line in record.failed if line.split(":")[0] not in FAILS]
    for line in failed:
        print(line, file=sys.stderr)
    record.write(directory)
    cases = [case for family in record.families.values() for case in family]
    print(f"{len(cases)} cases of {len({case['kind'] for case in cases})} operators")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1])
