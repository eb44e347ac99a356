//! Finds the crates that the `galley` binary contains.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate in the binary, with procedural macros, whose output is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedCrate {
    /// As in the registry.
    pub name: String,
    /// As in `Cargo.lock`.
    pub version: String,
    /// An SPDX expression.
    pub licence: Option<String>,
    /// Where its sources are developed.
    pub repository: Option<String>,
    /// As declared, often none.
    pub authors: Vec<String>,
    /// The folder with its sources.
    pub folder: PathBuf,
    /// SHA-256 of its archive, from `Cargo.lock`; none for a crate of this repository.
    pub checksum: Option<String>,
    /// Names and versions of the crates that it uses directly.
    pub uses: BTreeSet<(String, String)>,
}

impl LinkedCrate {
    /// A crate of this repository.
    pub fn is_ours(&self) -> bool {
        self.checksum.is_none()
    }
}

/// The crates that `galley` links on a target, sorted by name and version. Crates that only a build script or a test needs are
/// not among them.
///
/// # Errors
///
/// A message, if `cargo` fails or prints something unexpected.
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
    let mut seen = BTreeSet::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let (Some(node), Some(package)) = (nodes.get(id), packages.get(id)) else {
            return Err(format!("no package `{id}`"));
        };
        let used: Vec<&str> = list(node, "deps")
            .iter()
            .filter(|dependency| {
                list(dependency, "dep_kinds")
                    .iter()
                    .any(|kind| kind["kind"].is_null())
            })
            .filter_map(|dependency| dependency["pkg"].as_str())
            .collect();
        open.extend(&used);
        let mut linked = describe(package, checksums)?;
        linked.uses = used
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

/// By name and version, from the blocks of `Cargo.lock`, which cargo writes with one field per line.
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
