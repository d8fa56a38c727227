//! Validation rules in CEL (`x-kubernetes-validations`): parser, type checker, cost estimation and evaluation.

mod admission;
mod analysis;
mod check;
mod declarations;
mod estimate;
mod expression;
mod in_rules;
mod literals;
mod macros;
mod negation;
mod oracle;
mod parse;
mod parts;
mod program;
mod run;
mod stack;
mod type_error;
mod types;
mod value;

use std::time::{Duration, Instant};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, Value as Cel};
use serde_json::Value;

pub use admission::{
    AdmissionExpression, AdmissionInputs, CheckedParams, Declared, DeclaredVariables, Evaluated, Evaluation,
    EvaluationError, PolicyVariable, TypeCheck, Wanted,
};
pub use analysis::RuleAnalysis;
pub use expression::Expression;
pub(super) use in_rules::InRules;
pub use oracle::{AuthorizationAnswer, AuthorizationOracle, AuthorizationQuestion};
pub(crate) use program::Rule;
pub use value::RESERVED_WORDS;
pub(super) use value::go_duration;

use super::{Kind, Schema};
use crate::field_errors::{FieldError, FieldPath};
use program::Variables;
use run::Failure;

/// Time limit of all rules of one object. The cost limit bounds most rules. Some functions have a low cost for
/// arguments of any length, and upstream stops them at the end of the request.
const LONGEST: Duration = Duration::from_secs(30);

/// Cost limit of one rule on one value. The number is upstream's.
const MOST_OF_A_RULE: u64 = 1_000_000;

/// Cost limit of all rules on one object.
const MOST_OF_AN_OBJECT: u64 = 10_000_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

const MESSAGE_OUT_OF_BUDGET: &str = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";

const COST_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

thread_local! {
    /// Functions that Kubernetes adds to CEL. Registering them takes longer than the evaluation of most rules.
    static FUNCTIONS: Context<'static> = Context::default().with_all();
}

/// Value, its old value, and whether they are equal.
#[derive(Clone, Copy)]
struct Subject<'a> {
    now: &'a Value,
    old: Option<&'a Value>,
    /// Set if this value, or an enclosing value, is unchanged.
    is_unchanged: bool,
    /// Set if unchanged values skip their rules.
    ratchets: bool,
}

impl<'a> Subject<'a> {
    fn inner(self, now: &'a Value, old: Option<&'a Value>) -> Self {
        let is_unchanged = self.is_unchanged || self.ratchets && old == Some(now);
        Self { now, old, is_unchanged, ratchets: self.ratchets }
    }
}

impl Schema {
    /// Returns the errors of all violated rules. A rule that reads only the value is skipped if the value is unchanged.
    /// A transition rule is always evaluated.
    pub(super) fn broken_rules(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &FieldPath,
    ) -> Vec<FieldError> {
        let subject = Subject { now: value, old, is_unchanged: old == Some(value), ratchets: true };
        self.run_all_rules(subject, path)
    }

    /// Returns the errors of all violated rules, also for unchanged values. Paths begin at the value.
    pub fn rule_errors(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let subject = Subject { now: value, old, is_unchanged: false, ratchets: false };
        self.run_all_rules(subject, &FieldPath::default())
    }

    fn run_all_rules(&self, subject: Subject<'_>, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Vec::new();
        FUNCTIONS.with(|functions| {
            let until = Instant::now() + LONGEST;
            let left = Some(MOST_OF_AN_OBJECT);
            let walk = &mut Walk { functions, left, until, errors: &mut errors };
            self.run_rules(subject, path, walk);
        });
        errors
    }

    fn run_rules(&self, subject: Subject<'_>, path: &FieldPath, walk: &mut Walk<'_>) {
        if !self.has_rules || subject.now.is_null() || walk.left.is_none() {
            return;
        }
        if !self.rules.is_empty() {
            walk.node(self, subject, path);
        }
        match (&self.kind, subject.now) {
            (Kind::Object(object), Value::Object(map)) => {
                for (name, field) in map {
                    let inner = subject.inner(field, subject.old.and_then(|old| old.get(name)));
                    match object.properties.get(name) {
                        Some(schema) => schema.run_rules(inner, &path.child(name), walk),
                        None => {
                            if let Some(schema) = &object.additional {
                                schema.run_rules(inner, &path.key(name), walk);
                            }
                        }
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) if list.items.has_rules => {
                let counterparts = list.counterparts(subject.old);
                for (index, item) in items.iter().enumerate() {
                    let inner = subject.inner(item, counterparts.of(item));
                    list.items.run_rules(inner, &path.index(index), walk);
                }
            }
            _ => {}
        }
    }
}

/// One walk over an object.
struct Walk<'a> {
    functions: &'a Context<'static>,
    /// Remaining cost. `None` after the limit was exceeded; no further rule is evaluated then.
    left: Option<u64>,
    until: Instant,
    errors: &'a mut Vec<FieldError>,
}

impl Walk<'_> {
    /// Evaluates the rules of one value.
    fn node(&mut self, schema: &Schema, subject: Subject<'_>, path: &FieldPath) {
        let old = subject.old.filter(|old| !old.is_null());
        let is_due = |rule: &&std::sync::Arc<Rule>| {
            if rule.is_transition { old.is_some() || rule.optional_old } else { !subject.is_unchanged }
        };
        let due: Vec<_> = schema.rules.iter().filter(is_due).collect();
        if due.is_empty() {
            return;
        }
        if self.left == Some(0) {
            return self.stop(schema, path, OUT_OF_BUDGET);
        }
        let mut given = Variables { now: schema.to_cel(subject.now), old: old.map(|old| schema.to_cel(old)) };
        for rule in due {
            let plain = given.old.clone();
            if rule.optional_old {
                given.old = Some(value::optional(plain.clone()));
            }
            self.evaluate(rule, schema, subject.now, &given, path);
            given.old = plain;
            if self.left.is_none() {
                return;
            }
        }
    }

    fn evaluate(&mut self, rule: &Rule, schema: &Schema, now: &Value, given: &Variables, path: &FieldPath) {
        let (outcome, cost) = rule.run(&rule.program, self.functions, given, self.until);
        if !self.spend(cost) {
            return self.stop(schema, path, OUT_OF_BUDGET);
        }
        let name = rule.name();
        match outcome {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => self.violated(rule, schema, now, given, path),
            Ok(other) => {
                self.fail(schema, path, &format!("unexpected result {other:?} evaluating rule: {name}"));
            }
            Err(Failure::CostExceeded) => self.stop(
                schema,
                path,
                &format!("'{COST_EXCEEDED}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"),
            ),
            Err(Failure::Interrupted) => {
                self.stop(schema, path, &format!("operation interrupted evaluating rule: {name}"));
            }
            Err(Failure::Error(text)) if text.starts_with("no such overload") => self.fail(
                schema,
                path,
                &format!("'{text}': call arguments did not match a supported operator, function or macro signature for rule: {name}"),
            ),
            Err(Failure::Error(text)) => {
                self.fail(schema, path, &format!("{} evaluating rule: {name}", in_lower_case(&text)));
            }
        }
    }

    /// Adds the error of a violated rule. The evaluation of its message has a cost, too.
    fn violated(&mut self, rule: &Rule, schema: &Schema, now: &Value, given: &Variables, path: &FieldPath) {
        let at = rule.error_field(path);
        let mut message = None;
        if let Some((source, program)) = rule.message_expression() {
            let (outcome, cost) = rule.run(program, self.functions, given, self.until);
            if !self.spend(cost) {
                return self.stop(schema, &at, MESSAGE_OUT_OF_BUDGET);
            }
            if outcome == Err(Failure::CostExceeded) {
                let source = Value::from(source);
                let detail = format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source}"
                );
                return self.stop(schema, &at, &detail);
            }
            message = program::single_line(outcome.ok());
        }
        self.errors.push(rule.violated(schema, now, &message.unwrap_or_else(|| rule.static_message()), at));
    }

    /// Spends a cost. Returns false if the remaining cost is lower.
    fn spend(&mut self, cost: u64) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(cost));
        self.left.is_some()
    }

    fn fail(&mut self, schema: &Schema, path: &FieldPath, detail: &str) {
        self.errors.push(FieldError::invalid(path.clone(), &Value::from(schema.type_name()), detail));
    }

    /// Adds the error that ends the evaluation of rules.
    fn stop(&mut self, schema: &Schema, path: &FieldPath, detail: &str) {
        self.fail(schema, path, detail);
        self.left = None;
    }
}

/// Returns a text that begins in lower case, as the errors of rules do.
fn in_lower_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
