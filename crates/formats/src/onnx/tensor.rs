//! `TensorProto` and `SparseTensorProto`.
//!
//! Elements are in one of six fields, depending on the type of the tensor. Elements in several are an error, because
//! readers differ in which they use. Elements in the field of another type are ignored.
//!
//! | field | contents |
//! |---|---|
//! | 9 `raw_data` | as in memory, little-endian; two or four small values per byte, lowest first |
//! | 4 `float_data`, 10 `double_data` | floats and complex numbers (real, imaginary) |
//! | 5 `int32_data` | integers of up to 32 bits, bits of small floats, bytes of small values |
//! | 7 `int64_data`, 11 `uint64_data` | `int64`; `uint64` and `uint32` |
//! | 6 `string_data` | strings |
//! | 13 `external_data`, if 14 `data_location` is 1 | a byte range of another file |

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lodstone_model::{ByteString, DType, Indices, Kind, Residual, Tensor};
use lodstone_store::Blob;

use super::elements::{Encoding, Typed};
use super::external::{Entries, External};
use super::strided::Strided;
use super::{OWNER, types};
use crate::encoding::protobuf::holes::content;
use crate::encoding::protobuf::wire::{Encoder, Field, Message, Packed, Value};
use crate::error::Result;

/// The field of elements that are bytes.
pub(super) const RAW_DATA: u32 = 9;

/// The fields of a `TensorProto`.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    message: Message<'a>,
    pub(super) dims: Vec<i64>,
    pub(super) code: i32,
    pub(super) name: String,
    /// The description.
    pub(super) doc_string: Option<Bytes>,
    /// The fields of elements, by number.
    elements: BTreeMap<u32, Vec<Field<'a>>>,
    /// The keys and values of the byte range in another file.
    entries: Vec<(String, String)>,
    /// The encoded fields of that range.
    external: BytesMut,
    is_external: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn read(message: &Message<'a>) -> Result<Self> {
        let mut fields = Self {
            message: message.clone(),
            dims: Vec::new(),
            code: 0,
            name: String::new(),
            doc_string: None,
            elements: BTreeMap::new(),
            entries: Vec::new(),
            external: BytesMut::new(),
            is_external: false,
        };
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => field.each(Field::i64, Packed::Varint, &mut fields.dims)?,
                2 => fields.code = field.i32()?,
                8 => fields.name = field.string()?,
                12 => fields.doc_string = Some(field.bytes()?),
                13 => {
                    fields.external.extend_from_slice(&field.raw);
                    fields.entries.push(entry(&field.message()?)?);
                }
                14 => {
                    fields.external.extend_from_slice(&field.raw);
                    fields.is_external = field.i32()? == 1;
                }
                4..=7 | 9..=11 => fields.elements.entry(field.number).or_default().push(field),
                _ => {}
            }
        }
        // Of duplicates, the last one is used, as for any singular field.
        if let Some(raw) = fields.elements.get_mut(&9)
            && let Some(last) = raw.pop()
        {
            *raw = vec![last];
        }
        Ok(fields)
    }

    pub(super) fn dtype(&self) -> DType {
        types::dtype(self.code)
    }

    fn shape(&self) -> Result<Vec<u64>> {
        let size = |dim: &i64| {
            u64::try_from(*dim).map_err(|_| {
                let what = format!("tensor `{}`", self.name);
                self.wrong("a dim of 0 or more", dim.to_string()).inside(what)
            })
        };
        self.dims.iter().map(size).collect()
    }

    fn wrong(&self, expected: impl Into<String>, found: impl Into<String>) -> crate::error::Error {
        self.message.error(expected, found)
    }

    /// Fails if elements are in several fields.
    fn only_place(&self) -> Result<()> {
        const NAMES: [(u32, &str); 7] = [
            (9, "raw_data"),
            (6, "string_data"),
            (4, "float_data"),
            (5, "int32_data"),
            (7, "int64_data"),
            (10, "double_data"),
            (11, "uint64_data"),
        ];
        let has = |number: u32| {
            let fields = self.elements.get(&number);
            fields.is_some_and(|fields| number == 6 || fields.iter().any(|field| !is_empty(field)))
        };
        let places = NAMES.iter().filter(|(number, _)| has(*number)).map(|(_, name)| *name);
        let places: Vec<_> = places.chain(self.is_external.then_some("external_data")).collect();
        match places.len() {
            0 | 1 => Ok(()),
            _ => Err(self.wrong("elements in one field", places.join(" and "))),
        }
    }

    /// Returns the field whose elements are used, if it is present and not empty.
    fn used(&self) -> Option<(u32, &[Field<'a>])> {
        if self.is_external {
            return None;
        }
        let dtype = self.dtype();
        let counts = |number: &u32| match number {
            9 => dtype != DType::String,
            6 => dtype == DType::String,
            _ => Encoding::of(*number, dtype).is_some(),
        };
        let numbers = [9, 6, 4, 5, 7, 10, 11].into_iter().filter(counts);
        let mut fields =
            numbers.filter_map(|number| Some((number, &**self.elements.get(&number)?)));
        fields.find(|(number, fields)| *number == 6 || fields.iter().any(|field| !is_empty(field)))
    }

    /// Returns the tensor.
    pub(super) fn tensor(&self, holes: &Arc<[Blob]>, files: &mut External<'_>) -> Result<Tensor> {
        let place = |error: crate::error::Error| error.inside(format!("tensor `{}`", self.name));
        let (data, kind) = self.elements(holes, files).map_err(place)?;
        let mut tensor = Tensor::dense(self.dtype(), self.shape()?, data);
        tensor.kind = kind;
        tensor.doc_string = self.doc_string.clone().map(|text| Box::new(ByteString(text)));
        tensor.residual =
            Residual::with_holes(OWNER, self.message.bytes.clone(), Arc::clone(holes));
        Ok(tensor)
    }

    fn elements(&self, holes: &Arc<[Blob]>, files: &mut External<'_>) -> Result<(Blob, Kind)> {
        self.only_place()?;
        let (dtype, shape) = (self.dtype(), self.shape()?);
        let size = dtype.size_of(&shape);
        if size.is_none() && dtype.bits().is_some() {
            return Err(self.wrong("dims that fit 64 bits", format!("{shape:?}")));
        }
        if self.is_external {
            return self.outside(size, files);
        }
        if dtype == DType::String {
            return self.strings(&shape).map(|kind| (Blob::default(), kind));
        }
        let Some((number, fields)) = self.used() else {
            let kind = if size == Some(0) { Kind::Dense } else { Kind::Absent };
            return Ok((Blob::default(), kind));
        };
        let Some(size) = size else {
            // An unknown type: the raw bytes.
            let raw = fields.first().filter(|_| number == 9);
            let data = raw.map(|field| content(field, holes).cloned()).transpose()?;
            return Ok((data.unwrap_or_default(), Kind::Dense));
        };
        let misfit = |found: u64| {
            let expected = format!("{size} bytes of elements for {dtype} {shape:?}");
            self.wrong(expected, format!("{found} bytes"))
        };
        let encoding = Encoding::of(number, dtype).unwrap_or(Encoding::Fixed);
        let packed = |field: &Field<'a>| matches!(field.value, Value::Group);
        if encoding == Encoding::Fixed
            && let [field] = fields
            && packed(field)
        {
            let data = content(field, holes)?;
            if data.len() == size {
                return Ok((data.clone(), Kind::Dense));
            }
            let text = self.doc_string.as_ref().map(|text| String::from_utf8_lossy(text));
            let strided = text.and_then(|text| Strided::new(&text, data, &shape, size));
            let strided = strided.ok_or_else(|| misfit(data.len()))?;
            return Ok((Blob::derived(Arc::new(strided)), Kind::Dense));
        }
        let source = payload(fields, holes)?;
        let bytes: Bytes = fields.iter().flat_map(|field| field.raw.clone()).collect();
        let typed = Typed::new(number, (bytes, Arc::clone(holes)), source, encoding, size);
        if !typed.fits() {
            return Err(misfit(typed.encoded()));
        }
        Ok((Blob::derived(Arc::new(typed)), Kind::Dense))
    }

    /// Returns elements in another file.
    fn outside(&self, size: Option<u64>, files: &mut External<'_>) -> Result<(Blob, Kind)> {
        let wrong = |(expected, found): (String, String)| self.wrong(expected, found);
        let entries = Entries::of(&self.entries).map_err(wrong)?;
        if let (Some(length), Some(size)) = (entries.length, size)
            && length != size
        {
            let expected = format!("a length of {size} bytes for {} {:?}", self.dtype(), self.dims);
            return Err(self.wrong(expected, length.to_string()));
        }
        if self.dtype() == DType::String {
            return Err(self.wrong("strings in the model itself", "external data"));
        }
        Ok(match files.range(&entries, size)? {
            Some(data) => (data, Kind::Dense),
            None => (Blob::default(), Kind::Absent),
        })
    }

    /// Returns the byte range of elements in another file.
    pub(super) fn place(&self) -> Option<Entries<'_>> {
        Entries::of(&self.entries).ok().filter(|_| self.is_external)
    }

    fn strings(&self, shape: &[u64]) -> Result<Kind> {
        let Some((_, fields)) = self.used() else {
            return Ok(match shape.contains(&0) {
                true => Kind::Strings { elements: Vec::new() },
                false => Kind::Absent,
            });
        };
        let elements = fields.iter().map(Field::bytes).collect::<Result<Vec<_>>>()?;
        let count = shape.iter().try_fold(1u64, |count, dim| count.checked_mul(*dim));
        if count != Some(elements.len() as u64) {
            let expected = format!("as many strings as {shape:?} requires");
            return Err(self.wrong(expected, elements.len().to_string()));
        }
        Ok(Kind::Strings { elements })
    }

    /// Returns the tensor in canonical form, except for the fields of elements.
    pub(super) fn described(&self) -> Described {
        let used = self.used();
        let fields = |(_, fields): (u32, &[Field<'a>])| {
            fields.iter().filter(|field| !is_empty(field)).flat_map(|f| f.raw.clone()).collect()
        };
        Described {
            dims: self.dims.clone(),
            code: self.code,
            name: self.name.clone(),
            number: used.map_or(RAW_DATA, |(number, _)| number),
            elements: used.map(fields).unwrap_or_default(),
            doc_string: self.doc_string.clone(),
            external: if self.is_external { self.external.clone().freeze() } else { Bytes::new() },
        }
    }

    /// Returns the number of the field of elements, if it is not `raw_data`.
    pub(super) fn typed_field(&self) -> Option<u32> {
        let (number, _) = self.used()?;
        (Encoding::of(number, self.dtype()) == Some(Encoding::Fixed)).then_some(number)
    }
}

fn is_empty(field: &Field<'_>) -> bool {
    matches!(&field.value, Value::Bytes(bytes) if bytes.is_empty())
}

/// Concatenates the values of several fields.
fn payload(fields: &[Field<'_>], holes: &[Blob]) -> Result<Blob> {
    let mut parts = Vec::new();
    let mut single = BytesMut::new();
    for field in fields {
        match &field.value {
            Value::Group => {
                if !single.is_empty() {
                    parts.push(Blob::memory(single.split().freeze()));
                }
                parts.push(content(field, holes)?.clone());
            }
            Value::Fixed32(bytes) => single.extend_from_slice(bytes),
            Value::Fixed64(bytes) => single.extend_from_slice(bytes),
            Value::Varint(value) => {
                let mut encoder = Encoder::default();
                encoder.varint(*value);
                single.extend_from_slice(&encoder.finish());
            }
            Value::Bytes(bytes) => single.extend_from_slice(bytes),
        }
    }
    if !single.is_empty() {
        parts.push(Blob::memory(single.freeze()));
    }
    Ok(Blob::concat(parts))
}

/// A `StringStringEntryProto`.
pub(super) fn entry(message: &Message<'_>) -> Result<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => key = field.string()?,
            2 => value = field.string()?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// A `TensorProto` to be written.
#[derive(Debug, Default)]
pub(super) struct Described {
    pub(super) dims: Vec<i64>,
    pub(super) code: i32,
    pub(super) name: String,
    /// The field number of the elements.
    pub(super) number: u32,
    /// The encoded fields of the elements.
    pub(super) elements: Bytes,
    /// The description.
    pub(super) doc_string: Option<Bytes>,
    /// The encoded fields of a byte range in another file.
    pub(super) external: Bytes,
}

impl Described {
    pub(super) fn encode(&self) -> Encoder {
        let mut out = Encoder::default();
        self.dims.iter().for_each(|dim| out.int(1, *dim));
        if self.code != 0 {
            out.int(2, self.code);
        }
        if self.number < 8 {
            out.raw(&self.elements);
        }
        if !self.name.is_empty() {
            out.bytes(8, self.name.as_bytes());
        }
        if self.number > 8 {
            out.raw(&self.elements);
        }
        self.doc_string.iter().for_each(|text| out.bytes(12, text));
        out.raw(&self.external);
        out
    }
}

/// The parts of a `SparseTensorProto`: values, indices, and dims.
pub(super) struct Sparse<'a> {
    pub(super) values: Option<Message<'a>>,
    pub(super) indices: Option<Message<'a>>,
    pub(super) dims: Vec<i64>,
    message: Message<'a>,
}

impl<'a> Sparse<'a> {
    pub(super) fn read(message: &Message<'a>) -> Result<Self> {
        let mut sparse =
            Self { values: None, indices: None, dims: Vec::new(), message: message.clone() };
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => sparse.values = Some(field.message()?),
                2 => sparse.indices = Some(field.message()?),
                3 => field.each(Field::i64, Packed::Varint, &mut sparse.dims)?,
                _ => {}
            }
        }
        Ok(sparse)
    }

    /// Returns the tensor, and its name, which is that of its values.
    pub(super) fn tensor(
        &self,
        holes: &Arc<[Blob]>,
        files: &mut External<'_>,
    ) -> Result<(String, Tensor)> {
        let absent = |what| self.message.missing(what);
        let values = self.values.as_ref().ok_or_else(|| absent("the values of a sparse tensor"))?;
        let values = Fields::read(values)?;
        let name = values.name.clone();
        let place = |error: crate::error::Error| error.inside(format!("sparse tensor `{name}`"));
        let values = values.tensor(holes, files)?;
        let indices =
            self.indices.as_ref().ok_or_else(|| absent("the indices of a sparse tensor"))?;
        let indices = Fields::read(indices).map_err(place)?.tensor(holes, files).map_err(place)?;
        let size = |dim: &i64| {
            let negative = || place(self.message.error("a dim of 0 or more", dim.to_string()));
            u64::try_from(*dim).map_err(|_| negative())
        };
        let shape = self.dims.iter().map(size).collect::<Result<Vec<_>>>()?;
        let [count] = *values.shape.as_slice() else {
            let found = format!("{:?}", values.shape);
            return Err(place(self.message.error("one-dimensional values", found)));
        };
        let linear = indices.shape == [count];
        let whole = matches!((&values.kind, &indices.kind), (Kind::Dense, Kind::Dense));
        if !(linear || indices.shape == [count, shape.len() as u64])
            || indices.dtype != DType::Int64
            || !whole
        {
            let expected = format!("{count} indices of int64");
            let found = format!("{} {:?}", indices.dtype, indices.shape);
            return Err(place(self.message.error(expected, found)));
        }
        let mut tensor = Tensor::dense(values.dtype, shape, values.data);
        tensor.doc_string = values.doc_string;
        let indices = Indices { dtype: DType::Int64, data: indices.data };
        tensor.kind = Kind::Coo { indices, linear };
        tensor.residual =
            Residual::with_holes(OWNER, self.message.bytes.clone(), Arc::clone(holes));
        Ok((name, tensor))
    }
}
