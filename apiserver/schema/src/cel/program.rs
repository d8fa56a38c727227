//! One compiled rule.

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

/// Unit: bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// What expressions are about.
pub(super) struct Given {
    pub(super) now: Cel,
    /// What was there before, as the rule has it.
    pub(super) old: Option<Cel>,
}

/// A rule, compiled once.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(super) program: IdedExpr,
    source: String,
    message: Option<String>,
    message_source: Option<String>,
    message_program: Option<IdedExpr>,
    /// The calls of which only running tells which of several functions is meant.
    unsure: OnceLock<HashSet<u64>>,
    unsure_of_message: OnceLock<HashSet<u64>>,
    reason: Option<String>,
    /// The field that is to blame, below the one with the rule.
    blamed: Option<String>,
    /// Whether it is about what was there before.
    pub(crate) is_transition: bool,
    /// Whether it is also asked when there was nothing before.
    pub(super) optional_old: bool,
    /// Whether running it may need more than what is left of a stack.
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
        // With what is around it: errors tell columns.
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
            unsure: OnceLock::new(),
            unsure_of_message: OnceLock::new(),
            reason: text("reason"),
            blamed: text("fieldPath").map(|path| normal_path(&path, schema)),
            optional_old: rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false),
            source,
        })
    }

    /// Whether it makes sense for values of this schema, which is the one it was compiled with.
    ///
    /// # Errors
    /// Says what makes none.
    pub(crate) fn check(&self, schema: &Schema) -> Result<(), String> {
        stack::deep(|| {
            let scope = self.scope(schema);
            // A rule is checked once, and what is found is the same each time.
            let _ = self.unsure.set(self.make_sense(&scope)?.unsure());
            if let Some((source, program)) = self.message_expression() {
                let found = analysis::message_makes_sense(&scope, source, program)?;
                let _ = self.unsure_of_message.set(found.unsure());
            }
            Ok(())
        })
    }

    /// What its expression is, part by part.
    pub(super) fn make_sense<'a>(&self, scope: &Scope<'a, '_>) -> Result<Checked<'a>, String> {
        analysis::rule_makes_sense(scope, &self.source, &self.program)
    }

    /// The variables that its expressions have for values of a schema.
    pub(super) fn scope<'a>(&self, schema: &'a Schema) -> Scope<'a, 'a> {
        let now = Type::of(schema);
        let old = if self.optional_old { Type::Optional(Box::new(now.clone())) } else { now.clone() };
        Scope::of([("self", now), ("oldSelf", old)])
    }

    /// What one of its expressions gives, and what that cost.
    pub(super) fn run(
        &self,
        expression: &IdedExpr,
        functions: &Context<'static>,
        given: &Given,
        until: Instant,
    ) -> (Result<Cel, Failure>, u64) {
        let unsure =
            if std::ptr::eq(expression, &self.program) { &self.unsure } else { &self.unsure_of_message };
        let mut run =
            Run::new(functions, unsure.get(), MOST_OF_A_RULE, until).with("self", given.now.clone());
        if let Some(old) = &given.old {
            run = run.with("oldSelf", old.clone());
        }
        let outcome =
            if self.is_deep { stack::deep(|| run.value(expression)) } else { run.value(expression) };
        (outcome, run.cost())
    }

    /// The expression for its message.
    pub(super) fn message_expression(&self) -> Option<(&str, &IdedExpr)> {
        self.message_source.as_deref().zip(self.message_program.as_ref())
    }

    /// The field that is to blame.
    pub(super) fn blamed(&self, path: &FieldPath) -> FieldPath {
        self.blamed.as_deref().map_or_else(|| path.clone(), |blamed| path.child(blamed))
    }

    /// How errors call it.
    pub(super) fn name(&self) -> &str {
        self.message.as_deref().unwrap_or_else(|| self.source.trim())
    }

    /// The error of a value of which it does not hold.
    pub(super) fn broken(&self, schema: &Schema, value: &Value, detail: &str, at: FieldPath) -> FieldError {
        match (self.reason.as_deref(), &schema.kind) {
            (Some("FieldValueForbidden"), _) => FieldError::forbidden(at, detail),
            (Some("FieldValueRequired"), _) => FieldError::required(at, detail),
            (Some("FieldValueDuplicate"), _) => FieldError::duplicate(at, value),
            // The value of an object or list is not repeated.
            (_, Kind::Object(_) | Kind::List(_)) => FieldError::invalid_unshown(at, detail),
            _ => FieldError::invalid(at, value, detail),
        }
    }

    /// The message where none is made.
    pub(super) fn plain_message(&self) -> String {
        self.message.clone().unwrap_or_else(|| format!("failed rule: {}", self.source.trim()))
    }
}

/// The message that was made, if it is one line of text and not too long.
pub(super) fn usable(made: Option<Cel>) -> Option<String> {
    let Some(Cel::String(text)) = made else { return None };
    let text = text.trim();
    let is_usable = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
    is_usable.then(|| text.to_owned())
}

/// Reads the expression for a message.
///
/// # Errors
/// Points at what is not understood.
pub(super) fn message(source: &str) -> Result<IdedExpr, String> {
    parse(source).map_err(|problem| format!("messageExpression compilation failed: {problem}"))
}

impl Schema {
    /// The type's name, which errors show instead of a value.
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

/// A path such as `.spec['a.b'].c` as errors have it: known fields by dots, keys of maps in brackets.
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

/// The names in a path, whichever way they are written.
fn segments(path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['") {
            let (name, tail) = quoted.split_once("']").unwrap_or((quoted, ""));
            found.push(name.replace("\\'", "'"));
            rest = tail;
        } else {
            // Each round takes something: a path may come from whoever writes a schema.
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
    fn no_path_is_read_forever() {
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
