//! Stands for TLS in builds without it: types without values.

use std::convert::Infallible;
use std::io::{self, Read, Write};

use super::handshake::HandshakeStage;
use super::input::{BufferPool, Fill, InputBuffer};
use super::output::{Flush, OutputQueue};

/// What a server needs for TLS.
#[derive(Debug, Clone)]
pub(crate) struct TlsConfig(Infallible);

impl TlsConfig {
    pub(crate) fn session(&self, _now_ns: u64) -> Option<Box<TlsSession>> {
        match self.0 {}
    }
}

/// A server's side of TLS on one connection.
#[derive(Debug)]
pub(crate) struct TlsSession(Infallible);

impl TlsSession {
    pub(crate) fn started_ns(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn handshake(&self) -> Option<HandshakeStage> {
        match self.0 {}
    }

    pub(crate) fn receive_handshake(&mut self, _socket: &mut impl Read) -> io::Result<Fill> {
        match self.0 {}
    }

    pub(crate) fn step(&mut self) {
        match self.0 {}
    }

    pub(crate) fn open(&mut self, _input: &mut InputBuffer, _pool: &mut BufferPool) {
        match self.0 {}
    }

    pub(crate) fn receive(
        &mut self,
        _socket: &mut impl Read,
        _input: &mut InputBuffer,
        _len_min: usize,
        _pool: &mut BufferPool,
    ) -> io::Result<Fill> {
        match self.0 {}
    }

    pub(crate) fn send(
        &mut self,
        _output: &mut OutputQueue,
        _socket: &mut impl Write,
        _budget_bytes: usize,
        _sent: &mut usize,
    ) -> io::Result<Flush> {
        match self.0 {}
    }

    pub(crate) fn unsent(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn close(&mut self) -> bool {
        match self.0 {}
    }

    pub(crate) fn held_bytes(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn lend_buffer(&mut self, _spare: &mut Vec<Vec<u8>>) {
        match self.0 {}
    }

    pub(crate) fn return_buffer(&mut self, _spare: &mut Vec<Vec<u8>>) {
        match self.0 {}
    }
}
