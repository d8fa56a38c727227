//! Restrictions of the units in `manifests/systemd`. The services of the machines run with them, although no systemd starts
//! them.

use std::path::Path;

use anyhow::anyhow;

use super::node::Node;
use crate::run;
use crate::sandbox::{self, Sandbox};

/// Sandboxes of both services. Without them, the services run with the rights of the caller.
#[derive(Debug, Default)]
pub(super) struct Units {
    pub(super) capstan: Option<Sandbox>,
    pub(super) etcd: Option<Sandbox>,
}

impl Units {
    /// Reads the units, if this machine can evaluate them. In CI, it must. Files are in the folder `home`.
    pub(super) fn new(home: &Path) -> anyhow::Result<Self> {
        if !Sandbox::knows_units() {
            let why = anyhow!("it needs systemd-analyze, setpriv, apt-get and /usr/bin/python3");
            run::skip("the check of the restrictions of the units", why)?;
            return Ok(Self::default());
        }
        let unit = |name: &str| Sandbox::of_unit(name, home).map(Some);
        Ok(Self { capstan: unit("capstan.service")?, etcd: unit("capstan-etcd.service")? })
    }

    /// Reports whether the services run with the restrictions.
    pub(super) const fn are_known(&self) -> bool {
        self.capstan.is_some() && self.etcd.is_some()
    }

    /// Checks that the restrictions are in force, and that the services of all machines have them.
    pub(super) fn verify(&self, nodes: &[Node<'_>]) -> anyhow::Result<()> {
        let (Some(capstan), Some(etcd)) = (&self.capstan, &self.etcd) else { return Ok(()) };
        capstan.refuses()?;
        etcd.refuses()?;
        for node in nodes {
            node.processes().into_iter().try_for_each(sandbox::verify)?;
        }
        Ok(())
    }
}
