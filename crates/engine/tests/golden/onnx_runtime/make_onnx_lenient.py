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


if __name__ == "__main__":
    main()
