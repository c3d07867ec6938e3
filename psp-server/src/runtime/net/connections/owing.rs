//! Connections that owe their peers replies: those that were deferred.

use psp_protocols::Framing;

use super::slot::Phase;
use super::table::Connections;
use crate::reply::Completed;
use crate::transport::request_key::ConnectionIndex;

impl<F: Framing, C> Connections<F, C> {
    /// Takes a deferred reply that is complete. Gives it back while a worker has the connection.
    pub(in crate::runtime::net) fn pay(
        &mut self,
        index: ConnectionIndex,
        mut completed: Completed,
        now_ns: u64,
    ) -> Option<Completed> {
        let slot = &mut self.slots[index.get()];
        let is_home = matches!(slot.phase, Phase::Home(_));
        let stream = match &mut slot.phase {
            Phase::Lent { .. } => return Some(completed),
            Phase::Home(stream) | Phase::Backpressured(stream) | Phase::Queued(stream) => Some(stream),
            Phase::Free | Phase::Lingering { .. } => None,
        };
        let owing = stream.and_then(|stream| {
            let connection = &mut stream.connection;
            let ticket = completed.ticket;
            let at = { connection.owed.iter() }.position(|owed| owed.ticket == ticket)?;
            let owed = connection.owed.remove(at);
            Some((connection, owed))
        });
        let Some((connection, owed)) = owing else {
            self.shared.deferrals().forget(&completed);
            return None;
        };
        if !connection.has_unsent() {
            slot.last_active_ns = now_ns;
        }
        let net = self.shared.net();
        if let Some(rejection) = completed.refusal() {
            net.deferred_failed.add(1);
            self.shared.deferrals().forget(&completed);
            if owed.is_committed {
                connection.closing = true;
            } else {
                let output = &mut connection.output;
                self.framing.encode_rejection(&rejection, &owed.request, output);
            }
        } else {
            connection.closing |= completed.close;
            connection.reserved_bytes += completed.reserved_bytes;
            connection.output.absorb(&mut completed.output);
        }
        if is_home {
            self.push_answered(index);
        } else {
            self.send_meanwhile(index);
        }
        None
    }
}
