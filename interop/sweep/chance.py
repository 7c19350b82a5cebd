"""Random parts of a call: dims, elements, axes, choices."""
import zlib

import numpy as np

F32, F64, I32, I64, BOOL, U8 = "float32", "float64", "int32", "int64", "bool", "uint8"

# Codes of element types in attributes. PaddlePaddle stores `bfloat16` in NumPy arrays of `uint16`.
CODES = {
    BOOL: 0, "int16": 1, I32: 2, I64: 3, "float16": 4, F32: 5, F64: 6, U8: 20, "int8": 21, "uint16": 22,
}

# Numbers at which functions often have special cases.
ODD = [np.nan, np.inf, -np.inf, -0.0, 0.0]

# The probability that elements contain special numbers.
ODD_SHARE = 0.15


class Call:
    """One call of an operator.

    `outputs` lists the output slots, or maps each to its number of variables or to the input that it overwrites. The
    contents of the slots in `silent` are unspecified. With `forward=False`, only the gradient is compared; with
    `gradient=False`, only the operator, because Lodstone does not compute its gradient.
    """

    def __init__(self, inputs, attributes=None, outputs=("Out",), silent=(), forward=True, gradient=True):
        self.inputs, self.attributes, self.outputs = inputs, attributes or {}, outputs
        self.silent, self.forward, self.gradient = silent, forward, gradient


class Chance:
    """Random choices, determined by a key. With `has_empty`, one of the first dims that are chosen is 0."""

    def __init__(self, *key, has_empty=False):
        self.random = np.random.RandomState(zlib.crc32(repr(key).encode()))
        self.has_empty = has_empty

    def int(self, least, most):
        """Returns an integer, with both bounds inclusive."""
        return int(self.random.randint(least, most + 1))

    def ints(self, count, least, most):
        return [self.int(least, most) for _ in range(count)]

    def flag(self, share=0.5):
        return bool(self.random.random_sample() < share)

    def pick(self, *choices):
        return choices[self.int(0, len(choices) - 1)]

    def some(self, choices, least=1):
        """Returns some of these, in random order."""
        choices = list(choices)
        count = self.int(min(least, len(choices)), len(choices))
        return [choices[place] for place in self.random.permutation(len(choices))[:count]]

    def number(self, least, most):
        """Returns a float that single precision represents exactly."""
        return float(np.float32(least + (most - least) * self.random.random_sample()))

    def dim(self, most=6):
        return 1 if self.flag(0.2) else self.int(1, most)

    def dims(self, count, most=6):
        dims = [self.dim(most) for _ in range(count)]
        if self.has_empty and dims:
            self.has_empty = False
            dims[self.int(0, count - 1)] = 0
        return tuple(dims)

    def shape(self, least=1, most=4, dim=6):
        return self.dims(self.int(least, most), dim)

    def axis(self, rank):
        return self.int(-rank, rank - 1)

    def axes(self, rank, least=1):
        """Returns distinct axes, some of them negative."""
        return [axis - rank if self.flag(0.3) else axis for axis in self.some(range(rank), least)]

    def floating(self):
        return self.pick(F32, F32, F64)

    def type(self):
        return self.pick(F32, F32, F64, I32, I64)

    def plain(self, shape, dtype=F32, scale=2.0):
        """Returns numbers around 0, rounded so that sums of a few are exact."""
        values = np.round(self.random.standard_normal(shape) * scale * 64) / 64
        return np.asarray(values).astype(dtype)

    def numbers(self, shape, dtype=F32, scale=2.0, odd=ODD_SHARE):
        """Returns numbers of any type; floats occasionally include special numbers."""
        if dtype == BOOL:
            return self.bools(shape)
        if dtype not in (F32, F64):
            return self.integers(shape, -9, 9, dtype)
        values = self.plain(shape, dtype, scale)
        if values.size and self.flag(odd):
            flat = values.reshape(-1)
            for place in self.ints(self.int(1, 3), 0, flat.size - 1):
                flat[place] = self.pick(*ODD)
            values = flat.reshape(shape)
        return values

    def positive(self, shape, dtype=F32):
        return (np.abs(self.plain(shape, dtype)) + 0.125).astype(dtype)

    def integers(self, shape, least, most, dtype=I64):
        return np.asarray(self.random.randint(least, most + 1, shape)).astype(dtype)

    def bools(self, shape):
        return self.integers(shape, 0, 1, BOOL)

    def distinct(self, shape, dtype=F32, odd=ODD_SHARE):
        """Returns distinct numbers, occasionally with a NaN or an infinity."""
        count = int(np.prod(shape))
        values = (self.random.permutation(count) - count // 2).astype(dtype)
        if dtype in (F32, F64) and count and self.flag(odd):
            values[self.int(0, count - 1)] = self.pick(np.nan, np.inf, -np.inf)
        return values.reshape(shape)

    def shares(self, shape, dtype=F32):
        """Returns rows of positive numbers that add up to one."""
        values = self.positive(shape, F64)
        return (values / values.sum(-1, keepdims=True)).astype(dtype)


def array(*values, dtype=I64):
    return np.array(values, dtype)


# The generators of calls, by operator kind.
CALLS = {}


def calls(*kinds):
    """Registers a generator of calls: a function of random choices and the operator kind."""
    def register(function):
        for kind in kinds:
            CALLS[kind] = function
        return function
    return register
