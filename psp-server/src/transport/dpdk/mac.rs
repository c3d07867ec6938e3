//! Which address a port has.

use std::str::FromStr;

use psp_protocols::packet::MacAddr;
use psp_protocols::packet::ethernet::NotAMac;
use serde::{Deserialize, Serialize};

/// Which address a port has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Mac {
    /// The port's own address.
    #[default]
    Auto,
    /// This address.
    Address(MacAddr),
}

impl FromStr for Mac {
    type Err = NotAMac;

    fn from_str(text: &str) -> Result<Self, NotAMac> {
        match text {
            "auto" => Ok(Self::Auto),
            address => address.parse().map(Self::Address),
        }
    }
}

impl TryFrom<String> for Mac {
    type Error = NotAMac;

    fn try_from(text: String) -> Result<Self, NotAMac> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        match mac {
            Mac::Auto => "auto".to_owned(),
            Mac::Address(address) => address.to_string(),
        }
    }
}
