//! Judgement of each answer by the realm of its user, and by the state of the host at that time.

use std::fmt::Write as _;
use std::time::Duration;

use super::{
    CLOCKS_ADVANCED, HOST_KILLED, HOST_RETURNED, HOST_SERVES, HOST_STARTED, REPLICA_STARTED, REPLICA_STARTS,
    Report,
};
use crate::record::{Call, Realm, Records};

/// Time after the host's death in which its earlier answers may still count, and requests may wait for it.
const NOTICED: Duration = Duration::from_secs(15);

/// Time after the host's return until its users and its APIServices must work again. kube-apiserver looks at an
/// APIService every 30 s, and Capstan believes a host that was down after 10 s. The caller has its own bound for the
/// APIServices.
const RETURNED: Duration = Duration::from_secs(40);

/// Time after the loss of a replica in which the host may fail to reach Capstan: the host does not repeat requests. A replica
/// that has started reads its copies of the host in that time.
const REPLICA: Duration = Duration::from_secs(15);

/// Time after which all replicas have noticed that their clocks were set forward.
const NOTICES_CLOCK: Duration = Duration::from_secs(10);

/// Times of the host's death and return.
pub(super) struct Outage {
    pub(super) killed: Duration,
    /// From here on the host may answer. It may not have read its own roles, and Capstan not the new front proxy.
    started: Duration,
    /// From here on it is ready.
    pub(super) returned: Duration,
    /// From here on its users and its APIServices must work again.
    settled: Duration,
    /// From here on the copies of the host are too old for writes.
    advanced: Duration,
    /// All marks: a replica was killed, frozen, stopped or started.
    marks: Vec<Duration>,
    /// Begin and end of each time in which a replica starts, and reads its copies of the host.
    starts: Vec<(Duration, Duration)>,
}

impl Outage {
    pub(super) fn of(records: &Records) -> Self {
        let at = |wanted: &str| records.marks.iter().find(|(_, text)| text == wanted).map(|(at, _)| *at);
        let returned = at(HOST_RETURNED).unwrap_or(Duration::MAX);
        Self {
            killed: at(HOST_KILLED).unwrap_or(Duration::MAX),
            started: at(HOST_STARTED).unwrap_or(Duration::MAX),
            returned,
            settled: returned.saturating_add(RETURNED).max(at(HOST_SERVES).unwrap_or_default()),
            advanced: at(CLOCKS_ADVANCED).unwrap_or(Duration::MAX),
            marks: records.marks.iter().map(|(at, _)| *at).collect(),
            starts: starts(&records.marks),
        }
    }

    pub(super) fn is_down(&self, call: &Call) -> bool {
        call.begun >= self.killed && call.ended <= self.started
    }

    /// Returns true if the host was up during the whole call, and for long.
    pub(super) fn is_up(&self, call: &Call) -> bool {
        call.ended < self.killed || call.begun > self.settled
    }

    /// Returns true if the call was made while the host returned.
    fn is_returning(&self, call: &Call) -> bool {
        call.ended >= self.started && call.begun <= self.settled
    }

    fn is_near_a_mark(&self, call: &Call) -> bool {
        self.marks.iter().any(|at| overlaps(call, *at, at.saturating_add(REPLICA)))
    }

    /// Returns true if the host is down, and everything has noticed it.
    fn is_known_to_be_down(&self, call: &Call) -> bool {
        let is_beside_a_start = self.starts.iter().any(|(from, to)| overlaps(call, *from, *to));
        call.begun > self.killed.saturating_add(NOTICED) && self.is_down(call) && !is_beside_a_start
    }

    /// Returns true for a write for which the copies of the host were too old.
    fn is_late_write(&self, call: &Call) -> bool {
        call.method != "GET" && call.begun > self.advanced.saturating_add(NOTICES_CLOCK)
    }

    /// Returns true for a write for which they may have been.
    fn may_be_late_write(&self, call: &Call) -> bool {
        call.method != "GET" && call.ended > self.advanced
    }
}

fn overlaps(call: &Call, from: Duration, to: Duration) -> bool {
    call.ended >= from && call.begun <= to
}

/// Returns the begin and the end of each start of a replica. It gets requests as soon as it is ready, which the caller notices
/// later.
fn starts(marks: &[(Duration, String)]) -> Vec<(Duration, Duration)> {
    let (mut all, mut begun) = (Vec::new(), None);
    for (at, text) in marks {
        match text.as_str() {
            REPLICA_STARTS => begun = Some(*at),
            REPLICA_STARTED => all.push((begun.take().unwrap_or(*at), at.saturating_add(REPLICA))),
            _ => {}
        }
    }
    all
}

/// Returns the reason why an answer is wrong.
pub(super) fn wrong(call: &Call, outage: &Outage) -> Option<&'static str> {
    let code = call.answer.as_ref().map(|(code, _)| *code);
    // Conflicts follow attempts without a response. A first read finds nothing.
    let is_good = matches!(code, Some(200 | 404 | 409));
    match call.realm {
        Realm::Own => (!is_good).then_some("Capstan's own user got no success"),
        Realm::Denied => (code != Some(403)).then_some("a user without permissions was not refused"),
        Realm::Host => wrong_for_the_host(code, is_good, call, outage),
        Realm::Aggregated if outage.is_returning(call) => None,
        Realm::Aggregated if !outage.is_up(call) || outage.is_near_a_mark(call) => {
            matches!(code, Some(401 | 403)).then_some("a good user was refused through the host")
        }
        Realm::Aggregated => (!is_good).then_some("a call through the host got no success"),
    }
}

/// The copy of the host's permissions lets its users read for a day, and write for four hours.
fn wrong_for_the_host(
    code: Option<u16>,
    is_good: bool,
    call: &Call,
    outage: &Outage,
) -> Option<&'static str> {
    match code {
        Some(401) => Some("a good token or certificate of the host was refused"),
        _ if outage.is_up(call) => (!is_good).then_some("a user of the host got no success"),
        _ if outage.is_known_to_be_down(call) && outage.is_late_write(call) => {
            (code != Some(503)).then_some("a copy that is too old has allowed a write of a user of the host")
        }
        Some(503) if outage.is_known_to_be_down(call) && !outage.may_be_late_write(call) => {
            Some("a user of the host got no success, although the copy of the permissions is young enough")
        }
        Some(503) => None,
        _ => (!is_good).then_some("a user of the host got an answer other than success or 503"),
    }
}

/// If the clocks were set forward, a write must have met its bound: otherwise they were not.
pub(super) fn bound_of_writes(records: &Records, outage: &Outage, report: &mut Report) {
    let of_the_host = records.calls.iter().filter(|call| call.realm == Realm::Host);
    let late = of_the_host.filter(|call| outage.is_known_to_be_down(call) && outage.is_late_write(call));
    let count = late.count();
    let _ = writeln!(report.text, "{count} writes of the host's users after the bound of their copy");
    if outage.advanced < Duration::MAX && count == 0 {
        report.violations.push("no write of a user of the host met the bound of the copy".to_owned());
    }
}
