//! Writes models to files. The program is published last, so that a published program has its parameters.

use std::collections::HashSet;

use lodstone_model::{Model, Program, some};
use lodstone_schema::mxnet::variable_of;
use lodstone_store::Location;

use super::detect::SYMBOL;
use super::layout::Bundle;
use super::{BUNDLE, SYMBOL as ALONE};
use crate::error::{Error, Result};
use crate::mxnet::params::{self, Layout};
use crate::mxnet::symbol;
use crate::options::WriteOptions;
use crate::staged::Staged;

/// Writes `X-symbol.json` and `X-0000.params`, or writes into a directory under the original names.
pub(super) fn write_bundle(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    let program = program_of(model, BUNDLE.name)?;
    check(model, program)?;
    let encoded = symbol::write(program, options.same)?;
    let bundle = Bundle::of(model)?.filter(|_| options.same).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = name.strip_suffix(SYMBOL);
    let into = path.names_directory()? || (bundle.directory && prefix.is_none());
    let (directory, symbol, params) = if into {
        let names = Bundle::of(model)?.unwrap_or_default();
        let symbol = match names.symbol.as_str() {
            "" => format!("model{SYMBOL}"),
            name => name.to_owned(),
        };
        let params = names.params.unwrap_or_else(|| {
            format!("{}-0000.params", symbol.strip_suffix(SYMBOL).unwrap_or(&symbol))
        });
        (path.clone(), symbol, params)
    } else {
        let prefix = prefix.unwrap_or(&name);
        let epoch = bundle.epoch().unwrap_or("-0000.params");
        let names = (format!("{prefix}{SYMBOL}"), format!("{prefix}{epoch}"));
        (path.directory(), names.0, names.1)
    };
    let mut staged = Staged::begin(&directory, into, options)?;
    if !model.parameters.is_empty() || bundle.params.is_some() {
        let fits = options.same && bundle.layout.fits(model);
        let layout = if fits { bundle.layout } else { Layout::usual(model) };
        staged.write(&params, |out| params::put(out, &model.parameters, &layout, options.same))?;
    }
    staged.write(&symbol, |out| out.put(&encoded))?;
    Ok(if into { staged } else { staged.opened_by(symbol) })
}

/// Writes a program without parameters.
pub(super) fn write_symbol(
    model: &Model,
    path: &Location,
    options: &WriteOptions,
) -> Result<Staged> {
    let encoded = symbol::write(program_of(model, ALONE.name)?, options.same)?;
    Staged::file(path, options, |out| out.put(&encoded))
}

fn program_of<'a>(model: &'a Model, format: &'static str) -> Result<&'a Program> {
    model.main().ok_or(Error::NoProgram { format, alone: "mxnet-params" })
}

/// Fails if parameters of the program have been removed, because they would become inputs.
fn check(model: &Model, program: &Program) -> Result<()> {
    if model.parameters.is_empty() {
        return Ok(());
    }
    let there: HashSet<&str> = model.parameters.iter().map(|p| variable_of(&p.name)).collect();
    let vars = program.blocks.iter().take(1).flat_map(|block| &block.vars);
    let mut missing = vars.filter(|var| var.persistable && !there.contains(&*var.name)).peekable();
    if missing.peek().is_none() {
        return Ok(());
    }
    let names = some(missing.map(|var| format!("`{}`", var.name)));
    let what = format!("a program without its parameters {names}");
    Err(Error::Incompatible { format: BUNDLE.name, what })
}
