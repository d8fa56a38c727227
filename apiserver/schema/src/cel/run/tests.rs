//! Tests of evaluation. The results in `runs.jsonl` are computed by `k8s.io/apiextensions-apiserver` 0.36.3 with cel-go
//! 0.29. A line has the name of a schema (as in the estimates), a value of `samples.json`, an expression, its cost, and
//! its value or error. The old value is the same value.

use std::time::{Duration, Instant};

use kube_cel::cel::Value as Cel;
use serde_json::{Value, json};

use super::Failure;
use crate::Schema;
use crate::cel::FUNCTIONS;
use crate::cel::estimate::tests::{large, small};
use crate::cel::program::{Rule, Variables};

const LONG: Duration = Duration::from_secs(600);

const RUNS: &str = include_str!("runs.jsonl");
const SAMPLES: &str = include_str!("samples.json");

fn run(schema: &Schema, value: &Value, expression: &str) -> (i64, String) {
    let rule = Rule::compile(&json!({"rule": expression}), &Value::Null).unwrap();
    rule.check(schema).unwrap();
    let given = Variables { now: schema.to_cel(value), old: Some(schema.to_cel(value)) };
    let (outcome, cost) =
        FUNCTIONS.with(|functions| rule.run(&rule.program, functions, &given, Instant::now() + LONG));
    let shown = match outcome {
        Ok(Cel::Bool(value)) => value.to_string(),
        Ok(other) => format!("{other:?}"),
        Err(Failure::CostExceeded) => "too dear".to_owned(),
        Err(Failure::Interrupted) => "interrupted".to_owned(),
        Err(Failure::Error(text)) => text,
    };
    let cost = if shown == "too dear" { -1 } else { i64::try_from(cost).unwrap() };
    (cost, shown)
}

#[test]
fn results_and_actual_costs_match_upstream() {
    let samples: Value = serde_json::from_str(SAMPLES).unwrap();
    let mut wrong = Vec::new();
    for line in RUNS.lines() {
        let (name, sample, expression, cost, outcome): (String, String, String, i64, String) =
            serde_json::from_str(line).unwrap();
        let schema = Schema::compile(&match name.as_str() {
            "small" => small(),
            "large" => large(),
            _ => json!({"type": "string", "maxLength": 25}),
        })
        .unwrap();
        let found = run(&schema, &samples[&name][&sample], &expression);
        if found != (cost, outcome.clone()) {
            wrong.push(format!("{name} {sample} {expression}: {cost} {outcome}, not {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), RUNS.lines().count(), wrong.join("\n"));
}

/// Functions can take long although their cost is low.
#[test]
fn a_rule_that_takes_too_long_is_interrupted() {
    let schema = Schema::compile(&small()).unwrap();
    let rule = Rule::compile(&json!({"rule": "self.tags.all(t, t == 'a') || true"}), &Value::Null).unwrap();
    let given = Variables { now: schema.to_cel(&json!({"tags": ["a", "a"]})), old: None };
    let (outcome, _) = FUNCTIONS.with(|functions| {
        rule.run(&rule.program, functions, &given, Instant::now().checked_sub(LONG).unwrap())
    });
    assert_eq!(outcome, Err(Failure::Interrupted));
}
