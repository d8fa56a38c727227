//! KMS plug-in on the server library of Kubernetes (`hack/tools/kms`), and a server of its own that uses it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::lab::{Lab, ports, until};
use super::process::Process;
use crate::{prerequisites, run};

/// Name of the scenario, for the case that the plug-in cannot be built.
const SCENARIO: &str = "the scenario with a KMS plug-in";

/// User of the server, and of its kubeconfig.
const ADMIN: &str = "kms";

/// Value of each Secret, and its form in JSON.
const WORD: &str = "sealed-by-a-plug-in";
const ENCODED: &[u8] = b"c2VhbGVkLWJ5LWEtcGx1Zy1pbg==";

/// Keys of the plug-in. Each has 32 bytes.
const FIRST: (&str, &str) = ("key-one", "11");
const SECOND: (&str, &str) = ("key-two", "22");

/// Secrets are sealed by the plug-in, survive a new key and a restart, and are readable while the plug-in is down.
pub(super) fn seals(lab: &Lab) -> anyhow::Result<()> {
    let program = match prerequisites::go_program("kms", "kms-plugin") {
        Ok(program) => program,
        Err(why) => {
            return run::skip(
                SCENARIO,
                why.context("Go cannot build hack/tools/kms, which needs k8s.io/kms"),
            );
        }
    };
    let scene = Scene::new(lab, program)?;
    let (plugin, server) = (scene.plugin(&[FIRST])?, scene.serve()?);
    scene.create("one")?;
    scene.stored(b"k8s:enc:kms:v2:lab:")?;
    scene.stored(FIRST.0.as_bytes())?;
    drop((server, plugin));

    let (plugin, server) = (scene.plugin(&[FIRST, SECOND])?, scene.serve()?);
    scene.read("one").context("the plug-in opens the seed of its former key")?;
    scene.create("two")?;
    scene.stored(SECOND.0.as_bytes())?;
    plugin.kill()?;
    for name in ["one", "two"] {
        scene.read(name).context("the seeds are in memory")?;
    }
    scene.create("three").context("the last good status is not three minutes old")?;
    lab.kubectl(ADMIN, &["get", "--raw", "/readyz/kms-providers"])?;
    drop(server);
    ensure!(!scene.has(ENCODED)?, "a file of the store has the value of a Secret");
    Ok(())
}

struct Scene<'l> {
    lab: &'l Lab,
    program: PathBuf,
    home: PathBuf,
    socket: PathBuf,
    config: String,
    port: u16,
}

impl<'l> Scene<'l> {
    fn new(lab: &'l Lab, program: PathBuf) -> anyhow::Result<Self> {
        let home = lab.directory("kms");
        std::fs::create_dir_all(&home)?;
        let socket = home.join("kms.sock");
        let rules = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
             - resources: [secrets]\n  providers:\n  - kms: {{apiVersion: v2, name: lab, endpoint: 'unix://{}'}}\n",
            socket.display()
        );
        let rules = lab.file("kms/encryption.yaml", &rules)?;
        let config = format!(
            "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nencryptionConfigFile: {rules}\n"
        );
        let config = lab.file("kms/config.yaml", &config)?;
        let [port] = ports()?;
        Ok(Self { lab, program, home, socket, config, port })
    }

    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Starts the plug-in, which seals with the last key, and waits for its socket: a server does not start without it.
    fn plugin(&self, keys: &[(&str, &str)]) -> anyhow::Result<Process> {
        if self.socket.exists() {
            std::fs::remove_file(&self.socket)?;
        }
        let mut command = Command::new(&self.program);
        command.arg("--socket").arg(&self.socket);
        for (id, byte) in keys {
            command.args(["--key", &format!("{id}={}", byte.repeat(32))]);
        }
        let mut process = Process::start("kms-plugin", &mut command, &self.log("kms-plugin"))?;
        until("the plug-in listens", || {
            process.check()?;
            Ok(self.socket.exists())
        })?;
        Ok(process)
    }

    /// Starts the server, and waits until it is ready.
    fn serve(&self) -> anyhow::Result<Process> {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut command = Command::new(&self.lab.tools.capstan);
        command.args(["serve", "--listen", &listen, "--config", &self.config, "--shutdown-delay", "0s"]);
        command.arg("--data-dir").arg(self.data());
        let mut process = Process::start("capstan", &mut command, &self.log("kms"))?;
        let log = || format!("its log is in {}", self.lab.keep_logs());
        until("the server has a CA", || {
            process.check().with_context(log)?;
            Ok(self.data().join("pki/ca.crt").exists())
        })?;
        let mut mint = Command::new(&self.lab.tools.capstan);
        mint.args(["kubeconfig", "--user", ADMIN, "--group", "capstan:admins", "--expires", "1h"]);
        mint.args(["--server", &format!("https://{listen}"), "--data-dir"]).arg(self.data());
        let path = self.lab.certificates.path(&format!("{ADMIN}.kubeconfig"));
        std::fs::write(path, run::output(&mut mint)?)?;
        until("the server with the plug-in is ready", || {
            process.check().with_context(log)?;
            // A new server creates its namespaces and its roles beside the first requests.
            let serves = |path: &str| anyhow::Ok(self.lab.try_kubectl(ADMIN, &["get", "--raw", path])?.0);
            Ok(serves("/readyz")? && serves("/api/v1/namespaces/default")?)
        })?;
        Ok(process)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.lab.directory("log").join(format!("{name}.log"))
    }

    fn create(&self, name: &str) -> anyhow::Result<()> {
        let word = format!("--from-literal=word={WORD}");
        self.lab.kubectl(ADMIN, &["create", "secret", "generic", name, "-n", "default", &word])?;
        self.read(name)
    }

    fn read(&self, name: &str) -> anyhow::Result<()> {
        let read = ["get", "secret", name, "-n", "default", "-o", "jsonpath={.data.word}"];
        let found = self.lab.kubectl(ADMIN, &read)?;
        ensure!(found.as_bytes() == ENCODED, "Secret {name} has {found:?}");
        Ok(())
    }

    /// Checks that a file of the store has some bytes.
    fn stored(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        ensure!(self.has(bytes)?, "no file of the store has {text:?}");
        Ok(())
    }

    fn has(&self, bytes: &[u8]) -> anyhow::Result<bool> {
        let mut found = false;
        for entry in std::fs::read_dir(self.data())? {
            let path = entry?.path();
            let is_store = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("store"));
            found |= is_store && contains(&path, bytes)?;
        }
        Ok(found)
    }
}

fn contains(path: &Path, bytes: &[u8]) -> anyhow::Result<bool> {
    let content = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(content.windows(bytes.len()).any(|window| window == bytes))
}
