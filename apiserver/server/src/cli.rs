//! Command line of `capstan`, with its help texts.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod ca;
pub(crate) mod encryption;
pub(crate) mod host;
pub(crate) mod install;
pub(crate) mod keys;
pub(crate) mod kubeconfig;
pub(crate) mod manual;
pub(crate) mod orphans;
pub(crate) mod prune;
pub(crate) mod serve;
pub(crate) mod value_parsers;

use apiserver_cli::{
    DescribeCommand, ExplainAccessArguments, ExplainArguments, LoginCommand, PlanCommand, WhyArguments,
};
use clap::{Parser, Subcommand};

pub(crate) use self::audit::{AuditCommand, AuditVerifyArguments};
pub(crate) use self::backup::{
    BackupArguments, BackupCommand, DefragArguments, DowngradeArguments, MigrateArguments, RestoreArguments,
    StorageCommand, StoreArguments, StoreKind, UpgradeCommand, UpgradePlanArguments,
};
pub(crate) use self::ca::{
    CaCommand, CaCreateArguments, CaFinishArguments, CaRotationArguments, CertificatesCommand,
};
pub(crate) use self::encryption::{EncryptionCommand, EncryptionPromoteArguments};
pub(crate) use self::host::{HostCommand, ManifestsArguments, WaitArguments};
pub(crate) use self::install::{
    DoctorArguments, InitArguments, JoinArguments, JoinTokenCommand, LeaveArguments, ResetArguments,
    TokenCreateArguments,
};
pub(crate) use self::keys::{KeysCommand, KeysCreateArguments};
pub(crate) use self::kubeconfig::{KubeconfigArguments, OwnKubeconfigArguments};
pub(crate) use self::manual::{CompletionArguments, ManualArguments};
pub(crate) use self::orphans::OrphansArguments;
pub(crate) use self::prune::PruneNamespacesArguments;
pub(crate) use self::serve::ServeArguments;
pub(crate) use self::value_parsers::{duration, duration_or_none, external_name, server};

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
    /// Plan an upgrade of Capstan, or upgrade the Kubernetes of a Cluster
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
    /// Example: capstan backup --config /etc/capstan/config.yaml --to /var/backups/capstan/
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
    /// For half an hour afterwards, Capstan removes nothing from clouds and workload clusters that no object knows: it
    /// may have been created after the backup. Compare them by `capstan orphans`, and end that time by --done.
    ///
    /// Example: capstan restore prod.capstan-backup --verify-only --key-file backup.key
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
