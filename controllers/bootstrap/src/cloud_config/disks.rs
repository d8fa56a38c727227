//! Entries of `ntp`, `disk_setup`, `fs_setup` and `mounts`.

use apiserver_types::{Filesystem, KubeadmConfigSpec, Partition, PartitionSpec, PartitionTableType};

use super::yaml::Node;

/// Codes of partition types in an MBR, by their names in Cluster API. Another value is used as it is.
const PARTITION_TYPES: [(&str, &str); 7] = [
    ("Linux", "83"),
    ("LinuxSwap", "82"),
    ("LinuxRAID", "fd"),
    ("LVM", "8e"),
    ("Fat32", "0c"),
    ("NTFS", "07"),
    ("LinuxExtended", "85"),
];

/// Returns the time servers.
pub(super) fn ntp(spec: &KubeadmConfigSpec) -> Option<Node> {
    let ntp = spec.ntp.as_ref().filter(|ntp| ntp.enabled.is_some() || ntp.servers.is_some())?;
    let enabled = ntp.enabled.map(|enabled| ("enabled".to_owned(), Node::Flag(enabled)));
    let servers = ("servers".to_owned(), Node::texts(ntp.servers.as_deref().unwrap_or_default()));
    Some(Node::Map(enabled.into_iter().chain([servers]).collect()))
}

/// Returns the partition tables, by device.
pub(super) fn partitions(spec: &KubeadmConfigSpec) -> Option<Node> {
    let partitions = spec.disk_setup.as_ref()?.partitions.as_deref().filter(|it| !it.is_empty())?;
    Some(Node::Map(partitions.iter().map(|it| (it.device.clone(), table(it))).collect()))
}

fn table(partition: &Partition) -> Node {
    let kind = partition.table_type.map(|kind| match kind {
        PartitionTableType::Mbr => "mbr",
        PartitionTableType::Gpt => "gpt",
    });
    let layout = match &partition.disk_layout {
        Some(parts) => Node::List(parts.iter().map(part).collect()),
        None => Node::Flag(partition.layout.unwrap_or_default()),
    };
    let entries = [
        ("table_type", kind.map(Node::text)),
        ("layout", Some(layout)),
        ("overwrite", partition.overwrite.map(Node::Flag)),
    ];
    present(entries)
}

fn part(part: &PartitionSpec) -> Node {
    let size = Node::Number(part.percentage.into());
    let Some(name) = part.partition_type.as_deref() else { return size };
    let code = PARTITION_TYPES.iter().find(|(known, _)| *known == name).map_or(name, |(_, code)| code);
    Node::List(vec![size, Node::text(code)])
}

/// Returns the filesystems.
pub(super) fn filesystems(spec: &KubeadmConfigSpec) -> Option<Node> {
    let filesystems = spec.disk_setup.as_ref()?.filesystems.as_deref().filter(|it| !it.is_empty())?;
    Some(Node::List(filesystems.iter().map(filesystem).collect()))
}

fn filesystem(filesystem: &Filesystem) -> Node {
    let options = filesystem.extra_opts.as_deref().filter(|options| !options.is_empty());
    let entries = [
        ("label", filesystem.label.as_deref().map(Node::text)),
        ("filesystem", Some(Node::text(&filesystem.filesystem))),
        ("device", Some(Node::text(&filesystem.device))),
        ("partition", filesystem.partition.as_deref().map(Node::text)),
        ("overwrite", filesystem.overwrite.map(Node::Flag)),
        ("replace_fs", filesystem.replace_fs.as_deref().map(Node::text)),
        ("extra_opts", options.map(Node::texts)),
    ];
    present(entries)
}

/// Returns the mounts: lists of the fields of fstab.
pub(super) fn mounts(spec: &KubeadmConfigSpec) -> Option<Node> {
    let mounts = spec.mounts.as_deref().filter(|mounts| !mounts.is_empty())?;
    Some(Node::List(mounts.iter().map(|mount| Node::texts(mount)).collect()))
}

/// Returns a map of the entries that have a value.
fn present<const N: usize>(entries: [(&str, Option<Node>); N]) -> Node {
    Node::Map(entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}
