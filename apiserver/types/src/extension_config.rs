//! ExtensionConfig: a server that takes part in what happens to clusters.

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
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    column("Discovered", "string", ".status.conditions[?(@.type==\"Discovered\")].status"),
    AGE,
];

fn schema() -> Value {
    let mut status = structural::<ExtensionConfigStatus>();
    status["minProperties"] = 1.into();
    object(
        "A server outside that is called when something happens to clusters.",
        Some(structural::<ExtensionConfigSpec>()),
        Some(status),
        true,
    )
}

kind! {
    /// A server that takes part in what happens to clusters.
    across namespaces ExtensionConfig, ExtensionConfigSpec, ExtensionConfigStatus, schema, Descriptor {
        group: "runtime.cluster.x-k8s.io", version: "v1beta2", kind: "ExtensionConfig", plural: "extensionconfigs", singular: "extensionconfig",
        short_names: &["ext"], categories: &["cluster-api"], namespaced: false, status_subresource: true, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Where an extension answers, and for whom.
    ExtensionConfigSpec {
        required {
            /// How to reach the extension server.
            #[schemars(extend("minProperties" = 1))]
            client_config: ClientConfig,
        }
        optional {
            /// Namespaces the extension covers.
            namespace_selector: LabelSelector,
            /// Settings passed on each call.
            settings: BTreeMap<String, String>,
        }
    }

    /// How an extension server is reached: by address or by Service.
    ClientConfig {
        optional {
            /// Certificates of the authority, PEM in base64.
            #[schemars(length(min = 1, max = 51200))]
            ca_bundle: Bytes,
            /// In-cluster service.
            service: ServiceReference,
            /// Direct URL.
            #[schemars(length(min = 1, max = 512))]
            url: String,
        }
    }

    /// A Service of the management cluster.
    ServiceReference {
        required {
            /// Name.
            #[schemars(length(min = 1, max = 63))]
            name: String,
            /// Object namespace.
            #[schemars(length(min = 1, max = 63))]
            namespace: String,
        }
        optional {
            /// Path.
            #[schemars(length(min = 1, max = 512))]
            path: String,
            /// Port.
            port: i32,
        }
    }

    /// What was observed of an extension.
    ExtensionConfigStatus {
        optional {
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Data that older clients read.
            deprecated: Deprecated<DeprecatedConditions>,
            /// Handlers discovered.
            #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            handlers: Vec<ExtensionHandler>,
        }
    }

    /// One handler of an extension.
    ExtensionHandler {
        required {
            /// Handler name.
            #[schemars(length(min = 1, max = 512))]
            name: String,
            /// Hook and API version.
            request_hook: GroupVersionHook,
        }
        optional {
            /// Ignore or Fail.
            failure_policy: FailurePolicy,
            /// Call timeout.
            #[schemars(range(min = 1))]
            timeout_seconds: i32,
        }
    }

    /// A hook in one version of its API.
    GroupVersionHook {
        required {
            /// API version.
            #[schemars(length(min = 1, max = 512))]
            api_version: String,
            /// Hook name.
            #[schemars(length(min = 1, max = 256))]
            hook: String,
        }
    }
}

words! {
    /// What a failed call to a handler means.
    FailurePolicy {
        /// Nothing.
        Ignore,
        /// The operation fails.
        #[default]
        Fail,
    }
}
