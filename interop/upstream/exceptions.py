"""Tests of safetensors 0.8.0 that are expected to fail with Lodstone, and test modules that are not run."""

# Test modules, with the framework that each requires.
MODULES = {
    "test_handle.py": "torch",
    "test_multithreaded.py": "torch",
    "test_paddle_comparison.py": "paddle",
    "test_pread_backend.py": "torch",
    "test_pt_comparison.py": "torch",
    "test_pt_model.py": "torch",
    "test_simple.py": "torch",
    "test_threadable.py": "torch",
}

# Test modules that are not run.
LEFT_OUT = {
    "test_flax_comparison.py": "JAX and Flax are not installed, and Lodstone has no arrays of JAX",
    "test_mlx_comparison.py": "MLX is not installed, and Lodstone has no arrays of MLX",
    "test_tf_comparison.py": "TensorFlow is not installed, and Lodstone has no arrays of TensorFlow",
}

# Tests that are expected to fail; the run fails if one of them passes.
EXCEPTIONS = {
    "test_handle.py::ReadmeTestCase::test_numpy_example": "opens the file in text mode; Lodstone reads text from it",
    "test_paddle_comparison.py::WithOpenCase::test_paddle_slice_gpu": "needs a GPU; this PaddlePaddle has no CUDA",
    "test_paddle_comparison.py::WithOpenCase::test_paddle_tensor_gpu": "needs a GPU; this PaddlePaddle has no CUDA",
    "test_pt_comparison.py::TorchTestCase::test_bogus": "compares the text of a message, which differs",
    "test_pt_comparison.py::TorchTestCase::test_sparse": "compares the text of a message, which differs",
    "test_simple.py::ErrorsTestCase::test_file_not_found": "compares the text of a message, which differs",
    "test_simple.py::ReadmeTestCase::test_numpy_slice": "compares the text of messages, which differ",
}
