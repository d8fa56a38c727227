//! Needs: the amounts of quota, and of addresses, that an object is about to take.

use controllers_infrastructure::QuotaService;

/// Cinder's limit of the size of each volume.
pub(super) const PER_VOLUME: &str = "per_volume_gigabytes";

/// Nova's limit of the servers in each group.
pub(super) const PER_GROUP: &str = "server_group_members";

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

/// Amount of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub source: Source,
    /// Name of the resource in the service, or id of the subnet.
    pub resource: String,
    pub amount: i64,
    /// Field of the spec that causes it.
    pub field: &'static str,
}

impl Need {
    /// Returns true if the limit is one of each thing, so that needs of several objects do not add up.
    pub(super) fn is_of_each(&self) -> bool {
        [PER_VOLUME, PER_GROUP].contains(&self.resource.as_str())
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
        if amount <= 0 {
            return;
        }
        let source = source.into();
        let known = self.0.iter_mut().find(|need| need.source == source && need.resource == resource);
        match known {
            Some(need) if need.is_of_each() => need.amount = need.amount.max(amount),
            Some(need) => need.amount = need.amount.saturating_add(amount),
            None => self.0.push(Need { source, resource: resource.to_owned(), amount, field }),
        }
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

    /// Returns the need of one resource.
    pub(crate) fn of(&self, source: impl Into<Source>, resource: &str) -> i64 {
        let source = source.into();
        let need = self.0.iter().find(|need| need.source == source && need.resource == resource);
        need.map_or(0, |need| need.amount)
    }
}
