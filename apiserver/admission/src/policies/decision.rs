//! Decision of a policy: the evaluation of its expressions for one request and one set of parameters. Pure.

use apiserver_schema::{AdmissionInputs, Evaluation, EvaluationError};

use super::compile::{Expressions, Policy, Validation};

/// Cost budget of a policy with one binding: upstream's.
const BUDGET: u64 = 10_000_000;

/// Longest message that an expression can make. Unit: bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// Longest value of an annotation. Unit: bytes.
const LONGEST_VALUE: usize = 10 * 1024;

/// Validation that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// Index of the validation.
    pub(super) index: usize,
    pub(super) message: String,
    /// Reason of the refusal; empty for the default.
    pub(super) reason: String,
}

/// Outcome for one set of parameters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) failed: Vec<Failed>,
    /// Audit annotations.
    pub(super) annotations: Vec<(String, String)>,
    /// Failures of audit annotations. They refuse the request, whatever the actions of the binding are.
    pub(super) refused: Vec<String>,
}

/// Evaluates a policy.
pub(super) fn decide(policy: &Policy, inputs: &AdmissionInputs) -> Outcome {
    let expressions = match &policy.expressions {
        Ok(expressions) => expressions,
        Err(why) => return broken(policy, why.clone()),
    };
    match expressions.conditions.are_met(inputs) {
        Ok(true) => {}
        Ok(false) => return Outcome::default(),
        Err(why) => return broken(policy, why),
    }
    let failed = match validations(policy, expressions, inputs) {
        Ok(failed) => failed,
        Err(over) => return broken(policy, over.to_string()),
    };
    let mut outcome = Outcome { failed, ..Outcome::default() };
    annotate(policy, expressions, inputs, &mut outcome);
    outcome
}

/// Returns the outcome of a policy that cannot be evaluated.
fn broken(policy: &Policy, message: String) -> Outcome {
    let failed = Failed { index: 0, message, reason: String::new() };
    Outcome { failed: if policy.base.fails_closed { vec![failed] } else { Vec::new() }, ..Outcome::default() }
}

fn validations(
    policy: &Policy,
    expressions: &Expressions,
    inputs: &AdmissionInputs,
) -> Result<Vec<Failed>, EvaluationError> {
    let mut evaluation = Evaluation::new(inputs, &expressions.variables, BUDGET);
    let mut results = Vec::new();
    for validation in &expressions.validations {
        match evaluation.evaluate(&validation.expression) {
            Err(over @ EvaluationError::OutOfBudget) => return Err(over),
            result => results.push(result),
        }
    }
    // Messages are made after all validations, from the rest of the budget.
    let mut failed = Vec::new();
    for (index, (validation, result)) in expressions.validations.iter().zip(results).enumerate() {
        match result {
            Ok(value) if value.is_true() => {}
            Ok(_) => {
                let message = message(validation, &mut evaluation);
                failed.push(Failed { index, message, reason: validation.reason.clone() });
            }
            Err(error) if policy.base.fails_closed => {
                failed.push(Failed { index, message: error.to_string(), reason: String::new() });
            }
            Err(_) => {}
        }
    }
    Ok(failed)
}

/// Returns the message of a failed validation: the computed one, or else the given one, or else the expression.
fn message<'p>(validation: &'p Validation, evaluation: &mut Evaluation<'p>) -> String {
    let computed = validation.message_expression.as_ref().and_then(|expression| {
        let value = evaluation.evaluate(expression).ok()?;
        let text = value.text()?.trim().to_owned();
        (!text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n')).then_some(text)
    });
    let given = || Some(validation.message.clone()).filter(|message| !message.is_empty());
    let shown = || format!("failed expression: {}", validation.expression.source().trim());
    computed.or_else(given).unwrap_or_else(shown)
}

fn annotate(policy: &Policy, expressions: &Expressions, inputs: &AdmissionInputs, outcome: &mut Outcome) {
    let mut evaluation = Evaluation::new(inputs, &expressions.variables, BUDGET);
    for (key, expression) in &expressions.annotations {
        match evaluation.evaluate(expression) {
            Ok(value) => {
                let text = value.text().unwrap_or_default().trim();
                if !text.is_empty() {
                    outcome.annotations.push((key.clone(), cut(text).to_owned()));
                }
            }
            Err(error) if policy.base.fails_closed => outcome.refused.push(error.to_string()),
            Err(_) => {}
        }
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_VALUE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::policies::compile;

    fn outcome(spec: &Value) -> Outcome {
        let object = json!({"metadata": {"name": "a"}, "spec": {"replicas": 7}});
        let inputs = AdmissionInputs::new(Some(&object), None, &json!({"operation": "CREATE"}), None);
        let policy =
            compile(&json!({"metadata": {"name": "p"}, "spec": spec}), &[], crate::snapshot::Source::Objects);
        decide(&policy, &inputs.with_params(Some(&json!({"data": {"most": "5"}}))))
    }

    fn messages(spec: &Value) -> Vec<String> {
        outcome(spec).failed.into_iter().map(|failed| failed.message).collect()
    }

    #[test]
    fn a_failed_validation_has_the_best_message_that_there_is() {
        let few = "object.spec.replicas <= 5";
        for (validation, expected) in [
            (json!({"expression": few}), "failed expression: object.spec.replicas <= 5"),
            (json!({"expression": few, "message": " too many "}), "too many"),
            (
                json!({"expression": few, "message": "too many", "messageExpression": "string(object.spec.replicas) + ' is too many'"}),
                "7 is too many",
            ),
            (json!({"expression": few, "message": "m", "messageExpression": "object.spec.x + ''"}), "m"),
            (json!({"expression": few, "message": "m", "messageExpression": "'a\\nb'"}), "m"),
            (
                json!({"expression": "object.spec.x == 1"}),
                "expression 'object.spec.x == 1' resulted in error: no such key: x",
            ),
        ] {
            assert_eq!(messages(&json!({"validations": [validation]})), [expected], "{validation}");
        }
        assert_eq!(messages(&json!({"validations": [{"expression": "true"}]})), Vec::<String>::new());
    }

    #[test]
    fn the_failure_policy_decides_about_errors_and_not_about_refusals() {
        let spec = |expression: &str| json!({"failurePolicy": "Ignore", "validations": [{"expression": expression}]});
        assert_eq!(messages(&spec("object.spec.x == 1")), Vec::<String>::new());
        assert_eq!(messages(&spec("object.spec.replicas == 1")).len(), 1);
        let condition = |expression: &str| {
            json!({"matchConditions": [{"name": "c", "expression": expression}],
            "validations": [{"expression": "false"}]})
        };
        assert_eq!(messages(&condition("object.spec.replicas == 1")), Vec::<String>::new());
        assert_eq!(messages(&condition("object.spec.replicas == 7")).len(), 1);
        assert!(messages(&condition("object.spec.x == 7"))[0].contains("no such key: x"));
    }

    #[test]
    fn variables_parameters_and_annotations_are_evaluated() {
        let found = outcome(&json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "variables": [{"name": "most", "expression": "int(params.data.most)"}],
            "validations": [{"expression": "object.spec.replicas <= variables.most", "reason": "Forbidden"}],
            "auditAnnotations": [{"key": "most", "valueExpression": "string(variables.most)"},
                {"key": "none", "valueExpression": "null"}, {"key": "bad", "valueExpression": "object.spec.x + ''"}]}));
        assert_eq!(found.failed.len(), 1);
        assert_eq!(found.failed[0].reason, "Forbidden");
        assert_eq!(found.annotations, [("most".to_owned(), "5".to_owned())]);
        assert!(found.refused[0].contains("no such key: x"), "{found:?}");
    }
}
