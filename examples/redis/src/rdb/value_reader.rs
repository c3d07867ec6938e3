//! Reads values in all forms that Redis 4 to 7 writes, modules aside.

use psp_store::{Element, Hash, List, ListEnd, Set, SortedSet, Value};

use super::kind::{FieldTimes, Kind};
use super::packed::{Entry, intset, listpack, ziplist};
use super::reader::{Malformed, Reader};
use super::stream_reader::read_stream;
use crate::parse;

/// The value of a payload, whose strings are of up to `len_max` bytes. It has at least one element, unless it is a
/// stream, and none twice.
///
/// # Errors
/// The parts are not one value, or of a type that is not known.
pub(crate) fn read_value(reader: &mut Reader<'_>, len_max: usize) -> Result<Value, Malformed> {
    let kind = Kind::of(reader.byte()?).ok_or(Malformed)?;
    let value = read_value_of(kind, reader, len_max)?;
    let may_be_empty = matches!(value, Value::Stream(_));
    if (value.cardinality() == 0 && !may_be_empty) || !reader.is_empty() {
        return Err(Malformed);
    }
    Ok(value)
}

/// The next value, which is laid out so. Nothing may be in it.
///
/// # Errors
/// The parts are no such value.
pub(crate) fn read_value_of(kind: Kind, reader: &mut Reader<'_>, len_max: usize) -> Result<Value, Malformed> {
    let mut parts = Parts { reader, len_max };
    Ok(match kind {
        Kind::String => Value::String(parts.string()?),
        Kind::List => parts.list_of_strings()?,
        Kind::ListZiplist => parts.list(Form::Ziplist)?,
        Kind::Quicklist => parts.quicklist(|_| Ok(Form::Ziplist))?,
        Kind::QuicklistOfListpacks => parts.quicklist(Parts::form_of_node)?,
        Kind::Set => parts.set_of_strings()?,
        Kind::SetIntset => parts.set(Form::Intset)?,
        Kind::SetListpack => parts.set(Form::Listpack)?,
        Kind::Hash => parts.hash_of_strings()?,
        Kind::HashListpack => parts.hash(Form::Listpack)?,
        Kind::HashWithTimes(times) => parts.hash_with_times(times)?,
        Kind::HashListpackWithTimes(times) => parts.hash_of_triples(times)?,
        Kind::HashZiplist => parts.hash(Form::Ziplist)?,
        Kind::SortedSet => parts.sorted_set_of_strings(|parts| Ok(f64::from_le_bytes(parts.reader.array()?)))?,
        Kind::SortedSetOfDigits => parts.sorted_set_of_strings(Parts::score_of_digits)?,
        Kind::SortedSetListpack => parts.sorted_set(Form::Listpack)?,
        Kind::SortedSetZiplist => parts.sorted_set(Form::Ziplist)?,
        Kind::Stream(version) => Value::Stream(read_stream(parts.reader, version, len_max)?),
    })
}

/// How elements are packed into one string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Listpack,
    Ziplist,
    Intset,
    /// The string is the only element.
    Plain,
}

/// The parts of one value.
struct Parts<'r, 'p> {
    reader: &'r mut Reader<'p>,
    len_max: usize,
}

impl Parts<'_, '_> {
    fn string(&mut self) -> Result<Element, Malformed> {
        let string = self.reader.string(self.len_max)?;
        Ok(Element::from(&*string))
    }

    /// Reads a count, then calls `read` as often.
    fn counted(&mut self, mut read: impl FnMut(&mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        let count = self.reader.plain_length()?;
        for _ in 0..count {
            read(self)?;
        }
        Ok(())
    }

    /// Reads a string of packed elements.
    fn packed(
        &mut self,
        form: Form,
        mut read: impl FnMut(Entry<'_>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let pack = self.reader.string(self.len_max)?;
        let (visit, has_room) = (self.reader.visitor(), self.reader.room());
        let mut read = |entry: Entry<'_>| {
            visit();
            has_room(entry.len()).then_some(()).ok_or(Malformed)?;
            read(entry)
        };
        match form {
            Form::Listpack => listpack(&pack, read),
            Form::Ziplist => ziplist(&pack, read),
            Form::Intset => intset(&pack, read),
            Form::Plain => read(Entry::Borrowed(&pack)),
        }
    }

    /// Reads a string of packed elements, two at a time.
    fn pairs(
        &mut self,
        form: Form,
        mut read: impl FnMut(&[u8], &[u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut first: Option<Vec<u8>> = None;
        self.packed(form, |entry| match first.take() {
            None => {
                first = Some(entry.into_owned());
                Ok(())
            }
            Some(first) => read(&first, &entry),
        })?;
        if first.is_none() { Ok(()) } else { Err(Malformed) }
    }

    fn list_of_strings(&mut self) -> Result<Value, Malformed> {
        let mut list = List::new();
        self.counted(|parts| {
            list.push(ListEnd::Right, &parts.string()?);
            Ok(())
        })?;
        Ok(Value::List(list))
    }

    fn list(&mut self, form: Form) -> Result<Value, Malformed> {
        let mut list = List::new();
        self.extend(&mut list, form)?;
        Ok(Value::List(list))
    }

    fn quicklist(&mut self, form_of_node: impl Fn(&mut Self) -> Result<Form, Malformed>) -> Result<Value, Malformed> {
        let mut list = List::new();
        self.counted(|parts| {
            let form = form_of_node(parts)?;
            parts.extend(&mut list, form)
        })?;
        Ok(Value::List(list))
    }

    /// The form of a quicklist's node, which is written before it.
    fn form_of_node(&mut self) -> Result<Form, Malformed> {
        match self.reader.plain_length()? {
            1 => Ok(Form::Plain),
            2 => Ok(Form::Listpack),
            _ => Err(Malformed),
        }
    }

    fn extend(&mut self, list: &mut List, form: Form) -> Result<(), Malformed> {
        self.packed(form, |entry| {
            list.push(ListEnd::Right, &*entry);
            Ok(())
        })
    }

    fn set_of_strings(&mut self) -> Result<Value, Malformed> {
        let mut set = Set::new();
        let len_max = self.len_max;
        self.counted(|parts| only_once(set.insert(&parts.reader.string(len_max)?)))?;
        Ok(Value::Set(set))
    }

    fn set(&mut self, form: Form) -> Result<Value, Malformed> {
        let mut set = Set::new();
        self.packed(form, |entry| only_once(set.insert(&entry)))?;
        Ok(Value::Set(set))
    }

    fn hash_of_strings(&mut self) -> Result<Value, Malformed> {
        let mut hash = Hash::new();
        let len_max = self.len_max;
        self.counted(|parts| {
            let field = parts.reader.string(len_max)?;
            only_once(hash.insert(&field, parts.string()?))
        })?;
        Ok(Value::Hash(hash))
    }

    fn hash(&mut self, form: Form) -> Result<Value, Malformed> {
        let mut hash = Hash::new();
        self.pairs(form, |field, value| only_once(hash.insert(field, Element::from(value))))?;
        Ok(Value::Hash(hash))
    }

    /// The first time of a hash, which is 0 if it is not there.
    fn first_time(&mut self, times: FieldTimes) -> Result<u64, Malformed> {
        match times {
            FieldTimes::Absolute => Ok(0),
            FieldTimes::Relative => self.reader.array().map(u64::from_le_bytes),
        }
    }

    fn hash_with_times(&mut self, times: FieldTimes) -> Result<Value, Malformed> {
        let mut hash = Hash::new();
        let len_max = self.len_max;
        let first_ms = self.first_time(times)?;
        self.counted(|parts| {
            let time = parts.reader.plain_length()?;
            let at_ms = match times {
                FieldTimes::Relative if time > 0 => first_ms.checked_add(time - 1).ok_or(Malformed)?,
                _ => time,
            };
            let field = parts.reader.string(len_max)?;
            let value = parts.string()?;
            add_field(&mut hash, &field, value, at_ms)
        })?;
        Ok(Value::Hash(hash))
    }

    fn hash_of_triples(&mut self, times: FieldTimes) -> Result<Value, Malformed> {
        let mut hash = Hash::new();
        self.first_time(times)?;
        let mut before: Vec<Vec<u8>> = Vec::with_capacity(2);
        self.packed(Form::Listpack, |entry| {
            if let [field, value] = &before[..] {
                let at_ms = parse::integer(&entry).ok().and_then(|at_ms| u64::try_from(at_ms).ok());
                add_field(&mut hash, field, Element::from(&**value), at_ms.ok_or(Malformed)?)?;
                before.clear();
            } else {
                before.push(entry.into_owned());
            }
            Ok(())
        })?;
        if before.is_empty() {
            Ok(Value::Hash(hash))
        } else {
            Err(Malformed)
        }
    }

    fn sorted_set_of_strings(
        &mut self,
        score: impl Fn(&mut Self) -> Result<f64, Malformed>,
    ) -> Result<Value, Malformed> {
        let mut set = SortedSet::new();
        let len_max = self.len_max;
        self.counted(|parts| {
            let member = parts.reader.string(len_max)?;
            let score = score(parts)?;
            add(&mut set, &member, score)
        })?;
        Ok(Value::SortedSet(set))
    }

    /// A score as digits behind their number, or one of three bytes.
    fn score_of_digits(&mut self) -> Result<f64, Malformed> {
        Ok(match self.reader.byte()? {
            253 => f64::NAN,
            254 => f64::INFINITY,
            255 => f64::NEG_INFINITY,
            len => {
                let digits = self.reader.bytes(len.into())?;
                parse::float(&digits).map_err(|_text| Malformed)?
            }
        })
    }

    fn sorted_set(&mut self, form: Form) -> Result<Value, Malformed> {
        let mut set = SortedSet::new();
        self.pairs(form, |member, score| {
            let score = parse::float(score).map_err(|_text| Malformed)?;
            add(&mut set, member, score)
        })?;
        Ok(Value::SortedSet(set))
    }
}

fn add(set: &mut SortedSet, member: &[u8], score: f64) -> Result<(), Malformed> {
    let replaced = set.insert(member, score).map_err(|_nan| Malformed)?;
    only_once(replaced.is_none())
}

/// Adds a field, which never expires if its time is 0.
fn add_field(hash: &mut Hash, field: &[u8], value: Element, at_ms: u64) -> Result<(), Malformed> {
    /// The last time that Redis has.
    const LAST_MS: u64 = (1 << 48) - 2;
    if at_ms > LAST_MS {
        return Err(Malformed);
    }
    only_once(hash.insert_expiring(field, value, Some(at_ms).filter(|at_ms| *at_ms > 0)))
}

/// Refuses an element that is there already.
fn only_once(is_new: bool) -> Result<(), Malformed> {
    if is_new { Ok(()) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{open, put_string, put_value, seal};
    use super::*;

    const LEN_MAX: usize = 1 << 20;

    fn read(parts: &[u8]) -> Result<Value, Malformed> {
        let payload = seal(parts.to_vec(), &|| {});
        let mut reader = open(&payload, &|| {}).unwrap();
        read_value(&mut reader, LEN_MAX)
    }

    fn written(value: &Value) -> Vec<u8> {
        let mut parts = Vec::new();
        put_value(value, &|| {}, &mut parts);
        parts
    }

    /// The parts of a value of one string.
    fn packed(kind: u8, pack: &[u8]) -> Vec<u8> {
        let mut parts = vec![kind];
        put_string(pack, &mut parts);
        parts
    }

    fn listpack_of(entries: &[&str]) -> Vec<u8> {
        let mut data = Vec::new();
        for entry in entries {
            data.push(0x80 | entry.len() as u8);
            data.extend(entry.as_bytes());
            data.push(1 + entry.len() as u8);
        }
        let mut pack = (data.len() as u32 + 7).to_le_bytes().to_vec();
        pack.extend((entries.len() as u16).to_le_bytes());
        pack.extend(data);
        pack.push(0xff);
        pack
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = || vec(any::<u8>(), 0..100);
        let elements = || vec(text(), 1..50);
        let score = prop_oneof![Just(f64::INFINITY), Just(-0.0), -1e9..1e9];
        prop_oneof![
            text().prop_map(|text| Value::string(&text)),
            elements().prop_map(|elements| {
                let elements = elements.iter().map(|element| Element::from(&**element));
                Value::List(elements.collect())
            }),
            elements().prop_map(|members| {
                let mut set = Set::new();
                for member in &members {
                    set.insert(member);
                }
                Value::Set(set)
            }),
            vec((text(), text()), 1..50).prop_map(|pairs| {
                let mut hash = Hash::new();
                for (field, value) in &pairs {
                    hash.insert(field, Element::from(&**value));
                }
                Value::Hash(hash)
            }),
            vec((text(), text(), 0..1_u64 << 47), 1..50).prop_map(|fields| {
                let mut hash = Hash::new();
                for (field, value, at_ms) in &fields {
                    hash.insert_expiring(field, Element::from(&**value), Some(*at_ms).filter(|at_ms| at_ms % 3 > 0));
                }
                Value::Hash(hash)
            }),
            vec((text(), score), 1..50).prop_map(|pairs| {
                let mut set = SortedSet::new();
                for (member, score) in &pairs {
                    set.insert(member, *score).unwrap();
                }
                Value::SortedSet(set)
            }),
        ]
    }

    proptest! {
        #[test]
        fn values_are_read_as_they_are_written(value in values(), cut: prop::sample::Index) {
            let parts = written(&value);
            let again = read(&parts).unwrap();
            prop_assert_eq!(again.type_name(), value.type_name());
            prop_assert_eq!(again.cardinality(), value.cardinality());
            prop_assert_eq!(written(&again), parts.clone());
            prop_assert!(read(&parts[..cut.index(parts.len())]).is_err());
            prop_assert!(read(&[&*parts, b"x"].concat()).is_err());
        }

        #[test]
        fn arbitrary_parts_are_read_or_refused(kind in 0_u8..27, rest: Vec<u8>) {
            let mut parts = vec![kind];
            parts.extend(rest);
            let (elements_max, bytes_max) = super::super::elements_max(&parts);
            if let Ok(value) = read(&parts) {
                prop_assert!(value.cardinality() as u64 <= elements_max);
                prop_assert!(value.payload_bytes(usize::MAX) as u64 <= bytes_max + 128 * elements_max);
            }
        }
    }

    #[test]
    fn packed_collections_are_read() {
        let pack = listpack_of(&["a", "1", "b", "2.5"]);
        let list = read(&packed(18, b"")).map(|_| ());
        assert_eq!(list, Err(Malformed));
        let hash = read(&packed(16, &pack)).unwrap();
        assert_eq!((hash.type_name(), hash.cardinality()), ("hash", 2));
        let digits = read(b"\x03\x02\x01a\x032.5\x01b\xff").unwrap();
        let Value::SortedSet(digits) = digits else {
            panic!("not a sorted set");
        };
        assert_eq!([b"a", b"b"].map(|member| digits.score(member)), [Some(2.5), Some(f64::NEG_INFINITY)]);
        assert!(read(b"\x03\x01\x01a\xfd").is_err(), "a score that is no number");
        let sorted = read(&packed(17, &pack)).unwrap();
        assert_eq!(sorted.cardinality(), 2);
        let Value::SortedSet(sorted) = sorted else {
            panic!("not a sorted set");
        };
        assert_eq!(sorted.score(b"b"), Some(2.5));
        let set = read(&packed(20, &pack)).unwrap();
        assert_eq!((set.type_name(), set.cardinality()), ("set", 4));

        let mut quicklist = vec![18, 2, 2];
        put_string(&pack, &mut quicklist);
        quicklist.push(1);
        put_string(b"plain", &mut quicklist);
        let list = read(&quicklist).unwrap();
        assert_eq!((list.type_name(), list.cardinality()), ("list", 5));
        quicklist[2] = 3;
        assert!(read(&quicklist).is_err());
    }

    /// What Redis 7.4 writes, and what its candidates wrote.
    #[test]
    fn hashes_come_with_the_times_of_their_fields() {
        let first = 1000_u64.to_le_bytes();
        let triples = listpack_of(&["a", "1", "1000", "b", "2", "0"]);
        let cases = [
            b"\x16\x02\x43\xe8\x01a\x011\x00\x01b\x012".to_vec(),
            packed(23, &triples),
            [b"\x18", &first[..], b"\x02\x01\x01a\x011\x00\x01b\x012"].concat(),
            [&[25], &first[..], &packed(25, &triples)[1..]].concat(),
        ];
        for parts in &cases {
            let Ok(Value::Hash(hash)) = read(parts) else {
                panic!("{parts:?}");
            };
            let times = [b"a", b"b"].map(|field| hash.find(field).map(|held| held.expire_at_ms));
            assert_eq!(times, [Some(Some(1000)), Some(None)]);
            assert_eq!(written(&Value::Hash(hash)), cases[2]);
        }
        let late = [b"\x18", &(1_u64 << 48).to_le_bytes()[..], b"\x01\x01\x01a\x011"].concat();
        for wrong in [late, packed(23, &listpack_of(&["a", "1"])), packed(23, &listpack_of(&["a", "1", "x"]))] {
            assert_eq!(read(&wrong).map(|_| ()), Err(Malformed), "{wrong:?}");
        }
        let mut plain = Hash::new();
        plain.insert_expiring(b"a", Element::from(b"1"), Some(1));
        plain.set_expire_at_ms(b"a", None);
        assert_eq!(
            written(&Value::Hash(plain))[0],
            4,
            "earlier versions read a hash whose fields do not expire"
        );
    }

    #[test]
    fn what_redis_would_not_write_is_refused() {
        let score = |score: f64| [b"\x05\x01\x01a".as_slice(), &score.to_le_bytes()].concat();
        assert!(read(&score(1.0)).is_ok());
        let cases: [Vec<u8>; 9] = [
            vec![],
            // Nothing is in it.
            vec![2, 0],
            // An element is in it twice.
            b"\x02\x02\x01a\x01a".to_vec(),
            b"\x04\x02\x01a\x01x\x01a\x01y".to_vec(),
            packed(20, &listpack_of(&["a", "a"])),
            // A field without a value, and a member whose score is none.
            packed(16, &listpack_of(&["a"])),
            packed(17, &listpack_of(&["a", "x"])),
            score(f64::NAN),
            // A module.
            vec![7, 0],
        ];
        for parts in cases {
            assert!(read(&parts).is_err(), "{parts:?}");
        }
    }
}
