//! Error codes (sections 8.4 and 8.5).
//!
//! A code has its error class in the low 7 bits, and above bit 8 the number of this error's text,
//! which is kept for the last [`KEPT`] errors; the class stays valid. Classes and codes that the
//! program adds come after all of these.
//!
//! In Open MPI's ABI codes are classes: below its `MPI_ERR_LASTCODE` there is no space for numbers,
//! and programs compare codes with classes. The text of a class is that of its last error.

use std::ffi::c_int;

use crate::abi::{MPI_ERR_IN_STATUS, MPI_ERR_LASTCODE, MPI_ERR_PENDING, MPI_SUCCESS};
use crate::class_texts::text;
use crate::library::{Added, LIBRARY, Recent};

/// Number of errors whose texts are kept.
pub const KEPT: usize = 1024;

/// Whether codes are classes.
const CODES_ARE_CLASSES: bool = cfg!(openmpi_abi);

const CLASS_BITS: u32 = 7;
const NUMBER_SHIFT: u32 = 8;
/// Numbers that keep codes up to `MPI_ERR_LASTCODE`.
const NUMBERS: u32 = (MPI_ERR_LASTCODE as u32 >> NUMBER_SHIFT) + 1;

impl Recent {
    fn number(&mut self) -> u32 {
        let number = self.next;
        self.next += 1;
        if self.next == NUMBERS {
            (self.next, self.all) = (1, true);
        }
        number
    }

    fn was_given(&self, number: u32) -> bool {
        self.all || number < self.next
    }
}

const FIRST_ADDED: c_int = MPI_ERR_LASTCODE + 1;

/// Returns a code for an error, and keeps its text.
///
/// `MPI_ERR_IN_STATUS` and `MPI_ERR_PENDING`, which programs compare with codes and whose details
/// are in statuses, are returned unchanged, and so are classes and codes that the program added.
pub fn remember(class: c_int, text: impl FnOnce() -> String) -> c_int {
    let plain = [MPI_SUCCESS, MPI_ERR_IN_STATUS, MPI_ERR_PENDING].contains(&class);
    if plain || !(0..1 << CLASS_BITS).contains(&class) {
        return class;
    }
    let text = text();
    let mut recent = LIBRARY.recent_errors.lock();
    let number = if CODES_ARE_CLASSES {
        class as u32
    } else {
        recent.number()
    };
    let place = number as usize % KEPT;
    if recent.texts.len() <= place {
        recent.texts.resize_with(place + 1, || (0, String::new()));
    }
    recent.texts[place] = (number, text);
    if CODES_ARE_CLASSES {
        return class;
    }
    class | (number << NUMBER_SHIFT) as c_int
}

/// Returns the class of a code; `None` if it is no code.
pub fn class_of(code: c_int) -> Option<c_int> {
    if code >= FIRST_ADDED {
        return of_added(code, |added| added.class);
    }
    // Classes of the tool information interface do not have this form in the standard ABI.
    if code < 0 || code & 1 << CLASS_BITS != 0 {
        return text(code).map(|_| code);
    }
    let class = code & ((1 << CLASS_BITS) - 1);
    let number = code as u32 >> NUMBER_SHIFT;
    let given =
        number == 0 || class != MPI_SUCCESS && LIBRARY.recent_errors.lock().was_given(number);
    (text(class).is_some() && given).then_some(class)
}

/// Returns the text of a code: the error's if it is kept, otherwise the class's.
pub fn text_of(code: c_int) -> Option<String> {
    if code >= FIRST_ADDED {
        return of_added(code, |added| added.text.clone());
    }
    let class = class_of(code)?;
    let number = match CODES_ARE_CLASSES {
        true => class as u32,
        false => code as u32 >> NUMBER_SHIFT,
    };
    let recent = LIBRARY.recent_errors.lock();
    match recent.texts.get(number as usize % KEPT) {
        Some((of, text)) if *of == number && number != 0 => Some(text.clone()),
        _ => text(class).map(str::to_owned),
    }
}

/// Passes the program's class or code to `look`; `None` if it does not exist or was removed.
fn of_added<T>(code: c_int, look: impl FnOnce(&mut Added) -> T) -> Option<T> {
    let index = usize::try_from(code.checked_sub(FIRST_ADDED)?).ok()?;
    let mut added = LIBRARY.added_codes.lock();
    added.get_mut(index)?.as_mut().map(look)
}

/// Adds a class.
pub fn add_class() -> c_int {
    let mut added = LIBRARY.added_codes.lock();
    let class = FIRST_ADDED + added.len() as c_int;
    added.push(Some(Added {
        class,
        text: String::new(),
    }));
    class
}

/// Adds a code to a class; `None` if the class does not exist.
pub fn add_code(class: c_int) -> Option<c_int> {
    // A code that the program added is no class.
    if class_of(class) != Some(class) {
        return None;
    }
    let mut added = LIBRARY.added_codes.lock();
    let code = FIRST_ADDED + added.len() as c_int;
    added.push(Some(Added {
        class,
        text: String::new(),
    }));
    Some(code)
}

/// Sets the text of a class or code that the program added. Returns false for others.
pub fn set_text(code: c_int, text: String) -> bool {
    of_added(code, |added| added.text = text).is_some()
}

/// The result of removing a class or code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// It was removed.
    Done,
    /// The program has not added it, or has removed it already.
    Unknown,
    /// Codes belong to the class, or the code has a string.
    InUse,
}

/// Removes a class that the program added.
pub fn remove_class(class: c_int) -> Removal {
    if of_added(class, |added| added.class) != Some(class) {
        return Removal::Unknown;
    }
    let mut added = LIBRARY.added_codes.lock();
    let members = added.iter().flatten().filter(|one| one.class == class);
    if members.count() > 1 {
        return Removal::InUse;
    }
    remove(&mut added, class);
    Removal::Done
}

/// Removes a code that the program added, unless it has a string.
pub fn remove_code(code: c_int) -> Removal {
    match of_added(code, |added| (added.class, added.text.is_empty())) {
        Some((class, true)) if class != code => {
            remove(&mut LIBRARY.added_codes.lock(), code);
            Removal::Done
        }
        Some((class, false)) if class != code => Removal::InUse,
        _ => Removal::Unknown,
    }
}

/// Removes the text of a class or code that the program added, if it has one.
pub fn remove_text(code: c_int) -> Removal {
    match of_added(code, |added| std::mem::take(&mut added.text)) {
        Some(text) if !text.is_empty() => Removal::Done,
        _ => Removal::Unknown,
    }
}

fn remove(added: &mut Vec<Option<Added>>, code: c_int) {
    if let Some(place) = added.get_mut((code - FIRST_ADDED) as usize) {
        *place = None;
    }
    while added.last().is_some_and(Option::is_none) {
        added.pop();
    }
}

/// Returns the greatest class or code in use (`MPI_LASTUSEDCODE`).
pub fn last_used() -> c_int {
    MPI_ERR_LASTCODE + LIBRARY.added_codes.lock().len() as c_int
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{MPI_ERR_COUNT, MPI_ERR_TAG};

    #[test]
    fn codes_have_their_class_and_for_some_time_their_text() {
        let old = remember(MPI_ERR_COUNT, || "the first".to_owned());
        assert_ne!(old, MPI_ERR_COUNT);
        assert_eq!(class_of(old), Some(MPI_ERR_COUNT));
        assert_eq!(text_of(old).as_deref(), Some("the first"));
        for i in 0..2 * KEPT {
            let code = remember(MPI_ERR_TAG, || i.to_string());
            assert!(code <= MPI_ERR_LASTCODE);
            assert_eq!(class_of(code), Some(MPI_ERR_TAG));
        }
        assert_eq!(class_of(old), Some(MPI_ERR_COUNT));
        assert_eq!(text_of(old).as_deref(), text(MPI_ERR_COUNT));
        assert_eq!(remember(MPI_ERR_PENDING, String::new), MPI_ERR_PENDING);
        let (never, success) = (MPI_ERR_LASTCODE - 127 + MPI_ERR_TAG, 1 << NUMBER_SHIFT);
        for wrong in [-1, 127, 1 << CLASS_BITS, success, never, c_int::MAX] {
            assert_eq!(
                (class_of(wrong), text_of(wrong)),
                (None, None),
                "{wrong:#x}"
            );
        }
    }

    #[test]
    fn added_codes_come_after_all_others() {
        let class = add_class();
        let code = add_code(class).unwrap();
        let of_ours = add_code(MPI_ERR_TAG).unwrap();
        assert!(class > MPI_ERR_LASTCODE && code > class && of_ours > code);
        assert!(last_used() >= of_ours);
        assert_eq!(class_of(code), Some(class));
        assert_eq!(class_of(of_ours), Some(MPI_ERR_TAG));
        assert_eq!(text_of(code).as_deref(), Some(""));
        assert!(set_text(code, "mine".to_owned()));
        assert_eq!(text_of(code).as_deref(), Some("mine"));
        assert!(!set_text(MPI_ERR_TAG, String::new()) && !set_text(-5, String::new()));
        assert_eq!(add_code(code), None, "a code is no class");
        assert_eq!(add_code(c_int::MAX), None);
        assert_eq!(remember(class, String::new), class);
    }
}
