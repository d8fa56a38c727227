//! Worst-case costs of a variable's validation rules, and their limits.

use apiserver_schema::field_errors::{FieldError, FieldPath};

/// Cost limit of one expression, for all values that its schema allows.
const EXPRESSION: u64 = 10_000_000;

/// Cost limit of all expressions of a variable.
const VARIABLE: u64 = 100_000_000;

/// Cost from which an expression is named if the total exceeds the limit.
const SHARE: u64 = VARIABLE / 100;

/// Length of the reported errors of a class's rules after which further errors are cut. Unit: bytes.
const REPORTED: usize = 256 * 1024;

/// Number of expressions that are named.
const NAMED: usize = 4;

/// Costs of a variable's rules.
#[derive(Debug, Default)]
pub(super) struct Costs {
    total: u64,
    /// Most expensive expressions, in descending order.
    dearest: Vec<(u64, FieldPath)>,
    /// Length of the errors reported so far. Unit: bytes.
    reported: usize,
}

impl Costs {
    /// Creates an empty sum, after these errors of the class.
    pub(super) fn after(errors: &[FieldError]) -> Self {
        Self { reported: errors.iter().map(|error| error.body.len()).sum(), ..Self::default() }
    }

    /// Adds the cost of one expression, and an error if it exceeds the limit of one expression.
    pub(super) fn add(&mut self, name: &str, path: FieldPath, cost: u64, errors: &mut Vec<FieldError>) {
        if cost > EXPRESSION {
            errors.push(FieldError::forbidden(path.clone(), &exceeded(name, cost, EXPRESSION)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SHARE {
            self.dearest.push((cost, path));
            self.dearest.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.dearest.truncate(NAMED);
        }
    }

    /// Returns the error of an expression, cut if many errors were reported before. Each error shows its line, so that
    /// a class could otherwise make its server write gigabytes.
    pub(super) fn reported<'a>(&mut self, problem: &'a str) -> &'a str {
        let is_enough = self.reported > REPORTED;
        self.reported = self.reported.saturating_add(problem.len());
        if is_enough { problem.lines().next().unwrap_or_default() } else { problem }
    }

    /// Adds an error for each of the most expensive expressions, and for their sum, if it exceeds the limit.
    pub(super) fn sum_up(self, path: &FieldPath, errors: &mut Vec<FieldError>) {
        if self.total <= VARIABLE {
            return;
        }
        let of = "contributed to estimated rule & messageExpression cost total exceeding cost limit for entire OpenAPIv3 schema";
        errors.extend(self.dearest.into_iter().map(|(_, path)| FieldError::forbidden(path, of)));
        let name = "x-kubernetes-validations estimated rule & messageExpression cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path.clone(), &exceeded(name, self.total, VARIABLE)));
    }
}

/// Returns the factor by which a limit is exceeded, with more digits if it is small.
fn exceeded(name: &str, cost: u64, limit: u64) -> String {
    let millionths = u128::from(cost) * 1_000_000 / u128::from(limit);
    let factor = if cost > limit.saturating_mul(100) {
        "more than 100x".to_owned()
    } else if millionths < 1_500_000 {
        let rounded = (u128::from(cost) * 1_000_000 + u128::from(limit) / 2) / u128::from(limit);
        format!("{}.{:06}x", rounded / 1_000_000, rounded % 1_000_000)
    } else {
        let tenths = (u128::from(cost) * 10 + u128::from(limit) / 2) / u128::from(limit);
        format!("{}.{}x", tenths / 10, tenths % 10)
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_factors_are_printed_with_more_digits() {
        for (cost, expected) in [
            (10_000_001, "of 1.000000x ("),
            (12_345_678, "of 1.234568x ("),
            (15_000_000, "of 1.5x ("),
            (999_940_000, "of 100.0x ("),
            (1_000_000_000, "of 100.0x ("),
            (1_000_000_001, "of more than 100x ("),
        ] {
            let reported = exceeded("cost", cost, EXPRESSION);
            assert!(reported.contains(expected), "{cost}: {reported}");
        }
    }
}
