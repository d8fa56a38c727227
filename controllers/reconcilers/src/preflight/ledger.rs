//! Ledger of one project: its limits as they were read, and what objects have reserved since.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use controllers_infrastructure::Quota;

use super::needs::{Need, Needs, Source};

/// Age up to which limits are used again: the Machines of a scale-up are created within seconds.
const AGE: Duration = Duration::from_secs(10);

/// Age up to which a refusal to show limits is believed: the roles of a user change seldom.
const REFUSED_AGE: Duration = Duration::from_hours(1);

/// Time after which a reservation ends in any case: longer than the creation of ports and volumes takes.
const RESERVED: Duration = Duration::from_mins(5);

/// Remedy of a quota without room.
const OF_QUOTA: &str = "Raise the quota of the project, or delete what is not needed there";

/// Remedy of a subnet without addresses.
const OF_SUBNET: &str =
    "Add allocation pools to the subnet, name another subnet, or delete ports that are not needed there";

/// Limit of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limit {
    pub quota: Quota,
    /// Name of what has the limit, for messages.
    pub of: String,
}

impl From<Quota> for Limit {
    fn from(quota: Quota) -> Self {
        let of = format!("project quota {:?}", quota.resource);
        Self { quota, of }
    }
}

/// Why an object cannot be created now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    pub message: String,
    /// The cloud has room; other objects have reserved it, and may not use it in the end.
    pub is_passing: bool,
    pub remedy: &'static str,
}

#[derive(Debug)]
struct Reservation {
    needs: Needs,
    since: Instant,
    /// Time at which the object had created everything, or gave up.
    settled: Option<Instant>,
}

/// Ledger of one project.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    limits: HashMap<Source, (Instant, Vec<Limit>)>,
    /// Time at which the cloud last refused to show limits of a kind.
    refused: HashMap<Discriminant<Source>, Instant>,
    /// By uid of the object.
    reservations: HashMap<String, Reservation>,
}

impl Ledger {
    /// Returns true if limits have to be read: they are old, or something was deleted since.
    pub(super) fn is_due(&self, source: &Source, freed: Option<Instant>, now: Instant) -> bool {
        let refused = self.refused.get(&discriminant(source));
        if refused.is_some_and(|refused| now.duration_since(*refused) < REFUSED_AGE) {
            return false;
        }
        let Some((read, _)) = self.limits.get(source) else { return true };
        now.duration_since(*read) > AGE || freed.is_some_and(|freed| freed >= *read)
    }

    /// Notes limits that were requested at this time. An empty list limits nothing.
    pub(super) fn note(&mut self, source: Source, requested: Instant, limits: Vec<Limit>) {
        // Networks come and go.
        self.limits.retain(|known, (read, _)| {
            !matches!(known, Source::Addresses(_)) || requested.duration_since(*read) < RESERVED
        });
        self.limits.insert(source, (requested, limits));
        self.reservations.retain(|_, it| requested.duration_since(it.since) < RESERVED);
    }

    /// Notes that the cloud does not show the addresses of networks to this user.
    pub(super) fn refuse(&mut self, source: &Source, requested: Instant) {
        self.refused.insert(discriminant(source), requested);
        self.limits.remove(source);
    }

    /// Reserves the needs of an object, or returns what is short.
    pub(super) fn reserve(&mut self, uid: &str, needs: Needs, now: Instant) -> Result<(), Shortage> {
        let short: Vec<Shortage> = needs.iter().filter_map(|need| self.short(uid, need)).collect();
        let Some(remedy) = short.iter().map(|it| it.remedy).next() else {
            self.reservations.insert(uid.to_owned(), Reservation { needs, since: now, settled: None });
            return Ok(());
        };
        self.reservations.remove(uid);
        let is_passing = short.iter().all(|it| it.is_passing);
        let messages: Vec<String> = short.into_iter().map(|it| it.message).collect();
        Err(Shortage { message: messages.join("; "), is_passing, remedy })
    }

    /// Ends the reservation of an object at the next list of each service.
    pub(super) fn settle(&mut self, uid: &str, now: Instant) {
        if let Some(reservation) = self.reservations.get_mut(uid) {
            reservation.settled.get_or_insert(now);
        }
    }

    /// Returns why the needs of an object do not fit now; `None` if they do, or if no limit is known. The text also says
    /// if `count` objects of the same size never fit.
    pub(super) fn lacks(&self, needs: &Needs, count: i64) -> Option<String> {
        let short = needs.iter().filter_map(|need| Some(self.short("", need)?.message));
        let mut texts: Vec<String> = short.collect();
        if texts.is_empty() {
            return None;
        }
        texts.extend(needs.iter().find_map(|need| self.beyond(need, count)));
        Some(texts.join("; "))
    }

    /// Returns why so many objects with the same need never fit, whatever else is in use.
    fn beyond(&self, need: &Need, count: i64) -> Option<String> {
        let (_, limits) = self.limits.get(&need.source)?;
        need.beyond(count, limits.iter().find(|it| it.quota.resource == need.resource)?.quota.limit)
    }

    /// Returns why a need does not fit.
    fn short(&self, uid: &str, need: &Need) -> Option<Shortage> {
        let (read, limits) = self.limits.get(&need.source)?;
        let Limit { quota, of } = limits.iter().find(|it| it.quota.resource == need.resource)?;
        let (used, read) = need.holder.as_ref().map_or((quota.used, read), |it| (it.used, &it.read));
        if quota.limit < 0 {
            return None;
        }
        let reserved = if need.is_of_each() {
            0
        } else {
            // The quotas count what was complete before they were read.
            let is_open = |it: &Reservation| it.settled.is_none_or(|settled| settled >= *read);
            let related = self.reservations.iter().filter(|(holder, it)| *holder != uid && is_open(it));
            related.map(|(_, it)| it.needs.beside(need)).sum()
        };
        let left = quota.limit.saturating_sub(used);
        let free = left.saturating_sub(reserved);
        if need.amount <= free {
            return None;
        }
        let (unit, remedy) = match &need.source {
            Source::Quota(_) => (need.resource.as_str(), OF_QUOTA),
            Source::Addresses(_) => ("addresses", OF_SUBNET),
        };
        let (Need { amount, field, .. }, limit, free) = (need, quota.limit, free.max(0));
        let holder = need.holder.as_ref().map(|it| format!(" of {:?}", it.name)).unwrap_or_default();
        let message = format!("{field} needs {amount} {unit}{holder}, {free} left of {limit} ({of})");
        Some(Shortage { message, is_passing: need.amount <= left, remedy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use controllers_infrastructure::QuotaService;

    use super::super::needs::Holder;

    const NOVA: Source = Source::Quota(QuotaService::Compute);

    fn cores(amount: i64) -> Needs {
        let mut needs = Needs::default();
        needs.add(NOVA, "cores", amount, "spec.flavor");
        needs
    }

    fn quota(limit: i64, used: i64) -> Vec<Limit> {
        vec![Quota { resource: "cores".to_owned(), limit, used }.into()]
    }

    #[test]
    fn r15_1_a_shortage_is_reported_in_the_numbers_of_the_cloud() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        ledger.note(NOVA, now, quota(40, 38));
        let short = ledger.reserve("a", cores(3), now).unwrap_err();
        let message = "spec.flavor needs 3 cores, 2 left of 40 (project quota \"cores\")".to_owned();
        assert_eq!(short, Shortage { message, is_passing: false, remedy: OF_QUOTA });
        assert_eq!(ledger.reserve("a", cores(2), now), Ok(()));
        // Quotas that cannot be read, and unlimited ones, stop nothing.
        for quotas in [Vec::new(), quota(-1, 1000)] {
            ledger.note(NOVA, now, quotas);
            assert_eq!(ledger.reserve("a", cores(500), now), Ok(()));
        }
    }

    #[test]
    fn a_size_that_lacks_room_reserves_nothing_and_a_number_that_never_fits_is_named() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        assert_eq!(ledger.lacks(&cores(3), 4), None, "no limit is known");
        ledger.note(NOVA, now, quota(12, 9));
        assert_eq!(ledger.lacks(&cores(3), 5), None, "one fits now");
        ledger.note(NOVA, now, quota(12, 10));
        let text = "spec.flavor needs 3 cores, 2 left of 12 (project quota \"cores\")";
        assert_eq!(ledger.lacks(&cores(3), 4).as_deref(), Some(text), "four fit if other servers go");
        let never = format!("{text}; 5 of this size need 15 cores, which never fit into 12");
        assert_eq!(ledger.lacks(&cores(3), 5), Some(never));
        assert_eq!(ledger.reserve("a", cores(2), now), Ok(()));
        ledger.note(NOVA, now, quota(-1, 1000));
        assert_eq!(ledger.lacks(&cores(3), 500), None);
    }

    #[test]
    fn what_is_being_created_is_subtracted_until_the_cloud_counts_it() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        ledger.note(NOVA, start, quota(4, 0));
        assert_eq!(ledger.reserve("a", cores(3), at(1)), Ok(()));
        let short = ledger.reserve("b", cores(3), at(1)).unwrap_err();
        assert!(short.is_passing && short.message.contains("1 left of 4"), "{short:?}");
        assert_eq!(ledger.reserve("a", cores(3), at(2)), Ok(()), "its own reservation does not count");
        ledger.settle("a", at(3));
        assert!(ledger.reserve("b", cores(3), at(4)).is_err(), "the list is older than the server");
        assert!(!ledger.is_due(&NOVA, None, at(9)) && ledger.is_due(&NOVA, None, at(11)));
        // The volumes of the first one are counted by a list of their own.
        ledger.note(QuotaService::Volume.into(), start, Vec::new());
        ledger.note(NOVA, at(11), quota(4, 3));
        assert!(!ledger.reserve("b", cores(3), at(11)).unwrap_err().is_passing);
        assert_eq!(ledger.reserve("b", cores(1), at(11)), Ok(()));
    }

    #[test]
    fn servers_that_enter_a_group_are_subtracted_from_the_limit_of_that_group_only() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let quota = Quota { resource: "server_group_members".to_owned(), limit: 3, used: 0 };
        ledger.note(NOVA, start, vec![quota.into()]);
        let enters = |group: &str, used, read| {
            let mut needs = Needs::default();
            let holder = Holder { name: group.to_owned(), used, read };
            needs.add_of(holder, NOVA, "server_group_members", 1, "spec.serverGroup");
            needs
        };
        assert_eq!(ledger.reserve("a", enters("g", 2, at(1)), at(1)), Ok(()));
        let short = ledger.reserve("b", enters("g", 2, at(1)), at(1)).unwrap_err();
        assert_eq!(
            short.message,
            "spec.serverGroup needs 1 server_group_members of \"g\", 0 left of 3 (project quota \
             \"server_group_members\")"
        );
        assert!(short.is_passing);
        assert_eq!(ledger.reserve("c", enters("other", 2, at(1)), at(1)), Ok(()));
        // The list of the groups is newer than the server, although that of the quotas is not.
        ledger.settle("a", at(2));
        assert!(!ledger.reserve("b", enters("g", 3, at(3)), at(3)).unwrap_err().is_passing);
        assert_eq!(ledger.reserve("b", enters("g", 2, at(3)), at(3)), Ok(()), "the other one gave up");
    }

    #[test]
    fn r15_3_a_deletion_has_the_quotas_read_again() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        ledger.note(NOVA, start, quota(4, 0));
        let later = start + Duration::from_secs(1);
        assert!(ledger.is_due(&NOVA, Some(later), later) && !ledger.is_due(&NOVA, None, later));
    }

    #[test]
    fn a_subnet_without_addresses_is_named_and_a_refusal_to_show_them_is_believed_for_an_hour() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        let network = Source::Addresses("n".to_owned());
        let quota = Quota { resource: "s".to_owned(), limit: 5, used: 4 };
        let limit = Limit { quota, of: "subnet \"nodes\" (s), 10.6.0.0/29".to_owned() };
        ledger.note(network.clone(), start, vec![limit]);
        let needs = |amount| {
            let mut needs = Needs::default();
            needs.add(network.clone(), "s", amount, "spec.ports");
            needs
        };
        assert_eq!(ledger.reserve("a", needs(1), start), Ok(()));
        assert!(ledger.reserve("b", needs(1), start).unwrap_err().is_passing);
        let short = ledger.reserve("b", needs(2), start).unwrap_err();
        assert_eq!(
            short.message,
            "spec.ports needs 2 addresses, 0 left of 5 (subnet \"nodes\" (s), 10.6.0.0/29)"
        );
        assert!(!short.is_passing && short.remedy == OF_SUBNET);

        ledger.refuse(&network, start);
        assert_eq!(ledger.reserve("b", needs(2), start), Ok(()));
        let (other, at) = (Source::Addresses("o".to_owned()), |minutes| start + Duration::from_mins(minutes));
        assert!(!ledger.is_due(&other, Some(at(58)), at(59)) && ledger.is_due(&other, None, at(60)));
        assert!(ledger.is_due(&NOVA, None, at(1)), "quotas are shown nevertheless");
    }

    #[test]
    fn limits_of_each_volume_do_not_add_up() {
        let mut needs = Needs::default();
        needs.add(QuotaService::Volume, "per_volume_gigabytes", 5, "spec.rootVolume");
        needs.add(QuotaService::Volume, "per_volume_gigabytes", 3, "spec.rootVolume");
        needs.add(QuotaService::Volume, "gigabytes", 5, "spec.rootVolume");
        needs.add(QuotaService::Volume, "gigabytes", 3, "spec.rootVolume");
        assert_eq!(needs.of(QuotaService::Volume, "per_volume_gigabytes"), 5);
        assert_eq!(needs.of(QuotaService::Volume, "gigabytes"), 8);
    }
}
