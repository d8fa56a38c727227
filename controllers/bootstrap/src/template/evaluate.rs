//! Evaluation of templates.

use std::collections::BTreeMap;

use super::lex::error;
use super::parse::{Expression, Function, Node, Term};
use super::{LIMIT, TemplateError};

/// Value of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A field that is not set.
    Unset,
    Text(String),
    Flag(bool),
    Map(BTreeMap<String, Self>),
}

impl Value {
    /// Returns true if the value counts as true in a condition.
    fn holds(&self) -> bool {
        match self {
            Self::Unset => false,
            Self::Text(text) => !text.is_empty(),
            Self::Flag(flag) => *flag,
            Self::Map(map) => !map.is_empty(),
        }
    }
}

/// Evaluator of one template.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evaluator<'a> {
    /// Text of the template, for the positions of errors.
    pub template: &'a str,
    /// Values that the template can read.
    pub root: &'a Value,
}

impl Evaluator<'_> {
    /// Writes nodes to the output.
    pub(super) fn write(&self, nodes: &[Node], output: &mut String) -> Result<(), TemplateError> {
        for node in nodes {
            match node {
                Node::Plain(text) => output.push_str(text),
                Node::Write(expression) => {
                    let value = self.evaluate(expression)?;
                    output.push_str(&self.text(&value, expression)?);
                }
                Node::If(branches, otherwise) => {
                    let mut chosen = otherwise;
                    for (condition, branch) in branches {
                        if self.evaluate(condition)?.holds() {
                            chosen = branch;
                            break;
                        }
                    }
                    self.write(chosen, output)?;
                }
            }
            if output.len() > LIMIT {
                return Err(TemplateError::TooLong);
            }
        }
        Ok(())
    }

    fn error<T>(&self, at: usize, message: impl Into<String>) -> Result<T, TemplateError> {
        Err(error(self.template, at, message))
    }

    /// Returns the text of a value that is written.
    pub(super) fn text(&self, value: &Value, of: &Expression) -> Result<String, TemplateError> {
        match (value, &of.term) {
            (Value::Text(text), _) => Ok(text.clone()),
            (Value::Flag(flag), _) => Ok(flag.to_string()),
            (Value::Map(_), _) => self.error(of.at, "only a text can be written"),
            (Value::Unset, Term::Field(names)) => {
                self.error(of.at, format!(".{} is not set: {}", names.join("."), why_unset(names)))
            }
            (Value::Unset, _) => self.error(of.at, "a value is not set"),
        }
    }

    fn evaluate(&self, expression: &Expression) -> Result<Value, TemplateError> {
        match &expression.term {
            Term::Text(text) => Ok(Value::Text(text.clone())),
            Term::Flag(flag) => Ok(Value::Flag(*flag)),
            Term::Field(names) => Ok(self.field(names)),
            Term::Call(function @ (Function::And | Function::Or), arguments) => {
                let mut last = Value::Unset;
                for argument in arguments {
                    last = self.evaluate(argument)?;
                    // The rest is not evaluated, as in Go.
                    if last.holds() == (*function == Function::Or) {
                        break;
                    }
                }
                Ok(last)
            }
            Term::Call(function, arguments) => {
                let values: Result<Vec<Value>, _> = arguments.iter().map(|it| self.evaluate(it)).collect();
                self.apply(expression.at, *function, arguments, &values?)
            }
        }
    }

    /// Returns the value of a field.
    pub(super) fn field(&self, names: &[String]) -> Value {
        let mut value = self.root;
        for name in names {
            match value {
                Value::Map(map) => match map.get(name) {
                    Some(inner) => value = inner,
                    None => return Value::Unset,
                },
                _ => return Value::Unset,
            }
        }
        value.clone()
    }

    /// Applies a function to the values of its arguments.
    pub(super) fn apply(
        &self,
        at: usize,
        function: Function,
        arguments: &[Expression],
        values: &[Value],
    ) -> Result<Value, TemplateError> {
        match (function, values) {
            (Function::And | Function::Or, _) => {
                let decides = |value: &&Value| value.holds() == (function == Function::Or);
                Ok(values.iter().find(decides).or_else(|| values.last()).cloned().unwrap_or(Value::Unset))
            }
            (Function::Not, [only]) => Ok(Value::Flag(!only.holds())),
            (Function::Not, _) => self.error(at, "not: one argument is needed"),
            (Function::Eq, [first, others @ ..]) if !others.is_empty() => {
                Ok(Value::Flag(others.contains(first)))
            }
            (Function::Ne, [first, other]) => Ok(Value::Flag(first != other)),
            (Function::Eq, _) => self.error(at, "eq: two or more arguments are needed"),
            (Function::Ne, _) => self.error(at, "ne: two arguments are needed"),
            (Function::Printf, _) => {
                let texts = values.iter().zip(arguments).map(|(value, of)| self.text(value, of));
                self.printf(at, texts.collect::<Result<_, _>>()?)
            }
        }
    }

    /// Formats texts with the verbs `%s`, `%v` and `%q`. The first text is the format.
    fn printf(&self, at: usize, texts: Vec<String>) -> Result<Value, TemplateError> {
        let mut texts = texts.into_iter();
        let format = texts.next().unwrap_or_default();
        let fit = || error(self.template, at, "printf: the format and its arguments do not fit");
        let mut output = String::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                output.push(character);
                continue;
            }
            match characters.next() {
                Some('%') => output.push('%'),
                Some('s' | 'v') => output.push_str(&texts.next().ok_or_else(fit)?),
                Some('q') => output.push_str(&format!("{:?}", texts.next().ok_or_else(fit)?)),
                Some(other) => return self.error(at, format!("printf: %{other} is not supported")),
                None => return Err(fit()),
            }
        }
        if texts.next().is_some() {
            return Err(fit());
        }
        Ok(Value::Text(output))
    }
}

/// Returns why a field has no value.
fn why_unset(names: &[String]) -> &'static str {
    if names.iter().eq(["controlPlane", "version"]) {
        "the control plane of the Cluster has no version"
    } else {
        "the only value is .controlPlane.version"
    }
}
