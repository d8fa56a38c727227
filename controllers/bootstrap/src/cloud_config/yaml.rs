//! YAML with a fixed order of keys, for the YAML 1.1 parser of cloud-init.
//!
//! A word such as `no` or `0644` is another type in YAML 1.1 than in 1.2, so every text is quoted or a literal block.
//! cloud-init renders Jinja before it parses YAML. A text is therefore not escaped if that can be avoided.

/// Node of the document's tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Text(String),
    Flag(bool),
    Number(i64),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl Node {
    /// Creates a text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a list of texts.
    pub(super) fn texts(texts: &[String]) -> Self {
        Self::List(texts.iter().map(Self::text).collect())
    }
}

/// Returns the YAML of a map, which is the root of a document.
pub(super) fn document(entries: &[(String, Node)]) -> String {
    let mut to = String::new();
    map(&mut to, entries, 0);
    to
}

/// Returns true if a literal block can contain the character.
pub(super) fn is_printable(character: char) -> bool {
    matches!(character, '\n' | '\t' | ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{fefe}'
        | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
}

/// Writes the entries of a map, each on a new line. The first one is on the current line.
fn map(to: &mut String, entries: &[(String, Node)], indent: usize) {
    for (number, (key, value)) in entries.iter().enumerate() {
        if number > 0 {
            to.push_str(&" ".repeat(indent));
        }
        if key.chars().all(|character| character.is_ascii_lowercase() || character == '_') {
            to.push_str(key);
        } else {
            quoted(to, key);
        }
        to.push(':');
        node(to, value, indent);
    }
}

/// Writes the value of a key, up to the end of its last line. `indent` is that of the key.
fn node(to: &mut String, node: &Node, indent: usize) {
    match node {
        Node::List(items) if items.is_empty() => to.push_str(" []\n"),
        Node::Map(entries) if entries.is_empty() => to.push_str(" {}\n"),
        Node::List(items) => {
            to.push('\n');
            for item in items {
                to.push_str(&" ".repeat(indent));
                to.push('-');
                list_item(to, item, indent);
            }
        }
        Node::Map(entries) => {
            to.push('\n');
            to.push_str(&" ".repeat(indent + 2));
            map(to, entries, indent + 2);
        }
        Node::Text(text) => scalar(to, text, indent),
        Node::Flag(flag) => line(to, flag),
        Node::Number(number) => line(to, number),
    }
}

/// Writes an item after its dash. A map starts on the line of the dash.
fn list_item(to: &mut String, item: &Node, indent: usize) {
    match item {
        Node::Map(entries) if !entries.is_empty() => {
            to.push(' ');
            map(to, entries, indent + 2);
        }
        Node::List(items) if !items.is_empty() => {
            to.push_str(" [");
            for (number, item) in items.iter().enumerate() {
                to.push_str(if number > 0 { ", " } else { "" });
                flow(to, item);
            }
            to.push_str("]\n");
        }
        Node::Text(text) if !needs_literal(text) => {
            to.push(' ');
            quoted(to, text);
            to.push('\n');
        }
        other => node(to, other, indent),
    }
}

/// Writes an item of a list on one line.
fn flow(to: &mut String, item: &Node) {
    match item {
        Node::Number(number) => to.push_str(&number.to_string()),
        Node::Flag(flag) => to.push_str(&flag.to_string()),
        Node::Text(text) => quoted(to, text),
        Node::List(_) | Node::Map(_) => to.push_str("null"),
    }
}

fn line(to: &mut String, value: &impl std::fmt::Display) {
    to.push(' ');
    to.push_str(&value.to_string());
    to.push('\n');
}

/// Writes a text as a literal block if it has several lines or needs that, else quoted.
fn scalar(to: &mut String, text: &str, indent: usize) {
    let body = text.trim_end_matches('\n');
    let trailing = text.len() - body.len();
    let is_line = !text.contains('\n') && !needs_literal(text);
    if is_line || body.is_empty() || !text.chars().all(is_printable) {
        to.push(' ');
        quoted(to, text);
        to.push('\n');
        return;
    }
    to.push_str(" |");
    if body.starts_with([' ', '\t', '\n']) {
        // Without this digit, the parser would take the first line's blanks for the indentation.
        to.push('2');
    }
    to.push_str(match trailing {
        0 => "-",
        1 => "",
        _ => "+",
    });
    to.push('\n');
    for line in body.split('\n') {
        if !line.is_empty() {
            to.push_str(&" ".repeat(indent + 2));
            to.push_str(line);
        }
        to.push('\n');
    }
    to.push_str(&"\n".repeat(trailing.saturating_sub(1)));
}

/// Returns true if quotes would escape a part of a Jinja expression, which cloud-init renders before it parses YAML.
fn needs_literal(text: &str) -> bool {
    let has_jinja = ["{{", "{%"].iter().any(|start| text.contains(start));
    has_jinja && text.contains('\'') && text.contains(['"', '\\']) && text.chars().all(is_printable)
}

/// Writes a text on one line: in single quotes, which need no escapes, if the text would need one in double quotes.
fn quoted(to: &mut String, text: &str) {
    let printable = text.chars().all(|character| character >= ' ' && is_printable(character));
    if printable && text.contains(['"', '\\']) && !text.contains('\'') {
        to.push('\'');
        to.push_str(text);
        to.push('\'');
        return;
    }
    to.push('"');
    for character in text.chars() {
        match character {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            _ if is_printable(character) => to.push(character),
            _ => to.push_str(&format!("\\U{:08x}", u32::from(character))),
        }
    }
    to.push('"');
}
