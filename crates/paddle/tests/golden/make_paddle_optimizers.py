"""Records ten steps of optimizer operators, as PaddlePaddle 2.6.2 and 1.8.5 compute them.

    python make_paddle_optimizers.py

Writes `paddle_optimizers/VERSION-TYPE.json`, beside this script, for the installed version. A case is a program
of one operator: `inputs` and `outputs` have its variables by slot, `attributes` those that are set, with their type
after a colon (`f` FLOAT, `fs` FLOATS, `i` INT, `b` BOOLEAN, `s` STRING). `begins` has the initial variables, `steps` the gradient of each
step and the variables after it: the parameter, and sometimes the accumulators. A gradient of selected rows has their
indices.
"""
import json
import os

os.environ.setdefault("GLOG_minloglevel", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle

OLD = paddle.__version__.startswith("1.")
if OLD:
    import paddle.fluid as static
    from paddle.fluid import core

    CPUPlace, Scope = static.CPUPlace, core.Scope
else:
    paddle.enable_static()
    from paddle import static
    from paddle.base import core

    CPUPlace, Scope = paddle.CPUPlace, core.Scope

STEPS = 10
TYPES = {float: "f", list: "fs", int: "i", bool: "b", str: "s"}
KINDS = core.VarDesc.VarType
SHAPE = [3, 2]
CASES = []
# Slots that outputs do not repeat.
WRITTEN = {"SquaredAccumulator": "SquaredAccum", "LinearAccumulator": "LinearAccum"}


def told(array):
    """Returns type, dims, and elements; float32 with the fewest digits that identify them."""
    array = np.asarray(array)
    flat = array.reshape(-1)
    values = [float(str(value)) for value in flat] if array.dtype.kind == "f" else flat.tolist()
    return [array.dtype.name, list(array.shape), values]


def set_dense(scope, name, array):
    scope.var(name).get_tensor().set(array, CPUPlace())


def case(
    kind, slots, attributes=None, dtype="float32", more=None, rows=None, lr=0.1, ones=(), seed=0, skips=None, read=()
):
    """`slots` are the accumulators; `ones` those of one number, with their initial values, as `read`, which stay."""
    random = np.random.RandomState(seed + 7)
    begins = {"Param": random.uniform(-1, 1, SHAPE).astype(dtype)}
    for slot in slots:
        begins[slot] = random.uniform(0.1, 0.5, SHAPE).astype(dtype)
    changed = ["Param"] + list(slots) + [slot for slot, _ in ones]
    for slot, value in list(ones) + list(read):
        begins[slot] = np.array([value], dtype)
    if lr is not None:
        begins["LearningRate"] = np.array([lr], dtype)
    for slot, value in (more or {}).items():
        begins[slot] = np.array([value], bool if slot == "SkipUpdate" else "float32")

    program, scope = static.Program(), Scope()
    block = program.global_block()
    for slot, array in begins.items():
        block.create_var(name=slot, shape=array.shape, dtype=array.dtype, persistable=True)
        set_dense(scope, slot, array)
    sparse = {"type": KINDS.SELECTED_ROWS} if rows else {}
    block.create_var(name="Grad", shape=SHAPE, dtype=dtype, persistable=True, **sparse)
    block.append_op(
        type=kind,
        inputs={slot: [block.var(slot)] for slot in list(begins) + ["Grad"]},
        outputs={WRITTEN.get(slot, slot) + "Out": [block.var(slot)] for slot in changed},
        attrs=dict(attributes or {}),
    )
    steps = []
    executor = static.Executor(CPUPlace())
    for number in range(STEPS):
        step = {}
        if skips:
            value = np.array([number in skips])
            set_dense(scope, "SkipUpdate", value)
            step["SkipUpdate"] = told(value)
        if rows:
            numbers = rows[number % len(rows)]
            grad = random.uniform(-1, 1, [len(numbers)] + SHAPE[1:]).astype(dtype)
            selected = scope.var("Grad").get_selected_rows()
            selected.set_height(SHAPE[0])
            selected.set_rows(numbers)
            selected.get_tensor().set(grad, CPUPlace())
            step["Grad"] = told(grad) + [numbers]
        else:
            grad = random.uniform(-1, 1, SHAPE).astype(dtype)
            set_dense(scope, "Grad", grad)
            step["Grad"] = told(grad)
        executor.run(program, scope=scope)
        asked = changed if number in (0, STEPS // 2, STEPS - 1) else ["Param"]
        step["after"] = {slot: told(scope.find_var(slot).get_tensor()) for slot in asked}
        steps.append(step)
    CASES.append(
        {
            "kind": kind,
            "attributes": {name + ":" + TYPES[type(value)]: value for name, value in (attributes or {}).items()},
            "inputs": list(begins) + ["Grad"],
            "outputs": changed,
            "begins": {name: told(array) for name, array in begins.items()},
            "steps": steps,
        }
    )


ROWS = [[2, 0], [1], [0, 2, 0], [1, 1]]
# Indices for which a search in unsorted rows succeeds.
SORTED = [[0, 2], [1], [0, 2, 0], [1, 1]]
MOMENTS = ["Moment1", "Moment2"]


def powers(first=0.9, second=0.999):
    return [("Beta1Pow", first), ("Beta2Pow", second)]


def adams(kind, attributes=None, first=0.9, second=0.999, **more):
    case(kind, MOMENTS, attributes, ones=powers(first, second), **more)


def record(dtype):
    case("sgd", [], dtype=dtype)
    case("sgd", [], dtype=dtype, rows=ROWS)
    momenta = [{"mu": 0.9}, {"mu": 0.8, "use_nesterov": True}]
    if not OLD:
        decay = {"regularization_method": "l2_decay", "regularization_coeff": 0.05}
        momenta += [dict(each, **decay) for each in momenta] + [{"mu": 0.9, "rescale_grad": 0.5}]
    for attributes in momenta:
        case("momentum", ["Velocity"], attributes, dtype=dtype)
        case("momentum", ["Velocity"], attributes, dtype=dtype, rows=SORTED)
    for rows in (None, ROWS):
        case("adagrad", ["Moment"], {"epsilon": 1e-3}, dtype=dtype, rows=rows)
        adams("adam", dtype=dtype, rows=rows)
        adams("adam", {"epsilon": 0.5, "beta1": 0.7, "beta2": 0.9}, 0.7, 0.9, dtype=dtype, rows=rows)
        adams("adam", {"epsilon": 1e-3, "lazy_mode": True}, dtype=dtype, rows=rows)
    for attributes in (
        {"decay": 0.9, "epsilon": 1e-3},
        {"decay": 0.8, "epsilon": 1e-2, "momentum": 0.5},
        {"decay": 0.9, "epsilon": 0.5, "centered": True},
        {"decay": 0.9, "epsilon": 0.5, "momentum": 0.7, "centered": True},
    ):
        # 1.8.5 has no kernel in double precision.
        for rows in () if OLD and dtype == "float64" else (None, SORTED):
            case("rmsprop", ["MeanSquare", "Moment", "MeanGrad"], attributes, dtype=dtype, rows=rows)
    for attributes in ({"weight_decay": 0.1}, {"weight_decay": 0.0}) + (
        () if OLD else ({"weight_decay": 0.0, "always_adapt": True},)
    ):
        case("lamb", MOMENTS, attributes, dtype=dtype, ones=powers())
    case("lamb", MOMENTS, {"weight_decay": 0.1}, dtype=dtype, ones=powers(), rows=ROWS)
    # 1.8.5 has no learning rate here.
    rate = {"lr": None} if OLD else {}
    averages = ["AvgSquaredGrad", "AvgSquaredUpdate"]
    case("adadelta", averages, {"rho": 0.9, "epsilon": 1e-3}, dtype=dtype, **rate)
    case("adadelta", averages, dtype=dtype, seed=1, **rate)
    for attributes in ({}, {"beta1": 0.7, "beta2": 0.9, "epsilon": 0.25}):
        case("adamax", ["Moment", "InfNorm"], attributes, dtype=dtype, read=[("Beta1Pow", 0.81)])
    # 2.6.2 has no kernels of these, and 1.8.5 none in double precision.
    if OLD and dtype == "float32":
        case("decayed_adagrad", ["Moment"], dtype=dtype)
        case("decayed_adagrad", ["Moment"], {"decay": 0.5, "epsilon": 0.125}, dtype=dtype)
        for attributes in ({}, {"l1": 0.25, "l2": 0.5}, {"l1": 0.125, "lr_power": -0.75}, {"lr_power": 0.0}):
            case("ftrl", list(WRITTEN), attributes, dtype=dtype)
    decays = lambda value: {"lars_weight_decay": value if OLD else [value]}
    for attributes in (
        {"mu": 0.9},
        dict(decays(0.25), mu=0.5, lars_coeff=0.125),
        dict(decays(0.0), mu=0.9, lars_coeff=0.5),
    ) + (() if OLD else (dict(decays(0.25), mu=0.5, epsilon=0.5, rescale_grad=0.5),)):
        if not (OLD and dtype == "float64"):
            case("lars_momentum", ["Velocity"], attributes, dtype=dtype)
    # With a seed, PaddlePaddle adds the same noise in each step.
    for seed in (1, 7, 12345, 2147483647, -5):
        case("dpsgd", [], {"clip": 0.5, "batch_size": 4.0, "sigma": 0.5, "seed": seed}, dtype=dtype)
    case("dpsgd", [], {"clip": 10.0, "batch_size": 2.0, "sigma": 0.0}, dtype=dtype)
    if OLD:
        return
    tensors = {"Beta1Tensor": 0.7, "Beta2Tensor": 0.9, "EpsilonTensor": 0.25}
    for kind in ("adam", "adamw"):
        with_decay = {"with_decay": True, "coeff": 0.2} if kind == "adamw" else {}
        adams(kind, with_decay, 0.7, 0.9, dtype=dtype, more=tensors)
        adams(kind, with_decay, dtype=dtype, more={"SkipUpdate": False}, skips=[2, 3, 7])
        adams(kind, dict(with_decay, use_global_beta_pow=True), dtype=dtype)
    adams("adamw", {"with_decay": True}, dtype=dtype)
    adams("adamw", {"with_decay": False, "coeff": 0.5}, dtype=dtype)
    adams("adamw", {"with_decay": True, "coeff": 0.3, "lr_ratio": 0.5}, dtype=dtype)


for dtype in ("float32", "float64"):
    CASES = []
    record(dtype)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_optimizers")
    path = os.path.join(folder, f"{paddle.__version__}-{dtype}.json")
    with open(path, "w") as file:
        file.write('{"cases": [\n' + ",\n".join(json.dumps(each, separators=(",", ":")) for each in CASES) + "\n]}\n")
    print(path, len(CASES), os.path.getsize(path))
