//! Settings under `cloud`: connections to clouds.

use std::net::SocketAddr;

use anyhow::anyhow;
use controllers_infrastructure_openstack::AllowedEndpoints;
use serde::Deserialize;

/// Settings of the connections to clouds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Cloud {
    /// Hosts that the controllers may connect to with the credentials of users: names, `*.NAME`, addresses and ranges.
    /// Default: all but loopback, link-local and multicast addresses; loopback, too, if the server listens on it only.
    pub(crate) allowed_endpoints: Option<Vec<String>>,
}

impl Cloud {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.listed().map(|_| ())
    }

    /// Returns the allowed endpoints of a server that listens on this address.
    ///
    /// # Errors
    /// An entry that is none. The text names it.
    pub(crate) fn allowed(&self, listen: SocketAddr) -> anyhow::Result<AllowedEndpoints> {
        Ok(match self.listed()? {
            Some(listed) => listed,
            // Its users are on this machine, and can connect to loopback without it.
            None if listen.ip().is_loopback() => AllowedEndpoints::with_loopback(),
            None => AllowedEndpoints::default(),
        })
    }

    fn listed(&self) -> anyhow::Result<Option<AllowedEndpoints>> {
        let list = self.allowed_endpoints.as_deref().map(AllowedEndpoints::of);
        list.transpose().map_err(|error| anyhow!("cloud.allowedEndpoints: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_allowed_only_if_the_server_listens_on_it_or_the_list_has_it() {
        let [local, public] = ["127.0.0.1:7443", "0.0.0.0:7443"].map(|listen| listen.parse().unwrap());
        let default = Cloud::default();
        assert_eq!(default.allowed(local).unwrap(), AllowedEndpoints::with_loopback());
        assert_eq!(default.allowed(public).unwrap(), AllowedEndpoints::default());
        let list = ["127.0.0.0/8".to_owned()];
        let listed = Cloud { allowed_endpoints: Some(list.to_vec()) };
        assert_eq!(listed.allowed(public).unwrap(), AllowedEndpoints::of(&list).unwrap());
    }
}
