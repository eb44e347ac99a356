//! DNS challenges (RFC 8555 section 8.4): TXT records that a program of the site owner adds and removes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::problem::OrderError;

/// A record that was added. When this is dropped, a background task removes the record.
pub(super) struct TxtRecord(Option<RecordChange>);

struct RecordChange {
    program: PathBuf,
    /// The record's name, `_acme-challenge.example.com`, also for a wildcard.
    name: String,
    value: String,
}

impl TxtRecord {
    /// Adds a record for a host, `example.com` or `*.example.com`.
    ///
    /// Errors: the program fails; the text contains its last line of standard error.
    pub(super) async fn set(program: &Path, host: &str, value: String) -> Result<Self, OrderError> {
        let domain = host.strip_prefix("*.").unwrap_or(host);
        // A failed attempt may have added the record, so that it is removed in any case.
        let record = Self(Some(RecordChange {
            program: program.to_owned(),
            name: format!("_acme-challenge.{domain}"),
            value,
        }));
        if let Some(change) = &record.0 {
            let set = change.run("set").await;
            set.map_err(|why| OrderError::new(format!("{host}: {why}")))?;
        }
        Ok(record)
    }

    /// Starts to remove the record.
    pub(super) fn remove(&mut self) {
        let (Some(change), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            if let Err(why) = change.run("remove").await {
                tracing::warn!("cannot remove the DNS record {}: {why}", change.name);
            }
        });
    }
}

impl Drop for TxtRecord {
    fn drop(&mut self) {
        self.remove();
    }
}

impl RecordChange {
    /// Runs the program. `verb`: `set` or `remove`.
    async fn run(&self, verb: &str) -> Result<(), String> {
        let program = self.program.display();
        let failed = |error: std::io::Error| format!("cannot run `{program}`: {error}");
        // A file stores any amount of output without a reader, and a background process of the program may continue to write.
        let mut output = tempfile::tempfile().map_err(failed)?;
        let stderr = output.try_clone().map_err(failed)?;
        let mut command = Command::new(&self.program);
        command
            .args([verb, &self.name, &self.value])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(stderr))
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let Ok(ended) = timeout(TIMEOUT, child.wait()).await else {
            return Err(format!("`{program} {verb}` took longer than {TIMEOUT:?}"));
        };
        let status = ended.map_err(failed)?;
        if status.success() {
            return Ok(());
        }
        let last = last_line(&mut output);
        Err(format!("`{program} {verb}` failed ({status}): {last}"))
    }
}

/// The last line of the output that is not empty; [`OrderError`] shortens it.
fn last_line(file: &mut File) -> String {
    let mut end = Vec::new();
    let length = file.seek(SeekFrom::End(0)).unwrap_or(0);
    let begin = length.saturating_sub(MAX_READ);
    if file.seek(SeekFrom::Start(begin)).is_ok() {
        // Unreadable output is not shown.
        let _ = file.take(MAX_READ).read_to_end(&mut end);
    }
    let text = String::from_utf8_lossy(&end);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it printed nothing").trim().to_owned()
}

/// The time limit for the program. The API of a provider may need a minute.
const TIMEOUT: Duration = Duration::from_secs(120);
const MAX_READ: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use super::*;

    /// A program that records its arguments, and then executes the command `then`.
    fn hook(folder: &Path, then: &str) -> PathBuf {
        let (file, calls) = (folder.join("hook"), folder.join("calls"));
        let text = format!("#!/bin/sh\necho \"$@\" >>'{}'\n{then}\n", calls.display());
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    async fn calls(folder: &Path, count: usize) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(folder.join("calls")).unwrap_or_default();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.len() >= count || begin.elapsed() > Duration::from_secs(20) {
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn records_are_added_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let program = hook(folder.path(), "");
        let wildcard = TxtRecord::set(&program, "*.example.com", "a_1-".to_owned()).await;
        drop(wildcard.unwrap());
        assert_eq!(
            calls(folder.path(), 2).await,
            [
                "set _acme-challenge.example.com a_1-",
                "remove _acme-challenge.example.com a_1-"
            ]
        );
    }

    #[tokio::test]
    async fn a_failing_program_is_quoted_and_its_record_removed() {
        let folder = tempfile::tempdir().unwrap();
        let program = hook(
            folder.path(),
            "echo first >&2; echo 'no such zone' >&2; echo >&2; exit 3",
        );
        let failed = TxtRecord::set(&program, "example.com", "x".to_owned()).await;
        let words = failed.map(|_| ()).unwrap_err().words;
        assert!(words.starts_with("example.com: `"), "{words}");
        assert!(words.ends_with("(exit status: 3): no such zone"), "{words}");
        assert_eq!(calls(folder.path(), 2).await.len(), 2);
    }

    #[tokio::test]
    async fn a_missing_program_is_named_in_the_error() {
        let program = Path::new("/nowhere");
        let failed = TxtRecord::set(program, "example.com", "x".to_owned()).await;
        let words = failed.map(|_| ()).unwrap_err().words;
        assert!(words.contains("cannot run `/nowhere`"), "{words}");
    }
}
