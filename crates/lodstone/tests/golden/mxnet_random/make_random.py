"""Writes a program that draws random numbers of every supported distribution, with MXNet 1.9.1, to the current directory."""

import mxnet as mx

S = mx.sym
d = S.var("data")
low, high = S.var("low"), S.var("high")
chances = S.var("chances")
outs = [
    S.random.uniform(low=2, high=5, shape=(64, 64), name="uniform"),
    S.random.normal(loc=1, scale=2, shape=(64, 64), name="normal"),
    S.random.exponential(scale=0.5, shape=(64, 64), name="exponential"),
    S.random.randint(3, 7, shape=(64, 64), name="randint"),
    S.random.uniform_like(d, low=-1, high=0, name="uniform_like"),
    S.random.normal_like(d, loc=3, scale=0.1, name="normal_like"),
    S.random.exponential_like(d, lam=4, name="exponential_like"),
    S.sample_uniform(low, high, shape=(400,), name="sample_uniform"),
    S.sample_normal(low, high, shape=(400,), name="sample_normal"),
    S.sample_exponential(high, shape=(400,), name="sample_exponential"),
    S.sample_multinomial(chances, shape=(500,), get_prob=True, name="multinomial"),
    S.shuffle(d, name="shuffle"),
]
s = S.Group(outs)
s.save("random-symbol.json")
