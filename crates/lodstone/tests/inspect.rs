//! Inspection of models.

use std::path::Path;

use lodstone::formats::Error as FormatError;
use lodstone::store::Error as StoreError;
use lodstone::{Error, InspectOptions, inspect, open};

#[test]
fn hashing_can_be_cancelled() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/paddle");
    let model = open(path).expect("a model");
    let options = InspectOptions::default().with_hash(true);
    inspect(&model, &options).expect("hashed");
    assert!(options.progress.done() > 0);
    options.progress.cancel();
    let error = inspect(&model, &options).expect_err("cancelled");
    assert!(matches!(error, Error::Format(FormatError::Store(StoreError::Cancelled))), "{error}");
}
