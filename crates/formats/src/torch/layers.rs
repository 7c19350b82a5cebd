//! The layers of PyTorch: classes of `torch.nn.modules` that are modules.
//!
//! Source of truth: PyTorch 2.15 and 1.5.

/// Layers by the module that contains them.
#[rustfmt::skip]
pub(super) const LAYERS: &[(&str, &[&str])] = &[
    ("torch.nn.modules.activation", &[
        "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
        "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid",
        "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
    ]),
    ("torch.nn.modules.adaptive", &[
        "AdaptiveLogSoftmaxWithLoss",
    ]),
    ("torch.nn.modules.batchnorm", &[
        "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
        "SyncBatchNorm", "_BatchNorm", "_LazyNormBase", "_NormBase",
    ]),
    ("torch.nn.modules.channelshuffle", &[
        "ChannelShuffle",
    ]),
    ("torch.nn.modules.container", &[
        "Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
    ]),
    ("torch.nn.modules.conv", &[
        "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d",
        "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "_ConvNd",
        "_ConvTransposeMixin", "_ConvTransposeNd",
    ]),
    ("torch.nn.modules.distance", &[
        "CosineSimilarity", "PairwiseDistance",
    ]),
    ("torch.nn.modules.dropout", &[
        "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "_DropoutNd",
    ]),
    ("torch.nn.modules.flatten", &[
        "Flatten", "Unflatten",
    ]),
    ("torch.nn.modules.fold", &[
        "Fold", "Unfold",
    ]),
    ("torch.nn.modules.instancenorm", &[
        "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
        "LazyInstanceNorm3d", "_InstanceNorm",
    ]),
    ("torch.nn.modules.linear", &[
        "Bilinear", "Identity", "LazyLinear", "Linear", "NonDynamicallyQuantizableLinear", "_LinearWithBias",
    ]),
    ("torch.nn.modules.loss", &[
        "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
        "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss", "MSELoss",
        "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss",
        "NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
        "TripletMarginWithDistanceLoss", "_Loss", "_WeightedLoss",
    ]),
    ("torch.nn.modules.module", &[
        "Module",
    ]),
    ("torch.nn.modules.normalization", &[
        "CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm",
    ]),
    ("torch.nn.modules.padding", &[
        "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
        "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
        "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "_CircularPadNd", "_ConstantPadNd",
        "_ReflectionPadNd", "_ReplicationPadNd",
    ]),
    ("torch.nn.modules.pixelshuffle", &[
        "PixelShuffle", "PixelUnshuffle",
    ]),
    ("torch.nn.modules.pooling", &[
        "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
        "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
        "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
        "MaxUnpool3d", "_AdaptiveAvgPoolNd", "_AdaptiveMaxPoolNd", "_AvgPoolNd", "_LPPoolNd", "_MaxPoolNd",
        "_MaxUnpoolNd",
    ]),
    ("torch.nn.modules.rnn", &[
        "GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
    ]),
    ("torch.nn.modules.sparse", &[
        "Embedding", "EmbeddingBag",
    ]),
    ("torch.nn.modules.transformer", &[
        "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
        "TransformerEncoderLayer",
    ]),
    ("torch.nn.modules.upsampling", &[
        "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
    ]),
    ("torch.nn.parallel.data_parallel", &["DataParallel"]),
    ("torch.nn.parallel.distributed", &["DistributedDataParallel"]),
];
