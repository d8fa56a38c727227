//! Needs: the amounts of quota that an object is about to take.

use controllers_infrastructure::QuotaService;

/// Cinder's limit of the size of each volume.
pub(super) const PER_VOLUME: &str = "per_volume_gigabytes";

/// Nova's limit of the servers in each group.
pub(super) const PER_GROUP: &str = "server_group_members";

/// Amount of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub service: QuotaService,
    /// Name of the resource in the service.
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
    pub(crate) fn add(&mut self, service: QuotaService, resource: &str, amount: i64, field: &'static str) {
        if amount <= 0 {
            return;
        }
        let known = self.0.iter_mut().find(|need| need.service == service && need.resource == resource);
        match known {
            Some(need) if need.is_of_each() => need.amount = need.amount.max(amount),
            Some(need) => need.amount = need.amount.saturating_add(amount),
            None => self.0.push(Need { service, resource: resource.to_owned(), amount, field }),
        }
    }

    /// Returns the needs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Need> {
        self.0.iter()
    }

    /// Returns the services whose quotas matter, each once.
    pub(super) fn services(&self) -> Vec<QuotaService> {
        let mut services: Vec<QuotaService> = self.0.iter().map(|need| need.service).collect();
        services.sort_unstable();
        services.dedup();
        services
    }

    /// Returns the need of one resource.
    pub(crate) fn of(&self, service: QuotaService, resource: &str) -> i64 {
        let need = self.0.iter().find(|need| need.service == service && need.resource == resource);
        need.map_or(0, |need| need.amount)
    }
}
