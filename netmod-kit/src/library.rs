//! Opening C libraries at run time, so that nothing is needed where they are not used.

use std::ffi::{CStr, CString, c_char, c_void};

use netmod::OpenError;

/// What the user is told when a library can't be used.
#[derive(Clone, Copy, Debug)]
pub struct Advice {
    /// What to do when there is none: "install … or set … to its path".
    pub missing: &'static str,
    /// What to do when a function is missing from it: "it is too old or not …; install …".
    pub unsuitable: &'static str,
}

/// An open library. It stays open until the process ends: libraries for networks start threads and
/// leave handlers behind, so that unloading them is not safe.
#[derive(Debug)]
pub struct Library<'a> {
    handle: *mut c_void,
    name: &'a str,
    advice: Advice,
}

impl<'a> Library<'a> {
    /// Opens the library `name` (a file name for the loader's search path, or a path).
    ///
    /// # Errors
    /// It can't be opened; the text has the loader's reason and the advice.
    pub fn open(name: &'a str, advice: Advice) -> Result<Self, OpenError> {
        let c_name = CString::new(name).map_err(|_| {
            OpenError(format!(
                "the library name {name:?} holds a zero byte; set a proper path"
            ))
        })?;
        // SAFETY: loading runs the library's initializers, which is what the user asked for by
        // choosing it; the name is a valid C string.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(OpenError(format!(
                "{name} could not be opened ({}): {}",
                dl_error(),
                advice.missing
            )));
        }
        Ok(Library {
            handle,
            name,
            advice,
        })
    }

    /// A function of the library, of a version if one is given, otherwise of the default one, which
    /// is what a program that is linked today gets.
    ///
    /// # Errors
    /// The library has no such function.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function of that name and version.
    pub unsafe fn symbol<F: Copy>(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<F, OpenError> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let c_name = CString::new(name).unwrap_or_default();
        let version_name = version.map(|version| CString::new(version).unwrap_or_default());
        // SAFETY: the handle is open, the names are C strings.
        let found = unsafe {
            match &version_name {
                Some(version) => libc::dlvsym(self.handle, c_name.as_ptr(), version.as_ptr()),
                None => libc::dlsym(self.handle, c_name.as_ptr()),
            }
        };
        if found.is_null() {
            let version = version.map_or(String::new(), |version| format!(" of version {version}"));
            return Err(OpenError(format!(
                "{} has no {name}{version} ({}): {}",
                self.name,
                dl_error(),
                self.advice.unsuitable
            )));
        }
        // SAFETY: `F` is a function pointer type of pointer size by the contract, `found` not null.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
    }
}

/// Sets a variable of the environment that a library reads when it is loaded, unless the user has set
/// it. To be called when transports are opened, before there are other threads of the library's.
pub fn set_default(variable: &CStr, value: &CStr) {
    // SAFETY: C strings; the environment is the process's own, and this is done once, when transports
    // are opened.
    unsafe { libc::setenv(variable.as_ptr(), value.as_ptr(), 0) };
}

/// A C string as text; empty if null.
///
/// # Safety
/// `string` is null or a valid C string.
pub unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not null, so valid by the contract.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}

fn dl_error() -> String {
    // SAFETY: dlerror returns null or a string that is valid until the next dl call of this thread.
    unsafe { text(libc::dlerror()) }
}

/// Makes a structure of a library's functions, and its function `load`, which looks them all up.
///
/// ```
/// netmod_kit::symbols! {
///     /// Functions of the C library.
///     struct Functions, "str" {
///         /// `strlen`.
///         len: fn(*const std::ffi::c_char) -> usize;
///         dup @ "GLIBC_2.2.5": fn(*const std::ffi::c_char) -> *mut std::ffi::c_char;
///     }
/// }
/// use netmod_kit::library::{Advice, Library};
/// let advice = Advice { missing: "install it", unsuitable: "it is too old" };
/// let library = Library::open("libc.so.6", advice).unwrap();
/// // SAFETY: the types are those of the functions.
/// let functions = unsafe { Functions::load(&library) }.unwrap();
/// assert_eq!(unsafe { (functions.len)(c"four".as_ptr()) }, 4);
/// ```
#[macro_export]
macro_rules! symbols {
    ($(#[$meta:meta])* $vis:vis struct $name:ident, $prefix:literal {
        $($(#[$field_meta:meta])* $field:ident $(@ $version:literal)? :
            fn($($arg:ty),* $(,)?) $(-> $result:ty)?;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        $vis struct $name {
            $($(#[$field_meta])* $vis $field: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl $name {
            /// Looks all functions up.
            ///
            /// # Safety
            /// The types are those of the functions under these names and versions.
            $vis unsafe fn load(
                library: &$crate::library::Library,
            ) -> Result<Self, $crate::library::SymbolError> {
                // SAFETY: passed on.
                unsafe {
                    Ok($name {
                        $($field: library.symbol(
                            concat!($prefix, stringify!($field)),
                            $crate::symbols!(@ $($version)?),
                        )?,)*
                    })
                }
            }
        }
    };
    (@) => { None };
    (@ $version:literal) => { Some($version) };
}

#[doc(hidden)]
pub use netmod::OpenError as SymbolError;
