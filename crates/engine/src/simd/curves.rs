//! Functions of single numbers without branches, which the compiler turns into vectors. They are computed in double precision
//! and rounded, so nearly all results are the nearest numbers, and the same on every processor.

/// Returns `2^n` and `exp(r) - 1`, whose relative error is at most 6e-12, for `x = n ln(2) + r`.
#[inline(always)]
fn exponential(x: f64) -> (f64, f64) {
    const FACTORS: [f64; 7] = [
        2.479_628_011_684_150_4e-5,
        1.990_612_337_421_268e-4,
        1.388_898_899_140_529e-3,
        8.333_287_349_800_617e-3,
        4.166_666_591_123_526e-2,
        1.666_666_675_922_807_2e-1,
        5.000_000_000_113_581e-1,
    ];
    // Adding it leaves the nearest integer in the last bits.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    // Beyond these, results are outside of single precision. NaN remains.
    let x = if x < -700.0 { -700.0 } else { x };
    let x = if x > 700.0 { 700.0 } else { x };
    let shifted = x * std::f64::consts::LOG2_E + SHIFT;
    let rest = x - (shifted - SHIFT) * std::f64::consts::LN_2;
    let series = FACTORS.iter().fold(0.0, |sum, factor| sum * rest + factor);
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    (power, rest + rest * rest * series)
}

/// The exponential function.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "rounds")]
pub(crate) fn exp(x: f32) -> f32 {
    let (power, series) = exponential(x.into());
    (power + power * series) as f32
}

/// The hyperbolic tangent.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "rounds")]
pub(crate) fn tanh(x: f32) -> f32 {
    let (power, series) = exponential(2.0 * f64::from(x));
    let less = (power - 1.0) + power * series;
    ((less / (less + 2.0)) as f32).copysign(x)
}

/// The logistic function.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "rounds")]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let (power, series) = exponential(-f64::from(x));
    (1.0 / (1.0 + power + power * series)) as f32
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
            ("exp", exp, f64::exp, 0.501),
            ("tanh", tanh, f64::tanh, 0.501),
            ("sigmoid", sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 0.501),
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
