//! Products of rows with matrices that are packed in panels, and the memory that they work in.
//!
//! | file | contents |
//! |---|---|
//! | `aligned.rs` | memory for numbers |
//! | `buffers.rs` | memory for results, used again |
//! | `columns.rs` | matrices whose columns are contiguous |
//! | `right_matrix.rs` | a matrix that is packed once and multiplied often |
//! | `micro_kernel.rs` | the sums of a tile in registers, and their epilogue |
//! | `pack.rs` | matrices in panels |
//! | `prefetch.rs` | memory that is requested before it is read |
//! | `product.rs` | the product of rows with a packed matrix, in tiles |
//! | `rows.rs` | the left matrices, in blocks of rows |
//! | `slices.rs` | parts of slices |
//! | `tile.rs` | the tiles of a processor |

mod aligned;
mod buffers;
mod columns;
mod micro_kernel;
mod pack;
mod prefetch;
mod product;
mod right_matrix;
mod rows;
mod slices;
mod tile;

#[cfg(target_arch = "x86_64")]
pub(crate) use aligned::Aligned;
pub(crate) use buffers::{Buffer, Buffers, Spare};
pub(crate) use columns::{Columns, Raw};
pub(crate) use micro_kernel::{Epilogue, accumulate, add_bias_and_clamp};
pub(crate) use pack::{PackedMatrix, TileLoop};
#[cfg(target_arch = "x86_64")]
pub(crate) use prefetch::Prefetch;
pub use right_matrix::RightMatrix;
pub(crate) use rows::{RowBlock, RowSlices, Rows, SLACK, StridedRows};
pub(crate) use slices::{gather, part_of};
