//! Machine setup before kubeadm in v1beta1: files, users, disks and time servers.

use crate::kubeadm_config::{ContainerLinuxConfig, PartitionSpec, PartitionTableType, SecretSource};
use crate::object::wire;

wire! {
    /// User account of the operating system.
    BootstrapUser {
        required {
            /// User name.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// Comment field of the account, e.g. the full name.
            #[schemars(length(min = 1, max = 256))]
            gecos: String,
            /// Additional groups of the user, separated by commas.
            #[schemars(length(min = 1, max = 256))]
            groups: String,
            /// Home directory of the user.
            #[schemars(length(min = 1, max = 256))]
            home_dir: String,
            /// State of the account. If true, it is marked as inactive. Default: false.
            inactive: bool,
            /// Password login. If true, it is disabled.
            lock_password: bool,
            /// Hash of the password. Mutually exclusive with `passwdFrom`.
            #[schemars(length(min = 1, max = 256))]
            passwd: String,
            /// Source of the password hash. Mutually exclusive with `passwd`.
            passwd_from: SecretSource,
            /// Primary group of the user.
            #[schemars(length(min = 1, max = 256))]
            primary_group: String,
            /// Login shell of the user.
            #[schemars(length(min = 1, max = 256))]
            shell: String,
            /// Public SSH keys that are authorized to log in as the user.
            #[schemars(length(max = 100), inner(length(min = 1, max = 2048)))]
            ssh_authorized_keys: Vec<String>,
            /// Rule of the user in the sudoers file, e.g. `ALL=(ALL) NOPASSWD:ALL`.
            #[schemars(length(min = 1, max = 256))]
            sudo: String,
        }
    }

    /// Partition tables and filesystems that are created before kubeadm runs.
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

    /// Partition table of one disk.
    Partition {
        required {
            /// Block device, e.g. `/dev/vdb`.
            #[schemars(length(min = 1, max = 256))]
            device: String,
            /// Single-partition layout. If true, one partition covers the whole disk. Mutually exclusive with
            /// `diskLayout`.
            layout: bool,
        }
        optional {
            /// Partitions of the disk, in order. Mutually exclusive with `layout`.
            #[schemars(length(min = 1, max = 100))]
            disk_layout: Vec<PartitionSpec>,
            /// Handling of an existing partition table. If true, it is overwritten and its data is lost.
            /// Default: false.
            overwrite: bool,
            /// Type of the partition table: `mbr` or `gpt`. Default: `mbr`.
            table_type: PartitionTableType,
        }
    }

    /// Filesystem that is created.
    Filesystem {
        required {
            /// Block device, e.g. `/dev/vdb`.
            #[schemars(length(min = 1, max = 256))]
            device: String,
            /// Type of the filesystem, e.g. `ext4`.
            #[schemars(length(min = 1, max = 128))]
            filesystem: String,
        }
        optional {
            /// Additional options of the mkfs command.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
            extra_opts: Vec<String>,
            /// Label of the filesystem.
            #[schemars(length(min = 1, max = 512))]
            label: String,
            /// Handling of an existing filesystem. If true, it is overwritten and its data is lost. Default:
            /// false.
            overwrite: bool,
            /// Partition of the device: a number, `auto`, `any` or `none`.
            #[schemars(length(min = 1, max = 128))]
            partition: String,
            /// Type of an existing filesystem that is replaced.
            #[serde(rename = "replaceFS")]
            #[schemars(length(min = 1, max = 128))]
            replace_fs: String,
        }
    }

    /// Settings of machines that boot with Ignition.
    IgnitionSpec {
        optional {
            /// Additional Container Linux Config.
            container_linux_config: ContainerLinuxConfig,
        }
    }

    /// Time synchronisation settings.
    Ntp {
        optional {
            /// Switch of the NTP client. If true, it is set up.
            enabled: bool,
            /// Host names or addresses of the NTP servers.
            #[schemars(length(max = 100), inner(length(min = 1, max = 512)))]
            servers: Vec<String>,
        }
    }
}
