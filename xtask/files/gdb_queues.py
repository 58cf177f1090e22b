# Shows the message queues of an MPI process in gdb:
#
#     gdb -p PID -x PREFIX/share/weft/gdb_queues.py -ex mpi-queues
#
# It loads the library that other debuggers load, libweft_mqs.so, and gives it gdb's view of the process.

import ctypes
import gdb
from ctypes import CFUNCTYPE, POINTER, byref, c_char, c_char_p, c_int, c_long, c_size_t, c_ulong, c_void_p


class Communicator(ctypes.Structure):
    _fields_ = [("id", c_ulong), ("rank", c_long), ("size", c_long), ("name", c_char * 64)]


class Operation(ctypes.Structure):
    _fields_ = [
        ("status", c_int), ("rank", c_long), ("global_rank", c_long), ("any_tag", c_int), ("tag", c_long),
        ("length", c_long), ("system", c_int), ("buffer", c_ulong), ("actual_rank", c_long),
        ("actual_global_rank", c_long), ("actual_tag", c_long), ("actual_length", c_long),
        ("notes", (c_char * 64) * 5),
    ]


libc = ctypes.CDLL(None)
libc.malloc.restype = c_void_p
kept = {"image": None, "process": None}


def find_symbol(_image, name, address):
    try:
        address[0] = int(gdb.parse_and_eval("(unsigned long) &" + name.decode()))
        return 0
    except gdb.error:
        return 1


def fetch(_process, address, size, to):
    try:
        data = bytes(gdb.selected_inferior().read_memory(address, size))
    except gdb.error:
        return 1
    ctypes.memmove(to, data, size)
    return 0


def keep(name):
    return CFUNCTYPE(None, c_void_p, c_void_p)(lambda _of, what: kept.__setitem__(name, what))


def get(name):
    return CFUNCTYPE(c_void_p, c_void_p)(lambda _of: kept[name])


def nothing(*_):
    return 0


BASIC = [
    CFUNCTYPE(c_void_p, c_size_t)(libc.malloc), CFUNCTYPE(None, c_void_p)(libc.free),
    CFUNCTYPE(None, c_char_p)(nothing), CFUNCTYPE(c_void_p, c_int)(nothing),
    keep("image"), get("image"), keep("process"), get("process"),
]
UNUSED = CFUNCTYPE(c_int)(nothing)
IMAGE = [UNUSED, UNUSED, CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(c_ulong))(find_symbol), UNUSED, UNUSED, UNUSED]
PROCESS = [
    CFUNCTYPE(c_int, c_void_p)(nothing), CFUNCTYPE(c_void_p, c_void_p)(lambda _process: 1),
    CFUNCTYPE(c_int, c_void_p, c_ulong, c_int, c_void_p)(fetch), UNUSED,
]


def table(functions):
    return (c_void_p * len(functions))(*(ctypes.cast(one, c_void_p) for one in functions))


TABLES = [table(BASIC), table(IMAGE), table(PROCESS)]


def library():
    try:
        name = gdb.parse_and_eval("(char *) &MPIR_dll_name").string()
    except gdb.error as error:
        raise gdb.GdbError("no MPI library with message queues is loaded in this process: %s" % error)
    found = ctypes.CDLL(name)
    found.mqs_dll_error_string.restype = c_char_p
    return found


def shown(rank, of_world):
    if rank < 0:
        return "any rank"
    return "rank %d" % rank if rank == of_world or of_world < 0 else "rank %d (%d of all)" % (rank, of_world)


class Queues(gdb.Command):
    """Shows the MPI communicators of this process, their pending sends and receives, and unexpected messages."""

    def __init__(self):
        super().__init__("mpi-queues", gdb.COMMAND_DATA)

    def invoke(self, _argument, _tty):
        mqs = library()
        process = c_void_p(1)

        def check(code):
            if code != 0:
                raise gdb.GdbError("%s" % mqs.mqs_dll_error_string(code).decode())

        mqs.mqs_setup_basic_callbacks(TABLES[0])
        check(mqs.mqs_setup_image(c_void_p(1), TABLES[1]))
        check(mqs.mqs_setup_process(process, TABLES[2]))
        text = c_char_p()
        code = mqs.mqs_process_has_queues(process, byref(text))
        if code != 0:
            why = text.value or mqs.mqs_dll_error_string(code)
            raise gdb.GdbError(why.decode().replace("%s", "the process"))
        check(mqs.mqs_update_communicator_list(process))
        more = mqs.mqs_setup_communicator_iterator(process)
        while more == 0:
            self.communicator(mqs, process, check)
            more = mqs.mqs_next_communicator(process)
        mqs.mqs_destroy_process_info(c_void_p(kept["process"]))
        mqs.mqs_destroy_image_info(c_void_p(kept["image"]))

    def communicator(self, mqs, process, check):
        comm = Communicator()
        check(mqs.mqs_get_communicator(process, byref(comm)))
        print("%s: rank %d of %d" % (comm.name.decode(errors="replace"), comm.rank, comm.size))
        queues = [(0, "send to"), (1, "receive from"), (2, "unexpected message from")]
        for number, what in queues:
            check(mqs.mqs_setup_operation_iterator(process, number))
            one = Operation()
            while mqs.mqs_next_operation(process, byref(one)) == 0:
                tag = "any tag" if one.any_tag else "tag %d" % one.tag
                notes = [note.value.decode() for note in one.notes if note.value]
                text = "  %s %s, %s, %d bytes" % (what, shown(one.rank, one.global_rank), tag, one.length)
                if one.buffer:
                    text += " at %#x" % one.buffer
                print("; ".join([text] + notes))


Queues()
