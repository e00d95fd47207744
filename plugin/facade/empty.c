/* Nothing: what counts is what the library needs. */
typedef int terse_facade_is_empty;
