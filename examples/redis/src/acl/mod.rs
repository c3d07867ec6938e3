//! Users: who may authenticate how, and which commands each may call on which keys and channels.
//!
//! ```text
//!   AUTH ─► Acl: name ─► User ──────────► Account of the connection
//!                          ▲                  │ access: one load
//!   ACL SETUSER ─ a changed User, handed ─────┤
//!                 out to all its connections  ▼
//!                        command ─► All: runs │ Checked: User::check ─► runs, or -NOPERM and ACL LOG
//! ```
//!
//! A user never changes. Another one takes its place, in the registry and in all connections at once, under one lock
//! that AUTH takes, too. So a command of a connection that may do everything costs one load of [`Account::access`],
//! which it would take for authentication alone.
//!
//! | file | job |
//! | --- | --- |
//! | `account.rs` | which user a connection is |
//! | `user.rs` | a user: passwords and selectors, rules that change it |
//! | `selector.rs` | which commands are allowed on which keys and channels |
//! | `command_set.rs` | allowed commands, and rules that describe them |
//! | `commands.rs`, `categories.rs` | what rules can name |
//! | `definition.rs` | users in the configuration |
//! | `file.rs` | users in a file |
//! | `log.rs` | what was denied |
//! | `gate.rs` | the check of a command, and its errors |

mod account;
pub(crate) mod categories;
mod command_set;
mod commands;
mod definition;
mod file;
mod gate;
mod log;
mod password;
mod rule_error;
mod selector;
mod user;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use psp_server::no_preempt;

pub use account::{Access, Account};
pub use definition::{DefinitionError, UserDefinition, check_names};
pub(crate) use gate::{admit, admit_in_script, admit_queued, authenticate};
pub use log::{AclLog, Denied, Place, Reason};
pub use rule_error::RuleError;
pub use selector::PubSubDefault;
pub(crate) use selector::{Denial, Selector};
pub use user::{DEFAULT, User};

use self::password::PasswordHash;
use crate::client::{ClientInfo, Registry};
use crate::config::Config;
use crate::pubsub::TopicKind;

/// Users by their names.
pub(crate) type Users = BTreeMap<Box<[u8]>, Arc<User>>;

/// All users of a server.
#[derive(Debug)]
pub struct Acl {
    /// The default user is one of them. Connections change their users under this lock alone.
    users: RwLock<Users>,
    all_channels_by_default: AtomicBool,
    /// What `requirepass` was set to, for those who ask. The users have its hash.
    requirepass: Mutex<Vec<u8>>,
    /// What was denied.
    pub log: AclLog,
}

/// The connections to close after users have changed.
pub(crate) type Closing = Vec<Arc<ClientInfo>>;

impl Acl {
    /// The default user alone, which has the password of `config`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let requirepass = config.requirepass.as_deref().unwrap_or_default();
        let mut default = User::new_default();
        default.set_only_password(requirepass.as_bytes());
        Self {
            users: RwLock::new(Users::from([(DEFAULT.into(), Arc::new(default))])),
            all_channels_by_default: AtomicBool::new(config.acl_pubsub_default == PubSubDefault::AllChannels),
            requirepass: Mutex::new(requirepass.into()),
            log: AclLog::new(config.acllog_max_len),
        }
    }

    /// Adds the users of the configuration: those of `user`, or those of `aclfile`.
    ///
    /// # Errors
    /// A definition is wrong, or they contradict each other.
    pub(crate) fn configure(&self, clients: &Registry, config: &Config) -> Result<(), String> {
        let default = self.pubsub_default();
        let Some(path) = &config.aclfile else {
            let mut users = Users::new();
            for definition in &config.user {
                let user = definition.user(default);
                let user = user.map_err(|error| format!("user '{}': {error}", definition.name()))?;
                if !user.is_on() {
                    tracing::info!(user = definition.name(), "a user is off, because its rules do not say 'on'");
                }
                users.insert(user.name().into(), Arc::new(user));
            }
            if !users.is_empty() {
                // Without the default user among them, it stays as it is.
                users.entry(DEFAULT.into()).or_insert_with(|| self.default_user());
                let _nobody = self.replace_all(clients, users);
            }
            return Ok(());
        };
        if !config.user.is_empty() {
            return Err("'user' and 'aclfile' exclude each other: define all users in one place".to_owned());
        }
        if config.requirepass.is_some() {
            return Err(
                "'requirepass' has no effect beside 'aclfile': give the user 'default' its password there".to_owned()
            );
        }
        self.load(clients, path).map(drop)
    }

    fn default_user(&self) -> Arc<User> {
        no_preempt(|| {
            let users = self.users.read();
            let default = users.get(DEFAULT).cloned();
            default.unwrap_or_else(|| Arc::new(User::new_default()))
        })
    }

    /// Whether connections need no password, as long as the default user is on.
    #[must_use]
    pub fn has_nopass(&self) -> bool {
        self.default_user().has_nopass()
    }

    /// A user.
    #[must_use]
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        no_preempt(|| self.users.read().get(name).cloned())
    }

    /// All users, ordered by name.
    #[must_use]
    pub fn users(&self) -> Vec<Arc<User>> {
        no_preempt(|| self.users.read().values().cloned().collect())
    }

    /// `acl-pubsub-default`.
    #[must_use]
    pub fn pubsub_default(&self) -> PubSubDefault {
        match self.all_channels_by_default.load(Ordering::Relaxed) {
            true => PubSubDefault::AllChannels,
            false => PubSubDefault::ResetChannels,
        }
    }

    /// Sets `acl-pubsub-default`.
    pub fn set_pubsub_default(&self, default: PubSubDefault) {
        let has_all = default == PubSubDefault::AllChannels;
        self.all_channels_by_default.store(has_all, Ordering::Relaxed);
    }

    /// What `requirepass` was set to; empty for nothing.
    #[must_use]
    pub fn requirepass(&self) -> Vec<u8> {
        no_preempt(|| self.requirepass.lock().clone())
    }

    /// Sets `requirepass`: the only password of the default user. An empty one means none.
    pub fn set_requirepass(&self, clients: &Registry, password: &[u8]) {
        no_preempt(|| {
            let mut users = self.users.write();
            *self.requirepass.lock() = password.into();
            let Some(default) = users.get_mut(DEFAULT) else {
                return;
            };
            Arc::make_mut(default).set_only_password(password);
            let default = Arc::clone(default);
            hand_out(clients, &default);
        });
    }

    /// Opens an account for a new connection. It is registered before any user changes.
    pub(crate) fn open<R>(&self, register: impl FnOnce(Account) -> R) -> R {
        no_preempt(|| {
            let users = self.users.read();
            let default = users.get(DEFAULT).cloned();
            register(Account::new(default.unwrap_or_else(|| Arc::new(User::new_default()))))
        })
    }

    /// Makes the client the user of this name, if the password is right. Returns whether it is.
    pub(crate) fn authenticate(&self, client: &ClientInfo, name: &[u8], password: &[u8]) -> bool {
        let password = PasswordHash::of(password);
        no_preempt(|| {
            let users = self.users.read();
            let user = users.get(name).filter(|user| user.accepts(&password));
            let Some(user) = user else {
                return false;
            };
            client.account.set(user, true);
            true
        })
    }

    /// Makes the client what it was when it connected, for RESET.
    pub(crate) fn reset(&self, client: &ClientInfo) {
        no_preempt(|| {
            let users = self.users.read();
            if let Some(default) = users.get(DEFAULT) {
                client.account.set(default, default.is_open());
            }
        });
    }

    /// ACL SETUSER: applies the rules to a user, or to a new one. All of them or none.
    ///
    /// # Errors
    /// A rule or the name is wrong.
    pub(crate) fn set_user(
        &self,
        clients: &Registry,
        name: &[u8],
        rules: &[&[u8]],
    ) -> Result<Closing, DefinitionError> {
        let default = self.pubsub_default();
        let affected = no_preempt(|| {
            let mut users = self.users.write();
            let known = users.get(name);
            let mut user = known.map_or_else(|| User::new(name, default), |user| User::clone(user));
            definition::apply_all(&mut user, rules, default)?;
            let user = Arc::new(user);
            users.insert(name.into(), Arc::clone(&user));
            Ok(hand_out(clients, &user))
        })?;
        Ok(without_channels(affected))
    }

    /// ACL DELUSER: removes users. Returns how many there were, and their connections.
    pub(crate) fn delete(&self, clients: &Registry, names: &[&[u8]]) -> (usize, Closing) {
        no_preempt(|| {
            let mut users = self.users.write();
            let deleted = names.iter().filter(|name| users.remove(**name).is_some()).count();
            (deleted, without_users(clients, &users))
        })
    }

    /// ACL LOAD: the users of the file in the place of all others. Returns the connections to close: those of all users
    /// but the default one, as in Redis, and subscribers that have lost a channel.
    ///
    /// # Errors
    /// The file is wrong, and nothing has changed.
    pub(crate) fn load(&self, clients: &Registry, path: &Path) -> Result<Closing, String> {
        let mut users = file::load(path, self.pubsub_default())?;
        users.entry(DEFAULT.into()).or_insert_with(|| Arc::new(User::new_default()));
        Ok(self.replace_all(clients, users))
    }

    /// ACL SAVE.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let users = no_preempt(|| self.users.read().clone());
        file::save(path, &users)
    }

    fn replace_all(&self, clients: &Registry, new: Users) -> Closing {
        let (mut closing, affected) = no_preempt(|| {
            let mut users = self.users.write();
            *users = new;
            let Some(default) = users.get(DEFAULT) else {
                return (Closing::new(), Closing::new());
            };
            let only_default = Users::from([(DEFAULT.into(), Arc::clone(default))]);
            let closing = without_users(clients, &only_default);
            (closing, hand_out(clients, default))
        });
        closing.extend(without_channels(affected));
        closing
    }
}

/// Gives all connections of a user what it is from now on. Returns those that are subscribed.
fn hand_out(clients: &Registry, user: &Arc<User>) -> Vec<Arc<ClientInfo>> {
    let clients = clients.snapshot();
    let own = clients.values().filter(|client| client.account.replace(user));
    let subscribed = own.filter(|client| client.subscriber.is_subscribed());
    subscribed.cloned().collect()
}

/// The connections whose users are none of these. They have no user from now on.
fn without_users(clients: &Registry, users: &Users) -> Closing {
    let clients = clients.snapshot();
    let is_gone = |client: &&Arc<ClientInfo>| !users.contains_key(client.account.user().name());
    let gone: Closing = clients.values().filter(is_gone).cloned().collect();
    let no_user = Arc::new(User::new(DEFAULT, PubSubDefault::ResetChannels));
    for client in &gone {
        client.account.set(&no_user, false);
    }
    gone
}

/// Those of these subscribers whose users may not subscribe to all of it any more.
fn without_channels(mut subscribers: Vec<Arc<ClientInfo>>) -> Closing {
    subscribers.retain(|client| {
        let user = client.account.user();
        TopicKind::ALL.into_iter().any(|kind| {
            let is_pattern = kind == TopicKind::Pattern;
            let names = client.subscriber.names(kind);
            let mut names = names.iter();
            names.any(|name| !user.may_subscribe(name, is_pattern))
        })
    });
    subscribers
}
