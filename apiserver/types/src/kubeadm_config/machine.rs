//! What is done to a machine before kubeadm runs.

use crate::object::wire;
use crate::shared::words;

wire! {
    /// A file that is written before kubeadm runs.
    BootstrapFile {
        required {
            /// Path on disk.
            #[schemars(length(min = 1, max = 512))]
            path: String,
        }
        optional {
            /// Append instead of overwrite.
            append: bool,
            /// Inline content.
            #[schemars(length(min = 1, max = 10240))]
            content: String,
            /// How content is interpreted (plain or Go template).
            content_format: FileContentFormat,
            /// Content from a Secret.
            content_from: SecretSource,
            /// Base64, gzip or gzip+base64.
            encoding: FileEncoding,
            /// Owner:group.
            #[schemars(length(min = 1, max = 256))]
            owner: String,
            /// Octal mode.
            #[schemars(length(min = 1, max = 16))]
            permissions: String,
        }
    }

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
            #[schemars(length(max = 100), inner(length(min = 1, max = 2048)), extend("x-kubernetes-list-type" = "atomic"))]
            ssh_authorized_keys: Vec<String>,
            /// Sudo rule.
            #[schemars(length(min = 1, max = 256))]
            sudo: String,
        }
    }

    /// Where secret content comes from.
    SecretSource {
        required {
            /// Secret key reference.
            secret: SecretKeySource,
        }
    }

    /// A key of a Secret of the same namespace.
    SecretKeySource {
        required {
            /// Key in the Secret.
            #[schemars(length(min = 1, max = 256))]
            key: String,
            /// The Secret.
            #[schemars(length(min = 1, max = 253))]
            name: String,
        }
    }

    /// Partitions and filesystems that are made.
    DiskSetup {
        optional {
            /// Filesystems to create.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            filesystems: Vec<Filesystem>,
            /// Partition tables to create.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            partitions: Vec<Partition>,
        }
    }

    /// A partition table that is made.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "[has(self.layout),has(self.diskLayout)].filter(x,x==true).size() == 1",
        "message": "exactly one of the fields in [layout diskLayout] must be set",
    }]))]
    Partition {
        required {
            /// Block device.
            #[schemars(length(min = 1, max = 256))]
            device: String,
        }
        optional {
            /// Partition list.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            disk_layout: Vec<PartitionSpec>,
            /// Create one partition over the disk.
            layout: bool,
            /// Overwrite existing.
            overwrite: bool,
            /// Mbr or gpt.
            table_type: PartitionTableType,
        }
    }

    /// One partition.
    PartitionSpec {
        required {
            /// Share of the disk.
            #[schemars(range(min = 1, max = 100))]
            percentage: i32,
        }
        optional {
            /// Partition type.
            #[schemars(length(min = 1, max = 36), extend("x-kubernetes-validations" = [{"message": "partitionType must be one of Linux, LinuxSwap, LinuxRAID, LVM, Fat32, NTFS, LinuxExtended or a full GPT partition GUID", "rule": "self.matches('^(Linux|LinuxSwap|LinuxRAID|LVM|Fat32|NTFS|LinuxExtended|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$')"}]))]
            partition_type: String,
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
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
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
            #[schemars(extend("minProperties" = 1))]
            container_linux_config: ContainerLinuxConfig,
        }
    }

    /// What is added to the Ignition data.
    ContainerLinuxConfig {
        optional {
            /// Extra config merged in.
            #[schemars(length(min = 1, max = 32768))]
            additional_config: String,
            /// Fail on warnings.
            strict: bool,
        }
    }

    /// Time servers.
    Ntp {
        optional {
            /// On or off.
            enabled: bool,
            /// Servers.
            #[schemars(length(max = 100), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            servers: Vec<String>,
        }
    }
}

words! {
    /// How the content of a file is meant.
    FileContentFormat {
        /// As it stands.
        #[default]
        Raw,
        /// A template of Go.
        Template,
    }

    /// How the content of a file is encoded.
    FileEncoding {
        /// base64.
        #[serde(rename = "base64")]
        #[default]
        Base64,
        /// gzip.
        #[serde(rename = "gzip")]
        Gzip,
        /// gzip, then base64.
        #[serde(rename = "gzip+base64")]
        GzipBase64,
    }

    /// Kind of partition table.
    PartitionTableType {
        /// MBR.
        #[serde(rename = "mbr")]
        #[default]
        Mbr,
        /// GPT.
        #[serde(rename = "gpt")]
        Gpt,
    }
}
