//! The network of an instance: a block of addresses that nothing else on the machine uses.
//!
//! All of it is inside the instance's own network namespace except one end of a cable and one route, which the kernel
//! removes together with the namespace. Through them the host reaches pods, services and the API server; pods reach
//! each other and nothing outside.

use std::net::Ipv4Addr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::command::{SHORT, program, run};
use super::error::Error;
use super::process::{ProcessId, entering};

/// A block of addresses, `A.B.0.0/16`, and how it is divided.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Network {
    a: u8,
    b: u8,
}

/// Name of the cable's end inside the namespace.
const UPLINK: &str = "uplink";
/// Name of the bridge that pods are plugged into.
pub(super) const BRIDGE: &str = "pods";

impl Network {
    /// Returns the block `a.b.0.0/16`.
    pub(super) fn new(a: u8, b: u8) -> Self {
        Self { a, b }
    }

    /// Returns the first private block that overlaps with no route of the machine.
    ///
    /// `routes` are destinations as `ip route` writes them. The default route overlaps with everything and is ignored.
    fn free(routes: &[&str]) -> Option<Self> {
        let taken: Vec<(u32, u32)> =
            routes.iter().filter_map(|route| range(route)).filter(|range| range.0 != 0).collect();
        let ten = (200..=254).chain(100..200).map(|b| Self::new(10, b));
        let others = (16..32).map(|b| Self::new(172, b));
        ten.chain(others).find(|network| {
            let (first, last) = network.range();
            taken.iter().all(|(from, to)| last < *from || *to < first)
        })
    }

    fn range(self) -> (u32, u32) {
        let first = u32::from(Ipv4Addr::new(self.a, self.b, 0, 0));
        (first, first | 0xffff)
    }

    fn address(self, c: u8, d: u8) -> String {
        Ipv4Addr::new(self.a, self.b, c, d).to_string()
    }

    /// Returns the whole block.
    pub(super) fn block(self) -> String {
        format!("{}/16", self.address(0, 0))
    }

    /// Returns the addresses of pods.
    pub(super) fn pods(self) -> String {
        format!("{}/18", self.address(0, 0))
    }

    /// Returns the addresses of services.
    pub(super) fn services(self) -> String {
        format!("{}/18", self.address(64, 0))
    }

    /// Returns the bridge's address: gateway of the pods, and where the name server listens.
    pub(super) fn bridge(self) -> String {
        self.address(0, 1)
    }

    /// Returns the address of the host's end of the cable.
    pub(super) fn host(self) -> String {
        self.address(255, 1)
    }

    /// Returns the address of the instance's end of the cable, which the node and the API server use.
    pub(super) fn node(self) -> String {
        self.address(255, 2)
    }

    /// Returns the name of the host's end; at most 15 characters, and unique per block.
    pub(super) fn link(self) -> String {
        format!("flink-{}-{}", self.a, self.b)
    }

    /// Chooses a block. The caller holds the lock for this until [`Self::connect`] is done.
    pub(super) async fn choose() -> Result<Self, Error> {
        let mut command = program("ip");
        command.args(["-4", "route", "show", "table", "all"]);
        let routes = run(&mut command, SHORT).await?;
        Self::free(&destinations(&routes)).ok_or_else(|| {
            Error::Refused(
                "there is no free block of private addresses on this machine: the routes of \
                 `ip route` cover 10.100.0.0 to 10.254.255.255 and 172.16.0.0/12"
                    .to_owned(),
            )
        })
    }

    /// Returns whether the kernel also translates addresses between pods of the same bridge.
    pub(super) fn translates_on_bridges() -> bool {
        Path::new("/proc/sys/net/bridge").exists()
    }

    /// Creates the cable, and sets up the network inside the namespaces of `holder`.
    pub(super) async fn connect(self, holder: ProcessId) -> Result<(), Error> {
        if !Self::translates_on_bridges() {
            // If the kernel has no such module, `kube-proxy` is configured to work without it.
            drop(run(program("modprobe").arg("br_netfilter"), SHORT).await);
        }
        let Commands { host, inside } = self.commands(holder);
        for arguments in host {
            run(program("ip").args(&arguments), SHORT).await?;
        }
        for words in inside {
            run(program("nsenter").args(entering(holder)).args(&words), SHORT).await?;
        }
        // Last, so that only a working network occupies the block.
        run(program("ip").args(["route", "add", &self.block(), "via", &self.node()]), SHORT)
            .await?;
        Ok(())
    }

    /// Removes the host's end of the cable, and with it the other end and the route.
    pub(super) async fn disconnect(self) -> Result<(), Error> {
        let link = self.link();
        if Path::new("/sys/class/net").join(&link).exists() {
            let removed = run(program("ip").args(["link", "delete", &link]), SHORT).await;
            // The kernel may already have removed it together with the namespace.
            if Path::new("/sys/class/net").join(&link).exists() {
                removed?;
            }
        }
        Ok(())
    }

    fn commands(self, holder: ProcessId) -> Commands {
        let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (link, pid) = (self.link(), holder.pid);
        Commands {
            host: vec![
                words(format!("link add {link} type veth peer name {UPLINK} netns {pid}")),
                words(format!("address add {}/30 dev {link}", self.host())),
                words(format!("link set {link} up")),
            ],
            inside: vec![
                words("ip link set lo up".to_owned()),
                words(format!("ip address add {}/30 dev {UPLINK}", self.node())),
                words(format!("ip link set {UPLINK} up")),
                words(format!("ip link add {BRIDGE} type bridge")),
                words(format!("ip address add {}/18 dev {BRIDGE}", self.bridge())),
                words(format!("ip link set {BRIDGE} up")),
                // Routing happens before a service's address is translated, so services need a route; nothing else has
                // one.
                words(format!("ip route add {} dev {BRIDGE}", self.services())),
                ["sh", "-c", SWITCHES].map(str::to_owned).to_vec(),
            ],
        }
    }
}

/// Enables routing of pods, and address translation for services reached through the same bridge.
const SWITCHES: &str = "echo 1 > /proc/sys/net/ipv4/ip_forward \
    && { [ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ] \
    || echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables; }";

struct Commands {
    /// Arguments of `ip` on the host.
    host: Vec<Vec<String>>,
    /// Commands inside the namespaces.
    inside: Vec<Vec<String>>,
}

/// Returns the destinations in the output of `ip route`.
fn destinations(routes: &str) -> Vec<&str> {
    const TYPES: [&str; 9] = [
        "unicast",
        "local",
        "broadcast",
        "multicast",
        "throw",
        "unreachable",
        "prohibit",
        "blackhole",
        "nat",
    ];
    routes
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let first = words.next()?;
            if TYPES.contains(&first) { words.next() } else { Some(first) }
        })
        .collect()
}

/// Returns first and last address of `10.0.0.0/8` or `10.0.0.1`.
fn range(destination: &str) -> Option<(u32, u32)> {
    let (address, bits) = destination.split_once('/').unwrap_or((destination, "32"));
    let bits: u32 = bits.parse().ok().filter(|bits| *bits <= 32)?;
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    let first = u32::from(address.parse::<Ipv4Addr>().ok()?) & mask;
    Some((first, first | !mask))
}

#[cfg(test)]
mod tests;
