//! Checks of the branches and arguments that one rendering does not reach.

use super::TemplateError;
use super::evaluate::{Evaluator, Value};
use super::parse::{Expression, Node, Term};

/// Fields that the conditions around a node name.
type Guards<'a> = Vec<&'a [String]>;

impl Evaluator<'_> {
    /// Checks all nodes, with every branch taken and every argument evaluated.
    pub(super) fn verify(&self, nodes: &[Node]) -> Result<(), TemplateError> {
        self.verify_within(nodes, &Vec::new())
    }

    fn verify_within(&self, nodes: &[Node], guards: &Guards<'_>) -> Result<(), TemplateError> {
        for node in nodes {
            match node {
                Node::Plain(_) => {}
                Node::Write(expression) => {
                    let value = self.value(expression, guards)?;
                    self.text(&value, expression)?;
                }
                Node::If(branches, otherwise) => {
                    let mut guards = guards.clone();
                    for (condition, branch) in branches {
                        fields(condition, &mut guards);
                        self.value(condition, &guards)?;
                        self.verify_within(branch, &guards)?;
                    }
                    self.verify_within(otherwise, &guards)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the value of an expression. A field without a value counts as a text if a condition around it names it:
    /// the template writes it only where it has one.
    fn value(&self, expression: &Expression, guards: &Guards<'_>) -> Result<Value, TemplateError> {
        match &expression.term {
            Term::Text(text) => Ok(Value::Text(text.clone())),
            Term::Flag(flag) => Ok(Value::Flag(*flag)),
            Term::Field(names) => match self.field(names) {
                Value::Unset if guards.iter().any(|guard| names.starts_with(guard)) => {
                    Ok(Value::Text(String::new()))
                }
                value => Ok(value),
            },
            Term::Call(function, arguments) => {
                let values = arguments.iter().map(|argument| self.value(argument, guards));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                self.apply(expression.at, *function, arguments, &values)
            }
        }
    }
}

/// Adds the fields of an expression.
fn fields<'a>(expression: &'a Expression, found: &mut Guards<'a>) {
    match &expression.term {
        Term::Field(names) => found.push(names),
        Term::Call(_, arguments) => arguments.iter().for_each(|argument| fields(argument, found)),
        Term::Text(_) | Term::Flag(_) => {}
    }
}
