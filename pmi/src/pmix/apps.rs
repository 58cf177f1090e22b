//! Arguments of `PMIx_Spawn`: programs with their arguments, variables and Info keys.

use std::ffi::{CString, OsString, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;

use super::ffi::{App, Info};
use super::{c_string, info, string};
use crate::spawn::Command;
use crate::{PmiError, Spawn};

/// Info keys with their PMIx attributes (PMIx standard 4.1, section 11.2.3). Attributes of a
/// program, such as the host, and of the job, such as the mapping, are both taken from the Info of
/// the program.
const KEYS: &[(&str, &str)] = &[
    ("host", "pmix.host"),
    ("hosts", "pmix.host"),
    ("hostfile", "pmix.hostfile"),
    ("add-host", "pmix.addhost"),
    ("add-hostfile", "pmix.addhostfile"),
    ("map_by", "pmix.mapby"),
    ("bind_to", "pmix.bindto"),
];

/// Returns the environment variable that carries a key of [`Spawn::preput`]: servers keep no values
/// for jobs to come.
pub fn variable(key: &str) -> String {
    format!("WEFT_PREPUT_{}", key.replace('-', "_").to_uppercase())
}

/// Strings, and a null-terminated list of their addresses.
struct Strings {
    _texts: Vec<CString>,
    list: Vec<*mut c_char>,
}

impl Strings {
    fn new(texts: Vec<CString>) -> Strings {
        let list = texts.iter().map(|text| text.as_ptr().cast_mut());
        let list = list.chain([ptr::null_mut()]).collect();
        Strings {
            _texts: texts,
            list,
        }
    }
}

struct One {
    program: CString,
    args: Strings,
    cwd: CString,
    count: i32,
    /// Memory that `info` points to.
    _values: Vec<CString>,
    info: Vec<Info>,
}

/// A job's programs in the library's format.
pub struct Apps {
    all: Vec<One>,
    variables: Strings,
}

impl Apps {
    pub fn new(spawn: &Spawn) -> Result<Apps, PmiError> {
        let all = spawn.commands.iter().map(one).collect::<Result<_, _>>()?;
        let mut variables = Vec::new();
        for (name, value) in std::env::vars_os() {
            let mut line = name.into_vec();
            if line.starts_with(b"WEFT_PREPUT_") || is_of_a_launcher(&line) {
                continue;
            }
            line.push(b'=');
            line.extend(OsString::into_vec(value));
            variables.extend(CString::new(line));
        }
        for (key, value) in &spawn.preput {
            variables.push(c_string(format!("{}={value}", variable(key)))?);
        }
        Ok(Apps {
            all,
            variables: Strings::new(variables),
        })
    }

    /// Returns the library's list, valid as long as `self` lives.
    pub fn list(&mut self) -> Vec<App> {
        let env = self.variables.list.as_mut_ptr();
        let app = |one: &mut One| App {
            program: one.program.as_ptr().cast_mut(),
            argv: one.args.list.as_mut_ptr(),
            env,
            cwd: one.cwd.as_ptr().cast_mut(),
            count: one.count,
            info: match one.info.is_empty() {
                true => ptr::null_mut(),
                false => one.info.as_mut_ptr(),
            },
            infos: one.info.len(),
        };
        self.all.iter_mut().map(app).collect()
    }
}

fn one(command: &Command) -> Result<One, PmiError> {
    let program = command.locate().map_err(PmiError::Unfit)?;
    let program = c_string(program.as_bytes())?;
    let mut args = vec![program.clone()];
    for arg in &command.args {
        args.push(c_string(arg.as_bytes())?);
    }
    let here = std::env::current_dir().unwrap_or_default();
    let wdir = command.info("wdir").or_else(|| command.info("wd"));
    let cwd = here.join(wdir.unwrap_or_default()).into_os_string();
    let mut keys = Vec::new();
    for (key, attribute) in KEYS {
        if let Some(value) = command.info(key) {
            keys.push((c_string(*attribute)?, c_string(value.as_bytes())?));
        }
    }
    let entries = keys.iter().map(|(key, value)| info(key, string(value)));
    let entries = entries.collect();
    Ok(One {
        program,
        args: Strings::new(args),
        cwd: c_string(cwd.into_vec())?,
        count: i32::try_from(command.count).unwrap_or(i32::MAX),
        info: entries,
        _values: keys.into_iter().map(|(_, value)| value).collect(),
    })
}

/// Returns whether a variable describes the job that this process is part of.
fn is_of_a_launcher(name: &[u8]) -> bool {
    let heads: [&[u8]; 4] = [b"PMIX_", b"PMI_", b"OMPI_", b"PRTE_"];
    heads.iter().any(|head| name.starts_with(head))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn programs_have_their_arguments_variables_and_attributes() {
        let spawn = Spawn {
            commands: vec![Command {
                program: "a".into(),
                args: vec![OsString::from_vec(b"b c\xff\n".to_vec())],
                count: 3,
                info: vec![("host".into(), "h:2".into()), ("other".into(), "x".into())],
            }],
            preput: vec![("some-key".into(), "v".into())],
        };
        let mut apps = Apps::new(&spawn).unwrap();
        let list = apps.list();
        let texts = |mut at: *mut *mut c_char| {
            let mut all = Vec::new();
            // SAFETY: `at` is a null-terminated list.
            unsafe {
                while !at.read().is_null() {
                    all.push(CStr::from_ptr(at.read()).to_bytes().to_vec());
                    at = at.add(1);
                }
            }
            all
        };
        assert_eq!((list.len(), list[0].count, list[0].infos), (1, 3, 1));
        assert_eq!(texts(list[0].argv), [&b"a"[..], b"b c\xff\n"]);
        assert!(texts(list[0].env).contains(&b"WEFT_PREPUT_SOME_KEY=v".to_vec()));
        // SAFETY: the list has one entry, whose value is a string.
        let value = unsafe { CStr::from_ptr((*list[0].info).value.data.string) };
        assert_eq!(value, c"h:2");
    }
}
