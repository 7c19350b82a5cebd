//! Imports and calls of honest pickles of tensors, by exact module and name, with the arguments and states that the
//! pickles give them. Everything else is a finding.
//!
//! A call of this table with such arguments reads and writes no files, imports nothing, and calls none of its arguments.
//! Its result is never called, never used as a name, and is given a state, items or pairs only if its row says so. A
//! function that is passed on, instead of a class or an element type, is a finding, too: another call may call it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::modules::is_name;
use super::rows::{ROWS, SCALARS, WRAPPER};
use super::tree::{How, Id, Node, Object, Tree};
use crate::registry::{IMPORTS, MODULES};

/// What a value is, as far as calls depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    /// A function, or a class that is only called.
    Function,
    /// The function that makes a bit generator of NumPy.
    Constructor,
    /// A class of bit generators of NumPy.
    Generator,
    /// A class that is an argument of others, or a value by itself; an element type.
    Class,
    /// The class `object`.
    Object,
    /// The class of NumPy's arrays.
    Ndarray,
    /// The class of NumPy's arrays in mapped files.
    Memmap,
    /// A class of NumPy's scalars, which also names an element type.
    Scalar,
    /// The class of NumPy's masked arrays.
    Masked,
    /// A class whose attributes are functions.
    Functions,
    /// An element type of NumPy, of which no part is a Python object.
    Plain,
    /// An element type of NumPy with Python objects.
    Objects,
    /// An array, or a tensor.
    Array,
    /// Bytes.
    Bytes,
    /// Integers, as those of a shape.
    Ints,
    /// Names with values.
    Mapping,
    /// Data that the loader finds by an identifier.
    Storage,
    /// Any other value.
    Other,
    /// A finding: what it is does not matter any more.
    Found,
}

/// An argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Takes {
    Int,
    Bool,
    /// An integer, a number in floating point, or a bool.
    Number,
    Text,
    /// A text that is one of these.
    OneOf(&'static [&'static str]),
    /// The name of an attribute that is not reserved.
    Name,
    /// Bytes, or a text that encodes them.
    Bytes,
    /// A tuple or list of integers.
    Ints,
    None,
    List,
    Tuple,
    /// A dict, or another mapping.
    Dict,
    Is(Is),
    /// Any value that is not a function.
    Any,
    /// A state without reserved names.
    Values,
    /// A known function that makes a tensor.
    Rebuild,
    /// A tuple with the arguments of the function that is the first argument.
    ItsArguments,
    /// A dict of only the name `data` to an array, which may be absent.
    Data,
    /// Any number of further values that are not functions; the last one of a form.
    Rest,
}

/// The state that an object may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    None,
    /// Attributes with ordinary names. An attribute `__setstate__` would be called with the next state, and
    /// `__array_interface__` is a place in memory.
    Attributes,
    /// The state of an element type of NumPy.
    Dtype,
    /// The state of an array of NumPy: bytes, or a list of objects for an element type with objects.
    Array,
    /// The state of a masked array: bytes of elements, and of the mask.
    Masked,
    /// Any tuple of values that have ordinary names.
    Values,
    /// The state of an instance of a class that the user accepts: values and attributes without reserved names, and
    /// without those of methods that unpicklers call.
    Accepted,
    /// The attributes of an array that joblib writes beside its elements.
    Wrapped,
}

/// What a pickle may do with an import by calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The lists of arguments.
    forms: &'static [&'static [Takes]],
    gives: Is,
    state: State,
    /// Whether items may be appended to the result.
    items: bool,
    /// Whether pairs may be set in the result.
    pairs: bool,
}

/// The allowed uses of an import.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// What the import itself is.
    own: Is,
    call: Option<Call>,
}

/// Modules, names in each of them, and their allowed use.
pub(crate) type Row = (&'static [&'static str], &'static [&'static str], Use);

impl Use {
    /// A value, which is not called.
    pub(crate) const fn value(own: Is) -> Self {
        Self { own, call: None }
    }

    /// A function with the arguments that it takes, and its result.
    pub(crate) const fn function(forms: &'static [&'static [Takes]], gives: Is) -> Self {
        let call = Call { forms, gives, state: State::None, items: false, pairs: false };
        Self { own: Is::Function, call: Some(call) }
    }

    /// A class, which may be passed on.
    pub(crate) const fn class(forms: &'static [&'static [Takes]], gives: Is) -> Self {
        Self { own: Is::Class, ..Self::function(forms, gives) }
    }

    /// A class whose instances are created without arguments and given attributes.
    pub(crate) const RECORD: Self = Self::class(&[&[]], Is::Other).with(State::Attributes);

    /// The same, with a state.
    pub(crate) const fn with(self, state: State) -> Self {
        let Some(call) = self.call else { return self };
        Self { call: Some(Call { state, ..call }), ..self }
    }

    /// The same, with items that may be appended.
    pub(crate) const fn with_items(self) -> Self {
        let Some(call) = self.call else { return self };
        Self { call: Some(Call { items: true, ..call }), ..self }
    }

    /// The same, with pairs that may be set.
    pub(crate) const fn with_pairs(self) -> Self {
        let Some(call) = self.call else { return self };
        Self { call: Some(Call { pairs: true, ..call }), ..self }
    }

    /// The same, as a value of another kind.
    pub(crate) const fn own(self, own: Is) -> Self {
        Self { own, ..self }
    }
}

/// Rows by module and name.
pub(crate) struct Table(HashMap<(&'static str, &'static str), Use>);

impl Table {
    pub(crate) fn new(rows: impl IntoIterator<Item = Row>) -> Self {
        let each = rows.into_iter().flat_map(|(modules, names, what)| {
            let names = move |module| names.iter().map(move |name| ((module, *name), what));
            modules.iter().copied().flat_map(names)
        });
        Self(each.collect())
    }

    /// Returns whether a module, or a part of it, has rows.
    pub(crate) fn has_module(&self, module: &str) -> bool {
        let is_inside = |known: &str| {
            known.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.0.keys().any(|(known, _)| is_inside(known))
    }

    /// Returns the allowed use of a name in a module.
    pub(crate) fn find(&self, module: &str, name: &str) -> Option<Use> {
        self.0.get(&(module, name)).copied()
    }
}

/// Imports that the user of a scan accepts, by module and name.
#[derive(Debug, Default)]
pub(crate) struct Allowed(HashSet<(String, String)>);

impl Allowed {
    /// Parses names `MODULE.NAME`; returns the first that is none.
    pub(crate) fn parse<'a>(names: &'a [String]) -> Result<Self, &'a String> {
        let parse = |name: &'a String| split(name).ok_or(name);
        names.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the full name of an import that is accepted.
    pub(super) fn find(&self, tree: &Tree, id: Id) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let Node::Global(module, name) = tree.node(id) else { return None };
        let pair = (tree.short(*module)?, tree.short(*name)?);
        self.0.contains(&pair).then(|| format!("{}.{}", pair.0, pair.1))
    }
}

/// Splits `MODULE.NAME`, of which every part is an identifier.
fn split(name: &str) -> Option<(String, String)> {
    let (module, last) = name.rsplit_once('.')?;
    is_name(name).then(|| (module.to_owned(), last.to_owned()))
}

/// The use of an import that the user accepts: a class, which may be called with any arguments. Its instances may be given
/// items, pairs and a state. They are not called, and no name is taken from them, because that would accept more than the
/// name. A function of the table as an argument stays a finding: the import might call it with arguments of another form.
const ACCEPTED: Use =
    Use::class(&[&[Takes::Rest]], Is::Other).with(State::Accepted).with_items().with_pairs();

/// Attributes that unpicklers call, if an instance has them.
const CALLED: &[&str] = &["add", "append", "extend"];

/// Imports and calls of a pickle that tensors do not need.
pub(super) struct Suspects(HashSet<Id>);

impl Suspects {
    /// `is_loaded` is whether a loader returns the values: it drops those of a pickle that fails.
    pub(super) fn of(tree: &Tree, allowed: &Allowed, is_loaded: bool) -> Self {
        let (uses, kinds) = (HashMap::new(), HashMap::new());
        let is_accepted = |(id, _): &(Id, &Node)| allowed.find(tree, *id).is_some();
        let accepted = tree.nodes().filter(is_accepted).map(|(id, _)| id).collect();
        let (dtypes, level) = (RefCell::default(), Cell::new(0));
        let mut reader = Reader { tree, uses, accepted, kinds, dtypes, level };
        let mut suspects = HashSet::new();
        for (id, node) in tree.nodes() {
            match node {
                Node::Global(..) => match use_of(tree, id, allowed) {
                    Some(what) => _ = reader.uses.insert(id, what),
                    None => _ = suspects.insert(id),
                },
                Node::Extension(_) => _ = suspects.insert(id),
                _ => {}
            }
        }
        for (id, node) in tree.nodes() {
            if let Node::Persistent(given) = node
                && let Some(what) = class_of(tree, *given).and_then(|class| reader.uses.get(&class))
            {
                let what = *what;
                reader.uses.insert(id, what);
            }
        }
        // States may have been created after the object that they are given to.
        for (id, node) in tree.nodes() {
            if let Node::Object(object) = node {
                let call = reader.uses.get(&object.callable).and_then(|what| what.call);
                reader.kinds.insert(id, call.map_or(Is::Found, |call| call.gives));
            }
        }
        let mut called = HashSet::new();
        for (id, node) in tree.nodes() {
            let Node::Object(object) = node else { continue };
            called.insert(object.callable);
            if !reader.is_allowed(object) {
                suspects.insert(id);
                reader.kinds.insert(id, Is::Found);
            }
        }
        suspects.extend(reader.passed_on(&called, is_loaded));
        // A disallowed use of an import makes its other uses suspicious, too.
        for (id, node) in tree.nodes() {
            if matches!(node, Node::Object(object) if suspects.contains(&object.callable)) {
                suspects.insert(id);
            }
        }
        Self(suspects)
    }

    pub(super) fn contains(&self, id: Id) -> bool {
        self.0.contains(&id)
    }
}

/// The number of levels of element types: a structure of structures has two.
const MAX_LEVELS: usize = 32;

/// The values of a pickle, with what they are.
struct Reader<'a> {
    tree: &'a Tree,
    /// The imports that are known.
    uses: HashMap<Id, Use>,
    /// The imports that the user accepts.
    accepted: HashSet<Id>,
    /// The results of calls.
    kinds: HashMap<Id, Is>,
    /// Element types that were inspected, or are.
    dtypes: RefCell<HashMap<Id, Option<Is>>>,
    /// The number of element types that contain the one that is inspected.
    level: Cell<usize>,
}

impl Reader<'_> {
    /// Returns whether a call, and what is done with its result, is allowed by the table, or by the user.
    fn is_allowed(&self, object: &Object) -> bool {
        let known = self.uses.get(&object.callable).and_then(|what| what.call);
        let accepted = ACCEPTED.call.filter(|_| self.accepted.contains(&object.callable));
        known.into_iter().chain(accepted).any(|call| self.allows(call, object))
    }

    fn allows(&self, call: Call, object: &Object) -> bool {
        let Node::Tuple(arguments) = self.tree.node(object.arguments) else { return false };
        let is_accepted = call.state == State::Accepted;
        let allows_rest = (call.items || object.items.is_empty())
            && (call.pairs || object.pairs.is_empty())
            && object.how != How::Patch
            && object.named.is_none_or(|named| is_accepted || self.is_empty(named));
        let is_taken = call.forms.iter().any(|form| self.takes(form, arguments));
        let is_given = |state: &Id| match call.state {
            State::None => false,
            State::Attributes => are_attributes(self.tree, *state),
            State::Dtype => self.parts_of(*state).is_some(),
            State::Array => self.is_array(*state),
            State::Masked => self.is_masked(*state),
            State::Values => self.are_values(*state),
            State::Wrapped => self.is_wrapped(*state),
            State::Accepted => self.are_values(*state) && !self.has_called(*state),
        };
        // joblib reads the elements of an array when it is given its state.
        let is_built = call.state != State::Wrapped || object.state.len() == 1;
        allows_rest && is_taken && is_built && object.state.iter().all(is_given)
    }

    /// Returns whether a keyword argument is none.
    fn is_empty(&self, id: Id) -> bool {
        matches!(self.tree.node(id), Node::Dict(pairs) if pairs.is_empty())
    }

    fn takes(&self, form: &[Takes], arguments: &[Id]) -> bool {
        let (form, rest) = match form.split_last() {
            Some((Takes::Rest, form)) if form.len() <= arguments.len() => {
                let (before, rest) = arguments.split_at(form.len());
                return self.takes(form, before) && rest.iter().all(|id| !self.is_function(*id));
            }
            _ => (form, arguments),
        };
        let first = rest.first().copied();
        form.len() == rest.len()
            && form.iter().zip(rest).all(|(takes, id)| self.fits(*takes, *id, first))
    }

    fn is(&self, id: Id) -> Is {
        match self.tree.node(id) {
            Node::Object(object) => match self.kinds.get(&id).copied().unwrap_or(Is::Found) {
                Is::Plain => self.dtype(id, object),
                other => other,
            },
            Node::Global(..) => self.uses.get(&id).map_or(Is::Found, |what| what.own),
            Node::Persistent(_) => self.uses.get(&id).map_or(Is::Storage, |what| what.own),
            Node::Extension(_) | Node::Unknown => Is::Found,
            _ => Is::Other,
        }
    }

    fn is_function(&self, id: Id) -> bool {
        matches!(self.is(id), Is::Function | Is::Constructor)
    }

    fn fits(&self, takes: Takes, id: Id, first: Option<Id>) -> bool {
        let node = self.tree.node(id);
        let is = self.is(id);
        if is == Is::Found {
            return true;
        }
        let is_text =
            |texts: &[&str]| self.tree.short(id).is_some_and(|text| texts.contains(&text.as_str()));
        match takes {
            Takes::Int => is_int(node),
            Takes::Bool => matches!(node, Node::Bool(_)),
            Takes::Number => is_int(node) || matches!(node, Node::Bool(_) | Node::Float(_)),
            Takes::Text => matches!(node, Node::Text(..)),
            Takes::OneOf(texts) => is_text(texts),
            Takes::Name => is_usual(self.tree, id),
            Takes::Bytes => {
                matches!(node, Node::Bytes(_) | Node::ByteArray(_) | Node::Text(..))
                    || is == Is::Bytes
            }
            Takes::Ints => {
                is == Is::Ints
                    || matches!(node, Node::Tuple(ids) | Node::List(ids)
                        if ids.iter().all(|id| is_int(self.tree.node(*id))))
            }
            Takes::None => matches!(node, Node::None),
            Takes::List => matches!(node, Node::List(_)),
            Takes::Tuple => matches!(node, Node::Tuple(_)),
            Takes::Dict => matches!(node, Node::Dict(_)) || is == Is::Mapping,
            Takes::Is(wanted) => is == wanted,
            Takes::Any => !self.is_function(id),
            Takes::Values => self.are_values(id),
            Takes::Rebuild => {
                let call = self.uses.get(&id).and_then(|what| what.call);
                is == Is::Function && call.is_some_and(|call| call.gives == Is::Array)
            }
            Takes::ItsArguments => {
                let call = first.and_then(|first| self.uses.get(&first)).and_then(|it| it.call);
                let is_direct =
                    |form: &&&[Takes]| !form.iter().any(|it| matches!(it, Takes::Rebuild));
                match (call, node) {
                    (Some(call), Node::Tuple(items)) => {
                        let mut forms = call.forms.iter().filter(is_direct);
                        forms.any(|form| self.takes(form, items))
                    }
                    _ => false,
                }
            }
            Takes::Data => match node {
                Node::Dict(pairs) => match pairs.as_slice() {
                    [(name, data)] => {
                        let is_data = self.tree.short(*name).is_some_and(|name| name == "data");
                        let is_none = matches!(self.tree.node(*data), Node::None);
                        is_data && (is_none || matches!(self.is(*data), Is::Array | Is::Found))
                    }
                    _ => false,
                },
                _ => false,
            },
            Takes::Rest => false,
        }
    }

    /// Returns whether an element type has objects, by its name and its states. One that contains itself has.
    fn dtype(&self, id: Id, object: &Object) -> Is {
        if let Some(known) = self.dtypes.borrow().get(&id) {
            return known.unwrap_or(Is::Objects);
        }
        self.dtypes.borrow_mut().insert(id, None);
        let name = match self.tree.node(object.arguments) {
            Node::Tuple(arguments) => arguments.first(),
            _ => None,
        };
        let is_named = match name {
            // A class of scalars, or the size that a class of element types takes.
            Some(name) if matches!(self.tree.node(*name), Node::Global(..) | Node::Int(_)) => true,
            Some(name) => self.tree.short(*name).is_some_and(|name| is_plain(&name)),
            None => true,
        };
        let states = object.state.iter().map(|state| self.parts_of(*state));
        let parts: Option<Vec<Vec<Id>>> = states.collect();
        let level = self.level.get();
        self.level.set(level + 1);
        let is_plain = is_named
            && level < MAX_LEVELS
            && parts.is_some_and(|parts| {
                parts.into_iter().flatten().all(|part| self.is(part) == Is::Plain)
            });
        self.level.set(level);
        let found = if is_plain { Is::Plain } else { Is::Objects };
        self.dtypes.borrow_mut().insert(id, Some(found));
        found
    }

    /// Returns the element types in the state of another; `None` if it is no such state.
    fn parts_of(&self, state: Id) -> Option<Vec<Id>> {
        let Node::Tuple(parts) = self.tree.node(state) else { return None };
        let [_, _, part, names, fields, sizes @ ..] = parts.as_slice() else { return None };
        let are_ints = sizes.iter().take(3).all(|size| is_int(self.tree.node(*size)));
        let is_more = sizes.get(3).is_none_or(|more| self.are_values(*more));
        let are_names = matches!(self.tree.node(*names), Node::None | Node::Tuple(_));
        if !(matches!(sizes.len(), 3 | 4) && are_ints && is_more && are_names) {
            return None;
        }
        let mut inner = Vec::new();
        match self.tree.node(*part) {
            Node::None => {}
            Node::Tuple(ids) => inner.push(*ids.first()?),
            _ => return None,
        }
        match self.tree.node(*fields) {
            Node::None => {}
            Node::Dict(pairs) => {
                for (_, field) in pairs {
                    let Node::Tuple(ids) = self.tree.node(*field) else { return None };
                    inner.push(*ids.first()?);
                }
            }
            _ => return None,
        }
        Some(inner)
    }

    fn is_array(&self, state: Id) -> bool {
        let Node::Tuple(parts) = self.tree.node(state) else { return false };
        // Before NumPy 1.0, there was no version.
        let ([shape, dtype, order, elements] | [_, shape, dtype, order, elements]) =
            parts.as_slice()
        else {
            return false;
        };
        let fits = |takes, id: &Id| self.fits(takes, *id, None);
        let are_elements = match self.is(*dtype) {
            Is::Plain => fits(Takes::Bytes, elements),
            Is::Objects => fits(Takes::List, elements),
            other => other == Is::Found,
        };
        fits(Takes::Ints, shape) && fits(Takes::Number, order) && are_elements
    }

    fn is_masked(&self, state: Id) -> bool {
        let Node::Tuple(parts) = self.tree.node(state) else { return false };
        let [version, shape, dtype, order, elements, mask, fill] = parts.as_slice() else {
            return false;
        };
        let fits = |takes, id: &Id| self.fits(takes, *id, None);
        fits(Takes::Int, version)
            && fits(Takes::Ints, shape)
            && fits(Takes::Is(Is::Plain), dtype)
            && fits(Takes::Number, order)
            && fits(Takes::Bytes, elements)
            && fits(Takes::Bytes, mask)
            && !self.is_function(*fill)
    }

    /// Returns whether a state is that of an array of joblib. Its reader decides whether an element type that has objects
    /// is the simple one, of which a pickle follows.
    fn is_wrapped(&self, state: Id) -> bool {
        let Node::Dict(pairs) = self.tree.node(state) else { return false };
        let fits = |takes, id: &Id| self.fits(takes, *id, None);
        let is_fine = |(name, value): &(Id, Id)| match self.tree.short(*name).as_deref() {
            Some("subclass") => matches!(self.is(*value), Is::Ndarray | Is::Memmap),
            Some("shape") => fits(Takes::Ints, value),
            Some("order") => fits(Takes::OneOf(&["C", "F"]), value),
            Some("dtype") => fits(Takes::Is(Is::Plain), value) || self.is_simple_object(*value),
            Some("allow_mmap") => fits(Takes::Bool, value),
            Some("numpy_array_alignment_bytes") => {
                fits(Takes::Int, value) || fits(Takes::None, value)
            }
            _ => false,
        };
        pairs.iter().all(is_fine)
    }

    /// Returns whether a value is the element type of Python objects.
    fn is_simple_object(&self, id: Id) -> bool {
        let Node::Object(object) = self.tree.node(id) else { return false };
        let name = match self.tree.node(object.arguments) {
            Node::Tuple(arguments) => arguments.first().and_then(|name| self.tree.short(*name)),
            _ => None,
        };
        self.is(id) == Is::Objects && name.is_some_and(|name| name.starts_with('O'))
    }

    /// Returns whether a state has an attribute that unpicklers call.
    fn has_called(&self, state: Id) -> bool {
        let is_called = |(key, _): &(Id, Id)| {
            self.tree.short(*key).is_some_and(|key| CALLED.contains(&key.as_str()))
        };
        let has = |id: &Id| matches!(self.tree.node(*id), Node::Dict(pairs) if pairs.iter().any(is_called));
        match self.tree.node(state) {
            Node::Tuple(parts) => parts.iter().any(has),
            _ => has(&state),
        }
    }

    /// Returns whether a state is a value without reserved names.
    fn are_values(&self, state: Id) -> bool {
        let is_fine = |id: &Id| match self.tree.node(*id) {
            Node::Dict(pairs) => pairs.iter().all(|(key, _)| !is_reserved(self.tree, *key)),
            _ => !self.is_function(*id),
        };
        match self.tree.node(state) {
            Node::Tuple(parts) => parts.iter().all(is_fine),
            _ => is_fine(&state),
        }
    }

    /// Returns functions that are more than called, or are imported for nothing.
    fn passed_on(&self, called: &HashSet<Id>, is_loaded: bool) -> HashSet<Id> {
        let is_function = |id: &Id| self.is_function(*id);
        // Tuples that are the arguments of allowed calls, and nothing else: their functions have a place there.
        let (mut arguments, mut values) = (HashSet::new(), HashSet::new());
        values.insert(self.tree.root());
        for (id, node) in self.tree.nodes() {
            node.each_value(|value| _ = values.insert(value));
            if let Node::Object(object) = node {
                match self.kinds.get(&id) {
                    Some(Is::Found) | None => _ = values.insert(object.arguments),
                    Some(_) => _ = arguments.insert(object.arguments),
                }
            }
        }
        let (mut found, mut placed) = (HashSet::new(), HashSet::<Id>::new());
        let mut uncalled = Vec::new();
        for (id, node) in self.tree.nodes() {
            match node {
                Node::Tuple(ids) if arguments.contains(&id) && !values.contains(&id) => {
                    placed.extend(ids);
                    continue;
                }
                Node::Object(object) => found.extend(Some(object.arguments).filter(is_function)),
                Node::Global(..) if is_function(&id) && !called.contains(&id) => uncalled.push(id),
                _ => {}
            }
            node.each_value(|value| found.extend(Some(value).filter(is_function)));
        }
        found.extend(Some(self.tree.root()).filter(is_function));
        // An argument may be called by the function that takes it.
        if is_loaded {
            found.extend(uncalled.into_iter().filter(|id| !placed.contains(id)));
        }
        found
    }
}

/// Returns whether the name of an element type is that of one simple type without objects: `f4`, `<M8[ns]`.
fn is_plain(name: &str) -> bool {
    let name = name.trim_start_matches(['<', '>', '=', '|']);
    let Some((kind, rest)) = name.split_at_checked(1) else { return false };
    let is_size = rest.bytes().all(|byte| byte.is_ascii_digit());
    let is_unit = rest.starts_with("8[") && rest.ends_with(']');
    match kind {
        "M" | "m" => is_size || is_unit,
        _ => "?bBhHiIlLqQefdgFDGSUaVcnupN".contains(kind) && is_size || SCALARS.contains(&name),
    }
}

fn is_int(node: &Node) -> bool {
    matches!(node, Node::Int(_) | Node::BigInt(_) | Node::Digits(_))
}

/// Returns whether honest pickles import names of a module, or of a part of it.
pub(crate) fn is_known_module(module: &str) -> bool {
    KNOWN.has_module(module) || MODULES.iter().any(|has| has(module))
}

/// Returns whether an import is the class that joblib writes in place of arrays.
pub(super) fn is_wrapper(tree: &Tree, id: Id) -> bool {
    let Node::Global(module, name) = tree.node(id) else { return false };
    let is = |id: Id, word: &str| tree.short(id).is_some_and(|text| text == word);
    is(*module, WRAPPER.0) && is(*name, WRAPPER.1)
}

/// Returns whether an import is one of honest pickles, or accepted.
pub(super) fn is_known(tree: &Tree, id: Id, allowed: &Allowed) -> bool {
    use_of(tree, id, allowed).is_some()
}

/// Returns the allowed use of an import. Module and name must be string literals of the file.
fn use_of(tree: &Tree, id: Id, allowed: &Allowed) -> Option<Use> {
    let Node::Global(module, name) = tree.node(id) else { return None };
    let (module, name) = (tree.short(*module)?, tree.short(*name)?);
    let of_framework = || IMPORTS.iter().find_map(|imports| imports(&module, &name));
    let accepted = || allowed.find(tree, id).map(|_| ACCEPTED);
    KNOWN.find(&module, &name).or_else(of_framework).or_else(accepted)
}

/// Returns the class of an identifier `("module", CLASS, PATH, SOURCE)`, which stands for the class: loaders
/// compare its source with the one at the time of saving.
fn class_of(tree: &Tree, given: Id) -> Option<Id> {
    let Node::Tuple(parts) = tree.node(given) else { return None };
    let [kind, class, path, source] = parts.as_slice() else { return None };
    let is_text = |id: &Id| matches!(tree.node(*id), Node::Text(..) | Node::None);
    let is_module = tree.short(*kind)? == "module" && is_text(path) && is_text(source);
    is_module.then_some(*class)
}

/// Returns whether a state consists of attributes with ordinary names.
fn are_attributes(tree: &Tree, state: Id) -> bool {
    let are_usual = |id: &Id| match tree.node(*id) {
        Node::Dict(pairs) => pairs.iter().all(|(key, _)| is_usual(tree, *key)),
        Node::None => true,
        _ => false,
    };
    match tree.node(state) {
        // Attributes and slots.
        Node::Tuple(both) => both.len() == 2 && both.iter().all(are_usual),
        _ => are_usual(&state),
    }
}

/// Returns whether a value is an ordinary name.
fn is_usual(tree: &Tree, key: Id) -> bool {
    matches!(tree.node(key), Node::Text(..))
        && tree.word(key).is_ok_and(|key| key.is_some_and(|key| !key.starts_with("__")))
}

/// Returns whether a value is a reserved name, or a text that cannot be read.
fn is_reserved(tree: &Tree, key: Id) -> bool {
    matches!(tree.node(key), Node::Text(..)) && !is_usual(tree, key)
}

/// Rows for pickles of any framework.
static KNOWN: LazyLock<Table> = LazyLock::new(|| Table::new(ROWS.iter().copied()));
