//! Tokens of a Rust source, as far as the search for reasons needs them: names, signs and text literals.
//!
//! A scan of lines would miss literals that stand alone on their line, and would find those in comments.

/// Token with its line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) line: usize,
}

/// Kind of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Identifier or keyword. Numbers and lifetimes count as such, too.
    Name(String),
    /// Content of a text literal, with its escapes as they are written.
    Text(String),
    /// Any other character.
    Sign(char),
}

/// Returns the tokens of a source without comments and without attributes.
pub(super) fn of(source: &str) -> Vec<Token> {
    let mut reader = Reader { rest: source, line: 1 };
    let mut tokens = Vec::new();
    while let Some(token) = reader.next() {
        tokens.push(token);
    }
    tokens
}

/// Position in a source.
struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    /// Consumes a number of bytes and counts their lines.
    fn skip(&mut self, length: usize) -> String {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken.to_owned()
    }

    fn next(&mut self) -> Option<Token> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            if self.rest.starts_with("//") {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                self.skip(self.rest.find("*/").map_or(self.rest.len(), |end| end + 2));
            } else {
                break;
            }
        }
        let line = self.line;
        let first = self.rest.chars().next()?;
        let kind = match first {
            '"' => self.text(),
            'r' | 'b' if raw_start(self.rest).is_some() => self.raw_text(),
            '\'' => self.character(),
            _ if is_part(first) => Kind::Name(self.name()),
            _ => {
                self.skip(first.len_utf8());
                Kind::Sign(first)
            }
        };
        Some(Token { kind, line })
    }

    fn text(&mut self) -> Kind {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, character)| {
            let is_end = *character == '"' && !escaped;
            escaped = *character == '\\' && !escaped;
            is_end
        });
        let text = self.skip(end.map_or(self.rest.len(), |(at, _)| at + 1));
        Kind::Text(text.trim_matches('"').to_owned())
    }

    fn raw_text(&mut self) -> Kind {
        let start = raw_start(self.rest).unwrap_or_default();
        let hashes = self.rest.get(..start).unwrap_or_default().matches('#').count();
        let end = format!("\"{}", "#".repeat(hashes));
        self.skip(start);
        let length = self.rest.find(&end).unwrap_or(self.rest.len());
        let text = self.skip(length);
        self.skip(end.len());
        Kind::Text(text)
    }

    /// Consumes a character literal, or the sign before a lifetime.
    fn character(&mut self) -> Kind {
        let mut characters = self.rest.char_indices().skip(1);
        let length = match (characters.next(), characters.next()) {
            (Some((_, '\\')), Some((at, _))) => {
                let from = at + 1;
                self.rest.get(from..).and_then(|rest| rest.find('\'')).map_or(from, |end| from + end + 1)
            }
            (Some(_), Some((at, '\''))) => at + 1,
            _ => 1,
        };
        self.skip(length);
        Kind::Sign('\'')
    }

    fn name(&mut self) -> String {
        let length = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        self.skip(length)
    }
}

/// Returns the position after the opening quote of a raw or byte literal; `None` if none begins here.
fn raw_start(rest: &str) -> Option<usize> {
    let (prefix, _) = rest.split_once('"')?;
    let hashes = prefix.trim_start_matches('b').strip_prefix('r');
    let is_raw = hashes.is_some_and(|hashes| hashes.chars().all(|character| character == '#'));
    is_raw.then_some(prefix.len() + 1)
}

fn is_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the tokens without attributes, and without the items that exist in tests only. The names of test modules in
/// files of their own are returned beside, or the names of their files if an attribute has them.
pub(super) fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut modules, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(token) = tokens.get(at) {
        if !is_attribute(tokens, at) {
            kept.push(token.clone());
            at += 1;
            continue;
        }
        let end = closing(tokens, at);
        let is_test = names(tokens.get(at..end).unwrap_or_default()) == ["cfg", "test"];
        at = end;
        if !is_test {
            continue;
        }
        let attributes = at;
        while is_attribute(tokens, at) {
            at = closing(tokens, at);
        }
        let path = path_of(tokens.get(attributes..at).unwrap_or_default());
        let end = end_of_item(tokens, at);
        let item = tokens.get(at..end).unwrap_or_default();
        if let ["mod", name] = names(item).as_slice() {
            modules.push(path.unwrap_or(name).to_owned());
        }
        at = end;
    }
    (kept, modules)
}

/// Returns the file that an attribute `path` names.
fn path_of(attributes: &[Token]) -> Option<&str> {
    let start = attributes.iter().position(|token| token.name() == Some("path"))?;
    attributes.iter().skip(start).find_map(Token::text)
}

fn is_attribute(tokens: &[Token], at: usize) -> bool {
    is_sign(tokens.get(at), '#') && (is_sign(tokens.get(at + 1), '[') || is_sign(tokens.get(at + 1), '!'))
}

fn names(tokens: &[Token]) -> Vec<&str> {
    let name = |token: &'_ Token| matches!(token.kind, Kind::Name(_));
    tokens.iter().filter(|token| name(token)).filter_map(Token::name).collect()
}

/// Returns the end of the first bracketed group from a position on.
pub(super) fn closing(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.kind {
            Kind::Sign('(' | '[' | '{') => depth += 1,
            Kind::Sign(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Returns the end of an item: its block, or its semicolon.
fn end_of_item(tokens: &[Token], from: usize) -> usize {
    let mut at = from;
    while let Some(token) = tokens.get(at) {
        match token.kind {
            Kind::Sign(';') => return at + 1,
            Kind::Sign('{') => return closing(tokens, at),
            Kind::Sign('(' | '[') => at = closing(tokens, at),
            _ => at += 1,
        }
    }
    tokens.len()
}

/// Returns true if a token is this sign.
pub(super) fn is_sign(token: Option<&Token>, sign: char) -> bool {
    token.is_some_and(|token| token.kind == Kind::Sign(sign))
}

impl Token {
    /// Returns the name, if the token is one.
    pub(super) fn name(&self) -> Option<&str> {
        if let Kind::Name(name) = &self.kind { Some(name) } else { None }
    }

    /// Returns the text, if the token is a literal.
    pub(super) fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(text) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        without_tests(&of(source)).0.iter().filter_map(|token| token.text().map(str::to_owned)).collect()
    }

    #[test]
    fn literals_are_found_wherever_they_stand_but_not_in_comments_and_tests() {
        let table: [(&str, &[&str]); 8] = [
            ("f(\"A\",\n  \"B\\\"C\")", &["A", "B\\\"C"]),
            ("// \"A\"\n/* \"B\" */ \"C\"", &["C"]),
            ("let c = '\"'; let d = '\\''; \"A\"", &["A"]),
            ("fn f<'a>(x: &'a str) { \"A\" }", &["A"]),
            ("r#\"A\"B\"# \"C\"", &["A\"B", "C"]),
            ("#[cfg(test)]\nmod tests { \"A\" } \"B\"", &["B"]),
            ("#[cfg(test)] #[allow(x, reason = \"R\")] fn f(x: [u8; 2]) { \"A\" } \"B\"", &["B"]),
            ("#[serde(rename = \"A\")] struct S; \"B\"", &["B"]),
        ];
        for (source, expected) in table {
            assert_eq!(texts(source), expected, "{source}");
        }
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_is_named() {
        let (_, modules) = without_tests(&of("mod act;\n#[cfg(test)]\nmod report_tests;\nmod watch;"));
        assert_eq!(modules, ["report_tests"]);
        let (_, modules) = without_tests(&of("#[cfg(test)]\n#[path = \"report_tests.rs\"]\nmod tests;"));
        assert_eq!(modules, ["report_tests.rs"]);
    }
}
