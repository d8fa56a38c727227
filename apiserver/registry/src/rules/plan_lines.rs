//! Plan of a change in a few lines, for the client of a dry run. Pure.

use serde_json::Value;

use crate::rules::json_fields::{get, items, text};

/// Longest line. kube-apiserver cuts a warning at this length if all warnings together are too long. Unit: characters.
const LONGEST_LINE: usize = 256;

/// Longest lines together: half of the limit of kube-apiserver for a response, so that all other warnings are sent whole.
/// Unit: characters.
const LONGEST: usize = 2048;

/// Effects on Machines, with their words in a sentence. A Machine that is kept has reasons if it is out of date.
const EFFECTS: [(&str, &str); 5] = [
    ("Replace", "replaced"),
    ("Create", "created"),
    ("Delete", "deleted"),
    ("InPlace", "changed in place"),
    ("Keep", "kept, but out of date"),
];

/// Line about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    text: String,
    /// It names an effect on Machines. All others explain one.
    is_effect: bool,
}

/// Returns the effects of a plan, without their explanations.
pub(super) fn effects(lines: &[Line]) -> Vec<&str> {
    lines.iter().filter(|line| line.is_effect).map(|line| line.text.as_str()).collect()
}

/// Returns the lines of a plan; none if it has no effect on a Machine. `kind` and `name` are those of the changed object.
/// Of a plan with several rollouts, those of the kinds in `shown` count, or all.
pub(super) fn lines(plan: &Value, kind: &str, name: &str, shown: Option<&[&str]>) -> Vec<Line> {
    if get(plan, "rollouts").is_none() {
        return rollout(plan, kind, name);
    }
    let part = |it: &Value, field: &str| text(it, field).unwrap_or_default().to_owned();
    let rollouts = items(plan, "rollouts").map(|(_, it)| (part(it, "kind"), part(it, "name"), it));
    let rollouts = rollouts.filter(|(kind, ..)| shown.is_none_or(|shown| shown.contains(&kind.as_str())));
    let changed: Vec<(&Value, Vec<Line>)> = rollouts
        .map(|(kind, name, it)| (it, rollout(it, &kind, &name)))
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    let mut all = Vec::new();
    if changed.len() > 1 {
        all.extend(sum(&changed.iter().map(|(it, _)| *it)).map(|text| effect(kind, name, &text)));
    }
    all.extend(order(plan).map(|text| effect(kind, name, &text)));
    if changed.is_empty() && all.is_empty() {
        return Vec::new();
    }
    all.extend(explanations(plan, kind, name));
    all.extend(changed.into_iter().flat_map(|(_, lines)| lines));
    all
}

/// Returns the warnings: the lines within the limits, and then `more`, which says where the whole plan is.
pub(super) fn warnings(lines: &[Line], more: &str) -> Vec<String> {
    let (mut sent, mut length) = (Vec::new(), 0_usize);
    for line in lines {
        let text = bounded(&line.text);
        length = length.saturating_add(text.chars().count());
        // The last line is always sent.
        if length > LONGEST.saturating_sub(LONGEST_LINE) {
            break;
        }
        sent.push(text);
    }
    let last = match lines.len().saturating_sub(sent.len()) {
        0 => more.to_owned(),
        1 => format!("1 line is left out. {more}"),
        left => format!("{left} lines are left out. {more}"),
    };
    sent.extend(Some(bounded(&last)).filter(|last| !last.is_empty()));
    sent
}

/// Returns a text as one line within the limit. A header has no control characters.
pub(super) fn bounded(text: &str) -> String {
    let spaced: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let spaced = spaced.trim();
    if spaced.chars().count() <= LONGEST_LINE {
        return spaced.to_owned();
    }
    let kept: String = spaced.chars().take(LONGEST_LINE.saturating_sub(3)).collect();
    format!("{kept}...")
}

fn effect(kind: &str, name: &str, text: &str) -> Line {
    Line { text: format!("{kind} {name}: {text}"), is_effect: true }
}

/// Returns the lines about one owner of Machines: those with the same effect for the same reasons share one.
fn rollout(plan: &Value, kind: &str, name: &str) -> Vec<Line> {
    let mut groups: Vec<(&str, Vec<&str>, usize)> = Vec::new();
    for (_, machine) in items(plan, "machines") {
        let reasons = items(machine, "reasons").filter_map(|(_, reason)| reason.as_str());
        let reasons: Vec<&str> = reasons.collect();
        let Some(found) = text(machine, "effect").filter(|it| *it != "Keep" || !reasons.is_empty()) else {
            continue;
        };
        match groups.iter_mut().find(|(known, same, _)| *known == found && *same == reasons) {
            Some((_, _, count)) => *count = count.saturating_add(1),
            None => groups.push((found, reasons, 1)),
        }
    }
    let at_once = most_at_once(plan);
    let sentence = |(found, reasons, count): &(&str, Vec<&str>, usize)| {
        let order = match (*found, *count, at_once) {
            ("Replace", 2.., 1) => " one after the other".to_owned(),
            ("Replace", 2.., 2..) => format!(" up to {at_once} at a time"),
            _ => String::new(),
        };
        let reasons: String = reasons.iter().map(|reason| format!(" * {reason}")).collect();
        let colon = if reasons.is_empty() { "" } else { ":" };
        effect(kind, name, &format!("{}{order}{colon}{reasons}", machines(*count, found)))
    };
    let mut lines: Vec<Line> = groups.iter().map(sentence).collect();
    if !lines.is_empty() {
        lines.extend(explanations(plan, kind, name));
    }
    lines
}

/// Returns the numbers of Machines of several rollouts by their effects.
fn sum<'a>(rollouts: &(impl Iterator<Item = &'a Value> + Clone)) -> Option<String> {
    let all = || rollouts.clone().flat_map(|rollout| items(rollout, "machines"));
    let count = |effect: &str| all().filter(|(_, machine)| text(machine, "effect") == Some(effect)).count();
    let known = EFFECTS.iter().map(|(effect, _)| *effect).filter(|effect| *effect != "Keep");
    let parts = known.map(|effect| (effect, count(effect))).filter(|(_, count)| *count > 0);
    let parts: Vec<String> = parts.map(|(effect, count)| machines(count, effect)).collect();
    (!parts.is_empty()).then(|| format!("in all, {}", parts.join(", ")))
}

/// Returns the order of the upgrades of a Cluster. Machines that a later upgrade replaces are in no rollout yet.
fn order(plan: &Value) -> Option<String> {
    let step = |(_, step): (usize, &Value)| {
        let part = |field: &str| text(step, field);
        Some(format!("{} {} to {}", part("kind")?, part("name")?, part("version")?))
    };
    let steps: Vec<String> = items(plan, "steps").filter_map(step).collect();
    (!steps.is_empty()).then(|| format!("upgrades in this order: {}", steps.join(", ")))
}

/// Returns the lines about what holds up a plan, and about quotas.
fn explanations(plan: &Value, kind: &str, name: &str) -> Vec<Line> {
    let line = |text: String| Line { text: format!("{kind} {name}: {text}"), is_effect: false };
    let list = |field: &str| {
        let texts = items(plan, field).filter_map(|(_, text)| text.as_str().map(str::to_owned));
        texts.collect::<Vec<String>>()
    };
    let obstacles = list("obstacles").into_iter().map(|text| line(format!("the steps wait: {text}")));
    obstacles.chain(list("forecasts").into_iter().map(line)).collect()
}

/// Returns the largest number of Machines that are made, or that go, directly one after the other.
fn most_at_once(plan: &Value) -> usize {
    let (mut most, mut run, mut last) = (0_usize, 0_usize, None);
    for (_, step) in items(plan, "steps") {
        let action = text(step, "action");
        run = if action == last { run.saturating_add(1) } else { 1 };
        most = most.max(run);
        last = action;
    }
    most
}

/// Returns the beginning of a sentence about a number of Machines.
fn machines(count: usize, effect: &str) -> String {
    let known = EFFECTS.iter().find(|(known, _)| *known == effect);
    let word = known.map_or(effect, |(_, word)| *word);
    if count == 1 { format!("1 Machine is {word}") } else { format!("{count} Machines are {word}") }
}

#[cfg(test)]
#[path = "plan_lines_tests.rs"]
mod tests;
