//! Cluster: a Kubernetes cluster as a whole.

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedFailure};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{
    ApiEndpoint, ClusterVariable, Condition, ContractVersionedObjectReference, FailureDomain, Gate,
    HealthChecks, IntOrString, MachineDeletionSpec, MachineTaint, RemediationTemplateRef,
    RemediationTriggerIf, StatusVersion, TemplateMeta, Time, words,
};

const COLUMNS: &[Column] = &[
    column("ClusterClass", "string", ".spec.topology.classRef.name"),
    column("Available", "string", ".status.conditions[?(@.type==\"Available\")].status"),
    column("CP Desired", "integer", ".status.controlPlane.desiredReplicas"),
    wide("CP Current", "integer", ".status.controlPlane.replicas"),
    wide("CP Ready", "integer", ".status.controlPlane.readyReplicas"),
    column("CP Available", "integer", ".status.controlPlane.availableReplicas"),
    column("CP Up-to-date", "integer", ".status.controlPlane.upToDateReplicas"),
    column("W Desired", "integer", ".status.workers.desiredReplicas"),
    wide("W Current", "integer", ".status.workers.replicas"),
    wide("W Ready", "integer", ".status.workers.readyReplicas"),
    column("W Available", "integer", ".status.workers.availableReplicas"),
    column("W Up-to-date", "integer", ".status.workers.upToDateReplicas"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    column("Phase", "string", ".status.phase"),
    AGE,
    column("Version", "string", ".spec.topology.version"),
];

fn schema() -> Value {
    let description = "A Kubernetes cluster: its networks, its endpoint, and the objects that make it.";
    let mut spec = structural::<ClusterSpec>();
    let mut status = structural::<ClusterStatus>();
    for part in [&mut spec, &mut status] {
        part["minProperties"] = 1.into();
    }
    object(description, Some(spec), Some(status), true)
}

kind! {
    /// A Kubernetes cluster as a whole.
    Cluster, ClusterSpec, ClusterStatus, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "Cluster", plural: "clusters", singular: "cluster",
        short_names: &["cl"], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None,
        columns: COLUMNS, schema,
    }
}

wire! {
    /// What is wanted of a Cluster.
    ClusterSpec {
        optional {
            /// Conditions that Available needs beside the standard ones.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            availability_gates: Vec<Gate>,
            /// Networks inside the cluster.
            #[schemars(extend("minProperties" = 1))]
            cluster_network: ClusterNetwork,
            /// Where its API answers; set once by whoever makes it.
            #[schemars(extend("minProperties" = 1))]
            control_plane_endpoint: ApiEndpoint,
            /// The object that runs its control plane.
            control_plane_ref: ContractVersionedObjectReference,
            /// The object that stands for its infrastructure.
            infrastructure_ref: ContractVersionedObjectReference,
            /// Leave this Cluster and everything of it alone.
            paused: bool,
            /// A shape taken from a ClusterClass.
            topology: Topology,
        }
    }

    /// Networks inside a cluster.
    ClusterNetwork {
        optional {
            /// Port the API server binds.
            #[schemars(range(min = 1, max = 65535))]
            api_server_port: i32,
            /// Where pods are.
            pods: NetworkRanges,
            /// DNS domain of services.
            #[schemars(length(min = 1, max = 253))]
            service_domain: String,
            /// Where services are.
            services: NetworkRanges,
        }
    }

    /// Ranges of addresses.
    NetworkRanges {
        required {
            /// CIDRs.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 43)), extend("x-kubernetes-list-type" = "atomic"))]
            cidr_blocks: Vec<String>,
        }
    }

    /// A shape taken from a ClusterClass.
    Topology {
        required {
            /// The class.
            class_ref: ClassRef,
            /// Kubernetes version of the whole cluster.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// The control plane.
            #[schemars(extend("minProperties" = 1))]
            control_plane: ControlPlaneTopology,
            /// Values for the class's variables.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            variables: Vec<ClusterVariable>,
            /// The workers.
            #[schemars(extend("minProperties" = 1))]
            workers: WorkersTopology,
        }
    }

    /// A ClusterClass.
    ClassRef {
        required {
            /// Its name.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
        optional {
            /// Its namespace; the Cluster's own when unset.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
            namespace: String,
        }
    }

    /// The control plane of a topology.
    ControlPlaneTopology {
        optional {
            /// How long deletions may take.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// When its machines are unhealthy, and what then.
            #[schemars(extend("minProperties" = 1))]
            health_check: ControlPlaneHealthCheck,
            /// Labels and annotations handed down.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Machines.
            replicas: i32,
            /// When to roll out.
            #[schemars(extend("minProperties" = 1))]
            rollout: ControlPlaneRollout,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values for variables.
            #[schemars(extend("minProperties" = 1))]
            variables: VariableOverrides,
        }
    }

    /// Values that override the cluster's.
    VariableOverrides {
        optional {
            /// The values.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            overrides: Vec<ClusterVariable>,
        }
    }

    /// When to roll out a control plane.
    ControlPlaneRollout {
        optional {
            /// Replace machines made before this.
            after: Time,
        }
    }

    /// When control plane machines are unhealthy, and what then.
    ControlPlaneHealthCheck {
        optional {
            /// What counts.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// Force it on or off.
            enabled: bool,
            /// What then.
            #[schemars(extend("minProperties" = 1))]
            remediation: ControlPlaneRemediation,
        }
    }

    /// How control plane machines are remediated.
    ControlPlaneRemediation {
        optional {
            /// Who does it; unset is delete and make anew.
            template_ref: RemediationTemplateRef,
            /// When it may be done.
            #[schemars(extend("minProperties" = 1))]
            trigger_if: RemediationTriggerIf,
        }
    }

    /// The workers of a topology.
    WorkersTopology {
        optional {
            /// Pools of Machines.
            #[schemars(length(min = 1, max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_deployments: Vec<MachineDeploymentTopology>,
            /// Pools that the cloud manages.
            #[schemars(length(min = 1, max = 2000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            machine_pools: Vec<MachinePoolTopology>,
        }
    }

    /// A pool of Machines.
    MachineDeploymentTopology {
        required {
            /// Its class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Its name, unique in the topology.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
        optional {
            /// How deletions go.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeploymentDeletion,
            /// Where it is to be.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// When its machines are unhealthy, and what then.
            #[schemars(extend("minProperties" = 1))]
            health_check: MachineDeploymentHealthCheck,
            /// Labels and annotations handed down.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Ready for so long before counted as available. Unit: seconds.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// Conditions that Ready needs of its Machines.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Machines; unset when an autoscaler decides.
            replicas: i32,
            /// How to roll out.
            #[schemars(extend("minProperties" = 1))]
            rollout: MachineDeploymentRollout,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values for variables.
            #[schemars(extend("minProperties" = 1))]
            variables: VariableOverrides,
        }
    }

    /// How a pool's deletions go.
    MachineDeploymentDeletion {
        optional {
            /// Retry deleting the Node for so long. Unit: seconds.
            #[schemars(range(min = 0))]
            node_deletion_timeout_seconds: i32,
            /// Drain for at most so long; 0 is without limit. Unit: seconds.
            #[schemars(range(min = 0))]
            node_drain_timeout_seconds: i32,
            /// Wait for volumes for at most so long; 0 is without limit. Unit: seconds.
            #[schemars(range(min = 0))]
            node_volume_detach_timeout_seconds: i32,
            /// Who goes first.
            order: DeletionOrder,
        }
    }

    /// When a pool's machines are unhealthy, and what then.
    MachineDeploymentHealthCheck {
        optional {
            /// What counts.
            #[schemars(extend("minProperties" = 1))]
            checks: HealthChecks,
            /// Force it on or off.
            enabled: bool,
            /// What then.
            #[schemars(extend("minProperties" = 1))]
            remediation: MachineDeploymentRemediation,
        }
    }

    /// How a pool's machines are remediated.
    MachineDeploymentRemediation {
        optional {
            /// At most so many at once.
            max_in_flight: IntOrString,
            /// Who does it; unset is delete and make anew.
            template_ref: RemediationTemplateRef,
            /// When it may be done.
            #[schemars(extend("minProperties" = 1))]
            trigger_if: RemediationTriggerIf,
        }
    }

    /// How to roll out a pool.
    MachineDeploymentRollout {
        optional {
            /// Replace machines made before this.
            after: Time,
            /// In which way.
            #[schemars(extend("minProperties" = 1))]
            strategy: RolloutStrategy,
        }
    }

    /// In which way to roll out.
    RolloutStrategy {
        required {
            /// The way.
            #[serde(rename = "type")]
            kind: RolloutStrategyType,
        }
        optional {
            /// For a rolling update.
            #[schemars(extend("minProperties" = 1))]
            rolling_update: RollingUpdate,
        }
    }

    /// Bounds of a rolling update.
    RollingUpdate {
        optional {
            /// So many more than wanted.
            max_surge: IntOrString,
            /// So many fewer than wanted.
            max_unavailable: IntOrString,
        }
    }

    /// A pool that the cloud manages.
    MachinePoolTopology {
        required {
            /// Its class in the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            class: String,
            /// Its name, unique in the topology.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
        optional {
            /// How long deletions may take.
            #[schemars(extend("minProperties" = 1))]
            deletion: MachineDeletionSpec,
            /// Where it may be.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            failure_domains: Vec<String>,
            /// Labels and annotations handed down.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
            /// Ready for so long before counted as available. Unit: seconds.
            #[schemars(range(min = 0))]
            min_ready_seconds: i32,
            /// Machines.
            replicas: i32,
            /// Taints of the Nodes.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Values for variables.
            #[schemars(extend("minProperties" = 1))]
            variables: VariableOverrides,
        }
    }

    /// What was observed of a Cluster.
    ClusterStatus {
        optional {
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Control plane machines, counted.
            control_plane: ReplicaCounts,
            /// Data that older clients read.
            deprecated: Deprecated<DeprecatedFailure>,
            /// Places that fail as one.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            failure_domains: Vec<FailureDomain>,
            /// Milestones that are passed once.
            #[schemars(extend("minProperties" = 1))]
            initialization: ClusterInitialization,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Where it is in its life.
            phase: ClusterPhase,
            /// Worker machines, counted.
            workers: ReplicaCounts,
        }
    }

    /// Machines, counted.
    ReplicaCounts {
        optional {
            /// Available ones.
            available_replicas: i32,
            /// Wanted ones.
            desired_replicas: i32,
            /// Ready ones.
            ready_replicas: i32,
            /// All.
            replicas: i32,
            /// Those that are as wanted.
            up_to_date_replicas: i32,
            /// Versions still to come in an upgrade.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
            upgrade_plan: Vec<UpgradePlanVersion>,
            /// How many run which version.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
            versions: Vec<StatusVersion>,
        }
    }

    /// A version to come.
    UpgradePlanVersion {
        required {
            /// The version.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
    }

    /// Milestones that are passed once.
    ClusterInitialization {
        optional {
            /// The control plane answered.
            control_plane_initialized: bool,
            /// The infrastructure is there.
            infrastructure_provisioned: bool,
        }
    }
}

words! {
    /// Who goes first when there are too many.
    DeletionOrder {
        /// Anyone.
        #[default]
        Random,
        /// The newest.
        Newest,
        /// The oldest.
        Oldest,
    }

    /// In which way to roll out.
    RolloutStrategyType {
        /// A few at a time.
        #[default]
        RollingUpdate,
        /// When somebody deletes.
        OnDelete,
    }

    /// Where a Cluster is in its life.
    ClusterPhase {
        /// Waiting for what it needs.
        #[default]
        Pending,
        /// Its infrastructure is being made.
        Provisioning,
        /// Its infrastructure is there.
        Provisioned,
        /// It is being deleted.
        Deleting,
        /// It cannot be mended.
        Failed,
        /// Not known.
        Unknown,
    }
}
