//! Services of a node: started by systemd, or by hand.

use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::Layout;
use super::installation::{Installation, StoreKind};
use super::static_pods::{self, StaticPods};
use super::steps::{Steps, line};
use super::{rendered, run_async};
use crate::join;

/// Unit of Capstan.
const CAPSTAN: &str = "capstan";

/// Unit of etcd.
const ETCD: &str = "capstan-etcd";

/// Etcd of the package `capstan-etcd`.
const PACKAGED_ETCD: &str = "/usr/lib/capstan/etcd";

/// Longest wait until a service is ready: a new member of etcd receives all data first.
const PATIENCE: Duration = Duration::from_secs(120);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Programs of the services, and the way in which they are started.
#[derive(Debug, Clone)]
pub(super) struct Services {
    capstan: PathBuf,
    etcd: PathBuf,
    /// Pods of the services, if the kubelet starts them, and not systemd.
    pods: Option<StaticPods>,
    /// True if the command starts them. Otherwise it prints how.
    pub(super) are_started: bool,
}

impl Services {
    /// Returns the services. `etcd` is the program; by default it is looked up.
    ///
    /// # Errors
    /// There is no etcd, but the store needs one.
    pub(super) fn new(
        layout: &Layout,
        etcd: Option<&Path>,
        installation: &Installation,
        no_start: bool,
    ) -> anyhow::Result<Self> {
        let packaged = || Some(PathBuf::from(PACKAGED_ETCD)).filter(|path| path.exists());
        let found = etcd.map(Path::to_owned).or_else(packaged).or_else(|| in_path("etcd"));
        let pods = installation.static_pods.clone();
        if installation.store == StoreKind::Etcd && pods.is_none() && found.is_none() {
            bail!("--etcd: there is no program etcd; install the package capstan-etcd, or name the program");
        }
        let capstan = std::env::current_exe().context("cannot find the program capstan itself")?;
        let has_starter = pods.is_some() || Path::new("/run/systemd/system").is_dir();
        let are_started = !no_start && layout.is_machine() && has_starter;
        Ok(Self { capstan, etcd: found.unwrap_or_default(), pods, are_started })
    }

    /// Refuses an address at which the etcd of this node could not listen, before a file is written. Services that this
    /// command does not start may run elsewhere.
    ///
    /// # Errors
    /// The machine does not have the address.
    pub(super) fn check_address(&self, installation: &Installation) -> anyhow::Result<()> {
        if self.are_started && installation.store == StoreKind::Etcd {
            return check_listener(installation.address);
        }
        Ok(())
    }

    /// Writes the units, and creates the user of the services. Static Pods need neither.
    pub(super) fn write(
        &self,
        steps: &mut Steps,
        layout: &Layout,
        installation: &Installation,
    ) -> anyhow::Result<()> {
        if self.pods.is_some() {
            return Ok(());
        }
        let is_packaged = layout.packaged_unit(ETCD).exists() && self.etcd == Path::new(PACKAGED_ETCD);
        if installation.store == StoreKind::Etcd && !is_packaged {
            let text = rendered::etcd_unit(&self.etcd, layout);
            steps.public_file(&layout.unit(ETCD), "unit of etcd", &text)?;
        }
        if !layout.packaged_unit(CAPSTAN).exists() {
            let text = rendered::unit(&self.capstan, layout);
            steps.public_file(&layout.unit(CAPSTAN), "unit of Capstan", &text)?;
            steps.public_file(&layout.sysusers(), "user of the services", rendered::SYSUSERS)?;
        }
        if self.are_started && user().is_none() {
            command(Command::new("systemd-sysusers").arg(layout.sysusers()))?;
            steps.changed("created", "user capstan")?;
        }
        Ok(())
    }

    /// Starts etcd. Returns false if that is left to the caller.
    pub(super) fn start_etcd(&self, steps: &mut Steps, layout: &Layout) -> anyhow::Result<bool> {
        if let Some(pods) = &self.pods {
            return self.start_pod(steps, layout, ETCD, &pods.etcd(layout)?);
        }
        let by_hand = format!("{} --config-file {}", self.etcd.display(), layout.etcd_config().display());
        self.start(steps, layout, ETCD, &by_hand)
    }

    /// Starts Capstan. Returns false if that is left to the caller.
    pub(super) fn start_capstan(
        &self,
        steps: &mut Steps,
        layout: &Layout,
        installation: &Installation,
    ) -> anyhow::Result<bool> {
        if let Some(pods) = &self.pods {
            return self.start_pod(steps, layout, CAPSTAN, &pods.capstan(layout, installation)?);
        }
        let (program, config) = (self.capstan.display(), layout.config());
        let by_hand = format!("{program} serve --config {}", config.display());
        self.start(steps, layout, CAPSTAN, &by_hand)
    }

    /// Gives a Pod to the kubelet, or prints how.
    fn start_pod(&self, steps: &mut Steps, layout: &Layout, name: &str, pod: &str) -> anyhow::Result<bool> {
        if self.are_started {
            give_files(layout, static_pods::USER, static_pods::USER)?;
            let path = layout.static_pod(name);
            steps.create(&path, "static Pod", || static_pods::write(&path, pod))?;
            return Ok(true);
        }
        let path = layout.unstarted_static_pod(name);
        steps.public_file(&path, "static Pod, not started", pod)?;
        let (mut given, mut make) = (vec![layout.data(), layout.config()], String::new());
        if name == ETCD {
            given.extend([layout.etcd_data(), layout.etcd_config()]);
            make = format!("mkdir -p {} && ", layout.etcd_data().display());
        }
        let given: Vec<String> = given.iter().map(|path| path.display().to_string()).collect();
        let (user, given, to) = (static_pods::USER, given.join(" "), layout.static_pods());
        let copy = format!("cp {} {}/", path.display(), to.display());
        line("start", &format!("{make}chown -R {user}:{user} {given} && {copy}"))?;
        Ok(false)
    }

    fn start(&self, steps: &mut Steps, layout: &Layout, unit: &str, by_hand: &str) -> anyhow::Result<bool> {
        if !self.are_started {
            line("start", by_hand)?;
            return Ok(false);
        }
        if is_active(unit) {
            Steps::kept(&format!("{unit}.service  is running"))?;
            return Ok(true);
        }
        give_to_user(layout)?;
        command(Command::new("systemctl").arg("daemon-reload"))?;
        command(Command::new("systemctl").args(["enable", "--now", unit]))?;
        steps.changed("started", &format!("{unit}.service"))?;
        Ok(true)
    }

    /// Waits until Capstan is ready. Its certificate is signed by one of `cas`, in PEM: during a rotation, several are trusted.
    pub(super) fn await_ready(&self, installation: &Installation, cas: &str) -> anyhow::Result<()> {
        let url = rendered::readiness(installation);
        let client = join::client(&join::hashes_of_cas(cas)?)?;
        let end = Instant::now() + PATIENCE;
        let failure = run_async(async {
            loop {
                let why = match client.get(&url).send().await {
                    Ok(answer) if answer.status().is_success() => return None,
                    Ok(answer) => format!("answers {}", answer.status()),
                    Err(_) => "does not answer".to_owned(),
                };
                if Instant::now() > end {
                    return Some(why);
                }
                tokio::time::sleep(PAUSE).await;
            }
        })?;
        if let Some(why) = failure {
            let log = match &self.pods {
                Some(_) => "`crictl ps -a` and `crictl logs`".to_owned(),
                None => format!("`journalctl -u {CAPSTAN}`"),
            };
            bail!("{url} {why} after {} s; see {log}", PATIENCE.as_secs());
        }
        line("ready", &url)
    }
}

/// Stops the services, if systemd runs them.
pub(super) fn stop(steps: &mut Steps, layout: &Layout) -> anyhow::Result<()> {
    for unit in [CAPSTAN, ETCD].into_iter().filter(|unit| layout.is_machine() && is_active(unit)) {
        command(Command::new("systemctl").args(["disable", "--now", unit]))?;
        steps.changed("stopped", &format!("{unit}.service"))?;
    }
    Ok(())
}

/// Returns the files of the services: static Pods, which end when they are removed, units, and the user.
pub(super) fn files(layout: &Layout) -> Vec<PathBuf> {
    let pods = [CAPSTAN, ETCD]
        .into_iter()
        .flat_map(|name| [layout.static_pod(name), layout.unstarted_static_pod(name)]);
    pods.chain([layout.unit(CAPSTAN), layout.unit(ETCD), layout.sysusers()]).collect()
}

fn is_active(unit: &str) -> bool {
    let mut command = Command::new("systemctl");
    command.args(["is-active", "--quiet", unit]).status().is_ok_and(|status| status.success())
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// Runs a program. The error has its messages.
fn command(command: &mut Command) -> anyhow::Result<()> {
    let name = format!("{command:?}").replace('"', "");
    let output = command.output().with_context(|| format!("{name}: cannot be started"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Returns the numbers of the user `capstan` and of its group.
fn user() -> Option<(u32, u32)> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = text.lines().find(|line| line.starts_with("capstan:"))?;
    let mut fields = line.split(':').skip(2).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

/// Refuses an address that this machine does not have. Another error says nothing about the address.
pub(super) fn check_listener(address: IpAddr) -> anyhow::Result<()> {
    match TcpListener::bind((address, 0)) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => bail!(
            "--address: this machine does not have {address}, so its etcd cannot listen there. Give an address of the \
             machine; a floating IP is for --endpoint"
        ),
        _ => Ok(()),
    }
}

/// Gives the files of the services to the user `capstan`.
fn give_to_user(layout: &Layout) -> anyhow::Result<()> {
    let (user, group) =
        user().context("there is no user capstan: install the package, or run systemd-sysusers")?;
    give_files(layout, user, group)
}

/// Gives the files of the services to a user.
fn give_files(layout: &Layout, user: u32, group: u32) -> anyhow::Result<()> {
    std::fs::create_dir_all(layout.etcd_data())?;
    for path in [layout.data(), layout.etcd_data(), layout.config(), layout.etcd_config()] {
        give(&path, user, group)?;
    }
    Ok(())
}

fn give(path: &Path, user: u32, group: u32) -> anyhow::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    std::os::unix::fs::lchown(path, Some(user), Some(group))
        .with_context(|| format!("{}: cannot be given to user {user}; run this as root", path.display()))?;
    if found.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), user, group)?;
        }
    }
    Ok(())
}
