//! `x-kubernetes-validations`: what must hold of a value beyond its fields' own bounds.

mod check;
mod cost;
mod declarations;
mod estimate;
mod fault;
mod in_rules;
mod judge;
mod literals;
mod parse;
mod program;
mod stack;
mod types;
mod value;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, Value as Cel};
use serde_json::Value;

pub(super) use in_rules::InRules;
pub use judge::Judgement;
pub(crate) use program::Rule;
pub(super) use value::go_duration;

use super::{Kind, Schema};
use crate::field_errors::{FieldError, FieldPath};
use cost::Budget;

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
    pub fn rule_faults(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let place = Place { now: value, old, is_unchanged: false, ratchets: false };
        self.run_all_rules(place, &FieldPath::default())
    }

    fn run_all_rules(&self, place: Place<'_>, path: &FieldPath) -> Vec<FieldError> {
        let mut faults = Vec::new();
        FUNCTIONS.with(|functions| {
            self.run_rules(
                place,
                path,
                &mut Run { functions, budget: Budget::default(), faults: &mut faults },
            );
        });
        faults
    }

    fn run_rules(&self, place: Place<'_>, path: &FieldPath, run: &mut Run<'_>) {
        if !self.has_rules || place.now.is_null() || run.budget.is_spent() {
            return;
        }
        if !self.rules.is_empty() {
            run.node(self, place, path);
        }
        match (&self.kind, place.now) {
            (Kind::Object(object), Value::Object(map)) => {
                for (name, field) in map {
                    let inner = place.inner(field, place.old.and_then(|old| old.get(name)));
                    match object.properties.get(name) {
                        Some(schema) => schema.run_rules(inner, &path.child(name), run),
                        None => {
                            if let Some(schema) = &object.additional {
                                schema.run_rules(inner, &path.key(name), run);
                            }
                        }
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) if list.items.has_rules => {
                let counterparts = list.counterparts(place.old);
                for (index, item) in items.iter().enumerate() {
                    let inner = place.inner(item, counterparts.of(item));
                    list.items.run_rules(inner, &path.index(index), run);
                }
            }
            _ => {}
        }
    }
}

/// One walk over an object.
struct Run<'a> {
    functions: &'a Context<'static>,
    budget: Budget,
    faults: &'a mut Vec<FieldError>,
}

impl Run<'_> {
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
        let size = cost::Size::of(place.now).and(old.map(cost::Size::of));
        let mut scope = self.functions.new_inner_scope();
        scope.add_variable_from_value("self", schema.to_cel(place.now));
        let old = old.map(|old| schema.to_cel(old));
        for rule in due {
            if !self.budget.spend(size.cost(rule.depth)) {
                let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
                self.faults.push(FieldError::invalid(path.clone(), &Value::from(schema.type_name()), detail));
                return;
            }
            let mut scope = scope.new_inner_scope();
            if rule.optional_old {
                scope.add_variable_from_value("oldSelf", value::optional(old.clone()));
            } else if let Some(old) = &old {
                scope.add_variable_from_value("oldSelf", old.clone());
            }
            self.evaluate(rule, schema, place.now, &scope, path);
        }
    }

    fn evaluate(&mut self, rule: &Rule, schema: &Schema, now: &Value, scope: &Context<'_>, path: &FieldPath) {
        match rule.run(&rule.program, scope) {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => self.faults.push(rule.broken(schema, now, scope, path)),
            Ok(other) => {
                let detail = format!("unexpected result {other:?} evaluating rule: {}", rule.name());
                self.faults.push(FieldError::invalid(
                    path.clone(),
                    &Value::from(schema.type_name()),
                    &detail,
                ));
            }
            Err(error) => {
                let detail =
                    format!("{} evaluating rule: {}", in_lower_case(&error.to_string()), rule.name());
                self.faults.push(FieldError::invalid(
                    path.clone(),
                    &Value::from(schema.type_name()),
                    &detail,
                ));
            }
        }
    }
}

/// Errors of rules begin in lower case.
fn in_lower_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
