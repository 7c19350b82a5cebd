//! Types of inputs: nets declare none, so they follow from the operators that read them.

use lodstone_model::{Block, DType, Dim};

/// Inputs of operators that are not floats: the operator, the input, and its element type.
const INTEGERS: &[(&str, usize, DType)] = &[
    ("BatchGather", 1, DType::Int64),
    ("BatchOneHot", 1, DType::Int32),
    ("BatchPermutation", 1, DType::Int32),
    ("BatchSparseToDense", 0, DType::Int32),
    ("BatchSparseToDense", 1, DType::Int64),
    ("BooleanMask", 1, DType::Bool),
    ("Embedding", 1, DType::Int64),
    ("EmbeddingBag", 2, DType::Int64),
    ("EmbeddingBag", 3, DType::Int64),
    ("FillExamplesWithIndicator", 1, DType::Int32),
    ("Gather", 1, DType::Int64),
    ("GatherND", 1, DType::Int64),
    ("GRUUnit", 2, DType::Int32),
    ("GatherRanges", 1, DType::Int32),
    ("LSTMUnit", 3, DType::Int32),
    ("LengthsGather", 1, DType::Int32),
    ("LengthsGather", 2, DType::Int64),
    ("LengthsMax", 1, DType::Int32),
    ("LengthsMean", 1, DType::Int32),
    ("LengthsPad", 1, DType::Int32),
    ("LengthsPartition", 0, DType::Int32),
    ("LengthsPartition", 1, DType::Int64),
    ("LengthsRangeFill", 0, DType::Int32),
    ("LengthsSplit", 0, DType::Int32),
    ("LengthsSum", 1, DType::Int32),
    ("LengthsTile", 1, DType::Int32),
    ("LengthsToOffsets", 0, DType::Int32),
    ("LengthsToRanges", 0, DType::Int32),
    ("LengthsToSegmentIds", 0, DType::Int32),
    ("LengthsToShape", 0, DType::Int32),
    ("LengthsToWeights", 0, DType::Int32),
    ("LengthsTopK", 1, DType::Int32),
    ("LengthsWeightedSum", 2, DType::Int32),
    ("Mod", 0, DType::Int64),
    ("PackSegments", 0, DType::Int32),
    ("Partition", 0, DType::Int64),
    ("ScatterAssign", 1, DType::Int64),
    ("SegmentIdsToLengths", 0, DType::Int32),
    ("SegmentIdsToRanges", 0, DType::Int32),
    ("SortedSegmentMean", 1, DType::Int32),
    ("SortedSegmentSum", 1, DType::Int32),
    ("SparseLabelSplit", 0, DType::Int32),
    ("SparseLabelSplit", 1, DType::Int64),
    ("SparseLengthsMean", 1, DType::Int64),
    ("SparseLengthsMean", 2, DType::Int32),
    ("SparseLengthsPositionalWeightedSum", 2, DType::Int64),
    ("SparseLengthsPositionalWeightedSum", 3, DType::Int32),
    ("SparseLengthsSum", 1, DType::Int64),
    ("SparseLengthsSum", 2, DType::Int32),
    ("SparseLengthsSum8BitsRowwise", 1, DType::Int64),
    ("SparseLengthsSum8BitsRowwise", 2, DType::Int32),
    ("SparseLengthsSumFused4BitRowwise", 1, DType::Int64),
    ("SparseLengthsSumFused4BitRowwise", 2, DType::Int32),
    ("SparseLengthsSumFused8BitRowwise", 1, DType::Int64),
    ("SparseLengthsSumFused8BitRowwise", 2, DType::Int32),
    ("SparseLengthsWeightedSum", 2, DType::Int64),
    ("SparseLengthsWeightedSum", 3, DType::Int32),
    ("SparseLengthsWeightedSum8BitsRowwise", 2, DType::Int64),
    ("SparseLengthsWeightedSum8BitsRowwise", 3, DType::Int32),
    ("SparseLengthsWeightedSumFused4BitRowwise", 2, DType::Int64),
    ("SparseLengthsWeightedSumFused4BitRowwise", 3, DType::Int32),
    ("SparseLengthsWeightedSumFused8BitRowwise", 2, DType::Int64),
    ("SparseLengthsWeightedSumFused8BitRowwise", 3, DType::Int32),
    ("SparseToDense", 0, DType::Int64),
    ("SparseToDenseMask", 0, DType::Int64),
    ("SparseToDenseMask", 3, DType::Int32),
    ("UnpackSegments", 0, DType::Int32),
    ("UnsortedSegmentMean", 1, DType::Int32),
    ("UnsortedSegmentSum", 1, DType::Int32),
];

/// Returns the element type that the operators which read an input expect, those of nets inside included; floats by default.
pub(crate) fn dtype_by_use(blocks: &[Block], name: &str) -> DType {
    let ops = blocks.iter().flat_map(|block| &block.ops);
    let reads = ops.flat_map(|op| op.input("").iter().enumerate().map(move |it| (op, it)));
    let known = reads.filter(|(_, (_, read))| *read == name).find_map(|(op, (index, _))| {
        let found = INTEGERS.iter().find(|(kind, at, _)| *kind == op.kind && *at == index);
        found.map(|(.., dtype)| *dtype)
    });
    known.unwrap_or(DType::Float32)
}

/// Inputs of operators that have a fixed rank: the operator, the input, and its rank.
const RANKS: &[(&str, usize, usize)] = &[
    ("BBoxTransform", 0, 2),
    ("BBoxTransform", 1, 2),
    ("BBoxTransform", 2, 2),
    ("GenerateProposals", 0, 4),
    ("GenerateProposals", 1, 4),
    ("GenerateProposals", 2, 2),
    ("GenerateProposalsCPP", 0, 4),
    ("GenerateProposalsCPP", 1, 4),
    ("GenerateProposalsCPP", 2, 2),
    ("HeatmapMaxKeypoint", 0, 4),
    ("HeatmapMaxKeypoint", 1, 2),
    ("LRN", 0, 4),
    ("LengthsTopK", 0, 1),
    ("LengthsTopK", 1, 1),
    ("ResizeNearest", 0, 4),
    ("RoIAlign", 0, 4),
    ("RoIAlign", 1, 2),
    ("RoIAlignRotated", 0, 4),
    ("RoIAlignRotated", 1, 2),
    ("RoIPool", 0, 4),
    ("RoIPool", 1, 2),
];

/// Returns the dims of an input, of which none is known; `None` if no operator determines the rank.
pub(super) fn dims_by_use(
    main: &Block,
    name: &str,
    rank_of: impl Fn(&str) -> Option<usize>,
) -> Option<Vec<Dim>> {
    let rank = main.ops.iter().find_map(|op| {
        let place = op.input("").iter().position(|it| it == name)?;
        let fixed = RANKS.iter().find(|(kind, at, _)| *kind == op.kind && *at == place);
        match op.kind.as_str() {
            _ if fixed.is_some() => fixed.map(|(.., rank)| *rank),
            "Conv" | "ConvRelu" | "ConvTranspose" | "Int8Conv" | "Int8ConvRelu" if place == 0 => {
                rank_of(op.input("").get(1)?)
            }
            "AveragePool" | "MaxPool" if op.attribute("kernel").is_some() => Some(4),
            _ => None,
        }
    })?;
    Some(vec![Dim::Unknown; rank])
}
