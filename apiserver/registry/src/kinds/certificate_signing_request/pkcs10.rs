//! PKCS #10 request in `spec.request`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;

/// Label of a request in PEM.
const LABEL: &str = "CERTIFICATE REQUEST";

/// Returns the organizations in the subject of a request, which are the groups of its certificate. An organization that is
/// no text is left out: this server's signers issue no certificate with one. `request` is PEM in base64.
///
/// # Errors
/// The reason why this is no request.
pub(super) fn organizations(request: &str) -> Result<Vec<String>, String> {
    let no_block = || format!("PEM block type must be {LABEL}");
    let pem = STANDARD.decode(request).ok().and_then(|pem| String::from_utf8(pem).ok());
    let pem = pem.ok_or_else(no_block)?;
    let (_, block) = parse_x509_pem(pem.as_bytes()).map_err(|_| no_block())?;
    if block.label != LABEL {
        return Err(no_block());
    }
    let (rest, parsed) = X509CertificationRequest::from_der(&block.contents)
        .map_err(|_| "the content of the PEM block is no PKCS #10 request".to_owned())?;
    if !rest.is_empty() {
        return Err("the PEM block has more content than the PKCS #10 request".to_owned());
    }
    // A signature of an algorithm that is unknown here can be good: the signer decides.
    if parsed.verify_signature() == Err(X509Error::SignatureVerificationError) {
        return Err("the signature is not one of the key in the request".to_owned());
    }
    let subject = &parsed.certification_request_info.subject;
    Ok(subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Request of the user `alice` in the group `dev`.
    pub(in super::super) const ALICE: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIHYMIGAAgEAMB4xDjAMBgNVBAMMBWFsaWNlMQwwCgYDVQQKDANkZXYwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAARvpXcg/SflE8UnAtwzjVTIkkhmMcGYW1+LPdhW
xgf/oa4Oww2TxpCaDBrrPa5M1D3Cfa97pvP05OqEOGcO5KAQoAAwCgYIKoZIzj0E
AwIDRwAwRAIgSXfhLJ6gmvTawoJw+ZfN2A2dcX0nk5ClrrbY5/Owd+gCIFlPETw7
P9WHNotVHrhsmeWaa+9V5b9/WKqt4oMM6tkE
-----END CERTIFICATE REQUEST-----
";

    #[test]
    fn a_request_is_one_pem_block_with_a_signed_subject() {
        let of = |pem: &str| organizations(&STANDARD.encode(pem));
        assert_eq!(of(ALICE), Ok(vec!["dev".to_owned()]));
        let certificate = ALICE.replace("CERTIFICATE REQUEST", "CERTIFICATE");
        let empty = "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n";
        // Another subject, with the signature of the first one.
        let forged = ALICE.replace("MBWFsaWNl", "MBWFsaWNm");
        for (pem, expected) in [
            ("", "PEM block type must be CERTIFICATE REQUEST"),
            ("no PEM", "PEM block type must be CERTIFICATE REQUEST"),
            (certificate.as_str(), "PEM block type must be CERTIFICATE REQUEST"),
            (empty, "no PKCS #10 request"),
            (forged.as_str(), "the signature"),
        ] {
            let why = of(pem).unwrap_err();
            assert!(why.contains(expected), "{pem}: {why}");
        }
        assert!(organizations("%").is_err());
    }
}
