//! The parts of module `mpi_f08` that do not follow from the tables.

/// The declaration of choice buffers (MPI-5.0 section 19.1.5). The list of names for old versions
/// of gfortran follows.
pub(super) const F08_MACROS: &str = "\
! Choice buffers are passed as descriptors of C (CFI_cdesc_t), except with gfortran. It computes their strides from the
! span of its own descriptors, which is undefined in an array that an assignment has allocated. A procedure of gfortran
! without a binding label gets its own descriptors.
#ifdef __GFORTRAN__
#define BIND_C(label)
#else
#define BIND_C(label) bind(C, name=label)
#endif

! Before version 12 of gfortran its descriptors do not tell temporary copies from arrays with lower bounds of 0. Choice
! buffers are passed as addresses then, to the procedures that the standard names for that. These dummy arguments are not
! asynchronous, because a pointer that is could not be passed to them.
#if !defined(__GFORTRAN__) || __GNUC__ >= 12
#define BUFFER type(*), dimension(..)
#define LATER , asynchronous
#define ANY_RANK(buffer)
#define SUBARRAYS .true.
#else
#define BUFFER type(*), dimension(*)
#define LATER
#define ANY_RANK(buffer) !GCC$ ATTRIBUTES NO_ARG_CHECK :: buffer
#define SUBARRAYS .false.
";

/// Variables whose addresses are constants.
pub(super) const F08_VARIABLES: &str = "
  logical, parameter :: MPI_SUBARRAYS_SUPPORTED = SUBARRAYS
  logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING = .true.

  integer, bind(C, name='MPIR_F08_MPI_BOTTOM'), asynchronous, target :: MPI_BOTTOM
  integer, bind(C, name='MPIR_F08_MPI_IN_PLACE'), target :: MPI_IN_PLACE
  type(MPI_Status), bind(C, name='MPIR_F08_MPI_STATUS_IGNORE_OBJ'), target :: &
    MPI_STATUS_IGNORE
  type(MPI_Status), bind(C, name='MPIR_F08_MPI_STATUSES_IGNORE_OBJ'), target :: &
    MPI_STATUSES_IGNORE(1)
  integer, bind(C, name='mpifcmb5_'), target :: MPI_UNWEIGHTED(1)
  integer, bind(C, name='mpifcmb9_'), target :: MPI_WEIGHTS_EMPTY(1)
  integer, bind(C, name='mpifcmba_'), target :: MPI_BUFFER_AUTOMATIC
  integer, bind(C, name='weft_errcodes_ignore'), target :: MPI_ERRCODES_IGNORE(1)
  character(kind=c_char), bind(C, name='weft_argv_null'), target :: MPI_ARGV_NULL(1)
  character(kind=c_char), bind(C, name='weft_argvs_null'), target :: MPI_ARGVS_NULL(1, 1)
";

/// The interfaces of callbacks, and the predefined callbacks.
pub(super) const F08_CALLBACKS: &str = "
  abstract interface
    subroutine MPI_User_function(invec, inoutvec, len, datatype)
      import
      type(c_ptr), value :: invec, inoutvec
      integer :: len
      type(MPI_Datatype) :: datatype
    end subroutine
    subroutine MPI_User_function_c(invec, inoutvec, len, datatype)
      import
      type(c_ptr), value :: invec, inoutvec
      integer(kind=MPI_COUNT_KIND) :: len
      type(MPI_Datatype) :: datatype
    end subroutine
    subroutine MPI_Comm_copy_attr_function(oldcomm, comm_keyval, extra_state, &
        attribute_val_in, attribute_val_out, flag, ierror)
      import
      type(MPI_Comm) :: oldcomm
      integer :: comm_keyval, ierror
      integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      logical :: flag
    end subroutine
    subroutine MPI_Comm_delete_attr_function(comm, comm_keyval, attribute_val, extra_state, &
        ierror)
      import
      type(MPI_Comm) :: comm
      integer :: comm_keyval, ierror
      integer(kind=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    end subroutine
    subroutine MPI_Win_copy_attr_function(oldwin, win_keyval, extra_state, &
        attribute_val_in, attribute_val_out, flag, ierror)
      import
      type(MPI_Win) :: oldwin
      integer :: win_keyval, ierror
      integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      logical :: flag
    end subroutine
    subroutine MPI_Win_delete_attr_function(win, win_keyval, attribute_val, extra_state, ierror)
      import
      type(MPI_Win) :: win
      integer :: win_keyval, ierror
      integer(kind=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    end subroutine
    subroutine MPI_Type_copy_attr_function(oldtype, type_keyval, extra_state, &
        attribute_val_in, attribute_val_out, flag, ierror)
      import
      type(MPI_Datatype) :: oldtype
      integer :: type_keyval, ierror
      integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      logical :: flag
    end subroutine
    subroutine MPI_Type_delete_attr_function(datatype, type_keyval, attribute_val, &
        extra_state, ierror)
      import
      type(MPI_Datatype) :: datatype
      integer :: type_keyval, ierror
      integer(kind=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    end subroutine
    subroutine MPI_Comm_errhandler_function(comm, error_code)
      import
      type(MPI_Comm) :: comm
      integer :: error_code
    end subroutine
    subroutine MPI_Win_errhandler_function(win, error_code)
      import
      type(MPI_Win) :: win
      integer :: error_code
    end subroutine
    subroutine MPI_Session_errhandler_function(session, error_code)
      import
      type(MPI_Session) :: session
      integer :: error_code
    end subroutine
    subroutine MPI_File_errhandler_function(file, error_code)
      import
      type(MPI_File) :: file
      integer :: error_code
    end subroutine
    subroutine MPI_Grequest_query_function(extra_state, status, ierror)
      import
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
      type(MPI_Status) :: status
      integer :: ierror
    end subroutine
    subroutine MPI_Grequest_free_function(extra_state, ierror)
      import
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
      integer :: ierror
    end subroutine
    subroutine MPI_Grequest_cancel_function(extra_state, complete, ierror)
      import
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
      logical :: complete
      integer :: ierror
    end subroutine
    subroutine MPI_Datarep_extent_function(datatype, extent, extra_state, ierror)
      import
      type(MPI_Datatype) :: datatype
      integer(kind=MPI_ADDRESS_KIND) :: extent, extra_state
      integer :: ierror
    end subroutine
    subroutine MPI_Datarep_conversion_function(userbuf, datatype, count, filebuf, position, &
        extra_state, ierror)
      import
      type(c_ptr), value :: userbuf, filebuf
      type(MPI_Datatype) :: datatype
      integer :: count, ierror
      integer(kind=MPI_OFFSET_KIND) :: position
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
    end subroutine
    subroutine MPI_Datarep_conversion_function_c(userbuf, datatype, count, filebuf, position, &
        extra_state, ierror)
      import
      type(c_ptr), value :: userbuf, filebuf
      type(MPI_Datatype) :: datatype
      integer(kind=MPI_COUNT_KIND) :: count
      integer(kind=MPI_OFFSET_KIND) :: position
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
      integer :: ierror
    end subroutine
  end interface

  procedure(MPI_Comm_copy_attr_function) :: MPI_COMM_NULL_COPY_FN, MPI_COMM_DUP_FN
  procedure(MPI_Comm_delete_attr_function) :: MPI_COMM_NULL_DELETE_FN
  procedure(MPI_Win_copy_attr_function) :: MPI_WIN_NULL_COPY_FN, MPI_WIN_DUP_FN
  procedure(MPI_Win_delete_attr_function) :: MPI_WIN_NULL_DELETE_FN
  procedure(MPI_Type_copy_attr_function) :: MPI_TYPE_NULL_COPY_FN, MPI_TYPE_DUP_FN
  procedure(MPI_Type_delete_attr_function) :: MPI_TYPE_NULL_DELETE_FN
  procedure(MPI_Datarep_conversion_function) :: MPI_CONVERSION_FN_NULL
  procedure(MPI_Datarep_conversion_function_c) :: MPI_CONVERSION_FN_NULL_C
";
