"""Trains a small convolutional classifier on scikit-learn's digits with PaddlePaddle 2.6.2.

    python train_paddle.py OUT_DIR

writes OUT_DIR/paddle/inference.pdmodel, OUT_DIR/paddle/inference.pdiparams, OUT_DIR/train.npz with
the images it is trained with, and OUT_DIR/test.npz. The latter holds the held-out images, their labels and the probabilities that Paddle itself
computes for them from the two files it has just written, so that another reader of these files
can be compared with Paddle and not with the network that was still in memory.
"""

import os
import sys

os.environ["FLAGS_cpu_deterministic"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

static = paddle.static

SEED = 20
TEST_IMAGES = 360
CLASSES = 10
EPOCHS = 12
BATCH = 32
LEARNING_RATE = 0.004


def read_digits():
    """Returns (training images, training labels, test images, test labels).

    The 1797 images come with scikit-learn, so that nothing is downloaded. Pixels run from 0 to
    16 in the source and from 0 to 1 here.
    """
    digits = load_digits()
    images = (digits.images / 16.0).astype("float32").reshape(-1, 1, 8, 8)
    labels = digits.target.astype("int64")
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=TEST_IMAGES, random_state=SEED, stratify=labels
    )
    return train_images, train_labels, test_images, test_labels


def conv_block(image, filters):
    """Convolution, batch normalisation, ReLU, and a pooling that halves the image."""
    conv = static.nn.conv2d(image, filters, filter_size=3, padding=1, bias_attr=False)
    norm = static.nn.batch_norm(conv, act="relu")
    return paddle.nn.functional.max_pool2d(norm, kernel_size=2, stride=2)


def build_network():
    """Returns (image, label, probabilities, loss) of a network for 8x8 grey images."""
    image = static.data("image", [None, 1, 8, 8], "float32")
    label = static.data("label", [None, 1], "int64")
    hidden = conv_block(image, 16)
    hidden = conv_block(hidden, 32)
    probabilities = static.nn.fc(hidden, CLASSES, activation="softmax")
    loss = paddle.nn.functional.cross_entropy(probabilities, label, use_softmax=False)
    return image, label, probabilities, paddle.mean(loss)


def train(executor, program, loss, images, labels):
    """Runs every epoch over the training images, in an order that only SEED decides."""
    order_source = np.random.RandomState(SEED)
    for epoch in range(EPOCHS):
        order = order_source.permutation(len(images))
        losses = []
        for start in range(0, len(order), BATCH):
            picked = order[start : start + BATCH]
            feed = {"image": images[picked], "label": labels[picked].reshape(-1, 1)}
            losses.append(executor.run(program, feed=feed, fetch_list=[loss])[0])
        print("epoch {:2d}  mean loss {:.4f}".format(epoch + 1, float(np.mean(losses))))


def run_saved_model(executor, prefix, images):
    """Loads the saved model into an empty scope and returns its outputs for `images`."""
    with static.scope_guard(static.Scope()):
        program, feed_names, fetches = static.load_inference_model(prefix, executor)
        return executor.run(program, feed={feed_names[0]: images}, fetch_list=fetches)[0]


def main(out_dir):
    paddle.enable_static()
    train_images, train_labels, test_images, test_labels = read_digits()
    executor = static.Executor(paddle.CPUPlace())
    network, startup = static.Program(), static.Program()
    network.random_seed = startup.random_seed = SEED
    prefix = os.path.join(out_dir, "paddle", "inference")

    with static.program_guard(network, startup):
        image, _label, probabilities, loss = build_network()
        paddle.optimizer.Adam(LEARNING_RATE).minimize(loss)
    np.savez_compressed(
        os.path.join(out_dir, "train.npz"), image=train_images, label=train_labels.reshape(-1, 1)
    )
    executor.run(startup)
    train(executor, network, loss, train_images, train_labels)
    static.save_inference_model(prefix, [image], [probabilities], executor, program=network)

    outputs = run_saved_model(executor, prefix, test_images)
    accuracy = float(np.mean(outputs.argmax(axis=1) == test_labels))
    print("test accuracy {:.2%} of {} images".format(accuracy, len(test_labels)))
    np.savez(
        os.path.join(out_dir, "test.npz"), images=test_images, labels=test_labels, outputs=outputs
    )
    if accuracy < 0.97:
        sys.exit("the accuracy is below 97 %: the files are not the example they should be")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
