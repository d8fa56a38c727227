//! What is wrong with an expression, and where, as CEL shows it.

use std::sync::Arc;

use kube_cel::cel::common::ast::SourceInfo;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{ParseError, ParseErrors};

use super::macros;
use super::negation::without_pairs;

/// CEL shows no longer lines. Unit: bytes.
const LONGEST_LINE: usize = 16384;

/// CEL tells no more errors of an expression than this, and of others only how many there are.
const MOST: usize = 100;

/// Something that is wrong with a part of an expression.
#[derive(Debug)]
pub(super) struct TypeError {
    /// The part's number in the syntax tree.
    pub(super) id: u64,
    pub(super) text: String,
}

/// What is wrong with an expression, as far as it is told.
#[derive(Debug, Default)]
pub(super) struct TypeErrors {
    told: Vec<TypeError>,
    more: usize,
}

impl TypeErrors {
    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    pub(super) fn push(&mut self, error: TypeError) {
        if self.told.len() < MOST {
            self.told.push(error);
        } else {
            self.more += 1;
        }
    }
}

/// A line and a column of a text, both from one; columns are letters.
type Position = (usize, usize);

/// The errors with their places, in the order of places.
pub(super) fn shown(source: &str, errors: &TypeErrors) -> String {
    let parts = parts(source);
    let offset = |id| usize::try_from(parts.as_ref()?.offset_for(macros::place(id))?.0).ok();
    let place = |error: &TypeError| offset(error.id).map_or((1, 1), |offset| position(source, offset));
    let mut placed: Vec<(Position, &str)> =
        errors.told.iter().map(|error| (place(error), error.text.as_str())).collect();
    placed.sort_by_key(|(place, _)| *place);
    joined(placed.into_iter().map(|(place, text)| one(source, place, text)), errors.more)
}

/// An error after the other, and how many are left out.
fn joined(errors: impl Iterator<Item = String>, more: usize) -> String {
    let left_out = (more > 0).then(|| format!("{more} more errors were truncated"));
    errors.chain(left_out).collect::<Vec<_>>().join("\n")
}

/// What the parser does not understand.
pub(super) fn unread(source: &str, errors: &ParseErrors) -> String {
    let number = |number: isize| usize::try_from(number).unwrap_or_default();
    let place = |(line, column)| (number(line).max(1), number(column).max(1));
    let is_of_syntax = |error: &&ParseError| error.msg.starts_with("Syntax error:");
    // What follows from what is not understood is not told.
    let follows = |error: &&ParseError| error.msg.starts_with("Incomplete ");
    let has_any = errors.errors.iter().any(|error| is_of_syntax(&error));
    let told: Vec<_> = errors.errors.iter().filter(|error| !has_any || !follows(error)).collect();
    let lines = told.iter().take(MOST).map(|error| {
        let place = place(error.pos);
        one(source, place, &in_upstream_words(source, place, &error.msg))
    });
    joined(lines, told.len().saturating_sub(MOST))
}

/// What can go on after any value: upstream's parser does not tell it among what it expected.
const OPERATORS: [&str; 17] = [
    "'=='", "'!='", "'in'", "'<'", "'<='", "'>='", "'>'", "'&&'", "'||'", "'['", "'.'", "'-'", "'?'", "'+'",
    "'*'", "'/'", "'%'",
];

fn in_upstream_words(source: &str, place: Position, text: &str) -> String {
    if text == "argument must be a simple name" && is_in_collector(source, place) {
        return "argument is not an identifier".to_owned();
    }
    let Some((before, expected)) = text.split_once(" expecting {") else { return text.to_owned() };
    if !expected.contains("'==', '!=', 'in'") {
        return text.to_owned();
    }
    let expected: Vec<&str> =
        expected.trim_end_matches('}').split(", ").filter(|one| !OPERATORS.contains(one)).collect();
    match expected.as_slice() {
        [only] => format!("{before} expecting {only}"),
        _ => format!("{before} expecting {{{}}}", expected.join(", ")),
    }
}

/// Whether the first argument of `map` or `filter` is there.
fn is_in_collector(source: &str, (line, column): Position) -> bool {
    let lines = source.split('\n').take(line).collect::<Vec<_>>();
    let Some((last, others)) = lines.split_last() else { return false };
    let last: String = last.chars().take(column - 1).collect();
    let before = format!("{}\n{last}", others.join("\n"));
    let name = before.trim_end().strip_suffix('(').unwrap_or_default().trim_end();
    name.ends_with("map") || name.ends_with("filter")
}

/// An error, the line it is in, and a mark below it. Letters that are wide have wide dots.
fn one(source: &str, (line, column): Position, text: &str) -> String {
    let mut told = format!("ERROR: <input>:{line}:{column}: {text}");
    let shown = source.split('\n').nth(line - 1).filter(|shown| shown.len() <= LONGEST_LINE);
    if let Some(shown) = shown {
        let mut letters = shown.chars();
        let dots: String =
            letters.by_ref().take(column - 1).map(|c| if c.is_ascii() { '.' } else { '．' }).collect();
        let mark = if letters.next().is_none_or(|letter| letter.is_ascii()) { '^' } else { '＾' };
        told.push_str(&format!("\n | {}\n | {dots}{mark}", shown.replace('\t', " ")));
    }
    told
}

/// Where the parts of an expression begin. The parser tells that with an error alone, so it is given one: what
/// stands behind the expression changes nothing in it.
fn parts(source: &str) -> Option<Arc<SourceInfo>> {
    let parser = Parser::new().enable_optional_syntax(true);
    let told = parser.parse(&format!("{}\n)", without_pairs(source))).err()?;
    told.errors.into_iter().find_map(|error| error.source_info)
}

/// The line and the column of a letter.
fn position(source: &str, offset: usize) -> Position {
    source.chars().take(offset).fold((1, 1), |(line, column), letter| match letter {
        '\n' => (line + 1, 1),
        _ => (line, column + 1),
    })
}
