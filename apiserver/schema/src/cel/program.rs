//! Compiled validation rule.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::time::Instant;

use kube_cel::cel::{Context, IdedExpr, Value as Cel};
use serde_json::Value;

use super::check::{Checked, Scope};
use super::parse::{is_deep, parse};
use super::run::{Failure, Run};
use super::stack;
use super::types::Type;
use super::{MOST_OF_A_RULE, analysis};
use crate::field_errors::{FieldError, FieldPath};
use crate::{Kind, Schema};

/// Longest message. Unit: bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// Variables of an evaluation.
pub(super) struct Variables {
    pub(super) now: Cel,
    /// Old value, in the form that the rule expects.
    pub(super) old: Option<Cel>,
}

/// Compiled validation rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(super) program: IdedExpr,
    source: String,
    message: Option<String>,
    message_source: Option<String>,
    message_program: Option<IdedExpr>,
    /// Calls whose overload is known only at run time.
    unresolved: OnceLock<HashSet<u64>>,
    unsure_of_message: OnceLock<HashSet<u64>>,
    reason: Option<String>,
    /// Field in the error, relative to the field with the rule.
    error_field: Option<String>,
    /// Set if the rule refers to the old value.
    pub(crate) is_transition: bool,
    /// Set if the rule is also evaluated without an old value.
    pub(super) optional_old: bool,
    /// Set if evaluation may need more than the remaining stack.
    is_deep: bool,
}

impl Rule {
    /// Compiles a rule of a schema.
    pub(crate) fn compile(rule: &Value, schema: &Value) -> Result<Self, String> {
        stack::deep(|| Self::read(rule, schema))
    }

    fn read(rule: &Value, schema: &Value) -> Result<Self, String> {
        let whole = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default();
        let text = |field: &str| Some(whole(field).trim().to_owned()).filter(|text| !text.is_empty());
        if text("rule").is_none() {
            return Err("a rule without an expression".to_owned());
        }
        // Not trimmed: errors contain columns.
        let source = whole("rule").to_owned();
        let program = parse(&source).map_err(|problem| format!("compilation failed: {problem}"))?;
        let message_source = text("messageExpression").map(|_| whole("messageExpression").to_owned());
        let message_program = message_source.as_deref().map(message).transpose()?;
        Ok(Self {
            is_transition: program.references().has_variable("oldSelf"),
            is_deep: is_deep(&source) || message_source.as_deref().is_some_and(is_deep),
            program,
            message: text("message"),
            message_source,
            message_program,
            unresolved: OnceLock::new(),
            unsure_of_message: OnceLock::new(),
            reason: text("reason"),
            error_field: text("fieldPath").map(|path| normal_path(&path, schema)),
            optional_old: rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false),
            source,
        })
    }

    /// Type-checks the rule for values of this schema, with which it was compiled.
    ///
    /// # Errors
    /// The text of the error.
    pub(crate) fn check(&self, schema: &Schema) -> Result<(), String> {
        stack::deep(|| {
            let scope = self.scope(schema);
            // A rule is checked once, because every check has the same result.
            let _ = self.unresolved.set(self.type_check(&scope)?.unresolved());
            if let Some((source, program)) = self.message_expression() {
                let found = analysis::check_message(&scope, source, program)?;
                let _ = self.unsure_of_message.set(found.unresolved());
            }
            Ok(())
        })
    }

    /// Type-checks the expression.
    pub(super) fn type_check<'a>(&self, scope: &Scope<'a, '_>) -> Result<Checked<'a>, String> {
        analysis::check_rule(scope, &self.source, &self.program)
    }

    /// Returns the variables of the expressions for values of a schema.
    pub(super) fn scope<'a>(&self, schema: &'a Schema) -> Scope<'a, 'a> {
        let now = Type::of(schema);
        let old = if self.optional_old { Type::Optional(Box::new(now.clone())) } else { now.clone() };
        Scope::of([("self", now), ("oldSelf", old)])
    }

    /// Evaluates one of the expressions, and returns its value and its cost.
    pub(super) fn run(
        &self,
        expression: &IdedExpr,
        functions: &Context<'static>,
        given: &Variables,
        until: Instant,
    ) -> (Result<Cel, Failure>, u64) {
        let unresolved =
            if std::ptr::eq(expression, &self.program) { &self.unresolved } else { &self.unsure_of_message };
        let mut run =
            Run::new(functions, unresolved.get(), MOST_OF_A_RULE, until).with("self", given.now.clone());
        if let Some(old) = &given.old {
            run = run.with("oldSelf", old.clone());
        }
        let outcome =
            if self.is_deep { stack::deep(|| run.value(expression)) } else { run.value(expression) };
        (outcome, run.cost())
    }

    /// Returns the message expression.
    pub(super) fn message_expression(&self) -> Option<(&str, &IdedExpr)> {
        self.message_source.as_deref().zip(self.message_program.as_ref())
    }

    /// Returns the path of the field in the error.
    pub(super) fn error_field(&self, path: &FieldPath) -> FieldPath {
        self.error_field.as_deref().map_or_else(|| path.clone(), |error_field| path.child(error_field))
    }

    /// Returns the name of the rule in errors: its message, or else its text.
    pub(super) fn name(&self) -> &str {
        self.message.as_deref().unwrap_or_else(|| self.source.trim())
    }

    /// Creates the error of a value that violates the rule.
    pub(super) fn violated(&self, schema: &Schema, value: &Value, detail: &str, at: FieldPath) -> FieldError {
        match (self.reason.as_deref(), &schema.kind) {
            (Some("FieldValueForbidden"), _) => FieldError::forbidden(at, detail),
            (Some("FieldValueRequired"), _) => FieldError::required(at, detail),
            (Some("FieldValueDuplicate"), _) => FieldError::duplicate(at, value),
            // An object or a list is not repeated in the message.
            (_, Kind::Object(_) | Kind::List(_)) => FieldError::invalid_unshown(at, detail),
            _ => FieldError::invalid(at, value, detail),
        }
    }

    /// Returns the static message.
    pub(super) fn static_message(&self) -> String {
        self.message.clone().unwrap_or_else(|| format!("failed rule: {}", self.source.trim()))
    }
}

/// Returns the computed message if it is one line and not too long.
pub(super) fn single_line(made: Option<Cel>) -> Option<String> {
    let Some(Cel::String(text)) = made else { return None };
    let text = text.trim();
    let is_usable = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
    is_usable.then(|| text.to_owned())
}

/// Parses a message expression.
///
/// # Errors
/// The error shows the location of the problem.
pub(super) fn message(source: &str) -> Result<IdedExpr, String> {
    parse(source).map_err(|problem| format!("messageExpression compilation failed: {problem}"))
}

impl Schema {
    /// Returns the name of the type, which errors show instead of a value.
    pub(super) fn type_name(&self) -> &'static str {
        match &self.kind {
            Kind::Any | Kind::IntegerOrText(..) => "",
            Kind::Object(_) => "object",
            Kind::List(_) => "array",
            Kind::Text(_) => "string",
            Kind::Integer(_) => "integer",
            Kind::Number(_) => "number",
            Kind::Boolean => "boolean",
        }
    }
}

/// Normalizes a path such as `.spec['a.b'].c` for errors: known fields after dots, keys of maps in brackets.
fn normal_path(path: &str, schema: &Value) -> String {
    let mut found = String::new();
    let mut at = Some(schema);
    for segment in segments(path) {
        let property = at.and_then(|schema| schema.get("properties")?.get(&segment));
        if property.is_some() {
            if !found.is_empty() {
                found.push('.');
            }
            found.push_str(&segment);
        } else {
            found.push_str(&format!("[{segment}]"));
        }
        at = property.or_else(|| at.and_then(|schema| schema.get("additionalProperties")));
    }
    found
}

/// Returns the names in a path in either notation.
fn segments(path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['") {
            let (name, tail) = quoted.split_once("']").unwrap_or((quoted, ""));
            found.push(name.replace("\\'", "'"));
            rest = tail;
        } else {
            // Each iteration consumes input, because the author of a schema chooses the path.
            let plain = rest.strip_prefix(['.', '[', ']']).unwrap_or(rest);
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            let (name, tail) = plain.split_at_checked(end).unwrap_or((plain, ""));
            if !name.is_empty() {
                found.push(name.to_owned());
            }
            rest = tail;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_field_paths_terminate() {
        for (path, expected) in [
            (".a.b", vec!["a", "b"]),
            (".a['b.c'].d", vec!["a", "b.c", "d"]),
            (".a[0]", vec!["a", "0]"]),
            ("..[[]a", vec!["]a"]),
            ("['a", vec!["a"]),
        ] {
            assert_eq!(segments(path), expected, "{path}");
        }
    }
}
