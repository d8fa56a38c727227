//! Fake Nova: the state of the fake cloud, and its changes over time.

use std::collections::BTreeMap;

use controllers_infrastructure::{
    ActionRecord, CloudError, CloudResult, ErrorClass, Image, NewServer, NewVolume, PowerState, RebootKind,
    Rebuild, Server, Volume,
};

/// Duration of every action. Unit: seconds.
const TAKES: i64 = 20;

/// Call that takes effect later.
pub(crate) type Delayed = Box<dyn FnOnce(&mut Nova) + Send>;

/// Server, with the rest of Nova's record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Instance {
    pub(crate) server: Server,
    pub(crate) made_from: NewServer,
    pub(crate) user_data: Vec<u8>,
    /// Entries, newest first, each with its end.
    pub(crate) log: Vec<(ActionRecord, i64)>,
    built_at: i64,
    gone_at: Option<i64>,
}

/// Servers, volumes and images.
#[derive(Default)]
pub(crate) struct Nova {
    pub(crate) now: i64,
    pub(crate) instances: BTreeMap<String, Instance>,
    pub(crate) volumes: BTreeMap<String, (Volume, i64)>,
    pub(crate) images: Vec<Image>,
    pub(crate) late: Vec<(i64, Delayed)>,
    /// A soft reboot never ends.
    pub(crate) soft_hangs: bool,
    /// Rebuilds end in an error.
    pub(crate) rebuilds_fail: bool,
    /// Number of builds that end in an error.
    pub(crate) builds_fail: usize,
    /// Errors that calls of a name get instead of an effect.
    pub(crate) injected_errors: Vec<(&'static str, CloudError)>,
    made: usize,
}

pub(crate) fn error(class: ErrorClass, operation: &str) -> CloudError {
    CloudError::new(class, operation, "the fake says no")
}

impl Nova {
    pub(crate) fn id(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}-{}", self.made)
    }

    /// Takes the next error of calls of this name.
    pub(crate) fn take_error(&mut self, call: &str) -> CloudResult<()> {
        match self.injected_errors.iter().position(|(name, _)| *name == call) {
            Some(position) => Err(self.injected_errors.remove(position).1),
            None => Ok(()),
        }
    }

    /// Advances everything to this time.
    pub(crate) fn advance(&mut self, now: i64) {
        self.now = now;
        let (due, later) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = later;
        let due: Vec<(i64, Delayed)> = due;
        for (_, call) in due {
            call(self);
        }
        let gone: Vec<String> = self
            .instances
            .iter()
            .filter(|(_, instance)| instance.gone_at.is_some_and(|at| at <= now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.remove(&id);
        }
        let rebuilds_fail = self.rebuilds_fail;
        for instance in self.instances.values_mut() {
            instance.advance(now, rebuilds_fail, &mut self.builds_fail);
        }
        for (volume, ready_at) in self.volumes.values_mut() {
            if volume.status == "creating" && *ready_at <= now {
                volume.status = "available".to_owned();
            }
        }
    }

    fn remove(&mut self, id: &str) {
        let Some(instance) = self.instances.remove(id) else { return };
        for volume in instance.server.volumes {
            self.volumes.remove(&volume);
        }
    }

    pub(crate) fn instance(&mut self, id: &str) -> CloudResult<&mut Instance> {
        self.instances.get_mut(id).ok_or_else(|| error(ErrorClass::NotFound, "find server"))
    }

    pub(crate) fn reboot(&mut self, id: &str, kind: RebootKind) -> CloudResult<Option<String>> {
        self.take_error("reboot")?;
        let request = self.id("req");
        let (now, hangs) = (self.now, self.soft_hangs);
        let instance = self.instance(id)?;
        let busy = instance.server.task_state.is_some();
        if busy && kind == RebootKind::Soft {
            return Err(error(ErrorClass::Conflict, "reboot server"));
        }
        let ends = if kind == RebootKind::Soft && hangs { i64::MAX } else { now + TAKES };
        instance.begin("reboot", &request, ends);
        instance.server.task_state = Some("rebooting".to_owned());
        Ok(Some(request))
    }

    pub(crate) fn set_power_state(&mut self, id: &str, state: PowerState) -> CloudResult<Option<String>> {
        self.take_error("set_power_state")?;
        let request = self.id("req");
        let ends = self.now + TAKES;
        let (action, task, from) = match state {
            PowerState::Off => ("stop", "powering-off", "ACTIVE"),
            PowerState::On => ("start", "powering-on", "SHUTOFF"),
        };
        let instance = self.instance(id)?;
        if instance.server.task_state.is_some() || instance.server.status != from {
            return Err(error(ErrorClass::Conflict, "set the server's power state"));
        }
        instance.begin(action, &request, ends);
        instance.server.task_state = Some(task.to_owned());
        Ok(Some(request))
    }

    pub(crate) fn rebuild(&mut self, id: &str, rebuild: &Rebuild) -> CloudResult<Option<String>> {
        self.take_error("rebuild")?;
        let request = self.id("req");
        let ends = self.now + TAKES;
        let instance = self.instance(id)?;
        if instance.server.task_state.is_some() {
            return Err(error(ErrorClass::Conflict, "rebuild server"));
        }
        instance.begin("rebuild", &request, ends);
        instance.server.task_state = Some("rebuilding".to_owned());
        instance.server.image_id = Some(rebuild.image_id.clone());
        instance.user_data = rebuild.user_data.clone().unwrap_or_default();
        Ok(Some(request))
    }

    pub(crate) fn create(&mut self, new: &NewServer) -> CloudResult<String> {
        self.take_error("create_server")?;
        let taken = |port: &String| self.instances.values().any(|other| other.made_from.ports.contains(port));
        if new.ports.iter().any(taken) {
            return Err(error(ErrorClass::Conflict, "create server: port in use"));
        }
        let id = self.id("server");
        let volumes: Vec<String> =
            new.block_devices.iter().filter_map(|device| device.volume_id.clone()).collect();
        for volume in &volumes {
            let (volume, _) =
                self.volumes.get_mut(volume).ok_or_else(|| error(ErrorClass::Invalid, "no such volume"))?;
            volume.status = "in-use".to_owned();
        }
        let server = Server {
            id: id.clone(),
            name: new.name.clone(),
            status: "BUILD".to_owned(),
            task_state: Some("spawning".to_owned()),
            image_id: new.image_id.clone(),
            metadata: new.metadata.clone(),
            tags: new.tags.clone(),
            created_at: format!("{:012}", self.now),
            volumes,
            ..Server::default()
        };
        let mut instance = Instance {
            server,
            made_from: new.clone(),
            user_data: new.user_data.clone().unwrap_or_default(),
            built_at: self.now + TAKES,
            ..Instance::default()
        };
        let request = self.id("req");
        instance.begin("create", &request, self.now);
        self.instances.insert(id.clone(), instance);
        Ok(id)
    }

    pub(crate) fn delete(&mut self, id: &str) -> CloudResult<()> {
        self.take_error("delete_server")?;
        let gone_at = self.now + TAKES;
        let instance = self.instance(id)?;
        instance.server.task_state = Some("deleting".to_owned());
        instance.gone_at.get_or_insert(gone_at);
        Ok(())
    }

    pub(crate) fn create_volume(&mut self, new: &NewVolume) -> CloudResult<Volume> {
        self.take_error("create_volume")?;
        let volume = Volume {
            id: self.id("volume"),
            name: new.name.clone(),
            status: "creating".to_owned(),
            metadata: new.metadata.clone(),
            size_gib: new.size_gib,
            volume_type: new.volume_type.clone(),
            servers: Vec::new(),
            ..Volume::default()
        };
        self.volumes.insert(volume.id.clone(), (volume.clone(), self.now + TAKES));
        Ok(volume)
    }

    /// Returns how often servers did this.
    pub(crate) fn count(&self, action: &str) -> usize {
        let logs = self.instances.values().flat_map(|instance| &instance.log);
        logs.filter(|(record, _)| record.action == action).count()
    }
}

impl Instance {
    fn begin(&mut self, action: &str, request: &str, ends: i64) {
        let record = ActionRecord {
            action: action.to_owned(),
            request_id: request.to_owned(),
            ..ActionRecord::default()
        };
        self.log.insert(0, (record, ends));
    }

    fn advance(&mut self, now: i64, rebuilds_fail: bool, builds_fail: &mut usize) {
        for (record, ends) in &mut self.log {
            if record.result.is_none() && *ends <= now {
                let failed = record.action == "rebuild" && rebuilds_fail;
                record.result = Some(if failed { "Error" } else { "Success" }.to_owned());
                record.message = failed.then(|| "the host is on fire".to_owned());
                record.finished_at = Some(now.to_string());
                self.server.task_state = None;
                match record.action.as_str() {
                    "stop" => self.server.status = "SHUTOFF".to_owned(),
                    "start" => self.server.status = "ACTIVE".to_owned(),
                    _ => {}
                }
            }
        }
        if self.server.status == "BUILD" && self.built_at <= now && self.gone_at.is_none() {
            self.server.task_state = None;
            if *builds_fail > 0 {
                *builds_fail -= 1;
                self.server.status = "ERROR".to_owned();
                self.server.fault = Some("No valid host was found".to_owned());
            } else {
                self.server.status = "ACTIVE".to_owned();
            }
        }
    }
}
