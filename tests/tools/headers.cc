// Nothing: a target whose precompiled headers the test programs take.
