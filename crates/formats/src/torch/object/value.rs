//! Values of a pickle, one level deep.

use std::borrow::Cow;
use std::collections::HashMap;

use super::form::{Form, form};
use crate::encoding::pickle::{
    self, Array, BUILTINS, Builds, Id, MULTIARRAY, Node, Object, Rule, Shapes, Tree, rule,
};
use crate::error::Result;

/// A pickle and the classes of its persistent ids.
pub(crate) struct Objects {
    pub(crate) shapes: Shapes,
}

/// A value.
pub(crate) enum Value<'a> {
    /// A plain value without parts.
    Plain(pickle::Value<'a>),
    /// An element type, a device, a layout.
    Word(String),
    /// An import by itself.
    Import(String),
    Array(Array),
    List(Cow<'a, [Id]>),
    Dict(Cow<'a, [(Id, Id)]>),
    Tensor(Form),
    Module(Module),
    Instance(Instance<'a>),
}

/// An `nn.Module`.
pub(crate) struct Module {
    pub(crate) class: String,
    /// Parameters, buffers and modules, in the order of `state_dict()`; those that are `None` are left out.
    pub(super) members: Vec<(Id, Id)>,
    /// Names of buffers that are not saved.
    pub(super) unsaved: Vec<Id>,
    /// All other attributes.
    pub(crate) attributes: Vec<(Id, Id)>,
}

/// An instance of a class that has no other meaning here.
pub(crate) struct Instance<'a> {
    pub(crate) class: String,
    /// The arguments of the call that creates it.
    pub(crate) arguments: Cow<'a, [Id]>,
    /// Its attributes: the states that are dicts.
    pub(crate) attributes: Vec<(Id, Id)>,
    /// The parts of other states.
    pub(crate) state: Vec<Id>,
    pub(super) items: &'a [Id],
    pub(super) pairs: &'a [(Id, Id)],
}

/// The modules of ordered dicts, under old and new names.
const COLLECTIONS: &[&str] = &["collections", "ordereddict"];

/// Imports with a meaning that is not specific to PyTorch.
const RULES: &[Rule] = &[
    rule(&["numpy"], "ndarray", Builds::Ndarray),
    rule(&["numpy"], "dtype", Builds::Dtype),
    rule(MULTIARRAY, "_reconstruct", Builds::Reconstruct),
    rule(MULTIARRAY, "scalar", Builds::Scalar),
    rule(&["numpy.core.numeric", "numpy._core.numeric"], "_frombuffer", Builds::FromBuffer),
    rule(&["_codecs"], "encode", Builds::Encode),
    rule(COLLECTIONS, "OrderedDict", Builds::OrderedDict),
    rule(BUILTINS, "bytes", Builds::Bytes),
    rule(BUILTINS, "bytearray", Builds::ByteArray),
    rule(BUILTINS, "set", Builds::Set),
    rule(BUILTINS, "frozenset", Builds::Set),
    rule(BUILTINS, "complex", Builds::Complex),
];

/// The functions of TorchScript that return their first argument.
const TAGS: [&str; 5] =
    ["restore_type_tag", "build_intlist", "build_tensorlist", "build_doublelist", "build_boollist"];

/// Maximum number of calls around a value that return it.
const MAX_WRAPPERS: usize = 32;

impl Objects {
    /// Interprets a pickle.
    pub(crate) fn new(tree: Tree) -> Self {
        let known = |module: &str, name: &str| Rule::find(RULES, module, name);
        Self { shapes: Shapes::unchecked(tree, known) }
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.shapes.tree
    }

    /// Returns module and name of an import; also of one whose source code is stored beside it, as before 1.6.
    pub(crate) fn import(&self, id: Id) -> Option<(String, String)> {
        let tree = self.tree();
        match tree.node(id) {
            Node::Persistent(inner) => match tree.node(*inner) {
                Node::Tuple(items) => match items.as_slice() {
                    [class, ..] if matches!(tree.node(*class), Node::Global(..)) => {
                        tree.global(*class)
                    }
                    [kind, class, ..] if tree.short(*kind)? == "module" => tree.global(*class),
                    _ => None,
                },
                _ => None,
            },
            _ => tree.global(id),
        }
    }

    /// Returns the name of a class or function, with its module.
    pub(super) fn name(&self, id: Id) -> String {
        match self.import(id) {
            Some((module, name)) => format!("{module}.{name}"),
            None => self.tree().describe(id),
        }
    }

    /// Returns the items of a tuple or list, also of `torch.Size`.
    pub(crate) fn items(&self, id: Id) -> Option<&[Id]> {
        let tree = self.tree();
        match tree.node(id) {
            Node::Tuple(items) | Node::List(items) => Some(items),
            Node::Object(object) => match (self.import(object.callable)?, self.arguments(object)) {
                ((module, name), [items]) if module == "torch" && name == "Size" => {
                    match tree.node(*items) {
                        Node::Tuple(items) | Node::List(items) => Some(items),
                        _ => None,
                    }
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns nonnegative integers.
    pub(crate) fn numbers(&self, id: Id) -> Option<Vec<u64>> {
        self.items(id)?.iter().map(|id| self.number(*id)).collect()
    }

    /// Returns a nonnegative integer.
    pub(crate) fn number(&self, id: Id) -> Option<u64> {
        match self.tree().node(id) {
            Node::Int(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// Returns the arguments of a call; a single one need not be in a tuple.
    pub(super) fn arguments<'a>(&'a self, object: &'a Object) -> &'a [Id] {
        match self.tree().node(object.arguments) {
            Node::Tuple(items) => items,
            _ => std::slice::from_ref(&object.arguments),
        }
    }

    /// Returns the value that the calls around it return: of parameters, and of TorchScript's tags.
    pub(super) fn unwrapped(&self, id: Id) -> Id {
        let mut id = id;
        for _ in 0..MAX_WRAPPERS {
            let Node::Object(object) = self.tree().node(id) else { break };
            let Some((module, name)) = self.import(object.callable) else { break };
            let is_wrapper = match module.as_str() {
                "torch._utils" => matches!(
                    name.as_str(),
                    "_rebuild_parameter"
                        | "_rebuild_parameter_with_state"
                        | "_rebuild_device_tensor_from_numpy"
                        | "_rebuild_device_tensor_from_cpu_tensor"
                ),
                "torch.nn.parameter" => matches!(name.as_str(), "Parameter" | "Buffer"),
                "torch.autograd.variable" => name == "Variable",
                "torch.jit._pickle" => TAGS.contains(&name.as_str()),
                _ => false,
            };
            match self.arguments(object).first() {
                Some(inner) if is_wrapper => id = *inner,
                _ => break,
            }
        }
        id
    }

    /// Returns the class of a storage: `QInt8Storage`.
    pub(crate) fn storage_class(&self, id: Id) -> Option<String> {
        let tree = self.tree();
        let Node::Persistent(inner) = tree.node(id) else { return None };
        let Node::Tuple(items) = tree.node(*inner) else { return None };
        tree.global(*items.get(1)?).map(|(_, name)| name)
    }

    /// Whether a value is a tuple.
    pub(crate) fn is_tuple(&self, id: Id) -> bool {
        matches!(self.tree().node(self.unwrapped(id)), Node::Tuple(_))
    }

    /// Interprets a value.
    ///
    /// # Errors
    /// Fails if a tensor is not of the form that PyTorch writes.
    pub(crate) fn value(&self, id: Id) -> Result<Value<'_>> {
        let id = self.unwrapped(id);
        let tree = self.tree();
        Ok(match tree.node(id) {
            Node::List(items) | Node::Tuple(items) | Node::Set(items) | Node::FrozenSet(items) => {
                Value::List(Cow::Borrowed(items))
            }
            Node::Dict(pairs) => Value::Dict(Cow::Borrowed(pairs)),
            Node::Global(..) | Node::Extension(_) | Node::Unknown => self.word(id),
            Node::Persistent(_) => match form(self, id)? {
                Some(form) => Value::Tensor(form),
                None => Value::Import(self.name(id)),
            },
            Node::Object(object) => match form(self, id)? {
                Some(form) => Value::Tensor(form),
                None => self.object(id, object)?,
            },
            _ => Value::Plain(self.shapes.value(id)?),
        })
    }

    /// Returns an import by itself: an element type, or any other.
    fn word(&self, id: Id) -> Value<'_> {
        match self.import(id) {
            Some((module, name)) if module == "torch" => Value::Word(format!("torch.{name}")),
            _ => Value::Import(self.name(id)),
        }
    }

    fn object<'a>(&'a self, id: Id, object: &'a Object) -> Result<Value<'a>> {
        let tree = self.tree();
        let arguments = self.arguments(object);
        if let Some((module, name)) = self.import(object.callable) {
            match (module.as_str(), name.as_str(), arguments) {
                ("torch", "Size", [_]) => {
                    let items = self.items(id).unwrap_or_default();
                    return Ok(Value::List(Cow::Borrowed(items)));
                }
                ("torch", "device", [kind, rest @ ..]) => {
                    if let Some(kind) = tree.short(*kind) {
                        let index = rest.first().and_then(|index| self.number(*index));
                        let index = index.map(|index| format!(":{index}")).unwrap_or_default();
                        return Ok(Value::Word(format!("{kind}{index}")));
                    }
                }
                ("torch.serialization", "_get_layout", [layout]) => {
                    if let Some(layout) = tree.short(*layout) {
                        return Ok(Value::Word(layout));
                    }
                }
                _ => {}
            }
        }
        match self.shapes.builds(object.callable) {
            Some(Builds::OrderedDict) => {
                if let Some(pairs) = self.pairs(object) {
                    return Ok(Value::Dict(pairs));
                }
            }
            Some(Builds::Set) => {
                if let [items] = arguments
                    && let Node::List(items) = tree.node(*items)
                {
                    return Ok(Value::List(Cow::Borrowed(items)));
                }
            }
            Some(_) => match self.shapes.value(id) {
                Ok(pickle::Value::Array(array)) => return Ok(Value::Array(array)),
                // Arrays of other types, of objects for example, are instances.
                Ok(value) => return Ok(Value::Plain(value)),
                Err(_) => {}
            },
            None => {}
        }
        Ok(self.instance(object))
    }

    /// Returns the items of an ordered dict, which Python 2 passes as an argument; `None` for another form.
    fn pairs<'a>(&'a self, object: &'a Object) -> Option<Cow<'a, [(Id, Id)]>> {
        let [list] = self.arguments(object) else {
            let is_plain = self.arguments(object).is_empty() && object.items.is_empty();
            return is_plain.then_some(Cow::Borrowed(object.pairs.as_slice()));
        };
        let Node::List(items) = self.tree().node(*list) else { return None };
        let pair = |id: &Id| match self.items(*id)? {
            [key, value] => Some((*key, *value)),
            _ => None,
        };
        let mut pairs = items.iter().map(pair).collect::<Option<Vec<_>>>()?;
        pairs.extend(&object.pairs);
        Some(Cow::Owned(pairs))
    }

    fn instance<'a>(&'a self, object: &'a Object) -> Value<'a> {
        let tree = self.tree();
        let (mut class, mut arguments) = (self.name(object.callable), self.arguments(object));
        // Protocols 0 and 1 create instances by a function.
        if class.ends_with("._reconstructor")
            && let Some((first, _)) = arguments.split_first()
        {
            (class, arguments) = (self.name(*first), &[]);
        }
        let (mut attributes, mut state) = (Vec::new(), Vec::new());
        for given in &object.state {
            // Attributes and slots.
            let parts = match tree.node(*given) {
                Node::Tuple(parts) if self.are_attributes(parts) => parts.as_slice(),
                _ => std::slice::from_ref(given),
            };
            for part in parts {
                match tree.node(*part) {
                    Node::Dict(pairs) => attributes.extend(pairs),
                    Node::None => {}
                    Node::Object(inner)
                        if self.shapes.builds(inner.callable) == Some(Builds::OrderedDict) =>
                    {
                        attributes.extend(self.pairs(inner).unwrap_or_default().iter());
                    }
                    Node::Tuple(items) | Node::List(items) => state.extend(items),
                    _ => state.push(*part),
                }
            }
        }
        if let Some(module) = self.module(&class, &attributes) {
            return Value::Module(module);
        }
        let (items, pairs) = (object.items.as_slice(), object.pairs.as_slice());
        let arguments = Cow::Borrowed(arguments);
        Value::Instance(Instance { class, arguments, attributes, state, items, pairs })
    }

    fn are_attributes(&self, parts: &[Id]) -> bool {
        let [first, second] = parts else { return false };
        let tree = self.tree();
        matches!(tree.node(*first), Node::Dict(_) | Node::None)
            && matches!(tree.node(*second), Node::Dict(_))
    }

    /// Returns the items of a dict, without interpreting other values.
    fn dict(&self, id: Id) -> Option<Cow<'_, [(Id, Id)]>> {
        match self.tree().node(id) {
            Node::Dict(pairs) => Some(Cow::Borrowed(pairs)),
            Node::Object(object)
                if self.shapes.builds(object.callable) == Some(Builds::OrderedDict) =>
            {
                self.pairs(object)
            }
            _ => None,
        }
    }

    /// Returns the items of a set, which protocols before 4 write as a call with a list.
    fn set(&self, id: Id) -> &[Id] {
        let tree = self.tree();
        let items = match tree.node(id) {
            Node::Set(items) => return items,
            Node::Object(object) if self.shapes.builds(object.callable) == Some(Builds::Set) => {
                self.arguments(object).first().map(|items| tree.node(*items))
            }
            _ => None,
        };
        match items {
            Some(Node::List(items)) => items,
            _ => &[],
        }
    }

    /// Returns a module, if these are the attributes of one.
    fn module(&self, class: &str, attributes: &[(Id, Id)]) -> Option<Module> {
        let mut parts: HashMap<&str, Vec<(Id, Id)>> = HashMap::new();
        let (mut unsaved, mut others) = (Vec::new(), Vec::new());
        for (key, value) in attributes {
            let name = self.tree().short(*key).unwrap_or_default();
            let known = MEMBERS.iter().find(|known| **known == name);
            if let Some(known) = known {
                parts.insert(known, self.dict(*value)?.into_owned());
            } else if name == "_non_persistent_buffers_set" {
                unsaved = self.set(*value).to_vec();
            } else if !is_machinery(&name) {
                others.push((*key, *value));
            }
        }
        let mut members = Vec::new();
        for name in MEMBERS {
            members.extend(parts.remove(name)?);
        }
        members.retain(|(_, value)| !matches!(self.tree().node(*value), Node::None));
        Some(Module { class: class.to_owned(), members, unsaved, attributes: others })
    }
}

/// The attributes of a module that its state consists of.
const MEMBERS: [&str; 3] = ["_parameters", "_buffers", "_modules"];

/// Returns whether an attribute of a module is part of PyTorch's own machinery.
pub(super) fn is_machinery(name: &str) -> bool {
    matches!(name, "training" | "_backend" | "dump_patches" | "call_super_init" | "_metadata")
        || name.starts_with('_') && (name.ends_with("_hooks") || name.contains("_hook"))
        // Views of the parameters of recurrent layers, as their kernels take them.
        || name.starts_with("_flat_weight")
}
