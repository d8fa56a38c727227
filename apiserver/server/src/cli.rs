//! Command line of `capstan`, with its help texts.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod ca;
pub(crate) mod encryption;
pub(crate) mod install;
pub(crate) mod orphans;
pub(crate) mod prune;

pub(crate) use self::install::{
    DoctorArguments, InitArguments, JoinArguments, JoinTokenCommand, LeaveArguments, ResetArguments,
    TokenCreateArguments,
};
use std::path::PathBuf;
use std::time::Duration;

use apiserver_cli::{
    ConnectionArguments, DescribeCommand, ExplainAccessArguments, ExplainArguments, HostStatusArguments,
    LoginCommand, PlanCommand, WhyArguments,
};
use apiserver_host::PolicyParameters;
use clap::{ArgGroup, Args, Parser, Subcommand};

pub(crate) use self::audit::{AuditCommand, AuditVerifyArguments};
pub(crate) use self::backup::{
    BackupArguments, BackupCommand, DefragArguments, DowngradeArguments, MigrateArguments, RestoreArguments,
    StorageCommand, StoreArguments, StoreKind, UpgradeCommand, UpgradePlanArguments,
};
pub(crate) use self::ca::{
    CaCommand, CaCreateArguments, CaFinishArguments, CaRotationArguments, CertificatesCommand,
};
pub(crate) use self::encryption::{EncryptionCommand, EncryptionPromoteArguments};
pub(crate) use self::orphans::OrphansArguments;
pub(crate) use self::prune::PruneNamespacesArguments;

/// Management plane for Kubernetes clusters on OpenStack: serves the Cluster API from one binary,
/// with its own storage, endpoint and identities.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the API
    ///
    /// Without options, the server listens on loopback, uses an embedded store and creates its own
    /// certificates. It logs the paths of its files at startup:
    ///
    ///   DATA/store.redb*       the objects, and the journal of the newest writes
    ///   DATA/pki/              the CA, the serving certificate and their keys
    ///   DATA/encryption.yaml   the key that encrypts Secrets: back it up
    ///   DATA/audit/            the audit log
    ///   DATA/audit.key         the key of the audit log, with audit.chain.enabled in --config: back it up
    ///
    /// Example: capstan serve --data-dir /var/lib/capstan --listen 192.0.2.10:7443
    #[command(verbatim_doc_comment)]
    Serve(ServeArguments),
    /// Print an object and everything that belongs to it, with the reasons of what is not ready
    #[command(subcommand)]
    Describe(DescribeCommand),
    /// Print what a change would do to the objects and the Machines of a cluster, before you make it
    ///
    /// The running server checks the change as a real one, and repeats the decisions of its controllers on a model.
    /// Nothing is changed. Without --filename, the plan is that of the object as it is.
    ///
    /// KEEP: the Machine stays. IN PLACE: it stays, and some of its fields change. REPLACE: a new Machine takes its
    /// place. OBSTACLES are the reasons for which the steps are not taken now.
    ///
    /// Example: capstan plan cluster prod -n team -f prod.yaml
    #[command(subcommand, verbatim_doc_comment)]
    Plan(PlanCommand),
    /// Print what holds up a Cluster: the first cause, its age, and what to do
    ///
    /// The running server follows the conditions of its stored objects: from the Cluster to its infrastructure, its
    /// control plane and its workers, then to a Machine and its server or Node. Each part that something holds up is a
    /// chain, the most urgent one first. Nothing is changed.
    ///
    /// Example: capstan why prod -n team
    #[command(verbatim_doc_comment)]
    Why(WhyArguments),
    /// Print what a reason of a condition means, its causes, and what to do
    ///
    /// The pages are part of this program, so the command needs no server. Without REASON, it lists all reasons.
    /// The reason may be written in any case. If there is no such reason, the command names similar ones, and the
    /// exit code is 1.
    ///
    /// Example: capstan explain QuotaExceeded
    #[command(verbatim_doc_comment)]
    Explain(ExplainArguments),
    /// Print the answer of each authorizer to a request of a user, and the verdict
    ///
    /// The running server decides, as it does about a request of this user, but asks all of its authorizers.
    /// AGE is the age of a copy of the host cluster's data, if one was used. Nothing is done. You need the
    /// permission to create subjectaccessreviews, which the ClusterRole system:auth-delegator has.
    ///
    /// The exit code is 0 for each verdict.
    ///
    /// Example: capstan explain-access --user alice --group dev --verb list --resource secrets -n team
    /// Example: capstan explain-access --user alice --verb create --resource machines --subresource reboot
    ///          --namespace team --name m1 -o json
    /// Example: capstan explain-access --user bob --endpoint host --verb get --resource clusters -n team
    #[command(verbatim_doc_comment)]
    ExplainAccess(ExplainAccessArguments),
    /// Print a kubeconfig: of Capstan itself, or with --cluster of a workload cluster
    ///
    /// Without --cluster, the command creates a client certificate for Capstan's own API. The server's
    /// own CA signs it, so run this on the machine with the data directory. Roles decide what the user
    /// may do. The default group capstan:admins is bound to the role cluster-admin.
    ///
    /// With --break-glass, the user may do everything, whatever the roles say. Such a certificate is
    /// valid for 24 hours at most. Its first use is an Event of type Warning, and each audit line of its
    /// requests has the reason.
    ///
    /// With --cluster NAME, the command is a client of Capstan or of the host cluster. It reads the
    /// administrator's kubeconfig of that workload cluster from the key `value` of Secret
    /// NAME-kubeconfig.
    ///
    /// Example: capstan kubeconfig --user alice --group team --expires 30d --output alice.kubeconfig
    /// Example: capstan kubeconfig --user alice --break-glass --reason "INC-7: no role binds anybody" --expires 1h
    /// Example: capstan kubeconfig --cluster prod -n team --output prod.kubeconfig
    #[command(verbatim_doc_comment)]
    Kubeconfig(KubeconfigArguments),
    /// Get a credential for kubectl, as its plug-in
    #[command(subcommand)]
    Login(LoginCommand),
    /// Connect a host cluster: print its manifests, wait until it serves the APIs, and print its state
    #[command(subcommand)]
    Host(HostCommand),
    /// Create and rotate the server's own certificate authorities
    ///
    /// Three CAs are in the store: serving signs the serving certificates, client signs those of people
    /// and programs, and machine signs those of machines. Each one is rotated in three steps, and each
    /// step can be repeated: start, promote, finish.
    #[command(subcommand, verbatim_doc_comment)]
    Ca(CaCommand),
    /// Rotate the keys that encrypt Secrets, over all replicas
    ///
    /// The steps are add, promote, reencrypt and finish. Each one can be repeated, and is refused while it
    /// could make a value unreadable for a replica. With etcd, the commands work while servers run. The
    /// embedded store can be open only once: stop the server, except for add.
    #[command(subcommand, verbatim_doc_comment)]
    Encryption(EncryptionCommand),
    /// Print the replicas that use the store: versions, stored forms, encryption keys and addresses
    ///
    /// With the embedded store, the running server answers the command. Its address is `listen` in --config.
    ///
    /// Example: capstan replicas --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Replicas(StoreArguments),
    /// Plan an upgrade
    #[command(subcommand)]
    Upgrade(UpgradeCommand),
    /// List client certificates
    #[command(subcommand)]
    Certificates(CertificatesCommand),
    /// Write a backup of all objects to a file
    ///
    /// The file has all objects as of one moment, sealed with the backup key. It is complete, was read
    /// back and checked when the command ends. Secrets in it stay encrypted with the key in
    /// encryption.yaml, which is not in the file, and neither is the CA: save the data directory, too.
    ///
    /// With etcd, the command works while servers run. The embedded store can be open only once: stop the
    /// server, let it write backups by itself (backup.schedule in its configuration), or get one through it.
    ///
    /// With --kubeconfig, a running server writes the backup, and seals it with its own backup key. The user needs the
    /// verb `post` on the nonresource path /capstan/v1/backup.
    ///
    /// Example: capstan backup key /etc/capstan/backup.key
    /// Example: capstan backup --config /etc/capstan/config.yaml --to /var/backups/capstan
    /// Example: capstan backup --kubeconfig admin.kubeconfig --to swift://backups/prod
    #[command(verbatim_doc_comment)]
    Backup(BackupArguments),
    /// Check a backup, or write its objects to a store
    ///
    /// The command first reads the whole backup, and prints which of its values the encryption keys of the
    /// server open. It writes only to an empty store, or with --replace: then it keeps the old objects, in
    /// etcd below /capstan-replaced-TIME/, and in the data directory as store.redb-replaced-TIME.
    ///
    /// Stop the servers, or let them run on etcd: they answer 503 until the restore ends. Afterwards every
    /// resourceVersion is larger than before, and watches start again. If the command is interrupted, run
    /// it again: it continues. No server serves a store that was restored in part.
    ///
    /// Example: capstan restore prod.capstan-backup --verify-only --key-file backup.key
    /// For half an hour afterwards, Capstan removes nothing from clouds and workload clusters that no object knows: it
    /// may have been created after the backup. Compare them by `capstan orphans`, and end that time by --done.
    ///
    /// Example: capstan restore prod.capstan-backup --to etcd --replace --config /etc/capstan/config.yaml
    /// Example: capstan restore --done --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Restore(RestoreArguments),
    /// List resources in the clouds that have an ownership tag of Capstan, but no object
    ///
    /// Use it after a restore: the clouds are newer than the backup. The command reads the objects through
    /// the API, and the resources with the credentials in the Secrets that the objects name, or in --clouds.
    /// It changes and deletes nothing. Resources of another installation in the same project are listed, too.
    ///
    /// The exit code is 1 if a resource has no object, or if the list is not complete.
    ///
    /// Example: capstan orphans --kubeconfig admin.kubeconfig
    /// Example: capstan orphans --kubeconfig admin.kubeconfig --clouds clouds.yaml --cloud prod -o json
    #[command(verbatim_doc_comment)]
    Orphans(OrphansArguments),
    /// Verify the audit log, and create keys for it
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Move all objects to another store, change the form in which this one has them, and maintain etcd
    #[command(subcommand)]
    Storage(StorageCommand),
    /// Install Capstan on the first of one or more machines, without a host cluster
    ///
    /// The command creates the CA, the keys, the configurations of Capstan and of its etcd, the units, and the
    /// kubeconfig of the first administrator. With systemd, it starts both services. Then it prints the recovery
    /// key once, and the command with which another machine joins. Each step prints a line. A second run changes
    /// nothing. On a terminal, the command asks about settings without a flag, unless --yes is given.
    ///
    /// With --print, it prints the configuration of a program that gives all machines one address.
    ///
    /// Example: capstan init --yes --name prod --address 192.0.2.1 --endpoint 192.0.2.9
    /// Example: capstan init --print keepalived --endpoint 192.0.2.9 --node a=192.0.2.1 --node b=192.0.2.2
    #[command(verbatim_doc_comment)]
    Init(InitArguments),
    /// Add this machine to an installation
    ///
    /// The token names the CA of the installation. If the server has another CA, nothing is sent to it. The machine
    /// receives the CA and the encryption key, joins etcd as a learner, and gets a vote when it has all data. Each
    /// step prints a line. If the command is interrupted, run it again: it continues.
    ///
    /// Example: capstan join https://192.0.2.1:7443 --token cap1.…
    #[command(verbatim_doc_comment)]
    Join(JoinArguments),
    /// Create a token with which another machine joins
    #[command(subcommand)]
    JoinToken(JoinTokenCommand),
    /// Check this machine and its installation: certificates, keys, disk, server, etcd, host cluster, backups, replicas
    ///
    /// The checks of the replicas compare their versions, stored forms, encryption keys and clocks. Those of the
    /// clouds are results of the controllers: the command itself calls no cloud.
    ///
    /// Each check prints a line with a remedy. The exit code is 1 if a check has found an error.
    ///
    /// Example: capstan doctor --json
    #[command(verbatim_doc_comment)]
    Doctor(DoctorArguments),
    /// Remove this machine from its installation, and all files of Capstan from this machine
    ///
    /// The command first removes the member of etcd, while the others are healthy. Then it does what `capstan reset`
    /// does. With --lost, it removes the member of a lost machine, and nothing of this one.
    ///
    /// Example: capstan leave --lost c
    #[command(verbatim_doc_comment)]
    Leave(LeaveArguments),
    /// Remove all files of Capstan and of its etcd from this machine, the objects included
    ///
    /// The other machines are not contacted. If there are any, use `capstan leave`.
    #[command(verbatim_doc_comment)]
    Reset(ResetArguments),
    /// Create the keys that several replicas share
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print the script with which a shell completes commands of `capstan`
    ///
    /// Example: capstan completion bash > /etc/bash_completion.d/capstan
    #[command(verbatim_doc_comment)]
    Completion(CompletionArguments),
    /// Write the manual as pages for `man`
    #[command(hide = true)]
    Manual(ManualArguments),
    /// Print the version
    Version,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManualArguments {
    /// Directory for the pages, one for each command
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create the keys of a new installation as files, and keep those that exist
    ///
    /// The files are the CA (pki/ca.crt, pki/ca.key) and the key that encrypts Secrets (encryption.yaml).
    /// manifests/keys makes Secrets of them for all replicas. The directory also serves as --data-dir of
    /// `capstan kubeconfig` and `capstan host manifests`.
    ///
    /// With --etcd the command also creates a CA of its own for etcd, and signs a certificate for the
    /// members of manifests/overlays/ha-etcd and one for Capstan. They are valid for ten years. To
    /// replace one, delete its files and run the command again.
    ///
    /// Example: capstan keys create --output manifests/keys --etcd
    #[command(verbatim_doc_comment)]
    Create(KeysCreateArguments),
}

#[derive(Debug, Args)]
pub(crate) struct KeysCreateArguments {
    /// Directory for the files
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) output: PathBuf,
    /// Create the certificates of an etcd, too
    #[arg(long)]
    pub(crate) etcd: bool,
    /// Namespace of the etcd, which is in the names of its members
    #[arg(long, default_value = "capstan-system")]
    pub(crate) namespace: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Print the manifests with which a host cluster serves Capstan's API groups
    ///
    /// The manifests are a Namespace, a Service, permissions, CRD objects as metadata, and one
    /// APIService for each group and version with the CA of Capstan's serving certificate.
    ///
    /// With --kubeconfig the command reads the host first. If the host already serves one of the
    /// groups from its own CRDs, the command skips that group. It prints to standard error a patch
    /// that switches the group to Capstan, and a command that switches it back.
    ///
    /// With --providers the command prints no objects. It writes them as the core, bootstrap, control
    /// plane and infrastructure providers of a local repository of clusterctl.
    ///
    /// Example: capstan host manifests --external-name 192.0.2.10 | kubectl apply -f -
    #[command(verbatim_doc_comment)]
    Manifests(ManifestsArguments),
    /// Wait until the host cluster serves every API version through Capstan
    ///
    /// Run this after `capstan serve` and before the first kubectl apply. If an APIService is
    /// Available, the host's proxy may still return 503 for up to a second.
    ///
    /// Example: capstan host wait --kubeconfig admin.kubeconfig
    #[command(verbatim_doc_comment)]
    Wait(WaitArguments),
    /// Print the state of the host cluster, the copies of its data, and what waits for it
    ///
    /// The command reads the object HostStatus. The replica that answers observes the host cluster, and
    /// the output has its name. Use the kubeconfig of the direct endpoint if the host cluster is down.
    ///
    /// Example: capstan host status --kubeconfig admin.kubeconfig
    #[command(verbatim_doc_comment)]
    Status(HostStatusArguments),
    /// Delete the objects in namespaces that the host cluster does not have
    ///
    /// If a namespace was deleted while the host cluster could not reach Capstan, the objects in it stay.
    /// The condition NamespacesGone of HostStatus names it. Without --yes, the command prints the objects
    /// and changes nothing.
    ///
    /// With --yes, it deletes Clusters first, which take their Machines, networks and volumes along, and
    /// then the rest. Run it again until it finds no object. It deletes nothing unless HostStatus has had
    /// the state Up for two minutes. The user needs the verbs list and delete on all kinds of Capstan, and
    /// get on namespaces and hoststatuses. With a kubeconfig of the host cluster, the command also reads
    /// there that the namespace does not exist.
    ///
    /// Example: capstan host prune-namespaces --kubeconfig admin.kubeconfig
    /// Example: capstan host prune-namespaces team-a --kubeconfig admin.kubeconfig --yes
    #[command(verbatim_doc_comment)]
    PruneNamespaces(PruneNamespacesArguments),
}

#[derive(Debug, Args)]
pub(crate) struct WaitArguments {
    /// Kubeconfig of the host cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// Longest wait, e.g. 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct ManifestsArguments {
    /// The server's data directory [default: as for serve]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Name or address at which the host reaches Capstan [default: the pods with label app=capstan]
    #[arg(long, value_name = "NAME")]
    pub(crate) external_name: Option<String>,
    /// Port that Capstan serves on
    #[arg(long, default_value_t = 7443)]
    pub(crate) port: u16,
    /// Namespace of the Service
    #[arg(long, default_value = "capstan-system")]
    pub(crate) namespace: String,
    /// Name of the Service
    #[arg(long, default_value = "capstan")]
    pub(crate) service: String,
    /// User of Capstan in the host cluster: the one in --host-kubeconfig
    #[arg(long, default_value = "capstan")]
    pub(crate) user: String,
    /// Kubeconfig of the host cluster, to find the API groups that it already serves
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Let Capstan mirror the host's roles, bindings, service accounts, token keys, webhooks, admission policies and quotas
    ///
    /// The settings host.permissions: mirror and host.admission: mirror need this.
    #[arg(long)]
    pub(crate) mirror: bool,
    /// Write the objects to this directory, as providers for `clusterctl init`, instead of printing them
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) providers: Option<PathBuf>,
    /// ConfigMaps of the host that its admission policies have as parameters, for host.admission: mirror
    ///
    /// team permits all ConfigMaps of the namespace team, team/limits one of them, and '*/limits' those of this name in
    /// all namespaces. A binding with a selector needs all of a namespace, and one without a namespace those of all.
    #[arg(long, value_name = "NAMESPACE[/NAME]", num_args = 1.., requires = "mirror")]
    pub(crate) policy_parameters: Vec<PolicyParameters>,
    /// Namespaces in which Capstan may write Secrets: the kubeconfigs and certificates of the clusters there
    ///
    /// The namespaces must exist. Without this, Capstan keeps these Secrets in its own store only. clusterctl moves all
    /// objects to one namespace: with --providers, run the command a second time without it, and apply the Roles.
    #[arg(long, value_name = "NAMESPACE", num_args = 1.., value_delimiter = ',', conflicts_with = "providers")]
    pub(crate) write_secrets: Vec<String>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct ServeArguments {
    /// Configuration file (kind ServerConfiguration); flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory with files *.conf, which are merged over --config in the order of their names
    ///
    /// Fields are merged one by one. Lists replace each other.
    #[arg(long, value_name = "DIRECTORY", requires = "config")]
    pub(crate) config_dir: Option<PathBuf>,
    /// Directory for all state [default: $XDG_DATA_HOME/capstan or ~/.local/share/capstan]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address and port to serve on [default: 127.0.0.1:7443]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Endpoints of an etcd to use instead of the embedded store, separated by commas
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    pub(crate) etcd_endpoints: Vec<String>,
    /// Kubeconfig with Capstan's user in a host cluster, to serve that host, too (see `capstan host manifests`)
    #[arg(long, value_name = "FILE")]
    pub(crate) host_kubeconfig: Option<PathBuf>,
    /// Time to keep serving after SIGTERM while not ready, e.g. 0s [default: 30s with etcd, else 0s]
    ///
    /// A load balancer needs this time to notice that the replica is shutting down.
    /// SIGINT or a second signal ends it early.
    #[arg(long, value_name = "DURATION")]
    pub(crate) shutdown_delay: Option<String>,
    /// Format of log lines: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// Use a store again whose objects were migrated to another one. All changes since then are missing
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of Capstan's own kubeconfig, which do not apply to that of a workload cluster.
const OWN_KUBECONFIG: [&str; 8] =
    ["config", "data_dir", "user", "group", "expires", "server", "break_glass", "reason"];

/// Arguments that select the API server with the Cluster.
const CONNECTION: [&str; 3] = ["namespace", "kubeconfig", "context"];

#[derive(Debug, Args)]
pub(crate) struct KubeconfigArguments {
    /// File to write to instead of standard output; only its owner can read it
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Kubeconfig of Capstan")]
    pub(crate) own: OwnKubeconfigArguments,
    #[command(flatten, next_help_heading = "Kubeconfig of a workload cluster")]
    pub(crate) workload: WorkloadKubeconfigArguments,
}

#[derive(Debug, Args)]
pub(crate) struct OwnKubeconfigArguments {
    /// The server's configuration file, with its data directory and its listen address
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The server's data directory [default: as for serve]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
    /// User name: the certificate's CN
    #[arg(long, default_value = "capstan-admin")]
    pub(crate) user: String,
    /// Group: an O of the certificate; repeat it for several groups, or leave it empty for none
    /// [default: capstan:admins]
    #[arg(long)]
    pub(crate) group: Vec<String>,
    /// Lifetime of the certificate, e.g. 30m, 8h, 30d; at most 365d
    #[arg(long, default_value = "12h", value_parser = duration)]
    pub(crate) expires: Duration,
    /// Put the user into system:masters, who may do everything whatever the roles say; for 24h at most
    #[arg(long, requires = "reason", conflicts_with = "group")]
    pub(crate) break_glass: bool,
    /// Reason of --break-glass, for the audit log and the Event of the first use
    #[arg(long, value_name = "TEXT", requires = "break_glass")]
    pub(crate) reason: Option<String>,
    /// URL of the server [default: from `listen` in --config, else https://127.0.0.1:7443]
    #[arg(long, value_name = "URL", value_parser = server)]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("connection").args(CONNECTION).multiple(true).requires("cluster")))]
pub(crate) struct WorkloadKubeconfigArguments {
    /// Name of the Cluster whose kubeconfig to print
    #[arg(long, value_name = "NAME", conflicts_with_all = OWN_KUBECONFIG)]
    pub(crate) cluster: Option<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,
}

/// Parses `--server`, such as `https://host:port`. The server has no other scheme.
fn server(text: &str) -> Result<String, String> {
    let url: Option<http::Uri> = text.parse().ok();
    let is_good = url.is_some_and(|url| {
        url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty())
    });
    if is_good {
        Ok(text.to_owned())
    } else {
        Err("must be a URL such as https://192.0.2.10:7443".to_owned())
    }
}

/// Parses a duration that may be zero, such as `30s` or `0s`.
pub(crate) fn duration_or_none(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") { Ok(Duration::ZERO) } else { duration(text) }
}

/// Parses a duration above zero, such as `30m`, `8h` or `365d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let error = || format!("{text:?} is not a duration such as 30m, 8h or 365d");
    let unit = text.chars().last().ok_or_else(error)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(error()),
    };
    let number: u64 = text.trim_end_matches(unit).parse().map_err(|_| error())?;
    let total = number.checked_mul(seconds).filter(|total| *total > 0);
    total.map(Duration::from_secs).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_of_the_two_kubeconfigs_cannot_be_mixed() {
        let parse = |flags: &[&str]| Cli::try_parse_from([&["capstan", "kubeconfig"], flags].concat());
        for good in [&[][..], &["--user", "alice"], &["--cluster", "prod", "-n", "team", "--context", "c"]] {
            assert!(parse(good).is_ok(), "{good:?}");
        }
        for bad in [
            &["--cluster", "prod", "--user", "alice"][..],
            &["--cluster", "prod", "--data-dir", "d"],
            &["-n", "team"],
            &["--kubeconfig", "f"],
            &["--cluster", "prod", "--break-glass", "--reason", "r"],
            &["--break-glass"],
            &["--reason", "r"],
            &["--break-glass", "--reason", "r", "--group", "dev"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert_eq!(duration("8h"), Ok(Duration::from_secs(28_800)));
        for bad in ["", "8", "h", "-1h", "0s", "1w", "99999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for good in ["https://192.0.2.10:7443", "https://[::1]:7443", "https://capstan.example"] {
            assert_eq!(server(good).as_deref(), Ok(good));
        }
        for bad in ["http://x", "127.0.0.1:1", "capstan.example", "https://", "https:///x", ""] {
            assert!(server(bad).is_err(), "{bad}");
        }
    }
}
