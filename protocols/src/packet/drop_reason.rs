//! Why a frame is dropped.

use std::fmt;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// Why a frame is dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum DropReason {
            $($(#[$doc])* $reason,)*
        }

        impl DropReason {
            /// All of them; each one's place is its value as `usize`.
            pub const ALL: &'static [Self] = &[$(Self::$reason,)*];

            /// Its name in reports: lower case, words joined by `_`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }
        }
    };
}

drop_reasons! {
    /// Cut off within a header, or a length field that the bytes do not bear out.
    WrongLength = "wrong_length",
    /// The frame is for another station.
    OtherMac = "other_mac",
    /// Sent to a group of stations, or from one. ARP requests may be.
    Multicast = "multicast",
    /// It has a VLAN tag.
    Vlan = "vlan",
    /// Neither ARP nor IPv4.
    OtherEtherType = "other_ether_type",
    /// ARP about another address, of another kind than request and reply, or not for Ethernet and IPv4.
    OtherArp = "other_arp",
    /// Not version 4, or with options.
    Ipv4Header = "ipv4_header",
    /// A fragment of an IPv4 datagram.
    Fragment = "fragment",
    /// The datagram is for another host.
    OtherIp = "other_ip",
    /// From an address or port that cannot be answered.
    BadSource = "bad_source",
    /// A checksum of IPv4, UDP or ICMP that is wrong.
    BadChecksum = "bad_checksum",
    /// Neither UDP nor ICMP.
    NotUdp = "not_udp",
    /// ICMP other than a request for an echo.
    OtherIcmp = "other_icmp",
    /// UDP to a port that nobody serves.
    NoSuchPort = "no_such_port",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_place_and_name() {
        for (place, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, place);
            let same_name = |other: &&DropReason| other.name() == reason.name();
            assert_eq!(DropReason::ALL.iter().filter(same_name).count(), 1);
        }
    }
}
