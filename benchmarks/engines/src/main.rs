//! Runs an ONNX model with another engine in Rust, controlled by `engine.py`.
//!
//!     engines (tract | rten) MODEL THREADS
//!
//! `cold` on stdin reads the model and runs it once; `N` runs it N times. Each reply is the time in seconds, and the
//! sum of the absolute values of the outputs.

use std::error::Error;
use std::io::BufRead;
use std::time::Instant;

use rten::{Dimension, ModelOptions, Value, ValueOrView};
use rten_tensor::Tensor as RtenTensor;
use rten_tensor::prelude::*;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::Factoid;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A model that is ready to run; returns the sum of the absolute values of the outputs.
type Run = Box<dyn FnMut() -> Result<f64>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, model, threads] = arguments.as_slice() else {
        return Err("usage: engines (tract | rten) MODEL THREADS".into());
    };
    let threads: usize = threads.parse()?;
    let load = match library.as_str() {
        "tract" => {
            multithread::set_default_executor(multithread::Executor::multithread(threads));
            tract
        }
        // It takes the number of threads from the environment.
        "rten" => rten,
        other => return Err(format!("unknown engine `{other}`").into()),
    };
    let mut run = None;
    for line in std::io::stdin().lock().lines() {
        let (line, begun) = (line?, Instant::now());
        let mut sum = 0.0;
        if line == "cold" {
            run = Some(load(model)?);
        }
        let run = run.as_mut().ok_or("the model is not loaded")?;
        for _ in 0..line.parse().unwrap_or(1) {
            sum = run()?;
        }
        println!("{} {sum}", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

fn single(place: usize) -> f32 {
    (place * 7919 % 1000) as f32 / 500.0 - 1.0
}

fn integer(place: usize) -> i64 {
    place as i64 % 100
}

fn tract(path: &str) -> Result<Run> {
    let model = tract_onnx::onnx().model_for_path(path)?;
    let mut inputs = TVec::new();
    for place in 0..model.inputs.len() {
        let fact = model.input_fact(place)?;
        let dims = fact.shape.as_concrete_finite()?.ok_or("a dim is unknown")?;
        let count: usize = dims.iter().product();
        let tensor = match fact.datum_type.concretize() {
            Some(DatumType::I64) => {
                let values: Vec<i64> = (0..count).map(integer).collect();
                Tensor::from_shape(&dims, &values)?
            }
            _ => Tensor::from_shape(&dims, &(0..count).map(single).collect::<Vec<f32>>())?,
        };
        inputs.push(tensor.into_tvalue());
    }
    let runnable = model.into_optimized()?.into_runnable()?;
    Ok(Box::new(move || {
        let mut sum = 0.0;
        for output in runnable.run(inputs.clone())? {
            let values = output.to_plain_array_view::<f32>()?;
            sum += values.iter().map(|value| f64::from(value.abs())).sum::<f64>();
        }
        Ok(sum)
    }))
}

fn rten(path: &str) -> Result<Run> {
    let model = ModelOptions::with_all_ops().prepack_weights(true).load_file(path)?;
    let mut inputs: Vec<(rten::NodeId, Value)> = Vec::new();
    for &id in model.input_ids() {
        let info = model.node_info(id).ok_or("an input has no node")?;
        let dims: Vec<usize> = info
            .shape()
            .ok_or("an input has no shape")?
            .iter()
            .map(|dim| match dim {
                Dimension::Fixed(size) => Ok(*size),
                Dimension::Symbolic(_) => Err("a dim is unknown"),
            })
            .collect::<std::result::Result<_, _>>()?;
        let count: usize = dims.iter().product();
        let is_integer = info.dtype().is_some_and(|it| format!("{it:?}").contains("Int"));
        let value = match is_integer {
            true => {
                let values: Vec<i32> = (0..count).map(|it| integer(it) as i32).collect();
                Value::from(RtenTensor::from_data(&dims, values))
            }
            false => {
                let values: Vec<f32> = (0..count).map(single).collect();
                Value::from(RtenTensor::from_data(&dims, values))
            }
        };
        inputs.push((id, value));
    }
    let outputs = model.output_ids().to_vec();
    Ok(Box::new(move || {
        let given: Vec<(rten::NodeId, ValueOrView)> =
            inputs.iter().map(|(id, value)| (*id, ValueOrView::from(value))).collect();
        let mut sum = 0.0;
        for output in model.run(given, &outputs, None)? {
            let values: RtenTensor<f32> = output.try_into()?;
            sum += values.iter().map(|value| f64::from(value.abs())).sum::<f64>();
        }
        Ok(sum)
    }))
}
