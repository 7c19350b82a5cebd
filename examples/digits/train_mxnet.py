"""Trains a small convolutional classifier on scikit-learn's digits with MXNet 1.9.1.

    python train_mxnet.py OUT_DIR

writes OUT_DIR/mxnet/digits-symbol.json, OUT_DIR/mxnet/digits-0012.params and
OUT_DIR/mxnet/outputs.npz: the probabilities that MXNet itself computes for the held-out images of
OUT_DIR/test.npz from the two files it has just written, so that another reader of these files can
be compared with MXNet and not with the network that was still in memory.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MXNET_ENFORCE_DETERMINISM"] = "1"

import mxnet as mx
import numpy as np
from mxnet import gluon
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 20
TEST_IMAGES = 360
CLASSES = 10
EPOCHS = 12
BATCH = 32
LEARNING_RATE = 0.004


def read_digits():
    """Returns (training images, training labels, test images, test labels).

    The 1797 images come with scikit-learn, so that nothing is downloaded. Pixels run from 0 to
    16 in the source and from 0 to 1 here. The held-out ones are those of `train_paddle.py`.
    """
    digits = load_digits()
    images = (digits.images / 16.0).astype("float32").reshape(-1, 1, 8, 8)
    labels = digits.target.astype("int64")
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=TEST_IMAGES, random_state=SEED, stratify=labels
    )
    return train_images, train_labels, test_images, test_labels


class Digits(gluon.HybridBlock):
    """Two blocks of convolution, batch normalisation, ReLU and pooling, and a dense layer."""

    def __init__(self):
        super().__init__(prefix="digits_")
        with self.name_scope():
            self.body = gluon.nn.HybridSequential(prefix="")
            for filters in (16, 32):
                self.body.add(gluon.nn.Conv2D(filters, 3, padding=1, use_bias=False))
                self.body.add(gluon.nn.BatchNorm(), gluon.nn.Activation("relu"))
                self.body.add(gluon.nn.MaxPool2D(2, 2))
            self.body.add(gluon.nn.Dense(CLASSES))

    def hybrid_forward(self, F, image):
        return F.softmax(self.body(image), name="probabilities")


def train(net, images, labels):
    """Runs every epoch over the training images, in an order that only SEED decides."""
    order_source = np.random.RandomState(SEED)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": LEARNING_RATE})
    for epoch in range(EPOCHS):
        order = order_source.permutation(len(images))
        losses = []
        for start in range(0, len(order), BATCH):
            picked = order[start : start + BATCH]
            with mx.autograd.record():
                probabilities = net(mx.nd.array(images[picked]))
                right = mx.nd.pick(probabilities, mx.nd.array(labels[picked]))
                loss = -mx.nd.log(right + 1e-8)
            loss.backward()
            trainer.step(len(picked))
            losses.append(float(loss.mean().asscalar()))
        print("epoch {:2d}  mean loss {:.4f}".format(epoch + 1, float(np.mean(losses))))


def run_saved_model(prefix, images):
    """Loads the saved model anew and returns its outputs for `images`."""
    symbol, arguments, states = mx.model.load_checkpoint(prefix, EPOCHS)
    arguments["data"] = mx.nd.array(images)
    executor = symbol.bind(mx.cpu(), arguments, aux_states=states, grad_req="null")
    return executor.forward(is_train=False)[0].asnumpy()


def main(out_dir):
    mx.random.seed(SEED)
    np.random.seed(SEED)
    train_images, train_labels, test_images, test_labels = read_digits()
    net = Digits()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    train(net, train_images, train_labels)
    directory = os.path.join(out_dir, "mxnet")
    os.makedirs(directory, exist_ok=True)
    prefix = os.path.join(directory, "digits")
    net.export(prefix, epoch=EPOCHS)
    with np.load(os.path.join(out_dir, "test.npz")) as test:
        same = (test["images"] == test_images).all() and (test["labels"] == test_labels).all()
    if not same:
        sys.exit("the held-out images are not those of test.npz")
    outputs = run_saved_model(prefix, test_images)
    accuracy = float(np.mean(outputs.argmax(axis=1) == test_labels))
    print("test accuracy {:.2%} of {} images".format(accuracy, len(test_labels)))
    np.savez(os.path.join(directory, "outputs.npz"), outputs=outputs)
    if accuracy < 0.97:
        sys.exit("the accuracy is below 97 %: the files are not the example they should be")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
