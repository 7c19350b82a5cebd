//! Values without tensors as JSON, bounded by the size of the pickle.

use std::collections::HashSet;

use super::value::{Objects, Value};
use crate::encoding::pickle::json::{Budget, again, json as plain, quoted};
use crate::encoding::pickle::{Id, Node, Value as Plain};
use crate::error::Result;

/// The output, and what remains of it.
pub(super) struct Writer<'a> {
    pub(super) objects: &'a Objects,
    pub(super) budget: Budget,
    /// Values, each with a part that contains it.
    pub(super) cycles: HashSet<(Id, Id)>,
}

impl Writer<'_> {
    /// Returns a value as JSON; the caller has bounded its depth.
    ///
    /// # Errors
    /// Fails if values are shared so often that the text would be many times the pickle.
    pub(super) fn json(&mut self, id: Id) -> Result<String> {
        let mut out = String::new();
        self.put(id, &mut out)?;
        Ok(out)
    }

    /// Whether a part of a value contains the value.
    pub(super) fn is_cycle(&self, parent: Id, id: Id) -> bool {
        self.cycles.contains(&(parent, id))
    }

    /// Returns what is written for a part that contains the value: its class.
    pub(super) fn cycle(&mut self, id: Id) -> Result<String> {
        let class = match self.objects.value(id)? {
            Value::Module(module) => module.class,
            Value::Instance(instance) => instance.class,
            Value::Dict(_) => "dict".to_owned(),
            Value::List(_) => "list".to_owned(),
            Value::Tensor(_) | Value::Array(_) => "tensor".to_owned(),
            Value::Plain(_) | Value::Word(_) | Value::Import(_) => "value".to_owned(),
        };
        let text = format!("{{\"__cycle__\":{}}}", quoted(&class));
        self.say(id, text.len() as u64)?;
        Ok(text)
    }

    /// Returns the key of a dict: a string as it is, any other key as JSON.
    pub(super) fn key(&mut self, parent: Id, id: Id) -> Result<String> {
        if self.is_cycle(parent, id) {
            return self.cycle(id);
        }
        match self.objects.value(id)? {
            Value::Plain(Plain::Text(span, encoding)) => {
                self.say(id, span.len)?;
                self.objects.tree().text(id, span, encoding)
            }
            Value::Word(word) => Ok(word),
            _ => self.json(id),
        }
    }

    /// Counts a value, and text of `len` bytes.
    pub(super) fn say(&mut self, id: Id, len: u64) -> Result<()> {
        self.budget.step(&self.objects.shapes, id)?;
        self.budget.say(&self.objects.shapes, id, len)
    }

    fn put(&mut self, id: Id, out: &mut String) -> Result<()> {
        self.say(id, 2)?;
        match self.objects.value(id)? {
            Value::Plain(_) => {
                let id = self.objects.unwrapped(id);
                plain(&self.objects.shapes, id, out, &mut self.budget)?;
            }
            Value::Word(word) => self.word(id, &quoted(&word), out)?,
            Value::Import(name) => {
                self.word(id, &format!("{{\"__import__\":{}}}", quoted(&name)), out)?;
            }
            // Values with tensors are not written.
            Value::Array(_) | Value::Tensor(_) => self.word(id, "null", out)?,
            Value::List(items) => self.list(id, &items, out)?,
            Value::Dict(pairs) => self.object(id, None, &pairs, &[], out)?,
            Value::Module(module) => {
                let members: Vec<_> =
                    module.members.iter().chain(&module.attributes).copied().collect();
                self.object(id, Some(&module.class), &members, &[], out)?;
            }
            Value::Instance(instance) => {
                let pairs: Vec<_> =
                    instance.attributes.iter().chain(instance.pairs).copied().collect();
                let items = [instance.items, &instance.state].concat();
                let parts = [("__args__", instance.arguments.as_ref()), ("__items__", &items)];
                self.object(id, Some(&instance.class), &pairs, &parts, out)?;
            }
        }
        Ok(())
    }

    fn word(&mut self, id: Id, text: &str, out: &mut String) -> Result<()> {
        self.say(id, text.len() as u64)?;
        out.push_str(text);
        Ok(())
    }

    /// Writes a part of a value.
    fn part(&mut self, parent: Id, id: Id, out: &mut String) -> Result<()> {
        if self.is_cycle(parent, id) {
            out.push_str(&self.cycle(id)?);
            return Ok(());
        }
        self.put(id, out)
    }

    fn list(&mut self, parent: Id, items: &[Id], out: &mut String) -> Result<()> {
        out.push('[');
        for (number, item) in items.iter().enumerate() {
            out.push_str(if number > 0 { "," } else { "" });
            self.part(parent, *item, out)?;
        }
        out.push(']');
        Ok(())
    }

    fn object(
        &mut self,
        parent: Id,
        class: Option<&str>,
        pairs: &[(Id, Id)],
        parts: &[(&str, &[Id])],
        out: &mut String,
    ) -> Result<()> {
        out.push('{');
        let mut separator = "";
        if let Some(class) = class {
            self.budget.say(
                &self.objects.shapes,
                self.objects.tree().root(),
                class.len() as u64,
            )?;
            out.push_str(&format!("\"__class__\":{}", quoted(class)));
            separator = ",";
        }
        for (name, items) in parts.iter().filter(|(_, items)| !items.is_empty()) {
            out.push_str(&format!("{separator}{}:", quoted(name)));
            self.list(parent, items, out)?;
            separator = ",";
        }
        let mut known = HashSet::new();
        for (id, value) in pairs {
            let name = self.key(parent, *id)?;
            let is_text = matches!(self.objects.tree().node(*id), Node::Text(..));
            if !known.insert((is_text, name.clone())) {
                return Err(again(&self.objects.shapes, *id, &name));
            }
            out.push_str(&format!("{separator}{}:", quoted(&name)));
            self.part(parent, *value, out)?;
            separator = ",";
        }
        out.push('}');
        Ok(())
    }
}
