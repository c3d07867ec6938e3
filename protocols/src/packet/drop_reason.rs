//! Why a frame is dropped.

use std::fmt;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// Why a frame is dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum DropReason {
            $($(#[$doc])* $reason,)*
        }

        impl DropReason {
            /// All reasons; the index of a reason is its value as `usize`.
            pub const ALL: &'static [Self] = &[$(Self::$reason,)*];

            /// The name in reports: lower case, words joined by `_`.
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
    /// The frame ends within a header, or a length field contradicts the length of the frame.
    WrongLength = "wrong_length",
    /// The frame is for another station.
    OtherMac = "other_mac",
    /// The source or the destination is a group of stations. ARP requests may be sent to a group.
    Multicast = "multicast",
    /// The frame has a VLAN tag.
    Vlan = "vlan",
    /// The frame is neither ARP nor IPv4.
    OtherEtherType = "other_ether_type",
    /// The ARP packet is for another address, is neither request nor reply, or is not for Ethernet and
    /// IPv4.
    OtherArp = "other_arp",
    /// The IP header is not of version 4, or has options.
    Ipv4Header = "ipv4_header",
    /// The frame is a fragment of an IPv4 datagram.
    Fragment = "fragment",
    /// The datagram is for another host.
    OtherIp = "other_ip",
    /// No reply can be sent to the source address or port.
    BadSource = "bad_source",
    /// A checksum of IPv4, UDP or ICMP is wrong.
    BadChecksum = "bad_checksum",
    /// The datagram is neither UDP nor ICMP.
    NotUdp = "not_udp",
    /// The ICMP message is not an echo request.
    OtherIcmp = "other_icmp",
    /// The interface does not serve the UDP port.
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
    fn each_reason_has_its_own_index_and_name() {
        for (place, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, place);
            let same_name = |other: &&DropReason| other.name() == reason.name();
            assert_eq!(DropReason::ALL.iter().filter(same_name).count(), 1);
        }
    }
}
