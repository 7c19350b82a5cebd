//! The code of archives until 1.2, arranged as later archives have it: a class for each module, and a pickle of the
//! modules.
//!
//! | until 1.2 | since 1.3 |
//! |---|---|
//! | functions in a file for each module | methods of a class |
//! | a parameter or buffer, by the index of its tensor | a tensor in the pickle |
//! | an attribute in `attributes.pkl` | an attribute in the pickle |
//! | `CONSTANTS.cN`: the tensor N of the archive | the item N of `constants.pkl` |

use std::fmt::Write;

use lodstone_model::Limits;
use lodstone_store::Blob;
use serde_json::Value;

use super::early::{Attributes, Early, Module};
use crate::encoding::pickle;
use crate::error::{Error, Result};
use crate::torch::archive::Archive;
use crate::torch::object::Objects;

/// The file of the code, and its name in the archive.
pub(super) const FILE: &str = "code/__torch__.py";

/// What a program is translated from.
pub(super) struct Arranged {
    pub(super) code: Vec<u8>,
    pub(super) data: Objects,
    pub(super) constants: Objects,
}

/// Arranges the code and the modules of an archive.
///
/// # Errors
/// Fails if the archive is damaged.
pub(super) fn arranged(
    archive: &Archive,
    model: &Early,
    attributes: &Attributes,
    limits: &Limits,
) -> Result<Arranged> {
    let mut writer =
        Writer { archive, attributes, code: String::new(), data: vec![0x80, 2], classes: 0 };
    writer.module(&model.main_module)?;
    let Writer { code, mut data, .. } = writer;
    data.push(b'.');
    let mut constants = vec![0x80, 2, b'('];
    (0..model.tensors.len()).for_each(|_| tensor(&mut constants));
    constants.extend(b"t.");
    let read =
        |bytes: Vec<u8>| pickle::read_bare(&Blob::memory(bytes), 0, limits).map(Objects::new);
    Ok(Arranged { code: code.into_bytes(), data: read(data)?, constants: read(constants)? })
}

/// Writes the reference to a tensor. Which one is known by the path to it.
fn tensor(out: &mut Vec<u8>) {
    out.extend([b'K', 0, b'Q']);
}

struct Writer<'a> {
    archive: &'a Archive,
    attributes: &'a Attributes,
    code: String,
    data: Vec<u8>,
    classes: usize,
}

impl Writer<'_> {
    /// Writes a module. `serde_json` has bounded the depth of modules.
    fn module(&mut self, module: &Module) -> Result<()> {
        let class = format!("Module{}", self.classes);
        self.classes += 1;
        self.data.extend(format!("c__torch__\n{class}\n)").as_bytes());
        self.data.extend([0x81, b'}', b'(']);
        for named in &module.parameters {
            self.text(&named.name)?;
            tensor(&mut self.data);
        }
        for attribute in &module.attributes {
            let index = attribute.id.value().map(|id| id.to_string()).unwrap_or_default();
            if self.attributes.tensors.contains_key(&index) {
                self.text(&attribute.name)?;
                tensor(&mut self.data);
            } else if let Some(value) = self.attributes.values.get(&index) {
                self.text(&attribute.name)?;
                self.value(value)?;
            }
        }
        let _ = write!(self.code, "class {class}(Module):\n  __parameters__ = []\n");
        if let Some(code) = &module.torchscript_arena {
            let name = &code.key;
            let bytes = self.archive.file(name)?.bytes()?;
            let text = std::str::from_utf8(&bytes).map_err(|_| {
                let blob = &self.archive.blob;
                Error::from(blob.malformed(0, "code in UTF-8", "other bytes"))
                    .inside(format!("member `{}{name}`", self.archive.root))
            })?;
            for line in text.lines().filter(|line| !line.starts_with("op_version_set")) {
                let _ = writeln!(self.code, "  {line}");
            }
        }
        for inner in &module.submodules {
            self.text(&inner.name)?;
            self.module(inner)?;
        }
        self.data.extend(b"ub");
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<()> {
        let len = u32::try_from(text.len()).map_err(|_| Error::internal("a long name"))?;
        self.data.push(b'X');
        self.data.extend(len.to_le_bytes());
        self.data.extend(text.as_bytes());
        Ok(())
    }

    /// Writes a plain value.
    fn value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Bool(truth) => self.data.push(if *truth { 0x88 } else { 0x89 }),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(integer), ..) => {
                    self.data.extend([0x8a, 8]);
                    self.data.extend(integer.to_le_bytes());
                }
                (_, Some(integer), _) => {
                    // A sign bit must follow.
                    self.data.extend([0x8a, 9]);
                    self.data.extend(integer.to_le_bytes());
                    self.data.push(0);
                }
                (.., Some(float)) => {
                    self.data.push(b'G');
                    self.data.extend(float.to_be_bytes());
                }
                _ => return Err(Error::internal("a number is neither an integer nor a float")),
            },
            Value::String(text) => self.text(text)?,
            Value::Array(items) => {
                self.data.extend(b"](");
                items.iter().try_for_each(|item| self.value(item))?;
                self.data.push(b'e');
            }
            Value::Null | Value::Object(_) => self.data.push(b'N'),
        }
        Ok(())
    }
}
