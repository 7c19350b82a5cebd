"""A program that Rust builds as well, with the same bytes: `crates/lodstone/tests/built_programs.rs`."""

from lodstone.checkpoint import make_checkpoint
from lodstone.program import Network, ParamAttr, clip, initializer, layers, optimizer, regularizer


def built(directory):
    """Returns the network, which saves a checkpoint every 20 runs; its loader is written to a directory."""
    with Network() as net:
        x = layers.data("image", [1, 8, 8])
        label = layers.data("label", [1], dtype="int64")
        for filters in (16, 32):
            x = layers.conv2d(x, filters, 3, padding=1, bias_attr=False)
            x = layers.batch_norm(x)
            x = layers.relu(x)
            x = layers.pool2d(x, 2, "max", 2)
        x = layers.dropout(x, 0.2, dropout_implementation="upscale_in_train")
        x = layers.reshape(x, [0, -1])
        weight = ParamAttr("hidden", initializer.Normal(0.0, 0.5, seed=3), regularizer=regularizer.L2Decay(0.25))
        x = layers.layer_norm(layers.fc(x, 24, param_attr=weight, act="tanh"))
        logits = layers.fc(x, 10)
        shares = layers.softmax(logits)
        layers.accuracy(shares, label)
        loss = layers.mean(layers.cross_entropy(shares, label))
        count, limit = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
        goes_on = layers.less_than(count, limit)
        loop = layers.While(goes_on)
        with loop.block():
            layers.increment(count)
            layers.assign(layers.less_than(count, limit), goes_on)
        (loss,) = layers.cond(goes_on, lambda: [layers.scale(loss, 2.0)], lambda: [layers.scale(loss, 3.0)])
        rate = layers.exponential_decay(0.004, 100, 0.9)
        optimizer.Adam(
            rate, regularization=regularizer.L2Decay(0.5), grad_clip=clip.GradientClipByGlobalNorm(1.0)
        ).minimize(loss)
        make_checkpoint(directory, None, net.startup, net.main, every=20)
    return net
