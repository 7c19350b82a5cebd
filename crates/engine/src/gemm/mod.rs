//! Products of rows with matrices that are packed in panels, and the memory that they work in.
//!
//! | file | contents |
//! |---|---|
//! | `aligned.rs` | memory for numbers |
//! | `buffers.rs` | memory for results, used again |
//! | `columns.rs` | matrices whose columns are contiguous |
//! | `prefetch.rs` | memory that is requested before it is read |
//! | `product.rs` | the product of rows with a packed matrix, in tiles |
//! | `slices.rs` | parts of slices |
//! | `tile.rs` | the tiles of a processor |

mod aligned;
mod buffers;
mod columns;
mod prefetch;
mod product;
mod slices;
mod tile;

pub(crate) use aligned::Aligned;
pub(crate) use buffers::{Buffer, Buffers, Spare};
pub(crate) use columns::{Columns, Raw};
pub(crate) use prefetch::Ahead;
pub(crate) use product::{Finish, Lines, Packed, Place, Read, Rows, SLACK, Tiled, add, finished};
pub(crate) use slices::{gather, part_of};
