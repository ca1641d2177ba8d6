//! Which addresses may be reached: public ones, and what is allowed by name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

use crate::guard::{self, Reach};

/// Azure's way into the host of a virtual machine: public by its number only.
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Checks addresses, and resolves names to addresses that may be reached.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    allowed: Arc<[String]>,
    /// Knows the addresses that are named although they are not public.
    rules: Arc<dyn guard::Guard>,
    // The hosts of proxies; only connections to the proxies ask for them.
    proxies: Arc<[String]>,
}

/// Why an address is not reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("only http and https addresses can be fetched")]
    Scheme,
    #[error("addresses with a user or password are not fetched")]
    Credentials,
    #[error(
        "refused: {0} is not a public address; a rule that names it allows it: --allow 'net({0})'"
    )]
    Address(IpAddr),
    #[error("refused: localhost is not a public address; --allow 'net(localhost)' allows it")]
    Localhost,
}

impl Guard {
    pub(super) fn new(
        allowed: Vec<String>,
        proxies: Vec<String>,
        rules: Arc<dyn guard::Guard>,
    ) -> Self {
        Self { allowed: allowed.into(), proxies: proxies.into(), rules }
    }

    /// Checks what can be seen before there is a connection.
    ///
    /// Addresses given as numbers are never resolved, so they are checked here. Names are only if
    /// there are proxies, since then it may be the proxy that resolves them.
    pub(super) async fn check(&self, url: &Url, reach: Reach) -> Result<(), Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        // An http address has a host, or it would not have been parsed.
        let host = url.host_str().unwrap_or_default();
        if is_among(&self.allowed, host) {
            return Ok(());
        }
        let number = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let addresses: Vec<IpAddr> = match number {
            Ok(_) if reach == Reach::Named => Vec::new(),
            Ok(ip) => vec![ip],
            Err(_) if is_localhost(host) => {
                return if reach == Reach::Named { Ok(()) } else { Err(Refused::Localhost) };
            }
            Err(_) if self.proxies.is_empty() => Vec::new(),
            // A name that is unknown here may be known to the proxy.
            Err(_) => {
                let found = lookup_host((host, 0)).await;
                found.into_iter().flatten().map(|address| address.ip()).collect()
            }
        };
        self.check_all(addresses)
    }

    /// One address that may not be reached is enough: nobody mixes them for a good reason.
    fn check_all(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Result<(), Refused> {
        let mut addresses = addresses.into_iter();
        match addresses.find(|ip| !is_public(*ip) && !self.rules.names(*ip)) {
            Some(ip) => Err(Refused::Address(ip)),
            None => Ok(()),
        }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str();
        let is_free = is_among(&self.allowed, name) || is_among(&self.proxies, name);
        let (guard, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = lookup_host((name.as_str(), 0)).await?.collect();
            let ips = addresses.iter().map(SocketAddr::ip);
            if !is_free && is_localhost(&name) {
                // Whether it may be reached was asked before. It means this machine and nothing else.
                guard.check_all(ips.filter(|ip| !ip.is_loopback()))?;
            } else if !is_free {
                guard.check_all(ips)?;
            }
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

fn is_among(hosts: &[String], host: &str) -> bool {
    let bare = |host: &str| {
        let host = host.strip_suffix('.').unwrap_or(host);
        host.trim_matches(['[', ']']).to_ascii_lowercase()
    };
    hosts.iter().any(|known| bare(known) == bare(host))
}

/// Tells whether a host is this machine by the one name that nobody else can give to another.
pub(crate) fn is_localhost(host: &str) -> bool {
    host.strip_suffix('.').unwrap_or(host).eq_ignore_ascii_case("localhost")
}

/// Tells whether an address belongs to the public internet.
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_reserved = match (a, b, c) {
        // This network; reserved for future use, and broadcast.
        (0 | 240..=255, _, _) => true,
        // Shared by the customers of a provider.
        (100, 64..=127, _) => true,
        // Protocol assignments, and the former relays to IPv6.
        (192, 0, 0) | (192, 88, 99) => true,
        // Measuring networks.
        (198, 18 | 19, _) => true,
        _ => false,
    };
    !(is_reserved
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || ip == WIRE_SERVER)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    match ip.segments() {
        // What a network that has only IPv6 makes of an IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Protocol assignments, among them tunnels to IPv4.
        [0x2001, 0..=0x1ff, ..] => false,
        // Documentation.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Tunnels to IPv4.
        [0x2002, ..] => false,
        // All that was ever given out.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_reached() {
        let refused = "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 127.9.9.9 \
            168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.168.1.1 \
            198.18.0.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1 \
            ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b:1::1 100::1 2001::1 2001:db8::1 \
            2002:7f00:1::1 3fff::1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1";
        for ip in refused.split_whitespace() {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
        let reached = "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 \
            198.17.0.1 223.255.255.255 2001:4860:4860::8888 2606:4700::1111 64:ff9b::808:808";
        for ip in reached.split_whitespace() {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn a_host_is_allowed_as_it_stands_in_a_url() {
        let hosts = ["Intra.example".to_owned(), "[::1]".to_owned()];
        let allowed = ["intra.example", "intra.example.", "[::1]", "::1"];
        assert!(allowed.iter().all(|host| is_among(&hosts, host)));
        assert!(!is_among(&hosts, "x.intra.example"));
    }
}
