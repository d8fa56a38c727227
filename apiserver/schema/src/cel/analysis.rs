//! Static analysis of a validation rule: type errors and worst-case cost, before the rule is evaluated.

use kube_cel::cel::IdedExpr;
use serde_json::Value;

use super::check::{Checked, Scope};
use super::estimate;
use super::program::Rule;
use super::stack;
use super::type_error;
use super::types::Type;
use crate::Schema;

/// Result of the static analysis of a validation rule.
#[derive(Debug)]
pub struct RuleAnalysis {
    /// Worst-case cost for one value, in CEL's units, or the error of the rule.
    pub rule: Result<u64, String>,
    /// The same for the message expression, if there is one and the rule has no error.
    pub message: Option<Result<u64, String>>,
    /// Set if the rule refers to the old value.
    pub is_transition: bool,
}

impl Schema {
    /// Analyses a rule for values of this schema.
    pub fn analyze(&self, rule: &Value) -> RuleAnalysis {
        stack::deep(|| analyze(self, rule))
    }

    /// Returns how many values of this schema one request can hold at most. The size limit of a request is
    /// kube-apiserver's.
    pub fn most_in_a_request(&self) -> u64 {
        estimate::most_in_a_request(self)
    }
}

fn analyze(schema: &Schema, rule: &Value) -> RuleAnalysis {
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
    let of_rule = match rule.type_check(&scope) {
        Ok(checked) => estimate::most(&rule.program, schema, &checked),
        Err(problem) => return refused(problem),
    };
    let message = text("messageExpression").filter(|source| !source.is_empty()).map(|source| {
        let program = super::program::message(source)?;
        let checked = check_message(&scope, source, &program)?;
        Ok(estimate::most(&program, schema, &checked))
    });
    RuleAnalysis { rule: Ok(of_rule), message, is_transition: rule.is_transition }
}

/// Type-checks the expression of a rule.
///
/// # Errors
/// The text of the error.
pub(super) fn check_rule<'a>(
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

/// Type-checks the message expression of a rule.
///
/// # Errors
/// The text of the error.
pub(super) fn check_message<'a>(
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

/// Type-checks an expression, and returns what was found with its type.
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
