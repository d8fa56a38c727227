//! Arguments of `capstan host`.

use std::path::PathBuf;
use std::time::Duration;

use apiserver_cli::HostStatusArguments;
use apiserver_host::PolicyParameters;
use clap::{Args, Subcommand};

use super::{PruneNamespacesArguments, duration, external_name};

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
    /// DNS name or IPv4 address at which the host reaches Capstan [default: the pods with label app=capstan]
    #[arg(long, value_name = "NAME", value_parser = external_name)]
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
    /// Let Capstan keep the caBundle of its APIServices during a rotation of the serving CA
    ///
    /// The setting host.writeCABundle needs this. The permission names these APIServices, and no other.
    #[arg(long)]
    pub(crate) write_ca_bundle: bool,
    /// Let Capstan keep the labels, versions and columns in its CRD objects as its release has them
    ///
    /// The setting host.writeCRDs needs this. The permission names these CRD objects, and no other.
    #[arg(long)]
    pub(crate) write_crds: bool,
    /// Let Capstan create the namespaces that users have created on the direct endpoint while the host cluster was down
    ///
    /// Without this, such a namespace shows the condition WriteBackForbidden until a person creates it in the host.
    #[arg(long)]
    pub(crate) create_namespaces: bool,
    /// Namespaces in which Capstan may write Secrets: the kubeconfigs and certificates of the clusters there
    ///
    /// The namespaces must exist. Without this, Capstan keeps these Secrets in its own store only. clusterctl moves all
    /// objects to one namespace: with --providers, run the command a second time without it, and apply the Roles.
    #[arg(long, value_name = "NAMESPACE", num_args = 1.., value_delimiter = ',', conflicts_with = "providers")]
    pub(crate) write_secrets: Vec<String>,
}
