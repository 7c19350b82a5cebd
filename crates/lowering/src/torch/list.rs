//! Lists of tensors that are known while a program is translated.

use std::rc::Rc;

use crate::onnx::Value;

/// A list of tensors to which others are appended.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    /// The list before, and the last tensor.
    last: Option<Rc<(List, Value)>>,
}

impl List {
    /// Returns the list with another tensor.
    pub(super) fn with(&self, value: Value) -> Self {
        Self { last: Some(Rc::new((self.clone(), value))) }
    }

    /// Returns the tensors.
    pub(super) fn values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        let mut rest = self;
        while let Some(last) = &rest.last {
            values.push(last.1.clone());
            rest = &last.0;
        }
        values.reverse();
        values
    }
}

impl Drop for List {
    /// One after the other: the lists before are as many as tensors.
    fn drop(&mut self) {
        let mut last = self.last.take();
        while let Some(mut before) = last.and_then(Rc::into_inner) {
            last = before.0.last.take();
        }
    }
}
