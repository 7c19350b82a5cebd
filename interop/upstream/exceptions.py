"""Tests of safetensors 0.8.0 that are not expected to pass with Lodstone, and modules of them that are not run."""

# Modules by the framework that they need, which has to be installed.
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

# Modules that are not run.
LEFT_OUT = {
    "test_flax_comparison.py": "JAX and Flax are not installed, and Lodstone has no arrays of JAX",
    "test_mlx_comparison.py": "MLX is not installed, and Lodstone has no arrays of MLX",
    "test_tf_comparison.py": "TensorFlow is not installed, and Lodstone has no arrays of TensorFlow",
}

# Tests that fail; one that passes fails the run.
EXCEPTIONS = {
    "test_handle.py::ReadmeTestCase::test_numpy_example": "a file that is open as text is read as text",
    "test_paddle_comparison.py::WithOpenCase::test_paddle_slice_gpu": "needs a GPU; this PaddlePaddle has no CUDA",
    "test_paddle_comparison.py::WithOpenCase::test_paddle_tensor_gpu": "needs a GPU; this PaddlePaddle has no CUDA",
    "test_pt_comparison.py::TorchTestCase::test_bogus": "compares the text of a message; ours is our own",
    "test_pt_comparison.py::TorchTestCase::test_sparse": "compares the text of a message; ours is our own",
    "test_simple.py::ErrorsTestCase::test_file_not_found": "compares the text of a message; ours is our own",
    "test_simple.py::ReadmeTestCase::test_numpy_slice": "compares the text of messages; ours are our own",
}
