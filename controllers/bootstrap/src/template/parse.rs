//! Parser of templates.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::TemplateError;
use super::lex::{Placed, Token, error, tokens};

/// Part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// Text that is written as it is.
    Plain(String),
    /// Value that is written.
    Write(Expression),
    /// Branches with their conditions, and what is written if none of them holds.
    If(Vec<(Expression, Vec<Self>)>, Vec<Self>),
}

/// Expression, with the byte at which it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expression {
    pub at: usize,
    pub term: Term,
}

/// Kind of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Term {
    Field(Vec<String>),
    Text(String),
    Flag(bool),
    Call(Function, Vec<Expression>),
}

/// Function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Eq,
    Ne,
    And,
    Or,
    Not,
    Printf,
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "eq" => Self::Eq,
            "ne" => Self::Ne,
            "and" => Self::And,
            "or" => Self::Or,
            "not" => Self::Not,
            "printf" => Self::Printf,
            _ => return None,
        })
    }
}

/// End of a list of nodes.
enum Ending {
    Template(usize),
    /// `end`, with its position.
    Closed(usize),
    /// `else`, with its position and the condition of `else if`.
    Else(usize, Option<Expression>),
}

struct Parser<'a> {
    template: &'a str,
    tokens: Peekable<IntoIter<Placed>>,
}

/// Parses a template.
pub(super) fn parse(template: &str) -> Result<Vec<Node>, TemplateError> {
    let mut parser = Parser { template, tokens: tokens(template)?.into_iter().peekable() };
    match parser.nodes()? {
        (nodes, Ending::Template(_)) => Ok(nodes),
        (_, Ending::Closed(at)) => Err(error(template, at, "\"end\" without \"if\"")),
        (_, Ending::Else(at, _)) => Err(error(template, at, "\"else\" without \"if\"")),
    }
}

impl Parser<'_> {
    fn error<T>(&self, at: usize, message: impl Into<String>) -> Result<T, TemplateError> {
        Err(error(self.template, at, message))
    }

    /// Parses nodes up to the action that ends them.
    fn nodes(&mut self) -> Result<(Vec<Node>, Ending), TemplateError> {
        let mut nodes = Vec::new();
        loop {
            match self.tokens.next() {
                None => return Ok((nodes, Ending::Template(self.template.len()))),
                Some((_, Token::Plain(text))) => nodes.push(Node::Plain(text)),
                Some(_) => match self.tokens.peek().cloned() {
                    Some((_, Token::Close)) => drop(self.tokens.next()),
                    Some((at, Token::Word(word))) if word == "end" => {
                        self.tokens.next();
                        self.close()?;
                        return Ok((nodes, Ending::Closed(at)));
                    }
                    Some((at, Token::Word(word))) if word == "else" => {
                        self.tokens.next();
                        let condition = self.else_condition()?;
                        self.close()?;
                        return Ok((nodes, Ending::Else(at, condition)));
                    }
                    Some((_, Token::Word(word))) if word == "if" => {
                        self.tokens.next();
                        nodes.push(self.branches()?);
                    }
                    _ => {
                        let expression = self.pipeline()?;
                        self.close()?;
                        nodes.push(Node::Write(expression));
                    }
                },
            }
        }
    }

    /// Parses the condition of `else if`, if there is one.
    fn else_condition(&mut self) -> Result<Option<Expression>, TemplateError> {
        match self.tokens.peek() {
            Some((_, Token::Word(word))) if word == "if" => {
                self.tokens.next();
                self.pipeline().map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Parses what follows an `if`.
    fn branches(&mut self) -> Result<Node, TemplateError> {
        let mut condition = self.pipeline()?;
        self.close()?;
        let mut branches = Vec::new();
        loop {
            let (nodes, end) = self.nodes()?;
            branches.push((condition, nodes));
            match end {
                Ending::Template(at) => return self.error(at, "\"if\" has no \"end\""),
                Ending::Closed(_) => return Ok(Node::If(branches, Vec::new())),
                Ending::Else(_, Some(next)) => condition = next,
                Ending::Else(_, None) => {
                    return match self.nodes()? {
                        (otherwise, Ending::Closed(_)) => Ok(Node::If(branches, otherwise)),
                        (_, Ending::Else(at, _)) => self.error(at, "\"else\" after \"else\""),
                        (_, Ending::Template(at)) => self.error(at, "\"if\" has no \"end\""),
                    };
                }
            }
        }
    }

    fn close(&mut self) -> Result<(), TemplateError> {
        match self.tokens.next() {
            Some((_, Token::Close)) => Ok(()),
            Some((at, _)) => self.error(at, "\"}}\" is missing"),
            None => self.error(self.template.len(), "\"}}\" is missing"),
        }
    }

    /// Parses calls in a row. The value of each one is the last argument of the next one.
    fn pipeline(&mut self) -> Result<Expression, TemplateError> {
        let mut expression = self.call(None)?;
        while let Some((_, Token::Sign('|'))) = self.tokens.peek() {
            self.tokens.next();
            expression = self.call(Some(expression))?;
        }
        Ok(expression)
    }

    /// Parses a function with its arguments, or a value alone.
    fn call(&mut self, last: Option<Expression>) -> Result<Expression, TemplateError> {
        let at = self.tokens.peek().map_or(self.template.len(), |(at, _)| *at);
        let function = match self.tokens.peek() {
            Some((_, Token::Word(word))) => Function::named(word),
            _ => None,
        };
        let Some(function) = function else {
            let operand = self.operand()?;
            return if last.is_none() {
                Ok(operand)
            } else {
                self.error(at, "a function is expected after \"|\"")
            };
        };
        self.tokens.next();
        let mut arguments = Vec::new();
        while !matches!(self.tokens.peek(), None | Some((_, Token::Close | Token::Sign(')' | '|')))) {
            arguments.push(self.operand()?);
        }
        arguments.extend(last);
        if arguments.is_empty() {
            return self.error(at, "a function needs arguments");
        }
        Ok(Expression { at, term: Term::Call(function, arguments) })
    }

    fn operand(&mut self) -> Result<Expression, TemplateError> {
        match self.tokens.next() {
            Some((at, Token::Field(names))) => Ok(Expression { at, term: Term::Field(names) }),
            Some((at, Token::Text(text))) => Ok(Expression { at, term: Term::Text(text) }),
            Some((at, Token::Word(word))) if word == "true" || word == "false" => {
                Ok(Expression { at, term: Term::Flag(word == "true") })
            }
            Some((_, Token::Sign('('))) => {
                let inner = self.pipeline()?;
                match self.tokens.next() {
                    Some((_, Token::Sign(')'))) => Ok(inner),
                    Some((at, _)) => self.error(at, "\")\" is missing"),
                    None => self.error(self.template.len(), "\")\" is missing"),
                }
            }
            Some((at, Token::Word(word))) => self.error(at, format!("{word:?} is not supported")),
            Some((at, _)) => self.error(at, "a value is expected"),
            None => self.error(self.template.len(), "a value is expected"),
        }
    }
}
