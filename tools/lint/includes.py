"""What a file of the library names of the standard library comes from a header that it includes, itself or through the project's
own headers, and not by luck from another standard header. Sources are compiled together, so a compiler does not see it.
"""

import re
from functools import lru_cache

from common import LIBRARY, Planted, Result, files, relative, run, without_comments

NAME = "includes"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
USE = re.compile(r"\bstd::(\w+)")
# Names by the headers that have them; any of several will do. begin, end, swap and the like come with every container.
HEADERS = {
    "algorithm": "sort find find_if clamp any_of all_of none_of count_if fill copy copy_n max_element min_element equal lower_bound "
                 "upper_bound remove_if transform reverse unique binary_search",
    "array": "array",
    "atomic": "atomic atomic_flag atomic_ref atomic_thread_fence memory_order_relaxed memory_order_acquire memory_order_release "
              "memory_order_acq_rel memory_order_seq_cst",
    "bit": "bit_cast bit_width bit_ceil countr_zero countl_zero popcount has_single_bit endian",
    "charconv": "from_chars to_chars",
    "chrono": "chrono",
    "condition_variable": "condition_variable",
    "cstddef": "byte ptrdiff_t max_align_t nullptr_t",
    "cstddef cstdio cstdlib cstring ctime cwchar": "size_t",
    "cstdint": "uint8_t uint16_t uint32_t uint64_t int32_t int64_t uintptr_t",
    "cstdio": "printf fprintf snprintf fopen",
    "cstdlib": "getenv abort malloc free exit strtoul",
    "cstring": "memcpy memset memcmp memmove strlen strcmp strerror",
    "deque": "deque",
    "exception": "exception_ptr current_exception rethrow_exception uncaught_exceptions",
    "exception new stdexcept": "exception",
    "fstream": "ifstream ofstream",
    "functional": "function",
    "initializer_list": "initializer_list",
    "iterator": "back_inserter distance",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared make_unique_for_overwrite addressof destroy_at construct_at",
    "mutex": "mutex lock_guard unique_lock scoped_lock try_to_lock adopt_lock once_flag call_once",
    "new": "bad_alloc nothrow align_val_t launder",
    "numeric": "accumulate iota",
    "optional": "optional nullopt",
    "random": "mt19937 mt19937_64 random_device uniform_int_distribution",
    "set": "set",
    "span": "span as_bytes as_writable_bytes",
    "sstream": "ostringstream istringstream",
    "stdexcept": "runtime_error invalid_argument out_of_range logic_error length_error",
    "string": "string to_string stoi stoul stod getline",
    "string_view": "string_view",
    "system_error": "errc",
    "thread": "thread this_thread",
    "tuple": "tuple tie make_tuple apply",
    "type_traits": "is_same_v enable_if_t conditional_t is_trivially_copyable_v decay_t remove_reference_t is_void_v true_type "
                   "false_type is_base_of_v invoke_result_t",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "exchange pair move forward make_pair cmp_less cmp_greater",
    "variant": "variant visit get_if monostate",
    "vector": "vector",
}
HOMES = {name: headers.split() for headers, names in HEADERS.items() for name in names.split()}


@lru_cache(maxsize=None)
def includes_of(path):
    return INCLUDE.findall(path.read_text())


def standard_headers_of(root, path):
    """All that a file reaches through itself and the project's own headers."""
    own, found, todo = {path}, set(), [path]
    while todo:
        for quoted, angled in includes_of(todo.pop()):
            found.add(angled)
            for place in (root / quoted, root / "include" / quoted):
                if quoted and place.is_file() and place not in own:
                    own.add(place)
                    todo.append(place)
    return found


def check(root, _build):
    """Every file of the library."""
    all_files = files(root, LIBRARY)
    result = Result(summary=f"{len(all_files)} files, {len(HOMES)} names")
    for path in all_files:
        has = standard_headers_of(root, path)
        used = sorted(set(USE.findall(without_comments(path.read_text()))) & HOMES.keys())
        for name in used:
            if not has.intersection(HOMES[name]):
                result.problems.append(f"{relative(path, root)}: std::{name} needs <{HOMES[name][0]}>")
    return result


PLANTED = [
    Planted({"lci/base/a.hpp": "#include <string>\nstd::vector<std::string> f();\n"}, "std::vector needs <vector>"),
    Planted({"lci/base/a.hpp": "#include <map>\n", "lci/base/a.cpp": '#include "lci/base/a.hpp"\nstd::map<int, std::string> all;\n'},
            "lci/base/a.cpp: std::string needs <string>"),
]

if __name__ == "__main__":
    run(NAME, check)
