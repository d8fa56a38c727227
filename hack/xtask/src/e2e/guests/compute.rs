//! Compute host whose servers are system containers, and the virtual routers of their networks.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::build::Image;
use crate::e2e::openstack::OpenStack;
use crate::run;

/// Running compute host. Dropping it stops its servers, the host and the routers.
pub(super) struct Compute<'a> {
    openstack: &'a OpenStack,
}

impl<'a> Compute<'a> {
    /// Starts the compute host and the routers, and registers the images.
    pub(super) fn start(openstack: &'a OpenStack, image: &Image) -> anyhow::Result<Self> {
        let compute = Self { openstack };
        let root = image.root.display().to_string();
        compute.script("up.sh", &[&[root], image.names().as_slice()].concat())?;
        Ok(compute)
    }

    fn script(&self, name: &str, arguments: &[String]) -> anyhow::Result<()> {
        let log = self.openstack.home().join(format!("guests-{name}.log"));
        let file = std::fs::File::create(&log).with_context(|| format!("{}", log.display()))?;
        let mut command = Command::new("bash");
        command.arg(run::root()?.join("hack/guests").join(name)).args(arguments);
        command.env("OPENSTACK_HOME", self.openstack.home());
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        ensure!(command.status()?.success(), "hack/guests/{name} failed; see {}", log.display());
        Ok(())
    }
}

impl Drop for Compute<'_> {
    fn drop(&mut self) {
        let _ = self.script("down.sh", &[]);
    }
}
