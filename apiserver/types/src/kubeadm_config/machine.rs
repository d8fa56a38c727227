//! Machine setup before kubeadm: files, users, disks and time servers.

use crate::object::wire;
use crate::shared::words;

wire! {
    /// File that is written to the machine before kubeadm runs.
    BootstrapFile {
        required {
            /// Absolute path of the file on the machine.
            #[schemars(length(min = 1, max = 512))]
            path: String,
        }
        optional {
            /// Write mode. If true, the content is appended to an existing file. Default: false, which
            /// overwrites the file.
            append: bool,
            /// Inline content. Mutually exclusive with `contentFrom`.
            #[schemars(length(min = 1, max = 10240))]
            content: String,
            /// Format of the content: plain text or a Go template.
            content_format: FileContentFormat,
            /// Source of the content. Mutually exclusive with `content`.
            content_from: SecretSource,
            /// Encoding of the content: `base64`, `gzip` or `gzip+base64`. If unset, the content is plain
            /// text.
            encoding: FileEncoding,
            /// Owner of the file, in the form `user:group`. Default: `root:root`.
            #[schemars(length(min = 1, max = 256))]
            owner: String,
            /// Permissions of the file in octal notation, e.g. `0640`.
            #[schemars(length(min = 1, max = 16))]
            permissions: String,
        }
    }

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
            #[schemars(length(max = 100), inner(length(min = 1, max = 2048)), extend("x-kubernetes-list-type" = "atomic"))]
            ssh_authorized_keys: Vec<String>,
            /// Rule of the user in the sudoers file, e.g. `ALL=(ALL) NOPASSWD:ALL`.
            #[schemars(length(min = 1, max = 256))]
            sudo: String,
        }
    }

    /// Secret as a source of content.
    SecretSource {
        required {
            /// Key of a Secret in the same namespace.
            secret: SecretKeySource,
        }
    }

    /// Key of a Secret in the same namespace.
    SecretKeySource {
        required {
            /// Key in the Secret.
            #[schemars(length(min = 1, max = 256))]
            key: String,
            /// Name of the Secret.
            #[schemars(length(min = 1, max = 253))]
            name: String,
        }
    }

    /// Partition tables and filesystems that are created before kubeadm runs.
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

    /// Partition table of one disk.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "[has(self.layout),has(self.diskLayout)].filter(x,x==true).size() == 1",
        "message": "exactly one of the fields in [layout diskLayout] must be set",
    }]))]
    Partition {
        required {
            /// Block device, e.g. `/dev/vdb`.
            #[schemars(length(min = 1, max = 256))]
            device: String,
        }
        optional {
            /// Partitions of the disk, in order. Mutually exclusive with `layout`.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            disk_layout: Vec<PartitionSpec>,
            /// Single-partition layout. If true, one partition covers the whole disk. Mutually exclusive with
            /// `diskLayout`.
            layout: bool,
            /// Handling of an existing partition table. If true, it is overwritten and its data is lost.
            /// Default: false.
            overwrite: bool,
            /// Type of the partition table: `mbr` or `gpt`. Default: `mbr`.
            table_type: PartitionTableType,
        }
    }

    /// One partition of a disk.
    PartitionSpec {
        required {
            /// Size of the partition, as a percentage of the disk. Range: 1 to 100.
            #[schemars(range(min = 1, max = 100))]
            percentage: i32,
        }
        optional {
            /// Type of the partition: a name such as Linux or LVM, or a GPT partition GUID.
            #[schemars(length(min = 1, max = 36), extend("x-kubernetes-validations" = [{"message": "partitionType must be one of Linux, LinuxSwap, LinuxRAID, LVM, Fat32, NTFS, LinuxExtended or a full GPT partition GUID", "rule": "self.matches('^(Linux|LinuxSwap|LinuxRAID|LVM|Fat32|NTFS|LinuxExtended|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$')"}]))]
            partition_type: String,
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
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
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
            #[schemars(extend("minProperties" = 1))]
            container_linux_config: ContainerLinuxConfig,
        }
    }

    /// Additional Container Linux Config that is merged into the generated Ignition data.
    ContainerLinuxConfig {
        optional {
            /// Container Linux Config in YAML that is merged into the generated Ignition data.
            #[schemars(length(min = 1, max = 32768))]
            additional_config: String,
            /// Strictness of parsing. If true, warnings count as errors. Default: false.
            strict: bool,
        }
    }

    /// Time synchronisation settings.
    Ntp {
        optional {
            /// Switch of the NTP client. If true, it is set up.
            enabled: bool,
            /// Host names or addresses of the NTP servers.
            #[schemars(length(max = 100), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            servers: Vec<String>,
        }
    }
}

words! {
    /// Format of a file's content.
    FileContentFormat {
        /// Plain text, which is written unchanged.
        #[default]
        Raw,
        /// Go template, which is rendered before the file is written.
        Template,
    }

    /// Encoding of a file's content.
    FileEncoding {
        /// Content in base64.
        #[serde(rename = "base64")]
        #[default]
        Base64,
        /// Content compressed by gzip.
        #[serde(rename = "gzip")]
        Gzip,
        /// Content compressed by gzip, then encoded in base64.
        #[serde(rename = "gzip+base64")]
        GzipBase64,
    }

    /// Type of partition table.
    PartitionTableType {
        /// Master boot record.
        #[serde(rename = "mbr")]
        #[default]
        Mbr,
        /// GUID partition table.
        #[serde(rename = "gpt")]
        Gpt,
    }
}
