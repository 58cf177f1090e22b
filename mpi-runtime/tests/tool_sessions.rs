//! Sessions of performance variables from the first user of the interface to the last.

use mpi_runtime::tool::Error;
use mpi_runtime::tool::Select;
use mpi_runtime::tool::finalize;
use mpi_runtime::tool::init;
use mpi_runtime::tool::pvars::{Class, VARIABLES, Variable};
use mpi_runtime::tool::tool;

fn of_class(class: Class) -> &'static Variable {
    let mut all = VARIABLES.iter();
    all.find(|variable| variable.class == class).unwrap()
}

#[test]
fn handles_are_of_their_session_and_go_with_it() {
    assert_eq!(tool().err(), Some(Error::NotInitialized));
    assert_eq!(init(false), Ok(false));
    let mut now = tool().unwrap();
    let (session, other) = (now.add_session(), now.add_session());
    let level = now.add_pvar(session, of_class(Class::Level)).unwrap();
    let counter = now.add_pvar(session, of_class(Class::Counter)).unwrap();
    let one = Select::One(level);
    assert_eq!(now.start(session, one), Err(Error::PvarNoStartstop));
    assert_eq!(now.stop(session, one), Err(Error::PvarNoStartstop));
    assert_eq!(now.reset(session, one), Err(Error::PvarNoWrite));
    assert_eq!(now.write(session, level, 1), Err(Error::PvarNoWrite));
    assert_eq!(now.read_reset(session, level), Err(Error::PvarNoAtomic));
    assert_eq!(now.read(other, counter), Err(Error::InvalidHandle));
    assert_eq!(now.start(session, Select::All), Ok(()));
    now.write(session, counter, 7).unwrap();
    assert_eq!(now.read_reset(session, counter), Ok(7));
    assert_eq!(now.read(session, counter), Ok(0));
    now.remove_session(session).unwrap();
    assert_eq!(now.read(session, counter), Err(Error::InvalidSession));
    drop(now);
    finalize().unwrap();
    assert_eq!(tool().err(), Some(Error::NotInitialized));
    assert_eq!(finalize(), Err(Error::NotInitialized));
}
