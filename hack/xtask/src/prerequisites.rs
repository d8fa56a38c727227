//! What commands need, installed or named before they need it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::run;

/// The cargo-deny that checks are made with.
const CARGO_DENY: &str = "0.20.2";

/// A Debian package and a file that says it is there.
struct Package {
    name: &'static str,
    proof: &'static str,
}

/// What `etcd-client` needs to be built: the compiler, and the descriptions that come with it.
const PROTOC: [Package; 2] = [
    Package { name: "protobuf-compiler", proof: "/usr/bin/protoc" },
    Package { name: "libprotobuf-dev", proof: "/usr/include/google/protobuf/descriptor.proto" },
];

/// What the end-to-end lab makes certificates and forged requests with.
const LAB: [Package; 2] = [
    Package { name: "openssl", proof: "/usr/bin/openssl" },
    Package { name: "curl", proof: "/usr/bin/curl" },
];

/// What libFuzzer is built with.
const COMPILER: [Package; 1] = [Package { name: "g++", proof: "/usr/bin/g++" }];

/// The distribution's etcd.
const ETCD: Package = Package { name: "etcd-server", proof: "/usr/bin/etcd" };

/// What counts instructions.
const VALGRIND: Package = Package { name: "valgrind", proof: "/usr/bin/valgrind" };

/// Makes sure that instructions can be counted.
pub(crate) fn valgrind() -> anyhow::Result<()> {
    install(&[VALGRIND])
}

/// Makes sure that the workspace can be built.
pub(crate) fn build() -> anyhow::Result<()> {
    if run::is_there("protoc") && !Path::new("/usr/bin/protoc").exists() {
        // Somebody's own protoc, which brings its descriptions along.
        return Ok(());
    }
    install(&PROTOC)
}

/// Makes sure that the end-to-end lab can be built.
pub(crate) fn lab() -> anyhow::Result<()> {
    if run::is_there("openssl") && run::is_there("curl") { Ok(()) } else { install(&LAB) }
}

/// Makes sure that C++ can be built.
pub(crate) fn compiler() -> anyhow::Result<()> {
    if run::is_there("c++") { Ok(()) } else { install(&COMPILER) }
}

/// Whether a real OpenStack can be brought up here; if not, why.
pub(crate) fn openstack() -> anyhow::Result<()> {
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !system.lines().any(|line| line == "VERSION_CODENAME=bookworm") {
        bail!("hack/openstack/up.sh needs the OpenStack packages of Debian 12 (bookworm)");
    }
    if !is_root() {
        bail!("hack/openstack/up.sh installs packages and makes bridges, so it needs root");
    }
    Ok(())
}

fn is_root() -> bool {
    run::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Makes sure that the distribution's etcd is there, and returns where.
pub(crate) fn distribution_etcd() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("CAPSTAN_ETCD_DISTRIBUTION") {
        return Ok(path.into());
    }
    install(&[ETCD])?;
    Ok(ETCD.proof.into())
}

fn install(packages: &[Package]) -> anyhow::Result<()> {
    let missing: Vec<&str> = packages
        .iter()
        .filter(|package| !Path::new(package.proof).exists())
        .map(|package| package.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !run::is_there("apt-get") || !is_root() {
        bail!("missing: {names}. Install them, on Debian with: sudo apt-get install -y {names}");
    }
    eprintln!("installing {names}");
    // Servers that come with a package are started by whoever needs them, not by the package.
    let environment = [("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")];
    run::shown(Command::new("apt-get").args(["update", "-qq"]).envs(environment))?;
    let mut command = Command::new("apt-get");
    command.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing).envs(environment);
    run::shown(&mut command)
}

/// cargo-deny, built once into the cache.
pub(crate) fn cargo_deny() -> anyhow::Result<PathBuf> {
    let home = run::cache()?.join("tools").join(format!("cargo-deny-{CARGO_DENY}"));
    let binary = home.join("bin/cargo-deny");
    if !binary.exists() {
        eprintln!("building cargo-deny {CARGO_DENY}, once");
        let mut command =
            run::cargo(&["install", "--locked", "--quiet", "cargo-deny", "--version", CARGO_DENY, "--root"])?;
        // A target directory of its own: the workspace's settings are not this tool's.
        command.arg(&home).env_remove("CARGO_TARGET_DIR");
        run::shown(&mut command)?;
    }
    Ok(binary)
}

/// A Go program of a module in `hack/tools`, built once into the cache.
pub(crate) fn go_tool(set: &str, module: &str, package: &str, name: &str) -> anyhow::Result<PathBuf> {
    let module_directory = run::root()?.join("hack/tools").join(set);
    let version = pinned(&module_directory.join("go.mod"), module)?;
    let home = run::cache()?.join("tools").join(format!("{set}-{version}"));
    let binary = home.join(name);
    if binary.exists() {
        return Ok(binary);
    }
    if !run::is_there("go") {
        bail!(
            "{name} {version} is built with Go, which is missing. Install it, on Debian with: sudo apt-get install -y golang"
        );
    }
    eprintln!("building {name} {version}, once (kube-apiserver takes about ten minutes)");
    // What is published beside Kubernetes as 0.36 is of its release 1.36, and would not start as anything else.
    let release = version.strip_prefix("v0.").filter(|_| module.starts_with("k8s.io/"));
    let release = release.map_or_else(|| version.clone(), |rest| format!("v1.{rest}"));
    let mut numbers = release.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let base = "k8s.io/component-base/version";
    let flags =
        format!("-s -w -X {base}.gitVersion={release} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}");
    std::fs::create_dir_all(&home).with_context(|| format!("{}: cannot be made", home.display()))?;
    // Built beside and moved: an interrupted build must not look like a finished one.
    let unfinished = home.join(format!("{name}.unfinished"));
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(&unfinished).arg(package);
    command.current_dir(&module_directory).env("CGO_ENABLED", "0");
    run::shown(&mut command)?;
    std::fs::rename(&unfinished, &binary)
        .with_context(|| format!("{}: cannot be put in place", binary.display()))?;
    Ok(binary)
}

/// The version a go.mod requires of a module.
fn pinned(go_mod: &Path, module: &str) -> anyhow::Result<String> {
    let text =
        std::fs::read_to_string(go_mod).with_context(|| format!("{}: cannot be read", go_mod.display()))?;
    let found = text.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next()).flatten()
    });
    found.map(str::to_owned).with_context(|| format!("{} does not require {module}", go_mod.display()))
}

/// A current etcd.
pub(crate) fn current_etcd() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("CAPSTAN_ETCD_CURRENT") {
        return Ok(path.into());
    }
    go_tool("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "etcd")
}

/// A program of the pinned Kubernetes release.
pub(crate) fn kubernetes(name: &str) -> anyhow::Result<PathBuf> {
    go_tool("kubernetes", "k8s.io/kubernetes", &format!("k8s.io/kubernetes/cmd/{name}"), name)
}

/// The Go project's sample of an aggregated server.
pub(crate) fn sample_apiserver() -> anyhow::Result<PathBuf> {
    let module = "k8s.io/sample-apiserver";
    go_tool("sample-apiserver", module, module, "sample-apiserver")
}

/// A kubectl some minors older than the pinned release.
pub(crate) fn older_kubectl() -> anyhow::Result<PathBuf> {
    go_tool("kubectl", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl", "kubectl")
}

/// clusterctl.
pub(crate) fn clusterctl() -> anyhow::Result<PathBuf> {
    let module = "sigs.k8s.io/cluster-api";
    go_tool("cluster-api", module, &format!("{module}/cmd/clusterctl"), "clusterctl")
}

/// Helm.
pub(crate) fn helm() -> anyhow::Result<PathBuf> {
    go_tool("helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm", "helm")
}

/// A program of our own in `hack/tools`. Go's own cache knows whether it must be built again.
pub(crate) fn go_program(directory: &str, name: &str) -> anyhow::Result<PathBuf> {
    let binary = run::target()?.join(name);
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-o"]).arg(&binary).arg(".");
    command.current_dir(run::root()?.join("hack/tools").join(directory)).env("CGO_ENABLED", "0");
    run::shown(&mut command)?;
    Ok(binary)
}

/// A Python with the client that `hack/tools/python` pins.
pub(crate) fn python_clients() -> anyhow::Result<PathBuf> {
    let pins = run::root()?.join("hack/tools/python/requirements.txt");
    let text = std::fs::read_to_string(&pins).with_context(|| format!("{}", pins.display()))?;
    let pinned = text.lines().find_map(|line| line.strip_prefix("kubernetes=="));
    let version = pinned.with_context(|| format!("{} pins no kubernetes", pins.display()))?;
    let home = run::cache()?.join("tools").join(format!("python-kubernetes-{version}"));
    let (python, finished) = (home.join("bin/python"), home.join("finished"));
    if !finished.exists() {
        eprintln!("installing the Python client {version}, once");
        if let Err(error) = run::shown(Command::new("python3").args(["-m", "venv"]).arg(&home)) {
            // Debian ships the module apart.
            install(&[Package { name: "python3-venv", proof: "/usr/share/doc/python3-venv" }])
                .with_context(|| format!("{error:#}"))?;
            run::shown(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        }
        run::shown(
            Command::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&pins),
        )?;
        std::fs::write(&finished, "").with_context(|| format!("{}", finished.display()))?;
    }
    Ok(python)
}
