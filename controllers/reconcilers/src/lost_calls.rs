//! Create calls whose answers were lost: later passes look for the resource before they repeat the call.
//!
//! A list of the cloud may lag behind its database. So a pass that does not find the resource does not prove that the
//! call had no effect. The calls are in an annotation, so that the wait survives a restart.

use std::time::Duration;

use controllers_infrastructure::{CloudError, ErrorClass};
use controllers_runtime::{Journal, ReconcileError, TermStart};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

/// Annotation with the calls: a JSON array. It is absent on almost every object.
pub(crate) const ANNOTATION: &str = "capstan.dev/lost-calls";

/// Interval before the first look. The requeue has the same one after a call without an answer.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// Times of the later looks, after the answer was missed. The pass of the last one repeats the call. Unit: seconds.
const LOOKS: [i64; 2] = [6, LOOKING];

/// Time in which passes only look. Unit: seconds.
const LOOKING: i64 = 15;

/// Create call whose answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LostCall {
    /// The attempt, with the name of the resource.
    attempt: String,
    /// Time at which the answer was missed. Unit: seconds since 1970.
    at: i64,
    /// Error of the call.
    cause: String,
}

impl LostCall {
    /// Returns true while its effect may still appear. The clock of another replica may be behind; a time that is further
    /// off does not count.
    fn is_recent(&self, now: Timestamp) -> bool {
        self.age(now).abs() < LOOKING
    }

    /// Returns the time since the answer was missed. Unit: seconds.
    fn age(&self, now: Timestamp) -> i64 {
        now.as_second().saturating_sub(self.at)
    }

    /// Returns the interval before the next look.
    fn next_look(&self, now: Timestamp) -> Duration {
        let age = self.age(now).max(0);
        let next = LOOKS.into_iter().find(|look| *look > age).unwrap_or(LOOKING);
        Duration::from_secs(next.abs_diff(age))
    }
}

/// Create calls of an object whose answers were lost, at most one per attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LostCalls {
    calls: Vec<LostCall>,
    /// Time until which calls of the former leader for this object may still reach the cloud.
    #[serde(skip)]
    unsettled_until: Option<Timestamp>,
}

/// Interval of the looks for effects of the former leader's calls.
const LOOK_FOR_LATE: Duration = Duration::from_secs(5);

impl LostCalls {
    /// Reads the lost calls of an object. A text that cannot be parsed counts as none.
    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        let text = object.annotations().get(ANNOTATION);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Enters a term: the journal names it in new entries. If the former leader was cut off and has announced resources of
    /// the object, its calls count as lost until none can reach the cloud any more.
    pub(crate) fn enter(&mut self, term: &TermStart, journal: &mut Journal, now: Timestamp) {
        journal.enter(term, now);
        let rest = term.unsettled().filter(|_| journal.has_open_entries_of_another_term());
        self.unsettled_until = rest.and_then(|rest| now.checked_add(rest).ok());
    }

    /// Returns the time until which calls of the former leader may still reach the cloud, and the interval before the
    /// next look.
    fn unsettled(&self, now: Timestamp) -> Option<(Timestamp, Duration)> {
        let until = self.unsettled_until.filter(|until| *until > now)?;
        let rest = Duration::try_from(until.duration_since(now)).unwrap_or(LOOK_FOR_LATE);
        Some((until, rest.min(LOOK_FOR_LATE)))
    }

    /// Returns the value of the annotation; `None` without lost calls.
    pub(crate) fn text(&self) -> Option<String> {
        (!self.calls.is_empty()).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Forgets all calls: nothing is missing any more.
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
    }

    /// Refuses to repeat a call while its effect may still appear. A pass gets here only if it did not find the resource.
    ///
    /// # Errors
    /// `OutcomeUnknown`, with the error of the lost call.
    pub(crate) fn check(&self, attempt: &str, now: Timestamp) -> Result<(), ReconcileError> {
        if let Some((until, next)) = self.unsettled(now) {
            let message = format!(
                "the replica that was the leader before may have sent this call. Capstan looks for the resource each \
                 {} seconds, and sends the call at {until:.0} if it finds none",
                LOOK_FOR_LATE.as_secs()
            );
            let retry_after = Some(next);
            return Err(
                CloudError { retry_after, ..CloudError::new(ErrorClass::Unknown, attempt, message) }.into()
            );
        }
        let known = self.calls.iter().find(|lost| lost.attempt == attempt);
        let Some(lost) = known.filter(|lost| lost.is_recent(now)) else { return Ok(()) };
        let again = Timestamp::from_second(lost.at.saturating_add(LOOKING)).unwrap_or(now);
        let message = format!(
            "{}. The call may have taken effect. Capstan looks for the resource, and repeats the call at {again} if it \
             finds none",
            lost.cause
        );
        let retry_after = Some(lost.next_look(now));
        Err(CloudError { retry_after, ..CloudError::new(ErrorClass::Unknown, attempt, message) }.into())
    }

    /// Refuses to conclude that a resource was never created, while the effect of a lost call may still appear.
    ///
    /// # Errors
    /// A wait that names the call.
    pub(crate) fn check_absence(&self, now: Timestamp) -> Result<(), ReconcileError> {
        if let Some((until, _)) = self.unsettled(now) {
            let message = format!(
                "the replica that was the leader before may have sent calls that create resources. Capstan looks for \
                 them until {until:.0} before it ends the deletion"
            );
            return Err(ReconcileError::waiting(ErrorClass::Unknown.reason(), message));
        }
        let Some(lost) = self.calls.iter().find(|lost| lost.is_recent(now)) else { return Ok(()) };
        let message = format!(
            "{}: {}. The call may have taken effect, so Capstan looks for the resource before it ends the deletion",
            lost.attempt, lost.cause
        );
        Err(ReconcileError::waiting(ErrorClass::Unknown.reason(), message))
    }

    /// Notes whether the answer to a create call was lost. The first look is then due after two seconds.
    pub(crate) fn note<T>(
        &mut self,
        attempt: &str,
        made: Result<T, ReconcileError>,
        now: Timestamp,
    ) -> Result<T, ReconcileError> {
        self.calls.retain(|lost| lost.attempt != attempt);
        made.map_err(|error| match error {
            ReconcileError::Cloud(error) if is_lost(&error) => {
                let (attempt, cause) = (attempt.to_owned(), error.words());
                self.calls.push(LostCall { attempt, at: now.as_second(), cause });
                let first_look = (error.class != ErrorClass::Unknown).then_some(FIRST_LOOK);
                let retry_after = error.retry_after.max(first_look);
                CloudError { retry_after, ..error }.into()
            }
            error => error,
        })
    }
}

/// Returns true if the call may have taken effect: without an answer, after a failure inside the service or a proxy, and
/// after a success that cannot be read.
fn is_lost(error: &CloudError) -> bool {
    match error.class {
        ErrorClass::Unknown => true,
        ErrorClass::Broken => error.status.is_some_and(|status| !(300..500).contains(&status)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{OpenStackMachine, OpenStackMachineSpec};

    use super::*;

    const ATTEMPT: &str = "create port \"m-0\"";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn failed(class: ErrorClass, status: Option<u16>) -> Result<(), ReconcileError> {
        Err(CloudError { status, ..CloudError::new(class, "POST /ports", "no response in time") }.into())
    }

    #[test]
    fn r2_6_a_lost_call_is_repeated_after_fifteen_seconds_of_looking() {
        let mut lost = LostCalls::default();
        let error = lost.note(ATTEMPT, failed(ErrorClass::Broken, Some(502)), at(0)).unwrap_err();
        assert!(matches!(error, ReconcileError::Cloud(error) if error.retry_after == Some(FIRST_LOOK)));
        for (attempt, seconds, is_refused) in [
            (ATTEMPT, 2, true),
            (ATTEMPT, 14, true),
            (ATTEMPT, 15, false),
            (ATTEMPT, -3, true),
            (ATTEMPT, -3600, false),
            ("create port \"m-1\"", 2, false),
        ] {
            let checked = lost.check(attempt, at(seconds));
            assert_eq!(checked.is_err(), is_refused, "{attempt} after {seconds} s: {checked:?}");
        }
        let next = |seconds| match lost.check(ATTEMPT, at(seconds)) {
            Err(ReconcileError::Cloud(error)) => error.retry_after.map(|interval| interval.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!([next(2), next(6), next(14), next(-3)], [Some(4), Some(9), Some(1), Some(6)]);
        assert!(lost.check_absence(at(14)).is_err() && lost.check_absence(at(15)).is_ok());
        let expected = "create port \"m-0\": 502: no response in time. The call may have taken effect. Capstan looks for the \
            resource, and repeats the call at 2027-01-15T08:00:15Z if it finds none";
        assert_eq!(lost.check(ATTEMPT, at(2)).unwrap_err().to_string(), expected);
    }

    #[test]
    fn hv04_calls_of_a_leader_that_was_cut_off_are_awaited_only_where_it_announced_some() {
        let term = TermStart::after_a_cut(9, tokio::time::Instant::now());
        let mut of_former = Journal::default();
        of_former.enter(&TermStart::in_order(7), at(0));
        of_former.intend("port", "m-0");
        for (mut journal, is_refused) in [(of_former, true), (Journal::default(), false)] {
            let mut lost = LostCalls::default();
            lost.enter(&term, &mut journal, at(0));
            journal.intend("server", "m");
            assert_eq!(lost.check(ATTEMPT, at(0)).is_err(), is_refused);
            assert_eq!(lost.check_absence(at(64)).is_err(), is_refused);
            assert!(lost.check(ATTEMPT, at(65)).is_ok() && lost.check_absence(at(65)).is_ok());
            assert_eq!(lost.text(), None, "the next pass finds it out again");
        }
        let mut lost = LostCalls::default();
        lost.enter(&TermStart::in_order(9), &mut Journal::default(), at(0));
        assert!(lost.check(ATTEMPT, at(0)).is_ok(), "the former leader has ended its calls");
    }

    #[test]
    fn r2_6_lost_calls_survive_a_restart() {
        let mut lost = LostCalls::default();
        let _ = lost.note(ATTEMPT, failed(ErrorClass::Broken, Some(502)), at(0));
        let _ = lost.note("create server \"m\"", failed(ErrorClass::Unknown, None), at(1));
        let mut object = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        assert_eq!(LostCalls::of(&object), LostCalls::default());
        object.annotations_mut().insert(ANNOTATION.to_owned(), lost.text().unwrap());
        assert_eq!(LostCalls::of(&object), lost);
        assert!(lost.note(ATTEMPT, Ok(()), at(16)).is_ok());
        assert!(lost.check(ATTEMPT, at(2)).is_ok() && lost.check("create server \"m\"", at(2)).is_err());
        lost.clear();
        assert_eq!(lost.text(), None);
    }

    #[test]
    fn r2_6_an_answer_that_proves_that_nothing_happened_is_not_lost() {
        for (class, status, expected) in [
            (ErrorClass::Unknown, None, true),
            (ErrorClass::Broken, Some(500), true),
            (ErrorClass::Broken, Some(202), true),
            (ErrorClass::Broken, Some(404), false),
            (ErrorClass::Broken, None, false),
            (ErrorClass::Unreachable, None, false),
            (ErrorClass::Throttled, Some(503), false),
            (ErrorClass::Quota, Some(403), false),
        ] {
            let mut lost = LostCalls::default();
            let _ = lost.note(ATTEMPT, failed(class, status), at(0));
            assert_eq!(lost.text().is_some(), expected, "{class:?} {status:?}");
        }
    }
}
