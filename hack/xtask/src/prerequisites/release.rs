//! Prerequisites of releases, and of the sandbox in which their programs are checked.

use std::path::PathBuf;

use super::{cargo_tool, go_release, unpacked, version};

/// Version of cargo-auditable. Earlier ones than 0.7.3 cannot link with Zig.
const CARGO_AUDITABLE: &str = "0.7.7";

/// Module of etcd's server, whose version is that of all its programs.
const ETCD: &str = "go.etcd.io/etcd/server/v3";

/// Returns the folder with cargo-auditable, which writes the list of all crates into a program.
pub(crate) fn cargo_auditable() -> anyhow::Result<PathBuf> {
    cargo_tool("cargo-auditable", CARGO_AUDITABLE)
}

/// Returns the path of a program of the pinned etcd, for this machine or for another architecture by Go's name.
pub(crate) fn program_of_etcd(name: &str, architecture: Option<&str>) -> anyhow::Result<PathBuf> {
    let package = if name == "etcd" { ETCD.to_owned() } else { format!("go.etcd.io/etcd/{name}/v3") };
    let version = version("etcd", ETCD)?;
    go_release("etcd", &version, &package, name, &version, architecture)
}

/// Returns the folder with the module `seccomp` of Python. The package of Debian is unpacked and not installed.
pub(crate) fn seccomp() -> anyhow::Result<PathBuf> {
    Ok(unpacked("python3-seccomp")?.join("usr/lib/python3/dist-packages"))
}
