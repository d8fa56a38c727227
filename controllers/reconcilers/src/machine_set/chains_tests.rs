//! Tests of the chains of remediations.

use apiserver_types::{Condition, ConditionStatus, MachineSpec, MachineStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;

use super::*;

/// Second of the first remediation.
const START: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

/// Returns a Machine with its creation, and the time of its failure.
fn machine(name: &str, domain: &str, created: i64, failed: i64) -> Machine {
    let no = ConditionStatus::False;
    let health =
        Condition::new("HealthCheckSucceeded", no, "UnhealthyNode", "", Time(at(failed).to_string()));
    let mut machine = Machine::new(name, MachineSpec::default());
    machine.metadata.uid = Some(format!("{name}-{created}"));
    machine.metadata.creation_timestamp = Some(Instant(at(created)));
    machine.spec.failure_domain = Some(domain.to_owned());
    machine.status = Some(MachineStatus { conditions: Some(vec![health]), ..MachineStatus::default() });
    machine
}

fn set(settings: &[(&str, &str)]) -> MachineSet {
    let mut set = MachineSet::default();
    set.metadata.name = Some("ms".to_owned());
    let settings =
        settings.iter().map(|(key, value)| (format!("capstan.dev/remediation-{key}"), (*value).to_owned()));
    set.annotations_mut().extend(settings);
    set
}

/// Judges a Machine, and records its remediation if nothing is against it, as a process does that has no memory.
fn remediate(set: &mut MachineSet, machine: &Machine, second: i64) -> Result<(), Obstacle> {
    let policy = policy(set, None).unwrap();
    let mut chains = Chains::read(set, policy, at(second));
    chains.judge(machine)?;
    chains.add(machine);
    let text = chains.text(&[]);
    set.annotations_mut().insert(REMEDIATION_CHAINS.to_owned(), text);
    Ok(())
}

fn count(set: &MachineSet, domain: &str) -> i64 {
    let chains: serde_json::Value = serde_json::from_str(&set.annotations()[REMEDIATION_CHAINS]).unwrap();
    chains[domain]["retryCount"].as_i64().unwrap()
}

#[test]
fn without_settings_there_is_no_chain() {
    assert_eq!(policy(&set(&[]), None), None);
    assert_eq!(policy(&set(&[("max-retry", "many"), ("retry-period", "-1s")]), None), None, "unusable");
    assert_eq!(policy(&set(&[("min-healthy-period", "5m")]), None), None, "nothing is limited");
    let found = policy(&set(&[("max-retry", "2"), ("min-healthy-period", "x")]), None).unwrap();
    assert_eq!(
        (found.max_retry, found.retry_period, found.healthy),
        (Some(2), SignedDuration::ZERO, HEALTHY)
    );
    let deployment = MachineDeployment::default();
    assert_eq!(policy(&set(&[("max-retry", "2")]), Some(&deployment)), None, "the MachineDeployment decides");
}

#[test]
fn the_limit_counts_replacements_that_are_replaced_again() {
    let mut set = set(&[("max-retry", "2")]);
    for (name, created, second, expected) in [("a", -900, 0, 0), ("b", 10, 60, 1), ("c", 70, 120, 2)] {
        assert_eq!(remediate(&mut set, &machine(name, "az1", created, second - 1), second), Ok(()), "{name}");
        assert_eq!(count(&set, "az1"), expected, "{name}");
    }
    let last = machine("d", "az1", 130, 179);
    let Err(Obstacle::Exhausted(message)) = remediate(&mut set, &last, 180) else { panic!("it is replaced") };
    assert_eq!(
        message,
        "MachineSet ms has replaced 2 unhealthy replacements in failure domain az1, and the next one is unhealthy, too. \
         The annotation capstan.dev/remediation-max-retry of MachineSet ms is 2. Repair the cause, then delete the \
         Machine, or increase the limit"
    );
    assert!(remediate(&mut set, &last, 90_000).is_err(), "the time of its failure stays");
    assert_eq!(remediate(&mut set, &machine("o", "az2", 130, 179), 180), Ok(()), "another failure domain");
    set.annotations_mut().insert("capstan.dev/remediation-max-retry".to_owned(), "3".to_owned());
    assert_eq!(remediate(&mut set, &last, 180), Ok(()), "the limit was increased");
    assert_eq!(count(&set, "az1"), 3);
}

#[test]
fn machines_that_are_older_than_the_chain_do_not_count_but_wait_for_its_end() {
    let mut set = set(&[("max-retry", "0")]);
    for (name, second) in [("a", 0), ("b", 1), ("c", 2)] {
        assert_eq!(remediate(&mut set, &machine(name, "az1", -900, second - 1), second), Ok(()), "{name}");
    }
    assert_eq!(count(&set, "az1"), 0);
    let policy = policy(&set, None).unwrap();
    let mut chains = Chains::read(&set, policy, at(60));
    let old = machine("old", "az1", -900, 50);
    assert_eq!(chains.judge(&old), Ok(()));
    assert!(matches!(chains.judge(&machine("new", "az1", 5, 50)), Err(Obstacle::Exhausted(_))));
    assert!(matches!(chains.judge(&old), Err(Obstacle::Exhausted(_))), "its replacement would fail, too");
}

#[test]
fn a_failure_after_the_healthy_period_begins_a_new_chain() {
    for (period, failed, expected) in [("10m", 599, None), ("10m", 600, Some(0)), ("1h", 3599, None)] {
        let mut set = set(&[("max-retry", "0"), ("min-healthy-period", period)]);
        assert_eq!(remediate(&mut set, &machine("a", "", -900, -1), 0), Ok(()));
        let result = remediate(&mut set, &machine("b", "", 10, failed), failed + 1);
        assert_eq!(result.ok().map(|()| count(&set, "")), expected, "{period} {failed}");
    }
}

#[test]
fn the_next_retry_waits_for_the_period() {
    let mut set = set(&[("retry-period", "5m")]);
    assert_eq!(remediate(&mut set, &machine("a", "az1", -900, -1), 0), Ok(()));
    let next = machine("b", "az1", 10, 60);
    let Err(Obstacle::Early(message, wait)) = remediate(&mut set, &next, 100) else {
        panic!("it does not wait")
    };
    assert_eq!(wait, Duration::from_secs(200));
    assert_eq!(
        message,
        "Waiting because the last remediation in failure domain az1 was at 1970-01-12T13:46:40Z, and its replacement is \
         unhealthy, too. The next one follows 5m later (annotation capstan.dev/remediation-retry-period of MachineSet ms)"
    );
    // A clock that was set back makes no wait longer than the period.
    let Err(Obstacle::Early(_, wait)) = remediate(&mut set, &next, -9000) else { panic!("it does not wait") };
    assert_eq!(wait, Duration::from_secs(300));
    assert_eq!(remediate(&mut set, &next, 300), Ok(()));
    assert_eq!(count(&set, "az1"), 1, "without a limit, retries go on");
}

#[test]
fn a_deletion_that_was_interrupted_goes_on_and_counts_once() {
    let mut set = set(&[("max-retry", "1"), ("retry-period", "1h")]);
    assert_eq!(remediate(&mut set, &machine("a", "az1", -900, -1), 0), Ok(()));
    let next = machine("b", "az1", 10, 60);
    let policy = policy(&set, None).unwrap();
    let mut chains = Chains::read(&set, policy.clone(), at(3600));
    assert_eq!(chains.judge(&next), Ok(()));
    chains.add(&next);
    let text = chains.text(std::slice::from_ref(&next));
    set.annotations_mut().insert(REMEDIATION_CHAINS.to_owned(), text.clone());
    let mut again = Chains::read(&set, policy, at(3601));
    assert_eq!(again.judge(&next), Ok(()));
    again.add(&next);
    assert_eq!(again.text(&[next]), text);
    set.annotations_mut().insert(REMEDIATION_CHAINS.to_owned(), "[]".to_owned());
    assert_eq!(remediate(&mut set, &machine("c", "az1", 3700, 3800), 3801), Ok(()), "an unreadable record");
}

/// A naming template with an index gives the name of a replaced Machine to its replacement.
#[test]
fn a_replacement_of_the_same_name_counts_as_any_other() {
    let mut set = set(&[("max-retry", "0")]);
    let policy = policy(&set, None).unwrap();
    let (first, second) = (machine("w-1", "az1", -900, -1), machine("w-1", "az1", 10, 60));
    let mut chains = Chains::read(&set, policy.clone(), at(0));
    assert_eq!(chains.judge(&first), Ok(()));
    chains.add(&first);
    let text = chains.text(std::slice::from_ref(&first));
    set.annotations_mut().insert(REMEDIATION_CHAINS.to_owned(), text);
    let mut chains = Chains::read(&set, policy.clone(), at(1));
    assert_eq!(chains.judge(&first), Ok(()), "its deletion is decided");
    let mut later = Chains::read(&set, policy, at(61));
    assert!(matches!(later.judge(&second), Err(Obstacle::Exhausted(_))));
}

#[test]
fn a_deletion_that_an_earlier_release_has_recorded_by_name_counts_once() {
    let mut set = set(&[("max-retry", "1")]);
    let policy = policy(&set, None).unwrap();
    let (since, last) = (at(0).to_string(), at(61).to_string());
    let record = serde_json::json!({
        "az1": {"since": since, "last": last, "retryCount": 1, "machines": ["w-1", "gone"]},
    });
    set.annotations_mut().insert(REMEDIATION_CHAINS.to_owned(), record.to_string());
    let read = |machine: &Machine| {
        Chains::read(&set, policy.clone(), at(120)).with_uids_of(std::slice::from_ref(machine))
    };
    let (decided, later) = (machine("w-1", "az1", 10, 60), machine("w-1", "az1", 70, 100));
    let mut chains = read(&decided);
    assert_eq!(chains.judge(&decided), Ok(()), "its deletion is decided");
    chains.add(&decided);
    let text = chains.text(std::slice::from_ref(&decided));
    let recorded: serde_json::Value = serde_json::from_str(&text).unwrap();
    let chain = &recorded["az1"];
    let expected = (serde_json::json!(1), serde_json::json!(["w-1-10"]));
    assert_eq!((&chain["retryCount"], &chain["machines"]), (&expected.0, &expected.1));
    assert!(matches!(read(&later).judge(&later), Err(Obstacle::Exhausted(_))), "another one of the name");
}
