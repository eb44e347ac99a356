//! Tests the bill of materials and the licences of this repository.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use galley_sbom::{
    LinkedCrate, bill_of_materials, licence_expression, linked_crates, third_party_licences,
};

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn crates() -> Vec<LinkedCrate> {
    linked_crates(&workspace(), TARGET).unwrap()
}

/// The linked crates according to `cargo tree`.
fn cargo_tree() -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--package",
            "galley",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--target", TARGET, "--format", "{p}"])
        .current_dir(workspace())
        .output()
        .unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some(format!(
                "{} {}",
                words.next()?,
                words.next()?.trim_start_matches('v')
            ))
        })
        .collect()
}

#[test]
fn every_linked_crate_is_listed_with_licence_and_checksum() {
    let crates = crates();
    let bill = bill_of_materials(&crates, "1.0.0", TARGET, 0);
    let listed: BTreeSet<String> = bill["components"]
        .as_array()
        .unwrap()
        .iter()
        .chain([&bill["metadata"]["component"]])
        .map(|component| {
            format!(
                "{} {}",
                component["name"].as_str().unwrap(),
                component["version"].as_str().unwrap()
            )
        })
        .collect();
    let linked = cargo_tree();
    assert!(linked.len() > 100, "cargo tree lists only {}", linked.len());
    let missing: Vec<_> = linked.difference(&listed).collect();
    assert!(missing.is_empty(), "not listed: {missing:?}");
    for linked in &crates {
        assert!(linked.licence.is_some(), "{} has no licence", linked.name);
        assert_eq!(
            linked.checksum.is_none(),
            linked.name.starts_with("galley"),
            "{}",
            linked.name
        );
    }
    // Dependencies of tests are not linked.
    assert!(
        !crates
            .iter()
            .any(|linked| linked.name == "galley-testkit" || linked.name == "proptest")
    );
}

#[test]
fn references_are_unique_and_refer_to_components() {
    let bill = bill_of_materials(&crates(), "1.0.0", TARGET, 0);
    let mut references = BTreeSet::new();
    for component in bill["components"]
        .as_array()
        .unwrap()
        .iter()
        .chain([&bill["metadata"]["component"]])
    {
        let reference = component["bom-ref"].as_str().unwrap();
        assert!(references.insert(reference), "{reference} twice");
    }
    for dependency in bill["dependencies"].as_array().unwrap() {
        assert!(references.contains(dependency["ref"].as_str().unwrap()));
        for used in dependency["dependsOn"].as_array().unwrap() {
            assert!(
                references.contains(used.as_str().unwrap()),
                "{used} is not a component"
            );
        }
    }
    assert_eq!(bill["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
    assert_eq!(bill["metadata"]["component"]["type"], "application");
}

#[test]
fn licence_texts_include_crates_and_their_bundled_c_libraries() {
    let page = third_party_licences(&crates()).unwrap();
    for text in [
        "tokio 1.",
        "Tokio Contributors",
        // In zstd-sys, libmimalloc-sys and aws-lc-sys.
        "Meta Platforms",
        "Microsoft Corporation, Daan Leijen",
        "OpenSSL",
    ] {
        assert!(page.contains(text), "no `{text}`");
    }
    assert!(
        !page.contains("galley-http 0"),
        "lists a crate of this repository"
    );
    assert_eq!(
        page,
        third_party_licences(&crates()).unwrap(),
        "not reproducible"
    );
}

#[test]
fn declared_licences_are_converted_to_spdx_expressions() {
    assert_eq!(licence_expression("MIT/Apache-2.0"), "MIT OR Apache-2.0");
    assert_eq!(licence_expression("Apache-2.0 / MIT"), "Apache-2.0 OR MIT");
    assert_eq!(licence_expression("MIT OR Apache-2.0"), "MIT OR Apache-2.0");
}
