"""Deliberate differences between Lodstone and ONNX's checker and inference, with reasons."""

# Findings about models that ONNX accepts: patterns.
STRICTER = [
    (r"^the graph: has no outputs$", "a graph without outputs computes nothing, and ONNX Runtime refuses it"),
]

# Tests that do not pass: patterns of their names.
DIFFERENCES = [
    (r"checker_test.py::.*test_check_tensor_packed_subbyte_int32_data",
     "an int32_data of a small type holds one byte, as onnx.proto says; the checker takes it for four bytes, and accepts "
     "tensors that onnx.numpy_helper refuses to read"),
    (r"inference_function_test.py::.*test_inference_with_conflow",
     "the condition is constant, and what is wrong is in the branch that is never taken, which is not inferred"),
    (r"opaque_type_test.py::.*", "operators that the test registers have no rules here"),
    (r"schema_test.py::.*test_using_the_specified_version_in_onnx_check\[CustomOp-5--trap_op_version0\]",
     "operators that the test registers in ONNX's own set are unknown here"),
    (r"shape_inference_test.py::TestCustomSchemaShapeInference::"
     r"(test_custom_schema_shape_inference|test_dummy_graph_schema_shape_inference"
     r"|test_get_symbolic_input_returns_tensor_shape_proto|test_invalid_field_in_inference_func)",
     "operators that the test registers have no rules here"),
    (r"shape_inference_test.py::.*test_function_output_count_mismatch_does_not_crash",
     "a call may leave out the last outputs of a function, as an operator may leave out optional ones"),
    (r"shape_inference_test.py::.*test_rnn_layout",
     "the weights of a bidirectional network are those of both directions; ONNX does not compare them"),
    (r"shape_inference_test.py::.*test_slice_with_input_shape_axes",
     "ONNX takes steps that are unknown for 1; they are unknown here, and so are the dims"),
    (r"shape_inference_test.py::.*test_slice_with_input_shape_steps",
     "ONNX takes axes that are unknown for the first ones; they are unknown here, and so are the dims"),
    (r"shape_inference_test.py::.*test_stft_reals",
     "`onesided` of STFT is 1 if it is left out, as the operator's schema says; inference of ONNX takes it for 0"),
]

# Changed models on which the two do not agree: patterns of lines `misses|stricter|less OPERATOR: MESSAGE`.
MUTATIONS = [
    (r"^stricter \w+: the graph, operator 0 \(`\w+`( `\w+`)?\): (`\w+`: )?expected ",
     "inference finds operands, dims and numbers that no runtime computes; ONNX leaves them to runtimes"),
    (r"^less (Reduce\w+|ArgM(ax|in)): rank ",
     "any `keepdims` but 0 keeps the dims, as any flag; inference of ONNX keeps them for 1 alone"),
    (r"^less Attention: (dims|rank) of `(qk_matmul_output|present_value|present_key)`",
     "ONNX gives the lengths without the past, or a shape of one dim, if it does not know all of what they come from"),
    (r"^less Attention: dims of `Y`", "ONNX takes a size of heads that it does not know for 0"),
    (r"^less (Average|Lp|Max)Pool: ", "a window that is larger than what it moves over has no place, where ONNX counts one; "
     "and `auto_pad` counts rather than `pads`, where both are given, as in ONNX Runtime"),
    (r"^less Conv(Integer)?: ", "`auto_pad` counts rather than `pads`, where both are given, as in ONNX Runtime"),
    (r"^less Loop: rank of `seq_res`", "the loop puts vectors into a sequence that ONNX takes for one of scalars"),
    (r"^less Scan: dims", "ONNX takes the state for what it was at first, whatever the graph makes of it"),
    (r"^less Split: ", "ONNX counts more parts than there are elements with dims of 1, and then with negative ones"),
    (r"^less STFT: ", "`onesided` of STFT is 1 if it is left out, as the operator's schema says; ONNX takes it for 0"),
    (r"^misses Resize: .*Number of elements of input 'sizes' \(0\)",
     "ONNX takes sizes of which it does not know how many there are for none"),
    (r"^misses Loop: .*existing shape differ in rank",
     "a condition may be a vector of one element outside of the loop and a scalar inside, as many exporters write it"),
    (r"^misses Split: .*Neither 'split' input", "one part is the whole, without a size or a number"),
    (r"^misses StringNormalizer: ", "ONNX refuses a number of rows that is not known, which may be 1"),
]
