//! Typed access to values: how commands read and change keys that must hold a list, a hash, ...

use psp_store::{Element, Hash, Keyspace, List, Set, Slot, SortedSet, Stream, Value, Writer};

use crate::error::CommandError;
use crate::parse::Result;

/// A type of value.
pub trait Typed: Sized + Clone {
    /// The value, if it is of this type.
    fn of(value: &Value) -> Option<&Self>;
    /// The value, mutable, if it is of this type.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// Wraps the value.
    fn into_value(self) -> Value;
}

macro_rules! typed {
    ($($ty:ty => $variant:ident),* $(,)?) => {$(
        impl Typed for $ty {
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }

            fn into_value(self) -> Value {
                Value::$variant(self)
            }
        }
    )*};
}

typed! {
    Element => String,
    List => List,
    Hash => Hash,
    Set => Set,
    SortedSet => SortedSet,
    Stream => Stream,
}

/// The value, which must be a `T`.
///
/// # Errors
/// [`CommandError::WrongType`].
pub fn expect<T: Typed>(value: Option<&Value>) -> Result<Option<&T>> {
    value.map(|value| T::of(value).ok_or(CommandError::WrongType)).transpose()
}

/// The value in `slot`, mutable. It must be a `T`.
///
/// # Errors
/// [`CommandError::WrongType`].
pub fn expect_mut<'s, T: Typed>(slot: &'s mut Slot<'_>) -> Result<Option<&'s mut T>> {
    expect::<T>(slot.value())?;
    Ok(slot.value_mut().and_then(T::of_mut))
}

/// [`expect_mut`], which first stores an empty `T` if there is no value.
///
/// # Errors
/// [`CommandError::WrongType`].
pub fn expect_or_default<'s, T: Typed + Default>(slot: &'s mut Slot<'_>) -> Result<&'s mut T> {
    expect::<T>(slot.value())?;
    let value = slot.value_or_insert_with(|| T::default().into_value());
    T::of_mut(value).ok_or(CommandError::WrongType)
}

/// Reads `key` without a lock; `None` if the key does not exist.
///
/// # Errors
/// [`CommandError::WrongType`].
pub fn read<T: Typed, R>(store: &Keyspace, key: &[u8], read: impl FnOnce(Option<&T>) -> R) -> Result<R> {
    store.with(key, |value| expect(value).map(read))
}

/// An O(1) snapshot of the value of `key`.
///
/// # Errors
/// [`CommandError::WrongType`].
pub fn snapshot<T: Typed>(store: &Keyspace, key: &[u8]) -> Result<Option<T>> {
    read(store, key, |value: Option<&T>| value.cloned())
}

/// O(1) snapshots of the values of `keys`, as they are at one instant.
pub fn snapshots(store: &Keyspace, keys: &[&[u8]]) -> Vec<Option<Value>> {
    let mut values = Vec::with_capacity(keys.len());
    store.with_all(keys, |value| values.push(value.cloned()));
    values
}

/// Changes `key` under its lock, with work of O(log n). Returns `None` if the key does not exist.
///
/// # Errors
/// [`CommandError::WrongType`].
pub fn change<'s, T: Typed, R>(
    store: impl Into<Writer<'s>>,
    key: &[u8],
    change: impl FnOnce(&mut T) -> R,
) -> Result<Option<R>> {
    store.into().update(key, |slot| Ok(expect_mut(slot)?.map(change)))
}

/// [`change`], which starts from an empty `T` if the key does not exist.
///
/// # Errors
/// [`CommandError::WrongType`].
pub fn change_or_create<'s, T: Typed + Default, R>(
    store: impl Into<Writer<'s>>,
    key: &[u8],
    change: impl FnOnce(&mut T) -> R,
) -> Result<R> {
    store.into().update(key, |slot| Ok(change(expect_or_default(slot)?)))
}
