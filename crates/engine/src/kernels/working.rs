//! The memory that kernels work in, beside their inputs and results: copies in another type or order, lists of indices,
//! intermediate results.
//!
//! `tests/memory` compares it with an allocator that counts, for each operator. Kernels whose working memory is not
//! proportional to the numbers of elements reserve it themselves ([`Call::workspace`](crate::call::Call::workspace)).

/// The memory that a kernel works in, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Working {
    /// For each element of the inputs.
    inputs: u64,
    /// For each element of the results.
    results: u64,
}

impl Working {
    /// Returns the memory that the kernel of an operator works in.
    pub(crate) fn of(kind: &str) -> Self {
        let found = TABLE.binary_search_by_key(&kind, |(known, ..)| known);
        // Kernels without a row work in their results.
        let row = found.ok().and_then(|at| TABLE.get(at));
        row.map(|(_, inputs, results)| Self { inputs: *inputs, results: *results })
            .unwrap_or_default()
    }

    /// Returns the bytes for inputs and results of these numbers of elements.
    pub(crate) fn bytes(self, inputs: u64, results: u64) -> u64 {
        let inputs = self.inputs.saturating_mul(inputs);
        inputs.saturating_add(self.results.saturating_mul(results))
    }
}

/// The memory of operators by kind, in bytes for each element of the inputs and of the results. Results whose dims shape
/// inference does not find are taken to have the elements of the inputs.
const TABLE: [(&str, u64, u64); 140] = [
    ("Adagrad", 24, 0),
    ("Adam", 28, 0),
    ("AffineGrid", 0, 16),
    ("ArgMax", 4, 0),
    ("ArgMin", 4, 0),
    ("ArrayFeatureExtractor", 0, 4),
    ("Attention", 12, 24),
    ("AveragePool", 4, 28),
    ("BatchNormalization", 0, 8),
    ("Bernoulli", 0, 8),
    ("BiasGelu", 0, 16),
    ("BiasSplitGelu", 12, 20),
    ("Binarizer", 0, 8),
    ("BitShift", 0, 16),
    ("BlackmanWindow", 0, 8),
    ("Cast", 0, 24),
    ("CastLike", 0, 24),
    ("CausalConvWithState", 12, 6),
    ("Celu", 0, 4),
    ("CenterCropPad", 4, 0),
    ("Clip", 0, 6),
    ("Col2Im", 12, 6),
    ("Conv", 2, 6),
    ("ConvInteger", 6, 12),
    ("ConvTranspose", 4, 40),
    ("CumProd", 0, 28),
    ("CumSum", 0, 28),
    ("DFT", 40, 2),
    ("DeformConv", 0, 6),
    ("DequantizeLinear", 2, 8),
    ("Det", 12, 0),
    ("Div", 0, 16),
    ("DynamicQuantizeLinear", 20, 0),
    ("DynamicQuantizeMatMul", 12, 12),
    ("Einsum", 4, 0),
    ("Elu", 0, 2),
    ("EmbedLayerNormalization", 12, 12),
    ("EyeLike", 0, 8),
    ("FastGelu", 0, 24),
    ("FeatureVectorizer", 8, 8),
    ("FusedConv", 0, 4),
    ("FusedGemm", 2, 2),
    ("FusedMatMul", 2, 2),
    ("GatherElements", 0, 16),
    ("GatherND", 0, 12),
    ("Gelu", 0, 12),
    ("Gemm", 2, 2),
    ("GlobalAveragePool", 0, 4),
    ("GroupNorm", 0, 12),
    ("GroupNormalization", 0, 8),
    ("HammingWindow", 0, 8),
    ("HannWindow", 0, 8),
    ("Hardmax", 2, 16),
    ("Imputer", 0, 8),
    ("InstanceNormalization", 4, 8),
    ("IsInf", 0, 2),
    ("LRN", 2, 8),
    ("LayerNormalization", 8, 2),
    ("LinearAttention", 4, 8),
    ("LinearClassifier", 12, 4),
    ("LinearRegressor", 12, 8),
    ("LogSoftmax", 0, 8),
    ("LpNormalization", 0, 2),
    ("LpPool", 6, 2),
    ("MatMulInteger", 12, 8),
    ("MatMulIntegerToFloat", 16, 8),
    ("MatMulNBits", 0, 2),
    ("Max", 0, 2),
    ("MaxPool", 6, 6),
    ("MaxUnpool", 2, 8),
    ("Mean", 2, 0),
    ("MeanVarianceNormalization", 0, 8),
    ("MelWeightMatrix", 0, 8),
    ("Min", 0, 2),
    ("Mish", 0, 4),
    ("Mod", 0, 16),
    ("Momentum", 16, 0),
    ("MultiHeadAttention", 4, 0),
    ("Multinomial", 0, 16),
    ("NegativeLogLikelihoodLoss", 6, 0),
    ("NhwcConv", 0, 2),
    ("NonMaxSuppression", 16, 0),
    ("Normalizer", 0, 16),
    ("OneHot", 0, 2),
    ("PRelu", 0, 6),
    ("Pad", 0, 4),
    ("Pow", 12, 0),
    ("QGemm", 16, 40),
    ("QLinearAdd", 0, 40),
    ("QLinearAveragePool", 40, 0),
    ("QLinearConcat", 40, 0),
    ("QLinearConv", 0, 40),
    ("QLinearGlobalAveragePool", 20, 0),
    ("QLinearLeakyRelu", 0, 24),
    ("QLinearMatMul", 16, 20),
    ("QLinearMul", 0, 40),
    ("QLinearReduceMean", 24, 0),
    ("QLinearSigmoid", 0, 24),
    ("QLinearSoftmax", 0, 40),
    ("QLinearWhere", 48, 0),
    ("QuantizeLinear", 0, 24),
    ("QuickGelu", 0, 4),
    ("RMSNormalization", 0, 6),
    ("RandomNormal", 0, 8),
    ("RandomNormalLike", 0, 8),
    ("RandomUniform", 0, 8),
    ("RandomUniformLike", 0, 8),
    ("Range", 0, 16),
    ("ReduceLogSum", 4, 0),
    ("ReduceLogSumExp", 20, 0),
    ("ReduceMax", 6, 0),
    ("ReduceMean", 2, 0),
    ("ReduceMin", 6, 0),
    ("ReduceProd", 2, 0),
    ("Resize", 0, 2),
    ("ReverseSequence", 2, 16),
    ("RotaryEmbedding", 0, 12),
    ("STFT", 8, 8),
    ("SVMClassifier", 32, 6),
    ("SVMRegressor", 0, 40),
    ("Scaler", 0, 12),
    ("Scatter", 16, 4),
    ("ScatterElements", 40, 0),
    ("ScatterND", 6, 16),
    ("Selu", 0, 4),
    ("Shrink", 0, 12),
    ("Sign", 0, 2),
    ("SimplifiedLayerNormalization", 0, 4),
    ("SkipLayerNormalization", 4, 6),
    ("SkipSimplifiedLayerNormalization", 4, 2),
    ("Softmax", 0, 4),
    ("SoftmaxCrossEntropyLoss", 8, 0),
    ("Softplus", 0, 4),
    ("Sum", 2, 0),
    ("SwiGLU", 0, 20),
    ("ThresholdedRelu", 0, 2),
    ("TopK", 12, 2),
    ("TreeEnsemble", 16, 6),
    ("TreeEnsembleClassifier", 12, 16),
    ("TreeEnsembleRegressor", 16, 6),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_in_order() {
        assert!(TABLE.is_sorted_by(|(one, ..), (next, ..)| one < next));
    }
}
