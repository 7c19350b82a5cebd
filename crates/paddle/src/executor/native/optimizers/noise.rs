//! `dpsgd`: gradient descent with differential privacy (Abadi et al., 2016).

use lodstone_model::AttributeValue;
use lodstone_schema::paddle::attribute;

use super::super::random::normal;
use super::number::{Each, Number};
use super::rules::norm;
use super::{Call, Outcome, Rows};

/// The multiplier and the modulus of the generator (Park, Miller and Stockmeyer, 1993).
const MULTIPLIER: u64 = 48_271;
const MODULUS: u64 = (1 << 31) - 1;

/// `p - lr (g / scale + noise / batch_size)`: `scale` reduces the norm of the gradient to `clip` if it is larger, and all
/// elements get the same noise.
///
/// With a seed, the noise is the same in each step, as in PaddlePaddle. Without one, PaddlePaddle seeds its generator by
/// the time; here, the noise is drawn from the generator of the scope, so that a run can be repeated and resumed.
pub(super) fn dpsgd<T: Each<1>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let lr: T = call.one("LearningRate")?;
    let (clip, batch): (T, T) = (call.float("clip")?, call.float("batch_size")?);
    let sigma: f64 = call.float("sigma")?;
    let grads = call.compute(["Param"], Rows::Rejected, |grad: T, _| [grad])?;
    let [grads] = &grads.new;
    let length = T::nearest(norm::<T>(grads));
    let scale = if length > clip { length / clip } else { T::ONE };
    let noise = match attribute(call.op, "seed") {
        None | Some(AttributeValue::Int(0)) => {
            let [noise, _] = normal(&mut call.frame.random);
            noise
        }
        Some(AttributeValue::Int(seed)) => seeded::<T>(seed.cast_unsigned()),
        _ => return Err("expected an integer as `seed`".into()),
    };
    let noise = T::nearest(noise * sigma) / batch;
    let rule = |grad: T, [param]: [T; 1]| [param - lr * (grad / scale + noise)];
    let state = call.compute(["Param"], Rows::Rejected, rule)?;
    call.write::<T, 1>(state)
}

/// Returns the first normal value of PaddlePaddle's generator, by Marsaglia's method in single precision.
fn seeded<T: Number>(seed: u32) -> f64 {
    let mut state = u64::from(seed) % MODULUS;
    state = state.max(1);
    let mut next = || {
        state = state * MULTIPLIER % MODULUS;
        state - 1
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "PaddlePaddle rounds to single precision"
    )]
    let mut share = || {
        let range = (MODULUS - 1) as f64;
        if size_of::<T>() == size_of::<f32>() {
            return ((next() as f32) / range as f32).min(1.0_f32.next_down());
        }
        // Two numbers for a value in double precision.
        let (low, high) = (next() as f64, next() as f64);
        ((low + high * range) / (range * range)) as f32
    };
    loop {
        let [first, second] = [share(), share()].map(|share| 2.0 * share - 1.0);
        let square = first * first + second * second;
        if square > 0.0 && square < 1.0 {
            let square = f64::from(square);
            return f64::from(first) * (-2.0 * square.ln() / square).sqrt();
        }
    }
}
