//! Stands for the certificates of the admin port in builds without the feature `admin-tls`: there are none.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use tokio::net::TcpStream;

#[derive(Debug)]
pub(super) struct Certificates(Infallible);

impl Certificates {
    pub(super) fn read(_: &Path, _: &Path) -> Result<Self, &'static str> {
        Err("this program was built without psp-server's feature `admin-tls`")
    }

    pub(super) fn acceptor(&mut self) -> TlsAcceptor {
        match self.0 {}
    }
}

pub(super) struct TlsAcceptor(Infallible);

impl TlsAcceptor {
    pub(super) async fn accept(&self, _: TcpStream) -> io::Result<TcpStream> {
        match self.0 {}
    }
}
