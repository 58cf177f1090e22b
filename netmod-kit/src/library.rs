//! Opens C libraries at run time, so that they are needed only where they are used.

use std::ffi::{CStr, CString, c_char, c_void};

use netmod::OpenError;

/// Advice to the user when a library cannot be used.
#[derive(Clone, Copy, Debug)]
pub struct Advice {
    /// Remedy for a missing library: "install … or set … to its path".
    pub missing: &'static str,
    /// Remedy for a missing function: "it is too old or not …; install …".
    pub unsuitable: &'static str,
}

/// An open library. It stays open until the process ends: network libraries start threads and leave
/// handlers behind, so that unloading them is not safe.
#[derive(Debug)]
pub struct Library<'a> {
    handle: *mut c_void,
    name: &'a str,
    advice: Advice,
}

impl<'a> Library<'a> {
    /// Opens the library `name`: a file name for the loader's search path, or a path.
    ///
    /// # Errors
    /// It cannot be opened; the text has the loader's reason and the advice.
    pub fn open(name: &'a str, advice: Advice) -> Result<Self, OpenError> {
        let c_name = CString::new(name).map_err(|_| {
            OpenError(format!(
                "the library name {name:?} contains a zero byte; set a proper path"
            ))
        })?;
        // SAFETY: loading runs the library's initializers, as the user asked for by choosing it;
        // the name is a valid C string.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(OpenError(format!(
                "cannot open {name} ({}): {}",
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

    /// Looks up a function, of `version` if one is given and the C library is glibc, otherwise of the
    /// default version, which a program that is linked today gets.
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
        // SAFETY: the handle is never closed, and the names are C strings.
        let found = unsafe {
            match &version_name {
                #[cfg(target_env = "gnu")]
                Some(version) => libc::dlvsym(self.handle, c_name.as_ptr(), version.as_ptr()),
                _ => libc::dlsym(self.handle, c_name.as_ptr()),
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
        // SAFETY: `F` is the function's pointer type by the caller's contract, its size is asserted
        // above, and `found` is not null.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
    }
}

/// Sets an environment variable that a library reads when it is loaded, unless the user has set it.
/// Must be called when transports are opened, before the library's threads exist.
pub fn set_default(variable: &CStr, value: &CStr) {
    // SAFETY: both are C strings; this is called while transports are opened, before the library's
    // threads exist (the function's documented contract).
    unsafe { libc::setenv(variable.as_ptr(), value.as_ptr(), 0) };
}

/// Returns a C string as text; empty if null.
///
/// # Safety
/// `string` is null or a valid C string.
pub unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a valid C string by the caller's contract.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}

fn dl_error() -> String {
    // SAFETY: `dlerror` returns null or a string that is valid until the next dl call of this
    // thread.
    unsafe { text(libc::dlerror()) }
}

/// Defines a structure of a library's functions, and its function `load`, which looks them all up.
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
                // SAFETY: the caller of `load` promised that the types match the names and
                // versions.
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
