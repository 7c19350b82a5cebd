//! Dense tensors, and the loops over their elements that kernels are built from.
//!
//! | file | contents |
//! |---|---|
//! | `dense.rs` | tensors: dims, strides and shared bytes |
//! | `storage.rs` | the bytes |
//! | `element.rs` | the types of elements in memory |
//! | `order.rs` | elements in row-major order, or with channels innermost |
//! | `blocks.rs` | the elements of a view, some at a time |
//! | `map.rs` | functions of the elements at each place of one to three tensors |
//! | `numbers.rs` | arithmetic and comparisons with broadcasting |
//! | `integers.rs` | arithmetic of integers that wraps around |
//! | `convert.rs` | conversion to another type |
//! | `reduce.rs` | sums, products and extremes along axes |
//! | `places.rs` | slices, selected elements, joined tensors |
//! | `product.rs` | products of matrices |
//!
//! A result of floats in half precision is computed in single precision, and rounded once.

pub(crate) mod blocks;
mod convert;
pub(crate) mod dense;
pub(crate) mod element;
mod integers;
pub(crate) mod map;
mod numbers;
mod order;
mod places;
mod product;
mod reduce;
mod storage;

pub use dense::Dense;
pub(crate) use element::{Element, Extreme, Number, bits_of, numbers_of, unsupported};
pub(crate) use integers::{Division, Integer, integers};
pub(crate) use map::{floats, floats_are, floats_of_two, steps};
pub(crate) use numbers::{Comparison, check_alike};
pub(crate) use order::{Elements, Order, elements, exchanged, wrapped};
pub(crate) use places::Slice;
pub(crate) use product::{add_product, product};
pub(crate) use reduce::{Fold, Summed, sum_of};
pub use storage::bytes_of_singles;
pub(crate) use storage::{bytes_of, zeroed};
