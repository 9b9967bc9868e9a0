"""Names in C: the user's names, changed only where C or another name in scope forbids it.

The names with a meaning in C are one table here: keywords, and the names of its library. Entries are written out, or
made from a finite list of stems and endings. No entry ends with an underscore, so appending one gives a free name.
Names declared only in headers that are not included, such as `LC_X` and `PRIor`, are available to the user.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from lowering.c.helpers import HELPER_NAMES


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
""")
_OPENMP: Final = _words("""
GOMP_parallel GOMP_barrier GOMP_atomic_start GOMP_atomic_end omp_get_max_threads omp_get_num_threads omp_get_thread_num
""")
"""Functions of OpenMP that compilers call in parallel loops, or that return the number of threads."""
FUNCTION_NAMES: Final = LIBRARY | _MATH_EXTENSIONS | _SYSTEM | _OPENMP
"""Names that a function may not have, including those declared by the headers of common systems and by compilers."""

EXPORT_NAMES: Final = _words("""
ATL_GUARD atl_by_size atl_case atl_draw atl_draw_between atl_draw_positions atl_faults atl_integer atl_larger atl_number
atl_random atl_room atl_size atl_state atl_there
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
