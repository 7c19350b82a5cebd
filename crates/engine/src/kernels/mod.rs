//! Kernels of ONNX operators, one family per file, with the rows of its operators ([`Operator`]).
//!
//! A kernel may rely on the checks of its operator's shape inference (`lodstone_schema::onnx::infer`, with the actual
//! dims): value kinds, element types, ranks and matching dims. It checks itself what depends on elements, such as the
//! range of indices.

mod activation;
mod arrange;
mod attention;
mod cache;
mod casts;
mod convolution;
mod determinant;
mod einsum;
mod elementwise;
mod encoders;
mod features;
mod filters;
pub(crate) mod flexible;
mod forests;
mod generate;
mod grids;
#[cfg(feature = "images")]
mod images;
mod indexing;
mod integer_products;
mod linear;
mod linear_models;
mod loss;
mod machines;
mod maps;
mod ngrams;
mod normalize;
mod onnx_runtime;
mod pad;
mod pieces;
mod planes;
mod pool;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod regions;
mod resize;
mod rotary;
mod scatter;
mod scores;
mod select;
mod sequence;
#[cfg(feature = "fourier")]
mod signal;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod text_casts;
mod training;
mod trees;
mod unfold;
mod vision;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::operator::Operator;

/// The rows of each family of ONNX.
static FAMILIES: &[&[Operator]] = &[
    activation::OPERATORS,
    arrange::OPERATORS,
    attention::OPERATORS,
    cache::OPERATORS,
    casts::OPERATORS,
    convolution::OPERATORS,
    determinant::OPERATORS,
    einsum::OPERATORS,
    elementwise::OPERATORS,
    encoders::OPERATORS,
    features::OPERATORS,
    filters::OPERATORS,
    forests::OPERATORS,
    generate::OPERATORS,
    grids::OPERATORS,
    #[cfg(feature = "images")]
    images::OPERATORS,
    indexing::OPERATORS,
    integer_products::OPERATORS,
    linear::OPERATORS,
    linear_models::OPERATORS,
    loss::OPERATORS,
    machines::OPERATORS,
    maps::OPERATORS,
    ngrams::OPERATORS,
    normalize::OPERATORS,
    pad::OPERATORS,
    pieces::OPERATORS,
    pool::OPERATORS,
    quantize::OPERATORS,
    random::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    regions::OPERATORS,
    resize::OPERATORS,
    rotary::OPERATORS,
    scatter::OPERATORS,
    select::OPERATORS,
    sequence::OPERATORS,
    #[cfg(feature = "fourier")]
    signal::OPERATORS,
    state::OPERATORS,
    text::OPERATORS,
    training::OPERATORS,
    trees::OPERATORS,
    unfold::OPERATORS,
    vision::OPERATORS,
];

/// Returns the rows of all operators.
pub(crate) fn operators() -> impl Iterator<Item = &'static Operator> {
    FAMILIES.iter().chain(onnx_runtime::FAMILIES).copied().flatten()
}

/// Returns the row of an operator, unless the engine does not compute it.
pub(crate) fn operator(domain: &str, kind: &str) -> Option<&'static Operator> {
    static ROWS: LazyLock<HashMap<(&str, &str), &Operator>> =
        LazyLock::new(|| operators().map(|row| ((row.domain, row.kind), row)).collect());
    // ONNX's own domain has two names.
    let domain = if domain == "ai.onnx" { "" } else { domain };
    let rows: &HashMap<(&str, &str), &'static Operator> = &ROWS;
    rows.get(&(domain, kind)).copied()
}

/// Returns what to say of an ONNX operator without a kernel.
pub fn unsupported(domain: &str, kind: &str) -> String {
    let feature = match (domain, kind) {
        ("", "DFT" | "STFT") => Some("fourier"),
        ("", "ImageDecoder") => Some("images"),
        _ => None,
    };
    match feature {
        Some(feature) => {
            format!("is not supported: this build is without the feature `{feature}`")
        }
        None => "is not supported".to_owned(),
    }
}
