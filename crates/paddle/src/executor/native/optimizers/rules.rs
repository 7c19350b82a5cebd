//! The update rules of optimizers: new values from a parameter, its gradient and its accumulators.
//!
//! The second argument of a rule only determines the type in which it computes.

use lodstone_schema::paddle::Release;

use super::number::{Each, Number};
use super::{Call, Outcome, Rows, input};

/// The first release of PaddlePaddle with bias correction of epsilon as well.
const CORRECTED: Release = Release::new(2, 0);

/// `p - lr g`
pub(super) fn sgd<T: Each<1>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let lr: T = call.one("LearningRate")?;
    let state = call.compute(["Param"], Rows::Alone, |grad: T, [param]| [param - lr * grad])?;
    call.write::<T, 1>(state)
}

/// `v = mu v + g`, `p - lr v`; with Nesterov momentum, `p - lr (g + mu v)`.
pub(super) fn momentum<T: Each<2>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let (lr, mu): (T, T) = (call.one("LearningRate")?, call.float("mu")?);
    let decay: T = match call.text("regularization_method").as_str() {
        "l2_decay" => call.float("regularization_coeff")?,
        "" => T::ZERO,
        other => return Err(format!("unknown regularization `{other}`").into()),
    };
    let ahead = call.flag("use_nesterov");
    // Dense gradients are not scaled on CPUs.
    let factor = if call.has_rows()? { call.float("rescale_grad")? } else { T::ONE };
    let rule = |grad: T, [param, velocity]: [T; 2]| {
        let grad = factor * grad + decay * param;
        let velocity = velocity * mu + grad;
        let step = if ahead { grad + velocity * mu } else { velocity };
        [param - step * lr, velocity]
    };
    let state = call.compute(["Param", "Velocity"], Rows::Spread, rule)?;
    call.write::<T, 2>(state)
}

/// `m = m + g^2`, `p - lr g / (sqrt(m) + epsilon)`
pub(super) fn adagrad<T: Each<2>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let (lr, epsilon): (T, T) = (call.one("LearningRate")?, call.float("epsilon")?);
    let rule = |grad: T, [param, moment]: [T; 2]| {
        let moment = moment + grad * grad;
        [param - lr * grad / (moment.root() + epsilon), moment]
    };
    let state = call.compute(["Param", "Moment"], Rows::Alone, rule)?;
    call.write::<T, 2>(state)
}

/// `m = decay m + (1 - decay) g^2`, `p - lr g / (sqrt(m) + epsilon)`
pub(super) fn decayed_adagrad<T: Each<2>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let (lr, epsilon): (T, T) = (call.one("LearningRate")?, call.float("epsilon")?);
    let decay: T = call.float("decay")?;
    let rule = |grad: T, [param, moment]: [T; 2]| {
        let moment = decay * moment + (T::ONE - decay) * grad * grad;
        [param - lr * grad / (moment.root() + epsilon), moment]
    };
    let state = call.compute(["Param", "Moment"], Rows::Rejected, rule)?;
    call.write::<T, 2>(state)
}

/// `s = rho s + (1 - rho) g^2`, `d = g sqrt((u + epsilon) / (s + epsilon))`, `u = rho u + (1 - rho) d^2`, `p - lr d`. In
/// 1.x, there is no learning rate, and the parameter gets the step by the new `u`.
pub(super) fn adadelta<T: Each<3>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let (rho, epsilon): (T, T) = (call.float("rho")?, call.float("epsilon")?);
    let lr: T = match input(call.step, "LearningRate") {
        Ok(_) => call.one("LearningRate")?,
        Err(_) => T::ONE,
    };
    let (rest, is_older) = (T::ONE - rho, is_older(call));
    let rule = |grad: T, [param, square, update]: [T; 3]| {
        let square = rho * square + rest * grad * grad;
        let step = |update: T| ((update + epsilon) / (square + epsilon)).root() * grad;
        let first = step(update);
        let made = rho * update + rest * first * first;
        let taken = if is_older { step(made) } else { first };
        [param - lr * taken, square, made]
    };
    let slots = ["Param", "AvgSquaredGrad", "AvgSquaredUpdate"];
    let state = call.compute(slots, Rows::Rejected, rule)?;
    call.write::<T, 3>(state)
}

/// `m = b1 m + (1 - b1) g`, `n = max(|g|, b2 n + epsilon)`, `p - lr m / ((1 - b1^t) n)`
pub(super) fn adamax<T: Each<3>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let (lr, power): (T, T) = (call.one("LearningRate")?, call.one("Beta1Pow")?);
    let (one, two): (T, T) = (call.float("beta1")?, call.float("beta2")?);
    let epsilon: T = call.float("epsilon")?;
    let rate = lr / (T::ONE - power);
    let rule = |grad: T, [param, moment, norm]: [T; 3]| {
        let moment = one * moment + (T::ONE - one) * grad;
        let (size, norm) = (grad.size(), two * norm + epsilon);
        // NaN in the gradient reaches the norm.
        let norm = if norm >= size { norm } else { size };
        [param - rate * (moment / norm), moment, norm]
    };
    let state = call.compute(["Param", "Moment", "InfNorm"], Rows::Rejected, rule)?;
    call.write::<T, 3>(state)
}

/// `n = s + g^2`, `l = l + g - (n^-power - s^-power) p / lr`, and `p` minimizes the sum of `l p`, `p^2 n^-power / 2 lr` and
/// the penalties `l1 |p|` and `l2 p^2` (McMahan et al., 2013).
pub(super) fn ftrl<T: Each<3>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let lr: T = call.one("LearningRate")?;
    let least: T = T::nearest(1e-10);
    let (l1, l2): (T, T) = (call.float("l1")?, call.float("l2")?);
    let (l1, l2, power) = (l1 + least, l2 + least, call.float::<T>("lr_power")?);
    let is_root = power >= T::nearest(-0.5) && power <= T::nearest(-0.5);
    let raised = |value: T| if is_root { value.root() } else { value.power(T::ZERO - power) };
    let rule = |grad: T, [param, squares, linear]: [T; 3]| {
        let sum = squares + grad * grad;
        let linear = linear + grad - (raised(sum) - raised(squares)) / lr * param;
        let pull = if linear < T::ZERO { T::ZERO - l1 } else { l1 };
        let scale = raised(sum) / lr + (l2 + l2);
        let is_far = linear.size() > l1;
        [if is_far { (pull - linear) / scale } else { T::ZERO }, sum, linear]
    };
    let slots = ["Param", "SquaredAccumulator", "LinearAccumulator"];
    let state = call.compute(slots, Rows::Rejected, rule)?;
    call.write::<T, 3>(state)
}

/// `v = mu v + r (g + decay p)`, `p - v`, where the rate `r` of a parameter is proportional to its norm, and inversely to
/// that of its gradient (You et al., 2017).
pub(super) fn lars_momentum<T: Each<2>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let (lr, mu): (T, T) = (call.one("LearningRate")?, call.float("mu")?);
    let (share, decay): (T, T) = (call.float("lars_coeff")?, call.float("lars_weight_decay")?);
    let (epsilon, factor): (T, T) = (call.float("epsilon")?, call.float("rescale_grad")?);
    // The step is computed once the norm of the gradient is known, which is stored in place of the velocity.
    let kept = call.compute(["Param", "Velocity"], Rows::Rejected, |grad: T, [param, _]| {
        [param, factor * grad]
    })?;
    let ([param, _], [_, scaled]) = (&kept.old, &kept.new);
    let (length, of_grad) = (T::nearest(norm::<T>(param)), T::nearest(norm::<T>(scaled)));
    // Up to 1.x, also without weight decay.
    let adapts = is_older(call) || decay > T::ZERO;
    let rate = match adapts && length > T::ZERO && of_grad > T::ZERO {
        true => lr * share * length / (of_grad + decay * length + epsilon),
        false => lr,
    };
    let state =
        call.compute(["Param", "Velocity"], Rows::Rejected, |grad: T, [param, velocity]| {
            let velocity = velocity * mu + rate * (factor * grad + decay * param);
            [param - velocity, velocity]
        })?;
    call.write::<T, 2>(state)
}

/// `s = rho s + (1 - rho) g^2`, `m = mu m + lr g / sqrt(s + epsilon)`, `p - m`; if centered, the squared mean of
/// gradients is subtracted from `s` in the root.
pub(super) fn rmsprop<T: Each<3> + Each<4>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let (lr, epsilon): (T, T) = (call.one("LearningRate")?, call.float("epsilon")?);
    let (rho, mu): (T, T) = (call.float("decay")?, call.float("momentum")?);
    let rest = T::ONE - rho;
    if call.flag("centered") {
        let slots = ["Param", "MeanSquare", "Moment", "MeanGrad"];
        let rule = |grad: T, [param, square, moment, mean]: [T; 4]| {
            let square = rho * square + rest * grad * grad;
            let mean = rho * mean + rest * grad;
            let moment = mu * moment + lr * grad / (square - mean * mean + epsilon).root();
            [param - moment, square, moment, mean]
        };
        let state = call.compute(slots, Rows::Spread, rule)?;
        return call.write::<T, 4>(state);
    }
    let rule = |grad: T, [param, square, moment]: [T; 3]| {
        let square = rho * square + rest * grad * grad;
        let moment = mu * moment + lr * grad / (square + epsilon).root();
        [param - moment, square, moment]
    };
    let state = call.compute(["Param", "MeanSquare", "Moment"], Rows::Spread, rule)?;
    call.write::<T, 3>(state)
}

/// The parameter and its moments.
const MOMENTS: [&str; 3] = ["Param", "Moment1", "Moment2"];

/// The state of `adam` and similar rules.
struct Betas<T> {
    /// The decay of each moment.
    keep: [T; 2],
    /// The decays to the power of the steps so far.
    powers: [T; 2],
    epsilon: T,
}

impl<T: Number> Betas<T> {
    fn of(call: &Call<'_, '_>) -> Outcome<Self> {
        let keep = [call.number("Beta1Tensor", "beta1")?, call.number("Beta2Tensor", "beta2")?];
        let powers = [call.one("Beta1Pow")?, call.one("Beta2Pow")?];
        Ok(Self { keep, powers, epsilon: call.number("EpsilonTensor", "epsilon")? })
    }

    /// `m1 = b1 m1 + (1 - b1) g`, `m2 = b2 m2 + (1 - b2) g^2`
    fn moments(&self, grad: T, first: T, second: T) -> (T, T) {
        let [one, two] = self.keep;
        (one * first + (T::ONE - one) * grad, two * second + (T::ONE - two) * grad * grad)
    }

    /// Returns the powers of the next step.
    fn next(&self) -> [T; 2] {
        let ([one, two], [first, second]) = (self.keep, self.powers);
        [first * one, second * two]
    }

    /// Writes the powers of the next step, unless another operator updates them.
    fn write(&self, call: &mut Call<'_, '_>, counts: bool) -> Outcome {
        let [first, second] = if counts { self.next() } else { self.powers };
        call.write_one("Beta1Pow", first)?;
        call.write_one("Beta2Pow", second)
    }
}

/// The slots that are copied unchanged if a step is skipped.
const SKIPPED: [&str; 5] = ["Param", "Moment1", "Moment2", "Beta1Pow", "Beta2Pow"];

/// `p - lr m1 / (sqrt(m2) + epsilon)`, with bias correction of both moments.
pub(super) fn adam<T: Each<3>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    decoupled(call, T::ZERO, Rows::Alone)
}

/// Like `adam`, with decoupled weight decay, which is applied first.
pub(super) fn adamw<T: Each<3>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    let decay = match call.flag("with_decay") {
        true => call.float::<T>("lr_ratio")? * call.float("coeff")?,
        false => T::ZERO,
    };
    decoupled(call, decay, Rows::Rejected)
}

/// `decay` is the weight decay for a learning rate of 1.
fn decoupled<T: Each<3>>(call: &mut Call<'_, '_>, decay: T, rows: Rows) -> Outcome {
    if call.skips(&SKIPPED)? {
        return Ok(());
    }
    let lr: T = call.one("LearningRate")?;
    let betas = Betas::<T>::of(call)?;
    let counts = !call.flag("use_global_beta_pow");
    // For sparse gradients, the powers are updated in place before they are read.
    let powers = if counts && call.has_rows()? { betas.next() } else { betas.powers };
    let [first, second] = powers.map(|power| T::ONE - power);
    let rate = lr * (second.root() / first);
    let epsilon = match is_older(call) {
        true => betas.epsilon,
        false => betas.epsilon * second.root(),
    };
    let kept = T::ONE - lr * decay;
    let step = |epsilon: T, grad: T, [param, one, two]: [T; 3]| {
        let (one, two) = betas.moments(grad, one, two);
        [param * kept - rate * (one / (two.root() + epsilon)), one, two]
    };
    let is_lazy = call.flag("lazy_mode");
    // Missing rows use an epsilon without correction.
    let rest = |grad, old| if is_lazy { old } else { step(betas.epsilon, grad, old) };
    let state = call.compute_or(MOMENTS, rows, |grad, old| step(epsilon, grad, old), rest)?;
    call.write::<T, 3>(state)?;
    betas.write(call, counts)
}

/// Whether the program is of 1.x, which has less bias correction.
fn is_older(call: &Call<'_, '_>) -> bool {
    call.frame.release() < CORRECTED
}

/// Like `adam` with weight decay, and steps that are proportional to the norm of the parameter (You et al., 2020). Up to
/// 1.x, moments are not corrected, and other operators update the powers.
pub(super) fn lamb<T: Each<3>>(call: &mut Call<'_, '_>, _: T) -> Outcome {
    if call.skips(&SKIPPED)? {
        return Ok(());
    }
    let is_older = is_older(call);
    let lr: T = call.one("LearningRate")?;
    let decay: T = call.float("weight_decay")?;
    let betas = Betas::<T>::of(call)?;
    let [first, second] = betas.powers.map(|power| if is_older { T::ONE } else { T::ONE - power });
    // The step is stored in place of the parameter.
    let mut state = call.compute(MOMENTS, Rows::Spread, |grad: T, [param, one, two]| {
        let (one, two) = betas.moments(grad, one, two);
        let step = (one / first) / ((two / second).root() + betas.epsilon) + decay * param;
        [step, one, two]
    })?;
    let adapts = is_older || decay > T::ZERO || call.flag("always_adapt");
    let ([param, ..], [step, ..]) = (&state.old, &mut state.new);
    let (length, of_step) = (norm::<T>(param), norm::<T>(step));
    let ratio = if adapts && length > 0.0 && of_step > 0.0 { length / of_step } else { 1.0 };
    let rate = lr * T::nearest(ratio);
    for (place, param) in T::chunks_mut(step).iter_mut().zip(T::all(param)) {
        *place = (param - rate * T::read(*place)).bytes();
    }
    call.write::<T, 3>(state)?;
    betas.write(call, !is_older)
}

/// Returns the root of the sum of squares.
pub(super) fn norm<T: Number>(bytes: &[u8]) -> f64 {
    T::all(bytes).map(Into::into).map(|value: f64| value * value).sum::<f64>().sqrt()
}
