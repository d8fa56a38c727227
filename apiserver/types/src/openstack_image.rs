//! Image of `openstack.k-orc.cloud`: a Glance image, which machines refer to by the name of this object.

use serde_json::Value;

use crate::descriptor::{Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::Condition;

const COLUMNS: &[Column] = &[
    column("ID", "string", ".status.id", "Glance id of the image."),
    column(
        "Available",
        "string",
        ".status.conditions[?(@.type=='Available')].status",
        "Machines can use the image.",
    ),
    column(
        "Message",
        "string",
        ".status.conditions[?(@.type=='Progressing')].message",
        "Present activity of the controller.",
    ),
];

fn schema() -> Value {
    object(
        "Glance image, which machines refer to by the name of this object.",
        Some(structural::<ImageSpec>()),
        Some(structural::<ImageStatus>()),
        true,
    )
}

kind! {
    /// Glance image, which machines refer to by the name of this object.
    Image, ImageSpec, ImageStatus, schema, Descriptor {
        group: "openstack.k-orc.cloud", version: "v1alpha1", kind: "Image",
        plural: "images", singular: "image", short_names: &[],
        categories: &["openstack"], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Desired state of an image.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self.managementPolicy == 'managed' ? has(self.resource) : true",
            "message": "resource must be specified when policy is managed"},
        {"rule": "self.managementPolicy == 'managed' ? !has(self.__import__) : true",
            "message": "import may not be specified when policy is managed"},
        {"rule": "self.managementPolicy == 'unmanaged' ? !has(self.resource) : true",
            "message": "resource may not be specified when policy is unmanaged"},
        {"rule": "self.managementPolicy == 'unmanaged' ? has(self.__import__) : true",
            "message": "import must be specified when policy is unmanaged"},
        {"rule": "has(self.managedOptions) ? self.managementPolicy == 'managed' : true",
            "message": "managedOptions may only be provided when policy is managed"},
        {"rule": "!has(self.__import__) ? has(self.resource.content) : true",
            "message": "resource content must be specified when not importing"},
    ]))]
    ImageSpec {
        required {
            /// Credentials of the project that has the image.
            cloud_credentials_ref: CloudCredentialsReference,
        }
        optional {
            /// Existing image that an unmanaged object stands for.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            import: ImageImport,
            /// Options of a managed object.
            managed_options: ManagedOptions,
            /// Policy of the object: `managed` if the controller creates the image, `unmanaged` if it only observes
            /// an existing one. Immutable.
            #[schemars(extend("enum" = ["managed", "unmanaged"], "default" = "managed",
                "x-kubernetes-validations" = [
                    {"rule": "self == oldSelf", "message": "managementPolicy is immutable"}]))]
            management_policy: String,
            /// Desired state of the Glance image of a managed object.
            resource: ImageResourceSpec,
        }
    }

    /// Reference to credentials for OpenStack.
    CloudCredentialsReference {
        required {
            /// Entry of the `clouds.yaml`.
            #[schemars(length(min = 1, max = 256))]
            cloud_name: String,
            /// Name of the Secret with the `clouds.yaml`, in the namespace of the object.
            #[schemars(length(min = 1, max = 253))]
            secret_name: String,
        }
    }

    /// Identification of an existing image: by id or by filter.
    ImageImport {
        optional {
            /// Filter that exactly one image matches.
            #[schemars(extend("minProperties" = 1))]
            filter: ImageImportFilter,
            /// Glance id of the image.
            #[schemars(extend("format" = "uuid"), length(max = 36))]
            id: String,
        }
    }

    /// Filter for images.
    ImageImportFilter {
        optional {
            /// Name of the image.
            #[schemars(length(min = 1, max = 255), regex(pattern = r"^[^,]+$"))]
            name: String,
            /// Tags that the image must have.
            #[schemars(length(max = 64), inner(length(min = 1, max = 255)), extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Visibility of the image.
            #[schemars(extend("enum" = ["public", "private", "shared", "community"]))]
            visibility: String,
        }
    }

    /// Options of a managed object.
    ManagedOptions {
        optional {
            /// Treatment of the Glance image when the object is deleted: `delete` or `detach`, which keeps it.
            #[schemars(extend("enum" = ["delete", "detach"], "default" = "delete"))]
            on_delete: String,
        }
    }

    /// Desired state of a Glance image.
    ImageResourceSpec {
        optional {
            /// Content of the image. Immutable.
            #[schemars(extend("x-kubernetes-validations" = [
                {"rule": "self == oldSelf", "message": "content is immutable"}]))]
            content: ImageContent,
            /// Name of the image. Default: the name of the object.
            #[schemars(length(min = 1, max = 255), regex(pattern = r"^[^,]+$"))]
            name: String,
            /// Properties of the image. Immutable.
            #[schemars(extend("x-kubernetes-validations" = [
                {"rule": "self == oldSelf", "message": "properties is immutable"}]))]
            properties: ImageProperties,
            /// Protection of the image. A protected image cannot be deleted.
            protected: bool,
            /// Tags of the image.
            #[schemars(length(max = 64), inner(length(min = 1, max = 255)), extend("x-kubernetes-list-type" = "set"))]
            tags: Vec<String>,
            /// Visibility of the image. Default: that of the cloud.
            #[schemars(extend("enum" = ["public", "private", "shared", "community"]))]
            visibility: String,
        }
    }

    /// Content of an image.
    ImageContent {
        required {
            /// Format of the disk.
            #[schemars(extend("enum" = ["ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "ploop", "iso"]))]
            disk_format: String,
            /// Location of the content.
            download: ImageDownload,
        }
        optional {
            /// Format of the container around the disk.
            #[schemars(extend("enum" = ["ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"],
                "default" = "bare"))]
            container_format: String,
        }
    }

    /// Location of the content of an image.
    ImageDownload {
        required {
            /// URL of the content.
            #[schemars(extend("format" = "uri"), length(max = 2048))]
            url: String,
        }
        optional {
            /// Compression of the content at the URL. Default: none.
            #[schemars(extend("enum" = ["xz", "gz", "bz2"]))]
            decompress: String,
            /// Hash of the content at the URL. Immutable.
            #[schemars(extend("x-kubernetes-validations" = [
                {"rule": "self == oldSelf", "message": "hash is immutable"}]))]
            hash: ImageHash,
        }
    }

    /// Hash of an image.
    ImageHash {
        required {
            /// Algorithm of the hash.
            #[schemars(extend("enum" = ["md5", "sha1", "sha256", "sha512"]))]
            algorithm: String,
            /// Hash in lower-case hex.
            #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[0-9a-f]+$"))]
            value: String,
        }
    }

    /// Properties of an image, which Nova reads.
    ImageProperties {
        optional {
            /// Architecture of the processor.
            #[schemars(extend("enum" = ["aarch64", "alpha", "armv7l", "cris", "i686", "ia64", "lm32", "m68k",
                "microblaze", "microblazeel", "mips", "mipsel", "mips64", "mips64el", "openrisc", "parisc", "parisc64",
                "ppc", "ppc64", "ppcemb", "s390", "s390x", "sh4", "sh4eb", "sparc", "sparc64", "unicore32", "x86_64",
                "xtensa", "xtensaeb"]))]
            architecture: String,
            /// Virtual hardware.
            hardware: ImageHardware,
            /// Type of the hypervisor.
            #[schemars(extend("enum" = ["hyperv", "ironic", "lxc", "qemu", "uml", "vmware", "xen"]))]
            hypervisor_type: String,
            /// Smallest disk of a server. Unit: GiB.
            #[serde(rename = "minDiskGB")]
            #[schemars(range(min = 1))]
            min_disk_gb: i32,
            /// Smallest memory of a server. Unit: MiB.
            #[serde(rename = "minMemoryMB")]
            #[schemars(range(min = 1))]
            min_memory_mb: i32,
            /// Operating system in the image.
            operating_system: ImageOperatingSystem,
        }
    }

    /// Virtual hardware of servers.
    ImageHardware {
        optional {
            /// Bus of CD-ROM drives.
            #[schemars(extend("enum" = ["scsi", "virtio", "uml", "xen", "ide", "usb", "lxc"]))]
            cdrom_bus: String,
            /// Cores per socket.
            #[schemars(range(min = 1))]
            cpu_cores: i32,
            /// Policy for the binding of virtual to physical processors.
            #[schemars(extend("enum" = ["shared", "dedicated"]))]
            cpu_policy: String,
            /// Sockets.
            #[schemars(range(min = 1))]
            cpu_sockets: i32,
            /// Policy for hosts with several threads per core.
            #[schemars(extend("enum" = ["prefer", "isolate", "require"]))]
            cpu_thread_policy: String,
            /// Threads per core.
            #[schemars(range(min = 1))]
            cpu_threads: i32,
            /// Bus of disks.
            #[schemars(extend("enum" = ["scsi", "virtio", "uml", "xen", "ide", "usb", "lxc"]))]
            disk_bus: String,
            /// Presence of QEMU's guest agent in the image.
            qemu_guest_agent: bool,
            /// Model of the random number generator.
            #[schemars(length(max = 255))]
            rng_model: String,
            /// Model of the SCSI controller.
            #[schemars(extend("enum" = ["virtio-scsi"]))]
            scsi_model: String,
            /// Model of network interfaces.
            #[schemars(extend("enum" = ["e1000", "e1000e", "ne2k_pci", "pcnet", "rtl8139", "virtio", "vmxnet3"]))]
            vif_model: String,
        }
    }

    /// Operating system in an image.
    ImageOperatingSystem {
        optional {
            /// Distribution.
            #[schemars(extend("enum" = ["arch", "centos", "debian", "fedora", "freebsd", "gentoo", "mandrake",
                "mandriva", "mes", "msdos", "netbsd", "netware", "openbsd", "opensolaris", "opensuse", "rocky", "rhel",
                "sled", "ubuntu", "windows"]))]
            distro: String,
            /// Version of the distribution.
            #[schemars(length(max = 255))]
            version: String,
        }
    }

    /// Observed state of an image.
    ImageStatus {
        optional {
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Number of attempts to download the content.
            download_attempts: i32,
            /// Glance id of the image.
            #[schemars(length(max = 1024))]
            id: String,
            /// Glance image as it was last read.
            resource: ImageResourceStatus,
        }
    }

    /// Glance image as it was last read.
    ImageResourceStatus {
        optional {
            /// Hash of the content.
            hash: ImageHash,
            /// Name of the image.
            #[schemars(length(max = 1024))]
            name: String,
            /// Protection of the image.
            protected: bool,
            /// Size of the content. Unit: bytes.
            size_b: i64,
            /// State of the image in Glance.
            #[schemars(length(max = 1024))]
            status: String,
            /// Tags of the image.
            #[schemars(length(max = 64), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
            tags: Vec<String>,
            /// Size of the disk. Unit: bytes.
            virtual_size_b: i64,
            /// Visibility of the image.
            #[schemars(length(max = 1024))]
            visibility: String,
        }
    }
}
