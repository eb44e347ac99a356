//! Simulated machines: network namespaces connected to two subnets. Clients reach the nodes over the first, the nodes reach
//! the engine over the second, so a node without a connection to the engine can still receive requests.
//!
//! The names of interfaces and namespaces contain the id of this process. The next start removes those of killed processes.

use std::process::Command;

use crate::{TestkitError, process::run};

/// The namespaces and both subnets. Dropping it removes them.
pub(super) struct Network {
    pid: u32,
    machines: Vec<u8>,
}

/// One of the two subnets.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subnet {
    Clients,
    Engine,
}

impl Subnet {
    fn letter(self) -> char {
        match self {
            Self::Clients => 'v',
            Self::Engine => 'e',
        }
    }
}

impl Network {
    /// Creates the subnets and connects this process to both.
    pub(super) fn new() -> Result<Self, TestkitError> {
        remove_stale();
        let network = Self {
            pid: std::process::id(),
            machines: Vec::new(),
        };
        for subnet in [Subnet::Clients, Subnet::Engine] {
            let bridge = network.bridge(subnet);
            ip(&["link", "add", &bridge, "type", "bridge"])?;
            let address = format!("{}/24", network.address(subnet, TEST_HOST));
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
        for subnet in [Subnet::Clients, Subnet::Engine] {
            let (outer, inner) = (self.outer(subnet, number), subnet.letter().to_string());
            ip(&[
                "link", "add", &outer, "type", "veth", "peer", "name", &inner, "netns", &name,
            ])?;
            ip(&["link", "set", &outer, "master", &self.bridge(subnet), "up"])?;
            let address = format!("{}/24", self.address(subnet, number));
            ip(&["-n", &name, "addr", "add", &address, "dev", &inner])?;
            ip(&["-n", &name, "link", "set", &inner, "up"])?;
        }
        Ok(())
    }

    /// Connects a machine to a subnet or disconnects it.
    pub(super) fn set_connected(
        &self,
        subnet: Subnet,
        number: u8,
        is_connected: bool,
    ) -> Result<(), TestkitError> {
        let state = if is_connected { "up" } else { "down" };
        ip(&["link", "set", &self.outer(subnet, number), state])
    }

    /// Partitions the engine's subnet: these machines stay connected to each other only.
    pub(super) fn partition(&self, machines: &[u8]) -> Result<(), TestkitError> {
        let bridge = self.other_bridge();
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        ip(&["link", "set", &bridge, "up"])?;
        for machine in machines {
            let outer = self.outer(Subnet::Engine, *machine);
            ip(&["link", "set", &outer, "master", &bridge])?;
        }
        Ok(())
    }

    /// Ends a [`partition`](Self::partition).
    pub(super) fn heal(&self, machines: &[u8]) -> Result<(), TestkitError> {
        let bridge = self.bridge(Subnet::Engine);
        for machine in machines {
            let outer = self.outer(Subnet::Engine, *machine);
            ip(&["link", "set", &outer, "master", &bridge])?;
        }
        ip(&["link", "del", &self.other_bridge()])
    }

    /// Moves an additional address on the engine's subnet from one machine to another.
    pub(super) fn move_address(
        &self,
        address: u8,
        from: Option<u8>,
        to: u8,
    ) -> Result<(), TestkitError> {
        let text = format!("{}/24", self.address(Subnet::Engine, address));
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
        // The other machines must resolve the address again.
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
        ip(&["neigh", "flush", "dev", &self.bridge(Subnet::Engine)])
    }

    /// The command that runs a program on a machine, by exec.
    pub(super) fn command_prefix(&self, number: u8) -> Vec<String> {
        let name = self.namespace(number);
        ["ip", "netns", "exec", &name].map(str::to_owned).to_vec()
    }

    pub(super) fn address(&self, subnet: Subnet, number: u8) -> String {
        let third = self.pid / 256 % 128 * 2
            + match subnet {
                Subnet::Clients => 0,
                Subnet::Engine => 1,
            };
        format!("10.{}.{third}.{number}", self.pid % 256)
    }

    fn namespace(&self, number: u8) -> String {
        format!("{PREFIX}{}-{number}", self.pid)
    }

    fn bridge(&self, subnet: Subnet) -> String {
        format!("gl{:x}{}", self.pid, subnet.letter())
    }

    fn other_bridge(&self) -> String {
        format!("gl{:x}x", self.pid)
    }

    fn outer(&self, subnet: Subnet, number: u8) -> String {
        format!("gl{:x}{}{number}", self.pid, subnet.letter())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in &self.machines {
            // The kernel removes the links of a namespace some time after the namespace.
            for subnet in [Subnet::Clients, Subnet::Engine] {
                let _ = ip(&["link", "del", &self.outer(subnet, *machine)]);
            }
            let _ = ip(&["netns", "del", &self.namespace(*machine)]);
        }
        for subnet in [Subnet::Clients, Subnet::Engine] {
            let _ = ip(&["link", "del", &self.bridge(subnet)]);
        }
        let _ = ip(&["link", "del", &self.other_bridge()]);
    }
}

/// Whether this process may create network namespaces.
pub fn may_make_networks() -> bool {
    let name = format!("{PREFIX}{}-0", std::process::id());
    ip(&["netns", "add", &name]).is_ok() && ip(&["netns", "del", &name]).is_ok()
}

/// Removes namespaces and bridges of processes that no longer exist.
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

/// The last byte of this process's address on both subnets.
const TEST_HOST: u8 = 254;
