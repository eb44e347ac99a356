//! Finds the crates that the `galley` binary contains.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate in the binary. Includes procedural macros, because the binary contains their output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedCrate {
    /// Name in the registry.
    pub name: String,
    /// Version in `Cargo.lock`.
    pub version: String,
    /// Licence as an SPDX expression.
    pub licence: Option<String>,
    /// URL of the source repository.
    pub repository: Option<String>,
    /// Declared authors; often empty.
    pub authors: Vec<String>,
    /// Folder with the sources.
    pub folder: PathBuf,
    /// SHA-256 of the archive, from `Cargo.lock`; `None` for a crate of this repository.
    pub checksum: Option<String>,
    /// Names and versions of direct dependencies.
    pub uses: BTreeSet<(String, String)>,
}

impl LinkedCrate {
    /// True for a crate of this repository.
    pub fn is_ours(&self) -> bool {
        self.checksum.is_none()
    }
}

/// The crates that `galley` links for a target, sorted by name and version. Excludes dependencies of build scripts and tests.
///
/// # Errors
///
/// A message, if `cargo` fails or its output is invalid.
pub fn linked_crates(workspace: &Path, target: &str) -> Result<Vec<LinkedCrate>, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
            target,
        ])
        .current_dir(workspace)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let lock = std::fs::read_to_string(workspace.join("Cargo.lock"))
        .map_err(|error| format!("Cargo.lock: {error}"))?;
    from_metadata(&metadata, &checksums(&lock))
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

fn from_metadata(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Vec<LinkedCrate>, String> {
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"], "nodes")
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let packages: BTreeMap<&str, &Value> = list(metadata, "packages")
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let root = packages
        .iter()
        .find_map(|(id, package)| (package["name"] == "galley").then_some(*id))
        .ok_or("no package `galley`")?;

    let mut found: BTreeMap<(String, String), LinkedCrate> = BTreeMap::new();
    let mut visited = BTreeSet::new();
    let mut pending = vec![root];
    while let Some(id) = pending.pop() {
        if !visited.insert(id) {
            continue;
        }
        let (Some(node), Some(package)) = (nodes.get(id), packages.get(id)) else {
            return Err(format!("no package `{id}`"));
        };
        let dependencies: Vec<&str> = list(node, "deps")
            .iter()
            .filter(|dependency| {
                list(dependency, "dep_kinds")
                    .iter()
                    .any(|kind| kind["kind"].is_null())
            })
            .filter_map(|dependency| dependency["pkg"].as_str())
            .collect();
        pending.extend(&dependencies);
        let mut linked = describe(package, checksums)?;
        linked.uses = dependencies
            .iter()
            .filter_map(|id| name_and_version(packages.get(id)?))
            .collect();
        found.insert((linked.name.clone(), linked.version.clone()), linked);
    }
    Ok(found.into_values().collect())
}

fn name_and_version(package: &Value) -> Option<(String, String)> {
    Some((text(package, "name")?, text(package, "version")?))
}

fn describe(
    package: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<LinkedCrate, String> {
    let (name, version) = name_and_version(package).ok_or("a package without a name")?;
    let manifest = text(package, "manifest_path").ok_or("a package without a manifest")?;
    let checksum = checksums.get(&(name.clone(), version.clone())).cloned();
    Ok(LinkedCrate {
        licence: text(package, "license").map(|licence| crate::licence_expression(&licence)),
        repository: text(package, "repository"),
        authors: list(package, "authors")
            .iter()
            .filter_map(|author| author.as_str().map(str::to_owned))
            .collect(),
        folder: Path::new(&manifest)
            .parent()
            .unwrap_or(Path::new(""))
            .to_owned(),
        checksum,
        uses: BTreeSet::new(),
        name,
        version,
    })
}

/// Checksums by name and version, from the blocks of `Cargo.lock`, which have one field per line.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |block: &str, key: &str| {
        block.lines().find_map(|line| {
            let value = line.strip_prefix(key)?.strip_prefix(" = \"")?;
            Some(value.strip_suffix('"')?.to_owned())
        })
    };
    lock.split("[[package]]")
        .filter_map(|block| {
            let key = (field(block, "name")?, field(block, "version")?);
            Some((key, field(block, "checksum")?))
        })
        .collect()
}
