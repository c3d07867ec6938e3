//! The admin port in builds without the feature `admin`: there is none.

use std::io;
use std::net::SocketAddr;

use crate::config::Config;
use crate::error::{BuildError, RunError};
use crate::shared::ServerHandle;

#[derive(Debug)]
pub(crate) enum AdminListener {}

impl AdminListener {
    pub(crate) fn bind(place: &str, _: &Config) -> Result<Self, BuildError> {
        let reason = "this program was built without psp-server's feature `admin`";
        Err(BuildError::Admin {
            address: place.to_owned(),
            source: io::Error::new(io::ErrorKind::Unsupported, reason),
        })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        match *self {}
    }

    pub(crate) const fn scheme(&self) -> &'static str {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum Admin {}

impl Admin {
    pub(crate) fn start(listener: AdminListener, _: ServerHandle) -> Result<Self, RunError> {
        match listener {}
    }
}
