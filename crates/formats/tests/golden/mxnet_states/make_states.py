"""Writes the golden states of the optimizers of the installed MXNet.

    python make_states.py OUT_DIR

Run once with each of

    mxnet==0.11.0 "numpy<1.20"         Python 3.7
    mxnet==1.2.1 "numpy<1.20"          Python 3.7
    mxnet==1.5.1 "numpy<1.17"          Python 2.7
    mxnet==1.5.1 "numpy<1.20"          Python 3.7
    mxnet==1.9.1 numpy==1.23.5         Python 3.11
    mxnet==2.0.0b1 "numpy<1.24"        Python 3.8

The facts are the state in memory when the optimizer is saved.
"""

import hashlib
import io
import json
import os
import pickle
import sys
from collections import OrderedDict

import mxnet as mx
import numpy as np
from mxnet import nd

PYTHON2 = sys.version_info[0] == 2
RELEASE = mx.__version__.replace("2.0.0beta1", "2.0.0b1") + ("-python2" if PYTHON2 else "")
NUMPY = RELEASE.startswith("2")


def floats(shape, seed):
    return np.random.RandomState(seed).standard_normal(shape).astype("float32")


def numbers(array):
    array = array.asnumpy()
    return [array.dtype.name, [int(number) for number in array]]


def tensor(name, array):
    """Returns the facts of an array, from MXNet's description of it and its parts."""
    kind = getattr(array, "stype", "default")
    values = array.asnumpy() if kind == "default" else array.data.asnumpy()
    data = np.ascontiguousarray(values).tobytes()
    facts = OrderedDict(name=name, kind="dense" if kind == "default" else kind)
    facts["dtype"] = values.dtype.name
    facts["shape"] = list(array.shape)
    facts["sha256"] = hashlib.sha256(data).hexdigest()
    if kind != "default":
        facts["parts"] = {"indices": numbers(array.indices)}
    return facts


def plain(value):
    """Returns a value without arrays as JSON."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key): plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str, type(u""))):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return dict(plain(attributes_of(value)), __class__=class_of(value))


def attributes_of(value):
    return getattr(value, "__getstate__", lambda: vars(value))()


def class_of(value):
    return "%s.%s" % (type(value).__module__, type(value).__name__)


def is_array(value):
    return isinstance(value, nd.NDArray)


def has_arrays(value):
    if isinstance(value, dict):
        return any(map(has_arrays, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_arrays, value))
    return is_array(value) or (hasattr(value, "__dict__") and has_arrays(attributes_of(value)))


def describe(path, value, tensors, metadata):
    if is_array(value):
        tensors.append(tensor(path, value))
    elif not has_arrays(value):
        metadata[path] = plain(value)
    else:
        if not isinstance(value, (dict, list, tuple)):
            metadata[path + ".__class__"] = class_of(value)
            value = attributes_of(value)
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            describe("%s.%s" % (path, key) if path else str(key), item, tensors, metadata)


class Index(object):
    def __init__(self, out_dir):
        self.out_dir, self.cases = out_dir, []

    def add(self, name, states, optimizer=None, save=None, protocol=None):
        """Saves and records the state of an updater; `save` is MXNet's function."""
        nd.waitall()
        relative = "%s/%s.states" % (RELEASE, name)
        path = os.path.join(self.out_dir, relative)
        if not os.path.isdir(os.path.dirname(path)):
            os.makedirs(os.path.dirname(path))
        if save:
            save(path)
        else:
            value = states if optimizer is None else (states, optimizer)
            with open(path, "wb") as file:
                file.write(pickle.dumps(value, protocol=protocol))
        tensors, metadata = [], {}
        for key, value in states.items():
            describe(str(key), value, tensors, metadata)
        if optimizer is not None:
            metadata["optimizer.__class__"] = class_of(optimizer)
            for key, value in attributes_of(optimizer).items():
                describe("optimizer." + key, value, tensors, metadata)
        with open(path, "rb") as file:
            files = {relative: hashlib.sha256(file.read()).hexdigest()}
        case = OrderedDict(path=relative, format="mxnet-states", files=files, tensors=tensors)
        case["metadata"] = OrderedDict(sorted(metadata.items()))
        self.cases.append(case)

    def write(self):
        path = os.path.join(self.out_dir, "index.json")
        kept = []
        if os.path.exists(path):
            with io.open(path, encoding="utf-8") as file:
                kept = json.load(file, object_pairs_hook=OrderedDict)["cases"]
        kept = [case for case in kept if case["path"].split("/")[0] != RELEASE]
        cases = sorted(kept + self.cases, key=lambda case: case["path"])
        lines = ",\n".join(json.dumps(case) for case in cases)
        with io.open(path, "w", encoding="utf-8") as file:
            file.write(u'{"schema": 1, "cases": [\n%s\n]}\n' % lines)
        print("%s: %d cases" % (RELEASE, len(self.cases)))


def make_module(index, name, optimizer, **parameters):
    """Returns a module after a little training."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc1")
    net = mx.sym.SoftmaxOutput(net, name="softmax")
    batches = mx.io.NDArrayIter(floats((8, 4), 1), (np.arange(8) % 3).astype("float32"), 4)
    module = mx.mod.Module(net, context=mx.cpu())
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.One())
    module.init_optimizer(kvstore=None, optimizer=optimizer, optimizer_params=parameters)
    for batch in batches:
        module.forward(batch, is_train=True)
        module.backward()
        module.update()
    index.add(name, module._updater.states, save=module.save_optimizer_states)
    return module._updater


def make_trainer(index, name, optimizer, **parameters):
    """Returns a Gluon block after a little training."""
    gluon, autograd = mx.gluon, mx.autograd
    net = gluon.nn.Dense(3, in_units=4)
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), optimizer, parameters, kvstore=None)
    wrap = mx.np.array if NUMPY else nd.array
    for seed in (1, 2):
        with autograd.record():
            loss = net(wrap(floats((8, 4), seed))) ** 2
        loss.backward()
        trainer.step(8)
    updaters = trainer._updaters
    updater = updaters[0] if isinstance(updaters, list) else updaters
    index.add(name, updater.states, updater.optimizer, save=trainer.save_states)
    return updater


def make_updater(index, name, weights, optimizer, **parameters):
    """Returns an updater that was called for each of some weights."""
    updater = mx.optimizer.get_updater(mx.optimizer.create(optimizer, **parameters))
    for key, weight in weights.items():
        updater(key, weight, weight.copy() * 0.5)
    index.add(name, updater.states, updater.optimizer, protocol=2)
    return updater


def main(out_dir):
    index = Index(out_dir)
    if not NUMPY:
        make_module(index, "module_sgd", "sgd", learning_rate=0.1, momentum=0.9)
        make_module(index, "module_plain", "sgd", learning_rate=0.1)
        updater = make_module(index, "module_adam", "adam", learning_rate=0.1)
    optimizer = None
    # The trainers of 0.11 save nothing.
    if not RELEASE.startswith("0."):
        trainer = make_trainer(index, "trainer_adam", "adam", learning_rate=0.125)
        scheduler = mx.lr_scheduler.MultiFactorScheduler(step=[1, 2], factor=0.5)
        make_trainer(index, "trainer_scheduled", "sgd", momentum=0.9, learning_rate=0.5, lr_scheduler=scheduler)
        states, optimizer = trainer.states, trainer.optimizer
    if not NUMPY:
        states = updater.states
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        index.add("protocol%d" % protocol, states, optimizer, protocol=protocol)
    if not NUMPY and optimizer:
        weights = OrderedDict(fc_weight=nd.array(floats((3, 4), 1), dtype="float16"))
        weights["fc_bias"] = nd.array(floats((3,), 1))
        make_updater(index, "mixed", weights, "sgd", momentum=0.9, multi_precision=True)
        rows = nd.array(floats((6, 3), 1)).tostype("row_sparse")
        sparse = {0: rows, 7: nd.array(floats((3, 2), 1))}
        make_updater(index, "sparse", sparse, "sgd", momentum=0.9)
        # A state with a missing part.
        make_updater(index, "delayed", {0: nd.array(floats((3, 2), 1))}, "dcasgd", momentum=0.0)
    index.write()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
