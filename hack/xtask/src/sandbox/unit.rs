//! Filter of a unit of systemd: the one that systemd installs for its settings.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};

use super::filter::{Action, Bits, Filter};

/// Flags of `clone` that make a namespace.
pub(super) const NAMESPACES: [u64; 7] =
    [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// Numbers of the address families that a unit of Capstan may name.
const FAMILIES: [(&str, u64); 3] = [("AF_UNIX", 1), ("AF_INET", 2), ("AF_INET6", 10)];

/// Bits of the protection of memory: it can be written, and it can be executed.
const WRITE: u64 = 2;
const EXECUTE: u64 = 4;

/// Flag of `shmat`: the memory can be executed.
const SHARED_EXECUTE: u64 = 0o10_0000;

/// Bits of an argument that is a number of 32 bits.
const WHOLE: u64 = 0xffff_ffff;

/// Groups of system calls by their names, such as `@default`. Members are calls and other groups.
pub(super) type Groups = BTreeMap<String, Vec<String>>;

/// Parses the output of `systemd-analyze syscall-filter`.
pub(super) fn groups(text: &str) -> Groups {
    let (mut groups, mut name) = (Groups::new(), None);
    for line in text.lines() {
        let word = line.trim();
        if line.starts_with('@') {
            name = Some(word.to_owned());
        } else if let (Some(name), true) = (&name, line.starts_with(' ') && !word.starts_with('#')) {
            groups.entry(name.clone()).or_default().push(word.to_owned());
        }
    }
    groups
}

/// Returns the filter of a unit.
///
/// # Errors
/// The unit permits all calls, or names a group or an address family that is not known here.
pub(super) fn filter(unit: &str, groups: &Groups) -> anyhow::Result<Filter> {
    let conditions = conditions(unit)?;
    let mut filter = Filter::new(Action::Refuse);
    for call in permitted(unit, groups)? {
        match conditions.get(call.as_str()) {
            None => filter.add(&call, Action::Allow, None),
            Some(uses) => {
                for (action, bits) in uses {
                    filter.add(&call, *action, *bits);
                }
            }
        }
    }
    Ok(filter)
}

/// Returns the calls of `SystemCallFilter`. Its first line permits calls, and lines with `~` take some of them away.
fn permitted(unit: &str, groups: &Groups) -> anyhow::Result<BTreeSet<String>> {
    let mut calls = BTreeSet::new();
    for value in settings(unit, "SystemCallFilter") {
        let (is_refused, words) = match value.strip_prefix('~') {
            Some(words) => (true, words),
            None => (false, value),
        };
        for word in words.split_whitespace() {
            let members = members(word, groups)?;
            if is_refused {
                calls.retain(|call| !members.contains(call));
            } else {
                calls.extend(members);
            }
        }
    }
    ensure!(!calls.is_empty(), "it has no SystemCallFilter that permits calls");
    Ok(calls)
}

/// Returns the calls that a word stands for: itself, or the calls of a group.
fn members(word: &str, groups: &Groups) -> anyhow::Result<BTreeSet<String>> {
    let (mut calls, mut visited, mut rest) = (BTreeSet::new(), BTreeSet::new(), vec![word]);
    while let Some(word) = rest.pop() {
        if !word.starts_with('@') {
            calls.insert(word.to_owned());
        } else if visited.insert(word) {
            let found = groups.get(word).with_context(|| format!("systemd has no group {word}"))?;
            rest.extend(found.iter().map(String::as_str));
        }
    }
    Ok(calls)
}

/// Uses of a call, each with its action. A call without any is refused.
type Uses = Vec<(Action, Option<Bits>)>;

/// Returns the calls that other settings restrict.
fn conditions(unit: &str) -> anyhow::Result<BTreeMap<&'static str, Uses>> {
    let allow = |index, mask, value| (Action::Allow, Some(Bits { index, mask, value }));
    let has = |name| settings(unit, name).any(|value| value == "yes");
    let mut conditions = BTreeMap::new();
    let families = settings(unit, "RestrictAddressFamilies").flat_map(str::split_whitespace);
    let sockets = families.map(|family| match FAMILIES.iter().find(|(name, _)| *name == family) {
        Some((_, number)) => Ok(allow(0, WHOLE, *number)),
        None => bail!("the address family {family} is not known here"),
    });
    let sockets = sockets.collect::<anyhow::Result<Uses>>()?;
    if !sockets.is_empty() {
        conditions.insert("socket", sockets);
    }
    if has("MemoryDenyWriteExecute") {
        let values = [0, WRITE, EXECUTE];
        conditions.insert("mmap", values.map(|value| allow(2, WRITE | EXECUTE, value)).to_vec());
        conditions.insert("mprotect", vec![allow(2, EXECUTE, 0)]);
        conditions.insert("pkey_mprotect", vec![allow(2, EXECUTE, 0)]);
        conditions.insert("shmat", vec![allow(2, SHARED_EXECUTE, 0)]);
    }
    if has("RestrictNamespaces") {
        let flags = NAMESPACES.iter().fold(0_u64, |flags, flag| flags | *flag);
        conditions.insert("clone", vec![allow(0, flags, 0)]);
        // A filter cannot read its flags, which are in memory.
        conditions.insert("clone3", vec![(Action::Hide, None)]);
        conditions.insert("setns", Uses::new());
        conditions.insert("unshare", Uses::new());
    }
    Ok(conditions)
}

/// Returns the values of a setting, in the order of its lines.
fn settings<'a>(unit: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    unit.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;

    /// Some lines of what systemd 252 prints.
    const PRINTED: &str = "@default\n    # System calls that are always permitted\n    mmap\n    read\n\n\
        @system-service\n    # General system service operations\n    @default\n    @resources\n    clone\n    clone3\n    \
        mprotect\n    setns\n    shmat\n    socket\n    unshare\n\n@resources\n    # Alter resource settings\n    nice\n\n\
        @privileged\n    # All system calls which need super-user capabilities\n    chroot\n\n\
        # Ungrouped System Calls:\n#   futex_wait\n";

    fn of(unit: &str) -> Filter {
        let path = run::root().unwrap().join("manifests/systemd").join(unit);
        filter(&std::fs::read_to_string(path).unwrap(), &groups(PRINTED)).unwrap()
    }

    #[test]
    fn the_groups_of_systemd_are_read_with_their_members() {
        let groups = groups(PRINTED);
        assert_eq!(groups.len(), 4);
        assert_eq!(groups["@default"], ["mmap", "read"]);
        assert_eq!(groups["@system-service"][..3], ["@default", "@resources", "clone"]);
    }

    #[test]
    fn both_units_refuse_the_calls_of_their_settings_and_no_others() {
        for unit in ["capstan.service", "capstan-etcd.service"] {
            let filter = of(unit);
            for (call, arguments, expected) in [
                ("read", [0; 3], Action::Allow),
                ("nice", [0; 3], Action::Refuse),
                ("chroot", [0; 3], Action::Refuse),
                ("futex_wait", [0; 3], Action::Refuse),
                ("socket", [2, 1, 0], Action::Allow),
                ("socket", [16, 3, 0], Action::Refuse),
                ("mmap", [0, 4096, WRITE], Action::Allow),
                ("mmap", [0, 4096, 1 | EXECUTE], Action::Allow),
                ("mmap", [0, 4096, WRITE | EXECUTE], Action::Refuse),
                ("mprotect", [0, 4096, 1 | EXECUTE], Action::Refuse),
                ("clone", [0x3d_0f00, 0, 0], Action::Allow),
                ("clone", [0x1000_0000, 0, 0], Action::Refuse),
                ("clone3", [0; 3], Action::Hide),
                ("unshare", [0; 3], Action::Refuse),
            ] {
                assert_eq!(filter.decide(call, &arguments), expected, "{unit}: {call} {arguments:x?}");
            }
        }
        // Backups have a thread with a lower priority. Without a capability, no process can raise one.
        assert_eq!(of("capstan.service").decide("setpriority", &[0; 3]), Action::Allow);
        assert_eq!(of("capstan-etcd.service").decide("setpriority", &[0; 3]), Action::Refuse);
    }

    #[test]
    fn settings_that_this_module_does_not_know_are_an_error() {
        let groups = groups(PRINTED);
        for unit in [
            "[Service]\nUser=capstan\n",
            "SystemCallFilter=@file-system\n",
            "SystemCallFilter=@default\nRestrictAddressFamilies=AF_VSOCK\n",
        ] {
            assert!(filter(unit, &groups).is_err(), "{unit}");
        }
    }
}
