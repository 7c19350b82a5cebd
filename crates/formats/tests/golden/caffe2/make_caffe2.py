"""Writes files of Caffe2 of each kind, with their facts: blobs, databases of blobs and of predictors, pairs of nets.

Run with Python 3.8, torch==1.9.1, numpy<1.24, protobuf<3.21, future and six.
"""

import hashlib
import json
import os

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, workspace
from caffe2.python.predictor import mobile_exporter, predictor_exporter
from google.protobuf import text_format

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = []


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def fact(name, value):
    return {
        "name": name,
        "kind": "dense",
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "nbytes": value.nbytes,
        "sha256": sha256(value.tobytes()),
    }


def case(path, form, tensors):
    full = os.path.join(HERE, path)
    names = sorted(os.listdir(full)) if os.path.isdir(full) else [""]
    files = {}
    for name in names:
        with open(os.path.join(full, name) if name else full, "rb") as file:
            files[os.path.join(path, name) if name else path] = sha256(file.read())
    CASES.append(
        {
            "path": path,
            "format": form,
            "made_by": "make_caffe2.py",
            "with": "torch==1.9.1",
            "files": files,
            "tensors": tensors,
        }
    )


def write(path, content):
    os.makedirs(os.path.dirname(os.path.join(HERE, path)), exist_ok=True)
    with open(os.path.join(HERE, path), "wb") as file:
        file.write(content)


def blobs():
    random = np.random.RandomState(1)
    values = {
        "float16": random.uniform(-1, 1, (3, 5)).astype("float16"),
        "float32": random.uniform(-1, 1, (3, 5)).astype("float32"),
        "float64": random.uniform(-1, 1, (3, 5)),
        "int8": random.randint(-128, 127, (3, 5)).astype("int8"),
        "int16": random.randint(-9999, 9999, (3, 5)).astype("int16"),
        "int32": random.randint(-(1 << 30), 1 << 30, (3, 5)).astype("int32"),
        "int64": random.randint(-(1 << 60), 1 << 60, (3, 5)).astype("int64"),
        "uint8": random.randint(0, 255, (3, 5)).astype("uint8"),
        "bool": random.randint(0, 2, (3, 5)).astype("bool"),
    }
    for name, value in values.items():
        workspace.FeedBlob(name, value)
        write("blobs/%s.pb" % name, workspace.SerializeBlob(name))
        case("blobs/%s.pb" % name, "caffe2-blob", [fact(name, value)])
    values.pop("int16")
    save("all.minidb", list(values))
    case("all.minidb", "caffe2-minidb", [fact(name, value) for name, value in values.items()])
    # One tensor in pieces of 100 elements.
    long = np.arange(250, dtype="float32")
    workspace.FeedBlob("long", long)
    save("pieces.minidb", ["long"], chunk_size=100)
    case("pieces.minidb", "caffe2-minidb", [fact("long", long)])


def save(path, names, **arguments):
    path = os.path.join(HERE, path)
    if os.path.exists(path):
        os.remove(path)
    workspace.RunOperatorOnce(
        core.CreateOperator("Save", names, [], absolute_path=1, db=path, db_type="minidb", **arguments)
    )


def predictor():
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper("small")
    conv = brew.conv(model, "data", "conv", 1, 2, 3)
    flat = model.net.Flatten([brew.relu(model, conv, "relu")], "flat")
    brew.softmax(model, brew.fc(model, flat, "fc", 32, 3), "softmax")
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob("data", np.zeros((1, 1, 6, 6), "float32"))
    workspace.RunNetOnce(model.net)
    names = [str(name) for name in model.params]
    facts = [fact(name, workspace.FetchBlob(name)) for name in names]
    init, predict = mobile_exporter.Export(workspace, model.net, model.params)
    write("pair/init_net.pb", init.SerializeToString())
    write("pair/predict_net.pb", predict.SerializeToString())
    case("pair", "caffe2", facts)
    write("text/init_net.pbtxt", text_format.MessageToString(init).encode())
    write("text/predict_net.pbtxt", text_format.MessageToString(predict).encode())
    case("text", "caffe2-text", facts)
    path = os.path.join(HERE, "predictor.minidb")
    if os.path.exists(path):
        os.remove(path)
    predictor_exporter.save_to_db(
        "minidb",
        path,
        predictor_exporter.PredictorExportMeta(
            predict_net=model.net.Proto(), parameters=names, inputs=["data"], outputs=["softmax"]
        ),
    )
    case("predictor.minidb", "caffe2-predictor", facts)


def main():
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=2"])
    workspace.ResetWorkspace()
    blobs()
    predictor()
    lines = ",\n".join(" " + json.dumps(case) for case in CASES)
    with open(os.path.join(HERE, "index.json"), "w") as file:
        file.write('{"schema": 1, "cases": [\n%s\n]}\n' % lines)


if __name__ == "__main__":
    main()
