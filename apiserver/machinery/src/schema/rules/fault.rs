//! What is wrong with an expression, and where, as CEL shows it.

use std::sync::Arc;

use kube_cel::cel::ParseErrors;
use kube_cel::cel::common::ast::SourceInfo;
use kube_cel::cel::parser::Parser;

/// CEL shows no longer lines. Unit: bytes.
const LONGEST_LINE: usize = 16384;

/// Something that is wrong with a part of an expression.
#[derive(Debug)]
pub(super) struct Fault {
    /// The part's number in the syntax tree.
    pub(super) id: u64,
    pub(super) text: String,
}

/// A line and a column of a text, both from one; columns are letters.
type Position = (usize, usize);

/// Every fault with its place, in the order of places.
pub(super) fn shown(source: &str, faults: &[Fault]) -> String {
    let parts = parts(source);
    let offset = |id| usize::try_from(parts.as_ref()?.offset_for(id)?.0).ok();
    let place = |fault: &Fault| offset(fault.id).map_or((1, 1), |offset| position(source, offset));
    let mut placed: Vec<(Position, &str)> =
        faults.iter().map(|fault| (place(fault), fault.text.as_str())).collect();
    placed.sort_by_key(|(place, _)| *place);
    let lines: Vec<String> = placed.into_iter().map(|(place, text)| one(source, place, text)).collect();
    lines.join("\n")
}

/// What the parser does not understand.
pub(super) fn unread(source: &str, errors: &ParseErrors) -> String {
    let number = |number: isize| usize::try_from(number).unwrap_or_default();
    let place = |(line, column)| (number(line).max(1), number(column).max(1));
    let lines: Vec<String> =
        errors.errors.iter().map(|error| one(source, place(error.pos), &error.msg)).collect();
    lines.join("\n")
}

/// A fault, the line it is in, and a mark below it. Letters that are wide have wide dots.
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
    let told = parser.parse(&format!("{source}\n)")).err()?;
    told.errors.into_iter().find_map(|error| error.source_info)
}

/// The line and the column of a letter.
fn position(source: &str, offset: usize) -> Position {
    source.chars().take(offset).fold((1, 1), |(line, column), letter| match letter {
        '\n' => (line + 1, 1),
        _ => (line, column + 1),
    })
}
