//! ExtensionConfig: a server that takes part in what happens to clusters, in v1alpha1.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor};
use crate::extension_config::{ClientConfig, FailurePolicy, GroupVersionHook};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::v1beta1::V1Beta2Conditions;

const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    object(
        "A server outside that is called when something happens to clusters.",
        Some(structural::<ExtensionConfigSpec>()),
        Some(structural::<ExtensionConfigStatus>()),
        false,
    )
}

kind! {
    /// A server that takes part in what happens to clusters.
    across namespaces bare ExtensionConfig, ExtensionConfigSpec, ExtensionConfigStatus, schema, Descriptor {
        group: "runtime.cluster.x-k8s.io", version: "v1alpha1", kind: "ExtensionConfig", plural: "extensionconfigs", singular: "extensionconfig",
        short_names: &["ext"], categories: &["cluster-api"], namespaced: false, status_subresource: true, scale: None,
        deprecation: Some(
            "runtime.cluster.x-k8s.io/v1alpha1 ExtensionConfig is deprecated; use runtime.cluster.x-k8s.io/v1beta2 ExtensionConfig",
        ),
        columns: COLUMNS,
    }
}

wire! {
    /// Where an extension answers, and for whom.
    ExtensionConfigSpec {
        required {
            /// How to reach the extension server.
            client_config: ClientConfig,
        }
        optional {
            /// Namespaces the extension covers.
            namespace_selector: LabelSelector,
            /// Settings passed on each call.
            settings: BTreeMap<String, String>,
        }
    }

    /// What was observed of an extension.
    ExtensionConfigStatus {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// Handlers discovered.
            #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            handlers: Vec<ExtensionHandler>,
            /// What `v1beta2` shows under other names.
            v1beta2: V1Beta2Conditions,
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
            timeout_seconds: i32,
        }
    }
}
