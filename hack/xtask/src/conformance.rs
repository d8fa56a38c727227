//! Command `cargo xtask conformance`: the conformance suite, its server and its recorder.

mod authentication;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};

use crate::e2e::{Lab, Process, Reference, Server, Tools, until};
use crate::{prerequisites, run};

/// Compares Capstan with a real kube-apiserver, request by request.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Serve all kinds and the test kind Widget on 127.0.0.1, without controllers, until SIGTERM
    ///
    /// DIR/ca.crt, DIR/client.crt and DIR/client.key (group system:masters) exist before the server listens.
    Serve {
        /// Port to serve on
        #[arg(long)]
        port: u16,
        /// Directory for the credentials and the store [default: a temporary one]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Replay the requests on the embedded store, and compare the responses with the recorded ones
    Compare {
        /// Cases to replay
        #[arg(long, value_enum, default_value_t = Part::Responses)]
        part: Part,
        /// Only cases whose `area/name` contains this text
        #[arg(long, default_value = "")]
        only: String,
        /// Also show the differences that differences.yaml lists
        #[arg(long)]
        all: bool,
        /// Remove entries from differences.yaml that are no longer needed
        #[arg(long)]
        prune: bool,
    },
    /// Send the requests to a real kube-apiserver, and write its responses to goldens/
    Record {
        /// Cases to record
        #[arg(long, value_enum, default_value_t = Part::Responses)]
        part: Part,
        /// Only cases whose `area/name` contains this text
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Create random policies of RBAC in a real kube-apiserver, and write its verdicts to rbac/recorded.json
    RecordRbac {
        /// Seed of the policies
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Let a real kube-apiserver reload each authentication file, and write its errors to authentication/recorded.json
    RecordAuthentication,
}

/// Part of the suite: a directory with cases, recorded results and known differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Responses to requests
    Responses,
    /// Events of the audit log
    Audit,
    /// Refusals and status of quotas, and warnings about types in policies
    Quota,
}

impl Part {
    /// Returns the name of its directory in tests/conformance.
    const fn directory(self) -> &'static str {
        match self {
            Self::Responses => "",
            Self::Audit => "audit",
            Self::Quota => "quota",
        }
    }
}

/// Builds the program of the suite and runs the task.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let suite = Suite::build()?;
    match &arguments.command {
        Task::Serve { port, dir } => {
            let mut command = Command::new(&suite.program);
            command.args(["serve", "--port", &port.to_string()]);
            command.args(dir.iter().flat_map(|dir| [Path::new("--dir"), dir]));
            // One process, so that a signal to this process stops the server.
            Err(command.exec()).with_context(|| format!("{}: cannot be run", suite.program.display()))
        }
        Task::Compare { part, only, all, prune } => {
            let mut more = vec!["--only", only.as_str()];
            more.extend(all.then_some("--all"));
            more.extend(prune.then_some("--prune"));
            suite.embedded(*part, &more)
        }
        Task::Record { part, only } => {
            prerequisites::lab()?;
            let reference = suite.reference()?;
            suite.send("record", *part, &reference.target(), &reference.audit_log(), &["--only", only])
        }
        Task::RecordRbac { seed } => {
            prerequisites::lab()?;
            let reference = suite.reference()?;
            let mut command = Command::new(&suite.program);
            command.arg("record-rbac").args(reference.target()).args(["--seed", &seed.to_string()]);
            run::shown(command.arg("--file").arg(suite.files.join("rbac/recorded.json")))
        }
        Task::RecordAuthentication => {
            prerequisites::lab()?;
            authentication::record(&tools(&suite)?, &suite.program, &suite.files.join("authentication"))
        }
    }
}

/// Runs the live comparison: the recorded results with a real kube-apiserver, and then with Capstan on both stores,
/// directly and through a host. Returns the number of comparisons.
pub(crate) fn live(lab: &Lab) -> anyhow::Result<usize> {
    let suite = Suite::built()?;
    let reference = suite.reference()?;
    for (name, part) in [
        ("a real kube-apiserver returns the recorded responses", Part::Responses),
        ("a real kube-apiserver writes the recorded audit events", Part::Audit),
        ("a real kube-apiserver enforces quotas as recorded", Part::Quota),
    ] {
        one(name, || suite.send("compare", part, &reference.target(), &reference.audit_log(), &["--real"]))?;
    }
    drop(reference);
    let keep = |error: anyhow::Error| error.context(format!("logs are in {}", lab.keep_logs()));
    let server = Server { path: suite.program.clone(), arguments: PRODUCT_WITH_WIDGET };
    lab.serve_with(server).map_err(keep)?;
    let compare = |target: &[String], more: &[&str]| {
        suite.send("compare", Part::Responses, target, Path::new(""), more)
    };
    one("Capstan with etcd returns the recorded responses, directly", || {
        compare(&lab.direct_target(&suite.program)?, &["--prefix", "d-"])
    })
    .map_err(keep)?;
    one("Capstan with etcd returns the recorded responses, through a host", || {
        compare(&lab.host_target(), &["--prefix", "h-", "--through-host"])
    })
    .map_err(keep)?;
    for (name, part) in [
        ("Capstan with the embedded store returns the recorded responses", Part::Responses),
        ("Capstan writes the recorded audit events under the same policy", Part::Audit),
        ("Capstan enforces quotas as recorded", Part::Quota),
    ] {
        one(name, || suite.embedded(part, &[]))?;
    }
    Ok(8)
}

fn one(name: &str, comparison: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let started = Instant::now();
    comparison().with_context(|| format!("FAILED: conformance: {name}"))?;
    eprintln!("ok      conformance: {name} ({:.1} s)", started.elapsed().as_secs_f64());
    Ok(())
}

/// Subcommand of the suite's program that behaves as `capstan` with one additional kind.
const PRODUCT_WITH_WIDGET: &[&str] = &["capstan"];

fn tools(suite: &Suite) -> anyhow::Result<Tools> {
    Ok(Tools {
        etcd: prerequisites::current_etcd()?,
        kube_apiserver: prerequisites::kubernetes("kube-apiserver")?,
        kubectl: prerequisites::kubernetes("kubectl")?,
        capstan: suite.program.clone(),
    })
}

/// Program of the conformance suite, and the directory with its files.
struct Suite {
    program: PathBuf,
    files: PathBuf,
}

impl Suite {
    fn build() -> anyhow::Result<Self> {
        prerequisites::build()?;
        run::shown(&mut run::cargo(&["build", "--quiet", "--locked", "--package", "tests-conformance"])?)?;
        Self::built()
    }

    /// Returns the suite's program that was built before, e.g. with all tests.
    fn built() -> anyhow::Result<Self> {
        let files = run::root()?.join("tests/conformance");
        Ok(Self { program: run::target()?.join("debug/conformance"), files })
    }

    /// Starts a real kube-apiserver with the audit policy of the suite.
    fn reference(&self) -> anyhow::Result<Reference> {
        Reference::start(&tools(self)?, &self.audit_policy())
    }

    fn audit_policy(&self) -> PathBuf {
        self.files.join("audit/policy.yaml")
    }

    /// Sends the requests of a part to a server, and compares or records the results. `log`: the audit log of the server.
    fn send(
        &self,
        task: &str,
        part: Part,
        target: &[String],
        log: &Path,
        more: &[&str],
    ) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        command.arg(task).arg("--suite").arg(self.files.join(part.directory())).args(target).args(more);
        if part == Part::Audit {
            command.arg("--audit-log").arg(log);
        }
        run::shown(&mut command)
    }

    /// Starts a server on the embedded store, and compares its results.
    fn embedded(&self, part: Part, more: &[&str]) -> anyhow::Result<()> {
        let name = format!("capstan-conformance-{}-{}", std::process::id(), part.directory());
        let home = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&home)?;
        let result = self.in_home(&home, part, more);
        match &result {
            Ok(()) => std::fs::remove_dir_all(&home)?,
            Err(_) => eprintln!("the server's log is in {}", home.join("server.log").display()),
        }
        result
    }

    fn in_home(&self, home: &Path, part: Part, more: &[&str]) -> anyhow::Result<()> {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut command = Command::new(&self.program);
        command.args(["serve", "--with-parent", "--port", &port.to_string(), "--dir"]).arg(home);
        match part {
            Part::Responses => &mut command,
            Part::Audit => command.arg("--audit-policy").arg(self.audit_policy()),
            Part::Quota => command.arg("--controllers"),
        };
        let mut server = Process::start("conformance", &mut command, &home.join("server.log"))?;
        let address = format!("127.0.0.1:{port}");
        until("the server accepts connections", || {
            server.check()?;
            Ok(std::net::TcpStream::connect(&address).is_ok())
        })?;
        let file = |name: &str| home.join(name).display().to_string();
        let target = target(&address, &file("ca.crt"), &file("client.crt"), &file("client.key"));
        self.send("compare", part, &target, &home.join("data/audit/audit.log"), more)
    }
}

/// Returns the arguments of the suite's program with the address of a server and the client credentials.
pub(crate) fn target(server: &str, ca: &str, certificate: &str, key: &str) -> Vec<String> {
    ["--server", server, "--ca", ca, "--cert", certificate, "--key", key].map(str::to_owned).to_vec()
}

impl Lab {
    /// Returns the arguments to reach the host as its administrator.
    fn host_target(&self) -> Vec<String> {
        let file = |name: &str| self.certificates.path(name);
        let address = format!("127.0.0.1:{}", self.host_port);
        target(&address, &file("kube-ca.crt"), &file("admin.crt"), &file("admin.key"))
    }

    /// Returns the arguments to reach Capstan directly, with a client certificate of its own CA.
    fn direct_target(&self, program: &Path) -> anyhow::Result<Vec<String>> {
        let data = self.data();
        let home = data.parent().context("the data directory has no parent")?;
        run::shown(Command::new(program).arg("mint").arg("--dir").arg(home))?;
        let file = |name: &str| home.join(name).display().to_string();
        let address = format!("127.0.0.1:{}", self.capstan_port);
        Ok(target(&address, &file("ca.crt"), &file("client.crt"), &file("client.key")))
    }
}
