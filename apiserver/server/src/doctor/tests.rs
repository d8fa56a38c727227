use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use storage_etcd::{Member, MemberStatus};

use super::*;
use crate::replicas::Replica;
use crate::report::{FormReport, Report};

fn member(is_learner: bool) -> Member {
    Member {
        id: 1,
        name: "a".to_owned(),
        peer_urls: vec!["https://192.0.2.1:2380".to_owned()],
        client_urls: vec!["https://192.0.2.1:2379".to_owned()],
        is_learner,
    }
}

fn status() -> MemberStatus {
    MemberStatus {
        version: "3.6.16".to_owned(),
        has_leader: true,
        size: 1 << 20,
        errors: Vec::new(),
        has_sound_progress: true,
    }
}

#[test]
fn the_end_of_a_certificate_is_an_error_after_it_and_a_warning_two_weeks_before() {
    let day = 86_400;
    for (days, expected) in [(-1, Level::Error), (0, Level::Error), (13, Level::Warning), (15, Level::Ok)] {
        assert_eq!(files::of_end("ca.crt".to_owned(), days * day, 0).level, expected, "{days}");
    }
}

#[test]
fn a_failed_check_of_readiness_is_named() {
    let text =
        "[+]ping ok\n[-]encryption failed: reason withheld\n[-]storage-history failed\nreadyz check failed\n";
    let found = server::readiness("https://127.0.0.1:7443", 500, text);
    assert_eq!(found[0].level, Level::Error);
    assert!(found[0].message.contains("encryption, storage-history"), "{found:?}");
    assert_eq!(server::readiness("https://127.0.0.1:7443", 200, "ok")[0].level, Level::Ok);
    // A response without the list of checks.
    let refused = server::readiness("https://127.0.0.1:7443", 401, r#"{"kind":"Status","code":401}"#);
    assert!(
        refused[0].message.contains("refuses a certificate of this machine's CA: code 401"),
        "{refused:?}"
    );
    let other = server::readiness("https://127.0.0.1:7443", 503, "");
    assert!(other[0].message.contains("is not ready: code 503"), "{other:?}");
}

#[test]
fn a_host_that_is_down_and_an_old_backup_are_reported() {
    let text = "capstan_host_state{state=\"up\"} 0\ncapstan_host_state{state=\"down\"} 1\n\
                capstan_backup_last_success_timestamp_seconds 1000\n";
    let levels = |interval, now| -> Vec<_> {
        server::metrics(text, interval, now).into_iter().map(|it| it.level).collect()
    };
    // The second one is about the mirror, which this host does not have.
    assert_eq!(levels(Some(100), 1100), [Level::Warning, Level::Ok, Level::Ok]);
    assert_eq!(levels(Some(100), 1300), [Level::Warning, Level::Ok, Level::Error]);
    assert_eq!(levels(None, 1300), [Level::Warning, Level::Ok, Level::Warning]);
}

#[test]
fn ia_62_a_host_without_a_mirror_is_mentioned_with_the_consequence_of_an_outage() {
    let found = |text: &str| {
        let findings = server::metrics(text, None, 0);
        findings.into_iter().filter(|it| it.message.contains("are not mirrored")).count()
    };
    let host = "capstan_host_state{state=\"up\"} 1\n";
    let mirror = "capstan_host_mirror_age_seconds{what=\"permissions\"} 5\n";
    assert_eq!([found(host), found(&format!("{host}{mirror}")), found("")], [1, 0, 0]);
}

#[test]
fn pk_34_a_leader_without_a_backup_is_reported_and_another_replica_is_not() {
    let never = "capstan_backup_last_success_timestamp_seconds 0.0\n";
    let found = |text: &str| {
        let mut findings = server::metrics(text, Some(100), 1300);
        findings.pop().unwrap()
    };
    let leader = found(&format!("capstan_leader 1\ncapstan_leader_epoch 7\n{never}"));
    assert_eq!(leader.level, Level::Warning, "{leader:?}");
    assert!(leader.message.contains("none in at least one destination"), "{leader:?}");
    assert_eq!(found(&format!("capstan_leader 0\n{never}")).level, Level::Ok);
    // The time of a term that has ended says nothing about the backups of the present leader.
    let former = "capstan_leader 0\ncapstan_backup_last_success_timestamp_seconds 1000\n";
    assert_eq!(found(former).level, Level::Ok);
    let old = found("capstan_leader 1\ncapstan_backup_last_success_timestamp_seconds 1000\n");
    assert!(old.level == Level::Error && old.message.contains("is 5 min old"), "{old:?}");
}

#[test]
fn pk_34_the_ends_of_cas_and_of_the_credential_in_the_host_are_judged() {
    let (day, now) = (86_400, 100 * 86_400);
    let text = format!(
        "capstan_certificate_end_timestamp_seconds{{certificate=\"serving\"}} {}\n\
         capstan_certificate_end_timestamp_seconds{{certificate=\"client-ca\"}} {}\n\
         capstan_host_credential_end_timestamp_seconds {}\n",
        now + 60 * day,
        now + 13 * day,
        now - day
    );
    let found = server::metrics(&text, None, now);
    let found: Vec<_> = found.iter().take(3).map(|it| (it.level, it.subject.as_str())).collect();
    let expected = [
        (Level::Warning, "certificate client-ca of the server"),
        (Level::Ok, "certificate serving of the server"),
        (Level::Error, "client certificate in the host cluster"),
    ];
    assert_eq!(found, expected);
    let without = server::metrics("capstan_host_credential_end_timestamp_seconds 0\n", None, now);
    assert_eq!(without.len(), 1, "a host without a client certificate: {without:?}");
}

#[test]
fn tm_25_a_clock_that_is_behind_is_an_error_and_one_that_is_right_is_not_mentioned() {
    let subjects = |seconds: u32| -> Vec<_> {
        let found = server::metrics(&format!("capstan_clock_behind_seconds {seconds}\n"), Some(100), 0);
        found.into_iter().map(|it| (it.level, it.subject)).filter(|(_, subject)| subject == "clock").collect()
    };
    assert_eq!(subjects(3600), [(Level::Error, "clock".to_owned())]);
    assert!(subjects(0).is_empty());
}

#[test]
fn members_are_judged_by_their_leader_alarms_version_and_number() {
    let judge =
        |status: MemberStatus, is_learner| etcd::judge("etcd".to_owned(), &member(is_learner), &status).level;
    assert_eq!(judge(status(), false), Level::Ok);
    assert_eq!(judge(status(), true), Level::Warning);
    assert_eq!(judge(MemberStatus { has_leader: false, ..status() }, false), Level::Error);
    assert_eq!(judge(MemberStatus { errors: vec!["NOSPACE".to_owned()], ..status() }, false), Level::Error);
    assert_eq!(judge(MemberStatus { has_sound_progress: false, ..status() }, false), Level::Warning);
    assert_eq!(judge(MemberStatus { size: 7 << 30, ..status() }, false), Level::Warning);
    let levels = [1, 2, 3].map(|count| etcd::cluster(&vec![member(false); count]).level);
    assert_eq!(levels, [Level::Ok, Level::Warning, Level::Ok]);
}

#[test]
fn copies_of_the_host_are_judged_by_their_age() {
    let text = |permissions, keys| {
        format!(
            "capstan_host_mirror_age_seconds{{what=\"permissions\"}} {permissions}\n\
             capstan_host_mirror_age_seconds{{what=\"keys\"}} {keys}\n"
        )
    };
    let levels = |text: String| -> Vec<_> {
        server::metrics(&text, None, 0).iter().take(2).map(|it| it.level).collect()
    };
    assert_eq!(levels(text(5, 75_000)), [Level::Ok, Level::Warning]);
    assert_eq!(levels(text(12_000, 12_000)), [Level::Warning, Level::Ok], "keys decide for a day");
    assert_eq!(levels(text(-1, 0)), [Level::Warning, Level::Ok]);
}

/// Report of replicas with these ids, versions and ages in seconds.
fn report(replicas: &[(&str, &str, i64)], now: Timestamp) -> Report {
    let replica = |&(id, version, age): &(&str, &str, i64)| {
        let mut replica = Replica::of_this_process("192.0.2.1:7443".to_owned());
        (replica.id, replica.version) = (id.to_owned(), version.to_owned());
        replica.renewed = now - SignedDuration::from_secs(age);
        replica
    };
    let form = FormReport { is_agreed: true, committed: 4, least: 4, to: None, delay: 0 };
    let (authorities, certificates) = (Vec::new(), Vec::new());
    let replicas = replicas.iter().map(replica).collect();
    Report { replicas, form, rewrite: None, authorities, certificates }
}

fn judged(first: &Report, second: Option<&Report>) -> Vec<(Level, String)> {
    let findings = replicas::judge(first, second, Timestamp::UNIX_EPOCH);
    findings.into_iter().map(|it| (it.level, format!("{}: {}", it.subject, it.message))).collect()
}

#[test]
fn clocks_and_versions_of_replicas_are_compared_and_a_dead_one_is_named() {
    let now = Timestamp::UNIX_EPOCH;
    let good = judged(&report(&[("a", "1", 3), ("b", "1", 9)], now), None);
    assert!(good.iter().all(|(level, _)| *level == Level::Ok), "{good:?}");
    let found = judged(&report(&[("a", "1", -20), ("b", "2", 3)], now), None);
    assert!(found[0].0 == Level::Warning && found[0].1.contains("20 s ahead of"), "{found:?}");
    assert!(found[1].0 == Level::Warning && found[1].1.contains("versions 1, 2"), "{found:?}");
    // One that renews its record lives, whatever its clock says.
    let (first, second) = (report(&[("a", "1", 500)], now), report(&[("a", "1", 490)], now));
    let found = judged(&first, Some(&second));
    assert!(found[0].0 == Level::Error && found[0].1.contains("480 s behind"), "{found:?}");
    let found = judged(&first, Some(&first));
    assert!(found[0].0 == Level::Warning && found[0].1.contains("has not renewed"), "{found:?}");
}

#[test]
fn a_key_that_a_replica_lacks_and_a_downgrade_are_reported() {
    let mut found = report(&[("a", "1", 0), ("b", "1", 0)], Timestamp::UNIX_EPOCH);
    found.replicas[0].seals.insert("k".to_owned());
    found.replicas[0].keys.insert("k".to_owned());
    found.form.to = Some(3);
    let found = judged(&found, None);
    assert!(
        found.iter().any(|(level, text)| *level == Level::Error && text.contains("missing on b")),
        "{found:?}"
    );
    assert!(
        found.iter().any(|(level, text)| *level == Level::Warning && text.contains("--to 3")),
        "{found:?}"
    );
}

#[test]
fn a_credential_is_as_bad_as_the_worst_cluster_that_uses_it() {
    let cluster = |name: &str, credential: &str, status: Option<&str>| {
        if status == Some("down") {
            let conditions = json!([{"type": "Ready", "status": "False", "reason": "CloudUnreachable"}]);
            return json!({"metadata": {"namespace": "team", "name": name},
                "spec": {"identityRef": {"name": credential, "cloudName": "openstack"}},
                "status": {"conditions": conditions}});
        }
        let conditions = status.map(|status| {
            json!([{"type": "OpenStackAuthenticationSucceeded", "status": status, "reason": "CredentialsInvalid",
                "message": "keystone: no"}])
        });
        json!({"metadata": {"namespace": "team", "name": name},
            "spec": {"identityRef": {"name": credential, "cloudName": "openstack"}},
            "status": {"conditions": conditions}})
    };
    let list = json!({"items": [cluster("a", "one", Some("True")), cluster("b", "one", Some("False")),
        cluster("c", "two", Some("True")), cluster("d", "three", None), cluster("e", "four", Some("down"))]});
    let found: Vec<_> = clouds::judge(&list).into_iter().map(|it| (it.level, it.subject)).collect();
    let named = |name: &str| format!("credential team/{name} (cloud openstack)");
    assert_eq!(
        found,
        [
            (Level::Error, named("four")),
            (Level::Error, named("one")),
            (Level::Warning, named("three")),
            (Level::Ok, named("two"))
        ]
    );
}
