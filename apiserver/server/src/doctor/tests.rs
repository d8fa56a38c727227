use storage_etcd::{Member, MemberStatus};

use super::*;

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
}

#[test]
fn an_old_backup_is_reported() {
    let text = "capstan_backup_last_success_timestamp_seconds 1000\n";
    let levels = |interval, now| -> Vec<_> {
        server::metrics(text, interval, now).into_iter().map(|it| it.level).collect()
    };
    assert_eq!(levels(Some(100), 1100), [Level::Ok]);
    assert_eq!(levels(Some(100), 1300), [Level::Error]);
    assert_eq!(levels(None, 1300), [Level::Warning]);
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
