//! Decision whether the newest stored form can be committed. It is pure.

use jiff::{SignedDuration, Timestamp};
use storage_contract::Form;

use crate::replicas::Replica;

/// Decision about a stored form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// The store has the newest form, or a downgrade is not complete.
    Nothing,
    /// This form can be committed now.
    Commit(Form),
    /// Not yet, for this reason.
    Wait(String),
}

/// Returns the form after a commit: values of older forms stay until they are written again.
pub(super) const fn committed(form: Form) -> Form {
    Form { committed: Form::NEWEST, least: form.least, to: None }
}

/// Decides about a form. `delay` is the time for which all live replicas must have run; `None`: an operator commits.
pub(super) fn decide(
    form: Form,
    live: &[Replica],
    now: Timestamp,
    delay: Option<SignedDuration>,
) -> Decision {
    if form.to.is_some() || form.committed >= Form::NEWEST {
        return Decision::Nothing;
    }
    let unable = live.iter().filter(|it| !it.reads.contains(&Form::NEWEST));
    let unable: Vec<String> =
        unable.map(|it| format!("{} ({}, {})", it.id, it.version, it.address)).collect();
    if !unable.is_empty() {
        return Decision::Wait(format!(
            "these replicas cannot read form {}: {}",
            Form::NEWEST,
            unable.join(", ")
        ));
    }
    let Some(newest) = live.iter().map(|it| it.since).max() else {
        return match delay {
            Some(_) => Decision::Wait("no replica has a record".to_owned()),
            None => Decision::Commit(committed(form)),
        };
    };
    match delay {
        Some(delay) if now.duration_since(newest) < delay => Decision::Wait(format!(
            "the newest replica runs since {newest}; form {} is committed {delay:#} later",
            Form::NEWEST
        )),
        _ => Decision::Commit(committed(form)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);

    fn replica(reads: &[u64], hours: i64) -> Replica {
        let mut replica = Replica::of_this_process("192.0.2.1:7443".to_owned());
        (replica.reads, replica.since) =
            (reads.to_vec(), Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours));
        replica
    }

    fn at(hours: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)
    }

    #[test]
    fn hv_21_a_form_is_committed_when_all_replicas_read_it_and_the_delay_has_passed() {
        let old = Form::of(3);
        let both = [replica(&[3, 4], 0), replica(&[3, 4], 10)];
        assert!(
            matches!(decide(old, &both, at(33), Some(DAY)), Decision::Wait(why) if why.contains("later"))
        );
        let new = Form { committed: 4, least: 3, to: None };
        assert_eq!(decide(old, &both, at(34), Some(DAY)), Decision::Commit(new));
        assert_eq!(decide(old, &both, at(11), None), Decision::Commit(new), "an operator waits for nothing");
        for delay in [Some(DAY), None] {
            let mixed = [replica(&[3, 4], 0), replica(&[3], 0)];
            let waits = decide(old, &mixed, at(100), delay);
            assert!(matches!(waits, Decision::Wait(why) if why.contains("cannot read form 4")), "{delay:?}");
        }
    }

    #[test]
    fn nothing_is_committed_during_a_downgrade_or_without_a_newer_form() {
        let live = [replica(&[3, 4], 0)];
        for form in [Form::of(4), Form { committed: 4, least: 3, to: Some(3) }] {
            assert_eq!(decide(form, &live, at(100), Some(DAY)), Decision::Nothing);
        }
        assert!(matches!(decide(Form::of(3), &[], at(100), Some(DAY)), Decision::Wait(_)));
    }
}
