//! What was measured, as tables and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::systems::{Operation, Role, System};

/// All that was measured.
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
            let ratio = median(ratios.map(|(limit, time)| limit.div_duration_f64(*time)).collect());
            let mut seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
            seconds.sort_by(f64::total_cmp);
            self.0.push(json!({
                "mib": mib, "tensors": tensors, "operation": operation.name, "role": role,
                "system": system.name, "seconds": seconds, "median": median(seconds.clone()),
                "ratio": ratio, "target": operation.target.filter(|_| role == "lodstone"),
            }));
        }
    }

    #[expect(clippy::print_stdout, reason = "a benchmark prints")]
    pub(crate) fn print(&self) {
        print!("{}", self.tables());
    }

    /// A table for each size of model.
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
            // What opens a file does not move its bytes.
            let moves = !text_of(&row["operation"]).starts_with("open");
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

    pub(crate) fn json(&self) -> String {
        // A line for each row.
        let rows: Vec<_> = self.0.iter().map(Value::to_string).collect();
        format!("[\n{}\n]\n", rows.join(",\n"))
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
