//! Quantized tensors: floats that are rounded to a grid after each operator.
//!
//! | code | program |
//! |---|---|
//! | `quantize_per_tensor(x, scale, zero_point, dtype)` | `fake_quantize_per_tensor_affine` |
//! | `dequantize(q)` | the same floats |
//! | `quantized::conv2d(q, packed, scale, zero_point)` and others | the operator on floats, and rounding to the new grid |
//! | an operator on a quantized tensor | the operator on floats, and rounding to the same grid |
//! | a quantized parameter | `quantized_decomposed::dequantize_per_tensor` or `_per_channel` of its integers |
//! | `quantized::linear_dynamic(x, packed)` | the grid is chosen by the smallest and largest element |

use std::collections::BTreeMap;
use std::rc::Rc;

use lodstone_model::AttributeValue;
use lodstone_schema::numbers::exact;

use super::emit::Argument;
use super::evaluator::{Evaluator, Outcome};
use super::value::{Cell, Type, Value};
use crate::torch::object::{Kind, Scheme};

/// The numbers that a quantized tensor has.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    scale: Value,
    zero_point: Value,
    /// The code of the element type.
    dtype: i64,
}

/// The class of packed parameters.
const PACKED: &str = "packed parameters";

/// The arguments of functions that pack parameters.
const FIELDS: [&str; 6] = ["weight", "bias", "stride", "padding", "dilation", "groups"];

/// The codes of the element types `qint8`, `quint8` and `qint32`.
const QINT8: i64 = 12;
const QUINT8: i64 = 13;
const QINT32: i64 = 14;

/// Returns the smallest and the largest integer of an element type, if it is quantized.
fn range(dtype: i64) -> Option<(i64, i64)> {
    match dtype {
        QINT8 => Some((i8::MIN.into(), i8::MAX.into())),
        QUINT8 => Some((0, u8::MAX.into())),
        QINT32 => Some((i32::MIN.into(), i32::MAX.into())),
        _ => None,
    }
}

fn longs(value: i64) -> Argument {
    Argument::Constant(AttributeValue::Long(value))
}

impl Evaluator<'_> {
    /// Returns the grid of a tensor, if it is quantized.
    fn grid(&self, value: &Value) -> Option<Grid> {
        match value {
            Value::Tensor(name) => self.grids.get(name).cloned(),
            _ => None,
        }
    }

    fn range(&self, dtype: i64) -> Outcome<(i64, i64)> {
        let unknown = || self.failure(format!("the type {dtype} of quantized elements is unknown"));
        range(dtype).ok_or_else(unknown)
    }

    /// Rounds floats to a grid.
    fn on_grid(&mut self, value: &Value, grid: Grid) -> Outcome {
        let name = self.variable(value)?;
        let (least, most) = self.range(grid.dtype)?;
        let mut arguments = vec![("self".to_owned(), Argument::Values(vec![name.to_string()]))];
        for (slot, number) in [("scale", &grid.scale), ("zero_point", &grid.zero_point)] {
            let number = self.variable(number)?;
            arguments.push((slot.to_owned(), Argument::Values(vec![number.to_string()])));
        }
        arguments.push(("quant_min".to_owned(), longs(least)));
        arguments.push(("quant_max".to_owned(), longs(most)));
        let made = self.simple("aten::fake_quantize_per_tensor_affine", arguments, None)?;
        if let Value::Tensor(name) = &made {
            self.grids.insert(Rc::clone(name), grid);
        }
        Ok(made)
    }

    /// Returns the floats of a quantized parameter, or another parameter as it is.
    pub(super) fn quantized_parameter(
        &mut self,
        name: &str,
        kind: &Kind,
        storage: Option<&str>,
    ) -> Outcome {
        let Kind::Quantized(_, scheme) = kind else { return self.parameter(name) };
        let dtype = match storage {
            Some("QInt8Storage") => QINT8,
            Some("QUInt8Storage") => QUINT8,
            Some("QInt32Storage") => QINT32,
            other => {
                let found = other.unwrap_or("none");
                return Err(self.failure(format!("expected a quantized storage, found `{found}`")));
            }
        };
        let integers = self.parameter(name)?;
        let (least, most) = self.range(dtype)?;
        let values = |value: &Value| match value {
            Value::Tensor(name) => Argument::Values(vec![name.to_string()]),
            _ => Argument::Values(Vec::new()),
        };
        let mut arguments = vec![("input".to_owned(), values(&integers))];
        let (kind, grid) = match scheme {
            Scheme::Tensor { scale, zero_point } => {
                let number = Argument::Constant(AttributeValue::Double(*scale));
                arguments.push(("scale".to_owned(), number));
                arguments.push(("zero_point".to_owned(), longs(*zero_point)));
                let grid = Grid {
                    scale: Value::Float(*scale),
                    zero_point: Value::Int(*zero_point),
                    dtype,
                };
                ("quantized_decomposed::dequantize_per_tensor", Some(grid))
            }
            Scheme::Channel { axis, .. } => {
                let axis = exact(*axis).map_err(|wrong| self.failure(wrong.to_string()))?;
                let scales = self.parameter(&format!("{name}@scales"))?;
                let zero_points = self.parameter(&format!("{name}@zero_points"))?;
                arguments.push(("scales".to_owned(), values(&scales)));
                arguments.push(("zero_points".to_owned(), values(&zero_points)));
                arguments.push(("axis".to_owned(), longs(axis)));
                ("quantized_decomposed::dequantize_per_channel", None)
            }
        };
        arguments.push(("quant_min".to_owned(), longs(least)));
        arguments.push(("quant_max".to_owned(), longs(most)));
        let made = self.simple(kind, arguments, None)?;
        if let (Value::Tensor(name), Some(grid)) = (&made, grid) {
            self.grids.insert(Rc::clone(name), grid);
        }
        Ok(made)
    }

    /// Packs parameters.
    pub(super) fn packed(&mut self, values: &[Value]) -> Outcome {
        let fields =
            FIELDS.iter().zip(values).map(|(name, value)| ((*name).to_owned(), value.clone()));
        let fields: BTreeMap<String, Value> = fields.collect();
        self.allocate(Cell::Instance(Rc::from(PACKED), fields)).map(Value::Instance)
    }

    fn field(&self, packed: &Value, name: &str) -> Outcome {
        let found = match packed {
            Value::Instance(place) => match self.heap.get(*place) {
                Some(Cell::Instance(class, fields)) if &**class == PACKED => fields.get(name),
                _ => None,
            },
            _ => None,
        };
        match found {
            Some(value) => Ok(value.clone()),
            None => Err(self.failure(format!("expected packed parameters with `{name}`"))),
        }
    }

    /// Applies an operator to quantized tensors, or returns `None` if there are none.
    pub(super) fn on_quantized(
        &mut self,
        name: &str,
        values: &[Value],
        named: &[(String, Value)],
    ) -> Outcome<Option<Value>> {
        if let Some(name) = name.strip_prefix("quantized::") {
            return self.of_quantized(name, values, named).map(Some);
        }
        match (name, values) {
            ("aten::quantize_per_tensor", [x, scale, zero_point, Value::Int(dtype)]) => {
                let scale = self.as_number(scale, Type::Float)?;
                let zero_point = self.as_number(zero_point, Type::Int)?;
                let grid = Grid { scale, zero_point, dtype: *dtype };
                return self.on_grid(x, grid).map(Some);
            }
            ("aten::dequantize", [x]) if self.grid(x).is_some() => {
                let name = self.variable(x)?;
                let arguments = vec![("self".to_owned(), Argument::Values(vec![name.to_string()]))];
                return self.simple("aten::alias", arguments, None).map(Some);
            }
            ("aten::q_scale", [x]) => return Ok(self.grid(x).map(|grid| grid.scale)),
            ("aten::q_zero_point", [x]) => return Ok(self.grid(x).map(|grid| grid.zero_point)),
            _ => {}
        }
        let first = match values.first() {
            Some(first @ Value::Tensor(_)) => Some(first.clone()),
            Some(first) => self.items(first).and_then(|items| items.into_iter().next()),
            None => None,
        };
        let Some(grid) = first.and_then(|first| self.grid(&first)) else { return Ok(None) };
        if self.query(name, values)?.is_some() {
            return Ok(None);
        }
        let result = self.on_floats(name, values.to_vec(), named.to_vec())?;
        match &result {
            Value::Tensor(_) => self.on_grid(&result, grid).map(Some),
            _ => Ok(Some(result)),
        }
    }

    fn as_number(&mut self, value: &Value, scalar: Type) -> Outcome {
        match value {
            Value::Tensor(_) => self.number_of(value, scalar),
            value => Ok(value.clone()),
        }
    }

    /// Applies an operator of the namespace `quantized`.
    fn of_quantized(&mut self, name: &str, values: &[Value], named: &[(String, Value)]) -> Outcome {
        if let Some(kind) = name.strip_suffix("_prepack") {
            return match kind {
                "linear" | "conv1d" | "conv2d" | "conv3d" => self.packed(values),
                _ => Err(self.failure(format!("`quantized::{name}` is not supported"))),
            };
        }
        if name.ends_with("_unpack") {
            let packed = values.first().cloned().unwrap_or(Value::None);
            let parts = [self.field(&packed, "weight")?, self.field(&packed, "bias")?];
            return Ok(Value::Tuple(parts.into()));
        }
        if !named.is_empty() {
            return Err(self.failure(format!("`quantized::{name}` with names is not supported")));
        }
        if let ("linear_dynamic" | "linear_relu_dynamic", [x, packed, rest @ ..]) = (name, values) {
            let reduces = !matches!(rest, [Value::Bool(false), ..]);
            let x = self.dynamic(x, reduces)?;
            let y = self.float_product("linear", &x, packed)?;
            return if name == "linear_dynamic" { Ok(y) } else { self.relu(&y) };
        }
        let (base, has_relu) = match name.strip_suffix("_relu") {
            Some(base) => (base, true),
            None => (name, false),
        };
        let (y, scale, zero_point, first) = match (base, values) {
            ("linear" | "conv1d" | "conv2d" | "conv3d", [x, packed, scale, zero_point]) => {
                (self.float_product(base, x, packed)?, scale, zero_point, x.clone())
            }
            ("add" | "mul", [a, b, scale, zero_point]) => {
                let kind = format!("aten::{base}");
                (
                    self.on_floats(&kind, vec![a.clone(), b.clone()], Vec::new())?,
                    scale,
                    zero_point,
                    a.clone(),
                )
            }
            ("cat", [list, axis, scale, zero_point]) => {
                let first = self.items(list).and_then(|items| items.into_iter().next());
                let first = first.ok_or_else(|| self.failure("expected tensors, found none"))?;
                let joined =
                    self.on_floats("aten::cat", vec![list.clone(), axis.clone()], Vec::new())?;
                (joined, scale, zero_point, first)
            }
            ("hardswish" | "sigmoid", [x, scale, zero_point]) => {
                let kind = format!("aten::{base}");
                (self.on_floats(&kind, vec![x.clone()], Vec::new())?, scale, zero_point, x.clone())
            }
            ("leaky_relu", [x, slope, _, scale, zero_point]) => {
                let values = vec![x.clone(), slope.clone()];
                (
                    self.on_floats("aten::leaky_relu", values, Vec::new())?,
                    scale,
                    zero_point,
                    x.clone(),
                )
            }
            ("batch_norm2d", [x, weight, bias, mean, variance, epsilon, scale, zero_point]) => {
                let mut values: Vec<Value> =
                    [x, weight, bias, mean, variance].map(Clone::clone).into();
                values.extend([
                    Value::Bool(false),
                    Value::Float(0.1),
                    epsilon.clone(),
                    Value::Bool(false),
                ]);
                (
                    self.on_floats("aten::batch_norm", values, Vec::new())?,
                    scale,
                    zero_point,
                    x.clone(),
                )
            }
            _ => return Err(self.failure(format!("`quantized::{name}` is not supported"))),
        };
        let y = if has_relu { self.relu(&y)? } else { y };
        let own = self.grid(&first);
        let dtype = match (&own, base) {
            (Some(grid), _) => grid.dtype,
            // Kernels of products reject any other type of activations (`qlinear.cpp`, `qconv.cpp`).
            (None, "linear" | "conv1d" | "conv2d" | "conv3d") => QUINT8,
            (None, _) => {
                let what = format!("`quantized::{name}` of a tensor whose element type is unknown");
                return Err(self.failure(what));
            }
        };
        let number = |value: &Value, own: Option<&Value>| match (value, own) {
            (Value::None, Some(own)) => own.clone(),
            (value, _) => value.clone(),
        };
        let scale = number(scale, own.as_ref().map(|grid| &grid.scale));
        let zero_point = number(zero_point, own.as_ref().map(|grid| &grid.zero_point));
        let scale = self.as_number(&scale, Type::Float)?;
        let zero_point = self.as_number(&zero_point, Type::Int)?;
        self.on_grid(&y, Grid { scale, zero_point, dtype })
    }

    fn relu(&mut self, x: &Value) -> Outcome {
        self.on_floats("aten::relu", vec![x.clone()], Vec::new())
    }

    /// Applies a convolution or product to floats.
    fn float_product(&mut self, kind: &str, x: &Value, packed: &Value) -> Outcome {
        let mut values =
            vec![x.clone(), self.field(packed, "weight")?, self.field(packed, "bias")?];
        if kind != "linear" {
            for name in ["stride", "padding", "dilation", "groups"] {
                values.push(self.field(packed, name)?);
            }
        }
        self.on_floats(&format!("aten::{kind}"), values, Vec::new())
    }

    /// Rounds floats to a grid of unsigned integers that their smallest and largest element determine.
    fn dynamic(&mut self, x: &Value, reduces: bool) -> Outcome {
        let name = self.variable(x)?;
        let most = if reduces { 127 } else { 255 };
        let dtype = lodstone_model::ValueType::Scalar(lodstone_model::DType::Uint8);
        let dtype = AttributeValue::Type(Box::new(dtype));
        let arguments = vec![
            ("input".to_owned(), Argument::Values(vec![name.to_string()])),
            ("quant_min".to_owned(), longs(0)),
            ("quant_max".to_owned(), longs(most)),
            ("eps".to_owned(), Argument::Constant(AttributeValue::Double(f64::from(f32::EPSILON)))),
            ("dtype".to_owned(), Argument::Constant(dtype)),
        ];
        let schema =
            lodstone_schema::torch::operator("quantized_decomposed::choose_qparams.tensor");
        let schema = schema.ok_or_else(|| self.failure("an operator is missing"))?;
        let Value::Tuple(numbers) = self.emit(schema, arguments, None)? else {
            return Err(self.failure("numbers were lost"));
        };
        let [Value::Tensor(scale), Value::Tensor(zero_point)] = &*numbers else {
            return Err(self.failure("numbers were lost"));
        };
        let arguments = vec![
            ("self".to_owned(), Argument::Values(vec![name.to_string()])),
            ("scale".to_owned(), Argument::Values(vec![scale.to_string()])),
            ("zero_point".to_owned(), Argument::Values(vec![zero_point.to_string()])),
            ("quant_min".to_owned(), longs(0)),
            ("quant_max".to_owned(), longs(most)),
        ];
        self.simple("aten::fake_quantize_per_tensor_affine.tensor_qparams", arguments, None)
    }
}
