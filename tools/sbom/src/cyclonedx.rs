//! The bill of materials in the format `CycloneDX` 1.5.

use serde_json::{Value, json};

use crate::LinkedCrate;

/// The bill of materials of a binary: its own component, the linked crates, and their dependencies. `time` is in seconds since
/// 1970; `rust` is the version of the compiler, whose standard library is also linked.
pub fn bill_of_materials(crates: &[LinkedCrate], rust: &str, target: &str, time: i64) -> Value {
    let galley = crates.iter().find(|linked| linked.name == "galley");
    let mut components: Vec<Value> = crates
        .iter()
        .filter(|linked| linked.name != "galley")
        .map(component)
        .collect();
    components.push(json!({
        "type": "library",
        "bom-ref": format!("rust-std@{rust}"),
        "name": "rust-std",
        "version": rust,
        "licenses": [{ "expression": "MIT OR Apache-2.0" }],
    }));
    let dependencies: Vec<Value> = crates
        .iter()
        .map(|linked| {
            let mut uses: Vec<String> = linked
                .uses
                .iter()
                .map(|(name, version)| reference(name, version))
                .collect();
            uses.sort();
            json!({ "ref": reference(&linked.name, &linked.version), "dependsOn": uses })
        })
        .collect();
    let timestamp = jiff::Timestamp::from_second(time).unwrap_or_default();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": timestamp.to_string(),
            "component": galley.map(|galley| {
                let mut value = component(galley);
                value["type"] = json!("application");
                value["properties"] = json!([{ "name": "galley:target", "value": target }]);
                value
            }),
        },
        "components": components,
        "dependencies": dependencies,
    })
}

fn reference(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn component(linked: &LinkedCrate) -> Value {
    let mut value = json!({
        "type": "library",
        "bom-ref": reference(&linked.name, &linked.version),
        "name": linked.name,
        "version": linked.version,
    });
    if let Some(licence) = &linked.licence {
        value["licenses"] = json!([{ "expression": licence }]);
    }
    // Only crates of the registry have a package URL and a checksum.
    if let Some(checksum) = &linked.checksum {
        value["purl"] = json!(reference(&linked.name, &linked.version));
        value["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = &linked.repository {
        value["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    value
}
