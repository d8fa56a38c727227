//! Network namespaces on a bridge: each is a machine with an address of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run;

/// Network of the machines. It leads nowhere else.
pub(super) struct Network {
    /// Part of all names, which differs between runs.
    id: u32,
    machines: Vec<String>,
}

impl Network {
    /// Creates the bridge, with an address for the load balancer, and `count` machines.
    pub(super) fn create(count: u8) -> anyhow::Result<Self> {
        let id = std::process::id() % 10_000;
        let mut network = Self { id, machines: Vec::new() };
        let bridge = network.bridge();
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        let outside = format!("{}/24", network.address(0));
        ip(&["address", "add", &outside, "dev", &bridge])?;
        ip(&["link", "set", &bridge, "up"])?;
        for number in 1..=count {
            network.add(number)?;
        }
        Ok(network)
    }

    fn add(&mut self, number: u8) -> anyhow::Result<()> {
        let (machine, port) = (self.machine(number), format!("cap{}p{number}", self.id));
        ip(&["netns", "add", &machine])?;
        self.machines.push(machine.clone());
        ip(&["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &machine])?;
        ip(&["link", "set", &port, "master", &self.bridge(), "up"])?;
        let address = format!("{}/24", self.address(number));
        ip(&["-n", &machine, "address", "add", &address, "dev", "eth0"])?;
        ip(&["-n", &machine, "link", "set", "eth0", "up"])?;
        ip(&["-n", &machine, "link", "set", "lo", "up"])
    }

    /// Gives a machine a name that stands for several addresses, as records of DNS do.
    pub(super) fn add_name(&self, number: u8, name: &str, of: &[u8]) -> anyhow::Result<()> {
        let directory = self.files(number);
        std::fs::create_dir_all(&directory)?;
        let lines: Vec<String> =
            of.iter().map(|other| format!("{} {name}\n", self.address(*other))).collect();
        Ok(std::fs::write(directory.join("hosts"), lines.concat())?)
    }

    /// Returns the directory whose files a machine has in /etc.
    fn files(&self, number: u8) -> PathBuf {
        Path::new("/etc/netns").join(self.machine(number))
    }

    fn bridge(&self) -> String {
        format!("cap{}br", self.id)
    }

    fn machine(&self, number: u8) -> String {
        format!("cap{}n{number}", self.id)
    }

    /// Returns the address of a machine, or with 0 that of the load balancer.
    pub(super) fn address(&self, number: u8) -> IpAddr {
        let third = u8::try_from(self.id % 250).unwrap_or_default();
        let last = if number == 0 { 254 } else { number };
        Ipv4Addr::new(10, 97, third, last).into()
    }

    pub(super) fn api(&self, number: u8) -> SocketAddr {
        SocketAddr::new(self.address(number), 7443)
    }

    /// Returns the command of a program on a machine.
    pub(super) fn command(&self, number: u8, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.machine(number)]).arg(program);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in &self.machines {
            let _ = ip(&["netns", "delete", machine]);
            let _ = std::fs::remove_dir_all(Path::new("/etc/netns").join(machine));
        }
        let _ = ip(&["link", "delete", &self.bridge()]);
    }
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    run::output(Command::new("ip").args(arguments)).map(drop)
}

/// Reports whether this machine can have namespaces.
pub(super) fn is_possible() -> bool {
    let name = format!("cap{}probe", std::process::id() % 10_000);
    let is_there = ip(&["netns", "add", &name]).is_ok();
    let _ = ip(&["netns", "delete", &name]);
    is_there
}

/// Returns the root folder of a machine.
pub(super) fn root(home: &Path, number: u8) -> PathBuf {
    home.join(format!("n{number}"))
}
