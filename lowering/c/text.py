"""Text of C: expressions with their precedence, long lines, names, and anchors."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Final, TypeAlias

from atl.core.index import Var
from lowering.c.helpers import HELPER_NAMES

TERNARY, OR, AND, EQUALITY, COMPARISON, SUM, PRODUCT, UNARY, PRIMARY = range(1, 10)
"""Operator precedence; Python has the same order for the operators that both have."""

WIDTH: Final = 110
INDENT: Final = "    "


@dataclass(frozen=True, slots=True)
class Text:
    """An expression as text.

    `level` is the precedence of its outermost operator. `narrow` is set if C evaluates it as an `int`.
    """

    text: str
    level: int = PRIMARY
    narrow: bool = False

    def at(self, level: int) -> str:
        """Return the text as an operand of at least this precedence, in parentheses if necessary."""
        return self.text if self.level >= level else f"({self.text})"

    def widened(self) -> Text:
        """Return the same value as an int64_t."""
        return Text(f"(int64_t){self.at(UNARY)}", UNARY) if self.narrow else self


def indented(lines: list[str]) -> list[str]:
    """Indent lines by one level."""
    return [INDENT + line if line else line for line in lines]


_CLASSES: Final[tuple[tuple[str, ...], ...]] = (
    ("; ",),
    (", ",),
    (" ? ", " : "),
    (" || ", " or "),
    (" && ", " and "),
    (" + ", " - "),
    (" * ", " / "),
)
"""Points where a line may be broken, after punctuation or before an operator, weakest binding first."""
_ASSIGNMENTS: Final = (" = ", " += ", " -= ", " *= ", " /= ")


def wrapped(line: str, width: int = WIDTH) -> list[str]:
    """Wrap a long line: it is broken where the fewest brackets are open, at the weakest operator there.

    Each case of a conditional expression is a separate line.
    """
    plain, opening, closing = strip_anchors(line)
    text = plain.lstrip()
    # A directive must stay on one line.
    lines = [plain] if text.startswith("#") else _break(len(plain) - len(text), text, width)
    if opening or closing:
        lines[0] = opening + lines[0]
        lines[-1] = closing + lines[-1]
    return lines


def _break(margin: int, text: str, width: int, after: int = 2 * len(INDENT)) -> list[str]:
    """Break a text into lines; lines after the first are indented by `after` more."""
    whole = " " * margin + text
    places = _places(text)
    if len(whole) <= width or not places:
        return [whole]
    further = margin + 2 * len(INDENT)
    assigned = next((at for at, depth, kind in places if depth == 0 and kind in _ASSIGNMENTS), None)
    right = [place for place in places if place[2] not in _ASSIGNMENTS]
    if assigned is None and not right:
        # The start of a `for` statement, `for (int64_t i = 0;`, is not broken at its assignment.
        return [whole]
    outermost = min((depth for _, depth, _ in right), default=0)
    value = None if assigned is None else text[assigned + 1 :]
    if value is not None and (not right or (outermost and further + len(value) <= width)):
        return [whole[: margin + (assigned or 0)], " " * further + value]
    inside = [(at, kind) for at, depth, kind in right if depth == outermost]
    kinds = next(kinds for kinds in _CLASSES if any(kind in kinds for _, kind in inside))
    pieces = _pieces(text, [at for at, kind in inside if kind in kinds])
    if value is not None and margin + len(pieces[0]) > width and not outermost:
        return [whole[: margin + (assigned or 0)], *_break(further, value, width, 0)]
    if kinds == (" ? ", " : "):
        cases = _pieces(text, [at for at, kind in inside if kind == " : "])
        margins = [margin, *(margin + after for _ in cases[1:])]
        fit = all(at + len(case) <= width for at, case in zip(margins, cases, strict=True))
        return _one_each(margin, cases if fit else pieces, width, after)
    return _filled(margin, pieces, width, after)


def _one_each(margin: int, pieces: list[str], width: int, after: int) -> list[str]:
    lines = _break(margin, pieces[0], width)
    for piece in pieces[1:]:
        lines += _break(margin + after, piece, width)
    return lines


def _filled(margin: int, pieces: list[str], width: int, after: int) -> list[str]:
    """Fill lines with pieces."""
    lines: list[str] = []
    line = ""
    for piece in pieces:
        start = margin + after if lines else margin
        if line and start + len(line) + 1 + len(piece) <= width:
            line += f" {piece}"
            continue
        if line:
            lines += _break(start, line, width)
        line = piece
    return [*lines, *_break(margin + after if lines else margin, line, width)]


def _pieces(text: str, at: list[int]) -> list[str]:
    """Cut the text at these blanks."""
    ends = [*at, len(text)]
    starts = [0, *(place + 1 for place in at)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _places(text: str) -> list[tuple[int, int, str]]:
    """Return the blanks where a text may be broken, with the number of open brackets and the kind of break."""
    found: list[tuple[int, int, str]] = []
    depth = 0
    for met in _BRACKET_OR_BLANK.finditer(text):
        character, at = met[0], met.start()
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        else:
            found.append((at, depth, f" {met['rest']}" if met["rest"] else f"{text[at - 1]} "))
    return found


_BRACKET_OR_BLANK: Final = re.compile(
    r"[()\[\]{}]| (?:(?<=[,;] )|(?=(?P<rest>"
    + "|".join(re.escape(known[1:]) for known in (*_ASSIGNMENTS, *chain.from_iterable(_CLASSES[2:])))
    + ")))"
)
"""A bracket, or a blank after punctuation or before an operator."""


# -- names ------------------------------------------------------------------------------------------------------------
# The names with a meaning in C are one table here: keywords, and the names of its library. Entries are written out, or
# made from a finite list of stems and endings. No entry ends with an underscore, so appending one gives a free name.
# Names declared only in headers that are not included, such as `LC_X` and `PRIor`, are available to the user.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _with(stems: str, endings: tuple[str, ...]) -> frozenset[str]:
    return frozenset(stem + ending for stem, ending in product(stems.split(), endings))


_FLOATING: Final = ("", "f", "l", "f16", "f32", "f64", "f128", "f32x", "f64x")
"""Suffixes of functions and constants for types other than double."""

KEYWORDS: Final = _words("""
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bool
true false nullptr constexpr alignas alignof static_assert thread_local typeof_unqual wchar_t char8_t char16_t
char32_t linux unix i386 noreturn complex imaginary
""")
"""Keywords of C up to C23, and macros that compilers predefine outside of strict standard modes."""

_MATH_FUNCTIONS: Final = _with(
    """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax
fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint
nextafter nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc
""",
    _FLOATING,
)
_MATH_MACROS: Final = _words("""
INFINITY NAN HUGE HUGE_VAL HUGE_VALF HUGE_VALL MAXFLOAT SNAN SNANF SNANL MATH_ERRNO MATH_ERREXCEPT math_errhandling
FP_ILOGB0 FP_ILOGBNAN FP_INFINITE FP_NAN FP_NORMAL FP_SUBNORMAL FP_ZERO FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAL
FP_LLOGB0 FP_LLOGBNAN FP_SNAN FP_SUPERNORMAL FP_INT_DOWNWARD FP_INT_TONEAREST FP_INT_TONEARESTFROMZERO
FP_INT_TOWARDZERO FP_INT_UPWARD X_TLOSS DOMAIN SING OVERFLOW UNDERFLOW TLOSS PLOSS fpclassify iscanonical iseqsig
isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal issignaling issubnormal
isunordered iszero signbit double_t float_t
""") | _with(
    "HUGE_VAL SNAN", ("_F16", "_F32", "_F64", "_F128", "_F32X", "_F64X", "F16", "F32", "F64", "F128", "F32X", "F64X")
)
_MATH_CONSTANTS: Final = _with(
    "M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI M_2_SQRTPI M_SQRT2 M_SQRT1_2 M_SQRT3 M_TWOPI",
    _FLOATING,
)
_FAST_FMA: Final = _with("FP_FAST_FMA", ("F16", "F32", "F64", "F128", "F32X", "F64X"))

_WIDTHS: Final = ("8", "16", "32", "64", "128")
_INTEGER_TYPES: Final = _with(
    "int uint int_fast uint_fast int_least uint_least", tuple(f"{width}_t" for width in _WIDTHS)
) | _with("intmax uintmax intptr uintptr size ssize ptrdiff wint max_align", ("_t",))
_INTEGER_LIMITS: Final = (
    _with(
        "INT UINT INT_FAST UINT_FAST INT_LEAST UINT_LEAST",
        tuple(f"{width}_{end}" for width, end in product(_WIDTHS, ("C", "MIN", "MAX", "WIDTH"))),
    )
    | _with(
        "INTMAX UINTMAX INTPTR UINTPTR SIZE SSIZE PTRDIFF WCHAR WINT SIG_ATOMIC CHAR SCHAR UCHAR SHRT USHRT INT UINT"
        " LONG ULONG LLONG ULLONG BOOL BITINT RSIZE",
        ("_C", "_MIN", "_MAX", "_WIDTH"),
    )
    | _words("CHAR_BIT MB_LEN_MAX")
)
_FLOATING_LIMITS: Final = _with(
    "FLT DBL LDBL",
    (
        *("_DIG", "_EPSILON", "_MANT_DIG", "_MAX", "_MAX_10_EXP", "_MAX_EXP", "_MIN", "_MIN_10_EXP", "_MIN_EXP"),
        *("_TRUE_MIN", "_DECIMAL_DIG", "_HAS_SUBNORM", "_NORM_MAX", "_SNAN", "_RADIX", "_EVAL_METHOD", "_ROUNDS"),
    ),
)

_STANDARD: Final = _words("""
abort abs aligned_alloc asctime assert at_quick_exit atexit atof atoi atol atoll bsearch btowc calloc clearerr clock
clock_t ctime difftime div div_t errno exit fclose feof ferror fflush fgetc fgetpos fgets fgetwc fopen fprintf fputc
fputs fputwc fread free freopen fscanf fseek fsetpos ftell fwrite getc getchar getenv gets getwc gmtime isalnum
isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit jmp_buf labs ldiv ldiv_t
llabs lldiv lldiv_t localeconv localtime longjmp main malloc mblen mbstowcs mbtowc memchr memcmp memcpy memmove memset
mktime offsetof perror printf putc putchar puts qsort quick_exit raise rand realloc remove rename rewind scanf setbuf
setjmp setlocale setvbuf signal snprintf sprintf srand sscanf stderr stdin stdout strcat strchr strcmp strcoll strcpy
strcspn strerror strftime strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtof strtok strtol
strtold strtoll strtoul strtoull strxfrm swprintf system time time_t tmpfile tmpnam tolower toupper ungetc va_arg
va_copy va_end va_list va_start vfprintf vprintf vsnprintf vsprintf wcslen wctomb wcstombs BUFSIZ CLOCKS_PER_SEC EDOM
EILSEQ EOF ERANGE EXIT_FAILURE EXIT_SUCCESS FILE MB_CUR_MAX NDEBUG NULL RAND_MAX SEEK_CUR SEEK_END SEEK_SET
unreachable nullptr_t once_flag call_once free_sized free_aligned_sized memalignment memset_explicit memccpy strdup
strndup LC_ALL LC_COLLATE LC_CTYPE LC_MONETARY LC_NUMERIC LC_TIME SIGABRT SIGFPE SIGILL SIGINT SIGSEGV SIGTERM SIG_DFL
SIG_ERR SIG_IGN ONCE_FLAG_INIT
""")
_SYSTEM_MACROS: Final = _words("""
BIG_ENDIAN BYTE_ORDER FD_CLR FD_COPY FD_ISSET FD_SET FD_SETSIZE FD_ZERO LITTLE_ENDIAN NBBY NFDBITS PDP_ENDIAN
WCONTINUED WCOREDUMP WCOREFLAG WEXITED WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WNOHANG WNOWAIT
WSTOPPED WSTOPSIG WTERMSIG WUNTRACED P_ALL P_PGID P_PID P_PIDFD W_EXITCODE W_STOPCODE alloca be16toh be32toh be64toh
htobe16 htobe32 htobe64 htole16 htole32 htole64 le16toh le32toh le64toh htonl htons ntohl ntohs strdupa strndupa
FILENAME_MAX FOPEN_MAX L_ctermid L_cuserid L_tmpnam P_tmpdir RENAME_EXCHANGE RENAME_NOREPLACE RENAME_WHITEOUT SEEK_DATA
SEEK_HOLE TMP_MAX fgetpos64 fopen64 fpos64_t freopen64 fseeko64 fsetpos64 ftello64 off64_t tmpfile64
""")
LIBRARY: Final = frozenset().union(
    *(_MATH_FUNCTIONS, _MATH_MACROS, _MATH_CONSTANTS, _FAST_FMA, _INTEGER_TYPES, _INTEGER_LIMITS, _FLOATING_LIMITS),
    *(_STANDARD, _SYSTEM_MACROS, {"signgam"}),
)
"""Functions, types, macros and a variable of C's library, and macros that common systems add to included headers."""

_MATH_EXTENSIONS: Final = (
    _with(
        """
canonicalize drem exp10 exp10m1 exp2m1 finite fmaximum fmaximum_mag fmaximum_mag_num fmaximum_num fmaxmag fminimum
fminimum_mag fminimum_mag_num fminimum_num fminmag fromfp fromfpx gamma getpayload isinf isnan j0 j1 jn llogb log10p1
log2p1 logp1 nextdown nextup pow10 roundeven scalb setpayload setpayloadsig significand sincos totalorder
totalordermag ufromfp ufromfpx y0 y1 yn acospi asinpi atan2pi atanpi cospi sinpi tanpi compoundn pown powr rootn rsqrt
cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj cpow cproj creal csin csinh
csqrt ctan ctanh
""",
        _FLOATING,
    )
    | _with("lgamma gamma", tuple(f"{ending}_r" for ending in _FLOATING))
    | _with(
        "d f f32 f64 f32x f64x",
        tuple(
            f"{op}{of}"
            for op, of in product(
                ("add", "div", "fma", "mul", "sqrt", "sub"), ("", "l", "f32", "f64", "f128", "f32x", "f64x")
            )
        ),
    )
    | _with("strto strfrom", ("d", "f", "f16", "f32", "f64", "f128", "f32x", "f64x", "l", "ld"))
    | _with(
        "strtod strtof strtol strtold strtoll strtoul strtoull strtof32 strtof64 strtof128 strtof32x strtof64x", ("_l",)
    )
)
_SYSTEM: Final = _words("""
accept access alarm bind brk chdir close connect dup environ exec fork index ioctl kill link listen mmap munmap nice
open pause pipe poll read recv rindex sbrk select send sleep socket stat sync syscall wait write bcmp bcopy
bzero cuserid daylight tzname timezone random srandom swab a64l arc4random arc4random_buf arc4random_uniform basename
blkcnt64_t blkcnt_t blksize_t caddr_t canonicalize_file_name clearenv clockid_t comparison_fn_t daddr_t dev_t drand48
drand48_data drand48_r ecvt ecvt_r erand48 erand48_r explicit_bzero fcvt fcvt_r fd_mask fd_set ffs ffsl ffsll
fsblkcnt64_t fsblkcnt_t fsfilcnt64_t fsfilcnt_t fsid_t gcvt getloadavg getpt getsubopt gid_t grantpt id_t initstate
initstate_r ino64_t ino_t isascii jrand48 jrand48_r key_t l64a lcong48 lcong48_r locale_t loff_t lrand48 lrand48_r
memfrob memmem mempcpy memrchr mkdtemp mkostemp mkostemp64 mkostemps mkostemps64 mkstemp mkstemp64 mkstemps mkstemps64
mktemp mode_t mrand48 mrand48_r nlink_t nrand48 nrand48_r off64_t off_t on_exit pid_t posix_memalign posix_openpt
pselect pthread_attr_t pthread_barrier_t pthread_barrierattr_t pthread_cond_t pthread_condattr_t pthread_key_t
pthread_mutex_t pthread_mutexattr_t pthread_once_t pthread_rwlock_t pthread_rwlockattr_t pthread_spinlock_t pthread_t
ptsname ptsname_r putenv qecvt qecvt_r qfcvt qfcvt_r qgcvt qsort_r quad_t rand_r random_data random_r rawmemchr
reallocarray reallocf realpath register_t rpmatch secure_getenv seed48 seed48_r setenv setstate setstate_r
sigabbrev_np sigdescr_np sigset_t srand48 srand48_r srandom_r stpcpy stpncpy strcasecmp strcasecmp_l strcasestr
strchrnul strcoll_l strerror_l strerror_r strerrordesc_np strerrorname_np strfry strlcat strlcpy strncasecmp
strncasecmp_l strnlen strsep strsignal strtok_r strtoq strtouq strverscmp strxfrm_l suseconds_t timer_t timespec
timeval toascii u_char u_int u_int16_t u_int32_t u_int64_t u_int8_t u_long u_quad_t u_short uid_t uint ulong unlockpt
unsetenv useconds_t ushort valloc execl execle execlp execv execve execvp gettext dgettext dcgettext strfmon heapsort
mergesort radixsort psort daemon devname getbsize getprogname setprogname sradixsort asprintf clearerr_unlocked
cookie_close_function_t cookie_io_functions_t cookie_read_function_t cookie_seek_function_t cookie_write_function_t
ctermid ctermid_r dprintf fcloseall fdopen feof_unlocked ferror_unlocked fflush_unlocked fgetc_unlocked fgetln
fgets_unlocked fileno fileno_unlocked flockfile fmemopen fmtcheck fopencookie fpos_t fpurge fputc_unlocked
fputs_unlocked fread_unlocked fseeko ftello ftrylockfile funlockfile funopen fwrite_unlocked getc_unlocked
getchar_unlocked getdelim getline getw obstack obstack_printf obstack_vprintf open_memstream pclose popen putc_unlocked
putchar_unlocked putw renameat renameat2 setbuffer setlinebuf tempnam tmpnam_r vasprintf vdprintf vfscanf vscanf vsscanf
madvise
""")
_OPENMP: Final = _words("""
GOMP_parallel GOMP_barrier GOMP_atomic_start GOMP_atomic_end omp_get_max_threads omp_get_num_threads omp_get_thread_num
""")
"""Functions of OpenMP that compilers call in parallel loops, or that return the number of threads."""
FUNCTION_NAMES: Final = LIBRARY | _MATH_EXTENSIONS | _SYSTEM | _OPENMP
"""Names that a function may not have, including those declared by the headers of common systems and by compilers."""

EXPORT_NAMES: Final = _words("""
ATL_GUARD atl_allocate atl_by_size atl_case atl_draw atl_draw_between atl_draw_positions atl_faults atl_integer
atl_larger atl_number atl_random atl_size atl_state atl_there
""")
"""Names of functions and constants in the check of an exported kernel (`lowering.export`)."""


def reserved(name: str, *, of_function: bool = False) -> bool:
    """Return whether a name is a keyword, a macro or an identifier of C's library.

    A parameter or a variable may hide a function that generated code does not call; a function may not.
    """
    known = FUNCTION_NAMES if of_function else LIBRARY
    return name.startswith("_") or any(name in words for words in (KEYWORDS, HELPER_NAMES, EXPORT_NAMES, known))


# -- names in scope ---------------------------------------------------------------------------------------------------


def identifier(hint: str, *, of_function: bool = False) -> str:
    """Return the unreserved C identifier closest to a hint: `int` becomes `int_`."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", hint)
    if not plain.strip("_"):
        plain = "v"
    if plain[0].isdigit():
        plain = f"v{plain}"
    if plain.startswith("_"):
        plain = plain.lstrip("_") + "_"
        plain = f"v{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if reserved(plain, of_function=of_function) else plain


@dataclass(frozen=True, slots=True)
class Names:
    """The names in scope at a place of the code, by the objects they denote."""

    of: dict[Hashable, str] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()

    def bind(self, key: Hashable, hint: str, *, of_function: bool = False) -> tuple[str, Names]:
        """Choose a name for a new object, different from all names in scope: `i`, else `i2`, `i3`, …"""
        wanted = name = identifier(hint, of_function=of_function)
        number = 2
        while name in self.taken:
            # Each number gives a different unreserved name, so one of them is free.
            numbered = f"{wanted}_{number}" if wanted[-1].isdigit() else f"{wanted}{number}"
            name = identifier(numbered, of_function=of_function)
            number += 1
        return name, Names({**self.of, key: name}, self.taken | {name})

    def bind_all(self, hints: Iterable[tuple[Hashable, str]]) -> Names:
        names = self
        for key, hint in hints:
            _, names = names.bind(key, hint)
        return names


# -- anchors ----------------------------------------------------------------------------------------------------------
# Lines are indented, joined and wrapped after they are made, so line numbers are known only at the end, when anchors
# are removed. Printers add anchors only for loops whose origin is in the nest (`LoopNest.origins`).


Located: TypeAlias = tuple[tuple[int, int, int], ...]
"""The uid of the variable, the first line and the last line (from 1) of each loop of a text, outer loops first."""

_OPENS, _CLOSES, _END = "\x02", "\x03", "\x04"
_ANCHOR: Final = re.compile(f"([{_OPENS}{_CLOSES}])([0-9]+){_END}")


def anchored_lines(anchored: frozenset[int], variable: Var, lines: list[str]) -> list[str]:
    """Add anchors to the first and last line of a loop, if its variable is in `anchored`."""
    if variable.uid not in anchored or not lines:
        return lines
    opened = [f"{_OPENS}{variable.uid}{_END}{lines[0]}", *lines[1:]]
    return [*opened[:-1], f"{_CLOSES}{variable.uid}{_END}{opened[-1]}"]


def strip_anchors(line: str) -> tuple[str, str, str]:
    """Split a line into its text, opening anchors and closing anchors, for lines that are wrapped."""
    if _END not in line:
        return line, "", ""
    found = [(met[1], met[0]) for met in _ANCHOR.finditer(line)]
    opening, closing = ("".join(sign for kind, sign in found if kind == which) for which in (_OPENS, _CLOSES))
    return _ANCHOR.sub("", line), opening, closing


def locate_loops(text: str) -> tuple[str, Located]:
    """Remove the anchors from a text, and return it with the lines of the anchored loops."""
    if _END not in text:
        return text, ()
    lines: list[str] = []
    opened: dict[int, list[int]] = {}
    found: list[tuple[int, int, int]] = []
    for number, line in enumerate(text.split("\n"), 1):
        for kind, uid in sorted(_ANCHOR.findall(line), key=lambda each: each[0] == _CLOSES):
            if kind == _OPENS:
                opened.setdefault(int(uid), []).append(number)
            else:
                found.append((int(uid), opened[int(uid)].pop(), number))
        lines.append(_ANCHOR.sub("", line))
    return "\n".join(lines), tuple(sorted(found, key=lambda each: (each[1], -each[2])))


def ids_of(uids: Iterable[Var]) -> frozenset[int]:
    """Return the uids of variables."""
    return frozenset(variable.uid for variable in uids)
