//! Parser of Go templates.

mod pipeline;

use std::collections::BTreeMap;

use super::TemplateError;
use super::functions::Library;
use super::node::{Branch, Case, Loop, Node};
use super::token::{Kind, Token, tokens};

/// Deepest nesting of actions and parentheses. Deeper templates could exhaust the stack.
const DEEPEST: usize = 50;

/// Templates by name. The main template has the empty name.
pub(super) type Templates = BTreeMap<String, Vec<Node>>;

/// Parses a template with the templates that it defines. It can call the functions of `library`.
pub(super) fn parse(name: &str, text: &str, library: Library) -> Result<Templates, TemplateError> {
    let (variables, templates) = (vec!["$".to_owned()], BTreeMap::new());
    let mut parser =
        Parser { tokens: tokens(text), at: 0, variables, loops: 0, depth: 0, templates, library };
    let main = parser.main().map_err(|message| {
        TemplateError(format!("template: {name}:{}: {message}", parser.line_of_error()))
    })?;
    parser.templates.insert(String::new(), main);
    Ok(parser.templates)
}

struct Parser {
    tokens: Vec<Token>,
    /// Position of the next token.
    at: usize,
    /// Declared variables, the innermost last.
    variables: Vec<String>,
    /// Number of loops around the current position.
    loops: usize,
    depth: usize,
    templates: Templates,
    library: Library,
}

/// End of a list of nodes.
enum Stop {
    End,
    Else,
    /// End of the text.
    Eof,
}

type Parsed<T> = Result<T, String>;

impl Parser {
    fn line_of_error(&self) -> usize {
        let last = self.at.saturating_sub(1);
        self.tokens.get(last).or_else(|| self.tokens.last()).map_or(1, |token| token.line)
    }

    fn peek(&self) -> (Kind, &str) {
        let token = self.tokens.get(self.at).or_else(|| self.tokens.last());
        token.map_or((Kind::End, ""), |token| (token.kind, token.text.as_str()))
    }

    fn next(&mut self) -> (Kind, String, usize) {
        let token = self.tokens.get(self.at).or_else(|| self.tokens.last());
        let found =
            token.map_or((Kind::End, String::new(), 1), |token| (token.kind, token.text.clone(), token.line));
        if self.at < self.tokens.len() {
            self.at += 1;
        }
        found
    }

    fn skip_space(&mut self) {
        while self.peek().0 == Kind::Space {
            self.at += 1;
        }
    }

    fn peek_word(&mut self) -> (Kind, &str) {
        self.skip_space();
        self.peek()
    }

    fn next_word(&mut self) -> (Kind, String, usize) {
        self.skip_space();
        self.next()
    }

    fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(format!("nested deeper than {DEEPEST} levels")) } else { Ok(()) }
    }

    fn main(&mut self) -> Parsed<Vec<Node>> {
        let mut nodes = Vec::new();
        loop {
            match self.peek() {
                (Kind::End, _) => return Ok(nodes),
                (Kind::Left, _) => {
                    let start = self.at;
                    self.next();
                    if self.peek_word() == (Kind::Keyword, "define") {
                        self.next();
                        self.definition()?;
                        continue;
                    }
                    self.at = start;
                }
                _ => {}
            }
            match self.node(&mut nodes)? {
                None => {}
                Some(Stop::Eof) => return Ok(nodes),
                Some(Stop::End) => return Err("unexpected {{end}}".to_owned()),
                Some(Stop::Else) => return Err("unexpected {{else}}".to_owned()),
            }
        }
    }

    /// Reads the definition of a template after its keyword.
    fn definition(&mut self) -> Parsed<()> {
        let name = self.name("define clause")?;
        self.expect(Kind::Right, "define clause")?;
        self.body_of(name, "define clause")
    }

    /// Reads the body of a template, up to its end.
    fn body_of(&mut self, name: String, context: &str) -> Parsed<()> {
        let outer = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let loops = std::mem::take(&mut self.loops);
        let (body, stop) = self.list()?;
        self.variables = outer;
        self.loops = loops;
        if !matches!(stop, Stop::End) {
            return Err(format!("unexpected {{{{else}}}} in {context}"));
        }
        let is_empty = |nodes: &[Node]| {
            nodes.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
        };
        match self.templates.get(&name) {
            Some(known) if !is_empty(known) => {
                if !is_empty(&body) {
                    return Err(format!("template: multiple definition of template {name:?}"));
                }
            }
            _ => {
                self.templates.insert(name, body);
            }
        }
        Ok(())
    }

    fn name(&mut self, context: &str) -> Parsed<String> {
        match self.next_word() {
            (Kind::Literal, text, _) => Ok(text),
            (kind, text, _) => Err(unexpected(kind, &text, context)),
        }
    }

    fn expect(&mut self, expected: Kind, context: &str) -> Parsed<()> {
        match self.next_word() {
            (kind, ..) if kind == expected => Ok(()),
            (kind, text, _) => Err(unexpected(kind, &text, context)),
        }
    }

    /// Reads nodes up to `end` or `else`.
    fn list(&mut self) -> Parsed<(Vec<Node>, Stop)> {
        self.enter()?;
        let mut nodes = Vec::new();
        loop {
            match self.node(&mut nodes)? {
                None => {}
                Some(Stop::Eof) => return Err("unexpected EOF".to_owned()),
                Some(stop) => {
                    self.depth -= 1;
                    return Ok((nodes, stop));
                }
            }
        }
    }

    /// Reads one node, or the end of a list.
    fn node(&mut self, nodes: &mut Vec<Node>) -> Parsed<Option<Stop>> {
        match self.next_word() {
            (Kind::Text, text, _) => nodes.push(Node::Text(text)),
            (Kind::Left, ..) => return self.action(nodes),
            (Kind::End, ..) => return Ok(Some(Stop::Eof)),
            (kind, text, _) => return Err(unexpected(kind, &text, "input")),
        }
        Ok(None)
    }

    fn action(&mut self, nodes: &mut Vec<Node>) -> Parsed<Option<Stop>> {
        let (kind, text) = self.peek_word();
        if kind == Kind::Keyword && text != "nil" {
            let word = text.to_owned();
            self.next();
            return self.keyword(&word, nodes);
        }
        nodes.push(Node::Action(self.pipe("command", Kind::Right)?));
        Ok(None)
    }

    fn keyword(&mut self, word: &str, nodes: &mut Vec<Node>) -> Parsed<Option<Stop>> {
        let node = match word {
            "end" => {
                self.expect(Kind::Right, "end")?;
                return Ok(Some(Stop::End));
            }
            "else" => {
                // The words `if` and `with` after `else` are read by the branch.
                if !matches!(self.peek_word(), (Kind::Keyword, "if" | "with")) {
                    self.expect(Kind::Right, "else")?;
                }
                return Ok(Some(Stop::Else));
            }
            "if" | "with" => self.branch(word)?,
            "range" => self.range()?,
            "template" => self.call()?,
            "block" => self.block()?,
            "break" | "continue" => {
                self.expect(Kind::Right, word)?;
                if self.loops == 0 {
                    return Err(format!("{{{{{word}}}}} outside {{{{range}}}}"));
                }
                if word == "break" { Node::Break } else { Node::Continue }
            }
            other => return Err(format!("unexpected <{other}> in command")),
        };
        nodes.push(node);
        Ok(None)
    }

    /// Reads `if` or `with` with its chain of `else`.
    fn branch(&mut self, word: &str) -> Parsed<Node> {
        let mark = self.variables.len();
        let mut branch = Branch { cases: Vec::new(), otherwise: Vec::new() };
        loop {
            let condition = self.pipe(word, Kind::Right)?;
            let (body, stop) = self.list()?;
            branch.cases.push(Case { sets_dot: word == "with", condition, body });
            if matches!(stop, Stop::End) {
                break;
            }
            if self.peek_word() == (Kind::Keyword, word) {
                self.next();
                continue;
            }
            self.refuse_chain()?;
            branch.otherwise = self.last_list()?;
            break;
        }
        self.variables.truncate(mark);
        Ok(Node::Branch(branch))
    }

    /// Refuses `else if` and `else with` where they do not belong to the branch.
    fn refuse_chain(&mut self) -> Parsed<()> {
        match self.peek() {
            (Kind::Keyword, word @ ("if" | "with")) => Err(format!("unexpected <{word}> in input")),
            _ => Ok(()),
        }
    }

    /// Reads the list after the last `else`.
    fn last_list(&mut self) -> Parsed<Vec<Node>> {
        match self.list()? {
            (nodes, Stop::End) => Ok(nodes),
            _ => Err("expected end; found {{else}}".to_owned()),
        }
    }

    fn range(&mut self) -> Parsed<Node> {
        let mark = self.variables.len();
        let over = self.pipe("range", Kind::Right)?;
        self.loops += 1;
        let (body, stop) = self.list()?;
        self.loops -= 1;
        let mut otherwise = Vec::new();
        if matches!(stop, Stop::Else) {
            self.refuse_chain()?;
            otherwise = self.last_list()?;
        }
        self.variables.truncate(mark);
        Ok(Node::Range(Loop { over, body, otherwise }))
    }

    fn call(&mut self) -> Parsed<Node> {
        let name = self.name("template clause")?;
        let (kind, _) = self.peek_word();
        let line = self.tokens.get(self.at).map_or(1, |token| token.line);
        let argument = if kind == Kind::Right {
            self.next();
            None
        } else {
            Some(self.pipe("template clause", Kind::Right)?)
        };
        Ok(Node::Call { name, argument, line })
    }

    fn block(&mut self) -> Parsed<Node> {
        let name = self.name("block clause")?;
        let argument = self.pipe("block clause", Kind::Right)?;
        let line = argument.line;
        self.body_of(name.clone(), "block clause")?;
        Ok(Node::Call { name, argument: Some(argument), line })
    }
}

/// Returns the message for a token that does not belong here.
fn unexpected(kind: Kind, text: &str, context: &str) -> String {
    match kind {
        Kind::Error => text.to_owned(),
        Kind::End => format!("unexpected EOF in {context}"),
        Kind::Keyword => format!("unexpected <{text}> in {context}"),
        _ => format!("unexpected {text:?} in {context}"),
    }
}
