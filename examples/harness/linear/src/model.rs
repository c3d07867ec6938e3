//! What operations do when they happen one at a time.

pub mod cache;
pub mod keyspace;

use std::fmt::Debug;

/// A key. Models and clients spell it as they like.
pub type Key = u32;

/// An operation of a server, and what it does to the server's state.
pub trait Operation: Clone + Debug {
    /// What the server holds for all keys. The default is the state at the start.
    type State: Clone + Debug + Default + Eq;
    /// What the client reads.
    type Reply: Clone + Debug + PartialEq;

    /// The keys that the operation may read or change.
    fn keys(&self) -> Vec<Key>;

    /// Changes `state` and returns the reply. It depends on nothing else.
    fn apply(&self, state: &mut Self::State) -> Self::Reply;

    /// Whether an operation that is pending may never happen although later ones of its connection have. It then
    /// happened in another way, which changes nothing.
    fn may_be_passed_over(&self) -> bool {
        false
    }

    /// `Some` for an operation that no client sends, and that may happen by itself at any time: whether it changes this
    /// state. What it changes cannot be changed back.
    fn by_itself(&self, _state: &Self::State) -> Option<bool> {
        None
    }

    /// The operation as it enters a history, with the reply that its client read. One that is only atomic key by key
    /// enters as one operation for each key. Parts without a reply are pending: they may happen at any time since.
    fn parts(self, reply: Option<Self::Reply>) -> Vec<(Self, Option<Self::Reply>)> {
        vec![(self, reply)]
    }
}
