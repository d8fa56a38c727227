//! Data model of Nova.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object::new_id;

/// A flavor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Flavor {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) vcpus: i64,
    pub(crate) ram: i64,
    pub(crate) disk: i64,
}

/// A key pair, which belongs to a user, not to a project.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeyPair {
    pub(crate) id: u64,
    pub(crate) user_id: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) public_key: String,
    pub(crate) fingerprint: String,
    pub(crate) created: Timestamp,
}

/// A server group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServerGroup {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) policy: String,
    pub(crate) project_id: String,
    pub(crate) user_id: String,
}

/// State of a server without a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum VmState {
    Building,
    Active,
    Stopped,
    Error,
    SoftDeleted,
    Deleted,
}

impl VmState {
    /// Returns the value in `OS-EXT-STS:vm_state` and in errors.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Active => "active",
            Self::Stopped => "stopped",
            Self::Error => "error",
            Self::SoftDeleted => "soft-delete",
            Self::Deleted => "deleted",
        }
    }
}

/// Task of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ServerTask {
    Build,
    Reboot,
    HardReboot,
    Rebuild,
    PowerOff,
    PowerOn,
    Delete,
}

impl ServerTask {
    /// Returns the event that the compute service records in the action.
    pub(crate) fn event(self) -> &'static str {
        match self {
            Self::Build => "compute__do_build_and_run_instance",
            Self::Reboot | Self::HardReboot => "compute_reboot_instance",
            Self::Rebuild => "compute_rebuild_instance",
            Self::PowerOff => "compute_stop_instance",
            Self::PowerOn => "compute_start_instance",
            Self::Delete => "compute_terminate_instance",
        }
    }

    /// Returns the action of the API that starts the task.
    pub(crate) fn action(self) -> &'static str {
        match self {
            Self::Build => "create",
            Self::Reboot | Self::HardReboot => "reboot",
            Self::Rebuild => "rebuild",
            Self::PowerOff => "stop",
            Self::PowerOn => "start",
            Self::Delete => "delete",
        }
    }
}

/// A task in progress, and the time at which it ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) task: ServerTask,
    pub(crate) began: Timestamp,
    pub(crate) until: Timestamp,
    /// Reason for which it will fail, if it will.
    pub(crate) failure: Option<String>,
}

/// One entry of a server's instance actions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct InstanceAction {
    pub(crate) name: String,
    pub(crate) event: String,
    pub(crate) request_id: String,
    pub(crate) user_id: String,
    pub(crate) project_id: String,
    pub(crate) started: Timestamp,
    pub(crate) finished: Option<Timestamp>,
    pub(crate) failed: bool,
}

/// Error details of a server in ERROR.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServerFault {
    pub(crate) message: String,
    pub(crate) created: Timestamp,
}

/// A volume of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Attachment {
    pub(crate) volume_id: String,
    pub(crate) attachment_id: String,
    pub(crate) mapping_id: String,
    pub(crate) device: String,
    pub(crate) delete_on_termination: bool,
    /// The volume is being detached.
    #[serde(default)]
    pub(crate) detachment: Option<Detachment>,
}

/// Detachment of a volume in progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Detachment {
    pub(crate) until: Timestamp,
    /// Request id of its action.
    pub(crate) request_id: String,
}

impl Attachment {
    /// Returns the attachment of a volume that a CSI driver has attached.
    pub(crate) fn of_driver(volume: &str) -> Self {
        Self {
            volume_id: volume.to_owned(),
            attachment_id: new_id(),
            mapping_id: new_id(),
            device: "/dev/vdz".to_owned(),
            delete_on_termination: false,
            detachment: None,
        }
    }
}

/// A server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The name at creation, which a rename does not change.
    pub(crate) hostname: String,
    pub(crate) description: Option<String>,
    pub(crate) project_id: String,
    pub(crate) user_id: String,
    /// `None` if booted from a volume.
    pub(crate) image: Option<String>,
    pub(crate) flavor: Flavor,
    pub(crate) key_name: Option<String>,
    pub(crate) zone: String,
    pub(crate) host: Option<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) tags: Vec<String>,
    pub(crate) user_data: Option<String>,
    pub(crate) config_drive: bool,
    pub(crate) security_groups: Vec<String>,
    pub(crate) group: Option<String>,
    pub(crate) attachments: Vec<Attachment>,
    /// Ports that Nova created itself, and will delete again.
    pub(crate) own_ports: BTreeSet<String>,
    pub(crate) vm_state: VmState,
    pub(crate) pending: Option<Pending>,
    pub(crate) fault: Option<ServerFault>,
    pub(crate) actions: Vec<InstanceAction>,
    pub(crate) created: Timestamp,
    pub(crate) updated: Timestamp,
    pub(crate) launched: Option<Timestamp>,
    pub(crate) terminated: Option<Timestamp>,
    pub(crate) sequence: u64,
    /// Users other than admins cannot change the server.
    #[serde(default)]
    pub(crate) locked: bool,
    /// Nova cannot reach the cell with the server.
    #[serde(default)]
    pub(crate) unreachable: bool,
    /// Lines that the guest has written to its console; empty unless a program plays the guest.
    #[serde(default)]
    pub(crate) console: String,
}

/// Bytes of a console log that are kept, like the ring buffer of a hypervisor.
const CONSOLE_BYTES: usize = 256 << 10;

impl Server {
    /// Appends to the console log. The oldest lines are dropped.
    pub(crate) fn append_console(&mut self, text: &str) {
        self.console.push_str(text);
        let excess = self.console.len().saturating_sub(CONSOLE_BYTES);
        if excess > 0 {
            let start = self.console.bytes().skip(excess).position(|byte| byte == b'\n');
            let start = start.map_or(self.console.len(), |position| excess + position + 1);
            self.console.drain(..start);
        }
    }

    /// Returns how often one of the tasks has succeeded.
    pub(crate) fn completed(&self, tasks: &[ServerTask]) -> usize {
        let counts = |action: &&InstanceAction| {
            action.finished.is_some()
                && !action.failed
                && tasks.iter().any(|task| task.action() == action.name)
        };
        self.actions.iter().filter(counts).count()
    }

    /// Returns the task in progress.
    pub(crate) fn task(&self) -> Option<ServerTask> {
        self.pending.as_ref().map(|pending| pending.task)
    }

    /// Returns the status that users see.
    pub(crate) fn status(&self) -> &'static str {
        match (self.vm_state, self.task()) {
            (VmState::Deleted, _) => "DELETED",
            (VmState::SoftDeleted, _) => "SOFT_DELETED",
            (VmState::Building, _) => "BUILD",
            (VmState::Active, Some(ServerTask::Reboot)) => "REBOOT",
            (VmState::Active | VmState::Stopped | VmState::Error, Some(ServerTask::HardReboot)) => {
                "HARD_REBOOT"
            }
            (VmState::Active | VmState::Stopped | VmState::Error, Some(ServerTask::Rebuild)) => "REBUILD",
            (VmState::Active, _) => "ACTIVE",
            (VmState::Stopped, _) => "SHUTOFF",
            (VmState::Error, _) => "ERROR",
        }
    }

    /// Returns `OS-EXT-STS:task_state`. A long task has several.
    pub(crate) fn task_state(&self, now: Timestamp) -> Option<&'static str> {
        let pending = self.pending.as_ref()?;
        let total = pending.until.duration_since(pending.began);
        let passed = now.duration_since(pending.began);
        let third = if passed * 3 < total {
            0
        } else if passed * 3 < total * 2 {
            1
        } else {
            2
        };
        Some(match (pending.task, third) {
            (ServerTask::Build, 0) => "scheduling",
            (ServerTask::Build, 1) => "networking",
            (ServerTask::Build, _) => "spawning",
            (ServerTask::Reboot, 0) => "rebooting",
            (ServerTask::Reboot, _) => "reboot_started",
            (ServerTask::HardReboot, 0) => "rebooting_hard",
            (ServerTask::HardReboot, _) => "reboot_started_hard",
            (ServerTask::Rebuild, 0 | 1) => "rebuilding",
            (ServerTask::Rebuild, _) => "rebuild_spawning",
            (ServerTask::PowerOff, _) => "powering-off",
            (ServerTask::PowerOn, _) => "powering-on",
            (ServerTask::Delete, _) => "deleting",
        })
    }

    /// Returns `OS-EXT-STS:power_state`: 1 is running, 4 is shut down, 0 is unknown.
    pub(crate) fn power_state(&self) -> u8 {
        match self.vm_state {
            VmState::Active => 1,
            VmState::Stopped => 4,
            VmState::Error if self.launched.is_some() => 1,
            VmState::Building | VmState::Error | VmState::SoftDeleted | VmState::Deleted => 0,
        }
    }

    /// Returns true if users can still see the server.
    pub(crate) fn exists(&self) -> bool {
        self.vm_state != VmState::Deleted
    }
}
