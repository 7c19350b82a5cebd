"""Runs the recorded node tests of the engine as WebAssembly, without files and threads.

    python wasm_nodes.py MODULE DIRECTORY

MODULE is the example `node_tests` of `lodstone-engine`, compiled for wasm32-unknown-unknown. DIRECTORY has the models, and
`absent.tsv` and `wrong.tsv`, whose operators and cases are left out.
"""

import json
import sys
from pathlib import Path

import wasmtime


def names(path):
    return {line.split("\t")[0] for line in path.read_text().splitlines()}


def main():
    module, directory = Path(sys.argv[1]), Path(sys.argv[2])
    engine = wasmtime.Engine()
    module = wasmtime.Module.from_file(engine, str(module))

    def start():
        store = wasmtime.Store(engine)
        return store, wasmtime.Instance(store, module, []).exports(store)

    store, exports = start()
    left_out = names(directory / "wrong.tsv")
    right, wrong = 0, []
    for name in json.loads((directory / "index.json").read_text())["cases"]:
        if name in left_out:
            continue
        case = (directory / f"{name}.onnx").read_bytes()
        memory = exports["memory"]
        try:
            memory.write(store, case, exports["allocate"](store, len(case)))
            length = exports["check"](store)
            if length:
                begin = exports["wrong"](store)
                text = bytes(memory.read(store, begin, begin + length)).decode()
                wrong.append(f"{name}: {text}")
            else:
                right += 1
        except wasmtime.WasmtimeError as error:
            wrong.append(f"{name}: {error}")
            # What a trap leaves behind is undefined.
            store, exports = start()
    absent = names(directory / "absent.tsv")
    wrong = [line for line in wrong if not any(f"`{kind}`" in line for kind in absent)]
    print(f"{right} node tests are computed as recorded")
    if wrong or right < 400:
        sys.exit("\n".join(wrong) or "too few cases")


main()
