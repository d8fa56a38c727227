//! Type errors and syntax errors of expressions, with their locations in CEL's form.

use std::sync::Arc;

use kube_cel::cel::common::ast::SourceInfo;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{ParseError, ParseErrors};

use super::macros;
use super::negation::without_pairs;

/// Longest line that CEL shows. Unit: bytes.
const LONGEST_LINE: usize = 16384;

/// Largest number of errors that CEL shows for an expression. It counts the others.
const MOST: usize = 100;

/// Error of one part of an expression.
#[derive(Debug)]
pub(super) struct TypeError {
    /// Id of the part in the syntax tree.
    pub(super) id: u64,
    pub(super) text: String,
}

/// Errors of an expression, up to the limit.
#[derive(Debug, Default)]
pub(super) struct TypeErrors {
    shown: Vec<TypeError>,
    more: usize,
}

impl TypeErrors {
    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    pub(super) fn push(&mut self, error: TypeError) {
        if self.shown.len() < MOST {
            self.shown.push(error);
        } else {
            self.more += 1;
        }
    }
}

/// Line and column of a text, both counted from one. Columns count letters.
type Position = (usize, usize);

/// Returns the errors with their locations, in the order of locations.
pub(super) fn shown(source: &str, errors: &TypeErrors) -> String {
    let parts = parts(source);
    let offset = |id| usize::try_from(parts.as_ref()?.offset_for(macros::location(id))?.0).ok();
    let at = |error: &TypeError| offset(error.id).map_or((1, 1), |offset| position(source, offset));
    let mut located: Vec<(Position, &str)> =
        errors.shown.iter().map(|error| (at(error), error.text.as_str())).collect();
    located.sort_by_key(|(at, _)| *at);
    joined(located.into_iter().map(|(at, text)| one(source, at, text)), errors.more)
}

/// Joins errors, and adds the number of those that are left out.
fn joined(errors: impl Iterator<Item = String>, more: usize) -> String {
    let left_out = (more > 0).then(|| format!("{more} more errors were truncated"));
    errors.chain(left_out).collect::<Vec<_>>().join("\n")
}

/// Returns the syntax errors of an expression.
pub(super) fn unread(source: &str, errors: &ParseErrors) -> String {
    let number = |number: isize| usize::try_from(number).unwrap_or_default();
    let at = |(line, column)| (number(line).max(1), number(column).max(1));
    let is_of_syntax = |error: &&ParseError| error.msg.starts_with("Syntax error:");
    // Consequential errors are left out.
    let follows = |error: &&ParseError| error.msg.starts_with("Incomplete ");
    let has_any = errors.errors.iter().any(|error| is_of_syntax(&error));
    let relevant: Vec<_> = errors.errors.iter().filter(|error| !has_any || !follows(error)).collect();
    let lines = relevant.iter().take(MOST).map(|error| {
        let at = at(error.pos);
        one(source, at, &in_upstream_words(source, at, &error.msg))
    });
    joined(lines, relevant.len().saturating_sub(MOST))
}

/// Operators that can follow any value. Upstream's parser does not list them as expected tokens.
const OPERATORS: [&str; 17] = [
    "'=='", "'!='", "'in'", "'<'", "'<='", "'>='", "'>'", "'&&'", "'||'", "'['", "'.'", "'-'", "'?'", "'+'",
    "'*'", "'/'", "'%'",
];

fn in_upstream_words(source: &str, at: Position, text: &str) -> String {
    if text == "argument must be a simple name" && is_in_collector(source, at) {
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

/// Reports whether the location is after the first argument of `map` or `filter`.
fn is_in_collector(source: &str, (line, column): Position) -> bool {
    let lines = source.split('\n').take(line).collect::<Vec<_>>();
    let Some((last, others)) = lines.split_last() else { return false };
    let last: String = last.chars().take(column - 1).collect();
    let before = format!("{}\n{last}", others.join("\n"));
    let name = before.trim_end().strip_suffix('(').unwrap_or_default().trim_end();
    name.ends_with("map") || name.ends_with("filter")
}

/// Returns an error, its line, and a marker below it. Wide letters have wide dots.
fn one(source: &str, (line, column): Position, text: &str) -> String {
    let mut message = format!("ERROR: <input>:{line}:{column}: {text}");
    let shown = source.split('\n').nth(line - 1).filter(|shown| shown.len() <= LONGEST_LINE);
    if let Some(shown) = shown {
        let mut letters = shown.chars();
        let dots: String =
            letters.by_ref().take(column - 1).map(|c| if c.is_ascii() { '.' } else { '．' }).collect();
        let mark = if letters.next().is_none_or(|letter| letter.is_ascii()) { '^' } else { '＾' };
        message.push_str(&format!("\n | {}\n | {dots}{mark}", shown.replace('\t', " ")));
    }
    message
}

/// Returns the offsets of the parts of an expression. The parser returns them only with an error, so an error is
/// appended to the expression, which changes nothing before it.
fn parts(source: &str) -> Option<Arc<SourceInfo>> {
    let parser = Parser::new().enable_optional_syntax(true);
    let errors = parser.parse(&format!("{}\n)", without_pairs(source))).err()?;
    errors.errors.into_iter().find_map(|error| error.source_info)
}

/// Returns the line and the column of an offset.
fn position(source: &str, offset: usize) -> Position {
    source.chars().take(offset).fold((1, 1), |(line, column), letter| match letter {
        '\n' => (line + 1, 1),
        _ => (line, column + 1),
    })
}
