//! Evaluation of calls of functions, with the types of their arguments.

use super::super::functions::Parameter;
use super::super::node::Operand;
use super::super::value::{Outcome, Value, Width, is_true, type_name};
use super::Evaluator;

impl Evaluator<'_> {
    /// Calls a function. `last` is the value of the command before it.
    pub(super) fn function(
        &mut self,
        dot: &Value,
        name: &str,
        arguments: &[Operand],
        last: Option<Value>,
    ) -> Outcome<Value> {
        let function = self.library.find(name).ok_or_else(|| self.library.refusal(name))?;
        let count = arguments.len() + usize::from(last.is_some());
        let fixed = function.parameters.len();
        let fits = if function.rest.is_some() { count >= fixed } else { count == fixed };
        if !fits {
            let least = if function.rest.is_some() { "at least " } else { "" };
            return Err(format!("wrong number of args for {name}: want {least}{fixed} got {count}"));
        }
        if matches!(name, "and" | "or") {
            return self.and_or(dot, name == "or", arguments, last);
        }
        let mut values = Vec::with_capacity(count);
        for argument in arguments {
            let parameter = function.parameter(values.len());
            values.push(self.argument(dot, argument, parameter)?);
        }
        if let Some(last) = last {
            values.push(self.fitting(last, function.parameter(values.len()))?);
        }
        for value in &values {
            self.context.charge_value(value)?;
        }
        let result = (function.call)(self.context, &values);
        let result = result.map_err(|error| format!("error calling {name}: {error}"))?;
        if let Value::Text(text) = &result {
            self.context.check_length(text.len())?;
        }
        Ok(result)
    }

    /// Evaluates `and` or `or`, which stop at the first operand that decides.
    fn and_or(
        &mut self,
        dot: &Value,
        is_or: bool,
        arguments: &[Operand],
        last: Option<Value>,
    ) -> Outcome<Value> {
        let mut value = Value::Missing;
        for argument in arguments {
            value = self.argument(dot, argument, Parameter::Reflect)?;
            if is_true(&value, self.context) == is_or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// Evaluates an argument, and checks its type.
    fn argument(&mut self, dot: &Value, operand: &Operand, parameter: Parameter) -> Outcome<Value> {
        match (operand, parameter) {
            (Operand::Nil, Parameter::Any | Parameter::Reflect | Parameter::Map) => Ok(Value::Null),
            (Operand::Nil, _) => Err(format!("cannot assign nil to {}", parameter.name())),
            (Operand::Number(number), Parameter::Int) => number
                .integer
                .map(|value| Value::Integer(value, Width::Int))
                .ok_or_else(|| "expected integer; found a number with a fraction".to_owned()),
            // Go cuts the bits off that do not fit.
            (Operand::Number(number), Parameter::Uint32) => number
                .integer
                .filter(|value| *value >= 0)
                .map(|value| Value::Integer(value & i64::from(u32::MAX), Width::Uint32))
                .ok_or_else(|| "expected unsigned integer".to_owned()),
            (Operand::Number(number), Parameter::Float) => {
                Ok(number.float.map_or(Value::Missing, Value::Float))
            }
            _ => {
                let value = self.operand(dot, operand)?;
                self.fitting(value, parameter)
            }
        }
    }

    /// Checks the type of an argument.
    fn fitting(&self, value: Value, parameter: Parameter) -> Outcome<Value> {
        let fits = match parameter {
            Parameter::Any => return Ok(if value.is_nil() { Value::Null } else { value }),
            Parameter::Reflect => true,
            Parameter::Text => matches!(value, Value::Text(_)),
            Parameter::Int => matches!(value, Value::Integer(_, Width::Int)),
            Parameter::Uint32 => matches!(value, Value::Integer(_, Width::Uint32)),
            Parameter::Float => matches!(value, Value::Float(_)),
            Parameter::Bool => matches!(value, Value::Bool(_)),
            Parameter::Time => matches!(value, Value::Time(_)),
            Parameter::Map => match &value {
                Value::Map(map) => !self.context.is_of_texts(*map),
                other => matches!(other, Value::Missing),
            },
        };
        if fits {
            return Ok(value);
        }
        let found = type_name(&value, self.context);
        Err(format!("wrong type for value; expected {}; found {found}", parameter.name()))
    }
}
