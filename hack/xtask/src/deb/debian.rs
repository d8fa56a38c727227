//! Check of the packages in a root of Debian: it has the programs that their scripts call, and no others.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::{prerequisites, run};

/// Packages beside the essential ones: those on which a package depends, and systemd.
const INCLUDED: &str = "--include=systemd,libgcc-s1";

/// Attempts to make a root: a mirror may fail for a moment.
const ATTEMPTS: usize = 3;

/// Pause before another attempt.
const PAUSE: Duration = Duration::from_secs(10);

/// Command that runs another one in the root. systemd-tmpfiles needs /proc, whose mount ends with the command.
const ENTER: &str = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";

/// Files and directories with their owners and modes after an installation.
const RIGHTS: [(&str, &str); 3] = [
    ("/var/lib/capstan", "capstan:capstan 700"),
    ("/etc/capstan", "root:capstan 750"),
    ("/etc/capstan/config.yaml", "root:capstan 640"),
];

/// Root of Debian.
struct Root(PathBuf);

impl Root {
    /// Makes a root below a folder, with the release of this machine.
    fn bootstrap(home: &Path) -> anyhow::Result<Self> {
        let release = std::fs::read_to_string("/etc/os-release")?;
        let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let name = name.context("/etc/os-release names no release")?.trim_matches('"');
        let mut attempt = 1;
        loop {
            // Another folder each time: debootstrap does not go on in a root that is made in part.
            let path = home.join(format!("debian-{attempt}"));
            let mut command = Command::new("/usr/sbin/debootstrap");
            let made = run::output(command.args(["--variant=minbase", INCLUDED, name]).arg(&path));
            match made {
                Ok(_) => return Ok(Self(path)),
                Err(error) if attempt < ATTEMPTS => eprintln!("again   debootstrap: {error:#}"),
                Err(error) => {
                    let log = path.join("debootstrap/debootstrap.log");
                    return Err(error.context(format!(
                        "no root of Debian after {ATTEMPTS} attempts; debootstrap needs root, a mirror, and a folder \
                         without nodev and noexec, and its log is {}",
                        log.display()
                    )));
                }
            }
            attempt += 1;
            std::thread::sleep(PAUSE);
        }
    }

    /// Runs a command in the root. Returns its output.
    fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", ENTER]).arg(&self.0).args(words);
        run::output(command.env("DEBIAN_FRONTEND", "noninteractive"))
            .with_context(|| format!("{} in a root of Debian", words.join(" ")))
    }

    /// Installs the packages, or upgrades them.
    fn install(&self, packages: &[String]) -> anyhow::Result<()> {
        let mut words = vec!["dpkg", "--force-confold", "--install"];
        words.extend(packages.iter().map(String::as_str));
        self.run(&words).map(drop)
    }

    /// Returns a file of the root.
    fn file(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

/// Installs, upgrades and purges the packages in a root below a folder, and lets its systemd verify the units. Without
/// debootstrap, the check is skipped, but not in CI.
pub(super) fn check(packages: &[PathBuf], home: &Path, units: &[&str]) -> anyhow::Result<()> {
    if let Err(error) = prerequisites::debootstrap() {
        return run::skip("the check in a root of Debian", error);
    }
    let root = Root::bootstrap(home)?;
    let mut paths = Vec::new();
    for package in packages {
        let name = package.file_name().and_then(|name| name.to_str()).context("a package has no name")?;
        std::fs::copy(package, root.file("tmp").join(name)).with_context(|| name.to_owned())?;
        paths.push(format!("/tmp/{name}"));
    }
    root.install(&paths)?;
    for (path, expected) in RIGHTS {
        let found = root.run(&["stat", "-c", "%U:%G %a", path])?;
        ensure!(found.trim() == expected, "{path} is {} and not {expected}", found.trim());
    }
    let version = root.run(&["capstan", "version"])?;
    ensure!(version.starts_with("capstan "), "{version}");
    for unit in units {
        root.run(&["systemd-analyze", "verify", unit])?;
    }
    let (config, key) = (root.file("etc/capstan/config.yaml"), root.file("var/lib/capstan/key"));
    std::fs::write(&config, "# of an administrator\n")?;
    std::fs::write(&key, "")?;
    root.install(&paths)?;
    let kept = std::fs::read_to_string(&config)?;
    ensure!(kept == "# of an administrator\n", "an upgrade replaces config.yaml: {kept}");
    root.run(&["dpkg", "--purge", "capstan-etcd", "capstan"])?;
    ensure!(!root.file("etc/capstan").exists(), "/etc/capstan is there after a purge");
    ensure!(key.exists(), "a purge removes the keys");
    eprintln!(
        "ok      the packages are installed, upgraded and purged in a root of Debian, which verifies the units"
    );
    Ok(())
}
