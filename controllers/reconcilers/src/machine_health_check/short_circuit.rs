//! Short circuit: no remediation while too many Machines are unhealthy at the same time. Pure.

use apiserver_types::{IntOrString, RemediationTriggerIf};

use crate::replica_counts::scaled;

/// Field of the limit.
const LIMIT: &str = "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo";

/// Field of the range.
const RANGE: &str = "spec.remediation.triggerIf.unhealthyInRange";

/// Number of Machines of a health check, by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub expected: usize,
    pub healthy: usize,
    pub unhealthy: usize,
}

impl Counts {
    /// Returns the number of Machines that do not count as healthy. Those that have not started count, too, so that a
    /// pool that is coming up is not replaced.
    fn against(&self) -> i64 {
        count(self.expected.saturating_sub(self.healthy))
    }
}

/// Decision about the remediation of all Machines of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allowance {
    pub allowed: bool,
    /// Number of further Machines that may become unhealthy before remediation stops.
    pub remaining: i32,
    /// Reason why it is not allowed, with all numbers. Empty if it is.
    pub message: String,
}

/// Decides whether Machines may be remediated.
///
/// # Errors
/// The limit cannot be used. For people.
pub(super) fn decide(trigger: Option<&RemediationTriggerIf>, counts: Counts) -> Result<Allowance, String> {
    let against = counts.against();
    let (least, most, rule) = match trigger.and_then(|it| it.unhealthy_in_range.as_deref()) {
        Some(range) => {
            let (least, most) = parse(range)?;
            (least, most, format!("{RANGE} is {range}"))
        }
        None => {
            let limit = trigger.and_then(|it| it.unhealthy_less_than_or_equal_to.as_ref());
            let (most, text) = limit_of(limit, counts.expected)?;
            (i64::MIN, most, format!("{LIMIT} is {text}, which is {most} of them"))
        }
    };
    let allowed = (least..=most).contains(&against);
    let remaining = if allowed { most.saturating_sub(against) } else { 0 };
    let message = if allowed { String::new() } else { explain(counts, &rule) };
    Ok(Allowance { allowed, remaining: i32::try_from(remaining).unwrap_or(i32::MAX), message })
}

fn explain(counts: Counts, rule: &str) -> String {
    let Counts { expected, healthy, unhealthy } = counts;
    let others = expected.saturating_sub(healthy).saturating_sub(unhealthy);
    format!(
        "Remediation is not allowed: of {expected} Machines, {healthy} are healthy, {unhealthy} are unhealthy, and \
         {others} have not started, are within a timeout or are being deleted. All that are not healthy count, and {rule}"
    )
}

fn limit_of(limit: Option<&IntOrString>, expected: usize) -> Result<(i64, String), String> {
    let all = IntOrString::String("100%".to_owned());
    let limit = limit.unwrap_or(&all);
    let text = match limit {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    };
    let most = scaled(limit, count(expected), false);
    let most = most.ok_or_else(|| format!("{LIMIT} is {text:?}; set a number or a percentage, e.g. 40%"))?;
    Ok((most, text))
}

fn parse(range: &str) -> Result<(i64, i64), String> {
    let inner = range.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let ends = inner.and_then(|it| it.split_once('-'));
    let ends = ends.and_then(|(least, most)| Some((least.parse().ok()?, most.parse().ok()?)));
    let usable = ends.filter(|(least, most): &(i64, i64)| least <= most);
    usable.ok_or_else(|| {
        format!("{RANGE} is {range:?}; set a range from a number to one that is not less, e.g. [1-3]")
    })
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(range: Option<&str>, limit: Option<IntOrString>) -> RemediationTriggerIf {
        RemediationTriggerIf {
            unhealthy_in_range: range.map(str::to_owned),
            unhealthy_less_than_or_equal_to: limit,
        }
    }

    #[test]
    fn the_limit_decides_on_those_that_are_not_healthy() {
        let percent = |text: &str| Some(IntOrString::String(text.to_owned()));
        let table = [
            ("no limit", of(None, None), (3, 0), Ok((true, 0))),
            ("no Machines", of(None, None), (0, 0), Ok((true, 0))),
            ("0 and all healthy", of(None, Some(IntOrString::Int(0))), (3, 3), Ok((true, 0))),
            ("0 and one is not", of(None, Some(IntOrString::Int(0))), (3, 2), Ok((false, 0))),
            ("0 %", of(None, percent("0%")), (3, 2), Ok((false, 0))),
            ("2 of 3", of(None, Some(IntOrString::Int(2))), (3, 2), Ok((true, 1))),
            ("33 % of 2 are none", of(None, percent("33%")), (2, 1), Ok((false, 0))),
            ("50 % of 2 are one", of(None, percent("50%")), (2, 1), Ok((true, 0))),
            ("below the range", of(Some("[3-5]"), None), (10, 8), Ok((false, 0))),
            ("in the range", of(Some("[3-5]"), None), (10, 7), Ok((true, 2))),
            ("at its end", of(Some("[3-5]"), None), (10, 5), Ok((true, 0))),
            ("above the range", of(Some("[3-5]"), None), (10, 4), Ok((false, 0))),
            ("the range wins", of(Some("[0-5]"), Some(IntOrString::Int(0))), (3, 2), Ok((true, 4))),
            ("a reversed range", of(Some("[5-3]"), None), (10, 6), Err(())),
            ("no range", of(Some("3-5"), None), (10, 6), Err(())),
            ("no number", of(None, percent("many")), (10, 6), Err(())),
        ];
        for (case, trigger, (expected, healthy), wanted) in table {
            let found = decide(Some(&trigger), Counts { expected, healthy, unhealthy: 0 });
            let found = found.map(|it| (it.allowed, it.remaining)).map_err(|_| ());
            assert_eq!(found, wanted, "{case}");
        }
    }

    #[test]
    fn the_message_has_the_numbers_apart() {
        let trigger = of(None, Some(IntOrString::String("40%".to_owned())));
        let found = decide(Some(&trigger), Counts { expected: 5, healthy: 1, unhealthy: 3 }).unwrap();
        for part in
            ["of 5 Machines", "1 are healthy", "3 are unhealthy", "1 have not started", "is 40%, which is 2"]
        {
            assert!(found.message.contains(part), "{part}: {}", found.message);
        }
    }
}
