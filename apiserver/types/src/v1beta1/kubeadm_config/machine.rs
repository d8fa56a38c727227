//! What is done to a machine before kubeadm runs, in v1beta1.

use crate::kubeadm_config::{ContainerLinuxConfig, PartitionSpec, PartitionTableType, SecretSource};
use crate::object::wire;

wire! {
    /// A user of the operating system.
    BootstrapUser {
        required {
            /// Object name.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// GECOS.
            #[schemars(length(min = 1, max = 256))]
            gecos: String,
            /// Groups.
            #[schemars(length(min = 1, max = 256))]
            groups: String,
            /// Home directory.
            #[schemars(length(min = 1, max = 256))]
            home_dir: String,
            /// Inactive account.
            inactive: bool,
            /// Lock the password.
            lock_password: bool,
            /// Password hash.
            #[schemars(length(min = 1, max = 256))]
            passwd: String,
            /// Password hash from a Secret.
            passwd_from: SecretSource,
            /// Primary group.
            #[schemars(length(min = 1, max = 256))]
            primary_group: String,
            /// Shell.
            #[schemars(length(min = 1, max = 256))]
            shell: String,
            /// SSH keys.
            #[schemars(length(max = 100), inner(length(min = 1, max = 2048)))]
            ssh_authorized_keys: Vec<String>,
            /// Sudo rule.
            #[schemars(length(min = 1, max = 256))]
            sudo: String,
        }
    }

    /// Partitions and filesystems that are made.
    DiskSetup {
        optional {
            /// Filesystems to create.
            #[schemars(length(max = 100))]
            filesystems: Vec<Filesystem>,
            /// Partition tables to create.
            #[schemars(length(max = 100))]
            partitions: Vec<Partition>,
        }
    }

    /// A partition table that is made.
    Partition {
        required {
            /// Block device.
            #[schemars(length(min = 1, max = 256))]
            device: String,
            /// Create one partition over the disk.
            layout: bool,
        }
        optional {
            /// Partition list.
            #[schemars(length(min = 1, max = 100))]
            disk_layout: Vec<PartitionSpec>,
            /// Overwrite existing.
            overwrite: bool,
            /// Mbr or gpt.
            table_type: PartitionTableType,
        }
    }

    /// A filesystem that is made.
    Filesystem {
        required {
            /// Block device.
            #[schemars(length(min = 1, max = 256))]
            device: String,
            /// Filesystem type.
            #[schemars(length(min = 1, max = 128))]
            filesystem: String,
        }
        optional {
            /// Mkfs options.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            extra_opts: Vec<String>,
            /// Filesystem label.
            #[schemars(length(min = 1, max = 512))]
            label: String,
            /// Overwrite existing.
            overwrite: bool,
            /// Partition selector.
            #[schemars(length(min = 1, max = 128))]
            partition: String,
            /// Replace this filesystem type.
            #[serde(rename = "replaceFS")]
            #[schemars(length(min = 1, max = 128))]
            replace_fs: String,
        }
    }

    /// Settings for machines that read Ignition.
    IgnitionSpec {
        optional {
            /// Container Linux Config extras.
            container_linux_config: ContainerLinuxConfig,
        }
    }

    /// Time servers.
    Ntp {
        optional {
            /// On or off.
            enabled: bool,
            /// Servers.
            #[schemars(length(max = 100), inner(length(min = 1, max = 512)))]
            servers: Vec<String>,
        }
    }
}
