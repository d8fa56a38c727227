//! Status of a KubeadmConfig.

use apiserver_types::{
    Cluster, Condition, ConditionStatus, DeprecatedCondition, KubeadmConfig, KubeadmConfigStatus, Time,
    condition, set_condition,
};

use controllers_bootstrap::kubeadm;

use super::stop::{Part, Stop};
use crate::{paused, summary};

/// Condition of the Secret with the bootstrap data.
pub(super) const DATA: &str = "DataSecretAvailable";

/// Condition of the cluster's certificates.
pub(super) const CERTIFICATES: &str = "CertificatesAvailable";

/// Condition of an object some of whose fields have no effect. It is no part of the condition `Ready`.
const FIELDS: &str = "AllFieldsInEffect";

/// Result of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The object or its Cluster is paused. If the Machine has yet to join, the text says until when it can.
    Paused(Option<String>),
    /// The data is in the Secret of this name.
    Available(String),
    /// The data is not there.
    Stopped(Stop),
    /// The data is there, but the pass could not look after it.
    Unchanged,
}

/// Writes the result of a pass into the status.
pub(super) fn report(config: &mut KubeadmConfig, cluster: Option<&Cluster>, outcome: &Outcome, now: &Time) {
    let generation = config.metadata.generation;
    let mut paused = paused::condition(config, cluster, now).at_generation(generation);
    if let Outcome::Paused(Some(end)) = outcome {
        paused.message = format!("{}. {end}", paused.message);
    }
    let status = config.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    set_condition(conditions, paused);
    if matches!(outcome, Outcome::Paused(_)) {
        return;
    }
    for part in parts(outcome, now) {
        set_condition(conditions, part.at_generation(generation));
    }
    let ready = ready(conditions, now);
    set_condition(conditions, ready.at_generation(generation));
    if let Outcome::Available(name) = outcome {
        status.data_secret_name = Some(name.clone());
        status.initialization.get_or_insert_default().data_secret_created = Some(true);
    }
    let failed = matches!(outcome, Outcome::Stopped(stop) if !is_waiting(stop.part));
    if !failed {
        status.observed_generation = generation;
    }
    deprecated(status, outcome, now);
}

/// Writes which fields have no effect with the kubeadm of a version. Without any, there is no such condition.
pub(super) fn report_fields(config: &mut KubeadmConfig, version: &str, now: &Time) {
    let (fields, generation) = (kubeadm::without_effect(version, &config.spec), config.metadata.generation);
    let conditions = config.status.get_or_insert_default().conditions.get_or_insert_default();
    if fields.is_empty() {
        conditions.retain(|known| known.kind != FIELDS);
        return;
    }
    let (no, message) = (ConditionStatus::False, without_effect(version, &fields));
    let condition = Condition::new(FIELDS, no, "NotSupportedByVersion", &message, now.clone());
    set_condition(conditions, condition.at_generation(generation));
}

/// Returns the message about fields that have no effect.
pub(super) fn without_effect(version: &str, fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| format!("spec.{field}")).collect();
    let (first, fields) = (kubeadm::ALL_FIELDS_FROM, fields.join(", "));
    format!("no effect with version {version}, only from {first} on: {fields}")
}

/// Returns true if a pass that stopped at this part only waits.
pub(super) const fn is_waiting(part: Part) -> bool {
    matches!(part, Part::Infrastructure | Part::ControlPlane)
}

/// Returns the reason and severity of a stopped pass, as v1beta1 has them. Events have the same reason.
pub(super) const fn deprecated_reason(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::Infrastructure => ("WaitingForClusterInfrastructure", "Info"),
        Part::ControlPlane => ("WaitingForControlPlaneAvailable", "Info"),
        Part::InitCertificates => ("CertificatesGenerationFailed", "Warning"),
        Part::JoinCertificates => ("CertificatesCorrupted", "Error"),
        Part::Data | Part::Access => ("DataSecretGenerationFailed", "Warning"),
    }
}

fn parts(outcome: &Outcome, now: &Time) -> Vec<Condition> {
    let available = |kind| Condition::new(kind, ConditionStatus::True, "Available", "", now.clone());
    match outcome {
        Outcome::Paused(_) | Outcome::Unchanged => Vec::new(),
        Outcome::Available(_) => vec![available(DATA), available(CERTIFICATES)],
        Outcome::Stopped(stop) => match stop.part {
            Part::Infrastructure | Part::ControlPlane | Part::Access => {
                vec![not_available(&stop.message, now)]
            }
            Part::Data => vec![not_available(&stop.message, now), available(CERTIFICATES)],
            Part::InitCertificates | Part::JoinCertificates => {
                let (unknown, reason) = (ConditionStatus::Unknown, "InternalError");
                vec![
                    Condition::new(CERTIFICATES, unknown, reason, &stop.message, now.clone()),
                    not_available("the certificates of the cluster cannot be used", now),
                ]
            }
        },
    }
}

fn not_available(message: &str, now: &Time) -> Condition {
    Condition::new(DATA, ConditionStatus::False, "NotAvailable", message, now.clone())
}

fn ready(conditions: &[Condition], now: &Time) -> Condition {
    let obstacles = summary::obstacles(conditions, &[DATA, CERTIFICATES], &[]);
    let status = summary::status(&obstacles);
    let reason = match status {
        ConditionStatus::True => "Ready",
        ConditionStatus::False => "NotReady",
        ConditionStatus::Unknown => "ReadyUnknown",
    };
    let messages: Vec<String> = obstacles.iter().map(|obstacle| format!("* {}", obstacle.message)).collect();
    Condition::new("Ready", status, reason, &messages.join("\n"), now.clone())
}

/// Writes the conditions in the form of v1beta1.
fn deprecated(status: &mut KubeadmConfigStatus, outcome: &Outcome, now: &Time) {
    let stopped = match outcome {
        Outcome::Paused(_) | Outcome::Unchanged => return,
        Outcome::Available(_) => None,
        Outcome::Stopped(stop) => Some(stop),
    };
    let failed = stopped.map(|stop| match stop.part {
        Part::InitCertificates | Part::JoinCertificates => CERTIFICATES,
        Part::Infrastructure | Part::ControlPlane | Part::Data | Part::Access => DATA,
    });
    let known = status.conditions.clone().unwrap_or_default();
    let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    let old = old.conditions.get_or_insert_default();
    for kind in ["Ready", CERTIFICATES, DATA] {
        let affected = kind == "Ready" || Some(kind) == failed;
        let new = match stopped.filter(|_| affected) {
            Some(stop) => bad(kind, stop, now),
            // A part that no pass has reached has no condition.
            None if condition(&known, kind).is_some_and(Condition::holds) => good(kind, now),
            None => continue,
        };
        set_deprecated(old, new);
    }
}

fn good(kind: &str, now: &Time) -> DeprecatedCondition {
    DeprecatedCondition {
        kind: kind.to_owned(),
        status: "True".to_owned(),
        last_transition_time: now.clone(),
        ..DeprecatedCondition::default()
    }
}

fn bad(kind: &str, stop: &Stop, now: &Time) -> DeprecatedCondition {
    let (reason, severity) = deprecated_reason(stop.part);
    DeprecatedCondition {
        status: "False".to_owned(),
        reason: Some(reason.to_owned()),
        severity: Some(severity.to_owned()),
        message: Some(stop.message.clone()).filter(|message| !message.is_empty()),
        ..good(kind, now)
    }
}

fn set_deprecated(conditions: &mut Vec<DeprecatedCondition>, mut new: DeprecatedCondition) {
    match conditions.iter_mut().find(|known| known.kind == new.kind) {
        Some(known) => {
            if known.status == new.status {
                new.last_transition_time = known.last_transition_time.clone();
            }
            *known = new;
        }
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apiserver_types::KubeadmConfigSpec;

    use super::*;

    fn reported(outcome: &Outcome) -> KubeadmConfigStatus {
        let mut config = KubeadmConfig::new("m", KubeadmConfigSpec::default());
        config.metadata.generation = Some(2);
        report(&mut config, None, outcome, &Time("2026-11-26T10:00:00Z".to_owned()));
        config.status.unwrap()
    }

    fn stopped(part: Part) -> Outcome {
        Outcome::Stopped(Stop { part, message: "because".to_owned(), after: Duration::ZERO })
    }

    fn conditions(status: &KubeadmConfigStatus) -> Vec<String> {
        let conditions = status.conditions.iter().flatten().filter(|it| it.kind != "Paused");
        conditions.map(|it| format!("{} {:?} {}", it.kind, it.status, it.reason)).collect()
    }

    #[test]
    fn each_part_has_its_conditions() {
        let yes = [
            "DataSecretAvailable True Available",
            "CertificatesAvailable True Available",
            "Ready True Ready",
        ];
        let no = "DataSecretAvailable False NotAvailable";
        let unknown = "CertificatesAvailable Unknown InternalError";
        let table = [
            (Outcome::Available("m".to_owned()), yes.to_vec(), Some(2)),
            (stopped(Part::Infrastructure), vec![no, "Ready False NotReady"], Some(2)),
            (stopped(Part::Data), vec![no, yes[1], "Ready False NotReady"], None),
            (stopped(Part::Access), vec![no, "Ready False NotReady"], None),
            (stopped(Part::JoinCertificates), vec![unknown, no, "Ready False NotReady"], None),
            (Outcome::Paused(None), vec![], None),
            (Outcome::Paused(Some("until".to_owned())), vec![], None),
        ];
        for (outcome, expected, generation) in table {
            let status = reported(&outcome);
            assert_eq!(conditions(&status), expected, "{outcome:?}");
            assert_eq!(status.observed_generation, generation, "{outcome:?}");
            let named = matches!(outcome, Outcome::Available(_)).then_some("m");
            assert_eq!(status.data_secret_name.as_deref(), named);
        }
    }

    #[test]
    fn fields_without_effect_are_a_condition_until_there_are_none() {
        let mut config = KubeadmConfig::new("m", KubeadmConfigSpec::default());
        let now = Time("2026-11-26T10:00:00Z".to_owned());
        report_fields(&mut config, "v1.30.0", &now);
        assert!(config.condition(FIELDS).is_none());
        config.spec.cluster_configuration.get_or_insert_default().certificate_validity_period_days = Some(90);
        report_fields(&mut config, "v1.30.0", &now);
        let found = config.condition(FIELDS).unwrap();
        assert_eq!((found.status, found.reason.as_str()), (ConditionStatus::False, "NotSupportedByVersion"));
        let field = "spec.clusterConfiguration.certificateValidityPeriodDays";
        assert!(found.message.ends_with(field), "{}", found.message);
        report_fields(&mut config, "v1.31.0", &now);
        assert!(config.condition(FIELDS).is_none(), "the version has the field");
    }

    #[test]
    fn v1beta1_has_its_own_reasons() {
        let table = [
            (Part::ControlPlane, "DataSecretAvailable False WaitingForControlPlaneAvailable Info"),
            (Part::InitCertificates, "CertificatesAvailable False CertificatesGenerationFailed Warning"),
            (Part::JoinCertificates, "CertificatesAvailable False CertificatesCorrupted Error"),
            (Part::Data, "DataSecretAvailable False DataSecretGenerationFailed Warning"),
        ];
        for (part, expected) in table {
            let status = reported(&stopped(part));
            let old = status.deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
            let texts = old.iter().map(|it| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                format!("{} {} {} {}", it.kind, it.status, text(&it.reason), text(&it.severity))
            });
            assert!(texts.into_iter().any(|text| text == expected), "{old:?}");
        }
    }
}
