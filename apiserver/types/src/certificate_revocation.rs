//! CertificateRevocation: client certificates that the server refuses before they expire.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::Time;

const COLUMNS: &[Column] = &[
    column("User", "string", ".spec.user", "User whose certificates are refused."),
    column("Group", "string", ".spec.group", "Group whose certificates are refused."),
    column("Serial", "string", ".spec.serialNumber", "Serial number of the certificate that is refused."),
    column("Issued-Before", "date", ".spec.issuedBefore", "Age of the newest certificate that is refused."),
    column("Reason", "string", ".spec.reason", "Reason of the revocation."),
    AGE,
];

fn schema() -> Value {
    let description = "Client certificates that the direct endpoint refuses from now on.";
    let mut schema = object(description, Some(structural::<CertificateRevocationSpec>()), None, false);
    schema["required"] = serde_json::json!(["metadata", "spec"]);
    schema
}

kind! {
    /// Client certificates that the server refuses before they expire.
    across namespaces without status CertificateRevocation, CertificateRevocationSpec, schema, Descriptor {
        group: "capstan.dev", version: "v1alpha1", kind: "CertificateRevocation", plural: "certificaterevocations",
        singular: "certificaterevocation", short_names: &["certrev"], categories: &[], namespaced: false,
        status_subresource: false, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Selection of certificates. Exactly one of `fingerprint`, `group`, `serialNumber` and `user` is set.
    CertificateRevocationSpec {
        optional {
            /// SHA-256 of the certificate, 64 lower-case hexadecimal digits without separators.
            #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]+$"))]
            fingerprint: String,
            /// Group: an O of the certificates' subject. Certificates that are issued later are accepted.
            #[schemars(length(min = 1, max = 256))]
            group: String,
            /// Time before which the certificates of the user or group were issued: the begin of their validity is
            /// earlier. Capstan's own certificates are valid from five minutes before they are issued. Default: the
            /// creation of the object.
            issued_before: Time,
            /// Issuer of the serial number: the CN of the CA's subject, e.g. `capstan-ca`.
            #[schemars(length(min = 1, max = 256))]
            issuer: String,
            /// Reason of the revocation, for people.
            #[schemars(length(max = 1024))]
            reason: String,
            /// Serial number of the certificate, in lower-case hexadecimal digits without separators and without
            /// leading zeros.
            #[schemars(length(min = 1, max = 40), regex(pattern = "^[1-9a-f][0-9a-f]*$"))]
            serial_number: String,
            /// User: the CN of the certificates' subject. Certificates that are issued later are accepted.
            #[schemars(length(min = 1, max = 256))]
            user: String,
        }
    }
}
