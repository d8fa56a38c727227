//! Builds of a server that failed: they are counted, so that a server that cannot be built is given up.

use std::time::Duration;

use apiserver_types::OpenStackMachine;
use controllers_infrastructure::{ErrorClass, Server};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// Remedy for a server that is gone. An OpenStackServer, such as that of a bastion, has no Machine.
pub(super) const REPLACE: &str =
    "Delete the Machine to get another server, or the OpenStackServer if the server has no Machine";

/// Annotation with the failed builds. Its removal has the server built again.
pub(super) const ANNOTATION: &str = "capstan.dev/failed-builds";

/// Builds before a server is given up: the cause of one failure may pass, and that of three in a row rarely does.
pub(super) const ATTEMPTS: u32 = 3;

/// Interval of further attempts if the cloud had no room. Nothing but another attempt shows that there is room now.
const PROBE: Duration = Duration::from_mins(1);

/// Longest error of Nova that is kept. Unit: characters. A condition shows the whole of the last one.
const LONGEST_ERROR: usize = 500;

/// Failed builds of one server, as the annotation has them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct FailedBuilds {
    /// Servers that were deleted because they failed.
    pub count: u32,
    /// Time of the last deletion.
    #[serde(default)]
    pub last: Option<Timestamp>,
    /// Nova's words about the last one.
    #[serde(default)]
    pub fault: String,
    /// Reason of the condition after the last one.
    #[serde(default)]
    pub reason: String,
}

impl FailedBuilds {
    /// Reads the annotation. One that cannot be read counts as absent.
    pub(super) fn of(object: &OpenStackMachine) -> Self {
        let text = object.annotations().get(ANNOTATION);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Returns the value of the annotation; `None` if no build failed.
    pub(super) fn text(&self) -> Option<String> {
        (self.count > 0).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Returns true if a server that failed is replaced. Without room in the cloud, attempts go on, with a pause.
    pub(super) fn may_try_again(&self, fault: &str, now: Timestamp) -> bool {
        if self.count.saturating_add(1) < ATTEMPTS {
            return true;
        }
        let pause = self.last.map(|last| now.duration_since(last).unsigned_abs());
        is_without_host(fault) && pause.is_none_or(|pause| pause >= PROBE)
    }

    /// Counts another failure.
    pub(super) fn note(&mut self, fault: &str, reason: &str, now: Timestamp) {
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
        reason.clone_into(&mut self.reason);
        self.fault = fault.chars().take(LONGEST_ERROR).collect();
    }

    /// Describes a server that is given up, or that waits for room.
    pub(super) fn describe(&self, fault: &str) -> String {
        let attempts = self.count.saturating_add(1);
        let next = if is_without_host(fault) {
            "Another attempt follows in a minute. Use another failure domain or flavor, or ask the operator of the cloud \
             for capacity"
                .to_owned()
        } else {
            format!("{REPLACE}. Or remove the annotation {ANNOTATION} to try again")
        };
        format!(
            "the server is in ERROR after {attempts} attempts: {}. {next}",
            fault.trim_end_matches(['.', ' '])
        )
    }

    /// Returns the reason of the condition of such a server.
    pub(super) fn reason(&self, fault: &str) -> String {
        let lasting = [ErrorClass::NoValidHost, ErrorClass::AntiAffinity].map(ErrorClass::reason);
        let known = is_without_host(fault) && lasting.contains(&self.reason.as_str());
        if known { self.reason.clone() } else { "InstanceStateError".to_owned() }
    }

    /// Describes the earlier failures of a server that is being built; empty if there are none.
    pub(super) fn history(&self) -> String {
        match self.count {
            0 => String::new(),
            count => format!(". {count} earlier attempts failed, the last one with: {}", self.fault),
        }
    }
}

/// Describes a server in ERROR that stays for this reason: it may have worked since a backup that was restored.
pub(super) fn kept(server: &Server, why: &str) -> String {
    let (id, fault) = (&server.id, server.fault.as_deref().unwrap_or("Nova gives no reason"));
    format!(
        "server {id} is in ERROR and stays, because {why}, and it may have worked since the backup: {}. If it is needed, \
         repair it, for example by `openstack server reboot --hard {id}`. Else Capstan deletes it at the end of that time, \
         or after `capstan restore --done`, and builds another one",
        fault.trim_end_matches(['.', ' '])
    )
}

/// Returns true for Nova's errors of a server that no host took.
pub(super) fn is_without_host(fault: &str) -> bool {
    let fault = fault.to_lowercase();
    ["no valid host", "exhausted all hosts", "anti-affinity"].iter().any(|words| fault.contains(words))
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackMachineSpec;

    use super::*;

    #[test]
    fn r10_1_a_server_is_built_three_times_and_then_only_if_room_was_lacking() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let aborted = "Build of instance s aborted: no network";
        let full = "No valid host was found. There are not enough hosts available.";
        for (fault, later) in [(aborted, false), (full, true)] {
            let mut failed = FailedBuilds::default();
            for attempt in 1..ATTEMPTS {
                assert!(failed.may_try_again(fault, at(0)), "{fault}: attempt {attempt}");
                failed.note(fault, "Reason", at(0));
            }
            assert!(!failed.may_try_again(fault, at(59)), "{fault}: three attempts");
            assert_eq!(failed.may_try_again(fault, at(60)), later, "{fault}: a minute later");
            let text = failed.describe(fault);
            assert!(text.starts_with("the server is in ERROR after 3 attempts"), "{text}");
            assert!(text.contains(fault.trim_end_matches('.')) && failed.history().contains(fault), "{text}");
        }
    }

    #[test]
    fn an_error_of_nova_that_ends_with_a_space_gets_one_full_stop() {
        let text = FailedBuilds::default().describe("No valid host was found. ");
        assert!(text.contains("No valid host was found. Another attempt follows"), "{text}");
    }

    #[test]
    fn the_annotation_keeps_the_failed_builds_and_its_removal_forgets_them() {
        let mut object = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        assert_eq!(FailedBuilds::of(&object).text(), None);
        let mut failed = FailedBuilds::default();
        failed.note("why", "Reason", Timestamp::UNIX_EPOCH);
        object.annotations_mut().insert(ANNOTATION.to_owned(), failed.text().unwrap());
        assert_eq!(FailedBuilds::of(&object), failed);
        object.annotations_mut().insert(ANNOTATION.to_owned(), "nonsense".to_owned());
        assert_eq!(FailedBuilds::of(&object), FailedBuilds::default());
    }
}
