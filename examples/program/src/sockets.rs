//! What a program listens on for connections: TCP addresses, a Unix socket, sockets of a service manager.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use psp_server::ServerBuilder;
use serde::{Deserialize, Serialize};

/// The sockets of a program beside those at its TCP addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SocketConfig {
    /// Also listen on a Unix socket at this path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// Permissions of the Unix socket's file, in octal [default: by the umask].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "MODE")]
    pub unix_mode: Option<UnixMode>,
    /// Listen on the sockets that a service manager passes (LISTEN_FDS), in place of the TCP addresses.
    #[arg(long)]
    pub listen_fds: bool,
}

impl SocketConfig {
    /// Makes the server listen at TCP port `port` of each address, or on the sockets that were passed; and on the
    /// Unix socket.
    #[must_use]
    pub fn listen<F, K, H>(
        &self,
        mut builder: ServerBuilder<F, K, H>,
        addresses: &[IpAddr],
        port: u16,
    ) -> ServerBuilder<F, K, H> {
        if self.listen_fds {
            builder = builder.listen_fds();
        } else {
            for &address in addresses {
                builder = builder.tcp((address, port));
            }
        }
        if let Some(path) = &self.unix {
            builder = builder.unix(path);
        }
        match self.unix_mode {
            Some(UnixMode(mode)) => builder.unix_mode(mode),
            None => builder,
        }
    }
}

/// Permissions of a file, written in octal digits: `700`, or `0700`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UnixMode(pub u32);

impl FromStr for UnixMode {
    type Err = String;

    fn from_str(digits: &str) -> Result<Self, String> {
        let is_octal = !digits.is_empty() && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        let mode = u32::from_str_radix(digits, 8).ok();
        let mode = mode.filter(|&mode| is_octal && mode <= 0o777);
        mode.map(Self)
            .ok_or_else(|| format!("the mode '{digits}' is not from 0 to 777 in octal digits"))
    }
}

impl fmt::Display for UnixMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:o}", self.0)
    }
}

impl TryFrom<String> for UnixMode {
    type Error = String;

    fn try_from(digits: String) -> Result<Self, String> {
        digits.parse()
    }
}

impl From<UnixMode> for String {
    fn from(mode: UnixMode) -> Self {
        mode.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        for (digits, mode) in [("700", 0o700), ("0660", 0o660), ("0", 0), ("777", 0o777)] {
            assert_eq!(digits.parse(), Ok(UnixMode(mode)));
        }
        assert_eq!(UnixMode(0o640).to_string(), "640");
        for digits in ["", "8", "1777", "+7", "0o7", "rwx"] {
            let refusal = digits.parse::<UnixMode>().unwrap_err();
            let expected = format!("the mode '{digits}' is not from 0 to 777 in octal digits");
            assert_eq!(refusal, expected);
        }
    }

    #[test]
    fn a_file_has_the_mode_as_text() {
        let config = SocketConfig {
            unix: Some("/run/a".into()),
            unix_mode: Some(UnixMode(0o700)),
            listen_fds: true,
        };
        let text = "unix = \"/run/a\"\nunix-mode = \"700\"\nlisten-fds = true\n";
        assert_eq!(toml::to_string(&config).unwrap(), text);
        assert_eq!(toml::from_str::<SocketConfig>(text).unwrap(), config);
        // 700 in decimal is another mode.
        assert!(toml::from_str::<SocketConfig>("unix-mode = 700").is_err());
    }
}
