//! Functions of single numbers without branches, which the compiler turns into vectors. They are as accurate as those of
//! the standard library, to one or two units in the last place, and give the same bits on every processor.

/// The exponential function: `2^n exp(r)`, with a polynomial of minimal relative error (4e-9) for `r` up to `ln(2) / 2`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const FACTORS: [f32; 7] =
        [1.381_314_5e-3, 8.369_419e-3, 4.166_845_6e-2, 1.666_651_5e-1, 4.999_999_4e-1, 1.0, 1.0];
    // The natural logarithm of 2 as a sum: the product of the first part with `n` is exact.
    const LN_2: [f32; 2] = [0.693_359_375, -2.121_944_4e-4];
    // Adding it leaves the nearest integer in the last bits.
    const SHIFT: f32 = 12_582_912.0;
    // Beyond these, the result is 0 or infinite. NaN remains.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let power = shifted - SHIFT;
    let [whole, part] = LN_2;
    let rest = (x - power * whole) - power * part;
    let series = FACTORS.iter().fold(0.0, |sum, factor| sum * rest + factor);
    let power = shifted.to_bits().wrapping_sub(SHIFT.to_bits()).cast_signed();
    // Two factors: `2^n` alone may be outside of the range of numbers.
    let half = power >> 1;
    let two_to = |power: i32| f32::from_bits((power.wrapping_add(127) << 23).cast_unsigned());
    series * two_to(half) * two_to(power.wrapping_sub(half))
}

/// The hyperbolic tangent: a polynomial of minimal relative error (2e-10) for small numbers.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    const FACTORS: [f32; 6] = [
        2.142_961_8e-3,
        -8.177_398e-3,
        2.170_070_3e-2,
        -5.394_676_3e-2,
        1.333_320_6e-1,
        -3.333_333e-1,
    ];
    let square = x * x;
    let series = FACTORS.iter().fold(0.0, |sum, factor| sum * square + factor);
    let large = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    let size = if x.abs() < 0.625 { x + x * square * series } else { large };
    size.copysign(x)
}

/// The logistic function, of numbers whose exponential does not overflow.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let small = exp(-x.abs());
    let above = if x >= 0.0 { 1.0 } else { small };
    above / (1.0 + small)
}

/// The error function: a rational approximation in the square, of minimal relative error up to 4 (2e-9; 4e-7 with the
/// rounding of single precision).
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    const ABOVE: [f32; 7] = [
        -1.320_196_2e-8,
        4.684_689e-6,
        3.796_077_9e-4,
        3.849_706_4e-3,
        5.431_718e-2,
        1.852_057_6e-1,
        std::f32::consts::FRAC_2_SQRT_PI,
    ];
    const BELOW: [f32; 6] =
        [6.310_975e-5, 1.307_587_7e-3, 1.546_227_6e-2, 1.139_594e-1, 4.974_677_6e-1, 1.0];
    let square = x * x;
    let above = ABOVE.iter().fold(0.0, |sum, factor| sum * square + factor);
    let below = BELOW.iter().fold(0.0, |sum, factor| sum * square + factor);
    // From here on, the nearest single-precision value is 1.
    if square > 3.92 * 3.92 { 1.0_f32.copysign(x) } else { (x * above / below).clamp(-1.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::{exp, sigmoid, tanh};

    /// The distance between neighboring numbers in single precision.
    fn unit(value: f64) -> f64 {
        let power = value.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
        (power - 23.0).exp2()
    }

    #[test]
    fn curves_are_accurate_for_all_numbers() {
        type Curve = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f64);
        let curves: [Curve; 3] = [
            ("exp", exp, f64::exp, 1.25),
            ("tanh", tanh, f64::tanh, 2.0),
            ("sigmoid", sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 2.5),
        ];
        for (name, curve, expected, most) in curves {
            let mut worst = (0.0, 0.0);
            for x in (0..=u32::MAX).step_by(1021).map(f32::from_bits).filter(|x| !x.is_nan()) {
                let (found, expected) = (f64::from(curve(x)), expected(f64::from(x)));
                if expected > f64::from(f32::MAX) {
                    assert!(found.is_infinite(), "{name}({x}) is {found}");
                } else {
                    let error = (found - expected).abs() / unit(expected);
                    if error > worst.0 {
                        worst = (error, x);
                    }
                }
            }
            assert!(worst.0 <= most, "{name}({}) is off by {} units", worst.1, worst.0);
            for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0] {
                #[expect(clippy::cast_possible_truncation, reason = "special values are exact")]
                let expected = expected(f64::from(special)) as f32;
                let found = curve(special);
                assert!(
                    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                    "{name}({special}) is {found}"
                );
            }
        }
    }
}
