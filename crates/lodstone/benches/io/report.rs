//! The measurements as tables and as JSON.

use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::systems::{Operation, Role, System};

/// All measurements.
#[derive(Default)]
pub(crate) struct Report(Vec<Value>);

impl Report {
    pub(crate) fn add(
        &mut self,
        mib: u64,
        tensors: u64,
        operation: &Operation,
        measured: Vec<(System, Vec<Duration>)>,
    ) {
        let limit = measured.first().map(|(_, times)| times.clone()).unwrap_or_default();
        for (system, times) in measured {
            let role = match system.role {
                Role::Limit => "limit",
                Role::Ours => "lodstone",
                Role::Peer => "peer",
            };
            let ratios = limit.iter().zip(&times);
            let ratios = sorted(ratios.map(|(limit, time)| limit.div_duration_f64(*time)));
            let seconds = sorted(times.iter().map(Duration::as_secs_f64));
            self.0.push(json!({
                "mib": mib, "tensors": tensors, "operation": operation.name, "role": role,
                "system": system.name, "seconds": seconds, "median": at(&seconds, 0.5),
                "ratio": at(&ratios, 0.5), "quartiles": [at(&ratios, 0.25), at(&ratios, 0.75)],
                "target": operation.target.filter(|_| role == "lodstone"),
            }));
        }
    }

    /// Writes a table for each size of model.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        let mut before = (&Value::Null, &Value::Null);
        let mut operation = &Value::Null;
        for row in &self.0 {
            let now = (&row["mib"], &row["tensors"]);
            if now != before {
                let (mib, tensors) = now;
                let turns = row["seconds"].as_array().map_or(0, Vec::len);
                let _ = write!(
                    text,
                    "\n### {mib} MiB in {tensors} tensors\n\n\
                     | {:<27} | {:<32} | {:>9} | {:>7} | {:>6} | {:>6} |\n\
                     |---|---|--:|--:|--:|--:|\n",
                    format!("median of {turns}"),
                    "",
                    "ms",
                    "GiB/s",
                    "ratio",
                    "target",
                );
                operation = &Value::Null;
            }
            let shown =
                if &row["operation"] == operation { "" } else { text_of(&row["operation"]) };
            (before, operation) = (now, &row["operation"]);
            let seconds = row["median"].as_f64().unwrap_or(f64::NAN);
            let gib = row["mib"].as_f64().unwrap_or(f64::NAN) / 1024.0 / seconds;
            // Opening a file moves no bytes, and neither does passing it to another thread.
            let rests = |what: &str| text_of(&row["operation"]).starts_with(what);
            let moves = !rests("open") && !rests("stall") && !rests("background");
            let speed = if moves { format!("{gib:.2}") } else { String::new() };
            let system = match text_of(&row["role"]) {
                "lodstone" => format!("**Lodstone**, {}", text_of(&row["system"])),
                _ => text_of(&row["system"]).to_owned(),
            };
            let ratio = row["ratio"].as_f64().unwrap_or(f64::NAN);
            let target = row["target"].as_f64().map_or(String::new(), |target| format!("{target}"));
            let _ = writeln!(
                text,
                "| {shown:<27} | {system:<32} | {:>9.2} | {speed:>7} | {ratio:>6.2} | {target:>6} |",
                seconds * 1e3,
            );
        }
        text
    }

    /// Writes a row for each operation of the first peer, with the ratios of the others.
    pub(crate) fn pairs(&self) -> String {
        let turns = self.0.first().and_then(|row| row["seconds"].as_array()).map_or(0, Vec::len);
        let mut systems: Vec<&str> = self.0.iter().map(|row| text_of(&row["system"])).collect();
        let mut known = HashSet::new();
        systems.retain(|system| known.insert(*system));
        let (names, rules) = (systems.join(" | "), "--:|".repeat(systems.len()));
        let mut text = format!("\n| median of {turns} | {names} |\n|---|{rules}");
        let mut before = None;
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        for row in &self.0 {
            let (mib, tensors, operation) = (&row["mib"], &row["tensors"], &row["operation"]);
            let ms = number(&row["median"]) * 1e3;
            let group = Some((mib, tensors, operation));
            let same = std::mem::replace(&mut before, group) == group;
            let _ = match same {
                true => {
                    let ratio = number(&row["ratio"]);
                    let [least, most] = [0, 1].map(|end| number(&row["quartiles"][end]));
                    write!(text, " {ms:.2} ms, **{ratio:.2}** ({least:.2} to {most:.2}) |")
                }
                false => {
                    let operation = text_of(operation);
                    write!(text, "\n| {operation}, {mib} MiB in {tensors} | {ms:.2} ms |")
                }
            };
        }
        text + "\n"
    }

    pub(crate) fn json(&self) -> String {
        // A line for each row.
        let rows: Vec<_> = self.0.iter().map(Value::to_string).collect();
        format!("[\n{}\n]\n", rows.join(",\n"))
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// Returns a quantile of `sorted` numbers; 0.5 is the median.
fn at(sorted: &[f64], part: f64) -> f64 {
    let least = |number: &usize| *number as f64 >= part * (sorted.len() as f64 - 1.0);
    let number = (0..sorted.len()).find(least);
    number.and_then(|number| sorted.get(number)).copied().unwrap_or(f64::NAN)
}
