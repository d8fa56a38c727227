//! `x-kubernetes-validations`: what must hold of a value beyond its fields' own bounds.

mod analysis;
mod check;
mod declarations;
mod estimate;
mod in_rules;
mod literals;
mod macros;
mod negation;
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

pub use analysis::RuleAnalysis;
pub(super) use in_rules::InRules;
pub(crate) use program::Rule;
pub(super) use value::go_duration;

use super::{Kind, Schema};
use crate::field_errors::{FieldError, FieldPath};
use program::Given;
use run::Failure;

/// How long all rules on one object may take: what they cost bounds it, but for functions that cost little however
/// long what they are given is. Upstream stops them when the request is over.
const LONGEST: Duration = Duration::from_secs(30);

/// What one rule on one value may cost, as upstream has it.
const MOST_OF_A_RULE: u64 = 1_000_000;

/// What all rules on one object may cost.
const MOST_OF_AN_OBJECT: u64 = 10_000_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

const MESSAGE_OUT_OF_BUDGET: &str = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";

const TOO_DEAR: &str = "operation cancelled: actual cost limit exceeded";

thread_local! {
    /// The functions that Kubernetes adds to CEL. Registering them takes longer than most rules.
    static FUNCTIONS: Context<'static> = Context::default().with_all();
}

/// A value, what was there before, and whether all of that is the same.
#[derive(Clone, Copy)]
struct Place<'a> {
    now: &'a Value,
    old: Option<&'a Value>,
    /// Nothing here, or nothing in what surrounds it, was changed.
    is_unchanged: bool,
    /// Whether that counts.
    ratchets: bool,
}

impl<'a> Place<'a> {
    fn inner(self, now: &'a Value, old: Option<&'a Value>) -> Self {
        let is_unchanged = self.is_unchanged || self.ratchets && old == Some(now);
        Self { now, old, is_unchanged, ratchets: self.ratchets }
    }
}

impl Schema {
    /// Every rule that does not hold. A rule that only looks at the value is not held against an
    /// update that leaves the value alone; a rule about the update always is.
    pub(super) fn broken_rules(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &FieldPath,
    ) -> Vec<FieldError> {
        let place = Place { now: value, old, is_unchanged: old == Some(value), ratchets: true };
        self.run_all_rules(place, path)
    }

    /// Every rule that does not hold, also of what is as before. Paths begin at the value.
    pub fn rule_errors(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let place = Place { now: value, old, is_unchanged: false, ratchets: false };
        self.run_all_rules(place, &FieldPath::default())
    }

    fn run_all_rules(&self, place: Place<'_>, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Vec::new();
        FUNCTIONS.with(|functions| {
            let until = Instant::now() + LONGEST;
            let left = Some(MOST_OF_AN_OBJECT);
            let walk = &mut Walk { functions, left, until, errors: &mut errors };
            self.run_rules(place, path, walk);
        });
        errors
    }

    fn run_rules(&self, place: Place<'_>, path: &FieldPath, walk: &mut Walk<'_>) {
        if !self.has_rules || place.now.is_null() || walk.left.is_none() {
            return;
        }
        if !self.rules.is_empty() {
            walk.node(self, place, path);
        }
        match (&self.kind, place.now) {
            (Kind::Object(object), Value::Object(map)) => {
                for (name, field) in map {
                    let inner = place.inner(field, place.old.and_then(|old| old.get(name)));
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
                let counterparts = list.counterparts(place.old);
                for (index, item) in items.iter().enumerate() {
                    let inner = place.inner(item, counterparts.of(item));
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
    /// What rules may cost yet; nothing where they cost too much, and no more are asked.
    left: Option<u64>,
    until: Instant,
    errors: &'a mut Vec<FieldError>,
}

impl Walk<'_> {
    /// The rules of one value.
    fn node(&mut self, schema: &Schema, place: Place<'_>, path: &FieldPath) {
        let old = place.old.filter(|old| !old.is_null());
        let is_due = |rule: &&std::sync::Arc<Rule>| {
            if rule.is_transition { old.is_some() || rule.optional_old } else { !place.is_unchanged }
        };
        let due: Vec<_> = schema.rules.iter().filter(is_due).collect();
        if due.is_empty() {
            return;
        }
        if self.left == Some(0) {
            return self.stop(schema, path, OUT_OF_BUDGET);
        }
        let mut given = Given { now: schema.to_cel(place.now), old: old.map(|old| schema.to_cel(old)) };
        for rule in due {
            let plain = given.old.clone();
            if rule.optional_old {
                given.old = Some(value::optional(plain.clone()));
            }
            self.evaluate(rule, schema, place.now, &given, path);
            given.old = plain;
            if self.left.is_none() {
                return;
            }
        }
    }

    fn evaluate(&mut self, rule: &Rule, schema: &Schema, now: &Value, given: &Given, path: &FieldPath) {
        let (outcome, cost) = rule.run(&rule.program, self.functions, given, self.until);
        if !self.spend(cost) {
            return self.stop(schema, path, OUT_OF_BUDGET);
        }
        let name = rule.name();
        match outcome {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => self.broken(rule, schema, now, given, path),
            Ok(other) => {
                self.told(schema, path, &format!("unexpected result {other:?} evaluating rule: {name}"));
            }
            Err(Failure::TooDear) => self.stop(
                schema,
                path,
                &format!("'{TOO_DEAR}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"),
            ),
            Err(Failure::Interrupted) => {
                self.stop(schema, path, &format!("operation interrupted evaluating rule: {name}"));
            }
            Err(Failure::Error(text)) if text.starts_with("no such overload") => self.told(
                schema,
                path,
                &format!("'{text}': call arguments did not match a supported operator, function or macro signature for rule: {name}"),
            ),
            Err(Failure::Error(text)) => {
                self.told(schema, path, &format!("{} evaluating rule: {name}", in_lower_case(&text)));
            }
        }
    }

    /// A rule does not hold, and its message is made, which costs, too.
    fn broken(&mut self, rule: &Rule, schema: &Schema, now: &Value, given: &Given, path: &FieldPath) {
        let at = rule.blamed(path);
        let mut said = None;
        if let Some((source, program)) = rule.message_expression() {
            let (outcome, cost) = rule.run(program, self.functions, given, self.until);
            if !self.spend(cost) {
                return self.stop(schema, &at, MESSAGE_OUT_OF_BUDGET);
            }
            if outcome == Err(Failure::TooDear) {
                let source = Value::from(source);
                let detail = format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source}"
                );
                return self.stop(schema, &at, &detail);
            }
            said = program::usable(outcome.ok());
        }
        self.errors.push(rule.broken(schema, now, &said.unwrap_or_else(|| rule.plain_message()), at));
    }

    /// Whether there is as much left, which is then spent.
    fn spend(&mut self, cost: u64) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(cost));
        self.left.is_some()
    }

    fn told(&mut self, schema: &Schema, path: &FieldPath, detail: &str) {
        self.errors.push(FieldError::invalid(path.clone(), &Value::from(schema.type_name()), detail));
    }

    /// Tells why no more rules are asked.
    fn stop(&mut self, schema: &Schema, path: &FieldPath, detail: &str) {
        self.told(schema, path, detail);
        self.left = None;
    }
}

/// Errors of rules begin in lower case.
fn in_lower_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
