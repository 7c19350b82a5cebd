"""What the examples share: a small convolutional network for handwritten digits, and its data."""

import pathlib

import numpy as np

import lodstone
from lodstone.program import layers

BATCH = 32
DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits"


def network():
    """Appends the network to the current program; returns its probabilities and its loss."""
    x = layers.data("image", shape=[1, 8, 8])
    label = layers.data("label", shape=[1], dtype="int64")
    for filters in (16, 32):
        x = layers.conv2d(x, num_filters=filters, filter_size=3, padding=1, bias_attr=False)
        x = layers.batch_norm(x, act="relu")
        x = layers.pool2d(x, pool_size=2, pool_stride=2)
    x = layers.dropout(x, dropout_prob=0.2, dropout_implementation="upscale_in_train")
    logits = layers.fc(x, size=10)
    shares = layers.softmax(logits)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    return shares, loss


def batches(begin, end):
    """Returns the batches of the steps from `begin` up to, excluding, `end`: shuffled, but the same in each run."""
    data = lodstone.open(DIGITS / "train.npz")
    images, labels = np.asarray(data["image"]), np.asarray(data["label"])
    per_epoch = len(images) // BATCH
    for step in range(begin, end):
        epoch, place = divmod(step, per_epoch)
        rows = np.random.default_rng(epoch).permutation(len(images))[place * BATCH :][:BATCH]
        yield {"image": images[rows], "label": labels[rows]}
