//! Spread of the Machines of a MachineDeployment over failure domains: the failure domain of a new Machine, and the
//! Machines that a scale-down takes. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::failure_domain_spread::{
    FailureDomainSpread, SPREAD_FAILURE_DOMAINS, failure_domain_spread,
};
use apiserver_types::{Cluster, DeletionOrder, Machine, MachineDeployment};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::deletion_order;
use super::observe::Observed;
use crate::replica_status::is_deleting;

/// Machines by failure domain. Those without one have the key `""`.
type Counts = BTreeMap<String, usize>;

/// Spread of the Machines of one set. Machines that are being deleted do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spread {
    /// Failure domains of new Machines. Empty: the Cluster has none.
    domains: BTreeSet<String>,
    /// Machines of the set.
    own: Counts,
    /// Machines of all sets of the MachineDeployment.
    all: Counts,
}

impl Spread {
    /// Returns the spread of a set with its own Machines and those of the other sets. Returns `None` if the
    /// MachineDeployment is not spread.
    pub(crate) fn of<'a>(
        deployment: &MachineDeployment,
        cluster: Option<&Cluster>,
        own: impl IntoIterator<Item = &'a Machine>,
        others: impl IntoIterator<Item = &'a Machine>,
    ) -> Option<Self> {
        let domains = match setting(deployment)? {
            FailureDomainSpread::Listed(names) => names,
            FailureDomainSpread::All => of_cluster(cluster),
        };
        let mut spread = Self { domains, ..Self::default() };
        for machine in own {
            spread.add(machine, true);
        }
        for machine in others {
            spread.add(machine, false);
        }
        Some(spread)
    }

    /// Returns the failure domain of the next new Machine, and counts that Machine. It is the one with the fewest Machines
    /// of the MachineDeployment, then with the fewest of the set, so that a rollout ends in balance, then by name.
    /// Returns `None` if the Cluster has no failure domains.
    pub(crate) fn take(&mut self) -> Option<String> {
        let key = |domain: &&String| (number(&self.all, domain), number(&self.own, domain));
        let domain = self.domains.iter().min_by_key(key)?.clone();
        for counts in [&mut self.own, &mut self.all] {
            *counts.entry(domain.clone()).or_default() += 1;
        }
        Some(domain)
    }

    fn add(&mut self, machine: &Machine, is_own: bool) {
        if is_deleting(machine) {
            return;
        }
        let domain = domain(machine);
        *self.all.entry(domain.to_owned()).or_default() += 1;
        if is_own {
            *self.own.entry(domain.to_owned()).or_default() += 1;
        }
    }
}

/// Returns the spread of an observed set.
pub(super) fn of_set(observed: &Observed) -> Option<Spread> {
    let deployment = observed.deployment.as_ref()?;
    Spread::of(deployment, observed.cluster.as_ref(), &observed.machines, &observed.siblings)
}

/// Returns true if each new Machine of a MachineDeployment gets a failure domain of its own.
pub(crate) fn is_spread(deployment: &MachineDeployment) -> bool {
    setting(deployment).is_some()
}

/// Returns why the failure domain of a new Machine cannot be determined yet, for people.
pub(super) fn obstacle(observed: &Observed) -> Option<String> {
    let (deployment, cluster) = (observed.deployment.as_ref()?, observed.cluster.as_ref()?);
    let initialization = cluster.status.as_ref().and_then(|it| it.initialization.as_ref());
    let is_known = initialization.and_then(|it| it.infrastructure_provisioned) == Some(true);
    let waits = setting(deployment)? == FailureDomainSpread::All && !is_known;
    waits.then(|| {
        format!(
            "The failure domains of Cluster {} are not known until its infrastructure is provisioned (annotation \
             {SPREAD_FAILURE_DOMAINS} of MachineDeployment {})",
            cluster.name_any(),
            deployment.name_any()
        )
    })
}

/// Returns the first `count` Machines that a scale-down deletes. A spread takes from the fullest failure domain among the
/// Machines of the same state, and within that failure domain in the given order.
pub(crate) fn surplus<'a>(
    machines: impl IntoIterator<Item = &'a Machine>,
    (order, now): (DeletionOrder, Timestamp),
    count: usize,
    spread: Option<&Spread>,
) -> Vec<&'a Machine> {
    let mut left = deletion_order::in_order(machines, order, now);
    let Some(spread) = spread else {
        left.truncate(count);
        return left;
    };
    let (mut all, mut gone) = (spread.all.clone(), Vec::new());
    while gone.len() < count {
        // Of equal ones the first. One outside of the listed failure domains goes before one within.
        let key = |(_, machine): &(usize, &&Machine)| {
            let domain = domain(machine);
            let is_listed = spread.domains.contains(domain);
            (deletion_order::state(machine), Reverse(number(&all, domain)), is_listed)
        };
        let Some((at, _)) = left.iter().enumerate().min_by_key(key) else { break };
        let machine = left.remove(at);
        if let Some(number) = all.get_mut(domain(machine)).filter(|_| !is_deleting(machine)) {
            *number = number.saturating_sub(1);
        }
        gone.push(machine);
    }
    gone
}

/// Returns the setting of a MachineDeployment. One that cannot be used counts as absent, and the failure domain of the
/// template wins.
fn setting(deployment: &MachineDeployment) -> Option<FailureDomainSpread> {
    let is_free = deployment.spec.template.spec.failure_domain.as_ref().is_none_or(String::is_empty);
    failure_domain_spread(deployment.annotations().get(SPREAD_FAILURE_DOMAINS)?).filter(|_| is_free)
}

fn of_cluster(cluster: Option<&Cluster>) -> BTreeSet<String> {
    let status = cluster.and_then(|cluster| cluster.status.as_ref());
    let domains = status.into_iter().flat_map(|status| status.failure_domains.iter().flatten());
    domains.map(|domain| domain.name.clone()).collect()
}

/// Returns the failure domain of a Machine: the requested one, else the one in which its server runs.
fn domain(machine: &Machine) -> &str {
    let actual = || machine.status.as_ref().and_then(|status| status.failure_domain.as_deref());
    machine.spec.failure_domain.as_deref().or_else(actual).unwrap_or_default()
}

fn number(counts: &Counts, domain: &str) -> usize {
    counts.get(domain).copied().unwrap_or_default()
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
