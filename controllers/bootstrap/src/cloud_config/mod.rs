//! Boot document for cloud-init: a cloud-config with a Jinja header.

mod disks;
mod files;
mod size;
#[cfg(test)]
mod tests;
mod users;
mod yaml;

pub(crate) use size::gzip;
pub use size::{LIMIT, TooLarge, user_data, user_data_of};

use crate::failure_report;
use crate::setup::{Command, DocumentError, File, SENTINEL, Setup};
use yaml::Node;

/// First lines of the document. cloud-init renders the rest with Jinja because of the first one.
const HEADER: &str = "## template: jinja\n#cloud-config\n";

/// File that is there only because its directory is: cloud-init creates that. Upstream's path.
const PLACEHOLDER: &str = "/run/cluster-api/placeholder";

/// Script that reports a failed bootstrap. Many distributions mount `/run` without the right to execute, so a shell reads
/// it.
const REPORT: &str = "/run/cluster-api/report";

impl Command {
    /// Returns the path of kubeadm's configuration file. `/run` is not on a disk, so no secret survives a reboot.
    const fn configuration(self) -> &'static str {
        match self {
            Self::Init => "/run/kubeadm/kubeadm.yaml",
            Self::Join => "/run/kubeadm/kubeadm-join-config.yaml",
        }
    }
}

/// Returns the cloud-config of a machine.
///
/// # Errors
/// A content is not in the encoding that its file names.
pub fn render(setup: &Setup<'_>) -> Result<String, DocumentError> {
    let spec = setup.spec;
    let mut entries = vec![("write_files".to_owned(), files(setup)?)];
    let mut add = |key: &str, value: Option<Node>| {
        entries.extend(value.map(|value| (key.to_owned(), value)));
    };
    add("bootcmd", spec.boot_commands.as_deref().filter(|it| !it.is_empty()).map(Node::texts));
    add("runcmd", Some(Node::texts(&commands(setup))));
    add("ntp", disks::ntp(spec));
    add("users", users::users(setup.users));
    add("disk_setup", disks::partitions(spec));
    add("fs_setup", disks::filesystems(spec));
    add("mounts", disks::mounts(spec));
    Ok(format!("{HEADER}{}", yaml::document(&entries)))
}

/// Returns all files, in upstream's order.
fn files(setup: &Setup<'_>) -> Result<Node, DocumentError> {
    let mut kubeadm = vec![
        File::of_root(setup.command.configuration(), "0640", setup.kubeadm),
        File::of_root(PLACEHOLDER, "0640", "makes this directory exist"),
    ];
    kubeadm.extend(
        setup.report.map(|name| {
            File::of_root(REPORT, "0700", failure_report::script(name, failure_report::CLOUD_INIT))
        }),
    );
    let nodes = setup
        .certificates
        .iter()
        .map(|file| files::file(file, files::deferred_by_mount(file, setup.spec)))
        .chain(setup.files.iter().map(|file| files::file(file, files::is_deferred(file, setup))))
        .chain(
            setup
                .discovery
                .into_iter()
                .chain(&kubeadm)
                .map(|file| files::file(file, files::deferred_by_mount(file, setup.spec))),
        );
    Ok(Node::List(nodes.collect::<Result<_, _>>()?))
}

/// Returns the commands of the final stage: those of the user around kubeadm.
fn commands(setup: &Setup<'_>) -> Vec<String> {
    let spec = setup.spec;
    let before = spec.pre_kubeadm_commands.iter().flatten().cloned();
    let after = spec.post_kubeadm_commands.iter().flatten().cloned();
    let end = setup.report.map(|_| format!("sh {REPORT} end 0"));
    before.chain([kubeadm(setup)]).chain(after).chain(end).collect()
}

/// Returns the line that runs kubeadm. It is upstream's, apart from the arguments of `kubeadm init`: without a log
/// level, two blanks remain.
fn kubeadm(setup: &Setup<'_>) -> String {
    let verbosity = setup.spec.verbosity.map(|level| format!("--v {level}")).unwrap_or_default();
    let (name, configuration) = (setup.command.name(), setup.command.configuration());
    let arguments = setup.command.arguments();
    let report = setup.report.map(|_| format!(" || sh {REPORT} kubeadm $?")).unwrap_or_default();
    format!(
        "kubeadm {name} --config {configuration}{arguments} {verbosity} && echo success > {SENTINEL}{report}"
    )
}
