//! Indexing: spans and sections of axes, elements by index, writes to parts of a tensor, and diagonals.
//!
//! | framework and release | what it means there | by |
//! |---|---|---|
//! | PyTorch, `slice` | Python's rule: bounds below 0 count from the end, and are then clamped; steps are positive | `aten::slice` of 2.15 |
//! | PyTorch, `narrow` | a start below 0 counts from the end; elements beyond the dim are an error | `torch.narrow(arange(5), 0, 3, 4)` |
//! | MXNet 1.9.1, `slice`, `_slice_assign` | Python's rule, with negative steps and `None`: backwards from -7, there are no elements of 5 | `matrix_op-inl.h`, `GetIndexRange` |
//! | MXNet 1.9.1, `slice_axis` | bounds outside of the dim, and spans without elements, are errors | `matrix_op-inl.h`, `GetSliceAxisParams` |
//! | PaddlePaddle 2.6, `slice` | Python's rule | `phi/kernels/funcs/slice_utils.h` |
//! | PaddlePaddle 2.6, `set_value` | backwards, a start below `-dim` is the first element, and an end of -1 or below `-dim` is before it: 4 to -1 are all elements of 5 | `slice_utils.h`, `CheckAndUpdateSliceAttrs` |
//! | PaddlePaddle up to 2.6, `strided_slice` | as `set_value`, but an end below `-dim` is the first element: 4 to -9 are four elements of 5 | `phi/kernels/funcs/strided_slice.h` |
//! | PaddlePaddle 3.0, `strided_slice` | Python's rule | `pir::strided_slice` cases |
//! | Caffe2, `Slice` | bounds below 0 count from behind the last element: -1 is the end, and -2 before the last element. Bounds beyond the dim are clamped to it; those below it are errors | `slice_op.h` of 1.9.1 |
//! | PyTorch, `split` | sections of a size, of which the last may be shorter | `aten::split` of 2.15 |
//! | PyTorch, `chunk` | the size is `dim / count`, rounded up: 5 in 4 chunks are 3 sections | `aten::chunk` of 2.15 |
//! | PyTorch, `tensor_split`; MXNet 1.9.1, `_split_v2` with sections | the first `dim % count` sections are longer by one | `torch.tensor_split(arange(5), 2)`; `matrix_op-inl.h` |
//! | PyTorch, `tensor_split` at indices | slices between neighboring indices, by Python's rule: 5 at 3 and 1 are 3, 0 and 4 elements | `torch.tensor_split(arange(5), (3, 1))` |
//! | MXNet 1.9.1, `_split_v2` at indices | the first index is 0; they ascend, and are within the dim | `matrix_op-inl.h`, `SplitOpShape` |
//! | MXNet 1.9.1, `SliceChannel`; Caffe2, `Split`; PaddlePaddle, `split` by `num` | equal sections; a dim that does not divide is an error | `slice_channel-inl.h`; `concat_split_op.h`; `phi/infermeta/unary.cc` |
//! | MXNet 1.9.1, `take` and `pick` | clipped, wrapped around, or as they are; floats are rounded toward zero first | `indexing_op.h` |
//! | MXNet 1.9.1, `gather_nd`; PyTorch, `index`, `take`, `put`, `index_fill`; Caffe2, `Gather` | indices below 0 count from the end | run: `a[[-1]]` is the last element |
//! | others | indices below 0 are errors there, and are not checked here | run |
//! | all, writes to an index twice | the last one counts | run: `index_put`, `scatter`, `ScatterAssign` |
//! | all, `one_hot` | an index outside of the depth has no element that is on, or is an error there | `indexing_op.h`, `one_hot` |
//! | PyTorch and PaddlePaddle, `roll` | shifts count modulo the dim | run: 5 elements by 7 |
//! | PyTorch, `pad` | pairs, of the last dim first; negative ones cut off; `circular` is limited to the dim | `PadNd.cpp` |
//! | MXNet 1.9.1, `Pad`; PaddlePaddle, `pad` | pairs of all dims, the first one first | `pad-inl.h`; `pad_kernel.cc` |
//! | PaddlePaddle, `pad2d`; `pad3d` | pairs of the spatial dims, the outermost first; the innermost first | `pad2d_op.cc`; `pad3d_kernel.cc` |
//! | all, reflected | fewer elements than the dim | `pad3d_kernel.cc`; `pad-inl.h`; `PadNd.cpp` |
//! | PyTorch and PaddlePaddle, diagonals | an offset beyond the matrix has no elements | run: `diagonal` of 2 by 3 by 5 |

mod diagonals;
mod elements;
mod pads;
mod runs;
mod sections;
mod spans;
mod writes;

use lodstone_model::DType;
use lodstone_schema::Finding;

pub(crate) use elements::IndexMode;
pub(crate) use pads::{Pad, Padding};
pub(crate) use sections::Sections;
pub(crate) use spans::{Bounds, Span, Spans};

use super::{Graph, Size, Value};

type Made<T = Value> = Result<T, Finding>;

/// Beyond any dim, in both directions.
pub(crate) const BEYOND: i64 = i32::MAX as i64;

/// The elements of a one-hot encoding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    pub(crate) dtype: DType,
    pub(crate) on: f64,
    pub(crate) off: f64,
}

impl Hot {
    /// Returns ones and zeros of a type.
    pub(crate) const fn ones(dtype: DType) -> Self {
        Self { dtype, on: 1.0, off: 0.0 }
    }
}

impl Graph {
    /// Marks the index of each element along a new last dim.
    pub(crate) fn one_hot(&mut self, indices: &Value, depth: &Size, hot: Hot) -> Made {
        let indices = self.cast(indices, DType::Int64)?;
        let indices = self.unsqueeze(&indices, &[-1])?;
        // ONNX's own operator counts negative indices from the end.
        let count = self.scalar_of(depth)?;
        let classes = self.counting(&count, DType::Int64)?;
        let is_on = self.call("Equal", &[&indices, &classes], [])?;
        if (hot.on, hot.off) == (1.0, 0.0) {
            return self.cast(&is_on, hot.dtype);
        }
        let (on, off) = (self.number(hot.dtype, hot.on)?, self.number(hot.dtype, hot.off)?);
        self.choose(&is_on, &on, &off)
    }

    /// Reverses axes.
    pub(crate) fn reversed(&mut self, x: &Value, axes: &[i64]) -> Made {
        if axes.is_empty() {
            return Ok(x.clone());
        }
        let spans = axes.iter().map(|axis| Span { step: Size::Known(-1), ..Span::all(*axis) });
        let spans = self.spans(&spans.collect::<Vec<_>>())?;
        self.sliced(x, &spans, Bounds::Clamped)
    }

    /// Moves elements along an axis by a shift; those moved beyond the end reenter at the beginning.
    pub(crate) fn rolled(&mut self, x: &Value, axis: i64, shift: &Size) -> Made {
        let dim = self.size_of(x, axis)?;
        let first = match (&dim, shift) {
            (Size::Known(dim), Size::Known(shift)) => match shift.checked_rem_euclid(*dim) {
                // An empty dim has nothing to roll.
                None | Some(0) => return Ok(x.clone()),
                Some(shift) => Size::Known(dim - shift),
            },
            _ => {
                let (dim, shift, one) =
                    (self.scalar_of(&dim)?, self.scalar_of(shift)?, self.long(1));
                let divisor = self.call("Max", &[&dim, &one], [])?;
                let shift = self.call("Mod", &[&shift, &divisor], [])?;
                Size::Value(self.sub(&dim, &shift)?)
            }
        };
        let mut part = |start, end| {
            let spans = self.spans(&[Span { start, end, ..Span::all(axis) }])?;
            self.sliced(x, &spans, Bounds::Clamped)
        };
        let (front, back) = (part(Some(first.clone()), None)?, part(None, Some(first))?);
        self.concat(&[&front, &back], axis)
    }
}
