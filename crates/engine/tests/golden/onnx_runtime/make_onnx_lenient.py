"""Writes models that ONNX Runtime runs although the text of ONNX's specification describes them differently.

    python make_onnx_lenient.py

Run with onnx 1.23.2 and onnxruntime 1.31.1.
"""

import os

import numpy as np

from cases import model_of, write

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    random = np.random.default_rng(0)
    signal = random.standard_normal((2, 40)).astype(np.float32)
    window = np.hanning(16).astype(np.float32)
    # A real signal without a last dim, as in models of speech recognition.
    model, feed = model_of("STFT", [signal, np.array(8), window, np.array(16)], opset=17)
    write(HERE, "ai_stft_1", model, feed)
    # Backwards, a start before the first element is the first one, as the text says; NumPy, the reference, selects nothing.
    starts = (-10, -(2**63), -6, 9, -1)
    ends = (-20, -(2**63), -9, -(2**63), 3)
    rows = random.standard_normal((5, 5)).astype(np.float32)
    for number, (start, end) in enumerate(zip(starts, ends), 1):
        step = -1 if number != 3 else -2
        given = [np.array([it]) for it in (start, end, 0, step)]
        model, feed = model_of("Slice", [rows, *given])
        write(HERE, f"ai_slice_{number}", model, feed)


if __name__ == "__main__":
    main()
