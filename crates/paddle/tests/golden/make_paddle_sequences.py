"""Records PaddlePaddle 2.6.2's results of operators on sequences and selected rows, and of their gradients.

    python make_paddle_sequences.py OUT_DIR

Writes the same files as `make_paddle_operators.py`. For selected rows, the LoD is followed by their indices and the
height. Values that recurrent operators keep for their gradients are recorded without LoD, because PaddlePaddle does not
set it.
"""
import sys

import make_paddle_gradients as gradients
import make_paddle_operators as operators
from make_paddle_operators import F32, F64, I64, Lod, core, integers, normal, np, numbers, paddle, static

KINDS = core.VarDesc.VarType

# Lengths of sequences, some empty.
LENGTHS = [[3, 1, 4], [2, 0, 5], [0, 4, 0, 3], [1, 1, 1], [6], [2, 3, 2, 3]]


class Plain:
    """Returns facts without the LoD of values kept for gradients."""

    def facts(self, tensor):
        lod = tensor.lod()
        is_kept = len(lod) == 3
        fact = list(self.store(tensor))
        return fact + [lod] if lod and not is_kept else fact


class Forward(Plain, operators.Recorder):
    pass


class Backward(Plain, gradients.Gradients):
    def run(self, name, *args):
        if name not in UNSET:
            super().run(name, *args)


# If a sequence is shorter than the offset of its context, the gradient of the filter is uninitialized memory.
UNSET = ["sequence_conv-25", "sequence_conv-28"]


forward, backward = Forward(), Backward()
backward.elements = forward.elements


def case(*args):
    forward.case(*args)
    backward.case(*args)


def pooled():
    for way in ["AVERAGE", "SUM", "SQRT", "FIRST", "LAST", "MAX"]:
        silent = [] if way == "MAX" else ["MaxIndex"]

        def pool(x, lengths, **attributes):
            case("sequence_pool", {"X": Lod(x, lengths)}, {"pooltype": way, **attributes}, ["Out", "MaxIndex"], silent)

        for lengths in LENGTHS:
            pool(normal(sum(lengths), 3), [lengths])
        pool(normal(7, 2, 2), [[3, 4]])
        pool(normal(6, 2), [[2, 1], [3, 1, 2]])
        pool(normal(6, 2), [[1, 0, 2], [3, 0, 3]], pad_value=0.5)
        pool(integers(9, 2, low=0, high=2, dtype=F32), [[4, 3, 2]])


def convolved():
    for length, start in [(1, 0), (3, -1), (2, 0), (2, -1), (3, 1), (4, -2)]:
        for lengths in LENGTHS:
            inputs = {"X": Lod(normal(sum(lengths), 3), [lengths]), "Filter": normal(length * 3, 4)}
            case("sequence_conv", inputs, {"contextLength": length, "contextStart": start, "contextStride": 1})


def shared():
    for lengths in LENGTHS:
        if 0 not in lengths:
            case("sequence_softmax", {"X": Lod(normal(sum(lengths), 1), [lengths])})
    case("sequence_softmax", {"X": Lod(normal(5), [[2, 3]])})


def expanded():
    for lengths in LENGTHS:
        count = len(lengths)
        y = Lod(normal(sum(lengths), 1), [lengths])
        case("sequence_expand", {"X": normal(count, 3), "Y": y}, {"ref_level": 0})
        case("sequence_expand", {"X": normal(count, 2, 2), "Y": y}, {"ref_level": -1})
        x = Lod(normal(2 * count, 2), [[2] * count])
        case("sequence_expand", {"X": x, "Y": y}, {"ref_level": 0})
        x = Lod(normal(2 + count, 2), [[3] + [1] * (count - 1)])
        case("sequence_expand", {"X": x, "Y": y}, {"ref_level": 0})
    y = Lod(normal(6, 1), [[2, 1], [3, 1, 2]])
    case("sequence_expand", {"X": normal(2, 3), "Y": y}, {"ref_level": 0})
    case("sequence_expand", {"X": normal(3, 3), "Y": y}, {"ref_level": 1})


def moved():
    def lod(lengths, *rest, **more):
        return Lod(normal(sum(lengths), *rest, **more), [lengths])

    for lengths in LENGTHS:
        count = len(lengths)
        others = [(number * 2 + 1) % 4 for number in range(count)]
        x, y = lod(lengths, 3), lod(others, 3, key="y")
        case("sequence_concat", {"X": [x, y]})
        case("sequence_concat", {"X": [x, y, lod(lengths, 3, key="z")]})
        for fill in [np.array([0.5], F32), normal(3)]:
            case("sequence_pad", {"X": x, "PadValue": fill}, {"padded_length": -1}, ["Out", "Length"])
            case("sequence_pad", {"X": x, "PadValue": fill}, {"padded_length": 7}, ["Out", "Length"])
        case("sequence_reverse", {"X": x}, {}, ["Y"])
        case("sequence_expand_as", {"X": normal(count, 2), "Y": lod(lengths, 1)})
        case("sequence_expand_as", {"X": normal(count, 2, 2), "Y": lod(lengths, 1)})
        case("sequence_unpad", {"X": normal(count, 6, 2), "Length": numbers(*lengths)})
        case("sequence_unpad", {"X": normal(count, 7), "Length": numbers(*lengths)})
        case("sequence_reshape", {"X": lod(lengths, 4)}, {"new_dim": 2})
        case("sequence_reshape", {"X": lod([2 * length for length in lengths], 2)}, {"new_dim": 4})
        tokens = Lod(integers(sum(lengths), 1, low=0, high=4), [lengths])
        case("sequence_enumerate", {"X": tokens}, {"win_size": 2, "pad_value": 0})
        case("sequence_enumerate", {"X": tokens}, {"win_size": 4, "pad_value": 9})
        case("sequence_erase", {"X": tokens}, {"tokens": [2, 3, 5]})
        ids = Lod(integers(sum(lengths), 1, low=0, high=5), [lengths])
        case("sequence_scatter", {"X": normal(count, 5), "Ids": ids, "Updates": lod(lengths, 1)})
        case("lod_reset", {"X": x}, {"target_lod": [0, 1, sum(lengths)]})
        if 0 not in lengths:
            begins = numbers(*[length // 3 for length in lengths]).reshape(-1, 1)
            sizes = numbers(*[(length + 1) // 2 for length in lengths]).reshape(-1, 1)
            case("sequence_slice", {"X": x, "Offset": begins, "Length": sizes})
    case("sequence_erase", {"X": Lod(integers(6, 1, low=0, high=3), [[2, 1], [3, 1, 2]])}, {"tokens": [1]})
    case("sequence_enumerate", {"X": Lod(integers(6, 1, dtype="int32"), [[3, 1, 2]])}, {"win_size": 2, "pad_value": 0})
    case("sequence_reverse", {"X": Lod(integers(5, 2), [[2, 3]])}, {}, ["Y"])
    case("sequence_pad", {"X": lod([2, 3], 2, 2), "PadValue": normal(2, 2)}, {"padded_length": -1}, ["Out", "Length"])
    case("sequence_erase", {"X": Lod(integers(5, 1, low=1, high=3), [[2, 3]])}, {"tokens": [1, 2]})


def labelled():
    crf = ["Alpha", "EmissionExps", "TransitionExps", "LogLikelihood"]
    for lengths in LENGTHS:
        count = sum(lengths)
        for dtype in [F32, F64]:
            inputs = {
                "Emission": Lod(normal(count, 4, dtype=dtype), [lengths]),
                "Transition": normal(6, 4, dtype=dtype, scale=0.5),
                "Label": Lod(integers(count, 1, low=0, high=4), [lengths]),
            }
            if 0 not in lengths:
                case("linear_chain_crf", inputs, {}, crf)
        steps = max(lengths)
        inputs = {
            "Emission": normal(len(lengths), steps, 3),
            "Transition": normal(5, 3, scale=0.5),
            "Label": integers(len(lengths), steps, low=0, high=3),
            "Length": numbers(*lengths).reshape(-1, 1),
        }
        case("linear_chain_crf", inputs, {}, crf, ["Alpha", "EmissionExps"])
        for ahead in [1, 3] if 0 not in lengths else []:
            case("row_conv", {"X": Lod(normal(count, 3), [lengths]), "Filter": normal(ahead, 3)})
        for width in [2, 6]:
            x = Lod(normal(count, width), [lengths])
            case("add_position_encoding", {"X": x}, {"alpha": 0.5, "beta": 2.0})
        others = [(number * 2 + 3) % 5 + 1 for number in range(len(lengths))]
        for normalized in [False, True]:
            inputs = {
                "Hyps": Lod(integers(count, 1, low=0, high=3), [lengths]),
                "Refs": Lod(integers(sum(others), 1, low=0, high=3), [others]),
            }
            case("edit_distance", inputs, {"normalized": normalized}, ["Out", "SequenceNum"])
            inputs = {
                "Hyps": integers(len(lengths), steps, low=0, high=3),
                "Refs": integers(len(lengths), 5, low=0, high=3),
                "HypsLength": numbers(*lengths),
                "RefsLength": numbers(*others),
            }
            case("edit_distance", inputs, {"normalized": normalized}, ["Out", "SequenceNum"])
        mask = np.array([number % 2 == 0 for number in range(len(lengths))]).reshape(-1, 1)
        x = Lod(normal(count, 2), [lengths])
        case("split_lod_tensor", {"X": x, "Mask": mask}, {"level": 0}, ["OutTrue", "OutFalse"])
        case("split_lod_tensor", {"X": normal(len(lengths), 2), "Mask": mask}, {"level": 0}, ["OutTrue", "OutFalse"])
        inputs = {"X": mask, "Mask": mask, "InTrue": normal(int(mask.sum()), 2), "InFalse": normal(int((~mask).sum()), 2)}
        case("merge_lod_tensor", inputs, {"level": 0})
    for dtype in [F32, F64]:
        label = integers(5, 1, low=0, high=4)
        case("bpr_loss", {"X": Lod(normal(5, 4, dtype=dtype), [[2, 3]]), "Label": label}, {}, ["Y"])
        for shape in [(2, 3, 4), (1, 5, 2), (3, 0, 4)]:
            case("add_position_encoding", {"X": normal(*shape, dtype=dtype)}, {"alpha": 0.5, "beta": 1.5})
    case("row_conv", {"X": normal(2, 4, 3), "Filter": normal(3, 3)})
    case("row_conv", {"X": normal(2, 2, 3), "Filter": normal(3, 3)})
    for lengths, of_labels in [([4, 6], [2, 3]), ([5], [1]), ([3, 7, 4], [3, 2, 0]), ([6, 2], [3, 1])]:
        for blank in [0, 4]:
            for by_times in [False, True]:
                low = 1 if blank == 0 else 0
                labels = integers(sum(of_labels), 1, low=low, high=low + 3, dtype="int32")
                inputs = {
                    "Logits": Lod(normal(sum(lengths), 5), [lengths]),
                    "Label": Lod(labels, [of_labels]),
                }
                attributes = {"blank": blank, "norm_by_times": by_times}
                case("warpctc", inputs, attributes, ["WarpCTCGrad", "Loss"])
                inputs = {
                    "Logits": normal(max(lengths), len(lengths), 5),
                    "Label": integers(len(lengths), max(of_labels), low=low, high=low + 3, dtype="int32"),
                    "LogitsLength": numbers(*lengths),
                    "LabelLength": numbers(*of_labels),
                }
                case("warpctc", inputs, attributes, ["WarpCTCGrad", "Loss"])


CURVES = ["sigmoid", "tanh", "relu", "identity"]


def lstm(lengths, size=2, begins=False, **attributes):
    peepholes = attributes.get("use_peepholes", True)
    inputs = {
        "Input": Lod(normal(sum(lengths), 4 * size, scale=0.5), [lengths]),
        "Weight": normal(size, 4 * size, scale=0.25),
        "Bias": normal(1, (7 if peepholes else 4) * size, scale=0.25),
    }
    if begins:
        inputs["H0"], inputs["C0"] = normal(len(lengths), size, key="h"), normal(len(lengths), size, key="c")
    case("lstm", inputs, attributes, ["Hidden", "Cell", "BatchGate", "BatchCellPreAct"])


def gru(lengths, size=2, begins=False, bias=True, **attributes):
    inputs = {
        "Input": Lod(normal(sum(lengths), 3 * size, scale=0.5), [lengths]),
        "Weight": normal(size, 3 * size, scale=0.25),
    }
    if bias:
        inputs["Bias"] = normal(1, 3 * size, scale=0.25)
    if begins:
        inputs["H0"] = normal(len(lengths), size, key="h")
    case("gru", inputs, attributes, ["Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"])


def recurrent():
    for lengths in LENGTHS:
        for reverse in [False, True]:
            for begins in [False, True]:
                if begins and 0 in lengths:
                    # PaddlePaddle uses the initial value of another sequence for an empty one.
                    continue
                for peepholes in [False, True]:
                    lstm(lengths, begins=begins, use_peepholes=peepholes, is_reverse=reverse)
                for origin in [False, True]:
                    gru(lengths, begins=begins, is_reverse=reverse, origin_mode=origin)
    for curve in CURVES:
        lstm([3, 2], gate_activation=curve)
        lstm([3, 2], cell_activation=curve)
        lstm([3, 2], candidate_activation=curve)
        gru([3, 2], begins=True, gate_activation=curve)
        gru([3, 2], begins=True, activation=curve)
    lstm([3, 5, 1], size=5)
    gru([3, 5, 1], size=5)
    gru([3, 5, 1], bias=False)


class Rows:
    """Selected rows of a tensor."""

    def __init__(self, values, numbers, height):
        self.values, self.numbers, self.height = values, numbers, height


def some(*numbers, height=6, width=3, dtype=F32, key=""):
    return Rows(normal(len(numbers), width, dtype=dtype, key=key), list(numbers), height)


def row_case(kind, inputs, attributes=None, out="Out", is_whole=False):
    """Records an operator that returns selected rows unless `is_whole`; selected rows are set in the scope, not fed."""
    number = forward.counts[kind] = forward.counts.get(kind, 0) + 1
    program, scope, facts, slots = static.Program(), static.Scope(), {}, {}
    block = program.global_block()
    for slot, values in inputs.items():
        slots[slot] = []
        for place, value in enumerate(values if isinstance(values, list) else [values]):
            name = f"{slot}{place}" if isinstance(values, list) else slot
            is_rows = isinstance(value, Rows)
            array = value.values if is_rows else value
            shape = [value.height, *array.shape[1:]] if is_rows else array.shape
            more = {"type": KINDS.SELECTED_ROWS} if is_rows else {}
            block.create_var(name=name, shape=shape, dtype=array.dtype.name, persistable=True, **more)
            if is_rows:
                rows = scope.var(name).get_selected_rows()
                rows.set_height(value.height)
                rows.set_rows(value.numbers)
                rows.get_tensor().set(array, operators.PLACE)
                facts[name] = forward.store(array) + ([], value.numbers, value.height)
            else:
                scope.var(name).get_tensor().set(array, operators.PLACE)
                facts[name] = forward.store(array)
            slots[slot].append(name)
    made = {} if is_whole else {"type": KINDS.SELECTED_ROWS}
    block.create_var(name="made", persistable=True, **made)
    # Gradients have no Python interface.
    op = block.desc.append_op()
    op.set_type(kind)
    for slot, names in slots.items():
        op.set_input(slot, names)
    op.set_output(out, ["made"])
    for name, value in (attributes or {}).items():
        setters = {bool: op._set_bool_attr, int: op._set_int64_attr, float: op._set_float32_attr}
        setters[type(value)](name, value)
    op.check_attrs()
    program._sync_with_cpp()
    forward.executor.run(program, scope=scope)
    if is_whole:
        made = forward.store(np.array(scope.find_var("made").get_tensor()))
    else:
        rows = scope.find_var("made").get_selected_rows()
        made = forward.store(np.array(rows.get_tensor())) + ([], list(rows.rows()), rows.height())
    told = forward.told(op, attributes or {})
    case = {"name": f"{kind}-{number}", "kind": kind, "inputs": slots, "outputs": {out: ["made"]}, "attributes": told}
    forward.cases.append({**case, "feed": facts, "fetch": {"made": made}})


def rows():
    for kind in ["lookup_table_grad", "lookup_table_v2_grad"]:
        for ids in [np.array([[1], [4], [1]]), np.array([[5]]), np.array([[0], [2], [3], [0], [2]])]:
            for dtype in [F32, F64]:
                ids = ids if kind == "lookup_table_grad" else ids.reshape(-1)
                inputs = {"W": normal(6, 3, dtype=dtype), "Ids": ids, "Out@GRAD": normal(ids.size, 3, dtype=dtype)}
                for padding in [-1, 1]:
                    row_case(kind, inputs, {"is_sparse": True, "padding_idx": padding}, "W@GRAD")
    for dtype in [F32, F64]:
        few, more, whole = some(4, 1, dtype=dtype), some(0, 1, 5, dtype=dtype), normal(6, 3, dtype=dtype)
        repeated = some(4, 1, 4, 0, 1, dtype=dtype, key="r")
        row_case("sum", {"X": [few, more]})
        row_case("sum", {"X": [few, repeated, more]})
        row_case("sum", {"X": [whole, repeated]}, is_whole=True)
        row_case("sum", {"X": [repeated, whole, few]}, is_whole=True)
        for x in [few, repeated]:
            row_case("merge_selected_rows", {"X": x})
            row_case("get_tensor_from_selected_rows", {"X": x}, is_whole=True)
            row_case("scale", {"X": x}, {"scale": 0.5})
            row_case("scale", {"X": x}, {"scale": 0.5, "bias": 2.0, "bias_after_scale": False})
            row_case("elementwise_mul", {"X": x, "Y": np.array([0.25], dtype)})
        for norm in [0.5, 100.0] if dtype == F32 else []:
            row_case("clip_by_norm", {"X": repeated}, {"max_norm": norm})


FAMILIES = [pooled, convolved, shared, expanded, recurrent, moved, labelled]


def main(directory):
    paddle.enable_static()
    for family in FAMILIES:
        forward.family(family.__name__)
        backward.family(family.__name__ + "_gradients")
        family()
    forward.family(rows.__name__)
    rows()
    forward.families.update(backward.families)
    for line in forward.failed + backward.failed:
        print(line, file=sys.stderr)
    forward.write(directory)
    cases = [case for family in forward.families.values() for case in family]
    print(f"{len(cases)} cases of {len({case['kind'] for case in cases})} operators")
    sys.exit(1 if forward.failed or backward.failed else 0)


if __name__ == "__main__":
    main(sys.argv[1])
