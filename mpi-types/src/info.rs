//! Info objects (MPI-3.1 chapter 9): ordered pairs of strings.

use parking_lot::Mutex;

use crate::{Class, Error, Result};

/// The most bytes in a key (`MPI_MAX_INFO_KEY`), without a terminating zero.
pub const MAX_KEY: usize = 255;
/// The most bytes in a value (`MPI_MAX_INFO_VAL`), without a terminating zero.
pub const MAX_VALUE: usize = 1024;

/// A key and its value.
pub type Entry = (Box<[u8]>, Box<[u8]>);

/// An info object; [`Info::dup`] makes an independent copy.
///
/// Strings are bytes, as the program gave them. Code that takes hints from an object reads them all
/// in the call that it was passed to; later changes do not matter.
#[derive(Default)]
pub struct Info(Mutex<Vec<Pair>>);

/// A key, and its value behind it.
#[derive(Clone)]
struct Pair {
    text: Box<[u8]>,
    /// The length of the key.
    key: usize,
}

impl Pair {
    fn new(key: &[u8], value: &[u8]) -> Pair {
        Pair {
            text: [key, value].concat().into(),
            key: key.len(),
        }
    }

    fn key(&self) -> &[u8] {
        &self.text[..self.key]
    }

    fn value(&self) -> &[u8] {
        &self.text[self.key..]
    }

    fn has_key(&self, key: &[u8]) -> bool {
        self.key() == key
    }
}

/// The values of `MPI_INFO_ENV`, which describe the start of the program (MPI-5.0 11.2.1).
///
/// `None` leaves a key out.
#[derive(Clone, Default, Debug)]
#[allow(missing_docs, reason = "the names are the standard's keys")]
pub struct Environment {
    pub command: Option<Vec<u8>>,
    /// The arguments, which are joined by spaces.
    pub argv: Vec<Vec<u8>>,
    pub maxprocs: Option<u32>,
    pub mpi_initial_errhandler: Option<&'static str>,
    pub mpi_memory_alloc_kinds: Option<&'static str>,
    pub soft: Option<Vec<u8>>,
    pub host: Option<Vec<u8>>,
    pub arch: Option<Vec<u8>>,
    pub wdir: Option<Vec<u8>>,
    pub file: Option<Vec<u8>>,
    /// The name of the constant, such as `MPI_THREAD_MULTIPLE`.
    pub thread_level: Option<&'static str>,
}

/// Clones are independent copies.
impl Clone for Info {
    fn clone(&self) -> Info {
        self.dup()
    }
}

impl Info {
    /// An empty object (`MPI_Info_create`).
    pub fn new() -> Info {
        Info::default()
    }

    /// The contents of `MPI_INFO_ENV`. Values longer than [`MAX_VALUE`] are cut.
    pub fn environment(environment: &Environment) -> Info {
        let env = environment;
        let argv = (!env.argv.is_empty()).then(|| env.argv.join(&b' '));
        let maxprocs = env.maxprocs.map(|n| n.to_string().into_bytes());
        let name = |name: &str| name.as_bytes().to_vec();
        let pairs = [
            ("command", env.command.clone()),
            ("argv", argv),
            ("maxprocs", maxprocs),
            (
                "mpi_initial_errhandler",
                env.mpi_initial_errhandler.map(name),
            ),
            (
                "mpi_memory_alloc_kinds",
                env.mpi_memory_alloc_kinds.map(name),
            ),
            ("soft", env.soft.clone()),
            ("host", env.host.clone()),
            ("arch", env.arch.clone()),
            ("wdir", env.wdir.clone()),
            ("file", env.file.clone()),
            ("thread_level", env.thread_level.map(name)),
        ];
        let entries = pairs.into_iter().filter_map(|(key, value)| {
            let mut value = value?;
            value.truncate(MAX_VALUE);
            Some(Pair::new(key.as_bytes(), &value))
        });
        Info(Mutex::new(entries.collect()))
    }

    /// Sets a key, in its place if it is there, else at the end (`MPI_Info_set`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_INFO_KEY` if the key is empty or longer than [`MAX_KEY`]; `MPI_ERR_INFO_VALUE` if
    /// the value is longer than [`MAX_VALUE`].
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = check_key(key.as_ref())?;
        let value = value.as_ref();
        if value.len() > MAX_VALUE {
            return Err(Error::new(
                Class::InfoValue,
                format!(
                    "the value of key \"{}\" has {} characters; at most {MAX_VALUE} are possible",
                    key.escape_ascii(),
                    value.len()
                ),
            ));
        }
        let mut entries = self.0.lock();
        match entries.iter_mut().find(|entry| entry.has_key(key)) {
            Some(entry) => *entry = Pair::new(key, value),
            None => entries.push(Pair::new(key, value)),
        }
        Ok(())
    }

    /// The value of a key, if it is set (`MPI_Info_get`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_INFO_KEY` as for [`Info::set`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = check_key(key.as_ref())?;
        Ok(self.with(key, |value| value.to_vec()))
    }

    /// Reads the value of a key, if it is set.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_INFO_KEY` as for [`Info::set`].
    pub fn read<T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let key = check_key(key.as_ref())?;
        Ok(self.with(key, read))
    }

    /// The value of a hint, if it is set and text.
    pub fn hint(&self, key: &str) -> Option<String> {
        let value = self.with(key.as_bytes(), |value| value.to_vec())?;
        String::from_utf8(value).ok()
    }

    /// The length of a key's value, if it is set (`MPI_Info_get_valuelen`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_INFO_KEY` as for [`Info::set`].
    pub fn valuelen(&self, key: impl AsRef<[u8]>) -> Result<Option<usize>> {
        let key = check_key(key.as_ref())?;
        Ok(self.with(key, |value| value.len()))
    }

    /// Removes a key (`MPI_Info_delete`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_INFO_NOKEY` if it is not set; `MPI_ERR_INFO_KEY` as for [`Info::set`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = check_key(key.as_ref())?;
        let mut entries = self.0.lock();
        let Some(at) = entries.iter().position(|entry| entry.has_key(key)) else {
            return Err(Error::new(
                Class::InfoNokey,
                format!(
                    "key \"{}\" is not in the info object, which has {} keys; \
                     MPI_Info_get reports whether a key is set",
                    key.escape_ascii(),
                    entries.len()
                ),
            ));
        };
        entries.remove(at);
        Ok(())
    }

    /// The number of keys (`MPI_Info_get_nkeys`).
    pub fn nkeys(&self) -> usize {
        self.0.lock().len()
    }

    /// Key number `n`, from 0, in the order in which they were set (`MPI_Info_get_nthkey`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_ARG` if `n` is not less than the number of keys.
    pub fn nthkey(&self, n: i32) -> Result<Vec<u8>> {
        let entries = self.0.lock();
        let entry = usize::try_from(n).ok().and_then(|n| entries.get(n));
        entry.map(|entry| entry.key().to_vec()).ok_or_else(|| {
            Error::new(
                Class::Arg,
                format!(
                    "n is {n}; it must be 0 or more and less than the number of keys, {}",
                    entries.len()
                ),
            )
        })
    }

    /// A new object with the same pairs in the same order (`MPI_Info_dup`).
    pub fn dup(&self) -> Info {
        Info(Mutex::new(self.0.lock().clone()))
    }

    /// All pairs as they are now, in their order.
    pub fn pairs(&self) -> Vec<Entry> {
        let entry = |pair: &Pair| (pair.key().into(), pair.value().into());
        self.0.lock().iter().map(entry).collect()
    }

    fn with<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let entries = self.0.lock();
        let entry = entries.iter().find(|entry| entry.has_key(key))?;
        Some(read(entry.value()))
    }
}

fn check_key(key: &[u8]) -> Result<&[u8]> {
    match key.len() {
        0 => Err(Error::new(
            Class::InfoKey,
            "the key is empty; it must have at least one character",
        )),
        1..=MAX_KEY => Ok(key),
        len => Err(Error::new(
            Class::InfoKey,
            format!("the key has {len} characters; at most {MAX_KEY} are possible"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_and_replaces_in_place() {
        let info = Info::new();
        for (key, value) in [("b", "1"), ("a", "2"), ("c", ""), ("a", "three")] {
            info.set(key, value).unwrap();
        }
        let keys: Vec<_> = (0..3).map(|n| info.nthkey(n).unwrap()).collect();
        assert_eq!(keys, [b"b", b"a", b"c"]);
        assert_eq!(info.get("a").unwrap().unwrap(), b"three");
        assert_eq!(info.valuelen("c").unwrap(), Some(0));
        assert_eq!(info.valuelen("d").unwrap(), None);
        let other = info.dup();
        info.delete("b").unwrap();
        assert_eq!((info.nkeys(), other.nkeys()), (2, 3));
        assert_eq!(info.nthkey(0).unwrap(), b"a");
        info.set("z", [0xff]).unwrap();
        assert_eq!(info.get("z").unwrap().unwrap(), [0xff]);
        assert_eq!(
            (info.hint("z"), info.hint("a").as_deref()),
            (None, Some("three"))
        );
    }

    #[test]
    fn limits_and_errors() {
        let info = Info::new();
        let (key, value) = ("k".repeat(MAX_KEY), "v".repeat(MAX_VALUE));
        info.set(&key, &value).unwrap();
        assert_eq!(info.get(&key).unwrap().unwrap().len(), MAX_VALUE);
        let class = |result: Result<()>| result.unwrap_err().class();
        assert_eq!(class(info.set("k".repeat(MAX_KEY + 1), "")), Class::InfoKey);
        assert_eq!(class(info.set("", "")), Class::InfoKey);
        assert_eq!(
            class(info.set("k", "v".repeat(MAX_VALUE + 1))),
            Class::InfoValue
        );
        assert_eq!(class(info.delete("k")), Class::InfoNokey);
        assert_eq!(info.get("").unwrap_err().class(), Class::InfoKey);
        assert_eq!(info.nthkey(1).unwrap_err().class(), Class::Arg);
        assert_eq!(info.nthkey(-1).unwrap_err().class(), Class::Arg);
    }

    #[test]
    fn environment_has_the_keys_that_are_known() {
        let info = Info::environment(&Environment {
            command: Some(b"./a.out".into()),
            argv: vec![b"-n".into(), b"5".into()],
            maxprocs: Some(16),
            wdir: Some(vec![b'/'; 2000]),
            thread_level: Some("MPI_THREAD_MULTIPLE"),
            ..Environment::default()
        });
        assert_eq!(info.nkeys(), 5);
        assert_eq!(info.hint("argv").unwrap(), "-n 5");
        assert_eq!(info.hint("maxprocs").unwrap(), "16");
        assert_eq!(info.valuelen("wdir").unwrap(), Some(MAX_VALUE));
    }
}
