//! Patches of images: the elements under each window as a column, and sums of columns as images.
//!
//! A column has the elements of all channels, one channel after the other. The conventions of windows are those of
//! [`windows`](super::windows); where a window exceeds the padded image by less than a stride, frameworks
//! that divide as C does have a column, and others fail.

use lodstone_model::{Attribute, DType};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;

use super::bins::parted;
use super::sizes::Size;
use super::windows::{Rounding, Window, Windows, check_images, spatial_dims};
use super::{Graph, Value, ints};

type Outcome<T = Value> = Result<T, Finding>;

/// The maximum number of places along an axis that are stored.
const MAX_PLACES: i64 = 1 << 16;

/// The maximum number of elements of a window.
const MAX_TAPS: i64 = 1 << 16;

impl Graph {
    /// Returns the patches of images `[batch, channels, ..]`, as `[batch, channels * taps, patches]`. Windows over unknown dims
    /// may exceed the padded image by less than a stride.
    ///
    /// # Errors
    /// If the images have another number of spatial dims than the windows, or known dims that no window fits into.
    pub(crate) fn columns(&mut self, x: &Value, windows: &Windows) -> Outcome {
        check_images(x, windows.rank())?;
        if windows.size()? > MAX_TAPS {
            let found = windows.kernel();
            return Err(format!(
                "expected at most {MAX_TAPS} elements of a window, found {found:?}"
            )
            .into());
        }
        let pads = match spatial_dims(x) {
            Some(dims) => {
                windows.check_fit(&dims)?;
                windows.pads()
            }
            // Windows that exceed the image meet zeros.
            None => windows.whole_of_any(Rounding::Up).pads(),
        };
        let mut parts = self.pad_images(x, &pads, 0.0)?;
        let (mut taps, mut patches) = (self.size_of(x, 1)?, Size::Known(1));
        for (number, window) in windows.iter().enumerate() {
            let axis = length(number) + 2;
            let dim = self.size_of(x, axis)?;
            let count = self.window_count(window, &dim)?;
            let places = self.tap_places(window, &count)?;
            // Each axis becomes one of taps and one of windows.
            parts = self.gather(&parts, &places, axis + length(number))?;
            taps = self.product_of(&taps, &Size::Known(window.kernel()))?;
            patches = self.product_of(&patches, &count)?;
        }
        let parts = self.transpose(&parts, &parted(2, windows.rank()))?;
        let batch = self.size_of(x, 0)?;
        self.reshape_to(&parts, &[batch, taps, patches])
    }

    /// Adds the columns of windows up as images whose spatial dims are `size`.
    pub(crate) fn summed_columns(&mut self, x: &Value, size: &[i64], windows: &Windows) -> Outcome {
        let (size, kernel) = (self.longs(size), self.longs(&windows.kernel()));
        self.call("Col2Im", &[x, &size, &kernel], attributes(windows))
    }

    /// Returns the number of windows over a dim.
    fn window_count(&mut self, window: Window, dim: &Size) -> Outcome<Size> {
        let dim = match dim {
            Size::Known(dim) => return window.count(*dim, Rounding::Down).map(Size::Known),
            Size::Value(dim) => dim,
        };
        let (least, stride, one) =
            (self.long(window.least()), self.long(window.stride()), self.long(1));
        let room = self.sub(dim, &least)?;
        // Divides towards 0.
        let steps = self.div(&room, &stride)?;
        self.add(&steps, &one).map(Size::Value)
    }

    /// Returns the places of the elements of windows in a padded image, of shape `[taps, windows]`.
    fn tap_places(&mut self, window: Window, count: &Size) -> Outcome {
        let window = window.bare();
        let kernel = window.kernel();
        if let Size::Known(count) = count
            && kernel.checked_mul(*count).is_some_and(|all| all <= MAX_PLACES)
        {
            let of_tap = |tap| (0..*count).map(move |number| window.place(number, tap));
            let places: Vec<i64> = (0..kernel).flat_map(of_tap).collect();
            let places = self.longs(&places);
            return self.reshape(&places, &[kernel, *count]);
        }
        let count = self.scalar_of(count)?;
        let numbers = self.counting(&count, DType::Int64)?;
        let stride = self.long(window.stride());
        let begins = self.mul(&numbers, &stride)?;
        let taps: Vec<i64> = (0..kernel).map(|tap| window.place(0, tap)).collect();
        let taps = self.longs(&taps);
        let taps = self.unsqueeze(&taps, &[1])?;
        self.add(&taps, &begins)
    }
}

/// Returns the attributes of windows whose size is an operand.
fn attributes(windows: &Windows) -> [Attribute; 3] {
    let (strides, dilations) = (windows.strides(), windows.dilations());
    [ints("strides", &strides), ints("dilations", &dilations), windows.pads().attribute()]
}
