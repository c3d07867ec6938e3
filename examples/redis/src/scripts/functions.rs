//! The libraries of functions that clients have loaded, and their functions by name.
//!
//! A library is here as text. Each interpreter runs it for itself when it needs one of its functions for the first
//! time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use smallvec::SmallVec;

use super::shebang::Flags;

/// Bytes of all libraries.
pub(crate) const BYTES_MAX: usize = 64 << 20;
/// What a library or a function takes beside its texts.
const ENTRY_BYTES: usize = 200;

/// A function, as its library registered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSpec {
    /// Its name, which calls may spell in either case.
    pub name: Box<str>,
    /// What the library says about it.
    pub description: Option<Box<[u8]>>,
    /// What it declares.
    pub flags: Flags,
}

impl FunctionSpec {
    /// Bytes that the function counts for.
    pub(crate) fn bytes(&self) -> usize {
        let description = self.description.as_deref().unwrap_or_default();
        self.name.len() + description.len() + ENTRY_BYTES
    }
}

/// A library of functions.
#[derive(Debug)]
pub struct FunctionLibrary {
    /// A number of its own, under which interpreters know it.
    pub id: u64,
    /// Its name.
    pub name: Box<str>,
    /// Its text, with the line that names it.
    pub code: Box<[u8]>,
    /// Its functions, in the order in which it registered them.
    pub functions: Vec<FunctionSpec>,
}

impl FunctionLibrary {
    /// Bytes that the library counts for.
    pub(crate) fn bytes(&self) -> usize {
        let functions: usize = self.functions.iter().map(FunctionSpec::bytes).sum();
        self.code.len() + self.name.len() + functions + ENTRY_BYTES
    }
}

/// A function in its library.
#[derive(Debug, Clone)]
pub struct Found {
    /// The library.
    pub library: Arc<FunctionLibrary>,
    index: usize,
}

impl Found {
    /// The function.
    #[must_use]
    pub fn spec(&self) -> &FunctionSpec {
        &self.library.functions[self.index]
    }
}

/// What becomes of the libraries that are there when others come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// They stay. A library of the same name is an error.
    Append,
    /// They stay, except those of the same names.
    Replace,
    /// They go.
    Flush,
}

/// Why libraries cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is a library of this name.
    #[error("ERR Library {0} already exists")]
    Library(Box<str>),
    /// Another library has a function of this name.
    #[error("ERR Function {0} already exists")]
    Function(Box<str>),
    /// There is no room for them.
    #[error("ERR the libraries of functions are too long: FUNCTION DELETE removes them")]
    Full,
}

/// All libraries of a server.
#[derive(Debug, Default)]
pub struct Functions {
    shelves: RwLock<Shelves>,
    /// Counts libraries, also those that could not be added.
    ids: AtomicU64,
    /// Counts those that came or went.
    changes: AtomicU64,
}

#[derive(Debug, Default)]
struct Shelves {
    libraries: BTreeMap<Box<str>, Arc<FunctionLibrary>>,
    /// By the name in lower case.
    functions: HashMap<Box<str>, Found>,
    bytes: usize,
}

impl Functions {
    /// The number of the next library.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// The function of this name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Found> {
        let lower: SmallVec<[u8; 64]> = name.iter().map(u8::to_ascii_lowercase).collect();
        let name = str::from_utf8(&lower).ok()?;
        self.shelves.read().functions.get(name).cloned()
    }

    /// Whether calls of this function's name still find it.
    #[must_use]
    pub fn is_current(&self, found: &Found) -> bool {
        let now = self.find(found.spec().name.as_bytes());
        now.is_some_and(|now| Arc::ptr_eq(&now.library, &found.library))
    }

    /// Whether there is a library of this name.
    #[must_use]
    pub fn contains(&self, library: &str) -> bool {
        self.shelves.read().libraries.contains_key(library)
    }

    /// Number of libraries, and of functions.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let shelves = self.shelves.read();
        (shelves.libraries.len(), shelves.functions.len())
    }

    /// All libraries, by name.
    #[must_use]
    pub fn libraries(&self) -> Vec<Arc<FunctionLibrary>> {
        self.shelves.read().libraries.values().cloned().collect()
    }

    /// Adds all of `libraries`, whose names differ, or none. Returns those that had to go for others. Calls `tell` before
    /// others are added or removed.
    ///
    /// # Errors
    /// A name of a library or of a function is taken, or there is no room.
    pub(crate) fn add(
        &self,
        libraries: Vec<FunctionLibrary>,
        policy: Policy,
        tell: impl FnOnce(),
    ) -> Result<Vec<Arc<FunctionLibrary>>, Refused> {
        let added = libraries.len();
        let mut shelves = self.shelves.write();
        let replaced = shelves.exchange(libraries, policy)?;
        tell();
        drop(shelves);
        self.changes.fetch_add((added + replaced.len()) as u64, Ordering::Relaxed);
        let is_other = |(old, new): &Replaced| new.as_ref().is_none_or(|new| new.code != old.code);
        let gone = replaced.into_iter().filter(is_other);
        Ok(gone.map(|(old, _)| old).collect())
    }

    /// Removes a library. `None` if there is none of this name.
    pub(crate) fn remove(&self, library: &str, tell: impl FnOnce()) -> Option<Arc<FunctionLibrary>> {
        let mut shelves = self.shelves.write();
        let gone = shelves.take(library)?;
        tell();
        drop(shelves);
        self.changes.fetch_add(1, Ordering::Relaxed);
        Some(gone)
    }

    /// Libraries that came or went: a counter that only grows.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

/// A library that had to go, and the one that has its name now.
type Replaced = (Arc<FunctionLibrary>, Option<Arc<FunctionLibrary>>);

impl Shelves {
    fn exchange(&mut self, libraries: Vec<FunctionLibrary>, policy: Policy) -> Result<Vec<Replaced>, Refused> {
        let gone: Vec<_> = match policy {
            Policy::Flush => self.libraries.values().cloned().collect(),
            _ => {
                let named = |library: &FunctionLibrary| self.libraries.get(&library.name);
                libraries.iter().filter_map(named).cloned().collect()
            }
        };
        if let (Policy::Append, [taken, ..]) = (policy, &*gone) {
            return Err(Refused::Library(taken.name.clone()));
        }
        self.check(&libraries, &gone)?;
        for library in &gone {
            self.take(&library.name);
        }
        for library in libraries {
            self.put(library);
        }
        let now = |old: Arc<FunctionLibrary>| {
            let new = self.libraries.get(&old.name).cloned();
            (old, new)
        };
        Ok(gone.into_iter().map(now).collect())
    }

    /// Whether `libraries` fit in the place of `gone`.
    fn check(&self, libraries: &[FunctionLibrary], gone: &[Arc<FunctionLibrary>]) -> Result<(), Refused> {
        let freed: usize = gone.iter().map(|library| library.bytes()).sum();
        let added: usize = libraries.iter().map(FunctionLibrary::bytes).sum();
        if self.bytes - freed + added > BYTES_MAX {
            return Err(Refused::Full);
        }
        let gone: HashSet<u64> = gone.iter().map(|library| library.id).collect();
        let mut names = HashSet::new();
        for library in libraries {
            for function in &library.functions {
                let lower = function.name.to_ascii_lowercase();
                let found = self.functions.get(&*lower);
                let is_taken = found.is_some_and(|found| !gone.contains(&found.library.id));
                if is_taken || !names.insert(lower) {
                    return Err(Refused::Function(function.name.clone()));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, library: &str) -> Option<Arc<FunctionLibrary>> {
        let library = self.libraries.remove(library)?;
        for function in &library.functions {
            self.functions.remove(&*function.name.to_ascii_lowercase());
        }
        self.bytes -= library.bytes();
        Some(library)
    }

    fn put(&mut self, library: FunctionLibrary) {
        let library = Arc::new(library);
        self.bytes += library.bytes();
        for (index, function) in library.functions.iter().enumerate() {
            let found = Found { library: Arc::clone(&library), index };
            let lower = function.name.to_ascii_lowercase();
            self.functions.insert(lower.into(), found);
        }
        self.libraries.insert(library.name.clone(), library);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(functions: &Functions, name: &str, names: &[&str]) -> FunctionLibrary {
        let spec = |name: &&str| FunctionSpec {
            name: (*name).into(),
            description: None,
            flags: Flags::default(),
        };
        FunctionLibrary {
            id: functions.next_id(),
            name: name.into(),
            code: names.concat().into_bytes().into(),
            functions: names.iter().map(spec).collect(),
        }
    }

    fn add(functions: &Functions, new: &[(&str, &[&str])], policy: Policy) -> Result<usize, Refused> {
        let new = new.iter();
        let new = new.map(|(name, names)| library(functions, name, names));
        functions.add(new.collect(), policy, || ()).map(|gone| gone.len())
    }

    #[test]
    fn functions_are_found_in_either_case() {
        let functions = Functions::default();
        assert_eq!(add(&functions, &[("a", &["One", "two"])], Policy::Append), Ok(0));
        let found = functions.find(b"ONE").expect("a function");
        assert_eq!(&*found.spec().name, "One");
        assert!(functions.is_current(&found));
        assert!(functions.find(b"three").is_none());
        assert!(functions.find(b"\xff").is_none());
        assert_eq!(functions.counts(), (1, 2));
        assert!(functions.remove("A", || ()).is_none());
        assert!(functions.remove("a", || ()).is_some());
        assert!(!functions.is_current(&found));
        assert_eq!(functions.counts(), (0, 0));
        assert_eq!(functions.shelves.read().bytes, 0);
    }

    #[test]
    fn names_are_taken_once_and_errors_change_nothing() {
        let functions = Functions::default();
        add(&functions, &[("a", &["one"]), ("b", &["two"])], Policy::Append).unwrap();
        let refused = |new: &[(&str, &[&str])], policy| {
            let before = functions.libraries();
            let error = add(&functions, new, policy).expect_err("an error");
            let after = functions.libraries();
            assert!(before.iter().zip(&after).all(|(left, right)| Arc::ptr_eq(left, right)));
            error.to_string()
        };
        assert_eq!(
            refused(&[("c", &["three"]), ("a", &["four"])], Policy::Append),
            "ERR Library a already exists"
        );
        assert_eq!(refused(&[("c", &["TWO"])], Policy::Append), "ERR Function TWO already exists");
        assert_eq!(refused(&[("a", &["two"])], Policy::Replace), "ERR Function two already exists");
        assert_eq!(refused(&[("c", &["x"]), ("d", &["X"])], Policy::Flush), "ERR Function X already exists");
        // A library may keep the names of the one that it replaces, and take those of another that goes.
        let new: &[(&str, &[&str])] = &[("a", &["two", "five"]), ("b", &["one"])];
        assert_eq!(add(&functions, new, Policy::Replace), Ok(2));
        assert_eq!(functions.counts(), (2, 3));
        let same = &new[..1];
        assert_eq!(add(&functions, same, Policy::Replace), Ok(0), "the same text");
        assert_eq!(functions.counts(), (2, 3));
        assert_eq!(add(&functions, &[("c", &["one"])], Policy::Flush), Ok(2));
        assert_eq!(functions.counts(), (1, 1));
    }

    #[test]
    fn libraries_have_a_bound() {
        let functions = Functions::default();
        let large = |name: &str| {
            let mut library = library(&functions, name, &[name]);
            library.code = vec![b' '; BYTES_MAX / 4].into();
            vec![library]
        };
        for name in ["a", "b", "c"] {
            functions.add(large(name), Policy::Append, || ()).unwrap();
        }
        assert_eq!(functions.add(large("d"), Policy::Append, || ()).unwrap_err(), Refused::Full);
        functions.add(large("c"), Policy::Replace, || ()).unwrap();
        functions.add(large("d"), Policy::Flush, || ()).unwrap();
        assert_eq!(functions.counts(), (1, 1));
    }
}
