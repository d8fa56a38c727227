//! Chains of remediations: how often the replacements of unhealthy Machines were unhealthy, too. Pure.
//!
//! A chain belongs to a set and a failure domain. It is recorded in an annotation of the set before a Machine is deleted,
//! so that it survives the process. A set without a setting has no chains.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apiserver_types::rollout_settings::{
    REMEDIATION_CHAINS, REMEDIATION_MAX_RETRY, REMEDIATION_MIN_HEALTHY_PERIOD, REMEDIATION_RETRY_PERIOD,
    max_retry, period,
};
use apiserver_types::{Machine, MachineDeployment, MachineSet, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// Time after which a failure is not a retry, if there is no setting. The default of a KubeadmControlPlane.
const HEALTHY: SignedDuration = SignedDuration::from_hours(1);

/// Settings of the retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    /// Object with the settings, for people.
    owner: String,
    max_retry: Option<i32>,
    retry_period: SignedDuration,
    healthy: SignedDuration,
}

/// Returns the settings of the MachineDeployment of a set, or of a set without one. `None` if there are none. A value
/// that cannot be used counts as absent.
pub(super) fn policy(set: &MachineSet, deployment: Option<&MachineDeployment>) -> Option<Policy> {
    let (owner, annotations) = match deployment {
        Some(deployment) => {
            (format!("MachineDeployment {}", deployment.name_any()), deployment.annotations())
        }
        None => (format!("MachineSet {}", set.name_any()), set.annotations()),
    };
    let setting = |key: &str| annotations.get(key).map(String::as_str);
    let retry = setting(REMEDIATION_MAX_RETRY).and_then(max_retry);
    let retry_period = setting(REMEDIATION_RETRY_PERIOD).and_then(period);
    if retry.is_none() && retry_period.is_none() {
        return None;
    }
    let healthy = setting(REMEDIATION_MIN_HEALTHY_PERIOD).and_then(period).unwrap_or(HEALTHY);
    Some(Policy { owner, max_retry: retry, retry_period: retry_period.unwrap_or_default(), healthy })
}

/// Chain of one failure domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chain {
    /// Time of the first remediation. A Machine that is not older is a replacement.
    since: Time,
    /// Time of the last remediation.
    last: Time,
    /// Number of replacements that were replaced again.
    retry_count: i32,
    /// Uids of the Machines whose deletion is decided. A replacement can have the name of the one before it.
    machines: BTreeSet<String>,
}

/// Obstacle to a remediation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The Machine is replaced after this time.
    Early(String, Duration),
    /// The limit of retries is reached.
    Exhausted(String),
}

/// Chains of a set, by failure domain, during one decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chains {
    set: String,
    policy: Policy,
    chains: BTreeMap<String, Chain>,
    /// Messages of the failure domains whose limit is reached.
    exhausted: BTreeMap<String, String>,
    now: Timestamp,
}

impl Chains {
    /// Reads the chains of a set. An annotation that cannot be read counts as absent.
    pub(super) fn read(set: &MachineSet, policy: Policy, now: Timestamp) -> Self {
        let recorded = set.annotations().get(REMEDIATION_CHAINS);
        let chains = recorded.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        Self { set: set.name_any(), policy, chains, exhausted: BTreeMap::new(), now }
    }

    /// Adds the uids of Machines whose names are recorded, as earlier releases did. A Machine that is younger than the last
    /// remediation is another one of that name.
    pub(super) fn with_uids_of(mut self, machines: &[Machine]) -> Self {
        for chain in self.chains.values_mut() {
            let is_recorded = |machine: &&Machine| {
                let created = machine.metadata.creation_timestamp.as_ref();
                let is_old = created.is_some_and(|created| created.0 <= time(&chain.last));
                is_old && chain.machines.contains(&machine.name_any())
            };
            let uids: Vec<String> = machines.iter().filter(is_recorded).map(id).collect();
            chain.machines.extend(uids);
        }
        self
    }

    /// Judges the remediation of a Machine.
    ///
    /// # Errors
    /// The obstacle to it.
    pub(super) fn judge(&mut self, machine: &Machine) -> Result<(), Obstacle> {
        let (id, domain) = (id(machine), domain(machine));
        let Some(chain) = self.present(machine).filter(|chain| !chain.machines.contains(&id)) else {
            return Ok(());
        };
        if let Some(message) = self.exhausted.get(domain) {
            return Err(Obstacle::Exhausted(message.clone()));
        }
        if !chain.has_made(machine) {
            return Ok(());
        }
        let policy = &self.policy;
        if let Some(limit) = policy.max_retry.filter(|limit| chain.retry_count >= *limit) {
            let message = self.exhaustion(domain, chain.retry_count, limit);
            self.exhausted.insert(domain.to_owned(), message.clone());
            return Err(Obstacle::Exhausted(message));
        }
        let elapsed = self.now.duration_since(time(&chain.last));
        if elapsed >= policy.retry_period {
            return Ok(());
        }
        let left = policy.retry_period.saturating_sub(elapsed).min(policy.retry_period);
        let message = format!(
            "Waiting because the last remediation in {} was at {}, and its replacement is unhealthy, too. The next one \
             follows {:#} later (annotation {REMEDIATION_RETRY_PERIOD} of {})",
            place(domain),
            chain.last.0,
            policy.retry_period,
            policy.owner
        );
        Err(Obstacle::Early(message, Duration::try_from(left).unwrap_or_default()))
    }

    /// Adds the remediation of a Machine to its chain.
    pub(super) fn add(&mut self, machine: &Machine) {
        let (id, now) = (id(machine), stamp(self.now));
        let chain = match self.present(machine) {
            Some(chain) if chain.machines.contains(&id) => return,
            Some(chain) => {
                let retry = i32::from(chain.has_made(machine));
                Chain { retry_count: chain.retry_count.saturating_add(retry), last: now, ..chain.clone() }
            }
            None => {
                let before = self.chains.get(domain(machine)).map(|chain| chain.machines.clone());
                let machines = before.unwrap_or_default();
                Chain { since: now.clone(), last: now, retry_count: 0, machines }
            }
        };
        let mut chain = chain;
        chain.machines.insert(id);
        self.chains.insert(domain(machine).to_owned(), chain);
    }

    /// Returns the content of the annotation. Machines that are gone, and chains that have ended, are not in it.
    pub(super) fn text(mut self, machines: &[Machine]) -> String {
        let (now, healthy) = (self.now, self.policy.healthy);
        self.chains.retain(|_, chain| now.duration_since(time(&chain.last)) < healthy);
        for chain in self.chains.values_mut() {
            chain.machines.retain(|known| machines.iter().any(|it| id(it) == *known));
        }
        serde_json::to_string(&self.chains).unwrap_or_default()
    }

    /// Returns the chain to which the failure of a Machine belongs: it came soon after the last remediation.
    fn present(&self, machine: &Machine) -> Option<&Chain> {
        let chain = self.chains.get(domain(machine))?;
        let health = machine.condition("HealthCheckSucceeded");
        let failed = health.and_then(|it| it.last_transition_time.0.parse().ok()).unwrap_or(self.now);
        let is_soon = failed.duration_since(time(&chain.last)) < self.policy.healthy;
        (is_soon || chain.machines.contains(&id(machine))).then_some(chain)
    }

    fn exhaustion(&self, domain: &str, count: i32, limit: i32) -> String {
        format!(
            "MachineSet {} has replaced {count} unhealthy replacements in {}, and the next one is unhealthy, too. The \
             annotation {REMEDIATION_MAX_RETRY} of {} is {limit}. Repair the cause, then delete the Machine, or increase \
             the limit",
            self.set,
            place(domain),
            self.policy.owner
        )
    }
}

impl Chain {
    /// Reports whether a Machine came after the first remediation.
    fn has_made(&self, machine: &Machine) -> bool {
        let created = machine.metadata.creation_timestamp.as_ref();
        created.is_some_and(|created| created.0 >= time(&self.since))
    }
}

/// Returns the uid of a Machine.
fn id(machine: &Machine) -> String {
    machine.uid().unwrap_or_default()
}

/// Returns the failure domain of a Machine. Empty: it has none.
fn domain(machine: &Machine) -> &str {
    let observed = || machine.status.as_ref()?.failure_domain.as_deref();
    machine.spec.failure_domain.as_deref().or_else(observed).unwrap_or_default()
}

fn place(domain: &str) -> String {
    if domain.is_empty() { "no failure domain".to_owned() } else { format!("failure domain {domain}") }
}

/// Returns a recorded time. One that cannot be read counts as the oldest.
fn time(text: &Time) -> Timestamp {
    text.0.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns a time in whole seconds, as the creation of objects.
fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now).to_string())
}

#[cfg(test)]
#[path = "chains_tests.rs"]
mod tests;
