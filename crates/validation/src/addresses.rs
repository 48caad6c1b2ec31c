//! Addresses that a user must not make the operator connect to: those that only the operator can reach, or where a cloud
//! answers it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::option::InvalidValue;
use config::{FlinkConfig, options};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(first: u16, second: u16, third: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0), length)
}

/// Ranges that are not public, from IANA's registries of special addresses, without those for documentation.
const RANGES_V4: [Ipv4Net; 13] = [
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    // Also the metadata services of most clouds.
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    // Also the metadata service of Oracle's cloud.
    v4(192, 0, 0, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
    // Relays to IPv6.
    v4(192, 88, 99, 0, 24),
    // Azure's WireServer, which is the only public address that answers machines with their secrets.
    v4(168, 63, 129, 16, 32),
];
const RANGES_V6: [Ipv6Net; 8] = [
    // NAT64 of a local network. Where the IPv4 address is in it depends on that network.
    v6(0x64, 0xff9b, 1, 48),
    v6(0x100, 0, 0, 64),
    // Teredo.
    v6(0x2001, 0, 0, 32),
    v6(0x5f00, 0, 0, 16),
    v6(0xfc00, 0, 0, 7),
    v6(0xfe80, 0, 0, 10),
    v6(0xfec0, 0, 0, 10),
    v6(0xff00, 0, 0, 8),
];

/// The refused addresses of an operator.
#[derive(Clone, Debug, Default)]
pub struct Restricted {
    /// Ranges of the operator's configuration.
    more: Vec<IpNet>,
}

impl Restricted {
    /// Returns the addresses that the operator's configuration refuses; `None` if it allows all. A switch that cannot be
    /// read is treated as on, to be safe.
    ///
    /// # Errors
    /// If a range cannot be parsed.
    pub fn of(operator: &FlinkConfig) -> Result<Option<Self>, InvalidValue> {
        if !operator.get(&options::USER_ARTIFACTS_DISALLOW_RESTRICTED_HOSTS).unwrap_or(true) {
            return Ok(None);
        }
        let option = &options::USER_ARTIFACTS_RESTRICTED_RANGES;
        let ranges = operator.find(option)?.unwrap_or_default();
        let parse = |text: &String| {
            let address = || text.trim().parse::<IpAddr>().map(IpNet::from);
            text.trim()
                .parse::<IpNet>()
                .or_else(|_| address())
                .map_err(|_| InvalidValue::new(option.key(), text, "ranges such as `10.96.0.0/12`"))
        };
        let more = ranges.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Some(Self { more }))
    }

    /// Returns whether the address is refused. Beyond Java's list, these are all ranges that are not public, and IPv6
    /// addresses that lead to such IPv4 addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        if self.more.iter().any(|range| range.contains(&address)) {
            return true;
        }
        match address {
            IpAddr::V4(address) => RANGES_V4.iter().any(|range| range.contains(&address)),
            IpAddr::V6(address) => {
                RANGES_V6.iter().any(|range| range.contains(&address))
                    || embedded(address).is_some_and(|v4| self.contains(IpAddr::V4(v4)))
            }
        }
    }
}

/// Returns the IPv4 address that an IPv6 address stands for.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        // Written as IPv6 in the three old ways, NAT64, and 6to4.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "kubernetes.operator.user.artifacts.restricted-ranges";

    fn check(restricted: &Restricted, addresses: &[&str], is_refused: bool) {
        for text in addresses {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(restricted.contains(address), is_refused, "{text}");
        }
    }

    #[test]
    fn only_public_addresses_are_allowed() {
        let refused = [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "168.63.129.16",
            "169.254.169.254",
            "172.31.0.1",
            "192.0.0.192",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::10.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:168.63.129.16",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "64:ff9b:1:a00:0:100::",
            "100::1",
            "2001::1",
            "2002:a00:1::1",
            "2002:a9fe:a9fe::",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        check(&Restricted::default(), &refused, true);
        let public = [
            "1.1.1.1",
            "93.184.216.34",
            "100.128.0.1",
            "168.63.129.17",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:93.184.216.34",
            "64:ff9b::93.184.216.34",
            "2002:5db8:d822::1",
            "2600::1",
            "2606:4700::1111",
        ];
        check(&Restricted::default(), &public, false);
    }

    #[test]
    fn an_operator_refuses_more() {
        let config = |ranges: &str| [(KEY, ranges)].into_iter().collect::<FlinkConfig>();
        let restricted = Restricted::of(&config("34.118.224.0/20; 2600:1900::/28;8.8.8.8"));
        let restricted = restricted.unwrap().unwrap();
        let refused =
            ["34.118.224.1", "64:ff9b::34.118.239.255", "2600:1901::1", "8.8.8.8", "10.0.0.1"];
        check(&restricted, &refused, true);
        check(&restricted, &["34.118.240.1", "2600:1910::1", "8.8.8.9"], false);
        for wrong in ["10.96.0.0/33", "services", "10.96.0.0-10.96.0.9"] {
            let error = Restricted::of(&config(wrong)).unwrap_err().to_string();
            assert!(error.contains(KEY) && error.contains("10.96.0.0/12"), "{error}");
        }
    }
}
