//! Filter that container engines use by default, as the profile `RuntimeDefault` of a Pod. It refuses the calls that
//! matter to the kernel, and permits the others. The lists of the engines differ in details.

use super::filter::{Action, Bits, Filter};
use super::unit::NAMESPACES;

/// Calls that the engines refuse to a process without capabilities.
const REFUSED: [&str; 51] = [
    "acct",
    "add_key",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "set_mempolicy",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "sysfs",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
];

/// Returns the filter.
pub(super) fn filter() -> Filter {
    let mut filter = Filter::new(Action::Allow);
    for call in REFUSED {
        filter.add(call, Action::Refuse, None);
    }
    for flag in NAMESPACES {
        filter.add("clone", Action::Refuse, Some(Bits { index: 0, mask: flag, value: flag }));
    }
    // A filter cannot read its flags, which are in memory.
    filter.add("clone3", Action::Hide, None);
    filter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_and_mounts_are_refused_and_threads_are_not() {
        let filter = filter();
        assert_eq!(filter.decide("mount", &[]), Action::Refuse);
        assert_eq!(filter.decide("clone", &[0x4000_0011]), Action::Refuse);
        assert_eq!(filter.decide("clone", &[0x3d_0f00]), Action::Allow);
        assert_eq!(filter.decide("clone3", &[]), Action::Hide);
        assert_eq!(filter.json()["otherwise"], 0);
        assert_eq!(
            filter.json()["rules"][0],
            serde_json::json!({"call": "acct", "error": 1, "argument": null})
        );
    }
}
