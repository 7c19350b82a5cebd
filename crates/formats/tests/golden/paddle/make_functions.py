"""Models of several functions, written by `jit.save` of PaddlePaddle 2.6.2.

    python make_functions.py DIRECTORY

`apart` has the parameters of each function in a separate file; `together` (`combine_params`) also has those of all
functions in the file of the last one. (2.6.2 uses the name of each function as the prefix of the next, and
writes to nested directories if the path is relative.)
"""

import os
import sys

import paddle
from paddle.jit import to_static
from paddle.static import InputSpec

X = [InputSpec([None, 2], name="x")]


class Network(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (paddle.nn.Linear(*sizes) for sizes in [(2, 3), (3, 2), (2, 2)])

    def forward(self, x):
        return self.b(self.a(x))

    @to_static(full_graph=True, input_spec=X)
    def enc(self, x):
        return self.a(x)

    @to_static(full_graph=True, input_spec=X)
    def other(self, x):
        return self.c(x)


def main():
    directory = os.path.abspath(sys.argv[1])
    for name in ["together", "apart"]:
        paddle.seed(7)
        network = to_static(Network(), full_graph=True, input_spec=X)
        path = os.path.join(directory, name, "net")
        paddle.jit.save(network, path, combine_params=name == "together")


main()
