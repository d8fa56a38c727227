//! Decision of a policy: the evaluation of its expressions for one request and one set of parameters. Pure.

use apiserver_schema::{AdmissionInputs, Evaluated, Evaluation, EvaluationError};

use super::compile::{Policy, Validation};
use crate::expressions::Compiled;
use crate::value::cut;

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

/// Value of an expression, or its error.
type Found = Result<Evaluated, String>;

/// Evaluates a policy.
pub(super) fn decide(policy: &Policy, inputs: &AdmissionInputs) -> Outcome {
    within(BUDGET, policy, inputs)
}

fn within(budget: u64, policy: &Policy, inputs: &AdmissionInputs) -> Outcome {
    match policy.expressions.conditions.are_met(inputs) {
        Ok(true) => {}
        Ok(false) => return Outcome::default(),
        Err(why) => return broken(policy, why),
    }
    let failed = match validations(budget, policy, inputs) {
        Ok(failed) => failed,
        Err(over) => return broken(policy, over.to_string()),
    };
    let mut outcome = Outcome { failed, ..Outcome::default() };
    if let Err(over) = annotate(budget, policy, inputs, &mut outcome) {
        // Upstream forgets the validations here. A request must not pass because its annotations cost too much.
        outcome.failed.extend(broken(policy, over.to_string()).failed);
    }
    outcome
}

/// Returns the outcome of a policy that cannot be evaluated.
fn broken(policy: &Policy, message: String) -> Outcome {
    let failed = Failed { index: 0, message, reason: String::new() };
    Outcome { failed: if policy.base.fails_closed { vec![failed] } else { Vec::new() }, ..Outcome::default() }
}

/// Evaluates the validations, and the messages of those that are false.
///
/// # Errors
/// [`EvaluationError::OutOfBudget`], except of messages.
fn validations(
    budget: u64,
    policy: &Policy,
    inputs: &AdmissionInputs,
) -> Result<Vec<Failed>, EvaluationError> {
    let expressions = &policy.expressions;
    let mut evaluation = Evaluation::new(inputs, &expressions.variables, budget);
    let values = expressions.validations.iter().map(|it| value(&mut evaluation, &it.expression));
    let values: Vec<Found> = values.collect::<Result<_, _>>()?;
    // Messages are made after all validations, from the rest of the budget. As in upstream, their variables are evaluated
    // anew.
    let mut evaluation = Evaluation::new(inputs, &expressions.variables, evaluation.left());
    let messages = expressions.validations.iter().zip(&values).map(|(validation, value)| match value {
        Ok(value) if !value.is_true() => message(validation, &mut evaluation),
        _ => Ok(String::new()),
    });
    Ok(failed(policy, &values, messages.collect()))
}

/// Evaluates an expression.
///
/// # Errors
/// [`EvaluationError::OutOfBudget`].
fn value(evaluation: &mut Evaluation<'_>, expression: &Compiled) -> Result<Found, EvaluationError> {
    let expression = match expression {
        Ok(expression) => expression,
        Err(why) => return Ok(Err(format!("compilation error: {why}"))),
    };
    match evaluation.evaluate(expression) {
        Ok(value) => Ok(Ok(value)),
        Err(EvaluationError::Failed(why)) => Ok(Err(why)),
        Err(over @ EvaluationError::OutOfBudget) => Err(over),
    }
}

/// Returns the validations that failed: those that are false, and those with an error if the policy fails closed. As in
/// upstream, messages that exceed the budget are an error of all validations.
fn failed(policy: &Policy, values: &[Found], messages: Result<Vec<String>, EvaluationError>) -> Vec<Failed> {
    let (messages, over) = match messages {
        Ok(messages) => (messages, None),
        Err(over) => (Vec::new(), Some(format!("failed messageExpression: {over}"))),
    };
    let (mut failed, over) = (Vec::new(), over.as_ref());
    for (index, (validation, value)) in policy.expressions.validations.iter().zip(values).enumerate() {
        let error = value.as_ref().err().or(over);
        match (value, error) {
            (_, Some(error)) if policy.base.fails_closed => {
                failed.push(Failed { index, message: error.clone(), reason: String::new() });
            }
            (Ok(value), None) if !value.is_true() => {
                let message = messages.get(index).cloned().unwrap_or_default();
                failed.push(Failed { index, message, reason: validation.reason.clone() });
            }
            _ => {}
        }
    }
    failed
}

/// Returns the message of a failed validation: the computed one, or else the given one, or else the expression.
///
/// # Errors
/// [`EvaluationError::OutOfBudget`].
fn message(validation: &Validation, evaluation: &mut Evaluation<'_>) -> Result<String, EvaluationError> {
    let made = match &validation.message_expression {
        Some(expression) => value(evaluation, expression)?.ok(),
        None => None,
    };
    let is_usable = |text: &&str| !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
    let computed = made.as_ref().and_then(Evaluated::text).map(str::trim).filter(is_usable);
    let given = Some(validation.message.as_str()).filter(|message| !message.is_empty());
    let source = validation.expression.as_ref().map_or("", |expression| expression.source().trim());
    let shown = || format!("failed expression: {source}");
    Ok(computed.or(given).map_or_else(shown, str::to_owned))
}

/// Evaluates the annotations.
///
/// # Errors
/// [`EvaluationError::OutOfBudget`].
fn annotate(
    budget: u64,
    policy: &Policy,
    inputs: &AdmissionInputs,
    outcome: &mut Outcome,
) -> Result<(), EvaluationError> {
    let expressions = &policy.expressions;
    let mut evaluation = Evaluation::new(inputs, &expressions.variables, budget);
    for (key, expression) in &expressions.annotations {
        match value(&mut evaluation, expression)? {
            Ok(value) => {
                let text = value.text().unwrap_or_default().trim();
                if !text.is_empty() {
                    outcome.annotations.push((key.clone(), cut(text, LONGEST_VALUE).to_owned()));
                }
            }
            Err(why) if policy.base.fails_closed => outcome.refused.push(why),
            Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;
    use crate::policies::compile;
    use crate::snapshot::Source;

    /// Expression with a cost of about fifty.
    const DEAR: &str = "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(x, x < 10) ? 'a' : 'b'";

    fn outcome(spec: &Value) -> Outcome {
        outcome_within(BUDGET, spec)
    }

    fn outcome_within(budget: u64, spec: &Value) -> Outcome {
        let object = json!({"metadata": {"name": "a"}, "spec": {"replicas": 7}});
        let inputs = AdmissionInputs::new(Some(&object), None, &json!({"operation": "CREATE"}), None);
        let policy = json!({"metadata": {"name": "p"}, "spec": spec});
        let policy = compile(&policy, &[], Source::Objects, &mut BTreeSet::new());
        within(budget, &policy, &inputs.with_params(Some(&json!({"data": {"most": "5"}}))))
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

    #[test]
    fn an_expression_that_cannot_be_compiled_fails_by_itself() {
        let spec = |policy: &str| {
            json!({"failurePolicy": policy, "validations": [{"expression": "object."},
                {"expression": "false", "message": "no", "messageExpression": "1 + 'a'"}],
                "auditAnnotations": [{"key": "a", "valueExpression": "object."}, {"key": "b", "valueExpression": "'c'"}]})
        };
        let found = outcome(&spec("Fail"));
        let texts: Vec<&str> = found.failed.iter().map(|failed| failed.message.as_str()).collect();
        assert!(texts[0].starts_with("compilation error: compilation failed: ERROR"), "{texts:?}");
        assert_eq!(texts[1..], ["no"]);
        assert!(found.refused[0].starts_with("compilation error: "), "{found:?}");
        let found = outcome(&spec("Ignore"));
        assert_eq!((found.failed.len(), found.failed[0].message.as_str()), (1, "no"));
        assert_eq!(found.annotations, [("b".to_owned(), "c".to_owned())]);
        assert!(found.refused.is_empty(), "{found:?}");
    }

    #[test]
    fn messages_that_exceed_the_budget_are_an_error_of_all_validations() {
        let spec = |policy: &str| {
            json!({"failurePolicy": policy, "validations": [{"expression": "object.spec.replicas == 1",
                "messageExpression": DEAR}, {"expression": "object.spec.x == 1"}, {"expression": "true"}]})
        };
        let found: Vec<String> =
            outcome_within(30, &spec("Fail")).failed.into_iter().map(|failed| failed.message).collect();
        let over = "failed messageExpression: validation failed due to running out of cost budget, no further validation \
                    rules will be run";
        let missing = "expression 'object.spec.x == 1' resulted in error: no such key: x";
        assert_eq!(found, [over, missing, over]);
        assert_eq!(outcome_within(30, &spec("Ignore")), Outcome::default());
        // Without a refusal, no message is made.
        let spec = json!({"validations": [{"expression": "true", "messageExpression": DEAR}]});
        assert_eq!(outcome_within(30, &spec), Outcome::default());
    }

    #[test]
    fn annotations_that_exceed_the_budget_keep_the_validations() {
        let spec = |policy: &str| {
            json!({"failurePolicy": policy, "validations": [{"expression": "false", "message": "no"}],
                "auditAnnotations": [{"key": "a", "valueExpression": DEAR}]})
        };
        let found = outcome_within(30, &spec("Fail"));
        assert_eq!((found.failed.len(), found.refused.len()), (2, 0), "{found:?}");
        assert!(found.failed[1].message.contains("running out of cost budget"), "{found:?}");
        assert_eq!(outcome_within(30, &spec("Ignore")).failed.len(), 1);
    }
}
