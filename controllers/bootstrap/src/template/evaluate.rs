//! Evaluation of templates.

use std::collections::BTreeMap;

use super::parse::{Expression, Function, Node};
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

/// Writes nodes to the output.
pub(super) fn write(nodes: &[Node], root: &Value, output: &mut String) -> Result<(), TemplateError> {
    for node in nodes {
        match node {
            Node::Plain(text) => output.push_str(text),
            Node::Write(expression) => output.push_str(&text(&evaluate(expression, root)?, expression)?),
            Node::If(branches, otherwise) => {
                let mut chosen = otherwise;
                for (condition, branch) in branches {
                    if evaluate(condition, root)?.holds() {
                        chosen = branch;
                        break;
                    }
                }
                write(chosen, root, output)?;
            }
        }
        if output.len() > LIMIT {
            return Err(TemplateError::TooLong);
        }
    }
    Ok(())
}

/// Returns the text of a value that is written.
fn text(value: &Value, of: &Expression) -> Result<String, TemplateError> {
    match (value, of) {
        (Value::Text(text), _) => Ok(text.clone()),
        (Value::Flag(flag), _) => Ok(flag.to_string()),
        (Value::Unset, Expression::Field(names)) => {
            Err(TemplateError::Unset(format!(".{}", names.join("."))))
        }
        (Value::Unset, _) => Err(TemplateError::Unset("a value".to_owned())),
        (Value::Map(_), _) => Err(TemplateError::Arguments("only a text can be written".to_owned())),
    }
}

fn evaluate(expression: &Expression, root: &Value) -> Result<Value, TemplateError> {
    match expression {
        Expression::Text(text) => Ok(Value::Text(text.clone())),
        Expression::Flag(flag) => Ok(Value::Flag(*flag)),
        Expression::Field(names) => Ok(field(root, names)),
        Expression::Call(function, arguments) => call(*function, arguments, root),
    }
}

fn field(root: &Value, names: &[String]) -> Value {
    let mut value = root;
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

fn call(function: Function, arguments: &[Expression], root: &Value) -> Result<Value, TemplateError> {
    match function {
        Function::And | Function::Or => {
            let mut last = Value::Unset;
            for argument in arguments {
                last = evaluate(argument, root)?;
                // The rest is not evaluated, as in Go.
                if last.holds() == (function == Function::Or) {
                    break;
                }
            }
            Ok(last)
        }
        Function::Not => match arguments {
            [only] => Ok(Value::Flag(!evaluate(only, root)?.holds())),
            _ => Err(TemplateError::Arguments("not: one argument is needed".to_owned())),
        },
        Function::Eq | Function::Ne => compare(function, arguments, root),
        Function::Printf => printf(arguments, root),
    }
}

/// Compares the first argument with the others: `eq` with several, `ne` with one.
fn compare(function: Function, arguments: &[Expression], root: &Value) -> Result<Value, TemplateError> {
    match (function, arguments) {
        (Function::Eq, [first, others @ ..]) if !others.is_empty() => {
            let first = evaluate(first, root)?;
            for other in others {
                if evaluate(other, root)? == first {
                    return Ok(Value::Flag(true));
                }
            }
            Ok(Value::Flag(false))
        }
        (Function::Ne, [first, other]) => Ok(Value::Flag(evaluate(first, root)? != evaluate(other, root)?)),
        _ => Err(TemplateError::Arguments("eq and ne: two arguments are needed".to_owned())),
    }
}

/// Formats texts with the verbs `%s`, `%v` and `%q`.
fn printf(arguments: &[Expression], root: &Value) -> Result<Value, TemplateError> {
    let wrong = |message: &str| TemplateError::Arguments(format!("printf: {message}"));
    let mut values = Vec::new();
    for argument in arguments {
        values.push(text(&evaluate(argument, root)?, argument)?);
    }
    let mut values = values.into_iter();
    let format = values.next().unwrap_or_default();
    let mut output = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            output.push(character);
            continue;
        }
        let fit = || wrong("the format and its arguments do not fit");
        match characters.next() {
            Some('%') => output.push('%'),
            Some('s' | 'v') => output.push_str(&values.next().ok_or_else(fit)?),
            Some('q') => output.push_str(&format!("{:?}", values.next().ok_or_else(fit)?)),
            Some(other) => return Err(wrong(&format!("%{other} is not supported"))),
            None => return Err(fit()),
        }
    }
    if values.next().is_some() {
        return Err(wrong("the format and its arguments do not fit"));
    }
    Ok(Value::Text(output))
}
