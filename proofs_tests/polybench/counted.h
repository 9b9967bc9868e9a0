/* Numbers that count the operations on them. Included as C++ before a C text whose element type it replaces. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define restrict __restrict__

static int64_t operations;

template <class T> struct Counted {
    T value;
    Counted() = default;
    template <class S> Counted(S number) : value(T(number)) {}
    template <class S> explicit operator S() const { return S(value); }
    Counted &operator+=(Counted other) { return *this = *this + other; }
    Counted &operator-=(Counted other) { return *this = *this - other; }
    Counted &operator*=(Counted other) { return *this = *this * other; }
    Counted &operator/=(Counted other) { return *this = *this / other; }
    friend Counted operator-(Counted a) { return Counted(-a.value); }
#define OPERATOR(RESULT, SIGN) \
    friend RESULT operator SIGN(Counted a, Counted b) { operations++; return RESULT(a.value SIGN b.value); }
    OPERATOR(Counted, +) OPERATOR(Counted, -) OPERATOR(Counted, *) OPERATOR(Counted, /)
    OPERATOR(bool, <) OPERATOR(bool, <=) OPERATOR(bool, >) OPERATOR(bool, >=) OPERATOR(bool, ==) OPERATOR(bool, !=)
#undef OPERATOR
#define FUNCTION(NAME) \
    friend Counted NAME(Counted a) { operations++; return Counted(::NAME(a.value)); }
    FUNCTION(sqrt) FUNCTION(exp) FUNCTION(log) FUNCTION(fabs)
#undef FUNCTION
#define FUNCTION(NAME) \
    friend Counted NAME(Counted a, Counted b) { operations++; return Counted(::NAME(a.value, b.value)); }
    FUNCTION(fmax) FUNCTION(fmin) FUNCTION(pow)
#undef FUNCTION
};

extern "C" int64_t operation_count(void) { return operations; }
