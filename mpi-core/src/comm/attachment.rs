//! State that other modules keep with a communicator.

use std::any::{Any, TypeId};
use std::sync::OnceLock;

/// A slot for one value of a type that the communicator does not know. Each slot belongs to one
/// module, which alone reads it.
#[derive(Default)]
pub struct Attachment(OnceLock<TypedValue>);

/// A value with its type.
struct TypedValue {
    /// Type of `value`. Cheaper than a call of `Any::type_id`.
    type_id: TypeId,
    value: Box<dyn Any + Send + Sync>,
}

impl TypedValue {
    fn new<T: Any + Default + Send + Sync>() -> TypedValue {
        TypedValue {
            type_id: TypeId::of::<T>(),
            value: Box::<T>::default(),
        }
    }
}

impl Attachment {
    /// Returns the value; the first call creates it.
    ///
    /// # Panics
    /// If the slot holds a value of another type.
    #[inline]
    pub fn get<T: Any + Default + Send + Sync>(&self) -> &T {
        self.0.get_or_init(TypedValue::new::<T>);
        match self.made() {
            Some(value) => value,
            None => unreachable!("internal error: two modules share an attachment"),
        }
    }

    /// Returns the value, if it exists and has this type.
    #[inline(always)]
    pub fn made<T: Any + Send + Sync>(&self) -> Option<&T> {
        let kept = self.0.get()?;
        let is_it = kept.type_id == TypeId::of::<T>();
        // SAFETY: `new` stored the `TypeId` of the boxed value, and nothing replaces either; it
        // equals `T`'s.
        is_it.then(|| unsafe { &*(&raw const *kept.value).cast::<T>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_created_once() {
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
