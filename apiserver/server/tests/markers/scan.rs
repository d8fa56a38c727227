//! Search for markers in outputs, in all their encodings.

use std::collections::{BTreeMap, HashMap};

use crate::encodings;

/// Bytes at the begin of an encoding by which the search finds candidates. No encoding is shorter.
const HEAD: usize = 8;

/// Bytes around a found marker that the report shows.
const CONTEXT: usize = 120;

/// Secret of a known text, and the place that it is planted in.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    pub(crate) place: String,
    pub(crate) secret: Vec<u8>,
}

/// Returns a new random text. Some of its characters are escaped in URLs and in JSON.
pub(crate) fn random() -> String {
    let text = uuid::Uuid::new_v4().simple().to_string();
    format!("{}+/{}", &text[..16], &text[16..])
}

/// All markers of a test.
#[derive(Debug, Default, Clone)]
pub(crate) struct Markers(Vec<Marker>);

impl Markers {
    /// Adds a marker with a random text, and returns the text.
    pub(crate) fn plant(&mut self, place: &str) -> String {
        let secret = random();
        self.add(place, secret.as_bytes());
        secret
    }

    /// Adds a secret that exists.
    pub(crate) fn add(&mut self, place: &str, secret: &[u8]) {
        assert!(secret.len() >= 16, "{place}: too short to be unique");
        self.0.push(Marker { place: place.to_owned(), secret: secret.to_vec() });
    }
}

/// Search for markers.
pub(crate) struct Scan<'a> {
    markers: &'a Markers,
    /// Marker, name and bytes of each encoding, by its begin.
    encodings: HashMap<[u8; HEAD], Vec<(usize, &'static str, Vec<u8>)>>,
    /// First two bytes of all encodings.
    begins: Vec<bool>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(markers: &'a Markers) -> Self {
        let mut scan = Self { markers, encodings: HashMap::new(), begins: vec![false; 1 << 16] };
        for (index, marker) in markers.0.iter().enumerate() {
            for (name, bytes) in encodings::all(&marker.secret) {
                let head = *bytes.first_chunk::<HEAD>().unwrap();
                scan.begins[usize::from(u16::from_be_bytes([head[0], head[1]]))] = true;
                scan.encodings.entry(head).or_default().push((index, name, bytes));
            }
        }
        scan
    }

    /// Returns the places whose markers are in an output, each with the encoding and the text around it.
    pub(crate) fn found(&self, output: &[u8]) -> BTreeMap<&'a str, String> {
        let mut found = BTreeMap::new();
        for (at, head) in output.array_windows::<HEAD>().enumerate() {
            if !self.begins[usize::from(u16::from_be_bytes([head[0], head[1]]))] {
                continue;
            }
            for (index, name, bytes) in self.encodings.get(head).into_iter().flatten() {
                let place = self.markers.0[*index].place.as_str();
                if output[at..].starts_with(bytes) && !found.contains_key(place) {
                    let around = at.saturating_sub(CONTEXT)..(at + bytes.len() + CONTEXT).min(output.len());
                    found.insert(place, format!("{name}: {}", output[around].escape_ascii()));
                }
            }
        }
        found
    }
}

#[test]
fn the_scan_finds_a_marker_in_each_encoding_at_each_place() {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    let mut markers = Markers::default();
    let secret = markers.plant("first");
    markers.plant("second");
    let scan = Scan::new(&markers);
    let with = |before: &str, after: &str| format!("{before}{secret}{after}");
    let escaped = percent_encoding::utf8_percent_encode(&secret, percent_encoding::NON_ALPHANUMERIC);
    let mut leaks = vec![
        with("password=", " is wrong").into_bytes(),
        secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes(),
        secret.bytes().map(|byte| format!("{byte:02X}")).collect::<String>().into_bytes(),
        format!("/path?token={escaped}&a=b").into_bytes(),
        format!("{:?}", secret.as_bytes()).into_bytes(),
        serde_json::to_vec(secret.as_bytes()).unwrap(),
        format!("{:?}", bytes::Bytes::from(secret.clone())).into_bytes(),
        secret.replace('/', "\\/").into_bytes(),
        secret[..secret.len() / 2].as_bytes().to_vec(),
        secret[secret.len() / 2..].as_bytes().to_vec(),
    ];
    for before in ["", "a", "ab", "abc"] {
        for after in ["", "x", "xy", "xyz"] {
            let once = STANDARD.encode(with(before, after));
            leaks.push(URL_SAFE_NO_PAD.encode(with(before, after)).into_bytes());
            leaks.extend(["", "{", "{}"].map(|more| STANDARD.encode(format!("{more}{once}")).into_bytes()));
            leaks.push(once.into_bytes());
        }
    }
    for leak in leaks {
        let places: Vec<&str> = scan.found(&leak).into_keys().collect();
        assert_eq!(places, ["first"], "{}", leak.escape_ascii());
    }
    for other in [random().into_bytes(), STANDARD.encode(random()).into_bytes(), vec![0; 4096], Vec::new()] {
        assert!(scan.found(&other).is_empty());
    }
    let begin = &secret.as_bytes()[..12];
    assert!(scan.found(begin).is_empty(), "a part that is too short proves nothing");
}
