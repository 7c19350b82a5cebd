//! Products with a matrix on the right that is packed: once, if it is constant.

use lodstone_model::{DType, Op};
use pulp::bytemuck::cast_slice_mut;

use super::call::{EpilogueArguments, FastCall, FastKernel, one};
use crate::call::Call;
use crate::error::Outcome;
use crate::gemm::{Buffer, Buffers, Columns, Epilogue, PackedMatrix, StridedRows, gather, part_of};
use crate::layout::{ordered, raw, tensor};
use crate::tensor::{Dense, Order};
use crate::threads::{each_chunk, sharing};
use crate::value::Value;

pub(crate) const PRODUCT: FastKernel = FastKernel::new(accepts, product);

/// The minimum number of columns: the vectors of a tile would be almost empty.
const MIN_COLUMNS: usize = 4;

/// The minimum number of rows for which a matrix that is not constant is packed.
const MIN_ROWS: usize = 16;

/// The right matrix of `MatMul` or `Gemm`, which is packed.
#[derive(Debug)]
pub(crate) struct Matrix {
    inner: usize,
    packed: PackedMatrix,
    bias: Option<Vec<f32>>,
}

/// The product of a tensor of certain dims with a matrix.
pub(crate) struct ShapedMatrix<'m> {
    matrix: &'m Matrix,
    /// The dims of the result.
    pub(super) dims: Vec<usize>,
}

impl Matrix {
    /// Packs the right operand of a product, or returns `None` if there is no fast kernel for it.
    pub(crate) fn new(op: &Op, right: &Dense, bias: Option<&Dense>) -> Outcome<Option<Self>> {
        let call = Call::new(op, &[])?;
        let is_single = |it: &Dense| it.dtype() == DType::Float32;
        let is_turned = call.int("transB", 0) != 0;
        let (inner, columns) = match *right.dims() {
            [columns, inner] if is_turned => (inner, columns),
            [inner, columns] => (inner, columns),
            _ => return Ok(None),
        };
        if !is_single(right) || inner == 0 || columns < MIN_COLUMNS {
            return Ok(None);
        }
        let beta = call.float("beta", 1.0);
        let bias = match bias {
            None => None,
            Some(bias) if !is_single(bias) => return Ok(None),
            Some(bias) => {
                let scaled: Vec<f32> =
                    ordered(bias, Order::RowMajor)?.iter().map(|value| value * beta).collect();
                match (bias.dims(), scaled.as_slice()) {
                    (_, [one]) => Some(vec![*one; columns]),
                    ([dim] | [1, dim], _) if *dim == columns => Some(scaled),
                    _ => return Ok(None),
                }
            }
        };
        let (alpha, values) = (call.float("alpha", 1.0), raw(right, Order::RowMajor)?);
        let (size, mut turned) = ([1, inner, columns], Columns::new(&values, inner));
        let packed = PackedMatrix::new(size, inner, Buffer::constant, |[_, row, column], into| {
            match is_turned {
                true => turned.read([row, column], into),
                false => {
                    let from = part_of(&values, row * columns + column, into.len());
                    cast_slice_mut(into).copy_from_slice(from);
                }
            }
            into.iter_mut().for_each(|value| *value *= alpha);
        })?;
        Ok(Some(Self { inner, packed, bias }))
    }

    /// Returns the size of the packed matrix in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        self.packed.nbytes()
    }

    /// Returns the product of a tensor of the given dims with the matrix.
    ///
    /// # Errors
    /// If the inner dims differ.
    pub(super) fn with_dims(&self, dims: &[usize]) -> Outcome<ShapedMatrix<'_>> {
        match dims {
            [rows @ .., inner] if *inner == self.inner => {
                let dims = [rows, &[self.packed.width()]].concat();
                Ok(ShapedMatrix { matrix: self, dims })
            }
            _ => Err(format!("expected {} columns, found dims {dims:?}", self.inner).into()),
        }
    }
}

impl ShapedMatrix<'_> {
    /// Multiplies a tensor of these dims. `finish_block` is called with the offset of each finished part of the result.
    ///
    /// # Errors
    /// If the tensor is not in single precision.
    pub(super) fn run(
        self,
        x: &Dense,
        epilogue: EpilogueArguments<'_>,
        buffers: &Buffers,
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<Dense> {
        let Self { matrix: Matrix { inner, packed, bias }, dims } = self;
        let values = ordered(x, Order::RowMajor)?;
        let mut out = buffers.take(dims.iter().product())?;
        let lines = StridedRows { stride: *inner, group_width: *inner, values: &values };
        let added = epilogue.added(Order::RowMajor, &dims)?;
        let epilogue =
            Epilogue { bias: bias.as_deref(), added: added.as_deref(), clamp: epilogue.limits };
        packed.multiply(&lines, epilogue, &mut out, finish_block)?;
        tensor(out, dims, Order::RowMajor)
    }
}

/// The matrices of a tensor in single precision.
struct Stack<'t> {
    values: &'t [f32],
    /// The places of their first elements.
    starts: Vec<usize>,
    /// The distances between rows and between columns.
    strides: [usize; 2],
}

impl<'t> Stack<'t> {
    /// Returns the matrices of a tensor, unless it is of another type, or goes backwards in memory.
    fn of(tensor: &'t Dense) -> Outcome<Option<Self>> {
        let strides: Option<Vec<usize>> =
            tensor.strides().iter().map(|stride| usize::try_from(*stride).ok()).collect();
        let Some((outer, strides)) =
            strides.as_deref().and_then(|strides| strides.split_last_chunk::<2>())
        else {
            return Ok(None);
        };
        if tensor.dtype() != DType::Float32 {
            return Ok(None);
        }
        let mut starts = vec![tensor.offset()];
        for (dim, stride) in tensor.dims().iter().zip(outer) {
            let each = |start: usize| (0..*dim).map(move |at| start + at * stride);
            starts = starts.into_iter().flat_map(each).collect();
        }
        Ok(Some(Self { values: tensor.typed()?, starts, strides: *strides }))
    }

    /// Returns the elements from the first one of a matrix on.
    fn matrix(&self, number: usize) -> &[f32] {
        let start = self.starts.get(number);
        start.and_then(|start| self.values.get(*start..)).unwrap_or_default()
    }
}

/// Multiplies stacks of matrices, or returns `None` if the kernel must run instead.
fn product(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let [Some(Value::Dense(left)), Some(Value::Dense(right))] = call.inputs else {
        return Ok(None);
    };
    let (Some((stack, [rows, inner])), Some((other, [same, columns]))) =
        (left.dims().split_last_chunk::<2>(), right.dims().split_last_chunk::<2>())
    else {
        return Ok(None);
    };
    let is_large = *rows >= MIN_ROWS && *columns >= MIN_COLUMNS && *inner > 0;
    if stack != other || inner != same || !is_large || stack.contains(&0) {
        return Ok(None);
    }
    let (Some(left), Some(right)) = (Stack::of(left)?, Stack::of(right)?) else {
        return Ok(None);
    };
    let ([stride, 1], [down, across]) = (left.strides, right.strides) else { return Ok(None) };
    if stride == 0 {
        return Ok(None);
    }
    let (size, count) = ([1, *inner, *columns], left.starts.len());
    // A thread that waits for parts of a product may begin another one: then each thread multiplies alone.
    let is_shared = count < sharing();
    let at_once = count.min(sharing());
    let packed = at_once.saturating_mul(PackedMatrix::nbytes_of(size));
    let _workspace = call.budget.reserve(packed as u64)?;
    let mut out = call.buffers.take(count * rows * columns)?;
    each_chunk(&mut out, rows * columns, |unfolded: &mut Vec<_>, number, out| {
        let (values, right) = (left.matrix(number), right.matrix(number));
        let allocate = |count| call.buffers.take(count);
        let packed = PackedMatrix::new(size, *inner, allocate, |[_, row, column], into| {
            gather(right, row * down + column * across, across, into);
        })?;
        let lines = StridedRows { stride, group_width: *inner, values };
        if is_shared {
            return packed.multiply(&lines, Epilogue::default(), out, |_, _| Ok(()));
        }
        packed.multiply_alone(&lines, 0, Epilogue::default(), unfolded, out);
        Ok(())
    })?;
    tensor(out, [stack, &[*rows, *columns]].concat(), Order::RowMajor).map(one)
}

/// Returns whether two inputs are tensors in single precision.
fn accepts(inputs: &[Option<&Value>]) -> bool {
    let is_single = |input: &Option<&Value>| {
        input.is_some_and(|it| it.dense().is_ok_and(|it| it.dtype() == DType::Float32))
    };
    inputs.iter().all(is_single)
}
