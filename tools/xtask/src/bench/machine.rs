//! Where the numbers come from: the machine, its programs, the day.

use std::{collections::BTreeMap, fs, process::Command};

use serde::{Deserialize, Serialize};

use super::{pin::Cores, program, words::Words};
use crate::demo::CommandError;

/// What a reader must know to compare.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// When the run began, in UTC.
    pub(crate) began: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// Which core the contenders and the clients had.
    pub(crate) pinned: Cores,
    /// What each program calls itself.
    pub(crate) versions: BTreeMap<String, String>,
}

impl Machine {
    /// `programs`: for each name the command that prints its version.
    pub(crate) fn look(
        programs: &BTreeMap<String, Vec<String>>,
        words: &Words,
        pinned: &Cores,
    ) -> Result<Self, CommandError> {
        let mut versions = BTreeMap::new();
        for (name, line) in programs {
            versions.insert(name.clone(), version(&words.fill_all(line)?));
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

/// The first line that it prints, on whichever stream; programs do not agree on their exit code for it.
fn version(line: &[String]) -> String {
    let Some((name, arguments)) = line.split_first() else {
        return String::new();
    };
    let output = Command::new(name)
        .args(arguments)
        .env("PATH", program::with_sbin())
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
    // Some machines with ARM processors give only numbers.
    named("model name")
        .or_else(|| named("CPU part").map(|part| format!("CPU part {part}")))
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_models() {
        for (text, wanted) in [
            (
                "processor\t: 0\nmodel name\t: AMD EPYC 9575F\nmodel name\t: other\n",
                "AMD EPYC 9575F",
            ),
            ("processor\t: 0\nCPU part\t: 0xd40\n", "CPU part 0xd40"),
            ("", "unknown"),
        ] {
            assert_eq!(cpu_model(text), wanted);
        }
    }

    #[test]
    fn versions_are_first_lines_of_either_stream() {
        let shell = |script: &str| version(&["sh", "-c", script].map(str::to_owned));
        assert_eq!(shell("echo one; echo two"), "one");
        assert_eq!(shell("echo three >&2; exit 1"), "three");
        assert!(version(&["no-such-program-here".to_owned()]).starts_with("not found"));
    }
}
