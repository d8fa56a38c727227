//! Tokens of a template.

use super::TemplateError;

/// Token of an action, or the text between two actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// Text outside of actions.
    Plain(String),
    /// Start of an action.
    Open,
    /// End of an action.
    Close,
    /// Keyword, function or constant.
    Word(String),
    /// Names of a field, e.g. `controlPlane` and `version`.
    Field(Vec<String>),
    /// Text literal.
    Text(String),
    /// One of `(`, `)` and `|`.
    Sign(char),
}

/// Token with the byte at which it starts.
pub(super) type Placed = (usize, Token);

/// Returns the error at a byte of the template.
pub(super) fn error(template: &str, at: usize, message: impl Into<String>) -> TemplateError {
    let before = template.get(..at).unwrap_or(template);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    TemplateError::At { line, column, message: message.into() }
}

/// Returns the tokens of a template.
pub(super) fn tokens(template: &str) -> Result<Vec<Placed>, TemplateError> {
    let mut tokens = Vec::new();
    let (mut at, mut trim) = (0, false);
    while let Some(rest) = template.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(open) = rest.find("{{") else {
            tokens.push((at, Token::Plain(trimmed(rest, trim, false))));
            break;
        };
        let inside = at + open + 2;
        let after = template.get(inside..).unwrap_or_default();
        let trims_before = after.starts_with('-') && after.get(1..).is_some_and(|it| it.starts_with(blank));
        tokens.push((at, Token::Plain(trimmed(rest.get(..open).unwrap_or_default(), trim, trims_before))));
        tokens.push((at + open, Token::Open));
        let start = inside + usize::from(trims_before);
        (at, trim) = action(template, at + open, start, &mut tokens)?;
    }
    Ok(tokens)
}

fn blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

fn trimmed(text: &str, start: bool, end: bool) -> String {
    let text = if start { text.trim_start_matches(blank) } else { text };
    let text = if end { text.trim_end_matches(blank) } else { text };
    text.to_owned()
}

/// Reads the tokens of an action. Returns the byte after it, and whether it trims the text that follows.
fn action(
    template: &str,
    open: usize,
    mut at: usize,
    tokens: &mut Vec<Placed>,
) -> Result<(usize, bool), TemplateError> {
    loop {
        let rest = template.get(at..).unwrap_or_default();
        let content = rest.trim_start_matches(blank);
        let skipped = rest.len() - content.len();
        at += skipped;
        if content.is_empty() {
            return Err(error(template, open, "\"{{\" has no \"}}\""));
        }
        if let Some(end) = content.strip_prefix("/*").and_then(|comment| comment.find("*/")) {
            at += end + 4;
            continue;
        }
        if content.starts_with("}}") {
            tokens.push((at, Token::Close));
            return Ok((at + 2, false));
        }
        if skipped > 0 && content.starts_with("-}}") {
            tokens.push((at, Token::Close));
            return Ok((at + 3, true));
        }
        let (length, token) = token(template, at, content)?;
        tokens.push((at, token));
        at += length;
    }
}

fn token(template: &str, at: usize, content: &str) -> Result<(usize, Token), TemplateError> {
    let letter = |character: char| character.is_alphanumeric() || character == '_';
    let word = |text: &str| text.find(|character| !letter(character)).unwrap_or(text.len());
    let first = content.chars().next().unwrap_or_default();
    match first {
        '(' | ')' | '|' => Ok((1, Token::Sign(first))),
        '"' | '`' => literal(template, at, content, first),
        '.' => {
            let length = content.find(|it| !letter(it) && it != '.').unwrap_or(content.len());
            let names = content.get(1..length).unwrap_or_default();
            let names: Vec<String> = names.split('.').map(ToOwned::to_owned).collect();
            if names.iter().any(String::is_empty) {
                return Err(error(template, at, "a field needs a name"));
            }
            Ok((length, Token::Field(names)))
        }
        _ if letter(first) && !first.is_numeric() => {
            let length = word(content);
            Ok((length, Token::Word(content.get(..length).unwrap_or_default().to_owned())))
        }
        _ => Err(error(template, at, format!("{:?} is not supported", first.to_string()))),
    }
}

/// Reads a text literal. Only double quotes have escapes, of which `\n`, `\t`, `\"` and `\\` are supported.
fn literal(template: &str, at: usize, content: &str, quote: char) -> Result<(usize, Token), TemplateError> {
    let mut text = String::new();
    let mut characters = content.char_indices().skip(1);
    while let Some((index, character)) = characters.next() {
        match character {
            _ if character == quote => return Ok((index + 1, Token::Text(text))),
            '\\' if quote == '"' => match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(escaped @ ('"' | '\\')) => text.push(escaped),
                _ => return Err(error(template, at + index, "this escape is not supported")),
            },
            '\n' if quote == '"' => break,
            _ => text.push(character),
        }
    }
    Err(error(template, at, "a text has no end"))
}
