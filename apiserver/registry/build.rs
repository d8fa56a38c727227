//! Build script that packs the schemas of all kinds. The server links the packed schemas and not the code that creates
//! them: `docs/decisions/0040-pack-schemas-at-build-time.md`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    // The script links the types, so Cargo runs it again when they change.
    writeln!(std::io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    let mut list = String::from("static PACKED: &[(&str, &[u8])] = &[\n");
    for (number, (name, schema)) in schemas()?.into_iter().enumerate() {
        fs::write(out.join(format!("{number}.deflate")), packed(&schema)?)?;
        writeln!(list, "({name:?}, include_bytes!(\"{number}.deflate\")),")?;
    }
    list.push_str("];\n");
    fs::write(out.join("schemas.rs"), list)?;
    Ok(())
}

/// Returns the schemas of kinds by group, version and kind, and those of request bodies by kind.
fn schemas() -> Result<Vec<(String, Value)>, Box<dyn Error>> {
    let mut schemas = Vec::new();
    for descriptor in apiserver_types::DESCRIPTORS {
        let name = format!("{}/{}/{}", descriptor.group, descriptor.version, descriptor.kind);
        let schema = apiserver_types::schema(descriptor)
            .ok_or_else(|| format!("{name} is listed without a schema"))?;
        schemas.push((name, schema));
    }
    let bodies = apiserver_types::bodies().into_iter().chain(apiserver_types::verb_bodies());
    let bodies = bodies.map(|(kind, schema)| (kind.to_owned(), schema));
    Ok(schemas.into_iter().chain(bodies).collect())
}

fn packed(schema: &Value) -> Result<Vec<u8>, Box<dyn Error>> {
    // Compression time does not matter here.
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(schema.to_string().as_bytes())?;
    Ok(encoder.finish()?)
}
