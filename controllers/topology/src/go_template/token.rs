//! Tokens of a Go template.

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text outside actions.
    Text,
    /// `{{`, without its trim marker.
    Left,
    /// `}}`, without its trim marker.
    Right,
    Space,
    LeftParenthesis,
    RightParenthesis,
    Pipe,
    /// `:=`
    Declare,
    /// `=`
    Assign,
    Comma,
    /// `.` alone.
    Dot,
    /// `.name`, with the dot.
    Field,
    /// `$` or `$name`, with the dollar sign.
    Variable,
    Identifier,
    Keyword,
    Bool,
    Number,
    /// Character constant, with its quotes.
    Character,
    /// String, without quotes and escapes.
    Literal,
    /// Other punctuation.
    Other,
    /// Lexical error. The text is its message.
    Error,
    End,
}

/// Token with its line, from 1 on.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) line: usize,
}

const KEYWORDS: [&str; 11] =
    ["block", "break", "continue", "define", "else", "end", "if", "range", "nil", "template", "with"];

/// Reads the tokens. The last one is [`Kind::End`] or [`Kind::Error`].
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { rest: text, line: 1, tokens: Vec::new(), depth: 0 };
    if let Err(message) = lexer.run() {
        lexer.push(Kind::Error, message);
    } else {
        lexer.push(Kind::End, String::new());
    }
    lexer.tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
    /// Number of open parentheses.
    depth: usize,
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

fn is_word(letter: char) -> bool {
    letter == '_' || letter.is_alphabetic() || letter.is_numeric()
}

/// Reports whether the text starts with a trim marker and the end of an action.
fn is_trimmed_end(rest: &str) -> bool {
    let mut letters = rest.chars();
    letters.next().is_some_and(is_space) && letters.as_str().starts_with("-}}")
}

impl<'a> Lexer<'a> {
    fn push(&mut self, kind: Kind, text: String) {
        self.tokens.push(Token { kind, text, line: self.line });
    }

    /// Removes the first `length` bytes and returns them.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Adds a token of the first `length` bytes.
    fn token(&mut self, kind: Kind, length: usize) {
        let text = self.take(length);
        self.push(kind, text.to_owned());
        self.line += text.matches('\n').count();
    }

    fn skip_space(&mut self) {
        let trimmed = self.rest.trim_start_matches(is_space);
        let length = self.rest.len() - trimmed.len();
        self.line += self.take(length).matches('\n').count();
    }

    fn run(&mut self) -> Result<(), String> {
        loop {
            let Some(at) = self.rest.find("{{") else {
                let length = self.rest.len();
                if length > 0 {
                    self.token(Kind::Text, length);
                }
                return Ok(());
            };
            let mut after = self.rest.get(at + 2..).unwrap_or_default().chars();
            let is_trimmed = after.next() == Some('-') && after.next().is_some_and(is_space);
            let text = self.take(at);
            let kept = if is_trimmed { text.trim_end_matches(is_space) } else { text };
            if !kept.is_empty() {
                self.push(Kind::Text, kept.to_owned());
            }
            self.line += text.matches('\n').count();
            let marker = if is_trimmed { 2 } else { 0 };
            if self.rest.get(2 + marker..).is_some_and(|rest| rest.starts_with("/*")) {
                self.take(2 + marker);
                self.comment()?;
                continue;
            }
            self.token(Kind::Left, 2);
            self.take(marker);
            self.depth = 0;
            self.action()?;
        }
    }

    fn comment(&mut self) -> Result<(), String> {
        let Some(end) = self.rest.find("*/") else { return Err("unclosed comment".to_owned()) };
        self.line += self.take(end + 2).matches('\n').count();
        let is_trimmed = is_trimmed_end(self.rest);
        if is_trimmed {
            self.line += self.take(2).matches('\n').count();
        }
        if !self.rest.starts_with("}}") {
            return Err("comment ends before closing delimiter".to_owned());
        }
        self.take(2);
        if is_trimmed {
            self.skip_space();
        }
        Ok(())
    }

    /// Reads up to the end of an action.
    fn action(&mut self) -> Result<(), String> {
        loop {
            let is_trimmed = is_trimmed_end(self.rest);
            if is_trimmed || self.rest.starts_with("}}") {
                if self.depth > 0 {
                    return Err("unclosed left paren".to_owned());
                }
                if is_trimmed {
                    self.line += self.take(2).matches('\n').count();
                }
                self.token(Kind::Right, 2);
                if is_trimmed {
                    self.skip_space();
                }
                return Ok(());
            }
            self.inside()?;
        }
    }

    /// Reads one token inside an action.
    fn inside(&mut self) -> Result<(), String> {
        let Some(first) = self.rest.chars().next() else { return Err("unclosed action".to_owned()) };
        let second = self.rest.chars().nth(1);
        match first {
            letter if is_space(letter) => self.space(),
            ':' if second == Some('=') => self.token(Kind::Declare, 2),
            ':' => return Err("expected :=".to_owned()),
            '=' => self.token(Kind::Assign, 1),
            '|' => self.token(Kind::Pipe, 1),
            ',' => self.token(Kind::Comma, 1),
            '"' => return self.string(),
            '`' => return self.raw_string(),
            '\'' => return self.character(),
            '$' => return self.word(Kind::Variable),
            '(' => {
                self.depth += 1;
                self.token(Kind::LeftParenthesis, 1);
            }
            ')' if self.depth == 0 => return Err("unexpected right paren".to_owned()),
            ')' => {
                self.depth -= 1;
                self.token(Kind::RightParenthesis, 1);
            }
            '.' if !second.is_some_and(|letter| letter.is_ascii_digit()) => return self.word(Kind::Field),
            '+' | '-' | '.' | '0'..='9' => return self.number(),
            letter if is_word(letter) => return self.word(Kind::Identifier),
            letter if letter.is_ascii_graphic() => self.token(Kind::Other, 1),
            letter => return Err(format!("unrecognized character in action: {letter:?}")),
        }
        Ok(())
    }

    /// Reads spaces. The last one may belong to the trim marker of the end.
    fn space(&mut self) {
        let trimmed = self.rest.trim_start_matches(is_space);
        let mut length = self.rest.len() - trimmed.len();
        if trimmed.starts_with("-}}") {
            length -= 1;
        }
        if length > 0 {
            self.token(Kind::Space, length);
        }
    }

    /// Reads a field, a variable, an identifier or a keyword.
    fn word(&mut self, kind: Kind) -> Result<(), String> {
        let start = usize::from(kind != Kind::Identifier);
        let name = self.rest.get(start..).unwrap_or_default();
        let length = start + name.find(|letter| !is_word(letter)).unwrap_or(name.len());
        let after = self.rest.get(length..).unwrap_or_default();
        let ends = after.chars().next().is_none_or(|letter| {
            is_space(letter) || matches!(letter, '.' | ',' | '|' | ':' | ')' | '(') || after.starts_with("}}")
        });
        if !ends {
            return Err(format!("bad character {:?}", after.chars().next().unwrap_or_default()));
        }
        let kind = match self.rest.get(..length).unwrap_or_default() {
            "." => Kind::Dot,
            "true" | "false" => Kind::Bool,
            word if KEYWORDS.contains(&word) => Kind::Keyword,
            _ => kind,
        };
        self.token(kind, length);
        Ok(())
    }

    /// Reads a number. Its value is checked by the parser.
    fn number(&mut self) -> Result<(), String> {
        let mut before = ' ';
        let mut length = 0;
        let is_hexadecimal = self.rest.trim_start_matches(['+', '-']).to_lowercase().starts_with("0x");
        for letter in self.rest.chars() {
            let is_exponent = match before {
                'e' | 'E' => !is_hexadecimal,
                'p' | 'P' => true,
                _ => false,
            };
            let is_sign = matches!(letter, '+' | '-') && (length == 0 || is_exponent);
            if !(is_sign || is_word(letter) || letter == '.') {
                break;
            }
            before = letter;
            length += letter.len_utf8();
        }
        let text = self.rest.get(..length).unwrap_or_default();
        if super::number::parse(text).is_none() {
            return Err(format!("bad number syntax: {text:?}"));
        }
        self.token(Kind::Number, length);
        Ok(())
    }

    /// Returns the length of a quoted text, with its quotes.
    fn quoted(&self, quote: char) -> Option<usize> {
        let mut is_escaped = false;
        for (at, letter) in self.rest.char_indices().skip(1) {
            match letter {
                '\n' => return None,
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                letter if letter == quote => return Some(at + 1),
                _ => {}
            }
        }
        None
    }

    fn string(&mut self) -> Result<(), String> {
        let length = self.quoted('"').ok_or("unterminated quoted string")?;
        let text = self.take(length);
        let inner = text.get(1..length.saturating_sub(1)).unwrap_or_default();
        let value = super::escapes::unquote(inner, '"').ok_or_else(|| format!("invalid syntax: {text}"))?;
        self.push(Kind::Literal, value);
        Ok(())
    }

    fn raw_string(&mut self) -> Result<(), String> {
        let inner = self.rest.get(1..).unwrap_or_default();
        let end = inner.find('`').ok_or("unterminated raw quoted string")?;
        let text = self.take(end + 2);
        self.push(Kind::Literal, text.trim_matches('`').replace('\r', ""));
        self.line += text.matches('\n').count();
        Ok(())
    }

    fn character(&mut self) -> Result<(), String> {
        let length = self.quoted('\'').ok_or("unterminated character constant")?;
        self.token(Kind::Character, length);
        Ok(())
    }
}
