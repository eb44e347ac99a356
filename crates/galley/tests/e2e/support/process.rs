//! Processes and accounts of the machine, from `/proc` and `/etc/passwd`.

use std::fs;
use std::process::Command;

/// Child processes with their command lines, which are empty for zombies.
pub fn children(parent: u32) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let fields = stat.rsplit(") ").next()?;
            let its_parent: u32 = fields.split(' ').nth(1)?.parse().ok()?;
            let command_line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command_line = String::from_utf8_lossy(&command_line).replace('\0', " ");
            (its_parent == parent).then(|| (pid, command_line.trim().to_owned()))
        })
        .collect()
}

/// Whether a process runs. A zombie has no command line and does not count.
pub fn is_running(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// Sends a signal, such as `-KILL`.
pub fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// A field of `/proc/PID/status`. The name includes the colon.
pub fn status_field(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap().trim().to_owned()
}

/// User and group ID of an account in `/etc/passwd`.
pub fn account(name: &str) -> (u32, u32) {
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let mut rows = accounts.lines().map(|row| row.split(':'));
    let mut row = rows.find(|row| row.clone().next() == Some(name)).unwrap();
    let uid = row.nth(2).unwrap().parse().unwrap();
    (uid, row.next().unwrap().parse().unwrap())
}
