//! Nova resources: flavors, server groups, servers and their actions.

use std::collections::BTreeMap;

use super::plain;

plain! {
    /// Nova flavor.
    Flavor {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Cores.
        vcpus: u32,
        /// Memory, MiB.
        ram_mib: u64,
        /// Root disk, GiB; 0 is "as large as the image".
        disk_gib: u64,
        /// Further local disk, GiB.
        ephemeral_gib: u64,
        /// Extra specs; empty if the cloud does not show them.
        extra_specs: BTreeMap<String, String>,
    }

    /// Nova server group.
    ServerGroup {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Policy, e.g. `anti-affinity`.
        policy: String,
        /// Ids of its servers.
        members: Vec<String>,
    }

    /// Nova server.
    Server {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// `ACTIVE`, `BUILD`, `REBOOT`, `REBUILD`, `ERROR`, `SHUTOFF`, `DELETED`, ...
        status: String,
        /// Task in progress, e.g. `rebooting`.
        task_state: Option<String>,
        /// Power state as nova-compute has last seen it: 1 runs, 4 is off, ...; `None` if Nova does not show it.
        power_state: Option<i64>,
        /// Image id; `None` when booted from a volume.
        image_id: Option<String>,
        /// Metadata.
        metadata: BTreeMap<String, String>,
        /// Tags.
        tags: Vec<String>,
        /// Addresses.
        addresses: Vec<ServerAddress>,
        /// Availability zone that Nova selected.
        availability_zone: Option<String>,
        /// Nova's message if the status is `ERROR`.
        fault: Option<String>,
        /// Time of creation.
        created_at: String,
        /// Ids of attached volumes.
        volumes: Vec<String>,
        /// Ids of those that Nova does not delete with the server.
        kept_volumes: Vec<String>,
    }

    /// Address of a server.
    ServerAddress {
        /// Network name.
        network: String,
        /// The address.
        address: String,
        /// Set if it is a floating IP.
        floating: bool,
    }

    /// Server to create.
    NewServer {
        /// Name.
        name: String,
        /// Image id; `None` with a root volume.
        image_id: Option<String>,
        /// Flavor id.
        flavor_id: String,
        /// Port ids, in order.
        ports: Vec<String>,
        /// Key pair name.
        key_name: Option<String>,
        /// Metadata.
        metadata: BTreeMap<String, String>,
        /// Tags (part of the create call).
        tags: Vec<String>,
        /// Config drive.
        config_drive: Option<bool>,
        /// User data, plain (the provider encodes it).
        user_data: Option<Vec<u8>>,
        /// Zone.
        availability_zone: Option<String>,
        /// Server group id.
        server_group_id: Option<String>,
        /// Further scheduler hints; values are JSON.
        scheduler_hints: BTreeMap<String, String>,
        /// Volumes and local disks, in boot order.
        block_devices: Vec<BlockDevice>,
    }

    /// Volume or local disk of a new server.
    BlockDevice {
        /// Existing volume id; `None` is a local (ephemeral) disk.
        volume_id: Option<String>,
        /// 0 boots, -1 does not.
        boot_index: i32,
        /// Size of a local disk, GiB.
        size_gib: Option<i32>,
        /// Device tag shown in the guest's metadata.
        tag: Option<String>,
        /// Set if it is deleted with the server.
        delete_on_termination: bool,
    }

    /// Change by a rebuild.
    Rebuild {
        /// New image id.
        image_id: String,
        /// New user data, plain; `None` keeps the old.
        user_data: Option<Vec<u8>>,
        /// New metadata; `None` keeps the old.
        metadata: Option<BTreeMap<String, String>>,
    }

    /// Entry of Nova's instance-action log.
    ActionRecord {
        /// `create`, `reboot`, `rebuild`, `stop`, ...
        action: String,
        /// Request id of the call that caused it.
        request_id: String,
        /// Time at which it began.
        started_at: String,
        /// `Success`, `Error`, or `None` while it runs.
        result: Option<String>,
        /// Time at which its last event ended.
        finished_at: Option<String>,
        /// Nova's message, if any.
        message: Option<String>,
        /// Its parts, as the services of Nova report them; empty if they were not read.
        events: Vec<ActionEvent>,
    }

    /// Part of an action that one service of Nova makes.
    ActionEvent {
        /// Name of the service and its function, e.g. `compute_stop_instance`.
        name: String,
        /// `Success`, `Error`, or `None` while it runs.
        result: Option<String>,
    }
}

/// Kind of a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootKind {
    /// Requests a shutdown of the guest.
    Soft,
    /// Turns the power off and on.
    Hard,
}

/// Power state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerState {
    /// Stopped: Nova requests a shutdown of the guest, and turns the power off if the guest does not react.
    Off,
    /// Running.
    On,
}
