//! Parser of pipelines: declarations, commands and operands.

use super::super::node::{Command, Operand, Pipe};
use super::super::number;
use super::super::token::Kind;
use super::{Parsed, Parser, unexpected};

impl Parser {
    /// Reads a pipeline and its end.
    pub(super) fn pipe(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        self.enter()?;
        self.skip_space();
        let line = self.tokens.get(self.at).map_or(1, |token| token.line);
        let mut pipe = Pipe { variables: Vec::new(), is_assignment: false, commands: Vec::new(), line };
        self.declarations(context, &mut pipe)?;
        loop {
            let (kind, text) = self.peek_word();
            if kind == end {
                break;
            }
            match kind {
                Kind::Right
                | Kind::RightParenthesis
                | Kind::Pipe
                | Kind::Declare
                | Kind::Assign
                | Kind::Comma
                | Kind::Other
                | Kind::Error
                | Kind::End => {
                    let message = unexpected(kind, text, context);
                    self.next();
                    return Err(message);
                }
                Kind::Keyword if text != "nil" => return Err(unexpected(kind, text, context)),
                _ => {
                    let command = self.command()?;
                    pipe.commands.push(command);
                }
            }
        }
        self.next();
        check(&pipe, context)?;
        self.depth -= 1;
        Ok(pipe)
    }

    /// Reads the variables that a pipeline declares or assigns.
    fn declarations(&mut self, context: &str, pipe: &mut Pipe) -> Parsed<()> {
        loop {
            let start = self.at;
            let (kind, name) = self.peek_word();
            if kind != Kind::Variable {
                return Ok(());
            }
            let name = name.to_owned();
            self.next();
            match self.peek_word().0 {
                kind @ (Kind::Assign | Kind::Declare) => {
                    self.next();
                    pipe.is_assignment = kind == Kind::Assign;
                    pipe.variables.push(name.clone());
                    self.variables.push(name);
                    return Ok(());
                }
                Kind::Comma => {
                    self.next();
                    pipe.variables.push(name.clone());
                    self.variables.push(name);
                    if context != "range" || pipe.variables.len() > 1 {
                        return Err(format!("too many declarations in {context}"));
                    }
                    if !matches!(self.peek_word().0, Kind::Variable | Kind::Right | Kind::RightParenthesis) {
                        return Err("range can only initialize variables".to_owned());
                    }
                }
                _ => {
                    self.at = start;
                    return Ok(());
                }
            }
        }
    }

    fn command(&mut self) -> Parsed<Command> {
        let mut operands = Vec::new();
        loop {
            self.skip_space();
            if let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            match self.peek() {
                (Kind::Space, _) => {}
                (Kind::Right | Kind::RightParenthesis, _) => break,
                (Kind::Pipe, _) => {
                    self.next();
                    break;
                }
                (kind, text) => {
                    let message = unexpected(kind, text, "operand");
                    self.next();
                    return Err(message);
                }
            }
        }
        let mut operands = operands.into_iter();
        let first = operands.next().ok_or("empty command")?;
        Ok(Command { first, arguments: operands.collect() })
    }

    /// Reads a term and the fields after it.
    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(term) = self.term()? else { return Ok(None) };
        let mut fields = Vec::new();
        while let (Kind::Field, text) = self.peek() {
            fields.push(text.trim_start_matches('.').to_owned());
            self.next();
        }
        if fields.is_empty() {
            return Ok(Some(term));
        }
        match term {
            Operand::Field(mut names) => {
                names.append(&mut fields);
                Ok(Some(Operand::Field(names)))
            }
            Operand::Variable(name, _) => Ok(Some(Operand::Variable(name, fields))),
            Operand::Bool(_) | Operand::Text(_) | Operand::Number(_) | Operand::Nil | Operand::Dot => {
                Err("unexpected . after term".to_owned())
            }
            other => Ok(Some(Operand::Chain(Box::new(other), fields))),
        }
    }

    fn term(&mut self) -> Parsed<Option<Operand>> {
        let (kind, text) = self.peek();
        let text = text.to_owned();
        let operand = match kind {
            Kind::Identifier => {
                self.next();
                if self.library.find(&text).is_none() {
                    return Err(self.library.refusal(&text));
                }
                return Ok(Some(Operand::Function(text)));
            }
            Kind::Keyword if text == "nil" => Operand::Nil,
            Kind::Dot => Operand::Dot,
            Kind::Variable => {
                self.next();
                if !self.variables.contains(&text) {
                    return Err(format!("undefined variable {text:?}"));
                }
                return Ok(Some(Operand::Variable(text, Vec::new())));
            }
            Kind::Field => Operand::Field(vec![text.trim_start_matches('.').to_owned()]),
            Kind::Bool => Operand::Bool(text == "true"),
            Kind::Number => {
                Operand::Number(number::parse(&text).ok_or_else(|| format!("bad number syntax: {text:?}"))?)
            }
            Kind::Character => Operand::Number(number::character(&text)?),
            Kind::Literal => Operand::Text(text),
            Kind::LeftParenthesis => {
                self.next();
                let pipe = self.pipe("parenthesized pipeline", Kind::RightParenthesis)?;
                return Ok(Some(Operand::Pipe(Box::new(pipe))));
            }
            _ => return Ok(None),
        };
        self.next();
        Ok(Some(operand))
    }
}

/// Checks that a pipeline has commands, and that only the first one can be a value.
fn check(pipe: &Pipe, context: &str) -> Parsed<()> {
    if pipe.commands.is_empty() {
        return Err(format!("missing value for {context}"));
    }
    for (index, command) in pipe.commands.iter().enumerate().skip(1) {
        if matches!(
            command.first,
            Operand::Bool(_) | Operand::Dot | Operand::Nil | Operand::Number(_) | Operand::Text(_)
        ) {
            return Err(format!("non executable command in pipeline stage {}", index + 1));
        }
    }
    Ok(())
}
