//! Which addresses requests may reach: a model index or a redirect must not make this process reach into the network
//! it runs in.
//!
//! Names are checked after they are resolved, in the resolver of the connection itself, so that a name cannot have
//! another address when it is connected to. Addresses in URLs are not resolved; [`check_host`] checks them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::Fault;

/// The hosts that may have any address.
#[derive(Clone, Debug)]
pub(crate) enum Permitted {
    /// All of them.
    All,
    /// These, in lower case.
    Hosts(Vec<String>),
}

impl Permitted {
    fn has(&self, host: &str) -> bool {
        match self {
            Self::All => true,
            Self::Hosts(hosts) => hosts.iter().any(|known| known.eq_ignore_ascii_case(host)),
        }
    }
}

/// Returns whether an address is reached over the public internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || address.is_unspecified()
        // This network, shared address space (RFC 6598), protocol assignments, benchmarks (RFC 2544), reserved.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240;
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Only global unicast addresses are assigned (2000::/3); among them, documentation is not routed, and Teredo
    // (2001::/32) embeds other addresses.
    (first & 0xe000) == 0x2000 && !(first == 0x2001 && (second == 0xdb8 || second == 0))
}

/// Returns the IPv4 address that an IPv6 address stands for: mapped, compatible, translated (NAT64) or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b) {
        (0, 0) if [c, d, e] == [0, 0, 0] && (f == 0xffff || f == 0) => of(g, h),
        (0, 0) if [c, d, e, f] == [0, 0, 0xffff, 0] => of(g, h),
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => of(g, h),
        (0x2002, _) => of(b, c),
        _ => None,
    }
}

/// Fails if the host of a URL is an address that requests may not reach.
pub(crate) fn check_host(url: &Url, permitted: &Permitted) -> Result<(), Fault> {
    let host = url.host_str().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    match literal.parse::<IpAddr>() {
        Ok(address) if !is_public(address) && !permitted.has(host) => {
            Err(Fault::Private { host: host.to_owned(), address })
        }
        _ => Ok(()),
    }
}

/// A resolver that returns only addresses that requests may reach.
#[derive(Clone, Debug)]
pub(crate) struct Resolver(pub(crate) Permitted);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let permitted = self.0.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            // The port is replaced by that of the URL.
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            if !permitted.has(&host)
                && let Some(address) = found.iter().find(|address| !is_public(address.ip()))
            {
                // One such address is enough: a server that has it answers with any of them.
                return Err(Fault::Private { host, address: address.ip() }.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}
