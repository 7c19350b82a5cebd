//! PaddlePaddle 2.6.2: `phi/kernels/cpu/interpolate_kernel.cc` and `interpolate_grad_kernel.cc`.

use lodstone_model::{AttributeValue, Tensor};

use super::{
    Draw, Random, Single, Taps, applied, cubic, floats, image, ints, linear, nearest, text,
};

pub(super) const DRAWS: &[(&str, Draw)] = &[
    ("nearest", |random| forward(random, "nearest")),
    ("linear", |random| forward(random, "linear")),
    ("cubic", |random| forward(random, "cubic")),
    ("nearest_grad", |random| backward(random, "nearest")),
    ("linear_grad", |random| backward(random, "linear")),
    ("cubic_grad", |random| backward(random, "cubic")),
];

/// Dims and sizes of which a place is another one in exact arithmetic, or divided by the inverse of the ratio: the first three
/// without corners, the others with them.
const ROUNDED: [(usize, usize); 8] =
    [(14, 2), (26, 22), (39, 33), (14, 23), (28, 39), (32, 15), (32, 29), (36, 31)];

/// How an image is resized.
struct Resized {
    mode: &'static str,
    name: &'static str,
    /// Whether the operator is that of 1.x.
    is_first: bool,
    dims: Vec<usize>,
    sizes: Vec<usize>,
    /// The scales, if there are any, from which the sizes follow.
    scales: Vec<f32>,
    corners: bool,
    align_mode: usize,
    inputs: Vec<(&'static str, Tensor)>,
    attributes: Vec<(&'static str, AttributeValue)>,
}

impl Resized {
    fn drawn(random: &mut Random, mode: &'static str) -> Option<Self> {
        let is_first = mode != "cubic" && random.size(0, 3) == 0;
        let spatial = match mode {
            "linear" if !is_first => random.size(1, 3),
            _ => 2,
        };
        let mut dims = image(random, spatial);
        let (corners, align_mode) = (random.flag(), random.size(0, 1));
        let name = match (mode, spatial) {
            ("linear", 1) => "linear",
            ("linear", 2) => "bilinear",
            ("linear", _) => "trilinear",
            ("cubic", _) => "bicubic",
            _ => "nearest",
        };
        let attributes = vec![
            ("interp_method", text(name)),
            ("align_corners", AttributeValue::Bool(corners)),
            ("align_mode", AttributeValue::Int(align_mode as i32)),
        ];
        let size = |random: &mut Random, dim: usize| match random.size(0, 4) {
            0 => dim,
            _ => random.size(1, 14),
        };
        let mut sizes: Vec<usize> = dims[2..].iter().map(|dim| size(random, *dim)).collect();
        if mode == "nearest" && random.size(0, 3) == 0 {
            (dims[3], sizes[1]) = random.pick(&ROUNDED);
        }
        let (scales, inputs) = (Vec::new(), Vec::new());
        let mut all = Self {
            mode,
            name,
            is_first,
            dims,
            sizes,
            scales,
            corners,
            align_mode,
            inputs,
            attributes,
        };
        if random.flag() {
            all.scale(random)
        } else {
            all.size(random)
        }
        (!all.sizes.contains(&0)).then_some(all)
    }

    /// Gives the sizes as attributes, as a tensor, or as a list of tensors.
    fn size(&mut self, random: &mut Random) {
        let sizes: Vec<i32> = self.sizes.iter().map(|size| *size as i32).collect();
        let names = &["out_d", "out_h", "out_w"][3 - sizes.len()..];
        match random.size(0, 2) {
            0 => self.inputs.push(("OutSize", ints(&sizes))),
            1 => self.inputs.extend(sizes.iter().map(|size| ("SizeTensor", ints(&[*size])))),
            _ => {
                let sizes = names.iter().zip(&sizes);
                self.attributes.extend(sizes.map(|(name, it)| (*name, AttributeValue::Int(*it))));
            }
        }
    }

    /// Draws scales, and gives them as an attribute or as a tensor.
    fn scale(&mut self, random: &mut Random) {
        let one = random.real(0.2, 3.2) as f32;
        let is_given = random.flag();
        let is_one = self.is_first || is_given && random.flag();
        let mut scale = |_| if is_one { one } else { random.real(0.2, 3.2) as f32 };
        self.scales = (0..self.sizes.len()).map(&mut scale).collect();
        let scaled = self.dims[2..].iter().zip(&self.scales);
        self.sizes = scaled.map(|(dim, scale)| (*dim as f32 * scale) as usize).collect();
        if is_given {
            let given = if is_one { &self.scales[..1] } else { &self.scales[..] };
            self.inputs.push(("Scale", floats(given, &[given.len()])));
        } else {
            self.attributes.push(match self.is_first {
                true => ("scale", AttributeValue::Float(one)),
                false => ("scale", AttributeValue::Floats(self.scales.clone())),
            });
        }
    }

    /// Returns the elements along an axis of which each result is made. An image that keeps its sizes is copied.
    fn line(&self, axis: usize) -> Taps {
        let (from, to) = (self.dims[axis + 2], self.sizes[axis]);
        if self.sizes == self.dims[2..] {
            return nearest(from, to, |at| at);
        }
        let ratio = match self.scales.get(axis).filter(|_| !self.is_first) {
            _ if to == 1 => 0.0,
            _ if self.corners => (from as f32 - 1.0) / (to as f32 - 1.0),
            Some(scale) => (1.0 / f64::from(*scale)) as f32,
            None => from as f32 / to as f32,
        };
        let half = move |at: usize| f64::from(ratio) * (at as f64 + 0.5) - 0.5;
        let plain = move |at: usize| f64::from(ratio) * at as f64;
        match self.mode {
            "nearest" if self.corners => {
                nearest(from, to, |at| (f64::from(ratio * at as f32) + 0.5) as usize)
            }
            "nearest" => nearest(from, to, |at| (ratio * at as f32) as usize),
            "linear" if !self.corners && self.align_mode == 0 => linear(from, to, half),
            "linear" => linear(from, to, plain),
            _ if self.corners => cubic(from, to, plain),
            _ => cubic(from, to, half),
        }
    }

    fn kind(&self, end: &str) -> String {
        let version = if self.is_first { "" } else { "_v2" };
        format!("{}_interp{version}{end}", self.name)
    }
}

fn forward(random: &mut Random, mode: &'static str) -> Option<(Single, Tensor)> {
    let resized = Resized::drawn(random, mode)?;
    let x = random.tensor(&resized.dims);
    let lines: Vec<Taps> = (0..resized.sizes.len()).map(|axis| resized.line(axis)).collect();
    let (expected, kind) = (applied(&x, &lines), resized.kind(""));
    let inputs = [vec![("X", x)], resized.inputs].concat();
    let single = Single::new(kind, inputs, resized.attributes, vec!["Out"]);
    Some((Single { is_dynamic: random.size(0, 3) == 0, ..single }, expected))
}

/// An element gets the gradients of the results that it is part of, each with its weight there.
fn backward(random: &mut Random, mode: &'static str) -> Option<(Single, Tensor)> {
    let resized = Resized::drawn(random, mode)?;
    let x = random.tensor(&resized.dims);
    let given = random.tensor(&[&resized.dims[..2], &resized.sizes].concat());
    let line = |axis: usize| {
        let mut taps: Taps = vec![Vec::new(); resized.dims[axis + 2]];
        for (at, places) in resized.line(axis).iter().enumerate() {
            places.iter().for_each(|(place, weight)| taps[*place].push((at, *weight)));
        }
        taps
    };
    let lines: Vec<Taps> = (0..resized.sizes.len()).map(line).collect();
    let (expected, kind) = (applied(&given, &lines), resized.kind("_grad"));
    let inputs = [vec![("X", x), ("Out@GRAD", given)], resized.inputs].concat();
    Some((Single::new(kind, inputs, resized.attributes, vec!["X@GRAD"]), expected))
}
