//! DER of the subject of a certificate, and PEM.
//!
//! Requests of users and certificates of the server have the same subject: the user is the common name, and each group is
//! an organization.

use pem::{EncodeConfig, LineEnding, Pem};

/// Content of the object identifier of a common name: 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Content of the object identifier of an organization: 2.5.4.10.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// Tag of a string of bits.
pub const BIT_STRING: u8 = 0x03;

/// Tag of an object identifier.
pub const OBJECT_IDENTIFIER: u8 = 0x06;

/// Tag of a sequence.
pub const SEQUENCE: u8 = 0x30;

const UTF8_STRING: u8 = 0x0c;
const SET: u8 = 0x31;

/// Encodes the subject: the user is the common name, and each group an organization.
pub fn subject(user: &str, groups: &[String]) -> Vec<u8> {
    let organizations = groups.iter().map(|group| (ORGANIZATION, group.as_str()));
    let names = std::iter::once((COMMON_NAME, user)).chain(organizations);
    let names = names.map(|(kind, text)| {
        let parts = [element(OBJECT_IDENTIFIER, kind), element(UTF8_STRING, text.as_bytes())];
        element(SET, &element(SEQUENCE, &parts.concat()))
    });
    element(SEQUENCE, &names.collect::<Vec<_>>().concat())
}

/// Encodes an element: its tag, its length and its content.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut encoded = vec![tag];
    match *length.as_slice() {
        [] => encoded.push(0),
        [short] if short < 0x80 => encoded.push(short),
        _ => {
            // A length has at most eight bytes.
            encoded.push(0x80 | u8::try_from(length.len()).unwrap_or_default());
            encoded.extend(length);
        }
    }
    encoded.extend(content);
    encoded
}

/// Encodes the content in PEM, as a block of this label.
pub fn pem(label: &str, content: &[u8]) -> String {
    let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(label, content), lines)
}

#[cfg(test)]
mod tests {
    use x509_parser::pem::parse_x509_pem;

    use super::*;

    #[test]
    fn the_length_of_an_element_has_one_byte_below_128_and_more_above() {
        let table: [(usize, &[u8]); 6] = [
            (0, &[SET, 0]),
            (1, &[SET, 1]),
            (127, &[SET, 127]),
            (128, &[SET, 0x81, 128]),
            (255, &[SET, 0x81, 255]),
            (256, &[SET, 0x82, 1, 0]),
        ];
        for (size, header) in table {
            let content = vec![7_u8; size];
            assert_eq!(element(SET, &content), [header, &content[..]].concat(), "{size}");
        }
    }

    #[test]
    fn a_subject_names_the_user_first_and_then_each_group() {
        let user = [0x31, 0x0a, 0x30, 0x08, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 0x01, b'a'];
        let group = [0x31, 0x0a, 0x30, 0x08, 0x06, 0x03, 0x55, 0x04, 0x0a, 0x0c, 0x01, b'b'];
        assert_eq!(subject("a", &[]), [&[SEQUENCE, 12][..], &user].concat());
        let expected = [&[SEQUENCE, 24][..], &user, &group].concat();
        assert_eq!(subject("a", &["b".to_owned()]), expected);
    }

    #[test]
    fn a_block_of_pem_has_its_label_and_no_long_line_and_is_read_back() {
        for size in [1, 47, 48, 49, 300] {
            let content = vec![7_u8; size];
            let text = pem("PRIVATE KEY", &content);
            assert!(text.lines().all(|line| line.len() <= 64), "{text}");
            let (_, block) = parse_x509_pem(text.as_bytes()).unwrap();
            assert_eq!((block.label.as_str(), block.contents), ("PRIVATE KEY", content));
        }
    }
}
