//! Padding of axes.

use super::Made;
use crate::onnx::{Graph, Size, Value, text};

/// What is added around the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// A number.
    Constant,
    /// The elements next to the first and the last one, in reverse.
    Reflect,
    /// The first and the last element.
    Edge,
    /// The elements of the other end.
    Wrap,
}

/// The numbers of elements that are added before and behind those of an axis; negative ones are cut off.
#[derive(Clone, Debug)]
pub(crate) struct Pad {
    pub(crate) axis: i64,
    pub(crate) begin: Size,
    pub(crate) end: Size,
}

impl Pad {
    /// Returns the padding of an axis by a pair of known sizes.
    pub(crate) const fn known(axis: i64, [begin, end]: [i64; 2]) -> Self {
        Self { axis, begin: Size::Known(begin), end: Size::Known(end) }
    }
}

impl Graph {
    /// Pads axes. Without a number, constants are 0.
    ///
    /// # Errors
    /// If more elements are reflected than the dim has besides the first one.
    pub(crate) fn padded(
        &mut self,
        x: &Value,
        pads: &[Pad],
        padding: Padding,
        number: Option<&Value>,
    ) -> Made {
        let mut is_none = true;
        for Pad { axis, begin, end } in pads {
            is_none &= (begin.known(), end.known()) == (Some(0), Some(0));
            let most = [begin, end].into_iter().filter_map(Size::known).max();
            // Of an unknown dim, the runtime checks it.
            if let (Padding::Reflect, Some(most @ 1..), Some(dim)) = (padding, most, x.size(*axis)?)
                && most >= dim
            {
                return Err(format!("a dim of {dim} cannot be reflected {most} times").into());
            }
        }
        if is_none {
            return Ok(x.clone());
        }
        let begins = pads.iter().map(|pad| pad.begin.clone());
        let sizes: Vec<Size> = begins.chain(pads.iter().map(|pad| pad.end.clone())).collect();
        let list = self.list_of(&sizes)?;
        let axes: Vec<i64> = pads.iter().map(|pad| pad.axis).collect();
        let is_whole = axes.iter().copied().eq(x.rank()?.numbers());
        let axes = (!is_whole).then(|| self.longs(&axes));
        let mode = match padding {
            Padding::Constant => "constant",
            Padding::Reflect => "reflect",
            Padding::Edge => "edge",
            Padding::Wrap => "wrap",
        };
        let mut inputs = vec![Some(x), Some(&list), number, axes.as_ref()];
        while inputs.pop_if(|input| input.is_none()).is_some() {}
        let [y] = self.emit_all("Pad", &inputs, [text("mode", mode)])?;
        Ok(y)
    }
}
