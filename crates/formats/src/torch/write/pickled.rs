//! The pickle of a dict of tensors, as PyTorch 2 writes it: protocol 2, without the memo entries that nothing refers to.
//!
//! The dict is an ordered one, as that of `nn.Module.state_dict()`. Metadata is an attribute of it, which loaders ignore:
//! a dict of strings called `lodstone_metadata`.

use std::collections::HashMap;

use super::super::METADATA;
use super::super::element::Element;
use super::storages::{Storages, Stored, View};

/// The bytes of a pickle.
#[derive(Default)]
pub(super) struct Pickle {
    bytes: Vec<u8>,
    /// Memo entries of imports and strings that repeat.
    memo: HashMap<String, u32>,
}

impl Pickle {
    /// Begins a pickle.
    pub(super) fn protocol(&mut self) {
        self.bytes.extend([0x80, 2]);
    }

    /// Ends a pickle.
    pub(super) fn stop(mut self) -> Vec<u8> {
        self.op(b'.');
        self.bytes
    }

    /// Begins the dict.
    pub(super) fn begin(&mut self) {
        self.protocol();
        self.ordered_dict();
        self.op(b'(');
    }

    /// Ends the dict, and the pickle.
    pub(super) fn end(mut self, metadata: &std::collections::BTreeMap<String, String>) -> Vec<u8> {
        self.op(b'u');
        if !metadata.is_empty() {
            self.op(b'}');
            self.text(METADATA);
            self.op(b'}');
            self.op(b'(');
            for (key, value) in metadata {
                self.text(key);
                self.text(value);
            }
            self.op(b'u');
            self.op(b's');
            self.op(b'b');
        }
        self.stop()
    }

    pub(super) fn op(&mut self, code: u8) {
        self.bytes.push(code);
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.op(if value { 0x88 } else { 0x89 });
    }

    /// Writes a string. The size of one that PyTorch reads fits 32 bits, as callers check.
    pub(super) fn text(&mut self, text: &str) {
        match u32::try_from(text.len()) {
            Ok(len) => {
                self.op(b'X');
                self.bytes.extend(len.to_le_bytes());
            }
            Err(_) => {
                self.op(0x8d);
                self.bytes.extend((text.len() as u64).to_le_bytes());
            }
        }
        self.bytes.extend(text.as_bytes());
    }

    pub(super) fn int(&mut self, value: u64) {
        if let Ok(value) = u8::try_from(value) {
            self.bytes.extend([b'K', value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.op(b'M');
            self.bytes.extend(value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.op(b'J');
            self.bytes.extend(value.to_le_bytes());
        } else if let Ok(value) = i64::try_from(value) {
            self.bytes.extend([0x8a, 8]);
            self.bytes.extend(value.to_le_bytes());
        } else {
            // A sign bit must follow.
            self.bytes.extend([0x8a, 9]);
            self.bytes.extend(value.to_le_bytes());
            self.op(0);
        }
    }

    /// Writes a value, or refers to it if it was written before.
    fn shared(&mut self, key: String, write: impl FnOnce(&mut Self)) {
        if let Some(number) = self.memo.get(&key).copied() {
            self.op(b'j');
            self.bytes.extend(number.to_le_bytes());
            return;
        }
        write(self);
        // What has no number is written again.
        if let Ok(number) = u32::try_from(self.memo.len()) {
            self.op(b'r');
            self.bytes.extend(number.to_le_bytes());
            self.memo.insert(key, number);
        }
    }

    pub(super) fn global(&mut self, module: &str, name: &str) {
        self.shared(format!("{module} {name}"), |pickle| {
            pickle.bytes.extend(format!("c{module}\n{name}\n").as_bytes());
        });
    }

    fn ordered_dict(&mut self) {
        self.global("collections", "OrderedDict");
        self.op(b')');
        self.op(b'R');
    }

    /// Writes a tuple of integers.
    pub(super) fn tuple(&mut self, numbers: &[u64]) {
        self.op(b'(');
        numbers.iter().for_each(|number| self.int(*number));
        self.op(b't');
    }

    /// Writes the reference to a storage.
    fn storage(&mut self, key: usize, Stored { element, blob }: &Stored) {
        self.op(b'(');
        self.shared("'storage'".to_owned(), |pickle| pickle.text("storage"));
        match element.storage() {
            Some(class) => self.global("torch", class),
            None => self.global("torch.storage", "UntypedStorage"),
        }
        self.text(&key.to_string());
        self.shared("'cpu'".to_owned(), |pickle| pickle.text("cpu"));
        let size = if element.storage().is_some() { element.size } else { 1 };
        self.int(blob.len() / size.max(1));
        self.op(b't');
        self.op(b'Q');
    }

    /// Writes a tensor.
    pub(super) fn tensor(&mut self, view: &View, storages: &Storages) {
        let Some(stored) = storages.all.get(view.key) else { return };
        let typed = view.element.storage().is_some();
        self.global(
            "torch._utils",
            if typed { "_rebuild_tensor_v2" } else { "_rebuild_tensor_v3" },
        );
        self.op(b'(');
        self.storage(view.key, stored);
        self.int(view.offset);
        self.tuple(&view.shape);
        self.tuple(&view.strides);
        self.bool(false);
        self.ordered_dict();
        if !typed {
            self.global("torch", view.element.name);
        }
        self.op(b't');
        self.op(b'R');
    }

    /// Writes a tensor without elements.
    pub(super) fn meta(&mut self, element: &Element, shape: &[u64], strides: &[u64]) {
        self.global("torch._utils", "_rebuild_meta_tensor_no_storage");
        self.op(b'(');
        self.global("torch", element.name);
        self.tuple(shape);
        self.tuple(strides);
        self.bool(false);
        self.op(b't');
        self.op(b'R');
    }

    /// Writes a sparse tensor: its layout, its parts, and its dims.
    pub(super) fn sparse(
        &mut self,
        layout: &str,
        parts: &[View],
        shape: &[u64],
        storages: &Storages,
    ) {
        self.global("torch._utils", "_rebuild_sparse_tensor");
        self.global("torch.serialization", "_get_layout");
        self.text(layout);
        self.op(0x85);
        self.op(b'R');
        self.op(b'(');
        parts.iter().for_each(|part| self.tensor(part, storages));
        self.global("torch", "Size");
        self.tuple(shape);
        self.op(0x85);
        self.op(b'R');
        if layout == "torch.sparse_coo" {
            // The indices ascend.
            self.bool(true);
        }
        self.op(b't');
        self.op(0x86);
        self.op(b'R');
    }
}
