//! What rooms above keep with a communicator.

use std::any::{Any, TypeId};
use std::sync::OnceLock;

/// A place for one value of a type that the communicator does not know: whoever keeps something there
/// is the only one to ask for it.
#[derive(Default)]
pub struct Attachment(OnceLock<Kept>);

/// A value and its type.
struct Kept {
    /// Of which type `value` is: to ask the value itself takes a call.
    is: TypeId,
    value: Box<dyn Any + Send + Sync>,
}

impl Kept {
    fn new<T: Any + Default + Send + Sync>() -> Kept {
        Kept {
            is: TypeId::of::<T>(),
            value: Box::<T>::default(),
        }
    }
}

impl Attachment {
    /// The value, made when it is first asked for.
    ///
    /// # Panics
    /// Somebody keeps a value of another type there.
    #[inline]
    pub fn get<T: Any + Default + Send + Sync>(&self) -> &T {
        self.0.get_or_init(Kept::new::<T>);
        match self.made() {
            Some(value) => value,
            None => unreachable!("two rooms share an attachment"),
        }
    }

    /// The value, if it has been made, and is of this type.
    #[inline(always)]
    pub fn made<T: Any + Send + Sync>(&self) -> Option<&T> {
        let kept = self.0.get()?;
        let is_it = kept.is == TypeId::of::<T>();
        // SAFETY: the value is of the type that was noted with it, which is this one.
        is_it.then(|| unsafe { &*(&raw const *kept.value).cast::<T>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_made_once_and_stays() {
        let place = Attachment::default();
        assert!(place.made::<std::sync::Mutex<i32>>().is_none());
        place
            .get::<std::sync::Mutex<i32>>()
            .lock()
            .unwrap()
            .clone_from(&7);
        assert_eq!(*place.get::<std::sync::Mutex<i32>>().lock().unwrap(), 7);
        let made = place.made::<std::sync::Mutex<i32>>();
        assert_eq!(*made.unwrap().lock().unwrap(), 7);
        assert!(place.made::<std::sync::Mutex<u32>>().is_none());
    }
}
