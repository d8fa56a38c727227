//! Ledger of one project: its quotas as they were read, and what objects have reserved since.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use controllers_infrastructure::{Quota, QuotaService};

use super::needs::{Need, Needs};

/// Age up to which quotas are used again: the Machines of a scale-up are created within seconds.
const AGE: Duration = Duration::from_secs(10);

/// Time after which a reservation ends in any case: longer than the creation of ports and volumes takes.
const RESERVED: Duration = Duration::from_mins(5);

/// Why an object cannot be created now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    pub message: String,
    /// The cloud has room; other objects have reserved it, and may not use it in the end.
    pub is_passing: bool,
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
    quotas: HashMap<QuotaService, (Instant, Vec<Quota>)>,
    /// By uid of the object.
    reservations: HashMap<String, Reservation>,
}

impl Ledger {
    /// Returns true if the quotas of a service have to be read: they are old, or something was deleted since.
    pub(super) fn is_due(&self, service: QuotaService, freed: Option<Instant>, now: Instant) -> bool {
        let Some((read, _)) = self.quotas.get(&service) else { return true };
        now.duration_since(*read) > AGE || freed.is_some_and(|freed| freed >= *read)
    }

    /// Notes quotas that were requested at this time. An empty list limits nothing.
    pub(super) fn note(&mut self, service: QuotaService, requested: Instant, quotas: Vec<Quota>) {
        self.quotas.insert(service, (requested, quotas));
        self.reservations.retain(|_, it| requested.duration_since(it.since) < RESERVED);
    }

    /// Reserves the needs of an object, or returns what is short.
    pub(super) fn reserve(&mut self, uid: &str, needs: Needs, now: Instant) -> Result<(), Shortage> {
        let short: Vec<(String, bool)> = needs.iter().filter_map(|need| self.short(uid, need)).collect();
        if short.is_empty() {
            self.reservations.insert(uid.to_owned(), Reservation { needs, since: now, settled: None });
            return Ok(());
        }
        self.reservations.remove(uid);
        let is_passing = short.iter().all(|(_, is_passing)| *is_passing);
        let messages: Vec<String> = short.into_iter().map(|(message, _)| message).collect();
        Err(Shortage { message: messages.join("; "), is_passing })
    }

    /// Ends the reservation of an object at the next list of each service.
    pub(super) fn settle(&mut self, uid: &str, now: Instant) {
        if let Some(reservation) = self.reservations.get_mut(uid) {
            reservation.settled.get_or_insert(now);
        }
    }

    /// Returns the message about a need that does not fit, and whether it would without the reservations.
    fn short(&self, uid: &str, need: &Need) -> Option<(String, bool)> {
        let (read, quotas) = self.quotas.get(&need.service)?;
        let quota = quotas.iter().find(|quota| quota.resource == need.resource)?;
        if quota.limit < 0 {
            return None;
        }
        let reserved = if need.is_of_each() {
            0
        } else {
            // The quotas count what was complete before they were read.
            let is_open = |it: &Reservation| it.settled.is_none_or(|settled| settled >= *read);
            let related = self.reservations.iter().filter(|(holder, it)| *holder != uid && is_open(it));
            related.map(|(_, it)| it.needs.of(need.service, &need.resource)).sum()
        };
        let left = quota.limit.saturating_sub(quota.used);
        let free = left.saturating_sub(reserved);
        if need.amount <= free {
            return None;
        }
        let (Need { amount, resource, field, .. }, limit) = (need, quota.limit);
        let message = format!(
            "{field} needs {amount} {resource}, {} left of {limit} (project quota {resource:?})",
            free.max(0)
        );
        Some((message, need.amount <= left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOVA: QuotaService = QuotaService::Compute;

    fn cores(amount: i64) -> Needs {
        let mut needs = Needs::default();
        needs.add(NOVA, "cores", amount, "spec.flavor");
        needs
    }

    fn quota(limit: i64, used: i64) -> Vec<Quota> {
        vec![Quota { resource: "cores".to_owned(), limit, used }]
    }

    #[test]
    fn r15_1_a_shortage_is_reported_in_the_numbers_of_the_cloud() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        ledger.note(NOVA, now, quota(40, 38));
        let short = ledger.reserve("a", cores(3), now).unwrap_err();
        let message = "spec.flavor needs 3 cores, 2 left of 40 (project quota \"cores\")".to_owned();
        assert_eq!(short, Shortage { message, is_passing: false });
        assert_eq!(ledger.reserve("a", cores(2), now), Ok(()));
        // Quotas that cannot be read, and unlimited ones, stop nothing.
        for quotas in [Vec::new(), quota(-1, 1000)] {
            ledger.note(NOVA, now, quotas);
            assert_eq!(ledger.reserve("a", cores(500), now), Ok(()));
        }
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
        assert!(!ledger.is_due(NOVA, None, at(9)) && ledger.is_due(NOVA, None, at(11)));
        // The volumes of the first one are counted by a list of their own.
        ledger.note(QuotaService::Volume, start, Vec::new());
        ledger.note(NOVA, at(11), quota(4, 3));
        assert!(!ledger.reserve("b", cores(3), at(11)).unwrap_err().is_passing);
        assert_eq!(ledger.reserve("b", cores(1), at(11)), Ok(()));
    }

    #[test]
    fn r15_3_a_deletion_has_the_quotas_read_again() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        ledger.note(NOVA, start, quota(4, 0));
        let later = start + Duration::from_secs(1);
        assert!(ledger.is_due(NOVA, Some(later), later) && !ledger.is_due(NOVA, None, later));
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
