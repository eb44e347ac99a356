//! `galley-sbom TARGET FOLDER` writes `galley.cdx.json` and `third-party-licences.txt` for the binary of a target.
//!
//! The timestamp of the bill of materials is `SOURCE_DATE_EPOCH`.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, folder] = arguments.as_slice() else {
        return fail("usage: galley-sbom TARGET FOLDER", 2);
    };
    match write(target, Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message, 1),
    }
}

#[expect(clippy::print_stderr, reason = "a command line tool")]
fn fail(message: &str, code: u8) -> ExitCode {
    eprintln!("galley-sbom: {message}");
    ExitCode::from(code)
}

fn write(target: &str, folder: &Path) -> Result<(), String> {
    let time = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|time| time.parse().ok())
        .ok_or("SOURCE_DATE_EPOCH is not set")?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = galley_sbom::linked_crates(&workspace, target)?;
    let bill = galley_sbom::bill_of_materials(&crates, &rust_version()?, target, time);
    let licences = galley_sbom::third_party_licences(&crates)?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, text) in [
        ("galley.cdx.json", format!("{bill:#}\n")),
        ("third-party-licences.txt", licences),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn rust_version() -> Result<String, String> {
    let output = Command::new("rustc")
        .arg("--version")
        .output()
        .map_err(|error| format!("rustc: {error}"))?;
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    line.split(' ')
        .nth(1)
        .map(str::to_owned)
        .ok_or_else(|| "rustc printed no version".to_owned())
}
