//! Queries for numbers in the results of a benchmark.

use std::fmt;

use serde_json::Value;

/// All rows of the results.
#[derive(Debug)]
pub(crate) struct Figures(Vec<Value>);

/// Number that was measured once or several times: median and range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    low: f64,
    high: f64,
    count: usize,
}

/// Filter of rows: names and values that a row must have.
pub(crate) type RowFilter<'a> = &'a [(&'a str, Value)];

impl Figures {
    pub(crate) fn new(results: &Value) -> Self {
        Self(results["rows"].as_array().cloned().unwrap_or_default())
    }

    /// Returns the figure of `of` over the rows of a server in a phase; rows without a value are skipped.
    pub(crate) fn of(
        &self,
        phase: &str,
        server: &str,
        having: RowFilter<'_>,
        of: impl Fn(&Value) -> Option<f64>,
    ) -> Option<Figure> {
        let fits = |row: &&Value| {
            row["phase"] == phase
                && row["server"] == server
                && having.iter().all(|(name, value)| row[*name] == *value)
        };
        let mut all: Vec<f64> =
            self.0.iter().filter(fits).filter_map(of).filter(|it| it.is_finite()).collect();
        all.sort_by(f64::total_cmp);
        let (low, high) = (*all.first()?, *all.last()?);
        let middle = all.len() / 2;
        let median =
            if all.len() % 2 == 1 { all[middle] } else { f64::midpoint(all[middle - 1], all[middle]) };
        Some(Figure { median, low, high, count: all.len() })
    }

    /// Returns the rows of a phase.
    pub(crate) fn rows(&self, phase: &str) -> Vec<&Value> {
        self.0.iter().filter(|row| row["phase"] == phase).collect()
    }

    /// Returns the distinct values of a field in the rows of a phase, in ascending order.
    pub(crate) fn values(&self, phase: &str, name: &str) -> Vec<u64> {
        let mut all: Vec<u64> =
            self.0.iter().filter(|row| row["phase"] == phase).filter_map(|row| row[name].as_u64()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short(self.median))?;
        if self.count > 1 { write!(f, " ({}..{})", short(self.low), short(self.high)) } else { Ok(()) }
    }
}

/// Formats a number with three significant digits.
pub(crate) fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// Returns a function that reads a number of a row, by its JSON pointer.
pub(crate) fn at(pointer: &'static str) -> impl Fn(&Value) -> Option<f64> {
    move |row| row.pointer(pointer).and_then(Value::as_f64)
}

/// Returns the number of operations per second.
pub(crate) fn rate(row: &Value) -> Option<f64> {
    Some(row["count"].as_f64()? / row["seconds"].as_f64()?)
}

/// Returns a function that computes a process's CPU time per operation, in milliseconds.
pub(crate) fn cpu(process: &'static str) -> impl Fn(&Value) -> Option<f64> {
    move |row| {
        let seconds = row.pointer(&format!("/used/{process}/cpu"))?.as_f64()?;
        let count = row["count"].as_f64().filter(|count| *count > 0.0)?;
        Some(seconds * 1e3 / count)
    }
}

/// Returns the number of bytes by which memory grew at its peak.
pub(crate) fn growth(row: &Value) -> Option<f64> {
    let peak = row.pointer("/memory/peak")?.as_f64()?;
    Some((peak - row.pointer("/memoryBefore/resident")?.as_f64()?).max(0.0))
}
