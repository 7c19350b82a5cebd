//! Operators that no build of their framework runs here: those of other devices and releases, and those that only another
//! reader of the format has. Each computes what the operators of a recorded program compute, and is tried in their place.
//!
//! A reason names the source: a file of the framework, or of Glow, whose loader reads Caffe2's nets.

use lodstone_model::{Attribute, AttributeValue, Dialect, Model, Op, Operand, Program};

/// An operator that is tried in the place of others.
pub(crate) struct Equal {
    pub(crate) dialect: Dialect,
    pub(crate) kind: &'static str,
    /// The name of the recorded case.
    case: &'static str,
    instead: Instead,
    /// Why the results are the same.
    pub(crate) why: &'static str,
}

/// The operators of a recorded program that are replaced.
enum Instead {
    /// Those of a kind get the other kind; inputs, outputs and attributes remain.
    Of(&'static str),
    /// Those of a kind get the other kind, and their arguments other names; those without a new name are removed.
    Named(&'static str, &'static [(&'static str, &'static str)]),
    /// All operators of the main program are replaced by one, which reads these variables, and writes the outputs.
    OfAll(&'static [&'static str], &'static [(&'static str, Given)]),
}

/// An attribute.
#[derive(Clone, Copy)]
enum Given {
    Int(i64),
    Ints(&'static [i64]),
}
use Dialect::{Caffe2, Mxnet, Pir, Torch};
use Given::{Int, Ints};
use Instead::{Named, Of, OfAll};

const fn equal(
    dialect: Dialect,
    kind: &'static str,
    case: &'static str,
    instead: Instead,
    why: &'static str,
) -> Equal {
    Equal { dialect, kind, case, instead, why }
}

pub(crate) const EQUAL: &[Equal] = &[
    equal(
        Caffe2,
        "CopyCPUToGPU",
        "in_place",
        Of("Copy"),
        "`CopyOp` of `caffe2/operators/copy_op.h` copies the elements of one device to another",
    ),
    equal(Caffe2, "CopyGPUToCPU", "in_place", Of("Copy"), "as `CopyCPUToGPU`"),
    equal(
        Caffe2,
        "CopyCPUToMKL",
        "in_place",
        Of("Copy"),
        "`caffe2/mkl/operators/utility_ops.cc` of releases before 1.0: copies the elements to the layout of MKL",
    ),
    equal(Caffe2, "CopyMKLToCPU", "in_place", Of("Copy"), "as `CopyCPUToMKL`"),
    equal(
        Caffe2,
        "Embedding",
        "gather",
        Of("Gather"),
        "Glow, `CommonOperatorLoader.h`, `loadEmbedding`: rows of the first input by index",
    ),
    equal(
        Caffe2,
        "EmbeddingBag",
        "bags",
        OfAll(&["t", "w", "i", "o"], &[]),
        "Glow, `CommonOperatorLoader.h`, `loadEmbeddingBag`: weighted sums of rows, whose groups begin at offsets",
    ),
    equal(
        Caffe2,
        "FillExamplesWithIndicator",
        "marked_rows",
        OfAll(&["x", "m"], &[]),
        "Glow, `Caffe2ModelLoader.cpp`: scatters rows over zeros, to where the indicator is not 0",
    ),
    equal(
        Caffe2,
        "GatherND",
        "gather_cells",
        OfAll(&["x", "i"], &[]),
        "Glow, `CommonOperatorLoader.h`, `loadGatherND`: as ONNX's",
    ),
    equal(
        Caffe2,
        "GivenTensorFp16Fill",
        "fc_packed",
        Of("GivenTensorFill"),
        "Glow, `Caffe2ModelLoader.cpp`, `loadWeight`: the values of `GivenTensorFill` in half precision, which is that of \
         packed weights",
    ),
    equal(
        Caffe2,
        "Identity",
        "in_place",
        Of("Copy"),
        "Glow, `CommonOperatorLoader.h`, `loadIdentity`: the output is the input",
    ),
    equal(
        Caffe2,
        "Less",
        "compare",
        Of("LT"),
        "Glow, `CommonOperatorLoader.h`, `loadLess`: `CmpLT`",
    ),
    equal(
        Caffe2,
        "Neg",
        "unary",
        Of("Negative"),
        "Glow, `CommonOperatorLoader.h`, `loadNeg`: `Neg`",
    ),
    equal(
        Caffe2,
        "ReduceProd",
        "products",
        OfAll(&["x"], &[("axes", Ints(&[1])), ("keepdims", Int(1))]),
        "Glow, `CommonOperatorLoader.h`, `loadReduceOp`: the product along axes, which remain unless `keepdims` is 0",
    ),
    equal(
        Caffe2,
        "ReduceProd",
        "products_last",
        OfAll(&["x"], &[("axes", Ints(&[2]))]),
        "as before, without `keepdims`",
    ),
    equal(
        Caffe2,
        "ScaleGradient",
        "in_place",
        Of("StopGradient"),
        "Glow, `Caffe2ModelLoader.cpp`: both are the input, as inference has no gradients",
    ),
    equal(
        Caffe2,
        "SparseLabelSplit",
        "labels",
        OfAll(&["l", "i", "v"], &[("num_labels", Int(2)), ("keep_gradient_offset_map", Int(1))]),
        "Glow, `Caffe2ModelLoader.cpp` and `Interpreter`: values and examples of each label, and positions within a label",
    ),
    equal(
        Mxnet,
        "_CachedOpThreadSafe",
        "rules_cached",
        Of("_CachedOp"),
        "`src/imperative/cached_op_threadsafe.cc`: the same graph, whose calls have a lock",
    ),
    equal(
        Pir,
        "pd_op.depend",
        "share_data",
        Of("pd_op.share_data"),
        "`phi/ops/yaml/ops.yaml`: the type of the first input (`UnchangedInferMeta`); `phi/kernels/cpu/depend_kernel.cc` fails \
         unless the output is that input",
    ),
    equal(
        Pir,
        "pd_op.ones",
        "ones of a shape",
        Of("pd_op.full"),
        "`phi/ops/yaml/ops.yaml`: `ones` invokes `full(shape, 1, dtype, place)`, which this program does",
    ),
    equal(
        Pir,
        "pd_op.ones_like",
        "ones like a tensor",
        Of("pd_op.full_like"),
        "`phi/ops/yaml/ops.yaml`: `ones_like` invokes `full_like(x, 1, dtype, place)`",
    ),
    equal(
        Pir,
        "pd_op.zeros",
        "zeros of a shape",
        Of("pd_op.full"),
        "`phi/ops/yaml/ops.yaml`: `zeros` invokes `full(shape, 0, dtype, place)`",
    ),
    equal(
        Pir,
        "pd_op.zeros_like",
        "zeros like a tensor",
        Of("pd_op.full_like"),
        "`phi/ops/yaml/ops.yaml`: `zeros_like` invokes `full_like(x, 0, dtype, place)`",
    ),
    equal(
        Torch,
        "_operator::pos",
        "negated",
        Of("_operator::neg"),
        "of Python: `+(+n)` and `-(-n)` are `n`; in this program, numbers are negated twice",
    ),
    equal(
        Torch,
        "aten::_scaled_dot_product_efficient_attention",
        "attention",
        Named("aten::_scaled_dot_product_flash_attention_for_cpu", &[("attn_mask", "attn_bias")]),
        "`scaled_dot_product_attention` in `aten/src/ATen/native/transformers/attention.cpp` calls it where that backend is \
         chosen; `native_functions.yaml` has it on GPUs only",
    ),
    equal(
        Torch,
        "aten::_scaled_dot_product_flash_attention",
        "attention",
        Of("aten::_scaled_dot_product_flash_attention_for_cpu"),
        "as `aten::_scaled_dot_product_efficient_attention`",
    ),
    equal(
        Torch,
        "aten::conv_depthwise3d",
        "rare_depthwise",
        Named("aten::conv3d", &[("input", "self"), ("groups", "")]),
        "`aten/src/ATen/native/Convolution.cpp` calls it for `ConvBackend::CudaDepthwise3d`: a group for each channel",
    ),
    equal(
        Torch,
        "aten::cuda",
        "moved",
        Of("aten::cpu"),
        "`torch.Tensor.cuda`: a copy in the memory of another device",
    ),
    equal(
        Torch,
        "aten::sym_constrain_range",
        "rare_consecutive",
        Of("aten::_assert_scalar"),
        "`aten/src/ATen/native/Constraints.cpp` checks the range of a number, as `_assert_scalar` in `TensorCompare.cpp` checks \
         a condition; both return nothing",
    ),
    equal(
        Torch,
        "aten::sym_constrain_range_for_size",
        "rare_consecutive",
        Of("aten::_assert_scalar"),
        "as `aten::sym_constrain_range`",
    ),
    equal(
        Torch,
        "aten::numel",
        "rare_count",
        Of("aten::sym_numel"),
        "`native_functions.yaml`: `sym_numel` is `numel` whose result may be a symbol",
    ),
];

/// Returns the operators that are tried in the place of others in a case.
pub(crate) fn of(dialect: Dialect, case: &str) -> impl Iterator<Item = &'static Equal> {
    EQUAL.iter().filter(move |equal| equal.dialect == dialect && equal.case == case)
}

impl Equal {
    /// Changes the program of a case.
    pub(crate) fn put(&self, model: &mut Model) {
        match self.instead {
            Of(kind) => self.rename(model, kind, &[]),
            Named(kind, names) => self.rename(model, kind, names),
            OfAll(reads, attributes) => {
                let main: &mut Program = model.programs.main_mut().unwrap();
                let block = &mut main.blocks[0];
                let operand = |args: Vec<String>| Operand { slot: String::new(), args };
                let reads = reads.iter().map(|&name| name.to_owned()).collect();
                let attributes = attributes.iter().map(|(name, value)| Attribute {
                    name: (*name).to_owned(),
                    value: match *value {
                        Int(value) => AttributeValue::Long(value),
                        Ints(values) => AttributeValue::Longs(values.to_vec()),
                    },
                });
                block.ops = vec![Op {
                    kind: self.kind.to_owned(),
                    inputs: vec![operand(reads)],
                    outputs: vec![operand(block.outputs.clone())],
                    attributes: attributes.collect(),
                    ..Op::default()
                }];
            }
        }
    }

    fn rename(&self, model: &mut Model, from: &str, names: &[(&str, &str)]) {
        let blocks = model.programs.iter_mut().flat_map(|program| &mut program.blocks);
        let ops = blocks.flat_map(|block| &mut block.ops);
        let replaced: Vec<&mut Op> = ops.filter(|op| op.kind == from).collect();
        assert!(!replaced.is_empty(), "{}: there is no `{from}`", self.case);
        let renamed = |name: &mut String| match names.iter().find(|(old, _)| name == old) {
            Some((_, "")) => false,
            Some((_, new)) => {
                (*new).clone_into(name);
                true
            }
            None => true,
        };
        for op in replaced {
            self.kind.clone_into(&mut op.kind);
            op.inputs.retain_mut(|operand| renamed(&mut operand.slot));
            op.attributes.retain_mut(|attribute| renamed(&mut attribute.name));
        }
    }
}
