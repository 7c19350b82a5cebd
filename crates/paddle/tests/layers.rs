//! Layers and control flow build the same programs as PaddlePaddle 2.6.2: the same
//! operators, slots, attributes, variables, and the same startup program (`golden/make_paddle_layers.py`).

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use crate::support::{compare, recorded, singles};
use lodstone_model::DType;
use lodstone_paddle::program::layers::{self, Conv2d, Fc, Pooling};
use lodstone_paddle::program::{Initializer, Network, ParamAttr, Result, Variable};

type Made = Result<Vec<Variable>>;
type Case = (&'static str, fn(&mut Network) -> Made);

/// Expected differences: a case, a part of its difference, and the reason.
const EXPECTED: &[(&str, &str, &str)] = &[
    ("batch_norm", "`batch_norm_0.w_1`", STATISTICS),
    ("batch_norm", "`batch_norm_0.w_2`", STATISTICS),
    ("batch_norm_tests", "`batch_norm_0.w_1`", STATISTICS),
    ("batch_norm_tests", "`batch_norm_0.w_2`", STATISTICS),
    ("batch_norm", "`batch_norm_0.tmp_2`", "a processor reserves nothing: it is said to be empty"),
    ("batch_norm_tests", "`batch_norm_0.tmp_0`", "PaddlePaddle says no dims of what it saves then"),
    ("batch_norm_tests", "`batch_norm_0.tmp_1`", "PaddlePaddle says no dims of what it saves then"),
    ("accuracy", "`accuracy_0.tmp_2`", "PaddlePaddle says float32, and counts in int32"),
    ("accuracy", "`accuracy_0.tmp_3`", "PaddlePaddle says float32, and counts in int32"),
    ("reshape", "`reshape2_0.tmp_1`", "PaddlePaddle does not work out what -1 is"),
];

const STATISTICS: &str =
    "what is not trained is no parameter here; PaddlePaddle says that it is one";

const CASES: &[Case] = &[
    ("data_of_sequences", |net| {
        Ok(vec![layers::sequence_data(net, "words", &[None, Some(1)], DType::Int64, 1)])
    }),
    ("fc", |net| {
        let x = rows(net);
        one(layers::fc(net, &x, &Fc::new(4)))
    }),
    ("fc_relu", |net| {
        let x = rows(net);
        one(layers::fc(net, &x, &Fc::new(4).act("relu")))
    }),
    ("fc_flattened", |net| {
        let x = floats(net, "x", &[None, Some(3), Some(5), Some(2)]);
        one(layers::fc(net, &x, &Fc { num_flatten_dims: 2, bias: None, ..Fc::new(4) }))
    }),
    ("fc_from_given", |net| {
        let x = rows(net);
        let given = singles(&[6, 2], &[0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.]);
        let weight =
            ParamAttr { initializer: Some(Initializer::Given(given)), ..ParamAttr::named("w") };
        let bias =
            ParamAttr { initializer: Some(Initializer::Constant(0.1)), ..ParamAttr::default() };
        one(layers::fc(net, &x, &Fc { weight, bias: Some(bias), ..Fc::new(2) }))
    }),
    ("conv2d", |net| {
        let x = images(net);
        one(layers::conv2d(net, &x, &Conv2d::new(6, 3)))
    }),
    ("conv2d_in_groups", |net| {
        let x = images(net);
        let conv = Conv2d {
            filter_size: [3, 2],
            stride: [2, 2],
            padding: [1, 2],
            dilation: [2, 1],
            groups: 2,
            act: Some("relu"),
            ..Conv2d::new(6, 3)
        };
        one(layers::conv2d(net, &x, &conv))
    }),
    ("conv2d_by_channel", |net| {
        let x = images(net);
        one(layers::conv2d(net, &x, &Conv2d { groups: 4, bias: None, ..Conv2d::new(8, 3) }))
    }),
    ("pool2d_max", |net| {
        let x = images(net);
        one(layers::pool2d(net, &x, Pooling::Max, [2, 2], [2, 2], [0, 0]))
    }),
    ("pool2d_avg", |net| {
        let x = images(net);
        one(layers::pool2d(net, &x, Pooling::Avg, [3, 2], [2, 1], [1, 1]))
    }),
    ("pool2d_global", |net| {
        let x = images(net);
        one(layers::adaptive_pool2d(net, &x, Pooling::Avg, [1, 1]))
    }),
    ("batch_norm", |net| {
        let x = images(net);
        one(layers::batch_norm(net, &x, false))
    }),
    ("batch_norm_tests", |net| {
        let x = images(net);
        one(layers::batch_norm(net, &x, true))
    }),
    ("layer_norm", |net| {
        let x = floats(net, "x", &[None, Some(3), Some(4)]);
        one(layers::layer_norm(net, &x, 1))
    }),
    ("layer_norm_of_the_last", |net| {
        let x = floats(net, "x", &[None, Some(3), Some(4)]);
        one(layers::layer_norm(net, &x, 2))
    }),
    ("embedding", |net| {
        let ids = layers::data(net, "ids", &[None, Some(3)], DType::Int64);
        one(layers::embedding(net, &ids, [10, 4], None))
    }),
    ("embedding_padded", |net| {
        let ids = layers::data(net, "ids", &[None, Some(3)], DType::Int64);
        one(layers::embedding(net, &ids, [10, 4], Some(2)))
    }),
    ("dropout", |net| {
        let x = rows(net);
        one(layers::dropout(net, &x, 0.25, false))
    }),
    ("dropout_tests", |net| {
        let x = rows(net);
        one(layers::dropout(net, &x, 0.25, true))
    }),
    ("cross_entropy", |net| {
        let (shares, label) = labelled(net, "shares");
        one(layers::cross_entropy(net, &shares, &label))
    }),
    ("cross_entropy_of_shares", |net| {
        let shares = floats(net, "shares", &[None, Some(10)]);
        let label = floats(net, "label", &[None, Some(10)]);
        one(layers::soft_cross_entropy(net, &shares, &label))
    }),
    ("softmax_with_cross_entropy", |net| {
        let (logits, label) = labelled(net, "logits");
        one(layers::softmax_with_cross_entropy(net, &logits, &label))
    }),
    ("square_error_cost", |net| {
        let (x, y) = two(net);
        one(layers::square_error_cost(net, &x, &y))
    }),
    ("accuracy", |net| {
        let (shares, label) = labelled(net, "shares");
        one(layers::accuracy(net, &shares, &label, 2))
    }),
    ("softmax", |net| unary(net, layers::softmax)),
    ("relu", |net| unary(net, layers::relu)),
    ("gelu", |net| unary(net, layers::gelu)),
    ("tanh", |net| unary(net, layers::tanh)),
    ("sigmoid", |net| unary(net, layers::sigmoid)),
    ("mean", |net| unary(net, layers::mean)),
    ("square", |net| unary(net, layers::square)),
    ("reshape", |net| {
        let x = images(net);
        one(layers::reshape(net, &x, &[0, 4, -1]))
    }),
    ("concat", |net| {
        let (x, y) = (rows(net), floats(net, "y", &[None, Some(3)]));
        one(layers::concat(net, &[&x, &y], 1))
    }),
    ("matmul", |net| {
        let x = floats(net, "x", &[Some(2), Some(3), Some(4)]);
        let y = floats(net, "y", &[Some(2), Some(5), Some(4)]);
        one(layers::matmul(net, &x, &y, [false, true]))
    }),
    ("elementwise_add", |net| elementwise(net, "add")),
    ("elementwise_sub", |net| elementwise(net, "sub")),
    ("elementwise_mul", |net| elementwise(net, "mul")),
    ("elementwise_div", |net| elementwise(net, "div")),
    ("elementwise_max", |net| elementwise(net, "max")),
    ("elementwise_min", |net| elementwise(net, "min")),
    ("elementwise_pow", |net| elementwise(net, "pow")),
    ("reduce_sum", |net| reduce(net, "sum", &[1, 2])),
    ("reduce_sum_all", |net| reduce(net, "sum", &[])),
    ("reduce_mean", |net| reduce(net, "mean", &[1, 2])),
    ("reduce_mean_all", |net| reduce(net, "mean", &[])),
    ("reduce_max", |net| reduce(net, "max", &[1, 2])),
    ("reduce_max_all", |net| reduce(net, "max", &[])),
    ("reduce_min", |net| reduce(net, "min", &[1, 2])),
    ("reduce_min_all", |net| reduce(net, "min", &[])),
    ("reduce_prod", |net| reduce(net, "prod", &[1, 2])),
    ("reduce_prod_all", |net| reduce(net, "prod", &[])),
    ("fill_constant", |net| {
        let x = layers::fill_constant(net, &[2, 3], DType::Float32, 1.5)?;
        Ok(vec![x, number(net, 7.0)?])
    }),
    ("compare", |net| {
        let (x, y) = two(net);
        Ok(vec![
            layers::less_than(net, &x, &y)?,
            layers::less_equal(net, &x, &y)?,
            layers::greater_than(net, &x, &y)?,
            layers::greater_equal(net, &x, &y)?,
            layers::equal(net, &x, &y)?,
            layers::not_equal(net, &x, &y)?,
        ])
    }),
    ("logical", |net| {
        let [x, y] = ["x", "y"].map(|name| layers::data(net, name, &[None, Some(6)], DType::Bool));
        Ok(vec![
            layers::logical_and(net, &x, &y)?,
            layers::logical_or(net, &x, &y)?,
            layers::logical_not(net, &x)?,
            layers::logical_xor(net, &x, &y)?,
        ])
    }),
    ("increments_and_assigns", |net| {
        let count = number(net, 1.0)?;
        layers::increment(net, &count, 2.0)?;
        let copy = layers::assign(net, &count)?;
        let cast = layers::cast(net, &count, DType::Int64)?;
        layers::assign_to(net, &cast, &count)?;
        Ok(vec![copy, count])
    }),
    ("while_block", |net| {
        let (count, limit) = (number(net, 0.0)?, number(net, 5.0)?);
        let total = layers::fill_constant(net, &[1, 6], DType::Float32, 0.0)?;
        let x = floats(net, "x", &[Some(1), Some(6)]);
        let condition = layers::less_than(net, &count, &limit)?;
        net.while_loop(&condition, |net| {
            let twice = layers::scale(net, &x, 2.0, 0.0)?;
            let sum = layers::elementwise(net, "add", &total, &twice, -1)?;
            layers::assign_to(net, &sum, &total)?;
            layers::increment(net, &count, 1.0)?;
            let again = layers::less_than(net, &count, &limit)?;
            layers::assign_to(net, &again, &condition)
        })?;
        Ok(vec![total])
    }),
    ("while_loop", |net| {
        let x = floats(net, "x", &[Some(1), Some(6)]);
        let vars = [number(net, 0.0)?, x];
        let grows = |net: &mut Network, vars: &[Variable]| {
            let limit = number(net, 3.0)?;
            layers::less_than(net, &vars[0], &limit)
        };
        layers::while_loop(net, &vars, true, grows, |net, vars| {
            let step = number(net, 1.0)?;
            let count = layers::elementwise(net, "add", &vars[0], &step, -1)?;
            Ok(vec![count, layers::fc(net, &vars[1], &Fc::new(6))?])
        })?;
        Ok(vars.to_vec())
    }),
    ("arrays", |net| {
        let (x, first) = (rows(net), number(net, 0.0)?);
        let array = layers::create_array(net, DType::Float32)?;
        layers::array_write(net, &x, &first, &array)?;
        let limit = number(net, 4.0)?;
        let grows = |net: &mut Network, vars: &[Variable]| layers::less_than(net, &vars[0], &limit);
        layers::while_loop(net, std::slice::from_ref(&first), false, grows, |net, vars| {
            let last = layers::array_read(net, &array, &vars[0])?;
            layers::increment(net, &vars[0], 1.0)?;
            let next = layers::relu(net, &last)?;
            layers::array_write(net, &next, &vars[0], &array)?;
            Ok(vars.to_vec())
        })?;
        Ok(vec![layers::array_length(net, &array)?, layers::array_read(net, &array, &first)?])
    }),
    ("cond", |net| {
        let (x, y) = (rows(net), floats(net, "y", &[Some(1)]));
        let zero = layers::fill_constant(net, &[1], DType::Float32, 0.0)?;
        let positive = layers::greater_than(net, &y, &zero)?;
        layers::cond(
            net,
            &positive,
            |net| Ok(vec![layers::fc(net, &x, &Fc::new(3))?, layers::scale(net, &x, 2.0, 0.0)?]),
            |net| Ok(vec![layers::fc(net, &x, &Fc::new(3).act("tanh"))?, x.clone()]),
        )
    }),
    ("cond_that_writes", |net| {
        rows(net);
        let total = layers::fill_constant(net, &[1], DType::Float32, 0.0)?;
        let zero = layers::fill_constant(net, &[1], DType::Float32, 0.0)?;
        let positive = layers::greater_than(net, &total, &zero)?;
        net.conditional_block(&positive, |net| {
            let more = layers::scale(net, &total, 3.0, 0.0)?;
            layers::assign_to(net, &more, &total)
        })?;
        Ok(vec![total])
    }),
    ("cond_in_a_loop", |net| {
        let (count, limit) = (number(net, 0.0)?, number(net, 6.0)?);
        let (total, half) = (number(net, 0.0)?, number(net, 3.0)?);
        let grows = |net: &mut Network, vars: &[Variable]| layers::less_than(net, &vars[0], &limit);
        let vars = [count, total];
        layers::while_loop(net, &vars, false, grows, |net, vars| {
            let [count, total] = [0, 1].map(|number| &vars[number]);
            let small = layers::less_than(net, count, &half)?;
            let step = layers::cond(
                net,
                &small,
                |net| Ok(vec![layers::elementwise(net, "add", total, count, -1)?]),
                |net| Ok(vec![layers::elementwise(net, "sub", total, &half, -1)?]),
            )?;
            layers::increment(net, count, 1.0)?;
            Ok(vec![count.clone(), step[0].clone()])
        })?;
        Ok(vars.to_vec())
    }),
];

fn one(made: Result<Variable>) -> Made {
    Ok(vec![made?])
}

fn floats(net: &mut Network, name: &str, shape: &[Option<u64>]) -> Variable {
    layers::data(net, name, shape, DType::Float32)
}

fn rows(net: &mut Network) -> Variable {
    floats(net, "x", &[None, Some(6)])
}

fn two(net: &mut Network) -> (Variable, Variable) {
    (rows(net), floats(net, "y", &[None, Some(6)]))
}

fn images(net: &mut Network) -> Variable {
    floats(net, "x", &[None, Some(4), Some(8), Some(8)])
}

fn labelled(net: &mut Network, name: &str) -> (Variable, Variable) {
    let x = floats(net, name, &[None, Some(10)]);
    (x, layers::data(net, "label", &[None, Some(1)], DType::Int64))
}

fn number(net: &mut Network, value: f64) -> Result<Variable> {
    layers::fill_constant(net, &[1], DType::Int64, value)
}

fn unary(net: &mut Network, layer: fn(&mut Network, &Variable) -> Result<Variable>) -> Made {
    let x = rows(net);
    one(layer(net, &x))
}

fn elementwise(net: &mut Network, kind: &str) -> Made {
    let (x, y) = two(net);
    one(layers::elementwise(net, kind, &x, &y, -1))
}

fn reduce(net: &mut Network, kind: &str, dims: &[i32]) -> Made {
    let x = images(net);
    one(layers::reduce(net, kind, &x, dims, !dims.is_empty()))
}

#[test]
fn layers_make_what_paddlepaddle_makes() {
    let mut recorded = recorded("paddle_layers.json");
    recorded.retain(|name, _| !name.starts_with("begins_"));
    assert_eq!(recorded.len(), CASES.len());
    let mut found = Vec::new();
    for (name, make) in CASES {
        let mut net = Network::new();
        let made = make(&mut net).map_err(|error| format!("{name}: {error}")).unwrap();
        let differences = compare(&net, &made, &recorded[*name]);
        found.extend(differences.into_iter().map(|what| (*name, what)));
    }
    for (name, part, why) in EXPECTED {
        let before = found.len();
        found.retain(|(case, what)| case != name || !what.contains(part));
        assert!(found.len() < before, "{name} has no difference any more: {why}");
    }
    let found: Vec<String> = found.iter().map(|(name, what)| format!("{name}: {what}")).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
