//! Needs: the amounts of quota, and of addresses, that an object is about to take.

use std::time::Instant;

use controllers_infrastructure::{Quota, QuotaService};

/// Cinder's limit of the size of each volume.
pub(super) const PER_VOLUME: &str = "per_volume_gigabytes";

/// Place that limits resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Source {
    /// Quotas of the project in a service.
    Quota(QuotaService),
    /// Addresses of the subnets of this network. Each subnet is a resource.
    Addresses(String),
}

impl From<QuotaService> for Source {
    fn from(service: QuotaService) -> Self {
        Self::Quota(service)
    }
}

/// Thing that has a limit of its own, e.g. a server group, beside the other things of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub name: String,
    /// Amount that it had when it was read.
    pub used: i64,
    /// Time at which it was read.
    pub read: Instant,
}

/// Amount of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub source: Source,
    /// Name of the resource in the service, or id of the subnet.
    pub resource: String,
    /// Thing that has the limit, unless that is the project.
    pub holder: Option<Holder>,
    pub amount: i64,
    /// Field of the spec that causes it.
    pub field: &'static str,
}

impl Need {
    /// Returns true if the limit is one of each thing, so that needs of several objects do not add up.
    pub(super) fn is_of_each(&self) -> bool {
        self.resource == PER_VOLUME
    }

    /// Returns why so many objects with this need never fit into a limit, whatever else is in use. A negative limit is none.
    pub(super) fn beyond(&self, count: i64, limit: i64) -> Option<String> {
        let (amount, unit) = (self.amount, &self.resource);
        if self.is_of_each() {
            return (limit >= 0 && amount > limit)
                .then(|| format!("each needs {amount} {unit}, which never fit into {limit}"));
        }
        let all = amount.saturating_mul(count);
        (limit >= 0 && all > limit)
            .then(|| format!("{count} of this size need {all} {unit}, which never fit into {limit}"))
    }

    /// Returns true if one limit applies to both needs.
    fn shares_limit(&self, other: &Self) -> bool {
        let holder = |need: &Self| need.holder.as_ref().map(|holder| holder.name.clone());
        self.source == other.source && self.resource == other.resource && holder(self) == holder(other)
    }
}

/// Needs of an object, each resource once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Needs(Vec<Need>);

impl Needs {
    /// Adds an amount of a resource. Amounts of one resource add up, except those with a limit of each thing.
    pub(crate) fn add(
        &mut self,
        source: impl Into<Source>,
        resource: &str,
        amount: i64,
        field: &'static str,
    ) {
        let (source, resource) = (source.into(), resource.to_owned());
        self.insert(Need { source, resource, holder: None, amount, field });
    }

    /// Adds an amount of a resource of which a thing may have so much.
    pub(crate) fn add_of(
        &mut self,
        holder: Holder,
        source: impl Into<Source>,
        resource: &str,
        amount: i64,
        field: &'static str,
    ) {
        let (source, resource) = (source.into(), resource.to_owned());
        self.insert(Need { source, resource, holder: Some(holder), amount, field });
    }

    fn insert(&mut self, new: Need) {
        if new.amount <= 0 {
            return;
        }
        match self.0.iter_mut().find(|need| need.shares_limit(&new)) {
            Some(need) if need.is_of_each() => need.amount = need.amount.max(new.amount),
            Some(need) => need.amount = need.amount.saturating_add(new.amount),
            None => self.0.push(new),
        }
    }

    /// Returns the amount that has the same limit as a need of another object.
    pub(super) fn beside(&self, other: &Need) -> i64 {
        self.0.iter().find(|need| need.shares_limit(other)).map_or(0, |need| need.amount)
    }

    /// Returns why so many objects with these needs never fit into the quotas of their service, whatever else is in use;
    /// `None` if they do, or if the service shows no limit.
    pub(crate) fn beyond(&self, count: i64, quotas: &[Quota]) -> Option<String> {
        self.0.iter().find_map(|need| {
            let quota = quotas.iter().find(|it| it.resource == need.resource)?;
            need.beyond(count, quota.limit)
        })
    }

    /// Returns the needs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Need> {
        self.0.iter()
    }

    /// Returns the places whose limits matter, each once.
    pub(super) fn sources(&self) -> Vec<Source> {
        let mut sources: Vec<Source> = self.0.iter().map(|need| need.source.clone()).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    /// Returns the services whose quotas matter, each once.
    pub(crate) fn services(&self) -> Vec<QuotaService> {
        let service = |source: Source| match source {
            Source::Quota(service) => Some(service),
            Source::Addresses(_) => None,
        };
        self.sources().into_iter().filter_map(service).collect()
    }

    /// Returns the need of one resource.
    #[cfg(test)]
    pub(crate) fn of(&self, source: impl Into<Source>, resource: &str) -> i64 {
        let source = source.into();
        let need = self.0.iter().find(|need| need.source == source && need.resource == resource);
        need.map_or(0, |need| need.amount)
    }
}
