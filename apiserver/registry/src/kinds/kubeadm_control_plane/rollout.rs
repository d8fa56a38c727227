//! Validation of rollouts and remediations: replacement of machines, and lifetime of certificates.

use apiserver_machinery::object;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

/// Lifetime of a certificate authority: kubeadm's default. Unit: days.
const AUTHORITY_DAYS: i64 = 3650;

/// Minimum number of machines of which one can be removed before its replacement exists.
const LEAST_TO_SCALE_IN: i64 = 3;

/// Fields with their least values. The schema of v1beta1 has none of these limits.
const LEAST: [(&str, i64); 4] = [
    ("rollout.before.certificatesExpiryDays", 7),
    ("remediation.maxRetry", 0),
    ("remediation.retryPeriodSeconds", 0),
    ("remediation.minHealthyPeriodSeconds", 0),
];

/// Adds every error of a rollout and of remediations. As in upstream, a rollout without a strategy has only the limits
/// of its numbers.
pub(crate) fn validate(spec: &Value, replicas: Option<i64>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    validate_least(spec, path, errors);
    let Some(strategy) = object::at(spec, "rollout.strategy") else { return };
    let at = path.child("rollout.strategy");
    if strategy.get("type").and_then(Value::as_str) != Some("RollingUpdate") {
        errors.push(FieldError::required(at.child("type"), "only RollingUpdate is supported"));
    }
    if let Some(surge) = object::at(strategy, "rollingUpdate.maxSurge") {
        validate_surge(surge, replicas, &at.child("rollingUpdate"), errors);
    }
    validate_days(spec, path, errors);
}

/// Validates the least values. 0 counts as absent.
fn validate_least(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (field, least) in LEAST {
        let number = object::at(spec, field).and_then(Value::as_i64);
        if let Some(number) = number.filter(|number| *number != 0 && *number < least) {
            let detail = format!("must be greater than or equal to {least}");
            errors.push(FieldError::invalid(path.child(field), &json!(number), &detail));
        }
    }
}

fn validate_surge(surge: &Value, replicas: Option<i64>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    // A text that is not a number counts as 0.
    let surge = match surge {
        Value::String(text) => text.parse().unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    };
    if surge == 0 && replicas.is_some_and(|replicas| replicas < LEAST_TO_SCALE_IN) {
        let detail =
            "when KubeadmControlPlane is configured to scale-in, replica count needs to be at least 3";
        errors.push(FieldError::required(path.clone(), detail));
    }
    if !(0..=1).contains(&surge) {
        errors.push(FieldError::required(path.child("maxSurge"), "value must be 1 or 0"));
    }
}

fn validate_days(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let days = |pointer: &str| spec.pointer(pointer).and_then(Value::as_i64).filter(|days| *days != 0);
    let configuration = "/kubeadmConfigSpec/clusterConfiguration";
    let Some(leaf) = days(&format!("{configuration}/certificateValidityPeriodDays")) else { return };
    let authority = days(&format!("{configuration}/caCertificateValidityPeriodDays"));
    if leaf > authority.unwrap_or(AUTHORITY_DAYS) {
        let detail = match authority {
            Some(days) => format!("must be less than or equal to caCertificateValidityPeriodDays ({days})"),
            None => format!(
                "must be less than or equal to the default value of caCertificateValidityPeriodDays ({AUTHORITY_DAYS})"
            ),
        };
        let at = path.child("kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays");
        errors.push(FieldError::invalid(at, &json!(leaf), &detail));
    }
    if let Some(before) = days("/rollout/before/certificatesExpiryDays").filter(|before| *before >= leaf) {
        let at = path.child("rollout.before.certificatesExpiryDays");
        let detail = format!("must be less than certificateValidityPeriodDays ({leaf})");
        errors.push(FieldError::invalid(at, &json!(before), &detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(strategy: &Value, replicas: i64, leaf: i64, authority: i64, before: i64) -> Vec<String> {
        let spec = json!({"rollout": {"strategy": strategy, "before": {"certificatesExpiryDays": before}},
            "kubeadmConfigSpec": {"clusterConfiguration":
                {"certificateValidityPeriodDays": leaf, "caCertificateValidityPeriodDays": authority}}});
        let mut errors = Vec::new();
        validate(&spec, Some(replicas), &FieldPath::new("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn max_surge_must_be_0_or_1() {
        let surge = |surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}});
        let none = Vec::<String>::new();
        for (strategy, replicas) in [(surge(json!(1)), 1), (surge(json!("1")), 1), (surge(json!(0)), 3)] {
            assert_eq!(found(&strategy, replicas, 0, 0, 0), none);
        }
        assert_eq!(
            found(&surge(json!(0)), 1, 0, 0, 0),
            [
                "spec.rollout.strategy.rollingUpdate: Required value: when KubeadmControlPlane is configured to scale-in, replica count needs to be at least 3"
            ]
        );
        for wrong in [json!(2), json!(-1), json!("2")] {
            assert_eq!(
                found(&surge(wrong), 3, 0, 0, 0),
                ["spec.rollout.strategy.rollingUpdate.maxSurge: Required value: value must be 1 or 0"]
            );
        }
        assert_eq!(
            found(&json!({"type": "OnDelete"}), 3, 0, 0, 0),
            ["spec.rollout.strategy.type: Required value: only RollingUpdate is supported"]
        );
    }

    #[test]
    fn certificate_lifetimes_are_limited_by_the_ca_and_the_rollout() {
        let strategy = || json!({"type": "RollingUpdate"});
        assert_eq!(found(&strategy(), 1, 365, 730, 30), Vec::<String>::new());
        let path = "spec.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays";
        assert_eq!(
            found(&strategy(), 1, 731, 730, 30),
            [format!(
                "{path}: Invalid value: 731: must be less than or equal to caCertificateValidityPeriodDays (730)"
            )]
        );
        assert_eq!(
            found(&strategy(), 1, 3651, 0, 30),
            [format!(
                "{path}: Invalid value: 3651: must be less than or equal to the default value of caCertificateValidityPeriodDays (3650)"
            )]
        );
        assert_eq!(
            found(&strategy(), 1, 30, 0, 30),
            [
                "spec.rollout.before.certificatesExpiryDays: Invalid value: 30: must be less than certificateValidityPeriodDays (30)"
            ]
        );
        assert_eq!(found(&Value::Null, 1, 30, 0, 30).len(), 2);
    }

    #[test]
    fn numbers_have_their_least_values_with_and_without_a_strategy() {
        let text = |field: &str, number: i64, least: i64| {
            format!("spec.{field}: Invalid value: {number}: must be greater than or equal to {least}")
        };
        let days = "rollout.before.certificatesExpiryDays";
        let before = |days: i64| json!({"rollout": {"before": {"certificatesExpiryDays": days}}});
        let rolling = json!({"rollout": {"strategy": {"type": "RollingUpdate"}, "before": {"certificatesExpiryDays": 6}}});
        let retries = |retries: i64| json!({"remediation": {"maxRetry": retries}});
        for (spec, expected) in [
            (before(7), vec![]),
            (before(3), vec![text(days, 3, 7)]),
            (rolling, vec![text(days, 6, 7)]),
            (retries(0), vec![]),
            (retries(-1), vec![text("remediation.maxRetry", -1, 0)]),
            (
                json!({"remediation": {"retryPeriodSeconds": -1, "minHealthyPeriodSeconds": -2}}),
                vec![
                    text("remediation.retryPeriodSeconds", -1, 0),
                    text("remediation.minHealthyPeriodSeconds", -2, 0),
                ],
            ),
        ] {
            let mut errors = Vec::new();
            validate(&spec, None, &FieldPath::new("spec"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{spec}");
        }
    }
}
