//! Binding sockets to the addresses of a name.

use std::io;
use std::net::SocketAddr;

use mio::net::{TcpListener, UdpSocket};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::BuildError;

/// Connections that may wait to be accepted.
pub(super) const BACKLOG: i32 = 1024;

/// Ports that are tried when the system chooses one, which one of several addresses may not have.
const PORTS_TRIED: usize = 16;

/// A socket, and the address to which it is bound.
type Bound<S> = (S, SocketAddr);

/// So many listening TCP sockets on each of `addresses`, which are those of one name.
pub(crate) fn listen_tcp(addresses: &[SocketAddr], sockets: usize) -> Result<Vec<Bound<Vec<TcpListener>>>, BuildError> {
    bind_each("tcp", addresses, |address| {
        let (sockets, address) = bound(address, Type::STREAM, Protocol::TCP, sockets)?;
        let listening = |socket: Socket| {
            socket.listen(BACKLOG)?;
            Ok(TcpListener::from_std(socket.into()))
        };
        let listeners: io::Result<_> = sockets.into_iter().map(listening).collect();
        Ok((listeners?, address))
    })
}

/// So many UDP sockets on each of `addresses`, which are those of one name.
pub(crate) fn bind_udp(addresses: &[SocketAddr], sockets: usize) -> Result<Vec<Bound<Vec<UdpSocket>>>, BuildError> {
    bind_each("udp", addresses, |address| {
        let (sockets, address) = bound(address, Type::DGRAM, Protocol::UDP, sockets)?;
        let sockets = sockets.into_iter();
        let sockets = sockets.map(|socket| UdpSocket::from_std(socket.into()));
        Ok((sockets.collect(), address))
    })
}

/// So many sockets that are bound to `address`. Of several the kernel gives a connection, or the datagrams of a peer,
/// to one.
///
/// The first one shares its port only once it has it. Another server that shares its port as well would get some of the
/// requests, and of UDP ports the system chooses such a port, too.
fn bound(address: SocketAddr, kind: Type, protocol: Protocol, sockets: usize) -> io::Result<Bound<Vec<Socket>>> {
    let first = unbound(address, kind, protocol)?;
    first.bind(&address.into())?;
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    if sockets > 1 {
        first.set_reuse_port(true)?;
    }
    let another = |_| {
        let socket = unbound(address, kind, protocol)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    let others = (1..sockets).map(another);
    let sockets: io::Result<_> = std::iter::once(Ok(first)).chain(others).collect();
    Ok((sockets?, address))
}

fn unbound(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Binds each address. Addresses with port 0 get the same port. An address that this machine does not have is no
/// error if another address can be bound.
fn bind_each<S>(
    transport: &'static str,
    addresses: &[SocketAddr],
    bind: impl Fn(SocketAddr) -> io::Result<Bound<S>>,
) -> Result<Vec<Bound<S>>, BuildError> {
    let any_port = addresses.iter().any(|address| address.port() == 0);
    let mut tries_left = if any_port { PORTS_TRIED } else { 1 };
    loop {
        tries_left -= 1;
        match bind_at_one_port(addresses, &bind) {
            Err((_, error)) if error.kind() == io::ErrorKind::AddrInUse && tries_left > 0 => {}
            bound => {
                return bound.map_err(|(address, source)| BuildError::Bind { transport, address, source });
            }
        }
    }
}

/// See [`bind_each`]. The error names the address.
fn bind_at_one_port<S>(
    addresses: &[SocketAddr],
    bind: impl Fn(SocketAddr) -> io::Result<Bound<S>>,
) -> Result<Vec<Bound<S>>, (SocketAddr, io::Error)> {
    let mut bound: Vec<Bound<S>> = Vec::with_capacity(addresses.len());
    let mut absent = None;
    for &address in addresses {
        let mut address = address;
        if let (0, Some((_, first))) = (address.port(), bound.first()) {
            address.set_port(first.port());
        }
        match bind(address) {
            Ok(socket) => bound.push(socket),
            Err(error) if is_absent(&error) => absent = absent.or(Some((address, error))),
            Err(error) => return Err((address, error)),
        }
    }
    match absent {
        Some(refused) if bound.is_empty() => Err(refused),
        _ => Ok(bound),
    }
}

/// Whether this machine does not have the address, or no addresses of its family.
fn is_absent(error: &io::Error) -> bool {
    let absent = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT];
    Errno::from_io_error(error).is_some_and(|errno| absent.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Binds `texts` on a system that gives `ports` one after the other, and answers `errors` for some addresses.
    fn bind(texts: &[&str], ports: &[u16], errors: &[(&str, Errno)]) -> Result<Vec<SocketAddr>, String> {
        let ports = RefCell::new(ports.iter().copied());
        let errors: Vec<(SocketAddr, Errno)> =
            errors.iter().map(|(text, errno)| (text.parse().unwrap(), *errno)).collect();
        let bind = |mut address: SocketAddr| {
            if let Some((_, errno)) = errors.iter().find(|(refused, _)| *refused == address) {
                return Err(io::Error::from(*errno));
            }
            if address.port() == 0 {
                address.set_port(ports.borrow_mut().next().unwrap());
            }
            Ok(((), address))
        };
        let bound = bind_each("tcp", &addresses(texts), bind);
        let addresses = |bound: Vec<Bound<()>>| bound.into_iter().map(|(_, at)| at).collect();
        bound.map(addresses).map_err(|error| error.to_string())
    }

    const LOCALHOST: [&str; 2] = ["[::1]:0", "127.0.0.1:0"];

    #[test]
    fn no_two_servers_share_a_port_that_the_system_chose() {
        const SERVERS: usize = 300;
        let any = addresses(&["127.0.0.1:0"]);
        let servers: Vec<_> = (0..SERVERS).map(|_| bind_udp(&any, 2).unwrap().swap_remove(0)).collect();
        let ports: HashSet<u16> = servers.iter().map(|(_, at)| at.port()).collect();
        // Of the usual 28 232 ports, some two of them would have the same one four times out of five.
        assert_eq!(ports.len(), SERVERS);
        let (sockets, taken) = &servers[0];
        assert_eq!(sockets.len(), 2);
        let refused = bind_udp(&[*taken], 2).unwrap_err();
        assert!(refused.to_string().contains("in use"), "{refused}");
    }

    #[test]
    fn all_addresses_of_a_name_have_one_port() {
        let both = addresses(&["[::1]:7", "127.0.0.1:7"]);
        assert_eq!(bind(&LOCALHOST, &[7], &[]), Ok(both));
        let named = ["[::1]:8", "127.0.0.1:8"];
        assert_eq!(bind(&named, &[], &[]), Ok(addresses(&named)));
    }

    #[test]
    fn a_port_that_one_address_does_not_have_is_given_up() {
        let taken = [("127.0.0.1:7", Errno::ADDRINUSE)];
        let both = addresses(&["[::1]:8", "127.0.0.1:8"]);
        assert_eq!(bind(&LOCALHOST, &[7, 8], &taken), Ok(both));
        let refused = bind(&["127.0.0.1:7"], &[], &taken).unwrap_err();
        let expected = "cannot listen on tcp 127.0.0.1:7: Address already in use (os error 98)";
        assert_eq!(refused, expected);
    }

    #[test]
    fn an_address_that_the_machine_lacks_is_left_out() {
        for errno in [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL] {
            let bound = bind(&LOCALHOST, &[7], &[("[::1]:0", errno)]);
            assert_eq!(bound, Ok(addresses(&["127.0.0.1:7"])));
            let refused = bind(&["[::1]:0"], &[], &[("[::1]:0", errno)]).unwrap_err();
            assert!(refused.starts_with("cannot listen on tcp [::1]:0: "), "{refused}");
        }
        let forbidden = bind(&LOCALHOST, &[7], &[("[::1]:0", Errno::ACCESS)]);
        assert!(forbidden.is_err(), "another error is not ignored");
    }
}
