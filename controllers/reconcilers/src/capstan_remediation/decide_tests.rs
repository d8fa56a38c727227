use super::*;

fn step(action: RemediationAction, attempts: i32) -> RemediationStep {
    let wait_seconds = Some(60);
    RemediationStep { action, attempts: Some(attempts), reboot_type: None, wait_seconds }
}

fn steps() -> Vec<RemediationStep> {
    let hard = Some(RebootType::Hard);
    vec![
        step(RemediationAction::Reboot, 2),
        RemediationStep { reboot_type: hard, ..step(RemediationAction::Reboot, 1) },
        step(RemediationAction::Replace, 1),
    ]
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_step_follows_another_while_the_machine_stays_unhealthy() {
    use RemediationPhase::{Exhausted, Pending, Replacing, Running, Waiting};
    let sick = || Observed { is_unhealthy: true, now: at(1000), ..Observed::default() };
    let with = |attempt| Observed { attempt, ..sick() };
    let healthy = |observed: Observed| Observed { is_unhealthy: false, ..observed };
    let place = |step, attempt| Place { step, attempt };
    let phase = |phase| Err((phase, None));
    let table = [
        ("first", place(1, 1), sick(), Ok(Next::Begin(RebootType::Soft))),
        ("healthy at first", place(1, 1), healthy(sick()), phase(Pending)),
        ("in flight", place(1, 1), with(Attempt::Unfinished), phase(Running)),
        ("healthy in flight", place(1, 1), healthy(with(Attempt::Unfinished)), phase(Running)),
        (
            "a moment ago",
            place(1, 1),
            with(Attempt::Ended(at(950))),
            Err((Waiting, Some(SignedDuration::from_secs(10)))),
        ),
        ("long ago", place(1, 1), with(Attempt::Ended(at(940))), Ok(Next::Advance(place(1, 2)))),
        ("long ago, healthy", place(1, 1), healthy(with(Attempt::Ended(at(940)))), phase(Waiting)),
        ("failed", place(1, 1), with(Attempt::Lost), Ok(Next::Advance(place(1, 2)))),
        ("last attempt", place(1, 2), with(Attempt::Lost), Ok(Next::Advance(place(2, 1)))),
        ("second step", place(2, 1), sick(), Ok(Next::Begin(RebootType::Hard))),
        ("second step, healthy", place(2, 1), healthy(sick()), phase(Waiting)),
        ("to replace", place(3, 1), sick(), Ok(Next::Mark)),
        ("to replace, healthy", place(3, 1), healthy(sick()), phase(Waiting)),
        ("marked", place(3, 1), Observed { is_marked: true, ..sick() }, phase(Replacing)),
        ("past the end", place(4, 1), sick(), phase(Exhausted)),
        (
            "another comes first",
            place(1, 1),
            Observed { first: Some("m0".to_owned()), ..sick() },
            phase(Pending),
        ),
    ];
    for (case, place, observed, expected) in table {
        let next = match decide(&steps(), place, &observed) {
            Next::Wait(phase, message, rest) => {
                assert!(!message.is_empty(), "{case}");
                Err((phase, rest))
            }
            other => Ok(other),
        };
        assert_eq!(next, expected, "{case}");
    }
}

#[test]
fn a_step_without_numbers_has_one_attempt_and_five_minutes() {
    let bare = [RemediationStep { action: RemediationAction::Reboot, ..RemediationStep::default() }];
    let observed = |now| Observed {
        is_unhealthy: true,
        attempt: Attempt::Ended(at(0)),
        now: at(now),
        ..Observed::default()
    };
    let place = Place::of(None);
    assert_eq!(place, Place::FIRST);
    assert!(matches!(decide(&bare, place, &observed(299)), Next::Wait(..)));
    let next = Place { step: 2, attempt: 1 };
    assert_eq!(decide(&bare, place, &observed(300)), Next::Advance(next));
}
