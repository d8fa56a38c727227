//! Files of an installation on one node.

use std::path::{Path, PathBuf};

/// Files below a root folder.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Record of the installation, in the data directory.
    pub(crate) const RECORD: &'static str = "installation.yaml";

    /// Returns the layout below a folder.
    ///
    /// # Errors
    /// A relative path whose folder does not exist.
    pub(crate) fn new(root: &Path) -> std::io::Result<Self> {
        // The files name each other, so that their paths must be absolute.
        Ok(Self { root: std::path::absolute(root)? })
    }

    /// Reports whether this is the root of the machine, whose service manager starts the services.
    pub(crate) fn is_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Data directory of Capstan.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("var/lib/capstan")
    }

    /// Data directory of etcd.
    pub(crate) fn etcd_data(&self) -> PathBuf {
        self.root.join("var/lib/capstan-etcd")
    }

    /// Record of the installation.
    pub(crate) fn record(&self) -> PathBuf {
        self.data().join(Self::RECORD)
    }

    /// Key of this node.
    pub(crate) fn node_key(&self) -> PathBuf {
        self.data().join("node.key")
    }

    /// Directory of the configurations.
    pub(crate) fn config_directory(&self) -> PathBuf {
        self.root.join("etc/capstan")
    }

    /// Capstan's configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.config_directory().join("config.yaml")
    }

    /// Configuration of etcd.
    pub(crate) fn etcd_config(&self) -> PathBuf {
        self.root.join("etc/capstan/etcd.yaml")
    }

    /// Kubeconfig of the first administrator.
    pub(crate) fn admin(&self) -> PathBuf {
        self.root.join("etc/capstan/admin.kubeconfig")
    }

    /// Unit of a service, where an administrator's units are.
    pub(crate) fn unit(&self, service: &str) -> PathBuf {
        self.root.join("etc/systemd/system").join(format!("{service}.service"))
    }

    /// Unit of a service, where the package has it.
    pub(crate) fn packaged_unit(&self, service: &str) -> PathBuf {
        self.root.join("usr/lib/systemd/system").join(format!("{service}.service"))
    }

    /// Directory from which the kubelet starts Pods, as kubeadm sets it.
    pub(crate) fn static_pods(&self) -> PathBuf {
        self.root.join("etc/kubernetes/manifests")
    }

    /// Static Pod of a service.
    pub(crate) fn static_pod(&self, service: &str) -> PathBuf {
        self.static_pods().join(format!("{service}.yaml"))
    }

    /// Static Pod of a service that the administrator starts.
    pub(crate) fn unstarted_static_pod(&self, service: &str) -> PathBuf {
        self.config_directory().join(format!("static-pods/{service}.yaml"))
    }

    /// Definition of the user of the services.
    pub(crate) fn sysusers(&self) -> PathBuf {
        self.root.join("etc/sysusers.d/capstan.conf")
    }
}
