//! What the rules of a variable may cost at worst, against what they may.

use apiserver_schema::field_errors::{FieldError, FieldPath};

/// What one expression may cost, for all the values there may be of its schema.
const EXPRESSION: u64 = 10_000_000;

/// What those of a variable may cost together.
const VARIABLE: u64 = 100_000_000;

/// From this on, an expression is named when all are too dear together.
const SHARE: u64 = VARIABLE / 100;

/// After so much that was told of a class's rules, only the beginning of what else makes no sense is. Far more
/// than anybody reads. Unit: bytes.
const TOLD: usize = 256 * 1024;

/// How many are named.
const NAMED: usize = 4;

/// The costs of a variable's rules.
#[derive(Debug, Default)]
pub(super) struct Costs {
    total: u64,
    /// The dearest first.
    dearest: Vec<(u64, FieldPath)>,
    /// How much was told of what makes no sense. Unit: bytes.
    told: usize,
}

impl Costs {
    /// None yet, after these errors of the class were told.
    pub(super) fn after(errors: &[FieldError]) -> Self {
        Self { told: errors.iter().map(|error| error.body.len()).sum(), ..Self::default() }
    }

    /// Adds the cost of one expression, and an error if that alone is too much.
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

    /// What makes no sense in an expression: all of it, unless much was told already. Each error shows its line,
    /// so that a class could else have its server write gigabytes.
    pub(super) fn told<'a>(&mut self, problem: &'a str) -> &'a str {
        let is_enough = self.told > TOLD;
        self.told = self.told.saturating_add(problem.len());
        if is_enough { problem.lines().next().unwrap_or_default() } else { problem }
    }

    /// Adds an error for each of the dearest, and for all together, if they are too dear.
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

/// By how much, in more digits where that is little.
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
    fn a_factor_has_more_digits_where_it_is_small() {
        for (cost, expected) in [
            (10_000_001, "of 1.000000x ("),
            (12_345_678, "of 1.234568x ("),
            (15_000_000, "of 1.5x ("),
            (999_940_000, "of 100.0x ("),
            (1_000_000_000, "of 100.0x ("),
            (1_000_000_001, "of more than 100x ("),
        ] {
            let told = exceeded("cost", cost, EXPRESSION);
            assert!(told.contains(expected), "{cost}: {told}");
        }
    }
}
