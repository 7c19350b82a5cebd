"""Writes `collection.json`: the results of ONNX's checker for the models of a collection.

    python judge.py DIR..

Run with onnx 1.23.2. The result of each `.onnx` and `.onnxtxt` file below the directories, by its last two path components:
`fine`, `full` if only `full_check` rejects it, `refused`, or `unreadable` if protobuf rejects it.
"""

import json
import os
import sys

import onnx
from google.protobuf import text_format

HERE = os.path.dirname(os.path.abspath(__file__))


def load(path):
    if path.endswith("txt"):
        with open(path, encoding="utf-8") as file:
            return text_format.Parse(file.read(), onnx.ModelProto())
    onnx.load(path, load_external_data=False)
    return path


def verdict(path):
    try:
        model = load(path)
    except Exception:  # whatever protobuf has to say
        return "unreadable"
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return "refused"
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return "full"
    return "fine"


def main():
    verdicts = {}
    for root in sys.argv[1:]:
        for directory, _, files in os.walk(root):
            for name in files:
                path = os.path.join(directory, name)
                if name.endswith((".onnx", ".onnxtxt")):
                    key = "/".join(path.split(os.sep)[-2:])
                    assert key not in verdicts, key
                    verdicts[key] = verdict(path)
    with open(os.path.join(HERE, "collection.json"), "w", encoding="utf-8") as out:
        json.dump(verdicts, out, indent=1, sort_keys=True)
        out.write("\n")


main()
