//! Parser of the part of Go's template language that name templates use: text, and actions with fields.

/// Part of a template.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    /// Literal text.
    Text(&'a str),
    /// Action: a pipeline of fields.
    Action(Vec<Command<'a>>),
}

/// Field in an action.
#[derive(Debug, PartialEq)]
pub(super) struct Command<'a> {
    /// Source text, for example `.cluster.name`. A dot alone is the whole data.
    pub(super) field: &'a str,
    /// Offset that errors name. In Go, this is the start of the second name if there is one.
    pub(super) at: usize,
    /// Set if arguments follow.
    pub(super) has_arguments: bool,
}

/// Reason why a template was not parsed to its end.
#[derive(Debug, PartialEq)]
pub(super) enum Stop {
    /// Syntax error.
    Invalid {
        /// Offset of the error.
        at: usize,
        /// Error in Go's words.
        problem: String,
    },
    /// Part of the language that is not implemented here.
    Beyond,
}

/// Predefined functions and keywords. Any other word is an undefined function.
const WORDS: [&str; 32] = [
    "and", "block", "break", "call", "continue", "define", "else", "end", "eq", "false", "ge", "gt", "html",
    "if", "index", "js", "le", "len", "lt", "ne", "nil", "not", "or", "print", "printf", "println", "range",
    "slice", "template", "true", "urlquery", "with",
];

/// White space in Go's templates.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// Parses a template.
pub(super) fn parse(template: &str) -> Result<Vec<Piece<'_>>, Stop> {
    let mut scanner = Scanner { rest: template, length: template.len() };
    let mut pieces = Vec::new();
    let mut is_trimmed = false;
    loop {
        let (text, action) = match scanner.rest.split_once("{{") {
            Some((text, action)) => (text, Some(action)),
            None => (scanner.rest, None),
        };
        let mut text = if is_trimmed { text.trim_start_matches(SPACE) } else { text };
        let Some(mut action) = action else {
            pieces.push(Piece::Text(text));
            return Ok(pieces);
        };
        if let Some(trimming) = action.strip_prefix('-').filter(|rest| rest.starts_with(SPACE)) {
            text = text.trim_end_matches(SPACE);
            action = trimming;
        }
        pieces.push(Piece::Text(text));
        scanner.rest = action;
        let (commands, trims) = scanner.action()?;
        pieces.push(Piece::Action(commands));
        is_trimmed = trims;
    }
}

/// Rest of the input.
struct Scanner<'a> {
    rest: &'a str,
    /// Length of the whole template.
    length: usize,
}

impl<'a> Scanner<'a> {
    /// Parses an action with its end, and reports whether the end trims the space after it.
    fn action(&mut self) -> Result<(Vec<Command<'a>>, bool), Stop> {
        let mut commands: Vec<Command<'a>> = Vec::new();
        let mut begins = true;
        loop {
            let is_spaced = !self.take_while(|c| SPACE.contains(&c)).is_empty();
            if let Some(trims) = self.close(is_spaced) {
                return match commands.is_empty() {
                    true => Err(self.error("missing value for command")),
                    false => Ok((commands, trims)),
                };
            }
            match self.rest.chars().next() {
                None => return Err(self.error("unclosed action")),
                Some('|') if !begins => {
                    self.take('|');
                    begins = true;
                    continue;
                }
                Some('.') => {
                    let field = self.field()?;
                    match commands.last_mut().filter(|_| !begins) {
                        Some(command) => command.has_arguments = true,
                        None => commands.push(field),
                    }
                }
                Some(other) => return Err(self.word(other, begins)),
            }
            begins = false;
        }
    }

    /// Parses a dot with names.
    fn field(&mut self) -> Result<Command<'a>, Stop> {
        let (whole, start) = (self.rest, self.at());
        let (mut at, mut names) = (start, 0_usize);
        while self.rest.starts_with('.') {
            let here = self.at();
            self.take('.');
            let name = self.take_while(is_of_name);
            if names == 0 && name.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(Stop::Beyond);
            }
            if name.is_empty() && names == 0 && !self.rest.starts_with('.') {
                break;
            }
            if name.is_empty() && self.is_at_end_of_word() {
                return Err(self.error("unexpected <.> in operand"));
            }
            names += 1;
            if names == 2 {
                at = here;
            }
        }
        self.end_of_word()?;
        let field = whole.get(..self.at().saturating_sub(start)).unwrap_or(whole);
        Ok(Command { field, at, has_arguments: false })
    }

    /// Returns the reason why a word that is no field stops the parser.
    fn word(&mut self, first: char, begins: bool) -> Stop {
        if first.is_ascii_digit() || "\"'`($+-".contains(first) || self.rest.starts_with("/*") {
            return Stop::Beyond;
        }
        if !is_of_name(first) {
            let place = if begins { "command" } else { "operand" };
            return self.error(&format!("unexpected {:?} in {place}", first.to_string()));
        }
        let name = self.take_while(is_of_name);
        match self.end_of_word() {
            Err(stop) => stop,
            Ok(()) if WORDS.contains(&name) => Stop::Beyond,
            Ok(()) => self.error(&format!("function {name:?} not defined")),
        }
    }

    fn end_of_word(&self) -> Result<(), Stop> {
        match self.rest.chars().next() {
            Some(c) if !self.is_at_end_of_word() => {
                Err(self.error(&format!("bad character U+{:04X} '{c}'", u32::from(c))))
            }
            _ => Ok(()),
        }
    }

    fn is_at_end_of_word(&self) -> bool {
        let ends = |c: char| SPACE.contains(&c) || ".,|:()".contains(c);
        self.rest.is_empty() || self.rest.starts_with(ends) || self.rest.starts_with("}}")
    }

    /// Consumes the end of an action, and reports whether it trims the space after it.
    fn close(&mut self, is_spaced: bool) -> Option<bool> {
        let trimming = self.rest.strip_prefix("-}}").filter(|_| is_spaced);
        let rest = trimming.or_else(|| self.rest.strip_prefix("}}"))?;
        self.rest = rest;
        Some(trimming.is_some())
    }

    fn take(&mut self, c: char) {
        self.rest = self.rest.strip_prefix(c).unwrap_or(self.rest);
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn at(&self) -> usize {
        self.length - self.rest.len()
    }

    fn error(&self, problem: &str) -> Stop {
        Stop::Invalid { at: self.at(), problem: problem.to_owned() }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
