"""Deliberate differences between Lodstone and ONNX's checker and inference, with reasons."""

# Findings about models that ONNX accepts: patterns.
STRICTER = [
    (r"^the graph: has no outputs$", "a graph without outputs computes nothing, and ONNX Runtime rejects it"),
]

# Tests that do not pass: patterns of their names.
DIFFERENCES = [
    (r"checker_test.py::.*test_check_tensor_packed_subbyte_int32_data",
     "an int32_data entry of a small type holds one byte according to onnx.proto; the checker assumes four bytes, and "
     "accepts tensors that onnx.numpy_helper rejects"),
    (r"inference_function_test.py::.*test_inference_with_conflow",
     "the condition is constant; the error is in the branch that is never taken, which is not inferred"),
    (r"opaque_type_test.py::.*", "Lodstone has no rules for operators that the test registers"),
    (r"schema_test.py::.*test_using_the_specified_version_in_onnx_check\[CustomOp-5--trap_op_version0\]",
     "Lodstone does not know operators that the test registers in ONNX's own opset"),
    (r"shape_inference_test.py::TestCustomSchemaShapeInference::"
     r"(test_custom_schema_shape_inference|test_dummy_graph_schema_shape_inference"
     r"|test_get_symbolic_input_returns_tensor_shape_proto|test_invalid_field_in_inference_func)",
     "Lodstone has no rules for operators that the test registers"),
    (r"shape_inference_test.py::.*test_function_output_count_mismatch_does_not_crash",
     "a call may omit the last outputs of a function, as an operator may omit optional outputs"),
    (r"shape_inference_test.py::.*test_resize_scale_precision_large_dim\[.*",
     "a size by a scale is a product in single precision, as runtimes compute it; ONNX's inference computes it exactly"),
    (r"shape_inference_test.py::.*test_rnn_layout",
     "a bidirectional network has weights for both directions; ONNX does not check their dims"),
    (r"shape_inference_test.py::.*test_slice_with_input_shape_axes",
     "ONNX assumes 1 for unknown steps; Lodstone leaves the dims unknown"),
    (r"shape_inference_test.py::.*test_slice_with_input_shape_steps",
     "ONNX assumes the first axes for unknown axes; Lodstone leaves the dims unknown"),
    (r"shape_inference_test.py::.*test_stft_reals",
     "the default of `onesided` of STFT is 1 according to the schema; ONNX's inference assumes 0"),
]

# Mutated models on which ONNX and Lodstone disagree: patterns of lines `misses|stricter|less OPERATOR: MESSAGE`.
MUTATIONS = [
    (r"^stricter \w+: the graph, operator 0 \(`\w+`( `\w+`)?\): (`\w+`: )?expected ",
     "Lodstone rejects operands, dims and numbers that no runtime accepts; ONNX leaves this to runtimes"),
    (r"^less (Reduce\w+|ArgM(ax|in)): rank ",
     "every `keepdims` other than 0 keeps the dims; ONNX's inference keeps them only for 1"),
    (r"^less Attention: (dims|rank) of `(qk_matmul_output|present_value|present_key)`",
     "if not all inputs are known, ONNX infers lengths without the past, or a shape of rank 1"),
    (r"^less Attention: dims of `Y`", "ONNX assumes 0 for an unknown head size"),
    (r"^less (Average|Lp|Max)Pool: ",
     "a window that is larger than the input has no positions, but ONNX counts one; and `auto_pad` overrides `pads` if "
     "both are present, as in ONNX Runtime"),
    (r"^less Conv(Integer)?: ", "`auto_pad` overrides `pads` if both are present, as in ONNX Runtime"),
    (r"^less Loop: rank of `seq_res`", "the loop inserts vectors into a sequence that ONNX infers to contain scalars"),
    (r"^less Scan: dims", "ONNX assumes that the state keeps its initial dims, whatever the body computes"),
    (r"^less Split: ", "if there are more parts than elements, ONNX infers dims of 1, and then negative dims"),
    (r"^less STFT: ", "the default of `onesided` of STFT is 1 according to the schema; ONNX's inference assumes 0"),
    (r"^misses Resize: .*Number of elements of input 'sizes' \(0\)",
     "ONNX assumes that `sizes` is empty if its length is unknown"),
    (r"^misses Loop: .*existing shape differ in rank",
     "a condition may be a vector of one element outside of the loop and a scalar inside, as many exporters write it"),
    (r"^misses Split: .*Neither 'split' input", "with a single output, neither sizes nor a number of parts are needed"),
    (r"^misses StringNormalizer: ", "ONNX rejects an unknown number of rows, which may be 1"),
]

# Models of ONNX's backend tests that are expected to fail: patterns of their names.
UNRUN = [
    (r"^test_bernoulli", "random numbers of another generator"),
    (r"^test_training_dropout(_mask|_default|_default_mask)?$", "random numbers of another generator"),
    (r"^test_image_decoder_decode_jpeg_", "JPEG decoders differ by up to 2 of 255"),
    (r"^test_image_decoder_decode_jpeg2k_rgb$", "JPEG 2000 is not supported"),
    (r"^test_resize_downsample_scales_(cubic|linear)_align_corners$",
     "corners are aligned by the exact size; Lodstone takes the integer one, as ONNX Runtime"),
    (r"^test_gradient_of_", "there is no operator for gradients"),
]
