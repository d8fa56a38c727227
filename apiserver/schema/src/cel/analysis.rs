//! What is found of a rule before it meets a value: whether it makes sense, and what it may cost.

use kube_cel::cel::IdedExpr;
use serde_json::Value;

use super::check::{Checked, Scope};
use super::estimate;
use super::program::Rule;
use super::stack;
use super::type_error;
use super::types::Type;
use crate::Schema;

/// What is found of a rule before it meets a value.
#[derive(Debug)]
pub struct RuleAnalysis {
    /// What it costs at most for one value, in CEL's units; or why it makes no sense.
    pub rule: Result<u64, String>,
    /// The same of the expression for its message, if it has one and the rule makes sense.
    pub message: Option<Result<u64, String>>,
    /// Whether it is about what was there before.
    pub is_transition: bool,
}

impl Schema {
    /// What is found of a rule for values of this schema.
    pub fn judge(&self, rule: &Value) -> RuleAnalysis {
        stack::deep(|| judge(self, rule))
    }

    /// How many values of this schema one request can hold at most, by kube-apiserver's measure of requests.
    pub fn most_in_a_request(&self) -> u64 {
        estimate::most_in_a_request(self)
    }
}

fn judge(schema: &Schema, rule: &Value) -> RuleAnalysis {
    let text = |field: &str| rule.get(field).and_then(Value::as_str);
    let refused = |problem| RuleAnalysis { rule: Err(problem), message: None, is_transition: false };
    let mut plain = rule.clone();
    if let Some(fields) = plain.as_object_mut() {
        fields.remove("messageExpression");
    }
    let rule = match Rule::compile(&plain, &Value::Null) {
        Ok(rule) => rule,
        Err(problem) => return refused(problem),
    };
    let scope = rule.scope(schema);
    let of_rule = match rule.make_sense(&scope) {
        Ok(checked) => estimate::most(&rule.program, schema, &checked),
        Err(problem) => return refused(problem),
    };
    let message = text("messageExpression").filter(|source| !source.is_empty()).map(|source| {
        let program = super::program::message(source)?;
        let checked = message_makes_sense(&scope, source, &program)?;
        Ok(estimate::most(&program, schema, &checked))
    });
    RuleAnalysis { rule: Ok(of_rule), message, is_transition: rule.is_transition }
}

/// What is found of a rule's expression.
///
/// # Errors
/// Says what makes no sense.
pub(super) fn rule_makes_sense<'a>(
    scope: &Scope<'a, '_>,
    source: &str,
    program: &IdedExpr,
) -> Result<Checked<'a>, String> {
    let (found, of) =
        checked(scope, source, program).map_err(|errors| format!("compilation failed: {errors}"))?;
    if matches!(of, Type::Bool) {
        Ok(found)
    } else {
        Err("cel expression must evaluate to a bool".to_owned())
    }
}

/// The same of the expression for its message.
///
/// # Errors
/// Says what makes no sense.
pub(super) fn message_makes_sense<'a>(
    scope: &Scope<'a, '_>,
    source: &str,
    program: &IdedExpr,
) -> Result<Checked<'a>, String> {
    let (found, of) = checked(scope, source, program)
        .map_err(|errors| format!("messageExpression compilation failed: {errors}"))?;
    if matches!(of, Type::Text) {
        Ok(found)
    } else {
        Err("messageExpression must evaluate to a string".to_owned())
    }
}

/// What is found of an expression, and what it gives.
fn checked<'a>(
    scope: &Scope<'a, '_>,
    source: &str,
    program: &IdedExpr,
) -> Result<(Checked<'a>, Type<'a>), String> {
    let mut found = Checked::default();
    let of = scope.type_of(program, &mut found);
    match found.errors() {
        Some(errors) => Err(type_error::shown(source, errors)),
        None => Ok((found, of)),
    }
}
