//! Why a rule is wrong, in the words of Redis.

/// What is wrong with one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No command and no category has the name.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// The rule has no known form.
    #[error("Syntax error")]
    Syntax,
    /// All keys are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    AfterAllKeys,
    /// All channels are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
         Try 'resetchannels' to start with an empty list of channels"
    )]
    AfterAllChannels,
    /// The user has no such password.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// The digits are no SHA-256.
    #[error("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")]
    WrongHash,
    /// A subcommand has no first argument that rules can name.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgumentOfSubcommand,
}
