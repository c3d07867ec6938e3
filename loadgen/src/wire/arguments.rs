//! The arguments of a command.

/// The arguments of one command, its name first.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
}

impl Arguments {
    /// The arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let argument = &self.bytes[start..end];
            start = end;
            argument
        })
    }

    /// Forgets all arguments and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends one argument.
    pub fn push(&mut self, argument: &[u8]) {
        self.bytes.extend_from_slice(argument);
        self.ends.push(self.bytes.len());
    }
}
