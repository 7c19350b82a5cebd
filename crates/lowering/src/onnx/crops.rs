//! What transposed convolutions of images of unknown dims cut off, where padding or sizes follow from these dims: ONNX's
//! operator then convolves without padding, and the result is sliced.
//!
//! | framework | what depends on the dims | by |
//! |---|---|---|
//! | PaddlePaddle, `output_size` | the elements that are added at the end, less than a stride of them | `ConvTransposeInferMeta` in `phi/infermeta/binary.cc`; recorded `conv2d_transpose-6` |
//! | PaddlePaddle, `SAME` | the padding, which is that of a convolution of the same image | `UpdatePadding` in `conv_util.h`; recorded `conv2d_transpose-9` |

use lodstone_schema::Finding;

use super::windows::{Padding, Window, Windows};
use super::{Graph, Size, Value};

type Outcome<T = Value> = Result<T, Finding>;

/// What a transposed convolution cuts off.
pub(crate) struct Crop {
    /// The padding of the spatial axes, which is cut off.
    pub(crate) padding: Padding,
    /// The sizes of the spatial axes, if they are declared; otherwise all but the padding remains.
    pub(crate) sizes: Option<Vec<i64>>,
}

impl Graph {
    /// Crops the transposed convolution `y` `[batch, channels, ..]` of images `x` by windows without padding.
    ///
    /// # Errors
    /// If the padding is negative.
    pub(crate) fn cropped_images(
        &mut self,
        y: &Value,
        x: &Value,
        windows: &Windows,
        crop: &Crop,
    ) -> Outcome {
        let axes: Vec<i64> = (2..).take(windows.rank()).collect();
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for ((place, window), axis) in windows.iter().enumerate().zip(&axes) {
            let [begin, end] = match &crop.padding {
                Padding::Same => self.same_of(x, *axis, window)?,
                Padding::Explicit(pads) => {
                    let pads = [pads.begins.get(place), pads.ends.get(place)];
                    let pads = pads.map(|pad| pad.copied().map(Size::Known));
                    let [Some(begin), Some(end)] = pads else {
                        return Err(Finding::internal("an axis has no padding"));
                    };
                    [begin, end]
                }
            };
            if let Some(pad) = [&begin, &end].iter().find_map(|it| it.known().filter(|it| *it < 0))
            {
                return Err(format!("expected padding of at least 0, found {pad}").into());
            }
            let stop = match &crop.sizes {
                Some(sizes) => {
                    let size = sizes.get(place).copied();
                    let size = size.ok_or_else(|| Finding::internal("an axis has no size"))?;
                    self.sum_of(&begin, &Size::Known(size))?
                }
                None => {
                    let size = self.size_of(y, *axis)?;
                    self.difference_of(&size, &end)?
                }
            };
            starts.push(begin);
            ends.push(stop);
        }
        let (starts, ends, axes) =
            (self.list_of(&starts)?, self.list_of(&ends)?, self.longs(&axes));
        let cropped = self.call("Slice", &[y, &starts, &ends, &axes], [])?;
        let Some(sizes) = &crop.sizes else { return Ok(cropped) };
        // The images have the declared sizes, or the runtime fails.
        let mut all = vec![self.size_of(y, 0)?, self.size_of(y, 1)?];
        all.extend(sizes.iter().copied().map(Size::Known));
        self.reshape_to(&cropped, &all)
    }

    /// Returns the padding of an axis for one window in each stride, the larger half at the end.
    fn same_of(&mut self, x: &Value, axis: i64, window: Window) -> Outcome<[Size; 2]> {
        let stride = window.stride();
        let dim = self.size_of(x, axis)?;
        let up = self.sum_of(&dim, &Size::Known(stride - 1))?;
        let count = self.quotient_of(&up, stride)?;
        // From the first element of the first window behind the last one.
        let reach = self.product_of(&count, &Size::Known(stride))?;
        let reach = self.sum_of(&reach, &Size::Known(window.least() - stride))?;
        let lack = self.difference_of(&reach, &dim)?;
        let total = self.at_least(&lack, 0)?;
        let begin = self.quotient_of(&total, 2)?;
        let end = self.difference_of(&total, &begin)?;
        Ok([begin, end])
    }
}
