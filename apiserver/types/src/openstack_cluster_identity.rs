//! OpenStackClusterIdentity: credentials that several namespaces share.

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
    /// Credentials that several namespaces share.
    across namespaces without status OpenStackClusterIdentity, OpenStackClusterIdentitySpec, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1alpha1", kind: "OpenStackClusterIdentity",
        plural: "openstackclusteridentities", singular: "openstackclusteridentity", short_names: &["osci"],
        categories: &["cluster-api"], namespaced: false, status_subresource: false, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Where credentials are and who may use them.
    OpenStackClusterIdentitySpec {
        required {
            /// The Secret with the `clouds.yaml`.
            secret_ref: CredentialSecretRef,
        }
        optional {
            /// The namespaces that may use them; all of them when unset.
            namespace_selector: LabelSelector,
        }
    }

    /// A Secret with credentials.
    CredentialSecretRef {
        required {
            /// Its name.
            name: String,
            /// Its namespace.
            namespace: String,
        }
    }
}
