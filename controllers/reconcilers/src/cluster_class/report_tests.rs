//! Tests of the report.

use apiserver_types::{ClusterClassSpec, ClusterClassStatusVariable};
use kube::ResourceExt;

use super::*;

fn class() -> ClusterClass {
    let mut class = ClusterClass::new("c", ClusterClassSpec::default());
    class.metadata.generation = Some(2);
    class
}

fn variable(name: &str) -> ClusterClassStatusVariable {
    ClusterClassStatusVariable { name: name.to_owned(), ..ClusterClassStatusVariable::default() }
}

fn fine() -> Outcome {
    Outcome { references: References::Latest, variables: Ok(vec![variable("a")]) }
}

/// Returns status, reason and message of a condition, and status, severity and reason of its form in v1beta1.
fn shown(class: &ClusterClass, kind: &str, old_kind: &str) -> (String, String) {
    let new = class.condition(kind).unwrap();
    assert_eq!(new.observed_generation, Some(2));
    let status = class.status.clone().unwrap();
    let old = status.deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
    let old = old.into_iter().find(|it| it.kind == old_kind).unwrap();
    let (severity, reason) = (old.severity.unwrap_or_default(), old.reason.unwrap_or_default());
    (
        format!("{:?} {} {}", new.status, new.reason, new.message),
        format!("{} {severity} {reason} {}", old.status, old.message.unwrap_or_default()),
    )
}

#[test]
fn the_conditions_have_both_forms_and_an_error_keeps_the_observed_generation() {
    let missing = Outcome { references: References::Missing("no t".to_owned()), ..fine() };
    let outdated = Outcome { references: References::Outdated("* t".to_owned()), ..fine() };
    let unknown = Outcome { variables: Err("ext".to_owned()), ..fine() };
    let latest = ("True RefVersionsUpToDate ", "True   ");
    let known = ("True VariablesReady ", "True   ");
    let table = [
        (fine(), latest, known, Some(2)),
        (
            outdated,
            ("False RefVersionsNotUpToDate * t", "False Warning OutdatedRefVersions * t"),
            known,
            Some(2),
        ),
        (missing, ("Unknown InternalError no t", "Unknown  InternalError no t"), known, None),
        (
            unknown,
            latest,
            ("False VariableDiscoveryFailed ext", "False Error VariableDiscoveryFailed ext"),
            None,
        ),
    ];
    for (outcome, references, variables, observed) in table {
        let mut class = class();
        report(&mut class, &outcome, &Time::default());
        let (new, old) = shown(&class, "RefVersionsUpToDate", "RefVersionsUpToDate");
        assert_eq!((new.as_str(), old.as_str()), references);
        let (new, old) = shown(&class, "VariablesReady", "VariablesReconciled");
        assert_eq!((new.as_str(), old.as_str()), variables);
        assert_eq!(class.condition("Paused").unwrap().reason, "NotPaused");
        let status = class.status.unwrap();
        assert_eq!(status.observed_generation, observed);
        let names = status.variables.unwrap_or_default().into_iter().map(|it| it.name).collect::<Vec<_>>();
        let expected: &[&str] = if outcome.variables.is_ok() { &["a"] } else { &[] };
        assert_eq!(names, expected);
    }
}

#[test]
fn variables_that_were_known_stay_until_the_next_success() {
    let mut class = class();
    report(&mut class, &fine(), &Time::default());
    let unknown = Outcome { variables: Err("ext".to_owned()), ..fine() };
    report(&mut class, &unknown, &Time::default());
    assert_eq!(class.status.as_ref().unwrap().variables, Some(vec![variable("a")]));
    report(&mut class, &Outcome { variables: Ok(Vec::new()), ..fine() }, &Time::default());
    assert_eq!(class.status.unwrap().variables, None);
}

#[test]
fn conflicting_definitions_are_shown_and_the_generation_is_not_observed() {
    let conflicting = ClusterClassStatusVariable { definitions_conflict: Some(true), ..variable("a") };
    let outcome = Outcome { variables: Ok(vec![conflicting, variable("b")]), ..fine() };
    let mut class = class();
    report(&mut class, &outcome, &Time::default());
    let (new, old) = shown(&class, "VariablesReady", "VariablesReconciled");
    let message = "variables with conflicting definitions: a (of )";
    assert!(new.starts_with(&format!("False VariableDiscoveryFailed {message}")), "{new}");
    assert!(old.starts_with(&format!("False Error VariableDiscoveryFailed {message}")), "{old}");
    let status = class.status.unwrap();
    assert_eq!((status.observed_generation, status.variables.unwrap().len()), (None, 2));
}

#[test]
fn a_paused_class_shows_the_pause_and_nothing_else() {
    let mut class = class();
    class.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
    report_pause(&mut class, &Time::default());
    let status = class.status.as_ref().unwrap();
    assert_eq!((status.conditions.as_ref().unwrap().len(), status.observed_generation), (1, None));
    assert!(class.condition("Paused").unwrap().holds());
}
