//! Position of a literal: what the code around it shows about its use.

use super::tokens::{Kind, Token, closing, is_sign};

/// Use of a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It certainly is the reason of a condition, or of an error that becomes one.
    Reason,
    /// It certainly is none: an Event, the type of a condition, or a comparison.
    Other,
    /// The code around it does not show it. A page or the list of other words decides.
    Open,
}

/// Calls with the position of the reason among their arguments: the last parts of the path, and the index.
const CALLS: [(&[&str], usize); 9] = [
    (&["Condition", "new"], 2),
    (&["ReconcileError", "waiting"], 0),
    (&["FailedStep", "new"], 0),
    (&["Outcome", "failed"], 1),
    (&["Unfound", "new"], 0),
    (&["Old", "no"], 1),
    (&["Old", "False"], 1),
    (&["Old", "Unknown"], 0),
    (&["pend"], 1),
];

/// Returns the uses of all literals: position among the tokens, and use.
pub(super) fn of(tokens: &[Token]) -> Vec<(usize, Use)> {
    let certain = reasons(tokens);
    let texts = tokens.iter().enumerate().filter(|(_, token)| token.text().is_some());
    texts
        .map(|(at, _)| {
            let is_reason = certain.contains(&at) || is_constant(tokens, at);
            let found = match (is_reason, is_other(tokens, at)) {
                (true, _) => Use::Reason,
                (false, true) => Use::Other,
                (false, false) => Use::Open,
            };
            (at, found)
        })
        .collect()
}

/// Returns the positions of the literals that are arguments for a reason, also inside of a block or a tuple.
fn reasons(tokens: &[Token]) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let calls =
            CALLS.into_iter().filter(|(path, _)| token.kind == Kind::Sign('(') && is_call(tokens, at, path));
        let arguments = calls.map(|(_, index)| argument(tokens, at, index));
        for (start, end) in arguments.chain(field(tokens, at)) {
            let texts = (start..end).filter(|at| tokens.get(*at).is_some_and(|it| it.text().is_some()));
            // A literal inside of a call is a part of another value.
            found.extend(texts.filter(|at| !is_inside_a_call(tokens, start, *at)));
        }
    }
    found
}

/// Returns true if the name before a bracket ends with this path.
fn is_call(tokens: &[Token], bracket: usize, path: &[&str]) -> bool {
    let mut at = bracket;
    for (count, part) in path.iter().rev().enumerate() {
        if count > 0 {
            let colons = at.checked_sub(2).and_then(|from| tokens.get(from..at));
            if !colons.is_some_and(|colons| colons.iter().all(|it| it.kind == Kind::Sign(':'))) {
                return false;
            }
            at -= 2;
        }
        let Some(before) = at.checked_sub(1) else { return false };
        if tokens.get(before).and_then(Token::name) != Some(part) {
            return false;
        }
        at = before;
    }
    let is_definition =
        at.checked_sub(1).and_then(|before| tokens.get(before)).and_then(Token::name) == Some("fn");
    !is_definition
}

/// Returns start and end of an argument of the call whose bracket is at this position.
fn argument(tokens: &[Token], bracket: usize, index: usize) -> (usize, usize) {
    let end = closing(tokens, bracket).saturating_sub(1);
    let (mut start, mut count, mut at) = (bracket + 1, 0, bracket + 1);
    while at < end {
        match tokens.get(at).map(|token| &token.kind) {
            Some(Kind::Sign('(' | '[' | '{')) => at = closing(tokens, at),
            Some(Kind::Sign(',')) if count == index => return (start, at),
            Some(Kind::Sign(',')) => {
                (start, count, at) = (at + 1, count + 1, at + 1);
            }
            _ => at += 1,
        }
    }
    if count == index { (start, end) } else { (end, end) }
}

fn is_inside_a_call(tokens: &[Token], start: usize, at: usize) -> bool {
    let mut open = Vec::new();
    for position in start..at {
        match tokens.get(position).map(|token| &token.kind) {
            Some(Kind::Sign('(')) => {
                // `Some` and `format!` pass their literal on.
                let name = |back: usize| {
                    position.checked_sub(back).and_then(|before| tokens.get(before)).and_then(Token::name)
                };
                open.push(name(1).is_some_and(|name| name != "Some"));
            }
            Some(Kind::Sign(')')) => drop(open.pop()),
            _ => {}
        }
    }
    open.contains(&true)
}

/// Returns start and end of the value of a field `reason`, if its name is at this position.
fn field(tokens: &[Token], at: usize) -> Option<(usize, usize)> {
    let is_field = tokens.get(at).and_then(Token::name) == Some("reason") && is_sign(tokens.get(at + 1), ':');
    // A path such as `reason::X` has two colons.
    if !is_field || is_sign(tokens.get(at + 2), ':') {
        return None;
    }
    let (start, mut end) = (at + 2, at + 2);
    while let Some(token) = tokens.get(end) {
        match token.kind {
            Kind::Sign(',' | ')' | '}' | ';') => break,
            Kind::Sign('(' | '[' | '{') => end = closing(tokens, end),
            _ => end += 1,
        }
    }
    Some((start, end))
}

/// Returns true for the value of a constant whose name says that it is a reason.
fn is_constant(tokens: &[Token], at: usize) -> bool {
    // `const REASON: &'static str =` has the most tokens.
    let from = at.saturating_sub(8);
    let line = tokens.get(from..at).unwrap_or_default();
    let Some(start) = line.iter().rposition(|token| token.name() == Some("const")) else { return false };
    let name = line.get(start + 1).and_then(Token::name).unwrap_or_default();
    is_sign(at.checked_sub(1).and_then(|before| tokens.get(before)), '=') && name.ends_with("REASON")
}

/// Returns true for a literal that is no reason: that of an Event, the type of a condition, the name of a kind, or one
/// that is only compared.
fn is_other(tokens: &[Token], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|before| tokens.get(before));
    let after = |ahead: usize| tokens.get(at + ahead);
    let is_event = is_sign(before(1), ',')
        && before(2).and_then(Token::name).is_some_and(|name| matches!(name, "Normal" | "Warning"))
        && before(5).and_then(Token::name) == Some("Severity");
    let is_argument = is_sign(before(1), '(')
        && before(2).and_then(Token::name).is_some_and(|name| {
            matches!(name, "condition" | "holds" | "fails" | "debug_struct" | "debug_tuple")
        });
    let is_type = is_sign(before(1), '(')
        && before(2).and_then(Token::name) == Some("new")
        && before(5).and_then(Token::name) == Some("Condition");
    let is_kind = is_sign(before(1), ':') && before(2).and_then(Token::name) == Some("kind");
    let is_compared = is_sign(before(1), '=') && (is_sign(before(2), '=') || is_sign(before(2), '!'))
        || is_sign(after(1), '=') && is_sign(after(2), '>');
    is_event || is_argument || is_type || is_kind || is_compared
}

#[cfg(test)]
mod tests {
    use super::super::tokens;
    use super::*;

    fn uses(source: &str) -> Vec<(String, Use)> {
        let tokens = tokens::of(source);
        let text = |at: usize| tokens[at].text().unwrap().to_owned();
        of(&tokens).into_iter().map(|(at, found)| (text(at), found)).collect()
    }

    #[test]
    fn a_literal_in_the_place_of_a_reason_is_one() {
        let table = [
            "Condition::new(kind, no,\n \"R\", &message, now)",
            "Condition::new(kind, no, if x { \"R\" } else { reason }, &message, now)",
            "ReconcileError::waiting(\"R\", format!(message))",
            "report::pend(context, \"R\", why)",
            "Outcome { reason: \"R\", ..outcome }",
            "CertificateSigningRequestCondition { reason: Some(\"R\".to_owned()) }",
            "pub(crate) const REASON: &str = \"R\";",
            "const REASON: &'static str = \"R\";",
            "Condition { reason: if x { text } else { \"R\".to_owned() }, message }",
            "Condition::new(kind, no, &format!(\"R\"), &message, now)",
            "Old::no(severity, \"R\", message)",
        ];
        for source in table {
            assert_eq!(uses(source), [("R".to_owned(), Use::Reason)], "{source}");
        }
    }

    #[test]
    fn events_types_and_comparisons_are_no_reasons() {
        let table = [
            "events.record(object, Severity::Warning, \"X\", &message)",
            "machine.condition(\"X\")",
            "Condition::new(\"X\", status, reason, message, now)",
            "Target { kind: \"X\", ..target }",
            "reason == \"X\"",
            "match text { \"X\" => a(), _ => b() }",
        ];
        for source in table {
            assert_eq!(uses(source), [("X".to_owned(), Use::Other)], "{source}");
        }
    }

    #[test]
    fn anything_else_is_open() {
        for source in ["(no, \"X\", text)", "let reason = \"X\";", "Condition::new(k, s, word(\"X\"), m, n)"]
        {
            assert_eq!(uses(source), [("X".to_owned(), Use::Open)], "{source}");
        }
    }
}
