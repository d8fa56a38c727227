//! Checks of the packages: dpkg reads, installs, upgrades and purges them, and systemd accepts their units.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, ensure};

use super::debian;
use crate::{prerequisites, run};

/// Largest exposure of a unit, by `systemd-analyze security`. 0 is none and 100 is all.
const EXPOSURE: &str = "20";

/// Units of the packages.
const UNITS: [&str; 2] = ["capstan.service", "capstan-etcd.service"];

/// Runs all checks.
pub(super) fn run(packages: &[PathBuf]) -> anyhow::Result<()> {
    for package in packages {
        let info = run::output(Command::new("dpkg-deb").arg("--info").arg(package))?;
        ensure!(info.contains("Maintainer: "), "dpkg-deb --info: {info}");
        let contents = run::output(Command::new("dpkg-deb").arg("--contents").arg(package))?;
        ensure!(contents.contains("usr/lib/systemd/system/"), "dpkg-deb --contents: {contents}");
    }
    eprintln!("ok      dpkg-deb reads the packages");
    lintian(packages)?;
    let home = std::env::temp_dir().join(format!("capstan-deb-{}", std::process::id()));
    let root = home.join("root");
    prepare(&root)?;
    install(&root, packages)?;
    units(&root)?;
    debian::check(packages, &home, &UNITS)?;
    Ok(std::fs::remove_dir_all(home)?)
}

/// Runs lintian, if this machine has it or can get it. Its errors fail the check.
fn lintian(packages: &[PathBuf]) -> anyhow::Result<()> {
    if let Err(error) = prerequisites::lintian() {
        return run::skip("lintian", error);
    }
    // The release has no Debian bug number and no mail address, and etcd is a program of Go, which links statically and has no man page.
    let suppressed = "initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog,statically-linked-binary";
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error", "--suppress-tags", suppressed, "--allow-root"]).args(packages);
    run::output(&mut lintian)?;
    eprintln!("ok      lintian finds no error");
    Ok(())
}

/// Creates an empty root with the database of dpkg.
fn prepare(root: &Path) -> anyhow::Result<()> {
    for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "run", "tmp"] {
        std::fs::create_dir_all(root.join(directory))?;
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "")?;
    Ok(std::fs::write(root.join("var/lib/dpkg/available"), "")?)
}

fn dpkg(root: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("dpkg");
    // The root has no shell and no libraries: the scripts run outside of it, with DPKG_ROOT.
    command.arg(format!("--root={}", root.display()));
    command.args(["--force-script-chrootless", "--force-depends", "--force-confold"]).args(arguments);
    run::output(command.env("DEBIAN_FRONTEND", "noninteractive"))
}

fn install(root: &Path, packages: &[PathBuf]) -> anyhow::Result<()> {
    let paths: Vec<String> = packages.iter().map(|path| path.display().to_string()).collect();
    let install = || {
        let mut arguments = vec!["--install"];
        arguments.extend(paths.iter().map(String::as_str));
        dpkg(root, &arguments)
    };
    install().context("dpkg --install; this check needs root")?;
    let users = std::fs::read_to_string(root.join("etc/passwd")).unwrap_or_default();
    ensure!(users.lines().any(|line| line.starts_with("capstan:")), "there is no user capstan: {users}");
    for directory in ["var/lib/capstan", "etc/capstan"] {
        ensure!(root.join(directory).is_dir(), "{directory} is missing");
    }
    let version = run::output(Command::new(root.join("usr/bin/capstan")).arg("version"))?;
    ensure!(version.starts_with("capstan "), "{version}");
    for file in ["usr/share/man/man1/capstan-serve.1.gz", "usr/share/bash-completion/completions/capstan"] {
        ensure!(root.join(file).is_file(), "{file} is missing");
    }
    let config = root.join("etc/capstan/config.yaml");
    std::fs::write(&config, "# of an administrator\n")?;
    std::fs::write(root.join("var/lib/capstan/key"), "")?;
    install()?;
    ensure!(
        std::fs::read_to_string(&config)? == "# of an administrator\n",
        "an upgrade replaces config.yaml"
    );
    Ok(())
}

/// Lets systemd verify the units, and at the end removes the packages.
fn units(root: &Path) -> anyhow::Result<()> {
    if run::is_there("systemd-analyze") {
        for unit in UNITS {
            let rooted = format!("--root={}", root.display());
            let verified = Command::new("systemd-analyze").args([&rooted, "verify", unit]).output()?;
            let text = String::from_utf8_lossy(&verified.stderr).into_owned();
            // The root has no targets of systemd.
            let about = text.lines().filter(|line| line.contains(unit) && !line.contains(".target"));
            let about: Vec<&str> = about.collect();
            ensure!(about.is_empty(), "systemd-analyze verify: {}", about.join("\n"));
            let mut security = Command::new("systemd-analyze");
            security.args([&rooted, "security", "--offline=true", "--threshold", EXPOSURE, unit]);
            run::output(&mut security).context("systemd-analyze security")?;
        }
        eprintln!("ok      systemd verifies the units, and their exposure is at most {EXPOSURE} of 100");
    } else {
        run::skip("systemd-analyze", anyhow!("it is not installed"))?;
    }
    dpkg(root, &["--purge", "capstan-etcd", "capstan"])?;
    for gone in ["usr/bin/capstan", "usr/lib/capstan/etcd", "etc/capstan"] {
        ensure!(!root.join(gone).exists(), "{gone} is there after a purge");
    }
    ensure!(root.join("var/lib/capstan/key").exists(), "a purge removes the keys");
    eprintln!("ok      the packages are installed, upgraded and purged, and the keys stay");
    Ok(())
}
