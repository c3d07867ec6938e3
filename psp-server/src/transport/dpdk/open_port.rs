//! A started port with its queues.

use std::sync::Arc;

use super::eal::Eal;
use super::port::{Port, PortSetup};
use super::queue::{RxQueue, TxQueue};
use crate::error::DpdkError;

/// A port and all its queues, as many of either kind.
#[derive(Debug)]
pub(crate) struct OpenPort {
    pub(crate) port: Arc<Port>,
    pub(crate) rx: Vec<RxQueue>,
    pub(crate) tx: Vec<TxQueue>,
}

impl OpenPort {
    /// Sets a port up and starts it.
    ///
    /// # Errors
    /// When there is no such port, it is in use in this process, or it refuses.
    pub(crate) fn start(eal: Eal, setup: &PortSetup) -> Result<Self, DpdkError> {
        let (port, queues) = Port::start(eal, setup)?;
        let port = Arc::new(port);
        let rx = (0..queues).map(|queue| RxQueue::new(port.clone(), queue));
        let tx = (0..queues).map(|queue| TxQueue::new(port.clone(), queue, setup.tx_burst));
        Ok(Self { rx: rx.collect(), tx: tx.collect(), port })
    }
}
