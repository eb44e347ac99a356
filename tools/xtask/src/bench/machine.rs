//! The environment of a run: machine, program versions, date.

use std::{collections::BTreeMap, fs, process::Command};

use serde::{Deserialize, Serialize};

use super::{pin::Cores, placeholders::Placeholders};
use crate::{error::CommandError, program};

/// The facts that a reader needs to compare results.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Start of the run, in UTC.
    pub(crate) began: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// The cores of contenders and client.
    pub(crate) pinned: Cores,
    /// The first line of each program's version output.
    pub(crate) versions: BTreeMap<String, String>,
}

impl Machine {
    /// Reads the facts. `programs` maps each name to the command that prints its version.
    pub(crate) fn read(
        programs: &BTreeMap<String, Vec<String>>,
        placeholders: &Placeholders,
        pinned: &Cores,
    ) -> Result<Self, CommandError> {
        let mut versions = BTreeMap::new();
        for (name, line) in programs {
            versions.insert(name.clone(), version(&placeholders.fill_all(line)?));
        }
        let uname = rustix::system::uname();
        Ok(Self {
            began: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H-%M-%SZ")
                .to_string(),
            cpu: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: std::thread::available_parallelism()?.get(),
            kernel: uname.release().to_string_lossy().into_owned(),
            pinned: *pinned,
            versions,
        })
    }
}

/// The first line of stdout, or else of stderr. The exit code is ignored: programs return different codes for a version.
fn version(line: &[String]) -> String {
    let Some((name, arguments)) = line.split_first() else {
        return String::new();
    };
    let output = Command::new(name)
        .args(arguments)
        .env("PATH", program::path_with_sbin())
        .output();
    match output {
        Ok(output) => [output.stdout, output.stderr]
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes))
            .find_map(|text| text.lines().next().map(|line| line.trim().to_owned()))
            .unwrap_or_default(),
        Err(error) => format!("not found: {error}"),
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    let named = |name: &str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
            .next()
    };
    // Some ARM kernels give only a number.
    named("model name")
        .or_else(|| named("CPU part").map(|part| format!("CPU part {part}")))
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_model_is_read_from_cpuinfo() {
        for (text, expected) in [
            (
                "processor\t: 0\nmodel name\t: AMD EPYC 9575F\nmodel name\t: other\n",
                "AMD EPYC 9575F",
            ),
            ("processor\t: 0\nCPU part\t: 0xd40\n", "CPU part 0xd40"),
            ("", "unknown"),
        ] {
            assert_eq!(cpu_model(text), expected);
        }
    }

    #[test]
    fn a_version_is_the_first_line_of_stdout_or_stderr() {
        let shell = |script: &str| version(&["sh", "-c", script].map(str::to_owned));
        assert_eq!(shell("echo one; echo two"), "one");
        assert_eq!(shell("echo three >&2; exit 1"), "three");
        assert!(version(&["no-such-program-here".to_owned()]).starts_with("not found"));
    }
}
