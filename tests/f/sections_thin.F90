! Array sections of which some dimensions have one element, in any place among longer ones, and datatypes that take their
! elements in another order, or some twice, in as many bytes as they are long.
! ranks: 1
! variants: shm
program sections_thin
  use mpi_f08
  implicit none
  integer, asynchronous :: a(6, 6, 6, 6), c(6, 6, 6, 6)
  integer :: i, e(4), s(4), number

  call MPI_Init()
  a = reshape([(i, i=1, size(a))], shape(a))
  ! Extents 1 to 3 and steps 1 and 2 of four dimensions.
  do number = 0, 3**4 * 2**4 - 1
    do i = 1, 4
      e(i) = 1 + modulo(number / 3**(i - 1), 3)
      s(i) = 1 + modulo(number / (81 * 2**(i - 1)), 2)
    end do
    call section(1 + (e - 1) * s)
  end do
  call orders()
  ! Nothing of one that is empty.
  call MPI_Sendrecv(a(1:6:2, 1:0, 1:3, 1:1), 0, MPI_INTEGER, 0, 0, a(1:6:2, 1:0, 1:3, 1:1), 0, MPI_INTEGER, 0, 0, &
    MPI_COMM_SELF, MPI_STATUS_IGNORE)
  call MPI_Finalize()

contains

  ! All ways in which sections become datatypes.
  subroutine section(l)
    integer, intent(in) :: l(4)
    integer, asynchronous :: b(product(e)), packed(product(e))
    integer :: want(product(e)), position, half, counts(1), places(1)
    type(MPI_Request) :: request

    want = pack(a(1:l(1):s(1), 1:l(2):s(2), 1:l(3):s(3), 1:l(4):s(4)), .true.)
    b = 0
    call MPI_Isend(a(1:l(1):s(1), 1:l(2):s(2), 1:l(3):s(3), 1:l(4):s(4)), size(b), MPI_INTEGER, 0, 0, &
      MPI_COMM_SELF, request)
    call MPI_Recv(b, size(b), MPI_INTEGER, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(b, want)

    ! The beginning of one only.
    half = (size(b) + 1) / 2
    b = 0
    call MPI_Sendrecv(a(1:l(1):s(1), 1:l(2):s(2), 1:l(3):s(3), 1:l(4):s(4)), half, MPI_INTEGER, 0, 0, &
      b, half, MPI_INTEGER, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call check(b(1:half), want(1:half))

    ! Received into one: nothing beside it changes.
    c = -1
    call MPI_Sendrecv(want, size(b), MPI_INTEGER, 0, 0, &
      c(1:l(1):s(1), 1:l(2):s(2), 1:l(3):s(3), 1:l(4):s(4)), size(b), MPI_INTEGER, 0, 0, MPI_COMM_SELF, &
      MPI_STATUS_IGNORE)
    call check(pack(c(1:l(1):s(1), 1:l(2):s(2), 1:l(3):s(3), 1:l(4):s(4)), .true.), want)
    if (count(c /= -1) /= size(b)) call wrong('beside')

    position = 0
    call MPI_Pack(a(1:l(1):s(1), 1:l(2):s(2), 1:l(3):s(3), 1:l(4):s(4)), size(b), MPI_INTEGER, packed, &
      4 * size(b), position, MPI_COMM_SELF)
    call check(packed, want)

    ! Counts and displacements: the last elements of it.
    counts(1) = half
    places(1) = size(b) - half
    b = 0
    call MPI_Alltoallv(a(1:l(1):s(1), 1:l(2):s(2), 1:l(3):s(3), 1:l(4):s(4)), counts, places, MPI_INTEGER, &
      b, counts, [0], MPI_INTEGER, MPI_COMM_SELF)
    call check(b(1:half), want(size(b) - half + 1:))
  end subroutine

  subroutine orders()
    integer, asynchronous :: line(16), b(8)
    type(MPI_Datatype) :: type, twice

    line = [(i, i=1, 16)]
    call MPI_Type_indexed(2, [2, 2], [2, 0], MPI_INTEGER, type)
    call MPI_Type_commit(type)
    call MPI_Sendrecv(line(1:16:2), 2, type, 0, 0, b, 8, MPI_INTEGER, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call check(b, [5, 7, 1, 3, 13, 15, 9, 11])
    call MPI_Type_indexed(3, [1, 1, 2], [0, 0, 2], MPI_INTEGER, twice)
    call MPI_Type_commit(twice)
    call MPI_Sendrecv(line(1:16:2), 2, twice, 0, 0, b, 8, MPI_INTEGER, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call check(b, [1, 1, 5, 7, 9, 9, 13, 15])
    ! One that takes all in order, in pieces.
    call MPI_Type_free(twice)
    call MPI_Type_indexed(2, [1, 3], [0, 1], MPI_INTEGER, twice)
    call MPI_Type_commit(twice)
    call MPI_Sendrecv(line(1:16:2), 2, twice, 0, 0, b, 8, MPI_INTEGER, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call check(b, [1, 3, 5, 7, 9, 11, 13, 15])
    call MPI_Type_free(type)
    call MPI_Type_free(twice)
    ! Made in all ways.
    do i = 1, 9
      select case (i)
      case (1)
        call MPI_Type_contiguous(4, MPI_INTEGER, type)
      case (2)
        call MPI_Type_contiguous(2, MPI_INTEGER, twice)
        call MPI_Type_dup(twice, type)
        call MPI_Type_free(twice)
      case (3)
        call MPI_Type_vector(2, 2, 2, MPI_INTEGER, type)
      case (4)
        call MPI_Type_create_hvector(2, 2, 8_MPI_ADDRESS_KIND, MPI_INTEGER, type)
      case (5)
        call MPI_Type_create_indexed_block(2, 2, [0, 2], MPI_INTEGER, type)
      case (6)
        call MPI_Type_create_hindexed(2, [3, 1], [0_MPI_ADDRESS_KIND, 12_MPI_ADDRESS_KIND], MPI_INTEGER, type)
      case (7)
        call MPI_Type_create_hindexed_block(4, 1, [(4_MPI_ADDRESS_KIND * number, number=0, 3)], MPI_INTEGER, type)
      case (8)
        call MPI_Type_create_struct(2, [1, 3], [0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND], &
          [MPI_INTEGER, MPI_INTEGER], type)
      case default
        call MPI_Type_contiguous(4_MPI_COUNT_KIND, MPI_INTEGER, type)
      end select
      call MPI_Type_commit(type)
      call MPI_Type_size(type, number)
      b = 0
      call MPI_Sendrecv(line(1:16:2), 32 / number, type, 0, 0, b, 8, MPI_INTEGER, 0, 0, MPI_COMM_SELF, &
        MPI_STATUS_IGNORE)
      call check(b, [1, 3, 5, 7, 9, 11, 13, 15])
      call MPI_Type_free(type)
    end do
  end subroutine

  subroutine check(found, want)
    integer, intent(in) :: found(:), want(:)
    if (any(found /= want)) call wrong('elements')
  end subroutine

  subroutine wrong(what)
    character(len=*), intent(in) :: what
    print *, what, ' wrong: extents ', e, ', steps ', s
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine
end program
