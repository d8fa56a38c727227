//! Evaluation of pipelines: commands, operands and fields.

use super::super::node::{Command, Operand, Pipe};
use super::super::number::Number;
use super::super::value::{Outcome, Value, Width, type_name};
use super::super::{times, versions};
use super::{DEEPEST, Evaluator, MissingKey};

impl Evaluator<'_> {
    /// Evaluates a pipeline, and sets its variables.
    pub(super) fn pipe(&mut self, dot: &Value, pipe: &Pipe) -> Outcome<Value> {
        self.line = pipe.line;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("templates are nested deeper than {DEEPEST} levels"));
        }
        let mut value = None;
        for command in &pipe.commands {
            value = Some(match self.command(dot, command, value)? {
                Value::Null => Value::Missing,
                value => value,
            });
        }
        self.depth -= 1;
        let value = value.unwrap_or(Value::Missing);
        for name in &pipe.variables {
            if pipe.is_assignment {
                self.assign(name, value.clone())?;
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    /// Evaluates a command. `last` is the value of the command before it.
    fn command(&mut self, dot: &Value, command: &Command, last: Option<Value>) -> Outcome<Value> {
        self.context.charge(0)?;
        if let Operand::Function(name) = &command.first {
            return self.function(dot, name, &command.arguments, last);
        }
        let has_arguments = !command.arguments.is_empty() || last.is_some();
        match &command.first {
            Operand::Field(_) | Operand::Chain(..) => {
                self.chain(dot, &command.first, Some((&command.arguments, last)))
            }
            Operand::Variable(_, fields) if !fields.is_empty() => {
                self.chain(dot, &command.first, Some((&command.arguments, last)))
            }
            Operand::Nil => Err("nil is not a command".to_owned()),
            _ if has_arguments => Err("can't give argument to non-function".to_owned()),
            operand => self.operand(dot, operand),
        }
    }

    /// Evaluates an operand without arguments.
    pub(super) fn operand(&mut self, dot: &Value, operand: &Operand) -> Outcome<Value> {
        Ok(match operand {
            Operand::Dot => dot.clone(),
            Operand::Nil => Value::Null,
            Operand::Bool(value) => Value::Bool(*value),
            Operand::Number(number) => constant(*number)?,
            Operand::Text(text) => Value::text(text),
            Operand::Function(name) => return self.function(dot, name, &[], None),
            Operand::Pipe(pipe) => return self.pipe(dot, pipe),
            Operand::Variable(name, fields) if fields.is_empty() => self.variable(name)?,
            Operand::Field(_) | Operand::Variable(..) | Operand::Chain(..) => {
                return self.chain(dot, operand, None);
            }
        })
    }

    /// Evaluates a chain of fields. Only a method takes arguments.
    fn chain(
        &mut self,
        dot: &Value,
        operand: &Operand,
        call: Option<(&[Operand], Option<Value>)>,
    ) -> Outcome<Value> {
        let (mut value, fields) = match operand {
            Operand::Field(fields) => (dot.clone(), fields),
            Operand::Variable(name, fields) => (self.variable(name)?, fields),
            Operand::Chain(inner, _) if matches!(**inner, Operand::Nil) => {
                return Err("indirection through explicit nil".to_owned());
            }
            Operand::Chain(inner, fields) => (self.operand(dot, inner)?, fields),
            _ => return self.operand(dot, operand),
        };
        let (arguments, last) = call.unwrap_or((&[], None));
        let mut given = Vec::new();
        for argument in arguments {
            given.push(self.operand(dot, argument)?);
        }
        given.extend(last);
        for (index, field) in fields.iter().enumerate() {
            let given: &[Value] = if index + 1 == fields.len() { &given } else { &[] };
            value = self.field(&value, field, given)?;
        }
        Ok(value)
    }

    fn field(&self, holder: &Value, name: &str, arguments: &[Value]) -> Outcome<Value> {
        self.context.charge(0)?;
        match holder {
            Value::Missing => Ok(Value::Missing),
            Value::Null => Err(format!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(_) if !arguments.is_empty() => {
                Err(format!("{name} is not a method but has arguments"))
            }
            Value::Map(map) => match (self.context.get(*map, name), self.missing_key) {
                (Some(value), _) => Ok(value),
                (None, MissingKey::Prints) => Ok(Value::Missing),
                (None, MissingKey::Fails) => Err(format!("map has no entry for key {name:?}")),
            },
            Value::Version(version) => versions::method(version, name, arguments, self.context),
            Value::Time(time) => times::method(time, name, arguments, self.context),
            Value::Certificate(certificate) => certificate.field(name, arguments),
            other => {
                let kind = type_name(other, self.context);
                Err(format!("can't evaluate field {name} in type {kind}"))
            }
        }
    }
}

/// Returns the value of a constant.
fn constant(number: Number) -> Outcome<Value> {
    match (number.is_float, number.float, number.integer) {
        (true, Some(value), _) => Ok(Value::Float(value)),
        (_, _, Some(value)) => Ok(Value::Integer(value, Width::Int)),
        _ => Err("constant overflows int".to_owned()),
    }
}
