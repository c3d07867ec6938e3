//! Flags that programs have in common. A program can rename them or change their help.

use std::path::PathBuf;

use psp_server::Workers;

use crate::LogLevel;
use crate::config_file::replace;
use crate::configuration::CommonSettings;
use crate::scheduling::SchedulingFlags;

/// Flags about the configuration file.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct FileFlags {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the resulting configuration as TOML and exit.
    #[arg(long)]
    pub print_config: bool,
}

/// Flags about the arbiter of the machine's cores.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ArbiterFlags {
    /// Socket of a psp-arbiter, which is asked for cores; --workers has to be a range.
    #[arg(long, value_name = "PATH")]
    arbiter: Option<PathBuf>,
    /// How important the server is to the arbiter: 0 (highest) to 7 [default: 4].
    #[arg(long, value_name = "LEVEL")]
    arbiter_priority: Option<u8>,
}

impl ArbiterFlags {
    /// Replaces settings by the flags that were given.
    pub fn apply_to(self, server: &mut psp_server::Config) {
        server.arbiter = self.arbiter.or(server.arbiter.take());
        replace(&mut server.arbiter_priority, self.arbiter_priority);
    }
}

/// Flags about the [settings that all programs have](CommonSettings).
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ServerFlags {
    /// Number of workers, or a range such as 2..8 within which they come and go with the load [default: from the
    /// number of cores].
    #[arg(long, value_name = "N|MIN..MAX")]
    workers: Option<Workers>,
    #[command(flatten)]
    arbiter: ArbiterFlags,
    /// Serves health, figures and a live page over HTTP; a port alone is one of the loopback interface.
    #[arg(long, value_name = "[HOST:]PORT")]
    admin: Option<String>,
    /// A file with the secret that the admin port asks for; beyond the loopback interface all but health and figures
    /// needs one.
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// The certificate chain of an admin port that speaks TLS, in PEM.
    #[arg(long, value_name = "FILE", requires = "admin_tls_key_file")]
    admin_tls_cert_file: Option<PathBuf>,
    /// The key of that certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "admin_tls_cert_file")]
    admin_tls_key_file: Option<PathBuf>,
    /// Least severe messages that are logged [default: info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
    #[command(flatten)]
    scheduling: SchedulingFlags,
}

impl ServerFlags {
    /// Replaces settings by the flags that were given.
    pub(crate) fn apply_to(self, settings: CommonSettings<'_>) {
        let CommonSettings { log_level, policy, server } = settings;
        server.workers = self.workers.or(server.workers);
        self.arbiter.apply_to(server);
        server.admin = self.admin.or(server.admin.take());
        for (given, setting) in [
            (self.admin_token_file, &mut server.admin_token_file),
            (self.admin_tls_cert_file, &mut server.admin_tls_cert_file),
            (self.admin_tls_key_file, &mut server.admin_tls_key_file),
        ] {
            *setting = given.or(setting.take());
        }
        replace(log_level, self.log_level);
        self.scheduling.apply_to(policy, server);
    }
}
