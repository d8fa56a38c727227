//! ExtensionConfig in v1alpha1: registration of a runtime extension server.

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
        "Registration of a runtime extension server, which is called at certain steps of a cluster's life.",
        Some(structural::<ExtensionConfigSpec>()),
        Some(structural::<ExtensionConfigStatus>()),
        false,
    )
}

kind! {
    /// Registration of a runtime extension server, which is called at certain steps of a cluster's life.
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
    /// Address and scope of a runtime extension.
    ExtensionConfigSpec {
        required {
            /// Connection settings of the extension server.
            client_config: ClientConfig,
        }
        optional {
            /// Label selector of the namespaces in which the extension is called. Default: all namespaces.
            namespace_selector: LabelSelector,
            /// Settings that are sent with each call of the extension, as key-value pairs.
            settings: BTreeMap<String, String>,
        }
    }

    /// Observed state of a runtime extension.
    ExtensionConfigStatus {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Handlers that the extension server reports on discovery.
            #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            handlers: Vec<ExtensionHandler>,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Conditions,
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
            /// Timeout of one call. Unit: seconds. Default: 10.
            timeout_seconds: i32,
        }
    }
}
