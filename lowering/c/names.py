"""Names in C: as the user wrote them, changed only where C or another name in sight forbids it."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bool
true false nullptr constexpr alignas alignof static_assert thread_local
"""
KEYWORDS: Final = frozenset(_KEYWORDS.split())

# Functions, types and macros of the C11 library, and what common systems add to its headers as macros or built-ins.
_LIBRARY = """
abort abs acos acosh aligned_alloc asctime asin asinh assert at_quick_exit atan atan2 atanh atexit atof atoi atol
atoll bsearch btowc calloc cbrt ceil clearerr clock clock_t complex copysign cos cosh ctime difftime div div_t
double_t errno erf erfc exit exp exp2 expm1 fabs fclose fdim feof ferror fflush fgetc fgetpos fgets fgetwc float_t
floor fma fmax fmin fmod fopen fpclassify fprintf fputc fputs fputwc fread free freopen frexp fscanf fseek fsetpos
ftell fwrite getc getchar getenv gets getwc gmtime hypot ilogb imaginary isalnum isalpha isblank iscntrl isdigit
isfinite isgraph isgreater isinf isless islower isnan isnormal isprint ispunct isspace isunordered isupper isxdigit
jmp_buf labs ldexp ldiv lgamma llabs lldiv llrint llround localeconv localtime log log10 log1p log2 logb longjmp
lrint lround main malloc max_align_t mblen mbstowcs mbtowc memchr memcmp memcpy memmove memset mktime modf nan
nearbyint nextafter noreturn nexttoward offsetof perror pow printf ptrdiff_t putc putchar puts qsort quick_exit
raise rand realloc remainder remove remquo rename rewind rint round scalbln scalbn scanf setbuf setjmp setlocale
setvbuf signal signbit sin sinh size_t snprintf sprintf sqrt srand sscanf stderr stdin stdout strcat strchr strcmp
strcoll strcpy strcspn strerror strftime strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtof
strtok strtol strtold strtoll strtoul strtoull strxfrm swprintf system tan tanh tgamma time time_t tmpfile tmpnam
tolower toupper trunc ungetc va_arg va_copy va_end va_list va_start vfprintf vprintf vsnprintf vsprintf wchar_t
wcslen wctomb wint_t BUFSIZ CHAR_BIT CLOCKS_PER_SEC EDOM EOF ERANGE EXIT_FAILURE EXIT_SUCCESS FILE HUGE_VAL INFINITY
MB_CUR_MAX NAN NDEBUG NULL RAND_MAX SEEK_CUR SEEK_END SEEK_SET linux unix i386
"""
LIBRARY: Final = frozenset(_LIBRARY.split())

# Beyond those, what a program must not call a function that others can see.
_SYSTEM = """
accept access alarm bind brk chdir close connect dup environ exec fork gamma index ioctl j0 j1 jn kill link listen
mmap munmap nice open pause pipe poll read recv rindex sbrk select send signgam sleep socket stat sync syscall wait
write y0 y1 yn drem bcopy bzero cuserid daylight tzname timezone free_sized random srandom stpcpy swab _start strdup
strndup memccpy exp10 pow10 significand scalb finite sincos
"""
SYSTEM: Final = frozenset(_SYSTEM.split())

# Numbered types and their limits, and the variants of functions for float and long double.
_PATTERNS: Final = re.compile(
    r"_[_A-Z].*|u?int(_fast|_least)?\d+_t|u?int(max|ptr)_t|U?INT(_FAST|_LEAST)?\d+_(C|MIN|MAX)|U?INT(MAX|PTR)_\w+"
    r"|(CHAR|SCHAR|UCHAR|SHRT|USHRT|INT|UINT|LONG|ULONG|LLONG|ULLONG|SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)_(MIN|MAX)"
    r"|(FLT|DBL|LDBL|FP|M|MATH|SIG|LC)_[A-Z0-9_]+|(PRI|SCN)[a-zA-Z]\w*|SIG[A-Z]+"
)


def reserved(name: str, *, of_function: bool = False) -> bool:
    """Whether C has a meaning of its own for the name, as a keyword, a macro or an identifier of its library."""
    if name in KEYWORDS or name in LIBRARY or name in OURS or _PATTERNS.fullmatch(name):
        return True
    if name[-1:] in "fl" and name[:-1] in LIBRARY:
        return True
    return of_function and name in SYSTEM


OURS: Final = frozenset(
    [
        *("OUT_OF_MEMORY", "floor_div", "floor_mod", "saturating_sum", "saturating_product"),
        *(f"{kind}_{of}" for kind in ("min", "max", "abs") for of in ("float", "double", "int32", "int64")),
    ]
)
"""What generated code calls its own constants and helpers."""


def identifier(hint: str, *, of_function: bool = False) -> str:
    """The C identifier nearest to a hint: `int` becomes `int_`."""
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
    """The names in sight at a place of the code, by what they stand for."""

    of: dict[Hashable, str] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()

    def bind(self, key: Hashable, hint: str) -> tuple[str, Names]:
        """A name for a new thing, unlike all names in sight: `i`, or if that is taken `i2`, `i3`, …"""
        wanted = identifier(hint)
        name = wanted
        number = 2
        while name in self.taken or reserved(name):
            name = f"{wanted}_{number}" if wanted[-1].isdigit() else f"{wanted}{number}"
            number += 1
        return name, Names({**self.of, key: name}, self.taken | {name})

    def bind_all(self, hints: Iterable[tuple[Hashable, str]]) -> Names:
        names = self
        for key, hint in hints:
            _, names = names.bind(key, hint)
        return names
