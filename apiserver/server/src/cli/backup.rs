//! Arguments of the commands for backups: `backup`, `restore` and `storage`.

use std::path::PathBuf;
use std::time::Duration;

use apiserver_cli::{ConnectionArguments, UpgradeClusterArguments};
use clap::{Args, Subcommand, ValueEnum};

/// Arguments that select the store.
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    /// The server's configuration file, with its data directory, its etcd and the backup key
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The server's data directory [default: as for serve]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Endpoints of the etcd, separated by commas [default: storage.etcd in --config]
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    pub(crate) etcd_endpoints: Vec<String>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    pub(crate) command: Option<BackupCommand>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// File to write, or a place for a file with the time in its name: a directory, which a slash at the end creates,
    /// s3://BUCKET/PREFIX?endpoint=URL or swift://CONTAINER/PREFIX. An existing file is not replaced
    #[arg(long, value_name = "PLACE", required = true)]
    pub(crate) to: Option<String>,
    /// File with the backup key [default: backup.keyFile in --config]. With --kubeconfig, the server has the key, and
    /// this one only checks the file
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Add encryption.yaml and the CA, sealed by the recovery key
    #[arg(long, requires = "recovery_key_file")]
    pub(crate) include_keys: bool,
    /// File with the recovery key that `capstan init` printed
    #[arg(long, value_name = "FILE", requires = "include_keys")]
    pub(crate) recovery_key_file: Option<PathBuf>,
    /// Write this Cluster of --namespace, all that belongs to it, and its credentials, as YAML files to a new directory,
    /// given by --to. Without --cluster, --namespace selects all objects in it. `clusterctl move --from-directory` reads
    /// them. Clusters are written as paused, and Secrets plain. This is no backup
    #[arg(long, value_name = "NAME", requires = "namespace")]
    #[arg(conflicts_with_all = ["key_file", "include_keys", "kubeconfig", "context"])]
    pub(crate) cluster: Option<String>,
    /// Server that writes the backup
    #[command(flatten, next_help_heading = "Backup through a running server")]
    pub(crate) connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Create a backup key in a new file
    ///
    /// The key seals backups. Without it no backup can be read: keep copies of it, but not beside the
    /// backups. It is another one than the key in encryption.yaml, which a restore needs, too.
    ///
    /// Example: capstan backup key /etc/capstan/backup.key
    #[command(verbatim_doc_comment)]
    Key(BackupKeyArguments),
}

#[derive(Debug, Args)]
pub(crate) struct BackupKeyArguments {
    /// File to create; only its owner can read it
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// The etcd of the configuration
    Etcd,
    /// The file store.redb in the data directory
    Embedded,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// The backup: a file, or the URL of an object as s3://BUCKET/PATH?endpoint=URL or swift://CONTAINER/PATH
    #[arg(value_name = "FILE", required_unless_present = "done")]
    pub(crate) file: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// End the half hour after a restore in which Capstan removes nothing that no object knows. No backup is read. Stop
    /// the server first if it uses the embedded store
    #[arg(long, conflicts_with_all = ["file", "to", "key_file", "verify_only", "replace", "recovery_key_file"])]
    pub(crate) done: bool,
    /// Store to write
    #[arg(long, value_name = "STORE", required_unless_present_any = ["verify_only", "done"])]
    pub(crate) to: Option<StoreKind>,
    /// File with the backup key [default: backup.keyFile in --config]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Only read the whole backup, check it, and print its content and the encryption keys that it needs
    #[arg(long, conflicts_with_all = ["to", "replace"])]
    pub(crate) verify_only: bool,
    /// Replace the objects that the store has. They are kept aside
    #[arg(long)]
    pub(crate) replace: bool,
    /// Replace them also if no encryption key of the server opens a Secret of the backup
    #[arg(long, requires = "replace")]
    pub(crate) force: bool,
    /// Write encryption.yaml and the CA of a backup with --include-keys to the data directory first. FILE has the
    /// recovery key that `capstan init` printed
    #[arg(long, value_name = "FILE", conflicts_with = "verify_only")]
    pub(crate) recovery_key_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StorageCommand {
    /// Move all objects from one store to another, or without --from write all of them anew in one store
    ///
    /// With --from and --to: stop the servers first, and set the new store in their configuration afterwards. The command
    /// copies all objects, compares both stores, and marks the old one: no server opens it from then on,
    /// unless it is started with --force. No resourceVersion goes back, and watches start again.
    ///
    /// If the command is interrupted, run it again.
    ///
    /// Without them, the leader of running servers writes each value anew that has an older stored form,
    /// encryption key or API version, 200 per second at most. The command prints counts by kind.
    ///
    /// Example: capstan storage migrate --config /etc/capstan/config.yaml
    /// Example: capstan storage migrate --from embedded --to etcd --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Migrate(MigrateArguments),
    /// Print the form in which the store has the values, and whether a newer one can be committed
    Form(StoreArguments),
    /// Commit the newest stored form now, without the delay after an upgrade
    ///
    /// The command is refused while a live replica cannot read the form. Afterwards an older release can
    /// be used only after `capstan storage downgrade`.
    ///
    /// Example: capstan storage commit --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Commit(StoreArguments),
    /// Write all values in the form of the last release, before you go back to it
    ///
    /// Servers of this release write the older form from then on. The leader rewrites the values, 200 per
    /// second at most, and then the form is committed. If you interrupt the command, run it again.
    ///
    /// Stop the server of an embedded store first. The command then rewrites the values that came from an etcd.
    ///
    /// Example: capstan storage downgrade --to 3 --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Downgrade(DowngradeArguments),
    /// Check etcd: versions, members, space, limits, and the permissions of Capstan's user
    ///
    /// Each check prints a line with a remedy. The exit code is 1 if a check has found an error. Nothing is
    /// written. etcd does not report its auto-compaction and its clocks, so that they are not checked.
    ///
    /// Example: capstan storage check --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Check(StoreArguments),
    /// Defragment the members of etcd, one at a time, the leader last
    ///
    /// A member answers nothing while it is defragmented. The command begins with the followers, waits until
    /// each has caught up, moves the leadership, and waits --pause between two members. It leaves out members
    /// on which less than 256 MiB or less than 30 % of the database is free, unless --all is given.
    ///
    /// The user needs etcd's role root, if etcd authenticates.
    ///
    /// Example: capstan storage defrag --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Defrag(DefragArguments),
    /// Make room in an etcd that refuses writes because its database is full
    ///
    /// The command removes the history of old revisions, defragments all members, and clears the alarm. All
    /// watches begin again. The objects stay.
    ///
    /// Example: capstan storage recover-space --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    RecoverSpace(StoreArguments),
}

#[derive(Debug, Args)]
pub(crate) struct DowngradeArguments {
    /// Form of the older release; `capstan replicas` prints what each release reads
    #[arg(long, value_name = "FORM")]
    pub(crate) to: u64,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(crate) struct DefragArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Defragment all members, however little is free
    #[arg(long)]
    pub(crate) all: bool,
    /// Pause between two members, e.g. 10m or 0s
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = super::duration_or_none)]
    pub(crate) pause: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArguments {
    /// Store with the objects
    #[arg(long, value_name = "STORE", requires = "to")]
    pub(crate) from: Option<StoreKind>,
    /// Store that gets them
    #[arg(long, value_name = "STORE", requires = "from")]
    pub(crate) to: Option<StoreKind>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Replace the objects that the new store has. They are kept aside
    #[arg(long, requires = "from")]
    pub(crate) replace: bool,
    /// Migrate a store that was migrated before
    #[arg(long, requires = "from")]
    pub(crate) force: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UpgradeCommand {
    /// Print the steps of an upgrade to this release, and the reasons against it. Nothing is changed
    ///
    /// Run the command with the new program, before you replace the first replica. It prints the running
    /// replicas with their versions and stored forms, the order of the replacements, and whether a newer
    /// stored form waits for its commit. The exit code is 1 if a reason prevents the upgrade.
    ///
    /// With the embedded store, the running server answers the command.
    ///
    /// Example: capstan upgrade plan --config /etc/capstan/config.yaml
    #[command(verbatim_doc_comment)]
    Plan(UpgradePlanArguments),
    /// Upgrade the Kubernetes of a Cluster: the control plane, then the workers, one minor version after the other
    ///
    /// The running server first checks whether the steps lead to the version, and then keeps the request in the
    /// Cluster. Its controllers make the steps, also after a restart. --dry-run prints the steps, and what holds
    /// them, and changes nothing.
    ///
    /// With --cancel, the upgrade ends at the version that the control plane takes. The workers follow to it.
    ///
    /// Example: capstan upgrade cluster prod -n team --to v1.35.1 --dry-run
    /// Example: capstan upgrade cluster prod -n team --through v1.34.4 --to v1.35.1
    /// Example: capstan upgrade cluster prod -n team --cancel
    #[command(verbatim_doc_comment)]
    Cluster(UpgradeClusterArguments),
}

#[derive(Debug, Args)]
pub(crate) struct UpgradePlanArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Print the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
