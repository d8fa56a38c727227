//! Tree as a table for people.

use apiserver_types::{Condition, ConditionStatus};
use jiff::Timestamp;

use super::age::age;
use super::conditions::ConditionFilter;
use super::style::{Paint, Style, neutral};
use crate::tree::{Cause, Node, Severity, Tree};

/// Widths of the terminal below which VERSION and SINCE are left out. WHY needs the room more.
const HIDDEN_BELOW: [(usize, usize); 2] = [(2, 100), (4, 80)];

/// Column with the text that explains a line.
const WHY: usize = 5;

/// Columns with text that is aligned to the right: READY and SINCE.
const RIGHT_ALIGNED: [usize; 2] = [1, 4];

/// Titles of the columns.
const TITLES: [&str; 6] = ["NAME", "READY", "VERSION", "STATE", "SINCE", "WHY"];

/// Narrowest column for WHY. On a narrower terminal, lines wrap.
const NARROWEST_WHY: usize = 20;

/// Line of the table, before it is aligned.
struct Row {
    prefix: String,
    cells: [String; 6],
    severity: Option<Severity>,
}

/// Renders a tree as the lines of a table. `now` is the time for ages.
#[must_use]
pub fn render(tree: &Tree, style: Style, filter: &ConditionFilter, now: Timestamp) -> Vec<String> {
    let header = Row { prefix: String::new(), cells: TITLES.map(str::to_owned), severity: None };
    let mut rows = vec![header];
    add(&mut rows, &tree.root, ("", ""), style, filter, now);
    align(&rows, style)
}

/// Returns one line for each object, without alignment and ages. A line changes only if the object changes.
#[must_use]
pub fn changes(tree: &Tree) -> Vec<String> {
    let style = Style::default();
    let nodes = tree.root.walk();
    let lines = nodes.into_iter().map(|node| {
        let why = one_line(why(node));
        let parts = [
            style.sign(node.severity).to_owned(),
            identity(node),
            ready(node, style),
            node.version.clone(),
            node.state.clone(),
            why,
        ];
        let parts: Vec<String> = parts
            .iter()
            .enumerate()
            .filter_map(|(index, part)| {
                let repeats_sign = index == 2 && node.counts.is_none();
                (!part.is_empty() && !repeats_sign).then(|| neutral(part))
            })
            .collect();
        parts.join("  ")
    });
    lines.collect()
}

/// Returns the first line, and the lines after it as long as the one before is a title that ends with a colon.
fn one_line(lines: Vec<String>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_start_matches([' ', '*']));
        if !text.ends_with(':') {
            break;
        }
        text.push(' ');
    }
    text.trim_end().to_owned()
}

/// Returns kind and name, also for an object whose title has no name.
fn identity(node: &Node) -> String {
    if node.title == node.kind { format!("{} {}", node.kind, node.name) } else { node.title.clone() }
}

/// Adds the lines of a node. `trunks` are the prefixes of its own line and of the lines below.
fn add(
    rows: &mut Vec<Row>,
    node: &Node,
    trunks: (&str, &str),
    style: Style,
    filter: &ConditionFilter,
    now: Timestamp,
) {
    let mut lines = why(node).into_iter();
    let since = node.since.map(|since| age(since, now)).unwrap_or_default();
    rows.push(Row {
        prefix: trunks.0.to_owned(),
        cells: [
            node.title.clone(),
            ready(node, style),
            node.version.clone(),
            node.state.clone(),
            since,
            lines.next().unwrap_or_default(),
        ],
        severity: Some(node.severity),
    });
    let conditions = filter.select(node);
    let is_leaf = conditions.is_empty() && node.children.is_empty();
    let trunk = if is_leaf { trunks.1.to_owned() } else { format!("{}│", trunks.1) };
    rows.extend(lines.map(|line| continuation(&trunk, line)));
    let count = conditions.len().saturating_add(node.children.len());
    for (index, condition) in conditions.into_iter().enumerate() {
        let (branch, trunk) = branches(trunks.1, index.saturating_add(1) == count);
        rows.extend(condition_rows(condition, &branch, &trunk, style, now));
    }
    let first = count.saturating_sub(node.children.len());
    for (index, child) in node.children.iter().enumerate() {
        let is_last = first.saturating_add(index).saturating_add(1) == count;
        let (branch, trunk) = branches(trunks.1, is_last);
        add(rows, child, (&branch, &trunk), style, filter, now);
    }
}

fn branches(trunk: &str, is_last: bool) -> (String, String) {
    let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
    (format!("{trunk}{branch}"), format!("{trunk}{below}"))
}

fn continuation(trunk: &str, line: String) -> Row {
    let mut cells: [String; 6] = Default::default();
    if let Some(cell) = cells.get_mut(WHY) {
        *cell = line;
    }
    Row { prefix: trunk.to_owned(), cells, severity: None }
}

fn condition_rows(
    condition: &Condition,
    branch: &str,
    trunk: &str,
    style: Style,
    now: Timestamp,
) -> Vec<Row> {
    let severity = Severity::of(condition);
    let status = match condition.status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    let since: Option<Timestamp> = condition.last_transition_time.0.parse().ok();
    let text = if condition.message.is_empty() {
        condition.reason.clone()
    } else {
        format!("{}: {}", condition.reason, condition.message.trim_end())
    };
    let mut lines = text.lines().map(str::to_owned);
    let cells = [
        condition.kind.clone(),
        style.sign(severity).to_owned(),
        String::new(),
        status.to_owned(),
        since.map(|since| age(since, now)).unwrap_or_default(),
        lines.next().unwrap_or_default(),
    ];
    let first = Row { prefix: branch.to_owned(), cells, severity: Some(severity) };
    std::iter::once(first).chain(lines.map(|line| continuation(trunk, line))).collect()
}

/// Returns the counts, or the sign for an object without counts.
fn ready(node: &Node, style: Style) -> String {
    match node.counts {
        Some(counts) => format!("{}/{}", counts.ready, counts.desired),
        None => style.sign(node.severity).to_owned(),
    }
}

/// Returns the lines that explain the state.
fn why(node: &Node) -> Vec<String> {
    let is_group = node.uid.is_empty() && node.name.contains(',') && !node.note.is_empty();
    let names = is_group.then(|| node.note.clone());
    let cause = node.cause.as_ref().map(|cause| {
        // The column STATE has the reason already.
        let repeats = cause.reason == node.state && !cause.message.is_empty();
        if repeats { Cause { reason: String::new(), ..cause.clone() } } else { cause.clone() }
    });
    match cause.as_ref().map(Cause::lines) {
        Some(lines) => lines.into_iter().chain(names).collect(),
        None if node.note.is_empty() => Vec::new(),
        None => vec![node.note.clone()],
    }
}

fn align(rows: &[Row], style: Style) -> Vec<String> {
    let shown = |column: &usize| {
        let limit = HIDDEN_BELOW.iter().find(|(hidden, _)| hidden == column).map(|(_, limit)| *limit);
        style.width.zip(limit).is_none_or(|(width, limit)| width >= limit)
    };
    let columns: Vec<usize> = (0..WHY).filter(shown).collect();
    let cells: Vec<Vec<String>> = rows.iter().map(|row| texts(row, style)).collect();
    let width_of = |column: usize| {
        let lengths = cells.iter().filter_map(|cells| cells.get(column)).map(|cell| cell.chars().count());
        lengths.max().unwrap_or_default()
    };
    let widths: Vec<(usize, usize)> = columns.into_iter().map(|column| (column, width_of(column))).collect();
    let before: usize = widths.iter().map(|(_, width)| width.saturating_add(2)).sum();
    let room = style.width.map(|width| width.saturating_sub(before).max(NARROWEST_WHY));
    let lines = rows.iter().zip(&cells).map(|(row, cells)| line(row, cells, &widths, room, style));
    lines.collect()
}

/// Returns the cells of a row as they are shown, with the prefix in the first one.
fn texts(row: &Row, style: Style) -> Vec<String> {
    let cells = row.cells.iter().enumerate();
    let cells = cells.map(|(column, cell)| {
        let cell = if column == 0 { format!("{}{cell}", row.prefix) } else { cell.clone() };
        style.text(&neutral(&cell))
    });
    cells.collect()
}

fn line(row: &Row, cells: &[String], widths: &[(usize, usize)], room: Option<usize>, style: Style) -> String {
    let mut line = String::new();
    for (column, width) in widths {
        let cell = cells.get(*column).map(String::as_str).unwrap_or_default();
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        let painted = painted(row, *column, cell, style);
        if RIGHT_ALIGNED.contains(column) {
            line.push_str(&format!("{padding}{painted}  "));
        } else {
            line.push_str(&format!("{painted}{padding}  "));
        }
    }
    let why = shortened(cells.get(WHY).map(String::as_str).unwrap_or_default(), room, style);
    let paint = match row.severity {
        Some(Severity::Failed) => Paint::Severity(Severity::Failed),
        _ => Paint::Plain,
    };
    line.push_str(&style.paint(&why, paint));
    line.trim_end().to_owned()
}

fn painted(row: &Row, column: usize, cell: &str, style: Style) -> String {
    match (column, row.severity) {
        (0, severity) => {
            let length = style.text(&row.prefix).len();
            let (prefix, title) = cell.split_at_checked(length).unwrap_or(("", cell));
            let paint = if severity.is_some() { Paint::Name } else { Paint::Plain };
            format!("{}{}", style.paint(prefix, Paint::Structure), style.paint(title, paint))
        }
        (1 | 3, Some(severity)) => style.paint(cell, Paint::Severity(severity)),
        _ => cell.to_owned(),
    }
}

/// Returns the text with at most `room` characters, with an ellipsis where it was shortened.
fn shortened(text: &str, room: Option<usize>, style: Style) -> String {
    let Some(room) = room.filter(|room| text.chars().count() > *room) else { return text.to_owned() };
    let ellipsis = style.text("…");
    let kept: String = text.chars().take(room.saturating_sub(ellipsis.chars().count())).collect();
    format!("{kept}{ellipsis}")
}
