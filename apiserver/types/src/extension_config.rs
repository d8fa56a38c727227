//! ExtensionConfig: registration of a runtime extension server.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedConditions};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::scalar::Bytes;
use crate::schema::{object, structural};
use crate::shared::{Condition, words};

const COLUMNS: &[Column] = &[
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
    ),
    column(
        "Discovered",
        "string",
        ".status.conditions[?(@.type==\"Discovered\")].status",
        "The extension has answered with its list of handlers.",
    ),
    AGE,
];

fn schema() -> Value {
    let mut status = structural::<ExtensionConfigStatus>();
    status["minProperties"] = 1.into();
    object(
        "Registration of a runtime extension server, which is called at certain steps of a cluster's life.",
        Some(structural::<ExtensionConfigSpec>()),
        Some(status),
        true,
    )
}

kind! {
    /// Registration of a runtime extension server, which is called at certain steps of a cluster's life.
    across namespaces ExtensionConfig, ExtensionConfigSpec, ExtensionConfigStatus, schema, Descriptor {
        group: "runtime.cluster.x-k8s.io", version: "v1beta2", kind: "ExtensionConfig", plural: "extensionconfigs", singular: "extensionconfig",
        short_names: &["ext"], categories: &["cluster-api"], namespaced: false, status_subresource: true, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Address and scope of a runtime extension.
    ExtensionConfigSpec {
        required {
            /// Connection settings of the extension server.
            #[schemars(extend("minProperties" = 1))]
            client_config: ClientConfig,
        }
        optional {
            /// Label selector of the namespaces in which the extension is called. Default: all namespaces.
            namespace_selector: LabelSelector,
            /// Settings that are sent with each call of the extension, as key-value pairs.
            settings: BTreeMap<String, String>,
        }
    }

    /// Connection settings of an extension server. Exactly one of `url` and `service` is set.
    ClientConfig {
        optional {
            /// CA certificates that verify the extension server, as PEM in base64.
            #[schemars(length(min = 1, max = 51200))]
            ca_bundle: Bytes,
            /// Service of the extension server in the management cluster. Mutually exclusive with `url`.
            service: ServiceReference,
            /// URL of the extension server, in the form `https://host:port/path`. Mutually exclusive with
            /// `service`.
            #[schemars(length(min = 1, max = 512))]
            url: String,
        }
    }

    /// Reference to a Service in the management cluster.
    ServiceReference {
        required {
            /// Name of the Service.
            #[schemars(length(min = 1, max = 63))]
            name: String,
            /// Namespace of the Service.
            #[schemars(length(min = 1, max = 63))]
            namespace: String,
        }
        optional {
            /// URL path that is used in requests to the Service.
            #[schemars(length(min = 1, max = 512))]
            path: String,
            /// Port of the Service. Default: 443.
            port: i32,
        }
    }

    /// Observed state of a runtime extension.
    ExtensionConfigStatus {
        optional {
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<DeprecatedConditions>,
            /// Handlers that the extension server reports on discovery.
            #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            handlers: Vec<ExtensionHandler>,
        }
    }

    /// One handler of a runtime extension.
    ExtensionHandler {
        required {
            /// Unique name of the handler.
            #[schemars(length(min = 1, max = 512))]
            name: String,
            /// Hook that the handler serves, with its API version.
            request_hook: GroupVersionHook,
        }
        optional {
            /// Effect of a failed call: Ignore or Fail. Default: Fail.
            failure_policy: FailurePolicy,
            /// Timeout of one call. Unit: seconds. Minimum: 1. Default: 10.
            #[schemars(range(min = 1))]
            timeout_seconds: i32,
        }
    }

    /// Hook in one version of the runtime hook API.
    GroupVersionHook {
        required {
            /// API group and version of the hook.
            #[schemars(length(min = 1, max = 512))]
            api_version: String,
            /// Name of the hook.
            #[schemars(length(min = 1, max = 256))]
            hook: String,
        }
    }
}

words! {
    /// Effect of a failed call of a handler.
    FailurePolicy {
        /// The failure is ignored, and the operation continues.
        Ignore,
        /// The operation fails.
        #[default]
        Fail,
    }
}
