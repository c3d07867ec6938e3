//! Categories of commands, in the order in which Redis names them.

use psp_protocols::resp::CATEGORIES;

/// A set of categories: a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Categories(u32);

impl Categories {
    /// Those of these names. Unknown ones count for nothing.
    pub(crate) fn named(names: &[&str]) -> Self {
        let known = names.iter().filter_map(|name| Self::one(name.as_bytes()));
        Self(known.fold(0, |all, one| all | one.0))
    }

    /// The category of this name, in upper or lower case.
    pub(crate) fn one(name: &[u8]) -> Option<Self> {
        let mut known = CATEGORIES.iter();
        let place = known.position(|category| name.eq_ignore_ascii_case(category.as_bytes()))?;
        Some(Self(1 << place))
    }

    /// Each by itself, in order.
    #[cfg(test)]
    pub(crate) fn each() -> impl Iterator<Item = (&'static str, Self)> {
        let places = 0..CATEGORIES.len();
        places.map(|place| (CATEGORIES[place], Self(1 << place)))
    }

    /// Whether both have one in common.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_have_names() {
        let read = Categories::one(b"READ").expect("a category");
        assert_eq!(Categories::named(&["read", "nosuch"]), read);
        assert!(Categories::named(&["fast", "read"]).has(read));
        assert!(!Categories::named(&["fast", "slow"]).has(read));
        assert_eq!(Categories::one(b"all"), None);
        assert_eq!(Categories::each().count(), CATEGORIES.len());
    }
}
