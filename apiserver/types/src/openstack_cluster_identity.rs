//! OpenStackClusterIdentity: OpenStack credentials that several namespaces share.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};

const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    let description = "Credentials that several namespaces share.";
    object(description, Some(structural::<OpenStackClusterIdentitySpec>()), None, false)
}

kind! {
    /// OpenStack credentials that several namespaces share.
    across namespaces without status OpenStackClusterIdentity, OpenStackClusterIdentitySpec, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1alpha1", kind: "OpenStackClusterIdentity",
        plural: "openstackclusteridentities", singular: "openstackclusteridentity", short_names: &["osci"],
        categories: &["cluster-api"], namespaced: false, status_subresource: false, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Location of the credentials, and the namespaces that can use them.
    OpenStackClusterIdentitySpec {
        required {
            /// Reference to the Secret with the `clouds.yaml`.
            secret_ref: CredentialSecretRef,
        }
        optional {
            /// Label selector of the namespaces that can use the credentials. Default: all namespaces.
            namespace_selector: LabelSelector,
        }
    }

    /// Reference to a Secret with credentials.
    CredentialSecretRef {
        required {
            /// Name of the Secret.
            name: String,
            /// Namespace of the Secret.
            namespace: String,
        }
    }
}
