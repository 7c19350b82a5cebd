//! What becomes of the LoD of what operators read.

use lodstone_model::Op;

/// The input slot whose LoD what is in an output slot has, as long as it has as many rows; `None` if it has none.
/// Operators of sequences, which make LoD of their own, are not told here.
pub fn lod_source<'o>(op: &Op, output: &'o str) -> Option<&'o str> {
    Some(match op.kind.as_str() {
        // These give rows of their own.
        "abs"
        | "accuracy"
        | "arg_max"
        | "arg_min"
        | "assign_value"
        | "bmm"
        | "conv2d"
        | "conv3d"
        | "conv2d_transpose"
        | "depthwise_conv2d"
        | "depthwise_conv2d_transpose"
        | "expand_v2"
        | "fill_any_like"
        | "fill_constant"
        | "fill_constant_batch_size_like"
        | "gather"
        | "mean"
        | "pool2d"
        | "pool3d"
        | "range"
        | "reduce_all"
        | "reduce_any"
        | "reduce_max"
        | "reduce_mean"
        | "reduce_min"
        | "reduce_prod"
        | "reduce_sum"
        | "shape"
        | "stack"
        | "transpose"
        | "transpose2" => return None,
        "lookup_table" | "lookup_table_v2" => "Ids",
        "slice" => "Input",
        "softmax_with_cross_entropy" => "Logits",
        "where" => "Condition",
        "lookup_table_grad"
        | "lookup_table_v2_grad"
        | "reshape_grad"
        | "softmax_with_cross_entropy_grad"
        | "top_k_grad"
        | "top_k_v2_grad" => return None,
        kind if kind.starts_with("elementwise_") && kind.ends_with("_grad") => {
            return output.strip_suffix("@GRAD");
        }
        // That of the input, or of what has as many rows as that.
        kind if kind.ends_with("_grad") => {
            let mut slots = ["X", "Out", "Out@GRAD"].into_iter();
            return slots.find(|slot| !op.input(slot).is_empty());
        }
        _ => "X",
    })
}
