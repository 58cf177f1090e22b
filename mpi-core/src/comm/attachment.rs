//! What rooms above keep with a communicator.

use std::any::Any;
use std::sync::OnceLock;

/// A place for one value of a type that the communicator does not know: whoever keeps something there
/// is the only one to ask for it.
#[derive(Default)]
pub struct Attachment(OnceLock<Box<dyn Any + Send + Sync>>);

impl Attachment {
    /// The value, made when it is first asked for.
    ///
    /// # Panics
    /// Somebody keeps a value of another type there.
    #[inline]
    pub fn get<T: Any + Default + Send + Sync>(&self) -> &T {
        let value = self.0.get_or_init(|| Box::<T>::default());
        match value.downcast_ref() {
            Some(value) => value,
            None => unreachable!("two rooms share an attachment"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_made_once_and_stays() {
        let place = Attachment::default();
        place
            .get::<std::sync::Mutex<i32>>()
            .lock()
            .unwrap()
            .clone_from(&7);
        assert_eq!(*place.get::<std::sync::Mutex<i32>>().lock().unwrap(), 7);
    }
}
