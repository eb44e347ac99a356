//! Machines on one machine: a network namespace for each, on two networks. Visitors reach nodes over the first, nodes reach
//! the engine over the second, so a node can be cut off from the engine and still have visitors.
//!
//! Interfaces and namespaces carry the number of this process. What a killed process left is removed at the next start.

use std::process::Command;

use crate::{TestkitError, process::run};

/// Both networks. Removed when dropped.
pub(super) struct Network {
    pid: u32,
    machines: Vec<u8>,
}

/// Which of the two networks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Link {
    Visitors,
    Engine,
}

impl Link {
    fn letter(self) -> char {
        match self {
            Self::Visitors => 'v',
            Self::Engine => 'e',
        }
    }
}

impl Network {
    /// Two networks with this process in both.
    pub(super) fn new() -> Result<Self, TestkitError> {
        remove_stale();
        let network = Self {
            pid: std::process::id(),
            machines: Vec::new(),
        };
        for link in [Link::Visitors, Link::Engine] {
            let bridge = network.bridge(link);
            ip(&["link", "add", &bridge, "type", "bridge"])?;
            let address = format!("{}/24", network.address(link, HERE));
            ip(&["addr", "add", &address, "dev", &bridge])?;
            ip(&["link", "set", &bridge, "up"])?;
        }
        Ok(network)
    }

    /// Adds a machine, with `number` as the last byte of its addresses.
    pub(super) fn add(&mut self, number: u8) -> Result<(), TestkitError> {
        let name = self.namespace(number);
        ip(&["netns", "add", &name])?;
        self.machines.push(number);
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        for link in [Link::Visitors, Link::Engine] {
            let (outer, inner) = (self.outer(link, number), link.letter().to_string());
            ip(&[
                "link", "add", &outer, "type", "veth", "peer", "name", &inner, "netns", &name,
            ])?;
            ip(&["link", "set", &outer, "master", &self.bridge(link), "up"])?;
            let address = format!("{}/24", self.address(link, number));
            ip(&["-n", &name, "addr", "add", &address, "dev", &inner])?;
            ip(&["-n", &name, "link", "set", &inner, "up"])?;
        }
        Ok(())
    }

    /// Connects a machine to a network, or cuts it off.
    pub(super) fn set_connected(
        &self,
        link: Link,
        number: u8,
        is_connected: bool,
    ) -> Result<(), TestkitError> {
        let state = if is_connected { "up" } else { "down" };
        ip(&["link", "set", &self.outer(link, number), state])
    }

    /// Separates some machines from all others on the network of the engine; among themselves they stay connected.
    pub(super) fn separate(&self, machines: &[u8]) -> Result<(), TestkitError> {
        let bridge = self.other_bridge();
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        ip(&["link", "set", &bridge, "up"])?;
        for machine in machines {
            let outer = self.outer(Link::Engine, *machine);
            ip(&["link", "set", &outer, "master", &bridge])?;
        }
        Ok(())
    }

    /// Ends what [`separate`](Self::separate) did.
    pub(super) fn join(&self, machines: &[u8]) -> Result<(), TestkitError> {
        let bridge = self.bridge(Link::Engine);
        for machine in machines {
            let outer = self.outer(Link::Engine, *machine);
            ip(&["link", "set", &outer, "master", &bridge])?;
        }
        ip(&["link", "del", &self.other_bridge()])
    }

    /// Gives a machine a further address on the network of the engine; `from` loses it.
    pub(super) fn move_address(
        &self,
        address: u8,
        from: Option<u8>,
        to: u8,
    ) -> Result<(), TestkitError> {
        let text = format!("{}/24", self.address(Link::Engine, address));
        if let Some(from) = from {
            ip(&[
                "-n",
                &self.namespace(from),
                "addr",
                "del",
                &text,
                "dev",
                "e",
            ])?;
        }
        ip(&["-n", &self.namespace(to), "addr", "add", &text, "dev", "e"])?;
        // The others ask again who has the address.
        for machine in &self.machines {
            ip(&[
                "-n",
                &self.namespace(*machine),
                "neigh",
                "flush",
                "dev",
                "e",
            ])?;
        }
        ip(&["neigh", "flush", "dev", &self.bridge(Link::Engine)])
    }

    /// What runs a program on a machine, by exec.
    pub(super) fn through(&self, number: u8) -> Vec<String> {
        let name = self.namespace(number);
        ["ip", "netns", "exec", &name].map(str::to_owned).to_vec()
    }

    pub(super) fn address(&self, link: Link, number: u8) -> String {
        let third = self.pid / 256 % 128 * 2
            + match link {
                Link::Visitors => 0,
                Link::Engine => 1,
            };
        format!("10.{}.{third}.{number}", self.pid % 256)
    }

    fn namespace(&self, number: u8) -> String {
        format!("{PREFIX}{}-{number}", self.pid)
    }

    fn bridge(&self, link: Link) -> String {
        format!("gl{:x}{}", self.pid, link.letter())
    }

    fn other_bridge(&self) -> String {
        format!("gl{:x}x", self.pid)
    }

    fn outer(&self, link: Link, number: u8) -> String {
        format!("gl{:x}{}{number}", self.pid, link.letter())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in &self.machines {
            // The kernel removes the links of a namespace some time after the namespace.
            for link in [Link::Visitors, Link::Engine] {
                let _ = ip(&["link", "del", &self.outer(link, *machine)]);
            }
            let _ = ip(&["netns", "del", &self.namespace(*machine)]);
        }
        for link in [Link::Visitors, Link::Engine] {
            let _ = ip(&["link", "del", &self.bridge(link)]);
        }
        let _ = ip(&["link", "del", &self.other_bridge()]);
    }
}

/// Whether this process may make namespaces.
pub fn may_make_networks() -> bool {
    let name = format!("{PREFIX}{}-0", std::process::id());
    ip(&["netns", "add", &name]).is_ok() && ip(&["netns", "del", &name]).is_ok()
}

/// Removes namespaces and bridges of processes that are gone.
fn remove_stale() {
    let Ok(names) = run("ip", Command::new("ip").args(["netns", "list"])) else {
        return;
    };
    for line in names.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let Some((pid, _)) = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('-'))
        else {
            continue;
        };
        let Ok(pid) = pid.parse::<u32>() else {
            continue;
        };
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            let _ = ip(&["netns", "del", name]);
            for letter in ['v', 'e', 'x'] {
                let _ = ip(&["link", "del", &format!("gl{pid:x}{letter}")]);
            }
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), TestkitError> {
    run("ip", Command::new("ip").args(arguments)).map(drop)
}

const PREFIX: &str = "galley-";

/// This process on both networks.
const HERE: u8 = 254;
