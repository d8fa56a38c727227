//! Aggregate condition: one condition of many objects as one condition of their owner, such as `MachinesReady`.
//!
//! The rule is Cluster API's, like that of `summary.rs`, which is for several conditions of one object. Objects with
//! equal messages share a line. An aggregate shows a few lines only, so that it stays readable with many objects.

use std::collections::BTreeMap;

use apiserver_types::{Condition, ConditionStatus, Polarity, Time};

/// Lines with messages of objects. Upstream's number: a status is read by people.
const LINES: usize = 3;

/// Names in a line. Upstream's number.
pub(crate) const NAMES: usize = 3;

/// An object whose condition is aggregated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub kind: &'a str,
    pub name: &'a str,
    /// The condition; `None` if the object does not report it.
    pub condition: Option<&'a Condition>,
    /// The object is a control plane Machine, which is reported first.
    pub control_plane: bool,
}

/// Condition that an aggregate results in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// Type of the resulting condition.
    pub kind: &'a str,
    /// Type of the condition of the objects.
    pub source: &'a str,
    /// Positive if True is good. With negative polarity, the result is True if an object is True.
    pub polarity: Polarity,
    /// Reason if an object has an issue.
    pub issue: &'a str,
    /// Reason if no object has an issue, and the state of one is unknown.
    pub unknown: &'a str,
    /// Reason if no object has an issue, and all are known.
    pub fine: &'a str,
}

/// Class of one object's condition, in the order in which classes are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Issue,
    Unknown,
    Info,
}

impl Class {
    /// Returns the end of the line about the objects whose messages are not shown.
    const fn rest(self) -> &'static str {
        match self {
            Self::Issue => "with other issues",
            Self::Unknown => "with status unknown",
            Self::Info => "with additional info",
        }
    }
}

/// Objects of one class and kind with equal messages.
#[derive(Debug)]
struct Group<'a> {
    class: Class,
    kind: &'a str,
    message: String,
    names: Vec<&'a str>,
    control_plane: bool,
}

/// Aggregates a condition of several objects. Pure and total; the order of `sources` does not matter.
pub(crate) fn aggregate(target: &Target<'_>, sources: &[Source<'_>], now: &Time) -> Condition {
    let classes: Vec<Class> = sources.iter().map(|source| class(source, target.polarity)).collect();
    let worst = classes.iter().min().copied().unwrap_or(Class::Info);
    let (status, reason) = match (worst, target.polarity) {
        (Class::Issue, Polarity::Positive) => (ConditionStatus::False, target.issue),
        (Class::Issue, Polarity::Negative) => (ConditionStatus::True, target.issue),
        (Class::Unknown, _) => (ConditionStatus::Unknown, target.unknown),
        (Class::Info, Polarity::Positive) => (ConditionStatus::True, target.fine),
        (Class::Info, Polarity::Negative) => (ConditionStatus::False, target.fine),
    };
    Condition::new(target.kind, status, reason, &message(target, sources, worst), now.clone())
}

/// Returns names in order, separated by commas. Of more than `limit` names, the rest is a number.
pub(crate) fn list_names<'a>(names: impl IntoIterator<Item = &'a str>, limit: usize) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(limit);
    names.truncate(limit);
    let list = names.join(", ");
    if more == 0 { list } else { format!("{list}, ... ({more} more)") }
}

/// Returns a text of several lines in one, for another text that quotes it.
pub(crate) fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Returns the points of a text in one line, without their marks and separated by semicolons, for another text that quotes
/// it.
pub(crate) fn points_in_one_line(text: &str) -> String {
    text.lines().map(|line| line.trim().trim_start_matches("* ")).collect::<Vec<_>>().join("; ")
}

/// Returns the plural of a kind.
pub(crate) fn plural(kind: &str, count: usize) -> String {
    if count == 1 { kind.to_owned() } else { format!("{kind}s") }
}

fn class(source: &Source<'_>, polarity: Polarity) -> Class {
    match (source.condition.map(|condition| condition.status), polarity) {
        (None | Some(ConditionStatus::Unknown), _) => Class::Unknown,
        (Some(ConditionStatus::False), Polarity::Positive)
        | (Some(ConditionStatus::True), Polarity::Negative) => Class::Issue,
        (Some(ConditionStatus::True | ConditionStatus::False), _) => Class::Info,
    }
}

fn message(target: &Target<'_>, sources: &[Source<'_>], worst: Class) -> String {
    let groups = groups(target, sources, worst);
    let shown = groups.iter().take(LINES).map(|group| {
        let names = list_names(group.names.iter().copied(), NAMES);
        format!("* {} {names}:{}", plural(group.kind, group.names.len()), indented(&group.message))
    });
    let mut rest: BTreeMap<(Class, &str), usize> = BTreeMap::new();
    for group in groups.iter().skip(LINES) {
        let count = rest.entry((group.class, group.kind)).or_default();
        *count = count.saturating_add(group.names.len());
    }
    let rest = rest
        .into_iter()
        .map(|((class, kind), count)| format!("And {count} {} {}", plural(kind, count), class.rest()));
    shown.chain(rest).collect::<Vec<_>>().join("\n")
}

/// Returns the groups in the order in which they are reported. What is fine is reported only if everything is.
fn groups<'a>(target: &Target<'_>, sources: &[Source<'a>], worst: Class) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<(Class, &str, String), Group<'a>> = BTreeMap::new();
    for source in sources {
        let class = class(source, target.polarity);
        let message = text(source, target.source, class);
        if class == Class::Info && (worst != Class::Info || message.is_empty()) {
            continue;
        }
        let group = groups.entry((class, source.kind, message.clone())).or_insert_with(|| Group {
            class,
            kind: source.kind,
            message,
            names: Vec::new(),
            control_plane: false,
        });
        group.names.push(source.name);
        group.control_plane |= source.control_plane;
    }
    let mut groups: Vec<Group<'a>> = groups.into_values().collect();
    groups.sort_by(|a, b| {
        let order = |it: &Group<'_>| (!it.control_plane, it.class, usize::MAX - it.names.len());
        order(a).cmp(&order(b)).then_with(|| a.message.cmp(&b.message)).then_with(|| a.kind.cmp(b.kind))
    });
    groups
}

/// Returns what an object reports: the message, or the reason where an issue has no message.
fn text(source: &Source<'_>, kind: &str, class: Class) -> String {
    let Some(condition) = source.condition else { return format!("Condition {kind} not yet reported") };
    match class {
        Class::Issue | Class::Unknown if condition.message.is_empty() => condition.reason.clone(),
        _ => condition.message.clone(),
    }
}

/// Returns a message as the end of a line. A list, or a message of several lines, begins on a line of its own.
fn indented(message: &str) -> String {
    if !message.contains('\n') && !message.starts_with("* ") {
        return format!(" {message}");
    }
    message.lines().map(|line| format!("\n  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Target<'_> = Target {
        kind: "MachinesReady",
        source: "Ready",
        polarity: Polarity::Positive,
        issue: "NotReady",
        unknown: "ReadyUnknown",
        fine: "Ready",
    };

    const SCALING_UP: Target<'_> = Target {
        kind: "ScalingUp",
        source: "ScalingUp",
        polarity: Polarity::Negative,
        issue: "ScalingUp",
        unknown: "ScalingUpUnknown",
        fine: "NotScalingUp",
    };

    fn condition(status: ConditionStatus, message: &str) -> Condition {
        Condition::new("Ready", status, "Reason", message, Time::default())
    }

    fn source<'a>(name: &'a str, condition: Option<&'a Condition>) -> Source<'a> {
        Source { kind: "Machine", name, condition, control_plane: false }
    }

    #[test]
    fn the_worst_object_determines_status_and_reason() {
        use ConditionStatus::{False, True, Unknown};
        let table = [
            (READY, vec![], True, "Ready"),
            (READY, vec![Some(True), Some(True)], True, "Ready"),
            (READY, vec![Some(True), None], Unknown, "ReadyUnknown"),
            (READY, vec![Some(Unknown), Some(False)], False, "NotReady"),
            (SCALING_UP, vec![], False, "NotScalingUp"),
            (SCALING_UP, vec![Some(False)], False, "NotScalingUp"),
            (SCALING_UP, vec![Some(False), Some(Unknown)], Unknown, "ScalingUpUnknown"),
            (SCALING_UP, vec![None, Some(True)], True, "ScalingUp"),
        ];
        for (target, statuses, status, reason) in table {
            let conditions: Vec<Option<Condition>> =
                statuses.iter().map(|status| status.map(|status| condition(status, ""))).collect();
            let sources: Vec<Source<'_>> = conditions.iter().map(|it| source("m", it.as_ref())).collect();
            let result = aggregate(&target, &sources, &Time::default());
            assert_eq!((result.status, result.reason.as_str()), (status, reason), "{statuses:?}");
        }
    }

    #[test]
    fn objects_with_equal_messages_share_a_line_and_the_fourth_message_is_only_counted() {
        let of = |message: &str| condition(ConditionStatus::False, message);
        let (drained, list) = (of("draining"), of("* BootstrapConfigReady: no\n* NodeHealthy: no"));
        let (others, silent) = ([of("a"), of("b"), of("c")], of(""));
        let unknown = condition(ConditionStatus::Unknown, "not inspected");
        let fine = condition(ConditionStatus::True, "fine");
        let mut sources: Vec<Source<'_>> =
            ["m5", "m2", "m4", "m3", "m1"].iter().map(|name| source(name, Some(&drained))).collect();
        sources.extend([source("l2", Some(&list)), source("l1", Some(&list)), source("ok", Some(&fine))]);
        sources.push(Source { control_plane: true, ..source("cp", None) });
        sources.extend(others.iter().map(|it| source("o", Some(it))));
        sources.extend([source("s", Some(&silent)), source("u", Some(&unknown))]);
        let expected = "* Machine cp: Condition Ready not yet reported\n\
            * Machines m1, m2, m3, ... (2 more): draining\n\
            * Machines l1, l2:\n  * BootstrapConfigReady: no\n  * NodeHealthy: no\n\
            And 4 Machines with other issues\n\
            And 1 Machine with status unknown";
        assert_eq!(aggregate(&READY, &sources, &Time::default()).message, expected);
        sources.reverse();
        assert_eq!(aggregate(&READY, &sources, &Time::default()).message, expected, "in another order");
    }

    #[test]
    fn an_issue_without_message_shows_its_reason_and_a_fine_object_only_its_message() {
        let silent = condition(ConditionStatus::False, "");
        let result = aggregate(&READY, &[source("m", Some(&silent))], &Time::default());
        assert_eq!(result.message, "* Machine m: Reason");
        let (fine, told) = (condition(ConditionStatus::True, ""), condition(ConditionStatus::True, "soon"));
        let sources = [source("a", Some(&fine)), source("b", Some(&told))];
        assert_eq!(aggregate(&READY, &sources, &Time::default()).message, "* Machine b: soon");
    }
}
