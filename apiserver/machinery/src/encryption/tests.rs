//! Tests of sealing and opening values.

use super::*;

fn rules(providers: Vec<Provider>) -> Rules {
    BTreeMap::from([("secrets".to_owned(), providers)])
}

fn encryption(keys: &[(&str, u8)]) -> Encryption {
    let providers = keys.iter().map(|(name, byte)| Provider::aes_gcm(name, &[*byte; 32]).unwrap()).collect();
    Encryption::new(rules(providers))
}

#[test]
fn an_encrypted_value_decrypts_only_under_its_own_key() {
    let rules = encryption(&[("k1", 1)]);
    let stored = rules.seal("secrets", "/capstan/a", Bytes::from("hunter2")).unwrap();
    assert!(stored.starts_with(b"k8s:enc:aesgcm:v1:k1:"));
    assert!(!stored.windows(7).any(|window| window == b"hunter2"));
    assert_eq!(rules.open("secrets", "/capstan/a", &stored).unwrap(), "hunter2");
    assert_eq!(
        rules.open("secrets", "/capstan/b", &stored),
        Err(EncryptionError::Damaged("/capstan/b".into()))
    );
}

#[test]
fn an_older_key_still_reads_but_is_not_current() {
    let old = encryption(&[("k1", 1)]).seal("secrets", "/a", Bytes::from("v")).unwrap();
    let rotated = encryption(&[("k2", 2), ("k1", 1)]);
    assert_eq!(rotated.open("secrets", "/a", &old).unwrap(), "v");
    assert!(!rotated.is_current("secrets", &old));
    let lost = encryption(&[("k2", 2)]);
    assert_eq!(lost.open("secrets", "/a", &old), Err(EncryptionError::UnknownKey("/a".into())));
}

#[test]
fn replaced_rules_apply_at_once() {
    let encryption = encryption(&[("k1", 1)]);
    let old = encryption.seal("secrets", "/a", Bytes::from("v")).unwrap();
    let key = |name, byte| Provider::aes_gcm(name, &[byte; 32]).unwrap();
    encryption.replace(rules(vec![key("k2", 2), key("k1", 1)]));
    assert!(!encryption.is_current("secrets", &old));
    assert_eq!(encryption.open("secrets", "/a", &old).unwrap(), "v");
    assert!(
        encryption.seal("secrets", "/a", Bytes::from("v")).unwrap().starts_with(b"k8s:enc:aesgcm:v1:k2:")
    );
}

#[test]
fn plain_values_are_refused_without_an_identity_provider() {
    let plain = Bytes::from_static(b"{}");
    let refused = encryption(&[("k1", 1)]).open("secrets", "/a", &plain);
    assert_eq!(refused, Err(EncryptionError::Plain("/a".into())));
    let with_identity = rules(vec![Provider::aes_gcm("k1", &[1; 32]).unwrap(), Provider::Identity]);
    assert_eq!(Encryption::new(with_identity).open("secrets", "/a", &plain).unwrap(), "{}");
}

#[test]
fn keys_of_the_same_name_are_tried_in_turn() {
    let old = encryption(&[("key1", 1)]).seal("secrets", "/a", Bytes::from("v")).unwrap();
    let both = encryption(&[("key1", 2), ("key1", 1)]);
    assert_eq!(both.open("secrets", "/a", &old).unwrap(), "v");
    let fingerprints = [fingerprint(&[1; 32]), fingerprint(&[2; 32])];
    assert_eq!(both.sealing_keys(), BTreeSet::from([fingerprints[1].clone()]));
    let sealed = both.seal_with(&fingerprints[0], "/c", b"check").unwrap().unwrap();
    assert_eq!(encryption(&[("key1", 1)]).open_with_any("/c", &sealed).unwrap(), "check");
    assert!(encryption(&[("key1", 2)]).open_with_any("/c", &sealed).is_err());
    assert_eq!(both.seal_with("00000000", "/c", b"check").unwrap(), None);
}

#[test]
fn other_resources_are_not_encrypted() {
    let rules = encryption(&[("k1", 1)]);
    assert_eq!(rules.seal("machines.cluster.x-k8s.io", "/a", Bytes::from("{}")).unwrap(), "{}");
}

#[test]
fn a_derived_key_seals_each_value_and_the_older_form_stays_readable() {
    let rules = encryption(&[("k1", 1)]);
    let older = rules.seal("secrets", "/a", Bytes::from("v")).unwrap();
    rules.derive_keys(true);
    assert!(!rules.is_current("secrets", &older));
    let [one, other] = [(); 2].map(|()| rules.seal("secrets", "/a", Bytes::from("v")).unwrap());
    assert!(one.starts_with(b"k8s:enc:aesgcm:v2:k1:"));
    let info = |stored: &Bytes| stored["k8s:enc:aesgcm:v2:k1:".len()..][..local::INFO].to_vec();
    assert_ne!(info(&one), info(&other), "each value has a key of its own");
    for stored in [&older, &one, &other] {
        assert_eq!(rules.open("secrets", "/a", stored).unwrap(), "v");
        assert_eq!(rules.open("secrets", "/b", stored), Err(EncryptionError::Damaged("/b".into())));
    }
    rules.derive_keys(false);
    assert!(rules.is_current("secrets", &older) && !rules.is_current("secrets", &one));
    let mut changed = one.to_vec();
    changed["k8s:enc:aesgcm:v2:k1:".len()] ^= 1;
    assert!(rules.open("secrets", "/a", &Bytes::from(changed)).is_err());
}

#[test]
fn a_promoted_key_seals_wherever_it_is_listed() {
    let rules = encryption(&[("k1", 1), ("k2", 2)]);
    let promoted = fingerprint(&[2; 32]);
    assert!(rules.promote(Some(&promoted)) && !rules.promote(Some(&promoted)));
    assert_eq!(rules.sealing_keys(), BTreeSet::from([promoted]));
    assert!(rules.seal("secrets", "/a", Bytes::from("v")).unwrap().starts_with(b"k8s:enc:aesgcm:v1:k2:"));
    assert!(rules.promote(Some("00000000")));
    assert!(rules.seal("secrets", "/a", Bytes::from("v")).unwrap().starts_with(b"k8s:enc:aesgcm:v1:k1:"));
}

#[test]
fn a_rule_that_encrypts_nothing_is_sealed_with_no_known_key() {
    let key = || Provider::aes_gcm("k1", &[1; 32]).unwrap();
    let known = key().id().unwrap();
    let seals = |providers| Encryption::new(rules(providers)).seals_only_with(|id| id == known);
    assert!(seals(vec![key(), Provider::Identity]));
    assert!(!seals(vec![Provider::Identity, key()]));
    assert!(!seals(vec![Provider::aes_gcm("k2", &[2; 32]).unwrap(), key()]));
}

#[test]
fn a_value_of_another_key_with_the_same_name_is_not_sealed_as_now() {
    let old = encryption(&[("key1", 1)]).seal("secrets", "/a", Bytes::from("v")).unwrap();
    let both = encryption(&[("key1", 2), ("key1", 1)]);
    assert!(both.is_current("secrets", &old), "the prefix alone does not show it");
    assert_eq!(both.is_sealed_as_now("secrets", "/a", &old), Ok(false));
    let new = both.seal("secrets", "/a", Bytes::from("v")).unwrap();
    assert_eq!(both.is_sealed_as_now("secrets", "/a", &new), Ok(true));
}

/// `openssl enc -aes-256-cbc -K 0101…01 -iv 0202…02` of `{"a":1}`, checked with another program.
const CBC: &str = "3gbKLZ/Qq23OUmJ9Rp/3sg==";

#[test]
fn aes_cbc_opens_values_of_kube_apiserver_and_seals_none() {
    use base64::Engine;
    let body = base64::engine::general_purpose::STANDARD.decode(CBC).unwrap();
    let stored = [b"k8s:enc:aescbc:v1:old:".as_slice(), &[2; 16], &body].concat();
    let providers = vec![Provider::aes_cbc("old", &[1; 32]).unwrap()];
    let only = Encryption::new(rules(providers));
    assert_eq!(only.open("secrets", "/a", &Bytes::from(stored.clone())).unwrap(), r#"{"a":1}"#);
    let refused = only.seal("secrets", "/a", Bytes::from("v")).unwrap_err().to_string();
    assert!(refused.contains("aescbc only reads"), "{refused}");
    let before =
        vec![Provider::aes_gcm("new", &[3; 32]).unwrap(), Provider::aes_cbc("old", &[1; 32]).unwrap()];
    let both = Encryption::new(rules(before));
    assert_eq!(both.open("secrets", "/a", &Bytes::from(stored)).unwrap(), r#"{"a":1}"#);
}

/// Plug-in that opens a seed of the ciphertext's first byte, except that it refuses `0` and does not answer about `9`.
#[derive(Debug, Default)]
struct Plugin(std::sync::atomic::AtomicUsize);

impl KmsPlugin for Plugin {
    fn open(&self, sealed: &SealedSeed) -> Result<Vec<u8>, OpenError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        match sealed.ciphertext[0] {
            0 => Err(OpenError::Refused("the key was destroyed".to_owned())),
            9 => Err(OpenError::NoAnswer("no answer".to_owned())),
            byte => Ok(vec![byte; SEED]),
        }
    }

    fn hasten(&self) {}
}

fn with_plugin(plugin: &Arc<Plugin>, seed: Option<u8>) -> Encryption {
    let seeds = KmsSeeds::default();
    if let Some(byte) = seed {
        let sealed =
            SealedSeed { key_id: "k".to_owned(), ciphertext: vec![byte], annotations: BTreeMap::new() };
        seeds.replace(&[byte; SEED], sealed, std::time::Instant::now());
    }
    let plugin: Arc<dyn KmsPlugin> = plugin.clone();
    let provider = KmsProvider::new("vault".to_owned(), plugin, seeds);
    Encryption::new(rules(vec![Provider::Kms(Arc::new(provider))]))
}

#[test]
fn a_seed_that_the_plugin_refuses_does_not_block_others_and_one_without_an_answer_does() {
    let plugin = Arc::new(Plugin::default());
    let stored = [0, 1, 2, 9].map(|byte| {
        with_plugin(&plugin, Some(byte)).seal("secrets", "/a", Bytes::from_static(b"v")).unwrap()
    });
    let reader = with_plugin(&plugin, None);
    let open = |index: usize| reader.open("secrets", "/a", &stored[index]);
    for _ in 0..3 {
        let refused = open(0).unwrap_err();
        assert!(!refused.is_temporary() && refused.may_pass(), "{refused}");
    }
    assert_eq!(plugin.0.load(Ordering::SeqCst), 1, "a refused seed has a pause");
    assert_eq!(open(1).unwrap(), "v");
    let silent = open(3).unwrap_err();
    assert!(silent.is_temporary() && silent.may_pass(), "{silent}");
    assert!(
        open(2).unwrap_err().is_temporary(),
        "a plug-in that does not answer is not called again at once"
    );
    assert_eq!(open(1).unwrap(), "v");
    assert_eq!(plugin.0.load(Ordering::SeqCst), 3);
}

#[test]
fn hv_43_the_seed_that_seals_is_never_forgotten_and_others_are_a_day_after_their_last_use() {
    let (plugin, seeds, now) = (Arc::new(Plugin::default()), KmsSeeds::default(), std::time::Instant::now());
    let opening: Arc<dyn KmsPlugin> = plugin.clone();
    let provider = KmsProvider::new("vault".to_owned(), opening, seeds.clone());
    let encryption = Encryption::new(rules(vec![Provider::Kms(Arc::new(provider))]));
    let after = |hours| now + std::time::Duration::from_hours(hours);
    let write = |byte: u8, at: std::time::Instant| {
        let (key_id, ciphertext) = (format!("k{byte}"), vec![byte]);
        let sealed = SealedSeed { key_id, ciphertext, annotations: BTreeMap::new() };
        seeds.replace(&[byte; SEED], sealed, at);
        encryption.seal("secrets", "/a", Bytes::from_static(b"v")).unwrap()
    };
    let (former, present) = (write(1, now), write(2, after(20)));
    // Returns the number of calls to the plug-in, which may be down.
    let open = |stored: &Bytes| {
        assert_eq!(encryption.open("secrets", "/a", stored).unwrap(), "v");
        plugin.0.load(Ordering::SeqCst)
    };
    seeds.forget_unused(after(25));
    assert_eq!(open(&former), 0, "it has sealed until the other one came");
    seeds.forget_unused(after(25));
    assert_eq!(open(&present), 0);
    assert_eq!(open(&former), 1);
}
